/*
** Sums of gradients of user kernels, made so that they do not depend on the order of the threads.
** The derived kernel is launched twice: the first launch finds, for each parameter, the largest
** magnitude of a summand, the second adds integers scaled by it (kernel/text/text.c);
** kernels/ordered.cu turns these into floats. 48 bits below the largest summand are kept for f32,
** 61 for f64.
*/
#include "cuda/call/ordered.h"
#include <string.h>

typedef struct fixed { uint64_t low, high, peak, special; int64_t bits; } fixed;   /* as fl_fixed */
static const char *const defines[2] = { "#define REAL float\n", "#define REAL double\n" };

static int64_t aligned(int64_t n) { return (n + 255) / 256 * 256; }

/* Number of elements of the sum for parameter i; *wide: f64. */
static int64_t elements(const fl_kfunction *k, const fl_call *c, int i, int *wide) {
  int64_t a, b;
  const fl_karg_kind kind = fl_karg_of(c, i, &a, &b);
  *wide = k->f->params[i].type == FL_KT_F64;
  const int64_t bytes = kind == FL_KARG_OUT ? a : kind == FL_KARG_COPY
                        ? c->in_numel[a] * fl_dtype_size(c->in_dtype[a]) : 0;
  return bytes / (*wide ? 8 : 4);
}

static int64_t total(const fl_kfunction *k, const fl_call *c) {
  int64_t n = 0;
  int wide;
  for (int i = 0; i < k->f->n_params; i++) if (k->slot[i]) n += elements(k, c, i, &wide);
  return n;
}

/* Scratch holds the table that describes the sums (fixed), the peaks (largest magnitudes), then the
** high, special and low words of all sums. */
int64_t fl_ordered_scratch(const fl_kfunction *k, const fl_call *c) {
  if (!k->sums) return 0;
  const int64_t n = total(k, c);
  return aligned(k->sums * (int64_t)sizeof(fixed)) + aligned(k->sums * 8) + aligned(8 * n) +
         aligned(4 * n) + aligned(8 * n);
}

int fl_ordered_want(fl_cuda *s, const fl_kfunction *k) {
  int wide[2] = { 0, 0 };
  for (int i = 0; i < k->f->n_params; i++)
    if (k->slot[i]) wide[k->f->params[i].type == FL_KT_F64] = 1;
  for (int w = 0; w < 2; w++)
    if (wide[w] && !fl_cuda_want_file(s, "ordered.cu", defines[w], 0)) return 0;
  return 1;
}

flame_status fl_ordered_begin(fl_cuda *s, const fl_kfunction *k, const fl_call_run *r) {
  fixed table[FL_KP_MAX_ARGS];
  const int64_t n = total(k, r->call);
  uint64_t at = (uint64_t)(uintptr_t)r->scratch +
                (uint64_t)aligned(k->sums * (int64_t)sizeof(fixed));
  const uint64_t peaks = at, high = peaks + (uint64_t)aligned(k->sums * 8),
                 special = high + (uint64_t)aligned(8 * n),
                 low = special + (uint64_t)aligned(4 * n);
  int64_t done = 0;
  for (int i = 0; i < k->f->n_params; i++) {
    int wide;
    if (!k->slot[i]) continue;
    fixed *x = &table[k->slot[i] - 1];
    const int64_t m = elements(k, r->call, i, &wide);
    *x = (fixed){ low + 8 * (uint64_t)done, high + 8 * (uint64_t)done,
                  peaks + 8 * (uint64_t)(k->slot[i] - 1), special + 4 * (uint64_t)done,
                  wide ? 61 : 48 };
    done += m;
  }
  flame_status e = fl_stage_upload(s, r->scratch, table, k->sums * (int64_t)sizeof(fixed));
  if (e == FLAME_OK)
    e = fl_cuda_check(s, s->cu->Memset8((fl_cu_ptr)peaks, 0, (size_t)(low - peaks), s->stream),
                      "cuMemsetD8Async");
  if (e == FLAME_OK && n)
    e = fl_cuda_check(s, s->cu->Memset8((fl_cu_ptr)low, 0x80, (size_t)(8 * n), s->stream),
                      "cuMemsetD8Async");
  return e;
}

flame_status fl_ordered_end(fl_cuda *s, const fl_kfunction *k, const fl_call_run *r) {
  flame_status e = FLAME_OK;
  for (int i = 0; i < k->f->n_params && e == FLAME_OK; i++) {
    int wide;
    int64_t a, b, n = k->slot[i] ? elements(k, r->call, i, &wide) : 0;
    fl_cu_function f;
    if (!n) continue;
    fl_karg_of(r->call, i, &a, &b);
    fl_cu_ptr x = (fl_cu_ptr)((uintptr_t)r->scratch + sizeof(fixed) * (size_t)(k->slot[i] - 1)),
              out = (fl_cu_ptr)((uintptr_t)r->out + (uintptr_t)b);
    void *param[3] = { &x, &out, &n };
    e = fl_cuda_file_entry(s, "ordered.cu", defines[wide], 0, "ordered_finish", &f);
    if (e == FLAME_OK)
      e = fl_cuda_launch(s, f, (unsigned[3]){ (unsigned)((n + 255) / 256), 1, 1 },
                         (unsigned[3]){ 256, 1, 1 }, 0, param);
  }
  return e;
}
