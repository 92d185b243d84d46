/*
** User kernels with their checks compiled in (kernel/text/text_check.h, kernels/check.cu): memory
** has a cell for each element of shared arrays and of arrays that the kernel may write, a struct
** block for each block if the kernel has barriers, shuffles or votes, and one record for the first
** fault. The blocks run in waves (a part of the grid at a time), so that their memory is bounded;
** between two waves the record is read, and a fault ends the launch with the same message as on the
** CPU.
*/
#include "cuda/call/call.h"
#include "kernel/text/text_check.h"
#include "kernel/text/text_stop.h"
#include <stddef.h>
#include <string.h>

/* As in kernels/check.cu. */
typedef struct touch { uint32_t block, lane, line, epoch, warp_epoch, seq, how; } touch;
typedef struct cell { uint32_t lock, set; touch write, change, changer, read, reader; } cell;
typedef struct place { int64_t block; uint32_t thread, line, write, atomic; } place;
typedef struct record {
  uint32_t lock, kind; int32_t var, pad; int64_t index, size; place at, other;
} record;
typedef struct block { uint32_t head[8], warp[96], of_thread[5 * FL_LANE_MAX_BLOCK]; } block;
typedef struct array { uint64_t cells; int64_t n; } array;
typedef struct check {
  uint64_t record, blocks, shared;
  int64_t shared_cells, dynamic_bytes, first_block, steps;
  uint32_t grid[3], checks, fences, pad;
} check;

enum { WAVE_BYTES = 256 << 20, MOST_BLOCKS = INT32_MAX };

typedef struct launch {
  fl_cuda *s;
  const fl_kfunction *k;
  const fl_call_run *r;
  fl_kcheck text;
  fl_cu_function f;
  fl_cu_ptr pointer[FL_KP_MAX_ARGS], table;
  void *param[FL_KP_MAX_ARGS + 1];
  void *cells, *wave_memory, *fixed;   /* cells: of global arrays; wave_memory: of the
                                       ** blocks of a wave; fixed: record and tables */
  check head;
  array arrays[FL_KP_MAX_ARGS];
  int64_t blocks, wave, cells_bytes, block_bytes, shared_bytes;
} launch;

static int64_t aligned(int64_t n) { return (n + 255) / 256 * 256; }

/* ---- memory -------------------------------------------------------------------------- */

/* Counts the elements of each array and its cells; an array that is passed twice has one set of
** cells. */
static int64_t count_cells(launch *x) {
  const fl_call *c = x->r->call;
  const fl_kfunc *f = x->k->f;
  int64_t all = 0;
  for (int i = 0; i < f->n_vars; i++) {
    const fl_kvar *v = &f->vars[i];
    int64_t a, b;
    if (v->kind != FL_KV_POINTER || v->param < 0) continue;
    const fl_karg_kind kind = fl_karg_of(c, v->param, &a, &b);
    const int written = kind == FL_KARG_OUT || kind == FL_KARG_RAW || kind == FL_KARG_COPY;
    int64_t bytes = 0;
    if (kind == FL_KARG_IN || kind == FL_KARG_COPY)
      bytes = c->in_numel[a] * fl_dtype_size(c->in_dtype[a]);
    else if (written) bytes = a;
    array *y = &x->arrays[x->text.array[i]];
    y->n = bytes / fl_kt_size(v->type);
    y->cells = 0;
    if (!written || !(x->head.checks & FL_LANE_RACE)) continue;
    for (int j = 0; j < i && !y->cells; j++) {
      const fl_kvar *o = &f->vars[j];
      if (o->kind != FL_KV_POINTER || o->param < 0 || o->type != v->type) continue;
      if (x->pointer[o->param] == x->pointer[v->param])
        y->cells = x->arrays[x->text.array[j]].cells;
    }
    if (y->cells) continue;
    y->cells = (uint64_t)all + 1;                         /* an offset, until memory is allocated */
    all += y->n;
  }
  return all;
}

