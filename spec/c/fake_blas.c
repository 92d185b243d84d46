/*
** cuBLASLt of the fake driver (fake_driver.h), included by fake_driver.c. Products are computed,
** one sum in double precision for each element; while a stream is captured, a product becomes a
** node of the graph instead. If fake.ways is not 0, the library offers that many algorithms: each
** writes its number instead of the product and takes the time that a test has set for it.
*/

typedef struct fake_layout { unsigned type; int64_t rows, cols, ld,
                             stride; int32_t batch; } fake_layout;
typedef struct fake_desc { unsigned compute, scale; int32_t ta, tb, epilogue;
                           const void *bias; } fake_desc;
static size_t fake_cublasLtGetVersion(void) { return 130000; }
static fl_lt_status fake_cublasLtCreate(fl_lt_handle *h) {
  *h = fake_new(&fake.lt, 1);
  return FL_LT_OK;
}
static fl_lt_status fake_cublasLtDestroy(fl_lt_handle h) {
  fake_delete(&fake.lt, h);
  return FL_LT_OK;
}
static fl_lt_status fake_cublasLtMatmulDescCreate(fl_lt_desc *d, unsigned compute,
                                                  unsigned scale) {
  fake_desc *q = fake_new(&fake.lt, sizeof *q);
  if (q) *q = (fake_desc){ .compute = compute, .scale = scale };
  *d = q;
  return FL_LT_OK;
}
static fl_lt_status fake_cublasLtMatmulDescDestroy(fl_lt_desc d) {
  fake_delete(&fake.lt, d);
  return FL_LT_OK;
}
static fl_lt_status fake_cublasLtMatmulDescSetAttribute(fl_lt_desc d, unsigned which,
                                                        const void *p, size_t n) {
  fake_desc *q = d;
  if (which == FL_LT_BIAS && n == sizeof q->bias) {
    memcpy(&q->bias, p, n);
    return FL_LT_OK;
  }
  if (n != 4) return 7;
  if (which != FL_LT_TRANSA && which != FL_LT_TRANSB && which != FL_LT_EPILOGUE) return 7;
  memcpy(which == FL_LT_TRANSA ? &q->ta : which == FL_LT_TRANSB ? &q->tb : &q->epilogue, p, 4);
  return FL_LT_OK;
}
static fl_lt_status fake_cublasLtMatrixLayoutCreate(fl_lt_layout *l, unsigned type,
                                                    uint64_t rows, uint64_t cols, int64_t ld) {
  if (!rows || !cols || ld < (int64_t)rows) return 7;
  fake_layout *q = fake_new(&fake.lt, sizeof *q);
  if (q) *q = (fake_layout){ type, (int64_t)rows, (int64_t)cols, ld, 0, 1 };
  *l = q;
  return FL_LT_OK;
}
static fl_lt_status fake_cublasLtMatrixLayoutDestroy(fl_lt_layout l) {
  fake_delete(&fake.lt, l);
  return FL_LT_OK;
}
static fl_lt_status fake_cublasLtMatrixLayoutSetAttribute(fl_lt_layout l, unsigned which,
                                                          const void *p, size_t n) {
  fake_layout *q = l;
  if (which == FL_LT_BATCH_COUNT && n == 4) memcpy(&q->batch, p, 4);
  else if (which == FL_LT_BATCH_STRIDE && n == 8) memcpy(&q->stride, p, 8);
  else return 7;
  return FL_LT_OK;
}
static fl_lt_status fake_cublasLtMatmulPreferenceCreate(fl_lt_preference *p) {
  *p = fake_new(&fake.lt, 1);
  return FL_LT_OK;
}
static fl_lt_status fake_cublasLtMatmulPreferenceDestroy(fl_lt_preference p) {
  fake_delete(&fake.lt, p);
  return FL_LT_OK;
}
static fl_lt_status fake_cublasLtMatmulPreferenceSetAttribute(fl_lt_preference p, unsigned which,
                                                              const void *v, size_t n) {
  (void)p; (void)v;
  return n == (which == FL_LT_PREF_SPACE ? 8u : 4u) ? FL_LT_OK : 7;
}

