/* Kernels as the planner makes them for layers, losses and optimisers. Their texts are compared
** with the files in spec/golden. */
#ifndef TYPICAL_KERNELS_H
#define TYPICAL_KERNELS_H
#include "make_kernel.h"

static void chain(maker *m) {              /* (x * a + b):relu() on 64M */
  const int64_t size[] = { 1 << 26 };
  mk_begin(m, FL_K_MAP, 1, 0, size);
  const int a = mk_scalar(m, FLAME_F32), b = mk_scalar(m, FLAME_F32);
  const int x = mk_load(m, mk_operand(m, FLAME_F32, 1, NULL), 1);
  const int y = mk_op(m, FL_OP_add, FLAME_F32, mk_op(m, FL_OP_mul, FLAME_F32, x, a, a), b, b);
  mk_out(m, mk_op(m, FL_OP_relu, FLAME_F32, y, y, y), 1);
}

static void adamw(maker *m) {              /* three states in place, one gradient */
  const int64_t size[] = { 1000003 };
  int op[4], x[4], s[6];
  mk_begin(m, FL_K_MAP, 1, 0, size);
  for (int i = 0; i < 6; i++) s[i] = mk_scalar(m, FLAME_F32);
  for (int i = 0; i < 4; i++) x[i] = mk_load(m, op[i] = mk_operand(m, FLAME_F32, 1, NULL), 1);
  const int F = FLAME_F32, g = x[1];
  const int m1 = mk_op(m, FL_OP_add, F, mk_op(m, FL_OP_mul, F, x[2], s[0], 0),
                       mk_op(m, FL_OP_mul, F, g, s[1], 0), 0);
  const int g2 = mk_op(m, FL_OP_square, F, g, g, g);
  const int v1 = mk_op(m, FL_OP_add, F, mk_op(m, FL_OP_mul, F, x[3], s[2], 0),
                       mk_op(m, FL_OP_mul, F, g2, s[3], 0), 0);
  const int d = mk_op(m, FL_OP_add, F, mk_op(m, FL_OP_sqrt, F, v1, v1, v1), s[4], 0);
  const int u = mk_op(m, FL_OP_mul, F, mk_op(m, FL_OP_div, F, m1, d, 0), s[5], 0);
  mk_store(m, mk_op(m, FL_OP_sub, F, x[0], u, 0), op[0]);
  mk_store(m, m1, op[2]);
  mk_store(m, v1, op[3]);
}

static void bias(maker *m) {               /* y erf(y) of y = x + b, b along the last axis */
  const int64_t size[] = { 512, 768 };
  mk_begin(m, FL_K_MAP, 2, 0, size);
  const int x = mk_load(m, mk_operand(m, FLAME_BF16, 3, NULL), 1);
  const int b = mk_load(m, mk_operand(m, FLAME_BF16, 2, NULL), 1);
  const int y = mk_op(m, FL_OP_add, FLAME_BF16, x, b, b);
  mk_out(m, mk_op(m, FL_OP_mul, FLAME_BF16, y, mk_op(m, FL_OP_erf, FLAME_BF16, y, y, y), y), 3);
}

static void transposed(maker *m) {
  const int64_t size[] = { 1024, 512 };
  const int order[] = { 1, 0 };
  mk_begin(m, FL_K_MAP, 2, 0, size);
  const int x = mk_load(m, mk_operand(m, FLAME_F32, 3, order), 1);
  const int y = mk_load(m, mk_operand(m, FLAME_F32, 3, NULL), 1);
  mk_out(m, mk_op(m, FL_OP_add, FLAME_F32, x, y, y), 3);
}

static void embedding(maker *m) {          /* w[ids], rows of 768 */
  const int64_t size[] = { 4096, 768 };
  mk_begin(m, FL_K_MAP, 2, 0, size);
  const int n = mk_scalar(m, FLAME_I64), at = mk_iota(m, 1);
  const int ids = mk_load(m, mk_operand(m, FLAME_I64, 1, NULL), 1);
  const int idx = mk_index(m, ids, n, at, 0), w = mk_operand(m, FLAME_F32, 2, NULL);
  m->operand[w].gstride = 768;
  m->elements[w] = 768 * 50;
  mk_out(m, mk_gather(m, w, idx, 1), 3);
}

static void dropout(maker *m) {
  const int64_t size[] = { 100000 };
  mk_begin(m, FL_K_MAP, 1, 0, size);
  const int F = FLAME_F32, zero = mk_scalar(m, F), one = mk_scalar(m, F), p = mk_scalar(m, F);
  const int i = mk_iota(m, 1), x = mk_load(m, mk_operand(m, F, 1, NULL), 1);
  const int u = mk_random(m, FL_OP_uniform, F, i, zero, one);
  const int on = mk_op(m, FL_OP_ge, FLAME_BOOL, u, p, p);
  mk_out(m, mk_op(m, FL_OP_where, F, on, x, zero), 1);
  mk_out(m, on, 1);
}

