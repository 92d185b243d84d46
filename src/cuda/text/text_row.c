/*
** Text of ROW kernels. T lanes work on a row of n elements (text.h gives T and the order):
** several rows per block up to n = 1024, one block per row up to 32768, chunks of 32768 above.
**
** A round of reductions is one sweep over the row. Short rows stay in registers (each
** operand is loaded once), together with costly values that later sweeps read again; rows
** whose operands need too many registers are loaded again in each sweep, from cache. In the latter
** case, values that are expensive to compute and that later sweeps start from are held in shared
** memory (h<v> of each row; each lane reads what it wrote), and fewer rows are in a block. The
** results of chunks are put in scratch: if there is one sweep, each block computes one chunk, and
** the last block of the row combines them; otherwise one block computes all chunks of a row in turn
** (if there are few, in registers). Rows of two chunks of half floats may be read once (put_once).
**
** Names: row, lane, n; e element index of a vector's first element, j the vector of the lane;
** a<v> the four accumulators of reduction v, r<v> its join; h<v> its shared memory, or that of a
** held value, which a sweep reads as k<v> and writes as n<v>.
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
#include "cuda/text/text_row.h"
#include <stdio.h>
#include <string.h>

/* ---- sweeps ---------------------------------------------------------------------------------- */

static void put_accumulators(row_writer *r, int round) {
  text_writer *w = r->w;
  const int n = w->f->once ? 2 * w->f->vector : w->f->vector;
  for (int v = 0; round >= 0 && v < w->f->k->ninstr; v++) {
    if (!fl_row_in_round(r, v, round)) continue;
    fl_text_reducer(w, v);
    fl_text_printf(w->out, "::A a%d[%d];\n#pragma unroll\nfor (int q = 0; q < %d; q++) a%d[q] = ",
                   v, n, n, v);
    fl_text_reducer(w, v);
    fl_text_puts(w->out, "::start();\n");
  }
}

/* Writes "R::A r7 = …": combines the lane's accumulators, then the lanes. */
static void put_join(row_writer *r, int v) {
  text_writer *w = r->w;
  fl_text_puts(w->out, "const ");
  fl_text_reducer(w, v);
  fl_text_printf(w->out, "::A r%d = join_%s<", v,
                 w->f->once ? "parts" : w->f->lanes > 32 ? "block" : "lanes");
  fl_text_reducer(w, v);
  fl_text_printf(w->out, ", %d>(", w->f->lanes);
  if (w->f->once) {
    fl_text_printf(w->out, "a%d, h%d);\n", v, v);
    return;
  }
  fl_text_puts(w->out, "join_vector<");
  fl_text_reducer(w, v);
  fl_text_printf(w->out, w->f->lanes > 32 ? ">(a%d), h%d);\n" : ">(a%d));\n", v, v);
}

static void put_results(row_writer *r, int round) {
  char joined[16];
  for (int v = 0; v < r->w->f->k->ninstr; v++) {
    if (!fl_row_in_round(r, v, round)) continue;
    snprintf(joined, sizeof joined, "r%d", v);
    fl_text_reduce_result(r->w, v, joined);
  }
}

void fl_row_put_kept(row_writer *r, int round) {
  const text_form *f = r->w->f;
  uint8_t now[FL_MAX_INSTR];
  for (int v = 0; v < f->k->ninstr; v++)
    now[v] = r->all[v] && f->vary[v] == V_KEPT && f->round[v] == round;
  fl_text_values(r->w, now, V_KEPT, V_KEPT);
}

void fl_row_put_kept_stores(row_writer *r) {
  text_writer *w = r->w;
  const text_form *f = w->f;
  int any = 0;
  for (int t = 0; t < f->k->nstore; t++) any |= fl_row_store_level(f, t) != 1;
  if (!any) return;
  fl_text_printf(w->out, "if (lane == 0%s) {\n", f->cls == C_GROUP ? " && on" : "");
  for (int t = 0; t < f->k->nstore; t++) {
    const int o = f->k->store[t].operand;
    if (fl_row_store_level(f, t) == 1) continue;
    fl_text_printf(w->out, "p%d[", o);
    fl_text_offset(w, o);
    fl_text_puts(w->out, "] = ");
    fl_text_out(w, o, f->k->store[t].value);
    fl_text_puts(w->out, ";\n");
  }
  fl_text_puts(w->out, "}\n");
}

