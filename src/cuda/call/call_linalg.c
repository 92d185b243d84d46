/*
** Calls on matrices on a CUDA device, by cuSOLVER and cuBLAS (cusolver_work.h), or for small QR and
** SVD by kernels/linalg.cu. Without the libraries, and for what they do not support, the call runs
** on the host (host.c). Statuses stay on the device until all matrices are done: then one number is
** read, and the message names the same matrix as on the CPU.
*/
#include "cuda/call/cusolver_work.h"
#include "base/num.h"
#include <string.h>

enum { THREADS = 256, BLOCKS = 132 * 16, BATCH_SIZE = 512, SMALL_SIDE = 256, SMALL_SPECTRUM = 128,
       SMALL_ALONE = 32, FEW = 4, LONG_SIDE = 4096, KEPT_FREE = 1024, LONG_PAIR = 128 };
static const char file[] = "linalg.cu";

static const char *defines_of(const fl_call *c) {
  return c->dtype == FLAME_F64 ? "#define TYPE 0\n" : "#define TYPE 1\n";
}

/* ---- launches ---- */

static flame_status launch(const fl_linalg_work *w, const char *entry, int64_t blocks,
                           unsigned threads, int64_t shared, void **params) {
  fl_cu_function f;
  const flame_status e = fl_cuda_file_entry(w->s, file, defines_of(w->c), 0, entry, &f);
  if (e != FLAME_OK || blocks == 0) return e;
  return fl_cuda_launch(w->s, f, (const unsigned[3]){ (unsigned)blocks, 1, 1 },
                        (const unsigned[3]){ threads, 1, 1 }, (unsigned)shared, params);
}

flame_status fl_linalg_start(const fl_linalg_work *w, const char *entry, int64_t items,
                             void **params) {
  return launch(w, entry, fl_min((items + THREADS - 1) / THREADS, BLOCKS), THREADS, 0, params);
}

flame_status fl_linalg_blocks(const fl_linalg_work *w, const char *entry, unsigned threads,
                              int64_t shared, void **params) {
  return launch(w, entry, w->f.batch, threads, shared, params);
}

flame_status fl_linalg_single(const fl_linalg_work *w, const char *entry, unsigned threads,
                              void **params) {
  return launch(w, entry, 1, threads, 0, params);
}

flame_status fl_linalg_copy(const fl_linalg_work *w, void *to, const void *from, int64_t elements) {
  if (elements == 0 || to == from) return FLAME_OK;
  return fl_cuda_check(w->s, w->s->cu->CopyOn((fl_cu_ptr)(uintptr_t)to, (fl_cu_ptr)(uintptr_t)from,
                                              (size_t)(elements * w->width), w->s->stream),
                       "cuMemcpyDtoDAsync");
}

flame_status fl_linalg_turn(const fl_linalg_work *w, char *to, const char *from, int64_t rows,
                            int64_t columns, int64_t ld_from, int64_t ld_to, int64_t across,
                            int64_t over, int64_t count, int only) {
  void *params[] = { &to, &from, &rows, &columns, &ld_from, &ld_to, &across, &over, &count, &only };
  return fl_linalg_start(w, "turn", ((rows + 31) / 32) * ((columns + 31) / 32) * count * THREADS,
                         params);
}

flame_status fl_linalg_guard(const fl_linalg_work *w, char *to, const char *from, int64_t at,
                             int64_t count) {
  int64_t rows = w->f.m, columns = w->f.n;
  int part = w->c->kind != FL_CALL_eigh ? 0 : w->f.a ? 2 : 1;
  void *params[] = { &to, &from, &rows, &columns, &count, &part, &at, (void *)&w->status };
  return fl_linalg_start(w, "guarded", count * rows * columns, params);
}

flame_status fl_linalg_look(const fl_linalg_work *w, int why) {
  int64_t batch = w->f.batch;
  void *params[] = { (void *)&w->info, &batch, &why, (void *)&w->status };
  return fl_linalg_start(w, "statuses", batch, params);
}

