/*
** What the derivative has to know of each variable, computed for the whole function at once:
** - varied: it depends on an input through real numbers; useful: an output depends on it through
**   real numbers; active: both. Integers, booleans and piecewise constant functions carry nothing.
** - marks of statements: REVERSE (has an adjoint); FORWARD (part of the replay, the forward code
**   that the derivative runs again): the statement makes a value that is read when the derivative
**   is computed, in a partial derivative, an index or a condition, or from which such a value is
**   made. All else is not replayed, not stored and not restored: linear code needs nothing. The
**   reverse code of a loop computes its marks again, for the loop alone: a value that is read only
**   after the loop is not recomputed in it.
*/
#include "kernel/ad/ad_state.h"

/* Does a derivative pass from x, a real number, to its operand i, if that is one too? 1 also where
** the derivative of a builtin is not known: such a kernel is refused later. */
static int passes(const fl_kexpr *x, int i) {
  if (x->kind != FL_KX_CALL) return 1;
  const fl_kbuiltin_info *b = &fl_kbuiltins[x->op];
  if (b->rule != FL_KBR_FLOAT && b->rule != FL_KBR_FLOATI) return 0;
  return i < 3 && (!b->d[i] || strcmp(b->d[i], "0") != 0);
}

static int is_source(const fl_kexpr *x) { return x->kind == FL_KX_VAR || x->kind == FL_KX_LOAD; }

int fl_kad_flows(const uint8_t *set, const fl_kexpr *x) {
  if (!x || !fl_kt_is_float(x->type)) return 0;
  if (is_source(x)) return set[x->var];
  for (int i = 0; i < x->n; i++)
    if (passes(x, i) && fl_kad_flows(set, x->x[i])) return 1;
  return 0;
}

static int mark(uint8_t *set, int v) { return set[v] ? 0 : (set[v] = 1); }

/* Marks in 'set' all variables and arrays that x depends on through real numbers. Returns 1 if one
** is new. */
static int mark_sources(uint8_t *set, const fl_kexpr *x) {
  int changed = 0;
  if (!x || !fl_kt_is_float(x->type)) return 0;
  if (is_source(x)) return mark(set, x->var);
  for (int i = 0; i < x->n; i++)
    if (passes(x, i)) changed |= mark_sources(set, x->x[i]);
  return changed;
}

typedef struct pass { fl_kad_state *d; int changed; } pass;

fl_kexpr *fl_kad_value_of(const fl_kstmt *s) {
  if (s->kind == FL_KS_ASSIGN) return s->x[0];
  return fl_kwrites(s) || s->kind == FL_KS_SHUFFLE ? s->x[1] : NULL;
}

int fl_kad_target_of(const fl_kstmt *s) {
  return s->kind == FL_KS_SHUFFLE || s->kind == FL_KS_VOTE ? s->result : s->var;
}

static int see_varied(void *arg, fl_kstmt *s) {
  pass *p = arg;
  fl_kad_state *d = p->d;
  const int flows = fl_kad_flows(d->varied, fl_kad_value_of(s)), to = fl_kad_target_of(s);
  if (flows && to >= 0 && fl_kt_is_float(d->f->vars[to].type))
    p->changed |= mark(d->varied, to);
  if (s->kind == FL_KS_ATOMIC && s->result >= 0 && d->varied[s->var]
      && fl_kt_is_float(d->f->vars[s->result].type))
    p->changed |= mark(d->varied, s->result);
  return 1;
}

static int see_useful(void *arg, fl_kstmt *s) {
  pass *p = arg;
  fl_kad_state *d = p->d;
  const int to = fl_kad_target_of(s);
  if (s->kind == FL_KS_ATOMIC && s->result >= 0 && d->useful[s->result])
    p->changed |= mark(d->useful, s->var);
  if (to >= 0 && d->useful[to]) p->changed |= mark_sources(d->useful, fl_kad_value_of(s));
  return 1;
}

static void spread(fl_kad_state *d, int (*see)(void *, fl_kstmt *)) {
  pass p = {d, 1};
  const fl_kvisitor v = {see, NULL, &p};
  while (p.changed) {
    p.changed = 0;
    fl_kwalk_block(&v, d->body);
  }
}

