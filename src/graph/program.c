/*
** flame_program: loading, facts, runs. Loading records every graph at its example's size and, if a
** size varies, at the next, without evaluating: this finds errors in a file, and the sizes of the
** results.
*/
#include "graph/graph.h"
#include "engine/evaluate.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- ends ------------------------------------------------------------------------------------ */

/* Frees all that the program holds; the struct itself is freed by the caller. */
static void empty(flame_program *p) {
  flame_context *c = p->c;
  for (int64_t i = 0; i < p->state.n; i++) {
    fl_node_drop(p->state.at[i].first);
    fl_tensor_release(p->state.at[i].now);
  }
  for (int64_t i = 0; i < p->constant.n; i++) fl_node_drop(p->constant.at[i]);
  for (int64_t i = 0; i < p->kernel.n; i++) fl_kfunction_release(p->kernel.at[i]);
  if (p->kernel.n && !c->evaluating) fl_plans_sweep(&((fl_engine *)c->engine)->plans);
  fl_free(&c->mem, p->text, p->bytes + 1);
  FL_DROP(&c->mem, &p->term);
  FL_DROP(&c->mem, &p->line);
  FL_DROP(&c->mem, &p->graph);
  FL_DROP(&c->mem, &p->input);
  FL_DROP(&c->mem, &p->output);
  FL_DROP(&c->mem, &p->state);
  FL_DROP(&c->mem, &p->constant);
  FL_DROP(&c->mem, &p->kernel);
  FL_DROP(&c->mem, &p->value);
  if (p->next) p->next->link = p->link;
  *p->link = p->next;
  p->c = NULL;
}

static void empty_all(flame_context *c) { while (c->programs) empty(c->programs); }

void flame_program_free(flame_program *p) {
  if (!p) return;
  if (p->c) {
    FL_HOLD(p->c, );
    empty(p);
  }
  free(p);
}

/* ---- loading --------------------------------------------------------------------------------- */

static flame_status no_memory(flame_context *c) {
  return FL_FAIL(c, FLAME_NO_MEMORY, "program", "no host memory");
}

static const fl_span *metadata(const fl_archive *a, const char *key) {
  for (int64_t i = 0; i < a->meta.n; i++)
    if (a->meta.at[i].key.n == strlen(key) && !memcmp(a->meta.at[i].key.at, key, strlen(key)))
      return &a->meta.at[i].value;
  return NULL;
}

static const fl_saved *tensor_of(const fl_archive *a, char kind, int64_t number) {
  char name[24];
  snprintf(name, sizeof name, "%c%lld", kind, (long long)number);
  for (int64_t i = 0; i < a->tensors.n; i++)
    if (a->tensors.at[i].name.n == strlen(name) &&
        !memcmp(a->tensors.at[i].name.at, name, strlen(name))) return &a->tensors.at[i];
  return NULL;
}

static flame_status read_text(flame_program *p, fl_archive *a) {
  static const char first[] = "program 1\n";
  const size_t head = sizeof first - 1;
  const fl_span *text = metadata(a, "flame.program");
  if (!text)
    return fl_reader_fail(&a->in, "it holds no program" FL_DO ": write it by flame.export");
  if (text->n < head || memcmp(text->at, first, 8) || text->n > FL_GRAPH_TEXT)
    return fl_reader_fail(&a->in, "its program does not begin with \"program 1\"");
  if (memcmp(text->at, first, head))
    return fl_reader_fail(&a->in, "its program is of a later format than 1");
  p->text = fl_alloc(&p->c->mem, text->n - head + 1);
  if (!p->text) return no_memory(p->c);
  p->bytes = text->n - head;
  memcpy(p->text, text->at + head, p->bytes);
  p->text[p->bytes] = 0;
  return FLAME_OK;
}

static flame_status read_values(flame_program *p, fl_archive *a) {
  flame_context *c = p->c;
  const fl_saved *t;
  for (int64_t i = 0; (t = tensor_of(a, 'c', i)) != NULL; i++) {
    fl_node *n = fl_safetensors_read(a, t, c->default_device), **slot;
    if (!n) return c->err.code;
    if (!(slot = FL_PUSH(&c->mem, &p->constant))) return no_memory(c);
    fl_node_hold(*slot = n);
  }
  for (int64_t i = 0; (t = tensor_of(a, 's', i)) != NULL; i++) {
    fl_node *n = fl_safetensors_read(a, t, c->default_device);
    flame_tensor *now = fl_tensor_new(c, n);
    fl_program_state *slot = now ? FL_PUSH(&c->mem, &p->state) : NULL;
    if (!slot) {
      fl_tensor_release(now);
      return now ? no_memory(c) : c->err.code;
    }
    *slot = (fl_program_state){ now, n };
    fl_node_hold(n);
  }
  return FLAME_OK;
}

