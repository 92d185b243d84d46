--- The fields of a module. Parameters and buffers are kept outside its table, so that each
--- assignment to their names is seen; everything else is in the table. The file returns a function
--- of order (module -> keys in the order of first assignment), kinds (marked tensor -> its kind),
--- fail, which raises, and nn.Buffer; it returns functions for nn.lua.
local flame = require "flame"
local arguments = require "flame.base.arguments"

return function(order, kinds, fail, buffer)
  local held = setmetatable({}, { __mode = "k" })      -- module -> key -> its parameter or buffer
  local function word(v) return arguments.word(v) end

  local function marked(x) return type(x) == "userdata" and kinds[x] ~= nil end

  -- The module's own value for a key, without looking into its class.
  local function field(self, key)
    local tensors = held[self]
    local x = tensors and tensors[key]
    if x ~= nil then return x end
    return rawget(self, key)
  end

  -- What is kept if 'value' is assigned in place of 'old', a parameter or buffer: value itself if
  -- it is nil, a Parameter or a Buffer; for a buffer any tensor becomes one. Raises for others.
  local function successor(self, key, old, value)
    if value == nil or marked(value) then return value end
    local class, name = getmetatable(self).__name, tostring(key)
    if kinds[old] == "parameter" then
      local place = math.type(key) == "integer" and "self[" .. name .. "]" or "self." .. name
      fail("%s: %s is a Parameter: it can be one or nil, got %s\1: write nn.Parameter(…), or flame.no_grad(function() %s:copy_(…) end)",
        class, name, word(value), place)
    end
    if not flame.is_tensor(value) then
      fail("%s: %s is a Buffer: it can be a tensor or nil, got %s", class, name, word(value))
    end
    return buffer(value, kinds[old] == "buffer")
  end

  -- Called for an assignment to a key that the table itself does not have.
  local function note(self, key, value)
    local keys, tensors = order[self], held[self]
    if not keys then
      keys = {}
      order[self] = keys
    end
    local old = tensors and tensors[key]
    if old ~= nil then value = successor(self, key, old, value)
    else keys[#keys + 1] = key end
    if not marked(value) then
      if old ~= nil then tensors[key] = nil end
      return rawset(self, key, value)
    end
    if not tensors then
      tensors = {}
      held[self] = tensors
    end
    tensors[key] = value
  end

  -- The value at a key. A parameter or buffer that was assigned in place of a plain value is in
  -- the module's table: it is moved to 'held'.
  local function settled(self, key)
    local x = rawget(self, key)
    if not marked(x) then return field(self, key) end
    held[self] = held[self] or {}
    held[self][key] = x
    rawset(self, key, nil)
    return x
  end

  -- #module and pairs(module), which include its parameters and buffers.
  local function length(self)
    local n = rawlen(self)
    while field(self, n + 1) ~= nil do n = n + 1 end
    return n
  end
  local function all_fields(self)
    local all = {}
    for key, x in next, self do all[key] = x end
    for key, x in pairs(held[self] or {}) do all[key] = x end
    return next, all
  end

  -- Sets the metamethods of a class so that its instances keep parameters and buffers in 'held'.
  local function give(class)
    class.__index = function(self, key)
      local tensors = held[self]
      local x = tensors and tensors[key]
      if x ~= nil then return x end
      return class[key]
    end
    class.__newindex, class.__len, class.__pairs = note, length, all_fields
  end

  -- ---- names whose value is computed -----------------------------------------------------------
  local computed = setmetatable({}, { __mode = "k" })  -- module -> key -> f(module)
  local bare = setmetatable({}, { __mode = "k" })      -- derived class -> the class
  local derived = setmetatable({}, { __mode = "kv" })  -- class -> the class derived from it

  -- The class that modules of 'class' get when some of their fields are computed: it calls the
  -- functions in 'computed', and is otherwise like 'class'.
  local function derive(class)
    if bare[class] then return class end
    local own = derived[class]
    if own then return own end
    own = setmetatable({}, { __index = class, __call = getmetatable(class).__call,
      __name = "class" })
    for key, v in next, class do if tostring(key):find "^__" then own[key] = v end end
    function own.__index(self, key)
      local list = computed[self]
      local f = list and list[key]
      if f then return f(self) end
      return class.__index(self, key)
    end
    function own.__newindex(self, key, value)
      if computed[self] and computed[self][key] then
        fail("%s: %s is computed from others\1: take that away first", class.__name, tostring(key))
      end
      return note(self, key, value)
    end
    derived[class], bare[own] = own, class
    return own
  end

  -- Makes reads of a module's field return f(module); a parameter of that name remains for
  -- parameters() and state_dict(). f = nil ends this.
  local function compute(self, key, f)
    local list = computed[self] or {}
    list[key] = f
    computed[self] = next(list) and list or nil
    local class = getmetatable(self)
    setmetatable(self, next(list) and derive(class) or bare[class] or class)
  end

  -- Gives the module 'self' the computed fields of the module 'other'.
  local function compute_as(self, other)
    for key, f in pairs(computed[other] or {}) do compute(self, key, f) end
  end
  local function is_computed(self, key) return (computed[self] or {})[key] ~= nil end

  -- Replaces the value of a parameter or buffer by any x, without checks.
  local function put(self, key, x)
    local tensors = held[self]
    if not tensors then
      tensors = {}
      held[self] = tensors
    end
    tensors[key] = x
  end
  -- The parameters and buffers of a module by name.
  local function tensors_of(self) return held[self] or {} end

  return { marked = marked, field = field, settled = settled, give = give, compute = compute,
    compute_as = compute_as, is_computed = is_computed, put = put, tensors_of = tensors_of }
end
