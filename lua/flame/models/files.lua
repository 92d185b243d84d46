--- Folders of Hugging Face's form: reads and writes configurations and weights. The file returns a
--- function that takes the helpers of models/parts.lua and kind_of and build of models.lua, and
--- returns {load =, save =}.
local flame = require "flame"
local nn = require "flame.nn"
local json = require "flame.models.json"
local internal = flame.internal
local dtypes = require "flame.base.dtypes"

local CONFIG <const>, WHOLE <const>, INDEX <const> = "config.json", "model.safetensors",
  "model.safetensors.index.json"

return function(parts, kind_of, build)
  local fail = parts.fail
  local LOAD <const>, SAVE <const> = "from_pretrained", "save_pretrained"

  -- ---- reading ----------------------------------------------------------------------------------
  local function read_config(folder, listing)
    local path = folder .. "/" .. CONFIG
    if not listing[CONFIG] then
      fail(LOAD, "%s has no %s\1: give a folder with %s and %s", folder, CONFIG, CONFIG, WHOLE)
    end
    local value, what, at = json.read(internal.io_read(path, LOAD))
    if value == nil then fail(LOAD, "%s: %s at offset %d", path, what, at) end
    if type(value) ~= "table" or getmetatable(value) then
      fail(LOAD, "%s is not an object", path)
    end
    return parts.config(LOAD, path, value)
  end

  --- The files with weights: file -> list of the tensors' names to take from it; true: all.
  local function weight_files(folder, listing)
    if not listing[INDEX] then
      if listing[WHOLE] then return { [WHOLE] = true } end
      fail(LOAD, "%s has no %s and no %s%s", folder, WHOLE, INDEX, listing["pytorch_model.bin"]
        and "\1; convert pytorch_model.bin once with Python: model.save_pretrained(folder)" or "")
    end
    local found, count = {}, {}
    for name, file in pairs(internal.io_load_parts(folder .. "/" .. INDEX)) do
      if not file:find("^[%w_][%w._-]*%.safetensors$") then
        fail(LOAD, "%s/%s: '%s' is no name of a safetensors file", folder, INDEX, file)
      end
      found[file], count[file] = found[file] or {}, (count[file] or 0) + 1
      found[file][name] = true
    end
    for file in pairs(found) do
      if not listing[file] then
        fail(LOAD, "%s has no %s, which %s names for %d tensor%s", folder, file, INDEX, count[file],
          count[file] == 1 and "" or "s")
      end
    end
    return found
  end

  --- The model's tensors: by name, with every name of shared ones; and tensor -> its first name.
  local function tensors_of(model)
    local by, first = {}, {}
    for name, x in model:named_parameters() do first[x] = name end
    for path, m in model:named_modules() do
      for key, x in pairs(m) do
        if first[x] then by[path == "" and key or path .. "." .. key] = x end
      end
    end
    return by, first
  end

  -- Tensors of older files that models do not need, since they follow from the configuration.
  local NEEDLESS <const> = { "%.attn%.bias$", "%.attn%.masked_bias$", "rotary_emb%.inv_freq$",
    "position_ids$" }
  local function found_in(name, patterns)
    for _, p in ipairs(patterns or {}) do if name:find(p) then return true end end
    return false
  end
  --- The model's tensor for a name in a file, or nil. The file's name may lack or have the prefix
  --- of the base model, and may use the older names gamma and beta for weight and bias of norms.
  local function target_of(by, kind, name)
    local base, prefix = name:gsub("%.gamma$", ".weight"):gsub("%.beta$", ".bias"),
      kind.prefix .. "."
    local bare = base:sub(1, #prefix) == prefix and base:sub(#prefix + 1) or nil
    return by[name] or by[base] or by[prefix .. base] or bare and by[bare]
  end

  local function sorted(t)
    local names = {}
    for name in pairs(t) do names[#names + 1] = name end
    table.sort(names)
    return names
  end
  local function shape(x) return "(" .. table.concat(x.shape, ", ") .. ")" end
  local function check_tensor(path, name, x, to)
    if shape(to) ~= shape(x) then
      fail(LOAD, "%s: %s is %s, need %s by %s", path, name, shape(x), shape(to), CONFIG)
    end
    if not x:is_floating_point() then
      fail(LOAD, "%s: %s is %s, need f64, f32, f16 or bf16", path, name, x.dtype)
    end
  end
  --- Copies the tensors of one file, all or those named in the list, into the model's tensors.
  local function take(state, path, tensors, wanted)
    local into, from = {}, {}
    for _, name in ipairs(sorted(wanted == true and tensors or wanted)) do
      local x, to = tensors[name], target_of(state.by, state.kind, name)
      if not x then fail(LOAD, "%s has no tensor '%s', which %s says it has", path, name, INDEX) end
      if to then
        check_tensor(path, name, x, to)
        if not state.done[to] then into[#into + 1], from[#from + 1] = to, x end
        state.done[to] = true
      elseif not found_in(name, NEEDLESS) and not found_in(name, state.unused) then
        state.surplus[#state.surplus + 1] = name
      end
    end
    flame.no_grad(function() for i, x in ipairs(into) do x:copy_(from[i]:to(x.dtype)) end end)
    if #into > 0 then flame.eval(into) end                 -- the file's copies may go
  end

  local function some(names)
    local text = table.concat(names, ", ", 1, math.min(#names, 8))
    return #names > 8 and ("%s and %d more"):format(text, #names - 8) or text
  end
  local function check_complete(folder, state, strict)
    local missing = {}
    for x, name in pairs(state.first) do
      if not state.done[x] then missing[#missing + 1] = name end
    end
    table.sort(missing)
    table.sort(state.surplus)
    local text = {}
    if #missing > 0 then text[1] = "missing " .. some(missing) end
    if #state.surplus > 0 then text[#text + 1] = "not in the model " .. some(state.surplus) end
    if strict and #text > 0 then
      fail(LOAD, "%s: %s\1; give strict = false to go on", folder, table.concat(text, "; "))
    end
    return { missing_keys = missing, unexpected_keys = state.surplus }
  end

  local files = {}
  function files.load(folder, o)
    folder = folder:gsub("(.)/+$", "%1")
    local listing, why = internal.io_list(folder)
    if not listing then fail(LOAD, "%s: %s", folder, why) end
    local c = read_config(folder, listing)
    kind_of(c, o.architecture)                             -- raises first if the type is unknown
    local from = weight_files(folder, listing)
    local model, kind = build(c, o)
    local state = { kind = kind, done = {}, surplus = {},
      unused = (kind.unused or {})[getmetatable(model).__name] }
    state.by, state.first = tensors_of(model)
    local device = o.device or flame.default_device()
    for _, file in ipairs(sorted(from)) do
      local path = folder .. "/" .. file
      take(state, path, internal.io_load(path, device), from[file])
    end
    return model, check_complete(folder, state, o.strict)
  end

  -- ---- writing ----------------------------------------------------------------------------------
  local TORCH <const> = { f64 = "float64", f32 = "float32", f16 = "float16", bf16 = "bfloat16" }

  --- Distributes the tensors of 'state' over files of at most 'most' bytes; a larger tensor gets
  --- its own file. Returns a list of {names =, tensors =}, and the total of bytes.
  local function shards_of(state, most)
    local list, room, total = {}, 0, 0
    for _, name in ipairs(sorted(state)) do
      local bytes = state[name]:numel() * dtypes.size[state[name].dtype]
      if #list == 0 or bytes > room then
        list[#list + 1], room = { names = {}, tensors = {} }, most
      end
      local shard = list[#list]
      shard.names[#shard.names + 1], shard.tensors[#shard.tensors + 1] = name, state[name]
      room, total = room - bytes, total + bytes
    end
    return list, total
  end

  local function write(path, text)
    local f, why = internal.open(path, "wb")
    if not f then fail(SAVE, "%s", why) end
    local ok, wrong = f:write(text)
    if not f:close() or not ok then fail(SAVE, "%s: %s", path, wrong or "cannot be written") end
  end

  local function need_model(model)
    if not rawget(model, "kind") then
      fail(SAVE, "a %s is not a model of flame.models", getmetatable(model).__name)
    end
    for _, m in ipairs(model:modules()) do
      if nn.is(m, nn.LoRA) then
        fail(SAVE, "the model has adapters\1: call nn.lora.merge(model) and nn.lora.remove(model)")
      end
    end
  end

  function files.save(model, folder, most)
    need_model(model)
    if not (most > 0) then fail(SAVE, "max_shard_size is %g, need a number above 0", most) end
    local made, why = internal.io_make_folder(folder)
    if not made then fail(SAVE, "%s: %s", folder, why) end
    local state, config = model:state_dict(), {}
    for key, v in pairs(model.config) do config[key] = v end
    config.architectures = setmetatable({ getmetatable(model).__name }, json.list)
    config.torch_dtype = TORCH[model:parameters()[1].dtype]
    local shards, total = shards_of(state, most)
    local map, written = {}, {}
    for i, shard in ipairs(shards) do
      local file = #shards == 1 and WHOLE
        or ("model-%05d-of-%05d.safetensors"):format(i, #shards)
      internal.io_save(folder .. "/" .. file, shard.names, shard.tensors, { "format" }, { "pt" })
      written[file] = true
      for _, name in ipairs(shard.names) do map[name] = file end
    end
    for file in pairs(internal.io_list(folder) or {}) do   -- files of an earlier model
      if file:find "^model%-%d+%-of%-%d+%.safetensors$" and not written[file] then
        internal.remove(folder .. "/" .. file)
      end
    end
    local index = folder .. "/" .. INDEX
    if #shards > 1 then
      write(index, json.write { metadata = { total_size = total }, weight_map = map })
      internal.remove(folder .. "/" .. WHOLE)
    else internal.remove(index) end
    write(folder .. "/" .. CONFIG, json.write(config))
  end
  return files
end
