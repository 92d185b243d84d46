/*
** Random kernels that access memory in other forms than element by element: rows of arrays, words
** of 16 bytes over doubles and halves, memcpy and memset, packs of a template, bits of a number,
** pointers that are null or members of an object, volatile memory, variables of file scope, lists
** of arrays that are read and written (T **), an argument that is nil.
**
** A program is a kernel body that uses macros. The macros are defined twice: in these forms, and as
** plain loops over elements. Both kernels must compute the same bits, and the derivatives of the
** first are checked as in kernel_fuzz.c.
**
** forms_fuzz [programs [seed [list]]]: see random_kernel.h.
*/
#include "random_kernel.h"

enum { THREADS = 8, BLOCKS = 2, N = THREADS * BLOCKS, READ = 3, WRITTEN = 2 };

struct gen {
  writer w;
  size_t body;                   /* offset in the text of the body, which both kernels share */
  int halves, nil, loops, budget, loop_id;
  int chosen;       /* threads may choose different arrays of a list; then the text copies element
                    ** by element, and casts no pointer to another type for it */
  char plain[sizeof(((writer *)0)->text)];
};

/* ---- the two definitions of the macros ------------------------------------------------------- */

static const char *const copies[] = {
  "*(int4 *)(d) = *(const int4 *)(s); ((int4 *)(d))[1] = *((const int4 *)(s) + 1);",
  "{ *(double2 *)(d) = *(const double2 *)(s); *(uint4 *)((d) + 2) = *(const uint4 *)((s) + 2); }",
  "memcpy(d, s, 4 * sizeof(double));",
  "{ Pack<4> q_ = *(const Pack<4> *)(s); *(Pack<4> *)(d) = q_; }",
  "for (int k_ = 0; k_ < 4; ++k_) ((long long *)(d))[k_] = ((const long long *)(s))[k_];",
  "{ int4 q_[2]; q_[0] = *(const int4 *)(s); q_[1] = ((const int4 *)(s))[1]; const double *f_ = (const double *)q_; "
    "for (int k_ = 0; k_ < 4; ++k_) (d)[k_] = f_[k_]; }",
  "{ uint2 q_; for (int k_ = 0; k_ < 4; ++k_) { q_ = ((const uint2 *)(s))[k_]; ((uint2 *)(d))[k_] = q_; } }",
  "{ View_ v_ = {(s), (d)}; for (int k_ = 0; k_ < 4; ++k_) *v_.to++ = *v_.from++; }",
  "{ View_ u_ = {(s), (d)}, v_; v_ = u_; v_.to += 3; v_.from = v_.at(3); "
    "for (int k_ = 0; k_ < 4; ++k_) v_.put(-k_, *v_.at(-k_)); }",
};

static const char *const uncast[] = {
  "{ View_ v_ = {(s), (d)}; for (int k_ = 0; k_ < 4; ++k_) v_.to[k_] = v_.from[k_]; }",
  "for (int k_ = 3; k_ >= 0; --k_) (d)[k_] = (s)[k_];",
};

static const char *const zeros[] = {
  "memset(d, 0, 4 * sizeof(double));",
  "*(double4 *)(d) = make_double4(0, 0, 0, 0);",
  "for (int k_ = 0; k_ < 4; ++k_) ((unsigned long long *)(d))[k_] = 0;",
};

static const char *const half_copies[] = {
  "*(int4 *)(d) = *(const int4 *)(s);",
  "memcpy(d, s, 8 * sizeof(__half));",
  "for (int k_ = 0; k_ < 4; ++k_) ((__half2 *)(d))[k_] = ((const __half2 *)(s))[k_];",
  "{ float4 q_ = *(const float4 *)(s); const __half *f_ = (const __half *)&q_; "
    "for (int k_ = 0; k_ < 8; ++k_) (d)[k_] = f_[k_]; }",
  "{ uint4 q_; unsigned e_ = ((const unsigned *)(s))[1]; q_.x = *(const unsigned *)(s); q_.y = e_; "
    "q_.z = ((const unsigned *)(s))[2]; q_.w = ((const unsigned *)(s))[3]; *(uint4 *)(d) = q_; }",
};

