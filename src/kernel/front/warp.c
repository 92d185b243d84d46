/*
** Calls that are statements: atomics, barriers, shuffles, votes, printf, assert; and functions that
** are conversions, roundings to integers, or arithmetic of halves.
*/
#include "kernel/front/forms.h"
#include "kernel/front/number.h"
#include <assert.h>
#include <string.h>

static int no_block(fl_front *p, const fl_ktok *t) {
  if (p->b && p->f) return 0;
  fl_refuse(p, t->line, "%.*s in a constant expression", (int)t->n, t->text);
  return 1;
}

fl_cvalue fl_refuse_count(fl_front *p, const fl_ktok *t, int want, int n) {
  return fl_val_refuse(p, t->line, "%.*s takes %d argument%s, %d given", (int)t->n, t->text, want,
                       FL_S(want), n);
}

/* ---- atomics --------------------------------------------------------------------------------- */

/* Can the atomic 'op' be called for this type? As in CUDA, except that I64 is allowed wherever U64
** is, and that atomicCAS of 16 bits is not. */
static int atomic_type_ok(int op, int type) {
  const int word = type == FL_KT_I32 || type == FL_KT_U32,
            wide = type == FL_KT_I64 || type == FL_KT_U64;
  switch (op) {
    case FL_KA_ADD: return word || wide || fl_kt_is_float(type);
    case FL_KA_EXCH: return word || wide || type == FL_KT_F32;
    case FL_KA_INC: case FL_KA_DEC: return type == FL_KT_U32;
    case FL_KA_SUB: return word;
    default: return word || wide;
  }
}

/* The functions that the text of a derived kernel in a saved program calls for its sums, by
** fl_kmode (fl_ktext_saved). */
static const char *const sums[] = { [FL_KM_WARP] = "fl_warp_add",
                                    [FL_KM_ORDERED] = "fl_ordered_add",
                                    [FL_KM_BLOCK] = "fl_ordered_block_add" };
enum { SUMS = sizeof sums / sizeof *sums };

int fl_atomic_known(const fl_ktok *t) {
  fl_ktok base = *t;
  if (fl_ktok_among(t, sums, SUMS) >= 0) return FL_KA_ADD;
  if (t->n > 6 && !memcmp(t->text + t->n - 6, "_block", 6)) base.n -= 6;
  else if (t->n > 7 && !memcmp(t->text + t->n - 7, "_system", 7)) base.n -= 7;
  return fl_ktok_among(&base, fl_katomic_text, FL_KA_COUNT);
}

/* Emits an atomic on the element that 'at' points to. Returns its result, or NULL if that is unused
** or the text refused. sum: fl_kmode of a function in 'sums', or -1. given: the operands. */
static fl_kexpr *atomic_at(fl_front *p, const fl_ktok *t, int op, int sum, fl_cvalue at,
                           const fl_cvalue *given, int unused) {
  fl_kexpr *index = NULL, *x[2] = { NULL, NULL };
  int type = FL_KT_VOID;
  const int32_t var = p->failed ? -1 : fl_val_target(p, at, &index, &type, t->line);
  if (var < 0) return NULL;
  if (!atomic_type_ok(op, type))
    fl_refuse(p, t->line, "%s of a '%s'", fl_katomic_text[op], fl_ktypes[type].c);
  for (int i = 0; i <= (op == FL_KA_CAS); i++)
    x[i] = fl_val_convert(p, fl_val_scalar(p, given[i], t->line), type);
  if (p->failed || ++p->nodes > FL_K_MAX_NODES) return NULL;
  const int result = unused ? -1 : fl_front_temp(p, type, t->line);
  const int plain = sum == FL_KM_WARP && (!unused || type != p->f->vars[var].type ||
                                          (type != FL_KT_F32 && type != FL_KT_F64));
  fl_kstmt *s = fl_kstmt_atomic(p->f, p->b, op, sum < 0 || plain ? FL_KM_FREE : sum, var, index,
                                x[1] ? x[1] : x[0], result);
  if (!s) return NULL;
  s->line = t->line;
  if (x[1]) s->x[2] = x[0];                      /* what it is compared with */
  if (type != p->f->vars[var].type) s->as = (uint8_t)type;
  return result < 0 ? NULL : fl_kexpr_var(p->f, result);
}

