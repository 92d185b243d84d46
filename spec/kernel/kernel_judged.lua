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

--- A block of C++ that calls k with each of these arguments and prints a line of y after each.
local function calling(calls, before)
  local list = { "{\n", before, "double y[", N, "];\n" }
  for _, call in ipairs(calls) do
    list[#list + 1] = "for (double &v : y) v = 0;\n"
      .. "for (int t = 0; t < 32; t++) { threadIdx.x = t; k(" .. call .. ", y, " .. N .. "); }\n"
      .. "for (double v : y) printf(\"%.17g \", v);\nprintf(\"\\n\");\n"
  end
  list[#list + 1] = "}\n"
  return table.concat(list)
end

--- The lines that a program prints, as lists of numbers; nil if it does not compile.
local function run(program)
  local name = os.tmpname()
  local f = assert(io.open(name .. ".cpp", "w"))
  f:write("#include \"judged.hh\"\n", program)
  f:close()
  local made = os.execute(("%s -o %s.out %s.cpp %s"):format(compiler(), name, name, LIBRARIES))
  local lines = made and {}
  if made then
    for l in io.popen(name .. ".out"):lines() do
      local list = {}
      for v in l:gmatch("%S+") do list[#list + 1] = tonumber(v) end
      lines[#lines + 1] = list
    end
  end
  for _, ending in ipairs { "", ".cpp", ".out" } do os.remove(name .. ending) end
  return lines
end

--- The results of k compiled by g++, for each of 'calls': C expressions, the arguments before y and
--- n. 'before' declares arrays in main. Returns nil if there is no g++.
function judged.values(text, calls, before)
  if not has_gxx then return nil end
  return assert(run(text .. "\nint main() " .. calling(calls, before)),
    "g++ does not compile the text")
end

-- Texts whose values are asked for later: most of the time that g++ takes for one is the same for
-- sixty in one program. Each is in a namespace, so that their names do not meet.
local waiting = {}

local function compile_waiting()
  local list, parts, main = waiting, {}, {}
  waiting = {}
  for i, one in ipairs(list) do
    parts[i] = ("namespace text%d {\n%s\nstatic void judged_call() %s}\n"):format(i, one.text,
      calling(one.calls, one.before))
    main[i] = ("text%d::judged_call();\n"):format(i)
  end
  local lines = run(table.concat(parts) .. "int main() {\n" .. table.concat(main) .. "}\n")
  local count = 0
  for _, one in ipairs(list) do
    if lines then one.lines = table.move(lines, count + 1, count + #one.calls, 1, {})
    else one.lines = judged.values(one.text, one.calls, one.before) end
    count = count + #one.calls
  end
end

--- As judged.values, but returns a function that gives the results: the texts that are named before
--- the first result is asked for are compiled together, except those that speak of the global
--- namespace or to the preprocessor.
function judged.later(text, calls, before)
  local one = { text = text, calls = calls, before = before }
  local alone = text:find("#", 1, true) or text:find "namespace std"
    or (" " .. text):find "[^%w_>]::"
  if not alone then waiting[#waiting + 1] = one end
  return function()
    if not has_gxx then return nil end
    if alone then return judged.values(text, calls, before) end
    if not one.lines then compile_waiting() end
    return one.lines
  end
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

local function row_of_x() return { "x" }, judged.array("x", judged.numbers(N, 1)) end

--- What judged.row_is_right compares with, if it is to be compiled with others (judged.later).
function judged.row_later(text) return judged.later(text, row_of_x()) end

--- Checks kernel k of one row, f64, whose source is 'text': its values are those of g++; if 'body',
--- the part of the text that differs from case to case, reads x[i], its gradient is right and its
--- texts compile. proof: spec/kernel/kernel_proof.lua; later: judged.row_later(text), or nil.
function judged.row_is_right(k, text, body, proof, later)
  local right
  if later then right = later() else right = judged.values(text, row_of_x()) end
  local x = judged.row(N, 1)
  if right then judged.near(k(x, N):totable(), right[1], body) end
  if not body:find("x[i]", 1, true) then return end
  proof.check(function(v) return k(v, N) end, { x })
  judged.compiles(k)
end

return judged
