--- What kernel_ordered_spec.lua runs, on a GPU or on one that the fake driver computes: sums of
--- gradients in the default mode must be the same bits whatever ran before. Returns a function that
--- runs a part by its name, and returns "good" or what is wrong, then a hash of all bits.
local flame = require "flame"
local few <const>, many <const> = 40, 262145            -- elements of an array
local pick = flame.kernel { source = [=[
  template <class T> __global__ void pick(const int *at, const T *x, T *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[at[i]];
  }]=], block = { 64 }, shape = function(at) return { at:numel() } end }

--- The bits of a tensor, times 'by' (1); zeros are left out.
local function bits(t, by)
  local list = {}
  for i, v in ipairs(t:flatten():totable()) do
    if v ~= v then list[#list + 1] = i .. "=nan"
    elseif v ~= 0 then list[#list + 1] = ("%d=%a"):format(i, v * (by or 1))
    end
  end
  return table.concat(list, " ")
end

local function say(what, text)
  local n = 5381
  for i = 1, #text do n = (n * 33 + text:byte(i)) & 0xffffffff end
  return what, ("%08x"):format(n)
end

--- The gradient of x (m elements) through x[at], for the cotangent g.
local function gradient(at, g, m)
  local x = flame.zeros(m, { dtype = g.dtype, requires_grad = true })
  local d = pick(at, x, at:numel()):gradients({ x }, { seed = g })[x]
  flame.eval(d)
  return d
end

--- What is random is made by Lua, as each kernel of the fake GPU takes a second to compile.
local seed
local function random()
  seed = seed * 6364136223846793005 + 1442695040888963407
  return (seed >> 11) * 2.0 ^ -53
end

--- n random numbers between 2^-span and 1, of both signs.
local function spread(n, span)
  local list = {}
  for i = 1, n do
    list[i] = ("f"):unpack(("f"):pack(2 ^ (random() * -span) * (random() < 0.5 and -1 or 1)))
  end
  return flame.tensor(list)
end

--- n random indices; index i with a number of about 2^-i.
local function places(n)
  local at, g = {}, {}
  for i = 1, n do
    at[i] = math.floor(random() * few)
    g[i] = ("f"):unpack(("f"):pack((random() - 0.5) * 2 ^ -at[i]))
  end
  return flame.tensor(at, { dtype = "i32" }), flame.tensor(g)
end

--- Where a list is not the one that is wanted, or nil.
local function differ(list, want, n)
  for i = 1, n do
    if list[i] ~= want[i] then return ("%d: %a, not %a"):format(i, list[i], want[i]) end
  end
end

local parts = {}

--- The same gradient after others that are 2^40 times as large or small, 0, NaN or infinite; also
--- these have the bits of the first, scaled. m: elements of the array.
local function guesses(m, dtype)
  local at, g = places(600)
  local values = g:totable()
  local function scaled(by)
    local list = {}
    for i, v in ipairs(values) do list[i] = v * by end
    return gradient(at, flame.tensor(list, { dtype = dtype }), m)
  end
  local first, wrong, all = bits(scaled(1)), {}, {}
  local scales = { 1, 2 ^ 40, 1, 2 ^ -40, 1, 0, 1, 2 ^ 5, 2 ^ -5, 1, 0 / 0, 1, math.huge, 1,
    2 ^ 100 }
  for _, scale in ipairs(scales) do
    local d = bits(scaled(scale))
    if scale == 1 and d ~= first then wrong[#wrong + 1] = "after another" end
    all[#all + 1] = d
    if scale == 2 ^ 40 or scale == 2 ^ -40 then                   -- both multiples of 8 binades
      local back = bits(scaled(scale), 1 / scale)
      if back ~= first then wrong[#wrong + 1] = "scaled " .. scale end
    end
  end
  return say(wrong[1] or "good", table.concat(all, "\n"))
end
function parts.few() return guesses(few, "f32") end
function parts.many() return guesses(many, "f32") end
function parts.doubles() return guesses(few, "f64") end

--- NaN and infinities reach their elements alone.
function parts.odd()
  local at = flame.tensor({ 0, 1, 2, 3, 3, 4, 5 }, { dtype = "i32" })
  local text, wrong = {}, nil
  for _, m in ipairs { few, many } do
    for turn = 1, 3 do
      local g = flame.tensor { turn == 2 and 0 or 1, 0 / 0, math.huge, math.huge, -math.huge,
        -math.huge, turn == 3 and 2 ^ 40 or 0 }
      local d = bits(gradient(at, g, m))
      text[#text + 1] = d
      if not d:find "2=nan 3=inf 4=nan 5=%-inf" then wrong = "not odd: " .. d end
      if (d:match "^1=(%S+)" or "0x0p+0") ~= (turn == 2 and "0x0p+0" or "0x1p+0") then wrong = d end
    end
    if bits(gradient(at, flame.tensor { 0, 0 / 0, 0, 0, 0, 0, 0 }, m)) ~= "2=nan" then
      wrong = "nothing finite"
    end
  end
  return say(wrong or "good", table.concat(text, "\n"))
end

--- Sums that leave 64 bits, in both directions, and others that come back.
function parts.long()
  local n, wrong = 4096, nil
  for _, m in ipairs { few, many, many } do
    local at, g, want = {}, {}, { 0, 0, 0 }
    for i = 1, n do
      local j = i % 3 + 1
      at[i], g[i] = j - 1, 255 / 256 * (j == 1 and 1 or j == 2 and -1 or i < 2048 and 1 or -1)
      want[j] = want[j] + g[i]
    end
    local d = gradient(flame.tensor(at, { dtype = "i32" }), flame.tensor(g), m):totable()
    wrong = wrong or differ(d, want, 3)
  end
  return say(wrong or "good", "")
end

--- Large summands that cancel leave the small ones, exactly.
function parts.cancel()
  local n, wrong = 64, nil
  for _, m in ipairs { few, many } do
    local at, g, want = {}, {}, {}
    for i = 1, n do
      local big, small, j = 2 ^ (20 - i % 5), (i % 7 - 3) * 2 ^ -20, i % 8 + 1
      for k, v in ipairs { big, small, -big } do at[3 * i - 3 + k], g[3 * i - 3 + k] = j - 1, v end
      want[j] = (want[j] or 0) + small
    end
    for _ = 1, 2 do
      local d = gradient(flame.tensor(at, { dtype = "i32" }), flame.tensor(g), m):totable()
      wrong = wrong or differ(d, want, 8)
    end
  end
  return say(wrong or "good", "")
end

local three = flame.kernel { source = [=[
  __global__ void three(const int *at, const float *x, const double *u, const float *w, float *y,
                        int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[at[i]] * (float)u[at[n - 1 - i]] * w[at[i] / 2] * w[0] * w[0];
  }]=], block = { 64 }, shape = function(at) return { at:numel() } end }

--- Several sums with a unit each; what is differentiated twice.
local function several(twice)
  local n, wrong, all = 300, nil, {}
  local at, g = places(n)
  local x, u, w = spread(few, 9), spread(few, 9):to "f64" * 2 ^ 50, spread(few, 9) * 2 ^ -30
  flame.eval(u, w)
  local function run()
    local v = {}
    for i, t in ipairs { x, u, w } do v[i] = t:clone():requires_grad_(true) end
    local y = (three(at, v[1], v[2], v[3], n) * g):sum()
    local d = y:gradients(v, { create_graph = twice })
    if twice then
      local s = (d[v[1]] * d[v[1]]):sum() + (d[v[2]] * d[v[2]]):sum():to "f32" + (d[v[3]] * x):sum()
      d = s:gradients(v)
    end
    local text = {}
    for i = 1, 3 do
      flame.eval(d[v[i]])
      text[i] = bits(d[v[i]])
    end
    return table.concat(text, "\n"), d[v[1]]:totable(), d[v[2]]:totable(), d[v[3]]:totable()
  end
  local first, of_x, of_u, of_w = run()
  for _ = 1, 3 do if run() ~= first then wrong = "other bits" end end
  if not twice then
    local X, U, W, A, G = x:totable(), u:totable(), w:totable(), at:totable(), g:totable()
    local want, size = { {}, {}, {} }, { {}, {}, {} }        -- size: sums of magnitudes
    for k = 1, 3 do for i = 1, few do want[k][i], size[k][i] = 0, 0 end end
    local function add(k, i, v)
      want[k][i], size[k][i] = want[k][i] + v, size[k][i] + math.abs(v)
    end
    for i = 1, n do
      local a, b, c = A[i] + 1, A[n + 1 - i] + 1, A[i] // 2 + 1
      add(1, a, U[b] * W[c] * W[1] ^ 2 * G[i])
      add(2, b, X[a] * W[c] * W[1] ^ 2 * G[i])
      add(3, c, X[a] * U[b] * W[1] ^ 2 * G[i])
      add(3, 1, 2 * X[a] * U[b] * W[c] * W[1] * G[i])
    end
    for k, got in ipairs { of_x, of_u, of_w } do
      local unit = math.max(table.unpack(size[k])) * 2 ^ (k == 2 and -61 or -48)
      local least = 2 ^ -149 * (k == 2 and 1 or 2 ^ 50)    -- products may be subnormal before u
      for i = 1, few do
        if math.abs(want[k][i] - got[i]) > 2e-6 * size[k][i] + n * (unit + least) then
          wrong = ("%d, %d: %a, not %a"):format(k, i, got[i], want[k][i])
        end
      end
    end
  end
  all[1] = first
  return say(wrong or "good", table.concat(all))
end
function parts.several() return several(false) end
function parts.twice() return several(true) end

local taken = flame.kernel { source = [=[
  __global__ void taken(const int *at, const float *x, float *y, float *z, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = z[i] * x[at[i]];
    y[i] = v * v;
    z[i] = v + x[at[i] + 1];
    y[n + i] = z[i] * x[at[i] + 2];
  }]=], block = { 64 }, inout = { "z" } }

--- A kernel that rewrites an array and whose adjoint takes cotangents away: all that the launch
--- changed is put back before it is repeated.
function parts.taken()
  local n, wrong, all = 192, nil, {}
  local at, h = places(n)
  local x, z, g = spread(few + 3, 9), spread(n, 9), spread(2 * n, 9)
  local function run(scale)
    local v, u = x:clone():requires_grad_(true), z:clone():requires_grad_(true)
    local y, out = taken:with { shape = { 2 * n }, grid = { 3 } } (at, v, u * 1, n)
    local d = ((y * g):sum() * scale + (out * h):sum() * scale):gradients({ v, u })
    flame.eval(d[v], d[u])
    return bits(d[v] / scale) .. "\n" .. bits(d[u] / scale)
  end
  local first = run(1)
  for _, scale in ipairs { 1, 2 ^ 48, 2 ^ -48, 1, 1 } do
    if run(scale) ~= first then wrong = "after another" end
  end
  all[1] = first
  return say(wrong or "good", table.concat(all))
end

--- Steps with one plan, which a GPU launches again as a graph. Also returns how often it did.
function parts.steps()
  local n, text = 600, {}
  local at, g = places(n)
  local x, scale = spread(few, 1):requires_grad_(true), flame.ones(1)
  flame.eval(scale)
  local before = flame.stats().replays
  for step = 1, 18 do
    local by = step % 7 == 5 and 40 or step % 7 == 0 and -40 or step > 14 and 9 or 0
    scale:copy_(flame.tensor { 2 ^ by })
    flame.eval(scale)
    x.grad = nil
    collectgarbage()
    local y = pick(at, x, n)
    local loss = (y:sin() * y * g * scale):sum()
    loss:backward()
    flame.eval(x.grad)
    text[step] = bits(x.grad)
  end
  local what, hash = say("good", table.concat(text, "\n"))
  return what, hash, flame.stats().replays - before
end

return function(name)
  seed = 5
  return parts[name]()
end
