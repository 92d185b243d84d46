--- Measures user kernels on the CPU against the same loops compiled by gcc -O2, one thread each, in
--- turns; with the race check, or with all checks, against the same kernels without. From the root:
---   FLAME_THREADS=1 flame-lua bench/lanes.lua [small | one NAME COUNT]
--- Prints the least of 7 times. small: one time only, for a test. one: prints the mean seconds of
--- COUNT launches of a kernel; this program starts itself so, with FLAME_CHECK set, for each time.
local flame = require "flame"
flame.default_device("cpu")
local small = arg[1] == "small"
local ROUNDS <const> = small and 1 or 7
local CHECKS <const> = { "", "race", "bounds,race,uninit" }

local C <const> = [[
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
static float x[1 << 18], y[1 << 18], z[1 << 18];
__attribute__((noipa)) static void saxpy(float a, int n) {
  for (int i = 0; i < n; i++) z[i] = a * x[i] + y[i];
}
__attribute__((noipa)) static void stencil(int w, int h) {
  for (int r = 1; r < h - 1; r++)
    for (int c = 1; c < w - 1; c++) {
      const float *p = x + r * w + c;
      z[r * w + c] = 0.2f * (p[0] + p[-1] + p[1] + p[-w] + p[w]);
    }
}
__attribute__((noipa)) static void product(int n) {
  for (int bi = 0; bi < n; bi += 16)
    for (int bj = 0; bj < n; bj += 16) {
      float s[16][16], t[16][16], sum[16][16] = { 0 };
      for (int k = 0; k < n; k += 16) {
        for (int i = 0; i < 16; i++)
          for (int j = 0; j < 16; j++) {
            s[i][j] = x[(bi + i) * n + k + j];
            t[i][j] = y[(k + i) * n + bj + j];
          }
        for (int i = 0; i < 16; i++)
          for (int j = 0; j < 16; j++)
            for (int l = 0; l < 16; l++) sum[i][j] += s[i][l] * t[l][j];
      }
      for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++) z[(bi + i) * n + bj + j] = sum[i][j];
    }
}
__attribute__((noipa)) static void bordered(int w, int h) {
  for (int r = 0; r < h; r++)
    for (int c = 0; c < w; c++)
      if (r > 0 && r < h - 1 && c > 0 && c < w - 1) {
        const float *p = x + r * w + c;
        z[r * w + c] = 0.2f * (p[0] + p[-1] + p[1] + p[-w] + p[w]);
      }
}
__attribute__((noipa)) static void cube(int n) {
  for (int k = 0; k < n; k++)
    for (int j = 0; j < n; j++)
      for (int i = 0; i < n; i++)
        if (i > 0 && i < n - 1 && j > 0 && j < n - 1 && k > 0 && k < n - 1) {
          const float *p = x + (k * n + j) * n + i;
          z[(k * n + j) * n + i] = p[1] + p[-1] + p[n] + p[-n] + p[n * n] + p[-n * n] - 6 * p[0];
        }
}
__attribute__((noipa)) static void blur(int n) {
  for (int i = 0; i < n; i++) {
    float sum = 0;
    for (int d = -2; d <= 2; d++) {
      const int k = i + d < 0 ? 0 : i + d > n - 1 ? n - 1 : i + d;
      sum += y[d + 2] * x[k];
    }
    z[i] = sum;
  }
}
__attribute__((noipa)) static void transpose(int n) {
  for (int bi = 0; bi < n; bi += 32)
    for (int bj = 0; bj < n; bj += 32)
      for (int i = bi; i < bi + 32; i++)
        for (int j = bj; j < bj + 32; j++) z[j * n + i] = x[i * n + j];
}
__attribute__((noipa)) static void softmax(int rows, int n) {
  for (int r = 0; r < rows; r++) {
    const float *p = x + r * n;
    float *out = z + r * n, most = p[0], sum = 0;
    for (int i = 1; i < n; i++) most = p[i] > most ? p[i] : most;
    for (int i = 0; i < n; i++) sum += out[i] = expf(p[i] - most);
    for (int i = 0; i < n; i++) out[i] /= sum;
  }
}
int main(int argc, char **argv) {
  const int reps = atoi(argv[2]);
  for (int i = 0; i < 1 << 18; i++) x[i] = i % 97 * 0.01f, y[i] = i % 89 * 0.02f;
  struct timespec t, u;
  clock_gettime(CLOCK_MONOTONIC, &t);
  for (int r = 0; r < reps; r++) {
    if (!strcmp(argv[1], "saxpy")) saxpy(2.f, 1 << 18);
    if (!strcmp(argv[1], "stencil")) stencil(512, 512);
    if (!strcmp(argv[1], "product")) product(256);
    if (!strcmp(argv[1], "bordered")) bordered(512, 512);
    if (!strcmp(argv[1], "cube")) cube(64);
    if (!strcmp(argv[1], "blur")) blur(1 << 18);
    if (!strcmp(argv[1], "transpose")) transpose(512);
    if (!strcmp(argv[1], "softmax")) softmax(256, 1024);
    if (!strcmp(argv[1], "stride")) saxpy(2.f, 1 << 18);
  }
  clock_gettime(CLOCK_MONOTONIC, &u);
  printf("%.9g\n", ((double)(u.tv_sec - t.tv_sec) + 1e-9 * (double)(u.tv_nsec - t.tv_nsec)) / reps);
  return argc == 4 && z[7] > 0;
}
]]