/* atomicAdd of a vector: one for each of its numbers. 0: it is not of a vector of reals. */
static int add_vector(fl_front *p, const fl_ktok *t, const fl_cvalue *args, int unused,
                      fl_cvalue *out) {
  const fl_ctype *of = args[0].kind == FL_V_POINTER ? args[0].type : NULL;
  if (!of || of->kind != FL_C_STRUCT || !of->s->width || !fl_kt_is_float(of->s->element)) return 0;
  if (!args[1].type || !fl_ctype_same(args[1].type, of)) {
    fl_refuse(p, t->line, "atomicAdd of a '%s' and something else", fl_ctype_text(p->a, of));
    return 1;
  }
  fl_kexpr **v = fl_val_parts(p, args[1], t->line);
  const fl_cvalue r = fl_val_in_parts(p, of);
  const int n = v && r.parts ? of->s->width : 0;
  for (int i = 0; i < n && !p->failed; i++) v[i] = fl_val_stable(p, v[i]);
  for (int i = 0; i < n && !p->failed; i++) {
    const char *name = of->s->fields[i].name;
    const fl_cvalue x = fl_val_expr(v[i]);
    fl_cvalue at = fl_val_deref(p, args[0], t->line);
    at = fl_val_address(p, fl_val_member(p, at, name, (int32_t)strlen(name), t->line), t->line);
    r.parts[i] = atomic_at(p, t, FL_KA_ADD, -1, at, &x, unused);
  }
  if (!unused && !p->failed) *out = r;
  return 1;
}

int fl_call_atomic(fl_front *p, const fl_ktok *t, fl_cvalue *out) {
  const int op = fl_atomic_known(t);
  if (op < 0) return 0;
  *out = fl_val_none();
  const int unused = p->statement_call == p->at - 1,
            sum = unused ? fl_ktok_among(t, sums, SUMS) : -1;
  fl_cvalue args[FL_K_MAX_GIVEN];
  const int n = fl_parse_arguments(p, args, FL_K_MAX_GIVEN), want = op == FL_KA_CAS ? 3 : 2;
  if (p->failed || no_block(p, t)) return 1;
  if (n != want) { fl_refuse_count(p, t, want, n); return 1; }
  if (op == FL_KA_ADD && sum < 0 && add_vector(p, t, args, unused, out)) return 1;
  fl_kexpr *was = atomic_at(p, t, op, sum, args[0], args + 1, unused);
  if (was) *out = fl_val_expr(was);
  return 1;
}

/* ---- barriers, shuffles, votes --------------------------------------------------------------- */

static const char *const shuffles[] = { "__shfl_sync", "__shfl_up_sync",
                                        "__shfl_down_sync", "__shfl_xor_sync" };
static const char *const old_ones[] = {
  "__shfl", "__shfl_up", "__shfl_down", "__shfl_xor", "__ballot", "__any", "__all" };
static const char *const votes[] = { "__ballot_sync", "__any_sync", "__all_sync",
                                     "__activemask" };
static const char *const fences[] = { "__threadfence", "__threadfence_block",
                                      "__threadfence_system" };

static int arguments(fl_front *p, const fl_ktok *t, fl_kexpr **x, int least, int most) {
  fl_cvalue args[FL_K_MAX_GIVEN];
  const int n = fl_parse_arguments(p, args, FL_K_MAX_GIVEN);
  if (p->failed) return -1;
  if (n < least || n > most) {
    fl_refuse_count(p, t, n < least ? least : most, n);
    return -1;
  }
  for (int i = 0; i < n; i++) x[i] = fl_val_scalar(p, args[i], t->line);
  return p->failed || no_block(p, t) ? -1 : n;
}

static void barrier(fl_front *p, const fl_ktok *t, int op) {
  fl_kexpr *x[2] = { NULL, NULL };
  if (arguments(p, t, x, 0, op == FL_KBAR_WARP) < 0) return;
  fl_kstmt *s = fl_emit(p, FL_KS_BARRIER, t->line);
  if (!s) return;
  s->op = (uint8_t)op;
  if (x[0]) s->x[0] = fl_val_convert(p, x[0], FL_KT_U32);
  if (op == FL_KBAR_BLOCK) p->f->uses_barrier = 1;
  if (op == FL_KBAR_WARP) p->f->uses_warp = 1;
  if (!fl_ktok_is(t, "fl_sync_grid")) return;
  s->mode = 1;
  p->f->uses_grid = 1;
}

void fl_emit_here(fl_front *p, int32_t line) {
  fl_kstmt *s = p->failed ? NULL : fl_emit(p, FL_KS_BARRIER, line);
  if (!s) return;
  s->op = FL_KBAR_HERE;
  p->f->uses_warp = 1;
}

