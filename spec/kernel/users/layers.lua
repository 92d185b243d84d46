--- Kernels for the layers of a language model, forward and backward, as in handwritten training
-- code. luacheck: no max line length

local lists = dofile("spec/kernel/users/lists.lua")
local each, sum = lists.each, lists.sum

local function tanh(v) return 1 - 2 / (math.exp(2 * v) + 1) end

--- The mean, and 1 / standard deviation, of row r of x, which has C elements per row.
local function moments(x, r, C)
  local m = sum(C, function(c) return x[r * C + c] end) / C
  local v = sum(C, function(c) return (x[r * C + c] - m) ^ 2 end) / C
  return m, 1 / math.sqrt(v + 1e-5)
end

return {
  { "tokens and places added, one thread per channel", [=[
__global__ void encoder_forward(float* out, const int* inp, const float* wte, const float* wpe, int B, int T, int C) {
  int idx = blockIdx.x * blockDim.x + threadIdx.x;
  int N = B * T * C;
  if (idx < N) {
    int bt = idx / C;
    int b = bt / T;
    int t = bt % T;
    int c = idx % C;
    int ix = inp[b * T + t];
    float* out_btc = out + b * T * C + t * C + c;
    const float* wte_ix = wte + ix * C + c;
    const float* wpe_tc = wpe + t * C + c;
    *out_btc = *wte_ix + *wpe_tc;
  }
}]=], shape = { 2, 3, 5 }, args = function(t)
      return { t.i { 3, 0, 1, 1, 3, 2 }, t.f { 4, 5 }, t.f { 3, 5 }, 2, 3, 5 }
    end,
    want = function(inp, wte, wpe, B, T, C)
      return each(B * T * C, function(e)
        return wte[inp[e // C] * C + e % C] + wpe[e // C % T * C + e % C]
      end)
    end },

  { "what comes back to tokens and places, by atomics", [=[
__global__ void encoder_backward(float* dwte, float* dwpe, const float* dout, const int* inp, int B, int T, int C) {
  int idx = blockIdx.x * blockDim.x + threadIdx.x;
  if (idx >= B * T * C) return;
  int bt = idx / C, t = bt % T, c = idx % C;
  int ix = inp[bt];
  const float* dout_btc = dout + idx;
  atomicAdd(dwte + ix * C + c, *dout_btc);
  atomicAdd(&dwpe[t * C + c], *dout_btc);
}]=],
    grid = { 1 }, shape = { 4, 5 }, args = function(t)
      return { t.f { 2, 3, 5 }, t.i { 3, 0, 1, 1, 3, 2 }, 2, 3, 5 }
    end,
    want = function(dout, inp, B, T, C)
      local dwte, dwpe = each(20, function() return 0 end), each(20, function() return 0 end)
      for e = 0, B * T * C - 1 do
        local a, b = inp[e // C] * C + e % C, e // C % T * C + e % C
        dwte[a], dwpe[b] = dwte[a] + dout[e], dwpe[b] + dout[e]
      end
      return dwte, dwpe
    end },

  { "a norm of rows by warps of a block, mean and deviation kept", [=[
#define WARP_SIZE 32
__device__ float warpReduceSum(float val) {
  for (int offset = WARP_SIZE / 2; offset > 0; offset /= 2) val += __shfl_xor_sync(0xFFFFFFFF, val, offset);
  return val;
}
__global__ void layernorm_forward(float* __restrict__ out, float* __restrict__ mean, float* __restrict__ rstd,
                                  const float* __restrict__ inp, const float* __restrict__ weight,
                                  const float* __restrict__ bias, int N, int C) {
  int lane_id = threadIdx.x % WARP_SIZE;
  int warp_id = threadIdx.x / WARP_SIZE;
  int num_warps = blockDim.x / WARP_SIZE;
  int idx = blockIdx.x * num_warps + warp_id;
  if (idx >= N) { return; }
  const float* x = inp + idx * C;
  float sum = 0.0f;
  for (int i = lane_id; i < C; i += WARP_SIZE) { sum += x[i]; }
  sum = warpReduceSum(sum);
  float m = sum / C;
  if (lane_id == 0 && mean != nullptr) { __stcs(mean + idx, m); }
  sum = 0.0f;
  for (int i = lane_id; i < C; i += WARP_SIZE) {
    float diff = x[i] - m;
    sum += diff * diff;
  }
  sum = warpReduceSum(sum);
  float s = rsqrtf(sum / C + 1e-5f);
  if (lane_id == 0 && rstd != nullptr) { __stcs(rstd + idx, s); }
  float* o = out + idx * C;
  for (int c = lane_id; c < C; c += WARP_SIZE) {
    float n = s * (__ldcs(x + c) - m);
    __stcs(o + c, n * weight[c] + bias[c]);
  }
}]=],
    block = { 64 }, grid = { 3 }, shape = { 5, 7 },
    args = function(t) return { t.f { 5, 7 }, t.f { 7 }, t.f { 7 }, 5, 7 } end, order = 1,
    want = function(inp, w, b, N, C)
      local out, mean, rstd = each(N * C, function() return 0 end),
        each(N * C, function() return 0 end), each(N * C, function() return 0 end)
      for r = 0, N - 1 do
        mean[r], rstd[r] = moments(inp, r, C)
        for c = 0, C - 1 do out[r * C + c] = (inp[r * C + c] - mean[r]) * rstd[r] * w[c] + b[c] end
      end
      return out, mean, rstd
    end },

  { "the norm's gradient by hand: rows per warp, sums of columns in shared memory", [=[
__global__ void layernorm_backward(float* dinp, float* dweight, float* dbias, const float* dout, const float* inp,
                                   const float* weight, const float* mean, const float* rstd, int N, int C) {
  extern __shared__ float shared[];
  float* dbias_shared = shared;
  float* dweight_shared = shared + C;
  for (int i = threadIdx.x; i < C; i += blockDim.x) {
    dbias_shared[i] = 0.0f;
    dweight_shared[i] = 0.0f;
  }
  __syncthreads();
  int warps = blockDim.x / 32, warp = threadIdx.x / 32, lane = threadIdx.x & 31;
  int base = blockIdx.x * warps + warp;
  if (base < N) {
    const float* dout_bt = dout + base * C;
    const float* inp_bt = inp + base * C;
    float* dinp_bt = dinp + base * C;
    const float mean_bt = mean[base], rstd_bt = rstd[base];
    float dnorm_mean = 0.0f, dnorm_norm_mean = 0.0f;
    for (int i = lane; i < C; i += 32) {
      float norm_bti = (inp_bt[i] - mean_bt) * rstd_bt;
      float dnorm_i = weight[i] * dout_bt[i];
      dnorm_mean += dnorm_i;
      dnorm_norm_mean += dnorm_i * norm_bti;
    }
    for (int o = 16; o; o >>= 1) {
      dnorm_mean += __shfl_xor_sync(0xffffffff, dnorm_mean, o);
      dnorm_norm_mean += __shfl_xor_sync(0xffffffff, dnorm_norm_mean, o);
    }
    dnorm_mean /= C;
    dnorm_norm_mean /= C;
    for (int i = lane; i < C; i += 32) {
      float norm_bti = (inp_bt[i] - mean_bt) * rstd_bt;
      float dnorm_i = weight[i] * dout_bt[i];
      atomicAdd(&dbias_shared[i], dout_bt[i]);
      atomicAdd(&dweight_shared[i], norm_bti * dout_bt[i]);
      float dval = 0.0f;
      dval += dnorm_i;
      dval -= dnorm_mean;
      dval -= norm_bti * dnorm_norm_mean;
      dval *= rstd_bt;
      dinp_bt[i] += dval;
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < C; i += blockDim.x) {
    atomicAdd(&dbias[i], dbias_shared[i]);
    atomicAdd(&dweight[i], dweight_shared[i]);
  }
}]=], block = { 64 }, grid = { 2 }, shared = 2 * 6 * 4, inout = { "dinp" }, args = function(t)
      return { t.f { 3, 6 }, t.f { 3, 6 }, t.f { 3, 6 }, t.f { 6 }, t.f { 3 },
        t.f { 3, low = 0.5, high = 2 }, 3, 6 }
    end, order = 1,
    want = function(dinp, dout, inp, w, mean, rstd, N, C)
      local dw, db = each(N * C, function() return 0 end), each(N * C, function() return 0 end)
      for r = 0, N - 1 do
        local function norm(c) return (inp[r * C + c] - mean[r]) * rstd[r] end
        local a = sum(C, function(c) return w[c] * dout[r * C + c] end) / C
        local b = sum(C, function(c) return w[c] * dout[r * C + c] * norm(c) end) / C
        for c = 0, C - 1 do
          local e = r * C + c
          dinp[e] = dinp[e] + (w[c] * dout[e] - a - norm(c) * b) * rstd[r]
          db[c], dw[c] = db[c] + dout[e], dw[c] + norm(c) * dout[e]
        end
      end
      return dinp, dw, db
    end },

  { "heads of queries, keys and values taken apart", [=[
__global__ void permute_kernel(float* q, float* k, float* v, const float* inp, int B, int N, int NH, int d) {
  int idx = blockIdx.x * blockDim.x + threadIdx.x;
  if (idx < B * NH * N * d) {
    int b = idx / (NH * N * d);
    int rest = idx % (NH * N * d);
    int nh_ = rest / (N * d);
    rest = rest % (N * d);
    int n = rest / d;
    int d_ = rest % d;
    int inp_idx = (b * N * 3 * NH * d) + (n * 3 * NH * d) + (0 * NH * d) + (nh_ * d) + d_;
    q[idx] = __ldcs(&inp[inp_idx]);
    k[idx] = __ldcs(&inp[inp_idx + NH * d]);
    v[idx] = __ldcs(&inp[inp_idx + 2 * (NH * d)]);
  }
}]=],
    shape = { 2, 2, 3, 2 },
    args = function(t) return { t.f { 2, 3, 3, 2, 2 }, 2, 3, 2, 2 } end, order = 1,
    want = function(inp, B, N, NH, d)
      local out = {}
      for part = 0, 2 do
        out[part + 1] = each(B * NH * N * d, function(e)
          local b, h, n, c = e // (NH * N * d), e // (N * d) % NH, e // d % N, e % d
          return inp[(((b * N + n) * 3 + part) * NH + h) * d + c]
        end)
      end
      return table.unpack(out)
    end },

  { "a causal softmax of rows, running maximum, four at a time", [=[
__device__ float warpReduceMax(float v) { for (int o = 16; o > 0; o /= 2) v = fmaxf(v, __shfl_down_sync(0xFFFFFFFF, v, o)); return __shfl_sync(0xFFFFFFFF, v, 0); }
__device__ float warpReduceSum(float v) { for (int o = 16; o > 0; o /= 2) v += __shfl_down_sync(0xFFFFFFFF, v, o); return __shfl_sync(0xFFFFFFFF, v, 0); }
__device__ float vec_at(const float4& vec, int index) { return reinterpret_cast<const float*>(&vec)[index]; }
__global__ void softmax_forward_kernel5(float* out, float inv_temperature, const float* inp, int N, int T) {
  assert(T % 4 == 0);
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  int idx = (gridDim.x - blockIdx.x - 1) * (blockDim.x / 32) + warp;
  if (idx >= N * T) { return; }
  int own_pos = idx % T;
  int pos_by_4 = own_pos / 4;
  const float* x = inp + idx * T;
  float maxval = -FLT_MAX;
  float sumval = 0.0f;
  const float4* x_vec = reinterpret_cast<const float4*>(x);
  for (int i = lane; i < pos_by_4; i += 32) {
    float4 v = x_vec[i];
    float old_maxval = maxval;
    for (int k = 0; k < 4; ++k) { maxval = fmaxf(maxval, vec_at(v, k)); }
    sumval *= expf(inv_temperature * (old_maxval - maxval));
    for (int k = 0; k < 4; ++k) { sumval += expf(inv_temperature * (vec_at(v, k) - maxval)); }
  }
  if (4 * pos_by_4 + lane <= own_pos) {
    float old_maxval = maxval;
    maxval = fmaxf(maxval, x[4 * pos_by_4 + lane]);
    sumval *= expf(inv_temperature * (old_maxval - maxval));
    sumval += expf(inv_temperature * (x[4 * pos_by_4 + lane] - maxval));
  }
  float global_maxval = warpReduceMax(maxval);
  sumval *= expf(inv_temperature * (maxval - global_maxval));
  float sum = warpReduceSum(sumval);
  float norm = 1.f / sum;
  for (int i = lane; i <= own_pos; i += 32) {
    float ev = expf(inv_temperature * (__ldcs(x + i) - global_maxval));
    __stcs(out + idx * T + i, ev * norm);
  }
}]=],
    block = { 64 }, grid = { 8 }, shape = { 2, 8, 8 },
    args = function(t) return { 0.5, t.f { 2, 8, 8, low = -2, high = 2 }, 2, 8 } end, order = 1,
    want = function(s, x, N, T)
      return each(N * T * T, function(e)
        local r, c = e // T, e % T
        if c > r % T then return 0 end
        return math.exp(s * x[e]) / sum(r % T + 1, function(k)
          return math.exp(s * x[r * T + k])
        end)
      end)
    end },

  { "the gradient of that softmax by hand, one row per block", [=[
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
__global__ void softmax_autoregressive_backward(float* dpreatt, const float* datt, const float* att, int B, int T, int NH, float scale) {
  cg::thread_block block = cg::this_thread_block();
  cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
  __shared__ float block_acc[32];
  int idx = blockIdx.y;
  int t = blockIdx.x;
  att += idx * T * T;
  datt += idx * T * T;
  dpreatt += idx * T * T;
  const float* att_bth = att + t * T;
  const float* datt_bth = datt + t * T;
  float* dpreatt_bth = dpreatt + t * T;
  if (warp.meta_group_rank() == 0) { block_acc[warp.thread_rank()] = 0; }
  float local_sum = 0;
  for (int t2 = block.thread_rank(); t2 <= t; t2 += 64) local_sum += att_bth[t2] * datt_bth[t2];
  block.sync();
  const float w = cg::reduce(warp, local_sum, cg::plus<float>{});
  if (warp.thread_rank() == 0) block_acc[warp.meta_group_rank()] = w;
  block.sync();
  local_sum = cg::reduce(warp, block_acc[warp.thread_rank()], cg::plus<float>{});
  for (int t3 = block.thread_rank(); t3 <= t; t3 += 64) {
    float acc = att_bth[t3] * (datt_bth[t3] - local_sum);
    dpreatt_bth[t3] = scale * acc;
  }
}]=],
    block = { 64 }, grid = { 5, 2 }, shape = { 2, 5, 5 },
    args = function(t)
      return { t.f { 2, 5, 5 }, t.f { 2, 5, 5, low = 0, high = 1 }, 1, 5, 2, 0.5 }
    end, order = 1,
    want = function(datt, att, _, T, _, scale)
      return each(2 * T * T, function(e)
        local r = e // T
        if e % T > r % T then return 0 end
        return scale * att[e] * (datt[e] - sum(r % T + 1,
          function(k) return att[r * T + k] * datt[r * T + k] end))
      end)
    end },

  { "residual, then GELU by its tanh", [=[
#define GELU_SCALING_FACTOR sqrtf(2.0f / M_PI)
__global__ void residual_gelu(float* out, float* act, const float* inp1, const float* inp2, int N) {
  int idx = blockIdx.x * blockDim.x + threadIdx.x;
  if (idx < N) {
    out[idx] = __ldcs(&inp1[idx]) + __ldcs(&inp2[idx]);
    float xi = out[idx];
    float cube = 0.044715f * xi * xi * xi;
    act[idx] = 0.5f * xi * (1.0f + tanhf(GELU_SCALING_FACTOR * (xi + cube)));
  }
}]=], args = function(t) return { t.f { 6, low = -2, high = 2 }, t.f { 6 }, 6 } end,
    want = function(a, b, n)
      return each(n, function(i) return a[i] + b[i] end), each(n, function(i)
        local x = a[i] + b[i]
        return 0.5 * x * (1 + tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ^ 3)))
      end)
    end },

  { "the gradient of GELU by hand", [=[
__global__ void gelu_backward(float* dinp, const float* inp, const float* dout, const int N) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N) {
    const float k = 0.7978845608028654f;
    float x = (float)inp[i];
    float cube = 0.044715f * x * x * x;
    float tanh_arg = k * (x + cube);
    float tanh_out = tanhf(tanh_arg);
    float coshf_out = coshf(tanh_arg);
    float sech_out = 1.0f / (coshf_out * coshf_out);
    float local_grad = 0.5f * (1.0f + tanh_out) + x * 0.5f * sech_out * k * (1.0f + 3.0f * 0.044715f * x * x);
    dinp[i] = local_grad * dout[i];
  }
}]=], args = function(t) return { t.f { 6, low = -2, high = 2 }, t.f { 6 }, 6 } end,
    want = function(x, dout, n)
      return each(n, function(i)
        local k, v = 0.7978845608028654, x[i]
        local h = tanh(k * (v + 0.044715 * v ^ 3))
        return dout[i] * (0.5 * (1 + h) + 0.5 * v * (1 - h * h) * k * (1 + 3 * 0.044715 * v * v))
      end)
    end },

  { "softmax, loss and its gradient in one go, the block reduces", [=[
struct SoftmaxParams { float Scale; float Offset; };
__device__ float warp_sum(float v) { for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(~0u, v, o); return v; }
__device__ float warp_max(float v) { for (int o = 16; o > 0; o >>= 1) v = fmaxf(v, __shfl_xor_sync(~0u, v, o)); return v; }
using reduce_t = float;
template <bool MAX> __device__ float block_reduce(float val, bool final_sync = false, float out_of_bounds = 0.0f) {
  __shared__ float shared_val[32];
  const int lane_id = threadIdx.x % 32;
  const int warp_id = threadIdx.x / 32;
  const int num_warps = blockDim.x / 32;
  float warp_val = MAX ? warp_max(val) : warp_sum(val);
  if (lane_id == 0) { shared_val[warp_id] = warp_val; }
  __syncthreads();
  warp_val = (lane_id < num_warps) ? shared_val[lane_id] : out_of_bounds;
  float block_val = MAX ? warp_max(warp_val) : warp_sum(warp_val);
  if (final_sync) { __syncthreads(); }
  return block_val;
}
__device__ SoftmaxParams prepare_softmax(int idx, const float* inp, int V, int P) {
  const float* x = inp + idx * P;
  float thread_maxval = -INFINITY;
  float thread_sumval = 0.0f;
  for (int i = threadIdx.x; i < V; i += blockDim.x) {
    float v = x[i];
    float old_maxval = thread_maxval;
    thread_maxval = fmaxf(thread_maxval, v);
    thread_sumval *= expf(old_maxval - thread_maxval);
    thread_sumval += expf(v - thread_maxval);
  }
  float block_maxval = block_reduce<true>(thread_maxval, false, -INFINITY);
  thread_sumval *= expf(thread_maxval - block_maxval);
  float block_sumval = block_reduce<false>(thread_sumval);
  return SoftmaxParams{1.f / block_sumval, block_maxval};
}
__global__ void fused_classifier(float* losses, float* dlogits, const float* logits, const int* targets, float dloss, int V, int P) {
  int idx = gridDim.x - (blockIdx.x + 1);
  int ix = targets[idx];
  SoftmaxParams sp = prepare_softmax(idx, logits, V, P);
  if (threadIdx.x == 0) {
    float prob = expf(logits[idx * P + ix] - sp.Offset) * sp.Scale;
    losses[idx] = -logf(prob);
  }
  for (int i = threadIdx.x; i < V; i += blockDim.x) {
    float prob = expf(logits[idx * P + i] - sp.Offset) * sp.Scale;
    float indicator = (i == ix) ? 1.0f : 0.0f;
    dlogits[idx * P + i] = (prob - indicator) * dloss;
  }
}]=],
    block = { 64 }, grid = { 3 }, shape = { 3, 8 },
    args = function(t) return { t.f { 3, 8, low = -2, high = 2 }, t.i { 1, 6, 0 }, 0.5, 7, 8 } end,
    order = 1,
    want = function(x, target, dloss, V, P)
      local losses, d = each(3 * P, function() return 0 end), each(3 * P, function() return 0 end)
      for r = 0, 2 do
        local all = sum(V, function(c) return math.exp(x[r * P + c]) end)
        losses[r] = math.log(all) - x[r * P + target[r]]
        for c = 0, V - 1 do
          d[r * P + c] = (math.exp(x[r * P + c]) / all - (c == target[r] and 1 or 0)) * dloss
        end
      end
      return losses, d
    end },

  { "a step of AdamW, moments in place", [=[
__device__ inline float lerp(float start, float end, float weight) { return fmaf(weight, end, fmaf(-weight, start, start)); }
__global__ void adamw_kernel(float* params_memory, const float* grads_memory, float* m_memory, float* v_memory, long num_parameters,
                             float learning_rate, float beta1, float beta2, float beta1_correction, float beta2_correction, float eps, float weight_decay) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= num_parameters) return;
  float grad = grads_memory[i];
  float m = m_memory[i];
  float v = v_memory[i];
  m = lerp(grad, m, beta1);
  m_memory[i] = m;
  v = lerp(grad * grad, v, beta2);
  v_memory[i] = v;
  m /= beta1_correction;
  v /= beta2_correction;
  params_memory[i] -= learning_rate * (m / (sqrtf(v) + eps) + weight_decay * params_memory[i]);
}]=], inout = { "params_memory", "m_memory", "v_memory" }, args = function(t)
      return { t.f { 7 }, t.f { 7, low = 0.5, high = 1 }, t.f { 7 }, t.f { 7, low = 0.1, high = 1 },
        7, 0.01, 0.9, 0.99, 0.19, 0.0199, 1e-8, 0.1 }
    end, order = 1, tol64 = 1e-7,
    want = function(p, g, m, v, n, lr, b1, b2, c1, c2, eps, wd)
      for i = 0, n - 1 do
        m[i], v[i] = g[i] + b1 * (m[i] - g[i]), g[i] ^ 2 + b2 * (v[i] - g[i] ^ 2)
        p[i] = p[i] - lr * (m[i] / c1 / (math.sqrt(v[i] / c2) + eps) + wd * p[i])
      end
      return p, m, v
    end },

  { "the sum of squares of all gradients, one atomic a block", [=[
template <class T>
__device__ float global_norm_squared_for_range(const T* data, size_t count) {
  size_t index = blockIdx.x * blockDim.x + threadIdx.x;
  size_t grid_width = blockDim.x * gridDim.x;
  float accumulator = 0.f;
  for (size_t i = index; i < count; i += grid_width) accumulator += (float)data[i] * (float)data[i];
  __shared__ float part[2];
  for (int o = 16; o > 0; o >>= 1) accumulator += __shfl_down_sync(0xFFFFFFFFu, accumulator, o);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = accumulator;
  __syncthreads();
  return part[0] + part[1];
}
__global__ void norm_squared(float* out, const float* data, size_t count) {
  float block_sum = global_norm_squared_for_range(data, count);
  if (threadIdx.x == 0) atomicAdd(out, block_sum);
}]=],
    block = { 64 }, grid = { 2 }, shape = { 1 },
    args = function(t) return { t.f { 200 }, 200 } end, order = 1,
    want = function(x, n) return { [0] = sum(n, function(i) return x[i] ^ 2 end) } end },

  { "sums of columns of a matrix, tiles of warps", [=[
__global__ void matmul_backward_bias(float* dbias, const float* dout, int B, int T, int OC) {
  __shared__ float smem[256];
  const int warp_id = threadIdx.x / 32;
  const int lane_id = threadIdx.x % 32;
  const int tl = blockIdx.x * warpSize;
  const int vstep = blockDim.x / warpSize;
  const float* dout_col = dout + tl + lane_id;
  float dout_sum = 0.0f;
  if (tl + lane_id < OC)
    for (int row = warp_id; row < B * T; row += vstep) dout_sum += dout_col[row * OC];
  smem[lane_id + warp_id * warpSize] = dout_sum;
  __syncthreads();
  dout_sum = 0.0f;
  if (warp_id == 0 && tl + lane_id < OC) {
    for (int j = 0; j < vstep; j++) dout_sum += smem[lane_id + j * warpSize];
    dbias[tl + lane_id] += dout_sum;
  }
}]=],
    block = { 128 }, grid = { 2 }, inout = { "dbias" },
    args = function(t) return { t.f { 40 }, t.f { 5, 40 }, 1, 5, 40 } end, order = 1,
    want = function(b, x, _, T, OC)
      return each(OC, function(c) return b[c] + sum(T, function(r) return x[r * OC + c] end) end)
    end },

  { "a root mean square norm with its gradient by hand", [=[
template <int THREADS> __device__ float all_sum(float v) {
  static_assert(THREADS % 32 == 0, "whole warps");
  __shared__ float s[THREADS / 32];
  for (int m = 16; m; m >>= 1) v += __shfl_xor_sync(0xffffffff, v, m);
  if ((threadIdx.x & 31) == 0) s[threadIdx.x >> 5] = v;
  __syncthreads();
  float r = 0.f;
  #pragma unroll
  for (int i = 0; i < THREADS / 32; ++i) r += s[i];
  __syncthreads();
  return r;
}
__global__ void rms(const float *x, const float *w, const float *dy, float *y, float *dx, int cols, float eps) {
  const float *row = x + blockIdx.x * cols, *drow = dy + blockIdx.x * cols;
  float ss = 0.f, dot = 0.f;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) { ss += row[c] * row[c]; dot += drow[c] * w[c] * row[c]; }
  ss = all_sum<64>(ss);
  dot = all_sum<64>(dot);
  const float inv = rsqrtf(ss / cols + eps);
  for (int c = threadIdx.x; c < cols; c += blockDim.x) {
    y[blockIdx.x * cols + c] = row[c] * inv * w[c];
    dx[blockIdx.x * cols + c] = inv * (drow[c] * w[c] - row[c] * inv * inv * dot / cols);
  }
}]=],
    block = { 64 }, grid = { 2 },
    args = function(t) return { t.f { 2, 9 }, t.f { 9 }, t.f { 2, 9 }, 9, 0.01 } end, order = 1,
    want = function(x, w, dy, C, eps)
      local y, dx = {}, {}
      for e = 0, 2 * C - 1 do
        local r, c = e // C * C, e % C
        local inv = 1 / math.sqrt(sum(C, function(k) return x[r + k] ^ 2 end) / C + eps)
        local dot = sum(C, function(k) return dy[r + k] * w[k] * x[r + k] end)
        y[e], dx[e] = x[e] * inv * w[c], inv * (dy[e] * w[c] - x[e] * inv ^ 2 * dot / C)
      end
      return y, dx
    end },

  { "turned pairs with tables of sines, queries and keys in place", [=[
__global__ void apply_rope(float2 *__restrict__ q, float2 *__restrict__ k, const float2 *__restrict__ cs, const int *__restrict__ pos,
                           int heads, int kv_heads, int half) {
  const int token = blockIdx.x;
  const float2 *t = cs + pos[token] * half;
  for (int i = threadIdx.x; i < heads * half; i += blockDim.x) {
    const int d = i % half;
    float2 &v = q[token * heads * half + i];
    const float2 c = t[d], old = v;
    v.x = old.x * c.x - old.y * c.y;
    v.y = old.x * c.y + old.y * c.x;
    if (i < kv_heads * half) {
      float2 *p = k + token * kv_heads * half + i;
      *p = make_float2(p->x * c.x - p->y * c.y, p->x * c.y + p->y * c.x);
    }
  }
}]=], block = { 8 }, grid = { 3 }, inout = { "q", "k" }, args = function(t)
      return { t.f { 3, 4, 2, 2 }, t.f { 3, 2, 2, 2 }, t.f { 5, 2, 2 }, t.i { 4, 0, 2 }, 4, 2, 2 }
    end,
    want = function(q, k, cs, pos, heads, kv, half)
      local function turn(x, n)
        return each(3 * n * half * 2, function(e)
          local tok, d, part = e // (n * half * 2), e // 2 % half, e % 2
          local c, s = cs[(pos[tok] * half + d) * 2], cs[(pos[tok] * half + d) * 2 + 1]
          local a, b = x[e - part], x[e - part + 1]
          return part == 0 and a * c - b * s or a * s + b * c
        end)
      end
      return turn(q, heads), turn(k, kv)
    end },

  { "attention of one query over a cache by warps, merged in shared memory", [=[
#include <limits>
template <typename scalar_t, int HEAD, int WARPS>
__device__ void decode(scalar_t *out, const scalar_t *q, const scalar_t *kc, const scalar_t *vc, int len, float scale) {
  __shared__ float sm[WARPS], sl[WARPS], so[WARPS][HEAD];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float m = -std::numeric_limits<float>::infinity(), l = 0.f, acc = 0.f;
  for (int j = warp; j < len; j += WARPS) {
    float s = lane < HEAD ? q[lane] * kc[j * HEAD + lane] : 0.f;
    #pragma unroll
    for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(~0u, s, o);
    s *= scale;
    const float mn = max(m, s), a = __expf(m - mn), p = __expf(s - mn);
    l = l * a + p;
    acc = acc * a + (lane < HEAD ? p * vc[j * HEAD + lane] : 0.f);
    m = mn;
  }
  if (lane == 0) { sm[warp] = m; sl[warp] = l; }
  if (lane < HEAD) so[warp][lane] = acc;
  __syncthreads();
  if (threadIdx.x < HEAD) {
    float top = sm[0];
    for (int w = 1; w < WARPS; ++w) top = fmaxf(top, sm[w]);
    float num = 0.f, den = 0.f;
    for (int w = 0; w < WARPS; ++w) {
      const float e = __expf(sm[w] - top);
      num += e * so[w][threadIdx.x];
      den += e * sl[w];
    }
    out[threadIdx.x] = num / den;
  }
}
__global__ void attend(float *out, const float *q, const float *k, const float *v, int len) {
  decode<float, 6, 2>(out + blockIdx.x * 6, q + blockIdx.x * 6, k, v, len, 0.4f);
}]=],
    block = { 64 }, grid = { 2 },
    args = function(t) return { t.f { 2, 6 }, t.f { 5, 6 }, t.f { 5, 6 }, 5 } end,
    order = 1, tol = 1e-4,
    want = function(q, k, v, len)
      return each(12, function(e)
        local h, num, den = e // 6 * 6, 0, 0
        for j = 0, len - 1 do
          local p = math.exp(0.4 * sum(6, function(d) return q[h + d] * k[j * 6 + d] end))
          num, den = num + p * v[j * 6 + e % 6], den + p
        end
        return num / den
      end)
    end },

  { "rows of bytes times a vector, dot products of four, scales of rows", [=[
__device__ __forceinline__ int dp4a(int a, int b, int c) {
  const char4 x = *reinterpret_cast<const char4 *>(&a), y = *reinterpret_cast<const char4 *>(&b);
  return c + x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w;
}
__global__ void q8(const int *w, const float *scale, const int *xq, const float *xs, float *y, int rows, int words) {
  const int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  int acc = 0;
  for (int k = 0; k < words; ++k) acc = dp4a(w[r * words + k], xq[k], acc);
  y[r] = (float)acc * scale[r] * xs[0];
}]=],
    shape = { 2 }, args = function(t)
      return { t.i { 0x01ff7f80, -2, 3, 0x7f010203 }, t.f { 2 }, t.i { 0x05fb0301, -77 }, t.f { 1 },
        2, 2 }
    end, want = function(w, scale, xq, xs, rows, words)
      local function byte(v, j) return string.unpack("<i1", string.pack("<i4", v), j + 1) end
      return each(rows, function(r)
        return scale[r] * xs[0] * sum(4 * words, function(k)
          return byte(w[r * words + k // 4], k % 4) * byte(xq[k // 4], k % 4)
        end)
      end)
    end },

  { "bytes packed in words by shifts, times a vector", [=[
__device__ __forceinline__ float unpack(unsigned v, int k) { return (float)(int)((signed char)(v >> (8 * k) & 0xff)); }
__global__ void q8(const unsigned *w, const float *scale, const float *x, float *y, int rows, int words) {
  const int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  float acc = 0.f;
  for (int k = 0; k < words; ++k) {
    const unsigned v = __ldg(&w[r * words + k]);
    #pragma unroll 4
    for (int j = 0; j < 4; ++j) acc += unpack(v, j) * x[4 * k + j];
  }
  y[r] = acc * scale[r];
}]=],
    shape = { 2 },
    args = function(t)
      return { t.i { 0x01ff7f80, 5, -2, 0x10203040 }, t.f { 2 }, t.f { 8 }, 2, 2 }
    end, order = 1,
    want = function(w, s, x, rows, words)
      return each(rows, function(r)
        return s[r] * sum(4 * words, function(j)
          local b = (w[r * words + j // 4] >> 8 * (j % 4)) & 255
          return (b > 127 and b - 256 or b) * x[j]
        end)
      end)
    end },
}
