/*
** Attention as one op (call_attention.h): no array of all scores is kept, forward or backward. q,
** k, v, the mask and the cotangent are read in place where their strides allow this (span_of): the
** call's input is the range of memory that a view covers. Gradients that need gradients themselves
** are recorded as ordinary ops on all scores.
*/
#include "tensor/build_util.h"
#include "tensor/call_attention.h"
#include <math.h>
#include <string.h>

enum { Q, K, V, OPERANDS };
static const char op[] = "scaled_dot_product_attention";

typedef struct attention {        /* what the backward reads; all is held */
  flame_context *c;
  fl_node *in[OPERANDS], *mask, *packed;        /* mask: (b, h, t, s), or NULL */
  fl_node *rows;              /* array (b, t, h + 2 hk, d) of which q, k and v are views, or NULL */
  fl_node *key;               /* of a dropout, or NULL; base, seed: what it holds */
  double scale, drop;         /* drop: p of the dropout */
  int64_t base, seed;
  int64_t p[FL_AP_COUNT];
} attention;

/* The memory that x (4 axes) covers, from its first element on, and its strides: over the first
** three axes or, if 'loose', all four. x is copied row-major first if a stride is negative or,
** unless 'loose', if the elements of the last axis are not adjacent. */
static fl_node *span_of(fl_node *x, int loose, int64_t *stride) {
  int64_t n = 1;
  int plain = 1;
  for (int a = 0; a < 4; a++) plain &= x->layout->stride[a] >= 0;
  if (!plain || (!loose && x->layout->size[3] > 1 && x->layout->stride[3] != 1)) x = n_copy(x);
  if (!x) return NULL;
  const fl_layout *l = x->layout;
  for (int a = 0; a < 4; a++) n += (l->size[a] - 1) * l->stride[a];
  memcpy(stride, l->stride, sizeof *stride * (loose ? 4 : 3));
  fl_layout *line = fl_layout_of(&x->ctx->layouts, 1, &n, NULL);
  fl_node *v = fl_node_view(x, line ? fl_layout_retain(line) : NULL, line, x->offset, NULL, 0);
  return v ? v : fl_no_memory(x->ctx, op);
}

/* Puts q, k, v, the mask and the key into in[0 …]; returns how many, 0: an error. */
static int operands(const attention *s, fl_node **in, int64_t *p) {
  int64_t *at = p + FL_AP_SIZES;
  for (int i = 0; i < OPERANDS; i++, at += 3)
    if (!(in[i] = span_of(s->in[i], 0, at))) return 0;
  int n = OPERANDS;
  if (s->mask && !(in[n++] = span_of(s->mask, 1, at + 3))) return 0;
  if (s->key) in[n++] = s->key;
  return n;
}

static fl_node *call(const attention *s, int kind, int nin, fl_node *const *in, const int64_t *p,
                     int64_t numel) {
  const fl_scalar scalar[] = { { .d = s->scale }, { .d = s->drop } };
  fl_node *q = s->in[Q];
  return n_call(s->c, kind, op, nin, in, q->device, q->dtype, 1, &numel, FL_AP_COUNT, p, NULL,
                s->key ? 2 : 1, scalar);
}

/* The elements of 'packed' from 'first' on, as an array with x's sizes. */
static fl_node *part(fl_node *packed, int64_t first, const fl_node *x) {
  return n_reshape(n_slice(packed, 0, first, x->shape->numel, 1), 4, x->shape->size);
}

static fl_node *forward(attention *s) {
  fl_node *in[OPERANDS + 2];
  const int n = operands(s, in, s->p);
  const int64_t rows = s->p[0] * s->p[1] * s->p[3];
  const int64_t size[] = { s->p[0], s->p[s->rows ? 3 : 1], s->p[s->rows ? 1 : 3], s->p[6] };
  if (!n) return NULL;
  s->packed = call(s, FL_CALL_attention, n, in, s->p,
                   rows * (s->p[6] + fl_lse_width(s->in[Q]->dtype)));
  return n_reshape(n_slice(s->packed, 0, 0, rows * s->p[6], 1), 4, size);
}

