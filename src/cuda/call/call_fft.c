/*
** Fourier transforms on a CUDA device, by cuFFT where it is installed (cufft.h). Inputs that are
** padded or whose layout it can not read, and half spectra (which it destroys), are first copied to
** rows in scratch; outputs that are cut or whose layout it can not write are copied from rows in
** scratch. One of these copies, or else a pass in place, applies the norm's factor.
**
** Without cuFFT kernels/fft.cu does any length whose transform, or convolution with a chirp, fits
** 64 KiB of shared memory, and powers of two up to the square of the longest of these; others run
** on the host. The choice depends only on sizes, the dtype and whether there is a library.
*/
#include "cuda/call/call.h"
#include "cuda/library/cufft.h"
#include "tensor/call_fft.h"
#include <math.h>
#include <string.h>

enum { ROOM = 64 * 1024, MODE_KERNEL = 3, THREADS = 256, BLOCKS = 132 * 16 };
static const int64_t LOOP_WORK = 1 << 19;     /* elements per outer index from which a separate run
                                              ** of the plan for each outer index pays off */

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
static const char *defines_of(const fl_call *c) {
  return c->dtype == FLAME_F64 ? "#define TYPE 0\n" : "#define TYPE 1\n";
}
static int is_power(int64_t n) { return (n & (n - 1)) == 0; }

static double scale_of(const fl_fft_form *f) {
  const double n = (double)f->n * (double)f->across;
  return f->norm == 0 ? 1 : f->norm == 1 ? 1 / n : 1 / sqrt(n);
}

/* ---- by the library ---- */

typedef struct library {
  job j;
  fl_cufft_key key;
  const fl_cufft_plan *plan;
  int64_t length_in, length_out;        /* of a signal, in elements of the signal's type */
  int64_t loops, next_in, next_out;     /* number of runs of the plan; bytes from the input, and the
                                        ** output, of one run to those of the next */
  int rows_in, rows_out;                /* through rows in scratch */
  int64_t at_out, at_space, bytes;      /* offsets in scratch of the rows out, of the plan's memory
                                        ** (the rows in are at 0), and of the end */
} library;

static int64_t aligned(int64_t bytes) { return (bytes + 255) / 256 * 256; }

static int type_of(const fl_call *c, int mode) {
  static const uint8_t type[2][3] = { { FL_CUFFT_C2C, FL_CUFFT_R2C, FL_CUFFT_C2R },
                                      { FL_CUFFT_Z2Z, FL_CUFFT_D2Z, FL_CUFFT_Z2D } };
  return type[c->dtype == FLAME_F64][mode];
}

/* Decides how signals are copied in and out, and the strides of the plan. */
static void lay_out(const fl_call *c, const fl_fft_form *f, library *b) {
  const int64_t pair = pair_size(c), half = f->n / 2 + 1;
  const int64_t width_in = f->mode == FL_FFT_TO_HALF ? pair / 2 : pair,
                width_out = f->mode == FL_FFT_FROM_HALF ? pair / 2 : pair;
  const int one_step = f->outer == 1 || f->inner == 1;
  const int loop = !one_step && f->inner * f->n >= LOOP_WORK &&
                   f->size_in * f->inner * width_in % pair == 0;
  b->length_in = f->mode == FL_FFT_FROM_HALF ? half : f->n;
  b->length_out = f->mode == FL_FFT_TO_HALF ? half : f->n;
  b->rows_in = f->mode == FL_FFT_FROM_HALF || f->size_in < b->length_in || !(one_step || loop);
  b->rows_out = f->size_out != b->length_out || !(one_step || loop);
  b->loops = loop ? f->outer : 1;
  b->key = (fl_cufft_key){ .n = f->n, .across = f->across, .batch = f->outer * f->inner / b->loops,
                           .type = type_of(c, f->mode) };
  const int side = f->inner > 1;                          /* signals lie side by side */
  b->key.in_step = b->rows_in || !side ? 1 : f->inner;
  b->key.in_next = b->rows_in ? b->length_in : side ? 1 : f->size_in * f->across;
  b->key.out_step = b->rows_out || !side ? 1 : f->inner;
  b->key.out_next = b->rows_out ? b->length_out : side ? 1 : f->size_out * f->across;
  b->next_in = (b->rows_in ? b->length_in : f->size_in) * f->inner * width_in;
  b->next_out = (b->rows_out ? b->length_out : f->size_out) * f->inner * width_out;
  const int64_t all = f->outer * f->inner;
  b->at_out = b->rows_in ? aligned(all * b->length_in * width_in) : 0;
  b->at_space = b->at_out + (b->rows_out ? aligned(all * b->length_out * width_out) : 0);
}

