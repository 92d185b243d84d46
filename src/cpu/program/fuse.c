/*
** Operations that are done in one pass over a tile (vm_pair_loops.h): chains of sums, products and
** so on whose results nothing else reads, and the sum of a product. A pass over a tile costs as
** much as its store; the bits are the same, since each operation rounds in either form.
*/
#include "cpu/program/program.h"

typedef struct fuse {
  fl_prog *g;
  fl_section *sec;
  int32_t *maker, *uses, *other;   /* per register: the operation that computes it (-1: none; -2:
                                   ** none that a chain may include), the number of its readers, and
                                   ** of those among them that can not be links of a chain
                                   ** (operations done in one pass) */
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

/* The link (FL_LINK_*) of a chain (operations done in one pass) that does x, an operation on
** points; exchanged: with x's operands exchanged. 0: none. */
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
    case FL_OP_maximum: return FL_LINK_max;
    case FL_OP_minimum: return FL_LINK_min;
    default: return 0;
  }
}

/* The link of a chain (FL_LINK_*) that does x, a comparison of points; exchanged: with x's operands
** exchanged. 0: none. */
static int test_of(const fuse *f, const fl_vop *x, int exchanged) {
  if (x->code > FL_V_ROWS || x->level != 1 || f->g->reg.at[x->v].kind != FL_KIND_FULL ||
      f->g->reg.at[x->a].reg > FL_REG_F32) return 0;
  switch (x->arg) {
    case FL_OP_gt: return exchanged ? FL_LINK_lt : FL_LINK_gt;
    case FL_OP_ge: return exchanged ? FL_LINK_le : FL_LINK_ge;
    case FL_OP_lt: return exchanged ? FL_LINK_gt : FL_LINK_lt;
    case FL_OP_le: return exchanged ? FL_LINK_ge : FL_LINK_le;
    case FL_OP_eq: return FL_LINK_eq;
    case FL_OP_ne: return FL_LINK_ne;
    default: return 0;
  }
}

/* Is x the operation 'op', of three operands, on points? */
static int is_ternary(const fuse *f, const fl_vop *x, int op) {
  return x->code <= FL_V_ROWS && x->arg == op && x->level == 1 &&
         f->g->reg.at[x->v].kind == FL_KIND_FULL && f->g->reg.at[x->b].reg <= FL_REG_F32;
}

/* If x is a 'where' whose comparison a chain (operations done in one pass) can do, the operation
** that compares; else NULL. */
static fl_vop *tested(const fuse *f, const fl_vop *x) {
  fl_vop *t = is_ternary(f, x, FL_OP_where) && f->maker[x->a] >= 0
              ? &f->sec->at[f->maker[x->a]] : NULL;
  return t && test_of(f, t, 0) && f->g->reg.at[t->a].reg == f->g->reg.at[x->b].reg ? t : NULL;
}

static int is_alone(int link) { return link >= FL_LINK_square; }      /* without an operand */

/* The operation that computes v for a single reader, or NULL. */
static fl_vop *only_for(const fuse *f, uint16_t v) {
  const fl_vreg *r = &f->g->reg.at[v];
  if (r->kind != FL_KIND_FULL || r->lives || f->uses[v] != 1 || f->maker[v] < 0) return NULL;
  return &f->sec->at[f->maker[v]];
}

/* Is x a load of bf16 that chains may do themselves? */
static int is_half(const fuse *f, const fl_vop *x) {
  return x->code == FL_V_LOAD && x->reg == FLAME_BF16 && x->level == 1 &&
         f->g->reg.at[x->v].kind == FL_KIND_FULL && !f->g->reg.at[x->v].lives;
}

/* Is x a sum, or a sum of products, whose operands are all loads of bf16 (is_half)? It then reads
** bf16 itself. */
static int sums_halves(const fuse *f, const fl_vop *x) {
  if (x->code != FL_V_REDUCE || f->g->red.at[x->arg].op != FL_OP_sum ||
      f->g->red.at[x->arg].reg != FL_REG_F32)
    return 0;
  for (int k = 0; k < 2; k++) {
    const int32_t at = f->maker[k ? x->b : x->a];
    if (at < 0 || !is_half(f, &f->sec->at[at])) return 0;
  }
  return 1;
}

/* Is x the rounding to bf16, in place, of the previous operation's result? */
static int is_rounding(const fuse *f, const fl_vop *x) {
  return x->code == FL_V_MOVE && x->v == x->a && x->level == 1 &&
         x->fn.move == f->g->vm->round[FLAME_BF16] && f->g->reg.at[x->v].kind == FL_KIND_FULL;
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
      f->maker[x->v] = x->code == FL_V_NONE ? -2 : x->code == FL_V_LOAD && is_half(f, x)
                       ? (int32_t)i : f->maker[x->v];
      continue;
    }
    const int linked = link_of(f, x, 0) || is_ternary(f, x, FL_OP_clamp) || tested(f, x) ||
                       sums_halves(f, x);
    for (int k = 0, n = fl_vop_reads(f->g, x, v); k < n; k++) {
      f->uses[v[k]]++;
      f->other[v[k]] += !linked;
    }
    if (x->code == FL_V_STORE || x->code == FL_V_REDUCE) continue;
    f->maker[x->v] = f->maker[x->v] == -1 && x->code <= FL_V_ROWS ? (int32_t)i : -2;
  }
  for (int64_t i = 0; i < f->sec->n; i++) {          /* a test that only one 'where' reads is done
                                                     ** in its chain: the test then is no other
                                                     ** reader of its operands */
    const fl_vop *x = &f->sec->at[i], *t = tested(f, x);
    if (!t || f->uses[t->v] != 1) continue;
    f->other[t->a]--;
    if (t->b != t->a) f->other[t->b]--;
  }
}

