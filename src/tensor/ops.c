/*
** The descriptors of ops.def. The value texts are taken as they stand there: they reach
** NVRTC and the generated CPU loops unexpanded, so this file must not see a macro M
** (tensor/math.h is not included here).
** nograd is true where every gradient of the line is NOGRAD, and for structural ops without inputs:
** such a result is never tracked.
*/
#include "tensor/ops.h"
#include <string.h>

#ifdef M
#error "ops.c stringifies value texts: M must not be a macro here"
#endif

/* NOGRAD puts a 1 where PICK looks; any other gradient is one argument and leaves the 0. */
#undef NOGRAD
#define NOGRAD ~, 1
#define PICK(gradient, found, ...) found
#define NONE(...) PICK(__VA_ARGS__, 0, 0)

#define UNARY(name, kind, value, grad, domain, doc) \
  { #name, #value, NULL, #domain, doc, FL_FORM_UNARY, FL_KIND_##kind, 1, FL_FUSE_E, \
    NONE(grad), 0, 0, NULL },
#define BINARY(name, kind, value, g1, g2, domain, doc) \
  { #name, #value, NULL, #domain, doc, FL_FORM_BINARY, FL_KIND_##kind, 2, FL_FUSE_E, \
    NONE(g1) && NONE(g2), 0, 0, NULL },
#define INNER_UNARY(name, kind, value, grad, domain, doc) \
  { #name, #value, NULL, #domain, doc, FL_FORM_UNARY, FL_KIND_##kind, 1, FL_FUSE_E, 0, 1, 0, NULL },
#define INNER_BINARY(name, kind, value, g1, g2, domain, doc) \
  { #name, #value, NULL, #domain, doc, FL_FORM_BINARY, FL_KIND_##kind, 2, FL_FUSE_E, \
    0, 1, 0, NULL },
#define TERNARY(name, kind, value, g1, g2, g3, domain, doc) \
  { #name, #value, NULL, #domain, doc, FL_FORM_TERNARY, FL_KIND_##kind, 3, FL_FUSE_E, \
    NONE(g1) && NONE(g2) && NONE(g3), 0, 0, NULL },
#define REDUCE(name, kind, init, value, grad, doc) \
  { #name, #value, #init, "REALS", doc, FL_FORM_REDUCE, FL_KIND_##kind, 1, FL_FUSE_R, NONE(grad), \
    0, 0, NULL },
#define SPECIAL(name, nin, fusion, memory, reads, words, made, doc) \
  { #name, NULL, NULL, NULL, doc, FL_FORM_SPECIAL, FL_KIND_NONE, nin, FL_FUSE_##fusion, nin == 0, \
    0, memory, words },

const fl_op_info fl_ops[FL_OP_COUNT] = {
#include "tensor/ops.def"
};

int fl_op_of_name(const char *name) {
  if (!name) return -1;
  for (int op = 0; op < FL_OP_COUNT; op++)
    if (strcmp(fl_ops[op].name, name) == 0) return op;
  return -1;
}
