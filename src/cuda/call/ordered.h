/* Sums of a user kernel's gradients that do not depend on the order of threads (ordered.c). The
** launches come between fl_ordered_begin and fl_ordered_end, and fl_ordered_judge between them. */
#ifndef FL_CUDA_ORDERED_H
#define FL_CUDA_ORDERED_H
#include "cuda/call/call.h"

int64_t fl_ordered_scratch(const fl_kfunction *k, const fl_call *c);    /* bytes; 0: no such sums */
/* queues the compilation of the kernels that are launched here; 0: it failed, the context has the
** error */
int fl_ordered_want(fl_cuda *s, const fl_kfunction *k);
flame_status fl_ordered_begin(fl_cuda *s, const fl_kfunction *k, const fl_call_run *r);
flame_status fl_ordered_judge(fl_cuda *s, const fl_kfunction *k, const fl_call_run *r);
flame_status fl_ordered_end(fl_cuda *s, const fl_kfunction *k, const fl_call_run *r);
/* Does fl_ordered_end store all of the result that argument i points to? Then nothing fills it
** before the launches. */
int fl_ordered_stores(const fl_kfunction *k, const fl_call *c, int i);
#endif
