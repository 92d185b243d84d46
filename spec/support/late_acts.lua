--- By name, what a script of late_scripts.lua ('self') does between two rounds. try, reread:
--- functions of that file.
local flame = require "flame"
local optim = require "flame.optim"
local CLASSES <const> = 4

return function(try, reread)
  local act = {}
  function act:loss() self:read(self.loss) end
  function act:weight() self:read(self.p) end
  function act:grad() if self.p.grad then self:read(self.p.grad) end end
  function act.eval() try(flame.eval) end
  act["eval other"] = function(self) try(flame.eval, self.other + 1) end
  act["item of other"] = function(self)
    reread(function() return (self.other * 2):sum():item() end)
  end
  function act.synchronize() try(flame.synchronize) end
  function act:print() pcall(tostring, self.loss) end
  function act.collect() collectgarbage() end
  act["to cpu"] = function(self)
    local ok, y = reread(function() return self.p:detach():cpu() end)
    self.kept[#self.kept + 1] = ok and y or "failed"
  end
  function act:view() self:keep(function() return self.p:detach():reshape(-1) end) end
  function act:clone() self:keep(function() return self.p:detach():clone() end) end
  function act:keep() self:keep(function() return self.loss * 2 end) end
  act["write kept"] = function(self)
    local y = flame.no_grad(self.p.clone, self.p)
    try(flame.no_grad, function() y:add_(self.loss:detach():to(y.device):to(y.dtype)) end)
    self.kept[#self.kept + 1] = y
  end
  function act:new()
    self:keep(function() return flame.no_grad(self.p.mul_, self.p, 0.99):clone() end)
  end
  function act:random() self:keep(flame.rand, 3, { device = self.p.device }) end
  function act:save()
    local name = os.tmpname()
    local ok = reread(flame.save, name, { p = self.p:detach() })
    self.kept[#self.kept + 1] = ok and flame.load(name).p or "failed"
    os.remove(name)
  end
  function act:state()
    local opt = self.parts[1].opt
    if not opt then return end
    local _, state = reread(opt.state_dict, opt)
    self.out[#self.out + 1] = state.steps
    for _, of in ipairs(state.state) do
      for _, v in pairs(of) do self.kept[#self.kept + 1] = type(v) == "userdata" and v or nil end
    end
  end
  act["load state"] = function(self)
    local opt = self.parts[1].opt
    if not opt then return end
    local _, state = reread(opt.state_dict, opt)
    opt:load_state_dict(state)
  end
  function act:steps()
    local opt = self.parts[1].opt
    self.out[#self.out + 1] = opt and opt.steps
  end
  function act:thread()
    local f = coroutine.wrap(function()
      local _ <close> = flame.no_grad()
      coroutine.yield(self.p * 2)
      return pcall(flame.eval)
    end)
    self:keep(f)
    f()
  end
  function act:nested()
    pcall(xpcall, function() error(self.loss:item()) end, function() return flame.eval() end)
  end
  function act:error()
    pcall(function()
      local _ <close> = flame.scope()
      local y = self.loss + 1
      error { y }
    end)
  end
  act["scale grad"] = function(self)
    if self.p.grad then try(flame.no_grad, self.p.grad.mul_, self.p.grad, 0.5) end
  end
  function act:index()
    self:keep(function()
      local at = (self.p:detach():sum():isnan():long() + 1):reshape(1)
      return self.nets[1].x:index_select(1, at)
    end)
  end
  act["other optimiser"] = function(self)
    local net = self.nets[1]
    self.side = self.side or { q = flame.ones(CLASSES, CLASSES, { device = net.device,
      requires_grad = true }) }
    local q = self.side.q
    self.side.opt = self.side.opt or optim.Adam({ q }, { lr = 0.1 })
    q.grad = nil
    local rows = flame.arange(4, { dtype = "i64", device = net.device })
    flame.cross_entropy(q:tanh(), rows):backward()
    self:redo(self.side.opt, false, self.side.opt.step, self.side.opt)
  end
  function act:across()
    local ok, y = reread(function()
      return self.loss:detach():to(self.devices[2]):mul(2):to(self.devices[1])
    end)
    self.kept[#self.kept + 1] = ok and y or "failed"
  end
  act["other fault"] = function(self)
    local net = self.nets[1]
    local at = flame.full({ 2 }, self.i > 3 and 1000 * self.i + 99 or 2, { dtype = "i64",
      device = net.device })
    self:keep(function() return (net.x:index_select(1, at) * 2):tanh():sum() end)
    try(flame.eval)
  end
  function act:again()
    self:keep(function() return flame.no_grad(self.loss_of, self, 1, self.nets[1]) end)
    try(flame.eval)
  end
  function act:copy() self.copied = self.p:detach():clone() end
  function act:swap()
    if self.copied then try(flame.no_grad, self.p.copy_, self.p, self.copied) end
  end
  function act:buffers()
    for _, b in ipairs(self.nets[1].all:buffers()) do
      self:keep(function() return b:clone() end)
    end
  end
  act["state step"] = function(self)
    local part = self.parts[#self.parts]
    for _, p in ipairs(part.opt and part.params or {}) do
      local of = part.opt.state[p]
      self.out[#self.out + 1] = of and of.step or 0
    end
  end
  act["bad write"] = function(self)
    local device = self.p.device
    self.table = self.table or flame.zeros(4, 3, { device = device })
    local at = flame.full({ 1 }, self.i > 3 and self.i % 2 == 0 and 1000 * self.i + 98 or 2,
      { dtype = "i64", device = device })
    local one = flame.ones(1, 3, { device = device })
    try(flame.no_grad, self.table.index_add_, self.table, 1, at, one)
    if self.i % 3 == 0 then try(flame.eval) end
  end
  function act:move()
    local net = self.nets[1]
    reread(net.all.to, net.all, "cpu")
    reread(net.all.to, net.all, net.device)
  end
  function act.profile() try(flame.profile, function() try(flame.eval) end) end
  act["empty cache"] = function() flame.empty_cache() end
  act["zero grad"] = function(self)
    if self.p.grad then try(flame.no_grad, self.p.grad.zero_, self.p.grad) end
  end
  return act
end
