/*
** Text of single instructions, of addresses and of the helper functions a kernel needs.
**
** Names in the text: w (the words), p<o> pointer of operand o, c<d> coordinate of dim d,
** l<v> packs loaded for instruction v, v<v> its value, q the element of a vector, k<v> values
** kept in registers between the rounds of a row, r<v> the join of reduction v.
*/
#include "cuda/text/text_form.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>

const char *fl_text_ctype(int reg) {
  static const char *const name[] = { "double", "float", "int64_t", "int32_t" };
  return name[reg];
}

const char *fl_text_suffix(int reg) {
  static const char *const name[] = { "f64", "f32", "i64", "i32" };
  return name[reg];
}

const char *fl_text_storage(int dtype) {
  static const char *const name[] = { "", "s1", "s2", "", "s4", "", "", "", "s8" };
  return name[fl_dtype_size(dtype)];
}

/* ---- helper functions ------------------------------------------------------------------- */

/* Is instruction i a call (f->calls)? */
static int is_call(const text_form *f, const fl_instr *i) {
  return f->calls && fl_text_is_costly(i);
}

static const char *kind_of(const text_form *f, const fl_instr *i) {
  return is_call(f, i) ? "call" : "op";
}

/* Begins the definition of a helper. Each is guarded by a macro with its name, since kernels
** compiled together share it. */
static void open_helper(text_writer *w, const char *kind, const char *name, const char *suffix) {
  fl_text_printf(w->out, "#ifndef %s_%s_%s\n#define %s_%s_%s %s_%s_%s\n", kind, name, suffix, kind,
                 name, suffix, kind, name, suffix);
}

static void op_function(text_writer *w, const fl_instr *i, int reg) {
  static const char *const params[] = { "", "T x", "T x1, T x2", "T x1, T x2, T x3" };
  const fl_op_info *o = &fl_ops[i->op];
  const char *s = fl_text_suffix(reg), *t = fl_text_ctype(reg);
  const int test = o->kind == FL_KIND_TEST;
  const char *p = o->kind == FL_KIND_WHERE ? "int32_t x1, T x2, T x3" : params[o->nin];
  open_helper(w, kind_of(w->f, i), o->name, s);
  fl_text_printf(w->out, "#define T %s\n#define M(f) fl_##f##_%s\n", t, s);
  fl_text_printf(w->out, "%s %s %s_%s_%s(%s) { return %s; }\n#undef T\n#undef M\n#endif\n",
                 is_call(w->f, i) ? "__device__ __noinline__" : "FN", test ? "int32_t" : t,
                 kind_of(w->f, i), o->name, s, p, o->value);
}

/* Register type that reduction i accumulates in. */
int fl_text_reduce_reg(const fl_instr *i) {
  switch (fl_ops[i->op].kind) {
    case FL_KIND_SUMS: return fl_is_float(i->dtype) ? fl_dtype_reg(i->dtype) : FL_REG_I64;
    case FL_KIND_TEST: return FL_REG_I32;
    default: return fl_dtype_reg(i->from);
  }
}

static void positions(text_writer *w, int op, const char *s, const char *t) {
  const int most = op == FL_OP_argmax;
  fl_text_printf(w->out, "struct R_%s_%s {\n  typedef placed<%s> A;\n", fl_ops[op].name, s, t);
  fl_text_printf(w->out,
                 "  static FN A start() { A a = { fl_%s_%s(), 0x7fffffffffffffff }; return a; }\n",
                 most ? "lowest" : "highest", s);
  fl_text_puts(w->out,
    "  static FN A join(A a, A b) {\n"
    "    const bool na = a.v != a.v, nb = b.v != b.v;\n");
  fl_text_printf(w->out, "    const bool better = nb ? !na : !na && b.v %s a.v;\n",
                 most ? ">" : "<");
  fl_text_puts(w->out,
    "    const bool tie = (na && nb) || a.v == b.v;\n"
    "    return better || (tie && b.at < a.at) ? b : a;\n  }\n};\n");
}

