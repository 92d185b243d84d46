--- Gradients in parts (data_parallel{shard = true}; ZeRO, stages 1 and 2): each rank gets the sum
-- for its part of each parameter, an optimiser updates that part (autograd/parts.lua), and all
-- ranks gather the new values. A rank sends (n - 1) / n of a gradient's bytes, and then of the new
-- values', as much as in an all_reduce of the gradient.
--
-- Each parameter is flattened, padded with zeros, and divided into n parts of equal size, one for
-- each rank. So every rank has an n-th of each parameter, an optimiser's groups stay as they are,
-- and on a GPU gradients are sent from their own memory.
local flame = require "flame"
local parts = require "flame.autograd.parts"

return function(distributed, shared)
  local fail = shared.fail

  local function size_of_part(count)
    return (count + distributed.size() - 1) // distributed.size()
  end

  --- A 1-d x with zeros appended, so that it has 'count' elements.
  local function filled(x, count)
    local lack = count - x:numel()
    if lack == 0 then return x end
    return flame.cat({ x, flame.zeros(lack, { dtype = x.dtype, device = x.device }) }, 1)
  end

  --- The first elements of a flat x.
  local function front(x, count) return x:numel() == count and x or x:narrow(1, 1, count) end

  -- ---- what the ranks do together ---------------------------------------------------------------

  local function total(op, x, reduce) return shared.all_reduce(x, { op = op, reduce = reduce }) end

  local function whole(part, x)
    local all = shared.all_gather(filled(x, size_of_part(part.all)), { op = "state_dict" })
    return front(all, part.all):reshape(part.shape)
  end

  local function letters_of(list)
    local letters = {}
    for k, p in ipairs(list) do
      local x = parts.of[p].value
      x = filled(x, size_of_part(p:numel()))
      letters[k] = { p = p, x = x, dtype = x.dtype, device = x.device, bytes = x:nbytes() }
    end
    return letters
  end

  --- Sets a bucket's parameters to the new values of all ranks' parts: on a GPU by a collective for
  --- each, all made in one call; on the CPU by one for all, with the parts copied into one array.
  local function gather(bucket)
    local n, whole_of = distributed.size(), {}
    if bucket.device ~= "cpu" then
      for k, letter in ipairs(bucket) do
        whole_of[k] = shared.all_gather(letter.x, { op = "step", joins = k < #bucket })
      end
    else
      local flat, at = {}, 1
      for k, letter in ipairs(bucket) do flat[k] = letter.x end
      local all = shared.all_gather(flame.cat(flat, 1), { op = "step" }):reshape(n, -1)
      for k, x in ipairs(flat) do
        whole_of[k], at = all:narrow(2, at, x:numel()):reshape(-1), at + x:numel()
      end
    end
    for k, letter in ipairs(bucket) do
      local p = letter.p
      p:copy_(front(whole_of[k], p:numel()):reshape(p.shape))
    end
  end

  --- The collectives for a network's divided parameters (a group in autograd/parts.lua). On the CPU
  --- new values are sent in buckets of at most 'limit' bytes.
  local function group_of(limit)
    return { total = total, whole = whole, spread = function(list)
      do
        local _ <close> = flame.scope()
        for _, bucket in ipairs(shared.buckets_of(letters_of(list), limit, math.huge)) do
          gather(bucket)
        end
      end
      flame.eval(table.unpack(list))
    end }
  end

  -- ---- beginning --------------------------------------------------------------------------------

  local function share_out(job, p)
    local count, rank = p:numel(), distributed.rank()
    local each = size_of_part(count)
    local first = math.min((rank - 1) * each, count)
    parts.of[p] = { shape = p.shape, all = count, count = math.min(each, count - first),
      first = math.min(first + 1, math.max(count, 1)), group = job.group }
  end

  --- Divides each parameter of a network among the ranks: fills parts.of (autograd/parts.lua).
  function shared.share_out(job, net)
    for _, p in ipairs(net:parameters()) do
      if parts.of[p] or p.grad then
        fail("data_parallel", "a parameter of shape (%s) %s", table.concat(p.shape, ", "),
          p.grad and "has a gradient\1: call zero_grad() first"
          or "is shared out already, as part of another network")
      end
    end
    job.group = group_of(job.bucket)
    for _, p in ipairs(net:parameters()) do share_out(job, p) end
  end

  -- ---- after backward ---------------------------------------------------------------------------

  --- A 1-d x cut into equal parts, one for each rank.
  local function parts_of(x)
    local n, list = distributed.size(), {}
    local each = x:numel() // n
    for k = 1, n do list[k] = x:narrow(1, (k - 1) * each + 1, each) end
    return list
  end

  --- This rank's parts of a bucket's summed gradients: a collective for each, one call on a GPU.
  local function reduce_each(job, bucket)
    local sums, n = {}, distributed.size()
    for k, letter in ipairs(bucket) do
      local how = { op = "data_parallel", reduce = job.reduce, joins = k < #bucket }
      local x = filled(letter.x:reshape(-1), n * size_of_part(letter.x:numel()))
      sums[k] = letter.gathered
        and shared.add_up(parts_of(shared.all_to_all(x, how)), bucket.dtype, how)
        or shared.reduce_scatter(x, how)
    end
    return sums
  end

  --- This rank's parts of the summed gradients of a bucket, by one collective for all gradients,
  --- copied into one array. The parts of its result are copied to separate arrays.
  local function reduce_flat(job, bucket)
    local all, sums, n, at = {}, {}, distributed.size(), 1
    for k, letter in ipairs(bucket) do
      local each = size_of_part(letter.x:numel())
      all[k] = filled(letter.x:reshape(-1), n * each):reshape(n, each)
    end
    local sum = shared.reduce_scatter(#all > 1 and flame.cat(all, 2) or all[1],
      { op = "data_parallel", reduce = job.reduce }):reshape(-1)
    for k, x in ipairs(all) do
      sums[k], at = sum:narrow(1, at, x:size(2)):clone(), at + x:size(2)
    end
    return sums
  end

  --- Sums a bucket's gradients over all ranks: parts.of gets this rank's part, .grad is nil then.
  function shared.scatter(job, bucket)
    local sums = (bucket.device ~= "cpu" or job.ordered) and reduce_each(job, bucket)
      or reduce_flat(job, bucket)
    for k, letter in ipairs(bucket) do
      local p = letter.p
      p.grad = nil
      if not parts.of[p] then share_out(job, p) end              -- the network got it later
      local count = parts.of[p].count
      parts.add(p, sums[k]:numel() == count and sums[k] or sums[k]:narrow(1, 1, count):clone())
    end
  end
end
