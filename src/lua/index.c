/*
** x[…], x(…) and their writes; gather, scatter and similar ops; masks.
**
** key.c reads a key: a number, a range, an index tensor or a mask per axis, and new axes. Numbers
** and ranges make one view; index tensors and masks then address the remaining axes, by one gather:
** several are broadcast together and converted to linear positions. Masks are evaluated and counted
** on the host, except where one value is written by a mask alone (lone_mask).
*/
#include "lua/key.h"
#include <assert.h>

static const char op_name[] = FL_INDEXING;

/* ---- masks on the host --------------------------------------------------------------------- */
/* 1-based positions of the true elements, one i64 tensor per axis (axes = 1: of the flattened
** mask), each of 'count' elements. Evaluates, and so may run scripts: the caller's nodes are held
** by its scope. 0 with an error. */
static int host_nonzero(fl_lua *b, fl_node *mask, int axes, fl_node **out) {
  flame_context *c = b->c;
  if (!fl_scope_hold(c, mask)) return 0;
  const int64_t n = mask->shape->numel;
  uint8_t *bits = (uint8_t *)fl_alloc(&c->mem, (size_t)n + 1);
  if (bits == NULL) return FL_FAIL(c, FLAME_NO_MEMORY, "nonzero", "no host memory for a mask"), 0;
  int64_t count = 0;
  int ok = fl_read_node(c, mask, bits, (size_t)n) == FLAME_OK;
  for (int64_t i = 0; ok && i < n; i++) count += bits[i] != 0;
  int64_t *at = ok ? (int64_t *)fl_alloc(&c->mem, (size_t)(count + 1) * sizeof *at) : NULL;
  if (ok && at == NULL) ok = (FL_FAIL(c, FLAME_NO_MEMORY, "nonzero",
      "no host memory for positions"), 0);
  int64_t below = n;
  for (int d = 0; ok && d < axes; d++) {
    const int64_t size = axes == 1 ? n : mask->shape->size[d];
    int64_t k = 0;
    below = axes == 1 ? 1 : size ? below / size : 1;
    for (int64_t i = 0; i < n; i++)
      if (bits[i]) at[k++] = (axes == 1 ? i : i / below % size) + 1;
    ok = (out[d] = fl_node_from_host(c, mask->device, FLAME_I64, 1, &count, at)) != NULL;
  }
  if (at) fl_free(&c->mem, at, (size_t)(count + 1) * sizeof *at);
  fl_free(&c->mem, bits, (size_t)n + 1);
  return ok;
}

/* ---- addressing by tensors ------------------------------------------------------------------- */
/* y: the view of x that the key's numbers and ranges make; the index tensors address its axes. */
typedef struct address {
  int n;                        /* number of index tensors, each for one axis of y, ascending */
  int axis[FL_MAX_AXES];
  int named[FL_MAX_AXES];       /* the axis of x, before axes are dropped, for messages */
  fl_node *idx[FL_MAX_AXES];    /* 1-based */
  int perm[FL_MAX_AXES];        /* y's axes in the order in which they are used */
  int moved;                    /* 1: perm changes the order */
  int at;                       /* the axis of 'merged' that the positions address */
  fl_node *merged;              /* y permuted, with the addressed axes merged into one */
  int64_t before[FL_MAX_AXES];  /* sizes of y permuted, before axes are merged */
  fl_node *linear;              /* checked 0-based positions */
} address;

/* The index tensors of the key, with each mask replaced by the positions of its true elements; axes
** that are dropped are not counted. */
static int gather_items(fl_lua *b, const fl_key *k, address *a) {
  a->n = 0;
  for (int i = 0; i < k->nitem; i++) {
    fl_node *idx = fl_scope_hold(b->c, node_of(b, k->items[i].box));
    if (idx == NULL) return 0;
    const int mask = k->items[i].mask, axes = mask ? idx->shape->rank : 1;
    if (mask != (idx->dtype == FLAME_BOOL))             /* a finaliser ran after the key was read */
      return FL_FAIL(b->c, FLAME_BAD_ARGUMENT, op_name, "the index tensor became %s meanwhile",
                     fl_dtype_name(idx->dtype)), 0;
    if (!mask) a->idx[a->n] = idx;
    else if (!host_nonzero(b, idx, axes, &a->idx[a->n])) return 0;
    for (int d = 0; d < axes; d++) {
      const int axis = k->items[i].axis + d;
      a->named[a->n] = fl_key_named(k, axis) - 1;
      a->axis[a->n++] = axis - __builtin_popcount(k->drop & ((1u << axis) - 1));
    }
  }
  return 1;
}

