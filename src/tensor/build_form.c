/*
** Records forms: sums of products of slices, which a list of integers, the code, describes
** (tensor/form.h). Checks that a code fits its inputs.
*/
#include "tensor/form.h"
#include "tensor/build_util.h"
#include <string.h>

typedef struct reader { const int16_t *code; int n, at, bad; } reader;

static int next(reader *r) {
  if (r->at < r->n) return r->code[r->at++];
  r->bad = 1;
  return 0;
}

static int next_in(reader *r, int low, int high) {
  const int v = next(r);
  if (v < low || v > high) r->bad = 1;
  return v;
}

static int next_sign(reader *r) {
  const int v = next(r);
  if (v != 1 && v != -1) r->bad = 1;
  return v;
}

/* Marks component i of input q as read. Returns how many are new: 0 or 1. */
static int note(uint8_t seen[FL_FORM_INPUTS][256], int q, int i) {
  return i >= 0 && i < 256 && !seen[q][i]++;
}

/* Checks the groups (sums of products, each times a component of the last input if the form has
** one: form.h) of one component of the result. many: the number of components of each input. */
static void check_component(reader *r, fl_form_code *f, const int64_t *many) {
  uint8_t seen[FL_FORM_INPUTS][256] = { { 0 } };
  const int factors = fl_form_factors(f), last = fl_form_has_last(f);
  int cost = 0, reads = 0;
  for (int g = next_in(r, 0, INT16_MAX); g > 0 && !r->bad; g--) {
    next_sign(r);
    const int at = last ? next_in(r, 0, (int)many[factors] - 1)
                        : next_in(r, FL_FORM_NONE, FL_FORM_NONE);
    if (last) reads += note(seen, factors, at);
    cost += 1 + last;
    for (int t = next_in(r, 1, INT16_MAX); t > 0 && !r->bad; t--) {
      int some = 0;
      next_sign(r);
      for (int q = 0; q < factors; q++) {
        const int i = next_in(r, FL_FORM_NONE, (int)many[q] - 1);
        some |= i >= 0;
        reads += note(seen, q, i);
        cost++;
      }
      r->bad |= !some;
    }
  }
  if (cost > f->cost) f->cost = cost;
  if (reads > f->reads) f->reads = reads;
}

/* Does the code fit inputs with this many components? Sets f->cost and f->reads. */
static int code_fits(fl_form_code *f, int nin, const int64_t *many) {
  if (f->n < FL_FORM_HEAD || fl_form_factors(f) < 1 || fl_form_components(f) < 1 ||
      (fl_form_has_last(f) | 1) != 1 || fl_form_factors(f) + fl_form_has_last(f) != nin ||
      f->n < FL_FORM_HEAD + fl_form_components(f)) return 0;
  for (int q = 0; q < nin; q++) if (many[q] > 256) return 0;
  for (int k = 0; k < fl_form_components(f); k++) {
    reader r = { f->code, f->n, f->code[FL_FORM_HEAD + k], 0 };
    if (r.at < FL_FORM_HEAD) return 0;
    check_component(&r, f, many);
    if (r.bad || f->reads > FL_FORM_READS) return 0;
  }
  return 1;
}

void fl_form_free(flame_context *c, fl_form_code *f) {
  fl_free(&c->mem, f, sizeof *f + sizeof *f->code * (size_t)f->n);
}

static fl_form_code *form_of(flame_context *c, const char *what, const void *code, int n, int nin,
                             const int64_t *many) {
  fl_form_code *f = fl_alloc(&c->mem, sizeof *f + sizeof *f->code * (size_t)n);
  if (!f) return fl_no_memory(c, what);
  *f = (fl_form_code){ .n = n };
  memcpy(f->code, code, sizeof *f->code * (size_t)n);
  if (code_fits(f, nin, many)) return f;
  FL_FAIL(c, FLAME_BAD_ARGUMENT, what, "the code of a form does not fit its %d inputs", nin);
  fl_form_free(c, f);
  return NULL;
}

/* Finds 'size', the sizes of the result except its number of components, and 'many', the number of
** components of each input. Returns 0 with an error. */
static int form_sizes(flame_context *c, const char *what, int axis, int nin, fl_node *const *in,
                      int64_t *size, int64_t *many) {
  char a[FL_SHAPE_TEXT], b[FL_SHAPE_TEXT];
  for (int q = 0; q < nin; q++) {
    if (!in[q] || !fl_usable(in[q], what) || !fl_same_device(in[0], in[q], what)) return 0;
    const fl_layout *l = in[q]->shape;
    int64_t own[FL_MAX_AXES];
    int ok = l->rank == in[0]->shape->rank && axis >= 0 && axis < l->rank &&
             in[q]->dtype == in[0]->dtype && fl_is_float(in[q]->dtype);
    if (ok) {
      memcpy(own, l->size, sizeof own);
      many[q] = own[axis];
      own[axis] = 1;
      if (q == 0) memcpy(size, own, sizeof own);
      ok = fl_broadcast(l->rank, size, l->rank, own, size) >= 0;
    }
    if (ok) continue;
    FL_FAIL(c, FLAME_BAD_ARGUMENT, what, "inputs of shapes %s (%s) and %s (%s) make no form",
            FL_SHAPE(a, in[0]->shape), fl_dtype_name(in[0]->dtype), FL_SHAPE(b, l),
            fl_dtype_name(in[q]->dtype));
    return 0;
  }
  return 1;
}

fl_node *n_form(flame_context *c, const char *what, int axis, int nin, fl_node *const *in,
                const void *code, int n) {
  int64_t size[FL_MAX_AXES] = { 0 }, many[FL_FORM_INPUTS] = { 0 };
  if (nin < 1 || nin > FL_FORM_INPUTS) {
    FL_FAIL(c, FLAME_BAD_ARGUMENT, what, "a form has 1 to %d inputs, not %d", FL_FORM_INPUTS, nin);
    return NULL;
  }
  if (!form_sizes(c, what, axis, nin, in, size, many)) return NULL;
  fl_form_code *f = form_of(c, what, code, n, nin, many);
  if (!f) return NULL;
  size[axis] = fl_form_components(f);
  fl_layout *shape = fl_shape_of(c, in[0]->shape->rank, size, what);
  fl_node *y = shape ? fl_node_new(c, FL_OP_form, in[0]->dtype, in[0]->device, shape, nin, in)
                     : NULL;
  fl_attr *a = y ? fl_node_attr(y) : NULL;
  if (!a) {
    fl_form_free(c, f);
    return y || shape ? fl_no_memory(c, what) : NULL;
  }
  a->axis = (int8_t)axis;
  a->form = f;
  return y;
}

fl_node *n_sum_parts(fl_node *x, int axis, uint32_t axes) {
  if (!x || !axes) return x;
  flame_context *c = x->ctx;
  const int n = (int)x->shape->size[axis];
  fl_node **part = fl_alloc(&c->mem, (size_t)n * sizeof *part), *y = NULL;
  if (!part) return fl_no_memory(c, "sum");
  int ok = 1;
  for (int k = 0; ok && k < n; k++) {
    fl_node *slice = n_slice(x, axis, k, 1, 1);
    ok = slice && (part[k] = n_sum(slice, axes, 1)) != NULL;
  }
  if (ok) y = n_cat(c, n, part, axis);
  fl_free(&c->mem, part, (size_t)n * sizeof *part);
  return y;
}
