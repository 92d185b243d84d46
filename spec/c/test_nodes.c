/*
** Layouts, nodes, entries, handles and writes, over a fake engine: device memory is host
** memory, evaluating stores every root. Every test opens its own context and closes it, and the
** accounting must be back at zero: that is the leak check.
*/
#include "tensor/build.h"
#include "tensor/entry.h"
#include "tensor/tensor.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int passed, failed;
static const char *now;

#define CHECK(x) check((x) != 0, #x, __LINE__)
static void check(int ok, const char *text, int line) {
  if (ok) passed++; else failed++;
  if (!ok) printf("test_nodes.c:%d: %s: %s\n", line, now, text);
}

/* ---- the fake engine --------------------------------------------------------------- */

static int64_t device_live;
static int evaluations;
static flame_status evaluate_answer;

static void *device_alloc(flame_context *c, int device, int64_t bytes) {
  (void)device;
  void *p = fl_alloc(&c->mem, (size_t)bytes);
  if (p) device_live += bytes;
  return p;
}

static void device_free(flame_context *c, int device, void *p, int64_t bytes) {
  (void)device;
  device_live -= bytes;
  fl_free(&c->mem, p, (size_t)bytes);
}

static int is_root(const fl_node *n) {
  return n->held > 0 || (n->grefs > 0 && n->entry && n->entry->reads_out);
}

static int store(fl_node *n) {
  flame_context *c = n->ctx;
  if (n->base) {
    if (n->base->state != FL_STORED) return 1;
    fl_node_store(n, fl_buffer_retain(n->base->buffer), n->base->offset);
    return 1;
  }
  const int64_t bytes = n->shape->numel * fl_dtype_size(n->dtype);
  fl_buffer *b = n->home ? fl_buffer_retain(n->home) : fl_buffer_new(c, n->device, bytes);
  if (b) fl_node_store(n, b, 0);
  return b != NULL;
}

static flame_status evaluate_all(flame_context *c) {
  evaluations++;
  if (evaluate_answer != FLAME_OK) return FL_FAIL(c, evaluate_answer, "eval", "planned");
  for (int pass = 0; pass < 2; pass++) {            /* bases, then views */
    for (int64_t i = 0; i < c->win.nodes.n; i++) {
      fl_node *n = c->win.nodes.at[i];
      if (n && (pass ? n->base != NULL : is_root(n) || n->op != FL_OP_view))
        if (!(n->base && !pass) && !store(n)) return c->err.code;
    }
  }
  return FLAME_OK;
}

static flame_status evaluate(flame_context *c, fl_node *n) {
  (void)n;
  return evaluate_all(c);
}

static const fl_upcalls up = {.evaluate = evaluate, .evaluate_all = evaluate_all,
                              .device_alloc = device_alloc, .device_free = device_free};

static int open_into(flame_context *c) {
  memset(c, 0, sizeof *c);
  c->up = &up;
  c->budget = INT64_MAX;
  c->grad_mode = 1;
  evaluate_answer = FLAME_OK;
  device_live = 0;
  evaluations = 0;
  return fl_tensor_init(c);
}

static void close_and_count(flame_context *c) {
  CHECK(fl_tensor_close(c));
  CHECK(c->mem.live_blocks == 0 && c->mem.live_bytes == 0);
  CHECK(device_live == 0 && c->live_bytes[0] == 0);
}

/* ---- makers ------------------------------------------------------------------------ */

static fl_layout *shape2(flame_context *c, int64_t rows, int64_t cols) {
  return fl_layout_of(&c->layouts, 2, (int64_t[]){rows, cols}, NULL);
}

static fl_node *data(flame_context *c, int64_t rows, int64_t cols) {
  return fl_node_stored(c, FLAME_F32, fl_buffer_new(c, 0, rows * cols * 4),
                        shape2(c, rows, cols), 0);
}

static fl_node *record(int op, fl_node *a, fl_node *b) {
  fl_node *const in[2] = {a, b};
  if (!a) return NULL;
  fl_node *n = fl_node_new(a->ctx, op, a->dtype, a->device, fl_layout_retain(a->shape),
                           b ? 2 : 1, in);
  return n && fl_entry_attach(n) ? n : NULL;
}

static fl_node *transposed(fl_node *x, int track) {
  flame_context *c = x->ctx;
  const fl_layout *l = x->layout;
  fl_attr how = {.view = FL_VIEW_PERMUTE, .perm = {1, 0}};
  return fl_node_view(x, shape2(c, l->size[1], l->size[0]),
                      fl_layout_of(&c->layouts, 2, (int64_t[]){l->size[1], l->size[0]},
                                   (int64_t[]){l->stride[1], l->stride[0]}),
                      x->offset, &how, track);
}

/* ---- layouts ----------------------------------------------------------------------- */

