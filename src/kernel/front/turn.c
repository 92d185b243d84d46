/*
** Turns: pointers into one of several arrays: "float *t = a; a = b; b = t;" and "c ? a : b". A
** kernel is first read without turns; if that fails it is read again with p->turning (2: then local
** objects that are structs of numbers of one type are arrays of these numbers). A pointer that is
** assigned later then points into a separate variable that stands for all arrays it may point
** into; a second variable, sel, holds the variable number of the array that it points into now.
** When the body is read, every access to the first variable becomes a choice between accesses to
** these arrays.
**
** A copy of such a pointer, or a formal that is bound to it, has a separate 'sel', so that it keeps
** its value when the first pointer is assigned again.
*/
#include "kernel/front/forms.h"
#include <string.h>

enum { MOST = 64 };
struct fl_kturn {
  int32_t var, sel, n, from[MOST];       /* from: variables of arrays and of other turns (their
                                         ** 'var'), into which it may point */
  struct fl_kturn *next;
};

fl_kturn *fl_turn_of(const fl_front *p, int32_t var) {
  fl_kturn *t = p->turns;
  while (t && t->var != var) t = t->next;
  return t;
}

/* Is the type a number, or a struct of numbers of one type without padding? */
static int is_packed(const fl_ctype *of) {
  int64_t n;
  return of->kind == FL_C_SCALAR ||
         (of->kind == FL_C_STRUCT && fl_ctype_element(of, &n) != FL_KT_VOID);
}

int fl_turn_fits(const fl_front *p, const fl_ctype *of, const fl_cvalue *v) {
  /* numbers are read with the type that they are stored as */
  if (of->kind == FL_C_SCALAR)
    return !v || v->var < 0 || (p->f->vars[v->var].type == of->scalar && !v->unit);
  int64_t n;
  return is_packed(of) && (!v || v->var < 0 || (v->linear && !v->unit &&
         p->f->vars[v->var].type == fl_ctype_element(of, &n)));
}

int fl_turn_wanted(fl_front *p, const fl_cvalue *x, const fl_cvalue *y) {
  const int same = x->type && y->type && fl_ctype_same(x->type, y->type) && !x->null && !y->null;
  if (same && is_packed(x->type) && !p->turning) p->turn_wanted = 1;
  return same && p->turning && fl_turn_fits(p, x->type, x) && fl_turn_fits(p, y->type, y);
}

/* Is the name between 'before' and 'after' assigned to, by = or += …, or changed by ++ or --? */
static int changes(const fl_ktok *before, const fl_ktok *after) {
  const int p0 = fl_ktok_punct(before), p1 = fl_ktok_punct(after);
  return p1 == '=' || p1 == FL_PU_INC || p1 == FL_PU_DEC ||
         (p1 >= FL_PU_ADD_SET && p1 <= FL_PU_XOR_SET) || p0 == FL_PU_INC || p0 == FL_PU_DEC;
}

/* With p->turning: is the name at token i an argument by itself? It may be taken by reference and
** assigned. Without it: 0. */
static int is_passed(const fl_front *p, int64_t i) {
  if (!p->turning || i < 1 || i + 1 >= p->toks.n) return 0;
  const int a = fl_ktok_punct(&p->toks.at[i - 1]), b = fl_ktok_punct(&p->toks.at[i + 1]);
  return (a == '(' || a == ',') && (b == ')' || b == ',');
}

/* Is the name assigned by = (with 'any' also changed by ++ or +=), or with 'passed' an argument by
** itself (is_passed), from token 'at' to the end of a block: of that whose '{' is at 'at' (depth 0)
** or of that around it (1)? This looks at tokens only: another variable of that name counts too. */
static int appears(const fl_front *p, int64_t at, int depth, const char *name, int any,
                   int passed) {
  for (int64_t i = at; i + 1 < p->toks.n; i++) {
    const fl_ktok *t = &p->toks.at[i];
    const int c = fl_ktok_punct(t);
    depth += (c == '{') - (c == '}');
    if (c == '}' && depth <= 0) break;
    if (!fl_ktok_is(t, name)) continue;
    if (any ? changes(i ? t - 1 : t, t + 1) : fl_ktok_punct(t + 1) == '=') return 1;
    if (passed && is_passed(p, i)) return 1;
  }
  return 0;
}

int fl_turn_later(const fl_front *p, int64_t at, int depth, const char *name) {
  return p->turning && appears(p, at, depth, name, 0, 1);
}

int fl_turn_moves(const fl_front *p, int64_t at, int depth, const char *name, int passed) {
  return appears(p, at, depth, name, 1, passed);
}

static fl_kexpr *number(fl_front *p, int64_t v) { return fl_kexpr_int(p->a, FL_KT_I32, v); }

