/*
** Nodes: their birth, counts and end; the window (the list of recorded nodes); buffers.
** One rule decides everything (node.h): a value is needed while it is held, a PENDING consumer uses
** it or a PENDING write guards it, it is a PENDING effect, or its own entry reads it and a later
** entry names it. Code that lowers a count calls fl_node_settle if the value may have become
** unneeded. Settling works through an intrusive list, so it needs neither C stack nor memory and
** can not fail: a chain of a million nodes is freed like a single one. in[] is valid while a node
** is PENDING (uses keep the inputs) or has an entry (grefs do); otherwise nin is 0.
*/
#include "tensor/call.h"
#include "tensor/form.h"
#include "tensor/lost.h"
#include <assert.h>
#include <string.h>

/* ---- births ------------------------------------------------------------------------ */

/* Stores the failure of n as the context's error, under the op that failed and the line that
** recorded it. */
flame_status fl_node_raise(const fl_node *n) {
  flame_context *c = n->ctx;
  char op[32] = "";
  const char *text = n->error ? n->error : "evaluate: a value could not be computed "
                                           "(no memory for the reason)";
  const char *colon = strstr(text, ": ");
  if (colon && colon - text < (long)sizeof op) {
    memcpy(op, text, (size_t)(colon - text));
    text = colon + 2;
  }
  if (c->err.code == FLAME_OK) c->err.site = n->failed_site;
  return FL_FAIL(c, fl_is_lost(c, n->device) ? FLAME_DEVICE_LOST : FLAME_BAD_VALUE, op, "%s", text);
}

/* Can n have a value? Returns 0 with the error of n if n is FAILED. */
static inline int usable(const fl_node *n) {
  assert(n->state != FL_DROPPED);
  if (n->state != FL_FAILED) return 1;
  fl_node_raise(n);
  return 0;
}

static void *no_memory(flame_context *c) {
  FL_FAIL(c, FLAME_NO_MEMORY, "memory", "no host memory for a recorded value");
  return NULL;
}

static void say_full(flame_context *c, int64_t most) {
  FL_FAIL(c, FLAME_NO_MEMORY, "memory", "one more value can not be recorded; the limit of the "
          "context is %lld nodes, and %lld are in use", (long long)most, (long long)c->nodes.live);
}

/* May this call record a node for the device? Makes room in the window (the list of recorded nodes)
** and in the scope first. A NULL layout means that memory ran out. */
__attribute__((noinline)) static int make_room(flame_context *c, int device,
                                               const fl_layout *shape) {
  const int lost = fl_is_lost(c, device);
  if (lost && c->err.code == FLAME_OK) c->err = c->lost[device];
  if (lost || c->err.code == FLAME_DEVICE_LOST || c->err.code == FLAME_INTERRUPTED) return 0;
  if (!shape) {
    no_memory(c);
    return 0;
  }
  if (c->win.nodes.n >= c->win.nodes.cap && c->win.live < c->win.nodes.n / 2)
    fl_window_compact(c);
  if (FL_RESERVE(&c->mem, &c->win.nodes, c->win.nodes.n + 1) &&
      FL_RESERVE(&c->mem, &c->borrowed, c->borrowed.n + 1))
    return 1;
  no_memory(c);
  return 0;
}

static inline int may_record(flame_context *c, int device, const fl_layout *shape) {
  assert(!c->evaluating);
  if (shape && !c->dead && c->err.code == FLAME_OK && c->win.nodes.n < c->win.nodes.cap &&
      c->borrowed.n < c->borrowed.cap) return 1;
  return make_room(c, device, shape);
}

/* A zeroed node; NULL with an error: there is no memory, or the context has as many nodes as it may
** have. */
static inline fl_node *new_struct(flame_context *c) {
  const int64_t most = c->limits.most[FLAME_NODES];
  const int full = most > 0 && c->nodes.live >= most;
  if (full) say_full(c, most);
  fl_node *n = full ? NULL : fl_slab_zeroed(&c->nodes);
  return n ? n : no_memory(c);
}

/* Makes the struct, held once by the innermost scope, in which may_record made room. Consumes one
** reference each of shape and layout, also on failure: every node has both. Inlined, since
** fl_node_new is most of what recording costs. */
static inline __attribute__((always_inline)) fl_node *born(flame_context *c, int op, int dtype,
                                                           int device, fl_layout *shape,
                                                           fl_layout *layout) {
  fl_node *n = new_struct(c);
  if (!n) {
    fl_layout_release(&c->layouts, shape);
    fl_layout_release(&c->layouts, layout);
    return NULL;
  }
  n->ctx = c;
  n->held = 1;
  n->op = (uint16_t)op;
  n->dtype = (uint8_t)dtype;
  n->device = (uint8_t)device;
  n->site = c->site;
  n->back = c->back;
  n->index = -1;
  n->shape = shape;
  n->layout = layout;
  n->in = n->in0;
  c->borrowed.at[c->borrowed.n++] = n;
  return n;
}

