/*
** What a launch of a kernel needs (text.h): its geometry, and the words of its parameters, whose
** order text_form.c has fixed.
*/
#include "cuda/text/text_row.h"
#include "base/num.h"
#include <string.h>

/* ---- geometry ------------------------------------------------------------------------------- */

/* Elements of a MAP per block: few if there are few in all, so that all multiprocessors have some;
** more in a launch of several instances, so that the chunk table stays short. */
static int64_t map_span(const text_form *f) {
  const int64_t pass = (int64_t)MAP_THREADS * f->vector, full = pass * f->unroll;
  if (f->multi) return f->k->points >= 64 * full ? 4 * full : full;
  return f->k->points < 264 * full ? pass : full;
}

static int64_t columns_of(const fl_kernel *k) { return k->nkept ? k->size[k->nkept - 1] : 1; }

/* COL: the number of tiles over all kept indices. */
static int64_t col_tiles(const fl_kernel *k) {
  return k->rows ? fl_ceil_div(columns_of(k), COL_WIDTH) * (k->rows / columns_of(k)) : 0;
}

static void geometry(text_form *f, fl_text_geometry *g) {
  const fl_kernel *k = f->k;
  const int64_t m = f->cls == C_COL ? fl_ceil_div(k->n, fl_text_col_chunk(k))
                    : f->across ? fl_ceil_div(k->rows, fl_text_col_chunk(k))
                                    : fl_text_count_chunks(k->n, ROW_CHUNK);
  int64_t grid = 0;
  g->block = f->cls == C_MAP ? MAP_THREADS : (uint32_t)f->threads;
  if (f->cls == C_MAP) grid = fl_ceil_div(k->points, map_span(f));
  else if (f->across) grid = m * COL_LANES / (f->threads / f->lanes);
  else if (f->cls == C_GROUP) grid = fl_ceil_div(k->rows, f->threads / f->lanes);
  else if (f->cls == C_BLOCK) grid = f->once ? fl_min(k->rows, ONCE_BLOCKS) : k->rows;
  else if (f->cls == C_CHUNKS) {
    grid = f->split ? k->rows * m : k->rows;
    g->scratch = f->few ? 0 : k->rows * f->nred * m * SLOT_BYTES;
    g->counters = f->split ? k->rows : 0;
  } else {
    const int64_t tiles = col_tiles(k);
    grid = tiles * (m > 0 ? m : 1);
    if (m > 1) g->scratch = tiles * f->nred * m * COL_WIDTH * SLOT_BYTES;
    if (m > 1) g->counters = tiles;
  }
  g->grid = (uint32_t)grid;
  g->shared = f->once ? (uint32_t)fl_text_once_bytes(f->steps)
              : f->across ? (uint32_t)fl_row_across_bytes(f) : 0;
  g->words = f->words;
  g->faults = (uint8_t)f->faults;
}

void fl_text_geometry_of(const fl_kernel *k, int multi, fl_text_geometry *g) {
  text_form f;
  text_writer w = { .f = &f };
  memset(g, 0, sizeof *g);
  fl_text_form(k, multi, &f);
  if (f.cls == C_COL) fl_text_col_plan(&w);
  else if (f.cls != C_MAP) fl_text_row_plan(&w);
  geometry(&f, g);
}

int64_t fl_text_chunks(const fl_kernel *k, int32_t instance, int32_t (*at)[2]) {
  fl_text_geometry g;
  fl_text_geometry_of(k, 1, &g);
  for (uint32_t b = 0; b < g.grid; b++) {
    at[b][0] = instance;
    at[b][1] = (int32_t)b;
  }
  return g.grid;
}

/* ---- parameters ------------------------------------------------------------------------------ */

/* Multiplier and shift for division by d of numbers below 2^31: see divide() in prelude.cu. */
static int64_t magic_of(int64_t d) {
  if (d < 1 || d > 0x7fffffff) return 0;
  int64_t s = 0;
  while (((int64_t)1 << s) < d) s++;
  const uint64_t m = (((uint64_t)1 << 32) * (((uint64_t)1 << s) - (uint64_t)d)) / (uint64_t)d + 1;
  return (int64_t)(s << 32) | (int64_t)(m & 0xffffffffu);
}

/* Is every vector of operand o aligned? The start and all strides except the innermost must be. */
static int vectors_fit(const text_form *f, int o, int64_t start, int vector) {
  const fl_operand *x = &f->k->operand[o];
  const int size = fl_dtype_size(x->dtype), bytes = size * vector < 16 ? size * vector : 16;
  if (start % bytes) return 0;
  for (int d = 0; d < f->ndim; d++) {
    if (d == f->inner || (f->zero[o] >> d & 1) || f->k->size[d] == 1) continue;
    if (x->stride[d] * size % bytes) return 0;
  }
  return !f->gather[o] || x->gstride * size % bytes == 0;
}

