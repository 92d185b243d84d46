/*
** Names with a prefix in expressions: "V::x" is a constant, a function or an enumerator; in a
** member function of V, or of a struct with base V, also a field of V in *this. "v.V::x" is a
** member of the base V of v.
*/
#include "kernel/front/forms.h"
#include "kernel/front/inherit.h"
#include "kernel/front/scope.h"
#include <string.h>

int fl_member_derives(const fl_ctype *t, const fl_ctype *from) {
  if (!t || !from || t->kind != FL_C_STRUCT || from->kind != FL_C_STRUCT) return 0;
  int is = fl_ctype_same(t, from);
  for (int i = 0; i < t->s->n_fields && !is; i++)
    is = t->s->fields[i].base && fl_member_derives(t->s->fields[i].type, from);
  return is;
}

/* How often is 'base' a base of t, or t? */
static int count_bases(const fl_ctype *t, const fl_ctype *base) {
  int n = fl_ctype_same(t, base);
  for (int i = 0; i < t->s->n_fields; i++)
    if (t->s->fields[i].base) n += count_bases(t->s->fields[i].type, base);
  return n;
}

fl_cvalue fl_member_as(fl_front *p, fl_cvalue v, const fl_ctype *base, int32_t line) {
  const int object = v.kind == FL_V_PLACE || v.kind == FL_V_PARTS;
  if (p->failed || !object || !fl_member_derives(v.type, base)) return v;
  if (count_bases(v.type, base) > 1)
    return fl_val_refuse(p, line, "'%s' has several bases '%s'", fl_ctype_text(p->a, v.type),
                         fl_ctype_text(p->a, base));
  for (int i = 0; !fl_ctype_same(v.type, base); i++)
    if (v.type->s->fields[i].base && fl_member_derives(v.type->s->fields[i].type, base))
      v = fl_val_field(p, v, i, line), i = -1;
  return v;
}

/* Is t->name a field, and not a constant, type or function (s, NULL: there is none)? A name that
** may be either in different bases is refused. */
static int is_field(fl_front *p, const fl_ctype *t, const fl_ktok *name, const fl_symbol *s) {
  if (p->failed || !t || t->kind != FL_C_STRUCT || name->kind != FL_TOK_NAME) return 0;
  if (fl_cstruct_field(t->s, name->text, name->n)) return 1;
  if ((s && s->kind == FL_SYM_WRONG) || !fl_inherit_has_field(t, name->text, name->n)) return 0;
  if (s) fl_refuse(p, name->line, "'%s' has members '%.*s' of several kinds in its bases",
                   fl_ctype_text(p->a, t), (int)name->n, name->text);
  return 1;
}

/* Field 'name' of the part of *this that is of type t. */
static fl_cvalue field_of_this(fl_front *p, const fl_ctype *t, const fl_ktok *name) {
  const fl_symbol *self = p->failed ? NULL : fl_front_find(p, "this", 4);
  if (!self || !fl_member_derives(self->v.type, t))
    return fl_val_refuse(p, name->line, "'%s::%.*s' of no object", fl_ctype_text(p->a, t),
                         (int)name->n, name->text);
  p->qualified = p->at;
  const fl_cvalue v = fl_member_as(p, self->v, t, name->line);
  return p->failed ? fl_val_none() : fl_member_part(p, v, name->text, name->n, name->line);
}

