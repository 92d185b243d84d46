/*
** Calls on a CUDA device: what call_<family>.c files build on. Functions queue work in the
** device's stream; the driver context is current. A call that has to know values of the
** device (a status of a factorisation) waits with fl_cuda_wait_all.
*/
#ifndef FL_CUDA_CALL_H
#define FL_CUDA_CALL_H
#include "cuda/state.h"
#include "kernel/function.h"

/* Kernels are texts of kernels/, compiled with 'defines' (lines of "#define …\n", may be empty)
** before them, so that one compilation holds one dtype. prelude: the math of tensor/math.h and
** kernels/prelude.cu come first. Queue it for compilation; 0: error kept. */
int fl_cuda_want_file(fl_cuda *s, const char *file, const char *defines, int prelude);
/* Its entry, at run time. */
flame_status fl_cuda_file_entry(fl_cuda *s, const char *file, const char *defines, int prelude,
                                const char *entry, fl_cu_function *f);
/* Queue a launch; params: addresses of the parameters, as cuLaunchKernel has them. */
flame_status fl_cuda_launch(fl_cuda *s, fl_cu_function f, const unsigned grid[3], const unsigned block[3],
                            unsigned shared, void **params);

/* The call over the host, for a function that finds at run time that it can not. */
flame_status fl_cuda_call_host(fl_cuda *s, const fl_call_run *r);

/* User kernels: the same two. The function's errors name its script. */
int fl_cuda_want_user(fl_cuda *s, const struct fl_kfunction *k);
void fl_cuda_put_user(const struct fl_kfunction *k, fl_text *t);      /* the text that is compiled */
flame_status fl_cuda_user_entry(fl_cuda *s, const struct fl_kfunction *k, fl_cu_function *f);

/* Arguments as cuLaunchKernel has them; results get the contents that they have before. */
flame_status fl_cuda_bind(fl_cuda *s, const fl_call_run *r, fl_cu_ptr *pointer, void **param);
/* call_checked.c: k->checked instead of k, to its end. */
flame_status fl_cuda_call_checked(fl_cuda *s, const struct fl_kfunction *k, const fl_call_run *r);

/* ---- for run.c ---- */
/* Make ready: queue modules and see that there is scratch. *scratch: bytes; -1: on the host. */
flame_status fl_cuda_call_prepare(fl_cuda *s, const fl_call *c, int64_t *scratch);
/* text (FL_CALL_FAULT bytes): what is bad about the values, or empty. */
flame_status fl_cuda_call_run(fl_cuda *s, const fl_call_step *t, const fl_binding *b, char *text);
#endif
