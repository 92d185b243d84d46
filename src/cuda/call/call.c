/* The table of calls (steps such as sorts and convolutions, tensor/call.h) that a CUDA device runs
** itself; host.c runs the others. */
#include "cuda/call/call.h"

#define CUDA_CALL(name) \
  int64_t fl_cuda_scratch_##name(fl_cuda *s, const fl_call *c); \
  void fl_cuda_modules_##name(fl_cuda *s, const fl_call *c); \
  flame_status fl_cuda_call_##name(fl_cuda *s, const fl_call_run *r);
#include "cuda/call/calls.def"

typedef struct entry {
  int64_t (*scratch)(fl_cuda *s, const fl_call *c);
  void (*modules)(fl_cuda *s, const fl_call *c);
  flame_status (*run)(fl_cuda *s, const fl_call_run *r);
} entry;
static const entry table[FL_CALL_COUNT] = {
#define CUDA_CALL(name) \
  [FL_CALL_##name] = { fl_cuda_scratch_##name, fl_cuda_modules_##name, fl_cuda_call_##name },
#include "cuda/call/calls.def"
};

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

/* ---- run ---- */

flame_status fl_cuda_call_run(fl_cuda *s, const fl_call_step *t, const fl_binding *b, char *text) {
  const entry *k = &table[t->call.kind];
  fl_call_run r = { .call = &t->call, .out = fl_place_address(b, &t->out),
                    .scalar = b->scalar + t->scalar,
                    .scratch = s->scratch, .fault = text, .site = t->fault };
  text[0] = 0;
  for (int i = 0; i < t->call.nin; i++)
    r.in[i] = (char *)fl_place_address(b, &t->in[i]) + t->in_byte[i];
  const flame_status before = s->ctx->err.code;
  const int64_t bytes = k->run ? k->scratch(s, &t->call) : -1;
  if (s->ctx->err.code != before) return s->ctx->err.code;
  if (bytes > s->scratch_bytes)
    return FL_FAIL(s->ctx, FLAME_INTERNAL, t->call.what,
                   "it takes more memory than when it was prepared");
  return bytes >= 0 ? k->run(s, &r) : fl_cuda_call_host(s, &r);
}

/* ---- part ---- */

int64_t fl_cuda_scratch_part(fl_cuda *s, const fl_call *c) { (void)s; (void)c; return 0; }
void fl_cuda_modules_part(fl_cuda *s, const fl_call *c) { (void)s; (void)c; }

flame_status fl_cuda_call_part(fl_cuda *s, const fl_call_run *r) {
  const size_t bytes = (size_t)(r->call->numel * fl_dtype_size(r->call->dtype));
  if (!bytes) return FLAME_OK;
  return fl_cuda_check(s, s->cu->CopyOn((fl_cu_ptr)(uintptr_t)r->out,
                                        (fl_cu_ptr)((uintptr_t)r->in[0] + (uintptr_t)r->call->p[0]),
                                        bytes, s->stream),
                       "cuMemcpyDtoDAsync");
}
