-- flame.plot: a picture of each kind of plot must be that in spec/golden/plot; axis ticks follow
-- their rule; plots accept all numbers (NaN, infinities); pictures of many points are small.

local flame = require "flame"
local plot = require "flame.plot"
local scale = require "flame.plot.scale"
local golden = dofile("spec/support/plots.lua")

local nan, inf = 0 / 0, math.huge
local path = os.tmpname()
local function written(p, kind, options)
  local name = path .. "." .. kind
  p:save(name, options)
  local f <close> = assert(io.open(name, "rb"))
  local text = f:read("a")
  os.remove(name)
  return text
end
local function stored(name)
  local f <close> = assert(io.open("spec/golden/plot/" .. name, "rb"))
  return f:read("a")
end
teardown(function() os.remove(path) end)

local raises = require("spec.support.helper").raises

describe("a plot of each kind", function()
  for _, name in ipairs(golden.names) do
    it("is as in spec/golden/plot: " .. name, function()
      local p = golden.plots[name]()
      assert.is_true(stored(name .. ".svg") == written(p, "svg"),
        "the SVG differs: tools/golden build-test, and look")
      assert.is_true(stored(name .. ".png") == written(p, "png", { scale = 1.5 }),
        "the PNG differs: tools/golden build-test, and look")
    end)
  end
end)

