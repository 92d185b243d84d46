--- Several processes that train one model: a group of ranks, and collectives, which are ops with
-- gradients. A collective runs whether or not its result is read, in the order recorded
-- (src/group/group.h). The gradient of a collective is that of the sum of all ranks' losses;
-- computing it is a collective as well.
local flame = require "flame"
local internal = flame.internal
local objects = require "flame.base.objects"

local distributed = {}

local function fail(op, message, ...) internal.fail(op, message:format(...)) end

-- Adds a function to the table t; text declares its name and arguments (src/lua/declare.h).
local function put(t, text, ...) t[text:match("([%w_]+)%(")] = internal.declare(text, "", ...) end

-- ---- the group ----------------------------------------------------------------------------------

-- rank, size, local rank of this process.
local function here(op)
  local rank, size, place, by = internal.group_here()
  if not rank then fail(op, "there is no group\1: call distributed.init() first") end
  return rank, size, place, by
end

--- Meets the other ranks that torchrun, mpirun or srun has started; without a launcher the group
--- has one rank. A collective that waits longer than 'timeout' seconds for a rank raises on all.
put(distributed, "distributed.init(*, timeout: num = 600) -> rank: int, size: int",
  function(timeout)
    if not (timeout > 0) then fail("init", "timeout is %g, need seconds above 0", timeout) end
    local rank, size = internal.group_open(timeout)
    return rank, size
  end)

--- Number of this process, from 1 on.
put(distributed, "distributed.rank() -> int", function() return (here("rank")) end)

--- The number of processes in the group.
put(distributed, "distributed.size() -> int", function()
  local _, size = here("size")
  return size
end)

--- This process's number among the group's processes on its host, from 1 on, and that of its GPU.
put(distributed, "distributed.local_rank() -> int", function()
  local _, _, place = here("local_rank")
  return place
end)

--- Has init met a group?
put(distributed, "distributed.is_initialized() -> bool",
  function() return internal.group_here() ~= nil end)

--- Totals of the collectives so far. calls; bytes: of their arrays; sent: bytes that this rank
--- sent, if ranks send to each other directly; seconds: the host's; waited: those spent waiting for
--- other ranks; gpu: the GPU's seconds; overlapped: those in which it did other work as well; over:
--- how arrays of GPUs are sent, nil: none were sent yet.
put(distributed, "distributed.stats() -> table", function()
  local calls, bytes, sent, seconds, waited, gpu, bare, over = internal.group_stats()
  return { calls = calls, bytes = bytes, sent = sent, seconds = seconds, waited = waited, gpu = gpu,
    overlapped = gpu - bare, over = over }
end)

-- ---- recording ----------------------------------------------------------------------------------

local BARRIER, ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, ALL_TO_ALL, SEND, RECEIVE =
  0, 1, 2, 3, 4, 5, 6, 7
local reduces = { sum = 0, mean = 1, max = 2, min = 3 }

local function shape_text(x) return "(" .. table.concat(x.shape, ", ") .. ")" end