/* One operation less reads x's result: x is removed if that was the last. Loads stay as they are
** (settle_load decides about them). */
static void drop(const fuse *f, fl_vop *x) {
  if (x->code == FL_V_LOAD || --f->uses[x->v] > 0) return;
  x->code = FL_V_NONE;
  f->maker[x->v] = -2;
}

static void sum_of_product(const fuse *f, fl_vop *x) {
  const fl_red *r = &f->g->red.at[x->arg];
  fl_vop *p = only_for(f, x->a);
  const int link = p && !p->uni ? link_of(f, p, 0) : 0;
  if (r->op != FL_OP_sum || r->reg > FL_REG_F32 || f->other[x->a] > 1 ||
      (link != FL_LINK_square && link != FL_LINK_mul))
    return;
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

/* c = the links of a chain (operations done in one pass) that computes operand p; 0: there is
** none. */
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

/* Appends to c the links of 'more', from number 'first' on. */
static void append_from(fl_chain *c, const fl_chain *more, int first) {
  const int at = c->n - first;
  for (int i = first; i < more->n; i++) {
    add_link(c, more->link[i].op, more->link[i].v, more->link[i].uni);
    if (c->n <= FL_CHAIN) c->link[at + i].saved = (uint8_t)(more->link[i].saved + at);
  }
  c->by_row |= more->by_row;
}

static void append(fl_chain *c, const fl_chain *more) { append_from(c, more, 0); }

/* The operation that makes v, if it may become part of the chain (operations done in one pass) that
** reads v: nothing else reads v, or only chains do (computing v again for each costs less than a
** pass). NULL: it may not. */
static fl_vop *part_for(const fuse *f, uint16_t v) {
  const fl_vreg *r = &f->g->reg.at[v];
  fl_vop *p = r->kind == FL_KIND_FULL && !r->lives && f->maker[v] >= 0
              ? &f->sec->at[f->maker[v]] : NULL;
  if (p && p->code == FL_V_LOAD) return f->other[v] ? NULL : p;
  return p && (f->uses[v] == 1 || (!f->other[v] && p->code <= FL_V_ROWS)) ? p : NULL;
}

/* Builds the chain of x, including the operations of those operands that 'take' selects (1: a, 2:
** b); 0: too long. */
static int build(const fuse *f, const fl_vop *x, const fl_chain *a, const fl_chain *b, int take,
                 fl_chain *c) {
  const int link = link_of(f, x, 0);
  *c = (fl_chain){ .reg = f->g->reg.at[x->a].reg };
  if (take == 3) {                             /* b's result is saved while a's is computed */
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

static void join_clamp(fuse *f, fl_vop *x) {
  fl_chain a, c;
  fl_vop *p = part_for(f, x->a);
  int take = links_of(f, p, &a) && a.n + 2 <= FL_CHAIN;
  c = (fl_chain){ .reg = f->g->reg.at[x->a].reg };
  if (take) append(&c, &a);
  else add_link(&c, FL_LINK_load, x->a, x->uni);
  add_link(&c, FL_LINK_max, x->b, x->uni >> 1);
  add_link(&c, FL_LINK_min, x->c, x->uni >> 2);
  if (make_chain(f, x, &c) && take) drop(f, p);
}

/* ---- choices --------------------- */

typedef struct choice {               /* x: where(u test v, a, b), and the links of each part; one
                                      ** without links is a register */
  const fl_vop *x, *test;
  fl_chain u, v, a, b;
} choice;

static int has_test(const fl_chain *c) {
  for (int i = 0; i < c->n; i++)
    if (c->link[i].op >= FL_LINK_gt && c->link[i].op <= FL_LINK_ne) return 1;
  return 0;
}

static void append_or_load(fl_chain *c, const fl_chain *part, uint16_t v, int uni) {
  if (part->n) append(c, part);
  else add_link(c, FL_LINK_load, v, uni);
}

/* Appends a part after a test of x: if the part begins with a load of x, that value need not be
** loaded again. */
static void go_on(fl_chain *c, const fl_chain *part, uint16_t v, int uni, uint16_t x) {
  const int at = part->n && part->link[0].op == FL_LINK_load ? part->link[0].v : part->n
                 ? FL_NO_REG : v;
  if (at != x || x == FL_NO_REG) append_or_load(c, part, v, uni);
  else if (part->n) append_from(c, part, 1);
}

/* Builds the chain of a choice. A test is valid only until the next one: so a value that contains a
** test comes first and is saved, as is b if both are chains. 0: too long, or both contain tests. */
static int build_choice(const fuse *f, const choice *w, fl_chain *c) {
  const fl_vop *x = w->x, *t = w->test;
  const int early = has_test(&w->a) ? 1 : w->b.n && (w->a.n || has_test(&w->b)) ? 2 : 0;
  *c = (fl_chain){ .reg = f->g->reg.at[x->b].reg };
  if (has_test(&w->a) && has_test(&w->b)) return 0;
  if (early) append(c, early == 1 ? &w->a : &w->b);
  const int saved = c->n;
  if (early) add_link(c, FL_LINK_save, FL_NO_REG, 0);
  if (w->v.n) {
    append(c, &w->v);
    add_link(c, test_of(f, t, 1), t->a, t->uni);
  } else {
    append_or_load(c, &w->u, t->a, t->uni);
    add_link(c, test_of(f, t, 0), t->b, t->uni >> 1);
  }
  /* 1: after the test b is computed, and a replaces it where the test holds; 0: a is computed, and
  ** b replaces it elsewhere */
  const int then = early == 1 || (!early && w->b.n);
  const uint16_t known = w->u.n || w->v.n ? FL_NO_REG : t->a;
  if (then) go_on(c, &w->b, x->c, x->uni >> 2, known);
  else go_on(c, &w->a, x->b, x->uni >> 1, known);
  add_link(c, then ? FL_LINK_pick : FL_LINK_keep, early ? FL_NO_REG : then ? x->b : x->c,
           x->uni >> (then ? 1 : 2));
  if (c->n > FL_CHAIN) return 0;
  if (early) c->link[c->n - 1].saved = (uint8_t)saved, c->link[c->n - 1].uni = 0;
  return 1;
}

/* Makes x, a 'where', a chain that includes as many of the operations that compute its operands as
** there is room for. If others read the result of its test too, the test is done again in the
** chain, with its operands in registers. */
static void join_where(fuse *f, fl_vop *x) {
  fl_vop *t = tested(f, x);
  if (!t) return;
  const int own = f->uses[t->v] == 1 && !f->g->reg.at[t->v].lives;
  /* a register that appears twice counts as one reader */
  const int two = own && t->a != t->b, values = x->b != x->c;
  fl_vop *part[] = { two ? part_for(f, t->a) : NULL, two ? part_for(f, t->b) : NULL,
                     values ? part_for(f, x->b) : NULL, values ? part_for(f, x->c) : NULL };
  for (int take = 15; take >= 0; take--) {
    fl_chain c;
    choice w = { .x = x, .test = t };
    fl_chain *links[] = { &w.u, &w.v, &w.a, &w.b };
    int have = 0;
    for (int k = 0; k < 4; k++)
      if (take >> k & 1) have |= (links_of(f, part[k], links[k]) > 0) << k;
    if (have != take || (take & 3) == 3 || !build_choice(f, &w, &c)) continue;
    if (!make_chain(f, x, &c)) return;
    for (int k = 0; k < 4; k++) if (take >> k & 1) drop(f, part[k]);
    if (!own) {
      f->uses[t->a]++;
      if (t->b != t->a) f->uses[t->b]++;
    }
    drop(f, t);
    return;
  }
}

/* A rounding to bf16 becomes a chain (operations done in one pass) that includes the operation
** whose result it rounds. */
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

/* A load of bf16 is dropped if all its readers are chains (operations done in one pass) and sums,
** which do it themselves; otherwise these read what was loaded. */
static void settle_load(const fuse *f, fl_vop *load) {
  int others = 0;
  for (int pass = 0; pass < 2; pass++)
    for (int64_t i = 0; i < f->sec->n; i++) {
      fl_vop *x = &f->sec->at[i];
      fl_chain *c = x->code == FL_V_CHAIN ? &f->g->chain.at[x->arg] : NULL;
      if (!c && x->code != FL_V_NONE && x != load &&
          !(x->code == FL_V_REDUCE && x->flags & FL_BY_HALVES))
        others |= x->a == load->v || x->b == load->v || x->c == load->v;
      for (int k = 0; c && k < c->n; k++) {
        if (c->link[k].v != load->v) continue;
        if (pass)
          c->link[k].op = others && c->link[k].op == FL_LINK_load_half
                          ? FL_LINK_load : c->link[k].op;
        else others |= c->link[k].op != FL_LINK_load_half;
      }
    }
  if (others) return;
  load->flags = FL_BY_HALVES;
  f->g->reg.at[load->v].halves = 1;
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
    else if (is_ternary(f, x, FL_OP_clamp)) join_clamp(f, x);
    else if (is_ternary(f, x, FL_OP_where)) join_where(f, x);
    else join(f, x);
  }
  for (int64_t i = 0; i < f->sec->n; i++)
    if (sums_halves(f, &f->sec->at[i])) f->sec->at[i].flags |= FL_BY_HALVES;
  for (int64_t i = 0; i < f->sec->n; i++)
    if (is_half(f, &f->sec->at[i])) settle_load(f, &f->sec->at[i]);
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
