/* Names with a prefix, "a::b::c", of namespaces, structs, enumerations and instances of templates;
** which functions a call may mean (scope.h). */
#include "kernel/front/scope.h"
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

enum { MOST_SPACES = 16 };

/* The namespaces around token 'at', but unnamed ones and std, from the inner to the outer one.
** Returns their number. */
static int around(const fl_front *p, int64_t at, const fl_ktok **names) {
  int n = 0;
  for (int depth = 0; at > 1; at--) {
    const fl_ktok *t = &p->toks.at[at];
    depth += fl_is_punct(t, '}') - fl_is_punct(t, '{');
    if (depth >= 0) continue;
    depth = 0;
    const fl_ktok *of = t - 1;
    while (of > p->toks.at + 1 && fl_is_punct(of - 1, FL_PU_SCOPE)) of -= 2;
    if (!fl_ktok_is(of - 1, "namespace")) continue;
    for (const fl_ktok *s = t - 1; s >= of && n < MOST_SPACES; s -= 2)
      if (!fl_ktok_is(s, "std")) names[n++] = s;
  }
  return n;
}

static int same_name(const fl_ktok *a, const fl_ktok *b) {
  return a->n == b->n && !memcmp(a->text, b->text, (size_t)a->n);
}

/* Is the token in the namespaces of the list? */
static int is_within(const fl_front *p, int64_t at, const fl_ktok *const *names, int n) {
  const fl_ktok *own[MOST_SPACES];
  const int m = around(p, at, own);
  if (m < n) return 0;
  for (int i = 0; i < n; i++)
    if (!same_name(own[m - n + i], names[i])) return 0;
  return 1;
}

/* Has the text "using namespace …::space;" or "using …::name;" of another namespace than std? file:
** or "using ::name;", "using std::name;" instead. */
static int is_opened(const fl_front *p, const fl_ktok *space, const fl_ktok *name, int file) {
  for (const fl_ktok *t = p->toks.at, *end = t + p->toks.n; t + 2 < end; t++) {
    if (!fl_ktok_is(t, "using")) continue;
    const int whole = fl_ktok_is(t + 1, "namespace");
    const fl_ktok *last = t + 1 + whole;
    while (last + 2 < end && (fl_is_punct(last, FL_PU_SCOPE) || fl_is_punct(last + 1, FL_PU_SCOPE)))
      last++;
    const int of_file = last - 2 == t || fl_ktok_is(last - 2, "std");
    if (whole ? !file && same_name(last, space)
              : same_name(last, name) && fl_is_punct(last - 1, FL_PU_SCOPE) && of_file == file)
      return 1;
  }
  return 0;
}

/* Is the name that token t is before "::" a namespace or a type, and no word before "::name"? */
static int is_prefix(const fl_ktok *t) {
  static const char *const words[] = { "return", "else", "do", "case", "throw", "co_return" };
  return t->kind == FL_TOK_NAME && fl_ktok_among(t, words, 6) < 0;
}

static int is_of_text(const fl_front *p, const fl_ktok *t) {
  return t >= p->toks.at + 2 && t < p->toks.at + p->toks.n;
}

int fl_scope_is_of_file(const fl_front *p, const fl_ktok *t) {
  return is_of_text(p, t) && fl_is_punct(t - 1, FL_PU_SCOPE) &&
         (!is_prefix(t - 2) || fl_ktok_is(t - 2, "std"));
}

const fl_symbol *fl_scope_called(fl_front *p, const fl_ktok *name) {
  const fl_symbol *list;
  int64_t n;
  if (!fl_scope_is_of_file(p, name)) return fl_front_find(p, name->text, name->n);
  fl_scope_file(p, &list, &n);
  return fl_front_among(list, n, name->text, name->n);
}

int fl_scope_means(const fl_front *p, const fl_kcall *c, const fl_kdevice *d) {
  const fl_ktok *names[MOST_SPACES], *t = c->name;
  const fl_kdevice *in = p->inside;
  if (d->owner || !is_of_text(p, t)) return 1;
  const int n = d->line ? around(p, d->head, names) : 0;
  if (fl_is_punct(t - 1, FL_PU_SCOPE)) return (n > 0) != fl_scope_is_of_file(p, t);
  if (!n) return 1;
  for (int i = 0; i < c->n; i++)                   /* names of a struct's namespace are found */
    if (c->args[i].type && c->args[i].type->kind == FL_C_STRUCT && !c->args[i].type->s->width)
      return 1;
  if (is_within(p, t - p->toks.at, names, n)) return 1;
  if (in && !in->line) return 0;
  if (in && ((in->owner && in->owner->s->members &&
              is_within(p, in->owner->s->members->at, names, n)) ||
             (in->open > 1 && fl_is_punct(&p->toks.at[in->open - 2], FL_PU_SCOPE)))) return 1;
  return is_opened(p, names[0], t, 0);
}

int fl_scope_hides(const fl_front *p, const fl_kcall *c, const fl_kdevice *d) {
  const fl_ktok *names[MOST_SPACES], *t = c->name;
  if (d->owner || !is_of_text(p, t)) return 0;
  const int n = d->line ? around(p, d->head, names) : 0;
  if (!n || fl_scope_is_of_file(p, t)) return 0;
  return fl_is_punct(t - 1, FL_PU_SCOPE) || (is_within(p, t - p->toks.at, names, n) &&
                                             !is_opened(p, NULL, t, 1));
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
