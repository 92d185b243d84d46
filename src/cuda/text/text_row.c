/*
** Text of ROW kernels. T lanes work on a row of n elements (text.h gives T and the order):
** several rows per block up to n = 1024, one block per row up to 32768, chunks of 32768 above.
**
** A round of reductions is one sweep over the row. Short rows stay in registers (each
** operand is loaded once), together with costly values that later sweeps read again; rows
** whose operands need too many registers are loaded again in each sweep, from cache.
** Chunks leave their results in scratch: where one sweep is all, a block does a chunk and the
** last block of the row joins them; otherwise one block does all chunks of a row in turn.
**
** Names: row, lane, n; e element index of a vector's first element, j the vector of the lane;
** a<v> the four accumulators of reduction v, r<v> its join; h<v> its shared memory.
**
** Example: softmax, whose instructions are
**   v0 = load x, v1 = max of v0, v2 = v0 - v1, v3 = exp(v2), v4 = sum of v3, v5 = v3 / v4, stored
** v1 is known after one round, v4 after two. So there are three sweeps over the row:
**   round 0    needs v0, adds it to a1; then r1 is joined over the lanes, v1 is known
**   round 1    needs v0, v2, v3, adds v3 to a4, and keeps v3, which is costly and read again, in
**              k3; then r4 is joined
**   round -1   needs v5 alone: k3 / v4, stored. x is not read and exp not computed again
** A row too long for registers has no k: the last sweep loads x and takes exp once more.
*/
#include "cuda/text/text_form.h"
#include <stdio.h>
#include <string.h>

typedef struct sweep {
  int round;                     /* reductions of this round are joined; -1: none */
  int stores;                    /* full-level stores are done */
  uint8_t need[FL_MAX_INSTR];    /* values computed */
  uint8_t keep[FL_MAX_INSTR];    /* values put into k<v> */
} sweep;

typedef struct row_writer {
  text_writer *w;
  uint8_t all[FL_MAX_INSTR];     /* values needed at all */
  uint8_t cached[FL_MAX_INSTR];  /* already in k<v> */
  uint8_t early[FL_MAX_INSTR];   /* persist: loads done before the first sweep */
  int batch;                     /* vectors loaded before any is used */
} row_writer;

static const fl_instr *instr(const text_writer *w, int v) { return &w->f->k->instr[v]; }
static int level_of_store(const text_form *f, int s) {
  return f->k->instr[f->k->store[s].value].level;
}

static int in_round(const row_writer *r, int v, int round) {
  return instr(r->w, v)->code == FL_I_REDUCE && r->all[v] && r->w->f->round[v] == round + 1;
}

static int last_sweep_reduces(const text_form *f) {
  if (f->rounds == 0) return 0;
  for (int s = 0; s < f->k->nstore; s++)
    if (level_of_store(f, s) == 1 && f->round[f->k->store[s].value] >= f->rounds) return 0;
  return 1;
}

static int has_full_stores(const text_form *f) {
  for (int s = 0; s < f->k->nstore; s++) if (level_of_store(f, s) == 1) return 1;
  return 0;
}

/* ---- what a sweep computes ------------------------------------------------------------- */

static void sweep_need(const row_writer *r, sweep *s) {
  const text_form *f = r->w->f;
  uint8_t have[FL_MAX_INSTR];
  for (int v = 0; v < f->k->ninstr; v++) have[v] = f->vary[v] <= V_KEPT || r->cached[v];
  memset(s->need, 0, sizeof s->need);
  for (int v = 0; v < f->k->ninstr; v++)
    if (s->round >= 0 && in_round(r, v, s->round))
      fl_text_need(f, instr(r->w, v)->a, have, s->need);
  for (int t = 0; s->stores && t < f->k->nstore; t++)
    if (level_of_store(f, t) == 1) fl_text_need(f, f->k->store[t].value, have, s->need);
  for (int v = 0; v < f->k->ninstr; v++) if (f->vary[v] <= V_KEPT) s->need[v] = 0;
}

/* Loads of 'need' that a separate sweep does: all but the early ones. */
static void late_loads(const row_writer *r, const uint8_t *need, uint8_t *late) {
  const text_form *f = r->w->f;
  for (int v = 0; v < f->k->ninstr; v++) late[v] = need[v] && fl_text_packed(f, v) && !r->early[v];
}