static void forms(gen *g) {
  say(g, "template <int K> struct Pack { double at[K]; };\n"
         "struct View_ { const double *from; double *to;"
         " __device__ void put(int k, double v) { to[k] = v; } __device__ const double *at(int k) const { return from + k; } };\n"
         "__constant__ double c_[4];\n__device__ double g_[%d];\n", N);
  say(g, "__device__ double opt_(const double *p, const double *q, int k) {"
         " if (!q) return p[k]; return q != nullptr ? p[k] * q[k] : q[k]; }\n");
  say(g, "#define ROW(p, i, j) ((double (*)[4])(p))[i][j]\n"
         "#define OF(j, k) in_[j][k]\n#define INTO(j, v) out_[j][i] = v;\n"
         "#define MORE(j, v) { double *p_ = out_[j] + i; *p_ += v; }\n"
         "#define GIVEN(k) (nil_ ? nil_[k] : 0.5)\n");
  say(g, "#define OPT(p, k) opt_(p, nullptr, k)\n#define TOP(v) (((const int *)&(v))[1])\n");
  const int c = g->chosen;
  say(g, "#define CPY(d, s) %s\n", c ? uncast[pick(g, 2)] : copies[pick(g, 9)]);
  say(g, "#define CPY2(d, s) %s\n", c ? uncast[pick(g, 2)] : copies[pick(g, 9)]);
  say(g, "#define ZERO(d) %s\n",
      c ? "for (int k_ = 0; k_ < 4; ++k_) (d)[k_] = 0;" : zeros[pick(g, 3)]);
  say(g, "#define HCPY(d, s) %s\n",
      c ? "for (int k_ = 0; k_ < 8; ++k_) (d)[k_] = (s)[k_];" : half_copies[pick(g, 5)]);
  say(g, "#define STEP(u, v) s_[t] = u; if (t < 4) { s_[t] += s_[t + 4]; s_[t] = s_[t] * s_[t ^ 1]; } "
         "v = s_[t & 3];\n");
  say(g, "__global__ void k(const double *const *in_, double **out_, const double *nil_, "
         "const double *x, const double *w, double *y, double *z%s, int n) {\n"
         "  volatile __shared__ double s_[%d];", g->halves ? ", const __half *h, __half *o" : "",
      THREADS);
}

static void plainly(gen *g) {
  say(g, "__device__ double opt_(const double *p, const double *q, int k) { return p[k] * q[k]; }\n"
         "#define OF(j, k) ((j) == 0 ? in0[k] : (j) == 1 ? in1[k] : in2[k])\n"
         "#define INTO(j, v) if ((j) == 0) out0[i] = v; else out1[i] = v;\n"
         "#define MORE(j, v) if ((j) == 0) out0[i] += v; else out1[i] += v;\n"
         "#define ROW(p, i, j) (p)[4 * (i) + (j)]\n#define OPT(p, k) (p)[k]\n"
         "#define TOP(v) ((int)(__double_as_longlong(v) >> 32))\n"
         "#define CPY(d, s) for (int k_ = 0; k_ < 4; ++k_) (d)[k_] = (s)[k_];\n"
         "#define CPY2(d, s) CPY(d, s)\n#define ZERO(d) for (int k_ = 0; k_ < 4; ++k_) (d)[k_] = 0;\n"
         "#define HCPY(d, s) for (int k_ = 0; k_ < 8; ++k_) (d)[k_] = (s)[k_];\n");
  say(g, "#define STEP(u, v) { __syncwarp(); s_[t] = u; __syncwarp(); double q_ = 0; "
         "if (t < 4) q_ = s_[t] + s_[t + 4]; __syncwarp(); if (t < 4) s_[t] = q_; __syncwarp(); "
         "if (t < 4) q_ = s_[t] * s_[t ^ 1]; __syncwarp(); if (t < 4) s_[t] = q_; __syncwarp(); "
         "v = s_[t & 3]; __syncwarp(); }\n");
  say(g, "#define GIVEN(k) %s\n", g->nil ? "0.5" : "nil_[k]");
  say(g, "__global__ void k(const double *in0, const double *in1, const double *in2, double *out0, "
         "double *out1, const double *nil_, "
         "const double *x, const double *w, double *y, double *z%s, int n, "
         "const double *c_, double *g_) {\n  __shared__ double s_[%d];",
      g->halves ? ", const __half *h, __half *o" : "", THREADS);
}

