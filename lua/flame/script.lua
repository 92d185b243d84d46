--- For training scripts: options of the command line, and a progress line.
local flame = require "flame"
local internal = flame.internal
local objects = require "flame.base.objects"

local script = {}

-- Adds a function to the table t; text declares its name and arguments (src/lua/declare.h).
local function put(t, text, f) t[text:match("([%w_]+)%(")] = internal.declare(text, "", f) end

-- ---- options ---------------------------------------------------------------------------------

-- The edit distance of two words.
local function distance(a, b)
  local row = {}
  for j = 0, #b do row[j] = j end
  for i = 1, #a do
    local diagonal = row[0]
    row[0] = i
    for j = 1, #b do
      local change = diagonal + (a:byte(i) == b:byte(j) and 0 or 1)
      diagonal = row[j]
      row[j] = math.min(row[j] + 1, row[j - 1] + 1, change)
    end
  end
  return row[#b]
end

local function nearest(name, spec)
  local best, least
  for _, entry in ipairs(spec) do
    local d = distance(name, entry[1])
    if not least or d < least then best, least = entry[1], d end
  end
  return best
end

local function stop(message)
  io.stdout:flush()
  io.stderr:write(message, " (--help lists the options)\n")
  os.exit(1, true)
end

local function show_help(name, spec)
  local wide = 0
  for _, entry in ipairs(spec) do wide = math.max(wide, #entry[1]) end
  print(("usage: flame-lua %s [--name value] …"):format(name))
  for _, entry in ipairs(spec) do
    local default = entry[2] ~= "" and (" (%s)"):format(entry[2]) or ""
    print(("  --%s%s  %s%s"):format(entry[1], (" "):rep(wide - #entry[1]), entry[3] or "", default))
  end
  os.exit(0, true)
end

-- Converts a text to the type of the option's default.
local function typed(entry, text)
  local default = entry[2]
  if type(default) == "boolean" then
    if text == "true" or text == "false" then return text == "true" end
    stop(("--%s is true or false, got '%s'"):format(entry[1], text))
  end
  if type(default) ~= "number" then return text end
  local v = tonumber(text)
  if not v then stop(("--%s needs a number, got '%s'"):format(entry[1], text)) end
  if math.type(default) == "float" then return v + 0.0 end
  return math.tointeger(v) or stop(("--%s needs a whole number, got '%s'"):format(entry[1], text))
end

--- Options of a script from its arguments, the global arg. spec: a list of {name, default, help}; a
--- value has its default's type. Takes --name value, --name=value, and --name alone for true.
--- --help prints the list and ends the program; a mistake ends it with exit code 1.
put(script, "data.options(arguments?: str[], spec: table[]) -> table", function(arguments, spec)
  local values, entries = {}, {}
  arguments = arguments or {}
  for _, entry in ipairs(spec) do values[entry[1]], entries[entry[1]] = entry[2], entry end
  local i = 1
  while i <= #arguments do
    local word = arguments[i]
    local name, value = word:match("^%-%-([^=]+)=(.*)$")
    name = name or word:match("^%-%-(.+)$")
    if word == "--help" or word == "-h" then show_help(arguments[0] or "script.lua", spec) end
    if not name then stop(("unexpected '%s'"):format(word)) end
    local entry = entries[name]
    if not entry then
      stop(("no option --%s; the nearest is --%s"):format(name, nearest(name, spec) or "help"))
    end
    if not value and type(entry[2]) == "boolean" then
      value = "true"
    elseif not value then
      i = i + 1
      value = arguments[i] or stop(("--%s needs a value"):format(name))
    end
    values[name] = typed(entry, value)
    i = i + 1
  end
  return values
end)

-- ---- progress -----------------------------------------------------------------------------------

-- Its fields: done and last are the last step and its time; mark and marked those of the last line
-- that was printed, from which rates are computed; drawn is when the line was drawn, 0: there is
-- none; read is the step whose loss was read last; keep: losses are read without a terminal too.
local Progress = { __name = "Progress" }
objects.classes.Progress = Progress
Progress.__index = Progress
script.Progress = Progress

local REFRESH, READ_EVERY = 0.2, 50     -- seconds between drawings, steps between reads of the loss
local KEPT = 512                        -- most losses that are stored for the curve

local function duration(seconds)
  local s = math.floor(seconds + 0.5)
  if s >= 3600 then return ("%d:%02d:%02d"):format(s // 3600, s // 60 % 60, s % 60) end
  return ("%d:%02d"):format(s // 60, s % 60)
end

-- 12345678 -> "12.3 M"; written without the locale's decimal point.
local function count(v)
  for _, scale in ipairs { { 1e9, " G" }, { 1e6, " M" }, { 1e4, " k" } } do
    if v >= scale[1] then
      local tenths = math.floor(v / scale[1] * (scale[1] == 1e4 and 100 or 10) + 0.5)
      return ("%d.%d%s"):format(tenths // 10, tenths % 10, scale[2])
    end
  end
  return ("%d"):format(math.floor(v + 0.5))
end

--- A progress line for a loop of 'steps'. p:tick(step, loss) is called in each, p:line(step, text)
--- prints a line that stays, and p:plot() gives the curve of the losses. 'from' steps were done
--- before; a step is 'each' units. On a terminal the line includes a curve of the loss, 16 or
--- 'curve' characters wide.
put(script, [[data.progress(*, steps: int, from: int = 0, unit = "steps", each = 1, curve?: int)
  -> Progress]], function(steps, from, unit, each, curve)
  if curve and (curve < 0 or curve > 200) then
    internal.fail("progress", ("curve must be an integer from 0 to 200, got %d"):format(curve))
  end
  local now = internal.io_now()
  return setmetatable({ steps = steps, unit = unit, each = each, from = from, start = now,
    done = from, last = now, mark = from, marked = now, drawn = 0, read = -READ_EVERY,
    terminal = internal.io_terminal(), curve = curve or 16, keep = curve ~= nil, steps_read = {},
    losses = {} }, Progress)
end)

local function rate(self)
  local seconds = self.last - self.marked
  if self.done <= self.mark or seconds <= 0 then return nil end
  return (self.done - self.mark) * self.each / seconds
end

local function rate_text(self)
  local r = rate(self)
  return r and ("  %s %s/s"):format(count(r), self.unit) or ""
end

local function wipe(self)
  if self.terminal and self.drawn > 0 then io.write("\r\27[K") end
end

-- Stores a loss; if there are too many, pairs of neighbours are first replaced by their means.
local function keep(self, step, loss)
  local steps, losses = self.steps_read, self.losses
  if #losses >= KEPT then
    for i = 1, KEPT // 2 do
      steps[i], losses[i] = steps[2 * i], (losses[2 * i - 1] + losses[2 * i]) / 2
    end
    for i = KEPT // 2 + 1, KEPT do steps[i], losses[i] = nil, nil end
  end
  steps[#steps + 1], losses[#losses + 1] = step, loss
end

local blocks = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" }
-- The losses as blocks of different heights; NaN and infinities are "!".
local function curve_of(losses, columns)
  local n, lo, hi = #losses, math.huge, -math.huge
  for _, v in ipairs(losses) do
    if v > -math.huge and v < math.huge then lo, hi = math.min(lo, v), math.max(hi, v) end
  end
  local out = {}
  for c = 1, math.min(n, columns) do
    local first, last, sum = (c - 1) * n // math.min(n, columns) + 1,
      c * n // math.min(n, columns), 0
    for i = first, last do sum = sum + losses[i] end
    local t = (sum / (last - first + 1) - lo) / (hi > lo and hi - lo or 1)
    out[c] = t == t and math.abs(t) < 2
      and blocks[math.max(1, math.min(8, math.floor(t * 7.999) + 1))] or "!"
  end
  return #out > 1 and "  " .. table.concat(out) or ""
end

--- Called after each step. On a terminal the line is drawn at most five times per second, and the
--- loss (a 0-d tensor, a number or nil) is read at most every 50 steps, since reading waits for its
--- computation. The last step's line is always drawn, and stays. If the output is no terminal, the
--- loss is read only if 'curve' was given.
put(Progress, "Progress:tick(step: int, loss?: T|num)", function(self, step, loss)
  self.done, self.last = step, internal.io_now()
  local ends = self.terminal and step == self.steps
  local due = ends or self.terminal and self.last - self.drawn >= REFRESH
  if loss and (ends or step - self.read >= READ_EVERY and (due or self.keep)) then
    local v = flame.is_tensor(loss) and loss:item() or loss
    self.read, self.loss = step, ("  loss %.3f"):format(v)
    keep(self, step, v)
  end
  if not due then return end
  local spent, speed = self.last - self.start, rate(self)
  local left = speed and (self.steps - step) * self.each / speed
  wipe(self)
  io.write(("step %d/%d%s%s%s  %s%s%s"):format(step, self.steps, self.loss or "",
    curve_of(self.losses, self.curve), rate_text(self), duration(spent),
    left and not ends and " of " .. duration(spent + left) or "", ends and "\n" or ""))
  io.flush()
  self.drawn = ends and 0 or self.last
end)

--- Prints a line that stays: the step, a text, the rate since the last such line, the time.
put(Progress, "Progress:line(step: int, text: any)", function(self, step, text)
  wipe(self)
  local now = internal.io_now()
  if self.done <= self.mark then self.done, self.last = step, now end
  print(("step %d/%d  %s%s  %s"):format(step, self.steps, text, rate_text(self),
    duration(now - self.start)))
  io.flush()
  self.done, self.mark, self.last, self.marked, self.drawn = step, step, internal.io_now(),
    internal.io_now(), 0
end)

--- The curve of the losses that were read, as a plot.
put(Progress, "Progress:plot() -> Plot", function(self)
  return require("flame.plot").new({ xlabel = "step", ylabel = "loss" })
    :line(self.steps_read, self.losses)
end)

return script
