/*
** What cover.c (the walk over the tree) and cover_launch.c (the answer for one launch) share: what
** was found about stores, as polynomials in numbers that are known at a launch.
*/
#ifndef FL_KERNEL_COVER_FORM_H
#define FL_KERNEL_COVER_FORM_H
#include "kernel/facts/cover.h"
#include "kernel/facts/form.h"

enum { FL_KC_GUARDS = 12 };
/* The symbols of the polynomials here are indices of the thread and sizes of the launch (form.h),
** COUNTER + k for the counter of loops[k], and VAR + v for variable v, an integer parameter with
** the value that was given.
** A polynomial that is kept is not 'unsure', so no step of computing it in the kernel exceeds the
** sum of the magnitudes of its terms. This sum must fit the type (32 bits if it is 'narrow') less
** FL_KC_ROOM. The room is for conditions a <= b, which are kept as a < b + 1: if b is n - 5, the
** kernel computes n - 5, and n - 4 has a smaller sum. Constants of such a b are at least
** -FL_KC_ROOM. */
enum { FL_KC_ROOM = 1 << 15 };
typedef struct fl_kc_guard { const fl_kpoly *a, *b; } fl_kc_guard;      /* a < b */

/* All threads for which the guards hold store to element 'at' of the variable; if 'at' has
** counters, they do so for all values that the loops give these. */
typedef struct fl_kc_store {
  int32_t var, n_guards;
  const fl_kpoly *at;
  fl_kc_guard guard[FL_KC_GUARDS];
  struct fl_kc_store *next;
} fl_kc_store;

/* A loop for (v = from; v < to; v += by). No store is kept of a loop that a thread may leave
** early. */
typedef struct fl_kc_loop { const fl_kpoly *from, *by, *to; } fl_kc_loop;

/* An answer of fl_kcover_all, kept since most launches ask the same question. value: of the
** parameters in fl_kcover.used. */
enum { FL_KC_USED = 8, FL_KC_MEMOS = 4 };
typedef struct fl_kc_memo {
  int32_t param, answer;     /* param: 1 + the number of the parameter; 0: no answer yet */
  int64_t n, grid[3], block[3], value[FL_KC_USED];
} fl_kc_memo;

struct fl_kcover {
  fl_karena arena;           /* holds all of it except this struct */
  const fl_kfunc *f;
  fl_kc_store *stores;
  fl_kc_loop *loops;         /* by counter */
  int32_t n_used, used[FL_KC_USED];     /* variables of the integer parameters in any store or loop;
                                        ** n_used > FL_KC_USED: too many to list */
  fl_kc_memo memo[FL_KC_MEMOS];         /* by the number of the parameter modulo FL_KC_MEMOS */
};

#endif
