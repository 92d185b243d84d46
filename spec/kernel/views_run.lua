--- Random kernels that cut dynamic shared memory in parts of several types: one to four of them, in
-- any order, of sizes that follow from arguments and the block, each at a pointer that is made from
-- the one before or from bytes. In phases with barriers in between, and in loops, the threads fill
-- parts, read them, also at positions that another part holds, overwrite them and sum them up.
--
-- Two oracles share nothing of that: the same text with an array for each part, whose gradients
-- must be the same, and that text with double for all real types, of which differences are taken.
-- A planted fault moves a part one element of its neighbour too far down; its gradient must be
-- refused.
local N <const> = 24
local state

local function random(n)
  state = state * 6364136223846793005 + 1442695040888963407
  return (state >> 33) % n + 1
end
local function pick(list) return list[random(#list)] end

-- ---- parts --------------------------------------------------------------------------------------
local REAL <const> = { "float", "double", "double", "float2", "half", "bf16", "double2" }
local WHOLE <const> = { "int", "int", "char", "unsigned char", "short", "long long", "unsigned" }
local SIZE <const> = { float = 4, double = 8, float2 = 8, half = 2, bf16 = 2, double2 = 16, int = 4,
  char = 1, ["unsigned char"] = 1, short = 2, ["long long"] = 8, unsigned = 4 }
local NAME <const> = { bf16 = "__nv_bfloat16", half = "__half" }
--- The type of the elements that the compiler sees.
local BASE <const> = { float2 = "float", double2 = "double" }

local function count_text()
  return pick { "n", "m + 5", "(int)blockDim.x", "2 * n", "n + m", "(int)blockDim.x + n", "9",
    "n * 2 + 3", "(n + 1) / 2 + 2" }
end
local function value_of(text, q)
  return math.tointeger(load("return " .. text:gsub("%(int%)", ""):gsub("/", "//")
    :gsub("blockDim%.x", q.threads):gsub("%f[%w]n%f[%W]", q.n):gsub("%f[%w]m%f[%W]", q.m))())
end

local function make_parts(q)
  local parts, real = {}, 0
  for k = 1, random(4) do
    local whole <const> = random(3) == 1 and k > 1 or false
    local p <const> = { name = "p" .. k, whole = whole, type = pick(whole and WHOLE or REAL),
      count = count_text() }
    p.n = value_of(p.count, q)
    p.size = SIZE[p.type]
    if not whole then real = real + 1 end
    parts[k] = p
  end
  if random(3) == 1 and #parts > 1 then                    -- in another order
    local at <const> = random(#parts)
    table.insert(parts, 1, table.remove(parts, at))
  end
  return parts
end

-- ---- layout -------------------------------------------------------------------------------------
--- Sets the bytes of each part, and returns declarations. wrong: the part that begins one element
--- of the part before it too early.
local function layout(q, wrong)
  local lines, at = {}, 0
  local bytes <const> = random(2) == 1
  lines[1] = bytes and "extern __shared__ __align__(16) unsigned char raw[];"
    or ("extern __shared__ %s raw[];"):format(NAME[q.parts[1].type] or q.parts[1].type)
  local offset = "0"
  for k, p in ipairs(q.parts) do
    local before <const> = q.parts[k - 1]
    local type <const> = NAME[p.type] or p.type
    local less = ""
    if k == 1 then
      lines[2] = ("%s *p1_ = (%s *)raw;"):format(type, type)
    else
      local fits <const> = at % p.size == 0
      if k == wrong then
        less = (" - %d"):format(before.size)
      end
      local round <const> = pick { "(%s + 15) & ~15", "((%s + 15) / 16) * 16" }
      if fits and less == "" and not bytes then
        lines[#lines + 1] = ("%s *p%d_ = (%s *)(p%d_ + %s);"):format(type, k, type, k - 1,
          before.count)
        offset = ("%s + (%s) * %d"):format(offset, before.count, before.size)
      else
        offset = ("%s + (%s) * %d"):format(offset, before.count, before.size)
        if not fits then
          offset = "(" .. round:format(offset) .. ")"
          at = (at + 15) // 16 * 16
        end
        if k == wrong then at = at - before.size end
        lines[#lines + 1] = ("%s *p%d_ = (%s *)((char *)raw + (%s%s));"):format(type, k, type,
          offset, less)
      end
    end
    lines[#lines + 1] = ("%s *%s = p%d_;"):format(type, p.name, k)
    p.at = at
    at = at + p.n * p.size
  end
  q.shared = at + pick { 0, 0, 4, 16 }
  return table.concat(lines, "\n  ")
end

--- An array for each part. double: as double, for differences.
local function apart(q, double)
  local lines = {}
  for _, p in ipairs(q.parts) do
    local type = NAME[p.type] or p.type
    if double and not p.whole then type = BASE[p.type] and "double2" or "double" end
    lines[#lines + 1] = ("__shared__ %s %s[%d];"):format(type, p.name, p.n)
  end
  return table.concat(lines, "\n  ")
end

-- ---- statements ---------------------------------------------------------------------------------
--- The element e of part p, as a double.
local function element(p, e)
  if BASE[p.type] then return ("(double)%s[%s].%s"):format(p.name, e, pick { "x", "y" }) end
  return ("(double)%s[%s]"):format(p.name, e)
end

local function parts_that(q, is)
  local list = {}
  for _, p in ipairs(q.parts) do if is(p) then list[#list + 1] = p end end
  return list
end

--- An index of part p that all threads may have; 'written': parts that must not be read.
local function place(q, p, written)
  local holders <const> = parts_that(q, function(h)
    return h.whole and not written[h] and h.n > 0 and h.most <= p.n
  end)
  if #holders > 0 and random(3) == 1 then
    local h <const> = pick(holders)
    return ("%s[(t + %d) %% (%s)]"):format(h.name, random(5), h.count)
  end
  local c <const> = random(6)
  return pick { ("(t + %d) %% (%s)"):format(c, p.count),
    ("(2 * t + %d) %% (%s)"):format(c, p.count),
    ("min(t, (%s) - 1)"):format(p.count), ("(t * %d + %d) %% (%s)"):format(c, random(4), p.count),
    tostring(random(math.min(p.n, 4)) - 1) }
end

--- Terms of what is read, parts in 'written' excepted.
local function value(q, written)
  local terms = { pick { "sin(v + 0.1 * e)", "cos(v)", "0.3 * v", "x[(e + t) % 24]" } }
  local from <const> = parts_that(q, function(p) return not p.whole and not written[p] end)
  for _ = 1, #from > 0 and random(3) - 1 or 0 do
    local p <const> = pick(from)
    local a <const> = element(p, place(q, p, written))
    terms[#terms + 1] = pick { "0.5 * sin(%s)", "0.3 * %s", "0.2 * cos(%s)",
      "0.2 * %s * x[e % 24]" }
      :gsub("%%s", function() return a end)
  end
  return table.concat(terms, " + ")
end

local function store(q, p, e, old, written)
  if p.whole then
    return ("%s[%s] = %s;"):format(p.name, e, old and
      ("(%s[%s] + %d) %% %d"):format(p.name, e, random(3), p.most)
      or ("(%s * %d + %d) %% %d"):format(e, random(5), random(4), p.most))
  end
  local kept <const> = old and ("sin(%s) + "):format(element(p, e)) or ""
  local v <const> = kept .. value(q, written)
  if BASE[p.type] then
    return ("%s[%s].x = %s; %s[%s].y = %s;"):format(p.name, e, v, p.name, e, value(q, written))
  end
  return ("%s[%s] = %s;"):format(p.name, e, v)
end

--- Each thread writes elements of p.
local function fill(q, p, old)
  local written <const> = { [p] = true }
  if old and random(3) == 1 then
    return ("{ int e = t; if (e < %s) { %s } }"):format(p.count, store(q, p, "e", old, written))
  end
  return ("for (int e = t; e < %s; e += blockDim.x) { %s }"):format(p.count,
    store(q, p, "e", old, written))
end

local function read(q)
  local p <const> = pick(q.parts)
  if p.whole then
    return ("{ int e = t; if (%s[%s] > 1) v += %s; else v *= 0.9; }"):format(p.name,
      place(q, p, {}), value(q, {}))
  end
  return ("{ int e = t; v += %s; }"):format(value(q, {}))
end

local function tree(q)
  local list <const> = parts_that(q, function(p) return not p.whole and not BASE[p.type] end)
  if #list == 0 then return read(q) end
  local p <const> = pick(list)
  return ([[for (int d = blockDim.x / 2; d > 0; d /= 2) {
      if (t < d && t + d < %s) %s[t] = (double)%s[t] * 0.5 + (double)%s[t + d] * 0.7;
      __syncthreads();
    }]]):format(p.count, p.name, p.name, p.name)
end

local BARRIER <const> = "__syncthreads();"

local function steps(q, n)
  local list = {}
  for _ = 1, n do
    local kind <const> = random(6)
    list[#list + 1] = kind <= 2 and read(q) or kind == 3 and tree(q)
      or kind == 4 and fill(q, pick(q.parts), true) or kind == 5 and fill(q, pick(q.parts), false)
      or read(q)
    list[#list + 1] = BARRIER
  end
  return table.concat(list, "\n    ")
end

local function source(declared, text)
  return ([[
__global__ void k(const double *x, double *y, int n, int m) {
  %s
  const int t = threadIdx.x;
  double v = x[(t + 7 * blockIdx.x) %% 24];
  %s
  y[blockIdx.x * blockDim.x + t] = v;
}]]):format(declared, text)
end

--- The program of this seed: texts and launch. misfit: with a fault, if there is room for one.
local function program(seed, misfit)
  state = seed * 7919 + 1
  local q <const> = { n = 4 + random(8), m = random(4), threads = pick { 4, 6, 8, 12, 32 } }
  q.parts = make_parts(q)
  local least = math.huge
  for _, p in ipairs(q.parts) do least = math.min(least, p.n) end
  for _, p in ipairs(q.parts) do p.most = math.min(least, 100) end
  local wrong
  if misfit then
    local list = {}
    for k = 2, #q.parts do
      local a, b = q.parts[k - 1], q.parts[k]
      if a.size % b.size == 0 and (BASE[a.type] or a.type) ~= (BASE[b.type] or b.type) then
        list[#list + 1] = k
      end
    end
    if #list == 0 then return nil end
    wrong = pick(list)
  end
  -- what is read may be any part, but not before it is filled
  local all <const> = q.parts
  local filled <const> = {}
  q.parts = filled
  local text
  do
    local list = {}
    for _, p in ipairs(all) do
      filled[#filled + 1] = p
      list[#list + 1] = fill(q, p, false)
    end
    text = table.concat(list, "\n  " .. BARRIER .. "\n  ") .. "\n  " .. BARRIER
  end
  for _ = 1, random(3) do
    local some <const> = steps(q, random(3))
    text = text .. "\n  " .. pick { some, some,
      ("for (int k = 0; k < m; k++) {\n    %s\n  }"):format(some),
      ("for (int k = 0; k < 3; k++) {\n    %s\n  }"):format(some),
      ("if (m > %d) {\n    %s\n  }"):format(random(3), some) }
  end
  q.text = source(layout(q, wrong), text)
  q.apart = source(apart(q, false), text)
  -- a double times a half is ambiguous
  q.double = source(apart(q, true), (text:gsub("%(__%w+%)", "(double)")))
  return q
end

-- ---- the check ----------------------------------------------------------------------------------
local function wave(flame, step, phase)
  return (flame.arange(N, { dtype = "f64" }) * step + phase):sin()
end

--- The loss by x, as a function.
local function loss_of(flame, q, text)
  local k <const> = flame.kernel { source = text, shape = { 2 * q.threads }, grid = { 2 },
    block = { q.threads }, shared = text == q.text and q.shared or 0 }
  local seeds <const> = (flame.arange(2 * q.threads, { dtype = "f64" }) * 1.3 + 1.8):sin()
  return function(x) return (k(x, q.n, q.m) * seeds):sum() end
end

local function gradient(flame, loss)
  local x <const> = wave(flame, 1.7, 2):requires_grad_()
  local ok, g = pcall(function() return loss(x):gradients({ x })[x] end)
  return ok and g or nil, g
end

--- The gradient of <g, u>, g the gradient; nil where it is refused.
local function second(flame, loss)
  local x <const> = wave(flame, 1.7, 2):requires_grad_()
  local ok, h = pcall(function()
    local g <const> = loss(x):gradients({ x }, { create_graph = true })[x]
    return (g * wave(flame, 1.1, 0.2)):sum():gradients({ x })[x]
  end)
  return ok and h or nil, h
end

local function off(a, b) return (a - b):abs():max():item() / (1 + b:abs():max():item()) end

--- Greatest errors of gradients: of the same text with arrays, of the text with doubles.
local function bounds(q)
  local half, float
  for _, p in ipairs(q.parts) do
    half = half or NAME[p.type]
    float = float or (BASE[p.type] or p.type) == "float"
  end
  return (half or float) and 1e-5 or 1e-12, half and 2e-1 or float and 1e-4 or 1e-6
end

local function check(flame, q, seed)
  local loss <const> = loss_of(flame, q, q.text)
  local g, why = gradient(flame, loss)
  local same <const>, double = loss_of(flame, q, q.apart), loss_of(flame, q, q.double)
  local want, no <const> = gradient(flame, same)
  local function must(fits, what, ...)
    assert(fits, ("%d: n = %d, m = %d, %d threads: %s\n%s"):format(seed, q.n, q.m, q.threads,
      what:format(...), q.text))
  end
  if not g or not want then
    must(not g and not tostring(why):find "dynamic shared memory", "%s, with arrays: %s", why or g,
      no)
    return 0
  end
  local near <const>, far = bounds(q)
  local x <const> = wave(flame, 1.7, 2)
  must(loss(x):item() == same(x):item(), "another value")
  must(off(g, want) <= near, "%s, with arrays %s", g, want)
  local u <const> = wave(flame, 0.9, 0.4)
  local along <const> = (double(x + u * 1e-5):item() - double(x - u * 1e-5):item()) / 2e-5
  local back <const> = (g * u):sum():item()
  must(math.abs(along - back) <= far * (1 + math.abs(along)), "%.12g by differences, %.12g", along,
    back)
  if seed % 3 > 0 then return 1 end
  local h, of <const> = second(flame, loss), second(flame, same)
  must(not of or h and off(h, of) <= 10 * near, "second order: %s, with arrays %s", h, of)
  return 1
end

--- Compares gradients of programs first … first + count - 1. Returns how many had some.
local function run(flame, first, count)
  local compared = 0
  for seed = first, first + count - 1 do
    compared = compared + check(flame, program(seed, false), seed)
  end
  return compared
end

--- Runs programs with a fault, whose gradients must be refused. Returns how many are by the launch.
local function run_misfits(flame, first, count)
  local found = 0
  for seed = first, first + count - 1 do
    local q <const> = program(seed, true)
    local g, why
    if q then g, why = gradient(flame, loss_of(flame, q, q.text)) end
    assert(not q or not g, q and ("%d: n = %d, m = %d, %d threads: %s\n%s"):format(seed, q.n, q.m,
      q.threads, g, q.text))
    if q and tostring(why):find "dynamic shared memory of two types" then found = found + 1 end
  end
  return found
end

return { program = program, run = run, run_misfits = run_misfits }
