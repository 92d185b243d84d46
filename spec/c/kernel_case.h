/*
** Reads a test case (kernel_problem.h) from text: source, arguments, launch.
**
** One word per argument, in the order of the signature: dN an array of N doubles (fN floats, hN
** halves: reverse is compared with forward mode only), iN of N ints; D double, F float, I int, BN a
** struct of N doubles. Values of ints: "=9" is 9, "%4" 0 to 3, "=1%4" 1 to 4. Then letters: i
** differentiate with respect to it, o output, z zeros. Floats are in (-1, 1), with p in (0.2, 1.2).
*/
#ifndef KERNEL_CASE_H
#define KERNEL_CASE_H
#include "kernel_problem.h"
#include <stdarg.h>

/* Parses 'text'. formed: NULL, or what is known of the arguments, such as "bias=0," for a null
** pointer (kernel/front/source.h). *why: why the first kernel cannot run; NULL if it can. */
static inline fl_ksource *read_formed(fl_mem *m, const char *text, const char *formed,
                                      const char **why) {
  fl_error e = {0};
  fl_ksource *s = fl_ksource_parse_until(m, &e, text, strlen(text), NULL, 0, NULL, formed, NULL);
  const fl_kfunc *f = s && !s->error && s->n_kernels ? s->kernels[0] : NULL;
  *why = !s ? "no memory" : s->error ? s->error : !f ? "no kernel"
       : f->has_body ? NULL : fl_ksource_refusal(s, f);
  return s;
}

static inline fl_ksource *read_kernel(fl_mem *m, const char *text, const char **why) {
  return read_formed(m, text, NULL, why);
}

static inline void fill(argument *a, const char *flags, uint64_t *seed, int64_t from, int64_t mod) {
  const int positive = strchr(flags, 'p') != NULL;
  for (int64_t e = 0; e < a->n; e++) {
    double v = uniform(seed);
    if (fl_kt_is_int(a->type))
      v = (double)(from + (mod ? (int64_t)(next_random(seed) >> 20) % mod : 0));
    else if (positive) v = 0.7 + v / 2;
    if (strchr(flags, 'z')) v = 0;
    put(a->type, a->at + e * size_of(a->type), v);
  }
}

/* Reads the word of one argument, makes the argument with random values, and moves *text on. */
static inline void parse_argument(problem *p, const char **text, uint64_t *seed) {
  char word[64], *rest;
  size_t k = strcspn(*text, " ");
  snprintf(word, sizeof word, "%.*s", (int)k, *text);
  *text += k + strspn(*text + k, " ");
  argument *a = &p->arg[p->n++];
  const char c = word[0];
  a->type = strchr("dDB", c) ? FL_KT_F64 : strchr("fF", c) ? FL_KT_F32
          : c == 'h' ? FL_KT_F16 : FL_KT_I32;
  a->pointer = c == 'd' || c == 'i' || c == 'f' || c == 'h';
  if (c == 'f' && p->loose < 1e-5) p->loose = 1e-5;
  if (c == 'h') p->loose = 5e-3;
  a->n = a->pointer || c == 'B' ? strtoll(word + 1, &rest, 10) : (rest = word + 1, 1);
  const int64_t from = *rest == '=' ? strtoll(rest + 1, &rest, 10) : 0;
  const int64_t mod = *rest == '%' ? strtoll(rest + 1, &rest, 10) : 0;
  a->at = fresh(a->n * 8);
  fill(a, rest, seed, from, mod);
  a->want = (strchr(rest, 'i') ? FL_KAD_INPUT : 0) | (strchr(rest, 'o') ? FL_KAD_OUTPUT : 0);
  if (strchr(rest, 'z') && !(a->want & FL_KAD_INPUT)) a->want |= FL_KAD_FRESH;
  if (c == 'B') a->type = FL_KT_VOID, a->n *= 8;
}

static inline void parse_args(problem *p, const char *text, uint64_t *seed) {
  while (*text) parse_argument(p, &text, seed);
}
#endif
