/*
** The machine: scratch memory of a worker, the loop over instructions, and the masks.
**
** A mask is -1 or 0 for each lane, with the number of active lanes; a full mask is the constant
** 'ones', so that full masks are never copied. The current mask is 'now'; while code runs it has at
** least one lane (instructions that could empty it jump).
*/
#include "kernel/lanes/lane_state.h"
#include <string.h>

/* ---- scratch ------------------------------------------------------------------------- */

static size_t lanes_of(const fl_lane_launch *l) {
  return (size_t)l->block[0] * l->block[1] * l->block[2];
}

/* Hands out parts of the scratch memory; with base NULL it only counts. */
typedef struct cutter { char *base; size_t at; } cutter;
static void *cut(cutter *c, size_t bytes) {
  void *p = c->base ? c->base + c->at : NULL;
  c->at += (bytes + 63) / 64 * 64;
  return p;
}

FL_LANE_RARE static void cut_registers(cutter *c, fl_lane_state *s, const fl_lane_code *k,
                                       size_t n) {
  s->reg = cut(c, (size_t)k->regs.n * sizeof *s->reg);
  s->home = cut(c, (size_t)k->regs.n * sizeof *s->home);
  s->linear = cut(c, (size_t)k->regs.n * sizeof *s->linear);
  s->rows_of = cut(c, (size_t)k->regs.n * sizeof *s->rows_of);
  s->forms = cut(c, (size_t)k->regs.n * sizeof *s->forms);
  s->next = cut(c, (size_t)k->ins.n * sizeof *s->next);
  s->fresh = cut(c, (size_t)k->ins.n * sizeof *s->fresh);
  const size_t narrow = (n * 4 + 63) / 64 * 64, wide = (n * 8 + 63) / 64 * 64;
  char *cells = cut(c, (size_t)k->n_cells * 8);
  char *v4 = cut(c, (size_t)k->n_narrow * narrow), *v8 = cut(c, (size_t)k->n_wide * wide);
  for (int64_t r = 0; c->base && r < k->regs.n; r++) {
    const fl_lane_reg *q = &k->regs.at[r];
    s->home[r] = s->reg[r] = q->uniform ? cells + 8 * q->slot
                           : q->wide ? v8 + (size_t)q->slot * wide : v4 + (size_t)q->slot * narrow;
  }
}

FL_LANE_RARE static void cut_masks(cutter *c, fl_lane_state *s, const fl_lane_code *k, size_t n) {
  s->masks = cut(c, (size_t)k->n_masks * sizeof *s->masks);
  for (int m = 0; m < k->n_masks; m++) {
    int32_t *own = cut(c, n * 4);
    if (c->base) s->masks[m].own = own;
  }
  s->now.own = cut(c, n * 4);
  s->ones = cut(c, n * 4);
  s->gone = cut(c, n * 4);
}

FL_LANE_RARE static void cut_arrays(cutter *c, fl_lane_state *s, const fl_lane_code *k,
                                    const fl_lane_launch *l, size_t n) {
  s->views = cut(c, (size_t)k->n_vars * sizeof *s->views);
  s->shared_bytes = (k->shared_bytes + 15) / 16 * 16;
  s->shared = cut(c, (size_t)(s->shared_bytes + l->shared_bytes));
  char *local8 = cut(c, (size_t)k->local8 * n * 8), *local4 = cut(c, (size_t)k->local4 * n * 4);
  if (l->checks & FL_LANE_UNINIT) {
    s->shared_set = cut(c, (size_t)(s->shared_bytes + l->shared_bytes));
    s->local_set = cut(c, (size_t)(k->local8 + k->local4) * n);
    s->tracks = cut(c, (size_t)k->n_tracks * n * 4);
  }
  if (l->checks & FL_LANE_RACE) {
    s->n_shared_cells = fl_lane_shared_marks(s, NULL);
    s->shared_cells = cut(c, (size_t)s->n_shared_cells * sizeof *s->shared_cells);
  }
  for (int v = 0; c->base && v < k->n_vars; v++) {
    const fl_lane_array *a = &k->arrays[v];
    fl_lane_view *w = &s->views[v];
    *w = (fl_lane_view){ .count = a->count, .step = 1 };
    switch (a->kind) {
      case FL_KV_TABLE: w->base = (char *)(k->tables.at + a->offset); break;
      case FL_KV_ARRAY:
        w->base = a->wide ? local8 + (size_t)a->offset * n * 8 : local4 + (size_t)a->offset * n * 4;
        break;
      case FL_KV_SHARED:
        w->base = s->shared + (a->dynamic ? s->shared_bytes : a->offset);
        if (a->dynamic) w->count = l->shared_bytes / fl_kt_size(a->type);
        break;
      case FL_KV_POINTER:
        w->base = a->param < 0 ? NULL : l->args[a->param].memory[a->leaf].data;
        w->count = a->param < 0 ? 0 : l->args[a->param].memory[a->leaf].bytes / fl_kt_size(a->type);
        break;
      default: break;
    }
  }
}