/* Orders y's axes: the addressed ones become neighbours, in place if no other axis is between them,
** else first. An axis with a 0-d index, which the result does not have, may be apart. */
static void order_axes(address *a, int rank) {
  unsigned used = 0;
  int first = -1, last = -1, apart = 0, k = 0;
  assert(a->n > 0);
  for (int i = 0; i < a->n; i++) used |= 1u << a->axis[i];
  for (int i = 0; i < a->n; i++) {
    if (a->idx[i]->shape->rank == 0) continue;
    for (int d = last + 1; last >= 0 && d < a->axis[i]; d++) if (!(used & 1u << d)) apart = 1;
    last = a->axis[i];
    if (first < 0) first = last;
  }
  if (apart) first = 0;
  else if (first < 0) first = a->axis[0];
  for (int d = 0; d < first; d++) if (!(used & 1u << d)) a->perm[k++] = d;
  a->at = k;
  for (int i = 0; i < a->n; i++) a->perm[k++] = a->axis[i];
  for (int d = first; d < rank; d++) if (!(used & 1u << d)) a->perm[k++] = d;
  assert(k == rank);
  a->moved = 0;
  for (int d = 0; d < rank; d++) a->moved |= a->perm[d] != d;
}

/* Sets what follows from a's index tensors and y: the order of the axes, y so ordered and merged,
** and the positions. 0 with an error. */
static int merge(fl_node *y, address *a) {
  int64_t size[FL_MAX_AXES], joined = 1;
  const int rank = y->shape->rank;
  order_axes(a, rank);
  fl_node *p = a->moved ? n_permute(y, a->perm) : y;
  if (p == NULL) return 0;
  int k = 0;
  memcpy(a->before, p->shape->size, sizeof a->before);
  for (int d = 0; d < rank; d++) {
    if (d < a->at || d >= a->at + a->n) size[k++] = a->before[d];
    else if ((joined *= a->before[d], d) == a->at + a->n - 1) size[k++] = joined;
  }
  a->merged = a->n == 1 ? p : n_reshape(p, k, size);
  fl_node *sum = NULL;
  for (int i = 0; i < a->n; i++) {
    fl_node *at = n_index(a->idx[i], a->before[a->at + i], FL_INDEX_NEGATIVE, op_name);
    if (at == NULL) return 0;
    at->attr->axis = (int8_t)(a->named[i] + 1);
    sum = i == 0 ? at : n_add(n_mul(sum, n_int(y->ctx, a->before[a->at + i])), at);
    if (sum == NULL) return 0;
  }
  a->linear = a->n == 1 ? sum : n_index(n_add(sum, n_int(y->ctx, 1)), joined, 0, op_name);
  return a->merged != NULL && a->linear != NULL;
}

static fl_node *get_node(fl_lua *b, fl_node *x, const fl_key *k) {
  address a;
  fl_node *y = k->whole ? x : n_box(x, k->start, k->step, k->count, k->drop);
  if (y == NULL || k->nitem == 0) return y == x && y != NULL ? n_alias(x) : y;
  if (!gather_items(b, k, &a) || !merge(y, &a)) return NULL;
  return n_take_axis(a.merged, a.at, a.linear);
}

static int get(lua_State *L, fl_key *k) {
  fl_lua *b = self_of(L);
  fl_box *x = box_at(L, 1), *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *n = node_of(b, x);
  if (n != NULL) n = fl_key_widen(k, n);
  if (k->nitem > 0) n = fl_scope_hold(b->c, n);
  fl_node *y = n ? get_node(b, n, k) : NULL;
  if (y == NULL) fl_error_own(&b->c->err, op_name);
  return fl_lua_leave_view(L, b, m, out, y, op_name);
}

int fl_index_get(lua_State *L) {
  fl_key k;
  fl_key_read(L, &k, fl_arg_tensor(L, 1, op_name, "x")->t->node->shape);
  return get(L, &k);
}

int fl_index_call(lua_State *L) {
  fl_key k;
  fl_key_read_items(L, 2, lua_gettop(L), &k, fl_arg_tensor(L, 1, op_name, "x")->t->node->shape);
  return get(L, &k);
}

