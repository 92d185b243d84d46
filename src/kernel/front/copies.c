/*
** How objects of structs are copied: member by member, or by a copy constructor. One that does the
** same as C++ would without it, "V(const V &o) : x(o.x), y(o.y) {}" or with "x = o.x;" in its body,
** counts as none, and so does such an operator=. A struct with other copies is no member of another
** one.
*/
#include "kernel/front/template.h"
#include <string.h>

typedef struct copying {         /* the body of d, a function of 'type', is read at token 'at' */
  fl_front *p;
  const fl_ctype *type;
  const fl_kdevice *d;
  int64_t at;
} copying;

static int takes(copying *c, int punct) {
  if (!fl_is_punct(&c->p->toks.at[c->at], punct)) return 0;
  c->at++;
  return 1;
}

static int takes_name(copying *c, const char *name) {
  if (!fl_ktok_is(&c->p->toks.at[c->at], name)) return 0;
  c->at++;
  return 1;
}

/* The number of the field that the token names; -1: none. Takes the token. */
static int field(copying *c) {
  const fl_ktok *t = &c->p->toks.at[c->at++];
  const fl_cstruct *s = c->type->s;
  const fl_cfield *f = t->kind == FL_TOK_NAME ? fl_cstruct_field(s, t->text, t->n) : NULL;
  return f ? (int)(f - s->fields) : -1;
}

/* Is the token an argument of the struct's template that is the type of field i? */
static int is_type_of(const copying *c, int i) {
  const fl_ktok *t = &c->p->toks.at[c->at];
  const fl_kmembers *m = c->type->s->members;
  const fl_symbol *s = t->kind == FL_TOK_NAME ? fl_front_among(m->inner, m->n_args, t->text, t->n)
                                              : NULL;
  return s && s->kind == FL_SYM_TYPE && !s->ref &&
         fl_ctype_equal(s->type, c->type->s->fields[i].type);
}

/* Takes "o.x" or "T(o.x)" for field i, of type T. */
static int takes_field(copying *c, int i) {
  const int cast = is_type_of(c, i) && fl_is_punct(&c->p->toks.at[c->at + 1], '(');
  if (cast) c->at += 2;
  return takes_name(c, c->d->params[0].name) && takes(c, '.') && field(c) == i &&
         (!cast || takes(c, ')'));
}

/* Takes ".name", a member of field i, a union, that is as large as the union; its token, or 0. */
static int64_t whole_part(copying *c, int i) {
  const fl_ctype *t = c->type->s->fields[i].type;
  const fl_cstruct *parts = t->kind == FL_C_STRUCT && t->s->parts ? t->s->parts->s : NULL;
  if (!parts || !takes(c, '.')) return 0;
  const fl_ktok *name = &c->p->toks.at[c->at++];
  const fl_cfield *f = fl_cstruct_field(parts, name->text, name->n);
  return f && fl_ctype_size(f->type) == fl_ctype_size(t) ? c->at - 1 : 0;
}

/* Takes "f = o.f;" for a field f, which may be "this->f"; f may be "u.part", all of a union u. The
** field's number; -1: it is something else. */
static int assigned(copying *c) {
  if (takes_name(c, "this") && !takes(c, FL_PU_ARROW)) return -1;
  const int i = field(c);
  const int64_t part = i < 0 || !fl_is_punct(&c->p->toks.at[c->at], '.') ? 0 : whole_part(c, i);
  if (i < 0 || !takes(c, '=') || !takes_field(c, i)) return -1;
  if (part) {
    const fl_ktok *t = &c->p->toks.at[part], *o = t + (c->at + 1 - part);
    if (!takes(c, '.') || o->n != t->n || memcmp(o->text, t->text, (size_t)t->n)) return -1;
    c->at++;
  }
  return takes(c, ';') ? i : -1;
}

/* Takes "f(o.f)" or "f{o.f}". The field's number; -1: it is something else. */
static int initialised(copying *c) {
  const int i = field(c), brace = fl_is_punct(&c->p->toks.at[c->at], '{');
  return i >= 0 && takes(c, brace ? '{' : '(') && takes_field(c, i) && takes(c, brace ? '}' : ')')
         ? i : -1;
}

/* Does the constructor, or operator=, copy each field once, and do nothing else? */
static int copies_fields(fl_front *p, const fl_ctype *t, const fl_kdevice *d) {
  const int listed = d->is_maker && d->inits, n = t->s->n_fields;
  copying c = { p, t, d, (listed ? d->inits : d->body) + 1 };
  uint64_t seen = 0;
  if (d->n_tparams || d->n_params != 1 || d->body <= 0 || n > 63) return 0;
  for (int k = 0; k < n; k++) {
    const int i = listed ? initialised(&c) : assigned(&c);
    if (i < 0 || t->s->fields[i].base || seen >> i & 1) return 0;
    seen |= UINT64_C(1) << i;
    if (listed && k + 1 < n && !takes(&c, ',')) return 0;
  }
  if (d->is_maker) return (!listed || takes(&c, '{')) && takes(&c, '}');
  return takes_name(&c, "return") && takes(&c, '*') && takes_name(&c, "this") && takes(&c, ';') &&
         takes(&c, '}');
}

/* Has type t a function 'name' that takes another object of type t, such as a copy constructor or
** operator=, and does not just copy the members? */
static int takes_own(fl_front *p, const fl_ctype *t, const char *name) {
  for (const fl_kdevice *d = fl_member_functions(t, name); d; d = d->next)
    if (d->n_params && d->params[0].type && fl_ctype_same(d->params[0].type, t) &&
        !copies_fields(p, t, d)) return 1;
  return 0;
}

int fl_member_copies(fl_front *p, const fl_ctype *t) {
  return takes_own(p, t, FL_MAKER) || takes_own(p, t, "operator=");
}

void fl_member_copy(fl_front *p, fl_cvalue to, fl_cvalue from, int32_t line) {
  from = fl_member_as(p, from, to.type, line);
  const int own = !p->failed && from.kind == FL_V_PLACE && !from.rvalue &&
                  fl_ctype_same(to.type, from.type);
  if (own && takes_own(p, to.type, FL_MAKER)) fl_member_make(p, to, &from, 1, line);
  else fl_val_assign(p, to, from, line);
}
