/*
** Fourier transforms and linear algebra on the fake driver: which implementation a call uses with
** the libraries and without them, which plans are cached, and what happens when a library refuses a
** call. The fake cuFFT computes, but our kernels do not run, so values are compared only for
** transforms that need no kernel before or after the library's call.
*/
#include "fake_driver.c"
#include "cuda/cuda.h"
#include "engine/engine.h"
#include "flame.h"
#include "tensor/build.h"
#include "tensor/tensor.h"

static int passed, failed;
static void check_at(int ok, const char *what, int line) {
  if (ok) { passed++; return; }
  failed++;
  printf("test_cuda_math.c:%d: failed: %s\n", line, what);
}
#define CHECK(x) check_at((x) != 0, #x, __LINE__)

static flame_context *open_context(void) {
  const flame_options o = { .size = sizeof(flame_options), .device = "cpu", .threads = 1 };
  flame_context *c = flame_open(&o);
  fl_engine *e = c->engine;
  fl_device *d = &e->device[1];
  c->default_device = 1;
  d->ctx = c;
  d->index = 1;
  e->open[1] = fl_cuda_open_with(c, d, 0, &fake_libraries) == FLAME_OK;
  CHECK(e->open[1]);
  return c;
}

static void close_context(flame_context *c) {
  flame_close(c);
  CHECK(fake_leaks() == 0 && fake.bytes == 0);
}

/* Runs one call on n_in numbers and reads its n results into y (NULL: it is only evaluated). */
static flame_status call_on(flame_context *c, int device, int kind, int dtype, int64_t n_in,
                            const void *x, int64_t n, void *y, int np, const int64_t *p) {
  flame_tensor *in = flame_from_data(c, (flame_dtype)dtype, 1, &n_in, x), *out = NULL;
  if (in) {
    FL_ENTER(c);
    fl_node *a = in->node;
    out = fl_tensor_new(c, n_call(c, kind, fl_calls[kind].name, 1, &a, device, dtype, 1, &n, np, p,
                                  NULL, 0, NULL));
    FL_LEAVE(c);
  }
  flame_status e = !out ? flame_error_code(c) : y
                   ? flame_read(out, y, (size_t)(n * fl_dtype_size(dtype))) : flame_eval(c);
  flame_free(in);
  flame_free(out);
  return e;
}

static flame_status call(flame_context *c, int kind, int dtype, int64_t n_in, const void *x,
                         int64_t n, void *y, int np, const int64_t *p) {
  return call_on(c, 1, kind, dtype, n_in, x, n, y, np, p);
}

static double numbers[1 << 20], results[1 << 20];

static double at(const double *x, int64_t i, int complex_parts, int part) {
  return complex_parts == 2 ? x[2 * i + part] : part ? 0 : x[i];
}

/* The largest difference of y from the transform of x by its definition, along the middle one of
** the axes (outer, n, inner) = (p[0], p[3], p[2]). */
static double wrong_by(const int64_t *p, const double *x, const double *y) {
  const int64_t outer = p[0], n = p[3], inner = p[2], last = p[5] == 1 ? n / 2 + 1 : n;
  const int parts = p[5] == 1 ? 1 : 2, sign = p[6] ? 1 : -1;
  double worst = 0;
  for (int64_t o = 0; o < outer; o++)
    for (int64_t i = 0; i < inner; i += inner > 100 ? inner / 7 : 1)
      for (int64_t k = 0; k < last; k++) {
        double re = 0, im = 0;
        for (int64_t j = 0; j < n; j++) {
          const double w = sign * 2 * 3.14159265358979323846 * (double)(j * k % n) / (double)n;
          const int64_t e = (o * n + j) * inner + i;
          re += at(x, e, parts, 0) * cos(w) - at(x, e, parts, 1) * sin(w);
          im += at(x, e, parts, 0) * sin(w) + at(x, e, parts, 1) * cos(w);
        }
        const int64_t e = (o * last + k) * inner + i;
        worst = fmax(worst, fmax(fabs(y[2 * e] - re), fabs(y[2 * e + 1] - im)));
      }
  return worst;
}

