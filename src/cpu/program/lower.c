/*
** Lowering: a kernel becomes a program (program.h). Instructions are taken in order; the kind of
** each value and the round in which it is known are worked out again from operands and strides.
** LONG and COL emit, for each round of reductions, only the level-1 work that it needs.
**
** Example: softmax of rows times a weight for each column, y = exp(x - max x) / sum * w:
**   value             kind    round in which it is known
**   v0 = load x       FULL    0       moves by rows and along them
**   v1 = max of v0    ROW     1       one for each row
**   v2 = exp(v0 - v1) FULL    1
**   v3 = sum of v2    ROW     2
**   v4 = load w       LINE    0       the same in all rows
**   v5 = v2 / v3 * v4 FULL    2       stored
** Short rows are in registers whole, and each value is computed once. LONG goes over a row in
** pieces, three times: round 0 loads x for v1; round 1 loads x again and computes v2 for v3; the
** last loads x and computes v2 once more, for v5. Operands of another kind than the work are
** spread (a ROW value over its row, a LINE value down the rows) or read as one element.
*/
#include "cpu/program/lower.h"
#include "tensor/node.h"
#include <string.h>

typedef struct lower {
  fl_prog *g;
  const fl_kernel *k;
  int workers;
  int row_by_row;               /* operands of one element per row need no full copy */
  int failed, bad;              /* memory is out; the kernel breaks the rules of plan/kernel.h */
  uint8_t *kind;                /* per instruction */
  uint8_t *pass;                /* number of reduction rounds before the value is known */
  uint8_t *need;                /* marks for the current section */
  uint8_t *late;                /* per IOTA: is it computed only to report a bad index? */
  uint16_t *fill[3];            /* per level and UNI value (one element for the whole kernel): the
                                ** register filled with it; 0: none */
  uint16_t *spread;             /* per ROW or LINE value (one element per row, or per reduced
                                ** index): its copy to each point, in the current section */
} lower;

enum { LINE_ROW = 16, LOAD_ROW = 512 };

/* ---- kinds and rounds --------------------- */

/* The register kind that follows from the dims along which an operand's address changes. */
static int kind_of_strides(const fl_kernel *k, const fl_operand *o) {
  int kind = FL_KIND_UNI;
  for (int d = 0; d < k->nkept + k->nred; d++) {
    if (k->size[d] == 1 || o->stride[d] == 0) continue;
    kind |= k->kind == FL_K_MAP ? FL_KIND_FULL : d < k->nkept ? FL_KIND_ROW : FL_KIND_LINE;
  }
  return kind;
}

static int max2(int a, int b) { return a > b ? a : b; }

static void classify(lower *b, int i) {
  const fl_kernel *k = b->k;
  const fl_instr *x = &k->instr[i];
  const uint16_t in[3] = { x->a, x->b, x->c };
  int kind = FL_KIND_UNI, pass = 0;
  for (int j = 0, n = fl_operand_count(x); j < n; j++) {
    kind |= b->kind[in[j]];
    pass = max2(pass, b->pass[in[j]]);
  }
  if (x->code == FL_I_LOAD || x->code == FL_I_GATHER || x->code == FL_I_IOTA)
    kind |= kind_of_strides(k, &k->operand[x->arg]);
  if (x->code == FL_I_REDUCE) {
    kind = FL_KIND_ROW;
    pass++;
    b->g->rounds = max2(b->g->rounds, pass);
  }
  b->kind[i] = (uint8_t)kind;
  b->pass[i] = (uint8_t)pass;
}

/* ---- emission --------------------- */

static uint16_t new_reg(lower *b, int kind, int reg) {
  fl_vreg *r = b->g->reg.n < 65535 ? FL_PUSH(b->g->mem, &b->g->reg) : NULL;
  if (!r) {
    b->failed = 1;
    return 0;
  }
  *r = (fl_vreg){ .kind = (uint8_t)kind, .reg = (uint8_t)reg };
  return (uint16_t)(b->g->reg.n - 1);
}

static fl_vop *push(lower *b, int sec, fl_vop x) {
  fl_vop *p = FL_PUSH(b->g->mem, &b->g->sec[sec]);
  if (!p) b->failed = 1;
  else *p = x;
  return p;
}