flame_status fl_linalg_point(const fl_linalg_work *w, void **to, const char *base,
                             int64_t elements) {
  int64_t batch = w->f.batch, bytes = elements * w->width;
  void *params[] = { &to, &base, &bytes, &batch };
  return fl_linalg_start(w, "pointers", batch, params);
}

/* ---- which way ---- */

static unsigned warps_for(int64_t n) { return (unsigned)fl_min(fl_max(n, 2), 32); }

/* The distance between columns in elements, rounded up to whole packs of 16 bytes. */
static int64_t packed(const fl_linalg_work *w, int64_t n) {
  return (n * w->width + 15) / 16 * 16 / w->width;
}

/* Uses the kernels qr_small and svd_small if the matrix fits a block's shared memory, which is
** divided here as in these kernels. */
static void try_small(fl_linalg_work *w) {
  const fl_linalg_form *f = &w->f;
  const int64_t big = fl_max(f->m, f->n), less = fl_min(f->m, f->n);
  int64_t warps = 1, bytes = 0;
  w->lanes = big <= LONG_PAIR ? 8 : 32;
  if (less == 0 || (w->c->kind != FL_CALL_qr && w->c->kind != FL_CALL_svd)) return;
  if (w->c->kind == FL_CALL_qr) {
    warps = warps_for(fl_max(f->n, f->k));
    bytes = ((f->m | 1) * f->n + warps * f->m + 2 * less + 32) * w->width;
    if (big > LONG_SIDE || less > SMALL_SIDE) return;
  } else {
    const int64_t columns = f->b && f->a ? big : less, pairs = (less + 1) / 2;
    warps = w->lanes == 32 ? warps_for(pairs) : (pairs * w->lanes + 31) / 32;
    bytes = (columns * packed(w, big) + (f->b ? less * packed(w, less) : 0) + less +
             fl_max(big, 32)) * w->width + less * 4 + 16;
    if (big > LONG_SIDE || less > (f->batch < FEW ? SMALL_ALONE : SMALL_SPECTRUM)) return;
  }
  if (bytes > w->s->shared - KEPT_FREE) return;
  w->way = FL_WAY_SMALL;
  w->shared = bytes;
  w->threads = (unsigned)(32 * warps);
}

static void choose(fl_linalg_work *w) {
  const fl_linalg_form *f = &w->f;
  const int batch = f->batch > 1 && f->n < BATCH_SIZE && f->n > 0;
  w->way = FL_WAY_LOOP;
  switch (w->c->kind) {
    case FL_CALL_inverse: case FL_CALL_solve: case FL_CALL_determinant:
    case FL_CALL_triangular: case FL_CALL_cholesky:
      if (batch) w->way = FL_WAY_BATCH;
      break;
    case FL_CALL_lu: if (batch && f->m == f->n) w->way = FL_WAY_BATCH; break;
    case FL_CALL_eigh: if (batch && w->q->lib->cusolverDnXsyevBatched) w->way = FL_WAY_BATCH; break;
    default: try_small(w);
  }
}

/* ---- scratch ---- */

static void *take(char *base, int64_t *at, int64_t bytes) {
  void *p = base ? base + *at : NULL;
  *at += (bytes + 255) / 256 * 256;
  return p;
}

