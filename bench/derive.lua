-- Measures how long it takes to read a kernel of many lines and to derive its adjoint, for random
-- kernels of several kinds: the lines, the medians of five turns in milliseconds. Nothing is
-- compiled or run. Argument: lines of each kernel (default 500).
local flame = require "flame"
local LINES <const>, TURNS <const> = tonumber(arg and arg[1]) or 500, 5

local FORMS <const> = { "sinf(%s)", "expf(-%s * %s * 0.01f)", "%s * %s", "tanhf(%s)",
  "%s + 0.5f * %s", "sqrtf(fabsf(%s) + 1.f)", "%s / (1.f + %s * %s)" }

--- A random expression of the variables v0 to v<n - 1>.
local function expression(n)
  local form = FORMS[math.random(#FORMS)]
  return (form:gsub("%%s", function() return "v" .. math.random(0, n - 1) end))
end

local VECTOR <const> = [[
struct V {
  float x, y, z;
  __device__ V(float a, float b, float c) : x(a), y(b), z(c) {}
  __device__ V operator+(const V &o) const { return V(x + o.x, y + o.y, z + o.z); }
  __device__ V operator*(float s) const { return V(x * s, y * s, z * s); }
  __device__ float dot(const V &o) const { return x * o.x + y * o.y + z * o.z; }
};]]

--- Lines that define v<n>, by kind; V: of the struct, which is inlined at each use.
local KINDS <const> = {
  { "assignments", function(n) return ("float v%d = %s;"):format(n, expression(n)) end },
  { "branches", function(n)
    return ("float v%d = 0.f;\nif (v%d > 0.2f) {\nv%d = %s;\n} else {\nv%d = %s;\n}"):format(n,
      math.random(0, n - 1), n, expression(n), n, expression(n))
  end },
  { "loops", function(n)
    return ("float v%d = 0.f;\nfor (int j = 0; j < 4; j++) {\nv%d += %s * x[(i + j) %% n];\n"
      .. "v%d = v%d * 0.5f + %s;\n}"):format(n, n, expression(n), n, n, expression(n))
  end },
  { "shared memory", function(n)
    return ("s[threadIdx.x] = %s;\n__syncthreads();\n"
      .. "float v%d = s[(threadIdx.x + 1) %% blockDim.x] * v1;\n__syncthreads();"):format(
      expression(n), n)
  end },
  { "a struct", function(n)
    return ("p = (p + q * (%s)) * 0.5f;\nq = q * 0.9f + p * (%s);\nfloat v%d = p.dot(q);"):format(
      expression(n), expression(n), n)
  end },
}

local function source(more)
  local lines = { VECTOR, "__global__ void k(const float *x, const float *w, float *y, int n) {",
    "int i = blockIdx.x * blockDim.x + threadIdx.x;", "__shared__ float s[256];",
    "float v0 = x[i], v1 = w[i];", "V p(v0, v1, 1.f), q(v1, v0, 2.f);" }
  local count, n = 13, 2
  while count < LINES - 2 do
    lines[#lines + 1] = more(n)
    count = count + 1 + select(2, lines[#lines]:gsub("\n", ""))
    n = n + 1
  end
  lines[#lines + 1] = ("y[i] = v%d + p.dot(q);\n}"):format(n - 1)
  return table.concat(lines, "\n"), count + 2
end

for _, kind in ipairs(KINDS) do
  local read, derive, count = {}, {}, nil
  for turn = 1, TURNS do
    math.randomseed(turn)
    local text
    text, count = source(kind[2])
    local clock = flame.timer()
    local k = flame.kernel { source = text, block = 128 }
    read[turn] = clock()
    k:source("adjoint")
    derive[turn] = clock() - read[turn]
  end
  table.sort(read)
  table.sort(derive)
  print(("%-14s %4d lines: read %6.1f ms, derive %6.1f ms"):format(kind[1], count,
    read[(TURNS + 1) // 2] * 1e3, derive[(TURNS + 1) // 2] * 1e3))
end
