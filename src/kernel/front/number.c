/*
** The C types of numbers while the source is read. The tree has one type for long and long long,
** for char and signed char, and for an enumeration and its integers; templates and overloads tell
** them apart (fl_ctype.other, fl_kexpr.as).
*/
#include "kernel/front/number.h"

fl_kexpr *fl_val_as(fl_front *p, fl_kexpr *e, const fl_ctype *t) {
  const fl_ctype *now = e ? e->as : NULL;
  if (!e || t->kind != FL_C_SCALAR || e->type != t->scalar || (now ? now->other : NULL) == t->other)
    return e;
  fl_kexpr *own = fl_karena_new(p->a, sizeof *own);
  if (!own) return NULL;
  *own = *e;
  own->as = t->other ? fl_ctype_plain(p->a, t) : NULL;
  return own;
}

fl_kexpr *fl_val_to(fl_front *p, fl_kexpr *e, const fl_ctype *t) {
  return fl_val_as(p, fl_val_convert(p, e, t->scalar), t);
}

const fl_ctype *fl_val_type(const fl_kexpr *e) { return e->as ? e->as : fl_ctype_scalar(e->type); }

fl_kexpr *fl_val_size(fl_front *p, int64_t n) {
  return fl_val_as(p, fl_kexpr_int(p->a, FL_KT_U64, n), fl_ctype_long(1));
}

/* Is operand e a long (1) or a long long (0), unsigned or not? -1: it is neither. */
static int is_long(const fl_kexpr *e) {
  const fl_ctype *t = fl_val_type(e);
  if (fl_ctype_is_enum(t)) t = t->of;
  if (e->type != FL_KT_I64 && e->type != FL_KT_U64) return -1;
  return fl_ctype_is_long(t);
}

fl_kexpr *fl_val_mixed(fl_front *p, fl_kexpr *e, const fl_kexpr *x, const fl_kexpr *y) {
  if (!e || !x) return e;
  const int wide = e->type == FL_KT_I64 || e->type == FL_KT_U64,
            a = is_long(x), b = y ? is_long(y) : -1;
  return fl_val_as(p, e, wide && a && b && (a > 0 || b > 0) ? fl_ctype_long(e->type == FL_KT_U64)
                                                            : fl_ctype_scalar(e->type));
}

fl_kexpr *fl_val_either(fl_front *p, fl_kexpr *e, const fl_kexpr *x, const fl_kexpr *y) {
  const fl_ctype *t = x ? fl_val_type(x) : NULL;
  if (t && y && fl_ctype_like(t, fl_val_type(y))) return fl_val_as(p, e, t);
  return fl_val_mixed(p, e, x, y);
}
