-- Tensors held by modules and optimisers outlive scopes; wrong uses raise with the script's line.
local flame = require "flame"
local helper = require "spec.support.helper"
local nn, optim = require "flame.nn", require "flame.optim"

describe("a scope", function()
  it("leaves parameters and buffers made inside it open", function()
    local net, buffer
    do
      local _ <close> = flame.scope()
      net = nn.Linear(2, 2)
      buffer = nn.Buffer(flame.ones(2))
    end
    assert.equal(2, net(flame.ones(1, 2)):numel())
    assert.equal(2, buffer:sum():item())
  end)

  for _, name in ipairs { "SGD", "Adam", "AdamW" } do
    it("leaves the state and the gradients of a step of " .. name .. " inside it open", function()
      local net = nn.Linear(2, 1)
      local opt = optim[name](net:parameters(),
        { lr = 0.1, momentum = name == "SGD" and 0.9 or nil })
      for _ = 1, 3 do
        local _ <close> = flame.scope()
        opt:zero_grad()
        net(flame.ones(1, 2)):sum():backward()
        opt:step()
      end
      assert.equal(2, net.weight.grad:numel())
      local saved = opt:state_dict()
      do
        local _ <close> = flame.scope()
        opt:load_state_dict(saved)
      end
      opt:step()
    end)
  end
end)

describe("a mistake with modules and optimisers", function()
  local here = debug.getinfo(1, "S").short_src .. ":"
  local mistakes = {
    ["a module without forward"] = function()
      local y = nn.Module.extend("M")()(flame.ones(1))
      return y
    end,
    ["an unknown option of a layer"] = function()
      local y = nn.Linear(2, 2, { foo = 1 })
      return y
    end,
    ["a size of zero"] = function() local y = nn.Linear(0, 2) return y end,
    ["a parameter that is no tensor"] = function() local y = optim.SGD({ 3 }) return y end,
    ["an unknown option of an optimiser"] = function()
      local y = optim.AdamW({ flame.ones(2) }, { rate = 1 })
      return y
    end,
    ["a negative norm"] = function()
      local y = optim.clip_grad_norm({ flame.ones(2) }, -1)
      return y
    end,
  }
  for what, f in pairs(mistakes) do
    it("names the script's line: " .. what, function()
      local message = helper.message(f)
      assert.equal(1, message:find(here, 1, true), message)
    end)
  end
end)
