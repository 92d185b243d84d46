-- The prompt in a terminal that users have: tmux, with its keys, its paste and its screen. Other
-- specs of the prompt use spec/c/pty.c as the terminal (prompt_spec.lua).
local terminal = dofile "spec/support/terminal.lua"
local interpreter, output_of, folder = terminal.interpreter, terminal.output_of, terminal.folder

-- A tmux server for this spec alone, which ends with it.
local tmux = ("TMUX= tmux -S '%s/socket' -f /dev/null "):format(folder)
local function run(command) return output_of(tmux .. command .. " 2>&1") end
local function screen() return run("capture-pane -p -S -") end

--- The screen once it shows the text.
local function shows(text)
  local start = os.time()
  while true do
    local now = screen()
    if now:find(text, 1, true) then return now end
    if os.time() - start > 30 then error("'" .. text .. "' never came:\n" .. now) end
  end
end
local function keys(...)
  for _, key in ipairs { ... } do run("send-keys '" .. key .. "'") end
end
local function typed(text)
  run(("send-keys -l -- '%s'"):format(text:gsub("'", "'\\''")))
end

describe("the prompt in tmux", function()
  if output_of("tmux -V 2>&1"):find("^tmux ") == nil then
    it("runs where tmux is", function() pending("no tmux") end)
    return
  end
  setup(function()
    run(("new-session -d -x 80 -y 24 \"env -u LUA_INIT -u NO_COLOR HOME=%s TERM=screen-256color %s\""):format(
      folder, interpreter))
  end)
  teardown(function()
    run("kill-server")
    os.execute("rm -rf " .. folder)
  end)

  it("says where help is, and shows values", function()
    shows(":help lists what the prompt can do")
    typed "x = flame.tensor({{1, 2}, {3, 4}}, {requires_grad = true})"
    keys "Enter"
    typed "x * 10"
    keys "Enter"
    shows "> x * 10\n10 20\n30 40\nshape (2, 2), f32"
  end)
  it("completes with Tab and lists at the second", function()
    typed "x:cumpr"
    keys "Tab"
    shows "> x:cumprod"
    keys("C-u")
    typed "x:tril"
    keys("Tab", "Tab")
    shows "tril_"
    keys "C-c"
    shows "> x:tril^C\n"
  end)
  it("takes a paste as one entry, and keeps its local", function()
    run("set-buffer -- 'local total = 0\nfor i = 1, 4 do\n  total = total + i\nend\n'")
    run("paste-buffer -p")
    shows "> local total = 0\n>> for i = 1, 4 do\n>>   total = total + i\n>> end"
    keys "Enter"
    typed "total"
    keys "Enter"
    shows "> total\n10\n"
  end)
  it("draws an entry again when the window has another size", function()
    typed(("-- %s the end"):format(("word "):rep(12)))
    run("resize-window -x 40 -y 20")
    shows "the end"
    keys "C-c"
    run("resize-window -x 80 -y 24")
    typed "y = (x * 2):sum()"
    keys "Enter"
    typed ":why y"
    keys "Enter"
    shows "it depends on 1 leaf that requires grad"
  end)
  it("goes back in the history, and ends with Ctrl-D", function()
    keys("Up", "Up")
    shows "> y = (x * 2):sum()"
    keys("C-c", "C-d")
    local start = os.time()
    while run("list-sessions"):find("windows") and os.time() - start < 30 do end
    assert.is_nil(run("list-sessions"):find("windows"))
  end)
end)
