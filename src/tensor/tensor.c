/*
** Handles, writes, and the public functions that need no more than this layer.
** A handle names a value; a write makes it name another (docs/design.md 1.3). The memory of the old
** value becomes the home of the new one, which is written there, if the handle owns that memory (a
** view or an alias only refers to it) and no other write has taken it: so parameters keep their
** address. The engine gives a copy to a handle that still holds the old value. Handles are linked
** in the context: closing takes their values and leaves the structs to their owners.
*/
#include "tensor/call.h"
#include "tensor/tensor.h"
#include "tensor/build.h"
#include "tensor/entry.h"
#include <stdio.h>
#include <string.h>

/* ---- life -------------------------------------------------------------------------- */

/* If another handle has named the value already, the new handle names an alias of it, so that
** leafhood, tracking and writes belong to one handle. Builders may return their operand. */
flame_tensor *fl_tensor_new(flame_context *c, fl_node *n) {
  if (n && n->named && n->state != FL_NUMBER) n = n_alias(n);
  if (!n) return NULL;
  flame_tensor *t = fl_slab_zeroed(&c->tensors);
  if (!t) {
    FL_FAIL(c, FLAME_NO_MEMORY, "memory", "no host memory for a tensor");
    return NULL;
  }
  t->refs = 1;
  t->ctx = c;
  t->node = n;
  n->held++;
  n->named = 1;
  t->next = c->handles;
  if (c->handles) c->handles->prev = t;
  c->handles = t;
  return t;
}

flame_tensor *fl_tensor_new_view(flame_context *c, fl_node *n, const char *made_by) {
  flame_tensor *t = fl_tensor_new(c, n);
  if (!t) return NULL;
  t->view = 1;
  t->made_by = made_by;
  return t;
}

flame_tensor *fl_tensor_retain(flame_tensor *t) {
  t->refs++;
  return t;
}

/* Entries of the tape refer to handles without owning them, so the entry of t's node must forget
** t. */
static void unname(flame_tensor *t) {
  fl_entry *e = t->node->entry;
  if (e && e->handle == t) e->handle = NULL;
}

void fl_tensor_set_grad(flame_tensor *t, flame_tensor *grad) {
  flame_tensor *old = t->grad;
  fl_anchor(t->ctx);
  if (grad) fl_tensor_retain(grad);
  t->grad = grad;
  fl_tensor_release(old);
}

/* Frees everything except the gradient, so that a chain of gradients of gradients can be freed in a
** loop. */
static void shut_value(flame_tensor *t) {
  if (t->hooks && t->ctx->drop_hooks) t->ctx->drop_hooks(t->ctx, t->hooks);
  t->hooks = NULL;
  t->closed = 1;
  if (!t->node) return;
  fl_node *n = t->node;
  unname(t);
  t->node = NULL;
  fl_node_drop(n);
}

void fl_tensor_shut(flame_tensor *t) {
  if (!t) return;
  shut_value(t);
  fl_tensor_set_grad(t, NULL);
}

static void unlink_handle(flame_tensor *t) {
  flame_context *c = t->ctx;
  if (t->prev) t->prev->next = t->next; else c->handles = t->next;
  if (t->next) t->next->prev = t->prev;
  fl_slab_free(&c->tensors, t);
}

void fl_tensor_release(flame_tensor *t) {
  while (t && --t->refs == 0) {
    flame_context *c = t->ctx;
    flame_tensor *grad = t->grad;
    t->grad = NULL;
    shut_value(t);
    unlink_handle(t);
    t = grad;
    if (c->closed && !c->handles) {          /* then grad is NULL: closing freed it */
      fl_slab_close(&c->tensors);
      if (c->gone) c->gone(c);
      return;
    }
  }
}

/* A closed context is not held: no thread is inside it, and it may be freed with its last
** handle. */
void flame_free(flame_tensor *t) {
  if (!t) return;
  flame_context *c = t->ctx->closed ? NULL : t->ctx;
  if (c && !fl_hold(c)) return;
  fl_tensor_release(t);
  fl_unhold(&c);
}

