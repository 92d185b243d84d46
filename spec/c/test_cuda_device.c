/*
** Tests of the CUDA device on a real GPU; without one they are skipped with a message. The last
** test makes the driver lose the device; it is left out if the program has any argument, as under
** compute-sanitizer.
*/
#include "cuda_sample.h"
#include "base/env.h"
#include <pthread.h>
#include <time.h>

static flame_status open_device(flame_context *c, fl_device *d) {
  memset(c, 0, sizeof *c);
  memset(d, 0, sizeof *d);
  const flame_status e = fl_cuda_open(c, d, 0);
  if (e != FLAME_OK) printf("%s\n", c->err.message);
  CHECK(e == FLAME_OK);
  return e;
}

static void close_device(flame_context *c, fl_device *d) {
  if (c->err.code != FLAME_OK && !c->dead) printf("error left: %s\n", c->err.message);
  d->table->close(d);
  CHECK(c->mem.live_bytes == 0 && c->mem.live_blocks == 0);
}

static void copies_come_back(void) {
  static const int64_t sizes[] = { 1, 100, 1 << 20, (1 << 20) + 1, 50000001 };
  flame_context c;
  fl_device d;
  if (open_device(&c, &d) != FLAME_OK) return;
  for (int i = 0; i < 5; i++) {
    const int64_t n = sizes[i];
    char *a = malloc((size_t)n), *b = calloc(1, (size_t)n);
    for (int64_t j = 0; j < n; j++) a[j] = (char)(j * 37 + i);
    void *x = d.table->alloc(&d, n), *y = d.table->alloc(&d, n);
    CHECK(d.table->upload(&d, x, a, n) == FLAME_OK && d.table->copy(&d, y, x, n) == FLAME_OK);
    CHECK(d.table->download(&d, b, y, n) == FLAME_OK && memcmp(a, b, (size_t)n) == 0);
    d.table->free(&d, x, n);
    d.table->free(&d, y, n);
    free(a);
    free(b);
  }
  fl_usage use;
  d.table->trim(&d);
  d.table->memory(&d, &use);
  CHECK(use.free > 1 << 30 && use.reserved.now > 0 && use.reserved.now < 100 << 20);
  CHECK(d.table->alloc(&d, 1ll << 42) == NULL && c.err.code == FLAME_OK);     /* no GPU has 4 TB */
  close_device(&c, &d);
}

/* Runs the three kernel steps of the sample plan one by one, since all write the same output. */
static void kernels_compute(void) {
  static sample p;
  static float a[N], b[N], y[N];
  flame_context c;
  fl_device d;
  fl_fault fault;
  int32_t done;
  if (open_device(&c, &d) != FLAME_OK) return;
  for (int i = 0; i < N; i++) a[i] = (float)(i % 17) / 3, b[i] = (float)(i % 29) / 7;
  void *x[4];
  for (int i = 0; i < 4; i++) x[i] = d.table->alloc(&d, sizeof a);
  CHECK(d.table->upload(&d, x[0], a, sizeof a) == FLAME_OK &&
        d.table->upload(&d, x[1], b, sizeof b) == FLAME_OK);
  for (int only = 0; only < 3; only++) {
    make_sample(&p, &c, FL_OP_sub);
    p.plan.step = p.step + only;
    p.plan.nstep = 1;
    CHECK(d.table->prepare(&d, &p.plan) == FLAME_OK);
    for (int turn = 0; turn < 3; turn++)
      CHECK(d.table->run(&d, &p.plan, &(fl_binding){ .ext = x, .out = x + 2,
                                                     .scalar = (fl_scalar[2]){ { 0 } } },
                         &fault, &done) == FLAME_OK && done == 1 && fault.site == -1);
    CHECK(d.table->download(&d, y, x[2], sizeof y) == FLAME_OK);
    int bad = 0;
    for (int i = 0; i < (only == 2 ? N - 4 : N); i++)
      bad += y[i] != (only == 0 ? a[i] + b[i] : only == 1 ? a[i] - b[i] : a[i] * b[i]);
    CHECK(bad == 0);
    drop_sample(&p);
  }
  for (int i = 0; i < 4; i++) d.table->free(&d, x[i], sizeof a);
  close_device(&c, &d);
}

