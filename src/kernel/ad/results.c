/*
** Integers that the launch has left in its results. A kernel that stores the position it has found,
**   for (…) if (x[c] > best) { best = x[c]; p = c; }      y[i] = x[p];      at[i] = p;
** would search again for the gradient of x. So it is derived as if it were
**   for (…) …      at[i] = p;      y[i] = x[at[i]];
** and if no later store reaches the element (facts/last.c), the adjoint reads at[i] as the launch
** has left it, and the search is gone.
**
** Only stores to results that the launcher makes (FL_KAD_FRESH), which share no memory with an
** argument. A store goes up at most to the end of a statement that changes its operands, accesses
** the array, may jump, or waits for other threads.
*/
#include "kernel/ad/ad_state.h"

typedef struct results {
  fl_kfunc *f;
  const fl_kad_request *r;
  fl_kdefs *defs;
  uint8_t *set;              /* by variable: what a statement assigns */
  const fl_kstmt *store;     /* at work: the store, … */
  const fl_kexpr *value;     /* … the integer that it stores, before it is made wider */
  int inside;                /* what is being read is in the index of an array of reals */
  int put;                   /* the value was replaced by the element in the statement */
  int useful;                /* it was somewhere in the index of an array of reals */
} results;

/* ---- which stores ------------------------------------------------------------------------ */

static int is_integer(int type) { return fl_kt_is_int(type) && type != FL_KT_BOOL; }

/* The integer that s stores, before a conversion to a wider type; NULL: it stores none. */
static const fl_kexpr *stored(const fl_kfunc *f, const fl_kstmt *s) {
  const fl_kexpr *x = s->x[1];
  if (!is_integer(f->vars[s->var].type)) return NULL;
  if (x->kind == FL_KX_CAST && is_integer(x->x[0]->type) &&
      fl_kt_size(x->x[0]->type) < fl_kt_size(x->type)) x = x->x[0];
  return x;
}

/* Has x several values while the kernel runs, so that the reverse code would have to save it? */
static int changes(const results *w, const fl_kexpr *x) {
  if (x->kind == FL_KX_VAR) return w->defs->var[x->var].count > 1;
  return x->kind == FL_KX_LOAD && (w->f->vars[x->var].kind == FL_KV_SHARED ||
                                   w->f->vars[x->var].kind == FL_KV_ARRAY);
}

static int is_result(results *w, const fl_kstmt *s) {
  if (s->kind != FL_KS_STORE || s->accumulate || w->f->vars[s->var].kind != FL_KV_POINTER) return 0;
  if (!(w->r->want[w->f->vars[s->var].param] & FL_KAD_FRESH)) return 0;
  w->value = stored(w->f, s);
  return w->value && changes(w, w->value) && !fl_kreads(s->x[0], s->var);
}

/* ---- how far it goes --------------------------------------------------------------------- */

static int writes_operand(const void *of, const fl_kstmt *s) {
  const results *w = of;
  return fl_kwrites(s) && (fl_kreads(w->value, s->var) || fl_kreads(w->store->x[0], s->var));
}

static int accesses(const void *of, const fl_kexpr *x) {
  const results *w = of;
  return x->kind == FL_KX_LOAD && x->var == w->store->var;
}

static int touches(const void *of, const fl_kstmt *s) {
  const results *w = of;
  int any = fl_kwrites_to(s, w->store->var);
  for (int i = 0; i < 4 && !any; i++) any = fl_kexpr_any(s->x[i], accesses, w);
  for (int i = 0; i < s->n_args && !any; i++) any = fl_kexpr_any(s->args[i], accesses, w);
  return any;
}

static int jumps_or_waits(const void *none, const fl_kstmt *s) {
  (void)none;
  switch (s->kind) {
  case FL_KS_BREAK: case FL_KS_CONTINUE: case FL_KS_LEAVE: case FL_KS_RETURN: case FL_KS_ASSERT:
  case FL_KS_BARRIER: case FL_KS_SHUFFLE: case FL_KS_VOTE: return 1;
  default: return 0;
  }
}

static int reads_set(const void *of, const fl_kexpr *x) {
  const results *w = of;
  return x->var >= 0 && w->set[x->var];
}

