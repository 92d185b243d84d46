/*
** cuFFT, cuSOLVER and cuBLAS of the fake driver (fake_driver.h), included by fake_driver.c.
** Fourier transforms are computed by their definition. Factorisations are not: a call fills its
** workspace and its matrices with a fixed byte, so that a sanitizer detects a buffer that is too
** small, and reports success. Arrays of addresses for batched calls are not read, since the kernels
** that would write them do not run.
*/
#include "cuda/api/cufft_api.h"
#include "cuda/api/cusolver_api.h"
#include <math.h>

/* ---- cuFFT ---- */

enum { FAKE_PLANS = 512, FAKE_SPACE = 512 };
typedef struct fake_plan {
  int made, ready;
  long long across, n, in_step, in_next, out_step, out_next, batch;
  fl_cufft_type type;
  void *area;
} fake_plan;
static fake_plan fake_plans[FAKE_PLANS];

static fl_cufft_status fake_cufftGetVersion(int *v) { *v = 12000; return FL_CUFFT_OK; }
static fl_cufft_status fake_cufftCreate(int *plan) {
  for (int i = 0; i < FAKE_PLANS; i++)
    if (!fake_plans[i].made) {
      fake_plans[i] = (fake_plan){ .made = 1 };
      *plan = i;
      fake.plans++;
      return FL_CUFFT_OK;
    }
  return FL_CUFFT_ALLOC_FAILED;
}
static fl_cufft_status fake_cufftDestroy(int plan) {
  if (!fake_plans[plan].made) return 1;
  fake_plans[plan].made = 0;
  fake.plans--;
  return FL_CUFFT_OK;
}
static fl_cufft_status fake_cufftSetStream(int plan, fl_cufft_stream s) {
  (void)plan;
  (void)s;
  return FL_CUFFT_OK;
}
static fl_cufft_status fake_cufftSetAutoAllocation(int plan, int yes) {
  (void)plan;
  return yes ? 4 : FL_CUFFT_OK;
}
static fl_cufft_status fake_cufftSetWorkArea(int plan, void *area) {
  fake_plans[plan].area = area;
  return FL_CUFFT_OK;
}
static fl_cufft_status fake_cufftMakePlanMany64(int plan, int rank, long long *n, long long *in,
                                                long long in_step, long long in_next,
                                                long long *out, long long out_step,
                                                long long out_next, fl_cufft_type type,
                                                long long batch, size_t *bytes) {
  (void)in; (void)out;
  if (rank < 1 || rank > 2 || n[0] < 1 || n[rank - 1] < 1 || batch < 1) return 8;
  if (rank == 2 &&
      (in_step != 1 || out_step != 1 || (type != FL_CUFFT_C2C && type != FL_CUFFT_Z2Z)))
    return 0x10;
  fake_plans[plan] = (fake_plan){ 1, 1, rank == 2 ? n[0] : 1, n[rank - 1], in_step, in_next,
                                  out_step, out_next, batch, type, NULL };
  *bytes = FAKE_SPACE;
  return FL_CUFFT_OK;
}

static double fake_real(const void *x, int wide, long long i) {
  return wide ? ((const double *)x)[i] : ((const float *)x)[i];
}
static void fake_put(void *x, int wide, long long i, double v) {
  if (wide) ((double *)x)[i] = v;
  else ((float *)x)[i] = (float)v;
}

/* The two-dimensional transform of row-major complex numbers ('wide': of doubles). */
static void fake_transform_two(const fake_plan *p, const void *x, void *y, int sign, int wide) {
  for (long long t = 0; t < p->batch; t++)
    for (long long k = 0; k < p->across * p->n; k++) {
      double re = 0, im = 0;
      for (long long j = 0; j < p->across * p->n; j++) {
        const long long at = t * p->in_next + j;
        const double a = fake_real(x, wide, 2 * at), b = fake_real(x, wide, 2 * at + 1);
        const double turns = (double)(k / p->n * (j / p->n) % p->across) / (double)p->across +
                             (double)(k % p->n * (j % p->n) % p->n) / (double)p->n;
        const double w = sign * 2 * 3.14159265358979323846 * turns;
        re += a * cos(w) - b * sin(w);
        im += a * sin(w) + b * cos(w);
      }
      fake_put(y, wide, 2 * (t * p->out_next + k), re);
      fake_put(y, wide, 2 * (t * p->out_next + k) + 1, im);
    }
}

