--- A kernel's text and options can not read files of the machine, on any device, except headers of
--- the toolkit and files in folders that the caller names.
local flame = require "flame"
local helper = require "spec.support.helper"

local KERNEL = "\n__global__ void k(float *x, int n) { int i = threadIdx.x; if (i < n) x[i] = i; }\n"

-- A text that our parser does not accept (asm), so that NVRTC gets it, if there is one.
local ASKS = KERNEL:gsub("x%[i%] = i", 'asm("brkpt;"); x[i] = i')

--- The message that flame.kernel raises (NVRTC's), or our parser's refusal and the kernel.
local function said(text, extra)
  local spec = { source = text }
  for name, v in pairs(extra or {}) do spec[name] = v end
  local ok, k = pcall(flame.kernel, spec)
  if not ok then return k end
  return tostring(k:report().refusal), k
end

local PATH, folder
setup(function()
  folder = os.tmpname()
  os.remove(folder)
  assert(os.execute("mkdir '" .. folder .. "'"))
  PATH = folder .. "/secret.h"
  local f = assert(io.open(PATH, "w"))
  f:write("hidden_word here;\n#define SECRET 5.f\n")
  f:close()
end)
teardown(function() os.execute("rm -r '" .. folder .. "'") end)

describe("a kernel of a file", function()
  it("has the file's lines in its messages", function()
    local f = assert(io.open(folder .. "/k.cu", "w"))
    f:write((KERNEL:gsub("= i;", "= 5.f;")))
    f:close()
    local k = flame.kernel_file(folder .. "/k.cu", { inout = { "x" }, block = { 32 } })
    assert.equal(5, k(flame.zeros(3, { device = "cpu" })):totable()[2])
    f = assert(io.open(folder .. "/bad.cu", "w"))
    f:write("__global__ void k(const float *x, float *y, int n) {\n  y[0] = x[9];\n}\n")
    f:close()
    local bad = flame.kernel_file(folder .. "/bad.cu")
    local x = flame.ones(3, { device = "cpu" })
    local why = helper.message(function() return bad(x):totable() end)
    assert.truthy(why:find("line 2 (" .. folder .. "/bad.cu:2)", 1, true), why)
  end)
  it("may begin with a mark of UTF-8", function()
    local f = assert(io.open(folder .. "/mark.cu", "w"))
    f:write("\xEF\xBB\xBF/* x */" .. (KERNEL:gsub("= i;", "= 5.f;")))
    f:close()
    local k = flame.kernel_file(folder .. "/mark.cu", { inout = { "x" }, block = { 32 } })
    assert.is_nil(k:report().refusal)
    assert.equal(5, k(flame.zeros(3)):totable()[2])
  end)
  it("that is not there raises with its name", function()
    local why = helper.message(flame.kernel_file, folder .. "/none.cu")
    assert.truthy(why:find("kernel_file", 1, true) and why:find("none.cu", 1, true), why)
  end)
end)

describe("a kernel's text", function()
  local WAYS = {
    plain = '#include "@"\n', angle = "#include <@>\n", digraph = '%:include "@"\n',
    trigraph = '??=include "@"\n', splice = '#inc\\\nlude "@"\n',
    second = '#\\\ninclude\\\n "@"\n', carriage = '#inc\\\r\nlude "@"\r\n',
    blank = '#inc\\ \nlude "@"\n', double = '#inc\\\\\n\nlude "@"\n',
    triple = '#inc\\\\\\\n\n\nlude "@"\n', tri = '#inc??/\nlude "@"\n',
    comment = '/**/ # /* a */ include /* b */ "@"\n', lines = '/*\n*/ #include "@"\n',
    name = '#include <@\\\n>\n', macro = '#define Q "@"\n#include Q\n',
    call = '#define Q(x) x\n#include Q("@")\n',
    raw = 'const char *s = R"("/*)";\n#include "@"\n/* */',
    next = '#include_next "@"\n', import = '#import "@"\n',
    embed = "__constant__ char s[] = {\n#embed \"@\"\n};\n",
    pragma = '_Pragma("include \\"@\\"")\n', up = "#include <cuda/../../../../../../..@>\n",
    tab = '\t#\tinclude\t"@"\n', form = '\f#include "@"\n',
  }
  for name, way in pairs(WAYS) do
    it("prints no line of a file: " .. name, function()
      local text = way:gsub("@", (PATH:gsub("%%", "%%%%"))) .. ASKS
      local why, k = said(text)
      assert.is_nil(why:find("hidden_word", 1, true), why)
      if k then
        assert.is_nil(k:source():find("hidden_word", 1, true))
        assert.is_nil(why:find("cannot open", 1, true), why)
      end
    end)
  end

  it("is read with digraphs as with the signs that they stand for", function()
    local text = '%:include "' .. PATH .. '"\n%:define JOIN(a, b) a %:%: b\n' ..
      'extern "C" __global__ void k(const float *x, float *y) <% float first = x[0]; y[0] = JOIN(fir, st) + 1; %>'
    assert.same({ 4, 0 }, flame.kernel(text)(flame.tensor({ 3, 5 }, { device = "cpu" })):totable())
  end)

  it("does not learn by __has_include what there is", function()
    for _, ask in ipairs { '__has_include("%s")', "__has_include(<%s>)",
        '__has_include /**/ ( "%s" )', '__has_\\\ninclude("%s")' } do
      local text = "#if " .. ask .. "\n#error file_is_there\n#endif\n" .. ASKS
      assert.is_nil(said(text:format(PATH)):find("file_is_there", 1, true))
    end
  end)

  it("does not learn by a name that a macro pastes or a header has", function()
    local macros = "#define CAT(a, b) a##b\n#define CAT3(a, b, c) a##b##c\n#define PRE __has_inc\n"
    for _, ask in ipairs { "CAT(__has_inc, lude)", "CAT(_, _has_include)",
      "CAT3(__, has, _include)", "CAT3(__has, _inc, lude)", "CAT(__has_include, _next)",
      "CAT(__has_, embed)", "_CCCL_HAS_INCLUDE", "CAT(_CCCL_HAS_, INCLUDE)" } do
      local text = macros .. "#if " .. ask .. '("%s")\n#error file_is_there\n#endif\n' .. ASKS
      assert.is_nil(said(text:format(PATH)):find("file_is_there", 1, true), ask)
      local given = macros .. '#if ASK("%s")\n#error file_is_there\n#endif\n' .. ASKS
      assert.is_nil(said(given:format(PATH), { options = { "-DASK=" .. ask } })
        :find("file_is_there", 1, true), ask)
    end
    local plain, k = said("#include <stdint.h>\n#define JOIN(a, b, c) a##b##c\n#define CALL(f, e) JOIN(f, __, e)(1)\n" ..
      "__device__ int has__include(int i) { return i; } // _has\n"
      .. ASKS:gsub("= i", "= CALL(has, include)"))
    assert.truthy(k, plain)
  end)

  it("says no other file's name for its own line", function()
    local why = said('#line 1 "' .. PATH .. '"\nint a = ;\n' .. ASKS)
    assert.is_nil(why:find("hidden_word", 1, true))
  end)

  it("may include headers of the toolkit, and keeps its lines", function()
    local why, k = said("#include <cuda_fp16.h> // halves\n#include <stdint.h>\n#include <cmath>\n" ..
      ASKS:gsub("x%[i%] = i", "x[i] = __half2float(__float2half(i)) + sqrtf(INT_MAX)"))
    assert.truthy(k, why)
  end)

  it("may include what lies in a folder that is named", function()
    local _, k = said('#include "secret.h"' .. ASKS, { include = { folder } })
    if not k then                                  -- NVRTC has read the file and refuses it
      assert.truthy(_:find("hidden_word", 1, true) or _:find("secret.h", 1, true), _)
    end
  end)

  it("is compiled with what a file in a named folder holds now", function()
    local function holds(line)
      local f = assert(io.open(folder .. "/now.h", "w"))
      f:write(line, "\n")
      f:close()
      return said('#include "now.h"\n' .. ASKS, { include = { folder } })
    end
    local _, k = holds "#define NOW 1"
    assert.truthy(k, _)
    if k:report().registers == 0 then return end   -- there is no NVRTC
    local why = holds "__device__ int f() { return changed; }"
    assert.truthy(why:find("\"changed\" is undefined", 1, true), why)
    _, k = holds "#define NOW 2"
    assert.truthy(k, _)
  end)
end)

describe("a file that a kernel includes", function()
  local function write(name, text)
    local f = assert(io.open(folder .. "/" .. name, "w"))
    f:write(text)
    f:close()
  end
  setup(function()
    for _, name in ipairs { "top", "top/sub", "more", "out" } do
      assert(os.execute(("mkdir '%s/%s'"):format(folder, name)))
    end
    write("top/a.h", '#pragma once\n#include <vector>\n#include "sub/b.h"\n#define SQ(v) ((v) * (v))\n'
      .. "std::vector<float> host_of(int n);\nstruct Box { double lo, hi; };\n"
      .. "static __device__ double within(Box b, double v) {\n"
      .. "  return twice(fmin(fmax(v, b.lo), b.hi));\n}\n")
    write("top/sub/b.h", '#ifndef B\n#define B\n#include "c.h"\n#include "../a.h"\n'
      .. "template <typename T> __device__ T twice(T v) { return v * (T)TWO; }\n#endif\n")
    write("top/sub/c.h", "#define TWO 2\n")
    write("more/body.inc", "y[i] += within(b, x[i]);\n")
    write("more/loop.h", '#include "loop.h"\n')
    write("more/open.h", "#if 1\nint a;\n")
    write("more/bad.h", "\n\n__device__ float bad(float v) { goto end; end: return v; }\n")
    write("out/o.h", "#define OUT 1\n")
  end)
  local HEAD <const> = '#include "a.h"\n#include <sub/b.h>\n#if 0\n#include "none.h"\n#endif\n'
  local BODY <const> = "__global__ void k(Box b, const double *x, double *y, int n) {\n"
    .. "int i = threadIdx.x;\nif (i >= n) return;\ny[i] = SQ(x[i]);\n"
  local function kernel(text, include)
    for i, name in ipairs(include) do include[i] = folder .. "/" .. name end
    return flame.kernel { source = text, include = include, block = { 4 } }
  end

  it("is read on the CPU, and differentiated", function()
    local text = HEAD .. BODY .. '#include "body.inc"\n#include "body.inc"\n}'
    local k = kernel(text, { "top/", "more" })
    assert.is_nil(k:report().refusal)
    local box, x = { lo = 1.5, hi = 3.5 }, flame.tensor({ 1, 2, 3, 4 }, { dtype = "f64" })
    assert.same({ 7, 12, 21, 30 }, k(box, x):totable())
    assert.is_true(flame.gradcheck(function(v) return k(box, v) end, { x }, { order = 2 }))
  end)
  it("of a program that is saved is in its text", function()
    local k = kernel(HEAD .. BODY .. '#include "body.inc"\n}', { "top", "more" })
    local x = flame.tensor({ 1, 2, 3, 4 }, { dtype = "f64" })
    local path = folder .. "/saved.flame"
    flame.export(path, function(v) return k({ lo = 1.5, hi = 3.5 }, v) end, { x })
    assert(os.execute("mv '" .. folder .. "/top' '" .. folder .. "/gone'"))
    local ok, y = pcall(function() return flame.program(path)(x):totable() end)
    assert(os.execute("mv '" .. folder .. "/gone' '" .. folder .. "/top'"))
    assert(ok, y)
    assert.same({ 4, 8, 15, 23 }, y)
  end)
  it("is told if no folder has it, where a compiler would look for it", function()
    local why = helper.message(kernel, '#include "math.h"\n#include "lost.h"' .. KERNEL, { "top" })
    assert.matches("line 2.*#include \"lost.h\": no folder of 'include' has that file", why)
    for _, text in ipairs { '#if 0\n#include "lost.h"\n#endif\n', '#include "math.h"\n',
      "#include <vector>\n" } do
      assert.is_nil(kernel(text .. KERNEL, { "top" }):report().refusal)
    end
  end)
  it("is not read from outside of the folders", function()
    local READ <const> = "#ifdef OUT\n#error read\n#endif"
    for _, name in ipairs { "../out/o.h", folder .. "/out/o.h", "sub/../../out/o.h" } do
      local k = kernel('#include "' .. name .. '"\n' .. READ .. KERNEL, { "top" })
      assert.is_nil(k:report().refusal)
    end
    helper.raises("#error read", kernel, '#include "../out/o.h"\n' .. READ .. KERNEL,
      { "top", "out" })
  end)
  it("has its mistakes told with the line of the #include", function()
    for name, reason in pairs { loop = "include each other without", open = "#if without #end" } do
      local ok, got = pcall(kernel, "\n#include <" .. name .. ".h>" .. KERNEL, { "more" })
      local why = tostring(got)
      assert(not ok and why:find("line 2 ", 1, true) and why:find(reason, 1, true), why)
    end
    local text = '\n#include "bad.h"\n' .. KERNEL:gsub("= i;", "= bad(i);")
    local ok, got = pcall(kernel, text, { "more" })
    local why = ok and got:report().refusal or tostring(got)
    assert(why:find("line 2 ", 1, true) and why:find("labels are outside", 1, true)
      or why:find("goto", 1, true), why)
  end)
end)

describe("options of a kernel", function()
  it("come from a list, on the CPU too", function()
    local out = folder .. "/times"
    for _, o in ipairs { "--foo", "--time=" .. out, "-time=" .. out,
      "--include-path=/", "-I/", "-I", "--pre-include=" .. PATH, "-include" .. PATH,
      "--device-time-trace=" .. out, "-DA\n#include </etc/passwd>", "-D", "-DA B=1",
      "--fdevice-time-trace=" .. out, "-Xptxas=-v", "--std=x", "", "@" .. PATH } do
      helper.raises("kernel: options: ", flame.kernel, { source = KERNEL, options = { o } })
    end
    assert.is_nil(io.open(out))
  end)

  it("set macros and how floats are computed", function()
    for _, list in ipairs { { "-DN=2" }, { "-D", "N=2" }, { "--define-macro=N=2" },
      { "-DN=2", "-UM", "--use_fast_math",
      "-std=c++17", "-maxrregcount=32", "-fmad=false" } } do
      local k = flame.kernel {
        source = "__global__ void k(float *y, int n) { if (threadIdx.x < n) y[threadIdx.x] = N; }",
        options = list, shape = { 1 } }
      assert.equal(2, k(1):item())
    end
  end)

  it("are at most 16, and strings", function()
    local many = {}
    for i = 1, 17 do many[i] = "-DA" .. i end
    for _, list in ipairs { many, { 1 }, { {} }, { true } } do
      assert.is_false(pcall(flame.kernel, { source = KERNEL, options = list }))
    end
    for _, wrong in ipairs { "x", 1, true } do
      assert.is_false(pcall(flame.kernel, { source = KERNEL, options = wrong }))
      assert.is_false(pcall(flame.kernel, { source = KERNEL, include = wrong }))
    end
  end)
end)

describe("the place of a kernel's text", function()
  it("is looked for in regular files alone", function()
    local pipe = folder .. "/pipe"
    if not os.execute("mkfifo '" .. pipe .. "' 2>/dev/null") then
      return pending("no mkfifo here")
    end
    for _, name in ipairs { pipe, "/dev/zero", "/dev/null", folder, PATH, "/nowhere" } do
      local k = assert(load("return (...).kernel[[" .. KERNEL .. "]]", "@" .. name))(flame)
      assert.same({ 0, 1 }, k:with { shape = { 2 } }(2):totable())
    end
  end)
end)

describe("the text for a GPU", function()
  it("has constants whatever words stand in comments and literals", function()
    for _, text in ipairs {
      "// typedef #include\n__global__ void k(float *x, int n) { if (n) x[0] = INFINITY; }",
      "/* namespace std #include <x> */ typedef float real;\n__global__ void k(real *x, int n) { int32_t i = 0; if (n) x[i] = M_PI; }",
      "// template <int N> __global__ std::min __launch_bounds__(1) __half\n" ..
        "__global__ void k(float *x, int n) { uint64_t i = 0; if (n) x[i] = FLT_MAX; }",
      'typedef unsigned int uint32_t;\n__global__ void k(float *x, int n) { uint32_t i = 0; if (n) x[i] = 1.f; }',
    } do
      local r = flame.kernel(text):report()
      assert.is_nil(r.refusal)
      if r.compiled ~= nil and flame.kernel(KERNEL):report().registers >= 0 then
        assert.truthy(r.registers >= 0, text)
      end
    end
  end)

  -- A text that the CPU accepts without a header must compile with NVRTC too: the library adds the
  -- header, or prints the text from the parsed tree.
  local plain = "__global__ void k(const float *x, float *y, int n) {\n  int i = threadIdx.x;\n  "
  local function compiles(text)
    local has_nvrtc = flame.kernel(plain .. "y[i] = x[i]; }"):report().registers > 0
    local report = flame.kernel(text):report()
    assert(not report.refusal, report.refusal)
    assert((report.registers > 0) == has_nvrtc, text)
  end

  it("has types that the CPU takes without their headers", function()
    for t in ("half __half nv_bfloat16 __nv_bfloat16 bfloat16 bf16 uint uchar ushort ulong size_t "
        .. "ssize_t ptrdiff_t int8_t uint64_t intptr_t"):gmatch "%S+" do
      compiles(plain:gsub("float %*x", t .. " *x") .. t .. " v = x[i]; y[i] = (float)v; }")
      compiles(plain .. t .. " v = (" .. t .. ")x[i]; y[i] = (float)v; }")
    end
    for _, t in ipairs { "half2", "__half2", "nv_bfloat162", "uchar4", "ulong2", "longlong2" } do
      compiles(plain:gsub("float %*x", t .. " *x") .. t .. " v = x[i]; y[i] = (float)v.x; }")
    end
  end)

  it("has values and functions that the CPU takes without their headers", function()
    for _, e in ipairs { "__half2float(__float2half(x[i]))",
        "__bfloat162float(__float2bfloat16(x[i]))", "make_half2(__float2half(x[i]), half(1.f)).x",
        "__hadd(__float2half(x[i]), __float2half(1.f))",
        "CUDART_INF_F", "CUDART_PI", "CHAR_BIT", "SHRT_MAX", "UINT32_MAX", "ULLONG_MAX",
        "SIZE_MAX", "INFINITY", "__FLT_MAX__", "__INT_MAX__", "UINT64_C(3) + INT32_C(4)",
        "(float2{.x = x[i], .y = 1.f}).x",
        "M_PI", "FLT_MAX", "INT_MAX", "__builtin_popcount(i)", "cuda::std::min(x[i], 1.f)",
        "CUDA_VERSION", "CUDART_VERSION >= 9000 ? __CUDACC_VER_MAJOR__ : 2",
        "cuCabsf(make_cuFloatComplex(x[i], 1.f)) + sizeof(cuComplex)", "cufftComplex{x[i], 1.f}.y",
        "std::max(x[i], 1.f)", "std::numeric_limits<float>::max()", "sizeof(uint)" } do
      compiles(plain .. "y[i] = (float)(" .. e .. "); }")
    end
  end)

  it("has the libraries that the CPU takes without their headers", function()
    for _, body in ipairs {
      "using namespace nvcuda; wmma::fragment<wmma::accumulator, 16, 16, 16, float> c; "
        .. "wmma::fill_fragment(c, x[0]); wmma::store_matrix_sync(y, c, 16, wmma::mem_row_major);",
      "nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> c; "
        .. "nvcuda::wmma::fill_fragment(c, x[0]); half h = x[i]; y[i] = c.x[0] + (float)h;",
      "auto b = cooperative_groups::this_thread_block(); b.sync(); y[b.thread_rank()] = x[0];",
      "typedef cub::BlockReduce<float, 32> R; __shared__ R::TempStorage t; y[i] = R(t).Sum(x[i]);",
      "glm::vec3 a(x[0]); y[i] = glm::dot(a, a);",
      "assert(n > 0); printf(\"%d\", n);", "register float r = x[i]; y[i] = r;",
    } do
      compiles(plain .. body .. "}")
    end
    for _, before in ipairs { "", "#include <mma.h>\n" } do
      compiles(before .. plain .. "using namespace nvcuda; "
        .. "wmma::fragment<wmma::accumulator, 16, 16, 16, float> c; wmma::fill_fragment(c, x[0]); "
        .. "wmma::store_matrix_sync(y, c, 16, wmma::mem_row_major); }")
    end
  end)

  it("leaves names that the text defines alone", function()
    for _, before in ipairs { "typedef unsigned uint;\n", "using half = float;\n",
        "__device__ float half(float v) { return v / 2; }\n", "#define uint unsigned\n",
        "struct uchar { float v; };\n", "struct cuComplex { float r, i; };\n",
        "typedef float2 cuComplex;\n__device__ float cuCabsf(cuComplex z) { return z.x; }\n",
        "typedef __nv_bfloat16 bf16;\n" } do
      compiles(before .. plain .. "int ushort = 2; y[i] = x[i] * ushort; }")
    end
  end)

  it("has what is asked of namespace std, however often", function()
    local list = {}
    for i = 1, 60 do list[i] = "s += std::numeric_limits<float>::epsilon() * std::min<int>(i, 2);" end
    local body = "float s = 0.f; float t = x[i]; " .. table.concat(list)
      .. "std::swap(s, t); std::pair<float, int> p = std::make_pair(t, i); "
      .. "y[i] = std::is_same_v<float, float> ? s + p.first : 0.f; }"
    compiles(plain .. body)
    assert.equal(2, flame.kernel { source = plain .. body, block = { 1 }, grid = { 1 } }(
      flame.full({ 1 }, 2), 1):item())
  end)
end)
