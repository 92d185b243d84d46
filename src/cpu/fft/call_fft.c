/*
** Fourier transforms on the CPU (fft_job.h): the call, and transforms that fit a second-level cache
** with as many signals side by side as a vector has lanes. What a lane computes does not depend on
** the other lanes, their number, or the workers.
*/
#include "cpu/fft/fft_job.h"
#include "base/num.h"
#include <string.h>

static const fl_fft_loops *loops_of(const fl_vm *vm, int is64) {
#if defined(__x86_64__)
  if (vm == &fl_vm_avx512) return is64 ? &fl_fft64_avx512 : &fl_fft32_avx512;
  if (vm == &fl_vm_avx2) return is64 ? &fl_fft64_avx2 : &fl_fft32_avx2;
#endif
  (void)vm;
  return is64 ? &fl_fft64_base : &fl_fft32_base;
}

static char *vector_at(const fl_fft_job *j, void *x, int64_t k) {
  return (char *)x + k * 2 * j->loops->lanes * (j->is64 ? 8 : 4);
}

void *fl_fft_core(const fl_fft_job *j, void *x, void *y) {
  const fl_fft_loops *loops = j->loops;
  if (!j->chirp) return loops->run(&j->plan[0], x, y);
  loops->multiply(x, j->length, j->chirps);
  memset(vector_at(j, x, j->length), 0,
         (size_t)(vector_at(j, x, j->core) - vector_at(j, x, j->length)));
  void *z = loops->run(&j->plan[0], x, y);
  loops->multiply(z, j->core, j->kernel);
  loops->swap(z, j->core);
  z = loops->run(&j->plan[0], z, z == x ? y : x);
  loops->swap(z, j->length);
  loops->multiply(z, j->length, j->chirps);
  return z;
}

/* For Bluestein's algorithm: computes the transform of the conjugate chirp, the fixed factor of the
** convolution, divided by the transform's length. */
static void fill_kernel(fl_fft_job *j) {
  char *x = j->lanes, *y = j->lanes + j->lanes_size;
  char *signal = j->kernel;                      /* first the signal, then its transform */
  const int64_t m = j->core;
  memset(signal, 0, (size_t)(m * (j->is64 ? 16 : 8)));
  for (int64_t k = 0; k < j->length; k++)
    for (int part = 0; part < 2; part++) {
      const double v = fl_fft_get(j, j->chirps, 2 * k + part) * (part ? -1 : 1) / (double)m;
      fl_fft_put(j, signal, 2 * k + part, v);
      if (k) fl_fft_put(j, signal, 2 * (m - k) + part, v);
    }
  fl_fft_lanes one = { .at = { signal }, .reals = { m }, .imags = { m }, .step = 2, .apart = 1,
                       .lanes = 1, .scale = 1 };
  j->loops->load(x, m, &one);
  j->loops->store(j->loops->run(&j->plan[0], x, y), m, &one);
}

/* ---- one group of lanes --------------------- */

static void input_lanes(const fl_fft_job *j, int64_t first, int lanes, fl_fft_lanes *from) {
  const fl_fft_form *f = &j->f;
  const int real = f->mode == FL_FFT_TO_HALF;
  const int64_t most = f->mode == FL_FFT_FROM_HALF ? f->n / 2 + 1 : f->n,
                n = fl_min(f->size_in, most);
  *from = (fl_fft_lanes){ .lanes = lanes, .swap = f->mode == FL_FFT_COMPLEX && f->inverse };
  from->step = real && !j->packed ? f->inner : 2 * f->inner;
  from->apart = real ? (j->packed ? f->inner : 0) : 1;
  for (int l = 0; l < lanes; l++) {
    from->at[l] = (char *)j->run->in[0] + fl_fft_first(j, first + l, f->size_in, real ? 1 : 2);
    from->reals[l] = real && j->packed ? (n + 1) / 2 : n;
    from->imags[l] = !real ? n : j->packed ? n / 2 : 0;
  }
}

/* Sets to zero a transform's elements of the output from number 'from' on, beyond its result. */
static void clear_rest(const fl_fft_job *j, int64_t transform, int64_t from, int parts) {
  const int64_t size = j->is64 ? 8 : 4;
  char *at = (char *)j->run->out + fl_fft_first(j, transform, j->f.size_out, parts);
  for (int64_t k = from; k < j->f.size_out; k++)
    memset(at + k * j->f.inner * parts * size, 0, (size_t)(parts * size));
}

