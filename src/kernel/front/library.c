/*
** Which parts of the library (library.h) does a source use? Only these are parsed, since that takes
** longer than parsing most kernels.
*/
#include "kernel/front/library.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

extern const char fl_klibrary_text[];        /* kernel/front/library.cu, embedded */
extern const char fl_kstd_text[];            /* kernel/front/std.cu, embedded */
extern const char fl_kptx_text[];            /* kernel/front/ptx.cu, embedded */
extern const char fl_kcub_text[];            /* kernel/front/cub.cu, embedded */
extern const char fl_kglm_text[];            /* kernel/front/glm.cu, embedded */
extern const char fl_ktorch_text[];          /* kernel/front/torch.cu, embedded */
extern const char fl_kwmma_text[];           /* kernel/front/wmma.cu, embedded */
extern const char fl_kcomplex_text[];        /* kernel/front/complex.cu, embedded */

static int is_letter(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* Is s, a name in the library's text, the name of a function that is defined there? A definition is
** a line that begins with __device__ and has no '(' before the name, or a row of a macro that
** defines functions (REDUCE, PAIR1, PAIR2, FL_WARP). */
static int is_definition(const char *s) {
  const char *line = s;
  while (line > fl_klibrary_text && line[-1] != '\n') line--;
  while (*line == ' ') line++;
  if (!strncmp(line, "REDUCE(", 7) || !strncmp(line, "PAIR", 4) || !strncmp(line, "FL_WARP(", 8))
    return 1;
  return !strncmp(line, "__device__ ", 11) && !memchr(line, '(', (size_t)(s - line));
}

static int is_defined(const fl_ktok *t) {
  char name[40];
  if (t->n < 4 || t->n >= (int32_t)sizeof name) return 0;
  memcpy(name, t->text, (size_t)t->n);
  name[t->n] = 0;
  for (const char *s = fl_klibrary_text; (s = strstr(s, name)) != NULL; s += t->n)
    if (s > fl_klibrary_text && !is_letter(s[t->n]) && !is_letter(s[-1]) && is_definition(s))
      return 1;
  return 0;
}

/* ---- cooperative groups, CUB, GLM, PyTorch, wmma: their names become names of the library ---- */

typedef struct space { fl_ktok name; struct space *next; } space;  /* a list of names */
typedef struct groups {
  fl_karena *a;
  const char *own, *prefix, *text;   /* the namespace (of PyTorch also "at"), the prefix of the
                                     ** library's names for it, and the text that defines those */
  space *first;                      /* names in the source that stand for the namespace */
  space *named;                      /* names in it that "using own::name;" gives the source */
  int open;                          /* "using namespace" of it was read */
} groups;

static int is_among(const space *s, const fl_ktok *t) {
  for (; s; s = s->next)
    if (t->kind == FL_TOK_NAME && t->n == s->name.n &&
        !memcmp(t->text, s->name.text, (size_t)t->n)) return 1;
  return 0;
}

static int is_space(const groups *g, const fl_ktok *t) {
  if (t->kind != FL_TOK_NAME) return 0;
  const int torch = g->text == fl_ktorch_text;
  return fl_ktok_is(t, g->own) || (torch && (fl_ktok_is(t, "at") || fl_ktok_is(t, "c10"))) ||
         is_among(g->first, t);
}

/* The library's name for a name of the namespace; NULL: it has none. A row CHOICE(NAME, E) of the
** library defines one as well. */
static const char *own_name(const groups *g, const fl_ktok *t) {
  char name[56], made[56];
  if (t->kind != FL_TOK_NAME || t->n > 40) return NULL;
  const int n = snprintf(name, sizeof name, "%s%.*s", g->prefix, (int)t->n, t->text);
  for (const char *s = g->text; (s = strstr(s, name)) != NULL; s += n)
    if (!is_letter(s[n])) return fl_karena_str(g->a, name, (size_t)n);
  snprintf(made, sizeof made, "CHOICE(%.*s,", (int)t->n, t->text);
  return strstr(g->text, made) ? fl_karena_str(g->a, name, (size_t)n) : NULL;
}

static void note(const groups *g, space **to, const fl_ktok *name) {
  space *s = fl_karena_new(g->a, sizeof *s);
  if (!s) return;
  *s = (space){ *name, *to };
  *to = s;
}

/* The number of tokens of "namespace a = own;", "using namespace a;" or "using a::name;" at t,
** which is noted in g; 0: it is none of these. left: how many tokens there are from t on. */
static int declares(groups *g, const fl_ktok *t, int64_t left) {
  if (left > 4 && fl_ktok_is(t, "namespace") && fl_is_punct(t + 2, '=') && is_space(g, t + 3) &&
      fl_is_punct(t + 4, ';')) {
    note(g, &g->first, t + 1);
    return 5;
  }
  if (left > 4 && fl_ktok_is(t, "using") && is_space(g, t + 1) &&
      fl_is_punct(t + 2, FL_PU_SCOPE) && fl_is_punct(t + 4, ';') && own_name(g, t + 3)) {
    note(g, &g->named, t + 3);
    return 5;
  }
  const int opens = left > 3 && fl_ktok_is(t, "using") && fl_ktok_is(t + 1, "namespace") &&
                    is_space(g, t + 2);
  g->open |= opens && fl_is_punct(t + 3, ';');
  return opens && fl_is_punct(t + 3, ';') ? 4 : 0;
}

/* The number of tokens of "own::" before a name at t, with those of the namespaces inside PyTorch's
** that are left out; 0: it is none. left: how many tokens there are from t on. */
static int prefix_of(const groups *g, const fl_ktok *t, int64_t left) {
  static const char *const inside[] = { "cuda", "native", "detail" };
  int n = left > 2 && is_space(g, t) && fl_is_punct(t + 1, FL_PU_SCOPE) ? 2 : 0;
  while (n && g->text == fl_ktorch_text && left > n + 2 && fl_ktok_among(t + n, inside, 3) >= 0 &&
         fl_is_punct(t + n + 1, FL_PU_SCOPE))
    n += 2;
  return n;
}

/* Replaces names of the namespace 'own' with the library's (prefix, text: as in 'groups'). 1: the
** source names the namespace; for PyTorch, which host code names too, 1 only if a name was
** replaced. */
static int name_groups(fl_karena *a, const char *own, const char *prefix, const char *text,
                       fl_ktoks *toks) {
  groups g = { .a = a, .own = own, .prefix = prefix, .text = text };
  int64_t n = 0;
  int found = 0, replaced = 0;
  for (int64_t i = 0; i < toks->n && !found; i++) found = is_space(&g, &toks->at[i]);
  if (!found) return 0;
  for (int64_t i = 0; i < toks->n; n++) {
    const fl_ktok *t = &toks->at[i];
    const int64_t left = toks->n - i;
    const int skipped = declares(&g, t, left), last = n ? toks->at[n - 1].punct : 0;
    if (skipped) { i += skipped; n--; continue; }
    const int behind = prefix_of(&g, t, left);
    const int member = n && toks->at[n - 1].kind == FL_TOK_PUNCT &&
                       (last == '.' || last == FL_PU_ARROW || last == FL_PU_SCOPE);
    const int opened = (g.open || is_among(g.named, t)) && !member;
    const char *name = behind ? own_name(&g, t + behind) : opened ? own_name(&g, t) : NULL;
    toks->at[n] = behind && name ? t[behind] : *t;
    replaced |= name != NULL;
    if (name) toks->at[n].text = name, toks->at[n].n = (int32_t)strlen(name);
    i += behind && name ? behind + 1 : 1;
  }
  toks->n = n;
  return replaced || text != fl_ktorch_text;
}

static int is_asked(const fl_ktoks *toks) {
  static const char *const types[] = { "half2", "__half2", "nv_bfloat162", "__nv_bfloat162" };
  for (int64_t i = 0; i + 1 < toks->n; i++) {
    const fl_ktok *t = &toks->at[i];
    if (t->kind != FL_TOK_NAME) continue;
    if (fl_ktok_among(t, types, 4) >= 0) return 1;
    if (fl_is_punct(t + 1, '(') && is_defined(t)) return 1;
  }
  return 0;
}

/* ---- namespace std ---- */

enum { STD_NAME = 24 };      /* bytes of the longest name that std.cu has, or more */

/* Copies the name behind "std::" at token i, if std.cu defines it or it ends in "_v"; 0: there is
** none. min and max without an argument in <…> are CUDA's. */
static int name_of_std(const fl_ktoks *toks, int64_t i, char name[STD_NAME + 1]) {
  const fl_ktok *t = &toks->at[i + 2];
  if (!fl_ktok_is(&toks->at[i], "std") || !fl_is_punct(t - 1, FL_PU_SCOPE) ||
      t->kind != FL_TOK_NAME || t->n > STD_NAME)
    return 0;
  const int plain = fl_ktok_is(t, "min") || fl_ktok_is(t, "max");
  const int n = snprintf(name, STD_NAME + 1, "%.*s", (int)t->n, t->text);
  const char *s = strstr(fl_kstd_text, name);
  while (s && (is_letter(s[n]) || is_letter(s[-1]))) s = strstr(s + n, name);
  const int value = n > 2 && !strcmp(name + n - 2, "_v");
  return (s || value) && !(plain && !fl_is_punct(t + 1, '<'));
}

/* "#define FL_STD_name" once for each such name; NULL: there are none, or no memory. */
static const char *asked_of_std(fl_karena *a, const fl_ktoks *toks) {
  char name[STD_NAME + 1], line[STD_NAME + 20];
  size_t most = 1, n = 0;
  for (int64_t i = 0; i + 3 < toks->n; i++)
    most += name_of_std(toks, i, name) ? sizeof line : 0;
  char *asked = most > 1 ? fl_karena_new(a, most) : NULL;
  for (int64_t i = 0; asked && i + 3 < toks->n; i++) {
    if (!name_of_std(toks, i, name)) continue;
    const int m = snprintf(line, sizeof line, "#define FL_STD_%s\n", name);
    if (!strstr(asked, line)) memcpy(asked + n, line, (size_t)m + 1), n += (size_t)m;
  }
  return asked;
}

/* Puts the tokens of 'text', preprocessed after the directives 'given', before 'toks', with line
** number 0. 0: no memory, or a wrong text. */
static int put_before(fl_karena *a, const char *text, const char *given, fl_ktoks *toks) {
  fl_ktoks lib = { NULL, 0, 0 };
  int ok = fl_kpreprocess(a, text, strlen(text), given, NULL, &lib);
  if (ok && lib.n > 1) {
    const int64_t n = lib.n - 1;                      /* without its END */
    ok = FL_RESERVE(a->mem, toks, toks->n + n) != 0;
    if (ok) {
      memmove(toks->at + n, toks->at, (size_t)toks->n * sizeof *toks->at);
      memcpy(toks->at, lib.at, (size_t)n * sizeof *toks->at);
      for (int64_t i = 0; i < n; i++) toks->at[i].line = 0;
      toks->n += n;
    } else {
      a->failed = 1;
    }
  }
  FL_DROP(a->mem, &lib);
  return ok;
}

/* Turns "cuda::std::" into "std::", and "thrust::" too before a name in 'thrusts'. */
static void drop_cuda(fl_ktoks *toks) {
  static const char *const thrusts[] = { "tuple", "make_tuple", "get", "pair", "make_pair", "plus",
                                         "multiplies", "swap", "complex", "norm", "abs", "arg",
                                         "conj", "polar", "exp" };
  int64_t n = 0;
  for (int64_t i = 0; i < toks->n; i++, n++) {
    fl_ktok *t = &toks->at[i];
    const int scoped = i + 2 < toks->n && fl_is_punct(t + 1, FL_PU_SCOPE);
    if (scoped && fl_ktok_is(t, "thrust") &&
        fl_ktok_among(t + 2, thrusts, sizeof thrusts / sizeof *thrusts) >= 0)
      t->text = "std", t->n = 3;
    if (scoped && fl_ktok_is(t, "cuda") && fl_ktok_is(t + 2, "std")) i += 2;
    toks->at[n] = toks->at[i];
  }
  toks->n = n;
}

/* ---- complex numbers ---- */

/* Does token i declare its name: "struct cuComplex", "typedef … cuComplex;" or "cuComplex =", but
** not "using c = cuComplex;"? */
static int declares_type(const fl_ktoks *toks, int64_t i) {
  const fl_ktok *t = &toks->at[i];
  if (fl_is_punct(t + 1, '=')) return 1;
  if (fl_is_punct(t + 1, ';')) return i && !fl_is_punct(t - 1, '=');
  return i && (fl_ktok_is(t - 1, "struct") || fl_ktok_is(t - 1, "class"));
}

/* Does the source use types of <cuComplex.h> or <cufft.h>, and declare none of these itself? A
** source that has its own, as many have, has its own functions for them, too. */
static int asks_complex(const fl_ktoks *toks) {
  static const char *const types[] = {
    "cuComplex", "cuFloatComplex", "cuDoubleComplex", "cufftComplex", "cufftDoubleComplex",
    "cufftReal", "cufftDoubleReal" };
  int asked = 0;
  for (int64_t i = 0; i + 1 < toks->n; i++) {
    if (fl_ktok_among(&toks->at[i], types, sizeof types / sizeof *types) < 0) continue;
    if (declares_type(toks, i)) return 0;
    asked = 1;
  }
  return asked;
}

/* Drops "nvcuda::" and "using namespace nvcuda;". 1: there were some. */
static int drop_nvcuda(fl_ktoks *toks) {
  int64_t n = 0;
  int found = 0;
  for (int64_t i = 0; i < toks->n; i++) {
    const fl_ktok *t = &toks->at[i];
    const int64_t left = toks->n - i;
    const int opens = left > 3 && fl_ktok_is(t, "using") && fl_ktok_is(t + 1, "namespace") &&
                      fl_ktok_is(t + 2, "nvcuda") && fl_is_punct(t + 3, ';');
    const int inside = left > 2 && fl_ktok_is(t, "nvcuda") && fl_is_punct(t + 1, FL_PU_SCOPE);
    found |= opens || inside;
    if (opens) i += 3;
    else if (inside) i++;
    else toks->at[n++] = *t;
  }
  toks->n = n;
  return found;
}

int fl_klibrary_add(fl_karena *a, fl_ktoks *toks) {
  if (!fl_kliteral_arrays(a, toks)) return 0;
  drop_cuda(toks);
  const int wmma = drop_nvcuda(toks) && name_groups(a, "wmma", "fl_wmma_", fl_kwmma_text, toks);
  if (fl_kptx_replace(a, toks) && !put_before(a, fl_kptx_text, "", toks)) return 0;
  const char *of_std = asked_of_std(a, toks);
  const int grouped = name_groups(a, "cooperative_groups", "fl_cg_", fl_klibrary_text, toks),
            cub = name_groups(a, "cub", "fl_cub_", fl_kcub_text, toks),
            glm = name_groups(a, "glm", "fl_glm_", fl_kglm_text, toks),
            torch = name_groups(a, "torch", "fl_torch_", fl_ktorch_text, toks);
  if (of_std && !put_before(a, fl_kstd_text, of_std, toks)) return 0;
  if (cub && !put_before(a, fl_kcub_text, "", toks)) return 0;
  if (glm && !put_before(a, fl_kglm_text, "", toks)) return 0;
  if (torch && !put_before(a, fl_ktorch_text, "", toks)) return 0;
  if (asks_complex(toks) && !put_before(a, fl_kcomplex_text, "", toks)) return 0;
  if (wmma && !put_before(a, fl_kwmma_text, "", toks)) return 0;
  if (!grouped && !cub && !wmma && !is_asked(toks)) return !a->failed;
  return put_before(a, fl_klibrary_text, grouped ? "#define FL_GROUPS\n" : "", toks);
}