/* Lays out the scratch memory, of which the state itself comes first, and returns its size; with
** scratch NULL it only counts. */
FL_LANE_RARE static size_t layout(const fl_lane_code *k, const fl_lane_launch *l, void *scratch) {
  cutter c = { scratch, 0 };
  fl_lane_state spare = { 0 }, *s = cut(&c, sizeof spare);
  const size_t n = lanes_of(l);
  if (!s) s = &spare;
  else memset(s, 0, sizeof *s);
  s->code = k;
  s->launch = l;
  s->n = (int64_t)n;
  s->width = l->block[0];
  s->height = l->block[1];
  s->depth = l->block[2];
  s->rows = s->height * s->depth;
  cut_registers(&c, s, k, n);
  cut_masks(&c, s, k, n);
  s->infos = cut(&c, (size_t)k->n_infos * sizeof *s->infos);
  s->spare = cut(&c, n * 8);
  s->at = cut(&c, n * 8);
  s->starts = cut(&c, (size_t)s->rows * 8);
  cut_arrays(&c, s, k, l, n);
  return c.at;
}

size_t fl_lane_scratch(const fl_lane_code *c, const fl_lane_launch *l) {
  return layout(c, l, NULL);
}

/* ---- values at the begin ------------------------------------------------------------- */

FL_LANE_RARE static void set_special(fl_lane_state *s, const fl_lane_init *i) {
  const uint32_t *block = s->launch->block, *grid = s->launch->grid;
  uint32_t *out = s->reg[i->reg];
  for (int64_t k = 0; i->special <= FL_KSPECIAL_TID_Z && k < s->n; k++) {
    const uint32_t t = (uint32_t)k;
    out[k] = i->special == FL_KSPECIAL_TID_X ? t % block[0]
           : i->special == FL_KSPECIAL_TID_Y ? t / block[0] % block[1] : t / (block[0] * block[1]);
  }
  if (i->special <= FL_KSPECIAL_TID_Z)
    s->linear[i->reg] = (fl_lane_linear){ .x = i->special == FL_KSPECIAL_TID_X,
                                          .y = i->special == FL_KSPECIAL_TID_Y,
                                          .z = i->special == FL_KSPECIAL_TID_Z, .on = 2,
                                          .high = (int64_t)block[i->special] - 1 };
  if (i->special >= FL_KSPECIAL_BDIM_X && i->special <= FL_KSPECIAL_BDIM_Z)
    out[0] = block[i->special - FL_KSPECIAL_BDIM_X];
  if (i->special >= FL_KSPECIAL_GDIM_X && i->special <= FL_KSPECIAL_GDIM_Z)
    out[0] = grid[i->special - FL_KSPECIAL_GDIM_X];
}

/* Finds the arrays whose accesses are recorded or checked (watched), and where the accesses to
** their elements are recorded (marks). */
FL_LANE_RARE static void watch(fl_lane_state *s) {
  const fl_lane_launch *l = s->launch;
  const int race = (l->checks & FL_LANE_RACE) != 0, unset = (l->checks & FL_LANE_UNINIT) != 0;
  if (race) {
    memset(s->shared_cells, 0, (size_t)s->n_shared_cells * sizeof *s->shared_cells);
    fl_lane_shared_marks(s, s->shared_cells);
  }
  for (int k = 0; k < s->code->n_vars; k++) {
    const fl_lane_array *a = &s->code->arrays[k];
    fl_lane_view *v = &s->views[k];
    if (a->kind == FL_KV_POINTER && race) v->marks = l->shadow->of[k];
    v->watched = v->marks.write || (unset && (a->kind == FL_KV_SHARED ||
                                              (a->kind == FL_KV_ARRAY && a->param < 0)));
  }
}

