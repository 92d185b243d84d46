/*
** The program: what the planner reads and the plan cache compares. The nodes of the window (the
** recorded ops) that some roots (values to compute) need are collected in recorded order and
** written as bytes that contain everything a plan depends on except values: ops, dtypes, shapes,
** indexing, which inputs, which buffers are written. Scalars, addresses (but for whether an input's
** first element is 16-byte aligned), offsets of stored inputs and the live set are not in the key
** (docs/design.md 1.2), so a repeated step finds its plan. Layouts are in it by their address:
** equal ones are one (tensor/layout.h), and a plan holds those of its key, so that no other can
** have that address.
*/
#include "plan/plan.h"
#include "base/hash.h"
#include "base/hooks.h"
#include "tensor/call.h"
#include "tensor/entry.h"
#include "tensor/form.h"
#include <string.h>

/* Most bytes of the key for a node, apart from its attributes and call, and for an input. */
enum { NODE_BYTES = 80, INPUT_BYTES = 24 };

/* Bits of fl_node.mark while a program is made: the node is needed; its value is needed after the
** run. */
enum { NEEDED = 1, KEPT = 2 };

static int is_kept(const fl_node *n) {
  return n->effect || n->held > 0 || n->home ||
         (n->entry && n->entry->reads_out && n->grefs > 0);
}

/* Marks all PENDING nodes that the marked ones need, and returns how many are marked. Inputs are
** recorded before what reads them, so one walk through the window (the recorded ops), from its end,
** is enough. With 'whole', those on the device that are kept are marked on the way. */
static int64_t mark_needed(flame_context *c, int device, int whole) {
  int64_t n = 0;
  for (int64_t i = c->win.nodes.n - 1; i >= 0; i--) {
    fl_node *x = c->win.nodes.at[i];
    if (!x) continue;
    if (is_kept(x) && (x->mark || (whole && x->device == device))) x->mark = NEEDED | KEPT;
    if (!x->mark) continue;
    n++;
    if (x->base) {
      if (x->base->state == FL_PENDING) x->base->mark = NEEDED;
      continue;
    }
    for (int k = 0; k < x->nin; k++)
      if (x->in[k] && x->in[k]->state == FL_PENDING) x->in[k]->mark = NEEDED;
  }
  return n;
}

static inline uint8_t *put(uint8_t *at, const void *v, size_t n) {
  memcpy(at, v, n);
  return at + n;
}
#define PUT(at, value, type) \
  do { const type put_ = (type)(value); (at) = put((at), &put_, sizeof put_); } while (0)

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

/* The bin, in the hash table, of the external (stored input) with q's first element; if there is
** none, the free bin for it. */
static int64_t bin_of(const fl_program *p, const fl_node *q) {
  const uint64_t key = fl_mix64((uint64_t)(uintptr_t)q->buffer, (uint64_t)q->offset + q->dtype);
  int64_t k = (int64_t)(key & (uint64_t)(p->bin.n - 1));
  while (p->bin.at[k] >= 0 && !is_same(p->ext.at[p->bin.at[k]], q)) k = (k + 1) & (p->bin.n - 1);
  return k;
}

/* Makes at least twice as many bins as there are externals (stored inputs). */
static int grow_bins(fl_program *p) {
  const int64_t n = p->bin.n ? 2 * p->bin.n : 64;
  if (!FL_RESERVE(p->mem, &p->bin, n)) return 0;
  p->bin.n = n;
  memset(p->bin.at, 0xff, sizeof *p->bin.at * (size_t)n);      /* -1 */
  for (int32_t i = 0; i < p->same.n; i++)
    if (p->same.at[i] == i) p->bin.at[bin_of(p, p->ext.at[i])] = i;
  return 1;
}

/* Appends q as an external (a stored input of the plan). Externals with the same first element are
** read as one. */
static int add_ext(fl_program *p, fl_node *q) {
  if (2 * p->ext.n >= p->bin.n && !grow_bins(p)) return 0;
  fl_node **e = FL_PUSH(p->mem, &p->ext);
  int32_t *same = e ? FL_PUSH(p->mem, &p->same) : NULL, *uses = same ? FL_PUSH(p->mem, &p->uses)
                                                                     : NULL;
  if (!uses) return 0;
  *e = q;
  *uses = 0;
  q->slot = *same = (int32_t)(p->ext.n - 1);
  int32_t *bin = &p->bin.at[bin_of(p, q)];
  if (*bin >= 0) *same = *bin; else *bin = q->slot;
  return 1;
}

