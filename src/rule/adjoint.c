/* The vjp of a call (rule.h): which launches compute gradients from cotangents. */
#include "rule/rule.h"
#include "tensor/build.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { MOST = FL_KP_MAX_ARGS };
static const long long MOST_SLICES = 4LL << 30;    /* bytes of global memory of a launch for what
                                                   ** does not fit shared memory */

int64_t fl_kcall_room(const fl_kcall *k) {
  int index = k->c->default_device;
  for (int i = k->p->nparam - 1; i >= 0; i--)
    if (k->arg[i].value && k->p->k->f->params[i].is_pointer) index = k->arg[i].value->device;
  const fl_device *d = fl_engine_device(k->c, index);
  return d && d->shared ? d->shared : INT32_MAX;
}

flame_status fl_kenlarge(const fl_kcall *k, int64_t *geometry, const fl_kad *ad, int64_t *bytes) {
  const long long before = geometry[FL_KP_SHARED], room = fl_kcall_room(k);
  *bytes = 0;
  for (int i = 0; i < ad->n_params && !*bytes; i++) {
    if (ad->params[i].role != FL_KAD_SHARED) continue;
    *bytes = (before + 15) / 16 * 16;
    geometry[FL_KP_SHARED] = ad->params[i].count * *bytes;
  }
  const long long own = ad->func->shared_bytes, needs = geometry[FL_KP_SHARED] + own;
  if (needs <= room) return k->c->err.code;
  char arrays[48] = "";
  if (own) snprintf(arrays, sizeof arrays, " and %lld for static arrays", own);
  return FL_FAIL(k->c, FLAME_BAD_ARGUMENT, k->p->name, "the derivative of '%s' needs %lld bytes of "
                 "shared memory for the %lld of the launch%s, and a block has at most %lld" FL_DO
                 "; launch it with less, shared = …, or give vjp = …", k->p->name, needs - own,
                 before, arrays, room);
}

/* ---- adjoints -------------------------------------------------------------------------------- */

typedef struct adjoint {
  fl_kcall *call;
  fl_node *const *seed;                /* by parameter */
  uint8_t active[MOST];                /* per parameter: is its gradient needed? */
  int64_t shared;
  fl_node **gradient;                  /* by parameter */
} adjoint;

flame_status fl_kno_role(flame_context *c, const fl_kad_param *q) {
  return FL_FAIL(c, FLAME_INTERNAL, "kernel", "a derived kernel has a parameter of role %d",
                 q->role);
}

static flame_status work(adjoint *a, fl_launch *l, const fl_kprogram *part, int k) {
  const fl_kad_param *q = &part->k->ad->params[k];
  fl_node *seed = a->seed[q->param];
  if (!seed)
    return fl_kgive_zeros(l, k, fl_kcall_elements(a->call, q->param,
                                                  a->call->arg[q->param].result));
  return fl_kgive_copy(l, part, k, fl_kflat(seed, q->type));
}

/* The elements for each block of an array of role KEPT that is for shared memory. */
static int64_t kept_of_block(const adjoint *a, const fl_kad_param *q) {
  return q->count * (q->part ? a->shared / q->part : 1);
}

static int64_t blocks_of(const adjoint *a) {
  int64_t n = 1;
  for (int axis = 3; axis < 6; axis++) n *= fl_kextent(a->call->geometry, axis);
  return n;
}

/* Fails if the slices of all blocks take too much memory. */
static flame_status check_slices(const adjoint *a, const fl_kad *ad) {
  const fl_kcall *k = a->call;
  const long long blocks = blocks_of(a) * (k->batch ? k->batch : 1);
  long long each = 0;
  for (int i = 0; i < ad->n_params; i++)
    if (ad->params[i].fresh)
      each += kept_of_block(a, &ad->params[i]) * fl_kt_size(ad->params[i].type);
  if (each <= MOST_SLICES / blocks) return FLAME_OK;
  return FL_FAIL(k->c, FLAME_BAD_ARGUMENT, k->p->name, "the derivative of '%s' keeps %lld bytes in "
                 "global memory, %lld for each block, which do not fit shared memory; it may keep "
                 "%lld" FL_DO "; launch fewer blocks, or give vjp = …", k->p->name, each * blocks,
                 each, MOST_SLICES);
}

