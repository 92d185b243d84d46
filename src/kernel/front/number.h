/* Which C type a number has, where several have the numbers of one fl_ktype (fl_ctype.other). */
#ifndef FL_KERNEL_NUMBER_H
#define FL_KERNEL_NUMBER_H
#include "kernel/front/front.h"

/* e with the name of type t, if its numbers are those of t: e, or a copy of it. */
fl_kexpr *fl_val_as(fl_front *p, fl_kexpr *e, const fl_ctype *t);
fl_kexpr *fl_val_to(fl_front *p, fl_kexpr *e, const fl_ctype *t);    /* e converted to number t */
const fl_ctype *fl_val_type(const fl_kexpr *e);
fl_kexpr *fl_val_size(fl_front *p, int64_t n);                       /* a size_t */
/* e, which is computed from x and y (NULL: from x alone), with the type that C gives it */
fl_kexpr *fl_val_mixed(fl_front *p, fl_kexpr *e, const fl_kexpr *x, const fl_kexpr *y);
/* e, which is x or y converted to one type */
fl_kexpr *fl_val_either(fl_front *p, fl_kexpr *e, const fl_kexpr *x, const fl_kexpr *y);

/* ---- enum.c ---- */

const fl_ctype *fl_decl_enum(fl_front *p);                   /* behind 'enum'; NULL: refused */
#endif
