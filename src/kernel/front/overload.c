/*
** Overload resolution. Ranks of an argument, as in C++: exact, promoted, converted, to bool, by a
** function (a user-defined conversion; halves convert so too). Some functions that C++ would not
** call are candidates as well, with a late rank, and lose to each that it would call: 'other' for a
** pointer to, or an array of, another type, and last for const or volatile that would be lost, a
** T & of a value, a T && of a variable. Among the rest a candidate wins if it is no worse for any
** argument, and better for one or else preferred (a function to a template; prefer.c). If none
** wins, the call is refused.
*/
#include "kernel/front/forms.h"
#include "kernel/front/scope.h"
#include "kernel/front/template.h"
#include <string.h>

enum { EXACT, PROMOTED, CONVERTED, TO_BOOL, BY_A_FUNCTION, OTHER, LAST, MAX_ARGS = FL_K_MAX_GIVEN };

static int rank_scalar(const fl_ctype *t, const fl_ctype *of) {
  const int to = t->scalar, from = of->scalar;
  if (fl_ctype_like(t, of)) return EXACT;
  if (fl_ctype_is_enum(t) || of->scoped) return -1;                      /* needs a cast */
  if (fl_ctype_is_enum(of))
    return fl_ctype_like(t, of->of) || (to == FL_KT_I32 && !t->other &&
                                        fl_promote_type(of->of->scalar) == FL_KT_I32)
           ? PROMOTED : CONVERTED;
  if (fl_kt_is_half(to) || fl_kt_is_half(from)) return BY_A_FUNCTION;
  if (to == FL_KT_I32 && from < FL_KT_I32 && fl_promote_type(from) == FL_KT_I32) return PROMOTED;
  return to == FL_KT_F64 && from == FL_KT_F32 ? PROMOTED : CONVERTED;
}

static int rank_pointer(const fl_ctype *t, const fl_cvalue *v) {
  const int array = v->kind == FL_V_PLACE && v->type->kind == FL_C_ARRAY;
  const int place = v->kind == FL_V_PLACE && v->type->kind == FL_C_POINTER;
  const int zero = v->kind == FL_V_EXPR && v->e->kind == FL_KX_CONST &&
                   fl_kt_is_int(v->e->type) && !v->e->value.i;
  if (zero) return CONVERTED;
  if (v->kind != FL_V_POINTER && !array && !place) return -1;
  if (v->null) return CONVERTED;
  const fl_ctype *of = array || place ? v->type->of : v->type;
  const int is_const = t->const_of - (place ? v->type->const_of : v->is_const),
            is_volatile = t->of->is_volatile - of->is_volatile;       /* -1: it would be lost */
  if (!fl_ctype_same(t->of, of))
    return fl_member_derives(of, t->of) || t->of == fl_ctype_void() ? CONVERTED : OTHER;
  if (!fl_ctype_like(t->of, of)) return OTHER;
  return is_const < 0 || is_volatile < 0 ? LAST : EXACT + is_const + is_volatile;
}

/* Is formal f a reference to the type of v, a number or a struct, to which C++ does not bind v? */
static int is_unfit(const fl_kformal *f, const fl_cvalue *v) {
  const int place = v->kind == FL_V_PLACE && !v->rvalue && !v->moved,
            lvalue = place || (v->kind != FL_V_LIST && (v->named || v->either));
  if (!f->by_reference || !v->type || !fl_ctype_like(f->type, v->type) ||
      (v->type->kind != FL_C_SCALAR && v->type->kind != FL_C_STRUCT)) return 0;
  if (f->by_reference == 2) return lvalue;
  return !f->is_const && (!lvalue || v->is_const);
}

