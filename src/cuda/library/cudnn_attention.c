/*
** Attention by cuDNN's fused kernels: the graphs that its engines support, forward and backward, of
** products, a softmax made of reductions, and a causal mask made of indices.
**
** Backward has two forms. The default one passes the gradients of all scores through memory (2
** bytes each) from the kernel that computes dk and dv to the product that computes dq, so that
** every sum has a fixed order; for large problems as many batches or heads at a time as fit
** SCORES_MOST. A call that is 'free' adds to dq in f32 by atomics, which is faster and needs no
** such memory. Whether a call is done here depends only on sizes, strides, dtype and flags; an
** unaligned input is copied.
*/
#include "cuda/library/cudnn_graph.h"
#include "base/num.h"
#include <math.h>
#include <string.h>

/* HEAD_MOST: up to it the engines support all multiples of 8. BLOCKS_LEAST: a call that is
** divided into parts is done here only if each has so many blocks of BLOCK rows: with fewer our own
** kernel is faster. BLOCKS_SMALL: the same for heads up to HEAD_SMALL. VERSION: some earlier
** versions give wrong gradients. */
enum { HEAD_MOST = 128, LENGTH_LEAST = 512, LENGTH_STEP = 64, BLOCK = 128,
       BLOCKS_LEAST = 512, BLOCKS_SMALL = 1024, HEAD_SMALL = 64, VERSION = 91100 };
static const int64_t SCORES_MOST = 1 << 29;

enum { Q, K, V, OUT, LSE, DOUT, DQ, DK, DV, SUMS, WIDE, SCALE, LEAST, ONE, ROLES };
enum { OPS = 32, VIRTUAL = 100 };

typedef struct graph {
  fl_dnn_maker m;
  const fl_attention *a;          /* of the whole call */
  fl_attention_results to;
  int half;                       /* cuDNN's type of q */
  int64_t b, h, hk;               /* of one execution */
  fl_dnn_item op[OPS];
  int n;
  int64_t scores[4], rows[4], queries[4], keys[4];
} graph;

/* ---- tensors ---- */

static void packed(const int64_t *size, int64_t *stride) {
  stride[3] = 1;
  for (int i = 2; i >= 0; i--) stride[i] = stride[i + 1] * size[i + 1];
}

static fl_dnn_item between(graph *g, int type, const int64_t *size) {
  int64_t stride[4];
  packed(size, stride);
  return fl_dnn_tensor(&g->m, FL_DNN_VIRTUAL, VIRTUAL + g->m.p->items, type, 4, size, stride);
}
static fl_dnn_item number(graph *g, int role) {
  static const int64_t one[4] = { 1, 1, 1, 1 };
  return fl_dnn_tensor(&g->m, FL_DNN_NUMBER, role, FL_DNN_F32, 4, one, one);
}

/* The strides over (b, h, row); axes of one element get the stride of a packed array. */
static void strides_of(const int64_t *size, const int64_t *over, int64_t *stride) {
  stride[3] = 1;
  for (int i = 2; i >= 0; i--) stride[i] = size[i] > 1 ? over[i] : stride[i + 1] * size[i + 1];
}
static fl_dnn_item stored(graph *g, int role, int type, const int64_t *size, const int64_t *over) {
  int64_t stride[4];
  strides_of(size, over, stride);
  return fl_dnn_tensor(&g->m, FL_DNN_STORED, role, type, 4, size, stride);
}
/* k or v with its last two axes exchanged: the right operand of the product of q and k', or of dout
** and v'. */
static fl_dnn_item exchanged(graph *g, int role, const int64_t *over) {
  int64_t stride[4];
  strides_of(g->keys, over, stride);
  return fl_dnn_tensor(&g->m, FL_DNN_STORED, role, g->half, 4,
                       (int64_t[]){ g->b, g->hk, g->a->d, g->a->s },
                       (int64_t[]){ stride[0], stride[1], 1, stride[2] });
}
/* A packed array of the whole call: h heads of n rows of d elements. */
static fl_dnn_item whole(graph *g, int role, int type, const int64_t *size, int64_t h) {
  const int64_t n = size[2] * size[3];
  return stored(g, role, type, size, (int64_t[]){ h * n, n, size[3] });
}

