/*
** CUDA texts of generated kernels (cuda/text/). NVRTC must compile the texts of hand-made kernels
** of every kind, op and dtype for sm_90 without a warning (no GPU is needed; without NVRTC that
** part is skipped with a message). Keys must depend on the structure alone, and parameters must
** match it.
**   test_text --golden DIR   writes the texts of the typical kernels to DIR
**   test_text --print NAME   prints one of them
**   test_text --all          compiles more dtypes
*/
#include "typical_kernels.h"
#include "nvrtc.h"
#include "cuda/text/embedded.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int passed, failed;
static fl_mem mem;

static void check(int ok, const char *what) {
  if (ok) passed++;
  else failed++, printf("FAILED: %s\n", what);
}

/* ---- NVRTC ------------------------------------------------------------------------------- */

static void dump(const char *name, const char *text, size_t size) {
  const char *dir = getenv("FLAME_TEXT_DUMP");
  char path[512];
  if (!dir) return;
  snprintf(path, sizeof path, "%s/%s", dir, name);
  FILE *f = fopen(path, "wb");
  if (!f) return;
  fwrite(text, 1, size, f);
  fclose(f);
}

/* Compiles a text to a cubin; a warning counts as a failure. */
static void compile(const nvrtc *n, const char *source, const char *what) {
  static const char *const option[] = { "-arch=sm_90", "-fmad=false", "-default-device" };
  void *program = NULL;
  size_t size = 0;
  char name[64];
  snprintf(name, sizeof name, "%s.cu", what);
  dump(name, source, strlen(source));
  if (n->create(&program, source, name, 0, NULL, NULL)) { check(0, what); return; }
  const clock_t start = clock();
  const int rc = getenv("FLAME_TEXT_DUMP") ? n->compile(program, 3, option)
                                             : nvrtc_judge(n->compile, program, 3, option);
  if (getenv("FLAME_TEXT_DUMP"))
    printf("%-30s %.2f s\n", what, (double)(clock() - start) / CLOCKS_PER_SEC);
  n->log_size(program, &size);
  char *log = calloc(size + 1, 1);
  if (log && size) n->log(program, log);
  if (rc || size > 1) printf("%s:\n%.6000s\n", what, log ? log : "");
  check(rc == 0, what);
  check(size <= 1, "no warning");
  free(log);
  if (rc == 0 && n->cubin_size(program, &size) == 0) {
    char *cubin = malloc(size);
    if (cubin && n->cubin(program, cubin) == 0) {
      snprintf(name, sizeof name, "%s.cubin", what);
      dump(name, cubin, size);
    }
    check(size > 0, "a cubin");
    free(cubin);
  }
  n->destroy(&program);
}

/* ---- a source of many kernels ---------------------------------------------------------------- */

static const nvrtc *rtc;
static int thorough;                        /* --all: every dtype, half a minute more */
static fl_text source;
static int count;

static void add(maker *m, int multi) {
  char name[16];
  snprintf(name, sizeof name, "k%d", count++);
  check(fl_text_kernel(&m->k, name, multi, &source) == FLAME_OK, "text");
}

static void begin_source(void) {
  fl_text_init(&source, &mem);
  fl_text_prelude(&source);
}

static void end_source(const char *what) {
  if (rtc) compile(rtc, fl_text_str(&source), what);
  else check(fl_text_str(&source) != NULL, what);
  fl_text_free(&source);
}

/* ---- every op and dtype ---------------------------------------------------------------------- */

static int op_accepts(int op, int dtype) {
  switch (fl_ops[op].kind) {
    case FL_KIND_FLOAT: return fl_is_float(dtype);
    case FL_KIND_NUM: return dtype != FLAME_BOOL;
    case FL_KIND_INT: return !fl_is_float(dtype);
    default: return 1;
  }
}

