/*
** Random kernels that use one array in several parts: rows, ranges at an offset, members of a
** struct, pointers into the middle. The array is in static or dynamic shared memory, in locals, or
** in global memory. Each kernel is checked as in kernel_fuzz.c: reverse against forward mode,
** forward mode against central differences in f64, all with the race check.
**
** A program is a list of phases with barriers in between. In a phase a part is read by all threads,
** or each thread reads and writes one element of it, or it is only written, by one thread or by all
** with the same value; so there is no race. Values of one part that a gradient needs must survive
** writes to another part. In memory that belongs to one thread (locals, a row of global memory)
** every element may be read and written.
**
** parts_fuzz [programs [seed [list]]]: see random_kernel.h.
*/
#include "random_kernel.h"

enum { WIDTH = 4, BLOCKS = 2, MOST_PARTS = 4, VALUES = 3 };

typedef enum layout { ROWS, FLAT, WOVEN, SIZED, POINTERS, RECORDS, MEMBERS, LAYOUTS } layout;
typedef enum place { STATIC, DYNAMIC, LOCAL, GLOBAL_ROW, GLOBAL_BLOCK, PLACES } place;

struct gen {
  writer w;
  int parts, layout, place, fresh, loops, budget, loop_id;
  int counter;                   /* of the innermost loop, -1: none */
  int reading;                   /* not 0: nothing is stored */
  int by_e;                /* inside a loop over e, where statements must not assign e */
  int still;                     /* inside a loop without barriers: a kernel that stores much in it
                                 ** would be refused, so stores are rare */
  /* Bit sets. written: parts that this phase writes; once: those of them that, unless they belong
  ** to one thread, are written by a single thread or by all with the same value. */
  int written, once;
  int turn[MOST_PARTS];          /* per part: which element is the thread's in this phase */
};

static int is_private(const gen *g) { return g->place == LOCAL || g->place == GLOBAL_ROW; }

/* ---- elements ------------------------------------------------------------------------------- */

static void element(gen *g, int part, const char *at) {
  switch (g->layout) {
  case ROWS: say(g, "s[%d][%s]", part, at); return;
  case FLAT:
    if (part && pick(g, 2)) say(g, "s[%s + %d]", at, WIDTH * part);
    else say(g, "s[%d + %s]", WIDTH * part, at);
    return;
  case WOVEN: say(g, "s[%d * (%s) + %d]", g->parts, at, part); return;
  case SIZED: say(g, part ? "s[%d * m + %s]" : "s[%d + %s]", part, at); return;
  case POINTERS: say(g, "s%d[%s]", part, at); return;
  case RECORDS: say(g, "s[%s].f%d", at, part); return;
  default: say(g, "s.f%d[%s]", part, at);
  }
}

/* The index in 'part' of the element that only this thread, t, accesses in this phase. */
static const char *own_place(const gen *g, int part) {
  static const char *const turns[] = {"t", "t", "t", "3 - t", "(t ^ 1)", "((t + 1) & 3)"};
  return turns[g->turn[part]];
}

static const char *any_place(gen *g) {
  static char text[4][32];
  static int next;
  static const char *const fixed[] = {"0", "1", "2", "3", "t", "(t ^ 2)", "((t + 3) & 3)", "3 - t"};
  if (g->counter < 0 || pick(g, 3) == 0) return fixed[pick(g, 8)];
  char *to = text[next++ & 3];
  if (g->place == GLOBAL_ROW) snprintf(to, sizeof text[0], "j%d", g->counter);
  else snprintf(to, sizeof text[0], "((j%d%s) & 3)", g->counter, pick(g, 2) ? " + t" : "");
  return to;
}

static void read_element(gen *g) {
  const int part = pick(g, g->parts), written = g->written >> part & 1;
  if (g->once >> part & 1) say(g, "x[i]");
  else element(g, part, is_private(g) || !written ? any_place(g) : own_place(g, part));
}

