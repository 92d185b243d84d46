/*
** What a struct has from its bases, which are its first fields: fields, functions, types and
** constants. A name that the struct declares itself hides those of its bases, and "using V::x"
** makes the x of base V such a name. Any other name that two bases have is ambiguous: it is a
** symbol of kind FL_SYM_WRONG of the struct, which is refused where it is used.
*/
#include "kernel/front/inherit.h"
#include "kernel/front/forms.h"
#include "kernel/front/scope.h"
#include "kernel/front/template.h"
#include <string.h>

const char *fl_member_class(const fl_ctype *t) {
  return t->s->members && t->s->members->of ? t->s->members->of->name : t->s->name;
}

static const fl_kuse *use_of(const fl_kuse *u, const char *name, int32_t n) {
  while (u && !(u->n == n && !memcmp(u->name, name, (size_t)n))) u = u->next;
  return u;
}

/* ---- fields ---------------------------------------------------------------------------------- */

/* The base of t that has a field 'name'; NULL: none. Unnamed structs and unions among the members
** count as bases. */
static const fl_ctype *base_with(const fl_ctype *t, const char *name, int32_t n) {
  const fl_kuse *u = t->s->members ? use_of(t->s->members->uses, name, n) : NULL;
  if (u) return fl_inherit_has_field(u->base, name, n) ? u->base : NULL;
  for (int i = 0; i < t->s->n_fields; i++) {
    if (!t->s->fields[i].base) continue;
    const fl_ctype *b = t->s->fields[i].type;
    if (fl_inherit_has_field(b, name, n)) return b;
  }
  return NULL;
}

int fl_inherit_has_field(const fl_ctype *t, const char *name, int32_t n) {
  if (t->s->parts) t = t->s->parts;
  return fl_cstruct_field(t->s, name, n) || base_with(t, name, n);
}

/* Is it a field of t itself, or of an unnamed member of it? */
static int own_field(const fl_ctype *t, const char *name, int32_t n) {
  if (t->s->parts) t = t->s->parts;
  int is = fl_cstruct_field(t->s, name, n) != NULL;
  for (int i = 0; i < t->s->n_fields && !is; i++) {
    const fl_cfield *f = &t->s->fields[i];
    is = f->base && !*f->name && own_field(f->type, name, n);
  }
  return is;
}

fl_cvalue fl_member_part(fl_front *p, fl_cvalue v, const char *name, int32_t n, int32_t line) {
  while (v.type && v.type->kind == FL_C_STRUCT && !fl_cstruct_field(v.type->s, name, n)) {
    const fl_symbol *s = fl_member_find(v.type, name, n);
    if (s && s->kind == FL_SYM_WRONG)
      return fl_val_refuse(p, line, "'%.*s': %s", (int)n, name, s->why);
    if (v.type->s->parts) return fl_union_part(p, v, name, n, line);
    const fl_ctype *b = base_with(v.type, name, n);
    if (!b) break;
    v = fl_member_as(p, v, b, line);
    if (p->failed) return fl_val_none();
  }
  return fl_val_member(p, v, name, n, line);
}

/* ---- names that two bases have --------------------------------------------------------------- */

static const fl_symbol *symbol_of(const fl_ctype *t, const char *name, int32_t n) {
  const fl_kmembers *m = t->s->members;
  const int from = fl_inherit_arguments(m);
  const fl_symbol *s = m ? fl_front_among(m->inner + from, m->n_inner - from, name, n) : NULL;
  for (int i = 0; i < t->s->n_fields && !s; i++)
    if (t->s->fields[i].base) s = symbol_of(t->s->fields[i].type, name, n);
  return s;
}

