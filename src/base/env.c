/*
** Environment switches. The list is env.def, full names and all; here are only the readers.
*/
#include "base/env.h"
#include <stdlib.h>
#include <string.h>

static const struct { const char *name, *value; } switches[] = {
#define ENV(name, def, doc) { #name, def },
#include "base/env.def"
#undef ENV
};

const char *fl_env(int which) {
  const char *s = getenv(switches[which].name);
  return s && *s ? s : switches[which].value;
}

static int lists(const char *list, const char *word, size_t n) {
  for (const char *p = list; p && *p; p += strcspn(p, ","), p += *p == ',')
    if (strncmp(p, word, n) == 0 && (p[n] == 0 || p[n] == ',')) return 1;
  return 0;
}

int fl_env_lists(int which, const char *word) { return lists(fl_env(which), word, strlen(word)); }

const char *fl_env_unknown(int which, const char *known, int *n) {
  for (const char *p = fl_env(which); p && *p; p += *n, p += *p == ',') {
    *n = (int)strcspn(p, ",");
    if (*n && !lists(known, p, (size_t)*n)) return p;
  }
  return NULL;
}

int fl_env_int(int which) {
  const char *s = fl_env(which);
  if (!s) return 0;
  const long v = strtol(s, NULL, 10);
  if (v > 0x7fffffffL) return 0x7fffffff;
  return v < -0x7fffffffL ? -0x7fffffff : (int)v;
}
