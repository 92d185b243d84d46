/*
** Tests of call_sort.c, call_select.c and call_count.c in cpu/sort/ and of scans, against plain
** loops: every dtype, lengths around the limits between algorithms, ties, NaN, infinities and zeros
** of both signs; one worker and three must give the same bits.
*/
#include "cpu/calls.h"
#include "tensor/context.h"
#include "tensor/math.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int passed, failed;
static char label[160];

static void check(int ok, const char *what) {
  if (ok) { passed++; return; }
  failed++;
  fprintf(stderr, "FAILED: %s: %s\n", label, what);
}

static uint64_t seed = 88172645463325252u;
static uint64_t draw(void) {
  seed ^= seed << 13;
  seed ^= seed >> 7;
  return seed ^= seed << 17;
}

static fl_device one, three;

/* ---- values ---- */

enum { MIXED, FEW, SORTED, EQUAL, PATTERNS };

static double special(int k) {
  static const double v[] = { 0.0, -0.0, INFINITY, -INFINITY, NAN, 1.0 };
  return v[k % 6];
}

static void store(void *x, int dtype, int64_t i, double v) {
  fl_scalar s;
  if (fl_is_float(dtype)) s.d = v;
  else s.i = v != v || v > 1e18 || v < -1e18 ? 0 : (int64_t)v;
  if (dtype == FLAME_BOOL) s.i = s.i & 1;
  fl_scalar_store((char *)x + i * fl_dtype_size(dtype), dtype,
                  fl_scalar_cast(s, fl_is_float(dtype) ? FLAME_F64 : FLAME_I64, dtype));
}

static double value(const void *x, int dtype, int64_t i) {
  const fl_scalar s = fl_scalar_load((const char *)x + i * fl_dtype_size(dtype), dtype);
  return fl_is_float(dtype) ? s.d : (double)s.i;
}

static void fill(void *x, int dtype, int64_t n, int pattern) {
  for (int64_t i = 0; i < n; i++) {
    const uint64_t r = draw();
    double v = 0;
    switch (pattern) {
      case MIXED:
        v = r % 17 == 0 ? special((int)(r >> 8 & 63))
                        : ((double)(int64_t)(r >> 11) - 0x1p52) * 0x1p-40;
        break;
      case FEW: v = (double)(r % 5) - 2; break;
      case SORTED: v = (double)i; break;
      default: v = 3; break;
    }
    store(x, dtype, i, v);
  }
}

/* 1 if a comes before b in ascending order. NaN is above all numbers. */
static int below(double a, double b) {
  if (a != a) return 0;
  return b != b || a < b;
}

/* ---- running ---- */

static fl_call call_of(int kind, int in_dtype, int64_t in_numel, int dtype, int64_t numel, int np,
                       const int64_t *p) {
  fl_call c;
  memset(&c, 0, sizeof c);
  c.kind = (uint16_t)kind;
  c.nin = 1;
  c.in_dtype[0] = (uint8_t)in_dtype;
  c.in_numel[0] = in_numel;
  c.dtype = (uint8_t)dtype;
  c.numel = numel;
  for (int i = 0; i < np; i++) c.p[i] = p[i];
  return c;
}

/* Runs the call on the devices 'one' and 'three' (workers), which must agree. Returns the result,
** which the caller frees. fault: 200 bytes for an error in the values. */
static void *run(const fl_call *c, void *in0, void *in1, char *fault) {
  const size_t bytes = (size_t)(c->numel * fl_dtype_size(c->dtype));
  void *a = malloc(bytes + 1), *b = malloc(bytes + 1);
  char other[200];
  fl_call_run r = { .call = c, .out = a, .in = { in0, in1 }, .fault = fault };
  memset(a, 0x5A, bytes + 1);
  memset(b, 0x5A, bytes + 1);
  check(fl_calls[c->kind].fits(c), "the call fits");
  check(fl_cpu_call(&one, &r) == FLAME_OK, "runs on one worker");
  r.out = b;
  r.fault = other;
  check(fl_cpu_call(&three, &r) == FLAME_OK, "runs on three workers");
  check(!memcmp(a, b, bytes + 1) && ((char *)a)[bytes] == 0x5A, "one and three workers agree");
  check(!strcmp(fault, other), "one and three workers report the same");
  free(b);
  return a;
}