/* Is the name one thing in both structs: a type, a constant or a static function? */
static int is_shared(const fl_ctype *a, const fl_ctype *b, const char *name, int32_t n) {
  const fl_symbol *x = symbol_of(a, name, n), *y = symbol_of(b, name, n);
  if (fl_inherit_has_field(a, name, n) || fl_inherit_has_field(b, name, n) || x->kind != y->kind)
    return 0;
  int is = x->device == y->device;
  switch (x->kind) {
    case FL_SYM_FUNCTION:
      for (const fl_kdevice *d = x->device; d; d = d->next) is &= d->is_static != 0;
      return is;
    case FL_SYM_TYPE:
      return fl_ctype_equal(x->type, y->type) && x->is_const == y->is_const && x->ref == y->ref;
    case FL_SYM_CONSTANT:
      return x->v.e == y->v.e ||
             (x->v.e && y->v.e && x->v.e->kind == FL_KX_CONST && y->v.e->kind == FL_KX_CONST &&
              x->v.e->type == y->v.e->type && x->v.e->value.i == y->v.e->value.i);
    case FL_SYM_TEMPLATE: return x->structs == y->structs;
    case FL_SYM_TABLE: return x->data == y->data;
    default: return 0;
  }
}

typedef struct bases { fl_front *p; const fl_cfield *fields; int n; } bases;

/* Adds a symbol for 'name', which base number i has, if an earlier one has it too. */
static void compare(const bases *b, int i, const char *name, int32_t n) {
  const fl_ctype *t = b->fields[i].type;
  const int special = !strcmp(name, FL_MAKER) || !strcmp(name, "operator=") || !*name;
  for (int k = 0; k < i && !special; k++) {
    const fl_ctype *o = b->fields[k].type;
    if (!fl_inherit_has_field(o, name, n) && !symbol_of(o, name, n)) continue;
    if (is_shared(o, t, name, n)) continue;
    fl_symbol *s = fl_front_add(b->p, name, FL_SYM_WRONG);
    if (!s) return;
    s->of_base = 1;
    s->late = b->fields[i].base == 2 || b->fields[k].base == 2 ? FL_LATE_MEMBER : FL_LATE_NO;
    s->why = fl_karena_printf(b->p->a, "bases '%s' and '%s' have members of this name: name one, as "
                              "in %s::%s", b->fields[k].name, b->fields[i].name,
                              b->fields[k].name, name);
    return;
  }
}

/* Compares each name of base number i, whose part 't' is looked at, with those of earlier ones. */
static void compare_names(const bases *b, int i, const fl_ctype *t) {
  const fl_kmembers *m = t->s->members;
  for (int64_t k = fl_inherit_arguments(m); m && k < m->n_inner; k++)
    compare(b, i, m->inner[k].name, m->inner[k].n);
  const fl_cstruct *s = t->s->parts ? t->s->parts->s : t->s;
  for (int k = 0; k < s->n_fields; k++) {
    const fl_cfield *f = &s->fields[k];
    if (f->base) compare_names(b, i, f->type);
    else compare(b, i, f->name, (int32_t)strlen(f->name));
  }
}

/* ---- inheriting ------------------------------------------------------------------------------ */

/* Inherits from a base: types and constants (functions = 0), or (functions = 1) the functions that
** no symbol of the same name from 'mark' on hides. Constructors and operator= are not inherited. */
static void take_over(fl_front *p, const fl_cfield *base, int functions, int64_t mark) {
  const fl_ctype *t = base->type;
  const fl_kmembers *m = t->s->members;
  for (int64_t i = fl_inherit_arguments(m); m && i < m->n_inner; i++) {
    const fl_symbol *s = &m->inner[i];
    const int own = !strcmp(s->name, FL_MAKER) || !strcmp(s->name, "operator=") ||
                    !strcmp(s->name, fl_member_class(t));
    if (own || (s->kind == FL_SYM_FUNCTION) != functions) continue;
    if (functions && fl_front_among(p->syms.at + mark, p->syms.n - mark, s->name, s->n)) continue;
    const int64_t first = p->syms.n;
    fl_scope_inherit(p, s, 1, base->base == 2);
    if (p->syms.n > first) p->syms.at[first].of_base = 1;
  }
}