/* Sets a scalar parameter, which is a variable that the kernel may change. */
static void set_param(fl_lane_state *s, const fl_lane_init *i) {
  uint64_t slot = 0;
  const fl_lane_reg *r = &s->code->regs.at[i->reg];
  s->table->load[i->type](&slot, (const char *)s->launch->args[i->param].value + i->offset, 1);
  if (r->uniform) memcpy(s->reg[i->reg], &slot, 8);
  else {
    s->table->splat[r->wide](s->reg[i->reg], &slot, NULL, NULL, s->n, 0);
    s->linear[i->reg].on = 0;
  }
}

FL_LANE_RARE void fl_lane_begin(const fl_lane_code *c, const fl_lane_launch *l, void *scratch) {
  layout(c, l, scratch);
  fl_lane_state *s = scratch;
  s->table = c->table;
  memset(s->ones, -1, (size_t)s->n * 4);
  memset(s->linear, 0, (size_t)c->regs.n * sizeof *s->linear);
  memset(s->rows_of, 0, (size_t)c->regs.n * sizeof *s->rows_of);
  watch(s);
  for (int64_t k = 0; k < c->inits.n; k++) {
    const fl_lane_init *i = &c->inits.at[k];
    if (i->special >= 0) set_special(s, i);
    else if (i->param < 0) fl_lane_slot(s->reg[i->reg], i->type, i->value);
    else set_param(s, i);
  }
  fl_lane_do_hoist(s);
}

/* Copies an array member of a struct parameter: each thread has a copy. */
FL_LANE_RARE static void set_local(fl_lane_state *s, const fl_lane_array *a) {
  const fl_kvar *v = &s->code->func->vars[a->var];
  const char *from = s->launch->args[a->param].value;
  for (int64_t e = 0; e < a->count; e++) {
    uint64_t slot = 0;
    s->table->load[a->type](&slot, from + fl_kvar_offset(v, e), 1);
    s->table->splat[a->wide](s->views[a->var].base + e * s->n * (a->wide ? 8 : 4), &slot, NULL,
                             NULL, s->n, 0);
  }
}

static void begin_block(fl_lane_state *s) {
  const fl_lane_code *c = s->code;
  const size_t shared = (size_t)(s->shared_bytes + s->launch->shared_bytes), n = (size_t)s->n;
  const uint32_t *grid = s->launch->grid;
  const int64_t row = s->block / grid[0];
  s->place[0] = s->block % grid[0];
  s->place[1] = row % grid[1];
  s->place[2] = row / grid[1];
  fl_lane_renew(s);
  for (int64_t k = 0; k < c->inits.n; k++) {
    const fl_lane_init *i = &c->inits.at[k];
    if (i->changes) set_param(s, i);
    else if (i->special >= FL_KSPECIAL_BID_X && i->special <= FL_KSPECIAL_BID_Z)
      *(uint32_t *)s->reg[i->reg] = (uint32_t)s->place[i->special - FL_KSPECIAL_BID_X];
  }
  for (int v = 0; v < c->n_vars; v++)
    if (c->arrays[v].kind == FL_KV_ARRAY && c->arrays[v].param >= 0) set_local(s, &c->arrays[v]);
  memset(s->shared, 0, shared);
  if (s->live != (int32_t)s->n) memset(s->gone, 0, n * 4);
  if (s->shared_set) {
    memset(s->shared_set, 0, shared);
    memset(s->local_set, 0, (size_t)(c->local8 + c->local4) * n);
    memset(s->tracks, 0, (size_t)c->n_tracks * n * 4);
  }
  if (s->launch->checks & FL_LANE_RACE) fl_lane_time_begin(s);
  s->steps = 0;
  s->now.at = s->ones;
  s->now.count = s->live = (int32_t)s->n;
}

