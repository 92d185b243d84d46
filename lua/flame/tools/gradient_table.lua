--- Statistics of gradients: flame.gradients_table, with a row for each parameter of a network, and
--- flame.backward_trace, with a row for each step of a backward. The numbers of all rows are read
--- at once.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local fail, def, is_tensor = arguments.fail, arguments.def, flame.is_tensor

-- Decades of the histograms: from 10^LEAST to 10^MOST; magnitudes outside count in the first and
-- the last.
local LEAST <const>, MOST <const> = -10, 2
-- A gradient's size is its root mean square. A size that differs by the factor FAR from the median
-- of all is reported if it is also below SMALL or above LARGE: so if the first layers get small
-- gradients, those of the last are not called large. TINY: a step of rate 1 does not change a
-- weight of 1 in f32. HUGE: f16 would soon overflow.
local FAR <const>, SMALL <const>, LARGE <const> = 1e2, 1e-4, 1
local TINY <const>, HUGE <const> = 1e-7, 1e4
local BARS <const> = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" }

--- Facts of a gradient as one vector on the CPU: largest magnitude, norm, numbers of NaN,
--- infinities and zeros; with decades also the number of the other elements in each decade.
local function facts_of(g, with_decades)
  local v = g:detach()
  v = (v.dtype == "f64" and v or v:float()):reshape(-1):abs()
  local nan, fine = v:isnan(), v:isfinite()
  local clean = flame.where(fine, v, 0.0)
  local most = clean:amax()
  -- elements are divided by the largest before they are squared: large squares would overflow
  local norm = most * (clean / flame.where(most:gt(0), most, 1.0)):square():sum():sqrt()
  local function count(mask) return mask:sum():double() end
  local none = clean:eq(0)
  local list = { most:double(), norm:double(), count(nan),
    count(fine:logical_or(nan):logical_not()), count(none:logical_and(fine)) }
  local facts = flame.stack(list, 1)
  if not with_decades then return facts:cpu() end
  local decade = flame.where(none, MOST + 1.0, clean:log10():clamp(LEAST, MOST))
  return flame.cat({ facts, decade:histc(MOST - LEAST, LEAST, MOST):double() }, 1):cpu()
end