/* ---- sorting ---- */

static void verify_sorted(const void *x, int dtype, int64_t n, int64_t k, int descending,
                          const int64_t *at) {
  char *seen = calloc((size_t)n + 1, 1);
  int order = 1, valid = 1;
  for (int64_t i = 0; i < k && valid; i++) {
    valid = at[i] >= 1 && at[i] <= n && !seen[at[i]];
    if (!valid) break;
    seen[at[i]] = 1;
    if (i == 0) continue;
    const double a = value(x, dtype, at[i - 1] - 1), b = value(x, dtype, at[i] - 1);
    const int less = descending ? below(b, a) : below(a, b),
              more = descending ? below(a, b) : below(b, a);
    if (more || (!less && at[i - 1] > at[i])) order = 0;
  }
  check(valid, "positions are distinct and in range");
  check(order, "values are in order and ties stable");
  if (k < n && k > 0 && valid) {                 /* no other value may come before the first k */
    const double last = value(x, dtype, at[k - 1] - 1);
    int rest = 1;
    for (int64_t i = 0; i < n; i++) {
      if (seen[i + 1]) continue;
      const double v = value(x, dtype, i);
      if (descending ? below(last, v) : below(v, last)) rest = 0;
      const int tie = !below(last, v) && !below(v, last);
      if (tie && i + 1 < at[k - 1]) rest = 0;
    }
    check(rest, "the first k come first");
  }
  free(seen);
}

/* Checks the call kth: for each row it must give the first position of the k-th smallest value. The
** rows of 'at' are the positions in sorted order. */
static void verify_kth(void *x, int dtype, int64_t rows, int64_t n, int64_t k, const int64_t *at) {
  char fault[200];
  const fl_call h = call_of(FL_CALL_kth, dtype, rows * n, FLAME_I64, rows, 4,
                            (int64_t[]){ rows, n, k, 0 });
  int64_t *kth = run(&h, x, NULL, fault);
  for (int64_t r = 0; r < rows; r++) {
    const char *row = (char *)x + r * n * fl_dtype_size(dtype);
    const double v = value(row, dtype, at[r * n + k - 1] - 1);
    int64_t first = 0;
    while (below(v, value(row, dtype, first)) || below(value(row, dtype, first), v)) first++;
    check(kth[r] == first + 1, "kth is the first position of that value");
  }
  free(kth);
}

static void test_sort(int dtype, int64_t rows, int64_t n, int pattern) {
  const int64_t size = fl_dtype_size(dtype);
  void *x = malloc((size_t)(rows * n * size) + 8);
  char fault[200];
  fill(x, dtype, rows * n, pattern);
  for (int descending = 0; descending < 2; descending++) {
    snprintf(label, sizeof label, "argsort %s %lldx%lld pattern %d descending %d",
             fl_dtype_name(dtype), (long long)rows, (long long)n, pattern, descending);
    const fl_call c = call_of(FL_CALL_argsort, dtype, rows * n, FLAME_I64, rows * n, 3,
                              (int64_t[]){ rows, n, descending });
    int64_t *at = run(&c, x, NULL, fault);
    for (int64_t r = 0; r < rows; r++)
      verify_sorted((char *)x + r * n * size, dtype, n, n, descending, at + r * n);
    const int64_t ks[] = { 1, 3, n / 200, n / 40, n / 3, n };
    for (int q = 0; q < 6; q++) {
      const int64_t k = ks[q] < n ? ks[q] : n;
      snprintf(label, sizeof label, "topk %s %lldx%lld k %lld pattern %d largest %d",
               fl_dtype_name(dtype), (long long)rows, (long long)n, (long long)k, pattern,
               descending);
      const fl_call t = call_of(FL_CALL_topk, dtype, rows * n, FLAME_I64, rows * k, 4,
                                (int64_t[]){ rows, n, k, descending });
      int64_t *top = run(&t, x, NULL, fault);
      int same = 1;
      for (int64_t r = 0; r < rows; r++)
        same = same && !memcmp(top + r * k, at + r * n, (size_t)k * 8);
      check(same, "topk is the head of the sort");
      if (k > 0 && !descending) verify_kth(x, dtype, rows, n, k, at);
      free(top);
    }
    free(at);
  }
  free(x);
}