/* 1 if the shapes of a, b and c fit together, as the library demands. */
static int fake_fits(const fake_desc *d, const fake_layout *a, const fake_layout *b,
                     const fake_layout *c) {
  const int64_t m = d->ta ? a->cols : a->rows, k = d->ta ? a->rows : a->cols;
  const int64_t n = d->tb ? b->rows : b->cols, kb = d->tb ? b->cols : b->rows;
  return m == c->rows && n == c->cols && k == kb && a->batch == b->batch && b->batch == c->batch;
}
static fl_lt_status fake_cublasLtMatmulAlgoGetHeuristic(fl_lt_handle h, fl_lt_desc d,
                                                        fl_lt_layout a,
    fl_lt_layout b, fl_lt_layout c, fl_lt_layout o, fl_lt_preference p, int want,
    fl_lt_found *found, int *n) {
  (void)h; (void)o; (void)p;
  if (!fake_fits(d, a, b, c)) return 7;
  *n = fake.ways && fake.ways < want ? fake.ways : fake.ways ? want : 1;
  memset(found, 0, (size_t)*n * sizeof *found);
  for (int i = 0; i < *n; i++) found[i].algo.data[0] = (uint64_t)i;
  return FL_LT_OK;
}

static double fake_of_half(uint16_t h) {
  const uint64_t e = h >> 10 & 31, m = h & 0x3ff, b = (e + 1008) << 52 | m << 42;
  double x = 0x1p-24 * (double)m;
  if (e) memcpy(&x, &b, 8);
  if (e == 31) x = m ? NAN : INFINITY;
  return h & 0x8000 ? -x : x;
}
static double fake_get(const void *p, unsigned type, int64_t i) {
  if (type == FL_LT_R_64F) return ((const double *)p)[i];
  if (type == FL_LT_R_32F) return ((const float *)p)[i];
  const uint16_t h = ((const uint16_t *)p)[i];
  const uint32_t b = (uint32_t)h << 16;
  float x;
  memcpy(&x, &b, 4);
  return type == FL_LT_R_16F ? fake_of_half(h) : (double)x;
}
/* x rounded to 'bits' significant bits, ties to even. A value whose exponent (of frexp) is below
** 'low' is rounded as a subnormal: to the spacing of values at 'low'. */
static double fake_near(double x, int bits, int low) {
  int e;
  if (x == 0 || !isfinite(x)) return x;
  frexp(x, &e);
  const int unit = (e < low ? low : e) - bits;
  return ldexp(rint(ldexp(x, -unit)), unit);
}
static void fake_store(void *p, unsigned type, int64_t i, double x) {
  if (type == FL_LT_R_64F) { ((double *)p)[i] = x; return; }
  if (type == FL_LT_R_32F) { ((float *)p)[i] = (float)x; return; }
  uint16_t *h = (uint16_t *)p + i;
  if (type == FL_LT_R_16F) {
    const double y = fabs(fake_near(x, 11, -13));
    int e;
    if (y > 65504 || isnan(y)) *h = isnan(y) ? 0x7fff : 0x7c00;
    else if (y < ldexp(1, -14)) *h = (uint16_t)ldexp(y, 24);
    else {
      const double m = frexp(y, &e);
      *h = (uint16_t)((e + 14) << 10 | ((int)ldexp(m, 11) & 0x3ff));
    }
    if (signbit(x) && !isnan(x)) *h |= 0x8000;
    return;
  }
  const float f = (float)fake_near(x, 8, -125);
  uint32_t b;
  memcpy(&b, &f, 4);
  *h = isnan(x) ? 0x7fff : (uint16_t)(b >> 16);
}
/* A product with copies of its descriptors: a graph computes it later, when the caller may have
** destroyed them. */
struct fake_product {
  fake_desc d;
  fake_layout a, b, c, o;
  double alpha, beta;
  const void *pa, *pb, *pc;
  void *po;
  int way;
};
/* sum[c] becomes the sum over k, in this order, of x[k] * y[k * FAKE_COLS + c]: a strip of
** FAKE_ROWS rows of a, times a column of b. */
enum { FAKE_ROWS = 8, FAKE_COLS = 4, FAKE_TILE = 256 };
typedef double fake_four __attribute__((vector_size(32)));
typedef struct fake_strip { fake_four low, high; } fake_strip;
static inline __attribute__((always_inline)) void fake_add_strip(const fake_strip *x,
    const double *y, int64_t kk, fake_strip *sum) {
  fake_four l0 = { 0 }, l1 = { 0 }, l2 = { 0 }, l3 = { 0 };
  fake_four h0 = { 0 }, h1 = { 0 }, h2 = { 0 }, h3 = { 0 };
  for (int64_t k = 0; k < kk; k++, y += FAKE_COLS) {
    const fake_four low = x[k].low, high = x[k].high;
    l0 += low * y[0], h0 += high * y[0];
    l1 += low * y[1], h1 += high * y[1];
    l2 += low * y[2], h2 += high * y[2];
    l3 += low * y[3], h3 += high * y[3];
  }
  sum[0] = (fake_strip){ l0, h0 };
  sum[1] = (fake_strip){ l1, h1 };
  sum[2] = (fake_strip){ l2, h2 };
  sum[3] = (fake_strip){ l3, h3 };
}
#ifdef __x86_64__
__attribute__((target("avx2")))
static void fake_add_wide(const fake_strip *x, const double *y, int64_t kk, fake_strip *sum) {
  fake_add_strip(x, y, kk, sum);
}
#endif
static void fake_add_products(const fake_strip *x, const double *y, int64_t kk, fake_strip *sum) {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) {
    fake_add_wide(x, y, kk, sum);
    return;
  }
