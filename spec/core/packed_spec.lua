--- Packed sequences (lua/flame/nn/packed.lua): recurrent layers compute for sequences of different
-- lengths the same as for each sequence alone.
local raises = require("spec.support.helper").raises
local flame = require "flame"
local nn = require "flame.nn"
local utils = nn.utils
local function eq(expected, x) assert.allclose(expected, x, { atol = 1e-6 }) end

describe("packed sequences", function()
  local x = flame.arange(24.0):reshape(4, 3, 2)                    -- 4 steps, 3 sequences, 2 values
  it("hold the elements by steps, the longest sequence first", function()
    local p = utils.pack_padded_sequence(x, { 2, 4, 1 }, { enforce_sorted = false })
    assert.same({ 3, 2, 1, 1 }, p.batch_sizes:totable())
    assert.same({ 2, 1, 3 }, p.sorted_indices:totable())
    assert.same({ 2, 1, 3 }, p.unsorted_indices:totable())
    eq(flame.stack { x[{ 1, 2 }], x[{ 1, 1 }], x[{ 1, 3 }], x[{ 2, 2 }], x[{ 2, 1 }], x[{ 3, 2 }],
      x[{ 4, 2 }] }, p.data)
    local y, lengths = utils.pad_packed_sequence(p, { padding_value = -1, total_length = 5 })
    assert.same({ 2, 4, 1 }, lengths:totable())
    assert.same({ 5, 3, 2 }, y.shape)
    eq(x({}, 2), y({ 1, 4 }, 2))
    eq(flame.full({ 3, 2 }, -1), y({ 3, 5 }, 1))
    local z =
      utils.pad_packed_sequence(utils.pack_padded_sequence(x:transpose(1, 2), { 4, 4, 4 }, true),
        true)
    eq(x:transpose(1, 2), z)
  end)
  it("go to and from lists of sequences", function()
    local list = { flame.ones(2, 1), flame.full({ 3, 1 }, 2) }
    local back = utils.unpack_sequence(utils.pack_sequence(list, false))
    assert.equal(2, #back)
    eq(list[1], back[1])
    eq(list[2], back[2])
    eq(list[1], utils.unpad_sequence(utils.pad_sequence(list, true), { 2, 3 }, true)[1])
  end)
  it("give in every layer what each sequence gives alone", function()
    for _, name in ipairs { "RNN", "GRU", "LSTM" } do
      local m = nn[name](2, 3, { num_layers = 2, bidirectional = true })
      local v = (x / 24):clone():requires_grad_(true)
      local p, h, c = m(utils.pack_padded_sequence(v, flame.tensor({ 4, 2, 1 }, { dtype = "i64" })))
      local list = utils.unpack_sequence(p)
      local total = p.data:sum() + h:sum()
      local g = total:gradients({ v })[v]
      -- after the end of the second sequence
      eq(flame.zeros(2, 2), g({ 3, 4 }, 2))
      for i, length in ipairs { 4, 2, 1 } do
        local y, h1, c1 = m(v({ 1, length }, { i, i }))
        eq(y:squeeze(2):detach(), list[i]:detach())
        eq(h1:squeeze(2):detach(), h({}, i):detach())
        if c then eq(c1:squeeze(2):detach(), c({}, i):detach()) end
      end
    end
  end)
  it("are refused where lengths do not fit", function()
    raises("lengths do not fall: sort them, or {enforce_sorted = false}",
      utils.pack_padded_sequence, x, { 1, 2, 3 })
    raises("lengths[2] = 5, need 1 to 4", utils.pack_padded_sequence, x, { 4, 5, 1 })
    raises("lengths must be 3 numbers", utils.pack_padded_sequence, x, { 4, 1 })
    raises("packed must be a PackedSequence, got a tensor", utils.pad_packed_sequence, x)
    local p = utils.pack_padded_sequence(x, { 4, 2, 1 })
    raises("total_length = 2, there are 4 steps", utils.pad_packed_sequence, p,
      { total_length = 2 })
    raises("GRU: x has shape (7, 2), need 3 inputs on the last axis", nn.GRU(3, 1), p)
  end)
end)
