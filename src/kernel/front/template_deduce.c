/*
** Deduces parameters of a template from the arguments of a call, token by token of the declaration.
*/
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
      list[i].v = fl_val_expr(fl_val_convert(p, list[i].v.e, t->type->scalar));
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

void fl_deduce_type(const fl_kdeduction *d, int i, const fl_ctype *type, int is_const, int ref) {
  fl_symbol s = { .kind = FL_SYM_TYPE, .offset = -1, .type = type,
                  .is_const = (uint8_t)is_const, .ref = (uint8_t)ref };
  if (type && !d->env[i].name && !d->t[i].type) fl_template_give(&d->env[i], &d->t[i], &s);
}

void fl_deduce_value(fl_front *p, const fl_kdeduction *d, int i, int64_t value) {
  fl_symbol s = { .kind = FL_SYM_CONSTANT, .offset = -1 };
  if (d->env[i].name || !d->t[i].type) return;
  s.v = fl_val_expr(fl_kexpr_int(p->a, FL_KT_I32, value));
  fl_template_give(&d->env[i], &d->t[i], &s);
}

/* Deduces from argument k of a template, which is 'arg' and which the formal, with its '<' at token
** i, has as one word. 0: an argument up to there is more than a name. */
static int deduce_argument(fl_front *p, const fl_kdeduction *d, int64_t i, int k,
                           const fl_symbol *arg) {
  for (int j = 0; j <= k; j++) {
    const int c = fl_ktok_punct(&p->toks.at[i + 2 + 2 * j]);
    if (c != ',' && (j < k || (c != '>' && c != FL_PU_SHR))) return 0;
  }
  const int which = fl_deduce_index(d, &p->toks.at[i + 1 + 2 * k]);
  if (which >= 0 && arg->kind == FL_SYM_TYPE)
    fl_deduce_type(d, which, arg->type, arg->is_const, arg->ref);
  else if (which >= 0) fl_deduce_value(p, d, which, arg->v.e->value.i);
  return 1;
}

/* The parameter of 'alias', another name of "V<A, B>", that argument k of V is; -1: none. */
static int parameter_of(fl_front *p, const fl_ktemplate *alias, int k) {
  const fl_ktok *t = &p->toks.at[alias->at + 2 + 2 * k];
  for (int j = 0; j < alias->n_tparams; j++)
    if (fl_ktok_is(t, alias->tparams[j].name)) return j;
  return -1;
}

void fl_deduce_struct(fl_front *p, const fl_kdeduction *d, const fl_ktemplate *of, int64_t i,
                      const fl_ctype *type) {
  const fl_symbol *s = of->is_alias ? fl_front_named(p, &p->toks.at[of->at]) : NULL;
  const fl_ktemplate *named = s && s->kind == FL_SYM_TEMPLATE ? s->structs : of;
  if (!type || type->kind != FL_C_STRUCT || !type->s->members || type->s->members->of != named)
    return;
  for (int k = 0; k < named->n_tparams; k++) {
    const int at = named == of ? k : parameter_of(p, of, k);
    if (at >= 0 && !deduce_argument(p, d, i, at, &type->s->members->inner[k])) return;
  }
}

/* The element type of T[A][B] when it is matched with 'type', from which A and B are deduced; they
** are the tokens at size[0], size[1] … NULL: 'type' is no such array. */
static const fl_ctype *element_of(fl_front *p, const fl_kdeduction *d, const fl_ctype *type,
                                  const int64_t *size, int n) {
  for (int k = 0; k < n; k++) {
    if (!type || type->kind != FL_C_ARRAY) return NULL;
    const int which = fl_deduce_index(d, &p->toks.at[size[k]]);
    if (which >= 0) fl_deduce_value(p, d, which, type->count);
    type = type->of;
  }
  return type;
}

/* Is the object that v is, or that it points to (pointer), const? */
static int is_const(const fl_cvalue *v, int pointer) {
  const int place = v->kind == FL_V_PLACE;
  if (pointer && place && v->type->kind == FL_C_POINTER) return v->type->const_of;
  return pointer ? v->is_const : v->is_const && (v->named || v->either || (place && !v->rvalue));
}

/* Is v an lvalue, for which "T &&" becomes "T &"? Pointers and arrays count as values. */
static int is_lvalue(const fl_cvalue *v) {
  const int place = v->kind == FL_V_PLACE && !v->rvalue && !v->moved;
  return v->kind != FL_V_LIST && (place || v->named || v->either) &&
         (v->type->kind == FL_C_SCALAR || v->type->kind == FL_C_STRUCT);
}

