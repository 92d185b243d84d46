/* Builds the table of facts (facts.h): indices, and which thread owns the element of a store. */
#include "kernel/facts/facts.h"
#include "kernel/facts/poly.h"
#include <assert.h>
#include <string.h>

/* ---- indices ---------------------------------------------------------------------------- */

/* loop: the outermost loop around the statement s; inside: the variables that the loop assigns;
** before: the DECL or assignment just before the loop (NULL: none), at which indices that the loop
** does not change are classified. */
typedef struct classify {
  fl_kfacts *x;
  const fl_kindices *k;
  const fl_kstmt *s, *loop, *before;
  uint8_t *inside;
} classify;

/* The FL_KI_OWNED_… that says that an element has one owner among the threads that share the
** array. */
static int needed(const fl_kfacts *x, int var) {
  return x->f->vars[var].kind == FL_KV_SHARED ? FL_KI_OWNED_IN_BLOCK : FL_KI_OWNED_IN_GRID;
}

/* Fills in the facts about the index of an access (site). 'own' is also set if the loop does not
** change the index, and before the loop it differed in all threads. */
static void classify_index(classify *c, int var, int site, const fl_kexpr *index) {
  assert(c->x);
  if (site < 0 || site >= c->x->n) return;
  fl_kfact *fact = &c->x->at[site];
  const fl_kindex class = fl_kindex_class(c->k, c->s, index);
  fact->class = (uint8_t)class;
  fact->shape = fl_kindex_shape(c->k, c->s, index);
  fl_kindex_strips(c->k, c->s, index, needed(c->x, var), fact->strip);
  if (c->loop) fact->rounds = fl_kindex_rounds(c->k, c->s, index);
  fact->own = class == FL_KI_INJECTIVE || fact->strip->number
      || (c->loop && c->before && !fl_kreads_of(index, c->inside)
          && fl_kindex_class(c->k, c->before, index) == FL_KI_INJECTIVE);
}

static int see_load(void *arg, fl_kexpr *x) {
  if (x->kind == FL_KX_LOAD) classify_index(arg, x->var, x->site, x->x[0]);
  return 1;
}

static void classify_block(classify *c, const fl_kblock *b) {
  const fl_kvisitor loads = {NULL, see_load, c};
  const fl_kstmt *last = NULL;
  assert(c->x);
  for (fl_kstmt *s = b->first; s; s = s->next) {
    const int outermost = s->kind == FL_KS_LOOP && !c->loop;
    c->s = s;
    if (outermost) {                                      /* its condition is inside */
      memset(c->inside, 0, (size_t)c->x->f->n_vars);
      fl_kassigned_by(s, c->inside);
      c->loop = s;
      c->before = last;
    }
    if (fl_kwrites(s)) classify_index(c, s->var, s->site, s->x[0]);
    fl_kwalk_operands(&loads, s);
    classify_block(c, &s->body);
    classify_block(c, &s->other);
    if (outermost) c->loop = NULL;
    last = s->kind == FL_KS_ASSIGN || s->kind == FL_KS_DECL ? s : NULL;
  }
}

/* ---- owners ----------------------------------------------------------------------------- */

/* Two stores of different threads may write one element, unless it is proven that each element
** belongs to one thread (in shared memory: of the block). It is no race if all threads write the
** same value ("m = x[0];" in every thread). Two stores are looked at as a pair: even if each of
** them only writes what its thread owns, both may write one element. */

enum { MOST_STORES = 64 };

typedef struct stores {
  fl_karena *a;
  fl_kfacts *x;
  const fl_kindices *k;
  const fl_kstmt *own[MOST_STORES];
  int n;
} stores;

static int see_store(void *arg, fl_kstmt *s) {
  stores *m = arg;
  if (s->kind != FL_KS_STORE || s->accumulate || s->site < 0 || s->site >= m->x->n) return 1;
  const int kind = m->x->f->vars[s->var].kind;
  if (kind != FL_KV_SHARED && kind != FL_KV_POINTER) return 1;
  fl_kfact *fact = &m->x->at[s->site];
  fact->stored = 1;
  fact->owned = (fl_kindex_owned(m->k, s, s->x[0]) & needed(m->x, s->var)) != 0;
  if (fact->owned && m->n < MOST_STORES) m->own[m->n++] = s;
  return 1;
}

