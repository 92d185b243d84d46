/*
** User kernels on the CPU: planted errors are reported with line, thread and block; an endless
** kernel can be stopped; printf prints.
*/
#include "lane_run.h"

static void test_index_errors(void) {
  const int n = N;
  fill();
  FAILS("kernel 'k', line 3: index 1000 of 'x' (1000 elements) by thread (231, 0, 0) of block (3, 0, 0)",
        .text = HEAD "  if (i < n) out[i] = x[i + 1];\n}", .grid = { 4 }, .block = { 256 },
        .value = { 0, 0, &n }, .memory = { MEM(fx), MEM(fo) });
  FAILS("kernel 'k', line 3: index -1 of 'x' (1000 elements) by thread (0, 0, 0) of block (0, 0, 0)",
        .text = HEAD "  float v = x[i - 1];\n  if (i < n) out[i] = v;\n}", .grid = { 4 },
        .block = { 256 }, .value = { 0, 0, &n }, .memory = { MEM(fx), MEM(fo) });
  FAILS("kernel 'k', line 3: index 1000 of 'out' (1000 elements) by thread (232, 0, 0) of block (3, 0, 0)",
        .text = HEAD "  out[i] = 1.0f;\n}", .grid = { 4 }, .block = { 256 },
        .value = { 0, 0, &n }, .memory = { MEM(fx), MEM(fo) });
  FAILS("kernel 'k', line 4: index [32][7] of 'tile' (32 x 33) by thread (1, 0, 0) of block (0, 0, 0)",
        .text = HEAD "  __shared__ float tile[32][33];\n  tile[threadIdx.x + 31][7] = x[0];\n}",
        .block = { 8 }, .value = { 0, 0, &n }, .memory = { MEM(fx), MEM(fo) });
  FAILS("kernel 'k', line 5: index 4 of 'a' (4 elements) by thread (3, 1, 0) of block (0, 0, 0)",
        .text = HEAD "  float a[4];\n  for (int j = 0; j < 4; j++) a[j] = x[j];\n"
                     "  out[threadIdx.x] = a[threadIdx.x + threadIdx.y];\n}",
        .block = { 4, 2 }, .value = { 0, 0, &n }, .memory = { MEM(fx), MEM(fo) });
  FAILS("kernel 'k', line 3: index 1000 of 'out' (1000 elements) by thread (0, 0, 0) of block (0, 0, 0)",
        .text = HEAD "  if (i == 0) atomicAdd(&out[n], x[0]);\n}", .block = { 32 },
        .value = { 0, 0, &n }, .memory = { MEM(fx), MEM(fo) });
  CHECK(report.kind == FL_LANE_INDEX && report.index == 1000 && report.size == 1000);
}

