-- flame-lua --bundle: one executable with script, modules and files inside. It takes no options,
-- needs only the C library to run, and reports damage.

local interpreter = dofile("spec/support/interpreter.lua")

local files = dofile "spec/support/files.lua" ()
local folder, write, read = files.name, files.write, files.read
assert(os.execute("mkdir '" .. folder .. "/lib'"))
teardown(files.remove)
if not interpreter:find "^/" then interpreter = os.getenv "PWD" .. "/" .. interpreter end

--- What a command prints when it runs in the spec's folder, and its exit status.
local function run(command)
  local all = ("export FLAME_DEVICE=cpu; cd '%s' && { %s; } 2>&1; echo \"status $?\"")
    :format(folder, command)
  local f = assert(io.popen(all))
  local text = f:read "a"
  f:close()
  local out, status = text:match("^(.*)status (%d+)\n$")
  return out, tonumber(status)
end
local function bundle(words) return run(("'%s' --bundle %s"):format(interpreter, words)) end

write("main.lua", [=[
#!/usr/bin/env flame-lua
local flame = require "flame"
local util = require "lib.util"        -- not require "lib.comment"
local text = [[ require "lib.text" ]] .. "require 'lib.string'"
print(util(), pcall(require, "lib.maybe") and text, #arg, ...)
local w = flame.load("weights.safetensors").w
print(w:sum():item(), flame.load("./weights.safetensors").w[{ 2 }]:item())
w[1] = 7
print(w:totable()[1], flame.load("weights.safetensors").w[{ 1 }]:item())
for line in io.open("lines.txt"):lines() do io.write(line, ";") end
print(io.open("lines.txt", "rb"):read("n"), (select(2, io.open("none.txt"))))
print(pcall(require, "lib.absent"))
]=])
write("lib/util.lua", "local o, name = require('lib.other'), ...\n"
  .. "return function() return o .. name end")
write("lib/other.lua", "return 'other '")
write("lines.txt", "1\n2\n")
require("flame").save(folder .. "/weights.safetensors",
  { w = require("flame").arange(1, 1000):float(), u = require("flame").ones(3) })

describe("a bundle", function()
  local parts = "main.lua weights.safetensors lines.txt"
  setup(function()
    local out, status = bundle("app " .. parts)
    assert.equal("", out)
    assert.equal(0, status)
    run("mkdir away && mv app away")
  end)

  it("runs without what it was made of, takes no options and no LUA_INIT", function()
    local out, status = run("cd away && LUA_INIT='error(1)' LUA_PATH='?.lua' ./app -e 'x y'")
    assert.equal("other lib.util\tfalse\t2\t-e\tx y\n500500.0\t2.0\n7.0\t1.0\n1;2;1\t"
      .. "none.txt: No such file or directory\n", out:match("^.-directory\n"))
    assert.matches("false\tmodule 'lib.absent' not found:.*no module 'lib.absent' in the bundle", out)
    assert.equal(0, status)
  end)

  it("reads no more of its files than the script does", function()
    write("big.lua", [=[
      local w = require("flame").load("big.safetensors").w
      local first, rss = w[{ 1 }]:item()
      for line in io.lines("/proc/self/smaps") do
        local size = line:match("^Size: +(%d+)")
        if size then rss = tonumber(size) >= 16384 and "next" or rss end
        rss = rss == "next" and tonumber(line:match("^Rss: +(%d+)")) or rss
      end
      print(first, rss)
    ]=])
    require("flame").save(folder .. "/big.safetensors", { w = require("flame").ones(1 << 22) })
    bundle("big big.lua big.safetensors")
    local out, status = run("./big")
    run("rm big big.safetensors")
    assert.equal(0, status, out)
    local kb = tonumber(out:match("^1.0\t(%d+)\n$"))
    assert(kb and kb < 4096, out)                             -- of 16 MiB
  end)

  it("tells errors with the script's lines", function()
    write("bad.lua", "local x = 1\nerror('wrong')")
    bundle("bad bad.lua")
    local out, status = run("./bad")
    assert.matches("bad: bad.lua:2: wrong\nstack traceback", out)
    assert.equal(1, status)
  end)

  it("is checked as a whole by --bundle-check, and in part when it starts", function()
    local out, status = run(("'%s' --bundle-check away/app"):format(interpreter))
    assert.equal(0, status)
    assert.matches("good +%d+  main.lua\ngood +%d+  lib.util\ngood +%d+  lib.other\n", out)
    local bytes = read("away/app")
    local function damaged(at, message, runs)
      write("hurt", bytes:sub(1, at - 1) .. string.char(bytes:byte(at) ~ 1) .. bytes:sub(at + 1))
      local said, code = run("chmod +x hurt && ./hurt")
      assert.equal(runs and 0 or 1, code, said)
      if message then assert.matches(message, said) end
      said, code = run(("'%s' --bundle-check hurt"):format(interpreter))
      assert.equal(1, code)
      assert.matches(message and "damaged" or "is not what was bundled", said)
    end
    local payload = 0
    repeat payload = bytes:find("flame-bundle 1\n\0", payload + 1, true) until payload % 65536 == 1
    damaged(payload + 40, "the list of its parts is not what was written")
    damaged(payload + 1, "the list of its parts")
    damaged(#bytes - 1, nil, true)                            -- a byte in a file
    write("hurt", bytes:sub(1, #bytes - 1))
    assert.matches("this executable is damaged: it is cut off", (run("chmod +x hurt && ./hurt")))
    local at = bytes:find("local o, name = ", payload, true)
    write("hurt", bytes:sub(1, at - 1) .. "X" .. bytes:sub(at + 1))
    assert.matches("'lib/util.lua' is not what was bundled", (run("chmod +x hurt && ./hurt")))
  end)

  it("finds modules among its files", function()
    write("by.lua", "local name = 'lib.util' print(require(name)())")
    bundle("by_app by.lua lib/util.lua")
    assert.equal("other lib.util\n", (run("./by_app")))
  end)

  it("runs where only the C library is", function()
    local user = io.popen("id -u"):read "n"
    if user ~= 0 or interpreter:find "asan" or interpreter:find "tsan" then
      return pending "chroot needs root"
    end
    local out, status = run([[mkdir root && for f in $(ldd away/app | grep -o '/[^ ]*'); do
      mkdir -p root$(dirname $f) && cp $f root$f; done && cp away/app root && chroot root /app a]])
    assert.equal(0, status, out)
    assert.matches("^other lib.util\tfalse\t1\ta\n500500.0\t2.0\n", out)
  end)
end)

describe("--bundle refuses", function()
  local function refuses(words, message)
    local out, status = bundle(words)
    assert.equal(1, status)
    assert.matches(message, out)
  end
  it("what is missing, shared objects, and its own parts", function()
    write("lost.lua", "local a = 1\nlocal b = require \"lib.lost\"")
    refuses("app", "need flame%-lua %-%-bundle OUT script.lua")
    refuses("app none.lua", "none.lua: No such file")
    refuses("app lost.lua", "lost.lua:2: there is no module 'lib.lost'")
    refuses("app main.lua none.txt", "none.txt: No such file")
    refuses("app main.lua lib", "lib: ")
    refuses("app main.lua lines.txt ./lines.txt", "lines.txt is named twice")
    refuses("main.lua main.lua", "main.lua would be written over")
    refuses("none/app main.lua", "none/app.new: No such file")
    refuses("app main.lua x.so.6", "x.so.6 is a shared object")
    write("object.lua", "require 'objectx'")
    write("objectx.so", "")
    local out = run(("LUA_CPATH='./?.so' '%s' --bundle app object.lua"):format(interpreter))
    assert.matches("object.lua:1: module 'objectx' is a shared object", out)
    assert.matches("main.lua is no bundle",
      (run(("'%s' --bundle-check main.lua"):format(interpreter))))
  end)
end)
