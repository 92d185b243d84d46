--- Runs docs/messages.md: every piece of code in its "lua norun" blocks must raise the message
-- after the arrow below it ("…" stands for any text), with the script's line before it. If a
-- message says what to do, that part must be the hint of flame.last_error(), which else is empty.
local helper = require "spec.support.helper"
local flame = require "flame"

local function examples()
  local list, heading, open, code, first, number = {}, "", false, {}, 0, 0
  for line in io.lines("docs/messages.md") do
    number = number + 1
    heading = line:match("^## (.*)$") or heading
    if line == "```lua norun" then open = true
    elseif line == "```" then open = false
    elseif open and line:match("^%s+%-%->") then
      list[#list + 1] = { heading = heading, code = table.concat(code, "\n"),
        message = line:match("^%s+%-%-> (.*)$"), line = first }
      code = {}
    elseif open and not line:match("^%-%-") then
      if #code == 0 then first = number end
      code[#code + 1] = line
    end
  end
  assert(#code == 0, "code without a message at the end of docs/messages.md")
  return list
end

--- A Lua pattern for a message with "…".
local function pattern(message)
  return "^" .. message:gsub("[%^%$%(%)%%%.%[%]%*%+%-%?]", "%%%0"):gsub("…", ".*") .. "$"
end

-- The words with which a hint in a message, which says what to do, may begin: imperatives, "did you
-- mean", and names of options to set.
local REMEDIES = {}
for word in ([[use write cast clone reduce pass wrap return install give make name detach convert
  launch call set add did where options labels
  allow_unused]]):gmatch("%S+") do REMEDIES[word] = true end

--- The hint in a message: the text after a punctuation mark that begins with one of these words.
local function remedy(message)
  local at, found = 1, nil
  while true do
    local first, last, word = message:find("[;:(] ?([%w_]+)", at)
    if not first then return nil end
    found = REMEDIES[word] and message:sub((message:find("[%w_]", first)))
    if found then return found end
    at = last
  end
end

describe("docs/messages.md", function()
  local list = examples()
  it("has examples of every kind", function()
    local headings, n = {}, 0
    for _, e in ipairs(list) do headings[e.heading] = (headings[e.heading] or 0) + 1 end
    for _ in pairs(headings) do n = n + 1 end
    assert.is_true(#list > 90 and n >= 10)
  end)
  for _, e in ipairs(list) do
    it(("line %d raises: %s"):format(e.line, e.message), function()
      local chunk = assert(load("local flame = ... " .. e.code, "=script.lua"))
      local before = flame.stats().live_tensors
      local message = helper.message(chunk, flame)
      assert.equal("string", type(message))
      local place, rest = message:match("^(script%.lua:%d+): (.*)$")
      assert.truthy(place, message)
      if e.message:find("…", 1, true) then
        assert.matches(pattern(e.message), rest)
      else
        assert.equal(e.message, rest)
      end
      local last = flame.last_error()
      assert.truthy(last and last.message and #last.message > 0)
      local todo = remedy(last.message)
      if todo and last.hint .. ")" ~= todo then assert.equal(todo, last.hint) end
      if not todo then assert.equal("", last.hint) end
      assert.truthy(rest:find(last.message, 1, true), last.message)
      chunk = nil                                         -- luacheck: ignore
      collectgarbage() collectgarbage()
      assert.is_true(flame.stats().live_tensors <= before + 2, "handles are left")
    end)
  end
  it("names the line of the script, not of flame", function()
    local chunk =
      assert(load("local flame = ...\n\n\n  flame.mse_loss(flame.zeros(2), flame.zeros(3))",
        "=script.lua"))
    assert.matches("^script%.lua:4: mse_loss: ", helper.message(chunk, flame))
  end)
  it("keeps the line in a tail call", function()
    local chunk =
      assert(load("local flame = ...\n\nreturn flame.topk(flame.zeros(2), 5)", "=script.lua"))
    assert.matches("^script%.lua:3: topk: ", helper.message(chunk, flame))
  end)
  it("says where a late error was recorded and where it was read", function()
    local chunk = assert(load([[local flame = ...
      local y = flame.zeros(3):gather(1, flame.tensor({9}, {dtype = "i64"}))

      y:totable()]], "=script.lua"))
    local message = helper.message(chunk, flame)
    assert.equal("script.lua:2: gather: index 9 at position 1 is out of range for axis 1, need 1 to 3 (read at script.lua:4)", message)
  end)
  it("leaves targets of failed writes as they were", function()
    local x = flame.tensor({ 1, 2, 3 })
    for _, write in ipairs {
      function() x[5] = 1 end, function() x:add_(flame.zeros(2)) end,
      function() x:copy_(flame.zeros(2, 2)) end,
      function()
        x[flame.tensor({ 9 }, { dtype = "i64" })] = 1
        x:totable()
      end, function() x:mul_("a") end,
    } do
      assert.is_false(pcall(write))
      assert.same({ 1, 2, 3 }, x:totable())
    end
  end)
  it("are the same by method, function, pcall of either, and in a coroutine", function()
    local x, bad = flame.zeros(2), flame.zeros(3)
    local calls = {
      function() return x:mse_loss(bad) end, function() return flame.mse_loss(x, bad) end,
      function() return coroutine.wrap(function() return flame.mse_loss(x, bad) end)() end,
      function() return select(2, assert(pcall(flame.mse_loss, x, bad))) end,
    }
    for _, call in ipairs(calls) do
      local message = helper.message(call)
      assert.matches("messages_spec%.lua:%d+: mse_loss: shapes %(2%) and %(3%) do not broadcast$", message)
    end
    for _, f in ipairs { flame.matmul, x.matmul } do
      local _, message = pcall(f, x, "a")
      assert.matches("messages_spec%.lua:%d+: matmul: y must be a tensor, got string 'a'$", message)
    end
    local co = coroutine.create(function() return x:matmul(1) end)
    local _, message = coroutine.resume(co)
    assert.matches("messages_spec%.lua:%d+: matmul: y must be a tensor, got number 1$", message)
    assert.equal("matmul", flame.last_error().op)
  end)
  it("leaves inputs as they were, and the session going, whatever was wrong", function()
    local x, at = flame.tensor({ { 1, 2 }, { 3, 4 } }, { requires_grad = true }),
      flame.tensor({ 1 }, { dtype = "i64" })
    for _, wrong in ipairs {
      function() return x:sum(5) end, function() return x:scatter(1, at, flame.zeros(1)) end,
      function() return x:index_add(1, at, flame.zeros(1, 2, { dtype = "f64" })) end,
      function() return x:gather(1, flame.tensor({ { 7, 1 } }, { dtype = "i64" })):totable() end,
      function() return flame.einsum("ij,jk", x) end, function() return x:conv2d(x) end,
      function() return x:softmax(3) end,
    } do
      assert.is_false(pcall(wrong))
      assert.same({ { 1, 2 }, { 3, 4 } }, x:detach():totable())
      assert.is_nil(x.grad)
    end
    x:sum():backward()
    assert.same({ { 1, 1 }, { 1, 1 } }, x.grad:totable())
  end)
  it("tell of a missing driver, or of operands on two devices", function()
    local code = "local flame = ...\nlocal x = flame.zeros(2, {device = 'cuda'})\nreturn x + flame.zeros(2, {device = 'cpu'})"
    local message = helper.message(assert(load(code, "=script.lua")), flame)
    if flame.cuda.available() then
      assert.equal("script.lua:3: add: x is on cuda:0 and y on cpu; use y:to(x.device)", message)
      assert.equal("use y:to(x.device)", flame.last_error().hint)
    else
      assert.matches("^script%.lua:2: cuda: .+", message)
      for _, how in ipairs { "cuda()", "to('cuda:1')", "to('cuda')" } do
        _, message =
          pcall(assert(load("local flame = ...\nreturn flame.zeros(2):" .. how, "=script.lua")),
            flame)
        assert.matches("^script%.lua:2: cuda: .+", message)
        local where = message:match "no NVIDIA driver([^:]*):"
        local remedies = { [""] = "install one",
          [" in this container"] = "start it with the GPU, as docker run --gpus all does, with the "
            .. "NVIDIA Container Toolkit on the host",
          [" in WSL2"] = "install the NVIDIA driver in Windows, none here, and look that "
            .. "/usr/lib/wsl/lib is there" }
        if where then assert.equal(remedies[where], flame.last_error().hint) end
      end
      assert.is_nil(select(2, flame.cuda.available()):find "%c")
    end
  end)
end)
