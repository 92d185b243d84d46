/* The functions of flame.h that are lines of ops.def: flame_exp(x), flame_sum(x, naxes, …). */
#include "tensor/public.h"

#define UNARY(name, kind, value, grad, domain, doc) \
  flame_tensor *flame_##name(flame_tensor *x) { return fl_public_unary(FL_OP_##name, x); }
#define BINARY(name, kind, value, g1, g2, domain, doc) \
  flame_tensor *flame_##name(flame_tensor *x1, flame_tensor *x2) { \
    return fl_public_binary(FL_OP_##name, x1, x2); \
  }
#define TERNARY(name, kind, value, g1, g2, g3, domain, doc) \
  flame_tensor *flame_##name(flame_tensor *x1, flame_tensor *x2, flame_tensor *x3) { \
    return fl_public_ternary(FL_OP_##name, x1, x2, x3); \
  }
#define REDUCE(name, kind, init, value, grad, doc) \
  flame_tensor *flame_##name(flame_tensor *x, int naxes, const int *axes, int keepdim) { \
    return fl_public_reduce(FL_OP_##name, x, naxes, axes, keepdim); \
  }
#define SPECIAL(...)
#define INNER_UNARY(name, kind, value, grad, domain, doc)
#define INNER_BINARY(name, kind, value, g1, g2, domain, doc)
#include "tensor/ops.def"
