--- A method called with a dot: the error for x.sum() in place of x:sum() says what to write, if the
--- script's line can be read; errors of calls that fail for another reason do not.
local flame = require "flame"
local nn, optim = require "flame.nn", require "flame.optim"
local interpreter = dofile("spec/support/interpreter.lua")

local function message(f, ...) return (select(2, pcall(f, ...))) end

describe("a method called with a dot", function()
  local net = nn.Sequential { nn.Linear(2, 3) }
  local opt = optim.SGD(net:parameters(), { lr = 0.1 })
  local x = flame.ones(2, 2)
  local M = { net = net, list = { x, { x } } }

  --- Checks that f, a function on one line, raises a message with that line and with what to write.
  local function dotted(op, write, f)
    local line = debug.getinfo(f, "S").linedefined
    assert.equal(("spec/core/dotted_spec.lua:%d: %s: called with a dot: write %s"):format(line, op,
      write), message(f))
    assert.equal("write " .. write, flame.last_error().hint)
  end

  it("is told at the script's line, with the object as it is written there", function()
    dotted("parameters", "net:parameters()", function() net.parameters() end)
    dotted("step", "opt:step()", function() opt.step() end)
    dotted("zero_grad", "opt:zero_grad()", function() opt.zero_grad( ) end)
    dotted("load_state_dict", "net:load_state_dict(…)", function() net.load_state_dict({}) end)
    dotted("add_param_group", "opt:add_param_group(…)",
      function() opt.add_param_group { params = { x } } end)
    dotted("sum", "x:sum()", function() x.sum() end)
    dotted("sum", "x:sum(…)", function() local _ = x.sum(2) + x:sum() end)
    dotted("exp_", "x:exp_()", function() x.exp_() end)
    dotted("topk", "x:topk(…)", function() return x.topk(1) end)
    dotted("softmax", "x:softmax(…)", function() return flame.relu(x), x.softmax(2) end)
    dotted("item", "x:item()", function() return x.item() end)
  end)
  it("is told of fields, elements and globals", function()
    dotted("train", "M.net:train()", function() M.net.train() end)
    dotted("sum", "net[1].weight:sum()", function() net[1].weight.sum() end)
    dotted("sum", "M.list[2][1]:sum()", function() M.list[2][1].sum() end)
    local f = load("local _ = 1\nx.sum()", "=(load)", "t", { x = x })
    assert.equal("(load):2: sum: x must be a tensor, got nothing", message(f))
    f = load("local _ = 1\nlocal x = nil\nx.mean()", "text", "t", { x = x })
    assert.matches("attempt to index a nil value", message(f))
    f = load("local _ = 1\nx.mean()", "local _ = 1\nx.mean()", "t", { x = x })
    assert.matches(":2: mean: called with a dot: write x:mean%(%)$", message(f))
  end)
  it("is told beside the facts where an argument is such an object", function()
    assert.matches("matmul: y must be a tensor, got nothing; called with a dot: write x:matmul%(…%)$",
      message(function() return x.matmul(x:t()) end))
  end)
  it("is not told where the object is the first argument, or the function a module's", function()
    local alias = { sum = flame.sum }
    for _, f in ipairs {
      function() return flame.sum() end,
      function() return alias.sum() end,
      function() return x.matmul(x) end,
      function() return x.sum(x, 9) end,
      function() return x:sum(9) end,
      function() return flame.matmul(x) end,
      function() return net:load_state_dict(3) end,
      function() return net.load_state_dict(net, 3) end,
      function() return pcall(x.sum) and x end,
      function() local _ = "x.sum()"; return flame.sum() end,
    } do
      assert.not_matches("with a dot", tostring(message(f)))
    end
  end)
  it("is told of a script in a file; one from a pipe is not read again", function()
    local text = "local flame = require 'flame'\nlocal x = flame.ones(2)\nx.sum()\n"
    local path = os.tmpname()
    local f = assert(io.open(path, "w"))
    f:write("#!/usr/bin/env flame-lua\n", text)
    f:close()
    local function output(command)
      local pipe = assert(io.popen("{ " .. command .. "; } 2>&1"))
      local out = pipe:read("a")
      pipe:close()
      return out
    end
    assert.matches(":4: sum: called with a dot: write x:sum%(%)\n",
      output(interpreter .. " " .. path))
    assert.matches(":3: sum: x must be a tensor, got nothing\n",
      output("tail -n +2 " .. path .. " | " .. interpreter .. " /dev/stdin"))
    os.remove(path)
    assert.matches(":2: sum: called with a dot: write x:sum%(%)\n",
      output(interpreter .. " -e 'y = 1' -e 'local x = flame.ones(2)\nx.sum()'"))
  end)
end)
