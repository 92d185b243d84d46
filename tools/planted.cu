// Two planted faults that the sanitizer must detect: "bounds" writes one element past the end,
// "race" reads what another thread stores in shared memory, without a barrier in between.
#include <cstdio>
#include <cstring>
__global__ void bounds(float *y, int n) { if (threadIdx.x <= n) y[threadIdx.x] = 1; }
__global__ void race(float *y) {
  __shared__ float s[64];
  s[threadIdx.x] = threadIdx.x;
  y[threadIdx.x] = s[63 - threadIdx.x];
}
int main(int argc, char **argv) {
  float *y;
  cudaMalloc(&y, 64 * sizeof(float));
  if (argc > 1 && !strcmp(argv[1], "race")) race<<<1, 64>>>(y);
  else bounds<<<1, 128>>>(y, 64);
  printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
  return 0;
}
