/*
** Memory viewed as numbers of another type: "*(int4 *)x" over halves, "(half *)&v" of an int4. A
** LINEAR lvalue (front.h) is in a variable of one type; its scalars are assembled from elements of
** that type, or are parts of one. A number that is assembled and taken apart again gives its
** original parts, so that a value copied through a wider type keeps its gradient.
**
** The elements of an object are stored as the type that the kernel reads: when a body is read,
** objects that are accessed as another type are noted (fl_view_note), and the body is read again
** with such objects as arrays of that type. The notes are found by name and by the place in the
** text. Halves must hold real numbers: if other bits are stored in them, they become integers.
*/
#include "kernel/front/forms.h"
#include "tensor/dtype.h"
#include <assert.h>
#include <string.h>

enum { MOST_COPIED = 16 };       /* elements that fl_view_copy copies one by one */

/* ---- what an object is made of --------------------------------------------------------------- */

struct fl_kstored {
  int64_t at;                    /* token and name of the declaration */
  const char *name;
  uint8_t type, fixed;           /* type of its elements; fixed: they keep this type however they
                                 ** are accessed */
  struct fl_kstored *next;
};
/* Where an object was declared, and as what: in fl_kvar.note of its variables. */
typedef struct origin { int64_t at; const char *name; const fl_ctype *type; } origin;

static fl_kstored *find(const fl_front *p, int64_t at, const char *name) {
  fl_kstored *s = p->stored;
  while (s && (s->at != at || strcmp(s->name, name))) s = s->next;
  return s;
}

int fl_view_stored(const fl_front *p, const char *name) {
  const fl_kstored *s = find(p, p->at, name);
  return s ? s->type : FL_KT_VOID;
}

void fl_view_settle(fl_front *p, const fl_ctype *t, const char *name, int32_t var, int32_t n) {
  origin *h = fl_karena_new(p->a, sizeof *h);
  if (!h) return;
  *h = (origin){ p->at, name, t };
  for (int32_t i = var; i < var + n; i++) p->f->vars[i].note = h;
}

fl_cvalue fl_view_chosen(fl_front *p, int type, int32_t line) {
  static const char name[] = "chosen";
  const fl_ctype *t = fl_ctype_scalar(type);
  if (fl_view_stored(p, name) != FL_KT_VOID) return fl_decl_object(p, t, name, line);
  const int var = fl_front_temp(p, type, line);
  if (var < 0) return fl_val_none();
  fl_view_settle(p, t, name, var, 1);
  return (fl_cvalue){ .kind = FL_V_PLACE, .type = t, .var = var };
}

static int is_byte(int type) { return type == FL_KT_I8 || type == FL_KT_U8; }

/* Should an object with elements of type 'now' be read with elements of type 'want'? It should if
** 'want' is smaller, or if it has the same size and is real while 'now' is an integer type. If
** 'now' is still the declared type, it also should if 'want' is larger, and 'now' is bytes or
** 'want' is real and 'now' is not. */
static int is_better(int want, int now, int declared) {
  const int a = fl_kt_size(want), b = fl_kt_size(now),
            real = fl_kt_is_float(want) && !fl_kt_is_float(now);
  return a < b || (a == b && real) || (declared && a > b && (real || is_byte(now)));
}

static void note(fl_front *p, const origin *h, int type, int fixed) {
  fl_kstored *s = find(p, h->at, h->name);
  if (!s) {
    s = fl_karena_new(p->a, sizeof *s);
    if (!s) return;
    *s = (fl_kstored){ .at = h->at, .name = h->name, .next = p->stored };
    p->stored = s;
  }
  s->type = (uint8_t)type;
  s->fixed = (uint8_t)fixed;
  p->restored = 1;
}

int fl_view_note(fl_front *p, int32_t var, int want, int leaf) {
  const origin *h = p->as_declared ? NULL : p->f->vars[var].note;
  int64_t n;
  if (!h || want <= FL_KT_BOOL || fl_ctype_size(h->type) % fl_kt_size(want)) return 0;
  const int declared = fl_ctype_element(h->type, &n);
  const fl_kstored *s = find(p, h->at, h->name);
  const int now = s ? s->type : declared;
  const fl_ctype *of = fl_ctype_innermost(h->type);
  if (declared <= FL_KT_BOOL || (s && s->fixed)) return 0;
  if (leaf == FL_VIEW_CAST && !fl_kt_is_float(want) && fl_kt_size(want) < fl_kt_size(now))
    want = declared;               /* small integers are read as parts of the declared elements */
  else if (of->kind == FL_C_SCALAR && fl_kt_size(want) == fl_kt_size(now)) return 0;
  if (leaf && !s && fl_kt_size(want) > fl_kt_size(now) && !is_better(want, now, 1)) want = now;
  if (!(leaf && !s) && !is_better(want, now, !s)) return 0;
  note(p, h, want, 0);
  return 1;
}