/* Adds array 'var' to those that t may point into. 0: it is among them, or there is no room. */
static int add(fl_front *p, fl_kturn *t, int32_t var) {
  for (int i = 0; i < t->n; i++) if (t->from[i] == var) return 0;
  if (fl_front_room(p, t->n, MOST, "arrays that a pointer points to")) t->from[t->n++] = var;
  return !p->failed;
}

/* Adds the array (or turn) into which 'from' points to those that t may point into. Returns the
** value that t->sel has while t points there. */
static fl_kexpr *which(fl_front *p, fl_kturn *t, fl_cvalue from, int32_t line) {
  const fl_kturn *other = fl_turn_of(p, from.var);
  if (fl_held_alone(p, &from)) {
    fl_view_array(p, from.var);
    fl_refuse(p, line, "a pointer that may point to a variable or into an array");
  }
  if (from.var != t->var) add(p, t, from.var);
  return other ? fl_kexpr_var(p->f, other->sel) : number(p, from.var);
}

/* Makes a turn (a pointer into one of several arrays), whose 'var' has no DECL. declared: 'sel'
** gets one here; else it lives in the whole function, since a choice that is made in one branch of
** an IF may be used after it. */
static fl_kturn *make(fl_front *p, const fl_ctype *of, const char *name, int declared,
                      int32_t line) {
  fl_kturn *t = fl_karena_new(p->a, sizeof *t);
  if (!t || p->failed || !p->b) return NULL;
  int64_t n;
  t->var = fl_kvar_add(p->f, FL_KV_ARRAY, fl_ctype_element(of, &n), name, 0);
  t->sel = fl_kvar_add(p->f, FL_KV_LOCAL, FL_KT_I32, name, 1);
  if (t->var < 0 || t->sel < 0) return NULL;
  p->f->vars[t->var].line = line;
  if (declared) fl_kstmt_decl(p->f, p->b, t->sel);
  t->next = p->turns;
  p->turns = t;
  return t;
}

static fl_cvalue place(const fl_kturn *t, const fl_ctype *of, int is_const) {
  return (fl_cvalue){ .kind = FL_V_POINTER, .linear = 1, .is_const = (uint8_t)is_const, .type = of,
                      .var = t->var };
}

void fl_turn_set(fl_front *p, fl_kturn *t, fl_cvalue from, int32_t line) {
  if (from.when) fl_refuse(p, line, "a pointer that may be null, to one or another array");
  fl_kexpr *w = which(p, t, from, line);
  if (from.var != t->var) fl_emit_assign(p, t->sel, w, line);
}

fl_cvalue fl_turn_new(fl_front *p, const fl_ctype *of, int is_const, const char *name,
                      const fl_cvalue *from, int32_t line) {
  fl_kturn *t = make(p, of, name, 1, line);
  if (!t) return fl_val_none();
  if (from) fl_turn_set(p, t, *from, line);
  return place(t, of, is_const);
}

fl_cvalue fl_turn_choose(fl_front *p, fl_kexpr *c, fl_cvalue x, fl_cvalue y, int32_t line) {
  fl_kturn *t = make(p, x.type, "choice", 0, line);
  if (!t) return fl_val_none();
  fl_kexpr *a = which(p, t, x, line), *b = which(p, t, y, line);
  if (p->failed) return fl_val_none();
  c = fl_val_stable(p, c);
  fl_kstmt_assign(p->f, p->b, t->sel, fl_kexpr_select(p->a, c, a, b));
  fl_cvalue r = place(t, x.type, x.is_const | y.is_const);
  r.idx = fl_val_stable(p, fl_kexpr_select(p->a, c, fl_val_at(p, &x), fl_val_at(p, &y)));
  return r;
}

fl_cvalue fl_turn_list(fl_front *p, fl_cvalue first, int n, fl_kexpr *at, int32_t line) {
  if (!p->turning) p->turn_wanted = 1;
  if (!p->turning || !p->b || !fl_turn_fits(p, first.type, &first))
    return fl_val_refuse(p, line, "arrays of such a list are chosen by constants only");
  at = fl_val_stable(p, fl_val_convert(p, at, FL_KT_I64));
  fl_val_must(p, fl_kexpr_binary(p->a, FL_KO_LT, fl_kexpr_cast(p->a, FL_KT_U64, at),
                                 fl_kexpr_int(p->a, FL_KT_U64, n)),
              fl_karena_printf(p->a, "an array of the list is one of %d", n), line);
  fl_kturn *t = make(p, first.type, "array", 0, line);
  if (!t) return fl_val_none();
  for (int i = 0; i < n && fl_front_room(p, i, MOST, "arrays of a list"); i++)
    t->from[t->n++] = first.var + i;
  fl_kexpr *which = fl_kexpr_binary(p->a, FL_KO_ADD, fl_kexpr_cast(p->a, FL_KT_I32, at),
                                    number(p, first.var));
  fl_emit_assign(p, t->sel, fl_front_check(p, which), line);
  return place(t, first.type, first.is_const);
}

