--- Small kernels of double for specs of gradients.
local flame = require "flame"

local function f64(list) return flame.tensor(list, { dtype = "f64" }) end

local function wave(n, phase, scale)
  local list = {}
  for j = 1, n do list[j] = (scale or 1) * math.sin(1.7 * j + (phase or 0)) end
  return list
end

--- A kernel with this body, i the thread; one block of 'threads'. before: text in front of it.
local function kernel(params, body, threads, shape, before, more)
  local spec = { source = ("%s\n__global__ void k(%s) {\n  int i = blockIdx.x * blockDim.x + threadIdx.x;\n%s\n}")
    :format(before or "", params, body), shape = { shape or threads }, grid = { 1 },
    block = { threads } }
  for name, v in pairs(more or {}) do spec[name] = v end
  return flame.kernel(spec)
end

return { f64 = f64, wave = wave, kernel = kernel }
