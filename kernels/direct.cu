/*
** Convolutions of f32 that cuDNN does slowly without atomics, summed in an order that follows from
** the sizes alone. Header-free; KX and STEP (the kernel's size and the stride along x) are defined
** before it, KY and STEP_Y for the depthwise ones, WIDE (16, 32 or 64) for the weight's gradient.
**   direct_y, direct_x
**                  a depthwise convolution and the gradient of its x: one thread per element of the
**                  result. Bytes: the input KX KY / strides times from the caches, the result once.
**   direct_w       the weight's gradient. A row is a channel and a kernel position in z and y;
**                  32 rows and 32 outputs per block of 256, a thread one row, 4 outputs and all KX,
**                  over its share of the output's lines, WIDE positions at a time through shared
**                  memory.
**   direct_w_sum   the sum of the shares. Bytes of both: x and y's gradient once for each block of
**                  rows and outputs from the caches; shares written and read once.
*/
typedef long long i64;
#define FN __device__ __forceinline__
#define KERNEL extern "C" __global__ void
struct conv_params { i64 n, c, o, groups, in[3], k[3], out[3], stride[3], pad[3], dil[3]; };

#ifdef KY
KERNEL __launch_bounds__(256) direct_y(const __grid_constant__ conv_params v, const float *w,
                                       const float *x, float *out, int numel) {
  const int width = (int)v.in[2], height = (int)v.in[1], ow = (int)v.out[2], oh = (int)v.out[1];
  const int i = blockIdx.x * blockDim.x + threadIdx.x, line = i / ow, plane = line / oh;
  if (i >= numel) return;
  const int y = (line - plane * oh) * STEP_Y - (int)v.pad[1],
            x0 = (i - line * ow) * STEP - (int)v.pad[2];
  const float *from = x + (i64)plane * height * width, *weight = w + plane % (int)v.c * (KY * KX);
  float sum = 0;
#pragma unroll
  for (int ky = 0; ky < KY; ky++) {
    if (y + ky < 0 || y + ky >= height) continue;
#pragma unroll
    for (int kx = 0; kx < KX; kx++)
      if (x0 + kx >= 0 && x0 + kx < width)
        sum = fmaf(from[(y + ky) * width + x0 + kx], weight[ky * KX + kx], sum);
  }
  out[i] = sum;
}

KERNEL __launch_bounds__(256) direct_x(const __grid_constant__ conv_params v, const float *w,
                                       const float *g, float *out, int numel) {
  const int width = (int)v.in[2], height = (int)v.in[1], ow = (int)v.out[2], oh = (int)v.out[1];
  const int i = blockIdx.x * blockDim.x + threadIdx.x, line = i / width, plane = line / height;
  if (i >= numel) return;
  const int y = line - plane * height + (int)v.pad[1], x = i - line * width + (int)v.pad[2];
  const float *from = g + (i64)plane * oh * ow, *weight = w + plane % (int)v.c * (KY * KX);
  float sum = 0;
#pragma unroll
  for (int ky = 0; ky < KY; ky++) {
    const int ty = y - ky, oy = ty / STEP_Y;
    if (ty < 0 || ty % STEP_Y != 0 || oy >= oh) continue;
#pragma unroll
    for (int kx = 0; kx < KX; kx++) {
      const int tx = x - kx, ox = tx / STEP;
      if (tx >= 0 && tx % STEP == 0 && ox < ow)
        sum = fmaf(from[oy * ow + ox], weight[ky * KX + kx], sum);
    }
  }
  out[i] = sum;
}
#else
enum { ROWS = 32, REACH = (WIDE - 1) * STEP + KX, STAGE = (REACH + 7) / 4 * 4,
       LD = STAGE % 8 == 4 ? STAGE : STAGE + 4 };

/* What a thread of direct_w copies: the rows group, group + 8, … of both shared arrays (gs, xs);
** the lanes of a warp go along x. channel -1: xs has no such row. */
struct copier { int ky[4], kz[4]; i64 channel[4]; };

FN copier copier_of(const conv_params &v, int row0, int group) {
  const int rows = (int)(v.c * v.k[0] * v.k[1]);
  copier w;
  for (int i = 0; i < 4; i++) {
    const int row = row0 + group + 8 * i, at = row / (int)v.k[1];
    w.ky[i] = row % (int)v.k[1] * (int)v.dil[1] - (int)v.pad[1];
    w.kz[i] = at % (int)v.k[0] * (int)v.dil[0] - (int)v.pad[0];
    w.channel[i] = row < rows ? at / v.k[0] : -1;
  }
  return w;
}

