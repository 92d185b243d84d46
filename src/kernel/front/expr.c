/*
** Expressions: precedence climbing over values. An operand that is evaluated under a condition
** (right of && || ?:) is read into a separate block; if no statement was added there the operator
** is kept, otherwise it becomes an IF that sets a temporary.
*/
#include "kernel/front/forms.h"
#include "kernel/front/number.h"
#include <string.h>

/* ---- arithmetic ------------------------------------------------------------------------------ */

static const struct { int16_t punct; uint8_t level, op; } binaries[] = {
  { FL_PU_LOR, 1, FL_KO_LOR }, { FL_PU_LAND, 2, FL_KO_LAND }, { '|', 3, FL_KO_OR },
  { '^', 4, FL_KO_XOR },       { '&', 5, FL_KO_AND },         { FL_PU_EQ, 6, FL_KO_EQ },
  { FL_PU_NE, 6, FL_KO_NE },   { '<', 7, FL_KO_LT },          { '>', 7, FL_KO_GT },
  { FL_PU_LE, 7, FL_KO_LE },   { FL_PU_GE, 7, FL_KO_GE },     { FL_PU_SHL, 8, FL_KO_SHL },
  { FL_PU_SHR, 8, FL_KO_SHR }, { '+', 9, FL_KO_ADD },         { '-', 9, FL_KO_SUB },
  { '*', 10, FL_KO_MUL },      { '/', 10, FL_KO_DIV },        { '%', 10, FL_KO_REM },
};
static const struct { int16_t punct; uint8_t op; } assignments[] = {
  { '=', FL_KO_NONE },          { FL_PU_ADD_SET, FL_KO_ADD },
  { FL_PU_SUB_SET, FL_KO_SUB }, { FL_PU_MUL_SET, FL_KO_MUL },
  { FL_PU_DIV_SET, FL_KO_DIV }, { FL_PU_REM_SET, FL_KO_REM },
  { FL_PU_SHL_SET, FL_KO_SHL }, { FL_PU_SHR_SET, FL_KO_SHR },
  { FL_PU_AND_SET, FL_KO_AND }, { FL_PU_OR_SET, FL_KO_OR },
  { FL_PU_XOR_SET, FL_KO_XOR },
};

fl_kexpr *fl_arith(fl_front *p, int op, fl_kexpr *x, fl_kexpr *y, int32_t line) {
  if (p->failed || !x || !y) return NULL;
  const fl_ctype *s = fl_val_type(x), *t = fl_val_type(y);
  if ((s->scoped || t->scoped) && (op < FL_KO_LT || !fl_ctype_like(s, t)))
    fl_refuse(p, line, "'%s' of enum class '%s'" FL_DO ": write a cast, or define the operator",
              fl_koperator_text[op], (s->scoped ? s : t)->other);
  const int shift = op == FL_KO_SHL || op == FL_KO_SHR;
  const int integers =
      shift || op == FL_KO_REM || op == FL_KO_AND || op == FL_KO_OR || op == FL_KO_XOR;
  if (integers && (fl_kt_is_float(x->type) || fl_kt_is_float(y->type))) {
    fl_refuse(p, line, "'%s' of floating-point numbers%s", fl_koperator_text[op],
              op == FL_KO_REM ? FL_DO "; use fmodf" : "");
    return NULL;
  }
  const int type = fl_arith_type(x->type, y->type);
  const fl_kexpr *const a = x, *const b = shift ? NULL : y;
  x = fl_val_convert(p, x, shift ? fl_promote_type(x->type) : type);
  y = fl_val_convert(p, y, shift ? fl_promote_type(y->type) : type);
  fl_kexpr *e = fl_kexpr_binary(p->a, op, x, y);
  if (e) e->line = line;
  return fl_front_check(p, fl_val_mixed(p, e, a, b));
}

