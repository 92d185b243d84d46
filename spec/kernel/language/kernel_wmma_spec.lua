--- Fragments of nvcuda::wmma: values and gradients are compared with flame's matrix products.
local flame = require "flame"
local helper = require "spec.support.helper"

local names = { half = "f16", float = "f32", __nv_bfloat16 = "bf16", ["signed char"] = "i8",
  ["unsigned char"] = "u8", int = "i32" }

-- A kernel of one warp that computes d = a (2 b) + c. Names in capitals are replaced.
local PRODUCT = [[
#include <mma.h>
namespace w = nvcuda::wmma;
template <typename F> __device__ void twice(F &f) {
  for (int i = 0; i < f.num_elements; ++i) f.x[i] = f.x[i] * (typename F::storage_element_type)2;
}
__global__ void product(const TYPE *a, const TYPE *b, const SUM *c, SUM *d) {
  w::fragment<w::matrix_a, MM, NN, 16, TYPE, w::LA_major> fa;
  w::fragment<w::matrix_b, MM, NN, 16, TYPE, w::LB_major> fb;
  w::fragment<w::accumulator, MM, NN, 16, SUM> fc;
  w::load_matrix_sync(fa, a, LDA);
  w::load_matrix_sync(fb, b, LDB);
  w::load_matrix_sync(fc, c, LDC, w::mem_LC_major);
  twice(fb);
  w::mma_sync(fc, fa, fb, fc);
  w::store_matrix_sync(d, fc, LDC, w::mem_LC_major);
}]]

local function full(x, layout) return layout == "row" and x:double() or x:double():t() end

local function matrix(rows, columns, layout, dtype)
  local whole = dtype:find "^[iu]"
  local x = whole and flame.randint({ rows, columns }, 0, 7) or flame.randn(rows, columns)
  x = x:to(dtype)
  return layout == "row" and x or x:t():contiguous():detach()
end

--- Runs PRODUCT for the types and layouts in t: the largest relative error of values, of gradients.
local function off(t)
  local row = t.lc == "row"
  local source = PRODUCT:gsub("%u%u%u*", { TYPE = t.type, SUM = t.sum, MM = t.m, NN = t.n,
    LA = t.la, LB = t.lb, LC = t.lc, LDA = t.la == "row" and 16 or t.m,
    LDB = t.lb == "row" and t.n or 16, LDC = row and t.n or t.m })
  local k = flame.kernel { source = source, block = { 32 }, grid = { 1 },
    shape = row and { t.m, t.n } or { t.n, t.m } }
  local a, b = matrix(t.m, 16, t.la, names[t.type]), matrix(16, t.n, t.lb, names[t.type])
  local c = matrix(t.m, t.n, t.lc, names[t.sum])
  local real = t.sum ~= "int"
  if real then for _, x in ipairs { a, b, c } do x.requires_grad = true end end
  local got = full(k(a, b, c), t.lc)
  local want = flame.matmul(full(a, t.la), full(b, t.lb) * 2) + full(c, t.lc)
  local worst = ((got - want):abs():max() / want:abs():max()):item()
  if not real then return worst, 0 end
  local seed, slope = flame.randn(t.m, t.n):half():double(), 0
  local g, h = (got * seed):sum():gradients { a, b, c }, (want * seed):sum():gradients { a, b, c }
  for _, x in ipairs { a, b, c } do
    local true_one = h[x]:double()
    slope = math.max(slope, ((g[x]:double() - true_one):abs():max() / true_one:abs():max()):item())
  end
  return worst, slope
end

