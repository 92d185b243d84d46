/*
** Operations of a tile that go in one trip (vm_pair_loops.h): chains of sums, products and the like whose
** results nothing else reads, and the sum of a product. A trip over a tile costs as much as
** its store; the bits stay, as each operation rounds in either form.
*/
#include "cpu/cpu.h"

typedef struct fuse {
  fl_prog *g;
  fl_section *sec;
  int32_t *maker, *uses, *other;   /* per register: operation that makes it (-1), readings, those that are no links */
  int failed;
} fuse;

int fl_vop_reads(const fl_prog *g, const fl_vop *x, uint16_t v[FL_CHAIN]) {
  int n = 0;
  if (x->code == FL_V_CHAIN) {
    const fl_chain *c = &g->chain.at[x->arg];
    for (int i = 0; i < c->n; i++) if (c->link[i].v != FL_NO_REG) v[n++] = c->link[i].v;
    return n;
  }
  v[n++] = x->a;
  if (x->b != x->a) v[n++] = x->b;
  if (x->c != x->a && x->c != x->b) v[n++] = x->c;
  return n;
}

/* The link of an operation of its own on points, and of the same with operands exchanged; 0: none. */
static int link_of(const fuse *f, const fl_vop *x, int exchanged) {
  if (x->code > FL_V_ROWS || x->level != 1 || f->g->reg.at[x->v].kind != FL_KIND_FULL ||
      f->g->reg.at[x->a].reg > FL_REG_F32) return 0;
  switch (x->arg) {
    case FL_OP_add: return FL_LINK_add;
    case FL_OP_sub: return exchanged ? FL_LINK_rsub : FL_LINK_sub;
    case FL_OP_mul: return x->a == x->b ? FL_LINK_square : FL_LINK_mul;
    case FL_OP_div: return exchanged ? FL_LINK_rdiv : FL_LINK_div;
    case FL_OP_square: return FL_LINK_square;
    case FL_OP_neg: return FL_LINK_neg;
    case FL_OP_relu: return FL_LINK_relu;
    case FL_OP_sqrt: return FL_LINK_sqrt;
    default: return 0;
  }
}

static int is_alone(int link) { return link >= FL_LINK_square; }      /* without an operand */

/* The operation that makes v for one reader alone, or NULL. */
static fl_vop *only_for(const fuse *f, uint16_t v) {
  const fl_vreg *r = &f->g->reg.at[v];
  if (r->kind != FL_KIND_FULL || r->lives || f->uses[v] != 1 || f->maker[v] < 0) return NULL;
  return &f->sec->at[f->maker[v]];
}

/* A load of bf16 that chains may do themselves. */
static int is_half(const fuse *f, const fl_vop *x) {
  return x->code == FL_V_LOAD && x->reg == FLAME_BF16 && x->level == 1 && f->g->reg.at[x->v].kind == FL_KIND_FULL &&
         !f->g->reg.at[x->v].lives;
}

/* A sum, of products or not, whose operands are such loads: it reads them as they lie. */
static int sums_halves(const fuse *f, const fl_vop *x) {
  if (x->code != FL_V_REDUCE || f->g->red.at[x->arg].op != FL_OP_sum || f->g->red.at[x->arg].reg != FL_REG_F32) return 0;
  for (int k = 0; k < 2; k++) {
    const int32_t at = f->maker[k ? x->b : x->a];
    if (at < 0 || !is_half(f, &f->sec->at[at])) return 0;
  }
  return 1;
}

/* The rounding to bf16, in place, of what the operation before made. */
static int is_rounding(const fuse *f, const fl_vop *x) {
  return x->code == FL_V_MOVE && x->v == x->a && x->level == 1 && x->fn.move == f->g->vm->round[FLAME_BF16] &&
         f->g->reg.at[x->v].kind == FL_KIND_FULL;
}

static void count(fuse *f) {
  for (int64_t i = 0; i < f->g->reg.n; i++) {
    f->maker[i] = -1;
    f->uses[i] = f->other[i] = 0;
  }
  for (int64_t i = 0; i < f->sec->n; i++) {
    const fl_vop *x = &f->sec->at[i];
    uint16_t v[FL_CHAIN];
    if (x->code == FL_V_NONE || x->code == FL_V_LOAD || is_rounding(f, x)) {
      f->other[x->v] += x->code == FL_V_MOVE;
      f->maker[x->v] = x->code == FL_V_NONE ? -2 : x->code == FL_V_LOAD && is_half(f, x) ? (int32_t)i : f->maker[x->v];
      continue;
    }
    for (int k = 0, n = fl_vop_reads(f->g, x, v); k < n; k++) {
      f->uses[v[k]]++;
      f->other[v[k]] += !link_of(f, x, 0) && !sums_halves(f, x);
    }
    if (x->code == FL_V_STORE || x->code == FL_V_REDUCE) continue;
    f->maker[x->v] = f->maker[x->v] == -1 && x->code <= FL_V_ROWS ? (int32_t)i : -2;
  }
}

