/*
** Collectives on a CUDA device (group/group.h): by NCCL (library/nccl.h), or over the host, and in
** a group of one a copy. They use the memory that plans give them, and need no scratch.
*/
#include "cuda/call/call.h"
#include "cuda/library/nccl.h"

int64_t fl_cuda_scratch_collective(fl_cuda *s, const fl_call *c) { (void)s; (void)c; return 0; }
void fl_cuda_modules_collective(fl_cuda *s, const fl_call *c) { (void)s; (void)c; }

static flame_status alone(fl_cuda *s, fl_group *g, const fl_call_run *r) {
  const size_t bytes = (size_t)(r->call->numel * fl_dtype_size(r->call->dtype));
  g->stats.calls++;
  g->stats.bytes += (int64_t)bytes;
  if (!bytes) return FLAME_OK;
  return fl_cuda_check(s, s->cu->CopyOn((fl_cu_ptr)(uintptr_t)r->out,
                                        (fl_cu_ptr)(uintptr_t)r->in[0], bytes, s->stream),
                       "cuMemcpyDtoDAsync");
}

flame_status fl_cuda_call_collective(fl_cuda *s, const fl_call_run *r) {
  fl_group *g = s->ctx->group;
  const fl_call *k = r->call;
  if (fl_cuda_spoils(s)) return FLAME_INTERNAL;
  if (!g || g->launch.size != k->p[FL_COLLECT_RANKS] || g->broken[0])
    return fl_group_run(s->ctx, r);                             /* which says so */
  if (g->launch.size == 1 && k->p[FL_COLLECT_ARRAYS]) return alone(s, g, r);
  if (fl_nccl_lane(s, k) == FL_LANE_ASKS) {
    const flame_status e = fl_nccl_run(s, r, FL_LANE_ASKS);
    if (e != FLAME_OK || r->fault[0]) return e;
  }
  if (fl_nccl_lane(s, k) == FL_LANE_GPU) return fl_nccl_run(s, r, FL_LANE_GPU);
  return fl_cuda_call_host(s, r);
}
