-- Scripts that try to run for ever, to use up memory, or to leave their sandbox, grouped by the way
-- they try it. 'aim' is how a script must end (spec/support/hostile_run.lua has the messages).
-- "loop": by the limit of time and, in a second run, of steps; the name of a limit: by that limit;
-- "ends": it runs to its end and does no harm; else a part of its error message, or several between
-- "|", of which one must occur.
local list = {}
local function add(way, aim, scripts)
  for _, text in ipairs(scripts) do list[#list + 1] = { way = way, aim = aim, text = text } end
end

-- ---- finalisers ------------------------------------------------------------------------------
add("finalisers", "there are no finalisers", {
  "setmetatable({}, {__gc = function() while true do end end})",
  "setmetatable({}, {__gc = true})",
  "setmetatable({}, {__gc = coroutine.wrap(function() while true do end end)})",
  "local mt = {} setmetatable({}, mt) mt.__gc = function() while true do end end "
      .. "setmetatable({}, mt)",
  "local m = setmetatable({}, {__index = {__gc = 1}}) rawset(m, '__gc', print) setmetatable({}, m)",
  "coroutine.wrap(function() setmetatable({}, {__gc = print}) end)()",
  "error((select(2, pcall(setmetatable, {}, {__gc = print}))))",
})
add("finalisers", "loop", {
  "local mt = {} local t = setmetatable({}, mt) mt.__gc = function() while true do end end t = nil "
    .. "collectgarbage() while true do end",
  "local k = setmetatable({}, {__mode = 'k'}) for i = 1, 1000 do k[{}] = {} end while true do end",
  "flame.synchronize = function() while true do end end local p = flame.profile() p.clock = "
    .. "flame.synchronize p = nil while true do collectgarbage() end",
  "while true do collectgarbage() end",
  "local t = {} for i = 1, 1e5 do t[i] = {} end while true do collectgarbage('collect') end",
  "while true do collectgarbage('count') end",
})
add("finalisers", "collectgarbage: a state with limits", {
  "collectgarbage('stop')", "collectgarbage('generational')",
})

-- ---- coroutines ------------------------------------------------------------------------------
add("coroutines", "loop", {
  "coroutine.wrap(function() while true do end end)()",
  "coroutine.resume(coroutine.create(function() while true do end end))",
  "local co = coroutine.wrap(function() while true do coroutine.yield() end end) while true "
      .. "do co() end",
  "while true do coroutine.wrap(function() while true do end end)() end",
  "while true do pcall(coroutine.wrap(function() while true do end end)) end",
  "local function f() return coroutine.wrap(f)() end while true do pcall(f) end",
  "local co = coroutine.create(function() local x <close> = setmetatable({}, {__close = function() "
    .. "while true do end end}) coroutine.yield() end) coroutine.resume(co) coroutine.close(co)",
  "coroutine.wrap(function() local x <close> = setmetatable({}, {__close = function() while "
      .. "true do "
    .. "end end}) while true do end end)()",
  "coroutine.wrap(function() local x <close> = setmetatable({}, {__close = function() while "
      .. "true do "
    .. "end end}) error('x') end)()",
  "for x in coroutine.wrap(function() while true do coroutine.yield(1) end end) do end",
  "coroutine.wrap(pcall)(function() while true do end end)",
  "coroutine.wrap(function() xpcall(function() while true do end end, function() while true do end "
    .. "end) while true do end end)()",
  "coroutine.wrap(function() pcall(coroutine.yield) while true do end end)() "
      .. "coroutine.wrap(function() "
    .. "while true do end end)()",
  "while true do coroutine.create(print) end",
  "while true do coroutine.isyieldable() coroutine.running() end",
})
add("coroutines", "coroutines", {
  "local t = {} while true do t[#t + 1] = coroutine.create(print) end",
  "local t = {} while true do t[#t + 1] = coroutine.wrap(print) end",
  "local function f(t) t[1] = coroutine.create(f) return f({t[1], t}) end f({})",
})

-- ---- patterns --------------------------------------------------------------------------------
local slow = { "('.-'):rep(12) .. 'b'", "('.*'):rep(12) .. 'b'", "('a?'):rep(60) .. ('a'):rep(60)",
  "('(.-)'):rep(12) .. 'b'", "'^' .. ('.-'):rep(14) .. 'b$'", "('[%w_]*'):rep(12) .. '!'",
  "('%w-'):rep(12) .. '%W'", "('a*'):rep(12) .. 'b'", "('.+'):rep(10) .. 'b'" }
for i, pattern in ipairs(slow) do
  local call = ({ "s:find(p)", "s:match(p)", "for _ in s:gmatch(p) do end", "s:gsub(p, '')"
    })[i % 4 + 1]
  add("patterns", "loop", { ("local s, p = ('a'):rep(120), %s while true do %s "
      .. "end"):format(pattern, call) })
end
add("patterns", "loop", {
  "local s = ('('):rep(60000) while true do s:find('%b()') end",
  "local s = ('x'):rep(1 << 20) while true do s:find('y', 1, true) end",
  "local s = ('x'):rep(1 << 20) while true do s:find('[^x]') end",
  "local s = ('ab'):rep(30000) while true do s:match('(a.-)%1c') end",
  "local s = ('x'):rep(1 << 18) while true do s:gsub('x', function() end) end",
  "local s = ('x'):rep(1 << 18) while true do s:gsub('', 'y') end",
  "while true do ('x'):rep(1000):find('%f[%d]') end",
  "('a'):gsub('a', function() while true do end end)",
  "('a'):gsub('.', setmetatable({}, {__index = function() while true do end end}))",
  -- matches of nothing, and replacements of nothing
  "local s = ('x'):rep(1 << 18) while true do s:gsub('', 'y', 1e5) end",
  "local s = ('%1'):rep(1 << 22) while true do ('x'):rep(100):gsub('x(y*)', s) end",
})
add("patterns", "pattern too complex", { "(('a'):rep(1000)):find(('a?'):rep(1000) .. 'b')" })
add("patterns", "malformed pattern", { "('a'):find('[a')", "('a'):find('%')" })

-- ---- functions of C that loop ------------------------------------------------------------------
add("loops in C", "loop", {
  "table.move({}, 1, math.maxinteger - 1, 2)",
  "table.move({}, -1 << 60, 1 << 60, 5, {})",
  "table.insert(setmetatable({}, {__len = function() return 1 << 50 end}), 1, 1)",
  "table.remove(setmetatable({}, {__len = function() return 1 << 50 end}), 1)",
  "table.concat(setmetatable({}, {__index = rawlen, __len = function() return 1 << 50 end}))",
  "table.concat(setmetatable({}, {__index = function() return '' end}), '', 1, math.maxinteger)",
  "local t = {} for i = 1, 1e5 do t[i] = i % 7 end while true do table.sort(t) end",
  "local t = {} for i = 1, 1000 do t[i] = i end table.sort(t, function() while true do end end)",
  "local t = {} for i = 1, 1e4 do t[i] = i end while true do table.sort(t, function() return true end) end",
  "local t = {} for i = 1, 1e4 do t[i] = i end while true do table.sort(t, rawequal) end",
  "table.sort(setmetatable({}, {__len = function() return 1 << 30 end, __index = rawlen, "
      .. "__newindex = rawlen}))",
  "local s = ('x'):rep(1 << 22) while true do s:upper() end",
  "local s = ('x'):rep(1 << 22) while true do s:reverse() end",
  "local s = ('x'):rep(1 << 22) while true do utf8.len(s) end",
  "local s = ('x'):rep(1 << 22) while true do local t = s .. 'y' end",
  "local s = ('0'):rep(1 << 22) while true do tonumber(s) end",
  "local s = '0x' .. ('1'):rep(1 << 20) while true do local x = s + 1 end",
  "load(function() return ' ' end)",
  "while true do local n = 0 load(function() n = n + 1 return ('::l%d:: '):format(n) end) end",
  "while true do load('return ' .. ('('):rep(100) .. '1' .. (')'):rep(100)) end",
  "while true do string.format(('%99d'):rep(100), table.unpack(setmetatable({}, {__index = "
      .. "rawlen}), 1, 100)) end",
  "while true do string.pack(('i16'):rep(100), table.unpack(setmetatable({}, {__index = "
      .. "rawlen}), 1, 100)) end",
  "setmetatable(_G, {__index = function() while true do end end}) return x",
  "while true do select('#', table.unpack({}, 1, 100000)) end",
})
-- instructions of Lua that count as one step but may take long
add("loops in C", "time", {
  "local t = {} for i = 1, 1e5 do t['x' .. i] = 1 end for k in pairs(t) do t[k] = nil end "
    .. "while true do next(t) end",
  "local function f(...) return f(1, ...) end f()",
  "local t = {} for i = 1, 1e8 do t[i .. ''] = i end while true do local s = #t .. 'x' end",
  "local s, t = ('x'):rep(1 << 22), ('x'):rep(1 << 22) while true do local b = s < t end",
})
-- strings of zero bytes, over which '<' goes byte by byte
add("loops in C", "time", {
  "local s, t = ('\\0'):rep(1 << 20), {} for i = 1, 1000 do t[i] = s end table.sort(t)",
  "local s = ('\\0'):rep((1 << 20) - 1) while true do local b = s < s end",
  "local s = ('\\0'):rep(60000) while true do local b = s < s or s < s or s < s or s < s end",
})
-- thousands of arguments that are one long string of digits, which is converted each time
for _, f in ipairs { "string.char", "utf8.char" } do
  add("loops in C", "bytes of text", {
    "local s, t = '0x' .. ('0'):rep(1 << 20), {} for i = 1, 2e4 do t[i] = s end "
      .. f .. "(table.unpack(t))" })
end
for _, f in ipairs { "math.max", "math.min" } do
  add("loops in C", "time", {
    "local s, t = ('\\0'):rep(1 << 20), {} for i = 1, 2e4 do t[i] = s end while true do "
      .. f .. "(table.unpack(t)) end",
    "local s = ('\\0'):rep(1 << 20) while true do " .. f .. "(s, s) end" })
end
-- calls of the library that take minutes: linear algebra (without LAPACK), and pooling with windows
-- half as long as the row
add("loops in C", "time", {
  "flame.eval((flame.linalg.svd(flame.rand(600, 600))))",
  "flame.eval((flame.linalg.eigh(flame.rand(1000, 1000))))",
  "flame.eval((flame.linalg.qr(flame.rand(1000, 1000))))",
  "flame.eval((flame.linalg.matrix_exp(flame.rand(800, 800))))",
  "flame.eval(flame.max_pool1d(flame.rand(1, 1, 2000000), 1000001, 1))",
  "flame.eval(flame.avg_pool1d(flame.rand(1, 1, 2000000), 1000001, 1))",
})
add("loops in C", "ends", { "assert((''):rep(1 << 40) == '')" })
add("loops in C", "too many elements to move", { "table.move({}, math.mininteger, "
    .. "math.maxinteger, 1)" })

-- ---- pcall, handlers and __close ----------------------------------------------------------------
add("pcall and __close", "total_time", {
  "while true do pcall(error) end",
  "for i = 1, 1e9 do xpcall(error, function() while true do end end) end",
  "local x <close> = setmetatable({}, { __close = function() while true do end end }) error()",
})
add("pcall and __close", "loop", {
  "while true do pcall(function() while true do end end) end",
  "while true do pcall(error) end",
  "local function f() return pcall(f) or f() end while true do pcall(f) end",
  "repeat until xpcall(function() while true do end end, function() while true do end end)",
  "while true do xpcall(error, function() while true do end end) end",
  "while true do xpcall(error, function(m) error(m) end) end",
  "local x <close> = setmetatable({}, {__close = function() while true do end end}) while "
      .. "true do end",
  "local x <close> = setmetatable({}, {__close = function() while true do end end}) error('x')",
  "local x <close> = setmetatable({}, {__close = function() pcall(function() while true do "
      .. "end end) "
    .. "while true do end end})",
  "while true do local ok, e = pcall(string.rep) pcall(error, e) end",
  "local c = setmetatable({}, {__close = function() while true do end end}) "
    .. "for _ in function() end, nil, nil, c do end",
  "pcall(pcall, pcall, pcall, function() while true do end end) while true do end",
  "local e = setmetatable({}, {__tostring = function() while true do end end}) while true "
      .. "do tostring(e) end",
  "local function deep(n) local x <close> = setmetatable({}, {__close = function() while "
      .. "true do end end}) "
    .. "if n > 0 then deep(n - 1) end while true do end end deep(100)",
  "while true do pcall(coroutine.wrap(function() error({}) end)) end",
  "xpcall(function() while true do end end, coroutine.wrap(function() while true do end end)) "
    .. "while true do end",
  "while true do xpcall(function() local function f() return f() + 1 end f() end, function() "
    .. "while true do end end) end",
})

-- ---- memory -------------------------------------------------------------------------------------
add("memory", "memory", {
  "local t = {} for i = 1, math.huge do t[i] = {} end",
  "local s = 'x' while true do s = s .. s end",
  "return ('x'):rep(1 << 30)",
  "return ('x'):rep(1 << 20, ('y'):rep(1 << 10))",
  "local t = {} for i = 1, 1e9 do t[i] = i end",
  "local t = {} while true do t[#t + 1] = ('%99d'):format(#t) end",
  "local t = {} for i = 1, 1e6 do t[i] = flame.ones(1000) flame.eval(t[i]) end",
  "flame.eval(flame.ones(1 << 30))",
  "local s = ('x'):rep(1 << 20) return table.concat(setmetatable({}, {__index = function() "
      .. "return s end}), s, 1, 1e6)",
  "return (('x'):rep(1 << 20)):gsub('x', ('y'):rep(1000))",
  "local n = 0 assert(load(function() n = n + 1 return 'x = ' .. n .. '.5 ' end))",
  "local t = {} for i = 1, 1e7 do t[i] = function() return i end end",
  "return string.pack('c' .. (1 << 30), '')",
  "local t = {} for i = 1, 1e8 do t[i .. ''] = i end",
  "local x = flame.ones(1000, 1000) return x:repeat_interleave(1000):sum(1):item()",
  "local t = {} while true do t[#t + 1] = tostring(flame.ones(2)):rep(1000) .. #t end",
  "local y = {} for i = 1, 1e5 do y[i] = flame.rand(100000) + i flame.eval(y[i]) end",
})
add("memory", "nodes", {
  "local t = {} for i = 1, 1e7 do t[i] = flame.ones(2) end",
  "local x = flame.ones(2):requires_grad_(true) local y = x for i = 1, 1e7 do y = y * 2 end",
})
add("memory", "output", {
  "while true do print('x') end", "print(('x'):rep(1 << 22))",
  "while true do io.write('x', 1, 'y') end", "warn(('x'):rep(1 << 22))",
})

-- ---- files and links ------------------------------------------------------------------------
-- The sandbox's folder has a file 'inside', a link 'link' to a file outside, a named pipe 'pipe',
-- and a link 'up' to the folder above.
local function refuses(call, why)
  return ("local f, why = %s assert(not f and why:find(%q), why or 'it is open')"):format(call, why)
end
local outside = "outside the folder"
add("files and links", "ends", {
  refuses("io.open('/etc/passwd')", outside), refuses("io.open('../outside')", outside),
  refuses("io.open('link')", outside), refuses("io.open('up/outside')", outside),
  refuses("io.open('folder/../../outside')", outside), refuses("io.open('/proc/self/mem')",
    outside),
  refuses("io.open('pipe')", "not a regular file"), refuses("io.open('folder')", "is a folder"),
  refuses("io.open('/dev/zero')", outside), refuses("io.open('inside\\0../outside')", "No "
      .. "such file"),
  refuses("io.open('up/new', 'w')", outside), refuses("io.open('link', 'a')", outside),
  refuses("io.open('pipe', 'w')", ""), "assert(io.open('inside')):close()",
  "for line in io.lines('inside') do assert(line == 'hello') end",
  "local next_, _, _, f = io.lines('inside') while next_() do end assert(io.type(f) == 'closed file')",
  "assert(not os.remove and not os.rename and not os.execute and not io.popen and not os.getenv)",
  "local f = assert(io.open('made', 'w')) f:write('x') f:close()",
  "flame.save('made.npy', flame.ones(3)) assert(flame.load('made.npy'):sum():item() == 3)",
})
add("files and links", "outside the folder", {
  "flame.load('../outside.npy')", "flame.load('link.npy')", "flame.save('../made.npy', "
      .. "flame.ones(2))",
  "flame.save('up/made.npy', flame.ones(2))", "flame.save('/tmp/made.npy', flame.ones(2))",
  "flame.save('link.npy', flame.ones(2))", "flame.plot.line({1, 2}):save('../made.svg')",
  "for l in io.lines('/etc/passwd') do end", "flame.data.csv('../outside')",
})
add("files and links", "output", {
  "local f = assert(io.open('made', 'w')) while true do f:write(('x'):rep(1000)) end",
  "for i = 1, 1e6 do flame.save('made.npy', flame.ones(10000)) end",
  "for i = 1, 1e6 do assert(io.open('made', 'w')):close() end",
})
add("files and links", "Too many open files", {
  "local t = {} while true do t[#t + 1] = assert(io.open('inside')) end" })
add("files and links", "is not there", { "require 'os'", "require 'hostile'", "require "
    .. "'flame.core'" })

-- ---- kernels ------------------------------------------------------------------------------------
local function kernel(body, launch)
  return ("local k = flame.kernel{source = [[__global__ void k(const float *x, float *y, "
      .. "int n) { y[threadIdx.x] = x[0]; %s }]]} "
    .. "local y = k(%s) return y:sum():item()"):format(body, launch
    or "flame.zeros(1024)")
end
local endless = { "while (true) { y[threadIdx.x] += 1; }", "for (;;) y[threadIdx.x] *= 2.0f;",
  "int i = 0; while (i < n) { y[threadIdx.x] += 1; }", "do { y[threadIdx.x] += 1; } while (n > 0);",
  "for (int i = 0; i < 2000000000; i++) for (int j = 0; j < 2000000000; j++) y[threadIdx.x] += j;",
  "int i = 1; while (i != 0) { i = i * 3; y[threadIdx.x] = i; }",
  "for (int i = 0; i >= 0; i = i > 5 ? 0 : i + 1) y[threadIdx.x] += i;" }
for _, body in ipairs(endless) do
  add("kernels", "time", { kernel(body) })
  add("kernels", "kernel_steps", { kernel(body) })
end
add("kernels", "out of range|is out of|elements", {
  kernel("y[n * 1000] = 1;"), kernel("y[-1] = 1;"), kernel("y[0] = y[1 << 30];"),
})
add("kernels", "runs no binaries|cuda.load: ", { "flame.cuda.load('.version 8.0 .visible "
    .. ".entry k(.param .u64 a)', 'k', {params = {'float *'}})" })
add("kernels", "not permitted|loader", { "local data = require 'flame.data' "
  .. "data.loader(data.dataset(4, function(i) return i end), {workers = 2})()" })

-- ---- recursion ----------------------------------------------------------------------------------
add("recursion", "overflow|limit of the context|sandbox:1: sandbox:1: sandbox:1", {
  "local function f() return f() + 1 end f()",
  "local t = setmetatable({}, {}) getmetatable(t).__index = function(_, k) return t[k] end "
      .. "return t.x",
  "local t = setmetatable({}, {}) getmetatable(t).__tostring = function() return "
      .. "tostring(t) end tostring(t)",
  "local function f() return pcall(f) end assert(f())  error('stack overflow')",
  "local function f() return coroutine.wrap(f)() end f()",
  "local f f = function() return (('x'):gsub('x', f)) end f()",
  "local function f() table.sort({1, 2, 3}, f) end f()",
  "local function f() return f(), f() end f()", "local function f(a, ...) return a, f(...) "
      .. "end f(1, 2, 3)",
  "local t = setmetatable({}, {}) getmetatable(t).__concat = function(a, b) return a .. b "
      .. "end return t .. t",
})
add("recursion", "too many|levels|overflow|nested", {
  "assert(load('return ' .. ('('):rep(10000) .. '1' .. (')'):rep(10000)))",
  "assert(load(('do '):rep(10000) .. ('end '):rep(10000)))",
  "assert(load('x = ' .. ('{'):rep(10000)))",
})
add("recursion", "time", {
  "local t = setmetatable({}, {}) getmetatable(t).__call = t t()",
})
add("recursion", "loop", {
  "local function f() return f() end f()",
  "local function a() return pcall(error) end while true do a() end",
  "local t = setmetatable({}, {__index = function(t, k) return k end}) while true do local "
      .. "x = t[1] end",
})

-- ---- sandboxes in sandboxes ---------------------------------------------------------------------
add("nested", "time", {
  "flame.sandbox{time = 100}:run('while true do end')",
  "while true do pcall(function() flame.sandbox{time = 0.001}:run('while true do end') end) end",
  "local b = flame.sandbox{} while true do b:run('return 1') end",
  "flame.sandbox{}:run([[flame.sandbox{}:run('while true do end')]])",
  "flame.sandbox{time = 0, memory = 0}:run('while true do end')",
  "flame.sandbox{print = function() while true do end end}:run('print(1)')",
  "local b = flame.sandbox{} b:run('function f() while true do end end') while true do "
      .. "pcall(b.call, b, 'f') end",
})
add("nested", "steps", {
  "local b = flame.sandbox{} while true do pcall(b.run, b, 'while true do end') end",
  "flame.sandbox{steps = 0}:run('while true do end')",
})
add("nested", "limit of the context", {
  "flame.sandbox{memory = 1 << 40}:run('local t = {} for i = 1, math.huge do t[i] = {} end')",
  "local b = flame.sandbox{memory = 0} b:run('x = {}') while true do b:run('x[#x + 1] = "
      .. "(\"y\"):rep(100000)') end",
})
-- memory runs out while a string is made, or while a sandbox is opened
add("nested", "limit of the context|the limit of host memory is below", {
  "local t = {} while true do t[#t + 1] = flame.sandbox{} t[#t]:run('x = (\"y\"):rep(100000)') end",
})
add("nested", "output", {
  "local b = flame.sandbox{output = 0} while true do b:run('print(1)') end",
})
add("nested", "not permitted: the time is not told", {
  "flame.sandbox{}:run('flame.timer()')", "flame.sandbox{}:run('os.time()')",
  "flame.sandbox{}:run('flame.profile()')", "flame.sandbox{}:run('flame.bench(print)')",
})
add("nested", "ends", {
  "assert(not pcall(function() return flame.sandbox{}:run('return print') end))",
  "local ok, why = pcall(function() flame.sandbox{allow = {'read'}, folder = '/'}:run("
    .. "[[assert(io.open('etc/passwd'))]]) end) assert(not ok)",
  "local t = {} t.t = t local u = flame.sandbox{}:run('return ...', t) assert(u.t == u and u ~= t)",
  "local ok = pcall(function() local b b = flame.sandbox{print = function() b:run('return 1') end} "
    .. "b:run('print(1)') end) assert(not ok)",
  "assert(not pcall(flame.sandbox, {allow = {'everything'}}))",
  "local ok, why = pcall(flame.sandbox, {allow = {'workers'}}) "
    .. "assert(not ok and why:find('only where all limits are 0', 1, true), why)",
  "local f <close> = assert(io.open('folder/mine', 'w')) flame.sandbox {allow = {'read'}, folder = "
    .. "'folder'}:run([[assert(io.open('mine')) for _, p in ipairs {'inside', '../inside', "
    .. "'/etc/passwd'} do assert(not io.open(p)) end "
    .. "assert(not pcall(flame.sandbox, {allow = {'read'}, folder = '..'}))]])",
  "for _, p in ipairs {'/', '..', 'up', 'up/in', 'nowhere', 'inside', 'pipe'} do "
    .. "local ok, why = pcall(flame.sandbox, {allow = {'read'}, folder = p}) "
    .. "assert(not ok and why:find('folder', 1, true), why) end",
})
return list
