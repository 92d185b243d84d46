/*
** Bits of real numbers. A derivative is lost where a real number is taken apart into bits from
** which another one is made, so such kernels are refused (fl_kad_refuse_bits). What the bits decide
** otherwise, as indices and in comparisons, has no derivative. Bits that are only handed on are
** real numbers still:
**   int id = __float_as_int(v[4 * i + 3]);   …   out[4 * i + 3] = __int_as_float(id);
** Each such integer variable gets a twin, the real number with these bits (fl_kad_twin_bits).
*/
#include "kernel/ad/ad_state.h"

typedef struct bits {
  fl_kad_state *d;
  uint8_t *of_real;          /* by variable: a level (see 'holds') */
  int32_t *twin;             /* by variable: 1 + its twin; 0: it has none */
  int n_twins, changed, found;
  int line;
} bits;

static int is_bits(const fl_kexpr *x) {
  return x->kind == FL_KX_CALL && fl_kbuiltins[x->op].rule == FL_KBR_BITS;
}

/* ---- twins ------------------------------------------------------------------------------ */

fl_kexpr *fl_kad_stripped(fl_kexpr *x) {
  while (x->kind == FL_KX_CAST && fl_kt_is_int(x->type) && fl_kt_is_int(x->x[0]->type) &&
         fl_kt_size(x->type) == fl_kt_size(x->x[0]->type)) x = x->x[0];
  return x;
}

/* Is x a call that makes a real number of the bits of an integer of the same size (to_real), or the
** bits of a real number? */
static int is_whole(const fl_kexpr *x, int to_real) {
  if (x->kind != FL_KX_CALL) return 0;
  switch (x->op) {
  case FL_KB_BITS_FLOAT: case FL_KB_UBITS_FLOAT: case FL_KB_BITS_DOUBLE: return to_real;
  case FL_KB_FLOAT_BITS: case FL_KB_FLOAT_UBITS: case FL_KB_DOUBLE_BITS: return !to_real;
  default: return 0;
  }
}

fl_kexpr *fl_kad_real_of_bits(fl_kexpr *x) {
  x = fl_kad_stripped(x);
  return is_whole(x, 0) ? x->x[0] : NULL;
}

fl_kexpr *fl_kad_bits_of(fl_kexpr *x) {
  return is_whole(x, 1) ? fl_kad_stripped(x->x[0]) : NULL;
}

static int real_of(int type) { return fl_kt_size(type) == 8 ? FL_KT_F64 : FL_KT_F32; }

/* Gives a twin to each variable that x hands on. */
static void want(bits *b, fl_kexpr *x) {
  x = fl_kad_stripped(x);
  b->found |= is_whole(x, 0);
  if (x->kind == FL_KX_SELECT) {
    want(b, x->x[1]);
    want(b, x->x[2]);
  }
  if (x->kind != FL_KX_VAR || x->var >= b->n_twins || b->twin[x->var]) return;
  b->twin[x->var] = 1 + fl_kad_local(b->d, real_of(x->type), fl_kad_name(b->d, "real_", x->var));
  b->changed = 1;
}

static int see_wanted(void *arg, fl_kexpr *x) {
  if (is_whole(x, 1)) want(arg, x->x[0]);
  return 1;
}

static int see_handed_on(void *arg, fl_kstmt *s) {
  bits *b = arg;
  if (s->kind == FL_KS_ASSIGN && s->var < b->n_twins && b->twin[s->var]) want(b, s->x[0]);
  return 1;
}

/* The real number with the bits x. */
static fl_kexpr *real(bits *b, fl_kexpr *x) {
  fl_karena *a = b->d->a;
  const int type = real_of(x->type);
  x = fl_kad_stripped(x);
  if (is_whole(x, 0)) return fl_kexpr_cast(a, type, x->x[0]);
  if (x->kind == FL_KX_VAR && x->var < b->n_twins && b->twin[x->var])
    return kx_var(b->d, b->twin[x->var] - 1);
  if (x->kind == FL_KX_SELECT)
    return fl_kexpr_select(a, x->x[0], real(b, x->x[1]), real(b, x->x[2]));
  const int whole = type == FL_KT_F64 ? FL_KT_I64 : FL_KT_I32;
  x = fl_kexpr_cast(a, whole, x);
  return fl_kexpr_call(a, type == FL_KT_F64 ? FL_KB_BITS_DOUBLE : FL_KB_BITS_FLOAT, type, 1, &x);
}