/* Emits a shuffle or vote with the n operands x, and returns its result. */
static fl_cvalue of_warp(fl_front *p, fl_kskind kind, int op, int type, fl_kexpr *const *x, int n,
                         int32_t line) {
  const int result = p->failed ? -1 : fl_front_temp(p, type, line);
  fl_kstmt *s = result < 0 ? NULL : fl_emit(p, kind, line);
  if (!s) return fl_val_none();
  s->op = (uint8_t)op;
  s->result = result;
  memcpy(s->x, x, (size_t)n * sizeof *x);
  p->f->uses_warp = 1;
  return fl_val_expr(fl_kexpr_var(p->f, result));
}

/* Emits a shuffle: its result is the value of x[1] in the lane that x[2] gives. */
static fl_cvalue shuffle_one(fl_front *p, const fl_ktok *t, int op, fl_kexpr **x) {
  if (!x[1]) return fl_val_none();                                            /* memory is out */
  const int lane = op == FL_KSH_UP || op == FL_KSH_DOWN ? FL_KT_U32 : FL_KT_I32;
  const int type = fl_promote_type(x[1]->type);
  const fl_kexpr *const of = x[1];
  x[0] = fl_val_convert(p, x[0], FL_KT_U32);
  x[1] = fl_val_convert(p, x[1], type);
  x[2] = fl_val_convert(p, x[2], lane);
  x[3] = x[3] ? fl_val_convert(p, x[3], FL_KT_I32) : fl_kexpr_int(p->a, FL_KT_I32, 32);
  fl_cvalue v = of_warp(p, FL_KS_SHUFFLE, op, type, x, 4, t->line);
  return v.e ? fl_val_expr(fl_val_mixed(p, v.e, of, NULL)) : v;
}

static int is_half_pair(const fl_ctype *t) {
  return t && t->kind == FL_C_STRUCT && t->s->width == 2 &&
         (t->s->element == FL_KT_F16 || t->s->element == FL_KT_BF16);
}

/* Reads a shuffle. The value may be a pair of halves, whose numbers are shuffled one by one. In
** functions of the library, such as those of cooperative groups, it may be any object, or an
** address in shared memory. */
static fl_cvalue shuffle(fl_front *p, const fl_ktok *t, int op) {
  fl_cvalue args[FL_K_MAX_GIVEN];
  fl_kexpr *x[4] = { NULL, NULL, NULL, NULL };
  const int n = fl_parse_arguments(p, args, FL_K_MAX_GIVEN);
  if (p->failed) return fl_val_none();
  if (n < 3 || n > 4) return fl_refuse_count(p, t, n < 3 ? 3 : 4, n);
  const int of_library = p->inside && !p->inside->line,
            is_object = is_half_pair(args[1].type) ||
                        (of_library && args[1].type->kind == FL_C_STRUCT);
  fl_cvalue at = args[1];
  const int is_address = of_library && at.kind == FL_V_POINTER && at.address;
  if (is_address) args[1] = fl_val_expr(fl_val_at(p, &at));
  if (is_address && fl_turn_of(p, at.var))
    fl_refuse(p, t->line, "an address in one of several arrays");
  for (int i = 0; i < n; i++)
    if (i != 1 || !is_object) x[i] = fl_val_scalar(p, args[i], t->line);
  if (p->failed || no_block(p, t)) return fl_val_none();
  if (is_address) {
    at.idx = shuffle_one(p, t, op, x).e;
    at.sym = 0;
    return at;
  }
  if (!is_object) return shuffle_one(p, t, op, x);
  fl_kexpr **part = fl_val_parts(p, args[1], t->line);
  const fl_cvalue r = fl_val_in_parts(p, args[1].type);
  for (int i = 0; i < fl_ctype_leaves(r.type) && part && r.parts && !p->failed; i++) {
    fl_kexpr *one[4] = { x[0], part[i], x[2], x[3] };
    r.parts[i] = shuffle_one(p, t, op, one).e;
  }
  return p->failed ? fl_val_none() : r;
}

static fl_cvalue vote(fl_front *p, const fl_ktok *t, int op) {
  fl_kexpr *x[2] = { NULL, NULL };
  const int n = op == FL_KVOTE_ACTIVE ? 0 : 2;
  if (arguments(p, t, x, n, n) < 0) return fl_val_none();
  const int type = op == FL_KVOTE_ANY || op == FL_KVOTE_ALL ? FL_KT_I32 : FL_KT_U32;
  if (n) {
    x[0] = fl_val_convert(p, x[0], FL_KT_U32);
    x[1] = fl_val_convert(p, x[1], FL_KT_BOOL);
  }
  return of_warp(p, FL_KS_VOTE, op, type, x, n, t->line);
}

