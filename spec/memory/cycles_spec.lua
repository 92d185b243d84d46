-- Reference cycles through the graph of a tensor: it holds hooks, functions of flame.checkpoint and
-- contexts of flame.func, which refer to the tensor. Lua's collector must free all of them in two
-- collections, and none while the graph is still reachable.
local flame = require "flame"
local ordered = require "spec.support.ordered"
local helper = require "spec.support.helper"
local nn = require "flame.nn"

local function leaf() return flame.ones({ 3 }, { requires_grad = true }) end
local function live()
  collectgarbage()
  collectgarbage()
  return flame.stats().live_tensors
end

-- Functions that leave a cycle through the graph to which nothing else refers.
local cycles = {
  ["a hook on a leaf that names it"] = function()
    local x = leaf()
    x:register_hook(function() return x and nil end)
  end,
  ["a hook on a leaf that names it, after backward"] = function()
    local x = leaf()
    x:register_hook(function() return x and nil end)
    local loss = (x * x):sum()
    loss:backward()
  end,
  ["a hook on a leaf that names its gradient, which has gradients"] = function()
    local x, g = leaf(), nil
    x:register_hook(function() return x and g and nil end)
    local loss = (x * x * x):sum()
    loss:backward { create_graph = true }
    g = x.grad
  end,
  ["a hook on a computed tensor that names it"] = function()
    local y = leaf() * 2
    y:register_hook(function() return y and nil end)
  end,
  ["a hook that names the loss, made before it"] = function()
    local x, loss = leaf(), nil
    x:register_hook(function() return loss and nil end)
    loss = (x * 2):exp():sum()
  end,
  ["a hook that names the loss, made after it"] = function()
    local x = leaf()
    local log = { losses = { (x * 2):exp():sum() } }
    x:register_hook(function() return log and nil end)
  end,
  ["hooks that name each other's tensors"] = function()
    local x, y = leaf(), leaf()
    x:register_hook(function() return y and nil end)
    y:register_hook(function() return x and nil end)
  end,
  ["a hook that hangs behind another's tensor"] = function()
    local x = leaf()
    local y = x * 2
    local z = y:exp() + x
    x:register_hook(function() return z and nil end)
    y:register_hook(function() return z and nil end)
    z:register_hook(function() return x and nil end)
  end,
  ["a checkpoint whose function names its result"] = function()
    local x, y = leaf(), nil
    y = flame.checkpoint(function(v) return y and v or v * x end, x)
  end,
  ["a function with a gradient whose context holds its result"] = function()
    local x, held = leaf(), nil
    local f = flame.func { name = "double",
      forward = function(ctx, v) held = ctx ctx:save(v) return v * 2 end,
      backward = function(_, g) return g * 2 end }
    held.y = f(x)
  end,
  ["a backward hook of a module that names its result"] = function()
    local net, y = nn.Linear(3, 2), nil
    net:register_full_backward_hook(function() return y and nil end)
    y = net(flame.ones(1, 3)):sum()
  end,
  ["a hook in a coroutine that waits"] = function()
    local y = leaf() * 2
    local wait = coroutine.wrap(function() coroutine.yield(y) end)
    wait()
    y:register_hook(function() return y and nil end)
  end,
}

--- Runs f in both modes of Lua's collector, and then restores the mode.
local function in_both_modes(f)
  local was = collectgarbage("incremental")
  f("incremental")
  collectgarbage("generational")
  f("generational")
  collectgarbage(was)
end

describe("two collections free", function()
  for name, make in ordered(cycles) do
    it(name, function()
      in_both_modes(function(mode)
        make()
        local before = live()
        for _ = 1, 3 do
          make()
          assert.equal(before, live(), mode)
        end
        for _ = 1, 10 do make() end
        assert.equal(before, live(), mode)
      end)
    end)
  end

  it("what a loop left, which the engine bounds meanwhile", function()
    for _, name in ipairs { "a hook on a leaf that names it",
      "a hook that names the loss, made after it",
      "a checkpoint whose function names its result" } do
      local before, most = live(), 0                  -- 3 tensors a round
      for _ = 1, 3000 do
        cycles[name]()
        local v = flame.ones(2)
        for _ = 1, 100 do v = v * 3 end
        flame.eval(v)
        most = math.max(most, flame.stats().live_tensors)
      end
      assert.equal(before, live(), name)
      assert.is_true(most - before < 3000, ("%s: %d"):format(name, most - before))
    end
  end)

  it("more at once than the first survey examines, after some more", function()
    local before = live()
    for _ = 1, 400 do
      local x = leaf()
      local deep = { x }
      for _ = 1, 1000 do deep = { deep } end
      x:register_hook(function() return deep and nil end)
    end
    for _ = 1, 4 do live() end
    assert.equal(before, flame.stats().live_tensors)
  end)
end)