/* ---- writing --------------------------------------------------------------------------------- */
/* v, which has only the axes that 'drop' leaves, with the dropped ones inserted as size 1. */
static fl_node *with_dropped(fl_node *v, uint32_t drop, int rank) {
  int right = 0;                                    /* axes of v placed, from the last */
  for (int a = rank - 1; a >= 0 && v != NULL && right < v->shape->rank; a--, right++)
    if (drop & 1u << a) v = n_unsqueeze(v, v->shape->rank - right);
  return v;
}

/* The mask, if it is the key's only item and covers the first axes: then writing a single value
** needs no positions. NULL: it is another key. */
static fl_node *lone_mask(fl_lua *b, const fl_key *k, const fl_node *x) {
  if (!k->whole || k->nitem != 1 || k->items[0].axis != 0) return NULL;
  fl_node *mask = node_of(b, k->items[0].box);
  if (mask == NULL || mask->dtype != FLAME_BOOL) return NULL;
  for (int a = mask->shape->rank; a < x->shape->rank && mask; a++) mask = n_unsqueeze(mask,
      mask->shape->rank);
  return mask;
}

static fl_node *put(fl_lua *b, fl_node *x, const fl_key *k, fl_node *v) {
  address a = { .n = 0 };
  fl_node *y = k->whole ? x : n_box(x, k->start, k->step, k->count, k->drop);
  if (y == NULL || !gather_items(b, k, &a) || !merge(y, &a)) return NULL;
  fl_node *r = n_put_axis(a.merged, a.at, a.linear, v, 0);
  if (r != NULL && a.n > 1) r = n_reshape(r, y->shape->rank, a.before);
  if (r != NULL && a.moved) {
    int back[FL_MAX_AXES];
    for (int d = 0; d < y->shape->rank; d++) back[a.perm[d]] = d;
    r = n_permute(r, back);
  }
  if (r == NULL || k->whole) return r;
  return n_setslice(x, k->start, k->step, k->count, with_dropped(r, k->drop, x->shape->rank));
}

/* The value of x, with the new axes of the key, after the write. */
static fl_node *set_wide(fl_lua *b, fl_node *x, const fl_key *k, const fl_operand_arg *value) {
  fl_node *v = fl_stored_value(b, value, x, op_name);
  if (k->nitem > 0) v = fl_scope_hold(b->c, v);
  if (v == NULL || (k->nitem > 0 && !fl_scope_hold(b->c, x))) return NULL;
  if (k->nitem == 0)
    return n_setslice(x, k->start, k->step, k->count, with_dropped(v, k->drop, x->shape->rank));
  fl_node *mask = v->shape->numel == 1 && v->shape->rank == 0 ? lone_mask(b, k, x) : NULL;
  if (b->c->err.code != FLAME_OK) return NULL;
  return mask ? n_where(mask, v, x) : put(b, x, k, v);
}

static fl_node *set_node(fl_lua *b, fl_node *x, const fl_key *k, const fl_operand_arg *value) {
  const int rank = x->shape->rank;
  if (!k->fresh) return set_wide(b, x, k, value);
  int64_t size[FL_MAX_AXES];
  memcpy(size, x->shape->size, sizeof size);
  fl_node *wide = fl_key_widen(k, x), *y = wide ? set_wide(b, wide, k, value) : NULL;
  return y ? n_reshape(y, rank, size) : NULL;
}

int fl_index_set(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_key k;
  fl_box *x = fl_arg_tensor(L, 1, op_name, "x");
  fl_key_read(L, &k, x->t->node->shape);
  const fl_operand_arg v = fl_arg_value(L, 3, op_name, "the value");
  const int64_t m = fl_lua_enter(L, b);
  fl_node *n = node_of(b, x);
  fl_node *y = n && !x->t->view ? set_node(b, n, &k, &v) : n;
  if (y == NULL && strncmp(b->c->err.op, op_name, sizeof op_name - 1) != 0)
    fl_error_own(&b->c->err, op_name);
  return fl_lua_leave_status(L, b, m, y ? fl_tensor_write(x->t, y, "") : b->c->err.code);
}

/* ---- gather and scatter ---------------------------------------------------------------------- */
typedef enum { GATHER, SELECT, SCATTER, SCATTER_ADD, INDEX_ADD, INDEX_COPY, INDEX_FILL } how_t;

