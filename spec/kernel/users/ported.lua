--- Kernels with the forms that large programs hand over their memory in: parameters and pointers of
-- arrays, memory seen as words of another size, volatile memory, constants that the host sets.

local function each(n, f)
  local y = {}
  for i = 0, n - 1 do y[i] = f(i) end
  return y
end

return {
  { "parameters that are arrays of arrays", [[
__device__ float corner(const float (*m)[3], int i) { return m[i][0] * m[i][2]; }
__global__ void rows(const float a[4][2][3], const float (*__restrict__ b)[3], float c[][3],
                     float (*d)[2]) {
  const int i = threadIdx.x;
  const float (*row)[3] = a[i];
  c[i][0] = corner(row, 1) * (*b)[1];
  c[i][1] = row[0][1] * a[i][1][1];
  c[i][2] = b[i][0] + (*(b + i))[2];
  ++row;
  d[i][1] = (*row)[1] * b[i][1];
  d[i][0] = (float)(sizeof(*d) / sizeof(float));
}]], block = { 4 }, grid = { 1 }, shape = { 12 },
    args = function(t) return { t.f { 4, 2, 3 }, t.f { 12 } } end,
    want = function(a, b)
      local c, d = {}, each(12, function() return 0 end)
      for i = 0, 3 do
        c[3 * i] = a[6 * i + 3] * a[6 * i + 5] * b[1]
        c[3 * i + 1] = a[6 * i + 1] * a[6 * i + 4]
        c[3 * i + 2] = b[3 * i] + b[3 * i + 2]
        d[2 * i], d[2 * i + 1] = 2, a[6 * i + 4] * b[3 * i + 1]
      end
      return c, d
    end },

  { "memory cast to rows, vectors in arrays", [[
typedef float mat[2][2];
__device__ void turn(mat m, float v) { m[0][1] = v * m[0][0]; m[1][0] = v - m[1][1]; }
__global__ void cast_rows(const float4 (*p)[2], const float *x, float *y, int n) {
  const int i = threadIdx.x;
  if (i >= n) return;
  const float (*x2)[2] = (const float (*)[2])x;
  float (*y2)[2] = reinterpret_cast<float (*)[2]>(y);
  mat m = {{x2[i][0], 0.f}, {0.f, x2[i][1]}};
  turn(m, p[i][0].y * p[i][1].w);
  y2[i][0] = m[0][1] * m[1][0];
  y2[i][1] = (*(const float (*)[2])(x + 2 * i))[0] * p[0][i & 1].x;
}]], block = { 4 }, grid = { 1 }, shape = { 8 },
    args = function(t) return { t.f { 4, 2, 4 }, t.f { 8 }, 4 } end,
    want = function(p, x)
      local y = {}
      for i = 0, 3 do
        local v = p[8 * i + 1] * p[8 * i + 7]
        y[2 * i] = v * x[2 * i] * (v - x[2 * i + 1])
        y[2 * i + 1] = x[2 * i] * p[4 * (i % 2)]
      end
      return y
    end },

  { "planes of a box, more elements than a byte counts", [[
__global__ void planes(const float u[2][16][18], float v[][16][18]) {
  const int x = threadIdx.x, y = blockIdx.x, z = blockIdx.y;
  if (x < 1 || x > 16 || y < 1 || y > 14) return;
  v[z][y][x] = u[z][y][x] * (u[1 - z][y - 1][x] - u[z][y][x + 1]);
}]], block = { 18 }, grid = { 16, 2 }, order = 1,
    args = function(t) return { t.f { 2, 16, 18 } } end,
    want = function(u)
      return each(576, function(e)
        local x, y, z = e % 18, e // 18 % 16, e // 288
        if x < 1 or x > 16 or y < 1 or y > 14 then return 0 end
        return u[e] * (u[288 * (1 - z) + 18 * (y - 1) + x] - u[e + 1])
      end)
    end },
}