/* Adds kernels that contain every pointwise op that takes this dtype, 30 ops in a kernel, to save
** compilations. */
static void every_op(int dtype) {
  static maker m;
  const int64_t size[] = { 1000 };
  int stores = 0;
  for (int op = 0; op < FL_OP_COUNT; op++) {
    const int form = fl_ops[op].form;
    if (form > FL_FORM_TERNARY || !op_accepts(op, dtype)) continue;
    if (stores == 0) {
      mk_begin(&m, FL_K_MAP, 1, 0, size);
      for (int i = 0; i < 3; i++) mk_load(&m, mk_operand(&m, dtype, 1, NULL), 1);
      mk_load(&m, mk_operand(&m, FLAME_BOOL, 1, NULL), 1);
    }
    const int test = fl_ops[op].kind == FL_KIND_TEST, where = fl_ops[op].kind == FL_KIND_WHERE;
    const int v = mk_op(&m, op, test ? FLAME_BOOL : dtype, where ? 3 : 0, 1, 2);
    mk_out(&m, v, 1);
    if (++stores == 30) { add(&m, 0); stores = 0; }
  }
  if (stores) add(&m, 0);
}

static void every_cast(void) {
  static maker m;
  const int64_t size[] = { 1000 };
  for (int from = 0; from < FLAME_DTYPE_COUNT; from += thorough ? 1 : 2) {
    mk_begin(&m, FL_K_MAP, 1, 0, size);
    const int x = mk_load(&m, mk_operand(&m, from, 1, NULL), 1);
    for (int to = 0; to < FLAME_DTYPE_COUNT; to++) mk_out(&m, mk_cast(&m, to, x), 1);
    for (int to = 0; to < FLAME_DTYPE_COUNT; to++) mk_out(&m, mk_scalar(&m, to), 1);
    add(&m, from % 2);
  }
}

static int result_of(int op, int dtype) {
  switch (fl_ops[op].kind) {
    case FL_KIND_SUMS: return fl_is_float(dtype) ? dtype : FLAME_I64;
    case FL_KIND_TEST: return FLAME_BOOL;
    case FL_KIND_POSITION: return FLAME_I64;
    default: return dtype;
  }
}

static void every_reduction(int kind, int dtype, int64_t n) {
  static maker m;
  const int64_t size[] = { 130, n };
  const int order[] = { 1, 0 };
  mk_begin(&m, kind, 1, 1, size);
  const int x = mk_load(&m, mk_operand(&m, dtype, 3, kind == FL_K_COL ? order : NULL), 1);
  for (int op = 0; op < FL_OP_COUNT; op++)
    if (fl_ops[op].form == FL_FORM_REDUCE)
      mk_out(&m, mk_reduce(&m, op, result_of(op, dtype), x), 1);
  add(&m, 0);
}

static void every_random(void) {
  static maker m;
  static const int dtypes[] = { FLAME_F64, FLAME_F32, FLAME_F16, FLAME_BF16 };
  const int64_t size[] = { 30, 7 };
  mk_begin(&m, FL_K_MAP, 2, 0, size);
  const int i = mk_iota(&m, 3);
  for (int d = 0; d < 4; d++) {
    const int a = mk_scalar(&m, dtypes[d]), b = mk_scalar(&m, dtypes[d]);
    mk_out(&m, mk_random(&m, FL_OP_uniform, dtypes[d], i, a, b), 3);
    mk_out(&m, mk_random(&m, FL_OP_normal, dtypes[d], i, a, b), 3);
  }
  const int a = mk_scalar(&m, FLAME_I64), b = mk_scalar(&m, FLAME_I64);
  for (int d = 0; d < FLAME_DTYPE_COUNT; d += thorough ? 1 : 4)
    mk_out(&m, mk_random(&m, FL_OP_randint, d, i, a, b), 3);
  add(&m, 0);
}

