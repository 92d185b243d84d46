/*
** Three optimisations of lane code (bytecode by which the CPU runs user kernels) against the plain
** interpreter: values that are linear in the thread's index (lane_linear.c), instructions done once
** per launch (lane_hoist.c), and loads used in place (lane_fuse.c). Random kernels of integers and
** sums of f32 run twice, the second time with these optimisations off, so that each instruction is
** done for each thread. Memory and faults must be the same. Sums of products are compared with C.
*/
#include "lane_run.h"
#include "kernel/lanes/lane_code.h"
#include <stdarg.h>

enum { CELLS = 512, FLOATS = 4096, ROUNDS = 1500 };

/* ---- a random kernel ----------------------------------------------------------------- */

static char text[20000];
static int depth;

static int draw(int n) { return (int)(random_bits() % (uint32_t)n); }

__attribute__((format(printf, 1, 2)))
static void put(const char *format, ...) {
  const size_t at = strlen(text);
  va_list more;
  va_start(more, format);
  vsnprintf(text + at, sizeof text - at, format, more);
  va_end(more);
}

static const char *const variable[] = { "a", "b", "c", "e", "h", "q" };

static void leaf(void) {
  static const char *const leaves[] = {
    "threadIdx.x", "threadIdx.y", "threadIdx.z", "blockIdx.x", "blockDim.x", "n", "u", "m", "t",
    "blockIdx.y", "i", "t", "1", "2", "16", "-1", "3u", "2147483647", "0x80000000u",
    "65535", "40000000000ll" };
  if (draw(5) > 1) put("%s", draw(2) ? variable[draw(6)] : leaves[draw(12)]);
  else put("%s", leaves[draw((int)(sizeof leaves / sizeof *leaves))]);
}

static void expression(int most);

static void condition(int most) {
  static const char *const tests[] = { "<", "<=", ">", ">=", "==", "!=" };
  if (most > 0 && !draw(4)) {
    put("(");
    condition(most - 1);
    put(draw(2) ? " && " : " || ");
    condition(most - 1);
    put(")");
    return;
  }
  if (!draw(6)) put("!");
  put("(");
  expression(most - 1);
  put(" %s ", tests[draw(6)]);
  expression(most - 1);
  put(")");
}

static void expression(int most) {
  static const char *const casts[] = { "int", "unsigned", "long long", "unsigned long long",
                                       "short", "unsigned char", "signed char", "bool", "float" };
  if (most <= 0) { leaf(); return; }
  switch (draw(10)) {
    case 9: put(draw(2) ? "min((long long)(" : "max((long long)("); expression(most - 1);
            put("), (long long)("); expression(most - 1); put("))"); return;
    case 0: put("(%s)(", casts[draw(9)]); expression(most - 1); put(")"); return;
    case 1: put("-("); expression(most - 1); put(")"); return;
    case 2: put("d[("); expression(most - 1); put(") & 63]"); return;
    case 3: put("("); condition(most - 1); put(" ? "); expression(most - 1); put(" : ");
            expression(most - 1); put(")"); return;
    case 4: put("(int)("); condition(most - 1); put(")"); return;
    case 5: leaf(); return;
    default:
      put("(");
      expression(most - 1);
      put(" %c ", "+-*+"[draw(4)]);
      expression(most - 1);
      put(")");
  }
}

/* Writes an index into an array of 'size' elements, mostly in range. */
static void index_of(int size) {
  if (!draw(3)) { put("t + %d", draw(size - 255)); return; }
  put("(int)((");
  expression(2);
  put(") & %d)", draw(60) ? 255 : 1023);
}

/* Writes an index into an array of f32: linear in threadIdx, with rows of many strides. */
static void place(void) {
  static const char *const row[] = { "0", "1", "blockDim.x", "17", "40", "-3" };
  put("[threadIdx.x %s%d + threadIdx.y * %s + threadIdx.z * %d%s]", draw(9) ? "+ " : "* ",
      draw(draw(20) ? 200 : 4000), row[draw(6)], draw(100), draw(3) ? "" : " + 9 * blockIdx.y");
}

