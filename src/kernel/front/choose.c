/*
** "c ? x : y" of two lvalues, which is an lvalue: "float &r = c ? a : b[i];", "(c ? a : b) = v", an
** argument that is taken by reference, "return c ? x : y;" of a function that returns a reference.
** It is read as a value, with a note of its arms (fl_cvalue.either); where it is used as an lvalue
** it becomes an element of one array, or of one of several (turn.c). For that, local scalars
** become arrays of one element, and structs of numbers arrays of their numbers (view.c), and the
** body is read again.
*/
#include "kernel/front/forms.h"
#include <assert.h>

typedef struct constant { fl_kexpr e; const char *name; } constant;

void fl_choose_name(fl_front *p, const char *name, const fl_kexpr *e) {
  constant *own = fl_karena_new(p->a, sizeof *own);      /* as_lvalue compares its address */
  if (!own) return;
  own->e = *e;
  own->name = name;
  fl_cvalue v = fl_val_expr(&own->e);
  v.named = v.is_const = 1;
  fl_front_bind(p, name, FL_SYM_CONSTANT, v);
}

/* Adds a variable for the constant array 'data' of n values. Returns its index; -1: no memory. */
static int table(fl_front *p, int type, const fl_kvalue *data, int64_t n, const char *name) {
  const int var = fl_kvar_add(p->f, FL_KV_TABLE, type, name, n);
  if (var < 0) return -1;
  fl_kvar *const v = &p->f->vars[var];
  v->data = data;
  v->temporary = 0;
  v->rank = 1;
  v->dims[0] = n;
  return var;
}

/* Turns v, the value of a const variable (fl_cvalue.named), into the element of a constant array of
** one element. A kernel has one such array per variable, made at the first use. */
static void as_lvalue(fl_front *p, fl_cvalue *v) {
  const fl_kvalue *const data = &v->e->value;
  int var = p->f->n_vars;
  while (--var >= 0 && p->f->vars[var].data != data) continue;
  if (var < 0) var = table(p, v->e->type, data, 1, ((const constant *)v->e)->name);
  *v = (fl_cvalue){ .kind = FL_V_PLACE, .is_const = 1, .type = v->type, .var = var };
  v->idx = fl_kexpr_int(p->a, FL_KT_I64, 0);
}

/* For v that is a const object (FL_SYM_TABLE) or a member of one: its scalars are constant arrays
** of one element each. Gives a scalar the index 0, and copies a struct of numbers of one type into
** one constant array. Any other v stays. */
static void in_table(fl_front *p, fl_cvalue *v) {
  assert(p->f);
  const fl_kvar *const first = &p->f->vars[v->var];
  int64_t n;
  if (first->kind != FL_KV_TABLE || v->linear || v->idx || first->count > 1) return;
  v->idx = v->type->kind == FL_C_SCALAR ? fl_kexpr_int(p->a, FL_KT_I64, 0) : NULL;
  const int element = v->idx ? FL_KT_VOID : fl_ctype_element(v->type, &n);
  if (element == FL_KT_VOID || n != fl_ctype_leaves(v->type)) return;
  fl_kvalue *data = fl_karena_new(p->a, (size_t)n * sizeof *data);
  for (int64_t i = 0; data && i < n; i++) data[i] = p->f->vars[v->var + i].data[0];
  v->var = data ? table(p, element, data, n, first->source) : v->var;
  v->linear = 1;
}

static int is_lvalue(const fl_cvalue *v) {
  const int scalar = v->kind == FL_V_PLACE && v->type->kind != FL_C_POINTER &&
                     v->type->kind != FL_C_ARRAY;
  return v->either || v->named || (scalar && !v->rvalue && !v->torn);
}

int fl_choose_pin(fl_front *p, fl_cvalue *v, fl_kblock *side, int32_t first) {
  if (p->failed || !p->b || v->either || !is_lvalue(v)) return 0;
  if (v->named) return 1;
  if (v->var >= first || fl_turn_of(p, v->var)) return 0;
  if (!v->idx || v->idx->kind == FL_KX_CONST) return 1;
  const int t = fl_front_temp(p, FL_KT_I64, v->idx->line);
  if (t < 0) return 0;
  fl_kblock *const out = fl_front_into(p, side);
  fl_emit_assign(p, t, fl_val_convert(p, v->idx, FL_KT_I64), v->idx->line);
  fl_front_into(p, out);
  v->idx = fl_kexpr_var(p->f, t);
  return v->idx != NULL;
}

