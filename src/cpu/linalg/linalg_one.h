/* One matrix of a call on matrices: by LAPACK, or by dense.c without it and for small ones. */
#ifndef FL_CPU_LINALG_ONE_H
#define FL_CPU_LINALG_ONE_H
#include "cpu/linalg/lapack.h"
#include "tensor/call_linalg.h"
#include <stdatomic.h>

typedef struct fl_linalg_one {
  const fl_linalg_form *f;
  int kind, is64;
  const fl_lapack *lib, *lib64;   /* for the dtype and for f64; NULL: dense.c is used */
  const atomic_int *stop;      /* polled between the library's calls; if set, results are invalid */
} fl_linalg_one;

/* Bytes of working memory that a call of this kind needs at most for one matrix. */
int64_t fl_linalg_space(int kind, const fl_linalg_form *f);
/* 0, or why the matrix has no result: FL_LINALG_… */
int fl_linalg_one_run(const fl_linalg_one *o, const void *const in[2], void *const out[3],
                      void *space);
#endif
