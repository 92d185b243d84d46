/*
** A kernel with its checks: the text calls the functions of kernels/check.cu for each access,
** barrier, shuffle, vote and iteration of a loop. The fields of fl_kcheck tell what the launcher
** must give such a kernel.
*/
#ifndef FL_KERNEL_TEXT_CHECK_H
#define FL_KERNEL_TEXT_CHECK_H
#include "kernel/text/text_write.h"

typedef struct fl_kcheck {
  unsigned checks;           /* FL_LANE_* */
  int n_vars, n_arrays;      /* number of variables; of arrays in global memory */
  int32_t *array;            /* by variable: index of its array in fl_check.array; -1: none */
  int32_t *cell;             /* by variable: SHARED: its first cell (record of accesses) */
  uint8_t *tracked;          /* by variable: flags in the text tell whether it, or each of its
                             ** elements, has a value */
  int grain;                 /* bytes of shared memory per cell; 0: there are no cells */
  int64_t cells;             /* number of cells of static arrays; those of dynamic arrays follow */
  uint8_t *guess;            /* by site: is the load only a guess? (facts/guess.h) */
  int n_sites;               /* accesses of the function (fl_kfunc.n_sites) */
  uint8_t waits, fences;     /* the kernel has barriers, shuffles or votes; it has __threadfence */
  int sites;                 /* shuffles, votes and barriers of warps written so far; each call in
                             ** the text is told its number */
} fl_kcheck;

/* 0: no memory. */
int fl_kcheck_open(fl_kcheck *c, fl_mem *m, const fl_kfunc *f, unsigned checks);
void fl_kcheck_close(fl_kcheck *c, fl_mem *m);
/* Writes the checked kernel (the prelude and kernels/check.cu come before it). It has one more
** parameter: const fl_check *fl_c. */
void fl_ktext_checked(fl_text *t, const fl_kfunc *f, unsigned checks);

/* ---- for text*.c: with w->check; each writes the checked form of a construct ---- */
void fl_kcheck_load(fl_kwriter *w, const fl_kexpr *x);
void fl_kcheck_var(fl_kwriter *w, const fl_kexpr *x);
void fl_kcheck_divisor(fl_kwriter *w, const fl_kexpr *x, const fl_kexpr *divisor);
/* Writes the call that checks a store and does it; 'value' writes the stored value. */
void fl_kcheck_store(fl_kwriter *w, const fl_kstmt *s,
                     void (*value)(fl_kwriter *w, const fl_kstmt *s));
/* Writes the check that precedes the atomic operation, which uses the index fl_i. */
void fl_kcheck_atomic(fl_kwriter *w, const fl_kstmt *s);
void fl_kcheck_warp(fl_kwriter *w, const fl_kstmt *s);
void fl_kcheck_barrier(fl_kwriter *w, const fl_kstmt *s);
void fl_kcheck_assertion(fl_kwriter *w, const fl_kstmt *s);
/* Of the flags of a variable that is tracked (for another one they write nothing). fl_kcheck_flag:
** their declaration; fl_kcheck_begin: at the variable's DECL, that it has no value;
** fl_kcheck_given: after an ASSIGN, or for the result of a statement (var -1: it has none), "; v__s
** = true". */
void fl_kcheck_flag(fl_kwriter *w, int var);
void fl_kcheck_begin(fl_kwriter *w, int var);
void fl_kcheck_given(fl_kwriter *w, int var);
#endif
