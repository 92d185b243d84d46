-- flame-lua --jupyter: what the notebook kernel answers. spec/support/jupyter_run.lua stands in for
-- its sockets; where Python has Jupyter's client, that is used too (spec/peer/jupyter.py).
local interpreter = dofile("spec/support/interpreter.lua")

local files = dofile "spec/support/files.lua" ()
local folder, write = files.name, files.write
teardown(files.remove)
local function output_of(command)
  local pipe <close> = assert(io.popen(command .. " 2>&1"))
  return pipe:read("a")
end
local config = '{"ip": "127.0.0.1", "transport": "tcp", "shell_port": 1, "iopub_port": 2, '
  .. '"stdin_port": 3, "control_port": 4, "hb_port": 5, "key": "secret", '
  .. '"signature_scheme": "hmac-sha256"}'

--- The messages that the notebook kernel sends in answer to a list of requests.
local function said(requests)
  local list = {}
  for i, r in ipairs(requests) do
    list[i] = ("{ %q, %q, %s }"):format(r[1], r[2], r[3] and ("%q"):format(r[3]) or "nil")
  end
  local file = write("requests.lua", "return {" .. table.concat(list, ",\n") .. "}")
  return output_of(("'%s' spec/support/jupyter_run.lua '%s' '%s'"):format(interpreter,
    write("connection.json", config), file))
end
local function executed(...)
  local requests = {}
  for i, code in ipairs { ... } do
    requests[i] = { "execute_request", ('{"code": "%s", "silent": false}'):format(
      code:gsub("\n", "\\n"):gsub('"', '\\"')) }
  end
  return said(requests)
end
local function has(text, screen)
  assert(screen:find(text, 1, true), "\n'" .. text .. "' is not in:\n" .. screen)
end

describe("flame-lua --jupyter", function()
  it("binds what the file says, tells what it is, and ends when asked", function()
    local out = said { { "kernel_info_request", "{}" } }
    has("router tcp://127.0.0.1:1, router tcp://127.0.0.1:4, router tcp://127.0.0.1:3, "
      .. "pub tcp://127.0.0.1:2", out)
    assert.matches("^4 status { \"execution_state\": \"busy\" }\n1 kernel_info_reply .-"
      .. "\"protocol_version\": \"5.3\".-\n4 status { \"execution_state\": \"idle\" }\n", out)
    has('1 shutdown_reply { "restart": false, "status": "ok" }', out)
  end)
  it("runs entries, keeps locals, shows the value at a cell's end", function()
    local out = executed("local x = flame.tensor { 1, 2 }\nx * 2", "x:sum():item()",
      "for i = 1, 2 do print(i, 'a') end", "1 +", "error('boom')", "_, nil")
    has('4 execute_input { "code": "local x', out)
    assert.matches("4 execute_result { \"data\": { \"text/plain\": \"2 4  shape %(2%)", out)
    has('"text/plain": "3.0" }, "execution_count": 2', out)
    has('4 stream { "name": "stdout", "text": "1\\u0009a\\n2\\u0009a\\n" }', out)
    has('4 error { "ename": "Error", "evalue": "stdin:1: unexpected symbol', out)
    has('"evalue": "stdin:1: boom"', out)
    assert.matches('1 execute_reply {[^\n]*"execution_count": 5[^\n]*"status": "error"', out)
    has('"text/plain": "3.0\\u0009nil"', out)
  end)
  it("shows plots as pictures, commands as output, other bytes than UTF-8 as '?'", function()
    local out = executed("flame.plot.line { 1, 2 }", ":help topk", "'a\\\\xff'")
    has('"image/svg+xml": "<svg ', out)
    has('"text": "topk(x: T, k: int', out)
    has('"text/plain": "a?"', out)
  end)
  it("completes, explains, and knows what is not complete", function()
    local out = said { { "complete_request", '{"code": "é = flame.cumsu", "cursor_pos": 15}' },
      { "inspect_request", '{"code": "flame.topk(x", "cursor_pos": 8}' },
      { "is_complete_request", '{"code": "for i = 1, 3 do"}' },
      { "is_complete_request", '{"code": "x = 1\\nx"}' },
      { "is_complete_request", '{"code": "x = = 1"}' }, { "history_request", "{}" } }
    assert.matches('"cursor_end": 15, "cursor_start": 10, "matches": %[ "cumsum" %]', out)
    has("The k largest (or smallest) along an axis", out)
    has('"status": "incomplete"', out)
    has('"status": "complete"', out)
    has('"status": "invalid"', out)
    has('1 history_reply { "history": [], "status": "ok" }', out)
  end)
  it("takes no message that is not signed with the key, and goes on after one that is none", function()
    local out = said { { "execute_request", '{"code": "os.exit(9)"}', ("0"):rep(64) },
      { "execute_request", "[" }, { "nothing_request", "{}" }, { "execute_request", "{}" } }
    assert.is_nil(out:find("execute_input", 1, true))
    has('1 execute_reply { "ename": "Error"', out)
    has("shutdown_reply", out)
  end)
  it("says what is wrong with its file, and is installed for a user", function()
    local command = "'%s' spec/support/jupyter_run.lua '%s' /dev/null"
    has("has no key", output_of(command:format(interpreter, write("c.json",
      (config:gsub('"key": "secret", ', ""))))))
    has("c.json: ", output_of(command:format(interpreter, write("c.json", config:sub(1, 50)))))
    has("No such file", output_of(command:format(interpreter, folder .. "/none.json")))
    has("--jupyter needs the file of a connection",
      output_of(("'%s' --jupyter"):format(interpreter)))
    has("wrote ", output_of(("XDG_DATA_HOME='%s' '%s' --jupyter install"):format(folder,
      interpreter)))
    local f <close> = assert(io.open(folder .. "/jupyter/kernels/flame-lua/kernel.json"))
    has('"--jupyter",\n    "{connection_file}"', f:read("a"))
  end)
  it("serves Jupyter's own client", function()
    local python = os.getenv("PYTHON") or "python3"
    if not os.execute(python .. " -c 'import jupyter_client, ctypes; ctypes.CDLL(\"libzmq.so.5\")'"
      .. " >/dev/null 2>&1") then
      pending("no jupyter_client, or no libzmq.so.5")
      return
    end
    has("all as expected", output_of(("%s spec/peer/jupyter.py '%s'"):format(python, interpreter)))
  end)
end)