static int64_t bytes_of(const fl_node *n) {
  return n->base ? 0 : n->shape->numel * fl_dtype_size(n->dtype);
}

static inline void enter_window(flame_context *c, fl_node *n) {
  n->state = FL_PENDING;
  n->index = (int32_t)c->win.nodes.n;
  c->win.nodes.at[c->win.nodes.n++] = n;
  c->win.live++;
  c->win.bytes += bytes_of(n);
  c->stats.recorded++;
}

/* Notes that n is untracked because the grad mode is off, if an input is tracked. (An untracked
** input passes its reason on to n in fl_node_new.) Not inlined, since most nodes have no tracked
** input. */
__attribute__((noinline)) static void end_tracking(fl_node *n) {
  for (int i = 0; i < n->nin; i++)
    if (n->in[i] && n->in[i]->entry)
      n->lost = fl_lost_from(n->in[i], n->op, fl_lost_untracked(n->ctx));
}

/* n, which was just born with 'nin' inputs, is not recorded after all: gives back the uses of the
** first 'used' of them. The scope frees the struct. Returns NULL. */
__attribute__((noinline)) static fl_node *abandon(fl_node *n, int nin, int used) {
  for (int i = 0; i < used; i++) if (n->in[i]) n->in[i]->uses--;
  n->state = FL_DROPPED;
  n->nin = (uint8_t)nin;
  fl_node_forget_inputs(n);
  return NULL;
}

fl_node *fl_node_new(flame_context *c, int op, int dtype, int device, fl_layout *shape,
                     int nin, fl_node *const *in) {
  if (!may_record(c, device, shape)) {
    fl_layout_release(&c->layouts, shape);
    return NULL;
  }
  fl_node *n = born(c, op, dtype, device, shape, fl_layout_retain(shape));
  if (!n) return NULL;
  fl_node **to = n->in0;
  if (nin > 3) {
    to = fl_alloc(&c->mem, (size_t)nin * sizeof *to);
    if (!to) no_memory(c);
    if (!to) return abandon(n, 0, 0);
    n->in = to;
  }
  int ends = 0, checks = op == FL_OP_index;
  for (int i = 0; i < nin; i++) {
    fl_node *x = to[i] = in[i];
    if (!x) continue;
    if (!usable(x)) return abandon(n, nin, i);
    x->uses++;
    checks |= x->checks;
    if (x->entry) ends = 1;
    else if (!n->lost) n->lost = x->lost;
  }
  n->nin = (uint8_t)nin;
  n->checks = (uint8_t)checks;
  if (ends && !c->grad_mode) end_tracking(n);
  enter_window(c, n);
  return n;
}

fl_attr *fl_node_attr(fl_node *n) {
  if (n->attr) return n->attr;
  n->attr = fl_slab_zeroed(&n->ctx->attrs);
  return n->attr ? n->attr : no_memory(n->ctx);
}

static void join_buffer(fl_node *n, fl_buffer *b) {
  n->buffer = b;
  n->bprev = NULL;
  n->bnext = b->nodes;
  if (b->nodes) b->nodes->bprev = n;
  b->nodes = n;
  b->refused |= n->refused;
  if (b->site == 0) b->site = n->site;
}

static void leave_buffer(fl_node *n) {
  if (n->bprev) n->bprev->bnext = n->bnext; else n->buffer->nodes = n->bnext;
  if (n->bnext) n->bnext->bprev = n->bprev;
  n->bnext = n->bprev = NULL;
  fl_buffer *b = n->buffer;
  n->buffer = NULL;
  fl_buffer_release(n->ctx, b);
}

