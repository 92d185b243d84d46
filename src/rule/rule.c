/*
** Rules of calls (rule.h): what the entries of a kernel's results own, and the second derivative.
*/
#include "rule/rule.h"
#include "base/hash.h"
#include "tensor/build.h"
#include <assert.h>
#include <string.h>

enum { MOST = FL_KP_MAX_ARGS };

static int is_float(const fl_kprogram *p, int i) {
  const int type = p->k->f->params[i].type;
  return type < FL_KT_COUNT && fl_ktypes[type].is_float;
}

static int is_active(const fl_kcall *k, int i) {
  const int role = k->p->role[i];
  return (role == FL_KROLE_IN || role == FL_KROLE_INOUT || role == FL_KROLE_SCALAR) &&
         k->arg[i].value && k->arg[i].value->entry && is_float(k->p, i);
}

static flame_status no_memory(const fl_kcall *k) {
  return FL_FAIL(k->c, FLAME_NO_MEMORY, k->p->name, "no host memory");
}

/* Replaces n nodes of value[] (those at place[], if it is given) with tracked nodes, whose gradient
** rule is 'custom'. It is released with the last of their entries or, after an error, now. */
static flame_status customize(flame_context *c, int n, fl_node **value, const uint8_t *place,
                              int nin, fl_node *const *in, fl_custom custom) {
  fl_custom *f = fl_zalloc(&c->mem, sizeof *f);
  if (!f) {
    custom.release(custom.arg);
    return FL_FAIL(c, FLAME_NO_MEMORY, "kernel", "no host memory");
  }
  *f = custom;
  f->refs = 1;
  flame_status e = FLAME_OK;
  for (int m = 0; m < n && e == FLAME_OK; m++) {
    fl_node **to = &value[place ? place[m] : m];
    *to = n_custom(*to, nin, in, f, m);
    if (!*to) e = c->err.code;
  }
  fl_custom_drop(c, f);
  return e;
}

/* ---- rules ----------------------------------------------------------------------------------- */

fl_krule *fl_krule_of(fl_kcall *k) {
  fl_krule *r = fl_zalloc(&k->c->mem, sizeof *r);
  if (!r) {
    no_memory(k);
    return NULL;
  }
  r->call = k;
  k->refs++;
  for (int i = 0; i < k->p->nparam; i++) if (is_active(k, i)) r->active[r->nactive++] = (uint8_t)i;
  return r;
}

void fl_krule_release(fl_krule *r) {
  if (!r) return;
  fl_mem *m = &r->call->c->mem;
  fl_kcall_release(r->call);
  fl_free(m, r, sizeof *r);
}

static void rule_release(void *arg) { fl_krule_release(arg); }

static flame_status rule_back(flame_context *c, void *arg, fl_node *y, fl_node *g, int nin,
                              fl_node **gin) {
  fl_krule *r = arg;
  fl_node *seed[MOST] = { NULL };
  flame_status e = FLAME_OK;
  (void)nin;
  seed[r->result[y->attr->offset]] = g;
  if (r->first && c->up->prove) e = c->up->prove(c, r);
  return e == FLAME_OK ? fl_kcall_vjp(r->call, r->nactive, r->active, seed, gin) : e;
}

flame_status fl_krule_attach(fl_krule *r, fl_node **value) {
  flame_context *c = r->call->c;
  fl_node *in[MOST];
  for (int j = 0; j < r->nactive; j++) in[j] = r->call->arg[r->active[j]].value;
  if (r->nactive && r->nresult && c->grad_mode)
    return customize(c, r->nresult, value, r->place, r->nactive, in,
                     (fl_custom){ .backward = rule_back, .release = rule_release, .arg = r });
  fl_krule_release(r);
  return c->err.code;
}

/* ---- of a launch ----------------------------------------------------------------------------- */

/* The node that argument i of the launch was made from, before the launch; NULL: there is none. */
static fl_node *given(const fl_launch *l, fl_node *const *number, int i, int output) {
  const int64_t w = l->p[FL_KP_ARGS + 2 * i];
  if (output >= 0) return l->out[output].input >= 0 ? l->in[l->out[output].input] : NULL;
  if ((w & 7) == FL_KARG_VALUE) return number[i];
  return (w & 7) == FL_KARG_IN || (w & 7) == FL_KARG_IN_EACH ? l->in[w >> 3] : NULL;
}

static int is_tracked(const fl_kprogram *p, const fl_launch *l, fl_node *const *number) {
  for (int i = 0, o = 0; i < p->nparam; i++) {
    const fl_node *n = given(l, number, i, fl_kprogram_writes(p, i) ? o++ : -1);
    if (n && n->entry && !p->nodiff[i] && is_float(p, i)) return 1;
  }
  return 0;
}

static int outputs_of(const fl_kprogram *p) {
  int n = 0;
  for (int i = 0; i < p->nparam; i++) n += fl_kprogram_writes(p, i);
  return n;
}

