/*
** Environment switches. env.def lists them with full names; this file has the functions that read
** them.
*/
#include "base/env.h"
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct { const char *name, *value, *takes; } switches[] = {
#define ENV(name, def, takes, doc) { #name, def, takes },
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

/* The first word of the list s that is not in 'known'; NULL: all are. *n: its length. */
static const char *unknown(const char *s, const char *known, int *n) {
  for (const char *p = s; *p; p += *n, p += *p == ',') {
    *n = (int)strcspn(p, ",");
    if (*n && !lists(known, p, (size_t)*n)) return p;
  }
  return NULL;
}

/* Is s one of the words in "a, b or c"? */
static int is_one_of(const char *s, const char *words) {
  const size_t n = strlen(s);
  for (const char *p = strstr(words, s); p && n; p = strstr(p + 1, s))
    if ((p == words || p[-1] == ' ') && (p[n] == ',' || p[n] == ' ' || !p[n]) && strcmp(s, "or"))
      return 1;
  return 0;
}

static int is_integer(const char *s, long low, long high) {
  char *end;
  if (!isdigit((unsigned char)s[*s == '-' || *s == '+'])) return 0;
  errno = 0;
  const long v = strtol(s, &end, 10);
  return !*end && !errno && v >= low && v <= high;
}

int fl_env_refuse(int which, char *why, size_t size) {
  const char *name = switches[which].name, *takes = switches[which].takes, *s = getenv(name), *word;
  char *end;
  int n = 0;
  if (!s || !*s || !*takes) return 0;
  if (!strncmp(takes, "words ", 6)) {
    word = unknown(s, takes + 6, &n);
    if (word)
      snprintf(why, size, "%s has the word '%.*s'; it takes %s, with commas between", name, n, word,
               takes + 6);
    return word != NULL;
  }
  const long low = strtol(takes, &end, 10);
  if (end == takes ? is_one_of(s, takes)
                   : is_integer(s, low, strtol(end + strlen(" to "), NULL, 10)))
    return 0;
  snprintf(why, size, "%s is '%.60s', need %s%s", name, s,
           end == takes ? "" : "an integer from ", takes);
  return 1;
}

int fl_env_int(int which) {
  const char *s = fl_env(which);
  if (!s) return 0;
  const long v = strtol(s, NULL, 10);
  if (v > 0x7fffffffL) return 0x7fffffff;
  return v < -0x7fffffffL ? -0x7fffffff : (int)v;
}