static void assertion(fl_front *p, const fl_ktok *t) {
  fl_front_need(p, '(');
  const fl_ktok *from = fl_front_tok(p);
  fl_kexpr *c = fl_parse_condition(p);
  const fl_ktok *to = fl_front_tok(p);
  fl_front_need(p, ')');
  if (p->failed || no_block(p, t)) return;
  const int in_one_text =
      to->text > from->text && to->text - from->text < 200 && from->line == to->line;
  fl_val_must(p, c, in_one_text ? fl_karena_str(p->a, from->text, (size_t)(to->text - from->text))
                                : "condition", t->line);
}

/* __trap() is read as assert(false), and so is __assert_fail("text", file, line, function). */
static void trap(fl_front *p, const fl_ktok *t) {
  const fl_ktok *text = fl_front_ahead(p, 1);
  const int fails = text->kind == FL_TOK_STRING;
  if (fails) fl_front_skip(p);
  else { fl_front_need(p, '('); fl_front_need(p, ')'); }
  if (!p->failed)
    fl_val_must(p, fl_kexpr_int(p->a, FL_KT_BOOL, 0),
                fails ? fl_karena_str(p->a, text->text, (size_t)text->n) : "__trap()", t->line);
}

int fl_call_warp(fl_front *p, const fl_ktok *t, fl_cvalue *out) {
  int k;
  *out = fl_val_none();
  if (fl_ktok_is(t, "__syncthreads") || fl_ktok_is(t, "fl_sync_grid"))
    barrier(p, t, FL_KBAR_BLOCK);
  else if (fl_ktok_is(t, "__syncwarp")) barrier(p, t, FL_KBAR_WARP);
  else if (fl_ktok_among(t, fences, 3) >= 0) barrier(p, t, FL_KBAR_FENCE);
  else if ((k = fl_ktok_among(t, shuffles, 4)) >= 0) *out = shuffle(p, t, k);
  else if ((k = fl_ktok_among(t, votes, 4)) >= 0) *out = vote(p, t, k);
  else if (fl_ktok_among(t, old_ones, 7) >= 0)
    fl_refuse(p, t->line, "%.*s without _sync does not exist any more", (int)t->n,
              t->text);
  else if (fl_ktok_is(t, "printf")) fl_call_printf(p, t);
  else if (fl_ktok_is(t, "assert")) assertion(p, t);
  else if (fl_ktok_is(t, "__trap") || fl_ktok_is(t, "__assert_fail")) trap(p, t);
  else if (fl_ktok_is(t, "__brkpt"))
    fl_refuse(p, t->line, "__brkpt is outside the language");
  else return 0;
  return 1;
}

/* ---- half ------------------------------------------------------------------------------------ */

