--- A fake GPU for specs: a folder in which the names of all CUDA libraries are links to one fake
--- library (spec/c/fake_cuda.c), so that they share its state.
local interpreter = dofile("spec/support/interpreter.lua")
local build = interpreter:match "^(.*)/[^/]*$"
local usual <const> = { "libcuda.so.1", "libnvrtc.so.13", "libcublasLt.so.13" }

--- Makes the folder and returns its path; the caller removes it. more: further names of libraries.
local function new(more)
  local folder = os.tmpname()
  assert(os.execute("rm " .. folder .. " && mkdir " .. folder))
  for _, list in ipairs { usual, more or {} } do
    for _, name in ipairs(list) do
      assert(os.execute(("ln -s \"$(realpath '%s/spec/fake_cuda.so')\" %s/%s"):format(build, folder,
        name)))
    end
  end
  return folder
end

local function remove(folder) os.execute("rm -rf " .. folder) end

--- Runs a script, which must succeed and contain no ', with the libraries of this folder, and
--- returns its output. environment: "NAME=value …", after the usual variables. As in helper.lua,
--- the collector does not postpone its steps.
local function run(folder, script, environment)
  local pipe = assert(io.popen(("FLAME_DEVICE=cuda FLAME_CACHE_DIR=off FAKE_CUDA= "
    .. "FLAME_TEST_MACHINE=%s %s '%s' -e 'flame.internal.collector_waits(0)' -e '%s' 2>&1"):format(
    folder, environment or "", interpreter, script)))
  local text = pipe:read "a"
  assert(pipe:close(), text)
  return text
end

return { new = new, remove = remove, run = run }
