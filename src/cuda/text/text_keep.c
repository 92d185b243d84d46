/*
** What each sweep over a row computes, and what it keeps for later sweeps (text_row.c): in
** registers if the row stays there; otherwise in shared memory, if that saves much.
*/
#include "cuda/text/text_row.h"
#include <string.h>

enum { HELD_MOST = 40960, HELD_ALL = 227 << 10, HELD_THREADS = 384, WORTH = 4 };

int fl_row_late_batch(const text_form *f) { return f->steps % 2 ? 1 : 2; }

int fl_row_store_level(const text_form *f, int s) {
  return f->k->instr[f->k->store[s].value].level;
}

int fl_row_in_round(const row_writer *r, int v, int round) {
  return fl_row_instr(r->w, v)->code == FL_I_REDUCE && r->all[v] && r->w->f->round[v] == round + 1;
}

static int last_sweep_reduces(const text_form *f) {
  if (f->rounds == 0) return 0;
  for (int s = 0; s < f->k->nstore; s++)
    if (fl_row_store_level(f, s) == 1 && f->round[f->k->store[s].value] >= f->rounds) return 0;
  return 1;
}

int fl_row_has_full_stores(const text_form *f) {
  for (int s = 0; s < f->k->nstore; s++) if (fl_row_store_level(f, s) == 1) return 1;
  return 0;
}

/* ---- what a sweep computes ------------------------------------------------------------- */

void fl_row_need(const row_writer *r, sweep *s) {
  const text_form *f = r->w->f;
  uint8_t have[FL_MAX_INSTR];
  for (int v = 0; v < f->k->ninstr; v++) have[v] = f->vary[v] <= V_KEPT || r->cached[v];
  memset(s->need, 0, sizeof s->need);
  for (int v = 0; v < f->k->ninstr; v++)
    if (s->round >= 0 && fl_row_in_round(r, v, s->round))
      fl_text_need(f, fl_row_instr(r->w, v)->a, have, s->need);
  for (int t = 0; s->stores && t < f->k->nstore; t++)
    if (fl_row_store_level(f, t) == 1) fl_text_need(f, f->k->store[t].value, have, s->need);
  for (int v = 0; v < f->k->ninstr; v++) if (f->vary[v] <= V_KEPT) s->need[v] = 0;
}

void fl_row_late_loads(const row_writer *r, const uint8_t *need, uint8_t *late) {
  const text_form *f = r->w->f;
  for (int v = 0; v < f->k->ninstr; v++) late[v] = need[v] && fl_text_packed(f, v) && !r->early[v];
}

int fl_row_loads(const text_form *f, const uint8_t *need) {
  int bytes = 0;
  for (int v = 0; v < f->k->ninstr; v++)
    if (need[v] && fl_text_packed(f, v)) bytes += fl_dtype_size(f->k->instr[v].dtype);
  return bytes;
}

/* Instructions per element of the sweep, without loads. */
static int work_of(const row_writer *r, const sweep *s) {
  int sum = 0;
  for (int v = 0; v < r->w->f->k->ninstr; v++) {
    const int code = fl_row_instr(r->w, v)->code;
    if (s->need[v] && !r->cached[v] && (code == FL_I_OP || code == FL_I_RANDOM))
      sum += fl_text_value_weight(r->w->f, v);
  }
  return sum;
}

/* Keeps value v of sweep s in registers for sweep 'next', instead of computing it there again, if
** that saves 'least' instructions per element, and if free registers suffice, or those of loads
** that 'next' then need not do. */
static void try_keep(row_writer *r, sweep *s, sweep *next, int v, int least) {
  const text_form *f = r->w->f;
  const int limit = f->lanes == 1024 ? 128 : 256, work = work_of(r, next);
  const int size = fl_dtype_reg(fl_row_instr(r->w, v)->dtype) % 2 ? 4 : 8;
  if (!s->need[v] || !next->need[v] || r->cached[v]) return;
  sweep after = *next;
  r->cached[v] = 1;
  fl_row_need(r, &after);
  s->keep[v] = work - work_of(r, &after) >= least &&
               f->steps * f->vector * (size + fl_row_loads(f, after.need)) <= limit;
  if (s->keep[v]) *next = after;
  else r->cached[v] = 0;
}

