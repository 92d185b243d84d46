/*
** Text of COL kernels: 64 columns by a chunk of reduced indices per block. A thread has four or two
** neighbouring columns (one load where aligned) and every 16th index of the chunk. The 16 lanes are
** combined in shared memory; with more than one chunk the results are put in scratch and the last
** block of the tile combines them, by 16 lanes again. What is computed of the sums (the kept level)
** is done by 64 threads, one per column. Reads each operand once. What the loop computes it may
** also store, as the gradient of an activation of which it sums the columns.
**
** Names: tile (of columns, over all outer kept indices; neighbouring blocks read neighbouring
** tiles of the same rows), chunk, x column of the tile, y lane,
** i reduced index, column; cols number of columns; a<v> accumulators of a thread's columns.
*/
#include "cuda/text/text_form.h"
#include <stdio.h>
#include <string.h>

/* LONG: a program with more instructions than this is long. The others: how many blocks should be
** resident per multiprocessor for a long program, for a short one with several sums, for one with a
** single sum that stores values of each point, and for one that does not: as many as the
** accumulators and the rows in flight leave registers for. */
enum { LONG = 16, LONG_BLOCKS = 3, SEVERAL_BLOCKS = 4, STORING_BLOCKS = 5, BLOCKS = 6 };

typedef struct col_writer {
  text_writer *w;
  uint8_t all[FL_MAX_INSTR], inside[FL_MAX_INSTR], after[FL_MAX_INSTR];
  int stores;                     /* values of each point are stored */
  uint8_t cached[FL_MAX_INSTR];   /* values of a column that are computed once, as k<v> */
} col_writer;

static int is_reduce(const col_writer *c, int v) {
  return c->all[v] && c->w->f->k->instr[v].code == FL_I_REDUCE;
}

/* Does store s write a value of each point, not one of each column? */
static int is_full(const text_form *f, int s) {
  return f->k->instr[f->k->store[s].value].level == 1;
}

/* Divides the values: inside, those in the loop over reduced indices; after, those of the kept
** level, which are computed once per column from the sums. */
static void choose(col_writer *c) {
  const text_form *f = c->w->f;
  uint8_t have[FL_MAX_INSTR];
  for (int s = 0; s < f->k->nstore; s++) fl_text_need(f, f->k->store[s].value, NULL, c->all);
  for (int v = 0; v < f->k->ninstr; v++) have[v] = f->k->instr[v].code == FL_I_REDUCE;
  for (int s = 0; s < f->k->nstore; s++) {
    c->stores |= is_full(f, s);
    fl_text_need(f, f->k->store[s].value, have, is_full(f, s) ? c->inside : c->after);
  }
  for (int v = 0; v < f->k->ninstr; v++)
    if (is_reduce(c, v)) fl_text_need(f, f->k->instr[v].a, have, c->inside);
}

static void put_head(col_writer *c) {
  text_writer *w = c->w;
  const text_form *f = w->f;
  const int inner = f->k->nkept - 1;
  fl_text_printf(w->out, "const long long n = w[%d], cols = ", W_N);
  if (inner >= 0) fl_text_printf(w->out, "w[%d];\n", f->size[inner]);
  else fl_text_puts(w->out, "1;\n");
  fl_text_printf(w->out, "const long long chunks = w[%d] > 0 ? w[%d] : 1;\n", W_CHUNKS, W_CHUNKS);
  fl_text_printf(w->out, "const unsigned each = (unsigned)w[%d], across = (unsigned)w[%d];\n"
                 "const long long tile = (unsigned)block %% each, chunk = (unsigned)block / each;\n"
                 "const long long outer = (unsigned)tile / across;\n"
                 "const long long left = (unsigned)tile %% across * %dll;\n", W_ROWS, W_TILES,
                 COL_WIDTH);
  fl_text_printf(w->out, "const int tid = threadIdx.x, x = tid %% %d * %d, y = tid / %d;\n"
                 "const bool vector = w[%d] & %d;\n", COL_WIDTH / f->vector, f->vector,
                 COL_WIDTH / f->vector, W_FLAGS, F_VECTOR);
  if (inner >= 1) fl_text_coords(w, 0, inner, "outer");
}

