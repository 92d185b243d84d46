/*
** Functions of structs that are defined outside of them: "float V::dot(const V &o) const { … }". In
** the struct such a function is declared, without a body; the definition gives it the tokens of its
** body and initialisers, and the names of its formals. Bodies of kernels are read after the whole
** file, so a call may come before the definition.
**
** Definitions of a template's functions are kept with the template. Each instance completes a
** function from them when it is called: the names that the definition gives to the parameters of
** the template are then bound to the arguments of the instance.
*/
#include "kernel/front/scope.h"
#include "kernel/front/template.h"
#include <string.h>

typedef struct fl_koutside {             /* template <…> [template <…>] R V<…>::name(…) { … } */
  const char *name;
  fl_ktparam *tparams, *own;     /* parameters of the struct's template (named as
                                 ** here), and of the function's */
  int n_tparams, n_own;
  int64_t at;                    /* its first token after "template <…>" */
  struct fl_koutside *next;
} fl_koutside;

/* ---- is it such a definition? -------------------------------------------------------------- */

static int angle_at(fl_front *p, int k) {
  return fl_front_is_at(p, k, '<') ? fl_template_angle(p, k) : 0;
}

/* Is the name of a function at k: "f(", "f<…>(", "operator" or "~"? */
static int is_function(fl_front *p, int k) {
  const fl_ktok *t = fl_front_ahead(p, k);
  if (fl_is_punct(t, '~') || fl_ktok_is(t, "operator")) return 1;
  return t->kind == FL_TOK_NAME && fl_front_is_at(p, k + 1 + angle_at(p, k + 1), '(');
}

/* The number of tokens before "a::V" in "R a::V::f(" at the tokens; -1: it is something else. */
static int find_owner(fl_front *p) {
  int start = 0;
  for (int k = 0;; k++) {
    const fl_ktok *t = fl_front_ahead(p, k);
    if (fl_device_attribute(t) || fl_is_punct(t, '[')) {
      k = fl_front_past(p, k + !fl_is_punct(t, '[')) - 1;
      continue;
    }
    if (t->kind == FL_TOK_END || (t->kind == FL_TOK_PUNCT && t->punct < 256 &&
                                  strchr(";{}=:()", t->punct)))
      return -1;
    if (t->kind != FL_TOK_NAME) continue;
    if (k == 0 || !fl_front_is_at(p, k - 1, FL_PU_SCOPE)) start = k;
    const int angle = angle_at(p, k + 1), scoped = fl_front_is_at(p, k + 1 + angle, FL_PU_SCOPE);
    if (scoped && is_function(p, k + 2 + angle)) return start;
    k += angle;
  }
}

/* Are the arguments in "V<T, N>" at '<' just the parameters, in order? */
static int names_parameters(fl_front *p, const fl_ktparam *params, int n) {
  for (int i = 0, k = 1; i < n; i++, k += 2) {
    const fl_ktok *t = fl_front_ahead(p, k);
    if (!fl_ktok_is(t, params[i].name)) return 0;
    if (params[i].is_pack) k++;
    if (!fl_front_is_at(p, k + 1, i + 1 < n ? ',' : '>')) return 0;
  }
  return 1;
}

/* Reads the owner before "::f(" at the tokens, and returns it if it is a struct. If it is a
** template whose arguments are just 'params', *of (NULL before) becomes it, and NULL is returned.
** NULL without it: the owner is unknown, or was refused. */
static const fl_ctype *read_owner(fl_front *p, const fl_ktparam *params, int n, fl_ktemplate **of) {
  const fl_symbol *inner = NULL;
  int64_t n_inner = 0;
  for (int among = 0;; among = 1) {
    const fl_ktok *t = fl_front_tok(p);
    const fl_symbol *s = among ? fl_front_in(p, inner, n_inner, t) : fl_front_named(p, t);
    const int angle = angle_at(p, 1), last = is_function(p, 2 + angle);
    const fl_ctype *type = s && s->kind == FL_SYM_TYPE && !angle ? s->type : NULL;
    p->at++;
    if (s && s->kind == FL_SYM_TEMPLATE && angle && n) {
      if (!last || n != s->structs->n_tparams || !names_parameters(p, params, n))
        fl_refuse(p, t->line, "a function of a part or a special case of '%s', defined outside of "
                  "it, is outside the language", s->structs->name);
      *of = p->failed ? NULL : s->structs;
      return NULL;
    }
    if (s && s->kind == FL_SYM_TEMPLATE && angle) type = fl_template_struct(p, s->structs);
    if (!type && !angle && fl_scope_is_space(p, t)) {
      fl_scope_file(p, &inner, &n_inner);
    } else {
      const fl_kmembers *m = type && type->kind == FL_C_STRUCT ? type->s->members : NULL;
      if (!m || last) return m ? type : NULL;
      inner = m->inner;
      n_inner = m->n_inner;
    }
    if (last) return NULL;
    fl_front_take(p, FL_PU_SCOPE);
  }
}

