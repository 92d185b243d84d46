--- flame-lua reports likely mistakes of a script on the standard error, once for each line, and
--- reports nothing for similar scripts that are correct.
local interpreter = dofile("spec/support/interpreter.lua")
local ordered = require "spec.support.ordered"

local HEAD = [[
local flame = require "flame"
local nn, optim = flame.nn, flame.optim
local x, y, t = flame.randn(8, 4), flame.randint({ 8 }, 1, 3), flame.randn(8)
local net = nn.Linear(4, 3)
local opt = optim.AdamW(net:parameters())
local function loss() return flame.cross_entropy(net(x), y) end
]]
local first = select(2, HEAD:gsub("\n", "")) + 1

--- What the script writes to the standard error, without the file's name.
local function told(text)
  local path = os.tmpname()
  local f = assert(io.open(path, "w"))
  f:write(HEAD, text)
  f:close()
  local pipe = assert(io.popen(interpreter .. " " .. path .. " 2>&1 >/dev/null"))
  local out = pipe:read("a")
  pipe:close()
  os.remove(path)
  return (out:gsub(path:gsub("%p", "%%%0"), "script"))
end

local function warns(text, line, message)
  assert.equal(("flame: warning: script:%d: %s\n"):format(first + line - 1, message), told(text))
end

describe("a slip is told with its line, once:", function()
  it("softmax before cross_entropy", function()
    local message = "cross_entropy: input is the result of softmax, which cross_entropy takes itself; "
      .. "give it the scores before"
    warns("for _ = 1, 3 do\n  flame.cross_entropy(net(x):softmax(2), y):backward()\nend", 2, message)
    warns("local p = nn.Sequential{net, nn.Softmax(2)}(x)\nflame.eval(p)\nnn.CrossEntropyLoss()(p, y)",
      3, message)
    warns("local w = flame.randn(3, {requires_grad = true})\nw:softmax(1):cross_entropy(y[1])", 2,
      message)
  end)
  it("a backward that adds to gradients that a step has used", function()
    local message = "step: a backward has added to gradients that the step before used; "
      .. "call opt:zero_grad() before backward"
    warns("for _ = 1, 3 do\n  loss():backward()\n  opt:step()\nend", 3, message)
    warns("for _ = 1, 3 do\n  loss():backward()\n  optim.clip_grad_norm(net:parameters(), 1)\n"
      .. "  optim.clip_grad_value(net:parameters(), 1)\n  opt:step()\nend", 5, message)
  end)
  it("(n, 1) against (n) in a loss", function()
    local function message(op, input, target, write)
      return ("%s: input has shape %s and target %s, so all pairs are compared; write %s"):format(op,
        input, target, write)
    end
    for _, op in ipairs { "mse_loss", "l1_loss", "huber_loss", "smooth_l1_loss" } do
      warns("local net = nn.Linear(4, 1)\nflame." .. op .. "(net(x), t)", 2,
        message(op, "(8, 1)", "(8)", "input:squeeze(2)"))
    end
    warns("local c = flame.randn(8, 1)\nnn.MSELoss()(nn.Linear(4, 1)(x):squeeze(2), c)", 2,
      message("mse_loss", "(8)", "(8, 1)", "target:squeeze(2)"))
  end)
  it("steps without a gradient", function()
    local after = "step: no parameter has a gradient, though a backward ran; "
      .. "call zero_grad() before backward, not after it"
    warns("for _ = 1, 3 do\n  loss():backward()\n  opt:zero_grad()\n  opt:step()\nend", 4, after)
    warns("for _ = 1, 3 do\n  loss():gradients(net:parameters())\n  opt:step()\nend", 3, after)
    warns("for _ = 1, 4 do\n  print(loss():item())\n  opt:step()\nend", 3,
      "step: no parameter has a gradient; call loss:backward() before it")
  end)
  it("each line by itself", function()
    local out = told("flame.cross_entropy(net(x):softmax(2), y)\n"
      .. "flame.cross_entropy(net(x):softmax(2), y)\n")
    assert.equal(2, select(2, out:gsub("flame: warning", "")))
  end)
end)

