--- Averages of a network during training: SWA, EMA. Returns a function that adds to flame.nn.
local flame = require "flame"
local arguments = require "flame.base.arguments"

return function(nn, shared)
  local fail, class, call, put = shared.raise, shared.class, shared.call, shared.put
  local where = flame.where

  --- A copy of a network whose parameters are the mean of those given to update_parameters
  --- (Izmailov et al. 2018), or with decay = d their exponential mean, d times the old value and 1
  --- - d times the new one; avg_fn(averaged, current, count) is another rule. use_buffers: buffers
  --- are averaged too, else they are those of the last update. averaged(…) calls the copy.
  class("nn.AveragedModel(model: Module, *, decay?: num, avg_fn?: fn, use_buffers = false)",
    function(self, model, decay, avg_fn, use_buffers)
      if decay and not (decay >= 0 and decay <= 1) then
        fail("AveragedModel", "decay is %g, need 0 to 1", decay)
      end
      if decay and avg_fn then fail("AveragedModel", "need decay or avg_fn, got both") end
      self.module = model:clone()
      self.module:requires_grad_(false)
      local x = self.module:parameters()[1]
      self.n_averaged = nn.Buffer(flame.zeros({}, { dtype = "i64", device = x and x.device }))
      self.decay, self.avg_fn, self.use_buffers = decay, avg_fn, use_buffers
    end)
  call(nn.AveragedModel, "(...) -> ...", function(self, ...) return self.module(...) end)
  function nn.AveragedModel:extra()
    return self.decay and ("decay=%g"):format(self.decay) or ""
  end

  --- Adds a network of the same form to the average; the first one is copied.
  put(nn.AveragedModel, "AveragedModel:update_parameters(model: Module)", function(self, model)
    local op, decay, avg_fn = "AveragedModel:update_parameters", self.decay, self.avg_fn
    local n = self.n_averaged
    local first = n:eq(0)
    local weight = decay and where(first, 1, 1 - decay) or (n:double() + 1):reciprocal()
    local function mean(old, new)
      if avg_fn then return where(first, new, avg_fn(old, new, n)) end
      return old + (new - old) * weight:to(old.dtype)
    end
    local function pass(mine, theirs, averaged)
      if #mine ~= #theirs then
        fail(op, "the models differ, %d and %d tensors", #mine, #theirs)
      end
      for i, x in ipairs(mine) do
        local y = theirs[i]
        if table.concat(x.shape, ", ") ~= table.concat(y.shape, ", ") then
          fail(op, "the models differ, tensor %d is (%s) and (%s)", i,
            table.concat(x.shape, ", "), table.concat(y.shape, ", "))
        end
      end
      for i, x in ipairs(mine) do
        local y = theirs[i]:detach():to(x.device)
        x:copy_(averaged and x:is_floating_point() and mean(x:detach(), y:to(x.dtype)) or y)
      end
    end
    flame.no_grad(function()
      pass(self.module:parameters(), model:parameters(), true)
      pass(self.module:buffers(), model:buffers(), self.use_buffers)
      n:add_(1)
    end)
  end)

  --- Runs inputs through a network to set the statistics of its batch norms to the means over these
  --- inputs, as is needed after averaging. batches: a list of inputs, or an iterator as for a for
  --- loop; of several values the first is the input.
  put(nn.utils, "nn.utils.update_bn(batches: any, model: Module)", function(batches, model)
    local norms, momenta, training = {}, {}, model.training
    for _, m in ipairs(model:modules()) do
      if nn.is(m, nn.BatchNorm1d) or nn.is(m, nn.BatchNorm2d) or nn.is(m, nn.BatchNorm3d) then
        if m.running_mean then norms[#norms + 1] = m end
      end
    end
    if #norms == 0 then return end
    if type(batches) ~= "table" and not flame.internal.callable(batches) then
      fail("update_bn", "batches are a list of inputs or an iterator, got %s",
        arguments.word(batches))
    end
    local _ <close> = setmetatable({}, { __close = function()
      for i, m in ipairs(norms) do m.momentum = momenta[i] end
      model:train(training)
    end })
    for i, m in ipairs(norms) do
      momenta[i], m.momentum = m.momentum, false
      m.running_mean:zero_()
      m.running_var:fill_(1)
      m.num_batches_tracked:zero_()
    end
    model:train()
    flame.no_grad(function()
      if flame.internal.callable(batches) then for x in batches do model(x) end
      else for _, x in ipairs(batches) do model(x) end end
    end)
  end)
end