/* A transform of real or complex numbers with the sign -1 or 1 in its exponent. real_in, real_out:
** input or result is real, one number per element instead of two; wide: numbers are doubles. */
static fl_cufft_status fake_transform(int plan, const void *x, void *y, int sign, int real_in,
                                      int real_out, int wide) {
  const fake_plan *p = &fake_plans[plan];
  if (!p->ready || !p->area || (uintptr_t)x % (wide ? 16 : 8)) return 6;
  memset(p->area, 0x5a, FAKE_SPACE);
  const long long last = real_out || !real_in ? p->n : p->n / 2 + 1;
  fake.transforms++;
  if (p->across > 1) {
    fake_transform_two(p, x, y, sign, wide);
    return FL_CUFFT_OK;
  }
  for (long long t = 0; t < p->batch; t++)
    for (long long k = 0; k < last; k++) {
      double re = 0, im = 0;
      for (long long j = 0; j < p->n; j++) {
        const long long half = real_out && 2 * j > p->n ? p->n - j : j,
                        at = t * p->in_next + half * p->in_step;
        const double a = fake_real(x, wide, real_in ? at : 2 * at);
        const double b = real_in ? 0 : fake_real(x, wide, 2 * at + 1) * (half != j ? -1 : 1);
        const double w = sign * 2 * 3.14159265358979323846 * (double)(j * k % p->n) / (double)p->n;
        re += a * cos(w) - b * sin(w);
        im += a * sin(w) + b * cos(w);
      }
      const long long to = t * p->out_next + k * p->out_step;
      fake_put(y, wide, real_out ? to : 2 * to, re);
      if (!real_out) fake_put(y, wide, 2 * to + 1, im);
    }
  return FL_CUFFT_OK;
}
static fl_cufft_status fake_cufftExecC2C(int p, void *x, void *y, int sign) {
  return fake_transform(p, x, y, sign, 0, 0, 0);
}
static fl_cufft_status fake_cufftExecR2C(int p, void *x, void *y) {
  return fake_transform(p, x, y, -1, 1, 0, 0);
}
static fl_cufft_status fake_cufftExecC2R(int p, void *x, void *y) {
  return fake_transform(p, x, y, 1, 0, 1, 0);
}
static fl_cufft_status fake_cufftExecZ2Z(int p, void *x, void *y, int sign) {
  return fake_transform(p, x, y, sign, 0, 0, 1);
}
static fl_cufft_status fake_cufftExecD2Z(int p, void *x, void *y) {
  return fake_transform(p, x, y, -1, 1, 0, 1);
}
static fl_cufft_status fake_cufftExecZ2D(int p, void *x, void *y) {
  return fake_transform(p, x, y, 1, 0, 1, 1);
}

/* ---- cuSOLVER ---- */

static size_t fake_width(fl_sol_type t) { return t == FL_SOL_R_64F ? 8 : 4; }

/* 1 if a call is to fail: one that is made while a stream is captured, which cuSOLVER does not
** support, and the call after it. */
static int fake_failed;
static int fake_fails(void) {
  const int captured = fake_capturing != NULL, before = fake_failed;
  fake_failed = captured;
  return captured || before;
}
/* A call of the 64-bit interface (cusolverDnX…): fills the workspaces that it was given. */
static fl_sol_status fake_lent(void *device, size_t bytes, void *host, size_t host_bytes,
                               int *info) {
  if (bytes < FAKE_SPACE || host_bytes < 64 || !host) return 3;
  if (fake_fails()) return 6;
  memset(device, 0x5a, bytes);
  memset(host, 0x5a, host_bytes);
  *info = 0;
  return FL_SOL_OK;
}
static fl_sol_status fake_asked(size_t *device, size_t *host) {
  *device = FAKE_SPACE;
  *host = 64;
  return FL_SOL_OK;
}
static void fake_matrix(void *a, size_t width, int64_t rows, int64_t columns) {
  memset(a, 0x3c, width * (size_t)rows * (size_t)columns);
}

