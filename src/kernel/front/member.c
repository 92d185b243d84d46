/*
** Structs: fields, functions, constructors and constants inside. A member function is inlined like
** any other; in its body the names of fields stand for the fields of its object.
*/
#include "kernel/front/forms.h"
#include "kernel/front/inherit.h"
#include "kernel/front/scope.h"
#include "kernel/front/template.h"
#include <string.h>

enum { MAX_FIELDS = 64 };

/* ---- objects that contain a base ------------------------------------------------------------- */

/* Adds to *leaf and *bytes where the base begins in t, counted in leaves and in bytes. */
static void find_base(const fl_ctype *t, const fl_ctype *base, int32_t *leaf, int64_t *bytes) {
  for (int i = 0; !fl_ctype_same(t, base); i++) {
    const fl_cfield *f = &t->s->fields[i];
    if (!f->base || !fl_member_derives(f->type, base)) continue;
    *leaf += f->leaf;
    *bytes += f->offset;
    t = f->type;
    i = -1;
  }
}

/* Can the variables from 'var' on be those of an object of type t? Their types must be those of its
** leaves. */
static int holds(fl_front *p, int32_t var, const fl_ctype *t) {
  const int n = fl_ctype_leaves(t);
  fl_kfield *f = fl_karena_new(p->a, (size_t)(n + 1) * sizeof *f);
  int is = f && (!n || (var >= 0 && var + n <= p->f->n_vars)) && fl_ctype_fields(p->a, t, "", f);
  for (int i = 0; is && i < n; i++)
    is = p->f->vars[var + i].type == (f[i].is_pointer ? FL_KT_I64 : f[i].type);
  return is;
}

/* If v is linear the result still has the type of the base, which the caller casts. */
fl_cvalue fl_member_whole(fl_front *p, fl_cvalue v, const fl_ctype *t, int32_t line) {
  int32_t leaf = 0;
  int64_t bytes = 0;
  find_base(t, v.type, &leaf, &bytes);
  if (v.linear && bytes)
    v.idx = fl_val_with(p, FL_KO_SUB, fl_val_at(p, &v), fl_view_units_in(p, &v, bytes));
  if (v.linear) return v;
  v.var -= leaf;
  if (!holds(p, v.var, t))
    fl_refuse(p, line, "a cast to '%s' of what is no part of one", fl_ctype_text(p->a, t));
  v.type = t;
  return v;
}

/* ---- bases ----------------------------------------------------------------------------------- */

typedef struct pending { fl_kdevice *d; struct pending *next; } pending;

typedef struct body {            /* of a struct being read */
  const char *name;
  fl_cfield *fields;
  int64_t *inits;
  int n, has_inits, plain;
  int guarded, made, unsure;     /* are members private here; is it no POD; is that not known? */
  int64_t at, mark;              /* its first token, its first symbol */
  pending *first, *last;
  fl_kuse *uses;
} body;

/* 0: there is no room for the field, refused. */
static int add_field(fl_front *p, body *b, const char *name, const fl_ctype *type, int is_base) {
  if (!fl_front_room(p, b->n, MAX_FIELDS, "members of a struct, bases among them")) return 0;
  b->fields[b->n++] = (fl_cfield){ .name = name, .type = type, .base = (uint8_t)is_base };
  return 1;
}

