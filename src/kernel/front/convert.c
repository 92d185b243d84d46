/*
** Conversions of objects: by a constructor that takes one argument, and by members "operator T".
*/
#include "kernel/front/forms.h"
#include "kernel/front/template.h"

fl_kdevice *fl_member_makes(fl_front *p, const fl_ctype *t, const fl_cvalue *v) {
  const fl_ctype *const from = v->type;
  fl_kdevice *const all = from ? fl_member_functions(t, FL_MAKER) : NULL;
  const fl_kcall c = { .args = v, .n = 1 };
  for (fl_kdevice *d = all; d && !p->failed; d = d->next) {
    if (d->is_explicit) continue;
    const fl_kdevice *one = d->n_tparams ? fl_template_instance(p, all, d, &c) : d;
    const fl_ctype *q = one && one->n_params ? one->params[0].type : NULL;
    if (!q || (one->n_params > 1 && !one->params[1].init)) continue;
    if ((q->kind == FL_C_SCALAR && from->kind == FL_C_SCALAR) ||
        (fl_ctype_same(q, from) && !fl_ctype_same(q, t)))
      return d;
  }
  return NULL;
}

const fl_kdevice *fl_member_converts(const fl_ctype *t) {
  const fl_kdevice *d = fl_member_functions(t, FL_CONVERTS);
  return d && !d->next && d->result && d->result->kind == FL_C_SCALAR ? d : NULL;
}

/* A member "operator T *()" that can be called for v, one that is not const if there is such a one;
** NULL: there is none. */
static fl_kdevice *to_pointer(const fl_cvalue *v) {
  fl_kdevice *found = NULL;
  for (fl_kdevice *d = fl_member_functions(v->type, FL_CONVERTS); d; d = d->next) {
    if (!d->result || d->result->kind != FL_C_POINTER || (v->is_const && !d->is_const)) continue;
    if (!found || found->is_const) found = d;
  }
  return found;
}

static fl_cvalue converted(fl_front *p, fl_cvalue v, fl_kdevice *d, int32_t line) {
  v = fl_call_object(p, v, d, d->next, line);
  const fl_kcall c = { .self = &v, .line = line };
  return p->failed ? fl_val_none() : fl_inline(p, d, &c);
}

fl_cvalue fl_member_pointer(fl_front *p, fl_cvalue v, int32_t line) {
  fl_kdevice *d = !p->failed && fl_val_is_object(v) ? to_pointer(&v) : NULL;
  return d ? converted(p, v, d, line) : v;
}

fl_cvalue fl_member_plain(fl_front *p, fl_cvalue v, int32_t line) {
  const fl_kdevice *d =
      !p->failed && fl_val_is_object(v) ? fl_member_converts(v.type) : NULL;
  return d ? converted(p, v, (fl_kdevice *)(uintptr_t)d, line) : v;
}
