/*
** Tree to CUDA C++: names, constants and expressions. Half values live in floats that are
** rounded after each operation; in global and shared memory they are unsigned shorts.
*/
#include "kernel/text/text_write.h"
#include "kernel/tree/builtins.h"
#include "kernel/text/text.h"
#include "kernel/text/text_check.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- names and types ------------------------------------------------------------------------- */

/* Nearly all names differ in their first letter. */
static int is_same(const char *a, const char *b) { return *a == *b && !strcmp(a, b); }

/* Most names of generated code are numbered: x_12. No word is. */
static int is_numbered(const char *name) {
  size_t n = strlen(name);
  if (!n || name[n - 1] < '0' || name[n - 1] > '9') return 0;
  while (n && name[n - 1] >= '0' && name[n - 1] <= '9') n--;
  return n && name[n - 1] == '_';
}

static int is_word(const char *name) {
  static const char *const words[] = {
    "asm", "auto", "bool", "break", "case", "catch", "char", "class", "const", "continue",
    "default", "delete", "do", "double", "else", "enum", "explicit", "export", "extern", "false",
    "float", "for", "friend", "goto", "if", "inline", "int", "long", "mutable", "namespace", "new",
    "operator", "private", "protected", "public", "register", "return", "short", "signed", "sizeof",
    "static", "struct", "switch", "template", "this", "throw", "true", "try", "typedef", "typename",
    "union", "unsigned", "using", "virtual", "void", "volatile", "while", "alignas", "alignof",
    "constexpr", "decltype", "noexcept", "nullptr", "static_assert", "and", "or", "not", "xor",
    "bitand", "bitor", "compl", "threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize",
    "printf", "llabs", "main" };
  if (is_numbered(name)) return 0;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (is_same(words[i], name)) return 1;
  for (int i = 0; i < FL_KB_COUNT; i++)
    if (is_same(fl_kbuiltins[i].name32, name) || is_same(fl_kbuiltins[i].name64, name)) return 1;
  return 0;
}

void fl_kput_name(fl_kwriter *w, const char *name) {
  fl_text_puts(w->t, name);
  if (is_word(name) || !strncmp(name, "fl_", 3) || !strncmp(name, "__", 2))
    fl_text_puts(w->t, "__v");
}

void fl_kput_var(fl_kwriter *w, int var) {
  const fl_kvar *v = &w->f->vars[var];
  if (v->kind == FL_KV_TABLE) fl_text_printf(w->t, "%s__", w->f->name);
  fl_kput_name(w, v->name);
}

/* ---- expressions ----------------------------------------------------------------------------- */

static void put_float(fl_kwriter *w, int type, double d) {
  char s[40];
  if (isnan(d) || isinf(d)) {
    const char *bits = isnan(d) ? "0x7fffffff" : d < 0 ? "0xff800000" : "0x7f800000";
    fl_text_printf(
        w->t, type == FL_KT_F64 ? "(double)__int_as_float(%s)" : "__int_as_float(%s)",
        bits);
    return;
  }
  snprintf(s, sizeof s - 3, type == FL_KT_F64 ? "%.17g" : "%.9g", d);
  for (char *c = s; *c; c++)
    if (*c == ',') *c = '.';
  if (!strpbrk(s, ".e")) strcat(s, ".0");
  fl_text_printf(w->t, d < 0 || signbit(d) ? "(%s%s)" : "%s%s", s,
                 type == FL_KT_F64 ? "" : "f");
}

void fl_kput_constant(fl_kwriter *w, const fl_kexpr *x) {
  const int64_t v = x->value.i;
  if (fl_kt_is_float(x->type)) { put_float(w, x->type, x->value.d); return; }
  switch (x->type) {
    case FL_KT_BOOL: fl_text_puts(w->t, v ? "true" : "false"); return;
    case FL_KT_I32:
      if (v == INT32_MIN) fl_text_puts(w->t, "(-2147483647 - 1)");
      else fl_text_printf(w->t, v < 0 ? "(%lld)" : "%lld", (long long)v);
      return;
    case FL_KT_I64:
      if (v == INT64_MIN) fl_text_puts(w->t, "(-9223372036854775807ll - 1)");
      else fl_text_printf(w->t, v < 0 ? "(%lldll)" : "%lldll", (long long)v);
      return;
    case FL_KT_U32: fl_text_printf(w->t, "%lluu", (unsigned long long)v); return;
    case FL_KT_U64: fl_text_printf(w->t, "%lluull", (unsigned long long)v); return;
    default: fl_text_printf(w->t, "(%s)(%lld)", fl_ktypes[x->type].c, (long long)v);
  }
}

