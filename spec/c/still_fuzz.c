/*
** Random kernels whose loops read an element that is the same in every iteration: its index depends
** on the thread's index, an outer counter, memory, or a variable that each iteration sets again. In
** other loops it only looks the same. Some iterations and loops do nothing, or end early. Arrays
** are global or shared; they are only read, or also written outside or inside the loop. Each kernel
** is checked as in kernel_fuzz.c.
**
** still_fuzz [programs [seed [list]]]: see random_kernel.h.
*/
#include "random_kernel.h"

enum { VALUES = 3, THREADS = 8 };
struct gen {
  writer w;
  int shared, atomics, own, budget, loop_id;       /* own: loops may write the thread's row of z */
  int counter[8], depth;         /* numbers of the enclosing loops */
  /* number of an integer that the innermost loop declares; -1: none */
  int local;
};

/* ---- elements ------------------------------------------------------------------------------- */

static void outer_counter(gen *g) {
  if (g->depth) say(g, "j%d", g->counter[pick(g, g->depth)]); else say(g, "n");
}

static void place(gen *g) {
  switch (pick(g, 11)) {
  case 0: say(g, "%d", pick(g, 8)); return;
  case 9: say(g, "o[%d]", pick(g, 3)); return;
  case 1: say(g, "2 * (i & 3)"); return;
  case 2: say(g, "2 * (i & 3) + 1"); return;
  case 3: say(g, "i"); return;
  case 4: say(g, "(b[i] + %d) & 7", pick(g, 3)); return;
  case 5: if (g->local >= 0) { say(g, "k%d", g->local); return; } /* fall through */
  case 6: say(g, "c%d & 7", pick(g, 3)); return;
  case 7: say(g, "("), outer_counter(g), say(g, " * 3 + i) & 7"); return;
  default: say(g, "("), outer_counter(g), say(g, " + %d) & 7", pick(g, 4)); return;
  }
}

static void element(gen *g) {
  switch (pick(g, g->shared ? 6 : 4)) {
  case 0: case 1: say(g, "x["), place(g), say(g, "]"); return;
  case 2: say(g, "w["), place(g), say(g, "]"); return;
  case 3: say(g, "z[4 * i + %d]", pick(g, 4)); return;
  default: say(g, "s["), place(g), say(g, "]"); return;
  }
}

static void leaf(gen *g) {
  if (pick(g, 3)) element(g); else say(g, "v%d", pick(g, VALUES));
}

static void value(gen *g) {
  static const char *const shells[] = { "sin(", "cos(", "tanh(", "0.2 * (" };
  say(g, "%s", shells[pick(g, 4)]);
  switch (pick(g, 6)) {
  case 0: leaf(g); break;
  case 1: leaf(g), say(g, " + "), leaf(g); break;
  case 2: say(g, "v%d > 0.1 ? ", pick(g, VALUES)), leaf(g), say(g, " : "), leaf(g); break;
  case 3: { const size_t from = ((writer *)g)->n;               /* one element twice */
    element(g);
    char twice[200];
    snprintf(twice, sizeof twice, "%s", ((writer *)g)->text + from);
    say(g, pick(g, 2) ? " * %s" : " - 0.5 * %s * v0", twice);
    break;
  }
  default: leaf(g), say(g, " * "), leaf(g);
  }
  say(g, ")");
}

/* ---- statements ------------------------------------------------------------------------------ */

static void statements(gen *g);

static void local(gen *g, int id) {
  g->local = id;
  line(g);
  say(g, "int k%d = ", id);
  switch (pick(g, 4)) {
  case 0: say(g, "(i * 3 + %d) & 7;", pick(g, 8)); return;
  case 1: say(g, "(c%d + 2 * i + 1) & 7;", pick(g, 3)); return;
  case 2: say(g, "b[c0 & 7] + %d;", pick(g, 4)); return;
  default: say(g, "("), outer_counter(g), say(g, " + i * 5) & 7;"); return;
  }
}

static void loop(gen *g) {
  static const char *const ends[] = { "0", "1", "3", "4", "b[i]", "c1", "n" };
  const int id = g->loop_id++, kind = pick(g, 4), before = g->local, can = g->depth < 3;
  if (!can) { say(g, "v0 *= 0.5;"); return; }
  if (kind == 3) {
    say(g, "int j%d = 0;", id);
    line(g);
    say(g, "do {");
  } else {
    say(g, "for (int j%d = 0; j%d < %s", id, id, ends[pick(g, 7)]);
    if (kind == 2) say(g, " && v%d < 0.9", pick(g, VALUES));
    say(g, "; ++j%d) {", id);
  }
  g->counter[g->depth++] = id;
  g->w.indent++;
  if (pick(g, 2)) local(g, id);
  statements(g);
  g->local = before;
  g->depth--;
  g->w.indent--;
  line(g);
  say(g, kind == 3 ? "} while (++j%d < 3);" : "}", id);
}