/* ---- gradients ---- */

static flame_status call_back(const attention *s, fl_node *g, fl_node **gin) {
  fl_node *in[OPERANDS + 4];
  int64_t p[FL_AP_COUNT], numel = 0;
  memcpy(p, s->p, sizeof p);
  p[8] = !s->c->deterministic;
  const int n = operands(s, in + 2, p);
  in[0] = span_of(g, 0, p + FL_AP_SIZES + 9);
  in[1] = s->packed;
  for (int i = 0; i < OPERANDS; i++) numel += s->in[i]->shape->numel;
  fl_node *d = n && in[0] ? call(s, FL_CALL_attention_back, n + 2, in, p, numel) : NULL;
  int64_t at = 0;
  if (s->rows) {
    gin[0] = n_reshape(d, 4, s->rows->shape->size);
    return s->c->err.code;
  }
  for (int i = 0; i < OPERANDS; at += s->in[i++]->shape->numel)
    if (!(gin[i] = d ? part(d, at, s->in[i]) : NULL)) return s->c->err.code;
  return FLAME_OK;
}

static fl_node *turned(fl_node *x) {
  return x ? n_transpose(x, x->shape->rank - 2, x->shape->rank - 1) : NULL;
}

/* x, which has 'group' heads for each head of k and v, with its axis of heads split in two: the
** heads of k and v, and the 'group' heads that share one of them. */
static fl_node *grouped(fl_node *x, int64_t group) {
  const int64_t *n = x->shape->size;
  return n_reshape(x, 5, (int64_t[]){ n[0], n[1] / group, group, n[2], n[3] });
}

/* Returns the scores; *hidden: which of them are masked out (bool), or NULL if none are. */
static fl_node *scores_of(const attention *s, fl_node *q, fl_node *k, int64_t group,
                          fl_node **hidden) {
  flame_context *c = s->c;
  const fl_scalar zero = { .i = 0 }, one = { .i = 1 };
  fl_node *y = n_matmul(n_mul(q, n_num(c, s->scale)), turned(k)),
          *mask = s->mask ? grouped(s->mask, group) : NULL;
  *hidden = NULL;
  if (s->p[7]) {
    fl_node *row = n_iota(c, FLAME_I64, q->device, 2, (int64_t[]){ s->p[3], 1 }, zero, one);
    *hidden = n_gt(n_iota(c, FLAME_I64, q->device, 1, &s->p[4], zero, one), row);
    y = n_where(*hidden, n_num(c, -INFINITY), y);
  }
  if (!mask) return y;
  if (mask->dtype != FLAME_BOOL) return n_add(y, mask);
  fl_node *out = n_logical_not(mask);
  *hidden = *hidden ? n_logical_or(*hidden, out) : out;
  return n_where(out, n_num(c, -INFINITY), y);
}

/* x through the call's dropout, or x if there is none. x: (b, hk, h / hk, t, s). */
static fl_node *dropped(const attention *s, fl_node *x) {
  flame_context *c = s->c;
  if (!x || !s->key) return x;
  fl_node *u = n_drawn(c, x->device, x->shape->rank, x->shape->size, s->base, s->seed);
  return n_where(n_ge(u, n_num(c, s->drop)), n_mul(x, n_num(c, fl_attention_kept(s->drop))),
                 n_num(c, 0));
}