static void reduce_struct(text_writer *w, int op, int reg) {
  const fl_op_info *o = &fl_ops[op];
  const char *s = fl_text_suffix(reg), *t = fl_text_ctype(reg);
  open_helper(w, "R", o->name, s);
  fl_text_printf(w->out, "#define T %s\n#define M(f) fl_##f##_%s\n", t, s);
  const char *join = o->value;
  if (reg == FL_REG_F32 && op == FL_OP_amax) join = "max_f32(a, b)";
  if (reg == FL_REG_F32 && op == FL_OP_amin) join = "min_f32(a, b)";
  if (o->kind == FL_KIND_POSITION) positions(w, op, s, t);
  else fl_text_printf(w->out, "struct R_%s_%s {\n  typedef T A;\n"
                      "  static FN A start() { return %s; }\n"
                      "  static FN A join(A a, A b) { return %s; }\n};\n", o->name, s, o->init,
                      join);
  fl_text_puts(w->out, "#undef T\n#undef M\n#endif\n");
}

/* The register type of a draw's bounds, and the end of its function's name. */
static int draw_reg(const fl_instr *i) {
  return i->op == FL_OP_randint ? FL_REG_I64 : fl_dtype_reg(i->dtype);
}

static const char *draw_suffix(const fl_instr *i) {
  return i->op == FL_OP_uniform ? fl_dtype_name(i->dtype) : fl_text_suffix(draw_reg(i));
}

/* Writes the function that is called for a draw. */
static void draw_function(text_writer *w, const fl_instr *i) {
  const char *name = fl_ops[i->op].name, *s = draw_suffix(i), *t = fl_text_ctype(draw_reg(i));
  open_helper(w, "call", name, s);
  fl_text_printf(w->out, "__device__ __noinline__ %s call_%s_%s(int64_t i, uint64_t base, "
                 "uint64_t seed, %s a, %s b) { return fl_random_%s_%s(i, base, seed, a, b); }\n"
                 "#endif\n", t, name, s, t, t, name, s);
}

void fl_text_helpers(text_writer *w) {
  const fl_kernel *k = w->f->k;
  uint8_t done[FL_OP_COUNT][FLAME_DTYPE_COUNT] = { { 0 } };     /* by register type, or dtype */
  for (int v = 0; v < k->ninstr; v++) {
    const fl_instr *i = &k->instr[v];
    const int reduce = i->code == FL_I_REDUCE, draw = i->code == FL_I_RANDOM && is_call(w->f, i);
    if (i->code != FL_I_OP && !reduce && !draw) continue;
    const int reg = reduce ? fl_text_reduce_reg(i) : fl_dtype_reg(i->from);
    if (done[i->op][draw ? i->dtype : reg]++) continue;
    if (reduce) reduce_struct(w, i->op, reg);
    else if (draw) draw_function(w, i);
    else op_function(w, i, reg);
  }
}

void fl_text_reducer(text_writer *w, int v) {
  const fl_instr *i = &w->f->k->instr[v];
  fl_text_printf(w->out, "R_%s_%s", fl_ops[i->op].name, fl_text_suffix(fl_text_reduce_reg(i)));
}

/* Writes the element that reduction v takes: its input in the accumulator's type. */
void fl_text_reduce_input(text_writer *w, int v, const char *position) {
  const fl_instr *i = &w->f->k->instr[v];
  const int kind = fl_ops[i->op].kind;
  if (kind == FL_KIND_POSITION) {
    fl_text_printf(w->out, "placed<%s>{ v%d, %s }", fl_text_ctype(fl_text_reduce_reg(i)), i->a,
                   position);
  } else if (kind == FL_KIND_TEST) {
    fl_text_printf(w->out, "(int32_t)(v%d != 0)", i->a);
  } else fl_text_printf(w->out, "(%s)v%d", fl_text_ctype(fl_text_reduce_reg(i)), i->a);
}

/* Writes "const T v7 = …;" from the combined accumulator. */
void fl_text_reduce_result(text_writer *w, int v, const char *joined) {
  const fl_instr *i = &w->f->k->instr[v];
  const char *t = fl_text_ctype(fl_dtype_reg(i->dtype));
  fl_text_printf(w->out, "const %s v%d = ", t, v);
  if (fl_ops[i->op].kind == FL_KIND_POSITION)
    fl_text_printf(w->out, "(%s)(%s.at + 1);\n", t, joined);
  else if (i->dtype == FLAME_F16 || i->dtype == FLAME_BF16)
    fl_text_printf(w->out, "round_%s(%s);\n", fl_dtype_name(i->dtype), joined);
  else if (fl_dtype_reg(i->dtype) == FL_REG_I32)
    fl_text_printf(w->out, "fl_round_%s((int32_t)%s);\n", fl_dtype_name(i->dtype), joined);
  else fl_text_printf(w->out, "(%s)%s;\n", t, joined);
}

