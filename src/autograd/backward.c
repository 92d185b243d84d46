/*
** The backward walk. It collects the entries (records of nodes on the tape) that are reachable from
** the roots, orders them by sequence (recording order, so that in descending order a result comes
** before its inputs), keeps those on a path to a target, and runs the rule of each once with the
** sum of its cotangents.
**
** Rules. No recursion. A cotangent waits in node->grad, held by the walk. Marks on nodes are valid
** only while collecting: hooks and host functions may evaluate, which sets marks. Each rule runs in
** a separate borrowing scope, with the script line of its entry as the current one, and with the
** grad mode off unless create_graph. Entries are freed at the very end, so that a failure leaves
** everything as it was.
*/
#include "autograd/walk.h"
#include "autograd/why.h"
#include <assert.h>
#include <string.h>

enum { VISITED = 2, NEEDED = 4 };        /* bits of node->mark; bit 0 is used by plan/ */

static flame_status no_memory(walk *w) {
  return FL_FAIL(w->c, FLAME_NO_MEMORY, w->op, "host memory is out");
}

/* ---- lists ------------------------------------------------------------------------- */

enum { SPARE_BYTES = 1 << 16 };

static void take_list(flame_context *c, int which, void **at, int64_t *cap, size_t elem) {
  fl_spare *s = &c->spare[which];
  *at = s->at;
  *cap = (int64_t)(s->bytes / elem);
  *s = (fl_spare){ 0 };
}

static void keep_list(flame_context *c, int which, void *at, int64_t cap, size_t elem) {
  fl_spare *s = &c->spare[which];
  const size_t bytes = (size_t)cap * elem;
  if (!s->at && bytes <= SPARE_BYTES) *s = (fl_spare){ at, at ? bytes : 0 };
  else fl_free(&c->mem, at, bytes);
}
#define TAKE(w, k, list) \
  take_list((w)->c, k, (void **)&(w)->list.at, &(w)->list.cap, sizeof *(w)->list.at)
#define KEEP(w, k, list) keep_list((w)->c, k, (w)->list.at, (w)->list.cap, sizeof *(w)->list.at)

static void take_lists(walk *w) {
  w->c->walking++;
  TAKE(w, 0, order);
  TAKE(w, 1, todo);
  TAKE(w, 2, leaves);
  TAKE(w, 3, lates);
}

static void keep_lists(walk *w) {
  KEEP(w, 0, order);
  KEEP(w, 1, todo);
  FL_DROP(&w->c->mem, &w->targets);
  KEEP(w, 2, leaves);
  KEEP(w, 3, lates);
}

/* ---- ordering ---------------------------------------------------------------------- */

static void sift(item *a, int64_t i, int64_t n) {        /* a heap with the smallest item on top */
  const item v = a[i];
  for (int64_t k; (k = 2 * i + 1) < n; i = k) {
    if (k + 1 < n && a[k + 1].sequence < a[k].sequence) k++;
    if (v.sequence <= a[k].sequence) break;
    a[i] = a[k];
  }
  a[i] = v;
}

/* Sorts by descending sequence. The items of a chain are sorted already, those of a graph with few
** branches nearly so: then moving each item to its place is less work than a heap. */
static void sort_items(item *a, int64_t n) {
  int64_t left = 8 * n;
  for (int64_t i = 1; i < n; i++) {
    const item v = a[i];
    int64_t k = i;
    for (; k > 0 && a[k - 1].sequence < v.sequence && left > 0; k--, left--) a[k] = a[k - 1];
    a[k] = v;
  }
  if (left > 0) return;
  for (int64_t i = n / 2; i-- > 0;) sift(a, i, n);
  for (int64_t k = n - 1; k > 0; k--) {
    const item least = a[0];
    a[0] = a[k];
    a[k] = least;
    sift(a, 0, k);
  }
}

/* ---- collecting -------------------------------------------------------------------- */

static int visit(walk *w, fl_node *n) {
  if (n->mark & VISITED) return 1;
  item *it = FL_PUSH(&w->c->mem, &w->order);
  if (!it) return 0;
  *it = (item){ .sequence = n->entry->sequence, .node = n, .late = -1 };
  fl_node_gref(n);
  n->mark |= VISITED;
  fl_node **top = FL_PUSH(&w->c->mem, &w->todo);
  if (!top) return 0;
  *top = n;
  return 1;
}

