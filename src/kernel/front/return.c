/* return, in a kernel and in functions that are inlined. Those return nothing, a value, a
** reference, a pointer or an address in shared memory. */
#include "kernel/front/forms.h"

/* Returns a reference, a pointer or an address in shared memory (shared.c). It must be to the same
** variable in all returns; its index, if it has one, is in a temporary that is declared before the
** body. */
static void return_place(fl_front *p, fl_cvalue v, int32_t line) {
  const fl_kdevice *d = p->inside;
  fl_cvalue *r = &p->returned;
  if (d->returns == FL_RETURNS_POINTER && d->result) v = fl_cast_to(p, d->result, v, line);
  else if (d->returns == FL_RETURNS_PLACE) fl_choose_place(p, &v, line);
  const int wrong = d->returns == FL_RETURNS_POINTER ? v.null
                    : d->returns == FL_RETURNS_PLACE && (v.kind != FL_V_PLACE || v.rvalue);
  if (!p->failed && wrong)
    fl_refuse(p, line, d->returns == FL_RETURNS_POINTER
                       ? "the null pointer is returned"
                       : "a reference to a value that is not stored");
  if (v.when) fl_refuse(p, line, "a pointer that may be null is returned");
  if (p->failed) return;
  v.sym = 0;
  if (r->kind == FL_V_NONE || (v.address && !r->address)) {
    *r = v;
    fl_kblock *in = fl_front_into(p, p->outside);
    const int t = v.idx ? fl_front_temp(p, FL_KT_I64, line) : -1;
    fl_front_into(p, in);
    r->idx = t < 0 ? NULL : fl_kexpr_var(p->f, t);
  } else if (r->var != v.var || r->linear != v.linear || r->unit != v.unit || !r->idx != !v.idx ||
             !fl_ctype_same(r->type, v.type)) {
    fl_choose_arrays(p, r, &v);
    fl_refuse(p, line, "a function that returns one variable or another by reference"
              FL_DO ": write one return, with ?:");
  }
  if (v.idx && r->idx && !p->failed) fl_kstmt_assign(p->f, p->b, r->idx->var, v.idx);
}

/* Returns from a function of type auto: the result is an object of the first return's type. */
static void return_auto(fl_front *p, int32_t line) {
  const fl_cvalue v = fl_parse_expr(p);
  if (p->failed) return;
  if (v.kind == FL_V_POINTER || v.kind == FL_V_LIST)
    fl_refuse(p, line, "auto of a pointer or a list" FL_DO ": write the type");
  if (v.kind == FL_V_NONE) return;                          /* return f(), of void */
  if (p->returned.kind == FL_V_NONE) {
    fl_kblock *in = fl_front_into(p, p->outside);
    p->returned = fl_decl_object(p, v.type, p->inside->name, line);
    fl_front_into(p, in);
  } else if (!fl_ctype_same(p->returned.type, v.type)) {
    fl_refuse(p, line, "auto of two types");
  }
  if (!p->failed) fl_val_assign(p, p->returned, v, line);
}

static void return_value(fl_front *p, int32_t line) {
  const fl_ctype *result = p->inside->result;
  if (p->inside->returns != FL_RETURNS_VALUE) return_place(p, fl_parse_expr(p), line);
  else if (!result) return_auto(p, line);
  else if (result->kind == FL_C_VOID) {
    p->statement = 1;
    fl_parse_expr(p);
  } else if (fl_front_is(p, '{') && result->kind == FL_C_STRUCT) {
    fl_decl_fill(p, p->returned);
  } else {
    const fl_cvalue v = fl_parse_expr(p);
    if (!p->failed && fl_shared_is(&v, result)) return_place(p, v, line);
    else fl_val_assign(p, p->returned, v, line);
  }
}

void fl_parse_return(fl_front *p, int32_t line) {
  if (!p->inside) {
    if (!fl_front_is(p, ';')) fl_refuse(p, line, "a kernel returns nothing");
    fl_emit(p, FL_KS_RETURN, line);
    return;
  }
  const fl_ctype *result = p->inside->result;
  if (!fl_front_is(p, ';')) return_value(p, line);
  else if (result ? result->kind != FL_C_VOID : p->returned.kind != FL_V_NONE)
    fl_refuse(p, line, "return without a value");
  fl_kstmt *s = fl_emit(p, FL_KS_LEAVE, line);
  if (s) s->label = p->return_label;
}

/* ---- functions of constants ------------------------------------------------------------------ */

/* Reads "if (c) … else …" with a constant c; the branch not chosen is not read. Returns 1 if the
** function returned or was refused. */
static int fold_if(fl_front *p, fl_kexpr **result, int32_t line) {
  fl_front_word(p, "constexpr");
  fl_front_need(p, '(');
  const fl_kexpr *c = fl_parse_condition(p);
  fl_front_need(p, ')');
  if (c && c->kind != FL_KX_CONST) fl_refuse(p, line, "a condition that is no constant");
  if (!c || p->failed) return 1;
  int done = 0;
  if (c->value.i) done = fl_fold_statement(p, result);
  else fl_skip_statement(p);
  if (done || !fl_front_word(p, "else")) return done;
  if (!c->value.i) return fl_fold_statement(p, result);
  fl_skip_statement(p);
  return 0;
}

int fl_fold_statement(fl_front *p, fl_kexpr **result) {
  const fl_ktok *t = fl_front_tok(p);
  int done = 0;
  if (p->failed || !fl_front_enter(p)) return 1;
  if (fl_front_word(p, "return")) {
    *result = fl_parse_scalar(p);
    done = 1;
  } else if (fl_front_word(p, "if")) {
    done = fold_if(p, result, t->line);
  } else if (fl_ktok_is(t, "static_assert")) {
    fl_decl_assert(p);
  } else if (fl_ktok_is(t, "constexpr") || fl_ktok_is(t, "using") || fl_ktok_is(t, "typedef")) {
    fl_decl_local(p);
  } else if (fl_front_take(p, '{')) {
    const int64_t scope = p->syms.n;
    while (!done && !fl_front_is(p, '}') && fl_front_tok(p)->kind != FL_TOK_END)
      done = fl_fold_statement(p, result);
    if (!done) fl_front_need(p, '}');
    p->syms.n = scope;
  } else if (!fl_front_take(p, ';')) {
    fl_refuse(p, t->line, "a statement in a constant expression");
  }
  p->nest--;
  return done || p->failed;
}
