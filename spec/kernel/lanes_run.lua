--- Launches of the kernels of lanes_program.lua: their data, their gradients by a tape, and the
-- comparison of the library's with these.
local programs = dofile "spec/kernel/lanes_program.lua"
local pick, one_of, tape = programs.pick, programs.one_of, programs.tape
local value, leaf, plus, times = tape.value, tape.leaf, tape.plus, tape.times

local THREADS <const> = 192          -- elements of x and y; the launches use less
local NAMES <const> = { "x", "u", "w", "v" }
local shapes <const> = { { 1 }, { 2 }, { 3 }, { 5 }, { 31 }, { 32 }, { 32 }, { 32 }, { 33 }, { 40 },
  { 64 }, { 96 }, { 4, 3 }, { 8, 4 }, { 16, 2 }, { 16, 3 }, { 7, 5 }, { 32, 2 } }

local function values(n, list)
  local all = {}
  for k = 0, n - 1 do all[k] = one_of(list) end
  return all
end

--- A launch of the program q: its block and grid, its data.
local function launch(q, number)
  programs.start(q.seed * 1000033 + number)
  for _ = 1, 4 do pick(2) end
  local small <const> = { -1, -0.5, 0, 0.5, 1, 1 }
  local c = { block = one_of(shapes), grid = 1 + pick(2), n = pick(programs.N_MAX + 1),
    m = pick(programs.M_MAX + 1) }
  c.threads = c.block[1] * (c.block[2] or 1)
  c.x = values(THREADS, one_of { { -1, 0, 1, 2 }, { -1, 0, 0, 0, 0, 0, 2 }, { 1, 2 } })
  for _, name in ipairs { "u", "w", "v" } do c[name] = values(q.length[name] or 1, small) end
  c.index = values(8, { 0, 1, 2, 3, 4, 5, 6, 7 })
  c.count = values(THREADS, one_of { { 0, 1, 2, 3, 4, 5 }, { 1, 1, 1, 5 }, { 3 } })
  c.dy = values(THREADS, one_of { { -1, 1, 2 }, { 0, 0, 0, 0, 1 }, { 1 } })
  return c
end

local early <const> = {
  ["i % 5 == 3"] = function(e) return e.at.i % 5 == 3 end,
  ["x[i] > 1"] = function(e) return value[e.f["x[i]"]] > 1 end,
  ["t > 20"] = function(e) return e.at.t > 20 end,
}

local function thread(c, leaves, b, t)
  local i <const> = b * c.threads + t
  local x <const>, zero <const> = leaves.x[i], leaf(0)
  return { at = { i = i, t = t, n = c.n, m = c.m, q0 = 0, q1 = 1 }, count = c.count[i],
    index = c.index, f = { ["x[i]"] = x, s0 = x, z = x, s = zero }, p = { [0] = x, leaf(1), zero } }
end

local function run_block(q, c, leaves, b, seeds)
  local all, array = {}, { w = leaves.w, v = leaves.v }
  for t = 0, c.threads - 1 do all[t] = thread(c, leaves, b, t) end
  for r = 0, q.rounds - 1 do
    for _, name in ipairs(q.tiles) do
      array[name] = {}
      for k = 0, q.length[name] - 1 do array[name][k] = leaves.u[k + q.from[name] + r] end
    end
    for t = 0, c.threads - 1 do
      local e = all[t]
      e.array, e.at.r = array, r
      if t == 0 then q.solo(e) end
      e.left = q.early and early[q.early](e)
      if not e.left then q.body(e) end
    end
  end
  for t = 0, c.threads - 1 do
    local e = all[t]
    local y = plus(plus(plus(e.f.s, e.f.z, 1), e.p[0], -1), times(e.p[1], e.f.s0), 1)
    if not e.left then
      y = plus(y, e.p[2], 1)
      seeds[y], c.y[e.at.i], c.size_of_y[e.at.i] = c.dy[e.at.i], value[y], math.abs(value[y])
    end
  end
end

--- The gradients of the arrays x, u, w and v, and the sum of the sizes of what each consists of:
--- { x = { [0] = … } … }; nil: the launch is too large. c.y gets the values.
local function gradients(q, c)
  local leaves, seeds = {}, {}
  tape.clear()
  c.y, c.size_of_y = {}, {}
  for _, name in ipairs(NAMES) do
    leaves[name] = {}
    for k = 0, #c[name] do leaves[name][k] = leaf(c[name][k]) end
  end
  for b = 0, c.grid - 1 do
    local ok, why = pcall(run_block, q, c, leaves, b, seeds)
    if not ok and why == "too large" then return nil end
    if not ok then error(why, 0) end
  end
  local adj, size = tape.adjoints(seeds)
  local out, sizes = {}, {}
  for name, list in pairs(leaves) do
    out[name], sizes[name] = {}, {}
    for k, at in pairs(list) do out[name][k], sizes[name][k] = adj[at], size[at] end
  end
  return out, sizes
end

-- ---- comparison ---------------------------------------------------------------------------------

local function tensor(flame, list, dtype)
  local all = {}
  for k = 0, #list do all[k + 1] = list[k] end
  return flame.tensor(all, { dtype = dtype })
end

--- The first element of 'got' that is not near 'want', by what it consists of (sizes); nil: none.
local function far(name, want, got, sizes, tolerance)
  for k, v in pairs(want) do
    local is <const> = got and got[k + 1] or 0
    if not (math.abs(is - v) <= tolerance * (1 + sizes[k])) then
      return ("%s[%d]: %.12g, need %.12g"):format(name, k, is, v)
    end
  end
end

--- Compares the launch 'number' of the kernel k of program q, also its values if 'valued'. Returns
--- a message, or nil and whether it was compared.
local function compare(flame, q, k, number, valued)
  local c <const>, dtype = launch(q, number), q.type == "double" and "f64" or "f32"
  local tolerance <const> = dtype == "f64" and 1e-12 or 1e-5
  local want, sizes = gradients(q, c)
  if not want then return nil, false end
  local t = {}
  for _, name in ipairs(NAMES) do t[name] = tensor(flame, c[name], dtype):requires_grad_() end
  local y = k:with { block = c.block, grid = { c.grid } } (t.x, t.u, t.w, t.v,
    tensor(flame, c.index, "i32"), tensor(flame, c.count, "i32"), c.n, c.m)
  local wrong = valued and far("y", c.y, y:totable(), c.size_of_y, tolerance)
  y:backward(tensor(flame, c.dy, dtype))
  for _, name in ipairs(NAMES) do
    local g = t[name].grad
    wrong = wrong or far(name, want[name], g and g:totable(), sizes[name], tolerance)
  end
  return wrong and ("program %d, launch %d (blocks of %s, n = %d, m = %d): gradient of %s"):format(
    q.seed, number, table.concat(c.block, " x "), c.n, c.m, wrong), true
end

--- Runs programs from seed 'first' on, each with some launches, on the default device. Returns the
--- number of comparisons, or nil and a message with the program's text.
local function run(flame, first, count, launches, valued)
  local n = 0
  for seed = first, first + count - 1 do
    local q = programs.program(seed)
    flame.deterministic(q.exact)
    local k = flame.kernel { source = q.text, shape = { THREADS }, shared = q.bytes, block = 1,
      grid = 1 }
    for number = 1, launches do
      local ok, wrong, done = pcall(compare, flame, q, k, number, valued)
      if not ok or wrong then
        if not ok then wrong = ("program %d: %s"):format(seed, wrong) end
        return nil, ("%s\n%s"):format(wrong, q.text)
      end
      n = n + (done and 1 or 0)
    end
  end
  return n
end

return { run = run }
