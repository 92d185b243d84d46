/*
** One element accessed at two places. The proof of own.c for one place holds for both if both
** indices are the same function of the thread and of counters that begin and step alike, and if it
** uses only conditions that hold at both. Two indices that stay in one row of a thread need not be
** the same function: the row is the thread's.
*/
#include "kernel/facts/own.h"

typedef fl_kown_search search;

static int is_around(const search *w, int32_t loop) {
  for (int i = 0; i < w->r.at.n_loops; i++)
    if (w->r.at.loops[i] == loop && loop >= 0) return 1;
  return 0;
}

/* Do counter u at a's place and counter v at b's have the same first value and step? */
static int are_alike(const search *a, int32_t u, const search *b, int32_t v) {
  const fl_kvar *vars = a->r.k->f->vars;
  fl_kpoly first, step, other, by;
  return is_around(a, a->r.k->defs->var[u].step_loop) && vars[u].type == vars[v].type &&
         fl_kroute_counts(&a->r, FL_KSYM_VAR + u, &first, &step) &&
         fl_kroute_counts(&b->r, FL_KSYM_VAR + v, &other, &by) &&
         fl_kpoly_same(&first, &other) && fl_kpoly_same(&step, &by);
}

/* Is symbol s an index of the thread, a size of the launch or a parameter? */
static int is_no_counter(const void *f, int32_t s) {
  return s < FL_KSYM_VAR ||
         (s < FL_KSYM_QUOTIENT && ((const fl_kfunc *)f)->vars[s - FL_KSYM_VAR].param >= 0);
}

/* The symbol of a's place that corresponds to symbol s of b's place: s itself, or a counter that
** begins and steps as s does; -1: there is none. */
static int32_t twin(const search *a, const search *b, int32_t s) {
  const fl_kindices *k = a->r.k;
  if (s >= FL_KSYM_QUOTIENT) {
    const fl_kquotient *q = fl_kquotient_of(k, s);
    return fl_kpoly_all(&q->a, is_no_counter, k->f) && fl_kterm_all(&q->m, is_no_counter, k->f)
           ? s : -1;
  }
  if (is_no_counter(k->f, s)) return s;
  if (!fl_kdef_is_counter(k->defs, s - FL_KSYM_VAR)) return -1;
  if (is_around(a, k->defs->var[s - FL_KSYM_VAR].step_loop)) return s;
  for (int32_t u = 0; u < k->f->n_vars; u++)
    if (are_alike(a, u, b, s - FL_KSYM_VAR)) return FL_KSYM_VAR + u;
  return -1;
}

/* The polynomial of x at b's place, in the symbols (counters) of a's place. */
static fl_kpoly seen_from(const search *a, const search *b, const fl_kexpr *x, int32_t order) {
  fl_kplace at = b->r.at;
  at.order = order;
  const fl_kpoly p = fl_kpoly_of(b->r.k, &at, x);
  fl_kpoly r = { .bad = p.bad };
  for (int i = 0; i < p.n && !r.bad; i++) {
    fl_kterm t = { p.t[i].c, 0, { 0 } };
    for (int j = 0; j < p.t[i].n; j++) {
      const int32_t s = twin(a, b, p.t[i].s[j]);
      int ok = s >= 0;
      const fl_kterm one = { 1, 1, { s } };
      if (ok) t = fl_kterm_product(&t, &one, &ok);
      r.bad |= !ok;
    }
    fl_kpoly_add(&r, t);
  }
  return r;
}

static int same_from(const search *a, const fl_kexpr *x, int32_t order, const search *b,
                     const fl_kexpr *y, int32_t then) {
  const fl_kpoly p = seen_from(a, a, x, order), q = seen_from(a, b, y, then);
  return !p.bad && !q.bad && fl_kpoly_same(&p, &q);
}

/* Does condition i of a's place hold at b's place as well? */
static int is_common(const search *a, int i, const search *b) {
  const fl_kexpr *c = a->r.cond[i];
  if (c->kind != FL_KX_BINARY || c->n != 2) return 0;
  for (int j = 0; j < b->r.n; j++) {
    const fl_kexpr *o = b->r.cond[j];
    if (o->kind != FL_KX_BINARY || o->op != c->op || a->r.truth[i] != b->r.truth[j] ||
        o->x[0]->type != c->x[0]->type
        || !fl_kt_is_int(o->x[0]->type)) continue;
    if (same_from(a, c->x[0], a->r.order[i], b, o->x[0], b->r.order[j])
        && same_from(a, c->x[1], a->r.order[i], b, o->x[1], b->r.order[j])) return 1;
  }
  return 0;
}

