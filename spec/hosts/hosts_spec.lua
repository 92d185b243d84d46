-- Compiles the programs of examples/hosts against this build and runs them, where the libraries
-- that they need are installed. Also the static library, and a C module that is not linked with it.
local program = dofile("spec/support/interpreter.lua")

local build
do
  local pipe <close> = io.popen(("realpath '%s'"):format(program:match("^(.*)/[^/]*$") or "."))
  build = pipe:read "l"
end
local sanitized = os.getenv "FLAME_SANITIZE"
local folder

--- Runs a shell command; returns its output and whether it succeeded.
local function sh(command)
  local pipe <close> = io.popen("(" .. command .. ") 2>&1; echo $?")
  local text = pipe:read "a"
  local body, status = text:match("^(.-)(%d+)%s*$")
  return body, status == "0"
end

local function has(test)
  return select(2, sh(test))
end
local function header(name) return has(("echo '#include <%s>' | cc -E -x c -"):format(name)) end

local function compile(what)
  local out, ok = sh(("cc -std=c11 -O1 -Wall -Wextra -Werror -Isrc %s"):format(what))
  assert(ok, out)
end

local function library(name)
  return ("%s/lib%s.so.0 -Wl,-rpath,%s"):format(build, name, build)
end

if sanitized or os.getenv "FLAME_RELEASE" or not has "command -v cc"
  or not has("test -f " .. build .. "/libflame-full.so.0") then
  describe("hosts", function() pending "needs a C compiler and a plain build" end)
  return
end

describe("examples/hosts", function()
  setup(function() folder = sh("mktemp -d"):gsub("%s", "") end)
  teardown(function() sh("rm -rf " .. folder) end)

  it("game: a creature learns to find food", function()
    compile(("examples/hosts/game.c %s -lm -o %s/game"):format(library "flame", folder))
    local out, ok = sh(folder .. "/game 400")
    assert(ok, out)
    local meals = {}
    for n in out:gmatch("(%d+) meals") do meals[#meals + 1] = tonumber(n) end
    assert.equal(5, #meals)
    assert(meals[3] + meals[4] + meals[5] >= 4 + 2 * meals[1], out)
  end)

  it("plugin: learns in a program with another Lua and threads", function()
    if not (header "lua5.4/lua.h") then return pending "needs liblua5.4-dev" end
    compile(("-fPIC -shared -fvisibility=hidden examples/hosts/plugin.c %s -o %s/plugin.so")
      :format(library "flame-full", folder))
    compile(("-I/usr/include/lua5.4 examples/hosts/host.c -llua5.4 -lpthread -ldl -o %s/host")
      :format(folder))
    local out, ok = sh(("%s/host %s/plugin.so 3"):format(folder, folder))
    assert(ok, out)
    local first, last = out:match("3 threads: the loss went from ([%d.]+) to ([%d.]+) in each")
    assert(tonumber(last) < tonumber(first) / 3, out)
  end)

  it("server: answers over HTTP with a context for each worker", function()
    if not (header "civetweb.h" and has "command -v curl") then
      return pending "needs libcivetweb-dev and curl"
    end
    compile(("examples/hosts/server.c %s -lcivetweb -lpthread -o %s/server")
      :format(library "flame", folder))
    local out, ok = sh(([[
      cd %s && ./server --make m.safetensors && mkfifo up && { ./server m.safetensors 0 3 >up & } &&
      server=$! && read line <up && port=$(echo "$line" | grep -oE '[0-9]+' | head -n 1) || exit 1
      ask() { curl -s -m 10 -d "$1" "localhost:$port/predict"; }
      for i in 1 2 3 4 5 6; do ask '0.5 1 -2' >answer$i & asked="$asked $!"; done
      wait $asked
      cat answer*; ask '0.5 1 -2, 1 2 3' | wc -l; ask '1 2'; ask 'x'
      kill -INT $server; wait $server]]):format(folder))
    assert(ok, out)
    local answers = {}
    for p, q in out:gmatch("(0%.%d+) (0%.%d+)\n") do
      answers[#answers + 1] = p
      assert.equal(answers[1], p)
      assert(math.abs(p + q - 1) < 1e-5)
    end
    assert.equal(6, #answers)
    assert(out:find("\n2\nexpected a multiple of 3 numbers\nexpected a multiple of 3 numbers\n"), out)
  end)

  it("rocks: learns from lines that a module of LuaRocks reads", function()
    local cpath = ("%s/?.so;;"):format(build)
    if not has(("LUA_CPATH='%s' lua5.4 -e 'require \"cjson\"'"):format(cpath)) then
      return pending "needs lua-cjson"
    end
    local out, ok = sh(("LUA_CPATH='%s' lua5.4 examples/hosts/rocks.lua"):format(cpath))
    assert(ok, out)
    assert(tonumber(out:match('"error":([%d.e-]+)')) < 0.01, out)
  end)

  it("a C module needs no link: it takes the functions from the registry", function()
    local source <close> = assert(io.open(folder .. "/twice.c", "w"))
    source:write [[
      #include <lua.h>
      #include <lauxlib.h>
      #include <lua/flame_lua.h>
      #include <lua/flame_api.h>
      static int l_twice(lua_State *L) {
        lua_getfield(L, LUA_REGISTRYINDEX, "flame.api");
        const flame_api *f = (const flame_api *)lua_touserdata(L, -1);
        if (!f || !FLAME_HAS(f, add)) return luaL_error(L, "no flame");
        flame_tensor *x = f->lua_get(L, 1), *y = f->add(x, x);
        f->lua_push(L, y);
        f->free(y);
        return 1;
      }
      int luaopen_twice(lua_State *L) { lua_pushcfunction(L, l_twice); return 1; }
    ]]
    source:close()
    if not (header "lua5.4/lua.h") then return pending "needs liblua5.4-dev" end
    compile(("-fPIC -shared -I/usr/include/lua5.4 %s/twice.c -o %s/twice.so")
      :format(folder, folder))
    local out = sh(([[LUA_CPATH='%s/?.so;%s/?.so' lua5.4 -e '
      local twice = require "twice"
      print(pcall(twice))
      local flame = require "flame"
      print(twice(flame.tensor { 1, 2 }):sum():item())']]):format(folder, build))
    assert.equal("false\tno flame\n6.0\n", out)
  end)
end)
