-- Layers that are too large for one GPU: processes (ranks) share the weights of linear layers.
-- Column parallel: each rank has some rows of the weight and computes some features. Row parallel:
-- each rank has some columns and reads some features. A column parallel layer and then a row
-- parallel one need a single sum over all ranks.
--   mpirun -n 2 flame-lua examples/tensor_parallel.lua [--form tensor|sequence] [--steps N] …
-- tensor: outside of such pairs all ranks have the same values. sequence: each rank has a part of
-- the rows there, so that norms, residuals and losses are shared as well. A single process trains
-- whole layers and prints the same losses except for rounding. Other programs can use the classes:
--   local parallel = dofile "examples/tensor_parallel.lua"
local flame = require "flame"
local nn, optim, data = require "flame.nn", require "flame.optim", require "flame.data"
local distributed = require "flame.distributed"
local rank, ranks = distributed.init()

local parallel = {}

-- ---- what goes between the ranks ---------------------------------------------------------------

-- Gives x, which all ranks have. Each computes other features from it: its gradients are added up.
local to_parts = flame.func {
  name = "to_parts",
  forward = function(_, x) return x:clone() end,
  backward = function(_, g) return distributed.all_reduce(g) end,
}
-- Gives the sum over all ranks of x. All of them continue with it, so its gradient is also that of
-- each summand.
local sum_of_parts = flame.func {
  name = "sum_of_parts",
  forward = function(_, x) return distributed.all_reduce(x) end,
  backward = function(_, g) return g end,
}

local forms = {
  tensor = { enter = to_parts, leave = sum_of_parts },
  -- gathers all rows, and shares them out again; both functions have gradients
  sequence = { enter = distributed.all_gather, leave = distributed.reduce_scatter },
}

--- This rank's part of x along an axis.
local function part(x, axis)
  local n = x:size(axis)
  if n % ranks ~= 0 then error(("%d ranks cannot share %d"):format(ranks, n), 3) end
  return x:narrow(axis, (rank - 1) * (n // ranks) + 1, n // ranks)
end

-- ---- layers ------------------------------------------------------------------------------------

--- Column parallel: computes this rank's part of the features of a linear layer. All ranks have the
--- same x, or in the form "sequence" each has a part of its rows.
local Column = nn.Module.extend("Column")
function Column:init(whole, form)
  self.weight = nn.Parameter(part(whole.weight:detach(), 1):clone())
  self.bias = nn.Parameter(part(whole.bias:detach(), 1):clone())
  self.enter = forms[form].enter
end
function Column:forward(x) return flame.linear(self.enter(x), self.weight, self.bias) end

--- Row parallel: a linear layer for an x of which each rank has a part of the features. The bias is
--- added once, after the sum over the ranks.
local Row = nn.Module.extend("Row")
function Row:init(whole, form)
  self.weight = nn.Parameter(part(whole.weight:detach(), 2):clone())
  self.bias = nn.Parameter(whole.bias:detach():clone())
  self.leave = forms[form].leave
end
function Row:forward(x) return self.leave(flame.linear(x, self.weight)) + self.bias end

--- The feed-forward block of a transformer, x + down(gelu(up(norm(x)))), made from whole layers
--- that are equal on all ranks. shared(): the parameters that all ranks have; in the form
--- "sequence" each rank has only a part of their gradient, so these are added up before a step.
local Block = nn.Module.extend("Block")
function Block:init(norm, up, down, form)
  self.norm, self.up, self.down = norm, Column(up, form), Row(down, form)
end
function Block:forward(x) return x + self.down(self.up(self.norm(x)):gelu()) end
function Block:shared() return { self.norm.weight, self.norm.bias, self.down.bias } end

parallel.Column, parallel.Row, parallel.Block, parallel.part = Column, Row, Block, part

-- ---- training ----------------------------------------------------------------------------------

if not arg or not tostring(arg[0]):find("tensor_parallel", 1, true) then return parallel end

local options = data.options(arg, {
  { "form", "tensor", "tensor or sequence" },
  { "width", 64, "features" },
  { "rows", 32, "of a batch" },
  { "steps", 20, "training steps" },
  { "rate", 0.5, "learning rate" },
})
if not forms[options.form] then error("--form is tensor or sequence", 0) end
flame.default_device(flame.best_device())
flame.seed(1)                                            -- equal layers and data on all ranks
local width, sequence = options.width, options.form == "sequence"
local net = Block(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width),
  options.form)
local x, y = flame.randn(options.rows, width), flame.randn(options.rows, width)
local opt = optim.SGD(net:parameters(), { lr = options.rate })

for step = 1, options.steps do
  local mine, wanted = x, y
  if sequence then mine, wanted = part(x, 1), part(y, 1) end
  opt:zero_grad()
  local loss = ((net(mine) - wanted) ^ 2):sum() / y:numel()
  loss:backward()
  if sequence then
    for _, p in ipairs(net:shared()) do p.grad = distributed.all_reduce(p.grad) end
    loss = distributed.all_reduce(loss:detach())
  end
  opt:step()
  if rank == 1 and (step == 1 or step % 10 == 0) then
    print(("step %d: loss %.4f"):format(step, loss:item()))
  end
end
