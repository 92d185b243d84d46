/* Words that were mistyped: how far they are from those that exist. */
#ifndef FL_BASE_WORD_H
#define FL_BASE_WORD_H

/* At most 'limit' + 1: a letter too many, too few or two neighbours in the wrong order cost 4, another
** letter 5, being the rarer slip. Words are short. */
int fl_word_distance(const char *p, const char *q, int limit);
/* What may be meant by a word: distances below this. */
int fl_word_limit(const char *word);
#endif
