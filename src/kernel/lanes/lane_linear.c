/*
** Integers that are linear in the position of a thread: u + x i + y j + z k for thread (i, j, k) of
** the block. Indices and their conditions mostly are. Such a value is computed in a few
** instructions for the whole block, and its register is written only when an operation needs the
** lanes one by one; a comparison whose result is the same for all lanes narrows no mask, and the
** lesser of two values is one of them if it is so in all lanes.
**
** fl_lane_find_linear finds, at compile time, which registers may hold such values; whether one
** does is known at run time. Values are exact: where a result may not fit into its type in every
** lane (it would wrap), or is not linear, the loops over lanes compute it.
*/
#include "kernel/lanes/lane_state.h"
#include <string.h>

/* Bound of all numbers here, so that sums do not overflow. */
#define MOST ((int64_t)1 << 46)

/* ---- at compile time ----------------------------------------------------------------- */

/* FL_LANE_SELECT, _LEAST or _MOST if p is a selection, a minimum or a maximum; 0: none of these. */
static int choice_of(const fl_lane_ins *p, int *cls) {
  for (int w = 0; w < 2; w++)
    if (p->fn == FL_LANE_FN(select[0]) + w) return FL_LANE_SELECT;
  const int low = p->fn - FL_LANE_FN(call[FL_KB_IMIN][0]),
            high = p->fn - FL_LANE_FN(call[FL_KB_IMAX][0]);
  const int is_low = low >= 0 && low < FL_LC_COUNT, is_high = high >= 0 && high < FL_LC_COUNT;
  if (is_low || is_high) *cls = is_low ? low : high;
  return is_low ? FL_LANE_LEAST : is_high ? FL_LANE_MOST : 0;
}

FL_LANE_RARE int fl_lane_linear_kind(const fl_lane_ins *p, int *cls, int *to) {
  const int ops = FL_KO_COUNT * FL_LC_COUNT, cast = p->fn - FL_LANE_FN(cast[0][0]);
  *cls = p->wide ? FL_LC_I64 : FL_LC_I32;
  *to = 0;
  if (p->op != FL_LI_EVAL) return 0;
  for (int w = 0; w < 2; w++)
    if (p->fn == FL_LANE_FN(splat[0]) + w || p->fn == FL_LANE_FN(copy[0]) + w) return FL_LANE_COPY;
  if (p->fn < ops) {
    const int op = p->fn / FL_LC_COUNT;
    *cls = p->fn % FL_LC_COUNT;
    if (*cls == FL_LC_F32 || *cls == FL_LC_F64) return 0;
    return op == FL_KO_ADD || op == FL_KO_SUB || op == FL_KO_MUL || op == FL_KO_NEG ||
           (op >= FL_KO_LT && op <= FL_KO_LOR) || op == FL_KO_NOT ? op : 0;
  }
  if (cast < 0 || cast >= FL_LC_COUNT * FL_LANE_CASTS) return choice_of(p, cls);
  *cls = cast / FL_LANE_CASTS;
  *to = cast % FL_LANE_CASTS;
  /* a cast to BOOL is a test */
  return *cls != FL_LC_F32 && *cls != FL_LC_F64 && fl_kt_is_int(*to) && *to != FL_KT_BOOL
         ? FL_LANE_CAST : 0;
}

/* Can this instruction use operands that are linear? wanted: by register, can its reader? */
static int wants(const fl_lane_ins *p, const uint8_t *wanted) {
  if (p->op == FL_LI_INDEX || p->op == FL_LI_IF || p->op == FL_LI_AND) return 1;
  if (!p->linear) return 0;
  return (p->linear != FL_LANE_COPY && p->linear != FL_LANE_SELECT) || wanted[p->dst];
}

/* Finds the registers that may be linear, and of which an instruction can use that ('wanted'). */
FL_LANE_RARE static void mark(fl_lane_code *c, uint8_t *may, uint8_t *wanted) {
  for (int changed = 1; changed;) {
    changed = 0;
    for (int64_t k = 0; k < c->ins.n; k++) {
      const fl_lane_ins *p = &c->ins.at[k];
      const int32_t operand[3] = { p->a, p->b, p->c };
      int good = p->linear && wanted[p->dst];
      for (int j = 0; j < 3; j++) {
        const int32_t r = operand[j];
        if (r < 0) continue;
        if (wants(p, wanted) && !wanted[r]) changed = wanted[r] = 1;
        good &= c->regs.at[r].uniform || may[r];
      }
      if (good && !may[p->dst]) changed = may[p->dst] = 1;
    }
  }
}