int fl_view_array(fl_front *p, int32_t var) {
  const origin *h = p->as_declared ? NULL : p->f->vars[var].note;
  int64_t n;
  const int element = h ? fl_ctype_element(h->type, &n) : FL_KT_VOID;
  if (element == FL_KT_VOID || find(p, h->at, h->name)) return 0;
  note(p, h, element, 0);
  return 1;
}

/* Called when an element of the object of 'var' is set in part, or a half is set to bits that were
** not a number before, which an element of the half type might not keep. If the object has other
** elements than declared, requests elements of 'type' instead, which are then fixed. */
static void note_bits(fl_front *p, int32_t var, int type) {
  const origin *h = p->as_declared ? NULL : p->f->vars[var].note;
  const fl_kstored *s = h ? find(p, h->at, h->name) : NULL;
  if (s && !s->fixed) note(p, h, type, 1);
}

/* ---- bits ------------------------------------------------------------------------------------ */

static fl_kexpr *call(fl_front *p, int op, int type, fl_kexpr *x) {
  return x ? fl_kexpr_call(p->a, op, type, 1, &x) : NULL;
}

/* The bits of e as a number of type U64 if e has 64 bits, else U32, whose other bits are 0. */
static fl_kexpr *raw_of(fl_front *p, fl_kexpr *e) {
  if (!e) return NULL;
  switch (e->type) {
    case FL_KT_F64: return fl_val_convert(p, call(p, FL_KB_DOUBLE_BITS, FL_KT_I64, e), FL_KT_U64);
    case FL_KT_F32: return call(p, FL_KB_FLOAT_UBITS, FL_KT_U32, e);
    case FL_KT_F16: return call(p, FL_KB_HALF_BITS, FL_KT_U32, fl_val_convert(p, e, FL_KT_F32));
    case FL_KT_BF16: return call(p, FL_KB_BF16_BITS, FL_KT_U32, fl_val_convert(p, e, FL_KT_F32));
    case FL_KT_I64: case FL_KT_U64: return fl_val_convert(p, e, FL_KT_U64);
    case FL_KT_I8: e = fl_val_convert(p, e, FL_KT_U8); break;
    case FL_KT_I16: e = fl_val_convert(p, e, FL_KT_U16); break;
    default: break;
  }
  return fl_val_convert(p, e, FL_KT_U32);
}

static fl_kexpr *of_raw(fl_front *p, fl_kexpr *e, int type) {
  const fl_kexpr *of = e;
  if (!e) return NULL;
  while (of->kind == FL_KX_CALL && of->op == FL_KB_FLOAT_UBITS) {
    if (of->x[0]->type == type) return of->x[0];
    break;
  }
  switch (type) {
    case FL_KT_F64: return call(p, FL_KB_BITS_DOUBLE, type, fl_val_convert(p, e, FL_KT_I64));
    case FL_KT_F32: return call(p, FL_KB_UBITS_FLOAT, type, fl_val_convert(p, e, FL_KT_U32));
    case FL_KT_F16: case FL_KT_BF16:
      e = call(p, type == FL_KT_F16 ? FL_KB_BITS_HALF : FL_KB_BITS_BF16, FL_KT_F32,
               fl_val_convert(p, e, FL_KT_U32));
      return fl_val_convert(p, e, type);
    default: return fl_val_convert(p, e, type);
  }
}

/* ---- a number in parts ----------------------------------------------------------------------- */

static int is_bits(const fl_kexpr *e) {
  return e->kind == FL_KX_CALL &&
         (e->op == FL_KB_FLOAT_BITS || e->op == FL_KB_FLOAT_UBITS || e->op == FL_KB_BITS_FLOAT ||
          e->op == FL_KB_UBITS_FLOAT || e->op == FL_KB_DOUBLE_BITS || e->op == FL_KB_BITS_DOUBLE);
}

