/*
** The tile kernel, included once per type with
**   T, V (vector of T), MR, NV (vectors per row), NAME, ONE(x) (all lanes x), FMA(a, b, c)
** MR * NV accumulators, NV rows of B and one element of A stay in registers.
*/
static void NAME(int64_t k, const T *a, const T *b, T *c, int64_t ldc, int add) {
  enum { L = sizeof(V) / sizeof(T), NR = NV * L };
  V acc[MR][NV];
#pragma GCC unroll 16
  for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
    for (int j = 0; j < NV; j++) acc[i][j] = (V){ 0 };
  for (int64_t p = 0; p < k; p++, a += MR, b += NR) {
    V row[NV];
#pragma GCC unroll 4
    for (int j = 0; j < NV; j++) memcpy(&row[j], b + j * L, sizeof(V));
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++) {
      const V x = ONE(a[i]);
#pragma GCC unroll 4
      for (int j = 0; j < NV; j++) acc[i][j] = FMA(x, row[j], acc[i][j]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
    for (int j = 0; j < NV; j++) {
      V y = acc[i][j];
      if (add) {
        V old;
        memcpy(&old, c + i * ldc + j * L, sizeof(V));
        y = old + y;
      }
      memcpy(c + i * ldc + j * L, &y, sizeof(V));
    }
}
#undef T
#undef V
#undef MR
#undef NV
#undef NAME
#undef ONE
#undef FMA
