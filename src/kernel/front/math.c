/*
** Calls of the functions of builtins.def by their C names: the overload, and so the type, is chosen
** as NVRTC does. Floats stay float for the overloaded names (sin(x) of a float is the float
** function); if all operands are integers, the result is double, or, for min, max, abs and similar
** functions, an integer; a half is computed in f32 and rounded.
*/
#include "kernel/front/number.h"
#include <string.h>

typedef struct named { const char *name; uint16_t id; uint8_t type; } named;

/* Names in addition to name32 and name64 of fl_kbuiltins; type VOID: overloaded. */
static const named aliases[] = {
#define ALIAS(name, id, type) { name, FL_KB_##id, FL_KT_##type },
#include "kernel/tree/builtins.def"
};

/* The builtin that t names. *type: the type that the name determines (VOID: overloaded). -1: no
** such function. */
static int find(const fl_ktok *t, int *type) {
  for (int i = 0; i < FL_KB_COUNT; i++) {
    const fl_kbuiltin_info *b = &fl_kbuiltins[i];
    *type = FL_KT_VOID;
    if (*b->name64 && fl_ktok_is(t, b->name64)) {
      if (b->name64[0] == '_' && b->rule == FL_KBR_FLOAT)
        *type = FL_KT_F64; /* as in __dadd_rn */
      return i;
    }
    if (*b->name32 && fl_ktok_is(t, b->name32)) return *type = FL_KT_F32, i;
  }
  for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
    if (fl_ktok_is(t, aliases[i].name)) return *type = aliases[i].type, aliases[i].id;
  return -1;
}

static int special(const fl_ktok *t) {
  static const char *const names[] = { "__builtin_huge_valf", "__builtin_nanf" };
  return fl_ktok_among(t, names, 2) + 1;
}

int fl_math_known(const fl_ktok *name) {
  int type;
  return find(name, &type) >= 0 || special(name);
}

/* The builtin for floats that the integer builtin 'id' becomes: min, max and abs of floats are
** fmin, fmax and fabs. -1: there is none. */
static int for_floats(int id) {
  return id == FL_KB_IMIN   ? FL_KB_FMIN
         : id == FL_KB_IMAX ? FL_KB_FMAX
         : id == FL_KB_IABS ? FL_KB_FABS
                            : -1;
}

static int common_type(fl_kexpr *const *x, int n) {
  int type = fl_promote_type(x[0]->type);
  for (int i = 1; i < n; i++) type = fl_arith_type(type, x[i]->type);
  return type;
}

/* The float type that an overloaded call computes in: NVRTC has only f(float, …) and f(double, …),
** so a float with integers stays float. */
static int float_type(fl_kexpr *const *x, int n) {
  int any = 0;
  for (int i = 0; i < n; i++) {
    if (x[i]->type == FL_KT_F64) return FL_KT_F64;
    any |= fl_kt_is_float(x[i]->type);
  }
  return any ? FL_KT_F32 : FL_KT_F64;
}

static fl_cvalue build(fl_front *p, int id, int type, fl_kexpr *const *x, int n,
                      int32_t line) {
  const fl_kbuiltin_info *b = &fl_kbuiltins[id];
  fl_kexpr *y[FL_K_MAX_ARGS];
  int result = type;
  for (int i = 0; i < n; i++) {
    const int want = b->rule == FL_KBR_BITS ? b->arg : b->rule == FL_KBR_FLOATI && i
                     ? FL_KT_I32 : type;
    y[i] = fl_val_convert(p, x[i], want);
  }
  if (b->rule == FL_KBR_TEST) result = FL_KT_BOOL;
  if (b->rule == FL_KBR_BITS) result = b->result;
  fl_kexpr *real = b->rule == FL_KBR_BITS && fl_kt_is_float(result) && fl_kt_size(b->arg) ==
                   fl_kt_size(result) ? fl_view_real(p, y[0], result) : NULL;
  fl_kexpr *e = p->failed ? NULL : real ? real : fl_kexpr_call(p->a, id, result, n, y);
  if (e) e->line = line;
  return fl_val_expr(fl_front_check(p, e));
}

static int all_half(fl_kexpr *const *x, int n) {
  for (int i = 0; i < n; i++)
    if (x[i]->type != x[0]->type) return 0;
  return n > 0 && fl_kt_is_half(x[0]->type);
}

fl_cvalue fl_call_math(fl_front *p, const fl_ktok *name, fl_kexpr *const *x, int n) {
  int type;
  const int which = special(name);
  if (which == 1) return fl_val_expr(fl_kexpr_float(p->a, FL_KT_F32, __builtin_inf()));
  if (which == 2) return fl_val_expr(fl_kexpr_float(p->a, FL_KT_F32, __builtin_nan("")));
  int id = find(name, &type);
  if (id < 0) return fl_val_none();
  if (n != fl_kbuiltins[id].n) return fl_refuse_count(p, name, fl_kbuiltins[id].n, n);
  for (int i = 0; i < n; i++)
    if (!x[i]) return fl_val_none();
  const int rule = fl_kbuiltins[id].rule;
  const int half = type == FL_KT_VOID && all_half(x, n) ? x[0]->type : 0;
  if (rule == FL_KBR_INT) {
    if (type == FL_KT_VOID) type = common_type(x, n);
    if (fl_kt_is_float(type)) {
      id = for_floats(id);
      if (type != FL_KT_F64) type = FL_KT_F32;
    }
  } else if (p->bare && type == FL_KT_VOID) {
    type = p->bare;                            /* flame.map: the type of the result */
  } else if (type == FL_KT_VOID) {
    type = rule == FL_KBR_FLOATI ? float_type(x, 1) : float_type(x, n);
  }
  fl_cvalue v = build(p, id, type, x, n, name->line);
  if (v.e && rule == FL_KBR_INT && (name->text[0] != 'l' || fl_ktok_is(name, "labs")) &&
      name->text[0] != 'u')                                 /* llmin and so on are of long long */
    v = fl_val_expr(fl_val_mixed(p, v.e, x[0], n > 1 ? x[1] : NULL));
  if (half && v.kind == FL_V_EXPR && v.e && v.e->type != FL_KT_BOOL)
    v = fl_val_expr(fl_val_convert(p, v.e, half));
  return v;
}