/* The rank of passing v to formal f, is_unfit aside; -1: it cannot be passed. */
static int rank_any(fl_front *p, const fl_kformal *f, const fl_cvalue *v) {
  const fl_ctype *t = f->type;
  if (v->kind == FL_V_LIST) return t->kind == FL_C_STRUCT ? EXACT : -1;
  if (v->kind == FL_V_NONE || !v->type) return -1;
  if (v->kind == FL_V_POINTER && v->address)
    return fl_shared_is(v, t) ? (f->by_reference && !f->is_const ? -1 : EXACT)
           : t->kind == FL_C_POINTER && (t->of->kind == FL_C_VOID || fl_ctype_same(t->of, v->type))
             ? EXACT : -1;
  if (t->kind == FL_C_POINTER) return rank_pointer(t, v);
  if (t->kind == FL_C_ARRAY)
    return v->kind != FL_V_PLACE || !fl_ctype_same(t, v->type) ? -1
           : fl_ctype_like(t, v->type) ? EXACT : OTHER;
  if (v->kind == FL_V_POINTER || v->type->kind == FL_C_ARRAY || v->type->kind == FL_C_POINTER)
    return t->kind == FL_C_SCALAR && t->scalar == FL_KT_BOOL && !f->by_reference ? TO_BOOL : -1;
  /* a T &, which does not bind to the result of a conversion */
  const int own = f->by_reference == 1 && !f->is_const;
  if (t->kind == FL_C_STRUCT && fl_member_derives(v->type, t))
    return fl_ctype_like(t, v->type) ? EXACT : CONVERTED;
  if (t->kind == FL_C_STRUCT) return !own && fl_member_makes(p, t, v) ? BY_A_FUNCTION : -1;
  if (v->type->kind == FL_C_STRUCT) {
    const fl_kdevice *d = own || t->kind != FL_C_SCALAR ? NULL : fl_member_converts(v->type);
    return d && !d->is_explicit ? BY_A_FUNCTION : -1;
  }
  if (v->type->kind != FL_C_SCALAR) return -1;
  if (own && !fl_ctype_like(t, v->type)) return -1;
  return rank_scalar(t, v->type);
}

static int rank(fl_front *p, const fl_kformal *f, const fl_cvalue *v) {
  const int r = rank_any(p, f, v);
  return r >= 0 && is_unfit(f, v) ? LAST : r;
}

/* Sets ranks[0] to the rank of the object (EXACT if there is none) and ranks[1 + i] to that of
** argument i. 0: the function cannot be called with these arguments. */
static int ranks_of(fl_front *p, const fl_kdevice *d, const fl_kcall *c, int *ranks) {
  if (c->n > d->n_params || c->n > MAX_ARGS) return 0;
  if (c->self ? d->is_static == 2 : d->owner && !d->is_static && !d->is_maker) return 0;
  for (int i = c->n; i < d->n_params; i++)
    if (!d->params[i].init || (d->params[i].late && d->params[i].init > p->at)) return 0;
  ranks[0] = EXACT;
  if (c->self && !d->is_static && !d->is_maker) {
    if (c->self->is_const && !d->is_const) return 0;
    ranks[0] = !c->self->is_const && d->is_const ? PROMOTED : EXACT;
  }
  for (int i = 0; i < c->n; i++)
    if ((ranks[i + 1] = rank(p, &d->params[i], &c->args[i])) < 0) return 0;
  return 1;
}

/* Compares the n ranks of two candidates. 1: a is better, -1: b is better, 0: neither. */
static int better(const int *a, const int *b, int n) {
  int wins = 0, losses = 0, late = 0, others = 0;
  for (int i = 0; i < n; i++) {
    wins += a[i] < b[i], losses += a[i] > b[i];
    late |= a[i] >= OTHER, others |= b[i] >= OTHER;
  }
  if (late != others) return others - late;
  return wins && !losses ? 1 : losses && !wins ? -1 : 0;
}

