/* Names with a prefix, "a::b::c": of namespaces, structs, enumerations and
** instances of templates. */
#include "kernel/front/template.h"
#include <string.h>

int fl_scope_is_template(const fl_symbol *s) {
  if (!s || s->kind != FL_SYM_TYPE) return s && s->kind == FL_SYM_TEMPLATE && !s->structs->is_value;
  return s->type->kind == FL_C_STRUCT && s->type->s->members && s->type->s->members->of;
}

void fl_scope_file(fl_front *p, const fl_symbol **inner, int64_t *n) {
  *inner = p->syms.at;
  *n = p->f ? p->globals : p->syms.n;
}

void fl_scope_rename(fl_front *p) {
  const char *name = fl_front_name(p);
  fl_front_need(p, '=');
  fl_front_seek(p, ';', ';');
  fl_front_need(p, ';');
  fl_front_add(p, name, FL_SYM_SPACE);
}

int fl_scope_is_space(fl_front *p, const fl_ktok *t) {
  const fl_symbol *list,
  *s = p->f ? fl_front_named(p, t) : NULL;
  int64_t n;
  if (s && s->kind == FL_SYM_SPACE) return 1;
  fl_scope_file(p, &list, &n);
  for (int64_t i = 0; i < n; i++)
    if (list[i].kind == FL_SYM_SPACE && fl_ktok_is(t, list[i].name)) return 1;
  return 0;
}

/* Refuses "t::", where t has no members that could be named. type: the type that t is, or NULL. */
static void refuse_prefix(fl_front *p, const fl_ktok *t, const fl_ctype *type) {
  const char *why = fl_front_reserved(t);
  if (why) fl_refuse(p, t->line, "%s outside the language", why);
  else fl_refuse(p, t->line, "names of '%.*s' are outside the language", (int)t->n, t->text);
  p->absent = type != NULL;
}

/* The symbol that t names before "::", where variables and functions do not hide others. */
static const fl_symbol *before_scope(fl_front *p, const fl_ktok *t) {
  const fl_symbol *const s = fl_front_find(p, t->text, t->n);
  for (int64_t i = p->syms.n; s && s->kind != FL_SYM_TYPE && !s->n_inner && i-- > 0;) {
    const fl_symbol *o = &p->syms.at[i];
    if ((o->kind == FL_SYM_TYPE || o->n_inner) && o->n == t->n &&
        !memcmp(o->name, t->text, (size_t)t->n))
      return o;
  }
  return s;
}

int fl_scope_prefix(fl_front *p, const fl_symbol **inner, int64_t *n) {
  int found = 0;
  p->among_members = 0;
  while (!p->failed) {
    const fl_ktok *t = fl_front_tok(p);
    if (fl_front_take(p, FL_PU_SCOPE)) {                /* "::x": a name of the file, or built in */
      t = fl_front_tok(p);
      if (found || t->kind != FL_TOK_NAME) continue;
      fl_scope_file(p, inner, n);
      found = fl_front_among(*inner, *n, t->text, t->n) != NULL;
      continue;
    }
    if (t->kind != FL_TOK_NAME) break;
    const fl_symbol *s = found ? fl_front_among(*inner, *n, t->text, t->n)
                         : fl_front_is_at(p, 1, FL_PU_SCOPE) ? before_scope(p, t)
                         : fl_front_find(p, t->text, t->n);
    const int angle = fl_scope_is_template(s) && fl_front_is_at(p, 1, '<')
                      ? fl_template_angle(p, 1) : 0;
    if (!fl_front_is_at(p, 1 + angle, FL_PU_SCOPE) || (angle && fl_template_splits(p, 1))) break;
    p->at++;
    if (fl_ktok_is(t, "std")) { p->at++; continue; }
    if (fl_scope_is_space(p, t)) {
      fl_scope_file(p, inner, n);
      p->among_members = 0;
      found = 1;
      p->at++;
      continue;
    }
    const fl_ctype *type = s && s->kind == FL_SYM_TYPE ? s->type : NULL;
    if (angle) type = type ? fl_template_again(p, type) : fl_template_struct(p, s->structs);
    const fl_kmembers *m = type && type->kind == FL_C_STRUCT ? type->s->members : NULL;
    if (!m && !(s && s->n_inner)) { refuse_prefix(p, t, type); break; }
    p->among_members = m != NULL;
    *inner = m ? m->inner : s->inner;
    *n = m ? m->n_inner : s->n_inner;
    found = 1; p->at++;
  }
  return found;
}

int fl_scope_is_inner(const fl_front *p, int64_t at) {
  for (int depth = 0; at > 1; at--) {
    const fl_ktok *t = &p->toks.at[at];
    depth += fl_is_punct(t, '}') - fl_is_punct(t, '{');
    if (depth >= 0) continue;
    depth = 0;
    if (t[-1].kind != FL_TOK_STRING && !fl_ktok_is(t - 1, "std")) return 1;       /* extern "C" */
  }
  return 0;
}

/* In a text with namespaces: if a symbol from number 'from' on and an earlier one define the same
** name as a constant, table, type or template, both become unusable, since they may be of two
** namespaces, and these are not told apart. Two names of one type stay. */
void fl_scope_tell_apart(fl_front *p, int64_t from) {
  for (int64_t i = from; i < p->syms.n && p->spaces; i++) {
    fl_symbol *s = &p->syms.at[i];
    const int kinds = 1 << FL_SYM_CONSTANT | 1 << FL_SYM_TABLE | 1 << FL_SYM_TYPE |
                      1 << FL_SYM_TEMPLATE;
    for (int64_t k = 0; k < from && (kinds >> s->kind & 1); k++) {
      fl_symbol *o = &p->syms.at[k];
      if (o->n != s->n || strcmp(o->name, s->name) || !(kinds >> o->kind & 1)) continue;
      if (s->kind == FL_SYM_TYPE && o->kind == FL_SYM_TYPE && fl_ctype_like(s->type, o->type))
        continue;
      o->kind = s->kind = FL_SYM_WRONG;
      o->why = s->why = "is defined in two namespaces, which are not told apart";
    }
  }
}
