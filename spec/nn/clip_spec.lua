-- optim.clip_grad_norm on a GPU: the norm of up to 96 gradients is one launch (kernels/power.cu),
-- and the scaling of those of one dtype another. Counted on the fake driver; values are those of
-- the GPU that computes on the CPU, compared with plain Lua.
local machine = require "spec.support.machine"
local has_gxx <const> = os.execute "g++ --version >/dev/null 2>&1"

local make <const> = [[
local optim = require "flame.optim"
local function make(n, sizes, dtypes)
  local params = {}
  for i = 1, n do
    local p = flame.zeros(sizes[i % #sizes + 1], { dtype = dtypes[i % #dtypes + 1], device = "cuda" })
    if i % 5 > 0 or n < 5 then
      p.grad = (flame.arange(1.0, p:numel()):reshape(p.shape) * 0.37 * i):sin():to("cuda"):to(p.dtype)
    end
    params[i] = p:requires_grad_()
  end
  flame.eval()
  return params
end
]]

describe("clip_grad_norm on a GPU", function()
  local folder
  setup(function() folder = machine.new() end)
  teardown(function() machine.remove(folder) end)

  --- How many launches the third of three calls is, for these numbers of parameters.
  local function launches(options, dtypes)
    return (machine.run(folder, make .. ([[
for _, n in ipairs { 1, 3, 10, 96, 148, 300 } do
  local params = make(n, { { 7, 16 }, { 300 }, { 64, 64 } }, { %s })
  local norm
  for k = 1, 3 do
    flame.stats "reset"
    norm = optim.clip_grad_norm(params, 1, { %s })
    flame.eval()
  end
  io.write(flame.stats().launches, " ")
end]]):format(dtypes or [["f32"]], options), "FAKE_CUDA=\"idle=1\""):gsub("%s+$", ""))
  end

  it("is two launches, and one more for each further 95 gradients", function()
    -- four in five parameters have a gradient, of 10 and more: 118 of 148, 240 of 300
    for _, options in ipairs { "", "norm_type = 1", "norm_type = math.huge" } do
      assert.equal("2 2 2 2 3 4", launches(options))
    end
  end)
  it("is one launch more for each further dtype", function()
    assert.equal("2 3 3 3 4 5", launches("", [["bf16", "f32"]]))
  end)

  --- Bounds the relative errors of the norm and of the scaled gradients.
  local function case(name, n, sizes, dtypes, within)
    it("has the values for " .. name, has_gxx and function()
      for _, p in ipairs { "1", "2", "math.huge" } do
        local text = machine.run(folder, make .. ([[
local params, p = make(%d, { %s }, { %s }), %s
local sum, before = 0, {}
for i, x in ipairs(params) do
  before[i] = x.grad and x.grad:double():reshape(-1):totable()
  for _, v in ipairs(before[i] or {}) do
    sum = p == math.huge and math.max(sum, math.abs(v)) or sum + math.abs(v) ^ p
  end
end
local want = p == math.huge and sum or sum ^ (1 / p)
local norm = optim.clip_grad_norm(params, want / 4, p)
local worst = want == 0 and math.abs(norm:item()) or math.abs(norm:item() - want) / want
for i, x in ipairs(params) do
  local after = x.grad and x.grad:double():reshape(-1):totable() or {}
  for j = 1, #after, 97 do
    worst = math.max(worst, math.abs(after[j] - before[i][j] / 4) - math.abs(after[j]) * %s)
  end
end
print(norm.dtype, worst)]]):format(n, sizes, dtypes, p, within),
          ("FAKE_CUDA=\"computes=2\" FLAME_CACHE_DIR=%s/cache TMPDIR=%s"):format(folder, folder))
        local dtype, worst = text:match "^(f%d+)%s+(%S+)"
        assert.equal(dtypes:find "f64" and "f64" or "f32", dtype)
        assert.is_true(tonumber(worst) < 2e-6, text)
      end
    end or function() pending "no g++" end)
  end
  case("one gradient", 1, "{ 3 }, { 5 }", [["f32"]], "1e-6")
  case("one of several chunks", 1, "{ 3 }, { 2, 32769 }", [["f32"]], "1e-6")
  case("half types and f32", 9, "{ 7 }, { 33, 3 }, { 1 }, { 0, 4 }", [["f16", "bf16", "f32"]],
    "0.01")
  case("f64 among others", 6, "{ 7 }, { 300 }", [["f64", "f32"]], "1e-6")
  case("more than a call takes", 130, "{ 7 }, { 3, 2 }, { 1025 }", [["f32"]], "1e-6")
  case("arrays without elements alone", 2, "{ 0 }", [["f32"]], "1e-6")

  it("has the bits of each op by itself, and those of a graph", has_gxx and function()
    local function bits(environment)
      return machine.run(folder, make .. [[
local params = make(110, { { 70 }, { 33000 }, { 3 } }, { "f32", "bf16" })
for _ = 1, 5 do
  for _, p in ipairs { 2, 1, math.huge } do
    io.write(string.format("%a ", optim.clip_grad_norm(params, 0.7, p):item()))
  end
end
print(string.format("%a", params[1].grad:double():sum():item()))]],
        ("FAKE_CUDA=\"computes=2\" FLAME_CACHE_DIR=%s/cache TMPDIR=%s %s"):format(folder, folder,
          environment))
    end
    local plain = bits ""
    for _, environment in ipairs { "FLAME_EAGER=1", "FLAME_REPLAY=2", "FLAME_REPLAY=0" } do
      assert.equal(plain, bits(environment))
    end
  end or function() pending "no g++" end)

  it("keeps NaN and infinities", has_gxx and function()
    for value, want in pairs { ["0/0"] = "nan", ["math.huge"] = "inf" } do
      local text = machine.run(folder, make .. ([[
for _, p in ipairs { 1, 2, math.huge } do
  local params = make(4, { { 40 }, { 33000 } }, { "f32", "bf16" })
  params[3].grad[17] = %s
  io.write((tostring(optim.clip_grad_norm(params, 1, p):item()):gsub("-", "")), " ")
  local fine = pcall(optim.clip_grad_norm, params, 1, p, { error_if_nonfinite = true })
  assert(not fine)
end]]):format(value), ("FAKE_CUDA=\"computes=2\" FLAME_CACHE_DIR=%s/cache TMPDIR=%s"):format(
          folder, folder))
      assert.equal((want .. " "):rep(3), text)
    end
  end or function() pending "no g++" end)
end)

describe("the sum of several arrays' powers", function()
  it("is computed by a CPU as well, where a program for a GPU runs there", function()
    local x, y = flame.tensor({ 3, -4 }, { device = "cpu" }),
      flame.tensor({ -12 }, { device = "cpu", dtype = "bf16" })
    local function sum(list, ...)
      return flame.internal.call("power_sum", "power_sum", list, { ... }, {}, "f32"):item()
    end
    assert.equal(13, sum({ x, y }, 0, 0, 1))
    assert.equal(169, sum({ x, y }, 0, 0, 0))
    assert.equal(19, sum({ x, y }, 1, 0, 0))
    assert.equal(12, sum({ x, y }, 2, 0, 0))
    assert.equal(169, sum({ flame.tensor({ 25 }, { device = "cpu" }), y }, 0, 1, 0))
  end)
end)
