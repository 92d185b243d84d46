/*
** The facts about the accesses of a function, found once and kept by the number of the access
** (site), which stays when AD rewrites the tree: how its index differs between threads, which
** thread owns an element, which iterations of loops share elements. Each fact is proven; a fact
** that is not set says nothing.
*/
#ifndef FL_KERNEL_FACTS_H
#define FL_KERNEL_FACTS_H
#include "kernel/facts/access.h"

typedef struct fl_kfact {
  uint8_t class;             /* fl_kindex */
  uint8_t own;       /* no other thread (of the block, in shared memory) has the same index; one
                     ** thread may have it several times */
  uint8_t stored;            /* it is a plain STORE to shared or global memory */
  uint8_t owned;     /* if 'stored': each element that it writes has one owner among the threads
                     ** that share the memory (fl_kindex_owned) */
  uint64_t rounds;           /* a bit per loop label: fl_kindex_rounds */
  uint64_t final;            /* LOAD: the innermost loop around (a bit), if the load finds the value
                             ** that the element has after the loop: fl_kindex_is_behind holds for
                             ** all stores to its array in it */
  fl_kshape shape;
  uint8_t lasts;             /* global memory. LOAD: it finds what the element has after the launch;
                             ** STORE: what it writes is what the element has then */
  /* LOAD. next: 1 + site of a store in the innermost loop around that reaches the load's element
  ** one round before; first, if next is set: 1 + site of a store before that loop, in the loop's
  ** block, that reaches the element of the load's first round. 0: none is known */
  int32_t next, first;
  fl_kstrip strip[FL_KSTRIPS];     /* fl_kindex_strips; the first with number 0 ends the list */
} fl_kfact;

/* Two stores: an element that both write is written by one of the threads that share the memory
** (fl_kindex_owned_by_one). */
typedef struct fl_kpair { int32_t site, other; struct fl_kpair *next; } fl_kpair;

typedef struct fl_kfacts {
  const fl_kfunc *f;
  int32_t n;                 /* number of sites */
  fl_kfact *at;
  uint64_t *var_rounds;      /* by variable (POINTER): the loops (bits) in which no two different
                             ** accesses of the array reach one element in different iterations, if
                             ** each access alone does not (fl_kfact.rounds; rounds.c) */
  fl_kpair *pairs;
} fl_kfacts;

/* The facts about all accesses of f. geometry: FL_KONE_… of access.h. launched (NULL: any launch),
** used: see fl_kindices_launch. The table is in 'a'; NULL: no memory. */
fl_kfacts *fl_kfacts_new(fl_karena *a, const fl_kfunc *f, int geometry,
                         const fl_klaunched *launched, fl_klimits *used);
/* The facts of an access; if it was not in f, or x is NULL, nothing is known. */
static inline const fl_kfact *fl_kfact_of(const fl_kfacts *x, int32_t site) {
  static const fl_kfact none = { .shape = { 1, 0, 0, 0 } };
  return x && site >= 0 && site < x->n ? &x->at[site] : &none;
}
/* Is it proven that each element that both stores write is written by one thread only? */
int fl_kfacts_are_paired(const fl_kfacts *x, int32_t site, int32_t other);

/* ---- two accesses of one array ---- */

/* Do the indices of the two accesses always differ, in any two threads at any time? */
int fl_kfact_is_apart(const fl_kfact *a, const fl_kfact *b);
/* Are the two indices the same function of the thread and of the counters around them? */
static inline int fl_kfact_is_one(const fl_kfact *a, const fl_kfact *b) {
  return a->shape.alike && a->shape.core == b->shape.core && a->shape.rest == b->shape.rest;
}
/* Do both accesses stay in one strip of elements that only one thread accesses (of a block, in
** shared memory)? */
int fl_kfact_is_one_strip(const fl_kfact *a, const fl_kfact *b);
/* Are the cores (fl_kshape) of the two indices the same function, except that equal counters may
** have different names? If both indices also differ between threads and have equal rests, both are
** numbers in mixed radix with the thread among the digits. An element then has the same digits in
** both, so the same thread. */
static inline int fl_kfact_is_alike(const fl_kfact *a, const fl_kfact *b) {
  return a->shape.alike && a->shape.alike == b->shape.alike;
}
/* Do the two indices differ whenever all variables have the same values for both? */
static inline int fl_kfact_differs(const fl_kfact *a, const fl_kfact *b) {
  return a->shape.core && a->shape.core == b->shape.core && a->shape.rest != b->shape.rest;
}
/* A set of accesses (any: there are some) whose indices have the same core, and rests from least to
** most. Unless 'split', these differ by less than fl_kshape.mod: each element belongs to one value
** of the core. */
typedef struct fl_kspan { int32_t core; int64_t least, most; uint8_t any, split; } fl_kspan;
/* Adds an access to the set. Sets 'split' if the cores differ or are unknown, or if the rests now
** differ by mod or more. */
void fl_kspan_add(fl_kspan *s, const fl_kfact *x);
/* Fills in var_rounds, and fl_kfact.final, next and first (rounds.c). */
void fl_kfacts_rounds(fl_kfacts *x, const fl_kindices *k);
/* Fills in fl_kfact.lasts, from all other facts (last.c). */
void fl_kfacts_last(fl_karena *a, fl_kfacts *x, const fl_kindices *k);
/* Is the loop with that label in the set of bits? Labels from 64 on never are. */
static inline int fl_kloop_bit(uint64_t loops, int32_t label) {
  return label >= 0 && label < 64 && (loops >> label & 1);
}
#endif
