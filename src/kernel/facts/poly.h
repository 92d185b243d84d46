/*
** What is known of the variables of one function, and its index expressions as polynomials at a
** place. index.c (classes, digits), own.c (which thread owns an element) and ad/gather*.c (which
** thread accessed an element) read it. Internal to the analysis of one function.
*/
#ifndef FL_KERNEL_POLY_H
#define FL_KERNEL_POLY_H
#include "kernel/facts/access.h"
#include "kernel/facts/defs.h"
#include "kernel/facts/form.h"
#include "kernel/facts/uniform.h"

enum { FL_KPOLY_LOOPS = 32 };

/* A part of an index that is not a polynomial (idx[i]) and the symbol that stands for its value.
** order: place (defs.h) at which it is evaluated; 0: in the statement that uses the index. */
typedef struct fl_kunknown {
  const fl_kexpr *x;
  int32_t order, symbol;
  struct fl_kunknown *next;
} fl_kunknown;

struct fl_kindices {
  fl_mem *m;
  const fl_kfunc *f;
  int geometry;
  const fl_klaunched *launched;             /* NULL: not known */
  fl_klimits *used;                         /* of it */
  fl_karena arena;                          /* of what follows */
  fl_kdefs *defs;
  fl_kuniform *uniform;
  fl_kpolys *seen;                         /* the cores (fl_kshape) of the indices that were read */
  fl_kunknown **unknown;                   /* list of parts of indices that are not polynomials */
  fl_kquotients *quotients;
  struct fl_kroute *last;                  /* the way to the statement asked about last (route.h),
                                           ** since one statement is asked about many times */
  int last_is_found;
};

/* The place of an expression: the number of its statement and the loops around it. same: the
** threads that are compared are in the same iteration of all loops, so a value that is equal in a
** block (a grid) counts as one number. */
typedef enum { FL_KSAME_NONE, FL_KSAME_IN_BLOCK, FL_KSAME_IN_GRID } fl_ksame;
typedef struct fl_kplace {
  int32_t order; int32_t loops[FL_KPOLY_LOOPS]; int n_loops; fl_ksame same;
} fl_kplace;

/* The polynomial of integer expression x at the place; 'bad' if it has none. */
fl_kpoly fl_kpoly_of(const fl_kindices *k, const fl_kplace *at, const fl_kexpr *x);
/* fl_kpoly_of, but with symbols for the parts that are not polynomials: one symbol for equal
** expressions at one place. */
fl_kpoly fl_kpoly_guess(const fl_kindices *k, const fl_kplace *at, const fl_kexpr *x);
int64_t fl_kdivisor(int64_t a, int64_t b);                   /* the greatest common one */
/* Is symbol s the same in all threads of the launch? k: a fl_kindices. */
int fl_kpoly_is_uniform(const void *k, int32_t s);
/* The quotient that symbol s is. */
static inline const fl_kquotient *fl_kquotient_of(const fl_kindices *k, int32_t s) {
  return &k->quotients->at[s - FL_KSYM_QUOTIENT];
}
/* Has x the same value in all threads that are compared at the place? */
int fl_kplace_agrees(const fl_kindices *k, const fl_kplace *at, const fl_kexpr *x);

/* An index made of digits of the thread: shift + scale * (d0 + m0 * (d1 + m1 * d2)). A digit is an
** index of the thread, or its quotient by a number; indices of different digits determine the
** thread. */
enum { FL_KDIGITS = 3, FL_KSHARERS = 8 };
typedef struct fl_kdigits {
  int n;
  int32_t symbol[FL_KDIGITS];               /* threadIdx, blockIdx or GLOBAL + axis */
  int64_t by[FL_KDIGITS];                   /* the digit is symbol / by, of 1 to SHARERS threads */
  fl_kterm modulus[FL_KDIGITS - 1];         /* m0, m1: positive multiples of uniform products */
  int64_t scale;
  fl_kpoly whole, shift;             /* the index; the part of it that is the same in all threads */
  uint8_t unique;                           /* d0 < m0, d1 < m1 wherever the place is reached */
  uint8_t tight;                            /* scale * d0 < m0, scale * d1 < m1 as well */
} fl_kdigits;
/* Finds the digits of the index of statement s; 0: it does not have this form, or s is in a
** loop. */
int fl_kindex_digits(const fl_kindices *k, const fl_kstmt *s, const fl_kexpr *index,
                     fl_kdigits *out);
/* Is 0 <= d < m wherever s is reached (m NULL: only 0 <= d)? need: a byte for each parameter of the
** function, set to 1 if the parameter must be positive for that. */
int fl_kindex_below(const fl_kindices *k, const fl_kstmt *s, const fl_kpoly *d, const fl_kterm *m,
                    uint8_t *need);
/* Sets *at to the place of statement s, inside the loops around it; 0: not found. */
int fl_kindex_place(const fl_kindices *k, const fl_kstmt *s, fl_kplace *at);
#endif
