/*
** The parameters of a kernel: their types, their offsets, and what is known of a call's arguments
** when the text is read: null pointers, lengths of lists ('forms', source.h).
*/
#include "kernel/front/forms.h"
#include "kernel/front/inherit.h"
#include <stdlib.h>
#include <string.h>

/* Skips to the next ',' or the ')' of a parameter list. */
static void next_parameter(fl_front *p) {
  for (; fl_front_ahead(p, 0)->kind != FL_TOK_END; p->at++) {
    if (fl_front_is_at(p, 0, ',') || fl_front_is_at(p, 0, ')')) return;
    while (fl_front_is_at(p, 0, '(') || fl_front_is_at(p, 0, '[') ||
           fl_front_is_at(p, 0, '{'))
      fl_front_skip(p);
    if (fl_front_is_at(p, 0, ',') || fl_front_is_at(p, 0, ')')) return;
  }
}

/* Refuses f's body since a parameter, which begins at token 'from', could not be read; fills *out
** from its words. */
static void unknown_parameter(fl_front *p, fl_kfunc *f, fl_kparam *out, int64_t from) {
  fl_refuse_body(p, f);
  p->at = from;
  next_parameter(p);
  const fl_ktok *name = NULL, *type = NULL;
  for (int64_t i = from; i < p->at; i++) {
    const fl_ktok *t = &p->toks.at[i];
    if (fl_is_punct(t, '=')) break;
    if (t->kind == FL_TOK_PUNCT && (t->punct == '*' || t->punct == '[')) out->is_pointer = 1;
    if (fl_is_punct(t, '[')) break;
    if (fl_ktok_is(t, "const")) out->is_const = 1;
    if (t->kind == FL_TOK_NAME) {
      if (!type && !fl_ktok_is(t, "const") && !fl_ktok_is(t, "volatile")) type = t;
      name = t;
    }
  }
  out->name =
      name && name != type ? fl_karena_str(p->a, name->text, (size_t)name->n) : "?";
  out->type_name = type ? fl_karena_str(p->a, type->text, (size_t)type->n) : "?";
  out->size = out->align = out->is_pointer ? 8 : 0;
  if (!out->align) out->align = 1;
}

static const char *type_name(fl_front *p, const fl_ctype *t) {
  while (t->kind == FL_C_POINTER) t = t->of;
  return fl_ctype_text(p->a, t);
}

void fl_front_describe(fl_front *p, fl_kparam *out, const fl_ctype *t) {
  int64_t n = 1;
  const fl_ctype *of = t->kind == FL_C_POINTER ? t->of : t;
  out->known = 1;
  out->is_pointer = t->kind == FL_C_POINTER;
  out->is_const = t->const_of;
  out->type_name = type_name(p, t);
  out->is_struct = of->kind == FL_C_STRUCT && !of->s->width;
  out->type = (uint8_t)fl_ctype_element(of, &n);
  out->width = (int32_t)(out->type == FL_KT_VOID ? 1 : n);
  out->size = fl_ctype_size(t);
  out->align = fl_ctype_align(t);
  out->pointee_size = out->is_pointer ? fl_ctype_size(of) : 0;
  if (out->is_struct && out->is_pointer && !out->type) {       /* members of several types: the
                                                               ** array is bytes */
    out->type = FL_KT_U8;
    out->width = (int32_t)out->pointee_size;
  }
  if (of->kind == FL_C_ARRAY) out->is_struct = 1;       /* a member of a struct that is spread */
  else if (of->kind != FL_C_STRUCT) return;
  const int leaves = fl_ctype_leaves(of);
  fl_kfield *fields = fl_karena_new(p->a, (size_t)leaves * sizeof *fields);
  if (fields && fl_ctype_fields(p->a, of, "", fields)) {
    out->fields = fields;
    out->n_fields = leaves;
  }
}