void fl_inherit_bases(fl_front *p, const fl_cfield *fields, int n) {
  const bases b = { p, fields, n };
  for (int i = 0; i < n && !p->failed; i++) take_over(p, &fields[i], 0, 0);
  for (int i = 1; i < n && !p->failed; i++) compare_names(&b, i, fields[i].type);
}

/* Adds the functions of base 't' that "using t::name" means. Constructors that copy, and one
** without parameters, are the struct's own. */
static void add_functions(fl_front *p, const fl_ctype *t, const char *name, int64_t mark) {
  for (const fl_kdevice *d = fl_member_functions(t, name); d; d = d->next) {
    int own = d->is_maker && !d->n_tparams &&
              (!d->n_params || (d->n_params == 1 && d->params[0].type &&
                                fl_ctype_same(d->params[0].type, t)));
    for (int64_t i = mark; i < p->syms.n && !own; i++) {
      const fl_symbol *s = &p->syms.at[i];
      if (s->kind != FL_SYM_FUNCTION || strcmp(s->name, name)) continue;
      for (const fl_kdevice *o = s->device; o && !own; o = o->next) own = fl_device_same(o, d);
    }
    fl_kdevice *copy = own ? NULL : fl_karena_new(p->a, sizeof *copy);
    if (!copy) continue;
    *copy = *d;
    copy->next = NULL;
    fl_device_list(p, copy, mark);
  }
}

void fl_inherit_functions(fl_front *p, const fl_ctype *t, const fl_kuse *uses, int64_t mark) {
  for (const fl_kuse *u = uses; u && !p->failed; u = u->next)
    add_functions(p, u->base, u->name, mark);
  for (int i = 0; i < t->s->n_fields && !p->failed; i++)
    if (t->s->fields[i].base) take_over(p, &t->s->fields[i], 1, mark);
}

int64_t fl_inherit_hidden(const fl_ctype *t, const fl_kuse *uses, fl_symbol *list, int64_t n) {
  int64_t stay = 0;
  for (int64_t i = 0; i < n; i++) {
    const fl_symbol *s = &list[i];
    if (!s->of_base || (!own_field(t, s->name, s->n) && !use_of(uses, s->name, s->n)))
      list[stay++] = *s;
  }
  return stay;
}

/* ---- "using V::x;" --------------------------------------------------------------------------- */

/* Takes the name after the prefix, which may be that of an operator; NULL: there is none. */
static const char *used_name(fl_front *p, const fl_ctype *of) {
  const fl_ktok *t = fl_front_next(p);
  if (t->kind != FL_TOK_NAME) return NULL;
  const int same = t[-2].kind == FL_TOK_NAME && t[-2].n == t->n &&
                   !memcmp(t[-2].text, t->text, (size_t)t->n);      /* "using Base::Base" */
  if (same || fl_ktok_is(t, fl_member_class(of))) return FL_MAKER;
  const char *name = fl_karena_str(p->a, t->text, (size_t)t->n);
  while (name && fl_ktok_is(t, "operator") && fl_ktok_punct(fl_front_tok(p)) &&
         !fl_front_is(p, ';') && !fl_front_is(p, ',')) {
    const fl_ktok *o = fl_front_next(p);
    name = fl_karena_printf(p->a, "%s%.*s", name, (int)o->n, o->text);
  }
  return name;
}