/* m is an input of n that does not count as tracked. If it lost its tracking (detach, no_grad, …),
** notes how, for the message that explains a missing gradient. */
static void note_cut(walk *w, const fl_node *n, const fl_node *m) {
  const uint32_t lost = m->entry ? fl_lost(FL_LOST_OP, n->entry->site, n->op)
                      : m->state == FL_FAILED ? 0 : m->lost;
  if (!lost || w->ncuts == FL_WALK_CUTS) return;
  for (int i = 0; i < w->ncuts; i++) if (w->cuts[i] == lost) return;
  w->cuts[w->ncuts++] = lost;
}

/* Are there targets, all at least as recent as e? Then the inputs of e are not needed. */
static int newer_targets(const walk *w, const fl_entry *e) {
  return w->targets.n > 0 && w->targets.at[0].sequence >= e->sequence;
}

static flame_status collect(walk *w, int nroots, fl_node *const *roots) {
  for (int r = 0; r < nroots; r++) if (!visit(w, roots[r])) return no_memory(w);
  while (w->todo.n) {
    fl_node *n = w->todo.at[--w->todo.n];
    if (ends(w, n->entry)) continue;
    if (n->entry->spent && newer_targets(w, n->entry)) continue;
    if (n->entry->spent) {
      char place[120];
      return FL_FAIL(w->c, FLAME_BAD_ARGUMENT, w->op,
                     "second backward: what this graph had saved is freed%s" FL_DO
                     "; pass {retain_graph = true} to the first",
                     fl_why_place(w->c, " by the first, at ",
                                  fl_walk_site(w->c, n->entry->walk >> 1), place));
    }
    for (int i = 0; i < n->nin; i++) {
      if (tracked_input(n, i) && !visit(w, n->in[i])) return no_memory(w);
      if (n->in[i] && !tracked_input(n, i)) note_cut(w, n, n->in[i]);
    }
  }
  sort_items(w->order.at, w->order.n);
  return FLAME_OK;
}

static flame_status add_targets(walk *w, int n, fl_node *const *wrt) {
  for (int i = 0; i < n; i++) {
    if (!wrt[i]->entry) continue;
    target *t = FL_PUSH(&w->c->mem, &w->targets);
    if (!t) return no_memory(w);
    int64_t k = w->targets.n - 1;
    const int64_t s = wrt[i]->entry->sequence;
    for (; k > 0 && w->targets.at[k - 1].sequence > s; k--)
      w->targets.at[k] = w->targets.at[k - 1];
    w->targets.at[k] = (target){ .sequence = s, .i = i, .reached = 0 };
  }
  return FLAME_OK;
}

/* If the entry with this sequence number is a target, notes that the graph reaches it. */
static int reach(walk *w, int64_t sequence) {
  const int64_t first = find_target(w, sequence);
  for (int64_t k = first; k < w->targets.n && w->targets.at[k].sequence == sequence; k++)
    w->targets.at[k].reached = 1;
  return first < w->targets.n;
}

/* Marks the needed items, from the oldest upwards: targets, and items with a needed input. */
static void prune(walk *w) {
  for (int64_t k = w->order.n; k-- > 0;) {
    item *it = &w->order.at[k];
    fl_node *n = it->node;
    int need = w->into_leaves ? wants_grad(n->entry) : reach(w, it->sequence);
    for (int i = 0; !ends(w, n->entry) && i < n->nin; i++) {
      if (!tracked_input(n, i) || !(n->in[i]->mark & NEEDED)) continue;
      it->wanted |= 1u << (i < 31 ? i : 31);
      need = 1;
    }
    it->needed = (uint8_t)need;
    if (need) n->mark |= NEEDED;
  }
}

static void clear_marks(walk *w) {
  for (int64_t k = 0; k < w->order.n; k++)
    w->order.at[k].node->mark &= (uint8_t)~(VISITED | NEEDED);
}

/* ---- walking ----------------------------------------------------------------------- */

