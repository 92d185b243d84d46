/*
** Matrix products: which method each uses.
**   tiny ones and integers   plain loops (direct.c), spread over batches and rows; also small
**                            products of one or two rows
**   large or thin f32, f64   OpenBLAS, if it can be opened: cut into parts, each of which
**                            is one call of the library by one worker, without further threads
**   the rest                 our own kernel (gemm.c): halves, odd strides, batches of small ones,
**                            and middle sizes of f32, where it is as fast and divides better
** The choice, and the parts for the library, depend only on shapes, strides and dtype, so the bits
** of a result do not depend on the number of workers.
*/
#include "cpu/gemm/matmul.h"
#include "cpu/gemm/blas.h"
#include "base/num.h"
#include <limits.h>
#include <string.h>

enum { TINY = 4096, SMALL = 1 << 21, ROWS_WORK = 1 << 20 };
/* Parts of a product for the library. Each part packs all of B, or of A, again: smaller parts would
** cost more than 5 % on one thread. In middle sizes B is small, and parts may have fewer rows. */
enum { LEAST_WORK = 1 << 23, MIDDLE = 1 << 25, THIN = 48, PARTS = 16, LEAST_ROWS = 256,
       MIDDLE_ROWS = 104, LEAST_COLS = 512 };
static const int64_t block_work = 700 * 1000 * 1000;      /* f64 multiply-adds of one BLAS call */

typedef struct cut { int64_t mb, nb, kb; } cut;

typedef struct product {
  const fl_matmul *m;
  const fl_gemm *g;
  fl_gemm_shape shape;
  char *a, *b, *c, *scratch;
  const char *bias;            /* NULL: none */
  int64_t rows, units;         /* direct: rows per unit; units per batch */
  const struct fl_blas *blas;
  struct form { int trans; int64_t ld; } fa, fb;
  cut cut;                     /* of a BLAS product: a unit is mb x nb of C, in calls of kb terms */
  const atomic_int *stop;
} product;
typedef struct form form;

const fl_gemm *fl_gemm_of(const fl_vm *vm) {
#if defined(__x86_64__)
  if (vm == &fl_vm_avx512) return &fl_gemm_avx512;
  if (vm == &fl_vm_avx2) return &fl_gemm_avx2;
#endif
  (void)vm;
  return &fl_gemm_base;
}

static int64_t batches(const fl_matmul *m) {
  int64_t n = 1;
  for (int d = 0; d < m->nbatch; d++) n *= m->batch[d];
  return n;
}

static int64_t work(const fl_matmul *m) {
  const double w = (double)m->m * (double)m->n * (double)m->k;
  return w > 9e18 ? INT64_MAX : (int64_t)w;
}

static int is_native(const fl_matmul *m) { return m->dtype == FLAME_F32 || m->dtype == FLAME_F64; }

/* Matrices of batch element i. */
static void at_batch(const product *p, int64_t i, char **a, char **b, char **c) {
  const fl_matmul *m = p->m;
  int64_t ao = 0, bo = 0, co = 0;
  for (int d = m->nbatch - 1; d >= 0; d--) {
    const int64_t x = i % m->batch[d];
    i /= m->batch[d];
    ao += x * m->abatch[d];
    bo += x * m->bbatch[d];
    co += x * m->cbatch[d];
  }
  const int64_t size = fl_dtype_size(m->dtype);
  *a = p->a + ao * size;
  *b = p->b + bo * size;
  *c = p->c + co * size;
}

/* ---- the library --------------------- */

/* How BLAS reads rows x cols with strides s; 0 if it can not. */
static int library_form(int64_t rows, int64_t cols, const int64_t s[2], form *f) {
  if ((s[1] == 1 || cols == 1) && (rows == 1 || s[0] >= cols)) {
    f->trans = FL_BLAS_PLAIN;
    f->ld = rows == 1 || s[0] < cols ? cols : s[0];
  } else if ((s[0] == 1 || rows == 1) && (cols == 1 || s[1] >= rows)) {
    f->trans = FL_BLAS_TRANS;
    f->ld = cols == 1 || s[1] < rows ? rows : s[1];
  } else {
    return 0;
  }
  return f->ld <= INT_MAX && rows <= INT_MAX && cols <= INT_MAX;
}

static void call_blas(const fl_blas *blas, const fl_matmul *m, const form *fa, const form *fb,
                      int64_t mi, int64_t nj, int64_t kp, const char *a, const char *b, char *c,
                      int add) {
  const void *x = a, *y = b;
  void *z = c;
  if (m->dtype == FLAME_F32)
    blas->sgemm(FL_BLAS_ROW_MAJOR, fa->trans, fb->trans, (int)mi, (int)nj, (int)kp, 1.0f, x,
                (int)fa->ld, y, (int)fb->ld, add ? 1.0f : 0.0f, z, (int)m->n);
  else
    blas->dgemm(FL_BLAS_ROW_MAJOR, fa->trans, fb->trans, (int)mi, (int)nj, (int)kp, 1.0, x,
                (int)fa->ld, y, (int)fb->ld, add ? 1.0 : 0.0, z, (int)m->n);
}

