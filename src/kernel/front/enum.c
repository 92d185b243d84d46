/*
** Enumerations: templates and overloads tell them apart from each other and from numbers. In the
** tree a value is a number of the underlying type.
*/
#include "kernel/front/forms.h"
#include "kernel/front/number.h"
#include <string.h>

/* Sets the underlying type of the enumeration t, for which the text gives none: int, unless its
** enumerators, the symbols from 'first' on, need another. */
static void hold_enum(fl_front *p, fl_ctype *t, int64_t first) {
  int64_t low = 0, high = 0;
  for (int64_t i = first; i < p->syms.n; i++) {
    const fl_kexpr *e = p->syms.at[i].v.e;
    if (e->type == FL_KT_U64 && e->value.i < 0) high = INT64_MAX;
    if (e->value.i < low && e->type != FL_KT_U64) low = e->value.i;
    if (e->value.i > high) high = e->value.i;
  }
  if (low >= INT32_MIN && high <= INT32_MAX) return;
  t->of = low >= 0 && high <= UINT32_MAX ? fl_ctype_scalar(FL_KT_U32)
                                         : fl_ctype_long(low >= 0 && high == INT64_MAX);
  t->scalar = t->of->scalar;
}

/* Reads "A, B = 2, … }" of the enumeration t. of: the underlying type; NULL: the text gives
** none. */
static void read_enumerators(fl_front *p, fl_ctype *t, const fl_ctype *of) {
  const int64_t first = p->syms.n;
  fl_kexpr *next = fl_kexpr_int(p->a, FL_KT_I32, 0);
  while (!p->failed && next && !fl_front_is(p, '}')) {
    const char *name = fl_front_name(p);
    const int32_t line = fl_front_tok(p)->line;
    if (fl_front_take(p, '=')) {
      fl_kblock *out = fl_front_into(p, NULL);
      next = fl_parse_scalar(p);
      fl_front_into(p, out);
      if (next && (next->kind != FL_KX_CONST || !fl_kt_is_int(next->type)))
        fl_refuse(p, line, "an enumerator must be a constant integer");
    }
    fl_kexpr *const e = of && next ? fl_val_to(p, next, of) : next;
    if (e) fl_front_bind(p, name, FL_SYM_CONSTANT, fl_val_expr(e));
    const int wide = e && e->value.i == INT32_MAX && e->type == FL_KT_I32;
    next = e ? fl_kexpr_int(p->a, wide ? FL_KT_I64 : e->type < FL_KT_I32 ? FL_KT_I32 : e->type,
                            (int64_t)((uint64_t)e->value.i + 1)) : NULL;
    if (!fl_front_take(p, ',')) break;
  }
  fl_front_need(p, '}');
  if (p->failed) return;
  if (!of) hold_enum(p, t, first);
  for (int64_t i = first; i < p->syms.n; i++)
    p->syms.at[i].v = fl_val_expr(fl_val_to(p, p->syms.at[i].v.e, t));
}

/* Gives the enumerators from symbol 'first' on to the type that is symbol 'own' (-1: none), as
** "Mode::A". */
static void list_enumerators(fl_front *p, int64_t own, int64_t first) {
  const int64_t n = p->syms.n - first;
  fl_symbol *inner = fl_karena_new(p->a, (size_t)(n + 1) * sizeof *inner);
  if (inner) memcpy(inner, p->syms.at + first, (size_t)n * sizeof *inner);
  p->enumerators = inner;
  p->n_enumerators = inner ? n : 0;
  if (own < 0) return;
  p->syms.at[own].inner = inner;
  p->syms.at[own].n_inner = p->n_enumerators;
}

/* Takes ": type" and returns that type. Without it: int for an enum class, else NULL. */
static const fl_ctype *given_type(fl_front *p, int scoped) {
  if (!fl_front_take(p, ':')) return scoped ? fl_ctype_scalar(FL_KT_I32) : NULL;
  const fl_ctype *t = fl_decl_specifiers(p).type;
  if (t && (t->kind != FL_C_SCALAR || !fl_kt_is_int(t->scalar)))
    fl_refuse(p, fl_front_tok(p)->line, "an enumeration of '%s'", fl_ctype_text(p->a, t));
  return t;
}

const fl_ctype *fl_decl_enum(fl_front *p) {
  int64_t own = -1;
  const int64_t mark = p->syms.n;
  const int scoped = fl_front_word(p, "class") || fl_front_word(p, "struct");
  const fl_ktok *named = fl_front_tok(p)->kind == FL_TOK_NAME ? fl_front_tok(p) : NULL;
  const fl_symbol *known = named ? fl_front_named(p, named) : NULL;
  const char *name = named ? fl_front_name(p) : FL_UNNAMED;
  const int is = known && known->kind == FL_SYM_TYPE && fl_ctype_is_enum(known->type);
  const fl_ctype *of = given_type(p, scoped);
  p->n_enumerators = 0;
  if (p->failed) return NULL;
  if (is && !fl_front_is(p, '{')) {
    p->enumerators = known->inner;
    p->n_enumerators = known->n_inner;
    return known->type;
  }
  /* an enumeration that is declared already, without enumerators, is defined now */
  fl_ctype *t = is && !known->n_inner && known - p->syms.at >= (p->f ? p->globals : 0)
                ? (fl_ctype *)(uintptr_t)known->type
                : fl_ctype_enum(p->a, name, of ? of : fl_ctype_scalar(FL_KT_I32));
  if (!t) return NULL;
  t->scoped = (uint8_t)scoped;
  if (named) {
    fl_symbol *s = fl_front_add(p, name, FL_SYM_TYPE);
    if (s) s->type = t;
    own = s ? s - p->syms.at : -1;
  }
  if (!fl_front_take(p, '{')) return t;
  read_enumerators(p, t, of);
  if (p->failed) return NULL;
  list_enumerators(p, own, own < 0 ? mark : own + 1);
  if (scoped && own >= 0) p->syms.n = mark + 1;
  return t;
}
