/*
** Errors as values. The first error since the last clear is kept, since what follows
** it is mostly its consequence; later ones return their code and leave no trace.
*/
#include "base/error.h"
#include "base/text.h"
#include <stdio.h>
#include <string.h>

flame_status fl_fail(fl_error *e, flame_status code, const char *op, const char *fmt, ...) {
  if (!e || e->code != FLAME_OK) return code;
  e->code = code;
  snprintf(e->op, sizeof e->op, "%s", op ? op : "");
  va_list args;
  va_start(args, fmt);
  fl_print(e->message, sizeof e->message, fmt, args);
  va_end(args);
  e->hint[0] = '\0';
  return code;
}

/* A hint belongs to the error just kept: the first one stays, as the message does. */
void fl_hint(fl_error *e, const char *fmt, ...) {
  if (!e || e->code == FLAME_OK || e->hint[0] != '\0') return;
  va_list args;
  va_start(args, fmt);
  fl_print(e->hint, sizeof e->hint, fmt, args);
  va_end(args);
}

void fl_error_clear(fl_error *e) {
  memset(e, 0, sizeof *e);
}

void fl_error_own(fl_error *e, const char *op) {
  if (e->code == FLAME_BAD_ARGUMENT) snprintf(e->op, sizeof e->op, "%s", op);
}
