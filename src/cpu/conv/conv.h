/*
** Convolutions on the CPU. The calls conv and conv_data become passes: a pass computes
** the outputs at first + t * hop, t = 0 … count - 1 in each axis, from the source at
** t * step + off for every tap. The forward convolution is one pass (hop 1, step its stride);
** the gradient of the data one for each residue of the stride that a tap reaches (hop its
** stride, step 1), so no product is wasted on inserted zeros and nothing is added twice.
**
**   call_conv.c    entry points, passes, integers
**   conv_gemm.c    a pass as a product: packed weights times packed pixels
**   conv_shift.c   the same product, but pixels are not packed: tiles read padded planes in place
**   conv_lanes.c   the transposed product: outputs are the lanes, pixels the rows, and a tap is
**                  left out where it lies outside the source
**   conv_flat.c    few output channels per group, and gradients of such weights: whole rows of
**                  padded planes, shifted by tap
**   conv_few.c     the weight's gradient of few outputs per group: outputs times taps and channels
**   conv_weight.c  the weight's gradient as a product over all pixels
**   conv_box.c     the padded planes of conv_flat.c and conv_shift.c
**   conv_store.c   writes the sums of a pass to memory
** Sums are taken in blocks that follow from shapes alone: results do not depend on workers.
*/
#ifndef FL_CPU_CONV_H
#define FL_CPU_CONV_H
#include "cpu/state/state.h"
#include "cpu/conv/gemm_conv.h"
#include "tensor/call_conv.h"
#include "base/num.h"

typedef struct fl_conv_axis {
  int64_t count, step, size;            /* outputs of the pass; source step and size */
  int64_t first, hop, osize;            /* outputs are first + t * hop of osize */
  int64_t taps, off0, doff, k0, dk;     /* tap i: source offset off0 + i * doff,
                                        ** kernel index k0 + i * dk */
} fl_conv_axis;

typedef struct fl_conv_pass {
  fl_conv_axis ax[3];
  int64_t n, groups, rows, chans; /* rows: output channels of a group; chans: its source channels */
  int64_t wg, wr, wc;                   /* steps of the weight: group, row, source channel; kernel
                                        ** indices are innermost */
  int64_t kernel[3];
  int dtype;
  const char *src, *w;
  char *dst;
} fl_conv_pass;

typedef struct fl_conv_run_state {      /* of one call */
  fl_device *dev;
  const fl_conv_loops *loops;
  int workers;
  char *scratch;
} fl_conv_job;

static inline int fl_conv_wide(int dtype) { return dtype == FLAME_F64; }
/* Bytes of a sum; half types are summed in f32. */
static inline int64_t fl_conv_bytes(int dtype) { return fl_conv_wide(dtype) ? 8 : 4; }
static inline int64_t fl_conv_taps(const fl_conv_pass *p) {
  return p->ax[0].taps * p->ax[1].taps * p->ax[2].taps;
}
static inline int64_t fl_conv_count(const fl_conv_pass *p) {
  return p->ax[0].count * p->ax[1].count * p->ax[2].count;
}
static inline int64_t fl_conv_source(const fl_conv_pass *p) {
  return p->ax[0].size * p->ax[1].size * p->ax[2].size;
}
static inline int64_t fl_conv_dest(const fl_conv_pass *p) {
  return p->ax[0].osize * p->ax[1].osize * p->ax[2].osize;
}

/* Finds the i in 0 … len - 1 for which x + i * step lies in the source: they are *lo … *hi - 1. */
static inline void fl_conv_inside(int64_t x, int64_t step, int64_t size, int64_t len, int64_t *lo,
                                  int64_t *hi) {
  *lo = x < 0 ? fl_ceil_div(-x, step) : 0;
  *hi = x < size ? fl_min(len, (size - 1 - x) / step + 1) : 0;
}

/* Offsets of terms in packed pixels, in which terms lie one after the other: of[nv - 1][k] is that
** of term k, if each term is nv vectors. */
typedef struct fl_conv_offsets { int32_t of[2][FL_CONV_KC]; } fl_conv_offsets;
static inline void fl_conv_packed(fl_conv_offsets *o, int lanes) {
  for (int k = 0; k < FL_CONV_KC; k++) o->of[0][k] = k * lanes, o->of[1][k] = 2 * k * lanes;
}
static inline void fl_conv_tile(const fl_conv_job *job, int wide, int64_t rows, int64_t nv,
                                int64_t k, const void *a, const void *b, const int32_t *off,
                                int64_t second, void *c, int64_t ldc, int add) {
  if (wide) job->loops->tile64[rows - 1][nv - 1](k, a, b, off, second, c, ldc, add);
  else job->loops->tile32[rows - 1][nv - 1](k, a, b, off, second, c, ldc, add);
}

/* call_conv.c. The loops for this processor. */
const fl_conv_loops *fl_conv_loops_of(const fl_vm *vm);
/* Describes the forward convolution as a pass, except for src, w and dst. */
void fl_conv_forward(const fl_conv *s, int dtype, fl_conv_pass *p);
/* Joins the last axis with the one before it, as often as the kernel has one element along it. */
void fl_conv_join_axes(fl_conv *s);
/* Writes 'n' sums to memory as 'dtype', 'hop' elements apart. */
void fl_conv_store(const fl_conv_loops *l, int dtype, char *to, int64_t hop, const void *sums,
                   int64_t n);

