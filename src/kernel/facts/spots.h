/*
** Where each statement of a function is: its number, the statement around it, and the exits before
** it in its block. One walk of the tree makes the table, which does not change; the tree must not
** change either.
*/
#ifndef FL_KERNEL_SPOTS_H
#define FL_KERNEL_SPOTS_H
#include "kernel/tree/tree.h"

/* A statement. Its place (defs.h) is its position in the table + 1. first, next: where the first
** "if (c) return;", break, continue or leave of its block is, of those before it, and the one after
** that in the same block; -1: there is none. */
typedef struct fl_kspot {
  const fl_kstmt *s;
  int32_t around;                           /* the statement whose block this is in; -1: none */
  int32_t begin;                            /* the first statement of that block */
  int32_t first, next;
  uint8_t other;                            /* it is in s->other of that statement */
} fl_kspot;
typedef struct fl_kspots {
  fl_kspot *at;
  int32_t n;
  int32_t *slot;                            /* hash table: 1 + position, by address; 0: empty */
  uint32_t mask;
} fl_kspots;

/* The table of b, in the arena; NULL: no memory. */
fl_kspots *fl_kspots_new(fl_karena *a, fl_kblock b);
int32_t fl_kspots_find(const fl_kspots *t, const fl_kstmt *s);            /* -1: it is not there */
#endif
