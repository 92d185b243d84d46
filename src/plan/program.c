/*
** The program: what the planner reads and the plan cache compares. The window's nodes that some
** roots need are collected in recorded order and written as bytes that contain everything a plan
** depends on except values: ops, dtypes, shapes, indexing, which inputs, which buffers are written.
** Scalars, addresses, offsets of stored inputs and the live set are not in the key (docs/design.md
** 1.2), so a repeated step finds its plan.
*/
#include "plan/plan.h"
#include "base/hash.h"
#include "base/hooks.h"
#include "tensor/call.h"
#include "tensor/entry.h"
#include "tensor/form.h"
#include <string.h>

static int is_root(const fl_node *n) {
  return n->effect || n->held > 0 || (n->entry && n->entry->reads_out && n->grefs > 0);
}

static int64_t slot_of(fl_program *p, fl_node *n) {    /* slot of a node that is in the program
                                                       ** already, or -1 */
  const int64_t s = n->slot;
  if (n->state == FL_PENDING) return s >= 0 && s < p->nodes.n && p->nodes.at[s] == n ? s : -1;
  return s >= 0 && s < p->ext.n && p->ext.at[s] == n ? s : -1;
}

/* Marks all PENDING nodes that 'roots' need. Uses an explicit stack. */
static int mark_needed(fl_program *p, fl_node *const *roots, int64_t nroots) {
  int ok = 1;
  for (int64_t r = 0; ok && r < nroots; r++) {
    fl_node *n = roots[r];
    if (!n || n->state != FL_PENDING || n->device != p->device || n->mark) continue;
    n->mark = 1;
    fl_node **top = FL_PUSH(p->mem, &p->todo);
    ok = top != NULL;
    if (ok) *top = n;
    while (ok && p->todo.n) {
      fl_node *x = p->todo.at[--p->todo.n];
      const int nin = x->base ? 1 : x->nin;
      for (int i = 0; ok && i < nin; i++) {
        fl_node *q = x->base ? x->base : x->in[i];
        if (!q || q->state != FL_PENDING || q->mark) continue;
        q->mark = 1;
        top = FL_PUSH(p->mem, &p->todo);
        ok = top != NULL;
        if (ok) *top = q;
      }
    }
  }
  return ok;
}

typedef struct { uint8_t *at, *end; } writer;
static inline void put(writer *w, const void *v, size_t n) { memcpy(w->at, v, n); w->at += n; }
#define PUT(w, value, type) \
  do { const type put_ = (type)(value); put((w), &put_, sizeof put_); } while (0)

static void put_layout(writer *w, const fl_layout *l, int strides) {
  PUT(w, l->rank, uint8_t);
  put(w, l->size, sizeof l->size[0] * (size_t)l->rank);
  if (strides) put(w, l->stride, sizeof l->stride[0] * (size_t)l->rank);
}

int32_t fl_program_home(const fl_program *p, const fl_buffer *b) {
  const int32_t s = b->slot;
  return s >= 0 && s < p->homes.n && p->homes.at[s] == b ? s : -1;
}

static int add_home(fl_program *p, fl_buffer *b) {
  if (fl_program_home(p, b) >= 0) return 1;
  fl_buffer **h = FL_PUSH(p->mem, &p->homes);
  if (!h) return 0;
  *h = b;
  b->slot = (int32_t)(p->homes.n - 1);
  return 1;
}

static int is_same(const fl_node *a, const fl_node *b) {
  return a->buffer == b->buffer && a->offset == b->offset && a->dtype == b->dtype;
}

/* The bin of the external with q's first element, or the free bin for it. */
static int64_t bin_of(const fl_program *p, const fl_node *q) {
  const uint64_t key[2] = { (uint64_t)(uintptr_t)q->buffer, (uint64_t)q->offset };
  int64_t k = (int64_t)(fl_hash64(key, sizeof key, q->dtype) & (uint64_t)(p->bin.n - 1));
  while (p->bin.at[k] >= 0 && !is_same(p->ext.at[p->bin.at[k]], q)) k = (k + 1) & (p->bin.n - 1);
  return k;
}