void fl_choose_note(fl_front *p, fl_cvalue *v, fl_kexpr *c, const fl_cvalue *x,
                    const fl_cvalue *y) {
  v->either = NULL;
  if (p->failed || !p->b || !is_lvalue(x) || !is_lvalue(y) || !fl_ctype_same(x->type, y->type))
    return;
  fl_keither *e = fl_karena_new(p->a, sizeof *e);
  if (!e) return;
  e->c = c;
  e->x = *x;
  e->y = *y;
  v->either = e;
  v->is_const = x->is_const | y->is_const;
  if (c && v->kind == FL_V_PARTS) v->rvalue = 0;
}

/* Is v a local scalar, a whole variable, or a struct with a separate variable for each leaf, so
** that it is not yet an element of one array? */
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

/* Makes x the one of x and y that c chooses; both are in one variable. */
static void in_one(fl_front *p, fl_kexpr *c, fl_cvalue *x, const fl_cvalue *y) {
  if (x->idx || y->idx)
    x->idx = fl_val_stable(p, fl_front_check(p, fl_kexpr_select(p->a, c, fl_val_at(p, x),
                                                                fl_val_at(p, y))));
  x->is_const |= y->is_const;
  x->member |= y->member;
}

static void refuse(fl_front *p, const fl_ctype *t, int32_t line) {
  fl_refuse(p, line, "a reference to one '%s' or another, chosen by ?:, which have effects or are "
            "parts of mixed structs" FL_DO ": write if (…) … else …", fl_ctype_text(p->a, t));
}

void fl_choose_place(fl_front *p, fl_cvalue *v, int32_t line) {
  const fl_keither *e = v->either;
  if (p->failed) return;
  if (v->named && p->f) as_lvalue(p, v);
  if (!e && v->kind == FL_V_PLACE && v->type->kind == FL_C_SCALAR) in_table(p, v);
  if (!e) return;
  if (!e->c) { refuse(p, v->type, line); return; }
  if (!fl_front_enter(p)) return;
  fl_cvalue y = e->y;
  *v = e->x;
  fl_choose_place(p, v, line);
  fl_choose_place(p, &y, line);
  p->nest--;
  if (p->failed) return;
  in_table(p, v);
  in_table(p, &y);
  fl_view_meet(p, v, &y);
  if (v->var == y.var && v->linear == y.linear && v->unit == y.unit && !fl_turn_of(p, v->var)) {
    in_one(p, e->c, v, &y);
    return;
  }
  v->kind = y.kind = FL_V_POINTER;
  const int again = fl_choose_arrays(p, v, &y);
  if (again || is_alone(p, v) || is_alone(p, &y) || !fl_turn_wanted(p, v, &y))
    refuse(p, v->type, line);
  else
    *v = fl_turn_choose(p, e->c, *v, y, line);
  v->kind = FL_V_PLACE;
}

/* Does what v refers to keep its value while a reference to const is bound to it? It does if the
** variable is const; v->is_const does not suffice, since v may be a const reference to a variable
** that is changed by another name. If 'pure' (the called function takes copies, writes.c), local
** scalars keep theirs too. */
static int stays(const fl_front *p, const fl_cvalue *v, int pure) {
  const fl_keither *e = v->either;
  if (e) return stays(p, &e->x, pure) && stays(p, &e->y, pure);
  if (v->named) return 1;
  return p->f->vars[v->var].is_const || (pure && p->f->vars[v->var].kind == FL_KV_LOCAL);
}

void fl_choose_bound(fl_front *p, fl_cvalue *v, int is_const, int pure, const char *name,
                     int32_t line) {
  if (is_const && (v->named || (v->either && stays(p, v, pure)))) return;
  fl_choose_place(p, v, line);
  if (p->failed || v->kind != FL_V_PLACE || v->rvalue || !fl_turn_of(p, v->var)) return;
  fl_kexpr *const at = fl_val_stable(p, v->idx);
  v->kind = FL_V_POINTER;
  *v = fl_turn_new(p, v->type, v->is_const, name, v, line);
  v->kind = FL_V_PLACE;
  v->idx = at;
}
