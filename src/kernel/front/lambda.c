/*
** Lambdas: a lambda is an object without fields, whose type has the function operator(). Variables
** captured by reference are the names visible at the lambda; those captured by value are copied
** there.
*/
#include "kernel/front/forms.h"
#include "kernel/front/template.h"
#include <string.h>

enum { MAX_CAPTURED = 32 };

typedef struct captures {
  fl_symbol list[MAX_CAPTURED];
  int n, all;                    /* all: '=' or '&' of "[=]" or "[&]", or 0 */
} captures;

static int is_captured(const captures *c, const fl_ktok *t) {
  return fl_front_among(c->list, c->n, t->text, t->n) != NULL;
}

static fl_symbol *captured(fl_front *p, captures *c, const char *name, int kind) {
  if (!fl_front_room(p, c->n, MAX_CAPTURED, "variables that a lambda takes")) return NULL;
  fl_symbol *s = &c->list[c->n++];
  *s = fl_front_symbol(name, kind);
  return s;
}

/* A lambda is never copied itself, since nothing changes what it has copied: refuses copies of
** objects of which it may change members. */
static void refuse_mutable(fl_front *p, const fl_ctype *t, int32_t line) {
  if (t && fl_ctype_has_mutable(t))
    fl_refuse(p, line, "a lambda that copies an object with mutable members" FL_DO
              ": capture a reference");
}

static void copy_value(fl_front *p, captures *c, const char *name, fl_cvalue v, int32_t line) {
  if (v.kind == FL_V_POINTER) {
    if (fl_turn_of(p, v.var))
      fl_refuse(p, line, "a lambda that copies pointer '%s' to one or another array", name);
    fl_symbol *s = captured(p, c, name, FL_SYM_POINTER);
    if (v.idx) v.idx = fl_val_stable(p, v.idx);
    v.sym = 0;
    if (s) s->v = v;
    return;
  }
  refuse_mutable(p, v.type, line);
  fl_cvalue to = fl_decl_object(p, v.type, name, line);
  if (p->failed) return;
  fl_member_copy(p, to, v, line);
  to.is_const = 1;
  fl_symbol *s = captured(p, c, name, FL_SYM_OBJECT);
  if (s) s->v = to;
}

/* Captures the variable of the enclosing function that token t names, by copying its value.
** Constants, functions, shared variables, members (which are declared before 'this') and pointers
** that are never assigned again need no copy. */
static void copy(fl_front *p, captures *c, const fl_ktok *t) {
  const fl_symbol *s = fl_front_find(p, t->text, t->n), *self = fl_front_find(p, "this", 4);
  if (!s || is_captured(c, t) || s < p->syms.at + p->globals || (self && s <= self)) return;
  if (s->kind == FL_SYM_OBJECT || s->kind == FL_SYM_REFERENCE) {
    const int place = s->v.kind == FL_V_PLACE;
    if (s->kind == FL_SYM_OBJECT && place && s->v.var >= 0 &&
        p->f->vars[s->v.var].kind == FL_KV_SHARED)
      return;
    const fl_cvalue v = place && s->v.type->kind == FL_C_POINTER
                        ? fl_val_pointer(p, s->v, t->line) : s->v;
    if (!p->failed) copy_value(p, c, s->name, v, t->line);
  } else if (s->kind == FL_SYM_POINTER && s->offset >= 0 && s->v.type) {
    fl_cvalue v = s->v;
    v.kind = FL_V_POINTER;
    v.idx = fl_kexpr_var(p->f, s->offset);
    copy_value(p, c, s->name, v, t->line);
  }
}

/* "[=, &x]": x is captured by reference. */
static void refer(fl_front *p, captures *c, const fl_ktok *t) {
  const fl_symbol *of = fl_front_find(p, t->text, t->n);
  fl_symbol *s = of ? captured(p, c, of->name, of->kind) : NULL;
  if (s) *s = p->syms.at[of - p->syms.at];
}

/* "[*this]": a copy of the object, whose members hide those of the object itself. */
static void copy_object(fl_front *p, captures *c, int32_t line) {
  const fl_symbol *self = fl_front_find(p, "this", 4);
  if (!self) { fl_refuse(p, line, "there is no object that the lambda could copy"); return; }
  refuse_mutable(p, self->v.type, line);
  const fl_cvalue from = self->v, to = fl_decl_object(p, from.type, "this", line);
  const int64_t mark = p->syms.n;
  const fl_kdevice names = { .owner = from.type, .is_const = 1, .line = line };
  if (!p->failed) fl_member_copy(p, to, from, line);
  if (!p->failed) fl_member_open(p, &names, &to);
  const int64_t end = p->syms.n;
  p->syms.n = mark;
  for (int64_t i = mark; i < end && !p->failed; i++) {
    const fl_symbol of = p->syms.at[i], *hides = fl_front_find(p, of.name, of.n);
    if (of.kind != FL_SYM_REFERENCE || hides > fl_front_find(p, "this", 4) ||
        fl_front_among(c->list, c->n, of.name, of.n)) continue;     /* (a local variable's name) */
    fl_symbol *s = captured(p, c, of.name, of.kind);
    if (s) *s = of;
  }
}

