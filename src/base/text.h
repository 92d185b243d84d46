/* Text buffer on counted memory. A failed append sets 'failed' and later ones do nothing. Numbers
** are written as in the C locale: some texts are compiled, here or by NVRTC. */
#ifndef FL_BASE_TEXT_H
#define FL_BASE_TEXT_H
#include "base/mem.h"
#include <stdarg.h>

/* vsnprintf with numbers as in the C locale, whatever locale the host has set. */
int fl_print(char *out, size_t size, const char *fmt, va_list args)
    __attribute__((format(printf, 3, 0)));

/* Reads the n bytes at s as a number, as in the C locale; for an f32 it is rounded once. 0: it is
** not a number, or too long. */
int fl_read_number(const char *s, size_t n, int is_f32, double *v);

typedef struct fl_text { fl_mem *mem; char *at; size_t n, cap; int failed; } fl_text;
void fl_text_init(fl_text *t, fl_mem *m);
void fl_text_add(fl_text *t, const char *s, size_t n);
void fl_text_puts(fl_text *t, const char *s);
void fl_text_printf(fl_text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
const char *fl_text_str(fl_text *t);        /* NUL-terminated, NULL if failed; owned by t */
void fl_text_free(fl_text *t);
#endif
