/*
** Values while an expression is read: lvalues, pointers, structs, conversions. This is where
** structs and vectors become scalars (see fl_cvalue). Index arithmetic is I64.
*/
#include "kernel/front/forms.h"
#include "kernel/front/number.h"
#include <assert.h>
#include <string.h>

fl_cvalue fl_val_none(void) {
  return (fl_cvalue){ .kind = FL_V_NONE, .type = fl_ctype_void() };
}

fl_cvalue fl_val_expr(fl_kexpr *e) {
  if (!e) return fl_val_none();
  return (fl_cvalue){ .kind = FL_V_EXPR, .type = fl_val_type(e), .e = e };
}

fl_cvalue fl_val_in_parts(fl_front *p, const fl_ctype *t) {
  fl_cvalue v = { .kind = FL_V_PARTS, .rvalue = 1, .type = t };
  v.parts = fl_karena_new(p->a, (size_t)(fl_ctype_leaves(t) + 1) * sizeof *v.parts);
  return v.parts ? v : fl_val_none();
}

fl_kexpr *fl_val_with(fl_front *p, int op, fl_kexpr *x, int64_t y) {
  fl_kexpr *k = x ? fl_kexpr_int(p->a, x->type, y) : NULL;
  return k ? fl_front_check(p, fl_kexpr_binary(p->a, op, x, k)) : NULL;
}

static fl_kexpr *add64(fl_front *p, fl_kexpr *x, fl_kexpr *y) {
  if (!x) return y;
  if (x->kind == FL_KX_CONST && !x->value.i) return y;
  if (y && y->kind == FL_KX_CONST && !y->value.i) return x;
  return fl_front_check(p, fl_kexpr_binary(p->a, FL_KO_ADD, x, y));
}

static fl_kexpr *mul64(fl_front *p, fl_kexpr *x, int64_t k) {
  return k == 1 ? x : fl_val_with(p, FL_KO_MUL, x, k);
}

/* ---- conversions ----------------------------------------------------------------------------- */

int fl_promote_type(int t) { return t >= FL_KT_BOOL && t < FL_KT_I32 ? FL_KT_I32 : t; }

/* C's usual arithmetic conversions; a half type with f64 becomes f64, with another real type f32,
** and with an integer stays as it is. */
int fl_arith_type(int a, int b) {
  a = fl_promote_type(a);
  b = fl_promote_type(b);
  if (a == b) return a;
  if (a == FL_KT_F64 || b == FL_KT_F64) return FL_KT_F64;
  if (a == FL_KT_F32 || b == FL_KT_F32) return FL_KT_F32;
  if (fl_kt_is_float(a) && fl_kt_is_float(b)) return FL_KT_F32;
  if (fl_kt_is_float(a)) return a;
  if (fl_kt_is_float(b)) return b;
  if (a == FL_KT_U64 || b == FL_KT_U64) return FL_KT_U64;
  if (a == FL_KT_I64 || b == FL_KT_I64) return FL_KT_I64;
  return FL_KT_U32;
}

fl_kexpr *fl_val_convert(fl_front *p, fl_kexpr *e, int type) {
  if (!e) return NULL;
  if (type == FL_KT_BOOL) return fl_front_check(p, fl_kexpr_truth(p->a, e));
  return fl_front_check(p, fl_kexpr_cast(p->a, type, e));
}

/* ---- reading --------------------------------------------------------------------------------- */

fl_kexpr *fl_val_at(fl_front *p, const fl_cvalue *v) {
  return v->idx ? v->idx : fl_kexpr_int(p->a, FL_KT_I64, 0);
}

static fl_kexpr *read_place(fl_front *p, fl_cvalue v, int32_t line) {
  const fl_kvar *var = &p->f->vars[v.var];
  const int64_t i = v.idx && v.idx->kind == FL_KX_CONST ? v.idx->value.i : v.idx ? -1 : 0;
  fl_kexpr *e;
  if (var->kind == FL_KV_LOCAL) {
    e = fl_view_bits(p, fl_kexpr_var(p->f, v.var), v.type->scalar);
  } else if (var->kind == FL_KV_TABLE && i >= 0 && i < var->count && !v.unit &&
             fl_kt_size(var->type) == fl_kt_size(v.type->scalar)) {
    const fl_kvalue k = var->data[i];
    e = fl_kt_is_float(var->type) ? fl_kexpr_float(p->a, var->type, k.d)
                                  : fl_kexpr_int(p->a, var->type, k.i);
    e = fl_view_bits(p, e, v.type->scalar);
  } else {
    e = fl_view_read(p, &v, line);
  }
  if (e) e->line = line;
  return fl_front_check(p, fl_val_as(p, e, v.type));
}

