/*
** Preparing a plan: compiling its kernels, and reserving tables, scratch, counters and the block of
** scalars, so that a run only fills in addresses and launches.
**
** A step may have several instances: kernels of one structure, for different tensors. They are
** grouped by the text that they need. A group of one gets its parameters by value; a larger one is
** one launch over a table in device memory. Scratch, counters and scalars are shared by all
** launches: these are queued on one stream, and in a graph those that use the same memory wait for
** each other (waits.h).
*/
#include "cuda/prepared.h"
#include "cuda/steps.h"
#include "cuda/call/call.h"
#include "cuda/library/blas.h"
#include "base/num.h"
#include <string.h>

static flame_status no_memory(fl_cuda *s) {
  return FL_FAIL(s->ctx, FLAME_NO_MEMORY, "cuda", "no host memory to prepare a plan");
}

/* The code of the error that a called function has kept. */
static flame_status failed(const fl_cuda *s) {
  return s->ctx->err.code != FLAME_OK ? s->ctx->err.code : FLAME_INTERNAL;
}

/* ---- letting go ---- */

static void free_group(fl_prepared *r, fl_launch_group *g) {
  if (r->s) {
    fl_cuda_give_back(r->s, g->table);
    fl_cuda_give_back(r->s, g->chunk);
  }
  fl_text_free(&g->key);
  fl_free(r->mem, g->sent, (size_t)g->n * (size_t)g->words * 8);
  fl_free(r->mem, g->geometry, (size_t)g->n * sizeof *g->geometry);
  fl_free(r->mem, g->which, (size_t)r->count * sizeof *g->which);
}

static void free_prepared(fl_prepared *r) {
  if (r->s) {
    if (r->prev) r->prev->next = r->next;
    else r->s->prepared = r->next;
    if (r->next) r->next->prev = r->prev;
  }
  for (int i = 0; i < r->ngroup; i++) free_group(r, &r->group[i]);
  fl_free(r->mem, r->group, (size_t)r->count * sizeof *r->group);
  fl_free(r->mem, r, sizeof *r);
}

void fl_prepared_free(fl_plan *p) {
  for (int i = 0; i < p->nstep; i++) {
    if (p->step[i].prepared) free_prepared(p->step[i].prepared);
    p->step[i].prepared = NULL;
  }
}

void fl_prepared_let_go(fl_cuda *s) {
  for (fl_prepared *r = s->prepared; r; r = r->next) r->s = NULL;
  s->prepared = NULL;
}

/* ---- prepare, before compiling: what is needed ---- */

static fl_prepared *new_prepared(fl_cuda *s, int32_t count) {
  fl_prepared *r = fl_zalloc(s->mem, sizeof *r);
  if (!r) return NULL;
  r->mem = s->mem;
  r->count = count;
  r->group = fl_zalloc(s->mem, (size_t)count * sizeof *r->group);
  if (!r->group) {
    fl_free(s->mem, r, sizeof *r);
    return NULL;
  }
  r->s = s;
  r->next = s->prepared;
  if (r->next) r->next->prev = r;
  s->prepared = r;
  return r;
}

/* The launch group for instances (kernels of a step) whose text has this key; a new one if there is
** none. NULL: no memory. */
static fl_launch_group *group_of(fl_prepared *r, fl_text *key) {
  const char *k = fl_text_str(key);
  if (!k) return NULL;
  for (int32_t j = 0; j < r->ngroup; j++) {
    fl_launch_group *g = &r->group[j];
    if (g->key.n == key->n && memcmp(fl_text_str(&g->key), k, key->n) == 0) return g;
  }
  fl_launch_group *g = &r->group[r->ngroup];
  g->which = fl_alloc(r->mem, (size_t)r->count * sizeof *g->which);
  if (!g->which) return NULL;
  g->key = *key;                                  /* moved */
  fl_text_init(key, r->mem);
  r->ngroup++;
  return g;
}

/* Puts each instance (kernel) of the step into the launch group of its text. */
static flame_status gather(fl_cuda *s, const fl_step *t, fl_prepared *r) {
  for (int32_t i = 0; i < t->count; i++) {
    fl_text_geometry geometry;
    fl_text key;
    fl_text_geometry_of(&t->kernel[i], t->count > 1, &geometry);
    if (geometry.grid == 0) continue;             /* nothing to do */
    fl_text_init(&key, s->mem);
    fl_text_key(&t->kernel[i], t->count > 1, &key);
    fl_launch_group *g = group_of(r, &key);
    fl_text_free(&key);
    if (!g) return no_memory(s);
    g->which[g->n++] = i;
  }
  return FLAME_OK;
}