fl_cvalue fl_qualified(fl_front *p, const fl_symbol *inner, int64_t n) {
  const fl_ctype *const of = p->among;
  const fl_ktok *t = fl_front_next(p);
  const fl_symbol *s = t->kind == FL_TOK_NAME ? fl_front_in(p, inner, n, t) : NULL;
  if (is_field(p, of, t, s)) return field_of_this(p, of, t);
  if (!s) {
    const int absent = !p->failed && of && t->kind == FL_TOK_NAME;
    fl_refuse(p, t->line, "there is no '%.*s' here", t->kind == FL_TOK_NAME ? (int)t->n : 1,
              t->kind == FL_TOK_NAME ? t->text : "?");
    p->absent |= absent;
    return fl_val_none();
  }
  if (s->kind == FL_SYM_WRONG) fl_refuse(p, t->line, "'%s': %s", s->name, s->why);
  if (p->failed) return fl_val_none();
  const int64_t mark = p->syms.n;
  const fl_symbol kept = *s, *self = fl_front_find(p, "this", 4);
  const fl_cvalue object = self ? self->v : fl_val_none();
  if (s->kind == FL_SYM_FUNCTION)
    return fl_call_function(p, s->device, self && fl_member_derives(object.type, s->device->owner)
                            ? &object : NULL, t);
  fl_scope_inherit(p, &kept, 1, 0);
  const fl_cvalue v = fl_parse_named(p, t);
  p->syms.n = mark;
  return v;
}

/* At '(': takes the name of a function in brackets, as in "(f)(x)" or "(std::max)(a, b)", and calls
** it. 0: it is something else, nothing is taken. */
int fl_qualified_call(fl_front *p, fl_cvalue *out) {
  const fl_symbol *inner = NULL;
  int64_t n = 0, at = p->at;
  int k = 1;
  while (fl_front_is_at(p, k, FL_PU_SCOPE) || fl_front_is_at(p, k + 1, FL_PU_SCOPE)) k++;
  const fl_ktok *t = fl_front_ahead(p, k);
  if (t->kind != FL_TOK_NAME || !fl_front_is_at(p, k + 1, ')') || !fl_front_is_at(p, k + 2, '('))
    return 0;
  p->at++;
  const int found = fl_scope_prefix(p, &inner, &n);
  const fl_symbol *s = found ? fl_front_in(p, inner, n, t) : fl_scope_called(p, t);
  const int is = !p->failed && fl_front_tok(p) == t &&
                 (s ? s->kind == FL_SYM_FUNCTION : fl_math_known(t));
  if (!is) { p->at = at; return p->failed; }
  p->at += 2;
  *out = s && (found || !s->device->owner) ? fl_call_function(p, s->device, NULL, t)
                                           : fl_parse_call(p, t);
  return 1;
}

int fl_qualified_part(fl_front *p, fl_cvalue *v, int32_t line) {
  const fl_ktok *t = fl_front_tok(p);
  const fl_symbol *inner = NULL, *own = NULL;
  int64_t n = 0;
  const int64_t mark = p->syms.n, at = p->at;
  if (p->failed || t->kind != FL_TOK_NAME || !fl_val_is_object(*v)) return 0;
  own = fl_member_find(v->type, t->text, t->n);
  if (own && own->kind == FL_SYM_FUNCTION) return 0;
  if (own) fl_front_push(p, own, 1);                  /* names of the struct hide those around */
  const int found = fl_scope_prefix(p, &inner, &n);
  p->syms.n = mark;
  if (!found && p->at == at) return p->failed;
  const fl_ctype *const of = p->among;
  t = fl_front_tok(p);
  if (!p->failed && (!of || !fl_member_derives(v->type, of)))
    fl_refuse(p, line, "a prefix that is no base of '%s'", fl_ctype_text(p->a, v->type));
  if (p->failed || !of) { *v = fl_val_none(); return 1; }
  const fl_cvalue part = fl_member_as(p, *v, of, line);
  const fl_symbol *s = fl_member_find(of, t->text, t->n);
  const int call = s && s->kind == FL_SYM_FUNCTION;
  fl_front_next(p);
  if (call && !fl_inherit_has_field(of, t->text, t->n))
    *v = fl_member_call(p, part, s->name, s->n, line);
  else if (s && !call && s->kind == FL_SYM_CONSTANT) *v = s->v;
  else *v = fl_member_part(p, part, t->text, t->n, line);
  return 1;
}

void fl_qualified_address(fl_front *p, int64_t first) {
  const fl_ktok *t = &p->toks.at[first];
  if (p->failed || p->qualified != p->at || p->at <= first) return;
  if (t->kind == FL_TOK_NAME || fl_is_punct(t, FL_PU_SCOPE))
    fl_refuse(p, t->line, "pointers to members are outside the language");
}
