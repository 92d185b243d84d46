/* The search for the thread that owns an element (own.c), for own_places.c and own_rounds.c too. */
#ifndef FL_KERNEL_OWN_H
#define FL_KERNEL_OWN_H
#include "kernel/facts/route.h"

enum { FL_KOWN_SUMS = 16, FL_KOWN_KNOWN = 48, FL_KOWN_RESTS = 12 };

/* A remainder (unit / low) % (high / low). */
typedef struct fl_kown_rest { fl_kpoly unit; fl_kterm low, high; } fl_kown_rest;

/* Two threads that access one element are compared. "Known" is what is equal in both. */
typedef struct fl_kown_search {
  fl_kroute r;                              /* the access, and the conditions on the way to it */
  fl_kpoly sum[FL_KOWN_SUMS];               /* polynomials that are known */
  uint8_t used[FL_KOWN_SUMS];               /* sum[i] was split into digits, which are known */
  int n_sums, n_given;                      /* n_given: the first sums, which no proof adds */
  int32_t known[FL_KOWN_KNOWN];             /* symbols that are known */
  int n_known;
  fl_kown_rest rests[FL_KOWN_RESTS];        /* remainders that are known */
  int n_rests;
  int changed;                              /* something became known in this round of the search */
} fl_kown_search;

/* Returns FL_KI_OWNED_… for an access with the index at w->r. same[0], same[1]: fl_kplace.same for
** the proof about all threads of the launch, and for that about the threads of a block. */
int fl_kown_prove(fl_kown_search *w, const fl_kexpr *index, const fl_ksame same[2]);
/* Writes the terms of the sum that are not known as digits, *n of them; 0: it has another form. */
int fl_kown_digits(const fl_kown_search *w, const fl_kpoly *sum, fl_kdigit *d, int *n);
/* As fl_kown_prove, but all that is known is n digits: no index and no conditions. used: the limits
** that the proof adds to (NULL: it may use none); k->used stays as it is. */
int fl_kown_prove_digits(const fl_kown_search *w, const fl_kdigit *d, int n, fl_klimits *used);
#endif
