/* Types of the source: construction, CUDA's layout, leaves (types.h). The parser bounds their
** depth. */
#include "kernel/front/types.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>

static const fl_ctype scalars[FL_KT_COUNT] = {
#define S(t) [t] = { .kind = FL_C_SCALAR, .scalar = t }
  [FL_KT_VOID] = { .kind = FL_C_VOID },
  S(FL_KT_BOOL), S(FL_KT_I8), S(FL_KT_U8), S(FL_KT_I16), S(FL_KT_U16), S(FL_KT_I32), S(FL_KT_U32),
  S(FL_KT_I64), S(FL_KT_U64), S(FL_KT_F16), S(FL_KT_BF16), S(FL_KT_F32), S(FL_KT_F64),
#undef S
};

const fl_ctype *fl_ctype_scalar(int type) { return &scalars[type]; }

static const fl_ctype a_char = { .kind = FL_C_SCALAR, .scalar = FL_KT_I8, .other = "char" },
  longs[] = { { .kind = FL_C_SCALAR, .scalar = FL_KT_I64, .other = "long" },
              { .kind = FL_C_SCALAR, .scalar = FL_KT_U64, .other = "unsigned long" } };

const fl_ctype *fl_ctype_char(void) { return &a_char; }
const fl_ctype *fl_ctype_long(int is_unsigned) { return &longs[is_unsigned != 0]; }
int fl_ctype_is_long(const fl_ctype *t) {
  return t->other && (t->other == longs[0].other || t->other == longs[1].other);
}
int fl_ctype_is_enum(const fl_ctype *t) { return t->kind == FL_C_SCALAR && t->of; }
int fl_ctype_is_open(const fl_ctype *t) { return t->kind == FL_C_STRUCT && !t->s->size; }
const fl_ctype *fl_ctype_void(void) { return &scalars[FL_KT_VOID]; }

const fl_ctype *fl_ctype_function(void) {
  static const fl_ctype function = { .kind = FL_C_VOID, .depth = 1 };
  return &function;
}

/* cudaTextureObject_t, as a pointer. 'scalar' makes its pointee a type that differs from void. */
const fl_ctype *fl_ctype_texture(void) {
  static const fl_ctype texel = { .kind = FL_C_VOID, .scalar = FL_KT_BOOL, .depth = 1 },
                        texture = { .kind = FL_C_POINTER, .const_of = 1, .of = &texel, .depth = 2 };
  return &texture;
}

static fl_ctype *made(fl_karena *a, fl_ctype like) {
  fl_ctype *t = fl_karena_new(a, sizeof *t);
  if (t) *t = like;
  return t;
}

fl_ctype *fl_ctype_pointer(fl_karena *a, const fl_ctype *of, int const_of) {
  return made(a, (fl_ctype){ .kind = FL_C_POINTER, .depth = (uint16_t)(of->depth + 1), .of = of,
                             .const_of = (uint8_t)const_of });
}

fl_ctype *fl_ctype_array(fl_karena *a, const fl_ctype *of, int64_t count) {
  return made(a, (fl_ctype){ .kind = FL_C_ARRAY, .depth = (uint16_t)(of->depth + 1), .of = of,
                             .count = count });
}

fl_ctype *fl_ctype_enum(fl_karena *a, const char *name, const fl_ctype *of) {
  fl_ctype *t = made(a, (fl_ctype){ .kind = FL_C_SCALAR, .scalar = of->scalar, .of = of,
                                    .other = fl_karena_str(a, name, strlen(name)) });
  return t && t->other ? t : NULL;
}

const fl_ctype *fl_ctype_volatile(fl_karena *a, const fl_ctype *t) {
  if (t->is_volatile || (t->kind != FL_C_SCALAR && t->kind != FL_C_STRUCT)) return t;
  fl_ctype *v = made(a, *t);
  if (v) v->is_volatile = 1;
  return v;
}

const fl_ctype *fl_ctype_plain(fl_karena *a, const fl_ctype *t) {
  if (!t->is_volatile) return t;
  fl_ctype *v = made(a, *t);
  if (v) v->is_volatile = 0;
  return v;
}

const fl_ctype *fl_ctype_innermost(const fl_ctype *t) {
  while (t->kind == FL_C_ARRAY) t = t->of;
  return t;
}

/* ---- layout ------------------------------------------------------------------------------- */

int64_t fl_ctype_size(const fl_ctype *t) {
  switch (t->kind) {
    case FL_C_SCALAR: return fl_kt_size(t->scalar);
    case FL_C_POINTER: return 8;
    case FL_C_ARRAY: return t->count * fl_ctype_size(t->of);
    case FL_C_STRUCT: return t->s->size;
    default: return 0;
  }
}