static void keep_argument(fl_kcall *k, const fl_launch *l, fl_node *n, int i) {
  const int64_t w = l->p[FL_KP_ARGS + 2 * i];
  fl_karg *to = &k->arg[i];
  if ((w & 7) == FL_KARG_VALUE) {
    to->at = (int32_t)(w >> 3);
    to->bytes = (int32_t)l->p[FL_KP_ARGS + 2 * i + 1];
  }
  to->each = (w & 7) == FL_KARG_IN_EACH || fl_kprogram_writes(k->p, i);
  fl_kcall_hold(&to->value, n && k->p->nodiff[i] ? n_detach(n) : n);
}

fl_krule *fl_krule_new(fl_kprogram *p, const fl_launch *l, fl_node *const *number, fl_node **value,
                       int *nout) {
  fl_node *recorded = NULL;
  if (p->replay && l->nout > outputs_of(p)) recorded = value[--*nout];
  if (!is_tracked(p, l, number)) return NULL;
  fl_kprogram *of = recorded ? p->replay : p;
  fl_kcall *k = fl_kcall_new(l->c, of, l->p, l->nscalar);
  if (!k) return NULL;
  k->batch = l->batch;
  memcpy(k->scalar, l->scalar, sizeof *k->scalar * (size_t)l->nscalar);
  for (int i = 0, o = 0; i < p->nparam; i++) {
    const int writes = fl_kprogram_writes(p, i);
    keep_argument(k, l, given(l, number, i, writes ? o : -1), i);
    if (writes) fl_kcall_hold(&k->arg[i].result, value[o++]);
  }
  if (recorded) {
    fl_kcall_hold(&k->arg[p->nparam].value, recorded);
    k->arg[p->nparam].each = 1;
  }
  fl_krule *r = fl_krule_of(k);
  fl_kcall_release(k);
  if (!r) return NULL;
  r->first = 1;
  for (int i = 0, o = 0; i < p->nparam; i++) {
    if (!fl_kprogram_writes(p, i)) continue;
    if (!p->hidden[i] && fl_is_float(value[o]->dtype)) {
      r->place[r->nresult] = (uint8_t)o;
      r->result[r->nresult++] = (uint8_t)i;
    }
    o++;
  }
  return r;
}

/* ---- what a proof needs ------------------------------------------------------------------- */

static fl_kcall *copy_call(const fl_kcall *k, int at, fl_node *x) {
  fl_kcall *own = fl_kcall_new(k->c, k->p, k->geometry, k->nscalar);
  if (!own) return NULL;
  memcpy(own->scalar, k->scalar, sizeof *k->scalar * (size_t)k->nscalar);
  own->batch = k->batch;
  for (int i = 0; i < k->p->nparam; i++) {
    own->arg[i].each = k->arg[i].each;
    own->arg[i].at = k->arg[i].at;
    own->arg[i].bytes = k->arg[i].bytes;
    fl_kcall_hold(&own->arg[i].value, i == at ? x : k->arg[i].value);
  }
  return own;
}

flame_status fl_krule_again(const fl_krule *r, int n, fl_node *x, fl_node **out) {
  const fl_kcall *k = r->call;
  int64_t count[MOST] = { 0 };
  const int at = r->active[n], type = k->p->k->f->params[at].type;
  const int scalar = k->p->role[at] == FL_KROLE_SCALAR;
  fl_kcall *own = copy_call(k, at, scalar ? x : fl_kflat(x, type));
  if (!own) return k->c->err.code;
  flame_status e = k->c->err.code;
  for (int i = 0; i < k->p->nparam; i++)
    if (k->arg[i].result) count[i] = fl_kcall_elements(k, i, k->arg[i].result);
  if (scalar && e == FLAME_OK)
    e = fl_kread_number(k->c, x, type, &own->scalar[own->arg[at].at]);
  if (e == FLAME_OK) e = fl_kcall_launch(own, count);
  for (int m = 0; m < r->nresult && e == FLAME_OK; m++) {
    out[m] = fl_kshaped(own->arg[r->result[m]].result, k->arg[r->result[m]].result);
    if (!out[m]) e = k->c->err.code;
  }
  fl_kcall_release(own);
  return e;
}

int fl_krule_unproven(fl_krule *r) {
  fl_kprogram *p = r->call->p;
  const uint64_t set = fl_hash64(r->active, (size_t)r->nactive, 1);
  for (int64_t i = 0; i < p->proven.n; i++) if (p->proven.at[i] == set) return 0;
  uint64_t *slot = FL_PUSH(p->k->mem, &p->proven);
  if (slot) *slot = set;
  return slot != NULL;
}

/* ---- gradients that have gradients ----------------------------------------------------------- */

/* What gradients were computed from, for their own rule. The entries of the gradients own it. */
typedef struct second {
  fl_kcall *call;                      /* a reference */
  int nall, nout;
  uint8_t all[MOST], out[MOST];        /* parameters: of the gradients, of the seeds */
  fl_node *seed[MOST];                 /* held, as out[] */
} second;

