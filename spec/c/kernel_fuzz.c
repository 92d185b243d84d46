/*
** Random programs of the kernel language as source text. Each is parsed, run and differentiated:
** reverse mode is compared with forward mode, and forward mode with central differences in f64. For
** some programs the derived kernels are differentiated and checked again. Where the differences of
** two steps disagree (a branch changes near the point), only the two modes are compared.
**
** kernel_fuzz [programs [seed [list]]]: see random_kernel.h.
*/
#include "random_kernel.h"

struct gen {
  writer w;
  int loops, budget, returns, atomics, shared, device, loop_id, single;
};

/* ---- expressions ---------------------------------------------------------------------------- */

static void integer(gen *g) {
  switch (pick(g, 6)) {
  case 0: say(g, "c%d", pick(g, 3)); return;
  case 1: say(g, "(c%d + %d)", pick(g, 3), pick(g, 4)); return;
  case 2: say(g, "b[c%d & 7]", pick(g, 3)); return;
  case 3: say(g, "(c%d * 3 + i)", pick(g, 3)); return;
  case 4: say(g, "%d", pick(g, 5)); return;
  default: say(g, "i"); return;
  }
}

static void expression(gen *g, int depth);

static void leaf(gen *g) {
  switch (pick(g, 10)) {
  case 0: say(g, "x[i]"); return;
  case 1: say(g, "x["); integer(g); say(g, " & 7]"); return;
  case 2: say(g, "w["); integer(g); say(g, " & 7]"); return;
  case 3: say(g, "a"); return;
  case 4: say(g, "l["); integer(g); say(g, " & 3]"); return;
  case 5: say(g, "%.2f", pick(g, 200) / 100.0 - 1); return;
  case 6: if (!g->loops) { say(g, "z[i]"); return; } /* fall through */
  default: say(g, "v%d", pick(g, 4)); return;
  }
}

static void condition(gen *g, int depth) {
  static const char *const ops[] = {"<", "<=", ">", ">=", "!="};
  switch (pick(g, 5)) {
  case 0: integer(g); say(g, " %% 3 %s %d", pick(g, 2) ? "==" : "<", pick(g, 3)); return;
  case 1:
    say(g, "(");
    condition(g, depth - 1);
    say(g, pick(g, 2) ? " && " : " || ");
    condition(g, depth - 1);
    say(g, ")");
    return;
  default:
    expression(g, depth > 1 ? 1 : 0);
    say(g, " %s ", ops[pick(g, 4)]);
    expression(g, 0);
  }
}

static void expression(gen *g, int depth) {
  static const char *const ones[] = {"sin", "cos", "tanh", "fabs", "atan", "floor", "-", "exp"};
  if (depth <= 0) { leaf(g); return; }
  switch (pick(g, 12)) {
  case 0: case 1: case 2:
    say(g, "(");
    expression(g, depth - 1);
    say(g, pick(g, 2) ? " + " : " - ");
    expression(g, depth - 1);
    say(g, ")");
    return;
  case 3: case 4: case 5: expression(g, depth - 1); say(g, " * "); leaf(g); return;
  case 6: {
    const int k = pick(g, 8);
    say(g, "%s(%s", ones[k], k == 7 ? "0.3 * " : "");
    leaf(g);
    say(g, ")");
    return;
  }
  case 7: say(g, "("); leaf(g); say(g, " / (1.5 + cos("); leaf(g); say(g, ")))"); return;
  case 8: say(g, "("); condition(g, 1); say(g, " ? "); expression(g, depth - 1); say(g, " : ");
          expression(g, depth - 1); say(g, ")"); return;
  case 9:
    say(g, "%s(", pick(g, 2) ? "fmax" : "fmin");
    leaf(g);
    say(g, ", ");
    leaf(g);
    say(g, ")");
    return;
  case 10: say(g, "sqrt(1.01 + sin("); leaf(g); say(g, "))"); return;
  default:
    if (g->device) say(g, "f%d(", pick(g, g->device)), leaf(g), say(g, ", "), leaf(g), say(g, ")");
    else leaf(g);
  }
}