static uint16_t filled(lower *b, uint16_t v, int level) {
  if (b->fill[level][v]) return b->fill[level][v];
  const int reg = b->g->reg.at[v].reg;
  static const uint8_t kinds[] = { FL_KIND_ROW, FL_KIND_FULL, FL_KIND_LINE };
  const uint16_t f = new_reg(b, kinds[level], reg);
  if (b->failed) return 0;
  b->g->reg.at[f].lives = 1;                   /* through the whole unit */
  push(b, FL_SEC_UNIT, (fl_vop){ .code = FL_V_FILL, .level = (uint8_t)level, .reg = (uint8_t)reg,
                                 .v = f, .a = v, .fn.fill = b->g->vm->fill[reg] });
  return b->fill[level][v] = f;
}

/* Is v a LINE value (one element per reduced index) of a program in mode WHOLE that does some
** operations row by row (b->row_by_row)? Then its register holds one row. Otherwise, in mode WHOLE,
** it holds a copy for each row of the tile. */
static int is_one_line(const lower *b, uint16_t v) {
  return b->g->one_line && v < b->k->ninstr && b->kind[v] == FL_KIND_LINE;
}

static uint16_t spread(lower *b, int sec, uint16_t v) {
  if (b->spread[v]) return b->spread[v];
  const int reg = b->g->reg.at[v].reg;
  const uint16_t f = new_reg(b, FL_KIND_FULL, reg);
  fl_vop x = { .code = FL_V_SPREAD, .level = 1, .reg = (uint8_t)reg, .v = f, .a = v };
  const int across = (b->k->kind == FL_K_COL && b->g->reg.at[v].kind == FL_KIND_ROW) ||
                     is_one_line(b, v);
  x.fn.spread = across ? b->g->vm->tile[reg] : b->g->vm->spread[reg];
  push(b, sec, x);
  return b->spread[v] = f;
}

/* The register through which work at 'level' reads v. If 'uni' is given and one element may be used
** for all points (or one per row, one row for all), its bits for operand 'bit' are set. */
static uint16_t use(lower *b, int sec, uint16_t v, int level, uint8_t *uni, int bit) {
  const int kind = b->g->reg.at[v].kind;
  const int col = b->g->mode == FL_MODE_COL;
  const int row = b->g->mode != FL_MODE_WHOLE || (b->k->kind == FL_K_ROW && b->g->batch == 1);
  const int single = b->g->batch == 1 && row && kind != (col ? FL_KIND_ROW : FL_KIND_LINE);
  if (is_one_line(b, v) && sec != FL_SEC_UNIT) {
    if (uni) *uni |= (uint8_t)(16 << bit);
    return uni ? v : spread(b, sec, v);
  }
  if (kind == FL_KIND_FULL || (kind == FL_KIND_ROW && !level) || sec == FL_SEC_BIND) return v;
  if ((kind == FL_KIND_LINE && level == 2) || (kind == FL_KIND_ROW && col && b->g->batch == 1))
    return v;
  if (uni && (kind == FL_KIND_UNI || single)) {
    *uni |= (uint8_t)(1 << bit);
    return v;
  }
  if (uni && b->row_by_row && kind != FL_KIND_UNI) {            /* COL: a LINE value has one element
                                                                ** per row */
    *uni |= (uint8_t)((col && kind == FL_KIND_ROW ? 16 : 17) << bit);
    return v;
  }
  return kind == FL_KIND_UNI ? filled(b, v, level) : spread(b, sec, v);
}

static void emit_round(lower *b, int sec, int level, uint16_t v, int dtype) {
  if (!b->g->vm->round[dtype]) return;
  push(b, sec, (fl_vop){ .code = FL_V_MOVE, .level = (uint8_t)level, .v = v, .a = v,
                         .fn.move = b->g->vm->round[dtype] });
}

/* Is the result one of the operands, and therefore rounded already? Scalars are not rounded. */
static int only_selects(const fl_kernel *k, const fl_instr *x) {
  return x->op == FL_OP_where && k->instr[x->b].code != FL_I_SCALAR &&
         k->instr[x->c].code != FL_I_SCALAR;
}