void fl_kput_list(fl_kwriter *w, fl_kexpr *const *x, int n) {
  for (int i = 0; i < n; i++) {
    if (i) fl_text_puts(w->t, ", ");
    fl_kput_expr(w, x[i]);
  }
  fl_text_puts(w->t, ")");
}

/* ---- functions of mathematics ---------------------------------------------------------------- */

static const char *name_of(const fl_kbuiltin_info *b, int type) {
  return (type == FL_KT_F64 && *b->name64) || !*b->name32 ? b->name64 : b->name32;
}

/* Does NVRTC write many instructions for each call? */
static int is_costly(int op, int type) {
  static const char cheap[] = " SQRT RSQRT FLOOR CEIL TRUNC RINT ROUND FABS SATURATE FMIN FMAX FDIM "
    "COPYSIGN ADD_RN SUB_RN MUL_RN DIV_RN FMA NEXTAFTER LDEXP LOGB POLYGAMMA ",
    single[] = " EXP EXP2 LOG LOG2 ";                              /* cheap in f32 */
  const fl_kbuiltin_info *b = &fl_kbuiltins[op];
  char id[24];
  if ((b->rule != FL_KBR_FLOAT && b->rule != FL_KBR_FLOATI) || *name_of(b, type) == '_') return 0;
  snprintf(id, sizeof id, " %s ", b->id);
  return type == FL_KT_F64 ? !strstr(cheap, id)
                           : type == FL_KT_F32 && !strstr(cheap, id) && !strstr(single, id);
}

/* NVRTC takes up to 0.1 s for each call of such a function that it writes out. A kernel with more
** than MOST_INLINED calls them as functions. */
enum { MOST_INLINED = 20 };
typedef struct costly { int n; uint8_t asked[FL_KB_COUNT][2]; } costly;

static int see_costly(void *arg, fl_kexpr *x) {
  costly *c = arg;
  if (x->kind != FL_KX_CALL || !x->n || !is_costly(x->op, x->x[0]->type)) return 1;
  c->n++;
  c->asked[x->op][x->x[0]->type == FL_KT_F64] = 1;
  return 1;
}

static void put_apart(fl_text *t, const fl_kbuiltin_info *b, int type) {
  const char *T = fl_ktypes[type].c, *name = name_of(b, type);
  fl_text_printf(t, "static __device__ FL_APART %s fl_apart_%s(", T, name);
  for (int i = 0; i < b->n; i++)
    fl_text_printf(t, "%s%s x%d", i ? ", " : "", i && b->rule == FL_KBR_FLOATI ? "int" : T, i);
  fl_text_printf(t, ") { return %s(", name);
  for (int i = 0; i < b->n; i++) fl_text_printf(t, "%sx%d", i ? ", " : "", i);
  fl_text_puts(t, "); }\n");
}

void fl_kput_apart(fl_kwriter *w) {
  costly c;
  const fl_kvisitor see = { NULL, see_costly, &c };
  memset(&c, 0, sizeof c);
  fl_kwalk_block(&see, w->f->body);
  w->apart = c.n > MOST_INLINED;
  if (!w->apart) return;
  /* with --use_fast_math they are a few instructions; NVRTC defines the name always, as 0 or 1 */
  fl_text_puts(w->t, "#if __USE_FAST_MATH__\n#define FL_APART __forceinline__\n#else\n"
                     "#define FL_APART __noinline__\n#endif\n");
  for (int op = 0; op < FL_KB_COUNT; op++)
    for (int wide = 0; wide < 2; wide++)
      if (c.asked[op][wide]) put_apart(w->t, &fl_kbuiltins[op], wide ? FL_KT_F64 : FL_KT_F32);
}

static void put_call(fl_kwriter *w, const fl_kexpr *x) {
  const fl_kbuiltin_info *b = &fl_kbuiltins[x->op];
  const int type = x->n && b->rule != FL_KBR_BITS ? x->x[0]->type : x->type;
  const char *name = name_of(b, type);
  if (w->apart && x->n && is_costly(x->op, type)) fl_text_puts(w->t, "fl_apart_");
  if (x->op == FL_KB_IABS && !fl_ktypes[type].is_signed) { fl_kput_expr(w, x->x[0]); return; }
  if (x->op == FL_KB_IABS && type == FL_KT_I64) name = "llabs";
  fl_text_printf(w->t, "%s(", name);
  fl_kput_list(w, x->x, x->n);
}

