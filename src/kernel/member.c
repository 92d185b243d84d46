/*
** Structs: fields, functions, constructors and constants inside. A member function is inlined
** like any other, with the fields of its object as names of their places.
*/
#include "kernel/front.h"
#include <string.h>

enum { MAX_FIELDS = 64 };

typedef struct pending { fl_kdevice *d; struct pending *next; } pending;

typedef struct body {            /* of a struct being read */
  const char *name;
  fl_cfield *fields;
  int64_t *inits;
  int n, has_inits;
  pending *first, *last;
} body;

/* ---- reading ------------------------------------------------------------------------------------------ */

static void field_lines(fl_front *p, body *b) {
  const int32_t line = fl_front_tok(p)->line;
  const fl_specifiers s = fl_decl_specifiers(p);
  if (s.is_static) { fl_decl_global(p, s); return; }
  if (!s.type || fl_front_take(p, ';')) return;
  do {
    int ref;
    const fl_ctype *t = fl_decl_pointers(p, &s, &ref);
    const char *name = fl_front_name(p);
    if (fl_front_is(p, ':')) fl_refuse(p, line, "bit-fields are outside the language");
    t = fl_decl_arrays(p, t);
    if (ref || (t && t->kind == FL_C_VOID)) fl_refuse(p, line, "a member without a size");
    for (const fl_ctype *e = t; e && e->kind == FL_C_ARRAY; e = e->of)
      if (!e->count) fl_refuse(p, line, "a member without a size");
    if (b->n == MAX_FIELDS) fl_refuse(p, line, "a struct of more than %d members", MAX_FIELDS);
    if (p->failed) return;
    if (fl_front_is(p, '=') || fl_front_is(p, '{')) {
      b->inits[b->n] = p->at;
      b->has_inits = 1;
      while (!p->failed && !fl_front_is(p, ';') && !fl_front_is(p, ',') && fl_front_tok(p)->kind != FL_TOK_END) {
        if (fl_front_is(p, '{') || fl_front_is(p, '(')) fl_front_skip(p);
        else p->at++;
      }
    }
    b->fields[b->n].name = name;
    b->fields[b->n++].type = t;
  } while (fl_front_take(p, ','));
  fl_front_need(p, ';');
}

/* "~V() {}": nothing happens there, or it is refused. 0: this is none. */
static int destructor(fl_front *p) {
  int k = 0;
  while (fl_front_ahead(p, k)->kind == FL_TOK_NAME) k++;
  if (!fl_front_is_at(p, k, '~') || (k && fl_ktok_is(fl_front_ahead(p, k - 1), "operator"))) return 0;
  const int32_t line = fl_front_tok(p)->line;
  p->at += k + 2;
  fl_front_skip(p);
  fl_front_word(p, "noexcept");
  if (fl_front_take(p, '=')) { fl_front_next(p); fl_front_need(p, ';'); return 1; }
  if (!fl_front_is(p, '{') || !fl_front_is_at(p, 1, '}')) fl_refuse(p, line, "destructors are outside the language");
  fl_front_skip(p);
  return 1;
}

static int function(fl_front *p, body *b, int is_friend) {
  fl_ktparam *params = NULL;
  const int32_t line = fl_front_tok(p)->line;
  const int n = fl_front_word(p, "template") ? fl_template_params(p, &params) : 0;
  if (p->failed) return 1;
  fl_kdevice *d = fl_device_scan(p, b->name);
  if (!d && (params || is_friend) && !p->failed) fl_refuse(p, line, "this member is outside the language");
  if (!d) return p->failed;
  fl_front_take(p, ';');
  d->tparams = params;
  d->n_tparams = n;
  if (is_friend) d->is_static = 2;
  const int plain = d->is_maker || !strcmp(d->name, "operator=");
  if (plain && !params && d->body < 1 && !d->why) return 1;  /* = default */
  pending *one = fl_karena_new(p->a, sizeof *one);
  if (!one) return 1;
  one->d = d;
  if (b->last) b->last->next = one;
  else b->first = one;
  b->last = one;
  return 1;
}