/* Results of tests need no rounding, nor do those of ops that only select. The complement of a bool
** is 'not'. */
static void emit_op(lower *b, int sec, int level, int i) {
  const fl_instr *x = &b->k->instr[i];
  const fl_op_info *info = &fl_ops[x->op];
  int op = x->op;
  if (op == FL_OP_bitwise_not && x->dtype == FLAME_BOOL) op = FL_OP_logical_not;
  const int n = fl_operand_count(x), cheap = b->g->vm->uniform[op];
  fl_vop y = { .code = FL_V_OP, .level = (uint8_t)level, .v = (uint16_t)i, .arg = (uint16_t)op };
  y.fn.op = b->g->vm->op[op][fl_dtype_reg(x->from)];
  if (!y.fn.op) { b->bad = 1; return; }
  uint8_t *uni = cheap && n > 1 ? &y.uni : NULL;
  y.a = use(b, sec, x->a, level, info->form == FL_FORM_TERNARY ? NULL : uni, 0);
  y.b = y.c = y.a;
  if (n > 1) y.b = use(b, sec, x->b, level, uni, 1);
  if (n > 2) y.c = use(b, sec, x->c, level, uni, 2);
  if (y.uni >> 4) y.code = FL_V_ROWS;
  push(b, sec, y);
  if (info->kind != FL_KIND_TEST && !only_selects(b->k, x) && op != FL_OP_logical_not)
    emit_round(b, sec, level, (uint16_t)i, x->dtype);
}

/* May a load be by reference, with the operand's memory as its register? In the modes LONG and COL
** (program.h) a ROW value (one per row) must stay valid for longer than the unit; a value that is
** stored unchanged must not be overwritten by an earlier store of the tile. */
static int by_reference(const lower *b, int sec, int level, int i) {
  const fl_kernel *k = b->k;
  if (b->g->vm->round[k->instr[i].dtype] || sec == FL_SEC_BIND) return 0;
  if (!level && b->g->mode > FL_MODE_WHOLE) return 0;
  for (int s = 0; s < k->nstore && k->nstore > 1; s++) if (k->store[s].value == i) return 0;
  return 1;
}

static void emit_load(lower *b, int sec, int level, int i) {
  const fl_instr *x = &b->k->instr[i];
  const fl_operand *o = &b->k->operand[x->arg];
  if (o->dtype != x->dtype && x->code != FL_I_IOTA) b->bad = 1;
  b->g->access[x->arg].used |= x->code != FL_I_IOTA;
  fl_vop y = { .code = FL_V_LOAD, .level = (uint8_t)level, .v = (uint16_t)i, .arg = x->arg,
               .reg = o->dtype, .fn.load = b->g->vm->load[o->dtype] };
  y.flags = (uint16_t)by_reference(b, sec, level, i);
  if (x->code == FL_I_GATHER) {
    const int row = b->k->kind == FL_K_ROW ? FL_KIND_ROW : FL_KIND_LINE;
    y.code = FL_V_GATHER;
    y.uni = level == 1 && b->g->mode != FL_MODE_MAP && b->g->reg.at[x->a].kind == row &&
            (b->k->kind == FL_K_ROW || b->g->mode == FL_MODE_COL);
    y.a = y.uni ? x->a : use(b, sec, x->a, level, NULL, 0);
    y.fn.gather = b->g->vm->gather[o->dtype];
  }
  if (x->code == FL_I_IOTA) {
    if (b->late[i]) return;
    y.code = FL_V_IOTA;
  }
  push(b, sec, y);
}

static int is_scalar(const lower *b, int v) { return b->k->instr[v].code == FL_I_SCALAR; }

static void emit_draw(lower *b, int sec, int level, int i) {
  const fl_instr *x = &b->k->instr[i];
  const int which = x->op == FL_OP_uniform ? 0 : x->op == FL_OP_normal ? 1 : 2;
  fl_vop y = { .code = FL_V_DRAW, .level = (uint8_t)level, .v = (uint16_t)i };
  y.fn.draw = b->g->vm->draw[which][x->dtype];
  y.a = use(b, sec, x->a, level, NULL, 0);
  y.arg = (uint16_t)b->g->draw.n;
  if (!y.fn.draw || !is_scalar(b, x->b) || !is_scalar(b, x->c)) { b->bad = 1; return; }
  fl_draw_info *d = FL_PUSH(b->g->mem, &b->g->draw);
  if (!d) { b->failed = 1; return; }
  memset(d, 0, sizeof *d);
  d->instr = (uint16_t)i;
  push(b, sec, y);
}