static void leaf(gen *g) {
  switch (pick(g, 9)) {
  case 0: say(g, "x[i]"); return;
  case 1: say(g, "w[%d]", pick(g, 4)); return;
  case 2: case 3: say(g, "v%d", pick(g, VALUES)); return;
  default: read_element(g);
  }
}

/* Writes an expression whose value is at most 1 or a small fraction of another value, so that
** nothing grows without bound in loops. */
static void value(gen *g) {
  static const char *const shells[] = {"sin(", "cos(", "tanh(", "0.1 * ("};
  const int shell = pick(g, 4);
  say(g, "%s", shells[shell]);
  leaf(g);
  switch (pick(g, shell < 3 ? 4 : 8)) {
  case 0: say(g, " - 0.7 * "); leaf(g); break;
  case 1: if (shell < 3) say(g, " + "), leaf(g), say(g, " * "), leaf(g); break;
  case 2: if (shell < 3) say(g, " * "), leaf(g); break;
  default: break;
  }
  say(g, ")");
}

/* ---- statements ------------------------------------------------------------------------------ */

static int a_written_part(gen *g) {
  for (int turn = 0; turn < 8; turn++) {
    const int part = pick(g, g->parts);
    if (g->written >> part & 1) return part;
  }
  return -1;
}

static void store(gen *g, int part) {
  const int once = g->once >> part & 1 && !is_private(g);
  if (once && g->turn[part] > 3) {                          /* all threads store the same */
    const int e = pick(g, 4);
    element(g, part, e == 0 ? "0" : e == 1 ? "1" : e == 2 ? "2" : "3");
    say(g, " = w[%d];", e);
    return;
  }
  if (once) say(g, "if (t == %d) ", g->turn[part] & 3);
  element(g, part, once || is_private(g) ? any_place(g) : own_place(g, part));
  say(g, once || pick(g, 3) ? " = " : pick(g, 2) ? " += " : " *= ");
  value(g);
  say(g, ";");
}

static void statements(gen *g, int depth);

/* Writes a loop without barriers. */
static void small_loop(gen *g, int depth) {
  const int outer = g->counter, id = g->loop_id++;
  say(g, "for (int j%d = 0; j%d < ", id, id);
  if (pick(g, 3)) say(g, "%d", 1 + pick(g, WIDTH)); else say(g, "b[t]");
  say(g, "; ++j%d) {", id);
  g->counter = id;
  g->w.indent++;
  g->still++;
  statements(g, depth - 1);
  g->still--;
  g->w.indent--;
  line(g);
  say(g, "}");
  g->counter = outer;
}

/* Writes a loop whose counter e is declared outside it, so that later statements may read its final
** value; or, instead of a loop, a statement that reads e or one that sets it. */
static void loop_of_e(gen *g, int depth) {
  if (g->by_e || !depth) { say(g, "v0 += e;"); return; }
  if (pick(g, 3) == 0) { say(g, "e = %d;", pick(g, WIDTH)); return; }
  say(g, "for (; e < %d; ++e) {", WIDTH);
  g->w.indent++;
  g->still++;
  g->by_e++;
  statements(g, depth - 1);
  line(g);
  say(g, "v%d += x[e] * x[e] * sin(v%d);", pick(g, VALUES), pick(g, VALUES));
  g->by_e--;
  g->still--;
  g->w.indent--;
  line(g);
  say(g, "}");
}

static void branch(gen *g, int depth) {
  if (pick(g, 2)) say(g, "if (t < %d) {", 1 + pick(g, 3));
  else say(g, "if (v%d > 0.1) {", pick(g, VALUES));
  g->w.indent++;
  statements(g, depth - 1);
  g->w.indent--;
  line(g);
  say(g, "}");
}

