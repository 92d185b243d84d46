--- Kernels as CUDA programmers write them (spec/users/): each gives the values of its oracle in
-- plain Lua, in f32 and f64, and has a gradient that is proven or refused with its line. On the
-- default device.
local run = dofile("spec/users/run.lua")

for _, file in ipairs { "blocks", "warps", "threads" } do
  describe("a user's kernel: " .. file .. ":", function()
    for _, case in ipairs(dofile("spec/users/" .. file .. ".lua")) do
      it(case[1] .. " gives its values", function() run.values(case) end)
      it(case[1] .. (case.refuses and " is refused a gradient" or " has its gradient"), function()
        run.gradients(case)
      end)
    end
  end)
end
