-- Functions whose declaration says *factory take dtype, device and requires_grad, also false.
local nn = require "flame.nn"

local x <const> = flame.tensor { 1, 2 }
local calls <const> = {
  arange = { 3 }, as_tensor = { { 1, 2 } }, asarray = { { 1, 2 } }, empty = { 2 },
  empty_like = { x }, eye = { 2 }, full = { { 2 }, 1.5 }, full_like = { x, 1.5 },
  linspace = { 0, 1, 3 }, logspace = { 0, 1, 3 }, ones = { 2 }, ones_like = { x },
  scalar_tensor = { 3 }, tensor = { { 1, 2 } }, zeros = { 2 }, zeros_like = { x },
  new_empty = { x, 2 }, new_full = { x, { 2 }, 1.5 }, new_ones = { x, 2 },
  new_tensor = { x, { 1, 2 } }, new_zeros = { x, 2 }, normal = { { 2 } }, rand = { 2 },
  rand_like = { x }, randint = { { 2 }, 1, 3 }, randint_like = { x, 1, 3 }, randn = { 2 },
  randn_like = { x }, uniform = { { 2 } },
  ["nn.Transformer.generate_square_subsequent_mask"] = { 3 },
}

local function of(name)
  if name:find "^nn%." then return nn.Transformer.generate_square_subsequent_mask end
  return name:find "^new_" and function(t, ...) return t[name](t, ...) end or flame[name]
end

describe("*factory", function()
  for name, arguments in pairs(calls) do
    it("is taken whole by " .. name, function()
      for _, tracked in ipairs { true, false } do
        local all = table.pack(table.unpack(arguments))
        all[all.n + 1] = { dtype = "f64", device = "cpu", requires_grad = tracked }
        local y = of(name)(table.unpack(all))
        assert.same({ "f64", "cpu", tracked }, { y.dtype, y.device, y.requires_grad })
      end
    end)
  end

  it("is said of no other function", function()
    local page <close> = assert(io.open("docs/ops.md"))
    local n = 0
    for name in page:read "a":gmatch "\n| `([%w_.]+)%([^`\n]*%*factory" do
      n = n + 1
      assert.truthy(calls[name], name)
    end
    local m = 0
    for _ in pairs(calls) do m = m + 1 end
    assert.equal(m, n)
  end)
end)
