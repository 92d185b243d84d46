/*
** Elements that a kernel only reads, and reads again: x[e] * x[e] becomes t = x[e]; t * t, so the
** reverse code adds to the element once, from a register. The second read uses the first one, in
** the same or in an enclosing block, as long as no variable of the index is assigned in between.
** What each round of a loop reads at one index is read before the loop, if the loop reads it for
** certain: in its condition, or in a statement directly in the body of a loop that runs at least
** once. The kernel's body is walked twice: to count how often each first read is repeated, and to
** rewrite those that are.
*/
#include "kernel/ad/ad_state.h"

enum { MOST_READS = 256, MOST_ROUNDS = 4096 };

typedef struct first { const fl_kexpr *load; int32_t id, temp; } first;

typedef struct reads {
  fl_kad_state *d;
  uint8_t *only;              /* by variable: an array of reals, only read, that is an INPUT */
  uint8_t *written;              /* by variable: an array that is written */
  uint8_t *assigned;             /* by variable: the current statement assigns to it */
  int32_t *count, next, most;  /* count: by id of a load: how often it is repeated; next: the id of
                               ** the next load of the walk; most: the number of ids */
  int n_vars, rewrite;
  first at[MOST_READS];          /* first reads with an index that is unchanged up to here */
  int n;
} reads;

static int is_only(const void *of, const fl_kexpr *x) {
  const reads *w = of;
  return x->kind == FL_KX_LOAD && x->var < w->n_vars && w->only[x->var];
}

static int is_written(const void *of, const fl_kexpr *x) {
  const reads *w = of;
  return x->kind == FL_KX_LOAD && w->written[x->var];
}

static int is_assigned(const void *of, const fl_kexpr *x) {
  const reads *w = of;
  return x->kind == FL_KX_VAR && x->var < w->n_vars && w->assigned[x->var];
}

static const first *known(const reads *w, const fl_kexpr *load) {
  for (int i = 0; i < w->n; i++)
    if (w->at[i].load->var == load->var && fl_kexpr_same(w->at[i].load->x[0], load->x[0]))
      return &w->at[i];
  return NULL;
}

/* The replacement of the load x, whose rewritten form is e; lazy: x is evaluated under a
** condition. */
static fl_kexpr *read(reads *w, fl_kblock *out, const fl_kexpr *x, fl_kexpr *e, int lazy) {
  const first *old = known(w, x);
  if (old && !w->rewrite) w->count[old->id]++;
  if (old) return old->temp >= 0 ? kx_var(w->d, old->temp) : e;
  if (lazy || w->n == MOST_READS || w->next == w->most || fl_kexpr_any(x->x[0], is_written, w))
    return e;
  first *now = &w->at[w->n++];
  *now = (first){ x, w->next++, -1 };
  if (!w->rewrite || !w->count[now->id]) return e;
  now->temp = fl_ktemp(w->d->f, e->type);
  if (now->temp < 0) return e;
  kx_set(w->d, out, now->temp, e);
  return kx_var(w->d, now->temp);
}

/* x with its reads replaced; lazy: x is evaluated under a condition, as y is in c ? y : z. */
static fl_kexpr *value(reads *w, fl_kblock *out, fl_kexpr *x, int lazy) {
  if (!fl_kexpr_any(x, is_only, w)) return x;
  fl_kexpr *k[FL_K_MAX_ARGS];
  int same = 1;
  for (int i = 0; i < x->n; i++) {
    k[i] = value(w, out, x->x[i], lazy || fl_kis_lazy(x, i));
    same &= k[i] == x->x[i];
  }
  fl_kexpr *e = same ? x : fl_kexpr_over(w->d->a, x, k);
  return e && is_only(w, x) ? read(w, out, x, e, lazy) : e ? e : x;
}

/* Forgets the reads whose index s changes. */
static void forget(reads *w, const fl_kstmt *s) {
  if (!w->n) return;
  int n = 0;
  memset(w->assigned, 0, (size_t)w->d->f->n_vars);
  fl_kassigned_by(s, w->assigned);
  for (int i = 0; i < w->n; i++)
    if (!fl_kexpr_any(w->at[i].load->x[0], is_assigned, w)) w->at[n++] = w->at[i];
  w->n = n;
}

/* ---- before loops ---- */

