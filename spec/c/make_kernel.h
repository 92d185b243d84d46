/*
** Builds kernels by hand, as the planner would, for tests of cuda/text/. First mk_begin with the
** sizes, then operands with row-major strides over chosen dims, then instructions; each call
** returns the number of its operand or value.
*/
#ifndef FL_SPEC_MAKE_KERNEL_H
#define FL_SPEC_MAKE_KERNEL_H
#include "cuda/text/text.h"
#include "tensor/node.h"
#include <string.h>

typedef struct maker {
  fl_kernel k;
  fl_instr instr[FL_MAX_INSTR];
  fl_operand operand[FL_MAX_OPERANDS];
  fl_store store[FL_MAX_OPERANDS];
  uint32_t scalar[FL_MAX_SCALARS];
  int64_t elements[FL_MAX_OPERANDS];       /* [o]: elements of operand o's memory */
} maker;

static inline void mk_begin(maker *m, int kind, int nkept, int nred, const int64_t *size) {
  memset(m, 0, sizeof *m);
  m->k.room = 227 << 10;                                           /* bytes per block on an H200 */
  m->k.kind = (uint8_t)kind;
  m->k.nkept = (uint8_t)nkept;
  m->k.nred = (uint8_t)nred;
  m->k.points = m->k.rows = m->k.n = 1;
  for (int d = 0; d < nkept + nred; d++) {
    m->k.size[d] = size[d];
    m->k.points *= size[d];
    if (d < nkept) m->k.rows *= size[d];
    else m->k.n *= size[d];
  }
  m->k.instr = m->instr;
  m->k.operand = m->operand;
  m->k.store = m->store;
  m->k.scalar = m->scalar;
}

/* Adds an operand that has the dims of the bit set 'mask'. 'order' lists all dims from the slowest
** to the fastest in memory (NULL: row-major). */
static inline int mk_operand(maker *m, int dtype, unsigned mask, const int *order) {
  const int o = m->k.noperand++, dims = m->k.nkept + m->k.nred;
  fl_operand *x = &m->operand[o];
  int64_t step = 1;
  x->place.where = FL_AT_EXT;
  x->place.index = o;
  x->dtype = (uint8_t)dtype;
  x->aligned16 = 1;
  for (int i = dims - 1; i >= 0; i--) {
    const int d = order ? order[i] : i;
    if (!(mask >> d & 1)) continue;
    x->stride[d] = step;
    step *= m->k.size[d];
  }
  m->elements[o] = step;
  return o;
}

static inline int mk_instr(maker *m, int code, int dtype, int from, int level) {
  const int v = m->k.ninstr++;
  m->instr[v] = (fl_instr){ .code = (uint8_t)code, .dtype = (uint8_t)dtype, .from = (uint8_t)from,
                            .level = (uint8_t)level };
  return v;
}

static inline int mk_load(maker *m, int o, int level) {
  const int v = mk_instr(m, FL_I_LOAD, m->operand[o].dtype, m->operand[o].dtype, level);
  m->instr[v].arg = (uint16_t)o;
  m->operand[o].reads = 1;
  return v;
}

static inline int mk_scalar(maker *m, int dtype) {
  const int v = mk_instr(m, FL_I_SCALAR, dtype, dtype, m->k.kind == FL_K_MAP);
  m->instr[v].arg = m->k.nscalar;
  m->scalar[m->k.nscalar] = m->k.nscalar;
  m->k.nscalar++;
  return v;
}

static inline int mk_level(const maker *m, int a, int b, int c) {
  return m->k.kind == FL_K_MAP || m->instr[a].level || m->instr[b].level || m->instr[c].level;
}

static inline int mk_op(maker *m, int op, int dtype, int a, int b, int c) {
  const int from = m->instr[fl_ops[op].kind == FL_KIND_WHERE ? b : a].dtype;
  const int v = mk_instr(m, FL_I_OP, dtype, from, mk_level(m, a, b, c));
  m->instr[v].op = (uint16_t)op;
  m->instr[v].a = (uint16_t)a;
  m->instr[v].b = (uint16_t)b;
  m->instr[v].c = (uint16_t)c;
  return v;
}

static inline int mk_cast(maker *m, int dtype, int a) {
  const int v = mk_instr(m, FL_I_CAST, dtype, m->instr[a].dtype, mk_level(m, a, a, a));
  m->instr[v].a = (uint16_t)a;
  return v;
}

static inline int mk_reduce(maker *m, int op, int dtype, int a) {
  const int v = mk_instr(m, FL_I_REDUCE, dtype, m->instr[a].dtype, 0);
  m->instr[v].op = (uint16_t)op;
  m->instr[v].a = (uint16_t)a;
  return v;
}

static inline int mk_iota(maker *m, unsigned mask) {
  const int o = mk_operand(m, FLAME_I64, mask, NULL);
  const int v = mk_instr(m, FL_I_IOTA, FLAME_I64, FLAME_I64, 1);
  m->instr[v].arg = (uint16_t)o;
  return v;
}

static inline int mk_index(maker *m, int a, int size, int position, int flags) {
  const int v = mk_instr(m, FL_I_INDEX, FLAME_I64, FLAME_I64, mk_level(m, a, a, a));
  m->instr[v].a = (uint16_t)a;
  m->instr[v].b = (uint16_t)size;
  m->instr[v].c = (uint16_t)position;
  m->instr[v].op = (uint16_t)flags;
  m->instr[v].arg = 3;
  return v;
}

static inline int mk_gather(maker *m, int o, int index, int level) {
  const int v = mk_instr(m, FL_I_GATHER, m->operand[o].dtype, m->operand[o].dtype, level);
  m->instr[v].arg = (uint16_t)o;
  m->instr[v].a = (uint16_t)index;
  return v;
}

static inline int mk_random(maker *m, int op, int dtype, int index, int low, int high) {
  const int v = mk_instr(m, FL_I_RANDOM, dtype, dtype, 1);
  m->instr[v].op = (uint16_t)op;
  m->instr[v].a = (uint16_t)index;
  m->instr[v].b = (uint16_t)low;
  m->instr[v].c = (uint16_t)high;
  m->instr[v].arg = m->k.nscalar;
  for (int s = 0; s < 2; s++, m->k.nscalar++) m->scalar[m->k.nscalar] = m->k.nscalar;
  return v;
}

static inline int mk_store(maker *m, int v, int o) {
  m->store[m->k.nstore++] = (fl_store){ (uint16_t)v, (uint16_t)o, 0 };
  m->operand[o].writes = 1;
  return o;
}

/* Adds a store of value v to a new operand that has the dims of the bit set 'mask'. */
static inline int mk_out(maker *m, int v, unsigned mask) {
  return mk_store(m, v, mk_operand(m, m->instr[v].dtype, mask, NULL));
}
#endif