static flame_status read_kernels(flame_program *p, const fl_archive *a) {
  char key[40];
  for (int64_t i = 0;; i++) {
    snprintf(key, sizeof key, "flame.kernel.%lld", (long long)i);
    const fl_span *text = metadata(a, key);
    if (!text) return FLAME_OK;
    fl_kfunction **slot = FL_PUSH(&p->c->mem, &p->kernel);
    if (!slot) return no_memory(p->c);
    *slot = fl_graph_read_kernel(p->c, *text);
    if (*slot) continue;
    p->kernel.n--;
    return p->c->err.code;
  }
}

/* Reads a line of an input or output as a port. The ports are those of the first graph; those of
** other graphs are the same except for sizes, which then vary (-1). */
static flame_status read_port(flame_program *p, const fl_graph *g, const fl_line *l, int32_t *ni,
                              int32_t *no) {
  const int input = l->op == FL_LINE_INPUT, first = g == p->graph.at;
  const int32_t k = input ? (*ni)++ : (*no)++;
  const fl_term *t = l->term;
  if (l->n < 2 || t->kind != FL_TERM_WORD || *t->word != '_' || k >= FL_GRAPH_PORTS ||
      (input && (t[1].kind != FL_TERM_DTYPE || l->n > 2 + FL_MAX_AXES)))
    return fl_graph_fail(p, l->number, "a port needs a name, an input a dtype and sizes");
  for (int i = 2; input && i < l->n; i++)
    if (t[i].kind != FL_TERM_INT) return fl_graph_fail(p, l->number, "term %d is no size", i + 1);
  fl_port *at;
  if (first) at = input ? FL_PUSH(&p->c->mem, &p->input) : FL_PUSH(&p->c->mem, &p->output);
  else at = k >= (input ? p->input.n : p->output.n) ? NULL
          : input ? &p->input.at[k] : &p->output.at[k];
  if (!at && first) return no_memory(p->c);
  if (first) *at = (fl_port){ .name = t->word + 1 };
  if (!at || strcmp(at->name, t->word + 1))
    return fl_graph_fail(p, l->number, "the graphs have other inputs or outputs");
  if (!input) return FLAME_OK;
  if (first) {
    at->dtype = (int)t[1].a;
    at->rank = l->n - 2;
  }
  if (at->dtype != (int)t[1].a || at->rank != l->n - 2)
    return fl_graph_fail(p, l->number, "the graphs have inputs of other dtypes or axes");
  for (int i = 0; i < at->rank; i++) {
    if (first) at->size[i] = t[2 + i].a;
    if (t[2 + i].b || at->size[i] != t[2 + i].a) at->size[i] = -1;
  }
  return FLAME_OK;
}

static flame_status read_ports(flame_program *p) {
  flame_status e = FLAME_OK;
  int64_t most = 0;
  for (int64_t i = 0; e == FLAME_OK && i < p->graph.n; i++) {
    const fl_graph *g = &p->graph.at[i];
    int32_t ni = 0, no = 0;
    for (int32_t k = 0; e == FLAME_OK && k < g->n; k++) {
      const fl_line *l = &p->line.at[g->first + k];
      if (l->op == FL_LINE_INPUT || l->op == FL_LINE_OUTPUT) e = read_port(p, g, l, &ni, &no);
    }
    if (e == FLAME_OK && (ni != p->input.n || no != p->output.n))
      e = fl_graph_fail(p, i ? p->line.at[g->first].number : 1, "the graphs have other ports");
    if (g->values > most) most = g->values;
  }
  if (e == FLAME_OK && !FL_RESERVE(&p->c->mem, &p->value, most + 1)) e = no_memory(p->c);
  p->value.n = most;
  return e;
}

/* ---- trials ---------------------------------------------------------------------------------- */

static int64_t size_at(const fl_term *t, int64_t n) {
  int64_t v;
  if (__builtin_mul_overflow(t->b, n, &v) || __builtin_add_overflow(v, t->a, &v)) return -1;
  return v;
}

