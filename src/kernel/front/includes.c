/* Preprocessor directives that name files (includes.h). */
#include "kernel/front/includes.h"
#include <ctype.h>
#include <string.h>

/* ---- which headers --------------------------------------------------------------------------- */

/* Headers of the toolkit. A name that ends in '/' is a folder: all headers in it are allowed. */
static const char *const headers[] = {
  "stdint.h", "math.h", "float.h", "limits.h", "stdio.h", "stdlib.h", "stddef.h", "assert.h",
  "stdbool.h", "string.h", "cstdint", "cmath", "cfloat", "climits", "cstdio", "cstdlib", "cstddef",
  "cassert", "cstring", "limits", "type_traits", "utility", "algorithm", "array", "tuple",
  "functional", "numeric", "initializer_list", "cuda.h", "cuda_runtime.h", "cuda_runtime_api.h",
  "device_launch_parameters.h", "device_functions.h", "device_atomic_functions.h", "cuda_fp16.h",
  "cuda_fp16.hpp", "cuda_bf16.h", "cuda_bf16.hpp", "cuda_fp8.h", "cuda_fp8.hpp", "cuda_fp6.h",
  "cuda_fp4.h", "cuda_pipeline.h", "cuda_pipeline_primitives.h", "cuda_awbarrier.h",
  "cuda_awbarrier_primitives.h", "cuComplex.h", "math_constants.h", "math_functions.h",
  "vector_types.h", "vector_functions.h", "builtin_types.h", "crt/mma.h", "mma.h",
  "cooperative_groups.h", "cooperative_groups/", "curand_kernel.h", "curand_mtgp32_kernel.h",
  "curand_philox4x32_x.h", "cuda/", "cub/", "thrust/", "nv/target", "sm_20_intrinsics.h",
  "sm_30_intrinsics.h", "texture_types.h", "surface_types.h", "texture_indirect_functions.h",
  "surface_indirect_functions.h" };

/* Is s a path of words of letters, digits, '_' and '-' separated by '/', shorter than 200 bytes,
** the last word perhaps with an extension? */
int fl_kincludes_plain(const char *s, size_t n) {
  int dots = 0;
  for (size_t i = 0; i < n; i++) {
    const int word = isalnum((unsigned char)s[i]) || s[i] == '_' || s[i] == '-';
    if (dots && s[i] == '/') return 0;
    dots += s[i] == '.';
    if (!word && !(s[i] == '/' && i && s[i - 1] != '/') &&
        !(s[i] == '.' && i && isalnum((unsigned char)s[i - 1])))
      return 0;
  }
  return n > 0 && n < 200 && dots <= 1;
}

/* Headers in cuda/ have no extension: a project has its own files in such a folder. */
int fl_kincludes_known(const char *name, size_t n) {
  if (n > 5 && !memcmp(name, "cuda/", 5) && memchr(name, '.', n)) return 0;
  for (size_t i = 0; fl_kincludes_plain(name, n) && i < sizeof headers / sizeof *headers; i++) {
    const size_t m = strlen(headers[i]);
    if (headers[i][m - 1] == '/' ? n > m && !memcmp(name, headers[i], m)
                                 : n == m && !memcmp(name, headers[i], m))
      return 1;
  }
  return 0;
}

/* ---- logical lines --------------------------------------------------------------------------- */

static int is_blank(char c) { return c == ' ' || c == '\t' || c == '\v' || c == '\f'; }

/* Does the text so far end in a backslash (or its trigraph) and blanks? Then they are removed: the
** newline after them is a line splice. The backslash may be left by an earlier splice, as in two
** backslashes before two newlines. */
static int take_backslash(fl_text *t) {
  size_t n = t->n;
  while (n && is_blank(t->at[n - 1])) n--;
  if (n && t->at[n - 1] == '\\') n--;
  else if (n > 2 && !memcmp(t->at + n - 3, "?\?/", 3)) n -= 3;
  else return 0;
  t->n = n;
  return 1;
}

