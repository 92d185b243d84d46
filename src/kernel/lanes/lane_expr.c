/*
** Expressions to lane code. Pure values are computed for all lanes and reused while their operands
** keep their values (fl_lane_known). To the right of && || ?: what may fault (a load, an integer
** division, a variable that may not be set) is computed under a mask, and values computed there are
** not reused later, since they may have been skipped.
*/
#include "kernel/lanes/lane_build.h"
#include <assert.h>
#include <string.h>

int fl_lane_class_of(int type) {
  switch (type) {
    case FL_KT_U32: return FL_LC_U32;
    case FL_KT_I64: return FL_LC_I64;
    case FL_KT_U64: return FL_LC_U64;
    case FL_KT_F16: case FL_KT_BF16: case FL_KT_F32: return FL_LC_F32;
    case FL_KT_F64: return FL_LC_F64;
    default: return FL_LC_I32;
  }
}

static int is_wide(int type) { return fl_lane_wide(fl_lane_class_of(type)); }

/* ---- instructions and registers ------------------------------------------------------ */

fl_lane_ins *fl_lane_emit(fl_lane_builder *b, int op) {
  fl_lane_ins *p = FL_PUSH(b->mem, &b->code->ins);
  if (!p) {
    b->failed = 1;
    p = b->code->ins.at;   /* no memory: returns the first instruction, which lane.c has reserved */
  }
  assert(p);
  memset(p, 0, sizeof *p);
  p->op = (uint8_t)op;
  p->fn = p->dst = p->a = p->b = p->c = p->x = p->m = p->var = -1;
  p->line = b->line;
  return p;
}

fl_lane_ins *fl_lane_emit_on(fl_lane_builder *b, int op, int32_t dst, int32_t x, int32_t y,
                             int32_t z) {
  fl_lane_ins *p = fl_lane_emit(b, op);
  p->dst = dst;
  p->a = x;
  p->b = y;
  p->c = z;
  return p;
}

int32_t fl_lane_reg_new(fl_lane_builder *b, int uniform, int wide, int temporary) {
  fl_lane_reg *r = FL_PUSH(b->mem, &b->code->regs);
  int32_t *v = FL_PUSH(b->mem, &b->version), *i = FL_PUSH(b->mem, &b->info);
  if (!r || !v || !i) return b->failed = 1, 0;
  *r = (fl_lane_reg){ .uniform = (uint8_t)uniform, .wide = (uint8_t)wide,
                      .temporary = (uint8_t)(temporary && !uniform), .slot = -1 };
  *v = 0;
  *i = -1;
  return (int32_t)b->code->regs.n - 1;
}

static int32_t constant(fl_lane_builder *b, int type, fl_kvalue v) {
  for (int64_t k = 0; k < b->code->inits.n; k++) {
    const fl_lane_init *i = &b->code->inits.at[k];
    if (i->param < 0 && i->special < 0 && i->type == type && i->value.i == v.i) return i->reg;
  }
  fl_lane_init *i = FL_PUSH(b->mem, &b->code->inits);
  if (!i) return b->failed = 1, 0;
  *i = (fl_lane_init){ .reg = -1, .special = -1, .param = -1, .type = (uint8_t)type, .value = v };
  return i->reg = fl_lane_reg_new(b, 1, is_wide(type), 0);
}

static int32_t special(fl_lane_builder *b, int op) {
  if (op == FL_KSPECIAL_WARP_SIZE) return constant(b, FL_KT_I32, (fl_kvalue){ .i = 32 });
  if (b->special[op] >= 0) return b->special[op];
  fl_lane_init *i = FL_PUSH(b->mem, &b->code->inits);
  if (!i) return b->failed = 1, 0;
  *i = (fl_lane_init){ .reg = -1, .special = op, .param = -1, .type = FL_KT_U32 };
  return b->special[op] = i->reg = fl_lane_reg_new(b, op > FL_KSPECIAL_TID_Z, 0, 0);
}

/* ---- values in registers ------------------------------------------------------------ */

static int same_value(const fl_lane_builder *b, const fl_lane_known *p, const fl_lane_known *q) {
  return !memcmp(p->key, q->key, sizeof p->key) &&
         !memcmp(p->version, q->version, sizeof p->version) &&
         b->version.at[p->reg] == p->reg_version;
}

