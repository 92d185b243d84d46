--- flame-lua --jupyter: the messages of a kernel of Jupyter (messaging protocol 5.3).
--- src/cli/jupyter.c has sockets and calls; entries, completion and help are those of the prompt.
local flame = require "flame"
local internal = flame.internal
local objects = require "flame.base.objects"
local json = require "flame.models.json"

local DELIMITER <const> = "<IDS|MSG>"
local FLUSH_BYTES <const>, FLUSH_SECONDS <const> = 4096, 0.1
local kernel = {}                     -- native, prompt, config, sockets, session, count

local function list(t) return setmetatable(t or {}, json.list) end

-- s as valid UTF-8, which JSON needs: in an invalid text each byte above 127 becomes '?'.
local function clean(s) return utf8.len(s) and s or (s:gsub("[\128-\255]", "?")) end

-- ---- messages -----------------------------------------------------------------------------------

local function masked(key, byte)
  local whole = key .. ("\0"):rep(64 - #key)
  return (whole:gsub(".", function(c) return string.char(c:byte() ~ byte) end))
end

-- HMAC-SHA256 (RFC 2104), in hexadecimal.
local function signature(text)
  local key, sha = kernel.config.key, kernel.native.sha256
  if key == "" then return "" end
  if #key > 64 then key = sha(key) end
  local digest = sha(masked(key, 0x5c) .. sha(masked(key, 0x36) .. text))
  return (digest:gsub(".", function(c) return ("%02x"):format(c:byte()) end))
end

local function now() return os.date("!%Y-%m-%dT%H:%M:%S.000000Z") end

local sent = 0
-- Sends a message of type 'kind' as an answer to 'parent'; ids: the receivers.
local function send(socket, ids, kind, content, parent)
  sent = sent + 1
  local header = { msg_id = ("%s-%d"):format(kernel.session, sent), session = kernel.session,
    username = "kernel", date = now(), msg_type = kind, version = "5.3" }
  local parts = {}
  for i, part in ipairs { header, parent and parent.header or {}, {}, content } do
    parts[i] = json.write(part)
  end
  local frames = table.move(ids, 1, #ids, 1, {})
  frames[#frames + 1] = DELIMITER
  frames[#frames + 1] = signature(table.concat(parts))
  table.move(parts, 1, #parts, #frames + 1, frames)
  kernel.native.send(socket, frames)
end

local function publish(kind, content)
  send(kernel.sockets.iopub, { kind }, kind, content, kernel.parent)
end

-- The message in the frames of a socket: { ids, header, content }; nil if it is incomplete, or if
-- its signature was not made with the key of this kernel.
local function parsed(frames)
  local at = 1
  while frames[at] and frames[at] ~= DELIMITER do at = at + 1 end
  if #frames < at + 5 then return nil end
  local texts = table.concat(frames, "", at + 2, at + 5)
  if signature(texts) ~= frames[at + 1] then return nil end
  local header, content = json.read(frames[at + 2]), json.read(frames[at + 5])
  if type(header) ~= "table" or type(content) ~= "table" then return nil end
  return { ids = table.move(frames, 1, at - 1, 1, {}), header = header, content = content }
end

-- ---- what entries print -------------------------------------------------------------------------

local waiting, bytes, flushed = {}, 0, 0
local function flush()
  flushed = internal.io_now()
  if bytes == 0 then return end
  local text = clean(table.concat(waiting))
  waiting, bytes = {}, 0
  publish("stream", { name = "stdout", text = text })
end

local function write(text)
  waiting[#waiting + 1] = text
  bytes = bytes + #text
  if bytes >= FLUSH_BYTES or internal.io_now() - flushed >= FLUSH_SECONDS then flush() end
end

local function take_output()
  _G.print = function(...)
    local texts = table.pack(...)
    for i = 1, texts.n do texts[i] = tostring(texts[i]) end
    write(table.concat(texts, "\t") .. "\n")
  end
  rawset(io, "write", function(...)
    for _, text in ipairs { ... } do write(tostring(text)) end
    return io.stdout
  end)
end

-- ---- entries ------------------------------------------------------------------------------------

-- The text of a cell; if an expression follows its statements at the end, with 'return' before it.
local function with_return(text)
  local environment = kernel.prompt.environment()
  local function loads(s) return load(s, "=stdin", "t", environment) end
  if text:find("^%s*:") or loads("return " .. text) or loads(text) then return text end
  local at = #text + 1
  repeat
    at = text:sub(1, at - 1):match("^.*()\n")
    local head, tail = text:sub(1, at or 0), text:sub((at or 0) + 1)
    if at and tail:find("%S") and loads("return " .. tail) and loads(head) then
      return head .. "return " .. tail
    end
  until not at
  return text
end

-- The values as a notebook shows them: a table MIME type -> content.
local function forms_of(values)
  local show = require "flame.prompt.show"
  local columns, texts, several = kernel.prompt.size(), {}, false
  for i = 1, values.n do
    texts[i] = show.value(kernel.prompt, values[i], columns)
    several = several or texts[i]:find("\n", 1, true)
  end
  local forms = { ["text/plain"] = clean(table.concat(texts, several and "\n" or "\t")) }
  local plot, class = package.loaded["flame.plot"], getmetatable(values[1])
  if plot and class and (class == plot.Plot or class == objects.classes.Grid) then
    forms["image/svg+xml"] = values[1]:svg()
  end
  return forms
end

local function mistake(message)
  local lines = list()                -- without the functions that called the entry
  message = message:gsub("\n\t%[C%]: in %a+ 'call'\n\tflame/tools/jupyter.*$", "")
  for line in (clean(message) .. "\n"):gmatch("(.-)\n") do lines[#lines + 1] = line end
  return { ename = "Error", evalue = lines[1], traceback = lines }
end

local function execute(content)
  local prompt, quiet = kernel.prompt, content.silent == true
  if type(content.code) ~= "string" then error("execute_request: no code", 0) end
  if not quiet then
    kernel.count = kernel.count + 1
    publish("execute_input", { code = content.code, execution_count = kernel.count })
  end
  local chunk, why = prompt.load(with_return(content.code))
  local values = chunk and table.pack(kernel.native.call(chunk)) or { false, why, n = 2 }
  local forms, trouble
  if values[1] then
    prompt.show()
    values = table.pack(table.unpack(values, 2, values.n))
    if values.n > 0 and values[1] ~= nil then rawset(prompt.environment(), "_", values[1]) end
    if values.n > 1 or values[1] ~= nil then
      -- tensors may be evaluated here, which can fail
      local ok, found = kernel.native.call(forms_of, values)
      if ok then forms = found else values = { false, found } end
    end
  end
  if values[1] == false and not forms and values[2] then
    trouble = mistake(prompt.failed(tostring(values[2])))
  end
  flush()
  if trouble then
    publish("error", trouble)
    trouble.status, trouble.execution_count = "error", kernel.count
    return trouble
  end
  if forms and not quiet then
    publish("execute_result", { data = forms, metadata = {}, execution_count = kernel.count })
  end
  return { status = "ok", execution_count = kernel.count, payload = list(), user_expressions = {} }
end

-- ---- requests -----------------------------------------------------------------------------------

local function before_cursor(content)
  local at = utf8.offset(content.code, content.cursor_pos + 1) or #content.code + 1
  return content.code:sub(1, at - 1), content.code:sub(at)
end

local answers = {}          -- type of a request -> function(content) that returns the reply

function answers.kernel_info_request()
  return { status = "ok", protocol_version = "5.3", implementation = "flame-lua",
    implementation_version = kernel.native.version, banner = "flame-lua, " .. _VERSION,
    language_info = { name = "lua", version = _VERSION:match("%S+$"), mimetype = "text/x-lua",
      file_extension = ".lua", pygments_lexer = "lua", codemirror_mode = "lua" },
    help_links = list() }
end

answers.execute_request = execute

function answers.complete_request(content)
  local before = before_cursor(content)
  local names, partial = require("flame.prompt.complete").matches(kernel.prompt, before)
  local from = content.cursor_pos - (utf8.len(partial) or #partial)
  return { status = "ok", matches = list(names), cursor_start = from,
    cursor_end = content.cursor_pos, metadata = {} }
end

function answers.inspect_request(content)
  local told = require "flame.tools.help"
  local before, after = before_cursor(content)
  local word = before:match("[%w_.:]*$") .. after:match("^[%w_]*")
  local name = told.name((word:gsub("^flame%.", ""))) or told.name(word:match("[%w_]*$"))
  return { status = "ok", found = name ~= nil, metadata = {},
    data = name and { ["text/plain"] = clean((told.text(name))) } or {} }
end

function answers.is_complete_request(content)
  local text = content.code
  if text:find("^%s*:") or load("return " .. text) then return { status = "complete" } end
  local chunk, why = load(with_return(text), "=stdin")
  if chunk then return { status = "complete" } end
  return why:find("<eof>$") and { status = "incomplete", indent = "  " } or { status = "invalid" }
end

function answers.history_request() return { status = "ok", history = list() } end
function answers.comm_info_request() return { status = "ok", comms = {} } end
function answers.interrupt_request() return { status = "ok" } end
function answers.shutdown_request(content)
  kernel.ended = true
  return { status = "ok", restart = content.restart == true }
end

local function handle(socket, message)
  local kind = message.header.msg_type
  local answer = answers[kind]
  if not answer then return end
  kernel.parent = message
  publish("status", { execution_state = "busy" })
  local ok, reply = pcall(answer, message.content)
  if not ok then
    reply = mistake(tostring(reply))
    reply.status = "error"
  end
  send(socket, message.ids, (kind:gsub("_request$", "_reply")), reply, message)
  publish("status", { execution_state = "idle" })
end

-- ---- the session --------------------------------------------------------------------------------

local function read_config(path)
  local file <close> = assert(io.open(path, "rb"))
  local config, why = json.read(file:read("a"))
  if not config then error(("jupyter: %s: %s"):format(path, why), 0) end
  for _, name in ipairs { "ip", "key", "transport", "shell_port", "control_port", "stdin_port",
      "iopub_port", "hb_port" } do
    if config[name] == nil then error(("jupyter: %s has no %s"):format(path, name), 0) end
  end
  return config
end

local function serve(native, path)
  local config = read_config(path)
  local function address(port)
    local ipc = config.transport == "ipc"
    return ("%s://%s%s%d"):format(config.transport, config.ip, ipc and "-" or ":", config[port])
  end
  kernel.native, kernel.config, kernel.count = native, config, 0
  kernel.session = ("%x-%x"):format(os.time(), math.random(0))
  kernel.sockets = { shell = native.bind("router", address "shell_port"),
    control = native.bind("router", address "control_port"),
    stdin = native.bind("router", address "stdin_port"),
    iopub = native.bind("pub", address "iopub_port") }
  native.heartbeat(address "hb_port")
  take_output()
  kernel.prompt = require "flame.prompt"
  kernel.prompt.width, kernel.prompt.size = native.width, native.size
  kernel.prompt.start(setmetatable({}, { __index = _G, __newindex = _G }), false)
  while not kernel.ended do
    local socket = native.wait(kernel.sockets.control, kernel.sockets.shell)
    local message = socket and parsed(native.receive(socket))
    if message then handle(socket, message) end
  end
end

-- Registers the kernel with Jupyter: writes kernel.json into the user's folder of kernels.
local function install(program)
  local data = os.getenv "XDG_DATA_HOME" or (os.getenv "HOME" or "") .. "/.local/share"
  local folder = data .. "/jupyter/kernels/flame-lua"
  internal.io_make_folder(folder)
  local file <close> = assert(io.open(folder .. "/kernel.json", "w"))
  assert(file:write(json.write { argv = list { program, "--jupyter", "{connection_file}" },
    display_name = "flame-lua", language = "lua", interrupt_mode = "signal" }))
  print("wrote " .. folder .. "/kernel.json")
end

return { serve = serve, install = install }