static void softmax_of(maker *m, int64_t rows, int64_t n, int dtype) {
  const int64_t size[] = { rows, n };
  mk_begin(m, FL_K_ROW, 1, 1, size);
  const int F = FLAME_F32;
  int x = mk_load(m, mk_operand(m, dtype, 3, NULL), 1);
  if (dtype != F) x = mk_cast(m, F, x);
  const int top = mk_reduce(m, FL_OP_amax, F, x);
  const int e = mk_op(m, FL_OP_exp, F, mk_op(m, FL_OP_sub, F, x, top, top), 0, 0);
  const int sum = mk_reduce(m, FL_OP_sum, F, e);
  int y = mk_op(m, FL_OP_div, F, e, sum, sum);
  if (dtype != F) y = mk_cast(m, dtype, y);
  mk_out(m, y, 3);
}

static void softmax(maker *m) { softmax_of(m, 16384, 8192, FLAME_F32); }

static void layer_norm_of(maker *m, int64_t rows, int64_t n, int dtype) {
  const int64_t size[] = { rows, n };
  mk_begin(m, FL_K_ROW, 1, 1, size);
  const int F = FLAME_F32, inv = mk_scalar(m, F), eps = mk_scalar(m, F);
  int x = mk_load(m, mk_operand(m, dtype, 3, NULL), 1);
  const int w = mk_load(m, mk_operand(m, F, 2, NULL), 1),
            b = mk_load(m, mk_operand(m, F, 2, NULL), 1);
  if (dtype != F) x = mk_cast(m, F, x);
  const int mean = mk_op(m, FL_OP_mul, F, mk_reduce(m, FL_OP_sum, F, x), inv, inv);
  const int d = mk_op(m, FL_OP_sub, F, x, mean, mean);
  const int ss = mk_reduce(m, FL_OP_sum, F, mk_op(m, FL_OP_square, F, d, d, d));
  const int var = mk_op(m, FL_OP_add, F, mk_op(m, FL_OP_mul, F, ss, inv, inv), eps, eps);
  const int r = mk_op(m, FL_OP_rsqrt, F, var, var, var);
  int y = mk_op(m, FL_OP_mul, F, d, r, r);
  y = mk_op(m, FL_OP_add, F, mk_op(m, FL_OP_mul, F, y, w, w), b, b);
  if (dtype != F) y = mk_cast(m, dtype, y);
  mk_out(m, y, 3);
  mk_out(m, mean, 1);
  mk_out(m, r, 1);
}

static void layer_norm(maker *m) { layer_norm_of(m, 4096, 768, FLAME_F32); }

/* g less its part along x, with sums over the rows: of g x and of the result, in a dtype. */
static void row_sums_of(maker *m, int64_t rows, int64_t n, int dtype) {
  const int64_t size[] = { rows, n };
  mk_begin(m, FL_K_ROW, 1, 1, size);
  const int F = FLAME_F32;
  const int x = mk_load(m, mk_operand(m, F, 3, NULL), 1);
  int g = mk_load(m, mk_operand(m, dtype, 3, NULL), 1);
  if (dtype != F) g = mk_cast(m, F, g);
  const int w = mk_load(m, mk_operand(m, F, 2, NULL), 1), u = mk_op(m, FL_OP_mul, F, g, w, w);
  const int p = mk_op(m, FL_OP_mul, F, u, x, x), s = mk_reduce(m, FL_OP_sum, F, p);
  int y = mk_op(m, FL_OP_sub, F, u, mk_op(m, FL_OP_mul, F, x, s, s), s);
  if (dtype != F) y = mk_cast(m, dtype, y);
  mk_out(m, y, 3);
  const int sums[] = { p, y };
  for (int i = 0; i < 2; i++) {
    mk_store(m, sums[i], mk_operand(m, F, 2, NULL));
    m->store[m->k.nstore - 1].across = 1;
  }
}

static void row_sums(maker *m) { row_sums_of(m, 16384, 768, FLAME_BF16); }

/* Joins the partial results of these sums. */
static void partial_sums_of(maker *m, int64_t rows, int64_t n) {
  const int64_t size[] = { n, fl_row_partials(rows, n) };
  const int order[] = { 1, 0 };
  mk_begin(m, FL_K_COL, 1, 1, size);
  for (int i = 0; i < 2; i++) {
    const int x = mk_load(m, mk_operand(m, FLAME_F32, 3, order), 1);
    mk_out(m, mk_reduce(m, FL_OP_sum, FLAME_F32, x), 1);
  }
  m->k.partial = (uint8_t)fl_row_parts(n);
}

