/*
** Integers that are linear in the position of a thread: u + x i + y r for position i (threadIdx.x)
** in row r of the block. Indices and their conditions mostly are. Such a value is computed in a few
** instructions for the whole block, and its register is written only when an operation needs the
** lanes one by one; a comparison whose result is the same for all lanes narrows no mask.
**
** fl_lane_find_linear finds, at compile time, which registers may hold such values; whether one
** does is known at run time. Values are exact: where a result does not fit into its type in every
** lane (it would wrap), or is not linear, the loops over lanes compute it.
*/
#include "kernel/lanes/lane_state.h"
#include <string.h>

enum { COPY = FL_KO_COUNT, CAST };
static const int64_t most = (int64_t)1 << 46;      /* bound of all numbers here, so that sums do not
                                                   ** overflow */

/* ---- at compile time ----------------------------------------------------------------- */

/* What a linear result comes from: an operator, COPY or CAST; 0: nothing. */
static int kind_of(const fl_lane_ins *p, int *cls, int *to) {
  const int ops = FL_KO_COUNT * FL_LC_COUNT, cast = p->fn - FL_LANE_FN(cast[0][0]);
  *cls = p->wide ? FL_LC_I64 : FL_LC_I32;
  *to = 0;
  if (p->op != FL_LI_EVAL || p->once) return 0;
  for (int w = 0; w < 2; w++)
    if (p->fn == FL_LANE_FN(splat[0]) + w || p->fn == FL_LANE_FN(copy[0]) + w) return COPY;
  if (p->fn < ops) {
    const int op = p->fn / FL_LC_COUNT;
    *cls = p->fn % FL_LC_COUNT;
    if (*cls == FL_LC_F32 || *cls == FL_LC_F64) return 0;
    return op == FL_KO_ADD || op == FL_KO_SUB || op == FL_KO_MUL || op == FL_KO_NEG ||
           (op >= FL_KO_LT && op <= FL_KO_LOR) || op == FL_KO_NOT ? op : 0;
  }
  if (cast < 0 || cast >= FL_LC_COUNT * FL_LANE_CASTS) return 0;
  *cls = cast / FL_LANE_CASTS;
  *to = cast % FL_LANE_CASTS;
  return *cls != FL_LC_F32 && *cls != FL_LC_F64 && fl_kt_is_int(*to) ? CAST : 0;
}

/* Can this instruction use a linear value? */
static int wants(const fl_lane_ins *p, const uint8_t *wanted) {
  if (p->op == FL_LI_INDEX || p->op == FL_LI_IF || p->op == FL_LI_AND) return 1;
  if (!p->linear) return 0;
  return p->linear != COPY || wanted[p->dst];
}