/* Appends q as an external (a stored input), and writes it to the key at 'at'; NULL: no memory. */
static uint8_t *put_new_ext(fl_program *p, uint8_t *at, fl_node *q) {
  if (!add_ext(p, q)) return NULL;
  const uintptr_t address = (uintptr_t)q->buffer->ptr +
                            (uintptr_t)(q->offset * fl_dtype_size(q->dtype));
  PUT(at, ~q->slot, int32_t);
  PUT(at, p->same.at[q->slot], int32_t);
  PUT(at, q->dtype, uint8_t);
  PUT(at, address % 16 == 0, uint8_t);
  PUT(at, q->layout, fl_layout *);
  return at;
}

/* Writes an input: the slot (index) of a program node (>= 0), or the complement of that of an
** external (a stored input), or INT32_MIN for a scalar. NULL: no memory. */
static inline uint8_t *put_input(fl_program *p, uint8_t *at, fl_node *q) {
  if (!q) { PUT(at, INT32_MIN, int32_t); return at; }          /* a scalar stands there */
  const int32_t s = q->slot;
  if (q->state == FL_PENDING) {
    PUT(at, s, int32_t);
    return s >= 0 && s < p->nodes.n && p->nodes.at[s] == q ? at : NULL;
  }
  if (s >= 0 && s < p->ext.n && p->ext.at[s] == q) PUT(at, ~s, int32_t);
  else if (!(at = put_new_ext(p, at, q))) return NULL;
  p->uses.at[q->slot]++;
  return at;
}

/* Writes a call; its callee (a user kernel) by address. A cached plan holds its callees, so the
** address in a key can not be that of another one. */
static uint8_t *put_call(uint8_t *at, const fl_call *k) {
  int np = FL_CALL_PARAMS;
  while (np > 0 && k->p[np - 1] == 0) np--;
  PUT(at, k->kind, uint16_t);
  PUT(at, k->nin, uint8_t);
  PUT(at, k->dtype, uint8_t);
  PUT(at, np, int32_t);
  PUT(at, k->nscalar, int32_t);
  PUT(at, k->numel, int64_t);
  PUT(at, k->callee, fl_callee *);
  at = put(at, k->in_dtype, k->nin);
  at = put(at, k->in_numel, sizeof *k->in_numel * k->nin);
  at = put(at, k->p, sizeof *k->p * (size_t)np);
  return put(at, k->what, sizeof k->what);
}

static size_t form_bytes(const fl_node *n) {
  const fl_form_code *form = n->attr ? n->attr->form : NULL;
  return form ? sizeof *form->code * (size_t)form->n : 0;
}

static uint8_t *put_attr(uint8_t *at, const fl_node *n) {
  fl_attr a = *n->attr;
  const size_t code = form_bytes(n);
  a.what = NULL;
  a.call = NULL;
  a.form = NULL;
  at = put(at, &a, sizeof a);
  if (n->attr->call) at = put_call(at, n->attr->call);
  if (code) PUT(at, code, uint32_t);
  return code ? put(at, n->attr->form->code, code) : at;
}

/* The most bytes that n takes in the key. */
static int64_t room_of(const fl_node *n) {
  const size_t more = n->attr ? sizeof *n->attr + form_bytes(n) : 0;
  const size_t call = n->attr && n->attr->call ? sizeof *n->attr->call : 0;
  return (int64_t)(NODE_BYTES + (size_t)n->nin * INPUT_BYTES + more + call);
}