static int loads_of(const text_form *f, const uint8_t *need) {
  int bytes = 0;
  for (int v = 0; v < f->k->ninstr; v++)
    if (need[v] && fl_text_packed(f, v)) bytes += fl_dtype_size(f->k->instr[v].dtype);
  return bytes;
}

/* Instructions per element of the sweep, loads aside. */
static int work_of(const row_writer *r, const sweep *s) {
  int sum = 0;
  for (int v = 0; v < r->w->f->k->ninstr; v++) {
    const int code = instr(r->w, v)->code;
    if (s->need[v] && !r->cached[v] && (code == FL_I_OP || code == FL_I_RANDOM))
      sum += fl_text_value_weight(r->w->f, v);
  }
  return sum;
}

/* Value v goes to registers in sweep s and is not made in 'next' again: if it saves 'least' and the
** loads that it replaces or the free registers make room. */
static void try_keep(row_writer *r, sweep *s, sweep *next, int v, int least) {
  const text_form *f = r->w->f;
  const int limit = f->lanes == 1024 ? 128 : 256, work = work_of(r, next);
  const int size = fl_dtype_reg(instr(r->w, v)->dtype) % 2 ? 4 : 8;
  if (!s->need[v] || !next->need[v] || r->cached[v]) return;
  sweep after = *next;
  r->cached[v] = 1;
  sweep_need(r, &after);
  s->keep[v] = work - work_of(r, &after) >= least &&
               f->steps * ROW_VECTOR * (size + loads_of(f, after.need)) <= limit;
  if (s->keep[v]) *next = after;
  else r->cached[v] = 0;
}

/* Draws, as what was made of them last; then costly values, which shall not be made twice. */
static void choose_kept(row_writer *r, sweep *s, const sweep *next) {
  const text_form *f = r->w->f;
  memset(s->keep, 0, sizeof s->keep);
  if (!f->persist || !next) return;
  sweep now = *next;
  int draws = 0;
  for (int v = 0; v < f->k->ninstr; v++)
    draws |= now.need[v] && instr(r->w, v)->code == FL_I_RANDOM;
  for (int v = f->k->ninstr - 1; draws && v >= 0; v--)
    if (instr(r->w, v)->code == FL_I_OP || instr(r->w, v)->code == FL_I_RANDOM)
      try_keep(r, s, &now, v, 20);
  for (int v = 0; v < f->k->ninstr; v++)
    if (instr(r->w, v)->code == FL_I_OP && fl_text_weight(instr(r->w, v)->op) >= 4)
      try_keep(r, s, &now, v, 0);
}

/* ---- loads ----------------------------------------------------------------------------------- */

static void put_row_load(text_writer *w, int v, int vector) {
  const int o = instr(w, v)->arg, whole = vector && w->f->in[o] == 1;
  if (whole) fl_text_printf(w->out, "l%d[j] = load<4>(p%d + ", v, o);
  else if (vector) fl_text_printf(w->out, "for (int q = 0; q < 4; q++) l%d[j].put(q, p%d[", v, o);
  else fl_text_printf(w->out, "l%d[j].put(q, p%d[", v, o);
  w->plus = vector && !whole ? "q" : NULL;
  fl_text_offset(w, o);
  w->plus = NULL;
  fl_text_puts(w->out, whole ? ");\n" : "]);\n");
}

/* Vectors of late loads in flight. */
static int late_batch(const text_form *f) { return f->steps % 2 ? 1 : 2; }

/* count 0: the batch of late loads from jb on. */
static void put_vector_head(row_writer *r, int count) {
  text_writer *w = r->w;
  if (count) fl_text_printf(w->out, "#pragma unroll\nfor (int j = 0; j < %d; j++) {\n", count);
  else
    fl_text_printf(w->out, "#pragma unroll\nfor (int j = jb; j < jb + %d; j++) {\n",
                   late_batch(w->f));
  if (w->f->cls == C_CHUNKS)
    fl_text_printf(w->out, "const long long e = base + (j * %d + lane) * 4;\n", w->f->lanes);
  else fl_text_printf(w->out, "const int e = base + (j * %d + lane) * 4;\n", w->f->lanes);
}

