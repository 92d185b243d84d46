-- The grad mode with coroutines: a guard holds in the coroutine that opened it (src/lua/mode.c).
local flame = require "flame"
local wrap, yield = coroutine.wrap, coroutine.yield
local x = flame.ones(2, { requires_grad = true })

--- Is work tracked? By the mode that is told, and by what an op makes.
local function tracks()
  local told = flame.is_grad_enabled()
  assert.equal((x * 2).requires_grad, told)
  return told
end

describe("a guard of the grad mode in a coroutine", function()
  for _, form in ipairs { "a guard", "a function" } do
    --- Calls f in the mode, in one of two forms.
    local function within(mode, f)
      if form == "a function" then return flame[mode](f) end
      local _ <close> = flame[mode]()
      return f()
    end

    it("does not hold in the caller to which it yields: " .. form, function()
      local step = wrap(function()
        within("no_grad", function()
          assert.is_false(tracks())
          yield()
          assert.is_false(tracks())
          within("enable_grad", function()
            yield()
            assert.is_true(tracks())
          end)
          assert.is_false(tracks())
        end)
        assert.is_true(tracks())
        yield()
        assert.is_false(tracks())
      end)
      step()
      assert.is_true(tracks())
      step()
      assert.is_true(tracks())
      step()
      assert.is_true(tracks())
      flame.no_grad(step)
      assert.is_true(tracks())
    end)

    it("leaves the mode of a caller that has changed meanwhile: " .. form, function()
      local step = wrap(function()
        within("enable_grad", function()
          yield(tracks())
          yield(tracks())
        end)
        yield(tracks())
      end)
      assert.is_true(step())
      flame.no_grad(function()
        assert.is_true(step())
        assert.is_false(tracks())
        assert.is_false(step())
        assert.is_false(tracks())
      end)
      assert.is_true(tracks())
    end)
  end

  it("holds in a coroutine that it resumes, and only then", function()
    local inner = wrap(function() while true do yield(tracks()) end end)
    local outer = wrap(function()
      local _ <close> = flame.no_grad()
      while true do yield(inner()) end
    end)
    for _ = 1, 3 do
      assert.is_false(outer())
      assert.is_true(inner())
    end
    assert.is_true(tracks())
  end)

  it("does not disturb another's", function()
    local function each(mode)
      return wrap(function()
        local _ <close> = flame[mode]()
        while true do yield(tracks()) end
      end)
    end
    local off, on = each "no_grad", each "enable_grad"
    for _ = 1, 3 do
      assert.is_false(off())
      assert.is_true(tracks())
      flame.no_grad(function()
        assert.is_true(on())
        assert.is_false(off())
        assert.is_false(tracks())
      end)
    end
  end)

  it("ends with a coroutine that fails, is closed or is dropped", function()
    local function open()
      local _ <close> = flame.no_grad()
      assert.is_false(tracks())
      yield()
      error "over"
    end
    local failed, closed = coroutine.create(open), coroutine.create(open)
    assert.is_true(coroutine.resume(failed))
    assert.is_true(coroutine.resume(closed))
    assert.is_true(tracks())
    assert.is_false(coroutine.resume(failed))
    assert.is_true(tracks())
    coroutine.close(failed)
    coroutine.close(closed)
    assert.is_true(tracks())
    wrap(open)()
    collectgarbage()
    assert.is_true(tracks())
  end)

  it("may be closed by another coroutine", function()
    local guard = flame.no_grad()
    wrap(function() local _ <close> = guard end)()
    assert.is_true(tracks())
    local step = wrap(function()
      guard = flame.no_grad()
      yield()
      yield(tracks())
    end)
    step()
    do local _ <close> = guard end
    assert.is_true(tracks())
    assert.is_true(step())
    assert.is_true(tracks())
  end)
end)
