/*
** Random stencils in the kernel language: one to three dimensions, a flat index or one per axis,
** indices of neighbours written in many ways, bounds checked for each neighbour or for all at once;
** arrays smaller and larger than the launch. Each kernel is checked as in kernel_fuzz.c, and its
** adjoint by gathers is compared with the one by atomics (kernel_problem.h).
**
** stencil_fuzz [programs [seed [list]]]: see random_kernel.h.
*/
#include "random_kernel.h"

enum { SITES = 9 };
struct gen {
  writer w;
  int dims, flat, single, reach, guard_all, twice, minus;
  int size[3];                   /* elements along each axis */
  int at[SITES][3], n_sites;     /* shifts */
};

/* ---- indices --------------------------------------------------------------------------------- */

static const char *const coordinate[3] = {"x", "y", "z"}, *const size_name[3] = {"w", "h", "d"};
static const char *const stride[3] = {"1", "w", "w * h"};

static void plus(gen *g, int by, const char *unit) {
  if (!by) return;
  if (by == 1 || by == -1) say(g, " %c %s", by < 0 ? '-' : '+', unit);
  else if (unit[0] == '1') say(g, " %c %d", by < 0 ? '-' : '+', abs(by));
  else if (pick(g, 2)) say(g, " %c %d * %s", by < 0 ? '-' : '+', abs(by), unit);
  else say(g, " %c (%s) * %d", by < 0 ? '-' : '+', unit, abs(by));
}

static void moved(gen *g, const int *at, int axis) {
  say(g, "(%s", coordinate[axis]);
  plus(g, at[axis], "1");
  say(g, ")");
}

/* Writes the index of the neighbour at the shift 'at', in one of several ways. */
static void index_of(gen *g, const int *at) {
  if (g->dims == 1 || pick(g, 2)) {
    say(g, "i");
    for (int k = 0; k < g->dims; k++) plus(g, at[k], stride[k]);
  } else if (g->dims == 2) {
    if (pick(g, 2)) moved(g, at, 1), say(g, " * w + "), moved(g, at, 0);
    else moved(g, at, 0), say(g, " + w * "), moved(g, at, 1);
  } else {
    say(g, "("), moved(g, at, 2), say(g, " * h + "), moved(g, at, 1), say(g, ") * w + "),
    moved(g, at, 0);
  }
}

static void guard_of(gen *g, const int *at) {
  int any = 0;
  for (int k = 0; k < g->dims; k++) {
    if (!at[k]) continue;
    if (any++) say(g, " && ");
    if (at[k] < 0 && pick(g, 2)) say(g, "%s >= %d", coordinate[k], -at[k]);
    else if (at[k] < 0) say(g, "%s > %d", coordinate[k], -at[k] - 1);
    else if (pick(g, 2)) say(g, "%s < %s - %d", coordinate[k], size_name[k], at[k]);
    else say(g, "%s + %d < %s", coordinate[k], at[k], size_name[k]);
  }
  if (!any) say(g, "true");
}

/* ---- values ---------------------------------------------------------------------------------- */

static void read_site(gen *g, int k) {
  say(g, "%s[", g->twice && pick(g, 3) == 0 ? "r" : "u");
  index_of(g, g->at[k]);
  say(g, "]");
}

static void small(gen *g) {
  switch (pick(g, 7)) {
  case 0: say(g, "a"); return;
  case 1: say(g, "s"); return;
  case 2: say(g, "k[i]"); return;
  case 3: say(g, "c[%d]", pick(g, 3)); return;
  case 4: say(g, "0.%d", 1 + pick(g, 9)); return;
  case 5: say(g, "(0.1 * %s)", coordinate[pick(g, g->dims)]); return;
  default: say(g, "u[i]");
  }
}