/* ---- the body -------------------------------------------------------------------------------- */

/* Writes an index into a list of n arrays: a constant, or one that differs between threads. */
static void one_of(gen *g, int n) {
  const int k = pick(g, n);
  if (!g->chosen || pick(g, 2)) say(g, "%d", k);
  else say(g, "(i + %d) %% %d", k, n);
}

static void leaf(gen *g) {
  switch (pick(g, 11)) {
  case 8: case 9: say(g, "OF("); one_of(g, READ); say(g, ", 4 * i + %d)", pick(g, 4)); return;
  case 10: say(g, "GIVEN(%d)", pick(g, 4)); return;
  case 0: say(g, "ROW(x, i, %d)", pick(g, 4)); return;
  case 1: say(g, "ROW(z, i, %d)", pick(g, 4)); return;
  case 2: case 3: say(g, "l[%d]", pick(g, 8)); return;
  case 4: say(g, "c_[%d]", pick(g, 4)); return;
  case 5:
    if (g->halves) say(g, "(double)__half2float(e[%d])", pick(g, 8));
    else say(g, "OPT(x + 4 * i, %d)", pick(g, 4));
    return;
  default: say(g, "v%d", pick(g, 3));
  }
}

static void value(gen *g) {
  static const char *const shells[] = {"sin(", "cos(", "tanh(", "0.3 * ("};
  say(g, "%s", shells[pick(g, 4)]);
  leaf(g);
  if (pick(g, 2)) say(g, pick(g, 2) ? " * " : " - 0.7 * "), leaf(g);
  say(g, ")");
}

static const char *row_of(gen *g, int writes) {
  static const char *const rows[] = {"l", "l + 4", "z + 4 * i", "x + 4 * i", "w"};
  return rows[pick(g, writes ? 3 : 5)];
}

static void statements(gen *g, int depth);

static void nested(gen *g, int depth) {
  const int id = g->loop_id++;
  if (pick(g, 2)) say(g, "if (v%d > 0.1) {", pick(g, 3));
  else if (pick(g, 3) == 0) say(g, "if (TOP(l[%d]) < 0) {", pick(g, 8));
  else say(g, "for (int j%d = 0; j%d < %d; ++j%d) {", id, id, 1 + pick(g, 3), id);
  g->w.indent++;
  g->loops++;
  statements(g, depth - 1);
  g->loops--;
  g->w.indent--;
  line(g);
  say(g, "}");
}

static void copy(gen *g) {
  const char *to = row_of(g, 1), *from = row_of(g, 0);
  if (!strcmp(to, from)) from = "w";
  say(g, "%s(%s, %s);", pick(g, 2) ? "CPY" : "CPY2", to, from);
}

