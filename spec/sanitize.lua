-- A shrunken tour of every kind of step, for compute-sanitizer (tools/gpu-sanitize): small
-- shapes that no block size divides. Prints "done" when all ran and the numbers are finite.
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