/* Writes one sweep over a row that fits a block. A row that stays in registers (f->persist,
** f->once) was loaded before its first sweep; only values that no other sweep reads are loaded
** here. Any other row is loaded again, r->batch vectors at a time. */
static void put_short_sweep(row_writer *r, const sweep *s, const uint8_t *before) {
  text_writer *w = r->w;
  const text_form *f = w->f;
  uint8_t late[FL_MAX_INSTR] = { 0 };
  char count[16];
  fl_row_late_loads(r, s->need, late);
  snprintf(count, sizeof count, "%d", f->persist ? f->steps : r->batch);
  if (f->once || (f->persist && !fl_row_loads(f, late))) {
    fl_row_put_compute(r, s, before, f->steps);
    return;
  }
  if (f->persist) {
    if (f->across) fl_text_puts(w->out, "{\n");      /* another sweep may load the same again */
    fl_text_packs(w, late, f->vector, count);
    fl_text_printf(w->out, "#pragma unroll\nfor (int jb = 0; jb < %d; jb += %d) {\n", f->steps,
                   fl_row_late_batch(f));
    fl_row_put_loads(r, late, 0);
    fl_row_put_compute(r, s, before, 0);
    fl_text_puts(w->out, f->across ? "}\n}\n" : "}\n");
    return;
  }
  fl_text_printf(w->out, "#pragma unroll 1\nfor (int base = 0; base < n; base += %d) {\n",
                 r->batch * f->lanes * f->vector);
  fl_text_packs(w, late, f->vector, count);
  fl_row_put_loads(r, late, r->batch);
  fl_row_put_compute(r, s, before, r->batch);
  fl_text_puts(w->out, "}\n");
}

/* Writes the loop over a chunk: 'batch' vectors per lane at a time, without bounds checks while all
** of them are in the chunk; then one at a time. */
static void put_chunk_run(row_writer *r, const sweep *s, int batch) {
  text_writer *w = r->w;
  const int step = batch * w->f->lanes * w->f->vector;
  char count[16];
  snprintf(count, sizeof count, "%d", batch);
  fl_text_puts(w->out, "#pragma unroll 1\n");
  if (batch > 1) fl_text_printf(w->out, "for (; base + %d <= to; base += %d) {\n", step, step);
  else fl_text_printf(w->out, "for (; base < to; base += %d) {\n", step);
  w->f->full = batch > 1;
  fl_text_packs(w, s->need, w->f->vector, count);
  fl_row_put_loads(r, s->need, batch);
  fl_row_put_compute(r, s, r->cached, batch);
  w->f->full = 0;
  fl_text_puts(w->out, "}\n");
  if (batch > 1) put_chunk_run(r, s, 1);
}

/* Writes the sweep over one chunk; accumulators are declared outside. */
static void put_chunk_sweep(row_writer *r, const sweep *s) {
  fl_text_printf(r->w->out, "%s base = chunk * %d, to = base + %d;\nif (to > n) to = n;\n",
                 fl_row_index_type(r->w->f), ROW_CHUNK, ROW_CHUNK);
  put_chunk_run(r, s, r->batch);
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
    if (!fl_row_in_round(r, v, round)) continue;
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
    if (!fl_row_in_round(r, v, round)) continue;
    fl_text_puts(w->out, "const ");
    fl_text_reducer(w, v);
    fl_text_printf(w->out, "::A r%d = join_%s<", v, w->f->few ? "two" : "slots");
    fl_text_reducer(w, v);
    fl_text_printf(w->out, ", %d>(", w->f->lanes);
    if (w->f->few) {
      fl_text_printf(w->out, "b%d, h%d);\n", v, v);
      continue;
    }
    put_slots(r, v, "");
    fl_text_printf(w->out, ", w[%d], h%d);\n", W_CHUNKS, v);
  }
}

/* Writes a sweep over a row of two chunks. A lane's partial results, one of each chunk, stay in
** registers (b<v>[0], b<v>[1]) until put_combine joins the lanes and the chunks. */
static void put_two(row_writer *r, const sweep *s) {
  text_writer *w = r->w;
  const text_form *f = w->f;
  for (int v = 0; v < f->k->ninstr; v++) {
    if (!fl_row_in_round(r, v, s->round)) continue;
    fl_text_reducer(w, v);
    fl_text_printf(w->out, "::A b%d[2];\n", v);
  }
  fl_text_puts(w->out, "#pragma unroll 1\nfor (int chunk = 0; chunk < 2; chunk++) {\n");
  put_accumulators(r, s->round);
  put_chunk_sweep(r, s);
  for (int v = 0; v < f->k->ninstr; v++) {
    if (!fl_row_in_round(r, v, s->round)) continue;
    for (int i = 0; i < 2; i++) {
      fl_text_printf(w->out, i ? "else b%d[%d] = join_vector<" : "if (chunk == 0) b%d[%d] = "
                     "join_vector<", v, i);
      fl_text_reducer(w, v);
      fl_text_printf(w->out, ">(a%d);\n", v);
    }
  }
  fl_text_puts(w->out, "}\n");
  if (s->round >= 0) put_combine(r, s->round);
}