static void statement(gen *g, int depth) {
  const int still = g->still && g->place != LOCAL && pick(g, g->place == GLOBAL_ROW ? 3 : 12);
  const int part = still || g->reading ? -1 : a_written_part(g), v = pick(g, VALUES);
  g->budget--;
  line(g);
  if (pick(g, 12) == 0) { loop_of_e(g, depth); return; }
  switch (pick(g, depth > 0 ? 8 : 5)) {
  case 0: case 1: case 2:
    if (part >= 0) { store(g, part); return; }      /* fall through */
  case 3: say(g, "v%d += ", v); value(g); say(g, ";"); return;
  case 4: say(g, "v%d = ", v); value(g); say(g, ";"); return;
  case 5: case 6: small_loop(g, depth); return;
  default: branch(g, depth);
  }
}

static void statements(gen *g, int depth) {
  for (int k = 1 + pick(g, 3); k > 0; k--) statement(g, g->budget > 0 ? depth : 0);
}

/* ---- phases ---------------------------------------------------------------------------------- */

static void barrier(gen *g) {
  if (is_private(g)) return;
  line(g);
  say(g, "__syncthreads();");
}

static void phase(gen *g) {
  g->written = 1 + pick(g, (1 << g->parts) - 1);
  g->once = pick(g, 4) == 0 ? pick(g, 1 << g->parts) & g->written : 0;
  for (int k = 0; k < MOST_PARTS; k++) g->turn[k] = pick(g, 6);
  statements(g, 2);
  barrier(g);
}

/* Writes a phase that stores new values into one part and then reads all parts. */
static void tile(gen *g) {
  const int part = pick(g, g->parts);
  g->turn[part] = pick(g, 6);
  g->once = 0;
  g->written = 1 << part;
  line(g);
  element(g, part, is_private(g) ? any_place(g) : own_place(g, part));
  say(g, pick(g, 2) ? " = sin(x[i] + v%d);" : " = cos(w[t] * v%d);", pick(g, VALUES));
  if (pick(g, 2)) barrier(g), g->written = 0;
  g->reading++;
  statements(g, 2);
  g->reading--;
  barrier(g);
}

/* Writes a loop of phases. */
static void rounds(gen *g, int depth) {
  const int outer = g->counter, id = g->loop_id++;
  line(g);
  say(g, "for (int j%d = 0; j%d < ", id, id);
  if (pick(g, 3)) say(g, "%d", 1 + pick(g, is_private(g) ? WIDTH : 6));
  else say(g, "m - %d", 1 + pick(g, 3));
  say(g, "; ++j%d) {", id);
  g->counter = id;
  g->w.indent++;
  for (int k = 1 + pick(g, 2); k > 0; k--) {
    if (depth > 0 && pick(g, 4) == 0) rounds(g, depth - 1);
    else if (pick(g, 2)) tile(g);
    else phase(g);
  }
  g->w.indent--;
  line(g);
  say(g, "}");
  g->counter = outer;
}

/* ---- the program ----------------------------------------------------------------------------- */

static void members(gen *g, const char *size) {
  say(g, "struct P { double ");
  for (int k = 0; k < g->parts; k++) say(g, "%sf%d%s", k ? ", " : "", k, size);
  say(g, "; };\n");
}

static int size_of_array(const gen *g) { return WIDTH * g->parts; }

/* Writes the declaration of the array, as 's' or 's0', 's1' … */
static void array(gen *g) {
  static const char *const where[] = {"__shared__ double", "extern __shared__ double", "double"};
  const int n = size_of_array(g);
  line(g);
  if (g->place >= GLOBAL_ROW && g->layout == ROWS)
    say(g, "double (*s)[%d] = (double (*)[%d])(z + %d * %s);", WIDTH, WIDTH, n,
        g->place == GLOBAL_ROW ? "i" : "blockIdx.x");
  else if (g->place == GLOBAL_ROW)
    say(g, "double *%s = z + %d * i;", g->layout == POINTERS ? "s0" : "s", n);
  else if (g->place == GLOBAL_BLOCK)
    say(g, "double *%s = z + %d * blockIdx.x;", g->layout == POINTERS ? "s0" : "s", n);
  else if (g->layout == RECORDS)
    say(g, "%sstruct P s[%d];", g->place == STATIC ? "__shared__ " : "", WIDTH);
  else if (g->layout == MEMBERS) say(g, "%sstruct P s;", g->place == STATIC ? "__shared__ " : "");
  else if (g->layout == ROWS) say(g, "%s s[%d][%d];", where[g->place], g->parts, WIDTH);
  else if (g->place == DYNAMIC) say(g, "%s s[];", where[g->place]);
  else say(g, "%s s[%d];", where[g->place], n);
  if (g->layout != POINTERS) return;
  line(g);
  say(g, "double ");
  const int global = g->place >= GLOBAL_ROW;
  for (int k = global; k < g->parts; k++) {
    if (k > 1 && pick(g, 2)) say(g, "%s*s%d = s%d + %d", k > global ? ", " : "", k, k - 1, WIDTH);
    else say(g, "%s*s%d = %s + %d", k > global ? ", " : "", k, global ? "s0" : "s", WIDTH * k);
  }
  say(g, ";");
}

