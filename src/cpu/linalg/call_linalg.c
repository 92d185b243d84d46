/*
** Calls on batches of matrices: how they are distributed (linalg_one.c computes one). Matrices of a
** batch are spread over the workers. Large matrices are done one after another, with the library's
** own threads: only their results depend on the number of threads. Those that need much working
** memory are done one after another too. If several matrices have no result, the one
** with the lowest position is reported.
*/
#include "cpu/gemm/blas.h"
#include "cpu/state/state.h"
#include "cpu/linalg/linalg_one.h"
#include "base/num.h"
#include <stdatomic.h>

enum { LIBRARY_THREADS = 256, UNIT_WORK = 32768 };
static const int64_t much_space = 32 << 20;

typedef struct job {
  fl_linalg_form f;
  fl_linalg_one one;
  const fl_call_run *run;
  int64_t space, each, width;          /* bytes per worker; matrices per unit; bytes per element */
  atomic_llong bad;                    /* lowest position without a result, and why: see report */
} job;

static int64_t worker_space(int kind, const fl_linalg_form *f) {
  return fl_round_up(fl_linalg_space(kind, f), 64);
}

static int64_t scratch(const fl_call *call, int workers) {
  fl_linalg_form f;
  if (!fl_linalg_form_of(call, &f)) return 0;
  const int64_t one = worker_space(call->kind, &f);
  return f.batch > 1 && one <= much_space ? one * workers : one;
}

/* Position and reason are in one number, so that both are set in one atomic step; the lowest
** position is kept. */
static void report(job *j, int64_t at, int why) {
  long long mine = at * 8 + why, seen = atomic_load(&j->bad);
  while (mine < seen && !atomic_compare_exchange_weak(&j->bad, &seen, mine)) {}
}

static void run_one(job *j, int64_t i, char *space) {
  const fl_linalg_form *f = &j->f;
  const void *in[2] = { NULL, NULL };
  void *out[3] = { NULL, NULL, NULL };
  int64_t base = 0;
  for (int k = 0; k < f->nin; k++) in[k] = (const char *)j->run->in[k] + i * f->in[k] * j->width;
  for (int k = 0; k < f->nout; k++) {
    out[k] = (char *)j->run->out + (base + i * f->out[k]) * j->width;
    base += f->batch * f->out[k];
  }
  const int why = fl_linalg_one_run(&j->one, in, out, space);
  if (why && !atomic_load(j->one.stop)) report(j, i, why);     /* a matrix whose computation was
                                                               ** interrupted has no fault */
}

static void unit(void *arg, int64_t u, int worker) {
  job *j = arg;
  const int before = worker ? fl_blas_thread_enter(1) : 0;
  const int64_t end = (u + 1) * j->each < j->f.batch ? (u + 1) * j->each : j->f.batch;
  for (int64_t i = u * j->each; i < end; i++)
    run_one(j, i, (char *)j->run->scratch + worker * j->space);
  fl_blas_thread_leave(before);
}

static flame_status run(fl_device *d, const fl_call_run *r) {
  fl_cpu *cpu = d->state;
  job j = { .run = r, .width = r->call->dtype == FLAME_F64 ? 8 : 4 };
  fl_linalg_form_of(r->call, &j.f);
  const int64_t big = j.f.m > j.f.n ? j.f.m : j.f.n, less = j.f.m > j.f.n ? j.f.n : j.f.m;
  if (r->call->numel == 0) return FLAME_OK;
  j.one = (fl_linalg_one){ &j.f, r->call->kind, j.width == 8,
                           fl_lapack_get(cpu->blas_name, cpu->width, j.width == 8),
                           fl_lapack_get(cpu->blas_name, cpu->width, 1), cpu->stop };
  j.space = worker_space(r->call->kind, &j.f);
  atomic_init(&j.bad, INT64_MAX);
  const double work = (double)big * (double)less * (double)(less + j.f.k) + 64;
  j.each = work < UNIT_WORK ? (int64_t)(UNIT_WORK / work) : 1;
  const int64_t units = (j.f.batch + j.each - 1) / j.each;
  const int large = j.one.lib && less > LIBRARY_THREADS, threads = large ? cpu->width : 1;
  if (j.one.lib) fl_blas_enter(threads);
  const int before = fl_blas_thread_enter(threads);
  if (!large && units > 1 && j.space <= much_space)
    fl_threads_run(cpu->pool, units, unit, &j, cpu->stop);
  else for (int64_t u = 0; u < units && !fl_stopped(d); u++) unit(&j, u, 0);
  fl_blas_thread_leave(before);
  if (j.one.lib) fl_blas_leave(threads);
  const long long bad = atomic_load(&j.bad);
  if (bad != INT64_MAX) fl_linalg_fault(&j.f, bad / 8, (int)(bad % 8), r->fault);
  return FLAME_OK;
}

#define KIND(name) \
  int64_t fl_cpu_scratch_##name(const fl_call *call, int workers); \
  flame_status fl_cpu_call_##name(fl_device *d, const fl_call_run *r); \
  int64_t fl_cpu_scratch_##name(const fl_call *call, int workers) { \
    return scratch(call, workers); \
  } \
  flame_status fl_cpu_call_##name(fl_device *d, const fl_call_run *r) { return run(d, r); }
KIND(inverse)
KIND(solve)
KIND(triangular)
KIND(determinant)
KIND(cofactor)
KIND(cofactor_grad)
KIND(cholesky)
KIND(lu)
KIND(qr)
KIND(svd)
KIND(eigh)
KIND(matrix_exp)