static const fl_line *input_line(const flame_program *p, const fl_graph *g, int64_t i) {
  for (int32_t k = 0; k < g->n; k++)
    if (p->line.at[g->first + k].op == FL_LINE_INPUT && i-- == 0) return &p->line.at[g->first + k];
  return NULL;
}

static flame_status trial_inputs(flame_program *p, const fl_graph *g, int64_t n, fl_node **in) {
  flame_context *c = p->c;
  for (int64_t i = 0; i < p->input.n; i++) {
    const fl_line *l = input_line(p, g, i);
    int64_t size[FL_MAX_AXES];
    for (int a = 0; a + 2 < l->n; a++) size[a] = size_at(&l->term[2 + a], n);
    in[i] = n_fill(c, p->input.at[i].dtype, c->default_device, l->n - 2, size,
                   (fl_scalar){ .i = 0 });
    if (in[i]) continue;
    p->bad = l->number;
    return c->err.code;
  }
  return FLAME_OK;
}

/* Notes the sizes of the results, -1 where they differ from earlier ones. */
static void note_outputs(flame_program *p, fl_node *const *out, int first) {
  for (int64_t i = 0; i < p->output.n; i++) {
    fl_port *o = &p->output.at[i];
    if (first) {
      o->dtype = out[i]->dtype;
      o->rank = out[i]->shape->rank;
      memcpy(o->size, out[i]->shape->size, sizeof o->size);
    }
    for (int a = 0; a < o->rank; a++)
      if (a >= out[i]->shape->rank || o->size[a] != out[i]->shape->size[a]) o->size[a] = -1;
  }
}

static void state_nodes(const flame_program *p, fl_node **to) {
  for (int64_t i = 0; i < p->state.n; i++) to[i] = p->state.at[i].now->node;
}

static flame_status trial(flame_program *p, const fl_graph *g, int64_t n, int first) {
  flame_context *c = p->c;
  fl_node *in[FL_GRAPH_PORTS], *out[FL_GRAPH_PORTS];
  fl_node **state = fl_zalloc(&c->mem, sizeof *state * (size_t)p->state.n);
  if (!state) return no_memory(c);
  const int64_t mark = fl_scope_begin(c);
  fl_build b = { .p = p, .g = g, .n = n, .input = in, .state = state, .output = out, .trial = 1 };
  state_nodes(p, state);
  flame_status e = trial_inputs(p, g, n, in);
  if (e == FLAME_OK) e = fl_graph_build(&b);
  if (e == FLAME_OK) note_outputs(p, out, first);
  fl_scope_end(c, mark);
  fl_free(&c->mem, state, sizeof *state * (size_t)p->state.n);
  return e;
}

static flame_status try_all(flame_program *p) {
  flame_status e = FLAME_OK;
  for (int64_t i = 0; e == FLAME_OK && i < p->graph.n; i++) {
    const fl_graph *g = &p->graph.at[i];
    e = trial(p, g, g->example, i == 0);
    if (e == FLAME_OK && g->example) e = trial(p, g, g->example + 1, 0);
  }
  return e;
}

/* ---- the public functions -------------------------------------------------------------------- */

static flame_status load(flame_program *p, fl_archive *a) {
  flame_status e = read_text(p, a);
  if (e == FLAME_OK) e = fl_graph_parse(p);
  if (e == FLAME_OK) e = read_ports(p);
  if (e == FLAME_OK) e = read_values(p, a);
  if (e == FLAME_OK) e = read_kernels(p, a);
  if (e == FLAME_OK) e = try_all(p);
  return e;
}

/* Adds the file's name to an error that names a line of the program's text. */
static void retell(flame_program *p, const char *path) {
  fl_error *e = &p->c->err;
  char text[sizeof e->message + sizeof e->op + 8];
  if (!p->bad || e->code == FLAME_NO_MEMORY || e->code == FLAME_INTERRUPTED) return;
  const int told = !strcmp(e->op, "program") && !strncmp(e->message, "line ", 5);
  snprintf(text, sizeof text, "%s%s%s", told ? "" : e->op, told ? "" : ": ", e->message);
  fl_error_clear(e);
  if (told) FL_FAIL(p->c, FLAME_IO, "program", "%.150s: %.300s", path, text);
  else FL_FAIL(p->c, FLAME_IO, "program", "%.150s: line %d: %.300s", path, p->bad, text);
}