static flame_status want_kernels(fl_cuda *s, const fl_step *t, fl_prepared *r) {
  for (int32_t j = 0; j < t->count; j++) t->kernel[j].room = (uint32_t)s->shared;
  const flame_status e = gather(s, t, r);
  if (e != FLAME_OK) return e;
  for (int32_t j = 0; j < r->ngroup; j++) {
    fl_launch_group *g = &r->group[j];
    fl_text_free(&g->key);
    g->module = fl_modules_kernel(s, &t->kernel[g->which[0]], g->n > 1);
    if (!g->module) return failed(s);
  }
  return FLAME_OK;
}

static flame_status want_steps(fl_cuda *s, const fl_step *t, fl_prepared *r) {
  fl_text_step x = { 0 };
  fl_step_describe(t, (char *const[4]){ NULL, NULL, NULL, NULL }, NULL, &x);
  if (x.ncall == 0) return FLAME_OK;              /* nothing to do */
  r->steps = fl_modules_steps(s, x.call[x.ncall - 1].entry);
  return r->steps ? FLAME_OK : failed(s);
}

static flame_status want(fl_cuda *s, fl_step *t) {
  if (t->kind == FL_S_COPY) return FLAME_OK;
  if (t->kind == FL_S_CALL) {
    int64_t scratch;
    return fl_cuda_call_prepare(s, &t->call->call, &scratch);
  }
  fl_prepared *r = new_prepared(s, t->kind == FL_S_KERNEL ? t->count : 0);
  if (!r) return no_memory(s);
  t->prepared = r;
  if (t->kind == FL_S_KERNEL) return want_kernels(s, t, r);
  if (t->kind == FL_S_MATMUL) {
    int yes = 0;
    const flame_status e = fl_blas_prepare(s, t->matmul, &yes, &r->scratch);
    if (e != FLAME_OK) return e;
    r->library = (uint8_t)yes;
    if (yes) return FLAME_OK;
  }
  return want_steps(s, t, r);
}

/* ---- prepare, after compiling: functions, tables, memory ---- */

/* Enlarges a buffer shared by all launches to at least 'bytes'. Queued work may still use the old
** one, which is safe: freed memory is reused in the stream's order. */
static flame_status at_least(fl_cuda *s, void **p, int64_t *have, int64_t bytes,
                             int zero, const char *what) {
  void *fresh;
  if (bytes <= *have) return FLAME_OK;
  flame_status e = fl_cuda_reserve(s, &fresh, bytes, what);
  if (e != FLAME_OK) return e;
  if (zero)
    e = fl_cuda_check(s, s->cu->Memset8((fl_cu_ptr)(uintptr_t)fresh, 0, (size_t)bytes,
                                        s->stream),
                      "cuMemsetD8Async");
  if (e != FLAME_OK) {
    fl_cuda_release(s, fresh);
    return e;
  }
  fl_cuda_release(s, *p);
  s->epoch++;
  *p = fresh;
  *have = bytes;
  return FLAME_OK;
}

static flame_status share(fl_cuda *s, int64_t scratch, int64_t counters) {
  const flame_status e = at_least(s, &s->scratch, &s->scratch_bytes, scratch, 0,
                                  "scratch");
  return e != FLAME_OK ? e
                       : at_least(s, &s->counters, &s->counter_bytes, counters, 1,
                                  "counters");
}

/* Computes the geometry of each instance (kernel) of a launch group, and its sums over the
** group. */
static flame_status measure(fl_cuda *s, const fl_step *t, fl_launch_group *g) {
  g->geometry = fl_alloc(s->mem, (size_t)g->n * sizeof *g->geometry);
  if (!g->geometry) return no_memory(s);
  for (int32_t i = 0; i < g->n; i++) {
    fl_text_geometry *y = &g->geometry[i];
    fl_text_geometry_of(&t->kernel[g->which[i]], g->n > 1, y);
    g->grid += y->grid;
    g->scratch += fl_round_up(y->scratch, 256);
    g->counters += y->counters * 4;
    if (y->words > g->words) g->words = y->words;
  }
  if (g->words > FL_TEXT_MAX_WORDS || g->grid > INT32_MAX)
    return FL_FAIL(s->ctx, FLAME_NOT_SUPPORTED, "cuda",
                   "a step is too large for one launch");
  return share(s, g->scratch, g->counters);
}

