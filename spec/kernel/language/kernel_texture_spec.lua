--- Textures of linear memory: parameters of type cudaTextureObject_t, read by tex1Dfetch. Values
--- are compared with g++; values, gradients and second derivatives must have the bits of the same
--- kernel with pointers. NVRTC, if there is one, compiles texts. Runs on the default device.
local flame = require "flame"
local helper = require "spec.support.helper"
local judged = dofile("spec/kernel/kernel_judged.lua")
local message, compiles = helper.message, judged.compiles

local N <const> = judged.N

local BEFORE <const> = [[
  __device__ float at(cudaTextureObject_t t, int i) { return 2 * tex1Dfetch<float>(t, i); }
  template <typename T> __device__ T get(const cudaTextureObject_t t, int i) {
    return tex1Dfetch<T>(t, i);
  }
  struct Field {
    cudaTextureObject_t t; int n;
    __device__ float mean(int i) const {
      return 0.5f * (tex1Dfetch<float>(t, max(i - 1, 0)) + tex1Dfetch<float>(t, min(i + 1, n - 1)));
    }
  };
]]

-- body; type of the elements of t; dtype; numbers in an element
local rows <const> = {
  { "y[i] = tex1Dfetch<float>(t, i) * tex1Dfetch<float>(t, n - 1 - i);", "float", "f32", 1 },
  { "float s = 0; for (int j = 0; j <= i; ++j) s += tex1Dfetch<float>(t, j) * w[j]; y[i] = s;",
    "float", "f32", 1 },
  { "y[i] = at(t, i) * w[i] + get<float>(t, 0);", "float", "f32", 1 },
  { "Field f{t, n}; y[i] = f.mean(i) * f.mean(0);", "float", "f32", 1 },
  { "cudaTextureObject_t u = t; y[i] = tex1Dfetch<float>(u, (i + 1) % n) * w[i];", "float", "f32",
    1 },
  { "float v; tex1Dfetch(&v, t, i); y[i] = v * v;", "float", "f32", 1 },
  { "y[i] = tex1Dfetch<float>(t, w[i] > 0 ? 1 : 4294967296ll + 2);", "float", "f32", 1 },
  { "float2 v = tex1Dfetch<float2>(t, i); y[i] = v.x * v.y;", "float2", "f32", 2 },
  { "float4 v = tex1Dfetch<float4>(t, i); y[i] = v.x * v.w + tex1Dfetch<float4>(t, 0).z * v.y;",
    "float4", "f32", 4 },
  { "y[i] = get<float4>(t, i).w * w[i];", "float4", "f32", 4 },
  { "float1 v = tex1Dfetch<float1>(t, i); y[i] = v.x * w[i];", "float1", "f32", 1 },
  { "y[i] = w[tex1Dfetch<int>(t, i)];", "int", "i32", 1 },
  { "y[i] = w[i] * (tex1Dfetch<unsigned int>(t, i) - 1u);", "unsigned int", "i32", 1 },
  { "y[i] = w[i] * tex1Dfetch<int2>(t, i).y;", "int2", "i32", 2 },
  { "uchar4 v = tex1Dfetch<uchar4>(t, i); y[i] = w[i] * (v.x - v.w);", "uchar4", "u8", 4 },
  { "short2 v = tex1Dfetch<short2>(t, i); y[i] = w[i] * (v.x - 3 * v.y);", "short2", "i16", 2 },
}

local FOR_GCC <const> = [[
  #include <algorithm>
  using std::max; using std::min;
  struct float1 { float x; }; struct float2 { float x, y; }; struct float4 { float x, y, z, w; };
  struct int2 { int x, y; }; struct short2 { short x, y; };
  struct uchar4 { unsigned char x, y, z, w; };
  typedef const void *cudaTextureObject_t;
  template <typename T> T tex1Dfetch(cudaTextureObject_t t, int i) { return ((const T *)t)[i]; }
  template <typename T> void tex1Dfetch(T *to, cudaTextureObject_t t, int i) {
    *to = ((const T *)t)[i];
  }
]]

local function source(body)
  return BEFORE .. "__global__ void k(cudaTextureObject_t t, const float *w, double *y, int n) {"
    .. "\n  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i >= n) return;\n  "
    .. body .. "\n}"
end

--- The same kernel with a pointer in the place of the texture.
local function with_pointer(body, element)
  local fetch = "template <typename T> __device__ T fetch(const T *t, int i) { return t[i]; }\n"
    .. "template <typename T> __device__ void fetch(T *to, const T *t, int i) { *to = t[i]; }\n"
  return fetch .. (source(body):gsub("const cudaTextureObject_t", "cudaTextureObject_t")
    :gsub("cudaTextureObject_t", "const " .. element .. " *")
    :gsub("tex1Dfetch<[%w ]+>", "fetch"):gsub("tex1Dfetch", "fetch")
    :gsub("__device__ T get%b()", "__device__ T get(const T *t, int i)")
    :gsub("__device__ float at%b()", "__device__ float at(const float *t, int i)")
    :gsub("struct Field {%s+const [%w ]+%*", "struct Field { const float *"))