/* x with twins in place of the real numbers that are made of their bits. */
static fl_kexpr *with_twins(void *arg, fl_kexpr *x) {
  bits *b = arg;
  const fl_kexpr *of = is_whole(x, 1) ? fl_kad_stripped(x->x[0]) : NULL;
  if (of && (of->kind == FL_KX_SELECT || is_whole(of, 0) ||
             (of->kind == FL_KX_VAR && of->var < b->n_twins && b->twin[of->var])))
    return real(b, x->x[0]);
  return fl_kexpr_mapped(b->d->a, x, with_twins, b);
}

static void set_twin(bits *b, fl_kblock *out, int32_t var, fl_kexpr *x) {
  if (var >= 0 && var < b->n_twins && b->twin[var]) kx_set(b->d, out, b->twin[var] - 1, real(b, x));
}

static fl_kblock rewritten(bits *b, fl_kblock in) {
  fl_kad_state *d = b->d;
  fl_kblock out = {NULL, NULL};
  for (fl_kstmt *s; !d->a->failed && (s = fl_kblock_take(&in));) {
    for (int i = 0; i < 4; i++) if (s->x[i]) s->x[i] = with_twins(b, s->x[i]);
    s->body = rewritten(b, s->body);
    s->other = rewritten(b, s->other);
    if (s->kind == FL_KS_ASSIGN) set_twin(b, &out, s->var, s->x[0]);
    fl_kblock_put(&out, s);
    if (s->result < 0 || s->result >= b->n_twins || !b->twin[s->result]) continue;
    const int32_t twin = b->twin[s->result];
    b->twin[s->result] = 0;                                 /* its bits are those of the integer */
    kx_set(d, &out, twin - 1, real(b, kx_var(d, s->result)));
    b->twin[s->result] = twin;
  }
  return out;
}

static fl_kblock twins_of_parameters(bits *b) {
  fl_kblock out = {NULL, NULL};
  for (int v = 0; v < b->n_twins; v++) {
    const int32_t twin = b->twin[v];
    if (!twin || b->d->f->vars[v].param < 0) continue;
    b->twin[v] = 0;
    kx_set(b->d, &out, twin - 1, real(b, kx_var(b->d, v)));
    b->twin[v] = twin;
  }
  return out;
}

void fl_kad_twin_bits(fl_kad_state *d) {
  bits b = {.d = d, .n_twins = d->f->n_vars};
  const fl_kvisitor wanted = {NULL, see_wanted, &b}, handed_on = {see_handed_on, NULL, &b};
  b.twin = fl_karena_new(d->a, ((size_t)b.n_twins + 1) * sizeof *b.twin);
  if (!b.twin) return;
  fl_kwalk_block(&wanted, d->body);
  while (b.changed) {
    b.changed = 0;
    fl_kwalk_block(&handed_on, d->body);
  }
  if (!b.found || d->a->failed) return;
  fl_kblock body = rewritten(&b, d->body);
  d->body = twins_of_parameters(&b);
  fl_kblock_append(&d->body, body);
  d->f->body = d->body;
}

/* ---- arrays ------------------------------------------------------------------------------ */

fl_kexpr *fl_kad_bits_of_real(const fl_kad_state *d, int type, fl_kexpr *x) {
  const int wide = fl_kt_size(type) == 8;
  x = fl_kexpr_call(d->a, wide ? FL_KB_DOUBLE_BITS : FL_KB_FLOAT_BITS, wide ? FL_KT_I64 : FL_KT_I32,
                    1, &x);
  return fl_kexpr_cast(d->a, type, x);
}

/* by variable: 1: an atomic of bits changes it; 2: something else is stored */
typedef struct arrays { fl_kad_state *d; uint8_t *is; } arrays;

static int see_stored(void *arg, fl_kstmt *s) {
  arrays *w = arg;
  if (!fl_kwrites(s)) return 1;
  const int whole = fl_kad_real_of_bits(s->x[1]) != NULL && !s->accumulate && s->result < 0;
  const int atomic = s->kind == FL_KS_ATOMIC;
  w->is[s->var] |= atomic ? 1 : 0;
  if (!whole && (atomic || s->x[1]->kind != FL_KX_CONST || s->accumulate)) w->is[s->var] |= 2;
  return 1;
}