/* Copies line y of plane z of image n from x0 on: the gradients g of outputs o0 to o0 + 31, and for
** each row of weights the elements of the input x that these outputs read. */
FN void copy_line(const conv_params &v, const copier &w, const float *g, const float *x, int n,
                  int z, int y, int x0, int o0, float (*gs)[WIDE + 4], float *xs) {
  const int lane = threadIdx.x % 32, group = threadIdx.x / 32, in_x = (int)v.in[2],
            out_x = (int)v.out[2];
  const i64 in_plane = v.in[0] * v.in[1] * v.in[2], out_plane = v.out[0] * v.out[1] * v.out[2];
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const int o = o0 + group + 8 * i;
    const float *row = g + (n * v.o + o) * out_plane + (z * (int)v.out[1] + y) * (i64)out_x;
    for (int p = lane; p < WIDE; p += 32)
      gs[group + 8 * i][p] = o < v.o && x0 + p < out_x ? row[x0 + p] : 0.0f;
    if (w.channel[i] < 0) continue;                    /* uniform in the warp */
    const int iz = z * (int)v.stride[0] + w.kz[i], iy = y * (int)v.stride[1] + w.ky[i];
    const bool real = iz >= 0 && iz < v.in[0] && iy >= 0 && iy < v.in[1];
    const float *from = x + (n * v.c + w.channel[i]) * in_plane + (iz * v.in[1] + iy) * in_x;
    for (int j = lane; j < LD; j += 32) {
      const int at = x0 * STEP - (int)v.pad[2] + j;
      xs[(group + 8 * i) * LD + j] = real && at >= 0 && at < in_x ? from[at] : 0.0f;
    }
  }
}

/* Adds the products of the gradients of four outputs and the inputs of one row of weights, over the
** first 'left' of WIDE positions. */
FN void add_line(float (&sum)[4][KX], const float (*gs)[WIDE + 4], const float *mine, int left) {
  const int group = threadIdx.x / 32;
#pragma unroll
  for (int p = 0; p < WIDE; p += 4) {
    if (p >= left) break;                              /* uniform in the block */
    float4 gy[4];
#pragma unroll
    for (int i = 0; i < 4; i++) gy[i] = *(const float4 *)&gs[group * 4 + i][p];
    float near[3 * STEP + KX + 3];
#pragma unroll
    for (int j = 0; j < 3 * STEP + KX; j += 4)
      *(float4 *)(near + j) = *(const float4 *)(mine + p * STEP + j);
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
      for (int k = 0; k < KX; k++) {
        sum[i][k] = fmaf(gy[i].x, near[k], sum[i][k]);
        sum[i][k] = fmaf(gy[i].y, near[STEP + k], sum[i][k]);
        sum[i][k] = fmaf(gy[i].z, near[2 * STEP + k], sum[i][k]);
        sum[i][k] = fmaf(gy[i].w, near[3 * STEP + k], sum[i][k]);
      }
  }
}

/* The grid is (blocks of rows, blocks of outputs, shares). part: the sums of each share, an array
** of shape (share, o, c, kernel). */
KERNEL __launch_bounds__(256) direct_w(const __grid_constant__ conv_params v, const float *g,
                                       const float *x, float *part, int lines) {
  __shared__ __align__(16) float gs[ROWS][WIDE + 4], xs[ROWS * LD];
  const int rows = (int)(v.c * v.k[0] * v.k[1]), lane = threadIdx.x % 32, group = threadIdx.x / 32;
  const int row0 = blockIdx.x * ROWS, o0 = blockIdx.y * ROWS, out_y = (int)v.out[1],
            out_x = (int)v.out[2], planes = (int)v.out[0] * out_y, total = (int)v.n * planes;
  const int first = blockIdx.z * lines, end = first + lines < total ? first + lines : total;
  const copier who = copier_of(v, row0, group);
  float sum[4][KX] = {};
  for (int i = threadIdx.x; i < ROWS * LD; i += 256) xs[i] = 0;     /* absent rows keep their 0 */
  __syncthreads();
  for (int line = first; line < end; line++) {
    const int n = line / planes, z = line / out_y % (int)v.out[0], y = line % out_y;
    for (int x0 = 0; x0 < out_x; x0 += WIDE) {
      copy_line(v, who, g, x, n, z, y, x0, o0, gs, xs);
      __syncthreads();
      add_line(sum, gs, xs + lane * LD, out_x - x0);
      __syncthreads();
    }
  }
  const int row = row0 + lane;
  for (int i = 0; i < 4; i++) {
    const int o = o0 + group * 4 + i;
    for (int k = 0; k < KX; k++)
      if (row < rows && o < v.o)
        part[((i64)blockIdx.z * v.o + o) * rows * KX + (i64)row * KX + k] = sum[i][k];
  }
}

KERNEL direct_w_sum(const float *part, float *out, i64 numel, int shares) {
  const i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x;
  if (i >= numel) return;
  float sum = 0;
  for (int s = 0; s < shares; s++) sum += part[s * numel + i];
  out[i] = sum;
}
#endif
