--- Loads of wide types at addresses that are not multiples of their size: a GPU faults, and the CPU
--- raises a message that names line, type, byte and thread.
local flame = require "flame"
local helper = require "spec.support.helper"

local numbers = flame.arange(64.0) - 1

--- The values of y after a run of the case with 8 threads on x; raises where a load is misaligned.
local function run(case, x)
  local k = flame.kernel { source = (case.head or "") .. "\n__global__ void k(const " ..
    (case.type or "float") .. " *x, float *y) {\n  int i = threadIdx.x;\n  " .. case[1] .. " }",
    block = { 8 }, grid = { 1 }, shape = { 8 }, shared = 256 }
  return k(x):totable()
end

local union = "union U { float f[4]; float4 v; };"
local struct = "struct P { float a; double b; };"
local shared = "extern __shared__ float s[]; for (int j = 0; j < 4; j++) s[4 * i + j] = x[4 * i + j];" ..
  " __syncthreads(); "

describe("an address that is no multiple of its type's size", function()
  if (flame.default_device():sub(1, 4) == "cuda") then return end
  local cases = {
    { "y[i] = ((const float4 *)(x + i))->x;", "'float4' of 'x'", 16, 4, 1 },
    { "y[i] = ((const float4 *)(x + 2 * i))->x;", "'float4' of 'x'", 16, 8, 1 },
    { "y[i] = ((const double *)(x + 1))[i];", "'double' of 'x'", 8, 4, 0 },
    { "const float4 *p = &((const float4 *)(x + 3 * i))[1]; y[i] = p->y;",
      "'float4' of 'x'", 16, 28, 1 },
    { "float2 v = __ldg((const float2 *)(x + i)); y[i] = v.x;", "'float2' of 'x'", 8, 4, 1 },
    { "if (i % 4 == 2) *(float4 *)(y + i) = make_float4(x[i], 1, 2, 3);",
      "'float4' of 'y'", 16, 8, 2 },
    { "if (i < 6) atomicAdd((float2 *)(y + i), make_float2(x[i], 1));",
      "'float2' of 'y'", 8, 4, 1 },
    { "half2 v = *(const half2 *)(x + i); y[i] = __half2float(v.y);", "'half2' of 'x'", 4, 2, 1,
      type = "half", dtype = "f16" },
    { "int4 v = *(const int4 *)(x + 8 * (i / 4) + (i & 1)); y[i] = v.x;", "'int4' of 'x'", 16, 2, 1,
      type = "half", dtype = "f16" },
    { "y[i] = *(const long long *)((const int *)x + i);", "'long long' of 'x'", 8, 4, 1,
      type = "long long", dtype = "i64" },
    { "y[i] = *(const float *)(x + i);",
      "'float' of 'x'", 4, 1, 1, type = "unsigned char", dtype = "u8" },
    { "y[i] = ((const P *)((const char *)x + 4 * (i + 1)))->b;", "'P' of 'x'", 8, 4, 0, type = "P",
      dtype = "u8", head = struct },
    { shared .. "y[i] = ((float4 *)(s + i))->z;", "'float4' of 's'", 16, 4, 1 },
    { shared .. "double *d = (double *)(s + 1); y[i] = d[i];", "'double' of 's'", 8, 4, 0 },
    { "__shared__ float s[16]; s[i] = s[i + 8] = x[i]; __syncthreads(); y[i] = ((float2 *)(s + i))->y;",
      "'float2' of 's'", 8, 4, 1 },
    { "long long v[4] = { x[i], 1, 2, 3 }; y[i] = *(long long *)((int *)v + 2 * i + 1);",
      "'long long' of 'v'", 8, 4, 0, type = "long long", dtype = "i64" },
  }
  for _, c in ipairs(cases) do
    it("is told in " .. c[1], function()
      local e = helper.message(function() return run(c, numbers:to(c.dtype or "f32")) end)
      local want = ("misaligned address: %s begins at a multiple of %d bytes, this one at byte %d, in thread (%d, 0, 0)")
        :format(c[2], c[3], c[4], c[5])
      assert.truthy(e:find("line 4", 1, true) and e:find(want, 1, true), e)
    end)
  end

  local right = {
    { "y[i] = ((const float4 *)(x + (i << 2)))->x;", 4 },
    { "y[i] = ((const float2 *)(x + 2 * blockDim.x * (i / 2) / 2))->x;", 8, at = 3 },
    { "const float4 *p = &((const float4 *)(x + 3 * i))[1]; y[i] = i % 4 ? x[i] : p->x;", 16, at = 5 },
    { "y[i] = ((const float3 *)(x + i))->z;", 3 },
    { "double *d = (double *)y; if (i < 4) *((float2 *)&d[i]) = *(const float2 *)(x + 2 * i);", 1 },
    { shared .. "y[i] = ((float4 *)(s + 4 * i))->z;", 6 },
    { "extern __shared__ double d[]; float *f = (float *)d; f[i] = x[i]; __syncthreads();" ..
      " double *g = (double *)(f + 2); y[i] = ((float *)g)[i & 3];", 3 },
    { "U u; u.v = *(const float4 *)(x + 4 * i); y[i] = ((float2 *)&u.f[1])->x;", 5, head = union },
    { "float3 v = make_float3(i, x[i], 7); float2 w = *(float2 *)&v.y; y[i] = w.x + w.y;", 8 },
    { "float v[8] = { x[i], 1, 2, 3, 4, 5, 6, 7 }; y[i] = ((float2 *)&v[i & 3])->y;", 2 },
  }
  for _, c in ipairs(right) do
    it("is not seen in " .. c[1], function() assert.equal(c[2], run(c, numbers)[c.at or 2]) end)
  end

  it("is told of an argument that begins there, where wide types are read through it", function()
    local x = numbers[{ { 2, 33 } }]
    for text, of in pairs {
      ["y[i] = ((const float4 *)x)[i].x;"] = 16, ["y[i] = ((const float2 *)(x + 2 * i))->x;"] = 8
    } do
      local e = helper.message(function() return run({ text }, x) end)
      assert.truthy(e:find("x begins at byte 4 of its memory", 1, true) and
        e:find("multiples of " .. of .. "; use x:clone()", 1, true), e)
    end
    assert.equal(5, run({ "y[i] = ((const float4 *)x)[i].x;" }, x:clone())[2])
    assert.equal(2, run({ "y[i] = x[i];" }, x)[2])
  end)

  it("has the gradient of what is there where it is right", function()
    local k = flame.kernel { source = [[
      __global__ void k(const double *x, double *y, int w) {
        int i = threadIdx.x;
        double2 v = *(const double2 *)(x + w * i);
        y[i] = v.x * v.y;
      }]], block = { 4 }, grid = { 1 }, shape = { 4 } }
    local x = flame.arange(1.0, 17.0):double()
    assert.truthy(flame.gradcheck(function(t) return k(t, 4) end, { x }))
    local e = helper.message(function() return k(x, 3):totable() end)
    assert.truthy(e:find("this one at byte 24", 1, true), e)
  end)
end)
