/*
** Which threads add to the same element of a shadow (array that holds the derivatives of another
** one), and which elements are written more than once.
** Plain += is right where no two threads can have the same element: for example, where all loads
** of the array have one injective index, or indices a * e + b with one injective e, one a and all b
** in 0 … a - 1.
** In shared memory only loads that no barrier separates can be at one element at the same time.
*/
#include "kernel/ad/ad_state.h"

/* A load or a write. loops: number of loops around it; around: the set of these loops, bit n for
** the loop with label n; far: one of them has a label that is not 0 to 63, so the set lacks it. */
typedef struct access {
  const fl_kstmt *s; const fl_kexpr *index; const fl_kfact *fact; int32_t var, site;
  int loops, far; uint64_t around;
} access;
typedef struct accesses {
  fl_kad_state *d;
  access *at;
  int n, loops, far;
  uint64_t around;
  int32_t cap;
} accesses;

static void push(accesses *l, const fl_kstmt *s, const fl_kexpr *index, int var, int site) {
  access *at = fl_karena_room(l->d->a, l->at, l->n, &l->cap, sizeof *at);
  if (!at) return;
  l->at = at;
  l->at[l->n++] = (access){s, index, fl_kfact_of(l->d->facts, site), var, site, l->loops, l->far,
                           l->around};
}

/* Collects the loads in x for which the adjoint adds to an element of the array's shadow. */
static void loads_of(accesses *l, const fl_kstmt *s, const fl_kexpr *x) {
  if (!fl_kad_flows(l->d->active, x)) return;
  if (x->kind == FL_KX_LOAD) {
    push(l, s, x->x[0], x->var, x->site);
    return;
  }
  for (int i = x->kind == FL_KX_SELECT; i < x->n; i++) loads_of(l, s, x->x[i]);
}

/* Collects the active loads of a block if 'loads' is 1, or the block's writes if it is 0. */
static void collect(accesses *l, const fl_kblock *b, int loads) {
  for (const fl_kstmt *s = b->first; s; s = s->next) {
    if (loads && fl_kad_marks(s) & FL_KN_REVERSE) loads_of(l, s, fl_kad_value_of(s));
    if (!loads && fl_kwrites(s)) push(l, s, s->x[0], s->var, s->site);
    const accesses outer = *l;
    if (s->kind == FL_KS_LOOP) {
      const int near = s->label >= 0 && s->label < 64;
      l->loops++;
      l->far |= !near;
      if (near) l->around |= (uint64_t)1 << s->label;
    }
    collect(l, &s->body, loads);
    collect(l, &s->other, loads);
    l->loops = outer.loops, l->far = outer.far, l->around = outer.around;
  }
}

/* Does a thread reach a different element by p in each iteration of the loops around it? */
static int is_new_each_round(const access *p) {
  return p->fact->class == FL_KI_INJECTIVE || (!p->far && !(p->around & ~p->fact->rounds));
}

/* Is the element also different in each thread? */
static int is_new_each_time(const access *p) {
  return p->fact->class == FL_KI_INJECTIVE || (p->fact->own && is_new_each_round(p));
}

static int changes(const void *defs, const fl_kexpr *x) {
  const fl_kdef *v = x->var < 0 ? NULL : &((const fl_kdefs *)defs)->var[x->var];
  return v && v->count > !v->param;
}

int fl_kad_steady(const fl_kad_state *d, const fl_kexpr *x) {
  return !fl_kexpr_any(x, changes, d->defs);
}

/* Can two threads access the same element, one by a and one by b, accesses of one array? (The
** caller knows that no two threads can by a alone, nor by b alone.) */
static int may_meet(const fl_kfact *a, const fl_kfact *b) {
  if (fl_kfact_is_apart(a, b) || fl_kfact_is_one(a, b) || fl_kfact_is_one_strip(a, b)) return 0;
  const int64_t apart = a->shape.rest - b->shape.rest;
  return !fl_kfact_is_alike(a, b) || apart >= a->shape.mod || -apart >= a->shape.mod;
}

/* ---- shared memory: which loads can follow one another without a barrier ---------------- */

typedef struct meeting {
  fl_kad_state *d;
  const accesses *l;
  uint8_t *bad;                  /* of loads, by access: may two threads be at one element at the
                                 ** same time, by it and this or another load? */
  int how;                       /* of stores: FL_KAD_MEETS… */
} meeting;