/* ---- faults -------------------------------------------------------------------------- */

fl_lane_place fl_lane_place_of(const fl_lane_state *s, int64_t lane, int line) {
  return (fl_lane_place){ .block = s->block, .thread = (int32_t)lane, .line = line };
}

FL_LANE_RARE int fl_lane_fault(fl_lane_state *s, const fl_lane_ins *p, int kind, int64_t lane) {
  fl_lane_report *r = s->report;
  memset(r, 0, sizeof *r);
  r->kind = (uint8_t)kind;
  r->kernel = s->code->func->name;
  r->at = fl_lane_place_of(s, lane, p->line);
  memcpy(r->grid, s->launch->grid, sizeof r->grid);
  memcpy(r->block, s->launch->block, sizeof r->block);
  if (p->var < 0) return 0;
  const fl_kvar *v = &s->code->func->vars[p->var];
  r->name = v->source ? v->source : v->name;
  if (v->kind == FL_KV_LOCAL) return 0;
  r->size = s->views[p->var].count;
  if (v->kind == FL_KV_POINTER || v->dynamic) return 0;
  r->rank = v->rank;
  memcpy(r->dims, v->dims, sizeof r->dims);
  return 0;
}

int fl_lane_fault_at(fl_lane_state *s, const fl_lane_ins *p, int kind, int64_t lane,
                     int64_t index) {
  fl_lane_fault(s, p, kind, lane);
  s->report->index = index;
  return 0;
}

/* ---- masks --------------------------------------------------------------------------- */

static void set_mask(fl_lane_state *s, fl_lane_mask *m, const fl_lane_mask *from) {
  m->count = from->count;
  if (from->count == s->n) { m->at = s->ones; return; }
  memcpy(m->own, from->at, (size_t)s->n * 4);
  m->at = m->own;
}

/* Narrows the current mask: now &= a, or now &= ~a if 'negated'. a may be uniform. Returns whether
** a lane is left; if none is, the mask stays as it was. */
static int narrow(fl_lane_state *s, const fl_lane_ins *p, int negated) {
  const int32_t *c = s->reg[p->a];
  if (s->code->regs.at[p->a].uniform) return negated ? !*c : *c;
  const fl_lane_linear *l = &s->linear[p->a];
  if (l->on && !(l->x | l->y)) return negated ? !l->u : l->u != 0;
  fl_lane_spread(s, p->a);
  const int32_t yes = s->table->mask_test(s->now.at, c, s->n);
  const int32_t count = negated ? s->now.count - yes : yes;
  if (count == s->now.count || count == 0) return count > 0;
  (negated ? s->table->mask_and_not : s->table->mask_and)(s->now.own, s->now.at, c, s->n);
  s->now.at = s->now.own;
  s->now.count = count;
  return 1;
}

static int enter_if(fl_lane_state *s, const fl_lane_ins *p) {
  fl_lane_mask *m = &s->masks[p->m];
  set_mask(s, m, &s->now);
  const int some = narrow(s, p, p->sub == 2);
  if (p->sub != 1) return some;
  fl_lane_mask *other = m + 1;
  if (some && s->now.count == m->count) other->count = 0;
  else if (!some) set_mask(s, other, m);
  else {
    other->count = s->table->mask_without(other->own, m->at, s->now.at, s->n);
    other->at = other->own;
  }
  return some;
}

static void remove_now(fl_lane_state *s, fl_lane_mask *m) {
  if (!m->count) return;
  m->count = s->table->mask_without(m->own, m->at, s->now.at, s->n);
  m->at = m->own;
}

/* Makes m the current mask. 0: it is empty, and the current mask stays as it was. */
static int take_back(fl_lane_state *s, const fl_lane_mask *m) {
  if (m->count) set_mask(s, &s->now, m);
  return m->count != 0;
}

/* The active lanes return. */
static void go(fl_lane_state *s) {
  for (int64_t i = 0; i < s->n; i++) s->gone[i] |= s->now.at[i];
  s->live -= s->now.count;
}

/* ---- instructions -------------------------------------------------------------------- */

