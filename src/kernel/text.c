/*
** Tree to CUDA C++. Half values live in floats that are rounded after each operation; in
** memory they are unsigned shorts. All variables are declared first, so that a goto (the way
** out of a BLOCK) jumps over no initialisation. Parameters keep their layout: structs arrive
** as bytes and are taken apart.
*/
#include "kernel/text.h"
#include "kernel/builtins.h"
#include "kernel/text_near.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* slot[p]: 1 + number of the exact sum that parameter p is, 0: none; NULL: sums in any order. */
typedef struct writer {
  fl_text *t;
  const fl_kfunc *f;
  int depth;
  const uint8_t *slot;
  const fl_knear *near;      /* sums combined in the warp; NULL: none */
} writer;

static const char prelude[] =
  "#pragma nv_diag_suppress 177,550,128\n"
  "#define FL_FN static __device__ __forceinline__\n"
  "FL_FN float fl_in_f16(unsigned short h) { float x; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(x) : \"h\"(h)); return x; }\n"
  "FL_FN unsigned short fl_out_f16(float x) { unsigned short h; asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(h) : \"f\"(x)); return h; }\n"
  "FL_FN float fl_in_bf16(unsigned short h) { return __uint_as_float((unsigned)h << 16); }\n"
  "FL_FN unsigned short fl_out_bf16(float x) {\n"
  "  const unsigned b = __float_as_uint(x);\n"
  "  return x != x ? 0x7fff : (unsigned short)((b + 0x7fff + (b >> 16 & 1)) >> 16);\n"
  "}\n"
  "FL_FN float fl_round_f16(float x) { return fl_in_f16(fl_out_f16(x)); }\n"
  "FL_FN float fl_round_bf16(float x) { return fl_in_bf16(fl_out_bf16(x)); }\n"
  "FL_FN float fl_atomic_f16(unsigned short *p, float v) {\n"
  "  unsigned short old = *p, seen;\n"
  "  do { seen = old; old = atomicCAS(p, seen, fl_out_f16(fl_in_f16(seen) + v)); } while (old != seen);\n"
  "  return fl_in_f16(old);\n"
  "}\n"
  "FL_FN float fl_atomic_bf16(unsigned short *p, float v) {\n"
  "  unsigned short old = *p, seen;\n"
  "  do { seen = old; old = atomicCAS(p, seen, fl_out_bf16(fl_in_bf16(seen) + v)); } while (old != seen);\n"
  "  return fl_in_bf16(old);\n"
  "}\n"
  "template <class T> FL_FN void fl_block_add(T *p, T v) {\n"
  "  __shared__ T part[32];\n"
  "  const unsigned n = blockDim.x * blockDim.y * blockDim.z;\n"
  "  const unsigned i = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;\n"
  "  const unsigned warp = i / 32, left = n - warp * 32, live = left < 32 ? left : 32;\n"
  "  const unsigned mask = live == 32 ? ~0u : (1u << live) - 1;\n"
  "  for (int d = 16; d > 0; d /= 2) {\n"
  "    const T w = __shfl_down_sync(mask, v, d);\n"
  "    if (i % 32 + d < live) v += w;\n"
  "  }\n"
  "  __syncthreads();\n"
  "  if (i % 32 == 0) part[warp] = v;\n"
  "  __syncthreads();\n"
  "  if (i == 0) {\n"
  "    for (unsigned k = 1; k < (n + 31) / 32; k++) v += part[k];\n"
  "    atomicAdd(p, v);\n"
  "  }\n"
  "}\n";

void fl_ktext_prelude(fl_text *t) { fl_text_puts(t, prelude); }