/* ---- scans ---- */

static int is_close(double a, double b, int dtype) {
  const double eps = dtype == FLAME_F64 ? 1e-12 : dtype == FLAME_F32 ? 3e-7 : dtype == FLAME_F16
                     ? 2e-3 : 2e-2;
  if (a != a || b != b) return a != a && b != b;
  return a == b || fabs(a - b) <= eps * (1 + fabs(a));
}

static void scan_lane(const void *x, int dtype, double *y, int64_t n, int64_t step, int op) {
  double run = op == 1 ? 1 : op == 2 ? -INFINITY : 0;
  uint64_t whole = op == 1;
  for (int64_t j = 0; j < n; j++) {
    const double v = value(x, dtype, j * step);
    if (fl_is_float(dtype)) {
      const double big = run > v ? run : v;
      run = op == 0 ? run + v : op == 1 ? run * v
          : run != run || v != v ? NAN : isinf(big) ? big
                                                    : big + log(exp(run - big) + exp(v - big));
    } else {
      const uint64_t u = (uint64_t)(int64_t)v;
      whole = op == 0 ? whole + u : whole * u;
      run = (double)(int64_t)whole;
    }
    y[j * step] = run;
  }
}

static void test_scan(int dtype, int64_t outer, int64_t n, int64_t inner, int op, int reverse) {
  const int64_t numel = outer * n * inner;
  const int out = fl_is_float(dtype) ? dtype : FLAME_I64;
  void *x = malloc((size_t)(numel * fl_dtype_size(dtype)) + 8);
  double *want = calloc((size_t)numel + 1, sizeof *want);
  char fault[200];
  fill(x, dtype, numel, op == 1 ? FEW : n > 100 ? FEW : MIXED);
  snprintf(label, sizeof label, "scan %s (%lld, %lld, %lld) op %d reverse %d", fl_dtype_name(dtype),
           (long long)outer, (long long)n, (long long)inner, op, reverse);
  const fl_call c = call_of(FL_CALL_scan, dtype, numel, out, numel, 5,
                            (int64_t[]){ outer, n, inner, op, reverse });
  void *y = run(&c, x, NULL, fault);
  for (int64_t o = 0; o < outer; o++)
    for (int64_t i = 0; i < inner; i++) {
      const int64_t at = o * n * inner + i + (reverse ? (n - 1) * inner : 0);
      if (n > 0)
        scan_lane((char *)x + at * fl_dtype_size(dtype), dtype, want + at, n,
                  reverse ? -inner : inner, op);
    }
  int ok = 1;
  for (int64_t i = 0; i < numel; i++) {
    const double w = out == dtype && fl_is_float(dtype)
                     ? fl_scalar_cast((fl_scalar){ .d = want[i] }, FLAME_F64, dtype).d : want[i];
    if (!is_close(w, value(y, out, i), dtype)) ok = 0;
  }
  check(ok, "values");
  free(x);
  free(y);
  free(want);
}

static void test_extreme(int dtype, int64_t outer, int64_t n, int64_t inner, int least,
                         int pattern) {
  const int64_t numel = outer * n * inner;
  void *x = malloc((size_t)(numel * fl_dtype_size(dtype)) + 8);
  char fault[200];
  fill(x, dtype, numel, pattern);
  snprintf(label, sizeof label, "extreme %s (%lld, %lld, %lld) least %d pattern %d",
           fl_dtype_name(dtype), (long long)outer, (long long)n, (long long)inner, least, pattern);
  const fl_call c = call_of(FL_CALL_extreme, dtype, numel, FLAME_I64, numel, 4,
                            (int64_t[]){ outer, n, inner, least });
  int64_t *y = run(&c, x, NULL, fault);
  int ok = 1;
  for (int64_t o = 0; o < outer; o++)
    for (int64_t i = 0; i < inner; i++) {
      int64_t best = 0;
      for (int64_t j = 0; j < n; j++) {
        const int64_t at = o * n * inner + i;
        const double b = value(x, dtype, at + best * inner), v = value(x, dtype, at + j * inner);
        if (b == b && (v != v || (least ? v < b : v > b))) best = j;
        if (y[at + j * inner] != best + 1) ok = 0;
      }
    }
  check(ok, "positions");
  free(x);
  free(y);
}