/* Copies the result from s->spare to the register of p, for the active lanes. */
static void blend(fl_lane_state *s, const fl_lane_ins *p) {
  s->table->blend[p->wide](s->reg[p->dst], s->spare, NULL, s->now.at, s->n, 0);
}

static void evaluate(fl_lane_state *s, const fl_lane_ins *p, const fl_lane_fn *fns) {
  const void *a = s->reg[p->a], *b = p->b >= 0 ? s->reg[p->b] : NULL;
  const void *c = p->c >= 0 ? s->reg[p->c] : NULL;
  if (p->masked && s->now.count != s->live) {
    fns[p->fn](s->spare, a, b, c, s->n, p->uni);
    blend(s, p);
  } else {
    fns[p->fn](s->reg[p->dst], a, b, c, p->once ? 1 : s->n, p->uni);
  }
}

/* Evaluates an instruction whose operands or result may be linear. */
static void evaluate_lanes(fl_lane_state *s, const fl_lane_ins *p, const fl_lane_fn *fns) {
  fl_lane_spread_operands(s, p);
  evaluate(s, p, fns);
  if (p->lazy & FL_LANE_LAZY_RESULT) s->linear[p->dst].on = 0;
}

/* Would a result with slots of 4 or 8 ('wide') bytes, written at 'to', overwrite lanes of register
** 'reg' that are read later? */
static int spoils(const fl_lane_state *s, const char *to, int wide, int32_t reg) {
  if (reg < 0) return 0;
  const char *from = s->reg[reg];
  const int other = s->code->regs.at[reg].wide;
  return (from != to || wide != other) && from < to + s->n * (wide ? 8 : 4) &&
         to < from + s->n * (other ? 8 : 4);
}

/* The address to which the store q writes a value computed from registers a, b, c (-1: none), if
** the value can be computed there: all lanes go to consecutive elements, which are an operand's
** memory exactly or overlap none. Else NULL. */
static void *target_of(const fl_lane_state *s, const fl_lane_ins *q, int32_t a, int32_t b,
                       int32_t c) {
  const fl_lane_info *i = &s->infos[q->x];
  const fl_lane_view *v = &s->views[q->var];
  const int wide = s->code->arrays[q->var].wide;
  if (!i->row || v->watched || s->now.count != s->n || i->first < 0 || i->first + s->n > v->count)
    return NULL;                       /* i->first is set if i->row is */
  char *to = v->base + i->first * (wide ? 8 : 4);
  return spoils(s, to, wide, a) || spoils(s, to, wide, b) || spoils(s, to, wide, c) ? NULL : to;
}

/* The f32 values of a register as rows: in memory if they were left there (rows_of), else in the
** register. is_uniform: the register holds one value. */
static fl_lane_rows rows_or_register(const fl_lane_state *s, int32_t reg, int is_uniform) {
  if (s->rows_of[reg].on) return s->rows_of[reg];
  const int64_t step = is_uniform ? 0 : s->width * 4;
  return (fl_lane_rows){ s->reg[reg], step, step * s->height, 1 + is_uniform };
}

/* Evaluates a sum or difference of two f32, which may be rows of memory. */
static void evaluate_rows(fl_lane_state *s, const fl_lane_ins *p, const fl_lane_fn *fns) {
  const int lie = s->rows_of[p->a].on | s->rows_of[p->b].on;
  if (!lie || (p->masked && s->now.count != s->live)) {
    fl_lane_settle(s, p->a);
    fl_lane_settle(s, p->b);
    evaluate(s, p, fns);
    return;
  }
  fl_lane_rows a = rows_or_register(s, p->a, 0), b = rows_or_register(s, p->b, 0);
  const int64_t plane = s->width * s->height;
  float *y = s->reg[p->dst];
  for (int64_t k = 0; k < s->depth; k++, y += plane, a.base += a.plane, b.base += b.plane)
    s->table->by_rows[p->fn / FL_LC_COUNT - FL_KO_ADD](y, &a, &b, s->height, s->width);
}

