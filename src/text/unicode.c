/*
** Properties of characters and normal forms. Most text is ASCII, which needs no search; other
** characters are found by binary search among runs of equal properties.
*/
#include "text/unicode.h"
#include <string.h>

typedef struct uc_lower { uint32_t first; uint16_t count, step; int32_t difference; } uc_lower;
#include "text/unicode.def"
enum { RUNS = sizeof uc_runs / sizeof *uc_runs, CODE = 0x1FFFFF };       /* bits of a code point */

/* ---- properties ------------------------------------------------------------------------------ */
/* The run that c is in. A run of uc_runs is: first code point | category << 21 | word << 26 |
** extends << 27 | script << 28; of uc_ages: … | a reason of fl_uc_was << 21 | category then << 24;
** of uc_classes: … | combining class << 24. */
static uint32_t run_in(const uint32_t *runs, int n, uint32_t c) {
  int low = 0, high = n;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if ((runs[middle] & CODE) <= c) low = middle;
    else high = middle;
  }
  return runs[low];
}

static uint32_t run_of(uint32_t c) { return run_in(uc_runs, RUNS, c); }

int fl_uc_category(uint32_t c) { return (int)(run_of(c) >> 21 & 31); }

int fl_uc_was(uint32_t c, uint32_t categories, int version) {
  enum { LACKED_BY_8 = 1, LACKED_BY_9, CHANGED };
  const uint32_t run = c < uc_ages[0] % (CODE + 1) ? 0 :
                       run_in(uc_ages, sizeof uc_ages / sizeof *uc_ages, c);
  const int what = (int)(run >> 21 & 7);
  if (what == CHANGED) {
    const int since_9 = version == 9 && (c == 0x1885 || c == 0x1886);
    return (int)(categories >> (since_9 ? FL_UC_Mn : run >> 24) & 1);
  }
  if (what == LACKED_BY_9 || (what == LACKED_BY_8 && version == 8)) return 0;
  return fl_uc_is(c, categories);
}

int fl_uc_space(uint32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

static int word_run(uint32_t run) {
  const uint32_t word = FL_UC_MARK | 1u << FL_UC_Nd | 1u << FL_UC_Pc;
  return (run >> 26 & 1) || (word >> (run >> 21 & 31) & 1);
}

int fl_uc_word(uint32_t c) { return word_run(run_of(c)) || c == 0x200C || c == 0x200D; }
int fl_uc_extends(uint32_t c) { return c >= 0x300 && (run_of(c) >> 27 & 1); }

int fl_uc_punct(uint32_t c) {
  const int letter = (c | 32) >= 'a' && (c | 32) <= 'z';
  if (c < 0x80) return c > 32 && c < 127 && !letter && !(c >= '0' && c <= '9');
  return fl_uc_was(c, FL_UC_PUNCT, 8);
}

uint32_t fl_uc_named(const char *name, size_t n) {
  uint32_t bits = 0;
  for (uint32_t k = 0; k < sizeof uc_names / 2 && (n == 1 || n == 2); k++)
    if (memcmp(uc_names + 2 * k, name, n) == 0) bits |= 1u << k;
  return bits;
}

int fl_uc_script(const char *name, size_t n) {
  for (int k = 0; k < (int)(sizeof uc_scripts / sizeof *uc_scripts); k++)
    if (strlen(uc_scripts[k]) == n && memcmp(uc_scripts[k], name, n) == 0) return k + 1;
  return 0;
}

int fl_uc_run(int number, uint32_t *first, uint32_t *last, int *category, int *script, int *word) {
  if (number >= RUNS) return 0;
  const uint32_t run = uc_runs[number];
  *first = run & CODE;
  *last = (number + 1 < RUNS ? uc_runs[number + 1] & CODE : FL_UC_TOP) - 1;
  *category = (int)(run >> 21 & 31);
  *script = (int)(run >> 28);
  *word = word_run(run);
  return 1;
}

void fl_uc_lower(fl_text *out, uint32_t c) {
  if (c < 0x80) {
    if (c >= 'A' && c <= 'Z') c += 32;
  } else if (c == 0x130) {                    /* the only one that becomes two characters */
    fl_text_add(out, "i\xCC\x87", 3);
    return;
  } else {
    int low = 0, high = sizeof uc_lowers / sizeof *uc_lowers;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      if (uc_lowers[middle].first <= c) low = middle;
      else high = middle;
    }
    const uc_lower *r = &uc_lowers[low];
    const uint32_t d = c - r->first;
    if (c >= r->first && d % r->step == 0 && d / r->step < r->count)
      c = (uint32_t)((int32_t)c + r->difference);
  }
  fl_utf8_add(out, c);
}