/* A ROW kernel of two kept and two reduced dims, with broadcast operands and an argmax. */
static void row_of_dims(int64_t last) {
  static maker m;
  const int64_t size[] = { 5, 7, 12, last };
  const int order[] = { 1, 0, 2, 3 };
  mk_begin(&m, FL_K_ROW, 2, 2, size);
  const int F = FLAME_F32, x = mk_load(&m, mk_operand(&m, F, 15, order), 1);
  const int y = mk_load(&m, mk_operand(&m, FLAME_F16, 4, NULL), 1);
  const int z = mk_load(&m, mk_operand(&m, F, 3, NULL), 0);
  const int s = mk_op(&m, FL_OP_add, F, mk_op(&m, FL_OP_mul, F, x, mk_cast(&m, F, y), 0), z, 0);
  const int at = mk_reduce(&m, FL_OP_argmax, FLAME_I64, s), sum = mk_reduce(&m, FL_OP_sum, F, s);
  mk_out(&m, at, 3);
  mk_out(&m, mk_op(&m, FL_OP_sub, F, s, sum, 0), 15);
  mk_out(&m, s, 15);
  add(&m, 0);
}

/* A MAP kernel that gathers x[idx], and a COL kernel that computes with its reductions. */
static void gathers(void) {
  static maker m;
  const int64_t size[] = { 6, 40, 300 };
  mk_begin(&m, FL_K_MAP, 2, 0, size);
  const int n = mk_scalar(&m, FLAME_I64), i = mk_load(&m, mk_operand(&m, FLAME_I64, 3, NULL), 1);
  const int idx = mk_index(&m, i, n, mk_iota(&m, 3), FL_INDEX_NEGATIVE);
  const int o = mk_operand(&m, FLAME_F64, 2, NULL);
  m.operand[o].gstride = 40;
  m.elements[o] = 40 * 60;
  mk_out(&m, mk_gather(&m, o, idx, 1), 3);
  add(&m, 0);
  add(&m, 1);
  mk_begin(&m, FL_K_COL, 2, 1, size);
  const int order[] = { 0, 2, 1 };
  const int F = FLAME_F32, x = mk_load(&m, mk_operand(&m, F, 7, order), 1);
  const int mean = mk_load(&m, mk_operand(&m, F, 3, NULL), 0), k = mk_scalar(&m, F);
  const int d = mk_op(&m, FL_OP_sub, F, x, mean, 0);
  const int sum = mk_reduce(&m, FL_OP_sum, F, mk_op(&m, FL_OP_mul, F, d, d, 0));
  const int best = mk_reduce(&m, FL_OP_argmin, FLAME_I64, d);
  mk_out(&m, mk_op(&m, FL_OP_add, F, mk_op(&m, FL_OP_mul, F, sum, k, k), mean, mean), 3);
  mk_out(&m, best, 3);
  add(&m, 0);
}

/* A MAP kernel over rows so long that a thread has several vectors of one row and computes values
** of the row once for all of them: here an index that selects a table row, and a number. */
static void long_rows(void) {
  static maker m;
  const int64_t size[] = { 40, 70000 };
  mk_begin(&m, FL_K_MAP, 2, 0, size);
  const int F = FLAME_F32, n = mk_scalar(&m, FLAME_I64);
  const int i = mk_load(&m, mk_operand(&m, FLAME_I64, 1, NULL), 1);
  const int idx = mk_index(&m, i, n, mk_iota(&m, 1), FL_INDEX_NEGATIVE);
  const int o = mk_operand(&m, F, 2, NULL);
  m.operand[o].gstride = 70000;
  m.elements[o] = 70000 * 60;
  const int x = mk_cast(&m, F, mk_load(&m, mk_operand(&m, FLAME_BF16, 3, NULL), 1));
  const int top = mk_op(&m, FL_OP_exp, F, mk_load(&m, mk_operand(&m, F, 1, NULL), 1), 0, 0);
  const int sum = mk_op(&m, FL_OP_add, F, x, mk_gather(&m, o, idx, 1), 0);
  mk_out(&m, mk_op(&m, FL_OP_sub, F, sum, top, 0), 3);
  add(&m, 0);
  check(strstr(fl_text_str(&source), "long long run = c1;") != NULL, "a path for runs");
  add(&m, 1);
}