static void equal_layouts_are_one_pointer(flame_context *c) {
  fl_layouts *t = &c->layouts;
  fl_layout *a = shape2(c, 3, 4);
  fl_layout *b = fl_layout_of(t, 2, (int64_t[]){3, 4}, (int64_t[]){4, 1});
  fl_layout *d = fl_layout_of(t, 2, (int64_t[]){3, 4}, (int64_t[]){1, 3});
  CHECK(a == b && a->contiguous && a->numel == 12);
  CHECK(d != a && !d->contiguous);
  fl_layout *e = fl_layout_of(t, 2, (int64_t[]){1, 4}, (int64_t[]){-7, 1});
  fl_layout *f = shape2(c, 1, 4);
  CHECK(e == f);                                        /* a size-1 axis has no stride */
  fl_layout *g = fl_layout_of(t, 2, (int64_t[]){0, 4}, (int64_t[]){9, 9});
  fl_layout *h = shape2(c, 0, 4);
  CHECK(g == h && g->numel == 0);
  fl_layout *all[] = {a, b, d, e, f, g, h};
  for (int i = 0; i < 7; i++) fl_layout_release(t, all[i]);
  CHECK(t->n == 1);                                     /* the 0-d one of the context */
  fl_layout *many[1000];
  for (int i = 0; i < 1000; i++) many[i] = shape2(c, i, 2);
  for (int i = 0; i < 1000; i++) CHECK(many[i]->size[0] == i);
  for (int i = 0; i < 1000; i++) fl_layout_release(t, many[i]);
  CHECK(t->n == 1);
}

static void sizes_are_checked_for_overflow(flame_context *c) {
  char buf[192];
  const int64_t big = INT64_MAX / 2;
  (void)c;
  CHECK(fl_numel(0, NULL) == 1);
  CHECK(fl_numel(2, (int64_t[]){big, 4}) == -1);
  CHECK(fl_numel(3, (int64_t[]){2, big, 0}) == -1);      /* its strides could not be told */
  CHECK(fl_numel(3, (int64_t[]){2, 0, 3}) == 0);
  CHECK(fl_numel(2, (int64_t[]){1 << 20, 1 << 20}) == (int64_t)1 << 40);
  CHECK(!strcmp(fl_shape_text(buf, 2, (int64_t[]){2, 3}), "(2, 3)"));
  CHECK(!strcmp(fl_shape_text(buf, 0, NULL), "()"));
  int64_t wide[8];
  for (int i = 0; i < 8; i++) wide[i] = INT64_MAX;
  CHECK(strlen(fl_shape_text(buf, 8, wide)) < 192);
}

/* Every way to cut 24 elements, against walking the elements. */
static int64_t element(int rank, const int64_t *size, const int64_t *stride, int64_t i) {
  int64_t at = 0;
  for (int k = rank - 1; k >= 0; k--) {
    at += i % size[k] * stride[k];
    i /= size[k];
  }
  return at;
}

static const int64_t cuts[][4] = {
  {24, 1, 1, 1}, {2, 12, 1, 1}, {2, 3, 4, 1}, {4, 3, 2, 1},
  {6, 1, 4, 1},  {1, 8, 3, 1},  {2, 2, 2, 3}, {3, 2, 2, 2},
};

static void reshapes_of_strided_arrays_walk_the_same_elements(flame_context *c) {
  static const int64_t strides[][3] = {{12, 4, 1}, {1, 2, 6}, {-12, 4, 1}, {24, 8, 2},
                                       {0, 4, 1},  {4, 0, 1}, {0, 0, 0}, {12, -4, -1}};
  const int64_t size[] = {2, 3, 4};
  int possible = 0;
  (void)c;
  for (int s = 0; s < 8; s++) {
    for (int k = 0; k < 8; k++) {
      int64_t out[4];
      if (!fl_view_strides(3, size, strides[s], 4, cuts[k], out)) continue;
      possible++;
      for (int64_t i = 0; i < 24; i++)
        CHECK(element(4, cuts[k], out, i) == element(3, size, strides[s], i));
    }
  }
  CHECK(possible > 20);
  int64_t out[4];
  const int64_t square[] = {3, 4}, turned[] = {1, 3}, flat[] = {12};
  CHECK(!fl_view_strides(2, square, turned, 1, flat, out));
}

static uint32_t draw(uint32_t *s) { return *s = *s * 1664525u + 1013904223u, *s >> 16; }