/* Writes an expression whose value does not grow without bound in loops. */
static void bounded(gen *g) {
  switch (pick(g, g->loops ? 3 : 4)) {
  case 0: say(g, "sin("); expression(g, 2); say(g, ")"); return;
  case 1: say(g, "tanh("); expression(g, 2); say(g, ")"); return;
  case 2: say(g, "0.5 * cos("); expression(g, 2); say(g, ")"); return;
  default: expression(g, 3);
  }
}

/* ---- statements ------------------------------------------------------------------------------ */

static void block(gen *g, int depth, int breaks);

static void counted(gen *g, int id) {
  say(g, "for (int j%d = 0; j%d < ", id, id);
  if (pick(g, 2)) say(g, "%d", 1 + pick(g, 7)); else say(g, "b[i] + %d", pick(g, 4));
  say(g, "; ++j%d) {", id);
  g->w.indent++;
  line(g);
  say(g, "c%d = j%d;", pick(g, 3), id);
  g->w.indent--;
}

static void loop(gen *g, int depth) {
  const int id = g->loop_id++;
  g->loops++;
  switch (pick(g, 5)) {
  case 0: counted(g, id); break;
  case 1:
    say(g, "for (int j%d = %d; j%d > 0; j%d -= %d) {", id, 2 + pick(g, 8), id, id, 1 + pick(g, 2));
    break;
  case 2:
    say(g, "for (int j%d = 0; j%d < 9 && ", id, id);
    condition(g, 1);
    say(g, "; j%d++) {", id);
    break;
  case 3:
    say(g, "int j%d = 0;", id);
    line(g);
    say(g, "do {");
    block(g, depth, 1);
    say(g, " while (++j%d < 6 && ", id);
    condition(g, 1);
    say(g, ");");
    g->loops--;
    return;
  default:
    say(g, "int j%d = 0;", id);
    line(g);
    say(g, "while (true) {");
    g->w.indent++;
    line(g);
    say(g, "if (++j%d > %d) break;", id, 1 + pick(g, 12));
    g->w.indent--;
  }
  block(g, depth, 1);
  g->loops--;
}

static void switches(gen *g, int depth) {
  say(g, "switch (");
  integer(g);
  say(g, " & 3) {");
  for (int k = 0; k < 3; k++) {
    line(g);
    if (k == 2 && pick(g, 2)) say(g, "default: {"); else say(g, "case %d: {", k);
    block(g, depth, 0);
    if (pick(g, 3)) say(g, " break;");
  }
  line(g);
  say(g, "}");
}

/* Writes a statement that overwrites or updates z[i], which the caller has filled. */
static void in_place(gen *g) {
  if (g->loops) say(g, "z[i] += ");
  else say(g, "z[i] %s= ", pick(g, 3) ? "" : pick(g, 2) ? "*" : "+");
  bounded(g);
  say(g, ";");
}

/* Writes a statement of the kind 'way'; 0 if that kind is not allowed here. */
static int simple(gen *g, int way, int breaks) {
  switch (way) {
  case 0: case 1: case 2: case 3: say(g, "v%d = ", pick(g, 4)); bounded(g); say(g, ";"); return 1;
  case 4: case 5: say(g, "v%d += 0.5 * ", pick(g, 4)); bounded(g); say(g, ";"); return 1;
  case 6: {
    const int v = pick(g, 4);
    say(g, "v%d = 0.9 * v%d * ", v, v);
    bounded(g);
    say(g, ";");
    return 1;
  }
  case 7: say(g, "l["); integer(g); say(g, " & 3] = "); bounded(g); say(g, ";"); return 1;
  case 8: say(g, "l["); integer(g); say(g, " & 3] += "); bounded(g); say(g, ";"); return 1;
  case 9: say(g, "c%d = ", pick(g, 3)); integer(g); say(g, ";"); return 1;
  case 10: say(g, "c%d = (int)fabs(4 * v%d) & 7;", pick(g, 3), pick(g, 4)); return 1;
  case 16:
    if (!breaks) return 0;
    say(g, "if (");
    condition(g, 1);
    say(g, pick(g, 2) ? ") break;" : ") continue;");
    return 1;
  case 17:
    if (!g->returns || !pick(g, 2)) return 0;
    say(g, "if (");
    condition(g, 1);
    say(g, ") { y[i] = v%d; return; }", pick(g, 4));
    return 1;
  case 18:
    if (!g->atomics) return 0;
    say(g, "atomicAdd(&q["); integer(g); say(g, " & 3], "); bounded(g); say(g, ");");
    return 1;
  default: {     /* in_place(), or all threads write the same value to u[e] and read it back */
    if (pick(g, 3)) { in_place(g); return 1; }
    const int e = pick(g, 2);
    say(g, "u[%d] = w[%d]; v%d = 0.5 * v%d * u[%d] + u[%d] * u[2];",
        e, e, pick(g, 4), pick(g, 4), e, e);
    return 1;
  }
  }
}

