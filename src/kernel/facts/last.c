/*
** Values that stay until the launch ends (facts.h, 'lasts').
**   y[64 * i] = x[i]; for (j = 1; j < 64; j++) y[64 * i + j] = f(y[64 * i + j - 1]);
** No store comes after a read of the same element, and one thread accesses all elements of the row:
** each read finds what the array holds after the launch, where the reverse code can read it, so the
** stores need not be run again. A store lasts if nothing overwrites what it writes; so does a load
** right after it of the same element. Only for global memory that the kernel reads, and writes
** without atomics.
*/
#include "kernel/facts/facts.h"
#include "kernel/facts/poly.h"

enum { MOST_ACCESSES = 64 };

typedef struct access {
  fl_kaccess_at at;
  fl_kplace place;
  int32_t site;
} access;

typedef struct last {
  fl_kfacts *x;
  const fl_kindices *k;
  const fl_kstmt *s;                /* the statement being read */
  int32_t var;
  access store[MOST_ACCESSES], load[MOST_ACCESSES];
  int n_stores, n_loads, bad;       /* bad: nothing is proven of the array */
} last;

static void add(last *l, access *to, int *n, const fl_kexpr *index, int32_t site) {
  access a = { { l->s, index }, { 0 }, site };
  if (*n == MOST_ACCESSES || site < 0 || site >= l->x->n ||
      !fl_kindex_place(l->k, l->s, &a.place) || a.place.n_loops == FL_KPOLY_LOOPS) l->bad = 1;
  for (int i = 0; i < a.place.n_loops; i++) l->bad |= a.place.loops[i] < 0;      /* a step */
  if (!l->bad) to[(*n)++] = a;
}

static int see_load(void *arg, fl_kexpr *x) {
  last *l = arg;
  if (x->kind == FL_KX_LOAD && x->var == l->var) add(l, l->load, &l->n_loads, x->x[0], x->site);
  return 1;
}

static int see_statement(void *arg, fl_kstmt *s) {
  last *l = arg;
  const fl_kvisitor loads = { NULL, see_load, l };
  l->s = s;
  fl_kwalk_operands(&loads, s);
  if (!fl_kwrites_to(s, l->var)) return !l->bad;
  if (s->kind != FL_KS_STORE) l->bad = 1;
  else add(l, l->store, &l->n_stores, s->x[0], s->site);
  return !l->bad;
}

/* The number of loops around both places, from the outermost on. */
static int common(const fl_kplace *a, const fl_kplace *b) {
  int n = 0;
  while (n < a->n_loops && n < b->n_loops && a->loops[n] == b->loops[n]) n++;
  return n;
}

/* Is each element that both access accessed by one thread alone? */
static int have_one_thread(const last *l, const access *p, const access *q) {
  const fl_kfact *a = fl_kfact_of(l->x, p->site), *b = fl_kfact_of(l->x, q->site);
  if (fl_kfact_is_one_strip(a, b)) return 1;
  return a->class >= FL_KI_INJECTIVE && b->class >= FL_KI_INJECTIVE && fl_kfact_is_alike(a, b) &&
         a->shape.rest == b->shape.rest;
}

/* Does the store never write an element after the access 'of' has reached it? is_load: 'of' is a
** load. */
static int stays(const last *l, const access *of, const access *store, int is_load) {
  if (fl_kfact_is_apart(fl_kfact_of(l->x, of->site), fl_kfact_of(l->x, store->site))) return 1;
  const int n = common(&of->place, &store->place);
  if (!have_one_thread(l, of, store)) return 0;
  if (!n) return store->place.order < of->place.order;
  const int32_t loop = of->place.loops[n - 1];
  return is_load && n == 1 && loop >= 0 && loop < 64 &&
         fl_kindex_is_behind(l->k, &of->at, &store->at, loop);
}

/* Does no thread write an element twice by this store? */
static int is_written_once(const last *l, const access *p) {
  const fl_kfact *x = fl_kfact_of(l->x, p->site);
  int ok = x->owned;
  for (int i = 0; i < p->place.n_loops; i++) ok = ok && fl_kloop_bit(x->rounds, p->place.loops[i]);
  return ok;
}

/* Is statement s followed by t, or by a statement that t is in, in a block of b? */
static int is_followed(fl_kblock b, const fl_kstmt *s, const fl_kstmt *t) {
  for (const fl_kstmt *u = b.first; u; u = u->next) {
    if (u == s) return fl_kblock_holds((fl_kblock){ u->next, b.last }, t);
    if (is_followed(u->body, s, t) || is_followed(u->other, s, t)) return 1;
  }
  return 0;
}

/* Does the load find what its thread has stored just before, by this store, in the same iteration
** of the loops around both? */
static int finds(const last *l, const access *load, const access *store) {
  return common(&load->place, &store->place) == store->place.n_loops &&
         fl_kfact_is_one(fl_kfact_of(l->x, load->site), fl_kfact_of(l->x, store->site)) &&
         is_followed(l->x->f->body, store->at.s, load->at.s);
}

static void judge(last *l) {
  for (int i = 0; i < l->n_stores; i++) {
    int ok = is_written_once(l, &l->store[i]);
    for (int j = 0; ok && j < l->n_stores; j++)
      ok = j == i || stays(l, &l->store[i], &l->store[j], 0);
    l->x->at[l->store[i].site].lasts = (uint8_t)ok;
  }
  for (int i = 0; i < l->n_loads; i++) {
    const access *load = &l->load[i];
    int all = 1, found = 0;
    for (int j = 0; j < l->n_stores; j++) {
      all = all && stays(l, load, &l->store[j], 1);
      found |= l->x->at[l->store[j].site].lasts && finds(l, load, &l->store[j]);
    }
    l->x->at[load->site].lasts = (uint8_t)(all || found);
  }
}

void fl_kfacts_last(fl_karena *a, fl_kfacts *x, const fl_kindices *k) {
  const fl_kfunc *f = x->f;
  last *l = fl_karena_new(a, sizeof *l);
  const fl_kvisitor see = { see_statement, NULL, l };
  for (int v = 0; l && v < f->n_vars; v++) {
    if (f->vars[v].kind != FL_KV_POINTER || f->vars[v].is_const) continue;
    *l = (last){ .x = x, .k = k, .var = v };
    fl_kwalk_block(&see, f->body);
    if (!l->bad && l->n_stores && l->n_loads) judge(l);
  }
}