/* Adds g to the targets whose entry has this sequence number. */
static int add_to_targets(walk *w, int64_t sequence, fl_node *g) {
  for (int64_t k = find_target(w, sequence); k < w->targets.n; k++) {
    if (w->targets.at[k].sequence != sequence) break;
    if (!add_into(&w->out[w->targets.at[k].i], g)) return 0;
  }
  return 1;
}

/* Passes a cotangent to n: adds it to the sum that waits in n->grad or, if n was recorded before
** the part that is walked, to the results of those targets whose value is n. */
static int bring(walk *w, fl_node *n, fl_node *g) {
  return outside(w, n->entry) ? add_to_targets(w, n->entry->sequence, g) : add_into(&n->grad, g);
}

/* Undoes broadcasting and promotion for the cotangent g of one input, and adds it to that input's
** sum. */
static int pass_down(walk *w, fl_node *in, fl_node *g) {
  const int late = fl_late_rows(w, in, g);
  if (late) return late > 0;
  g = n_cast(fl_sum_to(g, in->shape), in->dtype);
  return g && bring(w, in, g);
}

static flame_status arrive(walk *w, item *it, fl_node *g) {
  const fl_entry *e = it->node->entry;
  if (w->into_leaves && wants_grad(e)) {
    arrival *a = FL_PUSH(&w->c->mem, &w->leaves);
    if (!a) return no_memory(w);
    *a = (arrival){ it->node, g };
    fl_node_hold(g);
  }
  return add_to_targets(w, it->sequence, g) ? FLAME_OK : w->c->err.code;
}

/* Fails if a function of the script has freed the graph that is being walked, or a part of it. */
static flame_status graph_is_there(walk *w, const fl_node *n) {
  if (n->entry && !n->entry->spent) return FLAME_OK;
  return FL_FAIL(w->c, FLAME_BAD_ARGUMENT, w->op, "second backward: a hook freed this graph");
}

static flame_status run_rule(walk *w, item *it, fl_node *g) {
  flame_context *c = w->c;
  fl_node *n = it->node, *few[8] = { NULL }, **gin = few;
  const int nin = n->nin;
  flame_status e = graph_is_there(w, n);
  if (e != FLAME_OK) return e;
  if (nin > 8 && !(gin = fl_alloc(&c->mem, (size_t)nin * sizeof *gin)))
    return no_memory(w);
  const int slice = fl_late_slice(w, it, g), late = slice ? slice : fl_late_factor(w, it, g);
  c->wanted = it->wanted;
  if (slice > 0) gin[0] = NULL;
  else if (late == 0) e = fl_rule(n, g, gin);
  else if (late > 0) fl_product_rule(n, g, gin);
  if (late && c->err.code != FLAME_OK) e = c->err.code;
  else if (late < 0) e = FLAME_INTERNAL;
  if (e == FLAME_OK) e = graph_is_there(w, n);
  for (int i = 0; e == FLAME_OK && i < nin; i++) {
    if (!gin[i] || !(it->wanted >> (i < 31 ? i : 31) & 1) || !tracked_input(n, i))
      continue;
    if (!pass_down(w, n->in[i], gin[i])) e = c->err.code ? c->err.code : FLAME_INTERNAL;
  }
  if (gin != few) fl_free(&c->mem, gin, (size_t)nin * sizeof *gin);
  it->done = 1;
  return e;
}

/* Runs the rule of one item with its complete cotangent. */
static flame_status step(walk *w, item *it) {
  flame_context *c = w->c;
  fl_node *n = it->node, *g = n->grad;
  n->grad = NULL;
  const int64_t mark = fl_scope_begin(c);
  const int leaf = n->entry->leaf;
  flame_status e = FLAME_OK;
  c->site = n->entry->site;
  c->back = n->entry->custom ? FL_BACK_CUSTOM : (uint8_t)(1 + n->op);
  if (n->entry->hooks && c->up && c->up->run_hooks) {
    fl_node *changed = g;
    e = c->up->run_hooks(c, n->entry->hooks, &changed);
    if (e == FLAME_OK && changed && changed->shape != n->shape)
      e = FL_FAIL(c, FLAME_BAD_ARGUMENT, "register_hook",
                  "the hook returned a gradient of another shape");
    if (e == FLAME_OK && changed && changed != g) {
      fl_node_hold(changed);
      fl_node_drop(g);
      g = changed;
    }
  }
  assert(c->up || !c->watched);
  if (e == FLAME_OK && c->watched) e = c->up->walked(c, n, g);
  if (e == FLAME_OK && n->entry) e = arrive(w, it, g);     /* no entry: a hook untracked the leaf */
  if (e == FLAME_OK && !leaf && it->wanted) e = run_rule(w, it, g);
  if (e == FLAME_OK && c->anomaly && c->up && c->up->anomaly) e = c->up->anomaly(c, mark);
  fl_scope_end(c, mark);
  fl_node_drop(g);
  return e;
}