/* One reading of x's result less. */
static void drop(const fuse *f, fl_vop *x) {
  if (x->code == FL_V_LOAD || --f->uses[x->v] > 0) return;
  x->code = FL_V_NONE;
  f->maker[x->v] = -2;
}

static void sum_of_product(const fuse *f, fl_vop *x) {
  const fl_red *r = &f->g->red.at[x->arg];
  fl_vop *p = only_for(f, x->a);
  const int link = p && !p->uni ? link_of(f, p, 0) : 0;
  if (r->op != FL_OP_sum || r->reg > FL_REG_F32 || f->other[x->a] > 1 || (link != FL_LINK_square && link != FL_LINK_mul)) return;
  if (fl_ops[p->arg].form == FL_FORM_UNARY) p->b = p->a;
  x->a = p->a;
  x->b = x->c = p->b;
  x->flags = 1;
  drop(f, p);
}

/* ---- chains --------------------- */

static void add_link(fl_chain *c, int op, uint16_t v, int uni) {
  if (c->n < FL_CHAIN) {
    c->link[c->n].op = (uint8_t)op;
    c->link[c->n].v = v;
    c->link[c->n].uni = (uint8_t)(uni & 0x11);
    c->link[c->n].saved = c->n;
  }
  c->by_row |= (uni & 0x10) != 0;
  c->n++;                                      /* beyond FL_CHAIN: too long */
}

/* The links of what makes an operand; 0: it is made otherwise. */
static int links_of(const fuse *f, const fl_vop *p, fl_chain *c) {
  *c = (fl_chain){ .n = 0 };
  if (!p) return 0;
  if (p->code == FL_V_CHAIN) *c = f->g->chain.at[p->arg];
  else if (p->code == FL_V_LOAD) add_link(c, FL_LINK_load_half, p->v, 0);
  else if (link_of(f, p, 0)) {
    add_link(c, FL_LINK_load, p->a, p->uni);
    if (is_alone(link_of(f, p, 0))) add_link(c, link_of(f, p, 0), FL_NO_REG, 0);
    else add_link(c, link_of(f, p, 0), p->b, p->uni >> 1);
  }
  return c->n > 0;
}

static void append(fl_chain *c, const fl_chain *more) {
  const int at = c->n;
  for (int i = 0; i < more->n; i++) {
    add_link(c, more->link[i].op, more->link[i].v, more->link[i].uni);
    if (c->n <= FL_CHAIN) c->link[at + i].saved = (uint8_t)(more->link[i].saved + at);
  }
  c->by_row |= more->by_row;
}

/* What may become part of a chain that reads v: what that chain alone reads, or an operation that only
** chains read: to make it anew costs less than a trip. */
static fl_vop *part_for(const fuse *f, uint16_t v) {
  const fl_vreg *r = &f->g->reg.at[v];
  fl_vop *p = r->kind == FL_KIND_FULL && !r->lives && f->maker[v] >= 0 ? &f->sec->at[f->maker[v]] : NULL;
  if (p && p->code == FL_V_LOAD) return f->other[v] ? NULL : p;
  return p && (f->uses[v] == 1 || (!f->other[v] && p->code <= FL_V_ROWS)) ? p : NULL;
}

/* x with what makes its operands, as far as 'take' (1: a, 2: b) says; 0: too long. */
static int build(const fuse *f, const fl_vop *x, const fl_chain *a, const fl_chain *b, int take, fl_chain *c) {
  const int link = link_of(f, x, 0);
  *c = (fl_chain){ .reg = f->g->reg.at[x->a].reg };
  if (take == 3) {                             /* b's result waits for a's */
    append(c, b);
    const int saved = c->n;
    add_link(c, FL_LINK_save, FL_NO_REG, 0);
    append(c, a);
    add_link(c, link, FL_NO_REG, 0);
    if (c->n <= FL_CHAIN) c->link[c->n - 1].saved = (uint8_t)saved;
  } else if (take == 2) {
    append(c, b);
    add_link(c, link_of(f, x, 1), x->a, x->uni);
  } else {
    if (take) append(c, a);
    else add_link(c, FL_LINK_load, x->a, x->uni);
    if (is_alone(link)) add_link(c, link, FL_NO_REG, 0);
    else add_link(c, link, x->b, x->uni >> 1);
  }
  return c->n <= FL_CHAIN;
}