/* Evaluates p, whose result the next instruction stores. 1: that instruction was done as well. */
static int evaluate_into(fl_lane_state *s, const fl_lane_ins *p, const fl_lane_fn *fns) {
  if (p->lazy & FL_LANE_LAZY_ROWS && (s->rows_of[p->a].on | s->rows_of[p->b].on)) {
    evaluate_rows(s, p, fns);
    return 0;
  }
  const int lazy = p->lazy & ~FL_LANE_LAZY_ROWS;
  void *to = lazy ? NULL : target_of(s, p + 1, p->a, p->b, p->c);
  if (to) fns[p->fn](to, s->reg[p->a], p->b >= 0 ? s->reg[p->b] : NULL,
                     p->c >= 0 ? s->reg[p->c] : NULL, s->n, p->uni);
  else if (lazy) evaluate_lanes(s, p, fns);
  else evaluate(s, p, fns);
  return to != NULL;
}

/* y = c + a b, plane by plane */
static void add_product(const fl_lane_state *s, float *y, const float *c, const fl_lane_rows *a,
                        const fl_lane_rows *b) {
  fl_lane_rows p = *a, q = *b;
  const int64_t plane = s->width * s->height;
  for (int64_t k = 0; k < s->depth; k++, p.base += p.plane, q.base += q.plane)
    s->table->mul_add_rows(y + k * plane, c + k * plane, &p, &q, s->height, s->width);
}

/* Does the product at p and the sum after it, and perhaps the store after that. Returns how many
** instructions after p are done. */
static int mul_add(fl_lane_state *s, const fl_lane_ins *p, const fl_lane_fn *fns) {
  const fl_lane_ins *q = p + 1;
  const int second = p->sub >> 1 & 1, minus = p->sub & 1, uniform = q->uni >> second & 1;
  const int32_t third = second ? q->b : q->a;
  const void *c = s->reg[third];
  const int apart = q->masked && s->now.count != s->live;
  if ((s->rows_of[p->a].on | s->rows_of[p->b].on) && !apart && !uniform && !minus) {
    const fl_lane_rows a = rows_or_register(s, p->a, p->uni & 1),
                       b = rows_or_register(s, p->b, p->uni >> 1 & 1);
    const int swapped = b.on == 2;
    if (a.on != 2 || b.on != 2) {
      add_product(s, s->reg[q->dst], c, swapped ? &b : &a, swapped ? &a : &b);
      return 1;
    }
  }
  fl_lane_settle(s, p->a);
  fl_lane_settle(s, p->b);
  if (apart) { evaluate(s, p, fns); return 0; }
  void *to = p->sub & 4 ? target_of(s, q + 1, p->a, p->b, third) : NULL;
  s->table->mul_add[minus](to ? to : s->reg[q->dst], s->reg[p->a], s->reg[p->b], c, s->n,
                           p->uni | uniform << 2);
  return to ? 2 : 1;
}

/* 0: a fault. */
static int load(fl_lane_state *s, const fl_lane_ins *p) {
  if (p->lazy) fl_lane_spread_operands(s, p);
  const int apart = p->masked && s->now.count != s->live;
  s->reg[p->dst] = s->home[p->dst];
  if (!fl_lane_do_load(s, p, apart ? s->spare : s->reg[p->dst])) return 0;
  if (apart) blend(s, p);
  if (p->lazy) s->linear[p->dst].on = 0;
  return 1;
}

/* Takes n more instructions from the budget; 0: it is used up. */
static int may_use(const fl_lane_launch *l, int64_t n) {
  return !l->used || atomic_fetch_add_explicit(l->used, n, memory_order_relaxed) + n < l->most;
}

/* Called once per iteration of a loop. 0, with a fault: a limit of steps is used up, or the launch
** is to stop. */
static int may_go_on(fl_lane_state *s, const fl_lane_ins *p, int64_t length) {
  const fl_lane_launch *l = s->launch;
  s->steps += length;
  if (!may_use(l, length)) return fl_lane_fault(s, p, FL_LANE_STOPPED, fl_lane_first(s));
  if (l->max_steps && s->steps > l->max_steps)
    return fl_lane_fault(s, p, FL_LANE_STEPS, fl_lane_first(s));
  if (l->stop && atomic_load_explicit((atomic_int *)(uintptr_t)l->stop, memory_order_relaxed))
    return fl_lane_fault(s, p, FL_LANE_STOPPED, fl_lane_first(s));
  return 1;
}

