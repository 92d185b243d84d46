/*
** Dynamic shared memory that a kernel sees as several types, each in a part of it:
**   extern __shared__ char raw[];  float *a = (float *)raw;  int *at = (int *)(a + n);
** Where the parts begin and end is in no declaration. So for each launch of which a derivative is
** asked it is proven, with the numbers of that launch, that no byte is accessed as two types. Then
** views of two types (fl_kvar.dynamic) are different arrays; views of one type are one array, whose
** parts are told apart by their indices, as those of any array.
*/
#ifndef FL_KERNEL_VIEWS_H
#define FL_KERNEL_VIEWS_H
#include "kernel/facts/cover.h"

/* An access as elements of 'type', of bytes first to last. These are outside of the memory where no
** better bounds are known. */
typedef struct fl_kviewed { int64_t first, last; int32_t line; uint8_t type; } fl_kviewed;

/* Is no byte of dynamic shared memory accessed as two types in the launch?
** (Shadows, fl_kvar.dynamic 2, have bytes where nothing else is.)
** 1: it is proven. 0: it is not, because of two accesses, which are stored in met. -1: memory is
** out. */
int fl_kviews_apart(fl_mem *m, const fl_kfunc *f, const fl_kcover_launch *l, fl_kviewed met[2]);
#endif
