/*
** Calls on a CUDA device (call.h): the table of what this device does itself, and the way
** over the host for the rest: inputs come down, the CPU computes, the result goes up.
*/
#include "cuda/call.h"
#include "cpu/calls.h"
#include <string.h>

#define CUDA_CALL(name) \
  int64_t fl_cuda_scratch_##name(fl_cuda *s, const fl_call *c); \
  void fl_cuda_modules_##name(fl_cuda *s, const fl_call *c); \
  flame_status fl_cuda_call_##name(fl_cuda *s, const fl_call_run *r);
#include "cuda/calls.def"

typedef struct entry {
  int64_t (*scratch)(fl_cuda *s, const fl_call *c);
  void (*modules)(fl_cuda *s, const fl_call *c);
  flame_status (*run)(fl_cuda *s, const fl_call_run *r);
} entry;
static const entry table[FL_CALL_COUNT] = {
#define CUDA_CALL(name) [FL_CALL_##name] = { fl_cuda_scratch_##name, fl_cuda_modules_##name, fl_cuda_call_##name },
#include "cuda/calls.def"
};

flame_status fl_cuda_launch(fl_cuda *s, fl_cu_function f, const unsigned grid[3], const unsigned block[3],
                            unsigned shared, void **params) {
  flame_status e = FLAME_OK;
  if (shared > 48 * 1024)
    e = fl_cuda_check(s, s->cu->FuncSetAttribute(f, 8 /* MAX_DYNAMIC_SHARED_SIZE_BYTES */, (int)shared),
                      "cuFuncSetAttribute");
  if (e == FLAME_OK)
    e = fl_cuda_check(s, s->cu->LaunchKernel(f, grid[0], grid[1], grid[2], block[0], block[1], block[2],
                                             shared, s->stream, params, NULL), "cuLaunchKernel");
  if (e != FLAME_OK || !s->sync_each) return e;
  return fl_cuda_check(s, s->cu->StreamSynchronize(s->stream), "the kernel just launched");
}

flame_status fl_cuda_call_prepare(fl_cuda *s, const fl_call *c, int64_t *scratch) {
  const entry *k = &table[c->kind];
  const fl_error before = s->ctx->err;
  *scratch = k->run ? k->scratch(s, c) : -1;
  if (*scratch < 0) {
    s->ctx->err = before;
    return FLAME_OK;
  }
  k->modules(s, c);
  return s->ctx->err.code != before.code ? s->ctx->err.code : FLAME_OK;
}

/* ---- over the host ---- */

static int64_t in_bytes(const fl_call *c, int i) { return c->in_numel[i] * fl_dtype_size(c->in_dtype[i]); }
static int64_t padded(int64_t bytes) { return (bytes + 63) / 64 * 64; }

static flame_status host_run(fl_cuda *s, const fl_call_run *r, char *memory) {
  const fl_call *c = r->call;
  fl_device *host = s->ctx->up->host(s->ctx);
  if (!host) return s->ctx->err.code;
  fl_call_run h = *r;
  flame_status e = FLAME_OK;
  char *at = memory;
  for (int i = 0; i < c->nin && e == FLAME_OK; i++) {
    h.in[i] = at;
    if (in_bytes(c, i)) e = fl_stage_download(s, at, r->in[i], in_bytes(c, i));
    at += padded(in_bytes(c, i));
  }
  h.out = at;
  if (e == FLAME_OK) e = fl_cpu_call(host, &h);
  const int64_t bytes = c->numel * fl_dtype_size(c->dtype);
  if (e == FLAME_OK && bytes && !r->fault[0]) e = fl_stage_upload(s, r->out, at, bytes);
  return e;
}

flame_status fl_cuda_call_host(fl_cuda *s, const fl_call_run *r) {
  const fl_call *c = r->call;
  int64_t bytes = padded(c->numel * fl_dtype_size(c->dtype)) + 64;
  for (int i = 0; i < c->nin; i++) bytes += padded(in_bytes(c, i));
  char *memory = fl_alloc(s->mem, (size_t)bytes);
  if (!memory) return FL_FAIL(s->ctx, FLAME_NO_MEMORY, c->what, "out of host memory");
  const flame_status e = host_run(s, r, memory + (-(uintptr_t)memory & 63));
  fl_free(s->mem, memory, (size_t)bytes);
  return e;
}

/* ---- run ---- */

flame_status fl_cuda_call_run(fl_cuda *s, const fl_call_step *t, const fl_binding *b, char *text) {
  const entry *k = &table[t->call.kind];
  fl_call_run r = { .call = &t->call, .out = fl_place_address(b, &t->out), .scalar = b->scalar + t->scalar,
                    .scratch = s->scratch, .fault = text };
  text[0] = 0;
  for (int i = 0; i < t->call.nin; i++) r.in[i] = (char *)fl_place_address(b, &t->in[i]) + t->in_byte[i];
  const flame_status before = s->ctx->err.code;
  const int64_t bytes = k->run ? k->scratch(s, &t->call) : -1;
  if (s->ctx->err.code != before) return s->ctx->err.code;
  if (bytes > s->scratch_bytes)
    return FL_FAIL(s->ctx, FLAME_INTERNAL, t->call.what, "it takes more memory than when it was prepared");
  return bytes >= 0 ? k->run(s, &r) : fl_cuda_call_host(s, &r);
}

/* ---- part ---- */

int64_t fl_cuda_scratch_part(fl_cuda *s, const fl_call *c) { (void)s; (void)c; return 0; }
void fl_cuda_modules_part(fl_cuda *s, const fl_call *c) { (void)s; (void)c; }

flame_status fl_cuda_call_part(fl_cuda *s, const fl_call_run *r) {
  const size_t bytes = (size_t)(r->call->numel * fl_dtype_size(r->call->dtype));
  if (!bytes) return FLAME_OK;
  return fl_cuda_check(s, s->cu->CopyOn((fl_cu_ptr)(uintptr_t)r->out,
                                        (fl_cu_ptr)((uintptr_t)r->in[0] + (uintptr_t)r->call->p[0]), bytes, s->stream),
                       "cuMemcpyDtoDAsync");
}
