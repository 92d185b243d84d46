/*
** Removes from a kernel what would cost a pass over a tile without an effect: casts between types
** of one register, values computed twice, roundings that the store also does. It also moves narrow
** elements in words of eight bytes, where only their positions matter.
*/
#include "cpu/program/lower.h"
#include <assert.h>
#include <string.h>

enum { NEAR = 64 };               /* how many instructions back a copy is searched */

/* ---- values --------------------- */

typedef struct lean {
  fl_prog *g;
  fl_kernel *k;                   /* g->lean */
  uint16_t *at;                   /* at[v]: the number in the new kernel of the planner's value v */
  uint8_t *read;                  /* do instructions read it? */
} lean;

/* A value that is only stored stays as wide as its register: the stores round it themselves. */
static void widen(const lean *b, fl_instr *x) {
  static const uint8_t wide[] = { [FL_REG_F64] = FLAME_F64, [FL_REG_F32] = FLAME_F32,
                                  [FL_REG_I64] = FLAME_I64, [FL_REG_I32] = FLAME_I32 };
  const int reg = fl_dtype_reg(x->dtype), from = fl_dtype_reg(x->from);
  if (!b->g->vm->round[x->dtype]) return;
  if (x->code == FL_I_OP ? fl_ops[x->op].kind != FL_KIND_TEST && x->dtype != FLAME_BOOL
                         : x->code == FL_I_CAST &&
                         (from == reg || (from == FL_REG_F64 && reg == FL_REG_F32)))
    x->dtype = wide[reg];
}

static int is_same(const lean *b, const fl_instr *x) {
  return x->code == FL_I_CAST && fl_dtype_reg(x->from) == fl_dtype_reg(x->dtype) &&
         !b->g->vm->round[x->dtype];
}

/* One of the last NEAR instructions that does the same as x, an op or a cast; -1: none. */
static int made_before(const lean *b, const fl_instr *x) {
  const int n = b->k->ninstr, count = fl_operand_count(x);
  if (x->code != FL_I_OP && x->code != FL_I_CAST) return -1;
  for (int i = n - 1; i >= 0 && i >= n - NEAR; i--) {
    const fl_instr *y = &b->k->instr[i];
    if (y->code == x->code && y->dtype == x->dtype && y->from == x->from && y->op == x->op &&
        y->a == x->a && (count < 2 || y->b == x->b) && (count < 3 || y->c == x->c)) return i;
  }
  return -1;
}

static void take(lean *b, const fl_instr *from, int i) {
  fl_instr x = from[i];
  uint16_t *in[3] = { &x.a, &x.b, &x.c };
  const int n = fl_operand_count(&x);
  assert(n <= 3);
  for (int j = 0; j < n; j++) *in[j] = b->at[*in[j]];
  if (!b->read[i]) widen(b, &x);
  const int before = is_same(b, &x) ? x.a : made_before(b, &x);
  b->at[i] = (uint16_t)(before >= 0 ? before : b->k->ninstr);
  if (before < 0) b->k->instr[b->k->ninstr++] = x;
}

static void take_all(lean *b, const fl_kernel *k) {
  for (int i = 0; i < k->ninstr; i++) {
    const fl_instr *x = &k->instr[i];
    const uint16_t in[3] = { x->a, x->b, x->c };
    const int n = fl_operand_count(x);
    assert(n <= 3);
    for (int j = 0; j < n; j++) b->read[in[j]] = 1;
  }
  b->k->ninstr = 0;
  for (int i = 0; i < k->ninstr; i++) take(b, k->instr, i);
  for (int s = 0; s < k->nstore; s++) {
    b->k->store[s] = k->store[s];
    b->k->store[s].value = b->at[k->store[s].value];
  }
}

/* ---- moves --------------------- */

static int is_narrow(const fl_operand *o) {
  return (o->reads || o->writes) && fl_dtype_size(o->dtype) < 4;
}

/* Bytes of the words in which all narrow elements of a MAP (an elementwise kernel), of one type,
** can move: 8, 4, or 0. */
static int word_size(const fl_kernel *k) {
  const int last = k->nkept - 1;
  int dtype = -1;
  if (k->kind != FL_K_MAP || last < 0) return 0;
  for (int i = 0; i < k->ninstr; i++) {
    const fl_instr *x = &k->instr[i];
    const int moved = x->code == FL_I_LOAD || x->code == FL_I_GATHER;
    if (x->dtype != FLAME_I64 && !(moved && fl_dtype_size(x->dtype) < 4)) return 0;
  }
  for (int i = 0; i < k->noperand; i++) {
    const fl_operand *o = &k->operand[i];
    if (!is_narrow(o)) {
      if (o->writes || o->stride[last]) return 0;
      continue;
    }
    if (!o->aligned16 || o->stride[last] != 1 || o->gstride * fl_dtype_size(o->dtype) % 16 ||
        (dtype >= 0 && dtype != o->dtype)) return 0;
    dtype = o->dtype;
  }
  const int64_t bytes = dtype < 0 ? 0 : k->size[last] * fl_dtype_size(dtype);
  return bytes == 0 ? 0 : bytes % 8 == 0 ? 8 : bytes % 4 == 0 ? 4 : 0;
}

static void move_words(fl_kernel *k, int word) {
  const int last = k->nkept - 1, dtype = word == 8 ? FLAME_I64 : FLAME_I32;
  int64_t per = 1;
  for (int i = 0; i < k->noperand; i++) {
    fl_operand *o = &k->operand[i];
    if (!is_narrow(o)) continue;
    per = word / fl_dtype_size(o->dtype);
    for (int d = 0; d < last; d++) o->stride[d] /= per;
    o->offset /= per;
    o->gstride /= per;
    o->dtype = (uint8_t)dtype;
  }
  for (int i = 0; i < k->ninstr; i++)
    if (fl_dtype_size(k->instr[i].dtype) < 4) k->instr[i].dtype = (uint8_t)dtype;
  k->size[last] /= per;
  k->points /= per;
  k->rows /= per;
}

/* ---- the kernel --------------------- */

static size_t lean_bytes(const fl_kernel *k) {
  return sizeof(fl_operand) * k->noperand + sizeof(fl_instr) * k->ninstr +
         sizeof(fl_store) * k->nstore + 64;
}

int fl_prog_lean(fl_prog *g, const fl_kernel *k) {
  const size_t n = k->ninstr, bytes = n * 3 + 64;
  char *work = fl_zalloc(g->mem, bytes);
  lean b = { .g = g, .k = &g->lean };
  g->lean_bytes = lean_bytes(k);
  g->lean_at = fl_alloc(g->mem, g->lean_bytes);
  if (work && g->lean_at) {
    g->lean = *k;
    g->lean.operand = g->lean_at;
    g->lean.instr = (fl_instr *)(void *)(g->lean.operand + k->noperand);
    g->lean.store = (fl_store *)(void *)(g->lean.instr + n);
    memcpy(g->lean.operand, k->operand, sizeof *k->operand * k->noperand);
    b.at = (uint16_t *)(void *)work;
    b.read = (uint8_t *)(b.at + n);
    take_all(&b, k);
    const int word = word_size(b.k);
    if (word) move_words(b.k, word);
    g->k = b.k;
  }
  if (work) fl_free(g->mem, work, bytes);
  return work && g->lean_at;
}
