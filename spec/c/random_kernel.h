/*
** What the generators of random kernels (kernel_fuzz.c, parts_fuzz.c, forms_fuzz.c, stencil_fuzz.c,
** still_fuzz.c) share: functions that write text, and the loop over seeds. Each program is checked
** by kernel_problem.h. For every fifth program a derived kernel is differentiated and checked too:
** the adjoint for every third seed, the tangent for the others and where the adjoint is refused.
**
** X_fuzz [programs [seed [list]]]: prints the seed and source of each failure; with "list" the
** result of each seed, and of a single one the source. One program alone: X_fuzz 1 <its seed>.
*/
#ifndef RANDOM_KERNEL_H
#define RANDOM_KERNEL_H
#include "kernel_case.h"

/* ---- writing --------------------------------------------------------------------------------- */

typedef struct gen gen;          /* a generator's state, a struct whose first member is a writer */
typedef struct writer {
  uint64_t r;
  char text[65536];
  size_t n;
  int indent;
} writer;

static inline int pick(gen *g, int n) { return (int)(next_random(&((writer *)g)->r) >> 33) % n; }

static inline void say(gen *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static inline void say(gen *g, const char *fmt, ...) {
  writer *w = (writer *)g;
  va_list list;
  va_start(list, fmt);
  const int k = vsnprintf(w->text + w->n, sizeof w->text - w->n, fmt, list);
  va_end(list);
  if (k > 0 && w->n + (size_t)k < sizeof w->text) w->n += (size_t)k;
}

static inline void line(gen *g) {
  say(g, "\n%*s", 2 * ((const writer *)g)->indent, "");
}

/* Adds the problem's arguments: fmt gives a list of words as in kernel_case.h. */
static inline void give(problem *p, uint64_t *seed, const char *fmt, ...)
  __attribute__((format(printf, 3, 4)));
static inline void give(problem *p, uint64_t *seed, const char *fmt, ...) {
  char text[200];
  va_list list;
  va_start(list, fmt);
  vsnprintf(text, sizeof text, fmt, list);
  va_end(list);
  parse_args(p, text, seed);
}

/* ---- proving --------------------------------------------------------------------------------- */

typedef struct fuzzer {
  const char *name;
  uint64_t salt;                /* mixed into the seed: generators get different numbers */
  size_t bytes;                  /* of its gen */
  void (*program)(gen *);
  void (*launch)(gen *, problem *);      /* sets arguments, grid, block and options of the check */
  int gathered;       /* in 1 of n programs or more, sums must become gathers; 0: no demand */
  const char *(*twin)(const gen *);      /* gives the text of another kernel, which must write the
                                         ** same results as the program; NULL: there is none */
  const char *(*formed)(const gen *);    /* what is known of its arguments (kernel_case.h) */
} fuzzer;

typedef struct tally {
  const fuzzer *f;
  uint64_t seed;
  int good, rough, refused, gathered, second, second_refused, bad, list;
} tally;

static inline void fault(tally *t, const char *what, const char *why, const gen *g) {
  t->bad++;
  printf("%s: seed %llu%s: %s\n%s\n", t->f->name, (unsigned long long)t->seed, what, why,
         ((const writer *)g)->text);
}

/* Prints the result of a check of 'p' if results are listed; counts and prints it as a fault if it
** is 0 (wrong). 'what' names what was checked. */
static inline void count(tally *t, int result, const problem *p, const gen *g, const char *what) {
  char why[sizeof p->why + 100];
  snprintf(why, sizeof why, "%s\n(%u %u %u) x (%u %u %u), %s", p->why, p->grid[0], p->grid[1],
           p->grid[2], p->block[0], p->block[1], p->block[2],
           p->deterministic ? "in order" : "in any order");
  if (t->list)
    printf("%llu%s %s %s\n", (unsigned long long)t->seed, what,
           result == -1 ? "refused" : result ? "right" : "wrong", result == -1 ? p->why : "");
  if (!result) fault(t, what, why, g);
}

/* Checks the derivatives of the adjoint (reverse = 1) or tangent kernel; 0 if they are refused. */
static inline int prove_derived(tally *t, problem *p, const gen *g, int reverse) {
  const char *what = reverse ? " (adjoint derived)" : " (tangent derived)";
  problem q;
  if (!derive_problem(p, reverse, t->seed, &q)) {
    count(t, 0, p, g, what);
    return 1;
  }
  const int result = check_derivatives(&q, 1, t->seed + 2);
  t->second += result == 1;
  t->second_refused += result == -1;
  count(t, result, &q, g, what);
  free_args(q.arg, q.n);
  return result != -1;
}

static inline void prove(tally *t, fl_mem *m, fl_ksource *s, gen *g, int second) {
  problem p = {.f = s->kernels[0], .mem = m, .arena = &s->arena, .races = 1,
               .grid = {1, 1, 1}, .block = {1, 1, 1}};
  t->f->launch(g, &p);
  const int result = check_derivatives(&p, 1, t->seed + 1);
  t->good += result == 1;
  t->rough += result == -2;
  t->refused += result == -1;
  t->gathered += p.gathered > 0;
  count(t, result, &p, g, "");
  if (result == 1 && second && p.loose == 0)
    if (t->seed % 3 || !prove_derived(t, &p, g, 1)) prove_derived(t, &p, g, 0);
  free_args(p.arg, p.n);
}

/* 1 if the twin kernel 'other' writes the same bytes to all arguments. */
static inline int same_values(problem *p, const fl_kfunc *other) {
  argument a[MAX_ARGS] = {{0}}, b[MAX_ARGS] = {{0}};
  copy_args(p, a);
  copy_args(p, b);
  int same = run_args(p, p->f, a, p->n, p->shared) && run_args(p, other, b, p->n, p->shared);
  for (int i = 0; i < p->n && same; i++) {
    same = !memcmp(a[i].at, b[i].at, (size_t)(a[i].n * size_of(a[i].type)));
    if (!same) snprintf(p->why, sizeof p->why, "the twin has other values of argument %d", i + 1);
  }
  free_args(a, p->n);
  free_args(b, p->n);
  return same;
}

static inline void prove_twin(tally *t, fl_mem *m, const fl_ksource *s, gen *g, uint64_t r) {
  const char *text = t->f->twin(g), *why;
  fl_ksource *o = read_kernel(m, text, &why);
  problem p = {.f = s->kernels[0], .mem = m, .races = 1, .grid = {1, 1, 1}, .block = {1, 1, 1}};
  ((writer *)g)->r = r;
  t->f->launch(g, &p);
  if (why) fault(t, " (twin)", why, g);
  else if (o->kernels[0]->n_params != p.n || p.f->n_params != p.n)
    fault(t, " (twin)", "numbers of parameters", g);
  else count(t, same_values(&p, o->kernels[0]), &p, g, " (twin)");
  free_args(p.arg, p.n);
  fl_ksource_free(o);
}

static inline void one_program(tally *t, int second, int show) {
  fl_mem m = {0};
  gen *g = calloc(1, t->f->bytes);
  writer *w = (writer *)g;
  const char *why;
  w->r = t->seed * 0x9e3779b97f4a7c15u + t->f->salt;
  for (int k = 0; k < 5; k++) next_random(&w->r);
  t->f->program(g);
  if (show) puts(w->text);
  fl_ksource *s = read_formed(&m, w->text, t->f->formed ? t->f->formed(g) : NULL, &why);
  const uint64_t r = w->r;
  if (why) fault(t, "", why, g);
  else prove(t, &m, s, g, second);
  if (!why && t->f->twin) prove_twin(t, &m, s, g, r);
  fl_ksource_free(s);
  if (m.live_bytes) fault(t, "", "memory is left", g);
  free(g);
}

static inline int fuzz_main(const fuzzer *f, int argc, char **argv) {
  const int n = argc > 1 ? atoi(argv[1]) : 200;
  const uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  tally t = {.f = f, .list = argc > 3};
  for (int i = 0; i < n; i++) {
    t.seed = seed + (uint64_t)i;
    one_program(&t, i % 5 == 0, t.list && n == 1);
  }
  if (f->gathered && n > 100 && t.gathered < n / f->gathered)
    printf("%s: only %d programs were gathered\n", f->name, t.gathered), t.bad++;
  printf("%s: %d passed, %d failed (%d gathered, %d of reverse against forward only, %d refused, "
         "%d twice derived, %d of those refused)\n", f->name, t.good + t.rough, t.bad, t.gathered,
         t.rough, t.refused, t.second, t.second_refused);
  return t.bad != 0;
}
#endif