static int is_half(int dtype) { return dtype == FLAME_F16 || dtype == FLAME_BF16; }

/* Is v a value of a half type that is only stored? Then the store rounds it, two in one
** instruction. */
int fl_text_rounds_late(const text_form *f, int v) {
  const fl_instr *i = &f->k->instr[v];
  return is_half(i->dtype) && !f->used[v] && (i->code == FL_I_OP || i->code == FL_I_CAST);
}

/* Does the register surely hold a value that its dtype can represent? A number of the script may
** not be rounded yet. */
static int is_rounded(const text_form *f, int v) {
  const fl_instr *i = &f->k->instr[v];
  return (i->code == FL_I_OP || i->code == FL_I_CAST || i->code == FL_I_LOAD ||
          i->code == FL_I_GATHER || i->code == FL_I_REDUCE) &&
         !fl_text_rounds_late(f, v);
}

void fl_text_out(text_writer *w, int o, int v) {
  const text_form *f = w->f;
  const int dtype = f->k->operand[o].dtype;
  const char *how = dtype == FLAME_BF16 && is_rounded(f, v) ? "bits" : "out";
  fl_text_printf(w->out, "%s_%s(v%d)", how, fl_dtype_name(dtype), v);
}

/* ---- addresses ------------------------------------------------------------------------------ */

void fl_text_offset(text_writer *w, int o) {
  const text_form *f = w->f;
  int any = 0;
  for (int d = 0; d < f->ndim; d++) {
    if (f->zero[o] >> d & 1) continue;
    fl_text_puts(w->out, any++ ? " + " : "");
    if (d == f->inner && w->plus) fl_text_printf(w->out, "(c%d + %s)", d, w->plus);
    else fl_text_printf(w->out, "c%d", d);
    if (f->stride[o][d]) fl_text_printf(w->out, " * w[%d]", f->stride[o][d]);
  }
  if (!any) fl_text_puts(w->out, "0");
}

void fl_text_coords(text_writer *w, int from, int to, const char *index) {
  const text_form *f = w->f;
  const char *t = f->wide ? "s8" : "unsigned";
  if (to - from <= 0) return;
  if (to - from == 1) {
    fl_text_printf(w->out, "const long long c%d = %s;\n", from, index);
    return;
  }
  fl_text_printf(w->out, "const %s x%d = (%s)(%s);\n", t, to, t, index);
  for (int d = to - 1; d > from; d--) {
    if (f->wide) fl_text_printf(w->out, "const s8 x%d = x%d / (s8)w[%d];\n", d, d + 1, f->size[d]);
    else
      fl_text_printf(w->out, "const unsigned x%d = divide(x%d, w[%d]);\n", d, d + 1, f->magic[d]);
    fl_text_printf(w->out, "const long long c%d = x%d - x%d * (%s)w[%d];\n", d, d + 1, d, t,
                   f->size[d]);
  }
  fl_text_printf(w->out, "const long long c%d = x%d;\n", from, from + 1);
}

void fl_text_pointers(text_writer *w) {
  const text_form *f = w->f;
  for (int o = 0; o < f->k->noperand; o++) {
    if (!f->memory[o]) continue;
    const char *s = fl_text_storage(f->k->operand[o].dtype);
    fl_text_printf(w->out, "%s *const p%d = (%s *)w[%d];\n", s, o, s, f->ptr[o]);
  }
}

int fl_text_packed(const text_form *f, int v) {
  const fl_instr *i = &f->k->instr[v];
  if (i->code == FL_I_LOAD) return f->vary[v] == V_UNIFORM || f->vary[v] == V_ELEMENT;
  return i->code == FL_I_GATHER && f->cls == C_MAP && f->vary[i->a] <= V_UNIFORM &&
         f->vary[v] != V_CONST;
}

void fl_text_packs(text_writer *w, const uint8_t *need, int vector, const char *count) {
  const text_form *f = w->f;
  for (int v = 0; v < f->k->ninstr; v++) {
    if (!need[v] || !fl_text_packed(f, v)) continue;
    const int n = f->vary[v] == V_UNIFORM ? 1 : vector;
    fl_text_printf(w->out, "pack<%s, %d> l%d[%s] = {};\n", fl_text_storage(f->k->instr[v].dtype), n,
                   v, count);
  }
}

/* ---- values ---------------------------------------------------------------------------------- */

