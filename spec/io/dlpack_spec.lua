-- Exchange of tensors with other libraries through DLPack, as userdata that C modules of Lua make
-- and take. spec/c/test_lua_api.c tests such a module.
local flame = require "flame"
local helper = require "spec.support.helper"
local raises = helper.raises

describe("DLPack", function()
  it("gives a copy, which a later write does not change", function()
    local x = flame.tensor({ { 1, 2 }, { 3, 4 } }, { dtype = "i32" })
    local out = x:to_dlpack()
    x:fill_(7)
    local y = flame.from_dlpack(out)
    assert.same({ { 1, 2 }, { 3, 4 } }, y:totable())
    assert.equal("i32", y.dtype)
  end)

  it("gives a tensor away, which is freed then", function()
    local x = flame.ones(3)
    local y = flame.from_dlpack(x:to_dlpack(true))
    assert.same({ 1, 1, 1 }, y:totable())
    raises("tensor was freed at", function() return x:sum() end)
  end)

  it("keeps strides, dtypes and empty tensors", function()
    for _, dtype in ipairs { "f64", "f16", "bf16", "i64", "u8", "bool" } do
      local x = flame.ones(2, 3, { dtype = dtype }):t()
      assert.same(x:totable(), flame.from_dlpack(x:to_dlpack()):totable())
    end
    assert.same({ 0, 4 }, { table.unpack(flame.from_dlpack(flame.zeros(0, 4):to_dlpack()).shape) })
  end)

  it("is taken once, and takes nothing else", function()
    local out = flame.ones(1):to_dlpack()
    flame.from_dlpack(out)
    raises("from_dlpack: the dltensor was taken already", flame.from_dlpack, out)
    raises("from_dlpack: expected a dltensor of a C module, got", flame.from_dlpack, io.stdout)
    raises("from_dlpack: expected a dltensor of a C module, got", flame.from_dlpack, flame.newaxis)
    raises("to_dlpack", flame.ones(1).to_dlpack, flame.ones(1), 3)
  end)
end)