/* ---- a declaration and its definition ------------------------------------------------------ */

/* Reads the definition at the tokens, which are taken, with the names of the struct visible, and
** those of 'env', which hide them. own: template parameters of the function itself. NULL:
** refused. */
static fl_kdevice *read_definition(fl_front *p, const fl_ctype *owner, const fl_symbol *env,
                                   int n_env, fl_ktparam *own, int n_own) {
  const int64_t mark = p->syms.n;
  const fl_kdevice names = { .owner = owner };
  fl_member_open(p, &names, NULL);
  fl_front_push(p, env, n_env);
  fl_kdevice *d = fl_device_scan(p, fl_member_class(owner));
  const int64_t end = p->at;
  if (d) {
    d->owner = owner;
    d->tparams = own;
    d->n_tparams = n_own;
    if (!n_own) fl_device_signature(p, d);
    p->at = end;
  } else if (!p->failed) {
    fl_refuse(p, fl_front_tok(p)->line, "this function is not understood");
  }
  p->syms.n = mark;
  return p->failed ? NULL : d;
}

static int same_result(const fl_kdevice *a, const fl_kdevice *b) {
  return a->result && b->result && fl_ctype_same(a->result, b->result);
}

/* May 'd' be the declaration of definition 'of'? Templates with one name and the same number of
** parameters are not told apart. */
static int declares(const fl_kdevice *d, const fl_kdevice *of) {
  if (d->owner != of->owner || d->n_tparams != of->n_tparams || strcmp(d->name, of->name)) return 0;
  if (d->n_tparams) return 1;
  if (!strcmp(d->name, FL_CONVERTS)) return same_result(d, of) && d->is_const == of->is_const;
  return fl_device_same(d, of);
}

static int has_default(fl_front *p, const fl_kdevice *d) {
  int is = 0;
  for (int64_t i = d->open, end = fl_front_end(p, i); i < end; i++)
    is |= fl_is_punct(&p->toks.at[i], '=');
  return is;
}

int fl_template_confused(const fl_ktparam *a, int n, const fl_ktparam *b, int m, int other) {
  int is = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < m; k++) is |= (!other || i != k) && !strcmp(a[i].name, b[k].name);
  return is;
}

static void refuse_names(fl_kdevice *d) {
  d->why = "has defaults, and its template's parameters have other names where it is defined";
}

static void complete(fl_front *p, fl_kdevice *d, const fl_kdevice *of) {
  d->body = of->body;
  d->inits = of->inits;
  d->line = of->line;
  if (!d->n_tparams) {
    const fl_kmembers *m = d->owner->s->members;
    for (int i = 0; i < d->n_params; i++) {
      fl_kformal *f = &of->params[i];
      f->late = !d->params[i].init;
      if (!f->late || (m && m->of)) f->init = d->params[i].init;
    }
    d->params = of->params;
    return;
  }
  const int n = d->n_tparams;
  if (has_default(p, d)) {
    if (fl_template_confused(d->tparams, n, of->tparams, n, 1)) refuse_names(d);
    d->names = d->tparams;
  }
  for (int i = 0; i < d->n_tparams; i++) of->tparams[i].init = d->tparams[i].init;
  d->declared = d->open;
  d->tparams = of->tparams;
  d->head = of->head;
  d->open = of->open;
  d->arrow = of->arrow;
}

/* Gives definition 'of' to its declaration in the struct. If 'special' (the definition is for one
** instance of a template), also to a declaration that has a body. */
static void define(fl_front *p, const fl_kdevice *of, int special, int32_t line) {
  fl_kdevice *found = NULL, *again = NULL;
  int n = 0;
  for (fl_kdevice *d = fl_member_functions(of->owner, of->name); d; d = d->next) {
    if (!declares(d, of)) continue;
    if (special || d->body < 0) found = d, n++;
    else again = d;
  }
  if (n == 1) complete(p, found, of);
  else if (again && !n) again->why = "is defined twice";
  else if (!of->on_device) p->src->host = 1;
  else if (n) fl_refuse(p, line, "several templates '%s' of '%s' may be meant", of->name,
                        fl_ctype_text(p->a, of->owner));
  else
    fl_refuse(p, line, "'%s' declares no such function", fl_ctype_text(p->a, of->owner));
}