/* Writes a statement that stores sums and products of elements of x and w, in x or in w itself. */
static void rows(void) {
  static const char *const array[] = { "x", "x", "w" };
  put("%s", array[1 + draw(2)]);
  place();
  put(" = ");
  for (int k = 1 + draw(4); k >= 0; k--) {
    put("%s", array[draw(3)]);
    place();
    if (draw(3)) put(" %c ", "+-*"[draw(3)]);
    else put(" * p %c ", "+-"[draw(2)]);
  }
  put(draw(3) ? "%s[i]" : "2.5f * %s[i]", array[draw(3)]);
  put(";\n");
}

static void statement(void);

static void assign(void) {
  put("%s = ", variable[draw(6)]);
  expression(3);
  put(";\n");
}

static void store(void) {
  put("g[");
  index_of(CELLS);
  put("] = ");
  if (!draw(4)) { put("g["); index_of(CELLS); put("]"); }
  else expression(2);
  put(";\ns[");
  index_of(256);
  put("] = ");
  expression(1);
  put(";\n");
}

static void load(void) {
  put("%s += s[", variable[draw(6)]);
  index_of(256);
  put("] + g[");
  index_of(CELLS);
  put("];\n");
}

static void branch(void) {
  put("if (");
  condition(2);
  put(") {\n");
  statement();
  statement();
  if (draw(2)) { put("} else {\n"); statement(); }
  put("}\n");
}

static void loop(void) {
  put("for (int j%d = 0; j%d < %d; j%d++) {\n", depth, depth, 1 + draw(4), depth);
  put("%s += j%d;\n", variable[draw(6)], depth);
  statement();
  if (!draw(3)) {
    put("if (");
    condition(1);
    put(") %s;\n", draw(2) ? "break" : "continue");
  }
  statement();
  put("}\n");
}

/* Writes a loop in which each thread handles elements at a fixed distance, from its index t on. */
static void sweep(void) {
  put("for (int j%d = t; j%d < %d; j%d += %d) {\n", depth, depth, 20 + draw(200), depth,
      40 + draw(90));
  put("g[j%d & 255] += ", depth);
  expression(1);
  put(";\n");
  statement();
  put("}\n");
}

static void statement(void) {
  depth++;
  switch (draw(depth > 3 ? 5 : 10)) {
    case 9: put("if ("); condition(1); put(") return;\n"); break;
    case 4: rows(); break;
    case 0: store(); break;
    case 1: load(); break;
    case 2: case 3: assign(); break;
    case 8: branch(); break;
    case 5: loop(); break;
    case 6: sweep(); break;
    case 7:
      put("atomicAdd(&g[");
      index_of(CELLS);
      put("], (int)(");
      expression(1);
      put("));\n");
      break;
    default: break;
  }
  depth--;
}

static void random_kernel(void) {
  text[0] = 0;
  put("__global__ void k(int *g, const int *d, long long m, unsigned u, int n, float *x, float *w, "
      "float p) {\n__shared__ int "
      "s[256]; int t = threadIdx.x + blockDim.x * threadIdx.y;\nint i = blockIdx.y * 100 + t, a = t, b = blockIdx.x * blockDim.x"
      " + threadIdx.x; unsigned c = threadIdx.y * 16 + n; long long e = b * m; short h = t; "
      "unsigned long long q = c;\n");
  for (int i = 1 + draw(9); i > 0; i--) statement();
  put("g[t & 255] += a + b; g[256 + (t & 255)] += (int)(c + e + h + q);\n}\n");
}

/* ---- both ---------------------------------------------------------------------------- */

/* Clears the marks of the optimisations, so that every instruction is done lane by lane. */
static void make_plain(fl_lane_code *c) {
  for (int64_t k = 0; k < c->ins.n; k++) {
    fl_lane_ins *p = &c->ins.at[k];
    p->lazy = p->linear = p->hoist = 0;
    if (p->op == FL_LI_LOAD) p->fn = -1;
  }
}

static int finished;

/* Memory that a kernel changes. */
typedef struct changed { int g[CELLS]; float x[FLOATS], w[FLOATS]; } changed;

