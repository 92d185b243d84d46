/* Collectives (allreduce, …) of a group of processes (group/group.h): they run on the caller's
** thread, while the workers are idle. */
#include "cpu/calls.h"
#include "group/group.h"

int64_t fl_cpu_scratch_collective(const fl_call *call, int workers) {
  (void)workers;
  return fl_group_room(call);
}

flame_status fl_cpu_call_collective(fl_device *d, const fl_call_run *r) {
  return fl_group_run(d->ctx, r);
}
