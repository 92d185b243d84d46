/* The functions of builtins.def as a table: names, types, and texts of derivatives. */
#ifndef FL_KERNEL_BUILTINS_H
#define FL_KERNEL_BUILTINS_H
#include "kernel/tree/tree.h"

typedef enum {
#define FLOAT1(id, ...) FL_KB_##id,
#define FLOAT2 FLOAT1
#define FLOAT3 FLOAT1
#define FLOATI FLOAT1
#define TEST1 FLOAT1
#define INT1 FLOAT1
#define INT2 FLOAT1
#define BITS1 FLOAT1
#define BITS2 FLOAT1
#include "kernel/tree/builtins.def"
  FL_KB_COUNT
} fl_kbuiltin;

typedef enum { FL_KBR_FLOAT, FL_KBR_FLOATI, FL_KBR_TEST, FL_KBR_INT, FL_KBR_BITS } fl_kbrule;
typedef struct fl_kbuiltin_info {
  const char *id, *name32, *name64;   /* name32, name64: as builtins.def says; INT, BITS: one name
                                      ** in both */
  uint8_t n, rule, result, arg;       /* number of operands; fl_kbrule; fl_ktype of the result
                                      ** (BITS, TEST) and of the operands (BITS); else 0 */
  const char *d[3];                   /* derivative by each operand, as text; NULL: none */
} fl_kbuiltin_info;
extern const fl_kbuiltin_info fl_kbuiltins[FL_KB_COUNT];
#endif