static void test_race_errors(void) {
  const int n = N;
  fill();
  FAILS("kernel 'k', line 3: race: write of index 0 of 'out' (1000 elements) by thread (1, 0, 0) of block"
        " (0, 0, 0), but thread (0, 0, 0) of block (0, 0, 0) wrote it at line 3, with no barrier in between",
        .text = HEAD "  out[0] = (float)i;\n}", .block = { 32 }, .value = { 0, 0, &n },
        .memory = { MEM(fx), MEM(fo) }, .checks = FL_LANE_RACE);
  RUNS(.text = HEAD "  out[0] = 5.0f;\n}", .block = { 32 }, .value = { 0, 0, &n },
       .memory = { MEM(fx), MEM(fo) }, .checks = FL_LANE_RACE);
  FAILS("kernel 'k', line 5: race: read of index 1 of 's' (64 elements) by thread (0, 0, 0) of block"
        " (0, 0, 0), but thread (1, 0, 0) of block (0, 0, 0) wrote it at line 4, with no barrier in between",
        .text = HEAD "  __shared__ float s[64];\n  s[threadIdx.x] = x[i];\n"
                     "  out[i] = s[(threadIdx.x + 1) % 64];\n}",
        .block = { 64 }, .value = { 0, 0, &n }, .memory = { MEM(fx), MEM(fo) },
        .checks = FL_LANE_RACE);
  FAILS("kernel 'k', line 6: race: write of index 0 of 's' (64 elements) by thread (0, 0, 0) of block"
        " (0, 0, 0), but thread (1, 0, 0) of block (0, 0, 0) read it at line 6, with no barrier in between",
        .text = HEAD "  __shared__ float s[64];\n  s[threadIdx.x] = x[i];\n  __syncthreads();\n"
                     "  s[threadIdx.x] = s[threadIdx.x ^ 1];\n}",
        .block = { 64 }, .value = { 0, 0, &n }, .memory = { MEM(fx), MEM(fo) },
        .checks = FL_LANE_RACE);
  FAILS("kernel 'k', line 3: race: write of index 0 of 'out' (1000 elements) by thread (0, 0, 0) of block"
        " (1, 0, 0), but thread (0, 0, 0) of block (0, 0, 0) wrote it at line 3, with no barrier in between",
        .text = HEAD "  out[threadIdx.x] = (float)i + 1;\n}", .grid = { 2 }, .block = { 32 },
        .value = { 0, 0, &n }, .memory = { MEM(fx), MEM(fo) }, .checks = FL_LANE_RACE);
  RUNS(.text = HEAD "  __shared__ float s[64];\n  s[threadIdx.x] = x[i];\n  __syncwarp();\n"
                    "  out[i] = s[threadIdx.x ^ 1];\n  atomicAdd(&out[500], 1.0f);\n}",
       .block = { 64 }, .value = { 0, 0, &n }, .memory = { MEM(fx), MEM(fo) },
       .checks = FL_LANE_RACE);
}

static void test_uninitialised(void) {
  const int n = N;
  fill();
  FAILS("kernel 'k', line 4: uninitialised: index 3 of 's' (64 elements) is read before it is written,"
        " by thread (3, 0, 0) of block (0, 0, 0)",
        .text = HEAD "  __shared__ float s[64]; if (i != 3) s[i] = x[i];\n  out[i] = s[i];\n}",
        .block = { 64 }, .value = { 0, 0, &n }, .memory = { MEM(fx), MEM(fo) },
        .checks = FL_LANE_UNINIT);
  FAILS("kernel 'k', line 5: variable 'v' has no value yet, read by thread (7, 0, 0) of block (0, 0, 0)",
        .text = HEAD "  float v;\n  if (i < 7) v = x[i];\n  out[i] = v;\n}", .block = { 32 },
        .value = { 0, 0, &n }, .memory = { MEM(fx), MEM(fo) }, .checks = FL_LANE_UNINIT);
  FAILS("kernel 'k', line 5: uninitialised: index 2 of 'a' (4 elements) is read before it is written,"
        " by thread (2, 0, 0) of block (0, 0, 0)",
        .text = HEAD "  float a[4];\n  a[0] = x[0]; a[1] = x[1];\n  out[i] = a[i];\n}",
        .block = { 4 },
        .value = { 0, 0, &n }, .memory = { MEM(fx), MEM(fo) }, .checks = FL_LANE_UNINIT);
}

