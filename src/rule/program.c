/* Programs (rule.h): the meaning of a kernel's parameters, and the kernels derived from it. */
#include "rule/rule.h"
#include "kernel/ad/record.h"
#include <string.h>

enum { MOST_DERIVED = 1 << 30 };        /* most memory of the source's arena that one derivation may
                                        ** take */

static void *no_memory(flame_context *c) {
  FL_FAIL(c, FLAME_NO_MEMORY, "kernel", "no host memory to derive a gradient");
  return NULL;
}

/* ---- programs -------------------------------------------------------------------------------- */

static int is_integer(const fl_kparam *q) {
  return !q->is_pointer && !q->is_struct && !q->part_of && q->width <= 1 && q->type >= FL_KT_I8 &&
         q->type <= FL_KT_U64;
}

static int role_of(const fl_kparam *q, int inout) {
  if (q->is_null) return FL_KROLE_NONE;
  if (q->is_pointer) return q->is_const ? FL_KROLE_IN : inout ? FL_KROLE_INOUT : FL_KROLE_OUT;
  return q->is_struct || q->width > 1 ? FL_KROLE_STRUCT : FL_KROLE_SCALAR;
}

static void set_roles(fl_kprogram *p, const uint8_t *inout) {
  const fl_kfunc *f = p->k->f;
  int integers = 0, last = -1;
  for (int i = 0; i < f->n_params; i++) {
    const fl_kparam *q = &f->params[i];
    integers += is_integer(q);
    p->role[i] = (uint8_t)role_of(q, inout && inout[i]);
    p->hidden[i] = inout && q->of_file && p->role[i] != FL_KROLE_INOUT;
    if (!p->hidden[i]) last = i;
  }
  p->omit = integers == 1 && last >= 0 && is_integer(&f->params[last]) ? last : -1;
}

/* Has the kernel a list of tensors whose length is not known yet? Such a kernel never runs itself:
** a call makes a kernel for the length of its list. So whether arguments can be passed is decided
** for that kernel. */
static int awaits_lengths(const fl_kfunc *f) {
  for (int i = 0; i < f->n_params; i++) if (f->params[i].list && !f->params[i].lists) return 1;
  return 0;
}

/* Can all parameters be passed? */
static int passable(flame_context *c, const fl_kfunc *f) {
  if (f->n_params > FL_KP_MAX_ARGS) {
    FL_FAIL(c, FLAME_BAD_ARGUMENT, "kernel", "'%s' has %d parameters, at most %d", f->name,
            f->n_params, FL_KP_MAX_ARGS);
    return 0;
  }
  for (int i = 0; i < f->n_params; i++) {
    const fl_kparam *q = &f->params[i];
    /* a device would take the array for a texture handle, or the first part for the struct */
    if ((q->is_texture || q->part_of) && !f->has_body && !awaits_lengths(f)) {
      FL_FAIL(c, FLAME_NOT_SUPPORTED, "kernel", "a kernel with %s runs only if it is "
              "understood: kernel '%s', line %d: %s", q->is_texture ? "textures"
              : "pointers in structs", f->name, (int)f->refusal_line,
              f->refusal ? f->refusal : "it has no body");
      return 0;
    }
    if (q->is_pointer || q->known) continue;
    const int why = f->refusal && f->refusal_line == q->line;
    FL_FAIL(c, FLAME_BAD_ARGUMENT, "kernel",
            "kernel '%s', line %d: parameter %s: a value of type %s can not be passed%s%s",
            f->name, (int)q->line, q->name, q->type_name, why ? ": " : "", why ? f->refusal : "");
    return 0;
  }
  return 1;
}

fl_kprogram *fl_kprogram_new(flame_context *c, fl_kfunction *k, const uint8_t *inout) {
  fl_kprogram *p = k && passable(c, k->f) ? fl_zalloc(&c->mem, sizeof *p) : NULL;
  if (!p) {
    if (c->err.code == FLAME_OK) no_memory(c);
    else if (k) fl_kunit_retell(k->unit, &c->err);         /* (a unit may be NULL) */
    fl_kfunction_release(k);
    return NULL;
  }
  p->refs = 1;
  p->k = k;
  p->name = k->f->name;
  p->nparam = k->f->n_params;
  set_roles(p, inout);
  return p;
}