/* ---- operations ---- */

static void add_op(graph *g, fl_dnn_item op) {
  fl_dnn_finish(&g->m, op);
  if (g->n == OPS) g->m.error = FL_DNN_FULL;
  else g->op[g->n++] = op;
}

/* y = mode(x [, b [, t]]), computed in 'type'; axis: that of an index, else -1. */
static fl_dnn_item point(graph *g, int mode, int type, int64_t axis, const fl_dnn_item in[3],
                         fl_dnn_item y) {
  static const int names[] = { FL_DNN_POINT_X, FL_DNN_POINT_B, FL_DNN_POINT_T };
  fl_dnn_item how = fl_dnn_new(&g->m, FL_DNN_POINT_SPEC);
  fl_dnn_set(&g->m, how, FL_DNN_POINT_MODE, FL_DNN_IS_POINT_MODE, 1, &mode);
  fl_dnn_set(&g->m, how, FL_DNN_POINT_TYPE, FL_DNN_IS_DTYPE, 1, &type);
  if (axis >= 0) fl_dnn_set(&g->m, how, FL_DNN_POINT_AXIS, FL_DNN_IS_I64, 1, &axis);
  fl_dnn_finish(&g->m, how);
  fl_dnn_item op = fl_dnn_new(&g->m, FL_DNN_POINT);
  fl_dnn_set(&g->m, op, FL_DNN_POINT_HOW, FL_DNN_IS_ITEM, 1, &how);
  for (int i = 0; i < 3; i++)
    if (in[i]) fl_dnn_set(&g->m, op, names[i], FL_DNN_IS_ITEM, 1, &in[i]);
  fl_dnn_set(&g->m, op, FL_DNN_POINT_Y, FL_DNN_IS_ITEM, 1, &y);
  add_op(g, op);
  return y;
}
static fl_dnn_item into(graph *g, int mode, fl_dnn_item x, fl_dnn_item b, fl_dnn_item y) {
  return point(g, mode, FL_DNN_F32, -1, (fl_dnn_item[]){ x, b, NULL }, y);
}
/* y = mode(x, b), where y is a new f32 array of this size that exists only between operations
** (virtual). */
static fl_dnn_item apply(graph *g, int mode, fl_dnn_item x, fl_dnn_item b, const int64_t *size) {
  return into(g, mode, x, b, between(g, FL_DNN_F32, size));
}

static fl_dnn_item product(graph *g, fl_dnn_item a, fl_dnn_item b, fl_dnn_item c) {
  const int type = FL_DNN_F32;
  fl_dnn_item how = fl_dnn_new(&g->m, FL_DNN_MATMUL_SPEC);
  fl_dnn_set(&g->m, how, FL_DNN_MATMUL_TYPE, FL_DNN_IS_DTYPE, 1, &type);
  fl_dnn_finish(&g->m, how);
  fl_dnn_item op = fl_dnn_new(&g->m, FL_DNN_MATMUL);
  fl_dnn_set(&g->m, op, FL_DNN_MATMUL_A, FL_DNN_IS_ITEM, 1, &a);
  fl_dnn_set(&g->m, op, FL_DNN_MATMUL_B, FL_DNN_IS_ITEM, 1, &b);
  fl_dnn_set(&g->m, op, FL_DNN_MATMUL_C, FL_DNN_IS_ITEM, 1, &c);
  fl_dnn_set(&g->m, op, FL_DNN_MATMUL_HOW, FL_DNN_IS_ITEM, 1, &how);
  add_op(g, op);
  return c;
}

