--- Data parallel training: each rank has the network and a part of each batch; gradients are
-- brought together after backward. The file returns a function that adds them to flame.distributed.
--
-- Gradients are sent in buckets: lists of arrays of one dtype, in the reverse order of the
-- parameters, which is the order in which backward makes them. It depends on the network alone, so
-- all ranks have the same order.
local flame = require "flame"
local internal = flame.internal

return function(distributed, shared)
  local fail, put = shared.fail, shared.put

  -- networks: those given to data_parallel, in order; jobs: network -> its options and state.
  local networks, count, jobs = setmetatable({}, { __mode = "v" }), 0,
    setmetatable({}, { __mode = "k" })
  local quiet = 0                                        -- depth of nested calls of no_sync

  -- ---- what has a gradient ----------------------------------------------------------------------

  --- Sets x to the value that rank 1 has.
  local function take_first(x)
    x:copy_(shared.broadcast(x:detach(), { op = "data_parallel", from = 1 }))
  end

  --- Records in job.seen which parameters the last backward gave a gradient.
  local function watch(job, net)
    for _, p in ipairs(net:parameters()) do
      if internal.reached(p) then job.seen[p] = true end
    end
  end

  local function names_of(list)
    local some = table.concat(list, ", ", 1, math.min(#list, 3))
    return #list > 3 and ("%s and %d more"):format(some, #list - 3) or some
  end

  --- The parameters whose gradients are to be combined, last one first. A parameter without a
  --- gradient on this rank raises; with find_unused it gets zeros if another rank has a gradient.
  local function due(job, net)
    local list, missing, named = {}, {}, {}
    for name, p in net:named_parameters() do
      if not job.equal[p] then                                  -- the network got it later
        take_first(p)
        job.equal[p] = true
      end
      if p.requires_grad then
        table.insert(named, 1, p)
        if not job.seen[p] then missing[#missing + 1] = name end
      end
    end
    if #missing > 0 and not job.find_unused then
      fail("data_parallel", "no gradient has reached %s\1: the loss does not rest on %s; give"
        .. " find_unused = true if that is so at times", names_of(missing),
        #missing == 1 and "it" or "them")
    end
    if not job.find_unused then return named end
    local used = {}
    for k, p in ipairs(named) do used[k] = job.seen[p] and 1 or 0 end
    used = shared.all_reduce(flame.tensor(used, { dtype = "u8", device = "cpu" }),
      { op = "data_parallel", reduce = "max" }):totable()
    for k, p in ipairs(named) do
      if used[k] == 1 then
        list[#list + 1] = p
        if not p.grad then p.grad = flame.zeros_like(p) end
      end
    end
    return list
  end

  -- ---- buckets ----------------------------------------------------------------------------------

  --- For each parameter a 'letter', {p =, x = what is sent, …}: x is its gradient or, if gradients
  --- are gathered and then summed, the one in the half dtype from which autocast cast it, which has
  --- half the bytes. For two ranks that sum has the bits of an all_reduce.
  local function letters_of(job, list)
    local letters = {}
    for k, p in ipairs(list) do
      local g = p.grad:detach()
      local gathers = job.ordered or distributed.size() == 2 and g.device ~= "cpu"
      local half = job.half and gathers and internal.narrowed(p.grad)
      letters[k] = { p = p, x = half or g, gathered = half or job.ordered,
        bytes = (half or g):nbytes(), dtype = g.dtype, device = g.device }
    end
    return letters
  end

  --- Divides letters, in order, into buckets: lists of one dtype and device and of at most 'limit'
  --- bytes (on GPUs: 'beside', if given), or with a single letter.
  local function buckets_of(letters, limit, beside)
    local buckets, last = {}, nil
    for _, letter in ipairs(letters) do
      local most = letter.device ~= "cpu" and beside or limit
      if not last or last.dtype ~= letter.dtype or last.device ~= letter.device
        or last.bytes + letter.bytes > most then
        last = { dtype = letter.dtype, device = letter.device, bytes = 0 }
        buckets[#buckets + 1] = last
      end
      last[#last + 1], last.bytes = letter, last.bytes + letter.bytes
    end
    return buckets
  end

  --- The sum of arrays all[1], …, one per rank, in rank order, as all_reduce does on the CPU.
  local function add_up(all, dtype, how)
    local total = all[1]:to(dtype)
    for k = 2, distributed.size() do total = total + all[k] end
    return how.reduce == "mean" and total / distributed.size() or total
  end

  local function sum_in_order(x, dtype, how)
    return add_up(shared.all_gather(x:reshape(1, table.unpack(x.shape)), how), dtype, how)
  end

  shared.buckets_of, shared.add_up = buckets_of, add_up
  require "flame.distributed.scattered"(distributed, shared)

  --- Reduces the gradients of a bucket, one collective for each; on a GPU the device does all of
  --- them in one call, so they need not be copied into one array.
  local function reduce_each(job, bucket)
    for k, letter in ipairs(bucket) do
      local p, how = letter.p,
        { op = "data_parallel", reduce = job.reduce, joins = k < #bucket }
      local mark = internal.gradient_mark(p.grad)
      p.grad = letter.gathered and sum_in_order(letter.x, bucket.dtype, how)
        or shared.all_reduce(letter.x, how)
      internal.gradient_mark(p.grad, mark)
    end
  end

  local function reduce(job, bucket)
    if bucket.device ~= "cpu" or job.ordered then return reduce_each(job, bucket) end
    local flat = {}
    for k, letter in ipairs(bucket) do flat[k] = letter.x:reshape(-1) end
    local how = { op = "data_parallel", reduce = job.reduce }
    local all, at = shared.all_reduce(#flat > 1 and flame.cat(flat, 1) or flat[1], how), 1
    for k, letter in ipairs(bucket) do
      local p, n = letter.p, flat[k]:numel()
      local mark = internal.gradient_mark(p.grad)
      p.grad, at = all:narrow(1, at, n):reshape(p.shape):clone(), at + n
      internal.gradient_mark(p.grad, mark)
    end
  end

  local function bring_together(job, net)
    local list = due(job, net)
    for p in pairs(job.seen) do job.seen[p] = nil end
    local _ <close> = job.group and flame.scope() or nil
    local each = job.group and shared.scatter or reduce
    for _, bucket in ipairs(buckets_of(letters_of(job, list), job.bucket)) do each(job, bucket) end
  end

  local function after_backward()
    for k = 1, count do
      local net = networks[k]
      local job = net and jobs[net]
      if job then
        watch(job, net)
        if quiet == 0 and next(job.seen) then flame.no_grad(bring_together, job, net) end
      end
    end
  end

  -- ---- beginning --------------------------------------------------------------------------------

  --- Sets parameters and buffers of all ranks to those of rank 1, and notes the parameters in
  --- job.equal. Raises if their names, or the option 'shard', differ between ranks.
  local function equalise(job, net, shard)
    local names, list = { shard and "shard" or nil }, {}
    for _, pairs_of in ipairs { net.named_parameters, net.named_buffers } do
      for name, x in pairs_of(net) do
        names[#names + 1], list[#list + 1] = name, x
      end
    end
    shared.agree("data_parallel", shared.hash_of(table.concat(names, ",")))
    for _, x in ipairs(list) do take_first(x) end
    for _, p in ipairs(net:parameters()) do job.equal[p] = true end
  end

  --- Trains a network on all ranks. Returns the network, with the parameters and buffers of rank 1;
  --- from now on each backward sets .grad to the mean over all ranks, or to their sum. 'bucket':
  --- bytes that are sent at a time. A parameter that gets no gradient is an error, unless
  --- find_unused says that it may happen, which costs a wait in each backward. ordered: sums are
  --- taken in the order of ranks on GPUs, too, where NCCL otherwise chooses the order for more than
  --- two ranks; this sends n / 2 times the bytes and takes n times the memory of the gradients.
  --- half: gradients that were cast from a half dtype are sent in it if the sum has the same bits:
  --- with two GPUs, or ordered. It requires that all ranks run the same backward, so with
  --- find_unused it has no effect. shard: .grad stays nil; each rank has the summed gradient of its
  --- part of each parameter alone. An optimiser updates this part, with state of its size, and then
  --- all ranks get the new values of all parts. With shard, ordered sends no more bytes.
  put(distributed, [[distributed.data_parallel(net: Module, *, bucket: int = 25000000,
    find_unused = false, reduce: "mean"|"sum" = "mean", ordered = false, half = true,
    shard = false) -> Module]],
    function(net, bucket, find_unused, how, ordered, half, shard)
      local _, size = shared.here("data_parallel")
      if bucket < 1 then fail("data_parallel", "bucket is %d, need bytes", bucket) end
      if jobs[net] then fail("data_parallel", "the network is trained so already") end
      if size == 1 then return net end
      local weak <const> = { __mode = "k" }
      local job = { bucket = bucket, find_unused = find_unused, reduce = how,
        ordered = ordered, half = half and not find_unused,
        seen = setmetatable({}, weak), equal = setmetatable({}, weak) }
      flame.no_grad(equalise, job, net, shard)
      if shard then shared.share_out(job, net) end
      count = count + 1
      networks[count], jobs[net] = net, job
      internal.after_backward(after_backward)
      return net
    end)

  --- Runs f(…) without combining gradients: they add up on each rank until the first backward
  --- outside of no_sync. Used for all but the last of several batches of a step.
  put(distributed, "distributed.no_sync(f: fn, ...) -> ...", function(f, ...)
    quiet = quiet + 1
    local _ <close> = setmetatable({}, { __close = function() quiet = quiet - 1 end })
    return f(...)
  end)
end