/* Sums that do not depend on the order of the threads: a first launch finds the largest
** magnitude, a second adds integers, |v| scaled to 'bits' bits, in 128 bits. The launcher
** prepares and reads them (cuda/ordered.c). low begins as 0x80 in each byte, so that it seldom
** overflows either way. */
static const char ordered[] =
  "struct fl_fixed { unsigned long long *low, *high, *peak; unsigned *special; long long bits; };\n"
  "FL_FN void fl_ordered_add(int pass, const fl_fixed &x, long long i, double v) {\n"
  "  if (v == 0) return;\n"
  "  const unsigned long long b = (unsigned long long)__double_as_longlong(fabs(v));\n"
  "  const bool finite = b < 0x7ff0000000000000ull;\n"
  "  if (pass == 0) {\n"
  "    if (finite && b > *(volatile unsigned long long *)x.peak) atomicMax(x.peak, b);\n"
  "    return;\n"
  "  }\n"
  "  if (!finite) { atomicOr(x.special + i, v != v ? 1u : v > 0 ? 2u : 4u); return; }\n"
  "  const int e = (int)(*x.peak >> 52) - 1023, k = (int)x.bits - e;\n"
  "  const double s = k < 1000 ? v * __longlong_as_double((1023ll + k) << 52) : scalbn(v, k);\n"
  "  const long long q = __double2ll_rn(s);\n"
  "  const unsigned long long old = atomicAdd(x.low + i, (unsigned long long)q);\n"
  "  const long long carry = old + (unsigned long long)q < old ? 1 : 0, up = carry + (q < 0 ? -1 : 0);\n"
  "  if (up) atomicAdd(x.high + i, (unsigned long long)up);\n"
  "}\n"
  "FL_FN void fl_ordered_block_add(int pass, const fl_fixed &x, long long i, double v) {\n"
  "  __shared__ double part[32];\n"
  "  const unsigned n = blockDim.x * blockDim.y * blockDim.z;\n"
  "  const unsigned me = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;\n"
  "  const unsigned warp = me / 32, left = n - warp * 32, live = left < 32 ? left : 32;\n"
  "  const unsigned mask = live == 32 ? ~0u : (1u << live) - 1;\n"
  "  for (int d = 16; d > 0; d /= 2) {\n"
  "    const double w = __shfl_down_sync(mask, v, d);\n"
  "    if (me % 32 + d < live) v += w;\n"
  "  }\n"
  "  __syncthreads();\n"
  "  if (me % 32 == 0) part[warp] = v;\n"
  "  __syncthreads();\n"
  "  if (me == 0) {\n"
  "    for (unsigned k = 1; k < (n + 31) / 32; k++) v += part[k];\n"
  "    fl_ordered_add(pass, x, i, v);\n"
  "  }\n"
  "}\n";

/* ---- names and types --------------------------------------------------------------------------- */

static int is_half(int type) { return type == FL_KT_F16 || type == FL_KT_BF16; }
static const char *half_name(int type) { return type == FL_KT_F16 ? "f16" : "bf16"; }
/* Of a variable, and of an element in memory. */
static const char *value_type(int type) {
  return is_half(type) ? "float" : fl_ktypes[type].c;
}
static const char *memory_type(int type) {
  return is_half(type) ? "unsigned short" : fl_ktypes[type].c;
}

static int is_word(const char *name) {
  static const char *const words[] = {
    "asm", "auto", "bool", "break", "case", "catch", "char", "class", "const", "continue", "default", "delete",
    "do", "double", "else", "enum", "explicit", "export", "extern", "false", "float", "for", "friend", "goto",
    "if", "inline", "int", "long", "mutable", "namespace", "new", "operator", "private", "protected", "public",
    "register", "return", "short", "signed", "sizeof", "static", "struct", "switch", "template", "this",
    "throw", "true", "try", "typedef", "typename", "union", "unsigned", "using", "virtual", "void", "volatile",
    "while", "alignas", "alignof", "constexpr", "decltype", "noexcept", "nullptr", "static_assert", "and",
    "or", "not", "xor", "bitand", "bitor", "compl", "threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize",
    "printf", "llabs", "main" };
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (!strcmp(words[i], name)) return 1;
  for (int i = 0; i < FL_KB_COUNT; i++)
    if (!strcmp(fl_kbuiltins[i].name32, name) || !strcmp(fl_kbuiltins[i].name64, name))
      return 1;
  return 0;
}

