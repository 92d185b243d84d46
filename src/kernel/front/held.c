/*
** Pointers that are members of objects: "View v = { x, n }; v.data += n; f(v.data)". The variable
** of such a member holds an index into an array. That array is the one of the first assignment in
** the text, and is kept in fl_kheld.v; a later assignment only sets the index. If the kernel is
** read with p->turning (turn.c), a later one may make the member point into another array, too.
*/
#include "kernel/front/forms.h"
#include <string.h>

struct fl_kheld {
  int32_t var;                   /* the variable of the member */
  int64_t row;                   /* of an array of pointers (fl_held_row) */
  fl_cvalue v;                   /* what it points to, index aside; v.type NULL: nothing yet */
  struct fl_kheld *next;
};

static fl_kheld *held(const fl_front *p, const fl_cvalue *v) {
  if (v->kind != FL_V_PLACE || !v->type || v->type->kind != FL_C_POINTER || v->linear) return NULL;
  fl_kheld *h = p->held;
  while (h && h->var != v->var) h = h->next;
  return h;
}

int fl_held_is(const fl_front *p, const fl_cvalue *v) { return held(p, v) != NULL; }

void fl_held_new(fl_front *p, int32_t var) {
  fl_kheld *h = fl_karena_new(p->a, sizeof *h);
  if (!h) return;
  h->var = var;
  h->next = p->held;
  p->held = h;
}

void fl_held_row(fl_front *p, int32_t var, int64_t row, fl_cvalue v) {
  fl_held_new(p, var);
  if (p->a->failed) return;
  p->held->row = row;
  p->held->v = v;
}

/* The row of the member with that variable; NULL: there is none. */
static const fl_kheld *row_of(const fl_front *p, int32_t var, int64_t row) {
  const fl_kheld *h = p->held;
  while (h && !(h->var == var && h->v.list && h->row == row)) h = h->next;
  return h;
}

fl_cvalue fl_held_list(fl_front *p, fl_cvalue v, int32_t line) {
  const int64_t row = !v.idx ? 0 : v.idx->kind == FL_KX_CONST ? v.idx->value.i : -1;
  const fl_kheld *h = row_of(p, v.var, row);
  if (h && v.kind == FL_V_PLACE && !v.linear) return h->v;
  return fl_val_refuse(p, line, "a row of an array of pointers is chosen by a constant");
}

void fl_held_copy(fl_front *p, fl_cvalue to, fl_cvalue from, int32_t line) {
  int known = 0;
  if (to.var == from.var) return;
  for (const fl_kheld *h = p->held; h && !p->failed; h = h->next) {
    if (h->var != from.var || !h->v.list || to.idx || from.idx) continue;
    const fl_kheld *old = row_of(p, to.var, h->row);
    known = 1;
    if (!old) fl_held_row(p, to.var, h->row, h->v);
    else if (old->v.var != h->v.var) known = 0, h = NULL;
    if (!h || p->a->failed) break;
  }
  if (!known) fl_refuse(p, line, "an array of pointers is copied from where it has a value, and "
                        "always the same");
}

fl_cvalue fl_held_read(fl_front *p, fl_cvalue place, int32_t line) {
  const fl_kheld *h = held(p, &place);
  if (!h || !h->v.type)
    return fl_val_refuse(p, line, "pointer '%s' is used before it has a value",
                         p->f->vars[place.var].source);
  fl_cvalue v = h->v;
  if (v.idx) v.idx = fl_kexpr_var(p->f, h->var);
  v.is_const |= place.type->const_of;
  return v;
}

int fl_held_alone(const fl_front *p, const fl_cvalue *v) {
  return p->f->vars[v->var].kind == FL_KV_LOCAL ||
         (!v->linear && !v->idx && p->f->vars[v->var].count == 1);
}

/* The first assignment to a member pointer: sets the array that it indexes. */
static void begin(fl_front *p, fl_kheld *h, fl_cvalue place, fl_cvalue from, int32_t line) {
  const fl_ctype *of = place.type->of;
  h->v = from;
  if (from.null) return;
  const int alone = fl_held_alone(p, &from);
  if (p->turning && !alone && fl_turn_fits(p, of, &from))
    h->v = fl_turn_new(p, of, from.is_const, p->f->vars[h->var].source, &from, line);
  h->v.idx = alone ? NULL : fl_kexpr_int(p->a, FL_KT_I64, 0);
}

void fl_held_assign(fl_front *p, fl_cvalue place, fl_cvalue from, int32_t line) {
  fl_kheld *h = held(p, &place);
  from = h ? fl_pointer_as(p, place.type, from, line) : from;
  if (!h) fl_refuse(p, line, "pointers stored in memory are outside the language");
  if (p->failed || !h) return;
  from.sym = 0;
  const int first = !h->v.type;
  if (first) begin(p, h, place, from, line);
  else if (!from.null && !h->v.null) fl_view_meet(p, &from, &(fl_cvalue){ .linear = h->v.linear,
                                                  .var = h->v.var, .unit = h->v.unit });
  fl_kturn *turn = p->failed || from.null ? NULL : fl_turn_of(p, h->v.var);
  const int other = from.null != h->v.null || from.when != h->v.when || from.var != h->v.var ||
                    from.linear != h->v.linear || from.unit != h->v.unit ||
                    from.member != h->v.member || from.is_const > h->v.is_const ||
                    !fl_ctype_same(from.type, h->v.type);
  if (!first && turn && !from.null && from.when == h->v.when && from.is_const <= h->v.is_const &&
      fl_turn_wanted(p, &h->v, &from))
    fl_turn_set(p, turn, from, line);
  else if (!first && !p->failed && other) {
    fl_turn_wanted(p, &h->v, &from);               /* notes whether p->turning may help */
    fl_refuse(p, line, "pointer '%s' would point into another array than before",
              p->f->vars[h->var].source);
  }
  if (h->v.idx) fl_emit_assign(p, h->var, fl_val_at(p, &from), line);
}