fl_kexpr *fl_val_scalar(fl_front *p, fl_cvalue v, int32_t line) {
  v = fl_member_plain(p, v, line);
  if (p->failed) return NULL;
  if (v.kind == FL_V_EXPR) return v.e;
  if (v.torn && v.e) return v.e;
  if (v.torn) {
    fl_refuse(p, line,
              "one argument changes '%s', another reads it, and C++ does not say which is first"
              FL_DO ": write two statements", p->f->vars[v.var].source);
    return NULL;
  }
  if (v.kind == FL_V_PLACE && v.type->kind == FL_C_SCALAR) return read_place(p, v, line);
  if (v.kind == FL_V_POINTER && v.address) return fl_shared_wrong(p, line);
  if (v.kind == FL_V_NONE) fl_refuse(p, line, "a value is needed here, this is void");
  else if (v.kind == FL_V_LIST) fl_refuse(p, line, "{ } cannot stand here");
  else if (v.kind == FL_V_POINTER || v.type->kind == FL_C_POINTER ||
           v.type->kind == FL_C_ARRAY)
    fl_refuse(p, line, "a pointer is used as a number");
  else
    fl_refuse(p, line, "a number is needed here, this is a '%s'",
              fl_ctype_text(p->a, v.type));
  return NULL;
}

int fl_val_is_null(const fl_cvalue *v) {
  return v->null || (v->when && v->when->kind == FL_KX_CONST && !v->when->value.i);
}

fl_kstmt *fl_val_must(fl_front *p, fl_kexpr *is, const char *what, int32_t line) {
  fl_kstmt *s = fl_emit(p, FL_KS_ASSERT, line);
  if (!s) return NULL;
  s->x[0] = is;
  s->text = what;
  return s;
}

/* Records ('asked' of the parameter) that the text tests v for null. On a device a null pointer
** plus a number is not null, so a thread that has added one other than 0 is stopped. */
void fl_val_asked(fl_front *p, const fl_cvalue *v, int32_t line) {
  if (!p->f || v->null || v->list || v->var < 0 || v->var >= p->f->n_vars) return;
  const fl_kvar *of = &p->f->vars[v->var];
  if (of->kind != FL_KV_POINTER || of->param < 0) return;
  p->f->params[of->param].asked = 1;
  if (!p->b || !v->idx || !fl_val_is_null(v)) return;
  fl_val_must(p, fl_val_with(p, FL_KO_EQ, v->idx, 0), "a null pointer is not moved", line);
}

/* v as a condition. A pointer is true unless it is null ('null'), or as its 'when' says. */
fl_kexpr *fl_val_truth(fl_front *p, fl_cvalue v, int32_t line) {
  const int pointer = fl_val_is_address(v);
  if (fl_held_is(p, &v)) v = fl_held_read(p, v, line);
  if (pointer) fl_val_asked(p, &v, line);
  if (pointer && v.when) return v.when;
  if (pointer) return fl_kexpr_int(p->a, FL_KT_BOOL, !v.null);
  fl_kexpr *e = fl_val_scalar(p, v, line);
  return e ? fl_val_convert(p, e, FL_KT_BOOL) : NULL;
}

static int read_parts(fl_front *p, fl_cvalue v, fl_kexpr **out, int32_t line) {
  if (v.type->kind == FL_C_SCALAR) {
    out[0] = fl_val_scalar(p, v, line);
    return 1;
  }
  if (v.type->kind != FL_C_STRUCT) {
    fl_refuse(p, line, "a struct with %s cannot be used as a value here",
              v.type->kind == FL_C_ARRAY ? "an array" : "a pointer");
    return 0;
  }
  int n = 0;
  for (int i = 0; i < v.type->s->n_fields && !p->failed; i++)
    n += read_parts(p, fl_val_field(p, v, i, line), out + n, line);
  return n;
}