static void partial_sums(maker *m) { partial_sums_of(m, 16384, 768); }

/* y = x + dropout(h), and y minus its mean: random draws in a ROW kernel that goes over the row
** twice, with the same draws. */
static void dropout_norm(maker *m) {
  const int64_t size[] = { 16384, 384 };
  mk_begin(m, FL_K_ROW, 1, 1, size);
  const int F = FLAME_F32, zero = mk_scalar(m, F), one = mk_scalar(m, F), p = mk_scalar(m, F),
            inv = mk_scalar(m, F);
  const int x = mk_load(m, mk_operand(m, F, 3, NULL), 1),
            h = mk_load(m, mk_operand(m, F, 3, NULL), 1);
  const int u = mk_random(m, FL_OP_uniform, F, mk_iota(m, 3), zero, one);
  const int kept = mk_op(m, FL_OP_where, F, mk_op(m, FL_OP_ge, FLAME_BOOL, u, p, p), h, zero);
  const int y = mk_op(m, FL_OP_add, F, x, kept, kept);
  const int mean = mk_op(m, FL_OP_mul, F, mk_reduce(m, FL_OP_sum, F, y), inv, inv);
  mk_out(m, y, 3);
  mk_out(m, mk_op(m, FL_OP_sub, F, y, mean, mean), 3);
}

static void sum_all_of(maker *m, int64_t n, int dtype, int op, int result) {
  mk_begin(m, FL_K_ROW, 0, 1, &n);
  const int x = mk_load(m, mk_operand(m, dtype, 1, NULL), 1);
  mk_out(m, mk_reduce(m, op, result, x), 0);
}

static void sum_all(maker *m) { sum_all_of(m, 100000000, FLAME_F32, FL_OP_sum, FLAME_F32); }

static void columns_of(maker *m, int64_t n, int64_t cols, int dtype, int op, int result) {
  const int64_t size[] = { cols, n };
  const int order[] = { 1, 0 };
  mk_begin(m, FL_K_COL, 1, 1, size);
  const int x = mk_load(m, mk_operand(m, dtype, 3, order), 1);
  mk_out(m, mk_reduce(m, op, result, x), 1);
}

static void bias_grad(maker *m) { columns_of(m, 16384, 768, FLAME_F32, FL_OP_sum, FLAME_F32); }

/* The gradient with respect to the input of gelu(h + b), and its column sums, the gradient of b. */
static void gelu_grad_of(maker *m, int64_t n, int64_t cols, int dtype) {
  const int64_t size[] = { cols, n };
  const int order[] = { 1, 0 };
  mk_begin(m, FL_K_COL, 1, 1, size);
  const int g = mk_load(m, mk_operand(m, dtype, 3, order), 1),
            h = mk_load(m, mk_operand(m, dtype, 3, order), 1);
  const int x = mk_op(m, FL_OP_add, dtype, h, mk_load(m, mk_operand(m, dtype, 1, NULL), 0), 0);
  const int y = mk_op(m, FL_OP_gelu_tanh_back, dtype, g, x, 0);
  mk_store(m, y, mk_operand(m, dtype, 3, order));
  mk_out(m, mk_reduce(m, FL_OP_sum, dtype, y), 1);
}

static void gelu_grad(maker *m) { gelu_grad_of(m, 16384, 3072, FLAME_BF16); }

static void cross_entropy(maker *m) {      /* a row per position; gathers the target's logit */
  const int64_t size[] = { 1024, 50257 };
  mk_begin(m, FL_K_ROW, 1, 1, size);
  const int F = FLAME_F32, n = mk_scalar(m, FLAME_I64), o = mk_operand(m, F, 3, NULL);
  const int x = mk_load(m, o, 1), t = mk_load(m, mk_operand(m, FLAME_I64, 1, NULL), 0);
  const int pick = mk_operand(m, F, 3, NULL), idx = mk_index(m, t, n, t, FL_INDEX_IGNORE);
  m->operand[pick].stride[1] = 0;
  m->operand[pick].gstride = 1;
  const int logit = mk_gather(m, pick, idx, 0), top = mk_reduce(m, FL_OP_amax, F, x);
  const int e = mk_op(m, FL_OP_exp, F, mk_op(m, FL_OP_sub, F, x, top, top), 0, 0);
  const int ls = mk_op(m, FL_OP_log, F, mk_reduce(m, FL_OP_sum, F, e), 0, 0);
  mk_out(m, mk_op(m, FL_OP_sub, F, mk_op(m, FL_OP_add, F, ls, top, top), logit, 0), 1);
}

