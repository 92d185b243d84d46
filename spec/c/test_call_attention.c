/*
** Attention on the CPU: random shapes, strides, masks and groups of heads are compared with plain
** sums in double, in every float dtype, on every instruction set. One and three workers, which
** compute the backward in one pass and in two, must give the same bits. Inputs have exactly the
** bytes that their strides reach, so that a sanitizer detects a read beyond them.
*/
#include "call_setup.h"
#include "cpu/attention/attention.h"
#include "tensor/call_attention.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int passed, failed;
static char shape_text[300];
static void check(int ok, const char *what, double seen) {
  if (ok) { passed++; return; }
  if (failed++ < 20) printf("call_attention: FAILED %s: %g; %s\n", what, seen, shape_text);
}

/* ---- arrays ---- */

/* value: the elements as doubles, of arrays that the oracle reads */
typedef struct array { int64_t n; int dtype; void *p; double *value; } array;
static double get(const array *a, int64_t i) {
  const fl_scalar v = fl_scalar_load((const char *)a->p + i * fl_dtype_size(a->dtype), a->dtype);
  return a->dtype == FLAME_BOOL ? (double)v.i : v.d;
}
static array noise(int64_t n, int dtype) {
  array a = { n, dtype, malloc((size_t)(n * fl_dtype_size(dtype))),
              malloc((size_t)n * sizeof(double)) };
  for (int64_t i = 0; i < n; i++) {
    fl_scalar v;
    if (dtype == FLAME_BOOL) v.i = pick(0, 2) > 0;
    else v.d = (double)pick(-40, 40) / 32;
    fl_scalar_store((char *)a.p + i * fl_dtype_size(dtype), dtype, v);
    a.value[i] = get(&a, i);
  }
  return a;
}

/* Random strides of axes (b, h, t) with rows of n elements: t or h is the inner axis, rows may be
** padded, and b may have stride 0. Returns the number of elements from the first to the last. */
static int64_t strides(int64_t b, int64_t h, int64_t t, int64_t n, int64_t *stride) {
  const int64_t row = n + (pick(0, 2) ? 0 : pick(1, 5)), swapped = pick(0, 1);
  stride[swapped ? 1 : 2] = row;
  stride[swapped ? 2 : 1] = swapped ? row * h : row * t;
  stride[0] = row * h * t;
  if (b > 1 && !pick(0, 3)) stride[0] = 0;
  return (b - 1) * stride[0] + (h - 1) * stride[1] + (t - 1) * stride[2] + n;
}

typedef struct problem {
  fl_attention a;
  int dtype;
  double scale;
  array q, k, v, g, mask;               /* mask.p NULL: none */
} problem;

static problem make(int dtype) {
  problem x = { .dtype = dtype };
  fl_attention *a = &x.a;
  a->b = pick(1, 3);
  a->hk = pick(1, 3);
  a->h = a->hk * pick(1, 3);
  a->t = pick(0, 3) ? pick(1, 40) : pick(90, 300);
  a->s = pick(0, 3) ? pick(1, 40) : pick(230, 530);
  a->d = pick(1, 40);
  a->d2 = pick(0, 1) ? a->d : pick(1, 40);
  a->causal = pick(0, 1);
  a->by_row = !pick(0, 2);
  if (a->by_row) {
    a->s = a->t;
    a->d2 = a->d;
  }
  x.scale = (double)pick(1, 40) / 40;
  x.q = noise(strides(a->b, a->h, a->t, a->d, a->qs), dtype);
  x.k = noise(strides(a->b, a->hk, a->s, a->d, a->ks), dtype);
  x.v = noise(strides(a->b, a->hk, a->s, a->d2, a->vs), dtype);
  x.g = noise(strides(a->b, a->h, a->t, a->d2, a->gs), dtype);
  if (!pick(0, 1)) return x;
  const int64_t size[] = { a->b, a->h, a->t, a->s };
  int64_t n = 1, reach = 1;
  for (int i = 3; i >= 0; i--) {
    a->ms[i] = pick(0, 2) ? n : 0;
    if (a->ms[i]) n *= size[i];
    reach += (size[i] - 1) * a->ms[i];
  }
  x.mask = noise(reach, pick(0, 1) ? FLAME_BOOL : dtype);
  return x;
}
static void drop(problem *x) {
  const array *const all[] = { &x->q, &x->k, &x->v, &x->g, &x->mask };
  for (int i = 0; i < 5; i++) free(all[i]->p), free(all[i]->value);
}