static void member(fl_front *p, body *b) {
  const fl_ktok *t = fl_front_tok(p);
  if (fl_front_take(p, ';')) return;
  if ((fl_ktok_is(t, "public") || fl_ktok_is(t, "private") || fl_ktok_is(t, "protected")) && fl_front_is_at(p, 1, ':')) {
    p->at += 2;
    return;
  }
  if (fl_ktok_is(t, "virtual")) fl_refuse(p, t->line, "virtual functions are outside the language");
  if (fl_ktok_is(t, "using") || fl_ktok_is(t, "typedef")) { fl_decl_local(p); return; }
  if (fl_ktok_is(t, "static_assert")) {
    p->at++;
    fl_front_skip(p);
    return;
  }
  const int is_friend = fl_front_word(p, "friend");
  const int plain = fl_ktok_is(t, "struct") || fl_ktok_is(t, "enum") || fl_ktok_is(t, "class") || fl_ktok_is(t, "union");
  if (destructor(p) || (!plain && function(p, b, is_friend))) return;
  field_lines(p, b);
}

static void signature(fl_front *p, fl_kdevice *d, const fl_ctype *owner) {
  const int64_t at = p->at;
  d->owner = owner;
  if (!d->n_tparams) fl_device_signature(p, d);
  p->at = at;
}

/* Has it a function of that name that takes another of its type: a constructor that copies, operator=? */
static int takes_own(const fl_ctype *t, const char *name) {
  const fl_symbol *s = fl_member_find(t, name, (int32_t)strlen(name));
  for (const fl_kdevice *d = s ? s->device : NULL; d; d = d->next)
    if (d->n_params && d->params[0].type && fl_ctype_same(d->params[0].type, t)) return 1;
  return 0;
}

/* What copies its members one by one may have none that say how. */
static void check_copies(fl_front *p, const body *b, int32_t line) {
  for (int i = 0; i < b->n; i++) {
    const fl_ctype *t = b->fields[i].type;
    while (t->kind == FL_C_ARRAY) t = t->of;
    if (takes_own(t, FL_MAKER) || takes_own(t, "operator="))
      fl_refuse(p, line, "'%s' as a member: a struct with copies of its own is no part of another", fl_ctype_text(p->a, t));
  }
}

void fl_member_copy(fl_front *p, fl_value to, fl_value from, int32_t line) {
  const int own = !p->failed && from.kind == FL_V_PLACE && !from.rvalue && fl_ctype_same(to.type, from.type);
  if (own && takes_own(to.type, FL_MAKER)) fl_member_make(p, to, &from, 1, line);
  else fl_val_assign(p, to, from, line);
}

fl_kdevice *fl_member_makes(const fl_ctype *t, const fl_ctype *from) {
  const fl_symbol *s = from ? fl_member_find(t, FL_MAKER, 2) : NULL;
  for (fl_kdevice *d = s ? s->device : NULL; d; d = d->next) {
    const fl_ctype *q = d->n_params ? d->params[0].type : NULL;
    if (!q || d->n_tparams || d->is_explicit || (d->n_params > 1 && !d->params[1].init)) continue;
    if ((q->kind == FL_C_SCALAR && from->kind == FL_C_SCALAR) || (fl_ctype_same(q, from) && !fl_ctype_same(q, t))) return d;
  }
  return NULL;
}

const fl_kdevice *fl_member_converts(const fl_ctype *t) {
  const fl_symbol *s = fl_member_find(t, FL_CONVERTS, (int32_t)strlen(FL_CONVERTS));
  return s && s->device && !s->device->next && s->device->result && s->device->result->kind == FL_C_SCALAR ? s->device : NULL;
}

fl_value fl_member_plain(fl_front *p, fl_value v, int32_t line) {
  const int object = !p->failed && (v.kind == FL_V_PLACE || v.kind == FL_V_PARTS) && fl_member_converts(v.type);
  if (!object) return v;
  const fl_kdevice *d = fl_member_converts(v.type);
  if (v.kind != FL_V_PLACE) {
    const fl_value to = fl_decl_object(p, v.type, "object", line);
    if (!p->failed) fl_val_assign(p, to, v, line);
    v = to;
  }
  const fl_kcall c = { .self = &v, .line = line };
  return p->failed ? fl_val_none() : fl_inline(p, (fl_kdevice *)(uintptr_t)d, &c);
}