static fl_sol_status fake_cusolverGetVersion(int *v) { *v = 12004; return FL_SOL_OK; }
static fl_sol_status fake_cusolverDnCreate(fl_sol_handle *h) {
  *h = fake_new(&fake.solver, 1);
  return FL_SOL_OK;
}
static fl_sol_status fake_cusolverDnDestroy(fl_sol_handle h) {
  fake_delete(&fake.solver, h);
  return FL_SOL_OK;
}
static fl_sol_status fake_cusolverDnSetStream(fl_sol_handle h, fl_sol_stream s) {
  (void)h;
  (void)s;
  return FL_SOL_OK;
}
static fl_sol_status fake_cusolverDnCreateParams(fl_sol_params *p) {
  *p = fake_new(&fake.solver, 1);
  return FL_SOL_OK;
}
static fl_sol_status fake_cusolverDnDestroyParams(fl_sol_params p) {
  fake_delete(&fake.solver, p);
  return FL_SOL_OK;
}
static fl_sol_status fake_cusolverDnCreateGesvdjInfo(fl_sol_jacobi *j) {
  *j = fake_new(&fake.solver, 1);
  return FL_SOL_OK;
}
static fl_sol_status fake_cusolverDnDestroyGesvdjInfo(fl_sol_jacobi j) {
  fake_delete(&fake.solver, j);
  return FL_SOL_OK;
}

#define FAKE(name, params, ...) static fl_sol_status fake_##name params { __VA_ARGS__ }
FAKE(cusolverDnXgetrf_bufferSize,
     (fl_sol_handle h, fl_sol_params p, int64_t m, int64_t n, fl_sol_type ta, const void *a,
      int64_t lda, fl_sol_type compute, size_t *device, size_t *host),
     (void)h; (void)p; (void)a; (void)lda; (void)m; (void)n;
     return ta == compute ? fake_asked(device, host) : 3;)
FAKE(cusolverDnXgetrf,
     (fl_sol_handle h, fl_sol_params p, int64_t m, int64_t n, fl_sol_type ta, void *a, int64_t lda,
      int64_t *pivot, fl_sol_type compute, void *device, size_t device_bytes, void *host,
      size_t host_bytes, int *info),
     (void)h; (void)p; (void)compute;
     if (lda < m) return 3;
     fake_matrix(a, fake_width(ta), m, n);
     for (int64_t i = 0; i < (m < n ? m : n); i++) pivot[i] = i + 1;
     return fake_lent(device, device_bytes, host, host_bytes, info);)
FAKE(cusolverDnXgetrs,
     (fl_sol_handle h, fl_sol_params p, fl_sol_op trans, int64_t n, int64_t k, fl_sol_type ta,
      const void *a, int64_t lda, const int64_t *pivot, fl_sol_type tb, void *b, int64_t ldb,
      int *info),
     (void)h; (void)p; (void)trans; (void)ta; (void)a; (void)pivot;
     if (lda < n || ldb < n) return 3;
     fake_matrix(b, fake_width(tb), n, k);
     *info = 0;
     return FL_SOL_OK;)
FAKE(cusolverDnXpotrf_bufferSize,
     (fl_sol_handle h, fl_sol_params p, fl_sol_fill fill, int64_t n, fl_sol_type ta, const void *a,
      int64_t lda, fl_sol_type compute, size_t *device, size_t *host),
     (void)h; (void)p; (void)a; (void)lda; (void)n; (void)fill;
     return ta == compute ? fake_asked(device, host) : 3;)
