/* Finds the thread blocks that fit the sizes of a kernel's shared arrays (blocks.h). */
#include "kernel/facts/blocks.h"
#include "kernel/facts/route.h"
#include <string.h>

typedef struct finder {
  fl_kindices *k;
  fl_kblocks *out;
  uint8_t asks[3];           /* by axis: it reads blockDim */
  int32_t line[3];           /* of the first threadIdx, by axis */
  int64_t room[3];           /* by axis: most threads that all arrays have room for; 0: unknown */
  const fl_kstmt *at;        /* the statement that is looked at */
} finder;

/* Whether an expression reads threadIdx or blockIdx, also through variables that have one value.
** depth: of the expressions and values around. */
typedef struct reading { const fl_kdefs *defs; uint8_t thread, block; int depth; } reading;

static void read_from(reading *r, const fl_kexpr *x) {
  if (!x || r->depth > 32) return;
  if (x->kind == FL_KX_SPECIAL) {
    r->thread |= x->op <= FL_KSPECIAL_TID_Z;
    r->block |= x->op >= FL_KSPECIAL_BID_X && x->op <= FL_KSPECIAL_BID_Z;
  }
  r->depth++;
  if (x->kind == FL_KX_VAR) read_from(r, fl_kdef_only(r->defs, x->var));
  for (int i = 0; i < x->n; i++) read_from(r, x->x[i]);
  r->depth--;
}

/* Does s stand under a condition that depends on threadIdx and not on blockIdx? (Then the size of
** the array may be that of the threads that pass.) */
static int is_guarded(const finder *f, const fl_kstmt *s) {
  fl_kroute r = { .k = f->k, .goal = s };
  if (!fl_kroute_find(&r)) return 1;
  for (int i = 0; i < r.n; i++) {
    reading x = { .defs = f->k->defs };
    read_from(&x, r.cond[i]);
    if (x.thread && !x.block) return 1;
  }
  return 0;
}

/* The number of threads along an axis for which array v has room, if its index is 'c' times
** threadIdx plus 'rest': counted in the outermost dimension whose stride is at most c. */
static int64_t threads_in(const fl_kvar *v, int64_t c, int64_t rest) {
  int64_t extent = v->count;               /* of that dimension, in elements */
  for (int d = 0; d + 1 < v->rank && v->dims[d] > 0 && extent / v->dims[d] > c; d++)
    extent /= v->dims[d];
  const int64_t last = extent - 1 - rest % extent;
  return last / c + 1;
}

static void look_at(finder *f, int32_t var, const fl_kexpr *index) {
  const fl_kvar *v = &f->k->f->vars[var];
  fl_kplace at;
  if (v->kind != FL_KV_SHARED || v->dynamic || v->count < 2 || is_guarded(f, f->at) ||
      !fl_kindex_place(f->k, f->at, &at)) return;
  fl_kpoly p = fl_kpoly_of(f->k, &at, index);
  if (p.bad) return;
  const int64_t rest = fl_kpoly_take_constant(&p);
  for (int i = 0; i < p.n; i++)
    if (rest < 0 || p.t[i].c <= 0 || p.t[i].n != 1 || p.t[i].s[0] > FL_KSPECIAL_TID_Z) return;
  for (int i = 0; i < p.n; i++) {
    const int axis = p.t[i].s[0] - FL_KSPECIAL_TID_X;
    const int64_t n = threads_in(v, p.t[i].c, rest);
    if (n > 0 && (!f->room[axis] || n < f->room[axis])) f->room[axis] = n;
  }
}

static int see_expr(void *arg, fl_kexpr *x) {
  finder *f = arg;
  if (x->kind == FL_KX_LOAD) look_at(f, x->var, x->x[0]);
  if (x->kind != FL_KX_SPECIAL) return 1;
  if (x->op >= FL_KSPECIAL_BDIM_X && x->op <= FL_KSPECIAL_BDIM_Z)
    f->asks[x->op - FL_KSPECIAL_BDIM_X] = 1;
  if (x->op > FL_KSPECIAL_TID_Z) return 1;
  const int axis = x->op - FL_KSPECIAL_TID_X;
  f->out->reads[axis] = 1;
  if (!f->line[axis]) f->line[axis] = x->line ? x->line : f->at->line;
  return 1;
}

static int see_stmt(void *arg, fl_kstmt *s) {
  finder *f = arg;
  f->at = s;
  if (fl_kwrites(s)) look_at(f, s->var, s->x[0]);
  return 1;
}

static int64_t power_below(int64_t n) {
  int64_t p = 1;
  while (2 * p <= n) p *= 2;
  return p;
}

static void settle(finder *f, int axis) {
  fl_kblocks *out = f->out;
  const int64_t n = f->room[axis], p = power_below(n);
  if (!out->reads[axis]) return;
  if (n && (p == n || f->asks[axis])) out->fixed[axis] = p;
  else if (!f->asks[axis] && out->axis < 0) {
    out->axis = axis;
    out->line = f->line[axis];
  }
}

int fl_kblocks_find(fl_mem *m, const fl_kfunc *f, fl_kblocks *out) {
  finder x = { .k = fl_kindices_new(m, f, 0), .out = out };
  const fl_kvisitor v = { see_stmt, see_expr, &x };
  *out = (fl_kblocks){ .axis = -1 };
  if (!x.k) return 0;
  fl_kwalk_block(&v, f->body);
  for (int axis = 0; axis < 3; axis++) settle(&x, axis);
  return fl_kindices_free(x.k);
}
