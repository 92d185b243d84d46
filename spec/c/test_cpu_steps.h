/*
** Second half of test_cpu.c: products in every dtype and with many strides, scatter, copies, memory
** when allocations fail, interrupts. Float products are compared within a bound that follows from
** k and the dtype; integers, scatters and copies exactly.
*/
#include <math.h>
#include <pthread.h>
#include <time.h>

static fl_scalar step_scalar;            /* the scalar of plans */

static flame_status run_step(setup *u, fl_step *step, void **ext, int nfault) {
  fl_plan p = { .nstep = 1, .nfault = nfault, .step = step, .mem = &u->c->mem };
  const fl_binding b = { .ext = ext, .scalar = &step_scalar };
  fl_fault fault;
  int32_t done = 0;
  flame_status st = u->d.table->prepare(&u->d, &p);
  if (!st) st = u->d.table->run(&u->d, &p, &b, &fault, &done);
  if (!st && done != 1) st = FLAME_INTERNAL;
  if (p.unprepare) p.unprepare(&p);
  return st;
}

/* ---- products -------------------------------------------------------------------------------- */

static fl_scalar element(const char *p, int64_t i, int dtype) {
  return fl_scalar_load(p + i * fl_dtype_size(dtype), dtype);
}

static double epsilon(int dtype) {
  return dtype == FLAME_F64 ? 0x1p-52 : dtype == FLAME_F32 ? 0x1p-23 : dtype == FLAME_F16
         ? 0x1p-10 : 0x1p-7;
}

/* 1 if element (i, j) of one product equals the sum in f64 within its bound, or in i64 exactly. */
static int right(const fl_matmul *m, const char *a, const char *b, const char *c, int64_t ao,
                 int64_t bo, int64_t co, int64_t i, int64_t j) {
  double sum = 0, size = 0;
  uint64_t whole = 0;
  for (int64_t p = 0; p < m->k; p++) {
    const fl_scalar x = element(a, m->aoff + ao + i * m->as[0] + p * m->as[1], m->dtype);
    const fl_scalar y = element(b, m->boff + bo + p * m->bs[0] + j * m->bs[1], m->dtype);
    if (fl_is_float(m->dtype)) { sum += x.d * y.d; size += fabs(x.d * y.d); }
    else if (m->dtype == FLAME_BOOL) whole |= (uint64_t)(x.i & y.i);
    else whole += (uint64_t)x.i * (uint64_t)y.i;
  }
  const fl_scalar got = element(c, m->coff + co + i * m->n + j, m->dtype);
  if (!fl_is_float(m->dtype))
    return got.i == fl_scalar_cast((fl_scalar){ .i = (int64_t)whole }, FLAME_I64, m->dtype).i;
  const double inner = m->dtype == FLAME_F64 ? 0x1p-52 : 0x1p-23;     /* sums are in f32 at least */
  return fabs(got.d - sum) <= (double)(m->k + 4) * inner * size +
         epsilon(m->dtype) * (fabs(sum) + size * inner) + 1e-7 * epsilon(m->dtype);
}

static char *numbers(int64_t n, int dtype) {
  char *p = malloc((size_t)(n + 1) * (size_t)fl_dtype_size(dtype));
  for (int64_t i = 0; i < n; i++) {
    fl_scalar v;
    if (fl_is_float(dtype)) v.d = (unit() - 0.5) * 2;
    else v.i = dtype == FLAME_BOOL ? pick(9) == 0 : pick(200) - 100;
    fl_scalar_store(p + i * fl_dtype_size(dtype), dtype, v);
  }
  return p;
}

/* Random strides s of a rows x cols matrix: row-major or transposed, perhaps padded; odd 1: with
** elements two apart; odd 2: one stride is 0. Returns a number of elements that is enough. */
static int64_t matrix(int64_t rows, int64_t cols, int64_t s[2], int odd) {
  const int64_t gap = pick(3) ? 0 : 1 + pick(9);
  if (pick(2)) { s[0] = cols + gap; s[1] = 1; }
  else { s[0] = 1; s[1] = rows + gap; }
  if (odd == 1) { s[0] *= 2; s[1] *= 2; }
  if (odd == 2) s[pick(2)] = 0;
  return (rows + 2) * (cols + 2) * 2 + (rows + cols + 40) * 20;
}