/* A definition could not be read: gives the reason ('why') to the functions that it may be of,
** those of its name without a body. It is reported where one is called. */
static void tell_callers(fl_front *p, const fl_ctype *owner, const fl_kattempt *from) {
  const char *why = fl_karena_printf(p->a, "is not understood: %s (line %d)", p->why, (int)p->line);
  if (!fl_front_undo(p, from)) return;
  const int owned = find_owner(p), k = owned < 0 ? 0 : owned;
  fl_front_skip_declaration(p, from->at);
  for (int64_t i = from->at + k; i < p->at && why; i++) {
    const fl_ktok *t = &p->toks.at[i];
    const fl_symbol *s = t->kind == FL_TOK_NAME ? fl_member_find(owner, t->text, t->n) : NULL;
    if (fl_is_punct(t, '(')) return;
    for (fl_kdevice *d = s && s->kind == FL_SYM_FUNCTION ? s->device : NULL; d; d = d->next)
      if (d->body < 0) d->why = why;
  }
}

/* ---- of a template ------------------------------------------------------------------------- */

static void keep(fl_front *p, fl_ktemplate *t, const fl_koutside *x) {
  fl_koutside *o = fl_karena_new(p->a, sizeof *o);
  fl_kdevice *d = fl_device_scan(p, t->name);
  if (!d && !p->failed) fl_refuse(p, fl_front_tok(p)->line, "this function is not understood");
  if (!o || !d || p->failed) return;
  p->src->host |= !d->on_device;
  *o = *x;
  o->name = d->name;
  o->next = t->outside;
  t->outside = o;
}

static void complete_from(fl_front *p, fl_kdevice *d, const fl_koutside *o) {
  const fl_kmembers *m = d->owner->s->members;
  fl_symbol *env = fl_karena_new(p->a, ((size_t)o->n_tparams + 1) * sizeof *env);
  if (!env) return;
  for (int i = 0; i < o->n_tparams; i++) {
    env[i] = m->inner[i];
    env[i].name = o->tparams[i].name;
    env[i].n = (int32_t)strlen(env[i].name);
  }
  const fl_kbookmark back = fl_front_open(p, o->at, NULL);
  const fl_kdevice *of = read_definition(p, d->owner, env, o->n_tparams, o->own, o->n_own);
  fl_front_close(p, back);
  if (!of || !declares(d, of)) return;
  const fl_ktparam *names = m->of->tparams;
  const int n = o->n_tparams, own = o->n_own;
  if (has_default(p, d) && (fl_template_confused(names, n, o->tparams, n, 1) ||
                            fl_template_confused(names, n, o->own, own, 0) ||
                            fl_template_confused(d->tparams, own, o->tparams, n, 0)))
    refuse_names(d);
  complete(p, d, of);
  d->env = env;
  d->n_env = o->n_tparams;
}

void fl_outside_complete(fl_front *p, fl_kdevice *d) {
  const fl_kmembers *m = d->owner ? d->owner->s->members : NULL;
  const fl_ktemplate *t = m ? m->of : NULL;
  /* t->outside is for the template itself; its specialisations have separate functions */
  if (d->body >= 0 || d->why || !t || m->at < t->at || m->at > t->at + 1) return;
  for (const fl_koutside *o = t->outside; o && d->body < 0 && !p->failed; o = o->next)
    if (!strcmp(o->name, d->name) && o->n_own == d->n_tparams) complete_from(p, d, o);
}

/* ---- at file scope ------------------------------------------------------------------------- */

int fl_outside_declare(fl_front *p, fl_ktparam *params, int n, int is_template) {
  const fl_kattempt from = fl_front_try(p);
  fl_koutside x = { .tparams = params, .n_tparams = n, .at = p->at };
  fl_ktemplate *of = NULL;
  const int32_t line = fl_front_tok(p)->line;
  if (fl_front_word(p, "template")) {                        /* a member template */
    x.n_own = fl_template_params(p, &x.own);
    x.at = p->at;
  }
  const int owned = p->failed ? -1 : find_owner(p);
  if (owned < 0) { if (!p->failed) p->at = from.at; return 0; }
  p->at += owned;
  const fl_ctype *owner = read_owner(p, params, n, &of);
  if (p->failed) return 1;
  if (!owner && !of) { p->at = from.at; return 0; }
  p->at = x.at;
  if (of) { keep(p, of, &x); return 1; }
  const fl_kdevice *d = read_definition(p, owner, NULL, 0, n ? params : x.own, n ? n : x.n_own);
  if (d) define(p, d, is_template && !n, line);
  else tell_callers(p, owner, &from);
  return 1;
}