/* ---- normal forms ---------------------------------------------------------------------------- */
enum { HANGUL = 0xAC00, LEAD = 0x1100, VOWEL = 0x1161, TAIL = 0x11A7, VOWELS = 21, TAILS = 28,
       SYLLABLES = 11172, LEADS = 19 };

static int class_of(uint32_t c) {
  return c < 0x300 ? 0 : (int)(run_in(uc_classes, sizeof uc_classes / sizeof *uc_classes, c) >> 24);
}

/* The decomposition of entry m of uc_maps, in *n units of UTF-16. */
static const uint16_t *parts_of(int m, int *n) {
  int at = uc_places[m >> 5];
  for (int i = m & ~31; i < m; i++) at += uc_kinds[i] & 31;
  *n = uc_kinds[m] & 31;
  return uc_parts + at;
}

/* The character of entry m of uc_maps. */
static uint32_t mapped(int m) {
  uint32_t plane = 0;
  while (m >= uc_planes[plane + 1]) plane++;
  return plane << 16 | uc_maps[m];
}

static uint32_t next_part(const uint16_t **p) {
  const uint32_t v = *(*p)++;
  return v < 0xD800 || v >= 0xDC00 ? v : 0x10000 + ((v - 0xD800) << 10) + (*(*p)++ - 0xDC00u);
}

/* A starter and the characters up to the next starter, which settle() puts in canonical order.
** sorted: scratch of sort(). */
typedef struct segment {
  fl_text *out;
  int compose;
  struct { uint32_t *at; int64_t n, cap; } chars, sorted;
} segment;

static int is_ordered(const segment *s) {
  int last = 0;
  for (int64_t i = 0; i < s->chars.n; i++) {
    const int k = class_of(s->chars.at[i]);
    if (k < last) return 0;
    last = k;
  }
  return 1;
}

/* Sorts stably by class, by counting, since a text can be one long run of marks. */
static void sort(segment *s) {
  const int64_t n = s->chars.n;
  uint32_t *c = s->chars.at;
  int64_t places[257] = { 0 };
  if (!FL_RESERVE(s->out->mem, &s->sorted, n)) {
    s->out->failed = 1;
    return;
  }
  for (int64_t i = 0; i < n; i++) places[class_of(c[i]) + 1]++;
  for (int k = 0; k < 256; k++) places[k + 1] += places[k];
  for (int64_t i = 0; i < n; i++) s->sorted.at[places[class_of(c[i])]++] = c[i];
  memcpy(c, s->sorted.at, (size_t)n * sizeof *c);
}

/* The composition of a and b, or 0; no pair of uc_pairs ends in one of the characters for which the
** first line returns 0. */
static uint32_t composed(uint32_t a, uint32_t b) {
  if (b < 0x300 || (b > 0x309A && b < 0x11000)) return 0;
  if (a >= LEAD && a < LEAD + LEADS && b >= VOWEL && b < VOWEL + VOWELS)
    return HANGUL + ((a - LEAD) * VOWELS + (b - VOWEL)) * TAILS;
  if (a >= HANGUL && a < HANGUL + SYLLABLES && (a - HANGUL) % TAILS == 0 && b > TAIL &&
      b < TAIL + TAILS)
    return a + (b - TAIL);
  int low = 0, high = sizeof uc_pairs / sizeof *uc_pairs;
  while (low < high) {
    const int middle = (low + high) / 2;
    int n;
    const uint16_t *p = parts_of(uc_pairs[middle], &n);
    const uint32_t first = next_part(&p), second = next_part(&p);
    if (first == a && second == b) return mapped(uc_pairs[middle]);
    if (first < a || (first == a && second < b)) low = middle + 1;
    else high = middle;
  }
  return 0;
}