/* Does the index of p differ between the threads of a block that reach it? (Conditions around p may
** be a part of the proof: by another access with the same index threads may meet all the same.) */
static int differs_in_block(const access *p) {
  return p->fact->class == FL_KI_INJECTIVE || p->fact->class == FL_KI_THREAD_IN_BLOCK;
}

static void loads_meet(void *of, int i, int k) {
  const meeting *m = of;
  const access *p = &m->l->at[i], *q = &m->l->at[k];
  if (m->d->f->vars[p->var].kind != FL_KV_SHARED || q->var != p->var) return;
  const int steady = fl_kad_steady(m->d, p->index);
  const int one = fl_kexpr_same(p->index, q->index) && steady && differs_in_block(p)
               && differs_in_block(q);
  if (!one && (k != i || !steady)) m->bad[i] = m->bad[k] = 1;
}

/* Calls 'pair' for accesses that no barrier separates. */
static void meet_all(meeting *m, fl_kad_meet_fn pair) {
  fl_karena *a = m->d->a;
  const fl_kstmt **at = fl_karena_new(a, ((size_t)m->l->n + 1) * sizeof *at);
  for (int i = 0; at && i < m->l->n; i++) at[i] = m->l->at[i].s;
  if (at) fl_kad_meetings(&(fl_kad_meeting){.a = a, .at = at, .n = m->l->n, .pair = pair, .arg = m},
                          &m->d->body);
}

/* Marks in 'once' (by variable) the arrays of which a thread loads no element twice: no two of the
** loads reach one element, and each load is evaluated once for each of its elements. */
static void find_once(const accesses *l, uint8_t *once) {
  for (int i = 0; i < l->n; i++) once[l->at[i].var] = 1;
  for (int i = 0; i < l->n; i++) {
    const access *p = &l->at[i];
    int ok = !p->loops || (!fl_kad_steady(l->d, p->index) && is_new_each_time(p));
    for (int k = 0; k < i && ok && once[p->var]; k++)
      ok = l->at[k].var != p->var || fl_kfact_is_apart(p->fact, l->at[k].fact);
    if (!ok) once[p->var] = 0;
  }
}

static void load_modes(fl_kad_state *d, const accesses *l) {
  uint8_t *bad = fl_karena_new(d->a, (size_t)l->n + 1),
          *once = fl_karena_new(d->a, (size_t)d->f->n_vars + 1);
  if (!bad || !once) return;
  find_once(l, once);
  meeting m = {d, l, bad, 0};
  meet_all(&m, loads_meet);
  for (int i = 0; i < l->n; i++) {
    const access *p = &l->at[i];
    const int kind = d->f->vars[p->var].kind;
    int meets = bad[i];
    if (kind == FL_KV_SHARED) {
      meets |= !differs_in_block(p);
    } else if (kind == FL_KV_POINTER) {
      meets |= !p->fact->own;
      for (int k = 0; k < l->n && !meets; k++) {
        const fl_kfact *other = l->at[k].fact;
        meets = l->at[k].var == p->var && !fl_kfact_is_apart(p->fact, other)
             && (!other->own || may_meet(p->fact, other));
      }
    }
    if (p->site >= 0 && p->site < d->n_sites0)
      d->site_add[p->site] = (uint8_t)(meets ? FL_KAD_ADD_ATOMIC : kind == FL_KV_POINTER
                                       && once[p->var] ? FL_KAD_ADD_STORE
                                                              : FL_KAD_ADD_PLAIN);
  }
}

/* ---- elements written more than once ---------------------------------------------------- */

/* The largest number of statements that write to 'var' on a path through the block; one in a loop
** counts once. */
static int most_writes(const fl_kblock *b, int var) {
  int n = 0;
  for (const fl_kstmt *s = b->first; s; s = s->next) {
    n += fl_kwrites_to(s, var);
    const int x = most_writes(&s->body, var), y = most_writes(&s->other, var);
    n += s->kind == FL_KS_IF ? (x > y ? x : y) : x + y;
  }
  return n;
}

/* Does the index of p differ between all threads that access its array and, with 'rounds', also
** between the iterations of loops? */
static int tells_apart(const fl_kad_state *d, const access *p, int rounds) {
  const int class = p->fact->class;
  if (class == FL_KI_INJECTIVE) return 1;
  return !rounds && (class == FL_KI_OWN
                     || (class == FL_KI_THREAD_IN_BLOCK &&
                         d->f->vars[p->var].kind == FL_KV_SHARED));
}