/* Makes at least twice as many bins as there are externals. */
static int grow_bins(fl_program *p) {
  const int64_t n = p->bin.n ? 2 * p->bin.n : 64;
  if (!FL_RESERVE(p->mem, &p->bin, n)) return 0;
  p->bin.n = n;
  for (int64_t k = 0; k < n; k++) p->bin.at[k] = -1;
  for (int32_t i = 0; i < p->same.n; i++)
    if (p->same.at[i] == i) p->bin.at[bin_of(p, p->ext.at[i])] = i;
  return 1;
}

/* Appends q as an external. Externals with the same first element are read as one. */
static int add_ext(fl_program *p, fl_node *q) {
  if (2 * p->ext.n >= p->bin.n && !grow_bins(p)) return 0;
  fl_node **e = FL_PUSH(p->mem, &p->ext);
  int32_t *same = e ? FL_PUSH(p->mem, &p->same) : NULL;
  if (!same) return 0;
  *e = q;
  q->slot = *same = (int32_t)(p->ext.n - 1);
  int32_t *bin = &p->bin.at[bin_of(p, q)];
  if (*bin >= 0) *same = *bin; else *bin = q->slot;
  return 1;
}

/* An input: slot of a program node (>= 0), or the complement of an external's slot. */
static int put_input(fl_program *p, writer *w, fl_node *q) {
  if (!q) { PUT(w, INT32_MIN, int32_t); return 1; }            /* a scalar stands there */
  int64_t s = slot_of(p, q);
  if (q->state == FL_PENDING) { PUT(w, s, int32_t); return s >= 0; }
  if (s < 0) {
    if (!add_ext(p, q)) return 0;
    s = q->slot;
    PUT(w, ~s, int32_t);
    PUT(w, p->same.at[s], int32_t);
    PUT(w, q->dtype, uint8_t);
    const uintptr_t address = (uintptr_t)q->buffer->ptr +
                              (uintptr_t)(q->offset * fl_dtype_size(q->dtype));
    PUT(w, address % 16 == 0, uint8_t);
    put_layout(w, q->layout, 1);
    return 1;
  }
  PUT(w, ~s, int32_t);
  return 1;
}

/* A cached plan holds the callee, so an address in a key can not be that of another one. */
static void put_call(writer *w, const fl_call *call) {
  fl_call k = *call;
  k.scalar = NULL;
  memset(k.few, 0, sizeof k.few);
  put(w, &k, sizeof k);
}

static size_t form_bytes(const fl_node *n) {
  const fl_form_code *form = n->attr ? n->attr->form : NULL;
  return form ? sizeof *form->code * (size_t)form->n : 0;
}

static void put_attr(writer *w, const fl_node *n) {
  fl_attr a = *n->attr;
  const size_t code = form_bytes(n);
  a.what = NULL;
  a.call = NULL;
  a.form = NULL;
  put(w, &a, sizeof a);
  if (n->attr->call) put_call(w, n->attr->call);
  if (code) PUT(w, code, uint32_t);
  if (code) put(w, n->attr->form->code, code);
}

static int put_node(const flame_context *c, fl_program *p, fl_node *n) {
  const size_t need = 4096 + (size_t)n->nin * 160 + form_bytes(n);
  if (!FL_RESERVE(p->mem, &p->key, p->key.n + (int64_t)need)) return 0;
  writer w = { p->key.at + p->key.n, NULL };
  PUT(&w, n->op, uint16_t);
  PUT(&w, n->dtype, uint8_t);
  PUT(&w, n->axes, uint8_t);
  PUT(&w, n->nin, uint8_t);
  PUT(&w, n->home ? fl_program_home(p, n->home) : -1, int32_t);
  put_layout(&w, n->shape, 0);
  if (FL_PLANTED(c, FL_PLANT_SCALAR)) put(&w, n->scal, sizeof n->scal);
  if (n->base) {
    if (!FL_PLANTED(c, FL_PLANT_STALE)) {
      put_layout(&w, n->layout, 1);
      PUT(&w, n->offset, int64_t);
    }
    if (!put_input(p, &w, n->base)) return 0;
  } else {
    for (int i = 0; i < n->nin; i++) if (!put_input(p, &w, n->in[i])) return 0;
    if (n->attr && !FL_PLANTED(c, FL_PLANT_STALE)) put_attr(&w, n);
  }
  p->key.n = w.at - p->key.at;
  fl_scalar *s = NULL;
  for (int i = 0; i < 4; i++) {
    s = FL_PUSH(p->mem, &p->scalars);
    if (!s) return 0;
    *s = n->scal[i];
  }
  return 1;
}