static flame_status descend(walk *w) {
  flame_context *c = w->c;
  const uint32_t site = c->site;
  const uint8_t mode = c->grad_mode, back = c->back;
  flame_status e = FLAME_OK;
  c->grad_mode = (uint8_t)(w->how.create_graph != 0);
  for (int64_t k = 0; e == FLAME_OK && k < w->order.n; k++) {
    item *it = &w->order.at[k];
    const fl_node *n = it->node;
    if (it->late >= 0 && !fl_late_join(w, it)) e = c->err.code ? c->err.code : FLAME_INTERNAL;
    const int has = e == FLAME_OK && it->needed && n->grad && n->entry;
    if (has && !outside(w, n->entry)) e = step(w, it);
  }
  c->grad_mode = mode;
  c->back = back;
  c->site = site;
  return e;
}

/* ---- begin and end ----------------------------------------------------------------- */

/* The cotangent of a root: the seed, or 1 if the root has a single element. */
static flame_status seed_root(walk *w, fl_node *root, fl_node *seed) {
  char a[192], b[192], why[FL_WHY_TEXT];
  flame_context *c = w->c;
  const fl_layout *s = root->shape;
  if (!root->entry)
    return FL_FAIL(c, FLAME_BAD_ARGUMENT, w->op, "the tensor is not tracked: %s",
                   fl_why_untracked(root, why));
  if (!seed && s->numel != 1)
    return FL_FAIL(c, FLAME_BAD_ARGUMENT, w->op,
                   "the tensor has shape %s, not one element" FL_DO ": reduce it, as x:sum(), or "
                   "pass a seed of its shape",
                   fl_shape_text(a, s->rank, s->size));
  if (seed && seed->state == FL_NUMBER)
    seed = n_fill(
        c, root->dtype, root->device, 0, NULL,
        (fl_scalar){ .d = seed->isint ? (double)seed->scal[0].i : seed->scal[0].d });
  if (seed && seed->shape != s && seed->shape->numel == 1 && s->numel == 1)
    seed = n_reshape(seed, s->rank, s->size);
  if (seed && seed->shape != s)
    return FL_FAIL(c, FLAME_BAD_ARGUMENT, w->op,
                   "the seed has shape %s and the tensor %s",
                   fl_shape_text(a, seed->shape->rank, seed->shape->size),
                   fl_shape_text(b, s->rank, s->size));
  if (seed && seed->device != root->device)
    return FL_FAIL(c, FLAME_BAD_ARGUMENT, w->op,
                   "the seed is on another device" FL_DO "; use seed:to(x.device)");
  fl_node *g = seed ? n_cast(seed, root->dtype)
                    : n_fill(c, root->dtype, root->device, s->rank, s->size,
                             (fl_scalar){ .d = 1 });
  if (!g || !bring(w, root, g)) return c->err.code;
  return FLAME_OK;
}

/* For how.strict: fails, before any rule has run, if an input is not tracked or is not reached from
** the roots. */
static flame_status all_reached(const walk *w, int n, fl_node *const *wrt) {
  char why[FL_WHY_TEXT];
  int missing = n;
  for (int i = 0; i < n; i++) if (!wrt[i]->entry && i < missing) missing = i;
  for (int64_t k = 0; k < w->targets.n; k++)
    if (!w->targets.at[k].reached && w->targets.at[k].i < missing) missing = w->targets.at[k].i;
  if (missing == n) return FLAME_OK;
  assert(wrt);
  if (!wrt[missing]->entry)
    return FL_FAIL(w->c, FLAME_BAD_ARGUMENT, w->op, "input %d is not tracked: %s" FL_DO
                   "; make it with requires_grad", missing + 1,
                   fl_why_untracked(wrt[missing], why));
  return FL_FAIL(w->c, FLAME_BAD_ARGUMENT, w->op, "input %d is not on a path to the result: %s"
                 FL_DO "; allow_unused = true skips it", missing + 1,
                 fl_why_unreached(w->c, wrt[missing]->entry, w->ncuts, w->cuts, why));
}

