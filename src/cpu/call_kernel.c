/*
** User kernels on the CPU: the threads of a block run in lockstep (kernel/lanes/lane.h). Blocks are
** distributed over the workers if the order of blocks does not show in the result.
*/
#include "cpu/calls.h"
#include "kernel/function.h"
#include "base/num.h"
#include <stdio.h>
#include <string.h>

static const int64_t races_kept = (int64_t)128 << 20;     /* most bytes of cpu->races */

typedef struct launch {
  const fl_lane_code *code;
  fl_lane_launch l;
  fl_lane_arg arg[FL_KP_MAX_ARGS];
  fl_lane_memory memory[FL_KP_MAX_ARGS];
  char *scratch;                     /* 'stride' bytes per worker */
  int64_t stride;
  fl_lane_report report[256];        /* one per worker, as many as a device may have */
  uint8_t begun[256];
  atomic_llong worst;                /* lowest block that failed: later ones need not run */
} launch;

static const fl_kfunction *function_of(const fl_call *c) {
  return (const fl_kfunction *)(const void *)c->callee;
}

static void set_geometry(const fl_call *c, fl_lane_launch *l) {
  for (int i = 0; i < 3; i++) {
    l->grid[i] = (uint32_t)c->p[FL_KP_GRID + i];
    l->block[i] = (uint32_t)c->p[FL_KP_BLOCK + i];
  }
  l->shared_bytes = c->p[FL_KP_SHARED];
  l->checks = (unsigned)c->p[FL_KP_CHECKS];
  l->n_args = (int32_t)c->p[FL_KP_COUNT_ARGS];
}

/* The scratch bytes of a launch. Called when its sizes are known, but its addresses are not. */
int64_t fl_cpu_scratch_kernel(const fl_call *call, int workers) {
  const fl_kfunction *k = function_of(call);
  fl_lane_launch l = { 0 };
  set_geometry(call, &l);
  if (!k->lanes) return 0;
  const int64_t copies = fl_lane_meets(k->lanes) ? fl_lane_copies(k->lanes, &l) : workers;
  return fl_round_up((int64_t)fl_lane_scratch(k->lanes, &l), 64) * copies +
         fl_round_up(sizeof(launch), 64);
}

/* Sets the arguments of the kernel. Outputs get the contents that they have before the launch:
** zeros, or a copy of an input; those of kind FL_KARG_RAW stay as they are. */
static void bind(const fl_call_run *r, launch *x) {
  const fl_call *c = r->call;
  for (int i = 0; i < x->l.n_args; i++) {
    int64_t a, b;
    void *data = NULL;
    int64_t bytes = 0;
    const fl_karg_kind kind = fl_karg_of(c, i, &a, &b);
    switch (kind) {
      case FL_KARG_IN:
        data = r->in[a];
        bytes = c->in_numel[a] * fl_dtype_size(c->in_dtype[a]);
        break;
      case FL_KARG_OUT: case FL_KARG_RAW:
        data = (char *)r->out + b;
        bytes = a;
        if (bytes && kind == FL_KARG_OUT) memset(data, 0, (size_t)bytes);
        break;
      case FL_KARG_COPY:
        data = (char *)r->out + b;
        bytes = c->in_numel[a] * fl_dtype_size(c->in_dtype[a]);
        if (bytes) memcpy(data, r->in[a], (size_t)bytes);
        break;
      case FL_KARG_VALUE: x->arg[i].value = r->scalar + a; break;
      default: break;
    }
    x->memory[i] = (fl_lane_memory){ data, bytes };
    x->arg[i].memory = &x->memory[i];
  }
  x->l.args = x->arg;
}

static void run_block(void *arg, int64_t block, int worker) {
  launch *x = arg;
  char *scratch = x->scratch + x->stride * worker;
  if (block > atomic_load(&x->worst)) return;
  if (!x->begun[worker]) fl_lane_begin(x->code, &x->l, scratch);
  x->begun[worker] = 1;
  fl_lane_report now;
  now.kind = FL_LANE_OK;
  if (fl_lane_block(x->code, &x->l, block, scratch, &now)) return;
  fl_lane_report_join(&x->report[worker], &now);
  long long seen = atomic_load(&x->worst);
  while (block < seen && !atomic_compare_exchange_weak(&x->worst, &seen, block)) { }
}