static void choose(gen *g) {
  g->parts = 2 + pick(g, 3);
  g->place = pick(g, 2) ? pick(g, 2) : pick(g, PLACES);
  g->layout = pick(g, LAYOUTS);
  if (g->place >= GLOBAL_ROW && g->layout > POINTERS) g->layout = FLAT;
  if (g->place == DYNAMIC && (g->layout == ROWS || g->layout > POINTERS)) g->layout = FLAT;
  g->fresh = g->place >= GLOBAL_ROW && pick(g, 2);
  g->counter = -1;
  g->budget = 6 + pick(g, 14);
}

/* Writes statements that fill all parts, unless the array is an argument that has values. */
static void fill_parts(gen *g) {
  if (g->place >= GLOBAL_ROW && !g->fresh) return;
  for (int k = 0; k < g->parts; k++) {
    line(g);
    if (is_private(g)) say(g, "for (int k = 0; k < %d; ++k) ", WIDTH);
    element(g, k, is_private(g) ? "k" : "t");
    say(g, k % 2 ? " = 0.5 * x[i] + w[%d];" : " = w[%d] * x[i];", k);
  }
  barrier(g);
}

static void program(gen *g) {
  choose(g);
  if (g->layout == RECORDS) members(g, "");
  if (g->layout == MEMBERS) members(g, "[4]");
  say(g, "__global__ void k(const double *x, const double *w, double *y, double *z, const int *b, int m) {");
  g->w.indent = 1;
  line(g);
  say(g, "int t = threadIdx.x, i = blockIdx.x * %d + t, e = %d;", WIDTH, pick(g, 2));
  array(g);
  line(g);
  say(g, "double v0 = x[i], v1 = w[t], v2 = 0.3;");
  fill_parts(g);
  for (int k = 2 + pick(g, 3); k > 0; k--) {
    if (pick(g, 2)) rounds(g, 1); else phase(g);
  }
  g->written = 0;
  g->once = 0;
  line(g);
  say(g, "y[i] = v0 + v1 * v2");
  for (int k = pick(g, 3); k > 0; k--) say(g, " + "), read_element(g);
  say(g, ";\n}\n");
}

/* ---- the launch ------------------------------------------------------------------------------ */

static void launch(gen *g, problem *p) {
  static const int slots[] = {0, 16, 64};
  p->slot_bytes = slots[pick(g, 3)];
  p->deterministic = pick(g, 2);
  p->shared = g->place == DYNAMIC ? 8 * size_of_array(g) : 0;
  p->grid[0] = BLOCKS;
  p->block[0] = WIDTH;
  give(p, &g->w.r, "d%di d4i d%doz d%d%s i%d=1%%4 I=%d", WIDTH * BLOCKS, WIDTH * BLOCKS,
       WIDTH * BLOCKS * (int)size_of_array(g), g->fresh ? "oz" : "io", WIDTH, WIDTH);
}

static const fuzzer fuzz = {"parts_fuzz", 0x2468ace, sizeof(gen), program, launch, 0, NULL, NULL};

int main(int argc, char **argv) { return fuzz_main(&fuzz, argc, argv); }
