/*
** What cover.c (the walk over the tree) and cover_launch.c (the answer for one launch) share:
** integers as polynomials of what a launch knows, and what was found about stores.
*/
#ifndef FL_KERNEL_COVER_FORM_H
#define FL_KERNEL_COVER_FORM_H
#include "kernel/facts/cover.h"

/* Symbols: fl_kspecial; AXIS + a: the thread's number along axis a of the whole launch; COUNTER
** + k: counter k (loops[k]); VAR + v: variable v, an integer parameter as it was given. */
enum { FL_KC_AXIS = 100, FL_KC_COUNTER = 1000, FL_KC_VAR = 1 << 20 };
enum { FL_KC_TERMS = 6, FL_KC_FACTORS = 5, FL_KC_GUARDS = 12 };

/* A sum of c * product of symbols, sorted. 'narrow': some step was done in 32 bits, so the sum
** of magnitudes must stay below 2^31. No two terms ever cancelled, so that sum bounds all
** steps. */
typedef struct fl_kc_term { int64_t c; int32_t n, s[FL_KC_FACTORS]; } fl_kc_term;
typedef struct fl_kc_poly { int32_t n; uint8_t narrow; fl_kc_term t[FL_KC_TERMS]; } fl_kc_poly;

enum { FL_KC_ROOM = 1 << 15 };   /* a guard may be this much less than what was computed */
typedef struct fl_kc_guard { const fl_kc_poly *a, *b; } fl_kc_guard;      /* a < b */

/* Threads for which all guards hold store to element 'at' of the variable, whatever else
** they do; with counters in it: for all values that the loop gives them. */
typedef struct fl_kc_store {
  int32_t var, n_guards;
  const fl_kc_poly *at;
  fl_kc_guard guard[FL_KC_GUARDS];
  struct fl_kc_store *next;
} fl_kc_store;

/* for (v = from; v < to; v += by), gone through to its end. */
typedef struct fl_kc_loop { const fl_kc_poly *from, *by, *to; } fl_kc_loop;

/* The last answer for one parameter: most launches ask the same again. */
enum { FL_KC_USED = 8, FL_KC_MEMOS = 4 };
typedef struct fl_kc_memo {
  int32_t param, answer;     /* param + 1; 0: none yet */
  int64_t n, grid[3], block[3], value[FL_KC_USED];
} fl_kc_memo;

struct fl_kcover {
  fl_karena arena;           /* holds all of it but this struct */
  const fl_kfunc *f;
  fl_kc_store *stores;
  fl_kc_loop *loops;         /* by counter */
  int32_t n_used, used[FL_KC_USED];     /* integer parameters in all of them; n_used > USED: more */
  fl_kc_memo memo[FL_KC_MEMOS];         /* by parameter, modulo */
};

int fl_kc_same(const fl_kc_poly *a, const fl_kc_poly *b);
#endif
