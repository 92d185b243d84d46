/*
** Collectives as calls of kind 'collective': what the parameters say. in[0] is the array, if there
** is one (ARRAYS is 1), followed by the effect (node.h) before it, if that was PENDING;
** scalar[0].i is the site that recorded it. group/ runs them.
*/
#ifndef FL_TENSOR_CALL_COLLECTIVE_H
#define FL_TENSOR_CALL_COLLECTIVE_H
#include "tensor/call.h"

/* n ranks, of which this is rank r. Sizes of the result: */
enum {
  FL_COLLECT_BARRIER,        /* 0 */
  FL_COLLECT_ALL_REDUCE,     /* the size of the array; each element is reduced over all ranks */
  FL_COLLECT_ALL_GATHER,     /* n times the size of the array: the arrays of all ranks */
  FL_COLLECT_REDUCE_SCATTER, /* 1 / n of the size of the array: part r of the reduced array */
  FL_COLLECT_BROADCAST,      /* the size of the array: the array of rank 'peer' */
  FL_COLLECT_ALL_TO_ALL,     /* the size of the array: part r of the array of each rank */
  FL_COLLECT_SEND,           /* 0; to 'peer' */
  FL_COLLECT_RECEIVE,        /* any size; from 'peer' */
  FL_COLLECT_COUNT,
  FL_COLLECT_END = FL_COLLECT_COUNT,     /* not calls: END: the rank's script has ended; */
  FL_COLLECT_FINE                        /* FINE: the rank's checks found no fault */
};
/* MEAN: the sum divided by n. Scripts record a SUM for half types and divide it themselves, since
** NCCL would round each part of the mean. */
enum { FL_REDUCE_SUM, FL_REDUCE_MEAN, FL_REDUCE_MAX, FL_REDUCE_MIN, FL_REDUCE_COUNT };
/* Indices of p[]. Ranks must agree on all of them; the two ranks of a SEND and its RECEIVE only on
** those from TRACKED on. JOINS: 1: nothing needs its result before the next collective, so a device
** may do both in one. TRACKED: 1: there will be a gradient, which is a collective too. NOTE: a
** number of the caller, such as a hash of what else must be equal. From SIZES on: the array's
** shape. */
enum { FL_COLLECT_WHAT, FL_COLLECT_REDUCE, FL_COLLECT_PEER, FL_COLLECT_RANKS, FL_COLLECT_ARRAYS,
       FL_COLLECT_JOINS, FL_COLLECT_TRACKED, FL_COLLECT_NOTE, FL_COLLECT_NDIM, FL_COLLECT_SIZES };
#endif