fl_kexpr **fl_val_parts(fl_front *p, fl_cvalue v, int32_t line) {
  if (v.kind == FL_V_PARTS || (v.torn && v.parts)) return v.parts;
  if (v.kind == FL_V_EXPR || v.kind == FL_V_PLACE) {
    fl_kexpr **out = fl_karena_new(p->a, (size_t)fl_ctype_leaves(v.type) * sizeof *out);
    if (out) read_parts(p, v, out, line);
    return p->failed ? NULL : out;
  }
  fl_refuse(p, line, "a struct is needed here");
  return NULL;
}

/* ---- places ---------------------------------------------------------------------------------- */

fl_cvalue fl_val_member(fl_front *p, fl_cvalue v, const char *name, int32_t n,
                       int32_t line) {
  if (p->failed) return fl_val_none();
  const fl_cfield *f =
      v.type && v.type->kind == FL_C_STRUCT ? fl_cstruct_field(v.type->s, name, n) : NULL;
  if (!f)
    return fl_val_refuse(p, line, "'%s' has no member '%.*s'%s",
                         v.type ? fl_ctype_text(p->a, v.type) : "?", (int)n, name,
                         fl_field_meant(p, v.type, name, n));
  return fl_val_field(p, v, f - v.type->s->fields, line);
}

/* By its number, since bases and unnamed members may have one name. */
fl_cvalue fl_val_field(fl_front *p, fl_cvalue v, int64_t i, int32_t line) {
  if (p->failed) return fl_val_none();
  const fl_cfield *f = &v.type->s->fields[i];
  const fl_keither *of = v.either;
  v.either = NULL;
  if (of && of->c) {
    fl_cvalue r[3] = { v, of->x, of->y };
    for (int k = 0; k < 3; k++) r[k] = fl_val_field(p, r[k], i, line);
    fl_choose_note(p, r, of->c, &r[1], &r[2]);
    return r[0];
  }
  v.either = of;
  v.member |= !v.linear && v.idx && v.type->s->n_leaves > 1;
  v.type = v.type->is_volatile ? fl_ctype_volatile(p->a, f->type) : f->type;
  if (f->is_mutable) v.is_const = 0;
  if (p->a->failed) return fl_val_none();
  if (v.torn && v.parts) v.kind = FL_V_PARTS;
  if (v.kind == FL_V_PARTS) {
    assert(v.parts);
    v.parts += f->leaf;
    return f->type->kind == FL_C_SCALAR ? fl_val_expr(fl_val_as(p, v.parts[0], f->type)) : v;
  }
  if (!v.linear) v.var += f->leaf;
  else v.idx = add64(p, v.idx, fl_kexpr_int(p->a, FL_KT_I64, fl_view_units_in(p, &v, f->offset)));
  return v;
}

fl_cvalue fl_val_stored(fl_front *p, fl_cvalue v, int32_t line) {
  if (v.kind == FL_V_PLACE) return v;
  const fl_cvalue to = fl_decl_object(p, v.type, "object", line);
  if (!p->failed) fl_val_assign(p, to, v, line);
  return to;
}

/* Is v an array of pointers? */
static int holds_rows(const fl_cvalue *v) {
  return v->kind == FL_V_PLACE && v->type->kind == FL_C_ARRAY && v->type->of->kind == FL_C_POINTER;
}

fl_cvalue fl_val_pointer(fl_front *p, fl_cvalue v, int32_t line) {
  v = fl_member_pointer(p, v, line);
  if (p->failed || v.kind == FL_V_POINTER) return v;
  if (holds_rows(&v)) return fl_held_list(p, v, line);
  if (v.kind == FL_V_PLACE && v.type->kind == FL_C_ARRAY) {
    v = fl_val_index(p, v, fl_kexpr_int(p->a, FL_KT_I64, 0), line);
    v.kind = FL_V_POINTER;
    return v;
  }
  if (v.kind == FL_V_PLACE && v.type->kind == FL_C_POINTER && !v.linear &&
      p->f->vars[v.var].kind == FL_KV_POINTER) {
    v.is_const = v.type->const_of;
    v.type = v.type->of;
    v.kind = FL_V_POINTER;
    v.linear = 1;
    v.idx = NULL;
    return v;
  }
  if (fl_held_is(p, &v)) return fl_held_read(p, v, line);
  if (v.kind == FL_V_EXPR && v.e->kind == FL_KX_CONST && fl_kt_is_int(v.e->type) &&
      !v.e->value.i)
    return (fl_cvalue){ .kind = FL_V_POINTER, .null = 1, .type = fl_ctype_void() };
  if (v.kind == FL_V_PLACE && v.type->kind == FL_C_POINTER)
    fl_refuse(p, line, "a pointer that is stored in memory" FL_DO "; pass the array itself");
  return fl_val_refuse(p, line, "a pointer is needed here");
}

