/* Calls on the CPU: the table derived from tensor/calls.def, for device.c and for other devices,
** which run a kind of call here if they have no function for it. */
#ifndef FL_CPU_CALLS_H
#define FL_CPU_CALLS_H
#include "cpu/state/state.h"

/* Bytes of scratch memory that a call needs on the CPU. */
int64_t fl_cpu_call_scratch(const fl_cpu *cpu, const fl_call *call);
/* Runs a call, with all addresses set except the scratch. If the scratch was not reserved when a
** plan was prepared, it is reserved now. */
flame_status fl_cpu_call(fl_device *cpu, fl_call_run *r);
/* Runs a step of a plan. text (FL_CALL_FAULT bytes): the problem with the values, or empty. */
flame_status fl_cpu_call_step(fl_device *cpu, const fl_call_step *s, const fl_binding *b,
                              char *text);
/* Compiles user kernels to lane code (kernel/lanes/lane.h); an error says why one can not run on
** the CPU. */
flame_status fl_cpu_ready(fl_device *d, struct fl_kfunction *const *k, int n);
/* Frees the memory that the race check of user kernels keeps. */
void fl_cpu_drop_races(fl_cpu *cpu);
#endif
