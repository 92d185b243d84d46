--- Low-rank adapters (Hu et al., "LoRA", 2021): nn.lora. A layer's weight W acts as W + s B A,
-- where A (rank, columns) and B (rows, rank) are trained and W is not. The file returns a function
-- that adds them to flame.nn.
--
-- A linear layer adds s B (A x) to its result, so nothing of W's size is computed. For convolutions
-- (rows: the first axis of W, columns: the other axes as one) and attention, reading the weight
-- gives the sum. An adapter is an additional module next to the weight, which keeps its name, so
-- that saved states of the base fit with and without adapters.
local flame = require "flame"

return function(nn, shared)
  local fail, class, call, put, fields = shared.raise, shared.class, shared.call, shared.put,
    shared.fields
  local lora = {}
  nn.lora = lora

  --- The adapter of a weight with this many rows and columns: A is initialised like the weight of a
  --- linear layer, and B is 0, so that nothing changes at first. scale is alpha / rank.
  class([[nn.LoRA(rows: int, columns: int, rank: int = 8, scale = 1, dropout = 0, device?: device,
    dtype?: dtype)]], function(self, rows, columns, rank, scale, dropout, device, dtype)
      local as, bound = { device = device, dtype = dtype }, 1 / math.sqrt(columns)
      for name, n in pairs { rows = rows, columns = columns, rank = rank } do
        shared.count("LoRA", name, n)
      end
      self.A = nn.Parameter(flame.uniform({ rank, columns }, -bound, bound, as))
      self.B = nn.Parameter(flame.zeros({ rows, rank }, as))
      self.scale = nn.Buffer(flame.full({}, scale, as))
      self.dropout = nn.Dropout(dropout)
    end)
  --- The scale times B A x, with dropout of x before.
  call(nn.LoRA, "(x: T) -> T", function(self, x)
    return flame.linear(flame.linear(self.dropout(x), self.A), self.B) * self.scale
  end)
  --- What the adapter adds to the weight: the scale times B A.
  put(nn.LoRA, "LoRA:delta() -> T", function(self) return self.B:matmul(self.A) * self.scale end)
  function nn.LoRA:extra()
    return ("rank=%d%s"):format(self.A:size(1), rawget(self, "base") and ", merged" or "")
  end

  -- ---- layers -----------------------------------------------------------------------------------
  local CONVOLUTIONS = {}
  for n = 1, 3 do
    CONVOLUTIONS[n], CONVOLUTIONS[n + 3] = nn["Conv" .. n .. "d"], nn["ConvTranspose" .. n .. "d"]
  end
  -- The names of a layer's weights that take adapters; empty if there are none.
  local function weights_of(m)
    if nn.is(m, nn.Linear) then return { "weight" } end
    local own = getmetatable(m).adapted                  -- a class that names them itself
    if own then return own end
    if nn.is(m, nn.MultiheadAttention) then
      return fields.tensors_of(m).in_proj_weight and { "in_proj_weight" }
        or { "q_proj_weight", "k_proj_weight", "v_proj_weight" }
    end
    for _, c in ipairs(CONVOLUTIONS) do if nn.is(m, c) then return { "weight" } end end
    return {}
  end
  local function slot_of(weight) return weight == "weight" and "lora" or "lora_" .. weight end
  local function base_of(adapter)
    return fields.tensors_of(rawget(adapter, "layer"))[rawget(adapter, "weight")]
  end

  -- Makes a layer use its adapter, whose fields 'layer' and 'weight' then say where it is. While
  -- it is merged, its field 'base' has the values that the weight had before.
  local function connect(layer, weight, adapter)
    rawset(adapter, "layer", layer)
    rawset(adapter, "weight", weight)
    local slot = slot_of(weight)
    layer[slot] = adapter
    if nn.is(layer, nn.Linear) then
      rawset(layer, "forward", function(self, x)
        local y, own = getmetatable(self).forward(self, x), rawget(self, slot)
        return rawget(own, "base") and y or y + own(x)
      end)
    else
      fields.compute(layer, weight, function(self)
        local w, own = fields.tensors_of(self)[weight], rawget(self, slot)
        return rawget(own, "base") and w or w + own:delta():reshape(w.shape)
      end)
    end
  end
  local function disconnect(adapter)
    local layer, weight = rawget(adapter, "layer"), rawget(adapter, "weight")
    if nn.is(layer, nn.Linear) then rawset(layer, "forward", nil)
    else fields.compute(layer, weight, nil) end
    layer[slot_of(weight)] = nil
  end

  -- A new adapter for a weight of a layer.
  local function attach(layer, weight, o)
    local w = fields.tensors_of(layer)[weight]
    local rows = w:size(1)
    local adapter = nn.LoRA(rows, w:numel() // math.max(rows, 1), o.rank, o.scale, o.dropout,
      w.device, w.dtype)
    adapter:train(layer.training)
    connect(layer, weight, adapter)
  end

  -- {name, adapter} for each adapter in a network, in order; raises if there are none.
  local function adapters_of(op, net)
    local list = {}
    for name, m in net:named_modules() do
      if nn.is(m, nn.LoRA) and rawget(m, "layer") then list[#list + 1] = { name, m } end
    end
    if #list == 0 then fail(op, "the network has no adapters\1: call nn.lora.attach(net)") end
    return list
  end

  -- ---- nn.lora ----------------------------------------------------------------------------------
  local function is_target(name, targets)
    if not targets then return true end
    for _, pattern in ipairs(targets) do if name:find(pattern) then return true end end
    return false
  end

  --- Gives adapters to those linear, convolution and attention layers of a network with names that
  --- match a pattern of Lua in targets (without targets to all), and freezes every other parameter.
  --- The scale is alpha / rank, 1 without alpha. Dropout acts on the input of linear layers'
  --- adapters. Returns the names of the layers.
  put(lora, [[nn.lora.attach(net: Module, rank: int = 8, alpha?: num, dropout = 0,
    targets?: str|str[]) -> table]], function(net, rank, alpha, dropout, targets)
      if rank < 1 then fail("lora.attach", "rank is %d, need a positive integer", rank) end
      if type(targets) == "string" then targets = { targets } end
      shared.check_patterns("lora.attach", targets or {})
      local names, layers = {}, {}
      for name, m in net:named_modules() do
        if #weights_of(m) > 0 and is_target(name, targets) then
          if rawget(m, slot_of(weights_of(m)[1])) then
            fail("lora.attach", "layer '%s' has an adapter\1: call nn.lora.remove(net)", name)
          end
          names[#names + 1], layers[#layers + 1] = name, m
        end
      end
      if #names == 0 then
        fail("lora.attach", "the network has no linear, convolution or attention layer%s",
          targets and (" whose name holds '%s'"):format(table.concat(targets, "', '")) or "")
      end
      net:requires_grad_(false)
      for _, layer in ipairs(layers) do
        for _, weight in ipairs(weights_of(layer)) do
          attach(layer, weight, { rank = rank, scale = (alpha or rank) / rank, dropout = dropout })
        end
      end
      return names
    end)

  --- The adapters' tensors by name, and nothing else, for saving.
  put(lora, "nn.lora.state_dict(net: Module) -> table", function(net)
    local out = {}
    for _, entry in ipairs(adapters_of("lora.state_dict", net)) do
      for name, x in pairs(entry[2]:state_dict()) do out[entry[1] .. "." .. name] = x end
    end
    return out
  end)

  -- The layer, the weight's name and the adapter's field for the name of a saved adapter.
  local function place_of(net, modules, name)
    local path, slot = name:match("^(.-)%.?(lora[%w_]*)$")
    local layer = path == "" and net or modules[path]
    for _, weight in ipairs(layer and weights_of(layer) or {}) do
      if slot_of(weight) == slot then return layer, weight, slot end
    end
    fail("lora.load", "there is no layer for '%s' in the network", name)
  end

  -- The tensors of saved adapters: adapter's name -> {A =, B =, scale =}.
  local function parts_of(state)
    local parts = {}
    for name, x in pairs(state) do
      local owner, part = tostring(name):match("^(.*)%.(%a+)$")
      if not (part == "A" or part == "B" or part == "scale") or not flame.is_tensor(x) then
        fail("lora.load", "'%s' is no tensor of an adapter", tostring(name))
      end
      parts[owner] = parts[owner] or {}
      parts[owner][part] = x
    end
    if next(parts) == nil then fail("lora.load", "the state is empty") end
    return parts
  end
  -- Raises if saved tensors do not fit the weight w, or its existing adapter.
  local function check_parts(owner, p, w, old)
    if not (p.A and p.B and p.scale) then fail("lora.load", "'%s' needs A, B and scale", owner) end
    local rows, rank = w:size(1), p.A.shape[1]
    if p.A.ndim ~= 2 or p.B.ndim ~= 2 or p.B.shape[1] ~= rows or p.B.shape[2] ~= rank
        or p.A.shape[2] * rows ~= w:numel() then
      fail("lora.load", "'%s' has A (%s) and B (%s), the weight is (%s)", owner,
        table.concat(p.A.shape, ", "), table.concat(p.B.shape, ", "), table.concat(w.shape, ", "))
    end
    if old and (rawget(old, "base") or old.A.shape[1] ~= rank) then
      fail("lora.load", "'%s' is there, %s\1: call nn.lora.remove(net)", owner,
        rawget(old, "base") and "merged" or "with another rank")
    end
  end

  --- Loads saved adapters into a base network, and freezes its other parameters. Layers without
  --- adapters get them, with the saved rank and scale. The adapters are active, not merged.
  put(lora, "nn.lora.load(net: Module, state: table) -> Module", function(net, state)
    local modules, todo = {}, {}
    for name, m in net:named_modules() do modules[name] = m end
    for owner, p in pairs(parts_of(state)) do
      local layer, weight, slot = place_of(net, modules, owner)
      check_parts(owner, p, fields.tensors_of(layer)[weight], rawget(layer, slot))
      todo[#todo + 1] = { owner = owner, layer = layer, weight = weight, slot = slot, parts = p }
    end
    table.sort(todo, function(a, b) return a.owner < b.owner end)
    net:requires_grad_(false)
    for _, t in ipairs(todo) do
      if not rawget(t.layer, t.slot) then
        attach(t.layer, t.weight, { rank = t.parts.A:size(1), scale = 1, dropout = 0 })
      end
      t.layer[t.slot]:load_state_dict(t.parts)
    end
    for _, entry in ipairs(adapters_of("lora.load", net)) do entry[2]:requires_grad_(true) end
    return net
  end, "lora.load")

  -- Raises if a weight to which an adapter would be added is shared with another layer.
  local function check_alone(net, adapters)
    local place = {}
    for name, m in net:named_modules() do
      for field, w in pairs(fields.tensors_of(m)) do
        local key = flame.internal.handle(w)
        place[key] = place[key] or {}
        table.insert(place[key], name == "" and field or name .. "." .. field)
      end
    end
    for _, entry in ipairs(adapters) do
      local places = place[flame.internal.handle(base_of(entry[2]))]
      if #places > 1 then
        table.sort(places)
        fail("lora.merge", "'%s' is '%s' as well, which the sum would change\1: attach by targets "
          .. "without it, or give the layer a copy", places[1], places[2])
      end
    end
  end

  --- Adds each adapter to its weight, so that calls are as fast as those of the base; state_dict
  --- then has the sums. The old weights are kept for unmerge.
  put(lora, "nn.lora.merge(net: Module) -> Module", function(net)
    local adapters = adapters_of("lora.merge", net)
    check_alone(net, adapters)
    for _, entry in ipairs(adapters) do
      local adapter = entry[2]
      if not rawget(adapter, "base") then
        local w = base_of(adapter)
        rawset(adapter, "base", w:detach())
        flame.no_grad(function() w:copy_(w + adapter:delta():reshape(w.shape):to(w.dtype)) end)
      end
    end
    return net
  end)
  --- Restores the weights from before merge, bit for bit; the adapters are active again.
  put(lora, "nn.lora.unmerge(net: Module) -> Module", function(net)
    for _, entry in ipairs(adapters_of("lora.unmerge", net)) do
      local adapter, base = entry[2], rawget(entry[2], "base")
      if base then
        local w = base_of(adapter)
        flame.no_grad(function() w:copy_(base:to(w.device)) end)
        rawset(adapter, "base", nil)
      end
    end
    return net
  end)
  --- Removes the adapters; merged ones stay in the weights. The parameters stay frozen.
  put(lora, "nn.lora.remove(net: Module) -> Module", function(net)
    for _, entry in ipairs(adapters_of("lora.remove", net)) do disconnect(entry[2]) end
    return net
  end)
end