/* 1 if 40 random elements of the batched product c = a b are right, or if there are no elements. */
static int right_somewhere(const fl_matmul *m, const char *a, const char *b, const char *c) {
  for (int tries = 0; tries < 40 && m->m && m->n; tries++) {
    int64_t ao = 0, bo = 0, co = 0;
    for (int d = 0; d < m->nbatch; d++) {
      if (!m->batch[d]) return 1;
      const int64_t x = pick((int)m->batch[d]);
      ao += x * m->abatch[d];
      bo += x * m->bbatch[d];
      co += x * m->cbatch[d];
    }
    if (!right(m, a, b, c, ao, bo, co, pick((int)m->m), pick((int)m->n))) return 0;
  }
  return 1;
}

static void random_product(setup *u, long seed) {
  static const int sizes[] = { 0, 1, 2, 3, 5, 7, 12, 16, 31, 33, 64, 65, 100, 130, 257 };
  state = (uint64_t)seed * 991;
  fl_matmul m = { .dtype = (uint8_t)pick(FLAME_DTYPE_COUNT), .nbatch = (uint8_t)pick(3) };
  const int big = pick(8) == 0;
  m.m = sizes[pick(big ? 15 : 12)];
  m.n = sizes[pick(big ? 15 : 12)];
  m.k = pick(20) == 0 ? 700 : sizes[pick(big ? 15 : 12)];
  const int odd = pick(6);
  const int64_t an = matrix(m.m, m.k, m.as, odd), bn = matrix(m.k, m.n, m.bs, odd == 3 ? 1 : 0);
  m.general = odd == 1 || odd == 2 || odd == 3;
  int64_t count = 1;
  for (int d = m.nbatch - 1; d >= 0; d--) {
    m.batch[d] = pick(8) ? 1 + pick(4) : 0;
    m.abatch[d] = pick(4) ? an * count : 0;
    m.bbatch[d] = pick(4) ? bn * count : 0;
    m.cbatch[d] = m.m * m.n * count;
    count *= m.batch[d] ? m.batch[d] : 1;
  }
  m.aoff = pick(5);
  m.boff = pick(5);
  m.coff = pick(5);
  m.bt.index = 1;
  m.ct.index = 2;
  char *a = numbers(an * count + 16, m.dtype), *b = numbers(bn * count + 16, m.dtype);
  char *c = numbers(m.m * m.n * count + 16, m.dtype);
  void *ext[3] = { a, b, c };
  fl_step step = { .kind = FL_S_MATMUL, .matmul = &m };
  const int ok = run_step(u, &step, ext, 0) == FLAME_OK && right_somewhere(&m, a, b, c);
  check(ok, "product", seed);
  free(a);
  free(b);
  free(c);
}

/* Checks that a product has the same bits on both setups, one with more threads than the other. */
static void same_product(setup *one, setup *two) {
  const int64_t n = 300;
  char *a = numbers(n * n, FLAME_F32), *b = numbers(n * n, FLAME_F32),
       *c = numbers(n * n, FLAME_F32), *d = numbers(n * n, FLAME_F32);
  void *first[3] = { a, b, c }, *second[3] = { a, b, d };
  fl_matmul m = { .dtype = FLAME_F32, .m = n, .n = n, .k = n, .as = { n, 1 }, .bs = { 1, n } };
  fl_step step = { .kind = FL_S_MATMUL, .matmul = &m };
  m.bt.index = 1;
  m.ct.index = 2;
  const int ran = !run_step(one, &step, first, 0) && !run_step(two, &step, second, 0);
  check(ran && !memcmp(c, d, (size_t)(4 * n * n)), "a product is the same on two threads", 0);
  free(a);
  free(b);
  free(c);
  free(d);
}

/* ---- scatter and copy ------------------------------------------------------------------------ */

static void reference_scatter(const fl_scatter *s, char *dst, const int64_t *idx, const char *src) {
  const int64_t n = s->dst_numel, points = s->size[0] * s->size[1];
  fl_scalar *sum = malloc(sizeof *sum * (size_t)(n + 1));
  for (int64_t i = 0; i < n; i++) sum[i] = element(dst, i, s->dtype);
  for (int64_t p = 0; p < points; p++) {
    const int64_t r = p / s->size[1], q = p % s->size[1];
    const int64_t to = r * s->dst.stride[0] + q * s->dst.stride[1] +
                       idx[r * s->idx.stride[0] + q * s->idx.stride[1]] * s->dst.gstride;
    const fl_scalar v = element(src, r * s->src.stride[0] + q * s->src.stride[1], s->dtype);
    if (!s->add) sum[to] = v;
    else if (s->dtype == FLAME_F64) sum[to].d += v.d;
    else if (fl_is_float(s->dtype)) sum[to].d = (double)((float)sum[to].d + (float)v.d);
    else if (s->dtype == FLAME_BOOL) sum[to].i |= v.i;
    else sum[to].i = (int64_t)((uint64_t)sum[to].i + (uint64_t)v.i);
  }
  for (int64_t i = 0; i < n; i++)
    fl_scalar_store(dst + i * fl_dtype_size(s->dtype), s->dtype, sum[i]);
  free(sum);
}