typedef struct along { fl_box *x, *idx; int axis; fl_operand_arg src; double alpha; } along;

static void along_read(lua_State *L, const char *op, how_t how, along *a) {
  fl_args(L);
  a->x = box_at(L, 1);
  a->axis = fl_arg_axis(L, 2, a->x->t->node->shape->rank, op);
  a->idx = box_at(L, 3);
  a->alpha = 1;
  if (how == SELECT && a->idx->t->node->shape->rank > 1) fl_lua_fail(L, op,
      "index must have one axis");
  if (how <= SELECT) return;
  a->src = fl_arg_value(L, 4, op, how == INDEX_FILL ? "value" : "src");
  const int want = a->x->t->node->dtype;
  if (a->src.box != NULL && how != INDEX_FILL && a->src.box->t->node->dtype != want)
    fl_lua_fail(L, op, "src is %s and x %s" FL_DO ": cast one of them", fl_dtype_name(
        a->src.box->t->node->dtype), fl_dtype_name(want));
  if (how == INDEX_ADD) a->alpha = lua_tonumber(L, 5);
  if (how >= INDEX_ADD && a->idx->t->node->shape->rank > 1) fl_lua_fail(L, op,
      "index must have one axis");
}

/* Makes a 0-d value a list of one; others are unchanged. */
static fl_node *at_least_1d(fl_node *n) {
  const int64_t one = 1;
  return n && n->shape->rank == 0 ? n_reshape(n, 1, &one) : n;
}

/* The tensor on which an op along one axis works, its positions, and whether the result is 0-d: as
** in PyTorch, a 0-d tensor counts as a list of one and 0-d positions as one position. */
typedef struct along_nodes { fl_node *x, *idx; int scalar; } along_nodes;

static int along_enter(fl_lua *b, const char *op, how_t how, const along *a, along_nodes *n) {
  fl_node *x = node_of(b, a->x), *idx = node_of(b, a->idx);
  if (x == NULL || idx == NULL) return 0;
  const int lone = idx->shape->rank == 0;
  n->scalar = how == GATHER ? lone : x->shape->rank == 0;
  if (how >= INDEX_ADD || how == SELECT || x->shape->rank <= 1) idx = at_least_1d(idx);
  n->x = x = at_least_1d(x);
  n->idx = x && idx ? n_index(idx, x->shape->size[a->axis], 0, op) : NULL;
  return n->idx != NULL;
}

/* x with src written at the positions. */
static fl_node *write_along(fl_lua *b, const char *op, how_t how, const along *a,
    const along_nodes *n) {
  fl_node *i = n->idx, *src = fl_stored_value(b, &a->src, n->x, op);
  if (src != NULL && a->alpha != 1) src = n_mul(src, fl_factor_node(b, a->alpha));
  if (n->scalar) src = at_least_1d(src);
  if (src == NULL) return NULL;
  if (how != SCATTER && how != SCATTER_ADD) return n_put_axis(n->x, a->axis, i, src,
      how == INDEX_ADD);
  if (src->shape->rank == 0 && i->shape->rank > 0) src = n_expand(src, i->shape->rank,
      i->shape->size);
  return src ? n_scatter_axis(n->x, a->axis, i, src, how == SCATTER_ADD) : NULL;
}

static fl_node *along_node(fl_lua *b, const char *op, how_t how, const along *a) {
  along_nodes n;
  if (!along_enter(b, op, how, a, &n)) return NULL;
  fl_node *y;
  if (how == GATHER) y = n_gather_axis(n.x, a->axis, n.idx);
  else if (how == SELECT) y = n_take_axis(n.x, a->axis, n.idx);
  else y = write_along(b, op, how, a, &n);
  return y && n.scalar ? n_reshape(y, 0, NULL) : y;
}

/* internal.naming(op): the next op that takes positions (indices) does a part of the work of 'op',
** so its messages use the name 'op'. */
static int i_naming(lua_State *L) {
  static const char *const names[] = { "put", "take_along_dim", "scatter_reduce", "index_reduce",
                                       "embedding_bag",
    "max_unpool1d", "max_unpool2d", "max_unpool3d", "ctc_loss", "multi_margin_loss",
    "multilabel_margin_loss",
    "unravel_index" };
  const char *op = luaL_checkstring(L, 1);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(names[i], op) == 0) self_of(L)->naming = names[i];
  return 0;
}