void fl_kad_activity(fl_kad_state *d) {
  for (int i = 0; i < d->n0; i++) {
    const fl_kvar *v = &d->f->vars[i];
    const int want = v->param >= 0 ? d->r->want[v->param] : 0;
    if (!fl_kt_is_float(v->type) || v->kind == FL_KV_TABLE) continue;
    d->varied[i] = (want & FL_KAD_INPUT) != 0;
    d->useful[i] = (want & FL_KAD_OUTPUT) && v->kind == FL_KV_POINTER && !v->is_const;
  }
  spread(d, see_varied);
  spread(d, see_useful);
  for (int i = 0; i < d->n0; i++) d->active[i] = d->varied[i] && d->useful[i];
}

/* ---- what is read ----------------------------------------------------------------------- */

void fl_kad_values(fl_kset s, const fl_kexpr *x) {
  if (!x) return;
  if (x->var >= 0) fl_kset_add(s, x->var);
  for (int i = 0; i < x->n; i++) fl_kad_values(s, x->x[i]);
}

int fl_kad_uses(const fl_kexpr *x, int i, const int *active) {
  switch (x->kind) {
  case FL_KX_LOAD: return 1;
  case FL_KX_SELECT: return i == 0;
  case FL_KX_BINARY:
    if (x->op == FL_KO_MUL) return active[1 - i];
    return x->op == FL_KO_DIV && (i == 1 || active[1]);
  case FL_KX_CALL:
    if (x->op == FL_KB_FMA || x->op == FL_KB_MUL_RN) return i < 2 && active[1 - i];
    return x->op != FL_KB_ADD_RN && x->op != FL_KB_SUB_RN;
  default: return 0;
  }
}

/* Adds to s what the adjoint of x reads. */
static void partials(const fl_kad_state *d, fl_kset s, const fl_kexpr *x) {
  int active[FL_K_MAX_ARGS] = {0};
  if (!fl_kad_flows(d->active, x)) return;
  for (int i = 0; i < x->n; i++) active[i] = fl_kad_flows(d->active, x->x[i]);
  for (int i = 0; i < x->n; i++) {
    if (fl_kad_uses(x, i, active)) fl_kad_values(s, x->x[i]);
    if (passes(x, i)) partials(d, s, x->x[i]);
  }
}

void fl_kad_reads(const fl_kad_state *d, fl_kset s, const fl_kstmt *t) {
  const int to = fl_kad_target_of(t);
  const fl_kexpr *value = fl_kad_value_of(t);
  if (to < 0 || !d->active[to] || !value) return;
  for (int i = 0; i < 4; i++)
    if (t->x[i] != value) fl_kad_values(s, t->x[i]);
  partials(d, s, value);
  if (fl_kad_reads_won(d, t)) fl_kset_add(s, t->var);
  if (t->kind == FL_KS_ATOMIC && t->op != FL_KA_ADD && t->op != FL_KA_SUB) fl_kad_values(s, value);
}

/* ---- marks ------------------------------------------------------------------------------ */

typedef struct marker { fl_kad_state *d; fl_kset s; } marker;

static int mark_block(marker *m, const fl_kblock *b);

static int mark_stmt(marker *m, fl_kstmt *s) {
  fl_kad_state *d = m->d;
  const int to = fl_kad_target_of(s);
  const int needed = (to >= 0 && fl_kset_has(m->s, to) && !d->lasting[to])
                  || (s->result >= 0 && fl_kset_has(m->s, s->result));
  int marks = needed ? FL_KN_FORWARD : 0;
  switch (s->kind) {
  case FL_KS_ASSIGN: case FL_KS_STORE: case FL_KS_ATOMIC: case FL_KS_SHUFFLE:
  case FL_KS_VOTE:
    if (to >= 0 && d->active[to]) marks |= FL_KN_REVERSE;
    for (int i = 0; i < 4; i++)
      if (needed || (marks && fl_kad_claims_loads(d, s->x[i]))) fl_kad_values(m->s, s->x[i]);
    fl_kad_reads(d, m->s, s);
    break;
  case FL_KS_BARRIER:
    marks = (d->keep_forward ? FL_KN_FORWARD : 0) | (d->keep_reverse ? FL_KN_REVERSE : 0);
    if (marks) fl_kad_values(m->s, s->x[0]);
    break;
  case FL_KS_RETURN: marks = FL_KN_FORWARD; break;
  case FL_KS_IF: case FL_KS_LOOP:
    marks = mark_block(m, &s->body) | mark_block(m, &s->other);
    if (marks) fl_kad_values(m->s, s->x[0]);
    break;
  default: return 0;
  }
  fl_kad_note *note = fl_kad_note_of(d, s);
  if (note) note->marks = (uint8_t)marks;
  return marks;
}