void fl_kprogram_release(fl_kprogram *p) {
  if (!p || --p->refs > 0) return;
  fl_mem *m = p->k->mem;
  while (p->derived) {
    fl_kderived *d = p->derived;
    p->derived = d->next;
    for (int i = 0; i < d->nparts; i++) fl_kprogram_release(d->part[i]);
    fl_free(m, d, sizeof *d);
  }
  fl_kprogram_release(p->spilled);
  fl_kprogram_release(p->replay);
  fl_kfunction_release(p->recorder);
  fl_kfunction_release(p->k);
  FL_DROP(m, &p->proven);
  fl_free(m, p, sizeof *p);
}

/* ---- recorded atomics ------------------------------------------------------------------------ */

static fl_kfunction *recording(const fl_kfunction *k, int replay) {
  fl_karena *a = &k->unit->source->arena;
  fl_kad *ad = fl_karena_new(a, sizeof *ad);
  if (!ad || !(ad->func = fl_krecord_make(a, k->f, replay))) return NULL;
  ad->n_params = ad->func->n_params;
  return fl_kfunction_derived(k->unit, ad, 0);
}

flame_status fl_kprogram_record(flame_context *c, fl_kprogram *p) {
  const int n = p->k->binary ? 0 : fl_krecord_count(p->k->f);
  if (n == 0 || p->nparam >= FL_KP_MAX_ARGS) return FLAME_OK;
  p->recorder = recording(p->k, 0);
  fl_kfunction *reader = p->recorder ? recording(p->k, 1) : NULL;
  if (!reader) return FL_FAIL(c, FLAME_NO_MEMORY, "kernel", "no host memory");
  if (!(p->replay = fl_kprogram_new(c, reader, NULL))) return c->err.code;
  memcpy(p->replay->role, p->role, (size_t)p->nparam);
  memcpy(p->replay->hidden, p->hidden, (size_t)p->nparam);
  memcpy(p->replay->nodiff, p->nodiff, (size_t)p->nparam);
  p->replay->name = p->name;
  p->records = n;
  return FLAME_OK;
}

/* ---- derivatives ----------------------------------------------------------------------------- */

/* Is the derived kernel right for this launch? */
static int holds(const fl_klimits *limits, const fl_klaunched *l) {
  for (int i = 0; i < limits->n; i++) {
    const fl_klimit *x = &limits->at[i];
    int64_t most = 1;
    if (!l || (x->param >= 0 && (x->param >= l->n_values || !l->known[x->param]))) return 0;
    if (x->param >= 0) most = l->value[x->param];
    if (__builtin_mul_overflow(most, x->factor, &most)) return 0;
    if ((x->which < FL_KEXTENTS ? l->extent[x->which] : 0) > most) return 0;
  }
  return 1;
}

static const fl_kderived *find(const flame_context *c, const fl_kprogram *p, const fl_kask *ask) {
  for (const fl_kderived *d = p->derived; d; d = d->next)
    if (d->ask.adjoint == ask->adjoint && d->ask.gather == ask->gather &&
        d->ask.geometry == ask->geometry && d->deterministic == c->deterministic &&
        memcmp(d->ask.want, ask->want, (size_t)p->nparam) == 0 && holds(d->limits, ask->launched))
      return d;
  return NULL;
}

flame_status fl_kprogram_refuse(flame_context *c, const fl_kprogram *p, const char *why) {
  char text[700];
  fl_kunit_message(p->k->unit, why, text, sizeof text);
  return FL_FAIL(c, FLAME_BAD_ARGUMENT, p->name, "%s", text);
}

/* Reports why the kernel itself is refused. */
static void *refuse(flame_context *c, const fl_kprogram *p) {
  char text[480];
  const char *why = fl_ksource_refusal(p->k->unit->source, p->k->f);
  fl_kunit_message(p->k->unit, why ? why : "it has no derivative", text, sizeof text);
  FL_FAIL(c, FLAME_BAD_ARGUMENT, p->name, "%s: no gradient can be derived" FL_DO
          "; give vjp = …", text);
  return NULL;
}

