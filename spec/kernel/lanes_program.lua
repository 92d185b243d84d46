--- Random kernels in which many threads read the same elements in loops, with their gradients in
-- plain Lua. In their adjoints lanes of a warp add to one element, sums with neighbouring indices
-- are joined, and lanes hold them until a loop ends (src/kernel/ad/ad_lanes.c).
--
-- Each piece of a program is its text with a function of e, the state of one thread: e.at: its
-- integers; e.f: its numbers, nodes of a tape; e.array: arrays of nodes, those in shared memory
-- belong to its block. program(seed) makes one; lanes_run.lua runs it.
local tape = dofile "spec/kernel/lanes_tape.lua"
local value, plus, times, scaled = tape.value, tape.plus, tape.times, tape.scaled
local state

local function start(seed) state = seed end

local function pick(n)
  state = state * 6364136223846793005 + 1442695040888963407
  return (state >> 33) % n
end

local function chance(n) return pick(n) == 0 end
local function one_of(list) return list[1 + pick(#list)] end

-- ---- integers: each is at least 0, and at most a number that is known ---------------------------

local N_MAX <const>, M_MAX <const>, Q_MAX <const> = 4, 6, 12

--- A variable in scope.
local function integer(q)
  local v = one_of(q.ints)
  return v.name, function(e) return e.at[v.name] end, v.max
end

--- What an index consists of but for its constant: function() that gives its text, its value, its
--- greatest value.
local bases <const> = {
  function(q) local v, of, max = integer(q) return function() return v end, of, max end,
  function(q) local v, of, max = integer(q) return function() return v end, of, max end,
  function(q)
    local c <const>, v, of, max = 2 + pick(2), integer(q)
    return function() return chance(2) and c .. " * " .. v or v .. " * " .. c end,
      function(e) return c * of(e) end, c * max
  end,
  function(q)
    local a, of_a, max_a = integer(q)
    local b, of_b, max_b = integer(q)
    return function() return ("%s + n * %s"):format(a, b) end,
      function(e) return of_a(e) + e.at.n * of_b(e) end, max_a + N_MAX * max_b
  end,
  function(q)
    local v, of, max = integer(q)
    return function() return ("%d - %s"):format(max, v) end, function(e) return max - of(e) end, max
  end,
  function(q)
    local a, of_a, max_a = integer(q)
    local b, of_b, max_b = integer(q)
    return function() return chance(2) and a .. " + " .. b or b .. " + " .. a end,
      function(e) return of_a(e) + of_b(e) end, max_a + max_b
  end,
  function(q)
    local a, of_a, max_a = integer(q)
    local b, of_b, max_b = integer(q)
    return function() return ("%s - %s + %d"):format(a, b, max_b) end,
      function(e) return of_a(e) - of_b(e) + max_b end, max_a + max_b
  end,
  function(q)
    local v, of, max = integer(q)
    return function() return v .. " / 2" end, function(e) return of(e) // 2 end, max // 2
  end,
  function(q)
    local c <const>, v, of = 2 + pick(3), integer(q)
    return function() return ("%s %% %d"):format(v, c) end, function(e) return of(e) % c end, c - 1
  end,
  function() return function() return "0" end, function() return 0 end, 0 end,
  function(q)
    local v, of = integer(q)
    return function() return ("(%s + i) %% 7"):format(v) end,
      function(e) return (of(e) + e.at.i) % 7 end, 6
  end,
  function(q)
    local v, of = integer(q)
    return function() return ("at[%s & 7]"):format(v) end,
      function(e) return e.index[of(e) & 7] end, 7
  end,
}

--- base + k for a constant k.
local function shifted(text, of, max, k)
  local form <const> = pick(4)
  local t = text()
  if k == 0 and form < 3 then return t, of, max end
  if form == 0 then t = ("%d + %s"):format(k, t)
  elseif form == 1 then t = ("%s + %d - 3"):format(t, k + 3)
  else t = ("%s + %d"):format(t, k) end
  return t, function(e) return of(e) + k end, max + k
end

-- ---- numbers ------------------------------------------------------------------------------------

--- The element of an array at an index whose text, value and greatest value follow.
local function element(q, array, at, of, max)
  q.length[array] = math.max(q.length[array] or 1, max + 1)
  return ("%s[%s]"):format(array, at), function(e) return e.array[array][of(e)] end
end

local function read(q)
  local text, of, max = bases[1 + pick(#bases)](q)
  return element(q, one_of(q.arrays), shifted(text, of, max, pick(6)))
end

--- x[i], a number declared in the kernel, or an element of the private array: their sizes grow with
--- the rounds, so they are multiplied with elements that are read only.
local function own(q)
  if chance(3) and #q.ints > 0 then
    local v, of = integer(q)
    return ("p[%s %% 3]"):format(v), function(e) return e.p[of(e) % 3] end
  end
  local name <const> = one_of(q.numbers)
  return name, function(e) return e.f[name] end
end

--- An element times something of the thread, or another element.
local function term(q, a, of_a)
  local kind <const> = pick(4)
  if kind == 0 then return a, of_a end
  if kind == 1 then
    local c <const> = one_of { 2, 3, 0.5, -1 }
    return ("(T)%s * %s"):format(c, a), function(e) return scaled(of_a(e), c) end
  end
  local b, of_b
  if kind == 2 then b, of_b = own(q) else b, of_b = read(q) end
  return ("%s * %s"):format(b, a), function(e) return times(of_b(e), of_a(e)) end
end

--- A sum of products of elements whose indices mostly differ by constants.
local function group(q, n)
  local text, of, max = bases[1 + pick(#bases)](q)
  local array, parts, acts, signs = one_of(q.arrays), {}, {}, {}
  for k = 1, n do
    if chance(8) then text, of, max = bases[1 + pick(#bases)](q) end
    if chance(4) then array = one_of(q.arrays) end
    local a, of_a = element(q, array, shifted(text, of, max, chance(4) and pick(6) or k - 1))
    parts[k], acts[k] = term(q, a, of_a)
    signs[k] = chance(4) and -1 or 1
    if k > 1 then parts[k] = (signs[k] < 0 and " - " or " + ") .. parts[k] else signs[k] = 1 end
  end
  return table.concat(parts), function(e)
    local sum = acts[1](e)
    for k = 2, n do sum = plus(sum, acts[k](e), signs[k]) end
    return sum
  end
end

local function how_many() return one_of { 1, 1, 1, 2, 2, 3, 4, 4, 5, 6, 7, 8, 9, 12 } end

-- ---- statements ---------------------------------------------------------------------------------

local statement

local function block(q, n)
  local ints <const>, numbers <const>, text, acts = #q.ints, #q.numbers, {}, {}
  q.depth = q.depth + 1
  for at = 1, n do text[at], acts[at] = statement(q) end
  q.depth = q.depth - 1
  for at = #q.ints, ints + 1, -1 do q.ints[at] = nil end
  for at = #q.numbers, numbers + 1, -1 do q.numbers[at] = nil end
  return table.concat(text, "\n"), function(e)
    for _, act in ipairs(acts) do
      local jump = act(e)
      if jump then return jump end
    end
  end
end

local function condition(q)
  local v, of = integer(q)
  local c <const> = 2 + pick(4)
  local a, of_a = element(q, "w", shifted(function() return v end, of, q.max_of[v], 0))
  return table.unpack(one_of {
    { "x[i] > 0", function(e) return value[e.f["x[i]"]] > 0 end },
    { "x[i] > 1", function(e) return value[e.f["x[i]"]] > 1 end },
    { ("(i + %s) %% %d == 0"):format(v, c), function(e) return (e.at.i + of(e)) % c == 0 end },
    { ("%s %% 2 == 0"):format(v), function(e) return of(e) % 2 == 0 end },
    { ("t < %d"):format(5 * c), function(e) return e.at.t < 5 * c end },
    { ("t == %d"):format(c), function(e) return e.at.t == c end },
    { a .. " > 0", function(e) return value[of_a(e)] > 0 end },
    { ("count[i] > %d"):format(c), function(e) return e.count > c end },
  })
end

local function new_name(q, letter)
  q.names = q.names + 1
  return letter .. q.names
end

local function new_integer(q, name, max, more)
  local v = { name = name, max = max, depth = q.depth }
  for key, x in pairs(more or {}) do v[key] = x end
  q.ints[#q.ints + 1] = v
  q.max_of[name] = max
  return v
end

--- The bound of a loop, at most 6.
local function bound(q)
  local c <const> = 1 + pick(q.loops > 1 and 2 or 5)
  local v, of, max = integer(q)
  local list = {
    { tostring(c), function() return c end, c },
    { "m", function(e) return e.at.m end, M_MAX },
    { ("1 + i %% %d"):format(c), function(e) return 1 + e.at.i % c end, c },
    { ("i %% %d"):format(c + 1), function(e) return e.at.i % (c + 1) end, c },
    { "count[i]", function(e) return e.count end, 5 },
    { ("(x[i] > 0 ? %d : 1)"):format(c),
      function(e) return value[e.f["x[i]"]] > 0 and c or 1 end, c },
  }
  if max < 6 then list[#list + 1] = { v .. " + 1", function(e) return of(e) + 1 end, max + 1 } end
  return table.unpack(one_of(list))
end

--- for (type name = first; name < to; name += by), or downwards; the function runs 'body'.
local function counted(q, name, kind, b, of_b)
  local by <const> = chance(5) and 2 or 1
  local type <const> = chance(6) and one_of { "long long", "unsigned", "int" } or q.integer
  local step = by == 2 and name .. " += 2" or "++" .. name
  local function up(from)
    return function(e, body)
      for j = from(e), of_b(e) - 1, by do
        e.at[name] = j
        if body(e) == "break" then break end
      end
    end
  end
  if kind == 0 then
    return ("for (%s %s = %s - 1; %s >= 0; --%s) {"):format(type:gsub("unsigned", "int"), name, b,
      name, name), function(e, body)
      for j = of_b(e) - 1, 0, -1 do
        e.at[name] = j
        if body(e) == "break" then break end
      end
    end
  elseif kind == 1 then
    return ("for (int %s = t %% 4; %s < %s; %s) {"):format(name, name, b, step),
      up(function(e) return e.at.t % 4 end)
  elseif kind == 2 then
    return ("for (int %s = 0; ; %s) {\nif (%s >= %s) break;"):format(name, step, name, b),
      up(function() return 0 end)
  end
  return ("for (%s %s = 0; %s < (%s)(%s); %s) {"):format(type, name, name, type, b, step),
    up(function() return 0 end)
end

local function loop(q)
  local b, of_b, max = bound(q)
  local name <const> = new_name(q, "j")
  local head, run = counted(q, name, pick(7), b, of_b)
  local ints <const>, jumps <const> = #q.ints, q.jumps
  q.loops, q.jumps = q.loops + 1, chance(4)
  q.depth = q.depth + 1
  new_integer(q, name, math.max(max - 1, 3), { counter = true })
  q.depth = q.depth - 1
  local body, of = block(q, 1 + pick(4))
  q.loops, q.jumps = q.loops - 1, jumps
  for at = #q.ints, ints + 1, -1 do q.ints[at] = nil end
  return ("%s\n%s\n}"):format(head, body), function(e) run(e, of) end
end

--- s, z or an element of p in terms of what it was: loops then carry a state.
local function carried(q)
  local a, of_a = read(q)
  local b, of_b = group(q, how_many())
  local to <const> = one_of { "s", "z" }
  return ("%s = %s * %s + %s;"):format(to, to, a, b), function(e)
    e.f[to] = plus(times(e.f[to], of_a(e)), of_b(e), 1)
  end
end

local function sum(q)
  local sign <const>, a, of = chance(3) and -1 or 1, group(q, how_many())
  return ("s %s= %s;"):format(sign < 0 and "-" or "+", a),
    function(e) e.f.s = plus(e.f.s, of(e), sign) end
end

local function private(q)
  local v, of = integer(q)
  local at, of_at = v .. " % 3", function(e) return of(e) % 3 end
  if chance(2) then
    local k <const> = pick(3)
    at, of_at = tostring(k), function() return k end
  end
  local a, of_a = read(q)
  local b, of_b = group(q, 1 + pick(3))
  return ("p[%s] = p[%s] * %s + %s;"):format(at, at, a, b), function(e)
    local k <const> = of_at(e)
    e.p[k] = plus(times(e.p[k], of_a(e)), of_b(e), 1)
  end
end

--- A number that is declared, then read between assignments.
local function number(q)
  local a, of_a = read(q)
  local name <const> = new_name(q, "f")
  q.numbers[#q.numbers + 1] = name
  return ("T %s = %s;"):format(name, a), function(e) e.f[name] = of_a(e) end
end

--- Reads at an integer that is changed between them.
local function moving(q)
  local a, of, max = integer(q)
  local name <const> = new_name(q, "l")
  local text, acts = { ("I %s = (I)%s;"):format(name, a) },
    { function(e) e.at[name] = of(e) end }
  local v = new_integer(q, name, max)
  for _ = 1, 1 + pick(4) do
    local c <const> = 1 + pick(2)
    text[#text + 1], acts[#acts + 1] = sum(q)
    local kind <const> = pick(3)
    if kind == 0 then
      text[#text + 1] = ("%s += %d;"):format(name, c)
      acts[#acts + 1] = function(e) e.at[name] = e.at[name] + c end
      v.max = v.max + c
    elseif kind == 1 then
      local most <const> = v.max
      text[#text + 1] = ("%s = %d - %s;"):format(name, most, name)
      acts[#acts + 1] = function(e) e.at[name] = most - e.at[name] end
    else
      local b, of_b, max_b = integer(q)
      text[#text + 1] = ("%s = (I)%s + %d;"):format(name, b, c)
      acts[#acts + 1] = function(e) e.at[name] = of_b(e) + c end
      v.max = math.max(v.max, max_b + c)
    end
    q.max_of[name] = v.max
  end
  text[#text + 1], acts[#acts + 1] = sum(q)
  return table.concat(text, "\n"), function(e) for _, act in ipairs(acts) do act(e) end end
end

--- Two integers whose sum is the same in all lanes, but not their difference, and reads at both.
local function mirrored(q)
  local c <const>, a <const>, b <const> = 1 + pick(3), new_name(q, "l"), new_name(q, "l")
  local array <const>, if_so, of_if = one_of(q.arrays), condition(q)
  local plus_at, of_plus = element(q, array, ("%s + %s"):format(a, b),
    function(e) return e.at[a] + e.at[b] end, c)
  local minus_at, of_minus = element(q, array, ("%s - %s + %d"):format(a, b, c),
    function(e) return e.at[a] - e.at[b] + c end, 2 * c)
  local x, of_x = term(q, plus_at, of_plus)
  local y, of_y = term(q, minus_at, of_minus)
  return ("I %s = 0, %s = %d;\nif (%s) { %s = %d; %s = 0; }\ns += %s + %s;"):format(a, b, c, if_so,
    a, c, b, x, y), function(e)
    local so <const> = of_if(e)
    e.at[a], e.at[b] = so and c or 0, so and 0 or c
    e.f.s = plus(e.f.s, plus(of_x(e), of_y(e), 1), 1)
  end
end

--- Assigns to an integer of the whole kernel.
local function assigned(q)
  local to <const> = one_of { "q0", "q1" }
  local a, of, max = integer(q)
  local c <const> = pick(3)
  if max + c <= Q_MAX then
    return ("%s = (I)%s + %d;"):format(to, a, c), function(e) e.at[to] = of(e) + c end
  end
  return ("%s = (I)(%s + %d) %% %d;"):format(to, a, c, Q_MAX),
    function(e) e.at[to] = (of(e) + c) % Q_MAX end
end

local function chosen(q)
  local c, of_c = condition(q)
  local a, of_a = block(q, 1 + pick(2))
  if chance(2) then
    return ("if (%s) {\n%s\n}"):format(c, a), function(e) if of_c(e) then return of_a(e) end end
  end
  local b, of_b = block(q, 1)
  return ("if (%s) {\n%s\n} else {\n%s\n}"):format(c, a, b), function(e)
    if of_c(e) then return of_a(e) end
    return of_b(e)
  end
end

local function jump(q)
  if not q.jumps then return sum(q) end
  local c, of = condition(q)
  local word <const> = one_of { "continue", "break" }
  return ("if (%s) %s;"):format(c, word), function(e) return of(e) and word or nil end
end

local kinds <const> = { sum, sum, sum, carried, carried, private, private, number, moving, mirrored,
  assigned, assigned, chosen, chosen, jump, loop, loop, loop, loop }

function statement(q)
  local make = one_of(kinds)
  q.room = q.room - 1
  if make == loop and q.loops > 2 or q.depth > 5 or q.room < 0 then
    make = one_of { sum, carried }
  end
  return make(q)
end

-- ---- kernels ------------------------------------------------------------------------------------

--- One thread changes an array in shared memory, an element from those before it.
local function alone(q)
  local a <const>, b <const> = q.tiles[1], q.tiles[#q.tiles]
  local most <const> = math.min(q.length[a], q.length[b]) - 1
  local text = ([[
    if (t == 0) for (int j = 1; j <= MOST; ++j) {
      A[j] = A[j - 1] * (T)0.5 + B[j] * (T)0.5;
      s += A[j] + A[j - 1] * B[0];
    }
    __syncthreads();]]):gsub("MOST", tostring(most)):gsub("A", a):gsub("B", b)
  return text, function(e)
    local A, B = e.array[a], e.array[b]
    for j = 1, most do
      A[j] = plus(scaled(A[j - 1], 0.5), scaled(B[j], 0.5), 1)
      e.f.s = plus(e.f.s, plus(A[j], times(A[j - 1], B[0]), 1), 1)
    end
  end
end

local HEAD <const> = [[
__global__ void k(const T *x, const T *u, const T *w, const T *v, const int *at, const int *count,
                  T *y, int n, int m) {
  const int threads = blockDim.x * blockDim.y, t = threadIdx.y * blockDim.x + threadIdx.x;
  const int i = blockIdx.x * threads + t;
]]
local START <const> = [[
  const T s0 = x[i];
  T s = 0, z = s0, p[3] = { s0, 1, 0 };
  I q0 = 0, q1 = 1;
]]
local LOOP <const> = "  for (I r = 0; r < 2; ++r) {\n"
local STOP <const> = "\n  }\n  y[i] = s + z - p[0] + p[1] * s0 + p[2];\n}"

--- Declares and loads the arrays in shared memory: element e is u[e + from[name] + r].
local function tiles(q)
  local declared, loads, all = {}, {}, 0
  q.from = {}
  for k, name in ipairs(q.tiles) do
    local n <const> = q.length[name] or 1
    q.length[name], q.from[name] = n, k
    declared[k] = q.dynamic and ("T *%s = shared + %d;"):format(name, all)
      or ("__shared__ T %s[%d];"):format(name, n)
    all = all + n
    loads[k] = ("    for (int e = t; e < %d; e += threads) %s[e] = u[e + %d + r];"):format(n, name,
      k)
    q.length.u = math.max(q.length.u or 1, n + k + q.rounds)
  end
  if q.dynamic then table.insert(declared, 1, "extern __shared__ T shared[];") end
  q.bytes = q.dynamic and all * (q.type == "double" and 8 or 4) or nil
  return "  " .. table.concat(declared, "\n  ") .. "\n", table.concat(loads, "\n") .. "\n"
end

local function program(seed)
  state = seed * 1000003
  for _ = 1, 4 do pick(2) end
  local q = { type = one_of { "float", "double" }, dynamic = chance(4),
    rounds = chance(4) and 2 or 1, tiles = {}, arrays = { "w" }, ints = {},
    numbers = { "x[i]", "z", "s0" }, max_of = {},
    length = {}, names = 0, depth = 0, loops = 0,
    room = one_of { 3, 5, 8, 12, 16 }, exact = chance(2), seed = seed,
    integer = one_of { "int", "long long" } }
  if chance(2) then q.arrays[2] = "v" end
  for k = 1, pick(6) do
    q.tiles[k] = "a" .. k
    q.arrays[#q.arrays + 1] = q.tiles[k]
    q.arrays[#q.arrays + 1] = q.tiles[k]
  end
  new_integer(q, "q0", Q_MAX)
  new_integer(q, "q1", Q_MAX)
  new_integer(q, "r", 1)
  local early = q.rounds == 1 and one_of { "", "", "i % 5 == 3", "x[i] > 1", "t > 20" }
  q.early = early ~= "" and early or nil
  local body, of = block(q, 1 + pick(3))
  local last, of_last = loop(q)
  local declared, loads = tiles(q)
  local solo, of_solo = "", function() end
  if #q.tiles > 0 and chance(2) then solo, of_solo = alone(q) end
  q.body, q.solo = function(e) of(e) of_last(e) end, of_solo
  q.text = table.concat { (HEAD:gsub("%f[%w]T%f[%W]", q.type)),
    ("  typedef %s T;\n  typedef %s I;\n"):format(q.type, q.integer),
    declared, START, q.rounds == 1 and "  {\n    const I r = 0;\n" or LOOP, loads,
    "    __syncthreads();\n", solo, q.early and ("\n    if (%s) return;"):format(q.early) or "",
    "\n", body, "\n", last, q.rounds > 1 and "\n    __syncthreads();" or "", STOP }
  return q
end

return { program = program, start = start, pick = pick, one_of = one_of, tape = tape,
  N_MAX = N_MAX, M_MAX = M_MAX }
