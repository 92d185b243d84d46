-- flame-lua against lua5.4: each command line is run by both and must give the same output and
-- exit status. The interpreter's name is replaced in both outputs.

local interpreter = dofile("spec/support/interpreter.lua")

local folder = os.tmpname()
os.remove(folder)
assert(os.execute("mkdir -p '" .. folder .. "'"))

local function write(name, text)
  local f = assert(io.open(folder .. "/" .. name, "w"))
  f:write(text)
  f:close()
end

write("args.lua", "print(select('#', ...), ...) print(arg[0], #arg, arg[1], arg[-1] ~= nil)")
write("fails.lua", "local function f()\n  error('deep')\nend\nf()")
write("bad.lua", "x = = 1")
write("exit.lua", "os.exit(7)")
write("close.lua", "local t <close> = setmetatable({}, {__close = function() print('closed') end})\n" ..
  "os.exit(true, true)")
write("init.lua", "initialised = 'by file'")
write("m1.lua", "return {name = ...}")
write("shebang.lua", "#!/usr/bin/env flame-lua\nprint('after the first line')")
write("warn.lua", "warn('one ', 'two') warn('@off') warn('three')")
write("threads.lua", [[
local resume, create, wrap, yield, close = coroutine.resume, coroutine.create, coroutine.wrap, coroutine.yield, coroutine.close
local function closing(e)
  return setmetatable({}, { __close = function(_, why) print("closing", type(why)) if e then error(e, 0) end end })
end
local co = create(function(a, b) error("x" .. yield(a + b)) end)
print(resume(co, 1, 2)) print(resume(co, 5)) print(resume(co)) print(close(co))
print(pcall(resume)) print(pcall(resume, 3)) print(pcall(wrap)) print(pcall(wrap, 3)) print(pcall(close, 3))
print(pcall(close, coroutine.running())) print(resume(coroutine.running()))
local g = wrap(function(...) print(...) yield(1, nil, 3) error("boom") end)
print(g(7, nil, 8)) print(pcall(g)) print(pcall(g))
print(pcall(wrap(function() local x <close> = closing("in close") error({}) end)))
print(pcall(wrap(function() local x <close> = closing() error("plain") end)))
local held = create(function() local x <close> = closing("left") yield() end)
resume(held) print(close(held)) print(close(held))
local outer outer = create(function() resume(create(function() print(resume(outer)) print(pcall(close, outer)) end)) end)
resume(outer)
print(select("#", wrap(function() return table.unpack({}, 1, 200000) end)()))
local function deep(n) return n == 0 and 0 or 1 + wrap(deep)(n - 1) end
print(deep(150)) print((select(2, pcall(deep, 250))))
for k, v in wrap(function() for i = 1, 2 do yield(i, coroutine.isyieldable()) end end) do print(k, v) end
wrap(function() error("at the end") end)()]])
write("gc.lua", "print(collectgarbage('incremental')) setmetatable({}, {__gc = function() print('gc') end})")

local function quote(s) return "'" .. s:gsub("'", "'\\''") .. "'" end

--- Runs an interpreter in the spec's folder; returns its output (both streams) and exit status.
local function run(program, invocation)
  local env = "env -u LUA_INIT -u LUA_INIT_5_4 -u LUA_PATH -u LUA_CPATH " .. (invocation.env or "")
  local input = invocation.stdin and ("printf '%s' " .. quote(invocation.stdin) .. " | ") or ""
  local command = ("cd %s && %s%s %s %s 2>&1%s"):format(quote(folder), input, env, quote(program),
    invocation[1], invocation.stdin and "" or " </dev/null")
  local pipe = assert(io.popen(command))
  local output = pipe:read("a")
  local _, _, status = pipe:close()
  local name = program:gsub("%p", "%%%0")
  return (output:gsub(name, "INTERPRETER")), status
end

local absolute = interpreter
if not absolute:match("^/") then
  local pipe = assert(io.popen("pwd"))
  absolute = pipe:read("l") .. "/" .. interpreter
  pipe:close()
end

-- The full path of lua5.4: messages begin with the program's name, which 'run' replaces.
local found <close> = assert(io.popen "command -v lua5.4")
local stock = found:read "l" or error "these specs need lua5.4 in PATH"