static void emit_index(lower *b, int sec, int level, int i) {
  const fl_instr *x = &b->k->instr[i];
  fl_vop y = { .code = FL_V_INDEX, .level = (uint8_t)level, .v = (uint16_t)i, .arg = x->arg,
               .flags = x->op };
  if (b->kind[x->b] != FL_KIND_UNI) { b->bad = 1; return; }
  y.a = use(b, sec, x->a, level, NULL, 0);
  y.b = x->b;
  y.c = b->late[x->c] ? x->c
                      : use(b, sec, x->c, level, b->kind[x->c] == FL_KIND_UNI ? &y.uni : NULL, 2);
  if (b->late[x->c]) y.reg = (uint8_t)(b->k->instr[x->c].arg + 1);
  push(b, sec, y);
}

/* Finds positions that are needed only in reports of bad indices: they are computed when there is
** one. */
static void find_late(lower *b) {
  const fl_kernel *k = b->k;
  for (int i = 0; i < k->ninstr; i++)
    b->late[i] = k->instr[i].code == FL_I_IOTA && b->kind[i] != FL_KIND_UNI;
  for (int i = 0; i < k->ninstr; i++) {
    const fl_instr *x = &k->instr[i];
    const uint16_t in[3] = { x->a, x->b, x->c };
    for (int j = 0, n = fl_operand_count(x); j < n; j++)
      if (x->code != FL_I_INDEX || j != 2 || b->kind[i] != b->kind[in[j]]) b->late[in[j]] = 0;
  }
  for (int s = 0; s < k->nstore; s++) b->late[k->store[s].value] = 0;
}

/* Did the previous operation find the extreme value of a, together with its position? */
static int is_placed(const lower *b, int sec, int op, uint16_t a) {
  const fl_section *s = &b->g->sec[sec];
  const fl_vop *x = s->n ? &s->at[s->n - 1] : NULL;
  const int by = op == FL_OP_amax ? FL_OP_argmax : op == FL_OP_amin ? FL_OP_argmin : -1;
  return b->g->mode == FL_MODE_WHOLE && b->k->kind == FL_K_ROW && x && x->code == FL_V_REDUCE &&
         x->a == a && b->g->red.at[x->arg].op == by;
}

/* Emits a reduction; its input is converted to the type of the state's register: i64 for sums of
** integers, 0 or 1 for tests. */
static void emit_reduce(lower *b, int sec, int i) {
  const fl_instr *x = &b->k->instr[i];
  const int kind = fl_ops[x->op].kind, from = fl_dtype_reg(x->from);
  int to = -1;
  if (kind == FL_KIND_TEST && x->from != FLAME_BOOL) to = FLAME_BOOL;
  if (kind == FL_KIND_SUMS && x->dtype == FLAME_I64 && from != FL_REG_I64) to = FLAME_I64;
  const int reg = to < 0 ? from : fl_dtype_reg(to);
  uint16_t a = use(b, sec, x->a, 1, NULL, 0);
  if (to >= 0) {
    const uint16_t t = new_reg(b, FL_KIND_FULL, reg);
    push(b, sec, (fl_vop){ .code = FL_V_MOVE, .level = 1, .v = t, .a = a,
                           .fn.move = b->g->vm->cast[from][to] });
    a = t;
  }
  fl_red *r = FL_PUSH(b->g->mem, &b->g->red);
  if (!r) { b->failed = 1; return; }
  *r = (fl_red){ x->op, (uint16_t)i, (uint16_t)(b->pass[i] - 1), (uint8_t)reg, x->dtype,
                 &b->g->vm->reduce[x->op][reg] };
  if (!r->fn->rows) b->bad = 1;
  push(b, sec, (fl_vop){ .code = FL_V_REDUCE, .level = 1, .v = (uint16_t)i, .a = a,
                         .arg = (uint16_t)(b->g->red.n - 1),
                         .flags = is_placed(b, sec, x->op, a) ? FL_BY_PLACE : 0 });
}