FAKE(cusolverDnXpotrf,
     (fl_sol_handle h, fl_sol_params p, fl_sol_fill fill, int64_t n, fl_sol_type ta, void *a,
      int64_t lda, fl_sol_type compute, void *device, size_t device_bytes, void *host,
      size_t host_bytes, int *info),
     (void)h; (void)p; (void)fill; (void)compute;
     if (lda < n) return 3;
     fake_matrix(a, fake_width(ta), n, n);
     return fake_lent(device, device_bytes, host, host_bytes, info);)
FAKE(cusolverDnXgeqrf_bufferSize,
     (fl_sol_handle h, fl_sol_params p, int64_t m, int64_t n, fl_sol_type ta, const void *a,
      int64_t lda, fl_sol_type tt, const void *tau, fl_sol_type compute, size_t *device,
      size_t *host),
     (void)h; (void)p; (void)a; (void)lda; (void)m; (void)n; (void)tt; (void)tau;
     return ta == compute ? fake_asked(device, host) : 3;)
FAKE(cusolverDnXgeqrf,
     (fl_sol_handle h, fl_sol_params p, int64_t m, int64_t n, fl_sol_type ta, void *a, int64_t lda,
      fl_sol_type tt, void *tau, fl_sol_type compute, void *device, size_t device_bytes, void *host,
      size_t host_bytes, int *info),
     (void)h; (void)p; (void)compute;
     if (lda < m) return 3;
     fake_matrix(a, fake_width(ta), m, n);
     fake_matrix(tau, fake_width(tt), m < n ? m : n, 1);
     return fake_lent(device, device_bytes, host, host_bytes, info);)
FAKE(cusolverDnXsyevd_bufferSize,
     (fl_sol_handle h, fl_sol_params p, fl_sol_mode mode, fl_sol_fill fill, int64_t n,
      fl_sol_type ta, const void *a, int64_t lda, fl_sol_type tw, const void *w,
      fl_sol_type compute, size_t *device, size_t *host),
     (void)h; (void)p; (void)mode; (void)fill; (void)n; (void)a; (void)lda; (void)tw; (void)w;
     return ta == compute ? fake_asked(device, host) : 3;)
FAKE(cusolverDnXsyevd,
     (fl_sol_handle h, fl_sol_params p, fl_sol_mode mode, fl_sol_fill fill, int64_t n,
      fl_sol_type ta, void *a, int64_t lda, fl_sol_type tw, void *w, fl_sol_type compute,
      void *device, size_t device_bytes, void *host, size_t host_bytes, int *info),
     (void)h; (void)p; (void)mode; (void)fill; (void)compute;
     if (lda < n) return 3;
     fake_matrix(a, fake_width(ta), n, n);
     fake_matrix(w, fake_width(tw), n, 1);
     return fake_lent(device, device_bytes, host, host_bytes, info);)
FAKE(cusolverDnXsyevBatched_bufferSize,
     (fl_sol_handle h, fl_sol_params p, fl_sol_mode mode, fl_sol_fill fill, int64_t n,
      fl_sol_type ta, const void *a, int64_t lda, fl_sol_type tw, const void *w,
      fl_sol_type compute, size_t *device, size_t *host, int64_t batch),
     (void)h; (void)p; (void)mode; (void)fill; (void)n; (void)a; (void)lda; (void)tw; (void)w;
     (void)batch;
     return ta == compute ? fake_asked(device, host) : 3;)
FAKE(cusolverDnXsyevBatched,
     (fl_sol_handle h, fl_sol_params p, fl_sol_mode mode, fl_sol_fill fill, int64_t n,
      fl_sol_type ta, void *a, int64_t lda, fl_sol_type tw, void *w, fl_sol_type compute,
      void *device, size_t device_bytes, void *host, size_t host_bytes, int *info, int64_t batch),
     (void)h; (void)p; (void)mode; (void)fill; (void)compute;
     if (lda < n) return 3;
     fake_matrix(a, fake_width(ta), n * n, batch);
     fake_matrix(w, fake_width(tw), n, batch);
     for (int64_t i = 0; i < batch; i++) info[i] = 0;
     return fake_lent(device, device_bytes, host, host_bytes, info);)