/* Does each element that p and q both access belong to one thread? It does if both indices are the
** same function, which differs between threads; with 'rounds' also between iterations of loops, and
** then the element belongs to one iteration of that thread. */
static int are_one_index(const fl_kad_state *d, const access *p, const access *q, int rounds) {
  return tells_apart(d, p, rounds) && tells_apart(d, q, rounds) &&
         fl_kfact_is_alike(p->fact, q->fact) && p->fact->shape.rest == q->fact->shape.rest;
}

static int is_store(const access *p) { return p->s->kind == FL_KS_STORE && !p->s->accumulate; }

/* Is there a store (not +=) to v, which overwrites the previous value of an element? */
static int overwrites(const accesses *stores, int v) {
  for (int i = 0; i < stores->n; i++)
    if (stores->at[i].var == v && is_store(&stores->at[i])) return 1;
  return 0;
}

/* Is each element that both p and q write written by one thread alone? */
static int are_owned(const fl_kad_state *d, const access *p, const access *q) {
  const int how = fl_kad_meets_of(d, p->site) | fl_kad_meets_of(d, q->site);
  return !(how & FL_KAD_MEETS_JOINED) && fl_kfacts_are_paired(d->facts, p->site, q->site);
}

static void mark_meeting(fl_kad_state *d, const access *p, int how) {
  if (p->site >= 0 && p->site < d->n_sites0) d->site_meets[p->site] |= (uint8_t)how;
}

static void stores_meet(void *of, int i, int k) {
  const meeting *m = of;
  fl_kad_state *d = m->d;
  const access *p = &m->l->at[i], *q = &m->l->at[k];
  if (d->f->vars[p->var].kind == FL_KV_ARRAY || p->var != q->var || i == k || !is_store(p) ||
      !is_store(q))
    return;
  if (fl_kfact_is_apart(p->fact, q->fact) || are_one_index(d, p, q, 0) || are_owned(d, p, q))
    return;
  const int one = fl_kfact_is_one(p->fact, q->fact);
  const int how = m->how | (m->how & FL_KAD_MEETS_AT_ONCE && one ? FL_KAD_MEETS_ALIKE : 0);
  mark_meeting(d, p, how);
  mark_meeting(d, q, how);
}

/* Marks stores of one array by which different threads may write one element (FL_KAD_MEETS…). A
** barrier separates only threads of one block, so it counts in shared memory alone. */
static void meet_others(fl_kad_state *d, const accesses *all) {
  meeting at_once = {d, all, NULL, FL_KAD_MEETS_AT_ONCE};
  for (int i = 0; i < all->n; i++) {
    const int kind = d->f->vars[all->at[i].var].kind;
    meeting any = {d, all, NULL,
                   FL_KAD_MEETS | (kind == FL_KV_POINTER ? FL_KAD_MEETS_AT_ONCE : 0)};
    for (int k = 0; k < i; k++) stores_meet(&any, i, k);
  }
  meet_all(&at_once, stores_meet);
}

static int needs_zero(const fl_kad_state *d, const accesses *stores, int v) {
  if (!overwrites(stores, v)) return 0;
  const int once = most_writes(&d->body, v) <= 1;
  for (int i = 0; i < stores->n; i++) {
    const access *p = &stores->at[i];
    if (p->var != v) continue;
    if (p->loops && !is_new_each_round(p)) return 1;
    if (fl_kad_meets_of(d, p->site) & FL_KAD_MEETS) return 1;
    for (int k = 0; k < i; k++) {
      const access *q = &stores->at[k];
      if (q->var == v && !fl_kfact_is_apart(p->fact, q->fact) &&
          !(once && are_one_index(d, p, q, 1))) return 1;
    }
  }
  return 0;
}

void fl_kad_modes(fl_kad_state *d) {
  accesses loads = {.d = d}, stores = {.d = d};
  collect(&loads, &d->body, 1);
  collect(&stores, &d->body, 0);
  load_modes(d, &loads);
  meet_others(d, &stores);
  for (int v = 0; v < d->n0 && !d->a->failed; v++) {
    const fl_kvar *var = &d->f->vars[v];
    if (!d->active[v] || var->kind == FL_KV_LOCAL) continue;
    int zero = var->kind != FL_KV_POINTER || fl_kad_won(d, v);
    for (int i = 0; i < loads.n; i++) d->adds[v] |= loads.at[i].var == v;
    if (var->kind == FL_KV_POINTER && d->r->want[var->param] & FL_KAD_INPUT)
      zero |= overwrites(&stores, v);
    d->zeroes[v] = (uint8_t)(zero || needs_zero(d, &stores, v));
  }
}
