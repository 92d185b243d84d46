/*
** Tests of nodes (values that ops compute), of the window (the list of nodes that wait for an
** evaluation), of scopes and of entries (records on autograd's tape), on a fake engine.
*/
#include "fake_engine.h"

/* ---- nodes ------------------------------------------------------------------------- */

static void dead_code_leaves_the_window(flame_context *c) {
  FL_ENTER(c);
  fl_node *x = data(c, 2, 3);
  record(FL_OP_exp, x, NULL);
  fl_node *b = record(FL_OP_neg, x, NULL), *d = record(FL_OP_add, b, b);
  CHECK(c->win.live == 3 && x->uses == 2 && b->uses == 2 && c->win.bytes == 72);
  flame_tensor *t = fl_tensor_new(c, d);
  FL_LEAVE(c);
  CHECK(c->win.live == 2 && c->win.bytes == 48);       /* exp was freed, neg is used */
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
  CHECK(!w->entry && w->in[0] == y && c->entries.live == 2);   /* those of y and x */
  flame_free(t);
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
  CHECK(evaluations == 1 && flame_error_code(c) == FLAME_OK);   /* the read reports the error */
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
  CHECK(released == 1 && c->tensors_of[0].now == 0);
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
  CHECK(!record(FL_OP_isnan, w, NULL)->entry && !record(FL_OP_mul, x, x)->entry);
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

int main(void) {
  static const test tests[] = {
    TEST(dead_code_leaves_the_window),
    TEST(stored_values_give_their_inputs_back),
    TEST(long_chains_fall_without_recursion),
    TEST(untracked_views_share_one_base),
    TEST(tracked_views_keep_their_parent_for_the_gradient),
    TEST(reading_a_failed_value_repeats_its_message),
    TEST(a_full_window_is_run_on_entry),
    TEST(holes_are_reused_by_compaction),
    TEST(host_memory_is_released_once),
    TEST(entries_save_only_what_the_rule_reads),
    TEST(a_value_lives_while_its_rule_reads_it),
    TEST(a_node_used_twice_is_given_back_twice),
    TEST(a_host_function_is_released_with_its_entry),
  };
  return run_tests("nodes", tests, (int)(sizeof tests / sizeof *tests));
}