int fl_tensor_init(flame_context *c) {
  fl_slab_init(&c->nodes, &c->mem, sizeof(fl_node));
  fl_slab_init(&c->tensors, &c->mem, sizeof(flame_tensor));
  fl_slab_init(&c->entries, &c->mem, sizeof(fl_entry));
  fl_slab_init(&c->attrs, &c->mem, sizeof(fl_attr));
  fl_slab_init(&c->calls, &c->mem, sizeof(fl_call));
  fl_slab_init(&c->buffers, &c->mem, sizeof(fl_buffer));
  fl_rules_fill(c->rules);
  if (!fl_layouts_init(&c->layouts, &c->mem)) return 0;
  c->scalar_shape = fl_layout_of(&c->layouts, 0, NULL, NULL);
  if (c->scalar_shape) return 1;
  fl_layouts_close(&c->layouts);
  return 0;
}

/* Closes all handles. The first pass frees values; the second frees gradients, whose handles may
** leave the list meanwhile, so it starts over from the head until no handle has a gradient. */
static void shut_all(flame_context *c) {
  for (flame_tensor *t = c->handles; t; t = t->next) shut_value(t);
  for (flame_tensor *t = c->handles; t; ) {
    if (!t->grad) {
      t = t->next;
      continue;
    }
    fl_tensor_set_grad(t, NULL);
    t = c->handles;
  }
}

int fl_tensor_close(flame_context *c) {
  shut_all(c);
  fl_scope_end(c, 0);
  fl_effects_drop(c);
  FL_DROP(&c->mem, &c->win.nodes);
  FL_DROP(&c->mem, &c->borrowed);
  for (int i = 0; i < FL_WALK_LISTS; i++) fl_free(&c->mem, c->spare[i].at, c->spare[i].bytes);
  memset(c->spare, 0, sizeof c->spare);
  fl_slab_close(&c->nodes);
  fl_slab_close(&c->entries);
  fl_slab_close(&c->attrs);
  fl_slab_close(&c->calls);
  fl_slab_close(&c->buffers);
  fl_layouts_close(&c->layouts);
  c->scalar_shape = NULL;
  c->closed = 1;
  if (c->handles) return 0;
  fl_slab_close(&c->tensors);
  return 1;
}

/* ---- facts ------------------------------------------------------------------------- */

int fl_tensor_open(const flame_tensor *t, const char *op) {
  if (t->node) return 1;
  FL_FAIL(t->ctx, FLAME_BAD_ARGUMENT, op, "the tensor was freed");
  return 0;
}

int fl_tensor_tracked(const flame_tensor *t) { return t->node && t->node->entry; }

/* As in PyTorch an untracked tensor counts as a leaf. */
int fl_tensor_is_leaf(const flame_tensor *t) {
  return !fl_tensor_tracked(t) || t->node->entry->leaf;
}

flame_context *flame_context_of(const flame_tensor *x) { return x ? x->ctx : NULL; }

int flame_ndim(const flame_tensor *x) { return x && x->node ? x->node->shape->rank : -1; }

int64_t flame_size(const flame_tensor *x, int axis) {
  if (!x || !x->node) return -1;
  const fl_layout *s = x->node->shape;
  if (axis < 0) axis += s->rank;
  return axis >= 0 && axis < s->rank ? s->size[axis] : -1;
}

int64_t flame_numel(const flame_tensor *x) {
  return x && x->node ? x->node->shape->numel : -1;
}

flame_dtype flame_dtype_of(const flame_tensor *x) {
  return x && x->node ? (flame_dtype)x->node->dtype : FLAME_DTYPE_COUNT;
}

/* ---- writes ------------------------------------------------------------------------ */

static flame_status may_write(const flame_tensor *t, const char *op) {
  flame_context *c = t->ctx;
  if (!fl_tensor_open(t, op)) return FLAME_BAD_ARGUMENT;
  if (t->view)
    return FL_FAIL(c, FLAME_BAD_ARGUMENT, op,
                   "write to a view made by %s" FL_DO ": write x[{2, 3}] = v, or clone() first",
                   t->made_by ? t->made_by : "x[…]");
  if (t->node->entry && t->node->entry->leaf && c->grad_mode)
    return FL_FAIL(c, FLAME_BAD_ARGUMENT, op,
                   "write to a leaf that requires grad" FL_DO ": wrap it in no_grad");
  return FLAME_OK;
}