static void fill_key(const fl_lane_builder *b, fl_lane_known *k, int fn, int x, int y, int z) {
  memset(k, 0, sizeof *k);
  k->key[0] = fn;
  k->key[1] = x;
  k->key[2] = y;
  k->key[3] = z;
  for (int i = 0; i < 3; i++)
    k->version[i] = k->key[i + 1] >= 0 ? b->version.at[k->key[i + 1]] : 0;
}

static int32_t find(const fl_lane_builder *b, const fl_lane_known *k) {
  const int64_t first = b->known.n > 256 ? b->known.n - 256 : 0;     /* only the last 256 count */
  for (int64_t i = b->known.n - 1; i >= first; i--)
    if (same_value(b, &b->known.at[i], k)) return b->known.at[i].reg;
  return -1;
}

static void remember(fl_lane_builder *b, fl_lane_known k, int32_t reg) {
  k.reg = reg;
  k.reg_version = b->version.at[reg];
  fl_lane_known *p = FL_PUSH(b->mem, &b->known);
  if (p) *p = k;
  else b->failed = 1;
}

/* Emits fn applied to registers (-1: none), which must be vectors where fn takes vectors. The
** result, of 8 bytes if 'wide', is uniform if all of them are, unless 'spread' is set. An
** application whose result is still known is not emitted again. */
static int32_t apply(fl_lane_builder *b, int fn, int wide, int spread, int32_t x, int32_t y,
                     int32_t z) {
  if (b->failed) return 0;
  fl_lane_known k;
  fill_key(b, &k, fn, x, y, z);
  int32_t reg = find(b, &k);
  if (reg >= 0) return reg;
  const int32_t operand[3] = { x, y, z };
  int uni = 0, uniform = !spread;
  for (int i = 0; i < 3; i++) {
    if (operand[i] < 0) continue;
    if (fl_lane_uniform(b, operand[i])) uni |= 1 << i;
    else uniform = 0;
  }
  reg = fl_lane_reg_new(b, uniform, wide, 1);
  fl_lane_ins *p = fl_lane_emit_on(b, FL_LI_EVAL, reg, x, y, z);
  p->fn = fn;
  p->uni = (uint8_t)uni;
  p->once = (uint8_t)uniform;
  p->wide = (uint8_t)wide;
  if (b->failed) return 0;
  remember(b, k, reg);
  return reg;
}

static int32_t eval(fl_lane_builder *b, int fn, int wide, int32_t x, int32_t y, int32_t z) {
  return apply(b, fn, wide, 0, x, y, z);
}

int32_t fl_lane_splat(fl_lane_builder *b, int32_t reg) {
  if (b->failed || !fl_lane_uniform(b, reg)) return reg;
  const int wide = b->code->regs.at[reg].wide;
  return apply(b, FL_LANE_FN(splat[wide]), wide, 1, reg, -1, -1);
}

int32_t fl_lane_vector(fl_lane_builder *b, const fl_kexpr *x) {
  return fl_lane_splat(b, fl_lane_expr(b, x));
}

void fl_lane_assign(fl_lane_builder *b, int32_t dst, int32_t reg, int blend, int64_t start) {
  if (b->failed) return;
  fl_lane_code *c = b->code;
  const int wide = c->regs.at[dst].wide, uniform = fl_lane_uniform(b, dst);
  fl_lane_ins *last = c->ins.n > start ? &c->ins.at[c->ins.n - 1] : NULL;
  const int direct = last && last->dst == reg && b->version.at[reg] == 0 &&
                     (last->op == FL_LI_EVAL || last->op == FL_LI_LOAD) &&
                     (c->regs.at[reg].temporary || uniform);
  b->version.at[dst] = ++b->clock;
  if (direct && reg != dst) {
    last->dst = dst;
    last->masked = (uint8_t)(blend && !uniform);
    for (int64_t k = b->known.n - 1; k >= 0 && k >= b->known.n - 4; k--) {
      if (b->known.at[k].reg != reg) continue;
      b->known.at[k].reg = dst;                       /* it has the value now */
      b->known.at[k].reg_version = blend ? -1 : b->version.at[dst];   /* -1: not in all lanes, so
                                                                      ** never equal */
    }
    return;
  }
  fl_lane_ins *p = fl_lane_emit_on(b, FL_LI_EVAL, dst, reg, -1, -1);
  const int spread = !uniform && fl_lane_uniform(b, reg);
  p->fn = spread ? FL_LANE_FN(splat[wide]) : FL_LANE_FN(copy[wide]);
  p->uni = (uint8_t)fl_lane_uniform(b, reg);
  p->once = (uint8_t)uniform;
  p->wide = (uint8_t)wide;
  p->masked = (uint8_t)(blend && !uniform);
}