/* Into how many equal parts of at least 'least_size' n can be divided, at most PARTS. */
static int64_t parts_of(int64_t n, int64_t least_size) {
  return fl_max(1, fl_min(n / least_size, PARTS));
}

/* The size of a part: a multiple of 32, since the library works in panels of that width. */
static int64_t even_part(int64_t n, int64_t parts) {
  return parts < 2 ? n : fl_round_up(fl_ceil_div(n, parts), 32);
}

/* *rows: the number of parts wanted. Arranges at least three quarters of it as the grid (*rows,
** *columns) that packs the least: A is packed once for each column of the grid, B for each row. */
static void as_grid(const fl_matmul *m, int64_t *rows, int64_t *columns) {
  const int64_t parts = *rows;
  int64_t least = parts * m->n + m->m;
  for (int64_t c = 2; c <= parts && m->n / c >= LEAST_COLS; c++) {
    const int64_t r = parts / c;
    if (4 * r * c < 3 * parts || r * m->n + c * m->m >= least) continue;
    least = r * m->n + c * m->m;
    *rows = r;
    *columns = c;
  }
}

/* Divides the rows of C, in f32 its columns too; only the columns if there are few rows; and the
** terms, so that a call has at most about block_work multiplications (twice as many in f32), but at
** least 256 terms. */
static cut cut_of(const fl_matmul *m) {
  cut c = { m->m, m->n, m->k };
  if (work(m) > LEAST_WORK) {
    int64_t rows = parts_of(m->m, work(m) > MIDDLE ? LEAST_ROWS : MIDDLE_ROWS), columns = 1;
    if (rows == 1) columns = parts_of(m->n, LEAST_COLS);
    else if (m->dtype == FLAME_F32) as_grid(m, &rows, &columns);
    c.mb = even_part(m->m, rows);
    c.nb = even_part(m->n, columns);
  }
  const int64_t terms = (m->dtype == FLAME_F32 ? 2 : 1) * block_work / c.mb / c.nb;
  c.kb = fl_min(m->k, terms < 256 ? 256 : terms);
  return c;
}

static void blas_unit(void *arg, int64_t unit, int worker) {
  const product *p = arg;
  const fl_matmul *m = p->m;
  const int64_t size = fl_dtype_size(m->dtype), across = fl_ceil_div(m->n, p->cut.nb);
  const int64_t r = unit % p->units / across * p->cut.mb, q = unit % p->units % across * p->cut.nb;
  const int before = fl_blas_thread_enter(1);
  char *a, *b, *c;
  (void)worker;
  at_batch(p, unit / p->units, &a, &b, &c);
  for (int64_t k = 0; k < m->k; k += p->cut.kb) {
    if (atomic_load_explicit(p->stop, memory_order_relaxed)) break;
    call_blas(p->blas, m, &p->fa, &p->fb, fl_min(p->cut.mb, m->m - r), fl_min(p->cut.nb, m->n - q),
              fl_min(p->cut.kb, m->k - k), a + (r * m->as[0] + k * m->as[1]) * size,
              b + (k * m->bs[0] + q * m->bs[1]) * size, c + (r * m->n + q) * size, k > 0);
  }
  fl_blas_thread_leave(before);
}

static void run_blas(fl_device *dev, product *p) {
  fl_cpu *d = dev->state;
  const fl_matmul *m = p->m;
  p->cut = cut_of(m);
  p->units = fl_ceil_div(m->m, p->cut.mb) * fl_ceil_div(m->n, p->cut.nb);
  p->stop = d->stop;
  const int64_t units = batches(m) * p->units;
  fl_blas_enter(1);
  if (!p->blas->alone) fl_threads_run(d->pool, units, blas_unit, p, d->stop);
  else for (int64_t u = 0; u < units && !fl_stopped(dev); u++) blas_unit(p, u, 0);
  fl_blas_leave(1);
}

/* ---- our own --------------------- */

static void gemm_unit(void *arg, int64_t unit, int worker) {
  const product *p = arg;
  char *a, *b, *c;
  at_batch(p, unit / p->units, &a, &b, &c);
  fl_gemm_block(p->m, p->g, &p->shape, unit % p->units, a, b, c, p->bias,
                p->scratch + worker * fl_gemm_scratch());
}

static void direct_unit(void *arg, int64_t unit, int worker) {
  const product *p = arg;
  fl_matmul part = *p->m;
  const int64_t r = unit % p->units * p->rows, size = fl_dtype_size(part.dtype);
  char *a, *b, *c;
  (void)worker;
  at_batch(p, unit / p->units, &a, &b, &c);
  part.m = fl_min(p->rows, part.m - r);
  fl_matmul_direct(&part, a + r * part.as[0] * size, b, c + r * part.n * size, p->bias);
}