static void see_pair(stores *m, const fl_kstmt *s, const fl_kstmt *t) {
  const fl_kaccess_at p = {s, s->x[0]}, q = {t, t->x[0]};
  if (fl_kfact_is_one_strip(&m->x->at[s->site], &m->x->at[t->site])) return;   /* known already */
  if (s->var != t->var || !(fl_kindex_owned_by_one(m->k, &p, &q) & needed(m->x, s->var))) return;
  fl_kpair *one = fl_karena_new(m->a, sizeof *one);
  if (!one) return;
  *one = (fl_kpair){s->site, t->site, m->x->pairs};
  m->x->pairs = one;
}

static void find_owners(fl_karena *a, fl_kfacts *x, const fl_kindices *k) {
  stores m = {.a = a, .x = x, .k = k};
  assert(x);
  const fl_kvisitor v = {see_store, NULL, &m};
  fl_kwalk_block(&v, x->f->body);
  for (int i = 0; i < m.n; i++)
    for (int j = 0; j < i; j++) see_pair(&m, m.own[i], m.own[j]);
}

int fl_kfacts_are_paired(const fl_kfacts *x, int32_t site, int32_t other) {
  for (const fl_kpair *p = x ? x->pairs : NULL; p; p = p->next)
    if ((p->site == site && p->other == other) || (p->site == other && p->other == site)) return 1;
  return fl_kfact_is_one_strip(fl_kfact_of(x, site), fl_kfact_of(x, other));
}

/* ---- two accesses ----------------------------------------------------------------------- */

/* Is there a strip that both a and b have (and, with 'apart', do they reach different v in it)? */
static int share_strip(const fl_kfact *a, const fl_kfact *b, int apart) {
  for (int i = 0; i < FL_KSTRIPS && a->strip[i].number; i++)
    for (int j = 0; j < FL_KSTRIPS && b->strip[j].number; j++) {
      const fl_kstrip *x = &a->strip[i], *y = &b->strip[j];
      if (x->number == y->number && (!apart || x->most < y->least || y->most < x->least)) return 1;
    }
  return 0;
}

int fl_kfact_is_one_strip(const fl_kfact *a, const fl_kfact *b) { return share_strip(a, b, 0); }

int fl_kfact_is_apart(const fl_kfact *a, const fl_kfact *b) {
  if (share_strip(a, b, 1)) return 1;
  const int64_t by = fl_kdivisor(a->shape.mod, b->shape.mod), apart = a->shape.rest - b->shape.rest;
  return by ? apart % by != 0 : apart != 0;
}

void fl_kspan_add(fl_kspan *s, const fl_kfact *x) {
  const fl_kshape *a = &x->shape;
  if (!s->any) *s = (fl_kspan){a->core, a->rest, a->rest, 1, 0};
  if (a->rest < s->least) s->least = a->rest;
  if (a->rest > s->most) s->most = a->rest;
  s->split |= !a->core || a->core != s->core || s->most - s->least >= a->mod;
}

/* ---- the whole -------------------------------------------------------------------------- */

fl_kfacts *fl_kfacts_new(fl_karena *a, const fl_kfunc *f, int geometry,
                         const fl_klaunched *launched, fl_klimits *used) {
  fl_kfacts *x = fl_karena_new(a, sizeof *x);
  fl_kindices *k = fl_kindices_new(a->mem, f, geometry);
  classify c = {.x = x, .k = k, .inside = fl_karena_new(a, (size_t)f->n_vars + 1)};
  if (x) {
    *x = (fl_kfacts){.f = f, .n = f->n_sites};
    x->at = fl_karena_new(a, ((size_t)f->n_sites + 1) * sizeof *x->at);
    x->var_rounds = fl_karena_new(a, ((size_t)f->n_vars + 1) * sizeof *x->var_rounds);
  }
  if (k && !a->failed) {
    fl_kindices_launch(k, launched, used);
    classify_block(&c, &f->body);
    find_owners(a, x, k);
    fl_kfacts_rounds(x, k);
    fl_kfacts_last(a, x, k);
  }
  if (!fl_kindices_free(k) && !a->failed) a->failed = FL_KARENA_MEMORY;
  return a->failed ? NULL : x;
}
