/*
** Index expressions as polynomials over the thread's numbers, uniform parameters, loop counters
** and quotients; what index.c (classes, digits) and gather.c (which thread touched an element)
** read. Internal to the analysis of one function.
*/
#ifndef FL_KERNEL_POLY_H
#define FL_KERNEL_POLY_H
#include "kernel/facts/access.h"
#include "kernel/facts/defs.h"

enum { FL_KPOLY_TERMS = 12, FL_KPOLY_FACTORS = 8, FL_KPOLY_LOOPS = 32, FL_KPOLY_QUOTIENTS = 12,
       FL_KPOLY_SEEN = 48 };

/* Symbols: fl_kspecial are 0..; GLOBAL + axis: blockIdx * blockDim + threadIdx; SAME: any number
** that the threads at this place have in common (fl_kplace.same); VAR + variable; QUOTIENT +
** number. */
enum { FL_KSYM_GLOBAL = 100, FL_KSYM_SAME = 199, FL_KSYM_VAR = 200, FL_KSYM_QUOTIENT = 1 << 24 };

typedef struct fl_kterm {
  int64_t c;
  int n;
  int32_t s[FL_KPOLY_FACTORS];
} fl_kterm;                                 /* c * product, sorted */
typedef struct fl_kpoly { int n, bad; fl_kterm t[FL_KPOLY_TERMS]; } fl_kpoly;

/* a / m in C, of integers of one type. a % m is a - m * (a / m), so that what was taken apart
** and put together again cancels. */
typedef struct fl_kquotient { fl_kpoly a; fl_kterm m; int type; } fl_kquotient;

struct fl_kindices {
  fl_mem *m;
  const fl_kfunc *f;
  int geometry;
  const fl_klaunched *launched;             /* NULL: not known */
  fl_klimits *used;                         /* of it */
  fl_karena arena;                          /* of what follows */
  fl_kdefs *defs;
  uint8_t *level;                           /* by variable: how equal it is in threads (index.c) */
  int changed;
  struct fl_kseen { int n; fl_kpoly at[FL_KPOLY_SEEN]; } *seen;      /* indices: fl_kresidue.same */
  struct fl_kquotients { int n; fl_kquotient at[FL_KPOLY_QUOTIENTS]; } *quotients;
};

/* Where an expression stands: the number of its statement, the loops around it. 'same': the threads
** that are looked at are in the same round of all loops, so what is equal in a block (a grid) is
** one number. */
typedef enum { FL_KSAME_NONE, FL_KSAME_IN_BLOCK, FL_KSAME_IN_GRID } fl_ksame;
typedef struct fl_kplace {
  int32_t order; int32_t loops[FL_KPOLY_LOOPS]; int n_loops; fl_ksame same;
} fl_kplace;

/* The value of integer expression x there; 'bad' where it is no such polynomial. */
fl_kpoly fl_kpoly_of(const fl_kindices *k, const fl_kplace *at, const fl_kexpr *x);
/* blockIdx.a * blockDim.a * P + threadIdx.a * P becomes the global index of a, times P. */
void fl_kpoly_join(fl_kpoly *p);
void fl_kpoly_add(fl_kpoly *p, fl_kterm t);
void fl_kpoly_subtract(fl_kpoly *a, const fl_kpoly *b);      /* a = a - b */
int fl_kpoly_same(const fl_kpoly *a, const fl_kpoly *b);
int fl_kpoly_is_natural(const fl_kpoly *p);                  /* for sure not negative */
/* Is p the single symbol s? */
static inline int fl_kpoly_is(const fl_kpoly *p, int32_t s) {
  return !p->bad && p->n == 1 && p->t[0].c == 1 && p->t[0].n == 1 && p->t[0].s[0] == s;
}
int fl_kterm_same(const fl_kterm *a, const fl_kterm *b);     /* the same product */
int fl_kterm_holds(const fl_kterm *t, int32_t s);
void fl_kterm_drop(fl_kterm *t, int32_t s);                  /* one factor */
fl_kterm fl_kterm_product(const fl_kterm *a, const fl_kterm *b, int *ok);
/* |big / small|; *ok: it is one term. */
fl_kterm fl_kterm_ratio(const fl_kterm *big, const fl_kterm *small, int *ok);
/* Is symbol s the same in all threads of the launch? */
int fl_kpoly_is_uniform(const fl_kindices *k, int32_t s);

/* An index as digits of the thread: shift + scale * (d0 + m0 * (d1 + m1 * d2)). Every thread of
** the launch is one set of digits. */
enum { FL_KDIGITS = 3 };
typedef struct fl_kdigits {
  int n;
  int32_t symbol[FL_KDIGITS];               /* threadIdx, blockIdx or GLOBAL + axis */
  fl_kterm modulus[FL_KDIGITS - 1];         /* m0, m1: positive multiples of uniform products */
  int64_t scale;
  fl_kpoly whole, shift;                    /* the index; what is the same in all threads of it */
  uint8_t unique;                           /* d0 < m0, d1 < m1 wherever the place is reached */
} fl_kdigits;
/* 0: the index of statement s is not of that form, or s stands in a loop. */
int fl_kindex_digits(const fl_kindices *k, const fl_kstmt *s, const fl_kexpr *index,
                     fl_kdigits *out);
/* 0 <= d < m wherever s is reached (m NULL: 0 <= d alone)? 'need' (a byte for each parameter of the
** function): parameters that must be positive for it to be so. */
int fl_kindex_below(const fl_kindices *k, const fl_kstmt *s, const fl_kpoly *d, const fl_kterm *m,
                    uint8_t *need);
/* The place of s, behind the conditions on the way to it; 0: not found. */
int fl_kindex_place(const fl_kindices *k, const fl_kstmt *s, fl_kplace *at);
#endif