/* Composes characters with the starter, which is chars[0], where possible. */
static void compose(segment *s) {
  uint32_t *c = s->chars.at;
  int64_t kept = 1;
  int last = 0;
  if (class_of(c[0])) return;
  for (int64_t i = 1; i < s->chars.n; i++) {
    const int k = class_of(c[i]);
    const uint32_t both = kept == 1 || last < k ? composed(c[0], c[i]) : 0;
    if (both) {
      c[0] = both;
      continue;
    }
    last = k;
    c[kept++] = c[i];
  }
  s->chars.n = kept;
}

static void settle(segment *s) {
  if (s->chars.n > 1 && !is_ordered(s)) sort(s);
  if (s->chars.n > 1 && s->compose) compose(s);
}

static void flush(segment *s) {
  for (int64_t i = 0; i < s->chars.n; i++) fl_utf8_add(s->out, s->chars.at[i]);
  s->chars.n = 0;
}

/* Adds a character that does not decompose. */
static void put(segment *s, uint32_t c) {
  const int k = class_of(c);
  if (k == 0 && s->chars.n > 0) {
    settle(s);
    const uint32_t both = s->compose && s->chars.n == 1 ? composed(s->chars.at[0], c) : 0;
    if (both) {
      s->chars.at[0] = both;
      return;
    }
    flush(s);
  }
  uint32_t *p = FL_PUSH(s->out->mem, &s->chars);
  if (!p) {
    s->out->failed = 1;
    return;
  }
  *p = c;
}

static int map_of(uint32_t c) {
  if ((c >> 16) + 1 >= sizeof uc_planes / sizeof *uc_planes) return -1;
  int low = uc_planes[c >> 16], high = uc_planes[(c >> 16) + 1];
  while (low < high) {
    const int middle = (low + high) / 2;
    if (uc_maps[middle] == (c & 0xFFFF)) return middle;
    if (uc_maps[middle] < (c & 0xFFFF)) low = middle + 1;
    else high = middle;
  }
  return -1;
}

/* Decompositions nest a few levels, as the tables determine. */
static void decompose(segment *s, uint32_t c, int compat) {
  if (c < 0xA0) {
    put(s, c);
  } else if (c >= HANGUL && c < HANGUL + SYLLABLES) {
    const uint32_t i = c - HANGUL;
    put(s, LEAD + i / (VOWELS * TAILS));
    put(s, VOWEL + i % (VOWELS * TAILS) / TAILS);
    if (i % TAILS) put(s, TAIL + i % TAILS);
  } else {
    const int m = map_of(c);
    if (m < 0 || (uc_kinds[m] >> 7 && !compat)) {
      put(s, c);
      return;
    }
    int n;
    const uint16_t *p = parts_of(m, &n), *end = p + n;
    while (p < end) decompose(s, next_part(&p), compat);
  }
}

/* The number of ASCII characters at the start of p, without the last one, which the next character
** can change. */
static size_t alone(const char *p, const char *end) {
  const char *q = p;
  while (q < end && (unsigned char)*q < 0x80) q++;
  return q > p ? (size_t)(q - p) - 1 : 0;
}

void fl_uc_normal(fl_text *out, const char *p, size_t n, fl_uc_form form) {
  segment s = { .out = out, .compose = form == FL_NFC || form == FL_NFKC };
  const int compat = form == FL_NFKD || form == FL_NFKC;
  for (const char *end = p + n; p < end && !out->failed;) {
    const size_t plain = alone(p, end);
    if (plain > 0) {
      settle(&s);
      flush(&s);
      fl_text_add(out, p, plain);
      p += plain;
    }
    int k;
    decompose(&s, fl_utf8_get(p, &k), compat);
    p += k;
  }
  settle(&s);
  flush(&s);
  FL_DROP(out->mem, &s.chars);
  FL_DROP(out->mem, &s.sorted);
}
