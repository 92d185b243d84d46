/* Units of kernels (function.h): a source and what is derived from it. */
#include "kernel/function.h"
#include <stdio.h>
#include <string.h>

static void drop_text(fl_mem *m, char *s) {
  if (s) fl_free(m, s, strlen(s) + 1);
}

static int copy_options(fl_kunit *u, const char *const *option, int n) {
  u->option = fl_zalloc(u->mem, sizeof *u->option * (size_t)(n + 1));
  if (!u->option) return 0;
  u->noption = n;
  for (int i = 0; i < n; i++)
    if (!(u->option[i] = fl_strdup(u->mem, option[i]))) return 0;
  return 1;
}

fl_kunit *fl_kunit_new(fl_mem *m, fl_ksource *source, const char *label, int32_t first_line,
                       const char *const *option, int noption) {
  fl_kunit *u = fl_zalloc(m, sizeof *u);
  if (!u) {
    fl_ksource_free(source);
    return NULL;
  }
  *u = (fl_kunit){ .refs = 1, .mem = m, .source = source, .first_line = first_line };
  u->label = fl_strdup(m, label);
  if (u->label && copy_options(u, option, noption)) return u;
  fl_kunit_release(u);
  return NULL;
}

void fl_kunit_release(fl_kunit *u) {
  if (!u || --u->refs) return;
  fl_ksource_free(u->source);
  drop_text(u->mem, u->label);
  for (int32_t i = 0; u->option && i < u->noption; i++) drop_text(u->mem, u->option[i]);
  if (u->option) fl_free(u->mem, u->option, sizeof *u->option * (size_t)(u->noption + 1));
  fl_free(u->mem, u, sizeof *u);
}

void fl_kunit_message(const fl_kunit *u, const char *text, char *out, size_t size) {
  const char *at = strstr(text, ", line ");
  int line = 0, used = 0;
  if (!u || u->first_line <= 0 || !at || sscanf(at, ", line %d%n", &line, &used) != 1) {
    snprintf(out, size, "%s", text);
    return;
  }
  const int head = (int)(at - text) + used;
  snprintf(out, size, "%.*s (%s:%d)%s", head, text, u->label, u->first_line + line - 1,
           text + head);
}

void fl_kunit_retell(const fl_kunit *u, fl_error *e) {
  char told[sizeof e->op + sizeof e->message + 8], text[sizeof told + 128];
  fl_error_text(e, told, sizeof told);
  fl_kunit_message(u, told + strlen(e->op) + 2, text, sizeof text);
  fl_error_change(e, text);
}
