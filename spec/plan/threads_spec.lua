-- Results have the same bits on any number of threads, and with any width of vectors where
-- docs/internals.md promises that. Child processes compute products, and functions made of
-- products, and print a hash of each result's bits.
local program = dofile("spec/support/interpreter.lua")
local ordered = require "spec.support.ordered"

-- The script of each child. Without the library, one thread factorises a matrix of any size, and
-- takes 0.5 s if n is 256.
local script = [=[
local flame = require "flame"
flame.manual_seed(3)
local bits = dofile "spec/support/bits.lua"
local function tell(name, ...)
  local hashes = {}
  for i, x in ipairs { ... } do hashes[i] = ("%016x"):format(bits(1, x)) end
  print(name .. " " .. table.concat(hashes, " "))
end
local products = {
  { 64, 64, 64 }, { 128, 128, 128 }, { 203, 211, 207 }, { 257, 255, 259 }, { 330, 325, 320 }, { 500, 500, 500 }, { 513, 700, 600 },
  { 1024, 130, 600 }, { 64, 2100, 512 }, { 2100, 64, 500 }, { 1500, 9, 4000 }, { 1, 4096, 3000 }, { 3, 2000, 3000 },
  { 4096, 1, 3000 }, { 128, 128, 4500 }, { 8, 8, 100000 },
}
for _, dtype in ipairs { "f32", "f64" } do
  local function rn(...) return flame.rand({ ... }, { dtype = dtype }) * 2 - 1 end
  for _, s in ipairs(products) do
    local m, n, k = s[1], s[2], s[3]
    local a, b = rn(m, k), rn(k, n)
    tell(("%s %d x %d x %d"):format(dtype, m, n, k), a:matmul(b), b:t():contiguous():t():transpose(1, 2):matmul(a:t()))
  end
  local a, b, wide, tall = rn(3, 300, 300), rn(3, 300, 300), rn(600, 520), rn(520, 600)
  tell(dtype .. " bmm", a:bmm(b), rn(12, 100, 90):bmm(rn(12, 90, 110)), a:matmul(b[1]))
  tell(dtype .. " addmm", flame.addmm(rn(600), wide, tall), rn(600, 520):mv(rn(520)))
  tell(dtype .. " einsum", flame.einsum("bij,bjk->ik", a, b), flame.einsum("ij,kj->ik", wide, wide))
  tell(dtype .. " linear", rn(700, 520):linear(wide, rn(600)))
  tell(dtype .. " conv", flame.conv2d(rn(4, 32, 40, 40), rn(64, 32, 3, 3)), flame.conv2d(rn(2, 64, 30, 30), rn(128, 64, 1, 1)))
  local w = rn(520, 600):requires_grad_(true)
  wide:matmul(w):square():sum():backward()
  tell(dtype .. " gradient", w.grad)
  local seen = {}
  for _, t in ipairs { dtype, dtype == "f32" and "bf16" or "f16" } do
    for _, heads in ipairs { 1, 4 } do
      local function part(h, n, d) return flame.randn({ 1, h, n, d }, { dtype = t }):requires_grad_(true) end
      local q, k, v = part(heads, 300, 40), part(1, 530, 40), part(1, 530, 33)
      local y = flame.scaled_dot_product_attention(q, k, v, { is_causal = heads == 4, enable_gqa = true })
      y:square():sum():backward()
      table.move({ y:detach(), q.grad, k.grad, v.grad }, 1, 4, #seen + 1, seen)
    end
  end
  tell(dtype .. " attention", table.unpack(seen))
  for _, n in ipairs { 20, 100, os.getenv "FLAME_BLAS" and 150 or 256 } do
    local x = rn(n, n)
    local s = x:matmul(x:t()) + flame.eye(n, { dtype = dtype }) * n
    local q, rr = x:qr()
    local u, d, v = x:svd()
    local w1, w2 = s:eigh()
    tell(("%s factors %d"):format(dtype, n), x:inverse(), s:cholesky(), q, rr, u, d, v, w1, w2, x:solve(s), (s:slogdet()))
  end
  tell(dtype .. " no product", flame.randn({ 300, 400 }, { dtype = dtype }), rn(50, 70):softmax(2), rn(50, 700):cumsum(2), rn(50, 700):var(2), rn(1000):norm(), rn(1000):sort(),
    rn(1000):lgamma(), rn(1000):erf():exp(), rn(2, 3, 20, 20):avg_pool2d(3), rn(100):rfft(), rn(128):rfft(), rn(10, 10):inverse(),
    rn(10, 10):matmul(rn(10, 10)))
  local many = rn(20, 40, 40)
  tell(dtype .. " factors of a batch", many:inverse(), (many:qr()))
end
]=]

local known = {}                 -- what children have printed, by environment

local function results(environment)
  if known[environment] then return known[environment] end
  local path = os.tmpname()
  local f <close> = assert(io.open(path, "w"))
  f:write(script)
  f:flush()
  local child <close> = assert(io.popen(("env %s %s %s 2>&1"):format(environment, program, path)))
  local lines = {}
  for line in child:lines() do lines[#lines + 1] = line end
  os.remove(path)
  known[environment] = lines
  return lines
end

describe("our own kernels", function()
  it("give the same bits with AVX2 as with AVX-512, and all but products and convolutions with neither", function()
    local widest = results("FLAME_BLAS=off FLAME_THREADS=2")
    local avx2, base = results("FLAME_BLAS=off FLAME_ISA=avx2"),
      results("FLAME_BLAS=off FLAME_ISA=base")
    assert.equal(56, #widest, table.concat(widest, "\n"))
    assert.same(widest, avx2)
    local compared = 0
    for i, line in ipairs(base) do
      if line:find("no product", 1, true) then
        assert.equal(widest[i], line)
        compared = compared + 1
      end
    end
    assert.equal(2, compared)
  end)
end)

describe("under a limit on the address space", function()
  -- Without enough memory OpenBLAS would request its buffers again and again; timeout(1) would then
  -- end with status 124.
  if os.getenv "FLAME_SANITIZE" then return end        -- a sanitizer takes more addresses than that
  for _, megabytes in ipairs { 200, 300, 400, 600, 800, 1200 } do
    it(("of %d MB, products and factorisations end"):format(megabytes), function()
      local code = "local a = require('flame').eye(200) * 2 print(a:matmul(a):sum():item(), a:inverse():sum():item())"
      local child <close> =
        assert(
          io.popen(("ulimit -v %d; timeout 60 %s -e %q 2>&1; echo $?"):format(megabytes << 10,
            program, code)))
      local text = child:read("a")
      assert.truthy(text == "800.0\t100.0\n0\n" or text:find("memory", 1, true), text)
      assert.falsy(text:find("124\n$"), text)
    end)
  end
  it("OpenBLAS starts no threads: each would take a buffer, or spin while there is no room", function()
    local code = "local a = require('flame').eye(200) * 2 "
      .. "print(a:matmul(a):sum():item(), a:inverse():sum():item()) "
      .. "print((io.open('/proc/self/status'):read('a'):match 'Threads:%s*(%d+)'))"
    local line = "ulimit -v 2000000; FLAME_THREADS=1 timeout 60 %s -e %q 2>&1; echo $?"
    local child <close> = assert(io.popen(line:format(program, code)))
    assert.equal("800.0\t100.0\n1\n0\n", child:read("a"))
  end)
end)

describe("a result has the same bits on any number of threads", function()
  for other, counts in ordered { [""] = { 2, 3, 4, 7 }, ["FLAME_BLAS=off "] = { 2, 7 } } do
    it("with " .. (other == "" and "the library that is found" or other), function()
      local one = results(other .. "FLAME_THREADS=1")
      assert.equal(56, #one, table.concat(one, "\n"))
      for _, threads in ipairs(counts) do
        local these = results(other .. "FLAME_THREADS=" .. threads)
        for i = 1, math.max(#one, #these) do
          assert.equal(one[i], these[i], threads .. " threads")
        end
      end
    end)
  end
end)
