--- Random scripts that train while some of their steps have an index out of range: on a GPU the
-- error of such a step is raised later (src/engine/flight.h); values and weights must then be
-- those on a CPU, which raises it at once. late.lua has one net with one optimiser; scripts here
-- differ in how they train.
--
-- They vary in the nets (one or two, on one GPU or on two, whose updates depend on one check or on
-- several, with a layer in common), in their layers (embedding, linear, batch norm, dropout, a user
-- kernel, a checkpoint), in their parameters (some frozen, some views of one buffer), in what is
-- checked (classes, rows, words, elements, targets of a scatter), in the loss (smoothed, summed,
-- with classes ignored, from log-probabilities or by gather, with the gradient's norm), in the
-- dtype (f32, f64, bf16, autocast to bf16, autocast to f16 with a scaler, of which a scale may
-- overflow), in the number of backward calls before an update and in what comes between them, in
-- how gradients are made (backward, gradients, with hooks) and emptied (nil, zeros), in the update
-- (an optimiser for all nets or one each, in one or two groups, with numbers in its state or
-- without, with or without a closure, by hand, in place, by a user kernel), in what follows it
-- (averages, schedules, clamping), in which values are kept, in who makes the positions (a
-- coroutine), and in what a script does between two steps (late_acts.lua). They
-- do not have: groups of processes, user kernels that fail, calls that fail (Cholesky), functions
-- of the script with their own backward code, LBFGS, rules that take signs (which turn differences
-- of rounding into steps), evaluations while a loss is recorded (there a CPU raises before there
-- is a loss).
--
-- An error has the number of the round whose index is bad, so that a script can do again what
-- raised because of an earlier round, as a user would.
local flame = require "flame"
local nn, optim = require "flame.nn", require "flame.optim"
local T = dofile("spec/support/program_draw.lua")
local late = dofile("spec/support/late.lua")
local M = {}
local ROWS <const>, COLUMNS <const>, CLASSES <const>, WORDS <const> = 6, 5, 4, 7
M.rounds = 9

-- ---- programs -----------------------------------------------------------------------------------

local checked <const> = { "rows", "words", "elements", "targets" }
M.between = { "loss", "weight", "eval", "eval other", "item of other", "synchronize", "print",
  "collect", "to cpu", "view", "clone", "keep", "write kept", "new", "random", "save", "load state",
  "state", "steps", "thread", "nested", "error", "grad", "scale grad", "index", "other optimiser",
  "across", "other fault", "again", "copy", "swap", "buffers" }
local more <const> = { "state step", "bad write", "move", "profile", "empty cache", "zero grad",
  "state step", "bad write" }
local more_rules <const> = { "Nesterov", "NAdam", "ASGD", "Adadelta", "Adamax", "RAdam", "AMSGrad",
  "Capturable" }

local function net_of(r)
  return { words = r.chance(0.4), rows = r.chance(0.5), elements = r.chance(0.2),
    targets = r.chance(0.15), norm = r.chance(0.08), drops = r.chance(0.3), kernel = r.chance(0.1),
    remakes = r.chance(0.2), width = r.pick { 3, 8, 19 } }
end

local function round_of(r, i, program)
  local round = { between = {}, bad = {}, zero = #program.nets > 1 or r.chance(0.85),
    huge = r.chance(0.15) }
  for k = 1, program.micro * #program.nets do
    local net, list = program.nets[(k - 1) % #program.nets + 1], { "labels", "labels" }
    for _, what in ipairs(checked) do if net[what] then list[#list + 1] = what end end
    round.bad[k] = i > 3 and r.chance(0.3 / program.micro) and r.pick(list)
  end
  for _ = 1, r.pick { 0, 0, 0, 1, 1, 2 } do
    round.between[#round.between + 1] = r.pick(M.between)
  end
  return round
end

--- Draws what most programs have beside the rest.
local function add_more(r, program)
  local two_nets = #program.nets > 1
  local has_opt = not program.rule:find "^hand" and program.rule ~= "kernel"
  if has_opt and not program.nets[1].norm and r.chance(0.5) then
    program.rule = r.pick(more_rules)
  end
  program.groups, program.flat = has_opt and r.chance(0.2), r.chance(0.15)
  program.tied = two_nets and not program.two and r.chance(0.4)
  program.frozen, program.zeros, program.hooks = r.chance(0.15), r.chance(0.15), r.chance(0.12)
  program.gradients, program.penalty = r.chance(0.15), r.chance(0.1)
  program.loss = r.pick { false, false, false, "smooth", "sum", "ignore", "nll", "picked" }
  program.loads = r.chance(0.2)
  if program.tied then program.nets[2].width = program.nets[1].width end
  for _, round in ipairs(program.rounds) do
    if r.chance(0.25) then round.between[#round.between + 1] = r.pick(more) end
  end
end

function M.make(seed)
  local r = T.generator(seed)
  local program = { seed = seed, micro = r.pick { 1, 1, 1, 1, 1, 1, 2, 3 }, nets = { net_of(r) },
    how = r.pick { "f32", "f32", "f32", "f32", "f64", "bf16", "bf16", "cast bf16", "cast f16" },
    meanwhile = r.pick { false, false, false, false, "eval", "collect", "read", "thread" },
    rule = r.pick { "SGD", "SGD", "Momentum", "Adam", "AdamW", "RMSprop", "Adagrad", "hand", "hand",
      "hand in place", "kernel" }, closure = r.chance(0.15), clips = r.chance(0.08),
    clamps = r.chance(0.15), average = r.chance(0.15) and r.pick { "hand", "model" },
    schedule = r.chance(0.25), keeps = r.chance(0.1), waits = r.chance(0.1), rounds = {} }
  if program.nets[1].norm then program.rule = "Momentum" end     -- others divide noise by noise
  if r.chance(0.4) then
    program.nets[2], program.micro = net_of(r), 1
    program.nets[2].norm = program.nets[1].norm and program.nets[2].norm
    program.joint, program.two, program.crosses = r.chance(0.3), r.chance(0.7), r.chance(0.3)
    program.clips = program.clips and not (program.joint and program.two)
    -- on two GPUs the second forward pass is not made if the first is known to be bad
    if program.crosses then
      program.meanwhile = false
      program.nets[2].norm, program.nets[2].drops = false, false
    end
  end
  for i = 1, M.rounds do program.rounds[i] = round_of(r, i, program) end
  r = T.generator(~seed)
  if r.chance(0.8) then add_more(r, program) end
  return program
end

function M.show(program)
  local t = {}
  local function add(name, v)
    if v and v ~= true then t[#t + 1] = name .. " " .. tostring(v)
    elseif v then t[#t + 1] = name end
  end
  for _, key in ipairs { "how", "rule", "micro", "meanwhile", "closure", "clips", "clamps",
    "average", "schedule", "keeps", "waits", "joint", "two", "crosses", "groups", "flat", "tied",
    "frozen", "zeros", "hooks", "gradients", "penalty", "loss", "loads" } do
    add(key, program[key])
  end
  for i, net in ipairs(program.nets) do
    add("\n  net", i)
    for _, key in ipairs { "words", "rows", "elements", "targets", "norm", "drops", "kernel",
      "remakes", "width" } do add(key, net[key]) end
  end
  for i, round in ipairs(program.rounds) do
    add("\n  round", i)
    for k = 1, program.micro * #program.nets do add("bad", round.bad[k] or "-") end
    add("zero", round.zero)
    add("huge", round.huge)
    for _, what in ipairs(round.between) do add("then", what) end
  end
  return table.concat(t, ", ")
end

-- ---- parts of scripts ---------------------------------------------------------------------------

local pure <const> = [[
  __global__ void soft(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * 0.5f + sinf(x[i]) * 0.25f;
  }]]
local update <const> = [[
  __global__ void descend(float *p, const float *g, float lr, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] -= lr * g[i];
  }]]
local soft, descend = flame.kernel(pure), flame.kernel { source = update, inout = { "p" } }

local rules = {
  SGD = function(p) return optim.SGD(p, { lr = 0.1 }) end,
  Momentum = function(p) return optim.SGD(p, { lr = 0.1, momentum = 0.9 }) end,
  Adam = function(p) return optim.Adam(p, { lr = 0.02 }) end,
  AdamW = function(p) return optim.AdamW(p, { lr = 0.02 }) end,
  RMSprop = function(p) return optim.RMSprop(p, { lr = 0.02 }) end,
  Adagrad = function(p) return optim.Adagrad(p, { lr = 0.05 }) end,
  Nesterov = function(p)
    return optim.SGD(p, { lr = 0.05, momentum = 0.9, nesterov = true, weight_decay = 0.01 })
  end,
  NAdam = function(p) return optim.NAdam(p, { lr = 0.02 }) end,
  ASGD = function(p) return optim.ASGD(p, { lr = 0.1, t0 = 3 }) end,
  Adadelta = function(p) return optim.Adadelta(p) end,
  Adamax = function(p) return optim.Adamax(p, { lr = 0.02 }) end,
  RAdam = function(p) return optim.RAdam(p, { lr = 0.02 }) end,
  AMSGrad = function(p) return optim.Adam(p, { lr = 0.02, amsgrad = true }) end,
  Capturable = function(p) return optim.AdamW(p, { lr = 0.02, capturable = true }) end,
}

--- How far may values be from those of another device?
local function tolerance(program)
  return (program.how == "f32" or program.how == "f64") and 1e-3 or 0.05
end

--- Two parameters of a net that are views of one tensor.
local function add_views(net, width)
  local both = flame.zeros(2 * width, { device = net.device, dtype = net.x.dtype })
  flame.eval(both)
  for k = 1, 2 do
    net[k] = both:narrow(1, (k - 1) * width + 1, width):detach():requires_grad_()
    net.params[#net.params + 1] = net[k]
  end
end

local function make_net(spec, program, device, first)
  local layers = { nn.Linear(COLUMNS, spec.width, { bias = not spec.norm }) }
  if spec.norm then layers[#layers + 1] = nn.BatchNorm1d(spec.width) end
  layers[#layers + 1] = nn.Tanh()
  if spec.drops then layers[#layers + 1] = nn.Dropout(0.25) end
  local net = { spec = spec, device = device, first = nn.Sequential(layers),
    last = first and first.last or nn.Linear(spec.width, CLASSES),
    words = spec.words and nn.Embedding(WORDS, COLUMNS) }
  net.all = nn.Sequential { net.first, net.last, net.words or nil }
  net.all:to(device)
  if program.how == "f64" or program.how == "bf16" then net.all:to(program.how) end
  net.params = net.all:parameters()
  local x = flame.randn(ROWS, COLUMNS):to(device)
  net.x = x:to(net.params[1].dtype)
  if program.flat then add_views(net, spec.width) end
  if program.frozen then net.params[1]:requires_grad_(false) end
  if program.hooks then net.params[2]:register_hook(function(g) return g * 0.5 end) end
  return net
end

local Script = {}
Script.__index = Script

--- Is the error about an index of this round, or (without i) of any?
local function names(why, i)
  for v in tostring(why):gmatch "%d+" do
    local round = math.tointeger(v) // 1000
    if round == i or (not i and round > 0 and round <= M.rounds) then return true end
  end
  return false
end

local function known(why)
  local text = tostring(why)
  if not names(text) and not text:find("update() without a step()", 1, true) then error(why, 0) end
end

--- Calls f, a step of opt. If opt has made no step, perhaps because f raised the error of an
--- earlier round, f is called again; with 'once' it is not if the error is of this round.
function Script:redo(opt, once, f, ...)
  local steps = opt.steps
  local ok, y = pcall(f, ...)
  if not ok and opt.steps <= steps and not (once and names(y, self.i)) then
    known(y)
    ok, y = pcall(f, ...)
  end
  if not ok then known(y) end
end

local function try(f, ...)
  local ok, y = pcall(f, ...)
  if not ok then known(y) end
  return ok, y
end

--- Reads, which may be done again: the first may tell what an earlier run did.
local function reread(f, ...)
  local ok, y = pcall(f, ...)
  if not ok then
    known(y)
    ok, y = pcall(f, ...)
  end
  if not ok then known(y) end
  return ok, y
end

function Script:read(t)
  if t == "failed" then
    self.out[#self.out + 1] = t
    return
  end
  local function list() return t:float():cpu():totable() end
  local ok, v = reread(list)
  self.out[#self.out + 1] = ok and v or "failed"
end

--- Keeps what f makes, to be read at the end.
function Script:keep(f, ...)
  local ok, y = try(f, ...)
  self.kept[#self.kept + 1] = ok and y or "failed"
end

-- ---- a round ------------------------------------------------------------------------------------

--- Positions for call k of this round, of which one is out of range if 'what' is bad there.
function Script:positions(k, net, what, count, n)
  local list = {}
  for j = 1, count do list[j] = (j * self.i + k) % n + 1 end
  if self.round.bad[k] == what then list[self.i % count + 1] = 1000 * self.i + k end
  local made = flame.tensor(list, { dtype = (self.i + k) % 3 == 0 and what ~= "targets" and "i32"
    or "i64" })
  local _, at = reread(made.to, made, net.device)                   -- it may tell an earlier run
  return at
end

--- Makes all positions of this round, as a loader of data would.
function Script:load()
  self.at = {}
  for k = 1, self.program.micro * #self.nets do
    local net = self.nets[(k - 1) % #self.nets + 1]
    local at = { labels = self:positions(k, net, "labels", ROWS, CLASSES),
      rows = self:positions(k, net, "rows", ROWS, ROWS),
      words = self:positions(k, net, "words", ROWS, WORDS),
      targets = self:positions(k, net, "targets", ROWS, ROWS) }
    at.elements = self:positions(k, net, "elements", ROWS * COLUMNS, COLUMNS)
    at.elements = at.elements:long():reshape(ROWS, COLUMNS)
    self.at[k] = at
  end
end

local function input(net, at)
  local spec, h = net.spec, net.x
  if spec.rows then h = h:index_select(1, at.rows) end
  if spec.words then h = h + net.words(at.words) end
  if spec.elements then h = h + net.x:gather(2, at.elements) end
  if spec.targets then h = h + flame.zeros_like(net.x):index_add(1, at.targets, net.x) end
  return h
end

local losses = {
  smooth = function(y, at) return flame.cross_entropy(y, at, { label_smoothing = 0.1 }) end,
  sum = function(y, at) return flame.cross_entropy(y, at, { reduction = "sum" }) * 0.2 end,
  ignore = function(y, at) return flame.cross_entropy(y, at, { ignore_index = 2 }) end,
  nll = function(y, at) return flame.nll_loss(y:log_softmax(2), at) end,
  picked = function(y, at)
    return -y:log_softmax(2):gather(2, at:long():reshape(ROWS, 1)):mean()
  end,
}

function Script:loss_of(k, net, other)
  local spec, loss_by = net.spec, losses[self.program.loss] or flame.cross_entropy
  local function forward(h)
    if other then h = h + other:to(h.dtype) * 0.1 end
    h = spec.remakes and flame.checkpoint(net.first, h) or net.first(h)
    if spec.kernel then h = soft(h:float()):to(net.x.dtype) end
    if net[1] then h = h * (net[1] + 1):to(h.dtype) + net[2]:to(h.dtype) end
    local loss = loss_by(net.last(h), self.at[k].labels)
    if self.program.penalty and not spec.remakes and flame.is_grad_enabled() then
      local g = loss:gradients(h, { create_graph = true })[h]
      loss = loss + g:float():square():sum():to(loss.dtype) * 0.1
    end
    return loss
  end
  local cast = self.program.how:match "^cast (.*)"
  local h = input(net, self.at[k])
  return cast and flame.autocast(cast, forward, h) or forward(h)
end

--- The loss of another net, detached, on the device of 'net'. If it is already known to have
--- failed: nil, and 'net' is lost in this round.
function Script:from_other(net, loss)
  local ok, y = reread(function() return loss:detach():to(net.device) end)
  net.lost = net.lost or not ok
  return ok and y or nil
end

local meanwhile = {
  eval = function() try(flame.eval) end,
  collect = function() collectgarbage() end,
  read = function(self, loss) self:read(loss:detach()) end,
  thread = function(self, loss)
    local f = coroutine.wrap(function()
      coroutine.yield(flame.no_grad(function() return loss * 2 end))
      return loss:detach() * 3
    end)
    self:keep(f)
    self:keep(f)
  end,
}

--- What backward does, by 'gradients'.
local function add_gradients(loss, net)
  local tracked = {}
  for _, p in ipairs(net.params) do if p.requires_grad then tracked[#tracked + 1] = p end end
  for p, g in pairs(loss:gradients(tracked, { allow_unused = true })) do
    p.grad = p.grad and p.grad + g or g
  end
end

--- The gradients of call k for a net.
function Script:backward(k, net, other)
  other = other and self:from_other(net, other)
  if net.lost then return self.loss end
  local loss = self:loss_of(k, net, other)
  if self.round.huge and self.scaler then loss = loss * 1e38 end
  self.loss = loss
  try(function()
    local scaled = self.scaler and self.scaler:scale(loss) or loss
    if self.program.gradients then add_gradients(scaled, net) else scaled:backward() end
  end)
  local act = meanwhile[self.program.meanwhile]
  if act then act(self, loss) end
  return loss
end

function Script:gradients(nets)
  for m = 1, self.program.micro do
    local last
    for t, net in ipairs(nets) do
      local k = (m - 1) * #self.nets + t
      last = self:backward(k, net, self.program.crosses and last or nil)
    end
  end
  return self.loss
end

local function descend_by(p, rule)
  if rule == "kernel" then p:copy_(descend(p:float(), p.grad:float(), 0.1))
  elseif rule == "hand" then p:sub_(p.grad * 0.1)
  else
    p.grad:mul_(0.1)
    p:sub_(p.grad)
  end
end

function Script:by_hand(params)
  for _, p in ipairs(params) do
    if p.grad then try(flame.no_grad, descend_by, p, self.program.rule) end
  end
  if not self.program.waits or self.i % 3 > 0 then try(flame.eval) end
end

--- One update of what 'part' has: an optimiser or none, parameters, nets.
function Script:update(part)
  local opt, scaler = part.opt, self.scaler
  if scaler and opt and self.program.clips then
    self:redo(opt, false, scaler.unscale, scaler, opt)
  end
  if self.program.clips then try(nn.utils.clip_grad_norm_, part.params, 1) end
  if not opt then return self:by_hand(part.params) end
  if scaler then self:redo(opt, false, scaler.step, scaler, opt)
  else self:redo(opt, false, opt.step, opt) end
end

function Script:train()
  local program = self.program
  self.loader()
  local closure = program.closure and not self.scaler and self.parts[1].opt
  for _, part in ipairs(self.parts) do
    if self.round.zero and program.zeros and part.opt then part.opt:zero_grad(false)
    elseif self.round.zero then for _, p in ipairs(part.params) do p.grad = nil end end
    for _, net in ipairs(part.nets) do net.lost = false end
  end
  if closure and #self.nets == 1 then
    self:redo(closure, true, function()
      closure:step(function()
        closure:zero_grad()
        return self:gradients(self.nets)
      end)
    end)
  else
    self:gradients(self.nets)
    for _, part in ipairs(self.parts) do
      local lost = false
      for _, net in ipairs(part.nets) do lost = lost or net.lost end
      if not lost then self:update(part) end
    end
  end
  if self.scaler and self.parts[1].opt then try(self.scaler.update, self.scaler) end
end

function Script:after()
  local program = self.program
  for _, part in ipairs(self.parts) do
    if part.schedule then part.schedule:step() end
  end
  for j, mean in ipairs(self.means) do
    try(flame.no_grad, function() mean:mul_(0.9):add_(self.nets[1].params[j] * 0.1) end)
  end
  if self.model then try(self.model.update_parameters, self.model, self.nets[1].all) end
  for _, p in ipairs(program.clamps and self.nets[1].params or {}) do
    try(flame.no_grad, p.clamp_, p, -0.3, 0.3)
  end
  if program.keeps then self.kept[#self.kept + 1] = self.loss end
end

local act = dofile("spec/support/late_acts.lua")(try, reread)
for _, list in ipairs { M.between, more } do
  for _, name in ipairs(list) do assert(act[name], name) end
end

-- ---- whole scripts ------------------------------------------------------------------------------

local function groups_of(params)
  local groups = { { params = {} }, { params = {}, lr = 0.01 } }
  for i, p in ipairs(params) do table.insert(groups[i % 2 + 1].params, p) end
  return groups
end

local function parts_of(program, nets)
  local parts = {}
  local function add(list)
    local part, seen = { nets = list, params = {} }, {}
    for _, net in ipairs(list) do
      for _, p in ipairs(net.params) do
        if not seen[p] then part.params[#part.params + 1] = p end
        seen[p] = true
      end
    end
    part.opt = rules[program.rule] and rules[program.rule](program.groups
      and groups_of(part.params) or part.params)
    if part.opt and program.schedule then
      part.schedule = optim.schedule.cosine { opt = part.opt, steps = 20 }
    end
    parts[#parts + 1] = part
  end
  if program.joint then add(nets) else for _, net in ipairs(nets) do add { net } end end
  return parts
end

local function start(program, devices)
  flame.seed(program.seed)
  local nets = {}
  for t, spec in ipairs(program.nets) do
    nets[t] = make_net(spec, program, devices[program.two and t or 1], program.tied and nets[1])
  end
  local self = setmetatable({ program = program, devices = devices, nets = nets, out = {},
    kept = {}, parts = parts_of(program, nets), means = {}, p = nets[1].params[1] }, Script)
  self.other = flame.ones(3, { device = devices[#devices] })
  self.loader = not program.loads and function() self:load() end or coroutine.wrap(function()
    while true do
      self:load()
      coroutine.yield()
    end
  end)
  if program.how == "cast f16" then self.scaler = optim.GradScaler { init_scale = 1024 } end
  if program.average == "hand" then
    for j, p in ipairs(nets[1].params) do self.means[j] = p:detach():clone() end
  elseif program.average == "model" then
    self.model = nn.AveragedModel(nets[1].all, { decay = 0.9 })
  end
  return self
end

function Script:finish()
  for _, part in ipairs(self.parts) do
    if part.opt then
      reread(part.opt.state_dict, part.opt)
      self.out[#self.out + 1] = part.opt.steps
      self.out[#self.out + 1] = part.opt.lr
    end
    for _, p in ipairs(part.params) do self:read(p) end
    for _, p in ipairs(part.opt and part.params or {}) do
      local of = part.opt.state[p] or {}
      self.out[#self.out + 1] = of.step
      for _, name in ipairs { "mu_product", "mu", "eta" } do self.out[#self.out + 1] = of[name] end
      for _, name in ipairs { "exp_avg", "exp_avg_sq", "momentum_buffer", "square_avg", "sum",
        "max_exp_avg_sq", "acc_delta", "exp_inf", "ax", "count" } do
        if of[name] then self:read(of[name]) end
      end
    end
  end
  for _, net in ipairs(self.nets) do
    for _, b in ipairs(net.all:buffers()) do self:read(b) end
  end
  for _, t in ipairs(self.kept) do self:read(t) end
  if self.table then self:read(self.table) end
  for _, t in ipairs(self.means) do self:read(t) end
  for _, t in ipairs(self.model and self.model.module:parameters() or {}) do self:read(t) end
  if self.scaler then self.out[#self.out + 1] = self.scaler:get_scale() end
  self:read(flame.rand(2))
  return self.out
end

--- Runs a program with its nets on these two devices. Returns what was read, and the optimiser's
--- numbers.
function M.run(program, devices)
  local self = start(program, devices)
  for i, round in ipairs(program.rounds) do
    self.i, self.round = i, round
    self:train()
    self:after()
    for _, what in ipairs(round.between) do act[what](self) end
  end
  return self:finish()
end

--- What differs between two results: a text, or nil.
function M.difference(program, a, b)
  local most = tolerance(program)
  return late.difference(a, b, function(u, v)
    return u == v or u ~= u and v ~= v or math.abs(u - v) <= most * (1 + math.abs(u))
  end)
end

return M
