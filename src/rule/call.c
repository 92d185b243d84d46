/* Calls: launches of a kernel with the arguments that its gradients need (rule.h); and the
** arguments of the launches that compute gradients. */
#include "rule/rule.h"
#include "base/hash.h"
#include "kernel/facts/views.h"
#include "tensor/build.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ---- calls ----------------------------------------------------------------------------------- */

static size_t size_of(int nparam, int nscalar) {
  return sizeof(fl_kcall) + sizeof(fl_karg) * (size_t)nparam + sizeof(fl_scalar) * (size_t)nscalar;
}

fl_kcall *fl_kcall_new(flame_context *c, fl_kprogram *p, const int64_t *geometry, int nscalar) {
  fl_kcall *k = fl_zalloc(&c->mem, size_of(p->nparam, nscalar));
  if (!k) {
    FL_FAIL(c, FLAME_NO_MEMORY, p->name, "no host memory");
    return NULL;
  }
  k->refs = 1;
  k->nscalar = nscalar;
  k->c = c;
  k->p = p;
  k->scalar = (fl_scalar *)(void *)(k->arg + p->nparam);
  memcpy(k->geometry, geometry, sizeof k->geometry);
  p->refs++;
  return k;
}

void fl_kcall_release(fl_kcall *k) {
  if (!k || --k->refs > 0) return;
  flame_context *c = k->c;
  const int n = k->p->nparam;
  for (int i = 0; i < n; i++) {
    if (k->arg[i].value) fl_node_drop(k->arg[i].value);
    if (k->arg[i].result) fl_node_drop(k->arg[i].result);
  }
  fl_kprogram_release(k->p);
  fl_free(&c->mem, k, size_of(n, k->nscalar));
}

/* ---- facts for proofs ------------------------------------------------------------------------ */

int fl_kone_of(const int64_t *geometry) {
  static const int bit[6] = { 0, FL_KONE_GRID_Y, FL_KONE_GRID_Z, 0, FL_KONE_BLOCK_Y,
                              FL_KONE_BLOCK_Z };
  int one = 0;
  for (int i = 0; i < 6; i++) if (geometry[i] == 1) one |= bit[i];
  return one;
}

void fl_kextents_of(const int64_t *geometry, int64_t extent[FL_KEXTENTS]) {
  for (int i = 0; i < FL_KEXTENT_BLOCKS; i++) extent[i] = fl_kextent(geometry, i);
  extent[FL_KEXTENT_BLOCKS] = geometry[0] * geometry[1] * geometry[2];
}

/* Reads an integer of a kernel's type from its bytes. */
static int64_t read_int(const void *from, int type) {
  int64_t v = 0;
  const int size = fl_kt_size(type);
  memcpy(&v, from, (size_t)size);
  const int shift = 64 - 8 * size;
  return fl_ktypes[type].is_signed ? (int64_t)((uint64_t)v << shift) >> shift : v;
}

void fl_kcall_known(const fl_kcall *k, fl_kknown *x) {
  x->l = (fl_klaunched){ .value = x->value, .known = x->known, .n_values = k->p->nparam };
  fl_kextents_of(k->geometry, x->l.extent);
  for (int i = 0; i < k->p->nparam; i++) {
    const int type = k->p->k->f->params[i].type;
    x->known[i] = k->p->role[i] == FL_KROLE_SCALAR && fl_kt_is_int(type) && type != FL_KT_BOOL;
    x->value[i] = x->known[i] ? read_int(&k->scalar[k->arg[i].at], type) : 0;
  }
}

/* ---- dynamic shared memory of several types -------------------------------------------------- */

static const void *number_of(void *arg, int i) {
  const fl_kcall *k = arg;
  const int role = k->p->role[i];
  return role == FL_KROLE_SCALAR || role == FL_KROLE_STRUCT ? &k->scalar[k->arg[i].at] : NULL;
}

/* Of all that fl_kviews_apart is told. */
static uint64_t launch_hash(const fl_kcall *k) {
  uint64_t h = fl_hash64(k->geometry, sizeof k->geometry, 1);
  for (int i = 0; i < k->p->nparam; i++) {
    const void *at = number_of((void *)(uintptr_t)k, i);
    if (at && !fl_kt_is_float(k->p->k->f->params[i].type))
      h = fl_hash64(at, (size_t)k->arg[i].bytes, h);
  }
  return h | 1;
}

static void put_view(const fl_kcall *k, char *to, size_t size, const fl_kviewed *x) {
  const int64_t end = k->geometry[FL_KP_SHARED] - 1;
  snprintf(to, size, "%s (line %d, bytes %lld to %lld%s)", fl_ktypes[x->type].c, (int)x->line,
           (long long)(x->first < 0 ? 0 : x->first), (long long)(x->last > end ? end : x->last),
           x->first < 0 || x->last > end ? ", its index has no known bound" : "");
}

static flame_status views_meet(fl_kcall *k, const fl_kviewed met[2]) {
  char a[120], b[120], text[640];
  put_view(k, a, sizeof a, &met[0]);
  put_view(k, b, sizeof b, &met[1]);
  snprintf(text, sizeof text, "kernel '%s', line %d: dynamic shared memory of two types that may "
           "overlap in this launch, %s and %s, cannot be differentiated" FL_DO "; keep them apart "
           "by arguments, blockDim and conditions, give all arrays but one a size, or vjp = ...",
           k->p->k->f->name, (int)met[1].line, a, b);
  return fl_kprogram_refuse(k->c, k->p, text);
}

