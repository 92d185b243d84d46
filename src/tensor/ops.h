/* Enum and descriptors derived from ops.def. FL_OP_exp etc. */
#ifndef FL_TENSOR_OPS_H
#define FL_TENSOR_OPS_H
#include <stdint.h>

#define UNARY(name, kind, value, grad, domain, doc) FL_OP_##name,
#define BINARY(name, kind, value, g1, g2, domain, doc) FL_OP_##name,
#define TERNARY(name, kind, value, g1, g2, g3, domain, doc) FL_OP_##name,
#define REDUCE(name, kind, init, value, grad, doc) FL_OP_##name,
#define SPECIAL(name, ...) FL_OP_##name,
typedef enum fl_op {
#include "tensor/ops.def"
  FL_OP_COUNT
} fl_op;

typedef enum { FL_FORM_UNARY, FL_FORM_BINARY, FL_FORM_TERNARY, FL_FORM_REDUCE,
               FL_FORM_SPECIAL } fl_form;
typedef enum { FL_KIND_FLOAT, FL_KIND_NUM, FL_KIND_SAME, FL_KIND_INT, FL_KIND_TEST, FL_KIND_WHERE,
               FL_KIND_SUMS, FL_KIND_POSITION, FL_KIND_NONE } fl_kind;
typedef enum { FL_FUSE_E, FL_FUSE_R, FL_FUSE_S, FL_FUSE_P, FL_FUSE_V } fl_fuse;

typedef struct fl_op_info {
  const char *name, *value, *init, *domain, *doc;   /* value, init: the text of ops.def */
  int8_t form, kind, nin, fuse;
  int8_t nograd;                                    /* the result is never tracked */
  int8_t inner;                                     /* it is recorded only by composites */
  uint8_t memory;                                   /* structural: inputs that must be in memory */
  const char *words; /* its attributes in a saved program, one letter each; NULL: none */
} fl_op_info;
extern const fl_op_info fl_ops[FL_OP_COUNT];
int fl_op_of_name(const char *name);                /* -1: none */
#endif