describe("a fragment of wmma", function()
  for _, pair in ipairs { { "half", "float" }, { "half", "half" }, { "__nv_bfloat16", "float" },
    { "signed char", "int" }, { "unsigned char", "int" } } do
    it("of " .. pair[1] .. " sums in " .. pair[2] .. ", in all sizes and layouts", function()
      for bits = 0, 23 do
        local m = ({ [0] = 16, 32, 8 })[bits // 8]
        local function side(bit) return bits >> bit & 1 == 0 and "row" or "col" end
        flame.seed(bits)
        local value, slope = off { type = pair[1], sum = pair[2], m = m, n = 256 // m, la = side(0),
          lb = side(1), lc = side(2) }
        -- a gradient is rounded to the dtype of its tensor, so its bound depends on that
        local bound = pair[2] == "half" and 5e-4 or pair[2] == "int" and 0 or 1e-6
        assert.truthy(value <= bound, ("%d: values %g off"):format(bits, value))
        assert.truthy(slope <= (pair[1] == "half" and 5e-4 or 4e-3),
          ("%d: gradients %g off"):format(bits, slope))
      end
    end)
  end

  it("of TF32 has 11 bits, and its rounding a gradient", function()
    local k = flame.kernel { source = [[
#include <mma.h>
using namespace nvcuda;
__global__ void k(const float *a, const float *b, float *d) {
  wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 8, float> fc;
  wmma::fill_fragment(fc, 0.f);
  wmma::load_matrix_sync(fa, a, 8);
  wmma::load_matrix_sync(fb, b, 8);
  for (int t = 0; t < fa.num_elements; t++) fa.x[t] = wmma::__float_to_tf32(fa.x[t]);
  for (int t = 0; t < fb.num_elements; t++) fb.x[t] = wmma::__float_to_tf32(fb.x[t]);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(d, fc, 16, wmma::mem_row_major);
}]], block = { 32 }, grid = { 1 }, shape = { 16, 16 } }
    flame.seed(1)
    local a = (flame.randn(16, 8) * 64):round() / 64           -- numbers of 11 bits
    local b = (flame.randn(16, 8) * 64):round() / 64
    a.requires_grad, b.requires_grad = true, true
    local got, want = k(a, b), flame.matmul(a, b:t())
    assert.truthy((got - want):abs():max():item() < 1e-5)
    local g, h = got:square():sum():gradients { a, b }, want:square():sum():gradients { a, b }
    for _, x in ipairs { a, b } do assert.truthy((g[x] - h[x]):abs():max():item() < 1e-3) end
    local r = flame.kernel [[
#include <mma.h>
__global__ void r(const float *x, float *y, int n) {
  int i = threadIdx.x;
  if (i < n) y[i] = nvcuda::wmma::__float_to_tf32(x[i]);
}]]
    -- ties go away from zero
    local numbers = { 1 + 2 ^ -10, 1 + 2 ^ -11, -1 - 2 ^ -11, 1 + 3 * 2 ^ -12, 1 + 2 ^ -12,
      4098 * 2 ^ 114, -1 / 0, 3e38, 0, -0.0, 1 + 2 ^ -11 - 2 ^ -23 }
    assert.same({ 1 + 2 ^ -10, 1 + 2 ^ -10, -1 - 2 ^ -10, 1 + 2 ^ -10, 1, 4100 * 2 ^ 114,
      -1 / 0, 1806 * 2 ^ 117, 0, 0, 1 },
      r(flame.tensor(numbers)):totable())
  end)

  it("may be one of an array, from shared memory, in a loop, and be changed by its elements", function()
    local k = flame.kernel { source = [[
#include <mma.h>
using namespace nvcuda::wmma;
template <int R, int C> __global__ void tiles(const half *a, const half *b, float *d, int n) {
  __shared__ half sa[16 * R * 24];
  fragment<matrix_a, 16, 16, 16, half, row_major> fa[R];
  fragment<matrix_b, 16, 16, 16, half, row_major> fb;
  fragment<accumulator, 16, 16, 16, float> acc[R][C];
  for (int i = 0; i < R; ++i) for (int j = 0; j < C; ++j) fill_fragment(acc[i][j], 0.f);
  const int col = 16 * C * (threadIdx.x / 32), first = blockIdx.x * 16 * R;
  for (int k = 0; k < n; k += 16) {
    for (int e = threadIdx.x; e < 16 * R * 16; e += blockDim.x)
      sa[e / 16 * 24 + e % 16] = a[(first + e / 16) * n + k + e % 16];
    __syncthreads();
    for (int i = 0; i < R; ++i) load_matrix_sync(fa[i], &sa[16 * i * 24], 24);
    for (int j = 0; j < C; ++j) {
      load_matrix_sync(fb, b + k * n + col + 16 * j, n);
      for (int i = 0; i < R; ++i) mma_sync(acc[i][j], fa[i], fb, acc[i][j]);
    }
    __syncthreads();
  }
  for (int i = 0; i < R; ++i) for (int j = 0; j < C; ++j) {
    for (int e = 0; e < acc[i][j].num_elements; ++e) acc[i][j].x[e] = tanhf(0.1f * acc[i][j].x[e]);
    store_matrix_sync(d + (first + 16 * i) * n + col + 16 * j, acc[i][j], n, mem_row_major);
  }
}]], entry = "tiles<2, 2>", block = { 64 }, grid = { 2 }, shape = { 64, 64 } }
    flame.seed(3)
    local a, b = flame.randn(64, 64):half(), flame.randn(64, 64):half()
    a.requires_grad, b.requires_grad = true, true
    local got, want = k(a, b, 64), (flame.matmul(a:float(), b:float()) * 0.1):tanh()
    assert.truthy((got - want):abs():max():item() < 1e-5)
    local seed = flame.randn(64, 64)
    local g, h = (got * seed):sum():gradients { a, b }, (want * seed):sum():gradients { a, b }
    for _, x in ipairs { a, b } do
      assert.truthy((g[x]:float() - h[x]:float()):abs():max():item() < 0.004)
    end
    local r = k:report()
    if flame.kernel("__global__ void k(float *y) { y[0] = 1; }"):report().registers > 0 then
      assert.truthy(r.registers > 0 and r.adjoint.registers > 0)
    end
  end)

  for _, head in ipairs { "using namespace nvcuda; namespace cg = cooperative_groups;",
    "namespace cg = cooperative_groups; namespace wmma = nvcuda::wmma;",
    "using namespace cooperative_groups; using namespace nvcuda; using namespace nvcuda::wmma;\n" ..
      "namespace cg = cooperative_groups;" } do
    it("is in one text with groups that meet: " .. head:sub(1, 28), function()
      local k = flame.kernel { source = "#include <cooperative_groups.h>\n" ..
        "#include <cooperative_groups/reduce.h>\n#include <mma.h>\n" .. head .. [[

__global__ void k(const half *a, const half *b, float *part, float *d) {
  const cg::grid_group grid = cg::this_grid();
  const auto tile = cg::tiled_partition<32>(cg::this_thread_block());
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fill_fragment(fc, (float)blockIdx.x);
  wmma::load_matrix_sync(fa, a, 16);
  wmma::load_matrix_sync(fb, b, 16);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(part + 256 * blockIdx.x, fc, 16, wmma::mem_row_major);
  grid.sync();
  float s = 0.f;
  for (int i = tile.thread_rank(); i < 256; i += tile.size()) s += part[256 * (1 - blockIdx.x) + i];
  s = cg::reduce(tile, s, cg::plus<float>());
  if (tile.thread_rank() == 0) d[blockIdx.x] = s;
}]], block = { 32 }, grid = { 2 }, shape = { 512 } }
      flame.seed(4)
      local a, b = matrix(16, 16, "row", "f16"), matrix(16, 16, "row", "f16")
      a.requires_grad, b.requires_grad = true, true
      local _, d = k(a, b)
      local want = flame.matmul(a:float(), b:float()):sum()
      assert.truthy((d[2] - want):abs():item() < 1e-3 and (d[1] - want - 256):abs():item() < 1e-3)
      local g, h = (d[1] + 2 * d[2]):gradients { a, b }, (3 * want):gradients { a, b }
      for _, x in ipairs { a, b } do
        assert.truthy((g[x]:float() - h[x]:float()):abs():max():item() < 0.05)
      end
    end)
  end

  it("of no size or type that there is, or without its lanes, is refused with the line", function()
    local function why(declared, rest)
      local k = "#include <mma.h>\nusing namespace nvcuda;\n" ..
        "__global__ void k(const half *a, float *d) {\n  wmma::fragment<" .. declared .. "> f;\n" ..
        rest .. "\n  d[threadIdx.x] = f.x[0];\n}"
      return helper.message(function()
        return flame.kernel { source = k, block = { 32 }, grid = { 1 }, shape = { 32 } }(
          flame.ones(32, 32, { device = "cpu" }):half()):sum():item()   -- a GPU takes CUDA's own
      end)
    end
    local load = "  wmma::load_matrix_sync(f, a, 32);"
    for _, case in ipairs {
      { "wmma::matrix_a, 16, 16, 32, half, wmma::row_major", load, "line 5", "32x8x16" },
      { "wmma::matrix_a, 16, 16, 16, float, wmma::row_major", load, "line 5", "TF32 or bytes" },
      { "wmma::matrix_b, 16, 16, 16, half", load, "line 5", "row_major or col_major" },
      { "wmma::matrix_a, 8, 8, 32, wmma::experimental::precision::s4, wmma::row_major", "", "line 4",
        "matrix fragments are outside" },
      { "wmma::matrix_a, 16, 16, 16, half, wmma::row_major", "  wmma::load_matrix_sync(f, a, 132);",
        "line 5", "index 1056 of 'a'" },
    } do
      local e = why(case[1], case[2])
      assert.truthy(e:find(case[3], 1, true) and e:find(case[4], 1, true), e)
    end
  end)
end)

describe("mma.sync", function()
  local SOURCE <const> = [[
#include <cuda_fp16.h>
__global__ void k(const half *x, const half *y, const float *c, float *d) {
  const int l = threadIdx.x, g = l / 4, t = l % 4;
  float s[4];
  for (int k = 0; k < 4; ++k) s[k] = c[(g + k / 2 * 8) * 8 + 2 * t + k % 2];
  WORDS
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
               "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
               : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3])
               : "r"(a[g * 8 + t]), "r"(a[g * 8 + 64 + t]), "r"(a[g * 8 + t + 4]),
                 "r"(a[g * 8 + 68 + t]), "r"(b[g * 8 + t]), "r"(b[g * 8 + t + 4]));
  for (int k = 0; k < 4; ++k) d[(g + k / 2 * 8) * 8 + 2 * t + k % 2] = s[k] * s[k];
}]]
  for name, words in pairs {
    cast = "const unsigned *a = (const unsigned *)x, *b = reinterpret_cast<const unsigned *>(y);",
    shared = "__shared__ half u[256], v[128]; for (int i = l; i < 256; i += 32) u[i] = x[i];" ..
      " for (int i = l; i < 128; i += 32) v[i] = y[i]; __syncthreads();" ..
      " const unsigned *a = (const unsigned *)u, *b = (const unsigned *)v;",
    bits = "unsigned a[128], b[64]; for (int i = 0; i < 128; ++i)" ..
      " a[i] = __half_as_ushort(x[2 * i]) | (unsigned)__half_as_ushort(x[2 * i + 1]) << 16;" ..
      " for (int i = 0; i < 64; ++i)" ..
      " b[i] = __half_as_ushort(y[2 * i]) | (unsigned)__half_as_ushort(y[2 * i + 1]) << 16;" } do
    it("has gradients by the sum and by its halves, read as such: " .. name, function()
      flame.seed(5)
      local k = flame.kernel { source = SOURCE:gsub("WORDS", words), block = { 32 }, grid = { 1 },
        shape = { 16, 8 } }
      local x, y, c = matrix(16, 16, "row", "f16"), matrix(8, 16, "row", "f16"),
        flame.randn(16, 8):requires_grad_(true)
      local want = (flame.matmul(x:float(), y:float():t()) + c):square()
      local got = k(x, y, c)
      assert.truthy((got - want):abs():max():item() < 1e-3)
      local g, h = got:sum():gradients { c }, want:sum():gradients { c }
      assert.truthy((g[c] - h[c]):abs():max():item() < 1e-3)
      for _, half in ipairs { x, y } do
        half.requires_grad = true
        local plain = (flame.matmul(x:float(), y:float():t()) + c):square()
        local ok, by = pcall(function() return k(x, y, c):sum():gradients { half } end)
        local plainly = plain:sum():gradients { half }[half]:float()
        half.requires_grad = false
        if name == "bits" then
          assert.truthy(by:find("the bits of a real number cannot be differentiated", 1, true), by)
        else
          assert(ok, by)
          local far = (by[half]:float() - plainly):abs():max():item()
          assert.is_true(far <= 2e-3 * plainly:abs():max():item(), far)
        end
      end
    end)
  end
end)

describe("tiled_partition", function()
  local function sizes(call)
    return flame.kernel { source = "#include <cooperative_groups.h>\n" ..
      "using namespace cooperative_groups;\n__global__ void k(float *y) {\n  auto t = " .. call ..
      ";\n  y[threadIdx.x] = t.size();\n}", block = { 64 }, grid = { 1 }, shape = { 64 } }()
  end

  it("of a number of threads that no tile has is refused", function()
    assert.equal(64 * 8, sizes("tiled_partition<8>(this_thread_block())"):sum():item())
    if flame.default_device() ~= "cpu" then return end       -- a GPU takes what CUDA's headers do
    for _, n in ipairs { 0, 3, 33, 64 } do
      for _, call in ipairs { ("tiled_partition<%d>(this_thread_block())"):format(n),
        ("tiled_partition(this_thread_block(), %d)"):format(n) } do
        local e = helper.message(function() sizes(call):sum():item() end)
        assert.truthy(e:find("line 4", 1, true) and e:find("1, 2, 4, 8, 16 or 32", 1, true), e)
      end
    end
  end)
end)
