/*
** A whole engine on the fake driver. Each call of the driver, NVRTC and the libraries fails in
** turn, alone or with all after it, as out of memory or as a lost device; and so does each host
** allocation. After a failure there must be an error or a result of the right shape; after closing,
** device and host hold no memory; a context whose device is usable can do the same work again; an
** interrupt ends waits for a busy device. The fake driver runs no kernels, so only values of
** matrix products are checked.
*/
#include "fake_driver.c"
#include "cuda/cuda.h"
#include "engine/engine.h"
#include "flame.h"
#include "tensor/build.h"
#include "tensor/tensor.h"
#include <time.h>

static int passed, failed;

static void check_at(int ok, const char *what, const char *name, int64_t k, int line) {
  if (ok) { passed++; return; }
  failed++;
  printf("test_oom_device.c:%d: failed: %s (%s, call %lld, %s)\n", line, what, name, (long long)k,
         fake.failed ? fake.failed : "no failure");
}
#define CHECK(x, name, k) check_at((x) != 0, #x, name, k, __LINE__)

/* ---- a context on the fake device ----------------------------------------------------------- */

static flame_context *open_context(void) {
  const flame_options o = { .size = sizeof(flame_options), .device = "cpu", .threads = 1 };
  flame_context *c = flame_open(&o);
  if (c) c->default_device = 1;
  return c;
}

/* Opens the device as fl_engine_device does, but with the fake libraries; 0 if that fails. Can be
** called again. */
static int open_device(flame_context *c) {
  fl_engine *e = c->engine;
  fl_device *d = &e->device[1];
  if (e->open[1]) return 1;
  d->ctx = c;
  d->index = 1;
  e->open[1] = fl_cuda_open_with(c, d, 0, &fake_libraries) == FLAME_OK;
  return e->open[1];
}

static int64_t left_blocks, left_bytes;

static void look(flame_context *c) {
  left_blocks = c->mem.live_blocks;
  left_bytes = c->mem.live_bytes;
  free(c);
}

/* Closes the context, while a tensor keeps its struct alive, and checks that it holds no memory. */
static void close_context(flame_context *c, const char *name, int64_t k) {
  flame_clear_error(c);
  const uint32_t dead = c->dead;
  c->dead = 0;
  c->err.code = FLAME_OK;
  FL_ENTER(c);
  flame_tensor *kept = fl_tensor_new(c, n_num(c, 1));
  FL_LEAVE(c);
  c->dead = dead;
  left_blocks = left_bytes = -1;
  flame_close(c);
  CHECK(kept != NULL, name, k);
  if (!kept) return;
  c->gone = look;
  flame_free(kept);
  CHECK(left_blocks == 0 && left_bytes == 0, name, k);
  CHECK(fake_leaks() == 0 && fake.bytes == 0, name, k);
}

/* ---- families: 1 when all went well ---------------------------------------------------------- */

static flame_tensor *ramp(flame_context *c, int rows, int cols) {
  float data[64];
  for (int i = 0; i < rows * cols; i++) data[i] = (float)i * 0.125f;
  return flame_from_data(c, FLAME_F32, 2, (int64_t[]){ rows, cols }, data);
}

static int read_all(flame_tensor *x) {
  static char host[1 << 16];
  const int good = x &&
                   flame_read(x, host,
                              (size_t)(flame_numel(x) * fl_dtype_size(flame_dtype_of(x)))) ==
                              FLAME_OK;
  flame_free(x);
  return good;
}

static int elementwise(flame_context *c) {
  flame_tensor *x = ramp(c, 4, 6), *e = flame_exp(x), *y = flame_mul(e, x);
  flame_free(x);
  flame_free(e);
  return read_all(y);
}

static int reductions(flame_context *c) {
  flame_tensor *x = ramp(c, 4, 6), *s = flame_softmax(x, 1), *y = flame_sum_all(s);
  flame_free(x);
  flame_free(s);
  return read_all(y);
}

static int products(flame_context *c) {
  flame_tensor *x = ramp(c, 4, 6), *w = ramp(c, 6, 4), *y = flame_matmul(x, w);
  flame_free(x);
  flame_free(w);
  return read_all(y);
}