fl_cvalue fl_val_advance(fl_front *p, fl_cvalue v, fl_kexpr *by, int negative,
                        int32_t line) {
  v.sym = 0;
  if (p->failed || !by || v.null) return v;
  if (!fl_kt_is_int(by->type)) return fl_val_refuse(p, line, "an index must be an integer");
  by = fl_val_convert(p, by, FL_KT_I64);
  if (negative) by = fl_front_check(p, fl_kexpr_unary(p->a, FL_KO_NEG, by));
  if (v.linear && !v.list) {
    v.idx = add64(p, v.idx, mul64(p, by, fl_view_units(p, &v, v.type, line)));
  } else if (v.list || (v.idx && !v.member)) {
    v.idx = add64(p, v.idx, by);
  } else if (by && (by->kind != FL_KX_CONST || by->value.i)) {
    if (!v.member || !fl_view_array(p, v.var)) p->turn_wanted = 2;
    fl_refuse(p, line, "a pointer to one variable is moved off it");
  }
  return v;
}

static fl_kstmt *not_null(fl_front *p, fl_kexpr *is, int32_t line) {
  return fl_val_must(p, is, "a pointer that is followed is not null", line);
}

/* What an access through a null pointer reads: an object of zeros, so that the code is complete.
** Threads that reach the access are stopped before it. */
static fl_cvalue null_place(fl_front *p, const fl_ctype *t, int32_t line) {
  if (!not_null(p, fl_kexpr_int(p->a, FL_KT_BOOL, 0), line)) return fl_val_none();
  const fl_cvalue v = fl_decl_object(p, t, "null", line);
  if (!p->failed) fl_decl_zero(p, v, line);
  return v;
}

/* v points into a parameter that is a list of pointers (a T **): the pointer *v. */
static fl_cvalue list_element(fl_front *p, fl_cvalue v, int32_t line) {
  fl_kexpr *at = v.idx;
  fl_cvalue r = { .kind = FL_V_POINTER, .linear = 1, .is_const = v.type->const_of,
                  .type = v.type->of, .var = v.var };
  if (at && at->kind != FL_KX_CONST) return fl_turn_list(p, r, v.list, at, line);
  const int64_t k = at ? at->value.i : 0;
  if (k < 0 || k >= v.list)
    return fl_val_refuse(p, line, "array %lld of a list of %d", (long long)k, v.list);
  r.var += (int32_t)k;
  return r;
}

fl_cvalue fl_val_deref(fl_front *p, fl_cvalue v, int32_t line) {
  v = fl_val_pointer(p, v, line);
  if (p->failed) return v;
  if (v.list) return list_element(p, v, line);
  const int null = fl_val_is_null(&v);
  if (null && v.type->kind != FL_C_VOID && p->b) return null_place(p, v.type, line);
  if (null) fl_refuse(p, line, "the null pointer is read");
  if (v.when && p->b) not_null(p, v.when, line);
  if (v.type->kind == FL_C_VOID)
    fl_refuse(p, line, v.type == fl_ctype_void() ? "a void pointer is read"
                                                  : "a texture is read by tex1Dfetch");
  if (v.type->kind == FL_C_POINTER)
    fl_refuse(p, line, "pointers stored in memory are outside the language");
  v.kind = FL_V_PLACE;
  v.sym = 0;
  fl_align_check(p, &v, line);
  return v;
}

fl_cvalue fl_val_index(fl_front *p, fl_cvalue v, fl_kexpr *i, int32_t line) {
  if (p->failed || !i) return fl_val_none();
  if (!(v.kind == FL_V_PLACE && v.type->kind == FL_C_ARRAY) || holds_rows(&v))
    return fl_val_deref(p, fl_val_advance(p, fl_val_pointer(p, v, line), i, 0, line),
                        line);
  if (!fl_kt_is_int(i->type)) fl_refuse(p, line, "an index must be an integer");
  i = fl_val_convert(p, i, FL_KT_I64);
  const int64_t count = v.type->count;
  v.type = v.type->of;
  v.member = 0;
  if (v.linear) v.idx = add64(p, v.idx, mul64(p, i, fl_view_units(p, &v, v.type, line)));
  else v.idx = v.idx ? add64(p, mul64(p, v.idx, count), i) : i;
  return v;
}

