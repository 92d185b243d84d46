/*
** Sizes of calls on matrices (call_linalg.h). The first parameters of every kind are the number
** of matrices and whether it is a batch; then come sizes and flags as calls.def names them.
** All inputs and the result have one dtype, f32 or f64.
*/
#include "tensor/call_linalg.h"
#include "base/num.h"
#include <limits.h>
#include <stdio.h>

static int ins(fl_linalg_form *f, int64_t first, int64_t second) {
  f->in[0] = first;
  f->in[1] = second;
  f->nin = second < 0 ? 1 : 2;
  return 1;
}

static int outs(fl_linalg_form *f, int64_t a, int64_t b, int64_t c) {
  f->out[0] = a;
  f->out[1] = b;
  f->out[2] = c;
  f->nout = b < 0 ? 1 : c < 0 ? 2 : 3;
  return 1;
}

/* Reads the size of a kind whose matrices are n x n; 0 if it is out of range. */
static int square(const int64_t *p, fl_linalg_form *f) {
  f->m = f->n = p[2];
  return f->n >= 0 && f->n < INT_MAX / 8;
}

static int two_sizes(const int64_t *p, fl_linalg_form *f) {
  f->m = p[2];
  f->n = p[3];
  return f->m >= 0 && f->n >= 0 && f->m < INT_MAX / 8 && f->n < INT_MAX / 8;
}

static int with_k(const int64_t *p, fl_linalg_form *f) {
  f->k = p[3];
  return square(p, f) && f->k >= 0 && f->k < INT_MAX / 8;
}

static int flag(int64_t v) { return v == 0 || v == 1; }

static int qr_form(const int64_t *p, fl_linalg_form *f) {
  if (!two_sizes(p, f) || !flag(p[4]) || !flag(p[5])) return 0;
  f->a = (int)p[4];
  f->b = (int)p[5];
  f->k = f->a ? f->m : fl_min(f->m, f->n);
  return ins(f, f->m * f->n, -1) && outs(f, f->b ? f->m * f->k : 0, f->k * f->n, -1);
}

static int svd_form(const int64_t *p, fl_linalg_form *f) {
  if (!two_sizes(p, f) || !flag(p[4]) || !flag(p[5])) return 0;
  const int64_t k = f->k = fl_min(f->m, f->n);
  f->a = (int)p[4];
  f->b = (int)p[5];
  return ins(f, f->m * f->n, -1) &&
         outs(f, f->b ? f->m * (f->a ? f->m : k) : 0, k, f->b ? f->n * (f->a ? f->n : k) : 0);
}

static int eigh_form(const int64_t *p, fl_linalg_form *f) {
  if (!square(p, f) || !flag(p[3]) || !flag(p[4])) return 0;
  f->a = (int)p[3];
  f->b = (int)p[4];
  return ins(f, f->n * f->n, -1) && outs(f, f->n, f->b ? f->n * f->n : 0, -1);
}

int fl_linalg_form_of(const fl_call *call, fl_linalg_form *f) {
  const int64_t *p = call->p;
  *f = (fl_linalg_form){ .batch = p[0], .batched = p[1] != 0 };
  if (p[0] < 0 || !flag(p[1])) return 0;
  switch (call->kind) {
    case FL_CALL_inverse: case FL_CALL_cholesky:
      if (!square(p, f) || !flag(p[3])) return 0;
      f->a = (int)p[3];
      return ins(f, f->n * f->n, -1) && outs(f, f->n * f->n, -1, -1);
    case FL_CALL_matrix_exp: case FL_CALL_cofactor:
      return square(p, f) && ins(f, f->n * f->n, -1) && outs(f, f->n * f->n, -1, -1);
    case FL_CALL_cofactor_grad:
      return square(p, f) && ins(f, f->n * f->n, f->n * f->n) && outs(f, f->n * f->n, -1, -1);
    case FL_CALL_determinant: return square(p, f) && ins(f, f->n * f->n, -1) && outs(f, 1, 1, 1);
    case FL_CALL_solve:
      return with_k(p, f) && ins(f, f->n * f->n, f->n * f->k) && outs(f, f->n * f->k, -1, -1);
    case FL_CALL_triangular:
      if (!with_k(p, f) || !flag(p[4]) || !flag(p[5])) return 0;
      f->a = (int)p[4];
      f->b = (int)p[5];
      return ins(f, f->n * f->n, f->n * f->k) && outs(f, f->n * f->k, -1, -1);
    case FL_CALL_lu:
      return two_sizes(p, f) && ins(f, f->m * f->n, -1) && outs(f, f->m * f->n, f->m, -1);
    case FL_CALL_qr: return qr_form(p, f);
    case FL_CALL_svd: return svd_form(p, f);
    case FL_CALL_eigh: return eigh_form(p, f);
    default: return 0;
  }
}

static int fits(const fl_call *k) {
  fl_linalg_form f;
  int64_t all = 0;
  if ((k->dtype != FLAME_F32 && k->dtype != FLAME_F64) || !fl_linalg_form_of(k, &f) ||
      k->nin != f.nin)
    return 0;
  for (int i = 0; i < f.nin; i++)
    if (k->in_dtype[i] != k->dtype ||
        k->in_numel[i] != fl_call_product(2, (int64_t[]){ f.batch, f.in[i] }))
      return 0;
  for (int i = 0; i < f.nout; i++) {
    const int64_t n = fl_call_product(2, (int64_t[]){ f.batch, f.out[i] });
    if (n < 0 || __builtin_add_overflow(all, n, &all)) return 0;
  }
  return k->numel == all;
}

int fl_call_fits_inverse(const fl_call *k) { return fits(k); }
int fl_call_fits_solve(const fl_call *k) { return fits(k); }
int fl_call_fits_triangular(const fl_call *k) { return fits(k); }
int fl_call_fits_determinant(const fl_call *k) { return fits(k); }
int fl_call_fits_cofactor(const fl_call *k) { return fits(k); }
int fl_call_fits_cofactor_grad(const fl_call *k) { return fits(k); }
int fl_call_fits_cholesky(const fl_call *k) { return fits(k); }
int fl_call_fits_lu(const fl_call *k) { return fits(k); }
int fl_call_fits_qr(const fl_call *k) { return fits(k); }
int fl_call_fits_svd(const fl_call *k) { return fits(k); }
int fl_call_fits_eigh(const fl_call *k) { return fits(k); }
int fl_call_fits_matrix_exp(const fl_call *k) { return fits(k); }

void fl_linalg_fault(const fl_linalg_form *f, int64_t at, int why, char *fault) {
  char who[64];
  if (f->batched) snprintf(who, sizeof who, "matrix %lld of the batch", (long long)at + 1);
  else snprintf(who, sizeof who, "the matrix");
  if (why == FL_LINALG_NOT_FINITE) snprintf(fault, FL_CALL_FAULT, "%s holds NaN or Inf", who);
  else if (why == FL_LINALG_NO_CONVERGENCE)
    snprintf(fault, FL_CALL_FAULT, "the iteration for %s did not converge", who);
  else
    snprintf(fault, FL_CALL_FAULT, "%s is %s", who,
             why == FL_LINALG_SINGULAR ? "singular" : "not positive definite");
}