static int views(flame_context *c) {
  flame_tensor *x = ramp(c, 4, 6), *p = flame_permute(x, (int[]){ 1, 0 });
  flame_tensor *s = flame_slice(p, 0, 1, 3, 2), *h = flame_cast(s, FLAME_F16);
  flame_free(x);
  flame_free(p);
  flame_free(s);
  return read_all(h);
}

static int writes(flame_context *c) {
  flame_tensor *x = ramp(c, 4, 6), *old = flame_clone(x), *y = flame_exp(x);
  int good = x && y && flame_eval(c) == FLAME_OK && flame_write(x, y) == FLAME_OK;
  flame_free(y);
  good &= read_all(old);
  return read_all(x) && good;
}

static int indexing(flame_context *c) {
  const int64_t ids[3] = { 1, 4, 2 };
  flame_tensor *x = ramp(c, 4, 6), *i = flame_from_data(c, FLAME_I64, 1, (int64_t[]){ 3 }, ids),
               *y = NULL;
  if (x && i) {
    FL_ENTER(c);
    fl_node *at = n_index(i->node, 4, 0, "take");
    fl_node *g = n_take_axis(x->node, 0, at);
    y = fl_tensor_new(c, n_put_axis(x->node, 0, at, g, 1));
    FL_LEAVE(c);
  }
  flame_free(x);
  flame_free(i);
  return read_all(y);
}

static int numbers(flame_context *c) {
  flame_tensor *u = flame_uniform(c, FLAME_F32, 1, (int64_t[]){ 100 }, 0, 1);
  flame_tensor *n = flame_normal(c, FLAME_F32, 1, (int64_t[]){ 100 }, 0, 1), *y = flame_add(u, n);
  flame_free(u);
  flame_free(n);
  return read_all(y);
}

static int gradients(flame_context *c) {
  flame_tensor *w = ramp(c, 6, 6), *x = ramp(c, 4, 6), *a = flame_matmul(x, w);
  flame_free(a);
  int good = w && flame_requires_grad(w, 1) == FLAME_OK;
  a = flame_matmul(x, w);
  flame_tensor *t = flame_tanh(a), *l = flame_sum_all(t);
  good = good && l && flame_backward(l, NULL) == FLAME_OK;
  flame_tensor *g = good ? flame_grad_of(w) : NULL;
  flame_free(w); flame_free(x); flame_free(a); flame_free(t); flame_free(l);
  return read_all(g) && good;
}

static int transfers(flame_context *c) {
  flame_tensor *x = ramp(c, 4, 6), *h = flame_to_device(x, "cpu"), *y = flame_exp(h),
               *d = flame_to_device(y, "cuda");
  flame_free(x);
  flame_free(h);
  flame_free(y);
  return read_all(d);
}

/* Makes one call on x (and y, if not NULL) with a result of n numbers, and reads it; 0 if it
** fails. */
static int call(flame_context *c, int kind, flame_tensor *x, flame_tensor *y, int64_t n, int np,
                const int64_t *p) {
  flame_tensor *out = NULL;
  if (x) {
    FL_ENTER(c);
    fl_node *in[2] = { x->node, y ? y->node : NULL };
    out = fl_tensor_new(c, n_call(c, kind, fl_calls[kind].name, y ? 2 : 1, in, 1, FLAME_F32, 1, &n,
                                  np, p, NULL, 0, NULL));
    FL_LEAVE(c);
  }
  const int good = out && flame_eval(c) == FLAME_OK;
  flame_free(out);
  return good;
}

static flame_tensor *full(flame_context *c, int64_t n) {
  return flame_full(c, FLAME_F32, 1, &n, 0.5);
}

/* Fourier transforms: complex, real to a half spectrum and back, along an inner axis, with copies
** through scratch memory. */
static int transforms(flame_context *c) {
  flame_tensor *x = full(c, 48), *h = full(c, 8);
  const int good = call(c, FL_CALL_fft, x, NULL, 48, 8, (int64_t[]){ 4, 6, 1, 6, 6, 0, 0, 0 }) &&
                   call(c, FL_CALL_fft, x, NULL, 48, 8, (int64_t[]){ 1, 6, 4, 6, 6, 0, 1, 1 }) &&
                   call(c, FL_CALL_fft, x, NULL, 64, 8, (int64_t[]){ 2, 6, 4, 8, 4, 1, 0, 0 }) &&
                   call(c, FL_CALL_fft, h, NULL, 6, 8, (int64_t[]){ 1, 4, 1, 6, 6, 2, 1, 2 });
  flame_free(x);
  flame_free(h);
  return good;
}

