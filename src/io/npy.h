/* Shared by npy.c and zip.c: the header and the value of an array within a reader. */
#ifndef FL_IO_NPY_H
#define FL_IO_NPY_H
#include "io/io.h"
#include "base/text.h"

typedef struct fl_npy { int dtype, rank, fortran, swap, packed; int64_t size[FL_MAX_AXES]; } fl_npy;
flame_status fl_npy_head(fl_reader *f, fl_npy *h);        /* checks the size against the reader */
fl_node *fl_npy_value(fl_reader *f, const fl_npy *h, int device);
flame_status fl_npy_text(fl_text *t, const fl_node *n);   /* the dictionary, padded */
/* Appends the whole header of n's npy file, that is all bytes before the elements, to t. */
flame_status fl_npy_bytes(flame_context *c, fl_node *n, fl_text *t);
#endif
