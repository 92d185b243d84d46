-- Steps of optimisers that are refused because a label is wrong: nothing of them remains, and a
-- parameter whose step happened is as after that many good ones.
local flame = require "flame"
local helper = require "spec.support.helper"
local optim = require "flame.optim"

local good = flame.tensor({ 1, 2, 3, 1, 2, 3 }, { dtype = "i64" })
local bad = flame.tensor({ 1, 2, 9, 1, 2, 3 }, { dtype = "i64" })

local rules = { { "SGD", {} }, { "SGD", { momentum = 0.9 } }, { "Adam", {} },
  { "Adam", { amsgrad = true } }, { "Adam", { capturable = true } }, { "AdamW", {} },
  { "Adagrad", { lr_decay = 0.1 } }, { "RMSprop", { momentum = 0.9 } }, { "Adadelta", {} },
  { "Adamax", {} }, { "NAdam", {} }, { "RAdam", {} }, { "Rprop", {} }, { "ASGD", { t0 = 1 } },
  { "Lion", {} }, { "Muon", {} } }

--- Trains two matrices, each with separate labels: { labels of w, labels of v } for each step.
--- read: the loss is read before the step. views: both are views of one tensor. Returns w, v, the
--- optimiser, how many steps failed.
local function train(rule, steps, read, views)
  flame.seed(1)
  local w, v = flame.randn(4, 3), flame.randn(5, 3)
  if views then
    local both = flame.cat { w, v }
    flame.eval(both)
    w, v = both:narrow(1, 1, 4):detach(), both:narrow(1, 5, 5):detach()
  end
  w:requires_grad_()
  v:requires_grad_()
  local opt, x, z = optim[rule[1]]({ w, v }, rule[2]), flame.randn(6, 4), flame.randn(6, 5)
  local raised = 0
  for _, labels in ipairs(steps) do
    opt:zero_grad()
    local loss = flame.cross_entropy(x:matmul(w), labels[1])
      + flame.cross_entropy(z:matmul(v), labels[2])
    loss:backward()
    local told = not read or pcall(loss.item, loss)
    local done, why = pcall(opt.step, opt)
    if not (told and done) then raised = raised + 1 end
    if not done then assert.truthy(why:find("class 9", 1, true)) end
  end
  return w, v, opt, raised
end

local function repeated(n)
  local steps = {}
  for i = 1, n do steps[i] = { good, good } end
  return steps
end

describe("a step that is refused", function()
  for k, views in ipairs { false, false, true, true } do
    local read = k % 2 == 0
    it("is not counted, parameter by parameter" .. (views and " of one buffer" or "")
      .. ", where the loss is " .. (read and "read first" or "not read"), function()
      for _, rule in ipairs(rules) do
        for _, start in ipairs { 0, 3 } do
          local steps = repeated(start)
          table.move({ { bad, bad }, { bad, good }, { good, bad }, { good, good }, { good, good } },
            1, 5, #steps + 1, steps)
          local w, v, opt, raised = train(rule, steps, read, views)
          assert.equal(3, raised)
          -- a step that raises at w, whose gradient has failed, does not come to v
          local of_w, of_v = start + 3, start + (read and 2 or 3)
          local name = rule[1] .. " after " .. start
          assert.same({ of_w, of_v }, { opt.state[w].step, opt.state[v].step }, name)
          assert.equal(of_w + (read and 0 or 1), opt.steps, name)
          local same_w = train(rule, repeated(of_w))
          local _, same_v = train(rule, repeated(of_v))
          assert.is_true(flame.equal(same_w, w) and flame.equal(same_v, v), name)
        end
      end
    end)
  end

  it("writes nothing, be it the first or a later one", function()
    local nn, cases = require "flame.nn", { { "SGD", { momentum = 0.9 } },
      { "SGD", { momentum = 0.9, nesterov = true } }, { "Adam", {} },
      { "AdamW", { amsgrad = true } },
      { "Adam", { capturable = true } }, { "RMSprop", { momentum = 0.9 } },
      { "RMSprop", { centered = true } }, { "Adagrad", {} }, { "Adadelta", {} }, { "Adamax", {} },
      { "NAdam", {} }, { "RAdam", {} }, { "Rprop", {} }, { "ASGD", { t0 = 1 } }, { "Lion", {} },
      { "Muon", {} }, { "Muon", { nesterov = false } } }
    for _, case in ipairs(cases) do
      for _, first in ipairs { true, false } do
        flame.seed(1)
        local net = nn.Sequential { nn.Linear(4, 5, { bias = false }), nn.Tanh(),
          nn.Linear(5, 3, { bias = false }) }
        local x, opt = flame.randn(6, 4), optim[case[1]](net:parameters(), case[2])
        local function step(labels)
          opt:zero_grad()
          local loss = flame.cross_entropy(net(x), labels)
          loss:backward()
          opt:step()
          return loss:item()
        end
        local function values()
          local all = {}
          for k, p in ipairs(net:parameters()) do
            all[k .. ""] = p:tolist()
            for name, v in pairs(opt:state_of(p) or {}) do
              if flame.is_tensor(v) and name ~= "count" then all[k .. name] = v:tolist() end
            end
          end
          return all
        end
        if not first then for _ = 1, 7 do step(good) end end
        local before = values()
        helper.raises("class 9", step, bad)
        local after = values()
        for name, v in pairs(before) do assert.same(v, after[name], case[1] .. " " .. name) end
        for _ = 1, 2 do assert.is_true(step(good) < 2) end
      end
    end
  end)

  it("of LBFGS is undone where the closure raises, also between trials of a line search", function()
    for _, search in ipairs { false, "strong_wolfe" } do
      for fails = 1, 6 do
        local function fit(with_error)
          local p = flame.tensor({ -1.2, 1 }, { dtype = "f64", requires_grad = true })
          local opt = optim.LBFGS({ p }, { lr = search and 1 or 1e-3, max_iter = 4,
            line_search_fn = search or nil })
          local calls
          local function closure()
            calls = calls - 1
            if calls == 0 then error("no loss") end
            opt:zero_grad()
            local loss = (1 - p[1]) ^ 2 + 100 * (p[2] - p[1] * p[1]) ^ 2
            loss:backward()
            return loss
          end
          local function step(error_at)
            calls = error_at or 1000
            return pcall(opt.step, opt, closure)
          end
          assert.is_true(step())
          if with_error then
            local values = p:totable()
            local done = step(fails)
            if not done then assert.same(values, p:totable()) end
            if done then return nil end                -- it needed fewer calls
          end
          assert.is_true(step())
          return { p:totable(), opt.steps, opt.state[p].n_iter, opt.state[p].step }
        end
        local got = fit(true)
        if got then assert.same(fit(false), got, tostring(search) .. fails) end
      end
    end
  end)
end)
