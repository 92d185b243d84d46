/*
** Traces of a script's function f, to save it as a program: f runs between begin and end, which
** save the values of all older handles and restore them.
*/
#include "graph/graph.h"
#include "engine/flight.h"
#include <string.h>

static flame_status no_memory(flame_context *c) {
  return FL_FAIL(c, FLAME_NO_MEMORY, "export", "no host memory");
}

fl_export *fl_export_new(flame_context *c) {
  fl_export *x = fl_zalloc(&c->mem, sizeof *x);
  if (x) x->c = c;
  else no_memory(c);
  return x;
}

static void drop_after(fl_export *x) {
  for (int64_t i = 0; i < x->after.n; i++) fl_tensor_release(x->after.at[i]);
  x->after.n = 0;
}

static void drop_inputs(fl_export *x) {
  for (int64_t i = 0; i < x->input.n; i++) fl_tensor_release(x->input.at[i]);
  x->input.n = 0;
}

/* Frees what the trace kept, without restoring anything. */
static void forget(fl_export *x) {
  flame_context *c = x->c;
  for (int64_t i = 0; i < x->older.n; i++) {
    fl_older *o = &x->older.at[i];
    fl_node_drop(o->node);
    fl_tensor_release(o->grad);
    fl_tensor_release(o->t);
  }
  for (int64_t i = 0; i < x->seen.n; i++) fl_buffer_release(c, x->seen.at[i].b);
  x->older.n = x->seen.n = 0;
  if (c->trace == x) c->trace = NULL;
  x->open = 0;
}

void fl_export_free(fl_export *x) {
  if (!x) return;
  flame_context *c = x->c;
  if (x->open) fl_export_cancel(x);
  drop_after(x);
  drop_inputs(x);
  for (int64_t i = 0; i < x->state.n; i++) fl_tensor_release(x->state.at[i]);
  for (int64_t i = 0; i < x->constant.n; i++) fl_node_drop(x->constant.at[i].node);
  for (int64_t i = 0; i < x->kernel.n; i++) fl_kfunction_release(x->kernel.at[i]);
  FL_DROP(&c->mem, &x->older);
  FL_DROP(&c->mem, &x->input);
  FL_DROP(&c->mem, &x->state);
  FL_DROP(&c->mem, &x->after);
  FL_DROP(&c->mem, &x->constant);
  FL_DROP(&c->mem, &x->kernel);
  FL_DROP(&c->mem, &x->seen);
  FL_DROP(&c->mem, &x->site);
  fl_free(&c->mem, x, sizeof *x);
}

/* ---- values that f asks for ------------------------------------------------------------------ */

typedef struct walk { struct { fl_node **at; int64_t n, cap; } todo; } walk;

static int push(flame_context *c, walk *w, fl_node *n) {
  if (!n || n->mark) return 1;
  fl_node **top = FL_PUSH(&c->mem, &w->todo);
  if (!top) return 0;
  *top = n;
  n->mark = n->state == FL_PENDING;
  return 1;
}

static int is_draw(const fl_node *n) {
  return n->op == FL_OP_uniform || n->op == FL_OP_normal || n->op == FL_OP_randint ||
         n->op == FL_OP_draw_key;
}

/* Notes that f reads a value that depends on the stored value n; fails if n is an input. */
static flame_status reads_leaf(fl_export *x, const fl_node *n) {
  flame_context *c = x->c;
  for (int64_t i = 0; n->buffer && i < x->input.n; i++)
    if (x->input.at[i]->node && n->buffer == x->input.at[i]->node->buffer)
      return FL_FAIL(c, FLAME_BAD_ARGUMENT, "export", "a value that depends on input %lld is read "
                     "here, and the program would go on as this one value says" FL_DO
                     ": use flame.where, or read it after f", (long long)i + 1);
  if (!n->buffer) return FLAME_OK;
  struct fl_seen *s = FL_PUSH(&c->mem, &x->seen);
  if (!s) return no_memory(c);
  *s = (struct fl_seen){ fl_buffer_retain(n->buffer), x->line ? x->line(x->arg) : c->site };
  return FLAME_OK;
}

/* Called when the script reads a value while f is traced: fails if it depends on an input or a
** random number, since the program would use the value of this one run. */
static flame_status may_read(flame_context *c, fl_node *n) {
  fl_export *x = c->trace;
  walk w = { { NULL, 0, 0 } };
  if (n->state == FL_STORED) return reads_leaf(x, n);     /* the walk would clear write.c's marks */
  flame_status e = push(c, &w, n) ? FLAME_OK : no_memory(c);
  while (e == FLAME_OK && w.todo.n) {
    const fl_node *m = w.todo.at[--w.todo.n];
    if (m->state == FL_STORED) e = reads_leaf(x, m);
    else if (is_draw(m))
      e = FL_FAIL(c, FLAME_BAD_ARGUMENT, "export", "a random number is read here, and the program "
                  "would go on as this one number says" FL_DO ": draw it outside f");
    else if (m->base) e = push(c, &w, m->base) ? e : no_memory(c);
    else
      for (int i = 0; e == FLAME_OK && i < m->nin; i++)
        if (!push(c, &w, m->in[i])) e = no_memory(c);
  }
  for (int64_t i = 0; i < c->win.nodes.n; i++) if (c->win.nodes.at[i]) c->win.nodes.at[i]->mark = 0;
  FL_DROP(&c->mem, &w.todo);
  return e;
}

