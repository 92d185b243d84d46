/*
** Plans on the device: prepare makes all that a plan needs beside its operands (kernels,
** tables, scratch) so that run only fills parameters and launches. Nothing here looks at
** what a kernel does: text.h says what each launch needs.
**
** Instances of a step are grouped by the text they need. A group of one gets its parameters
** by value; a larger one is one launch over a table in device memory, sent again only when
** an address in it changed. Scratch, counters and scalars are shared by all launches, as
** everything is queued on one stream.
*/
#include "cuda/run.h"
#include "cuda/call/call.h"
#include "cuda/library/blas.h"
#include <string.h>

typedef struct group {
  fl_module *module;
  fl_cu_function function;
  fl_text key;                    /* while grouping */
  int32_t n, *which;              /* instances */
  fl_text_geometry *geometry;     /* of each; NULL until compiled */
  int64_t grid;                   /* blocks, of all */
  int32_t words;                  /* of the largest */
  int64_t scratch, counters;      /* bytes, of all together */
  void *table, *chunk;            /* device: see fl_text_multi */
  int64_t *sent;                  /* what the table holds, if 'current' */
  uint8_t current;
} group;

struct fl_prepared {              /* hangs on a step */
  fl_prepared *next, *prev;       /* all of the device */
  fl_cuda *s;                     /* NULL: the device was closed */
  fl_mem *mem;
  int32_t count, ngroup;
  group *group;                   /* room for 'count' */
  fl_module *steps;               /* MATMUL by our own kernel, SCATTER */
  fl_cu_function entry[FL_TEXT_MAX_CALLS];
  uint8_t library;                /* MATMUL by cuBLASLt */
  int64_t scratch;                /* bytes that it needs */
};

static flame_status no_memory(fl_cuda *s) {
  return FL_FAIL(s->ctx, FLAME_NO_MEMORY, "cuda", "no host memory to prepare a plan");
}

/* The code of the error that an inner function has kept. */
static flame_status failed(const fl_cuda *s) {
  return s->ctx->err.code != FLAME_OK ? s->ctx->err.code : FLAME_INTERNAL;
}

/* ---- letting go ---- */

