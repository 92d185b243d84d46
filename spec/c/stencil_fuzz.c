/*
** Random stencils in the kernel language: one to three dimensions, one thread an element or threads
** along the axes, neighbours in every spelling of an index, guarded for each of them or for all;
** arrays smaller and larger than the launch. Checked as in kernel_fuzz.c: reverse against forward
** mode against differences, and the gather against the sums by atomics (kernel_problem.h).
**
** stencil_fuzz [programs [seed]]: prints the seed and source of each failure.
*/
#include "kernel_problem.h"
#include <stdarg.h>

enum { SITES = 9 };
typedef struct gen {
  uint64_t r;
  char text[16384];
  size_t n;
  int dims, flat, single, reach, guard_all, twice, minus;
  int size[3];                   /* of the grid of elements */
  int at[SITES][3], n_sites;     /* shifts */
} gen;

static int pick(gen *g, int n) { return (int)((next_random(&g->r) >> 33) % (uint64_t)n); }

static void say(gen *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say(gen *g, const char *fmt, ...) {
  va_list list;
  va_start(list, fmt);
  const int k = vsnprintf(g->text + g->n, sizeof g->text - g->n, fmt, list);
  va_end(list);
  if (k > 0 && g->n + (size_t)k < sizeof g->text) g->n += (size_t)k;
}

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

/* The index of the element at that shift, in one of its spellings. */
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

/* A loop over neighbours along one axis or two. */
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

/* A neighbour whose number is clamped or wraps around, along one axis. */
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
  if (pick(g, 4) == 0) say(g, "\n  if (s > 0.2) s *= u[i]; else s = s * s;");
  switch (pick(g, 5)) {
  case 0: say(g, "\n  o[i] += s * s;"); break;
  case 1: say(g, "\n  o[i] = s + u[i];"); break;
  case 2: say(g, "\n  o[i] = o[i] * s;"); break;
  default: break;
  }
  say(g, "\n  v[i] = s;\n}\n");
}

/* ---- checks ---------------------------------------------------------------------------------- */

typedef struct tally { int good, rough, refused, gathered, second, bad; } tally;

static argument *argue(problem *p, int type, int pointer, int64_t n, int want, uint64_t *seed) {
  argument *a = &p->arg[p->n++];
  *a = (argument){.type = type, .pointer = pointer, .n = n, .want = want, .at = fresh(n * 8)};
  for (int64_t e = 0; e < n && !(want & FL_KAD_FRESH); e++)
    put(type, a->at + e * size_of(type), uniform(seed));
  return a;
}

static void arguments(problem *p, gen *g) {
  const int type = g->single ? FL_KT_F32 : FL_KT_F64, in = FL_KAD_INPUT, out = FL_KAD_OUTPUT;
  const int64_t n = (int64_t)g->size[0] * g->size[1] * g->size[2];
  argue(p, type, 1, n, in, &g->r);
  argue(p, type, 1, n, pick(g, 4) ? in : 0, &g->r);
  argue(p, type, 1, n, pick(g, 4) ? in : 0, &g->r);
  argue(p, type, 1, 3, pick(g, 2) ? in : 0, &g->r);
  argue(p, type, 1, n, out | FL_KAD_FRESH, &g->r);
  argue(p, type, 1, n, in | out, &g->r);
  argue(p, type, 0, 1, pick(g, 2) ? in : 0, &g->r);
  for (int k = 0; k < 3; k++) put(FL_KT_I32, argue(p, FL_KT_I32, 0, 1, 0, &g->r)->at, g->size[k]);
}

/* Blocks of any shape, a few too many of them or a few too few. */
static void geometry(problem *p, gen *g) {
  int64_t n = 1;
  for (int k = 0; k < 3; k++) {
    n *= g->size[k];
    p->grid[k] = p->block[k] = 1;
    if (g->flat || k >= g->dims) continue;
    p->block[k] = (uint32_t)(1 + pick(g, 6));
    p->grid[k] = ((uint32_t)g->size[k] + p->block[k] - 1) / p->block[k] +
                 (uint32_t)(pick(g, 4) == 0);
  }
  if (g->flat) {
    p->block[0] = (uint32_t)(1 + pick(g, 40));
    p->grid[0] = ((uint32_t)n + p->block[0] - 1) / p->block[0] + (uint32_t)(pick(g, 4) == 0);
  }
  if (pick(g, 6) == 0 && p->grid[0] > 1) p->grid[0]--;
}

static void count(tally *t, int result, const problem *p, const gen *g, uint64_t seed,
                  const char *what) {
  t->good += result == 1;
  t->rough += result == -2;
  t->refused += result == -1;
  if (result) return;
  t->bad++;
  printf("stencil_fuzz: seed %llu%s: %s\n(%u %u %u) x (%u %u %u), sizes %d %d %d, %s\n%s\n",
         (unsigned long long)seed, what, p->why, p->grid[0], p->grid[1], p->grid[2], p->block[0],
         p->block[1], p->block[2], g->size[0], g->size[1], g->size[2],
         p->deterministic ? "in order" : "in any order", g->text);
}

static void one_program(uint64_t seed, tally *t, int second) {
  fl_mem m = {0};
  fl_error e = {0};
  gen *g = calloc(1, sizeof *g);
  g->r = seed * 0x9e3779b97f4a7c15u + 0x7654321;
  for (int k = 0; k < 5; k++) next_random(&g->r);
  program(g);
  fl_ksource *s = fl_ksource_parse(&m, &e, g->text, g->n);
  if (!s || s->error || !s->n_kernels || !s->kernels[0]->has_body) {
    t->bad++;
    printf("stencil_fuzz: seed %llu: %s\n%s\n", (unsigned long long)seed,
           s && s->n_kernels ? fl_ksource_refusal(s, s->kernels[0]) : "not parsed", g->text);
  } else {
    problem p = {.f = s->kernels[0], .mem = &m, .arena = &s->arena, .races = 1,
                 .deterministic = pick(g, 3) > 0,
                 .loose = g->single ? 1e-3 : 0};
    arguments(&p, g);
    geometry(&p, g);
    const int result = check_derivatives(&p, 1, seed + 1);
    count(t, result, &p, g, seed, "");
    t->gathered += p.gathered > 0;
    if (result == 1 && second && !g->single) {
      problem q;
      if (derive_problem(&p, 0, seed, &q)) {
        const int ok = check_derivatives(&q, 1, seed + 2);
        t->second += ok == 1;
        if (!ok) count(t, ok, &q, g, seed, " (tangent derived)");
        free_args(q.arg, q.n);
      } else {
        count(t, 0, &p, g, seed, "");
      }
    }
    free_args(p.arg, p.n);
  }
  fl_ksource_free(s);
  if (m.live_bytes)
    printf("stencil_fuzz: seed %llu: memory is left\n", (unsigned long long)seed), t->bad++;
  free(g);
}

int main(int argc, char **argv) {
  const int n = argc > 1 ? atoi(argv[1]) : 200;
  const uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  tally t = {0};
  for (int i = 0; i < n; i++) one_program(seed + (uint64_t)i, &t, i % 5 == 0);
  if (n > 100 && t.gathered < n / 3)
    printf("stencil_fuzz: only %d programs were gathered\n", t.gathered), t.bad++;
  printf("stencil_fuzz: %d passed, %d failed (%d gathered, %d of reverse against forward only, %d refused, %d twice derived)\n",
         t.good + t.rough, t.bad, t.gathered, t.rough, t.refused, t.second);
  return t.bad != 0;
}