/* e without conversions that keep the bits. */
static fl_kexpr *peel(fl_kexpr *e) {
  while (is_bits(e) || (e->kind == FL_KX_CAST && fl_kt_is_int(e->type) && e->type != FL_KT_BOOL &&
                        fl_kt_is_int(e->x[0]->type) &&
                        fl_kt_size(e->type) == fl_kt_size(e->x[0]->type)))
    e = e->x[0];
  return e;
}

static int is_shift(const fl_kexpr *e) {
  return e->kind == FL_KX_BINARY && e->op == FL_KO_SHL && e->x[1]->kind == FL_KX_CONST;
}

/* A number n such that only the lowest n bits of e can be set. */
static int bits_in(const fl_kexpr *e) {
  const int all = 8 * fl_kt_size(e->type);
  int n = all;
  if (e->kind == FL_KX_CAST && fl_kt_is_int(e->x[0]->type) && !fl_ktypes[e->x[0]->type].is_signed)
    n = bits_in(e->x[0]);
  else if (e->kind == FL_KX_CALL && (e->op == FL_KB_HALF_BITS || e->op == FL_KB_BF16_BITS)) n = 16;
  else if (is_shift(e)) n = bits_in(e->x[0]) + (int)(e->x[1]->value.i & 63);
  else if (e->kind == FL_KX_BINARY && e->op == FL_KO_OR) {
    const int a = bits_in(e->x[0]), b = bits_in(e->x[1]);
    n = a > b ? a : b;
  }
  return n < all ? n : all;
}

/* The number of 'type' from whose bits e was made, or the lowest bits of e were; NULL: there is
** none. */
static fl_kexpr *whole(fl_kexpr *e, int type) {
  const int size = fl_kt_size(type);
  for (;;) {
    if (e->type == type) return e;
    const int half = e->kind == FL_KX_CALL &&
                     e->op == (type == FL_KT_F16 ? FL_KB_HALF_BITS : FL_KB_BF16_BITS);
    if (half && fl_kt_is_float(type) && e->x[0]->kind == FL_KX_CAST && e->x[0]->x[0]->type == type)
      return e->x[0]->x[0];
    const int cast = e->kind == FL_KX_CAST && fl_kt_is_int(e->type) &&
                     fl_kt_is_int(e->x[0]->type) && fl_kt_size(e->x[0]->type) >= size;
    if (!cast && !is_bits(e)) return NULL;
    e = e->x[0];
  }
}

/* The bits of e from 'from' on as the number of 'type' that they came from. NULL: they did not come
** from a number. */
static fl_kexpr *field(fl_kexpr *e, int from, int type) {
  const int n = 8 * fl_kt_size(type);
  for (;;) {
    e = peel(e);
    fl_kexpr *w = from ? NULL : whole(e, type);
    if (w && bits_in(e) <= n) return w;
    if (e->kind == FL_KX_CAST && fl_kt_is_int(e->x[0]->type) && e->type != FL_KT_BOOL &&
        !fl_ktypes[e->x[0]->type].is_signed && from + n <= 8 * fl_kt_size(e->x[0]->type)) {
      e = e->x[0];
      continue;
    }
    if (e->kind != FL_KX_BINARY || e->op != FL_KO_OR || !is_shift(peel(e->x[1]))) return NULL;
    fl_kexpr *high = peel(e->x[1]);
    const int at = (int)high->x[1]->value.i;
    if (from + n <= at) e = e->x[0];
    else if (from >= at && bits_in(e->x[0]) <= at) e = high->x[0], from -= at;
    else return NULL;
  }
}

/* The bits of a constant from bit 'from' on, as a number of 'type'; NULL: they are a NaN, or the
** constant is an f16 or bf16. */
static fl_kexpr *constant_part(fl_front *p, const fl_kexpr *e, int from, int type) {
  uint64_t u = (uint64_t)e->value.i;
  const float f = (float)e->value.d;
  uint32_t low;
  memcpy(&low, &f, sizeof low);
  if (e->type == FL_KT_F64) memcpy(&u, &e->value.d, sizeof u);
  else if (e->type == FL_KT_F32) u = low;
  else if (fl_kt_is_float(e->type)) return NULL;
  u >>= from;
  double d;
  float g;
  low = (uint32_t)u;
  memcpy(&g, &low, sizeof g);
  memcpy(&d, &u, sizeof d);
  switch (type) {
    case FL_KT_F32: d = (double)g; break;
    case FL_KT_F16: d = (double)fl_f16_to_f32((uint16_t)u); break;
    case FL_KT_BF16: d = (double)fl_bf16_to_f32((uint16_t)u); break;
    case FL_KT_F64: break;
    default: return fl_val_convert(p, fl_kexpr_int(p->a, FL_KT_U64, (int64_t)u), type);
  }
  return d == d ? fl_kexpr_float(p->a, type, d) : NULL;
}

