--- A kernel that stores an integer in a result, and reads at that integer: its adjoint reads the
--- result as the launch has left it, in place of what found it (src/kernel/ad/results.c), or finds
--- it again where that is not proven to be the same. Runs on the default device.
local flame = require "flame"
local machine = dofile "spec/support/machine.lua"
local run_kinds = dofile "spec/kernel/results_kinds.lua"
local has_gxx = os.execute "g++ --version >/dev/null 2>&1"

local n <const>, columns <const> = 6, 5

--- A kernel in which thread i has the row x + i * columns, and stores y[i] and at[…].
local function kernel(body, options)
  options = options or {}
  options.source = ([[
__global__ void k(const double *x, double *y, %s *at, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const double *row = x + i * %d;
  double best = -1e30;
  int p = 0;
%s
}]]):format(options.integer or "int", columns, body)
  options.integer = nil
  options.shape = options.shape or { { n }, { n } }
  options.block, options.grid = { 4 }, { 2 }
  return flame.kernel(options)
end

local search <const> = "for (int c = 0; c < " .. columns ..
  "; c++) if (row[c] > best) { best = row[c]; p = c; }\n"

--- Does the adjoint read what the launch has stored in at?
local function reads(k) return k:source("adjoint"):find("= [^\n]*at%[") ~= nil end
local function loops(k)
  return select(2, k:source("adjoint"):match("_vjp%(.*"):gsub("\n%s*for %(", ""))
end

--- Checks the gradient of x, by differences, for some x without ties.
local function check(k, ...)
  for _ = 1, 3 do
    local x = (flame.randperm(n * columns, { dtype = "f64" }) * 0.37 - 3):view(n, columns)
    local more = table.pack(...)
    assert.is_true(flame.gradcheck(function(v)
      return (k(v, n, table.unpack(more, 1, more.n)))
    end, { x }, { order = 2 }))
  end
end

describe("a position that is a result", function()
  for name, body in pairs {
    ["stored after it is read"] = search .. "y[i] = row[p] * row[p]; at[i] = p;",
    ["stored before"] = search .. "at[i] = p; y[i] = row[p] * row[p];",
    ["stored between"] = search .. "double v = row[p]; at[i] = p; y[i] = v * row[p];",
    ["read in a branch"] = search .. "at[i] = p; y[i] = 0; if (i > 1) y[i] = row[p] * row[p];",
    ["read in a loop"] = search ..
      "at[i] = p; double s = 0; for (int j = 0; j < 3; j++) s += row[p] * row[j]; y[i] = s;",
    ["in a part of an index"] = search .. "at[i] = p; y[i] = x[(n - 1 - i) * 5 + p] * 2;",
    ["in a branch with its uses"] = search .. "y[i] = 0; if (i % 2) { y[i] = row[p]; at[i] = p; }",
  } do
    it("is not searched again: " .. name, function()
      local k = kernel(body)
      check(k)
      assert.is_true(reads(k))
    end)
  end

  it("is not searched again, whatever the integer", function()
    for _, integer in ipairs { "int", "long long" } do
      local k = kernel(search .. "y[i] = row[p] * row[p]; at[i] = p;", { integer = integer })
      check(k)
      assert.is_true(reads(k), integer)
      assert.equal(0, loops(k))
    end
  end)

  it("is not searched again by any round of a loop", function()
    local k = kernel([[
      unsigned taken = 0;
      for (int j = 0; j < 3; j++) {
        best = -1e30;
        for (int c = 0; c < 5; c++)
          if (!(taken >> c & 1) && row[c] > best) { best = row[c]; p = c; }
        taken |= 1u << p;
        y[i * 3 + j] = row[p] * row[p];
        at[i * 3 + j] = p;
      }]], { shape = { { n, 3 }, { n, 3 } } })
    check(k)
    assert.is_true(reads(k))
    assert.is_true(loops(k) <= 2)                   -- rounds are counted, and gone through
  end)

  it("is that of a block too, which one thread stores", function()
    local k = flame.kernel { block = { 8 }, grid = { n }, shape = { n }, source = [=[
__global__ void k(const double *x, double *y, int *at, int n) {
  __shared__ double best[8];
  __shared__ int place[8];
  int t = threadIdx.x;
  best[t] = t < 5 ? x[blockIdx.x * 5 + t] : -1e30;
  place[t] = t;
  __syncthreads();
  for (int half = 4; half > 0; half /= 2) {
    if (t < half && best[t + half] > best[t]) { best[t] = best[t + half]; place[t] = place[t + half]; }
    __syncthreads();
  }
  if (t == 0) { y[blockIdx.x] = x[blockIdx.x * 5 + place[0]]; at[blockIdx.x] = place[0]; }
}]=] }
    check(k)
    assert.is_true(reads(k))
    assert.is_nil(k:source("adjoint"):match("_vjp%(.*"):find("__shared__", 1, true))
  end)

  it("may be where the gradient of what is written is", function()
    local k = kernel(search .. "y[i * 5 + p] = row[0] * row[1]; at[i] = p;",
      { shape = { { n, columns }, { n } } })
    local x = (flame.randperm(n * columns, { dtype = "f64" }) * 0.37 - 3):view(n, columns)
    x:requires_grad_(true)
    local y, at = k(x, n)
    local w = flame.randn({ n, columns }, { dtype = "f64" })
    local loss = (y * w):sum()
    loss:backward()
    local g = w:gather(2, at:view(n, 1):to("i64") + 1)
    local expected = flame.cat({ g * x:narrow(2, 2, 1), g * x:narrow(2, 1, 1),
      flame.zeros({ n, columns - 2 }, { dtype = "f64" }) }, 2)
    assert.is_true(flame.allclose(expected, x.grad))
    assert.is_true(reads(k))
  end)
end)