static flame_status begin(walk *w, int nroots, fl_node *const *roots, fl_node *const *seeds,
                          int n, fl_node *const *wrt) {
  fl_walked *past = &w->c->walked;
  w->number = ++past->walks & 0x7fffffff;
  past->sites[w->number % FL_WALK_SITES] = w->c->site;
  for (int r = 0; r < nroots; r++)
    if (!roots[r]->entry) return seed_root(w, roots[r], NULL);
  flame_status e = collect(w, nroots, roots);
  if (e == FLAME_OK) prune(w);
  clear_marks(w);
  if (e == FLAME_OK && w->how.strict) e = all_reached(w, n, wrt);
  const uint8_t mode = w->c->grad_mode;
  w->c->grad_mode = (uint8_t)(w->how.create_graph != 0);
  for (int r = 0; e == FLAME_OK && r < nroots; r++)
    e = seed_root(w, roots[r], seeds ? seeds[r] : NULL);
  w->c->grad_mode = mode;
  return e;
}

/* Frees the walk. On success, unless the graph is to be kept, frees the entries that were
** walked. */
static void end(walk *w, flame_status e) {
  flame_context *c = w->c;
  c->walking--;
  const int spend = e == FLAME_OK && !w->how.retain_graph && !w->how.create_graph;
  for (int64_t k = 0; k < w->order.n; k++) {
    fl_node *n = w->order.at[k].node;
    if (n->grad && w->order.at[k].sequence >= w->how.since) {
      fl_node_drop(n->grad);
      n->grad = NULL;
    }
    if (spend && w->order.at[k].done) {
      fl_entry_spend(n);
      if (n->entry && n->entry->spent) n->entry->walk = w->number << 1;
    }
    fl_node_ungref(n);
  }
  for (int64_t k = 0; k < w->leaves.n; k++) fl_node_drop(w->leaves.at[k].g);
  fl_late_close(w);
  keep_lists(w);
}

/* Hands the reference that this function's caller holds on n to the innermost scope, which drops it
** at its end. Returns n. */
static fl_node *lend(flame_context *c, fl_node *n) {
  if (!n) return NULL;
  fl_node **slot = FL_PUSH(&c->mem, &c->borrowed);
  if (slot) *slot = n; else fl_node_drop(n);
  return slot ? n : NULL;
}

flame_status fl_gradients(flame_context *c, int nroots, fl_node *const *roots,
                          fl_node *const *seeds, int n, fl_node *const *wrt,
                          fl_node **out, fl_backward how) {
  walk w = { .c = c, .op = "gradients", .out = out, .how = how };
  take_lists(&w);
  for (int i = 0; i < n; i++) out[i] = NULL;
  flame_status e = add_targets(&w, n, wrt);
  if (e == FLAME_OK) e = begin(&w, nroots, roots, seeds, n, wrt);
  if (e == FLAME_OK) e = descend(&w);
  end(&w, e);
  for (int i = 0; i < n; i++) {
    const int had = out[i] != NULL;
    out[i] = lend(c, out[i]);
    if (had && !out[i] && e == FLAME_OK)
      e = FL_FAIL(c, FLAME_NO_MEMORY, "gradients", "host memory is out");
  }
  for (int i = 0; e != FLAME_OK && i < n; i++) out[i] = NULL;
  return e;
}

flame_status fl_cut(flame_context *c, int nroots, fl_node *const *roots, int64_t since,
                    fl_nodes *out) {
  walk w = { .c = c, .op = "checkpoint", .how = { .since = since } };
  take_lists(&w);
  flame_status e = FLAME_OK;
  for (int r = 0; e == FLAME_OK && r < nroots; r++)
    if (roots[r]->entry) e = collect(&w, 1, &roots[r]);
  clear_marks(&w);
  for (int64_t k = 0; e == FLAME_OK && k < w.order.n; k++) {
    item *it = &w.order.at[k];
    it->done = it->sequence >= since;
    if (it->done) continue;
    fl_node **slot = FL_PUSH(&c->mem, out);
    if (slot) fl_node_hold(it->node);
    if (!slot || !(*slot = lend(c, it->node))) e = no_memory(&w);
  }
  end(&w, e);
  return e;
}

