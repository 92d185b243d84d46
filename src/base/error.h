/*
** Errors are values: the first error since the last clear stays, with its code, op,
** message, hint and the script site that recorded the op (0: the current line). Nothing here
** prints, aborts or jumps.
**
** A message gives the facts and then, if there is one, the remedy: an imperative that the user can
** follow ("use x:float()"), or what to write instead ("did you mean 'bias'?"). A range or a kind
** that is needed ("need 1 to 10") is a fact. In the text that an error is made from, FL_DO precedes
** the remedy ("\1" in Lua):
**   FL_FAIL(c, code, op, "x is on %s and y on %s" FL_DO "; use y:to(x.device)", …)
** It may be in an argument; if there are several, the last counts. They are removed from the
** message.
*/
#ifndef FL_BASE_ERROR_H
#define FL_BASE_ERROR_H
#include "flame.h"
#include <stdarg.h>
#include <stdint.h>

#define FL_DO "\1"
/* The end of a noun after its number: "%d argument%s", n, FL_S(n). */
#define FL_S(n) ((n) == 1 ? "" : "s")

typedef struct fl_error {
  flame_status code;       /* FLAME_OK: no error */
  uint32_t site;           /* interned script line, see fl_site_*; 0: the current line */
  char op[40];
  char message[800];  /* "inner sizes differ, (4, 3) and (5, 2)": without op prefix */
  char hint[160];     /* the remedy at the end of the message, without its punctuation; may be "" */
} fl_error;

/* Stores the error unless one is stored already; always returns 'code', for: return fl_fail(…). */
flame_status fl_fail(fl_error *e, flame_status code, const char *op, const char *fmt, ...)
  __attribute__((format(printf, 4, 5)));
flame_status fl_fail_list(fl_error *e, flame_status code, const char *op, const char *fmt,
                          va_list args)
  __attribute__((format(printf, 4, 0)));
/* Writes "op: message" with FL_DO before the remedy, so that an error made from the text later has
** the same hint. */
void fl_error_text(const fl_error *e, char *out, size_t size);
/* Replaces the text of the error; the new text may contain FL_DO. */
void fl_error_change(fl_error *e, const char *text);
/* Removes FL_DO from a text that is shown without raising an error. */
void fl_error_plain(char *text);
void fl_error_clear(fl_error *e);
/* For an 'op' that is composed of other ops, one of which reported the error: an error of code
** FLAME_BAD_ARGUMENT becomes one of 'op'; others stay. */
void fl_error_own(fl_error *e, const char *op);
#endif