/* A segment of a pass's pixels, which are ordered by (n, t0, t1, t2): 'len' neighbours in a row.
** The first is at position 'at' of its part (see fl_conv_cut). */
typedef struct fl_conv_seg { int32_t at, len; int64_t n, t[3]; } fl_conv_seg;
/* conv_gemm.c. Divides pixels first … first + count into parts of 'width' pixels, and these into
** segments; returns the number of segments. start[i]: the first segment of part i; the last entry
** is the number of segments. */
int fl_conv_cut(const fl_conv_pass *p, int64_t first, int64_t count, int64_t width,
                fl_conv_seg *seg, int *start);
/* Finds the runs of source elements (as for fl_conv_pack) that the segments read for one tap of
** group 0, channel 0. */
int fl_conv_runs(const fl_conv_pass *p, const fl_conv_seg *seg, int nseg, const int64_t tap[3],
                 fl_conv_run *run);
int64_t fl_conv_gemm_bytes(const fl_conv_pass *p, int workers);
void fl_conv_gemm(const fl_conv_job *job, const fl_conv_pass *p);

/* conv_weight.c. Transposes 'cols' rows (at most NR for half types) of n elements, 'plane' apart,
** and widens them: element i of row j goes to b[i * ldb + j]; columns from cols to w become 0. */
void fl_conv_turn(const fl_conv_loops *l, int dtype, void *b, int64_t ldb, int64_t w,
                  const char *from, int64_t plane, int64_t cols, int64_t n);

/* conv_box.c. A buffer with the padded source planes that a block of results needs. Rows and
** columns are sorted by their remainder modulo the step, so that a tap reads one contiguous run of
** memory for each row of results; the run of the next row begins 'pitch' elements later. */
typedef struct fl_conv_box {
  /* of axes 1 and 2: the number of remainders, each of which has its own planes; the largest shift
  ** of a tap within a plane */
  int64_t residues[2], reach[2];
  int64_t low[2];                /* least offset */
  int64_t planes;                /* of a source channel */
  int64_t rows, cols;            /* results of a block */
  int64_t height, pitch, plane;  /* of a buffer plane */
} fl_conv_box;
int fl_conv_box_of(const fl_conv_pass *p, fl_conv_box *b);         /* all but sizes; 0: too large */
void fl_conv_box_size(fl_conv_box *b, int64_t rows, int64_t cols);
/* Fills the buffer, planes * plane elements of the type of sums, with what the results at t0, r0 …,
** c0 … need of one channel; 'at': the channel's first element in the source. */
void fl_conv_box_fill(const fl_conv_job *job, const fl_conv_pass *p, const fl_conv_box *b, char *to,
                      int64_t at, int64_t t0, int64_t r0, int64_t c0);
/* Where a tap's run begins in the buffer, in elements. */
int64_t fl_conv_box_tap(const fl_conv_pass *p, const fl_conv_box *b, const int64_t tap[3]);
/* the i-th tap, counted with the last axis innermost */
void fl_conv_tap_of(const fl_conv_pass *p, int64_t i, int64_t tap[3]);
int64_t fl_conv_kernel_index(const fl_conv_pass *p, const int64_t tap[3]);

/* conv_lanes.c */
int fl_conv_lanes_fits(const fl_conv_pass *p);
int64_t fl_conv_lanes_bytes(const fl_conv_pass *p, int workers);
void fl_conv_lanes(const fl_conv_job *job, const fl_conv_pass *p);

/* conv_shift.c */
int fl_conv_shift_fits(const fl_conv_pass *p);
int64_t fl_conv_shift_bytes(const fl_conv_pass *p, int workers);
void fl_conv_shift(const fl_conv_job *job, const fl_conv_pass *p);

/* conv_flat.c: *_fits: can it compute this pass? */
int fl_conv_flat_fits(const fl_conv_pass *p);
int64_t fl_conv_flat_bytes(const fl_conv_pass *p, int workers);
void fl_conv_flat(const fl_conv_job *job, const fl_conv_pass *p);
/* The weight's gradient. p->src: x; p->dst: the weight's gradient; grad: the output's gradient. */
int fl_conv_flat_weight_fits(const fl_conv_pass *p);
void fl_conv_flat_weight(const fl_conv_job *job, const fl_conv_pass *p, const char *grad);

/* conv_few.c: the weight's gradient for few outputs per group. */
int fl_conv_few_fits(const fl_conv_pass *p);
int64_t fl_conv_few_bytes(const fl_conv_pass *p, int workers);
void fl_conv_few(const fl_conv_job *job, const fl_conv_pass *p, const char *grad);

/* conv_weight.c */
int64_t fl_conv_weight_bytes(const fl_conv_pass *p, int workers);
void fl_conv_weight(const fl_conv_job *job, const fl_conv_pass *p, const char *grad);
#endif