static void put_loads(col_writer *c, int vector) {
  text_writer *w = c->w;
  const text_form *f = w->f;
  for (int v = 0; v < f->k->ninstr; v++) {
    const int o = f->k->instr[v].arg;
    if (!c->inside[v] || !fl_text_packed(f, v)) continue;
    const int whole = vector && f->in[o] == 1, one = f->vary[v] == V_UNIFORM;
    if (one) fl_text_printf(w->out, "l%d%s.put(0, p%d[", v, w->slot, o);
    else if (whole)
      fl_text_printf(w->out, "l%d%s = load<%d>(p%d + ", v, w->slot, f->vector, o);
    else
      fl_text_printf(w->out,
                     "for (int q = 0; q < %d; q++) if (column + q < cols) l%d%s.put(q, p%d[",
                     f->vector, v, w->slot, o);
    w->plus = whole || one ? NULL : "q";
    fl_text_offset(w, o);
    fl_text_puts(w->out, whole ? ");\n" : "]);\n");
  }
  w->plus = NULL;
}

static void put_accumulators(col_writer *c) {
  text_writer *w = c->w;
  for (int v = 0; v < w->f->k->ninstr; v++) {
    if (!is_reduce(c, v)) continue;
    fl_text_reducer(w, v);
    fl_text_printf(w->out, "::A a%d[%d];\n#pragma unroll\nfor (int q = 0; q < %d; q++) a%d[q] = ",
                   v, w->f->vector, w->f->vector, v);
    fl_text_reducer(w, v);
    fl_text_puts(w->out, "::start();\n");
  }
}

/* How many rows are loaded at once per thread: as many as make 64 bytes, but at least four unless
** values of each point are stored; fewer in a program of costly ops, at most two in a long one, and
** one in a very long one. */
static int rows_in_flight(const col_writer *c) {
  const text_form *f = c->w->f;
  const int least = c->stores ? 1 : 4;
  int bytes = 0, rows = 16;
  for (int v = 0; v < f->k->ninstr; v++)
    if (c->inside[v] && fl_text_packed(f, v))
      bytes += f->vector * fl_dtype_size(f->k->instr[v].dtype);
  while (rows > least && rows * bytes > 64) rows /= 2;
  while (rows > 1 && rows * f->vector * fl_text_kernel_weight(f) > 4000) rows /= 2;
  return f->k->ninstr > 48 ? 1 : f->k->ninstr > LONG && rows > 2 ? 2 : rows;
}

/* Writes the declarations of vectors for values of each point or, if 'done', their stores. */
static void put_vectors(col_writer *c, int vector, int done) {
  text_writer *w = c->w;
  const text_form *f = w->f;
  for (int s = 0; s < f->k->nstore; s++) {
    const int o = f->k->store[s].operand;
    if (!is_full(f, s) || !vector || f->in[o] != 1) continue;
    if (!done) {
      fl_text_printf(w->out, "pack<%s, %d> o%d = {};\n",
                     fl_text_storage(f->k->operand[o].dtype), f->vector, s);
      continue;
    }
    fl_text_printf(w->out, "store(p%d + ", o);
    fl_text_offset(w, o);
    fl_text_printf(w->out, ", o%d);\n", s);
  }
}

/* Writes the text that puts element q of the values of each point into its vector, or directly into
** memory. */
static void put_point(col_writer *c, int vector) {
  text_writer *w = c->w;
  const text_form *f = w->f;
  for (int s = 0; s < f->k->nstore; s++) {
    const int o = f->k->store[s].operand, whole = vector && f->in[o] == 1;
    if (!is_full(f, s)) continue;
    fl_text_printf(w->out, whole ? "o%d.put(q, " : "p%d[", whole ? s : o);
    if (!whole) fl_text_offset(w, o);
    if (!whole) fl_text_puts(w->out, "] = ");
    fl_text_out(w, o, f->k->store[s].value);
    fl_text_puts(w->out, whole ? ");\n" : ";\n");
  }
}

