/*
** The CPU as a device (device/device.h). A plan is prepared once: each kernel is lowered to a
** program, and the scratch that its steps will need is reserved, so that a run allocates little:
** tables of a transform's first use, and memory that calls of user kernels ask for as they run.
** Steps run in order and are done when run returns.
**
** Work is spread over the workers in units (program/program.h); steps of little work stay on the
** caller. Interrupts: workers stop taking units once the flag is set; run clears it. Steps that
** write a home (the buffer of an existing tensor, changed in place) are not interrupted: they run
** with a flag that stays 0, as do the steps between the first and the last that write one home.
*/
#include "cpu/attention/attention.h"
#include "cpu/calls.h"
#include "cpu/fft/fft_job.h"
#include "cpu/gemm/matmul.h"
#include "cpu/program/program.h"
#include "cpu/scan/scan.h"
#include "cpu/scatter.h"
#include "cpu/state/blocks.h"
#include "base/env.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PARALLEL_WORK = 32768, LITTLE_WORK = 4 * PARALLEL_WORK, DEAR_WORK = 4, COPY_UNIT = 1 << 20 };
static const int64_t kept_limit = 256 << 20;

static fl_cpu *cpu_of(const fl_device *d) { return d->state; }

/* ---- memory --------------------- */

static void *cpu_alloc(fl_device *d, int64_t bytes) {
  fl_cpu *s = cpu_of(d);
  void *p = fl_blocks_alloc(s->blocks, bytes);
  if (p) fl_cpu_count(s, bytes);
  return p;
}

static void cpu_free(fl_device *d, void *p, int64_t bytes) {
  fl_cpu *s = cpu_of(d);
  fl_blocks_free(s->blocks, p, bytes);
  if (p) fl_cpu_count(s, -bytes);
}

static void cpu_trim(fl_device *d) {
  fl_blocks_trim(cpu_of(d)->blocks);
  fl_fft_close(cpu_of(d), &d->ctx->mem);
  fl_cpu_drop_races(cpu_of(d));
  fl_cpu_count(cpu_of(d), 0);
}

static void cpu_memory(fl_device *d, fl_usage *u) {
  const fl_cpu *s = cpu_of(d);
  const long pages = sysconf(_SC_AVPHYS_PAGES), size = sysconf(_SC_PAGESIZE);
  *u = (fl_usage){ .free = pages > 0 && size > 0 ? (int64_t)pages * size : 0, .used = s->used,
                   .reserved = s->reserved };
}

static void cpu_reset_peak(fl_device *d) {
  fl_cpu *s = cpu_of(d);
  s->used.peak = s->used.now;
  s->reserved.peak = s->reserved.now;
}

static flame_status cpu_transfer(fl_device *d, void *dst, const void *src, int64_t bytes) {
  (void)d;
  if (bytes > 0 && dst != src) memmove(dst, src, (size_t)bytes);
  return FLAME_OK;
}

/* ---- prepare --------------------- */

static void free_step(fl_mem *m, fl_cpu_step *t) {
  if (!t) return;
  for (int32_t i = 0; t->prog && i < t->count; i++) fl_prog_free(t->prog[i]);
  fl_free(m, t->prog, sizeof *t->prog * (size_t)t->count);
  fl_free(m, t->first, sizeof *t->first * ((size_t)t->count + 1));
  fl_free(m, t, sizeof *t);
}

static void unprepare(fl_plan *p) {
  for (int32_t i = 0; i < p->nstep; i++) {
    if (p->step[i].kind == FL_S_KERNEL) free_step(p->mem, p->step[i].prepared);
    p->step[i].prepared = NULL;
  }
  p->prepared = 0;
}

static flame_status no_memory(fl_device *d) {
  return FL_FAIL(d->ctx, FLAME_NO_MEMORY, "cpu", "out of host memory while preparing a plan");
}

