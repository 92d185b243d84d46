/*
** Operations of a tile that go in one trip (vm_pair_loops.h): a pair of sums, differences and products
** whose first result nothing else reads, and the sum of a product. A trip over a tile costs as
** much as its store; the bits stay, as each operation rounds in either form.
*/
#include "cpu/cpu.h"

enum { ALL_ROWS = 0x70 };          /* bits of operands with one element a row (FL_V_ROWS) */

typedef struct fuse {
  const fl_prog *g;
  fl_section *sec;
  int32_t *maker, *uses;           /* per register: operation that makes it (-1), readings */
} fuse;

/* FL_PAIR_* of an operation of its own on points; -1: none. */
static int basic(const fuse *f, const fl_vop *x, int *reg) {
  const fl_prog *g = f->g;
  if (x->code > FL_V_ROWS || x->level != 1 || g->reg.at[x->v].kind != FL_KIND_FULL) return -1;
  for (*reg = FL_REG_F64; *reg <= FL_REG_F32; ++*reg) {
    if (x->fn.op == g->vm->op[FL_OP_add][*reg]) return FL_PAIR_add;
    if (x->fn.op == g->vm->op[FL_OP_sub][*reg]) return FL_PAIR_sub;
    if (x->fn.op == g->vm->op[FL_OP_mul][*reg]) return FL_PAIR_mul;
  }
  return -1;
}

/* The operation that makes v for one reader alone, or NULL. */
static fl_vop *only_for(const fuse *f, uint16_t v) {
  const fl_vreg *r = &f->g->reg.at[v];
  if (r->kind != FL_KIND_FULL || r->lives || f->uses[v] != 1 || f->maker[v] < 0) return NULL;
  return &f->sec->at[f->maker[v]];
}

static void count(fuse *f) {
  for (int64_t i = 0; i < f->g->reg.n; i++) {
    f->maker[i] = -1;
    f->uses[i] = 0;
  }
  for (int64_t i = 0; i < f->sec->n; i++) {
    const fl_vop *x = &f->sec->at[i];
    f->uses[x->a]++;
    if (x->b != x->a) f->uses[x->b]++;
    if (x->c != x->a && x->c != x->b) f->uses[x->c]++;
    if (x->code == FL_V_STORE || x->code == FL_V_REDUCE) continue;
    f->maker[x->v] = f->maker[x->v] == -1 && x->code <= FL_V_ROWS ? (int32_t)i : -2;
  }
}

static void drop(const fuse *f, fl_vop *x) { x->code = FL_V_NONE; f->maker[x->v] = -2; }

static void sum_of_product(const fuse *f, fl_vop *x) {
  const fl_red *r = &f->g->red.at[x->arg];
  fl_vop *p = only_for(f, x->a);
  int reg;
  if (r->op != FL_OP_sum || !p || p->uni || p->level != 1) return;
  if (p->fn.op == f->g->vm->op[FL_OP_square][r->reg]) p->b = p->a;
  else if (basic(f, p, &reg) != FL_PAIR_mul || reg != r->reg) return;
  if (!f->g->vm->pairs->dot_rows[r->reg]) return;
  x->a = p->a;
  x->b = x->c = p->b;
  x->flags = 1;
  drop(f, p);
}

/* x reads p's result as its first (0) or second operand. */
static int join(const fuse *f, fl_vop *x, int second_at, int reg, int at) {
  int first_reg;
  fl_vop *p = only_for(f, at ? x->b : x->a);
  const int first = p && x->a != x->b ? basic(f, p, &first_reg) : -1;
  if (first < 0 || first_reg != reg) return 0;
  const int other = at ? x->uni & 0x11 : x->uni >> 1 & 0x11;
  fl_vop y = *x;
  y.a = p->a;
  y.b = p->b;
  y.c = at ? x->a : x->b;
  y.uni = (uint8_t)((p->uni & 0x33) | other << 2);
  y.code = y.uni & ALL_ROWS ? FL_V_ROWS : FL_V_OP;
  y.fn.op = f->g->vm->pairs->op[first][at && second_at == FL_PAIR_sub ? FL_PAIR_rsub : second_at][reg];
  drop(f, p);
  *x = y;
  return 1;
}

static void pair_up(const fuse *f, fl_vop *x) {
  int reg;
  const int second = basic(f, x, &reg);
  if (second >= 0 && !join(f, x, second, reg, 0)) join(f, x, second, reg, 1);
}

static void fuse_section(fuse *f) {
  int64_t n = 0;
  count(f);
  for (int64_t i = 0; i < f->sec->n; i++)
    if (f->sec->at[i].code == FL_V_REDUCE) sum_of_product(f, &f->sec->at[i]);
  for (int64_t i = 0; i < f->sec->n; i++) pair_up(f, &f->sec->at[i]);
  for (int64_t i = 0; i < f->sec->n; i++)
    if (f->sec->at[i].code != FL_V_NONE) f->sec->at[n++] = f->sec->at[i];
  f->sec->n = n;
}

int fl_prog_fuse(fl_prog *g) {
  const size_t bytes = (size_t)g->reg.n * 2 * sizeof(int32_t) + 8;
  int32_t *work = fl_alloc(g->mem, bytes);
  if (!work) return 0;
  fuse f = { .g = g, .maker = work, .uses = work + g->reg.n };
  for (int r = 0; r <= g->rounds; r++) {
    f.sec = &g->sec[FL_SEC_FULL(r)];
    fuse_section(&f);
  }
  fl_free(g->mem, work, bytes);
  return 1;
}