/* Chooses the values that stay in registers: first draws, since later values are computed from
** them; then expensive values, which should not be computed twice. */
static void choose_kept(row_writer *r, sweep *s, const sweep *next) {
  const text_form *f = r->w->f;
  memset(s->keep, 0, sizeof s->keep);
  if (!f->persist || !next) return;
  sweep now = *next;
  int draws = 0;
  for (int v = 0; v < f->k->ninstr; v++)
    draws |= now.need[v] && fl_row_instr(r->w, v)->code == FL_I_RANDOM;
  for (int v = f->k->ninstr - 1; draws && v >= 0; v--)
    if (fl_row_instr(r->w, v)->code == FL_I_OP || fl_row_instr(r->w, v)->code == FL_I_RANDOM)
      try_keep(r, s, &now, v, 20);
  for (int v = 0; v < f->k->ninstr; v++)
    if (fl_row_instr(r->w, v)->code == FL_I_OP && fl_text_weight(fl_row_instr(r->w, v)->op) >= 4)
      try_keep(r, s, &now, v, 0);
}

/* ---- what is held ------------------------------------------------------------------------ */

sweep fl_row_sweep(const row_writer *r, int p, int count) {
  sweep s = { .round = p < r->w->f->rounds ? p : -1, .stores = p == count - 1 };
  fl_row_need(r, &s);
  return s;
}

/* Is the value computed at each element, not loaded? */
static int is_made(const text_form *f, int v) {
  const int code = f->k->instr[v].code;
  return f->vary[v] == V_ELEMENT && (code == FL_I_OP || code == FL_I_RANDOM || code == FL_I_CAST);
}

/* The work of the sweeps after p; marks the values that they need. */
static int work_after(const row_writer *r, int p, int count, uint8_t *need) {
  int work = 0;
  memset(need, 0, FL_MAX_INSTR);
  for (int q = p + 1; q < count; q++) {
    const sweep t = fl_row_sweep(r, q, count);
    work += work_of(r, &t);
    for (int v = 0; v < r->w->f->k->ninstr; v++) need[v] |= t.need[v];
  }
  return work;
}

int fl_row_size(const text_form *f, int v) {
  return fl_dtype_reg(f->k->instr[v].dtype) % 2 ? 4 : 8;
}

int fl_row_room(const text_form *f) { return f->lanes * f->steps * f->vector; }

/* Bytes of shared memory for the held values of a block: HELD_MOST (of the 48 KB that it may have)
** less a launch's words and what reductions use. */
static int held_most(const text_form *f) {
  const int joins = f->lanes > 32 ? f->nred * (f->lanes / 32) * SLOT_BYTES : 0;
  return HELD_MOST - joins - (f->multi ? f->words * 8 : 0);
}

/* Chooses the values of sweep p from which everything that later sweeps need is computed: they are
** held together, if that saves WORTH instructions per byte and a row of them fits. */
static void choose_held(row_writer *r, sweep *s, int p, int count) {
  const text_form *f = r->w->f;
  uint8_t before[FL_MAX_INSTR], need[FL_MAX_INSTR];
  int bytes = 0;
  memset(s->keep, 0, sizeof s->keep);
  if (f->cls == C_CHUNKS || p + 1 >= count) return;
  const int work = work_after(r, p, count, need);
  memcpy(before, r->cached, sizeof before);
  for (int v = 0; v < f->k->ninstr; v++) r->cached[v] |= s->need[v] && is_made(f, v);
  work_after(r, p, count, need);
  memcpy(r->cached, before, sizeof before);
  for (int v = 0; v < f->k->ninstr; v++) {
    s->keep[v] = s->need[v] && is_made(f, v) && need[v] && !before[v];
    if (!s->keep[v]) continue;
    r->cached[v] = 1;
    bytes += fl_row_size(f, v);
  }
  if (f->once ? p == 1 && bytes == 4
              : bytes && (r->held + bytes) * fl_row_room(f) <= held_most(f) &&
                work - work_after(r, p, count, need) >= WORTH * bytes) {
    r->held += bytes;
    return;
  }
  memset(s->keep, 0, sizeof s->keep);
  memcpy(r->cached, before, sizeof before);
}

void fl_row_choose(row_writer *r, sweep *s, int p, int count) {
  if (!r->w->f->persist) {
    choose_held(r, s, p, count);
    return;
  }
  const sweep next = fl_row_sweep(r, p + 1, count);
  choose_kept(r, s, p + 1 < count ? &next : NULL);
}