local stencil <const> = [[
__global__ void stencil(const float *u, float *out, int w, int h) {
  int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
  if (r > 0 && r < h - 1 && c > 0 && c < w - 1) {
    const float *p = u + r * w + c;
    out[r * w + c] = 0.2f * (p[0] + p[-1] + p[1] + p[-w] + p[w]);
  }
}]]
local plane <const> = { block = { 32, 8 }, grid = { 16, 64 }, shape = { 512, 512 } }

-- { name, count, kernel, how to launch it, call }. The C of 'bordered' has the kernel's test, too.
local kernels = {
  { "saxpy", 200, [[
__global__ void saxpy(float a, const float *x, const float *y, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a * x[i] + y[i];
}]], { block = 256, grid = 1024, shape = { 1 << 18 } },
    function(k, x, y) return k(2, x, y, 1 << 18) end },
  { "stencil", 100, stencil, plane, function(k, x) return k(x, 512, 512) end },
  { "bordered", 100, stencil, plane, function(k, x) return k(x, 512, 512) end },
  { "product", 20, [[
__global__ void product(const float *a, const float *b, float *out, int n) {
  __shared__ float s[16][16], t[16][16];
  int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; k += 16) {
    s[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
    t[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + col];
    __syncthreads();
    for (int j = 0; j < 16; j++) sum += s[threadIdx.y][j] * t[j][threadIdx.x];
    __syncthreads();
  }
  out[row * n + col] = sum;
}]], { block = { 16, 16 }, grid = { 16, 16 }, shape = { 256, 256 } },
    function(k, x, y) return k(x, y, 256) end },
  { "cube", 100, [[
__global__ void cube(const float *u, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
  int k = blockIdx.z * blockDim.z + threadIdx.z;
  if (i > 0 && i < n - 1 && j > 0 && j < n - 1 && k > 0 && k < n - 1) {
    const float *p = u + (k * n + j) * n + i;
    out[(k * n + j) * n + i] = p[1] + p[-1] + p[n] + p[-n] + p[n * n] + p[-n * n] - 6 * p[0];
  }
}]], { block = { 32, 4, 2 }, grid = { 2, 16, 32 }, shape = { 64, 64, 64 } },
    function(k, x) return k(x, 64) end },
  { "blur", 50, [[
__global__ void blur(const float *x, const float *w, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0;
  for (int d = -2; d <= 2; d++) sum += w[d + 2] * x[min(max(i + d, 0), n - 1)];
  out[i] = sum;
}]], { block = 256, grid = 1024, shape = { 1 << 18 } },
    function(k, x, y) return k(x, y, 1 << 18) end },
  { "transpose", 50, [[
__global__ void transpose(const float *x, float *out, int n) {
  __shared__ float tile[32][33];
  int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = x[(r + j) * n + c];
  __syncthreads();
  c = blockIdx.y * 32 + threadIdx.x, r = blockIdx.x * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) out[(r + j) * n + c] = tile[threadIdx.x][threadIdx.y + j];
}]], { block = { 32, 8 }, grid = { 16, 16 }, shape = { 512, 512 } },
    function(k, x) return k(x, 512) end },
  { "softmax", 20, [[
__global__ void softmax(const float *x, float *out, int n) {
  __shared__ float part[256];
  const float *p = x + blockIdx.x * n;
  int t = threadIdx.x;
  float most = p[t];
  for (int i = t + 256; i < n; i += 256) most = fmaxf(most, p[i]);
  part[t] = most;
  __syncthreads();
  for (int s = 128; s > 0; s /= 2) {
    if (t < s) part[t] = fmaxf(part[t], part[t + s]);
    __syncthreads();
  }
  most = part[0];
  __syncthreads();
  float sum = 0;
  for (int i = t; i < n; i += 256) sum += out[blockIdx.x * n + i] = expf(p[i] - most);
  part[t] = sum;
  __syncthreads();
  for (int s = 128; s > 0; s /= 2) {
    if (t < s) part[t] += part[t + s];
    __syncthreads();
  }
  for (int i = t; i < n; i += 256) out[blockIdx.x * n + i] /= part[0];
}]], { block = 256, grid = 256, shape = { 256, 1024 } },
    function(k, x) return k(x, 1024) end },
  { "stride", 100, [[
__global__ void stride(float a, const float *x, const float *y, float *out, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    out[i] = a * x[i] + y[i];
}]], { block = 256, grid = 64, shape = { 1 << 18 } },
    function(k, x, y) return k(2, x, y, 1 << 18) end },
}

