-- Dropout of attention's weights, by the op that stores no scores: the result, its gradients and
-- what they draw are compared with f64 and the numbers that flame.rand gives at the same seed.
local raises = require "spec.support.helper".raises
local flame = require "flame"
local nn = require "flame.nn"
local internal = flame.internal
local attend = flame.scaled_dot_product_attention

local function randn(shape, dtype) return flame.randn(shape, { dtype = dtype or "f32" }) end
local function leaf(x) return x:detach():clone():requires_grad_(true) end

--- The definition in f64: weights are multiplied by 1 / (1 - p) where rand is at least p.
local function defined(q, k, v, o)
  local heads, p = q.shape[2] // k.shape[2], o.dropout_p
  local u = flame.rand(q.shape[1], q.shape[2], q.shape[3], k.shape[3], { device = q.device })
  if heads > 1 then k, v = k:repeat_interleave(heads, 2), v:repeat_interleave(heads, 2) end
  local scores = (q * (o.scale or q.shape[4] ^ -0.5)):matmul(k:transpose(-2, -1))
  if o.is_causal then
    local seen = flame.ones(q.shape[3], k.shape[3], { device = q.device }):tril():ne(0)
    scores = scores:masked_fill(seen:logical_not(), -math.huge)
  end
  local mask = o.attn_mask
  if mask and mask.dtype == "bool" then scores = scores:masked_fill(mask:logical_not(), -math.huge)
  elseif mask then scores = scores + mask:double() end
  local w = scores:softmax(-1)
  return flame.where(u:ge(p), w * (p < 1 and 1 / (1 - p) or 0), w:detach() * 0):matmul(v)
end

--- The result of f, the gradients of q, k and v, and the number that is drawn after f.
local function all(f, q, k, v, g, o)
  local a, b, c = leaf(q), leaf(k), leaf(v)
  flame.manual_seed(5)
  local y = f(a, b, c, o)
  local next_one = flame.rand(1):item()
  y:backward(g)
  return { y:detach(), a.grad, b.grad, c.grad }, next_one
end

local TOL = { f64 = 1e-12, f32 = 3e-5, f16 = 8e-3, bf16 = 6e-2 }
--- t queries and s keys of d features; kv: heads of keys, of 4.
local function compare(dtype, t, s, d, kv, o, d2)
  local q, k, v = randn({ 2, 4, t, d }, dtype), randn({ 2, kv, s, d }, dtype),
    randn({ 2, kv, s, d2 or d }, dtype)
  local g = randn({ 2, 4, t, d2 or d }, dtype)
  o.enable_gqa = kv ~= 4
  local got, after = all(attend, q, k, v, g, o)
  local want, then_ = all(defined, q:double(), k:double(), v:double(), g:double(), o)
  assert.equal(then_, after)
  for i, x in ipairs(got) do
    assert.equal(dtype, x.dtype)
    local far = ((x:double() - want[i]):abs():max() / (want[i]:abs():max() + 1e-9)):item()
    assert.is_true(far < TOL[dtype], ("%s %d %d %d, %s: %g"):format(dtype, t, s, d,
      ({ "result", "dq", "dk", "dv" })[i], far))
  end
end

local DTYPES = { "f64", "f32", "f16", "bf16" }

describe("dropout of attention's weights", function()
  before_each(function() flame.manual_seed(1) end)
  for _, dtype in ipairs(DTYPES) do
    it("multiplies by what rand says, in " .. dtype .. ": sizes, heads, masks, zeros", function()
      local n, draws = 0, { 0.1, 0.5, 0.9 }
      for _, sizes in ipairs { { 64, 64 }, { 67, 197 }, { 130, 33 }, { 97, 514 } } do
        for _, d in ipairs { 8, 64, 72 } do
          local kind, o = n % 4, { dropout_p = draws[n % 3 + 1], is_causal = n % 5 < 2 }
          if kind == 1 then
            o.attn_mask = flame.rand(sizes[1], sizes[2]):gt(0.4):logical_or(
              flame.arange(sizes[2]):eq(1))
          elseif kind == 2 then o.attn_mask = randn({ 2, 1, sizes[1], sizes[2] }, dtype) end
          compare(dtype, sizes[1], sizes[2], d, n % 2 == 0 and 4 or 2, o)
          n = n + 1
        end
      end
    end)
  end
  it("has values of another size than keys, and any scale", function()
    compare("f32", 70, 90, 24, 4, { dropout_p = 0.3, scale = -0.7 }, 40)
    compare("f32", 70, 90, 24, 4, { dropout_p = 0.3, scale = 0 })
  end)
  it("is drawn like this in all forms: few rows, one head for all, axes that broadcast", function()
    compare("f32", 3, 50, 16, 4, { dropout_p = 0.4 })
    compare("f32", 70, 70, 16, 1, { dropout_p = 0.4 })
    local q, k = randn { 2, 4, 70, 8 }, randn { 1, 4, 70, 8 }
    local o = { dropout_p = 0.4 }
    local function of(f) flame.manual_seed(5) return f(q, k, k, o) end
    assert.allclose(of(defined):totable(), of(attend), { rtol = 1e-4, atol = 1e-5 })
  end)
  it("may take all: the result and the gradients are 0", function()
    local x = leaf(randn { 1, 2, 70, 8 })
    local y = attend(x, x, x, { dropout_p = 1 })
    y:sum():backward()
    assert.equal(0, y:abs():max():item())
    assert.equal(0, x.grad:abs():max():item())
  end)
  it("has second derivatives of the same draw", function()
    local function second(f)
      flame.manual_seed(3)
      local q, k, v = leaf(randn({ 1, 2, 70, 4 }, "f64")), leaf(randn({ 1, 2, 70, 4 }, "f64")),
        leaf(randn({ 1, 2, 70, 4 }, "f64"))
      flame.manual_seed(5)
      local y = f(q, k, v, { dropout_p = 0.3, is_causal = true })
      local first = y:square():sum():gradients({ q, k, v }, { create_graph = true })
      local l = first[q]:square():sum() + first[k]:sin():sum() + first[v]:square():sum()
      local g = l:gradients { q, k, v }
      return { g[q]:totable(), g[k]:totable(), g[v]:totable() }
    end
    assert.allclose(second(defined), second(attend), { rtol = 1e-9, atol = 1e-10 })
  end)
  it("is a probability", function()
    local x = randn { 1, 2, 70, 8 }
    for _, p in ipairs { -0.1, 1.5, 0 / 0, math.huge } do
      raises("dropout", function() attend(x, x, x, { dropout_p = p }) end)
      raises("dropout", function() attend(x:narrow(3, 1, 2), x, x, { dropout_p = p }) end)
    end
  end)
end)