/* All vectors one way or all the other: a branch, where a choice for each vector would be made of
** predicated loads, which take their turn also where they do nothing. */
static void put_loads(row_writer *r, const uint8_t *need, int count) {
  text_writer *w = r->w;
  const text_form *f = w->f;
  if (!loads_of(f, need)) return;
  fl_text_puts(w->out, "if (vector) {\n");
  put_vector_head(r, count);
  fl_text_printf(w->out, "%s{\n", f->full ? "" : "if (e < n) ");
  fl_text_coords(w, f->k->nkept, f->ndim, "e");
  for (int v = 0; v < f->k->ninstr; v++)
    if (need[v] && fl_text_packed(f, v)) put_row_load(w, v, 1);
  fl_text_puts(w->out, "}\n}\n} else {\n");
  put_vector_head(r, count);
  fl_text_printf(w->out, "#pragma unroll\nfor (int q = 0; q < 4; q++) %s{\n",
                 f->full ? "" : "if (e + q < n) ");
  fl_text_coords(w, f->k->nkept, f->ndim, "e + q");
  for (int v = 0; v < f->k->ninstr; v++)
    if (need[v] && fl_text_packed(f, v)) put_row_load(w, v, 0);
  fl_text_puts(w->out, "}\n}\n}\n");
}

/* ---- computing ------------------------------------------------------------------------------- */

/* May a lane compute past the row's end: not where that would report a position. */
static int harmless(const text_form *f, const uint8_t *need) {
  for (int v = 0; v < f->k->ninstr; v++) {
    const int code = f->k->instr[v].code;
    if (need[v] && (code == FL_I_GATHER || code == FL_I_INDEX)) return 0;
  }
  return 1;
}

static int needs_coords(const text_form *f, const uint8_t *need, const uint8_t *cached) {
  for (int v = 0; v < f->k->ninstr; v++) {
    const int code = f->k->instr[v].code;
    if (need[v] && !cached[v] && (code == FL_I_IOTA || code == FL_I_GATHER)) return 1;
  }
  return 0;
}

static int has_quads(const text_form *f) {
  for (int o = 0; o < f->k->noperand; o++) if (f->quad[o]) return 1;
  return 0;
}

static void put_element(row_writer *r, const sweep *s, const uint8_t *before) {
  text_writer *w = r->w;
  const text_form *f = w->f;
  const int quads = has_quads(f);                 /* then one reduced dim */
  if (needs_coords(f, s->need, before))
    fl_text_coords(w, f->k->nkept, f->ndim, quads ? "e" : "e + q");
  w->slot = "[j]";
  w->plus = quads ? "q" : NULL;
  w->cached = before;
  fl_text_values(w, s->need, V_UNIFORM, V_ELEMENT);
  w->slot = w->plus = NULL;
  w->cached = NULL;
  for (int v = 0; v < f->k->ninstr; v++) {
    if (s->keep[v]) fl_text_printf(w->out, "k%d[j * 4 + q] = v%d;\n", v, v);
    if (s->round < 0 || !in_round(r, v, s->round)) continue;
    fl_text_printf(w->out, "%sa%d[q] = ", f->full ? "" : "if (e + q < n) ", v);
    fl_text_reducer(w, v);
    fl_text_printf(w->out, "::join(a%d[q], ", v);
    fl_text_reduce_input(w, v, "e + q");
    fl_text_puts(w->out, ");\n");
  }
  for (int t = 0; s->stores && t < f->k->nstore; t++) {
    if (level_of_store(f, t) != 1) continue;
    fl_text_printf(w->out, "o%d.put(q, ", t);
    fl_text_out(w, f->k->store[t].operand, f->k->store[t].value);
    fl_text_puts(w->out, ");\n");
  }
}

