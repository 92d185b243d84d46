/* Which C type a number has, where several C types are one fl_ktype (fl_ctype.other). */
#ifndef FL_KERNEL_NUMBER_H
#define FL_KERNEL_NUMBER_H
#include "kernel/front/front.h"

/* e as a number of C type t, if that is the same fl_ktype: a copy of e with another 'as'; e itself
** if nothing changes, or t is another fl_ktype. */
fl_kexpr *fl_val_as(fl_front *p, fl_kexpr *e, const fl_ctype *t);
fl_kexpr *fl_val_to(fl_front *p, fl_kexpr *e, const fl_ctype *t);    /* e converted to type t */
const fl_ctype *fl_val_type(const fl_kexpr *e);
fl_kexpr *fl_val_size(fl_front *p, int64_t n);                       /* n as a size_t */
/* e, which is computed from x and y (NULL: from x alone), with the type that C gives it */
fl_kexpr *fl_val_mixed(fl_front *p, fl_kexpr *e, const fl_kexpr *x, const fl_kexpr *y);
/* e, which is x or y converted to one type */
fl_kexpr *fl_val_either(fl_front *p, fl_kexpr *e, const fl_kexpr *x, const fl_kexpr *y);

/* ---- enum.c ---- */

const fl_ctype *fl_decl_enum(fl_front *p);                   /* after 'enum'; NULL: refused */
#endif