static fl_kexpr *with_reals(void *arg, fl_kexpr *x) {
  const arrays *w = arg;
  const int to_real = is_whole(x, 1);
  fl_kexpr *of = to_real ? fl_kad_stripped(x->x[0]) : x;
  if (of->kind != FL_KX_LOAD || w->is[of->var] != 1)
    return fl_kexpr_mapped(w->d->a, x, with_reals, (void *)(uintptr_t)w);
  const int type = of->type;
  fl_kexpr *r = fl_kexpr_mapped(w->d->a, of, with_reals, (void *)(uintptr_t)w);
  if (r == of) r = fl_kexpr_over(w->d->a, of, of->x);
  if (!r) return x;
  r->type = (uint8_t)real_of(type);
  return to_real ? r : fl_kad_bits_of_real(w->d, type, r);
}

static int see_reals(void *arg, fl_kstmt *s) {
  const arrays *w = arg;
  for (int i = 0; i < 4; i++)
    if (s->x[i]) s->x[i] = with_reals(arg, s->x[i]);
  if (!fl_kwrites(s) || w->is[s->var] != 1) return 1;
  if (s->kind == FL_KS_ATOMIC) {
    s->as = w->d->f->vars[s->var].type;
    return 1;
  }
  bits b = {.d = w->d};
  s->x[1] = real(&b, s->x[1]);
  return 1;
}

void fl_kad_real_arrays(fl_kad_state *d) {
  arrays w = {d, fl_karena_new(d->a, (size_t)d->f->n_vars + 1)};
  int any = 0;
  if (!w.is) return;
  fl_kwalk_block(&(fl_kvisitor){see_stored, NULL, &w}, d->f->body);
  for (int v = 0; v < d->f->n_vars; v++) {
    const fl_kvar *x = &d->f->vars[v];
    if (x->kind != FL_KV_SHARED || x->dynamic || !fl_kt_is_int(x->type) || fl_kt_size(x->type) < 4)
      w.is[v] = 0;
    any |= w.is[v] == 1;
  }
  if (!any) return;
  fl_kwalk_block(&(fl_kvisitor){see_reals, NULL, &w}, d->f->body);
  for (int v = 0; v < d->f->n_vars; v++)
    if (w.is[v] == 1) d->f->vars[v].type = (uint8_t)real_of(d->f->vars[v].type);
  d->body = d->f->body;
}

/* ---- refusal ---------------------------------------------------------------------------- */

/* How a value depends on bits of real numbers that have a derivative. WHOLE: by steps that keep
** what the last bits say, so that it has a slope where it is taken for a number, as in a logarithm
** by (float)__float_as_int(v) * c. MIXED: in another way; a number by value of MIXED bits is a
** staircase (of the exponent) or noise (a hash), whose slope is 0. */
enum { MIXED = 1, WHOLE };

static int holds(const bits *b, const fl_kexpr *x);
static int mixed(int level) { return level ? MIXED : 0; }

/* How x0 op x1, of integers, depends on such bits (MIXED, WHOLE; 0: not). A shift that leaves FEW
** bits of the fraction leaves a staircase; a mask that keeps none of it, or no more than its last
** bits (a colour that is packed in a number), noise. The fraction has 52 bits, or 23, of which the
** upper half of a double has 20. */
static int binary_holds(const bits *b, const fl_kexpr *x) {
  enum { FEW = 7, LAST = 12 };
  const int first = holds(b, x->x[0]), second = holds(b, x->x[1]),
            level = first > second ? first : second, wide = fl_kt_size(x->type) == 8;
  const int64_t kept = ((int64_t)1 << (wide ? 52 : 20)) - ((int64_t)1 << LAST);
  const fl_kexpr *c = x->x[1]->kind == FL_KX_CONST ? x->x[1] : x->x[0];
  const int known = c->kind == FL_KX_CONST;
  switch (x->op) {
  case FL_KO_ADD: case FL_KO_SUB: case FL_KO_OR: return level;
  case FL_KO_AND: return known && !(c->value.i & kept) ? mixed(level) : level;
  case FL_KO_SHR:
    return known && c->value.i >= (wide ? 52 : 23) - FEW ? mixed(level) : level;
  default: return mixed(level);
  }
}