static void sums_over_rows(maker *m) {
  for (int i = 0; i < 4; i++) {
    const int64_t n[] = { 72, 1001, 4096, 8192 };
    row_sums_of(m, 3000, n[i], i % 2 ? FLAME_F16 : FLAME_F32), m->k.room = i % 2 ? 227 << 10 : 0;
    add(m, 0);
    partial_sums_of(m, 3000, n[i]), add(m, 0);
  }
}

static void compile_all(void) {
  static const int64_t lengths[] = { 3, 16, 50, 100, 200, 500, 1000, 2000, 4000, 8000, 16000, 30000,
                                     70000 };
  static maker m;
  begin_source();
  for (int i = 0; i < TYPICAL; i++) { typical[i].make(&m); add(&m, 0); }
  adamw(&m), add(&m, 1);
  sum_all(&m), add(&m, 1);
  bias_grad(&m), add(&m, 1);
  end_source("typical kernels");
  begin_source();
  for (int i = 0; i < (int)(sizeof lengths / sizeof *lengths); i++) {
    softmax_of(&m, 9, lengths[i], i % 3 ? FLAME_F32 : FLAME_BF16), add(&m, 0);
    layer_norm_of(&m, 9, lengths[i], i % 2 ? FLAME_F32 : FLAME_F16), add(&m, i % 2);
  }
  sums_over_rows(&m);
  cross_once_of(&m, 9, 32776), add(&m, 0);
  softmax_of(&m, 9, 57344, FLAME_F16), add(&m, 0);
  end_source("row lengths");
  begin_source();
  for (int d = 0; d < FLAME_DTYPE_COUNT; d++) {
    if (thorough || d % 3 == 1) every_reduction(FL_K_ROW, d, d % 2 ? 20 : 100);
    if (thorough || d % 3 == 2) every_reduction(FL_K_COL, d, 600);
  }
  if (thorough) every_reduction(FL_K_ROW, FLAME_F32, 5000);
  every_reduction(FL_K_ROW, FLAME_F64, 100000);
  end_source("reductions");
  begin_source();
  every_random();
  every_cast();
  row_of_dims(16), row_of_dims(5), row_of_dims(1000);
  for (int d = 0; d < FLAME_DTYPE_COUNT; d++)
    if (fl_is_float(d)) gelu_grad_of(&m, 300, 65, d), add(&m, 0);
  gathers();
  long_rows();
  end_source("random, casts, dims, gathers");
}

static void compile_ops(void) {
  static const int groups[][3] = { { FLAME_F32, FLAME_I64, FLAME_I32 }, { FLAME_F64, -1, -1 },
                                   { FLAME_BF16, FLAME_F16, FLAME_BOOL },
                                   { FLAME_U8, FLAME_I8, FLAME_I16 } };
  for (int g = 0; g < (thorough ? 4 : 1); g++) {
    begin_source();
    for (int i = 0; i < 3; i++) if (groups[g][i] >= 0) every_op(groups[g][i]);
    end_source("ops");
  }
}

static void compile_steps(void) {
  fl_text_init(&source, &mem);
  fl_text_steps(&source);
  end_source("steps");
}

/* ---- keys, geometry, parameters -------------------------------------------------------------- */

static int same_key(const fl_kernel *a, const fl_kernel *b) {
  fl_text x, y;
  fl_text_init(&x, &mem), fl_text_init(&y, &mem);
  fl_text_key(a, 0, &x), fl_text_key(b, 0, &y);
  const int same = x.n == y.n && memcmp(x.at, y.at, x.n) == 0;
  fl_text_free(&x), fl_text_free(&y);
  return same;
}

