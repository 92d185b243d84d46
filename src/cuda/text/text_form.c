/*
** Structure of a kernel for text and parameters (text_form.h), and the key by which its text is
** known (text.h). The order of words is fixed here alone.
*/
#include "cuda/text/text_form.h"
#include "base/num.h"
#include <assert.h>
#include <stddef.h>
#include <string.h>

/* Is the row divided into chunks? Long rows are, and reductions of everything: their text then
** works for every length (the mean of a loss over a new batch size needs no compilation). */
static int in_chunks(const fl_kernel *k) { return k->n > ROW_CHUNK || k->nkept == 0; }

static int row_lanes(const fl_kernel *k) {
  return in_chunks(k) ? CHUNK_THREADS : fl_row_lanes(k->n);
}

static int row_steps(const fl_kernel *k, int lanes) {
  const int64_t most = in_chunks(k) ? ROW_CHUNK : k->n, step = (int64_t)lanes * ROW_VECTOR;
  return most > step ? (int)((most + step - 1) / step) : 1;
}

int64_t fl_text_col_chunk(const fl_kernel *k) {
  if (k->partial) return k->n;
  return k->kind == FL_K_COL ? fl_column_chunk(k->n, k->rows) : fl_column_chunk(k->rows, k->n);
}

/* ---- structure --------------------------------------------------------------------------- */

static void note_use(text_form *f, int o, int level0, int memory) {
  f->kept[o] = (uint8_t)level0;
  f->memory[o] |= (uint8_t)memory;
}

static void operand_uses(text_form *f) {
  const fl_kernel *k = f->k;
  for (int v = 0; v < k->ninstr; v++) {
    const fl_instr *i = &k->instr[v];
    const int level0 = k->kind != FL_K_MAP && i->level == 0;
    if (i->code == FL_I_LOAD || i->code == FL_I_GATHER) note_use(f, i->arg, level0, 1);
    if (i->code == FL_I_IOTA) note_use(f, i->arg, level0, 0);
  }
  for (int s = 0; s < k->nstore; s++) {
    const int level = k->instr[k->store[s].value].level;
    note_use(f, k->store[s].operand, k->kind != FL_K_MAP && level == 0, 1);
  }
}

static void operand_strides(text_form *f) {
  const fl_kernel *k = f->k;
  for (int o = 0; o < k->noperand; o++) {
    const int dims = f->kept[o] ? k->nkept : f->ndim;
    for (int d = 0; d < f->ndim; d++) {
      if (d >= dims || k->operand[o].stride[d] == 0) f->zero[o] |= (uint8_t)(1 << d);
    }
    assert(f->inner < FL_MAX_AXES);
    const int flat = f->inner < 0 || f->zero[o] >> f->inner & 1;
    f->in[o] = flat ? 0 : k->operand[o].stride[f->inner] == 1 ? 1 : 2;
  }
}

static int vary_of_operand(const text_form *f, int o) {
  const int all = (1 << f->ndim) - 1;
  if ((f->zero[o] & all) == all && f->cls != C_COL) return V_CONST;
  if (f->kept[o]) return V_KEPT;
  if (f->cls == C_MAP || f->cls == C_COL) return f->in[o] ? V_ELEMENT : V_UNIFORM;
  return V_ELEMENT;
}

static int inputs_of(const fl_instr *i) {
  switch (i->code) {
    case FL_I_OP: return fl_ops[i->op].nin;
    case FL_I_CAST: case FL_I_GATHER: case FL_I_REDUCE: return 1;
    case FL_I_INDEX: case FL_I_RANDOM: return 3;
    default: return 0;
  }
}

/* Runs 'body' for each value x that instruction i reads. */
#define EACH_INPUT(i, x, body) do { \
    const uint16_t input_[3] = { (i)->a, (i)->b, (i)->c }; \
    for (int n_ = inputs_of(i), j_ = 0; j_ < n_; j_++) { \
      assert(j_ < 3); \
      const int x = input_[j_]; \
      body \
    } \
  } while (0)

/* Notes whether v is costly at each element, and whether it reads such a value of an earlier
** sweep. */
static void note_costs(text_form *f, int v) {
  const fl_instr *i = &f->k->instr[v];
  if (f->vary[v] != V_ELEMENT) return;
  f->costly[v] = i->code == FL_I_OP && fl_text_is_costly(i);
  EACH_INPUT(i, x, {
    f->costly[v] |= f->costly[x];
    f->few |= f->costly[x] && f->round[x] < f->round[v];
  });
}