static void test_other_errors(void) {
  const int n = N, one = 1;
  fill();
  FAILS("kernel 'k', line 3: __syncthreads() is not reached by all threads: thread (0, 0, 0) of block"
        " (0, 0, 0) is there, thread (5, 0, 0) of block (0, 0, 0) is not",
        .text = HEAD "  if (i < 5) __syncthreads();\n  out[i] = 0;\n}", .block = { 32 },
        .value = { 0, 0, &n }, .memory = { MEM(fx), MEM(fo) });
  RUNS(.text = HEAD "  if (i >= 5) return;\n  __syncthreads();\n  out[i] = 0;\n}", .block = { 32 },
       .value = { 0, 0, &n }, .memory = { MEM(fx), MEM(fo) });
  FAILS("kernel 'k', line 3: integer division by zero in thread (1, 0, 0) of block (0, 0, 0)",
        .text = HEAD "  out[i] = (float)(n / (i - 1));\n}", .block = { 4 },
        .value = { 0, 0, &n }, .memory = { MEM(fx), MEM(fo) }, .checks = FL_LANE_BOUNDS);
  FAILS("kernel 'k', line 3: assert(i < 3) failed in thread (3, 0, 0) of block (0, 0, 0)",
        .text = HEAD "  assert(i < 3);\n  out[i] = 0;\n}", .block = { 32 },
        .value = { 0, 0, &n }, .memory = { MEM(fx), MEM(fo) });
  FAILS("kernel 'k', line 3: the step limit is reached in a loop by thread (0, 0, 0) of block (0, 0, 0)",
        .text = HEAD "  while (n > 0) out[i] += 1.0f;\n}", .block = { 32 }, .max_steps = 100000,
        .value = { 0, 0, &n }, .memory = { MEM(fx), MEM(fo) });
  atomic_int stop = 1;
  CHECK(!execute(&(job){ .text = HEAD "  while (true) out[i] += 1.0f;\n}",
                         .block = { 32 }, .stop = &stop,
                         .value = { 0, 0, &one }, .memory = { MEM(fx), MEM(fo) } }));
  CHECK(report.kind == FL_LANE_STOPPED);
  FAILS("kernel 'k', line 3: thread (15, 0, 0) of block (0, 0, 0) needs thread (16, 0, 0) of block"
        " (0, 0, 0), which is not there",
        .text = HEAD "  if (i < 16) out[i] = __shfl_down_sync(0xffffu, x[i], 1);\n}",
        .block = { 32 },
        .value = { 0, 0, &n }, .memory = { MEM(fx), MEM(fo) }, .checks = FL_LANE_BOUNDS);
  FAILS("'k': block of (50, 40, 1) threads, at most 1024", .text = HEAD "}", .block = { 50, 40 },
        .value = { 0, 0, &n }, .memory = { MEM(fx), MEM(fo) });
}

static char printed[400];
static void keep(void *arg, const char *text, size_t n) {
  (void)arg;
  const size_t have = strlen(printed);
  if (have + n < sizeof printed) { memcpy(printed + have, text, n); printed[have + n] = 0; }
}

static void test_printf(void) {
  const int n = 3;
  printed[0] = 0;
  fill();
  fx[1] = 2.5f;
  RUNS(.text =
         HEAD "  if (i > 0) printf(\"%d of %5.2f%% %x%c\\n\", i, x[1], 255u + i, 'a' + i);\n}",
       .block = { 3 }, .value = { 0, 0, &n }, .memory = { MEM(fx), MEM(fo) }, .print = keep);
  CHECK(strstr(printed, "1 of  2.50%") && strstr(printed, "101") && strstr(printed, "2 of"));
}

/* ---- an endless kernel is stopped from outside, at its next loop iteration ----------- */

static atomic_int enough;
static void count_lines(void *arg, const char *text, size_t n) {
  (void)arg; (void)text; (void)n;
  atomic_fetch_add(&enough, 1);
}

static void test_stop(void) {
  const int n = N;
  atomic_store(&enough, 0);
  CHECK(!execute(&(job){ .text = HEAD "  while (n > 0) {\n    printf(\"on\");\n  }\n}",
                         .block = { 1 },
                         .stop = &enough, .print = count_lines, .value = { 0, 0, &n },
                         .memory = { MEM(fx), MEM(fo) } }));
  CHECK(report.kind == FL_LANE_STOPPED && atomic_load(&enough) == 1);
}

int main(void) {
  test_index_errors();
  test_race_errors();
  test_uninitialised();
  test_other_errors();
  test_printf();
  test_stop();
  CHECK(memory.live_bytes == 0);
  printf("kernel_faults: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