/* Writes the text without line splices (backslash, newline); their newlines are moved to the end of
** the logical line. */
static void put_joined(fl_text *t, const char *s) {
  int late = 0;
  for (; *s && !t->failed; s++) {
    const int ends = *s == '\n' || *s == '\r';
    if (*s == '\r' && s[1] == '\n') s++;
    if (ends && take_backslash(t)) { late++; continue; }
    fl_text_add(t, ends ? "\n" : s, 1);
    for (; ends && late; late--) fl_text_puts(t, "\n");
  }
  for (; late; late--) fl_text_puts(t, "\n");
}

/* The first character after blanks and complete block comments. */
static const char *skip(const char *s) {
  for (;;) {
    if (is_blank(*s)) { s++; continue; }
    const char *end = s[0] == '/' && s[1] == '*' ? strstr(s + 2, "*/") : NULL;
    if (!end) return s;
    s = end + 2;
  }
}

static const char *line_end(const char *s) { return s + strcspn(s, "\r\n"); }

/* The character after the '#' that begins a directive at s; NULL: there is none. */
static const char *hash(const char *s) {
  if (*s == '#') return s + 1;
  if (!strncmp(s, "%:", 2)) return s + 2;
  return strncmp(s, "?\?=", 3) ? NULL : s + 3;
}

static int is_word(const char *s, size_t n, const char *word) {
  return strlen(word) == n && !memcmp(s, word, n);
}
static size_t word_length(const char *s) {
  size_t n = 0;
  while (isalnum((unsigned char)s[n]) || s[n] == '_' || s[n] == '$' || (unsigned char)s[n] >= 128)
    n++;
  return n;
}

/* ---- what stays ------------------------------------------------------------------------------ */

/* The length of the operand of an include directive at s, "<name>" or "\"name\""; 0: the file may
** not be included. folders: the caller named folders of headers, so that quotes, and other names
** than those of the toolkit, are allowed. */
static size_t operand(const char *s, int folders) {
  if (*s != '<' && !(*s == '"' && folders)) return 0;
  const char close = *s == '<' ? '>' : '"';
  const size_t n = strcspn(s + 1, close == '>' ? ">\r\n" : "\"\r\n");
  if (s[n + 1] != close) return 0;
  return fl_kincludes_known(s + 1, n) || (folders && fl_kincludes_plain(s + 1, n)) ? n + 2 : 0;
}

/* Replaces the text from 'from' to 'to' with its newlines, so that lines keep their numbers.
** Returns 'to'. */
static const char *drop(fl_text *t, const char *from, const char *to) {
  for (; from < to; from++)
    if (*from == '\n') fl_text_puts(t, "\n");
  return to;
}

/* Replaces "__has_include(…)" with 1 if the file may be included, else 0, and similar words
** (askers) with 0. Returns the address after it. */
static const char *put_asked(fl_text *t, const char *s, int folders) {
  const char *at = skip(s + word_length(s));
  if (*at == '(') {
    const char *name = skip(at + 1);
    const size_t n = operand(name, folders);
    const int is = n > 0 && is_word(s, word_length(s), "__has_include");
    fl_text_puts(t, is ? "1" : "0");
    at = n ? skip(name + n) : name;
    at += strcspn(at, ")\r\n");
    return drop(t, s, *at == ')' ? at + 1 : at);
  }
  /* "#ifdef __has_include", "defined(__has_include)": it is defined, other askers are not */
  fl_text_puts(t, is_word(s, word_length(s), "__has_include") ? "__CUDACC__" : "fl_has_include");
  return s + word_length(s);
}

/* Words that ask a compiler for a file. The last one is the toolkit's name for the first. */
static const char *const askers[] = { "__has_include", "__has_include_next", "__has_embed",
                                      "_CCCL_HAS_INCLUDE" };
enum { ASKERS = sizeof askers / sizeof *askers };