/* A random view of a row-major array: sliced, flipped and permuted. */
static int64_t random_view(uint32_t *s, int rank, const int64_t *size, int64_t *vsize,
                           int64_t *vstride) {
  int64_t row[4], offset = 0;
  fl_row_major(rank, size, row);
  for (int k = 0; k < rank; k++) {
    const int64_t n = 1 + draw(s) % size[k], first = draw(s) % (size[k] - n + 1);
    const int flip = draw(s) % 3 == 0;
    vsize[k] = n;
    vstride[k] = flip ? -row[k] : row[k];
    offset += row[k] * (flip ? first + n - 1 : first);
  }
  const int a = draw(s) % rank, b = draw(s) % rank;
  const int64_t t = vsize[a], u = vstride[a];
  vsize[a] = vsize[b], vstride[a] = vstride[b];
  vsize[b] = t, vstride[b] = u;
  return offset;
}

static void composed_maps_are_right_or_refused(flame_context *c) {
  uint32_t seed = 42;
  int strided = 0, refused = 0;
  (void)c;
  for (int round = 0; round < 4000; round++) {
    int64_t p[3], q[3], vs[3], vt[3], out[3], off = 0, cut[4], ct[4], co[4], coff = 0;
    for (int k = 0; k < 3; k++) p[k] = 1 + draw(&seed) % 4;
    for (int k = 0; k < 3; k++) q[k] = (int64_t)(draw(&seed) % 5) - 1;
    const int64_t vo = random_view(&seed, 3, p, vs, vt), n = fl_numel(3, vs);
    CHECK(fl_map_compose(3, p, q, 3, vs, vt, vo, out, &off));  /* by axes: always */
    for (int64_t i = 0; i < n; i++)
      CHECK(off + element(3, vs, out, i) == element(3, p, q, vo + element(3, vs, vt, i)));
    memcpy(cut, cuts[draw(&seed) % 8], sizeof cut);
    fl_row_major(4, cut, ct);
    const int64_t whole[3] = {2, 3, 4};
    if (!fl_map_compose(3, whole, q, 4, cut, ct, 0, co, &coff)) {
      refused++;
      continue;
    }
    strided++;
    for (int64_t i = 0; i < 24; i++)
      CHECK(coff + element(4, cut, co, i) == element(3, whole, q, i));
  }
  CHECK(strided > 500 && refused > 500);
}

/* ---- nodes ------------------------------------------------------------------------- */

static void dead_code_leaves_the_window(flame_context *c) {
  FL_ENTER(c);
  fl_node *x = data(c, 2, 3);
  record(FL_OP_exp, x, NULL);
  fl_node *b = record(FL_OP_neg, x, NULL), *d = record(FL_OP_add, b, b);
  CHECK(c->win.live == 3 && x->uses == 2 && b->uses == 2 && c->win.bytes == 72);
  flame_tensor *t = fl_tensor_new(c, d);
  FL_LEAVE(c);
  CHECK(c->win.live == 2 && c->win.bytes == 48);       /* exp went, neg is used */
  CHECK(x->held == 0 && x->uses == 1 && x->state == FL_STORED);
  flame_free(t);
  CHECK(c->win.live == 0 && c->nodes.live == 0 && c->win.bytes == 0);
}

static void stored_values_give_their_inputs_back(flame_context *c) {
  FL_ENTER(c);
  fl_node *x = data(c, 2, 3), *y = record(FL_OP_exp, x, NULL);
  flame_tensor *t = fl_tensor_new(c, y);
  FL_LEAVE(c);
  CHECK(evaluate_all(c) == FLAME_OK);
  CHECK(y->state == FL_STORED && y->nin == 0);
  CHECK(c->nodes.live == 1 && c->buffers.live == 1);
  CHECK(c->win.live == 0 && c->win.nodes.n == 0);
  flame_free(t);
}

static void long_chains_fall_without_recursion(flame_context *c) {
  const int n = 1000000;
  FL_ENTER(c);
  fl_node *x = data(c, 1, 4);
  CHECK(fl_entry_leaf(x, NULL));
  for (int i = 0; i < n; i++) x = record(FL_OP_exp, x, NULL);
  CHECK(c->entries.live == n + 1 && c->win.live == n);
  flame_tensor *t = fl_tensor_new(c, x);
  FL_LEAVE(c);
  CHECK(c->win.live == n);                             /* exp's rule reads its result */
  flame_free(t);
  CHECK(c->nodes.live == 0 && c->entries.live == 0);
}

static void untracked_views_share_one_base(flame_context *c) {
  FL_ENTER(c);
  fl_node *x = data(c, 2, 3), *y = record(FL_OP_exp, x, NULL);
  fl_node *v = transposed(y, 1), *w = transposed(v, 1);
  CHECK(v->base == y && w->base == y && y->uses == 2 && v->uses == 0);
  CHECK(w->layout == y->layout && w->in[0] == y && c->win.bytes == 24);
  flame_tensor *t = fl_tensor_new_view(c, w, "t");
  FL_LEAVE(c);
  CHECK(c->win.live == 2 && y->uses == 1);             /* the first view is gone */
  CHECK(evaluate_all(c) == FLAME_OK);
  CHECK(w->state == FL_STORED && w->buffer && w->base == NULL && c->nodes.live == 1);
  const int64_t mark = fl_enter(c);
  fl_node *u = transposed(w, 1);
  CHECK(u->state == FL_STORED && u->buffer == w->buffer && u->layout->stride[0] == 1);
  fl_scope_end(c, mark);
  flame_free(t);
  CHECK(c->buffers.live == 0);
}