/* Cross entropy and its gradient of bf16 logits: a block reads its row from memory once. */
static void cross_once_of(maker *m, int64_t rows, int64_t n) {
  const int64_t size[] = { rows, n };
  mk_begin(m, FL_K_ROW, 1, 1, size);
  const int F = FLAME_F32, I = FLAME_I64, B = FLAME_BOOL;
  const int o = mk_operand(m, FLAME_BF16, 3, NULL);
  const int x = mk_cast(m, F, mk_load(m, o, 1)), top = mk_reduce(m, FL_OP_amax, F, x);
  const int e = mk_op(m, FL_OP_exp_below, F, mk_op(m, FL_OP_sub, F, x, top, top), 0, 0);
  const int sum = mk_reduce(m, FL_OP_sum, F, e), t = mk_load(m, mk_operand(m, I, 1, NULL), 0);
  const int most = mk_scalar(m, I), idx = mk_index(m, t, most, t, FL_INDEX_IGNORE);
  const int pick = mk_operand(m, FLAME_BF16, 3, NULL);
  m->operand[pick].stride[1] = 0;
  m->operand[pick].gstride = 1;
  const int logit = mk_cast(m, F, mk_gather(m, pick, idx, 0));
  const int log = mk_op(m, FL_OP_log, F, sum, sum, sum);
  const int at = mk_cast(m, FLAME_I32, mk_iota(m, 2)), own = mk_cast(m, FLAME_I32, idx);
  const int hit = mk_op(m, FL_OP_eq, B, at, own, own), scale = mk_scalar(m, F);
  const int y = mk_op(m, FL_OP_mul, F, e, mk_op(m, FL_OP_div, F, scale, sum, sum), sum);
  const int z = mk_op(m, FL_OP_where, F, hit, mk_op(m, FL_OP_sub, F, y, scale, scale), y);
  mk_out(m, mk_op(m, FL_OP_sub, F, log, mk_op(m, FL_OP_sub, F, logit, top, top), top), 1);
  mk_out(m, mk_cast(m, FLAME_BF16, z), 3);
}

static void cross_once(maker *m) { cross_once_of(m, 16384, 50304); }

/* Four gated values, each divided by its norm: too many for registers and too expensive to compute
** twice, so they are held in shared memory. */
static void gated_norm(maker *m) {
  const int64_t size[] = { 4096, 512 };
  mk_begin(m, FL_K_ROW, 1, 1, size);
  const int F = FLAME_F32;
  int x[16], v[4];
  for (int i = 0; i < 16; i++) x[i] = mk_load(m, mk_operand(m, F, 3, NULL), 1);
  for (int i = 0; i < 4; i++) {
    const int a = mk_op(m, FL_OP_erf, F, x[i + 4], 0, 0);
    const int b = mk_op(m, FL_OP_erf, F, x[i + 8], 0, 0);
    const int ab = mk_op(m, FL_OP_mul, F, mk_op(m, FL_OP_mul, F, x[i], a, a), b, b);
    v[i] = mk_op(m, FL_OP_add, F, ab, x[i + 12], 0);
  }
  for (int i = 0; i < 4; i++) {
    const int sum = mk_reduce(m, FL_OP_sum, F, mk_op(m, FL_OP_square, F, v[i], 0, 0));
    mk_out(m, mk_op(m, FL_OP_mul, F, v[i], mk_op(m, FL_OP_rsqrt, F, sum, 0, 0), 0), 3);
  }
}

/* Column sums of so many arrays that a thread takes two columns instead of four. */
static void many_columns(maker *m) {
  const int64_t size[] = { 512, 4096 };
  const int order[] = { 1, 0 };
  mk_begin(m, FL_K_COL, 1, 1, size);
  for (int i = 0; i < 13; i++) {
    const int x = mk_load(m, mk_operand(m, FLAME_F32, 3, order), 1);
    mk_out(m, mk_reduce(m, FL_OP_sum, FLAME_F32, x), 1);
  }
}

static const struct { const char *name; void (*make)(maker *); } typical[] = {
  { "chain", chain }, { "adamw", adamw }, { "bias_half", bias }, { "transposed", transposed },
  { "embedding", embedding }, { "dropout", dropout }, { "softmax", softmax },
  { "layer_norm", layer_norm }, { "sum_all", sum_all }, { "bias_grad", bias_grad },
  { "gelu_grad", gelu_grad }, { "row_sums", row_sums }, { "partial_sums", partial_sums },
  { "cross_entropy", cross_entropy },
  { "cross_once", cross_once }, { "dropout_norm", dropout_norm },
  { "gated_norm", gated_norm }, { "many_columns", many_columns },
};
enum { TYPICAL = sizeof typical / sizeof *typical };
#endif