static void test_recurrence(int dtype, int64_t outer, int64_t n, int64_t inner, int reverse) {
  const int64_t numel = outer * n * inner;
  const size_t bytes = (size_t)(numel * fl_dtype_size(dtype)) + 8;
  void *a = malloc(bytes), *b = malloc(bytes);
  char fault[200];
  fill(a, dtype, numel, FEW);
  for (int64_t i = 0; i < numel; i++) store(a, dtype, i, value(a, dtype, i) / 4);
  fill(b, dtype, numel, FEW);
  snprintf(label, sizeof label, "recurrence %s (%lld, %lld, %lld) reverse %d",
           fl_dtype_name(dtype), (long long)outer, (long long)n, (long long)inner, reverse);
  fl_call c = call_of(FL_CALL_recurrence, dtype, numel, dtype, numel, 4,
                      (int64_t[]){ outer, n, inner, reverse });
  c.nin = 2;
  c.in_dtype[1] = (uint8_t)dtype;
  c.in_numel[1] = numel;
  void *y = run(&c, a, b, fault);
  int ok = 1;
  for (int64_t o = 0; o < outer; o++)
    for (int64_t i = 0; i < inner; i++) {
      double s = 0;
      for (int64_t j = 0; j < n; j++) {
        const int64_t at = o * n * inner + (reverse ? n - 1 - j : j) * inner + i;
        s = s * value(a, dtype, at) + value(b, dtype, at);
        if (!is_close(s, value(y, dtype, at), dtype)) ok = 0;
      }
    }
  check(ok, "values");
  free(a);
  free(b);
  free(y);
}

/* ---- counts ---- */

static void test_search(int dtype, int64_t rows, int64_t n, int64_t m, int right, int shared) {
  const int64_t size = fl_dtype_size(dtype), tables = shared ? 1 : rows;
  void *t = malloc((size_t)(tables * n * size) + 8), *v = malloc((size_t)(rows * m * size) + 8);
  char fault[200];
  for (int64_t r = 0; r < tables; r++)
    for (int64_t i = 0; i < n; i++)
      store(t, dtype, r * n + i, dtype == FLAME_BOOL ? i > n / 2 : (double)(i / 2 * 3 % 120));
  fill(v, dtype, rows * m, FEW);
  for (int64_t i = 0; i < rows * m; i += 2) store(v, dtype, i, (double)(draw() % 130));
  snprintf(label, sizeof label, "searchsorted %s %lldx%lld %lld right %d shared %d",
           fl_dtype_name(dtype), (long long)rows, (long long)n, (long long)m, right, shared);
  fl_call c = call_of(FL_CALL_searchsorted, dtype, tables * n, FLAME_I64, rows * m, 5,
                      (int64_t[]){ rows, n, m, right, shared });
  c.nin = 2;
  c.in_dtype[1] = (uint8_t)dtype;
  c.in_numel[1] = rows * m;
  int64_t *at = run(&c, t, v, fault);
  int ok = 1;
  for (int64_t i = 0; i < rows * m; i++) {
    const char *row = (char *)t + (shared ? 0 : i / m * n * size);
    int64_t k = 0;
    while (k < n && (right ? value(row, dtype, k) <= value(v, dtype, i)
                           : value(row, dtype, k) < value(v, dtype, i)))
      k++;
    if (n <= 80 && at[i] != k + 1) ok = 0;
  }
  check(ok, "places");
  free(t);
  free(v);
  free(at);
}

