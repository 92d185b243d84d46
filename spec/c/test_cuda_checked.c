/*
** The launch of a user kernel with checks (cuda/call/call_checked.c), on the fake driver: the
** kernel's parameters, the division of its blocks into waves, its report of an error, which must
** give the same message as on the CPU, and the failure of each call of the driver.
*/
#include "fake_driver.c"
#include "cuda/call/call.h"
#include "cuda/cuda.h"
#include "cuda/run.h"
#include "kernel/front/source.h"
#include "kernel/lanes/lane.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int passed, failed;
static void check_at(int ok, const char *what, int line) {
  if (ok) { passed++; return; }
  failed++;
  printf("%s:%d: failed: %s\n", __FILE__, line, what);
}
#define CHECK(x) check_at((x) != 0, #x, __LINE__)

enum { N = 1000, BLOCK = 128, BLOCKS = 8 };

/* The report of an error, as in kernels/check.cu. */
typedef struct record {
  uint32_t lock, kind;
  int32_t var, pad;
  int64_t index, size, block;
  uint32_t thread, line, write, atomic;
  int64_t other_block;
  uint32_t other_thread, other_line, other_write, other_atomic;
} record;
typedef struct table {
  record *record;
  char *blocks, *shared;
  int64_t shared_cells, dynamic_bytes, first_block, steps;
  uint32_t grid[3], checks, fences, pad;
  struct { char *cells; int64_t n; } array[2];
} table;

static const char text[] =
  "__global__ void k(const float *x, float *y, int n) {\n"
  "  __shared__ float s[128];\n"
  "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
  "  s[threadIdx.x] = i < n ? x[i] : 0.f;\n"
  "  __syncthreads();\n"
  "  if (i < n) y[i] = s[127 - threadIdx.x];\n"
  "}  // as it is written\n";

static struct { int waves; int64_t first; table t; const record *plant; } seen;

static void look(void **params) {
  table *t = *(table **)params[3];
  if (!seen.waves++) seen.t = *t;
  CHECK(t->first_block == seen.first);
  seen.first += seen.t.grid[0];
  CHECK(t->record->kind == 0 && (t->array[1].cells != NULL) == ((t->checks & FL_LANE_RACE) != 0));
  if (t->array[1].cells) CHECK(t->array[1].cells[0] == 0 && t->array[1].cells[N * 148 - 1] == 0);
  for (int i = 0; i < 64; i++) CHECK(t->blocks[i] == 0 && (!t->shared || t->shared[i] == 0));
  if (seen.plant) *t->record = *seen.plant;
}

flame_status fl_cuda_call_kernel(fl_cuda *s, const fl_call_run *r);      /* declared by
                                                                         ** cuda/call/calls.def */

/* A device and a kernel, over one launch. told: number of the driver's calls before they are
** closed. */
typedef struct life {
  flame_context c; fl_device d; fl_kfunction *k; char fault[FL_CALL_FAULT]; int64_t told;
} life;

/* A call of the kernel k with an input and an output of N elements, and the number n. */
static fl_call call_of(const flame_context *c, fl_kfunction *k) {
  fl_call call = { .nin = 1, .in_dtype = { FLAME_F32 }, .dtype = FLAME_F32, .numel = N,
                   .in_numel = { N }, .nscalar = 1 };
  const int64_t p[] = { BLOCKS, 1, 1, BLOCK, 1, 1, 0, 3, fl_kfunction_checks(c), FL_KARG_IN, 0,
                        FL_KARG_OUT + 8 * (4 * N), 0, FL_KARG_VALUE, 4 };
  memcpy(call.p, p, sizeof p);
  if (k) call.callee = &k->callee;
  return call;
}

static flame_status one_call(fl_cuda *cuda, const fl_call_run *r) {
  flame_status e = fl_cuda_enter(cuda);
  if (e != FLAME_OK) return e;
  e = fl_cuda_call_kernel(cuda, r);
  fl_cuda_leave(cuda);
  return e;
}

/* Opens a device, prepares the kernel and launches it once; *l gets the message of an error. */
static flame_status one_launch_with(life *l, unsigned checks, uint32_t deny, int64_t nodes) {
  void *x = NULL, *y = NULL;
  fl_scalar n = { .i = N };
  memset(l, 0, sizeof *l);
  seen.waves = 0;
  seen.first = 0;
  flame_status e = fl_cuda_open_with(&l->c, &l->d, 0, &fake_libraries);
  l->c.kernel_checks = (uint8_t)checks;
  l->c.kernel_steps = 77;
  l->c.limits.deny = deny;
  if (nodes) CHECK(flame_limit_set(&l->c, FLAME_NODES, nodes) == 0);
  fl_ksource *s = e == FLAME_OK ? fl_ksource_parse(&l->c.mem, &l->c.err, text, sizeof text - 1)
                                : NULL;
  fl_kunit *u = s ? fl_kunit_new(&l->c.mem, s, "train.lua", 10, NULL, 0) : NULL;
  l->k = u ? fl_kfunction_given(u, s->kernels[0]) : NULL;
  if (e == FLAME_OK && !l->k) e = FLAME_NO_MEMORY;
  if (e == FLAME_OK) e = fl_cuda_ready(&l->d, &l->k, 1);
  if (e == FLAME_OK && !(x = l->d.table->alloc(&l->d, 4 * N))) e = FLAME_NO_MEMORY;
  if (e == FLAME_OK && !(y = l->d.table->alloc(&l->d, 4 * N))) e = FLAME_NO_MEMORY;
  const fl_call call = call_of(&l->c, l->k);
  const fl_call_run r = { .call = &call, .out = y, .in = { x }, .scalar = &n, .fault = l->fault };
  if (e == FLAME_OK) e = one_call(l->d.state, &r);
  l->told = fake.calls;
  if (x) l->d.table->free(&l->d, x, 4 * N);
  if (y) l->d.table->free(&l->d, y, 4 * N);
  fl_kfunction_release(l->k);
  fl_kunit_release(u);
  if (l->d.table) l->d.table->close(&l->d);
  CHECK(fake_leaks() == 0 && fake.bytes == 0);
  CHECK(l->c.mem.live_bytes == 0 && l->c.mem.live_blocks == 0);
  return e;
}

