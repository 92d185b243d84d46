--- A case of bench/ported.lua:
--- splats, blended front to back by tiles of 16 x 16, whose lists lie in 'order'.
local flame, size, blocks, cases = ...

local SPLAT = flame.kernel [=[
#define BATCH 256
__global__ void splat(const float2 *centre, const float4 *form, const float3 *colour, const int2 *range, const int *order,
                      float3 *image, float *left, int *count, int w, int h) {
  __shared__ float2 at[BATCH];
  __shared__ float4 conic[BATCH];
  __shared__ float3 paint[BATCH];
  const int tile = blockIdx.y * gridDim.x + blockIdx.x, rank = threadIdx.y * blockDim.x + threadIdx.x;
  const int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
  const bool inside = px < w && py < h;
  bool done = !inside;
  const int2 r = range[tile];
  float T = 1.f;
  float3 c = make_float3(0.f, 0.f, 0.f);
  int last = 0;
  for (int start = r.x; start < r.y; start += BATCH) {
    if (__syncthreads_count(done) == blockDim.x * blockDim.y) break;
    if (start + rank < r.y) {
      const int id = order[start + rank];
      at[rank] = centre[id];
      conic[rank] = form[id];
      paint[rank] = colour[id];
    }
    __syncthreads();
    const int n = min(BATCH, r.y - start);
    for (int j = 0; !done && j < n; j++) {
      const float dx = at[j].x - px, dy = at[j].y - py;
      const float4 q = conic[j];
      const float power = -0.5f * (q.x * dx * dx + q.z * dy * dy) - q.y * dx * dy;
      if (power > 0.f) continue;
      const float alpha = fminf(0.99f, q.w * expf(power));
      if (alpha < 1.f / 255.f) continue;
      const float next = T * (1.f - alpha);
      if (next < 1e-4f) { done = true; continue; }
      c.x += paint[j].x * alpha * T;
      c.y += paint[j].y * alpha * T;
      c.z += paint[j].z * alpha * T;
      T = next;
      last = start - r.x + j + 1;
    }
  }
  if (inside) {
    image[py * w + px] = c;
    left[py * w + px] = T;
    count[py * w + px] = last;
  }
}]=]
local SPLAT_BACK = flame.kernel { inout = { "dcentre", "dform", "dcolour" }, source = [=[
#define BATCH 256
__global__ void splat_back(const float2 *centre, const float4 *form, const float3 *colour, const int2 *range, const int *order,
                           const float *left, const int *count, const float3 *g, float *dcentre, float *dform, float *dcolour,
                           int w, int h) {
  __shared__ int ids[BATCH];
  __shared__ float2 at[BATCH];
  __shared__ float4 conic[BATCH];
  __shared__ float3 paint[BATCH];
  const int tile = blockIdx.y * gridDim.x + blockIdx.x, rank = threadIdx.y * blockDim.x + threadIdx.x;
  const int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
  const bool inside = px < w && py < h;
  const int2 r = range[tile];
  float T = inside ? left[py * w + px] : 0.f;
  const int last = inside ? count[py * w + px] : 0;
  const float3 gc = inside ? g[py * w + px] : make_float3(0.f, 0.f, 0.f);
  float3 behind = make_float3(0.f, 0.f, 0.f);
  for (int end = r.y; end > r.x; end -= BATCH) {
    __syncthreads();
    if (end - 1 - rank >= r.x) {
      const int id = order[end - 1 - rank];
      ids[rank] = id;
      at[rank] = centre[id];
      conic[rank] = form[id];
      paint[rank] = colour[id];
    }
    __syncthreads();
    const int n = min(BATCH, end - r.x);
    for (int j = 0; j < n; j++) {
      if (end - 1 - j - r.x >= last) continue;
      const float dx = at[j].x - px, dy = at[j].y - py;
      const float4 q = conic[j];
      const float power = -0.5f * (q.x * dx * dx + q.z * dy * dy) - q.y * dx * dy;
      if (power > 0.f) continue;
      const float e = expf(power), alpha = fminf(0.99f, q.w * e);
      if (alpha < 1.f / 255.f) continue;
      T /= 1.f - alpha;
      const float3 p = paint[j];
      const int id = ids[j];
      atomicAdd(&dcolour[3 * id], alpha * T * gc.x);
      atomicAdd(&dcolour[3 * id + 1], alpha * T * gc.y);
      atomicAdd(&dcolour[3 * id + 2], alpha * T * gc.z);
      const float da = T * ((p.x - behind.x) * gc.x + (p.y - behind.y) * gc.y + (p.z - behind.z) * gc.z);
      behind.x += alpha * (p.x - behind.x);
      behind.y += alpha * (p.y - behind.y);
      behind.z += alpha * (p.z - behind.z);
      if (q.w * e > 0.99f) continue;
      const float dp = da * q.w * e;
      atomicAdd(&dform[4 * id], -0.5f * dp * dx * dx);
      atomicAdd(&dform[4 * id + 1], -dp * dx * dy);
      atomicAdd(&dform[4 * id + 2], -0.5f * dp * dy * dy);
      atomicAdd(&dform[4 * id + 3], da * e);
      atomicAdd(&dcentre[2 * id], dp * (-q.x * dx - q.y * dy));
      atomicAdd(&dcentre[2 * id + 1], dp * (-q.z * dy - q.y * dx));
    }
  }
}]=] }
do
  local w, h, n = size(1024, 37), size(1024, 21), size(1 << 16, 60)
  local tw, th = blocks(w, 16), blocks(h, 16)
  local launch = { block = { 16, 16 }, grid = { tw, th } }
  local forward = SPLAT:with { block = launch.block, grid = launch.grid,
    shape = { { h, w, 3 }, { h, w }, { h, w } } }
  local back = SPLAT_BACK:with(launch)
  local range, order

  --- The lists of tiles: each splat is in those that its square of side 2 * reach meets.
  local function lists(x, y, reach)
    local list, from, ids = {}, {}, {}
    for t = 1, tw * th do list[t] = {} end
    for i = 1, n do
      for ty = math.max(0, (y[i] - reach) // 16), math.min(th - 1, (y[i] + reach) // 16) do
        for tx = math.max(0, (x[i] - reach) // 16), math.min(tw - 1, (x[i] + reach) // 16) do
          table.insert(list[math.tointeger(ty * tw + tx + 1)], i - 1)
        end
      end
    end
    for t, l in ipairs(list) do
      from[t] = { #ids, #ids + #l }
      table.move(l, 1, #l, #ids + 1, ids)
    end
    return flame.tensor(from, { dtype = "i32" }), flame.tensor(ids, { dtype = "i32" })
  end

  cases[#cases + 1] = { "splats",
    inputs = function()
      local x, y = flame.uniform({ n }, 0, w), flame.uniform({ n }, 0, h)
      range, order = lists(x:totable(), y:totable(), 12)
      local wide = flame.uniform({ n }, 0.05, 0.3)
      local form = flame.stack({ wide, wide * flame.uniform({ n }, -0.4, 0.4), wide,
        flame.uniform({ n }, 0.05, 0.6) }, 2)
      return flame.stack({ x, y }, 2), form, flame.uniform({ n, 3 }, 0, 1)
    end,
    forward = function(centre, form, colour)
      return forward(centre, form, colour, range, order, w, h)
    end,
    hand = function(centre, form, colour, _, left, count, g)
      return back(centre, form, colour, range, order, left, count, g,
        flame.zeros(n, 2), flame.zeros(n, 4), flame.zeros(n, 3), w, h)
    end }
end