static int same_text(const fl_kernel *a, const fl_kernel *b) {
  fl_text x, y;
  fl_text_init(&x, &mem), fl_text_init(&y, &mem);
  fl_text_kernel(a, "k", 0, &x), fl_text_kernel(b, "k", 0, &y);
  const int same = x.n == y.n && memcmp(x.at, y.at, x.n) == 0;
  fl_text_free(&x), fl_text_free(&y);
  return same;
}

static void shift_draws(maker *m, int64_t n) {
  for (int v = 0; v < m->k.ninstr; v++)
    if (m->instr[v].code == FL_I_IOTA) m->operand[m->instr[v].arg].offset += n;
}

static void test_keys(void) {
  static maker a, b;
  layer_norm_of(&a, 100, 768, FLAME_F32), layer_norm_of(&b, 37, 768, FLAME_F32);
  check(same_key(&a.k, &b.k) && same_text(&a.k, &b.k), "another batch size has the same text");
  layer_norm_of(&a, 100, 700, FLAME_F32), layer_norm_of(&b, 37, 701, FLAME_F32);
  check(same_key(&a.k, &b.k) && same_text(&a.k, &b.k), "row lengths of a class have one text");
  layer_norm_of(&b, 37, 1500, FLAME_F32);
  check(!same_key(&a.k, &b.k), "row lengths of two classes have two");
  layer_norm_of(&b, 100, 700, FLAME_BF16);
  check(!same_key(&a.k, &b.k), "dtypes are in the key");
  chain(&a), chain(&b);
  b.scalar[0] = 1, b.operand[1].offset = 3, b.operand[1].aligned16 = 0;
  check(same_key(&a.k, &b.k) && same_text(&a.k, &b.k), "scalars and offsets are data");
  chain(&b), b.k.size[0] = b.k.points = b.k.rows = 5;
  check(same_key(&a.k, &b.k), "the size of a map is data");
  embedding(&a), embedding(&b);
  for (int v = 0; v < b.k.ninstr; v++) if (b.instr[v].code == FL_I_INDEX) b.instr[v].arg = 9;
  check(same_key(&a.k, &b.k) && same_text(&a.k, &b.k), "fault sites are data");
  dropout_norm(&a), dropout_norm(&b), shift_draws(&b, 4);
  check(same_key(&a.k, &b.k) && same_text(&a.k, &b.k),
        "the block that a row's draws begin at is data");
  dropout_norm(&b), shift_draws(&b, 1);
  check(!same_key(&a.k, &b.k) && !same_text(&a.k, &b.k),
        "draws within a block are in the key of a row");
  dropout(&a), dropout(&b), shift_draws(&b, 1);
  check(same_key(&a.k, &b.k) && same_text(&a.k, &b.k), "and data of a map");
}

static void test_geometry_of_rows(void) {
  static maker m;
  fl_text_geometry g;
  sum_all(&m);
  fl_text_geometry_of(&m.k, 0, &g);
  check(g.grid == 3052 && g.counters == 1 && g.scratch == 3052 * 16,
        "a long row is cut into chunks");
  softmax(&m);
  fl_text_geometry_of(&m.k, 0, &g);
  check(g.grid == 16384 && g.block == 512, "one block per row");
  softmax_of(&m, 99, 65536, FLAME_F32);
  fl_text_geometry_of(&m.k, 0, &g);
  check(g.grid == 99 && g.block == 1024 && !g.scratch, "two chunks in a block's registers");
  softmax_of(&m, 99, 65537, FLAME_F32);
  fl_text_geometry_of(&m.k, 0, &g);
  check(g.grid == 99 && g.block == 512 && g.scratch, "three in scratch");
}

