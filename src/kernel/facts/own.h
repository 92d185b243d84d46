/* The search for the thread that owns an element (own.c), for its client own_places.c. */
#ifndef FL_KERNEL_OWN_H
#define FL_KERNEL_OWN_H
#include "kernel/facts/route.h"

enum { FL_KOWN_SUMS = 16, FL_KOWN_KNOWN = 48, FL_KOWN_RESTS = 12 };

/* (unit / low) % (high / low) */
typedef struct fl_kown_rest { fl_kpoly unit; fl_kterm low, high; } fl_kown_rest;

typedef struct fl_kown_search {
  fl_kroute r;
  fl_kpoly sum[FL_KOWN_SUMS];
  uint8_t used[FL_KOWN_SUMS];
  int n_sums, n_given;
  int32_t known[FL_KOWN_KNOWN];
  int n_known;
  fl_kown_rest rests[FL_KOWN_RESTS];                    /* that are known */
  int n_rests;
  int changed;
} fl_kown_search;

/* Returns FL_KI_OWNED_…. step[0], step[1]: which values are equal in the threads that are compared,
** for the proof in a grid and for that in a block. */
int fl_kown_prove(fl_kown_search *w, const fl_kexpr *index, const fl_ksame step[2]);
/* Writes the sum as digits; 0: it is none of digits. */
int fl_kown_digits(const fl_kown_search *w, const fl_kpoly *sum, fl_kdigit *d, int *n);
/* As fl_kown_prove, where the threads that are compared agree in n digits and nothing else is
** known, no condition either. used: the limits that the proof adds to (NULL: it may use none);
** k->used stays as it is. */
int fl_kown_prove_digits(const fl_kown_search *w, const fl_kdigit *d, int n, fl_klimits *used);
#endif
