/*
** cuFFT's plans (cufft.h). A plan that the library refuses is kept as refused, so that a call is
** done the same way each time. When device memory is out, the pool's cached memory is returned to
** the driver once before it is an error.
*/
#include "cuda/library/cufft.h"
#include <string.h>

enum { KEPT_MAX = 256, BINS = 64 };

struct fl_cufft_plan {
  fl_cufft_plan *next;                   /* of the bin */
  fl_cufft_key key;
  int64_t used, space;                   /* when last; bytes */
  int handle;
  uint8_t made, ok;                      /* the handle exists; it can be run */
};

typedef struct fl_cufft_state {
  const fl_cufft *lib;                   /* NULL: not there */
  fl_cufft_plan *bin[BINS];
  int64_t n, clock;
} fl_cufft_state;

/* Opened at first use; NULL without memory. */
static fl_cufft_state *state_of(fl_cuda *s) {
  if (s->fft) return s->fft;
  fl_cufft_state *q = fl_zalloc(s->mem, sizeof *q);
  if (!q) return NULL;
  q->lib = s->lib->fft(NULL);
  return s->fft = q;
}

static void plan_free(fl_cuda *s, fl_cufft_plan *p, int host_only) {
  if (p->made && !host_only) s->fft->lib->cufftDestroy(p->handle);
  fl_free(s->mem, p, sizeof *p);
}

/* Drops the least recently used plan, after its work has ended. */
static flame_status drop_oldest(fl_cuda *s, fl_cufft_state *q) {
  fl_cufft_plan **oldest = NULL;
  for (int i = 0; i < BINS; i++)
    for (fl_cufft_plan **p = &q->bin[i]; *p; p = &(*p)->next)
      if (!oldest || (*p)->used < (*oldest)->used) oldest = p;
  const flame_status e = fl_cuda_wait_all(s);
  if (e != FLAME_OK) return e;
  fl_cufft_plan *gone = *oldest;
  *oldest = gone->next;
  plan_free(s, gone, 0);
  q->n--;
  return FLAME_OK;
}

static fl_cufft_status make(fl_cuda *s, const fl_cufft *lib, fl_cufft_plan *p) {
  const fl_cufft_key *k = &p->key;
  long long sizes[2] = { k->across, k->n }, *n = k->across > 1 ? sizes : sizes + 1;
  size_t bytes = 0;
  fl_cufft_status r = lib->cufftCreate(&p->handle);
  if (r != FL_CUFFT_OK) return r;
  p->made = 1;
  r = lib->cufftSetAutoAllocation(p->handle, 0);
  if (r == FL_CUFFT_OK)
    r = lib->cufftMakePlanMany64(p->handle, k->across > 1 ? 2 : 1, n, n, k->in_step, k->in_next, n,
                                 k->out_step, k->out_next, (fl_cufft_type)k->type,
                                 k->batch, &bytes);
  if (r == FL_CUFFT_OK) r = lib->cufftSetStream(p->handle, s->stream);
  p->space = (int64_t)bytes;
  return r;
}

static void unmake(const fl_cufft *lib, fl_cufft_plan *p) {
  if (p->made) lib->cufftDestroy(p->handle);
  p->made = 0;
}

/* Makes the plan; if memory is out, once more after the pool's cached memory was returned. p->ok 0:
** the library does not do it. */
static flame_status make_or_trim(fl_cuda *s, const fl_cufft *lib, fl_cufft_plan *p) {
  fl_cufft_status r = make(s, lib, p);
  if (r == FL_CUFFT_ALLOC_FAILED) {
    unmake(lib, p);
    const flame_status e = fl_cuda_check(s, fl_cuda_pool_trim(&s->pool), "cuMemFree");
    if (e != FLAME_OK) return e;
    r = make(s, lib, p);
  }
  p->ok = r == FL_CUFFT_OK;
  if (p->ok) return FLAME_OK;
  unmake(lib, p);
  const flame_status e = fl_cuda_wait_all(s);        /* a lost device has reported that itself */
  if (e != FLAME_OK) return e;
  if (r == FL_CUFFT_ALLOC_FAILED)
    return FL_FAIL(s->ctx, FLAME_NO_MEMORY, "fft", "no device memory for a plan of cuFFT");
  return FLAME_OK;
}

const fl_cufft_plan *fl_cufft_find(fl_cuda *s, const fl_cufft_key *k) {
  fl_cufft_state *q = state_of(s);
  if (!q) {
    FL_FAIL(s->ctx, FLAME_NO_MEMORY, "fft", "no host memory");
    return NULL;
  }
  if (!q->lib) return NULL;
  fl_cufft_plan **b = &q->bin[fl_hash64(k, sizeof *k, 11) % BINS];
  for (fl_cufft_plan *p = *b; p; p = p->next)
    if (memcmp(&p->key, k, sizeof *k) == 0) {
      p->used = ++q->clock;
      return p->ok ? p : NULL;
    }
  if (q->n >= KEPT_MAX && drop_oldest(s, q) != FLAME_OK) return NULL;
  fl_cufft_plan *p = fl_zalloc(s->mem, sizeof *p);
  if (!p) {
    FL_FAIL(s->ctx, FLAME_NO_MEMORY, "fft", "no host memory");
    return NULL;
  }
  p->key = *k;
  p->used = ++q->clock;
  if (make_or_trim(s, q->lib, p) != FLAME_OK) {
    plan_free(s, p, 0);
    return NULL;
  }
  p->next = *b;
  *b = p;
  q->n++;
  return p->ok ? p : NULL;
}

int64_t fl_cufft_space(const fl_cufft_plan *p) { return p->space; }

flame_status fl_cufft_run(fl_cuda *s, const fl_cufft_plan *p, void *x, void *y, int inverse,
                          void *space, const char *what) {
  const fl_cufft *lib = s->fft->lib;
  const int direction = inverse ? FL_CUFFT_INVERSE : FL_CUFFT_FORWARD;
  fl_cufft_status r = p->space ? lib->cufftSetWorkArea(p->handle, space) : FL_CUFFT_OK;
  if (r == FL_CUFFT_OK)
    switch (p->key.type) {
      case FL_CUFFT_C2C: r = lib->cufftExecC2C(p->handle, x, y, direction); break;
      case FL_CUFFT_Z2Z: r = lib->cufftExecZ2Z(p->handle, x, y, direction); break;
      case FL_CUFFT_R2C: r = lib->cufftExecR2C(p->handle, x, y); break;
      case FL_CUFFT_D2Z: r = lib->cufftExecD2Z(p->handle, x, y); break;
      case FL_CUFFT_C2R: r = lib->cufftExecC2R(p->handle, x, y); break;
      default: r = lib->cufftExecZ2D(p->handle, x, y); break;
    }
  if (r == FL_CUFFT_OK && s->ctx->sync_each) return fl_cuda_wait_all(s);
  if (r == FL_CUFFT_OK) return FLAME_OK;
  const flame_status e = fl_cuda_wait_all(s);
  return e != FLAME_OK ? e
                       : FL_FAIL(s->ctx, FLAME_INTERNAL, what, "cuFFT failed with status %u", r);
}

void fl_cufft_close(fl_cuda *s, int host_only) {
  fl_cufft_state *q = s->fft;
  if (!q) return;
  for (int i = 0; i < BINS; i++)
    for (fl_cufft_plan *p = q->bin[i], *next; p; p = next) {
      next = p->next;
      plan_free(s, p, host_only);
    }
  fl_free(s->mem, q, sizeof *q);
  s->fft = NULL;
}