describe("ticks", function()
  local function at(lo, hi, log, most) return scale.ticks(lo, hi, log, most).at end
  it("are multiples of 1, 2 or 5 times a power of ten", function()
    assert.same({ 0, 2, 4, 6, 8, 10 }, at(0, 10, false, 6))
    assert.same({ -1, -0.5, 0, 0.5, 1 }, at(-1, 1, false, 5))
    for k = 1, 200 do
      local lo, span = (k * 0.618 % 1 - 0.5) * 10.0 ^ (k % 13 - 6), 10.0 ^ (k * 0.414 % 12 - 6)
      local t = scale.ticks(lo, lo + span, false, 6)
      assert.is_true(#t.at >= 2 and #t.at <= 12,
        ("%g to %g: %d ticks"):format(lo, lo + span, #t.at))
      for i, v in ipairs(t.at) do
        assert.is_true(v >= lo - span * 1e-6 and v <= lo + span * (1 + 1e-6))
        assert.is_true(i == 1 or t.label[i] ~= t.label[i - 1],
          "two labels are the same: " .. t.label[i])
      end
    end
  end)
  it("have labels that say the number", function()
    local t = scale.ticks(0, 0.3, false, 4)
    assert.same({ "0.0", "0.1", "0.2", "0.3" }, t.label)
    t = scale.ticks(0, 4e7, false, 5)
    assert.same({ "0", "10", "20", "30", "40" }, t.label)
    assert.equal("×10⁶", t.factor)
    t = scale.ticks(-2e-5, 2e-5, false, 5)
    assert.same({ "-20", "-10", "0", "10", "20" }, t.label)
    assert.equal("×10⁻⁶", t.factor)
  end)
  it("of a logarithmic axis are powers of ten, between two of them 1, 2 and 5", function()
    assert.same({ "0.1", "1", "10", "100" }, scale.ticks(0.09, 110, true, 6).label)
    assert.same({ "10⁻⁸", "10⁻⁶", "10⁻⁴" }, scale.ticks(1e-8, 1e-4, true, 3).label)
    assert.same({ 2, 5, 10, 20 }, at(1.5, 30, true, 6))
    assert.same({ 2, 3, 4 }, at(1.9, 4.1, true, 4))
  end)
  it("exist for ranges at the end of what numbers are", function()
    for _, ends in ipairs { { -1.7e308, 1.7e308 }, { 0, 5e-324 }, { 1e308, 1.1e308 },
        { 1, 1 + 2 ^ -52 }, { 0, 1e-300 }, { -5, -5 }, { 5e-324, 1e-323 } } do
      for _, log in ipairs { false, true } do
        if not log or ends[1] > 0 then
          local lo, hi = scale.range(ends[1], ends[2], { log = log })
          assert.is_true(lo < hi)
          assert.is_true(#at(lo, hi, log, 6) <= 20)
          local t = scale.position(lo, hi, log)(lo)
          assert.is_true(t >= -1e-9 and t <= 1e-9)
        end
      end
    end
    assert.same({}, at(0, 1e-320, false, 6))
  end)
end)

-- ---- numbers of all kinds -----------------------------------------------------------------------

local kinds = {
  line = function(v, o) return plot.new(o):line(v) end,
  ["line by x"] = function(v, o) return plot.new(o):line(v, v) end,
  scatter = function(v, o) return plot.new(o):scatter(v, v) end,
  histogram = function(v, o) return plot.new(o):histogram(v) end,
  bars = function(v, o) return plot.new(o):bars(v) end,
  ["bars by x"] = function(v, o) return plot.new(o):bars(v, v) end,
  heatmap = function(v, o) return plot.new(o):heatmap(#v > 0 and { v, v } or {}) end,
  contour = function(v, o) return plot.new(o):contour(#v > 0 and { v, v, v } or {}) end,
}
local inputs = {
  nothing = {}, ["one point"] = { 3 }, ["NaN alone"] = { nan, nan },
  ["infinities alone"] = { inf, -inf }, equal = { 2, 2, 2 }, zeros = { 0, 0, 0 },
  mixed = { 1, nan, 2, inf, -inf, 0, -1, 5 }, huge = { -1.7e308, 1.7e308, 0 },
  tiny = { 5e-324, 0, 1e-310 }, ["one ulp apart"] = { 1, 1 + 2 ^ -52 },
  negative = { -1, -2, -3 },
}
describe("plots of", function()
  for what, values in pairs(inputs) do
    it(what .. " are drawn, in every form", function()
      for kind, make in pairs(kinds) do
        for _, axis in ipairs { "linear", "log" } do
          local p = make(values, { xscale = axis, yscale = axis, width = 160, height = 120 })
          local where = kind .. ", " .. axis
          local text = p:svg()
          assert.is_nil(text:find("[ \"](-?nan)"), where)
          assert.is_nil(text:find("[ \"](-?inf)"), where)
          assert.same({ 3, 120, 160 }, p:pixels(1).shape)
          assert.is_true(#p:text { colour = true } > 0 and #tostring(p) < 20000, where)
        end
      end
    end)
  end
  it("what an axis cannot show say how much it is", function()
    local p = plot.new { yscale = "log" }:line { 1, nan, 0, -1, inf, 2 }
    assert.truthy(p:svg():find("not shown: 4 of 6 values", 1, true))
    assert.truthy(p:text():find("not shown: 4 of 6 values", 1, true))
  end)
end)

describe("a million points", function()
  local n = 1000000
  local function fraction(a) return flame.arange(n):double() * a % 1 end
  local function dots(text) return select(2, text:gsub("M[%d.]+ [%d.]+h0", "")) end
  it("of a line keep the extremes of each column of pixels", function()
    local x = flame.zeros(n)
    x[123457], x[700001] = 5, -3
    local text = plot.line(x):svg()
    assert.is_true(#text < 60000, #text)
    local _, inner = text:match('clipPath id="c1"><rect x="([%d.]+)" y="[%d.]+" width="([%d.]+)"')
    assert.truthy(inner)
    local ys = {}
    for y in text:match('<path d="(M[^"]+)" fill="none" stroke="#0072B2"')
        :gmatch("[ML ][%d.]+ ([%d.]+)") do
      ys[y] = true
    end
    local count = 0
    for _ in pairs(ys) do count = count + 1 end
    assert.equal(3, count)
  end)
  it("make small files", function()
    assert.is_true(#plot.line(fraction(0.618034)):svg() < 150000)
    assert.is_true(#plot.line(fraction(0.618034), fraction(0.414214)):svg() < 150000)
    local text = plot.scatter(fraction(0.618034), fraction(0.41421356)):svg()
    assert.is_true(#text < 900000, #text)
    assert.is_true(dots(text) > 10000)
    assert.is_true(#plot.bars(fraction(0.618034)):svg() < 150000)
    assert.is_true(#plot.heatmap(fraction(0.618034):reshape(1000, 1000)):svg() < 4000000)
    assert.is_true(#tostring(plot.line(fraction(0.618034))) < 20000)
  end)
  it("with gaps everywhere make small files", function()
    local x = fraction(0.618034)
    x = flame.where((flame.arange(n) % 3):eq(0), flame.full({ n }, nan, { dtype = "f64" }), x)
    assert.is_true(#plot.line(x):svg() < 400000)
    assert.is_true(#plot.line(fraction(0.414214), x):svg() < 1200000)
  end)
end)

-- ---- messages and errors -----------------------------------------------------------------------

describe("plots refuse", function()
  it("values of the wrong form", function()
    raises("plot.line: x has 2 values and y has 3: give as many of each", plot.line,
      { 1, 2 }, { 1, 2, 3 })
    raises("plot.line: y must have one axis, its shape is (2, 3): make it one by flatten()",
      plot.line, flame.zeros(2, 3))
    raises("plot.line: x must be a tensor or a list, got nothing", plot.line)
    raises("plot.line: y[2] is a table, not a number: give a tensor of one axis or a list of numbers",
      plot.line, { 1, {} })
    raises("plot.scatter: y must be a tensor or a list, got string 'a'",
      plot.scatter, { 1 }, "a")
    raises("plot.bars: there are 2 names and 3 heights", plot.bars, { "a", "b" }, { 1, 2, 3 })
    raises("plot.bars: there are 1 names and no heights", plot.bars, { "a" })
    raises("plot.heatmap: z must have two axes, its shape is (3)", plot.heatmap, flame.zeros(3))
    raises("plot.heatmap: row 1 of z has 2 values and row 2 has 1", plot.heatmap,
      { { 1, 2 }, { 3 } })
    raises("plot.contour: z has 2 columns and x has 3 values", plot.contour, { { 1, 2 }, { 3, 4 } },
      { x = { 1, 2, 3 } })
    raises("the shape of an image is (h, w) or (1 to 4, h, w), got (5, 2, 3): make permute(3, 1, 2) of channels last",
      plot.image, flame.zeros(5, 2, 3))
    raises("an image must be u8, or floats from 0 to 1, got i64", plot.image,
      flame.arange(4):reshape(2, 2))
  end)
  it("options that do not exist or do not fit", function()
    raises("plot.line: no option 'lable', there is: y label colour width dash alpha; did you mean 'label'?",
      plot.line, { 1 }, { lable = "a" })
    raises("plot.new: xscale must be \"linear\" or \"log\", got string 'ln'", plot.new,
      { xscale = "ln" })
    raises("plot.new: xlim is from 2 to 1: give two finite numbers", plot.new, { xlim = { 2, 1 } })
    raises("plot.new: ylim begins at 0 on a logarithmic axis", plot.new,
      { ylim = { 0, 1 }, yscale = "log" })
    raises("plot.new: xlim must be a list of numbers, got number 5", plot.new, { xlim = 5 })
    raises("plot.new: xlim must be a list of two numbers", plot.new, { xlim = { 1 } })
    raises("plot.heatmap: limits must be a list of numbers, got number 3", plot.heatmap, { { 1 } },
      { limits = 3 })
    raises("plot.line: dash must be true or false, got string '--'", plot.line, { 1 },
      { dash = "--" })
    raises("plot.new: width must be a number from 120 to 4000, got 10", plot.new, { width = 10 })
    raises("plot.new: title must be a string, got a tensor", plot.new, { title = flame.zeros(1) })
    raises("plot.line: colour must be", plot.line, { 1 }, { colour = "blue" })
    raises("plot.heatmap: no map 'jet', there is: depth, grey, heat or signed", plot.heatmap,
      { { 1 } }, { map = "jet" })
    raises("plot.histogram: bins must be an integer from 1 to 100000, got 0", plot.histogram,
      { 1 }, { bins = 0 })
    raises("\"cross\" or \"plus\", got string 'star'", plot.scatter, { 1 }, { shape = "star" })
    raises("plot.grid: item 2 must be a plot, got number", plot.grid, { plot.new(), 3 })
    raises("plot.save: a.jpg: plots are written as .svg, .png or .txt", plot.save,
      plot.new(), "a.jpg")
    raises("plot has no field 'lines'; did you mean 'line'?", function() plot.new():lines { 1 } end)
  end)
  it("a folder that is not there", function()
    raises("/nowhere/a.svg", plot.save, plot.new(), "/nowhere/a.svg")
    raises("/nowhere/a.png", plot.save, plot.new(), "/nowhere/a.png")
  end)
end)

describe("a plot", function()
  it("keeps the values that it was given", function()
    local x = flame.tensor { 1, 2, 3 }
    local p = plot.line(x)
    local before = p:svg()
    x:zero_()
    assert.equal(before, p:svg())
  end)
  it("draws no point outside its limits", function()
    local function marks(p) return select(2, p:svg():gsub("h0", "")) end
    assert.equal(2, marks(plot.new { ylim = { 0, 1 } }:line { 0.5, nan, 5, nan, 0.7, nan, -3 }))
    assert.equal(2, marks(plot.new { ylim = { 0, 1 } }:scatter { 0.5, 5, 0.7, -3 }))
    assert.equal(1,
      marks(plot.new { xlim = { 1.5, 2.5 }, ylim = { 1e-300, 1e-299 } }:scatter { 1,
        5e-300, 1e300 }))
  end)
  it("takes integers, booleans turned to numbers, half types and tensors that are tracked", function()
    for _, dtype in ipairs { "i64", "i32", "u8", "f16", "bf16", "f64" } do
      assert.equal(plot.line({ 1, 2, 3 }):svg(),
        plot.line(flame.tensor({ 1, 2, 3 }, { dtype = dtype })):svg())
    end
    assert.equal(plot.line({ 1, 2 }):svg(),
      plot.line(flame.tensor({ 1, 2 }, { requires_grad = true })):svg())
  end)
  it("writes signs of XML as text", function()
    local text = plot.new { title = 'a < b & "c" \1\xff' }:line({ 1 }):svg()
    assert.truthy(text:find("a &lt; b &amp; &quot;c&quot; ?", 1, true)
      or text:find("a &lt; b &amp; &quot;c&quot;", 1, true))
    assert.is_nil(text:find("[\1\xff]"))
  end)
  it("in the terminal has axes, labels and a key", function()
    local p = plot.new { title = "Title", xlabel = "step" }:line({ 1, 2, 3, 4 },
      { label = "up" }):line({ 4, 3, 2, 1 }, { label = "down" })
    local text = p:text { columns = 40, rows = 8, colour = false }
    assert.equal(table.concat({
      "                 Title",
      "4 ┤ ⠐⠢⠄                            ⢀⡠⠔⠂",
      "  │     ⠑⠢ ⢀                   ⣀⠤⠔⠊⠁",
    }, "\n"), text:match("^(.-\n.-\n.-)\n"))
    assert.truthy(text:find("⠤⠤⠤ up   ⠤ ⠤ down", 1, true))
    assert.is_nil(text:find("\27"))
    assert.truthy(p:text({ colour = true }):find("\27[38;2;0;114;178m", 1, true))
  end)
  it("of an image in the terminal has two pixels a character", function()
    local text = plot.image(flame.tensor { { 0, 1 }, { 1, 0 } }):text { columns = 20, rows = 6,
      colour = true }
    assert.truthy(text:find("\27[38;2;0;0;0m", 1, true))
    assert.truthy(text:find("▀", 1, true))
  end)
  it("changes its options by set", function()
    local p = plot.line({ 1, 2 }):set { title = "later", yscale = "log" }
    assert.equal(plot.new { title = "later", yscale = "log" }:line({ 1, 2 }):svg(), p:svg())
    raises("plot.set: no option 'titel'", p.set, p, { titel = "x" })
  end)
  it("is in flame at its first use", function() assert.equal(plot, flame.plot) end)
end)

describe("contours", function()
  it("of a plane are straight and of a cone circles", function()
    local contour = require "flame.plot.contour"
    local rows, xs, n = {}, {}, 41
    for i = 1, n do xs[i] = (i - 21) / 10 end
    for i = 1, n do
      rows[i] = {}
      for j = 1, n do rows[i][j] = math.sqrt(xs[i] ^ 2 + xs[j] ^ 2) end
    end
    local curves = contour.curves(rows, n, n, 1.05, xs, xs)
    assert.equal(1, #curves)
    local c = curves[1]
    assert.equal(c[1], c[#c - 1])
    assert.equal(c[2], c[#c])
    for i = 1, #c, 2 do assert.close(1.05, math.sqrt(c[i] ^ 2 + c[i + 1] ^ 2), 0.005) end
  end)
end)

describe("a PNG", function()
  it("holds the pixels that it was given, whatever they are", function()
    local name = path .. ".png"
    local function check(x)
      flame.save(name, x)
      assert.is_true(flame.equal(x, flame.load(name)), table.concat(x.shape, ", "))
    end
    for _, n in ipairs { 1, 2, 3, 257, 258, 259, 700 } do
      check(flame.zeros(n, 3, { dtype = "u8" }))
      check(flame.full({ 3, 5, n }, 200, { dtype = "u8" }))
      check((flame.arange(n * 40) * 7 // 3 % 256):byte():reshape(40, n))
      check(flame.randint({ 3, 40, n }, 0, 255):byte())
      check(flame.randint({ 2, 9, n }, 0, 65535):to("i32"))
      check((flame.randint({ 3, 60, n }, 0, 3) * 80):byte())
    end
    check(flame.randint({ 40 }, 0, 255):byte():reshape(1, 40):expand(300, 40):contiguous())
    check(flame.randint({ 100000 }, 0, 1):byte():reshape(1, 100000))
    os.remove(name)
  end)
  it("of a flat image is small", function()
    local text = written(plot.new(), "png")
    assert.is_true(#text < 60000, #text)
  end)
end)
