/*
** Which functions can be given copies of what they take by reference to const, and of their object:
** those that write only their own variables, and return nothing that refers to an argument. This is
** told before the body is read, from declarations and tokens; in doubt a function gets no copies.
*/
#include "kernel/front/forms.h"
#include "kernel/front/template.h"

enum { MOST_DEEP = 8, MOST_TOKENS = 20000 };

/* May memory be written through a value of type t: is a pointer in it to what is not const, or is
** it a lambda, which has references to variables around it? */
static int reaches(const fl_ctype *t, int depth) {
  t = fl_ctype_innermost(t);
  if (depth > MOST_DEEP) return 1;
  if (t->kind == FL_C_POINTER) return !t->const_of || reaches(t->of, depth + 1);
  if (t->kind != FL_C_STRUCT) return 0;
  if (fl_ctype_has_mutable(t)) return 1;
  for (const fl_kdevice *d = fl_member_functions(t, "operator()"); d; d = d->next)
    if (d->scope) return 1;
  for (int i = 0; i < t->s->n_fields; i++)
    if (reaches(t->s->fields[i].type, depth + 1)) return 1;
  return 0;
}

/* Is s a variable of file scope that kernels may write? */
static int is_variable(const fl_symbol *s) {
  return s->kind == FL_SYM_SHARED || s->kind == FL_SYM_DYNAMIC ||
         (s->kind == FL_SYM_MEMORY && !s->v.is_const);
}

typedef struct search {
  fl_front *p;
  int any, left;                 /* are there such variables? how many tokens may still be read */
} search;

/* Does t have functions, such as operators, that are called without a name? */
static int is_active(const fl_ctype *t) {
  t = t ? fl_ctype_innermost(t) : NULL;
  return t && ((t->kind == FL_C_STRUCT && !t->s->width) || fl_ctype_is_enum(t));
}

/* May the use of symbol s call an operator, a constructor or a conversion that the text defines? */
static int calls_unnamed(const fl_symbol *s) {
  if (s->kind == FL_SYM_TEMPLATE || is_active(s->type)) return 1;
  for (const fl_kdevice *d = s->kind == FL_SYM_FUNCTION ? s->device : NULL; d; d = d->next)
    if (!d->result || is_active(d->result)) return 1;
  return 0;
}

/* May the body of d, or of a function that it calls, write such a variable, or declare dynamic
** shared memory, which all functions have in common? */
static int names_memory(search *x, const fl_kdevice *d, int depth) {
  const fl_front *p = x->p;
  if (depth > MOST_DEEP) return 1;
  for (int64_t i = d->body, end = i > 0 ? fl_front_end(x->p, i) : i; i < end; i++) {
    const fl_ktok *t = &p->toks.at[i];
    const int before = fl_ktok_punct(t - 1), member = before == '.' || before == FL_PU_ARROW;
    if (x->left-- <= 0 || fl_ktok_is(t, "extern")) return 1;
    if (t->kind != FL_TOK_NAME) continue;
    if (member && x->any && fl_is_punct(t + 1, '(')) return 1;
    const fl_symbol *s = member ? NULL : fl_front_among(p->syms.at, p->globals, t->text, t->n);
    if (s && (is_variable(s) || (x->any && calls_unnamed(s)))) return 1;
    for (const fl_kdevice *o = s && s->kind == FL_SYM_FUNCTION ? s->device : NULL; o; o = o->next)
      if (names_memory(x, o, depth + 1)) return 1;
  }
  return 0;
}

int fl_call_takes_copies(fl_front *p, const fl_kdevice *d) {
  search x = { .p = p, .left = MOST_TOKENS };
  if (d->returns != FL_RETURNS_VALUE || !d->result || fl_ctype_has_array(d->result)) return 0;
  if (d->scope) return 0;
  for (int64_t i = 0; i < p->globals; i++) x.any |= is_variable(&p->syms.at[i]);
  if (d->owner && (x.any || (!d->is_static && (!d->is_const || reaches(d->owner, 0))))) return 0;
  for (int i = 0; i < d->n_params; i++) {
    const fl_kformal *f = &d->params[i];
    if (!f->type || (f->by_reference && !f->is_const) || reaches(f->type, 0)) return 0;
    if (x.any && is_active(f->type)) return 0;
  }
  return !names_memory(&x, d, 0);
}

fl_cvalue fl_call_object(fl_front *p, fl_cvalue self, const fl_kdevice *d, const fl_kdevice *end,
                         int32_t line) {
  int stays = 1;
  for (; d != end; d = d->next) stays &= d->is_static || fl_call_takes_copies(p, d);
  if (!stays) fl_choose_place(p, &self, line);
  return fl_val_stored(p, self, line);
}