/* Gives parameter k as many elements, of zeros or, where the kernel writes each of them before it
** reads it, as they are. (While checks are on all results have a value.) */
static flame_status give_kept(const adjoint *a, fl_launch *l, int k, const fl_kad_param *q) {
  const flame_status e = fl_kgive_zeros(l, k, kept_of_block(a, q) * blocks_of(a));
  int64_t *w = &l->p[FL_KP_ARGS + 2 * k];
  if (e == FLAME_OK && q->fresh && !fl_kfunction_checks(l->c)) *w += FL_KARG_RAW - FL_KARG_OUT;
  return e;
}

/* Gives the launch parameter k of the adjoint. An argument that is not given is a null pointer. */
static flame_status give(adjoint *a, fl_launch *l, const fl_kprogram *part, int k) {
  const fl_kad_param *q = &part->k->ad->params[k];
  const fl_kcall *call = a->call;
  const int i = q->param, of = i >= 0 ? call->p->role[i] : FL_KROLE_NONE;
  fl_node *v = i >= 0 ? call->arg[i].value : NULL, *y = i >= 0 ? call->arg[i].result : NULL;
  switch (q->role) {
    case FL_KAD_UNUSED: return FLAME_OK;
    case FL_KAD_SHARED: return fl_kgive_int(l, k, a->shared);
    case FL_KAD_LAUNCH: return fl_kgive_int(l, k, fl_kextent(call->geometry, (int)q->count));
    case FL_KAD_SIZE: assert(v); return fl_kgive_int(l, k, fl_kcall_elements(call, i, v));
    case FL_KAD_ORIGINAL: return fl_kgive_original(l, part, k, call, i);
    case FL_KAD_FINAL: assert(y); return fl_kgive_input(l, part, k, y, 1);
    case FL_KAD_COTANGENT:
      return a->seed[i] ? fl_kgive_input(l, part, k, fl_kflat(a->seed[i], q->type), 1)
                        : FLAME_OK;
    case FL_KAD_WORK: return work(a, l, part, k);
    case FL_KAD_SCRATCH:
      if (of == FL_KROLE_INOUT) return fl_kgive_copy(l, part, k, v);
      assert(y);
      return fl_kgive_zeros(l, k, fl_kcall_elements(call, i, y));
    case FL_KAD_KEPT:
      if (i < 0) return give_kept(a, l, k, q);
      assert(of == FL_KROLE_OUT ? y : v);
      if (of == FL_KROLE_OUT) v = y;                       /* q->count values for each element */
      return fl_kgive_zeros(l, k, q->count * fl_kcall_elements(call, i, v));
    case FL_KAD_GRAD: assert(v); return fl_kgive_zeros(l, k, fl_kcall_elements(call, i, v));
    case FL_KAD_GRAD_SCALAR: return fl_kgive_zeros(l, k, q->count > 1 ? q->count : 1);
    default: return fl_kno_role(call->c, q);
  }
}

/* Sets one thread for each element of the largest gradient. */
static void gather_geometry(const adjoint *a, fl_launch *l, const fl_kad *ad) {
  int64_t most = 1;
  for (int k = 0; k < ad->n_params; k++) {
    if (ad->params[k].role != FL_KAD_SIZE) continue;
    const int i = ad->params[k].param;
    const int64_t n = fl_kcall_elements(a->call, i, a->call->arg[i].value);
    if (n > most) most = n;
  }
  fl_launch_elements(l, most);
  l->p[FL_KP_SHARED] = 0;
}

static void take(adjoint *a, const fl_kad_param *q, fl_node *y) {
  const fl_node *v = a->call->arg[q->param].value;
  if (!v) return;                      /* NULL has no gradient */
  if (a->call->batch && !a->call->arg[q->param].each)      /* all launches have the same */
    y = n_sum(y, 1, 0);
  if (q->role == FL_KAD_GRAD || (q->role == FL_KAD_WORK && a->active[q->param]) ||
      q->role == FL_KAD_GRAD_SCALAR)
    a->gradient[q->param] = fl_kshaped(n_cast(y, v->dtype), v);
}

/* *part or, if that does not fit the shared memory of a block, the same with arrays in global
** memory. Sets the geometry of its launch. */
static flame_status enlarge(adjoint *a, fl_kprogram **part, int64_t *geometry) {
  a->shared = 0;
  memcpy(geometry, a->call->geometry, sizeof a->call->geometry);
  fl_kprogram *p = fl_kprogram_fit(a->call->c, *part, geometry[FL_KP_SHARED],
                                   fl_kcall_room(a->call));
  if (!p) return a->call->c->err.code;
  *part = p;
  if (p->k->ad->n_gather > 0) return FLAME_OK;
  const flame_status e = fl_kenlarge(a->call, geometry, p->k->ad, &a->shared);
  return e == FLAME_OK ? check_slices(a, p->k->ad) : e;
}