/* One matrix, and a batch of two. */
static int equations(flame_context *c) {
  flame_tensor *a = full(c, 9), *b = full(c, 6), *aa = full(c, 18), *bb = full(c, 12);
  int good = a && b && aa && bb;
  for (int64_t n = 1; n <= 2 && good; n++) {
    flame_tensor *x = n == 1 ? a : aa, *y = n == 1 ? b : bb;
    good = call(c, FL_CALL_inverse, x, NULL, 9 * n, 4, (int64_t[]){ n, n > 1, 3, 0 }) &&
           call(c, FL_CALL_solve, x, y, 6 * n, 4, (int64_t[]){ n, n > 1, 3, 2 }) &&
           call(c, FL_CALL_triangular, x, y, 6 * n, 6, (int64_t[]){ n, n > 1, 3, 2, 1, 0 }) &&
           call(c, FL_CALL_cholesky, x, NULL, 9 * n, 4, (int64_t[]){ n, n > 1, 3, 0 }) &&
           call(c, FL_CALL_determinant, x, NULL, 3 * n, 3, (int64_t[]){ n, n > 1, 3 }) &&
           call(c, FL_CALL_lu, x, NULL, 12 * n, 4, (int64_t[]){ n, n > 1, 3, 3 });
  }
  flame_free(a);
  flame_free(b);
  flame_free(aa);
  flame_free(bb);
  return good;
}

/* QR, SVD and eigenvalues: small matrices, done in shared memory by our kernels, and large ones,
** done by cuSOLVER. */
static int spectra(flame_context *c) {
  enum { N = 260 };
  flame_tensor *a = full(c, 18), *big = full(c, N * N);
  const int good = call(c, FL_CALL_qr, a, NULL, 2 * (9 + 9), 6, (int64_t[]){ 2, 1, 3, 3, 0, 1 }) &&
                   call(c, FL_CALL_svd, a, NULL, 2 * (9 + 3 + 9), 6,
                        (int64_t[]){ 2, 1, 3, 3, 0, 1 }) &&
                   call(c, FL_CALL_eigh, a, NULL, 2 * (3 + 9), 5, (int64_t[]){ 2, 1, 3, 0, 1 }) &&
                   call(c, FL_CALL_qr, big, NULL, 2 * N * N, 6, (int64_t[]){ 1, 0, N, N, 0, 1 }) &&
                   call(c, FL_CALL_svd, big, NULL, 2 * N * N + N, 6,
                        (int64_t[]){ 1, 0, N, N, 0, 1 }) &&
                   call(c, FL_CALL_svd, big, NULL, N, 6, (int64_t[]){ 1, 0, N, N, 0, 0 }) &&
                   call(c, FL_CALL_eigh, big, NULL, N + N * N, 5, (int64_t[]){ 1, 0, N, 1, 1 });
  flame_free(a);
  flame_free(big);
  return good;
}

/* 4 by 4, of one number. */
static flame_tensor *square(flame_context *c, float number) {
  float data[16];
  for (int i = 0; i < 16; i++) data[i] = number;
  return flame_from_data(c, FLAME_F32, 2, (int64_t[]){ 4, 4 }, data);
}

/* A chain of products, run again and again: from the third run on it is replayed as a CUDA graph,
** whose products the fake driver (fake_graph.c) computes as it does those outside of graphs. One
** result is held, and the last runs have another input. */
static int replays(flame_context *c) {
  enum { RUNS = 7, HELD = 3, OTHER = 5 };
  flame_tensor *m = square(c, 0.5f), *x = square(c, 1), *x2 = square(c, 2), *held = NULL;
  int good = m && x && x2;
  for (int run = 0; good && run < RUNS; run++) {
    const float in = run < OTHER ? 1 : 2;
    float first[16] = { 0 }, last[16] = { 0 };
    flame_tensor *y = flame_matmul(run < OTHER ? x : x2, m), *z = y;
    for (int i = 1; i < 5; i++) {
      flame_tensor *next = flame_matmul(z, m);
      if (i > 1) flame_free(z);
      z = next;
    }
    good = z && flame_read(z, last, sizeof last) == FLAME_OK &&
           flame_read(y, first, sizeof first) == FLAME_OK;
    if (good && fake.nlaunch == 0)           /* else our kernels ran, which compute nothing */
      CHECK(first[3] == 2 * in && last[5] == 32 * in, "replays", run);
    flame_free(y);
    if (run == HELD) held = z;
    else flame_free(z);
  }
  flame_free(m); flame_free(x); flame_free(x2);
  return read_all(held) && good;
}