flame_program *flame_program_load(flame_context *c, const char *path) {
  FL_HOLD(c, NULL);
  fl_archive a;
  if (!path) {
    FL_FAIL(c, FLAME_BAD_ARGUMENT, "program", "there is no path");
    return NULL;
  }
  flame_program *p = calloc(1, sizeof *p);
  if (!p) {
    no_memory(c);
    return NULL;
  }
  p->c = c;
  p->next = c->programs;
  p->link = &c->programs;
  if (p->next) p->next->link = &p->next;
  c->programs = p;
  c->drop_programs = empty_all;
  FL_ENTER(c);
  flame_status e = fl_safetensors_open(&a, c, path);
  if (e == FLAME_OK) e = load(p, &a);
  fl_safetensors_close(&a);
  FL_LEAVE(c);
  if (e == FLAME_OK) return p;
  retell(p, path);
  empty(p);
  free(p);
  return NULL;
}

static int facts(const fl_port *at, int64_t n, int i, const char **name, flame_dtype *t,
                 int64_t *size) {
  if (i < 0 || i >= n) return -1;
  if (name) *name = at[i].name;
  if (t) *t = (flame_dtype)at[i].dtype;
  if (size) memcpy(size, at[i].size, sizeof at[i].size[0] * (size_t)at[i].rank);
  return at[i].rank;
}

int flame_program_input(const flame_program *p, int i, const char **name, flame_dtype *t,
                        int64_t *size) {
  return p && p->c ? facts(p->input.at, p->input.n, i, name, t, size) : -1;
}

int flame_program_output(const flame_program *p, int i, const char **name, flame_dtype *t,
                         int64_t *size) {
  return p && p->c ? facts(p->output.at, p->output.n, i, name, t, size) : -1;
}

void flame_program_seed(flame_program *p, uint64_t seed) {
  FL_HOLD(p ? p->c : NULL, );
  p->rng = (fl_rng){ seed, 0 };
}