/* Launches one kernel of the adjoint; a part without results is skipped. */
static flame_status run_part(adjoint *a, fl_kprogram *part) {
  fl_launch l;
  fl_node *y[MOST];
  int made[MOST] = { 0 };
  int64_t geometry[FL_KP_COUNT_ARGS];
  flame_status e = enlarge(a, &part, geometry);
  if (e != FLAME_OK) return e;
  const fl_kad *ad = part->k->ad;
  fl_launch_begin(&l, a->call->c, part->k);
  memcpy(l.p, geometry, sizeof geometry);
  l.batch = a->call->batch;
  if (ad->n_gather > 0) gather_geometry(a, &l, ad);
  for (int k = 0; k < part->nparam && e == FLAME_OK; k++) {
    const int before = l.nout;
    e = give(a, &l, part, k);
    if (l.nout > before) made[before] = k;
  }
  if (e != FLAME_OK || l.nout == 0) return e;
  e = fl_launch_check(&l);
  if (e == FLAME_OK) e = fl_klaunch(&l, y);
  for (int m = 0; m < l.nout && e == FLAME_OK; m++) take(a, &ad->params[made[m]], y[m]);
  return e != FLAME_OK ? e : a->call->c->err.code;
}

/* May the adjoint be a gather (a kernel with one thread per element of the gradient)? It counts
** elements and threads in an int. */
static int may_gather(const fl_kcall *k) {
  const int64_t most = k->c->gather_most;
  for (int i = 0; i < k->p->nparam; i++)
    if (k->arg[i].value && k->arg[i].value->shape->numel > most) return 0;
  for (int which = 6; which < 9; which++) if (fl_kextent(k->geometry, which) > most) return 0;
  return 1;
}

/* Are the parameters that the derived gather takes for sizes (d->positive) greater than 0? */
static int suits(const fl_kderived *d, const fl_kknown *x) {
  for (int i = 0; d->positive && i < x->l.n_values; i++)
    if (d->positive[i] && !(x->known[i] && x->value[i] > 0)) return 0;
  return 1;
}

static const fl_kderived *adjoint_of(const adjoint *a) {
  fl_kcall *k = a->call;
  fl_kknown known;
  fl_kask ask = { .adjoint = 1, .geometry = (uint8_t)fl_kone_of(k->geometry),
                  .gather = (uint8_t)may_gather(k), .launched = &known.l };
  fl_kcall_known(k, &known);
  for (int i = 0; i < k->p->nparam; i++)
    ask.want[i] = (uint8_t)((a->active[i] ? FL_KAD_INPUT : 0) | (a->seed[i] ? FL_KAD_OUTPUT : 0) |
                            (k->p->role[i] == FL_KROLE_OUT ? FL_KAD_FRESH : 0));
  const fl_kderived *d = fl_kprogram_derive(k->c, k->p, &ask);
  if (!d || !ask.gather || suits(d, &known)) return d;
  ask.gather = 0;
  return fl_kprogram_derive(k->c, k->p, &ask);
}

/* For a kernel that only adds to the array x, the gradient of the old contents of x is the
** cotangent of the new ones. */
static void pass_through(adjoint *a, const fl_kad *ad) {
  for (int k = 0; k < ad->n_params; k++) {
    const fl_kad_param *q = &ad->params[k];
    const int i = q->param;
    if (q->role != FL_KAD_COTANGENT || !q->through || !a->active[i] || !a->seed[i]) continue;
    const fl_node *v = a->call->arg[i].value;
    a->gradient[i] = fl_kshaped(n_cast(a->seed[i], v->dtype), v);
  }
}

flame_status fl_kcall_adjoint(fl_kcall *k, int n, const uint8_t *active, fl_node *const *seed,
                              fl_node **gradient) {
  flame_context *c = k->c;
  adjoint a = { .call = k, .seed = seed, .gradient = gradient };
  const uint8_t mode = c->grad_mode;
  for (int j = 0; j < n; j++) a.active[active[j]] = 1;
  memset(gradient, 0, sizeof *gradient * (size_t)k->p->nparam);
  const fl_kderived *d = adjoint_of(&a);
  if (!d || (d->views && fl_kcall_apart(k) != FLAME_OK)) return c->err.code;
  c->grad_mode = 0;
  pass_through(&a, d->part[0]->k->ad);
  flame_status e = c->err.code;
  for (int i = 0; i < d->nparts && e == FLAME_OK; i++) e = run_part(&a, d->part[i]);
  c->grad_mode = mode;
  return e;
}