static flame_status finish(fl_device *d, const fl_call_run *r, launch *x, int width) {
  fl_lane_report all = { 0 };
  for (int i = 0; i < width; i++) if (x->report[i].kind) fl_lane_report_join(&all, &x->report[i]);
  if (x->l.used) fl_use(d->ctx, FLAME_KERNEL_STEPS, 0);
  if (all.kind && all.kind != FL_LANE_STOPPED)
    fl_kfunction_say(function_of(r->call), &all, r->fault);
  return FLAME_OK;                       /* the device's own loop handles a stop */
}

/* Writes what printf printed, one thread's line after the other, to the output of the script's
** print. */
static void put_out(void *arg, const char *text, size_t n) {
  flame_context *c = arg;
  if (!fl_use(c, FLAME_OUTPUT_BYTES, (int64_t)n)) return;
  if (c->limits.print) c->limits.print(c->limits.arg, text, n);
  else fwrite(text, 1, n, stdout);
}

void fl_cpu_drop_races(fl_cpu *cpu) {
  fl_lane_shadow_free(cpu->races);
  cpu->races = NULL;
}

static int open_shadow(fl_device *d, launch *x) {
  fl_cpu *cpu = d->state;
  fl_error *e = &d->ctx->err;
  if (!cpu->races) cpu->races = fl_lane_shadow_new(&d->ctx->mem);
  x->l.shadow = cpu->races;
  if (!cpu->races) FL_FAIL(d->ctx, FLAME_NO_MEMORY, "kernel", "no memory for the race check");
  return cpu->races && fl_lane_shadow_begin(cpu->races, x->code, &x->l, e);
}

static flame_status run_one(fl_device *d, const fl_call_run *r) {
  fl_cpu *cpu = d->state;
  const fl_call *c = r->call;
  launch *x = r->scratch;
  memset(x, 0, sizeof *x);
  x->code = function_of(c)->lanes;
  x->l.stop = cpu->stop;
  x->l.print = put_out;
  x->l.print_arg = d->ctx;
  x->l.max_steps = d->ctx->kernel_steps;
  if (d->ctx->limits.most[FLAME_KERNEL_STEPS] > 0) {
    x->l.used = &d->ctx->limits.used[FLAME_KERNEL_STEPS];
    x->l.most = d->ctx->limits.most[FLAME_KERNEL_STEPS];
  }
  x->scratch = (char *)r->scratch + fl_round_up(sizeof *x, 64);
  atomic_init(&x->worst, INT64_MAX);
  set_geometry(c, &x->l);
  x->stride = fl_round_up((int64_t)fl_lane_scratch(x->code, &x->l), 64);
  bind(r, x);
  if (!fl_lane_launch_ok(x->code, &x->l, &d->ctx->err)) return d->ctx->err.code;
  if ((x->l.checks & FL_LANE_RACE) && !open_shadow(d, x)) return d->ctx->err.code;
  const int64_t blocks = (int64_t)x->l.grid[0] * x->l.grid[1] * x->l.grid[2];
  const int64_t threads = (int64_t)x->l.block[0] * x->l.block[1] * x->l.block[2];
  if (fl_lane_meets(x->code)) fl_lane_grid(x->code, &x->l, x->scratch, &x->report[0]);
  else if (fl_lane_serial(x->code, &x->l) || blocks * threads < 4096)
    for (int64_t b = 0; b < blocks && !x->report[0].kind && !fl_stopped(d); b++) run_block(x, b, 0);
  else fl_threads_run(cpu->pool, blocks, run_block, x, cpu->stop);
  if (x->l.shadow) fl_lane_shadow_end(x->l.shadow, races_kept);
  return finish(d, r, x, cpu->width);
}

flame_status fl_cpu_call_kernel(fl_device *d, const fl_call_run *r) {
  fl_call c;
  fl_call_run one;
  flame_status e = FLAME_OK;
  const int64_t n = r->call->p[FL_KP_BATCH];
  if (n == 0) return run_one(d, r);
  for (int64_t i = 0; i < n && e == FLAME_OK && !r->fault[0] && !fl_stopped(d); i++) {
    fl_kbatch_part(r, i, &c, &one);
    e = run_one(d, &one);
  }
  return e;
}

flame_status fl_cpu_ready(fl_device *d, fl_kfunction *const *k, int n) {
  for (int i = 0; i < n; i++) {
    if (k[i]->binary)
      return FL_FAIL(d->ctx, FLAME_NOT_SUPPORTED, "kernel",
                     "a binary runs on CUDA only; its inputs are on the CPU");
    if (!k[i]->lanes) k[i]->lanes = fl_lane_compile(k[i]->mem, k[i]->f, &d->ctx->err);
    if (!k[i]->lanes) return d->ctx->err.code;
    k[i]->ready |= 1u;
  }
  return FLAME_OK;
}