/* ---- plain sums ---- */

/* Writes the softmax weights of query i to p, which are NaN if all its keys are masked; returns the
** log-sum-exp of its scores. */
static double weights(const problem *x, int64_t b, int64_t h, int64_t i, double *p) {
  const fl_attention *a = &x->a;
  const int64_t hk = h / (a->h / a->hk);
  double top = -INFINITY, sum = 0;
  for (int64_t j = 0; j < a->s; j++) {
    const double *const q = x->q.value + fl_row_at(a->qs, b, h, i),
                 *const k = x->k.value + fl_row_at(a->ks, b, hk, j);
    double s = 0;
    for (int64_t e = 0; e < a->d; e++) s += q[e] * k[e];
    s *= x->scale;
    if (a->causal && j > i) s = -INFINITY;
    if (x->mask.p) {
      const double m = x->mask.value[fl_row_at(a->ms, b, h, i) + j * a->ms[3]];
      if (x->mask.dtype != FLAME_BOOL) s += m;
      else if (m == 0) s = -INFINITY;
    }
    p[j] = s;
    top = s > top ? s : top;
  }
  for (int64_t j = 0; j < a->s; j++) sum += p[j] = exp(p[j] - top);
  for (int64_t j = 0; j < a->s; j++) p[j] /= sum;
  return top + log(sum);
}

/* Expected values: outputs, the log-sum-exp of each row, and dq, dk, dv one after the other. */
typedef struct plain { double *out, *lse, *grad; int64_t n_out, n_lse, n_grad; } plain;

/* y += f x */
static void add(double *restrict y, double f, const double *restrict x, int64_t n) {
  for (int64_t e = 0; e < n; e++) y[e] += f * x[e];
}

static plain oracle(const problem *x) {
  const fl_attention *a = &x->a;
  const int64_t rows = a->b * a->h * a->t, nq = rows * a->d, nk = a->b * a->hk * a->s * a->d;
  plain r = { .n_out = rows * a->d2, .n_lse = rows,
              .n_grad = nq + nk + a->b * a->hk * a->s * a->d2 };
  r.out = calloc((size_t)r.n_out, sizeof(double));
  r.lse = calloc((size_t)rows, sizeof(double));
  r.grad = calloc((size_t)r.n_grad, sizeof(double));
  double *p = calloc((size_t)a->s, 2 * sizeof *p), *dp = p + a->s;
  for (int64_t row = 0; row < rows; row++) {
    const int64_t b = row / a->t / a->h, h = row / a->t % a->h, i = row % a->t,
                  hk = h / (a->h / a->hk);
    double mean = 0;
    r.lse[row] = weights(x, b, h, i, p);
    for (int64_t j = 0; j < a->s; j++) {
      const double *const v = x->v.value + fl_row_at(a->vs, b, hk, j),
                   *const g = x->g.value + fl_row_at(a->gs, b, h, i);
      double *const dv = r.grad + nq + nk + ((b * a->hk + hk) * a->s + j) * a->d2;
      dp[j] = 0;
      for (int64_t e = 0; e < a->d2; e++) dp[j] += g[e] * v[e];
      add(r.out + row * a->d2, p[j], v, a->d2);
      add(dv, p[j], g, a->d2);
      mean += p[j] * dp[j];
    }
    for (int64_t j = 0; j < a->s; j++) {
      const int hidden = isnan(r.lse[row]) ||
                         (p[j] == 0 && (!x->mask.p || x->mask.dtype == FLAME_BOOL));
      const double ds = hidden ? 0 : p[j] * (dp[j] - mean) * x->scale;
      const double *const q = x->q.value + fl_row_at(a->qs, b, h, i),
                   *const k = x->k.value + fl_row_at(a->ks, b, hk, j);
      add(r.grad + row * a->d, ds, k, a->d);
      add(r.grad + nq + ((b * a->hk + hk) * a->s + j) * a->d, ds, q, a->d);
    }
  }
  free(p);
  return r;
}

/* ---- calls ---- */