static void put_name(writer *w, const char *name) {
  fl_text_puts(w->t, name);
  if (is_word(name) || !strncmp(name, "fl_", 3) || !strncmp(name, "__", 2))
    fl_text_puts(w->t, "__v");
}

static void put_var(writer *w, int var) {
  const fl_kvar *v = &w->f->vars[var];
  if (v->kind == FL_KV_TABLE) fl_text_printf(w->t, "%s__", w->f->name);
  put_name(w, v->name);
}

/* ---- expressions ------------------------------------------------------------------------------- */

static void put_float(writer *w, int type, double d) {
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

static void put_constant(writer *w, const fl_kexpr *x) {
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

static void put(writer *w, const fl_kexpr *x);

static void put_call(writer *w, const fl_kexpr *x) {
  const fl_kbuiltin_info *b = &fl_kbuiltins[x->op];
  const int type = x->n && b->rule != FL_KBR_BITS ? x->x[0]->type : x->type;
  const char *name = type == FL_KT_F64 && *b->name64 ? b->name64
                     : *b->name32                    ? b->name32
                                                     : b->name64;
  if (x->op == FL_KB_IABS && !fl_ktypes[type].is_signed) { put(w, x->x[0]); return; }
  if (x->op == FL_KB_IABS && type == FL_KT_I64) name = "llabs";
  fl_text_printf(w->t, "%s(", name);
  for (int i = 0; i < x->n; i++) {
    if (i) fl_text_puts(w->t, ", ");
    put(w, x->x[i]);
  }
  fl_text_puts(w->t, ")");
}

static const char *const operators[FL_KO_COUNT] = {
  "", "+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^", "<", "<=", ">", ">=", "==", "!=", "&&", "||",
  "-", "~", "!" };
static const char *const specials[FL_KP_COUNT] = {
  "threadIdx.x", "threadIdx.y", "threadIdx.z", "blockIdx.x", "blockIdx.y", "blockIdx.z",
  "blockDim.x", "blockDim.y", "blockDim.z", "gridDim.x", "gridDim.y", "gridDim.z", "warpSize" };

static void put_cast(writer *w, const fl_kexpr *x) {
  const int from = x->x[0]->type, to = x->type;
  if (to == FL_KT_BOOL) {
    fl_text_puts(w->t, "(");
    put(w, x->x[0]);
    fl_text_puts(w->t, " != 0)");
    return;
  }
  if (is_half(to)) fl_text_printf(w->t, "fl_round_%s((float)", half_name(to));
  else
    fl_text_printf(w->t, "((%s)",
                   is_half(from) && to == FL_KT_F32 ? "float" : fl_ktypes[to].c);
  put(w, x->x[0]);
  fl_text_puts(w->t, ")");
}

static void put_load(writer *w, const fl_kexpr *x) {
  const fl_kvar *v = &w->f->vars[x->var];
  const int convert =
      is_half(x->type) && v->kind != FL_KV_ARRAY && v->kind != FL_KV_TABLE;
  if (convert) fl_text_printf(w->t, "fl_in_%s(", half_name(x->type));
  put_var(w, x->var);
  fl_text_puts(w->t, "[");
  put(w, x->x[0]);
  fl_text_puts(w->t, convert ? "])" : "]");
}

static void put_binary(writer *w, const fl_kexpr *x) {
  if (is_half(x->type)) fl_text_printf(w->t, "fl_round_%s", half_name(x->type));
  fl_text_puts(w->t, "(");
  put(w, x->x[0]);
  fl_text_printf(w->t, " %s ", operators[x->op]);
  put(w, x->x[1]);
  fl_text_puts(w->t, ")");
}

static void put(writer *w, const fl_kexpr *x) {
  switch (x->kind) {
    case FL_KX_CONST: put_constant(w, x); return;
    case FL_KX_VAR: put_var(w, x->var); return;
    case FL_KX_LOAD: put_load(w, x); return;
    case FL_KX_SPECIAL: fl_text_puts(w->t, specials[x->op]); return;
    case FL_KX_BINARY: put_binary(w, x); return;
    case FL_KX_CAST: put_cast(w, x); return;
    case FL_KX_CALL: put_call(w, x); return;
    case FL_KX_UNARY:
      fl_text_printf(w->t, "(%s", operators[x->op]);
      put(w, x->x[0]);
      break;
    default:
      fl_text_puts(w->t, "(");
      put(w, x->x[0]);
      fl_text_puts(w->t, " ? ");
      put(w, x->x[1]);
      fl_text_puts(w->t, " : ");
      put(w, x->x[2]);
  }
  fl_text_puts(w->t, ")");
}

void fl_ktext_expr(fl_text *t, const fl_kfunc *f, const fl_kexpr *x) {
  writer w = { t, f, 0, NULL, NULL };
  put(&w, x);
}

/* ---- simple statements --------------------------------------------------------------------------- */

static void put_value(writer *w, int var, const fl_kexpr *x) {
  const fl_kvar *v = &w->f->vars[var];
  const int convert = is_half(v->type) && v->kind != FL_KV_ARRAY;
  if (convert) fl_text_printf(w->t, "fl_out_%s(", half_name(v->type));
  put(w, x);
  if (convert) fl_text_puts(w->t, ")");
}

static void put_element(writer *w, const fl_kstmt *s) {
  put_var(w, s->var);
  fl_text_puts(w->t, "[");
  put(w, s->x[0]);
  fl_text_puts(w->t, "]");
}

/* var[i] = (element)((type of value)var[i] + value) */
static void put_store(writer *w, const fl_kstmt *s) {
  const fl_kvar *v = &w->f->vars[s->var];
  put_element(w, s);
  if (s->accumulate && v->type == s->x[1]->type && !is_half(v->type)) {
    fl_text_puts(w->t, " += ");
    put(w, s->x[1]);
  } else if (s->accumulate) {
    fl_kexpr load = {
      .kind = FL_KX_LOAD, .type = v->type, .n = 1, .var = s->var, .x = { s->x[0] }
    };
    fl_kexpr wide = { .kind = FL_KX_CAST, .type = s->x[1]->type, .n = 1, .x = { &load } };
    fl_kexpr *old = v->type == s->x[1]->type ? &load : &wide;
    fl_kexpr sum = { .kind = FL_KX_BINARY,
                     .type = s->x[1]->type,
                     .op = FL_KO_ADD,
                     .n = 2,
                     .x = { old, s->x[1] } };
    fl_kexpr back = { .kind = FL_KX_CAST, .type = v->type, .n = 1, .x = { &sum } };
    fl_text_puts(w->t, " = ");
    put_value(w, s->var, v->type == s->x[1]->type ? &sum : &back);
  } else {
    fl_text_puts(w->t, " = ");
    put_value(w, s->var, s->x[1]);
  }
}

static const char *const atomics[FL_KA_COUNT] = {
  "atomicAdd", "atomicSub", "atomicMax", "atomicMin", "atomicAnd", "atomicOr", "atomicXor", "atomicExch",
  "atomicCAS", "atomicInc", "atomicDec" };

/* Is it a sum to be made exactly? */
static int is_ordered(const fl_kfunc *f, const fl_kstmt *s) {
  const fl_kvar *v = s->kind == FL_KS_ATOMIC ? &f->vars[s->var] : NULL;
  return v && s->op == FL_KA_ADD && s->mode != FL_KM_FREE && s->result < 0 &&
         v->kind == FL_KV_POINTER && v->param >= 0 &&
         (v->type == FL_KT_F32 || v->type == FL_KT_F64);
}

typedef struct finder { const fl_kfunc *f; uint8_t *slot; } finder;

static int find_ordered(void *arg, fl_kstmt *s) {
  const finder *x = arg;
  if (is_ordered(x->f, s)) x->slot[x->f->vars[s->var].param] = 1;
  return 1;
}

int fl_ktext_sums(const fl_kfunc *f, uint8_t *slot) {
  finder x = { f, slot };
  const fl_kvisitor v = { find_ordered, NULL, &x };
  int n = 0;
  memset(slot, 0, (size_t)f->n_params);
  fl_kwalk_block(&v, f->body);
  for (int i = 0; i < f->n_params; i++) if (slot[i]) slot[i] = (uint8_t)++n;
  return n;
}

static void put_ordered(writer *w, const fl_kstmt *s) {
  fl_text_printf(w->t, "fl_ordered_%sadd(fl_pass, fl_fix[%d], ",
                 s->mode == FL_KM_BLOCK ? "block_" : "",
                 w->slot[w->f->vars[s->var].param] - 1);
  put(w, s->x[0]);
  fl_text_puts(w->t, ", (double)(");
  put(w, s->x[1]);
  fl_text_puts(w->t, "))");
}

static void put_atomic(writer *w, const fl_kstmt *s) {
  const int type = w->f->vars[s->var].type;
  if (w->slot && is_ordered(w->f, s)) {
    put_ordered(w, s);
    return;
  }
  if (fl_knear_put(w->near, w->t, s)) return;
  const int as_u64 = type == FL_KT_I64 && s->op != FL_KA_MAX && s->op != FL_KA_MIN;
  if (s->result >= 0) {
    put_var(w, s->result);
    fl_text_printf(w->t, " = %s", as_u64 ? "(long long)" : "");
  }
  if (is_half(type)) fl_text_printf(w->t, "fl_atomic_%s(&", half_name(type));
  else if (s->mode == FL_KM_BLOCK) fl_text_puts(w->t, "fl_block_add(&");
  else
    fl_text_printf(w->t, "%s(%s&", atomics[s->op],
                   as_u64 ? "(unsigned long long *)" : "");
  put_element(w, s);
  for (int i = 2; i > 0; i--) {
    if (!s->x[i]) continue;
    fl_text_printf(w->t, ", %s", as_u64 ? "(unsigned long long)" : "");
    put(w, s->x[i]);
  }
  fl_text_puts(w->t, ")");
}

static void put_warp(writer *w, const fl_kstmt *s) {
  static const char *const shuffles[] = { "__shfl_sync", "__shfl_up_sync",
                                          "__shfl_down_sync", "__shfl_xor_sync" };
  static const char *const votes[] = { "__ballot_sync", "__any_sync", "__all_sync",
                                       "__activemask" };
  put_var(w, s->result);
  fl_text_printf(w->t, " = %s(",
                 s->kind == FL_KS_SHUFFLE ? shuffles[s->op] : votes[s->op]);
  for (int i = 0; i < 4 && s->x[i]; i++) {
    if (i) fl_text_puts(w->t, ", ");
    put(w, s->x[i]);
  }
  fl_text_puts(w->t, ")");
}

static void put_string(writer *w, const char *s) {
  fl_text_puts(w->t, "\"");
  for (; *s; s++) {
    if (*s == '"' || *s == '\\') fl_text_printf(w->t, "\\%c", *s);
    else if ((unsigned char)*s < 32 || (unsigned char)*s > 126)
      fl_text_printf(w->t, "\\%03o", (unsigned char)*s);
    else fl_text_add(w->t, s, 1);
  }
  fl_text_puts(w->t, "\"");
}

static void put_printf(writer *w, const fl_kstmt *s) {
  fl_text_puts(w->t, "printf(");
  put_string(w, s->text);
  for (int i = 0; i < s->n_args; i++) {
    fl_text_puts(w->t, ", ");
    put(w, s->args[i]);
  }
  fl_text_puts(w->t, ")");
}

static void put_barrier(writer *w, const fl_kstmt *s) {
  if (s->op == FL_KBAR_BLOCK) fl_text_puts(w->t, "__syncthreads()");
  else if (s->op == FL_KBAR_FENCE) fl_text_puts(w->t, "__threadfence()");
  else {
    fl_text_puts(w->t, "__syncwarp(");
    if (s->x[0]) put(w, s->x[0]);
    fl_text_puts(w->t, ")");
  }
}

static void put_simple(writer *w, const fl_kstmt *s) {
  switch (s->kind) {
    case FL_KS_ASSIGN:
      put_var(w, s->var);
      fl_text_puts(w->t, " = ");
      put(w, s->x[0]);
      break;
    case FL_KS_STORE: put_store(w, s); break;
    case FL_KS_ATOMIC: put_atomic(w, s); break;
    case FL_KS_BREAK: fl_text_puts(w->t, "break"); break;
    case FL_KS_LEAVE: fl_text_printf(w->t, "goto leave_%d", (int)s->label); break;
    case FL_KS_RETURN: fl_text_puts(w->t, "return"); break;
    case FL_KS_BARRIER: put_barrier(w, s); break;
    case FL_KS_SHUFFLE: case FL_KS_VOTE: put_warp(w, s); break;
    case FL_KS_PRINTF: put_printf(w, s); break;
    case FL_KS_ASSERT:
      fl_text_puts(w->t, "if (!");
      put(w, s->x[0]);
      fl_text_puts(w->t, ") __trap()");
      break;
    default: break;
  }
  fl_text_puts(w->t, ";\n");
}

/* ---- blocks ------------------------------------------------------------------------------------------ */

static void put_block(writer *w, fl_kblock b, const fl_kstmt *loop);

static void indent(writer *w) { fl_text_printf(w->t, "%*s", 2 * w->depth, ""); }

static int has_leave(fl_kblock b, int label) {
  for (const fl_kstmt *s = b.first; s; s = s->next)
    if ((s->kind == FL_KS_LEAVE && s->label == label) || has_leave(s->body, label) ||
        has_leave(s->other, label))
      return 1;
  return 0;
}

/* A CONTINUE of the loop whose body this is. */
static int has_continue(fl_kblock b) {
  for (const fl_kstmt *s = b.first; s; s = s->next)
    if (s->kind == FL_KS_CONTINUE ||
        (s->kind != FL_KS_LOOP && (has_continue(s->body) || has_continue(s->other))))
      return 1;
  return 0;
}

/* Can C's own continue be used? With a step, only as a for loop with one assignment. */
static int is_for(const fl_kstmt *s) {
  return !s->post && s->other.first && s->other.first == s->other.last &&
         s->other.first->kind == FL_KS_ASSIGN;
}
static int jumps_to_step(const fl_kstmt *s) {
  return s->other.first && !is_for(s) && has_continue(s->body);
}

static void put_loop(writer *w, const fl_kstmt *s) {
  indent(w);
  if (s->post) fl_text_puts(w->t, "do {\n");
  else {
    fl_text_puts(w->t, "for (; ");
    if (s->x[0]) put(w, s->x[0]);
    fl_text_puts(w->t, "; ");
    if (is_for(s)) {
      put_var(w, s->other.first->var);
      fl_text_puts(w->t, " = ");
      put(w, s->other.first->x[0]);
    }
    fl_text_puts(w->t, ") {\n");
  }
  w->depth++;
  put_block(w, s->body, s);
  if (jumps_to_step(s)) {
    indent(w);
    fl_text_printf(w->t, "step_%d:;\n", (int)s->label);
  }
  if (!is_for(s)) put_block(w, s->other, s);
  w->depth--;
  indent(w);
  fl_text_puts(w->t, "}");
  if (s->post) {
    fl_text_puts(w->t, " while (");
    if (s->x[0]) put(w, s->x[0]);
    else fl_text_puts(w->t, "true");
    fl_text_puts(w->t, ");");
  }
  fl_text_puts(w->t, "\n");
}

static void put_if(writer *w, const fl_kstmt *s, const fl_kstmt *loop) {
  indent(w);
  fl_text_puts(w->t, "if (");
  put(w, s->x[0]);
  fl_text_puts(w->t, ") {\n");
  w->depth++;
  put_block(w, s->body, loop);
  if (s->other.first) {
    w->depth--;
    indent(w);
    fl_text_puts(w->t, "} else {\n");
    w->depth++;
    put_block(w, s->other, loop);
  }
  w->depth--;
  indent(w);
  fl_text_puts(w->t, "}\n");
}

static void put_stmt(writer *w, const fl_kstmt *s, const fl_kstmt *loop) {
  if (s->kind == FL_KS_DECL) return;
  if (s->kind == FL_KS_IF) { put_if(w, s, loop); return; }
  if (s->kind == FL_KS_LOOP) { put_loop(w, s); return; }
  if (s->kind == FL_KS_BLOCK) {
    put_block(w, s->body, loop);
    if (!has_leave(s->body, s->label)) return;
    indent(w);
    fl_text_printf(w->t, "leave_%d:;\n", (int)s->label);
    return;
  }
  indent(w);
  if (s->kind != FL_KS_CONTINUE) put_simple(w, s);
  else if (loop && jumps_to_step(loop))
    fl_text_printf(w->t, "goto step_%d;\n", (int)loop->label);
  else fl_text_puts(w->t, "continue;\n");
}

static void put_block(writer *w, fl_kblock b, const fl_kstmt *loop) {
  for (const fl_kstmt *s = b.first; s; s = s->next) put_stmt(w, s, loop);
}

/* ---- the kernel ----------------------------------------------------------------------------------------- */

static void put_tables(writer *w) {
  for (int i = 0; i < w->f->n_vars; i++) {
    const fl_kvar *v = &w->f->vars[i];
    if (v->kind != FL_KV_TABLE) continue;
    fl_text_printf(w->t, "static __device__ const %s ", value_type(v->type));
    put_var(w, i);
    fl_text_printf(w->t, "[%lld] = {", (long long)v->count);
    for (int64_t k = 0; k < v->count; k++) {
      const fl_kexpr c = { .kind = FL_KX_CONST, .type = v->type, .value = v->data[k] };
      fl_text_puts(w->t, k ? ", " : " ");
      put_constant(w, &c);
    }
    fl_text_puts(w->t, " };\n");
  }
}

static int by_bytes(const fl_kparam *p) {
  return !p->is_pointer && (p->is_struct || p->width > 1 || p->n_fields);
}

static void put_param_name(writer *w, const fl_kparam *p) {
  put_name(w, p->n_vars == 1 && !by_bytes(p) ? w->f->vars[p->first_var].name : p->name);
  if (!p->is_pointer && (by_bytes(p) || is_half(p->type))) fl_text_puts(w->t, "__in");
}

static void put_params(writer *w) {
  for (int i = 0; i < w->f->n_params; i++) {
    const fl_kparam *p = &w->f->params[i];
    if (i) fl_text_puts(w->t, ", ");
    if (p->is_pointer)
      fl_text_printf(w->t, "%s%s *", p->is_const ? "const " : "", memory_type(p->type));
    else if (by_bytes(p)) fl_text_printf(w->t, "%s__%s__t ", w->f->name, p->name);
    else fl_text_printf(w->t, "%s ", memory_type(p->type));
    put_param_name(w, p);
  }
}

static void put_structs(writer *w) {
  for (int i = 0; i < w->f->n_params; i++) {
    const fl_kparam *p = &w->f->params[i];
    if (by_bytes(p))
      fl_text_printf(w->t,
                     "struct __align__(%lld) %s__%s__t { unsigned char b[%lld]; };\n",
                     (long long)p->align, w->f->name, p->name, (long long)p->size);
  }
}

/* The leaf of a struct or half parameter gets its value. */
static void put_leaf(writer *w, int var, const char *index, int64_t offset) {
  const fl_kvar *v = &w->f->vars[var];
  const fl_kparam *p = &w->f->params[v->param];
  fl_text_puts(w->t, "  ");
  put_name(w, v->name);
  fl_text_printf(w->t, "%s = ", index);
  if (is_half(v->type) && v->kind != FL_KV_POINTER)
    fl_text_printf(w->t, "fl_in_%s(", half_name(v->type));
  if (!by_bytes(p)) {
    put_param_name(w, p);
  } else {
    const char *star = v->kind == FL_KV_POINTER ? "*const " : "";
    fl_text_printf(w->t, "*(%s%s %s*)(",
                   v->kind == FL_KV_POINTER && !v->is_const ? "" : "const ",
                   memory_type(v->type), star);
    put_param_name(w, p);
    fl_text_printf(w->t, ".b + %lld)", (long long)offset);
  }
  fl_text_puts(w->t, is_half(v->type) && v->kind != FL_KV_POINTER ? ");\n" : ";\n");
}

static void put_leaves(writer *w) {
  for (int i = 0; i < w->f->n_vars; i++) {
    const fl_kvar *v = &w->f->vars[i];
    if (v->param < 0) continue;
    const fl_kparam *p = &w->f->params[v->param];
    if (!by_bytes(p) && (p->is_pointer || !is_half(v->type))) continue;
    if (v->kind != FL_KV_ARRAY) { put_leaf(w, i, "", v->offset); continue; }
    for (int64_t e = 0; e < v->count; e++) {
      char index[32];
      snprintf(index, sizeof index, "[%lld]", (long long)e);
      put_leaf(w, i, index, fl_kvar_offset(v, e));
    }
  }
}

static void put_variable(writer *w, int i) {
  const fl_kvar *v = &w->f->vars[i];
  if (v->kind == FL_KV_TABLE) return;
  if (v->param >= 0) {
    const fl_kparam *p = &w->f->params[v->param];
    if (p->is_pointer || (!by_bytes(p) && !is_half(v->type))) return;
  }
  fl_text_puts(w->t, "  ");
  if (v->kind == FL_KV_SHARED && v->dynamic) {
    fl_text_printf(w->t, "%s *const ", memory_type(v->type));
    put_name(w, v->name);
    fl_text_printf(w->t, " = (%s *)fl_dynamic;\n", memory_type(v->type));
    return;
  }
  if (v->kind == FL_KV_SHARED)
    fl_text_printf(w->t, "__shared__ %s ", memory_type(v->type));
  else if (v->kind == FL_KV_POINTER)
    fl_text_printf(w->t, "%s%s *", v->is_const ? "const " : "", memory_type(v->type));
  else fl_text_printf(w->t, "%s ", value_type(v->type));
  put_name(w, v->name);
  if (v->kind == FL_KV_ARRAY || v->kind == FL_KV_SHARED)
    fl_text_printf(w->t, "[%lld]", (long long)v->count);
  fl_text_puts(w->t, ";\n");
}

static int uses_dynamic(const fl_kfunc *f) {
  for (int i = 0; i < f->n_vars; i++)
    if (f->vars[i].kind == FL_KV_SHARED && f->vars[i].dynamic) return 1;
  return 0;
}

static void put_kernel(fl_text *t, const fl_kfunc *f, const uint8_t *slot) {
  fl_knear *near = slot ? NULL : fl_knear_new(t->mem, f);
  writer w = { t, f, 1, slot, near };
  if (near) fl_knear_prelude(t);
  put_tables(&w);
  put_structs(&w);
  if (uses_dynamic(f))
    fl_text_puts(t, "extern __shared__ __align__(16) unsigned char fl_dynamic[];\n");
  fl_text_puts(t, "extern \"C\" __global__ void ");
  if (f->max_threads) fl_text_printf(t, "__launch_bounds__(%d) ", (int)f->max_threads);
  fl_text_printf(t, "%s(", f->name);
  put_params(&w);
  if (slot)
    fl_text_printf(t, "%sint fl_pass, const fl_fixed *fl_fix", f->n_params ? ", " : "");
  fl_text_puts(t, ") {\n");
  for (int i = 0; i < f->n_vars; i++) put_variable(&w, i);
  put_leaves(&w);
  if (near) fl_knear_begin(near, t);
  put_block(&w, f->body, NULL);
  if (near) fl_knear_end(near, t);
  fl_text_puts(t, "}\n");
  fl_knear_free(near);
}

void fl_ktext_kernel(fl_text *t, const fl_kfunc *f) { put_kernel(t, f, NULL); }

void fl_ktext_exact(fl_text *t, const fl_kfunc *f, const uint8_t *slot) {
  fl_text_puts(t, ordered);
  put_kernel(t, f, slot);
}
