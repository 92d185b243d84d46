--- What the text of a kernel goes through before it is parsed: macros, literals, and names that
-- hide others. Each case is a kernel of x and y, of 4 elements each, and what y is for x = 1, 2,
-- 3, 4. Runs on the default device.
local flame = require "flame"
local helper = require "spec.support.helper"

local function run(text, body)
  local k = flame.kernel { source = text .. [[
    __global__ void k(const float *x, float *y, int n) {
      int i = threadIdx.x;
      if (i < n) { ]] .. body .. " }\n}", block = { 32 } }
  return k(flame.tensor { 1, 2, 3, 4 }, 4):totable()
end

local function same(want, text, body) assert.same(want, run(text, body)) end

describe("a kernel's macros", function()
  it("are expanded where another one ends with their name", function()
    same({ 4, 6, 8, 10 }, [[
      #define PAIR(a, b) (2 * ((a) + (b)))
      #define ALSO PAIR
      #define SAME(f) f
    ]], "y[i] = i % 2 ? ALSO(x[i], 1.f) : SAME(PAIR)(x[i], 1.f);")
    same({ 2, 3, 4, 5 }, [[
      #define MORE(a) ((a) + 1.f)
      #define STEP(v, f) { v = f(v); }
      #define ROUND STEP
    ]], "float v = x[i]; ROUND(v, MORE); y[i] = v;")
  end)

  it("are not expanded in what they made themselves", function()
    same({ 3, 5, 7, 9 }, [[
      __device__ float twice(float v) { return 2.f * v; }
      #define twice(v) (twice(v) + 1.f)
    ]], "y[i] = twice(x[i]);")
    same({ 11, 12, 13, 14 }, [[
      struct Plus { float v; __device__ Plus operator()(float b) const { return Plus{v + b}; } };
      __device__ Plus f(float v) { return Plus{v}; }
      #define f(v) f
    ]], "y[i] = f(0)(x[i])(10.f).v;")
  end)

  it("of compilers, of the C library and of PyTorch's headers are there from the start", function()
    same({ 1, 1, 1, 1 }, "", "y[i] = -__FLT_MAX__ < x[i] && __DBL_MAX__ > 1e300 && __INT_MAX__ == INT_MAX;")
    same({ 1, 1, 1, 1 }, "", "y[i] = (UINT64_C(0xffffffffffffffff) >> 63) * (INT64_C(1) << 40 > 0);")
    same({ 2, 4, 6, 8 }, "C10_HOST_DEVICE inline float twice(float v) { return 2.f * v; }\n",
      "CUDA_KERNEL_ASSERT(x[i] > 0.f); y[i] = twice(x[i]);")
    local squares = flame.kernel { block = { 32 }, grid = { 1 }, source = [[
      #include <ATen/ATen.h>
      template <typename T> C10_LAUNCH_BOUNDS_1(64) __global__ void squares(const T *x, T *y, int n) {
        CUDA_KERNEL_LOOP(i, n) { y[i] = x[i] * x[i]; }
      }]] }
    local x = flame.arange(100.0)
    x.requires_grad = true
    local y = squares(x, 100)
    y:sum():backward()
    assert.equal(100 * 100, y[100]:item())
    assert.equal(2 * 100, x.grad[100]:item())
  end)
end)

describe("a kernel's head", function()
  it("may have a macro with arguments before its name", function()
    local k = flame.kernel { block = { 32 }, source = [[
      #define BOUNDS(n) __launch_bounds__(n)
      template <typename T> __global__ void BOUNDS(64) twice(const T *x, T *y, int n) {
        int i = threadIdx.x;
        if (i < n) y[i] = 2 * x[i];
      }]] }
    assert.same({ 2, 4 }, k(flame.tensor { 1, 2 }, 2):totable())
  end)
end)

describe("a kernel's literals", function()
  it("of the host may go on in the next line, be long, raw, or wrong", function()
    for _, text in ipairs {
        '"a\\n\\\n  -m mode {\\n"', '"\\e[31m { \\q %d"', '"' .. ("{"):rep(5000) .. '"',
        'R"(a "quoted" { text)"', 'R"end(x)" { ( )end"' } do
      same({ 1, 2, 3, 4 }, "inline void help() { printf(" .. text .. "); exit(1); }\n",
        "y[i] = x[i];")
    end
  end)

  it("keep the lines of what follows", function()
    local why = helper.message(function()
      run('inline void help() { printf("a\\n\\\n b\\n"); puts(R"(\n\n)"); }\n', "y[i] = lost;")
    end)
    assert.truthy(why:find("line 7", 1, true), why)
  end)

  it("initialise arrays of characters", function()
    same({ 97, 98, 99, 0 }, "", 'const char t[] = "abc"; y[i] = t[i];')
    same({ 4 + 97, 4 + 98, 4 + 99, 4 }, '__device__ const char t[] = "abc";\n',
      "y[i] = t[i] + sizeof(t);")
    same({ 8 + 97, 8 + 98, 8, 8 }, '__constant__ char t[8] = "a" "b";\n',
      "y[i] = t[i] + sizeof(t);")
    same({ 122, 98, 99, 0 }, "", 'char t[] = "abc"; char u[2] = "z"; t[0] = u[0]; y[i] = t[i];')
  end)
end)

describe("a kernel's names", function()
  it("of enumerations are found behind a variable of that name", function()
    same({ 2, 3, 4, 5 }, "enum side { left, right };\n",
      "int side = side::right; y[i] = x[i] + side;")
  end)

  it("of members say what they initialise", function()
    same({ 12, 22, 32, 42 }, [[
      struct V { float a, b = 5.f; int c[2]; float d; };
      struct U { int a; float d; };
      __constant__ U v = { .d = 2.f };
    ]], "V w = { .a = x[i], .c = { 1, 4 }, .d = 1.f }; y[i] = w.a * (w.b + w.c[0] + w.c[1]) + v.d;")
    local why = helper.message(function()
      run("struct V { float a, b; };\n", "V w = { .b = x[i], .a = 1.f }; y[i] = w.a;")
    end)
    assert.truthy(why:find("'.a' is no member that follows", 1, true), why)
  end)

  it("of operators may be a friend's that is defined later", function()
    same({ 0.5, 1, 1.5, 2 }, [[
      class Part {
       public:
        __host__ __device__ Part(int d) : d(d) {}
        __host__ __device__ friend float operator/(float a, const Part &p);
       private:
        int d;
      };
      __host__ __device__ inline float operator/(float a, const Part &p) { return a / p.d; }
    ]], "Part p(2); y[i] = x[i] / p;")
  end)

  it("of traits tell the type that two have in common", function()
    same({ 2.5, 3.5, 4.5, 5.5 }, "#include <type_traits>\n",
      "std::common_type_t<int, float> v = 1.5f; typename std::common_type<char, int>::type one = 257; y[i] = x[i] + v + (one == 257) - 1;")
  end)
end)

describe("a condition of #if", function()
  local BEFORE <const> = [[
    #define YES defined(THERE)
    #define ASKS(name) defined(name)
    #define SAME(x) x
    #define THERE
  ]]
  local function value(condition)
    return run(BEFORE .. "#if " .. condition .. "\n#define Q 1\n#else\n#define Q 0\n#endif\n",
      "y[i] = Q;")[1]
  end

  for condition, want in pairs {
    ["-1 > 0u"] = 1, ["-1 / 2u > 5"] = 1, ["-1 % 10u == 5"] = 1, ["5u - 6 > 0"] = 1,
    ["(0 ? -1 : 0u) < 1"] = 1, ["(1 ? -1 : 0u) > 0"] = 1, ["(1 || 0u) - 2 < 0"] = 1,
    ["!0u - 2 < 0"] = 1, ["(1u == 1) - 2 < 0"] = 1, ["-1 >> 63 == -1"] = 1,
    ["(-1 >> 1u) < 0"] = 1, ["~0u >> 63 == 1"] = 1, ["0xffffffff == -1"] = 0,
    ["0xffffffffffffffff > 0"] = 1, ["-2147483648 < 0"] = 1, ["9223372036854775807 + 1 < 0"] = 1,
    ["'\\377' < 0"] = 1, ["1'000 == 0b1111101000"] = 1, ["not 0 and 1"] = 1, ["1, 0"] = 0,
    ["0 && 1 / 0"] = 0, ["1 || 1 % 0"] = 1, ["1 ? 2 : 1 / 0"] = 1, ["0 ? 1 << 64 : 0"] = 0,
    ["YES"] = 1, ["ASKS(NOT_THERE)"] = 0, ["SAME(defined(THERE))"] = 1, ["__LINE__ == 5"] = 1,
    ["defined(__LINE__)"] = 1, ["defined(__has_include)"] = 1, ["__has_include(<cmath>)"] = 1,
    ["__has_attribute(always_inline) && __has_cpp_attribute(nodiscard) >= 201603"] = 1,
    ['__has_include("nothing.h")'] = 0, ["!__has_include(<no/thing.h>) && 1"] = 1,
  } do
    it("is decided as in C++: " .. condition, function() assert.equal(want, value(condition)) end)
  end

  for _, condition in ipairs { "1 / 0", "1 << 64", "1 << -1", "ASKS(THERE", "__COUNTER__ == 0",
      "__has_attribute(strange)", "__has_attribute", "defined", "defined(THERE",
      "__has_include <cmath>", "__has_include(cmath)", "1 = 1", "" } do
    it("is refused if it has no value: " .. condition, function()
      local why = helper.message(value, condition)
      assert(why:find("line 5", 1, true), why)
    end)
  end

  it("is not read after a branch that was taken, and may ask for one name", function()
    same({ 3, 3, 3, 3 }, "#if 1\n#define Q 3\n#elif 1 / 0\n#define Q 4\n#endif\n", "y[i] = Q;")
    same({ 5, 5, 5, 5 }, [[
      #define THERE
      #ifdef NOT_THERE
      #define Q 3
      #elifndef THERE
      #define Q 4
      #elifdef THERE
      #define Q 5
      #else
      #define Q 6
      #endif
    ]], "y[i] = Q;")
  end)

  it("knows its line, which macros paste to names", function()
    same({ 2, 3, 4, 5 }, [[
      #define PASTE(a, b) a##b
      #define NAME(a, line) PASTE(a, line)
    ]], "float NAME(v, __LINE__) = x[i]; y[i] = v5 + (__LINE__ == 5);")
  end)
end)