static const fl_ctype *parameter(fl_front *p, fl_kfunc *f, fl_kparam *out) {
  const int64_t from = p->at;
  int ref = 0;
  const char *name = NULL;
  out->line = fl_front_tok(p)->line;
  const fl_specifiers s = fl_decl_specifiers(p);
  const fl_ctype *t = s.type ? fl_decl_parameter(p, &s, &name, &ref) : NULL;
  if (t && ref) fl_refuse(p, out->line, "a kernel takes no references");
  if (t && s.is_auto) fl_refuse(p, out->line, "auto is no type here");
  if (t && t->kind == FL_C_VOID) fl_refuse(p, out->line, "a parameter of type void");
  if (t && fl_ctype_is_open(t->kind == FL_C_POINTER ? t->of : t))
    fl_refuse(p, out->line, "a parameter of a struct that is not defined yet");
  const char *twice = t ? fl_inherit_same(t) : NULL;
  if (twice) fl_refuse(p, out->line, "two members '%s' of a struct and its bases", twice);
  const int list = t && t->kind == FL_C_POINTER && t->of->kind == FL_C_POINTER;
  if (list && (t->of->of->kind == FL_C_POINTER || t->of->of->kind == FL_C_VOID || !name))
    fl_refuse(p, out->line, "pointers to pointers are outside the language");
  if (fl_front_is(p, '=')) next_parameter(p);      /* a launch gives all arguments */
  if (!p->failed && !fl_front_is(p, ',') && !fl_front_is(p, ')'))
    fl_refuse(p, out->line, "a parameter that is not understood");
  if (p->a->failed) return NULL;
  if (p->failed || !t) { unknown_parameter(p, f, out, from); return NULL; }
  out->name = name ? name : "unnamed";
  out->is_texture = (uint8_t)fl_texture_is(t);
  fl_front_describe(p, out, out->is_texture
                            ? fl_ctype_pointer(p->a, fl_ctype_scalar(FL_KT_F32), 1)
                            : list ? t->of : t);
  if (list) out->list_of = name;
  return t;
}

/* The number that p->forms (what is known of a call's arguments, source.h) has for 'name': 0 for a
** null pointer, the length of a list, or the parameter that a length is equal to; -1: none. */
static int form_of(const fl_front *p, const char *name) {
  const size_t n = strlen(name);
  for (const char *s = p->forms; s && *s; s += strcspn(s, ",") + 1)
    if (!strncmp(s, name, n) && s[n] == '=') return atoi(s + n + 1);
  return -1;
}

/* Counts q as one more parameter of f. Its offset is the first multiple of its alignment from *at
** on; *at becomes the end of q. */
static void count(fl_kfunc *f, fl_kparam *q, int64_t *at) {
  f->n_params++;
  q->offset = (*at + q->align - 1) / q->align * q->align;
  *at = q->offset + q->size;
}

/* Replaces the last parameter of f so far, a list of n arrays (a T **), by n pointers. n <= 0: the
** length is unknown, so the parameter stays and the body is refused. */
static void list_parameters(fl_front *p, fl_kfunc *f, const fl_ctype **types, int n, int64_t *at) {
  fl_kparam *q = &f->params[f->n_params - 1];
  const fl_ctype *t = types[f->n_params - 1];
  q->list = 1;
  q->lists = n > 0 ? n : 0;
  if (n <= 0) {
    fl_refuse(p, q->line, "'%s' is a list of arrays, whose length a call tells", q->name);
    fl_refuse_body(p, f);
  }
  for (int j = 0; j < n; j++) {
    if (j && !fl_front_room(p, f->n_params, FL_K_MAX_PARAMETERS, "parameters of a kernel")) return;
    fl_kparam *o = &q[j];
    *o = *q;
    o->list = j + 1;
    o->name = fl_karena_printf(p->a, "%s[%d]", q->list_of, j);
    types[f->n_params - (j == 0)] = t;
    if (j) count(f, o, at);
  }
}

void fl_front_place(fl_front *p, fl_kfunc *f, const fl_ctype **types, int64_t most, int64_t *at) {
  fl_kparam *q = &f->params[f->n_params];
  const int form = form_of(p, q->name);
  q->is_null = q->is_pointer && !q->list_of && form == 0;
  if (q->axes && q->axis >= 0 && form >= 0 && form < f->n_params) q->same = 1 + form;
  if (q->list_of && most && form > most)
    fl_refuse(p, q->line, "'%s' has room for %lld arrays, the list has %d", q->name,
              (long long)most, form);
  count(f, q, at);
  if (q->list_of) list_parameters(p, f, types, form, at);
}

/* After '('; takes ')'. */
void fl_front_parameters(fl_front *p, fl_kfunc *f, fl_kptypes *types) {
  int64_t at = 0;
  f->params = fl_karena_new(p->a, FL_K_MAX_PARAMETERS * sizeof *f->params);
  types->at = fl_karena_new(p->a, FL_K_MAX_PARAMETERS * sizeof *types->at);
  types->whole = fl_karena_new(p->a, FL_K_MAX_PARAMETERS * sizeof *types->whole);
  if (fl_ktok_is(fl_front_tok(p), "void") && fl_front_is_at(p, 1, ')')) p->at++;
  while (f->params && types->at && types->whole && !p->failed && !fl_front_is(p, ')')) {
    if (!fl_front_room(p, f->n_params, FL_K_MAX_PARAMETERS, "parameters of a kernel")) return;
    const fl_ctype *t = parameter(p, f, &f->params[f->n_params]);
    if (p->a->failed) break;
    types->at[f->n_params] = t;
    if (t && fl_spread_is(t)) fl_spread_parameters(p, f, types, t, &at);
    else fl_front_place(p, f, types->at, 0, &at);
    if (!fl_front_take(p, ',')) break;
  }
  fl_front_need(p, ')');
}