static void term(gen *g, int k) {
  switch (pick(g, 6)) {
  case 0: read_site(g, k); return;
  case 1: small(g), say(g, " * "), read_site(g, k); return;
  case 2:
    read_site(g, k), say(g, " * "), read_site(g, g->guard_all ? pick(g, g->n_sites) : k);
    return;
  case 3: say(g, "sin("), read_site(g, k), say(g, ")"); return;
  case 4:
    say(g, "("), read_site(g, k), say(g, " > 0.1 ? "), read_site(g, k), say(g, " * "), small(g),
    say(g, " : "), small(g), say(g, ")");
    return;
  default: say(g, "sqrt(1.5 + "), read_site(g, k), say(g, " * 0.5)");
  }
}

static void use_site(gen *g, int k) {
  say(g, "\n  ");
  const int way = pick(g, 4);
  if (g->guard_all) {
    say(g, way == 0 ? "s *= 1 + 0.3 * " : way == 1 ? "s -= " : "s += ");
    term(g, k);
    say(g, ";");
  } else if (way == 3) {
    say(g, "s += ");
    guard_of(g, g->at[k]);
    say(g, " ? "), term(g, k), say(g, " : "), small(g), say(g, ";");
  } else {
    say(g, "if ("), guard_of(g, g->at[k]);
    say(g, way == 0 ? ") s *= 1 + 0.3 * " : way == 1 ? ") s -= " : ") s += ");
    term(g, k);
    say(g, ";");
  }
}

/* Writes a loop over neighbours along one or two axes. */
static void window(gen *g) {
  const int a = pick(g, g->dims), b = g->dims > 1 && pick(g, 2) ? (a + 1) % g->dims : -1,
            r = 1 + pick(g, 2);
  const int way = pick(g, 3);
  say(g, "\n  for (int p = %d; p <= %d; ++p) {", -r, pick(g, 2) ? r : 1);
  if (pick(g, 5) == 0)
    say(g, "\n    if (p == 1 && u[i] > 0.3) %s;", pick(g, 2) ? "break" : "continue");
  if (b >= 0) say(g, "\n    for (int q = %d; q >= -1; q--) {", pick(g, 2));
  say(g, "\n      int e = %s + p;", coordinate[a]);
  say(g, way == 0 ? "\n      if (e < 0 || e >= %s) continue;" : "\n      if (e >= 0 && e < %s",
      size_name[a]);
  if (b >= 0 && way == 0)
    say(g, "\n      if (%s + q < 0 || %s + q >= %s) continue;",
        coordinate[b], coordinate[b], size_name[b]);
  else if (b >= 0)
    say(g, " && %s + q >= 0 && %s + q < %s", coordinate[b], coordinate[b], size_name[b]);
  say(g, way ? ") s += " : "\n      s += ");
  small(g);
  say(g, " * u[i + p * (%s)", stride[a]);
  if (b >= 0) say(g, " + (%s) * q", stride[b]);
  say(g, "]%s;", pick(g, 2) ? " * p" : "");
  say(g, b >= 0 ? "\n    }\n  }" : "\n  }");
}

/* Writes a read of a neighbour whose index is clamped, or wraps around, along one axis. */
static void border(gen *g) {
  const int a = pick(g, g->dims), by = 1 + (pick(g, 4) == 0), left = pick(g, 2);
  const char *x = coordinate[a], *w = size_name[a];
  say(g, "\n  { int e = ");
  switch (pick(g, 6)) {
  case 0: say(g, left ? "max(%s - %d, 0)" : "min(%s + %d, %s - 1)", x, by, w); break;
  case 1: say(g, left ? "(%s + %s - %d) %% %s" : "(%s + %s + %d) %% %s", x, w, by, w); break;
  case 2: if (left) say(g, "%s > 0 ? %s - 1 : %s", x, x, pick(g, 2) ? "0" : x);
          else say(g, "%s < %s - 1 ? %s + 1 : %s - 1", x, w, x, w);
          break;
  case 3: if (left) say(g, "%s == 0 ? %s - 1 : %s - 1", x, w, x);
          else say(g, "%s + 1 == %s ? 0 : %s + 1", x, w, x);
          break;
  case 4: say(g, "min(max(%s %c %d, 0), %s - 1)", x, left ? '-' : '+', by, w); break;
  default: say(g, "(%s + %d) %% %s", x, by, w);
  }
  say(g, "; s += ");
  small(g);
  say(g, " * u[");
  if (g->dims == 3)
    say(g, a == 2 ? "(e * h + y) * w + x" : a == 1 ? "(z * h + e) * w + x" : "(z * h + y) * w + e");
  else if (g->dims == 2) say(g, a == 1 ? "e * w + x" : "y * w + e");
  else say(g, "e");
  say(g, "]; }");
}