/* The function that the call would call if it meant d: d itself or an instance of d; NULL: the call
** cannot mean d. *whole: it is d itself. */
static fl_kdevice *candidate(fl_front *p, fl_kdevice *first, fl_kdevice *d, const fl_kcall *c,
                             int *whole) {
  fl_outside_complete(p, d);
  *whole = !d->n_tparams;
  if (d->n_special || (c->in_angles && !d->n_tparams)) return NULL;
  if (c->name && !fl_scope_means(p, c, d)) return NULL;
  for (int i = 0; *whole && i < d->n_params; i++) *whole = d->params[i].type != NULL;
  return *whole ? d : fl_template_instance(p, first, d, c);
}

/* Is a call that means d too early: does d come after it, while 'sooner', which also fits, is there
** by then? C++ calls a function that comes later only if an argument's type leads to it. */
static int is_early(const fl_front *p, const fl_kdevice *d, const fl_kdevice *sooner,
                    const fl_kcall *c) {
  for (int i = 0; i < c->n; i++) {
    const fl_ctype *t = c->args[i].type;
    while (t && (t->kind == FL_C_POINTER || t->kind == FL_C_ARRAY)) t = t->of;
    if (c->args[i].kind == FL_V_LIST || !t || t->kind == FL_C_STRUCT || fl_ctype_is_enum(t))
      return 0;
  }
  return sooner && sooner != d && !c->self && !d->owner && d->line && d->head > p->at;
}

static int refuses(fl_front *p, const fl_kdevice *best, int tied, int early, const fl_kcall *c) {
  if (tied)
    fl_refuse(p, c->line, "'%s' is called with arguments that fit several functions of that name",
              best->name);
  else if (early)
    fl_refuse(p, c->line, "'%s' is called before the function of that name that fits best: CUDA "
              "calls another one, so declare that function before the call", best->name);
  return tied || early;
}

fl_kdevice *fl_overload(fl_front *p, fl_kdevice *first, const fl_kcall *c, int *fit) {
  const fl_kdevice *sooner = NULL;                     /* one that fits and is before the call */
  fl_kdevice *best = NULL, *general = NULL;            /* general: 'best', or the template that it
                                                       ** is an instance of */
  int top[MAX_ARGS + 1], now[MAX_ARGS + 1], tied = 0, plain = 0;
  if (fit) *fit = FL_FITS_NOT;
  for (fl_kdevice *d = first; d && !p->failed; d = d->next) {
    int whole;
    fl_kdevice *one = candidate(p, first, d, c, &whole);
    if (!one || !ranks_of(p, one, c, now)) continue;
    if (d->head <= p->at) sooner = d;
    int wins = best ? better(now, top, c->n + 1) : 1;
    if (!wins) wins = fl_reference_prefers(one, best, c);
    /* one without a pack is preferred */
    if (!wins && best && !one->pack != !best->pack) wins = one->pack ? -1 : 1;
    if (!wins) wins = whole - plain;                        /* a function to a template */
    if (!wins && best && (one->body < 0) != (best->body < 0) && fl_device_same(one, best))
      wins = one->body < 0 ? -1 : 1;                /* a definition to a declaration */
    if (!wins && !whole && !one->pack) wins = fl_template_prefers(p, d, general, c->n);
    if (!wins && best && !one->line != !best->line)
      wins = one->line ? 1 : -1;                    /* the text's own to one of the library */
    if (!wins) tied = 1;
    if (wins <= 0) continue;
    best = one;
    general = d;
    plain = whole;
    tied = 0;
    memcpy(top, now, sizeof top);
  }
  int worst = EXACT;
  for (int i = 1; best && i <= c->n; i++) worst = top[i] > worst ? top[i] : worst;
  if (tied && worst >= OTHER) best = NULL;            /* C++ calls none of these, so it is no tie */
  if (p->failed || (best && refuses(p, best, tied, is_early(p, general, sooner, c), c)))
    return NULL;
  if (best && fit && worst <= PROMOTED) *fit = worst == EXACT ? FL_FITS : FL_FITS_PROMOTED;
  return best;
}