/* Takes one name of a using declaration. 0: it is none. */
static int take_use(fl_front *p, const fl_cfield *fields, int n, fl_kuse **uses) {
  const fl_symbol *inner;
  int64_t n_inner;
  fl_front_word(p, "typename");
  fl_scope_prefix(p, &inner, &n_inner);
  const fl_ctype *const of = p->failed ? NULL : p->among;
  int is = 0;
  for (int i = 0; i < n && of; i++) is |= fields[i].base && fl_member_derives(fields[i].type, of);
  const char *name = is ? used_name(p, of) : NULL;
  if (!name) return 0;
  const int32_t length = (int32_t)strlen(name);
  const fl_symbol *s = fl_inherit_has_field(of, name, length) ? NULL
                       : symbol_of(of, name, length);
  if (s && s->kind != FL_SYM_FUNCTION) {
    const fl_symbol kept = *s;
    fl_scope_inherit(p, &kept, 1, 0);
    p->syms.at[p->syms.n - 1].of_base = 0;
    return 1;
  }
  fl_kuse *u = s || strcmp(name, FL_MAKER) ? fl_karena_new(p->a, sizeof *u) : NULL;
  if (!u) return 1;
  *u = (fl_kuse){ .name = name, .n = length, .base = of, .next = *uses };
  *uses = u;
  return s || fl_inherit_has_field(of, name, length);
}

int fl_inherit_using(fl_front *p, const fl_cfield *fields, int n, fl_kuse **uses) {
  const fl_kattempt from = fl_front_try(p);
  fl_kuse *const before = *uses;
  int is = fl_front_word(p, "using");
  while (is) {
    is = take_use(p, fields, n, uses);
    if (!is || !fl_front_take(p, ',')) break;
  }
  if (is && fl_front_take(p, ';')) return 1;
  *uses = before;
  p->syms.n = from.syms;
  if (p->failed) fl_front_undo(p, &from);
  p->at = from.at;
  return 0;
}

void fl_inherit_open(fl_front *p, const fl_ctype *t, const fl_cvalue *self, int base,
                     int32_t line) {
  const fl_kmembers *m = t->s->members;
  for (const fl_kuse *u = m && self ? m->uses : NULL; u && !p->failed; u = u->next) {
    if (!fl_inherit_has_field(u->base, u->name, u->n)) continue;
    const fl_cvalue in = fl_member_as(p, *self, u->base, line),
                    v = fl_member_part(p, in, u->name, u->n, line);
    fl_symbol *s = fl_front_bind(p, u->name, FL_SYM_REFERENCE, v);
    if (s) s->late = base == 2;
  }
}

/* ---- objects --------------------------------------------------------------------------------- */

/* How many fields of t and of its bases have that name. Members of unions do not count. */
static int count_fields(const fl_ctype *t, const char *name) {
  int n = 0;
  for (int i = 0; i < t->s->n_fields && !t->s->parts; i++) {
    const fl_cfield *f = &t->s->fields[i];
    n += f->base ? count_fields(f->type, name) : !strcmp(f->name, name);
  }
  return n;
}

/* Finds a field of t ('whole' itself or a base of it) whose name another field of 'whole' has too,
** or such a field inside the type of one. Returns its name; NULL: there is none. */
static const char *same_in(const fl_ctype *whole, const fl_ctype *t) {
  const char *found = NULL;
  for (int i = 0; i < t->s->n_fields && !found && !t->s->parts; i++) {
    const fl_cfield *f = &t->s->fields[i];
    found = f->base ? same_in(whole, f->type)
                    : count_fields(whole, f->name) > 1 ? f->name : fl_inherit_same(f->type);
  }
  return found;
}

const char *fl_inherit_same(const fl_ctype *t) {
  while (t->kind == FL_C_ARRAY || t->kind == FL_C_POINTER) t = t->of;
  return t->kind == FL_C_STRUCT && !t->s->width ? same_in(t, t) : NULL;
}

void fl_inherit_make(fl_front *p, fl_cvalue place, fl_kdevice *d, const fl_kcall *c) {
  fl_kcall own = *c;
  own.self = &place;
  if (fl_ctype_same(place.type, d->owner)) { fl_inline(p, d, &own); return; }
  int made = 0;
  for (int i = 0; i < place.type->s->n_fields && !p->failed; i++) {
    const fl_cfield *f = &place.type->s->fields[i];
    const int is = !made && f->base && fl_member_derives(f->type, d->owner);
    if (is) fl_inherit_make(p, fl_val_field(p, place, i, c->line), d, c);
    else fl_member_default(p, place, i, c->line);
    made |= is;
  }
}