/* ---- operators ----------------------------------------------------------------------- */

static int32_t rounded(fl_lane_builder *b, int type, int32_t reg) {
  return fl_kt_is_half(type) ? eval(b, FL_LANE_FN(round[type]), 0, reg, -1, -1) : reg;
}

int32_t fl_lane_binary(fl_lane_builder *b, int op, int type, int32_t x, int32_t y) {
  const int cls = fl_lane_class_of(type);
  const int test = op >= FL_KO_LT && op <= FL_KO_LOR;
  const int32_t r = eval(b, FL_LANE_FN(op[op][cls]), !test && fl_lane_wide(cls), x, y, -1);
  return test ? r : rounded(b, type, r);
}

/* Does a cast from type 'from' to type 'to' leave the contents of a register's slot as they are? */
static int is_same_slot(int from, int to) {
  if (from == to) return 1;
  if (from == FL_KT_BOOL) return fl_kt_is_int(to) && !is_wide(to);
  const int size = fl_kt_size(to);
  if (fl_kt_is_float(from)) return (fl_kt_is_half(from) && to == FL_KT_F32);
  if (fl_kt_is_float(to) || to == FL_KT_BOOL) return 0;
  if (size >= 4) return is_wide(from) == is_wide(to);
  if (size > fl_kt_size(from)) return !fl_ktypes[from].is_signed || fl_ktypes[to].is_signed;
  return 0;
}

int32_t fl_lane_cast(fl_lane_builder *b, int32_t reg, int from, int to) {
  if (is_same_slot(from, to)) return reg;
  return eval(b, FL_LANE_FN(cast[fl_lane_class_of(from)][to]), is_wide(to), reg, -1, -1);
}

static int divides(const fl_kexpr *x) {      /* is x an integer division by what may be 0? */
  return x->kind == FL_KX_BINARY && (x->op == FL_KO_DIV || x->op == FL_KO_REM) &&
         fl_kt_is_int(x->type) && !(x->x[1]->kind == FL_KX_CONST && x->x[1]->value.i);
}

/* May x fault? Then lanes that do not need it must not compute it. */
static int may_fault(const void *of, const fl_kexpr *x) {
  const fl_lane_builder *b = of;
  return x->kind == FL_KX_LOAD || divides(x) || (x->kind == FL_KX_VAR && b->var_track[x->var] >= 0);
}

static int needs_guard(const fl_lane_builder *b, const fl_kexpr *x) {
  return fl_kexpr_any(x, may_fault, b);
}

/* Computes an arm of a choice: t = x for the lanes in the mask. */
static void arm(fl_lane_builder *b, int32_t t, const fl_kexpr *x) {
  const int64_t start = b->code->ins.n;
  fl_lane_assign(b, t, fl_lane_expr(b, x), 1, start);
}

static void patch(fl_lane_builder *b, int64_t at) {
  if (!b->failed) b->code->ins.at[at].x = (int32_t)b->code->ins.n;
}

/* Puts c ? x : y in t, computing one arm or none for each lane. An arm that is NULL is the value
** that t already has. */
static void guarded(fl_lane_builder *b, int32_t t, int32_t c, const fl_kexpr *x,
                    const fl_kexpr *y) {
  if (b->failed) return;
  const int64_t mark = b->known.n;
  const int uniform = fl_lane_uniform(b, c), depth = b->mask_depth;
  const int m = uniform ? -1 : fl_lane_masks_new(b);
  const int64_t at = b->code->ins.n;
  fl_lane_ins *p = fl_lane_emit_on(b, uniform ? FL_LI_UNLESS : FL_LI_IF, -1, c, -1, -1);
  p->m = m;
  p->sub = (uint8_t)(uniform ? !x : !x ? 2 : y != NULL);
  if (x) arm(b, t, x);
  else arm(b, t, y);
  b->known.n = mark;
  if (x && y) {
    const int64_t other = b->code->ins.n;
    p = fl_lane_emit(b, uniform ? FL_LI_JUMP : FL_LI_BACK);
    p->m = m + 1;
    patch(b, at);
    if (!uniform && !b->failed) b->code->ins.at[at].x = (int32_t)other;
    arm(b, t, y);
    b->known.n = mark;
    patch(b, other);
  } else {
    patch(b, at);
  }
  if (!uniform) {
    p = fl_lane_emit(b, FL_LI_BACK);
    p->m = m;
    p->x = (int32_t)b->code->ins.n;                   /* never jumps: the mask is not empty */
  }
  b->mask_depth = depth;
}