static void statement(gen *g, int depth, int breaks) {
  g->budget--;
  line(g);
  const int way = pick(g, 20), nests = way >= 11 && way <= 15;
  if (nests && depth > 0) {
    if (way == 15) { switches(g, depth - 1); return; }
    if (way > 12) { loop(g, depth - 1); return; }
    say(g, "if (");
    condition(g, 2);
    say(g, ") {");
    block(g, depth - 1, breaks);
    if (pick(g, 2)) { say(g, " else {"); block(g, depth - 1, breaks); }
    return;
  }
  if (!nests && simple(g, way, breaks)) return;
  say(g, "y[i] %s= ", pick(g, 3) ? "" : "+");
  bounded(g);
  say(g, ";");
}

static void block(gen *g, int depth, int breaks) {
  g->w.indent++;
  for (int k = 1 + pick(g, 4); k > 0 && g->budget > 0; k--) statement(g, depth, breaks);
  g->w.indent--;
  line(g);
  say(g, "}");
}

/* Writes statements between two barriers: threads read shared memory in two branches, write the
** same value, or read what other threads wrote. */
static void together(gen *g) {
  const int u = pick(g, 4), v = pick(g, 4), c = pick(g, 4);
  switch (pick(g, 8)) {
  case 0:
    say(g, "if (threadIdx.x < 2) v%d = s[threadIdx.x] * v%d; else v%d = s[threadIdx.x - 2] + 0.3 * s[threadIdx.x];", u, v, u);
    return;
  case 1:
    say(g, "v%d = s[threadIdx.x] * s[threadIdx.x ^ %d]; __syncthreads(); s[threadIdx.x & 1] = w[%d + (threadIdx.x & 1)]; "
           "__syncthreads(); v%d *= s[(threadIdx.x + 1) & 1];", u, c, c, v);
    return;
  case 2:
    say(g, "if (threadIdx.x == 0) f[0] = 0; __syncthreads(); if (v%d > 0.2) f[0] = 1; __syncthreads(); "
           "if (f[0]) v%d = sin(v%d * s[%d]);", u, v, u, c);
    return;
  case 3:
    say(g, "f[threadIdx.x & 1] = ((threadIdx.x & 1) + %d) & 3; __syncthreads(); v%d += s[f[0]] * s[f[1]];", c, u);
    return;
  case 4:
    say(g, "{ double o = s[threadIdx.x] * s[threadIdx.x ^ 1]; __syncthreads(); if (threadIdx.x < 2) s[threadIdx.x + 2] = o; "
           "else s[threadIdx.x - 2] = o * v%d; __syncthreads(); v%d = s[threadIdx.x]; }", u, v);
    return;
  case 5:
    say(g, "for (int e = 0; e < 4; ++e) { __syncthreads(); if (threadIdx.x == 0) f[1] = 0; __syncthreads(); "
           "if (fabs(v%d) > 0.3) f[1] = 1; __syncthreads(); if (!f[1]) break; v%d = 0.6 * v%d * s[(threadIdx.x + e) & 3]; }",
        u, u, u);
    return;
  case 6:
    say(g, "if (threadIdx.x == 0) s[%d] = w[2]; else if (threadIdx.x == 3) s[%d] = w[2]; __syncthreads(); "
           "v%d = s[%d] * s[threadIdx.x] * v%d;", c, c, u, c, v);
    return;
  default:
    say(g, "atomicAdd(&s[threadIdx.x & 1], 0.1 * v%d * v%d); __syncthreads(); v%d = s[0] * s[1];",
        u, u, v);
  }
}