static void emit(lower *b, int sec, int i) {
  const fl_instr *x = &b->k->instr[i];
  const int level = b->kind[i] == FL_KIND_FULL ? 1 : b->kind[i] != FL_KIND_LINE
                    ? 0 : sec == FL_SEC_LINE ? 2 : 1;
  switch (x->code) {
    case FL_I_LOAD: case FL_I_GATHER: case FL_I_IOTA: emit_load(b, sec, level, i); break;
    case FL_I_OP: emit_op(b, sec, level, i); break;
    case FL_I_CAST:
      push(b, sec, (fl_vop){ .code = FL_V_MOVE, .level = (uint8_t)level, .v = (uint16_t)i,
                             .a = use(b, sec, x->a, level, NULL, 0),
                             .fn.move = b->g->vm->cast[fl_dtype_reg(x->from)][x->dtype] });
      break;
    case FL_I_INDEX: emit_index(b, sec, level, i); break;
    case FL_I_RANDOM: emit_draw(b, sec, level, i); break;
    case FL_I_REDUCE: emit_reduce(b, sec, i); break;
    default: break;                            /* SCALAR: fl_prog_bind */
  }
}

/* ---- sections --------------------- */

static int store_level(const lower *b, int s) {
  const fl_kernel *k = b->k;
  const fl_operand *o = &k->operand[k->store[s].operand];
  if (k->kind == FL_K_MAP || (b->kind[k->store[s].value] & FL_KIND_LINE)) return 1;
  for (int d = k->nkept; d < k->nkept + k->nred; d++)
    if (k->size[d] != 1 && o->stride[d] != 0) return 1;
  return 0;
}

static void emit_store(lower *b, int sec, int s, int level) {
  const fl_store *st = &b->k->store[s];
  const fl_operand *o = &b->k->operand[st->operand];
  /* the store rounds, so only the register types must agree */
  if (fl_dtype_reg(o->dtype) != fl_dtype_reg(b->k->instr[st->value].dtype)) b->bad = 1;
  b->g->access[st->operand].used = 2;
  push(b, sec, (fl_vop){ .code = FL_V_STORE, .level = (uint8_t)level, .reg = o->dtype,
                         .a = use(b, sec, st->value, level, NULL, 0), .arg = (uint16_t)s,
                         .fn.store = b->g->vm->store[o->dtype] });
}

static void emit_stores(lower *b, int sec, int level) {
  for (int s = 0; s < b->k->nstore; s++)
    if (store_level(b, s) == level) emit_store(b, sec, s, level);
}

/* Lowers everything into one tile, in the order of the kernel. */
static void lower_tile(lower *b) {
  const int sec = FL_SEC_FULL(0);
  for (int i = 0; i < b->k->ninstr; i++)
    if (b->kind[i] != FL_KIND_UNI) emit(b, b->kind[i] == FL_KIND_LINE ? FL_SEC_UNIT : sec, i);
  emit_stores(b, sec, 1);
  emit_stores(b, sec, 0);
}

static void mark_round(lower *b, int round) {
  const fl_kernel *k = b->k;
  memset(b->need, 0, k->ninstr);
  if (round == b->g->rounds) {
    for (int s = 0; s < k->nstore; s++) if (store_level(b, s)) b->need[k->store[s].value] = 1;
  } else {
    for (int i = 0; i < k->ninstr; i++)
      b->need[i] = k->instr[i].code == FL_I_REDUCE && b->pass[i] == round + 1;
  }
  for (int i = k->ninstr - 1; i >= 0; i--) {
    const fl_instr *x = &k->instr[i];
    if (x->code == FL_I_INDEX && b->pass[i] == round) b->need[i] = 1;      /* it reports */
    const uint16_t in[3] = { x->a, x->b, x->c };
    if (!b->need[i] || (b->kind[i] != FL_KIND_FULL && x->code != FL_I_REDUCE)) continue;
    for (int j = 0; j < fl_operand_count(x); j++)
      if (b->kind[in[j]] == FL_KIND_FULL) b->need[in[j]] = 1;
  }
}