static void put_full_stores(row_writer *r) {
  text_writer *w = r->w;
  const text_form *f = w->f;
  fl_text_printf(w->out, "if (vector%s) {\n%s{\n", f->cls == C_GROUP ? " && on" : "",
                 f->full ? "" : "if (e < n) ");
  fl_text_coords(w, f->k->nkept, f->ndim, "e");
  for (int t = 0; t < f->k->nstore; t++) {
    const int o = f->k->store[t].operand, whole = f->in[o] == 1;
    if (level_of_store(f, t) != 1) continue;
    if (whole) fl_text_printf(w->out, "store(p%d + ", o);
    else fl_text_printf(w->out, "for (int q = 0; q < 4; q++) p%d[", o);
    w->plus = whole ? NULL : "q";
    fl_text_offset(w, o);
    w->plus = NULL;
    if (whole) fl_text_printf(w->out, ", o%d);\n", t);
    else fl_text_printf(w->out, "] = o%d.get(q);\n", t);
  }
  fl_text_printf(w->out, "}\n} else%s {\n#pragma unroll\nfor (int q = 0; q < 4; q++) %s{\n",
                 f->cls == C_GROUP ? " if (on)" : "", f->full ? "" : "if (e + q < n) ");
  fl_text_coords(w, f->k->nkept, f->ndim, "e + q");
  for (int t = 0; t < f->k->nstore; t++) {
    if (level_of_store(f, t) != 1) continue;
    fl_text_printf(w->out, "p%d[", f->k->store[t].operand);
    fl_text_offset(w, f->k->store[t].operand);
    fl_text_printf(w->out, "] = o%d.get(q);\n", t);
  }
  fl_text_puts(w->out, "}\n}\n");
}

static void put_compute(row_writer *r, const sweep *s, const uint8_t *before, int count) {
  text_writer *w = r->w;
  const text_form *f = w->f;
  put_vector_head(r, count);
  for (int t = 0; s->stores && t < f->k->nstore; t++) {
    if (level_of_store(f, t) == 1)
      fl_text_printf(w->out, "pack<%s, 4> o%d = {};\n",
                     fl_text_storage(f->k->operand[f->k->store[t].operand].dtype), t);
  }
  fl_text_printf(w->out, "#pragma unroll\nfor (int q = 0; q < 4; q++) %s{\n",
                 f->full || harmless(f, s->need) ? "" : "if (e + q < n) ");
  put_element(r, s, before);
  fl_text_puts(w->out, "}\n");
  if (s->stores && has_full_stores(f)) put_full_stores(r);
  fl_text_puts(w->out, "}\n");
}

/* ---- sweeps ---------------------------------------------------------------------------------- */

static void put_accumulators(row_writer *r, int round) {
  text_writer *w = r->w;
  for (int v = 0; round >= 0 && v < w->f->k->ninstr; v++) {
    if (!in_round(r, v, round)) continue;
    fl_text_reducer(w, v);
    fl_text_printf(w->out, "::A a%d[4];\n#pragma unroll\nfor (int q = 0; q < 4; q++) a%d[q] = ", v,
                   v);
    fl_text_reducer(w, v);
    fl_text_puts(w->out, "::start();\n");
  }
}

/* "R::A r7 = …": the four accumulators and then the lanes. */
static void put_join(row_writer *r, int v) {
  text_writer *w = r->w;
  fl_text_puts(w->out, "const ");
  fl_text_reducer(w, v);
  fl_text_printf(w->out, "::A r%d = join_%s<", v, w->f->lanes > 32 ? "block" : "lanes");
  fl_text_reducer(w, v);
  fl_text_printf(w->out, ", %d>(join_four<", w->f->lanes);
  fl_text_reducer(w, v);
  fl_text_printf(w->out, w->f->lanes > 32 ? ">(a%d), h%d);\n" : ">(a%d));\n", v, v);
}

static void put_results(row_writer *r, int round) {
  char joined[16];
  for (int v = 0; v < r->w->f->k->ninstr; v++) {
    if (!in_round(r, v, round)) continue;
    snprintf(joined, sizeof joined, "r%d", v);
    fl_text_reduce_result(r->w, v, joined);
  }
}

/* Kept-level values that can be computed after 'round' rounds. */
static void put_kept(row_writer *r, int round) {
  const text_form *f = r->w->f;
  uint8_t now[FL_MAX_INSTR];
  for (int v = 0; v < f->k->ninstr; v++)
    now[v] = r->all[v] && f->vary[v] == V_KEPT && f->round[v] == round;
  fl_text_values(r->w, now, V_KEPT, V_KEPT);
}

