/* Plans on a device, for device.c: preparing, running, and the times of a profile. */
#ifndef FL_CUDA_RUN_H
#define FL_CUDA_RUN_H
#include "cuda/driver/state.h"

/* ---- trace.c: times while a profile is on; marks may be NULL: nothing is done ---- */
typedef struct fl_marks fl_marks;
fl_marks *fl_marks_open(fl_cuda *s, int32_t nstep);            /* NULL: no memory or events */
void fl_marks_set(fl_cuda *s, fl_marks *m, int32_t step, int behind);     /* 0: before the step; 1:
                                                                          ** after it */
void fl_marks_tell(fl_device *d, fl_marks *m, const fl_plan *p, int32_t done);   /* waits */
void fl_marks_close(fl_cuda *s, fl_marks *m);

/* ---- run.c ---- */
flame_status fl_cuda_prepare(fl_device *d, fl_plan *p);
flame_status fl_cuda_run(fl_device *d, fl_plan *p, const fl_binding *b, fl_fault *fault,
                         int32_t *done);
flame_status fl_cuda_checked(fl_device *d, const fl_plan *p, fl_fault *fault, int32_t *done);
flame_status fl_cuda_ready(fl_device *d, struct fl_kfunction *const *k, int n);  /* call_kernel.c */
flame_status fl_cuda_resident(fl_device *d, struct fl_kfunction *k, int n, const int64_t *threads,
                              const int64_t *shared, int64_t *resident);
#endif
