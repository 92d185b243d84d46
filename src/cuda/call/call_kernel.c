/*
** User kernels on a CUDA device: compiled as given (module.c), launched with the arguments that the
** call describes (kernel/function.h). Before the launch results are filled on the same
** stream, with zeros or with a copy of an input, or (FL_KARG_RAW) are left as they are.
*/
#include "cuda/call/ordered.h"
#include <stdio.h>

static const fl_kfunction *function_of(const fl_call *c) {
  return (const fl_kfunction *)(const void *)c->callee;
}

/* The scratch of a call; if a batch is made by several launches, the scratch of one of them. */
int64_t fl_cuda_scratch_kernel(fl_cuda *s, const fl_call *c) {
  const fl_kfunction *k = function_of(c);
  fl_call part;
  fl_call_run one;
  const fl_call_run all = { .call = c };
  (void)s;
  if (!c->p[FL_KP_BATCH] || fl_kfunction_is_batched(k, c)) return fl_ordered_scratch(k, c);
  fl_kbatch_part(&all, 0, &part, &one);
  return fl_ordered_scratch(k, &part);
}

/* What a launch without checks takes for k. */
static const fl_kfunction *launched(const fl_kfunction *k, const fl_call *c) {
  if (fl_kfunction_is_batched(k, c)) return k->batched;
  return k->bounded && fl_kfunction_is_wide(k, c) ? k->bounded : k;
}

void fl_cuda_modules_kernel(fl_cuda *s, const fl_call *c) {
  const fl_kfunction *k = function_of(c);
  if (c->p[FL_KP_CHECKS] && k->checked) {
    fl_cuda_want_user(s, k->checked);
    return;
  }
  if (fl_kfunction_is_wide(k, c)) fl_kfunction_bound((fl_kfunction *)(void *)c->callee);
  if (fl_cuda_want_user(s, launched(k, c))) fl_ordered_want(s, k);
}

typedef struct shape { unsigned grid[3], block[3], shared; } shape;

static flame_status start(fl_cuda *s, const fl_kfunction *k, fl_cu_function f, const shape *x,
                          void **param) {
  if (!k->binary && k->f->uses_grid)
    return fl_cuda_launch_grid(s, f, k->f->name, x->grid, x->block, x->shared, param);
  return fl_cuda_launch(s, f, x->grid, x->block, x->shared, param);
}

/* ---- batches ---- */

/* Bytes of argument i from the part that one element of the batch uses to the part of the next; 0:
** all elements of the batch share the argument, or it is not a pointer. */
static int64_t step_of(const fl_call *c, int i) {
  int64_t a, b;
  const fl_karg_kind kind = fl_karg_of(c, i, &a, &b);
  if (kind == FL_KARG_OUT || kind == FL_KARG_RAW) return a / c->p[FL_KP_BATCH];
  if (kind != FL_KARG_COPY && kind != FL_KARG_IN_EACH) return 0;
  return c->in_numel[a] * fl_dtype_size(c->in_dtype[a]) / c->p[FL_KP_BATCH];
}

/* Launches a batch, as many of its elements at a time as a grid can hold along z. n: index of the
** parameter that describes the batch, the last one. */
static flame_status launch_parts(fl_cuda *s, fl_cu_function f, const fl_call *c, const shape *x,
                                 fl_cu_ptr *pointer, void **param, int n) {
  enum { MOST_Z = 65535 };
  const int64_t most = MOST_Z / x->grid[2];
  fl_kbatch batch = { .blocks = x->grid[2] };
  flame_status e = FLAME_OK;
  for (int i = 0; i < c->p[FL_KP_COUNT_ARGS]; i++) batch.step[i] = step_of(c, i);
  param[n] = &batch;
  for (int64_t from = 0; from < c->p[FL_KP_BATCH] && e == FLAME_OK; from += most) {
    const int64_t rest = c->p[FL_KP_BATCH] - from, parts = rest < most ? rest : most;
    const unsigned grid[3] = { x->grid[0], x->grid[1], x->grid[2] * (unsigned)parts };
    batch.first = (uint32_t)from;
    e = fl_cuda_launch(s, f, grid, x->block, x->shared, param);
    for (int i = 0; i < c->p[FL_KP_COUNT_ARGS]; i++)
      pointer[i] += (fl_cu_ptr)(parts * batch.step[i]);
  }
  return e;
}

/* Fails if a block needs more shared memory than this device gives one. */
static flame_status check_shared(fl_cuda *s, const fl_kfunction *k, unsigned bytes) {
  if (bytes <= (unsigned)s->shared) return FLAME_OK;
  return FL_FAIL(s->ctx, FLAME_NOT_SUPPORTED, "kernel", "%s: a block needs %u bytes of shared "
                 "memory and this device gives it %d" FL_DO ": make its tiles smaller", k->f->name,
                 bytes, s->shared);
}