/* The bits of e from 'from' on, if they already are a number of 'type'; NULL: they are not. */
static fl_kexpr *known_part(fl_front *p, fl_kexpr *e, int from, int type) {
  e = peel(e);
  if (e->kind == FL_KX_CONST) return constant_part(p, e, from, type);
  if (e->kind == FL_KX_SELECT) {
    fl_kexpr *a = known_part(p, e->x[1], from, type), *b = known_part(p, e->x[2], from, type);
    return a && b ? fl_front_check(p, fl_kexpr_select(p->a, e->x[0], a, b)) : NULL;
  }
  return field(e, from, type);
}

/* The bits of e from 'from' on as a number of 'type': as known_part gives it; if they are not such
** a number already, it is made from them, and *real becomes 0. */
static fl_kexpr *part_of(fl_front *p, fl_kexpr *e, int from, int type, int *real) {
  fl_kexpr *k = e ? known_part(p, e, from, type) : NULL;
  if (k || !e) return k;
  *real = 0;
  fl_kexpr *raw = raw_of(p, e);
  return of_raw(p, from ? fl_val_with(p, FL_KO_SHR, raw, from) : raw, type);
}

/* ---- reading and writing --------------------------------------------------------------------- */

static int own_size(const fl_front *p, const fl_cvalue *v) {
  const int size = fl_kt_size(p->f->vars[v->var].type);
  return size ? size : 1;
}

static int unit_of(const fl_front *p, const fl_cvalue *v) {
  return v->unit ? v->unit : own_size(p, v);
}

int64_t fl_view_units(fl_front *p, const fl_cvalue *v, const fl_ctype *t, int32_t line) {
  int64_t n;
  const int bytes = t->kind != FL_C_VOID && own_size(p, v) == 1;
  if (bytes || fl_ctype_element(t, &n) != FL_KT_VOID) return fl_ctype_size(t) / unit_of(p, v);
  if (t->kind == FL_C_VOID && t != fl_ctype_void())
    fl_refuse(p, line, "a texture is read by tex1Dfetch");
  else
    fl_refuse(p, line, "memory of type '%s': its members are not all of one type",
              fl_ctype_text(p->a, t));
  return 1;
}

int64_t fl_view_units_in(const fl_front *p, const fl_cvalue *v, int64_t bytes) {
  return bytes / unit_of(p, v);
}

static void set_unit(fl_front *p, fl_cvalue *v, int unit) {
  const int now = unit_of(p, v);
  assert(unit > 0);
  if (unit >= now) return;
  if (v->idx) v->idx = fl_val_with(p, FL_KO_MUL, v->idx, now / unit);
  v->unit = (uint8_t)unit;
}

/* e / k if e is known to be a multiple of k; else NULL. */
static fl_kexpr *divided(fl_front *p, fl_kexpr *e, int64_t k) {
  if (!e || k == 1) return e;
  if (e->kind == FL_KX_CONST)
    return e->value.i % k ? NULL : fl_kexpr_int(p->a, FL_KT_I64, e->value.i / k);
  if (e->kind != FL_KX_BINARY) return NULL;
  if (e->op == FL_KO_MUL && e->x[1]->kind == FL_KX_CONST && e->x[1]->value.i % k == 0)
    return e->x[1]->value.i == k ? e->x[0]
                                 : fl_val_with(p, FL_KO_MUL, e->x[0], e->x[1]->value.i / k);
  if (e->op != FL_KO_ADD && e->op != FL_KO_SUB) return NULL;
  fl_kexpr *a = divided(p, e->x[0], k), *b = a ? divided(p, e->x[1], k) : NULL;
  return b ? fl_front_check(p, fl_kexpr_binary(p->a, e->op, a, b)) : NULL;
}

void fl_view_meet(fl_front *p, fl_cvalue *x, fl_cvalue *y) {
  if (x->null || y->null || !x->linear || !y->linear || x->var != y->var) return;
  set_unit(p, x, unit_of(p, y));
  set_unit(p, y, unit_of(p, x));
}