static flame_status prepare_kernels(fl_device *d, fl_plan *p, fl_step *s) {
  fl_cpu *cpu = cpu_of(d);
  fl_cpu_step *t = fl_zalloc(p->mem, sizeof *t);
  s->prepared = t;
  if (!t) return no_memory(d);
  t->count = s->count;
  t->prog = fl_zalloc(p->mem, sizeof *t->prog * (size_t)s->count);
  t->first = fl_zalloc(p->mem, sizeof *t->first * ((size_t)s->count + 1));
  if (!t->prog || !t->first) return no_memory(d);
  for (int32_t i = 0; i < s->count; i++) {
    const fl_kernel *k = &s->kernel[i];
    t->first[i + 1] = t->first[i];
    if (k->kind == FL_K_MAP ? k->points == 0 : k->rows == 0) continue;
    const int64_t before = p->mem->live_bytes;
    fl_prog *g = t->prog[i] = fl_prog_new(d->ctx, p->mem, cpu->vm, k, cpu->width);
    p->total_bytes += p->mem->live_bytes - before;
    if (!g) return d->ctx->err.code ? d->ctx->err.code : FLAME_NO_MEMORY;
    t->first[i + 1] += fl_prog_split(g) ? 0 : g->units;
    t->work += (k->points + k->rows) * (1 + k->ninstr / 16 + DEAR_WORK * g->dear);
    if (!fl_cpu_reserve(cpu, &d->ctx->mem, fl_prog_worker_bytes(g), fl_prog_shared_bytes(g)))
      return no_memory(d);
  }
  t->even = 1;
  for (int32_t i = 0; i < t->count; i++)
    t->even &= t->first[i + 1] > t->first[i] && t->first[i + 1] - t->first[i] == t->first[1];
  return FLAME_OK;
}

static flame_status prepare_step(fl_device *d, fl_plan *p, fl_step *s) {
  fl_cpu *cpu = cpu_of(d);
  int64_t shared = 0;
  if (s->kind == FL_S_KERNEL) return prepare_kernels(d, p, s);
  if (s->kind == FL_S_MATMUL) shared = fl_matmul_bytes(cpu, s->matmul);
  if (s->kind == FL_S_SCATTER) shared = fl_scatter_bytes(s->scatter);
  if (s->kind == FL_S_CALL) shared = fl_cpu_call_scratch(cpu, &s->call->call);
  return fl_cpu_reserve(cpu, &d->ctx->mem, 0, shared) ? FLAME_OK : no_memory(d);
}

static flame_status cpu_prepare(fl_device *d, fl_plan *p) {
  if (p->prepared) return FLAME_OK;
  p->unprepare = unprepare;
  for (int32_t i = 0; i < p->nstep; i++) {
    const flame_status st = prepare_step(d, p, &p->step[i]);
    if (st) {
      unprepare(p);
      return st;
    }
  }
  p->prepared = 1;
  return FLAME_OK;
}

/* ---- run --------------------- */

typedef struct launch { fl_cpu *cpu; const fl_cpu_step *step; } launch;

/* Runs one unit of a step of several kernels. If all kernels have the same number of units,
** consecutive units belong to different kernels, so that workers do not write parts of one page (as
** the pieces of a cat are); otherwise the unit's kernel is found by bisection. */
static void kernel_unit(void *arg, int64_t unit, int worker) {
  const launch *l = arg;
  int32_t low = 0, high = l->step->count;
  if (l->step->even) {
    fl_prog_unit(l->step->prog[unit % high], unit / high,
                 l->cpu->scratch + worker * l->cpu->worker_bytes, &l->cpu->fault[worker]);
    return;
  }
  while (high - low > 1) {
    const int32_t mid = low + (high - low) / 2;
    if (l->step->first[mid] <= unit) low = mid;
    else high = mid;
  }
  fl_prog_unit(l->step->prog[low], unit - l->step->first[low],
               l->cpu->scratch + worker * l->cpu->worker_bytes, &l->cpu->fault[worker]);
}