static void transforms_are_those_of_the_definition(void) {
  static const int64_t forms[][8] = {
    { 3, 7, 1, 7, 7, 0, 0, 0 }, { 3, 7, 1, 7, 7, 0, 1, 0 }, { 1, 6, 5, 6, 6, 0, 0, 0 },
    { 4, 9, 1, 9, 5, 1, 0, 0 },
    { 1, 8, 3, 8, 5, 1, 0, 0 } };
  fake_reset();
  flame_context *c = open_context();
  for (int64_t i = 0; i < 1 << 20; i++) numbers[i] = (double)(i * 7919 % 1000) / 500 - 1;
  for (int i = 0; i < 5; i++) {
    const int64_t *p = forms[i], n_in = p[0] * p[1] * p[2] * (p[5] == 1 ? 1 : 2),
                  n = p[0] * p[4] * p[2] * 2;
    fake.nlaunch = 0;
    CHECK(call(c, FL_CALL_fft, FLAME_F64, n_in, numbers, n, results, 8, p) == FLAME_OK);
    CHECK(wrong_by(p, numbers, results) < 1e-12 && fake.nlaunch == 0);
  }
  /* Large interleaved signals (inner > 1): cuFFT is called once for each of the 2 outer indices. */
  const int64_t large[8] = { 2, 2, 1 << 18, 2, 2, 0, 0, 0 };
  const int64_t before = fake.transforms;
  CHECK(call(c, FL_CALL_fft, FLAME_F32, 1 << 21, numbers, 1 << 21, NULL, 8, large) == FLAME_OK);
  CHECK(fake.transforms == before + 2 && fake.nlaunch == 0);
  close_context(c);
}

/* A transform of two axes takes one plan, or two passes if cuFFT refuses that plan. The CPU must
** compute the same, in one call or in two. */
static void two_axes(void) {
  static double once[2 * 60], first[2 * 60], second[2 * 60];
  const int64_t both[9] = { 3, 5, 1, 5, 5, 0, 0, 0, 4 }, one[8] = { 3, 4, 5, 4, 4, 0, 0, 0 },
                other[8] = { 12, 5, 1, 5, 5, 0, 0, 0 };
  fake_reset();
  flame_context *c = open_context();
  CHECK(call(c, FL_CALL_fft, FLAME_F64, 120, numbers, 120, once, 9, both) == FLAME_OK &&
        fake.transforms == 1);
  CHECK(fake.nlaunch == 0);
  flame_context *host = flame_open(FLAME_OPTIONS(.device = "cpu", .threads = 1));
  CHECK(call_on(host, 0, FL_CALL_fft, FLAME_F64, 120, numbers, 120, first, 8, one) == FLAME_OK);
  CHECK(call_on(host, 0, FL_CALL_fft, FLAME_F64, 120, first, 120, second, 8, other) == FLAME_OK);
  for (int i = 0; i < 120; i++) CHECK(fabs(once[i] - second[i]) < 1e-12);
  CHECK(call_on(host, 0, FL_CALL_fft, FLAME_F64, 120, numbers, 120, first, 9, both) == FLAME_OK);
  CHECK(memcmp(first, second, sizeof first) == 0);
  flame_close(host);
  fake_reset();
  fake.only = "cufftMakePlanMany64";
  fake.fail_at = 1;
  fake.code = FL_CU_INVALID_VALUE;
  const int64_t larger[9] = { 3, 5, 1, 5, 5, 0, 0, 1, 6 };
  CHECK(call(c, FL_CALL_fft, FLAME_F64, 180, numbers, 180, NULL, 9, larger) == FLAME_OK &&
        fake.failed);
  /* one pass copies to rows and back, the other one only scales: three kernels */
  CHECK(fake.transforms == 2 && fake.nlaunch == 3);
  close_context(c);
}

