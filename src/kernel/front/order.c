/*
** The order of evaluation, by the rules of C++17. A value is a tree that is evaluated where it is
** used; the effects of an operand (i++, a call) are statements placed where the operand was read.
** So:
**
** - Right before left: of assignments. The statements of the left side are moved after those of the
**   right one.
** - Left before right: of << >>, a[b], lists in braces. A value that later statements change is
**   kept in a temporary.
** - Unspecified: other operators and arguments. Where one operand changes what another one uses the
**   expression is refused, since compilers differ. Calls of functions are not interleaved, and run
**   from left to right, as on GPUs: f(&s) + s and s + f(&s) differ.
**
** An operand of an operator that the text defines is an argument of its function: if it is taken by
** reference, the function reads what is there when it runs. That holds for "a[--b.n] = b" of
** structs too, but NVRTC reads b first, so it gets the printed tree of such a kernel
** (fl_kfunc.reordered).
*/
#include "kernel/front/forms.h"

/* A write to variable 'var', of an array to element 'index'. anywhere: the element is taken as
** unknown. found: set by a search for expressions or statements that this write concerns. */
typedef struct effect {
  const fl_front *p; int32_t var; const fl_kexpr *index; uint8_t anywhere; int found;
} effect;

static int is_first(const fl_kexpr *x) { return !x || (x->kind == FL_KX_CONST && !x->value.i); }

static int is_at(const effect *e, const fl_kexpr *index) {
  return e->anywhere ||
         (is_first(e->index) ? is_first(index) : index && fl_kexpr_same(e->index, index));
}

/* Is element 'index' of 'var' what e writes? Two indices count as equal only if they are the same
** expression, unless e->anywhere is set. A pointer into one of several arrays (turn.c) may point
** into any of that type. */
static int is_same(const effect *e, int32_t var, const fl_kexpr *index) {
  if (var == e->var) return is_at(e, index);
  const fl_kvar *a = &e->p->f->vars[e->var], *b = &e->p->f->vars[var];
  return (fl_turn_of(e->p, e->var) || fl_turn_of(e->p, var)) && a->type == b->type &&
         a->kind != FL_KV_LOCAL && b->kind != FL_KV_LOCAL;
}

static int see_read(void *arg, fl_kexpr *x) {
  effect *e = arg;
  if (x->kind == FL_KX_VAR && x->var == e->var) e->found = 1;
  if (x->kind == FL_KX_LOAD && is_same(e, x->var, x->x[0])) e->found = 1;
  return !e->found;
}

/* The variable that s writes, with the index of the element in *index; -1: none. Without 'atomics'
** an atomic does not count: no expression is refused for one, since other threads may come first
** anyway. */
static int32_t written(const fl_kstmt *s, int atomics, const fl_kexpr **index) {
  const int stores = s->kind == FL_KS_STORE || (atomics && s->kind == FL_KS_ATOMIC);
  *index = stores ? s->x[0] : NULL;
  return stores || s->kind == FL_KS_ASSIGN ? s->var : -1;
}

/* Sets e->found if s writes what e writes. Statements of called functions are left out. */
static int see_use(void *arg, fl_kstmt *s) {
  effect *e = arg;
  const fl_kexpr *index;
  if (s->called) return 0;
  const int32_t var = written(s, 0, &index);
  if (var >= 0 && is_same(e, var, index)) e->found = 1;
  return !e->found;
}

/* Does reading v read what e writes? With 'address': does computing the address of v, if v is an
** lvalue? */
static int reads(effect *e, const fl_cvalue *v, int address) {
  const fl_kvisitor see = { NULL, see_read, e };
  const int place = v->kind == FL_V_PLACE && v->var >= 0 && v->type->kind != FL_C_ARRAY &&
                    v->type->kind != FL_C_POINTER;
  e->found = 0;
  if (v->kind == FL_V_EXPR) fl_kwalk_expr(&see, v->e);
  if (v->kind == FL_V_PLACE || v->kind == FL_V_POINTER) fl_kwalk_expr(&see, v->idx);
  const int leaves = v->kind == FL_V_PARTS || (place && !v->linear)
                     ? fl_ctype_leaves(v->type) : place;
  for (int i = 0; v->kind == FL_V_PARTS && i < leaves; i++) fl_kwalk_expr(&see, v->parts[i]);
  for (int i = 0; i < leaves && place && !address; i++)
    if (is_same(e, v->var + i, v->idx)) e->found = 1;
  return e->found;
}

/* ---- statements of an operand ---------------------------------------------------------------- */