/* Runs the scatter s with 1-based indices that are checked, which must give 'want'; then with one
** index out of range, which must fail. */
static void checked_scatter(setup *u, fl_scatter s, void **ext, const char *want, char *dst,
                            long seed) {
  int64_t *idx = ext[1];
  const int64_t points = s.size[0] * s.size[1], bytes = s.dst_numel * fl_dtype_size(s.dtype);
  fl_step step = { .kind = FL_S_SCATTER, .scatter = &s };
  for (int64_t i = 0; i < points; i++) idx[i]++;
  s.fault = 0;
  step_scalar.i = s.extent;
  s.position[0] = s.idx.stride[1] ? s.size[1] : 1;
  s.position[1] = s.idx.stride[1];
  ext[0] = dst;
  check(run_step(u, &step, ext, 1) == FLAME_OK && same(want, dst, bytes, s.dtype),
        "scatter that checks", seed);
  idx[(s.size[0] - 1) * s.idx.stride[0]] = s.extent + 1;
  check(run_step(u, &step, ext, 1) == FLAME_INTERNAL, "scatter that reports", seed);
}

/* Tests a scatter: rows of src are copied to, or added to, the rows of dst that idx names. idx has
** one index per row or per element. */
static void random_scatter(setup *u, long seed) {
  state = (uint64_t)seed * 7717;
  const int64_t rows = 1 + pick(seed % 7 == 0 ? 900 : 40), cols = 1 + pick(60),
                table = 1 + pick(20);
  fl_scatter s = { .dtype = (uint8_t)pick(FLAME_DTYPE_COUNT), .add = (uint8_t)pick(2), .rank = 2,
                   .size = { rows, cols },
                   .extent = table, .dst_numel = table * cols, .fault = -1 };
  const int each = pick(2);
  s.dst = (fl_operand){ .dtype = s.dtype, .stride = { 0, 1 }, .gstride = cols };
  s.idx = (fl_operand){ .place = { FL_AT_EXT, 1, 0 }, .dtype = FLAME_I64,
                        .stride = { each ? cols : 1, each } };
  s.src = (fl_operand){ .place = { FL_AT_EXT, 2, 0 }, .dtype = s.dtype,
                        .stride = { pick(4) ? cols : 0, 1 } };
  char *dst = numbers(s.dst_numel, s.dtype), *want = malloc((size_t)(s.dst_numel * 8)),
       *src = numbers(rows * cols, s.dtype);
  char *again = malloc((size_t)(s.dst_numel * 8));
  int64_t *idx = malloc(sizeof *idx * (size_t)(rows * cols));
  for (int64_t i = 0; i < rows * cols; i++) idx[i] = pick((int)table);
  memcpy(want, dst, (size_t)(s.dst_numel * fl_dtype_size(s.dtype)));
  memcpy(again, dst, (size_t)(s.dst_numel * fl_dtype_size(s.dtype)));
  reference_scatter(&s, want, idx, src);
  void *ext[3] = { dst, idx, src };
  fl_step step = { .kind = FL_S_SCATTER, .scatter = &s };
  check(run_step(u, &step, ext, 0) == FLAME_OK &&
        same(want, dst, s.dst_numel * fl_dtype_size(s.dtype), s.dtype), "scatter", seed);
  checked_scatter(u, s, ext, want, again, seed);
  free(dst);
  free(again);
  free(want);
  free(src);
  free(idx);
}

