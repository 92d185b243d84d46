/*
** Finds the variables whose cotangent may be 0 because of the way that the forward code took: those
** that are read or overwritten inside a branch or loop, in an arm of ?:, or in min and max, those
** that get a new value before a real number is made of the old one, local arrays whose index
** depends on reals, and all that these are computed from. There 0 times a slope is 0 even where the
** slope is infinite or NaN ("r = sqrtf(v); y = v > 0 ? r : 0").
*/
#include "kernel/ad/ad_state.h"

typedef struct walk {
  fl_kad_state *d;
  fl_kset read, assigned, chosen;          /* chosen: integers that depend on reals */
  int32_t *lost, *inside;  /* by variable: how many of its assignments in the IF lose an old value;
                           ** how many assignments it has in the IF */
  int changed;
  uint8_t *one;      /* by variable: 1 for the one that is asked about; 'passed' says whether a
                     ** statement passes its value on */
  int passed;
} walk;

static int see_read(void *arg, fl_kexpr *x) {
  walk *w = arg;
  if (x->var >= 0 && x->var < w->d->n0) fl_kset_add(w->read, x->var);
  return 1;
}

static int see_assigned(void *arg, fl_kstmt *s) {
  walk *w = arg;
  if (s->kind == FL_KS_ASSIGN || s->kind == FL_KS_STORE) fl_kset_add(w->assigned, s->var);
  if (s->result >= 0) fl_kset_add(w->assigned, s->result);
  return 1;
}

/* Marks in strong_var all variables and arrays that the branch reads and does not assign to. */
static void branch(walk *w, const fl_kblock *b) {
  const fl_kvisitor v = {see_assigned, see_read, w};
  memset(w->read, 0, (size_t)w->d->words * sizeof *w->read);
  memset(w->assigned, 0, (size_t)w->d->words * sizeof *w->assigned);
  fl_kwalk_block(&v, *b);
  for (int i = 0; i < w->d->n0; i++)
    if (fl_kset_has(w->read, i) && !fl_kset_has(w->assigned, i)) w->d->strong_var[i] = 1;
}

static int see_lost(void *arg, fl_kstmt *s) {
  walk *w = arg;
  if (s->kind == FL_KS_DECL || s->var < 0) return 1;
  w->inside[s->var]++;
  w->lost[s->var] += s->kind == FL_KS_STORE ? !s->accumulate : s->kind == FL_KS_ASSIGN &&
                     !fl_kreads(s->x[0], s->var);
  return 1;
}

/* Marks in strong_var the variables that are assigned to outside of the IF or LOOP, and whose old
** value it may overwrite. */
static void overwritten(walk *w, fl_kstmt *s) {
  const fl_kvisitor v = {see_lost, NULL, w};
  memset(w->lost, 0, 2 * (size_t)w->d->n0 * sizeof *w->lost);
  fl_kwalk_stmt(&v, s);
  for (int i = 0; i < w->d->n0; i++)
    if (w->lost[i] && w->inside[i] < w->d->defs->var[i].count) w->d->strong_var[i] = 1;
}

static int see_passed(void *arg, fl_kstmt *s) {
  walk *w = arg;
  const int to = fl_kad_target_of(s);
  w->passed |= to >= 0 && !w->one[to] && fl_kt_is_float(w->d->f->vars[to].type) &&
               fl_kad_flows(w->one, fl_kad_value_of(s));
  return !w->passed;
}

enum { MOST_STATEMENTS = 2000 };

/* Does a statement after s, in its block, give the variable of s a new value before another
** variable gets a real number that is made of the old value? 1 also if that is too far to be
** seen. */
static int is_replaced(walk *w, const fl_kstmt *s) {
  const fl_kvisitor v = {see_passed, NULL, w};
  int is = 0, n = 0;
  w->one[s->var] = 1;
  w->passed = 0;
  for (fl_kstmt *t = s->next; t && !is && !w->passed; t = t->next) {
    is = n++ > MOST_STATEMENTS || (t->kind == FL_KS_ASSIGN && t->var == s->var &&
                                   !fl_kad_flows(w->one, t->x[0]));
    if (!is) fl_kwalk_stmt(&v, t);
  }
  w->one[s->var] = 0;
  return is;
}