static void capture_list(fl_front *p, captures *c) {
  p->at++;
  if ((fl_front_is(p, '&') || fl_front_is(p, '=')) &&
      (fl_front_is_at(p, 1, ',') || fl_front_is_at(p, 1, ']')))
    c->all = fl_front_next(p)->punct, fl_front_take(p, ',');
  while (!p->failed && !fl_front_is(p, ']')) {
    const int ref = fl_front_take(p, '&'), object = fl_front_take(p, '*');
    const fl_ktok *t = fl_front_tok(p);
    if (object && fl_ktok_is(t, "this")) {
      p->at++;
      copy_object(p, c, t->line);
      if (!fl_front_take(p, ',')) break;
      continue;
    }
    const char *name = fl_front_name(p);
    if (fl_front_take(p, '=')) {
      const fl_cvalue v = fl_parse_assign(p);
      if (ref) fl_refuse(p, t->line, "a reference of a lambda's own is outside the language");
      if (!p->failed) copy_value(p, c, name, v, t->line);
    } else if (ref) {
      if (c->all == '=') refer(p, c, t);
    } else {
      copy(p, c, t);
    }
    if (!fl_front_take(p, ',')) break;
  }
  fl_front_need(p, ']');
}

static fl_kdevice *read_function(fl_front *p, captures *c) {
  fl_kdevice *d = fl_karena_new(p->a, sizeof *d);
  fl_kscope *scope = fl_karena_new(p->a, sizeof *scope);
  if (!d || !scope) return NULL;
  d->name = "lambda";
  d->line = fl_front_tok(p)->line;
  while (fl_ktok_is(fl_front_tok(p), "__device__") || fl_ktok_is(fl_front_tok(p), "__host__"))
    p->at++;
  d->head = d->open = p->at;
  d->is_const = 1;
  if (fl_front_is(p, '(')) fl_front_skip(p);
  else if (!fl_front_is(p, '{')) fl_refuse(p, d->line, FL_DO "write the lambda's parameters, ()");
  if (fl_ktok_is(fl_front_tok(p), "mutable"))
    fl_refuse(p, d->line, "mutable lambdas are outside the language");
  if (!p->failed) fl_device_tail(p, d);
  if (p->failed || d->body < 0) return NULL;
  if (c->all == '=')
    for (int64_t i = d->open; i < p->at && !p->failed; i++)
      if (p->toks.at[i].kind == FL_TOK_NAME) copy(p, c, &p->toks.at[i]);
  *scope = (fl_kscope){ p->frame, p->syms.n, p->up };
  d->scope = scope;
  d->env = fl_karena_new(p->a, (size_t)(c->n + 1) * sizeof *d->env);
  if (d->env) memcpy(d->env, c->list, (size_t)c->n * sizeof *d->env);
  d->n_env = c->n;
  const int64_t at = p->at;
  fl_device_signature(p, d);
  p->at = at;
  return d;
}

/* The type of an object whose operator() is this list of functions. */
static const fl_ctype *callable(fl_front *p, const char *name, fl_kdevice *d) {
  fl_kmembers *m = fl_karena_new(p->a, sizeof *m);
  fl_symbol *s = fl_karena_new(p->a, sizeof *s);
  fl_ctype *t = fl_ctype_struct(p->a, name, NULL, 0, 1);
  if (!m || !s || !t) return NULL;
  *s = (fl_symbol){ .name = "operator()", .n = 10, .kind = FL_SYM_FUNCTION, .offset = -1,
                    .device = d };
  m->inner = s;
  m->n_inner = 1;
  t->s->members = m;
  return t;
}

static fl_cvalue object(const fl_ctype *t) {
  return t ? (fl_cvalue){ .kind = FL_V_PLACE, .rvalue = 1, .type = t, .var = -1 } : fl_val_none();
}

fl_cvalue fl_parse_lambda(fl_front *p) {
  captures c = { .n = 0 };
  const int32_t line = fl_front_tok(p)->line;
  if (!p->b || !p->f) return fl_val_refuse(p, line, "a lambda outside a function");
  capture_list(p, &c);
  fl_kdevice *d = p->failed ? NULL : read_function(p, &c);
  return p->failed || !d ? fl_val_none() : object(callable(p, "lambda", d));
}

int fl_function_is(const fl_cvalue *v) {
  const fl_kmembers *m = v->kind == FL_V_PLACE && v->type->kind == FL_C_STRUCT
                         ? v->type->s->members : NULL;
  return m && m->n_inner == 1 && !v->type->s->n_fields;
}

/* Copies of the functions of s as members of an object; of "f<…>", the templates among them, and
** their specialisations, with the n arguments 'given'. NULL: no memory, or there are none. */
static fl_kdevice *members_of(fl_front *p, const fl_symbol *s, const fl_symbol *given, int n) {
  fl_kdevice *first = NULL, **end = &first;
  for (const fl_kdevice *d = s->device; d; d = d->next) {
    if (given && !d->n_tparams && !d->n_special) continue;
    fl_kdevice *own = fl_karena_new(p->a, sizeof *own);
    if (!own) return NULL;
    *own = *d;
    own->is_const = 1;                         /* it changes no object */
    own->given = given;
    own->n_given = n;
    *end = own;
    end = &own->next;
  }
  return first;
}

fl_cvalue fl_function_value(fl_front *p, fl_symbol *s) {
  fl_symbol given[FL_K_MAX_TPARAMS], *kept = NULL;
  const int angle = fl_front_is(p, '<'), n = angle ? fl_template_args(p, given) : 0;
  if (angle) kept = fl_karena_new(p->a, sizeof given);
  if (p->failed || (angle && !kept)) return fl_val_none();
  if (angle) memcpy(kept, given, (size_t)n * sizeof *kept);
  fl_kdevice *first = angle || !s->type ? members_of(p, s, kept, n) : NULL;
  if (angle) return first ? object(callable(p, s->name, first)) : fl_val_none();
  if (first) s->type = callable(p, s->name, first);
  return object(s->type);
}