/* The fakes of cuSOLVER's and cuBLAS's functions that differ between f32 and f64 in a letter of the
** name and in the width of an element: FAKE_BOTH(S, 4), FAKE_BOTH(D, 8). */
#define FAKE_BOTH(letter, width) \
  FAKE(cusolverDn##letter##potrfBatched, \
       (fl_sol_handle h, fl_sol_fill fill, int n, void *a[], int lda, int *info, int batch), \
       (void)h; (void)fill; (void)a; \
       for (int i = 0; i < batch; i++) info[i] = 0; \
       return lda < n ? 3 : FL_SOL_OK;) \
  FAKE(cusolverDn##letter##orgqr_bufferSize, \
       (fl_sol_handle h, int m, int n, int k, const void *a, int lda, const void *tau, int *work), \
       (void)h; (void)m; (void)n; (void)k; (void)a; (void)lda; (void)tau; *work = FAKE_SPACE; \
       return FL_SOL_OK;) \
  FAKE(cusolverDn##letter##orgqr, \
       (fl_sol_handle h, int m, int n, int k, void *a, int lda, const void *tau, void *space, \
        int work, int *info), \
       (void)h; (void)tau; \
       if (lda < m || n > m || k > n || work < FAKE_SPACE) return 3; \
       memset(space, 0x5a, (size_t)work * width); \
       fake_matrix(a, width, m, n); \
       *info = 0; \
       return FL_SOL_OK;) \
  FAKE(cusolverDn##letter##gesvdj_bufferSize, \
       (fl_sol_handle h, fl_sol_mode mode, int econ, int m, int n, const void *a, int lda, \
        const void *s, const void *u, int ldu, \
        const void *v, int ldv, int *work, fl_sol_jacobi j), \
       (void)h; (void)mode; (void)econ; (void)a; (void)s; (void)u; (void)v; (void)j; \
       *work = FAKE_SPACE; \
       return lda < m || ldu < m || ldv < n ? 3 : FL_SOL_OK;) \
  FAKE(cusolverDn##letter##gesvdj, \
       (fl_sol_handle h, fl_sol_mode mode, int econ, int m, int n, void *a, int lda, void *s, \
        void *u, int ldu, void *v, int ldv, \
        void *space, int work, int *info, fl_sol_jacobi j), \
       (void)h; (void)mode; (void)j; \
       const int k = m < n ? m : n; \
       if (lda < m || ldu < m || ldv < n || work < FAKE_SPACE) return 3; \
       if (fake_fails()) return 6; \
       memset(space, 0x5a, (size_t)work * width); \
       fake_matrix(a, width, m, n); \
       fake_matrix(s, width, k, 1); \
       fake_matrix(u, width, m, econ ? k : m); \
       fake_matrix(v, width, n, econ ? k : n); \
       *info = 0; \
       return FL_SOL_OK;) \
  FAKE(cublas##letter##trsm_v2, \
       (fl_bla_handle h, fl_sol_side side, fl_sol_fill fill, fl_sol_op trans, fl_sol_diag diag, \
        int m, int n, const void *alpha, \
        const void *a, int lda, void *b, int ldb), \
       (void)h; (void)fill; (void)trans; (void)diag; (void)alpha; (void)a; \
       if (lda < (side == FL_SOL_LEFT ? m : n) || ldb < m) return 7; \
       fake_matrix(b, width, m, n); \
       return FL_SOL_OK;) \
  FAKE(cublas##letter##trsmBatched, \
       (fl_bla_handle h, fl_sol_side side, fl_sol_fill fill, fl_sol_op trans, fl_sol_diag diag, \
        int m, int n, const void *alpha, \
        const void *const a[], int lda, void *const b[], int ldb, int batch), \
       (void)h; (void)fill; (void)trans; (void)diag; (void)alpha; (void)a; (void)b; (void)batch; \
       return lda < (side == FL_SOL_LEFT ? m : n) || ldb < m ? 7 : FL_SOL_OK;) \
  FAKE(cublas##letter##getrfBatched, \
       (fl_bla_handle h, int n, void *const a[], int lda, int *pivot, int *info, int batch), \
       (void)h; (void)a; \
       for (int i = 0; i < batch; i++) info[i] = 0; \
       memset(pivot, 0, (size_t)n * (size_t)batch * sizeof *pivot); \
       return lda < n ? 7 : FL_SOL_OK;) \
  FAKE(cublas##letter##getrsBatched, \
       (fl_bla_handle h, fl_sol_op trans, int n, int k, const void *const a[], int lda, \
        const int *pivot, void *const b[], int ldb, \
        int *info, int batch), \
       (void)h; (void)trans; (void)k; (void)a; (void)pivot; (void)b; (void)batch; *info = 0; \
       return lda < n || ldb < n ? 7 : FL_SOL_OK;) \
  FAKE(cublas##letter##getriBatched, \
       (fl_bla_handle h, int n, const void *const a[], int lda, const int *pivot, void *const c[], \
        int ldc, int *info, int batch), \
       (void)h; (void)a; (void)pivot; (void)c; \
       for (int i = 0; i < batch; i++) info[i] = 0; \
       return lda < n || ldc < n ? 7 : FL_SOL_OK;)
