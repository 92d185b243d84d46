/*
** Where registers are. FULL registers (one element per point) of a section (a list of operations)
** share buffers: one is free again after the last operation that reads it, and elementwise work may
** overwrite an operand that is not read again. ROW registers (one element per row) and fills
** (copies of one number to all elements) keep their place for a whole unit (ROW registers of LONG
** and COL: for all rounds of a block).
**
** A stored value may be computed directly in the store's memory if that holds register values (no
** rounding or conversion) and nothing read later in the tile can be there; the latter depends on
** addresses, so it is checked at each run.
*/
#include "cpu/program/program.h"
#include "base/num.h"
#include <string.h>

enum { SKEW = 576 };      /* bytes between buffers, so that their low address bits differ */

typedef struct placer {
  fl_prog *g;
  int32_t *last;          /* per register: last operation of the section that reads it; -1: none */
  int64_t *pool[2];       /* free buffers of 4- and 8-byte elements */
  int64_t npool[2], next, most;
} placer;

static int64_t buffer_bytes(const fl_prog *g, int size) {
  return fl_round_up(g->full * size, 64) + SKEW;
}

static int is_elementwise(const fl_vop *x) { return x->code <= FL_V_MOVE; }

static void release(placer *p, uint16_t v, int32_t at) {
  const fl_vreg *r = &p->g->reg.at[v];
  if (r->kind != FL_KIND_FULL || r->lives || p->last[v] != at) return;
  const int k = fl_reg_size(r->reg) == 8;
  p->pool[k][p->npool[k]++] = r->off;
  p->last[v] = -2;                               /* released */
}

static void give(placer *p, uint16_t v) {
  fl_vreg *r = &p->g->reg.at[v];
  const int k = fl_reg_size(r->reg) == 8;
  if (p->npool[k] > 0) {
    r->off = p->pool[k][--p->npool[k]];
    return;
  }
  r->off = p->next;
  p->next += buffer_bytes(p->g, fl_reg_size(r->reg));
  if (p->next > p->most) p->most = p->next;
}

static void reads_at(placer *p, const fl_section *s, int64_t i) {
  uint16_t v[FL_CHAIN];
  for (int k = 0, n = fl_vop_reads(p->g, &s->at[i], v); k < n; k++) p->last[v[k]] = (int32_t)i;
}

/* Places the registers of a section. A value that is not read in its section keeps its buffer. */
static void place_section(placer *p, const fl_section *s, int64_t base) {
  const fl_prog *g = p->g;
  for (int64_t i = 0; i < g->reg.n; i++) p->last[i] = -1;
  for (int64_t i = 0; i < s->n; i++) reads_at(p, s, i);
  p->npool[0] = p->npool[1] = 0;
  p->next = base;
  for (int64_t i = 0; i < s->n; i++) {
    const fl_vop *x = &s->at[i];
    const fl_vreg *r = &g->reg.at[x->v];
    const int again = x->code == FL_V_MOVE && x->v == x->a;           /* rounded in place */
    const int out = x->code != FL_V_STORE && x->code != FL_V_REDUCE && !again &&
                    r->kind == FL_KIND_FULL && !r->lives;
    if (out && !is_elementwise(x)) give(p, x->v);
    uint16_t v[FL_CHAIN];
    for (int k = 0, n = fl_vop_reads(g, x, v); k < n; k++) release(p, v[k], (int32_t)i);
    if (out && is_elementwise(x)) give(p, x->v);
  }
}

static void add_operand(fl_operand_set *set, int o) {
  set->bits[o / 64] |= (uint64_t)1 << o % 64;
}

/* Operands that the tile reads after operation 'at', or still references then: by its own section,
** and by loads that were done once for the unit or the chunk. */
static fl_operand_set read_after(const placer *p, const fl_section *s, int64_t at) {
  fl_operand_set set = { { 0 } };
  for (int64_t i = 0; i < s->n; i++) {
    const fl_vop *x = &s->at[i];
    if ((x->code == FL_V_GATHER && i > at) ||
        (x->code == FL_V_LOAD && (i > at || p->last[x->v] > at || x->flags == FL_BY_HALVES)))
      add_operand(&set, x->arg);
  }
  for (int k = FL_SEC_UNIT; k <= FL_SEC_LINE; k++) {
    const fl_section *once = &p->g->sec[k];
    for (int64_t i = 0; i < once->n; i++)
      if (once->at[i].code == FL_V_LOAD && p->last[once->at[i].v] > at)
        add_operand(&set, once->at[i].arg);
  }
  return set;
}

/* Is the value that st stores as bf16 computed by a chain, only for this store? */
static int is_half_chain(const fl_prog *g, const fl_section *s, const fl_vop *st) {
  int readers = 0, chains = 0;
  for (int64_t i = 0; i < s->n && st->reg == FLAME_BF16; i++) {
    const fl_vop *x = &s->at[i];
    uint16_t v[FL_CHAIN];
    for (int k = 0, n = fl_vop_reads(g, x, v); k < n; k++) readers += v[k] == st->a;
    chains += x->code == FL_V_CHAIN && x->v == st->a;
  }
  return readers == 1 && chains == 1;
}