/* The gradients by ordinary ops: p = softmax(scores), dp = g v', ds = p (dp - sum(dp p)). */
static flame_status graph_back(const attention *s, fl_node *g, fl_node **gin) {
  flame_context *c = s->c;
  const int64_t group = s->p[1] / s->p[2];
  fl_node *q = grouped(s->in[Q], group), *k = grouped(s->in[K], 1),
          *v = grouped(s->in[V], 1), *hidden;
  fl_node *p = n_softmax(scores_of(s, q, k, group, &hidden), 4), *f = grouped(g, group);
  fl_node *dp = n_matmul(f, turned(v)), *wide = fl_widen(p);
  dp = fl_widen(dropped(s, dp));
  fl_node *ds = n_mul(wide, n_sub(dp, n_sum(n_mul(dp, wide), 1u << 4, 1)));
  if (ds && hidden) ds = n_where(hidden, n_num(c, 0), ds);
  ds = ds ? n_mul(n_cast(ds, q->dtype), n_num(c, s->scale)) : NULL;
  gin[Q] = n_matmul(ds, k);
  gin[K] = n_matmul(turned(ds), q);
  gin[V] = n_matmul(turned(dropped(s, p)), f);
  if (!gin[Q] || !gin[K] || !gin[V]) return c->err.code;
  gin[K] = fl_sum_to(gin[K], k->shape);
  gin[V] = fl_sum_to(gin[V], v->shape);
  for (int i = 0; i < OPERANDS; i++)
    if (!gin[i] || !(gin[i] = n_reshape(gin[i], 4, s->in[i]->shape->size))) return c->err.code;
  return FLAME_OK;
}

/* q, k and v of s->rows, (b, t, h + 2 hk, d), as views. 0: an error. */
static int split_rows(attention *s, int64_t h, int64_t hk) {
  const int64_t first[] = { 0, h, h + hk }, count[] = { h, hk, hk };
  for (int i = 0; i < OPERANDS; i++) {
    fl_node *part = n_slice(s->rows, 2, first[i], count[i], 1);
    if (!part || !(s->in[i] = n_transpose(part, 1, 2))) return 0;
  }
  return 1;
}

/* Computes the gradients for q, k and v and joins them to the gradient of the rows that these are
** views of. split_rows has made tracked views. */
static flame_status rows_back(const attention *from, fl_node *g, fl_node **gin) {
  attention s = *from;
  fl_node *part[OPERANDS];
  if (!split_rows(&s, s.p[1], s.p[2])) return s.c->err.code;
  const flame_status e = graph_back(&s, g, part);
  if (e != FLAME_OK) return e;
  for (int i = 0; i < OPERANDS; i++)
    if (!(part[i] = n_transpose(part[i], 1, 2))) return s.c->err.code;
  gin[0] = n_cat(s.c, OPERANDS, part, 2);
  return s.c->err.code;
}

static flame_status attention_back(flame_context *c, void *arg, fl_node *y, fl_node *g, int nin,
                                   fl_node **gin) {
  const attention *s = arg;
  (void)y, (void)nin;
  g = n_cast(g, s->in[Q]->dtype);
  if (g && s->rows) g = n_transpose(g, 1, 2);
  if (!g) return c->err.code;
  if (c->grad_mode && s->rows) return rows_back(s, g, gin);
  return c->grad_mode ? graph_back(s, g, gin) : call_back(s, g, gin);
}

static void attention_release(void *arg) {
  attention *s = arg;
  for (int i = 0; i < OPERANDS; i++) fl_node_drop(s->in[i]);
  if (s->mask) fl_node_drop(s->mask);
  if (s->rows) fl_node_drop(s->rows);
  if (s->key) fl_node_drop(s->key);
  fl_node_drop(s->packed);
  fl_free(&s->c->mem, s, sizeof *s);
}

static fl_node *with_rule(fl_node *y, const attention *s) {
  attention *kept = fl_zalloc(&s->c->mem, sizeof *kept);
  if (!kept) return fl_no_memory(s->c, op);
  *kept = *s;
  for (int i = 0; i < OPERANDS; i++) fl_node_hold(s->in[i]);
  if (s->mask) fl_node_hold(s->mask);
  if (s->rows) fl_node_hold(s->rows);
  if (s->key) fl_node_hold(s->key);
  fl_node_hold(s->packed);
  return n_ruled(y, s->rows ? 1 : OPERANDS, s->rows ? &kept->rows : kept->in, attention_back,
                 attention_release, kept);
}

