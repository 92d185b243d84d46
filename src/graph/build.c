/*
** Records the graph of a saved program again. Each line goes to a builder of tensor/build.h, so
** that shapes, dtypes and devices are checked by the rules that hold for scripts. What the builders
** do not check is checked here: positions of gathers and scatters come from an 'index' for as many
** elements or fewer, or are some of those that an 'iota' counts from 0.
*/
#include "graph/graph.h"
#include "tensor/form.h"
#include <assert.h>
#include <string.h>

typedef struct cursor {
  fl_build *b;
  flame_context *c;
  const fl_line *l;
  int at, bad;
} cursor;

static const char *name_of(const fl_line *l) {
  static const char *const more[] = { "input", "output", "write", "draws" };
  return l->op < FL_OP_COUNT ? fl_ops[l->op].name : more[l->op - FL_OP_COUNT];
}

static void wrong(cursor *r, const char *need) {
  if (!r->bad && r->c->err.code == FLAME_OK)
    fl_graph_fail(r->b->p, r->l->number, "'%s': term %d must be %s", name_of(r->l), r->at + 1,
                  need);
  r->bad = 1;
}

static const fl_term *take(cursor *r, int kind, const char *need) {
  static const fl_term none = { .word = "" };
  if (r->bad) return &none;
  if (r->at < r->l->n && r->l->term[r->at].kind == kind) return &r->l->term[r->at++];
  wrong(r, need);
  return &none;
}

static int64_t linear(cursor *r, const fl_term *t) {
  int64_t v;
  if (t->b == 0 && t->d == 0) return t->a;
  if (__builtin_mul_overflow(t->b, r->b->n, &v) || __builtin_add_overflow(v, t->a, &v)) {
    wrong(r, "smaller");
    return 0;
  }
  return t->d ? v / t->d + (v % t->d > 0) : v;
}

static int64_t integer(cursor *r) { return linear(r, take(r, FL_TERM_INT, "an integer")); }

static int64_t within(cursor *r, int64_t low, int64_t high) {
  const int64_t v = integer(r);
  if (v >= low && v <= high) return v;
  wrong(r, "in range");
  return low;
}

static int dtype(cursor *r) { return (int)take(r, FL_TERM_DTYPE, "a dtype")->a; }

static void sizes(cursor *r, int n, int64_t *to) { for (int i = 0; i < n; i++) to[i] = integer(r); }

/* Reads the sizes at the end of the line; returns how many. */
static int rest_sizes(cursor *r, int64_t to[FL_MAX_AXES]) {
  const int n = r->l->n - r->at;
  if (n > FL_MAX_AXES) wrong(r, "the last: there are more than 8 sizes");
  else sizes(r, n, to);
  return n;
}

static int is_number(const fl_term *t) {
  return t->kind == FL_TERM_NUMBER || t->kind == FL_TERM_REAL || t->kind == FL_TERM_BITS;
}

static double real_of(cursor *r, const fl_term *t) {
  const fl_scalar bits = { .i = t->a };
  return t->kind == FL_TERM_BITS ? bits.d : (double)linear(r, t);
}

/* A number of the class of 'type'. */
static fl_scalar number(cursor *r, int type) {
  fl_scalar v = { .i = 0 };
  const int ok = !r->bad && r->at < r->l->n && is_number(&r->l->term[r->at]) &&
                 fl_is_float(type) == (r->l->term[r->at].kind != FL_TERM_NUMBER);
  if (!ok) wrong(r, fl_is_float(type) ? "a number (#…)" : "an integer (=…)");
  else if (fl_is_float(type)) v.d = real_of(r, &r->l->term[r->at++]);
  else v.i = linear(r, &r->l->term[r->at++]);
  return v;
}

static fl_node *value(cursor *r) {
  flame_program *p = r->b->p;
  const fl_term *t = take(r, FL_TERM_VALUE, "a value");
  if (r->bad) return NULL;
  fl_node **from = t->space == '%' ? p->value.at : t->space == 'x' ? r->b->input
                 : t->space == 'c' ? p->constant.at : t->space == 's' ? r->b->state : NULL;
  const int64_t n = t->space == '%' ? p->value.n : t->space == 'x' ? p->input.n
                  : t->space == 'c' ? p->constant.n : p->state.n;
  if (from && t->a < n && from[t->a]) return from[t->a];
  r->at--;
  wrong(r, "a value that is there by now");
  return NULL;
}

