/*
** Sums into neighbours: the adjoint of a stencil adds to p[i - 1], p[i], p[i + 1] in each thread.
** These are three atomics, although neighbouring lanes hold parts of the same sums. The CUDA text
** keeps such sums in registers and combines them in the warp at the kernel's end.
*/
#ifndef FL_KERNEL_TEXT_NEAR_H
#define FL_KERNEL_TEXT_NEAR_H
#include "kernel/tree/tree.h"

typedef struct fl_knear fl_knear;
/* NULL: there is nothing to combine (or no memory: then all sums stay atomics). Borrows f. */
fl_knear *fl_knear_new(fl_mem *m, const fl_kfunc *f);
void fl_knear_free(fl_knear *k);
/* Write the text that goes before the kernel, after its declarations, after its last statement. */
void fl_knear_prelude(fl_text *t);
void fl_knear_begin(const fl_knear *k, fl_text *t);
void fl_knear_end(const fl_knear *k, fl_text *t);
/* Writes the ATOMIC s, without ';', and returns 1 if it is one of the combined sums; 0: it is not,
** or k is NULL. */
int fl_knear_put(const fl_knear *k, fl_text *t, const fl_kstmt *s);
#endif