/* What the struct has besides fields; all of it is at the end of the symbols, from 'mark'. */
static void keep_members(fl_front *p, const body *b, fl_ctype *type, const fl_ktemplate *of, int64_t mark) {
  fl_kmembers *m = fl_karena_new(p->a, sizeof *m);
  fl_symbol *self = fl_front_add(p, b->name, FL_SYM_TYPE);
  if (!m || !self) return;
  self->type = type;
  type->s->members = m;
  m->of = of;
  m->inits = b->inits;
  m->has_inits = b->has_inits;
  for (pending *q = b->first; q && !p->failed; q = q->next) {
    signature(p, q->d, type);
    if (!p->failed) fl_device_list(p, q->d, mark);
  }
  const int64_t n = p->syms.n - mark;
  m->inner = fl_karena_new(p->a, (size_t)n * sizeof *m->inner);
  if (m->inner) memcpy(m->inner, p->syms.at + mark, (size_t)n * sizeof *m->inner);
  m->n_inner = m->inner ? n : 0;
}

const fl_ctype *fl_member_struct(fl_front *p, const char *name, int64_t align, const fl_ktemplate *of,
                                 const fl_symbol *args) {
  const int64_t mark = p->syms.n;
  const int32_t line = fl_front_tok(p)->line;
  body b = { .name = name };
  b.fields = fl_karena_new(p->a, MAX_FIELDS * sizeof *b.fields);
  b.inits = fl_karena_new(p->a, MAX_FIELDS * sizeof *b.inits);
  if (of) fl_front_push(p, args, of->n_tparams);
  if (!b.fields || !b.inits || !fl_front_enter(p)) return NULL;
  while (!p->failed && !fl_front_is(p, '}') && fl_front_tok(p)->kind != FL_TOK_END) member(p, &b);
  p->nest--;
  fl_front_need(p, '}');
  if (!p->failed) check_copies(p, &b, line);
  fl_ctype *type = p->failed ? NULL : fl_ctype_struct(p->a, name, b.fields, b.n, align);
  if (!type && !p->failed) fl_refuse(p, line, "struct '%s' is too large", name);
  if (type && (of || b.first || b.has_inits || p->syms.n > mark)) keep_members(p, &b, type, of, mark);
  p->syms.n = mark;
  return p->failed ? NULL : type;
}

/* ---- objects ---------------------------------------------------------------------------------------------- */

const fl_symbol *fl_member_find(const fl_ctype *t, const char *name, int32_t n) {
  const fl_kmembers *m = t && t->kind == FL_C_STRUCT ? t->s->members : NULL;
  return m ? fl_front_among(m->inner, m->n_inner, name, n) : NULL;
}

int fl_member_has_maker(const fl_ctype *t) { return fl_member_find(t, FL_MAKER, 2) != NULL; }

int fl_member_made(const fl_ctype *t) {
  while (t->kind == FL_C_ARRAY) t = t->of;
  if (t->kind != FL_C_STRUCT) return 0;
  if (fl_member_has_maker(t) || (t->s->members && t->s->members->has_inits)) return 1;
  for (int i = 0; i < t->s->n_fields; i++)
    if (fl_member_made(t->s->fields[i].type)) return 1;
  return 0;
}

static fl_value field_of(fl_front *p, fl_value v, int64_t i, int32_t line) {
  const char *name = v.type->s->fields[i].name;
  return fl_val_member(p, v, name, (int32_t)strlen(name), line);
}

void fl_member_open(fl_front *p, const fl_kdevice *d, const fl_value *self) {
  const fl_kmembers *m = d->owner->s->members;
  fl_front_push(p, m->inner, m->n_inner);
  if (!self || d->is_static) return;
  for (int i = 0; i < d->owner->s->n_fields && !p->failed; i++) {
    const fl_value v = field_of(p, *self, i, d->line);
    fl_symbol *s = fl_front_add(p, d->owner->s->fields[i].name, FL_SYM_REFERENCE);
    if (s) s->v = v;
  }
  fl_symbol *s = p->failed ? NULL : fl_front_add(p, "this", FL_SYM_REFERENCE);
  if (s) s->v = *self;
}

/* "= e", "{…}" or "(…)" at the tokens, into a field. */
static void initialise(fl_front *p, fl_value to, int32_t line) {
  fl_value args[16];
  if (fl_front_take(p, '=')) {
    if (fl_front_is(p, '{')) fl_decl_fill(p, to, 1);
    else fl_val_assign(p, to, fl_parse_assign(p), line);
  } else if (fl_front_is(p, '{')) {
    fl_decl_fill(p, to, 1);
  } else {
    const int n = fl_parse_arguments(p, args, 16);
    if (p->failed) return;
    const int copy = n == 1 && (to.type->kind == FL_C_SCALAR || (args[0].type && fl_ctype_same(to.type, args[0].type)));
    if (copy) fl_member_copy(p, to, args[0], line);
    else if (to.type->kind == FL_C_STRUCT && fl_member_made(to.type)) fl_member_make(p, to, args, n, line);
    else if (n) fl_refuse(p, line, "a wrong initialiser");
    else fl_decl_zero(p, to, line);
  }
}