fl_cvalue fl_val_address(fl_front *p, fl_cvalue v, int32_t line) {
  fl_choose_place(p, &v, line);
  if (p->failed) return v;
  if (v.kind != FL_V_PLACE || v.rvalue)
    fl_refuse(p, line, "the address of a value that is not stored");
  else if (v.type->kind == FL_C_POINTER)
    fl_refuse(p, line, "pointers to pointers are outside the language");
  v.kind = FL_V_POINTER;
  return v;
}

/* ---- writing --------------------------------------------------------------------------------- */

int fl_front_temp(fl_front *p, int type, int32_t line) {
  const int t = fl_ktemp(p->f, type);
  fl_kstmt *s = t < 0 ? NULL : fl_kstmt_decl(p->f, p->b, t);
  if (!s) return -1;
  s->line = line;
  return t;
}

fl_kexpr *fl_val_stable(fl_front *p, fl_kexpr *e) {
  if (!e || e->kind == FL_KX_CONST || e->kind == FL_KX_SPECIAL || p->failed) return e;
  if (!p->b || !p->f) return e;
  const int t = fl_front_temp(p, e->type, e->line);
  if (t < 0 || !fl_kstmt_assign(p->f, p->b, t, e)) return NULL;
  fl_kexpr *r = fl_kexpr_var(p->f, t);
  if (r) r->line = e->line, r->as = e->as;
  return r;
}

fl_kstmt *fl_emit_count(fl_front *p, int64_t from, fl_kexpr *n, fl_kexpr **i, int32_t line) {
  const int t = p->failed ? -1 : fl_front_temp(p, FL_KT_I64, line);
  if (t < 0) return NULL;
  fl_kstmt_assign(p->f, p->b, t, fl_kexpr_int(p->a, FL_KT_I64, from));
  *i = fl_kexpr_var(p->f, t);
  fl_kstmt *loop = fl_kstmt_loop(p->f, p->b, fl_kexpr_binary(p->a, FL_KO_LT, *i, n));
  if (!loop) return NULL;
  loop->line = line;
  fl_kexpr *one = fl_kexpr_int(p->a, FL_KT_I64, 1);
  fl_kstmt_assign(p->f, &loop->other, t, fl_kexpr_binary(p->a, FL_KO_ADD, *i, one));
  return loop;
}

static int writable(fl_front *p, fl_cvalue v, int32_t line) {
  if (p->failed || p->a->failed) return 0;
  if (v.kind != FL_V_PLACE || v.rvalue)
    fl_refuse(p, line, "the left side cannot be assigned to%s",
              v.kind == FL_V_POINTER ? FL_DO ": write if (…) p = …; else q = …" : "");
  else if (v.is_const || p->f->vars[v.var].is_const)
    fl_refuse(p, line, "'%s' is const", p->f->vars[v.var].source);
  else if (v.type->kind == FL_C_POINTER)
    fl_refuse(p, line, "pointers stored in memory are outside the language");
  else if (!p->b) fl_refuse(p, line, "an assignment in a constant expression");
  return !p->failed;
}

/* Before a store of e to volatile memory of a block: computes index and value, then adds a barrier
** of the lanes of the warp, so that lanes that run in step have all read before any of them
** stores. */
static fl_kexpr *in_step(fl_front *p, fl_cvalue *to, fl_kexpr *e, int32_t line) {
  to->idx = fl_val_stable(p, to->idx);
  e = fl_val_stable(p, e);
  fl_emit_here(p, line);
  return e;
}