/* Deduces from one formal, tokens i to end - 1. For "T a[M][N]" and "T (*a)[N]" the pointer is to
** arrays of N. */
static void deduce_one(fl_front *p, const fl_kdeduction *d, int64_t i, int64_t end,
                       const fl_cvalue *v) {
  int stars = 0, array = 0, boxed = 0, ref = 0, fixed = 0, n = 0;
  int64_t name = -1, size[FL_K_MAX_RANK];
  for (int64_t k = i; k < end; k++) {
    const fl_ktok *t = &p->toks.at[k];
    const int c = fl_ktok_punct(t);
    if (c == '(' && p->toks.at[k + 1].punct == '&') array = boxed = 1;
    if (c == '(' && p->toks.at[k + 1].punct == '*') boxed = 1;
    stars += c == '*' || (c == '[' && !boxed);
    ref |= c == '&' ? 1 : c == FL_PU_LAND ? 2 : 0;
    fixed |= !stars && fl_ktok_is(t, "const");
    if (c == '[' && boxed && n < FL_K_MAX_RANK) size[n++] = k + 1;
    if (c == '[') boxed = 1;
    const int skipped = fl_ktok_is(t, "const") || fl_ktok_is(t, "typename") ||
                        fl_ktok_is(t, "volatile");
    if (t->kind == FL_TOK_NAME && !skipped && name < 0) name = k;
    if (c == '=') break;
  }
  if (name < 0 || stars > 1) return;
  const int which = fl_deduce_index(d, &p->toks.at[name]);
  const fl_ctype *type = element_of(p, d, fl_deduce_meet(p, v, stars, array, ref), size, n);
  if (which >= 0 && type)
    fl_deduce_type(d, which, type, !fixed && (stars || ref) && type->kind != FL_C_POINTER &&
                                   is_const(v, stars || array),
                   ref == 2 && !fixed && !stars && !array && is_lvalue(v));
  const fl_ktok *const open = &p->toks.at[name + 1];
  const fl_symbol *s = which < 0 && fl_is_punct(open, '<')
                       ? fl_front_find(p, p->toks.at[name].text, p->toks.at[name].n) : NULL;
  if (s && fl_scope_is_template(s))               /* inside a template its name means the
                                                  ** instance */
    fl_deduce_struct(p, d, s->kind == FL_SYM_TEMPLATE ? s->structs : s->type->s->members->of,
                     name + 1, type);
}

/* Deduces the types of a pack from the remaining arguments: "const T &... v" at tokens i to end -
** 1. */
static void deduce_pack(fl_front *p, const fl_kdeduction *d, int64_t i, int64_t end,
                        const fl_cvalue *v, int n) {
  fl_symbol list[FL_K_MAX_GIVEN], *const to = &d->env[d->n - 1];
  const fl_ktparam *t = &d->t[d->n - 1];
  const fl_ktparam one = { .name = t->name };
  if (!t->is_pack || t->type || to->name || n > FL_K_MAX_GIVEN) return;
  for (int k = 0; k < n; k++) {
    list[k] = (fl_symbol){ .name = NULL };
    const fl_kdeduction each = { &one, 1, &list[k] };
    deduce_one(p, &each, i, end, &v[k]);
    if (!list[k].name) return;
  }
  fl_template_give_pack(p, to, t, list, n);
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
  int depth = 1, arg = 0;
  int64_t from = f->open + 1;
  if (c->result) deduce_result(p, d, f, c->result);
  for (int64_t i = from; i < p->toks.n && depth > 0 && arg < c->n; i++) {
    const fl_ktok *t = &p->toks.at[i];
    const int ch = fl_ktok_punct(t);
    depth += (ch == '(' || ch == '<' || ch == '[' || ch == '{') -
             (ch == ')' || ch == '>' || ch == ']' || ch == '}') -
             2 * (ch == FL_PU_SHR);
    if (depth && !(ch == ',' && depth == 1)) continue;
    int64_t dots = from;
    while (dots < i && !fl_is_punct(&p->toks.at[dots], FL_PU_ELLIPSIS)) dots++;
    if (dots < i) { deduce_pack(p, d, from, i, c->args + arg, c->n - arg); return; }
    if (i > from) deduce_one(p, d, from, i, &c->args[arg++]);
    from = i + 1;
  }
}