/* Describes the transform for cuFFT. 0: the library can not do it, or failed with an error in the
** context. */
static int describe_library(fl_cuda *s, const fl_call *c, library *b) {
  fl_fft_form f;
  memset(b, 0, sizeof *b);
  if (c->numel == 0 || !fl_fft_form_of(c, &f)) return 0;
  b->j = (job){ f.outer, f.size_in, f.inner, f.n, f.size_out, .count = f.outer * f.inner,
                .scale = scale_of(&f),
                .mode = f.mode, .inverse = f.inverse };
  lay_out(c, &f, b);
  b->plan = fl_cufft_find(s, &b->key);
  if (b->plan) b->bytes = b->at_space + aligned(fl_cufft_space(b->plan));
  return b->plan != NULL;
}

static flame_status around(fl_cuda *s, const fl_call *c, const char *entry, int64_t items,
                           void **params) {
  const int64_t blocks = (items + THREADS - 1) / THREADS;
  fl_cu_function f;
  const flame_status e = fl_cuda_file_entry(s, "fft.cu", defines_of(c), 0, entry, &f);
  if (e != FLAME_OK) return e;
  return fl_cuda_launch(s, f,
                        (const unsigned[3]){ (unsigned)(blocks < BLOCKS ? blocks : BLOCKS), 1, 1 },
                        (const unsigned[3]){ THREADS, 1, 1 }, 0, params);
}

/* Copies an input that begins in the middle of a pair (a complex number), since the library
** requires alignment. *held: the copy. */
static flame_status align(fl_cuda *s, const fl_call_run *r, void **x, void **held) {
  const size_t bytes = (size_t)(r->call->in_numel[0] * fl_dtype_size(r->call->dtype));
  if ((uintptr_t)*x % (uintptr_t)pair_size(r->call) == 0) return FLAME_OK;
  const flame_status e = fl_cuda_reserve(s, held, (int64_t)bytes, "an aligned copy");
  if (e != FLAME_OK) return e;
  const void *from = *x;
  *x = *held;
  return fl_cuda_check(s, s->cu->CopyOn((fl_cu_ptr)(uintptr_t)*held, (fl_cu_ptr)(uintptr_t)from,
                                        bytes, s->stream),
                       "cuMemcpyDtoDAsync");
}

static flame_status transform(fl_cuda *s, const fl_call_run *r, library *b, void *x) {
  const fl_call *c = r->call;
  char *rows = r->scratch, *y = b->rows_out ? rows + b->at_out : r->out;
  flame_status e = FLAME_OK;
  if (b->rows_in) {
    void *params[] = { &b->j, &x, &rows, &b->length_in };
    e = around(s, c, "fft_rows", b->j.count * b->length_in, params);
    b->j.scale = 1;
    x = rows;
  }
  for (int64_t i = 0; i < b->loops && e == FLAME_OK; i++)
    e = fl_cufft_run(s, b->plan, (char *)x + i * b->next_in, y + i * b->next_out, b->j.inverse,
                     rows + b->at_space, c->what);
  if (e != FLAME_OK || (!b->rows_out && b->j.scale == 1)) return e;
  if (b->rows_out) {
    void *params[] = { &b->j, &y, (void *)&r->out, &b->length_out };
    return around(s, c, "fft_back", b->j.count * b->j.size_out, params);
  }
  int64_t n = c->numel;
  void *params[] = { &y, &n, &b->j.scale };
  return around(s, c, "fft_scale", n, params);
}

static flame_status run_library(fl_cuda *s, const fl_call_run *r, library *b) {
  void *x = r->in[0], *held = NULL;
  flame_status e = b->rows_in ? FLAME_OK : align(s, r, &x, &held);
  if (e == FLAME_OK) e = transform(s, r, b, x);
  fl_cuda_release(s, held);                         /* its memory is reused in the stream's order */
  return e;
}

/* ---- by our own kernels ---- */

/* Number of signals of length m per block: enough to be efficient and at least 'side' (so many are
** adjacent in memory), or fewer if these do not fit shared memory. */
static int64_t pack_of(const fl_call *c, int64_t m, int64_t side) {
  const int64_t room = ROOM / pair_size(c), wish = m < 1024 ? 1024 / m : 1,
                want = wish > side ? wish : side;
  return want * m <= room ? want : room / m;
}

/* 0: our kernels can not do it. */
static int describe(const fl_call *c, job *j) {
  fl_fft_form f;
  const int64_t most = ROOM / pair_size(c);
  if (!fl_fft_form_of(c, &f) || f.across > 1) return 0;
  *j = (job){ f.outer, f.size_in, f.inner, f.n, f.size_out, .m = 1, .count = f.outer * f.inner,
              .scale = scale_of(&f),
              .mode = f.mode, .inverse = f.inverse, .chirp = !is_power(f.n) };
  while (j->m < (j->chirp ? 2 * f.n - 1 : f.n) && j->m <= most) j->m *= 2;
  if (j->m <= most) {
    j->pack = pack_of(c, j->m, f.inner > 1 ? 8 : 1);
    return 1;
  }
  if (j->chirp || f.n > most * most || f.size_out > (f.mode == FL_FFT_TO_HALF ? f.n / 2 + 1 : f.n))
    return 0;
  for (j->rows = 1; j->rows * j->rows < f.n; j->rows *= 2) {}
  j->columns = f.n / j->rows;
  return 1;
}