static void mark(fl_lane_code *c, uint8_t *may, uint8_t *wanted) {
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

/* 0: no memory. */
int fl_lane_find_linear(fl_lane_code *c) {
  const size_t n = (size_t)c->regs.n;
  uint8_t *may = fl_zalloc(c->mem, 2 * n), *wanted = may + n;
  if (!may) return 0;
  for (int64_t k = 0; k < c->ins.n; k++) {
    fl_lane_ins *p = &c->ins.at[k];
    int cls, to;
    p->linear = (uint8_t)kind_of(p, &cls, &to);
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

static int is_small(int64_t v) { return v >= -most && v <= most; }

static int fits(int cls, int64_t low, int64_t high) {
  switch (cls) {
    case FL_LC_I32: return low >= INT32_MIN && high <= INT32_MAX;
    case FL_LC_U32: return low >= 0 && high <= UINT32_MAX;
    case FL_LC_I64: return low >= -most && high <= most;
    default: return low >= 0 && high <= most;
  }
}

/* Sets the range of a linear value; 0: its numbers are too large. */
static int set_range(const fl_lane_state *s, fl_lane_linear *l) {
  if (!is_small(l->u) || !is_small(l->x) || !is_small(l->y)) return 0;
  const int64_t x = l->x * (s->width - 1), y = l->y * (s->rows - 1);
  l->low = l->u + (x < 0 ? x : 0) + (y < 0 ? y : 0);
  l->high = l->u + (x > 0 ? x : 0) + (y > 0 ? y : 0);
  return 1;
}

static void set_constant(fl_lane_linear *l, int64_t v) {
  l->u = l->low = l->high = v;
  l->x = l->y = 0;
}

/* Copies one number at a time: a copy by vectors would wait for the stores of these numbers. */
static void set(fl_lane_linear *to, const fl_lane_linear *from) {
  to->u = from->u;
  to->x = from->x;
  to->y = from->y;
  to->low = from->low;
  to->high = from->high;
}

static int is_constant(const fl_lane_linear *l) { return !(l->x | l->y); }

/* Register r as a linear value of class 'cls', which is put into *constant if r is uniform; NULL: r
** is not linear. */
static const fl_lane_linear *operand(const fl_lane_state *s, int32_t r, int cls,
                                     fl_lane_linear *constant) {
  const fl_lane_linear *l = &s->linear[r];
  if (s->code->regs.at[r].uniform) {
    const void *cell = s->reg[r];
    set_constant(constant, fl_lane_wide(cls) ? *(const int64_t *)cell
                         : cls == FL_LC_U32 ? (int64_t)*(const uint32_t *)cell
                                            : (int64_t)*(const int32_t *)cell);
    l = constant;
  } else if (!l->on) {
    return NULL;
  }
  return fits(cls, l->low, l->high) ? l : NULL;
}

/* out = a + sign b */
static int sum(const fl_lane_state *s, const fl_lane_linear *a, const fl_lane_linear *b,
               int64_t sign, fl_lane_linear *out) {
  const int64_t u = sign * b->u;
  const int shifted = is_constant(b);
  out->low = a->low + u;
  out->high = a->high + u;
  out->u = a->u + u;
  out->x = a->x + sign * b->x;
  out->y = a->y + sign * b->y;
  return shifted || set_range(s, out);
}

static int compare(const fl_lane_state *s, int op, const fl_lane_linear *a, const fl_lane_linear *b,
                   fl_lane_linear *out) {
  const int swapped = op == FL_KO_GT || op == FL_KO_LE;             /* a > b: b - a < 0 */
  fl_lane_linear d;
  if (!(swapped ? sum(s, b, a, -1, &d) : sum(s, a, b, -1, &d))) return 0;
  if (!set_range(s, &d)) return 0;
  const int equal = op == FL_KO_EQ || op == FL_KO_NE;
  int yes = equal ? d.low == 0 && d.high == 0 : d.high < 0;
  const int no = equal ? d.low > 0 || d.high < 0 : d.low >= 0;
  if (!yes && !no) return 0;
  if (op == FL_KO_GE || op == FL_KO_LE || op == FL_KO_NE) yes = !yes;
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
         !__builtin_mul_overflow(a->y, b->u, &out->y) && set_range(s, out);
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

/* The result of an instruction on linear values; 0: it is not linear. */
static int result(const fl_lane_state *s, const fl_lane_ins *p, fl_lane_linear *out) {
  fl_lane_linear constant[2];
  const fl_lane_linear *a = operand(s, p->a, p->type, &constant[0]);
  if (!a) return 0;
  if (p->b < 0) return of_one(s, p->linear, a, out);
  const fl_lane_linear *b = operand(s, p->b, p->type, &constant[1]);
  if (!b) return 0;
  switch (p->linear) {
    case FL_KO_ADD: return sum(s, a, b, 1, out);
    case FL_KO_SUB: return sum(s, a, b, -1, out);
    case FL_KO_MUL: return product(s, a, b, out);
    case FL_KO_LAND: case FL_KO_LOR: return logic(p->linear, a, b, out);
    default: return compare(s, p->linear, a, b, out);
  }
}

/* Does the whole range of the value fit its type? */
static int holds(const fl_lane_ins *p, const fl_lane_linear *l) {
  if (p->linear != CAST) return p->linear == COPY || fits(p->type, l->low, l->high);
  const int type = p->sub, bits = 8 * fl_kt_size(type), is_signed = fl_ktypes[type].is_signed;
  if (bits >= 32) return fits(fl_lane_class_of(type), l->low, l->high);
  return l->low >= (is_signed ? -(1 << (bits - 1)) : 0) && l->high < 1 << (bits - is_signed);
}

int fl_lane_do_linear(fl_lane_state *s, const fl_lane_ins *p) {
  fl_lane_linear l;
  if (p->masked && s->now.count != s->live) return 0;
  if (!result(s, p, &l) || !holds(p, &l)) return 0;
  set(&s->linear[p->dst], &l);
  s->linear[p->dst].on = 1;
  return 1;
}

/* Writes the values of the lanes to 'out', in slots of 8 bytes if 'wide'. */
static void spread(const fl_lane_state *s, const fl_lane_linear *l, int wide, char *out) {
  void (*ramp)(void *, int64_t, int64_t, int64_t) = s->table->ramp[wide];
  const int64_t w = s->width, bytes = w * (wide ? 8 : 4);
  if (l->y == l->x * w) { ramp(out, s->n, l->u, l->x); return; }
  for (int64_t r = 0; r < s->rows; r++) ramp(out + r * bytes, w, l->u + r * l->y, l->x);
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
    fl_lane_spread(s, p->dst);                        /* lanes that take no part keep their value */
}

/* Classifies a linear index as fl_lane_do_index does, without reading its lanes; 0: it is not
** linear. */
int fl_lane_index_linear(fl_lane_state *s, const fl_lane_ins *p, fl_lane_info *q) {
  const fl_lane_linear *l = &s->linear[p->a];
  const int64_t w = s->width;
  int64_t *at = s->reg[p->dst];
  if (!l->on || !fits(p->type, l->low, l->high)) return 0;
  *q = (fl_lane_info){ .first = l->u, .low = l->low, .high = l->high, .linear = 1, .step = l->y };
  if (l->x == 1 && (l->y == w || s->rows == 1)) { q->row = 1; return 1; }
  q->rows = l->x == 1 && w >= 8;
  q->flat = l->x == 0 && w >= 4;
  if (q->rows || q->flat) s->table->ramp[1](at, s->rows, l->u, l->y);
  else spread(s, l, 1, (char *)at);
  return 1;
}