/* The difference or comparison of two pointers into one array, == and != of pointers into one of
** several arrays (turn.c), or the comparison of a pointer with null. */
static fl_cvalue pointers(fl_front *p, int op, fl_cvalue x, fl_cvalue y, int32_t line) {
  if (x.null) fl_val_asked(p, &y, line);
  if (y.null) fl_val_asked(p, &x, line);
  if (x.null || y.null || ((op == FL_KO_EQ || op == FL_KO_NE) && x.var != y.var)) {
    x.null = (uint8_t)fl_val_is_null(&x);
    y.null = (uint8_t)fl_val_is_null(&y);
  }
  if (x.null || y.null) {
    if (op != FL_KO_EQ && op != FL_KO_NE)
      fl_refuse(p, line, "arithmetic with the null pointer");
    fl_kexpr *when = x.null ? y.when : x.when;
    if (when) return fl_val_expr(op == FL_KO_NE ? when : fl_kexpr_unary(p->a, FL_KO_NOT, when));
    return fl_val_expr(
        fl_kexpr_int(p->a, FL_KT_BOOL, (x.null == y.null) == (op == FL_KO_EQ)));
  }
  if (x.var != y.var && (op == FL_KO_EQ || op == FL_KO_NE) &&
      (fl_turn_of(p, x.var) || fl_turn_of(p, y.var))) {
    fl_kexpr *same = fl_turn_same(p, x, y),
             *at = fl_kexpr_binary(p->a, FL_KO_EQ, fl_val_at(p, &x), fl_val_at(p, &y));
    same = fl_kexpr_binary(p->a, FL_KO_LAND, same, at);
    return fl_val_expr(fl_front_check(p, op == FL_KO_EQ
                                      ? same : fl_kexpr_unary(p->a, FL_KO_NOT, same)));
  }
  fl_view_meet(p, &x, &y);
  if (x.var != y.var || x.linear != y.linear || !fl_ctype_same(x.type, y.type) ||
      (op == FL_KO_SUB && x.member)) {
    if (x.member || y.member) p->turn_wanted = 2;
    return fl_val_refuse(p, line, "pointers into different arrays are compared");
  }
  fl_kexpr *e = fl_arith(p, op, fl_val_at(p, &x), fl_val_at(p, &y), line);
  if (e) e = fl_val_as(p, e, fl_ctype_long(0));
  if (op == FL_KO_SUB && x.linear) {
    const int64_t n = fl_view_units(p, &x, x.type, line);
    if (n > 1) e = fl_arith(p, FL_KO_DIV, e, fl_kexpr_int(p->a, FL_KT_I64, n), line);
    if (e) e = fl_val_as(p, e, fl_ctype_long(0));
  } else if (op < FL_KO_LT && op != FL_KO_SUB) {
    fl_refuse(p, line, "'%s' of pointers", fl_koperator_text[op]);
  }
  return fl_val_expr(e);
}

static fl_cvalue address_math(fl_front *p, int op, fl_cvalue x, fl_cvalue y, int32_t line) {
  if (fl_val_is_address(x)) x = fl_val_pointer(p, x, line);
  if (fl_val_is_address(y)) y = fl_val_pointer(p, y, line);
  if (p->failed) return x;
  if (x.kind == FL_V_POINTER && y.kind == FL_V_POINTER)
    return pointers(p, op, x, y, line);
  if (x.kind == FL_V_POINTER && (op == FL_KO_ADD || op == FL_KO_SUB))
    return fl_val_advance(p, x, fl_val_scalar(p, y, line), op == FL_KO_SUB, line);
  if (y.kind == FL_V_POINTER && op == FL_KO_ADD)
    return fl_val_advance(p, y, fl_val_scalar(p, x, line), 0, line);
  const fl_cvalue other = x.kind == FL_V_POINTER ? y : x;
  if (other.kind == FL_V_EXPR && other.e->kind == FL_KX_CONST && !other.e->value.i &&
      (op == FL_KO_EQ || op == FL_KO_NE))                                    /* p != 0 */
    return pointers(p, op, other.kind == FL_V_EXPR && y.kind == FL_V_POINTER ? y : x,
                    (fl_cvalue){ .kind = FL_V_POINTER, .null = 1, .type = fl_ctype_void() }, line);
  return fl_val_refuse(p, line, "'%s' of a pointer and a number%s", fl_koperator_text[op],
                       x.address | y.address ? FL_DO ": compute with the index, not the address"
                                             : "");
}

fl_cvalue fl_binary(fl_front *p, int op, fl_cvalue x, fl_cvalue y, int32_t line) {
  if (p->failed) return fl_val_none();
  const fl_cvalue args[2] = { x, y };
  fl_cvalue out;
  if (fl_operator_found(p, fl_koperator_text[op], "", args, 2, &out, line)) return out;
  if (fl_val_is_object(x) || fl_val_is_object(y)) return fl_operator_plain(p, op, x, y, line);
  if (fl_val_is_address(x) || fl_val_is_address(y)) return address_math(p, op, x, y, line);
  fl_kexpr *a = fl_val_scalar(p, x, line), *b = fl_val_scalar(p, y, line);
  return fl_val_expr(fl_arith(p, op, a, b, line));
}