void fl_view_as(fl_front *p, fl_cvalue *v, const fl_ctype *to) {
  int64_t n;
  const int element = fl_ctype_element(to, &n), size = element ? fl_kt_size(element) : 1,
            own = own_size(p, v), unit = size < own ? size : own, now = unit_of(p, v);
  set_unit(p, v, size);
  fl_kexpr *i = unit > now ? divided(p, v->idx, unit / now) : NULL;
  if (!i && (unit <= now || v->idx)) return;
  v->idx = i;
  v->unit = (uint8_t)(unit == own ? 0 : unit);
}

/* The index of the element in which v begins; *bits: its offset there, in bits (NULL: 0). */
static fl_kexpr *element_of(fl_front *p, const fl_cvalue *v, fl_kexpr **bits) {
  fl_kexpr *i = fl_val_at(p, v);
  const int own = own_size(p, v), unit = unit_of(p, v);
  *bits = NULL;
  if (unit == own) return i;
  if (v->type->kind == FL_C_SCALAR && fl_kt_size(v->type->scalar) < own)
    *bits = fl_val_with(p, FL_KO_MUL, fl_val_with(p, FL_KO_REM, i, own / unit), 8 * unit);
  fl_kexpr *whole_ones = divided(p, i, own / unit);
  return whole_ones ? whole_ones : fl_val_with(p, FL_KO_DIV, i, own / unit);
}

fl_kexpr *fl_view_element(fl_front *p, const fl_cvalue *v) {
  fl_kexpr *bits;
  return element_of(p, v, &bits);
}

static fl_kexpr *load(fl_front *p, int32_t var, fl_kexpr *i, int64_t by, int32_t line) {
  fl_kexpr *e = by ? fl_val_with(p, FL_KO_ADD, i, by) : i;
  e = e ? fl_kexpr_load(p->f, var, e) : NULL;
  if (e) e->line = line;
  return e;
}

fl_kexpr *fl_view_read(fl_front *p, const fl_cvalue *v, int32_t line) {
  const int type = v->type->scalar, own = p->f->vars[v->var].type, size = fl_kt_size(type),
            step = fl_kt_size(own);
  if (!p->restored && fl_kt_is_float(type)) fl_view_note(p, v->var, type, 0);
  fl_kexpr *bits, *i = element_of(p, v, &bits);
  if (size <= step) {
    fl_kexpr *e = load(p, v->var, i, 0, line);
    if (size == step || !e) return fl_view_bits(p, e, type);
    e = raw_of(p, e);
    fl_kexpr *by = bits ? fl_val_convert(p, bits, FL_KT_I32) : NULL;
    return of_raw(p, by && e ? fl_kexpr_binary(p->a, FL_KO_SHR, e, by) : e, type);
  }
  fl_kexpr *r = NULL;
  if (i && i->kind != FL_KX_VAR) i = fl_val_stable(p, i);
  for (int k = 0; k < size / step; k++) {
    fl_kexpr *e = raw_of(p, load(p, v->var, i, k, line));
    e = e && size == 8 ? fl_val_convert(p, e, FL_KT_U64) : e;
    e = k ? fl_val_with(p, FL_KO_SHL, e, 8 * step * k) : e;
    r = r && e ? fl_kexpr_binary(p->a, FL_KO_OR, r, e) : e;
    if (r) r->line = line;
  }
  return of_raw(p, r, type);
}

static void put(fl_front *p, int32_t var, fl_kexpr *i, fl_kexpr *e, int32_t line) {
  fl_kstmt *s = i && e && !p->failed ? fl_kstmt_store(p->f, p->b, var, i, e) : NULL;
  if (s) s->line = line;
  fl_front_check(p, e);
}

/* Stores a part of an element, whose other parts may be written by other threads: one atomic clears
** the part, another one sets the new bits. */
static void part_of_memory(fl_front *p, int32_t var, fl_kexpr *i, fl_kexpr *mask, fl_kexpr *now,
                           int32_t line) {
  fl_kexpr *rest = fl_front_check(p, fl_kexpr_unary(p->a, FL_KO_INVERT, mask));
  i = fl_val_stable(p, i);
  now = fl_val_stable(p, fl_front_check(p, now));
  for (int k = 0; k < 2 && !p->failed && rest && now && i; k++) {
    fl_kstmt *s = fl_kstmt_atomic(p->f, p->b, k ? FL_KA_OR : FL_KA_AND, FL_KM_FREE, var, i,
                                  k ? now : rest, -1);
    if (!s) return;
    s->line = line;
    if (now->type != p->f->vars[var].type) s->as = now->type;
  }
}