enum { BEHIND = 512 };
static unsigned char *run(setup *s, fl_call *k, const array *const *in, double scale) {
  char fault[200] = "";
  const size_t bytes = (size_t)k->numel * (size_t)fl_dtype_size(k->dtype);
  unsigned char *out = malloc(bytes + BEHIND);
  const fl_scalar number = { .d = scale };
  fl_call_run r = { .call = k, .out = out, .fault = fault, .scalar = &number };
  memset(out, 0xAB, bytes + BEHIND);
  for (int i = 0; i < k->nin; i++) r.in[i] = in[i]->p;
  check(fl_calls[k->kind].fits(k), "fits", k->kind);
  check(fl_cpu_call(&s->d, &r) == FLAME_OK && !fault[0], "runs", k->kind);
  for (size_t i = bytes; i < bytes + BEHIND; i++)
    if (out[i] != 0xAB) { check(0, "writes behind its result", (double)(i - bytes)); break; }
  return out;
}

static fl_call call_of(const problem *x, int kind, int nin, const array *const *in, int64_t numel) {
  fl_call k = { .kind = (uint16_t)kind, .nin = (uint8_t)nin, .dtype = (uint8_t)x->dtype,
                .numel = numel, .nscalar = 1 };
  memcpy(k.p, &x->a, sizeof x->a);
  for (int i = 0; i < nin; i++) {
    k.in_dtype[i] = (uint8_t)in[i]->dtype;
    k.in_numel[i] = in[i]->n;
  }
  return k;
}

static void near(const array *got, const double *want, int64_t n, double tol, const char *what) {
  double worst = 0;
  for (int64_t i = 0; i < n; i++) {
    const double y = get(got, i), off = fabs(y - want[i]) / (1 + fabs(want[i]));
    if (isnan(y) != isnan(want[i])) worst = INFINITY;
    else if (!isnan(y) && y != want[i] && off > worst) worst = off;
  }
  check(worst <= tol, what, worst);
}

/* Copies b * h * t rows of n elements from 'from', where they begin at element 'first' and lie at
** 'stride', to row-major order in 'to', from its element 'at' on. */
static void take_rows(const array *from, int64_t first, const int64_t stride[3], int64_t b,
                      int64_t h, int64_t t, int64_t n, const array *to, int64_t at) {
  const int64_t size = fl_dtype_size(from->dtype);
  for (int64_t row = 0; row < b * h * t; row++)
    memcpy((char *)to->p + (at + row * n) * size,
           (char *)from->p +
             (first + fl_row_at(stride, row / t / h, row / t % h, row % t)) * size,
           (size_t)(n * size));
}

/* Results in the oracle's order. */
static array plain_order(const fl_attention *a, const array *x, int back, int64_t n) {
  const fl_attention_results r = fl_attention_results_of(a);
  array y = { n, x->dtype, malloc((size_t)(n * fl_dtype_size(x->dtype))), NULL };
  if (!back) {
    take_rows(x, 0, r.out, a->b, a->h, a->t, a->d2, &y, 0);
    return y;
  }
  const int64_t nq = a->b * a->h * a->t * a->d, nk = a->b * a->hk * a->s * a->d;
  take_rows(x, 0, r.dq, a->b, a->h, a->t, a->d, &y, 0);
  take_rows(x, r.dk_at, r.dk, a->b, a->hk, a->s, a->d, &y, nq);
  take_rows(x, r.dv_at, r.dv, a->b, a->hk, a->s, a->d2, &y, nq + nk);
  return y;
}

