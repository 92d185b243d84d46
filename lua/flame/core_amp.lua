--- flame.autocast: products in a half type, what needs range or precision in f32, as PyTorch
-- divides the ops. While it is on, the functions of the lists below stand in the tables of the
-- module and of the methods as wrappers that cast their tensors; when it is off nothing is
-- there and nothing costs. (A function kept in a local of the script before is not wrapped.)
-- Gradients are recorded below these wrappers: a backward pass runs in the dtypes of its
-- forward pass. A weight that is cast twice in one evaluation is cast once there, since equal
-- ops of a window are one.
local flame, methods, internal = ...
local fail, is_tensor = internal.failf, flame.is_tensor

local function words(text)
  local set = {}
  for name in text:gmatch("%S+") do set[name] = true end
  return set
end

-- As in torch.amp: products …
local halves = words [[matmul mm bmm mv addmm baddbmm einsum linear scaled_dot_product_attention
  conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d prelu]]
-- … what is in f32 …
local singles = words [[pow exp expm1 log log10 log1p log2 reciprocal rsqrt acos asin cosh sinh tan
  erfinv sum prod cumsum cumprod norm cdist softmax log_softmax softmin softplus layer_norm
  group_norm rms_norm instance_norm cosine_similarity cross_entropy nll_loss mse_loss l1_loss
  smooth_l1_loss huber_loss hinge_loss kl_div binary_cross_entropy binary_cross_entropy_with_logits
  triplet_margin_loss]]
-- … and what keeps its dtypes though it has products inside.
local neutral =
  words [[inverse solve cholesky qr svd eigh det slogdet lstsq matrix_exp kron fft rfft irfft ifft]]

local half_types = { f16 = true, bf16 = true }
local stack = {}                     -- dtypes of the open blocks, false: off
local inside = false                 -- in a wrapped function, whose own calls are left alone
local originals                      -- {table, name, function, wrapper} of all, while one was on

local leave = setmetatable({}, { __close = function() inside = false end })

local function shallow(t)
  local copy = {}
  for key, value in pairs(t) do copy[key] = value end
  return copy
end

local function cast(x, to_half, dtype)
  if is_tensor(x) then
    if to_half and (x.dtype == "f32" or half_types[x.dtype] and x.dtype ~= dtype) then
      return x:to(dtype)
    end
    if not to_half and half_types[x.dtype] then return x:to("f32") end
    return x
  end
  if type(x) ~= "table" or getmetatable(x) ~= nil then return x end
  local copy
  for key, value in pairs(x) do
    local new = cast(value, to_half, dtype)
    if not rawequal(new, value) then
      copy = copy or shallow(x)
      copy[key] = new
    end
  end
  return copy or x
end

local function wrap(f, kind)
  return function(...)
    local dtype = stack[#stack]
    if inside or not dtype then return f(...) end
    local _ <close> = leave
    inside = true                          -- after what takes it back: an error may come in between
    if kind == "neutral" then return f(...) end
    local args = table.pack(...)
    for i = 1, args.n do args[i] = cast(args[i], kind == "half", dtype) end
    return f(table.unpack(args, 1, args.n))
  end
end

--- What is computed again in backward is cast as it was at first.
local function wrap_checkpoint(checkpoint)
  return function(f, ...)
    local dtype = stack[#stack]
    if inside or not dtype or not internal.callable(f) then return checkpoint(f, ...) end
    return checkpoint(function(...) return flame.autocast(dtype, f, ...) end, ...)
  end
end

local function gather()
  local list = {}
  local function add(t, name, kind)
    local f = rawget(t, name)
    if type(f) == "function" then list[#list + 1] = { t, name, f, wrap(f, kind) } end
  end
  for kind, names in pairs { half = halves, single = singles, neutral = neutral } do
    for name in pairs(names) do
      add(flame, name, kind)
      add(methods, name, kind)
      if type(rawget(flame, "linalg")) == "table" then add(flame.linalg, name, kind) end
    end
  end
  list[#list + 1] = { flame, "checkpoint", flame.checkpoint, wrap_checkpoint(flame.checkpoint) }
  local meta = debug and debug.getmetatable(flame.empty(0))
  if meta then add(meta, "__pow", "single") end
  return list
end

-- The tables hold wrappers while a block is open. What others put there meanwhile stays.
local function install(on)
  if on and not originals then originals = gather() end
  for _, o in ipairs(originals) do
    local from, to = on and o[3] or o[4], on and o[4] or o[3]
    if rawget(o[1], o[2]) == from then rawset(o[1], o[2], to) end
  end
  if not on then originals = nil end
end

local function push(dtype)
  if #stack == 0 then install(true) end
  stack[#stack + 1] = dtype
end
local function cut(depth)
  for i = #stack, depth, -1 do stack[i] = nil end
  if #stack == 0 and originals then install(false) end
end

local Guard = { __name = "flame.autocast" }
Guard.__index = Guard
--- Ends the block; those opened inside it end as well.
function Guard:close()
  if not self.depth then return end
  if #stack >= self.depth then cut(self.depth) end
  self.depth = nil
end
Guard.__close = Guard.close
Guard.__gc = Guard.close                         -- one that was dropped ends as well

local function autocast(dtype, f, ...)
  if dtype == true then fail("autocast", 'dtype must be "f16", "bf16" or false, got true') end
  local guard = setmetatable({ depth = #stack + 1 }, Guard)
  if f == nil then
    push(dtype)
    return guard
  end
  local _ <close> = guard
  push(dtype)
  return f(...)
end
--- autocast(dtype, f, …): f's results, with products in dtype ("f16" or "bf16") and losses, sums,
--- norms and the like in f32; false in place of the dtype switches it off inside. Without f a
--- guard: local _ <close> = flame.autocast("bf16"). autocast() tells the dtype that is on, or nil.
internal.def(".autocast() -> dtype", function() return stack[#stack] or nil end,
  '.autocast(dtype: "f16"|"bf16"|bool, f: fn, ...) -> ...', autocast,
  '.autocast(dtype: "f16"|"bf16"|bool = "f16", *, enabled = true) -> Guard',
  function(dtype, enabled) return autocast(enabled and dtype) end)
