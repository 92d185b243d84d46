/*
** Attention on the CPU. Scores exist only as panels of 'nr' lanes, which the tiles of cpu/gemm
** write and read (gemm.h): in the forward pass (call_attention.c) lanes are rows of q, so that a
** panel of weights has the form of a packed panel of the next product; in the backward pass
** (call_attention_back.c) they are keys, for the same reason. Half types are computed in f32;
** weights are rounded to the half type before they are multiplied.
**
** Below are the loops over panels, one table for each instruction set (vm_attention.h); all give
** the same bits.
*/
#ifndef FL_CPU_ATTENTION_H
#define FL_CPU_ATTENTION_H
#include "cpu/gemm/matmul.h"
#include "tensor/call_attention.h"

/* A panel of products q k': element (u, lane) is c[u * nr + lane]; only 'lanes' lanes are used. */
typedef struct fl_scores {
  void *c;
  int64_t n, lanes;
  double scale;
  int causal, sign;                    /* a score is hidden where sign * (u - lane) > gap */
  int64_t gap;
  int mask;                            /* FL_MASK_* */
  const char *at;                      /* address of the mask's element (0, 0); its steps are in
                                       ** bytes */
  int64_t step_u, step_lane;
} fl_scores;

/* The functions for one dtype. T is f64 for f64, else f32. Arrays have nr elements unless a number
** is given. */
typedef struct fl_attention_fns {
  /* Replaces products with scores: scaled, -inf where hidden, plus the mask. */
  void (*score)(const fl_scores *s);
  /* Replaces scores (n, nr) with exp(score - top), rounded; top: maxima so far, sum: sum of weights
  ** so far, both updated; fade: the factor by which earlier sums must be multiplied, since
  ** top has changed. */
  void (*weigh)(void *c, int64_t n, void *top, void *sum, void *fade);
  /* Multiplies c (n, nr) by a number where it is kept, and sets it to 0 elsewhere; rows of 'keep'
  ** are 'step' bytes apart. */
  void (*drop)(void *c, int64_t n, const char *keep, int64_t step, double by);
  /* Multiplies acc (n, nr) by the factor of each lane. */
  void (*fade)(void *acc, int64_t n, const void *factor);
  /* out[lane * step + u] = acc (n, nr) times the lane's factor. */
  void (*put)(const void *acc, int64_t n, int64_t lanes, const void *factor, int64_t step,
              void *out);
  /* factor = by / sum; lse: the log-sum-exps, f64 for a T of f64, else f32. */
  void (*finish)(const void *top, const void *sum, int64_t lanes, double by, void *factor,
                 void *lse);
  /* delta[i] = sum of g o along row i; their rows are 'step' and 'o_step' elements apart. */
  void (*dot)(const void *g, int64_t step, const void *o, int64_t o_step, int64_t rows, int64_t n,
              void *delta);
  /* Replaces scores p (n, nr) with exp(p - lse) and dp with p (dp - delta), rounded; with 'hides'
  ** the latter is 0 where a score is -inf. */
  void (*slope)(void *p, void *dp, int64_t n, const void *lse, const void *delta, int hides);
  /* Transposes a panel (rows, nr) into packed panels of mr rows; each has k columns of mr elements.
  ** The first 'n' lanes become columns first … first + n - 1. */
  void (*turn)(const void *panel, int64_t rows, int64_t n, int mr, int64_t k, int64_t first,
               void *packed);
  /* out (rows, n) = factor times acc; rows of out are 'out_step' elements apart, those of acc
  ** 'step'. */
  void (*rows)(const void *acc, int64_t step, int64_t rows, int64_t n, double factor,
               int64_t out_step, void *out);
} fl_attention_fns;
typedef struct fl_attention_loops { fl_attention_fns of[FLAME_DTYPE_COUNT]; } fl_attention_loops;

extern const fl_attention_loops fl_attention_base;
#if defined(__x86_64__)
extern const fl_attention_loops fl_attention_avx2, fl_attention_avx512;
#endif

/* What the forward and the backward pass need to know of a call. Sizes in bytes: 'size' of an
** element, 'wide' of T. */
typedef struct fl_attention_job {
  fl_attention a;
  fl_attention_results to;
  int mask, dtype;
  int64_t size, wide;
  double scale;
  const char *q, *k, *v, *at_mask;
  float drop;                          /* p of a dropout, if a.drops */
  double kept;                         /* factor of what it keeps; else 1 */
  fl_vm_draw draw;                     /* draws its numbers */
  fl_vm_random key;
  const fl_gemm *g;
  const fl_attention_fns *f;
  int mr, nr;
  const atomic_int *stop;
} fl_attention_job;

/* first: the position of q among the inputs. */
fl_attention_job fl_attention_job_of(const fl_device *d, const fl_call_run *r, int first);
/* c (mr x nr) = or += a product of packed panels. */
void fl_attention_tile(const fl_attention_job *j, int64_t k, const char *a, const char *b, char *c,
                       int64_t ldc, int add);
/* Sets which part of the mask and of the causal diagonal the panel covers. row, key: those of
** element (0, 0). */
void fl_attention_scores(const fl_attention_job *j, fl_scores *s, int64_t b, int64_t h, int64_t row,
                         int64_t key, int lanes_are_rows);
/* keep[r * over_row + c * over_key]: is the weight of row + r and key + c kept by the dropout? */
void fl_attention_keep(const fl_attention_job *j, int64_t b, int64_t h, int64_t row, int64_t rows,
                       int64_t key, int64_t keys, int64_t over_row, int64_t over_key, char *keep);
/* Offset in elements of row r of head h in batch b of an array with these strides. */
static inline int64_t fl_row_at(const int64_t stride[3], int64_t b, int64_t h, int64_t r) {
  return b * stride[0] + h * stride[1] + r * stride[2];
}
#endif