static void find_targets(placer *p, fl_section *s) {
  fl_prog *g = p->g;
  for (int64_t i = 0; i < g->reg.n; i++) p->last[i] = -1;
  for (int64_t i = 0; i < s->n; i++) reads_at(p, s, i);
  for (int64_t i = 0; i < s->n; i++) {
    const fl_vop *st = &s->at[i];
    if (st->code != FL_V_STORE || !st->level || (g->vm->round[st->reg] && !is_half_chain(g, s, st)))
      continue;
    if (g->reg.at[st->a].lives || g->reg.at[st->a].kind != FL_KIND_FULL) continue;
    for (int64_t j = 0; j < i; j++) {
      fl_vop *x = &s->at[j];
      if (x->v != st->a || x->code == FL_V_STORE || x->code == FL_V_REDUCE) continue;
      if (!x->target && !(x->code == FL_V_LOAD && x->flags)) {
        x->target = (uint16_t)(st->arg + 1);
        g->conflict[st->arg] = read_after(p, s, j);
      }
      break;
    }
  }
}

/* Unused operand fields refer to register 0, which would keep it alive: they are set to a register
** that the operation uses anyway. */
static void tidy(fl_section *s) {
  for (int64_t i = 0; i < s->n; i++) {
    fl_vop *x = &s->at[i];
    const int three = x->code == FL_V_INDEX;
    if (x->code == FL_V_LOAD || x->code == FL_V_IOTA) x->a = x->v;
    if (x->code > FL_V_ROWS && !three) x->b = x->c = x->a;
    if (x->code == FL_V_STORE || x->code == FL_V_REDUCE) x->b = x->c = x->a;
  }
}

static void place_fixed(fl_prog *g) {
  for (int64_t i = 0; i < g->reg.n; i++) {
    fl_vreg *r = &g->reg.at[i];
    const int size = fl_reg_size(r->reg);
    if (r->kind == FL_KIND_UNI) r->off = 8 * i;
    if (r->kind == FL_KIND_ROW) {
      r->off = g->row_bytes;
      g->row_bytes += fl_round_up(g->row * size, 64);
    }
    if (r->kind == FL_KIND_LINE) {
      r->off = g->line_bytes;
      g->line_bytes += fl_round_up(FL_VM_CHUNK * size, 64);
    }
    if (r->kind == FL_KIND_FULL && r->lives) {
      r->off = g->full_bytes;
      g->full_bytes += buffer_bytes(g, size);
    }
  }
}

/* *to: the register that a section uses in place of v, which is made at the first call. 0: memory
** is out. */
static int parted(fl_prog *g, uint16_t *own, uint16_t v, uint16_t *to) {
  const fl_vreg r = g->reg.at[v];
  *to = v;
  if (r.kind != FL_KIND_FULL || r.lives) return 1;
  if (!own[v]) {
    fl_vreg *x = g->reg.n < 65535 ? FL_PUSH(g->mem, &g->reg) : NULL;
    if (!x) return 0;
    *x = r;
    own[v] = (uint16_t)(g->reg.n - 1);
  }
  *to = own[v];
  return 1;
}

/* A register has one buffer, and the rounds of a row do not share buffers: values that a later
** round computes again get separate registers in that round. */
static int part_rounds(fl_prog *g) {
  const int64_t n = g->reg.n;
  uint16_t *own = fl_alloc(g->mem, sizeof *own * ((size_t)n + 1));
  int ok = own != NULL;
  for (int r = 1; ok && r <= g->rounds; r++) {
    fl_section *s = &g->sec[FL_SEC_FULL(r)];
    memset(own, 0, sizeof *own * ((size_t)n + 1));
    for (int64_t i = 0; ok && i < s->n; i++) {
      fl_vop *x = &s->at[i];
      ok = parted(g, own, x->v, &x->v) && parted(g, own, x->a, &x->a) &&
           parted(g, own, x->b, &x->b) && parted(g, own, x->c, &x->c);
    }
  }
  if (own) fl_free(g->mem, own, sizeof *own * ((size_t)n + 1));
  return ok;
}

int fl_prog_place(fl_prog *g) {
  for (int s = 0; s < g->nsec; s++) tidy(&g->sec[s]);
  if (g->mode > FL_MODE_WHOLE && !part_rounds(g)) return 0;
  const size_t n = (size_t)g->reg.n + 1, bytes = n * (sizeof(int32_t) + 2 * sizeof(int64_t));
  char *work = fl_prog_fuse(g) ? fl_alloc(g->mem, bytes) : NULL;
  g->uni = fl_zalloc(g->mem, 8 * n);
  if (!work || !g->uni) {
    if (work) fl_free(g->mem, work, bytes);
    return 0;
  }
  placer p = { .g = g, .pool = { (int64_t *)(void *)work, (int64_t *)(void *)work + n } };
  p.last = (int32_t *)(void *)(p.pool[1] + n);
  place_fixed(g);
  p.most = g->full_bytes;
  for (int r = 0; r <= g->rounds; r++) place_section(&p, &g->sec[FL_SEC_FULL(r)], g->full_bytes);
  find_targets(&p, &g->sec[g->mode <= FL_MODE_WHOLE ? FL_SEC_FULL(0) : FL_SEC_FULL(g->rounds)]);
  g->full_bytes = p.most;
  g->state_bytes = g->red.n * 16 * g->row;
  fl_free(g->mem, work, bytes);
  return 1;
}

