/* A call on the host: inputs are downloaded, the CPU computes, the result is uploaded. */
#include "cuda/call/call.h"
#include "cpu/calls.h"
#include "base/num.h"
#include "tensor/call_collective.h"
#include <string.h>

static int64_t in_bytes(const fl_call *c, int i) {
  return c->in_numel[i] * fl_dtype_size(c->in_dtype[i]);
}

/* How many inputs are arrays. A collective may have another input, the effect that must come before
** it (tensor/node.h), which has no data. */
static int arrays_of(const fl_call *c) {
  return c->kind == FL_CALL_collective ? (int)c->p[FL_COLLECT_ARRAYS] : c->nin;
}

static flame_status host_run(fl_cuda *s, const fl_call_run *r, char *memory) {
  const fl_call *c = r->call;
  fl_device *host = s->ctx->up->host(s->ctx);
  if (!host) return s->ctx->err.code;
  fl_call_run h = *r;
  flame_status e = FLAME_OK;
  char *at = memory;
  for (int i = 0; i < arrays_of(c) && e == FLAME_OK; i++) {
    h.in[i] = at;
    if (in_bytes(c, i)) e = fl_stage_download(s, at, r->in[i], in_bytes(c, i));
    at += fl_round_up(in_bytes(c, i), 64);
  }
  h.out = at;
  if (e == FLAME_OK) e = fl_cpu_call(host, &h);
  const int64_t bytes = c->numel * fl_dtype_size(c->dtype);
  if (e == FLAME_OK && bytes && !r->fault[0]) e = fl_stage_upload(s, r->out, at, bytes);
  return e;
}

flame_status fl_cuda_call_host(fl_cuda *s, const fl_call_run *r) {
  const fl_call *c = r->call;
  int64_t bytes = fl_round_up(c->numel * fl_dtype_size(c->dtype), 64) + 64;
  for (int i = 0; i < arrays_of(c); i++) bytes += fl_round_up(in_bytes(c, i), 64);
  char *memory = fl_alloc(s->mem, (size_t)bytes);
  if (!memory) return FL_FAIL(s->ctx, FLAME_NO_MEMORY, c->what, "out of host memory");
  const flame_status e = host_run(s, r, memory + (-(uintptr_t)memory & 63));
  fl_free(s->mem, memory, (size_t)bytes);
  return e;
}
