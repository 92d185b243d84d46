/*
** The last step of a derivation removes statements without effect, the branches and loops that are
** then empty, barriers of the block right after such barriers, all barriers where threads do
** nothing but sums, and the variables that are no longer used, except parameters; then numbers
** variables, accesses, labels and loops again.
*/
#include "kernel/ad/ad_state.h"
#include "kernel/facts/spots.h"

/* live: by variable. spots: the statements; alive: by position there, does the statement have an
** effect? alone: what one thread does is not seen by another. */
typedef struct tidy {
  fl_kad_state *d;
  uint8_t *live, *alive;
  const fl_kspots *spots;
  int changed, alone;
} tidy;

static void touch(tidy *t, int v) {
  if (v < 0 || t->live[v]) return;
  t->live[v] = t->changed = 1;
  if (t->d->f->vars[v].dynamic) touch(t, t->d->words_view);      /* a store to that writes v too */
}

static int see_read(void *arg, fl_kexpr *x) {
  touch(arg, x->var);
  return 1;
}

static int is_written(const tidy *t, int v) {
  return t->live[v] || t->d->f->vars[v].kind == FL_KV_POINTER;
}

/* Does statement i have an effect? Then marks what it reads or writes as live. The statements in it
** were asked before. */
static int live_stmt(tidy *t, int32_t i) {
  const fl_kvisitor reads = {NULL, see_read, t};
  const fl_kstmt *s = t->spots->at[i].s;
  int live;
  switch (s->kind) {
  case FL_KS_ASSIGN: live = t->live[s->var]; break;
  case FL_KS_STORE: live = is_written(t, s->var); break;
  case FL_KS_SHUFFLE: case FL_KS_VOTE: live = s->result >= 0 && t->live[s->result]; break;
  case FL_KS_DECL: return t->live[s->var];
  case FL_KS_ATOMIC:
    live = is_written(t, s->var) || (s->result >= 0 && t->live[s->result]);
    break;
  case FL_KS_IF: case FL_KS_LOOP: case FL_KS_BLOCK: live = t->alive[i]; break;
  case FL_KS_BARRIER: live = !t->alone; break;
  default: live = 1;
  }
  if (!live) return 0;
  if (fl_kwrites(s)) touch(t, s->var);
  touch(t, s->result);
  fl_kwalk_operands(&reads, s);
  return 1;
}

/* Finds what has an effect: from the last statement to the first, since most values are read after
** the place where they are computed, until nothing is added. */
static void find_live(tidy *t) {
  for (t->changed = 1; t->changed;) {
    t->changed = 0;
    for (int32_t i = t->spots->n - 1; i >= 0; i--) {
      const int32_t around = t->spots->at[i].around;
      if (!live_stmt(t, i)) continue;
      t->alive[i] = 1;
      if (around >= 0) t->alive[around] = 1;
    }
  }
}

/* Is s a barrier of the block (of the grid) right after another one of the same kind? */
static int is_repeated(const fl_kstmt *last, const fl_kstmt *s) {
  return last && s->kind == FL_KS_BARRIER && last->kind == FL_KS_BARRIER &&
         s->op == FL_KBAR_BLOCK && last->op == FL_KBAR_BLOCK && s->mode == last->mode;
}

static fl_kblock prune(tidy *t, fl_kblock b) {
  fl_kblock out = {NULL, NULL};
  for (fl_kstmt *s; (s = fl_kblock_take(&b));) {
    if (!t->alive[fl_kspots_find(t->spots, s)] || is_repeated(out.last, s)) continue;
    if (s->kind == FL_KS_IF || s->kind == FL_KS_LOOP || s->kind == FL_KS_BLOCK) {
      s->body = prune(t, s->body);
      s->other = prune(t, s->other);
      if (s->kind == FL_KS_IF) fl_kstmt_set_upright(t->d->a, s);
    }
    fl_kblock_put(&out, s);
  }
  return out;
}

