/*
** Sums into shared memory that need no atomics. The adjoint of
**   b[ty][tx] = a[ty][tx - 1] + a[ty][tx + 1];
** adds to d_a[ty][tx - 1], then to d_a[ty][tx + 1]. Each thread has an element to itself in the
** first sum, and one in the second, but another thread may be at the same element in the other sum.
** With a barrier between the two, += is right. On a GPU an atomic sum of real numbers in shared
** memory is a loop of compare-and-swap, which takes longer than the barrier.
**
** The finished adjoint is looked at, and nothing is taken for granted of how it was made. An atomic
** sum becomes a += if it is proven that no two threads reach one element by it (fl_kindex_owned),
** and that every other access of the array that no barrier separates from it is of the same thread
** or of another element. Barriers are added only where all threads of a block are: among the
** statements of the function, and of a block that holds a barrier already. Kernels that threads
** leave early, or in which something jumps, stay as they are.
*/
#include "kernel/ad/ad_state.h"
#include "kernel/facts/poly.h"

enum { MOST_ACCESSES = 200, MOST_BARRIERS = 100 };

/* An access of an array to which atomics add. sum: an atomic sum, which no two threads make at one
** element; loops: number of loops around it. */
typedef struct access {
  fl_kstmt *s;
  const fl_kexpr *index;
  int32_t var;
  uint8_t sum;
  int loops;
  fl_kfact fact;                 /* shape and strips */
} access;

typedef struct phases {
  fl_kad_state *d;
  const fl_kindices *k;
  uint8_t *added;                /* by variable: an atomic sum adds to an element of it */
  access at[MOST_ACCESSES];
  const fl_kstmt *s[MOST_ACCESSES];
  int n;
  uint8_t fits[MOST_ACCESSES][MOST_ACCESSES];    /* 0: not known yet; 1: yes; 2: no */
  int sums, full;                /* number of atomic sums; are there more accesses than room? */
  int most, put;                 /* barriers that may be added; that have been */
  int i, j;                      /* two accesses that a barrier must separate; i -1: none */
} phases;

/* ---- accesses --------------------------------------------------------------------------- */

static int is_sum(const fl_kfunc *f, const fl_kstmt *s) {
  if (s->kind != FL_KS_ATOMIC || s->op != FL_KA_ADD || s->mode != FL_KM_FREE || s->as ||
      s->result >= 0) return 0;
  const fl_kvar *v = &f->vars[s->var];
  return v->kind == FL_KV_SHARED && !v->dynamic && fl_kt_is_float(v->type) &&
         s->x[1]->type == v->type;
}

static int see_sum(void *arg, fl_kstmt *s) {
  phases *p = arg;
  if (is_sum(p->d->f, s)) p->added[s->var] = 1, p->sums++;
  return 1;
}

static void add(phases *p, fl_kstmt *s, int32_t var, const fl_kexpr *index, int loops, int sum) {
  if (!p->added[var]) return;
  p->full |= p->n == MOST_ACCESSES;
  if (p->full) return;
  p->s[p->n] = s;
  p->at[p->n++] = (access){ .s = s, .index = index, .var = var, .loops = loops,
                              .sum = (uint8_t)sum };
}

static void add_loads(phases *p, fl_kstmt *s, const fl_kexpr *x, int loops) {
  if (!x) return;
  if (x->kind == FL_KX_LOAD) add(p, s, x->var, x->x[0], loops, 0);
  for (int i = 0; i < x->n; i++) add_loads(p, s, x->x[i], loops);
}

static void collect(phases *p, fl_kblock b, int loops) {
  for (fl_kstmt *s = b.first; s; s = s->next) {
    const int in = loops + (s->kind == FL_KS_LOOP);
    for (int i = 0; i < 4; i++) add_loads(p, s, s->x[i], in);
    for (int i = 0; i < s->n_args; i++) add_loads(p, s, s->args[i], in);
    if (fl_kwrites(s)) add(p, s, s->var, s->x[0], loops, is_sum(p->d->f, s));
    collect(p, s->body, in);
    collect(p, s->other, in);
  }
}

