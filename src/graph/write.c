/*
** A trace as text: a line for each node that the results and the states need, in recorded order
** (docs/programs.md). A line has the arguments of a builder of tensor/build.h, to which build.c
** passes it.
*/
#include "graph/graph.h"
#include "tensor/form.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct writer {
  fl_export *x;
  flame_context *c;
  fl_text *t;
  int32_t values;                   /* number of lines so far that made a value */
  uint64_t counter;                 /* random numbers taken so far */
  const fl_node *at;                /* the node being written */
  struct { fl_node **at; int64_t n, cap; } todo;
  flame_status e;
} writer;

#define PUT(w, ...) fl_text_printf((w)->t, __VA_ARGS__)

static void fail(writer *w, flame_status code, const char *what) {
  if (w->e != FLAME_OK) return;
  if (w->c->err.code == FLAME_OK && w->at) w->c->err.site = w->at->site;
  w->e = FL_FAIL(w->c, code, "export", "%s", what);
}

/* Begins the text line of an op that the script recorded at 'site' (a line of the script). */
static void begin(writer *w, const char *op, uint32_t site) {
  uint32_t *s = FL_PUSH(&w->c->mem, &w->x->site);
  if (s) *s = site;
  else fail(w, FLAME_NO_MEMORY, "no host memory");
  PUT(w, "%s", op);
}

static void end(writer *w) { PUT(w, "\n"); }

static void put_sizes(writer *w, int n, const int64_t *size) {
  for (int i = 0; i < n; i++) PUT(w, " %" PRId64, size[i]);
}

static void put_number(writer *w, int dtype, fl_scalar v) {
  if (!fl_is_float(dtype)) PUT(w, " =%" PRId64, v.i);
  else if (v.d == nearbyint(v.d) && fabs(v.d) < 9007199254740992.0 && !(v.d == 0 && signbit(v.d)))
    PUT(w, " #%.0f", v.d);
  else PUT(w, " #x%016" PRIx64, (uint64_t)v.i);
}

/* ---- values ---------------------------------------------------------------------------------- */

typedef struct ref { char kind; int64_t number; } ref;

static void put_view(writer *w, const fl_node *n, ref base, int64_t at) {
  begin(w, "view", n->site);
  PUT(w, " %" PRId64 " %d", at, n->layout->rank);
  put_sizes(w, n->layout->rank, n->layout->size);
  if (!n->layout->contiguous) put_sizes(w, n->layout->rank, n->layout->stride);
  PUT(w, " %c%" PRId64, base.kind, base.number);
  end(w);
}

/* How a line refers to n's value: by the number of the line that computes it, or as an input, state
** or constant. If it is a part of a stored array, a line with a view is added first. */
static ref value_of(writer *w, fl_node *n) {
  ref r = { '%', 0 };
  if (!n) fail(w, FLAME_INTERNAL, "an operand is missing");
  else if (n->state == FL_PENDING) r.number = n->slot;
  else if (n->state != FL_STORED) w->e = fl_node_raise(n);
  if (!n || n->state != FL_STORED) return r;
  int64_t at = 0;
  if (!fl_export_leaf(w->x, n, &r.kind, &r.number, &at)) {
    w->e = w->c->err.code;
    return r;
  }
  const fl_node *base = fl_export_base(w->x, r.kind, r.number);
  if (at == 0 && base->shape == n->shape && n->layout->contiguous) return r;
  put_view(w, n, r, at);
  return (ref){ '%', w->values++ };
}

static void put_ref(writer *w, ref r) { PUT(w, " %c%" PRId64, r.kind, r.number); }

/* operands finds the references to n's operands, which may add lines, so it is called before n's
** line begins. put_operands writes them: references, or numbers of the class of 'dtype'. */
static void operands(const fl_node *n, writer *w, ref *r) {
  for (int i = 0; i < n->nin; i++) r[i] = n->in[i] ? value_of(w, n->in[i]) : (ref){ 0 };
}

