/*
** The end of exact sums (src/kernel/text/text.c, src/cuda/call/ordered.c): out[i] += the 128-bit
** integer that the threads have added up, scaled back. One thread per element; reads 20 bytes, and
** reads and writes an element of the result. REAL: float or double, defined by the host.
*/
struct fl_fixed { unsigned long long *low, *high, *peak; unsigned *special; long long bits; };

extern "C" __global__ void ordered_finish(const fl_fixed *x, REAL *out, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i >= n) return;
  const unsigned flags = x->special[i];
  /* the value that 'low' is filled with before the sums */
  const unsigned long long start = 0x8080808080808080ull;
  unsigned long long low = x->low[i] - start, high = x->high[i] - (x->low[i] < start);
  const bool negative = (long long)high < 0;
  if (negative) {
    low = ~low + 1;
    high = ~high + (low == 0);
  }
  const double v = (double)high * 18446744073709551616.0 + (double)low;
  const int k = (int)x->bits - ((int)(*x->peak >> 52) - 1023);
  double r = *x->peak ? scalbn(negative ? -v : v, -k) : 0.0;
  if (flags & 2) r = __longlong_as_double(0x7ff0000000000000ll);
  if (flags & 4) r = __longlong_as_double((long long)0xfff0000000000000ull);
  if ((flags & 1) || (flags & 6) == 6) r = __longlong_as_double(0x7ff8000000000000ll);
  out[i] += (REAL)r;
}