static void put_kept_stores(row_writer *r) {
  text_writer *w = r->w;
  const text_form *f = w->f;
  int any = 0;
  for (int t = 0; t < f->k->nstore; t++) any |= level_of_store(f, t) != 1;
  if (!any) return;
  fl_text_printf(w->out, "if (lane == 0%s) {\n", f->cls == C_GROUP ? " && on" : "");
  for (int t = 0; t < f->k->nstore; t++) {
    const int o = f->k->store[t].operand;
    if (level_of_store(f, t) == 1) continue;
    fl_text_printf(w->out, "p%d[", o);
    fl_text_offset(w, o);
    fl_text_puts(w->out, "] = ");
    fl_text_out(w, o, f->k->store[t].value);
    fl_text_puts(w->out, ";\n");
  }
  fl_text_puts(w->out, "}\n");
}

/* Rows that fit a block: loads and computing of one sweep. A row in registers is one run of
** vectors j; what only this sweep reads is loaded here, before the sweep's first use. */
static void put_short_sweep(row_writer *r, const sweep *s, const uint8_t *before) {
  text_writer *w = r->w;
  const text_form *f = w->f;
  uint8_t late[FL_MAX_INSTR] = { 0 };
  char count[16];
  late_loads(r, s->need, late);
  snprintf(count, sizeof count, "%d", f->persist ? f->steps : r->batch);
  if (f->persist && !loads_of(f, late)) {
    put_compute(r, s, before, f->steps);
    return;
  }
  if (f->persist) {
    fl_text_packs(w, late, ROW_VECTOR, count);
    fl_text_printf(w->out, "#pragma unroll\nfor (int jb = 0; jb < %d; jb += %d) {\n", f->steps,
                   late_batch(f));
    put_loads(r, late, 0);
    put_compute(r, s, before, 0);
    fl_text_puts(w->out, "}\n");
    return;
  }
  fl_text_printf(w->out, "#pragma unroll 1\nfor (int base = 0; base < n; base += %d) {\n",
                 r->batch * f->lanes * ROW_VECTOR);
  fl_text_packs(w, late, ROW_VECTOR, count);
  put_loads(r, late, r->batch);
  put_compute(r, s, before, r->batch);
  fl_text_puts(w->out, "}\n");
}

/* 'batch' vectors per lane at a time, without guards while all of them are in the chunk; then one
** at a time. */
static void put_chunk_run(row_writer *r, const sweep *s, int batch, int whole) {
  text_writer *w = r->w;
  const int step = batch * w->f->lanes * ROW_VECTOR;
  char count[16];
  snprintf(count, sizeof count, "%d", batch);
  fl_text_puts(w->out, "#pragma unroll 1\n");
  if (whole) fl_text_printf(w->out, "for (; base + %d <= to; base += %d) {\n", step, step);
  else fl_text_printf(w->out, "for (; base < to; base += %d) {\n", step);
  w->f->full = (uint8_t)whole;
  fl_text_packs(w, s->need, ROW_VECTOR, count);
  put_loads(r, s->need, batch);
  put_compute(r, s, r->cached, batch);
  w->f->full = 0;
  fl_text_puts(w->out, "}\n");
}

/* One chunk; accumulators are declared outside. */
static void put_chunk_sweep(row_writer *r, const sweep *s) {
  fl_text_printf(r->w->out, "long long base = chunk * %d, to = base + %d;\nif (to > n) to = n;\n",
                 ROW_CHUNK, ROW_CHUNK);
  if (r->batch > 1) put_chunk_run(r, s, r->batch, 1);
  put_chunk_run(r, s, 1, 0);
}

static void put_slots(row_writer *r, int v, const char *tail) {
  const text_form *f = r->w->f;
  int place = 0;
  while (f->red[place] != v) place++;
  fl_text_printf(r->w->out, "slot<");
  fl_text_reducer(r->w, v);
  fl_text_printf(r->w->out, "::A>(w[%d], (row * %d + %d) * w[%d]%s)", W_SCRATCH, f->nred, place,
                 W_CHUNKS, tail);
}

static void put_chunk_result(row_writer *r, int round) {
  text_writer *w = r->w;
  for (int v = 0; v < w->f->k->ninstr; v++) {
    if (!in_round(r, v, round)) continue;
    fl_text_puts(w->out, "{\n");
    put_join(r, v);
    fl_text_puts(w->out, "if (lane == 0) *");
    put_slots(r, v, " + chunk");
    fl_text_printf(w->out, " = r%d;\n}\n", v);
  }
}