static void test_histogram(int64_t n, int64_t bins, int bad) {
  int64_t *id = malloc((size_t)n * 8 + 8), *want = calloc((size_t)bins + 1, 8);
  char fault[200];
  for (int64_t i = 0; i < n; i++) {
    id[i] = (int64_t)(draw() % (uint64_t)bins) + 1;
    if (bad && i == n / 2) id[i] = bad;
    else want[id[i] - 1]++;
  }
  snprintf(label, sizeof label, "histogram %lld ids %lld bins, bad %d",
           (long long)n, (long long)bins, bad);
  for (int strict = 0; strict < 2; strict++) {
    const fl_call c = call_of(FL_CALL_histogram, FLAME_I64, n, FLAME_I64, bins, 3,
                              (int64_t[]){ n, bins, strict });
    int64_t *count = run(&c, id, NULL, fault);
    check(!memcmp(count, want, (size_t)bins * 8), "counts");
    char text[200] = "";
    if (strict && bad)
      snprintf(text, sizeof text, "id %d at position %lld, need 1 to %lld",
               bad, (long long)n / 2 + 1, (long long)bins);
    check(!strcmp(text, fault), fault);
    free(count);
  }
  free(id);
  free(want);
}

static void test_nonzero(int dtype, int rank, const int64_t *size) {
  int64_t n = 1, count = 0, p[2 + FL_MAX_AXES] = { 0 };
  char fault[200];
  for (int d = 0; d < rank; d++) n *= p[2 + d] = size[d];
  void *x = malloc((size_t)(n * fl_dtype_size(dtype)) + 8);
  fill(x, dtype, n, draw() % 2 ? FEW : MIXED);
  for (int64_t i = 0; i < n; i++) count += value(x, dtype, i) != 0;
  p[0] = count;
  p[1] = rank;
  snprintf(label, sizeof label, "nonzero %s rank %d of %lld",
           fl_dtype_name(dtype), rank, (long long)n);
  const fl_call c = call_of(FL_CALL_nonzero, dtype, n, FLAME_I64, count * rank, 2 + rank, p);
  int64_t *at = run(&c, x, NULL, fault);
  int ok = 1;
  for (int64_t i = 0, k = 0; i < n; i++) {
    if (value(x, dtype, i) == 0) continue;
    int64_t place = 0;
    for (int d = 0; d < rank; d++) place = place * size[d] + at[k * rank + d] - 1;
    if (rank && place != i) ok = 0;
    k++;
  }
  check(ok, "places");
  free(x);
  free(at);
}

/* ---- calls that do not fit ---- */

static void test_misfits(void) {
  fl_call c = call_of(FL_CALL_argsort, FLAME_F32, 12, FLAME_I64, 12, 3, (int64_t[]){ 3, 4, 0 });
  snprintf(label, sizeof label, "misfits");
  check(fl_call_of_name("argsort") == FL_CALL_argsort, "name");
  check(fl_calls[c.kind].fits(&c), "fits");
  c.p[1] = 5;
  check(!fl_calls[c.kind].fits(&c), "rows of another length");
  c.p[0] = INT64_MAX / 2;
  check(!fl_calls[c.kind].fits(&c), "sizes that overflow");
  c.p[0] = -3, c.p[1] = -4;
  check(!fl_calls[c.kind].fits(&c), "negative sizes");
  c = call_of(FL_CALL_topk, FLAME_F32, 12, FLAME_I64, 15, 4, (int64_t[]){ 3, 4, 5, 0 });
  check(!fl_calls[c.kind].fits(&c), "k above the length");
  c = call_of(FL_CALL_kth, FLAME_F32, 0, FLAME_I64, 3, 4, (int64_t[]){ 3, 0, 1, 0 });
  check(!fl_calls[c.kind].fits(&c), "the first of none");
  c = call_of(FL_CALL_nonzero, FLAME_F32, 4, FLAME_I64, 5, 3, (int64_t[]){ 5, 1, 4 });
  check(!fl_calls[c.kind].fits(&c), "more places than elements");
  c = call_of(FL_CALL_scan, FLAME_I32, 4, FLAME_I64, 4, 5, (int64_t[]){ 1, 4, 1, 2, 0 });
  check(!fl_calls[c.kind].fits(&c), "log of a sum of integers");
}

