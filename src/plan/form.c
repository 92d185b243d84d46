/*
** Forms, tensors whose components are sums of products of slices (tensor/form.h), in kernels. A
** component is an expression over slices of the inputs, emitted as ordinary instructions; the whole
** is written component by component, as a cat is piece by piece (pieces.c). The operations and
** their order depend only on the code, so a component has the same bits wherever it is emitted.
*/
#include "plan/planner.h"
#include "tensor/form.h"
#include <assert.h>
#include <string.h>

/* The component of a form that is being emitted: where each input is read, and its step from
** component to component. at: the next word of the form's code (tensor/form.h). */
typedef struct writer {
  fl_planner *P;
  int32_t g;
  int depth, dtype;
  fl_ref ref[FL_FORM_INPUTS];
  fl_map map[FL_FORM_INPUTS];
  int64_t step[FL_FORM_INPUTS];
  const int16_t *at;
} writer;

static int add(writer *w, int op, int a, int b) {
  if (a < 0 || b < 0) return a < 0 ? a : b;
  const fl_instr x = { .code = FL_I_OP, .dtype = (uint8_t)w->dtype, .from = (uint8_t)w->dtype,
                       .op = (uint16_t)op, .a = (uint16_t)a, .b = (uint16_t)b };
  return fl_plan_add(w->P, w->g, x, INT32_MIN, NULL);
}

/* Emits total + sign * v; if 'first', there is no total yet. */
static int added(writer *w, int first, int total, int v, int sign) {
  if (v < 0) return v;
  if (first) return sign > 0 ? v : add(w, FL_OP_neg, v, 0);
  return add(w, sign > 0 ? FL_OP_add : FL_OP_sub, total, v);
}

static int slice(writer *w, int q, int component) {
  fl_map m = w->map[q];
  m.offset += component * w->step[q];
  return fl_plan_pull(w->P, w->g, w->ref[q], &m, w->depth);
}

static int term(writer *w, int factors) {
  int v = -1, first = 1;
  for (int q = 0; q < factors; q++) {
    const int i = *w->at++;
    if (i < 0) continue;
    const int x = slice(w, q, i);
    if (x < 0) return x;
    v = first ? x : add(w, FL_OP_mul, v, x);
    if (v < 0) return v;
    first = 0;
  }
  return v;
}

static int group(writer *w, const fl_form_code *f, int at) {
  const int factors = fl_form_factors(f);
  int total = -1, n = *w->at++;
  for (int t = 0; t < n; t++) {
    const int sign = *w->at++;
    total = added(w, t == 0, total, term(w, factors), sign);
    if (total < 0) return total;
  }
  return at < 0 ? total : add(w, FL_OP_mul, total, slice(w, factors, at));
}

static int component(writer *w, const fl_form_code *f, int k) {
  int total = -1;
  w->at = fl_form_groups(f, k);
  const int n = *w->at++;
  for (int i = 0; i < n; i++) {
    const int sign = *w->at++, at = *w->at++;
    total = added(w, i == 0, total, group(w, f, at), sign);
    if (total < 0) return total;
  }
  return total;
}

/* Prepares to read the inputs of form t through map m, at their first component. */
static int open_inputs(writer *w, int32_t t, const fl_map *m) {
  const fl_cell *cell = &w->P->cell.at[t];
  const fl_group *G = fl_plan_group(w->P, w->g);
  const fl_layout *s = cell->shape;
  const int axis = cell->node->attr->axis;
  for (int q = 0; q < cell->node->nin; q++) {
    int64_t stride[FL_MAX_AXES], offset;
    fl_plan_input(w->P, t, q, &w->ref[q], stride, &offset);
    w->step[q] = cell->node->in[q]->layout->stride[axis];
    stride[axis] = 0;
    memset(&w->map[q], 0, sizeof w->map[q]);
    w->map[q].offset = offset;
    if (!fl_map_compose(s->rank, s->size, stride, G->nd, G->size, m->stride, m->offset,
                        w->map[q].stride, &w->map[q].offset))
      return FL_EMIT_ANCHOR - t;
  }
  return 0;
}

/* Labels value v with (t, m), the component of form t that map m reads, so that later readers find
** it. The value of an input has another label already: then v is copied by an added instruction,
** and the copy gets this label. */
static int name_value(writer *w, int v, int32_t t, const fl_map *m) {
  if (v < 0) return v;
  fl_group *G = fl_plan_group(w->P, w->g);
  if (G->value.at[v].ref == INT32_MIN && G->instr.at[v].code == FL_I_OP) {
    G->value.at[v].ref = t;
    G->value.at[v].map = *m;
    return v;
  }
  const fl_instr x = { .code = FL_I_CAST, .dtype = (uint8_t)w->dtype, .from = (uint8_t)w->dtype,
                       .a = (uint16_t)v };
  return fl_plan_add(w->P, w->g, x, t, m);
}

int fl_plan_emit_form(fl_planner *P, int32_t g, int32_t t, const fl_map *m, int depth) {
  const fl_cell *cell = &P->cell.at[t];
  const fl_form_code *f = cell->node->attr->form;
  writer w = { .P = P, .g = g, .depth = depth, .dtype = cell->dtype };
  const int k = fl_plan_component(P, t, g, m);
  if (k < 0) return FL_EMIT_ANCHOR - t;              /* m reads several components, or not always
                                                     ** the same one */
  if (*fl_form_groups(f, k) == 0) return fl_plan_fill(P, g, t, cell->dtype, m);
  const int err = open_inputs(&w, t, m);
  return err < 0 ? err : name_value(&w, component(&w, f, k), t, m);
}
