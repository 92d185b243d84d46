/*
** Texts that travel inside the library, made into C arrays by tools/embed.c at build time:
** the files of kernels/ and the numeric definitions of tensor/math.h that every generated
** kernel starts with. The last entry of a table has a NULL name. All texts end in a NUL
** that 'size' does not count. The Lua files (lua/embedded.h) share the form; those may be
** deflated, kernels never are.
*/
#ifndef FL_CUDA_EMBEDDED_H
#define FL_CUDA_EMBEDDED_H
#include <stddef.h>

struct fl_embedded {
  const char *name;
  const char *text;
  size_t size;              /* of what is at 'text' */
  size_t inflated;          /* bytes it has once inflated (zlib); 0: it is as it is */
};

extern const char fl_math_text[];                       /* src/tensor/math.h */
extern const struct fl_embedded fl_embedded_kernels[];  /* "softmax.cu": file names in kernels/ */
#endif