fl_kexpr *fl_turn_same(fl_front *p, fl_cvalue x, fl_cvalue y) {
  const fl_kturn *a = fl_turn_of(p, x.var), *b = fl_turn_of(p, y.var);
  return fl_kexpr_binary(p->a, FL_KO_EQ, a ? fl_kexpr_var(p->f, a->sel) : number(p, x.var),
                         b ? fl_kexpr_var(p->f, b->sel) : number(p, y.var));
}

/* ---- when the body is read ----------------------------------------------------------------- */

/* Adds to each turn the arrays that it may reach through other turns, and then removes the other
** turns from it. */
static void flatten(fl_front *p) {
  int changed = 1;
  while (changed && !p->failed) {
    changed = 0;
    for (fl_kturn *t = p->turns; t; t = t->next)
      for (int i = 0; i < t->n && !p->failed; i++) {
        const fl_kturn *o = fl_turn_of(p, t->from[i]);
        for (int k = 0; o && k < o->n; k++) changed |= add(p, t, o->from[k]);
      }
  }
  for (fl_kturn *t = p->turns; t; t = t->next) {
    int n = 0;
    for (int i = 0; i < t->n; i++) if (!fl_turn_of(p, t->from[i])) t->from[n++] = t->from[i];
    t->n = n;
  }
}

static fl_kturn *ready(fl_front *p, int32_t var, int32_t line) {
  fl_kturn *t = fl_turn_of(p, var);
  if (t && !t->n)
    fl_refuse(p, line, "pointer '%s' is used before it has a value", p->f->vars[var].source);
  return p->failed ? NULL : t;
}

static fl_kexpr *is(fl_front *p, const fl_kturn *t, int i) {
  return fl_kexpr_binary(p->a, FL_KO_EQ, fl_kexpr_var(p->f, t->sel), number(p, t->from[i]));
}

static void lower_expr(fl_front *p, fl_kexpr *x) {
  if (!x || p->failed || p->a->failed) return;
  for (int i = 0; i < x->n; i++) lower_expr(p, x->x[i]);
  if (p->a->failed || !fl_kexpr_settle(p->a, x) || x->kind != FL_KX_LOAD) return;
  const fl_kturn *t = ready(p, x->var, x->line);
  if (!t) return;
  fl_kexpr *r = fl_kexpr_load(p->f, t->from[0], x->x[0]);
  if (r) r->line = x->line;
  for (int i = 1; i < t->n && r; i++) {
    fl_kexpr *o = fl_kexpr_load(p->f, t->from[i], fl_kexpr_clone(p->f, x->x[0]));
    if (o) o->line = x->line;
    r = fl_kexpr_select(p->a, is(p, t, i), o, r);
    if (r) r->line = x->line;
  }
  if (r) *x = *r;
}

static void lower_write(fl_front *p, fl_kstmt *s) {
  const fl_kturn *t = ready(p, s->var, s->line);
  if (!t) return;
  fl_kstmt one = *s, *const next = s->next;
  one.next = NULL;
  const fl_kblock all = { &one, &one };
  fl_kblock r = { NULL, NULL };
  for (int i = 0; i < t->n && !p->a->failed; i++) {
    const fl_kvar *v = &p->f->vars[t->from[i]];
    if (v->is_const || v->kind == FL_KV_TABLE) fl_refuse(p, s->line, "'%s' is const", v->source);
    if (s->kind == FL_KS_ATOMIC && v->kind != FL_KV_POINTER && v->kind != FL_KV_SHARED)
      fl_refuse(p, s->line, "atomics need global or shared memory, '%s' is neither", v->source);
    fl_kblock b = fl_kblock_clone(p->f, &all, NULL), outer = { NULL, NULL };
    if (!b.first) return;
    b.first->var = t->from[i];
    fl_kstmt *c = i ? fl_kstmt_if(p->f, &outer, is(p, t, i)) : NULL;
    if (c) {
      c->line = s->line;
      c->body = b;
      c->other = r;
    }
    r = c ? outer : b;
  }
  if (!r.first) return;
  *s = *r.first;
  s->next = next;
}

static void lower_block(fl_front *p, fl_kblock *b) {
  for (fl_kstmt *s = b->first; s && !p->failed; s = s->next) {
    for (int i = 0; i < 4; i++) lower_expr(p, s->x[i]);
    for (int i = 0; i < s->n_args; i++) lower_expr(p, s->args[i]);
    lower_block(p, &s->body);
    lower_block(p, &s->other);
    if (fl_kwrites(s)) lower_write(p, s);
  }
}

void fl_turn_lower(fl_front *p) {
  if (!p->turns) return;
  flatten(p);
  lower_block(p, &p->f->body);
  for (const fl_kturn *t = p->turns; t; t = t->next) {
    p->f->vars[t->var].kind = FL_KV_LOCAL;                 /* (no statement mentions it any more) */
    p->f->vars[t->var].count = 1;
  }
}