/* Reduces along the axes in which y has one element, or fewer than x. */
static fl_dnn_item reduce(graph *g, int mode, fl_dnn_item x, fl_dnn_item y) {
  const int type = FL_DNN_F32;
  fl_dnn_item how = fl_dnn_new(&g->m, FL_DNN_REDUCE_SPEC);
  fl_dnn_set(&g->m, how, FL_DNN_REDUCE_MODE, FL_DNN_IS_REDUCE_MODE, 1, &mode);
  fl_dnn_set(&g->m, how, FL_DNN_REDUCE_TYPE, FL_DNN_IS_DTYPE, 1, &type);
  fl_dnn_finish(&g->m, how);
  fl_dnn_item op = fl_dnn_new(&g->m, FL_DNN_REDUCE);
  fl_dnn_set(&g->m, op, FL_DNN_REDUCE_X, FL_DNN_IS_ITEM, 1, &x);
  fl_dnn_set(&g->m, op, FL_DNN_REDUCE_Y, FL_DNN_IS_ITEM, 1, &y);
  fl_dnn_set(&g->m, op, FL_DNN_REDUCE_HOW, FL_DNN_IS_ITEM, 1, &how);
  add_op(g, op);
  return y;
}

static fl_dnn_item reshape(graph *g, fl_dnn_item x, fl_dnn_item y) {
  fl_dnn_item op = fl_dnn_new(&g->m, FL_DNN_RESHAPE);
  fl_dnn_set(&g->m, op, FL_DNN_RESHAPE_X, FL_DNN_IS_ITEM, 1, &x);
  fl_dnn_set(&g->m, op, FL_DNN_RESHAPE_Y, FL_DNN_IS_ITEM, 1, &y);
  add_op(g, op);
  return y;
}
/* The scores transposed and rounded: the left operand of the products for dk and dv. */
static fl_dnn_item by_keys(graph *g, fl_dnn_item x) {
  const int64_t t = g->a->t, s = g->a->s;
  return reshape(g, x, fl_dnn_tensor(&g->m, FL_DNN_VIRTUAL, VIRTUAL + g->m.p->items, g->half, 4,
                                     (int64_t[]){ g->b, g->h, s, t },
                                     (int64_t[]){ g->h * t * s, t * s, 1, s }));
}

/* The scores; with a causal mask hidden ones (keys after the query) become -inf. The engines
** recognise this order of operations. */
static fl_dnn_item hide(graph *g, fl_dnn_item x) {
  if (!g->a->causal) return x;
  fl_dnn_item least = number(g, LEAST), at[2];
  for (int i = 0; i < 2; i++)
    at[i] = point(g, FL_DNN_INDEX, FL_DNN_F32, 2 + i, (fl_dnn_item[]){ x, NULL, NULL },
                  between(g, FL_DNN_I32, g->scores));
  fl_dnn_item seen = point(g, FL_DNN_GE, FL_DNN_BOOL, -1, (fl_dnn_item[]){ at[0], at[1], NULL },
                           between(g, FL_DNN_BOOL, g->scores));
  return point(g, FL_DNN_SELECT, FL_DNN_F32, -1, (fl_dnn_item[]){ x, least, seen },
               between(g, FL_DNN_F32, g->scores));
}

/* ---- the two graphs ---- */

static void forward(graph *g) {
  const fl_attention *a = g->a;
  fl_dnn_item q = stored(g, Q, g->half, g->queries, a->qs), k = exchanged(g, K, a->ks),
              v = stored(g, V, g->half, g->keys, a->vs),
              out = stored(g, OUT, g->half, g->queries, g->to.out),
              lse = whole(g, LSE, FL_DNN_F32, g->rows, a->h), scale = number(g, SCALE);
  fl_dnn_item s = product(g, q, k, between(g, FL_DNN_F32, g->scores));
  s = hide(g, apply(g, FL_DNN_MUL, s, scale, g->scores));
  fl_dnn_item most = reduce(g, FL_DNN_MAX, s, between(g, FL_DNN_F32, g->rows));
  s = apply(g, FL_DNN_EXP, apply(g, FL_DNN_SUB, s, most, g->scores), NULL, g->scores);
  fl_dnn_item sum = reduce(g, FL_DNN_SUM, s, between(g, FL_DNN_F32, g->rows));
  into(g, FL_DNN_ADD, most, apply(g, FL_DNN_LOG, sum, NULL, g->rows), lse);
  product(g, into(g, FL_DNN_DIV, s, sum, between(g, g->half, g->scores)), v, out);
}