int fl_kindex_owned_by_one(const fl_kindices *k, const fl_kaccess_at *p, const fl_kaccess_at *q) {
  search a = { .r = { .k = k, .goal = p->s } }, b = { .r = { .k = k, .goal = q->s } };
  const fl_ksame any[2] = { FL_KSAME_NONE, FL_KSAME_NONE };
  int n = 0;
  if (!fl_kroute_is_place(&a.r) || !fl_kroute_is_place(&b.r)) return 0;
  if (!same_from(&a, p->index, a.r.at.order, &b, q->index, b.r.at.order)) return 0;
  for (int i = 0; i < a.r.n; i++) {
    if (!is_common(&a, i, &b)) continue;
    a.r.cond[n] = a.r.cond[i];
    a.r.truth[n] = a.r.truth[i];
    a.r.order[n++] = a.r.order[i];
  }
  a.r.n = n;
  return fl_kown_prove(&a, p->index, any);
}

/* ---- rows ------------------------------------------------------------------------------- */

/* Is symbol s a size of the launch, or a parameter that nothing assigns? */
static int is_fixed(const fl_kindices *k, int32_t s) {
  return !fl_ksym_is_number(s) && is_no_counter(k->f, s) &&
         (s < FL_KSYM_VAR || fl_kdef_is_given(k->defs, s - FL_KSYM_VAR));
}

/* Splits p into *head, the one term with an index of the thread or its block, *unit, and the rest,
** which stays in p. The other factors of the head must be the same in all threads, always. */
static int take_head(const search *w, fl_kpoly *p, fl_kterm *head, int32_t *unit) {
  int found = 0;
  *unit = -1;
  for (int i = p->n - 1; i >= 0; i--) {
    int numbers = 0, sizes = 1;
    for (int j = 0; j < p->t[i].n; j++) {
      const int32_t s = p->t[i].s[j];
      if (fl_ksym_is_number(s)) numbers++, *unit = s;
      else sizes &= is_fixed(w->r.k, s);
    }
    if (!numbers) continue;
    if (found++ || numbers > 1 || !sizes) return 0;
    *head = p->t[i];
    p->t[i] = p->t[--p->n];
  }
  return found;
}

static int is_constant(const fl_kpoly *p, int64_t *c) {
  *c = p->n ? p->t[0].c : 0;
  return !p->bad && (!p->n || (p->n == 1 && !p->t[0].n));
}

/* Is 0 <= e < m, for a number e, or the sum of a number and a symbol that is below a bound? */
static int stays_in_row(const search *w, fl_kpoly e, const fl_kterm *m) {
  fl_kpoly first, step;
  int64_t from, by;
  const int64_t c = fl_kpoly_take_constant(&e);
  if (!e.n) return c >= 0 && c < m->c;
  if (e.n > 1 || e.t[0].n != 1 || e.t[0].c != 1 || (c > 0 && (m->n || c >= m->c))) return 0;
  const int32_t s = e.t[0].s[0];
  if (c < -INT32_MAX || m->c > INT32_MAX) return 0;
  const fl_kterm left = { m->c - c, 0, { 0 } };
  if (!fl_kroute_stays_below(&w->r, s, m->n ? m : &left)) return 0;
  return c >= 0 || (fl_kroute_counts(&w->r, s, &first, &step) && is_constant(&first, &from) &&
                    is_constant(&step, &by) && by > 0 && from >= -c);
}

/* Sets the bounds of e, for which stays_in_row holds. */
static void find_bounds(const search *w, fl_kpoly e, const fl_kterm *m, fl_krow *row) {
  fl_kpoly first, step;
  int64_t from, by;
  const int64_t c = fl_kpoly_take_constant(&e);
  row->least = e.n && c < 0 ? 0 : c;
  row->most = !e.n ? c : m->n ? INT64_MAX : m->c - 1;
  if (!e.n || !fl_kroute_counts(&w->r, e.t[0].s[0], &first, &step) || !is_constant(&first, &from) ||
      !is_constant(&step, &by) || from < -INT32_MAX || from > INT32_MAX) return;
  if (by > 0 && c + from > row->least) row->least = c + from;
  if (by < 0 && c + from < row->most) row->most = c + from;
}