static void tracked_views_keep_their_parent_for_the_gradient(flame_context *c) {
  FL_ENTER(c);
  fl_node *x = data(c, 2, 3);
  CHECK(fl_entry_leaf(x, NULL));
  fl_node *y = record(FL_OP_neg, x, NULL), *v = transposed(y, 1), *w = transposed(v, 1);
  CHECK(v->entry && w->entry && w->in[0] == v && w->base == y && v->grefs == 1);
  fl_node *d = transposed(v, 0);
  CHECK(!d->entry && d->in[0] == y);
  flame_tensor *t = fl_tensor_new_view(c, w, "t");
  FL_LEAVE(c);
  CHECK(v->state == FL_DROPPED && v->shape->size[0] == 3 && w->in[0] == v);
  fl_entry_drop(w);
  CHECK(!w->entry && w->in[0] == y && c->entries.live == 2);   /* of y and x */
  flame_free(t);
}

static void passed_nodes_outlive_the_inner_scope(flame_context *c) {
  FL_ENTER(c);
  fl_node *x = data(c, 2, 3);
  const int64_t mark = fl_scope_begin(c);
  fl_node *a = record(FL_OP_exp, x, NULL);
  fl_node *b = fl_scope_pass(c, mark, record(FL_OP_neg, a, NULL));
  record(FL_OP_exp, b, NULL);
  CHECK(fl_scope_pass(c, mark, x) == x && fl_scope_pass(c, mark, NULL) == NULL);
  fl_scope_end(c, mark);
  CHECK(b->held == 1 && b->state == FL_PENDING && a->held == 0 && c->win.live == 2);
  CHECK(c->borrowed.n == 2);
  FL_LEAVE(c);
  CHECK(c->nodes.live == 0);
}

static void reading_a_failed_value_repeats_its_message(flame_context *c) {
  FL_ENTER(c);
  c->site = 7;
  fl_node *x = data(c, 2, 3), *y = record(FL_OP_exp, x, NULL);
  c->site = 8;
  fl_node_fail(y, "take: index 9 at position 1", 0);
  CHECK(y->state == FL_FAILED && c->win.live == 0);
  CHECK(record(FL_OP_neg, y, NULL) == NULL && transposed(y, 1) == NULL);
  CHECK(flame_error_code(c) == FLAME_BAD_VALUE && c->err.site == 7);
  CHECK(!strcmp(flame_error(c), "take: index 9 at position 1"));
  FL_LEAVE(c);
  flame_clear_error(c);
  CHECK(!strcmp(flame_error(c), ""));
}

static void a_full_window_is_run_on_entry(flame_context *c) {
  c->budget = 2;
  FL_ENTER(c);
  fl_node *x = data(c, 2, 3);
  flame_tensor *a = fl_tensor_new(c, record(FL_OP_exp, x, NULL));
  FL_LEAVE(c);
  fl_scope_end(c, fl_enter(c));
  CHECK(evaluations == 0);
  const int64_t mark = fl_enter(c);
  flame_tensor *b = fl_tensor_new(c, record(FL_OP_exp, a->node, NULL));
  fl_scope_end(c, mark);
  evaluate_answer = FLAME_NO_MEMORY;
  fl_scope_end(c, fl_enter(c));
  CHECK(evaluations == 1 && flame_error_code(c) == FLAME_OK);   /* told by the read */
  evaluate_answer = FLAME_INTERRUPTED;
  const int64_t again = fl_enter(c);
  CHECK(record(FL_OP_exp, b->node, NULL) == NULL);
  CHECK(flame_error_code(c) == FLAME_INTERRUPTED);
  fl_scope_end(c, again);
  flame_clear_error(c);
  evaluate_answer = FLAME_OK;
  fl_scope_end(c, fl_enter(c));
  CHECK(c->win.live == 0 && a->node->state == FL_STORED && b->node->state == FL_STORED);
  flame_free(a);
  flame_free(b);
}

static void holes_are_reused_by_compaction(flame_context *c) {
  FL_ENTER(c);
  fl_node *x = data(c, 1, 1);
  flame_tensor *kept[10];
  for (int i = 0; i < 100000; i++) {
    const int64_t mark = fl_scope_begin(c);
    fl_node *n = record(FL_OP_exp, x, NULL);
    if (i % 10000 == 0) kept[i / 10000] = fl_tensor_new(c, n);
    record(FL_OP_exp, x, NULL);
    fl_scope_end(c, mark);
  }
  CHECK(c->win.live == 10 && c->win.nodes.cap < 1000);
  fl_window_compact(c);
  CHECK(c->win.nodes.n == 10);
  for (int i = 0; i < 10; i++) CHECK(kept[i]->node->index == i);
  for (int i = 0; i < 10; i++) flame_free(kept[i]);
  FL_LEAVE(c);
}