static flame_status reserve(launch *x) {
  fl_cuda *s = x->s;
  const fl_call *c = x->r->call;
  x->cells_bytes = count_cells(x) * (int64_t)sizeof(cell);
  x->head.dynamic_bytes = c->p[FL_KP_SHARED];
  const int watch = (x->head.checks & (FL_LANE_RACE | FL_LANE_UNINIT)) != 0;
  if (x->text.grain && watch)
    x->head.shared_cells = x->text.cells + x->head.dynamic_bytes / x->text.grain;
  x->block_bytes = x->text.waits ? (int64_t)sizeof(block) : 0;
  x->shared_bytes = x->head.shared_cells * (int64_t)sizeof(cell);
  const int64_t each = x->block_bytes + x->shared_bytes;
  x->wave = each ? WAVE_BYTES / each : x->blocks;
  if (x->wave < 1) x->wave = 1;
  if (x->wave > x->blocks) x->wave = x->blocks;
  flame_status e = fl_cuda_reserve(s, &x->fixed,
                                   aligned((int64_t)sizeof(record)) + (int64_t)sizeof(check) +
                                   (int64_t)sizeof x->arrays, "checks of a kernel");
  if (e == FLAME_OK && x->cells_bytes)
    e = fl_cuda_reserve(s, &x->cells, x->cells_bytes, "checks of a kernel");
  if (e == FLAME_OK && each)
    e = fl_cuda_reserve(s, &x->wave_memory, aligned(x->wave * x->block_bytes) +
                        x->wave * x->shared_bytes, "checks of a kernel");
  if (e != FLAME_OK) return e;
  for (int i = 0; i < x->text.n_arrays; i++)
    if (x->arrays[i].cells)
      x->arrays[i].cells = (uint64_t)(uintptr_t)x->cells + (x->arrays[i].cells - 1) * sizeof(cell);
  x->head.record = (uint64_t)(uintptr_t)x->fixed;
  x->head.blocks = x->block_bytes ? (uint64_t)(uintptr_t)x->wave_memory : 0;
  x->head.shared = x->shared_bytes ? (uint64_t)(uintptr_t)x->wave_memory +
                   (uint64_t)aligned(x->wave * x->block_bytes) : 0;
  x->table = (fl_cu_ptr)(x->head.record + (uint64_t)aligned((int64_t)sizeof(record)));
  return FLAME_OK;
}

static void release(launch *x) {
  if (x->fixed) fl_cuda_release(x->s, x->fixed);
  if (x->cells) fl_cuda_release(x->s, x->cells);
  if (x->wave_memory) fl_cuda_release(x->s, x->wave_memory);
  fl_kcheck_close(&x->text, &x->s->ctx->mem);
}

static flame_status clear(launch *x, void *at, int64_t bytes) {
  if (!bytes) return FLAME_OK;
  return fl_cuda_check(x->s, x->s->cu->Memset8((fl_cu_ptr)(uintptr_t)at, 0, (size_t)bytes,
                                               x->s->stream), "cuMemsetD8Async");
}

/* ---- waves --------------------------------------------------------------------------- */

static flame_status run_wave(launch *x, int64_t first, record *found) {
  const fl_call *c = x->r->call;
  const int64_t n = x->blocks - first < x->wave ? x->blocks - first : x->wave;
  unsigned grid[3] = { (unsigned)n, 1, 1 }, size[3];
  for (int i = 0; i < 3; i++) size[i] = (unsigned)c->p[FL_KP_BLOCK + i];
  x->head.first_block = first;
  flame_status e = fl_stage_upload(x->s, (void *)(uintptr_t)x->table, &x->head,
                                   (int64_t)sizeof x->head);
  if (e == FLAME_OK)
    e = clear(x, x->wave_memory, aligned(x->wave * x->block_bytes) + x->wave * x->shared_bytes);
  if (e == FLAME_OK)
    e = fl_cuda_launch(x->s, x->f, grid, size,
                       (unsigned)(c->p[FL_KP_SHARED] + fl_kfunc_moved(x->k->f)), x->param);
  if (e == FLAME_OK) e = fl_stage_download(x->s, found, x->fixed, (int64_t)sizeof *found);
  return e;
}