static void what_goes_around_a_transform(void) {
  static const struct { int64_t p[8]; const char *first, *last; int64_t n; } cases[] = {
    { { 2, 4, 1, 4, 4, 0, 1, 1 }, "fft_scale", "fft_scale", 1 },       /* a factor alone */
    { { 2, 4, 3, 4, 4, 0, 0, 0 }, "fft_rows", "fft_back", 2 },  /* adjacent in several blocks */
    { { 2, 3, 1, 4, 4, 0, 0, 0 }, "fft_rows", "fft_rows", 1 },         /* filled */
    { { 2, 4, 1, 4, 3, 0, 0, 0 }, "fft_back", "fft_back", 1 },         /* cut */
    { { 2, 3, 1, 4, 4, 2, 1, 1 }, "fft_rows", "fft_rows", 1 },  /* a half spectrum, with a factor */
  };
  fake_reset();
  flame_context *c = open_context();
  for (int i = 0; i < 5; i++) {
    const int64_t *p = cases[i].p, n = p[0] * p[4] * p[2] * (p[5] == 2 ? 1 : 2);
    fake.nlaunch = fake.transforms = 0;
    CHECK(call(c, FL_CALL_fft, FLAME_F64, p[0] * p[1] * p[2] * 2, numbers, n, NULL, 8,
               p) == FLAME_OK);
    CHECK(fake.nlaunch == cases[i].n && fake.transforms == 1);
    CHECK(strcmp(fake.launch[0].name, cases[i].first) == 0 &&
          strcmp(fake.launch[cases[i].n - 1].name, cases[i].last) == 0);
  }
  close_context(c);
}

static flame_status simple_fft(flame_context *c, int64_t n) {
  const int64_t p[8] = { 1, n, 1, n, n, 0, 0, 0 };
  return call(c, FL_CALL_fft, FLAME_F64, 2 * n, numbers, 2 * n, NULL, 8, p);
}

static void plans_are_kept_within_bounds(void) {
  fake_reset();
  flame_context *c = open_context();
  for (int64_t n = 1; n <= 300; n++) CHECK(simple_fft(c, n) == FLAME_OK);
  CHECK(fake.plans == 256);
  CHECK(simple_fft(c, 300) == FLAME_OK && fake.plans == 256);
  close_context(c);
  CHECK(fake.plans == 0);
}

static void a_refused_plan_goes_to_our_kernels(void) {
  fake_reset();
  flame_context *c = open_context();
  fake_reset();                                  /* calls count from here */
  fake.only = "cufftMakePlanMany64";
  fake.fail_at = 1;
  fake.code = FL_CU_INVALID_VALUE;
  CHECK(simple_fft(c, 8) == FLAME_OK && fake.failed && fake.transforms == 0);
  CHECK(fake.nlaunch == 1 && strcmp(fake.launch[0].name, "fft_short") == 0 && fake.plans == 0);
  /* the same way again */
  CHECK(simple_fft(c, 8) == FLAME_OK && fake.transforms == 0 && fake.nlaunch == 2);
  fake_reset();
  fake.only = "cufftMakePlanMany64";
  fake.fail_at = 1;
  fake.code = FL_CU_OUT_OF_MEMORY;
  /* memory is free again */
  CHECK(simple_fft(c, 9) == FLAME_OK && fake.failed && fake.transforms == 1);
  fake_reset();
  fake.only = "cufftMakePlanMany64";
  fake.fail_at = 1;
  fake.forever = 1;
  fake.code = FL_CU_OUT_OF_MEMORY;
  CHECK(simple_fft(c, 10) == FLAME_NO_MEMORY && strstr(flame_error(c), "cuFFT"));
  flame_clear_error(c);
  fake_reset();
  fake.only = "cufftExecZ2Z";
  fake.fail_at = 1;
  CHECK(simple_fft(c, 11) == FLAME_INTERNAL &&
        strstr(flame_error(c), "cuFFT failed with status 6"));
  flame_clear_error(c);
  fake_reset();
  close_context(c);
}

static void without_the_libraries(void) {
  const int64_t inverse[4] = { 1, 0, 2, 0 }, half[8] = { 1, 3, 1, 3, 2, 1, 0, 0 };
  const double a[4] = { 2, 0, 0, 4 }, singular[4] = { 1, 2, 2, 4 };
  double y[4] = { 0 };
  fake_reset();
  fake.missing_fft = fake.missing_solver = 1;
  flame_context *c = open_context();
  CHECK(simple_fft(c, 8) == FLAME_OK && fake.transforms == 0 &&
        strcmp(fake.launch[0].name, "fft_short") == 0);
  CHECK(call(c, FL_CALL_fft, FLAME_F64, 3, numbers, 4, NULL, 8, half) == FLAME_OK &&
        fake.transforms == 0);
  fake.nlaunch = 0;
  CHECK(call(c, FL_CALL_inverse, FLAME_F64, 4, a, 4, y, 4, inverse) == FLAME_OK &&
        fake.nlaunch == 0);
  CHECK(y[0] == 0.5 && y[1] == 0 && y[2] == 0 && y[3] == 0.25);
  CHECK(call(c, FL_CALL_inverse, FLAME_F64, 4, singular, 4, y, 4, inverse) != FLAME_OK);
  CHECK(strstr(flame_error(c), "the matrix is singular") != NULL);
  flame_clear_error(c);
  close_context(c);
}