/* Writes the text for one reduced index, whose packs are loaded. */
static void put_index(col_writer *c, int vector) {
  text_writer *w = c->w;
  const text_form *f = w->f;
  put_vectors(c, vector, 0);
  fl_text_values(w, c->inside, V_UNIFORM, V_UNIFORM);
  fl_text_printf(w->out, "#pragma unroll\nfor (int q = 0; q < %d; q++) ", f->vector);
  fl_text_puts(w->out, vector ? "{\n" : "if (column + q < cols) {\n");
  w->plus = "q";
  fl_text_values(w, c->inside, V_KEPT, V_KEPT);
  fl_text_values(w, c->inside, V_ELEMENT, V_ELEMENT);
  put_point(c, vector);
  w->plus = NULL;
  for (int v = 0; v < f->k->ninstr; v++) {
    if (!is_reduce(c, v)) continue;
    fl_text_printf(w->out, "a%d[q] = ", v);
    fl_text_reducer(w, v);
    fl_text_printf(w->out, "::join(a%d[q], ", v);
    fl_text_reduce_input(w, v, "i");
    fl_text_puts(w->out, ");\n");
  }
  fl_text_puts(w->out, "}\n");
  put_vectors(c, vector, 1);
}

static void put_loop(col_writer *c, int vector) {
  text_writer *w = c->w;
  const text_form *f = w->f;
  fl_text_printf(w->out, "#pragma unroll %d\nfor (long long i = start; i < end; i += %d) {\n",
                 f->unroll, COL_LANES);
  fl_text_coords(w, f->k->nkept, f->ndim, "i");
  fl_text_packs(w, c->inside, f->vector, "1");
  w->slot = "[0]";
  put_loads(c, vector);
  put_index(c, vector);
  w->slot = NULL;
  fl_text_puts(w->out, "}\n");
}

/* Writes the text that computes, for each of a thread's columns, the values that depend on the
** column alone (k<v>). */
static void put_cached(col_writer *c) {
  text_writer *w = c->w;
  const text_form *f = w->f;
  int any = 0;
  for (int v = 0; v < f->k->ninstr; v++) {
    c->cached[v] = c->inside[v] && f->vary[v] == V_KEPT && !is_reduce(c, v);
    if (!c->cached[v]) continue;
    const int size = fl_dtype_reg(f->k->instr[v].dtype) % 2 ? 4 : 8;
    fl_text_printf(w->out, "pack<s%d, %d> k%d = {};\n", size, f->vector, v);
    any = 1;
  }
  if (!any) return;
  fl_text_printf(w->out, "for (int q = 0; q < %d; q++) if (column + q < cols) {\n", f->vector);
  w->plus = "q";
  fl_text_values(w, c->cached, V_KEPT, V_KEPT);
  w->plus = NULL;
  for (int v = 0; v < f->k->ninstr; v++)
    if (c->cached[v])
      fl_text_printf(w->out, "k%d.put(q, out_%s(v%d));\n", v,
                     fl_text_suffix(fl_dtype_reg(f->k->instr[v].dtype)), v);
  fl_text_puts(w->out, "}\n");
}

/* Writes the loop where values of each point are stored. The compiler moves no load before a store,
** so the loads of several indices, and of what is the same for all, are written before the
** stores. */
static void put_storing_loop(col_writer *c, int vector) {
  text_writer *w = c->w;
  const text_form *f = w->f;
  const int rows = f->unroll;
  char count[16];
  put_cached(c);
  w->cached = c->cached;
  snprintf(count, sizeof count, "%d", rows);
  fl_text_printf(w->out, "#pragma unroll 1\nfor (long long at = start; at < end; at += %d) {\n",
                 rows * COL_LANES);
  fl_text_packs(w, c->inside, f->vector, count);
  w->slot = "[u]";
  for (int loaded = 0; loaded < 2; loaded++) {
    fl_text_printf(w->out, "#pragma unroll\nfor (int u = 0; u < %d; u++) {\n"
                   "const long long i = at + u * %d;\nif (i >= end) break;\n", rows, COL_LANES);
    fl_text_coords(w, f->k->nkept, f->ndim, "i");
    if (loaded) put_index(c, vector);
    else put_loads(c, vector);
    fl_text_puts(w->out, "}\n");
  }
  w->slot = NULL;
  w->cached = NULL;
  fl_text_puts(w->out, "}\n");
}