static void put_combine(row_writer *r, int round) {
  text_writer *w = r->w;
  for (int v = 0; v < w->f->k->ninstr; v++) {
    if (!in_round(r, v, round)) continue;
    fl_text_puts(w->out, "const ");
    fl_text_reducer(w, v);
    fl_text_printf(w->out, "::A r%d = join_slots<", v);
    fl_text_reducer(w, v);
    fl_text_printf(w->out, ", %d>(", w->f->lanes);
    put_slots(r, v, "");
    fl_text_printf(w->out, ", w[%d], h%d);\n", W_CHUNKS, v);
  }
}

static void put_long_sweep(row_writer *r, const sweep *s) {
  text_writer *w = r->w;
  fl_text_printf(w->out, "for (long long chunk = 0; chunk < w[%d]; chunk++) {\n", W_CHUNKS);
  put_accumulators(r, s->round);
  put_chunk_sweep(r, s);
  if (s->round >= 0) {
    fl_text_puts(w->out, "__syncthreads();\n");
    put_chunk_result(r, s->round);
  }
  fl_text_puts(w->out, "}\n");
  if (s->round < 0) return;
  fl_text_puts(w->out, "__syncthreads();\n");
  put_combine(r, s->round);
}

/* One block per chunk; the last block of a row goes on. */
static void put_split(row_writer *r, sweep *s) {
  text_writer *w = r->w;
  sweep_need(r, s);
  put_accumulators(r, 0);
  put_chunk_sweep(r, s);
  put_chunk_result(r, 0);
  fl_text_printf(w->out, "if (!arrive_last((unsigned *)w[%d] + row, (unsigned)w[%d])) return;\n",
                 W_COUNTER, W_CHUNKS);
  put_combine(r, 0);
  put_results(r, 0);
  put_kept(r, 1);
}

static void put_sweeps(row_writer *r, int count) {
  const text_form *f = r->w->f;
  for (int p = 0; p < count; p++) {
    sweep s = { .round = p < f->rounds ? p : -1, .stores = p == count - 1 };
    sweep next = { .round = p + 1 < f->rounds ? p + 1 : -1, .stores = p + 1 == count - 1 };
    uint8_t before[FL_MAX_INSTR];
    sweep_need(r, &s);
    sweep_need(r, &next);
    memcpy(before, r->cached, sizeof before);
    choose_kept(r, &s, p + 1 < count ? &next : NULL);
    for (int v = 0; v < f->k->ninstr; v++)
      if (s.keep[v]) fl_text_printf(r->w->out, "%s k%d[%d];\n",
                                    fl_text_ctype(fl_dtype_reg(f->k->instr[v].dtype)), v,
                                    f->steps * ROW_VECTOR);
    if (f->cls == C_CHUNKS) put_long_sweep(r, &s);
    else {
      put_accumulators(r, s.round);
      put_short_sweep(r, &s, before);
      for (int v = 0; s.round >= 0 && v < f->k->ninstr; v++)
        if (in_round(r, v, s.round)) put_join(r, v);
    }
    if (s.round < 0) continue;
    put_results(r, s.round);
    put_kept(r, s.round + 1);
  }
}

static void put_head(row_writer *r) {
  text_writer *w = r->w;
  const text_form *f = w->f;
  const int per = f->cls == C_GROUP ? 256 / f->lanes : 1;
  if (per > 1) {
    fl_text_printf(w->out, "const int lane = threadIdx.x %% %d;\n"
                   "long long row = block * %d + threadIdx.x / %d;\nconst bool on = row < w[%d];\n"
                   "if (!on) row = w[%d] - 1;\n", f->lanes, per, f->lanes, W_ROWS, W_ROWS);
  } else if (f->split) {
    fl_text_printf(w->out, "const int lane = threadIdx.x;\nconst long long row = block / w[%d], "
                   "chunk = block %% w[%d];\n", W_CHUNKS, W_CHUNKS);
  } else fl_text_puts(w->out, "const int lane = threadIdx.x;\nconst long long row = block;\n");
  fl_text_printf(w->out, "const %s n = w[%d];\nconst bool vector = w[%d] & %d;\n",
                 f->cls == C_CHUNKS ? "long long" : "int", W_N, W_FLAGS, F_VECTOR);
  fl_text_coords(w, 0, f->k->nkept, "row");
  for (int v = 0; f->lanes > 32 && v < f->k->ninstr; v++) {
    if (f->k->instr[v].code != FL_I_REDUCE) continue;
    fl_text_puts(w->out, "__shared__ ");
    fl_text_reducer(w, v);
    fl_text_printf(w->out, "::A h%d[%d];\n", v, f->lanes / 32);
  }
}

