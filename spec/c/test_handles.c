/*
** Tests of tensor handles on a fake engine: writes in place, lifetimes, memory that runs out.
*/
#include "fake_engine.h"

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
  flame_free(t);                                   /* the write is freed with its reader */
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
  CHECK(first && g && g == first->grad && g->refs == 2);
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
  survive_failing_allocations(family);
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

int main(void) {
  static const test tests[] = {
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
  return run_tests("handles", tests, (int)(sizeof tests / sizeof *tests));
}