end

local function elements(row)
  local list = {}
  for i = 1, N * row[4] do
    list[i] = row[3] == "f32" and math.floor(4096 * math.sin(1.3 * i)) / 4096 or i * 3 % N
  end
  return list
end

--- Value, gradients and a second derivative, as lists.
local function everything(k, t, w)
  local inputs = t:is_floating_point() and { t, w } or { w }
  local function f(...)
    local a, b = ...
    if not b then a, b = t, a end
    return k(a, b, N)
  end
  local out = { f(table.unpack(inputs)) }
  local function slope(...)
    local xs = { ... }
    for i, x in ipairs(xs) do
      xs[i] = x:detach():clone()
      xs[i].requires_grad = true
    end
    local y = f(table.unpack(xs))
    local g = (y * y):sum():gradients(xs, { create_graph = true })
    local total = 0
    for _, x in ipairs(xs) do
      out[#out + 1] = g[x]
      total = total + (g[x] * g[x]):sum()
    end
    local h = total:gradients(xs)
    for _, x in ipairs(xs) do out[#out + 1] = h[x] end
  end
  slope(table.unpack(inputs))
  for i, x in ipairs(out) do out[i] = x:flatten():totable() end
  return out
end

--- Checks equality: of bits on the CPU, within rounding on a GPU, where atomics add in any order.
local function same(want, got)
  if flame.default_device() == "cpu" then assert.same(want, got) end
  for i, list in ipairs(want) do
    for j, v in ipairs(list) do
      local near = got[i][j] == v or math.abs(got[i][j] - v) <= 1e-5 * (1 + math.abs(v))
      assert(near, ("%d, %d"):format(i, j))
    end
  end
end

describe("a texture of linear memory", function()
  for _, row in ipairs(rows) do
    it("is an array that is read: " .. row[1], function()
      local k = flame.kernel { source = source(row[1]), shape = { N } }
      local list, w = elements(row), judged.numbers(N, 2)
      local t = flame.tensor(list, { dtype = row[3] })
      local word = { f32 = "float", i32 = "int", u8 = "unsigned char", i16 = "short" }
      local right = judged.values(FOR_GCC .. source(row[1]), { "a, w" },
        ("const %s a[] = {%s};\nconst float w[] = {%s};\n"):format(word[row[3]],
          table.concat(list, ", "), table.concat(w, ", ")))
      w = flame.tensor(w)
      if right then judged.near(k(t, w, N):totable(), right[1], row[1]) end
      local twin = flame.kernel { source = with_pointer(row[1], row[2]), shape = { N } }
      same(everything(twin, t, w), everything(k, t, w))
      compiles(k)
      local told = k:report().parameters[1]
      assert.equal("const " .. row[2]:gsub(" int", "") .. " *t: in", told)
    end)
  end

  local PLAIN <const> = source("y[i] = tex1Dfetch<float>(t, i) * w[i];")

  it("takes a tensor of the type that is fetched", function()
    local k, w = flame.kernel(PLAIN), flame.ones(N)
    assert.matches("t must be f32, got f64", message(k, w:double(), w, N))
    assert.matches("t must be f32, got u8", message(k, w:byte(), w, N))
    assert.matches("t must be a tensor, got number 3", message(k, 3, w, N))
    assert.matches("t must be a tensor, got nil, and the kernel never asks", message(k, nil, w, N))
    assert.matches("multiple of",
      message(flame.kernel(source("y[i] = tex1Dfetch<float4>(t, i).x;")), flame.ones(6), w, N))
    local asks = flame.kernel(source("y[i] = t ? tex1Dfetch<float>(t, i) : w[i];"))
    assert.same({ 1, 1, 1, 1, 1 }, asks:with { shape = { N } }(nil, w, N):totable())
    assert.same({ 2, 2, 2, 2, 2 }, asks:with { shape = { N } }(w * 2, w, N):totable())
  end)

  it("has the bounds of an array", function()
    if not judged.stops then return end
    for i, at in pairs { ["i - 1"] = "%-1", ["i + 5"] = "5" } do
      local k = flame.kernel(source("y[i] = tex1Dfetch<float>(t, " .. i .. ");"))
      assert.matches("line 14 .*index " .. at .. " of 't' %(5 elements%)",
        message(function() return k(flame.ones(N), flame.ones(N), N):totable() end))
    end
  end)

  it("goes with templates, batches, plain launches and saved programs", function()
    local k = flame.kernel [[
      template <typename T> __global__ void k(cudaTextureObject_t t, const T *w, T *y, int n) {
        int i = threadIdx.x;
        if (i < n) y[i] = tex1Dfetch<float>(t, i) * w[i];
      }]]
    local x, w = flame.arange(1.0, N), flame.full({ N }, 2, { dtype = "f64" })
    assert.same({ 2, 4, 6, 8, 10 }, k(x, w, N):totable())
    local rows_of = flame.ones(3, N, { dtype = "f64" }) * 3
    assert.same({ 3, 6, 9, 12, 15 },
      flame.vmap(function(v) return k(x, v, N) end)(rows_of):totable()[3])
    local y = flame.zeros(N, { dtype = "f64" })
    k:of("f64"):launch({ grid = { 1 }, block = { 8 } }, x, w, y, N)
    assert.same({ 2, 4, 6, 8, 10 }, y:totable())
    local path = os.tmpname()
    flame.export(path, function(a, b) return k(a, b, N) end, { x, w })
    assert.same({ 4, 8, 12, 16, 20 }, flame.program(path)(x * 2, w):totable())
    os.remove(path)
  end)

  it("goes with lists of tensors, of which a call tells the length", function()
    local function listed(line)
      return flame.kernel { shape = { N }, source = ([[
        __global__ void k(const float *const *xs, cudaTextureObject_t t, float *y, int m, int n) {
          int i = threadIdx.x;
          if (i >= n) return;
          float s = 0;
          for (int j = 0; j < m; j++) s += xs[j][i] * tex1Dfetch<float>(t, j);
          %s
        }]]):format(line) }
    end
    local k, t = listed "y[i] = s;", flame.arange(1.0, N)
    for m = 1, N do
      local xs = {}
      for j = 1, m do xs[j] = flame.full({ N }, j):requires_grad_(true) end
      t.requires_grad, t.grad = true, nil
      k(xs, t, m, N):sum():backward()
      for j = 1, N do
        assert.equal(xs[j] and N * j or 0, t.grad[j]:item())
        if xs[j] then assert.equal(j, xs[j].grad[1]:item()) end
      end
    end
    assert.matches("runs only what it understands: .*line 6 .*inline asm",
      message(listed "asm(\"brkpt;\"); y[i] = s;", { t:detach() }, t:detach(), 1, N))
  end)

  it("is refused with its line where the text does more", function()
    for body, why in pairs {
      ["y[i] = tex1Dfetch<double>(t, i);"] = "tex1Dfetch of 'double'.*make it a const pointer",
      ["y[i] = tex1Dfetch<float3>(t, i).x;"] = "tex1Dfetch of 'float3'",
      ["y[i] = tex1Dfetch<float>(t, i) + tex1Dfetch<int>(t, i);"] =
        "texture 't' is read as 'int' here and as 'float' in line 14",
      ["y[i] = tex1Dfetch<float4>(t, i).x + tex1Dfetch<float>(t, i);"] =
        "texture 't' is read as 'float' here and as 'float4' in line 14",
      ["y[i] = tex1Dfetch(t, i);"] = "tex1Dfetch is called as tex1Dfetch<float>%(texture, index%)",
      ["y[i] = tex1Dfetch<float>(w, i);"] = "tex1Dfetch reads a parameter of type cuda",
      ["y[i] = t[i];"] = "a texture is read by tex1Dfetch",
      ["y[i] = *t;"] = "a texture is read by tex1Dfetch",
      ["y[i] = tex1Dfetch<float>(t + 1, i);"] = "a texture is read by tex1Dfetch",
      ["y[i] = ((const float *)t)[i];"] = "a texture is read by tex1Dfetch",
      ["y[i] = (float)t;"] = "a pointer is used as a number",
      ["tex1Dfetch<float>(t, i) = 2;"] = "the left side cannot be assigned",
      ["y[i] = tex2D<float>(t, i, 0);"] = "textures that filter .*tex2D.*read a const pointer",
      ["y[i] = tex1D<float>(t, i);"] = "textures that filter .*tex1D.*or by tex1Dfetch",
      ["y[i] = tex3DLod<float>(t, i, 0, 0, 0);"] = "textures that filter .*tex3DLod",
    } do
      -- an error about a parameter names the script's line as well
      local text = message(flame.kernel, source(body)):gsub(" %(%S+:%d+%)", "")
      assert.matches("kernel 'k', line 14: " .. why, text)
    end
    assert.matches("line 2 %(%S+:%d+%): texture 't' is read as 'int'", message(flame.kernel, [[
      __global__ void k(cudaTextureObject_t t, float *y) {
        y[0] = tex1Dfetch<float>(t, 0) * tex1Dfetch<int>(t, 0); }]]))
    assert.matches("in a struct", message(function()
      return flame.kernel [[struct P { cudaTextureObject_t t; int n; };
        __global__ void k(P p, float *y) { y[0] = tex1Dfetch<float>(p.t, 0); }]] ({ n = 1 })
        :totable()
    end))
    assert.matches("line 2.*'u': texture references are gone from CUDA 12: give the kernel",
      message(function()
        return flame.kernel [[texture<float, 1, cudaReadModeElementType> u;
          __global__ void k(const float *x, float *y) { y[0] = tex1Dfetch(u, 0); }]](flame.ones(1))
          :totable()
      end))
  end)
end)
