-- Runs each benchmark that bench/gpu_peer.py compares with PyTorch once, at a small size.
local interpreter = dofile("spec/support/interpreter.lua")
local device = os.getenv("FLAME_DEVICE") or "cpu"

-- What bench/worker.lua prints in answer to lines of input.
local function answers(lines)
  local input = os.tmpname()
  local f = assert(io.open(input, "w"))
  f:write(table.concat(lines, "\n"), "\n")
  f:close()
  local pipe =
    assert(io.popen(("'%s' bench/worker.lua %s small <%s 2>&1"):format(interpreter, device, input)))
  local list = {}
  for line in pipe:lines() do list[#list + 1] = line end
  pipe:close()
  os.remove(input)
  return list
end

describe("the worker of the benchmarks", function()
  local names = {}
  it("names what there is when it is asked for something else", function()
    local list = answers { "nothing 1" }
    local all = assert(list[1]:match("^error no benchmark nothing: there are (.+)$"), list[1])
    for name in all:gmatch("%S+") do names[#names + 1] = name end
    assert.equal(1, #list)
    assert.is_true(#names > 20)
  end)
  it("runs every benchmark and answers with its seconds", function()
    local lines = {}
    for i, name in ipairs(names) do lines[i] = name .. " 1" end
    local list = answers(lines)
    assert.equal(#names, #list, table.concat(list, "\n"))
    for i, name in ipairs(names) do
      assert.is_true((tonumber(list[i]) or 0) > 0, name .. ": " .. list[i])
    end
  end)
  it("has every benchmark that PyTorch is timed with", function()
    local f <close> = assert(io.open("bench/gpu_peer.py"))
    local known, asked = {}, 0
    for _, name in ipairs(names) do known[name] = true end
    -- "softmax_" has one case per dtype
    for name in f:read("a"):gmatch('cases%["([%w_]+)"') do
      asked = asked + 1
      assert.is_true(known[name] or known[name .. "f32"] and known[name .. "bf16"], name)
    end
    assert.is_true(asked > 10)
  end)
end)

describe("bench/small.lua", function()
  local function answer(line)
    local command = "echo '%s' | '%s' bench/small.lua %s ask 2>&1"
    local pipe <close> = assert(io.popen(command:format(line, interpreter, device)))
    return pipe:read("a"):gsub("\n$", "")
  end
  local names = {}
  for name in answer("nothing 1"):match("there are (.+)$"):gmatch("%S+") do
    names[#names + 1] = name
  end
  it("has the cases of bench/small.py, in its order", function()
    local f <close> = assert(io.open("bench/small.py"))
    local asked = {}
    for name in f:read("a"):match("\nCASES = {(.-)}"):gmatch('"([%w_]+)"') do
      asked[#asked + 1] = name
    end
    assert.same(asked, names)
    assert.is_true(#names >= 9)
  end)
  it("times each, and computes finite numbers that training changes", function()
    local lines = {}
    for i, name in ipairs(names) do lines[i] = name .. " check\\n" .. name .. " 1" end
    local list = {}
    local command = "printf '%s\\n' | '%s' bench/small.lua %s ask 2>&1"
    command = command:format(table.concat(lines, "\\n"), interpreter, device)
    local pipe <close> = assert(io.popen(command))
    for line in pipe:lines() do list[#list + 1] = line end
    assert.equal(2 * #names, #list, table.concat(list, "\n"))
    for i, name in ipairs(names) do
      local values = {}
      for word in list[2 * i - 1]:gmatch("%S+") do values[#values + 1] = tonumber(word) end
      assert.is_true(#values >= 3, name)
      for _, v in ipairs(values) do assert.is_true(v == v and math.abs(v) < 1e6, name) end
      if name:find("_step") then assert.is_true(values[1] ~= values[#values], name) end
      assert.is_true(tonumber(list[2 * i]) > 0, name)
    end
  end)
  it("solves an equation as plain numbers do, and counts rounds as they do", function()
    local start = (7919 + 80 * 104729 + 1 * 31) % 10007 / 5003.5 - 1
    local push = (7919 + 81 * 104729 + 1 * 31) % 10007 / 5003.5 - 1
    local function last(a, w)
      for _ = 1, 200 do
        w = w - 0.02 * (9.81 * math.sin(a) + 0.1 * w)
        a = a + 0.02 * w
      end
      return a
    end
    local slope = (last(start + 1e-5, push) - last(start - 1e-5, push)) / 2e-5
    local told = tonumber(answer("swing check"):match("%S+"))
    local bound = 1e-3 * math.max(1, math.abs(slope))
    assert.is_true(math.abs(told - slope) < bound, told .. ", " .. slope)
    assert.equal("1", answer("escape check"):match("%S+"))       -- -2.1 - 1.2i is outside at once
  end)
end)

describe("bench/gpt2.lua", function()
  it("trains and says how fast", function()
    local pipe = assert(io.popen(("'%s' bench/gpt2.lua 61 2 2 small 2>&1"):format(interpreter)))
    local said = pipe:read("a")
    pipe:close()
    assert.matches("^vocabulary 61, batch 2: [%d.]+ ms a step, [%d.]+ K tokens/s, %d+ launches", said)
  end)
end)

describe("bench/lanes.lua", function()
  it("times each kernel beside its loops in C, without checks and with them", function()
    local pipe = assert(io.popen(("'%s' bench/lanes.lua small 2>&1"):format(interpreter)))
    local said = pipe:read("a")
    pipe:close()
    for _, name in ipairs { "saxpy", "stencil", "bordered", "product", "cube", "blur", "transpose",
        "softmax", "stride" } do
      local _, columns = said:match(name .. "( +[%d. ]+)\n"):gsub("[%d.]+", "")
      assert.equal(5, columns, said)
    end
  end)
end)

describe("bench/ported.lua", function()
  it("has the gradients of kernels by hand", function()
    local pipe = assert(io.popen(("'%s' bench/ported.lua small 2>&1"):format(interpreter)))
    local said = pipe:read("a")
    pipe:close()
    for _, name in ipairs { "attention by tiles", "LU 8 x 8", "greatest four", "LSTM cell",
        "splats", "bodies", "particles", "relaxation", "cycle of two grids" } do
      assert.matches(name .. " +by hand %d+ us %(1.00%), derived %d+ us", said)
    end
  end)
end)

describe("bench/steps.lua", function()
  it("times its three cases", function()
    local pipe = assert(io.popen(("'%s' bench/steps.lua small 2>&1"):format(interpreter)))
    local said = pipe:read("a")
    pipe:close()
    for _, pattern in ipairs { "mlp: [%d.]+ us a step %([%d.]+ to [%d.]+%); %d+ launches, %d+ ops",
        "lstm: [%d.]+ us a step", "lengths: p50 [%d.]+ ms, p99 [%d.]+; %d+ plans and %d+ kernels" } do
      assert.matches(pattern, said)
    end
  end)

  it("says which cases there are", function()
    local pipe = assert(io.popen(("'%s' bench/steps.lua rnn 2>&1"):format(interpreter)))
    local said = pipe:read("a")
    pipe:close()
    assert.matches("no case rnn: there are lengths, lstm and mlp", said)
  end)
end)

describe("bench/generate.lua", function()
  it("writes tokens and says how fast", function()
    local pipe =
      assert(io.popen(("'%s' bench/generate.lua spec 2 8 f32 5 2>&1"):format(interpreter)))
    local said = pipe:read("a")
    pipe:close()
    assert.matches("^spec, batch 2, f32: 5 tokens of prompt in [%d.]+ ms, then [%d.]+ tokens/s", said)
  end)
end)
