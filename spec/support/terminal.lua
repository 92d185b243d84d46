-- For specs of the interactive prompt: spec/c/pty.c runs it on an emulated terminal, types, and
-- prints what the screen shows. terminal.close() removes the folder of these runs.
local interpreter = dofile("spec/support/interpreter.lua")

local function output_of(command)
  local pipe <close> = assert(io.popen(command))
  return pipe:read("a")
end

local top = output_of("pwd"):gsub("\n", "")
if not interpreter:match("^/") then interpreter = top .. "/" .. interpreter end
local pty = interpreter:match("^(.*)/[^/]*$") .. "/spec/pty"

local folder = os.tmpname()
os.remove(folder)
assert(os.execute("mkdir -p " .. folder .. "/config/flame-lua " .. folder .. "/files"))

local function write(name, text)
  local f <close> = assert(io.open(folder .. "/" .. name, "w"))
  f:write(text)
end

local function read(name)
  local f = io.open(folder .. "/" .. name)
  if not f then return nil end
  local text = f:read("a")
  f:close()
  return text
end

--- Runs steps as spec/c/pty.c describes them and returns their output. o: cols and rows of the
--- terminal; env, arguments, home of flame-lua; first: the step before the others.
local function session(steps, o)
  o = o or {}
  write("steps", (o.first or "ready\n") .. steps .. "\n")
  local out = output_of(("cd %s/files && env -u LUA_INIT -u NO_COLOR -u XDG_STATE_HOME -u XDG_CONFIG_HOME -u LUA_INIT_5_4"
    .. " HOME=%s TERM=xterm %s %s %d %d %s %s <%s/steps 2>&1"):format(folder,
    o.home or folder .. "/home", o.env or "", pty,
    o.cols or 80, o.rows or 24, interpreter, o.arguments or "", folder))
  assert(not out:find("runtime error", 1, true) and not out:find("Sanitizer", 1, true), out)
  return out
end

--- Types lines, waiting for the prompt after each of them, and returns the screen at the end.
local function typed(lines, o)
  local steps = {}
  for i, line in ipairs(lines) do steps[i] = "send " .. line .. "\\r\nready" end
  return session(table.concat(steps, "\n") .. "\nscreen", o)
end

local function has(text, screen)
  assert(screen:find(text, 1, true), "\n'" .. text .. "' is not in:\n" .. screen)
end
local function lacks(text, screen)
  assert(not screen:find(text, 1, true), "\n'" .. text .. "' is in:\n" .. screen)
end

local terminal = { folder = folder, interpreter = interpreter, output_of = output_of, write = write,
  read = read, session = session, typed = typed, has = has, lacks = lacks }

--- A home folder without files.
function terminal.clear()
  os.execute("rm -rf " .. folder .. "/home; mkdir " .. folder .. "/home")
end

function terminal.close() os.execute("rm -rf " .. folder) end

return terminal
