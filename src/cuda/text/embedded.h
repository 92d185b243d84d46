/*
** Texts that are part of the library, made into C arrays by tools/embed.c at build time: the files
** of kernels/ and the numeric definitions of tensor/math.h that every generated kernel starts with.
** The last entry of a table has a NULL name. All texts end in a NUL that 'size' does not count. The
** Lua files (lua/embedded.h) have the same format. Deflated texts (zlib) are inflated when they are
** used.
*/
#ifndef FL_CUDA_EMBEDDED_H
#define FL_CUDA_EMBEDDED_H
#include "base/text.h"

struct fl_embedded {
  const char *name;
  const char *text;
  size_t size;              /* of what is at 'text' */
  size_t inflated;          /* size when inflated (zlib); 0: it is not deflated */
};

extern const char fl_math_text[];                       /* src/tensor/math.h */
extern const struct fl_embedded fl_embedded_kernels[];  /* "softmax.cu": file names in kernels/ */

/* Appends the file of kernels/ with that name. 0: there is none; if memory is out, 'out' has
** failed. */
int fl_embedded_put(fl_text *out, const char *name);
#endif