local invocations = {
  { "-e 'print(1 + 1)'" }, { "-e'print(2)' -e 'print(3)'" }, { "-e 'x = 1' -e 'print(x)'" },
  { "-e 'print(...)'" }, { "-e 'syntax error here'" }, { "-e 'error(\"text\")'" },
  { "-e 'error(\"text\", 0)'" }, { "-e 'error()'" }, { "-e 'error({})'" }, { "-e 'error(12)'" },
  { "-e 'error(setmetatable({}, {__tostring = function() return \"spoken\" end}))'" },
  { "-e 'error(setmetatable({}, {__tostring = function() return 1 end}))'" },
  { "-e 'local x <close> = setmetatable({}, {__close = function() print(\"c\") end}) error(\"e\")'" },
  { "-l m1 -e 'print(m1.name)'" }, { "-lm1 -e 'print(m1.name)'" },
  { "-l g=m1 -e 'print(g.name, m1)'" }, { "-l nosuchmodule 2>&1 | head -1" },
  { "-l string -e 'print(string ~= nil)'" },
  { "-v" }, { "-v -e 'print(1)'" }, { "-v args.lua" },
  { "-E -e 'print(package.path)'", env = "LUA_PATH=q" },
  { "-e 'print(package.path)'", env = "LUA_PATH='x;;'" },
  { "-e 'print(package.cpath)'", env = "LUA_CPATH_5_4=y" },
  { "-W warn.lua" }, { "warn.lua" }, { "-W -e 'warn(\"a\")'" },
  { "-e 'warn(\"@on\") warn(\"b\")'" },
  { "args.lua" }, { "args.lua a 'b c' -x --" }, { "-- args.lua a" }, { "-e 'y = 1' args.lua a" },
  { "-e 'for i = -5, 5 do print(i, arg[i]) end' args.lua p q" },
  { "- a b", stdin = "print(...) print(arg[0], arg[1])" },
  { "-- - a", stdin = "print(1)" }, { "-", stdin = "print('from stdin')" },
  { "", stdin = "print('piped', #arg)" },
  { "", stdin = "error('piped')" }, { "", stdin = "x = = 1" }, { "-e 'arg = 1' args.lua" },
  { "-e 'arg[1] = 9' args.lua" },
  { "fails.lua" }, { "bad.lua" }, { "nosuch.lua" }, { "exit.lua" }, { "close.lua" },
  { "shebang.lua" }, { "gc.lua" }, { "threads.lua" },
  { "-e 'os.exit(false)'" }, { "-e 'os.exit(3, true)'" }, { "-e 'os.exit()'" },
  { "-e 'coroutine.wrap(function() error(\"inside\") end)()'" },
  { "-e 'print(pcall(error, nil))'" },
  { "-e 'io.stderr:write(\"e\") io.stdout:write(\"o\")' 2>/dev/null" },
  { "-e 'print(1.5, tonumber(\"2,5\"), string.format(\"%.1f\", 0.5))'",
    env = "LC_ALL=de_DE.UTF-8" },
  { "-e 'print(os.setlocale(nil, \"numeric\"))'", env = "LC_ALL=C.UTF-8" },
  { "-e 'print(initialised)'", env = "LUA_INIT=@init.lua" },
  { "-e 'print(a)'", env = "LUA_INIT='a = 5'" },
  { "-e 'print(a)'", env = "LUA_INIT='a = 5' LUA_INIT_5_4='a = 6'" },
  { "-e 'print(a)'", env = "LUA_INIT='a = = 5'" },
  { "-e 'print(a)'", env = "LUA_INIT='error(1)'" },
  { "-E -e 'print(a)'", env = "LUA_INIT='a = 5'" },
  { "-e 'print(1)'", env = "LUA_INIT=@nosuch.lua" },
  { "args.lua", env = "LUA_INIT='arg[1] = \"by init\"'" },
  { "-e 'print(collectgarbage(\"generational\"))'" }, { "-e 'print(#string.rep(\"x\", 1000000))'" },
  { "-e 'print(math.maxinteger + 1 == math.mininteger, 7 // 2, 7 / 2, 1e15, 2^53)'" },
  { "-e 'goto done do print(1) end ::done:: print(2)'" }, { "-e 'return 5'" }, { "-e '= 5'" },
}

