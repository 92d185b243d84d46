-- The benchmarks of bench/ at small sizes. What they measure is not looked at: they run, compare
-- and report.
local interpreter = dofile("spec/support/interpreter.lua")
local json = require "flame.models.json"

describe("bench/compare.py", function()
  -- A Python with PyTorch, if this machine has one; else the first there is.
  local python = os.execute("python3 -c '' 2>/dev/null") and "python3"
  for _, name in ipairs { "/usr/bin/python3", "python3" } do
    local find = "%s -c 'import importlib.util as u, sys; sys.exit(not u.find_spec(\"torch\"))' 2>/dev/null"
    if os.execute(find:format(name)) then python = name end
  end

  --- Runs it; the status, what it printed, and its results.
  local function run(options)
    local folder = os.tmpname()
    os.remove(folder)
    local pipe = assert(io.popen(("%s bench/compare.py --flame '%s' --device cpu --quick --rounds 1 --out '%s' %s 2>&1")
      :format(python, interpreter, folder, options)))
    local said = pipe:read("a")
    local _, _, status = pipe:close()
    local results = {}
    for _, name in ipairs { "json", "md", "svg" } do
      local f <close> = assert(io.open(folder .. "/peers." .. name), said)
      results[name] = f:read("a")
    end
    os.execute(("rm -r '%s'"):format(folder))
    return status, said, results, json.read(results.json)
  end

  it("runs every row, finds a planted wrong gradient, and names who is absent", function()
    if not python then return pending "there is no python3" end
    local status, said, files, results = run "--peers hand,llm.c,flash --plant 'LSTM cell'"
    assert.equal(1, status, said)
    local count = {}
    for _, row in ipairs(results.rows) do
      count[row.status] = (count[row.status] or 0) + 1
      assert.equal(row.status == "wrong", row.name:find("^LSTM cell") ~= nil, said)
      assert.equal(row.status == "wrong" and 0 or 1, #(row.samples.ours or {}), said)
      assert.is_true(row.budget > 0 and row.class ~= "")
    end
    assert.same({ wrong = 1, alone = count.alone, met = count.met, missed = count.missed }, count)
    assert.equal(1, (count.met or 0) + (count.missed or 0))      -- the other one by hand
    assert.is_true(count.alone >= 40)
    assert.equal("no --flash-clifford", results.absent.cpu.flash)
    assert.equal("no --llmc", results.absent.cpu["llm.c"])
    assert.matches("a gradient differs by 5.0e%-01", said)
    assert.matches("\n| hand | LSTM cell, derived gradient | %- | wrong | wrong | 1.50 |", files.md)
    assert.matches("^<svg .*</svg>\n$", files.svg)
  end)

  it("gives PyTorch the same data, compares with it, and times both in turn", function()
    if not python then return pending "there is no python3" end
    local status, said, _, results = run "--peers eager,graph --row 'layer norm, with'"
    assert.equal("needs a GPU", results.absent.cpu.graph)
    local row = results.rows[1]
    assert.equal(1, #results.rows)
    if results.absent.cpu.eager then
      assert.equal("alone", row.status)
      return pending("there is no PyTorch: " .. results.absent.cpu.eager)
    end
    assert.equal(0, status, said)
    assert.is_true(row.status == "met" or row.status == "missed", said)
    assert.is_true(row.errors.eager > 0 and row.errors.eager < 1e-5, said)
    assert.equal(row.medians.ours / row.medians.eager, row.ratio)
  end)

  it("draws the picture of docs/performance.md, whose tables are those of the results", function()
    if not python then return pending "there is no python3" end
    local status = os.execute(python .. " bench/compare.py --docs check >/dev/null 2>&1")
    assert(status, "docs/measured/peers.svg or the tables of docs/performance.md are stale: bench/compare.py --docs write")
  end)

  it("says which classes and peers there are", function()
    if not python then return pending "there is no python3" end
    local pipe <close> = assert(io.popen(python .. " bench/compare.py --only gtp 2>&1"))
    assert.matches("no 'gtp': peers are eager, .*; classes mlp, inference", pipe:read("a"))
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
        "splats", "bodies", "particles", "relaxation", "cycle of two grids", "elementwise chain",
        "stencil", "sampling of an image", "sum of 64", "series of 32", "Newton", "row in place 64",
        "spring 1,000" } do
      assert.matches(name .. " +by hand %d+ us %(1.00%), derived %d+ us", said)
    end
  end)
end)

describe("bench/lengths.lua", function()
  it("times steps of many lengths", function()
    local pipe = assert(io.popen(("'%s' bench/lengths.lua small 2>&1"):format(interpreter)))
    local said = pipe:read("a")
    pipe:close()
    assert.matches("lengths: p50 [%d.]+ ms, p99 [%d.]+; %d+ plans and %d+ kernels", said)
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