static void second_release(void *arg) {
  second *s = arg;
  fl_mem *m = &s->call->c->mem;
  for (int j = 0; j < s->nout; j++) fl_node_drop(s->seed[j]);
  fl_kcall_release(s->call);
  fl_free(m, s, sizeof *s);
}

/* Second derivatives with respect to the values: gradients of <seeds, J u>, where t is the jvp of
** the call in the direction u, the cotangent of one of its gradients. The results J u of t are the
** gradients with respect to the seeds. */
static flame_status through(const second *s, const fl_ktangent *t, fl_node **gin) {
  uint8_t active[MOST], slot[MOST];
  fl_node *seed[MOST] = { NULL }, *g[MOST] = { NULL };
  int n = 0, seeds = 0;
  for (int j = 0; j < s->nall; j++) {
    if (t->of_value[s->all[j]] < 0) continue;
    slot[n] = (uint8_t)j;
    active[n++] = (uint8_t)t->of_value[s->all[j]];
  }
  for (int j = 0; j < s->nout; j++) {
    if (t->of_tangent[s->out[j]] < 0) continue;
    seed[t->of_tangent[s->out[j]]] = s->seed[j];
    seeds++;
  }
  if (!seeds) return FLAME_OK;
  const flame_status e = fl_kcall_vjp(t->call, n, active, seed, g);
  for (int j = 0; j < n && e == FLAME_OK; j++) gin[slot[j]] = g[j];
  return e;
}

/* Of flame.jvp only the gradients with respect to the seeds are used: then the adjoint of the
** tangent, which takes far longer to derive, is not made. */
static flame_status second_back(flame_context *c, void *arg, fl_node *y, fl_node *u, int nin,
                                fl_node **gin) {
  const second *s = arg;
  const int of_values = (c->wanted & (s->nall < 31 ? (1u << s->nall) - 1 : ~0u)) != 0;
  fl_node *tangent[MOST] = { NULL }, *forward[MOST];
  fl_ktangent t;
  tangent[s->all[y->attr->offset]] = u;
  memset(gin, 0, sizeof *gin * (size_t)nin);
  flame_status e = fl_kcall_jvp(s->call, tangent, forward, &t);
  if (e != FLAME_OK) return e;
  if (of_values) e = through(s, &t, gin);
  for (int j = 0; j < s->nout && e == FLAME_OK; j++)         /* results of derived calls are flat */
    gin[s->nall + j] = fl_kshaped(forward[s->out[j]], s->seed[j]);
  fl_kcall_release(t.call);
  return e != FLAME_OK ? e : c->err.code;
}

/* Parameters whose values get gradients: those in 'active', then others that are tracked. */
static int all_of(const fl_kcall *k, int n, const uint8_t *active, uint8_t *all) {
  uint8_t set[MOST] = { 0 };
  memcpy(all, active, (size_t)n);
  for (int j = 0; j < n; j++) set[active[j]] = 1;
  for (int i = 0; i < k->p->nparam; i++) if (!set[i] && is_active(k, i)) all[n++] = (uint8_t)i;
  return n;
}

/* Makes gradients depend on values and seeds, if one of these is tracked. */
static flame_status differentiable(second s, int n, fl_node **gradient) {
  fl_node *in[2 * MOST] = { NULL };
  flame_context *c = s.call->c;
  int tracked = 0;
  for (int j = 0; j < s.nall; j++) in[j] = s.call->arg[s.all[j]].value;
  for (int j = 0; j < s.nout; j++) in[s.nall + j] = s.seed[j];
  for (int j = 0; j < s.nall + s.nout; j++) {
    assert(in[j]);
    tracked |= in[j]->entry != NULL;
  }
  if (!tracked || !c->grad_mode) return FLAME_OK;
  second *own = fl_alloc(&c->mem, sizeof *own);
  if (!own) return no_memory(s.call);
  *own = s;
  own->call->refs++;
  for (int j = 0; j < s.nout; j++) fl_node_hold(own->seed[j]);
  return customize(c, n, gradient, NULL, s.nall + s.nout, in,
                   (fl_custom){ .backward = second_back, .release = second_release, .arg = own });
}

flame_status fl_kcall_vjp(fl_kcall *k, int n, const uint8_t *active, fl_node *const *seed,
                          fl_node **gradient) {
  second s = { .call = k };
  fl_node *by[MOST];
  s.nall = all_of(k, n, active, s.all);
  for (int i = 0; i < k->p->nparam; i++) {
    if (!seed[i]) continue;
    s.out[s.nout] = (uint8_t)i;
    s.seed[s.nout++] = seed[i];
  }
  const flame_status e = fl_kcall_adjoint(k, s.nall, s.all, seed, by);
  for (int j = 0; j < n && e == FLAME_OK; j++) {
    const fl_node *v = k->arg[active[j]].value;
    gradient[j] = by[active[j]];
    if (!gradient[j])
      gradient[j] = n_fill(k->c, v->dtype, v->device, v->shape->rank, v->shape->size,
                           (fl_scalar){ .d = 0 });
    if (!gradient[j]) return k->c->err.code;
  }
  return e == FLAME_OK ? differentiable(s, n, gradient) : e;
}