const char *fl_lua_named(fl_lua *b, const char *op) {
  const char *name = b->naming;
  b->naming = NULL;
  return name != NULL ? name : op;
}

static int along_new(lua_State *L, const char *op, how_t how) {
  fl_lua *b = self_of(L);
  op = fl_lua_named(b, op);
  along a;
  along_read(L, op, how, &a);
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  return fl_lua_leave_as(L, b, m, out, along_node(b, op, how, &a), op);
}

static int along_write(lua_State *L, const char *op, how_t how) {
  fl_lua *b = self_of(L);
  along a;
  along_read(L, op, how, &a);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *y = along_node(b, op, how, &a);
  if (y == NULL) fl_error_own(&b->c->err, op);
  fl_lua_leave_status(L, b, m, y ? fl_tensor_write(a.x->t, y, op) : b->c->err.code);
  lua_settop(L, 1);
  return 1;
}

static int i_gather(lua_State *L) { return along_new(L, "gather", GATHER); }
static int i_index_select(lua_State *L) { return along_new(L, "index_select", SELECT); }
#define BOTH_FORMS(name, how) \
  static int i_##name(lua_State *L) { return along_new(L, #name, how); } \
  static int i_##name##_(lua_State *L) { return along_write(L, #name "_", how); }
static int i_scatter(lua_State *L) {              /* with reduce: composed in ops/index.lua */
  fl_args(L);
  return lua_isnil(L, 5) ? along_new(L, "scatter", SCATTER) : fl_core_call(L, "scatter_form");
}
static int i_scatter_(lua_State *L) { return along_write(L, "scatter_", SCATTER); }
BOTH_FORMS(scatter_add, SCATTER_ADD)
BOTH_FORMS(index_add, INDEX_ADD)
BOTH_FORMS(index_copy, INDEX_COPY)
BOTH_FORMS(index_fill, INDEX_FILL)

static int i_take(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_args(L);
  fl_box *x = box_at(L, 1), *idx = box_at(L, 2), *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *n = node_of(b, x), *i = node_of(b, idx);
  i = n && i ? n_index(i, n->shape->numel, FL_INDEX_NEGATIVE, "take") : NULL;
  if (i != NULL) i->attr->axis = -1;               /* counted over all axes */
  if (i != NULL && n->shape->rank != 1) n = n_reshape(n, 1, &n->shape->numel);
  return fl_lua_leave(L, b, m, out, i && n ? n_take_axis(n, 0, i) : NULL);
}

/* ---- masks ----------------------------------------------------------------------------------- */
static void need_bool(lua_State *L, const fl_box *mask, const char *op) {
  if (mask->t->node->dtype != FLAME_BOOL)
    fl_lua_fail(L, op, "mask must be bool, got %s", fl_dtype_name(mask->t->node->dtype));
}

static void need_one(lua_State *L, const fl_operand_arg *v, const char *op) {
  char t[192];
  if (v->box != NULL && v->box->t->node->shape->rank > 0) fl_lua_fail(L, op,
      "value has shape %s, need a number or a 0-d tensor" FL_DO ": where takes any",
      fl_lua_shape_of(t, v->box->t->node));
}

static fl_node *masked(fl_lua *b, fl_box *x, fl_box *mask, const fl_operand_arg *v,
    const char *op) {
  fl_node *n = node_of(b, x), *c = node_of(b, mask);
  fl_node *value = n && c ? fl_stored_value(b, v, n, op) : NULL;
  return value ? n_where(c, value, n) : NULL;
}

static int i_masked_fill(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_args(L);
  fl_box *x = box_at(L, 1), *mask = box_at(L, 2);
  const fl_operand_arg v = fl_arg_value(L, 3, "masked_fill", "value");
  need_bool(L, mask, "masked_fill");
  need_one(L, &v, "masked_fill");
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  return fl_lua_leave(L, b, m, out, masked(b, x, mask, &v, "masked_fill"));
}

static int i_masked_fill_(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_args(L);
  fl_box *x = box_at(L, 1), *mask = box_at(L, 2);
  const fl_operand_arg v = fl_arg_value(L, 3, "masked_fill_", "value");
  need_bool(L, mask, "masked_fill_");
  need_one(L, &v, "masked_fill_");
  const int64_t m = fl_lua_enter(L, b);
  fl_node *y = masked(b, x, mask, &v, "masked_fill_");
  fl_lua_leave_status(L, b, m, y ? fl_tensor_write(x->t, y, "masked_fill_") : b->c->err.code);
  lua_settop(L, 1);
  return 1;
}