/* Makes 'n' a view of 'parent'; 0: no memory for the record of how it was made, or for its entry of
** the tape. */
static int look_into(fl_node *n, fl_node *parent, const fl_attr *how, int track) {
  fl_attr *a = how ? fl_node_attr(n) : NULL;
  if (how && !a) return 0;
  if (how) *a = *how;
  n->nin = 1;
  n->in[0] = parent;
  if (!track) n->lost = fl_lost_from(parent, FL_OP_view, n->ctx->grad_mode ? FL_LOST_DETACH
                                                         : fl_lost_untracked(n->ctx));
  if (parent->state == FL_STORED) {
    n->state = FL_STORED;
    n->checks = parent->checks;
    join_buffer(n, fl_buffer_retain(parent->buffer));
  } else {
    n->base = parent->base ? parent->base : parent;
    n->base->uses++;
    n->checks = n->base->checks;
    enter_window(n->ctx, n);
  }
  if (track && !fl_entry_attach(n)) return 0;
  if (n->entry) return 1;
  n->in[0] = n->base;              /* the parent is not kept */
  n->nin = n->base ? 1 : 0;
  return 1;
}

fl_node *fl_node_view(fl_node *parent, fl_layout *shape, fl_layout *layout,
                      int64_t offset, const fl_attr *how, int track) {
  flame_context *c = parent->ctx;
  if (!may_record(c, parent->device, shape ? layout : NULL) || !usable(parent)) {
    fl_layout_release(&c->layouts, shape);
    fl_layout_release(&c->layouts, layout);
    return NULL;
  }
  fl_node *n = born(c, FL_OP_view, parent->dtype, parent->device, shape, layout);
  if (!n) return NULL;
  n->offset = offset;
  n->state = FL_DROPPED;           /* until look_into sets another state: a node without inputs and
                                   ** memory can be freed in this one */
  return look_into(n, parent, how, track) ? n : NULL;
}

fl_node *fl_node_number(flame_context *c, int isint, fl_scalar v) {
  if (!make_room(c, 0, c->scalar_shape)) return NULL;
  fl_node *n = born(c, FL_OP_fill, isint ? FLAME_I64 : FLAME_F32, c->default_device,
                    fl_layout_retain(c->scalar_shape), fl_layout_retain(c->scalar_shape));
  if (!n) return NULL;
  n->state = FL_NUMBER;
  n->isint = isint != 0;
  n->scal[0] = v;
  return n;
}

fl_node *fl_node_stored(flame_context *c, int dtype, fl_buffer *buf, fl_layout *layout,
                        int64_t offset) {
  fl_layout *shape = NULL;
  fl_node *n = NULL;
  if (buf && make_room(c, buf->device, layout)) {
    shape = layout->contiguous
              ? fl_layout_retain(layout)
              : fl_layout_of(&c->layouts, layout->rank, layout->size, NULL);
    if (!shape) no_memory(c);
  }
  if (shape) n = born(c, FL_OP_copy, dtype, buf->device, shape, layout);
  else fl_layout_release(&c->layouts, layout);
  if (!n) {
    fl_buffer_release(c, buf);
    return NULL;
  }
  n->offset = offset;
  n->state = FL_STORED;
  join_buffer(n, buf);
  return n;
}

/* ---- ends -------------------------------------------------------------------------- */

static inline int needed(const fl_node *n) {
  return (n->held | n->uses | n->guards) != 0 || (n->effect && n->state == FL_PENDING) ||
         (n->grefs > 0 && n->entry && n->entry->reads_out);
}

int fl_node_needed(const fl_node *n) { return needed(n); }

static void leave_window(fl_node *n) {
  fl_window *w = &n->ctx->win;
  w->nodes.at[n->index] = NULL;
  w->live--;
  w->bytes -= bytes_of(n);
  if (n->index == w->nodes.n - 1)
    while (w->nodes.n > 0 && !w->nodes.at[w->nodes.n - 1]) w->nodes.n--;
  n->index = -1;
}

/* Puts n on the work list of fl_node_settle. */
static inline void queue(fl_node *n) {
  if (n->queued) return;
  n->queued = 1;
  n->snext = n->ctx->settle;
  n->ctx->settle = n;
}

/* The caller calls work_off afterwards. */
static inline void unuse(fl_node *n) {
  assert(n->uses > 0);
  if (--n->uses == 0 && !needed(n)) queue(n);
}

static void forget_home(fl_node *n) {
  if (!n->home) return;
  fl_buffer *b = n->home;
  n->home = NULL;
  b->homed = 0;
  fl_buffer_release(n->ctx, b);
}

static void forget_before(fl_node *n) {
  fl_node *b = n->before;
  n->before = NULL;
  if (b && --b->guards == 0 && !needed(b)) queue(b);
}

static int keeps_inputs(const fl_node *n) {
  return n->state == FL_PENDING || (n->entry && !n->entry->leaf && !n->entry->spent);
}