void fl_member_default(fl_front *p, fl_value place, int64_t i, int32_t line) {
  const fl_kmembers *m = place.type->s->members;
  const fl_value to = field_of(p, place, i, line);
  if (p->failed) return;
  if (m && m->inits[i]) {
    const fl_kdevice names = { .owner = place.type, .line = line };
    const fl_kplace back = fl_front_open(p, m->inits[i], NULL);
    fl_member_open(p, &names, &place);
    initialise(p, to, line);
    fl_front_close(p, back);
  } else if (fl_member_made(to.type)) {
    fl_member_make(p, to, NULL, 0, line);
  }
}

static void make_array(fl_front *p, fl_value place, int32_t line) {
  for (int64_t i = 0; i < place.type->count && !p->failed; i++)
    fl_member_make(p, fl_val_index(p, place, fl_kexpr_int(p->a, FL_KT_I64, i), line), NULL, 0, line);
}

void fl_member_make(fl_front *p, fl_value place, const fl_value *args, int n, int32_t line) {
  if (p->failed) return;
  if (place.type->kind == FL_C_ARRAY && !n) { make_array(p, place, line); return; }
  if (place.type->kind != FL_C_STRUCT) { fl_refuse(p, line, "a wrong initialiser"); return; }
  const fl_symbol *s = fl_member_find(place.type, FL_MAKER, 2);
  if (s) {
    const fl_kcall c = { .self = &place, .args = args, .n = n, .line = line };
    fl_kdevice *d = fl_overload(p, s->device, &c, NULL);
    if (d) fl_inline(p, d, &c);
    else fl_refuse(p, line, "no constructor of '%s' takes these %d arguments", fl_ctype_text(p->a, place.type), n);
    return;
  }
  if (n) fl_refuse(p, line, "'%s' has no constructor; write {…}", fl_ctype_text(p->a, place.type));
  for (int i = 0; i < place.type->s->n_fields && !p->failed; i++) fl_member_default(p, place, i, line);
}

void fl_member_inits(fl_front *p, const fl_kdevice *d, fl_value self) {
  int64_t given[MAX_FIELDS] = { 0 };
  const fl_cstruct *s = self.type->s;
  p->at = d->inits ? d->inits + 1 : d->body;
  while (d->inits && !p->failed) {
    const fl_ktok *t = fl_front_next(p);
    const fl_cfield *f = t->kind == FL_TOK_NAME ? fl_cstruct_field(s, t->text, t->n) : NULL;
    if (!f) {
      fl_refuse(p, t->line, "'%.*s' is no member to be initialised", (int)t->n, t->kind == FL_TOK_NAME ? t->text : "?");
      return;
    }
    given[f - s->fields] = p->at;
    fl_front_skip(p);
    if (!fl_front_take(p, ',')) break;
  }
  for (int i = 0; i < s->n_fields && !p->failed; i++) {
    p->at = given[i];
    if (given[i]) initialise(p, field_of(p, self, i, d->line), fl_front_tok(p)->line);
    else fl_member_default(p, self, i, d->line);
  }
}

fl_value fl_member_call(fl_front *p, fl_value self, const char *name, int32_t n, int32_t line) {
  const fl_symbol *s = p->failed ? NULL : fl_member_find(self.type, name, n);
  if (!s || s->kind != FL_SYM_FUNCTION) {
    fl_refuse(p, line, "'%s' has no function '%.*s'", self.type ? fl_ctype_text(p->a, self.type) : "?", (int)n, name);
    return fl_val_none();
  }
  if (self.kind != FL_V_PLACE) {                            /* a value gets a place of its own */
    const fl_value to = fl_decl_object(p, self.type, "object", line);
    if (!p->failed) fl_val_assign(p, to, self, line);
    self = to;
  }
  if (p->failed) return fl_val_none();
  self.rvalue = 0;
  if (self.idx) self.idx = fl_val_stable(p, self.idx);
  const fl_ktok at = { .kind = FL_TOK_NAME, .line = line, .text = name, .n = n };
  return fl_call_function(p, s->device, &self, &at);
}
