/*
** Arrays in global memory of which the forward code only reads what they hold after the launch
** (fl_kfact.lasts of every load). The launch's result has these values, so the reverse code reads
** them there (FL_KAD_FINAL), the forward code does not store them again, and nothing is saved.
**
** Carries: where a loop stores y[i] and its next iteration reads it, the reverse code hands the
** cotangent of y[i] from round to round in a register (fl_kad_carry).
*/
#include "kernel/ad/ad_state.h"

/* How array 'var' is used. reads: it is loaded; bad: a load may find another value than the launch
** leaves, or a write is += or atomic. */
typedef struct uses { fl_kad_state *d; int var, reads, bad; } uses;

static int see_load(void *arg, fl_kexpr *x) {
  uses *u = arg;
  if (x->kind != FL_KX_LOAD || x->var != u->var) return 1;
  u->reads = 1;
  u->bad |= x->site < 0 || x->site >= u->d->n_sites0 || !fl_kfact_of(u->d->facts, x->site)->lasts;
  return 1;
}

static int see_write(void *arg, fl_kstmt *s) {
  uses *u = arg;
  if (fl_kwrites_to(s, u->var)) u->bad |= s->kind != FL_KS_STORE || s->accumulate;
  return 1;
}

void fl_kad_last(fl_kad_state *d) {
  if (!(d->lasting = fl_karena_new(d->a, (size_t)d->f->n_vars + 1))) return;
  for (int v = 0; v < d->n0; v++) {
    const fl_kvar *x = &d->f->vars[v];
    uses u = {.d = d, .var = v};
    const fl_kvisitor see = {see_write, see_load, &u};
    if (x->kind != FL_KV_POINTER || x->is_const || !fl_kad_written(d, v)) continue;
    if (d->f->params[x->param].is_struct && !d->f->params[x->param].is_pointer) continue;
    fl_kwalk_block(&see, d->body);
    d->lasting[v] = (u.reads && !u.bad) || fl_kad_won(d, v) == 1;
  }
}

/* ---- carries ---------------------------------------------------------------------------- */

typedef struct search { fl_kad_state *d; fl_kad_carry *c; const fl_kstmt *use; int32_t site; int n;
                      } search;

static int is_carried(const fl_kad_state *d, const fl_kstmt *s) {
  const int v = s->var;
  if (s->kind != FL_KS_STORE || s->accumulate || !d->lasting[v] || d->zeroes[v] || !d->adds[v] ||
      d->shadow[v] < 0) return 0;
  return d->res->params[d->f->vars[d->shadow[v]].param].role == FL_KAD_WORK;
}

static int count_site(void *arg, fl_kstmt *s) {
  search *w = arg;
  w->n += s->kind == FL_KS_STORE && s->site == w->site;
  return 1;
}

/* How many stores in b have the site? */
static int stores_at(fl_kblock b, int32_t site) {
  search w = {.site = site};
  fl_kwalk_block(&(fl_kvisitor){count_site, NULL, &w}, b);
  return w.n;
}

static int see_carried(void *arg, fl_kexpr *x) {
  search *w = arg;
  fl_kad_carry *c = w->c;
  if (x->kind != FL_KX_LOAD || x->var != c->store->var || x->site < 0 ||
      x->site >= w->d->n_sites0 || c->n == FL_KAD_CARRIED) return 1;
  const int how = w->d->site_add[x->site];
  if (fl_kfact_of(w->d->facts, x->site)->next != 1 + c->store->site ||
      (how != FL_KAD_ADD_PLAIN && how != FL_KAD_ADD_STORE)) return 1;
  if (!c->load) c->load = x, c->use = w->use;
  c->site[c->n++] = x->site;
  return 1;
}

static int see_no_loop(void *none, fl_kstmt *s) {
  (void)none;
  return s->kind != FL_KS_LOOP;
}

/* The store with this site in b, outside of loops; NULL: there is none. */
static const fl_kstmt *store_at(const fl_kblock *b, int32_t site) {
  for (const fl_kstmt *s = b->first; s; s = s->next) {
    if (s->kind == FL_KS_STORE && s->site == site) return s;
    const fl_kstmt *in = s->kind == FL_KS_LOOP ? NULL : store_at(&s->body, site);
    if (!in && s->kind != FL_KS_LOOP) in = store_at(&s->other, site);
    if (in) return in;
  }
  return NULL;
}