/* items: number of signals, columns or rows; length: of each in shared memory. */
static flame_status start(fl_cuda *s, const fl_call *c, const char *entry, job *j, int64_t items,
                          int64_t length, const void *x, void *y, const void *kernel) {
  const int64_t blocks = (items + j->pack - 1) / j->pack, work = j->pack * length / 2;
  const unsigned threads = work >= 512 ? 512 : work >= 256 ? 256 : work >= 64 ? 64 : 32;
  fl_cu_function f;
  void *params[] = { j, &x, &y, &kernel };
  if (blocks > INT32_MAX)
    return FL_FAIL(s->ctx, FLAME_BAD_ARGUMENT, c->what, "%lld transforms are too many for one call",
                   (long long)items);
  const flame_status e = fl_cuda_file_entry(s, "fft.cu", defines_of(c), 0, entry, &f);
  if (e != FLAME_OK) return e;
  return fl_cuda_launch(s, f, (const unsigned[3]){ (unsigned)blocks, 1, 1 },
                        (const unsigned[3]){ threads, 1, 1 },
                        (unsigned)(j->pack * length * pair_size(c)), params);
}

static flame_status run_own(fl_cuda *s, const fl_call_run *r) {
  const fl_call *c = r->call;
  job j;
  flame_status e = FLAME_OK;
  if (!describe(c, &j)) return FLAME_OK;
  if (j.rows) {
    j.pack = pack_of(c, j.rows, 8);
    e = start(s, c, "fft_columns", &j, j.count * j.columns, j.rows, r->in[0], r->scratch, NULL);
    j.pack = pack_of(c, j.columns, 8);
    return e != FLAME_OK ? e : start(s, c, "fft_lines", &j, j.count * j.rows, j.columns, r->scratch,
                                     r->out, NULL);
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
  return e != FLAME_OK ? e
                       : start(s, c, "fft_short", &j, j.count, j.m, r->in[0], r->out, r->scratch);
}

/* ---- the call ---- */

/* Scratch for one axis, or for two by the library. *yes 0: not supported. */
static int64_t scratch_of(fl_cuda *s, const fl_call *c, int *yes) {
  library b;
  job j;
  const flame_status before = s->ctx->err.code;
  *yes = 1;
  if (describe_library(s, c, &b)) return b.bytes;
  if (s->ctx->err.code != before) return 0;             /* it was an error, not only an unsupported
                                                        ** size */
  if (describe(c, &j))
    return j.rows ? j.count * j.n * pair_size(c) : j.chirp ? j.m * pair_size(c) : 0;
  *yes = 0;
  return 0;
}

int64_t fl_cuda_scratch_fft(fl_cuda *s, const fl_call *c) {
  fl_call pass[2];
  int yes, both;
  if (c->numel == 0) return 0;
  const int64_t bytes = scratch_of(s, c, &yes);
  if (yes) return bytes;
  if (c->p[8] <= 1) return -1;
  fl_fft_passes(c, pass);
  const int64_t first = scratch_of(s, &pass[0], &yes), second = scratch_of(s, &pass[1], &both);
  return !yes || !both ? -1 : first > second ? first : second;
}

void fl_cuda_modules_fft(fl_cuda *s, const fl_call *c) {
  fl_cuda_want_file(s, "fft.cu", defines_of(c), 0);
}

/* *yes 0: nothing was done. */
static flame_status run_one(fl_cuda *s, const fl_call_run *r, int *yes) {
  library b;
  job j;
  const flame_status before = s->ctx->err.code;
  *yes = 1;
  if (describe_library(s, r->call, &b)) return run_library(s, r, &b);
  if (s->ctx->err.code != before) return s->ctx->err.code;
  *yes = describe(r->call, &j);
  return *yes ? run_own(s, r) : FLAME_OK;
}

/* Two axes in two passes, if the library does not do both: signals are read completely before they
** are written, so the second pass is in place. */
flame_status fl_cuda_call_fft(fl_cuda *s, const fl_call_run *r) {
  fl_call pass[2];
  int yes;
  if (r->call->numel == 0) return FLAME_OK;
  flame_status e = run_one(s, r, &yes);
  if (yes || e != FLAME_OK || r->call->p[8] <= 1) return e;
  fl_fft_passes(r->call, pass);
  fl_call_run first = *r, second = *r;
  first.call = &pass[0];
  second.call = &pass[1];
  second.in[0] = r->out;
  e = run_one(s, &first, &yes);
  return e == FLAME_OK ? run_one(s, &second, &yes) : e;
}
