-- The programs of examples/gallery: spec/support/gallery.lua runs each at a small size, and
-- compares the gradient of a step with differences. Each writes a picture and prints a measure that
-- must reach a bound, which is given here, in the program's last line, and in docs/gallery.md.

local interpreter = dofile("spec/support/interpreter.lua")

-- { program, ending of its picture, whether the bound of its measure is a maximum or a minimum, the
-- bound, name of its user kernel, if it has one }
local programs = {
  { "fluid", "png", "at most", 0.2, "carry" }, { "walker", "svg", "at least", 0.8, "walk" },
  { "raymarch", "png", "at least", 45, "march" }, { "splats", "png", "at least", 25.5, "paint" },
  { "sdf", "svg", "at most", 0.02 }, { "pendulum", "svg", "at least", 0.95, "swing" },
  { "heat", "png", "at most", 0.1, "cool" }, { "orbit", "svg", "at most", 0.001, "fly" },
  { "burgers", "svg", "at most", 0.03 }, { "neural_ode", "svg", "at most", 0.1 },
  { "cartpole", "svg", "at least", 150 }, { "clouds", "png", "at most", 0.33 },
}

local function read(path)
  local f = io.open(path, "rb")
  if not f then return nil end
  local text = f:read("a")
  f:close()
  return text
end

--- Runs a program: its output, and the bytes of its picture. In the mode "zero" all gradients are 0
--- and nothing changes, so 4 steps are enough.
local function run(program, mode)
  local picture = os.tmpname()
  os.remove(picture)
  local path = picture .. "." .. program[2]
  local pipe = assert(io.popen(("'%s' spec/support/gallery.lua %s examples/gallery/%s.lua --device cpu %s --out %s 2>&1")
    :format(interpreter, mode, program[1], mode == "zero" and "--steps 4" or "", path)))
  local output = pipe:read("a")
  local _, _, status = pipe:close()
  local bytes = read(path)
  os.remove(path)
  assert.equal(0, status, output)
  return output, bytes
end

--- Whether the measure in a program's last line of output reaches its bound.
local function reaches(program, output)
  local value, side, bar = output:match("\nmeasure: [^:]+: (%-?[%d.]+)[^,]*, (at %l+) ([%d.]+)\n$")
  assert.equal(program[3], side, output)
  assert.equal(program[4], tonumber(bar), output)
  value = tonumber(value)
  if side == "at least" then return value >= program[4] end
  return value <= program[4]
end

--- Whether the printed slope of the gradient agrees with the printed difference; and the latter.
local function agrees(output)
  local slope, difference = output:match("gradient: slope (%S+), difference (%S+)\n")
  slope, difference = tonumber(slope), tonumber(difference)
  return math.abs(slope - difference) <= 0.01 * math.abs(difference), difference
end

for _, program in ipairs(programs) do
  describe("examples/gallery/" .. program[1] .. ".lua", function()
    it("reaches its bar, by a gradient that agrees with differences", function()
      local output, picture = run(program, "check")
      assert.is_true(reaches(program, output), output)
      assert.is_true(agrees(output), output)
      local head = program[2] == "png" and "\137PNG\r\n\26\n" or "<svg "
      assert.equal(head, picture:sub(1, #head))
    end)

    it("does neither with a gradient of zero", function()
      local output = run(program, "zero")
      local agree, difference = agrees(output)
      assert.is_false(agree, output)
      assert.is_true(difference ~= 0, output)
      assert.is_false(reaches(program, output), output)
    end)

    it("has 60 to 150 lines, and derives the gradient of its kernel", function()
      local text = read(("examples/gallery/%s.lua"):format(program[1]))
      local _, lines = text:gsub("\n", "")
      assert.is_true(lines >= 60 and lines <= 150, lines)
      assert.equal(program[5] ~= nil, text:find("flame.kernel", 1, true) ~= nil)
      if program[5] then
        assert.truthy(text:find(("__global__ void %s("):format(program[5]), 1, true))
      end
      assert.is_nil(text:find("vjp", 1, true))
    end)
  end)
end

describe("docs/gallery.md", function()
  local page = read("docs/gallery.md") or ""

  it("has a section of each program, with its picture and its bar", function()
    for _, program in ipairs(programs) do
      local name = program[1]
      local from = page:find(("](../examples/gallery/%s.lua)"):format(name), 1, true)
      assert.truthy(from, name)
      local section = page:sub(from):match("^(.-)\n## ") or page:sub(from)
      assert.truthy(section:find(("](gallery/%s.%s)"):format(name, program[2]), 1, true), name)
      assert.truthy(section:find(("%s %s"):format(program[3], program[4]), 1, true), name)
    end
  end)

  it("quotes lines of the programs as they stand there", function()
    local quoted = 0
    for name, rest in page:gmatch("%]%(%.%./examples/gallery/([%w_]+)%.lua%)(.-)\n```\n") do
      local text = read(("examples/gallery/%s.lua"):format(name))
      local block = rest:match("\n```lua norun\n(.*)$")
      assert.truthy(block and #block > 120, name)
      assert.truthy(text:find(block, 1, true), name .. " has other lines than the page")
      quoted = quoted + 1
    end
    assert.equal(#programs, quoted)
  end)

  it("has pictures of 300 kB together", function()
    local bytes = 0
    for _, program in ipairs(programs) do
      bytes = bytes + #assert(read(("docs/gallery/%s.%s"):format(program[1], program[2])))
    end
    assert.is_true(bytes <= 300000, bytes)
  end)
end)
