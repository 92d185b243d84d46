/*
** A kernel with its checks: the text calls the functions of kernels/check.cu for each access,
** barrier, shuffle and round of a loop. What the launcher must give such a kernel.
*/
#ifndef FL_KERNEL_TEXT_CHECK_H
#define FL_KERNEL_TEXT_CHECK_H
#include "kernel/text/text_write.h"

typedef struct fl_kcheck {
  unsigned checks;           /* FL_LANE_* */
  int n_vars, n_arrays;      /* arrays in global memory … */
  int32_t *array;            /* … by variable: their number in fl_check.array; else -1 */
  int32_t *cell;             /* by variable: SHARED: the first cell of the array in the block's */
  uint8_t *tracked;          /* by variable: a flag beside it says whether it has a value */
  int grain;                 /* bytes of shared memory that one cell stands for; 0: there is none */
  int64_t cells;             /* for the static arrays; the dynamic ones begin there */
  uint8_t *guess;            /* by site: facts/guess.h */
  int n_sites;
  uint8_t waits, fences;     /* barriers, shuffles or votes; __threadfence */
  int sites;                 /* numbered so far */
} fl_kcheck;

/* 0: no memory. */
int fl_kcheck_open(fl_kcheck *c, fl_mem *m, const fl_kfunc *f, unsigned checks);
void fl_kcheck_close(fl_kcheck *c, fl_mem *m);
/* As fl_ktext_kernel, behind the prelude and kernels/check.cu; one parameter more:
** const fl_check *fl_c. */
void fl_ktext_checked(fl_text *t, const fl_kfunc *f, unsigned checks);
/* The n-th ASSERT's text (what FL_LANE_ASSERT has as variable); NULL: there is none. */
const char *fl_kcheck_assert(const fl_kfunc *f, int n);

/* ---- for text*.c: with w->check ---- */
void fl_kcheck_load(fl_kwriter *w, const fl_kexpr *x);
void fl_kcheck_var(fl_kwriter *w, const fl_kexpr *x);
void fl_kcheck_divisor(fl_kwriter *w, const fl_kexpr *x, const fl_kexpr *divisor);
/* The element's place and "(…)": 'value' is called for what is stored. */
void fl_kcheck_store(fl_kwriter *w, const fl_kstmt *s,
                     void (*value)(fl_kwriter *w, const fl_kstmt *s));
/* Up to the operation itself, which has the index fl_i. */
void fl_kcheck_atomic(fl_kwriter *w, const fl_kstmt *s);
void fl_kcheck_warp(fl_kwriter *w, const fl_kstmt *s);
void fl_kcheck_barrier(fl_kwriter *w, const fl_kstmt *s);
void fl_kcheck_assertion(fl_kwriter *w, const fl_kstmt *s);
void fl_kcheck_flag(fl_kwriter *w, int var);          /* declares it */
void fl_kcheck_begin(fl_kwriter *w, int var);         /* DECL: no value */
void fl_kcheck_given(fl_kwriter *w, int var);         /* ASSIGN and others: "; v__s = true" */
#endif