static int released;
static void release(void *p, void *arg) {
  (void)p;
  released += *(int *)arg;
}

static void host_memory_is_released_once(flame_context *c) {
  static int one = 1;
  float memory[6] = {0};
  released = 0;
  FL_ENTER(c);
  fl_buffer *b = fl_buffer_foreign(c, memory, sizeof memory, release, &one);
  fl_node *x = fl_node_stored(c, FLAME_F32, b, shape2(c, 2, 3), 0);
  flame_tensor *t = fl_tensor_new(c, x);
  flame_tensor *u = fl_tensor_new_view(c, transposed(x, 1), "t");
  FL_LEAVE(c);
  flame_free(t);
  CHECK(released == 0);
  flame_free(u);
  CHECK(released == 1 && c->live_bytes[0] == 0);
}

/* ---- entries ----------------------------------------------------------------------- */

static void entries_save_only_what_the_rule_reads(flame_context *c) {
  CHECK(fl_rule_reads(FL_OP_add) == 0 && fl_rule_reads(FL_OP_neg) == 0);
  CHECK(fl_rule_reads(FL_OP_exp) == 0x80 && fl_rule_reads(FL_OP_log) == 1);
  CHECK(fl_rule_reads(FL_OP_mul) == 3 && fl_rule_reads(FL_OP_div) == (0x80 | 2));
  CHECK(fl_rule_reads(FL_OP_sum) == 0 && fl_rule_reads(FL_OP_amax) == (0x80 | 1));
  CHECK(fl_rule_reads(FL_OP_where) == 1 && fl_rule_reads(FL_OP_matmul) == 3);
  CHECK(fl_rule_reads(FL_OP_gather) == 2 && fl_rule_reads(FL_OP_view) == 0);
  CHECK(fl_rule_reads(FL_OP_trigamma) == 1 && fl_rule_reads(FL_OP_floor) == 0);
  CHECK(fl_rule_reads(FL_OP_clamp) == 7 && fl_rule_reads(FL_OP_maximum) == (0x80 | 3));
  FL_ENTER(c);
  fl_node *w = data(c, 2, 3), *x = data(c, 2, 3);
  CHECK(fl_entry_leaf(w, NULL));
  fl_node *y = record(FL_OP_mul, w, x);
  CHECK(y->entry && y->entry->saved == 2 && y->entry->tracked == 1);
  CHECK(w->held == 1 && x->held == 2 && w->grefs == 1 && x->grefs == 1);
  CHECK(!record(FL_OP_floor, w, NULL)->entry && !record(FL_OP_mul, x, x)->entry);
  flame_grad_mode(c, 0);
  CHECK(!record(FL_OP_mul, w, x)->entry);
  CHECK(flame_grad_mode(c, 1) == 0);
  FL_LEAVE(c);
}

static void a_value_lives_while_its_rule_reads_it(flame_context *c) {
  FL_ENTER(c);
  fl_node *x = data(c, 2, 3);
  CHECK(fl_entry_leaf(x, NULL));
  fl_node *a = record(FL_OP_exp, x, NULL), *b = record(FL_OP_neg, a, NULL);
  fl_node *d = record(FL_OP_neg, b, NULL);
  flame_tensor *t = fl_tensor_new(c, d);
  FL_LEAVE(c);
  CHECK(evaluate_all(c) == FLAME_OK);
  CHECK(a->state == FL_STORED && b->state == FL_DROPPED && x->state == FL_DROPPED);
  CHECK(b->in[0] == a && a->in[0] == x && d->in[0] == b && x->entry->leaf);
  fl_entry_spend(a);
  CHECK(a->state == FL_DROPPED && a->entry->spent && b->in[0] == a);
  fl_entry_spend(d);
  CHECK(c->nodes.live == 1 && d->entry->spent && d->nin == 0);
  flame_free(t);
  CHECK(c->nodes.live == 0 && c->entries.live == 0);
}

static void a_node_used_twice_is_given_back_twice(flame_context *c) {
  FL_ENTER(c);
  fl_node *x = data(c, 2, 3);
  CHECK(fl_entry_leaf(x, NULL));
  fl_node *y = record(FL_OP_mul, x, x), *z = record(FL_OP_mul, y, y);
  CHECK(x->held == 3 && x->grefs == 2 && x->uses == 2 && y->held == 3);
  flame_tensor *t = fl_tensor_new(c, z);
  FL_LEAVE(c);
  fl_entry_spend(z);
  CHECK(y->held == 0 && y->uses == 2 && y->state == FL_PENDING);
  CHECK(evaluate_all(c) == FLAME_OK && c->nodes.live == 1);
  flame_free(t);
}