static void free_group(fl_prepared *r, group *g) {
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

static void unprepare(fl_plan *p) {
  for (int i = 0; i < p->nstep; i++) {
    if (p->step[i].prepared) free_prepared(p->step[i].prepared);
    p->step[i].prepared = NULL;
  }
  p->prepared = 0;
}

void fl_cuda_let_go(fl_cuda *s) {
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

/* The group of an instance with this key; a new one if there is none. NULL: no memory. */
static group *group_of(fl_prepared *r, fl_text *key) {
  const char *k = fl_text_str(key);
  if (!k) return NULL;
  for (int32_t j = 0; j < r->ngroup; j++) {
    group *g = &r->group[j];
    if (g->key.n == key->n && memcmp(fl_text_str(&g->key), k, key->n) == 0) return g;
  }
  group *g = &r->group[r->ngroup];
  g->which = fl_alloc(r->mem, (size_t)r->count * sizeof *g->which);
  if (!g->which) return NULL;
  g->key = *key;                                  /* moved */
  fl_text_init(key, r->mem);
  r->ngroup++;
  return g;
}

/* Put each instance into the group of its text. */
static flame_status gather(fl_cuda *s, const fl_step *t, fl_prepared *r) {
  for (int32_t i = 0; i < t->count; i++) {
    fl_text_geometry geometry;
    fl_text key;
    fl_text_geometry_of(&t->kernel[i], t->count > 1, &geometry);
    if (geometry.grid == 0) continue;             /* nothing to do */
    fl_text_init(&key, s->mem);
    fl_text_key(&t->kernel[i], t->count > 1, &key);
    group *g = group_of(r, &key);
    fl_text_free(&key);
    if (!g) return no_memory(s);
    g->which[g->n++] = i;
  }
  return FLAME_OK;
}

static flame_status want_kernels(fl_cuda *s, const fl_step *t, fl_prepared *r) {
  const flame_status e = gather(s, t, r);
  if (e != FLAME_OK) return e;
  for (int32_t j = 0; j < r->ngroup; j++) {
    group *g = &r->group[j];
    fl_text_free(&g->key);
    g->module = fl_modules_kernel(s, &t->kernel[g->which[0]], g->n > 1);
    if (!g->module) return failed(s);
  }
  return FLAME_OK;
}

/* The launches of a step of steps.cu at these addresses (all NULL to learn what it needs). */
static void describe(const fl_step *t, char *const at[3], void *scratch,
                     fl_text_step *out) {
  if (t->kind == FL_S_SCATTER) fl_text_scatter(t->scatter, at[0], at[1], at[2], scratch,
                                               out);
  else fl_text_matmul(t->matmul, at[0], at[1], at[2], out);
}

static flame_status want_steps(fl_cuda *s, const fl_step *t, fl_prepared *r) {
  fl_text_step x = { 0 };
  describe(t, (char *const[3]){ NULL, NULL, NULL }, NULL, &x);
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

/* A buffer shared by all launches gets at least 'bytes'. What is queued may still use the
** old one, which is safe: memory given back is reused in the stream's order. */
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
  *p = fresh;
  *have = bytes;
  return FLAME_OK;
}

static int64_t aligned(int64_t bytes) { return (bytes + 255) / 256 * 256; }

static flame_status share(fl_cuda *s, int64_t scratch, int64_t counters) {
  const flame_status e = at_least(s, &s->scratch, &s->scratch_bytes, scratch, 0,
                                  "scratch");
  return e != FLAME_OK ? e
                       : at_least(s, &s->counters, &s->counter_bytes, counters, 1,
                                  "counters");
}

/* Geometry of the instances; sums over the group. */
static flame_status measure(fl_cuda *s, const fl_step *t, group *g) {
  g->geometry = fl_alloc(s->mem, (size_t)g->n * sizeof *g->geometry);
  if (!g->geometry) return no_memory(s);
  for (int32_t i = 0; i < g->n; i++) {
    fl_text_geometry *y = &g->geometry[i];
    fl_text_geometry_of(&t->kernel[g->which[i]], g->n > 1, y);
    g->grid += y->grid;
    g->scratch += aligned(y->scratch);
    g->counters += y->counters * 4;
    if (y->words > g->words) g->words = y->words;
  }
  if (g->words > FL_TEXT_MAX_WORDS || g->grid > INT32_MAX)
    return FL_FAIL(s->ctx, FLAME_NOT_SUPPORTED, "cuda",
                   "a step is too large for one launch");
  return share(s, g->scratch, g->counters);
}

/* Which instance and which of its blocks each block of a multi launch is: fixed. */
static flame_status send_chunks(fl_cuda *s, const fl_step *t, group *g) {
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
                                group *g) {
  g->function = fl_module_function(g->module);
  flame_status e = measure(s, t, g);
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
    return e == FLAME_OK && scratch > 0 ? share(s, scratch, 0) : e;
  }
  if (!r) return FLAME_OK;
  for (int32_t i = 0; i < r->ngroup && e == FLAME_OK; i++) e = ready_group(s, p, t, &r->group[i]);
  if (e == FLAME_OK && r->library && r->scratch) e = share(s, r->scratch, 0);
  if (e != FLAME_OK || !r->steps) return e;
  fl_text_step x = { 0 };
  describe(t, (char *const[3]){ NULL, NULL, NULL }, NULL, &x);
  for (int32_t i = 0; i < x.ncall && e == FLAME_OK; i++)
    e = fl_module_entry(s, r->steps, x.call[i].entry, &r->entry[i]);
  return e == FLAME_OK ? share(s, x.scratch, 0) : e;
}

/* Host memory that goes with the plan. Modules, and what the library calls
** keep, are shared with others. */
static int64_t bytes_held(const fl_plan *p) {
  size_t bytes = 0;
  for (int32_t i = 0; i < p->nstep; i++) {
    const fl_prepared *r = p->step[i].prepared;
    if (!r) continue;
    bytes += sizeof *r + (size_t)r->count * sizeof *r->group;
    for (int32_t j = 0; j < r->ngroup; j++) {
      const group *g = &r->group[j];
      bytes += (size_t)r->count * sizeof *g->which + (size_t)g->n * sizeof *g->geometry;
      if (g->sent) bytes += (size_t)g->n * (size_t)g->words * 8;
    }
  }
  return (int64_t)bytes;
}

flame_status fl_cuda_prepare(fl_device *d, fl_plan *p) {
  fl_cuda *s = d->state;
  if (p->prepared) return FLAME_OK;
  flame_status e = fl_cuda_enter(s);
  if (e != FLAME_OK) return e;
  for (int32_t i = 0; i < p->nstep && e == FLAME_OK; i++) e = want(s, &p->step[i]);
  if (e == FLAME_OK) e = fl_modules_build(s);
  else fl_modules_forget(s);
  for (int32_t i = 0; i < p->nstep && e == FLAME_OK; i++) e = ready(s, p, &p->step[i]);
  fl_cuda_leave(s);
  if (e == FLAME_OK) {
    p->total_bytes += bytes_held(p);
    p->unprepare = unprepare;
    p->prepared = 1;
  } else {
    unprepare(p);
  }
  return e;
}

/* ---- run ---- */

static void operands(const fl_kernel *k, const fl_binding *b, void **at) {
  for (int i = 0; i < k->noperand; i++) at[i] = fl_place_address(b, &k->operand[i].place);
}

/* One launch with one parameter by value. */
static flame_status launch(fl_cuda *s, fl_cu_function f, int64_t grid, uint32_t block,
                           void *param) {
  void *params[1] = { param };
  const flame_status e = fl_cuda_check(
    s, s->cu->LaunchKernel(f, (unsigned)grid, 1, 1, block, 1, 1, 0, s->stream, params,
                           NULL), "cuLaunchKernel");
  if (e != FLAME_OK || !s->sync_each) return e;
  return fl_cuda_check(s, s->cu->StreamSynchronize(s->stream),
                       "the kernel just launched");
}

static flame_status run_single(fl_cuda *s, const fl_kernel *k, group *g,
                               const fl_binding *b) {
  int64_t word[FL_TEXT_MAX_WORDS];
  void *at[FL_MAX_OPERANDS];
  const fl_text_aux aux = { s->fault, s->scratch, s->counters };
  operands(k, b, at);
  fl_text_params(k, at, b->scalar, &aux, word);
  return launch(s, g->function, g->grid, g->geometry[0].block, word);
}

/* Fill the table as it should be; returns whether it differs from what was sent. */
static int fill_table(fl_cuda *s, const fl_step *t, group *g, const fl_binding *b) {
  int64_t word[FL_TEXT_MAX_WORDS], scratch = 0, counters = 0;
  void *at[FL_MAX_OPERANDS];
  int changed = !g->current;
  for (int32_t i = 0; i < g->n; i++) {
    const fl_text_geometry *y = &g->geometry[i];
    const fl_kernel *k = &t->kernel[g->which[i]];
    const fl_text_aux aux = { s->fault, (char *)s->scratch + scratch,
                              (char *)s->counters + counters };
    int64_t *row = g->sent + (int64_t)i * g->words;
    operands(k, b, at);
    fl_text_instance(k, at, &aux, word);
    if (memcmp(row, word, (size_t)y->words * 8) != 0) {
      memcpy(row, word, (size_t)y->words * 8);
      changed = 1;
    }
    scratch += aligned(y->scratch);
    counters += y->counters * 4;
  }
  return changed;
}

static flame_status run_multi(fl_cuda *s, const fl_step *t, group *g,
                              const fl_binding *b) {
  if (fill_table(s, t, g, b)) {
    g->current = 0;
    const flame_status e = fl_stage_upload(s, g->table, g->sent,
                                           (int64_t)g->n * g->words * 8);
    if (e != FLAME_OK) return e;
    g->current = 1;
  }
  fl_text_multi param = { g->table, g->chunk, s->scalars };
  return launch(s, g->function, g->grid, g->geometry[0].block, &param);
}

static flame_status run_calls(fl_cuda *s, const fl_step *t, const fl_binding *b) {
  const fl_prepared *r = t->prepared;
  char *at[3];
  fl_text_step x = { 0 };
  if (t->kind == FL_S_SCATTER) {
    at[0] = fl_place_address(b, &t->scatter->dst.place);
    at[1] = fl_place_address(b, &t->scatter->idx.place);
    at[2] = fl_place_address(b, &t->scatter->src.place);
  } else {
    at[0] = fl_place_address(b, &t->matmul->at);
    at[1] = fl_place_address(b, &t->matmul->bt);
    at[2] = fl_place_address(b, &t->matmul->ct);
    if (r->library) return fl_blas_run(s, t->matmul, at[0], at[1], at[2]);
  }
  if (!r->steps) return FLAME_OK;
  describe(t, at, s->scratch, &x);
  flame_status e = FLAME_OK;
  for (int32_t i = 0; i < x.ncall && e == FLAME_OK; i++)
    if (x.call[i].grid) e = launch(s, r->entry[i], x.call[i].grid, x.call[i].block,
                                   x.param);
  return e;
}

/* text: what a call says about bad values. */
static flame_status run_step(fl_cuda *s, const fl_step *t, const fl_binding *b, char *text) {
  if (t->kind == FL_S_CALL) return fl_cuda_call_run(s, t->call, b, text);
  const fl_prepared *r = t->prepared;
  if (t->kind == FL_S_COPY) {
    if (t->bytes <= 0) return FLAME_OK;
    return fl_cuda_check(s, s->cu->CopyOn((fl_cu_ptr)(uintptr_t)fl_place_address(b, &t->to),
                                          (fl_cu_ptr)(uintptr_t)fl_place_address(b, &t->from),
                                          (size_t)t->bytes, s->stream), "cuMemcpyDtoDAsync");
  }
  if (t->kind != FL_S_KERNEL) return run_calls(s, t, b);
  flame_status e = FLAME_OK;
  for (int32_t i = 0; i < r->ngroup && e == FLAME_OK; i++) {
    group *g = &r->group[i];
    e = g->n == 1 ? run_single(s, &t->kernel[g->which[0]], g, b) : run_multi(s, t, g, b);
  }
  return e;
}

static int has_multi(const fl_plan *p) {
  for (int32_t i = 0; i < p->nstep; i++) {
    const fl_prepared *r = p->step[i].prepared;
    for (int32_t j = 0; r && j < r->ngroup; j++)
      if (r->group[j].n > 1) return 1;
  }
  return 0;
}

/* Before the first step: an empty fault record, and the scalars. */
static flame_status begin(fl_cuda *s, const fl_plan *p, const fl_binding *b) {
  flame_status e = FLAME_OK;
  s->fault_pending = 0;
  if (p->nfault)
    e = fl_cuda_check(s, s->cu->Memset8((fl_cu_ptr)(uintptr_t)s->fault, 0xff,
                                        sizeof(fl_text_fault),
                                        s->stream), "cuMemsetD8Async");
  if (e == FLAME_OK && p->nscalar && has_multi(p))
    e = fl_stage_upload(s, s->scalars, b->scalar, (int64_t)p->nscalar * 8);
  return e;
}

/* Index checks. Behind each step that checks, the fault record is copied out, and an event tells
** when that has happened: who looks waits for the checks, not for what is queued after them, so
** that the GPU goes on meanwhile. It is looked at before the first write to a home that follows
** (an error must leave a target as it was) and after the last step is queued (results may not be
** taken for good before). */
static flame_status send_fault(fl_cuda *s) {
  flame_status e = fl_cuda_check(
    s, s->cu->CopyOut(s->fault_host, (fl_cu_ptr)(uintptr_t)s->fault,
                      sizeof(fl_text_fault), s->stream),
    "cuMemcpyDtoHAsync");
  if (e == FLAME_OK)
    e = fl_cuda_check(s, s->cu->EventRecord(s->checked, s->stream), "cuEventRecord");
  if (e == FLAME_OK) s->fault_pending = 1;
  return e;
}

static flame_status look(fl_cuda *s, fl_fault *fault) {
  if (s->dead) return FLAME_OK;
  const flame_status e = fl_cuda_wait(s, s->checked);
  if (e == FLAME_OK) fl_cuda_fault(s, fault);
  return e;
}

static int checks_indices(const fl_step *s) {
  for (int i = 0; s->kind == FL_S_KERNEL && i < s->kernel->ninstr; i++)
    if (s->kernel->instr[i].code == FL_I_INDEX) return 1;
  return 0;
}

/* Is step i the last that checks before something else is done? */
static int ends_checks(const fl_plan *p, int32_t i) {
  const fl_step *next = &p->step[i + 1];
  return p->nfault && checks_indices(&p->step[i]) &&
         (i + 1 == p->nstep || next->commits || !checks_indices(next));
}

/* The step, from 'first' on, that reports at this site. */
static int32_t step_of_site(const fl_plan *p, int32_t first, int32_t site) {
  for (int32_t i = first; i < p->nstep; i++)
    for (int32_t j = 0; p->step[i].kind == FL_S_KERNEL && j < p->step[i].count; j++) {
      const fl_kernel *k = &p->step[i].kernel[j];
      for (int v = 0; v < k->ninstr; v++)
        if (k->instr[v].code == FL_I_INDEX && k->instr[v].arg == site) return i;
    }
  return first;
}

/* Look at the checks of the steps from *open on. Done are the steps before the one that reports:
** the record keeps the lowest report, so these have found nothing. */
static flame_status look_at(fl_cuda *s, const fl_plan *p, int32_t *open, fl_fault *fault,
                            int32_t *done) {
  const int32_t first = *open;
  *open = -1;
  const flame_status e = look(s, fault);
  if (e != FLAME_OK) *done = first;
  else if (fault->site >= 0) *done = step_of_site(p, first, fault->site);
  return e;
}

static flame_status run_steps(fl_cuda *s, const fl_plan *p, const fl_binding *b, fl_fault *fault,
                              int32_t *done, fl_marks *marks) {
  int32_t open = -1;               /* the first step that checked since the last look; -1: none */
  flame_status e = FLAME_OK;
  for (int32_t i = 0; i <= p->nstep && e == FLAME_OK; i++) {
    if (open >= 0 && (i == p->nstep || p->step[i].commits)) {
      e = look_at(s, p, &open, fault, done);
      if (e != FLAME_OK || fault->site >= 0) return e;
    }
    if (i == p->nstep) break;
    if (open < 0 && p->nfault && checks_indices(&p->step[i])) open = i;
    e = fl_cuda_poll(s);
    fl_marks_set(s, marks, i, 0);
    if (e == FLAME_OK) e = run_step(s, &p->step[i], b, fault->text);
    fl_marks_set(s, marks, i, 1);
    if (e == FLAME_OK && ends_checks(p, i)) e = send_fault(s);
    if (fault->text[0]) {                             /* only calls that can report say something */
      fl_fault earlier = { .site = -1 };
      *done = i;
      if (open >= 0) e = look_at(s, p, &open, &earlier, done);
      if (e != FLAME_OK || earlier.site >= 0) *fault = earlier;
      else fault->site = p->step[i].call->fault;
      return e;
    }
    if (e == FLAME_OK) (*done)++;
  }
  return e;
}

flame_status fl_cuda_run(fl_device *d, fl_plan *p, const fl_binding *b, fl_fault *fault,
                         int32_t *done) {
  fl_cuda *s = d->state;
  *done = 0;
  *fault = (fl_fault){ .site = -1 };
  flame_status e = fl_cuda_enter(s);
  if (e != FLAME_OK) return e;
  e = begin(s, p, b);
  fl_marks *marks = d->trace ? fl_marks_open(s, p->nstep) : NULL;
  if (e == FLAME_OK) e = run_steps(s, p, b, fault, done, marks);
  fl_marks_tell(d, marks, p, *done);
  fl_marks_close(s, marks);
  fl_cuda_leave(s);
  return e;
}