static int runs_the_same(fl_lane_launch *l, const fl_kfunc *f, changed *g, int *linear) {
  static changed first, kept;
  fl_lane_report report_of[2];
  int ok[2];
  kept = *g;
  for (int w = 0; w < 2; w++) {
    fl_error e = { 0 };
    fl_lane_code *code = fl_lane_compile(&memory, f, &e);
    *g = kept;
    for (int64_t k = 0; !w && k < code->ins.n; k++) {
      const fl_lane_ins *p = &code->ins.at[k];
      linear[0] += p->linear != 0;
      linear[1] += p->hoist == FL_LANE_FORM || p->hoist == FL_LANE_TEST;
      linear[2] += p->op == FL_LI_LOAD && p->fn == 3;
    }
    if (w) make_plain(code);
    ok[w] = fl_lane_run(&memory, code, l, &report_of[w], &e);
    fl_lane_free(code);
    if (!w) first = *g;
  }
  finished += ok[0];
  return ok[0] == ok[1] && !memcmp(&first, g, sizeof first) &&
         report_of[0].kind == report_of[1].kind && report_of[0].index == report_of[1].index &&
         !memcmp(&report_of[0].at, &report_of[1].at, sizeof report_of[0].at);
}

static void random_arguments(int64_t *m, uint32_t *u, int32_t *n, int *g, int *d) {
  *m = draw(2) ? draw(100) : (int64_t)1 << draw(62);
  *n = draw(2) ? draw(64) : (int32_t)random_bits();
  *u = random_bits();
  for (int k = 0; k < CELLS; k++) g[k] = draw(1000);
  for (int k = 0; k < 64; k++) d[k] = draw(2) ? draw(300) : (int)random_bits();
}

static void test_random(int rounds) {
  static changed g;
  static int d[64];
  static const uint32_t shapes[][3] = {
    { 256 }, { 32, 8 }, { 16, 16 }, { 8, 8, 4 }, { 7, 5 }, { 1, 40 }, { 33 }, { 4, 4 }, { 1 },
    { 3, 3, 3 }, { 64, 2 }, { 5, 1, 6 }, { 10, 24 } };
  int ran = 0, linear[3] = { 0 };
  const float p = 1.1f;
  for (int i = 0; i < rounds; i++) {
    fl_error e = { 0 };
    random_kernel();
    fl_ksource *s = fl_ksource_parse(&memory, &e, text, strlen(text));
    if (s && s->n_kernels && s->kernels[0]->has_body) {
      const fl_lane_memory mem[] = { MEM(g.g), MEM(d), MEM(g.x), MEM(g.w) };
      int64_t m;
      uint32_t u;
      int32_t n;
      random_arguments(&m, &u, &n, g.g, d);
      for (int k = 0; k < FLOATS; k++) g.x[k] = (float)draw(999) / 7, g.w[k] = (float)draw(99) / 3;
      const fl_lane_arg args[] = { { 0, &mem[0] }, { 0, &mem[1] }, { &m, 0 }, { &u, 0 },
                                   { &n, 0 }, { 0, &mem[2] }, { 0, &mem[3] }, { &p, 0 } };
      fl_lane_launch l = { .grid = { 1 + (uint32_t)draw(3), 1 + (uint32_t)draw(3), 1 },
                           .args = args, .n_args = 8,
                           .checks = draw(3) ? 0 : 7, .max_steps = 100000 };
      const uint32_t *shape = shapes[draw((int)(sizeof shapes / sizeof *shapes))];
      for (int k = 0; k < 3; k++) l.block[k] = shape[k] ? shape[k] : 1;
      const int same = runs_the_same(&l, s->kernels[0], &g, linear);
      if (!same) fprintf(stderr, "kernel %d, block %u %u %u:\n%s", i, shape[0], shape[1],
                         shape[2], text);
      CHECK(same);
      ran++;
    }
    fl_ksource_free(s);
  }
  if (finished < rounds / 3)
    fprintf(stderr, "%d of %d ran, %d to the end\n", ran, rounds, finished);
  CHECK(finished >= rounds / 3 && linear[0] > 4 * ran && linear[1] > 4 * ran);
  CHECK(2 * linear[2] > ran);
}