static int32_t logic(fl_lane_builder *b, const fl_kexpr *x) {
  const int is_or = x->op == FL_KO_LOR;
  const int32_t first = fl_lane_expr(b, x->x[0]);
  if (!needs_guard(b, x->x[1]))
    return fl_lane_binary(b, x->op, FL_KT_BOOL, first, fl_lane_expr(b, x->x[1]));
  const int uniform = !b->failed && fl_lane_uniform(b, first) &&
                      !fl_lane_varying(&b->shape, b->f, x->x[1]);
  const int32_t t = fl_lane_reg_new(b, uniform, 0, 1);
  fl_lane_assign(b, t, first, 0, b->code->ins.n);
  guarded(b, t, first, is_or ? NULL : x->x[1], is_or ? x->x[1] : NULL);
  return t;
}

static int32_t choice(fl_lane_builder *b, const fl_kexpr *x) {
  const int wide = is_wide(x->type);
  const int32_t c = fl_lane_expr(b, x->x[0]);
  if (!needs_guard(b, x->x[1]) && !needs_guard(b, x->x[2])) {
    const int32_t y = fl_lane_expr(b, x->x[1]), z = fl_lane_expr(b, x->x[2]);
    return eval(b, FL_LANE_FN(select[wide]), wide, c, y, z);
  }
  const int uniform = !b->failed && fl_lane_uniform(b, c) &&
                      !fl_lane_varying(&b->shape, b->f, x->x[1]) &&
                      !fl_lane_varying(&b->shape, b->f, x->x[2]);
  const int32_t t = fl_lane_reg_new(b, uniform, wide, 1);
  guarded(b, t, c, x->x[1], x->x[2]);
  return t;
}

static int32_t shift(fl_lane_builder *b, const fl_kexpr *x, int32_t left) {
  const int type = x->x[1]->type;
  int32_t count = fl_lane_expr(b, x->x[1]);
  if (is_wide(type) && !is_wide(x->type)) {           /* counts of 64 and more become 64, negative
                                                      ** ones too */
    const int32_t top = constant(b, FL_KT_U64, (fl_kvalue){ .i = 64 });
    const int32_t in = fl_lane_binary(b, FL_KO_LT, FL_KT_U64, count, top);
    count = eval(b, FL_LANE_FN(select[1]), 1, in, count, top);
  }
  return fl_lane_binary(b, x->op, x->type, left, fl_lane_cast(b, count, type, x->type));
}

static int32_t binary(fl_lane_builder *b, const fl_kexpr *x) {
  if (x->op == FL_KO_LAND || x->op == FL_KO_LOR) return logic(b, x);
  const int32_t left = fl_lane_expr(b, x->x[0]);
  if (x->op == FL_KO_SHL || x->op == FL_KO_SHR) return shift(b, x, left);
  const int32_t right = fl_lane_expr(b, x->x[1]);
  const int type = x->x[0]->type;
  if (divides(x)) {
    fl_lane_ins *p = fl_lane_emit_on(b, FL_LI_DIVISOR, -1, right, -1, -1);
    p->type = (uint8_t)fl_lane_class_of(type);
    p->line = x->line ? x->line : b->line;
  }
  return fl_lane_binary(b, x->op, type, left, right);
}

static int32_t unary(fl_lane_builder *b, const fl_kexpr *x) {
  const int cls = fl_lane_class_of(x->type);
  const int32_t y = fl_lane_expr(b, x->x[0]);
  return eval(b, FL_LANE_FN(op[x->op][cls]), fl_lane_wide(cls), y, -1, -1);
}