/* Adds the product left' right to the graph, summed over the heads that share keys; the result is
** dk or dv. */
static void put_keys(graph *g, int role, fl_dnn_item left, fl_dnn_item right) {
  const fl_attention *a = g->a;
  fl_dnn_item y = stored(g, role, g->half, g->keys, role == DK ? g->to.dk : g->to.dv);
  if (a->h == a->hk) product(g, left, right, y);
  else reduce(g, FL_DNN_SUM,
              product(g, left, right,
                      between(g, g->half, (int64_t[]){ g->b, g->h, a->s, a->d })), y);
}

static void put_queries(graph *g, fl_dnn_item ds, fl_dnn_item k, int free) {
  fl_dnn_item dq = stored(g, DQ, g->half, g->queries, g->to.dq);
  if (!free) product(g, ds, k, dq);
  else into(g, FL_DNN_IDENTITY,
            product(g, ds, k, whole(g, WIDE, FL_DNN_F32, g->queries, g->h)), NULL, dq);
}

static void backward(graph *g, int free) {
  const fl_attention *a = g->a;
  fl_dnn_item q = stored(g, Q, g->half, g->queries, a->qs), k = exchanged(g, K, a->ks),
              v = exchanged(g, V, a->vs), out = stored(g, OUT, g->half, g->queries, g->to.out),
              dout = stored(g, DOUT, g->half, g->queries, a->gs),
              lse = whole(g, LSE, FL_DNN_F32, g->rows, a->h), scale = number(g, SCALE);
  int64_t over[4];
  fl_dnn_item x = reduce(g, FL_DNN_SUM, apply(g, FL_DNN_MUL, dout, out, g->queries),
                         between(g, FL_DNN_F32, g->rows));
  fl_dnn_item sums = into(g, FL_DNN_MUL, x, number(g, ONE),
                          whole(g, SUMS, FL_DNN_F32, g->rows, g->h));
  fl_dnn_item s = product(g, q, k, between(g, FL_DNN_F32, g->scores));
  s = apply(g, FL_DNN_SUB, apply(g, FL_DNN_MUL, s, scale, g->scores), lse, g->scores);
  fl_dnn_item p = apply(g, FL_DNN_EXP, hide(g, s), NULL, g->scores);
  put_keys(g, DV, by_keys(g, p), dout);
  fl_dnn_item ds = product(g, dout, v, between(g, FL_DNN_F32, g->scores));
  ds = apply(g, FL_DNN_MUL, apply(g, FL_DNN_SUB, ds, sums, g->scores), p, g->scores);
  ds = apply(g, FL_DNN_MUL, ds, scale, g->scores);
  put_keys(g, DK, by_keys(g, ds), q);
  strides_of(g->keys, a->ks, over);
  put_queries(g, ds, reshape(g, k, fl_dnn_tensor(&g->m, FL_DNN_VIRTUAL, VIRTUAL + g->m.p->items,
                                                 g->half, 4, g->keys, over)), free);
}

/* ---- plans ---- */

/* Can cuDNN read the rows in place? Every stride must be a multiple of 16 bytes, and not 0. */
static int readable(const int64_t *size, const int64_t *over) {
  for (int i = 0; i < 3; i++)
    if (size[i] > 1 && (over[i] <= 0 || over[i] % 8 != 0)) return 0;
  return 1;
}

static int takes(const fl_cuda *s, const fl_call *c, const fl_attention *a, int mask) {
  const int64_t q[] = { a->b, a->h, a->t }, k[] = { a->b, a->hk, a->s };
  return s->arch == FL_HOPPER && fl_dtype_size(c->dtype) == 2 && mask == FL_MASK_NONE &&
         a->d == a->d2 && a->d % 8 == 0 && a->d <= HEAD_MOST &&
         a->t >= LENGTH_LEAST && a->t % LENGTH_STEP == 0 &&
         a->s >= LENGTH_LEAST && a->s % LENGTH_STEP == 0 && readable(q, a->qs) &&
         readable(k, a->ks) && readable(k, a->vs) &&
         (c->kind == FL_CALL_attention || readable(q, a->gs));
}

