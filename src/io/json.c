/*
** The JSON reader: RFC 8259 without extensions. UTF-8 is checked; control characters in strings,
** lone surrogates and leading zeros are errors.
*/
#include "io/json.h"
#include "base/utf8.h"
#include <string.h>

void fl_json_init(fl_json *j, char *text, size_t n) {
  *j = (fl_json){ .at = text, .start = text, .end = text + n };
}

int fl_json_fail(fl_json *j, const char *what) {
  if (!j->wrong) {
    j->wrong = what;
    j->offset = j->at - j->start;
  }
  return 0;
}

static void space(fl_json *j) {
  while (j->at < j->end && (*j->at == ' ' || *j->at == '\t' || *j->at == '\n' || *j->at == '\r'))
    j->at++;
}

char fl_json_peek(fl_json *j) {
  space(j);
  return j->at < j->end ? *j->at : 0;
}

static int expect(fl_json *j, char what, const char *wrong) {
  if (j->wrong) return 0;
  if (fl_json_peek(j) != what || j->at >= j->end) return fl_json_fail(j, wrong);
  j->at++;
  return 1;
}

int fl_json_open(fl_json *j, char bracket) {
  return expect(j, bracket, bracket == '{' ? "an object must stand here"
                                           : "a list must stand here");
}

int fl_json_more(fl_json *j, char bracket, int *first) {
  if (j->wrong) return 0;
  const char next = fl_json_peek(j);
  if (next == (bracket == '{' ? '}' : ']')) {
    j->at++;
    return 0;
  }
  if (*first) {
    *first = 0;
    return j->at < j->end ? 1 : fl_json_fail(j, "the text ends too early");
  }
  return expect(j, ',', "a comma or a closing bracket must stand here");
}

/* ---- strings ------------------------------------------------------------------------- */

static int hex4(fl_json *j, uint32_t *v) {
  if (j->end - j->at < 4) return fl_json_fail(j, "the text ends in a \\u escape");
  *v = 0;
  for (int i = 0; i < 4; i++) {
    const char h = *j->at;
    const int d = h >= '0' && h <= '9' ? h - '0' : h >= 'a' && h <= 'f' ? h - 'a' + 10
                  : h >= 'A' && h <= 'F' ? h - 'A' + 10 : -1;
    if (d < 0) return fl_json_fail(j, "a \\u escape needs four hexadecimal digits");
    *v = *v << 4 | (uint32_t)d;
    j->at++;
  }
  return 1;
}

/* After "\u": one code point, of two escapes when it is a surrogate pair. */
static int code_point(fl_json *j, uint32_t *v) {
  uint32_t low = 0;
  if (!hex4(j, v)) return 0;
  if (*v < 0xD800 || *v > 0xDFFF) return 1;
  if (*v >= 0xDC00 || j->end - j->at < 6 || j->at[0] != '\\' || j->at[1] != 'u')
    return fl_json_fail(j, "a surrogate without its other half");
  j->at += 2;
  if (!hex4(j, &low)) return 0;
  if (low < 0xDC00 || low > 0xDFFF) return fl_json_fail(j, "a surrogate without its other half");
  *v = 0x10000 + ((*v - 0xD800) << 10) + (low - 0xDC00);
  return 1;
}

static int escape(fl_json *j, char **out) {
  static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
  if (j->at >= j->end) return fl_json_fail(j, "the text ends in a string");
  const char e = *j->at++;
  const char *p = e ? strchr(from, e) : NULL;
  if (p) {
    *(*out)++ = to[p - from];
    return 1;
  }
  uint32_t v = 0;
  if (e != 'u') return fl_json_fail(j, "no such escape");
  if (!code_point(j, &v)) return 0;
  *out += fl_utf8_put(*out, v);
  return 1;
}