FL_LANE_RARE int fl_lane_find_linear(fl_lane_code *c) {
  const size_t n = (size_t)c->regs.n;
  uint8_t *may = fl_zalloc(c->mem, 2 * n), *wanted = may + n;
  if (!may) return 0;
  for (int64_t k = 0; k < c->ins.n; k++) {
    fl_lane_ins *p = &c->ins.at[k];
    int cls, to;
    p->linear = (uint8_t)(p->once ? 0 : fl_lane_linear_kind(p, &cls, &to));
    if (!p->linear) continue;
    p->type = (uint8_t)cls;
    p->sub = (uint8_t)to;
  }
  for (int64_t k = 0; k < c->inits.n; k++) {
    const fl_lane_init *i = &c->inits.at[k];
    if (i->special >= 0 && i->special <= FL_KSPECIAL_TID_Z) may[i->reg] = 1;
  }
  mark(c, may, wanted);
  for (int64_t k = 0; k < c->ins.n; k++) {
    fl_lane_ins *p = &c->ins.at[k];
    for (int j = 0; j < fl_lane_n_operands(p); j++) {
      const int32_t r = fl_lane_operand(c, p, j);
      if (r >= 0 && may[r]) p->lazy |= p->op == FL_LI_PRINTF ? 1 : (uint8_t)(1 << j);
    }
    if (p->dst < 0 || !may[p->dst]) p->linear = 0;
    else p->lazy |= FL_LANE_LAZY_RESULT;
  }
  fl_free(c->mem, may, 2 * n);
  return 1;
}

/* ---- at run time --------------------------------------------------------------------- */

/* Marks small functions that each block calls many times: they are always inlined. */
#define STEP static inline __attribute__((always_inline))

STEP int is_small(int64_t v) { return v >= -MOST && v <= MOST; }

STEP int fits(int cls, int64_t low, int64_t high) {
  static const int64_t least[FL_LC_COUNT] = { [FL_LC_I32] = INT32_MIN, [FL_LC_I64] = -MOST },
                       greatest[FL_LC_COUNT] = { [FL_LC_I32] = INT32_MAX, [FL_LC_U32] = UINT32_MAX,
                                                 [FL_LC_I64] = MOST, [FL_LC_U64] = MOST };
  return (low >= least[cls]) & (high <= greatest[cls]);
}

int fl_lane_fits(int cls, int64_t low, int64_t high) { return fits(cls, low, high); }

/* Widens a range by that of step * i for i from 0 to n - 1. */
STEP void widen(int64_t step, int64_t n, int64_t *low, int64_t *high) {
  const int64_t v = step * (n - 1);
  *low += v < 0 ? v : 0;
  *high += v > 0 ? v : 0;
}

/* Sets the range of a linear value; 0: its numbers are too large. */
static int set_range(const fl_lane_state *s, fl_lane_linear *l) {
  if (!is_small(l->u) || !is_small(l->x) || !is_small(l->y) || !is_small(l->z)) return 0;
  l->low = l->high = l->u;
  widen(l->x, s->width, &l->low, &l->high);
  widen(l->y, s->height, &l->low, &l->high);
  widen(l->z, s->depth, &l->low, &l->high);
  return 1;
}

STEP void set_constant(fl_lane_linear *l, int64_t v) {
  l->u = l->low = l->high = v;
  l->x = l->y = l->z = 0;
}

/* Copies one number at a time: a copy by vectors would wait for the stores of these numbers. */
STEP void set(fl_lane_linear *to, const fl_lane_linear *from) {
  to->u = from->u;
  to->x = from->x;
  to->y = from->y;
  to->z = from->z;
  to->low = from->low;
  to->high = from->high;
}

STEP int is_constant(const fl_lane_linear *l) { return !(l->x | l->y | l->z); }

/* Register r as a linear value of class 'cls' (a uniform one is put into *constant); NULL: r is not
** linear, or its values do not fit the class. */
static const fl_lane_linear *operand(const fl_lane_state *s, int32_t r, int uniform, int cls,
                                     fl_lane_linear *constant) {
  const fl_lane_linear *l = &s->linear[r];
  if (uniform) {
    set_constant(constant, fl_lane_integer(s->reg[r], cls, 0));
    l = constant;
  } else if (!l->on) {
    return NULL;
  }
  return fits(cls, l->low, l->high) ? l : NULL;
}