static void put_long_sweep(row_writer *r, const sweep *s) {
  text_writer *w = r->w;
  if (w->f->few) {
    put_two(r, s);
    return;
  }
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

/* Writes the text for one block per chunk: the last block of a row continues with the results of
** all. */
static void put_split(row_writer *r, sweep *s) {
  text_writer *w = r->w;
  fl_row_need(r, s);
  put_accumulators(r, 0);
  put_chunk_sweep(r, s);
  put_chunk_result(r, 0);
  fl_text_printf(w->out, "if (!arrive_last((unsigned *)w[%d] + row, (unsigned)w[%d])) return;\n",
                 W_COUNTER, W_CHUNKS);
  put_combine(r, 0);
  put_results(r, 0);
  fl_row_put_kept(r, 1);
}

/* ---- rows that are read once ------------------------------------------------------------------
** A block does row after row. The row is in registers (l<v>), what its second sweep makes for the
** third in shared memory, so that the next row is loaded before the third; it is prefetched into
** the L2 cache before the second. Two barriers per row, one in each round's join; the memory of one
** join is used again after the barrier of the other. */

/* Writes the values of the whole row that need no reduction. With 'first' those that are loaded or
** that the first sweep needs. Without it, after the first sweep, the others, so that the first
** sweep does not wait for loads at an index. */
static void put_before(row_writer *r, int first) {
  const text_form *f = r->w->f;
  uint8_t now[FL_MAX_INSTR] = { 0 };
  for (int v = 0; v < f->k->ninstr; v++)
    if (fl_row_in_round(r, v, 0)) fl_text_need(f, fl_row_instr(r->w, v)->a, NULL, now);
  for (int v = 0; v < f->k->ninstr; v++)
    now[v] = r->all[v] && f->vary[v] == V_KEPT && f->round[v] == 0 &&
             (now[v] || fl_row_instr(r->w, v)->code == FL_I_LOAD) == first;
  fl_text_values(r->w, now, V_KEPT, V_KEPT);
}

/* Writes the prefetch of the next row. The registers hold this one until the second sweep is done,
** so without it memory would be idle during that sweep. */
static void put_prefetch(row_writer *r) {
  text_writer *w = r->w;
  const text_form *f = w->f;
  if (f->ndim != f->k->nkept + 1) return;       /* a row's elements need not follow each other */
  fl_text_puts(w->out, "if (row + gridDim.x < rows && lane == 0) {\n");
  fl_text_coords(w, 0, f->k->nkept, "row + gridDim.x");
  fl_text_coords(w, f->k->nkept, f->ndim, "0");
  for (int v = 0; v < f->k->ninstr; v++) {
    if (!r->early[v]) continue;
    fl_text_printf(w->out, "prefetch(p%d + ", fl_row_instr(w, v)->arg);
    fl_text_offset(w, fl_row_instr(w, v)->arg);
    fl_text_puts(w->out, ", n / 8 * 16);\n");        /* whole units of 16 bytes */
  }
  fl_text_puts(w->out, "}\n");
}

static void put_next(row_writer *r) {
  const text_form *f = r->w->f;
  fl_text_puts(r->w->out, "if (row + gridDim.x < rows) {\n");
  fl_text_coords(r->w, 0, f->k->nkept, "row + gridDim.x");
  fl_row_put_loads(r, r->early, f->steps);
  fl_text_puts(r->w->out, "}\n");
}

void fl_row_put_sweeps(row_writer *r, int count) {
  const text_form *f = r->w->f;
  for (int p = 0; p < count; p++) {
    sweep s = fl_row_sweep(r, p, count);
    uint8_t before[FL_MAX_INSTR];
    memcpy(before, r->cached, sizeof before);
    fl_row_choose(r, &s, p, count);
    for (int v = 0; v < f->k->ninstr; v++) if (s.keep[v]) fl_row_put_room(r, v);
    if (f->cls == C_CHUNKS) put_long_sweep(r, &s);
    else {
      put_accumulators(r, s.round);
      put_short_sweep(r, &s, before);
      if (f->once && s.round == 0) put_before(r, 0);
      if (f->once && s.round == 1) put_next(r);
      if (f->across && s.round == 0) fl_row_put_ahead(r);
      for (int v = 0; s.round >= 0 && v < f->k->ninstr; v++)
        if (fl_row_in_round(r, v, s.round)) put_join(r, v);
    }
    if (s.round < 0) continue;
    if (f->once && s.round == 0) put_prefetch(r);
    put_results(r, s.round);
    fl_row_put_kept(r, s.round + 1);
  }
}

static void put_head(row_writer *r) {
  text_writer *w = r->w;
  const text_form *f = w->f;
  const int per = f->threads / f->lanes;
  if (f->across) {
    fl_text_printf(w->out, "const int lane = threadIdx.x %% %d;\n", f->lanes);
  } else if (f->cls == C_GROUP) {
    fl_text_printf(w->out, "const int lane = threadIdx.x %% %d;\n"
                   "long long row = block * %d + threadIdx.x / %d;\nconst bool on = row < w[%d];\n"
                   "if (!on) row = w[%d] - 1;\n", f->lanes, per, f->lanes, W_ROWS, W_ROWS);
  } else if (f->split) {
    fl_text_printf(w->out, "const int lane = threadIdx.x;\nconst long long row = block / w[%d], "
                   "chunk = block %% w[%d];\n", W_CHUNKS, W_CHUNKS);
  } else if (f->once) fl_text_puts(w->out, "const int lane = threadIdx.x;\n");
  else fl_text_puts(w->out, "const int lane = threadIdx.x;\nconst long long row = block;\n");
  fl_text_printf(w->out, "const %s n = w[%d];\n", fl_row_index_type(f), W_N);
  if (f->once) fl_text_puts(w->out, "const bool vector = true;\n");
  else fl_text_printf(w->out, "const bool vector = w[%d] & %d;\n", W_FLAGS, F_VECTOR);
  if (!f->once && !f->across) fl_text_coords(w, 0, f->k->nkept, "row");
  for (int v = 0; f->lanes > 32 && v < f->k->ninstr; v++) {
    if (f->k->instr[v].code != FL_I_REDUCE) continue;
    fl_text_puts(w->out, "__shared__ ");
    fl_text_reducer(w, v);
    fl_text_printf(w->out, "::A h%d[%d];\n", v, f->lanes / 32 * (f->few || f->once ? 2 : 1));
  }
}

/* Does an early load gather at a position that is a value of the whole row? Then the row is loaded
** after such values; otherwise before them, so that both loads are under way at once. */
static int has_gather(const row_writer *r) {
  for (int v = 0; v < r->w->f->k->ninstr; v++)
    if (r->early[v] && fl_row_instr(r->w, v)->code == FL_I_GATHER) return 1;
  return 0;
}

static void put_row(row_writer *r) {
  text_writer *w = r->w;
  const text_form *f = w->f;
  char count[16];
  snprintf(count, sizeof count, "%d", f->steps);
  fl_text_puts(w->out, "const int base = 0;\n");
  fl_text_packs(w, r->early, f->vector, count);
  fl_row_put_loads(r, r->early, f->steps);
}

static void put_once(row_writer *r) {
  text_writer *w = r->w;
  const text_form *f = w->f;
  char count[16];
  snprintf(count, sizeof count, "%d", f->steps);
  fl_text_printf(w->out, "extern __shared__ __align__(16) s4 held[];\n"
                 "const long long rows = w[%d];\nconst int base = 0;\n", W_ROWS);
  fl_text_packs(w, r->early, f->vector, count);
  fl_text_puts(w->out, "{\n");
  fl_text_coords(w, 0, f->k->nkept, "block");
  fl_row_put_loads(r, r->early, f->steps);
  fl_text_puts(w->out, "}\n#pragma unroll 1\n"
               "for (long long row = block; row < rows; row += gridDim.x) {\n");
  fl_text_coords(w, 0, f->k->nkept, "row");
  put_before(r, 1);
  fl_row_put_sweeps(r, fl_row_sweeps(f));
  fl_row_put_kept_stores(r);
  fl_text_puts(w->out, "}\n");
}

void fl_text_row(text_writer *w) {
  const text_form *f = w->f;
  row_writer r;
  fl_row_begin(&r, w);
  r.batch = f->persist ? f->steps : fl_row_late_batch(f);
  if (f->cls == C_CHUNKS) r.batch = f->few ? 8 : 4;
  if (!f->persist && (fl_row_loads(f, r.all) > 16 ||
                      r.batch * f->vector * fl_text_kernel_weight(f) > 2000)) r.batch = 1;
  fl_text_pointers(w);
  put_head(&r);
  fl_text_values(w, r.all, V_CONST, V_CONST);
  if (f->once) {
    put_once(&r);
    return;
  }
  if (f->across) {
    fl_row_put_across(&r);
    return;
  }
  const int first = f->persist && !has_gather(&r);
  if (first) put_row(&r);
  fl_row_put_kept(&r, 0);
  if (f->persist && !first) put_row(&r);
  if (f->split) {
    sweep s = { .round = 0, .stores = 1 };
    put_split(&r, &s);
  } else fl_row_put_sweeps(&r, fl_row_sweeps(f));
  fl_row_put_kept_stores(&r);
}