/* Derives the adjoint or tangent of k, unless an interrupt comes. A failure (*failed) is not kept
** in the source, which may be asked again. */
static fl_kad *derive(flame_context *c, const fl_kfunction *k, const fl_kask *ask,
                      fl_kad_request *r, fl_kad_parts *parts, int *failed) {
  fl_karena *a = &k->unit->source->arena;
  a->stop = &c->interrupted;
  a->most = a->bytes + MOST_DERIVED;
  fl_kad *ad = ask->adjoint ? fl_kad_adjoint(a, k->f, r) : fl_kad_tangent(a, k->f, r);
  if (ad && ad->any_order) r->deterministic = 0;
  if (ad && ad->func && ask->gather && ask->adjoint && !a->failed)
    *parts = fl_kad_gather(a, k->f, ad, r);
  *failed = a->failed;
  a->failed = 0;
  a->most = 0;
  a->stop = NULL;
  return ad;
}

/* Determines what each parameter of a tangent kernel means when that kernel is called. */
static void mean_tangent(fl_kprogram *t, const fl_kprogram *p, const uint8_t *want) {
  for (int k = 0; k < t->nparam; k++) {
    const fl_kad_param *q = &t->k->ad->params[k];
    const int of = q->param >= 0 ? p->role[q->param] : FL_KROLE_NONE;
    const int given = q->param >= 0 && want[q->param] & FL_KAD_INPUT;
    switch (q->role) {
      case FL_KAD_ORIGINAL:
        t->role[k] = (uint8_t)(of == FL_KROLE_STRUCT || of == FL_KROLE_SCALAR ? of : FL_KROLE_IN);
        break;
      case FL_KAD_RESULT:
        t->role[k] = of == FL_KROLE_INOUT ? FL_KROLE_INOUT : FL_KROLE_OUT;
        break;
      case FL_KAD_TANGENT_RESULT:
        t->role[k] = of == FL_KROLE_INOUT && given ? FL_KROLE_INOUT : FL_KROLE_OUT;
        break;
      case FL_KAD_TANGENT: t->role[k] = FL_KROLE_IN; break;
      case FL_KAD_TANGENT_SCALAR: case FL_KAD_SHARED: t->role[k] = FL_KROLE_SCALAR; break;
      default: t->role[k] = FL_KROLE_NONE;
    }
  }
}

static int add_part(flame_context *c, fl_kderived *d, const fl_kprogram *p, fl_kad *ad, int exact) {
  fl_kfunction *k = ad ? fl_kfunction_derived(p->k->unit, ad, exact) : NULL;
  if (!k) return no_memory(c) != NULL;
  fl_kprogram *part = fl_kprogram_new(c, k, NULL);
  if (!part) return 0;
  part->name = p->name;
  if (!d->ask.adjoint) mean_tangent(part, p, d->ask.want);
  d->part[d->nparts++] = part;
  return 1;
}

/* p itself if the arrays can not move. */
static fl_kprogram *spilled(flame_context *c, fl_kprogram *p, int32_t excess) {
  fl_kprogram **at = &p->spilled;
  for (; *at; at = &(*at)->spilled)
    if ((*at)->excess == excess) return *at;
  fl_karena *a = &p->k->unit->source->arena;
  fl_kad *ad = fl_kad_spill(a, p->k->ad, excess);
  const int failed = a->failed;
  a->failed = 0;
  if (failed) return no_memory(c);
  if (!ad || ad->n_params > FL_KP_MAX_ARGS) return p;
  fl_kfunction *k = fl_kfunction_derived(p->k->unit, ad, p->k->sums > 0);
  if (!k) return no_memory(c);
  if (!(*at = fl_kprogram_new(c, k, NULL))) return NULL;
  (*at)->name = p->name;
  (*at)->excess = excess;
  return *at;
}