static void test_geometry_of_rows_read_once(void) {
  static maker m;
  fl_text_geometry g;
  softmax_of(&m, 99, 40000, FLAME_BF16);
  fl_text_geometry_of(&m.k, 0, &g);
  check(g.grid == 99 && g.block == 1024 && g.shared == 20 * 8192 && !g.scratch,
        "two of elements of two bytes in registers and shared memory");
  softmax_of(&m, 16384, 57344, FLAME_BF16);
  fl_text_geometry_of(&m.k, 0, &g);
  check(g.grid == 132 && g.shared == 28 * 8192, "where a block takes row after row");
  m.k.room = 163 << 10;                                            /* of one A100's */
  fl_text_geometry_of(&m.k, 0, &g);
  check(g.grid == 16384 && !g.shared && g.scratch, "not where a block has less memory than a row");
  softmax_of(&m, 99, 57352, FLAME_BF16);
  fl_text_geometry_of(&m.k, 0, &g);
  check(g.grid == 99 && g.block == 512 && g.scratch && !g.shared, "longer ones in scratch");
  softmax_of(&m, 99, 40001, FLAME_BF16);
  fl_text_geometry_of(&m.k, 0, &g);
  check(g.block == 1024 && g.shared == 20 * 8192, "of odd length, if they are padded");
  for (int i = 0; i < m.k.noperand; i++) m.k.operand[i].aligned16 = 0;
  fl_text_geometry_of(&m.k, 0, &g);
  check(g.block == 512 && g.scratch && !g.shared, "and those that lie at odd addresses");
}

static void test_geometry_of_rows_gathered_or_held(void) {
  static maker m;
  fl_text_geometry g;
  cross_entropy(&m);
  fl_text_geometry_of(&m.k, 0, &g);
  check(g.faults == 1 && g.grid == 1024, "faults are asked for");
  gated_norm(&m);
  fl_text_geometry_of(&m.k, 0, &g);
  check(g.grid == 1024 && g.block == 128, "few rows to a block where they are held in its memory");
  m.k.nstore = 0;                                   /* without stores nothing is held */
  fl_text_geometry_of(&m.k, 0, &g);
  check(g.grid == 512 && g.block == 256, "eight where nothing is");
}

/* Sums over rows: what a block has, and how far it requests rows. */
static void test_row_sums(void) {
  static maker m;
  fl_text_geometry g;
  row_sums(&m);
  fl_text_geometry_of(&m.k, 0, &g);
  check(g.grid == 64 * 4 && g.block == 128, "a block has four of the 16 lanes of a chunk");
  check(g.shared == 4 * 2 * 768 * 6, "two rows of each warp are requested ahead");
  row_sums_of(&m, 16384, 1024, FLAME_F32);
  m.k.room = 0;
  fl_text_geometry_of(&m.k, 0, &g);
  check(g.shared == 4 * 1 * 1024 * 8, "one where a block has no more than on every GPU");
  row_sums_of(&m, 16384, 8192, FLAME_F32);
  fl_text_geometry_of(&m.k, 0, &g);
  check(g.grid == 8 * 16 && g.block == 512, "a block has a lane of a chunk");
  check(g.shared == 8192 * 8, "one row of a block is requested ahead");
  partial_sums(&m);
  fl_text_geometry_of(&m.k, 0, &g);
  check(g.grid == 12 && g.counters == 0, "a tile of columns for all partial results");
}

