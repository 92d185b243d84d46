/*
** Unicode as tokenizers need it: properties of characters, lower case, normal forms. Versions are
** those that the library 'tokenizers' uses: properties of Unicode 16.0 and lower case of 17.0, but
** normal forms and StripAccents of 9.0, BERT's passes and Punctuation of 8.0.
** The tables (unicode.def) are written by tools/unicode.lua. Texts must be valid UTF-8;
** fl_utf8_mend repairs them.
*/
#ifndef FL_TEXT_UNICODE_H
#define FL_TEXT_UNICODE_H
#include "base/utf8.h"

enum { FL_UC_TOP = 0x110000, FL_UC_REPLACEMENT = 0xFFFD };
/* sets of general categories, for fl_uc_is and fl_uc_was: bit k is category k */
#define FL_UC_MARK      0x000001C0u
#define FL_UC_NONSPACING 0x00000040u            /* Mn */
#define FL_UC_NUMBER    0x00000E00u
#define FL_UC_PUNCT     0x0007F000u
#define FL_UC_OTHER     0x3C000000u             /* Cc, Cf, Cs, Co; without unassigned characters */

int fl_uc_category(uint32_t c);                 /* 0 … 29, in the order of fl_uc_named */
static inline int fl_uc_is(uint32_t c, uint32_t categories) {
  return (int)(categories >> fl_uc_category(c) & 1);
}
/* As fl_uc_is, but in Unicode 8 or 9, for marks, punctuation and 'other'. */
int fl_uc_was(uint32_t c, uint32_t categories, int version);
int fl_uc_space(uint32_t c);                    /* White_Space */
int fl_uc_word(uint32_t c);                     /* \w */
int fl_uc_extends(uint32_t c);                  /* continues a grapheme */
/* P of Unicode 8.0, or visible ASCII except letters and digits */
int fl_uc_punct(uint32_t c);
/* The categories that a name stands for (L, Lu, …), as bits; 0: none. */
uint32_t fl_uc_named(const char *name, size_t n);
int fl_uc_script(const char *name, size_t n);   /* 0: not known */
/* Finds run 'number', from 0, of characters with equal properties; *last: its last character. 0:
** there is no such run. */
int fl_uc_run(int number, uint32_t *first, uint32_t *last, int *category, int *script, int *word);

void fl_uc_lower(fl_text *out, uint32_t c);
typedef enum fl_uc_form { FL_NFD, FL_NFC, FL_NFKD, FL_NFKC } fl_uc_form;
void fl_uc_normal(fl_text *out, const char *p, size_t n, fl_uc_form form);
#endif
