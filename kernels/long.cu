/*
** The end of a product whose terms were divided (src/cuda/library/long.c): the products of the
** chunks, each rows x cols, are added in their order, and what is added to the product after them.
** A thread has one element; parts are read once, coalesced. T, float or double, is defined before.
*/
struct long_args {                      /* laid out as in long.c */
  const T *part, *add; T *c; long long rows, cols, step, parts;
};

extern "C" __global__ void __launch_bounds__(256) join(const __grid_constant__ long_args a) {
  const long long i = blockIdx.x * 256ll + threadIdx.x, n = a.rows * a.cols;
  if (i >= n) return;
  T sum = a.part[i];
  for (long long k = 1; k < a.parts; k++) sum += a.part[k * n + i];
  const long long at = i / a.cols * a.step + i % a.cols;
  a.c[at] = a.add ? sum + a.add[at] : sum;
}
