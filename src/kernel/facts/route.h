/*
** The conditions that hold at a statement and the loops around it. They give bounds to index.c
** (classes, digits) and own.c (which thread owns an element).
*/
#ifndef FL_KERNEL_ROUTE_H
#define FL_KERNEL_ROUTE_H
#include "kernel/facts/poly.h"

enum { FL_KROUTE_FACTS = 48 };
typedef struct fl_kroute {
  const fl_kindices *k;
  const fl_kstmt *goal;                     /* the statement that is asked about */
  const fl_kexpr *cond[FL_KROUTE_FACTS];    /* n conditions, and what each has given there */
  uint8_t truth[FL_KROUTE_FACTS];
  int32_t order[FL_KROUTE_FACTS];           /* place (defs.h) at which each was evaluated */
  int n;
  fl_kplace at;                             /* of the goal */
  fl_klimits *used;                         /* limits of the launch that proofs note (access.h);
                                            ** NULL: proofs may not use its extents */
} fl_kroute;
/* Finds the conditions and loops around r->goal in r->k; the caller has set both, and r->n and
** r->at to zeros. 0: goal not found. */
int fl_kroute_find(fl_kroute *r);
/* fl_kroute_find that also returns 0 if the goal is a loop, or is nested in too many loops. */
int fl_kroute_is_place(fl_kroute *r);
/* fl_kroute_is_place, with the conditions in the statement under which it evaluates the index, if
** that is in it once: c ? y[index] : 0, c && y[index] > 0. */
int fl_kroute_reaches(fl_kroute *r, const fl_kexpr *index);
/* What each iteration adds to counter var, as a polynomial at the place r->at; 'bad' if it is
** none, or makes the counter wrap (fl_kform_wraps). */
fl_kpoly fl_kroute_step(const fl_kroute *r, int32_t var);
/* The first value of the counter that symbol s is, and its step; 0: s is no counter, or these are
** not polynomials. */
int fl_kroute_counts(const fl_kroute *r, int32_t s, fl_kpoly *first, fl_kpoly *step);

/* A digit of an index: a value in which two evaluations of it may differ, and the stride that
** multiplies it. SYMBOL: the value of symbol s; REM: (unit / low) % (high / low), for a unit that
** is divided; LAST: unit / high, which is symbol s; OFFSET: unit. */
typedef enum {
  FL_KDIGIT_SYMBOL, FL_KDIGIT_REM, FL_KDIGIT_LAST, FL_KDIGIT_OFFSET
} fl_kdigit_kind;
typedef struct fl_kdigit {
  int32_t s;
  fl_kterm stride;
  fl_kdigit_kind kind;
  const fl_kpoly *unit;
  fl_kterm low, high, bound;                /* see above; REM: bound is high / low */
} fl_kdigit;
/* fl_kroute_says_below: does condition i imply s < m, if s is not negative? fl_kroute_stays_below:
** do all conditions and the launch together imply 0 <= s < m? */
int fl_kroute_says_below(const fl_kroute *r, int i, int32_t s, const fl_kterm *m);
int fl_kroute_stays_below(const fl_kroute *r, int32_t s, const fl_kterm *m);
/* Is extent 'which' (access.h) of the launch at most m, or, unless param is -1, m times the value
** of 'param'? If so, this is noted in r->used. */
int fl_kroute_launched(const fl_kroute *r, int which, int32_t param, int64_t m);
/* Is s a parameter that is positive in the launch (fl_kroute_launched)? */
int fl_kroute_is_positive(const fl_kroute *r, int32_t s);
/* Is t certainly not 0: a number times sizes of the launch and positive parameters? */
int fl_kroute_is_nonzero(const fl_kroute *r, const fl_kterm *t);
/* Do the strides form a chain in some order: is each, times the bound of its digit, at most the
** next? The first is a number. */
int fl_kroute_is_chain(const fl_kroute *r, const fl_kdigit *d, int n);
/* Is p a remainder a - a / m * m (which sets *a and *m), where a is not negative
** (fl_kpoly_is_natural)? */
int fl_kroute_is_remainder(const fl_kroute *r, const fl_kpoly *p, fl_kpoly *a, fl_kterm *m);
/* Is symbol s certainly not negative? */
int fl_kroute_not_negative(const fl_kroute *r, int32_t s);
/* For a counter that begins at an index of the thread (a symbol for which fl_ksym_is_number holds):
** that symbol, if every value of the counter determines the index at which it began: since it steps
** by the number of such indices (FL_KSYM_GLOBAL + axis: by that of the grid; threadIdx: by
** blockDim), or the index stays below the uniform step. -1: it begins at a uniform value and steps
** by a constant; -2: unknown. */
int32_t fl_kroute_counter(const fl_kroute *r, int32_t var);
#endif
