/*
** Fourier transforms as a call: what its parameters mean. The input is (outer, size_in, inner),
** each element a complex number of two, or a real one; transforms of length n run along the middle
** axis. The input is cut, or extended with zeros, to n; the result is cut, or extended, to
** size_out. across > 1: the input is (outer, across, n), of complex numbers, and the axis before
** the last is transformed first: in two passes, or one of a library that transforms two axes.
*/
#ifndef FL_TENSOR_CALL_FFT_H
#define FL_TENSOR_CALL_FFT_H
#include "tensor/call.h"

typedef enum {
  FL_FFT_COMPLEX,              /* complex to complex */
  FL_FFT_TO_HALF,              /* real input to the first n/2 + 1 numbers of its transform */
  FL_FFT_FROM_HALF             /* inverse: the first n/2 + 1 numbers to a real result */
} fl_fft_mode;

typedef struct fl_fft_form {
  int64_t outer, size_in, inner, n, size_out;
  int mode, inverse, norm;     /* norm: the result is divided by: 0: nothing, 1: n, 2: sqrt(n) */
  int64_t across;              /* 1: one axis */
} fl_fft_form;

/* Reads the call's parameters; 0 if they are invalid. */
int fl_fft_form_of(const fl_call *call, fl_fft_form *f);
/* Splits a call over two axes: pass[0] transforms the axis before the last, pass[1] the last. */
void fl_fft_passes(const fl_call *call, fl_call pass[2]);
#endif