static int vector_flag(const text_form *f, const int64_t *word) {
  const int vector = f->cls == C_COL ? ROW_VECTOR : f->vector;
  if (f->inner >= 0 && !(f->cls == C_MAP && f->flat) && f->k->size[f->inner] % vector) return 0;
  for (int o = 0; o < f->k->noperand; o++) {
    if (f->memory[o] && !f->kept[o] && f->in[o] == 1 &&
        !vectors_fit(f, o, word[f->ptr[o]], vector)) return 0;
    if (f->cls == C_MAP && f->quad[o] && !fl_text_quads_fit(f, o)) return 0;
  }
  return F_VECTOR;
}

static void operand_words(const text_form *f, int o, void *const *address, int64_t *word) {
  const fl_operand *x = &f->k->operand[o];
  const int64_t base = f->memory[o] ? (int64_t)(intptr_t)address[o] : 0;
  const int64_t unit = f->memory[o] ? fl_dtype_size(x->dtype) : 1;
  word[f->ptr[o]] = base + x->offset * unit;
  for (int d = 0; d < f->ndim; d++)
    if (f->stride[o][d]) word[f->stride[o][d]] = x->stride[d];
  if (f->gather[o]) word[f->gather[o]] = x->gstride;
}

/* Writes the words of the scalars. scalar NULL: the index of each in the plan instead of its
** bits. */
static void scalar_words(const text_form *f, const fl_scalar *scalar, int64_t *word) {
  const fl_kernel *k = f->k;
  for (int v = 0; v < k->ninstr; v++) {
    const fl_instr *i = &k->instr[v];
    const int n = i->code == FL_I_SCALAR ? 1 : i->code == FL_I_RANDOM ? 2 : 0;
    for (int s = 0; s < n; s++) {
      const uint32_t at = k->scalar[i->arg + s];
      word[f->scalar[v] + s] = scalar ? scalar[at].i : (int64_t)at;
    }
    if (i->code == FL_I_INDEX) word[f->site[v]] = i->arg;
  }
}

static void fill(const text_form *f, void *const *address, const fl_scalar *scalar,
                 const fl_text_aux *aux, int64_t *word) {
  const fl_kernel *k = f->k;
  memset(word, 0, (size_t)f->words * sizeof *word);
  for (int d = 0; d < f->ndim; d++) {
    word[f->size[d]] = k->size[d];
    word[f->magic[d]] = magic_of(k->size[d]);
  }
  for (int o = 0; o < k->noperand; o++) operand_words(f, o, address, word);
  scalar_words(f, scalar, word);
  word[W_N] = f->cls == C_MAP ? k->points : k->n;
  word[W_ROWS] = f->cls == C_COL ? col_tiles(k) : k->rows;
  word[W_SPAN] = f->cls == C_MAP ? map_span(f)
                 : f->cls == C_COL || f->across ? fl_text_col_chunk(k) : 0;
  word[W_CHUNKS] = f->cls == C_COL ? fl_ceil_div(k->n, word[W_SPAN])
                                   : fl_text_count_chunks(k->n, ROW_CHUNK);
  word[W_TILES] = f->cls == C_COL ? fl_ceil_div(columns_of(k), COL_WIDTH) : 0;
  word[W_FAULT] = (int64_t)(intptr_t)aux->fault;
  word[W_SCRATCH] = (int64_t)(intptr_t)aux->scratch;
  word[W_COUNTER] = (int64_t)(intptr_t)aux->counter;
  word[W_FLAGS] = vector_flag(f, word);
}

void fl_text_params(const fl_kernel *k, void *const *address, const fl_scalar *scalar,
                    const fl_text_aux *aux, int64_t *word) {
  static const fl_scalar none;
  text_form f;
  fl_text_form(k, 0, &f);
  fill(&f, address, scalar ? scalar : &none, aux, word);
}

int fl_text_scalars(const fl_kernel *k, fl_text_scalar *out) {
  text_form f;
  int n = 0;
  fl_text_form(k, 0, &f);
  for (int v = 0; v < k->ninstr; v++) {
    const fl_instr *i = &k->instr[v];
    const int own = i->code == FL_I_SCALAR ? 1 : i->code == FL_I_RANDOM ? 2 : 0;
    for (int s = 0; s < own; s++, n++)
      if (out) out[n] = (fl_text_scalar){ (uint16_t)(f.scalar[v] + s), k->scalar[i->arg + s] };
  }
  return n;
}

void fl_text_instance(const fl_kernel *k, void *const *address, const fl_text_aux *aux,
                      int64_t *word) {
  text_form f;
  fl_text_form(k, 1, &f);
  fill(&f, address, NULL, aux, word);
}
