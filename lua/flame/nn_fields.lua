--- What stands under the names of a module: parameters and buffers beside its table, so that each
-- assignment to their names is seen, everything else in it. Given the keys of each module in order
-- of first assignment, the kinds of marked tensors, what raises, and nn.Buffer; gives functions
-- for nn.lua.
local flame = require "flame"

return function(order, kinds, fail, buffer)
  local held = setmetatable({}, { __mode = "k" })      -- module -> key -> its parameter or buffer
  local function word(v) return flame.internal.word(v) end

  local function marked(x) return type(x) == "userdata" and kinds[x] ~= nil end

  --- What stands in a module under a key; nothing of its class.
  local function field(self, key)
    local tensors = held[self]
    local x = tensors and tensors[key]
    if x ~= nil then return x end
    return rawget(self, key)
  end

  --- What the name of 'old', a parameter or buffer, may be given: such a one,
  --- nothing, and a buffer's any tensor.
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

  --- Assignment to a key that the table itself has no value for.
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

  --- The parameter or buffer at a key; one that took the place of a plain value goes where all are.
  local function settled(self, key)
    local x = rawget(self, key)
    if not marked(x) then return field(self, key) end
    held[self] = held[self] or {}
    held[self][key] = x
    rawset(self, key, nil)
    return x
  end

  -- A module's own length and pairs, with its parameters and buffers.
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

  --- Lets the instances of a class read and write so.
  local function give(class)
    class.__index = function(self, key)
      local tensors = held[self]
      local x = tensors and tensors[key]
      if x ~= nil then return x end
      return class[key]
    end
    class.__newindex, class.__len, class.__pairs = note, length, all_fields
  end

  return { marked = marked, field = field, settled = settled, give = give }
end