/* out = a + sign b; 0: its numbers are too large to be exact */
static int sum(const fl_lane_state *s, const fl_lane_linear *a, const fl_lane_linear *b,
               int64_t sign, fl_lane_linear *out) {
  const int64_t u = sign * b->u;
  const int shifted = is_constant(b);
  out->low = a->low + u;
  out->high = a->high + u;
  out->u = a->u + u;
  out->x = a->x + sign * b->x;
  out->y = a->y + sign * b->y;
  out->z = a->z + sign * b->z;
  return shifted || set_range(s, out);
}

/* The range of a - b; 0: not known. */
static int range_of(const fl_lane_state *s, const fl_lane_linear *a, const fl_lane_linear *b,
                  int64_t *low, int64_t *high) {
  fl_lane_linear d;
  *low = a->low - b->high;
  *high = a->high - b->low;
  if (is_constant(a) || is_constant(b)) return 1;
  if (!sum(s, a, b, -1, &d)) return 0;
  *low = d.low;
  *high = d.high;
  return 1;
}

/* Does a comparison with 0 give the same result for all numbers from low to high? Then *yes is that
** result. */
STEP int decide(int op, int64_t low, int64_t high, int64_t *yes) {
  int is, no;
  switch (op) {
    case FL_KO_LT: case FL_KO_GE: is = high < 0; no = low >= 0; break;
    case FL_KO_GT: case FL_KO_LE: is = low > 0; no = high <= 0; break;
    default: is = !low && !high; no = low > 0 || high < 0; break;
  }
  *yes = is ^ (op == FL_KO_GE || op == FL_KO_LE || op == FL_KO_NE);
  return is | no;
}

static int compare(const fl_lane_state *s, int op, const fl_lane_linear *a, const fl_lane_linear *b,
                 fl_lane_linear *out) {
  int64_t low, high, yes;
  if (!range_of(s, a, b, &low, &high) || !decide(op, low, high, &yes)) return 0;
  set_constant(out, yes);
  return 1;
}

static int product(const fl_lane_state *s, const fl_lane_linear *a, const fl_lane_linear *b,
                 fl_lane_linear *out) {
  if (!is_constant(b)) {
    if (!is_constant(a)) return 0;
    const fl_lane_linear *t = a;
    a = b;
    b = t;
  }
  return !__builtin_mul_overflow(a->u, b->u, &out->u) &&
         !__builtin_mul_overflow(a->x, b->u, &out->x) &&
         !__builtin_mul_overflow(a->y, b->u, &out->y) &&
         !__builtin_mul_overflow(a->z, b->u, &out->z) && set_range(s, out);
}

static int logic(int op, const fl_lane_linear *a, const fl_lane_linear *b, fl_lane_linear *out) {
  if (!is_constant(a) || !is_constant(b)) return 0;
  set_constant(out, op == FL_KO_LAND ? (a->u & b->u) : (a->u | b->u));
  return 1;
}

static int of_one(const fl_lane_state *s, int op, const fl_lane_linear *a, fl_lane_linear *out) {
  if (op == FL_KO_NEG) {
    set_constant(out, 0);
    return sum(s, out, a, -1, out);
  }
  if (op != FL_KO_NOT) set(out, a);                                 /* COPY, CAST */
  else set_constant(out, !a->u);
  return op != FL_KO_NOT || is_constant(a);
}

/* The lesser or the greater of two values; 0: they may cross in the block. */
static int extreme(const fl_lane_state *s, int op, const fl_lane_linear *a, const fl_lane_linear *b,
                   fl_lane_linear *out) {
  int64_t low, high;
  if (!range_of(s, a, b, &low, &high) || (low < 0 && high > 0)) return 0;
  set(out, (high <= 0) == (op == FL_LANE_LEAST) ? a : b);
  return 1;
}

/* a ? b : c */
static int choice(const fl_lane_state *s, const fl_lane_ins *p, const fl_lane_linear *a,
                  fl_lane_linear *out) {
  fl_lane_linear constant;
  if (!is_constant(a)) return 0;
  const int32_t r = a->u ? p->b : p->c;
  const fl_lane_linear *l = operand(s, r, p->uni >> (a->u ? 1 : 2) & 1, p->type, &constant);
  if (l) set(out, l);
  return l != NULL;
}