static void sorts(int dtype) {
  static const int64_t lengths[] = { 0, 1, 2, 7, 33, 40, 41, 300, 2999, 3001, 5000 };
  for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++)
    for (int pattern = 0; pattern < PATTERNS; pattern++)
      test_sort(dtype, lengths[k] > 1000 ? 2 : 5, lengths[k], pattern);
  for (int pattern = 0; pattern < PATTERNS; pattern++) test_sort(dtype, 1, 70001, pattern);
  test_sort(dtype, 20000, 3, MIXED);
}

static void scans(int dtype) {
  for (int op = 0; op < (fl_is_float(dtype) ? 3 : 2); op++)
    for (int reverse = 0; reverse < 2; reverse++) {
      test_scan(dtype, 1, 1, 1, op, reverse);
      test_scan(dtype, 9, 17, 1, op, reverse);
      test_scan(dtype, 3, 5, 70, op, reverse);
      test_scan(dtype, 2, 300, 3, op, reverse);
      test_scan(dtype, 0, 5, 1, op, reverse);
      test_scan(dtype, 2, 0, 3, op, reverse);
      if (op == 0 && fl_dtype_size(dtype) >= 4) test_scan(dtype, 2, 70000, 1, op, reverse);
    }
  for (int reverse = 0; fl_is_float(dtype) && reverse < 2; reverse++) {
    test_recurrence(dtype, 9, 17, 1, reverse);
    test_recurrence(dtype, 3, 5, 70, reverse);
    test_recurrence(dtype, 1, 300, 2, reverse);
  }
}

static void extremes(int dtype) {
  static const int64_t shapes[][3] = { { 9, 17, 1 }, { 3, 5, 70 }, { 2, 1, 3 }, { 2, 3000, 1 },
                                       { 1, 1, 1 }, { 70, 16, 1 },
                                       { 33, 32, 1 }, { 65, 33, 1 }, { 37, 301, 1 }, { 2, 9, 147 },
                                       { 1, 40, 16 } };
  for (int least = 0; least < 2; least++)
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
      for (int pattern = 0; pattern < PATTERNS; pattern++)
        test_extreme(dtype, shapes[k][0], shapes[k][1], shapes[k][2], least, pattern);
}

static void searches(int dtype) {
  for (int q = 0; q < 4; q++) {
    test_search(dtype, 3, 20, 11, q & 1, q >> 1);
    test_search(dtype, 2, 0, 3, q & 1, q >> 1);
    test_search(dtype, 1, 80, 40000, q & 1, q >> 1);
  }
}

static void positions(int dtype) {
  test_nonzero(dtype, 0, NULL);
  test_nonzero(dtype, 1, (int64_t[]){ 50000 });
  test_nonzero(dtype, 3, (int64_t[]){ 7, 1, 9 });
  test_nonzero(dtype, 2, (int64_t[]){ 0, 9 });
  test_nonzero(dtype, 4, (int64_t[]){ 3, 50, 11, 20 });
}

int main(void) {
  static void (*const of_dtype[])(int dtype) = { sorts, scans, extremes, searches, positions };
  flame_context *a = flame_open(NULL);
  if (fl_cpu_open(a, &one, 1) || fl_cpu_open(a, &three, 3)) return 1;
  for (int dtype = 0; dtype < FLAME_DTYPE_COUNT; dtype++)
    for (size_t k = 0; k < sizeof of_dtype / sizeof *of_dtype; k++) of_dtype[k](dtype);
  test_histogram(1, 1, 0);
  test_histogram(1000, 7, -1);
  test_histogram(300000, 11, 12);
  test_histogram(300000, 40000, 0);
  test_misfits();
  one.table->close(&one);
  three.table->close(&three);
  check(a->mem.live_bytes >= 0, "memory");
  flame_close(a);
  printf("call_sort: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