/* Instructions that involve memory or several threads: 0 on a fault. */
static int special(fl_lane_state *s, const fl_lane_ins *p) {
  if (p->lazy) fl_lane_spread_operands(s, p);
  if (p->lazy & FL_LANE_LAZY_RESULT) s->linear[p->dst].on = 0;
  switch (p->op) {
    case FL_LI_ATOMIC: return fl_lane_do_atomic(s, p);
    case FL_LI_BARRIER: return fl_lane_do_barrier(s, p);
    case FL_LI_SHUFFLE: return fl_lane_do_shuffle(s, p);
    case FL_LI_VOTE: return fl_lane_do_vote(s, p);
    case FL_LI_PRINTF: return fl_lane_do_printf(s, p);
    case FL_LI_ASSERT: return fl_lane_do_assert(s, p);
    case FL_LI_BEGIN: fl_lane_do_begin(s, p); return 1;
    case FL_LI_SET: fl_lane_do_set(s, p); return 1;
    case FL_LI_CHECK: return fl_lane_do_check(s, p);
    default: return fl_lane_do_divisor(s, p);
  }
}

int fl_lane_go_on(fl_lane_state *s) {
  const fl_lane_ins *code = s->code->ins.at;
  const fl_lane_fn *fns = (const fl_lane_fn *)(const void *)s->table;
  const int32_t *next = s->next;                     /* passes over what the launch has done */
  for (int64_t pc = next[s->pc];; pc = next[pc]) {
    const fl_lane_ins *p = &code[pc++];
    switch (p->op) {
      case FL_LI_EVAL:
        if (!p->lazy) evaluate(s, p, fns);
        else if (p->lazy & FL_LANE_LAZY_ROWS) evaluate_rows(s, p, fns);
        else if (!p->linear || !fl_lane_do_linear(s, p)) evaluate_lanes(s, p, fns);
        break;
      case FL_LI_EVAL_STORE: pc += evaluate_into(s, p, fns); break;
      case FL_LI_MULADD: pc += mul_add(s, p, fns); break;
      case FL_LI_INDEX: fl_lane_do_index(s, p); break;
      case FL_LI_LOAD: if (!load(s, p)) return 0; break;
      case FL_LI_STORE:
        if (p->lazy) fl_lane_spread_operands(s, p);
        if (!fl_lane_do_store(s, p)) return 0;
        break;
      case FL_LI_JUMP: pc = p->x; break;
      case FL_LI_LOOP:
        if (!may_go_on(s, p, pc - p->x)) return 0;
        pc = p->x;
        break;
      case FL_LI_UNLESS: if ((*(int32_t *)s->reg[p->a] != 0) == p->sub) pc = p->x; break;
      case FL_LI_IF: if (!enter_if(s, p)) pc = p->x; break;
      case FL_LI_AND: if (!narrow(s, p, 0)) pc = p->x; break;
      case FL_LI_SAVE: set_mask(s, &s->masks[p->m], &s->now); break;
      case FL_LI_BACK: if (!take_back(s, &s->masks[p->m])) pc = p->x; break;
      case FL_LI_REMOVE: remove_now(s, &s->masks[p->m]); break;
      case FL_LI_RETURN: go(s); pc = p->x; break;
      case FL_LI_GRID:
        s->pc = pc;
        return fl_lane_do_barrier(s, p) ? 2 : 0;
      case FL_LI_END: return 1;
      default: if (!special(s, p)) return 0; break;
    }
  }
}

int fl_lane_block(const fl_lane_code *c, const fl_lane_launch *l, int64_t block, void *scratch,
                  fl_lane_report *report) {
  fl_lane_state *s = scratch;
  const fl_lane_ins *end = &c->ins.at[c->ins.n - 1];
  s->report = report;
  s->block = block;
  s->pc = 0;
  begin_block(s);
  if (l->stop && atomic_load_explicit((atomic_int *)(uintptr_t)l->stop, memory_order_relaxed))
    return fl_lane_fault(s, end, FL_LANE_STOPPED, 0);
  if (!may_use(l, c->ins.n)) return fl_lane_fault(s, end, FL_LANE_STOPPED, 0);
  return fl_lane_go_on(s);
}