/* The result of an instruction on linear values; 0: it is not linear. Most instructions do not come
** here: with_uniform and with_sure do the common cases, lane_hoist.c others. */
FL_LANE_RARE static int result(const fl_lane_state *s, const fl_lane_ins *p,
                               fl_lane_linear *out) {
  fl_lane_linear constant[2];
  const int is_choice = p->linear == FL_LANE_SELECT;
  const fl_lane_linear *a = operand(s, p->a, p->uni & 1, is_choice ? FL_LC_I32 : p->type,
                                    &constant[0]);
  if (!a) return 0;
  if (is_choice) return choice(s, p, a, out);
  if (p->b < 0) return of_one(s, p->linear, a, out);
  const fl_lane_linear *b = operand(s, p->b, p->uni & 2, p->type, &constant[1]);
  if (!b) return 0;
  switch (p->linear) {
    case FL_KO_ADD: return sum(s, a, b, 1, out);
    case FL_KO_SUB: return sum(s, a, b, -1, out);
    case FL_KO_MUL: return product(s, a, b, out);
    case FL_KO_LAND: case FL_KO_LOR: return logic(p->linear, a, b, out);
    case FL_LANE_LEAST: case FL_LANE_MOST: return extreme(s, p->linear, a, b, out);
    default: return compare(s, p->linear, a, b, out);
  }
}

int fl_lane_holds(const fl_lane_ins *p, int kind, int64_t low, int64_t high) {
  if (kind == FL_LANE_COPY || kind == FL_LANE_SELECT) return 1;
  if (kind != FL_LANE_CAST) return fits(p->type, low, high);
  const int type = p->sub, bits = 8 * fl_kt_size(type), is_signed = fl_ktypes[type].is_signed;
  if (bits >= 32) return fits(fl_lane_class_of(type), low, high);
  return low >= (is_signed ? -(1 << (bits - 1)) : 0) && high < 1 << (bits - is_signed);
}

/* The common cases: the sum or comparison of a linear and a uniform value. 0: it is another
** case. */
STEP int with_uniform(fl_lane_state *s, const fl_lane_ins *p) {
  const int second = p->uni == 2;
  const fl_lane_linear *a = &s->linear[second ? p->a : p->b];
  fl_lane_linear *out = &s->linear[p->dst];
  if (!p->uni || !a->on || !fits(p->type, a->low, a->high)) return 0;
  const int64_t v = fl_lane_integer(s->reg[second ? p->b : p->a], p->type, 0);
  if (!fits(p->type, v, v)) return 0;
  if (p->linear != FL_KO_ADD) {
    int64_t yes;
    if (!second || !decide(p->linear, a->low - v, a->high - v, &yes)) return 0;
    set_constant(out, yes);
  } else {
    if (!fits(p->type, a->low + v, a->high + v)) return 0;
    set(out, a);
    out->u += v;
    out->low += v;
    out->high += v;
  }
  out->on = 1;
  return 1;
}

/* The operators && and ||, of which at least one operand is the same for all lanes. 0: it is
** another case. */
STEP int with_sure(fl_lane_state *s, const fl_lane_ins *p) {
  const fl_lane_linear *a = &s->linear[p->a], *b = &s->linear[p->b], *known = a->on ? a : b;
  if (p->uni || !known->on) return 0;
  if (a->on && b->on && known->u == (p->linear == FL_KO_LAND)) known = b;
  else if (known->u == (p->linear == FL_KO_LAND)) return 0;
  if (!is_constant(known)) return 0;
  set_constant(&s->linear[p->dst], known->u);
  s->linear[p->dst].on = 1;
  return 1;
}

int fl_lane_do_linear(fl_lane_state *s, const fl_lane_ins *p) {
  fl_lane_linear l;
  if (p->masked && s->now.count != s->live) return 0;
  if (p->hoist == FL_LANE_TEST && s->forms[p->dst].on)
    return s->linear[p->dst].on = s->linear[p->dst].sure;
  if (p->linear == FL_KO_ADD || (p->linear >= FL_KO_LT && p->linear <= FL_KO_NE)) {
    if (with_uniform(s, p)) return 1;
  } else if (p->linear == FL_KO_LAND || p->linear == FL_KO_LOR) {
    if (with_sure(s, p)) return 1;
  }
  if (!result(s, p, &l) || !fl_lane_holds(p, p->linear, l.low, l.high)) return 0;
  set(&s->linear[p->dst], &l);
  s->linear[p->dst].on = 1;
  return 1;
}