void fl_val_store(fl_front *p, fl_cvalue to, fl_kexpr *e, int accumulate, int32_t line) {
  if (!writable(p, to, line) || !e) return;
  const int kind = p->f->vars[to.var].kind,
            step = to.type->is_volatile && (kind == FL_KV_SHARED || fl_turn_of(p, to.var));
  if (step) {
    if (accumulate) e = fl_arith(p, FL_KO_ADD, read_place(p, to, line), e, line);
    e = in_step(p, &to, fl_val_convert(p, e, to.type->scalar), line);
    to.type = fl_ctype_plain(p->a, to.type);
    if (!to.type) return;
    fl_val_store(p, to, e, 0, line);
    fl_emit_here(p, line);
    return;
  }
  const int own = p->f->vars[to.var].type, seen = to.type->scalar != own;
  if (seen && accumulate) e = fl_arith(p, FL_KO_ADD, read_place(p, to, line), e, line);
  if (seen || !accumulate) e = fl_val_convert(p, e, to.type->scalar);
  if (p->f->vars[to.var].kind == FL_KV_LOCAL) {
    e = seen ? fl_view_bits(p, e, own) : e;
    fl_emit_assign(p, to.var, fl_val_convert(p, e, own), line);
  } else if (seen) {
    fl_view_write(p, &to, e, line);
  } else {
    fl_kexpr *i = fl_view_element(p, &to);
    fl_kstmt *s = accumulate ? fl_kstmt_accumulate(p->f, p->b, to.var, i, e)
                             : fl_kstmt_store(p->f, p->b, to.var, i, e);
    if (s) s->line = line;
  }
  fl_front_check(p, e);
}

/* Does an expression read what is written: variables low … high - 1, or, if one of the two is a
** pointer into one of several arrays (turn.c), an array of the same type? */
typedef struct reads { const fl_front *p; int32_t low, high; int found; } reads;

static int note_read(void *arg, fl_kexpr *x) {
  reads *r = arg;
  if (x->kind != FL_KX_VAR && x->kind != FL_KX_LOAD) return 1;
  const fl_kvar *vars = r->p->f->vars;
  const int turns = fl_turn_of(r->p, x->var) || fl_turn_of(r->p, r->low);
  r->found |= (x->var >= r->low && x->var < r->high) ||
              (x->kind == FL_KX_LOAD && turns && vars[x->var].type == vars[r->low].type);
  return !r->found;
}

static reads reads_of(const fl_front *p, const fl_cvalue *to) {
  return (reads){ p, to->var, to->var + (to->linear ? 1 : fl_ctype_leaves(to->type)), 0 };
}

void fl_val_settle(fl_front *p, fl_cvalue *v, const fl_cvalue *to) {
  if (p->failed || v->kind != FL_V_PLACE || to->kind != FL_V_PLACE || to->var < 0) return;
  if (to->type->kind == FL_C_SCALAR || to->type->kind == FL_C_POINTER) return;
  reads r = reads_of(p, to);
  fl_kwalk_expr(&(fl_kvisitor){ NULL, note_read, &r }, v->idx);
  if (r.found) v->idx = fl_val_stable(p, v->idx);
}

/* Copies an array: by a loop, or written out if it has at most 8 elements. */
static void assign_array(fl_front *p, fl_cvalue to, fl_cvalue from, int32_t line) {
  const int64_t n = to.type->count;
  if (n <= 8) {
    for (int64_t i = 0; i < n && !p->failed; i++) {
      fl_kexpr *k = fl_kexpr_int(p->a, FL_KT_I64, i);
      fl_val_assign(p, fl_val_index(p, to, k, line), fl_val_index(p, from, k, line),
                    line);
    }
    return;
  }
  fl_kexpr *i;
  fl_kstmt *loop = fl_emit_count(p, 0, fl_kexpr_int(p->a, FL_KT_I64, n), &i, line);
  if (!loop) return;
  fl_kblock *out = fl_front_into(p, &loop->body);
  fl_val_assign(p, fl_val_index(p, to, i, line), fl_val_index(p, from, i, line), line);
  fl_front_into(p, out);
}

/* Assigns leaf by leaf, through temporaries if any part reads a leaf of 'to'. */
static void assign_parts(fl_front *p, fl_cvalue to, fl_kexpr **parts, int32_t line) {
  const int n = fl_ctype_leaves(to.type);
  reads r = reads_of(p, &to);
  const fl_kvisitor v = { NULL, note_read, &r };
  for (int i = 0; i < n; i++) fl_kwalk_expr(&v, parts[i]);
  fl_kexpr **safe = parts;
  if (r.found && n > 1) {
    safe = fl_karena_new(p->a, (size_t)n * sizeof *safe);
    for (int i = 0; safe && i < n; i++) safe[i] = fl_val_stable(p, parts[i]);
  }
  for (int i = 0, k = 0; safe && i < to.type->s->n_fields && !p->failed; i++) {
    const fl_cfield *f = &to.type->s->fields[i];
    const fl_cvalue m = fl_val_field(p, to, i, line);
    const int leaves = fl_ctype_leaves(f->type);
    if (f->type->kind == FL_C_STRUCT) assign_parts(p, m, safe + k, line);
    else fl_val_store(p, m, safe[k], 0, line);
    k += leaves;
  }
}