/* Factors of a matrix without elements can have elements (the identity): a kernel fills them. */
static void matrices_without_elements(void) {
  static const struct { int kind, np; int64_t p[6], n; int64_t launches; } cases[] = {
    { FL_CALL_svd, 6, { 2, 1, 0, 3, 1, 1 }, 18, 1 },
    { FL_CALL_svd, 6, { 2, 1, 3, 0, 1, 1 }, 18, 1 },
    { FL_CALL_qr, 6, { 2, 1, 3, 0, 1, 1 }, 18, 1 }, { FL_CALL_determinant, 3, { 2, 1, 0 }, 6, 1 },
    { FL_CALL_lu, 4, { 2, 1, 3, 0 }, 6, 1 },
  };
  fake_reset();
  flame_context *c = open_context();
  for (int i = 0; i < 5; i++) {
    fake.nlaunch = 0;
    CHECK(call(c, cases[i].kind, FLAME_F64, 0, numbers, cases[i].n, NULL, cases[i].np,
               cases[i].p) == FLAME_OK);
    CHECK(fake.nlaunch == cases[i].launches);
  }
  close_context(c);
}

/* The status that a kernel writes becomes the same message as on the CPU; if it says that the
** kernel did not converge (text NULL), the call is repeated on the CPU. */
static void statuses_become_messages(void) {
  static const struct { int kind, np; int64_t p[6], n; uint64_t status; const char *text;
                        } cases[] = {
    { FL_CALL_inverse, 4, { 3, 1, 2, 0 }, 12, 2 * 8 + 1,
      "inverse: matrix 3 of the batch is singular" },
    { FL_CALL_cholesky, 4, { 3, 1, 2, 0 }, 12, 0 * 8 + 2,
      "cholesky: matrix 1 of the batch is not positive definite" },
    { FL_CALL_eigh, 5, { 3, 1, 2, 0, 1 }, 18, 1 * 8 + 3,
      "eigh: matrix 2 of the batch holds NaN or Inf" },
    { FL_CALL_eigh, 5, { 3, 1, 2, 0, 1 }, 18, 1 * 8 + 4, NULL },
  };
  const double a[12] = { 2, 0, 0, 4, 1, 0, 0, 1, 3, 0, 0, 5 };
  fake_reset();
  flame_context *c = open_context();
  for (int i = 0; i < 4; i++) {
    fl_cuda *s = ((fl_engine *)c->engine)->device[1].state;
    /* scratch is there */
    CHECK(call(c, cases[i].kind, FLAME_F64, 12, a, cases[i].n, NULL, cases[i].np, cases[i].p) ==
          FLAME_OK);
    fake.launch_writes = s->scratch;
    fake.launch_bytes = &cases[i].status;
    fake.launch_size = 8;
    const flame_status e = call(c, cases[i].kind, FLAME_F64, 12, a, cases[i].n, results,
                                cases[i].np, cases[i].p);
    fake.launch_size = 0;
    if (cases[i].text) CHECK(e != FLAME_OK && strstr(flame_error(c), cases[i].text));
    else
      CHECK(e == FLAME_OK && results[0] == 2 && results[1] == 4 && results[4] == 3 &&
            results[5] == 5);
    flame_clear_error(c);
  }
  close_context(c);
}

int main(void) {
  setenv("FLAME_CACHE_DIR", "off", 1);
  transforms_are_those_of_the_definition();
  two_axes();
  what_goes_around_a_transform();
  plans_are_kept_within_bounds();
  a_refused_plan_goes_to_our_kernels();
  without_the_libraries();
  matrices_without_elements();
  statuses_become_messages();
  printf("test_cuda_math: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