static void free_counted(void *arg) { ++*(int *)arg; }

static void a_host_function_is_released_with_its_entry(flame_context *c) {
  int calls = 0;
  FL_ENTER(c);
  fl_custom *f = fl_zalloc(&c->mem, sizeof *f);
  *f = (fl_custom){.refs = 1, .release = free_counted, .arg = &calls};
  fl_node *in[5], *value = record(FL_OP_exp, data(c, 2, 3), NULL);
  for (int i = 0; i < 5; i++) in[i] = data(c, 1, 1);
  CHECK(fl_entry_leaf(in[3], NULL));
  fl_node *v = n_custom(value, 5, in, f, 0), *w = n_custom(value, 5, in, f, 1);
  CHECK(v->entry->tracked == 8 && v->base == value && in[4]->grefs == 2 && f->refs == 3);
  f->refs--;
  flame_tensor *t = fl_tensor_new(c, v), *u = fl_tensor_new(c, w);
  FL_LEAVE(c);
  fl_entry_spend(v);
  CHECK(v->nin == 1 && v->in[0] == value && c->win.live == 3 && calls == 0);
  CHECK(evaluate_all(c) == FLAME_OK && v->state == FL_STORED && w->nin == 5);
  flame_free(t);
  flame_free(u);
  CHECK(calls == 1 && c->nodes.live == 0);
}

/* ---- handles and writes ------------------------------------------------------------ */

static flame_tensor *parameter(flame_context *c) {
  const int64_t mark = fl_enter(c);
  flame_tensor *t = fl_tensor_new(c, data(c, 2, 3));
  fl_scope_end(c, mark);
  return t;
}

static flame_status negate(flame_tensor *t) {
  const int64_t mark = fl_enter(t->ctx);
  const flame_status e = fl_tensor_write(t, record(FL_OP_neg, t->node, NULL), "neg_");
  fl_scope_end(t->ctx, mark);
  return e;
}

static void a_written_tensor_keeps_its_address(flame_context *c) {
  flame_tensor *t = parameter(c);
  void *address = t->node->buffer->ptr;
  CHECK(negate(t) == FLAME_OK && t->node->home && t->node->home->homed);
  fl_node *first = t->node;
  CHECK(negate(t) == FLAME_OK && t->node->home && !first->home);
  CHECK(t->node->in[0] == first);
  CHECK(evaluate_all(c) == FLAME_OK);
  CHECK(t->node->buffer->ptr == address && !t->node->buffer->homed);
  CHECK(negate(t) == FLAME_OK && t->node->home);
  flame_free(t);                                   /* the write dies with its reader */
  CHECK(c->nodes.live == 0 && c->buffers.live == 0);
}

static void guests_of_a_buffer_do_not_take_it_over(flame_context *c) {
  flame_tensor *t = parameter(c);
  FL_ENTER(c);
  fl_attr how = {.view = FL_VIEW_ALIAS};
  fl_layout *l = t->node->shape;
  l->refs += 2;
  flame_tensor *u = fl_tensor_new(c, fl_node_view(t->node, l, l, 0, &how, 0));
  FL_LEAVE(c);
  CHECK(negate(u) == FLAME_OK && !u->node->home);
  CHECK(negate(t) == FLAME_OK && t->node->home);
  flame_free(t);
  flame_free(u);
}

static void borrowed_memory_is_never_a_home(flame_context *c) {
  float memory[6] = {0};
  FL_ENTER(c);
  fl_buffer *b = fl_buffer_foreign(c, memory, sizeof memory, NULL, NULL);
  flame_tensor *t = fl_tensor_new(c, fl_node_stored(c, FLAME_F32, b, shape2(c, 2, 3), 0));
  FL_LEAVE(c);
  CHECK(negate(t) == FLAME_OK && !t->node->home);
  flame_free(t);
}

static int refused(flame_context *c, flame_tensor *t, fl_node *n, const char *text) {
  const fl_node *before = t->node;
  const int ok = fl_tensor_write(t, n, "copy_") == FLAME_BAD_ARGUMENT &&
                 !strcmp(flame_error(c), text) && t->node == before;
  if (!ok) printf("  %s\n", flame_error(c));
  flame_clear_error(c);
  return ok;
}