/* The number of elements that the working arrays a, b and tau need for this kind. */
static void rooms(const fl_linalg_work *w, int64_t *a, int64_t *b, int64_t *tau) {
  const fl_linalg_form *f = &w->f;
  const int64_t all = w->way == FL_WAY_BATCH ? f->batch : 1, less = fl_min(f->m, f->n);
  *a = *b = *tau = 0;
  switch (w->c->kind) {
    case FL_CALL_inverse:
      *a = all * f->n * f->n;
      *b = w->way == FL_WAY_LOOP ? f->n * f->n : 0;
      break;
    case FL_CALL_solve: *a = all * f->n * f->n; *b = f->k > 1 ? all * f->n * f->k : 0; break;
    case FL_CALL_cholesky: *a = f->a ? 0 : all * f->n * f->n; break;
    case FL_CALL_determinant: *a = f->batch * f->n * f->n; break;
    case FL_CALL_lu: *a = f->batch * f->m * f->n; break;
    case FL_CALL_eigh: *a = all * f->n * f->n; break;
    case FL_CALL_qr: *a = f->m * fl_max(f->n, f->k); *tau = less; break;
    case FL_CALL_svd:
      *a = f->m * f->n;
      *b = f->m * (f->a ? f->m : less);
      *tau = f->n * (f->a ? f->n : less);
      break;
    default: break;
  }
}

/* Assigns the scratch memory from base on; returns its bytes. */
static int64_t carve(fl_linalg_work *w, char *base) {
  int64_t at = 0, a, b, tau;
  const fl_linalg_form *f = &w->f;
  w->status = take(base, &at, 8);
  w->info = take(base, &at, (2 * f->batch + 1) * 4);
  if (w->way == FL_WAY_SMALL) return at;
  rooms(w, &a, &b, &tau);
  w->pivot = take(base, &at, f->batch * fl_max(f->m, f->n) * 12);
  w->at_a = take(base, &at, f->batch * 8);
  w->at_b = take(base, &at, f->batch * 8);
  w->a = take(base, &at, a * w->width);
  w->b = take(base, &at, b * w->width);
  w->tau = take(base, &at, tau * w->width);
  w->space = take(base, &at, (int64_t)w->device);
  return at;
}

/* Asks the library how much memory it needs; the answer is kept for later calls with the
** same kind, dtype and integers. */
static flame_status ask(fl_linalg_work *w) {
  int64_t key[12] = { w->c->kind, w->c->dtype };
  memcpy(key + 2, w->c->p, 10 * sizeof *key);
  fl_solver_need *n = &w->q->need[fl_hash64(key, sizeof key, 13) % FL_SOLVER_NEEDS];
  if (n->known && memcmp(n->key, key, sizeof key) == 0) {
    w->device = (size_t)n->device;
    w->host = (size_t)n->host;
    return FLAME_OK;
  }
  const int spectrum = w->c->kind == FL_CALL_qr || w->c->kind == FL_CALL_svd ||
                       w->c->kind == FL_CALL_eigh;
  const flame_status e = spectrum ? fl_linalg_ask_spectrum(w) : fl_linalg_ask_factor(w);
  if (e != FLAME_OK) return e;
  memcpy(n->key, key, sizeof key);
  n->device = (int64_t)w->device;
  n->host = (int64_t)w->host;
  n->known = 1;
  return FLAME_OK;
}

/* *yes 0: over the host. */
static flame_status describe(fl_cuda *s, const fl_call *c, fl_linalg_work *w, int *yes) {
  memset(w, 0, sizeof *w);
  *w = (fl_linalg_work){ .s = s, .c = c, .wide = c->dtype == FLAME_F64,
                         .width = fl_dtype_size(c->dtype),
                         .type = c->dtype == FLAME_F64 ? FL_SOL_R_64F : FL_SOL_R_32F };
  *yes = 0;
  if (!fl_linalg_form_of(c, &w->f) || w->f.batch > INT32_MAX / 8) return FLAME_OK;
  flame_status e = fl_solver_get(s, &w->q);
  if (e != FLAME_OK || !w->q) return e;
  *yes = 1;
  if (c->numel == 0) return FLAME_OK;
  choose(w);
  return w->way == FL_WAY_SMALL ? FLAME_OK : ask(w);
}

