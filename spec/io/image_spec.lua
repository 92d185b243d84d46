-- flame.image: reading and writing PNG files, grids of images, resizing.

local flame = require "flame"
local image = require "flame.image"

local name = os.tmpname() .. ".png"
teardown(function() os.remove(name) end)

local raises = require("spec.support.helper").raises

describe("flame.image", function()
  it("is in flame at its first use", function() assert.equal(image, flame.image) end)
  it("reads what it wrote", function()
    local x = flame.randint({ 3, 4, 6 }, 0, 255):byte()
    image.save(name, x)
    assert.is_true(flame.equal(x, image.load(name)))
    assert.allclose(x:float() / 255, image.load(name, { float = true }))
    local wide = flame.tensor({ { 0, 65535 } }, { dtype = "i32" })
    image.save(name, wide)
    assert.same({ { 0, 1 } }, image.load(name, { float = true }):totable())
  end)
  it("lays images out as rows of a grid", function()
    local x = flame.arange(1, 12):reshape(3, 2, 2):byte()
    assert.same({
      { 0, 0, 0, 0, 0, 0, 0 },
      { 0, 1, 2, 0, 5, 6, 0 },
      { 0, 3, 4, 0, 7, 8, 0 },
      { 0, 0, 0, 0, 0, 0, 0 },
      { 0, 9, 10, 0, 0, 0, 0 },
      { 0, 11, 12, 0, 0, 0, 0 },
      { 0, 0, 0, 0, 0, 0, 0 },
    }, image.make_grid(x, { columns = 2, padding = 1 }):totable())
    assert.same({ { 1, 2, 5, 6, 9, 10 }, { 3, 4, 7, 8, 11, 12 } },
      image.make_grid(x, { padding = 0 }):totable())
    assert.same({ 3, 13, 13 },
      image.make_grid(flame.zeros(5, 3, 3, 5), { columns = 2, padding = 1, value = 1 }).shape)
  end)
  it("stretches values to 0 … 1 where it is asked to", function()
    local g = image.make_grid(flame.tensor { { { -2, 2 } }, { { 0, 1 } } },
      { padding = 0, normalize = true })
    assert.allclose({ { 0, 1, 0.5, 0.75 } }, g)
    assert.allclose({ { 0, 0 } },
      image.make_grid(flame.full({ 1, 1, 2 }, 7), { padding = 0, normalize = true }))
  end)
  it("resizes images and batches of them", function()
    local x = flame.tensor({ { 0, 100 }, { 100, 200 } }, { dtype = "u8" })
    assert.same({ { 0, 0, 100, 100 }, { 0, 0, 100, 100 }, { 100, 100, 200, 200 },
      { 100, 100, 200, 200 } },
      image.resize(x, { 4, 4 }, { mode = "nearest" }):totable())
    local y = image.resize(x, { 1, 1 })
    assert.same({ "u8", { { 100 } } }, { y.dtype, y:totable() })
    assert.same({ 3, 10, 20 }, image.resize(flame.rand(3, 5, 10), 10).shape)
    assert.same({ 2, 3, 7, 5 },
      image.resize(flame.rand(2, 3, 9, 9), { 7, 5 }, { mode = "bicubic" }).shape)
    assert.same({ { 100 } }, image.resize(x, { 1, 1 }, { mode = "area" }):totable())
    local z = flame.rand(4, 4, { requires_grad = true })
    image.resize(z, { 2, 2 }):sum():backward()
    assert.close(4, z.grad:sum():item(), 1e-5)
  end)
  it("refuses what is no image", function()
    raises("image.load: path must be a string, got nothing", image.load)
    raises("image.load: no option 'flaot'", image.load, "a.png", { flaot = true })
    raises("image.save: a.jpg: images are written as .png", image.save, "a.jpg", flame.zeros(2, 2))
    raises("image.save: x must be a tensor, got boolean", image.save, "a.png", true)
    raises("image.make_grid: need a tensor (n, h, w) or (n, channels, h, w), got (2, 2)",
      image.make_grid, flame.zeros(2, 2))
    raises("image.make_grid: the images have no pixels: (0, 2, 2)", image.make_grid,
      flame.zeros(0, 2, 2))
    raises("image.make_grid: columns must be an integer from 1 on, got 0", image.make_grid,
      flame.zeros(1, 2, 2), { columns = 0 })
    raises("image.resize: size must be an integer or ", image.resize,
      flame.zeros(2, 2), { 3 })
    raises("image.resize: size must be an integer or ", image.resize,
      flame.zeros(2, 2), 0.5)
    raises("image.resize: mode must be ", image.resize, flame.zeros(2, 2), 3, { mode = "cubic" })
    raises("image.resize: the image has no pixels: (0, 2)", image.resize, flame.zeros(0, 2), 3)
    raises("image.resize: need a tensor (h, w), (channels, h, w)", image.resize, flame.zeros(2), 3)
  end)
end)