-- Records a collective, c = {op =, what = ALL_REDUCE …, x = operand or nil, like = tensor (nil: x)
-- whose shape must agree on all ranks, shape = of the result, reduce =, peer = rank, joins =
-- another follows before the result is read, tracked = has a gradient, note = must agree too}.
local function record(c)
  local _, size = here(c.op)
  local slow = internal.group_slow()
  if slow and distributed.rank() == 1 then io.stderr:write("flame: ", slow, "\n") end
  local like = c.like or c.x
  local params = { c.what, c.reduce or 0, (c.peer or 1) - 1, size, c.x and 1 or 0,
    c.joins and 1 or 0, c.tracked and 1 or 0, c.note or 0, like and like.ndim or 0 }
  for k = 1, like and like.ndim or 0 do params[#params + 1] = like:size(k) end
  return internal.call("collective", c.op, c.x and { c.x } or {}, params, c.shape,
    like and like.dtype or "u8")
end

-- Will ops recorded now on x have a gradient?
local function is_tracked(x) return x.requires_grad and flame.is_grad_enabled() end

-- A function f(x, how) that records run(x, how, tracked), a collective, and has the gradient
-- back(g, how, x, y). Ranks check that all or none of them track it.
local function differentiable(name, run, back)
  local f = flame.func {
    name = name,
    forward = function(ctx, x, how)
      local y = run(x, how, true)
      ctx.how = how
      if how.keep then ctx:save(x, y) end
      return y
    end,
    backward = function(ctx, g)
      local x, y
      if ctx.how.keep then x, y = ctx:saved() end
      return back(g, ctx.how, x, y)
    end,
  }
  return function(x, how)
    if is_tracked(x) then return f(x, how) end
    return run(x, how, false)
  end
end

local function need_sum(op, x, reduce)
  if x.dtype == "bool" and (reduce == "sum" or reduce == "mean") then
    fail(op, "x is bool, which has no sum\1; use x:int(), or \"max\"")
  elseif reduce == "mean" and not x:is_floating_point() then
    fail(op, "%s has no mean\1: use x:float()", x.dtype)
  end
end

local function need_rank(op, name, rank)
  local _, size = here(op)
  if rank < 1 or rank > size then
    fail(op, "%s is %d, need a rank from 1 to %d", name, rank, size)
  end
  return rank
end

-- ---- all_reduce ---------------------------------------------------------------------------------

local all_reduce, all_gather, reduce_scatter, broadcast, all_to_all

-- The gradient's factors for an extremum y: 1 / (ranks that have y) where x is y, else 0.
local function share(op, x, y)
  local mask = x:eq(y):to(x.dtype)
  return mask / all_reduce(mask, { op = op, reduce = "sum" })
end

-- The code of the reduction to record. A mean of half types is recorded as a sum (NCCL would round
-- each part of the mean): the second result, if any, is the number of ranks to divide it by.
local function reduce_of(x, how)
  if how.reduce == "mean" and x:element_size() < 4 then return 0, distributed.size() end
  return reduces[how.reduce]
end

all_reduce = differentiable("all_reduce", function(x, how, tracked)
  local reduce, by = reduce_of(x, how)
  local y = record { op = how.op, what = ALL_REDUCE, x = x, shape = x.shape, reduce = reduce,
    joins = how.joins, tracked = tracked, note = how.note }
  return by and y / by or y
end, function(g, how, x, y)
  if not how.keep then return all_reduce(g, how) end
  return all_reduce(g, { op = how.op, reduce = "sum" }) * share(how.op, x, y)
end)

-- The options 'how' of a reduction; keep: its gradient reads the operand x and the result y.
local function how_of(op, reduce)
  return { op = op, reduce = reduce, keep = reduce == "max" or reduce == "min" }
end

local REDUCE = '"sum"|"mean"|"max"|"min" = "sum"'

--- The sum (in the order of ranks), mean, maximum or minimum of each element over all ranks; every
--- rank gets it. The gradient of a maximum or minimum is divided among the ranks that have it.
put(distributed, "distributed.all_reduce(x: T, reduce: " .. REDUCE .. ") -> T",
  function(x, reduce)
    need_sum("all_reduce", x, reduce)
    return all_reduce(x, how_of("all_reduce", reduce))
  end)

-- ---- parts of the first axis --------------------------------------------------------------------

-- Checks 'sizes', the number of rows of each rank. Returns the largest, their sum, and a hash of
-- the list, which ranks compare: it differs if their lists do.
local function check_sizes(op, sizes)
  local _, size = here(op)
  if #sizes ~= size then fail(op, "%d sizes for %d ranks", #sizes, size) end
  local most, total, hash = 0, 0, 0
  for k, n in ipairs(sizes) do
    if n < 0 then fail(op, "size %d is %d, need 0 or more", k, n) end
    most, total, hash = math.max(most, n), total + n, (hash * 31 + n + 1) & 0x7fffffffffff
  end
  return most, total, hash
end

local function rows_of(x, count)
  local shape = x.shape
  shape[1] = count
  return shape
end

-- x with rows of zeros appended, so that it has 'count' rows.
local function filled(x, count)
  if x:size(1) == count then return x end
  return flame.cat({ x, flame.zeros(rows_of(x, count - x:size(1)),
    { dtype = x.dtype, device = x.device }) }, 1)
end

all_gather = differentiable("all_gather", function(x, how, tracked)
  return record { op = how.op, what = ALL_GATHER, x = x, tracked = tracked, note = how.note,
    joins = how.joins, shape = rows_of(x, x:size(1) * distributed.size()) }
end, function(g, how) return reduce_scatter(g, { op = how.op, reduce = "sum" }) end)

--- Joins the x of all ranks along the first axis; 0-d values become a vector. sizes: the number of
--- rows of each rank, if they differ.
put(distributed, "distributed.all_gather(x: T, sizes?: int[]) -> T", function(x, sizes)
  local op = "all_gather"
  local rank, size = here(op)
  if x.ndim == 0 then x = x:reshape(1) end
  if not sizes then return all_gather(x, { op = op }) end
  local most, _, hash = check_sizes(op, sizes)
  if x:size(1) ~= sizes[rank] then
    fail(op, "x has shape %s and sizes[%d] is %d", shape_text(x), rank, sizes[rank])
  end
  local all, parts = all_gather(filled(x, most), { op = op, note = hash }), {}
  for k = 1, size do parts[k] = all:narrow(1, (k - 1) * most + 1, sizes[k]) end
  return flame.cat(parts, 1)
end)

reduce_scatter = differentiable("reduce_scatter", function(x, how, tracked)
  local reduce, by = reduce_of(x, how)
  local y = record { op = how.op, what = REDUCE_SCATTER, x = x, tracked = tracked, note = how.note,
    reduce = reduce, joins = how.joins, shape = rows_of(x, x:size(1) // distributed.size()) }
  return by and y / by or y
end, function(g, how, x, y)
  local whole = all_gather(g, { op = how.op })
  if how.reduce == "mean" then return whole / distributed.size() end
  if not how.keep then return whole end
  return whole * share(how.op, x, all_gather(y, { op = how.op }))
end)

local function need_parts(op, x)
  local _, size = here(op)
  if x.ndim == 0 or x:size(1) % size ~= 0 then
    fail(op, "x has shape %s, need a first axis that %d ranks can share%s", shape_text(x), size,
      op == "reduce_scatter" and "\1; else give sizes" or "")
  end
end

--- Reduces x over all ranks, as all_reduce; rank r gets part r of the result along the first axis.
--- sizes: the number of rows that each rank gets, if they differ.
put(distributed, "distributed.reduce_scatter(x: T, reduce: " .. REDUCE .. ", sizes?: int[]) -> T",
  function(x, reduce, sizes)
    local op = "reduce_scatter"
    need_sum(op, x, reduce)
    local how = how_of(op, reduce)
    if not sizes then
      need_parts(op, x)
      return reduce_scatter(x, how)
    end
    local most, total, hash = check_sizes(op, sizes)
    if x.ndim == 0 or x:size(1) ~= total then
      fail(op, "x has shape %s, and sizes have a sum of %d", shape_text(x), total)
    end
    local parts, at = {}, 1
    for k, n in ipairs(sizes) do
      parts[k], at = filled(x:narrow(1, at, n), most), at + n
    end
    how.note = hash
    return reduce_scatter(flame.cat(parts, 1), how):narrow(1, 1, sizes[here(op)]):contiguous()
  end)

all_to_all = differentiable("all_to_all", function(x, how, tracked)
  return record { op = how.op, what = ALL_TO_ALL, x = x, tracked = tracked, joins = how.joins,
    shape = x.shape }
end, function(g, how) return all_to_all(g, how) end)

--- Rank r gets part r along the first axis of every rank's x, joined in the order of ranks.
put(distributed, "distributed.all_to_all(x: T) -> T", function(x)
  need_parts("all_to_all", x)
  return all_to_all(x, { op = "all_to_all" })
end)

-- ---- from one rank ------------------------------------------------------------------------------

broadcast = differentiable("broadcast", function(x, how, tracked)
  return record { op = how.op, what = BROADCAST, x = x, peer = how.from, tracked = tracked,
    shape = x.shape, joins = how.joins, note = how.note }
end, function(g, how)
  local total = all_reduce(g, { op = how.op, reduce = "sum" })
  return distributed.rank() == how.from and total or flame.zeros_like(g)
end)

--- Every rank gets the x of rank 'from'; all ranks pass an x of the same shape and dtype.
put(distributed, "distributed.broadcast(x: T, from: int = 1) -> T", function(x, from)
  need_rank("broadcast", "from", from)
  return broadcast(x, { op = "broadcast", from = from })
end)

local function need_other(op, name, peer)
  if need_rank(op, name, peer) == distributed.rank() then
    fail(op, "%s is %d, this rank itself", name, peer)
  end
  return peer
end

local function sent(x, how, tracked)
  return record { op = how.op, what = SEND, x = x, peer = how.peer, tracked = tracked,
    shape = { 0 } }
end
local function received(like, how, tracked)
  return record { op = how.op, what = RECEIVE, like = like, peer = how.peer, tracked = tracked,
    shape = like.shape }:to(like.device)
end

local send = differentiable("send", function(x, how, tracked)
  return sent(x, how, tracked):sum():to(x.dtype)
end, function(g, how, x)
  return received(x, { op = "send", peer = how.peer }, false) + g * 0
end)

--- Sends x to a rank, which calls receive. The result is a 0-d zero: added to the loss it lets
--- backward receive the gradient of x from that rank.
put(distributed, "distributed.send(x: T, to: int) -> T", function(x, to)
  return send(x, { op = "send", peer = need_other("send", "to", to), keep = true })
end)

local receive = differentiable("receive", received, function(g, how)
  sent(g, { op = "receive", peer = how.peer }, false)
  return nil
end)

--- Receives the tensor that rank 'from' sends. It has the shape and dtype of x, whose values are
-- not read. If x is tracked, so is the result, and backward sends the gradient to rank 'from'.
put(distributed, "distributed.receive(x: T, from: int) -> T", function(x, from)
  return receive(x, { op = "receive", peer = need_other("receive", "from", from) })
end)

--- Waits until all ranks have come here.
put(distributed, "distributed.barrier()", function()
  flame.eval(record { op = "barrier", what = BARRIER, shape = { 0 } })
end)

-- Records a barrier that fails on all ranks if they do not pass the same number.
local function agree(op, note)
  record { op = op, what = BARRIER, shape = { 0 }, note = note }
end

internal.same_on_ranks = agree

-- A hash of the text, 47 bits.
local function hash_of(text)
  local hash = 7
  for k = 1, #text do hash = (hash * 31 + text:byte(k)) & 0x7fffffffffff end
  return hash
end

local shared = { fail = fail, put = put, here = here, agree = agree, hash_of = hash_of,
  all_reduce = all_reduce, all_gather = all_gather, broadcast = broadcast,
  reduce_scatter = reduce_scatter, all_to_all = all_to_all }
require "flame.distributed.parallel"(distributed, shared)
require "flame.distributed.sharded"(distributed, shared)

return objects.namespace(distributed, "distributed")
