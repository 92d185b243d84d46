/*
** Does a source ask for something of the library? Its text is read only then: most kernels are
** parsed in less time than the library is.
*/
#include "kernel/library.h"
#include <ctype.h>
#include <string.h>

extern const char fl_klibrary_text[];        /* kernel/library.cu, embedded */

static int is_letter(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* Is a function defined at s? On the line of a definition no '(' stands before its name, and
** the rows of macros name what they define. */
static int is_definition(const char *s) {
  const char *line = s;
  while (line > fl_klibrary_text && line[-1] != '\n') line--;
  while (*line == ' ') line++;
  if (!strncmp(line, "REDUCE(", 7) || !strncmp(line, "PAIR", 4)) return 1;
  return !strncmp(line, "__device__ ", 11) && !memchr(line, '(', (size_t)(s - line));
}

static int is_defined(const fl_ktok *t) {
  char name[40];
  if (t->n < 4 || t->n >= (int32_t)sizeof name) return 0;
  memcpy(name, t->text, (size_t)t->n);
  name[t->n] = 0;
  for (const char *s = fl_klibrary_text; (s = strstr(s, name)) != NULL; s += t->n)
    if (!is_letter(s[t->n]) && !is_letter(s[-1]) && is_definition(s)) return 1;
  return 0;
}

static int is_asked(const fl_ktoks *toks) {
  static const char *const types[] = { "half2", "__half2", "nv_bfloat162", "__nv_bfloat162" };
  for (int64_t i = 0; i + 1 < toks->n; i++) {
    const fl_ktok *t = &toks->at[i];
    if (t->kind != FL_TOK_NAME) continue;
    for (int k = 0; k < 4; k++)
      if (fl_ktok_is(t, types[k])) return 1;
    if (t[1].kind == FL_TOK_PUNCT && t[1].punct == '(' && is_defined(t)) return 1;
  }
  return 0;
}

int fl_klibrary_add(fl_karena *a, fl_ktoks *toks) {
  fl_ktoks lib = { NULL, 0, 0 };
  if (!is_asked(toks)) return 1;
  int ok = fl_kpreprocess(a, fl_klibrary_text, strlen(fl_klibrary_text), "", &lib);
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
