--- scaled_dot_product_attention, as one op (flash attention) or composed of ops; rotary positions.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local dtypes = require "flame.base.dtypes"
local recording = require "flame.base.recording"
local fail, def = arguments.fail, arguments.def
local half = dtypes.half

local function shape_text(x) return "(" .. table.concat(x.shape, ", ") .. ")" end

local attention = "scaled_dot_product_attention"

-- How many heads of q share each head of x (keys or values); both are (…, heads, time, size).
local function heads_for_one(name, x, q)
  if q.ndim < 3 or x.ndim < 3 then
    fail(attention, "enable_gqa needs an axis of heads: q has shape %s and %s %s", shape_text(q),
      name, shape_text(x))
  end
  local heads, most = x.shape[x.ndim - 2], q.shape[q.ndim - 2]
  if heads == most then return 1 end
  if heads == 0 or most % heads ~= 0 then
    fail(attention, "%s has %d heads, which do not divide the %d of q", name, heads, most)
  end
  return most // heads
end

-- Do several heads of q, of one row each, share a head of k and v (a step with a cache), and does
-- no option treat them differently? Then they can be rows of one head: k and v are not repeated.
local function rows_for_heads(q, o)
  local mask = o.attn_mask
  local m = mask and mask.shape or {}
  return o.k_for > 1 and o.k_for == o.v_for and q.shape[q.ndim - 1] == 1 and not o.is_causal
    and o.dropout_p == 0 and (not o.scale or type(o.scale) == "number")
    and (#m < 2 or m[#m - 1] == 1) and (#m < 3 or m[#m - 2] == 1)
end

--- Attention composed of other ops, which stores all scores. Used for calls that fits() refuses, as
--- with batch axes that broadcast, tracked masks, few rows or large heads.
local composed
function composed(q, k, v, o)
  if rows_for_heads(q, o) then
    local n, shape = q.ndim, table.move(q.shape, 1, q.ndim, 1, {})
    shape[n - 2], shape[n - 1] = shape[n - 2] // o.k_for, o.k_for
    local y = composed(q:reshape(shape), k, v, { k_for = 1, v_for = 1, attn_mask = o.attn_mask,
      scale = o.scale, dropout_p = 0 })
    shape = table.move(y.shape, 1, n, 1, {})
    shape[n - 2], shape[n - 1] = shape[n - 2] * shape[n - 1], 1
    return y:reshape(shape)
  end
  if o.k_for > 1 then k = k:repeat_interleave(o.k_for, -3) end
  if o.v_for > 1 then v = v:repeat_interleave(o.v_for, -3) end
  local scores = (q * (o.scale or q.shape[q.ndim] ^ -0.5)):matmul(k:transpose(-2, -1))
  if o.is_causal then
    local n, m = scores.shape[scores.ndim - 1], scores.shape[scores.ndim]
    scores = scores:masked_fill(flame.ones(n, m, { dtype = "bool", device = q.device }):triu(1),
      -math.huge)
  end
  if o.attn_mask then
    if o.attn_mask.dtype == "bool" then
      scores = scores:masked_fill(o.attn_mask:logical_not(), -math.huge)
    else scores = scores + o.attn_mask end
  end
  local p = scores:softmax(-1)
  if o.dropout_p ~= 0 then p = p:dropout(o.dropout_p) end
  return p:matmul(v)
end

--- What the op "attention" supports on a device. rows: the fewest rows of q, since with fewer the
--- composed form is faster; size: most features of a head; even: heads of keys and values must be
--- equally large, and for half types a multiple of 8.
local takes = {
  cpu = { rows = 64, size = 1024, even = false, f64 = true, f32 = true, f16 = true, bf16 = true },
  cuda = { rows = 16, size = 256, even = true, f32 = true, f16 = true, bf16 = true },
}

-- The shape of x, extended to four axes by ones at the front.
local function four(x)
  local shape = x.shape
  while #shape < 4 do table.insert(shape, 1, 1) end
  return shape
end

-- Do q, k and v have the shapes (b, h, t, d), (b, hk, s, d) and (b, hk, s, d2), none empty, with
-- sizes that the device supports?
local function shapes_fit(q, k, v, can, o)
  for i = 1, 4 do if q[i] < 1 or k[i] < 1 or v[i] < 1 then return false end end
  if q[1] ~= k[1] or q[2] ~= k[2] * o.k_for or q[4] ~= k[4] then return false end
  if k[1] ~= v[1] or k[2] ~= v[2] or k[3] ~= v[3] then return false end
  return q[3] >= can.rows and q[4] <= can.size and v[4] <= can.size
    and (not can.even or q[4] == v[4])
end

-- Is the mask untracked, on q's device, bool or of q's dtype? Does it broadcast to (b, h, t, s)?
local function mask_fits(mask, q, shape, keys)
  if mask.ndim > 4 or mask.device ~= q.device or recording.tracked(mask) then return false end
  if mask.dtype ~= "bool" and mask.dtype ~= q.dtype then return false end
  local m = four(mask)
  local whole = { shape[1], shape[2], shape[3], keys }
  for i = 1, 4 do if m[i] ~= 1 and m[i] ~= whole[i] then return false end end
  return true
end

-- Can the op "attention", which stores no scores, compute this call? o: its options.
local function fits(q, k, v, o)
  local can, n = takes[q.device == "cpu" and "cpu" or "cuda"], q.ndim
  if n < 2 or n > 4 or k.ndim ~= n or v.ndim ~= n or not can[q.dtype] then
    return false
  end
  if k.dtype ~= q.dtype or v.dtype ~= q.dtype or k.device ~= q.device or v.device ~= q.device then
    return false
  end
  if o.scale and type(o.scale) ~= "number" then return false end
  local shape, keys = four(q), four(k)
  if not shapes_fit(shape, keys, four(v), can, o) or can.even and half[q.dtype]
      and shape[4] % 8 ~= 0 then
    return false
  end
  return not o.attn_mask or mask_fits(o.attn_mask, q, shape, keys[3])
end

-- scaled_dot_product_attention for h heads of queries, kv of keys and kv of values that are
-- adjacent in x (b, t, h + 2 kv, d), with a dropout of p: gives (b, t, h, d). nil if the op does
-- not support it, or if x is f32 under autocast. The gradient of x is one array.
local function of_rows(x, h, kv, causal, p)
  local shape, cast = x.shape, flame.autocast()
  local b, t, d = shape[1], shape[2], shape[4]
  local can = takes[x.device == "cpu" and "cpu" or "cuda"]
  if cast and x.dtype == "f32" or not can[x.dtype] then return end
  if can.even and half[x.dtype] and d % 8 ~= 0 then return end
  local q, k = { b, h, t, d }, { b, kv, t, d }
  if not shapes_fit(q, k, k, can, { k_for = h // kv }) then return end
  return internal.attention_rows(x, h, kv, d ^ -0.5, causal, p)
end

--- softmax(scale q k' + mask) v over the last two axes; scale is d ^ -0.5 by default. attn_mask:
--- bool (true takes part), or floats that are added; is_causal: row i sees keys 1 to i. enable_gqa:
--- k and v may have fewer heads (axis -3) than q, each for equally many heads of q. dropout_p: the
--- probability that a weight becomes 0. Some calls need memory for all scores: those with masks
--- that are tracked or of another float dtype than q, batch axes that broadcast, or few rows; on a
--- GPU also those with heads above 256, of two sizes, or in half types no multiple of 8.
def([[scaled_dot_product_attention(q: T, k: T, v: T, attn_mask?: T, dropout_p = 0,
    is_causal = false, scale?: num|T, enable_gqa = false) -> T @half]],
function(q, k, v, attn_mask, dropout_p, is_causal, scale, enable_gqa)
  local o = { attn_mask = attn_mask, dropout_p = dropout_p, is_causal = is_causal, scale = scale,
    enable_gqa = enable_gqa }
  for i, x in ipairs { q, k, v } do
    if x.ndim < 2 then
      fail(attention, "%s is %d-d, need at least 2 axes: time and features", ("qkv"):sub(i, i),
        x.ndim)
    end
  end
  o.k_for, o.v_for = o.enable_gqa and heads_for_one("k", k, q) or 1,
    o.enable_gqa and heads_for_one("v", v, q) or 1
  if not fits(q, k, v, o) then return composed(q, k, v, o) end
  local function lifted(x) return x.ndim == 4 and x or x:reshape(four(x)) end
  local y = internal.attention(lifted(q), lifted(k), lifted(v), attn_mask,
    scale or q.shape[q.ndim] ^ -0.5, is_causal, dropout_p)
  if q.ndim == 4 then return y end
  return q.ndim == 3 and y:squeeze(1) or y:squeeze(1):squeeze(1)
end)

-- ---- rotary positions (Su et al. 2021), as in Llama: feature i is rotated with feature i + d / 2
-- The angles (t, d / 2) of t positions, from 'offset' on, which counts from 0.
local function angles(t, d, base, offset, device)
  local rate =
    (flame.arange(0, d - 2, 2, { dtype = "f64", device = device }) * (-math.log(base) / d)):exp()
  local at = flame.arange(offset, offset + t - 1, 1, { dtype = "f64", device = device })
  return at:reshape(-1, 1) * rate
end

-- x with -b, a in place of each pair of features a, b.
local function turned(x, interleaved)
  local d = x.shape[x.ndim]
  if not interleaved then
    return flame.cat({ -x:narrow(-1, d // 2 + 1, d // 2), x:narrow(-1, 1, d // 2) }, -1)
  end
  local split = x:unflatten(-1, { d // 2, 2 })
  return flame.stack({ -split:select(-1, 2), split:select(-1, 1) }, -1):flatten(-2, -1)
end

--- x (…, t, d) with each pair of features rotated by an angle times the row's position. Tables cos
--- and sin are given, (t, d) or a shape that broadcasts to x, or computed from base, with the first
--- row at position 'offset'. Pairs are features i and i + d / 2; interleaved: 1 2, 3 4, ….
def([[rotary(x: T, cos?: T, sin?: T, *, base = 10000, offset = 0,
    interleaved = false) -> T]], function(x, cos, sin, base, offset, interleaved)
  if x.ndim < 2 then fail("rotary", "x has %d axes, need at least 2 (…, t, d)", x.ndim) end
  if not x:is_floating_point() then fail("rotary", "x is %s, need a float", x.dtype) end
  local t, d = x.shape[x.ndim - 1], x.shape[x.ndim]
  if d % 2 ~= 0 then fail("rotary", "the last axis has %d features, need an even number", d) end
  if (cos == nil) ~= (sin == nil) then fail("rotary", "\1give both cos and sin, or neither") end
  if not cos then
    local a = angles(t, d, base, offset, x.device)
    if interleaved then a = a:repeat_interleave(2, 2) else a = flame.cat({ a, a }, 2) end
    local dtype = (x.dtype == "f16" or x.dtype == "bf16") and "f32" or x.dtype
    cos, sin = a:cos():to(dtype), a:sin():to(dtype)
  end
  local y = x * cos + turned(x, interleaved) * sin
  return y.dtype == x.dtype and y or y:to(x.dtype)
end)

return { of_rows = of_rows }