/* ---- lazy operators -------------------------------------------------------------------------- */

static fl_cvalue parse_binary(fl_front *p, int level);

fl_cvalue fl_logic(fl_front *p, int op, fl_kexpr *a, fl_kexpr *b, fl_kblock side, int32_t line) {
  if (!a || !b || p->failed) return fl_val_none();
  if (!side.first) {
    fl_kexpr *e = fl_kexpr_binary(p->a, op, a, b);
    if (e) e->line = line;
    return fl_val_expr(fl_front_check(p, e));
  }
  const int t = fl_front_temp(p, FL_KT_BOOL, line);
  fl_emit_assign(p, t, a, line);
  fl_kexpr *now = fl_kexpr_var(p->f, t);
  fl_kstmt *s = fl_kstmt_if(
      p->f, p->b, op == FL_KO_LAND ? now : fl_kexpr_unary(p->a, FL_KO_NOT, now));
  if (!s) return fl_val_none();
  s->line = line;
  s->body = side;
  fl_kblock *out = fl_front_into(p, &s->body);
  fl_emit_assign(p, t, b, line);
  fl_front_into(p, out);
  return fl_val_expr(now);
}

static fl_cvalue logic(fl_front *p, int op, fl_cvalue x, int level, int32_t line) {
  fl_kblock side = { NULL, NULL };
  fl_operator_logic(p, op == FL_KO_LAND ? "operator&&" : "operator||", &x, line);
  fl_kexpr *a = fl_val_truth(p, x, line);
  fl_kblock *out = fl_front_into(p, p->b ? &side : NULL);
  fl_kexpr *b = NULL;
  if (fl_front_tok(p)->kind == FL_TOK_STRING && fl_front_next(p))   /* assert(c && "why") */
    b = fl_kexpr_int(p->a, FL_KT_BOOL, 1);
  else b = fl_val_truth(p, parse_binary(p, level + 1), line);
  fl_front_into(p, out);
  return fl_logic(p, op, a, b, side, line);
}

int fl_operator_of(int punct, int *level) {
  for (size_t i = 0; i < sizeof binaries / sizeof *binaries; i++)
    if (binaries[i].punct == punct) return *level = binaries[i].level, binaries[i].op;
  *level = 0;
  return FL_KO_NONE;
}

/* Reads the right operand y and returns x op y. m: the place in the block at which the statements
** that x needs begin. */
static fl_cvalue operate(fl_front *p, int op, fl_cvalue x, int level, const fl_kmark *m,
                         int32_t line) {
  const fl_kmark middle = fl_order_mark(p);
  fl_cvalue args[2] = { x, parse_binary(p, level + 1) };
  const int called = fl_val_is_object(x) || fl_val_is_object(args[1]),
            shift = op == FL_KO_SHL || op == FL_KO_SHR;
  if (shift && called) fl_order_passed(p, args, 1, &middle, line);
  else if (shift) fl_order_before(p, args, 1, &middle, 0, line);
  else if (called) fl_order_argument(p, m, &middle, args, 1, line);
  else fl_order_open(p, m, &middle, args, 1, &args[1], line);
  return fl_binary(p, op, args[0], args[1], line);
}

static fl_cvalue parse_binary(fl_front *p, int level) {
  int op, l;
  const fl_kmark m = fl_order_mark(p);
  fl_cvalue x = fl_parse_unary(p);
  while ((op = fl_operator_of(fl_ktok_punct(fl_front_tok(p)), &l)) != FL_KO_NONE && l >= level &&
         !(p->angle && (op == FL_KO_GT || op == FL_KO_SHR))) {
    const int32_t line = fl_front_next(p)->line;
    if (op == FL_KO_LAND || op == FL_KO_LOR) x = logic(p, op, x, l, line);
    else x = operate(p, op, x, l, &m, line);
  }
  return x;
}

