--- Random programs over integers, each with one index that is looked at. What the kernel may access
-- there in a launch (src/kernel/facts/ranges.c) is read from the refusal of its gradient, and must
-- hold what the threads have there when the program runs.
local FAR <const>, CELLS <const> = 4096, 8192         -- index 0 is cell FAR
local state

local function random(n)
  state = state * 6364136223846793005 + 1442695040888963407
  return (state >> 33) % n + 1
end
local function pick(list) return list[random(#list)] end

-- ---- expressions --------------------------------------------------------------------------------
local LEAVES <const> = { "V", "V", "V", "V", "t", "t", "(int)threadIdx.y", "n", "m",
  "(int)blockDim.x", "(int)blockIdx.x", "R9 - 4", "R40", "q[R8 - 1]", "q[t & 7]", "p.a",
  "(int)p.b" }
local CONDITIONS <const> = { "A O B", "A O B", "A O B", "A O B", "A O B", "A O B", "(C) && A O B",
  "(C) || A O B", "!(C)", "(unsigned)(A) < (unsigned)(B)", "F", "F && A O B", "F || C",
  "threadIdx.x < R8", "(long long)(A) > B", "(unsigned char)(A) > R9", "(size_t)(A) < (size_t)(B)",
  "A + V < B", "t + V < n", "V >= V", "t >= V" }
local EXPRESSIONS <const> = { "V", "(A + B)", "(A - B)", "(A + B)", "(A - B)", "(V + V)", "(V - V)",
  "(t - V)", "(t + V)", "(A * (R6 - 2))", "(A * B % 97)", "(A / R6)", "(A % (R6 + 1))",
  "(A / (1 + (B & 7)))", "(A % (1 + (B & 7)))", "(A & R8)", "(A & 15)", "(A & ~7)", "(A & ~R6)",
  "(A & B)", "(A | B)", "(A ^ B)", "(A >> R5)", "((A & 63) << R5)", "(A >> (B & 3))",
  "min((int)(A), (int)(B))", "max((unsigned)(A), (unsigned)(B))", "max((int)(A), (int)(B))",
  "-(A)", "~(A)", "(C ? A : B)", "(int)(unsigned char)(A)", "(int)(signed char)(A)",
  "(int)(short)(A * 999)", "(int)((unsigned)(A) % 50u)", "(int)((unsigned)(A) >> 25)",
  "(int)((long long)(A) * 3 / 2)", "(int)(((size_t)(A) + 7) & ~(size_t)7)", "(int)(C)",
  "(int)((float)(A % 999) * 0.5f)", "abs((int)(A))", "(A == B)", "twice(A)" }
local OPERATORS <const> = { "<", "<=", ">", ">=", "==", "!=", "<" }

--- The template with its letters replaced. A, B: expressions; C: a condition; F: a flag; O: a
--- comparison; V: a variable; R9: a number from 1 to 9; S, T: statements. depth, nest: how deep
--- expressions and statements may be.
local fill

local function expression(q, depth)
  return fill(q, pick(depth < 1 and LEAVES or EXPRESSIONS), depth)
end

function fill(q, text, depth, nest)
  return (text:gsub("%f[%w_](%u)(%d*)%f[^%w_]", function(letter, n)
    if letter == "R" then return tostring(random(math.tointeger(n))) end
    if letter == "V" then return pick(q.names) end
    if letter == "F" then return pick(q.flags) end
    if letter == "O" then return pick(OPERATORS) end
    if letter == "C" then return fill(q, pick(CONDITIONS), depth - 1) end
    if letter == "A" or letter == "B" then return expression(q, depth - 1) end
    if letter == "S" or letter == "T" then return q.statements(q, nest - 1) end
  end))
end

-- ---- statements ---------------------------------------------------------------------------------
local LOOPS <const> = {
  "for (int j = 0; j < TOP; j++) {\nS}", "for (int j = t; j < TOP; j += R4) {\nS}",
  "for (int j = TOP; j > 0; j /= 2) {\nS}", "for (int j = 1; j < TOP; j *= 2) {\nS}",
  "for (int j = TOP; j >= 0; j--) {\nS}", "for (unsigned j = t; j < R30; j += R4) {\nS}",
  "{ int j = 0; while (j < TOP) {\nSj += R4; } }", "{ int j = 0; do {\nSj++; } while (j < TOP); }",
  "{ int j = 0; for (;;) { if (j >= TOP) break;\nSj += R4; } }" }

local function loop(q, depth)
  local v <const>, text = "j" .. q.loops, pick(LOOPS)
  q.loops = q.loops + 1
  local outer <const>, way <const> = q.names, q.way
  q.names = table.move(outer, 1, #outer, 1, { v })
  q.way = text:find "^for" and { "break;", "continue;" } or { "break;" }
  text = text:gsub("TOP", pick { "n", "m", tostring(random(9)), "n + m" })
    :gsub("%f[%w]j%f[%W]", v):gsub("Sj", "S " .. v)
  text = fill(q, text, 1 + random(3), depth)
  q.names, q.way = outer, way
  return text
end

-- A condition on numbers that may wrap, and then the same numbers: in each, E is one expression.
local WRAPPED <const> = { "(u - w)", "(w - u)", "(u - R3)", "(u + w)", "(w + R3)", "(z - R3)",
  "(z + R2)", "(u - V)", "(z - V)", "(V - V)", "(V + V)", "(u * R4)", "(u - 1u)",
  "(unsigned)(V - V)", "(unsigned char)(V - V)" }
local ASKED <const> = { "E O B", "B O E", "E > R9", "E >= R40", "E < R9", "E < n", "E <= w",
  "u >= w", "w >= u", "u > w", "(long long)u >= (long long)w", "E > 100", "E > 1000000", "E != 0",
  "E >= u", "E <= u", "u < w && E O B", "t > 0 && E < R40", "!(E O B)", "!(E < R9)" }
local USED <const> = { "E", "E", "E & 15", "E >> 29", "E % 7", "E + 1", "E - 1", "(E >> 31) + V",
  "E / 268435456", "(int)(E & 31) - 3", "(E < 5) + 3", "(long long)E >> 28" }
local ORDERED <const> = { "if (ASKED) { PROBE(USED) }", "if (ASKED) { PROBE(USED) }",
  "if (ASKED) { W = USED; PROBE(A) }", "f = ASKED; if (f) PROBE(USED)",
  "{ int chosen = ASKED ? USED : R9; PROBE(chosen) }",
  "if (!(ASKED)) { u = R9; w = V; } else { PROBE(USED) }",
  "while (ASKED) { PROBE(USED) u += R3; w -= R2; if (w > 60u || u > 60u) break; }" }

local function ordered(q)
  local e <const> = fill(q, pick(WRAPPED), 1)
  local text = pick(ORDERED)
  for _, of in ipairs { { "ASKED", pick(ASKED) }, { "USED", pick(USED) }, { "E", e } } do
    text = text:gsub("%f[%w]" .. of[1] .. "%f[%W]", function() return of[2] end)
  end
  return text
end

local SIMPLE <const> = { "W = (A) % 500;", "W = (A) % 500;", "PROBE(A)", "PROBE(A)", "PROBE(A)" }
local STATEMENTS <const> = { "W = (A) % 500;", "W = (A) % 500;", "PROBE(A)", "PROBE(A)",
  "W += A % 9;", "W -= R3;", "W++;", "W--;", "ORDERED", "ORDERED", "ORDERED", "ORDERED",
  "u = u - 1u; w = u + R3;", "u = (A) & 31; w = (unsigned)(B) % 40u;", "z = t; z -= R3;",
  "u = threadIdx.x; w = blockDim.x - R3;", "h = (A) * 1000; h += R9;", "f = C;",
  "g = C;", "q[(A) & 7] = (B) % 300;", "q[t & 7] += R3;",
  "if (C) {\nS}", "if (C) {\nS}",
  "if (C) {\nS} else {\nT}", "if (C) LEAVE", "if (C) {\nS LEAVE }", "LOOP", "LOOP",
  "W = twice(A);", "switch (V) { case 0: W = 3; case 1: W = n; break; default: W = (A) % 90; }" }

local function statement(q, depth)
  local text = pick(depth < 1 and SIMPLE or STATEMENTS)
  if text == "LOOP" then return loop(q, depth) end
  if text == "ORDERED" then text = ordered(q) end
  text = text:gsub("W", pick { "a", "b", "c", "u", "w", "h", "z" }):gsub("LEAVE", pick(q.way))
  return fill(q, text, 1 + random(3), depth)
end

local function statements(q, depth)
  local list = {}
  for i = 1, random(3) do list[i] = statement(q, depth) .. "\n" end
  return table.concat(list)
end

--- The text, with PROBE(e) for what is looked at.
local function program(seed)
  state = seed * 7919 + 1
  local q <const> = { names = { "a", "b", "c", "u", "w", "h", "z" }, flags = { "f", "g" },
    statements = statements, way = { "return;" }, loops = 0, n = random(20), m = random(9) - 3,
    x = pick { 4, 6, 8 }, y = random(2) }
  local list = {}
  for i = 1, 3 + random(4) do list[i] = statements(q, 2) end
  local n <const> = select(2, table.concat(list):gsub("PROBE", ""))
  local chosen <const> = n > 0 and random(n) or 0
  local at = 0
  q.text = ([[
struct P { int a; long long b; };
__device__ int twice(int v) { if (v > 50) return 50; if (v < -9) return v / 2; return 2 * v; }
#define NOTHING(e) ;
__global__ void k(const float *x, float *y, int *lo, int n, int m, P p) {
  BEGIN
  __shared__ int q[8];
  const int t = threadIdx.x;
  int a = 1, b = n - t, c = t * 2;
  unsigned u = t, w = n + 3; short h = t - 3; size_t z = t + 2;
  bool f = t < n, g = false;
  if (t < 8 && threadIdx.y == 0) for (int i = t; i < 8; i += blockDim.x) q[i] = i * 3 - 4;
  __syncthreads();
  y[blockIdx.x] = 2.f * x[blockIdx.x];
  %s
}]]):format(table.concat(list, "  "):gsub("PROBE", function()
    at = at + 1
    return at == chosen and "PROBE" or "NOTHING"
  end))
  return chosen > 0 and q or nil
end

-- ---- the check ----------------------------------------------------------------------------------
local RUN <const>, ASK <const> = [[
#define PROBE(e) { const int at = (int)max(min((long long)(e), 99999ll), -99999ll); \
  atomicMin(&lo[0], at); atomicMax(&lo[1], at); }
#define BEGIN
]], ([[
#define PROBE(e) ((float *)raw)[(long long)(e) + %d] = 1.f;
#define BEGIN extern __shared__ char raw[]; \
  for (int i = threadIdx.x; i < %d; i += blockDim.x) ((int *)raw)[i] = 0;
]]):format(FAR, CELLS)

local function launch(flame, q, text, x, lo)
  local k <const> = flame.kernel { source = text, shape = { 2 }, grid = { 2 }, block = { q.x, q.y },
    shared = text:find "extern" and 4 * CELLS or 0, inout = { "lo" } }
  return k(x, lo, q.n, q.m, { a = q.n + 1, b = q.m - 2 })
end

--- 'some': the probe was reached; 'bound': a bound was told. seed: names the program in messages.
local function check(flame, q, seed)
  local lo <const> = flame.tensor({ 1000000, -1000000 }, { dtype = "i32" })
  local _, got <const> = launch(flame, q, RUN .. q.text, flame.ones(2), lo)
  local least <const>, most = got:totable()[1], got:totable()[2]
  local x <const> = flame.ones(2):requires_grad_()
  local ok <const>, why = pcall(function()
    launch(flame, q, ASK .. q.text, x, lo):sum():gradients { x }
  end)
  local first, last, open = tostring(why):match "float %(line %d+, bytes (%d+) to (%d+)([^)]*)%)"
  local function must(fits, what)
    assert(fits, ("%d: %s: from %d to %d, told: %s\n%d, %d, block %d x %d\n%s"):format(seed, what,
      least, most, why, q.n, q.m, q.x, q.y, q.text))
  end
  if ok then                                       -- nothing in the memory is reached
    must(least > most or least >= CELLS - FAR or most < -FAR, "a place that is reached")
    return false, true
  end
  must(first, "another refusal")
  must(least > most or open ~= "" or
    (least >= first // 4 - FAR and most <= (last - 3) // 4 - FAR), "out of range")
  return least <= most, open == ""
end

--- Runs programs first … first + count - 1. Returns for how many the place was reached, and for how
--- many a bound was known.
local function run(flame, first, count)
  local reached, bound = 0, 0
  for seed = first, first + count - 1 do
    local q <const> = program(seed)
    if q then
      local some, is <const> = check(flame, q, seed)
      reached, bound = reached + (some and 1 or 0), bound + (some and is and 1 or 0)
    end
  end
  return reached, bound
end

return { run = run, program = program }