static void products_are_right(void) {
  flame_context c;
  fl_device d;
  if (open_device(&c, &d) != FLAME_OK) return;
  products(&d, FLAME_F32);
  /* products that kernels/small.cu computes: partial tiles, several iterations over k, row-major
  ** and transposed matrices, batches of two axes */
  product(&d, FLAME_F32, &(fl_matmul){ .m = 17, .n = 33, .k = 200, .as = { 200, 1 },
                                       .bs = { 33, 1 } }, 3400, 6600, 561);
  product(&d, FLAME_F32, &(fl_matmul){ .m = 65, .n = 15, .k = 65, .as = { 1, 65 },
                                       .bs = { 1, 65 } }, 4225, 975, 975);
  product(&d, FLAME_F32, &(fl_matmul){ .m = 190, .n = 171, .k = 130, .as = { 131, 1 },
                                       .bs = { 1, 130 }, .coff = 3 }, 24890, 22230, 32493);
  product(&d, FLAME_F32, &(fl_matmul){ .nbatch = 2, .batch = { 7, 3 }, .m = 30, .n = 40, .k = 3,
                                       .as = { 1, 30 }, .bs = { 40, 1 }, .abatch = { 0, 90 },
                                       .bbatch = { 120, 0 }, .cbatch = { 3600, 1200 } },
          270, 840, 25200);
  products(&d, FLAME_F64);
  products(&d, FLAME_F16);
  products(&d, FLAME_BF16);
  products(&d, FLAME_I32);                                    /* by our own kernel */
  for (int dtype = FLAME_F64; dtype <= FLAME_I64; dtype++) {
    product(&d, dtype, &(fl_matmul){ .m = 65, .n = 33, .k = 7, .as = { 7, 1 },
                                     .bs = { 33, 1 } }, 455, 231, 2145);
    product(&d, dtype, &(fl_matmul){ .nbatch = 2, .batch = { 2, 3 }, .m = 16, .n = 8,
                                     .k = 24, .as = { 24, 1 },
                                     .bs = { 1, 24 }, .abatch = { 0, 384 }, .bbatch = { 576, 192 },
                                     .cbatch = { 384, 128 } }, 1152, 1152, 768);
  }
  close_device(&c, &d);
}

static void scatter_adds(void) {
  static float base[10], src[N];
  static int64_t idx[N];
  fl_scatter s = { .dtype = FLAME_F32, .add = 1, .rank = 1, .size = { N }, .extent = 10,
                   .dst_numel = 10, .fault = -1,
    .dst = { .place = { FL_AT_OUT, 0, 0 }, .dtype = FLAME_F32, .gstride = 1 },
    .idx = { .place = { FL_AT_EXT, 0, 0 }, .dtype = FLAME_I64, .stride = { 1 } },
    .src = { .place = { FL_AT_EXT, 1, 0 }, .dtype = FLAME_F32, .stride = { 1 } } };
  fl_step step = { .kind = FL_S_SCATTER, .scatter = &s };
  flame_context c;
  fl_device d;
  fl_fault fault;
  int32_t done;
  float expect[10] = { 0 };
  if (open_device(&c, &d) != FLAME_OK) return;
  fl_out out = { .bytes = sizeof base };
  fl_plan p = { .device = 1, .next = 2, .nout = 1, .out = &out, .nstep = 1, .step = &step,
                .mem = &c.mem };
  for (int i = 0; i < N; i++) {
    idx[i] = i * 7 % 10;
    src[i] = (float)i / 8;
    expect[idx[i]] += src[i];
  }
  void *x[3] = { d.table->alloc(&d, sizeof idx), d.table->alloc(&d, sizeof src),
                 d.table->alloc(&d, sizeof base) };
  CHECK(d.table->upload(&d, x[0], idx, sizeof idx) == FLAME_OK &&
        d.table->upload(&d, x[1], src, sizeof src) == FLAME_OK &&
        d.table->upload(&d, x[2], base, sizeof base) == FLAME_OK);
  CHECK(d.table->prepare(&d, &p) == FLAME_OK);
  CHECK(d.table->run(&d, &p, &(fl_binding){ .ext = x, .out = x + 2 }, &fault,
                     &done) == FLAME_OK);
  CHECK(d.table->download(&d, base, x[2], sizeof base) == FLAME_OK &&
        memcmp(base, expect, sizeof base) == 0);
  p.unprepare(&p);
  for (int i = 0; i < 3; i++) d.table->free(&d, x[i], 0);
  close_device(&c, &d);
}

