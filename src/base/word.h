/* Words that were mistyped: how far they are from those that exist. */
#ifndef FL_BASE_WORD_H
#define FL_BASE_WORD_H

/* At most 'limit' + 1: a letter too many, too few or two neighbours in the wrong order cost 4,
** another letter 5, being the rarer slip, the same one large or small 1. Words are short. */
int fl_word_distance(const char *p, const char *q, int limit);
/* What may be meant by a word: distances below this. */
int fl_word_limit(const char *word);

/* The candidate that is nearest to a word; of two as near the first in the alphabet. */
typedef struct fl_word_guess { const char *word; int limit; char best[40]; } fl_word_guess;
fl_word_guess fl_word_begin(const char *word);
/* n: the candidate's length, or -1: to its end. */
void fl_word_offer(fl_word_guess *g, const char *candidate, int n);
/* What a message about the word says of it: FL_DO "; did you mean 'x'?", "" where nothing is near.
** 'out' has 64 bytes. */
const char *fl_word_hint(const fl_word_guess *g, char out[64]);
#endif
