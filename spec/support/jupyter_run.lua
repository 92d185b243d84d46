-- Runs flame.tools.jupyter without libzmq, for spec/cli/jupyter_spec.lua. arg[1]: a connection
-- file; arg[2]: a file of Lua that returns the requests, a list of {type, content as JSON, a wrong
-- signature or nil}. Each message that the kernel sends is printed as "socket type content". A
-- simple hash stands in for SHA-256.
local requests = dofile(arg[2])
local out = io.stdout

local function hash(text)
  local sum = 7
  for i = 1, #text do sum = (sum * 131 + text:byte(i)) % 2147483647 end
  return ("%032d"):format(sum)
end
-- The signature of a message: HMAC (RFC 2104) for keys of up to 64 bytes, without library code.
local function signed(key, text)
  local function pad(byte)
    local bytes = {}
    for i = 1, 64 do bytes[i] = string.char((key:byte(i) or 0) ~ byte) end
    return table.concat(bytes)
  end
  local digest = hash(pad(0x5c) .. hash(pad(0x36) .. text))
  return (digest:gsub(".", function(c) return ("%02x"):format(c:byte()) end))
end

local names, at = {}, 0
local native = { version = "0", sha256 = hash, width = function(s) return utf8.len(s) or #s end,
  size = function() return 100, 40 end, heartbeat = function() end }
function native.bind(kind, address)
  names[#names + 1] = kind .. " " .. address
  return #names
end
function native.wait()
  at = at + 1
  return 1
end
function native.receive()
  local r = requests[at] or { "shutdown_request", '{"restart": false}' }
  local parts = { '{"msg_id": "' .. at .. '", "msg_type": "' .. r[1] .. '"}', "{}", "{}", r[2] }
  return { "who", "<IDS|MSG>", r[3] or signed("secret", table.concat(parts)), table.unpack(parts) }
end
function native.send(socket, frames)
  local kind = frames[4]:match('"msg_type": "([%w_]+)"')
  assert(frames[2] == "<IDS|MSG>" and frames[3] == signed("secret", table.concat(frames, "", 4)))
  out:write(socket, " ", kind, " ", (frames[7]:gsub("\n%s*", " "):gsub(" $", "")), "\n")
end
function native.call(f, ...)
  return xpcall(f, debug.traceback, ...)
end

require("flame.tools.jupyter").serve(native, arg[1])
out:write(table.concat(names, ", "), "\n")