/* "c ? x : nullptr" or "c ? nullptr : x". */
static fl_cvalue choose_null(fl_front *p, fl_kexpr *c, fl_cvalue x, fl_cvalue y) {
  fl_kexpr *there = x.null ? fl_kexpr_unary(p->a, FL_KO_NOT, c) : c;
  fl_cvalue v = x.null ? y : x;
  if (v.when) there = fl_kexpr_binary(p->a, FL_KO_LAND, v.when, there);
  v.when = fl_val_stable(p, fl_front_check(p, there));
  v.sym = 0;
  return v;
}

/* The value of "c ? x : y" of structs or pointers, whose statements are placed already. */
static fl_cvalue choose_other(fl_front *p, fl_kexpr *c, fl_cvalue x, fl_cvalue y,
                             int32_t line) {
  if (fl_val_is_object(x)) {
    if (!fl_ctype_same(x.type, y.type))
      fl_refuse(p, line, "the two sides of ?: have different types");
    fl_kexpr **a = fl_val_parts(p, x, line), **b = fl_val_parts(p, y, line);
    const int n = fl_ctype_leaves(x.type);
    const fl_cvalue r = fl_val_in_parts(p, x.type);
    for (int i = 0; r.parts && a && b && i < n; i++)
      r.parts[i] = fl_front_check(p, fl_kexpr_select(p->a, c, a[i], b[i]));
    return r;
  }
  x = fl_val_pointer(p, x, line);
  y = fl_val_pointer(p, y, line);
  if (p->failed) return x;
  if (c->kind == FL_KX_CONST) return c->value.i ? x : y;
  x.null = (uint8_t)fl_val_is_null(&x);
  y.null = (uint8_t)fl_val_is_null(&y);
  if (x.null && y.null) return x.type->kind == FL_C_VOID ? y : x;
  if (x.null != y.null && p->b) return choose_null(p, c, x, y);
  fl_view_meet(p, &x, &y);
  if (x.when || y.when) fl_refuse(p, line, "one or another pointer, which may be null");
  if (p->failed) return x;
  if (x.var != y.var) fl_choose_arrays(p, &x, &y);
  const int apart = x.var != y.var || x.linear != y.linear || x.null || y.null;
  if (p->b && (apart || fl_turn_of(p, x.var)) && fl_turn_wanted(p, &x, &y))
    return fl_turn_choose(p, c, x, y, line);
  if (apart) return fl_val_refuse(p, line, "a pointer that may point into one array or another");
  x.idx = fl_front_check(p, fl_kexpr_select(p->a, c, fl_val_at(p, &x), fl_val_at(p, &y)));
  x.sym = 0;
  return x;
}

static int no_value(fl_cvalue v) { return v.kind == FL_V_NONE; }

/* Can v be converted to the type of o, an object of another type, but o not to the type of v? */
static int becomes(fl_front *p, const fl_cvalue *v, const fl_cvalue *o) {
  if (!p->b || v->kind == FL_V_NONE || !v->type || !fl_val_is_object(*o)) return 0;
  if (fl_ctype_same(v->type, o->type) || !fl_member_makes(p, o->type, v)) return 0;
  return fl_val_is_object(*v) ? !fl_member_makes(p, v->type, o) : !fl_member_converts(o->type);
}

/* Makes ?: of structs an IF, in which each arm assigns its value to one object. */
static fl_cvalue choose_object(fl_front *p, fl_kexpr *c, fl_cvalue x, fl_cvalue y,
                               const fl_kblock *sides, int32_t line) {
  const int first = becomes(p, &x, &y);
  if (!fl_ctype_same(x.type, y.type) && !first && !becomes(p, &y, &x))
    fl_refuse(p, line, "the two sides of ?: have different types");
  const fl_ctype *t = first ? y.type : x.type;
  fl_cvalue r = p->failed ? fl_val_none() : fl_decl_object(p, t, "chosen", line);
  fl_kstmt *s = p->failed ? NULL : fl_kstmt_if(p->f, p->b, c);
  if (!s) return fl_val_none();
  s->line = line;
  s->body = sides[0];
  s->other = sides[1];
  fl_kblock *out = fl_front_into(p, &s->body);
  fl_val_assign(p, r, x, line);
  fl_front_into(p, &s->other);
  fl_val_assign(p, r, y, line);
  fl_front_into(p, out);
  r.rvalue = 1;
  return r;
}