#endif
  fake_add_strip(x, y, kk, sum);
}
/* Rows at … of a, from which FAKE_ROWS are taken at a time; there are zeros after the last one. */
static void fake_read_rows(const struct fake_product *p, int64_t q, int64_t at, int width,
                           int64_t kk, double *x) {
  const fake_layout *a = &p->a;
  for (int64_t from = at; from < at + width; from += FAKE_ROWS)
    for (int64_t k = 0; k < kk; k++)
      for (int64_t i = from; i < from + FAKE_ROWS; i++)
        *x++ = i >= p->o.rows ? 0
             : fake_get(p->pa, a->type, q * a->stride + (p->d.ta ? i * a->ld + k : k * a->ld + i));
}
static void fake_read_columns(const struct fake_product *p, int64_t q, int64_t at, int64_t kk,
                              double *y) {
  const fake_layout *b = &p->b;
  for (int64_t k = 0; k < kk; k++)
    for (int64_t c = 0; c < FAKE_COLS; c++) {
      const int64_t j = at + c;
      *y++ = j >= p->o.cols ? 0
           : fake_get(p->pb, b->type, q * b->stride + (p->d.tb ? k * b->ld + j : j * b->ld + k));
    }
}
static void fake_element(const struct fake_product *p, int64_t q, int64_t i, int64_t j,
                         double sum) {
  const fake_layout *c = &p->c, *o = &p->o;
  sum *= p->alpha;
  if (p->beta != 0 && o->type == FL_LT_R_32F) sum = (float)sum;              /* as it accumulates */
  if (p->beta != 0) sum += p->beta * fake_get(p->pc, c->type, q * c->stride + j * c->ld + i);
  if (p->d.epilogue == FL_LT_EPILOGUE_BIAS) sum += fake_get(p->d.bias, o->type, i);
  fake_store(p->po, o->type, q * o->stride + j * o->ld + i, sum);
}
/* The elements of FAKE_COLS columns from j on in 'width' rows from 'at' on. */
static void fake_tile(const struct fake_product *p, int64_t q, int64_t at, int width, int64_t j,
                      int64_t kk, const fake_strip *x, const double *y) {
  const fake_layout *o = &p->o;
  for (int r = 0; r < width; r += FAKE_ROWS, x += kk) {
    fake_strip sum[FAKE_COLS];
    fake_add_products(x, y, kk, sum);
    for (int c = 0; c < FAKE_COLS && j + c < o->cols; c++)
      for (int v = 0; v < FAKE_ROWS && at + r + v < o->rows; v++)
        fake_element(p, q, at + r + v, j + c, v < 4 ? sum[c].low[v] : sum[c].high[v - 4]);
  }
}
/* Matrix q of the batch, many rows at a time. */
static void fake_by_tiles(const struct fake_product *p, int64_t q, int64_t kk) {
  const fake_layout *o = &p->o;
  const size_t bytes = sizeof(fake_strip) * (size_t)(kk + 1);
  fake_strip *x = aligned_alloc(sizeof *x, bytes * (FAKE_TILE / FAKE_ROWS));
  double *y = malloc(sizeof *y * FAKE_COLS * (size_t)(kk + 1));
  if (!x || !y) abort();
  for (int64_t at = 0; at < o->rows; at += FAKE_TILE) {
    const int width = o->rows - at < FAKE_TILE ? (int)(o->rows - at) : FAKE_TILE;
    fake_read_rows(p, q, at, width, kk, (double *)x);
    for (int64_t j = 0; j < o->cols; j += FAKE_COLS) {
      fake_read_columns(p, q, j, kk, y);
      fake_tile(p, q, at, width, j, kk, x, y);
    }
  }
  free(x);
  free(y);
}
static double fake_rounded(const struct fake_product *p, double x) {
  return p->d.compute == FL_LT_COMPUTE_TF32 ? fake_near(x, 11, -125) : x;
}
/* The same sums, one element after the other. */
static void fake_one_by_one(const struct fake_product *p, int64_t q, int64_t kk) {
  const fake_layout *a = &p->a, *b = &p->b;
  for (int64_t j = 0; j < p->o.cols; j++)
    for (int64_t i = 0; i < p->o.rows; i++) {
      double sum = 0;
      for (int64_t k = 0; k < kk; k++)
        sum += fake_rounded(p, fake_get(p->pa, a->type,
                            q * a->stride + (p->d.ta ? i * a->ld + k : k * a->ld + i))) *
               fake_rounded(p, fake_get(p->pb, b->type,
                            q * b->stride + (p->d.tb ? k * b->ld + j : j * b->ld + k)));
      fake_element(p, q, i, j, sum);
    }
}
static int64_t fake_extent(const fake_layout *l) {
  const int64_t n = (l->batch - 1) * l->stride + (l->cols - 1) * l->ld + l->rows;
  return n * (l->type == FL_LT_R_64F ? 8 : l->type == FL_LT_R_32F ? 4 : 2);
}
/* Whether the output may lie where an operand does. It is written element by element then, so that
** a plan in which a product destroys what it reads gets wrong values. */
static int fake_meets(const void *p, const fake_layout *l, const void *out, const fake_layout *o) {
  const char *x = p, *y = out;
  return x < y + fake_extent(o) && y < x + fake_extent(l);
}
static void fake_multiply(const struct fake_product *p) {
  const int64_t kk = p->d.ta ? p->a.rows : p->a.cols;
  const int meets = p->d.compute == FL_LT_COMPUTE_TF32 || fake_meets(p->pa, &p->a, p->po, &p->o) ||
                    fake_meets(p->pb, &p->b, p->po, &p->o);
  for (int64_t q = 0; q < p->o.batch; q++)
    if (meets) fake_one_by_one(p, q, kk);
    else fake_by_tiles(p, q, kk);
}
static fl_lt_status fake_do_product(const struct fake_product *p) {
  fake.products++;
  fake.way = p->way;
  fake.way_runs[fake.way]++;
  if (fake.ways && fake.way_ms[p->way] < 0) return 15;                 /* not supported */
  fake.tf32 += p->d.compute == FL_LT_COMPUTE_TF32 && !fake.ways;
  if (fake.idle) return FL_LT_OK;
  if (!fake.ways) fake_multiply(p);
  else if (p->o.cols > 0) memcpy(p->po, &(float){ (float)fake.way }, sizeof(float));
  return FL_LT_OK;
}
static double fake_scale(const fake_desc *d, const void *p) {
  return d->scale == FL_LT_R_64F ? *(const double *)p : *(const float *)p;
}
static fl_lt_status fake_cublasLtMatmul(fl_lt_handle h, fl_lt_desc desc,
                                        const void *alpha, const void *pa,
    fl_lt_layout al, const void *pb, fl_lt_layout bl, const void *beta, const void *pc,
    fl_lt_layout cl, void *po, fl_lt_layout ol, const fl_lt_algo *algo, void *space, size_t bytes,
    fl_cu_stream s) {
  const fake_desc *d = desc;
  const fake_layout *a = al, *b = bl, *c = cl, *o = ol;
  (void)h; (void)space; (void)bytes; (void)s;
  if (!fake_fits(d, a, b, o)) return 7;
  const struct fake_product p = { *d, *a, *b, *c, *o, fake_scale(d, alpha), fake_scale(d, beta),
                                  pa, pb, pc, po, (int)algo->data[0] };
  fake_node *x = fake_capture(FAKE_PRODUCT);
  if (x) {
    x->product = malloc(sizeof *x->product);
    if (!x->product) abort();
    *x->product = p;
    return FL_LT_OK;
  }
  return fake_do_product(&p);
}