flame_status fl_kcall_apart(fl_kcall *k) {
  const uint64_t hash = launch_hash(k);
  const int64_t *g = k->geometry;
  fl_kcover_launch l = { .argument = number_of, .arg = k };
  fl_kviewed met[2];
  if (k->p->apart == hash) return FLAME_OK;
  memcpy(l.grid, g + FL_KP_GRID, sizeof l.grid);
  memcpy(l.block, g + FL_KP_BLOCK, sizeof l.block);
  const int apart = fl_kviews_apart(&k->c->mem, k->p->k->f, &l, met);
  if (apart < 0) return FL_FAIL(k->c, FLAME_NO_MEMORY, k->p->name, "no host memory");
  if (!apart) return views_meet(k, met);
  k->p->apart = hash;
  return FLAME_OK;
}

/* ---- arguments ------------------------------------------------------------------------------- */

static int hold(fl_launch *l, const fl_kprogram *p, int i, fl_node *x) {
  return x && fl_launch_takes(l, i, fl_kprogram_index(p), x) ? fl_launch_hold(l, x) : -1;
}

flame_status fl_kgive_input(fl_launch *l, const fl_kprogram *p, int i, fl_node *x, int each) {
  const int held = hold(l, p, i, x);
  if (held < 0) return l->c->err.code;
  if (l->batch && each) return fl_launch_each(l, i, held) ? FLAME_OK : l->c->err.code;
  fl_launch_input(l, i, held);
  return FLAME_OK;
}

flame_status fl_kgive_copy(fl_launch *l, const fl_kprogram *p, int i, fl_node *x) {
  const int held = hold(l, p, i, x);
  if (held < 0) return l->c->err.code;
  if (!l->batch) return fl_launch_output(l, i, x->dtype, x->shape->rank, x->shape->size, held);
  const int64_t n = x->shape->numel / l->batch;
  return fl_launch_output(l, i, x->dtype, 1, &n, held);
}

flame_status fl_kgive_zeros(fl_launch *l, int i, int64_t n) {
  return fl_launch_output(l, i, fl_kt_held_as(l->k->f->params[i].type), 1, &n, -1);
}

flame_status fl_kgive_int(fl_launch *l, int i, int64_t v) {
  return fl_launch_bytes(l, i, &v, fl_kt_size(l->k->f->params[i].type)) ? FLAME_OK
                                                                        : l->c->err.code;
}

flame_status fl_kgive_bytes(fl_launch *l, int i, const fl_kcall *k, int of) {
  const fl_karg *from = &k->arg[of];
  return fl_launch_bytes(l, i, &k->scalar[from->at], from->bytes) ? FLAME_OK : l->c->err.code;
}

fl_node *fl_kcall_contents(const fl_kcall *k, int i) {
  if (k->p->role[i] != FL_KROLE_OUT) return k->arg[i].value;
  const fl_node *y = k->arg[i].result;
  return n_fill(k->c, y->dtype, y->device, y->shape->rank, y->shape->size, (fl_scalar){ .d = 0 });
}

flame_status fl_kgive_original(fl_launch *l, const fl_kprogram *p, int i, const fl_kcall *k,
                               int of) {
  const int role = k->p->role[of];
  if (role == FL_KROLE_STRUCT || role == FL_KROLE_SCALAR) return fl_kgive_bytes(l, i, k, of);
  return fl_kgive_input(l, p, i, fl_kcall_contents(k, of), k->arg[of].each);
}

fl_node *fl_kflat(fl_node *x, int type) {
  return n_contiguous(n_cast(x, fl_kt_held_as(type)));
}

flame_status fl_klaunch(fl_launch *l, fl_node **results) {
  const flame_status e = fl_launch_ready(l);
  return e == FLAME_OK ? fl_launch_record(l, results) : e;
}

fl_node *fl_kshaped(fl_node *x, const fl_node *like) {
  return n_reshape(x, like->shape->rank, like->shape->size);
}

flame_status fl_kread_number(flame_context *c, fl_node *x, int type, void *to) {
  double d = 0;
  x = n_cast(x, FLAME_F64);
  const flame_status e = x ? fl_read_node(c, x, &d, sizeof d) : c->err.code;
  if (e == FLAME_OK) fl_launch_put_float(type, d, to);
  return e;
}

/* ---- the call's own launch ------------------------------------------------------------------- */

static flame_status give(fl_launch *l, const fl_kcall *k, int i, int64_t count) {
  switch (k->p->role[i]) {
    case FL_KROLE_IN: return fl_kgive_input(l, k->p, i, k->arg[i].value, k->arg[i].each);
    case FL_KROLE_INOUT: return fl_kgive_copy(l, k->p, i, k->arg[i].value);
    case FL_KROLE_OUT: return fl_kgive_zeros(l, i, count);
    case FL_KROLE_NONE: return FLAME_OK;
    default: return fl_kgive_bytes(l, i, k, i);
  }
}

flame_status fl_kcall_launch(fl_kcall *k, const int64_t *count) {
  fl_launch l;
  fl_node *y[FL_KP_MAX_ARGS];
  fl_launch_begin(&l, k->c, k->p->k);
  memcpy(l.p, k->geometry, sizeof k->geometry);
  l.batch = k->batch;
  flame_status e = fl_launch_check(&l);
  for (int i = 0; i < k->p->nparam && e == FLAME_OK; i++) e = give(&l, k, i, count[i]);
  if (e == FLAME_OK) e = fl_klaunch(&l, y);
  for (int i = 0, m = 0; i < k->p->nparam && e == FLAME_OK; i++)
    if (fl_kprogram_writes(k->p, i)) fl_kcall_hold(&k->arg[i].result, y[m++]);
  return e;
}
