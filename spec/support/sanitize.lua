-- Runs every kind of kernel, with small shapes that no block size divides, for compute-sanitizer
-- (tools/gpu-sanitize), which checks accesses to memory. Prints "done" if no result has a NaN.
local flame = require "flame"
local nn, optim = require "flame.nn", require "flame.optim"
flame.default_device(arg and arg[1] or "cuda")
flame.seed(5)

local function read(x) assert(flame.allclose(x, x), "NaN") return x:sum():item() end
for _, dtype in ipairs { "f32", "bf16", "f64" } do
  local x, y = flame.randn(7, 33):to(dtype), flame.randn(7, 1):to(dtype)
  read((x * y + 1):relu():tanh())
  read(x:t():exp())
  read(x[{ {}, { -1, 1, -2 } }] * 2)
  read(x:softmax(2)) read(x:log_softmax(1)) read(x:layer_norm({ 33 }))
  read(x:sum(1)) read(x:sum(2)) read(x:amax(2))
  read(flame.cat({ x, x * 2 }, 1)) read(x:pad({ 1, 2 }))
  read(x:matmul(flame.randn(33, 5):to(dtype)))
end
for _, n in ipairs { 1, 2, 65, 257, 1000, 5000, 40000, 70001 } do
  read(flame.randn(3, n):softmax(2))
  read(flame.randn(n, 3):sum(1))
  read(flame.rand(n):sum())
end
read(flame.arange(50):eq(7):sum())
local w = flame.randn(9, 5, { requires_grad = true })
local ids = flame.randint({ 31 }, 1, 9)
flame.embedding(ids, w):square():sum():backward()
read(w.grad)
read(flame.zeros(9):index_add(1, ids, flame.ones(31)))
read(flame.randn(9, 5):gather(2, flame.randint({ 9, 4 }, 1, 5)))
local z = flame.zeros(6, 6)
z[{ { 2, 4 }, { 1, 5 } }] = flame.ones(3, 5)
read(z)

-- A kernel must not read from a tensor without elements: a position in one raises an error, after
-- which the device remains usable.
local function none(...) return flame.zeros({ ... }) end
local function at(...) return flame.ones({ ... }, { dtype = "i64" }) end
local function look(x) flame.eval(x) x:totable() end
for _, dtype in ipairs { "f32", "bf16", "f64", "i32" } do
  for _, shape in ipairs { { 0 }, { 3, 0 }, { 0, 3 }, { 2, 0, 3 } } do
    local a, b = none(table.unpack(shape)):to(dtype), none(table.unpack(shape)):to(dtype)
    flame.eval(a, b)
    look((a * b):sum()) look((a * b + 1):prod()) look((a * b):gt(0):any())
    for d = 1, #shape do
      local y = a * 2
      local s = (y * b):sum(d)
      flame.eval(y, s)
      look(s + 1)
      look(a:cumsum(d))
      look((a:sort(d)))
      look(a:flip(d))
      look(flame.cat({ a, b }, d))
      look((a:topk(0, d)))
      look(a:index_select(d, at(0)))
      look(a:gather(d, at(0)))
      look(a:index_add(d, at(0), a:narrow(d, 1, 0)))
      if shape[d] == 0 then
        assert(not pcall(function() look(a:index_select(d, at(2))) end))
        local one = { table.unpack(shape) }
        one[d] = 2
        assert(not pcall(function() look(a:index_add(d, at(2), flame.ones(one):to(dtype))) end))
        assert(not pcall(function() a:index_copy_(d, at(2), flame.ones(one):to(dtype)) look(a) end))
      end
    end
  end
end
for _, v in ipairs { none(0, 4), none(3, 0) } do
  v:requires_grad_()
  flame.embedding(at(0, 2), v):square():sum():backward()
  look(v.grad)
  look(v:matmul(v:t())) look(v:t():matmul(v)) look(v:softmax(2)) look(v:layer_norm({ v.shape[2] }))
end
assert(not pcall(function() look(flame.embedding(at(5), none(0, 4))) end))
assert(not pcall(function() look(flame.embedding_bag(at(5, 1), none(0, 4))) end))
for _, x in ipairs { none(0, 2, 6, 6), none(1, 0, 6, 6) } do
  x:requires_grad_()
  for _, f in ipairs { function(v) return v:max_pool2d(2) end,
    function(v) return v:avg_pool2d(2) end,
    function(v) return v:adaptive_avg_pool2d(3) end, function(v) return v:unfold(3, 2, 2) end,
    function(v) return flame.im2col(v, { kernel_size = 2 }) end,
    function(v) return flame.interpolate(v, { size = { 3, 3 } }) end,
    function(v) return flame.conv2d(v, flame.zeros(3, v.shape[2], 3, 3)) end,
    function(v) return flame.rfft(v) end,
    function(v) return v:batch_norm(flame.zeros(v.shape[2]), flame.ones(v.shape[2])) end } do
    local ok, y = pcall(f, x)
    if ok then look(y) y:square():sum():backward() look(x.grad) end
  end
end
for _, shape in ipairs { { 0, 0 }, { 0, 3, 3 }, { 2, 0, 0 } } do
  local x = none(table.unpack(shape))
  x:requires_grad_()
  look(x:det())
  look(x:inverse())
  look((x:slogdet()))
  look((x:qr()))
  look((x:svd()))
  look((flame.linalg.eigh(x)))
  x:det():sum():backward()
  look(x.grad)
end
look(flame.searchsorted(none(0), none(3))) look(flame.bincount(at(0))) look(flame.one_hot(at(0), 3))
look(flame.multinomial(none(0, 3), 1))
look(none(0, 3):masked_select(none(0, 3):gt(0)))
look(none(0):nonzero())
flame.synchronize()

local Net = nn.Module.extend("Net")
function Net:init()
  self.token = nn.Embedding(11, 12)
  self.norm = nn.LayerNorm(12)
  self.attention = nn.CausalSelfAttention(12, 3, { dropout = 0.1 })
  self.head = nn.Linear(12, 11)
end
function Net:forward(x)
  local h = self.token(x)
  return self.head(h + self.attention(self.norm(h)))
end
local net = Net()
local opt = optim.AdamW(net:parameters(), { lr = 1e-2 })
for _ = 1, 2 do
  local x = flame.randint({ 3, 7 }, 1, 11)
  local loss = flame.cross_entropy(net(x):reshape(-1, 11), x:reshape(-1))
  opt:zero_grad()
  loss:backward()
  optim.clip_grad_norm(net:parameters(), 1)
  opt:step()
  read(loss)
end
print("done")
