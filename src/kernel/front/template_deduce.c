/*
** Deduces parameters of a template from the arguments of a call, token by token of the declaration.
*/
#include "kernel/front/number.h"
#include "kernel/front/template.h"
#include <string.h>

void fl_template_give(fl_symbol *to, const fl_ktparam *t, const fl_symbol *from) {
  *to = *from;
  to->name = t->name;
  to->n = (int32_t)strlen(t->name);
}

/* Makes 'to' the pack t of the n elements 'from'; constants are converted to the type of t. */
void fl_template_give_pack(fl_front *p, fl_symbol *to, const fl_ktparam *t,
                      const fl_symbol *from, int n) {
  fl_symbol *list = fl_karena_new(p->a, (size_t)(n + 1) * sizeof *list),
            s = { .kind = FL_SYM_PACK, .offset = -1 };
  if (!list) return;
  for (int i = 0; i < n; i++) {
    fl_template_give(&list[i], t, &from[i]);
    if (t->type && t->type->kind == FL_C_SCALAR && list[i].v.e)
      list[i].v = fl_val_expr(fl_val_to(p, list[i].v.e, t->type));
  }
  s.inner = list;
  s.n_inner = n;
  fl_template_give(to, t, &s);
}

const fl_ctype *fl_deduce_meet(fl_front *p, const fl_cvalue *v, int pointer, int array, int ref) {
  const fl_ctype *t = v->type;
  const int is_array = v->kind == FL_V_PLACE && t && t->kind == FL_C_ARRAY;
  if (v->kind == FL_V_NONE || v->kind == FL_V_LIST || !t || v->null) return NULL;
  if (array) return is_array ? t : NULL;
  if (pointer)
    return v->kind == FL_V_POINTER ? t : is_array || t->kind == FL_C_POINTER ? t->of : NULL;
  if (v->kind == FL_V_POINTER) return fl_ctype_pointer(p->a, t, v->is_const);
  return is_array && !ref ? fl_ctype_pointer(p->a, t->of, v->is_const) : t;
}

int fl_deduce_index(const fl_kdeduction *d, const fl_ktok *t) {
  for (int i = 0; i < d->n; i++)
    if (fl_ktok_is(t, d->t[i].name)) return i;
  return -1;
}

/* 1: parameter i is not set yet. 0: it is set; *is becomes FL_MATCH_NO if to something other than s
** and not by the call itself, else FL_MATCH_YES. */
static int is_free(const fl_kdeduction *d, int i, const fl_symbol *s, int *is) {
  const fl_symbol *now = &d->env[i];
  *is = FL_MATCH_YES;
  if (!now->name || i < d->given) return !now->name;
  if (now->kind == s->kind && fl_template_same(now, s, 1)) return 0;
  *is = FL_MATCH_NO;
  if (d->conflict) *d->conflict = 1;
  return 0;
}

int fl_deduce_type(const fl_kdeduction *d, int i, const fl_ctype *type, int is_const, int ref) {
  const fl_symbol s = { .kind = FL_SYM_TYPE, .offset = -1, .type = type,
                        .is_const = (uint8_t)is_const, .ref = (uint8_t)ref };
  int is;
  if (d->t[i].type) return FL_MATCH_NO;
  if (is_free(d, i, &s, &is)) fl_template_give(&d->env[i], &d->t[i], &s);
  return is;
}

int fl_deduce_value(fl_front *p, const fl_kdeduction *d, int i, const fl_ctype *type,
                    int64_t value) {
  fl_symbol s = { .kind = FL_SYM_CONSTANT, .offset = -1 };
  int is;
  if (!d->t[i].type) return FL_MATCH_NO;
  if (d->t[i].type->kind == FL_C_SCALAR) type = d->t[i].type;
  s.v = fl_val_expr(fl_val_as(p, fl_kexpr_int(p->a, type->scalar, value), type));
  if (s.v.e && is_free(d, i, &s, &is)) fl_template_give(&d->env[i], &d->t[i], &s);
  return s.v.e ? is : FL_MATCH_UNKNOWN;
}

static int is_const(const fl_cvalue *v) {
  const int place = v->kind == FL_V_PLACE;
  return v->is_const && (v->named || v->either || (place && !v->rvalue)) &&
         v->type->kind != FL_C_POINTER;
}