-- Correct programs that are similar to mistakes.
local RIGHT = {
  ["softmax in the target, along another axis, as weights, or scaled"] = [[
    flame.cross_entropy(net(x), net(x):detach():softmax(2)):backward()
    flame.cross_entropy(net(x):softmax(1), y):backward()
    flame.cross_entropy(net(x):softmax(2) * 10, y):backward()
    flame.cross_entropy(net(x):log_softmax(2), y):backward()
    flame.nll_loss(net(x):softmax(2):log(), y):backward()
    flame.cross_entropy(net(x):softmax(2):matmul(flame.randn(3, 3)), y):backward()]],
  ["the loss of a model without gradients"] = [[
    flame.no_grad(function() return flame.cross_entropy(net(x), y):item() end)]],
  ["gradients of several backwards in one step"] = [[
    for _ = 1, 3 do
      for _ = 1, 4 do (loss() / 4):backward() end
      opt:step() opt:zero_grad()
    end]],
  ["zero_grad at each of its places, by filling, and by hand"] = [[
    for _ = 1, 3 do opt:zero_grad() loss():backward() opt:step() end
    opt:zero_grad()
    for _ = 1, 3 do loss():backward() opt:step() net:zero_grad() end
    for _ = 1, 3 do loss():backward() opt:step() opt:zero_grad({set_to_none = false}) end
    for _ = 1, 3 do
      loss():backward() opt:step()
      for _, p in ipairs(net:parameters()) do p.grad = nil end
    end
    for _ = 1, 3 do
      loss():backward() opt:step()
      for _, p in ipairs(net:parameters()) do p.grad:zero_() end
    end]],
  ["momentum by hand in .grad"] = [[
    for _ = 1, 4 do
      loss():backward() opt:step()
      for _, p in ipairs(net:parameters()) do p.grad:mul_(0.9) end
    end]],
  ["two networks against each other, each zeroed before its own backward"] = [[
    local g = nn.Linear(4, 4)
    local other = optim.Adam(g:parameters())
    for _ = 1, 4 do
      opt:zero_grad()
      flame.cross_entropy(net(g(x)), y):backward()
      opt:step()
      other:zero_grad()
      local l = -flame.cross_entropy(net(g(x)), y)
      l:backward()
      other:step()
    end]],
  ["two optimisers of the same parameters"] = [[
    local other = optim.SGD(net:parameters(), {lr = 0.1})
    for _ = 1, 3 do
      loss():backward() opt:step() other:step()
      opt:zero_grad()
    end
    for _ = 1, 3 do
      opt:zero_grad() loss():backward() opt:step()
      loss():backward() other:step()
    end]],
  ["a step again from the same gradients"] = "loss():backward() for _ = 1, 3 do opt:step() end",
  ["LBFGS with its closure"] = [[
    local rule = optim.LBFGS(net:parameters(), {max_iter = 4})
    for _ = 1, 3 do
      rule:step(function() rule:zero_grad() local l = loss() l:backward() return l end)
    end]],
  ["a scaler of gradients"] = [[
    local scaler = optim.GradScaler()
    for _ = 1, 3 do
      opt:zero_grad() scaler:scale(loss()):backward() scaler:step(opt) scaler:update()
    end]],
  ["all pairs that are meant"] = [[
    local a = flame.randn(8, {requires_grad = true})
    flame.l1_loss(a:unsqueeze(2), t):backward()
    flame.mse_loss(a:reshape(8, 1), t):backward()
    flame.mse_loss(a[{ {}, flame.newaxis }], t):backward()
    flame.mse_loss(nn.Linear(4, 1)(x), t, {reduction = "none"}):sum():backward()]],
  ["shapes that agree, rows, and one element"] = [[
    local head = nn.Linear(4, 1)
    flame.mse_loss(head(x):squeeze(2), t):backward()
    flame.mse_loss(head(x), t:unsqueeze(2)):backward()
    flame.mse_loss(head(x[{ {1, 1}, {} }]), t[{ {1, 1} }]):backward()
    flame.mse_loss(nn.Linear(4, 8)(x), t):backward()
    flame.mse_loss(head(x), flame.tensor(0.5)):backward()
    flame.mse_loss(flame.randn(8, 1), t)]],
  ["a schedule tried without training"] = [[
    local rate = optim.schedule.step(opt, 2)
    print(loss():item())
    for _ = 1, 20 do opt:step() rate:step() end]],
  ["steps of a part that is frozen, or of experts that were not asked"] = [[
    local a, b = nn.Linear(4, 4), nn.Linear(4, 4)
    local of_a, of_b = optim.SGD(a:parameters(), {lr = 1}), optim.SGD(b:parameters(), {lr = 1})
    for k = 1, 8 do
      flame.cross_entropy(net((k < 7 and a or b)(x)), y):backward()
      of_b:step() of_a:step() opt:step()
      opt:zero_grad() of_a:zero_grad() of_b:zero_grad()
    end
    b:requires_grad_(false)
    for _ = 1, 3 do loss():backward() of_b:step() net:zero_grad() end]],
  ["acting before there is anything to learn from"] = [[
    for k = 1, 30 do
      local action = flame.multinomial(net(x):softmax(2), 1)
      if k > 20 then loss():backward() end
      opt:step() opt:zero_grad()
    end]],
  ["batches that are left out"] = [[
    for k = 1, 6 do
      local l = loss()
      if k % 3 == 0 and l:item() < 1e9 then l:backward() end
      opt:step() opt:zero_grad()
    end]],
}

describe("no slip is seen in", function()
  for name, text in ordered(RIGHT) do
    it(name, function() assert.equal("", told(text)) end)
  end
end)