static flame_status one_launch(life *l, unsigned checks) {
  return one_launch_with(l, checks, 0, 0);
}

static void tells_the_kernel_what_it_needs(void) {
  life l;
  fake_reset();
  fake.on_launch = look;
  seen.plant = NULL;
  CHECK(one_launch(&l, FL_LANE_BOUNDS | FL_LANE_RACE | FL_LANE_UNINIT) == FLAME_OK);
  CHECK(seen.waves == 1 && l.fault[0] == 0);
  CHECK(seen.t.grid[0] == BLOCKS && seen.t.grid[1] == 1 && seen.t.checks == 7 &&
        seen.t.steps == 77);
  CHECK(seen.t.array[0].cells == NULL && seen.t.array[0].n == N && seen.t.array[1].cells &&
        seen.t.array[1].n == N);
  CHECK(seen.t.shared_cells == 128 && seen.t.fences == 0);
}

static void says_what_the_cpu_says(void) {
  life l;
  const record raced = { .kind = FL_LANE_RACED, .var = 1, .index = 7, .size = N, .block = 2,
                         .thread = 40, .line = 6, .write = 1,
                         .other_block = 2, .other_thread = 9, .other_line = 4 };
  fake_reset();
  fake.on_launch = look;
  seen.plant = &raced;
  CHECK(one_launch(&l, FL_LANE_RACE) == FLAME_OK);
  CHECK(strcmp(l.fault,
      "kernel 'k', line 6 (train.lua:15): race: write of index 7 of 'y' (1000 elements) by thread (40, 0, 0) "
    "of block (2, 0, 0), but thread (9, 0, 0) of block (2, 0, 0) read it at line 4, with no barrier in between") == 0);
  const record missed = { .kind = FL_LANE_BARRIER, .var = -1, .line = 5, .other_thread = 100 };
  seen.plant = &missed;
  CHECK(one_launch(&l, FL_LANE_BOUNDS) == FLAME_OK);
  CHECK(strstr(l.fault,
      "line 5 (train.lua:14): __syncthreads() is not reached by all threads: thread (0, 0, 0)") !=
        NULL);
}

static void survives_the_failure_of_any_call(void) {
  life l;
  fake_reset();
  fake.on_launch = look;
  seen.plant = NULL;
  CHECK(one_launch(&l, 7) == FLAME_OK);
  const int64_t calls = l.told;
  for (int forever = 0; forever < 2; forever++)
    for (int64_t k = 1; k <= calls; k++) {
      fake_reset();
      fake.on_launch = look;
      fake.code = FL_CU_OUT_OF_MEMORY;
      fake.fail_at = k;
      fake.forever = forever;
      const flame_status e = one_launch(&l, 7);
      const int told = e != FLAME_OK || !forever || fake_releases(fake.failed);
      if (!told) printf("%s failed in silence\n", fake.failed);
      CHECK(told);
    }
}

static void without_checks_it_is_the_kernel_itself(void) {
  life l;
  fake_reset();
  seen.plant = NULL;
  CHECK(one_launch(&l, 0) == FLAME_OK && fake.nlaunch == 1);
}

/* Where a permission is denied or a limit is set, NVRTC must not get the script's text: it gets the
** text that is printed from the parsed tree. */
static void texts_of_scripts_are_compiled_only_where_nothing_is_limited(void) {
  life l;
  seen.plant = NULL;
  for (int i = 0; i < 4; i++) {              /* checks; checks, denied; denied; a limit */
    fake_reset();
    fake.on_launch = look;
    fake.word = "as it is written";
    const unsigned asked = i < 2 ? FL_LANE_BOUNDS : 0;
    CHECK(one_launch_with(&l, asked, i == 1 || i == 2, i == 3 ? 1 << 20 : 0) == FLAME_OK);
    CHECK(seen.waves == 1 && fake.texts > 0 && fake.with_word == (i == 0));
  }
}

int main(void) {
  setenv("FLAME_CACHE_DIR", "off", 1);
  tells_the_kernel_what_it_needs();
  says_what_the_cpu_says();
  survives_the_failure_of_any_call();
  without_checks_it_is_the_kernel_itself();
  texts_of_scripts_are_compiled_only_where_nothing_is_limited();
  printf("cuda_checked: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
