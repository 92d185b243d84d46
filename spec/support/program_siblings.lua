--- Two kinds of steps of random programs (programs.lua). 'siblings': values are cut into slices
--- along an axis, the same is computed from each slice, the results are joined again along some
--- axis, and slices of the joined value are read; the library may do all of this in one kernel.
--- 'crossed': writes that have to wait. Of two evaluated arrays the first is written, then the
--- second with old values of the first, and a kernel that checks positions must run before both.
--- tools: the functions of program_draw.lua and others with which programs.lua draws.
return function(tools)
  local O, pick, x_of = tools.O, tools.pick, tools.x_of

  local function view(g, a, d, k, n)
    return g.emit { f = "view", op = "narrow", a = a, isview = true, arg = { d, k, n or 1 } }
  end
  local function same_shape(x, y)
    return table.concat(x.shape, ",") == table.concat(y.shape, ",")
  end

  --- A random axis along which x has 2 to 5 elements, or nil.
  local function short_axis(g, x)
    local list = {}
    for d, n in ipairs(x.shape) do if n > 1 and n <= 5 then list[#list + 1] = d end end
    return #list > 0 and g.r.pick(list) or nil
  end

  --- Adds a few steps that combine slice k of a with slices of b; returns their result, or nil.
  local function part(g, a, b, d, k)
    local r, n = g.r, x_of(g, a).shape[d]
    local p = view(g, a, d, k)
    for _ = 1, p and r.int(0, 3) or 0 do
      local q = view(g, b, d, r.int(1, n))
      local s = { f = "bin", op = r.pick { "add", "mul", "sub", "mul" }, a = p, b = q }
      if r.chance(0.2) then s.b, s.n = nil, r.int(-3, 3) / 2 end
      if x_of(g, p).dtype == "bool" or not s.n and not q then break end
      if s.n and not O.is_float(x_of(g, p).dtype) then s.n = r.int(1, 3) end
      p = g.emit(s) or p
    end
    if p and not g.float and r.chance(0.1) then
      p = g.emit { f = "cast", a = p, dtype = r.pick { "f32", "bf16", "f64" } } or p
    end
    return p
  end

  --- Adds steps that take slices of the joined value y, combine some with each other, and sum.
  local function read(g, y, d)
    local r, n = g.r, x_of(g, y).shape[d]
    for _ = 1, r.int(0, 4) do
      local k = r.int(1, n)
      local p = view(g, y, d, k, r.chance(0.3) and r.int(1, n - k + 1) or 1)
      local q = p and r.chance(0.6) and view(g, y, d, r.int(1, n))
      if q and x_of(g, q).dtype ~= "bool" then
        p = g.emit { f = "bin", op = r.pick { "mul", "add", "sub" }, a = p, b = q } or p
      end
      if p and r.chance(0.4) and x_of(g, p).dtype ~= "bool" then
        g.emit { f = "red", op = "sum", a = p, axes = { r.int(1, #x_of(g, p).shape) },
          keep = r.chance(0.5) }
      end
    end
  end

  local function siblings(g)
    local r = g.r
    local a = pick(g, function(x)
      return #x.shape < 5 and x.dtype ~= "bool" and O.numel(x.shape) <= 600
    end)
    local x = a and x_of(g, a)
    local d = a and short_axis(g, x)
    if not d then return nil end
    local b = pick(g, function(y) return y.dtype ~= "bool" and same_shape(x, y) end) or a
    local list = {}
    for k = 1, x.shape[d] do list[k] = part(g, a, b, d, k) end
    if #list < 2 or #list < x.shape[d] then return nil end
    if r.chance(0.2) then table.remove(list, r.int(1, #list)) end
    local along = r.chance(0.7) and d or r.int(1, #x.shape)
    local y = g.emit { f = "join", op = "cat", a = list[1], list = list, d = along }
    if not y then return nil end
    for _, p in ipairs(list) do
      if r.chance(0.8) and g.vars[p] and not g.leaf[p] then g.emit { f = "del", a = p } end
    end
    if x_of(g, y).shape[along] > 0 then read(g, y, along) end
    if r.chance(0.5) then return { f = "del", a = y } end
    -- sometimes the joined value is written into a variable from which it may be computed
    if r.chance(0.4) then
      local t = tools.target(g, function(v)
        local u = x_of(g, y)
        return v.dtype ~= "bool" and same_shape(v, u) and O.promote(v, u) == v.dtype
      end)
      if t then return { f = "inplace", op = r.pick { "copy", "add" }, a = t, b = y } end
    end
    return nil
  end

  --- A value from a slice of a, and a variable of the same shape into which it may be written.
  local function old_value(g, a)
    local r, x = g.r, x_of(g, a)
    local d = #x.shape > 0 and r.int(1, #x.shape)
    local v = d and x.shape[d] > 0 and view(g, a, d, r.int(1, x.shape[d]))
    if not v then return nil end
    if r.chance(0.4) then v = g.emit { f = "bin", op = "add", a = v, n = r.int(1, 3) } or v end
    local b = tools.target(g, function(y, k)
      return k ~= a and same_shape(y, x_of(g, v)) and y.dtype == x_of(g, v).dtype
    end) or g.emit { f = "bin", op = "mul", a = v, n = 2 }
    return v, b ~= v and b or nil
  end

  local function crossed(g)
    local r = g.r
    local a = tools.target(g, function(x)
      return O.is_float(x.dtype) and (not g.float or x.dtype == g.float)
    end)
    local v, b = nil, nil
    if a then v, b = old_value(g, a) end
    if not b then return nil end
    if r.chance(0.8) then g.emit { f = "eval", list = { a, b }, drop = {} } end
    if r.chance(0.7) then
      local s = tools.checked(g)
      if s then g.emit(s) end
    end
    g.emit { f = "inplace", op = r.pick { "add", "mul", "fill" }, a = a, n = r.int(2, 4) / 2 }
    if g.vars[v] and g.vars[b] then
      g.emit { f = "inplace", op = r.pick { "copy", "copy", "add" }, a = b, b = v }
    end
    return r.chance(0.3) and { f = "inplace", op = "neg", a = a } or nil
  end
  return siblings, crossed
end