static int put_node(const flame_context *c, fl_program *p, fl_node *n) {
  if (!FL_RESERVE(p->mem, &p->key, p->key.n + room_of(n))) return 0;
  uint8_t *at = p->key.at + p->key.n;
  PUT(at, n->op, uint16_t);
  PUT(at, n->dtype, uint8_t);
  PUT(at, n->axes, uint8_t);
  PUT(at, n->nin, int32_t);
  PUT(at, n->home ? fl_program_home(p, n->home) : -1, int32_t);
  PUT(at, n->shape, fl_layout *);
  if (FL_PLANTED(c, FL_PLANT_SCALAR)) at = put(at, n->scal, sizeof n->scal);
  if (n->base) {
    if (!FL_PLANTED(c, FL_PLANT_STALE)) {
      PUT(at, n->layout, fl_layout *);
      PUT(at, n->offset, int64_t);
    }
    if (!(at = put_input(p, at, n->base))) return 0;
  } else {
    for (int i = 0; i < n->nin; i++) if (!(at = put_input(p, at, n->in[i]))) return 0;
    if (n->attr && !FL_PLANTED(c, FL_PLANT_STALE)) at = put_attr(at, n);
  }
  p->key.n = at - p->key.at;
  p->ends.at[p->ends.n++] = (int32_t)p->key.n;
  memcpy(p->scalars.at + p->scalars.n, n->scal, sizeof n->scal);
  p->scalars.n += 4;
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

/* Writes which external is in which home (buffer that the program writes): known only after all are
** collected. */
static int put_homes(fl_program *p) {
  if (p->homes.n == 0) return 1;
  if (!FL_RESERVE(p->mem, &p->key, p->key.n + 4 * p->ext.n)) return 0;
  uint8_t *at = p->key.at + p->key.n;
  for (int64_t i = 0; i < p->ext.n; i++)
    PUT(at, fl_program_home(p, p->ext.at[i]->buffer), int32_t);
  p->key.n = at - p->key.at;
  return 1;
}

/* Adds the 'count' marked nodes of the window (the recorded ops) to the program and its key. */
static int collect(flame_context *c, fl_program *p, int64_t count) {
  int calls = 0;
  if (!FL_RESERVE(p->mem, &p->nodes, count) || !FL_RESERVE(p->mem, &p->live, count) ||
      !FL_RESERVE(p->mem, &p->scalars, 4 * count) || !FL_RESERVE(p->mem, &p->ends, count))
    return 0;
  for (int64_t i = 0; p->nodes.n < count; i++) {
    fl_node *n = c->win.nodes.at[i];
    if (!n || !n->mark) continue;
    uint8_t live = n->mark >> 1;
    n->mark = 0;
    n->slot = (int32_t)p->nodes.n;
    if (FL_PLANTED(c, FL_PLANT_DEAD) && n->uses > 0 && !n->home) live = 0;
    if (live && n->base && n->base->state == FL_PENDING)
      p->live.at[n->base->slot] = 1;               /* a view that is kept keeps its base */
    p->live.at[p->live.n++] = live;
    p->nodes.at[p->nodes.n++] = n;
    calls |= n->op == FL_OP_call;
    if (n->home && !add_home(p, n->home)) return 0;
    if (!put_node(c, p, n)) return 0;
  }
  for (int64_t i = 0; calls && i < count; i++)  /* the scalars of calls follow those of the nodes */
    if (!put_call_scalars(p, p->nodes.at[i])) return 0;
  return put_homes(p);
}

flame_status fl_program_make(flame_context *c, int device, fl_node *const *roots, int nroots,
                             fl_program *p) {
  p->mem = &c->mem;
  p->device = (uint8_t)device;
  for (int r = 0; r < nroots; r++)
    if (roots[r] && roots[r]->state == FL_PENDING && roots[r]->device == device)
      roots[r]->mark = NEEDED;
  if (!collect(c, p, mark_needed(c, device, roots == NULL))) {
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
  p->ends.n = 0;
  p->same.n = p->uses.n = p->bin.n = 0;
}

void fl_program_free(fl_program *p) {
  if (!p->mem) return;
  FL_DROP(p->mem, &p->nodes);
  FL_DROP(p->mem, &p->ext);
  FL_DROP(p->mem, &p->same);
  FL_DROP(p->mem, &p->uses);
  FL_DROP(p->mem, &p->bin);
  FL_DROP(p->mem, &p->homes);
  FL_DROP(p->mem, &p->scalars);
  FL_DROP(p->mem, &p->live);
  FL_DROP(p->mem, &p->key);
  FL_DROP(p->mem, &p->ends);
}
