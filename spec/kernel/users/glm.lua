--- Kernels with the vectors and matrices of GLM.
local each = dofile("spec/kernel/users/each.lua")

local function cross(a, b)
  return { a[2] * b[3] - a[3] * b[2], a[3] * b[1] - a[1] * b[3], a[1] * b[2] - a[2] * b[1] }
end

local function dot(a, b)
  local s = 0
  for k = 1, #a do s = s + a[k] * b[k] end
  return s
end

--- Sum of columns: m[c][r].
local function times(m, v)
  local y = {}
  for r = 1, #m[1] do
    y[r] = 0
    for c = 1, #m do y[r] = y[r] + m[c][r] * v[c] end
  end
  return y
end

local function product(a, b)
  local m = {}
  for c = 1, #b do m[c] = times(a, b[c]) end
  return m
end

local function turned(m)
  local t = {}
  for r = 1, #m[1] do
    t[r] = {}
    for c = 1, #m do t[r][c] = m[c][r] end
  end
  return t
end

return {
  { "vectors and matrices", [=[
#include <glm/glm.hpp>
#include <glm/gtc/type_ptr.hpp>
using vec2 = glm::vec<2, float>;
using vec3 = glm::vec<3, float>;
using mat3 = glm::mat<3, 3, float>;
using mat3x2 = glm::mat<3, 2, float>;
__global__ void k(const vec3 *x, const vec2 *u, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const vec3 v = x[i], w(1.5f, v.y, 2);
  mat3 m(v, w, glm::cross(v, w));
  mat3x2 J(u[i], vec2(1.f), 3.f * u[0]);
  glm::mat<2, 2, float> c = J * m * glm::transpose(J);
  c[0][1] += 0.25f;
  const vec2 a = c * u[i] - u[i] * c, b = glm::inverse(c) * vec2(v) / 2.f;
  m += glm::outerProduct(w, v) - m * 0.5f;
  const vec3 q = glm::normalize(m * v), p = -q;
  y[i] = a.x + a[1] * 0.1f + b.x * b.y + glm::dot(q, w) + glm::length(w - q) + glm::determinant(m);
  y[i] += glm::max(a.x, 0.1f) + glm::min(vec3(v.z), w).y + glm::mix(v.x, v.y, 0.25f) +
          glm::make_vec3(&x[0].x).z + p[i % 3];
}]=], shape = { 3 }, order = 1, tol = 2e-4,
    args = function(t) return { t.f { 3, 3, low = 0.2, high = 1.5 }, t.f { 3, 2 }, 3 } end,
    want = function(x, u, n)
      return each(n, function(i)
        local v = { x[3 * i], x[3 * i + 1], x[3 * i + 2] }
        local w, t = { 1.5, v[2], 2 }, { u[2 * i], u[2 * i + 1] }
        local m = { v, w, cross(v, w) }
        local J = { t, { 1, 1 }, { 3 * u[0], 3 * u[1] } }
        local c = product(product(J, m), turned(J))
        c[1][2] = c[1][2] + 0.25
        local a1, a2 = times(c, t), times(turned(c), t)
        local a, d = { a1[1] - a2[1], a1[2] - a2[2] }, c[1][1] * c[2][2] - c[2][1] * c[1][2]
        local b = { (c[2][2] * v[1] - c[2][1] * v[2]) / d / 2,
          (c[1][1] * v[2] - c[1][2] * v[1]) / d / 2 }
        local e = {}
        for k = 1, 3 do
          e[k] = {}
          for r = 1, 3 do e[k][r] = m[k][r] * 0.5 + w[r] * v[k] end
        end
        local q = times(e, v)
        local l = math.sqrt(dot(q, q))
        q = { q[1] / l, q[2] / l, q[3] / l }
        local r = { w[1] - q[1], w[2] - q[2], w[3] - q[3] }
        return a[1] + a[2] * 0.1 + b[1] * b[2] + dot(q, w) + math.sqrt(dot(r, r)) +
          dot(e[1], cross(e[2], e[3])) + math.max(a[1], 0.1) + math.min(v[3], w[2]) +
          v[1] * 0.75 + v[2] * 0.25 + x[2] - q[i % 3 + 1]
      end)
    end },

  { "integers and the smaller of two", [=[
namespace g = glm;
__global__ void k(const float *x, float *y, int n) {
  int i = threadIdx.x;
  if (i >= n) return;
  g::ivec3 z(i, 3, 2.75f);
  z += 2;
  const g::vec<4, float> v(g::vec<3, float>(z), x[i]);
  const g::mat<2, 2, float> d(x[i]);
  y[i] = z == g::ivec3(3, 5, 4) ? 100.f : v.w * v.z + d[1][1] - d[0][1] + g::clamp(x[i], -0.5f, 0.5f);
}]=], shape = { 4 }, block = { 4 }, order = 1,
    args = function(t) return { t.f { 4 }, 4 } end,
    want = function(x, n)
      return each(n, function(i)
        return i == 1 and 100 or x[i] * 4 + x[i] + math.max(math.min(x[i], 0.5), -0.5)
      end)
    end },
}