int64_t fl_ctype_align(const fl_ctype *t) {
  t = fl_ctype_innermost(t);
  if (t->kind == FL_C_STRUCT) return t->s->align;
  return t->kind == FL_C_VOID ? 1 : fl_ctype_size(t);
}

int fl_ctype_leaves(const fl_ctype *t) {
  t = fl_ctype_innermost(t);
  return t->kind == FL_C_STRUCT ? t->s->n_leaves : 1;
}

int fl_ctype_element(const fl_ctype *t, int64_t *n) {
  *n = 1;
  for (; t->kind == FL_C_ARRAY; t = t->of) *n *= t->count;
  if (t->kind == FL_C_SCALAR) return t->scalar;
  if (t->kind != FL_C_STRUCT) return FL_KT_VOID;
  *n *= t->s->n_scalars;
  return t->s->element;
}

int fl_ctype_same(const fl_ctype *a, const fl_ctype *b) {
  for (; a != b; a = a->of, b = b->of) {
    if (a->kind != b->kind) return 0;
    if (a->kind == FL_C_STRUCT) return a->s == b->s || (a->s->width && a->s->width == b->s->width &&
                                                        a->s->element == b->s->element);
    if (a->kind == FL_C_ARRAY && a->count != b->count) return 0;
    if (a->kind != FL_C_ARRAY && a->kind != FL_C_POINTER) return a->scalar == b->scalar;
  }
  return 1;
}

int fl_ctype_like(const fl_ctype *a, const fl_ctype *b) {
  if (!fl_ctype_same(a, b)) return 0;
  for (; a->kind == FL_C_POINTER || a->kind == FL_C_ARRAY; a = a->of, b = b->of) continue;
  if (a->kind != FL_C_STRUCT || a->s == b->s) return a->other == b->other;
  return fl_kt_is_half(a->s->element) || !strcmp(a->s->name, b->s->name);      /* vectors */
}

int fl_ctype_equal(const fl_ctype *a, const fl_ctype *b) {
  if (!fl_ctype_like(a, b)) return 0;
  for (; a->kind == FL_C_POINTER || a->kind == FL_C_ARRAY; a = a->of, b = b->of)
    if (a->const_of != b->const_of) return 0;
  return a->is_volatile == b->is_volatile;
}

int fl_ctype_has_array(const fl_ctype *t) {
  if (t->kind == FL_C_ARRAY || t->kind == FL_C_POINTER) return 1;
  for (int i = 0; t->kind == FL_C_STRUCT && i < t->s->n_fields; i++)
    if (fl_ctype_has_array(t->s->fields[i].type)) return 1;
  return 0;
}

int fl_ctype_has_mutable(const fl_ctype *t) {
  t = fl_ctype_innermost(t);
  for (int i = 0; t->kind == FL_C_STRUCT && i < t->s->n_fields; i++)
    if (t->s->fields[i].is_mutable || fl_ctype_has_mutable(t->s->fields[i].type)) return 1;
  return 0;
}

int64_t fl_ctype_used(const fl_ctype *t) {
  return t->kind == FL_C_STRUCT && t->s->packing == 2 ? t->s->used : fl_ctype_size(t);
}

int fl_ctype_packing(const fl_cfield *fields, int n) {
  int least = 1;
  for (int i = 0; i < n; i++) {
    const fl_ctype *t = fl_ctype_innermost(fields[i].type);
    const fl_cstruct *s = t->kind == FL_C_STRUCT ? t->s : NULL;
    const int half = !s && t->kind == FL_C_SCALAR &&
                     (t->scalar == FL_KT_F16 || t->scalar == FL_KT_BF16);
    const int is = !s ? 1 + half : !s->width ? s->packing : strcmp(s->name, "dim3") ? 1 : 2;
    if (is == 2 || (fields[i].base && *fields[i].name)) return 2;
    if (!is) least = 0;
  }
  return least;
}

/* ---- structs --------------------------------------------------------------------------------- */

enum { MAX_LEAVES = 256, MAX_BYTES = 1 << 24 };

/* Sets element, n_scalars and the fields' 'scalar' if the struct is packed scalars of one type. */
static void find_element(fl_cstruct *s) {
  int64_t n, total = 0;
  int element = FL_KT_VOID;
  for (int i = 0; i < s->n_fields; i++) {
    const int e = fl_ctype_element(s->fields[i].type, &n);
    if (e == FL_KT_VOID || (i && e != element)) return;
    element = e;
    s->fields[i].scalar = total;
    total += n;
  }
  if (!s->n_fields || total * fl_kt_size(element) != s->size) return;
  s->element = (uint8_t)element;
  s->n_scalars = total;
}

