/* The jvp of a call (rule.h): tangents of the results from those of the arguments. */
#include "rule/rule.h"
#include "tensor/build.h"
#include <assert.h>
#include <string.h>

enum { MOST = FL_KP_MAX_ARGS };

/* Reserves room for the number of argument k, after those of earlier arguments. */
static void *number_room(fl_kcall *t, int *used, int k, int64_t bytes) {
  t->arg[k].at = *used;
  t->arg[k].bytes = (int32_t)bytes;
  *used += (int)((bytes + 7) / 8);
  return &t->scalar[t->arg[k].at];
}

typedef struct tangents {
  fl_kcall *of;
  fl_node *const *tangent;             /* by parameter of it */
  fl_ktangent *t;
  int64_t shared;
  int used;                            /* scalar slots */
  int64_t count[MOST];                 /* elements of results that begin as zeros */
} tangents;

static void original(tangents *x, int k, int i) {
  const fl_kcall *of = x->of;
  fl_karg *to = &x->t->call->arg[k];
  const int role = of->p->role[i];
  if (role == FL_KROLE_STRUCT || role == FL_KROLE_SCALAR) {
    void *room = number_room(x->t->call, &x->used, k, of->arg[i].bytes);
    memcpy(room, &of->scalar[of->arg[i].at], (size_t)of->arg[i].bytes);
    fl_kcall_hold(&to->value, of->arg[i].value);
  } else {
    fl_kcall_hold(&to->value, fl_kcall_contents(of, i));
  }
  to->each = of->arg[i].each;
  if (role != FL_KROLE_STRUCT) x->t->of_value[i] = (int8_t)k;
}

/* Gives argument k: an array that is written, and begins as a copy of x or as zeros. */
static void written(tangents *x, int k, int i, fl_node *begin) {
  x->t->call->arg[k].each = x->of->arg[i].each;
  if (begin) fl_kcall_hold(&x->t->call->arg[k].value, begin);
  else x->count[k] = fl_kcall_elements(x->of, i, x->of->arg[i].result);
}

static flame_status mean(tangents *x, int k) {
  fl_kcall *t = x->t->call;
  assert(t);
  const fl_kad_param *q = &t->p->k->ad->params[k];
  const int i = q->param, type = t->p->k->f->params[k].type;
  const int inout = i >= 0 && x->of->p->role[i] == FL_KROLE_INOUT;
  fl_node *u = i >= 0 ? x->tangent[i] : NULL;
  switch (q->role) {
    case FL_KAD_UNUSED: break;
    case FL_KAD_ORIGINAL: original(x, k, i); break;
    case FL_KAD_RESULT:
      written(x, k, i, inout ? x->of->arg[i].value : NULL);
      if (inout) x->t->of_value[i] = (int8_t)k;
      break;
    case FL_KAD_TANGENT_RESULT:
      written(x, k, i, inout && u ? fl_kflat(u, q->type) : NULL);
      x->t->of_tangent[i] = (int8_t)k;
      break;
    case FL_KAD_TANGENT:
      fl_kcall_hold(&t->arg[k].value, fl_kflat(u, q->type));
      t->arg[k].each = x->of->arg[i].each;
      break;
    case FL_KAD_TANGENT_SCALAR:
      fl_kcall_hold(&t->arg[k].value, u);
      return fl_kread_number(t->c, u, type, number_room(t, &x->used, k, fl_kt_size(type)));
    case FL_KAD_SHARED:
      memcpy(number_room(t, &x->used, k, 8), &x->shared, 8);
      break;
    default: return fl_kno_role(t->c, q);
  }
  return t->c->err.code;
}

static flame_status make_tangent(tangents *x, fl_kprogram *p) {
  flame_context *c = x->of->c;
  int64_t geometry[FL_KP_COUNT_ARGS];
  memcpy(geometry, x->of->geometry, sizeof geometry);
  const flame_status large = fl_kenlarge(x->of, geometry, p->k->ad, &x->shared);
  if (large != FLAME_OK) return large;
  memset(x->t->of_value, -1, sizeof x->t->of_value);
  memset(x->t->of_tangent, -1, sizeof x->t->of_tangent);
  x->t->call = fl_kcall_new(c, p, geometry, x->of->nscalar + p->nparam);
  flame_status e = x->t->call ? FLAME_OK : c->err.code;
  if (x->t->call) x->t->call->batch = x->of->batch;
  for (int k = 0; k < p->nparam && e == FLAME_OK; k++) e = mean(x, k);
  const uint8_t mode = c->grad_mode;
  c->grad_mode = 0;
  if (e == FLAME_OK) e = fl_kcall_launch(x->t->call, x->count);
  c->grad_mode = mode;
  return e;
}

/* The tangents of the results, tracked if their inputs are. */
static flame_status hand_out(const fl_kcall *k, const fl_ktangent *t, fl_node **out) {
  fl_krule *r = fl_krule_of(t->call);
  if (!r) return k->c->err.code;
  for (int i = 0; i < k->p->nparam; i++) {
    out[i] = NULL;
    if (t->of_tangent[i] < 0) continue;
    out[i] = fl_kshaped(t->call->arg[t->of_tangent[i]].result, k->arg[i].result);
    r->place[r->nresult] = (uint8_t)i;
    r->result[r->nresult++] = (uint8_t)t->of_tangent[i];
  }
  return fl_krule_attach(r, out);
}

flame_status fl_kcall_jvp(fl_kcall *k, fl_node *const *tangent, fl_node **out, fl_ktangent *t) {
  fl_kknown known;
  fl_kask ask = { .geometry = (uint8_t)fl_kone_of(k->geometry), .launched = &known.l };
  fl_kcall_known(k, &known);
  t->call = NULL;
  for (int i = 0; i < k->p->nparam; i++)
    ask.want[i] = (uint8_t)((tangent[i] ? FL_KAD_INPUT : 0) |
                            (fl_kprogram_writes(k->p, i) ? FL_KAD_OUTPUT : 0) |
                            (k->p->role[i] == FL_KROLE_OUT ? FL_KAD_FRESH : 0));
  const fl_kderived *d = fl_kprogram_derive(k->c, k->p, &ask);
  if (!d || (d->views && fl_kcall_apart(k) != FLAME_OK)) return k->c->err.code;
  tangents x = { .of = k, .tangent = tangent, .t = t };
  flame_status e = make_tangent(&x, d->part[0]);
  if (e == FLAME_OK) e = hand_out(k, t, out);
  if (e == FLAME_OK) return FLAME_OK;
  fl_kcall_release(t->call);
  t->call = NULL;
  return e;
}