static void find_facts(phases *p) {
  for (int i = 0; i < p->n; i++) {
    access *x = &p->at[i];
    x->fact.shape = fl_kindex_shape(p->k, x->s, x->index);
    fl_kindex_strips(p->k, x->s, x->index, FL_KI_OWNED_IN_BLOCK, x->fact.strip);
    x->sum = x->sum && fl_kindex_owned(p->k, x->s, x->index) & FL_KI_OWNED_IN_BLOCK;
  }
}

/* ---- which of them fit ------------------------------------------------------------------ */

/* Is an element that both accesses reach accessed by one thread only? */
static int fit(phases *p, int i, int j) {
  const access *x = &p->at[i], *y = &p->at[j];
  uint8_t *known = &p->fits[i < j ? i : j][i < j ? j : i];
  if (*known) return *known == 1;
  const fl_kaccess_at a = { x->s, x->index }, b = { y->s, y->index };
  const int yes = fl_kfact_is_apart(&x->fact, &y->fact) || fl_kfact_is_one_strip(&x->fact, &y->fact)
               || fl_kindex_owned_by_one(p->k, &a, &b) & FL_KI_OWNED_IN_BLOCK;
  *known = yes ? 1 : 2;
  return yes;
}

static void see_pair(void *arg, int i, int j) {
  phases *p = arg;
  const access *x = &p->at[i], *y = &p->at[j];
  if (p->i >= 0 || i == j || x->var != y->var || !(x->sum | y->sum) || fit(p, i, j)) return;
  p->i = i;
  p->j = j;
}

/* ---- barriers --------------------------------------------------------------------------- */

/* Is 'in' the statement s, or inside it? */
static int holds(const fl_kstmt *s, const fl_kstmt *in) {
  return s == in || fl_kblock_holds(s->body, in) || fl_kblock_holds(s->other, in);
}

/* Sets a wall, where a barrier will be, between access j and access i, which comes after it: before
** the outermost statement of b that holds i but not j. all: all threads of the block reach b
** together. Returns 0 if there is no such place in at most 'most' loops. (Walls are notes of
** statements, so that what is known of the function stays true.) */
static int separate(phases *p, fl_kblock b, int all, int most) {
  const fl_kstmt *i = p->at[p->i].s, *j = p->at[p->j].s;
  fl_kstmt *s = b.first;
  while (s && !holds(s, i)) s = s->next;
  if (!s || most < 0) return 0;
  if (all && !holds(s, j)) {
    s->note = p;
    p->put++;
    return 1;
  }
  const int loop = s->kind == FL_KS_LOOP, in_body = fl_kblock_holds(s->body, i);
  if (loop && !in_body) return 0;
  const fl_kblock in = in_body ? s->body : s->other;
  const int waits = fl_kwaits(in) && (loop || fl_kuniform_in_block(p->k, s->x[0]));
  return separate(p, in, waits, most - loop);
}

/* Removes the walls in b; stay: barriers take their place. */
static fl_kblock settled(phases *p, fl_kblock b, int stay) {
  fl_kblock out = { NULL, NULL };
  for (fl_kstmt *s; (s = fl_kblock_take(&b));) {
    if (s->note == p) {
      fl_kstmt *barrier = stay ? fl_kstmt_new(p->d->a, &out, FL_KS_BARRIER, s->line) : NULL;
      if (barrier) barrier->op = FL_KBAR_BLOCK;
      s->note = NULL;
    }
    s->body = settled(p, s->body, stay);
    s->other = settled(p, s->other, stay);
    fl_kblock_put(&out, s);
  }
  return out;
}