/* Fails if a block needs more registers than this device gives one. */
static flame_status check_registers(fl_cuda *s, const fl_kfunction *k, const fl_call *c) {
  if (launched(k, c) != k || !fl_kfunction_is_wide(k, c)) return FLAME_OK;
  return FL_FAIL(s->ctx, FLAME_NOT_SUPPORTED, "kernel", "%s: a block of %lld threads with %d "
                 "registers each needs more than this device gives it" FL_DO ": launch smaller "
                 "blocks, or compile it with __launch_bounds__", k->f->name,
                 (long long)(c->p[FL_KP_BLOCK] * c->p[FL_KP_BLOCK + 1] * c->p[FL_KP_BLOCK + 2]),
                 k->registers);
}

/* Runs a call that is no batch (also one element of a batch), or a whole batch by k->batched, the
** kernel made for batches. */
static flame_status run_one(fl_cuda *s, const fl_call_run *r) {
  const fl_call *c = r->call;
  const fl_kfunction *k = function_of(c);
  const int n = (int)c->p[FL_KP_COUNT_ARGS], batched = fl_kfunction_is_batched(k, c);
  fl_cu_ptr pointer[FL_KP_MAX_ARGS], table = (fl_cu_ptr)(uintptr_t)r->scratch;
  fl_cu_ptr record = (fl_cu_ptr)(uintptr_t)s->fault;
  uint64_t site = (uint64_t)r->site << 48;
  void *param[FL_KP_MAX_ARGS + 5];
  shape x = { .shared = (unsigned)(c->p[FL_KP_SHARED] + fl_kfunc_moved(k->f)) };
  fl_cu_function f;
  flame_status e = check_shared(s, k, x.shared);
  if (e != FLAME_OK) return e;
  if (c->p[FL_KP_CHECKS] && k->checked) return fl_cuda_call_checked(s, k, r);
  if ((e = check_registers(s, k, c)) != FLAME_OK) return e;
  for (int i = 0; i < 3; i++) {
    x.grid[i] = (unsigned)c->p[FL_KP_GRID + i];
    x.block[i] = (unsigned)c->p[FL_KP_BLOCK + i];
  }
  e = fl_cuda_user_entry(s, launched(k, c), &f);
  if (e == FLAME_OK && k->sums) e = fl_ordered_begin(s, k, r);
  if (e == FLAME_OK) e = fl_cuda_fill(s, k, r);
  for (int pass = 0; pass <= (k->sums > 0) && e == FLAME_OK; pass++) {
    if (pass && (e = fl_ordered_judge(s, k, r)) != FLAME_OK) return e;
    int more = n;
    if (k->sums) {
      param[more++] = &pass;
      param[more++] = &table;
    }
    if (k->stops) {
      param[more++] = &record;
      param[more++] = &site;
    }
    fl_cuda_bind(r, pointer, param);
    e = batched ? launch_parts(s, f, c, &x, pointer, param, more)
                : start(s, k, f, &x, param);
  }
  return e == FLAME_OK && k->sums ? fl_ordered_end(s, k, r) : e;
}

flame_status fl_cuda_call_kernel(fl_cuda *s, const fl_call_run *r) {
  fl_call c;
  fl_call_run one;
  flame_status e = FLAME_OK;
  const int64_t n = r->call->p[FL_KP_BATCH];
  if (n == 0 || fl_kfunction_is_batched(function_of(r->call), r->call)) return run_one(s, r);
  for (int64_t i = 0; i < n && e == FLAME_OK; i++) {
    fl_kbatch_part(r, i, &c, &one);
    e = run_one(s, &one);
  }
  return e;
}

/* Notes what a thread needs: registers, and local memory (spills, and arrays that are indexed). */
static flame_status measure(fl_cuda *s, fl_kfunction *k, fl_cu_function f) {
  enum { LOCAL_SIZE_BYTES = 3, NUM_REGS = 4 };
  int registers = -1, local = -1;
  flame_status e = fl_cuda_check(s, s->cu->FuncGetAttribute(&registers, NUM_REGS, f),
                                 "cuFuncGetAttribute");
  if (e == FLAME_OK)
    e = fl_cuda_check(s, s->cu->FuncGetAttribute(&local, LOCAL_SIZE_BYTES, f),
                      "cuFuncGetAttribute");
  k->registers = registers;
  k->spilled = local;
  return e;
}

/* Reports that a kernel runs without the checks that the user asked for: it is a binary, its blocks
** meet at a barrier of the grid, or its source has something that can not be checked. */
static void say_unchecked(const fl_kfunction *k) {
  char text[480] = "it is a binary";
  if (!k->binary && k->f->has_body)
    snprintf(text, sizeof text, "its blocks meet at a barrier of the grid; the CPU checks it");
  else if (!k->binary)
    fl_kunit_message(k->unit, fl_ksource_refusal(k->unit->source, k->f), text, sizeof text);
  fl_error_plain(text);
  fprintf(stderr, "flame: kernel '%s' runs without the checks of FLAME_CHECK: %s\n",
          k->f->name, text);
}