/* Once a node is not PENDING and has no entry of the tape, its in[] and attr are no longer read. */
void fl_node_forget_inputs(fl_node *n) {
  if (n->in != n->in0) fl_free(&n->ctx->mem, n->in, (size_t)n->nin * sizeof *n->in);
  n->in = n->in0;
  n->nin = 0;
  if (n->attr && n->attr->call) fl_call_free(n->ctx, n->attr->call);
  if (n->attr && n->attr->form) fl_form_free(n->ctx, n->attr->form);
  if (n->attr) fl_slab_free(&n->ctx->attrs, n->attr);
  n->attr = NULL;
}

static inline void forget_inputs(fl_node *n) {
  if (n->in != n->in0 || n->attr) fl_node_forget_inputs(n);
  else n->nin = 0;
}

/* A PENDING node becomes 'state': it leaves the window and releases the uses of its inputs, which
** work_off then frees. */
static void end_pending(fl_node *n, fl_state state) {
  leave_window(n);
  if (n->ctx->effect == n) n->ctx->effect = NULL;
  n->state = (uint8_t)state;
  n->checks = 0;
  forget_home(n);
  forget_before(n);
  if (n->base) {
    fl_node *base = n->base;
    n->base = NULL;
    unuse(base);
  } else {
    for (int i = 0; i < n->nin; i++)
      if (n->in[i]) unuse(n->in[i]);
  }
  if (!keeps_inputs(n)) forget_inputs(n);
}

/* Frees the value of n. Its entry of the tape and shape may remain, for entries of later nodes. */
static void drop_value(fl_node *n) {
  if (n->state == FL_PENDING) {
    end_pending(n, FL_DROPPED);
  } else if (n->state == FL_STORED) {
    n->state = FL_DROPPED;
    leave_buffer(n);
  }
}

static void destroy(fl_node *n) {
  flame_context *c = n->ctx;
  if (n->entry) fl_entry_detach(n);
  forget_inputs(n);
  if (n->layout == n->shape) n->shape->refs--;             /* the last is released below */
  else fl_layout_release(&c->layouts, n->layout);
  fl_layout_release(&c->layouts, n->shape);
  if (n->error) fl_free(&c->mem, n->error, strlen(n->error) + 1);
  fl_slab_free(&c->nodes, n);
}

/* 'queued' stays set, so that a host's release function can not queue n again. */
static void settle_one(fl_node *n) {
  if (!needed(n)) {
    drop_value(n);
    if (n->grefs == 0) {
      destroy(n);
      return;
    }
  }
  n->queued = 0;
}

/* Frees what is not needed of the queued nodes. While one call works through the list, nested calls
** (also from a host's release function) do nothing: what they have added is on the list. */
static void work_off(flame_context *c) {
  if (c->settling) return;
  c->settling = 1;
  for (fl_node *n; (n = c->settle) != NULL;) {
    c->settle = n->snext;
    settle_one(n);
  }
  c->settling = 0;
}

void fl_node_settle(fl_node *n) {
  queue(n);
  work_off(n->ctx);
}

void fl_node_hold(fl_node *n) { n->held++; }

void fl_node_drop(fl_node *n) {
  assert(n->held > 0);
  if (--n->held == 0 && !needed(n)) fl_node_settle(n);
}

void fl_node_gref(fl_node *n) { n->grefs++; }

void fl_node_ungref(fl_node *n) {
  assert(n->grefs > 0);
  if (--n->grefs == 0 && !needed(n)) fl_node_settle(n);
}

void fl_node_store(fl_node *n, fl_buffer *buf, int64_t offset) {
  assert(n->state == FL_PENDING);
  n->held++;                       /* so that it is not freed while its inputs are */
  end_pending(n, FL_STORED);
  work_off(n->ctx);
  n->offset += offset;             /* for a view: counted from its base's first element so far */
  join_buffer(n, buf);
  fl_node_drop(n);
}

/* n->error may stay NULL when memory is out; the state FAILED is enough. */
void fl_node_fail(fl_node *n, const char *message, uint32_t site) {
  assert(n->state == FL_PENDING);
  n->failed_site = site ? site : n->site;
  n->held++;
  n->error = fl_strdup(&n->ctx->mem, message);
  if (n->effect) n->ctx->effect_lost = 1;
  if (n->effect && n->ctx->effect_failed) n->ctx->effect_failed(n->ctx, message, n->failed_site);
  end_pending(n, FL_FAILED);
  work_off(n->ctx);
  fl_node_drop(n);
}

void fl_node_spoil(fl_node *n, const char *message, uint32_t site) {
  assert(n->state == FL_STORED);
  n->failed_site = site ? site : n->site;
  n->error = fl_strdup(&n->ctx->mem, message);
  n->state = FL_FAILED;
  leave_buffer(n);
}