/* Is v an lvalue, for which "T &&" becomes "T &"? */
static int is_lvalue(const fl_cvalue *v) {
  const int place = v->kind == FL_V_PLACE && !v->rvalue && !v->moved;
  return place || v->named || v->either || (v->kind == FL_V_POINTER && v->sym);
}

/* The type of argument v for a formal that is a value (ref 0), a reference (1) or "T &&" (2), as a
** symbol; its 'type' is NULL if v has none. */
static fl_symbol type_of(fl_front *p, const fl_cvalue *v, int ref) {
  fl_symbol s = { .kind = FL_SYM_TYPE, .offset = -1 };
  const fl_ctype *t = fl_deduce_meet(p, v, 0, 0, ref);
  if (!t) return s;
  s.type = ref ? t : fl_ctype_plain(p->a, t);
  s.is_const = (uint8_t)(ref && is_const(v));
  s.ref = ref == 2 && is_lvalue(v);
  return s;
}

/* Deduces from one formal, tokens i to end - 1. */
static void deduce_one(fl_front *p, const fl_kdeduction *d, int64_t i, int64_t end,
                       const fl_cvalue *v) {
  const fl_symbol s = type_of(p, v, fl_match_reference(p, d, i, end));
  if (s.type) fl_match_formal(p, d, i, end, &s);
}

/* Deduces the types of a pack from the remaining arguments: "const T &... v" at tokens i to end -
** 1. */
static void deduce_pack(fl_front *p, const fl_kdeduction *d, int64_t i, int64_t end,
                        const fl_cvalue *v, int n) {
  fl_symbol list[FL_K_MAX_GIVEN];
  const int ref = fl_match_reference(p, d, i, end);
  for (int k = 0; k < n; k++) {
    list[k] = type_of(p, &v[k], ref);
    if (!list[k].type) return;
  }
  fl_match_pack(p, d, i, end, list, n, 1);
}

/* Deduces the parameter that is the result type of f, which precedes f's name, from the type that
** the call must return. */
static void deduce_result(fl_front *p, const fl_kdeduction *d, const fl_kdevice *f,
                          const fl_cvalue *v) {
  for (int64_t i = f->head; i + 1 < f->open; i++)
    if (fl_deduce_index(d, &p->toks.at[i]) >= 0) { deduce_one(p, d, i, f->open - 1, v); return; }
}

void fl_template_deduce(fl_front *p, const fl_kdeduction *d, const fl_kdevice *f,
                        const fl_kcall *c) {
  int depth = 1, arg = 0, dots = 0;
  int64_t from = f->open + 1;
  if (c->result) deduce_result(p, d, f, c->result);
  for (int64_t i = from; i < p->toks.n && depth > 0 && arg < c->n; i++) {
    const fl_ktok *t = &p->toks.at[i];
    const int ch = fl_ktok_punct(t);
    depth += (ch == '(' || ch == '<' || ch == '[' || ch == '{') -
             (ch == ')' || ch == '>' || ch == ']' || ch == '}') -
             2 * (ch == FL_PU_SHR);
    dots |= ch == FL_PU_ELLIPSIS && depth == 1;
    if (depth && !(ch == ',' && depth == 1)) continue;
    if (dots) { deduce_pack(p, d, from, i, c->args + arg, c->n - arg); return; }
    if (i > from) deduce_one(p, d, from, i, &c->args[arg++]);
    from = i + 1;
  }
}

int fl_template_takes(const fl_front *p, const fl_kdevice *f, int n) {
  int depth = 1, count = 0, least = f->declared ? 0 : -1, unsure = 0;
  for (int64_t i = f->open + 1; i < p->toks.n && depth > 0; i++) {
    const fl_ktok *t = &p->toks.at[i];
    const int ch = fl_ktok_punct(t);
    if (ch == '=' && depth == 1 && least < 0) least = count;
    unsure |= ch == '<' && least >= 0;           /* in a default it is a bracket, or "is less" */
    if (ch == FL_PU_ELLIPSIS || (unsure && ch == ',')) return n >= (least < 0 ? count : least);
    depth += fl_ktok_depth(t);
    if (!unsure) depth += (ch == '<') - (ch == '>') - 2 * (ch == FL_PU_SHR);
    const int none = !depth && (i == f->open + 1 ||
                                (i == f->open + 2 && fl_ktok_is(t - 1, "void")));
    count += (!depth && !none) || (depth == 1 && ch == ',');
  }
  return n >= (least < 0 ? count : least) && n <= count;
}