/* Writes the loop over the partial results that a ROW stored (fl_store.across): for each chunk the
** results of some lanes, which are joined in the order in which join_columns joins lanes; then the
** results of the chunks, as put_finish does. */
static void put_partial_loop(col_writer *c, int vector) {
  text_writer *w = c->w;
  const text_form *f = w->f;
  const int parts = f->k->partial;
  fl_text_printf(w->out, "for (long long i = y * %d; i < n; i += %d) {\n", parts,
                 COL_LANES * parts);
  for (int v = 0; v < f->k->ninstr; v++) {
    if (!is_reduce(c, v)) continue;
    if (!vector)
      fl_text_printf(w->out, "for (int q = 0; q < %d; q++) if (column + q < cols) ", f->vector);
    fl_text_puts(w->out, "join_parts_of<");
    fl_text_reducer(w, v);
    fl_text_printf(w->out, vector ? ", %d, %d>(a%d, p%d + i * cols + column, cols);\n"
                                  : ", %d, %d>(a%d + q, p%d + i * cols + column + q, cols);\n", parts,
                   vector ? f->vector : 1, v, f->k->instr[f->k->instr[v].a].arg);
  }
  fl_text_puts(w->out, "}\n");
}

static void put_tile(col_writer *c) {
  text_writer *w = c->w;
  const int inner = w->f->k->nkept - 1;
  fl_text_puts(w->out, "{\nconst long long column = left + x;\n");
  if (inner >= 0) fl_text_printf(w->out, "const long long c%d = column;\n", inner);
  fl_text_printf(w->out, "const long long start = chunk * w[%d] + y;\n"
                 "long long end = (chunk + 1) * w[%d];\nif (end > n) end = n;\n"
                 "if (column < cols) {\nif (vector) {\n", W_SPAN, W_SPAN);
  void (*const put)(col_writer *, int) =
      w->f->k->partial ? put_partial_loop : c->stores ? put_storing_loop : put_loop;
  put(c, 1);
  fl_text_puts(w->out, "} else {\n");
  put(c, 0);
  fl_text_puts(w->out, "}\n}\n}\n");
}

static void put_slot(col_writer *c, int v, const char *which, const char *column) {
  const text_form *f = c->w->f;
  int place = 0;
  while (f->red[place] != v) place++;
  fl_text_puts(c->w->out, "slot<");
  fl_text_reducer(c->w, v);
  fl_text_printf(c->w->out, "::A>(w[%d], ((tile * %d + %d) * chunks + %s) * %d)[%s]", W_SCRATCH,
                 f->nred, place, which, COL_WIDTH, column);
}

