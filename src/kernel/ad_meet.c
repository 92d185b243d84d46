/*
** Stores of several threads to one element. They are no race where all write the same value
** ("m = x[0];" in every thread), and the element has been stored once: the cotangent must go to
** one of the threads, whichever. The adjoint then exchanges it for 0.
**
** Asked in the source as written, for stores whose index is the same in all threads of a block,
** or is made by an operation that gives many threads one number (i / 2, i % n, min), unless a
** condition around it holds for one thread ("if (threadIdx.x == 0)"). An index with both quotients
** and remainders (i / w * p + i % w) is believed to put threads at places of their own.
*/
#include "kernel/ad_state.h"

enum { MAX_NEST = 8 };
enum { QUOTIENT = 1, REMAINDER = 2, OTHERWISE = 4 };     /* how an integer is less than its thread */

typedef struct guard {
  const fl_kstmt *at;            /* the IF */
  int truth;                     /* what its condition is here */
  const struct guard *up;
} guard;

typedef struct meets {
  fl_kad_state *d;
  const fl_kfunc *f;
  const fl_kindices *k;
  const fl_kexpr **value;        /* by variable: the only one assigned to it, NULL: others */
  uint8_t *lossy;                /* by variable: bits of the above; 0: not known to be */
  int changed, nest;             /* nest: of chooses(), variables may be made of each other */
} meets;

/* ---- variables -------------------------------------------------------------------------- */

static int is_uniform(const meets *m, const fl_kstmt *at, const fl_kexpr *x) {
  const fl_kindex class = fl_kindex_class(m->k, at, x);
  return class == FL_KI_UNIFORM_GRID || class == FL_KI_UNIFORM_BLOCK;
}

static int merges(const fl_kexpr *x) {
  if (x->kind == FL_KX_SELECT || x->type == FL_KT_BOOL || x->kind == FL_KX_CALL) return OTHERWISE;
  if (x->kind != FL_KX_BINARY) return 0;
  if (x->op == FL_KO_DIV || x->op == FL_KO_SHR) return QUOTIENT;
  if (x->op == FL_KO_REM || x->op == FL_KO_AND) return REMAINDER;
  return x->op == FL_KO_OR ? OTHERWISE : 0;
}

/* How x, in statement 'at', gives many threads one number, whatever these have. */
static int lossy(const meets *m, const fl_kstmt *at, const fl_kexpr *x) {
  if (!x || x->kind == FL_KX_LOAD || x->kind == FL_KX_CONST) return 0;
  if (x->kind == FL_KX_VAR) return m->lossy[x->var];
  if (fl_kt_is_float(x->type) || is_uniform(m, at, x)) return 0;
  int bits = merges(x);
  const int whole = bits;
  for (int i = 0; i < x->n && !whole; ++i) bits |= lossy(m, at, x->x[i]);
  return bits;
}

static int see_lossy(void *arg, fl_kstmt *s) {
  meets *m = arg;
  if (s->kind != FL_KS_ASSIGN) return 1;
  const int bits = lossy(m, s, s->x[0]) | m->lossy[s->var];
  m->changed |= bits != m->lossy[s->var];
  m->lossy[s->var] = (uint8_t)bits;
  return 1;
}

static int see_value(void *arg, fl_kstmt *s) {
  meets *m = arg;
  if (s->result >= 0) m->d->assigns[s->result] = 2;
  if (s->kind != FL_KS_ASSIGN) return 1;
  m->value[s->var] = m->d->assigns[s->var]++ ? NULL : s->x[0];
  return 1;
}

/* ---- conditions ------------------------------------------------------------------------- */

static int is_own(const meets *m, const fl_kstmt *at, const fl_kexpr *x) {
  const fl_kindex class = fl_kindex_class(m->k, at, x);
  return class == FL_KI_THREAD_IN_BLOCK || class == FL_KI_INJECTIVE || class == FL_KI_OWN;
}

/* Sums and products of the numbers of threads and blocks. */
static int is_natural(const meets *m, const fl_kexpr *x, int nest) {
  if (!x || nest > MAX_NEST) return 0;
  if (x->kind == FL_KX_SPECIAL) return 1;
  if (x->kind == FL_KX_CONST) return x->value.i >= 0;
  if (x->kind == FL_KX_VAR) return is_natural(m, m->value[x->var], nest + 1);
  if (x->kind == FL_KX_CAST) return is_natural(m, x->x[0], nest + 1);
  return x->kind == FL_KX_BINARY && (x->op == FL_KO_ADD || x->op == FL_KO_MUL)
      && is_natural(m, x->x[0], nest + 1) && is_natural(m, x->x[1], nest + 1);
}