FAKE_BOTH(S, 4)
FAKE_BOTH(D, 8)

static fl_sol_status fake_cublasCreate_v2(fl_bla_handle *h) {
  *h = fake_new(&fake.solver, 1);
  return FL_SOL_OK;
}
static fl_sol_status fake_cublasDestroy_v2(fl_bla_handle h) {
  fake_delete(&fake.solver, h);
  return FL_SOL_OK;
}
static fl_sol_status fake_cublasSetStream_v2(fl_bla_handle h, fl_sol_stream s) {
  (void)h;
  (void)s;
  return FL_SOL_OK;
}

/* ---- wrappers and tables ---- */

static fl_cufft_status fake_fft_code(void) {
  return fake.code == FL_CU_OUT_OF_MEMORY ? FL_CUFFT_ALLOC_FAILED : FL_CUFFT_EXEC_FAILED;
}
static fl_sol_status fake_solver_code(void) {
  return fake.code == FL_CU_OUT_OF_MEMORY ? FL_SOL_ALLOC_FAILED : 6;
}
static fl_sol_status fake_blas_code(void) {
  return fake.code == FL_CU_OUT_OF_MEMORY ? FL_BLA_ALLOC_FAILED : 13;
}

#define TRIP(type, name, params, args, code) \
  static type trip_##name params { \
    const int bad = fake_trip(#name); \
    if (bad && !fake_releases(#name)) return code; \
    const type r = fake_##name args; \
    return bad ? code : r; \
  }
#define CUFFT(name, params, args) TRIP(fl_cufft_status, name, params, args, fake_fft_code())
#include "cuda/api/cufft.def"
#define CUSOLVER(name, params, args) TRIP(fl_sol_status, name, params, args, fake_solver_code())
#define CUBLAS(name, params, args) TRIP(fl_sol_status, name, params, args, fake_blas_code())
#include "cuda/api/cusolver.def"

static const fl_cufft fake_cufft = {
#define CUFFT(name, params, args) .name = trip_##name,
#include "cuda/api/cufft.def"
};
static const fl_cusolver fake_cusolver = {
#define CUSOLVER(name, params, args) .name = trip_##name,
#define CUBLAS(name, params, args) .name = trip_##name,
#include "cuda/api/cusolver.def"
};

static const fl_cufft *fake_get_fft(const char **reason) {
  if (!fake.missing_fft) return &fake_cufft;
  if (reason) *reason = "libcufft.so.12 not found (fake)";
  return NULL;
}
static const fl_cusolver *fake_get_solver(const char **reason) {
  if (!fake.missing_solver) return &fake_cusolver;
  if (reason) *reason = "libcusolver.so.12 not found (fake)";
  return NULL;
}
