/*
** Fourier transforms on the CPU against sums in long double: all lengths up to 70, long ones for
** each algorithm, all modes, inputs and outputs that are cut or padded with zeros, any axis. The
** bits must not depend on the number of workers or the instruction set.
*/
#include "call_setup.h"
#include "tensor/call_fft.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int passed, failed;
static void check(int ok, const char *what, long a, long b, double seen) {
  if (ok) { passed++; return; }
  failed++;
  if (failed < 30) printf("call_fft: FAILED %s (%ld, %ld): %g\n", what, a, b, seen);
}

static int64_t below(int64_t n) { return pick(0, n - 1); }

typedef struct sample {
  int is64, mode, inverse, norm;
  int64_t outer, in, inner, n, out;
  double *x;
} sample;

static int64_t parts_in(const sample *s) { return s->mode == FL_FFT_TO_HALF ? 1 : 2; }
static int64_t parts_out(const sample *s) { return s->mode == FL_FFT_FROM_HALF ? 1 : 2; }
static int64_t size_in(const sample *s) { return s->outer * s->in * s->inner * parts_in(s); }
static int64_t size_out(const sample *s) { return s->outer * s->out * s->inner * parts_out(s); }

static void fill(sample *s) {
  s->x = malloc(sizeof *s->x * (size_t)(size_in(s) + 1));
  for (int64_t i = 0; i < size_in(s); i++)
    s->x[i] = s->is64 ? 2 * unit() - 1 : (float)(2 * unit() - 1);
}

static void *transform(setup *d, const sample *s) {
  fl_call k = { .kind = FL_CALL_fft, .nin = 1, .dtype = s->is64 ? FLAME_F64 : FLAME_F32,
                .numel = size_out(s),
                .in_numel = { size_in(s) },
                .p = { s->outer, s->in, s->inner, s->n, s->out, s->mode, s->inverse, s->norm } };
  const size_t size = s->is64 ? 8 : 4;
  char fault[200] = "", *in = malloc((size_t)size_in(s) * size + 1),
       *out = malloc((size_t)size_out(s) * size + 8);
  k.in_dtype[0] = k.dtype;
  check(fl_calls[FL_CALL_fft].fits(&k), "fits", (long)s->n, s->mode, 0);
  k.numel++;
  check(!fl_calls[FL_CALL_fft].fits(&k), "a wrong size does not fit", (long)s->n, s->mode, 0);
  k.numel--;
  for (int64_t i = 0; i < size_in(s); i++) {
    if (s->is64) ((double *)(void *)in)[i] = s->x[i];
    else ((float *)(void *)in)[i] = (float)s->x[i];
  }
  memset(out, 0x7b, (size_t)size_out(s) * size + 8);
  fl_call_run r = { .call = &k, .out = out, .in = { in }, .fault = fault };
  check(fl_cpu_call(&d->d, &r) == FLAME_OK && !*fault, "status", (long)s->n, s->mode, 0);
  check(out[size_out(s) * (int64_t)size] == 0x7b, "nothing behind the result",
        (long)s->n, s->mode, 0);
  drop_scratch(d);
  free(in);
  return out;
}

/* v: element k (real, imaginary) of the signal with outer index o and inner index q. In a half
** spectrum, elements above n / 2 are the conjugates of those that mirror them. */
static void input(const sample *s, int64_t o, int64_t q, int64_t k, long double v[2]) {
  int mirror = 0;
  v[0] = v[1] = 0;
  if (s->mode == FL_FFT_FROM_HALF && k > s->n / 2) k = s->n - k, mirror = 1;
  if (k >= s->in) return;
  const double *x = s->x + ((o * s->in + k) * s->inner + q) * parts_in(s);
  v[0] = x[0];
  if (s->mode != FL_FFT_TO_HALF) v[1] = mirror ? -x[1] : x[1];
  if (s->mode == FL_FFT_FROM_HALF && (k == 0 || 2 * k == s->n)) v[1] = 0;
}

/* The n-th roots of unity: cosines c and sines z of 2 pi i / n. The last table is cached. */
typedef struct root { long double c, z; } root;
static root *roots_of(int64_t n) {
  static root *kept;
  static int64_t kept_n;
  if (kept_n == n) return kept;
  free(kept);
  kept = malloc(sizeof *kept * (size_t)(n + 1));
  kept_n = n;
  const long double turn = 2 * 3.141592653589793238462643383279502884L / (long double)n;
  for (int64_t i = 0; i < n; i++)
    kept[i] = (root){ cosl(turn * (long double)i), sinl(turn * (long double)i) };
  return kept;
}