static int32_t call(fl_lane_builder *b, const fl_kexpr *x) {
  int32_t arg[3] = { -1, -1, -1 };
  int vector = 0;
  for (int i = 0; i < x->n && i < 3; i++) {
    arg[i] = fl_lane_expr(b, x->x[i]);
    if (!b->failed) vector |= !fl_lane_uniform(b, arg[i]);
  }
  for (int i = 0; vector && i < x->n && i < 3; i++) arg[i] = fl_lane_splat(b, arg[i]);
  const int cls = fl_lane_class_of(x->x[0]->type);
  return eval(b, FL_LANE_FN(call[x->op][cls]), is_wide(x->type), arg[0], arg[1], arg[2]);
}

/* ---- memory -------------------------------------------------------------------------- */

int32_t fl_lane_index(fl_lane_builder *b, const fl_kexpr *x, int32_t *info) {
  *info = -1;
  if (!fl_lane_varying(&b->shape, b->f, x)) return fl_lane_expr(b, x);
  const int narrow = x->kind == FL_KX_CAST && fl_kt_is_int(x->x[0]->type) &&
                     !is_wide(x->x[0]->type);
  const fl_kexpr *from = narrow ? x->x[0] : x;
  const int32_t reg = fl_lane_splat(b, fl_lane_expr(b, from));
  if (b->failed) return 0;
  fl_lane_known k;
  fill_key(b, &k, ~(FL_LI_INDEX | fl_lane_class_of(from->type) << 8), reg, -1, -1);
  int32_t out = find(b, &k);
  if (out < 0) {
    out = fl_lane_reg_new(b, 0, 1, 1);
    fl_lane_ins *p = fl_lane_emit_on(b, FL_LI_INDEX, out, reg, -1, -1);
    p->type = (uint8_t)fl_lane_class_of(from->type);
    p->x = b->code->n_infos++;
    if (b->failed) return 0;
    b->info.at[out] = p->x;
    remember(b, k, out);
  }
  *info = b->info.at[out];
  return out;
}

int32_t fl_lane_load(fl_lane_builder *b, int var, int32_t index, int32_t info, int line,
                     int32_t site) {
  if (b->failed) return 0;
  const fl_kvar *v = &b->f->vars[var];
  fl_lane_known k;
  fill_key(b, &k, ~(FL_LI_LOAD | var << 8), index, -1, -1);
  k.key[2] = -2 - b->var_memory[var];
  int32_t reg = find(b, &k);
  if (reg >= 0) return reg;
  const int wide = is_wide(v->type), uniform = info < 0 && v->kind != FL_KV_ARRAY;
  reg = fl_lane_reg_new(b, uniform, wide, 1);
  fl_lane_ins *p = fl_lane_emit_on(b, FL_LI_LOAD, reg, index, -1, -1);
  p->x = info;
  p->var = var;
  p->type = v->type;
  p->wide = (uint8_t)wide;
  p->once = (uint8_t)uniform;
  p->sub = site >= 0 && b->guess[site];
  if (line) p->line = line;
  if (b->failed) return 0;
  remember(b, k, reg);
  return reg;
}

static int32_t load(fl_lane_builder *b, const fl_kexpr *x) {
  int32_t info;
  const int32_t index = fl_lane_index(b, x->x[0], &info);
  return fl_lane_load(b, x->var, index, info, x->line, x->site);
}

static int32_t variable(fl_lane_builder *b, const fl_kexpr *x) {
  if (b->var_track[x->var] >= 0) {
    fl_lane_ins *p = fl_lane_emit(b, FL_LI_CHECK);
    p->m = b->var_track[x->var];
    p->var = x->var;
    if (x->line) p->line = x->line;
  }
  return b->var_reg[x->var];
}

int32_t fl_lane_expr(fl_lane_builder *b, const fl_kexpr *x) {
  if (b->failed) return 0;
  switch (x->kind) {
    case FL_KX_CONST: return constant(b, x->type, x->value);
    case FL_KX_VAR: return variable(b, x);
    case FL_KX_LOAD: return load(b, x);
    case FL_KX_SPECIAL: return special(b, x->op);
    case FL_KX_UNARY: return rounded(b, x->type, unary(b, x));
    case FL_KX_BINARY: return binary(b, x);
    case FL_KX_SELECT: return choice(b, x);
    case FL_KX_CAST: return fl_lane_cast(b, fl_lane_expr(b, x->x[0]), x->x[0]->type, x->type);
    default: return call(b, x);
  }
}