static const struct { const char *name; int (*run)(flame_context *c); } families[] = {
  { "elementwise", elementwise }, { "reductions", reductions }, { "products", products },
  { "views", views },
  { "writes", writes }, { "indexing", indexing }, { "numbers", numbers },
  { "gradients", gradients },
  { "transfers", transfers }, { "transforms", transforms }, { "equations", equations },
  { "spectra", spectra }, { "replays", replays },
};
enum { FAMILIES = sizeof families / sizeof *families };

/* ---- one failure ----------------------------------------------------------------------------- */

static int run_family(flame_context *c, int f) { return open_device(c) && families[f].run(c); }

/* 1 if the CPU device of the context still computes after the GPU was lost. */
static int host_goes_on(flame_context *c) {
  float v[3] = { 0 };
  c->default_device = 0;
  flame_tensor *x = flame_full(c, FLAME_F32, 1, (int64_t[]){ 3 }, 2), *y = flame_add(x, x);
  const int good = flame_eval(c) == FLAME_OK && flame_read(y, v, sizeof v) == FLAME_OK && v[2] == 4;
  flame_free(x);
  flame_free(y);
  c->default_device = 1;
  return good;
}

static void one_call(int f, int64_t k, fl_cu_result code, int forever) {
  const char *name = families[f].name;
  fake_reset();
  flame_context *c = open_context();
  fake.code = code;
  fake.fail_at = k;
  fake.forever = forever;
  const int good = run_family(c, f);
  if (!good) CHECK(flame_error_code(c) != FLAME_OK, name, k);
  CHECK(c->tensors.live == 0, name, k);
  const char *which = fake.failed;
  const int sticky = fake_is_sticky(code);
  fake.fail_at = 0;
  if (!sticky) fake.failed = NULL;
  if (!c->dead && !sticky) {
    flame_clear_error(c);
    const int again = run_family(c, f);
    if (!again) printf("  after %s: %s\n", which ? which : "?", flame_error(c));
    CHECK(again, name, k);
  } else if (!good && c->dead) {
    const flame_status first = flame_error_code(c);
    flame_clear_error(c);
    const int by_driver = which && strncmp(which, "nvrtc", 5) != 0 && strncmp(which, "cu", 2) != 0;
    CHECK(first == FLAME_DEVICE_LOST || !by_driver, name, k);   /* otherwise the compiler failed
                                                                ** first */
    CHECK(flame_error_code(c) == FLAME_OK, name, k);
    CHECK(flame_full(c, FLAME_F32, 0, NULL, 1) == NULL && flame_error_code(c) == FLAME_DEVICE_LOST,
          name, k);
    flame_clear_error(c);
    CHECK(host_goes_on(c), name, k);
  }
  close_context(c, name, k);
}

static void calls_fail(int step) {
  static const fl_cu_result codes[] = { FL_CU_OUT_OF_MEMORY, FL_CU_ILLEGAL_ADDRESS,
                                        FL_CU_INVALID_VALUE };
  for (int f = 0; f < FAMILIES; f++) {
    fake_reset();
    flame_context *c = open_context();
    const int good = run_family(c, f);
    if (!good) printf("  %s\n", flame_error(c));
    const int64_t calls = fake.calls;
    CHECK(good, families[f].name, 0);
    CHECK(families[f].run != replays || fake.graph_launches > 0, families[f].name, 0);
    close_context(c, families[f].name, 0);
    for (int i = 0; i < 3; i++)
      for (int forever = 0; forever < 2; forever++)
        for (int64_t k = 1; good && k <= calls; k += step) one_call(f, k, codes[i], forever);
    if (getenv("FLAME_OOM_COUNTS")) printf("%s: %lld calls\n", families[f].name, (long long)calls);
  }
}