/* Reads before the loop what x reads for certain, at indices that the loop does not assign. */
static void hoist(reads *w, fl_kblock *out, fl_kexpr *x, int lazy) {
  if (!x || lazy || !fl_kexpr_any(x, is_only, w)) return;
  for (int i = 0; i < x->n; i++) hoist(w, out, x->x[i], fl_kis_lazy(x, i));
  if (is_only(w, x) && !fl_kexpr_any(x->x[0], is_assigned, w)) (void)read(w, out, x, x, 0);
}

/* The expression of s, which is no loop, that 'statement' rewrites; NULL: there is none. */
static fl_kexpr **value_in(fl_kstmt *s) {
  switch (s->kind) {
  case FL_KS_ASSIGN: return &s->x[0];
  case FL_KS_STORE: case FL_KS_ATOMIC: case FL_KS_SHUFFLE: return &s->x[1];
  default: return NULL;
  }
}

/* Reads in 'out' what each round of the loop reads. before: the statement that comes between 'out'
** and the loop; NULL: none. In the canonical form (norm.c) a round that runs reaches all statements
** of the body. */
static void before_loop(reads *w, fl_kblock *out, const fl_kstmt *before, fl_kstmt *loop) {
  fl_krange range;
  const int runs = loop->post || fl_krange_of(w->d->f, before, loop, MOST_ROUNDS, &range) > 0;
  memset(w->assigned, 0, (size_t)w->d->f->n_vars);
  fl_kassigned_by(loop, w->assigned);
  if (before) fl_kassigned_by(before, w->assigned);
  hoist(w, out, loop->x[0], 0);
  for (fl_kstmt *s = loop->body.first; runs && s; s = s->next) {
    fl_kexpr **x = value_in(s);
    if (x) hoist(w, out, *x, 0);
  }
}

/* ---- the walk ---- */

static fl_kblock walk(reads *w, fl_kblock b);

static fl_kblock inside(reads *w, fl_kblock b) {
  const int n = w->n;
  first *outer = b.first ? fl_karena_new(w->d->a, (size_t)n * sizeof *outer + 1) : NULL;
  if (!outer) return b;
  memcpy(outer, w->at, (size_t)n * sizeof *outer);
  b = walk(w, b);
  memcpy(w->at, outer, (size_t)n * sizeof *outer);
  w->n = n;
  return b;
}

static void statement(reads *w, fl_kblock *out, fl_kstmt *s) {
  const int loop = s->kind == FL_KS_LOOP;
  fl_kexpr **at = loop ? &s->x[0] : value_in(s);
  if (loop) {
    before_loop(w, out, NULL, s);
    forget(w, s);
  }
  fl_kexpr *x = at && *at ? value(w, out, *at, loop) : NULL;
  if (at && w->rewrite) *at = x;
  s->body = inside(w, s->body);
  s->other = inside(w, s->other);
  if (s->kind != FL_KS_STORE) forget(w, s);
}

static fl_kblock walk(reads *w, fl_kblock b) {
  fl_kblock out = { NULL, NULL };
  for (fl_kstmt *s; !w->d->a->failed && (s = fl_kblock_take(&b));) {
    if (s->kind == FL_KS_ASSIGN && b.first && b.first->kind == FL_KS_LOOP)
      before_loop(w, &out, s, b.first);
    statement(w, &out, s);
    fl_kblock_put(&out, s);
  }
  return out;
}

void fl_kad_read_once(fl_kad_state *d) {
  reads *w = fl_karena_new(d->a, sizeof *w);
  const int n = d->f->n_vars, most = 2 * d->f->n_sites + 16;
  if (!w) return;
  *w = (reads){ .d = d, .n_vars = n, .most = most };
  w->only = fl_karena_new(d->a, (size_t)n + 1);
  w->written = fl_karena_new(d->a, (size_t)n + 1);
  w->assigned = fl_karena_new(d->a, (size_t)n + (size_t)most + 1);      /* room for temporaries */
  w->count = fl_karena_new(d->a, (size_t)most * sizeof *w->count);
  if (!w->only || !w->written || !w->assigned || !w->count) return;
  fl_kaccessed(d->body, NULL, w->written);
  for (int v = 0; v < n; v++) {
    const fl_kvar *x = &d->f->vars[v];
    w->only[v] = x->kind == FL_KV_POINTER && !w->written[v] && fl_kt_is_float(x->type) &&
                 (d->r->want[x->param] & FL_KAD_INPUT);
  }
  for (; w->rewrite < 2; w->rewrite++) {
    w->n = w->next = 0;
    d->body = walk(w, d->body);
  }
}