static void output_lanes(const fl_fft_job *j, int64_t first, int lanes, fl_fft_lanes *to) {
  const fl_fft_form *f = &j->f;
  const int real = f->mode == FL_FFT_FROM_HALF;
  const int64_t most = f->mode == FL_FFT_TO_HALF ? f->n / 2 + 1 : f->n,
                n = fl_min(f->size_out, most);
  *to = (fl_fft_lanes){ .lanes = lanes, .swap = real || (f->mode == FL_FFT_COMPLEX && f->inverse),
                        .scale = j->scale };
  to->step = real && !j->packed ? f->inner : 2 * f->inner;
  to->apart = real ? (j->packed ? f->inner : 0) : 1;
  for (int l = 0; l < lanes; l++) {
    to->at[l] = (char *)j->run->out + fl_fft_first(j, first + l, f->size_out, real ? 1 : 2);
    to->reals[l] = real && j->packed ? (n + 1) / 2 : n;
    to->imags[l] = !real ? n : j->packed ? n / 2 : 0;
    clear_rest(j, first + l, n, real ? 1 : 2);
  }
}

/* For a half spectrum of odd length: fills in the other half, and clears the imaginary part of the
** first element. */
static void reflect(const fl_fft_job *j, char *x) {
  const int64_t n = j->f.n, part = j->loops->lanes * (j->is64 ? 8 : 4), lanes = j->loops->lanes;
  memset(x + part, 0, (size_t)part);
  for (int64_t k = 1; k <= n / 2; k++) {
    char *from = vector_at(j, x, k), *to = vector_at(j, x, n - k);
    memcpy(to, from, (size_t)part);
    for (int64_t l = 0; l < lanes; l++)
      fl_fft_put(j, to, lanes + l, -fl_fft_get(j, from, lanes + l));
  }
}

static void group(void *arg, int64_t u, int worker) {
  const fl_fft_job *j = arg;
  const fl_fft_loops *loops = j->loops;
  const int64_t first = u * loops->lanes;
  const int lanes = (int)fl_min(loops->lanes, j->transforms - first);
  char *x = j->lanes + 2 * worker * j->lanes_size, *y = x + j->lanes_size, *z;
  fl_fft_lanes from, to;
  input_lanes(j, first, lanes, &from);
  loops->load(x, j->f.mode == FL_FFT_FROM_HALF ? j->f.n / 2 + 1 : j->length, &from);
  if (j->f.mode == FL_FFT_FROM_HALF) {
    if (j->packed) loops->merge(x, j->length, j->real);
    else reflect(j, x);
    loops->swap(x, j->length);
  }
  z = fl_fft_core(j, x, y);
  if (j->f.mode == FL_FFT_TO_HALF && j->packed) loops->split(z, j->length, j->real);
  output_lanes(j, first, lanes, &to);
  loops->store(z, j->f.mode == FL_FFT_TO_HALF ? j->f.n / 2 + 1 : j->length, &to);
}

/* ---- the call --------------------- */

int64_t fl_cpu_scratch_fft(const fl_call *call, int workers);
flame_status fl_cpu_call_fft(fl_device *d, const fl_call_run *r);

static int64_t scratch_of(const fl_call *call, int workers) {
  fl_fft_job j;
  int64_t bytes;
  return fl_fft_job_of(call, workers, NULL, &j, &bytes) ? bytes : 0;
}

int64_t fl_cpu_scratch_fft(const fl_call *call, int workers) {
  fl_call pass[2];
  if (call->p[8] <= 1) return scratch_of(call, workers);
  fl_fft_passes(call, pass);
  const int64_t first = scratch_of(&pass[0], workers), second = scratch_of(&pass[1], workers);
  return first > second ? first : second;
}

static void run_wide(const fl_cpu *cpu, fl_fft_job *j) {
  const int64_t units = (j->transforms + j->loops->lanes - 1) / j->loops->lanes;
  if (j->chirp && j->fresh) fill_kernel(j);
  if (units * j->core * j->loops->lanes > 16384)
    fl_threads_run(cpu->pool, units, group, j, cpu->stop);
  else for (int64_t u = 0; u < units; u++) group(j, u, 0);
}

static void one_axis(fl_device *d, const fl_call_run *r) {
  fl_cpu *cpu = d->state;
  fl_fft_job j;
  int64_t bytes;
  fl_fft_job_of(r->call, cpu->width, r->scratch, &j, &bytes);
  j.run = r;
  j.cpu = cpu;
  j.loops = loops_of(cpu->vm, j.is64);
  fl_fft_take_tables(cpu, &d->ctx->mem, &j);
  if (j.wide) run_wide(cpu, &j);
  else fl_fft_run_long(&j);
  if (j.fresh) fl_fft_settle(cpu, &d->ctx->mem, &j, !fl_stopped(d));
}

/* Two axes are done in two passes. Each group of signals is read completely before it is written,
** so the second pass can work in place. */
flame_status fl_cpu_call_fft(fl_device *d, const fl_call_run *r) {
  fl_call pass[2];
  if (r->call->numel == 0) return FLAME_OK;
  if (r->call->p[8] <= 1) {
    one_axis(d, r);
    return FLAME_OK;
  }
  fl_fft_passes(r->call, pass);
  fl_call_run first = *r, second = *r;
  first.call = &pass[0];
  second.call = &pass[1];
  second.in[0] = r->out;
  one_axis(d, &first);
  if (!fl_stopped(d)) one_axis(d, &second);
  return FLAME_OK;
}
