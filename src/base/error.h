/*
** Errors are values: the first error since the last clear stays, with its code, op,
** message, hint and the script site that recorded the op (0: none). Nothing here
** prints, aborts or jumps.
*/
#ifndef FL_BASE_ERROR_H
#define FL_BASE_ERROR_H
#include "flame.h"
#include <stdint.h>

typedef struct fl_error {
  flame_status code;       /* FLAME_OK: no error */
  uint32_t site;           /* interned script line, see fl_site_* ; 0: the current line */
  char op[40];
  char message[480];       /* "inner sizes differ, (4, 3) and (5, 2)": without op prefix */
  char hint[160];          /* what to do; may be "" */
} fl_error;

/* Keep the error if none is kept yet; always returns 'code', so: return fl_fail(…). */
flame_status fl_fail(fl_error *e, flame_status code, const char *op, const char *fmt, ...)
  __attribute__((format(printf, 4, 5)));
void fl_hint(fl_error *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void fl_error_clear(fl_error *e);
/* A mistake found in what 'op' is made of is told as a mistake in the use of 'op'. */
void fl_error_own(fl_error *e, const char *op);
#endif
