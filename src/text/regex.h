/*
** Regular expressions as tokenizers write them, by Oniguruma's rules: literals, escapes, classes
** ([…], nested, &&, ranges, \p{L}, \p{Han}, \s \d \w and their complements), groups, alternatives,
** (?i:…), quantifiers * + ? {n,m} (lazy with ?, of one character also possessive with +),
** lookahead, and the anchors ^ $ \A \z. Every other construct is refused with its position. Letters
** of (?i) are ASCII, with the characters that fold to them.
**
** A pattern becomes a program for a backtracking matcher with a stack on the heap: its depth is
** bounded by memory, not by the thread's stack. A run of characters of one class is a single entry
** of that stack, whatever its length.
*/
#ifndef FL_TEXT_REGEX_H
#define FL_TEXT_REGEX_H
#include "tensor/context.h"

typedef struct fl_range { uint32_t first, last; } fl_range;
/* Characters: sorted, disjoint ranges. */
typedef struct fl_set {
  struct { fl_range *at; int64_t n, cap; } ranges;
  uint8_t *bits;                /* for characters below nbits; for others the ranges are searched */
  uint32_t nbits;
} fl_set;

typedef enum fl_regex_op {
  FL_RX_SET, FL_RX_RUN, FL_RX_SPLIT, FL_RX_JUMP, FL_RX_AHEAD, FL_RX_NOT_AHEAD, FL_RX_BEGIN,
  FL_RX_END, FL_RX_LINE, FL_RX_LINE_END, FL_RX_MATCH
} fl_regex_op;
typedef struct fl_regex_code {
  uint8_t op, mode;             /* mode of a run: '*' greedy, '+' possessive */
  uint8_t empty;                /* of a split: the branch at 'a' can match the empty text */
  int32_t a, b;                 /* a: number of a set; or a, b: targets, 'a' is tried first */
  int32_t min, max;             /* max < 0: none */
  uint64_t first[4];            /* of a split: bytes with which the branch at 'a' can begin */
} fl_regex_code;

/* An entry of the stack: continue with pc at 'at'; with 'least', first try to give back characters,
** one by one, down to 'least'. */
typedef struct fl_regex_try { int32_t pc; const char *at, *least; } fl_regex_try;
typedef struct fl_regex {
  fl_mem *mem;
  struct { fl_set *at; int64_t n, cap; } sets;
  struct { fl_regex_code *at; int64_t n, cap; } code;
  uint64_t first[4];            /* bytes with which a match can begin */
  int empty;                    /* a match can be empty */
  struct { fl_regex_try *at; int64_t n, cap; } stack;
  const char *wrong;            /* why the pattern is refused; NULL: it is accepted */
  size_t offset;                /* where */
  int failed;                   /* out of memory */
  int64_t steps;                /* steps since interrupts were polled */
} fl_regex;

/* 0: refused, or no memory. The caller closes r in any case. */
int fl_regex_open(fl_regex *r, fl_mem *mem, const char *pattern, size_t n);
void fl_regex_close(fl_regex *r);
/* The first match at or after 'from' in the text: 1, 0: none, -1: no memory or an interrupt. */
int fl_regex_find(fl_regex *r, flame_context *c, const char *text, const char *end,
                  const char *from, const char **first, const char **last);

/* ---- sets (regex_set.c). Functions return 0 if there is no memory --------------------------- */
int fl_set_add(fl_mem *m, fl_set *s, uint32_t first, uint32_t last);
void fl_set_tidy(fl_set *s);                       /* after adding: ranges in order, joined */
int fl_set_invert(fl_mem *m, fl_set *s);           /* s must be tidy */
int fl_set_meet(fl_mem *m, fl_set *s, const fl_set *other);     /* both tidy */
int fl_set_fold(fl_mem *m, fl_set *s);             /* both cases of its ASCII letters */
int fl_set_add_all(fl_mem *m, fl_set *s, const fl_set *other);
int fl_set_named(fl_mem *m, fl_set *s, const char *name, size_t n);   /* -1: no such name */
int fl_set_escape(fl_mem *m, fl_set *s, char letter);   /* s d w S D W; -1: another letter */
/* Outside of a class \w also has Latin-1's numeric symbols (such as ½), as in Oniguruma: adds them
** to s, or with 'not' takes them out of \W. */
int fl_set_latin_numbers(fl_mem *m, fl_set *s, int not);
int fl_set_finish(fl_mem *m, fl_set *s);           /* makes the bits */
void fl_set_drop(fl_mem *m, fl_set *s);
int fl_set_search(const fl_set *s, uint32_t c);    /* is c in the ranges, of a tidy s */
static inline int fl_set_has(const fl_set *s, uint32_t c) {
  return c < s->nbits ? s->bits[c >> 3] >> (c & 7) & 1 : fl_set_search(s, c);
}
#endif