/* Reads an operand: a value, or a number as a node for a builder. */
static fl_node *operand(cursor *r) {
  const fl_term *t = r->at < r->l->n ? &r->l->term[r->at] : NULL;
  if (!t || !is_number(t)) return value(r);
  r->at++;
  if (t->kind == FL_TERM_NUMBER) return n_int(r->c, linear(r, t));
  return n_num(r->c, real_of(r, t));
}

/* Reads values to the end of the line; returns how many. */
static int rest_values(cursor *r, int most, fl_node **to) {
  const int n = r->l->n - r->at;
  if (n > most) wrong(r, "the last: there are too many values");
  for (int i = 0; i < n && !r->bad; i++) to[i] = value(r);
  return r->bad ? 0 : n;
}

/* ---- ops ------------------------------------------------------------------------------------- */

static fl_node *elementwise(cursor *r) {
  fl_node *x[3] = { NULL };
  const int form = fl_ops[r->l->op].form, op = r->l->op;
  if (form == FL_FORM_REDUCE) {
    const int64_t axes = within(r, 0, (1 << FL_MAX_AXES) - 1);
    x[0] = value(r);
    return r->bad ? NULL : fl_build_reduce(op, x[0], (uint32_t)axes, 1);
  }
  for (int i = 0; i < fl_ops[op].nin; i++) x[i] = operand(r);
  if (r->bad) return NULL;
  return form == FL_FORM_UNARY ? fl_build_unary(op, x[0])
       : form == FL_FORM_BINARY ? fl_build_binary(op, x[0], x[1])
                                : fl_build_ternary(op, x[0], x[1], x[2]);
}

static fl_node *draw(cursor *r) {
  int64_t size[FL_MAX_AXES];
  const int op = r->l->op, t = dtype(r), of = op == FL_OP_randint ? FLAME_I64 : FLAME_F64;
  r->c->rng.counter += (uint64_t)within(r, 0, INT64_MAX);
  const fl_scalar a = number(r, of), b = number(r, of);
  const int rank = rest_sizes(r, size);
  if (r->bad) return NULL;
  if (op == FL_OP_draw_key) return n_draw_key(r->c, r->c->default_device, 2);
  return op == FL_OP_randint ? n_randint(r->c, t, r->c->default_device, rank, size, a.i, b.i)
                             : n_random(r->c, op, t, r->c->default_device, rank, size, a.d, b.d);
}

static fl_node *view(cursor *r) {
  int64_t size[FL_MAX_AXES], stride[FL_MAX_AXES];
  const int64_t at = integer(r);
  const int rank = (int)within(r, 0, FL_MAX_AXES);
  sizes(r, rank, size);
  if (!r->bad && r->at + 1 < r->l->n) sizes(r, rank, stride);
  else fl_row_major(rank, size, stride);
  fl_node *x = value(r);
  return r->bad ? NULL : n_strided(x, rank, size, stride, at);
}

/* Is it certain that the position of every element is below the size of x's axis? */
static int is_checked(const fl_node *x, int64_t axis, const fl_node *i) {
  assert(x && i);
  if (i->base) i = i->base;
  if (i->op == FL_OP_copy && i->state == FL_PENDING) i = i->in[0]->base ? i->in[0]->base : i->in[0];
  if (axis < 0 || axis >= x->shape->rank || i->state != FL_PENDING) return 0;
  const int64_t n = x->shape->size[axis];
  if (i->op == FL_OP_iota)                       /* the gradient of a view that repeats elements */
    return i->attr && i->attr->flags & FL_IOTA_COUNT && i->shape->numel <= n;
  return i->op == FL_OP_index && i->scal[0].i >= 0 && i->scal[0].i <= n;
}

/* The arguments of a line: each is read for a letter in 'words' of the op's row in ops.def. */
typedef struct said {
  int dtype, rank;
  fl_scalar s[2];
  int64_t n, size[FL_MAX_AXES];
  fl_attr a;
} said;

static void read_region(cursor *r, said *w) {
  w->rank = (int)within(r, 0, FL_MAX_AXES);
  sizes(r, w->rank, w->a.start);
  sizes(r, w->rank, w->a.step);
  sizes(r, w->rank, w->a.size);
}