/* The type of "c ? a : b": that of both, or by the usual arithmetic conversions if they differ. */
static int chosen_type(const fl_kexpr *a, const fl_kexpr *b) {
  const int same = a->type == b->type && fl_ctype_like(fl_val_type(a), fl_val_type(b));
  return same ? a->type : fl_arith_type(a->type, b->type);
}

/* Writes ?: as an IF, for arms with effects, of type void, or of which one is converted to the
** struct of the other. */
static fl_cvalue choose_if(fl_front *p, fl_kexpr *c, fl_cvalue x, fl_cvalue y,
                          fl_kblock *sides, int32_t line) {
  fl_cvalue r = fl_val_none();
  fl_kexpr *a = NULL, *b = NULL;
  if ((fl_val_is_object(x) && fl_val_is_object(y)) || becomes(p, &x, &y) || becomes(p, &y, &x))
    return choose_object(p, c, x, y, sides, line);
  if (fl_val_is_address(x) || fl_val_is_address(y)) {
    c = fl_val_stable(p, c);
    fl_kstmt *s = fl_kstmt_if(p->f, p->b, c);
    if (s) s->body = sides[0], s->other = sides[1];
    return choose_other(p, c, x, y, line);
  }
  if (!no_value(x)) {
    a = fl_val_scalar(p, x, line);
    b = fl_val_scalar(p, y, line);
  }
  if (p->failed) return r;
  const int type = a && b ? chosen_type(a, b) : 0;
  if (a && b) r = fl_view_chosen(p, type, line);
  fl_kstmt *s = fl_kstmt_if(p->f, p->b, c);
  if (!s) return r;
  s->line = line;
  s->body = sides[0];
  s->other = sides[1];
  if (r.kind == FL_V_NONE) return r;
  fl_kblock *out = fl_front_into(p, &s->body);
  fl_val_store(p, r, a, 0, line);
  fl_front_into(p, &s->other);
  fl_val_store(p, r, b, 0, line);
  fl_front_into(p, out);
  r.rvalue = 1;
  if (p->f->vars[r.var].kind != FL_KV_LOCAL) return r;
  return fl_val_expr(fl_val_either(p, fl_kexpr_var(p->f, r.var), a, b));
}

/* "c ? a : b" of numbers, structs or pointers. 'sides' has the statements of both. */
static fl_cvalue choose(fl_front *p, fl_kexpr *c, fl_cvalue a, fl_cvalue b, fl_kblock *sides,
                        int32_t line) {
  if (sides[0].first || sides[1].first || (no_value(a) && no_value(b)) || becomes(p, &a, &b) ||
      becomes(p, &b, &a))
    return choose_if(p, c, a, b, sides, line);
  if (fl_val_is_object(a) || fl_val_is_address(a) || fl_val_is_address(b))
    return choose_other(p, c, a, b, line);
  fl_kexpr *u = fl_val_scalar(p, a, line), *v = fl_val_scalar(p, b, line);
  if (!u || !v) return fl_val_none();
  const int type = chosen_type(u, v);
  fl_kexpr *e =
      fl_kexpr_select(p->a, c, fl_val_convert(p, u, type), fl_val_convert(p, v, type));
  return fl_val_expr(fl_front_check(p, fl_val_either(p, e, u, v)));
}

static fl_cvalue parse_ternary(fl_front *p) {
  fl_cvalue x = parse_binary(p, 1);
  if (!fl_front_is(p, '?') || !fl_front_enter(p)) return x;
  const int32_t line = fl_front_next(p)->line, first = p->f ? p->f->n_vars : 0;
  fl_kblock sides[2] = { { NULL, NULL }, { NULL, NULL } };
  fl_kexpr *c = fl_val_truth(p, x, line);
  const int fixed = c && c->kind == FL_KX_CONST, no_a = fixed && !c->value.i, no_b = fixed && !no_a;
  fl_kblock *out = fl_front_into(p, p->b ? &sides[0] : NULL);
  p->dead += no_a;
  fl_cvalue a = fl_parse_expr(p);
  p->dead += no_b - no_a;
  fl_front_need(p, ':');
  fl_front_into(p, out ? &sides[1] : NULL);
  fl_cvalue b = fl_parse_assign(p);
  p->dead -= no_b;
  fl_front_into(p, out);
  p->nest--;
  if (p->failed || !c) return fl_val_none();
  const int plain = !sides[0].first && !sides[1].first;
  int is_lvalue = plain;
  if (!plain && fl_choose_pin(p, &a, &sides[0], first) && fl_choose_pin(p, &b, &sides[1], first)) {
    c = fl_val_stable(p, c);
    is_lvalue = 1;
  }
  if (plain && fixed && a.kind == FL_V_PLACE && b.kind == FL_V_PLACE &&
      fl_ctype_same(a.type, b.type))
    return no_b ? a : b;                               /* the arm, as an lvalue */
  fl_cvalue r = choose(p, c, a, b, sides, line);
  fl_choose_note(p, &r, is_lvalue ? c : NULL, &a, &b);
  if (!plain || !r.either || !fixed) return r;
  fl_cvalue one = no_b ? a : b;
  one.is_const = r.is_const;
  return one;
}