/* Writes the text for more than one chunk: results are stored, and the last block combines them. */
static void put_finish(col_writer *c) {
  text_writer *w = c->w;
  const int V = w->f->vector;
  fl_text_puts(w->out, "if (chunks > 1) {\nif (tid < 64) {\n");
  for (int v = 0; v < w->f->k->ninstr; v++) {
    if (!is_reduce(c, v)) continue;
    put_slot(c, v, "chunk", "tid");
    fl_text_printf(w->out, " = r%d;\n", v);
  }
  fl_text_printf(w->out,
                 "}\nif (!arrive_last((unsigned *)w[%d] + tile, (unsigned)chunks)) return;\n",
                 W_COUNTER);
  for (int v = 0; v < w->f->k->ninstr; v++) {
    if (!is_reduce(c, v)) continue;
    fl_text_printf(w->out, "#pragma unroll\nfor (int q = 0; q < %d; q++) a%d[q] = ", V, v);
    fl_text_reducer(w, v);
    fl_text_printf(w->out,
                   "::start();\n#pragma unroll 4\n"
                   "for (long long i = y; i < chunks; i += %d) {\n#pragma unroll\n"
                   "for (int q = 0; q < %d; q++) a%d[q] = ", COL_LANES, V, v);
    fl_text_reducer(w, v);
    fl_text_printf(w->out, "::join(a%d[q], ", v);
    put_slot(c, v, "i", "x + q");
    fl_text_printf(w->out, ");\n}\nr%d = join_columns<", v);
    fl_text_reducer(w, v);
    fl_text_printf(w->out, ", %d>(a%d, space);\n", V, v);
  }
  fl_text_puts(w->out, "}\n");
}

static void put_kept(col_writer *c) {
  text_writer *w = c->w;
  const text_form *f = w->f;
  const int inner = f->k->nkept - 1;
  fl_text_puts(w->out,
               "const long long column = left + tid;\nif (tid >= 64 || column >= cols) return;\n");
  if (inner >= 0) fl_text_printf(w->out, "const long long c%d = column;\n", inner);
  for (int v = 0; v < f->k->ninstr; v++) {
    char joined[16];
    snprintf(joined, sizeof joined, "r%d", v);
    if (is_reduce(c, v)) fl_text_reduce_result(w, v, joined);
    else if (c->after[v] && f->vary[v] != V_CONST) fl_text_value(w, v);
  }
  for (int s = 0; s < f->k->nstore; s++) {
    const int o = f->k->store[s].operand;
    if (is_full(f, s)) continue;
    fl_text_printf(w->out, "p%d[", o);
    fl_text_offset(w, o);
    fl_text_puts(w->out, "] = ");
    fl_text_out(w, o, f->k->store[s].value);
    fl_text_puts(w->out, ";\n");
  }
}

/* Bytes of the widest accumulator: all reductions share the same memory. */
static int widest(const col_writer *c) {
  int bytes = 4;
  for (int v = 0; v < c->w->f->k->ninstr; v++) {
    const fl_instr *i = &c->w->f->k->instr[v];
    if (!is_reduce(c, v)) continue;
    if (fl_ops[i->op].kind == FL_KIND_POSITION) return 16;
    if (fl_text_reduce_reg(i) == FL_REG_F64 || fl_text_reduce_reg(i) == FL_REG_I64) bytes = 8;
  }
  return bytes;
}

void fl_text_col_plan(text_writer *w) {
  text_form *f = w->f;
  col_writer c = { .w = w };
  choose(&c);
  f->unroll = rows_in_flight(&c);
  f->threads = COL_LANES * COL_WIDTH / f->vector;
  if (f->threads == COL_THREADS)
    f->blocks = f->k->ninstr > LONG ? LONG_BLOCKS : f->nred > 1 ? SEVERAL_BLOCKS
                : c.stores ? STORING_BLOCKS : BLOCKS;
}

void fl_text_col(text_writer *w) {
  const text_form *f = w->f;
  col_writer c = { .w = w };
  choose(&c);
  fl_text_pointers(w);
  put_head(&c);
  fl_text_values(w, c.all, V_CONST, V_CONST);
  fl_text_printf(w->out, "__shared__ s8 space[%d];\n", widest(&c) * COL_LANES * COL_WIDTH / 8);
  put_accumulators(&c);
  put_tile(&c);
  for (int v = 0; v < f->k->ninstr; v++) {
    if (!is_reduce(&c, v)) continue;
    fl_text_reducer(w, v);
    fl_text_printf(w->out, "::A r%d = join_columns<", v);
    fl_text_reducer(w, v);
    fl_text_printf(w->out, ", %d>(a%d, space);\n", f->vector, v);
  }
  if (!f->k->partial) put_finish(&c);
  put_kept(&c);
}