void flame_program_reset(flame_program *p) {
  FL_HOLD(p ? p->c : NULL, );
  for (int64_t i = 0; i < p->state.n; i++)
    if (p->state.at[i].now->node != p->state.at[i].first)
      fl_tensor_rename(p->state.at[i].now, p->state.at[i].first);
  p->rng = (fl_rng){ 0, 0 };
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* Does graph g take inputs of these sizes? Sets *n to the size that varies, -1: none does. */
static int takes(const flame_program *p, const fl_graph *g, fl_node *const *in, int64_t *n) {
  *n = -1;
  for (int64_t i = 0; i < p->input.n; i++) {
    const fl_line *l = input_line(p, g, i);
    assert(in[i]);
    const fl_layout *s = in[i]->shape;
    if (s->rank != l->n - 2) return 0;
    for (int a = 0; a < s->rank; a++) {
      const fl_term *t = &l->term[2 + a];
      const int64_t rest = s->size[a] - t->a;
      if (t->b && *n < 0 && rest % t->b == 0 && rest / t->b >= 0) *n = rest / t->b;
      if (size_at(t, t->b ? *n : 0) != s->size[a] || (t->b && *n < 0)) return 0;
    }
  }
  return 1;
}

static void say_sizes(const flame_program *p, int64_t i, char *to, size_t n) {
  const fl_port *q = &p->input.at[i];
  size_t k = 0;
  for (int a = 0; a < q->rank && k < n; a++)
    k += (size_t)snprintf(to + k, n - k, q->size[a] < 0 ? "%sn" : "%s%lld", a ? ", " : "",
                          (long long)q->size[a]);
  if (!q->rank) *to = 0;
}

static const fl_graph *choose(const flame_program *p, fl_node *const *in, int64_t *n) {
  char have[192], want[192];
  for (int64_t i = 0; i < p->graph.n; i++)
    if (takes(p, &p->graph.at[i], in, n)) return &p->graph.at[i];
  for (int64_t i = 0; i < p->input.n; i++) {
    const fl_port *q = &p->input.at[i];
    assert(in[i]);
    const fl_layout *s = in[i]->shape;
    int ok = q->rank == s->rank;
    for (int a = 0; ok && a < s->rank; a++) ok = q->size[a] < 0 || q->size[a] == s->size[a];
    if (ok && i + 1 < p->input.n) continue;
    say_sizes(p, i, want, sizeof want);
    FL_FAIL(p->c, FLAME_BAD_ARGUMENT, "program", "input %s has shape %s, and no graph of the "
            "program is for it: it takes (%s)", q->name, fl_shape_text(have, s->rank, s->size),
            want);
    return NULL;
  }
  FL_FAIL(p->c, FLAME_INTERNAL, "program", "no graph takes the inputs");
  return NULL;
}

static flame_status read_inputs(flame_program *p, int nin, flame_tensor *const *in, fl_node **to) {
  flame_context *c = p->c;
  char a[16], b[16];
  for (int i = 0; i < nin; i++) {
    const fl_port *q = &p->input.at[i];
    if (!in[i]) return FL_FAIL(c, FLAME_BAD_ARGUMENT, "program", "input %s is NULL", q->name);
    if (in[i]->ctx != c)
      return FL_FAIL(c, FLAME_BAD_ARGUMENT, "program", "input %s is of another context", q->name);
    if (!fl_tensor_open(in[i], "program")) return FLAME_BAD_ARGUMENT;
    const fl_node *n = in[i]->node;
    if (n->dtype != q->dtype)
      return FL_FAIL(c, FLAME_BAD_ARGUMENT, "program", "input %s is %s, need %s", q->name,
                     fl_dtype_name(n->dtype), fl_dtype_name(q->dtype));
    fl_device_name(n->device, a);
    fl_device_name(c->default_device, b);
    if (n->device != c->default_device)
      return FL_FAIL(c, FLAME_BAD_ARGUMENT, "program", "input %s is on %s and the program on %s",
                     q->name, a, b);
    if (!(to[i] = n_detach(in[i]->node)) || !(to[i] = n_contiguous(to[i]))) return c->err.code;
  }
  return FLAME_OK;
}

static flame_status make_outputs(flame_program *p, fl_node *const *node, flame_tensor **out) {
  assert(out || p->output.n == 0);
  for (int64_t i = 0; i < p->output.n; i++)
    if (!(out[i] = fl_tensor_new(p->c, node[i]))) return p->c->err.code;
  return FLAME_OK;
}

/* Undoes a failed run, which then has had no effect. */
static void undo(flame_program *p, fl_node *const *before, flame_tensor **out) {
  assert(out || p->output.n == 0);
  for (int64_t i = 0; i < p->state.n; i++)
    if (p->state.at[i].now->node != before[i]) fl_tensor_rename(p->state.at[i].now, before[i]);
  for (int64_t i = 0; i < p->output.n; i++) {
    fl_tensor_release(out[i]);
    out[i] = NULL;
  }
}

static flame_status record(flame_program *p, int nin, flame_tensor *const *in, flame_tensor **out,
                           fl_node **state) {
  flame_context *c = p->c;
  fl_node *from[FL_GRAPH_PORTS] = { NULL }, *to[FL_GRAPH_PORTS];
  fl_build b = { .p = p, .input = from, .state = state, .output = to, .rng = p->rng };
  state_nodes(p, state);
  for (int64_t i = 0; i < p->state.n; i++)                  /* a write must not free their nodes */
    if (!fl_scope_hold(c, state[i])) return c->err.code;
  const uint8_t mode = c->grad_mode;
  c->grad_mode = 0;
  flame_status e = read_inputs(p, nin, in, from);
  c->grad_mode = mode;
  if (e == FLAME_OK && !(b.g = choose(p, from, &b.n))) e = c->err.code;
  if (e == FLAME_OK) e = fl_graph_build(&b);
  if (e == FLAME_OK) e = make_outputs(p, to, out);
  if (e == FLAME_OK) p->rng = b.rng;
  else undo(p, state, out);
  return e;
}

flame_status flame_program_run(flame_program *p, int nin, flame_tensor *const *in, int nout,
                               flame_tensor **out) {
  FL_HOLD(p ? p->c : NULL, FLAME_BAD_ARGUMENT);
  flame_context *c = p->c;
  for (int i = 0; out && i < nout; i++) out[i] = NULL;
  if (nin != p->input.n || nout != p->output.n || (nin && !in) || (nout && !out))
    return FL_FAIL(c, FLAME_BAD_ARGUMENT, "program", "%d inputs and %d outputs are given, the "
                   "program has %d and %d", nin, nout, (int)p->input.n, (int)p->output.n);
  fl_node *few[16], **state = few;
  const size_t bytes = sizeof *state * (size_t)p->state.n;
  if (p->state.n > 16 && !(state = fl_alloc(&c->mem, bytes))) return no_memory(c);
  FL_ENTER(c);
  const flame_status e = record(p, nin, in, out, state);
  FL_LEAVE(c);
  if (state != few) fl_free(&c->mem, state, bytes);
  return e;
}