fl_kprogram *fl_kprogram_fit(flame_context *c, fl_kprogram *p, int64_t dynamic, int64_t room) {
  const fl_kad *ad = p->k->ad;
  if (ad->n_gather > 0) return p;                /* it has no shared memory */
  const int32_t excess = fl_kad_excess(ad, (dynamic + 15) / 16 * 16, room);
  return excess ? spilled(c, p, excess) : p;
}

/* Combines the parts of a derivation. The first is the gather (a kernel with one thread per
** element), if there is one. */
static fl_kderived *put_together(flame_context *c, fl_kprogram *p, const fl_kask *ask, fl_kad *ad,
                                 fl_kad_parts parts, int exact) {
  fl_kderived *d = fl_zalloc(&c->mem, sizeof *d);
  if (!d) return no_memory(c);
  const fl_kad *first = parts.gather ? parts.gather : parts.rest ? parts.rest : ad;
  d->ask = *ask;
  d->ask.launched = NULL;
  d->deterministic = c->deterministic;
  d->limits = parts.gather ? &parts.gather->limits : &ad->limits;
  d->positive = first->positive;
  d->views = ad->views;
  int ok = !parts.gather || add_part(c, d, p, parts.gather, 0);
  if (ok && (!parts.gather || parts.rest))
    ok = add_part(c, d, p, parts.rest ? parts.rest : ad, exact);
  if (ok) return d;
  for (int i = 0; i < d->nparts; i++) fl_kprogram_release(d->part[i]);
  fl_free(&c->mem, d, sizeof *d);
  return NULL;
}

const fl_kderived *fl_kprogram_derive(flame_context *c, fl_kprogram *p, const fl_kask *ask) {
  const fl_kderived *known = find(c, p, ask);
  if (known) return known;
  if (p->k->binary) {
    FL_FAIL(c, FLAME_BAD_ARGUMENT, p->name, "kernel '%s' is a binary and has no derivative" FL_DO
            "; give vjp = …", p->k->f->name);
    return NULL;
  }
  if (!p->k->f->has_body) return refuse(c, p);
  fl_kad_request r = { .want = ask->want, .deterministic = c->deterministic,
                       .geometry = ask->geometry,
                       .launched = ask->adjoint ? ask->launched : NULL };
  fl_kad_parts parts = { NULL, NULL };
  int failed;
  fl_kad *ad = derive(c, p->k, ask, &r, &parts, &failed);
  if (failed == FL_KARENA_STOPPED) {
    fl_take_interrupt(c);
    fl_interrupted(c, "kernel");
    return NULL;
  }
  if (ad && !ad->func && ad->refusal) {
    fl_kprogram_refuse(c, p, ad->refusal);
    return NULL;
  }
  if (failed || !ad || !ad->func) return no_memory(c);
  fl_kderived *d = put_together(c, p, ask, ad, parts, r.deterministic);
  if (!d) return NULL;
  fl_kderived **end = &p->derived;
  while (*end) end = &(*end)->next;
  return *end = d;
}

const fl_kderived *fl_kprogram_show(flame_context *c, fl_kprogram *p, int adjoint,
                                    const int64_t *geometry) {
  fl_kknown known = { .l = { .n_values = 0 } };
  fl_kask ask = { .adjoint = (uint8_t)adjoint,
                  .gather = (uint8_t)adjoint, .geometry = FL_KONE_ALL };
  for (int i = 0; i < p->nparam; i++) {
    const fl_kparam *q = &p->k->f->params[i];
    const int is_float = q->type < FL_KT_COUNT && fl_ktypes[q->type].is_float;
    if (fl_kprogram_writes(p, i) && is_float && !p->hidden[i]) ask.want[i] |= FL_KAD_OUTPUT;
    if (p->role[i] != FL_KROLE_OUT && p->role[i] != FL_KROLE_STRUCT && is_float)
      ask.want[i] |= FL_KAD_INPUT;
    if (p->role[i] == FL_KROLE_OUT) ask.want[i] |= FL_KAD_FRESH;
  }
  if (geometry) {
    ask.geometry = (uint8_t)fl_kone_of(geometry);
    fl_kextents_of(geometry, known.l.extent);
    ask.launched = &known.l;
  }
  return fl_kprogram_derive(c, p, &ask);
}