/* Sums and products that overflow in some lanes must wrap as C's unsigned integers do. */
static void test_wrapping(void) {
  static int g[256];
  static long long e[256];
  const int n = 70000000;
  RUNS(.text = "__global__ void k(int *g, long long *e, int n) {\n  int t = threadIdx.x + 16 * "
       "threadIdx.y;\n  int top = t + 2147483547;\n  if (top < 0) g[t] = 1;\n  long long w = n * t; if (w >= 0 && t > 30) g[t] += 2;\n  e[t] = (long long)(n * t);\n"
       "  e[t] += (long long)(threadIdx.x - 5u);\n}",
       .block = { 16, 16 }, .value = { 0, 0, &n }, .memory = { MEM(g), MEM(e) });
  int bad = 0;
  for (int t = 0; t < 256; t++)
    bad += g[t] != (t > 100) + 2 * (t > 30 && (int32_t)(70000000u * (uint32_t)t) >= 0) ||
           e[t] != (long long)(int32_t)(70000000u * (uint32_t)t) + (uint32_t)(t % 16 - 5);
  CHECK(bad == 0);
}

/* ---- products ------------------------------------------------------------------------ */

#define PRODUCTS(T, x, y, z, out, p) \
  T r = x[t] * y[t] + z[t]; r = z[t] + r * x[t]; r = r - x[t] * y[t]; r = x[t] * y[t] - r; \
  r = r + p * y[t]; r = y[t] * p + r; r = r - p * x[t]; r = p * y[t] + p; r += p * p; \
  if (t % 3) r = r + y[t] * z[t]; \
  if (t % 5 == 1) r = r - r * x[t]; \
  for (int j = 0; j < 3; j++) r = r + r * y[t + j]; \
  out[t] = r; out[t] = out[t] + x[t] * r;
#define STRING(...) #__VA_ARGS__
#define TEXT(...) STRING(__VA_ARGS__)
#define SOURCE(T) "__global__ void k(const " #T " *x, const " #T " *y, const " #T " *z, " #T \
  " *out, " #T " p) { int t = threadIdx.x + blockDim.x * blockIdx.x;\n" \
  TEXT(PRODUCTS(T, x, y, z, out, p)) "}"

enum { LENGTH = 512 };

static void test_products(void) {
  static float x[LENGTH + 4], y[LENGTH + 4], z[LENGTH + 4], out[LENGTH], want[LENGTH];
  static double x2[LENGTH + 4], y2[LENGTH + 4], z2[LENGTH + 4], out2[LENGTH], want2[LENGTH];
  static const char *const sets[] = { "base", "avx2", "avx512" };
  const float p = 1.1f;
  const double p2 = 1.0 / 3;
  for (int k = 0; k < LENGTH + 4; k++) {
    x[k] = (float)(x2[k] = (draw(2001) - 1000) / 977.0);
    y[k] = (float)(y2[k] = (draw(2001) - 1000) / 1013.0);
    z[k] = (float)(z2[k] = (draw(2001) - 1000) / 3.0);
  }
  for (int t = 0; t < LENGTH; t++) { PRODUCTS(float, x, y, z, want, p) }
  for (int t = 0; t < LENGTH; t++) { PRODUCTS(double, x2, y2, z2, want2, p2) }
  for (int i = 0; i < 3; i++) {
    setenv("FLAME_ISA", sets[i], 1);
    RUNS(.text = SOURCE(float), .grid = { 4 }, .block = { 128 }, .value = { 0, 0, 0, 0, &p },
         .memory = { MEM(x), MEM(y), MEM(z), MEM(out) });
    RUNS(.text = SOURCE(double), .grid = { 4 }, .block = { 128 }, .value = { 0, 0, 0, 0, &p2 },
         .memory = { MEM(x2), MEM(y2), MEM(z2), MEM(out2) });
    CHECK(!memcmp(out, want, sizeof out) && !memcmp(out2, want2, sizeof out2));
  }
  unsetenv("FLAME_ISA");
}

int main(int argc, char **argv) {
  test_wrapping();
  test_products();
  test_random(argc > 1 ? atoi(argv[1]) : ROUNDS);
  CHECK(memory.live_bytes == 0);
  printf("kernel_linear: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
