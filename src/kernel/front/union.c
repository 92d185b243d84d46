/*
** Unions: bytes, or, if all members are numbers of one type, such numbers, that are viewed as one
** member or another. The elements of an object are stored as the type that the kernel reads
** (view.c), so that a value stored as a real and read as a real keeps its gradient.
*/
#include "kernel/front/forms.h"
#include <assert.h>
#include <string.h>

/* Can the member be viewed as bytes? It can if it is numbers of one type, or an unnamed struct or
** union of such members. */
static int is_seen(const fl_cfield *f) {
  int64_t n;
  const fl_cstruct *s = f->base && f->type->s->parts ? f->type->s->parts->s
                                                     : f->base ? f->type->s : NULL;
  if (!s) return fl_ctype_element(f->type, &n) != FL_KT_VOID;
  for (int i = 0; i < s->n_fields; i++)
    if (!is_seen(&s->fields[i])) return 0;
  return 1;
}

/* Is t made of type 'of'? */
static int made_of(const fl_ctype *t, const fl_ctype *of) {
  while (t && (t->kind == FL_C_ARRAY || t->kind == FL_C_POINTER)) t = t->of;
  return t && t->kind == FL_C_STRUCT && t->s == of->s;
}

/* Gives union t the functions, types and constants of the struct 'parts'. A function whose
** parameters or result are of that struct can not be called. */
static void take_members(fl_front *p, const fl_ctype *t, const fl_ctype *parts, int32_t line) {
  fl_kmembers *m = parts->s->members;
  if (!m) return;
  if (m->has_inits) fl_refuse(p, line, "a default of a member of a union");
  for (int64_t i = 0; i < m->n_inner; i++) {
    fl_symbol *s = &m->inner[i];
    if (s->kind == FL_SYM_TYPE && made_of(s->type, parts)) s->type = t;
    for (fl_kdevice *d = s->kind == FL_SYM_FUNCTION ? s->device : NULL; d; d = d->next) {
      int own = made_of(d->result, parts) || d->n_tparams > 0;
      for (int k = 0; k < d->n_params && !d->n_tparams; k++)
        own |= made_of(d->params[k].type, parts);
      if (own) d->why = "is a template in a union, or takes or returns the union";
      d->owner = t;
    }
  }
  t->s->members = m;
  parts->s->members = NULL;
}

void fl_union_inits(fl_front *p, const fl_kdevice *d, fl_cvalue self) {
  if (!d->inits) return;
  p->at = d->inits + 1;
  const fl_ktok *t = fl_front_next(p);
  if (t->kind != FL_TOK_NAME) fl_refuse(p, t->line, "a name of a member is needed");
  if (p->failed) return;
  fl_member_initialise(p, fl_union_part(p, self, t->text, t->n, t->line), t->line);
  if (fl_front_is(p, ',')) fl_refuse(p, t->line, "a union has one member that is initialised");
}

const fl_ctype *fl_union_of(fl_front *p, const fl_ctype *parts, int32_t line) {
  fl_cstruct *s = parts->s;
  int64_t size = 1, align = s->align, n;
  int element = s->n_fields ? fl_ctype_element(s->fields[0].type, &n) : FL_KT_U8;
  for (int i = 0; i < s->n_fields; i++) {
    const int64_t own = fl_ctype_size(s->fields[i].type);
    if (own > size) size = own;
    s->fields[i].offset = 0;
    if (fl_ctype_element(s->fields[i].type, &n) != element) element = FL_KT_U8;
    if (is_seen(&s->fields[i])) continue;
    fl_refuse(p, line, "member '%s' of a union is not of numbers of one type", s->fields[i].name);
    return NULL;
  }
  size = (size + align - 1) / align * align;
  if (element == FL_KT_VOID || size % fl_kt_size(element)) element = FL_KT_U8;
  fl_cfield *bytes = fl_karena_new(p->a, sizeof *bytes);
  const fl_ctype *of = fl_ctype_array(p->a, fl_ctype_scalar(element), size / fl_kt_size(element));
  if (!bytes || !of) return NULL;
  *bytes = (fl_cfield){ .name = "{}", .type = of };
  fl_ctype *t = fl_ctype_struct(p->a, s->name, bytes, 1, align);
  if (!t) return NULL;
  t->s->parts = parts;
  take_members(p, t, parts, line);
  return p->failed ? NULL : t;
}

/* The member of that name, which may be inside unnamed members; *offset: where it begins, in bytes.
** NULL: there is none. */
static const fl_cfield *find(const fl_ctype *t, const char *name, int32_t n, int64_t *offset) {
  const fl_cstruct *s = t->s->parts ? t->s->parts->s : t->s;
  for (int i = 0; i < s->n_fields; i++) {
    const fl_cfield *f = &s->fields[i];
    int64_t at = 0;
    const int itself = strlen(f->name) == (size_t)n && !memcmp(f->name, name, (size_t)n);
    const fl_cfield *found = itself ? f : f->base ? find(f->type, name, n, &at) : NULL;
    if (!found) continue;
    *offset = f->offset + at;
    return found;
  }
  return NULL;
}

fl_cvalue fl_union_part(fl_front *p, fl_cvalue v, const char *name, int32_t n, int32_t line) {
  int64_t offset = 0;
  const fl_cfield *f = find(v.type, name, n, &offset);
  if (!f)
    fl_refuse(p, line, "'%s' has no member '%.*s'", fl_ctype_text(p->a, v.type), (int)n, name);
  fl_cvalue at = p->failed ? v : fl_val_member(p, v, "{}", 2, line);
  if (!p->failed && at.kind != FL_V_PLACE)
    fl_refuse(p, line, "a member of a union that is not stored" FL_DO ": put it into a variable");
  if (p->failed) return fl_val_none();
  assert(f);
  const int is_const = at.is_const;
  at = fl_val_pointer(p, at, line);
  if (p->failed) return fl_val_none();
  offset /= fl_ctype_size(at.type);
  if (offset && !p->failed)
    at = fl_val_advance(p, at, fl_kexpr_int(p->a, FL_KT_I64, offset), 0, line);
  if (p->failed) return fl_val_none();
  at = fl_cast_to(p, fl_ctype_pointer(p->a, f->type, is_const), at, line);
  return fl_val_deref(p, at, line);
}

void fl_union_open(fl_front *p, const fl_ctype *t, fl_cvalue v, int32_t line) {
  const fl_cstruct *s = t->s->parts ? t->s->parts->s : t->s;
  for (int i = 0; i < s->n_fields && !p->failed; i++) {
    const char *name = s->fields[i].name;
    if (s->fields[i].base) { fl_union_open(p, s->fields[i].type, v, line); continue; }
    fl_front_bind(p, name, FL_SYM_REFERENCE,
                  fl_union_part(p, v, name, (int32_t)strlen(name), line));
  }
}