/* The largest divisor of n that is at most 'most'; 0 if most < 1. */
static int64_t divisor_of(int64_t n, int64_t most) {
  for (int64_t i = fl_min(n, most); i > 0; i--)
    if (n % i == 0) return i;
  return 0;
}

/* Decides how much of a call one execution does; heads 0: too little to be worthwhile. */
static void cut(const fl_attention *a, int stores, fl_dnn_plan *p) {
  const int64_t group = a->h / a->hk, head = 2 * a->t * a->s;
  p->batches = stores ? divisor_of(a->b, SCORES_MOST / head / a->h) : a->b;
  p->heads = a->h;
  if (p->batches == 0) {
    p->batches = 1;
    p->heads = group * divisor_of(a->hk, SCORES_MOST / head / group);
  }
  const int64_t least = a->d <= HEAD_SMALL ? BLOCKS_SMALL : BLOCKS_LEAST;
  if (p->batches * p->heads < a->b * a->h &&
      p->batches * p->heads * fl_ceil_div(a->t, BLOCK) < least) p->heads = 0;
}

static void make(fl_dnn *q, fl_dnn_plan *p, const fl_call *c, const fl_attention *a) {
  const int back = c->kind == FL_CALL_attention_back;
  cut(a, back && !a->free, p);
  if (q->version < VERSION || p->heads == 0) return;
  graph g = { .m = { p, FL_DNN_OK }, .a = a, .to = fl_attention_results_of(a),
              .half = fl_dnn_type_of(c->dtype), .b = p->batches,
              .h = p->heads, .hk = p->heads / (a->h / a->hk) };
  memcpy(g.scores, (int64_t[]){ g.b, g.h, a->t, a->s }, sizeof g.scores);
  memcpy(g.rows, (int64_t[]){ g.b, g.h, a->t, 1 }, sizeof g.rows);
  memcpy(g.queries, (int64_t[]){ g.b, g.h, a->t, a->d }, sizeof g.queries);
  memcpy(g.keys, (int64_t[]){ g.b, g.hk, a->s, a->d }, sizeof g.keys);
  if (back) backward(&g, (int)a->free);
  else forward(&g);
  fl_dnn_item whole_graph = fl_dnn_graph(&g.m, q->handle, g.n, g.op);
  if (g.m.error == FL_DNN_OK)
    fl_dnn_choose(&g.m, q->handle, whole_graph, FL_DNN_MODE_A, c->dtype, (int)a->free);
  if (!p->plan) fl_dnn_drop(p);
}

const fl_dnn_plan *fl_dnn_attention(fl_cuda *s, const fl_call *c) {
  _Static_assert(FL_AP_COUNT + 2 <= FL_DNN_KEY, "a plan is kept by all integers");
  fl_attention a;
  fl_dnn_plan *p;
  int mask;
  if (!fl_attention_read(c, &a, &mask) || !takes(s, c, &a, mask)) return NULL;
  if (fl_dnn_kept(s, c, &p)) make(s->dnn, p, c, &a);
  return p && p->plan ? p : NULL;
}

/* Scratch holds cuDNN's workspace; backward, also a sum for each row and, if 'free', dq in f32. */
static int64_t sums_bytes(const fl_dnn_plan *p, const fl_attention *a) {
  return fl_round_up(4 * p->batches * p->heads * a->t, 256);
}
int64_t fl_dnn_attention_space(const fl_dnn_plan *p, const fl_call *c) {
  fl_attention a;
  int mask;
  if (!fl_attention_read(c, &a, &mask)) return 0;
  const int64_t sums = c->kind == FL_CALL_attention ? 0 : sums_bytes(p, &a);
  return fl_round_up(p->space, 256) + sums * (a.free ? 1 + a.d : 1);
}

/* ---- running ---- */

typedef struct places {           /* of a whole call */
  char *at[ROLES];
  float number[ROLES];
} places;

