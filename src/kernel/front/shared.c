/*
** Addresses in shared memory as numbers, which asm statements take: "unsigned at =
** __cvta_generic_to_shared(&tile[i]);". Such a number is read as a pointer that counts bytes. It
** may be the value of an integer variable, argument or result, and bytes may be added to it.
**
** Asynchronous copies from global to shared memory (cp.async, __pipeline_memcpy_async) are made at
** once, element by element, so that they have gradients. What waits for them does nothing.
*/
#include "kernel/front/forms.h"
#include <string.h>

int fl_shared_is(const fl_cvalue *v, const fl_ctype *t) {
  return v->kind == FL_V_POINTER && v->address && t->kind == FL_C_SCALAR &&
         fl_kt_is_int(t->scalar) && fl_kt_size(t->scalar) >= 4;
}

fl_kexpr *fl_shared_wrong(fl_front *p, int32_t line) {
  fl_refuse(p, line, "an address in shared memory is a variable's first value, an argument or a "
            "result, to which bytes are added" FL_DO ": compute with the index");
  return NULL;
}

static int is_in(const fl_front *p, const fl_cvalue *v, int kind) {
  return !v->null && !v->when && (fl_turn_of(p, v->var) || p->f->vars[v->var].kind == kind);
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* Makes v, an address that must be a multiple of 'size' bytes, a pointer to elements of type t. */
static void align(fl_front *p, fl_cvalue *v, int64_t size, const fl_ctype *t, int32_t line) {
  fl_cvalue wide = *v;
  wide.type = size == 4 ? fl_ctype_scalar(FL_KT_U32)
                        : fl_ctype_named(p->a, size == 8 ? "uint2" : "uint4", 5);
  if (p->failed || !wide.type) return;
  fl_align_check(p, &wide, line);
  fl_view_as(p, v, t);
  v->type = t;
  v->address = 0;
}

/* Copies 'size' bytes, element by element. n: how many of them are read (the others become 0);
** NULL: all. */
static void copy(fl_front *p, fl_cvalue to, fl_cvalue from, int64_t size, fl_kexpr *n,
                 int32_t line) {
  const fl_ctype *t = fl_ctype_scalar(p->f->vars[from.var].type);
  const int64_t each = fl_ctype_size(t);
  align(p, &to, size, t, line);
  align(p, &from, size, t, line);
  if (n) {                  /* n <= size and n % each == 0 in one test: a rest * 32 exceeds size */
    n = fl_val_stable(p, fl_val_convert(p, n, FL_KT_U64));
    fl_kexpr *e = fl_arith(p, FL_KO_REM, n, fl_kexpr_int(p->a, FL_KT_U64, each), line);
    e = fl_arith(p, FL_KO_MUL, e, fl_kexpr_int(p->a, FL_KT_U64, 32), line);
    e = fl_arith(p, FL_KO_LE, fl_arith(p, FL_KO_OR, e, n, line),
                 fl_kexpr_int(p->a, FL_KT_U64, size), line);
    fl_val_must(p, e, "a copy reads whole elements, and no more than it has", line);
  }
  for (int64_t i = 0; i < size / each && !p->failed; i++) {
    fl_kexpr *at = fl_kexpr_int(p->a, FL_KT_I64, i),
             *e = fl_val_scalar(p, fl_val_index(p, from, at, line), line);
    if (e && n)
      e = fl_kexpr_select(p->a, fl_arith(p, FL_KO_GE, n, fl_kexpr_int(p->a, FL_KT_U64,
                                                                      (i + 1) * each), line),
                          e, fl_kexpr_zero(p->a, e->type));
    fl_val_store(p, fl_val_index(p, to, at, line), e, 0, line);
  }
}

/* Reads the arguments of an asynchronous copy and makes it: to, from, size, and perhaps how many
** bytes are read or (pipe) how many at the end are not. least: the smallest size allowed. */
static void asynchronous(fl_front *p, const fl_ktok *t, const fl_cvalue *args, int n, int least,
                         int pipe) {
  const int32_t line = t->line;
  if (n < 3 || n > 4) { fl_refuse_count(p, t, 3, n); return; }
  fl_cvalue to = args[0], from = args[1];
  fl_cast_address(p, &to, line);
  fl_cast_address(p, &from, line);
  fl_kexpr *size = fl_val_scalar(p, args[2], line),
           *last = n > 3 ? fl_val_scalar(p, args[3], line) : NULL;
  if (p->failed || !size) return;
  const int64_t k = size->kind == FL_KX_CONST ? size->value.i : 0;
  if ((k != 4 && k != 8 && k != 16) || k < least || args[0].address == pipe ||
      !is_in(p, &to, FL_KV_SHARED) || !is_in(p, &from, FL_KV_POINTER) || args[1].address)
    fl_refuse(p, line, "an asynchronous copy is of 4, 8 or 16 bytes (.cg: 16), a constant, from "
              "global to shared memory (cp.async: an address of __cvta_generic_to_shared)");
  if (last && pipe) last = fl_arith(p, FL_KO_SUB, size, last, line);
  if (!p->failed) copy(p, to, from, k, last, line);
}

int fl_call_shared(fl_front *p, const fl_ktok *t, const fl_cvalue *args, int n, fl_cvalue *out) {
  static const char *const names[] = { "__cvta_generic_to_shared", "__pipeline_memcpy_async",
                                       "fl_ptx_cp_async_ca", "fl_ptx_cp_async_cg" };
  const int k = fl_ktok_among(t, names, 4);
  if (k < 0) return 0;
  *out = fl_val_none();
  if (!p->b || !p->f) fl_refuse(p, t->line, "shared memory in a constant expression");
  else if (k) asynchronous(p, t, args, n, k == 3 ? 16 : 4, k == 1);
  else if (n != 1) fl_refuse_count(p, t, 1, n);
  else *out = args[0], fl_cast_address(p, out, t->line);
  if (!k && !p->failed && !is_in(p, out, FL_KV_SHARED))
    fl_refuse(p, t->line, "__cvta_generic_to_shared of what is not in shared memory");
  return 1;
}
