/*
** Finished code with fewer passes over vectors, before registers get their slots:
** - a product that is only added to something, or subtracted from it, by the next instruction is
**   one instruction with that (rounded twice, as before: nothing is contracted);
** - a load whose value is only read by operators, before anything is stored, need not copy: its
**   register may be the memory itself (ins.fn 1; lane_memory.c decides at run time).
*/
#include "kernel/lanes/lane_build.h"
#include <string.h>

typedef struct fuser {
  fl_lane_code *code;
  int32_t *defs, *uses, *last;     /* by register: how many instructions, and the last use */
  uint8_t *target;                 /* by instruction: jumped to */
  int32_t *moved;                  /* by instruction: its new number */
} fuser;

static int jumps(const fl_lane_ins *p) {
  switch (p->op) {
    case FL_LI_JUMP: case FL_LI_LOOP: case FL_LI_UNLESS: case FL_LI_IF: case FL_LI_AND:
    case FL_LI_BACK: case FL_LI_RETURN: return 1;
    default: return 0;
  }
}

static void use(fuser *f, int32_t reg, int32_t at) {
  if (reg < 0) return;
  f->uses[reg]++;
  f->last[reg] = at;
}

static void count(fuser *f) {
  const fl_lane_code *c = f->code;
  for (int32_t k = 0; k < (int32_t)c->ins.n; k++) {
    const fl_lane_ins *p = &c->ins.at[k];
    if (p->dst >= 0) f->defs[p->dst]++;
    use(f, p->a, k);
    use(f, p->b, k);
    use(f, p->c, k);
    if (p->op == FL_LI_SHUFFLE) use(f, p->m, k);
    for (int j = 0; p->op == FL_LI_PRINTF && j < -1 - p->a; j++)
      use(f, c->operands.at[p->m + j], k);
    if (jumps(p)) f->target[p->x] = 1;
  }
}

static int of_class(const fl_lane_ins *p, int op) {
  return p->fn == FL_LANE_FN(op[0][0]) + op * FL_LC_COUNT + FL_LC_F64 ? 2
       : p->fn == FL_LANE_FN(op[0][0]) + op * FL_LC_COUNT + FL_LC_F32;
}

/* q, the instruction after the product p, with p in it; 0: they stay apart. */
static int fuse(const fuser *f, const fl_lane_ins *p, fl_lane_ins *q, int32_t at) {
  const fl_lane_reg *regs = f->code->regs.at;
  if (p->op != FL_LI_EVAL || q->op != FL_LI_EVAL || p->once || q->once || f->target[at]) return 0;
  const int kind = of_class(p, FL_KO_MUL), t = p->dst;
  if (!kind || !regs[t].temporary || f->defs[t] != 1 || f->uses[t] != 1) return 0;
  const int adds = of_class(q, FL_KO_ADD) == kind, subs = of_class(q, FL_KO_SUB) == kind;
  const int32_t other = q->a == t ? q->b : q->a;
  if (!adds && !(subs && q->b == t)) return 0;
  if (regs[other].uniform || (regs[p->a].uniform && regs[p->b].uniform)) return 0;
  q->fn = FL_LANE_FN(fused[0][0]) + 2 * (kind - 1) + !adds;
  q->a = regs[p->b].uniform ? p->b : p->a;                        /* the uniform one first */
  q->b = regs[p->b].uniform ? p->a : p->b;
  q->c = other;
  q->uni = regs[q->a].uniform;
  return 1;
}

static void fuse_products(fuser *f) {
  fl_lane_code *c = f->code;
  int32_t n = 0;
  for (int32_t k = 0; k < (int32_t)c->ins.n; k++) {
    const int last = k + 1 == (int32_t)c->ins.n;
    f->moved[k] = n;
    if (!last && fuse(f, &c->ins.at[k], &c->ins.at[k + 1], k + 1)) continue;
    c->ins.at[n++] = c->ins.at[k];
  }
  c->ins.n = n;
  for (int32_t k = 0; k < n; k++)
    if (jumps(&c->ins.at[k])) c->ins.at[k].x = f->moved[c->ins.at[k].x];
}

/* May the register of the load at k be memory? */
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
    if (f->target[j] || (op != FL_LI_EVAL && op != FL_LI_INDEX && op != FL_LI_LOAD)) return 0;
  }
  return 1;
}

int fl_lane_fuse(fl_lane_code *c) {
  const size_t regs = (size_t)c->regs.n, ins = (size_t)c->ins.n;
  const size_t bytes = (3 * regs + ins) * sizeof(int32_t) + ins;
  int32_t *space = fl_zalloc(c->mem, bytes);
  if (!space) return 0;
  fuser f = { .code = c, .defs = space, .uses = space + regs, .last = space + 2 * regs,
              .moved = space + 3 * regs, .target = (uint8_t *)(space + 3 * regs + ins) };
  count(&f);
  fuse_products(&f);
  memset(space, 0, bytes);
  count(&f);
  for (int32_t k = 0; k < (int32_t)c->ins.n; k++)
    if (may_stay(&f, k)) c->ins.at[k].fn = 1;
  fl_free(c->mem, space, bytes);
  return 1;
}