/* CONVERT: to type 'to'. ROUND: by builtin 'op', then converted to 'to'. OPERATE: operator 'op' of
** n numbers. COMPUTE: builtin 'op' of n halves, which is computed in f32 and rounded. */
enum { CONVERT, ROUND, OPERATE, COMPUTE };
static const struct { const char *name; uint8_t kind, n, op, to; } halves[] = {
#define TO(name, type) { name, CONVERT, 1, 0, type },
  TO("__half2float", FL_KT_F32) TO("__float2half", FL_KT_F16) TO("__float2half_rn", FL_KT_F16)
  TO("__double2half", FL_KT_F16) TO("__int2half_rn", FL_KT_F16) TO("__half2int_rz", FL_KT_I32)
  TO("__uint2half_rn", FL_KT_F16) TO("__half2uint_rz", FL_KT_U32) TO("__short2half_rn", FL_KT_F16)
  TO("__ushort2half_rn", FL_KT_F16) TO("__half2ushort_rz", FL_KT_U16)
  TO("__bfloat162float", FL_KT_F32) TO("__float2bfloat16", FL_KT_BF16)
  TO("__float2bfloat16_rn", FL_KT_BF16) TO("__double2bfloat16", FL_KT_BF16)
  TO("__double2float_rn", FL_KT_F32) TO("__half2short_rz", FL_KT_I16)
#define NUMBER(name, type) \
  TO("__" name "2float_rn", FL_KT_F32) TO("__" name "2double_rn", FL_KT_F64) \
  FROM("__float2" name, type) FROM("__double2" name, type)
#define FROM(name, type) TO(name "_rz", type) { name "_rn", ROUND, 1, FL_KB_RINT, type }, \
  { name "_rd", ROUND, 1, FL_KB_FLOOR, type }, { name "_ru", ROUND, 1, FL_KB_CEIL, type },
  NUMBER("int", FL_KT_I32) NUMBER("uint", FL_KT_U32) NUMBER("ll", FL_KT_I64)
  NUMBER("ull", FL_KT_U64)
#define LONG(name, op) { name "f", ROUND, 1, op, FL_KT_I64 }, { name, ROUND, 1, op, FL_KT_I64 },
  LONG("lrint", FL_KB_RINT) LONG("llrint", FL_KB_RINT)
  LONG("lround", FL_KB_ROUND) LONG("llround", FL_KB_ROUND)
#define TWO(name, op) { name, OPERATE, 2, op, 0 },
  TWO("__hadd", FL_KO_ADD) TWO("__hsub", FL_KO_SUB) TWO("__hmul", FL_KO_MUL)
  TWO("__hadd_rn", FL_KO_ADD) TWO("__hsub_rn", FL_KO_SUB) TWO("__hmul_rn", FL_KO_MUL)
  TWO("__hdiv", FL_KO_DIV) TWO("__hlt", FL_KO_LT) TWO("__hle", FL_KO_LE) TWO("__hgt", FL_KO_GT)
  TWO("__hge", FL_KO_GE) TWO("__heq", FL_KO_EQ) TWO("__hne", FL_KO_NE)
#define OF(name, n, op) { name, COMPUTE, n, op, 0 },
  OF("hexp", 1, FL_KB_EXP) OF("hexp2", 1, FL_KB_EXP2) OF("hlog", 1, FL_KB_LOG)
  OF("hlog2", 1, FL_KB_LOG2) OF("hsqrt", 1, FL_KB_SQRT) OF("hrsqrt", 1, FL_KB_RSQRT)
  OF("hsin", 1, FL_KB_SIN) OF("hcos", 1, FL_KB_COS) OF("htanh", 1, FL_KB_TANH)
  OF("hfloor", 1, FL_KB_FLOOR) OF("hceil", 1, FL_KB_CEIL) OF("htrunc", 1, FL_KB_TRUNC)
  OF("hrint", 1, FL_KB_RINT) OF("__habs", 1, FL_KB_FABS) OF("__hmin", 2, FL_KB_FMIN)
  OF("__hmax", 2, FL_KB_FMAX) OF("__hfma", 3, FL_KB_FMA)
  { "__hneg", OPERATE, 1, FL_KO_NEG, 0 },
};

static fl_kexpr *of_halves(fl_front *p, int k, fl_kexpr **x, int32_t line) {
  const int kind = halves[k].kind, op = halves[k].op, n = halves[k].n;
  assert(n > 0 && n <= 3 && x[0]);
  const int in = kind == ROUND && x[0]->type == FL_KT_F64 ? FL_KT_F64 : FL_KT_F32,
            to = kind == COMPUTE ? x[0]->type : halves[k].to;
  if (kind == CONVERT) return fl_val_convert(p, x[0], to);
  if (kind == OPERATE && n == 2) return fl_arith(p, op, x[0], x[1], line);
  if (kind == OPERATE) return fl_front_check(p, fl_kexpr_unary(p->a, op, x[0]));
  for (int i = 0; i < n; i++) x[i] = fl_val_convert(p, x[i], in);
  return fl_val_convert(p, fl_front_check(p, fl_kexpr_call(p->a, op, in, n, x)), to);
}

int fl_call_half(fl_front *p, const fl_ktok *t, const fl_cvalue *args, int n,
                 fl_cvalue *out) {
  enum { COUNT = sizeof halves / sizeof *halves };
  fl_kexpr *x[3] = { NULL, NULL, NULL };
  int k = 0;
  while (k < COUNT && !fl_ktok_is(t, halves[k].name)) k++;
  if (k == COUNT) return 0;
  *out = fl_val_none();
  if (n != halves[k].n) { fl_refuse_count(p, t, halves[k].n, n); return 1; }
  int all = 1;
  for (int i = 0; i < n; i++) all &= (x[i] = fl_val_scalar(p, args[i], t->line)) != NULL;
  if (all && !p->failed) *out = fl_val_expr(of_halves(p, k, x, t->line));
  return 1;
}