static flame_status fits(const flame_tensor *t, const fl_node *n, const char *op) {
  flame_context *c = t->ctx;
  const fl_node *old = t->node;
  char a[192], b[192];
  if (n->shape != old->shape)
    return FL_FAIL(c, FLAME_BAD_ARGUMENT, op, "x has shape %s and the value %s",
                   fl_shape_text(a, old->shape->rank, old->shape->size),
                   fl_shape_text(b, n->shape->rank, n->shape->size));
  if (n->dtype != old->dtype)
    return FL_FAIL(c, FLAME_BAD_ARGUMENT, op, "x is %s and the value %s" FL_DO ": cast it first",
                   fl_dtype_name(old->dtype), fl_dtype_name(n->dtype));
  if (n->device != old->device)
    return FL_FAIL(c, FLAME_BAD_ARGUMENT, op,
                   "x and the value are on different devices" FL_DO ": use v:to(x.device)");
  return FLAME_OK;
}

/* Does n refer to another value's memory, as views, aliases and results of host functions do? */
static int is_guest(const fl_node *n) { return fl_ops[n->op].fuse == FL_FUSE_V; }

/* Was n recorded in this call, and does only the scope hold it? */
static int fresh(const fl_node *n) {
  return n->state == FL_PENDING && !n->named && !n->effect && n->held == 1 && n->uses == 0 &&
         n->grefs == 0 && !is_guest(n);
}

/* Is n a stored value that was computed into separate memory for its handle? */
static int owns_memory(const fl_node *n) {
  return n->state == FL_STORED && !is_guest(n) && n->layout == n->shape &&
         n->offset == 0 && !n->buffer->foreign && !n->buffer->homed &&
         n->shape->numel * fl_dtype_size(n->dtype) == n->buffer->bytes;
}

static void hand_over_home(fl_node *old, fl_node *n) {
  if (old->state == FL_PENDING && old->home) {
    n->home = old->home;
    old->home = NULL;
  } else if (owns_memory(old)) {
    n->home = fl_buffer_retain(old->buffer);
    n->home->homed = 1;
  }
}

static void rebind(flame_tensor *t, fl_node *n) {
  fl_node *old = t->node;
  hand_over_home(old, n);
  if (n->checks || n->ctx->scan) fl_node_guard(n, old);
  if (old->entry && old->entry->leaf) fl_entry_share_leaf(n, old);
  else unname(t);
  if (t->retain && n->entry && !n->entry->leaf) n->entry->handle = t;
  t->node = n;
  n->named = 1;
  fl_node_hold(n);
  fl_node_drop(old);
}

flame_status fl_tensor_write(flame_tensor *t, fl_node *n, const char *op) {
  flame_context *c = t->ctx;
  if (!n) return c->err.code ? c->err.code : FL_FAIL(c, FLAME_INTERNAL, op, "no value");
  flame_status e = may_write(t, op);
  if (e == FLAME_OK) e = fits(t, n, op);
  if (e != FLAME_OK) return e;
  const int leaf = t->node->entry && t->node->entry->leaf;
  if (!fresh(n) || (leaf && n->entry)) n = n_copy(n);
  if (!n) return c->err.code;
  rebind(t, n);
  t->used = 0;
  return FLAME_OK;
}

flame_status fl_tensor_convert(flame_tensor *t, fl_node *n, const char *op) {
  flame_context *c = t->ctx;
  fl_node *old = t->node;
  if (t->view || (old->entry && !old->entry->leaf))
    return FL_FAIL(c, FLAME_BAD_ARGUMENT, op,
                   "x is %s" FL_DO ": use to(), which returns a new tensor",
                   t->view ? "a view" : "computed from tracked tensors");
  if (old->entry && !fl_is_float(n->dtype))
    return FL_FAIL(c, FLAME_BAD_ARGUMENT, op,
                   "x requires grad, and only floats have gradients, not %s",
                   fl_dtype_name(n->dtype));
  if (old->entry) fl_entry_share_leaf(n, old);
  t->node = n;
  n->named = 1;
  fl_node_hold(n);
  fl_node_drop(old);
  return FLAME_OK;
}