describe("a position that is stored", function()
  --- In each of these the result does not hold the position that was read at, or it is not proven.
  for name, body in pairs {
    ["written over"] = search .. "at[i] = p; y[i] = row[p] * row[p]; at[i] = 7;",
    ["written over by another thread"] = search ..
      "at[i] = p; y[i] = row[p] * row[p]; at[n - 1 - i] = 7;",
    ["written over in a loop"] = search ..
      "for (int j = 0; j < 3; j++) { at[i] = (p + j) % 5; } y[i] = row[p] * row[p];",
    ["one for several rounds"] = "double s = 0; for (int j = 0; j < 5; j++) { " ..
      "p = (p + j * i) % 5; at[i] = p; s += row[p] * row[p]; } y[i] = s;",
    ["changed before it is read"] = search .. "at[i] = p; p = 4 - p; y[i] = row[p] * row[p];",
    ["changed after it is read"] = search ..
      "y[i] = row[p] * row[p]; p = 4 - p; at[i] = p;",
    ["changed in a branch"] = search ..
      "at[i] = p; if (i % 2) p = 4 - p; y[i] = row[p] * row[p];",
    ["stored in a branch"] = search .. "if (i % 2) at[i] = p; y[i] = row[p] * row[p];",
    ["stored in the other branch"] = search ..
      "if (i % 2) at[i] = p; else y[i] = row[p] * row[p]; if (i % 2) y[i] = row[p];",
    ["stored where few come"] = search ..
      "y[i] = row[p] * row[p]; if (i == 3) return; at[i] = p;",
    ["stored at an element that changes"] = search ..
      "int e = i; at[e] = p; e = n - 1 - i; y[i] = row[p] * row[p]; at[e] = 7;",
    ["added to"] = search .. "at[i] = p; at[i] += 1; y[i] = row[p] * row[p];",
    ["cut"] = search .. "p += 256; at[i] = (signed char)p; y[i] = x[(p - 256) + 5 * i] * row[0];",
  } do
    it("is not taken for the one that was read at: " .. name, function() check(kernel(body)) end)
  end

  it("is not taken for a value of another width", function()
    local k = kernel(search ..
      "p += 256 * i; y[i] = x[p - 256 * i + 5 * i] * x[p - 256 * i]; at[i] = p;",
      { integer = "signed char" })
    check(k)
  end)

  it("is that of the launch, not of what is given", function()
    local k = flame.kernel { inout = { "at" }, block = { 4 }, grid = { 2 }, shape = { n }, source = [=[
__global__ void k(const double *x, double *y, int *at, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int p = 0;
  for (int c = 1; c < 5; c++) if (x[5 * i + c] > x[5 * i + p]) p = c;
  y[i] = x[5 * i + p] * x[5 * i + p] + at[i];
  at[i] = p;
}]=] }
    local x = (flame.randperm(n * columns, { dtype = "f64" }) * 0.37 - 3):view(n, columns)
    assert.is_true(flame.gradcheck(function(v)
      return (k(v, flame.full({ n }, 3, { dtype = "i32" }), n))
    end, { x }))
  end)
end)