-- Where input is piped, the exit status is that of the interpreter, the last command of the pipe.
describe("flame-lua", function()
  teardown(function() os.execute("rm -rf " .. quote(folder)) end)

  describe("behaves as lua5.4:", function()
    for _, invocation in ipairs(invocations) do
      it((invocation.env and invocation.env .. " " or "") .. invocation[1] ..
         (invocation.stdin and " < " .. invocation.stdin or ""), function()
        local expected, status = run(stock, invocation)
        local got, own = run(absolute, invocation)
        assert.equal(expected, got)
        assert.equal(status, own)
      end)
    end

    it("but says what a loop over a list needs", function()
      local at = { "-e 'for p in flame.nn.Linear(1, 1):parameters() do end'" }
      local got, status = run(absolute, at)
      assert.truthy(got:find("attempt to call a table value (for iterator 'for iterator'); a list "
        .. "needs ipairs: for _, p in ipairs(net:parameters()) do\n", 1, true), got)
      assert.equal(1, status)
    end)

    it("reports bad options with the usage and status 1", function()
      for _, option in ipairs{ "-x", "-e", "-l", "-e -v", "-ii", "-vv", "-Ex",
          "--nosuch", "-Wx" } do
        local expected, status = run(stock, { option })
        local got, own = run(absolute, { option })
        local function head(s) return s:match("^(.-usage:.-\n)") end
        assert.equal(head(expected), head(got))
        assert.equal(1, own)
        assert.equal(status, own)
      end
    end)
  end)

  describe("the prompt without a terminal", function()
    --- What the lines of 'stdin' print at a prompt, without the prompts and the first line.
    local function answers(stdin)
      local out = run(absolute, { "-i", stdin = stdin })
      return (out:gsub("^flame%-lua[^\n]*\n", ""):gsub("^>+ ", ""):gsub("\n>+ ",
        "\n"):gsub("^[> ]*>+ ", "")
        :gsub("\n[> ]*>+ ", "\n"):gsub("%s+$", ""))
    end

    it("tries an expression first", function()
      assert.equal("3\t4", answers("1 + 2, 4\n"))
      assert.equal("a", answers("='a'\n"))
    end)

    it("reads on while a statement is incomplete", function()
      assert.equal("1\n2", answers("for i = 1, 2 do\nprint(i)\nend\n"))
      assert.equal("2", answers("local x = 1 +\n1 print(x)\n"))
    end)

    it("goes on after an error", function()
      local out = answers("error('first')\nprint('second')\n")
      assert.truthy(out:find("stdin:1: first", 1, true))
      assert.truthy(out:find("second", 1, true))
      assert.falsy(out:find("INTERPRETER:", 1, true))
    end)

    it("prints nil results and nothing for no results", function()
      assert.equal("nil", answers("nil\n"))
      assert.equal("", answers("(function() end)()\n"))
    end)

    it("uses _PROMPT and _PROMPT2", function()
      local out = run(absolute, { "-i", stdin = "_PROMPT, _PROMPT2 = 'A:', 'B:'\ndo\nend\n" })
      assert.truthy(out:find("A:B:A:", 1, true))
    end)

    it("calls the global print, and survives a broken one", function()
      assert.truthy(answers("print = nil\n1\n"):find("error calling 'print'", 1, true))
    end)

    it("enters after a script with -i", function()
      local out, status = run(absolute, { "-i args.lua", stdin = "'typed'\n" })
      assert.truthy(out:find("typed", 1, true))
      assert.equal(0, status)
    end)
  end)

  describe("its own options", function()
    it("--version names the version", function()
      local out, status = run(absolute, { "--version" })
      assert.truthy(out:find("^flame%-lua %d+%.%d+%.%d+ %(Lua 5%.4"))
      assert.equal(0, status)
    end)

    it("--help prints the usage", function()
      local out, status = run(absolute, { "--help" })
      assert.truthy(out:find("usage:", 1, true))
      assert.equal(0, status)
    end)

    it("--info prints the block of facts", function()
      local out, status = run(absolute, { "--info" })
      assert.truthy(#out > 20)
      assert.equal(0, status)
    end)

    it("flame is a global and the module", function()
      assert.equal("true\n", (run(absolute, { "-e 'print(flame == require \"flame\")'" })))
    end)
  end)

  describe("Ctrl-C", function()
    -- ThreadSanitizer delays signals to the next system call, and a tight loop makes none.
    if os.getenv("FLAME_SANITIZE") == "thread" then
      pending("stops what runs: ThreadSanitizer holds signals back")
      return
    end

    --- Runs a script, and sends it SIGINT after it prints "ready"; returns its output and status.
    local function interrupted(script)
      write("loop.lua", "local function ready() io.write('ready\\n') io.flush() end\n" .. script)
      return run("/bin/sh", { ("-c %s"):format(quote(([[
        %s loop.lua >out 2>&1 & pid=$!
        while kill -0 $pid 2>/dev/null && ! grep -q ready out 2>/dev/null; do sleep 0.02; done
        kill -INT $pid; wait $pid; status=$?; cat out; rm -f out; exit $status]]):format(
        quote(absolute)))) })
    end

    it("stops a Lua loop with an error and a traceback", function()
      -- sh starts background jobs with SIGINT ignored: the interpreter must set its handler
      local out, status = interrupted("ready() while os.clock() < 20 do end")
      assert.truthy(out:find("interrupted!", 1, true), out)
      assert.truthy(out:find("stack traceback", 1, true), out)
      assert.equal(1, status)
    end)

    it("can be caught, and the program goes on", function()
      local out, status = interrupted(
        "print(pcall(function() ready() while os.clock() < 20 do end end)) print('on')")
      assert.truthy(out:find("interrupted!", 1, true), out)
      assert.truthy(out:find("on", 1, true), out)
      assert.equal(0, status)
    end)

    it("stops a long computation", function()
      local out, status = interrupted(
        "local x = flame.rand(1024, 1024)\nready()\nfor i = 1, 200 do x = x:matmul(x) * 1e-3 end\n" ..
        "print(x:sum():item())")
      assert.truthy(out:find("interrupt", 1, true), out)
      assert.equal(1, status)
    end)

    it("ends a wait for the workers of a loader, and the workers", function()
      local out, status = interrupted([[
        local data = require "flame.data"
        local l = data.loader(data.dataset(4, function(i) while true do i = i end end), {workers = 2})
        print(pcall(function() ready() l() end))
        l:close()
        print("on")]])
      assert.truthy(out:find("loop.lua:4: interrupted!", 1, true), out)
      assert.falsy(out:find("can not be taken", 1, true), out)
      assert.truthy(out:find("on\n", 1, true), out)
      assert.equal(0, status)
    end)
  end)
end)