/* ---- begin ----------------------------------------------------------------------------------- */

static flame_status remember(fl_export *x) {
  flame_context *c = x->c;
  for (flame_tensor *t = c->handles; t; t = t->next) {
    if (!t->node) continue;
    fl_older *o = FL_PUSH(&c->mem, &x->older);
    if (!o) return no_memory(c);
    *o = (fl_older){ fl_tensor_retain(t), t->node, t->grad };
    if (o->grad) fl_tensor_retain(o->grad);
    fl_node_hold(o->node);
  }
  return FLAME_OK;
}

/* A copy in a separate buffer. */
static fl_node *own_copy(flame_context *c, fl_node *n) {
  const uint8_t mode = c->grad_mode;
  c->grad_mode = 0;
  n = n_copy(n);
  c->grad_mode = mode;
  return n && fl_evaluate(c, n) == FLAME_OK ? n : NULL;
}

static flame_status place_input(fl_export *x, flame_tensor *from) {
  flame_context *c = x->c;
  flame_tensor **slot = FL_PUSH(&c->mem, &x->input);
  if (!slot) return no_memory(c);
  x->input.n--;
  if (!fl_tensor_open(from, "export")) return FLAME_BAD_ARGUMENT;
  const int tracked = fl_tensor_tracked(from) && fl_tensor_is_leaf(from);
  FL_ENTER(c);
  flame_tensor *t = fl_tensor_new(c, own_copy(c, from->node));
  FL_LEAVE(c);
  if (!t) return c->err.code;
  x->input.at[x->input.n++] = t;
  return tracked ? flame_requires_grad(t, 1) : FLAME_OK;
}

flame_status fl_export_begin(fl_export *x, int nin, flame_tensor *const *in) {
  flame_context *c = x->c;
  if (c->trace) return FL_FAIL(c, FLAME_BAD_ARGUMENT, "export", "another export is under way");
  drop_after(x);
  drop_inputs(x);
  flame_status e = fl_evaluate_all(c);
  if (e == FLAME_OK && (e = fl_flight_land(c)) != FLAME_OK) fl_tell_untold(c);
  for (int i = 0; e == FLAME_OK && i < nin; i++) e = place_input(x, in[i]);
  if (e == FLAME_OK) e = remember(x);
  if (e != FLAME_OK) {
    forget(x);
    return e;
  }
  x->rng = c->rng;
  x->open = 1;
  c->trace = x;
  c->trace_read = may_read;
  return FLAME_OK;
}

/* ---- end ------------------------------------------------------------------------------------- */

static int64_t state_of(const fl_export *x, const flame_tensor *t) {
  for (int64_t i = 0; i < x->state.n; i++) if (x->state.at[i] == t) return i;
  return -1;
}

static int64_t input_of(const fl_export *x, const flame_tensor *t) {
  for (int64_t i = 0; i < x->input.n; i++) if (x->input.at[i] == t) return i;
  return -1;
}

static flame_status new_state(fl_export *x, const fl_older *o) {
  flame_context *c = x->c;
  const fl_node *now = o->t->node;
  if (input_of(x, o->t) >= 0)
    return FL_FAIL(c, FLAME_BAD_ARGUMENT, "export", "f writes to its input %lld" FL_DO
                   ": write to a clone() of it", (long long)input_of(x, o->t) + 1);
  if (now->dtype != o->node->dtype || now->device != o->node->device)
    return FL_FAIL(c, FLAME_BAD_ARGUMENT, "export", "f changes the dtype or device of a tensor "
                   "that is older than the call" FL_DO ": convert it before");
  flame_tensor **s = FL_PUSH(&c->mem, &x->state);
  if (!s) return no_memory(c);
  *s = fl_tensor_retain(o->t);
  x->found = 1;
  return FLAME_OK;
}

static flame_status find_states(fl_export *x) {
  flame_status e = FLAME_OK;
  x->found = 0;
  for (int64_t i = 0; e == FLAME_OK && i < x->older.n; i++) {
    const fl_older *o = &x->older.at[i];
    if (o->t->node && o->t->node != o->node && state_of(x, o->t) < 0) e = new_state(x, o);
  }
  return e;
}

/* Fails if f has read the value of a state (a tensor that f writes to): it would be another in the
** next run. */
static flame_status check_seen(fl_export *x) {
  flame_context *c = x->c;
  for (int64_t i = 0; i < x->seen.n; i++)
    for (int64_t k = 0; k < x->older.n; k++) {
      const fl_older *o = &x->older.at[k];
      if (o->node->buffer != x->seen.at[i].b || state_of(x, o->t) < 0) continue;
      c->err.site = c->err.code == FLAME_OK ? x->seen.at[i].site : c->err.site;
      return FL_FAIL(c, FLAME_BAD_ARGUMENT, "export", "a tensor that f writes to is read here, and "
                     "the program would go on as this one value says" FL_DO
                     ": compute with the tensor itself");
    }
  return FLAME_OK;
}