static void host_allocations_fail(int step) {
  for (int f = 0; f < FAMILIES; f++)
    for (int forever = 0; forever < 2; forever++)
      for (int64_t k = 1, reached = 1; reached; k += step) {
        fake_reset();
        flame_context *c = open_context();
        c->mem.fail_at = c->mem.calls + k;
        c->mem.fail_forever = forever;
        const int good = run_family(c, f);
        reached = c->mem.calls >= c->mem.fail_at;
        if (!good) CHECK(flame_error_code(c) == FLAME_NO_MEMORY, families[f].name, k);
        c->mem.fail_at = 0;
        flame_clear_error(c);
        CHECK(c->tensors.live == 0, families[f].name, k);
        const int again = run_family(c, f);
        if (!again) printf("  %s\n", flame_error(c));
        CHECK(again, families[f].name, k);
        close_context(c, families[f].name, k);
      }
}

/* ---- a full device, a busy device ------------------------------------------------------------ */

static int collected;
static void collect(void *arg, int times) {
  flame_tensor **garbage = arg;
  collected += times;
  flame_free(*garbage);
  *garbage = NULL;
}

/* If device memory is exhausted, the library must collect garbage, free cached memory and try
** again, and only then fail, with the numbers of bytes in the message. */
static void a_full_device_collects_before_it_fails(void) {
  fake_reset();
  flame_context *c = open_context();
  CHECK(open_device(c), "full", 0);
  fake.capacity = fake.bytes + (96 << 20);
  flame_tensor *garbage = flame_full(c, FLAME_F32, 1, (int64_t[]){ 16 << 20 }, 1);      /* 64 MB */
  CHECK(flame_eval(c) == FLAME_OK, "full", 0);
  c->collector.full = collect;
  c->collector.arg = &garbage;
  flame_tensor *x = flame_full(c, FLAME_F32, 1, (int64_t[]){ 20 << 20 }, 1);           /* 80 MB */
  CHECK(flame_eval(c) == FLAME_OK && collected > 0, "full", 1);
  flame_tensor *y = flame_full(c, FLAME_F32, 1, (int64_t[]){ 20 << 20 }, 2);
  CHECK(flame_eval(c) == FLAME_NO_MEMORY, "full", 2);
  CHECK(strstr(flame_error(c), "asked") != NULL && strstr(flame_error(c), "live") != NULL, "full",
        3);
  flame_clear_error(c);
  c->collector.full = NULL;
  flame_free(x);
  CHECK(flame_eval(c) == FLAME_OK, "full", 4);
  flame_free(y);
  fake.capacity = 1ll << 30;
  close_context(c, "full", 5);
}

static void *ring(void *arg) {
  nanosleep(&(struct timespec){ .tv_nsec = 50 * 1000 * 1000 }, NULL);
  flame_interrupt(arg);
  return NULL;
}

/* The wait for a device that never finishes must end soon after an interrupt. */
static void an_interrupt_ends_the_wait(void) {
  fake_reset();
  flame_context *c = open_context();
  CHECK(run_family(c, 0), "busy", 0);
  flame_tensor *x = ramp(c, 4, 6), *y = flame_exp(x);
  pthread_t t;
  struct timespec a, b;
  float host[24];
  fake.busy = -1;
  CHECK(pthread_create(&t, NULL, ring, c) == 0, "busy", 1);
  clock_gettime(CLOCK_MONOTONIC, &a);
  CHECK(flame_read(y, host, sizeof host) == FLAME_INTERRUPTED, "busy", 2);
  clock_gettime(CLOCK_MONOTONIC, &b);
  pthread_join(t, NULL);
  const double took = (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) * 1e-9 - 0.05;
  CHECK(took < 2, "busy", 3);
  if (getenv("FLAME_OOM_COUNTS")) printf("device wait: %.3f s after the interrupt\n", took);
  fake.busy = 0;
  flame_clear_error(c);
  CHECK(flame_read(x, host, sizeof host) == FLAME_OK && host[8] == 1.0f, "busy", 4);
  CHECK(flame_read(y, host, sizeof host) == FLAME_OK, "busy", 5);
  flame_free(x);
  flame_free(y);
  close_context(c, "busy", 6);
}

int main(void) {
  const int slow = getenv("FLAME_SANITIZE") != NULL;
  setenv("FLAME_CACHE_DIR", "off", 1);
  calls_fail(slow ? 7 : 1);
  host_allocations_fail(slow ? 13 : 1);
  a_full_device_collects_before_it_fails();
  an_interrupt_ends_the_wait();
  printf("test_oom_device: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