/* Finds the loads whose cotangents go to the store s of the loop's body in the next round of the
** reverse code: those before the store, or in it. In the reverse code of a round the store takes
** what the round before has added, and the loads add theirs after that. */
static void carry(fl_kad_state *d, const fl_kstmt *loop, const fl_kstmt *s, fl_kblock *b) {
  fl_kad_carry *c = fl_karena_new(d->a, sizeof *c);
  if (!c) return;
  *c = (fl_kad_carry){.loop = loop, .store = s};
  search w = {.d = d, .c = c};
  const fl_kvisitor see = {see_no_loop, see_carried, &w};
  for (fl_kstmt *t = loop->body.first; t; t = t == s ? NULL : t->next) {
    w.use = t;
    fl_kwalk_stmt(&see, t);
  }
  if (!c->n) return;
  const int32_t first = fl_kfact_of(d->facts, c->load->site)->first;
  if (first && stores_at(d->body, first - 1) == 1) c->before = store_at(&d->body, first - 1);
  c->reg = fl_kad_local(d, d->f->vars[d->shadow[s->var]].type, fl_kad_name(d, "next_", s->var));
  if (c->reg < 0) return;
  kx_set(d, b, c->reg, fl_kexpr_zero(d->a, d->f->vars[c->reg].type));
  c->next = d->carries;
  d->carries = c;
}

static void find_carries(fl_kad_state *d, const fl_kblock *body, fl_kblock *b) {
  for (const fl_kstmt *s = body->first; s; s = s->next) {
    for (const fl_kstmt *t = s->kind == FL_KS_LOOP ? s->body.first : NULL; t; t = t->next)
      if (is_carried(d, t) && stores_at(s->body, t->site) == 1) carry(d, s, t, b);
    find_carries(d, &s->body, b);
    find_carries(d, &s->other, b);
  }
}

void fl_kad_carries(fl_kad_state *d, fl_kblock *b) { find_carries(d, &d->body, b); }

fl_kad_carry *fl_kad_carry_of_load(const fl_kad_state *d, const fl_kexpr *x) {
  for (fl_kad_carry *c = d->carries; c; c = c->next)
    for (int i = 0; c->now && i < c->n; i++)
      if (c->site[i] == x->site) return c;
  return NULL;
}

fl_kexpr *fl_kad_take_carries(fl_kad_state *d, const fl_kstmt *s, fl_kexpr *seed, fl_kblock *r) {
  for (const fl_kad_carry *c = d->carries; c; c = c->next) {
    if ((c->store != s || !c->now) && c->before != s) continue;
    if (seed) seed = fl_kad_atom(d, r, kx_op(d, FL_KO_ADD, seed, kx_var(d, c->reg)));
    kx_set(d, r, c->reg, fl_kexpr_zero(d->a, d->f->vars[c->reg].type));
  }
  return seed;
}

/* ---- roles ------------------------------------------------------------------------------ */

static void set_const(fl_kad_state *d, int v, int role) {
  d->res->params[d->f->vars[v].param].role = (uint8_t)role;
  d->f->params[d->f->vars[v].param].is_const = 1;
  d->f->vars[v].is_const = 1;
}

void fl_kad_last_values(fl_kad_state *d) {
  for (int v = 0; v < d->n0; v++)
    if (d->lasting[v]) set_const(d, v, FL_KAD_FINAL);
}

void fl_kad_last_cotangents(fl_kad_state *d) {
  fl_kad_touched t;
  if (!fl_kad_find_touched(d, &t)) return;
  for (int v = 0; v < d->f->n_vars; v++) {
    const fl_kvar *x = &d->f->vars[v];
    if (x->kind != FL_KV_POINTER || x->param < d->source->n_params || t.written[v]) continue;
    const fl_kad_param *p = &d->res->params[x->param];
    if (p->role == FL_KAD_WORK && p->seeded && !(d->r->want[p->param] & FL_KAD_INPUT))
      set_const(d, v, t.read[v] ? FL_KAD_COTANGENT : FL_KAD_UNUSED);
  }
}