describe("what attention drops", function()
  --- Sums of several steps of a layer, whose draws differ from step to step.
  local function steps(n)
    flame.manual_seed(8)
    local net, sums = nn.CausalSelfAttention(16, 2, { dropout = 0.3 }), {}
    local x = leaf(randn { 2, 70, 16 })
    for i = 1, n do
      local y = net(x)
      local loss = y:square():mean()
      loss:backward()
      sums[i] = { loss:item(), x.grad:sum():item() }
      x.grad = nil
    end
    return sums
  end
  it("differs from step to step, the same when it is planned, replayed or not", function()
    local want = steps(8)
    for i = 2, 8 do assert.are_not.equal(want[i - 1][1], want[i][1]) end
    local before = internal.budget(1)
    local got = steps(8)
    internal.budget(before)
    assert.same(want, got)
  end)
  it("is the same when a checkpoint computes it again", function()
    local q, k, v = randn { 1, 2, 70, 8 }, randn { 1, 2, 70, 8 }, randn { 1, 2, 70, 8 }
    local g, o = randn { 1, 2, 70, 8 }, { dropout_p = 0.5 }
    local function again(a, b, c) return flame.checkpoint(attend, a, b, c, o) end
    local want, got = all(attend, q, k, v, g, o), all(again, q, k, v, g, o)
    for i = 1, 4 do assert.is_true(flame.equal(want[i], got[i])) end
  end)
  it("is the same for operands that lie badly, or side by side in rows", function()
    for _, dtype in ipairs { "f32", "bf16" } do
      local x = randn({ 2, 70, 8, 16 }, dtype)              -- 4 heads of q, 2 of k and of v
      local function part(from, n) return x:narrow(3, from, n):transpose(2, 3) end
      local g, o = randn({ 2, 4, 70, 16 }, dtype), { dropout_p = 0.3, enable_gqa = true }
      local copies = all(attend, part(1, 4):clone(), part(5, 2):clone(), part(7, 2):clone(), g, o)
      local y = leaf(x)
      flame.manual_seed(5)
      local got = internal.attention_rows(y, 4, 2, 0.25, false, 0.3)
      got:backward(g:transpose(2, 3))
      assert.is_true(flame.equal(copies[1], got:detach():transpose(2, 3)))
      local joined = flame.cat({ copies[2], copies[3], copies[4] }, 2):transpose(2, 3)
      assert.is_true(flame.equal(joined, y.grad))
      local wide = flame.cat({ part(1, 4), part(1, 4) }, 4)   -- rows of twice the size, from 5 on
      local function views(q, k, v, w) return attend(q:narrow(4, 5, 16), k, v, w) end
      local q = wide:narrow(4, 5, 16):clone()
      local want = all(attend, q, part(5, 2), part(7, 2), g, o)
      local turned = all(views, wide, part(5, 2), part(7, 2), g, o)
      assert.is_true(flame.equal(want[1], turned[1]) and flame.equal(want[3], turned[3]))
      assert.is_true(flame.equal(want[2], turned[2]:narrow(4, 5, 16)))
    end
  end)
  it("is drawn again by each run of a program", function()
    local path = os.tmpname()
    local net = nn.CausalSelfAttention(16, 2, { dropout = 0.3 })
    local x = randn { 1, 70, 16 }
    flame.export(path, function(y) return net(y) end, { x })
    local p <close> = flame.program(path)
    os.remove(path)
    p:seed(4)
    local a, b = p(x), p(x)
    p:seed(4)
    local c, d = p(x), p(x)
    assert.is_false(flame.equal(a, b))
    assert.is_true(flame.equal(a, c) and flame.equal(b, d))
  end)
end)