static void value_facts(text_form *f, int v) {
  const fl_instr *i = &f->k->instr[v];
  int vary = V_CONST, round = 0, kept = 0;
  EACH_INPUT(i, x, {
    f->used[x] = 1;
    if (f->vary[x] > vary) vary = f->vary[x];
    kept |= f->vary[x] == V_KEPT;
    if (f->round[x] > round) round = f->round[x];
  });
  if (i->code == FL_I_LOAD || i->code == FL_I_IOTA || i->code == FL_I_GATHER) {
    const int own = vary_of_operand(f, i->arg);
    if (own > vary) vary = own;
    kept |= own == V_KEPT;
  }
  if (vary == V_UNIFORM && kept) vary = V_ELEMENT;
  if (i->code == FL_I_REDUCE) {
    vary = V_KEPT;
    round++;
    f->red[f->nred++] = (uint16_t)v;
  }
  f->vary[v] = (uint8_t)vary;
  f->round[v] = (uint8_t)round;
  note_costs(f, v);
  if (round > f->rounds) f->rounds = round;
}

void fl_text_need(const text_form *f, int v, const uint8_t *have, uint8_t *need) {
  need[v] = 1;
  for (int x = v; x >= 0; x--) {              /* inputs come before their users */
    if (!need[x] || (have && have[x])) continue;
    EACH_INPUT(&f->k->instr[x], y, { need[y] = 1; });
  }
}

static void assign_words(text_form *f) {
  const fl_kernel *k = f->k;
  int w = W_FIRST;
  for (int d = 0; d < f->ndim; d++) { f->size[d] = (uint16_t)w++; f->magic[d] = (uint16_t)w++; }
  for (int o = 0; o < k->noperand; o++) {
    f->ptr[o] = (uint16_t)w++;
    for (int d = 0; d < f->ndim; d++) {
      const int plain = (f->zero[o] >> d & 1) || (d == f->inner && f->in[o] == 1);
      f->stride[o][d] = plain ? 0 : (uint16_t)w++;
    }
  }
  for (int v = 0; v < k->ninstr; v++) {
    const fl_instr *i = &k->instr[v];
    if (i->code == FL_I_SCALAR) f->scalar[v] = (uint16_t)w++;
    if (i->code == FL_I_RANDOM) { f->scalar[v] = (uint16_t)w; w += 2; }
    if (i->code == FL_I_GATHER) f->gather[i->arg] = (uint16_t)w++;
    if (i->code == FL_I_INDEX) { f->site[v] = (uint16_t)w++; f->faults = 1; }
  }
  f->words = w;
}

/* Rough number of machine instructions of an op. */
int fl_text_weight(int op) {
  switch (op) {
    case FL_OP_add: case FL_OP_sub: case FL_OP_mul: case FL_OP_neg: case FL_OP_abs:
    case FL_OP_maximum: case FL_OP_minimum: case FL_OP_relu: case FL_OP_square:
    case FL_OP_where: case FL_OP_clamp: return 1;
    case FL_OP_sin: case FL_OP_cos: case FL_OP_tan: case FL_OP_pow: case FL_OP_asinh:
    case FL_OP_acosh: case FL_OP_atanh: case FL_OP_erfc: case FL_OP_erfinv: case FL_OP_fmod:
    case FL_OP_mod: case FL_OP_floordiv: return 80;
    case FL_OP_lgamma: case FL_OP_digamma: case FL_OP_trigamma: return 250;
    case FL_OP_atan2: return 24;
    default: return fl_ops[op].kind == FL_KIND_TEST ? 1 : 8;
  }
}

int fl_text_is_costly(const fl_instr *i) {
  return i->code == FL_I_RANDOM || (i->code == FL_I_OP && fl_text_weight(i->op) >= COSTLY);
}

/* The cost of instruction v, roughly in machine instructions. In a ROW or COL, a random draw costs
** less if a vector gets its four draws from one block of the generator. */
int fl_text_value_weight(const text_form *f, int v) {
  const fl_instr *i = &f->k->instr[v];
  const int half = i->dtype == FLAME_F16 || i->dtype == FLAME_BF16;
  int n = 1;
  if (i->code == FL_I_OP) n = fl_text_weight(i->op);
  else if (i->code == FL_I_RANDOM)
    n = f->cls != C_MAP && f->k->instr[i->a].code == FL_I_IOTA && f->quad[f->k->instr[i->a].arg]
        ? 20 : 60;
  else if (i->code == FL_I_INDEX || i->code == FL_I_GATHER) n = 6;
  if (fl_dtype_reg(i->dtype) == FL_REG_F64) n *= n < 8 ? 3 : n < 60 ? 6 : 2;
  return n + half;
}

