/*
** Calls on the CPU. Every kind of tensor/calls.def has two functions here in cpu/:
**   int64_t fl_cpu_scratch_<kind>(call, workers)  bytes that it needs in addition to its arrays
**   flame_status fl_cpu_call_<kind>(device, run)  computes; if values are bad, writes a message to
**                                                 run->fault
*/
#include "cpu/calls.h"
#include "base/num.h"
#include <string.h>

#define CALL(name, faults, doc) \
  flame_status fl_cpu_call_##name(fl_device *d, const fl_call_run *r); \
  int64_t fl_cpu_scratch_##name(const fl_call *call, int workers);
#include "tensor/calls.def"

static const struct {
  flame_status (*run)(fl_device *d, const fl_call_run *r);
  int64_t (*scratch)(const fl_call *call, int workers);
} table[FL_CALL_COUNT] = {
#define CALL(name, faults, doc) { fl_cpu_call_##name, fl_cpu_scratch_##name },
#include "tensor/calls.def"
};

int64_t fl_cpu_call_scratch(const fl_cpu *cpu, const fl_call *call) {
  return fl_round_up(table[call->kind].scratch(call, cpu->width), 64) + 64;
}

flame_status fl_cpu_call(fl_device *d, fl_call_run *r) {
  fl_cpu *cpu = d->state;
  if (!fl_cpu_reserve(cpu, &d->ctx->mem, 0, fl_cpu_call_scratch(cpu, r->call)))
    return FL_FAIL(d->ctx, FLAME_NO_MEMORY, r->call->what, "out of host memory");
  r->scratch = (char *)cpu->shared + (-(uintptr_t)cpu->shared & 63);
  r->fault[0] = 0;
  return table[r->call->kind].run(d, r);
}

flame_status fl_cpu_call_step(fl_device *d, const fl_call_step *s, const fl_binding *b,
                              char *text) {
  fl_call_run r = { .call = &s->call, .out = fl_place_address(b, &s->out),
                    .scalar = b->scalar + s->scalar,
                    .fault = text };
  for (int i = 0; i < s->call.nin; i++)
    r.in[i] = (char *)fl_place_address(b, &s->in[i]) + s->in_byte[i];
  return fl_cpu_call(d, &r);
}

int64_t fl_cpu_scratch_part(const fl_call *call, int workers) {
  (void)call;
  (void)workers;
  return 0;
}

flame_status fl_cpu_call_part(fl_device *d, const fl_call_run *r) {
  const size_t bytes = (size_t)(r->call->numel * fl_dtype_size(r->call->dtype));
  (void)d;
  if (bytes) memcpy(r->out, (const char *)r->in[0] + r->call->p[0], bytes);
  return FLAME_OK;
}