static void put_operands(writer *w, const fl_node *n, const ref *r) {
  int dtype = -1;
  const int first = n->op == FL_OP_where;
  for (int i = first; i < n->nin && dtype < 0; i++) if (n->in[i]) dtype = n->in[i]->dtype;
  if (dtype < 0) dtype = n->dtype;
  for (int i = 0; i < n->nin; i++)
    if (n->in[i]) put_ref(w, r[i]);
    else put_number(w, dtype, n->scal[i]);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static void put_draw(writer *w, const fl_node *n) {
  const int64_t words = n->shape->numel * (n->op == FL_OP_randint || n->dtype == FLAME_F64 ? 2 : 1);
  if ((uint64_t)n->scal[3].i != w->x->rng.seed || (uint64_t)n->scal[2].i < w->counter) {
    fail(w, FLAME_BAD_ARGUMENT, "f sets the seed" FL_DO ": leave that to program:seed()");
    return;
  }
  PUT(w, " %s %" PRId64, fl_dtype_name(n->dtype), n->scal[2].i - (int64_t)w->counter);
  const int dtype = n->op == FL_OP_randint ? FLAME_I64 : FLAME_F64, key = n->op == FL_OP_draw_key;
  put_number(w, dtype, key ? (fl_scalar){ .d = 0 } : n->scal[0]);
  put_number(w, dtype, key ? (fl_scalar){ .d = 0 } : n->scal[1]);
  put_sizes(w, n->shape->rank, n->shape->size);
  fl_rng r = { 0, (uint64_t)n->scal[2].i };
  fl_rng_take(&r, words);
  w->counter = r.counter;
}

static void put_word(writer *w, const char *s) {
  PUT(w, " _");
  for (; *s; s++) {
    const int plain = (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') ||
                      (*s >= '0' && *s <= '9') || *s == '_' || *s == '.';
    PUT(w, "%c", plain ? *s : '_');
  }
}

/* Writes the number of blocks along x. If it is the number that one thread for each element of the
** first result needs, it is written as "elements/threads of a block", so that it can vary with the
** size. */
static void put_blocks(writer *w, const fl_call *k, const fl_kfunction *f) {
  const int64_t *p = k->p, *b = p + FL_KP_BLOCK;
  int64_t bytes = -1;
  int i = 0;
  for (; i < p[FL_KP_COUNT_ARGS] && bytes < 0; i++) {
    const int64_t v = p[FL_KP_ARGS + 2 * i], kind = v & 7;
    if (kind == FL_KARG_OUT || kind == FL_KARG_RAW) bytes = v >> 3;
    else if (kind == FL_KARG_COPY) bytes = k->in_numel[v >> 3] * fl_dtype_size(k->in_dtype[v >> 3]);
  }
  const int64_t one = bytes < 0 ? 0 : f->f->params[i - 1].pointee_size;
  const int64_t n = one > 0 ? bytes / one : 0;
  if (n > 0 && p[1] == 1 && p[2] == 1 && b[1] == 1 && b[2] == 1 && (n + b[0] - 1) / b[0] == p[0])
    PUT(w, " %" PRId64 "/%" PRId64, n, b[0]);
  else PUT(w, " %" PRId64, p[0]);
}

static void put_call(writer *w, const fl_node *n, const ref *r) {
  const fl_call *k = n->attr->call;
  int np = FL_CALL_PARAMS;
  const int kernel = k->kind == FL_CALL_kernel;
  if (fl_calls[k->kind].faults == FL_FAULTS_EFFECT) {
    fail(w, FLAME_BAD_ARGUMENT, "f calls a collective, which programs do not have");
    return;
  }
  const fl_kfunction *f = (const fl_kfunction *)(const void *)k->callee;
  if (kernel && (f->binary || !f->f)) {
    fail(w, FLAME_NOT_SUPPORTED,
         "a kernel is a binary, which programs do not have" FL_DO ": give its source");
    return;
  }
  if (kernel && k->p[FL_KP_BATCH]) {
    fail(w, FLAME_NOT_SUPPORTED, "f launches a kernel over a batch (vmap), which programs do not "
         "have" FL_DO ": launch it for each");
    return;
  }
  while (np > 0 && k->p[np - 1] == 0) np--;
  if (kernel) np = FL_KP_ARGS + 2 * (int)k->p[FL_KP_COUNT_ARGS];
  PUT(w, " %s", fl_calls[k->kind].name);
  put_word(w, k->what);
  PUT(w, " %s %d", fl_dtype_name(n->dtype), n->shape->rank);
  put_sizes(w, n->shape->rank, n->shape->size);
  PUT(w, " %d", np);
  if (kernel) put_blocks(w, k, f);
  for (int i = kernel; i < np; i++)
    PUT(w, " %" PRId64, kernel && i == FL_KP_CHECKS ? 0 : k->p[i]);
  /* n_call gives a call that reports faults late its only scalar itself */
  const int ns = fl_calls[k->kind].faults == FL_FAULTS_LATE ? 0 : k->nscalar;
  PUT(w, " %d", ns);
  for (int i = 0; i < ns; i++) PUT(w, " %" PRId64, k->scalar[i].i);
  if (kernel) {
    const int64_t number = fl_export_kernel(w->x, (fl_kfunction *)(void *)k->callee);
    if (number < 0) w->e = w->c->err.code;
    put_ref(w, (ref){ 'k', number });
  }
  for (int i = 0; i < n->nin; i++) put_ref(w, r[i]);
}

/* Writes n's arguments: one for each letter of 'words', which the op's row in ops.def has (and
** ops.def explains). */
static void put_words(writer *w, const fl_node *n, const char *words) {
  const fl_attr *a = n->attr;
  const int rank = n->shape->rank;
  for (; *words; words++) {
    switch (*words) {
      case 't': PUT(w, " %s", fl_dtype_name(n->dtype)); break;
      case '0': case '1': put_number(w, n->dtype, n->scal[*words - '0']); break;
      case 's': put_sizes(w, rank, n->shape->size); break;
      case 'a': PUT(w, " %d", a->axis); break;
      case 'o': PUT(w, " %d", a->flags & 1); break;
      case 'f': PUT(w, " %d", a->flags); break;
      case '+': PUT(w, " %d", a->add); break;
      case 'n': PUT(w, " %" PRId64, n->scal[0].i); break;
      default:
        PUT(w, " %d", rank);
        put_sizes(w, rank, a->start);
        put_sizes(w, rank, a->step);
        put_sizes(w, rank, a->size);
    }
  }
}

static void put_form(writer *w, const fl_node *n) {
  const fl_attr *a = n->attr;
  PUT(w, " %d %d", a->axis, a->form->n);
  for (int i = 0; i < a->form->n; i++) PUT(w, " %d", a->form->code[i]);
}

static void put_special(writer *w, const fl_node *n, const ref *r) {
  const char *words = fl_ops[n->op].words;
  if (words) put_words(w, n, words);
  else if (n->op == FL_OP_form) put_form(w, n);
  else if (n->op == FL_OP_call) { put_call(w, n, r); return; }
  else if (n->nin == 0) put_draw(w, n);
  else fail(w, FLAME_INTERNAL, "an op has no form in programs");
  for (int i = 0; i < n->nin; i++) put_ref(w, r[i]);
}

static void put_node(writer *w, fl_node *n) {
  ref r[255] = { { 0 } };
  w->at = n;
  if (n->base) {
    put_view(w, n, (ref){ '%', n->base->slot }, n->offset);
  } else {
    operands(n, w, r);
    begin(w, fl_ops[n->op].name, n->site);
    if (fl_ops[n->op].form == FL_FORM_SPECIAL) put_special(w, n, r);
    else if (fl_ops[n->op].form == FL_FORM_REDUCE) {
      PUT(w, " %d", n->axes);
      put_ref(w, r[0]);
    } else put_operands(w, n, r);
    end(w);
  }
  n->slot = w->values++;
}

/* ---- the graph ------------------------------------------------------------------------------- */

static void mark(writer *w, fl_node *n) {
  if (!n || n->state != FL_PENDING || n->mark) return;
  fl_node **top = FL_PUSH(&w->c->mem, &w->todo);
  if (!top) {
    fail(w, FLAME_NO_MEMORY, "no host memory");
    return;
  }
  *top = n;
  n->mark = 1;
}

static void mark_needed(writer *w, fl_node *root) {
  mark(w, root);
  while (w->todo.n) {
    const fl_node *n = w->todo.at[--w->todo.n];
    if (n->base) mark(w, n->base);
    for (int i = 0; !n->base && i < n->nin; i++) mark(w, n->in[i]);
  }
}

static int is_written(const fl_export *x, int64_t i) {
  return x->state.at[i]->node != fl_export_base(x, 's', i);
}

static void put_write(writer *w, int64_t i) {
  fl_node *n = w->x->state.at[i]->node;
  const ref r = value_of(w, n);
  begin(w, "write", n->site);
  PUT(w, " s%" PRId64, i);
  put_ref(w, r);
  end(w);
}

static void put_inputs(writer *w, const char *const *names) {
  for (int64_t i = 0; i < w->x->input.n; i++) {
    const fl_node *n = fl_export_base(w->x, 'x', i);
    begin(w, "input", 0);
    put_word(w, names[i]);
    PUT(w, " %s", fl_dtype_name(n->dtype));
    put_sizes(w, n->shape->rank, n->shape->size);
    end(w);
  }
}

static void put_nodes(writer *w) {
  flame_context *c = w->c;
  fl_export *x = w->x;
  for (int64_t i = 0; w->e == FLAME_OK && i < c->win.nodes.n; i++) {
    fl_node *n = c->win.nodes.at[i];
    if (!n || !n->mark) continue;
    put_node(w, n);
    if (n->mark == 1) continue;
    for (int64_t k = 0; k < x->state.n; k++)              /* immediately, while it is fresh */
      if (is_written(x, k) && x->state.at[k]->node == n) put_write(w, k);
  }
  for (int64_t i = 0; w->e == FLAME_OK && i < x->state.n; i++)
    if (is_written(x, i) && x->state.at[i]->node->state != FL_PENDING) put_write(w, i);
}

static void put_outputs(writer *w, int nout, flame_tensor *const *out, const char *const *names) {
  for (int i = 0; w->e == FLAME_OK && i < nout; i++) {
    const ref r = value_of(w, out[i]->node);
    begin(w, "output", 0);
    put_word(w, names[i]);
    put_ref(w, r);
    end(w);
  }
  if (w->c->rng.counter < w->counter || w->c->rng.seed != w->x->rng.seed)
    fail(w, FLAME_BAD_ARGUMENT, "f sets the seed" FL_DO ": leave that to program:seed()");
  if (w->c->rng.counter > w->counter) {
    begin(w, "draws", 0);
    PUT(w, " %" PRId64, (int64_t)(w->c->rng.counter - w->counter));
    end(w);
  }
}

flame_status fl_export_write(fl_export *x, int nout, flame_tensor *const *out,
                             const char *const *names, const char *const *inputs, fl_text *text) {
  flame_context *c = x->c;
  writer w = { .x = x, .c = c, .t = text, .counter = x->rng.counter, .e = FLAME_OK };
  x->site.n = 0;
  for (int i = 0; i < nout; i++) mark_needed(&w, out[i]->node);
  for (int64_t i = 0; i < x->state.n; i++) mark_needed(&w, x->state.at[i]->node);
  for (int64_t i = 0; i < x->state.n; i++)
    if (x->state.at[i]->node->state == FL_PENDING) x->state.at[i]->node->mark = 2;
  put_inputs(&w, inputs);
  put_nodes(&w);
  put_outputs(&w, nout, out, names);
  for (int64_t i = 0; i < c->win.nodes.n; i++) if (c->win.nodes.at[i]) c->win.nodes.at[i]->mark = 0;
  FL_DROP(&c->mem, &w.todo);
  if (w.e == FLAME_OK && text->failed)
    w.e = FL_FAIL(c, FLAME_NO_MEMORY, "export", "no host memory for the text of the program");
  return w.e;
}
