--- Adds functions on finished random programs to P (programs.lua): they count the kinds of steps,
--- all of which a run of the specs must include, and copy programs with other numbers or slices.
local P = ...
local O = P.oracle

--- Adds to counts[kind] how often a program has steps of each kind that the specs must include.
function P.count(program, counts)
  local function hit(name) counts[name] = (counts[name] or 0) + 1 end
  local group, uses, stale, chain, pending, last = {}, {}, {}, 0, false, nil
  if program.scalar then hit "0-d" end
  if program.empty then hit "empty" end
  local function read(k)
    if stale[k] then hit "read after the source changed" end
    stale[k] = nil
  end
  for _, s in ipairs(program.steps) do
    if s.f == "set" or s.f == "inplace" then
      local shared = false
      for k, v in pairs(group) do
        if k ~= s.a and v == group[s.a] then shared = true end
        if k ~= s.a and uses[k] and uses[k][s.a] then stale[k] = true end
      end
      if shared then hit "write under a live snapshot" end
      group[s.a] = {}
    elseif s.f == "del" then group[s.a], stale[s.a] = nil, nil
    elseif s.f == "dead" then hit "dead random op"
    elseif s.f == "refuse" then hit "refused write to a view"
    elseif (s.f == "error" or s.f == "late" or s.f == "missed") and pending then
      hit "error in mid-window"
    elseif s.f == "read" then read(s.a)
    elseif s.o and s.f ~= "gc" and s.f ~= "backward" then
      group[s.o] = s.f == "view" and group[s.a] or {}
      uses[s.o] = { [s.a or 0] = true, [s.b or 0] = true }
    end
    if (s.f == "bin" or s.f == "un") and s.a == last then
      chain = chain + 1
      if chain == 8 then hit "budget cut inside a chain" end
    elseif s.f ~= "del" then chain = 0 end
    if s.f ~= "del" then last = s.o end
    pending = s.f ~= "read" and (pending or s.f == "bin" or s.f == "un")
  end
  for k in pairs(stale) do read(k) end
end

--- Adds 1 to counts[kind] for each kind below of which a mixed program has a step.
local ROWS = { softmax = true, layer_norm = true, cross_entropy = true }
function P.count_mixed(program, counts)
  local seen, halves, widened = {}, {}, {}
  for _, s in ipairs(program.steps) do
    if s.f == "leaf" then
      seen[(s.how or "given") .. " leaf"] = true
      seen[s.dtype .. " leaf"] = true
      halves[s.o] = O.types[s.dtype].top and s.how ~= "pending"
      for _, n in ipairs(s.shape) do if n == 0 then seen["leaf without elements"] = true end end
    elseif s.f == "cast" then
      seen["cast to " .. s.dtype] = true
      widened[s.o] = s.dtype == "f32" and halves[s.a]
    elseif s.f == "red" then
      seen["reduction"] = true
      if widened[s.a] then seen["reduction of widened halves"] = true end
      if s.axes and s.axes[1] == 1 and not s.axes[2] then
        seen["reduction of the first axis"] = true
      end
    elseif s.f == "eval" then
      seen[#s.list > 1 and "evaluated together" or "evaluated alone"] = true
      if #s.drop > 0 then seen["given up before"] = true end
    elseif s.f == "set" or s.f == "inplace" then seen["write"] = true
    elseif s.f == "view" then seen["view"] = true
    elseif s.f == "join" then seen["join"] = true
    elseif s.f == "backward" then seen["backward"] = true
    elseif ROWS[s.f] then seen["row program"] = true end
  end
  if program.long then seen["long"] = true end
  for name in pairs(seen) do counts[name] = (counts[name] or 0) + 1 end
end

local function copy(t)
  if type(t) ~= "table" then return t end
  local u = {}
  for k, v in pairs(t) do u[k] = copy(v) end
  return u
end
--- A copy with other float constants. The library can run it with the plans of the original.
function P.other_numbers(program)
  local twin = copy(program)
  for _, s in ipairs(twin.steps) do
    if math.type(s.n) == "float" then s.n = s.n * 0.5 + 0.0625 end
  end
  return twin
end
--- A copy that reads its slices in reverse order: it has the same ops, shapes and inputs, but needs
--- other plans. Returns nil if the program has no slice to reverse.
function P.other_slices(program)
  local twin, changed = copy(program), false
  for _, s in ipairs(twin.steps) do
    for d, k in ipairs(s.f == "view" and s.op == "slice" and s.arg or {}) do
      if type(k) == "table" and #k == 3 then
        local first = k[1] < 0 and s.from[d] + 1 + k[1] or k[1]
        local n = (k[2] - first) // k[3] + 1
        if n > 1 then k[1], k[2], k[3], changed = first + (n - 1) * k[3], first, -k[3], true end
      end
    end
  end
  return changed and twin or nil
end
