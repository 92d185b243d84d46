/*
** Prints a tree as CUDA C++ that NVRTC compiles without headers. Compiled with the options of the
** original source, the text does the same operations in the same order, except that additions to
** one element may be combined (text_near.h, ad_lanes.c).
*/
#ifndef FL_KERNEL_TEXT_H
#define FL_KERNEL_TEXT_H
#include "kernel/tree/tree.h"

/* Writes what all generated kernels of one text need once, before the first (conversions of halves,
** sums over a block). */
void fl_ktext_prelude(fl_text *t);
void fl_ktext_warp(fl_text *t);       /* writes the functions for sums and loops of ad_lanes.c */
void fl_ktext_grid(fl_text *t);       /* writes the barrier of a grid, for kernels that use it */
/* Writes the functions for sums that do not depend on their order; fl_ktext_as calls it for a form
** with a slot. */
void fl_ktext_ordered(fl_text *t);
/* One kernel: extern "C" __global__ void f->name(parameters as in f->params). */
void fl_ktext_kernel(fl_text *t, const fl_kfunc *f);
/* Finds the pointer parameters that receive sums which must not depend on the order of the threads,
** and numbers them: slot[p] is 1 + the number of p's sum, 0 for none; sole[p]: the kernel neither
** reads p nor writes it otherwise (n_params entries each). Returns how many there are. */
int fl_ktext_sums(const fl_kfunc *f, uint8_t *slot, uint8_t *sole);
enum { FL_KTEXT_PARTS = 128 };          /* most parameters in fl_kbatch (kernel/function.h) */
/* How a kernel is printed. slot: as found by fl_ktext_sums; these sums are exact (the same in any
** order), and the kernel has two more parameters: int fl_pass, const fl_fixed *fl_fix (one for each
** sum); NULL: sums depend on the order. batch: the kernel's last parameter is an fl_kbatch
** (kernel/function.h), and one launch does all launches of a batch. stops: text_stop.h; the
** parameters are after those of the sums. bounded: it has __launch_bounds__(1024). file, line:
** where the source begins; before each statement a #line tells where it is (file NULL: there is no
** #line). */
typedef struct fl_ktext_form {
  const uint8_t *slot;
  uint8_t batch, stops, bounded;
  const char *file;
  int line;
} fl_ktext_form;
void fl_ktext_as(fl_text *t, const fl_kfunc *f, const fl_ktext_form *form);
/* Writes a #line directive. */
void fl_ktext_line(fl_text *t, const char *file, int line);
/* fl_ktext_kernel in a form that front/ can read again: sums that lanes make together are calls of
** fl_warp_add; with 'exact', exact sums are calls of fl_ordered_add and fl_ordered_block_add. */
void fl_ktext_saved(fl_text *t, const fl_kfunc *f, int exact);
void fl_ktext_expr(fl_text *t, const fl_kfunc *f, const fl_kexpr *x);    /* writes x alone */
#endif