static void run_kernels(fl_device *d, const fl_cpu_step *t, const fl_binding *b) {
  fl_cpu *cpu = cpu_of(d);
  launch l = { cpu, t };
  const int64_t units = t->first[t->count];
  for (int32_t i = 0; i < t->count; i++)
    if (t->prog[i]) fl_prog_bind(t->prog[i], b, cpu->scratch, &cpu->fault[0]);
  const int alone = t->work <= PARALLEL_WORK ||
                    (t->work <= LITTLE_WORK && !fl_threads_awake(cpu->pool));
  if (!alone) fl_threads_run(cpu->pool, units, kernel_unit, &l, cpu->stop);
  else for (int64_t u = 0; u < units; u++) kernel_unit(&l, u, 0);
  if (alone && t->work > PARALLEL_WORK) fl_threads_alone(cpu->pool);
  for (int32_t i = 0; i < t->count && !fl_stopped(d); i++)
    if (t->prog[i] && fl_prog_split(t->prog[i])) fl_prog_run_split(cpu, t->prog[i], cpu->stop);
}

typedef struct copying { char *dst; const char *src; int64_t bytes; } copying;

static void copy_unit(void *arg, int64_t unit, int worker) {
  const copying *c = arg;
  const int64_t at = unit * COPY_UNIT, n = c->bytes - at < COPY_UNIT ? c->bytes - at : COPY_UNIT;
  (void)worker;
  memmove(c->dst + at, c->src + at, (size_t)n);
}

static void run_copy(fl_device *d, const fl_step *s, const fl_binding *b) {
  copying c = { fl_place_address(b, &s->to), fl_place_address(b, &s->from), s->bytes };
  if (c.dst == c.src) return;
  const int64_t units = (c.bytes + COPY_UNIT - 1) / COPY_UNIT;
  fl_threads_run(cpu_of(d)->pool, units, copy_unit, &c, cpu_of(d)->stop);
}

/* Runs one step. text receives the message of a call about bad values. */
static flame_status run_step(fl_device *d, const fl_step *s, const fl_binding *b, char *text) {
  switch (s->kind) {
    case FL_S_KERNEL: run_kernels(d, s->prepared, b); return FLAME_OK;
    case FL_S_MATMUL: return fl_matmul_run(d, s->matmul, b);
    case FL_S_SCATTER: return fl_scatter_run(d, s->scatter, b);
    case FL_S_CALL: return fl_cpu_call_step(d, s->call, b, text);
    default: run_copy(d, s, b); return FLAME_OK;
  }
}

static const atomic_int never;

/* The lowest report of all workers. */
static void lowest_fault(const fl_cpu *cpu, fl_fault *fault) {
  fault->site = -1;
  for (int i = 0; i < cpu->width; i++) {
    const fl_vm_fault *f = &cpu->fault[i];
    if (f->site < 0 || (fault->site >= 0 && (fault->site < f->site ||
        (fault->site == f->site && fault->position <= f->position)))) continue;
    fault->site = (int32_t)f->site;
    fault->value = f->value;
    fault->position = f->position;
  }
}

/* Runs the plan. Stops after the step that reports a fault, which does not count as done: what it
** wrote, and what later steps would have written, must not be used. */
static flame_status cpu_run(fl_device *d, fl_plan *p, const fl_binding *b, fl_fault *fault,
                            int32_t *done) {
  fl_cpu *cpu = cpu_of(d);
  flame_status st = FLAME_OK;
  int32_t whole = -1;                 /* up to this step the run can not be interrupted */
  *done = 0;
  *fault = (fl_fault){ .site = -1 };
  for (int i = 0; i < cpu->width; i++) cpu->fault[i].site = -1;
  for (int32_t i = 0; i < p->nstep && !st && fault->site < 0; i++) {
    if (i > whole && fl_take_interrupt(d->ctx)) {
      st = FLAME_INTERRUPTED;
      break;
    }
    const int32_t end = p->step[i].commits ? fl_plan_commit_end(p, i) : -1;
    if (end > whole) whole = end;
    cpu->stop = i <= whole ? &never : &d->ctx->interrupted;
    const double start = d->trace ? fl_trace_now() : 0;
    st = run_step(d, &p->step[i], b, fault->text);
    if (d->trace) {
      const double ms = fl_trace_now() - start;
      d->trace->step(d->trace, d, p, i, &(fl_timing){ start, ms, start, ms, 0 });
    }
    if (!st && i > whole && fl_take_interrupt(d->ctx)) st = FLAME_INTERRUPTED;
    if (fault->text[0]) fault->site = p->step[i].call->fault;
    else if (p->nfault) lowest_fault(cpu, fault);
    if (!st && fault->site < 0) *done = i + 1;
  }
  if (!st && fault->site < 0 && fl_take_interrupt(d->ctx)) st = FLAME_INTERRUPTED;  /* after all */
  if (st == FLAME_INTERRUPTED) fl_interrupted(d->ctx, "eval");
  return st;
}