/* Common shape of two, or 0. */
static int common_shape(const fl_layout *p, const fl_layout *q, fl_sizes *s) {
  s->n = p->rank > q->rank ? p->rank : q->rank;
  for (int k = 1; k <= s->n; k++) {
    const int64_t u = k <= p->rank ? p->size[p->rank - k] : 1,
        v = k <= q->rank ? q->size[q->rank - k] : 1;
    if (u != v && u != 1 && v != 1) return 0;
    s->at[s->n - k] = u == 1 ? v : u;
  }
  return 1;
}

static int i_masked_select(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_sizes s;
  char t[192], u[192];
  fl_args(L);
  fl_box *x = box_at(L, 1), *mask = box_at(L, 2);
  need_bool(L, mask, "masked_select");
  if (!common_shape(x->t->node->shape, mask->t->node->shape, &s))
    fl_lua_fail(L, "masked_select", "shapes %s and %s do not go together",
        fl_lua_shape_of(t, x->t->node), fl_lua_shape_of(u, mask->t->node));
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *n = node_of(b, x), *k = node_of(b, mask), *at = NULL;
  if (n && k) n = fl_scope_hold(b->c, n_expand(n, s.n, s.at)), k = n_expand(k, s.n, s.at);
  const int ok = n && k && host_nonzero(b, k, 1, &at);
  if (ok) n = n_reshape(n, 1, &n->shape->numel);
  at = ok && n ? n_index(at, n->shape->numel, 0, "masked_select") : NULL;
  return fl_lua_leave(L, b, m, out, at ? n_take_axis(n, 0, at) : NULL);
}

#define AT "(x: T, dim: axis, index: T"
#define SRC AT ", src: T|num|bool) -> T\n"
#define ADDED AT ", src: T|num|bool, *, alpha = 1) -> T\n"
const fl_lua_reg fl_reg_index[] = {
  { "gather" AT ") -> T\n"
    "--- for each place of index the element of x at that position of axis dim", i_gather, 0 },
  { "index_select" AT ") -> T\n--- the slices of x at the positions index of axis dim",
    i_index_select, 0 },
  { "scatter" AT ", src: T|num|bool, *, reduce?: \"add\"|\"multiply\") -> T\n"
    "--- x with the elements of src stored at the positions index of axis dim; reduce: added to "
    "x's, or multiplied with them", i_scatter, 0 },
  { ":scatter_" SRC "--- x becomes x:scatter(dim, index, src)", i_scatter_, 0 },
  { "scatter_add" SRC "--- x with the elements of src added at the positions index of axis dim",
    i_scatter_add, 0 },
  { ":scatter_add_" SRC "--- x becomes x:scatter_add(…)", i_scatter_add_, 0 },
  { "index_add" ADDED
    "--- x with the slices of src, times alpha, added at the positions index", i_index_add, 0 },
  { ":index_add_" ADDED "--- x becomes x:index_add(…)", i_index_add_, 0 },
  { "index_copy" SRC "--- x with the positions index along dim replaced by the slices of src",
    i_index_copy, 0 },
  { ":index_copy_" SRC "--- x becomes x:index_copy(…)", i_index_copy_, 0 },
  { "index_fill" AT ", value: T|num|bool) -> T\n"
    "--- x with the value at the positions index of axis dim", i_index_fill, 0 },
  { ":index_fill_" AT ", value: T|num|bool) -> T\n--- x becomes x:index_fill(…)",
    i_index_fill_, 0 },
  { "take(x: T, index: T) -> T\n--- for each place of index the element at that position of the "
    "flat x", i_take, 0 },
  { "masked_fill(x: T, mask: T, value: T|num|bool) -> T\n--- the value where mask holds, else x",
    i_masked_fill, 0 },
  { ":masked_fill_(x: T, mask: T, value: T|num|bool) -> T\n--- x becomes x:masked_fill(…)",
    i_masked_fill_, 0 },
  { "masked_select(x: T, mask: T) -> T\n--- the elements where mask holds, as one axis",
    i_masked_select, 0 }, { "naming", i_naming, 0 }, { NULL, NULL, 0 }
};
