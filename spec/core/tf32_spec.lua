-- flame.tf32: products of f32 that round their operands, on the GPU that computes on the CPU.
local machine = require "spec.support.machine"
local has_gxx <const> = os.execute "g++ --version >/dev/null 2>&1"

describe("flame.tf32", function()
  it("gives what is set, and is off", function()
    assert.is_false(flame.tf32())
    assert.is_true(flame.tf32(true))
    assert.is_true(flame.tf32())
    assert.is_false(flame.tf32(false))
  end)

  it("holds within a function alone, also where that raises", function()
    assert.same({ true, 7 }, { flame.tf32(true, function(n) return flame.tf32(), n end, 7) })
    assert.is_false(flame.tf32())
    assert.is_false(pcall(flame.tf32, true, error))
    assert.is_false(flame.tf32())
    flame.tf32(true, function() flame.tf32(false, function() assert.is_false(flame.tf32()) end) end)
  end)

  it("leaves the bits of a CPU's products", function()
    local x = flame.randn(70, 300, { device = "cpu" })
    local y = x:matmul(x:t())
    assert.is_true(flame.equal(y, flame.tf32(true, function() return x:matmul(x:t()) end)))
  end)

  describe("on a GPU", function()
    local folder
    setup(function() folder = machine.new() end)
    teardown(function() machine.remove(folder) end)
    --- What a script prints, with x of 300 columns, product(), and how many bits its operands had.
    local function run(script, environment)
      return (machine.run(folder, [[
local x = flame.full({ 300, 300 }, 1 + 2^-12):to "cuda"
local w = flame.ones(300, 20, { device = "cuda" }):requires_grad_()
flame.eval(x, w)
local function bits(y) return y[1][1]:item() == 300 and 11 or 24 end
]] .. script, ("FAKE_CUDA=\"computes=2\" FLAME_CACHE_DIR=%s/cache TMPDIR=%s %s"):format(folder,
        folder, environment or "")):gsub("%s+$", ""))
    end
    local function case(name, script, expected, environment)
      it(name, has_gxx and function() assert.equal(expected, run(script, environment)) end
        or function() pending "no g++" end)
    end

    case("is a part of a product, not of the moment at which that is computed", [[
local a = x:matmul(w)
local b = flame.tf32(true, function() return x:matmul(w) end)
print(bits(a), bits(b), bits(x:matmul(w)))]], "24\t11\t24")
    case("changes no plan and no graph that was made", [[
for i = 1, 12 do
  flame.tf32(i % 3 == 0)
  io.write(bits(x:matmul(w):relu():matmul(flame.ones(20, 300)) / 20), " ")
end]], ("24 24 11 "):rep(4):sub(1, -2))
    case("is that of backward for gradients", [[
x:matmul(w):sum():backward()
io.write(w.grad[1][1]:item() == 300 and 11 or 24, " ")
w.grad = nil
local y = x:matmul(w):sum()
flame.tf32(true, function() y:backward() end)
print(w.grad[1][1]:item() == 300 and 11 or 24)]], "24 11")
    case("leaves f64 and small products", [[
flame.tf32(true)
print(bits(x:double():matmul(w:double())), bits(x[{{}, {1, 200}}]:matmul(w[{{1, 200}}]) * 1.5))]],
      "24\t24")
    case("is on by FLAME_TF32=1", "print(flame.tf32(), bits(x:matmul(w)))", "true\t11",
      "FLAME_TF32=1")
  end)
end)