/* ---- assignment ------------------------------------------------------------------------------ */

/* Refuses a value 'from' that may not be assigned to pointer s. turn: that of s, if s can point
** into several arrays (turn.c); else NULL. */
static void check_pointer(fl_front *p, const fl_symbol *s, const fl_kturn *turn,
                          const fl_cvalue *from, int32_t line) {
  if (from->when != s->v.when)
    fl_refuse(p, line, "pointer '%s', which may be null, is assigned again", s->name);
  if (turn && p->up)
    fl_refuse(p, line, "pointer '%s' to one or another array is assigned in a lambda", s->name);
  if (turn && from->is_const && !s->v.is_const)
    fl_refuse(p, line, "a pointer to const is assigned to pointer '%s'", s->name);
}

/* Assigns a pointer, p = q. Unless p can point into several arrays (turn.c), the array must stay
** the same, and only the index moves. */
static fl_cvalue assign_pointer(fl_front *p, fl_cvalue to, fl_cvalue from, int32_t line) {
  fl_symbol *s = &p->syms.at[to.sym - 1];
  from = fl_val_pointer(p, from, line);
  if (p->failed) return to;
  if (from.when != s->v.when) from.null = (uint8_t)fl_val_is_null(&from);
  if (s->may_be_null && p->b) {
    fl_kexpr *is = fl_kexpr_int(p->a, FL_KT_BOOL, !from.null);
    fl_emit_assign(p, s->v.when->var, from.null || !from.when ? is : from.when, line);
    if (from.null && from.type->kind != FL_C_VOID && !s->v.type) s->v.type = from.type;
    if (from.null) return to;
    if (s->v.null && s->v.type)
      fl_refuse(p, line, "pointer '%s', which was null, is assigned again", s->name);
    from.when = s->v.when;
  }
  if (s->v.type && s->v.unit) fl_view_meet(p, &from, &(fl_cvalue){ .linear = 1, .var = s->v.var,
                                                                  .unit = s->v.unit });
  if (!s->v.type && !from.null && s->offset >= 0 && fl_ctype_same(s->type, from.type)) {
    from.is_const |= s->v.is_const;
    s->v = from; /* the first value of a pointer that had none */
    s->v.idx = NULL, s->v.sym = 0;
  }
  fl_kturn *turn = s->v.type ? fl_turn_of(p, s->v.var) : NULL;
  check_pointer(p, s, turn, &from, line);
  if (p->failed) return to;
  if (from.null) fl_refuse(p, line, "pointer '%s' is set to null", s->name);
  else if (!s->v.type || s->offset < 0)
    fl_refuse(p, line, "pointer '%s' cannot be assigned here", s->name);
  else if (turn && p->b && fl_turn_wanted(p, &s->v, &from)) {
    if (s->may_be_null) from.when = NULL;
    fl_turn_set(p, turn, from, line);
    fl_emit_assign(p, s->offset, fl_val_at(p, &from), line);
  } else if ((s->v.var != from.var || s->v.linear != from.linear || s->v.unit != from.unit ||
              !fl_ctype_same(s->v.type, from.type))) {
    fl_turn_wanted(p, &s->v, &from);       /* the body may be read again, with pointers into
                                           ** one of several arrays (turn.c) */
    fl_refuse(p, line, "pointer '%s' would point into another array than before", s->name);
  } else if (!p->b) fl_refuse(p, line, "an assignment in a constant expression");
  else fl_emit_assign(p, s->offset, fl_val_at(p, &from), line);
  return to;
}