describe("a position that is stored and read by chance", function()
  --- Random statements that store the position, read at it and change it, in branches and loops.
  local function statements(draw, depth)
    local indices <const> = { "i", "i", "i", "i", "i", "i", "i", "n - 1 - i", "i / 2 * 2",
      "(i + 1) % n", "e" }
    local kinds <const> = { "at[%s] = p;", "s += row[p] * row[p];", "w = row[p]; s += w * w;",
      "s += row[4 - p] * row[0];", "s += row[p] * row[1];",
      "w = row[p] * row[(p + 2) % 5]; s -= w;",
      "s *= row[p];", "p = (p + 1 + i) % 5;", "p = q;", "q = p;", "e = %s;", "__syncthreads();",
      "if", "if", "for" }
    local list = {}
    for _ = 1, draw(1, 4) do
      local kind = kinds[draw(#kinds)]
      if kind == "if" or kind == "for" then
        local head = kind == "for" and "for (int j = 0; j < 2; j++) {"
          or ({ "if (i % 2) {", "if (row[0] > 0) {", "if (p > 1) {" })[draw(3)]
        local function inside(at) return (statements(draw, at):gsub("__syncthreads%(%);", "")) end
        kind = head .. (depth < 2 and inside(depth + 1) or "") .. "}" ..
          (draw(3) == 1 and kind == "if" and " else {" .. inside(2) .. "}" or "")
      end
      list[#list + 1] = (kind:gsub("%%s", function() return indices[draw(#indices)] end))
    end
    return table.concat(list, " ")
  end

  --- Forward mode shares nothing with what is proven here.
  it("gives the gradient of what it was where it was read", function()
    local seed <const> = tonumber(os.getenv "FLAME_FUZZ_SEED") or 1
    local read = 0
    for round = 1, tonumber(os.getenv "FLAME_FUZZ_ROUNDS") or 120 do
      local state = seed * 100000 + round
      local function draw(a, b)
        state = (state * 6364136223846793005 + 1442695040888963407)
        if not b then a, b = 1, a end
        return a + (state >> 33) % (b - a + 1)
      end
      local again = draw(3) == 1 and search .. statements(draw, 0) or ""
      local body = "double s = 0, w = 0; int q = 3, e = i;" .. search .. statements(draw, 0) ..
        "s += row[p]; at[i] = p;" .. statements(draw, 1) .. again .. " y[i] += s;"
      local k = kernel(body, { inout = { "y" }, shape = { n } })
      local x = (flame.randperm(n * columns, { dtype = "f64" }) * 0.37 - 3):view(n, columns)
      local function f(v) return (k(v, flame.zeros({ n }, { dtype = "f64" }), n)) end
      local u = flame.randn({ n, columns }, { dtype = "f64" })
      local w = flame.randn({ n }, { dtype = "f64" })
      local _, tangent = flame.jvp(f, x, u)
      local v = x:clone():requires_grad_(true)
      f(v):backward(w)
      local along, expected = v.grad * u, (tangent * w):sum():item()
      assert.near(expected, along:sum():item(), 1e-9 * (1 + along:abs():sum():item()), body)
      if reads(k) then read = read + 1 end
    end
    assert.is_true(read > 10, read)
  end)
end)

describe("a result that an adjoint reads", function()
  local k = kernel(search .. "y[i] = row[p] * row[p]; at[i] = p;")
  local function greatest(x) return 2 * x:max(2):view(-1) end

  it("may be written by the script afterwards", function()
    local x = flame.randn({ n, columns }, { dtype = "f64", requires_grad = true })
    local y, at = k(x, n)
    at:fill_(3)
    y:sum():backward()
    local m, where = x:detach():max(2)
    assert.is_true(flame.allclose(2 * m:view(n), x.grad:gather(2, where:view(n, 1)):view(n)))
    assert.near(greatest(x:detach()):sum():item(), x.grad:sum():item(), 1e-9)
  end)

  it("is there in each of a batch, and in each replay", function()
    local x = flame.randn({ 3, n, columns }, { dtype = "f64", requires_grad = true })
    local each = flame.vmap(function(v) return (k(v, n)) end)
    each(x):sum():backward()
    assert.is_true(flame.allclose(greatest(x:detach():view(3 * n, columns)),
      x.grad:sum(3):view(-1)))
    for _ = 1, 5 do
      local v = flame.randn({ n, columns }, { dtype = "f64", requires_grad = true })
      k(v, n):sum():backward()
      assert.is_true(flame.allclose(greatest(v:detach()), v.grad:sum(2)))
    end
  end)
end)

describe("a position of a result", function()
  local compared <const> = 19
  it("is read whatever the numbers are, and what becomes of the results", function()
    assert.equal(compared, run_kinds(flame))
  end)

  it("is so on a GPU", has_gxx and function()
    local folder = machine.new()
    local said = machine.run(folder,
      "print(dofile(\"spec/kernel/results_kinds.lua\")(require \"flame\"))",
      "FAKE_CUDA=\"computes=1 seed=3\"")
    machine.remove(folder)
    assert.equal(compared .. "\n", said)
  end or function() pending "no g++" end)
end)

describe("an element that one thread of a block stores in a loop", function()
  for at, rounds in pairs { ["b * 4 + j"] = true, ["b * 4 + 3 - j"] = true,
                            ["b * 4 + j / 2"] = false,
                            ["b * 4"] = false, ["b * 4 + (j & 1)"] = false } do
    it("gives its gradient to the last of these stores alone: y[" .. at .. "]", function()
      local k = flame.kernel { block = { 8 }, grid = { 2 }, shape = { 8 }, source = [[
__global__ void k(const double *x, double *y) {
  int b = blockIdx.x;
  if (threadIdx.x == 0) for (int j = 0; j < 4; j++) y[]] .. at .. [[] = x[4 * b + j] * x[7 - j];
}]] }
      assert.is_true(flame.gradcheck(k, { flame.randn({ 8 }, { dtype = "f64" }) }, { order = 2 }))
      --- One round in which it is certain needs no copy of the cotangent.
      local given <const> = "const double *__restrict__ grad_y"
      assert.equal(rounds, k:source("adjoint"):find(given, 1, true) ~= nil)
    end)
  end
end)