/* What is compiled and launched for k: itself, or its version with checks. A context with limits
** compiles no text of a script, only the checked version, which is printed from the syntax tree. */
static int is_limited(const fl_cuda *s) { return s->ctx->limits.any || s->ctx->limits.deny; }
static fl_kfunction *compiled(const fl_cuda *s, fl_kfunction *k) {
  return is_limited(s) && k->checked ? k->checked : k;
}

/* Queues the kernel for compilation and, if checks are on, its version with checks. */
static flame_status want(fl_cuda *s, fl_kfunction *k) {
  unsigned checks = fl_kfunction_checks(s->ctx);
  if (k->ad) checks &= ~(unsigned)FL_LANE_UNINIT;
  if (is_limited(s) && k->f->uses_grid)
    return FL_FAIL(s->ctx, FLAME_NOT_SUPPORTED, "kernel", "%s: a context with limits runs kernels "
                   "with checks, which one whose blocks meet has on the CPU alone", k->f->name);
  if (checks && (k->binary || !k->f->has_body || k->f->uses_grid)) say_unchecked(k);
  if (checks && !fl_kfunction_check(k, checks))
    return FL_FAIL(s->ctx, FLAME_NO_MEMORY, "kernel", "no host memory for checks");
  if (!fl_cuda_want_user(s, compiled(s, k)) || !fl_ordered_want(s, k)) return s->ctx->err.code;
  return k->checked && !fl_cuda_want_user(s, k->checked) ? s->ctx->err.code : FLAME_OK;
}

static flame_status build_one(fl_cuda *s, fl_kfunction *k) {
  const flame_status e = want(s, k);
  if (e == FLAME_OK) return fl_modules_build(s);
  fl_modules_forget(s);
  return e;
}

/* Compiles k. If NVRTC refuses a user's text that the front end reads (a name of a header that is
** not there, say), the text is printed from its tree and compiled once more; if that fails too the
** error is what NVRTC said of the user's text. */
static flame_status build_or_print(fl_cuda *s, fl_kfunction *k) {
  const fl_error before = s->ctx->err;
  flame_status e = build_one(s, k);
  const fl_error refused = s->ctx->err;
  if (e != FLAME_BAD_ARGUMENT || !fl_kfunction_reprint(k)) return e;
  s->ctx->err = before;
  e = build_one(s, k);
  if (e == FLAME_BAD_ARGUMENT) s->ctx->err = refused;
  return e;
}

/* Compiles all at a time. If a text is refused, each is compiled alone, so that only the refused
** one is printed. */
static flame_status build(fl_cuda *s, fl_kfunction *const *k, int n) {
  const fl_error before = s->ctx->err;
  flame_status e = FLAME_OK;
  for (int i = 0; i < n && e == FLAME_OK; i++) e = want(s, k[i]);
  if (e == FLAME_OK) e = fl_modules_build(s);
  else fl_modules_forget(s);
  if (e != FLAME_BAD_ARGUMENT) return e;
  s->ctx->err = before;
  e = FLAME_OK;
  for (int i = 0; i < n && e == FLAME_OK; i++) e = build_or_print(s, k[i]);
  return e;
}

flame_status fl_cuda_ready(fl_device *d, fl_kfunction *const *k, int n) {
  fl_cuda *s = d->state;
  flame_status e = fl_cuda_enter(s);
  if (e != FLAME_OK) return e;
  e = build(s, k, n);
  for (int i = 0; i < n && e == FLAME_OK; i++) {
    fl_cu_function f;
    e = fl_cuda_user_entry(s, compiled(s, k[i]), &f);
    if (e == FLAME_OK) e = measure(s, k[i], f);
    if (e == FLAME_OK) k[i]->ready |= 1u << d->index;
  }
  fl_cuda_leave(s);
  return e;
}

static flame_status held(fl_cuda *s, fl_cu_function f, int64_t threads, int64_t shared,
                         int64_t *resident) {
  enum { MAX_THREADS = 0 };
  int most = 0, blocks = 0;
  *resident = 0;
  flame_status e = fl_cuda_check(s, s->cu->FuncGetAttribute(&most, MAX_THREADS, f),
                                 "cuFuncGetAttribute");
  if (e != FLAME_OK || threads > most) return e;
  if (fl_cuda_allow_shared(s, f, shared) != FL_CU_OK) return FLAME_OK;   /* more than a block has */
  e = fl_cuda_check(s, s->cu->Occupancy(&blocks, f, (int)threads, (size_t)shared),
                    "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  *resident = blocks * threads;
  return e;
}

flame_status fl_cuda_resident(fl_device *d, fl_kfunction *k, int n, const int64_t *threads,
                              const int64_t *shared, int64_t *resident) {
  fl_cuda *s = d->state;
  fl_cu_function f;
  flame_status e = fl_cuda_enter(s);
  if (e != FLAME_OK) return e;
  e = fl_cuda_user_entry(s, compiled(s, k), &f);
  for (int i = 0; i < n && e == FLAME_OK; i++) e = held(s, f, threads[i], shared[i], &resident[i]);
  fl_cuda_leave(s);
  return e;
}
