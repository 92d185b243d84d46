--- A device that is not there: a folder whose libraries are all the fake one (spec/c/fake_cuda.c),
-- by links, so that they have one state.
local interpreter = dofile("spec/support/interpreter.lua")
local build = interpreter:match "^(.*)/[^/]*$"
local usual <const> = { "libcuda.so.1", "libnvrtc.so.13", "libcublasLt.so.13" }

--- The folder, which the caller removes. more: names of further libraries.
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

--- What a script without ' writes there; it must succeed. environment: "NAME=value …", which goes
-- before what is usual. The collector's steps are as helper.lua says.
local function run(folder, script, environment)
  local pipe = assert(io.popen(("FLAME_DEVICE=cuda FLAME_CACHE_DIR=off FAKE_CUDA= "
    .. "FLAME_TEST_MACHINE=%s %s '%s' -e 'flame.internal.collector_waits(0)' -e '%s' 2>&1"):format(
    folder, environment or "", interpreter, script)))
  local text = pipe:read "a"
  assert(pipe:close(), text)
  return text
end

return { new = new, remove = remove, run = run }