static void test_geometry(void) {
  static maker m;
  fl_text_geometry g;
  int64_t word[FL_TEXT_MAX_WORDS];
  void *address[FL_MAX_OPERANDS];
  const fl_scalar scalar[8] = { { .d = 2 }, { .d = 1 } };
  const fl_text_aux aux = { (void *)64, (void *)128, (void *)192 };
  for (int i = 0; i < FL_MAX_OPERANDS; i++) address[i] = (void *)(intptr_t)(4096 * (i + 1));
  chain(&m);
  fl_text_geometry_of(&m.k, 0, &g);
  check(g.grid == (1 << 26) / 4096 && g.block == 256 && !g.scratch && !g.counters, "chain's grid");
  fl_text_params(&m.k, address, scalar, &aux, word);
  check(word[0] == 1 && word[1] == 1 << 26, "aligned addresses take vectors");
  address[0] = (void *)(intptr_t)4100;
  fl_text_params(&m.k, address, scalar, &aux, word);
  check(word[0] == 0, "others do not");
  bias_grad(&m);
  fl_text_geometry_of(&m.k, 0, &g);
  check(g.grid == 12 * 64 && g.counters == 12, "columns in tiles and chunks");
  many_columns(&m);
  fl_text_geometry_of(&m.k, 0, &g);
  check(g.grid == 8 * 16 && g.block == 512, "two columns to a thread where there is much for each");
  chain(&m), m.k.size[0] = m.k.points = m.k.rows = 0;
  fl_text_geometry_of(&m.k, 0, &g);
  check(g.grid == 0, "nothing to do, no block");
}

/* ---- golden ---------------------------------------------------------------------------------- */

static void golden_path(char *path, size_t size, const char *dir, const char *name) {
  snprintf(path, size, "%s/%s.cu", dir, name);
}

static void golden_text(int i, fl_text *out) {
  static maker m;
  fl_text_init(out, &mem);
  typical[i].make(&m);
  fl_text_kernel(&m.k, typical[i].name, 0, out);
}

static int write_golden(const char *dir) {
  char path[512];
  for (int i = 0; i < TYPICAL; i++) {
    fl_text t;
    golden_text(i, &t);
    golden_path(path, sizeof path, dir, typical[i].name);
    FILE *f = fopen(path, "wb");
    if (!f) return 1;
    fwrite(t.at, 1, t.n, f);
    fclose(f);
    fl_text_free(&t);
  }
  return 0;
}

static void test_golden(const char *dir) {
  char path[512];
  for (int i = 0; i < TYPICAL; i++) {
    fl_text t;
    golden_text(i, &t);
    golden_path(path, sizeof path, dir, typical[i].name);
    FILE *f = fopen(path, "rb");
    char *old = calloc(t.n + 2, 1);
    const size_t n = f && old ? fread(old, 1, t.n + 1, f) : 0;
    const int same = old && f && n == t.n && memcmp(old, t.at, n) == 0;
    if (!same) printf("%s differs: test_text --golden %s\n", path, dir);
    check(same, "golden text");
    if (f) fclose(f);
    free(old);
    fl_text_free(&t);
  }
}

/* The folder of golden texts, found from the root or from a build folder, where tests run. */
static const char *golden_dir(void) {
  static const char *const dir[] = { "spec/golden", "../spec/golden", "../../spec/golden" };
  char path[512];
  for (int i = 0; i < 3; i++) {
    golden_path(path, sizeof path, dir[i], "chain");
    FILE *f = fopen(path, "rb");
    if (f) { fclose(f); return dir[i]; }
  }
  return NULL;
}

int main(int argc, char **argv) {
  static nvrtc n;
  if (argc == 3 && !strcmp(argv[1], "--golden")) return write_golden(argv[2]);
  for (int i = 0; argc == 3 && i < TYPICAL; i++) {
    fl_text t;
    if (strcmp(argv[2], typical[i].name)) continue;
    golden_text(i, &t);
    fputs(fl_text_str(&t), stdout);
    return 0;
  }
  thorough = argc == 2 && !strcmp(argv[1], "--all");
  if (nvrtc_open(&n)) rtc = &n;
  else printf("text: no NVRTC here, texts are not compiled\n");
  test_keys();
  test_geometry();
  test_row_sums();
  test_geometry_of_rows();
  test_geometry_of_rows_read_once();
  test_geometry_of_rows_gathered_or_held();
  if (golden_dir()) test_golden(golden_dir());
  else printf("text: spec/golden not found from here, not compared\n");
  compile_steps();
  compile_all();
  compile_ops();
  check(mem.live_bytes == 0, "no memory is left");
  printf("text: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