void fl_tensor_rename(flame_tensor *t, fl_node *n) {
  fl_node *old = t->node;
  const fl_entry *e = old->entry;
  if (!e || !e->leaf) unname(t);
  else if (n->entry != e && !(n->entry && n->entry->leaf)) fl_entry_share_leaf(n, old);
  t->node = n;
  n->named = 1;
  fl_node_hold(n);
  fl_node_drop(old);
}

/* ---- errors and settings ----------------------------------------------------------- */

const char *flame_version(void) { return FLAME_VERSION; }

const char *flame_error(flame_context *c) {
  if (!c) return "open: no memory for a context";
  if (fl_held_elsewhere(c))
    return "context is in use by another thread: let one thread in at a time";
  const fl_error *e = &c->err;
  fl_tell_refused(c);
  if (e->code == FLAME_OK) return "";
  snprintf(c->error_text, sizeof c->error_text, "%s%s%s", e->op, e->op[0] ? ": " : "",
           e->message);
  return c->error_text;
}

void fl_tell_at_end(flame_context *c) {
  char place[96] = "";
  if (c->up->place) c->up->place(c, c->err.site, place);
  fprintf(stderr, "flame: %s%s%s: %s (at the end of the script)\n", place, place[0] ? ": " : "",
          c->err.op, c->err.message);
}

flame_status flame_error_code(flame_context *c) {
  if (!c) return FLAME_NO_MEMORY;
  return fl_held_elsewhere(c) ? FLAME_BAD_ARGUMENT : c->err.code;
}

void flame_clear_error(flame_context *c) {
  FL_HOLD(c, );
  uintptr_t me = atomic_load(&c->holder);
  atomic_compare_exchange_strong(&c->refused, &me, 0);
  fl_error_clear(&c->err);
}

void flame_seed(flame_context *c, uint64_t seed) {
  FL_HOLD(c, );
  c->rng.seed = seed;
  c->rng.counter = 0;
}

int flame_grad_mode(flame_context *c, int on) {
  FL_HOLD(c, 0);
  const int before = c->grad_mode;
  c->grad_mode = on != 0;
  return before;
}

flame_tensor *flame_grad_of(flame_tensor *x) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  return x->grad ? fl_tensor_retain(x->grad) : NULL;
}

void flame_zero_grad(flame_tensor *x) {
  FL_HOLD(x ? x->ctx : NULL, );
  fl_tensor_set_grad(x, NULL);
}

flame_status flame_requires_grad(flame_tensor *x, int on) {
  FL_HOLD(x ? x->ctx : NULL, FLAME_BAD_ARGUMENT);
  static const char op[] = "requires_grad";
  if (!fl_tensor_open(x, op)) return FLAME_BAD_ARGUMENT;
  fl_node *n = x->node;
  if (on && n->entry) return FLAME_OK;
  if (on && !fl_is_float(n->dtype))
    return FL_FAIL(x->ctx, FLAME_BAD_ARGUMENT, op, "only floats have gradients, not %s",
                   fl_dtype_name(n->dtype));
  if (on && n->state == FL_NUMBER)
    return FL_FAIL(x->ctx, FLAME_BAD_ARGUMENT, op, "a number has no gradient");
  if (on) return fl_entry_leaf(n, x) ? FLAME_OK : FLAME_NO_MEMORY;
  if (!n->entry) return FLAME_OK;
  if (!n->entry->leaf)
    return FL_FAIL(x->ctx, FLAME_BAD_ARGUMENT, op,
                   "only a leaf can stop requiring grad" FL_DO ": use detach()");
  fl_entry_drop(n);
  return FLAME_OK;
}