static void put_cast(fl_kwriter *w, const fl_kexpr *x) {
  const int from = x->x[0]->type, to = x->type;
  if (to == FL_KT_BOOL) {
    fl_text_puts(w->t, "(");
    fl_kput_expr(w, x->x[0]);
    fl_text_puts(w->t, " != 0)");
    return;
  }
  if (fl_kt_is_half(to)) fl_text_printf(w->t, "fl_round_%s((float)", fl_kput_half(to));
  else
    fl_text_printf(w->t, "((%s)",
                   fl_kt_is_half(from) && to == FL_KT_F32 ? "float" : fl_ktypes[to].c);
  fl_kput_expr(w, x->x[0]);
  fl_text_puts(w->t, ")");
}

static void put_load(fl_kwriter *w, const fl_kexpr *x) {
  const fl_kvar *v = &w->f->vars[x->var];
  const int convert =
      fl_kt_is_half(x->type) && v->kind != FL_KV_ARRAY && v->kind != FL_KV_TABLE;
  if (convert) fl_text_printf(w->t, "fl_in_%s(", fl_kput_half(x->type));
  if (w->check) fl_kcheck_load(w, x);
  else {
    fl_kput_var(w, x->var);
    fl_text_puts(w->t, "[");
    fl_kput_expr(w, x->x[0]);
    fl_text_puts(w->t, "]");
  }
  if (convert) fl_text_puts(w->t, ")");
}

static void put_binary(fl_kwriter *w, const fl_kexpr *x) {
  if (fl_kt_is_half(x->type)) fl_text_printf(w->t, "fl_round_%s", fl_kput_half(x->type));
  fl_text_puts(w->t, "(");
  fl_kput_expr(w, x->x[0]);
  fl_text_printf(w->t, " %s ", fl_koperator_text[x->op]);
  if (w->check) fl_kcheck_divisor(w, x, x->x[1]);
  else fl_kput_expr(w, x->x[1]);
  fl_text_puts(w->t, ")");
}

/* Writes a built-in variable. A checked kernel is launched for some blocks of the grid at a time,
** and a batch has more blocks along z, so there blockIdx and gridDim are not CUDA's. */
static void put_special(fl_kwriter *w, int op) {
  if (w->batch && op == FL_KSPECIAL_BID_Z) fl_text_puts(w->t, "(blockIdx.z % fl_b.blocks)");
  else if (w->batch && op == FL_KSPECIAL_GDIM_Z) fl_text_puts(w->t, "fl_b.blocks");
  else if (w->check && op >= FL_KSPECIAL_BID_X && op <= FL_KSPECIAL_BID_Z)
    fl_text_printf(w->t, "fl_t.b%c", "xyz"[op - FL_KSPECIAL_BID_X]);
  else if (w->check && op >= FL_KSPECIAL_GDIM_X && op <= FL_KSPECIAL_GDIM_Z)
    fl_text_printf(w->t, "fl_t.c->grid[%d]", op - FL_KSPECIAL_GDIM_X);
  else fl_text_puts(w->t, fl_kspecial_text[op]);
}

void fl_kput_expr(fl_kwriter *w, const fl_kexpr *x) {
  switch (x->kind) {
    case FL_KX_CONST: fl_kput_constant(w, x); return;
    case FL_KX_VAR:
      if (w->check) fl_kcheck_var(w, x);
      else fl_kput_var(w, x->var);
      return;
    case FL_KX_LOAD: put_load(w, x); return;
    case FL_KX_SPECIAL: put_special(w, x->op); return;
    case FL_KX_BINARY: put_binary(w, x); return;
    case FL_KX_CAST: put_cast(w, x); return;
    case FL_KX_CALL: put_call(w, x); return;
    case FL_KX_UNARY:
      fl_text_printf(w->t, "(%s", fl_koperator_text[x->op]);
      fl_kput_expr(w, x->x[0]);
      break;
    default:
      fl_text_puts(w->t, "(");
      fl_kput_expr(w, x->x[0]);
      fl_text_puts(w->t, " ? ");
      fl_kput_expr(w, x->x[1]);
      fl_text_puts(w->t, " : ");
      fl_kput_expr(w, x->x[2]);
  }
  fl_text_puts(w->t, ")");
}

void fl_ktext_expr(fl_text *t, const fl_kfunc *f, const fl_kexpr *x) {
  fl_kwriter w = { .t = t, .f = f };
  fl_kput_expr(&w, x);
}