void fl_node_effect(fl_node *n) {
  n->effect = 1;
  n->ctx->effect = n;
}

/* Each effect holds the effect before it, so the newest is dropped first. */
void fl_effects_drop(flame_context *c) {
  for (int64_t i = c->win.nodes.n; i > 0; i--) {
    fl_node *n = i <= c->win.nodes.n ? c->win.nodes.at[i - 1] : NULL;
    if (!n || !n->effect) continue;
    n->effect = 0;
    if (!needed(n)) fl_node_settle(n);
  }
}

void fl_node_guard(fl_node *n, fl_node *before) {
  n->before = before;
  before->guards++;
}

void fl_node_refuse(fl_node *n) {
  fl_node *b = n->before;
  assert(n->state == FL_PENDING && !n->base && b);
  n->refused = 1;
  n->held++;
  b->uses++;
  forget_before(n);
  fl_entry_restart(n, b);
  for (int i = 0; i < n->nin; i++)
    if (n->in[i]) unuse(n->in[i]);
  work_off(n->ctx);
  fl_node_forget_inputs(n);
  n->op = FL_OP_copy;
  n->axes = 0;
  n->checks = b->checks;
  n->nin = 1;
  n->in[0] = b;
  n->held--;
}

void fl_node_move(fl_node *n, fl_buffer *buf) {
  assert(n->state == FL_STORED);
  fl_buffer_retain(buf);
  leave_buffer(n);
  join_buffer(n, buf);
}

void fl_window_compact(flame_context *c) {
  int64_t k = 0;
  for (int64_t i = 0; i < c->win.nodes.n; i++) {
    fl_node *n = c->win.nodes.at[i];
    if (!n) continue;
    n->index = (int32_t)k;
    c->win.nodes.at[k++] = n;
  }
  c->win.nodes.n = k;
}

/* ---- buffers ----------------------------------------------------------------------- */

static void count_in(flame_context *c, fl_buffer *b) {
  fl_level_add(&c->tensors_of[b->device], b->bytes);
  b->next = c->buffer;
  if (c->buffer) c->buffer->prev = b;
  c->buffer = b;
}

static void count_out(flame_context *c, const fl_buffer *b) {
  fl_level_add(&c->tensors_of[b->device], -b->bytes);
  if (b->next) b->next->prev = b->prev;
  if (b->prev) b->prev->next = b->next;
  else c->buffer = b->next;
}

static fl_buffer *buffer_struct(flame_context *c, int device, int64_t bytes) {
  fl_buffer *b = fl_slab_zeroed(&c->buffers);
  if (!b) return no_memory(c);
  b->refs = 1;
  b->device = (uint8_t)device;
  b->bytes = bytes;
  return b;
}

flame_status fl_out_of_memory(flame_context *c, int device, int64_t bytes, const char *what) {
  if (c->up && c->up->no_memory) return c->up->no_memory(c, device, bytes, what);
  return FL_FAIL(c, FLAME_NO_MEMORY, "memory", "asked for %lld bytes for %s", (long long)bytes,
                 what);
}

fl_buffer *fl_buffer_new(flame_context *c, int device, int64_t bytes) {
  fl_buffer *b = buffer_struct(c, device, bytes);
  if (!b) return NULL;
  b->ptr = c->up->device_alloc(c, device, bytes);
  if (!b->ptr) {
    fl_slab_free(&c->buffers, b);
    fl_out_of_memory(c, device, bytes, "a value");
    return NULL;
  }
  count_in(c, b);
  return b;
}

fl_buffer *fl_buffer_foreign(flame_context *c, void *p, int64_t bytes,
                             void (*release)(void *p, void *arg), void *arg) {
  fl_buffer *b = buffer_struct(c, 0, bytes);
  if (!b) return NULL;
  b->foreign = 1;
  b->ptr = p;
  b->release = release;
  b->arg = arg;
  return b;                        /* the host's bytes are not counted as ours */
}

fl_buffer *fl_buffer_retain(fl_buffer *b) {
  b->refs++;
  return b;
}

void fl_buffer_release(flame_context *c, fl_buffer *b) {
  if (!b || --b->refs > 0) return;
  assert(!b->nodes);
  if (b->foreign) {
    if (b->release) b->release(b->ptr, b->arg);
  } else {
    count_out(c, b);
    c->up->device_free(c, b->device, b->ptr, b->bytes);
  }
  fl_slab_free(&c->buffers, b);
}
