--- For specs of kernels: g++ compiles and runs a kernel's text; NVRTC compiles it, if it is there.
local flame = require "flame"

local judged = { N = 5, f64 = { dtype = "f64" } }
local N <const> = judged.N

function judged.numbers(n, shift)
  local list = {}
  for i = 1, n do list[i] = math.floor(4096 * math.sin(1.3 * i + shift)) / 4096 end
  return list
end

function judged.row(n, shift) return flame.tensor(judged.numbers(n, shift), judged.f64) end

local has_gxx <const> = os.execute "g++ --version >/dev/null 2>&1"
local GXX <const> = "g++ -std=c++17 -w -O0 -ffp-contract=off"
-- The C library's headers are most of what g++ reads. In a run of tools/test one process compiles
-- them for all: g++ takes judged.hh.gch in this folder for judged.hh.
local folder = os.getenv "SPEC_FOLDER"

local function compiler()
  if not folder then return GXX .. " -I spec/kernel" end
  local kept = folder .. "/judged.hh.gch"
  local there = io.open(kept)
  if there then there:close()
  else
    os.execute(("o=$(mktemp %s) && %s -x c++-header spec/kernel/judged.hh -o $o && mv $o %s"):format(
      folder .. "/XXXXXX", GXX, kept))
  end
  return ("%s -I %s -I spec/kernel"):format(GXX, folder)
end

-- Nothing of the C++ library is called, which ld would read for as long as g++ compiles.
local LIBRARIES <const> = "-nodefaultlibs -lm -lc -lgcc"

--- The results of k compiled by g++, for each of 'calls': C expressions, the arguments before y and
--- n. 'before' declares arrays in main. Returns nil if there is no g++.
function judged.values(text, calls, before)
  local name = os.tmpname()
  local f = assert(io.open(name .. ".cpp", "w"))
  f:write("#include \"judged.hh\"\n", text, "\n",
    "int main() {\n", before, "double y[", N, "];\n")
  for _, call in ipairs(calls) do
    f:write("for (double &v : y) v = 0;\nfor (int t = 0; t < 32; t++) { threadIdx.x = t; k(", call,
      ", y, ", N, "); }\nfor (double v : y) printf(\"%.17g \", v);\nprintf(\"\\n\");\n")
  end
  f:write("}\n")
  f:close()
  local lines
  if has_gxx then
    assert(os.execute(("%s -o %s.out %s.cpp %s"):format(compiler(), name, name, LIBRARIES)),
      "g++ does not compile " .. name .. ".cpp")
    lines = {}
    for l in io.popen(name .. ".out"):lines() do
      local list = {}
      for v in l:gmatch("%S+") do list[#list + 1] = tonumber(v) end
      lines[#lines + 1] = list
    end
  end
  for _, ending in ipairs { "", ".cpp", ".out" } do os.remove(name .. ending) end
  return lines
end

function judged.array(name, list)
  for i, v in ipairs(list) do list[i] = ("%.17g"):format(v) end
  return ("const double %s[] = {%s};\n"):format(name, table.concat(list, ", "))
end

function judged.near(got, want, what)
  for i, v in ipairs(want) do
    assert(math.abs(got[i] - v) <= 1e-12 * (1 + math.abs(v)),
      ("%s: element %d is %.17g, g++ has %.17g"):format(what, i, got[i], v))
  end
end

local plain = flame.kernel("__global__ void k(const float *x, float *y) { y[0] = x[0]; }")
local has_nvrtc = plain:report().registers > 0
-- Whether a wrong access stops the kernel with a message: a GPU without checks would be lost.
judged.stops = flame.default_device() == "cpu" or (os.getenv "FLAME_CHECK" or ""):find "bounds"

--- On the CPU: checks that the texts of the kernel and its adjoint compile, if there is NVRTC.
function judged.compiles(k)
  if flame.default_device() ~= "cpu" then return end
  local report = k:report()
  assert((report.registers > 0) == has_nvrtc, "the kernel does not compile")
  assert(not report.adjoint.refusal, report.adjoint.refusal)
  assert((report.adjoint.registers > 0) == has_nvrtc, "its adjoint does not compile")
end

--- Checks kernel k of one row, f64, whose source is 'text': its values are those of g++; if 'body',
--- the part of the text that differs from case to case, reads x[i], its gradient is right and its
--- texts compile. proof: spec/kernel/kernel_proof.lua.
function judged.row_is_right(k, text, body, proof)
  local right = judged.values(text, { "x" }, judged.array("x", judged.numbers(N, 1)))
  local x = judged.row(N, 1)
  if right then judged.near(k(x, N):totable(), right[1], body) end
  if not body:find("x[i]", 1, true) then return end
  proof.check(function(v) return k(v, N) end, { x })
  judged.compiles(k)
end

return judged