--- Fills rows[i] with max, norm, rms, nan, inf, zeros and decades of gradient gs[i].
local function measure(rows, gs, with_decades)
  local facts, of = {}, {}
  for i, row in ipairs(rows) do
    local g = gs[i]
    if g and g:numel() > 0 then
      facts[#facts + 1], of[#of + 1] = facts_of(g, with_decades), row
      row.numel = g:numel()
    elseif g then
      row.numel, row.max, row.norm, row.rms, row.nan, row.inf, row.zeros = 0, 0, 0, 0, 0, 0, 0
    end
  end
  for i, f in ipairs(#facts > 0 and flame.stack(facts, 1):totable() or {}) do
    local row = of[i]
    row.max, row.norm, row.rms = f[1], f[2], f[2] / math.sqrt(row.numel)
    row.nan, row.inf, row.zeros = f[3] // 1 | 0, f[4] // 1 | 0, f[5] // 1 | 0
    if with_decades then
      row.decades = {}
      for k = 6, #f do row.decades[k - 5] = f[k] // 1 | 0 end
    end
  end
end

-- ---- marks ------------------------------------------------------------------------------------
local function median_size(rows)
  local sizes = {}
  for _, row in ipairs(rows) do
    local clean = row.rms and row.nan == 0 and row.inf == 0
    if clean and row.rms > 0 then sizes[#sizes + 1] = row.rms end
  end
  table.sort(sizes)
  return sizes[(#sizes + 1) // 2]
end

local function mark_of(row, median)
  if not row.norm then return row.frozen and "frozen" or "none" end
  if row.nan > 0 then return "NaN" end
  if row.inf > 0 then return "Inf" end
  if row.numel == 0 then return "" end
  if row.norm == 0 then return "zero" end
  local high, low = row.rms > FAR * median, row.rms * FAR < median
  if row.max > HUGE or (high and row.rms > LARGE) then return "exploding" end
  if row.rms < TINY or (low and row.rms < SMALL) then return "vanishing" end
  return row.ratio == 0 and "unchanged" or ""
end

-- ---- text -------------------------------------------------------------------------------------
-- with a point, whatever the host's locale writes
local function number(v) return v and (("%.3g"):format(v):gsub(",", ".")) or "" end
local function counted(n) return n and n > 0 and ("%d"):format(n) or "" end

--- "▁▂█▁": bars for the counts of the decades.
local function bars(decades)
  local most = decades and math.max(table.unpack(decades)) or 0
  if most == 0 then return "" end
  local out = {}
  for i, n in ipairs(decades) do
    out[i] = n == 0 and " " or BARS[1 + (#BARS - 1) * n // most]
  end
  return table.concat(out)
end

--- Rows of texts as lines, with columns as wide as their texts; the first column, and those from
--- row.left on, are aligned at the left.
local function laid_out(rows)
  local widths, lines = {}, {}
  for _, row in ipairs(rows) do
    for k, text in ipairs(row) do
      widths[k] = math.max(widths[k] or 0, utf8.len(text) or #text)
    end
  end
  for i, row in ipairs(rows) do
    local parts = {}
    for k, text in ipairs(row) do
      local pad = (" "):rep(widths[k] - (utf8.len(text) or #text))
      local left = k == 1 or row.left and k >= row.left
      parts[k] = left and text .. pad or pad .. text
    end
    lines[i] = (table.concat(parts, "  "):gsub(" +$", ""))
  end
  return table.concat(lines, "\n")
end

local function shape_text(shape) return "(" .. table.concat(shape, ", ") .. ")" end

-- ---- a row for each parameter -----------------------------------------------------------------
---@class flame.GradientsTable
---@field step boolean      whether a step was made and rows have a ratio
local Table = { __name = "flame.GradientsTable" }

-- t[i] is row i, t["1.weight"] the row of a parameter
function Table.__index(self, key)
  if type(key) ~= "string" then return nil end
  for _, row in ipairs(self) do if row.name == key then return row end end
end

function Table:__tostring()
  local lines = { { "parameter", "shape", "norm", "max", "NaN", "Inf", "zeros", "update/weight",
    ("1e%d…1e%d"):format(LEAST, MOST), "", left = 9 } }
  for i, row in ipairs(self) do
    local part = row.numel and row.numel > 0 and row.zeros / row.numel or 0
    lines[i + 1] = { row.name, shape_text(row.shape), number(row.norm), number(row.max),
      counted(row.nan), counted(row.inf),
      part > 0 and ("%d %%"):format(math.ceil(100 * part)) or "",
      number(row.ratio), bars(row.decades), row.mark .. (row.why and ": " .. row.why or ""),
      left = 9 }
  end
  return laid_out(lines)
end

--- A list of {name, tensor}, for net: a module, a tensor, or a list or table of tensors.
local function parameters_of(op, net)
  local list = {}
  if is_tensor(net) then return { { "1", net } } end
  if net.named_parameters then
    for name, p in net:named_parameters() do list[#list + 1] = { name, p } end
    return list
  end
  for k, p in pairs(net) do
    if not is_tensor(p) then
      fail(op, "%s is a %s, need a module or a table of tensors", tostring(k), type(p))
    end
    list[#list + 1] = { tostring(k), p, math.type(k) == "integer" and k or math.huge }
  end
  table.sort(list, function(a, b)
    if a[3] ~= b[3] then return a[3] < b[3] end
    return a[1] < b[1]
  end)
  return list
end

--- Runs step; sets each row's weight (the parameter's norm) and ratio (its change's norm / weight).
local function take_step(rows, list, step)
  local before = {}
  for i, e in ipairs(list) do
    before[i] = e[2]:is_floating_point() and e[2]:detach():clone() or false
  end
  flame.eval()
  if type(step) == "function" then step() else step:step() end
  local moved, old, of = {}, {}, {}
  for i, e in ipairs(list) do
    if before[i] and before[i]:numel() > 0 then
      local k = #of + 1
      moved[k] = e[2]:detach():double() - before[i]:double()
      old[k], of[k] = before[i], rows[i]
    end
  end
  local now, was = {}, {}
  for k in ipairs(of) do now[k], was[k] = {}, {} end
  measure(now, moved)
  measure(was, old)
  for k, row in ipairs(of) do
    row.weight = was[k].norm
    if was[k].norm > 0 then row.ratio = now[k].norm / was[k].norm end
  end
end

--- A row for each parameter of a module, or of a table of tensors: {name, shape, dtype, numel,
--- norm, max, rms, nan, inf, zeros (how many are 0), decades (how many are of each power of ten
--- from 1e-10 to 1e2), mark, why}; it prints as a table. The mark is "none" (no gradient: why says
--- the reason), "frozen", "NaN", "Inf", "zero", "exploding", "vanishing" or "". With step, an
--- optimiser or a function, that step is made and rows have ratio, the norm of the update divided
--- by that of the weight; the mark "unchanged" means that the step did not change the weight.
def(".gradients_table(net: table|T, *, step?: table|fn) -> GradientsTable", function(net, step)
  if type(step) == "table" and type(step.step) ~= "function" then
    fail("gradients_table", "step is a table without a step(), need an optimiser or a function")
  end
  local list, gs = parameters_of("gradients_table", net), {}
  local self = setmetatable({ step = step ~= nil }, Table)
  for i, e in ipairs(list) do
    local p = e[2]
    local g = p.grad
    gs[i] = g or false
    rawset(self, i, { name = e[1], shape = p.shape, dtype = p.dtype,
      frozen = not g and not p.requires_grad,
      why = not g and p.requires_grad and p:why() or nil })
  end
  flame.no_grad(function()
    measure(self, gs, true)
    if step then flame.enable_grad(take_step, self, list, step) end
  end)
  local median = median_size(self) or 0
  for _, row in ipairs(self) do row.mark = mark_of(row, median) end
  return self
end)

-- ---- a row for each step of a backward --------------------------------------------------------
---@class flame.BackwardTrace
local Trace = { __name = "flame.BackwardTrace" }
Trace.__index = Trace

function Trace:__tostring()
  local lines = { { "step", "line", "shape", "norm", "max", "NaN", "Inf", "", left = 8 } }
  for i, row in ipairs(self) do
    lines[i + 1] = { row.op, row.line, shape_text(row.shape), number(row.norm), number(row.max),
      counted(row.nan), counted(row.inf), row.mark, left = 8 }
  end
  return laid_out(lines)
end

local function names_of(net)
  local names = {}
  for _, e in ipairs(net and parameters_of("backward_trace", net) or {}) do
    names[internal.handle(e[2])] = e[1]
  end
  return names
end

local watching = false

--- Calls f; adds to self a row for each step of its backward passes, and its gradient to gs.
local function watched(self, gs, names, f)
  if watching then fail("backward_trace", "one is on already") end
  local _ <close> = setmetatable({}, { __close = function()
    watching = false
    internal.watch_walks(nil)
  end })
  watching = true
  internal.watch_walks(function(op, line, handle, g)
    local name = op ~= "" and op or handle and names[handle] or "leaf"
    self[#self + 1] = { op = name, line = line, shape = g.shape, dtype = g.dtype,
      leaf = op == "", mark = "" }
    gs[#self] = g:detach()
  end)
  f()
end

--- Runs the backward of a tensor, or a function that makes backwards, and lists each step in order:
--- {op, line, shape, dtype, leaf, norm, max, rms, nan, inf, mark}: the op that computed the value,
--- and statistics of the value's gradient; for a leaf also its name in net, if that is given. The
--- first row with a NaN or Inf has a mark. It prints as a table. All gradients are held until the
--- end.
def(".backward_trace(x: T|fn, *, net?: table|T) -> BackwardTrace", function(x, net)
  local self, gs = setmetatable({}, Trace), {}
  watched(self, gs, names_of(net), is_tensor(x) and function() x:backward() end or x)
  flame.no_grad(measure, self, gs)
  for _, row in ipairs(self) do
    if row.nan > 0 or row.inf > 0 then
      row.mark = "the first " .. (row.nan > 0 and "NaN" or "Inf")
      break
    end
  end
  return self
end)
