/*
** UTF-8 (RFC 3629). A text from outside is checked once, by fl_utf8_is_valid or while it is read;
** after that fl_utf8_get reads it without looking for the end of the text.
*/
#ifndef FL_BASE_UTF8_H
#define FL_BASE_UTF8_H
#include "base/text.h"

/* The character at p, where there must be one; *n: its number of bytes. */
static inline uint32_t fl_utf8_get(const char *p, int *n) {
  const unsigned char *u = (const unsigned char *)p;
  if (u[0] < 0x80) return *n = 1, u[0];
  if (u[0] < 0xE0) return *n = 2, (u[0] & 31u) << 6 | (u[1] & 63u);
  if (u[0] < 0xF0) return *n = 3, (u[0] & 15u) << 12 | (u[1] & 63u) << 6 | (u[2] & 63u);
  return *n = 4, (u[0] & 7u) << 18 | (u[1] & 63u) << 12 | (u[2] & 63u) << 6 | (u[3] & 63u);
}
/* Is the byte at p the second or a later one of a character? */
static inline int fl_utf8_goes_on(const char *p) { return ((unsigned char)*p & 0xC0) == 0x80; }
int fl_utf8_put(char out[4], uint32_t c);
void fl_utf8_add(fl_text *t, uint32_t c);
/* The number of bytes of the character at p; if it is invalid or cut off, minus the number of bytes
** of its longest valid start, at least 1. */
int fl_utf8_length(const char *p, const char *end);
/* The number of bytes at the end of p that begin a character without completing it. */
size_t fl_utf8_cut(const char *p, size_t n);
int fl_utf8_is_valid(const char *p, size_t n);
/* Appends p with U+FFFD in place of invalid bytes. */
void fl_utf8_mend(fl_text *out, const char *p, size_t n);
#endif