/* Writes a read of a finer or coarser grid: several threads read one element, or a thread reads one
** of several that lie together. */
static void other_grid(gen *g) {
  static const char *const forms[3][6] = {
    {"x / P + A", "Q * x + A", "x / P * Q + A", "x / P", "Q * x + A", "x / P * Q + x"},
    {"y / P * (w / P) + x / P", "y / P * w + x / Q + A", "(2 * y + A) * (Q * w) + 2 * x + A",
     "(P * y + A) * w + Q * x + A", "y * w + x / Q", "y / P * w + x"},
    {"(z / P * h + y / Q) * w + x", "(z * h + y / P) * w + x", "((2 * z + A) * h + y) * w + x",
     "(2 * z * (2 * h) + 2 * y + A) * 2 * w + 2 * x + A", "z / P * w + x",
     "z * 2 * w * h + y * w + x"}};
  const char *f = forms[g->dims - 1][pick(g, 6)], *from = g->twice && pick(g, 2) ? "r" : "u";
  const int p = 2 + pick(g, 3), q = 1 + pick(g, 3);
  say(g, "\n  { int e = ");
  for (; *f; f++)
    if (*f == 'P') say(g, "%d", p);
    else if (*f == 'Q') say(g, "%d", q);
    else if (*f == 'A') say(g, "%d", pick(g, 3));
    else say(g, "%c", *f);
  say(g, "; if (e >= 0 && e < w * h * d) s += ");
  small(g);
  say(g, " * %s[e]; }", from);
}

/* ---- the kernel ------------------------------------------------------------------------------ */