static void put_back(fl_export *x) {
  for (int64_t i = 0; i < x->older.n; i++) {
    const fl_older *o = &x->older.at[i];
    if (!o->t->node) continue;
    if (o->t->node != o->node) fl_tensor_rename(o->t, o->node);
    if (o->t->grad != o->grad) fl_tensor_set_grad(o->t, o->grad);
  }
  x->c->rng = x->rng;
}

static flame_status keep(fl_export *x, fl_node *n) {
  flame_context *c = x->c;
  flame_tensor **slot = FL_PUSH(&c->mem, &x->after);
  if (!slot) return no_memory(c);
  *slot = fl_tensor_new(c, n);
  if (*slot) return FLAME_OK;
  x->after.n--;
  return c->err.code;
}

/* Keeps handles on the results of f, to be compared with those of the program. */
static flame_status keep_results(fl_export *x, int nout, flame_tensor *const *out) {
  flame_status e = FLAME_OK;
  for (int i = 0; e == FLAME_OK && i < nout; i++) e = keep(x, out[i]->node);
  for (int64_t i = 0; e == FLAME_OK && i < x->state.n; i++)
    if (fl_tensor_open(x->state.at[i], "export")) e = keep(x, x->state.at[i]->node);
    else e = FLAME_BAD_ARGUMENT;
  return e;
}

/* Moves the states (tensors that f writes to) that this trace has found to separate buffers, by
** which the next trace recognises them. */
static flame_status move_states(fl_export *x, int64_t first) {
  flame_context *c = x->c;
  flame_status e = FLAME_OK;
  for (int64_t i = first; e == FLAME_OK && i < x->state.n; i++) {
    flame_tensor *t = x->state.at[i];
    FL_ENTER(c);
    fl_node *n = fl_tensor_open(t, "export") ? own_copy(c, t->node) : NULL;
    if (n) fl_tensor_rename(t, n);
    else e = c->err.code;
    FL_LEAVE(c);
  }
  return e;
}

flame_status fl_export_end(fl_export *x, int nout, flame_tensor *const *out,
                           const char *const *names, const char *const *inputs, fl_text *text) {
  flame_context *c = x->c;
  const int64_t known = x->state.n, mark = fl_scope_begin(c);
  flame_status e = find_states(x);
  for (int i = 0; e == FLAME_OK && i < nout; i++)
    if (!fl_tensor_open(out[i], "export")) e = FLAME_BAD_ARGUMENT;
  if (e == FLAME_OK && !x->found) e = check_seen(x);
  if (e == FLAME_OK && !x->found) e = keep_results(x, nout, out);
  if (e == FLAME_OK && !x->found) e = fl_export_write(x, nout, out, names, inputs, text);
  put_back(x);
  forget(x);
  fl_scope_end(c, mark);
  return e == FLAME_OK && x->found ? move_states(x, known) : e;
}

void fl_export_cancel(fl_export *x) {
  if (!x->open) return;
  put_back(x);
  forget(x);
}

/* ---- the comparison -------------------------------------------------------------------------- */

static int same_bits(flame_context *c, flame_tensor *a, flame_tensor *b) {
  if (a->node->dtype != b->node->dtype || a->node->shape != b->node->shape) return 0;
  size_t n = 0, m = 0;
  void *p = fl_io_bytes_of(c, a->node, &n), *q = p ? fl_io_bytes_of(c, b->node, &m) : NULL;
  const int same = q && n == m && !memcmp(p, q, n);
  fl_free(&c->mem, p, n);
  fl_free(&c->mem, q, m);
  return same;
}

static flame_status differs(flame_context *c, const char *what, int64_t i) {
  if (c->err.code != FLAME_OK) return c->err.code;
  return FL_FAIL(c, FLAME_INTERNAL, "export", "%s %lld of the program has not the bits that f gave",
                 what, (long long)i + 1);
}

flame_status fl_export_same(fl_export *x, flame_program *p) {
  flame_context *c = x->c;
  flame_tensor *out[FL_GRAPH_PORTS];
  const int nout = (int)p->output.n;
  flame_program_reset(p);
  p->rng = x->rng;
  flame_status e = flame_program_run(p, (int)x->input.n, x->input.at, nout, out);
  if (e != FLAME_OK) return e;
  for (int i = 0; i < nout; i++) {
    if (e == FLAME_OK && !same_bits(c, x->after.at[i], out[i])) e = differs(c, "result", i);
    fl_tensor_release(out[i]);
  }
  for (int64_t i = 0; e == FLAME_OK && i < p->state.n; i++)
    if (!same_bits(c, x->after.at[nout + i], p->state.at[i].now)) e = differs(c, "state", i);
  flame_program_reset(p);
  return e;
}