static int cast_holds(const bits *b, const fl_kexpr *x) {
  const fl_kexpr *from = x->x[0];
  const int level = holds(b, from);
  if (fl_kt_is_float(from->type)) return fl_kt_is_float(x->type) ? level : 0;
  if (fl_kt_is_float(x->type)) return level == WHOLE ? WHOLE : 0;
  return fl_kt_size(x->type) < fl_kt_size(from->type) ? mixed(level) : level;
}

/* Conditions, indices, and real numbers taken for integers pass nothing on. */
static int holds(const bits *b, const fl_kexpr *x) {
  if (x->kind == FL_KX_VAR || x->kind == FL_KX_LOAD) return b->of_real[x->var];
  if (x->type == FL_KT_BOOL) return 0;
  if (x->kind == FL_KX_CAST) return cast_holds(b, x);
  if (x->kind == FL_KX_BINARY && fl_kt_is_int(x->type)) return binary_holds(b, x);
  int level = 0;
  for (int i = x->kind == FL_KX_SELECT; i < x->n; i++) {
    const int of = is_bits(x) && fl_kad_flows(b->d->varied, x->x[i]) ? WHOLE : holds(b, x->x[i]);
    if (of > level) level = of;
  }
  return x->kind == FL_KX_CALL && !is_bits(x) && fl_kt_is_int(x->type) ? mixed(level) : level;
}

static void mark(bits *b, int32_t var, int level, const fl_kstmt *s) {
  if (var < 0 || b->of_real[var] >= level) return;
  b->of_real[var] = (uint8_t)level;
  b->changed = 1;
  if (fl_kt_is_float(b->d->f->vars[var].type) && b->d->useful[var] && !b->line)
    b->line = s->line ? s->line : 1;
}

static int see_holder(void *arg, fl_kstmt *s) {
  bits *b = arg;
  const fl_kad_state *d = b->d;
  const fl_kexpr *value = fl_kad_value_of(s);
  if (value) mark(b, fl_kad_target_of(s), holds(b, value), s);
  if (s->kind == FL_KS_ATOMIC && s->result >= 0 &&
      (b->of_real[s->var] || (s->as && fl_kt_is_float(d->f->vars[s->var].type) &&
                              d->varied[s->var]))) mark(b, s->result, WHOLE, s);
  return 1;
}

/* Finds an atomic that treats real numbers in memory as bits, or memory as real numbers. */
static int see_seen(void *arg, fl_kstmt *s) {
  bits *b = arg;
  if (s->kind != FL_KS_ATOMIC || !s->as) return 1;
  const int real = fl_kt_is_float(b->d->f->vars[s->var].type);
  const int flows = fl_kad_flows(b->d->varied, s->x[1]);
  if (b->line) return 1;
  if (flows || (real && (b->d->varied[s->var] || holds(b, s->x[1])))) b->line = s->line;
  return 1;
}

/* Finds the line where a real number with a derivative is first taken apart. */
static int see_apart(void *arg, fl_kexpr *x) {
  bits *b = arg;
  if (!is_bits(x) || fl_kt_is_float(x->type) || !fl_kad_flows(b->d->varied, x->x[0])) return 1;
  b->line = x->line ? x->line : b->line;
  return !(b->found = 1);
}

static int see_first(void *arg, fl_kstmt *s) {
  const fl_kvisitor apart = {NULL, see_apart, arg};
  if (!((bits *)arg)->found) fl_kwalk_operands(&apart, s);
  return 1;
}

void fl_kad_refuse_bits(fl_kad_state *d) {
  bits b = {.d = d, .changed = 1, .of_real = fl_karena_new(d->a, (size_t)d->f->n_vars + 1)};
  const fl_kvisitor holders = {see_holder, NULL, &b}, seen = {see_seen, NULL, &b},
                    first = {see_first, NULL, &b};
  while (b.of_real && b.changed) {
    b.changed = 0;
    fl_kwalk_block(&holders, d->body);
  }
  if (!b.of_real) return;
  fl_kwalk_block(&seen, d->body);
  if (b.line) fl_kwalk_block(&first, d->body);
  if (b.line) fl_kad_refuse(d, b.line, "the bits of a real number");
}