static void writes_are_refused_with_a_reason(flame_context *c) {
  flame_tensor *t = parameter(c);
  FL_ENTER(c);
  fl_node *wide = record(FL_OP_neg, data(c, 3, 3), NULL);
  fl_node *same = record(FL_OP_neg, t->node, NULL);
  fl_node *ints = fl_node_new(c, FL_OP_cast, FLAME_I32, 0, shape2(c, 2, 3), 1, &t->node);
  CHECK(refused(c, t, wide, "copy_: x has shape (2, 3) and the value (3, 3)"));
  CHECK(refused(c, t, ints, "copy_: x is f32 and the value i32: cast it first"));
  flame_tensor *v = fl_tensor_new_view(c, transposed(t->node, 1), "x[…]");
  CHECK(refused(c, v, same, "copy_: write to a view made by x[…]: write x[{2, 3}] = v, "
                            "or clone() first"));
  CHECK(flame_requires_grad(t, 1) == FLAME_OK && flame_requires_grad(t, 1) == FLAME_OK);
  CHECK(refused(c, t, same, "copy_: write to a leaf that requires grad: "
                            "wrap it in no_grad"));
  fl_tensor_shut(v);
  CHECK(refused(c, v, same, "copy_: the tensor was freed"));
  CHECK(flame_ndim(v) == -1 && flame_numel(v) == -1);
  CHECK(flame_dtype_of(v) == FLAME_DTYPE_COUNT);
  FL_LEAVE(c);
  flame_free(v);
  flame_free(t);
}

static void a_leaf_written_under_no_grad_stays_the_leaf(flame_context *c) {
  flame_tensor *w = parameter(c);
  CHECK(flame_requires_grad(w, 1) == FLAME_OK);
  FL_ENTER(c);
  flame_tensor *y = fl_tensor_new(c, record(FL_OP_mul, w->node, w->node));
  FL_LEAVE(c);
  fl_node *old = w->node;
  flame_grad_mode(c, 0);
  CHECK(negate(w) == FLAME_OK);
  flame_grad_mode(c, 1);
  CHECK(w->node != old && w->node->entry == old->entry && old->entry->handle == w);
  CHECK(old->entry->refs == 2 && fl_tensor_is_leaf(w));
  CHECK(old->held == 2);                           /* both factors are saved by y */
  flame_free(w);
  CHECK(old->entry->handle == NULL && old->entry->refs == 1);
  CHECK(c->win.live == 1);
  flame_free(y);
  CHECK(c->nodes.live == 0 && c->entries.live == 0);
}

static void a_value_somebody_names_is_copied_first(flame_context *c) {
  flame_tensor *t = parameter(c), *u = parameter(c);
  FL_ENTER(c);
  flame_tensor *v = fl_tensor_new(c, record(FL_OP_neg, u->node, NULL));
  CHECK(fl_tensor_write(t, v->node, "copy_") == FLAME_OK);
  CHECK(t->node != v->node && t->node->op == FL_OP_copy);
  CHECK(t->node->home && !v->node->home);
  CHECK(fl_tensor_write(u, u->node, "copy_") == FLAME_OK && u->node->op == FL_OP_copy);
  FL_LEAVE(c);
  flame_free(t);
  flame_free(u);
  flame_free(v);
}

static void a_chain_of_gradient_handles_is_freed_in_a_loop(flame_context *c) {
  flame_tensor *first = NULL;
  for (int i = 0; i < 300000; i++) {
    flame_tensor *t = parameter(c);
    if (!t) break;
    fl_tensor_set_grad(t, first);
    flame_free(first);
    first = t;
  }
  flame_tensor *g = flame_grad_of(first);
  CHECK(g == first->grad && g->refs == 2);
  flame_free(g);
  flame_free(first);
  CHECK(c->tensors.live == 0);
}

static int gone;
static void context_gone(flame_context *c) { (void)c; gone++; }

static void handles_may_outlive_their_context(flame_context *unused) {
  flame_context c;
  (void)unused;
  CHECK(open_into(&c));
  gone = 0;
  c.gone = context_gone;
  flame_tensor *t = parameter(&c), *g = parameter(&c);
  fl_tensor_set_grad(t, g);
  flame_free(g);
  flame_tensor *u = parameter(&c);
  CHECK(!fl_tensor_close(&c) && device_live == 0 && gone == 0);
  CHECK(flame_numel(t) == -1 && flame_grad_of(t) == NULL);
  flame_free(t);
  CHECK(gone == 0);
  flame_free(u);
  CHECK(gone == 1 && c.mem.live_blocks == 0);
}

static void settings_are_the_contexts(flame_context *c) {
  flame_tensor *t = parameter(c);
  CHECK(flame_ndim(t) == 2 && flame_size(t, -1) == 3 && flame_size(t, 2) == -1);
  CHECK(flame_numel(t) == 6 && flame_dtype_of(t) == FLAME_F32);
  CHECK(flame_context_of(t) == c);
  flame_seed(c, 42);
  CHECK(c->rng.seed == 42 && c->rng.counter == 0);
  flame_interrupt(c);
  CHECK(c->interrupted == 1);
  CHECK(!strcmp(flame_version(), FLAME_VERSION));
  CHECK(flame_requires_grad(t, 1) == FLAME_OK && fl_tensor_tracked(t));
  CHECK(flame_requires_grad(t, 0) == FLAME_OK);
  CHECK(!fl_tensor_tracked(t) && fl_tensor_is_leaf(t));
  flame_zero_grad(t);
  flame_free(t);
  flame_free(NULL);
}

