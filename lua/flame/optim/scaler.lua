--- GradScaler: scales losses in f16 so that small gradients do not become 0. The file returns a
--- function that adds it to flame.optim.
local flame = require "flame"
local objects = require "flame.base.objects"
local parts = require "flame.autograd.parts"
local recording = require "flame.base.recording"

return function(optim, shared)
  local fail, number, put = shared.fail, shared.number, shared.put

  -- ---- scaled losses ----------------------------------------------------------------------------
  ---@class flame.GradScaler
  local GradScaler = { __name = "GradScaler" }
  objects.classes.GradScaler = GradScaler
  GradScaler.__index, GradScaler.__newindex = objects.closed("GradScaler", GradScaler, {})

  local SCALER = [[init_scale = 65536, growth_factor = 2, backoff_factor = 0.5,
    growth_interval: int = 2000, enabled = true) -> GradScaler]]
  -- Its fields: now is the scale, tracker the number of good iterations since it changed, and seen
  -- maps an optimiser to {bad = gradients with NaN or Inf, stepped} since the last update.
  local function scaler(init_scale, growth, backoff, interval, enabled)
    if not (growth > 1) then
      fail("GradScaler: growth_factor is %g, need more than 1", growth)
    end
    if not (backoff < 1) then
      fail("GradScaler: backoff_factor is %g, need less than 1", backoff)
    end
    number("GradScaler", "init_scale", init_scale, 0)
    number("GradScaler", "growth_interval", interval, 1)
    return setmetatable({ now = init_scale, growth = growth, backoff = backoff,
      interval = interval, tracker = 0, enabled = enabled, seen = {} }, GradScaler)
  end
  --- Keeps small gradients of f16 from vanishing: scaler:scale(loss):backward(); scaler:step(opt);
  --- scaler:update(). A step with NaN or Inf in the gradients is skipped, the scale lowered. A
  --- device may come before the options, as in torch.amp.
  optim.GradScaler = flame.internal.declare("optim.GradScaler(" .. SCALER
    .. "\noptim.GradScaler(device: device, " .. SCALER, "", scaler,
    function(_, ...) return scaler(...) end)

  --- The loss, or a table of losses, times the scale.
  put(GradScaler, "GradScaler:scale(loss: T|num|table) -> any", function(self, loss)
    if not self.enabled then return loss end
    if type(loss) ~= "table" then return loss * self.now end
    local out = {}
    for key, value in pairs(loss) do out[key] = self:scale(value) end
    return out
  end)

  -- The gradients of opt's parameters, and the parameters that have one, as two lists.
  local function each_gradient(opt)
    local list, params = {}, {}
    for _, group in ipairs(opt.groups) do
      for _, p in ipairs(group.params) do
        local g = parts.gradient("GradScaler", p)
        if g then list[#list + 1], params[#params + 1] = g, p end
      end
    end
    return list, params
  end

  -- How many gradients hold NaN or Inf, counting the parts of all processes: one read for all of
  -- them.
  local function count_bad(gradients, params)
    local bad = {}
    for i, g in ipairs(gradients) do bad[i] = g:isfinite():all():logical_not():to("cpu") end
    if #bad == 0 then return 0 end
    return parts.total("GradScaler", params, flame.stack(bad):sum(), "sum"):item()
  end

  -- Saves the state for flame.warmup.
  local function before_change(self)
    shared.before_change(self, self.seen)
    for _, seen in pairs(self.seen) do shared.before_change(seen) end
  end

  --- Divides the gradients of opt by the scale, once per step; call it before clipping them.
  put(GradScaler, "GradScaler:unscale(optimizer: Optimizer)", function(self, opt)
    if not self.enabled then return end
    before_change(self)
    if self.seen[opt] then
      fail("GradScaler: %s since the last update()",
        self.seen[opt].stepped and "step() came" or "unscale() came already")
    end
    local _ <close> = recording.unpin
    recording.pin()
    flame.internal.checked()          -- raises an earlier step's late error, before a change
    flame.no_grad(function()
      local gradients, params = each_gradient(opt)
      for _, g in ipairs(gradients) do
        if g.dtype == "f16" then
          fail("GradScaler: a gradient is f16\1: keep parameters in f32, autocast makes the f16 copies")
        end
      end
      local inverse = 1 / self.now
      for _, g in ipairs(gradients) do g:mul_(inverse) end
      self.seen[opt] = { bad = count_bad(gradients, params) }
    end)
  end)
  GradScaler.unscale_ = GradScaler.unscale

  --- Calls opt:step(…) unless a gradient holds NaN or Inf; unscales first if that was not done.
  put(GradScaler, "GradScaler:step(optimizer: Optimizer, ...) -> any", function(self, opt, ...)
    if not self.enabled then return opt:step(...) end
    if self.seen[opt] and self.seen[opt].stepped then
      fail("GradScaler: step() came already since the last update()")
    end
    before_change(self)
    if not self.seen[opt] then self:unscale(opt) end
    flame.internal.checked()
    local seen = self.seen[opt]
    seen.stepped = true
    if seen.bad == 0 then return opt:step(...) end
  end)

  --- Called after the steps of an iteration: lowers the scale if one was skipped, raises it after
  --- growth_interval good ones; or sets it.
  put(GradScaler, "GradScaler:update(new_scale?: num|T)", function(self, new_scale)
    if not self.enabled then return end
    before_change(self)
    if new_scale ~= nil then
      self.now = type(new_scale) == "number" and new_scale or new_scale:item()
      self.seen = {}
      return
    end
    if next(self.seen) == nil then
      fail("GradScaler: update() without a step() or unscale() before it")
    end
    local bad = 0
    for _, seen in pairs(self.seen) do bad = bad + seen.bad end
    self.seen = {}
    if bad > 0 then
      self.now, self.tracker = self.now * self.backoff, 0
      return
    end
    self.tracker = self.tracker + 1
    if self.tracker >= self.interval then self.now, self.tracker = self.now * self.growth, 0 end
  end)

  --- The current scale; 1 if the scaler is not enabled.
  put(GradScaler, "GradScaler:get_scale() -> num",
    function(self) return self.enabled and self.now or 1.0 end)
  --- Is the scaler enabled?
  put(GradScaler, "GradScaler:is_enabled() -> bool", function(self) return self.enabled end)

  local saved_as = { scale = "now", growth_factor = "growth", backoff_factor = "backoff",
    growth_interval = "interval", growth_tracker = "tracker" }
  --- The scale and its settings as a table.
  put(GradScaler, "GradScaler:state_dict() -> table", function(self)
    local out = {}
    for name, field in pairs(saved_as) do out[name] = self.enabled and self[field] or nil end
    return out
  end)
  --- Restores what state_dict gave.
  put(GradScaler, "GradScaler:load_state_dict(state: table)", function(self, saved)
    if not self.enabled then return end
    for name, field in pairs(saved_as) do
      if type(saved[name]) ~= "number" then fail("GradScaler: the state has no %s", name) end
      self[field] = saved[name]
    end
  end)
end