/* Stores a part of an element; the rest of it is kept. In memory that other threads may write, an
** element of less than 4 bytes is refused. */
static void put_within(fl_front *p, const fl_cvalue *to, fl_kexpr *e, int32_t line) {
  const int own = p->f->vars[to->var].type, wide = fl_kt_size(own) == 8 ? FL_KT_U64 : FL_KT_U32;
  const int64_t ones = (INT64_C(1) << (8 * fl_kt_size(e->type))) - 1;
  fl_kexpr *bits, *i = fl_val_stable(p, element_of(p, to, &bits));
  note_bits(p, to->var, e->type);
  const int memory = p->f->vars[to->var].kind != FL_KV_ARRAY;
  if (memory && fl_kt_size(own) < 4) {
    fl_refuse(p, line, "a part of an element of '%s' is written, which other threads may write"
              FL_DO ": declare it of that type", p->f->vars[to->var].source);
    return;
  }
  fl_kexpr *by = fl_val_stable(p, fl_val_convert(p, bits, FL_KT_I32));
  fl_kexpr *mask = by ? fl_kexpr_binary(p->a, FL_KO_SHL, fl_kexpr_int(p->a, wide, ones), by) : NULL;
  fl_kexpr *now = fl_val_convert(p, raw_of(p, e), wide);
  if (!mask || !now) return;
  if (memory) {
    part_of_memory(p, to->var, i, mask, fl_kexpr_binary(p->a, FL_KO_SHL, now, by), line);
    return;
  }
  fl_kexpr *old = raw_of(p, load(p, to->var, i, 0, line));
  if (!old) return;
  old = fl_kexpr_binary(p->a, FL_KO_AND, old, fl_kexpr_unary(p->a, FL_KO_INVERT, mask));
  now = fl_kexpr_binary(p->a, FL_KO_SHL, now, by);
  put(p, to->var, i, of_raw(p, fl_kexpr_binary(p->a, FL_KO_OR, old, now), own), line);
}

/* The variable that e reads, if e is nothing but that; else -1. */
static int32_t read_from(const fl_kexpr *e) {
  return e->kind == FL_KX_VAR || e->kind == FL_KX_LOAD ? e->var : -1;
}

void fl_view_write(fl_front *p, const fl_cvalue *to, fl_kexpr *e, int32_t line) {
  const int own = p->f->vars[to->var].type, step = fl_kt_size(own);
  int real = 1;
  if (!e || p->failed) return;
  const int n = fl_kt_size(e->type) / step;
  const int part_of_shared = !n && p->f->vars[to->var].kind == FL_KV_SHARED;
  if (!p->restored && (fl_kt_is_float(e->type) || part_of_shared))
    fl_view_note(p, to->var, e->type, 0);
  if (!n) { put_within(p, to, e, line); return; }
  const int32_t from = read_from(peel(e));
  const int known = known_part(p, e, 0, own) != NULL;
  if (!known && from >= 0 && fl_kt_is_float(own)) fl_view_note(p, from, own, 0);
  if (n > 1 && !known) e = fl_val_stable(p, e);
  fl_kexpr *bits, *i = element_of(p, to, &bits), *part[8];
  if (n > 1) i = fl_val_stable(p, i);
  for (int k = 0; k < n; k++) {
    part[k] = part_of(p, e, 8 * step * k, own, &real);
    if (n > 1) part[k] = fl_val_stable(p, part[k]);
  }
  if (!real && fl_kt_is_half(own) && !p->restored) note_bits(p, to->var, fl_kt_unsigned(step));
  for (int k = 0; k < n; k++)
    put(p, to->var, k ? fl_val_with(p, FL_KO_ADD, i, k) : i, part[k], line);
}

/* Is v LINEAR, and not made of numbers of the type of its variable's elements? */
static int is_view(const fl_front *p, const fl_cvalue *v) {
  int64_t n;
  return v->linear && fl_ctype_element(v->type, &n) != p->f->vars[v->var].type;
}

