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
  const fl_kstmt *goal;
  const fl_kexpr *cond[FL_KROUTE_FACTS];
  uint8_t truth[FL_KROUTE_FACTS];
  int32_t order[FL_KROUTE_FACTS];           /* place (defs.h) at which the condition was
                                            ** evaluated */
  int n;
  fl_kplace at;
  fl_klimits *used;                         /* NULL: proofs may not use the extents of the launch */
} fl_kroute;
/* Finds the conditions and loops around r->goal in r->k; the caller has set both. 0: goal not
** found. */
int fl_kroute_find(fl_kroute *r);
/* fl_kroute_find that also returns 0 if the goal is a loop, or is nested in too many loops. */
int fl_kroute_is_place(fl_kroute *r);
/* fl_kroute_is_place, with the conditions in the statement under which it evaluates the index:
** c ? y[index] : 0, c && y[index] > 0. */
int fl_kroute_reaches(fl_kroute *r, const fl_kexpr *index);
/* What each iteration adds to counter var, as a polynomial at the place r->at. */
fl_kpoly fl_kroute_step(const fl_kroute *r, int32_t var);
/* The first value of a counter, and its step; 0: symbol s is not a counter, or they are not
** polynomials. */
int fl_kroute_counts(const fl_kroute *r, int32_t s, fl_kpoly *first, fl_kpoly *step);

/* A digit: one of the values in which two evaluations of an index may differ, and its stride. REM:
** (unit / low) % (high / low) for a quotient's unit; LAST: unit / high; OFFSET: unit; else symbol
** s. */
typedef enum {
  FL_KDIGIT_SYMBOL, FL_KDIGIT_REM, FL_KDIGIT_LAST, FL_KDIGIT_OFFSET
} fl_kdigit_kind;
typedef struct fl_kdigit {
  int32_t s;
  fl_kterm stride;
  fl_kdigit_kind kind;
  const fl_kpoly *unit;
  fl_kterm low, high, bound;                /* REM: bound = high / low */
} fl_kdigit;
/* fl_kroute_says_below: does condition i imply s < m? fl_kroute_stays_below: do all conditions and
** the launch together imply 0 <= s < m? m: a monomial. */
int fl_kroute_says_below(const fl_kroute *r, int i, int32_t s, const fl_kterm *m);
int fl_kroute_stays_below(const fl_kroute *r, int32_t s, const fl_kterm *m);
/* Is extent 'which' of the launch at most m, or, unless param is -1, m times the value of
** 'param'? */
int fl_kroute_launched(const fl_kroute *r, int which, int32_t param, int64_t m);
/* Is s a parameter that is positive in the launch? */
int fl_kroute_is_positive(const fl_kroute *r, int32_t s);
/* Is t certainly not 0: a number times sizes of the launch and positive parameters? */
int fl_kroute_is_nonzero(const fl_kroute *r, const fl_kterm *t);
/* Do the strides form a chain: is each, times the bound of its digit, at most the next? */
int fl_kroute_is_chain(const fl_kroute *r, const fl_kdigit *d, int n);
/* Is p a remainder a - a / m * m, where a is an index of the thread or another polynomial that is
** not negative? */
int fl_kroute_is_remainder(const fl_kroute *r, const fl_kpoly *p, fl_kpoly *a, fl_kterm *m);
/* Is symbol s certainly not negative? */
int fl_kroute_not_negative(const fl_kroute *r, int32_t s);
/* For a counter that begins at the thread's index: the symbol by which it differs between threads,
** FL_KSYM_GLOBAL + axis for a grid stride, threadIdx for a block stride. -1: it is the same in all
** threads; -2: unknown. */
int32_t fl_kroute_counter(const fl_kroute *r, int32_t var);
#endif
