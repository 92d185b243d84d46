--- Every public name of flame.*, methods of tensors, nn, optim, data and clifford has a description
--- and a signature (tools/meta.lua collects them; tools/docs puts them into docs/ops.md and into
--- the stub for editors), and occurs in some spec. Runs in the root of the repository.
local helper = require "spec.support.helper"
local flame = require "flame"

--- Collects names, descriptions and signatures from the sources; paths are from the root.
local meta = dofile "tools/meta.lua"
local list = meta.collect()

local function read(path)
  local f = assert(io.open(path, "rb"))
  local text = f:read("a")
  f:close()
  return text
end
local function words_of_specs()
  local pipe = assert(io.popen("find spec examples bench \\( -name '*.lua' -o -name '*.py' \\) " ..
    "-not -path 'spec/kernel/users/*' -not -path '*/corners/*' -not -path 'spec/fuzz/*'"))
  local words = {}
  for path in pipe:lines() do
    if not path:find("names_spec") then
      for word in read(path):gmatch("[%a_][%w_]*") do words[word] = true end
    end
  end
  pipe:close()
  return words
end
local function last(name) return name:match("([%w_]+)$") end

describe("public names", function()
  it("are many and of every kind", function()
    local kinds = {}
    for _, e in ipairs(list) do kinds[e.kind] = (kinds[e.kind] or 0) + 1 end
    for _, kind in ipairs { "both", "function", "method", "write", "class", "member", "field" } do
      assert.is_true((kinds[kind] or 0) > 0, kind)
    end
    assert.is_true(kinds.both > 150)
  end)
  it("have a text", function() assert.same({}, meta.undocumented()) end)
  it("are declared, but for what a script's own classes take the place of", function()
    local open, bare = { ["nn.Module"] = true, ["Module:forward"] = true,
      ["distributions.Transform"] = true }, {}
    for _, e in ipairs(list) do
      local of = e.kind ~= "write" and not open[e.name] and not e.name:find "^Distribution:"
      if of and type(e.value) == "function" and not flame.internal.declaration(e.value) then
        bare[#bare + 1] = e.name
      end
    end
    assert.same({}, bare)
  end)
  it("have parameters with types", function()
    local bare = {}
    for _, e in ipairs(list) do
      for _, p in ipairs(e.params) do
        if not p[1] or not p[2] or p[2] == "" then bare[#bare + 1] = e.name end
      end
    end
    assert.same({}, bare)
  end)
  it("stand in some spec, themselves or under another name", function()
    local words, untested, tested = words_of_specs(), {}, {}
    local function named(e)
      local name = last(e.name)
      return words[name] or e.kind == "write" and words[name:gsub("_$", "")]
    end
    for _, e in ipairs(list) do if e.value and named(e) then tested[e.value] = true end end
    for _, e in ipairs(list) do
      if not named(e) and not (e.value and tested[e.value]) then
        untested[#untested + 1] = e.name
      end
    end
    table.sort(untested)
    assert.same({}, untested)
  end)
  it("are fields of tensors where tools/fields.txt says so", function()
    local public, stale = {}, {}
    for _, e in ipairs(list) do public[e.name], public[last(e.name)] = true, true end
    for name in pairs(meta.read_fields("tools/fields.txt")) do
      if not public[name] then stale[#stale + 1] = name end
    end
    assert.same({}, stale)
    local path = os.tmpname()
    local function refusal(text)
      local file = assert(io.open(path, "w"))
      file:write("# names\n.abs: T | size\n", text, "\n")
      file:close()
      local ok, e = pcall(meta.read_fields, path)
      return not ok and e:gsub("^.*:(%d+: )", "%1")
    end
    assert.is_false(refusal(".sign: T | of each element"))
    assert.equal("3: '.abs' appears twice", refusal(".abs: T | its size"))
    assert.equal("3: is neither a comment nor '.name: type | text'", refusal("sign x -> T"))
    os.remove(path)
  end)
  it("say by name what '...' stands for, and what they return", function()
    local by = {}
    for _, e in ipairs(list) do by[e.name] = e end
    local function params(name)
      local out = {}
      for i, p in ipairs(by[name].params) do
        out[i] = p[1] .. (p[3] and "? " or " ") .. p[2]:gsub(" .*$", "")
      end
      return table.concat(out, ", ")
    end
    assert.equal(
      "x flame.Tensor, k integer, dim? integer, largest? boolean, sorted? boolean",
      params("topk"))
    assert.equal("x flame.Tensor, dim? integer, descending? boolean, stable? boolean",
      params("sort"))
    assert.equal("", params("func"))
    assert.same({ "name", "forward", "backward" },
      { by.func.options[1][1], by.func.options[2][1], by.func.options[3][1] })
    assert.same({ "flame.Tensor values", "flame.Tensor positions" }, by.topk.returns)
    local silent = {}
    for _, e in ipairs(list) do
      if e.kind == "both" and #e.returns == 0 then silent[#silent + 1] = e.name end
    end
    assert.same({}, silent)
  end)
  it("come as a stub that is Lua", function() assert(load(meta.stub(), "=stub")) end)
  it("have a place for the options in the stub if one is given by name only", function()
    local blocks, class = {}, nil                          -- name -> its lines in the stub
    for line in meta.stub():gmatch("[^\n]*") do
      class = line:match("^%-%-%-@class flame%.options%.([%w_.:]+)$") or class
      if class then blocks[class] = (blocks[class] or "") .. line .. "\n" end
      if line:find("^function ") then class = nil end
    end
    local missing, count = {}, 0
    for _, e in ipairs(list) do
      local star = e.forms and e.options and e.forms[1]:find("[%(,]%s*%*")
      if star and blocks[e.name] then
        count = count + 1
        local type = "flame%.options%." .. e.name:gsub("%.", "%%.")
        if not (blocks[e.name]:find("@param options%? " .. type .. "\n")
            and blocks[e.name]:find("[%( ]options%) end\n"))
            and not blocks[e.name]:find("@param %.%.%. [^\n]*" .. type) then
          missing[#missing + 1] = e.name
        end
      end
    end
    assert.same({}, missing)
    assert.is_true(count > 200, count)
    assert.matches("function flame.addmm(x, mat1, mat2, options) end", blocks.addmm, 1, true)
    assert.matches("@param ... integer|integer[]|flame.options.ones\n", blocks.ones, 1, true)
    assert.matches("function flame.diag(x, diagonal) end", blocks.diag, 1, true)
  end)
  it("are there at their first use, also in the groups that C makes", function()
    local interpreter = dofile("spec/support/interpreter.lua")
    for _, e in ipairs(list) do
      if e.name:find("^autograd%.") or e.name:find("^cuda%.") then
        local pipe =
          assert(io.popen(("%s -e 'io.write(type(flame.%s))'"):format(interpreter, e.name)))
        assert.equal("function", pipe:read("a"), e.name)
        pipe:close()
      end
    end
  end)
  it("have aliases that are the same function", function()
    for _, pair in ipairs { { "absolute", "abs" }, { "multiply", "mul" }, { "concat", "cat" },
        { "swapaxes", "transpose" } } do
      assert.equal(flame[pair[2]], flame[pair[1]], pair[1])
    end
  end)
  it("that do not exist raise with the nearest one, or what PyTorch's is called here", function()
    local nn, optim, data = flame.nn, flame.optim, flame.data
    local function refused(t, name, text)
      helper.says(text, function() return t[name] end)
    end
    refused(flame, "sigmod", "flame has no 'sigmod'; did you mean 'sigmoid'?")
    refused(flame, "weight", "flame has no 'weight'")
    refused(flame, "exq_", "flame has no 'exq_'")
    refused(flame, "Linear", "flame has no 'Linear'; write nn.Linear")
    refused(nn, "relu", "nn has no 'relu'; write flame.relu")
    refused(nn, "Liner", "nn has no 'Liner'; did you mean 'Linear'?")
    refused(nn, "CrossEntropy", "nn has no 'CrossEntropy'; did you mean 'CrossEntropyLoss'?")
    refused(nn.init, "kaiming_unifrom_",
      "nn.init has no 'kaiming_unifrom_'; did you mean 'kaiming_uniform_'?")
    refused(optim, "Adamw", "optim has no 'Adamw'; did you mean 'AdamW'?")
    refused(optim.schedule, "cosin", "optim.schedule has no 'cosin'; did you mean 'cosine'?")
    refused(flame.plot, "imshow", "plot has no 'imshow': write plot.image(x), or plot.heatmap(x)")
    refused(flame.optim, "swa_utils", "optim has no 'swa_utils': write flame.nn.AveragedModel(net)")
    refused(data, "DataLoader",
      "data has no 'DataLoader': write data.loader(dataset, {size = 32, shuffle = true}), "
        .. "or data.batches({x, y}) of tensors")
    refused(flame, "DataLoader",
      "flame has no 'DataLoader': write data.loader(dataset, {size = 32, shuffle = true}), "
        .. "or data.batches({x, y}) of tensors")
    refused(flame, "backends", "flame has no 'backends': write flame.tf32(true) for its allow_tf32, "
      .. "flame.deterministic(true) for cudnn's")
    refused(flame, "symeig", "flame has no 'symeig': write flame.linalg.eigh(x)")
    refused(flame.linalg, "eig",
      "linalg has no 'eig': write flame.linalg.eigh(x), for symmetric matrices")
    refused(flame, "frombuffer",
      "flame has no 'frombuffer': write flame.from_bytes(text, shape, dtype)")
    refused(flame.zeros(2), "squeeze_",
      "a tensor has no field 'squeeze_': write x = x:squeeze(…)")
    refused(flame.zeros(2), "t_", "a tensor has no field 't_': write x = x:t(…)")
    refused(flame.zeros(2), "sotfmax_", "a tensor has no field 'sotfmax_': did you mean 'softmax'?")
    refused(flame.zeros(2), "shape_", "a tensor has no field 'shape_': did you mean 'shape'?")
    refused(flame.linalg, "svdd", "linalg has no 'svdd'; did you mean 'svd'?")
    refused(flame.autograd, "Function",
      "autograd has no 'Function': write flame.func{forward = …, backward = …}")
  end)
  it("are asked for with flame.has; private ones and fields of modules are nil", function()
    for _, name in ipairs { "topk", "exp_", "nn", "nn.Linear", "linalg.svd", "cuda.available",
        "optim.schedule.cosine" } do
      assert.is_true(flame.has(name), name)
    end
    for _, name in ipairs { "topkk", "exq_", "nn.Liner", "nothing.svd", "", "topk.x", ".", "_x" } do
      assert.is_false(flame.has(name), name)
    end
    assert.is_nil(flame._VERSION)
    assert.is_nil(flame[1])
    assert.is_nil(flame.nn.__name)
    assert.is_nil(flame.nn.Linear(2, 3).not_there)
    assert.is_nil(flame.nn.Linear.not_there)
  end)
  it("are all there in pairs(flame), with the modules that are loaded at their first use", function()
    local seen = {}
    for name, v in pairs(flame) do
      assert.is_nil(seen[name])
      seen[name] = v
    end
    for _, name in ipairs { "nn", "optim", "data", "plot", "image", "clifford", "topk", "cuda",
        "linalg", "grad", "version", "newaxis" } do
      assert.is_true(seen[name] ~= nil and rawequal(seen[name], flame[name]), name)
    end
  end)
  it("of PyTorch that are told are not names here, and what is told of them exists", function()
    local count = 0
    for place, names in pairs(require "flame.tools.elsewhere") do
      for name, text in pairs(names) do
        local full = place == "flame" and name or place .. "." .. name
        assert.is_false(flame.has(full), full)
        for call in text:gmatch("flame%.([%w_.]+)[({]") do
          assert.is_true(flame.has(call), call)
          count = count + 1
        end
        for call in text:gmatch("%f[%w]([nod][%a]+%.[%w_]+)[({]") do
          assert.is_true(flame.has(call), call)
          count = count + 1
        end
      end
    end
    assert.is_true(count > 30, count)
  end)
  it("of writes change their tensor and give it back", function()
    for _, e in ipairs(list) do
      local base = e.kind == "write" and e.name:match("^(.-)_$")
      local params = base and #e.params
      if base and params == 1 and e.of and flame[base] then
        local x = flame.tensor({ 0.25, 0.75 })
        local ok, y = pcall(function() return x[e.name](x) end)
        if not ok then x = flame.tensor({ 1, 0 }, { dtype = "i64" }); y = x[e.name](x) end
        assert.is_true(rawequal(x, y), e.name)
      end
    end
  end)
end)

describe("help", function()
  local function said(what)
    local lines, real = {}, print
    _G.print = function(...) lines[#lines + 1] = table.concat({ ... }, "\t") end
    local ok, e = pcall(flame.help, what)
    _G.print = real
    return ok and table.concat(lines, "\n") or e
  end
  it("prints the signature and what a function does", function()
    assert.matches("^hypot%(x: T|num, y: T|num%) %-> T\n  root of the sum of the squares of both",
      said("hypot"))
    assert.equal(said("hypot"), said(flame.hypot))
    assert.matches("^item%(x: T%) %-> num|bool", said("item"))
  end)
  it("takes functions of all modules", function()
    local nn = require "flame.nn"
    assert.matches("^nn%.Linear%(", said(nn.Linear))
    assert.matches("^optim%.SGD%(", said("SGD"))
  end)
  it("says the arguments and results of a kernel", function()
    local k = flame.kernel([[
      __global__ void twice(const float *x, const float *const *l, float2 u, float *y, int n) { y[0] = l[0][0]; }
      template <typename T> __global__ void thrice(const T *x, T *y, int n) { y[0] = 3 * x[0]; }
    ]], { entry = { "twice", "thrice" } })
    assert.matches("^twice%(x: float %*, l: list of float %*, u: float2, n%?: int%) %-> y\n",
      said(k.twice))
    assert.equal('kernel thrice<T>: help(k:of("f32"))', said(k.thrice))
    assert.equal("thrice: " .. said(k.thrice) .. "\ntwice: " .. said(k.twice), said(k))
  end)
  it("says what is not there", function()
    assert.matches("help: nothing is named 'zzz'", said("zzz"))
    assert.matches("help: there is no text on this function", said(function() end))
  end)
  it("is no global of a script", function() assert.is_nil(rawget(_G, "help")) end)
end)
