/* Mistyped words: how far they are from words that exist. */
#ifndef FL_BASE_WORD_H
#define FL_BASE_WORD_H

/* The distance: a superfluous or missing letter, or two swapped neighbours, cost 4, another letter
** 5, since it is the rarer error, and the wrong case 1. Where it is above 'limit', or a word has
** more than 38 letters, the result may be any number above 'limit'. */
int fl_word_distance(const char *p, const char *q, int limit);
/* Candidates with a distance below this may be what a word means. */
int fl_word_limit(const char *word);

/* The candidate nearest to a word; of equally near ones the first in the alphabet. */
typedef struct fl_word_guess { const char *word; int limit; char best[40]; } fl_word_guess;
fl_word_guess fl_word_begin(const char *word);
/* n: the candidate's length, or -1: to its end. */
void fl_word_offer(fl_word_guess *g, const char *candidate, int n);
/* The part of a message that suggests a word: FL_DO "; did you mean 'x'?", or "" if none is near.
** 'out' has 64 bytes. */
const char *fl_word_hint(const fl_word_guess *g, char out[64]);
#endif