static int put_call_scalars(fl_program *p, const fl_node *n) {
  const fl_call *k = n->op == FL_OP_call && n->attr ? n->attr->call : NULL;
  for (int32_t i = 0; k && i < k->nscalar; i++) {
    fl_scalar *s = FL_PUSH(p->mem, &p->scalars);
    if (!s) return 0;
    *s = k->scalar[i];
  }
  return 1;
}

/* Which external is in which home, known only after all are collected. */
static int put_homes(fl_program *p) {
  if (!FL_RESERVE(p->mem, &p->key, p->key.n + 4 * p->ext.n)) return 0;
  writer w = { p->key.at + p->key.n, NULL };
  for (int64_t i = 0; i < p->ext.n; i++)
    PUT(&w, p->homes.n ? fl_program_home(p, p->ext.at[i]->buffer) : -1, int32_t);
  p->key.n = w.at - p->key.at;
  return 1;
}

static int collect(flame_context *c, fl_program *p) {
  for (int64_t i = 0; i < c->win.nodes.n; i++) {
    fl_node *n = c->win.nodes.at[i];
    if (!n || !n->mark) continue;
    n->mark = 0;
    fl_node **e = FL_PUSH(p->mem, &p->nodes);
    uint8_t *live = FL_PUSH(p->mem, &p->live);
    if (!e || !live) return 0;
    *e = n;
    n->slot = (int32_t)(p->nodes.n - 1);
    *live = is_root(n) || n->home != NULL;
    if (FL_PLANTED(c, FL_PLANT_DEAD) && n->uses > 0 && !n->home) *live = 0;
    if (n->home && !add_home(p, n->home)) return 0;
  }
  for (int64_t i = 0; i < p->nodes.n; i++) {          /* a view that is kept keeps its base */
    fl_node *n = p->nodes.at[i];
    if (p->live.at[i] && n->base && n->base->state == FL_PENDING) p->live.at[n->base->slot] = 1;
    if (!put_node(c, p, n)) return 0;
  }
  for (int64_t i = 0; i < p->nodes.n; i++)    /* the calls' own scalars follow those of the nodes */
    if (!put_call_scalars(p, p->nodes.at[i])) return 0;
  return put_homes(p);
}

flame_status fl_program_make(flame_context *c, int device, fl_node *const *roots, int nroots,
                             fl_program *p) {
  p->mem = &c->mem;
  p->device = (uint8_t)device;
  int ok = 1;
  if (roots) {
    ok = mark_needed(p, roots, nroots);
  } else {
    for (int64_t i = 0; ok && i < c->win.nodes.n; i++) {
      fl_node *n = c->win.nodes.at[i];
      if (!n || n->device != device || !(is_root(n) || n->home)) continue;
      fl_node **e = FL_PUSH(p->mem, &p->roots);
      ok = e != NULL;
      if (ok) *e = n;
    }
    ok = ok && mark_needed(p, p->roots.at, p->roots.n);
  }
  ok = ok && collect(c, p);
  if (!ok) {
    for (int64_t i = 0; i < c->win.nodes.n; i++)
      if (c->win.nodes.at[i]) c->win.nodes.at[i]->mark = 0;
    fl_program_free(p);
    return FL_FAIL(c, FLAME_NO_MEMORY, "evaluate", "out of host memory while planning");
  }
  p->hash = fl_hash64(p->key.at, (size_t)p->key.n, (uint64_t)device);
  return FLAME_OK;
}

void fl_program_empty(fl_program *p) {
  p->nodes.n = p->ext.n = p->homes.n = p->scalars.n = p->live.n = p->key.n = 0;
  p->roots.n = p->todo.n = p->same.n = p->bin.n = 0;
}

void fl_program_free(fl_program *p) {
  if (!p->mem) return;
  FL_DROP(p->mem, &p->nodes);
  FL_DROP(p->mem, &p->ext);
  FL_DROP(p->mem, &p->same);
  FL_DROP(p->mem, &p->bin);
  FL_DROP(p->mem, &p->homes);
  FL_DROP(p->mem, &p->scalars);
  FL_DROP(p->mem, &p->live);
  FL_DROP(p->mem, &p->key);
  FL_DROP(p->mem, &p->roots);
  FL_DROP(p->mem, &p->todo);
}
