/*
** A strict JSON reader over a buffer that it may change: strings are decoded in place (what
** they decode to is never longer). The caller says what must come next. Nothing is
** allocated; the first error is kept, with its offset, and every later call fails.
*/
#ifndef FL_IO_JSON_H
#define FL_IO_JSON_H
#include "io/io.h"

typedef struct fl_json {
  char *at, *end, *start;
  const char *wrong;            /* NULL: no error; otherwise the error, static text */
  int64_t offset;               /* of the mistake */
} fl_json;
void fl_json_init(fl_json *j, char *text, size_t n);
/* All return 1, or 0 after an error. */
int fl_json_open(fl_json *j, char bracket);          /* '{' or '[' must come */
/* After an open: is there another member? 'first' is set to 1 before the loop. Takes the
** comma or the closing bracket. */
int fl_json_more(fl_json *j, char bracket, int *first);
int fl_json_key(fl_json *j, fl_span *key);           /* a string and its colon */
int fl_json_string(fl_json *j, fl_span *s);
int fl_json_integer(fl_json *j, int64_t *v);         /* 0 … 2^63 - 1, digits only */
/* the next character that is not space; 0 at the end */
char fl_json_peek(fl_json *j);
int fl_json_skip(fl_json *j);                        /* any value, at most FL_IO_MAX_DEPTH deep */
int fl_json_end(fl_json *j);                         /* only space may follow */
int fl_json_fail(fl_json *j, const char *what);
#endif