static void statement(gen *g) {
  const int v = pick(g, VALUES);
  g->budget--;
  line(g);
  switch (pick(g, 14)) {
  case 0: case 1: case 2: say(g, "v%d += ", v), value(g), say(g, ";"); return;
  case 3: say(g, "v%d = ", v), value(g), say(g, ";"); return;
  case 4:
    say(g, "if (");
    if (pick(g, 2)) say(g, "v%d > 0.2", pick(g, VALUES)); else outer_counter(g), say(g, " %% 2");
    say(g, ") v%d += ", v), value(g), say(g, ";");
    return;
  case 5:
    if (g->depth && !g->own) break;
    say(g, "z[4 * i + %d] %s= ", pick(g, 4), pick(g, 2) ? "+" : ""), value(g), say(g, ";");
    return;
  case 6: say(g, "c%d = (", 1 + pick(g, 2)), outer_counter(g), say(g, " + 2) & 3;"); return;
  case 7: say(g, "c2 = (2 * i + 1) & 7;"); return;
  case 11: say(g, "o[%d] = (", pick(g, 3)), outer_counter(g), say(g, " + 2 * i) & 7;"); return;
  case 8: say(g, "if (v%d > 0.3) c2 = %d;", v, pick(g, 8)); return;
  case 9:
    if (!g->depth) break;
    say(g, "if (v%d > 0.4) %s;", v, pick(g, 2) ? "break" : "continue");
    return;
  case 10:
    if (!g->atomics) break;
    say(g, "atomicAdd(&q["), place(g), say(g, "], "), value(g), say(g, ");");
    return;
  default: loop(g); return;
  }
  say(g, "v%d += 0.3 * v%d * ", v, pick(g, VALUES)), element(g), say(g, ";");
}

static void statements(gen *g) {
  for (int k = 1 + pick(g, 4); k > 0 && g->budget > 0; k--) statement(g);
}

/* Writes a store to shared memory by every thread, and a barrier. */
static void exchange(gen *g) {
  line(g);
  say(g, "s[threadIdx.x] = "), value(g), say(g, ";");
  line(g);
  say(g, "__syncthreads();");
}

static void program(gen *g) {
  static const char *const where[] = { "", "__shared__ double s[8];",
                                       "extern __shared__ double s[];" };
  g->shared = pick(g, 3);
  g->atomics = pick(g, 3) == 0;
  g->own = pick(g, 3) == 0;
  g->budget = 8 + pick(g, 16);
  g->local = -1;
  say(g, "__global__ void k(const double *x, const double *w, double *y, double *z, double *q, "
         "const int *b, int n) {\n  %s", where[g->shared]);
  g->w.indent = 1;
  line(g);
  say(g, "int i = threadIdx.x, c0 = 2 * i, c1 = b[i & 3], c2 = 1, "
         "o[3] = { 5, i, b[i] };");
  line(g);
  say(g, "double v0 = x[i], v1 = 0.3, v2 = w[2];");
  for (int phase = 1 + (g->shared ? pick(g, 2) : 0); phase > 0; phase--) {
    const int rounds = g->shared && pick(g, 3) == 0;
    if (rounds) say(g, "\n  for (int h = 0; h < 3; ++h) {"), g->w.indent++;
    if (g->shared) {
      const int shared = g->shared;
      g->shared = 0;
      exchange(g);
      g->shared = shared;
    }
    for (int k = 3; k > 0; k--) statements(g);
    if (g->shared) line(g), say(g, "__syncthreads();");
    if (rounds) g->w.indent--, say(g, "\n  }");
  }
  say(g, "\n  y[i] = v0 + v1 * v2;\n}\n");
}

/* ---- the launch ------------------------------------------------------------------------------ */

static void launch(gen *g, problem *p) {
  static const int slots[] = { 0, 16, 64 };
  p->slot_bytes = slots[pick(g, 3)];
  p->deterministic = pick(g, 2);
  p->shared = g->shared == 2 ? 8 * THREADS : 0;
  p->block[0] = THREADS;
  give(p, &g->w.r, "d8i d8i d8oz d32io d8oz i8%%4 I=%d", pick(g, 4));
}

static const fuzzer fuzz = { "still_fuzz", 0x13579bd, sizeof(gen), program, launch, 0, NULL, NULL };

int main(int argc, char **argv) { return fuzz_main(&fuzz, argc, argv); }
