-- Products of few tiles and many terms on a GPU, divided along the terms (src/cuda/library/long.c)
-- and not: the fake driver counts products, and the GPU that computes has their values.
local machine = require "spec.support.machine"
local has_gxx <const> = os.execute "g++ --version >/dev/null 2>&1"
local folder
setup(function() folder = machine.new() end)
teardown(function() machine.remove(folder) end)

describe("a product of many terms that is divided", function()
  local function run(script, environment)
    return machine.run(folder, script, ("FAKE_CUDA=\"computes=2\" FLAME_CACHE_DIR=%s/cache "
      .. "TMPDIR=%s %s"):format(folder, folder, environment))
  end
  local function case(name, script)
    it("has the value " .. name, has_gxx and function()
      script = "local worst = function(y, want) local y, want = y:double():to 'cpu', want "
        .. "return ((y - want):abs():max() / want:abs():max()):item() end\n" .. script
      for _, on in ipairs { 0, 1 } do
        for _, replay in ipairs { 0, 2 } do
          local text = run(script:gsub("'", "\""),
            ("FLAME_TEST_LONG=%d FLAME_REPLAY=%d"):format(on, replay))
          assert.is_true(tonumber(text) < 1e-5, text)
        end
      end
    end or function() pending "no g++" end)
  end
  case("of f32, with terms that are left", [[
local a, b = flame.randn(20, 9001), flame.randn(9001, 70)
local y = a:matmul(b)
flame.eval(y)
print(worst(y, a:to("cpu"):double():matmul(b:to("cpu"):double())))]])
  case("of f64, transposed", [[
local a, b = flame.randn(8192, 3, { dtype = "f64" }), flame.randn(65, 8192, { dtype = "f64" })
local y = a:t():matmul(b:t())
flame.eval(y)
print(worst(y, a:to("cpu"):t():matmul(b:to("cpu"):t())))]])
  case("of a part of two arrays, read by more", [[
local a, b = flame.randn(40, 9000), flame.randn(9000, 40)
local x, z = a[{ { 3, 33 }, { 5, 8500 } }], b[{ { 5, 8500 }, { 2, 30 } }]
local y = x:matmul(z) * 2 + 1
flame.eval(y)
print(worst(y, x:to("cpu"):double():matmul(z:to("cpu"):double()) * 2 + 1))]])

  it("has its bits in every plan, and other products keep theirs", has_gxx and function()
    local script <const> = [[
flame.seed(1)
local a, b = flame.randn(16, 20000), flame.randn(20000, 16)
local c, d = flame.randn(300, 400), flame.randn(400, 300)
local y, z = a:matmul(b), c:matmul(d)
print(string.format("%a", (y * y):sum():item()), string.format("%a", (z * z):sum():item()))]]
    local on = run(script, "FLAME_TEST_LONG=1")
    assert.equal(on, run(script, "FLAME_TEST_LONG=1 FLAME_EAGER=1"))
    assert.equal(on:match "%s(%S+)%s*$", run(script, "FLAME_TEST_LONG=0"):match "%s(%S+)%s*$")
  end or function() pending "no g++" end)

  it("has one launch more, which adds the chunks; others have none", function()
    local function products(k, on)
      local function of(n)
        local text = machine.run(folder, ([[
local a, b = flame.randn(64, %d), flame.randn(%d, 64)
for _ = 1, %d do flame.eval(a:matmul(b)) end]]):format(k, k, n),
          "FAKE_CUDA=\"idle=1 tell=2\" FLAME_REPLAY=0 FLAME_TEST_LONG=" .. on)
        return tonumber(text:match "(%d+) LaunchKernel\n")
      end
      return of(4) - of(3)
    end
    assert.same({ 0, 1, 0 }, { products(65536, 0), products(65536, 1), products(4096, 1) })
  end)
end)
