--- A case of bench/ported.lua: bodies that attract each other, tiles of them shared.
local flame, size, blocks, cases = ...

local BODIES = flame.kernel [=[
__global__ void bodies(const float4 *body, float3 *pull, int n) {
  extern __shared__ float4 tile[];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float4 me = i < n ? body[i] : make_float4(0.f, 0.f, 0.f, 0.f);
  float3 a = make_float3(0.f, 0.f, 0.f);
  for (int t0 = 0; t0 < n; t0 += blockDim.x) {
    tile[threadIdx.x] = t0 + (int)threadIdx.x < n ? body[t0 + threadIdx.x] : make_float4(0.f, 0.f, 0.f, 0.f);
    __syncthreads();
    for (int j = 0; j < (int)blockDim.x; j++) {
      const float4 b = tile[j];
      const float dx = b.x - me.x, dy = b.y - me.y, dz = b.z - me.z;
      const float r = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f), s = b.w * r * r * r;
      a.x += dx * s; a.y += dy * s; a.z += dz * s;
    }
    __syncthreads();
  }
  if (i < n) pull[i] = a;
}]=]
-- Thread i sums what each pair gives to body i, as the pulled one and as the pulling one.
local BODIES_BACK = flame.kernel [=[
__global__ void bodies_back(const float4 *body, const float3 *g, float4 *d, int n) {
  extern __shared__ float4 tile[];
  float4 *pulls = tile + blockDim.x;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float4 zero = make_float4(0.f, 0.f, 0.f, 0.f), me = i < n ? body[i] : zero;
  const float3 mine = i < n ? g[i] : make_float3(0.f, 0.f, 0.f);
  float4 sum = zero;
  for (int t0 = 0; t0 < n; t0 += blockDim.x) {
    const int k = t0 + threadIdx.x;
    tile[threadIdx.x] = k < n ? body[k] : zero;
    const float3 gk = k < n ? g[k] : make_float3(0.f, 0.f, 0.f);
    pulls[threadIdx.x] = make_float4(gk.x, gk.y, gk.z, 0.f);
    __syncthreads();
    for (int j = 0; j < (int)blockDim.x; j++) {
      const float4 b = tile[j], p = pulls[j];
      const float dx = b.x - me.x, dy = b.y - me.y, dz = b.z - me.z;
      const float r = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f), r3 = r * r * r;
      const float gx = p.x * me.w - mine.x * b.w, gy = p.y * me.w - mine.y * b.w, gz = p.z * me.w - mine.z * b.w;
      const float dot = 3.f * r3 * r * r * (dx * gx + dy * gy + dz * gz);
      sum.x += gx * r3 - dot * dx;
      sum.y += gy * r3 - dot * dy;
      sum.z += gz * r3 - dot * dz;
      sum.w -= r3 * (dx * p.x + dy * p.y + dz * p.z);
    }
    __syncthreads();
  }
  if (i < n) d[i] = sum;
}]=]
do
  local n, block = size(16384, 70), size(256, 32)
  local launch = { block = { block }, grid = { blocks(n, block) }, shared = block * 16,
    shape = { n, 3 } }
  local forward = BODIES:with(launch)
  local back = BODIES_BACK:with { block = launch.block, grid = launch.grid, shared = block * 32,
    shape = { n, 4 } }
  cases[#cases + 1] = { "bodies",
    inputs = function() return flame.rand(n, 4) end,
    forward = function(body) return forward(body, n) end,
    hand = function(body, _, g) return back(body, g, n) end }
end
