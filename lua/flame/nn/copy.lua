--- Functions of whole networks: deep copies, calls with other values of the parameters, tests of
--- classes, parameters by patterns of their names. Returns a function that adds them to flame.nn.
local flame = require "flame"
local arguments = require "flame.base.arguments"

return function(nn, shared)
  local Module, fail, put = nn.Module, shared.raise, shared.put
  local order, hooks, kinds, fields = shared.order, shared.hooks, shared.kinds, shared.fields

  --- Is m a module of the class, as nn.Linear, or of one that extends it? false for anything else.
  put(nn, "nn.is(m?: any|table, class: table) -> bool", function(m, class)
    if not rawget(class, "__name") then
      fail("is", "class is a table, need a class as nn.Linear")
    end
    if not shared.is_module(m) then return false end
    local at = getmetatable(m)
    while type(at) == "table" do
      if at == class then return true end
      local above = getmetatable(at)
      at = above and rawget(above, "__index")
    end
    return false
  end)

  -- ---- copies -----------------------------------------------------------------------------------
  --- A tensor of x's kind (parameter, buffer, other) with its values. Only leaves stay trainable.
  local function copy_of_tensor(x)
    local kind, own = kinds[x], x:detach():clone()
    if kind == "parameter" then return nn.Parameter(own, x.requires_grad) end
    if kind then return nn.Buffer(own, kind == "buffer") end
    return x.is_leaf and x.requires_grad and own:requires_grad_(true) or own
  end
  -- Copies what nn/lazy.lua keeps about weights that hooks compute; the copy has the hooks
  -- already.
  local function copy_made(module, own)
    for name, entry in pairs(shared.made[module] or {}) do
      shared.made[own] = shared.made[own] or {}
      shared.made[own][name] = { run = entry.run, undo = entry.undo, hook = { remove = function()
        local list = hooks[own].before
        for i, f in ipairs(list) do if f == entry.run then return table.remove(list, i) end end
      end } }
    end
  end
  -- A kernel with separate constants (k:constant), those of the copy. Kernels of one text share
  -- them.
  local function copy_of_kernel(k, seen, copy)
    local own = k:with {}
    local memory = flame.internal.kernel_info(k).config.memory
    flame.internal.kernel_info(own).config.memory = memory and copy(memory, seen)
    return own
  end
  -- A deep copy of v: modules, plain tables, kernels and tensors are copied, each once; functions
  -- and objects of other classes are shared. seen: value -> its copy.
  local function copy(v, seen)
    if seen[v] ~= nil then return seen[v] end
    if flame.is_tensor(v) then
      seen[v] = copy_of_tensor(v)
      return seen[v]
    end
    if flame.internal.is_kernel(v) then
      seen[v] = copy_of_kernel(v, seen, copy)
      return seen[v]
    end
    local module, meta = shared.is_module(v), getmetatable(v)
    if type(v) ~= "table" then return v end
    local kernels = type(meta) == "table" and meta.__name == "flame.kernels"
    if not module and not kernels and meta ~= nil then return v end
    local own = {}
    seen[v] = own
    for key, part in next, v do own[key] = copy(part, seen) end
    if not module then return setmetatable(own, meta) end
    order[own] = table.move(order[v], 1, #order[v], 1, {})
    for key, x in pairs(fields.tensors_of(v)) do fields.put(own, key, copy(x, seen)) end
    if hooks[v] then
      local list = hooks[v]
      hooks[own] = { before = table.move(list.before, 1, #list.before, 1, {}),
        after = table.move(list.after, 1, #list.after, 1, {}) }
    end
    setmetatable(own, meta)
    fields.compute_as(own, v)
    copy_made(v, own)
    return own
  end

  --- A deep copy: new modules, parameters, buffers and kernels with the same values; what is
  --- shared stays so; hooks run with the copy. Gradients are not copied; functions are shared.
  put(Module, "Module:clone() -> Module", function(self) return copy(self, {}) end)

  -- ---- calls with other values ------------------------------------------------------------------
  --- The parameters and buffers of net by name, with every name of a shared one; the set of names.
  local function tensors_by_name(net)
    local by, names = {}, {}
    for _, entry in ipairs(shared.collect(net, nil, function(path, x) by[path] = x end)) do
      by[entry[1]] = entry[2]
    end
    for name in pairs(by) do names[name] = true end
    return by, names
  end

  local Undo = { __close = function(list)
    for i = #list, 1, -1 do list[i]() end
  end }
  -- Replaces each x in a plain list by map[x], if there is one; undo gets functions that restore.
  local function swap_list(t, map, undo)
    for i, x in ipairs(t) do
      if map[x] then
        t[i] = map[x]
        undo[#undo + 1] = function() t[i] = x end
      end
    end
  end
  local function swap(module, map, undo)
    for key, x in pairs(fields.tensors_of(module)) do
      if map[x] then
        fields.put(module, key, map[x])
        undo[#undo + 1] = function() fields.put(module, key, x) end
      end
    end
    for _, t in next, module do
      if type(t) == "table" and getmetatable(t) == nil then swap_list(t, map, undo) end
    end
  end

  function flame.internal.functional_call(net, values, ...)
    if not shared.is_module(net) then
      fail("functional_call", "net is a %s, need a module", arguments.word(net))
    end
    if type(values) ~= "table" then
      fail("functional_call", "values are a table by name, got %s", arguments.word(values))
    end
    local by, names = tensors_by_name(net)
    local map = {}
    for name, value in pairs(values) do
      local x = by[name]
      if not x then
        fail("functional_call", "the module has no parameter or buffer '%s'%s", tostring(name),
          flame.internal.hint(tostring(name), names))
      end
      arguments.need_tensor("functional_call", tostring(name), value)
      map[x] = value
    end
    local undo <close> = setmetatable({}, Undo)
    for _, module in ipairs(net:modules()) do swap(module, map, undo) end
    return net(...)
  end

  -- ---- by pattern -------------------------------------------------------------------------------
  --- Raises if one of the patterns is malformed as a Lua pattern.
  function shared.check_patterns(op, patterns)
    for _, pattern in ipairs(patterns) do
      local ok, why = pcall(string.find, "", pattern)
      if not ok then fail(op, "'%s' is no pattern of Lua: %s", pattern, why) end
    end
  end
  -- Calls f(name, parameter) for each name that matches one of the patterns of Lua; raises before
  -- that if a pattern matches no name.
  local function matching(op, net, patterns, f)
    if #patterns == 0 then fail(op, "need a pattern of names, as \"^encoder%%.\"") end
    shared.check_patterns(op, patterns)
    local found, names, list = {}, {}, {}
    for name, x in net:named_parameters() do
      local fits = false
      for _, pattern in ipairs(patterns) do
        if name:find(pattern) then found[pattern], fits = true, true end
      end
      if fits then names[#names + 1], list[#list + 1] = name, x end
    end
    for _, pattern in ipairs(patterns) do
      if not found[pattern] then
        local first = net:named_parameters()()
        fail(op, "no parameter's name holds '%s'%s", pattern,
          first and (", the first is '%s'"):format(first) or "")
      end
    end
    for i, x in ipairs(list) do f(names[i], x) end
    return names
  end
  --- Stops the training of the parameters with names that match a pattern of Lua, such as
  --- "^encoder%." or "bias$", and returns the names. Their gradients are dropped.
  put(Module, "Module:freeze(patterns...: str) -> table", function(self, ...)
    return matching("freeze", self, { ... }, function(_, x)
      x:requires_grad_(false)
      x.grad = nil
    end)
  end)
  --- Makes parameters with names that match a pattern of Lua trainable again; returns the names.
  put(Module, "Module:unfreeze(patterns...: str) -> table", function(self, ...)
    return matching("unfreeze", self, { ... }, function(_, x) x:requires_grad_(true) end)
  end)

  --- Groups for an optimiser: {{"norm", lr = 1e-3}, {"bias$", "^embed", weight_decay = 0},
  --- {lr = 1e-4}}, each with patterns of Lua and options. A parameter belongs to the first group
  --- with a pattern that matches its name. A group without patterns takes the remaining ones; if
  --- there is no such group, they make another one. Frozen parameters are left out, and so are
  --- groups that then have none.
  put(Module, "Module:parameter_groups(groups: table[]) -> table[]", function(self, groups)
    if #groups == 0 then
      fail("parameter_groups", "need a list of groups, as {{\"bias$\", weight_decay = 0}}")
    end
    local out, rest = {}, nil
    for i, g in ipairs(groups) do
      out[i] = { params = {} }
      for key, v in pairs(g) do
        if math.type(key) ~= "integer" then out[i][key] = v
        elseif type(v) ~= "string" then
          fail("parameter_groups", "group %d: a pattern is a string, got %s", i, type(v))
        end
      end
      if #g == 0 then
        if rest then fail("parameter_groups", "groups %d and %d have no pattern", rest, i) end
        rest = i
      else matching("parameter_groups", self, g, function() end) end
    end
    if not rest then
      rest = #out + 1
      out[rest] = { params = {} }
    end
    for name, x in self:named_parameters() do
      local to = rest
      for i = #groups, 1, -1 do
        for _, pattern in ipairs(groups[i]) do if name:find(pattern) then to = i end end
      end
      if x.requires_grad then table.insert(out[to].params, x) end
    end
    for i = #out, 1, -1 do if #out[i].params == 0 then table.remove(out, i) end end
    return out
  end)
end