/* Have the index and the value of the store after t the values that they have before it? */
static int keeps(results *w, const fl_kstmt *t) {
  memset(w->set, 0, (size_t)w->f->n_vars);
  fl_kassigned_by(t, w->set);
  return !fl_kexpr_any(w->value, reads_set, w) && !fl_kexpr_any(w->store->x[0], reads_set, w) &&
         !fl_kstmt_any(t, writes_operand, w) && !fl_kstmt_any(t, touches, w) &&
         !fl_kstmt_any(t, jumps_or_waits, NULL);
}

/* ---- the element in place of the value --------------------------------------------------- */

static int is_of_reals(const results *w, int32_t var) {
  return w->f->vars[var].kind == FL_KV_POINTER && fl_kt_is_float(w->f->vars[var].type);
}

/* x with the element in place of the value. */
static fl_kexpr *put(void *of, fl_kexpr *x) {
  results *w = of;
  fl_kfunc *f = w->f;
  if (fl_kexpr_same(x, w->value)) {
    w->put = 1;
    w->useful |= w->inside;
    return fl_kexpr_cast(f->arena, x->type, fl_kexpr_load(f, w->store->var,
                                                          fl_kexpr_clone(f, w->store->x[0])));
  }
  const int inside = w->inside;
  w->inside |= x->kind == FL_KX_LOAD && is_of_reals(w, x->var);
  x = fl_kexpr_mapped(f->arena, x, put, w);
  w->inside = inside;
  return x;
}

static int put_statement(void *of, fl_kstmt *s) {
  results *w = of;
  for (int i = 0; i < 4; i++) {
    w->inside = i == 0 && fl_kwrites(s) && is_of_reals(w, s->var);
    if (s->x[i]) s->x[i] = put(w, s->x[i]);
  }
  w->inside = 0;
  for (int i = 0; i < s->n_args; i++) s->args[i] = put(w, s->args[i]);
  return 1;
}

/* Replaces the value in t. Returns whether it was there. */
static int put_everywhere(results *w, fl_kstmt *t) {
  w->put = 0;
  fl_kwalk_stmt(&(fl_kvisitor){ put_statement, NULL, w }, t);
  return w->put;
}

/* Takes s out of the block and puts it before 'to', which is earlier in it. */
static void move_up(fl_kblock *b, fl_kstmt *s, const fl_kstmt *to) {
  fl_kblock all = *b, one = {0};
  *b = (fl_kblock){0};
  for (fl_kstmt *t; (t = fl_kblock_take(&all));) fl_kblock_put(t == s ? &one : b, t);
  fl_kblock_before(b, to, one);
}

/* Makes the statements right before and right after s, a store in block b, read the stored element
** in place of the value; s is moved up to before the first of them. */
static void use(results *w, fl_kblock *b, fl_kstmt *s) {
  fl_kstmt *from = b->first, *first = NULL;
  w->store = s;
  for (fl_kstmt *t = b->first; t != s; t = t->next) if (!keeps(w, t)) from = t->next;
  for (fl_kstmt *t = from; t != s; t = t->next)
    if (put_everywhere(w, t) && !first) first = t;
  for (fl_kstmt *t = s->next; t && keeps(w, t); t = t->next) put_everywhere(w, t);
  if (first) move_up(b, s, first);
}

static void blocks(results *w, fl_kblock *b) {
  for (fl_kstmt *s = b->first, *next; s && !w->f->arena->failed; s = next) {
    next = s->next;
    blocks(w, &s->body);
    blocks(w, &s->other);
    if (is_result(w, s)) use(w, b, s);
  }
}

fl_kfunc *fl_kad_read_results(fl_karena *a, const fl_kfunc *f, const fl_kad_request *r) {
  results w = { .f = f->has_body ? fl_kfunc_clone(a, f) : NULL, .r = r };
  if (!w.f) return NULL;
  w.defs = fl_kdefs_new(a, w.f, w.f->body);
  w.set = fl_karena_new(a, (size_t)w.f->n_vars + 1);
  if (!w.defs || !w.set) return NULL;
  blocks(&w, &w.f->body);
  if (w.useful && !a->failed) fl_kpass_done("results", w.f, w.f->body);
  return w.useful && !a->failed ? w.f : NULL;
}