static void test_copy(setup *u) {
  const int64_t bytes = 5000001;
  char *a = malloc((size_t)bytes), *b = calloc(1, (size_t)bytes);
  for (int64_t i = 0; i < bytes; i++) a[i] = (char)(i * 7 + i / 1000);
  void *ext[2] = { a, b };
  fl_step step = { .kind = FL_S_COPY, .bytes = bytes };
  step.to.index = 1;
  check(run_step(u, &step, ext, 0) == FLAME_OK && !memcmp(a, b, (size_t)bytes), "copy", 0);
  free(a);
  free(b);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void test_memory(setup *u) {
  const fl_device_table *t = u->d.table;
  fl_usage before, use;
  t->memory(&u->d, &before);                                  /* scratch of the steps above */
  void *p = t->alloc(&u->d, 1000), *q = t->alloc(&u->d, 0);
  check(p && q && ((uintptr_t)p & 63) == 0, "memory is aligned; no bytes is a block", 0);
  t->free(&u->d, p, 1000);
  void *r = t->alloc(&u->d, 1010);
  check(r == p, "a freed block of the class is used again", 0);
  t->free(&u->d, r, 1010);
  t->free(&u->d, q, 0);
  t->trim(&u->d);
  t->memory(&u->d, &use);
  check(use.free > 0 && use.reserved.now == use.used.now, "trim gives all back", 0);
  check(use.used.now == before.used.now && use.used.peak >= before.used.now + 1010,
        "what was used is counted", 0);
  u->c->mem.fail_at = u->c->mem.calls + 1;
  check(t->alloc(&u->d, 1 << 20) == NULL, "allocation fails on purpose", 0);
  u->c->mem.fail_at = 0;
  for (int64_t n = 1; n < 100000; n += 1 + n / 3) {
    char *x = t->alloc(&u->d, n);
    memset(x, 1, (size_t)n);
    t->free(&u->d, x, n);
  }
}

/* The k-th allocation of prepare fails, for every k, alone and then with all that follow it. There
** must be an error and no leak. */
static void test_failing(void) {
  for (int forever = 0; forever < 2; forever++) {
    sample *s = random_kernel(4242, 0);
    setup *u = open_setup("", 2, "off");
    char *at[1][MAX_OPERANDS];
    fl_fault fault;
    int failures = 0, done = 0;
    for (int k = 1; k < 200 && !done; k++) {
      copies(s, at[0]);
      u->c->mem.fail_at = u->c->mem.calls + k;
      u->c->mem.fail_forever = forever;
      fl_error_clear(&u->c->err);
      const flame_status st = run_samples(u, &s, 1, at, &fault);
      u->c->mem.fail_at = 0;
      if (st == FLAME_NO_MEMORY && u->c->err.code == FLAME_NO_MEMORY) failures++;
      else done = st == FLAME_OK ? 1 : 2;
      free_copies(s, at[0]);
    }
    check(failures > 5 && done == 1, "each allocation of prepare may fail", failures);
    close_setup(u, "nothing is lost when allocations fail");
    free_kernel(s);
  }
}

/* ---- interrupts ------------------------------------------------------------------------------ */

static void *interrupt_soon(void *arg) {
  const struct timespec wait = { 0, 20 * 1000 * 1000 };
  nanosleep(&wait, NULL);
  atomic_store((atomic_int *)arg, 1);
  return NULL;
}

/* A long product stops soon after the flag 'interrupted' is set, returns FLAME_INTERRUPTED, and
** clears the flag. */
static void test_interrupt(setup *u, const char *what) {
  const int64_t n = 4096;
  char *a = calloc((size_t)(n * n), 4), *b = calloc((size_t)(n * n), 4),
       *c = calloc((size_t)(n * n), 4);
  void *ext[3] = { a, b, c };
  fl_matmul m = { .dtype = FLAME_F32, .m = n, .n = n, .k = n, .as = { n, 1 }, .bs = { n, 1 } };
  fl_step step = { .kind = FL_S_MATMUL, .matmul = &m };
  pthread_t thread;
  m.bt.index = 1;
  m.ct.index = 2;
  pthread_create(&thread, NULL, interrupt_soon, &u->c->interrupted);
  const flame_status st = run_step(u, &step, ext, 0);
  pthread_join(thread, NULL);
  check(st == FLAME_INTERRUPTED && atomic_load(&u->c->interrupted) == 0, what, 0);
  fl_error_clear(&u->c->err);
  free(a);
  free(b);
  free(c);
}

static void test_steps(setup **u, int nu) {
  for (int i = 0; i < nu; i++) {
    for (long seed = 1; seed <= 150; seed++) random_product(u[i], seed);
    for (long seed = 1; seed <= 60; seed++) random_scatter(u[i], seed);
    test_copy(u[i]);
    test_memory(u[i]);
  }
  same_product(u[nu - 2], u[nu - 1]);
  test_failing();
  test_interrupt(u[nu - 1], "our own product is interrupted");
  if (!getenv("FLAME_TEST_NO_BLAS")) {
    setup *v = open_setup("base", 1, "");
    for (long seed = 1; seed <= 150; seed++) random_product(v, seed);
    test_interrupt(v, "the library's product is interrupted");
    close_setup(v, "closing leaves nothing, with the library");
  }
}
