--- Adjoints that have more shared memory than a block of the device: some of their arrays are in
--- global memory, a slice for each block. The CPU, which has no such limit, agrees with central
--- differences, and a GPU with the CPU, also where a small device lets all arrays move.
local judged = dofile("spec/kernel/kernel_judged.lua")
local machine = dofile("spec/support/machine.lua")
local proof = dofile("spec/kernel/kernel_proof.lua")
local spilled = dofile("spec/kernel/kernel_spilled.lua")

local names = {}
for name in pairs(spilled.kernels) do names[#names + 1] = name end
table.sort(names)

--- Runs a script on a GPU with these settings (FAKE_CUDA); spilled is the file above.
local function on_gpu(settings, script, environment)
  local folder = machine.new()
  local ok, text = pcall(machine.run, folder,
    "local spilled = dofile \"spec/kernel/kernel_spilled.lua\"; " .. script,
    (environment or "") .. (" FAKE_CUDA=\"computes=1 %s\""):format(settings))
  machine.remove(folder)
  assert(ok, text)
  return text
end

--- The gradients of these kernels on a GPU, compared with the CPU's.
local function same_on_gpu(list, settings, environment)
  local quoted = {}
  for i, name in ipairs(list) do quoted[i] = ("%q"):format(name) end
  local text = on_gpu(settings, ([=[
    for _, name in ipairs { %s } do
      local cpu = spilled.gradient(name, "cpu")
      local d = math.max(spilled.distance(spilled.gradient(name, "cuda"), cpu),
        spilled.distance(spilled.gradient(name, "cuda"), cpu))
      print(name, d < (spilled.kernels[name].dtype == "f64" and 1e-12 or 1e-5) and "equal" or d)
    end]=]):format(table.concat(quoted, ", ")), environment)
  assert.equal(table.concat(list, "\tequal\n") .. "\tequal\n", text)
end

--- A test that is not made a second time with checks (see the last test).
local function once(name, f)
  it(name, function() if not os.getenv "FLAME_CHECK" then f() end end)
end

describe("an adjoint with more shared memory than a block has", function()
  for _, name in ipairs(names) do
    it("is right on the CPU: " .. name, function()
      local o = spilled.kernels[name]
      local g = spilled.gradient(name)
      local weights = spilled.row(name, 2)
      local f32 = o.dtype == "f32" or o.coarse
      local step = f32 and 1e-2 or 1e-5
      for _, at in ipairs { 1, 2, o.n // 2 + 1, o.n, o.n + 3, 2 * o.n } do
        local function moved(by)
          local x = spilled.row(name, 0)
          x[at] = x[at]:item() + by
          return (spilled.call(name, x):to("f64") * weights:to("f64")):sum():item()
        end
        local difference = (moved(step) - moved(-step)) / (2 * step)
        local tolerance = (f32 and 1e-2 or 1e-6) * (1 + math.abs(difference))
        assert(math.abs(g[at]:item() - difference) <= tolerance,
          ("element %d: %g, central difference %g"):format(at, g[at]:item(), difference))
      end
    end)

    it("compiles: " .. name, function() judged.compiles(spilled.kernel(name)) end)
  end

  once("is the same on a GPU that has 227 KB for a block", function()
    same_on_gpu({ "doubles", "floats", "types" }, "")
    for _, name in ipairs { "doubles", "floats", "types" } do
      assert.matches(" %*global_", spilled.kernel(name):source("adjoint"))
    end
    assert(not spilled.kernel("small"):source("adjoint"):find(" *global_", 1, true))
  end)

  local small <const> = { "gathered", "halves", "mixed", "neighbours", "small", "small_types",
    "summed" }

  once("is the same where old contents move, or gradients too", function()
    same_on_gpu(small, "shared=4800")
    same_on_gpu(small, "shared=2200")
    same_on_gpu(small, "shared=1616 seed=5")
  end)

  once("has the same bits in each run where sums have no order", function()
    local text = on_gpu("shared=1616 seed=9", [=[
      local g = spilled.gradient("summed", "cuda")
      for run = 1, 5 do print(spilled.gradient("summed", "cuda"):bytes() == g:bytes()) end]=])
    assert.equal(("true\n"):rep(5), text)
  end)

  once("is the same with checks, which find no races", function()
    same_on_gpu(small, "shared=1616", "FLAME_CHECK=race,bounds,uninit")
  end)

  once("is the same in runs that are replayed", function()
    local text = on_gpu("shared=1616", [=[
      local x, w = spilled.row("small", 0, "cuda"):requires_grad_(), spilled.row("small", 2, "cuda")
      local cpu = spilled.gradient("small", "cpu")
      local before, far = flame.stats().replays, 0
      for step = 1, 12 do
        x.grad = nil
        ;(spilled.call("small", x) * w):sum():backward()
        far = math.max(far, spilled.distance(x.grad, cpu))
      end
      print(far < 1e-12, flame.stats().replays - before > 4)]=], "FLAME_REPLAY=2")
    assert.equal("true\ttrue\n", text)
  end)

  once("is the same in each launch of a batch, and to second order", function()
    local text = on_gpu("shared=1648", [=[
      local function batch(device)
        local x = flame.stack({ spilled.row("small", 0, device), spilled.row("small", 1, device) })
          :requires_grad_()
        local w = spilled.row("small", 2, device)
        flame.vmap(function(v) return (spilled.call("small", v) * w):sum() end)(x):sum():backward()
        return x.grad
      end
      print(spilled.distance(batch("cuda"), batch("cpu")) < 1e-12)
      local function second(device)
        local x = spilled.row("small", 0, device):requires_grad_()
        local w = spilled.row("small", 2, device)
        local g = flame.grad(function(v) return (spilled.call("small", v) * w):sum() end)(x)
        ;(g * g):sum():backward()
        return x.grad
      end
      local cpu = second("cpu")
      print(cpu:abs():max():item() > 1e-3, spilled.distance(second("cuda"), cpu) < 1e-12)]=])
    assert.equal("true\ntrue\ttrue\n", text)
  end)

  once("is refused if the slices of all blocks take too much memory", function()
    local text = on_gpu("shared=232448", [=[
      local o = spilled.kernels.doubles
      local k = flame.kernel { source = o.source, block = { 512 }, grid = { 20000 }, shared = 80000,
        shape = { 10 } }
      local x = flame.ones(10, { dtype = "f64", device = "cuda" }):requires_grad_()
      print(pcall(function() k(x, 0, 5):sum():backward() end))]=])
    assert.matches("rounds: the derivative of .rounds. keeps 11200000000 bytes in global memory, 560000 "
      .. "for each block, which do not fit shared memory; it may keep 4294967296; launch fewer blocks",
      text)
  end)

  once("says so if there is no memory for the slices, and is right afterwards", function()
    local text = on_gpu("shared=1616", [=[
      local cpu = spilled.gradient("small", "cpu")
      spilled.gradient("small", "cuda")
      local failed, right = 0, 0
      for k = 1, 60 do
        flame.internal.fail_alloc(k)
        local ok, g = pcall(spilled.gradient, "small", "cuda")
        flame.internal.fail_alloc(0)
        if not ok then
          failed = failed + 1
          assert(tostring(g):find("memory", 1, true) or tostring(g):find("bytes", 1, true), g)
        end
        if spilled.distance(spilled.gradient("small", "cuda"), cpu) < 1e-12 then right = right + 1 end
      end
      print(failed > 0, right)]=])
    assert.equal("true\t60\n", text)
  end)

  it("has no races", function()
    proof.checked("spec/kernel/gradient/kernel_spilled_spec.lua", "race,bounds,uninit")
  end)
end)
