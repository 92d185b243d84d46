/*
** Calls: the table of kinds, recording, and what a node's call owns (call.h).
*/
#include "tensor/call.h"
#include "tensor/build_util.h"
#include <string.h>

const fl_call_info fl_calls[FL_CALL_COUNT] = {
#define CALL(name, faults, doc) { #name, doc, faults, fl_call_fits_##name },
#include "tensor/calls.def"
};

int fl_call_of_name(const char *name) {
  for (int k = 0; k < FL_CALL_COUNT; k++)
    if (fl_calls[k].name[0] == name[0] && !strcmp(fl_calls[k].name, name)) return k;
  return -1;
}

int64_t fl_call_product(int n, const int64_t *size) {
  int64_t p = 1;
  int empty = 0;
  for (int i = 0; i < n; i++) {
    empty |= size[i] == 0;
    if (size[i] < 0 || (size[i] != 0 && __builtin_mul_overflow(p, size[i], &p))) return -1;
  }
  return empty ? 0 : p;
}

/* Checks a call of kind 'part', whose result has the bytes of in[0] from byte p[0] on. */
int fl_call_fits_part(const fl_call *k) {
  const int64_t bytes = k->numel * fl_dtype_size(k->dtype);
  return k->nin == 1 && k->in_dtype[0] == FLAME_U8 && k->p[0] >= 0 &&
         bytes <= k->in_numel[0] - k->p[0];
}

void fl_callee_release(fl_callee *k) {
  if (k && --k->refs == 0) k->free(k);
}

void fl_call_free(flame_context *c, fl_call *call) {
  fl_callee_release(call->callee);
  if (call->scalar != call->few)
    fl_free(&c->mem, call->scalar, sizeof *call->scalar * (size_t)call->nscalar);
  fl_slab_free(&c->calls, call);
}

/* A new description of the call, which owns its scalars and a reference of the callee; NULL with an
** error. */
static fl_call *describe(flame_context *c, int kind, const char *what, int np, const int64_t *p,
                         fl_callee *callee, int nscalar, const fl_scalar *scalar) {
  fl_call *k = fl_slab_new(&c->calls);
  if (!k) return fl_no_memory(c, what);
  memset(k, 0, sizeof *k);
  k->kind = (uint16_t)kind;
  strncpy(k->what, what, sizeof k->what - 1);
  if (np) memcpy(k->p, p, sizeof *p * (size_t)np);
  k->scalar = nscalar <= 8 ? k->few : fl_alloc(&c->mem, sizeof *scalar * (size_t)nscalar);
  if (!k->scalar) {
    fl_slab_free(&c->calls, k);
    return fl_no_memory(c, what);
  }
  if (nscalar) memcpy(k->scalar, scalar, sizeof *scalar * (size_t)nscalar);
  k->nscalar = nscalar;
  if (callee) callee->refs++;
  k->callee = callee;
  return k;
}

/* Makes the inputs row-major and puts them in 'made'. Returns 0 with an error, also if an input is
** not on 'device'. */
static int prepare(fl_call *k, int nin, fl_node *const *in, int device, fl_node **made) {
  for (int i = 0; i < nin; i++) {
    if (!in[i] || !fl_usable(in[i], k->what)) return 0;
    if (in[i]->device != device) {
      char a[16], b[16];
      FL_FAIL(in[i]->ctx, FLAME_BAD_ARGUMENT, k->what, "input %d is on %s and the result on %s"
              FL_DO "; use :to()", i + 1, fl_place_name(in[i]->device, a),
              fl_place_name(device, b));
      return 0;
    }
    if (!(made[i] = n_contiguous(in[i]))) return 0;
    k->in_dtype[i] = made[i]->dtype;
    k->in_numel[i] = made[i]->shape->numel;
  }
  k->nin = (uint8_t)nin;
  return 1;
}

static fl_node *record(flame_context *c, fl_call *k, fl_node *const *in, int device, int rank,
                       const int64_t *size) {
  fl_layout *shape = fl_shape_of(c, rank, size, k->what);
  if (!shape) return NULL;
  k->numel = shape->numel;
  if (!fl_calls[k->kind].fits(k)) {
    fl_layout_release(&c->layouts, shape);
    FL_FAIL(c, FLAME_BAD_ARGUMENT, k->what, "sizes or dtypes do not fit a call of %s",
            fl_calls[k->kind].name);
    return NULL;
  }
  fl_node *n = fl_node_new(c, FL_OP_call, k->dtype, device, shape, k->nin, in);
  fl_attr *a = n ? fl_node_attr(n) : NULL;
  if (!a) return fl_no_memory(c, k->what);
  if (fl_call_reports(k)) n->checks = 1;
  a->call = k;
  if (fl_calls[k->kind].faults == FL_FAULTS_EFFECT) fl_node_effect(n);
  return n;
}

/* Finds the pending effect (a node such as a collective, node.h) that an effect on this device
** follows: *before, which becomes its last input; NULL: there is none. A pending effect of another
** device is run first. 0: that failed. */
static int effect_before(flame_context *c, int device, fl_node **before) {
  if (c->effect && c->effect->device != device && c->up->evaluate_all(c) != FLAME_OK) return 0;
  *before = c->effect;
  return 1;
}

fl_node *n_call(flame_context *c, int kind, const char *what, int nin, fl_node *const *in,
                int device, int dtype, int rank, const int64_t *size, int np, const int64_t *p,
                fl_callee *callee, int nscalar, const fl_scalar *scalar) {
  fl_node *made[FL_CALL_INPUTS], *with[FL_CALL_INPUTS];
  const int effect = fl_calls[kind].faults == FL_FAULTS_EFFECT;
  fl_node *before = NULL;
  if (effect && !effect_before(c, device, &before)) return NULL;
  if (before && nin < FL_CALL_INPUTS) {
    if (nin) memcpy(with, in, sizeof *in * (size_t)nin);
    with[nin++] = before;
    in = with;
  }
  if (nin > FL_CALL_INPUTS || np > FL_CALL_PARAMS) {
    FL_FAIL(c, FLAME_BAD_ARGUMENT, what,
            "%d inputs and %d parameters; at most %d and %d are possible", nin, np, FL_CALL_INPUTS,
            FL_CALL_PARAMS);
    return NULL;
  }
  fl_call *k = describe(c, kind, what, np, p, callee, nscalar, scalar);
  if (!k) return NULL;
  k->dtype = (uint8_t)dtype;
  if (effect || fl_calls[kind].faults == FL_FAULTS_LATE) {
    k->few[0].i = c->site;
    k->nscalar = 1;
  }
  fl_node *n = prepare(k, nin, in, device, made) ? record(c, k, made, device, rank, size) : NULL;
  if (!n) fl_call_free(c, k);
  return n;
}