static void statement(gen *g, int depth) {
  g->budget--;
  line(g);
  switch (pick(g, depth > 0 ? 16 : 13)) {
  case 11: case 12:
    say(g, "%s(", pick(g, 2) ? "INTO" : "MORE"); one_of(g, WRITTEN); say(g, ", "); value(g);
    say(g, ")");
    return;
  case 0: case 1: case 2: copy(g); return;
  case 3: say(g, "ZERO(%s);", row_of(g, 1)); return;
  case 4: say(g, "l[%d] = ", pick(g, 8)); value(g); say(g, ";"); return;
  case 5: say(g, "ROW(z, i, %d) = ", pick(g, 4)); value(g); say(g, ";"); return;
  case 6: say(g, "g_[i] += "); value(g); say(g, "; v%d = g_[i] * v%d;", pick(g, 3), pick(g, 3));
          return;
  case 7:
    if (g->loops) say(g, "v%d *= OPT(w, %d);", pick(g, 3), pick(g, 4));
    else say(g, "STEP(sin(v%d), v%d)", pick(g, 3), pick(g, 3));
    return;
  case 8:
    if (g->halves) say(g, "HCPY(%s, %s);", pick(g, 2) ? "e" : "o + 8 * i",
                       pick(g, 2) ? "h + 8 * i" : "e");
    else say(g, "v%d += opt_(x + 4 * i, w, %d);", pick(g, 3), pick(g, 4));
    return;
  case 9: say(g, "v%d += ", pick(g, 3)); value(g); say(g, ";"); return;
  case 10: say(g, "v%d = ", pick(g, 3)); value(g); say(g, ";"); return;
  default: nested(g, depth);
  }
}

static void statements(gen *g, int depth) {
  for (int k = 1 + pick(g, 4); k > 0; k--) statement(g, g->budget > 0 ? depth : 0);
}

static void body(gen *g) {
  g->w.indent = 1;
  line(g);
  say(g, "int t = threadIdx.x, i = blockIdx.x * %d + t;", THREADS);
  line(g);
  say(g, "double v0 = c_[0], v1 = x[4 * i + 1], v2 = 0.3, l[8];");
  line(g);
  say(g, "g_[i] = v1;");
  line(g);
  say(g, "CPY(l, x + 4 * i) CPY2(l + 4, z + 4 * i)");
  if (g->halves) line(g), say(g, "__half e[8]; HCPY(e, h + 8 * i)");
  g->budget = 6 + pick(g, 12);
  while (g->budget > 0) statement(g, 2);
  line(g);
  say(g, "y[i] = v0 + v1 * v2 + l[1] * l[6] + g_[i];\n}\n");
}

static void program(gen *g) {
  g->halves = pick(g, 4) == 0;
  g->nil = pick(g, 2);
  g->chosen = pick(g, 3) == 0;
  plainly(g);
  memcpy(g->plain, g->w.text, g->w.n);
  const size_t head = g->w.n;
  g->w.n = 0;
  forms(g);
  g->body = g->w.n;
  body(g);
  memcpy(g->plain + head, g->w.text + g->body, g->w.n - g->body + 1);
}

static const char *twin(const gen *g) { return g->plain; }
static const char *formed(const gen *g) {
  return g->nil ? "in_=3,out_=2,nil_=0," : "in_=3,out_=2,";
}

/* ---- the launch ------------------------------------------------------------------------------ */

static void launch(gen *g, problem *p) {
  p->deterministic = pick(g, 2);
  p->grid[0] = BLOCKS;
  p->block[0] = THREADS;
  give(p, &g->w.r, "d%di d%di d%di d%dio d%doz d4%s", 4 * N, 4 * N, 4 * N, N, N, g->nil ? "" : "i");
  give(p, &g->w.r, "d%di d4i d%doz d%dio", 4 * N, N, 4 * N);
  if (g->halves) give(p, &g->w.r, "h%di h%doz", 8 * N, 8 * N);
  give(p, &g->w.r, "I=%d d4i d%dz", N, N);
}

static const fuzzer fuzz = {"forms_fuzz", 0x5bd1e995, sizeof(gen), program, launch, 0, twin,
                            formed};

int main(int argc, char **argv) { return fuzz_main(&fuzz, argc, argv); }
