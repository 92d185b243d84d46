/*
** Fourier transforms on a CUDA device by kernels/fft.cu: any length whose transform, or
** convolution with a chirp, fits 64 KiB of shared memory, and powers of two up to the square
** of that. Others run on the host. Which way is taken follows from sizes alone.
*/
#include "cuda/call.h"
#include "tensor/call_fft.h"
#include <math.h>

enum { ROOM = 64 * 1024, MODE_KERNEL = 3 };

/* struct job of kernels/fft.cu. */
typedef struct job {
  int64_t outer, size_in, inner, n, size_out, m, rows, columns, count, pack;
  double scale;
  int32_t mode, inverse, chirp, pad;
} job;

int64_t fl_cuda_scratch_fft(fl_cuda *s, const fl_call *c);
void fl_cuda_modules_fft(fl_cuda *s, const fl_call *c);
flame_status fl_cuda_call_fft(fl_cuda *s, const fl_call_run *r);

static int64_t pair_size(const fl_call *c) { return 2 * fl_dtype_size(c->dtype); }
static const char *defines_of(const fl_call *c) { return c->dtype == FLAME_F64 ? "#define TYPE 0\n" : "#define TYPE 1\n"; }
static int is_power(int64_t n) { return (n & (n - 1)) == 0; }

/* Signals of length m for a block: enough to be worth it, and 'side' of them side by side. */
static int64_t pack_of(const fl_call *c, int64_t m, int64_t side) {
  const int64_t room = ROOM / pair_size(c), wish = m < 1024 ? 1024 / m : 1, want = wish > side ? wish : side;
  return want * m <= room ? want : room / m;
}

/* 0: not for this device. */
static int describe(const fl_call *c, job *j) {
  fl_fft_form f;
  const int64_t most = ROOM / pair_size(c);
  if (!fl_fft_form_of(c, &f)) return 0;
  *j = (job){ f.outer, f.size_in, f.inner, f.n, f.size_out, .m = 1, .count = f.outer * f.inner,
              .scale = f.norm == 0 ? 1 : f.norm == 1 ? 1 / (double)f.n : 1 / sqrt((double)f.n),
              .mode = f.mode, .inverse = f.inverse, .chirp = !is_power(f.n) };
  while (j->m < (j->chirp ? 2 * f.n - 1 : f.n) && j->m <= most) j->m *= 2;
  if (j->m <= most) {
    j->pack = pack_of(c, j->m, f.inner > 1 ? 8 : 1);
    return 1;
  }
  if (j->chirp || f.n > most * most || f.size_out > (f.mode == FL_FFT_TO_HALF ? f.n / 2 + 1 : f.n)) return 0;
  for (j->rows = 1; j->rows * j->rows < f.n; j->rows *= 2) {}
  j->columns = f.n / j->rows;
  return 1;
}

int64_t fl_cuda_scratch_fft(fl_cuda *s, const fl_call *c) {
  job j;
  (void)s;
  if (!describe(c, &j)) return -1;
  if (j.rows) return j.count * j.n * pair_size(c);
  return j.chirp ? j.m * pair_size(c) : 0;
}

void fl_cuda_modules_fft(fl_cuda *s, const fl_call *c) { fl_cuda_want_file(s, "fft.cu", defines_of(c), 0); }

/* items: signals, columns or rows; length: of each in shared memory. */
static flame_status start(fl_cuda *s, const fl_call *c, const char *entry, job *j, int64_t items, int64_t length,
                          const void *x, void *y, const void *kernel) {
  const int64_t blocks = (items + j->pack - 1) / j->pack, work = j->pack * length / 2;
  const unsigned threads = work >= 512 ? 512 : work >= 256 ? 256 : work >= 64 ? 64 : 32;
  fl_cu_function f;
  void *params[] = { j, &x, &y, &kernel };
  if (blocks > INT32_MAX)
    return FL_FAIL(s->ctx, FLAME_BAD_ARGUMENT, c->what, "%lld transforms are too many for one call", (long long)items);
  const flame_status e = fl_cuda_file_entry(s, "fft.cu", defines_of(c), 0, entry, &f);
  if (e != FLAME_OK) return e;
  return fl_cuda_launch(s, f, (const unsigned[3]){ (unsigned)blocks, 1, 1 }, (const unsigned[3]){ threads, 1, 1 },
                        (unsigned)(j->pack * length * pair_size(c)), params);
}

flame_status fl_cuda_call_fft(fl_cuda *s, const fl_call_run *r) {
  const fl_call *c = r->call;
  job j;
  flame_status e = FLAME_OK;
  if (c->numel == 0 || !describe(c, &j)) return FLAME_OK;
  if (j.rows) {
    j.pack = pack_of(c, j.rows, 8);
    e = start(s, c, "fft_columns", &j, j.count * j.columns, j.rows, r->in[0], r->scratch, NULL);
    j.pack = pack_of(c, j.columns, 8);
    return e != FLAME_OK ? e : start(s, c, "fft_lines", &j, j.count * j.rows, j.columns, r->scratch, r->out, NULL);
  }
  if (j.chirp) {
    job k = j;
    k.outer = k.inner = k.count = k.pack = 1;
    k.size_out = k.m;
    k.scale = 1 / (double)k.m;
    k.mode = MODE_KERNEL;
    k.chirp = 0;
    e = start(s, c, "fft_short", &k, 1, k.m, r->in[0], r->scratch, NULL);
  }
  return e != FLAME_OK ? e : start(s, c, "fft_short", &j, j.count, j.m, r->in[0], r->out, r->scratch);
}