static int64_t scratch(fl_cuda *s, const fl_call *c) {
  fl_linalg_work w;
  int yes;
  if (describe(s, c, &w, &yes) != FLAME_OK) return 0;      /* with the error in the context */
  return !yes ? -1 : c->numel == 0 ? 0 : carve(&w, NULL);
}

/* ---- run ---- */

static flame_status told(const fl_linalg_work *w, const fl_call_run *r) {
  uint64_t status = 0;
  if (fl_calls[w->c->kind].faults != FL_FAULTS_RUN) return FLAME_OK;
  const flame_status e = fl_stage_download(w->s, &status, w->status, sizeof status);
  if (e != FLAME_OK || status == UINT64_MAX) return e;
  const int why = (int)(status % 8);
  /* LAPACK's iterations differ, and may converge where these did not. */
  if (why == FL_LINALG_NO_CONVERGENCE) return fl_cuda_call_host(w->s, r);
  fl_linalg_fault(&w->f, (int64_t)(status / 8), why, r->fault);
  return FLAME_OK;
}

static flame_status work(fl_linalg_work *w, const fl_call_run *r) {
  const int spectrum = w->c->kind == FL_CALL_qr || w->c->kind == FL_CALL_svd ||
                       w->c->kind == FL_CALL_eigh;
  flame_status e =
      fl_cuda_check(w->s, w->s->cu->Memset8((fl_cu_ptr)(uintptr_t)w->status, 0xff, 8, w->s->stream),
                                 "cuMemsetD8Async");
  if (e == FLAME_OK) e = spectrum ? fl_linalg_run_spectrum(w) : fl_linalg_run_factor(w);
  return e == FLAME_OK ? told(w, r) : e;
}

static flame_status run(fl_cuda *s, const fl_call_run *r) {
  fl_linalg_work w;
  int yes;
  flame_status e = describe(s, r->call, &w, &yes);
  if (e != FLAME_OK || r->call->numel == 0) return e;
  /* Some library functions wait for what they queued, which fails while a graph is captured; the
  ** error would be returned by the next function too. So none is called during a capture. */
  if (w.way != FL_WAY_SMALL && fl_cuda_spoils(s)) return FLAME_INTERNAL;
  int64_t base = 0;
  carve(&w, r->scratch);
  w.x = r->in[0];
  w.y = r->in[1];
  for (int i = 0; i < w.f.nout; i++) {
    w.part[i] = (char *)r->out + base * w.width;
    base += w.f.batch * w.f.out[i];
  }
  if (w.host) {
    w.on_host = fl_alloc(s->mem, w.host);
    if (!w.on_host) return FL_FAIL(s->ctx, FLAME_NO_MEMORY, r->call->what, "out of host memory");
  }
  e = work(&w, r);
  if (w.on_host && !s->dead) {                             /* the library may still be using it */
    const flame_status ended = fl_cuda_check(s, s->cu->StreamSynchronize(s->stream),
                                             "cuStreamSynchronize");
    if (e == FLAME_OK) e = ended;
  }
  fl_free(s->mem, w.on_host, w.host);
  return e;
}

#define KIND(name) \
  int64_t fl_cuda_scratch_##name(fl_cuda *s, const fl_call *c); \
  void fl_cuda_modules_##name(fl_cuda *s, const fl_call *c); \
  flame_status fl_cuda_call_##name(fl_cuda *s, const fl_call_run *r); \
  int64_t fl_cuda_scratch_##name(fl_cuda *s, const fl_call *c) { return scratch(s, c); } \
  void fl_cuda_modules_##name(fl_cuda *s, const fl_call *c) { \
    fl_cuda_want_file(s, file, defines_of(c), 0); \
  } \
  flame_status fl_cuda_call_##name(fl_cuda *s, const fl_call_run *r) { return run(s, r); }
KIND(inverse)
KIND(solve)
KIND(triangular)
KIND(determinant)
KIND(cholesky)
KIND(lu)
KIND(qr)
KIND(svd)
KIND(eigh)