static void read_words(cursor *r, said *w, const char *words) {
  for (; *words; words++) {
    switch (*words) {
      case 't': w->dtype = dtype(r); break;
      case '0': case '1': w->s[*words - '0'] = number(r, w->dtype); break;
      case 's': w->rank = rest_sizes(r, w->size); break;
      case 'a': w->a.axis = (int8_t)within(r, 0, FL_MAX_AXES - 1); break;
      case 'o': w->a.flags = (uint8_t)within(r, 0, 2); break;
      case 'f': w->a.flags = (uint8_t)within(r, 0, 7); break;
      case '+': w->a.add = (int8_t)within(r, 0, 1); break;
      case 'n': w->n = within(r, 0, INT64_MAX); break;
      default: read_region(r, w);
    }
  }
}

static fl_node *addressed(cursor *r, const said *w, fl_node **x) {
  const int axis = w->a.axis, own = w->a.flags;
  if (!is_checked(x[0], axis, x[1])) {
    wrong(r, "the result of an index for that axis, or count its positions");
    return NULL;
  }
  if (r->l->op == FL_OP_gather)
    return own ? n_gather_axis(x[0], axis, x[1]) : n_take_axis(x[0], axis, x[1]);
  return own ? n_scatter_axis(x[0], axis, x[1], x[2], w->a.add)
             : n_put_axis(x[0], axis, x[1], x[2], w->a.add);
}

static fl_node *replaced(cursor *r, const said *w, fl_node **x) {
  assert(x[0]);
  if (x[0]->shape->rank == w->rank)
    return n_setslice(x[0], w->a.start, w->a.step, w->a.size, x[1]);
  wrong(r, "a value of as many axes");
  return NULL;
}

static fl_node *product(cursor *r, fl_node **x) {
  if (r->at == r->l->n) return n_matmul(x[0], x[1]);
  fl_node *third = value(r);
  return third && third->shape->rank > 1 ? n_matmul_add(x[0], x[1], third)
                                         : n_matmul_bias(x[0], x[1], third);
}

static fl_node *form(cursor *r) {
  fl_node *in[FL_FORM_INPUTS];
  const int axis = (int)within(r, 0, FL_MAX_AXES - 1), n = (int)within(r, 0, r->l->n);
  int16_t *code = fl_alloc(&r->c->mem, sizeof *code * (size_t)n);
  if (!code) {
    FL_FAIL(r->c, FLAME_NO_MEMORY, "program", "no host memory");
    return NULL;
  }
  for (int i = 0; i < n; i++) code[i] = (int16_t)within(r, INT16_MIN, INT16_MAX);
  const int nin = rest_values(r, FL_FORM_INPUTS, in);
  fl_node *y = r->bad ? NULL : n_form(r->c, "program", axis, nin, in, code, n);
  fl_free(&r->c->mem, code, sizeof *code * (size_t)n);
  return y;
}

static fl_kfunction *kernel(cursor *r) {
  const fl_term *t = take(r, FL_TERM_VALUE, "a kernel");
  if (!r->bad && t->space == 'k' && t->a < r->b->p->kernel.n) return r->b->p->kernel.at[t->a];
  wrong(r, "a kernel that is there");
  return NULL;
}

static fl_node *call(cursor *r) {
  int64_t size[FL_MAX_AXES], p[FL_CALL_PARAMS] = { 0 };
  fl_scalar s[FL_KP_SCALARS];
  fl_node *in[FL_CALL_INPUTS] = { NULL };
  const int kind = r->l->call;
  flame_context *c = r->c;
  take(r, FL_TERM_WORD, "a call");
  const char *what = take(r, FL_TERM_WORD, "a name")->word;
  const int t = dtype(r), rank = (int)within(r, 0, FL_MAX_AXES);
  sizes(r, rank, size);
  const int np = (int)within(r, 0, FL_CALL_PARAMS);
  sizes(r, np, p);
  const int ns = (int)within(r, 0, FL_KP_SCALARS);
  for (int i = 0; i < ns; i++) s[i].i = integer(r);
  fl_kfunction *k = kind == FL_CALL_kernel ? kernel(r) : NULL;
  const int nin = rest_values(r, FL_CALL_INPUTS, in);
  if (!r->bad && fl_calls[kind].faults == FL_FAULTS_EFFECT) wrong(r, "no collective");
  if (r->bad) return NULL;
  assert(in[0] || nin == 0);
  const int device = nin ? in[0]->device : c->default_device;
  if (k) return fl_graph_launch(c, k, device, t, rank, size, nin, in, np, p, ns, s);
  return n_call(c, kind, *what == '_' ? what + 1 : what, nin, in, device, t, rank, size, np, p,
                NULL, ns, s);
}