/* ---- interrupts ---- */

static void *interrupt_soon(void *arg) {
  nanosleep(&(struct timespec){ .tv_nsec = 100 * 1000 * 1000 }, NULL);
  atomic_store(&((flame_context *)arg)->interrupted, 1);
  return NULL;
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Queues some seconds of work. An interrupt must end the wait for it, and the device must be usable
** afterwards. */
static void an_interrupt_ends_a_long_wait(void) {
  enum { SIZE = 8192 };
  flame_context c;
  fl_device d;
  fl_fault fault;
  int32_t done;
  pthread_t t;
  if (open_device(&c, &d) != FLAME_OK) return;
  fl_matmul m = { .dtype = FLAME_F64, .m = SIZE, .n = SIZE, .k = SIZE, .as = { SIZE, 1 },
                  .bs = { SIZE, 1 },
                  .at = { FL_AT_EXT, 0, 0 }, .bt = { FL_AT_EXT, 0,
                                                     0 }, .ct = { FL_AT_OUT, 0, 0 } };
  fl_step step = { .kind = FL_S_MATMUL, .matmul = &m };
  fl_out out = { .bytes = 8ll * SIZE * SIZE };
  fl_plan p = { .device = 1, .next = 1, .nout = 1, .out = &out, .nstep = 1, .step = &step,
                .mem = &c.mem };
  void *x[2] = { d.table->alloc(&d, 8ll * SIZE * SIZE), d.table->alloc(&d, 8ll * SIZE * SIZE) };
  double one;
  CHECK(d.table->prepare(&d, &p) == FLAME_OK);
  for (int i = 0; i < 60; i++)
    CHECK(d.table->run(&d, &p, &(fl_binding){ .ext = x, .out = x + 1 }, &fault,
                       &done) == FLAME_OK);
  CHECK(pthread_create(&t, NULL, interrupt_soon, &c) == 0);
  const double start = seconds();
  CHECK(d.table->sync(&d, &fault) == FLAME_INTERRUPTED);
  CHECK(seconds() - start < 5);
  pthread_join(t, NULL);
  fl_error_clear(&c.err);
  CHECK(d.table->download(&d, &one, x[1], 8) == FLAME_OK);
  p.unprepare(&p);
  close_device(&c, &d);
}

/* ---- the end ---- */

static void a_bad_address_loses_the_device_with_a_reason(void) {
  static sample p;
  flame_context c;
  fl_device d;
  fl_fault fault;
  int32_t done;
  if (open_device(&c, &d) != FLAME_OK) return;
  make_sample(&p, &c, FL_OP_sub);
  p.plan.nstep = 1;
  p.plan.nfault = 0;
  void *bad = (void *)(uintptr_t)0x1000, *x[4] = { bad, bad, bad, bad };
  CHECK(d.table->prepare(&d, &p.plan) == FLAME_OK);
  flame_status e = d.table->run(&d, &p.plan, &(fl_binding){ .ext = x, .out = x + 2,
                                                            .scalar = (fl_scalar[2]){ { 0 } } },
                                &fault, &done);
  if (e == FLAME_OK) e = d.table->sync(&d, &fault);
  CHECK(e == FLAME_DEVICE_LOST && c.dead && strstr(c.err.message,
                                                   "CUDA_ERROR_ILLEGAL_ADDRESS"));
  char first[sizeof c.err.message];
  snprintf(first, sizeof first, "%s", c.err.message);
  fl_error_clear(&c.err);
  CHECK(d.table->sync(&d, &fault) == FLAME_DEVICE_LOST && strcmp(first, c.err.message) == 0);
  drop_sample(&p);
  close_device(&c, &d);
}

int main(int argc, char **argv) {
  (void)argv;
  char reason[240];
  const char *why = "";
  if (fl_cuda_count(reason, sizeof reason) == 0 || !fl_cuda_libraries.nvrtc(&why)) {
    printf("cuda_device: skipped: %s\ncuda_device: 0 passed, 0 failed\n",
           *reason ? reason : why);
    return 0;
  }
  copies_come_back();
  kernels_compute();
  products_are_right();
  scatter_adds();
  an_interrupt_ends_a_long_wait();
  setenv("FLAME_POOL", "0", 1);
  kernels_compute();
  unsetenv("FLAME_POOL");
  if (argc == 1) a_bad_address_loses_the_device_with_a_reason();
  printf("cuda_device: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
