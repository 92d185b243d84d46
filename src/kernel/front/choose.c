/*
** "c ? x : y" of two lvalues, which is an lvalue: "float &r = c ? a : b[i];", "(c ? a : b) = v",
** an argument that is taken by reference, "return c ? x : y;" of a function that returns one. It is
** read as a value, with a note of its arms (fl_cvalue.either); where it is used as an lvalue it
** becomes an element of one array, or of one of several (turn.c). For that, variables of a thread
** become arrays of one element, and structs of numbers arrays of their numbers (view.c), and the
** body is read again.
*/
#include "kernel/front/forms.h"

static int is_lvalue(const fl_cvalue *v) {
  const int scalar = v->kind == FL_V_PLACE && v->type->kind != FL_C_POINTER &&
                     v->type->kind != FL_C_ARRAY;
  return v->either || (scalar && !v->rvalue && !v->torn);
}

void fl_choose_note(fl_front *p, fl_cvalue *v, fl_kexpr *c, fl_cvalue x, fl_cvalue y) {
  v->either = NULL;
  if (p->failed || !p->b || !is_lvalue(&x) || !is_lvalue(&y) || !fl_ctype_same(x.type, y.type))
    return;
  fl_keither *e = fl_karena_new(p->a, sizeof *e);
  if (!e) return;
  *e = (fl_keither){ c, x, y };
  v->either = e;
  v->is_const = x.is_const | y.is_const;
  if (c && v->kind == FL_V_PARTS) v->rvalue = 0;
}

/* Is v a variable of a thread, or one that is no part of an array? */
static int is_alone(const fl_front *p, const fl_cvalue *v) {
  return p->f->vars[v->var].kind == FL_KV_LOCAL ||
         (!v->linear && (!v->idx || v->type->kind == FL_C_STRUCT));
}

int fl_choose_arrays(fl_front *p, const fl_cvalue *x, const fl_cvalue *y) {
  int n = 0;
  if (p->failed || x->null || y->null || x->var < 0 || y->var < 0) return 0;
  if (is_alone(p, x)) n += fl_view_array(p, x->var);
  if (is_alone(p, y)) n += fl_view_array(p, y->var);
  return n > 0;
}

/* x or y, both in one variable. */
static fl_cvalue in_one(fl_front *p, fl_kexpr *c, fl_cvalue x, fl_cvalue y) {
  if (x.idx || y.idx)
    x.idx = fl_val_stable(p, fl_front_check(p, fl_kexpr_select(p->a, c, fl_val_at(p, &x),
                                                               fl_val_at(p, &y))));
  x.is_const |= y.is_const;
  x.member |= y.member;
  return x;
}

static fl_cvalue refuse(fl_front *p, const fl_ctype *t, int32_t line) {
  return fl_val_refuse(p, line, "a reference to one '%s' or another, chosen by ?:, which are not "
                       "parts of arrays or of variables of one type" FL_DO
                       ": write if (…) … else …", fl_ctype_text(p->a, t));
}

fl_cvalue fl_choose_place(fl_front *p, fl_cvalue v, int32_t line) {
  const fl_keither *e = v.either;
  if (p->failed || !e) return v;
  if (!e->c)
    return fl_val_refuse(p, line, "a reference to one variable or another, chosen by ?: with "
                         "effects" FL_DO ": write if (…) … else …");
  if (!fl_front_enter(p)) return fl_val_none();
  fl_cvalue x = fl_choose_place(p, e->x, line), y = fl_choose_place(p, e->y, line);
  p->nest--;
  if (p->failed) return x;
  fl_view_meet(p, &x, &y);
  if (x.var == y.var && x.linear == y.linear && x.unit == y.unit && !fl_turn_of(p, x.var))
    return in_one(p, e->c, x, y);
  x.kind = y.kind = FL_V_POINTER;
  x.either = y.either = NULL;
  const int again = fl_choose_arrays(p, &x, &y);
  if (again || is_alone(p, &x) || is_alone(p, &y) || !fl_turn_wanted(p, &x, &y))
    return refuse(p, x.type, line);
  v = fl_turn_choose(p, e->c, x, y, line);
  v.kind = FL_V_PLACE;
  return v;
}

static int stays(const fl_front *p, const fl_cvalue *v, int pure) {
  const fl_keither *e = v->either;
  if (e) return stays(p, &e->x, pure) && stays(p, &e->y, pure);
  return v->is_const || (pure && p->f->vars[v->var].kind == FL_KV_LOCAL);
}

fl_cvalue fl_choose_bound(fl_front *p, fl_cvalue v, int is_const, int pure, const char *name,
                          int32_t line) {
  if (is_const && v.either && stays(p, &v, pure)) return v;
  v = fl_choose_place(p, v, line);
  if (p->failed || v.kind != FL_V_PLACE || v.rvalue || !fl_turn_of(p, v.var)) return v;
  fl_kexpr *const at = fl_val_stable(p, v.idx);
  v.kind = FL_V_POINTER;
  fl_cvalue r = fl_turn_new(p, v.type, v.is_const, name, &v, line);
  r.kind = p->failed ? FL_V_NONE : FL_V_PLACE;
  r.idx = at;
  return r;
}