/* Writes a shuffle (from computed lanes, in groups of lanes, in a branch) or a vote. */
static void lanes(gen *g, const char *value) {
  const int u = pick(g, 4), v = pick(g, 4), c = pick(g, 3), by = pick(g, 9);
  switch (pick(g, 8)) {
  case 0:
    say(g, "v%d = 0.7 * __shfl_sync(~0u, %s, (i * 7 + c%d) & 31) + w[1] * v%d;", u, value, c, v);
    return;
  case 1:
    say(g, "v%d = 0.7 * __shfl_xor_sync(~0u, %s, c%d & 7) + w[1] * v%d;", u, value, c, v);
    return;
  case 2:
    say(g, "v%d = 0.7 * __shfl_up_sync(~0u, %s, c%d & 3, 8) + w[1] * v%d;", u, value, c, v);
    return;
  case 3:
    say(g, "v%d = 0.7 * __shfl_down_sync(~0u, %s, %d, 8) + w[1] * v%d;", u, value, by, v);
    return;
  case 4:
    say(g, "{ bool p = v%d > 0.1; unsigned m = __ballot_sync(~0u, p); if (p) v%d = 0.5 * v%d + __shfl_sync(m, %s, __ffs(m) - 1); }",
        u, v, v, value);
    return;
  case 5:
    say(g, "for (int e = 16; e > 0; e /= 2) v%d = fmax(v%d, __shfl_xor_sync(~0u, v%d, e));",
        u, u, u);
    return;
  case 6:
    say(g, "for (int e = 1; e < 32; e *= 2) { double o = __shfl_up_sync(~0u, v%d, e); if (i >= e) v%d = 0.6 * v%d + 0.5 * sin(o); }",
        u, u, u);
    return;
  default:
    say(g, "v%d *= 0.1 * __popc(__ballot_sync(~0u, v%d > 0.2)) + __any_sync(~0u, %s > 0.9);",
        u, v, value);
  }
}

/* Writes a statement that reads a value of another lane of the warp, or a vote of the warp. */
static void shuffle(gen *g) {
  char value[32], text[96];
  snprintf(value, sizeof value, pick(g, 2) ? "v%d" : "sin(v%d)", pick(g, 4));
  const int way = pick(g, 8);
  const int by = 1 + pick(g, 9);
  if (way >= 4) { lanes(g, value); return; }
  switch (way) {
  case 0: snprintf(text, sizeof text, "__shfl_down_sync(~0u, %s, %d)", value, by); break;
  case 1: snprintf(text, sizeof text, "__shfl_up_sync(~0u, %s, %d)", value, by); break;
  case 2: snprintf(text, sizeof text, "__shfl_xor_sync(~0u, %s, %d)", value, by); break;
  default: snprintf(text, sizeof text, "__shfl_sync(~0u, %s, i / %d)", value, by);
  }
  say(g, "v%d = 0.7 * %s + w[1] * v%d;", pick(g, 4), text, pick(g, 4));
}

/* Writes a statement or a loop over the array s in shared memory, where each thread has stored a
** value: the values are read, summed, or rewritten with barriers in between. */
static void rounds_of(gen *g) {
  switch (pick(g, 6)) {
  case 3:
    say(g, "for (int e = 2; e > 0; e /= 2) { if (threadIdx.x < e) s[threadIdx.x] = fmax(s[threadIdx.x], "
           "s[threadIdx.x + e]); __syncthreads(); }");
    line(g);
    say(g, "v%d = s[0] * s[1];", pick(g, 4));
    return;
  case 4:
    say(g, "for (int e = 0; e < n; ++e) { double o = s[(threadIdx.x + e) & 3]; __syncthreads(); "
           "s[threadIdx.x] = sin(o * v%d + w[e & 7]); __syncthreads(); v%d += 0.2 * o; }",
           pick(g, 4), pick(g, 4));
    return;
  case 5:
    say(g, "for (int e = 0; e < 5; ++e) { __syncthreads(); s[threadIdx.x ^ 1] = cos(v%d * e); __syncthreads(); "
           "if (e %% 2) continue; v%d = s[(threadIdx.x + e) & 3] * s[threadIdx.x]; }",
           pick(g, 4), pick(g, 4));
    return;
  case 0: say(g, "v%d = s[threadIdx.x ^ 1] * s[(threadIdx.x + 1) & 3];", pick(g, 4)); return;
  case 1: say(g, "for (int e = 0; e < 4; ++e) v%d += s[e] * w[e];", pick(g, 4)); return;
  default:
    say(g, "for (int e = 2; e > 0; e /= 2) { if (threadIdx.x < e) s[threadIdx.x] += s[threadIdx.x + e]; "
           "__syncthreads(); }");
    line(g);
    say(g, "v%d = sin(s[0]);", pick(g, 4));
  }
}

