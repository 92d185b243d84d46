/*
** Launches of user kernels. The binding (for k(…), k:launch and derived kernels) and a host make
** one like this:
**
**   fl_launch l;
**   fl_launch_begin(&l, c, function);                          one argument each, in any order:
**   if (!fl_launch_takes(&l, 0, "int", x)) return …;           may x be passed for parameter 0?
**   fl_launch_input(&l, 0, fl_launch_hold(&l, x));             const float *x; -1 is an error
**   fl_launch_output(&l, 1, FLAME_F32, 1, &n, -1);             float *y: zeros, a result
**   fl_launch_bytes(&l, 2, &count, sizeof count);              int n
**   fl_launch_elements(&l, n);                                 or set l.p[FL_KP_GRID] …
**   fl_node *y[1];
**   if (fl_launch_check(&l) == FLAME_OK && fl_launch_ready(&l) == FLAME_OK)
**     fl_launch_record(&l, y);                                 runs when a result is needed
**
** With l.batch = n all of this describes one launch, and n launches are made. The results, and the
** inputs given by fl_launch_each, then have a first axis of n parts, one for each launch.
**
** An argument that is not given is a null pointer. All errors are kept in the context, with the
** kernel's name. Results are borrowed from the innermost scope, and are not tracked.
*/
#ifndef FL_ENGINE_LAUNCH_H
#define FL_ENGINE_LAUNCH_H
#include "engine/engine.h"
#include "kernel/function.h"
#include <string.h>

typedef struct fl_launch {
  flame_context *c;
  fl_kfunction *k;
  const char *name;                    /* of the kernel */
  int64_t p[FL_CALL_PARAMS];           /* FL_KP_… */
  fl_scalar scalar[FL_KP_SCALARS];
  int nscalar, nin, nout, device;      /* device: the default one, then that of the first array */
  fl_node *in[FL_CALL_INPUTS];
  struct fl_launch_out {
    int dtype, input, rank;         /* input: the held input with its initial contents; -1: zeros */
    int64_t at, bytes, size[FL_MAX_AXES];
  } out[FL_KP_MAX_ARGS];
  int64_t bytes;                       /* bytes of the packed result so far */
  int64_t batch;                       /* number of launches, which is an axis of the arrays; 0: a
                                       ** single launch, without such an axis */
} fl_launch;

void fl_launch_begin(fl_launch *l, flame_context *c, fl_kfunction *k);
/* May x be the array for parameter i? The first array determines the launch's device, on which all
** must be. 0: no, with an error. index: C's name of the 4-byte type with which the kernel counts
** elements; NULL: a wider type. */
int fl_launch_takes(fl_launch *l, int i, const char *index, const fl_node *x);
/* Adds an array that is read, borrowed until the launch is recorded. Returns its index in l->in;
** -1: there are too many. */
int fl_launch_hold(fl_launch *l, fl_node *x);
static inline void fl_launch_input(fl_launch *l, int i, int held) {
  l->p[FL_KP_ARGS + 2 * i] = FL_KARG_IN + 8 * (int64_t)held;
}
/* Passes a held array that has a part for each launch of the batch as argument i. 0: the parts
** differ in size, or begin at addresses that the kernel can not read. */
int fl_launch_each(fl_launch *l, int i, int held);
/* Adds a result; dtype and shape are those of one launch. input: the held array with the initial
** contents, for the whole batch; -1: zeros. */
flame_status fl_launch_output(fl_launch *l, int i, int dtype, int rank, const int64_t *size,
                              int input);
/* Memory for a number or a struct of that many bytes as CUDA lays it out; NULL: too many. */
void *fl_launch_room(fl_launch *l, int i, int64_t bytes);
static inline int fl_launch_bytes(fl_launch *l, int i, const void *from, int64_t bytes) {
  void *to = fl_launch_room(l, i, bytes);
  if (to) memcpy(to, from, (size_t)bytes);
  return to != NULL;
}
/* Writes a number in the format of a parameter of that floating-point type. */
void fl_launch_put_float(int type, double d, void *to);
/* fl_launch_block: the default number of threads per block. fl_launch_elements: describes a launch
** with one thread for each of n elements. */
int64_t fl_launch_block(const fl_kfunc *f);
void fl_launch_elements(fl_launch *l, int64_t n);
/* Checks that every device accepts the geometry. */
flame_status fl_launch_check(const fl_launch *l);
/* Compiles the kernel for the device if necessary. An error refers to its text, with the script's
** line. */
flame_status fl_kernel_ready(flame_context *c, fl_kfunction *k, int device);
flame_status fl_launch_ready(const fl_launch *l);
/* Is it proven that a launch with these p[] and numbers writes all bytes of argument i? While
** checks are on the answer is no. */
int fl_kernel_covers(const fl_kfunction *k, const int64_t *p, const fl_scalar *scalar, int i,
                     int64_t bytes);
flame_status fl_launch_record(fl_launch *l, fl_node **results);
#endif