static void lower_rounds(lower *b) {
  const fl_kernel *k = b->k;
  for (int i = 0; i < k->ninstr; i++) if (b->kind[i] == FL_KIND_LINE) emit(b, FL_SEC_LINE, i);
  for (int r = 0; r <= b->g->rounds; r++) {
    for (int i = 0; i < k->ninstr; i++)
      if (b->kind[i] == FL_KIND_ROW && k->instr[i].code != FL_I_REDUCE && b->pass[i] == r)
        emit(b, FL_SEC_ROW(r), i);
    mark_round(b, r);
    memset(b->spread, 0, sizeof *b->spread * k->ninstr);
    for (int i = 0; i < k->ninstr; i++) {
      const int reduce = k->instr[i].code == FL_I_REDUCE;
      if (b->need[i] && (reduce ? r < b->g->rounds : b->kind[i] == FL_KIND_FULL))
        emit(b, FL_SEC_FULL(r), i);
    }
  }
  emit_stores(b, FL_SEC_FULL(b->g->rounds), 1);
  emit_stores(b, FL_SEC_STORE, 0);
}

static int start(lower *b, size_t n) {
  fl_prog *g = b->g;
  for (size_t i = 0; i < n; i++) {
    const int line = b->kind[i] == FL_KIND_LINE && g->mode == FL_MODE_WHOLE;
    new_reg(b, line ? FL_KIND_FULL : b->kind[i], fl_dtype_reg(b->k->instr[i].dtype));
    if ((line || b->late[i]) && !b->failed) g->reg.at[i].lives = 1;
  }
  g->nsec = FL_SEC_FULL(g->rounds) + 1;
  g->sec = fl_zalloc(g->mem, sizeof *g->sec * (size_t)g->nsec);
  g->access = fl_zalloc(g->mem, sizeof *g->access * (g->k->noperand + 1u));
  g->conflict = fl_zalloc(g->mem, sizeof *g->conflict * (g->k->nstore + 1u));
  g->direct = fl_zalloc(g->mem, g->k->nstore + 1u);
  g->address = fl_zalloc(g->mem, sizeof *g->address * (g->k->noperand + 1u));
  return !b->failed && g->sec && g->access && g->conflict && g->direct && g->address;
}

/* Is instruction i work of a MAP that is the same along its last dim (ROW), or for all dims before
** that (LINE)? ROW work counts only if rows are not so short that blocks of one row would be small
** (a load: only if they are longer still); a load of a LINE counts unless rows are so long that
** there is only one load per block. */
static int is_shared(const lower *b, int i) {
  const int load = b->k->instr[i].code == FL_I_LOAD;
  if (b->kind[i] == FL_KIND_LINE) return !load || b->k->n < FL_VM_BLOCK;
  return b->kind[i] == FL_KIND_ROW && b->k->n >= (load ? LOAD_ROW : LINE_ROW);
}

/* Makes a MAP a ROW kernel without reductions, if that saves work. */
static void map_as_rows(lower *b) {
  fl_prog *g = b->g;
  const fl_kernel *k = b->k;
  const int last = k->nkept - 1;
  if (k->kind != FL_K_MAP || last < 1 || k->size[last] < 2 || k->points < 4 * FL_VM_BLOCK) return;
  if (fl_jumping_dim(k, last) >= 0) return;
  g->own = *k;
  g->own.kind = FL_K_ROW;
  g->own.nkept = (uint8_t)last;
  g->own.nred = 1;
  g->own.n = k->size[last];
  g->own.rows = k->points / g->own.n;
  b->k = &g->own;
  int shared = 0;
  for (int i = 0; i < k->ninstr; i++) {
    classify(b, i);
    shared += is_shared(b, i);
  }
  if (shared) g->k = b->k;
  else b->k = k;
}

/* Reorders dims for a COL kernel: the last but one becomes the last. */
static void turn(int64_t *v, int n) {
  const int64_t t = v[n - 2];
  v[n - 2] = v[n - 1];
  v[n - 1] = t;
}

