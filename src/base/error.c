/*
** Errors as values. The first error since the last clear is kept, since what follows
** it is mostly its consequence; later ones return their code and leave no trace.
*/
#include "base/error.h"
#include "base/text.h"
#include <stdio.h>
#include <string.h>

/* The longest prefix of the text that has at most this many bytes and splits no character. */
static size_t cut(const char *text, size_t most) {
  size_t n = strlen(text);
  if (n <= most) return n;
  for (n = most; n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80; ) n--;
  return n;
}

void fl_error_plain(char *text) {
  char *to = text;
  for (const char *from = text; *from; from++)
    if (*from != FL_DO[0]) *to++ = *from;
  *to = '\0';
}

/* Makes the hint: ": use x:float()" -> "use x:float()", "(install one)" -> "install one" */
static void set_hint(fl_error *e, const char *remedy) {
  const char *s = remedy + strspn(remedy, ";:,( \n");
  size_t n = cut(s, sizeof e->hint - 1), open = 0, closed = 0;
  for (size_t i = 0; i < n; i++) open += s[i] == '(', closed += s[i] == ')';
  if (closed > open && s[n - 1] == ')') n--;
  memcpy(e->hint, s, n);
  e->hint[n] = '\0';
}

/* Sets message and hint. If the text is too long, the facts before its remedy (error.h) are cut,
** and the remedy is kept. */
static void set_message(fl_error *e, char *text) {
  char *mark = strrchr(text, FL_DO[0]), remedy[sizeof e->hint + 16] = "";
  if (mark) {
    const size_t n = cut(mark + 1, sizeof remedy - 1);
    memcpy(remedy, mark + 1, n);
    remedy[n] = '\0';
    *mark = '\0';
  }
  fl_error_plain(text);
  const size_t n = cut(text, sizeof e->message - 1 - strlen(remedy));
  memcpy(e->message, text, n);
  memcpy(e->message + n, remedy, strlen(remedy) + 1);
  set_hint(e, remedy);
}

flame_status fl_fail_list(fl_error *e, flame_status code, const char *op, const char *fmt,
                          va_list args) {
  char text[1024];
  if (!e || e->code != FLAME_OK) return code;
  fl_print(text, sizeof text, fmt, args);
  e->code = code;
  snprintf(e->op, sizeof e->op, "%s", op ? op : "");
  set_message(e, text);
  return code;
}

flame_status fl_fail(fl_error *e, flame_status code, const char *op, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  fl_fail_list(e, code, op, fmt, args);
  va_end(args);
  return code;
}

void fl_error_text(const fl_error *e, char *out, size_t size) {
  const size_t n = strlen(e->hint);
  size_t facts = strlen(e->message);
  if (n) while (facts > 0 && strncmp(e->message + facts, e->hint, n) != 0) facts--;
  snprintf(out, size, "%s: %.*s%s%s", e->op, (int)facts, e->message, n ? FL_DO : "",
           e->message + facts);
}

void fl_error_clear(fl_error *e) {
  memset(e, 0, sizeof *e);
}

void fl_error_own(fl_error *e, const char *op) {
  if (e->code == FLAME_BAD_ARGUMENT) snprintf(e->op, sizeof e->op, "%s", op);
}

void fl_error_change(fl_error *e, const char *text) {
  const fl_error told = *e;
  fl_error_clear(e);
  fl_fail(e, told.code, told.op, "%s", text);
  e->site = told.site;
}