/* If a value of 'dtype' is wider in its register, writes "round_x(" and returns 1. */
static int open_round(text_writer *w, int dtype) {
  if (is_half(dtype)) fl_text_printf(w->out, "round_%s(", fl_dtype_name(dtype));
  else if (fl_dtype_reg(dtype) == FL_REG_I32 && dtype != FLAME_I32)
    fl_text_printf(w->out, "fl_round_%s(", fl_dtype_name(dtype));
  else return 0;
  return 1;
}

static void op_value(text_writer *w, int v) {
  const fl_instr *i = &w->f->k->instr[v];
  const fl_op_info *o = &fl_ops[i->op];
  const uint16_t in[3] = { i->a, i->b, i->c };
  if (i->op == FL_OP_bitwise_not && i->from == FLAME_BOOL) {
    fl_text_printf(w->out, "!v%d", i->a);
    return;
  }
  const int n = o->nin;
  assert(n <= 3);
  const int plain = o->kind == FL_KIND_TEST || fl_text_rounds_late(w->f, v);
  const int closed = plain ? 0 : open_round(w, i->dtype);
  fl_text_printf(w->out, "%s_%s_%s(", kind_of(w->f, i), o->name,
                 fl_text_suffix(fl_dtype_reg(i->from)));
  for (int a = 0; a < n; a++) fl_text_printf(w->out, a ? ", v%d" : "v%d", in[a]);
  fl_text_puts(w->out, closed ? "))" : ")");
}

/* Writes a cast to the same dtype, which rounds a number of the script when it fills a tensor. */
static void round_value(text_writer *w, const fl_instr *i) {
  const int closed = !is_rounded(w->f, i->a) && open_round(w, i->dtype);
  fl_text_printf(w->out, closed ? "v%d)" : "v%d", i->a);
}

static void cast_value(text_writer *w, int v) {
  const fl_instr *i = &w->f->k->instr[v];
  if (i->from == i->dtype) round_value(w, i);
  else if (fl_text_rounds_late(w->f, v)) fl_text_printf(w->out, "(float)v%d", i->a);
  else if (is_half(i->dtype))
    fl_text_printf(w->out, "round_%s((float)v%d)", fl_dtype_name(i->dtype), i->a);
  else fl_text_printf(w->out, "fl_cast_%s_%s(v%d)", fl_text_suffix(fl_dtype_reg(i->from)),
                      fl_dtype_name(i->dtype), i->a);
}

/* Writes a scalar: 'word' holds its bits or, in a launch of several instances, its index among the
** plan's scalars. */
static void scalar_bits(text_writer *w, int word) {
  fl_text_printf(w->out, w->f->multi ? "scalars[w[%d]]" : "w[%d]", word);
}

static void scalar_value(text_writer *w, const fl_instr *i, int word) {
  fl_text_printf(w->out, "(%s)", fl_text_ctype(fl_dtype_reg(i->dtype)));
  if (fl_is_float(i->dtype)) fl_text_puts(w->out, "__longlong_as_double(");
  scalar_bits(w, word);
  if (fl_is_float(i->dtype)) fl_text_puts(w->out, ")");
}

static void random_value(text_writer *w, const fl_instr *i, int word) {
  const int whole = i->op == FL_OP_randint;
  const char *t = fl_text_ctype(draw_reg(i));
  int closed = i->op == FL_OP_uniform ? 0 : !whole && open_round(w, i->dtype);
  if (whole) fl_text_printf(w->out, "fl_cast_i64_%s(", fl_dtype_name(i->dtype)), closed = 1;
  fl_text_printf(w->out, "%s_%s_%s(v%d, (uint64_t)", is_call(w->f, i) ? "call" : "fl_random",
                 fl_ops[i->op].name, draw_suffix(i), i->a);
  scalar_bits(w, word);
  fl_text_puts(w->out, ", (uint64_t)");
  scalar_bits(w, word + 1);
  fl_text_printf(w->out, ", (%s)v%d, (%s)v%d)%s", t, i->b, t, i->c, closed ? ")" : "");
}

static void memory_value(text_writer *w, int v) {
  const text_form *f = w->f;
  const fl_instr *i = &f->k->instr[v];
  fl_text_printf(w->out, "in_%s(", fl_dtype_name(i->dtype));
  if (w->slot && fl_text_packed(f, v)) fl_text_printf(w->out, "l%d%s.get(%s))", v, w->slot,
                                                      f->vary[v] == V_UNIFORM ? "0" : "q");
  else {
    fl_text_printf(w->out, "p%d[", i->arg);
    fl_text_offset(w, i->arg);
    if (i->code == FL_I_GATHER) fl_text_printf(w->out, " + v%d * w[%d]", i->a, f->gather[i->arg]);
    fl_text_puts(w->out, "])");
  }
}

