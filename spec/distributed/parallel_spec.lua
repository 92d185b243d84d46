--- Tensor and sequence parallel layers (examples/tensor_parallel.lua), in 2 processes over MPI and
-- in 4 over TCP, compared with ordinary layers that each process computes as well.
require "spec.support.helper"
local ranks = require "spec.support.ranks"
local interpreter = dofile("spec/support/interpreter.lua")

-- Tolerances in TEXT: the values are f64 sums of at most 64 terms of about equal size, so they have
-- the errors of 64 roundings and a few more.
local TEXT = [=[
arg = nil
local parallel = dofile(os.getenv("TOP") .. "/examples/tensor_parallel.lua")
local nn = flame.nn
flame.seed(3)
local function case(name, f)
  local ok, why = pcall(f)
  print(("%s: %s."):format(name, ok and "good" or why))
end
local function pair(width) return nn.Linear(width, 2 * width), nn.Linear(2 * width, width) end

case("exact", function()
  local function whole_numbers(shape) return flame.randint(shape, -4, 4):float() end
  local up, down = pair(8)
  flame.no_grad(function()
    for _, layer in ipairs { up, down } do
      layer.weight:copy_(whole_numbers(layer.weight.shape))
      layer.bias:copy_(whole_numbers(layer.bias.shape))
    end
  end)
  local x = whole_numbers { 12, 8 }
  local y = down(up(x))
  assert(flame.equal(y, parallel.Row(down, "tensor")(parallel.Column(up, "tensor")(x))))
  local mine = parallel.Row(down, "sequence")(parallel.Column(up, "sequence")(parallel.part(x, 1)))
  assert(flame.equal(parallel.part(y, 1), mine))
end)

flame.default_dtype "f64"
local function near(name, want, x)
  local most = want:abs():max():item()
  assert((want - x):abs():max():item() <= 256 * 2.0 ^ -53 * most, name)
end
local norm, up, down = nn.LayerNorm(8), pair(8)
local x, g = flame.randn(12, 8, { requires_grad = true }), flame.randn(12, 8)
local y = x + down(up(norm(x)):gelu())
local total = (y * g):sum()
total:backward()
for _, form in ipairs { "tensor", "sequence" } do
  case(form, function()
    local function mine(t) return form == "sequence" and parallel.part(t, 1) or t end
    local twin = nn.LayerNorm(8)
    twin:load_state_dict(norm:state_dict())
    local net = parallel.Block(twin, up, down, form)
    local z = mine(x:detach()):clone():requires_grad_(true)
    local got = net(z)
    near("y", mine(y:detach()), got:detach())
    local loss = (got * mine(g)):sum()
    loss:backward()
    near("x", mine(x.grad), z.grad)
    if form == "sequence" then
      for _, p in ipairs(net:shared()) do p.grad = distributed.all_reduce(p.grad) end
    end
    near("up.weight", parallel.part(up.weight.grad, 1), net.up.weight.grad)
    near("up.bias", parallel.part(up.bias.grad, 1), net.up.bias.grad)
    near("down.weight", parallel.part(down.weight.grad, 2), net.down.weight.grad)
    near("down.bias", down.bias.grad, net.down.bias.grad)
    near("norm.weight", norm.weight.grad, twin.weight.grad)
    near("norm.bias", norm.bias.grad, twin.bias.grad)
  end)
end
case("odd", function() parallel.Column(nn.Linear(4, 4 * n + 1), "tensor") end)
]=]

describe("a column and a row parallel layer", function()
  local outs = {}
  setup(function()
    if ranks.there then outs[#outs + 1] = { n = 2, out = ranks.run(2, TEXT) } end
    outs[#outs + 1] = { n = 4, out = ranks.run(4, TEXT, { by = "tcp" }) }
  end)
  local function all_say(text)
    for _, o in ipairs(outs) do
      for k = 1, o.n do
        local piece = text:format(o.n, 4 * o.n + 1)
        assert.is_truthy(o.out[k]:find(piece, 1, true), ("%s: %s"):format(piece, o.out[k]))
      end
    end
  end
  it("have the bits of whole ones where sums are exact", function() all_say "exact: good." end)
  it("have the results and gradients of whole ones, in a block of a transformer", function()
    all_say "tensor: good."
  end)
  it("have them with the rows of norms and residuals shared out", function()
    all_say "sequence: good."
  end)
  it("refuse what the ranks cannot share", function() all_say "%d ranks cannot share %d." end)
end)

describe("examples/tensor_parallel.lua", function()
  it("trains by itself, and in both forms with two ranks to the same losses", function()
    local f <close> = io.popen("FLAME_DEVICE=cpu " .. interpreter
      .. " examples/tensor_parallel.lua --steps 10 2>&1")
    local alone = f:read("a")
    assert.is_truthy(alone:find("step 10: loss 1.", 1, true), alone)
    for _, form in ipairs { "tensor", "sequence" } do
      local out = ranks.run(2, ("arg = { [0] = 'tensor_parallel', '--steps', '10', '--form', '%s' }\n"
        .. "dofile(os.getenv('TOP') .. '/examples/tensor_parallel.lua')"):format(form),
        { by = "tcp", with = "FLAME_DEVICE=cpu FLAME_THREADS=1" })
      assert.same({ alone, "" }, { out[1], out[2] })
    end
  end)
end)