static fl_node *special(cursor *r) {
  fl_node *x[255] = { NULL };
  flame_context *c = r->c;
  said w = { 0 };
  const fl_op_info *op = &fl_ops[r->l->op];
  int n = 0;
  if (op->words) {
    read_words(r, &w, op->words);
    if (op->nin < 0) n = rest_values(r, 255, x);
    else for (; n < op->nin; n++) x[n] = value(r);
    if (r->bad) return NULL;
  }
  switch (r->l->op) {
#define UNARY(...)
#define BINARY(...)
#define TERNARY(...)
#define REDUCE(...)
#define SPECIAL(name, nin, fusion, memory, reads, words, made, doc) case FL_OP_##name: return made;
#include "tensor/ops.def"
    default: return NULL;
  }
}

/* ---- lines ----------------------------------------------------------------------------------- */

static int write_state(cursor *r) {
  flame_program *p = r->b->p;
  const fl_term *t = take(r, FL_TERM_VALUE, "a state");
  if (!r->bad && (t->space != 's' || t->a >= p->state.n)) wrong(r, "a state");
  fl_node *v = value(r);
  if (r->bad) return 0;
  const fl_node *old = p->state.at[t->a].first;
  if (v->dtype != old->dtype || v->shape != old->shape || v->device != old->device)
    wrong(r, "of the state's shape and dtype");
  if (r->bad || r->b->trial) return !r->bad;
  return fl_tensor_write(p->state.at[t->a].now, v, "program") == FLAME_OK;
}

static int put_line(cursor *r, int64_t *made, int *outputs) {
  fl_node *y;
  switch (r->l->op) {
    case FL_LINE_INPUT: return 1;                      /* inputs were read when the graph was
                                                       ** chosen */
    case FL_LINE_WRITE: return write_state(r);
    case FL_LINE_DRAWS:
      r->c->rng.counter += (uint64_t)within(r, 0, INT64_MAX);
      return !r->bad;
    case FL_LINE_OUTPUT:
      take(r, FL_TERM_WORD, "a name");
      y = value(r);
      if (!r->bad && *outputs == r->b->p->output.n) wrong(r, "no more than the other graphs have");
      if (!r->bad) r->b->output[(*outputs)++] = y;
      return !r->bad;
    default:
      y = fl_ops[r->l->op].form == FL_FORM_SPECIAL ? special(r) : elementwise(r);
      if (!y && !r->bad && r->c->err.code == FLAME_OK)
        fl_graph_fail(r->b->p, r->l->number, "no program has the op '%s'", name_of(r->l));
      if (y && r->at < r->l->n) wrong(r, "the last");
      r->b->p->value.at[(*made)++] = y;
      return y && !r->bad;
  }
}

flame_status fl_graph_build(fl_build *b) {
  flame_program *p = b->p;
  flame_context *c = p->c;
  const uint8_t mode = c->grad_mode;
  const fl_rng rng = c->rng;
  int64_t made = 0;
  int outputs = 0, ok = 1;
  memset(p->value.at, 0, sizeof *p->value.at * (size_t)p->value.n);
  c->grad_mode = 0;
  c->rng = b->rng;
  for (int32_t i = 0; ok && i < b->g->n; i++) {
    cursor r = { .b = b, .c = c, .l = &p->line.at[b->g->first + i] };
    ok = put_line(&r, &made, &outputs);
    if (!ok) p->bad = r.l->number;
  }
  if (ok && outputs < p->output.n) {
    fl_graph_fail(p, p->line.at[b->g->first].number, "the graph has too few outputs");
    ok = 0;
  }
  c->grad_mode = mode;
  b->rng = c->rng;
  c->rng = rng;
  if (ok) return FLAME_OK;
  return c->err.code != FLAME_OK ? c->err.code
                                 : FL_FAIL(c, FLAME_INTERNAL, "program", "a line failed");
}