int fl_text_kernel_weight(const text_form *f) {
  int sum = 0;
  for (int v = 0; v < f->k->ninstr; v++) sum += fl_text_value_weight(f, v);
  return sum;
}

/* Decides whether costly ops are written out, or are calls of functions, by the weight that NVRTC
** would have to compile. The text of a value that differs at each element counts once for each
** element of the vectors in flight, whose loops are unrolled, and for each sweep over a row. A row
** in registers counts as two sweeps; so does a COL, which has one loop over whole vectors and one
** over others. */
void fl_text_plan_calls(text_form *f) {
  const int sweeps = f->cls == C_MAP ? 1 : f->persist ? 2 : f->rounds + 1;
  const int vectors = f->persist ? f->steps : f->cls == C_MAP || f->cls == C_COL ? f->unroll : 1;
  const int64_t copies = (int64_t)f->vector * vectors * sweeps;
  int64_t weight = 0;
  for (int v = 0; v < f->k->ninstr; v++)
    if (fl_text_is_costly(&f->k->instr[v]))
      weight += fl_text_value_weight(f, v) * (f->vary[v] == V_ELEMENT ? copies : 1);
  f->calls = weight > MOST_WRITTEN;
}

/* Bytes that a lane loads per element, of the operands that differ at each element. *widest and
** *narrowest become the size of the largest and the smallest element of these and of the stores. */
static int load_bytes(const text_form *f, int *widest, int *narrowest) {
  int bytes = 0;
  for (int v = 0; v < f->k->ninstr; v++) {
    const fl_instr *i = &f->k->instr[v];
    const int size = fl_dtype_size(i->dtype);
    const int packed = i->code == FL_I_GATHER && fl_text_packed(f, v);
    if ((i->code != FL_I_LOAD && !packed) || f->vary[v] != V_ELEMENT) continue;
    bytes += size;
    if (size > *widest) *widest = size;
    if (size < *narrowest) *narrowest = size;
  }
  for (int s = 0; s < f->k->nstore; s++) {
    const int size = fl_dtype_size(f->k->operand[f->k->store[s].operand].dtype);
    if (size > *widest) *widest = size;
    if (size < *narrowest) *narrowest = size;
  }
  return bytes;
}

/* Bytes per element of a MAP's loads and stores, which are all held in registers at once. */
static int held_bytes(const text_form *f, int loads) {
  for (int s = 0; s < f->k->nstore; s++)
    loads += fl_dtype_size(f->k->operand[f->k->store[s].operand].dtype);
  return loads;
}

/* Roughly, the instructions that the elements of a MAP's run along the innermost dim share; 0 in a
** launch of several instances, whose sizes may differ. */
static int shared_weight(const text_form *f) {
  int sum = 0;
  for (int v = 0; !f->multi && f->inner >= 0 && v < f->k->ninstr; v++)
    if (f->vary[v] == V_UNIFORM)
      sum += f->k->instr[v].code == FL_I_LOAD ? 4 : fl_text_value_weight(f, v);
  return sum;
}

/* Chooses the vector of a MAP: 16 bytes; 4 elements if operands of 8 bytes are combined with
** narrower ones, for draws, which come in fours, and for erf of f64, which takes a fifth longer
** with 2. It has fewer elements, and fewer vectors are in flight, if the text would get long or the
** vectors would take too many registers. */
static void plan_map(text_form *f) {
  int widest = 1, narrowest = 8, fours = 0;
  const int bytes = load_bytes(f, &widest, &narrowest), weight = fl_text_kernel_weight(f);
  for (int o = 0; o < f->k->noperand; o++) fours |= f->quad[o];
  for (int v = 0; v < f->k->ninstr; v++)
    fours |= f->k->instr[v].code == FL_I_OP && f->k->instr[v].op == FL_OP_erf &&
             f->k->instr[v].dtype == FLAME_F64;
  f->vector = narrowest == 8 && !fours ? 2 : widest >= 4 ? 4 : 16 / widest;
  if (f->vector > 4 && weight * f->vector > 2000) f->vector = 4;
  while (f->vector > 1 && f->vector * narrowest > 4 && !fours &&
         f->vector * held_bytes(f, bytes) > HELD_BYTES)
    f->vector /= 2;                                     /* a pack has whole words */
  f->unroll = 4;
  while (f->unroll > 1 && (f->unroll * f->vector * bytes > 128 ||
                           f->unroll * f->vector * weight > 2000)) f->unroll /= 2;
  f->runs = shared_weight(f) >= 12 && f->unroll > 1 &&
            f->k->size[f->inner] >= 4 * MAP_THREADS * f->unroll * f->vector;
}