static int is_empty(const fl_ctype *t) { return t && t->kind == FL_C_STRUCT && !t->s->n_leaves; }

void fl_val_assign(fl_front *p, fl_cvalue to, fl_cvalue from, int32_t line) {
  from = fl_member_as(p, from, to.type, line);
  const int makes = !p->failed && to.type && to.type->kind == FL_C_STRUCT && from.type &&
                    !fl_ctype_same(to.type, from.type);
  if (makes && fl_member_makes(p, to.type, &from)) {
    fl_member_make(p, to, &from, 1, line);
    return;
  }
  if (!p->failed && is_empty(to.type) && from.type && fl_ctype_same(to.type, from.type)) return;
  if (!p->failed && is_empty(to.type))
    fl_refuse(p, line, "a value of another type than '%s'", fl_ctype_text(p->a, to.type));
  if (p->failed || !to.type) return;
  if (fl_held_is(p, &to)) { fl_held_assign(p, to, from, line); return; }
  if (from.kind == FL_V_POINTER && from.address) { fl_shared_wrong(p, line); return; }
  if (!writable(p, to, line)) return;
  fl_val_settle(p, &from, &to);
  fl_val_settle(p, &to, &to);
  if (fl_view_copy(p, &to, &from, line)) return;
  if (to.type->kind == FL_C_SCALAR) {
    fl_val_store(p, to, fl_cast_to(p, to.type, from, line).e, 0, line);
  } else if (!from.type || !fl_ctype_same(to.type, from.type)) {
    fl_refuse(p, line, "a '%s' cannot be assigned to a '%s'",
              from.type ? fl_ctype_text(p->a, from.type) : "?",
              fl_ctype_text(p->a, to.type));
  } else if (fl_ctype_innermost(to.type)->kind == FL_C_POINTER) {
    fl_held_copy(p, to, from, line);
  } else if (to.type->kind == FL_C_ARRAY) {
    assign_array(p, to, from, line);
  } else if (fl_ctype_has_array(to.type)) {
    for (int i = 0; i < to.type->s->n_fields && !p->failed; i++)
      fl_val_assign(p, fl_val_field(p, to, i, line), fl_val_field(p, from, i, line), line);
  } else {
    fl_kexpr **parts = fl_val_parts(p, from, line);
    if (parts) assign_parts(p, to, parts, line);
  }
}

void fl_vector_set(fl_front *p, fl_cvalue to, const fl_cvalue *args, int32_t line) {
  for (int i = 0; i < to.type->s->n_fields && !p->failed; i++)
    fl_val_store(p, fl_val_field(p, to, i, line), fl_val_scalar(p, args[i], line), 0, line);
}

fl_cvalue fl_vector_of(fl_front *p, const fl_ctype *t, const fl_cvalue *args, int n, int32_t line) {
  const fl_cvalue v = fl_val_in_parts(p, t);
  for (int i = 0; v.parts && i < t->s->width; i++)
    v.parts[i] = i < n ? fl_val_convert(p, fl_val_scalar(p, args[i], line), t->s->element)
                       : fl_kexpr_int(p->a, t->s->element, 1);
  return v;
}

int32_t fl_val_target(fl_front *p, fl_cvalue v, fl_kexpr **index, int *type, int32_t line) {
  v = fl_val_deref(p, v, line);
  if (p->failed || p->a->failed) return -1;
  const fl_kvar *var = &p->f->vars[v.var];
  if (v.type->kind != FL_C_SCALAR)
    fl_refuse(p, line, "atomics need a pointer to a number");
  else if (var->kind != FL_KV_POINTER && var->kind != FL_KV_SHARED && !fl_turn_of(p, v.var))
    fl_refuse(p, line, "atomics need global or shared memory, '%s' is neither",
              var->source);
  else if (v.is_const | var->is_const) fl_refuse(p, line, "'%s' is const", var->source);
  if (p->failed) return -1;
  if (fl_kt_size(v.type->scalar) != fl_kt_size(var->type))
    fl_refuse(p, line, "an atomic on '%s' seen as a type of another size", var->source);
  *index = fl_view_element(p, &v);
  *type = v.type->scalar;
  return v.var;
}