local function measure(entry, count)
  local x, y = flame.arange(1 << 18):float() * 1e-5, flame.arange(1 << 18):float() * 2e-5
  flame.eval(x, y)
  local k = flame.kernel(entry[3]):with(entry[4])
  flame.eval(entry[5](k, x, y))
  local clock = flame.timer()
  for _ = 1, count do flame.eval(entry[5](k, x, y)) end
  return clock() / count
end

if arg[1] == "one" then
  for _, entry in ipairs(kernels) do
    if entry[1] == arg[2] then print(("%.9g"):format(measure(entry, tonumber(arg[3])))) end
  end
  return
end

local function seconds(command)
  local pipe <close> = assert(io.popen(command))
  return assert(tonumber(pipe:read "l"), command)
end

local program = os.tmpname()
local f <close> = assert(io.open(program .. ".c", "w"))
f:write(C)
f:flush()
-- Loops begin at multiples of 32 bytes: else some take a third more or less if other code changes.
assert(os.execute(("gcc -O2 -falign-loops=32 -falign-functions=64 -o %s %s.c -lm"):format(program,
  program)), "gcc is needed")

print(("%-10s %10s %10s %8s %8s %8s"):format("", "C us", "lanes us", "times C", "race", "all"))
for _, entry in ipairs(kernels) do
  local name, count, best = entry[1], small and 1 or entry[2], {}
  local function note(i, v) best[i] = math.min(best[i] or math.huge, v) end
  for _ = 1, ROUNDS do
    note(0, seconds(("%s %s %d"):format(program, name, count)))
    for i, checks in ipairs(CHECKS) do
      note(i, seconds(("FLAME_CHECK=%s '%s' bench/lanes.lua one %s %d"):format(checks, arg[-1],
        name, count)))
    end
  end
  print(("%-10s %10.0f %10.0f %8.2f %8.2f %8.2f"):format(name, best[0] * 1e6, best[1] * 1e6,
    best[1] / best[0], best[2] / best[1], best[3] / best[1]))
end
os.remove(program)
os.remove(program .. ".c")
