/*
** Changes finished code so that it passes over vectors fewer times. A load whose result only
** operators read, before anything is stored, need not copy: its register may be the memory itself
** (ins.fn 1; lane_memory.c decides at run time). A product of f32, and the sum that is its only
** use, become one pass, in which both are rounded as before. The loads for such products, and for
** other sums of f32, may leave out the copy too where each row of threads of the block reads
** consecutive elements, or one element (ins.fn 2 and 3).
*/
#include "kernel/lanes/lane_build.h"

typedef struct fuser {
  fl_lane_code *code;
  int32_t *defs, *last, *uses;     /* by register: how many instructions set it; the last one that
                                   ** reads it; its number of uses */
  int32_t *by_rows;                /* by register: uses by operators that read rows of memory */
  uint8_t *target;                 /* by instruction: jumped to */
} fuser;

static int jumps(const fl_lane_ins *p) {
  switch (p->op) {
    case FL_LI_JUMP: case FL_LI_LOOP: case FL_LI_UNLESS: case FL_LI_IF: case FL_LI_AND:
    case FL_LI_BACK: case FL_LI_RETURN: return 1;
    default: return 0;
  }
}

static void count(fuser *f) {
  const fl_lane_code *c = f->code;
  for (int32_t k = 0; k < (int32_t)c->ins.n; k++) {
    const fl_lane_ins *p = &c->ins.at[k];
    if (p->dst >= 0) f->defs[p->dst]++;
    for (int j = 0; j < fl_lane_n_operands(p); j++) {
      const int32_t reg = fl_lane_operand(c, p, j);
      if (reg < 0) continue;
      f->last[reg] = k;
      f->uses[reg]++;
    }
    if (jumps(p) && p->x >= 0) f->target[p->x] = 1;
  }
}

/* May the instruction at k be a load whose register points to the memory, so that nothing is
** copied? */
static int may_stay(const fuser *f, int32_t k) {
  const fl_lane_code *c = f->code;
  const fl_lane_ins *p = &c->ins.at[k];
  const fl_lane_array *a = &c->arrays[p->var];
  if (p->op != FL_LI_LOAD || p->x < 0 || !c->regs.at[p->dst].temporary || f->defs[p->dst] != 1)
    return 0;
  if ((a->kind != FL_KV_POINTER && a->kind != FL_KV_SHARED) ||
      fl_kt_size(a->type) != (a->wide ? 8 : 4)) return 0;
  for (int32_t j = k + 1; j <= f->last[p->dst]; j++) {
    const int op = c->ins.at[j].op;
    if (f->target[j] || (op != FL_LI_EVAL && op != FL_LI_EVAL_STORE && op != FL_LI_MULADD &&
                         op != FL_LI_INDEX && op != FL_LI_LOAD)) return 0;
  }
  return 1;
}

static int is_f32(const fl_lane_ins *p, int op) {
  return !p->once && p->fn == FL_LANE_FN(op[0][FL_LC_F32]) +
                                                     op * FL_LC_COUNT;
}

/* Marks the product at k as one that the next instruction adds or subtracts (FL_LI_MULADD), if
** so. */
static void pair(const fuser *f, int32_t k) {
  fl_lane_ins *p = &f->code->ins.at[k];
  const fl_lane_ins *q = p + 1;
  const int add = is_f32(q, FL_KO_ADD), minus = is_f32(q, FL_KO_SUB);
  if (p->op != FL_LI_EVAL || q->op != FL_LI_EVAL || !is_f32(p, FL_KO_MUL) || p->masked) return;
  if (!(add || minus) || f->target[k + 1]) return;
  if (!f->code->regs.at[p->dst].temporary || f->defs[p->dst] != 1 || f->uses[p->dst] != 1) return;
  if (q->b != p->dst && !(add && q->a == p->dst)) return;
  p->op = FL_LI_MULADD;
  p->sub = (uint8_t)(minus | (q->a == p->dst) << 1);
}

/* Does the instruction after the one at k store the result of that one, which nothing else reads,
** as floats without a conversion? */
static int is_stored(const fuser *f, int32_t k) {
  const fl_lane_code *c = f->code;
  const fl_lane_ins *p = &c->ins.at[k], *q = p + 1;
  if (p->op != FL_LI_EVAL || p->once || p->masked || q->op != FL_LI_STORE || f->target[k + 1])
    return 0;
  const fl_lane_array *a = &c->arrays[q->var];
  return q->b == p->dst && q->a != p->dst && q->x >= 0 && !q->once && f->defs[p->dst] == 1 &&
         f->uses[p->dst] == 1 && c->regs.at[p->dst].temporary && a->kind != FL_KV_ARRAY &&
         fl_kt_is_float(a->type) && fl_kt_size(a->type) == (a->wide ? 8 : 4);
}

/* Is the instruction at k a product that the next one adds (FL_LI_MULADD), or a sum or difference
** of two vectors by itself? */
static int reads_rows(const fl_lane_code *c, int32_t k) {
  const fl_lane_ins *p = &c->ins.at[k];
  if (p->op == FL_LI_MULADD) return 1;
  return (p->op == FL_LI_EVAL || p->op == FL_LI_EVAL_STORE) && !p->uni &&
         (is_f32(p, FL_KO_ADD) || is_f32(p, FL_KO_SUB)) &&
         !(k && c->ins.at[k - 1].op == FL_LI_MULADD);
}

/* May the result of the load at k stay in memory, as rows? 0: no; 1: one product that is added
** (FL_LI_MULADD) reads it, once; 2: other products, sums or differences of f32 read it. */
static int as_rows(const fuser *f, int32_t k) {
  const fl_lane_ins *p = &f->code->ins.at[k];
  if (f->by_rows[p->dst] != f->uses[p->dst] || f->code->arrays[p->var].type != FL_KT_F32) return 0;
  return 1 + !(f->uses[p->dst] == 1 && f->code->ins.at[f->last[p->dst]].op == FL_LI_MULADD);
}

static void find_rows(const fuser *f) {
  fl_lane_code *c = f->code;
  for (int32_t k = 0; k < (int32_t)c->ins.n; k++) {
    if (!reads_rows(c, k)) continue;
    f->by_rows[c->ins.at[k].a]++;
    f->by_rows[c->ins.at[k].b]++;
    if (c->ins.at[k].op != FL_LI_MULADD) c->ins.at[k].lazy = FL_LANE_LAZY_ROWS;
  }
  for (int32_t k = 0; k < (int32_t)c->ins.n; k++)
    if (may_stay(f, k)) c->ins.at[k].fn = 1 + as_rows(f, k);
}

int fl_lane_fuse(fl_lane_code *c) {
  const size_t regs = (size_t)c->regs.n, ins = (size_t)c->ins.n;
  const size_t bytes = 4 * regs * sizeof(int32_t) + ins;
  int32_t *space = fl_zalloc(c->mem, bytes);
  if (!space) return 0;
  fuser f = { .code = c, .defs = space, .last = space + regs,
              .uses = space + 2 * regs, .by_rows = space + 3 * regs,
              .target = (uint8_t *)(space + 4 * regs) };
  count(&f);
  for (int32_t k = 0; k + 1 < (int32_t)ins; k++) pair(&f, k);
  for (int32_t k = 0; k + 1 < (int32_t)ins; k++) {
    if (!is_stored(&f, k)) continue;
    if (k && c->ins.at[k - 1].op == FL_LI_MULADD) c->ins.at[k - 1].sub |= 4;
    else c->ins.at[k].op = FL_LI_EVAL_STORE;
  }
  find_rows(&f);
  fl_free(c->mem, space, bytes);
  return 1;
}