static void take_numbers(gen *g) {
  static const char *const axes[3] = {"x", "y", "z"};
  if (!g->flat) {
    for (int k = 0; k < g->dims; k++)
      say(g, "  int %s = blockIdx.%s * blockDim.%s + threadIdx.%s;\n",
          coordinate[k], axes[k], axes[k], axes[k]);
    say(g, g->dims == 1 ? "  int i = x;\n" : g->dims == 2 ? "  int i = y * w + x;\n" :
           "  int i = (z * h + y) * w + x;\n");
    return;
  }
  say(g, pick(g, 2) ? "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                    : "  const int i = threadIdx.x + (int)blockDim.x * blockIdx.x;\n");
  if (g->dims == 1) say(g, "  int x = i;\n");
  else if (g->dims == 2)
    say(g, pick(g, 2) ? "  int x = i %% w, y = i / w;\n" : "  int y = i / w, x = i - w * y;\n");
  else say(g, pick(g, 2) ? "  int x = i %% w, y = i / w %% h, z = i / (w * h);\n"
                         : "  int z = i / (w * h), y = (i - z * w * h) / w, x = i %% w;\n");
}

static void guards(gen *g) {
  static const char *const all[3] = {"i >= w", "i >= w * h", "i >= w * h * d"};
  if (g->flat && pick(g, 2)) say(g, "  if (%s) return;\n", all[g->dims - 1]);
  else if (pick(g, 2)) {
    say(g, "  if (x >= w");
    for (int k = 1; k < g->dims; k++) say(g, " || %s >= %s", coordinate[k], size_name[k]);
    say(g, ") return;\n");
  } else {
    say(g, "  bool in = x < w");
    for (int k = 1; k < g->dims; k++) say(g, " && %s < %s", coordinate[k], size_name[k]);
    say(g, ";\n  if (!in) return;\n");
  }
  if (!g->guard_all) return;
  for (int k = 0; k < g->dims; k++)
    say(g, "  if (%s < %d || %s >= %s - %d) return;\n", coordinate[k], g->reach, coordinate[k],
        size_name[k], g->reach);
}

static void program(gen *g) {
  g->dims = 1 + pick(g, 3);
  g->flat = pick(g, 2);
  g->single = pick(g, 8) == 0;
  g->reach = 1 + (pick(g, 4) == 0);
  g->guard_all = pick(g, 2);
  g->twice = pick(g, 3) == 0;
  g->n_sites = 1 + pick(g, 5);
  for (int k = 0; k < 3; k++)
    g->size[k] = k < g->dims ? 1 + pick(g, g->dims == 1 ? 30 : g->dims == 2 ? 8 : 5) : 1;
  for (int s = 0; s < g->n_sites; s++)
    for (int k = 0; k < g->dims; k++) g->at[s][k] = pick(g, 2 * g->reach + 1) - g->reach;
  const char *t = g->single ? "float" : "double";
  say(g, "__global__ void k(const %s *u, const %s *r, const %s *k, const %s *c, %s *v, %s *o, %s a, int w, int h, int d) {\n",
      t, t, t, t, t, t, t);
  take_numbers(g);
  guards(g);
  say(g, "  %s s = %s;", t, pick(g, 2) ? "u[i] * 0.5" : "a");
  for (int s = 0; s < g->n_sites; s++) use_site(g, s);
  if (pick(g, 3) == 0) window(g);
  for (int k = pick(g, 3); k > 1 || (k > 0 && g->n_sites < 3); k--) border(g);
  if (pick(g, 3) == 0) other_grid(g);
  if (pick(g, 4) == 0) say(g, "\n  if (s > 0.2) s *= u[i]; else s = s * s;");
  switch (pick(g, 5)) {
  case 0: say(g, "\n  o[i] += s * s;"); break;
  case 1: say(g, "\n  o[i] = s + u[i];"); break;
  case 2: say(g, "\n  o[i] = o[i] * s;"); break;
  default: break;
  }
  say(g, "\n  v[i] = s;\n}\n");
}

/* ---- the launch ------------------------------------------------------------------------------ */

/* Chooses a random block, and a grid that covers the elements, has a block more or a block less. */
static void geometry(problem *p, gen *g) {
  const int n = g->size[0] * g->size[1] * g->size[2], axes = g->flat ? 1 : g->dims;
  for (int k = 0; k < axes; k++) {
    const int size = g->flat ? n : g->size[k], block = 1 + pick(g, g->flat ? 40 : 6);
    p->block[k] = (uint32_t)block;
    p->grid[k] = (uint32_t)((size + block - 1) / block + (pick(g, 4) == 0));
  }
  if (pick(g, 6) == 0 && p->grid[0] > 1) p->grid[0]--;
}

static void launch(gen *g, problem *p) {
  const char t = g->single ? 'f' : 'd';
  const int n = g->size[0] * g->size[1] * g->size[2], in = pick(g, 256);
  p->deterministic = pick(g, 3) > 0;
  p->loose = g->single ? 1e-3 : 0;
  geometry(p, g);
  give(p, &g->w.r, "%c%di %c%d%s %c%d%s %c3%s %c%doz %c%dio %c%s I=%d I=%d I=%d", t, n,
       t, n, in & 3 ? "i" : "", t, n, in >> 2 & 3 ? "i" : "", t, in >> 4 & 1 ? "i" : "",
       t, n, t, n, t == 'f' ? 'F' : 'D', in >> 5 & 1 ? "i" : "",
       g->size[0], g->size[1], g->size[2]);
}

/* In at least a third of the programs (1 in 3) the adjoint's atomic sums must become gathers. */
static const fuzzer fuzz = {"stencil_fuzz", 0x7654321, sizeof(gen), program, launch, 3, NULL, NULL};

int main(int argc, char **argv) { return fuzz_main(&fuzz, argc, argv); }
