/*
** The text buffer. One byte after the 'n' used ones is always free for the NUL, so that fl_text_str
** never has to grow. After a failed append nothing more is added, since the text would have a gap.
*/
#include "base/text.h"
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int fl_print(char *out, size_t size, const char *fmt, va_list args) {
  if (strcmp(nl_langinfo(RADIXCHAR), ".") == 0) return vsnprintf(out, size, fmt, args);
  const locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
  const locale_t before = plain ? uselocale(plain) : (locale_t)0;
  const int n = vsnprintf(out, size, fmt, args);
  if (!plain) return n;
  uselocale(before);
  freelocale(plain);
  return n;
}

/* strtod and strtof need a terminating character and use the decimal point of the host's locale, so
** the bytes are copied and adapted. */
int fl_read_number(const char *s, size_t n, int is_f32, double *v) {
  char copy[128], *end, *point;
  if (n == 0 || n >= sizeof copy) return 0;
  memcpy(copy, s, n);
  copy[n] = 0;
  if ((point = strchr(copy, '.'))) *point = *nl_langinfo(RADIXCHAR);
  *v = is_f32 ? strtof(copy, &end) : strtod(copy, &end);
  return end == copy + n;
}

void fl_text_init(fl_text *t, fl_mem *m) {
  *t = (fl_text){ .mem = m };
}

/* Makes room for n more bytes and the NUL; 0: no memory. */
static int reserve(fl_text *t, size_t n) {
  if (t->failed) return 0;
  size_t need;
  if (__builtin_add_overflow(t->n, n, &need) || need > (size_t)PTRDIFF_MAX / 2) {
    t->failed = 1;
    return 0;
  }
  if (need < t->cap) return 1;
  size_t cap = t->cap ? t->cap : 256;
  while (cap <= need) cap *= 2;
  char *at = fl_realloc(t->mem, t->at, t->cap, cap);
  if (!at) {
    t->failed = 1;
    return 0;
  }
  t->at = at;
  t->cap = cap;
  return 1;
}

void fl_text_add(fl_text *t, const char *s, size_t n) {
  if (!reserve(t, n)) return;
  if (n) memcpy(t->at + t->n, s, n);
  t->n += n;
}

void fl_text_puts(fl_text *t, const char *s) {
  fl_text_add(t, s, strlen(s));
}

/* Formats into the remaining space, and again after growing if that is too small. */
void fl_text_printf(fl_text *t, const char *fmt, ...) {
  if (!reserve(t, 128)) return;
  for (int attempt = 0; attempt < 2; attempt++) {
    const size_t left = t->cap - t->n;
    va_list args;
    va_start(args, fmt);
    const int n = fl_print(t->at + t->n, left, fmt, args);
    va_end(args);
    if (n < 0) break;
    if ((size_t)n < left) {
      t->n += (size_t)n;
      return;
    }
    if (!reserve(t, (size_t)n)) return;
  }
  t->failed = 1;
}

const char *fl_text_str(fl_text *t) {
  if (!reserve(t, 0)) return NULL;
  t->at[t->n] = '\0';
  return t->at;
}

void fl_text_free(fl_text *t) {
  fl_free(t->mem, t->at, t->cap);
  fl_text_init(t, t->mem);
}
