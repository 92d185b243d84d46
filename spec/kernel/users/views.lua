--- Kernels as in larger CUDA sources: objects that hold pointers, structs of several types in
--- memory, specialisations of functions.

local lists = dofile("spec/kernel/users/lists.lua")
local each, sum = lists.each, lists.sum

local view = [=[
template <typename T> class View {
  T *data_; int rows_, cols_;
public:
  __device__ View(T *data, int rows, int cols) : data_(data), rows_(rows), cols_{cols} {}
  __device__ T &at(int r, int c) const { return data_[r * cols_ + c]; }
  __device__ T *row(int r) const { return data_ + r * cols_; }
  __device__ View from(int r) const { return View(row(r), rows_ - r, cols_); }
  __device__ int cols() const { return cols_; }
};
]=]

local function bytes(...)
  local list = {}
  for _, text in ipairs { ... } do
    for i = 1, #text do list[#list + 1] = text:byte(i) end
  end
  return list
end

local particle = "<fi4dBBBxxxxx"

return {
  { "views of rows of a table", view .. [=[
__global__ void mix(const float *x, const float *w, float *y, int rows, int cols) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  View<const float> a(x, rows, cols), tail = a.from(r), b = tail;
  View<float> out = View<float>(y, rows, cols);
  b = a;
  const float *last = b.row(rows - 1);
  for (int c = 0; c < cols; ++c)
    out.at(r, c) = tail.at(0, c) * *(w + c) + sinf(b.at((r + 1) % rows, c)) * last[c];
}]=],
    args = function(t) return { t.f { 4, 3 }, t.f { 3 }, 4, 3 } end,
    want = function(x, w, rows, cols)
      return each(rows * cols, function(i)
        local r, c = i // cols, i % cols
        return x[i] * w[c] + math.sin(x[(r + 1) % rows * cols + c]) * x[(rows - 1) * cols + c]
      end)
    end },

  { "two rows in a struct that are swapped, stepped and counted", [=[
struct Pair { const float *a, *b; int n; };
__device__ Pair turned(Pair p) { return { p.b, p.a, p.n }; }
__device__ float dot(Pair p) {
  float s = 0.f;
  while (p.n-- > 0) s += *p.a++ * *p.b++ * (p.n + 1);
  return s;
}
__global__ void pairs(const float *x, const float *w, float *y, int n) {
  int i = threadIdx.x;
  if (i >= n) return;
  Pair p = { x + i, w, n - i };
  if (i & 1) p = turned(p);
  float s = dot(p);
  p.a += 1; p.a--;
  y[i] = s + 2.f * p.a[0] * p.a[0];
}]=],
    args = function(t) return { t.f { 5 }, t.f { 5 } } end,
    want = function(x, w)
      return each(5, function(i)
        local s = sum(5 - i, function(j) return x[i + j] * w[j] * (5 - i - j) end)
        local a = i % 2 == 1 and w[0] or x[i]
        return s + 2 * a * a
      end)
    end },

  { "a stack and a variable behind pointers of a struct", [=[
struct Stack { float *at; float *top; int n; };
__device__ void push(Stack &s, float v) { s.at[s.n++] = v; *s.top = fmaxf(*s.top, v); }
__global__ void stacks(const float *x, float *y, int n) {
  int i = threadIdx.x;
  if (i >= n) return;
  float room[8], most = -10.f;
  Stack s; s.at = room + 1; s.top = &most; s.n = 0;
  for (int j = 0; j < n; ++j) if (j != i) push(s, x[j] * x[i]);
  float all = 0.f;
  for (int j = 0; j < s.n; ++j) all += s.at[j] * s.at[j] * (j + 1);
  y[i] = all + 3.f * most + room[1];
}]=],
    args = function(t) return { t.f { 5 } } end,
    want = function(x)
      return each(5, function(i)
        local list, most, all = {}, -10, 0
        for j = 0, 4 do if j ~= i then list[#list + 1] = x[j] * x[i] end end
        for j, v in ipairs(list) do most, all = math.max(most, v), all + v * v * j end
        return all + 3 * most + list[1]
      end)
    end },

  { "pointers of a struct that may be null", [=[
struct Options { const float *bias = nullptr; const float *scale; float gain{2.f}; };
__device__ float apply(const Options &o, float v, int i) {
  if (o.scale) v *= o.scale[i];
  return o.bias != nullptr ? v + o.bias[i] : v * o.gain;
}
__global__ void options(const float *x, const float *w, float *y, int n) {
  int i = threadIdx.x;
  if (i >= n) return;
  Options o, q{w, x + 1};
  o.scale = w;
  y[i] = apply(o, x[i], i) + apply(q, x[i], i % (n - 1));
}]=],
    args = function(t) return { t.f { 4 }, t.f { 4 } } end,
    want = function(x, w)
      return each(4, function(i)
        local k = i % 3
        return 2 * x[i] * w[i] + x[i] * x[k + 1] + w[k]
      end)
    end },

  { "specialisations without their arguments", [=[
struct Pair { float a, b; };
template <typename T> __device__ T twice(T v) { return v + v; }
template <> __device__ Pair twice(Pair v) { return { v.a * v.a, 2.f * v.b }; }
template <typename T, int N> __device__ T total(const T *p, T (&first)[N]) { return p[0] + first[0]; }
template <> __device__ float total(const float *p, float (&first)[2]) { return p[1] * first[1]; }
template <typename T> __device__ void put(T *p, int i, T v) { p[i] = v; }
template <> __device__ void put(float *p, int i, float v) { p[i] = v + 1.f; }
template __device__ int twice(int);
template __device__ void put<double>(double *, int, double);
template <typename T> struct Box { T v; };
template struct Box<float>;
__global__ void special(const float *x, float *y, int n) {
  int i = threadIdx.x;
  if (i >= n) return;
  Pair p = twice(Pair{x[i], x[0]});
  float both[2] = { x[i], 3.f }, three[3] = { 1.f, 2.f, 3.f };
  put<float>(y, i, p.a + twice(p.b) + total(x, both) + total(x, three) + twice(i));
}]=],
    args = function(t) return { t.f { 4 } } end, single = true,
    want = function(x)
      return each(4, function(i)
        return x[i] ^ 2 + 4 * x[0] + x[1] * 3 + x[0] + 1 + 2 * i + 1
      end)
    end },

  { "structs of several types in memory", [=[
struct Particle { float m; int id; double e; unsigned char tag[3]; };
__global__ void step(const Particle *p, const float *w, float *y, Particle *q, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const Particle v = p[i], *next = p + (i + 1) % n;
  y[i] = w[i] * p[i].m * (float)v.e + next->id + v.tag[1];
  Particle *to = &q[i];
  to->m = 2.f * v.m;
  to->id = -(*next).id;
  q[i].e = next->e + 1.;
  for (int k = 0; k < 3; ++k) to->tag[k] = v.tag[2 - k] + k;
  q[i].id += 1;
}]=],
    single = true, inout = { "q" }, shape = { 2 },
    args = function(t)
      local from = bytes(particle:pack(1.5, -3, 2.25, 1, 2, 3),
        particle:pack(0.5, 1000000, -1, 4, 5, 6))
      return { t.tensor(from, "u8"), t.f { 2 }, t.tensor(bytes(("\0"):rep(48)), "u8"), 2 }
    end,
    want = function(_, w)
      local to = bytes(particle:pack(3, -999999, 0, 3, 3, 3), particle:pack(1, 4, 3.25, 6, 6, 6))
      return { [0] = w[0] * 1.5 * 2.25 + 1000000 + 2, -w[1] * 0.5 - 3 + 5 },
        each(48, function(i) return to[i + 1] end)
    end },
}
