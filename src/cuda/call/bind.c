/* Arguments of a user kernel's launch in the driver's format. */
#include "cuda/call/ordered.h"

/* Sets the contents that the result at address 'at' has before the launch: zeros (FL_KARG_OUT; a:
** bytes) or a copy of input a (FL_KARG_COPY). */
static flame_status fill(fl_cuda *s, const fl_call_run *r, fl_karg_kind kind, int64_t a,
                         fl_cu_ptr at) {
  const fl_call *c = r->call;
  if (kind == FL_KARG_OUT)
    return a ? fl_cuda_check(s, s->cu->Memset8(at, 0, (size_t)a, s->stream), "cuMemsetD8Async")
             : FLAME_OK;
  const int64_t bytes = c->in_numel[a] * fl_dtype_size(c->in_dtype[a]);
  if (!bytes) return FLAME_OK;
  return fl_cuda_check(s,
                       s->cu->CopyOn(at, (fl_cu_ptr)(uintptr_t)r->in[a], (size_t)bytes, s->stream),
                       "cuMemcpyDtoDAsync");
}

void fl_cuda_bind(const fl_call_run *r, fl_cu_ptr *pointer, void **param) {
  const fl_call *c = r->call;
  for (int i = 0; i < c->p[FL_KP_COUNT_ARGS]; i++) {
    int64_t a, b;
    const fl_karg_kind kind = fl_karg_of(c, i, &a, &b);
    pointer[i] = 0;
    param[i] = &pointer[i];
    if (kind == FL_KARG_IN || kind == FL_KARG_IN_EACH) pointer[i] = (fl_cu_ptr)(uintptr_t)r->in[a];
    if (kind == FL_KARG_VALUE) param[i] = (void *)(uintptr_t)(r->scalar + a);
    if (kind == FL_KARG_OUT || kind == FL_KARG_RAW || kind == FL_KARG_COPY)
      pointer[i] = (fl_cu_ptr)((uintptr_t)r->out + (uintptr_t)b);
  }
}

flame_status fl_cuda_fill(fl_cuda *s, const fl_kfunction *k, const fl_call_run *r) {
  flame_status e = FLAME_OK;
  for (int i = 0; i < r->call->p[FL_KP_COUNT_ARGS] && e == FLAME_OK; i++) {
    int64_t a, b;
    const fl_karg_kind kind = fl_karg_of(r->call, i, &a, &b);
    if ((kind != FL_KARG_OUT && kind != FL_KARG_COPY) || fl_ordered_stores(k, r->call, i)) continue;
    e = fill(s, r, kind, a, (fl_cu_ptr)((uintptr_t)r->out + (uintptr_t)b));
  }
  return e;
}