static int asks(const char *s, size_t n) {
  int is = 0;
  for (int i = 0; i < ASKERS; i++) is |= is_word(s, n, askers[i]);
  return is;
}

/* Handles the directive at s, with 'at' after its '#', if it names a file or sets line numbers:
** writes what may remain of it, and returns its end. NULL: it is another directive. */
static const char *put_directive(fl_text *t, const char *s, const char *at, int folders) {
  const char *word = skip(at);
  const size_t n = word_length(word);
  const int include = is_word(word, n, "include") || is_word(word, n, "include_next") ||
                      is_word(word, n, "import");
  const int other = is_word(word, n, "embed") || is_word(word, n, "line") ||
                    isdigit((unsigned char)*word);
  if (!include && !other) return NULL;
  const char *name = skip(word + n);
  const size_t stays = include ? operand(name, folders) : 0;
  if (stays) {
    fl_text_puts(t, "#include ");
    fl_text_add(t, name, stays);
    return drop(t, s, name + stays);
  }
  if (*name == '"' || *name == '<') {          /* a comment after it continues */
    const size_t end = 1 + strcspn(name + 1, *name == '<' ? ">\r\n" : "\"\r\n");
    return drop(t, s, name[end] == '>' || name[end] == '"' ? name + end + 1 : name + end);
  }
  return drop(t, s, line_end(name));
}

/* ---- names made by ## ------------------------------------------------------------------------ */

/* Which parts of 'name' (at most NAME_MOST characters) occur as words in the text: piece[k][n] is
** set if the n characters of the name from k on do. */
enum { NAME_MOST = 20 };
typedef struct pasted { const char *name; char piece[NAME_MOST][NAME_MOST + 1]; } pasted;

/* Marks in p->piece at which positions of p->name this word occurs. */
static void note_word(pasted *p, const char *s, size_t n) {
  const size_t whole = strlen(p->name);
  for (size_t k = 0; n < whole && k + n <= whole; k++)
    if (!memcmp(p->name + k, s, n)) p->piece[k][n] = 1;
}

static void note_text(pasted *p, const char *s) {
  while (*s) {
    const size_t n = word_length(s);
    if (n) note_word(p, s, n);
    s += n ? n : 1;
  }
}

static int is_spelled(const pasted *p) {
  const size_t whole = strlen(p->name);
  char reached[NAME_MOST + 1] = { 1 };
  for (size_t k = 0; k < whole; k++)
    for (size_t n = 1; reached[k] && k + n <= whole; n++) reached[k + n] |= p->piece[k][n];
  return reached[whole];
}

int fl_kincludes_pasted(const char *text, const char *const *option, int n) {
  if (!strstr(text, "##") && !strstr(text, "%:") && !strstr(text, "?\?=") &&
      !strstr(text, "include"))
    return 0;
  for (int i = 0; i < ASKERS; i++) {
    pasted p = { .name = askers[i] };
    note_text(&p, text);
    for (int k = 0; k < n; k++) note_text(&p, option[k]);
    if (is_spelled(&p)) return 1;
  }
  return 0;
}

void fl_kincludes_put(fl_text *t, const char *text, int folders) {
  fl_text joined;
  fl_text_init(&joined, t->mem);
  put_joined(&joined, text);
  const char *s = fl_text_str(&joined);
  for (int first = 1; s && *s;) {
    const char *begin = first ? skip(s) : s, *at = first ? hash(begin) : NULL;
    const char *behind = at ? put_directive(t, s, at, folders) : NULL;
    first = 0;
    if (behind) { s = behind; continue; }
    const size_t n = word_length(s);
    if (asks(s, n)) { s = put_asked(t, s, folders); continue; }
    first = *s == '\n' || *s == '\r';
    fl_text_add(t, s, n ? n : 1);
    s += n ? n : 1;
  }
  if (!s) t->failed = 1;
  fl_text_free(&joined);
}
