/*
** A source text and the kernels found in it. Every __global__ function gets a fl_kfunc with its
** signature; one whose body lies outside the language (docs/kernels.md) has no body but a refusal
** with line and reason: it still runs on the GPU as given, without a derivative.
*/
#ifndef FL_KERNEL_SOURCE_H
#define FL_KERNEL_SOURCE_H
#include "kernel/front/lexer.h"
#include <stdatomic.h>

typedef struct fl_ksource {
  fl_mem *mem;
  fl_karena arena;           /* holds everything below, and also what AD derives */
  const char *text;          /* as given */
  fl_kfunc **kernels;        /* in the order of the text */
  int32_t n_kernels;
  int host;                  /* it has host code, which NVRTC may not compile */
  int included;              /* it was read together with files that it includes */
  int32_t error_line;    /* line of 'error', the reason why the text has no kernel; 0: none */
  const char *error;         /* why the text has no kernel; NULL: it has one */
  int32_t too_large_line;    /* line of something that no compiler accepts: it is too large (arrays,
                             ** nesting, length), or is a wrong directive; 0: none */
  const char *too_large;     /* what is wrong; NULL: nothing. The text is given to no compiler */
} fl_ksource;

/* NULL only when memory is out (*e is FLAME_NO_MEMORY). A wrong text is not a failure: see 'error',
** and the refusal of each kernel. The text has n bytes; a NUL inside ends it. */
fl_ksource *fl_ksource_parse(fl_mem *m, fl_error *e, const char *text, size_t n);
/* fl_ksource_parse of the text as a compiler with these options sees it: -D, -U and their long
** forms count. files: what it may include, or NULL. It fails with FLAME_INTERRUPTED if *stop
** becomes nonzero (stop may be NULL). forms: what is known of the arguments before the text is
** read, or NULL. "bias=0,mask=0," says that these parameters are null pointers: a test such as
** "bias != nullptr" is answered while the text is read, and a statement stops a thread that would
** read or write through one of them, so no access to them is left. "xs=3," says that xs, a T **, is
** a list of three arrays: three parameters are read in its place. "y.size(1)=2," says that this
** length of an accessor's tensor is equal to parameter 2 of the kernel (counted from 0), which is
** such a length too and comes before it. */
fl_ksource *fl_ksource_parse_until(fl_mem *m, fl_error *e, const char *text, size_t n,
                                   const char *const *option, int n_options, fl_kfiles *files,
                                   const char *forms, const atomic_int *stop);
void fl_ksource_free(fl_ksource *s);                           /* s may be NULL */
fl_kfunc *fl_ksource_kernel(const fl_ksource *s, const char *name);   /* NULL: no such kernel */
/* "kernel 'k', line N: reason" for a kernel without body, in s's arena; "" if it has one, or memory
** is out. */
const char *fl_ksource_refusal(fl_ksource *s, const fl_kfunc *f);

/* "x, y -> sqrtf(x*x + y*y)": the names and the expression of flame.map. */
typedef struct fl_kmap {
  fl_mem *mem;
  fl_karena arena;
  fl_kfunc *f;               /* its first n_args variables are the arguments; the body is empty */
  int32_t n_args;
  fl_kexpr *value;           /* NULL: see error */
  const char *error;         /* why the text was refused; NULL: it was not */
} fl_kmap;

/* Number of names before "->"; -1: the text does not begin with names, commas between them and a
** "->", or memory is out. */
int fl_kmap_arity(const char *text, size_t n);
/* types[i]: fl_ktype of the i-th argument. Literals follow C's rules, but if 'result' is a float
** type other than F64, floating literals without suffix are F32. The value is converted to
** 'result', unless that is VOID. NULL: memory is out (*e). */
fl_kmap *fl_kmap_parse(fl_mem *m, fl_error *e, const char *text, size_t n,
                       const uint8_t *types, int n_types, int result);
void fl_kmap_free(fl_kmap *x);
#endif