/* Several tiny products form one unit of work, so that workers are not woken for only a few of
** them. */
static void run_direct(fl_device *dev, product *p) {
  fl_cpu *d = dev->state;
  const fl_matmul *m = p->m;
  const int64_t row = m->n * m->k;
  p->rows = row < ROWS_WORK ? ROWS_WORK / (row ? row : 1) : 1;
  if (p->rows > m->m) p->rows = m->m;
  p->units = (m->m + p->rows - 1) / p->rows;
  const int64_t units = batches(m) * p->units;
  if ((double)units * (double)p->rows * (double)row > 65536)
    fl_threads_run(d->pool, units, direct_unit, p, d->stop);
  else for (int64_t u = 0; u < units; u++) direct_unit(p, u, 0);
}

static void run_gemm(fl_device *dev, product *p) {
  fl_cpu *d = dev->state;
  const int64_t count = batches(p->m);
  p->g = fl_gemm_of(d->vm);
  fl_gemm_blocks(p->m, p->g, d->width, count, &p->shape);
  p->units = p->shape.mb * p->shape.nb;
  p->scratch = d->shared;
  fl_threads_run(d->pool, count * p->units, gemm_unit, p, d->stop);
}

static void zero(const product *p) {
  const fl_matmul *m = p->m;
  const int64_t count = batches(m);
  char *a, *b, *c;
  for (int64_t i = 0; i < count; i++) {
    at_batch(p, i, &a, &b, &c);
    memset(c, 0, (size_t)(m->m * m->n * fl_dtype_size(m->dtype)));
  }
}

/* ---- the choice --------------------- */

typedef enum { NOTHING, ZERO, DIRECT, BLAS, GEMM } way;

/* Is our own kernel as fast as the library's, and better divided among workers? In f64 it takes
** 1.25 times as long on one thread. */
static int is_middle(const fl_matmul *m) {
  return m->dtype == FLAME_F32 && m->m >= THIN && m->n >= THIN && work(m) > LEAST_WORK &&
         work(m) <= MIDDLE;
}

static way choose(const fl_cpu *d, const fl_matmul *m, form *fa, form *fb, const fl_blas **blas) {
  if (m->m == 0 || m->n == 0 || batches(m) == 0) return NOTHING;
  if (m->k == 0) return ZERO;
  if (!fl_is_float(m->dtype) || work(m) <= TINY) return DIRECT;
  if (m->m <= 2 && m->bs[1] == 1 && work(m) <= SMALL) return DIRECT;      /* rows of B, summed */
  const int many = batches(m) >= 8 && work(m) <= SMALL;
  if (!is_native(m) || many || is_middle(m) || m->n > INT_MAX) return GEMM;
  if (!library_form(m->m, m->k, m->as, fa) || !library_form(m->k, m->n, m->bs, fb)) return GEMM;
  *blas = fl_blas_get(d->blas_name, d->width, fl_gemm_of(d->vm)->level);
  return *blas ? BLAS : GEMM;
}

int64_t fl_matmul_bytes(const fl_cpu *d, const fl_matmul *m) {
  form fa, fb;
  const fl_blas *blas;
  return choose(d, m, &fa, &fb, &blas) == GEMM ? d->width * fl_gemm_scratch() : 0;
}

/* Adds an array that lies as the result does. Only saved programs of a GPU have this on the CPU, so
** it may take a separate pass. */
static void add(const product *p, const void *from) {
  const float *x = from;
  float *c = (float *)p->c;
  const int64_t n = batches(p->m) * p->m->m * p->m->n;
  for (int64_t i = 0; i < n; i++) c[i] += x[i];
}

flame_status fl_matmul_run(fl_device *dev, const fl_matmul *m, const fl_binding *bind) {
  const int64_t size = fl_dtype_size(m->dtype);
  product p = { .m = m };
  const way w = choose(dev->state, m, &p.fa, &p.fb, &p.blas);
  if (w == NOTHING) return FLAME_OK;
  p.a = (char *)fl_place_address(bind, &m->at) + m->aoff * size;
  p.b = (char *)fl_place_address(bind, &m->bt) + m->boff * size;
  p.c = (char *)fl_place_address(bind, &m->ct) + m->coff * size;
  char *bias = NULL;
  if (m->biased) bias = (char *)fl_place_address(bind, &m->bias) + m->bias_off * size;
  if (m->biased == FL_BIAS_ROW) p.bias = bias;
  if (w == ZERO) zero(&p);
  else if (w == DIRECT) run_direct(dev, &p);
  else if (w == BLAS) run_blas(dev, &p);
  else run_gemm(dev, &p);
  if (m->biased == FL_BIAS_ALL) add(&p, bias);
  return FLAME_OK;
}