static void one_case(setup *one, setup *three, int dtype) {
  static const double eps[FLAME_DTYPE_COUNT] = { [FLAME_F64] = 1e-12, [FLAME_F32] = 2e-5,
                                                 [FLAME_F16] = 1e-2, [FLAME_BF16] = 8e-2 };
  problem x = make(dtype);
  const fl_attention *a = &x.a;
  const int64_t width = fl_lse_width(dtype), size = fl_dtype_size(dtype);
  snprintf(shape_text, sizeof shape_text,
           "%s b %d h %d hk %d t %d s %d d %d d2 %d causal %d by row %d mask %s",
           fl_dtype_name(dtype), (int)a->b, (int)a->h, (int)a->hk, (int)a->t, (int)a->s, (int)a->d,
           (int)a->d2, (int)a->causal, (int)a->by_row,
           x.mask.p ? fl_dtype_name(x.mask.dtype) : "none");
  const plain want = oracle(&x);
  const array *in[] = { &x.q, &x.k, &x.v, &x.mask };
  fl_call k = call_of(&x, FL_CALL_attention, x.mask.p ? 4 : 3, in, want.n_out + want.n_lse * width);
  array packed = { k.numel, dtype, run(one, &k, in, x.scale), NULL };
  void *again = run(three, &k, in, x.scale);
  check(!memcmp(packed.p, again, (size_t)(k.numel * size)), "the same bits with three workers", 0);
  const array out = plain_order(a, &packed, 0, want.n_out);
  near(&out, want.out, want.n_out, eps[dtype], "result");
  array lse = { want.n_lse, dtype == FLAME_F64 ? FLAME_F64 : FLAME_F32,
                malloc((size_t)want.n_lse * 8), NULL };
  memcpy(lse.p, (char *)packed.p + want.n_out * size, (size_t)(want.n_lse * width * size));
  near(&lse, want.lse, want.n_lse, dtype == FLAME_F64 ? 1e-12 : 2e-5, "log-sum-exp");
  const array *back[] = { &x.g, &packed, &x.q, &x.k, &x.v, &x.mask };
  fl_call b = call_of(&x, FL_CALL_attention_back, x.mask.p ? 6 : 5, back, want.n_grad);
  array grad = { want.n_grad, dtype, run(one, &b, back, x.scale), NULL };
  void *twice = run(three, &b, back, x.scale);
  check(!memcmp(grad.p, twice, (size_t)(b.numel * size)),
        "the same bits of gradients with three workers", 0);
  const array grads = plain_order(a, &grad, 1, want.n_grad);
  near(&grads, want.grad, want.n_grad, 4 * eps[dtype], "gradients");
  void *const owned[] = { out.p, grads.p, packed.p, again, lse.p, grad.p, twice, want.out, want.lse,
                          want.grad };
  for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free(owned[i]);
  drop(&x);
}

static void all_of(const fl_vm *vm, const fl_attention_loops *loops, int n) {
  static const int dtypes[] = { FLAME_F64, FLAME_F32, FLAME_F16, FLAME_BF16 };
  setup *one = open_setup(1), *three = open_setup(3);
  for (int i = 0; vm && i < 2; i++) {
    fl_cpu *cpu = (i ? three : one)->d.state;
    cpu->vm = vm;
    cpu->attention = loops;
  }
  for (int i = 0; i < n; i++) one_case(one, three, dtypes[i % 4]);
  check(close_setup(one) && close_setup(three), "memory is given back", 0);
}

/* ---- calls that do not fit ---- */

static fl_call fitting(void) {
  fl_call k = { .kind = FL_CALL_attention, .nin = 4, .dtype = FLAME_F32, .nscalar = 1,
                .in_dtype = { FLAME_F32, FLAME_F32, FLAME_F32, FLAME_BOOL } };
  const fl_attention a = { .b = 2, .h = 4, .hk = 2, .t = 3, .s = 5, .d = 6, .d2 = 7,
                           .qs = { 72, 18, 6 }, .ks = { 60, 30, 6 },
                           .vs = { 70, 35, 7 }, .ms = { 0, 0, 5, 1 } };
  const int64_t n[] = { 144, 120, 140, 15 };
  memcpy(k.p, &a, sizeof a);
  memcpy(k.in_numel, n, sizeof n);
  k.numel = 2 * 4 * 3 * 8;
  return k;
}
static int fits(const fl_call *k) { return fl_calls[k->kind].fits(k); }

static void refuses_sizes_and_strides(const fl_call *good) {
  for (int i = 0; i < 7; i++) {                        /* b h hk t s d d2 */
    static const int64_t wrong[] = { 0, -1, 3000, INT64_MAX / 8, INT64_MAX };
    for (int w = 0; w < 5; w++) {
      fl_call k = *good;
      k.p[i] = wrong[w];
      check(!fits(&k), "a wrong size", i * 10 + w);
    }
  }
  for (int i = FL_AP_SIZES; i < FL_AP_COUNT; i++) {
    const int of_dout = i >= FL_AP_SIZES + 9 && i < FL_AP_SIZES + 12;
    fl_call k = *good;
    k.p[i] = -1;
    check(fits(&k) == of_dout, "a negative stride", i);
    k.p[i] = INT64_MAX;
    check(fits(&k) == of_dout, "a stride that leaves the input", i);
  }
}