fl_kmark fl_order_mark(const fl_front *p) {
  return (fl_kmark){ p->b, p->b ? p->b->last : NULL, p->f ? p->f->n_vars : 0 };
}

/* The statements added since m, still linked. */
static fl_kblock since(const fl_kmark *m) {
  fl_kblock none = { NULL, NULL };
  if (!m->b || m->b->last == m->last) return none;
  return (fl_kblock){ m->last ? m->last->next : m->b->first, m->b->last };
}

fl_kblock fl_order_cut(const fl_kmark *m) {
  const fl_kblock cut = since(m);
  if (!cut.first) return cut;
  if (m->last) m->last->next = NULL;
  else m->b->first = NULL;
  m->b->last = m->last;
  return cut;
}

/* A search for effects (writes to variables). first: only variables with lower numbers count, those
** from before the operands were read, and pointers into one of several arrays. which: PLAIN:
** effects of called functions and atomics are left out; ALL: they are not. meet: called for each
** effect; if it returns true the search ends, and 'found' is 1 + the variable. */
enum { PLAIN = 1, ALL };
typedef struct effects {
  const fl_front *p;
  int32_t first;
  int which, found;
  int (*meet)(void *with, effect *e);
  void *with;
} effects;

static int see_effect(void *arg, fl_kstmt *s) {
  effects *a = arg;
  effect e = { .p = a->p };
  if (a->which == PLAIN && s->called) return 0;
  e.var = written(s, a->which == ALL, &e.index);
  const int old = e.var >= 0 && (e.var < a->first || fl_turn_of(a->p, e.var));
  if (old && a->meet(a->with, &e)) a->found = e.var + 1;
  return !a->found;
}

/* 1 + a variable for whose effect 'meet' returns true; 0: none. */
static int32_t any_effect(const fl_front *p, fl_kblock of, int32_t first, int which,
                          int (*meet)(void *with, effect *e), void *with) {
  effects a = { .p = p, .first = first, .which = which, .meet = meet, .with = with };
  const fl_kvisitor see = { see_effect, NULL, &a };
  for (fl_kstmt *s = of.first; s && !a.found; s = s == of.last ? NULL : s->next)
    fl_kwalk_stmt(&see, s);
  return a.found;
}

/* ---- one before the other -------------------------------------------------------------------- */

typedef struct reader { const fl_cvalue *v; int address; uint8_t anywhere; } reader;

static int changes(void *with, effect *e) {
  const reader *r = with;
  e->anywhere = r->anywhere;
  return reads(e, r->v, r->address);
}

static fl_cvalue kept(fl_front *p, fl_cvalue v, int address, int32_t line) {
  if (p->failed) return fl_val_none();
  if (v.kind == FL_V_EXPR) return fl_val_expr(fl_val_stable(p, v.e));
  if (v.kind == FL_V_POINTER ||
      (v.kind == FL_V_PLACE && (address || v.type->kind == FL_C_ARRAY))) {
    v.idx = fl_val_stable(p, v.idx);
    return v;
  }
  if (v.kind == FL_V_PLACE && v.type->kind == FL_C_SCALAR)
    return fl_val_expr(fl_val_stable(p, fl_val_scalar(p, v, line)));
  fl_kexpr **from = fl_val_parts(p, v, line);
  const int n = from ? fl_ctype_leaves(v.type) : 0;
  const fl_cvalue r = fl_val_in_parts(p, v.type);
  for (int i = 0; r.parts && i < n; i++) r.parts[i] = fl_val_stable(p, from[i]);
  return p->failed ? fl_val_none() : r;
}

void fl_order_before(fl_front *p, fl_cvalue *v, int n, const fl_kmark *m, int address,
                     int32_t line) {
  fl_kblock after = since(m);
  int cut = 0;
  for (int i = 0; i < n && after.first && !p->failed; i++) {
    reader r = { &v[i], address, 1 };
    if (!any_effect(p, after, m->vars, ALL, changes, &r)) continue;
    if (!cut++) after = fl_order_cut(m);
    const fl_cvalue before = v[i];
    v[i] = kept(p, before, address, line);
    if (!address || before.kind == FL_V_PLACE || !before.either) continue;
    /* a reference is bound to the chosen lvalue, not to the value that it has at this point */
    v[i].either = before.either;
    v[i].is_const = before.is_const;
    v[i].torn = 1;
  }
  if (cut) fl_kblock_append(m->b, after);
}

/* ---- in an open order ------------------------------------------------------------------------ */

static int is_used(void *with, effect *e) {
  const fl_kblock *in = with;
  const fl_kvisitor see = { see_use, see_read, e };
  e->found = 0;
  for (fl_kstmt *s = in->first; s && !e->found; s = s == in->last ? NULL : s->next)
    fl_kwalk_stmt(&see, s);
  return e->found;
}

