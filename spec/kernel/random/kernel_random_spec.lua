--- Random programs of the kernel language (spec/kernel/users/random.lua): forward and reverse mode
--- must agree on the default device; on a GPU, values and derivatives must also agree with those on
--- the CPU. FLAME_FUZZ: number of programs, FLAME_FUZZ_SEED: first seed.
local flame = require "flame"
local random = dofile("spec/kernel/users/random.lua")

local count = tonumber(os.getenv "FLAME_FUZZ") or 40
local first = tonumber(os.getenv "FLAME_FUZZ_SEED") or 1
local device = flame.zeros(1).device

describe("random kernels", function()
  it(("agree in both modes%s, %d of them"):format(device == "cpu" and "" or " and with the CPU",
    count), function()
    for seed = first, first + count - 1 do
      local p = random.program(seed)
      local r = random.run(p, device)
      local wrong = random.agree(p, r)
      if not wrong and device ~= "cpu" then wrong = random.compare(p, random.run(p, "cpu"), r) end
      assert(not wrong, ("seed %d: %s\n%s"):format(seed, wrong, p.source))
    end
  end)
end)
