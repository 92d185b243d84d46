/*
** Finished code with fewer passes over vectors: a load whose value is only read by operators,
** before anything is stored, need not copy. Its register may be the memory itself (ins.fn 1;
** lane_memory.c decides at run time).
*/
#include "kernel/lanes/lane_build.h"

typedef struct fuser {
  fl_lane_code *code;
  int32_t *defs, *last;            /* by register: how many instructions set it; its last use */
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
      if (reg >= 0) f->last[reg] = k;
    }
    if (jumps(p) && p->x >= 0) f->target[p->x] = 1;
  }
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
  const size_t bytes = 2 * regs * sizeof(int32_t) + ins;
  int32_t *space = fl_zalloc(c->mem, bytes);
  if (!space) return 0;
  fuser f = { .code = c, .defs = space, .last = space + regs,
              .target = (uint8_t *)(space + 2 * regs) };
  count(&f);
  for (int32_t k = 0; k < (int32_t)ins; k++)
    if (may_stay(&f, k)) c->ins.at[k].fn = 1;
  fl_free(c->mem, space, bytes);
  return 1;
}