/* Chooses the loads that are done before the first sweep: those that the first sweep, or more than
** one, reads. */
static void choose_early(row_writer *r, int sweeps) {
  const text_form *f = r->w->f;
  int uses[FL_MAX_INSTR] = { 0 };
  for (int p = 0; p < sweeps; p++) {
    const sweep s = fl_row_sweep(r, p, sweeps);
    for (int v = 0; v < f->k->ninstr; v++) uses[v] += s.need[v] ? p == 0 ? 2 : 1 : 0;
  }
  for (int v = 0; v < f->k->ninstr; v++) r->early[v] = uses[v] > 1 && fl_text_packed(f, v);
}

int fl_row_sweeps(const text_form *f) {
  return f->rounds + (!last_sweep_reduces(f) && (fl_row_has_full_stores(f) || f->rounds == 0));
}

void fl_row_begin(row_writer *r, text_writer *w) {
  const text_form *f = w->f;
  memset(r, 0, sizeof *r);
  r->w = w;
  for (int s = 0; s < f->k->nstore; s++) fl_text_need(f, f->k->store[s].value, NULL, r->all);
  if (f->across) fl_row_across_early(r);
  else if (f->persist || f->once) choose_early(r, fl_row_sweeps(f));
}

/* Plans fewer rows per block if values of each row are held, since all of them are in the block's
** shared memory; and then as many blocks at once on a multiprocessor as its shared memory
** (HELD_ALL) and HELD_THREADS threads allow. */
static void plan_held(row_writer *r, text_form *f) {
  const int count = fl_row_sweeps(f);
  for (int p = 0; p < count; p++) {
    sweep s = fl_row_sweep(r, p, count);
    choose_held(r, &s, p, count);
  }
  if (!r->held) return;
  const int row = r->held * fl_row_room(f);
  while (f->lanes <= 32 && f->threads > 32 && f->threads / f->lanes * row > held_most(f))
    f->threads /= 2;
  const int block = (f->lanes > 32 ? 1 : f->threads / f->lanes) * row;
  f->blocks = HELD_ALL / (block + 1024);
  if (f->blocks * f->threads > HELD_THREADS) f->blocks = HELD_THREADS / f->threads;
}

int fl_row_reads_once(text_form *f) {
  text_writer w = { .f = f };
  row_writer r;
  int loads = 0;
  fl_row_begin(&r, &w);
  for (int p = 0; p < 3; p++) {
    sweep s = fl_row_sweep(&r, p, 3);
    choose_held(&r, &s, p, 3);
    loads = fl_row_loads(f, s.need);
  }
  return fl_row_sweeps(f) == 3 && f->rounds == 2 && r.held == 4 && !loads &&
         fl_row_loads(f, r.early) == 2;
}

/* Number of instructions that are done at each point. */
static int at_points(const row_writer *r) {
  int n = 0;
  for (int v = 0; v < r->w->f->k->ninstr; v++) n += r->all[v] && r->w->f->vary[v] == V_ELEMENT;
  return n;
}

/* Chooses the threads of a block, and whether a row stays in registers ('persist'): it must fit,
** and the text, with all vectors written out, must stay short. Then f->blocks, the blocks that
** shall be resident on a multiprocessor, is set so that some run while others wait at a barrier:
** 1536 threads of 42 registers if the row takes few registers and the kernel is short, else 1024
** threads of 64. It is not set for an expensive kernel, or one with many loaded bytes per
** thread. */
void fl_text_row_plan(text_writer *w) {
  text_form *f = w->f;
  row_writer r;
  uint8_t late[FL_MAX_INSTR] = { 0 };
  const int weight = fl_text_kernel_weight(f), elements = f->steps * f->vector;
  if (f->across) {
    fl_row_across_plan(f);
    return;
  }
  f->persist = f->cls != C_CHUNKS && !f->once;
  f->threads = f->lanes > 32 ? f->lanes : 256;
  if (f->once) return;
  fl_row_begin(&r, w);
  fl_row_late_loads(&r, r.all, late);
  const int threads = f->threads, row = fl_row_loads(f, r.early) * elements;
  const int bytes = row + fl_row_loads(f, late) * fl_row_late_batch(f) * f->vector;
  if (row > (f->lanes == 1024 ? 128 : 256)) f->persist = 0;
  if (f->steps > 1 && elements * (f->rounds + 1) * weight > 8000) f->persist = 0;
  if (!f->persist) {
    fl_row_begin(&r, w);
    plan_held(&r, f);
    return;
  }
  if (bytes > 128 || weight > 120) return;
  f->blocks = (row <= 64 && at_points(&r) <= 24 ? 1536 : 1024) / threads;
}
