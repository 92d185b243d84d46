--- Sharded optimiser state (ZeRO, stage 1): each rank keeps the state of some of the parameters and
-- updates these; then all ranks get the new values from the rank that computed them. The file
-- returns a function that adds shard_state to flame.distributed.
local flame = require "flame"
local parts = require "flame.autograd.parts"

return function(distributed, shared)
  local fail, put = shared.fail, shared.put
  local jobs = setmetatable({}, { __mode = "k" })

  --- Assigns each parameter to a rank: the largest first, to the rank with the fewest elements.
  local function share_out(list, size)
    local order, load, owner = {}, {}, {}
    for k = 1, #list do order[k] = k end
    table.sort(order, function(a, b)
      local m, n = list[a]:numel(), list[b]:numel()
      if m ~= n then return m > n end
      return a < b
    end)
    for r = 1, size do load[r] = 0 end
    for _, k in ipairs(order) do
      local least = 1
      for r = 2, size do if load[r] < load[least] then least = r end end
      owner[list[k]], load[least] = least, load[least] + list[k]:numel()
    end
    return owner
  end

  local function parameters_of(opt)
    local list = {}
    for _, group in ipairs(opt.groups) do
      table.move(group.params, 1, #group.params, #list + 1, list)
    end
    return list
  end

  --- The parameters of a group that this rank updates.
  local function own_of(job, k, group)
    local own = {}
    for _, p in ipairs(group.params) do
      if job.owner[p] == nil then
        fail("shard_state", "group %d got a parameter later\1: shard when all are there", k)
      end
      if job.owner[p] == job.rank then own[#own + 1] = p end
    end
    return own
  end

  --- Runs f with only this rank's parameters in the optimiser's groups; then restores the groups.
  local function with_own(opt, job, f)
    local whole, own = {}, {}
    for k, group in ipairs(opt.groups) do
      whole[k], own[k] = group.params, own_of(job, k, group)
    end
    local _ <close> = setmetatable({}, { __close = function()
      for k, group in ipairs(opt.groups) do group.params = whole[k] end
    end })
    for k, group in ipairs(opt.groups) do group.params = own[k] end
    return f(opt)
  end

  --- After a step: sets each parameter to its new value, broadcast from the rank that updates it.
  local function spread(opt, job)
    local list = {}
    for _, p in ipairs(parameters_of(opt)) do if p.grad then list[#list + 1] = p end end
    local got = {}
    for k, p in ipairs(list) do
      got[k] = shared.broadcast(p:detach(),
        { op = "shard_state", from = job.owner[p], joins = k < #list })
    end
    for k, p in ipairs(list) do if job.owner[p] ~= job.rank then p:copy_(got[k]) end end
    if #list > 0 then flame.eval(table.unpack(list)) end
  end

  local function step(opt, closure)
    local job, loss = jobs[opt], nil
    if closure then loss = flame.enable_grad(closure) end
    with_own(opt, job, job.step)
    flame.no_grad(spread, opt, job)
    return loss
  end

  --- Each rank keeps the optimiser's state of a part of its parameters, about an n-th of all
  --- elements, and updates them; the other ranks get the new values from it. All ranks must have
  --- the same gradients, as after data_parallel, and make the same calls. Existing state, as of a
  --- loaded checkpoint, is kept for this rank's parameters. state_dict() has the state of this
  --- rank's parameters only.
  put(distributed, "distributed.shard_state(opt: Optimizer) -> Optimizer", function(opt)
    local rank, size = shared.here("shard_state")
    if jobs[opt] then fail("shard_state", "the optimiser's state is sharded already") end
    if opt.what == "LBFGS" then
      fail("shard_state", "LBFGS makes one step of all parameters, which can not be shared out")
    end
    if size == 1 then return opt end
    for _, p in ipairs(parameters_of(opt)) do
      if parts.of[p] then
        fail("shard_state", "data_parallel shares the parameters out, and so their state\1: leave"
          .. " this, or the option shard of data_parallel")
      end
    end
    local job = { rank = rank, owner = share_out(parameters_of(opt), size), step = opt.step }
    for p in pairs(opt.state) do if job.owner[p] ~= rank then opt.state[p] = nil end end
    jobs[opt] = job
    rawset(opt, "step", step)
    return opt
  end)
end