static void read_bases(fl_front *p, body *b) {
  if (!fl_front_take(p, ':')) return;
  do {
    const int32_t line = fl_front_tok(p)->line;
    while (fl_front_word(p, "public") || fl_front_word(p, "private") ||
           fl_front_word(p, "protected"))
      continue;
    const int64_t at = p->at;
    const fl_specifiers s = fl_decl_specifiers(p);
    if (!s.type) return;
    if (s.type->kind != FL_C_STRUCT || s.type->s->width || fl_ctype_is_open(s.type)) {
      fl_refuse(p, line, "a base must be a struct");
      return;
    }
    const fl_cstruct *of = s.type->s;
    if (of->n_leaves && of->used != of->size && !of->packing)
      fl_refuse(p, line, "a base with unused bytes at its end");
    if (!add_field(p, b, fl_member_class(s.type), s.type, 1)) return;
    b->fields[b->n - 1].base += (uint8_t)fl_scope_depends(p, at);
  } while (!p->failed && fl_front_take(p, ','));
  fl_inherit_bases(p, b->fields, b->n);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* After type t: takes the ';' of a declaration of the type alone. A struct or union without a name
** becomes a field then ("struct { … };"). 0: something else follows. */
static int unnamed_member(fl_front *p, body *b, const fl_ctype *t) {
  if (!fl_front_take(p, ';')) return 0;
  if (t->kind == FL_C_STRUCT && !strcmp(t->s->name, FL_UNNAMED)) add_field(p, b, "", t, 1);
  return 1;
}

static void field_lines(fl_front *p, body *b) {
  const int32_t line = fl_front_tok(p)->line;
  const fl_specifiers s = fl_decl_specifiers(p);
  if (s.is_static) { fl_decl_global(p, s); return; }
  if (!s.type || unnamed_member(p, b, s.type)) return;
  do {
    int ref;
    const fl_ctype *t = fl_decl_pointers(p, &s, &ref);
    const char *name = fl_front_name(p);
    if (fl_front_is(p, ':')) fl_refuse(p, line, "bit-fields are outside the language");
    t = fl_decl_member_arrays(p, t);
    if (ref || (t && !fl_ctype_size(t))) fl_refuse(p, line, "a member without a size");
    if (!add_field(p, b, name, t, 0)) return;
    b->fields[b->n - 1].is_mutable = s.is_mutable;
    b->made |= b->guarded;
    if (fl_front_is(p, '=') || fl_front_is(p, '{')) {
      b->inits[b->n - 1] = p->at;
      b->has_inits = 1;
      fl_front_skip_to(p, ';', ',');
    }
  } while (fl_front_take(p, ','));
  fl_front_need(p, ';');
}

/* Takes a destructor "~V() {}", which does nothing. A __device__ one that does something is
** refused; one of the host is skipped. 0: it is not a destructor. */
static int destructor(fl_front *p, body *b) {
  int k = 0;
  while (fl_front_ahead(p, k)->kind == FL_TOK_NAME) k++;
  if (!fl_front_is_at(p, k, '~') || (k && fl_ktok_is(fl_front_ahead(p, k - 1), "operator")))
    return 0;
  const int32_t line = fl_front_tok(p)->line;
  int device = 0;
  for (int i = 0; i < k; i++) device |= fl_ktok_is(fl_front_ahead(p, i), "__device__");
  p->at += k + 2;
  if (fl_front_is(p, '<')) p->at += fl_template_angle(p, 0);                       /* "~V<T>()" */
  fl_front_skip(p);
  if (fl_front_word(p, "noexcept") && fl_front_is(p, '(')) fl_front_skip(p);
  *(fl_front_is(p, '=') ? &b->unsure : &b->made) = 1;
  if (fl_front_take(p, '=')) { fl_front_next(p); fl_front_need(p, ';'); return 1; }
  if (!device && fl_front_take(p, ';')) return 1;
  if (device && (!fl_front_is(p, '{') || !fl_front_is_at(p, 1, '}')))
    fl_refuse(p, line, "destructors are outside the language");
  fl_front_skip(p);
  return 1;
}

static int takes_nothing(const fl_front *p, const fl_kdevice *d) {
  const fl_ktok *t = &p->toks.at[d->open + 1];
  t += fl_ktok_is(t, "void");
  return fl_is_punct(t, ')');
}

static int function(fl_front *p, body *b, int is_friend) {
  fl_ktparam *params = NULL;
  const int32_t line = fl_front_tok(p)->line;
  const int n = fl_front_word(p, "template") ? fl_template_params(p, &params) : 0;
  if (p->failed) return 1;
  fl_kdevice *d = fl_device_scan(p, b->name);
  if (!d && (params || is_friend) && !p->failed)
    fl_refuse(p, line, "this member is outside the language");
  if (!d) return p->failed;
  fl_front_take(p, ';');
  d->tparams = params;
  d->n_tparams = n;
  if (is_friend) d->is_static = 2;
  const int plain = d->is_maker || !strcmp(d->name, "operator=");
  if (plain) *(d->is_maker && d->body ? &b->made : &b->unsure) = 1;
  /* = default, or a declaration for the host */
  if (plain && !params && (!d->body || (d->body < 0 && !d->on_device)) && !d->why) {
    b->plain |= d->is_maker && !d->body && takes_nothing(p, d);
    return 1;
  }
  pending *one = fl_karena_new(p->a, sizeof *one);
  if (!one) return 1;
  one->d = d;
  if (b->last) b->last->next = one;
  else b->first = one;
  b->last = one;
  return 1;
}

/* Takes "friend", also after __device__ and similar words. 0: it is not there. */
static int befriends(fl_front *p) {
  static const char *const words[] = { "__device__", "__host__", "__forceinline__", "inline",
                                       "constexpr" };
  int k = 0;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (fl_ktok_is(fl_front_ahead(p, k), words[i])) k++, i = (size_t)-1;
  if (!fl_ktok_is(fl_front_ahead(p, k), "friend")) return 0;
  p->at += k + 1;
  return 1;
}

/* Takes "friend class V<…>;" or "template <…> friend struct V;", which say nothing: all members can
** be named anywhere. */
static int befriends_type(fl_front *p) {
  int k = fl_ktok_is(fl_front_tok(p), "template") && fl_front_is_at(p, 1, '<')
          ? 1 + fl_template_angle(p, 1) : 0;
  if (!fl_ktok_is(fl_front_ahead(p, k++), "friend")) return 0;
  while (fl_front_ahead(p, k)->kind == FL_TOK_NAME || fl_front_is_at(p, k, FL_PU_SCOPE) ||
         fl_front_is_at(p, k, '<')) {
    const int angle = fl_front_is_at(p, k, '<') ? fl_template_angle(p, k) : 1;
    if (!angle) return 0;
    k += angle;
  }
  if (!fl_front_is_at(p, k, ';')) return 0;
  p->at += k + 1;
  return 1;
}

static void member(fl_front *p, body *b) {
  const fl_ktok *t = fl_front_tok(p);
  if (fl_front_take(p, ';')) return;
  if ((fl_ktok_is(t, "public") || fl_ktok_is(t, "private") || fl_ktok_is(t, "protected")) &&
      fl_front_is_at(p, 1, ':')) {
    b->guarded = !fl_ktok_is(t, "public");
    p->at += 2;
    return;
  }
  if (fl_ktok_is(t, "virtual")) {
    fl_refuse(p, t->line, "virtual functions are outside the language");
    return;
  }
  if (fl_inherit_using(p, b->fields, b->n, &b->uses) || fl_member_type(p, b->mark)) return;
  if (fl_ktok_is(t, "static_assert")) {
    p->at++;
    fl_front_skip(p);
    return;
  }
  if (befriends_type(p)) return;
  const int is_friend = befriends(p);
  const int plain = fl_ktok_is(t, "struct") || fl_ktok_is(t, "enum") || fl_ktok_is(t, "class") ||
                    fl_ktok_is(t, "union");
  if (destructor(p, b) || (!plain && function(p, b, is_friend))) return;
  field_lines(p, b);
}

/* Notes that a function of d's name could not be read: no call of that name is taken. */
static void unreadable(fl_front *p, const fl_kdevice *d, int64_t mark) {
  fl_symbol *s = fl_front_add(p, d->name, FL_SYM_WRONG);
  if (!s) return;
  s->why = fl_karena_printf(p->a, "%s (line %d)", p->why, (int)p->line);
  for (int64_t i = mark; i + 1 < p->syms.n; i++) {
    fl_symbol *o = &p->syms.at[i];
    if (o->kind != FL_SYM_FUNCTION || strcmp(o->name, d->name)) continue;
    for (fl_kdevice *f = o->device; f; f = f->next) f->why = s->why;
  }
}

/* Reads the result and the parameters of member d. 1: they were read, or are read at each call (of
** a template). 0: they were refused, or were skipped: d is a function of the host with types of the
** host, or its name is refused where it is called (its types may need the whole struct). */
static int signature(fl_front *p, fl_kdevice *d, const fl_ctype *owner, int64_t mark) {
  const fl_kattempt from = fl_front_try(p);
  d->owner = owner;
  if (!d->n_tparams) fl_device_signature(p, d);
  const int read = !p->failed;
  const int named = !d->is_maker && d->is_static != 2 && strncmp(d->name, "operator", 8) != 0;
  if (!read && (!d->on_device || named) && fl_front_undo(p, &from)) {
    if (d->on_device) unreadable(p, d, mark);
    else p->src->host = 1;
  }
  p->at = from.at;
  return read;
}

/* Refuses members whose types define how they are copied: a struct is copied member by member. */
static void check_copies(fl_front *p, const body *b, int32_t line) {
  for (int i = 0; i < b->n; i++) {
    const fl_ctype *t = fl_ctype_innermost(b->fields[i].type);
    if (t->kind == FL_C_STRUCT && fl_member_copies(p, t))
      fl_refuse(p, line, "'%s' as a member: a struct with its own copies is no part of another",
                fl_ctype_text(p->a, t));
  }
}

/* Keeps what the struct has in addition to fields (functions, types, constants): the symbols in
** p->syms from 'mark' on. */
static void keep_members(fl_front *p, const body *b, fl_ctype *type, const fl_ktemplate *of,
                         const fl_symbol *args, int n_args, int64_t mark) {
  fl_kmembers *m = fl_karena_new(p->a, sizeof *m);
  fl_symbol *self = fl_front_add(p, b->name, FL_SYM_TYPE);
  if (!m || !self) return;
  self->type = type;
  type->s->members = m;
  m->at = b->at;
  m->of = of;
  m->n_args = n_args;
  m->inner = (fl_symbol *)(uintptr_t)args;   /* used by signatures that name the struct */
  m->n_inner = n_args;
  m->inits = b->inits;
  m->has_inits = b->has_inits;
  m->plain = b->plain;
  for (pending *q = b->first; q && !p->failed; q = q->next) {
    if (signature(p, q->d, type, mark)) fl_device_list(p, q->d, mark);
  }
  m->plain |= !fl_front_among(p->syms.at + mark, p->syms.n - mark, FL_MAKER, 2);
  fl_inherit_functions(p, type, b->uses, mark);
  m->uses = b->uses;
  const int64_t n = p->syms.n - mark;
  fl_symbol *inner = fl_karena_new(p->a, (size_t)n * sizeof *inner);
  if (inner) memcpy(inner, p->syms.at + mark, (size_t)n * sizeof *inner);
  m->inner = inner;
  m->n_inner = inner ? fl_inherit_hidden(type, b->uses, inner, n) : 0;
  for (int64_t i = 0; i < m->n_inner; i++) {
    const fl_ctype *t = inner[i].kind == FL_SYM_TYPE ? inner[i].type : NULL;
    fl_kmembers *own = t && t->kind == FL_C_STRUCT ? t->s->members : NULL;
    if (t && fl_ctype_is_enum(t) && inner[i].inner && !t->s)
      ((fl_ctype *)(uintptr_t)t)->s = type->s;
    if (own && own != m && !own->around && own->at > m->at && own->at < p->at) own->around = m;
  }
}

static void refuse_large(fl_front *p, const body *b, int32_t line) {
  int64_t bytes = 0;
  for (int i = 0; i < b->n; i++) bytes += fl_ctype_size(b->fields[i].type);
  if (bytes > FL_K_MAX_ARRAY)
    fl_refuse_size(p, line, "struct '%s' of more than %d bytes", b->name, FL_K_MAX_ARRAY);
  else fl_refuse(p, line, "struct '%s' has too many numbers in it", b->name);
}

/* The struct's 'packing' (fl_cstruct). */
static int packing(fl_front *p, const body *b) {
  const fl_ktok *t = &p->toks.at[b->at > 1 ? b->at - 2 : 0];
  const int of = fl_ctype_packing(b->fields, b->n),
            known = fl_ktok_is(t, "struct") || fl_ktok_is(t, "class");
  if (b->made || b->has_inits || of == 2) return 2;
  return of && known && !b->unsure;
}

/* Makes the struct 'declared' what 'type' is. */
static fl_ctype *defined(const fl_ctype *declared, const fl_ctype *type) {
  fl_ctype *own = (fl_ctype *)(uintptr_t)declared;
  fl_cstruct *const s = own->s;
  *s = *type->s;
  *own = *type;
  own->s = s;
  return own;
}

const fl_ctype *fl_member_struct(fl_front *p, const char *name, int64_t align,
                                 const fl_ktemplate *of, const fl_symbol *args, int n_args,
                                 const fl_ctype **early) {
  const int64_t mark = p->syms.n;
  const int32_t line = fl_front_tok(p)->line;
  body b = { .name = name, .mark = mark, .at = p->at };
  b.fields = fl_karena_new(p->a, MAX_FIELDS * sizeof *b.fields);
  b.inits = fl_karena_new(p->a, MAX_FIELDS * sizeof *b.inits);
  fl_front_push(p, args, n_args);
  if (!b.fields || !b.inits || !fl_front_enter(p)) return NULL;
  b.guarded = p->at > 1 && fl_ktok_is(&p->toks.at[p->at - 2], "class");
  read_bases(p, &b);
  fl_front_need(p, '{');
  while (!p->failed && !fl_front_is(p, '}') && fl_front_tok(p)->kind != FL_TOK_END) member(p, &b);
  p->nest--;
  fl_front_need(p, '}');
  if (!p->failed) check_copies(p, &b, line);
  fl_ctype *type = p->failed ? NULL : fl_ctype_struct(p->a, name, b.fields, b.n, align);
  if (!type && !p->failed) refuse_large(p, &b, line);
  if (type) fl_decl_depth(p, type);
  if (type) type->s->packing = (uint8_t)packing(p, &b);
  if (type && early && *early) type = defined(*early, type);
  if (type && early) *early = type;
  const int derives = b.n && b.fields[0].base && *b.fields[0].name;
  if (type && (of || b.first || b.has_inits || derives || p->syms.n > mark))
    keep_members(p, &b, type, of, args, n_args, mark);
  p->syms.n = mark;
  return p->failed ? NULL : type;
}

/* ---- objects --------------------------------------------------------------------------------- */

const fl_symbol *fl_member_find(const fl_ctype *t, const char *name, int32_t n) {
  const int is_struct = t && t->kind == FL_C_STRUCT;
  const fl_kmembers *m = is_struct || (t && t->s) ? t->s->members : NULL;
  const fl_symbol *s = m ? fl_front_among(m->inner, m->n_inner, name, n) : NULL;
  const int own = (n == 2 && !memcmp(name, FL_MAKER, 2)) ||
                  (n == 9 && !memcmp(name, "operator=", 9));
  for (int i = 0; !s && !own && is_struct && i < t->s->n_fields; i++)
    if (t->s->fields[i].base) s = fl_member_find(t->s->fields[i].type, name, n);
  return s;
}

fl_kdevice *fl_member_functions(const fl_ctype *t, const char *name) {
  const fl_symbol *s = fl_member_find(t, name, (int32_t)strlen(name));
  return s && s->kind == FL_SYM_FUNCTION ? s->device : NULL;
}

int fl_member_has_maker(const fl_ctype *t) { return fl_member_find(t, FL_MAKER, 2) != NULL; }

int fl_member_made(const fl_ctype *t) {
  t = fl_ctype_innermost(t);
  if (t->kind != FL_C_STRUCT) return 0;
  if (fl_member_has_maker(t) || (t->s->members && t->s->members->has_inits)) return 1;
  for (int i = 0; i < t->s->n_fields; i++)
    if (fl_member_made(t->s->fields[i].type)) return 1;
  return 0;
}

/* Adds the names of a struct and of its bases to the scope. self: NULL if there is no object.
** base: 0: the struct is no base; else as in fl_cfield. */
static void open_struct(fl_front *p, const fl_ctype *t, const fl_cvalue *self, int base,
                        int32_t line) {
  const fl_kmembers *m = t->s->members;
  const int from = base ? fl_inherit_arguments(m) : 0;
  for (int i = 0; i < t->s->n_fields && !p->failed; i++) {
    if (!t->s->fields[i].base) continue;
    const fl_cvalue v = self ? fl_val_field(p, *self, i, line) : fl_val_none();
    open_struct(p, t->s->fields[i].type, self ? &v : NULL, base ? base : t->s->fields[i].base,
                line);
  }
  if (t->s->parts && self) fl_union_open(p, t, *self, line);
  if (m && base) fl_scope_inherit(p, m->inner + from, m->n_inner - from, base == 2);
  else if (m) fl_front_push(p, m->inner, m->n_inner);
  for (int i = 0; self && i < t->s->n_fields && !p->failed; i++) {
    if (t->s->fields[i].base) continue;
    const fl_cvalue v = fl_val_field(p, *self, i, line);
    fl_symbol *s = fl_front_bind(p, t->s->fields[i].name, FL_SYM_REFERENCE, v);
    if (s) s->late = base == 2;
  }
  fl_inherit_open(p, t, self, base, line);
}

/* Adds the names of the structs that enclose the one with these members. */
static void open_around(fl_front *p, const fl_kmembers *m) {
  if (!m || !m->around) return;
  open_around(p, m->around);
  fl_front_push(p, m->around->inner, m->around->n_inner);
}

void fl_member_open(fl_front *p, const fl_kdevice *d, const fl_cvalue *self) {
  if (d->is_static) self = NULL;
  fl_cvalue v = self ? fl_member_as(p, *self, d->owner, d->line) : fl_val_none();
  v.is_const |= d->is_const;
  v.rvalue = 0;                                                      /* *this is an lvalue */
  open_around(p, d->owner->s->members);
  open_struct(p, d->owner, self ? &v : NULL, 0, d->line);
  if (self) fl_front_bind(p, "this", FL_SYM_REFERENCE, v);
}

void fl_member_initialise(fl_front *p, fl_cvalue to, int32_t line) {
  fl_cvalue args[FL_K_MAX_GIVEN];
  if (fl_front_take(p, '=')) {
    if (fl_front_is(p, '{')) fl_decl_fill(p, to);
    else fl_val_assign(p, to, fl_parse_assign(p), line);
  } else if (fl_front_is(p, '{')) {
    fl_decl_fill(p, to);
  } else {
    const int n = fl_parse_arguments(p, args, FL_K_MAX_GIVEN);
    if (p->failed) return;
    const int copy = n == 1 && (to.type->kind == FL_C_SCALAR ||
                                (args[0].type && fl_ctype_same(to.type, args[0].type)));
    if (n == 1 && to.type->kind == FL_C_POINTER) fl_val_assign(p, to, args[0], line);
    else if (copy) fl_member_copy(p, to, args[0], line);
    else if (to.type->kind == FL_C_STRUCT && fl_member_made(to.type))
      fl_member_make(p, to, args, n, line);
    else if (n) fl_refuse(p, line, "a wrong initialiser");
    else fl_decl_zero(p, to, line);
  }
}

void fl_member_default(fl_front *p, fl_cvalue place, int64_t i, int32_t line) {
  const fl_kmembers *m = place.type->s->members;
  const fl_cvalue to = fl_val_field(p, place, i, line);
  if (p->failed) return;
  if (m && m->inits[i]) {
    const fl_kdevice names = { .owner = place.type, .line = line };
    const fl_kbookmark back = fl_front_open(p, m->inits[i], NULL);
    fl_member_open(p, &names, &place);
    fl_member_initialise(p, to, line);
    fl_front_close(p, back);
  } else if (fl_member_made(to.type)) {
    fl_member_make(p, to, NULL, 0, line);
  }
}

static void make_array(fl_front *p, fl_cvalue place, int32_t line) {
  for (int64_t i = 0; i < place.type->count && !p->failed; i++)
    fl_member_make(p, fl_val_index(p, place, fl_kexpr_int(p->a, FL_KT_I64, i), line),
                   NULL, 0, line);
}

void fl_member_make(fl_front *p, fl_cvalue place, const fl_cvalue *args, int n, int32_t line) {
  if (p->failed) return;
  if (place.type->kind == FL_C_ARRAY && !n) { make_array(p, place, line); return; }
  if (place.type->kind != FL_C_STRUCT) { fl_refuse(p, line, "a wrong initialiser"); return; }
  fl_kdevice *makers = fl_member_functions(place.type, FL_MAKER);
  if (makers) {
    const fl_kcall c = { .self = &place, .args = args, .n = n, .line = line };
    fl_kdevice *d = fl_overload(p, makers, &c, NULL);
    if (d && !n && !fl_ctype_same(d->owner, place.type)) d = NULL;    /* that is not inherited */
    const int own = !d && n == 1 && args[0].type && fl_ctype_same(args[0].type, place.type);
    if (d) fl_inherit_make(p, place, d, &c);
    else if (own) fl_val_assign(p, place, args[0], line);
    else if (n || !place.type->s->members->plain)
      fl_refuse(p, line, "no constructor of '%s' fits the %d argument%s",
                fl_ctype_text(p->a, place.type), n, FL_S(n));
    if (d || own || n || p->failed) return;
  } else if (n)
    fl_refuse(p, line, "'%s' has no constructor" FL_DO "; write {…}",
              fl_ctype_text(p->a, place.type));
  for (int i = 0; i < place.type->s->n_fields && !p->failed; i++)
    fl_member_default(p, place, i, line);
}

/* Reads the initialiser of a delegating constructor, as in "V(a) : V(a, 0) {}". 0: d is none. */
static int hands_over(fl_front *p, const fl_kdevice *d, fl_cvalue self) {
  p->at = d->inits + 1;
  const fl_ktok *t = fl_front_tok(p);
  if (!d->inits || !fl_ktok_is(t, fl_member_class(self.type)) ||
      fl_cstruct_field(self.type->s, t->text, t->n))
    return 0;
  p->at++;
  if (fl_front_is(p, '<')) p->at += fl_template_angle(p, 0);
  fl_member_initialise(p, self, t->line);
  return 1;
}

/* The number of the field that t names in a constructor's list: itself, or the unnamed union that
** has it. -1: there is none. */
static int initialised(const fl_cstruct *s, const fl_ktok *t) {
  if (t->kind != FL_TOK_NAME) return -1;
  const fl_cfield *f = fl_cstruct_field(s, t->text, t->n);
  for (int i = 0; i < s->n_fields && !f; i++) {
    const fl_cfield *o = &s->fields[i];
    if (o->base && !*o->name && o->type->s->parts &&
        fl_inherit_has_field(o->type, t->text, t->n)) f = o;
  }
  return f ? (int)(f - s->fields) : -1;
}

void fl_member_inits(fl_front *p, const fl_kdevice *d, fl_cvalue self) {
  int64_t given[MAX_FIELDS] = { 0 };           /* the token before the initialiser */
  const fl_cstruct *s = self.type->s;
  if (hands_over(p, d, self)) return;
  if (s->parts) { fl_union_inits(p, d, self); return; }
  p->at = d->inits ? d->inits + 1 : d->body;
  while (d->inits && !p->failed) {
    const fl_ktok *t = fl_front_next(p);
    const int i = initialised(s, t);
    if (i < 0 || given[i]) {
      fl_refuse(p, t->line, "'%.*s' is no member to be initialised", (int)t->n,
                t->kind == FL_TOK_NAME ? t->text : "?");
      return;
    }
    given[i] = p->at - 1;
    if (fl_front_is(p, '<')) p->at += fl_template_angle(p, 0);
    fl_front_skip(p);
    if (!fl_front_take(p, ',')) break;
  }
  for (int i = 0; i < s->n_fields && !p->failed; i++) {
    if (!given[i]) { fl_member_default(p, self, i, d->line); continue; }
    p->at = given[i];
    const fl_ktok *t = fl_front_next(p);
    if (fl_front_is(p, '<')) p->at += fl_template_angle(p, 0);
    const int named = *s->fields[i].name != 0;
    fl_member_initialise(p, named ? fl_val_field(p, self, i, d->line)
                                  : fl_member_part(p, self, t->text, t->n, t->line), t->line);
  }
}

fl_cvalue fl_member_call(fl_front *p, fl_cvalue self, const char *name, int32_t n, int32_t line) {
  const fl_symbol *s = p->failed ? NULL : fl_member_find(self.type, name, n);
  if (s && s->kind == FL_SYM_WRONG)
    return fl_val_refuse(p, line, "'%.*s': %s", (int)n, name, s->why);
  if (!s || s->kind != FL_SYM_FUNCTION)
    return fl_val_refuse(p, line, "'%s' has no function '%.*s'",
                         self.type ? fl_ctype_text(p->a, self.type) : "?", (int)n, name);
  self = fl_call_object(p, self, s->device, NULL, line);
  if (p->failed) return fl_val_none();
  if (self.idx) self.idx = fl_val_stable(p, self.idx);
  const fl_ktok at = { .kind = FL_TOK_NAME, .line = line, .text = name, .n = n };
  return fl_call_function(p, s->device, &self, &at);
}
