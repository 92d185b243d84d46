--- The kernels of spec/kernel/users are parsed while an allocation fails: each is made, or raises
--- an error about memory. Every fifth allocation for some files; with `make oom` every one for all.
if require "spec.support.bare"(describe, it, "spec/memory/oom_kernels_spec.lua") then return end

local flame = require "flame"
local internal = flame.internal

local all = os.getenv "FLAME_OOM_STRIDE" ~= nil
local files = { "words", "chance", "memory", "motion", "forms", "cub" }
if all then
  files = {}
  for path in io.popen("ls spec/kernel/users/*.lua"):lines() do
    local name = path:match "([%w_]+)%.lua$"
    -- these files have no kernels, or random ones
    if not ("each run lists random"):find(name, 1, true) and not name:find "_spec$" then
      files[#files + 1] = name
    end
  end
end

--- Makes a kernel of this text, each time with another failing allocation; returns how many failed.
local function survive(name, text, first, stride)
  local k, failed = first, 0
  while true do
    local calls = internal.fail_alloc(k, false)
    local ok, e = pcall(flame.kernel, text)
    local reached = internal.fail_alloc(0) >= calls + k
    if not ok then
      failed = failed + 1
      assert(e:find("memory", 1, true) or e:find("bytes", 1, true),
        ("%s, allocation %d: %s"):format(name, k, e))
    end
    if not reached then return failed end
    k = k + stride
  end
end

describe("a failing allocation #oom", function()
  for _, file in ipairs(files) do
    it("is survived by the texts of " .. file, function()
      local failed = 0
      for i, case in ipairs(dofile("spec/kernel/users/" .. file .. ".lua")) do
        local text = case[2]
        if type(text) == "string" and pcall(flame.kernel, text) then
          failed = failed + survive(case[1], text, all and 1 or i % 5 + 1, all and 1 or 5)
          flame.kernel(text)
        end
      end
      assert(failed > 20, failed)
    end)
  end
end)