static int in_memory(fl_front *p, fl_cvalue v) {
  return p->f && p->f->vars[v.var].kind != FL_KV_LOCAL;
}

/* The value e of an assignment to 'to', noted (fl_cvalue.either) as that lvalue. */
static fl_cvalue assigned(fl_front *p, fl_kexpr *e, fl_cvalue to) {
  fl_cvalue v = fl_val_expr(e);
  fl_choose_note(p, &v, fl_kexpr_int(p->a, FL_KT_BOOL, 1), &to, &to);
  return v;
}

/* Assigns "to op= e" and returns the new value, in a temporary if it is in memory, so that it is
** not read again. += and -= in memory whose value is unused become an accumulating store. */
static fl_cvalue update(fl_front *p, fl_cvalue to, int op, fl_kexpr *e, int unused,
                       int32_t line) {
  if (p->failed || !e) return fl_val_none();
  const int sum = op == FL_KO_ADD || op == FL_KO_SUB;
  if (unused && sum && to.kind == FL_V_PLACE && to.type->kind == FL_C_SCALAR &&
      in_memory(p, to)) {
    e = fl_val_convert(p, e, fl_arith_type(to.type->scalar, e->type));
    if (op == FL_KO_SUB) e = fl_front_check(p, fl_kexpr_unary(p->a, FL_KO_NEG, e));
    fl_val_store(p, to, e, 1, line);
    return fl_val_none();
  }
  fl_kexpr *r = fl_arith(p, op, fl_val_scalar(p, to, line), e, line);
  if (!r) return fl_val_none();
  r = fl_val_to(p, r, to.type);
  if (!unused && in_memory(p, to)) r = fl_val_stable(p, r);
  fl_val_store(p, to, r, 0, line);
  return unused ? fl_val_expr(r) : in_memory(p, to) ? assigned(p, r, to) : to;
}

static fl_cvalue set(fl_front *p, fl_cvalue to, fl_cvalue from, int unused, int32_t line) {
  const fl_cvalue args[2] = { to, from };
  fl_cvalue out = to;
  if (!p->failed && fl_val_is_object(to) && fl_operator(p, "operator=", args, 2, &out, line))
    return out.kind == FL_V_NONE ? to : out;
  if (!p->failed && from.torn && fl_val_is_object(to)) {
    from = fl_order_now(p, from, line);
    p->f->reordered = 1;
  }
  if (to.kind != FL_V_PLACE || to.type->kind != FL_C_SCALAR || unused || from.address ||
      !in_memory(p, to)) {
    fl_val_settle(p, &to, &to);
    fl_val_assign(p, to, from, line);
    return to;
  }
  fl_kexpr *e = fl_val_stable(p, fl_cast_to(p, to.type, from, line).e);
  fl_val_store(p, to, e, 0, line);
  return assigned(p, e, to);
}

/* Reads the right side of an assignment. Its statements are placed before those of the left side
** 'to', which begin at m. */
static fl_cvalue right_side(fl_front *p, const fl_kmark *m, fl_cvalue to, int32_t line) {
  const fl_kblock left = fl_order_cut(m);
  const int list = fl_front_is(p, '{') && (to.kind == FL_V_PLACE || to.either);
  fl_cvalue from = list ? fl_decl_list(p, to.type, fl_front_tok(p)->line) : fl_parse_assign(p);
  if (!left.first) return from;
  const int object = !p->failed && fl_val_is_object(to);
  if (object && !fl_member_functions(to.type, "operator=") &&
      !fl_member_derives(from.type, to.type) && fl_member_makes(p, to.type, &from))
    from = fl_cast_to(p, to.type, from, line);
  const fl_kmark middle = { m->b, m->b ? m->b->last : NULL, m->vars };
  fl_kblock_append(m->b, left);
  /* operator= may take what is assigned to an object by reference */
  if (object) fl_order_passed(p, &from, 1, &middle, line);
  else fl_order_before(p, &from, 1, &middle, 0, line);
  return from;
}

fl_cvalue fl_parse_inside(fl_front *p) {
  const int angle = p->angle;
  p->angle = 0;
  const fl_cvalue v = fl_parse_expr(p);
  p->angle = angle;
  return v;
}

