/*
** The facts about the accesses of a function, found once and kept by the number of the access
** (site), which stays when AD rewrites the tree: how its index differs between threads, which
** thread owns an element, what rounds of loops have to do with each other. Each is proven; what is
** not says nothing.
*/
#ifndef FL_KERNEL_FACTS_H
#define FL_KERNEL_FACTS_H
#include "kernel/facts/access.h"

typedef struct fl_kfact {
  uint8_t class;             /* fl_kindex */
  uint8_t own;               /* no other thread has the same index; this one may have it again */
  uint8_t stored;            /* a plain STORE to shared or global memory, and: */
  uint8_t owned;             /* no two threads that share the memory store to one element here */
  uint64_t rounds;           /* fl_kindex_rounds, by label of the loop */
  uint64_t final;            /* LOAD: loops in which it finds what the element holds after the loop:
                             ** fl_kindex_is_behind of all stores to its array */
  fl_kshape shape;
} fl_kfact;

/* Two stores whose elements are one thread's own, together. */
typedef struct fl_kpair { int32_t site, other; struct fl_kpair *next; } fl_kpair;

typedef struct fl_kfacts {
  const fl_kfunc *f;
  int32_t n;                 /* sites */
  fl_kfact *at;
  uint64_t *var_rounds;      /* by variable: loops no round of which has an element of the array
                             ** that another round has, though it has several: see rounds.c */
  fl_kpair *pairs;
} fl_kfacts;

/* launched (NULL: any launch), used: as for fl_kindices_launch. In 'a'; NULL: no memory. */
fl_kfacts *fl_kfacts_new(fl_karena *a, const fl_kfunc *f, int geometry,
                         const fl_klaunched *launched, fl_klimits *used);
/* Of an access that was not in f, or x NULL: nothing is known. */
static inline const fl_kfact *fl_kfact_of(const fl_kfacts *x, int32_t site) {
  static const fl_kfact none = { .shape = { 1, 0, 0, 0 } };
  return x && site >= 0 && site < x->n ? &x->at[site] : &none;
}
/* Do elements that both stores write belong to one thread? */
int fl_kfacts_are_paired(const fl_kfacts *x, int32_t site, int32_t other);

/* ---- two accesses of one array ---- */

/* Are their indices never one number, in any threads at any time? */
int fl_kfact_is_apart(const fl_kfact *a, const fl_kfact *b);
/* Are they one function of the thread and of the counters around? */
static inline int fl_kfact_is_one(const fl_kfact *a, const fl_kfact *b) {
  return a->shape.alike && a->shape.core == b->shape.core && a->shape.rest == b->shape.rest;
}
/* The same, of counters that count alike. Where both indices tell threads apart, both are numbers
** in mixed radix with the thread among the digits; the digits of an element are the same whichever
** of the two made it, and so is the thread. */
static inline int fl_kfact_is_alike(const fl_kfact *a, const fl_kfact *b) {
  return a->shape.alike && a->shape.alike == b->shape.alike;
}
/* Are they different wherever variables have one value for both? */
static inline int fl_kfact_differs(const fl_kfact *a, const fl_kfact *b) {
  return a->shape.core && a->shape.core == b->shape.core && a->shape.rest != b->shape.rest;
}
/* Accesses whose indices are one core with rests nearer to each other than its mod: an element is
** of one value of the core. */
typedef struct fl_kspan { int32_t core; int64_t least, most; uint8_t any, split; } fl_kspan;
void fl_kspan_add(fl_kspan *s, const fl_kfact *x);       /* split: they are not so */
/* rounds.c: var_rounds, fl_kfact.final */
void fl_kfacts_rounds(fl_kfacts *x, const fl_kindices *k);
static inline int fl_kloop_bit(uint64_t loops, int32_t label) {
  return label >= 0 && label < 64 && (loops >> label & 1);
}
#endif
