/*
** cuBLASLt of the fake driver (fake_driver.h), included by fake_driver.c. Products of f32 and f64
** are computed, one sum in double precision for each element; under capture they become nodes. With
** 'ways' there are several algorithms, which write their number and take the times that a test set.
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

/* The shapes must fit together, as the library demands. */
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

static double fake_get(const void *p, unsigned type, int64_t i) {
  return type == FL_LT_R_64F ? ((const double *)p)[i] : ((const float *)p)[i];
}
struct fake_product {
  fl_lt_handle h;
  fl_lt_desc desc;
  const void *alpha, *pa;
  fl_lt_layout al;
  const void *pb;
  fl_lt_layout bl;
  const void *beta, *pc;
  fl_lt_layout cl;
  void *po;
  fl_lt_layout ol;
  const fl_lt_algo *algo;
  void *space;
  size_t bytes;
  fl_cu_stream s;
};
static void fake_multiply(const fake_desc *d, const fake_layout *a, const fake_layout *b,
                          const fake_layout *c, const void *pa, const void *pb, void *po) {
  const int64_t kk = d->ta ? a->rows : a->cols;
  for (int64_t q = 0; q < c->batch; q++)
    for (int64_t j = 0; j < c->cols; j++)
      for (int64_t i = 0; i < c->rows; i++) {
        double sum = 0;
        for (int64_t k = 0; k < kk; k++)
          sum += fake_get(pa, a->type,
                          q * a->stride + (d->ta ? i * a->ld + k : k * a->ld + i)) *
                 fake_get(pb, b->type,
                          q * b->stride + (d->tb ? k * b->ld + j : j * b->ld + k));
        const int64_t at = q * c->stride + j * c->ld + i;
        if (d->epilogue == FL_LT_EPILOGUE_BIAS) sum += fake_get(d->bias, c->type, i);
        if (c->type == FL_LT_R_64F) ((double *)po)[at] = sum;
        else ((float *)po)[at] = (float)sum;
      }
}
static fl_lt_status fake_cublasLtMatmul(fl_lt_handle h, fl_lt_desc desc,
                                        const void *alpha, const void *pa,
    fl_lt_layout al, const void *pb, fl_lt_layout bl, const void *beta, const void *pc,
    fl_lt_layout cl, void *po, fl_lt_layout ol, const fl_lt_algo *algo, void *space, size_t bytes,
    fl_cu_stream s) {
  const fake_desc *d = desc;
  const fake_layout *a = al, *b = bl, *c = ol;
  (void)h;
  (void)alpha;
  (void)beta;
  (void)pc;
  (void)cl;
  (void)space;
  (void)bytes;
  (void)s;
  if (!fake_fits(d, a, b, c)) return 7;
  fake_node *x = fake_capture(FAKE_PRODUCT);
  if (x) {
    x->product = malloc(sizeof *x->product);
    if (!x->product) abort();
    *x->product = (struct fake_product){ h, desc, alpha, pa, al, pb, bl, beta, pc, cl, po, ol, algo,
                                         space, bytes, s };
    return FL_LT_OK;
  }
  fake.products++;
  fake.way = (int)algo->data[0];
  fake.way_runs[fake.way]++;
  if (fake.ways && fake.way_ms[fake.way] < 0) return 15;                 /* not supported */
  if (fake.ways) {
    if (c->cols > 0) memcpy(po, &(float){ (float)fake.way }, sizeof(float));
    return FL_LT_OK;
  }
  fake.tf32 += d->compute == FL_LT_COMPUTE_TF32;
  fake_multiply(d, a, b, c, pa, pb, po);
  return FL_LT_OK;
}