/* Uploads, for each block of a launch of several instances (kernels of one structure), its instance
** and which of that instance's blocks it is; these do not change. */
static flame_status send_chunks(fl_cuda *s, const fl_step *t, fl_launch_group *g) {
  const size_t bytes = (size_t)g->grid * sizeof(int32_t[2]);
  int32_t (*chunk)[2] = fl_alloc(s->mem, bytes);
  if (!chunk) return no_memory(s);
  int64_t n = 0;
  for (int32_t i = 0; i < g->n; i++) n += fl_text_chunks(&t->kernel[g->which[i]], i,
                                                         chunk + n);
  flame_status e = n == g->grid ? FLAME_OK
    : FL_FAIL(s->ctx, FLAME_INTERNAL, "cuda", "chunks and grid of a step differ");
  if (e == FLAME_OK) e = fl_cuda_reserve(s, &g->chunk, (int64_t)bytes, "a launch table");
  if (e == FLAME_OK) e = fl_stage_upload(s, g->chunk, chunk, (int64_t)bytes);
  fl_free(s->mem, chunk, bytes);
  return e;
}

static flame_status ready_group(fl_cuda *s, const fl_plan *p, const fl_step *t,
                                fl_launch_group *g) {
  g->function = fl_module_function(g->module);
  flame_status e = measure(s, t, g);
  if (e == FLAME_OK)
    e = fl_cuda_check(s, fl_cuda_allow_shared(s, g->function, g->geometry[0].shared),
                      "cuFuncSetAttribute");
  if (e != FLAME_OK || g->n == 1) return e;
  const size_t bytes = (size_t)g->n * (size_t)g->words * 8;
  g->sent = fl_zalloc(s->mem, bytes);
  if (!g->sent) return no_memory(s);
  e = fl_cuda_reserve(s, &g->table, (int64_t)bytes, "a launch table");
  if (e == FLAME_OK) e = send_chunks(s, t, g);
  if (e == FLAME_OK) e = at_least(s, &s->scalars, &s->scalar_bytes,
                                  (int64_t)p->nscalar * 8, 0, "scalars");
  return e;
}

static flame_status ready(fl_cuda *s, const fl_plan *p, const fl_step *t) {
  fl_prepared *r = t->prepared;
  flame_status e = FLAME_OK;
  if (t->kind == FL_S_CALL) {
    int64_t scratch;
    e = fl_cuda_call_prepare(s, &t->call->call, &scratch);
    const int counts = t->call->call.kind == FL_CALL_power_sum;
    return e == FLAME_OK && scratch > 0 ? share(s, scratch, counts ? 4 : 0) : e;
  }
  if (!r) return FLAME_OK;
  for (int32_t i = 0; i < r->ngroup && e == FLAME_OK; i++) e = ready_group(s, p, t, &r->group[i]);
  if (e == FLAME_OK && r->library && r->scratch) e = share(s, r->scratch, 0);
  if (e != FLAME_OK || !r->steps) return e;
  fl_text_step x = { 0 };
  fl_step_describe(t, (char *const[4]){ NULL, NULL, NULL, NULL }, NULL, &x);
  for (int32_t i = 0; i < x.ncall && e == FLAME_OK; i++)
    e = fl_module_entry(s, r->steps, x.call[i].entry, &r->entry[i]);
  return e == FLAME_OK ? share(s, x.scratch, 0) : e;
}

/* Host memory that belongs to the plan. Modules, and what the libraries keep for calls, are shared
** with other plans. */
static int64_t bytes_held(const fl_plan *p) {
  size_t bytes = 0;
  for (int32_t i = 0; i < p->nstep; i++) {
    const fl_prepared *r = p->step[i].prepared;
    if (!r) continue;
    bytes += sizeof *r + (size_t)r->count * sizeof *r->group;
    for (int32_t j = 0; j < r->ngroup; j++) {
      const fl_launch_group *g = &r->group[j];
      bytes += (size_t)r->count * sizeof *g->which + (size_t)g->n * sizeof *g->geometry;
      if (g->sent) bytes += (size_t)g->n * (size_t)g->words * 8;
    }
  }
  return (int64_t)bytes;
}

flame_status fl_prepared_make(fl_cuda *s, fl_plan *p) {
  flame_status e = FLAME_OK;
  for (int32_t i = 0; i < p->nstep && e == FLAME_OK; i++) e = want(s, &p->step[i]);
  if (e == FLAME_OK) e = fl_modules_build(s);
  else fl_modules_forget(s);
  for (int32_t i = 0; i < p->nstep && e == FLAME_OK; i++) e = ready(s, p, &p->step[i]);
  if (e == FLAME_OK) p->total_bytes += bytes_held(p);
  else fl_prepared_free(p);
  return e;
}
