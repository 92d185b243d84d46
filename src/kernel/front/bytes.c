/* memcpy and memset, read as assignments of one element after another. An element has the type of
** the destination (of the source, if the destination is bytes; for memset with another byte than 0
** it is an unsigned integer of the size of the destination's numbers). Where the number of bytes is
** a constant and not a multiple of its size, elements are single bytes; where it is known only when
** the kernel runs, a thread for which it is not a multiple is stopped. */
#include "kernel/front/forms.h"
#include "kernel/front/front.h"
#include <string.h>

enum { WRITTEN_OUT = 16 };       /* most elements that are assigned without a loop */

typedef struct copied { fl_cvalue to, from; int pattern; const fl_ctype *type; } copied;

static int is_byte(const fl_ctype *t) {
  return t->kind == FL_C_VOID ||
         (t->kind == FL_C_SCALAR && (t->scalar == FL_KT_I8 || t->scalar == FL_KT_U8));
}

static int divides(const fl_ctype *t, const fl_kexpr *bytes) {
  const int64_t size = fl_ctype_size(t);
  return size > 0 && (bytes->kind != FL_KX_CONST || bytes->value.i % size == 0);
}

/* Does the text show that x is a multiple of n, as 4 * k, (long)(4 * k) or 4 * k + 8 are of 4? */
static int is_multiple(const fl_kexpr *x, int64_t n) {
  if (x->kind == FL_KX_CONST) return x->value.i % n == 0;
  if (x->kind == FL_KX_CAST)
    return fl_kt_is_int(x->x[0]->type) && x->type != FL_KT_BOOL &&
           fl_kt_size(x->type) >= fl_kt_size(x->x[0]->type) && is_multiple(x->x[0], n);
  if (x->kind != FL_KX_BINARY) return 0;
  if (x->op == FL_KO_MUL) return is_multiple(x->x[0], n) || is_multiple(x->x[1], n);
  if (x->op == FL_KO_SHL && x->x[1]->kind == FL_KX_CONST)
    return x->x[1]->value.i < 62 && (INT64_C(1) << x->x[1]->value.i) % n == 0;
  return (x->op == FL_KO_ADD || x->op == FL_KO_SUB) && is_multiple(x->x[0], n) &&
         is_multiple(x->x[1], n);
}

/* Returns 'bytes', after adding a statement that stops a thread for which it is not a multiple of
** 'size'; none is added where the text shows that it is one. */
static fl_kexpr *whole(fl_front *p, fl_kexpr *bytes, int64_t size, int32_t line) {
  if (!bytes || is_multiple(bytes, size)) return bytes;
  bytes = fl_val_stable(p, bytes);
  const char *what = fl_karena_printf(p->a, "a number of bytes is a multiple of %lld",
                                      (long long)size);
  fl_val_must(p, fl_val_with(p, FL_KO_EQ, fl_val_with(p, FL_KO_REM, bytes, size), 0), what, line);
  return bytes;
}

static fl_cvalue at(fl_front *p, fl_cvalue v, fl_kexpr *i, int32_t line) {
  return fl_val_deref(p, fl_val_advance(p, v, i, 0, line), line);
}

/* Sets v to zero number by number: fl_decl_zero would call the constructors of a struct. */
static void zero(fl_front *p, fl_cvalue v, int32_t line) {
  const fl_ctype *t = v.type;
  if (fl_ctype_innermost(t)->kind != FL_C_STRUCT) { fl_decl_zero(p, v, line); return; }
  for (int64_t i = 0; t->kind == FL_C_ARRAY && i < t->count && !p->failed; i++)
    zero(p, fl_val_index(p, v, fl_kexpr_int(p->a, FL_KT_I64, i), line), line);
  for (int i = 0; t->kind == FL_C_STRUCT && i < t->s->n_fields && !p->failed; i++)
    zero(p, fl_val_field(p, v, i, line), line);
}

static void element(fl_front *p, const copied *c, fl_kexpr *i, int32_t line) {
  const fl_cvalue to = at(p, c->to, i, line);
  if (p->failed) return;
  if (c->from.kind == FL_V_POINTER) fl_val_assign(p, to, at(p, c->from, i, line), line);
  else if (!c->pattern) zero(p, to, line);
  else {
    const uint64_t all = UINT64_C(0x0101010101010101) * (uint64_t)(c->pattern & 255);
    fl_val_store(p, to, fl_kexpr_int(p->a, to.type->scalar, (int64_t)all), 0, line);
  }
}

