/* Sets of characters: ranges while a pattern is read, bits for the matcher. */
#include "text/regex.h"
#include "text/unicode.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_BITS = 0x10000 };

int fl_set_add(fl_mem *m, fl_set *s, uint32_t first, uint32_t last) {
  fl_range *r = FL_PUSH(m, &s->ranges);
  if (r) *r = (fl_range){ first, last };
  return r != NULL;
}

static int by_first(const void *a, const void *b) {
  const uint32_t x = ((const fl_range *)a)->first, y = ((const fl_range *)b)->first;
  return (x > y) - (x < y);
}

void fl_set_tidy(fl_set *s) {
  int64_t n = 0;
  fl_range *r = s->ranges.at;
  if (s->ranges.n > 1) qsort(r, (size_t)s->ranges.n, sizeof *r, by_first);
  for (int64_t i = 0; i < s->ranges.n; i++) {
    if (n > 0 && r[i].first <= r[n - 1].last + 1) {
      if (r[i].last > r[n - 1].last) r[n - 1].last = r[i].last;
    } else {
      r[n++] = r[i];
    }
  }
  s->ranges.n = n;
}

int fl_set_invert(fl_mem *m, fl_set *s) {
  fl_set out = { 0 };
  uint32_t from = 0;
  int ok = 1;
  for (int64_t i = 0; i < s->ranges.n && ok; i++) {
    const fl_range r = s->ranges.at[i];
    if (r.first > from) ok = fl_set_add(m, &out, from, r.first - 1);
    from = r.last + 1;
  }
  if (ok && from < FL_UC_TOP) ok = fl_set_add(m, &out, from, FL_UC_TOP - 1);
  fl_set_drop(m, s);
  *s = out;
  return ok;
}

/* The intersection: the complement of the union of the complements. */
int fl_set_meet(fl_mem *m, fl_set *s, const fl_set *other) {
  fl_set o = { 0 };
  const int ok = fl_set_add_all(m, &o, other) && fl_set_invert(m, &o) && fl_set_invert(m, s) &&
                 fl_set_add_all(m, s, &o);
  fl_set_drop(m, &o);
  fl_set_tidy(s);
  return ok && fl_set_invert(m, s);
}

int fl_set_add_all(fl_mem *m, fl_set *s, const fl_set *other) {
  for (int64_t i = 0; i < other->ranges.n; i++)
    if (!fl_set_add(m, s, other->ranges.at[i].first, other->ranges.at[i].last)) return 0;
  return 1;
}

int fl_set_search(const fl_set *s, uint32_t c) {
  int64_t low = 0, high = s->ranges.n;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (s->ranges.at[middle].last < c) low = middle + 1;
    else high = middle;
  }
  return low < s->ranges.n && s->ranges.at[low].first <= c;
}

int fl_set_fold(fl_mem *m, fl_set *s) {
  static const uint32_t others[][2] = { { 's', 0x17F }, { 'k', 0x212A } };
  fl_set_tidy(s);
  for (int i = 0; i < 2; i++)
    if (fl_set_search(s, others[i][1]) && !fl_set_add(m, s, others[i][0], others[i][0])) return 0;
  fl_set_tidy(s);
  for (uint32_t c = 'a'; c <= 'z'; c++) {
    const int low = fl_set_search(s, c), high = fl_set_search(s, c - 32);
    if (low == high) continue;
    if (!fl_set_add(m, s, low ? c - 32 : c, low ? c - 32 : c)) return 0;
    fl_set_tidy(s);
  }
  for (int i = 0; i < 2; i++)
    if (fl_set_search(s, others[i][0]) && !fl_set_add(m, s, others[i][1], others[i][1])) return 0;
  fl_set_tidy(s);
  return 1;
}

static int add_runs(fl_mem *m, fl_set *s, uint32_t categories, int script, int words) {
  uint32_t first, last;
  int category, its_script, word;
  for (int k = 0; fl_uc_run(k, &first, &last, &category, &its_script, &word); k++) {
    const int in = words ? word : script ? its_script == script : (int)(categories >> category & 1);
    if (in && !fl_set_add(m, s, first, last)) return 0;
  }
  fl_set_tidy(s);
  return 1;
}

int fl_set_named(fl_mem *m, fl_set *s, const char *name, size_t n) {
  const uint32_t categories = fl_uc_named(name, n);
  const int script = categories ? 0 : fl_uc_script(name, n);
  return categories || script ? add_runs(m, s, categories, script, 0) : -1;
}

int fl_set_escape(fl_mem *m, fl_set *s, char letter) {
  int ok = 1;
  switch (letter | 32) {
    case 's':
      for (uint32_t c = 0; c <= 0x3000 && ok; c++)
        if (fl_uc_space(c)) ok = fl_set_add(m, s, c, c);
      fl_set_tidy(s);
      break;
    case 'd': ok = fl_set_named(m, s, "Nd", 2); break;
    case 'w': ok = add_runs(m, s, 0, 0, 1); break;
    default: return -1;
  }
  return ok && (letter >= 'a' || fl_set_invert(m, s));
}

int fl_set_latin_numbers(fl_mem *m, fl_set *s, int not) {
  const int ok = (!not || fl_set_invert(m, s)) && fl_set_add(m, s, 0xB2, 0xB3) &&
                 fl_set_add(m, s, 0xB9, 0xB9) && fl_set_add(m, s, 0xBC, 0xBE);
  fl_set_tidy(s);
  return ok && (!not || fl_set_invert(m, s));
}

int fl_set_finish(fl_mem *m, fl_set *s) {
  const uint32_t top = s->ranges.n ? s->ranges.at[s->ranges.n - 1].last : 0;
  s->nbits = top < MOST_BITS ? (top | 7) + 1 : MOST_BITS;
  s->bits = fl_zalloc(m, s->nbits / 8);
  if (!s->bits) return 0;
  for (int64_t i = 0; i < s->ranges.n; i++)
    for (uint32_t c = s->ranges.at[i].first; c <= s->ranges.at[i].last && c < s->nbits; c++)
      s->bits[c >> 3] |= (uint8_t)(1u << (c & 7));
  return 1;
}

void fl_set_drop(fl_mem *m, fl_set *s) {
  FL_DROP(m, &s->ranges);
  fl_free(m, s->bits, s->bits ? s->nbits / 8 : 0);
  s->bits = NULL;
}