/* Makes a MAP of three dims or more, some of whose operands do not move along the last dim but one,
** a COL kernel without reductions, if that saves work. 0 when memory is out. */
static int map_as_cols(lower *b) {
  fl_prog *g = b->g;
  const fl_kernel *k = b->k;
  const int n = k->nkept;
  int shared = 0;
  if (k->kind != FL_K_MAP || n < 3 || k->size[n - 1] < LINE_ROW || k->size[n - 2] < 4 ||
      k->points < 4 * FL_VM_BLOCK || fl_jumping_dim(k, n - 1) >= 0) return 1;
  g->turned = fl_zalloc(g->mem, sizeof *g->turned * (k->noperand + 1u));
  g->own = *k;
  if (!g->turned) return 0;
  for (int i = 0; i < k->noperand; i++) {
    g->turned[i] = k->operand[i];
    turn(g->turned[i].stride, n);
  }
  turn(g->own.size, n);
  g->own.operand = g->turned;
  g->own.kind = FL_K_COL;
  g->own.nkept = (uint8_t)(n - 1);
  g->own.nred = 1;
  g->own.n = k->size[n - 2];
  g->own.rows = k->points / g->own.n;
  b->k = &g->own;
  for (int i = 0; i < k->ninstr; i++) {
    classify(b, i);
    shared += b->kind[i] == FL_KIND_ROW && k->instr[i].code != FL_I_LOAD;
  }
  if (shared) g->k = b->k;
  else b->k = k;
  return 1;
}

static int lower_all(lower *b) {
  if (!fl_prog_lean(b->g, b->k)) return 0;
  b->k = b->g->k;
  map_as_rows(b);
  if (!map_as_cols(b)) return 0;
  const fl_kernel *k = b->k;
  for (int i = 0; i < k->ninstr; i++) classify(b, i);
  fl_prog_choose_mode(b->g, b->kind, b->workers);
  for (int i = 0; i < k->ninstr; i++)
    if (b->kind[i] == FL_KIND_LINE && b->g->mode == FL_MODE_LONG) b->kind[i] = FL_KIND_FULL;
  b->row_by_row = b->g->batch > 1 && (b->g->mode == FL_MODE_COL ? b->g->width >= FL_UNI_ROW :
                                      b->g->mode == FL_MODE_WHOLE && k->kind == FL_K_ROW &&
                                      k->n >= FL_UNI_ROW);
  b->g->one_line = b->row_by_row && b->g->mode == FL_MODE_WHOLE;
  find_late(b);
  if (!start(b, k->ninstr)) return 0;
  for (int i = 0; i < k->noperand; i++) fl_prog_access(b->g, i);
  for (int i = 0; i < k->ninstr; i++) if (b->kind[i] == FL_KIND_UNI) emit(b, FL_SEC_BIND, i);
  if (b->g->mode <= FL_MODE_WHOLE) lower_tile(b);
  else lower_rounds(b);
  return !b->failed && (b->bad || fl_prog_place(b->g));
}

/* Measured: on AMD's processors prefetching makes streaming kernels a tenth to a fifth slower. */
static uint8_t asks_ahead(void) {
#if defined(__x86_64__)
  return !__builtin_cpu_is("amd");
#else
  return 1;
#endif
}

fl_prog *fl_prog_new(flame_context *c, fl_mem *m, const fl_vm *vm, const fl_kernel *k,
                     int workers) {
  const size_t n = k->ninstr, bytes = n * 4 + (n + 1) * 4 * sizeof(uint16_t);
  fl_prog *g = fl_zalloc(m, sizeof *g);
  char *work = fl_zalloc(m, bytes + 64);
  lower b = { .g = g, .k = k, .workers = workers };
  int ok = g && work;
  if (g) {                               /* what fl_prog_free reads */
    g->vm = vm;
    g->asks = asks_ahead();
    g->k = k;
    g->mem = m;
  }
  if (ok) {
    b.fill[0] = (uint16_t *)(void *)work;
    b.fill[1] = b.fill[0] + n;
    b.fill[2] = b.fill[1] + n;
    b.spread = b.fill[2] + n;
    b.kind = (uint8_t *)(b.spread + n);
    b.pass = b.kind + n;
    b.need = b.pass + n;
    b.late = b.need + n;
    ok = lower_all(&b);
  }
  if (work) fl_free(m, work, bytes + 64);
  if (ok && !b.bad) return g;
  fl_prog_free(g);
  if (ok) FL_FAIL(c, FLAME_INTERNAL, "cpu", "kernel outside the contract of plan/kernel.h");
  else FL_FAIL(c, FLAME_NO_MEMORY, "cpu", "out of host memory while preparing a kernel");
  return NULL;
}