int fl_view_copy(fl_front *p, const fl_cvalue *to, const fl_cvalue *from, int32_t line) {
  if (p->failed || to->kind != FL_V_PLACE || from->kind != FL_V_PLACE || from->torn ||
      to->type->is_volatile || !fl_ctype_same(to->type, from->type))
    return 0;
  const int a = is_view(p, to), b = is_view(p, from),
            own = p->f->vars[a ? to->var : from->var].type;
  if (!a && !b) return 0;
  const int same = to->linear && from->linear &&
                   p->f->vars[to->var].type == p->f->vars[from->var].type;
  if (!same && fl_kt_is_float(own))
    fl_view_note(p, a ? from->var : to->var, own, a ? !from->linear : !to->linear);
  const int64_t n = fl_ctype_used(to->type) / fl_kt_size(own);
  fl_kexpr *e[MOST_COPIED];
  if (fl_ctype_used(to->type) % fl_kt_size(own)) return 0;
  if (!same || !n || n > MOST_COPIED || unit_of(p, to) > fl_kt_size(own)) return 0;
  fl_kexpr *i = fl_val_stable(p, fl_view_element(p, from)),
           *k = fl_val_stable(p, fl_view_element(p, to));
  for (int j = 0; j < n; j++) {
    e[j] = load(p, from->var, i, j, line);
    if (n > 1 && to->var == from->var) e[j] = fl_val_stable(p, e[j]);
  }
  for (int j = 0; j < n; j++) put(p, to->var, j ? fl_val_with(p, FL_KO_ADD, k, j) : k, e[j], line);
  return 1;
}

/* The real f whose sign bit changes as 'f op m' says, with its bits f; NULL: m changes more. */
static fl_kexpr *signed_as(fl_front *p, fl_kexpr *f, int op, fl_kexpr *m) {
  const int top = 8 * fl_kt_size(f->type) - 1;
  const uint64_t sign = UINT64_C(1) << top, all = sign | (sign - 1),
                 k = m->kind == FL_KX_CONST ? (uint64_t)m->value.i & all : 0;
  if (op == FL_KO_XOR && is_shift(m) && m->x[1]->value.i == top) {
    fl_kexpr *odd = fl_val_convert(p, fl_val_with(p, FL_KO_AND, m->x[0], 1), FL_KT_BOOL);
    return fl_kexpr_binary(p->a, FL_KO_MUL, f,
                           fl_kexpr_select(p->a, odd, fl_kexpr_float(p->a, f->type, -1),
                                           fl_kexpr_float(p->a, f->type, 1)));
  }
  if (k != (op == FL_KO_AND ? sign - 1 : sign)) return NULL;
  if (op == FL_KO_AND || op == FL_KO_OR) f = call(p, FL_KB_FABS, f->type, f);
  return op == FL_KO_AND ? f : fl_kexpr_unary(p->a, FL_KO_NEG, f);
}

fl_kexpr *fl_view_real(fl_front *p, fl_kexpr *e, int to) {
  fl_kexpr *of = e && !p->failed && fl_kt_is_float(to) ? peel(e) : NULL, *r = NULL;
  if (!of || of->type == to) return of;
  if (of->kind != FL_KX_BINARY || fl_kt_size(to) < 4 ||
      !(of->op == FL_KO_XOR || of->op == FL_KO_AND || of->op == FL_KO_OR)) return NULL;
  for (int i = 0; i < 2 && !r; i++) {
    fl_kexpr *f = peel(of->x[i]);
    if (f->type == to) r = signed_as(p, f, of->op, peel(of->x[1 - i]));
  }
  return fl_front_check(p, r);
}

fl_kexpr *fl_view_bits(fl_front *p, fl_kexpr *e, int to) {
  if (!e || p->failed || e->type == to) return e;
  fl_kexpr *of = fl_view_real(p, e, to);
  if (of) return of;
  if (fl_kt_size(to) == 2 && (fl_kt_is_float(to) || fl_kt_is_float(e->type)))
    return of_raw(p, raw_of(p, e), to);
  if (fl_kt_is_float(e->type)) {
    const int wide = e->type == FL_KT_F64;
    e = call(p, wide ? FL_KB_DOUBLE_BITS : FL_KB_FLOAT_BITS, wide ? FL_KT_I64 : FL_KT_I32, e);
  }
  if (fl_kt_is_float(to)) {
    const int wide = to == FL_KT_F64;
    return call(p, wide ? FL_KB_BITS_DOUBLE : FL_KB_BITS_FLOAT, to,
                fl_val_convert(p, e, wide ? FL_KT_I64 : FL_KT_I32));
  }
  return fl_val_convert(p, e, to);
}
