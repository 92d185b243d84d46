-- Why runs on a GPU are no graphs (src/tensor/why.def), as flame.stats, flame.graph and
-- flame.profile say it, on the fake driver; and values that are copied so that they are.
local machine = require "spec.support.machine"
local has_gxx <const> = os.execute "g++ --version >/dev/null 2>&1"
local folder
setup(function() folder = machine.new() end)
teardown(function() machine.remove(folder) end)

local begin <const> = [[
local w, x = flame.randn(300, 300), flame.randn(300, 300)
flame.eval(w, x)
local kept, other, table_ = {}, flame.randn(20, 300), flame.randn(20, 300)
local labels = flame.randint({ 8 }, 1, 20)
local scale = flame.kernel("__global__ void scale(float a, const float *x, float *y, int n) {"
  .. "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = a * x[i]; }")
flame.eval(other, table_, labels)
local function chain(y, n)
  for _ = 1, n do y = y:matmul(w):tanh() end
  return y
end
local function reasons()
  local s = flame.stats()
  local list = { "graphs=" .. s.replays }
  for k, n in pairs(s.not_replayed) do list[#list + 1] = k .. "=" .. n end
  table.sort(list)
  return table.concat(list, " ")
end
flame.stats "reset"
]]

--- What the script prints on the fake driver, whose kernels write nothing.
local function run(script, environment)
  return (machine.run(folder, begin .. script,
    "FAKE_CUDA=\"idle=1\" " .. (environment or "")):gsub("%[CUDA[^\n]*\n", ""):gsub("%s+$", ""))
end
--- The reasons of eight steps: code with the number i.
local function eight(step, environment)
  return run(("for i = 1, 8 do %s end print(reasons())"):format(step), environment)
end

describe("flame.stats().not_replayed counts", function()
  for name, case in pairs {
    ["the first runs, and another program before them"] = { "flame.eval(chain(x, 3))",
      "being_made=1 first_runs=1 graphs=5 other_program=1" },
    ["runs that make a part of the graphs"] = { "flame.eval(chain(x, 40))",
      "being_made=2 first_runs=1 graphs=4 other_program=1" },
    ["runs of few steps"] = { "flame.eval(x:matmul(w))", "graphs=0 short=8" },
    ["replay that is off"] = { "flame.eval(chain(x, 3))", "graphs=0 turned_off=8",
      "FLAME_REPLAY=0" },
    ["the switch of CUDA"] = { "flame.eval(chain(x, 3))", "debug=8 graphs=0",
      "DEBUG_CUDA=1" },
    ["checks of kernels"] = { "flame.eval(chain(x, 3))", "checks=8 graphs=0",
      "FLAME_CHECK=bounds" },
    ["profiles"] = { "flame.profile(function() flame.eval(chain(x, 3)) end)",
      "graphs=0 profile=8" },
    ["inputs that move, and are too large to copy"] = {
      "kept[i] = flame.randn(15000, 300) flame.eval(kept[i]) flame.eval(chain(kept[i], 2))",
      "graphs=0 input_moved=7 other_program=1 short=8" },
    ["results that are held, and too large to give way"] = {
      "kept[i] = chain(flame.randn(15000, 300), 2):matmul(w) flame.eval(kept[i])",
      "graphs=0 other_program=1 result_moved=7" },
    ["more than four sets of addresses that take turns"] = {
      "local y = kept[i % 5 + 1] or flame.randn(15000, 300) kept[i % 5 + 1] = y flame.eval(y) "
        .. "for _ = 1, i == 8 and 20 or 0 do kept[1], kept[2], kept[3], kept[4], kept[5] = "
        .. "kept[2], kept[3], kept[4], kept[5], kept[1] local z = chain(kept[1], 2) flame.eval(z) "
        .. "z:free() end", "being_made=4 graphs=0 input_moved=9 more_than_four=6 other_program=1 short=5" },
    ["numbers that a call holds"] = {
      "flame.eval(scale(i, chain(x, 2)))",
      "graphs=0 number_changed=7 other_program=1" },
    ["calls that cannot be captured"] = {
      "flame.eval(flame.linalg.eigvalsh(flame.linalg.eigvalsh(x):diag():add(1)):add(1))",
      "being_made=1 call=4 first_runs=1 graphs=0 other_program=1 result_moved=1" },
    ["steps between which the host looks at checks"] = {
      "table_:index_add_(1, labels, other:index_select(1, labels)) "
        .. "flame.eval(table_, table_:tanh())",
      "being_made=1 first_runs=1 graphs=0 other_program=1 waits=5" },
    ["graphs that cannot be instantiated"] = { "flame.eval(chain(x, 3))",
      "being_made=1 first_runs=1 graphs=0 instantiate=5 other_program=1",
      "FAKE_CUDA=\"idle=1 fail=GraphInstantiate:1:1\"" },
  } do
    it(name, function() assert.equal(case[2], eight(case[1], case[3])) end)
  end
end)

describe("what keeps a run from being graphs is said", function()
  it("by flame.graph, with the line and the op", function()
    local text = run [[
for i = 1, 5 do
  kept[i] = chain(flame.randn(15000, 300), 2):matmul(w)
  if i == 1 or i == 5 then print(flame.graph(kept[i]):match "[^\n]*$") end
  flame.eval(kept[i])
end]]
    local first, last = text:match "^([^\n]*)\n([^\n]*)$"
    assert.matches("^runs 0, as graphs 0; nothing like it has run yet; an earlier one differs from "
      .. "it first at %l+", first)
    assert.matches("^runs 4, as graphs 0; the last value of a result is still held %(16 MB give way "
      .. "if that goes on%): matmul at .-:%d+$", last)
  end)

  it("by flame.graph where an earlier program has another op", function()
    local text = run [[
flame.eval(chain(x, 2):relu():matmul(w))
print(flame.graph(chain(x, 2):sigmoid():matmul(w)):match "[^\n]*$")]]
    assert.matches("differs from it first at sigmoid, where that has relu at .-:%d+$", text)
  end)

  it("by flame.graph not at all where runs are graphs, nor on a CPU", function()
    assert.equal("runs 5, as graphs 2", run [[
for _ = 1, 5 do flame.eval(chain(x, 3)) end
print(flame.graph(chain(x, 3)):match "[^\n]*$")]])
    local n = run [[
local a = flame.ones(3, { device = "cpu" }) + 1
print(flame.graph(a):match "[^\n]*$")]]
    assert.matches("^%%%d+ = add", n)
  end)

  it("by a profile, with the number of launches", function()
    assert.equal("true\t6\t1", run [[
for i = 1, 5 do kept[i] = chain(flame.randn(15000, 300), 2):matmul(w) flame.eval(kept[i]) end
local p = flame.profile(function()
  flame.eval(chain(flame.randn(15000, 300), 2):matmul(w))
end)
local y = p.not_replayed[1]
print(tostring(p):find("launches that are no graphs +6  the last value of a result") ~= nil
  and y.text:find "matmul at" ~= nil, y.launches, #p.not_replayed)]])
  end)

  it("by a profile not at all where runs are graphs", function()
    assert.equal("0", run [[
for i = 1, 5 do flame.eval(chain(x, 3)) end
print(#flame.profile(function() flame.eval(chain(x, 3)) end).not_replayed)]])
  end)
end)

it("each reason has a row in the page on profiling", function()
  local list, page = io.open "src/tensor/why.def":read "a", io.open "docs/profiling.md":read "a"
  local rows = page:match "| reason |.-\n\n"
  for name in list:gmatch "\nWHY%(([%l_]+)," do
    assert.truthy(rows:find("`" .. name .. "`", 1, true), name)
  end
end)

describe("runs are graphs", function()
  -- All values of all steps, read at the end, and how many of the last steps were graphs.
  local function both(step)
    local script = ([[
for i = 1, 16 do
  if i == 13 then flame.stats "reset" end
  %s
end
local graphs = flame.stats().replays
local hash = {}
for i, y in ipairs(kept) do
  hash[i] = string.format("%%.9g", y:double():sum():item())
end
print(graphs)
print(table.concat(hash, " "))]]):format(step)
    local function on(environment)
      return machine.run(folder, begin:gsub("300", "40") .. script, ("FAKE_CUDA=\"computes=2\" "
        .. "FLAME_CACHE_DIR=%s/cache TMPDIR=%s %s"):format(folder, folder, environment))
    end
    local replayed, plain = on "", on "FLAME_REPLAY=0"
    assert.equal(plain:match "\n.*", replayed:match "\n.*")
    assert.equal("0", plain:match "%d+")
    return replayed:match "%d+"
  end
  local function case(name, step)
    it(name, has_gxx and function() assert.equal("4", both(step)) end
      or function() pending "no g++" end)
  end
  case("where the script keeps each result, which gives way and has its value",
    "kept[i] = chain(x * i, 3):matmul(w) flame.eval(kept[i])")
  case("where each run reads another part of an array",
    "many = many or flame.randn(16 * 24, 40) "
      .. "kept[i] = chain(many:narrow(1, 24 * i - 23, 24), 3):sum() flame.eval(kept[i])")
  case("where it is a reversed part with gaps",
    "many = many or flame.randn(16 * 24, 80):flip(1) "
      .. "kept[i] = chain(many:narrow(1, 24 * i - 23, 24):narrow(2, 7, 40), 3):sum() flame.eval(kept[i])")
  case("where the last result, still held, is an input",
    "kept[i] = chain(kept[i - 1] or x, 3):matmul(w) flame.eval(kept[i])")
end)