/* x becomes chain c. */
static int make_chain(fuse *f, fl_vop *x, const fl_chain *c) {
  fl_chain *to = FL_PUSH(f->g->mem, &f->g->chain);
  if (!to) {
    f->failed = 1;
    return 0;
  }
  *to = *c;
  x->code = FL_V_CHAIN;
  x->arg = (uint16_t)(f->g->chain.n - 1);
  x->uni = 0;
  return 1;
}

static void join(fuse *f, fl_vop *x) {
  const int link = link_of(f, x, 0);
  fl_chain a, b, c;
  if (!link) return;
  fl_vop *p = is_alone(link) || x->a != x->b ? part_for(f, x->a) : NULL;
  fl_vop *q = is_alone(link) || x->a == x->b ? NULL : part_for(f, x->b);
  int take = links_of(f, p, &a) | links_of(f, q, &b) << 1;
  while (!build(f, x, &a, &b, take, &c)) take = take == 3 ? 1 + (b.n > a.n) : 0;
  if (!take || !make_chain(f, x, &c)) return;
  if (take & 1) drop(f, p);
  if (take & 2) drop(f, q);
}

/* A rounding takes what it rounds along. */
static void join_rounding(fuse *f, fl_vop *x) {
  const int32_t at = f->maker[x->v];
  fl_chain c;
  f->maker[x->v] = -2;
  if (at < 0 || !links_of(f, &f->sec->at[at], &c)) return;
  c.reg = FL_REG_F32;
  add_link(&c, FL_LINK_round_half, FL_NO_REG, 0);
  if (c.n > FL_CHAIN || !make_chain(f, x, &c)) return;
  f->sec->at[at].code = FL_V_NONE;
  f->maker[x->v] = (int32_t)(x - f->sec->at);
}

/* Loads of bf16 that only chains and sums do stay undone; else these read what was loaded. */
static void settle_load(const fuse *f, fl_vop *load) {
  int others = 0;
  for (int pass = 0; pass < 2; pass++)
    for (int64_t i = 0; i < f->sec->n; i++) {
      fl_vop *x = &f->sec->at[i];
      fl_chain *c = x->code == FL_V_CHAIN ? &f->g->chain.at[x->arg] : NULL;
      if (!c && x->code != FL_V_NONE && x != load && !(x->code == FL_V_REDUCE && x->flags & FL_BY_HALVES))
        others |= x->a == load->v || x->b == load->v || x->c == load->v;
      for (int k = 0; c && k < c->n; k++) {
        if (c->link[k].v != load->v) continue;
        if (pass) c->link[k].op = others && c->link[k].op == FL_LINK_load_half ? FL_LINK_load : c->link[k].op;
        else others |= c->link[k].op != FL_LINK_load_half;
      }
    }
  if (!others) load->flags = FL_BY_HALVES;
}

static void fuse_section(fuse *f) {
  int64_t n = 0;
  count(f);
  for (int64_t i = 0; i < f->sec->n; i++)
    if (f->sec->at[i].code == FL_V_REDUCE) sum_of_product(f, &f->sec->at[i]);
  count(f);
  for (int64_t i = 0; i < f->sec->n; i++) {
    fl_vop *x = &f->sec->at[i];
    if (is_rounding(f, x)) join_rounding(f, x);
    else join(f, x);
  }
  for (int64_t i = 0; i < f->sec->n; i++) if (sums_halves(f, &f->sec->at[i])) f->sec->at[i].flags |= FL_BY_HALVES;
  for (int64_t i = 0; i < f->sec->n; i++) if (is_half(f, &f->sec->at[i])) settle_load(f, &f->sec->at[i]);
  for (int64_t i = 0; i < f->sec->n; i++)
    if (f->sec->at[i].code != FL_V_NONE) f->sec->at[n++] = f->sec->at[i];
  f->sec->n = n;
}

int fl_prog_fuse(fl_prog *g) {
  const size_t bytes = (size_t)g->reg.n * 3 * sizeof(int32_t) + 8;
  int32_t *work = fl_alloc(g->mem, bytes);
  if (!work) return 0;
  fuse f = { .g = g, .maker = work, .uses = work + g->reg.n, .other = work + 2 * g->reg.n };
  for (int r = 0; r <= g->rounds; r++) {
    f.sec = &g->sec[FL_SEC_FULL(r)];
    fuse_section(&f);
  }
  fl_free(g->mem, work, bytes);
  return !f.failed;
}