fl_cvalue fl_parse_assign(fl_front *p) {
  const int unused = p->statement;
  p->statement = 0;
  if (!fl_front_enter(p)) return fl_val_none();
  p->outer = unused;
  const fl_kmark m = fl_order_mark(p);
  fl_cvalue to = parse_ternary(p);
  const fl_ktok *t = fl_front_tok(p);
  for (size_t i = 0;
       t->kind == FL_TOK_PUNCT && i < sizeof assignments / sizeof *assignments; i++) {
    if (assignments[i].punct != t->punct) continue;
    const int op = assignments[i].op;
    const int32_t line = fl_front_next(p)->line;
    fl_cvalue from = right_side(p, &m, to, line);
    fl_choose_place(p, &to, line);
    if (p->failed) break;
    if (to.kind == FL_V_POINTER && to.sym) {
      to = assign_pointer(p, to, op ? fl_binary(p, op, to, from, line) : from, line);
    } else if (op && fl_held_is(p, &to)) {
      fl_held_assign(p, to, fl_binary(p, op, to, from, line), line);
    } else if (!op) {
      to = set(p, to, from, unused, line);
    } else if (fl_val_is_object(to)) {
      to = fl_operator_update(p, op, to, from, line);
    } else if (!fl_operator_found(p, fl_koperator_text[op], "=", (fl_cvalue[2]){ to, from }, 2, &to,
                                  line)) {
      to = update(p, to, op, fl_val_scalar(p, from, line), unused, line);
    }
    break;
  }
  p->nest--;
  return p->failed ? fl_val_none() : to;
}

fl_cvalue fl_step(fl_front *p, fl_cvalue v, int op, int postfix, int unused, int32_t line) {
  fl_kexpr *one = fl_kexpr_int(p->a, FL_KT_I32, 1);
  fl_choose_place(p, &v, line);
  if (p->failed || !one) return v;
  const fl_cvalue args[2] = { v, fl_val_expr(one) };
  const char *name = op == FL_KO_ADD ? "++" : "--";
  fl_cvalue out;
  if (fl_operator_found(p, name, "", args, 1 + (postfix != 0), &out, line)) return out;
  if (fl_val_is_object(v))
    return fl_val_refuse(p, line, "there is no operator%s for '%s'", name,
                         fl_ctype_text(p->a, v.type));
  if (v.kind == FL_V_POINTER && v.sym) {
    fl_cvalue old = v;
    if (postfix && !unused && v.idx) old.idx = fl_val_stable(p, v.idx);
    assign_pointer(p, v, fl_val_advance(p, v, one, op == FL_KO_SUB, line), line);
    old.sym = postfix ? 0 : v.sym;
    return old;
  }
  if (fl_held_is(p, &v)) {
    fl_cvalue old = fl_held_read(p, v, line);
    if (postfix && !unused) old.idx = fl_val_stable(p, old.idx);
    fl_held_assign(p, v, fl_val_advance(p, old, one, op == FL_KO_SUB, line), line);
    return postfix ? old : v;
  }
  if (!postfix || unused) return update(p, v, op, one, unused, line);
  fl_kexpr *old = fl_val_stable(p, fl_val_scalar(p, v, line));
  fl_val_store(p, v, fl_arith(p, op, old, one, line), 0, line);
  return fl_val_expr(old);
}

/* ---- whole expressions ----------------------------------------------------------------------- */

fl_cvalue fl_parse_expr(fl_front *p) {
  const int statement = p->statement;
  fl_cvalue v = fl_parse_assign(p);
  while (fl_front_is(p, ',')) {
    const int32_t line = fl_front_next(p)->line;
    p->statement = statement;
    const fl_cvalue args[2] = { v, fl_parse_assign(p) };
    if (!fl_operator_found(p, ",", "", args, 2, &v, line)) v = args[1];
  }
  return v;
}

fl_kexpr *fl_parse_constant(fl_front *p) {
  const int32_t line = fl_front_tok(p)->line;
  const int angle = p->angle;
  p->angle = 1;
  fl_kexpr *e = fl_val_scalar(p, parse_ternary(p), line);
  p->angle = angle;
  return e;
}

fl_kexpr *fl_parse_before_choice(fl_front *p) {
  const int32_t line = fl_front_tok(p)->line;
  return fl_val_truth(p, parse_binary(p, 1), line);
}

fl_kexpr *fl_parse_condition(fl_front *p) {
  const int32_t line = fl_front_tok(p)->line;
  return fl_val_truth(p, fl_parse_expr(p), line);
}