static void refuse(fl_front *p, int32_t found, int32_t line) {
  if (found)
    fl_refuse(p, line,
              "one operand changes '%s', another uses it, and C++ does not say which is first"
              FL_DO ": write two statements",
                       p->f->vars[found - 1].source);
}

/* Refuses operand v if an effect of the other operands, in 'of', changes what v reads. An argument
** that is an lvalue is only marked (v->torn), since passing a reference reads nothing. */
static void value_beside(fl_front *p, fl_kblock of, int32_t first, fl_cvalue *v, int argument,
                         int32_t line) {
  reader r = { v, argument, 0 };
  const int32_t found = any_effect(p, of, first, PLAIN, changes, &r);
  refuse(p, found, line);
  r.address = 0;
  if (!found && argument && any_effect(p, of, first, PLAIN, changes, &r)) v->torn = 1;
}

static void beside(fl_front *p, const fl_kmark *m, const fl_kmark *middle, fl_cvalue *x, int n,
                   fl_cvalue *y, int argument, int32_t line) {
  fl_kblock left = since(m), right = since(middle);
  if (!left.first || p->failed) return;
  if (left.first == right.first) left.first = left.last = NULL;
  else if (right.first) left.last = middle->last;
  if (left.first && right.first) {
    refuse(p, any_effect(p, left, m->vars, PLAIN, is_used, &right), line);
    refuse(p, any_effect(p, right, m->vars, PLAIN, is_used, &left), line);
  }
  if (left.first) value_beside(p, left, m->vars, y, argument, line);
  for (int i = 0; i < n && right.first; i++) value_beside(p, right, m->vars, &x[i], argument, line);
}

void fl_order_open(fl_front *p, const fl_kmark *m, const fl_kmark *middle, fl_cvalue *x, int n,
                   fl_cvalue *y, int32_t line) {
  beside(p, m, middle, x, n, y, 0, line);
  fl_order_before(p, x, n, middle, 0, line);
}

/* Is v, or what it was chosen from, changed by an effect of 'of'? */
static int changed(const fl_front *p, fl_kblock of, int32_t first, const fl_cvalue *v) {
  reader r = { v, 0, 1 };
  const fl_keither *e = v->kind == FL_V_LIST ? NULL : v->either;
  return any_effect(p, of, first, ALL, changes, &r) ||
         (e && (changed(p, of, first, &e->x) || changed(p, of, first, &e->y)));
}

/* Saves the current value of an lvalue in temporaries, for later reads: 'e' or 'parts' of v refer
** to them. An object with arrays can not be read later, only be bound to a reference. */
static void hold(fl_front *p, fl_cvalue *v, int32_t line) {
  if (v->kind != FL_V_PLACE || v->torn) {
    v->torn |= v->kind != FL_V_LIST && v->either;                  /* (its value is saved) */
    return;
  }
  const fl_cvalue now = fl_ctype_has_array(v->type) ? fl_val_none() : kept(p, *v, 0, line);
  v->e = now.e;
  v->parts = now.parts;
  v->torn = 1;
}

void fl_order_passed(fl_front *p, fl_cvalue *args, int n, const fl_kmark *m, int32_t line) {
  int cut = 0;
  fl_order_before(p, args, n, m, 1, line);
  fl_kblock after = since(m);
  for (int i = 0; i < n && after.first && !p->failed; i++) {
    if (!changed(p, after, m->vars, &args[i])) continue;
    if (!cut++) after = fl_order_cut(m);
    hold(p, &args[i], line);
  }
  if (cut) fl_kblock_append(m->b, after);
}

void fl_order_argument(fl_front *p, const fl_kmark *m, const fl_kmark *middle, fl_cvalue *args,
                       int n, int32_t line) {
  beside(p, m, middle, args, n, &args[n], 1, line);
  fl_order_passed(p, args, n, middle, line);
}

fl_cvalue fl_order_value(fl_front *p, fl_cvalue v, int32_t line) {
  if (!v.torn || p->failed || !fl_val_is_object(v)) return v;
  if (!v.parts) refuse(p, v.var + 1, line);
  v.kind = FL_V_PARTS;
  v.torn = 0;
  v.either = NULL;
  return p->failed ? fl_val_none() : v;
}

fl_cvalue fl_order_now(fl_front *p, fl_cvalue v, int32_t line) {
  if (v.torn && v.either) fl_choose_place(p, &v, line);
  v.torn = 0;
  return v;
}