/* Sets the walls that the sums need. Returns 1 if a sum stays atomic, since no wall keeps it apart
** from another access: some of the walls may then not be needed. */
static int part(phases *p) {
  int lost = 0;
  const fl_kblock *body = &p->d->f->body;
  const fl_kad_meeting m = { .a = p->d->a, .at = p->s, .n = p->n, .pair = see_pair, .arg = p,
                             .wall = p };
  for (;;) {
    p->i = -1;
    fl_kad_meetings(&m, body);
    if (p->i < 0 || p->d->a->failed) return lost;
    access *x = &p->at[p->i], *y = &p->at[p->j];
    const int most = x->sum && (!y->sum || x->loops > y->loops) ? x->loops : y->loops;
    if (p->put < p->most && separate(p, *body, 1, most)) continue;
    x->sum = y->sum = 0;
    lost = 1;
  }
}

/* ---- sums ------------------------------------------------------------------------------- */

static int count_sums(const phases *p) {
  int n = 0;
  for (int i = 0; i < p->n; i++) n += p->at[i].sum;
  return n;
}

/* Finds the sums that become +=, with walls between them. There are no more walls than sums. */
static void choose(phases *p) {
  fl_kblock *body = &p->d->f->body;
  while (count_sums(p) && !p->d->a->failed) {
    const int lost = part(p), many = p->put > count_sums(p);
    if (!lost && !many) return;
    if (many) p->most = 0;
    *body = settled(p, *body, 0);
    p->put = 0;
  }
}

static int is_unordered(const void *of, const fl_kstmt *s) {
  const fl_kad_state *d = of;
  if (s->kind != FL_KS_ATOMIC || s->op != FL_KA_ADD || s->mode != FL_KM_FREE) return 0;
  const fl_kvar *v = &d->f->vars[s->var];
  return v->kind == FL_KV_SHARED ||
         (v->param >= 0 && d->res->params[v->param].role == FL_KAD_WORK);
}

static int is_atomic(const void *none, const fl_kstmt *s) {
  (void)none;
  return s->kind == FL_KS_ATOMIC;
}

static void make_plain(phases *p, const fl_klimits *used) {
  fl_kad_state *d = p->d;
  d->f->body = settled(p, d->f->body, 1);
  for (int i = 0; i < p->n; i++) {
    fl_kstmt *s = p->at[i].s;
    if (!p->at[i].sum) continue;
    s->kind = FL_KS_STORE;
    s->op = 0;
    s->accumulate = 1;
    d->res->n_atomic--;
  }
  d->res->limits = *used;
  d->f->uses_atomics = (uint8_t)fl_kblock_any(d->f->body, is_atomic, NULL);
  d->f->uses_barrier |= p->put > 0;
  if (!fl_kblock_any(d->f->body, is_unordered, d)) d->res->unordered_line = 0;
}

static int leaves(const void *none, const fl_kstmt *s) {
  (void)none;
  return s->kind == FL_KS_RETURN;
}

void fl_kad_phases(fl_kad_state *d) {
  fl_klimits used = d->res->limits;
  const fl_kblock b = d->f->body;
  phases *p = fl_karena_new(d->a, sizeof *p);
  if (!p || !(p->added = fl_karena_new(d->a, (size_t)d->f->n_vars + 1)) || d->a->failed) return;
  p->d = d;
  fl_kwalk_block(&(fl_kvisitor){ see_sum, NULL, p }, b);
  if (!p->sums || fl_kjumps(b) || fl_kblock_any(b, leaves, NULL)) return;
  collect(p, b, 0);
  if (p->full) return;
  p->most = MOST_BARRIERS;
  fl_kindices *k = fl_kindices_new(d->a->mem, d->f, d->r->geometry);
  p->k = k;
  if (k) {
    fl_kindices_launch(k, d->r->launched, &used);
    find_facts(p);
    choose(p);
  }
  if (!fl_kindices_free(k) && !d->a->failed) d->a->failed = FL_KARENA_MEMORY;
  if (count_sums(p) && !d->a->failed) make_plain(p, &used);
  d->body = d->f->body;
}