/* Sizes and flags of a call. */
static void set_sizes(attention *s, int causal) {
  const int64_t *q = s->in[Q]->shape->size, *k = s->in[K]->shape->size,
                *v = s->in[V]->shape->size;
  memcpy(s->p, (int64_t[]){ q[0], q[1], k[1], q[2], k[2], q[3], v[3], causal, 0 },
         FL_AP_SIZES * sizeof *s->p);
  s->p[FL_AP_BY_ROW] = s->rows != NULL;
  s->p[FL_AP_DROPS] = s->key != NULL;
}

/* Makes the key of a dropout, if there is one. 0: an error. */
static int draw(attention *s) {
  const fl_layout *q = s->in[Q]->shape;
  if (!(s->drop >= 0 && s->drop <= 1)) {
    FL_FAIL(s->c, FLAME_BAD_ARGUMENT, op, "dropout_p = %g, need 0 <= p <= 1", s->drop);
    return 0;
  }
  if (s->drop == 0) return 1;
  s->key = n_draw_key(s->c, s->in[Q]->device,
                      q->size[0] * q->size[1] * q->size[2] * s->in[K]->shape->size[2]);
  if (!s->key) return 0;
  s->base = s->key->scal[2].i;
  s->seed = s->key->scal[3].i;
  return 1;
}

fl_node *n_attention(fl_node *q, fl_node *k, fl_node *v, fl_node *mask, double scale, int causal,
                     double p) {
  if (!q || !k || !v || !mask || !fl_usable(q, op) || !fl_usable(k, op) || !fl_usable(v, op))
    return NULL;
  if (!fl_is_none(mask) && !fl_usable(mask, op)) return NULL;
  flame_context *c = q->ctx;
  const fl_layout *l = q->shape, *keys = k->shape, *values = v->shape;
  attention s = { .c = c, .in = { q, k, v }, .scale = scale, .drop = p };
  if (l->rank != 4 || keys->rank != 4 || values->rank != 4 || l->numel == 0 || keys->numel == 0 ||
      values->numel == 0 || l->size[0] != keys->size[0] || l->size[3] != keys->size[3] ||
      memcmp(keys->size, values->size, 3 * sizeof *keys->size)) {
    FL_FAIL(c, FLAME_BAD_ARGUMENT, op,
        "q, k and v need the shapes (b, h, t, d), (b, hk, s, d) and (b, hk, s, d2), none of them empty");
    return NULL;
  }
  /* the kernels find the largest score before they multiply by the scale */
  const int none = q->dtype == FLAME_F64 ? scale == 0 : (float)scale == 0;
  if (none || scale < 0)
    return n_attention(n_mul(q, n_num(c, none ? 0 : -1)), k, v, mask, none ? 1 : -scale, causal,
                       p);
  if (!draw(&s)) return NULL;
  set_sizes(&s, causal);
  const uint8_t mode = c->grad_mode;
  c->grad_mode = 0;
  if (!fl_is_none(mask))
    s.mask = n_expand(mask, 4, (int64_t[]){ l->size[0], l->size[1], l->size[2], keys->size[2] });
  fl_node *y = fl_is_none(mask) || s.mask ? forward(&s) : NULL;
  c->grad_mode = mode;
  return y && mode && (q->entry || k->entry || v->entry) ? with_rule(y, &s) : y;
}

fl_node *n_attention_rows(fl_node *x, int64_t h, int64_t hk, double scale, int causal, double p) {
  if (!x || !fl_usable(x, op)) return NULL;
  flame_context *c = x->ctx;
  if (x->shape->rank != 4 || x->shape->numel == 0 || hk < 1 || h < 1 || h % hk ||
      x->shape->size[2] != h + 2 * hk) {
    FL_FAIL(c, FLAME_BAD_ARGUMENT, op, "rows need the shape (b, t, h + 2 hk, d), not empty");
    return NULL;
  }
  attention s = { .c = c, .scale = scale, .rows = x, .drop = p };
  const uint8_t mode = c->grad_mode;
  c->grad_mode = 0;
  const int ok = split_rows(&s, h, hk) && draw(&s);
  if (ok) set_sizes(&s, causal);
  fl_node *y = ok ? forward(&s) : NULL;
  c->grad_mode = mode;
  return y && mode && x->entry ? with_rule(y, &s) : y;
}