/* COL: four columns per thread, or two if loads and accumulators of four would take most of its
** registers: twice as many threads then hide the latency of loads. */
static void plan_columns(text_form *f) {
  int bytes = 0, size = 0;
  for (int v = 0; v < f->k->ninstr; v++) {
    const fl_instr *i = &f->k->instr[v];
    if (i->code == FL_I_REDUCE) bytes += fl_dtype_reg(i->dtype) % 2 ? 4 : 8;
    if (!fl_text_packed(f, v) || f->vary[v] != V_ELEMENT) continue;
    bytes += fl_dtype_size(i->dtype);
    if (size == 0 || fl_dtype_size(i->dtype) < size) size = fl_dtype_size(i->dtype);
  }
  f->vector = bytes > 96 && size >= 2 ? 2 : 4;
}

/* Can each chunk have its own block? Yes if the row is read in one sweep, and no value that is
** stored for each element needs a result of the sweep. */
static int splits(const text_form *f) {
  if (f->cls != C_CHUNKS || f->rounds > 1) return 0;
  for (int s = 0; s < f->k->nstore; s++) {
    const int v = f->k->store[s].value;
    if (f->k->instr[v].level == 1 && f->round[v] > 0) return 0;
  }
  return 1;
}

static int class_of(const fl_kernel *k) {
  if (k->kind == FL_K_MAP) return C_MAP;
  if (k->kind == FL_K_COL) return C_COL;
  return in_chunks(k) ? C_CHUNKS : k->n <= FL_WARP_ROW ? C_GROUP : C_BLOCK;
}

int fl_text_quads_fit(const text_form *f, int o) {
  const fl_operand *x = &f->k->operand[o];
  int64_t bits = x->offset;
  for (int d = 0; d < f->ndim; d++)
    if (d != f->inner && f->k->size[d] > 1) bits |= x->stride[d];
  return bits % 4 == 0;
}

/* Notes in 'quad' the operands that give the indices of random draws, if vectors can take four
** draws from one block of the generator: a MAP has one path for vectors that start at such a block
** and one for others; in rows and columns the key tells which it is, and the text has one path. */
static void note_quads(text_form *f) {
  const fl_kernel *k = f->k;
  for (int v = 0; v < k->ninstr; v++) {
    const fl_instr *i = &k->instr[v];
    if (i->code != FL_I_RANDOM || k->instr[i->a].code != FL_I_IOTA) continue;
    const int o = k->instr[i->a].arg;
    f->quad[o] = f->in[o] == 1 &&
                 (f->cls == C_MAP ||
                  (!f->multi && (f->cls == C_COL || k->nred == 1) && fl_text_quads_fit(f, o)));
  }
}

/* Decides whether rows of two chunks of 16-bit elements are read only once (text_row.c). */
static void plan_once(text_form *f) {
  const fl_kernel *k = f->k;
  const int64_t step = FEW_THREADS * FEW_VECTOR;
  const int64_t steps = fl_ceil_div(k->n, step);
  int fits = f->few && steps <= ONCE_STEPS &&
             fl_text_once_bytes(steps) + f->nred * FEW_THREADS / 16 * SLOT_BYTES <= k->room &&
             (k->nred == 1 || k->size[f->inner] % FEW_VECTOR == 0);
  for (int v = 0; v < k->ninstr; v++) {
    const fl_instr *i = &k->instr[v];
    if (f->vary[v] == V_ELEMENT)
      fits &= i->code == FL_I_OP || i->code == FL_I_CAST || i->code == FL_I_IOTA ||
              (i->code == FL_I_LOAD && fl_dtype_size(i->dtype) == 2);
  }
  for (int o = 0; o < k->noperand; o++)
    fits &= !f->memory[o] || f->kept[o] || (k->operand[o].aligned16 && f->in[o] == 1);
  if (!fits) return;
  const text_form before = *f;
  f->once = 1;
  f->cls = C_BLOCK;
  f->lanes = FEW_THREADS;
  f->vector = FEW_VECTOR;
  f->steps = (int)steps;
  f->full = k->n % FEW_VECTOR == 0;
  f->few = 0;
  if (!fl_row_reads_once(f)) *f = before;
}