static fl_lane_place place_of(const place *p) {
  return (fl_lane_place){ .block = p->block, .thread = (int32_t)p->thread, .line = (int32_t)p->line,
                          .write = (uint8_t)p->write, .atomic = (uint8_t)p->atomic };
}

/* Writes the message that the CPU would give for this fault. */
static void say(launch *x, const record *r) {
  const fl_kfunc *f = x->k->f;
  fl_lane_report p = { .kind = (uint8_t)r->kind, .kernel = f->name, .index = r->index,
                       .size = r->size,
                       .at = place_of(&r->at), .other = place_of(&r->other) };
  for (int i = 0; i < 3; i++) {
    p.grid[i] = x->head.grid[i];
    p.block[i] = (uint32_t)x->r->call->p[FL_KP_BLOCK + i];
  }
  const fl_kstmt *held = r->kind == FL_LANE_ASSERT ? fl_kassert_of(f, r->var) : NULL;
  if (held) p.name = held->text;
  else if (r->var >= 0 && r->var < f->n_vars) {
    const fl_kvar *v = &f->vars[r->var];
    p.name = v->source ? v->source : v->name;
    if (v->kind != FL_KV_LOCAL && v->kind != FL_KV_POINTER && !v->dynamic) {
      p.rank = v->rank;
      memcpy(p.dims, v->dims, sizeof p.dims);
    }
  }
  fl_kfunction_say(x->k, &p, x->r->fault);
}

static flame_status run(launch *x) {
  const int n = (int)x->r->call->p[FL_KP_COUNT_ARGS];
  record found = { 0 };
  flame_status e = fl_cuda_user_entry(x->s, x->k->checked, &x->f);
  fl_cuda_bind(x->r, x->pointer, x->param);
  if (e == FLAME_OK) e = fl_cuda_fill(x->s, x->k->checked, x->r);
  if (e == FLAME_OK) e = reserve(x);
  if (e == FLAME_OK) e = clear(x, x->fixed, (int64_t)sizeof(record));
  if (e == FLAME_OK) e = clear(x, x->cells, x->cells_bytes);
  if (e == FLAME_OK && x->text.n_arrays)
    e = fl_stage_upload(x->s, (char *)(uintptr_t)x->table + sizeof(check), x->arrays,
                        x->text.n_arrays * (int64_t)sizeof(array));
  x->param[n] = &x->table;
  for (int64_t first = 0; first < x->blocks && e == FLAME_OK && !found.kind; first += x->wave)
    e = run_wave(x, first, &found);
  if (e == FLAME_OK && found.kind) say(x, &found);
  return e;
}

flame_status fl_cuda_call_checked(fl_cuda *s, const fl_kfunction *k, const fl_call_run *r) {
  const fl_call *c = r->call;
  launch x = { .s = s, .k = k, .r = r };
  x.blocks = 1;
  for (int i = 0; i < 3; i++) {
    x.head.grid[i] = (uint32_t)c->p[FL_KP_GRID + i];
    if (__builtin_mul_overflow(x.blocks, c->p[FL_KP_GRID + i], &x.blocks) || x.blocks > MOST_BLOCKS)
      return FL_FAIL(s->ctx, FLAME_NOT_SUPPORTED, "kernel", "%s: checks take at most %d blocks",
                     k->f->name, MOST_BLOCKS);
  }
  x.head.checks = (uint32_t)c->p[FL_KP_CHECKS];
  x.head.steps = s->ctx->kernel_steps;
  if (!x.head.steps) x.head.steps = s->ctx->limits.most[FLAME_KERNEL_STEPS];      /* of a thread */
  if (!fl_kcheck_open(&x.text, &s->ctx->mem, k->f, x.head.checks))
    return FL_FAIL(s->ctx, FLAME_NO_MEMORY, "kernel", "no host memory for checks");
  x.head.fences = x.text.fences;
  flame_status e = x.text.n_arrays > FL_KP_MAX_ARGS
                 ? FL_FAIL(s->ctx, FLAME_NOT_SUPPORTED, "kernel", "%s: too many arrays to check",
                           k->f->name) : run(&x);
  release(&x);
  return e;
}