describe("a collection keeps", function()
  --- Checks that backward of f's loss calls the hooks, which nothing but the loss keeps alive.
  local function fires(f)
    in_both_modes(function(mode)
      for rounds = 1, 4 do
        local seen = {}
        local loss = f(seen)
        for _ = 1, rounds do collectgarbage() end
        loss = loss * 1                           -- a new userdata; the old one is freed
        for _ = 1, rounds do collectgarbage() end
        loss:backward()
        assert.same({ 6 }, seen, mode)
      end
    end)
  end

  it("a hook on a leaf whose own userdata is gone", function()
    fires(function(seen)
      local x = leaf()
      x:register_hook(function(g) seen[#seen + 1] = g:sum():item() end)
      return (x * 2):sum()
    end)
  end)
  it("a hook that names its leaf, and the leaf's value", function()
    fires(function(seen)
      local x = leaf()
      x:register_hook(function(g) seen[#seen + 1] = (g * x):sum():item() end)
      return (x * 2):sum()
    end)
  end)
  it("a hook on a computed tensor that names it", function()
    fires(function(seen)
      local y = leaf() + 1
      y:register_hook(function(g) seen[#seen + 1] = (g * y):sum():item() / 2 end)
      return (y * 2):sum()
    end)
  end)
  it("a hook of a hook: one tensor is named by the other's alone", function()
    fires(function(seen)
      local x = leaf()
      local y = x * 2
      local function hook(g) seen[#seen + 1] = (g * y:detach()):sum():item() end
      y:register_hook(function() return y and nil end)
      x:register_hook(function(g) if g:sum():item() == 6 then hook(g * 0.5) end end)
      return y:sum()
    end)
  end)
  it("a checkpoint's function that names its result", function()
    fires(function(seen)
      local x, y = leaf(), nil
      y = flame.checkpoint(function(v)
        if y then seen[1] = (y * 2):sum():item() end
        return v * 1
      end, x)
      return y:sum()
    end)
  end)
  it("what a hook alone names: an object with a finaliser, a value of a weak table", function()
    local weak, finalised = setmetatable({}, { __mode = "v" }), {}
    fires(function(seen)
      local x = leaf()
      local object = setmetatable({}, { __gc = function() finalised[seen] = true end })
      weak[seen] = { x }
      local kept = weak[seen]
      x:register_hook(function(g)
        assert(object and not finalised[seen] and weak[seen] == kept)
        seen[#seen + 1] = (g * kept[1]):sum():item()
      end)
      return (x * 2):sum()
    end)
  end)
  it("a hook for a graph that a finaliser saves", function()
    local seen, saved = {}, nil
    do
      local x = leaf()
      local loss = (x * 2):sum()
      local keeper = setmetatable({},
        { __gc = function(o) if not saved then saved = o.loss * 1 end end })
      keeper.loss = loss
      x:register_hook(function(g)
        seen[#seen + 1] = g:sum():item()
        return loss and keeper and nil
      end)
    end
    for _ = 1, 6 do collectgarbage() end
    flame.eval(flame.ones(2) * 3)
    for _ = 1, 2 do collectgarbage() end
    if saved then saved:backward() end
    assert.same({ 6 }, seen)
  end)
  it("a hook through a write and a gradient that is set", function()
    local seen, q = {}, flame.zeros(3)
    do
      local x, p = leaf(), flame.ones(3)
      x:register_hook(function(g) seen[#seen + 1] = (g * x):sum():item() end)
      local y = x * 2
      collectgarbage()
      p:copy_(y)
      y = nil
      collectgarbage()
      q.grad = p
    end
    for _ = 1, 3 do collectgarbage() end
    q.grad:sum():backward()
    assert.same({ 6 }, seen)
  end)
end)

describe("a survey", function()
  it("gives up when memory is out, and the hook stays", function()
    if not flame.internal.fail_alloc then return end
    local n, loss = 0, nil
    do
      local x = leaf()
      x:register_hook(function() n = n + (x and 1) end)
      loss = (x * 2):sum()
    end
    flame.internal.fail_alloc(1, true)
    collectgarbage()
    collectgarbage()
    flame.internal.fail_alloc(0)
    loss:backward()
    assert.equal(1, n)
  end)
  it("in a hook and with an error in it leaves the walk whole", function()
    local x, n = leaf(), 0
    local y = x * 2
    y:register_hook(function() collectgarbage() collectgarbage() n = n + (y and 1) end)
    x:register_hook(function() collectgarbage() n = n + (x and 10) error("stop") end)
    helper.raises("stop", function() y:sum():backward { retain_graph = true } end)
    assert.equal(11, n)
    live()
    assert.is_false((pcall(function() y:sum():backward() end)))
    assert.equal(22, n)
  end)
end)

-- Graphs with hooks and checkpoints that refer to random tensors, and collections at random times.
-- Every hook between the one loss that is kept and the leaves must be called, with the tensors
-- alive that it refers to. Of hundreds of tensors at most a few may be alive afterwards.
describe("in random graphs", function()
  local function collect(random)
    for _ = 1, random(0, 3) do collectgarbage(random(5) == 1 and "step" or "collect") end
  end

  --- Makes a random graph; returns one of its tensors, and the set of this tensor's ancestors.
  local function grow(random, run)
    local pool, ancestors = {}, {}
    local function add(t, ...)
      local all = { [#ancestors + 1] = true }
      for _, p in ipairs { ... } do for a in pairs(ancestors[p.id]) do all[a] = true end end
      ancestors[#ancestors + 1] = all
      pool[#pool + 1] = { id = #ancestors, t = t }
    end
    local function hook(x, named)
      local id, object = x.id, setmetatable({}, { __gc = function(o) o.finalised = true end })
      x.t:register_hook(function()
        assert(not object.finalised and named:numel() == 2)
        run.fired[id] = (run.fired[id] or 0) + 1
      end)
      run.hooks[id] = (run.hooks[id] or 0) + 1
    end
    local function checkpoint(x, named)
      local y
      y = flame.checkpoint(function(v)
        assert(named:numel() == 2 and (not y or y:numel() == 2))
        return v * 2
      end, x.t)
      add(y, x)
    end
    add(flame.ones({ 2 }, { requires_grad = true }))
    for _ = 1, random(5, 40) do
      local k, x, y = random(8), pool[random(#pool)], pool[random(#pool)]
      if k <= 2 then add(x.t * 0.5 + y.t, x, y)
      elseif k == 3 then add((x.t * y.t):tanh(), x, y)
      elseif k == 4 then hook(x, y.t)
      elseif k == 5 then checkpoint(x, y.t)
      elseif k == 6 and #pool > 1 then table.remove(pool, random(#pool))
      elseif k == 7 then collect(random)
      elseif random(3) == 1 then flame.eval(x.t) end
    end
    local last = pool[random(#pool)]
    return last.t, ancestors[last.id]
  end

  for seed = 1, tonumber(os.getenv "FLAME_CYCLES") or 4 do
    it("of seed " .. seed .. " hooks fire, and the graphs go", function()
      math.randomseed(seed)
      in_both_modes(function(mode)
        local before = live()
        for round = 1, 60 do
          local run = { hooks = {}, fired = {} }
          local t, ancestors = grow(math.random, run)
          collect(math.random)
          if math.random(2) == 1 then t = t * 1 collect(math.random) end
          t = t:sum()
          collect(math.random)
          t:backward()
          for id, n in pairs(run.hooks) do
            assert.equal(ancestors[id] and n or nil, run.fired[id],
              ("%s, round %d, tensor %d"):format(mode, round, id))
          end
        end
        -- userdata from before the count may need one more collection
        live()
        live()
        assert.is_true(live() - before < 8, ("%s: %d tensors"):format(mode, live() - before))
      end)
    end)
  end
end)

-- A full collection runs finalisers and leaves their objects to the next one: with one collection
-- each time the heap doubles, what is left would double with it.
describe("cycles of a loop that evaluates nothing", function()
  it("leave as much of Lua's heap late as early", function()
    local file = os.tmpname()
    local f <close> = assert(io.open(file, "w"))
    f:write [[
      local flame = require "flame"
      local w, most = flame.ones(4, { requires_grad = true }), { 0, 0, 0, 0 }
      for i = 0, 59999 do
        local t = {}
        t.y = flame.checkpoint(function(x) return x * 2, t end, w)
        local quarter = i // 15000 + 1
        if i % 100 == 0 then most[quarter] = math.max(most[quarter], collectgarbage "count") end
      end
      print(most[2], most[4])]]
    f:close()
    local pipe <close> = assert(io.popen(dofile("spec/support/interpreter.lua") .. " " .. file))
    local early, late = pipe:read("n", "n")
    os.remove(file)
    assert.is_true(late < 1.5 * early, ("%.0f KB, then %.0f"):format(early, late))
  end)
end)
