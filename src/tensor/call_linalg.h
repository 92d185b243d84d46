/*
** Calls on matrices: what their parameters mean. Every kind works on a batch of matrices,
** packed one after the other; results of several parts are packed part by part, each with all
** matrices of the batch.
*/
#ifndef FL_TENSOR_CALL_LINALG_H
#define FL_TENSOR_CALL_LINALG_H
#include "tensor/call.h"

typedef struct fl_linalg_form {
  int64_t batch;
  int batched;                       /* messages name the position in the batch */
  int64_t m, n, k;                   /* rows; columns; columns of a right-hand side or, of qr, of Q;
                                     ** of svd the lesser of m and n */
  int a, b;                          /* flags of the kind */
  int nin, nout;
  int64_t in[2], out[3];             /* elements of one matrix in each input and each result part */
} fl_linalg_form;

/* Reads the call's parameters; 0 if they are invalid. */
int fl_linalg_form_of(const fl_call *call, fl_linalg_form *f);

/* Why a matrix has no result. */
enum { FL_LINALG_OK, FL_LINALG_SINGULAR, FL_LINALG_INDEFINITE, FL_LINALG_NOT_FINITE,
       FL_LINALG_NO_CONVERGENCE };
/* Writes a message of FL_CALL_FAULT bytes to 'fault': why matrix 'at' (from 0) has no result. */
void fl_linalg_fault(const fl_linalg_form *f, int64_t at, int why, char *fault);
#endif