/* ---- into leaves ------------------------------------------------------------------- */

/* The gradient as a handle may have it: in its own memory of exactly its size, not as a part of a
** larger buffer. */
static fl_node *own_value(fl_node *g) {
  const int piece = g->base && g->base->shape->numel != g->shape->numel;
  return piece ? n_copy(g) : n_contiguous(g);
}

static flame_status deliver(flame_context *c, flame_tensor *h, fl_node *g) {
  if (!h || h->closed || !h->node) return FLAME_OK; /* no handle can read the gradient any more */
  if (h->grad) {
    fl_node *sum = h->grad->node ? n_add(h->grad->node, g) : NULL;
    const uint8_t used = h->grad->used;
    const flame_status e = sum ? fl_tensor_write(h->grad, sum, "backward") : FLAME_OK;
    if (sum && e == FLAME_OK) h->grad->used = used ? used | FL_GRAD_ADDED : 0;
    if (sum) return e;
    if (h->grad->node) return c->err.code;
  }
  flame_tensor *t = fl_tensor_new(c, own_value(g));
  if (!t)
    return c->err.code ? c->err.code
                       : FL_FAIL(c, FLAME_NO_MEMORY, "backward", "host memory is out");
  fl_tensor_set_grad(h, t);
  fl_tensor_release(t);
  return FLAME_OK;
}

/* Records, after a successful backward, which leaves it reached and which of them received a
** gradient. */
static void note_walk(walk *w, int64_t sequence) {
  fl_walked *past = &w->c->walked;
  for (int64_t k = 0; k < w->order.n; k++) {
    fl_entry *e = w->order.at[k].node->entry;
    if (e && wants_grad(e)) e->walk = w->number << 1;
  }
  for (int64_t k = 0; k < w->leaves.n; k++)
    if (w->leaves.at[k].node->entry) w->leaves.at[k].node->entry->walk |= 1;
  past->number = w->number;
  past->sequence = sequence;
  past->ncuts = w->ncuts;
  memcpy(past->cuts, w->cuts, sizeof past->cuts);
}

flame_status fl_backward_into_leaves(flame_tensor *root, flame_tensor *seed,
                                     fl_backward how) {
  flame_context *c = root->ctx;
  if (!fl_tensor_open(root, "backward") || (seed && !fl_tensor_open(seed, "backward")))
    return c->err.code;
  const int64_t mark = fl_scope_begin(c);
  walk w = { .c = c, .op = "backward", .into_leaves = 1, .how = how };
  fl_node *r = root->node, *s = seed ? seed->node : NULL;
  const int64_t sequence = c->sequence;
  take_lists(&w);
  fl_node_hold(r);                       /* a hook may close the handle */
  flame_status e = begin(&w, 1, &r, &s, 0, NULL);
  if (e == FLAME_OK) e = descend(&w);
  const uint8_t mode = c->grad_mode;
  c->grad_mode = (uint8_t)(how.create_graph != 0);
  for (int64_t k = 0; e == FLAME_OK && k < w.leaves.n; k++) {
    fl_entry *entry = w.leaves.at[k].node->entry;
    e = deliver(c, entry ? entry->handle : NULL, w.leaves.at[k].g);
  }
  c->grad_mode = mode;
  if (e == FLAME_OK) note_walk(&w, sequence);
  end(&w, e);
  fl_node_drop(r);
  fl_scope_end(c, mark);
  return e;
}

flame_status flame_backward(flame_tensor *x, flame_tensor *seed) {
  FL_HOLD(x ? x->ctx : NULL, FLAME_BAD_ARGUMENT);
  flame_context *c = x->ctx;
  FL_ENTER(c);
  const flame_status e = fl_backward_into_leaves(x, seed, (fl_backward){ 0 });
  FL_LEAVE(c);
  return e;
}
