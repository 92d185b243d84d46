/*
** Unicode as tokenizers need it: UTF-8, properties of characters, lower case, normal forms.
** The tables (unicode.def) are written by tools/unicode.lua. Texts are UTF-8 that is valid;
** fl_utf8_mend makes it so.
*/
#ifndef FL_TEXT_UNICODE_H
#define FL_TEXT_UNICODE_H
#include "base/text.h"

enum { FL_UC_TOP = 0x110000, FL_UC_REPLACEMENT = 0xFFFD };
/* what fl_uc_is asks: bits of general categories, or one of the properties above them */
#define FL_UC_LETTER    0x0000003Eu
#define FL_UC_MARK      0x000001C0u
#define FL_UC_NUMBER    0x00000E00u
#define FL_UC_PUNCT     0x0007F000u
#define FL_UC_OTHER     0x3C000000u             /* Cc, Cf, Cs, Co; not what is unassigned */

/* A character at p, where one must be; *n: its bytes. */
static inline uint32_t fl_utf8_get(const char *p, int *n) {
  const unsigned char *u = (const unsigned char *)p;
  if (u[0] < 0x80) return *n = 1, u[0];
  if (u[0] < 0xE0) return *n = 2, (u[0] & 31u) << 6 | (u[1] & 63u);
  if (u[0] < 0xF0) return *n = 3, (u[0] & 15u) << 12 | (u[1] & 63u) << 6 | (u[2] & 63u);
  return *n = 4, (u[0] & 7u) << 18 | (u[1] & 63u) << 12 | (u[2] & 63u) << 6 | (u[3] & 63u);
}
int fl_uc_put(char out[4], uint32_t c);
void fl_utf8_add(fl_text *t, uint32_t c);
/* Bytes of the character at p, or minus those of the longest start of one that is wrong or cut. */
int fl_utf8_length(const char *p, const char *end);
/* Bytes at the end of p that begin a character and do not end it. */
size_t fl_utf8_cut(const char *p, size_t n);
int fl_utf8_is_valid(const char *p, size_t n);
/* p with U+FFFD for what is not UTF-8. */
void fl_utf8_mend(fl_text *out, const char *p, size_t n);

int fl_uc_category(uint32_t c);                 /* 0 … 29, in the order of fl_uc_named */
static inline int fl_uc_is(uint32_t c, uint32_t categories) {
  return (int)(categories >> fl_uc_category(c) & 1);
}
int fl_uc_space(uint32_t c);                    /* White_Space */
int fl_uc_word(uint32_t c);                     /* \w */
int fl_uc_extends(uint32_t c);                  /* continues a grapheme */
int fl_uc_punct(uint32_t c);                    /* category P, or ASCII but letters and digits */
/* Bits of the categories that a name stands for (L, Lu, …), 0: none. */
uint32_t fl_uc_named(const char *name, size_t n);
int fl_uc_script(const char *name, size_t n);   /* 0: not known */
/* The first run of equal properties is number 0; *last: its last character. 0: no more. */
int fl_uc_run(int number, uint32_t *first, uint32_t *last, int *category, int *script, int *word);

void fl_uc_lower(fl_text *out, uint32_t c);
typedef enum fl_uc_form { FL_NFD, FL_NFC, FL_NFKD, FL_NFKC } fl_uc_form;
void fl_uc_normal(fl_text *out, const char *p, size_t n, fl_uc_form form);
#endif