/* Writes statements by which the threads of a block or warp exchange values. */
static void exchange(gen *g) {
  line(g);
  if (g->shared == 2) { shuffle(g); return; }
  say(g, "s[threadIdx.x] = ");
  bounded(g);
  say(g, ";");
  line(g);
  say(g, "__syncthreads();");
  line(g);
  if (pick(g, 2)) together(g); else rounds_of(g);
  line(g);
  say(g, "__syncthreads();");
}

/* The program of a seed. */
static void program(gen *g) {
  g->device = pick(g, 3);
  g->returns = pick(g, 3) == 0;
  g->atomics = pick(g, 3) == 0;
  g->shared = pick(g, 4) == 0 ? 1 + pick(g, 2) : 0;
  if (g->shared) g->returns = 0;
  g->single = pick(g, 8) == 0;
  for (int k = 0; k < g->device; k++)
    say(g, k ? "__device__ double f%d(double p, double q) { double r = 0; for (int e = 0; e < 3; ++e) { r += sin(p) * q; if (r > 1) return r * p; p = r * 0.5; } return r; }\n"
             : "__device__ double f%d(double p, double q) { if (p > q) return p * q; return cos(p) + 0.5 * q; }\n", k);
  say(g, "__global__ void k(const double *x, const double *w, double *y, double *z, double *q, double *u, "
         "const int *b, double a, int n) {");
  g->w.indent = 1;
  line(g);
  if (g->shared == 1) { say(g, "__shared__ double s[4]; __shared__ int f[2];"); line(g); }
  say(g, "int i = blockIdx.x * blockDim.x + threadIdx.x;");
  if (!g->shared) { line(g); say(g, "if (i >= n) return;"); }
  line(g);
  say(g, "%s v0 = x[i], v1 = 0.3, v2 = a, v3 = w[i & 7];", g->single ? "float" : "double");
  line(g);
  say(g, "%s l[4] = {(%s)x[i], 0.5, v3, 0};", g->single ? "float" : "double",
      g->single ? "float" : "double");
  line(g);
  say(g, "int c0 = i, c1 = 1, c2 = b[i & 7];");
  g->budget = 6 + pick(g, 30);
  for (int phase = g->shared ? 3 : 1; phase > 0; phase--) {
    const int rounds = phase > 1 && pick(g, 3) == 0;
    if (rounds) { line(g); say(g, "for (int h = 0; h < 3; ++h) {"); g->loops++; g->w.indent++; }
    for (int k = 2 + pick(g, 5); k > 0 && g->budget > 0; k--) statement(g, 3, 0);
    if (phase > 1) exchange(g);
    if (rounds) { g->loops--; g->w.indent--; line(g); say(g, "}"); }
  }
  line(g);
  say(g, "y[i] = v0 + v1 * v2 - v3 + l[1] * l[2];\n}\n");
}

/* ---- the launch ------------------------------------------------------------------------------ */

static void launch(gen *g, problem *p) {
  static const int slots[] = {0, 16, 64};
  const int n = g->shared == 2 ? 32 : g->shared ? 8 : 5, most = n < 8 ? 8 : n;
  p->slot_bytes = slots[pick(g, 3)];
  p->deterministic = pick(g, 2);
  p->loose = g->single ? 1e-3 : 0;
  p->grid[0] = g->shared == 2 ? 1 : 2;
  p->block[0] = g->shared == 2 ? 32 : 4;
  give(p, &g->w.r, "d%di d8i d%doz d%dio d4io d3io i%d%%4 Di I=%d", most, n, n, most, n);
}

static const fuzzer fuzz = {"kernel_fuzz", 0x1234567, sizeof(gen), program, launch, 0, NULL, NULL};

int main(int argc, char **argv) { return fuzz_main(&fuzz, argc, argv); }