static void elements(fl_front *p, const copied *c, fl_kexpr *bytes, int32_t line) {
  const int64_t each = fl_ctype_size(c->type);
  bytes = whole(p, fl_val_convert(p, bytes, FL_KT_I64), each, line);
  fl_kexpr *n = bytes ? fl_arith(p, FL_KO_DIV, bytes, fl_kexpr_int(p->a, FL_KT_I64, each), line)
                      : NULL;
  if (p->failed || !n) return;
  if (n->kind == FL_KX_CONST && n->value.i <= WRITTEN_OUT) {
    for (int64_t i = 0; i < n->value.i && !p->failed; i++)
      element(p, c, fl_kexpr_int(p->a, FL_KT_I64, i), line);
    return;
  }
  fl_kexpr *i;
  fl_kstmt *loop = fl_emit_count(p, 0, fl_val_stable(p, n), &i, line);
  if (!loop) return;
  fl_kblock *out = fl_front_into(p, &loop->body);
  element(p, c, i, line);
  fl_front_into(p, out);
}

static fl_cvalue as(fl_front *p, const fl_ctype *t, fl_cvalue v, int32_t line) {
  return fl_cast_to(p, fl_ctype_pointer(p->a, t, v.is_const), v, line);
}

/* Copies 'bytes' bytes as elements of the destination's type, or of the source's type if the
** destination is bytes; as single bytes if both are bytes, or 'bytes' is a constant that is not a
** multiple of that type's size. */
static void copy(fl_front *p, copied *c, fl_kexpr *bytes, int32_t line) {
  const fl_ctype *t = is_byte(c->to.type) ? c->from.type : c->to.type;
  if (is_byte(t) || !divides(t, bytes)) t = fl_ctype_scalar(FL_KT_U8);
  c->type = t;
  c->to = as(p, t, c->to, line);
  c->from = as(p, t, c->from, line);
  if (!p->failed) elements(p, c, bytes, line);
}

static void set(fl_front *p, copied *c, fl_kexpr *value, fl_kexpr *bytes, int32_t line) {
  int64_t n;
  const int element = fl_ctype_element(c->to.type, &n), size = fl_kt_size(element);
  if (value->kind != FL_KX_CONST || !fl_kt_is_int(value->type)) {
    fl_refuse(p, line, "memset to a value that is not constant" FL_DO ": write a loop");
    return;
  }
  c->pattern = (int)(value->value.i & 255);
  c->type = c->to.type;
  if (c->pattern || !divides(c->type, bytes)) c->type = fl_ctype_scalar(fl_kt_unsigned(size));
  if (!divides(c->type, bytes)) c->type = fl_ctype_scalar(FL_KT_U8);
  c->to = as(p, c->type, c->to, line);
  if (!p->failed) elements(p, c, bytes, line);
}

int fl_call_bytes(fl_front *p, const fl_ktok *t, const fl_cvalue *args, int n, fl_cvalue *out) {
  const int copies = fl_ktok_is(t, "memcpy");
  if (!copies && !fl_ktok_is(t, "memset")) return 0;
  *out = fl_val_none();
  if (n != 3) {
    fl_refuse(p, t->line, "%.*s takes 3 arguments", (int)t->n, t->text);
    return 1;
  }
  copied c = { .to = fl_val_pointer(p, args[0], t->line) };
  fl_kexpr *bytes = fl_val_scalar(p, args[2], t->line), *value = NULL;
  if (copies) c.from = fl_val_pointer(p, args[1], t->line);
  else value = fl_val_scalar(p, args[1], t->line);
  if (p->failed || !bytes || !(copies || value)) return 1;
  if (!fl_kt_is_int(bytes->type))
    fl_refuse(p, t->line, "%.*s: a number of bytes is an integer", (int)t->n, t->text);
  else if (copies) copy(p, &c, bytes, t->line);
  else set(p, &c, value, bytes, t->line);
  return 1;
}