fl_ctype *fl_ctype_struct(fl_karena *a, const char *name, fl_cfield *fields, int n, int64_t align) {
  fl_ctype *t = fl_karena_new(a, sizeof *t);
  fl_cstruct *s = fl_karena_new(a, sizeof *s);
  if (!t || !s || !name) return NULL;
  t->kind = FL_C_STRUCT;
  t->s = s;
  s->name = name;
  s->fields = fields;
  s->n_fields = n;
  s->align = align > 1 ? align : 1;
  for (int i = 0; i < n; i++) {
    const int64_t at = fl_ctype_align(fields[i].type);
    if (fields[i].type->depth >= t->depth) t->depth = (uint16_t)(fields[i].type->depth + 1);
    assert(at > 0);                /* the type is complete, which was checked when the field was
                                   ** read */
    fields[i].offset = (s->size + at - 1) / at * at;
    fields[i].leaf = s->n_leaves;
    if (!fields[i].base || fl_ctype_leaves(fields[i].type))
      s->size = fields[i].offset + (fields[i].base && *fields[i].name
                                    ? fl_ctype_used(fields[i].type)
                                    : fl_ctype_size(fields[i].type));
    s->n_leaves += fl_ctype_leaves(fields[i].type);
    if (at > s->align) s->align = at;
    if (s->size > MAX_BYTES || s->n_leaves > MAX_LEAVES) return NULL;
  }
  s->used = s->size;
  s->size = (s->size + s->align - 1) / s->align * s->align;
  if (!s->size) s->size = 1;
  find_element(s);
  return t;
}

fl_ctype *fl_ctype_open(fl_karena *a, const char *name) {
  fl_ctype *t = fl_ctype_struct(a, name, NULL, 0, 1);
  if (t) t->s->size = 0;
  return t;
}

const fl_cfield *fl_cstruct_field(const fl_cstruct *s, const char *name, int32_t n) {
  for (int i = 0; i < s->n_fields; i++)
    if (strlen(s->fields[i].name) == (size_t)n && !memcmp(s->fields[i].name, name, (size_t)n))
      return &s->fields[i];
  return NULL;
}

/* ---- names ----------------------------------------------------------------------------------- */

enum { LONG = FL_KT_COUNT, ULONG };          /* in these tables, beside fl_ktype: fl_ctype_long */
static const struct { const char *name; uint8_t type; } words[] = {
  { "float", FL_KT_F32 }, { "double", FL_KT_F64 }, { "half", FL_KT_F16 }, { "__half", FL_KT_F16 },
  { "__nv_bfloat16", FL_KT_BF16 }, { "nv_bfloat16", FL_KT_BF16 }, { "bfloat16", FL_KT_BF16 },
  { "bf16", FL_KT_BF16 }, { "bool", FL_KT_BOOL }, { "int8_t", FL_KT_I8 }, { "uint8_t", FL_KT_U8 },
  { "int16_t", FL_KT_I16 }, { "uint16_t", FL_KT_U16 }, { "int32_t", FL_KT_I32 },
  { "uint32_t", FL_KT_U32 }, { "int64_t", LONG }, { "uint64_t", ULONG },
  { "size_t", ULONG }, { "ptrdiff_t", LONG }, { "ssize_t", LONG },
  { "uchar", FL_KT_U8 }, { "ushort", FL_KT_U16 }, { "uint", FL_KT_U32 }, { "ulong", ULONG },
  { "intptr_t", LONG }, { "uintptr_t", ULONG },
  { "cudaStream_t", FL_KT_U64 }, { "cudaEvent_t", FL_KT_U64 },      /* handles of the host */
};

static const struct { const char *name; uint8_t type; } families[] = {
  { "float", FL_KT_F32 }, { "double", FL_KT_F64 }, { "int", FL_KT_I32 }, { "uint", FL_KT_U32 },
  { "char", FL_KT_I8 }, { "uchar", FL_KT_U8 }, { "short", FL_KT_I16 }, { "ushort", FL_KT_U16 },
  { "long", LONG }, { "ulong", ULONG }, { "longlong", FL_KT_I64 },
  { "ulonglong", FL_KT_U64 }, { "__half", FL_KT_F16 }, { "half", FL_KT_F16 },
  { "__nv_bfloat16", FL_KT_BF16 }, { "nv_bfloat16", FL_KT_BF16 },
};

static const fl_ctype *number(int type) {
  return type >= LONG ? fl_ctype_long(type == ULONG) : fl_ctype_scalar(type);
}