static int see_branch(void *arg, fl_kstmt *s) {
  walk *w = arg;
  if (s->kind == FL_KS_LOOP) overwritten(w, s);
  if (s->kind == FL_KS_ASSIGN && w->d->active[s->var] && !w->d->strong_var[s->var])
    w->d->strong_var[s->var] = (uint8_t)is_replaced(w, s);
  if (s->kind != FL_KS_IF) return 1;
  branch(w, &s->body);
  branch(w, &s->other);
  overwritten(w, s);
  return 1;
}

/* Is x a real number, or an integer variable whose value depends on real numbers? */
static int chooses(const void *of, const fl_kexpr *x) {
  const walk *w = of;
  return fl_kt_is_float(x->type) || (x->kind == FL_KX_VAR && fl_kset_has(w->chosen, x->var));
}

static int is_chosen(const walk *w, const fl_kexpr *x) { return fl_kexpr_any(x, chooses, w); }

static int see_chosen(void *arg, fl_kstmt *s) {
  walk *w = arg;
  if (s->kind != FL_KS_ASSIGN || fl_kset_has(w->chosen, s->var) || !is_chosen(w, s->x[0])) return 1;
  fl_kset_add(w->chosen, s->var);
  w->changed = 1;
  return 1;
}

static int mark(void *arg, fl_kexpr *x) {
  walk *w = arg;
  if (x->var >= 0 && x->var < w->d->n0 && !w->d->strong_var[x->var])
    w->d->strong_var[x->var] = w->changed = 1;
  return 1;
}

static int see_choice(void *arg, fl_kexpr *x) {
  const fl_kvisitor v = {NULL, mark, arg};
  if (x->kind == FL_KX_SELECT) {
    fl_kwalk_expr(&v, x->x[1]);
    fl_kwalk_expr(&v, x->x[2]);
  } else if (fl_kad_chooses(x)) {
    fl_kwalk_expr(&v, x);
  } else if (x->kind == FL_KX_LOAD && ((walk *)arg)->d->f->vars[x->var].kind == FL_KV_ARRAY
             && is_chosen(arg, x->x[0])) {
    (void)mark(arg, x);
  }
  return 1;
}

static int see_source(void *arg, fl_kstmt *s) {
  walk *w = arg;
  const fl_kvisitor v = {NULL, mark, w};
  if ((s->kind == FL_KS_ASSIGN || s->kind == FL_KS_STORE) && w->d->strong_var[s->var]
      && fl_kt_is_float(w->d->f->vars[s->var].type))
    fl_kwalk_expr(&v, s->x[s->kind == FL_KS_STORE]);
  return 1;
}

int fl_kad_chooses(const fl_kexpr *x) {
  return x->kind == FL_KX_CALL && (x->op == FL_KB_FMAX || x->op == FL_KB_FMIN || x->op == FL_KB_FDIM
                                   || x->op == FL_KB_SATURATE);
}

void fl_kad_strong(fl_kad_state *d) {
  walk w = {.d = d, .read = fl_kset_new(d), .assigned = fl_kset_new(d), .chosen = fl_kset_new(d),
            .lost = fl_karena_new(d->a, 2 * ((size_t)d->n0 + 1) * sizeof *w.lost),
            .one = fl_karena_new(d->a, (size_t)d->n0 + 1)};
  w.inside = w.lost ? w.lost + d->n0 : NULL;
  const fl_kvisitor branches = {see_branch, see_choice, &w}, sources = {see_source, NULL, &w},
                    chosen = {see_chosen, NULL, &w};
  d->strong_var = fl_karena_new(d->a, (size_t)d->n0 + 1);
  if (!w.read || !w.assigned || !w.chosen || !w.lost || !w.one || !d->strong_var) return;
  do {
    w.changed = 0;
    fl_kwalk_block(&chosen, d->body);
  } while (w.changed);
  fl_kwalk_block(&branches, d->body);
  do {
    w.changed = 0;
    fl_kwalk_block(&sources, d->body);
  } while (w.changed);
}
