/* See word.h. */
#include "base/error.h"
#include "base/word.h"
#include <stdio.h>
#include <string.h>

/* Only ASCII letters, whatever the locale. */
static int lower(char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; }

int fl_word_distance(const char *p, const char *q, int limit) {
  enum { SLIP = 4, OTHER = 5, CASE = 1 };
  int row[3][40];
  const int n = (int)strlen(p), m = (int)strlen(q);
  if (n > 38 || m > 38 || (n - m) * SLIP > limit || (m - n) * SLIP > limit) return limit + 1;
  for (int j = 0; j <= m; j++) row[0][j] = j * SLIP;
  for (int i = 1; i <= n; i++) {
    const int *above = row[(i - 1) % 3], *twice = row[(i + 1) % 3];
    int *here = row[i % 3];
    here[0] = i * SLIP;
    for (int j = 1; j <= m; j++) {
      const int same = lower(p[i - 1]) == lower(q[j - 1]);
      here[j] = above[j - 1] + (p[i - 1] == q[j - 1] ? 0 : same ? CASE : OTHER);
      if (above[j] + SLIP < here[j]) here[j] = above[j] + SLIP;
      if (here[j - 1] + SLIP < here[j]) here[j] = here[j - 1] + SLIP;
      if (i > 1 && j > 1 && p[i - 1] == q[j - 2] && p[i - 2] == q[j - 1] &&
          twice[j - 2] + SLIP < here[j])
        here[j] = twice[j - 2] + SLIP;
    }
  }
  return row[n % 3][m];
}

/* Allows one typing error, two in a word that is long enough to be recognised nevertheless, or
** letters of the wrong case. */
int fl_word_limit(const char *word) {
  const size_t n = strlen(word);
  return n > 7 ? 11 : n > 1 ? 6 : 1;
}

fl_word_guess fl_word_begin(const char *word) {
  return (fl_word_guess){ word, fl_word_limit(word), "" };
}

void fl_word_offer(fl_word_guess *g, const char *candidate, int n) {
  char text[40];
  if (n < 0) n = (int)strlen(candidate);
  if (n >= (int)sizeof text || (n == 1 && strlen(g->word) > 1)) return;    /* H is not near sh */
  snprintf(text, sizeof text, "%.*s", n, candidate);
  const int d = fl_word_distance(g->word, text, g->limit);
  if (d > g->limit || (d == g->limit && (!*g->best || strcmp(text, g->best) >= 0))) return;
  g->limit = d;
  memcpy(g->best, text, sizeof text);
}

const char *fl_word_hint(const fl_word_guess *g, char out[64]) {
  out[0] = 0;
  if (*g->best) snprintf(out, 64, FL_DO "; did you mean '%s'?", g->best);
  return out;
}