/* Writes the index of a random draw. If a vector's four draws come from one block of the generator,
** the low two bits are written as 'q & 3', so that the compiler sees that the block is the same. */
static void iota_value(text_writer *w, int o) {
  const text_form *f = w->f;
  const char *plus = w->plus;
  const int quad = f->quad[o] && plus;
  if (quad) fl_text_puts(w->out, "((");
  fl_text_printf(w->out, "w[%d] + ", f->ptr[o]);
  if (quad) w->plus = "(q & ~3)";
  fl_text_offset(w, o);
  w->plus = plus;
  if (quad) fl_text_puts(w->out, ") & ~3ll | (q & 3))");
}

int fl_text_hit(const text_form *f, int v) {
  const fl_instr *i = &f->k->instr[v], *x = &f->k->instr[i->a], *at = &f->k->instr[x->a];
  return i->code == FL_I_OP && i->op == FL_OP_eq && i->from == FLAME_I32 && f->k->nred == 1 &&
         f->vary[i->b] <= V_KEPT && x->code == FL_I_CAST && at->code == FL_I_IOTA &&
         f->in[at->arg] == 1 && !f->quad[at->arg];
}

void fl_text_target(text_writer *w, int v) {
  const fl_instr *i = &w->f->k->instr[v];
  char first[40];
  snprintf(first, sizeof first, "base + lane * %d", w->f->vector);
  fl_text_printf(w->out, "int32_t t%d;\n{\n", v);
  fl_text_coords(w, w->f->k->nkept, w->f->ndim, first);
  fl_text_printf(w->out, "t%d = (int32_t)((uint32_t)v%d - (uint32_t)(", v, i->b);
  iota_value(w, w->f->k->instr[w->f->k->instr[i->a].a].arg);
  fl_text_puts(w->out, "));\n}\n");
}

void fl_text_value(text_writer *w, int v) {
  const text_form *f = w->f;
  const fl_instr *i = &f->k->instr[v];
  fl_text_printf(w->out, "const %s v%d = ", fl_text_ctype(fl_dtype_reg(i->dtype)), v);
  if (w->cached && w->cached[v] && f->persist)
    fl_text_printf(w->out, "k%d[j * %d + q]", v, f->vector);
  else if (w->cached && w->cached[v])
    fl_text_printf(w->out, "in_%s(k%d.get(q))", fl_text_suffix(fl_dtype_reg(i->dtype)), v);
  else switch (i->code) {
    case FL_I_LOAD: case FL_I_GATHER: memory_value(w, v); break;
    case FL_I_IOTA: iota_value(w, i->arg); break;
    case FL_I_SCALAR: scalar_value(w, i, f->scalar[v]); break;
    case FL_I_OP:
      if (w->hits && fl_text_hit(f, v))
        fl_text_printf(w->out, "t%d == j * %d + q", v, f->lanes * f->vector);
      else op_value(w, v);
      break;
    case FL_I_CAST: cast_value(w, v); break;
    case FL_I_INDEX:
      /* a thread without a row repeats the last one and must report nothing: the values of that row
      ** may have been overwritten in place by then */
      fl_text_printf(w->out, "position(v%d, v%d, %d, %d, %sw[%d]%s, w[%d], v%d)", i->a, i->b,
                     i->op & FL_INDEX_NEGATIVE ? 1 : 0, i->op & FL_INDEX_IGNORE ? 1 : 0,
                     f->cls == C_GROUP ? "on ? " : "", W_FAULT, f->cls == C_GROUP ? " : 0" : "",
                     f->site[v], i->c);
      break;
    default: random_value(w, i, f->scalar[v]); break;
  }
  fl_text_puts(w->out, ";\n");
}

void fl_text_values(text_writer *w, const uint8_t *need, int low, int high) {
  const text_form *f = w->f;
  for (int v = 0; v < f->k->ninstr; v++) {
    if (need[v] && f->vary[v] >= low && f->vary[v] <= high &&
        f->k->instr[v].code != FL_I_REDUCE) fl_text_value(w, v);
  }
}