/* Proves that index 'unit' of the thread determines the thread; 'key' stands for the row or column.
** Sets row->owned and row->number. */
static int own_by(const search *w, int32_t unit, const fl_kpoly *key, fl_klimits *used,
                  fl_krow *row) {
  search u = { .r = w->r };
  u.r.n = 0;
  const fl_kpoly one = fl_kpoly_symbol(unit);
  row->owned = fl_kown_prove_sum(&u, &one, used);
  row->number = row->owned ? fl_kpolys_number(w->r.k->seen, key) : 0;
  return row->number != 0;
}

static int find_row(search *w, const fl_kpoly *p, fl_klimits *used, fl_krow *row) {
  fl_kpoly e = *p;
  fl_kterm m;
  int32_t unit;
  w->r.used = used;
  if (!take_head(w, &e, &m, &unit)) return 0;
  fl_kpoly head = { 0 };
  fl_kpoly_add(&head, m);
  fl_kterm_drop(&m, unit);
  if (m.c < 1 || !fl_kown_is_nonzero(w, &m) || !stays_in_row(w, e, &m)) return 0;
  find_bounds(w, e, &m, row);
  return own_by(w, unit, &head, used, row);
}

/* ---- columns ---------------------------------------------------------------------------- */

/* Divides each term of p by the symbol 'size'. Returns 0 if a term is not a multiple of it. */
static int divide_all(fl_kpoly *p, int32_t size) {
  for (int i = 0; i < p->n; i++) {
    if (!fl_kterm_holds(&p->t[i], size)) return 0;
    fl_kterm_drop(&p->t[i], size);
  }
  return !p->bad;
}

/* A parameter n of which p is a multiple, and which index 'unit' of the thread stays below; -1:
** there is none. */
static int32_t size_of(const search *w, const fl_kpoly *p, int32_t unit) {
  const fl_kindices *k = w->r.k;
  for (int32_t v = 0; v < k->f->n_vars; v++) {
    const fl_kterm size = { 1, 1, { FL_KSYM_VAR + v } };
    fl_kpoly q = *p;
    if (k->f->vars[v].kind == FL_KV_LOCAL && k->f->vars[v].param >= 0 &&
        is_fixed(k, FL_KSYM_VAR + v) && divide_all(&q, FL_KSYM_VAR + v) &&
        fl_kroute_stays_below(&w->r, unit, &size)) return FL_KSYM_VAR + v;
  }
  return -1;
}

static int find_column(search *w, const fl_kpoly *p, fl_klimits *used, fl_krow *column) {
  fl_kpoly e = *p, key = { 0 };
  fl_kterm head;
  int32_t unit;
  int64_t at;
  w->r.used = used;
  if (!take_head(w, &e, &head, &unit) || head.c != 1 || head.n != 1) return 0;
  const int32_t size = size_of(w, &e, unit);
  if (size < 0) return 0;
  divide_all(&e, size);
  const int constant = is_constant(&e, &at);
  column->least = constant ? at : INT64_MIN;
  column->most = constant ? at : INT64_MAX;
  fl_kpoly_add(&key, head);
  fl_kpoly_add(&key, (fl_kterm){ 1, 1, { size } });
  return own_by(w, unit, &key, used, column);
}

/* ---- the answers ------------------------------------------------------------------------ */

typedef int finder(search *w, const fl_kpoly *p, fl_klimits *used, fl_krow *row);

/* The row or column that 'find' proves. A cast that drops bits makes the index another number than
** its polynomial; an unsigned sum that wraps does so for columns, whose sizes are parameters. */
static fl_krow found(const fl_kindices *k, const fl_kstmt *s, const fl_kexpr *index, finder *find) {
  search w = { .r = { .k = k, .goal = s } };
  fl_krow row = { 0 }, of_launch = { 0 };
  if (!fl_kroute_is_place(&w.r)) return row;
  const fl_kpoly p = fl_kpoly_of(k, &w.r.at, index);
  const int unknown = p.bad || p.cut || (p.wraps && find == find_column);
  if (unknown || !find(&w, &p, NULL, &row)) row = (fl_krow){ 0 };
  if (unknown || row.owned & FL_KI_OWNED_IN_GRID || !k->launched) return row;
  fl_klimits more = *k->used;
  if (!find(&w, &p, &more, &of_launch) || of_launch.owned == row.owned) return row;
  *k->used = more;
  return of_launch;
}

fl_krow fl_kindex_row(const fl_kindices *k, const fl_kstmt *s, const fl_kexpr *index) {
  return found(k, s, index, find_row);
}

fl_krow fl_kindex_column(const fl_kindices *k, const fl_kstmt *s, const fl_kexpr *index) {
  return found(k, s, index, find_column);
}
