/* See word.h. */
#include "base/word.h"
#include <string.h>

int fl_word_distance(const char *p, const char *q, int limit) {
  enum { SLIP = 4, OTHER = 5 };
  int row[3][40];
  const int n = (int)strlen(p), m = (int)strlen(q);
  if (n > 38 || m > 38 || (n - m) * SLIP > limit || (m - n) * SLIP > limit) return limit + 1;
  for (int j = 0; j <= m; j++) row[0][j] = j * SLIP;
  for (int i = 1; i <= n; i++) {
    const int *above = row[(i - 1) % 3], *twice = row[(i + 1) % 3];
    int *here = row[i % 3];
    here[0] = i * SLIP;
    for (int j = 1; j <= m; j++) {
      here[j] = above[j - 1] + (p[i - 1] != q[j - 1] ? OTHER : 0);
      if (above[j] + SLIP < here[j]) here[j] = above[j] + SLIP;
      if (here[j - 1] + SLIP < here[j]) here[j] = here[j - 1] + SLIP;
      if (i > 1 && j > 1 && p[i - 1] == q[j - 2] && p[i - 2] == q[j - 1] && twice[j - 2] + SLIP < here[j])
        here[j] = twice[j - 2] + SLIP;
    }
  }
  return row[n % 3][m];
}

int fl_word_limit(const char *word) { return strlen(word) > 4 ? 11 : 6; }       /* two slips, or one */