/* ---- memory that runs out ---------------------------------------------------------- */

static void family(flame_context *c) {
  flame_tensor *t = parameter(c), *w = t ? parameter(c) : NULL;
  if (w && flame_requires_grad(w, 1) == FLAME_OK) {
    const int64_t mark = fl_enter(c);
    fl_node *many[5], *y = record(FL_OP_mul, w->node, t->node);
    fl_node *v = y ? transposed(y, 1) : NULL, *u = v ? transposed(v, 0) : NULL;
    for (int i = 0; i < 5; i++) many[i] = t->node;
    fl_node *cat = NULL;
    if (u) cat = fl_node_new(c, FL_OP_cat, FLAME_F32, 0, shape2(c, 10, 3), 5, many);
    fl_node *number = cat ? fl_node_number(c, 1, (fl_scalar){.i = 3}) : NULL;
    flame_tensor *kept = number ? fl_tensor_new(c, cat) : NULL;
    if (kept && fl_tensor_write(t, record(FL_OP_neg, t->node, NULL), "neg_") == FLAME_OK)
      (void)evaluate_all(c);
    flame_free(kept);
    fl_scope_end(c, mark);
  }
  flame_free(t);
  flame_free(w);
}

static void every_failing_allocation_is_survived(flame_context *unused) {
  (void)unused;
  for (int forever = 0; forever < 2; forever++) {
    int clean = 0;
    for (int k = 1; !clean && k < 500; k++) {
      flame_context c;
      CHECK(open_into(&c));
      const int64_t start = c.mem.calls;
      c.mem.fail_at = start + k;
      c.mem.fail_forever = forever;
      family(&c);
      clean = c.mem.calls < start + k;
      CHECK(clean ? c.err.code == FLAME_OK : c.err.code == FLAME_NO_MEMORY || !forever);
      CHECK(c.nodes.live == 0 && c.tensors.live == 0 && c.entries.live == 0);
      CHECK(c.attrs.live == 0 && c.buffers.live == 0 && c.layouts.n == 1);
      close_and_count(&c);
    }
    CHECK(clean);
  }
}

static void opening_survives_a_failing_allocation(flame_context *unused) {
  (void)unused;
  for (int k = 1; k < 20; k++) {
    flame_context c;
    memset(&c, 0, sizeof c);
    c.mem.fail_at = k;
    if (fl_tensor_init(&c)) fl_tensor_close(&c);
    CHECK(c.mem.live_blocks == 0);
  }
}

#define TEST(name) {#name, name}
static const struct { const char *name; void (*run)(flame_context *c); } tests[] = {
  TEST(equal_layouts_are_one_pointer),
  TEST(sizes_are_checked_for_overflow),
  TEST(reshapes_of_strided_arrays_walk_the_same_elements),
  TEST(composed_maps_are_right_or_refused),
  TEST(dead_code_leaves_the_window),
  TEST(stored_values_give_their_inputs_back),
  TEST(long_chains_fall_without_recursion),
  TEST(untracked_views_share_one_base),
  TEST(tracked_views_keep_their_parent_for_the_gradient),
  TEST(passed_nodes_outlive_the_inner_scope),
  TEST(reading_a_failed_value_repeats_its_message),
  TEST(a_full_window_is_run_on_entry),
  TEST(holes_are_reused_by_compaction),
  TEST(host_memory_is_released_once),
  TEST(entries_save_only_what_the_rule_reads),
  TEST(a_value_lives_while_its_rule_reads_it),
  TEST(a_node_used_twice_is_given_back_twice),
  TEST(a_host_function_is_released_with_its_entry),
  TEST(a_written_tensor_keeps_its_address),
  TEST(guests_of_a_buffer_do_not_take_it_over),
  TEST(borrowed_memory_is_never_a_home),
  TEST(writes_are_refused_with_a_reason),
  TEST(a_leaf_written_under_no_grad_stays_the_leaf),
  TEST(a_value_somebody_names_is_copied_first),
  TEST(a_chain_of_gradient_handles_is_freed_in_a_loop),
  TEST(handles_may_outlive_their_context),
  TEST(settings_are_the_contexts),
  TEST(every_failing_allocation_is_survived),
  TEST(opening_survives_a_failing_allocation),
};

int main(void) {
  for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
    flame_context c;
    now = tests[i].name;
    CHECK(open_into(&c));
    tests[i].run(&c);
    close_and_count(&c);
  }
  printf("nodes: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