/* Plans rows of two chunks, in several sweeps of which a later one reads costly values: they get a
** block of twice as many threads, two of which share each vector of 4 elements. This does not
** change the order of sums: what one lane would add, (0 + 1) + (2 + 3), the two lanes add
** (join_vector). Not if an operand has less than 4 bytes per element: such a row does not wait for
** memory. */
static void plan_few(text_form *f) {
  const fl_kernel *k = f->k;
  f->few = f->few && f->cls == C_CHUNKS && !f->across && !f->split && !f->multi &&
           fl_text_count_chunks(k->n, ROW_CHUNK) == 2;
  for (int o = 0; o < k->noperand; o++) if (f->quad[o]) f->few = 0;
  plan_once(f);
  for (int v = 0; v < k->ninstr; v++)
    if (k->instr[v].code == FL_I_LOAD && f->vary[v] == V_ELEMENT &&
        fl_dtype_size(k->instr[v].dtype) < 4) f->few = 0;
  if (!f->few) return;
  f->lanes = FEW_THREADS;
  f->vector = FEW_VECTOR;
}

static void clear(text_form *f, int ninstr) {
  const size_t n = (size_t)ninstr;
  memset(f, 0, offsetof(text_form, vary));
  memset(f->vary, 0, n);
  memset(f->round, 0, n);
  memset(f->used, 0, n);
  memset(f->costly, 0, n);
  memset(f->scalar, 0, n * sizeof *f->scalar);
  memset(f->site, 0, n * sizeof *f->site);
}

void fl_text_form(const fl_kernel *k, int multi, text_form *f) {
  clear(f, k->ninstr);
  f->k = k;
  f->multi = (uint8_t)multi;
  f->cls = (uint8_t)class_of(k);
  f->ndim = (uint8_t)(k->nkept + k->nred);
  f->inner = (int8_t)(f->cls == C_COL ? k->nkept - 1 : f->ndim - 1);
  operand_uses(f);
  operand_strides(f);
  for (int v = 0; v < k->ninstr; v++) value_facts(f, v);
  for (int s = 0; s < k->nstore; s++) {
    if (!k->store[s].across) continue;
    f->across++;
    f->used[k->store[s].value] = 1;
  }
  f->flat = f->cls == C_MAP ? f->ndim <= 1 : k->nkept <= 1 && k->nred <= 1;
  f->wide = !f->flat && k->points > 0x7fffffff;
  assign_words(f);
  note_quads(f);
  if (f->cls == C_MAP) plan_map(f);
  if (f->cls == C_COL) plan_columns(f);
  if (k->kind != FL_K_ROW) return;
  f->vector = ROW_VECTOR;
  f->lanes = row_lanes(k);
  f->steps = row_steps(k, f->lanes);
  f->full = k->n > 0 && !in_chunks(k) && k->n % ((int64_t)f->lanes * ROW_VECTOR) == 0;
  f->split = splits(f);
  plan_few(f);
}

/* ---- key ---------------------------------------------------------------------------------- */

static void put(fl_text *out, int64_t v, int bytes) {
  uint8_t b[8];
  for (int i = 0; i < bytes; i++) b[i] = (uint8_t)((uint64_t)v >> 8 * i);
  fl_text_add(out, (const char *)b, (size_t)bytes);
}

static void key_instr(const fl_instr *i, fl_text *out) {
  const int data = i->code == FL_I_SCALAR || i->code == FL_I_RANDOM || i->code == FL_I_INDEX;
  put(out, i->code, 1);
  put(out, i->dtype, 1);
  put(out, i->from, 1);
  put(out, i->level, 1);
  put(out, i->op, 2);
  put(out, i->a, 2);
  put(out, i->b, 2);
  put(out, i->c, 2);
  put(out, data ? 0 : i->arg, 2);
}

void fl_text_key(const fl_kernel *k, int multi, fl_text *out) {
  text_form f;
  fl_text_form(k, multi, &f);
  put(out, FL_TEXT_VERSION, 1);
  put(out, k->kind | multi << 4 | k->guard << 5, 1);
  put(out, k->nkept | k->nred << 4, 1);
  put(out, f.cls | f.wide << 4 | f.runs << 5, 1);
  if (k->partial) put(out, k->partial, 1);
  put(out, f.lanes, 2);
  put(out, f.steps | f.full << 8 | f.few << 9 | f.once << 10, 2);
  put(out, k->ninstr, 2);
  put(out, k->noperand, 2);
  put(out, k->nstore, 2);
  if (f.across) put(out, k->room, 4);                      /* decides how far a row is requested */
  for (int v = 0; v < k->ninstr; v++) key_instr(&k->instr[v], out);
  for (int o = 0; o < k->noperand; o++) {
    put(out, k->operand[o].dtype, 1);
    put(out, f.zero[o], 1);
    put(out, f.in[o] | f.memory[o] << 4 | f.kept[o] << 5 | f.quad[o] << 6, 1);
  }
  for (int s = 0; s < k->nstore; s++) {
    put(out, k->store[s].value, 2);
    put(out, k->store[s].operand | (k->store[s].across ? 1 << 15 : 0), 2);
  }
}