static void places_of(const fl_call_run *r, const fl_dnn_plan *p, const fl_attention *a,
                      void *const *in, places *x) {
  const int back = r->call->kind == FL_CALL_attention_back;
  const int64_t out = 2 * a->b * a->h * a->t * a->d;
  const fl_attention_results to = fl_attention_results_of(a);
  char *const result = r->out, *const forward = back ? in[1] : r->out,
       *const space = (char *)r->scratch + fl_round_up(p->space, 256);
  memset(x, 0, sizeof *x);
  x->at[OUT] = forward;
  x->at[LSE] = forward + out;
  for (int i = Q; i <= V; i++) x->at[i] = in[(back ? 2 : 0) + i];
  x->number[SCALE] = (float)r->scalar[0].d;
  x->number[LEAST] = -INFINITY;
  x->number[ONE] = 1;
  x->at[SCALE] = (char *)&x->number[SCALE];
  if (a->causal) x->at[LEAST] = (char *)&x->number[LEAST];
  if (!back) return;
  x->at[ONE] = (char *)&x->number[ONE];
  x->at[DOUT] = in[0];
  x->at[DQ] = result;
  x->at[DK] = result + 2 * to.dk_at;
  x->at[DV] = result + 2 * to.dv_at;
  x->at[SUMS] = space;
  if (a->free) x->at[WIDE] = space + sums_bytes(p, a);
}

/* Runs the part that starts at batch b and head h of q. */
static fl_dnn_status run_part(fl_cuda *s, const fl_dnn_plan *p, const fl_attention *a,
                              const places *x, int64_t b, int64_t h, void *space) {
  const int64_t hk = h / (a->h / a->hk);
  const fl_attention_results to = fl_attention_results_of(a);
  const int64_t skip[ROLES] = {
    [Q] = b * a->qs[0] + h * a->qs[1], [K] = b * a->ks[0] + hk * a->ks[1],
    [V] = b * a->vs[0] + hk * a->vs[1], [DOUT] = b * a->gs[0] + h * a->gs[1],
    [OUT] = b * to.out[0] + h * to.out[1], [DQ] = b * to.dq[0] + h * to.dq[1],
    [DK] = b * to.dk[0] + hk * to.dk[1], [DV] = b * to.dv[0] + hk * to.dv[1],
    [LSE] = 2 * (b * a->h + h) * a->t
  };
  int64_t id[ROLES];
  void *at[ROLES];
  int count = 0;
  for (int i = 0; i < ROLES; i++)
    if (x->at[i]) {
      id[count] = i;
      at[count++] = x->at[i] + 2 * skip[i];
    }
  return fl_dnn_execute(s, p, count, id, at, space);
}

flame_status fl_dnn_attention_run(fl_cuda *s, const fl_dnn_plan *p, const fl_call_run *r) {
  const int n = r->call->nin;
  void *in[FL_CALL_INPUTS], *copy[FL_CALL_INPUTS] = { NULL };
  fl_attention a;
  places x;
  int mask;
  flame_status e = FLAME_OK;
  fl_dnn_status done = FL_DNN_OK;
  if (!fl_attention_read(r->call, &a, &mask)) return FLAME_OK;
  memcpy(in, r->in, (size_t)n * sizeof *in);
  for (int i = 0; i < n && e == FLAME_OK; i++)
    e = fl_dnn_align(s, &in[i], 2 * r->call->in_numel[i], &copy[i], "attention");
  if (e == FLAME_OK) places_of(r, p, &a, in, &x);
  for (int64_t b = 0; b < a.b && e == FLAME_OK; b += p->batches)
    for (int64_t h = 0; h < a.h && done == FL_DNN_OK; h += p->heads)
      done = run_part(s, p, &a, &x, b, h, r->scratch);
  for (int i = 0; i < n; i++)
    if (copy[i]) fl_cuda_release(s, copy[i]);
  return e != FLAME_OK || done == FL_DNN_OK ? e : fl_dnn_failed(s, r->call->what, done);
}