/* ---- numbers ---------------------------------------------------------------------------- */

static int see_use(void *arg, fl_kstmt *s) {
  tidy *t = arg;
  fl_kfunc *f = t->d->f;
  touch(t, s->var);
  touch(t, s->result);
  f->uses_barrier |= s->kind == FL_KS_BARRIER;
  f->uses_grid |= s->kind == FL_KS_BARRIER && s->mode;
  f->uses_warp |= s->kind == FL_KS_SHUFFLE || s->kind == FL_KS_VOTE;
  f->uses_atomics |= s->kind == FL_KS_ATOMIC;
  return 1;
}

static void renumber(tidy *t) {
  fl_kfunc *f = t->d->f;
  const fl_kvisitor v = {see_use, see_read, t};
  int32_t *map = fl_karena_new(t->d->a, (size_t)f->n_vars * sizeof *map);
  if (!map) return;
  memset(t->live, 0, (size_t)f->n_vars);
  f->uses_barrier = f->uses_warp = f->uses_atomics = f->uses_printf = 0;
  f->uses_shared = f->uses_grid = 0;
  f->shared_bytes = 0;
  fl_kwalk_block(&v, f->body);
  int n = 0;
  for (int i = 0; i < f->n_vars; i++) {
    fl_kvar *x = &f->vars[i];
    map[i] = -1;
    if (!t->live[i] && x->param < 0) continue;
    map[i] = n;
    if (x->kind == FL_KV_SHARED) {
      f->uses_shared = 1;
      f->shared_bytes = (f->shared_bytes + 15) / 16 * 16 + x->count * fl_kt_size(x->type);
    }
    if (n != i) f->vars[n] = *x;
    n++;
  }
  f->shared_bytes = (f->shared_bytes + 15) / 16 * 16;
  for (int p = 0; p < f->n_params; p++)
    if (f->params[p].n_vars) f->params[p].first_var = map[f->params[p].first_var];
  f->n_vars = n;
  f->n_sites = f->n_labels = f->n_loops = 0;
  t->d->body = f->body = fl_kblock_clone(f, &f->body, map);
}

/* Is it a write that is not the same before and after those of other threads? */
static int is_ordered(const void *of, const fl_kstmt *s) {
  const tidy *t = of;
  if (s->kind == FL_KS_STORE) return t->d->f->vars[s->var].kind != FL_KV_ARRAY;
  return s->kind == FL_KS_ATOMIC &&
         (s->result >= 0 || (s->op != FL_KA_ADD && s->op != FL_KA_SUB));
}

/* Does the order of what the threads do matter? It does if there are writes other than sums, or if
** an array that receives sums is also read. */
static int is_order_of_use(const tidy *t) {
  const fl_kfunc *f = t->d->f;
  fl_kad_touched now;
  if (!fl_kad_find_touched(t->d, &now)) return 1;
  for (int v = 0; v < f->n_vars; v++)
    if (f->vars[v].kind != FL_KV_ARRAY && now.read[v] && now.written[v]) return 1;
  return fl_kblock_any(f->body, is_ordered, t);
}

/* Removes what has no effect. */
static void shorten(tidy *t) {
  fl_karena *const a = t->d->a;
  t->spots = fl_kspots_new(a, t->d->f->body);
  t->alive = t->spots ? fl_karena_new(a, (size_t)t->spots->n + 1) : NULL;
  if (!t->alive) return;
  memset(t->live, 0, (size_t)t->d->f->n_vars);
  find_live(t);
  t->d->f->body = prune(t, t->d->f->body);
}

void fl_kad_tidy(fl_kad_state *d) {
  tidy t = {.d = d, .live = fl_karena_new(d->a, (size_t)d->f->n_vars + 1)};
  if (!t.live || d->a->failed) return;
  shorten(&t);
  if (d->a->failed) return;
  t.alone = !is_order_of_use(&t);
  if (t.alone) shorten(&t);
  if (!d->a->failed) renumber(&t);
}