static const fl_ctype *vector(fl_karena *a, const char *name, int type, int width) {
  static const char *const parts[] = { "x", "y", "z", "w" };
  fl_cfield *f = fl_karena_new(a, (size_t)width * sizeof *f);
  for (int i = 0; f && i < width; i++) {
    f[i].name = parts[i];
    f[i].type = number(type);
  }
  const int64_t bytes = width * fl_ctype_size(number(type));
  fl_ctype *t = f ? fl_ctype_struct(a, name, f, width, width == 3 || width == 1 ? 1 : bytes > 16
                                    ? 16 : bytes)
                  : NULL;
  if (t) t->s->width = (uint8_t)width;
  return t;
}

const fl_ctype *fl_ctype_named(fl_karena *a, const char *name, int32_t n) {
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strlen(words[i].name) == (size_t)n && !memcmp(words[i].name, name, (size_t)n))
      return number(words[i].type);
  if (n == 19 && !memcmp(name, "cudaTextureObject_t", 19)) return fl_ctype_texture();
  if (n == 4 && !memcmp(name, "dim3", 4)) return vector(a, "dim3", FL_KT_U32, 3);
  const int width = name[n - 1] - '0';
  if (width < 1 || width > 4) return NULL;
  for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
    const size_t k = strlen(families[i].name);
    if (k + 1 != (size_t)n || memcmp(families[i].name, name, k)) continue;
    if (families[i].type < LONG && fl_kt_is_half(families[i].type) && width != 2)
      return NULL;
    return vector(a, fl_karena_str(a, name, (size_t)n), families[i].type, width);
  }
  return NULL;
}

/* ---- leaves ---------------------------------------------------------------------------------- */

typedef struct leaves { fl_karena *a; fl_kfield *out; int n; fl_kfield now; } leaves;

static int walk(leaves *l, const fl_ctype *t, const char *path, int64_t offset) {
  const fl_kfield saved = l->now;
  int ok = 1;
  if (t->kind == FL_C_ARRAY) {
    if (l->now.rank == FL_K_MAX_RANK) return 0;
    l->now.dims[l->now.rank] = t->count;
    l->now.stride[l->now.rank++] = fl_ctype_size(t->of);
    l->now.count *= t->count;
    ok = walk(l, t->of, path, offset);
  } else if (t->kind == FL_C_STRUCT) {
    for (int i = 0; ok && i < t->s->n_fields; i++) {
      const fl_cfield *f = &t->s->fields[i];
      const char *p = f->base ? path
                              : fl_karena_printf(l->a, "%s%s%s", path, *path ? "." : "", f->name);
      ok = p && walk(l, f->type, p, offset + f->offset);
    }
  } else {
    fl_kfield *f = &l->out[l->n++];
    const fl_ctype *element = t;
    *f = l->now;
    f->path = path;
    f->offset = offset;
    f->is_pointer = t->kind == FL_C_POINTER;
    f->is_const = t->const_of;
    if (f->is_pointer) element = t->of;
    int64_t n;
    f->type = (uint8_t)fl_ctype_element(element, &n);
    if (f->is_pointer && !f->type && element->kind != FL_C_POINTER) f->type = FL_KT_U8;
  }
  l->now = saved;
  return ok;
}

int fl_ctype_fields(fl_karena *a, const fl_ctype *t, const char *prefix, fl_kfield *out) {
  leaves l = { .a = a, .out = out, .now = { .count = 1 } };
  return walk(&l, t, prefix, 0);
}

const char *fl_ctype_text(fl_karena *a, const fl_ctype *t) {
  switch (t->kind) {
    case FL_C_SCALAR: return t->other ? t->other : fl_ktypes[t->scalar].c;
    /* the prefix of the library's names is left out (library.c) */
    case FL_C_STRUCT: return strncmp(t->s->name, "fl_cg_", 6) ? t->s->name : t->s->name + 6;
    case FL_C_POINTER: {
      if (fl_ctype_same(t, fl_ctype_texture())) return "cudaTextureObject_t";
      const char *of = t->of->kind == FL_C_POINTER ? "pointer" : fl_ctype_text(a, t->of);
      return fl_karena_printf(a, "%s%s *", t->const_of ? "const " : "", of ? of : "?");
    }
    case FL_C_ARRAY: {
      const fl_ctype *e = t;
      const char *sizes = "";
      for (; e->kind == FL_C_ARRAY && sizes; e = e->of)
        sizes = fl_karena_printf(a, "%s[%lld]", sizes, (long long)e->count);
      const char *of = fl_ctype_text(a, e);
      return fl_karena_printf(a, "%s%s", of ? of : "?", sizes ? sizes : "[]");
    }
    default: return t->scalar ? "element of a texture" : "void";
  }
}
