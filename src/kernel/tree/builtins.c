/* The table of builtins.def. */
#include "kernel/tree/builtins.h"

const fl_kbuiltin_info fl_kbuiltins[FL_KB_COUNT] = {
#define FLOAT1(id, n32, n64, value, d0) \
  [FL_KB_##id] = { #id, n32, n64, 1, FL_KBR_FLOAT, 0, 0, { d0 } },
#define FLOAT2(id, n32, n64, value, d0, d1) \
  [FL_KB_##id] = { #id, n32, n64, 2, FL_KBR_FLOAT, 0, 0, { d0, d1 } },
#define FLOAT3(id, n32, n64, value, d0, d1, d2) \
  [FL_KB_##id] = { #id, n32, n64, 3, FL_KBR_FLOAT, 0, 0, { d0, d1, d2 } },
#define FLOATI(id, n32, n64, value, d0) \
  [FL_KB_##id] = { #id, n32, n64, 2, FL_KBR_FLOATI, 0, 0, { d0, "0" } },
#define TEST1(id, n32, n64, value) \
  [FL_KB_##id] = { #id, n32, n64, 1, FL_KBR_TEST, FL_KT_BOOL, 0, { "0" } },
#define INT1(id, name, value) [FL_KB_##id] = { #id, name, name, 1, FL_KBR_INT, 0, 0, { "0" } },
#define INT2(id, name, value) [FL_KB_##id] = { #id, name, name, 2, FL_KBR_INT, 0, 0, { "0", "0" } },
#define BITS1(id, name, R, A, value) \
  [FL_KB_##id] = { #id, name, name, 1, FL_KBR_BITS, FL_KT_##R, FL_KT_##A, { NULL } },
#define BITS2(id, name, R, A, value) \
  [FL_KB_##id] = { #id, name, name, 2, FL_KBR_BITS, FL_KT_##R, FL_KT_##A, { NULL, NULL } },
#include "kernel/tree/builtins.def"
};