void fl_prog_free(fl_prog *g) {
  if (!g) return;
  fl_mem *m = g->mem;
  for (int i = 0; g->sec && i < g->nsec; i++) FL_DROP(m, &g->sec[i]);
  fl_free(m, g->turned, sizeof *g->turned * (g->own.noperand + 1u));
  fl_free(m, g->sec, sizeof *g->sec * (size_t)g->nsec);
  fl_free(m, g->access, sizeof *g->access * (g->k->noperand + 1u));
  fl_free(m, g->conflict, sizeof *g->conflict * (g->k->nstore + 1u));
  fl_free(m, g->direct, g->k->nstore + 1u);
  fl_free(m, g->address, sizeof *g->address * (g->k->noperand + 1u));
  if (g->uni) fl_free(m, g->uni, 8 * ((size_t)g->reg.n + 1));
  FL_DROP(m, &g->reg);
  FL_DROP(m, &g->red);
  FL_DROP(m, &g->draw);
  FL_DROP(m, &g->chain);
  if (g->lean_at) fl_free(m, g->lean_at, g->lean_bytes);
  fl_free(m, g, sizeof *g);
}

/* ---- addresses --------------------- */

static int overlaps(const fl_prog *g, int i, int j) {
  const fl_operand *a = &g->k->operand[i], *b = &g->k->operand[j];
  const int64_t as = fl_dtype_size(a->dtype), bs = fl_dtype_size(b->dtype);
  const char *p = g->address[i], *q = g->address[j];
  return p + g->access[i].low * as < q + (g->access[j].high + 1) * bs &&
         q + g->access[j].low * bs < p + (g->access[i].high + 1) * as;
}

static void choose_direct(fl_prog *g, int s) {
  const int o = g->k->store[s].operand;
  const uint64_t *bits = g->conflict[s].bits;
  g->direct[s] = 1;
  for (int i = 0; i < g->k->noperand; i++) {
    if (i % 64 == 0 && !bits[i / 64]) i += 63;
    else if ((bits[i / 64] >> i % 64 & 1) && overlaps(g, o, i)) g->direct[s] = 0;
  }
}

static void set_scalar(char *p, int dtype, fl_scalar v) {
  switch (fl_dtype_reg(dtype)) {
    case FL_REG_F64: *(double *)(void *)p = v.d; break;
    case FL_REG_F32: *(float *)(void *)p = (float)v.d; break;
    case FL_REG_I64: *(int64_t *)(void *)p = v.i; break;
    default: *(int32_t *)(void *)p = (int32_t)v.i; break;
  }
}

static double as_double(const fl_prog *g, int v) {
  const char *p = g->uni + g->reg.at[v].off;
  switch (g->reg.at[v].reg) {
    case FL_REG_F64: return *(const double *)(const void *)p;
    case FL_REG_F32: return (double)*(const float *)(const void *)p;
    default: return 0;
  }
}

static int64_t as_int(const fl_prog *g, int v) {
  const char *p = g->uni + g->reg.at[v].off;
  if (g->reg.at[v].reg == FL_REG_I64) return *(const int64_t *)(const void *)p;
  return *(const int32_t *)(const void *)p;
}

static void set_draws(fl_prog *g, const fl_binding *b) {
  for (int64_t i = 0; i < g->draw.n; i++) {
    fl_draw_info *d = &g->draw.at[i];
    const fl_instr *x = &g->k->instr[d->instr];
    d->q.base = b->scalar[g->k->scalar[x->arg]].i;
    d->q.seed = b->scalar[g->k->scalar[x->arg + 1]].i;
    if (x->op == FL_OP_randint) {
      d->q.a.i = as_int(g, x->b);
      d->q.b.i = as_int(g, x->c);
    } else {
      d->q.a.d = as_double(g, x->b);
      d->q.b.d = as_double(g, x->c);
    }
  }
}

void fl_prog_address(fl_prog *g, const fl_binding *b) {
  const fl_kernel *k = g->k;
  for (int i = 0; i < k->noperand; i++) {
    const fl_operand *o = &k->operand[i];
    if (g->access[i].used)
      g->address[i] = (char *)fl_place_address(b, &o->place) + o->offset * fl_dtype_size(o->dtype);
  }
  for (int i = 0; i < k->ninstr; i++) {
    const fl_instr *x = &k->instr[i];
    if (x->code == FL_I_SCALAR) set_scalar(g->uni + 8 * i, x->dtype, b->scalar[k->scalar[x->arg]]);
  }
  set_draws(g, b);
  for (int s = 0; s < k->nstore; s++) choose_direct(g, s);
}
