/*
** Leaves: finds to which stored value of the program a node refers. Constants are recognised by
** their bytes, since a script makes some of them again in each call.
*/
#include "base/hash.h"
#include "graph/graph.h"
#include <string.h>

/* The elements of n's buffer that n reaches: first and one past the last. */
static void reach(const fl_node *n, int64_t *low, int64_t *high) {
  *low = *high = n->offset;
  for (int a = 0; a < n->layout->rank; a++) {
    const int64_t d = (n->layout->size[a] - 1) * n->layout->stride[a];
    if (d < 0) *low += d; else *high += d;
  }
  *high += 1;
  if (n->layout->numel == 0) *high = *low;
}

/* The array to be saved for n: its whole buffer, unless n needs less than half of that. The array
** has n's layout if n is all of it. */
static fl_node *array_of(flame_context *c, const fl_node *n) {
  int64_t low, high, whole = n->buffer->bytes / fl_dtype_size(n->dtype);
  reach(n, &low, &high);
  if (n->layout->contiguous && n->layout->numel == whole && n->offset == 0)
    return fl_node_stored(c, n->dtype, fl_buffer_retain(n->buffer), fl_layout_retain(n->layout), 0);
  if ((high - low) * 2 < whole) whole = high - low;
  else low = 0;
  return fl_node_stored(c, n->dtype, fl_buffer_retain(n->buffer),
                        fl_layout_of(&c->layouts, 1, &whole, NULL), low);
}

static int same_array(const fl_node *a, const fl_node *b) {
  return a->buffer == b->buffer && a->dtype == b->dtype && a->offset == b->offset &&
         a->shape == b->shape;
}

static int same_bytes(flame_context *c, fl_node *n, const void *p, size_t bytes) {
  size_t m = 0;
  void *q = fl_io_bytes_of(c, n, &m);
  const int same = q && m == bytes && !memcmp(p, q, bytes);
  fl_free(&c->mem, q, m);
  return same;
}

/* The number of the constant n, added if it is new; -1 with the error. */
static int64_t constant_of(fl_export *x, fl_node *n) {
  flame_context *c = x->c;
  for (int64_t i = 0; i < x->constant.n; i++)
    if (same_array(x->constant.at[i].node, n)) return i;
  size_t bytes = 0;
  void *p = fl_io_bytes_of(c, n, &bytes);
  if (!p) return -1;
  const uint64_t hash = fl_hash64(p, bytes, (uint64_t)n->dtype);
  int64_t k = 0;
  for (; k < x->constant.n; k++) {
    const fl_constant *o = &x->constant.at[k];
    if (o->hash == hash && o->node->shape == n->shape && o->node->dtype == n->dtype &&
        same_bytes(c, o->node, p, bytes)) break;
  }
  fl_free(&c->mem, p, bytes);
  if (k < x->constant.n) return k;
  fl_constant *o = FL_PUSH(&c->mem, &x->constant);
  if (!o) {
    FL_FAIL(c, FLAME_NO_MEMORY, "export", "no host memory");
    return -1;
  }
  *o = (fl_constant){ n, hash };
  fl_node_hold(n);
  return k;
}

const fl_node *fl_export_base(const fl_export *x, char kind, int64_t number) {
  if (kind == 'x') return x->input.at[number]->node;
  if (kind == 'c') return x->constant.at[number].node;
  for (int64_t k = 0; k < x->older.n; k++)
    if (x->older.at[k].t == x->state.at[number]) return x->older.at[k].node;
  return NULL;
}

int fl_export_leaf(fl_export *x, const fl_node *n, char *kind, int64_t *number, int64_t *at) {
  *kind = 0;
  for (int64_t i = 0; !*kind && i < x->input.n; i++) {
    const fl_node *q = fl_export_base(x, 'x', i);
    if (q && q->buffer == n->buffer) { *kind = 'x'; *number = i; }
  }
  for (int64_t i = 0; !*kind && i < x->state.n; i++) {
    const fl_node *q = fl_export_base(x, 's', i);
    if (q && q->buffer == n->buffer) { *kind = 's'; *number = i; }
  }
  if (!*kind) {
    fl_node *array = array_of(x->c, n);
    *number = array ? constant_of(x, array) : -1;
    if (*number < 0) return 0;
    *kind = 'c';
    *at = n->offset - array->offset;
    return 1;
  }
  *at = n->offset - fl_export_base(x, *kind, *number)->offset;
  return 1;
}

int64_t fl_export_kernel(fl_export *x, fl_kfunction *k) {
  for (int64_t i = 0; i < x->kernel.n; i++) if (x->kernel.at[i] == k) return i;
  fl_kfunction **slot = FL_PUSH(&x->c->mem, &x->kernel);
  if (!slot) {
    FL_FAIL(x->c, FLAME_NO_MEMORY, "export", "no host memory");
    return -1;
  }
  *slot = k;
  k->callee.refs++;
  return x->kernel.n - 1;
}
