/*
** What is known of the variables of one function (fl_kindices of access.h), and its index
** expressions as polynomials at a place. Its clients are index.c (classes, digits), own.c (which
** thread owns an element) and ad/gather*.c (which thread accessed an element).
*/
#ifndef FL_KERNEL_POLY_H
#define FL_KERNEL_POLY_H
#include "kernel/facts/access.h"
#include "kernel/facts/defs.h"
#include "kernel/facts/form.h"
#include "kernel/facts/spots.h"
#include "kernel/facts/uniform.h"

enum { FL_KPOLY_LOOPS = 32 };              /* nested loops at most */

/* A part of an index that is not a polynomial (idx[i]) and the symbol that stands for its value.
** order: place (defs.h) at which it is evaluated. 0 for UNKNOWN: in the statement that uses the
** index; 0 for SAME: it has one value wherever it is read, in one iteration of the loops around. */
typedef struct fl_kunknown {
  const fl_kexpr *x;
  int32_t order, symbol;
  struct fl_kunknown *next;
} fl_kunknown;

struct fl_kindices {
  fl_mem *m;
  const fl_kfunc *f;
  int geometry;                             /* FL_KONE_… */
  const fl_klaunched *launched;             /* the launch; NULL: any */
  fl_klimits *used;                         /* what proofs have used of it */
  fl_karena arena;                          /* holds what follows */
  fl_kdefs *defs;
  fl_kuniform *uniform;
  fl_kpolys *seen;                          /* gives fl_kshape and fl_kstrip their numbers */
  fl_kunknown **unknown, **equal;           /* lists of the symbols UNKNOWN and SAME */
  fl_kquotients *quotients;
  fl_kspots *spots;                         /* made when a route is asked for first */
};

/* The place of an expression: the number of its statement (defs.h), and the loops around it by
** label, the outermost first; -1: it is in that loop's step. same: which threads a proof compares.
** IN_BLOCK: those of one block, IN_GRID: those of the launch, in the same iteration of all loops
** around; an expression that is equal in these threads and is no polynomial is then a symbol SAME.
** NONE: any threads, in any iterations; there is no SAME. */
typedef enum { FL_KSAME_NONE, FL_KSAME_IN_BLOCK, FL_KSAME_IN_GRID } fl_ksame;
typedef struct fl_kplace {
  int32_t order; int32_t loops[FL_KPOLY_LOOPS]; int n_loops; fl_ksame same;
} fl_kplace;

/* The polynomial of integer expression x at the place; 'bad' if it has none. */
fl_kpoly fl_kpoly_of(const fl_kindices *k, const fl_kplace *at, const fl_kexpr *x);
/* fl_kpoly_of with symbols UNKNOWN for the parts that are not polynomials, quotients among them:
** one symbol for equal expressions at one place. */
fl_kpoly fl_kpoly_guess(const fl_kindices *k, const fl_kplace *at, const fl_kexpr *x);
int64_t fl_kdivisor(int64_t a, int64_t b);      /* the greatest common divisor, not negative */
/* Is symbol s (not an UNKNOWN) equal in all threads of the launch and in all iterations? k: a
** fl_kindices. */
int fl_kpoly_is_uniform(const void *k, int32_t s);
/* The quotient that symbol s >= FL_KSYM_QUOTIENT is. */
static inline const fl_kquotient *fl_kquotient_of(const fl_kindices *k, int32_t s) {
  return &k->quotients->at[s - FL_KSYM_QUOTIENT];
}
/* Has x certainly the same value in all threads that are compared at the place? */
int fl_kplace_agrees(const fl_kindices *k, const fl_kplace *at, const fl_kexpr *x);

/* An index made of digits of the thread: shift + scale * (d0 + m0 * (d1 + m1 * d2)). A digit is an
** index of the thread, or its quotient by a number. All digits together determine the thread; where
** one is a quotient, the group of threads that have that quotient. */
enum { FL_KDIGITS = 3, FL_KSHARERS = 8 };
typedef struct fl_kdigits {
  int n;
  int32_t symbol[FL_KDIGITS];               /* threadIdx, blockIdx or GLOBAL + axis */
  int64_t by[FL_KDIGITS];                   /* the digit is symbol / by, 1 <= by <= FL_KSHARERS */
  fl_kterm modulus[FL_KDIGITS - 1];         /* a positive number times symbols that are equal in all
                                            ** threads */
  int64_t scale;                            /* positive */
  fl_kpoly whole, shift;             /* the index; the part of it that is the same in all threads */
  uint8_t unique;                           /* d0 < m0, d1 < m1 wherever the place is reached */
  uint8_t tight;                            /* scale * d0 < m0, scale * d1 < m1 as well, and 'by' is
                                            ** 1 for all digits but the last */
} fl_kdigits;
/* Finds the digits of the index of statement s; 0: it does not have this form, or s is a loop or in
** one. */
int fl_kindex_digits(const fl_kindices *k, const fl_kstmt *s, const fl_kexpr *index,
                     fl_kdigits *out);
/* Is 0 <= d < m wherever s is reached (m NULL: only 0 <= d)? need: a byte for each parameter of the
** function, set to 1 where the answer "yes" may rest on the parameter being positive. */
int fl_kindex_below(const fl_kindices *k, const fl_kstmt *s, const fl_kpoly *d, const fl_kterm *m,
                    uint8_t *need);
/* Sets *at to the place of statement s, inside the loops around it; 0: not found. */
int fl_kindex_place(const fl_kindices *k, const fl_kstmt *s, fl_kplace *at);
#endif