/* The root mean square of the error divided by that of the expected result, over 'count' random
** elements (0: all). */
static double error(const sample *s, const void *out, int64_t count) {
  const int sign = s->mode == FL_FFT_FROM_HALF ||
                   (s->mode == FL_FFT_COMPLEX && s->inverse) ? 1 : -1;
  const int64_t there = s->mode == FL_FFT_TO_HALF ? s->n / 2 + 1 : s->n,
                all = s->outer * s->out * s->inner;
  const root *roots = roots_of(s->n);
  const long double scale = s->norm == 0 ? 1 : s->norm == 1
                            ? 1 / (long double)s->n : 1 / sqrtl((long double)s->n);
  long double off = 0, sum = 0;
  for (int64_t i = 0; i < (count ? count : all); i++) {
    const int64_t e = count ? below(all) : i, q = e % s->inner, k = e / s->inner % s->out,
                  o = e / s->inner / s->out;
    long double want[2] = { 0, 0 }, v[2];
    for (int64_t j = 0; k < there && j < s->n; j++) {
      const long double c = roots[j * k % s->n].c, z = sign * roots[j * k % s->n].z;
      input(s, o, q, j, v);
      want[0] += (v[0] * c - v[1] * z) * scale;
      want[1] += (v[0] * z + v[1] * c) * scale;
    }
    for (int64_t p = 0; p < parts_out(s); p++) {
      const int64_t at = e * parts_out(s) + p;
      const long double got = s->is64 ? ((const double *)out)[at] : ((const float *)out)[at];
      off += (got - want[p]) * (got - want[p]);
      sum += want[p] * want[p];
    }
  }
  return sum > 0 ? (double)sqrtl(off / sum) : (double)sqrtl(off);
}

static int64_t half(int64_t n) { return n / 2 + 1; }

static double worst[2][2];
static void one(setup *d, sample s, int64_t count, double limit) {
  fill(&s);
  void *out = transform(d, &s);
  const double e = error(&s, out, count) / (s.is64 ? 1.1e-16 : 6e-8);
  check(e <= limit, s.is64 ? "error of f64" : "error of f32",
        (long)s.n, s.mode * 10 + s.inverse, e);
  double *w = &worst[s.is64][limit > 8];
  if (e > *w) *w = e;
  free(out);
  free(s.x);
}

static int smooth(int64_t n) {
  for (int64_t p = 2; p <= 31; p++) while (n % p == 0) n /= p;
  return n == 1;
}

static void lengths(setup *d) {
  for (int is64 = 0; is64 < 2; is64++)
    for (int64_t n = 1; n <= 70; n++)
      for (int mode = 0; mode < 3; mode++)
        for (int inverse = 0; inverse < (mode == 0 ? 2 : 1); inverse++) {
          const int64_t in = mode == 2 ? half(n) : n, out = mode == 1 ? half(n) : n;
          one(d, (sample){ is64, mode, inverse, (int)below(3), 1 + below(3), in, 1 + below(3), n,
                           out,
                           NULL }, 0, smooth(n) ? 5 : 12);
        }
}

static void cuts(setup *d) {
  for (int i = 0; i < 600; i++) {
    const int mode = (int)below(3);
    const int64_t n = 1 + below(40), in = below(2 * n), out = 1 + below(2 * n);
    one(d, (sample){ (int)below(2), mode, mode == 0 && below(2), (int)below(3), 1 + below(20), in,
                     1 + below(5), n, out, NULL }, 0, 20);
  }
}

/* 2053 and 10007 are primes. */
static void long_ones(setup *d) {
  static const int64_t size[] = { 2048, 2049, 2053, 4096, 5000, 6561, 10007, 16384, 16807, 20014,
                                  59049, 65536, 100000 };
  for (size_t i = 0; i < sizeof size / sizeof *size; i++)
    for (int is64 = 0; is64 < 2; is64++)
      for (int mode = 0; mode < 3; mode++) {
        const int64_t n = size[i], in = mode == 2 ? half(n) : n, out = mode == 1 ? half(n) : n,
                      batch = i < 8 ? 1 + below(6) : 1;
        one(d, (sample){ is64, mode, mode == 0 && below(2), 1, batch, in, 1 + below(2), n, out,
                         NULL }, 20, smooth(n) ? 6 : 14);
        one(d, (sample){ is64, mode, mode == 0 && below(2), 2, 1, below(2 * in), 1 + below(2), n,
                         1 + below(2 * out), NULL }, 20,
            smooth(n) ? 7 : 20);
      }
}

static void same_bits(setup *const *d, int count) {
  for (int i = 0; i < 60; i++) {
    const int mode = (int)below(3);
    const int64_t n = i < 40 ? 1 + below(500) : 2000 + below(20000);
    sample s = { (int)below(2), mode, mode == 0 && below(2), 1, 1 + below(9), n, 1 + below(9), n,
                 n, NULL };
    fill(&s);
    void *first = transform(d[0], &s);
    for (int k = 1; k < count; k++) {
      void *other = transform(d[k], &s);
      check(!memcmp(first, other, (size_t)(size_out(&s) * (s.is64 ? 8 : 4))), "same bits",
            (long)n, k, 0);
      free(other);
    }
    free(first);
    free(s.x);
  }
}

int main(void) {
  state = 5;
  setup *d[] = { open_setup_with(1, "FLAME_ISA", ""), open_setup_with(3, "FLAME_ISA", ""),
                 open_setup_with(2, "FLAME_ISA", "avx2"),
                 open_setup_with(1, "FLAME_ISA", "base") };
  lengths(d[0]);
  cuts(d[1]);
  long_ones(d[1]);
  same_bits(d, 4);
  for (int i = 0; i < 4; i++) check(close_setup(d[i]), "memory", i, 0, 0);
  printf("call_fft: %d passed, %d failed "
         "(largest errors in half epsilons: %.2f %.2f, by convolution %.2f %.2f)\n", passed, failed,
         worst[0][0], worst[1][0], worst[0][1], worst[1][1]);
  return failed != 0;
}