/* Loads of the row: what the first sweep or more than one reads. */
static void choose_early(row_writer *r, int sweeps) {
  const text_form *f = r->w->f;
  int uses[FL_MAX_INSTR] = { 0 };
  for (int p = 0; p < sweeps; p++) {
    sweep s = { .round = p < f->rounds ? p : -1, .stores = p == sweeps - 1 };
    sweep_need(r, &s);
    for (int v = 0; v < f->k->ninstr; v++) uses[v] += s.need[v] ? p == 0 ? 2 : 1 : 0;
  }
  for (int v = 0; v < f->k->ninstr; v++) r->early[v] = uses[v] > 1 && fl_text_packed(f, v);
}

static void put_row(row_writer *r) {
  text_writer *w = r->w;
  const text_form *f = w->f;
  char count[16];
  snprintf(count, sizeof count, "%d", f->steps);
  fl_text_puts(w->out, "const int base = 0;\n");
  fl_text_packs(w, r->early, ROW_VECTOR, count);
  put_loads(r, r->early, f->steps);
}

static int sweeps_of(const text_form *f) {
  return f->rounds + (!last_sweep_reduces(f) && (has_full_stores(f) || f->rounds == 0));
}

static void begin(row_writer *r, text_writer *w) {
  const text_form *f = w->f;
  memset(r, 0, sizeof *r);
  r->w = w;
  for (int s = 0; s < f->k->nstore; s++) fl_text_need(f, f->k->store[s].value, NULL, r->all);
  if (f->persist) choose_early(r, sweeps_of(f));
}

/* Does the row stay in registers: they must do, and the text, with all vectors written out,
** must stay short. Then enough blocks to hide the barriers: 42 registers per thread where the
** row takes few of them and the program is short, else 64. */
void fl_text_row_plan(text_writer *w) {
  text_form *f = w->f;
  row_writer r;
  uint8_t late[FL_MAX_INSTR] = { 0 };
  const int weight = fl_text_kernel_weight(f), elements = f->steps * ROW_VECTOR;
  f->persist = f->cls != C_CHUNKS;
  begin(&r, w);
  late_loads(&r, r.all, late);
  const int threads = f->lanes > 32 ? f->lanes : 256, row = loads_of(f, r.early) * elements;
  const int bytes = row + loads_of(f, late) * late_batch(f) * ROW_VECTOR;
  if (row > (f->lanes == 1024 ? 128 : 256)) f->persist = 0;
  if (f->steps > 1 && elements * (f->rounds + 1) * weight > 8000) f->persist = 0;
  if (!f->persist || bytes > 128 || weight > 120) return;
  f->blocks = (row <= 64 && f->k->ninstr <= 24 ? 1536 : 1024) / threads;
}

void fl_text_row(text_writer *w) {
  const text_form *f = w->f;
  row_writer r;
  begin(&r, w);
  r.batch = f->persist ? f->steps : f->cls == C_CHUNKS ? 4 : late_batch(f);
  if (!f->persist && (loads_of(f, r.all) > 16 ||
                      r.batch * ROW_VECTOR * fl_text_kernel_weight(f) > 2000)) r.batch = 1;
  fl_text_pointers(w);
  put_head(&r);
  fl_text_values(w, r.all, V_CONST, V_CONST);
  put_kept(&r, 0);
  if (f->persist) put_row(&r);
  if (f->split) {
    sweep s = { .round = 0, .stores = 1 };
    put_split(&r, &s);
  } else put_sweeps(&r, sweeps_of(f));
  put_kept_stores(&r);
}
