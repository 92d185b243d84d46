/* UTF-8: which bytes are valid, and what replaces those that are not. */
#include "base/utf8.h"

int fl_utf8_put(char out[4], uint32_t c) {
  if (c < 0x80) return out[0] = (char)c, 1;
  const int n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  for (int i = n - 1; i > 0; i--, c >>= 6) out[i] = (char)(0x80 | (c & 63));
  out[0] = (char)((0xF00u >> n & 0xFF) | c);
  return n;
}

void fl_utf8_add(fl_text *t, uint32_t c) {
  char b[4];
  fl_text_add(t, b, (size_t)fl_utf8_put(b, c));
}

int fl_utf8_length(const char *p, const char *end) {
  const unsigned char *u = (const unsigned char *)p;
  if (u[0] < 0x80) return 1;
  const int n = u[0] < 0xC2 ? 0 : u[0] < 0xE0 ? 2 : u[0] < 0xF0 ? 3 : u[0] < 0xF5 ? 4 : 0;
  if (n == 0) return -1;
  const unsigned low = u[0] == 0xE0 ? 0xA0 : u[0] == 0xF0 ? 0x90 : 0x80;
  const unsigned high = u[0] == 0xED ? 0x9F : u[0] == 0xF4 ? 0x8F : 0xBF;
  for (int i = 1; i < n; i++) {
    if (p + i >= end || u[i] < (i == 1 ? low : 0x80) || u[i] > (i == 1 ? high : 0xBF)) return -i;
  }
  return n;
}

int fl_utf8_is_valid(const char *p, size_t n) {
  const char *end = p + n;
  while (p < end) {
    const int k = fl_utf8_length(p, end);
    if (k < 0) return 0;
    p += k;
  }
  return 1;
}

size_t fl_utf8_cut(const char *p, size_t n) {
  for (size_t k = 1; k <= 3 && k <= n; k++) {
    const unsigned char u = (unsigned char)p[n - k];
    if ((u & 0xC0) == 0x80) continue;
    return u >= 0xC0 && fl_utf8_length(p + n - k, p + n) == -(int)k ? k : 0;
  }
  return 0;
}

void fl_utf8_mend(fl_text *out, const char *p, size_t n) {
  const char *end = p + n;
  while (p < end) {
    const char *good = p;
    int k = 1;
    while (p < end && (k = fl_utf8_length(p, end)) > 0) p += k;
    fl_text_add(out, good, (size_t)(p - good));
    if (p >= end) return;
    fl_text_add(out, "\xEF\xBF\xBD", 3);
    p += -k;
  }
}