static int mark_block(marker *m, const fl_kblock *b) {
  int marks = 0;
  for (fl_kstmt *s = b->first; s; s = s->next) marks |= mark_stmt(m, s);
  return marks;
}

/* Given that the values in s are needed: marks the statements of b and 'other' that compute them
** (FORWARD) or pass derivatives on (REVERSE), and adds to s the values that these need. Repeated
** until s no longer grows. */
static void mark_all(fl_kad_state *d, fl_kset s, const fl_kblock *b, const fl_kblock *other) {
  marker m = {d, s};
  fl_kset before = fl_kset_new(d);
  if (!before) return;
  do {
    memcpy(before, s, (size_t)d->words * sizeof *s);
    mark_block(&m, b);
    mark_block(&m, other);
  } while (memcmp(before, s, (size_t)d->words * sizeof *s));
}

/* Sets keep_forward if the replay of the values in s needs barriers, and keep_reverse if the
** reverse code does. Returns whether one of the two flags has changed. */
static int barriers(fl_kad_state *d, fl_kset s) {
  const int f = d->keep_forward, r = d->keep_reverse;
  for (int i = 0; i < d->n0; i++) {
    const fl_kvar *v = &d->f->vars[i];
    if (v->kind != FL_KV_SHARED && (v->kind != FL_KV_POINTER || !fl_kad_written(d, i))) continue;
    if (fl_kset_has(s, i) && fl_kad_written(d, i) && !d->lasting[i]) d->keep_forward = 1;
    if (d->active[i]) d->keep_reverse = 1;
  }
  return f != d->keep_forward || r != d->keep_reverse;
}

void fl_kad_need(fl_kad_state *d) {
  const fl_kblock none = {NULL, NULL};
  fl_kset s = fl_kset_new(d);
  if (!s) return;
  do mark_all(d, s, &d->body, &none);
  while (barriers(d, s));
}

void fl_kad_need_again(fl_kad_state *d, const fl_kstmt *loop, int condition) {
  fl_kset s = fl_kset_new(d);
  if (!s) return;
  if (condition) fl_kad_values(s, loop->x[0]);
  mark_all(d, s, &loop->body, &loop->other);
}

/* ---- accumulations v = v + e ---------------------------------------------------------- */

/* The chain x of + and - (v + a - b) without its operand 'var'; NULL: x is not such a chain, or
** reads 'var' elsewhere too. */
static fl_kexpr *without(fl_kad_state *d, fl_kexpr *x, int var) {
  if (x->kind != FL_KX_BINARY || (x->op != FL_KO_ADD && x->op != FL_KO_SUB)) return NULL;
  fl_kexpr *l = x->x[0], *r = x->x[1];
  const int add = x->op == FL_KO_ADD;
  if (l->kind == FL_KX_VAR && l->var == var) {
    if (fl_kreads(r, var)) return NULL;
    return add ? r : fl_kexpr_unary(d->a, FL_KO_NEG, r);
  }
  if (add && r->kind == FL_KX_VAR && r->var == var) return fl_kreads(l, var) ? NULL : l;
  fl_kexpr *rest = fl_kreads(r, var) ? NULL : without(d, l, var);
  return rest ? kx_op(d, x->op, rest, r) : NULL;
}

fl_kexpr *fl_kad_added(fl_kad_state *d, const fl_kstmt *s) {
  if (s->kind != FL_KS_ASSIGN || !fl_kt_is_float(s->x[0]->type)) return NULL;
  return without(d, s->x[0], s->var);
}
