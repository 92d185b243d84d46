-- The prompt on a terminal: keys, entries (lines of code), interrupts, locals, values. Completion,
-- history and commands are in prompt_tools_spec.lua. Without a terminal the prompt is lua5.4's.
local here = require("flame").default_device()
local words = require "flame.prompt.words"
local terminal = dofile "spec/support/terminal.lua"
local session, typed = terminal.session, terminal.typed
local write, has, lacks = terminal.write, terminal.has, terminal.lacks
local interpreter, output_of = terminal.interpreter, terminal.output_of

describe("the prompt on a terminal", function()
  before_each(terminal.clear)

  it("shows the value of an expression, and says at the start where help is", function()
    local screen = typed { "1 + 2, 'a'" }
    has(":help lists what the prompt can do", screen)
    has("\n3       a\n", screen)
  end)

  it("leaves the terminal as it was, whatever ends it", function()
    assert.equal("raw\nstatus 0\ncooked\n", session("mode\nsend \\x04\nend\nmode"))
    for signal, name in pairs { [15] = "signal 15", [1] = "signal 1" } do
      has(name, session(("send 1 + 2\nwait 1 + 2\nsignal %d\nend\nmode"):format(signal)))
    end
    has("cooked", session("send 1 +\nwait 1 +\nsignal 15\nend\nmode"))
  end)

  describe("edits", function()
    local function edited(keys, o)
      return session("send " .. keys .. "\\r\nwait \\n= \nscreen", o)
    end

    it("in the middle of a line, by characters, words and lines", function()
      has("= 1230", edited("30\\x01\\x02\"= \" .. 12\\x05"))
      has("= 7", edited("\"= \" .. 99 9\\x17\\x177"))
      has("= 41", edited("\"= \" .. 1\\x024"))
      has("= 15", edited("xx\"= \" .. 1\\x01\\e[3~\\x045\\e[D\\e[3~\\e[F5"))
      has("= ab", edited("b'\\x15'= a' .. '\\x05\\x19"))
      has("= 3", edited("\"= \" .. one two\\eb\\eb\\ed\\ed3"))
      has("= 12", edited("2\\e[H\"= \" .. 1\\e[1;5D\\e[1;5C\\e[4~"))
    end)

    it("characters with marks and wide ones as one, and knows their columns", function()
      local out = session("send s = 'e\\xcc\\x81\\xe4\\xb8\\xad\\xf0\\x9f\\x98\\x80x\nwait x\ncursor\n"
        .. "send \\e[D\ncursor")
      assert.equal("3 14\n3 13\n", out)
      -- "> s = 'é中😀x" has 2 + 5 + 1 + 2 + 2 + 1 = 13 columns; the cursor is in the 14th
      out = session("send s = 'e\\xcc\\x81\\xe4\\xb8\\xad\\xf0\\x9f\\x98\\x80x'\nwait x'\nsend \\e[D\\e[D\\e[D\\x08\\x08y\\r"
        .. "\nsend s, utf8.len(s)\\r\nwait x    3\nscreen")
      has("y😀x    3", out)
    end)

    it("a line that is longer than the terminal", function()
      local long = ("0123456789"):rep(12)
      local out = session("send '" .. long .. "\nwait " .. long:sub(78, 100)
        .. "\ncursor\nsend \\x01\nsend #\nwait #'\n"
        .. "cursor\nsend \\x05'\\r\nwait 120\nscreen")
      assert.truthy(out:find("^4 44\n3 4\n"), out)
      has("> #'" .. long:sub(1, 76) .. "\n" .. long:sub(77) .. "'\n120", out)
    end)

    it("a line that ends at the last column, with a wide character that does not fit", function()
      local out = session("send " .. ("a"):rep(17)
        .. "\nwait aaa\ncursor\nsend \\xe4\\xb8\\xad\nwait 中\ncursor\n"
        .. "send \\x7f\\x7f\\x7f\ncursor", { cols = 20 })
      local row, below, after = out:match("^(%d+) 20\n(%d+) 3\n(%d+) 18\n$")
      assert.truthy(row and tonumber(row) + 1 == tonumber(below) and row == after, out)
      out = session("send " .. ("a"):rep(17)
        .. "\nwait aaaaaaaaaaaaaaaaa\ncursor\nsend b\nwait b\ncursor\n"
        .. "send \\x7f\nsend \\xe4\\xb8\\xad\nwait 中\ncursor", { cols = 20 })
      local r1, c1, r2, c2, r3, c3 = out:match("(%d+) (%d+)\n(%d+) (%d+)\n(%d+) (%d+)")
      assert.same({ "20", "1", "3" }, { c1, c2, c3 }, out)
      assert.equal(tonumber(r1) + 1, tonumber(r2))
      assert.equal(tonumber(r1) + 1, tonumber(r3))
    end)

    it("an entry of several lines as one", function()
      local out = session("send for i = 1, 2 do\\r\nwait >>\nsend print('= ' .. i)\\r\nsend end\\e[A\\e[A\\x05 local j = i\\e[B"
        .. "\\x02 + j\\r\nwait = 4\nscreen")
      has("> for i = 1, 2 do local j = i\n>> print('= ' .. i + j)\n>> end\n= 2\n= 4", out)
    end)

    it("breaks a line where Alt and Enter ask for it", function()
      has("> 1 +\n>> 2\n3", session("send 1 +\\e\\r2\\r\nwait 3\nscreen"))
    end)

    -- Random keys must have the same effect as on a model: a list of characters and a position.
    it("as a model says, with random keys", function()
      local random = math.random
      math.randomseed(7)
      local units = { "a", "B", "_", " ", "(", "\\xc3\\xa9", "\\xe4\\xb8\\xad", "e\\xcc\\x81",
        "\\xf0\\x9f\\x98\\x80" }
      local steps, wanted, cut = {}, {}, {}
      for round = 1, 12 do
        local text, at, keys = {}, 0, {}
        local function take(from, to)
          local out = {}
          for _ = from, to do out[#out + 1] = table.remove(text, from) end
          return out
        end
        local does = {
          left = function() at = math.max(at - 1, 0) return "\\e[D" end,
          right = function() at = math.min(at + 1, #text) return "\\e[C" end,
          home = function() at = 0 return "\\x01" end,
          last = function() at = #text return "\\x05" end,
          back = function()
            if at > 0 then table.remove(text, at) at = at - 1 end
            return "\\x7f"
          end,
          delete = function() if at < #text then table.remove(text, at + 1) end return "\\e[3~" end,
          kill = function() if at < #text then cut = take(at + 1, #text) end return "\\x0b" end,
          head = function() if at > 0 then cut = take(1, at) at = 0 end return "\\x15" end,
          yank = function()
            for _, u in ipairs(cut) do at = at + 1 table.insert(text, at, u) end
            return "\\x19"
          end,
        }
        local names = {}
        for name in pairs(does) do names[#names + 1] = name end
        table.sort(names)
        for k = 1, 80 do
          if random() < 0.6 then
            at = at + 1
            table.insert(text, at, units[random(#units)])
            keys[k] = text[at]
          else
            keys[k] = does[names[random(#names)]]()
          end
        end
        steps[#steps + 1] = "send " .. table.concat(keys)
          .. "\\x01r[#r+1] = [==[\\x05]==]\\r\nready"
        wanted[round] = table.concat(text):gsub("\\x(%x%x)",
          function(h) return string.char(tonumber(h, 16)) end)
      end
      write("wanted", table.concat(wanted, "\n"))
      local out = session("send r = {}\\r\nready\n" .. table.concat(steps, "\n")
        .. "\nsend '= ' .. tostring(table.concat(r, '\\\\n') == io.open('../wanted'):read('a'))\\r\nwait \\n= \nscreen", { cols = 30 })
      has("= true", out)
    end)
    it("through bytes from nowhere", function()
      math.randomseed(11)
      local steps = {}
      for i = 1, 40 do
        local bytes = {}
        for k = 1, 60 do
          local c = math.random() < 0.3 and 27 or math.random(0, 255)
          bytes[k] = (c == 4 or c == 26 or c == 13 or c == 10) and "[" or ("\\x%02x"):format(c)
        end
        steps[i] = "send " .. table.concat(bytes)
      end
      local out = session(table.concat(steps, "\n")
        .. "\nsend \\e[201~\\x03\\x03\nwait ^C\nsend '= ' .. 5\\r\nwait \\n= 5\nscreen",
        { cols = 20 })
      lacks("never came", out)
    end)

    it("after the terminal has another size", function()
      local out = session("send '= ' .. " .. ("1234567890"):rep(5)
        .. "e9\nwait e9\nsize 40 12\nsend \\x01\\x05\n"
        .. "send \\x08\\x08.5\nwait 0.5\nscreen\nsend \\r\nwait \\n= 1.2\nscreen", { cols = 80 })
      has("> '= ' .. 123456789012345678901234567890\n12345678901234567890.5\n", out)
      assert.equal(2, select(2, out:gsub("> '= '", "")))
      out = session("send '= ' .. " .. ("1234567890"):rep(5)
        .. "e9\nwait e9\nsize 100 30\nsend \\x08\\x08.5\nwait 0.5\nscreen",
        { cols = 40 })
      has("> '= ' .. 12345678901234567890123456789012345678901234567890.5\n", out)
      lacks("never came", out)
    end)
  end)

  describe("Ctrl-C", function()
    it("clears what is typed and keeps the session", function()
      local out = session("send x = 5\\r\nsend for i = 1, 2 do\\r\nwait >>\nsend junk\nwait > junk\nsend \\x03\nwait ^C\\n>\n"
        .. "send '= ' .. x\\r\nwait \\n= 5\nscreen")
      has("junk^C\n>", out)
    end)
    it("as a signal from outside does the same", function()
      local out = session("send x = 5\\r\nready\nsend junk\nwait > junk\nsignal 2\nwait ^C\\n>\nsend '= ' .. x\\r\nwait \\n= 5\nscreen")
      has("junk^C\n>", out)
    end)
    it("between two entries does nothing", function()
      local steps = {}
      for i = 1, 40 do steps[i] = "send " .. i .. "\\r\\x03" end
      local out =
        session(table.concat(steps, "\n")
          .. "\nsend \\r\\r\ncursor\nsend '= ' .. 5\\r\nwait \\n= 5\nscreen")
      -- the steps do not wait for a prompt ('ready'): at a Ctrl-C the system drops output that was
      -- not yet read, so it may be missing
      has("= 5", out)
      lacks("never came", out)
    end)
    if os.getenv("FLAME_SANITIZE") ~= "thread" then
      it("stops what runs", function()
        local out = session("send x = 5 print('ru' .. 'ns') while true do end\\r\nwait runs\nsend \\x03\nwait interrupted!\n"
          .. "send '= ' .. x\\r\nwait \\n= 5\nscreen")
        has("= 5", out)
      end)
    end
  end)

  describe("a pasted block", function()
    it("is one entry, with its locals", function()
      local out = session("send \\e[200~local a = 1\\rlocal b = a + 1\\rfunction f()\\r\\treturn a + b\\rend\\r\\e[201~\nwait end\n"
        .. "screen\nsend \\r\nready\nsend f() + a\\r\nready\nsend '= ' .. b\\r\nwait = 2\nscreen")
      has(">> end\n> f() + a\n4\n", out)
    end)
    it("of a thousand lines runs as one, and is shown around the cursor", function()
      local lines = {}
      for i = 1, 1000 do lines[i] = ("n%d = %d"):format(i, i) end
      local out = session("send \\e[200~" .. table.concat(lines, "\\r")
        .. "\\e[201~\nwait n1000 = 1000\nscreen\n"
        .. "send \\r\nsend '= ' .. n1 + n500 + n1000\\r\nwait = 1501\nscreen\nsend \\e[A\\e[A\nwait >> n1000\nscreen")
      has("= 1501", out)
      lacks("never came", out)
    end)
    it("holds no keys: Tab and escapes in it do nothing", function()
      has("\n4\n", session("send '=\nwait '=\nsend \\e[200~\\t\\x03\\x15\\e[201~|a'\\r\nwait |\nsend #_\\r\nwait \\n4\nscreen"))
    end)
  end)

  describe("locals", function()
    it("of the outermost level stay, and are no globals", function()
      local out = typed { "local a, b <const> = 1, 2",
        "local function f(n) return n < 2 and 1 or n * f(n - 1) end",
        "'= ' .. a + b, f(5), _G.a, _G.f" }
      has("= 3     120     nil     nil", out)
    end)
    it("of inner levels do not", function()
      has("\nnil\n", typed { "do local inner = 1 end if true then local inner = 2 end", "inner" })
    end)
    it("hide a global, also while they are nil, and are what later assignments change", function()
      local out = typed { "g = 1", "local g", "g == nil, _G.g", "g = 3", "'= ' .. g .. _G.g",
        "function up() g = g + 1 end up()", "'> ' .. g" }
      has("true    1", out)
      has("= 31", out)
      has("> 4", out)
    end)
    it("that are to be closed end with their line", function()
      local out = typed { "local c <close> = setmetatable({}, {__close = function() print('clo' .. 'sed') end}) print(1)",
        "'c is ' .. tostring(c)" }
      has("1\nclosed\n", out)
      has("c is nil", out)
    end)
    it("are found by words, in every file of the tree", function()
      local count = 0
      for path in output_of("find lua spec examples tools -name '*.lua'"):gmatch("[^\n]+") do
        local file <close> = assert(io.open(path))
        local text = file:read("a"):gsub("^#[^\n]*", "")
        local kept = words.keep_locals(text, "_ENV['local'].")
        assert(load(kept, "=" .. path))
        assert.equal(select(2, text:gsub("\n", "")), (select(2, kept:gsub("\n", ""))))
        count = count + 1
      end
      assert(count > 100)
      assert.equal("W.x, W.y = 1, 2 W.f = function() local z end --[[local q]] W.a\n = nil",
        words.keep_locals("local x <const>, y = 1, 2 local function f() local z end --[[local q]] local a\n", "W.")
          :gsub(" = nil\n", "\n = nil"))
    end)
  end)

  it("keeps the last value in _", function()
    has("= 42", typed { "40", "_ + 2", "x = 1", "'= ' .. _" })
    has("\nnil\n", typed { "40", "_G._" })
  end)

  it("names a mistake stdin, and that of an older entry by its text", function()
    local out = typed { "function f() error('deep') end", "error('flat')", "f()" }
    has("stdin:1: flat", out)
    has('[string "function f() error(\'deep\') end"]:1: deep', out)
  end)

  describe("values:", function()
    it("tables to a depth, sorted, tensors in them as a line", function()
      local out = typed { "{3, b = 1, a = {x = flame.zeros(2, 3), shape = flame.zeros(4, 5).shape}, [true] = false, deep = {{{{{1}}}}}}" }
      has("{\n  3,\n  [true] = false,\n  a = {shape = (4, 5), x = tensor (2, 3) f32 " .. here ..
        "},\n  b = 1,\n  deep = {{{{…}}}},\n}", out)
      has("{1, 2, \"a\\n\"}", typed { "{1, 2, 'a\\\\n'}" })
    end)
    it("one that holds itself", function()
      has("{self = <above>, x = 1}", typed { "t = {x = 1} t.self = t", "t" })
    end)
    it("no wider than the terminal", function()
      local out = typed({ "{x = ('y'):rep(200), long = {'a', ('z'):rep(50)}}",
        "t = {} for i = 1, 500 do t[i] = i end", "{t}", "t" },
        { cols = 40, rows = 60 })
      has("…", out)
      has("{1, 2, 3, 4,", out)
      has("499, 500}", out)
      has("more", out)
    end)
    it("a tensor with columns left out", function()
      local out = typed({ "flame.arange(60.0):reshape(2, 30)", "flame.arange(30.0)" },
        { cols = 40, rows = 40 })
      has(" 1  2  3  4  5  6  7 … 25 26 27 28 29 30\n31 32 33 34 35 36 37 … 55 56 57 58 59 60\nshape (2, 30), f32, " .. here, out)
      for line in out:gmatch("[^\n]+") do assert(utf8.len(line) <= 40, line) end
      has("\n14 15 16 17 18 19 20 21 22 23 24 25 26\n27 28 29 30\nshape (30), f32, " .. here, out)
    end)
    it("a module as it describes itself, a function by its name", function()
      has("Linear(", typed { "flame.nn.Linear(2, 3)" })
      has("function flame.topk(x, k, dim, largest, sorted)", typed { "flame.topk" })
    end)
    it("in colours, unless NO_COLOR is set", function()
      local steps = "send {1, 'a', flame.ones(2)}\\r\nwait f32 " .. here .. "}\ncolours"
      assert.truthy(tonumber(session(steps):match("(%d+)\n$")) > 0)
      assert.equal("0\n", session(steps, { env = "NO_COLOR=1" }))
    end)
    it("with a print of the script's own", function()
      has("\nmine    5\n", typed { "old = print function print(...) old('mine', ...) end", "5" })
    end)
  end)

  describe("with TERM=dumb", function()
    it("reads lines plainly, with commands and locals", function()
      local out = typed({ "local a = 5", "'= ' .. a", ":undo", ":help topk", "for i = 1, 1 do",
        "print('in', i) end" },
        { env = "TERM=dumb" })
      has("= 5", out)
      has("topk(x: T, k: int", out)
      has("in", out)
    end)
    it("Ctrl-C clears the line there as well, and no colours are used", function()
      local out = session("send x = {1, 'a'}\\r\nwait }\\n>\nsend junk\nwait junk\n"
        .. "send \\x03\nwait ^C\\n>\nsend x\\r\nwait \"a\"\nscreen\ncolours",
        { env = "TERM=dumb" })
      has('{1, "a"}', out)
      assert.matches("\n0\n$", out)
      has("status 0", session("send \\x04\nend", { env = "TERM=dumb" }))
    end)
  end)
end)

-- docs/prompt.md: the code after each "> " of a ```prompt block is typed, and then the screen must
-- show the block. Runs of blanks count as one, "…" stands for any text.
describe("the page on the prompt", function()
  local file <close> = assert(io.open("docs/prompt.md"))
  local count = 0
  for block in file:read("a"):gmatch("\n```prompt\n(.-)\n```") do
    count = count + 1
    it("shows what is so, block " .. count, function()
      local entries = {}
      for entry in ("\n" .. block):gmatch("\n> ([^\n]+)") do
        entries[#entries + 1] = entry:gsub("\\", "\\\\")
      end
      local o = { rows = 90, env = "FLAME_DEVICE=cpu" }
      local screen = typed(entries, o):match("\n(> .*)$"):gsub("\n>\n$", "")
      local wanted = block:gsub("%s+", " "):gsub("%p", "%%%0"):gsub("…", ".*")
      assert.matches("^" .. wanted .. "$", (screen:gsub("%s+", " ")))
    end)
  end
  it("has such blocks", function() assert(count >= 4) end)
end)

describe("the prompt without a terminal", function()
  teardown(terminal.close)

  local function piped(text)
    return output_of(
      ("printf '%%s' '%s' | env -u LUA_INIT %s -i 2>&1"):format(text:gsub("'", "'\\''"),
        interpreter))
  end
  it("has no commands, no kept locals, no _, and loads nothing for them", function()
    has("syntax error", (piped(":help\n"):gsub("unexpected symbol", "syntax error")))
    has("nil", piped("local a = 5\na\n"))
    has("nil\tnil\tnil", piped("1\n_, prompt, package.loaded[\"flame.prompt\"]\n"))
  end)
  it("says nothing of help, and shows no sequences", function()
    local out = piped("{1}\n")
    lacks(":help", out)
    lacks("\27", out)
  end)
end)