/* i < 1, also as !(i > 0). */
static int is_first(const meets *m, const fl_kstmt *at, const fl_kexpr *x, int truth) {
  if (x->x[1]->kind != FL_KX_CONST || fl_kt_is_float(x->x[1]->type)) return 0;
  const int64_t c = x->x[1]->value.i;
  const int below = x->op == (truth ? FL_KO_LT : FL_KO_GE) && c == 1, upto = x->op == (truth ? FL_KO_LE : FL_KO_GT) && c == 0;
  return (below || upto) && is_natural(m, x->x[0], 0) && is_own(m, at, x->x[0]);
}

/* Does x, being 'truth', hold for one thread of a block at most? With 'any': is it an equality, which
** is believed to choose one thread for each element (lane == 0). */
static int chooses(meets *m, const fl_kstmt *at, const fl_kexpr *x, int truth, int any) {
  if (!x || m->nest > MAX_NEST) return 0;
  const int both = x->kind == FL_KX_BINARY && x->op == (truth ? FL_KO_LAND : FL_KO_LOR);
  const int not = x->kind == FL_KX_UNARY && x->op == FL_KO_NOT;
  if (x->kind == FL_KX_VAR || x->kind == FL_KX_CAST || both || not) {
    m->nest++;
    const fl_kexpr *in = x->kind == FL_KX_VAR ? m->value[x->var] : x->x[0];
    const int r = chooses(m, at, in, truth != not, any) || (both && chooses(m, at, x->x[1], truth, any));
    m->nest--;
    return r;
  }
  if (x->kind != FL_KX_BINARY) return 0;
  if (is_first(m, at, x, truth)) return 1;
  if (x->op != (truth ? FL_KO_EQ : FL_KO_NE) || fl_kt_is_float(x->x[0]->type)) return 0;
  return any || (is_own(m, at, x->x[0]) && is_uniform(m, at, x->x[1]))
      || (is_own(m, at, x->x[1]) && is_uniform(m, at, x->x[0]));
}

static int is_chosen(meets *m, const guard *g, int any) {
  for (; g; g = g->up)
    if (chooses(m, g->at, g->at->x[0], g->truth, any)) return 1;
  return 0;
}

/* ---- stores ----------------------------------------------------------------------------- */

static int may_meet(meets *m, const fl_kstmt *s, const guard *g) {
  const int class = m->d->site_index[s->site];
  if (class == FL_KI_UNIFORM_GRID || class == FL_KI_UNIFORM_BLOCK) return !is_chosen(m, g, 0);
  const int bits = class == FL_KI_OTHER ? lossy(m, s, s->x[0]) : 0;
  return bits && bits != (QUOTIENT | REMAINDER) && !is_chosen(m, g, 1);
}

static void walk(meets *m, const fl_kblock *b, const guard *g) {
  for (const fl_kstmt *s = b->first; s && !m->d->a->failed; s = s->next) {
    const int kind = s->kind == FL_KS_STORE && !s->accumulate ? m->f->vars[s->var].kind : FL_KV_LOCAL;
    if ((kind == FL_KV_SHARED || kind == FL_KV_POINTER) && s->site >= 0 && s->site < m->d->n_sites0)
      m->d->site_meets[s->site] = (uint8_t)may_meet(m, s, g);
    if (s->kind != FL_KS_IF) {
      walk(m, &s->body, g);
      walk(m, &s->other, g);
      continue;
    }
    const guard yes = {s, 1, g};
    guard *no = fl_karena_new(m->d->a, sizeof *no);
    if (!no) return;
    *no = (guard){s, 0, g};
    walk(m, &s->body, &yes);
    walk(m, &s->other, no);
    if (!s->other.first && s->body.last && s->body.last->kind == FL_KS_RETURN) g = no;
  }
}

void fl_kad_meets(fl_kad_state *d, const fl_kfunc *f, const fl_kindices *k) {
  const size_t n = (size_t)f->n_vars + 1;
  meets m = {.d = d, .f = f, .k = k, .value = fl_karena_new(d->a, n * sizeof *m.value),
             .lossy = fl_karena_new(d->a, n)};
  const fl_kvisitor values = {see_value, NULL, &m}, more = {see_lossy, NULL, &m};
  d->assigns = fl_karena_new(d->a, n * sizeof *d->assigns);
  if (!m.value || !m.lossy || !d->assigns) return;
  fl_kwalk_block(&values, f->body);
  do {
    m.changed = 0;
    fl_kwalk_block(&more, f->body);
  } while (m.changed);
  walk(&m, &f->body, NULL);
  d->assigns = NULL;
}