static flame_status cpu_sync(fl_device *d, fl_fault *fault) {
  (void)d;
  fault->site = -1;
  return FLAME_OK;
}

/* ---- open and close --------------------- */

static void cpu_close(fl_device *d) {
  fl_cpu *s = cpu_of(d);
  fl_mem *m = &d->ctx->mem;
  if (!s) return;
  fl_threads_close(s->pool);
  fl_blocks_close(s->blocks);
  fl_fft_close(s, m);
  fl_cpu_drop_races(s);
  fl_free(m, s->fault, sizeof *s->fault * (size_t)s->width);
  fl_free(m, s->scratch, (size_t)(s->worker_bytes * s->width));
  fl_free(m, s->shared, (size_t)s->shared_bytes);
  fl_free(m, s, sizeof *s);
  d->state = NULL;
}

static const fl_device_table cpu_table = {
  .name = "cpu", .alloc = cpu_alloc, .free = cpu_free, .trim = cpu_trim,
  .memory = cpu_memory, .reset_peak = cpu_reset_peak,
  .upload = cpu_transfer, .download = cpu_transfer, .copy = cpu_transfer,
  .prepare = cpu_prepare, .ready = fl_cpu_ready, .run = cpu_run, .sync = cpu_sync,
  .close = cpu_close,
};

/* Chooses the best tables of loops for this machine; FLAME_ISA limits the choice. */
static void choose_loops(fl_cpu *s) {
  s->vm = &fl_vm_base;
  s->scan = &fl_scan_base;
  s->attention = &fl_attention_base;
#if defined(__x86_64__)
  const char *cap = fl_env(FL_ENV_FLAME_ISA);
  const int base = !strcmp(cap, "base"), avx2 = !strcmp(cap, "avx2");
  __builtin_cpu_init();
  if (!base && !avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    s->vm = &fl_vm_avx512;
    s->scan = &fl_scan_avx512;
    s->attention = &fl_attention_avx512;
  } else if (!base && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    s->vm = &fl_vm_avx2;
    s->scan = &fl_scan_avx2;
    s->attention = &fl_attention_avx2;
  }
#endif
}

static int thread_count(int asked) {
  int n = asked > 0 ? asked : fl_env_int(FL_ENV_FLAME_THREADS);
  if (n <= 0) n = (int)sysconf(_SC_NPROCESSORS_ONLN);
  return n < 1 ? 1 : n > 256 ? 256 : n;
}

flame_status fl_cpu_open(flame_context *c, fl_device *d, int threads) {
  fl_cpu *s = fl_zalloc(&c->mem, sizeof *s);
  d->table = &cpu_table;
  d->ctx = c;
  d->state = s;
  d->trace = NULL;
  if (!s) return FL_FAIL(c, FLAME_NO_MEMORY, "open", "out of host memory");
  s->stop = &never;
  s->width = thread_count(threads);
  choose_loops(s);
  snprintf(s->blas_name, sizeof s->blas_name, "%s",
           c->limits.deny & FLAME_LIBRARIES ? "off" : fl_env(FL_ENV_FLAME_BLAS));
  s->pool = fl_threads_open(&c->mem, s->width);
  s->blocks = fl_blocks_open(&c->mem, fl_env_int(FL_ENV_FLAME_POOL) ? kept_limit : 0);
  s->fault = fl_zalloc(&c->mem, sizeof *s->fault * (size_t)s->width);
  if (s->pool && s->blocks && s->fault) return FLAME_OK;
  cpu_close(d);
  return FL_FAIL(c, FLAME_NO_MEMORY, "open", "out of host memory");
}