static void refuses_what_does_not_fit(void) {
  const fl_call good = fitting();
  snprintf(shape_text, sizeof shape_text, "misfits");
  check(fits(&good), "what fits", 0);
  refuses_sizes_and_strides(&good);
  for (int i = 0; i < 4; i++) {
    fl_call k = good;
    k.in_numel[i]--;
    check(!fits(&k), "an input that is too short", i);
    k = good;
    k.in_dtype[i] = FLAME_F64;
    check(!fits(&k), "an input of another dtype", i);
  }
  for (int nin = 0; nin < 7; nin++) {
    fl_call k = good;
    k.nin = (uint8_t)nin;
    check(fits(&k) == (nin == 3 || nin == 4), "a number of inputs", nin);
  }
  fl_call k = good;
  k.numel++;
  check(!fits(&k), "another size of the result", 0);
  k = good, k.p[2] = 3;
  check(!fits(&k), "heads that do not divide", 0);
  k = good, k.p[7] = 2;
  check(!fits(&k), "a flag of 2", 0);
  k = good, k.dtype = k.in_dtype[0] = k.in_dtype[1] = k.in_dtype[2] = FLAME_I64;
  check(!fits(&k), "integers", 0);
}

static void refuses_keys_that_do_not_fit(void) {
  fl_call good = fitting();
  good.p[FL_AP_DROPS] = 1;
  good.in_dtype[good.nin] = FLAME_I64;
  good.in_numel[good.nin++] = 2;
  good.nscalar = 2;
  check(fits(&good), "a dropout that fits", 0);
  fl_call k = good;
  k.in_numel[4] = 1;
  check(!fits(&k), "a short key", 0);
  k = good, k.in_dtype[4] = FLAME_F64;
  check(!fits(&k), "a key that is no integer", 0);
  k = good, k.nscalar = 1;
  check(!fits(&k), "no p", 0);
  k = good, k.nin = 3;
  check(!fits(&k), "no key", 0);
  k = good, k.p[FL_AP_DROPS] = 0;
  check(!fits(&k), "a key without a dropout", 0);
}

static void refuses_gradients_that_do_not_fit(void) {
  const fl_call forward = fitting();
  fl_call good = forward;
  const int64_t n[] = { 168, forward.numel, 144, 120, 140, 15 }, strides_of_dout[] = { 84, 21, 7 };
  good.kind = FL_CALL_attention_back;
  good.nin = 6;
  for (int i = 0; i < 5; i++) good.in_dtype[i] = FLAME_F32;
  good.in_dtype[5] = FLAME_BOOL;
  memcpy(good.in_numel, n, sizeof n);
  memcpy(good.p + FL_AP_SIZES + 9, strides_of_dout, sizeof strides_of_dout);
  good.numel = 144 + 120 + 140;
  check(fits(&good), "a gradient that fits", 0);
  for (int i = 0; i < 6; i++) {
    fl_call k = good;
    k.in_numel[i]--;
    check(!fits(&k), "an input of the gradient that is too short", i);
  }
  for (int i = 0; i < 3; i++) {
    fl_call k = good;
    k.p[FL_AP_SIZES + 9 + i]++;
    check(!fits(&k), "a stride of dout that leaves it", i);
  }
  fl_call k = good;
  k.in_numel[1]++;
  check(!fits(&k), "a packed result of another size", 0);
  k = good, k.numel--;
  check(!fits(&k), "gradients of another size", 0);
}

int main(void) {
  state = 7;
  all_of(NULL, NULL, 240);
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) all_of(&fl_vm_avx2, &fl_attention_avx2, 80);
#endif
  all_of(&fl_vm_base, &fl_attention_base, 80);
  refuses_what_does_not_fit();
  refuses_keys_that_do_not_fit();
  refuses_gradients_that_do_not_fit();
  printf("call_attention: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