/* Is the linear value u + x i + y j + z k simply u + x * lane in the whole block? */
static int is_even(const fl_lane_state *s, int64_t x, int64_t y, int64_t z) {
  return (s->height == 1 || y == x * s->width) && (s->depth == 1 || z == x * s->width * s->height);
}

void fl_lane_renew(fl_lane_state *s) {
  const int64_t p = s->place[0], q = s->place[1], r = s->place[2];
  for (const fl_lane_fresh *x = s->fresh, *end = x + s->n_fresh; x < end; x++) {
    const int64_t u = x->u + x->k[0] * p + x->k[1] * q + x->k[2] * r;
    fl_lane_linear *l = x->linear;
    if (x->info) {
      x->info->first = u;
      x->info->low = u + x->below;
      x->info->high = u + x->above;
    } else if (x->cell) {
      if (x->wide) *(int64_t *)x->cell = u;
      else *(uint32_t *)x->cell = (uint32_t)(uint64_t)u;
    } else if (x->test) {
      l->on = l->sure = (uint8_t)decide(x->test, u + x->below, u + x->above, &l->u);
      l->low = l->high = l->u;
    } else {
      l->u = u;
      l->low = u + x->below;
      l->high = u + x->above;
      l->on = 1;
    }
  }
}

/* Writes the values of the lanes to 'out', in slots of 8 bytes if 'wide'. */
static void spread(const fl_lane_state *s, const fl_lane_linear *l, int wide, char *out) {
  void (*ramp)(void *, int64_t, int64_t, int64_t) = s->table->ramp[wide];
  const int64_t w = s->width, bytes = w * (wide ? 8 : 4);
  if (is_even(s, l->x, l->y, l->z)) { ramp(out, s->n, l->u, l->x); return; }
  for (int64_t k = 0; k < s->depth; k++)
    for (int64_t j = 0; j < s->height; j++, out += bytes)
      ramp(out, w, l->u + j * l->y + k * l->z, l->x);
}

void fl_lane_spread(fl_lane_state *s, int32_t r) {
  fl_lane_linear *l = &s->linear[r];
  if (l->on != 1) return;
  spread(s, l, s->code->regs.at[r].wide, s->reg[r]);
  l->on = 2;
}

void fl_lane_spread_operands(fl_lane_state *s, const fl_lane_ins *p) {
  if (p->op == FL_LI_PRINTF) {
    for (int j = 0; j < -1 - p->a; j++) fl_lane_spread(s, s->code->operands.at[p->m + j]);
    return;
  }
  if (p->lazy & 1) fl_lane_spread(s, p->a);
  if (p->lazy & 2) fl_lane_spread(s, p->b);
  if (p->lazy & 4) fl_lane_spread(s, p->c);
  if (p->lazy & 8) fl_lane_spread(s, p->m);
  if ((p->lazy & FL_LANE_LAZY_RESULT) && p->masked && s->now.count != s->live)
    fl_lane_spread(s, p->dst);                        /* inactive lanes keep their value */
}

int fl_lane_classify(const fl_lane_state *s, int64_t x, int64_t y, int64_t z, fl_lane_info *q) {
  *q = (fl_lane_info){ .linear = 1, .step = y, .turn = z - y * s->height };
  q->row = x == 1 && is_even(s, x, y, z);
  q->rows = x == 1 && !q->row && s->width >= 8;
  q->flat = x == 0 && s->width >= 4;
  return q->row | q->rows | q->flat;
}

int fl_lane_index_linear(fl_lane_state *s, const fl_lane_ins *p, fl_lane_info *q) {
  const fl_lane_linear *l = &s->linear[p->a];
  if (!l->on || !fits(p->type, l->low, l->high)) return 0;
  if (!fl_lane_classify(s, l->x, l->y, l->z, q)) spread(s, l, 1, s->reg[p->dst]);
  q->first = l->u;
  q->low = l->low;
  q->high = l->high;
  return 1;
}