int fl_json_string(fl_json *j, fl_span *s) {
  if (!expect(j, '"', "a string must stand here")) return 0;
  char *out = j->at;
  s->at = out;
  while (j->at < j->end) {
    const unsigned char c = (unsigned char)*j->at;
    if (c == '"') {
      s->n = (size_t)(out - s->at);
      j->at++;
      return 1;
    }
    if (c < 0x20) return fl_json_fail(j, "a control character in a string");
    if (c == '\\') {
      j->at++;
      if (!escape(j, &out)) return 0;
      continue;
    }
    const int n = fl_utf8_length(j->at, j->end);
    if (n < 0) return fl_json_fail(j, "a string that is not UTF-8");
    memmove(out, j->at, (size_t)n);
    out += n;
    j->at += n;
  }
  return fl_json_fail(j, "the text ends in a string");
}

int fl_json_key(fl_json *j, fl_span *key) {
  return fl_json_string(j, key) && expect(j, ':', "a colon must stand here");
}

/* ---- numbers and the rest ----------------------------------------------------------------- */

static int digit(const fl_json *j) { return j->at < j->end && *j->at >= '0' && *j->at <= '9'; }

int fl_json_integer(fl_json *j, int64_t *v) {
  if (j->wrong) return 0;
  space(j);
  if (!digit(j)) return fl_json_fail(j, "a whole number that is not negative must stand here");
  if (*j->at == '0' && j->at + 1 < j->end && j->at[1] >= '0' && j->at[1] <= '9')
    return fl_json_fail(j, "a number with a leading zero");
  *v = 0;
  for (; digit(j); j->at++)
    if (__builtin_mul_overflow(*v, (int64_t)10, v) ||
        __builtin_add_overflow(*v, (int64_t)(*j->at - '0'), v))
      return fl_json_fail(j, "a number beyond 2^63");
  if (j->at < j->end && (*j->at == '.' || *j->at == 'e' || *j->at == 'E'))
    return fl_json_fail(j, "a whole number must stand here");
  return 1;
}

static int skip_digits(fl_json *j) {
  if (!digit(j)) return fl_json_fail(j, "a digit must stand here");
  while (digit(j)) j->at++;
  return 1;
}

static int skip_number(fl_json *j) {
  if (*j->at == '-') j->at++;
  if (digit(j) && *j->at == '0') j->at++;
  else if (!skip_digits(j)) return 0;
  if (j->at < j->end && *j->at == '.') {
    j->at++;
    if (!skip_digits(j)) return 0;
  }
  if (j->at < j->end && (*j->at == 'e' || *j->at == 'E')) {
    j->at++;
    if (j->at < j->end && (*j->at == '+' || *j->at == '-')) j->at++;
    return skip_digits(j);
  }
  return 1;
}

static int skip_word(fl_json *j) {
  static const char *const words[] = { "true", "false", "null" };
  for (int i = 0; i < 3; i++) {
    const size_t n = strlen(words[i]);
    if ((size_t)(j->end - j->at) >= n && memcmp(j->at, words[i], n) == 0) {
      j->at += n;
      return 1;
    }
  }
  return fl_json_fail(j, "a value must stand here");
}

/* Recursion is bounded by FL_IO_MAX_DEPTH. */
static int skip(fl_json *j, int depth) {
  fl_span s;
  if (j->wrong) return 0;
  const char next = fl_json_peek(j);
  if (next == '"') return fl_json_string(j, &s);
  if (next == '-' || (next >= '0' && next <= '9')) return skip_number(j);
  if (next != '{' && next != '[') return skip_word(j);
  if (depth >= FL_IO_MAX_DEPTH) return fl_json_fail(j, "nested too deep");
  int first = 1;
  fl_json_open(j, next);
  while (fl_json_more(j, next, &first)) {
    if (next == '{' && !fl_json_key(j, &s)) return 0;
    if (!skip(j, depth + 1)) return 0;
  }
  return j->wrong == NULL;
}

int fl_json_skip(fl_json *j) { return skip(j, 1); }

int fl_json_end(fl_json *j) {
  if (j->wrong) return 0;
  space(j);
  return j->at == j->end ? 1 : fl_json_fail(j, "text after the end");
}
