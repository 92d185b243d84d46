/*
** Layouts: sizes and strides of an array of up to 8 axes, hash-consed per context, so
** that equal layouts are one pointer and shape equality is pointer equality.
** Strides count elements and may be 0 (expanded) or negative (flipped).
** The contiguous layout of a shape is "the shape". Counted references: fl_layout_of
** gives one reference to the caller; a layout dies with the last.
*/
#ifndef FL_TENSOR_LAYOUT_H
#define FL_TENSOR_LAYOUT_H
#include "base/mem.h"

enum { FL_MAX_AXES = 8 };

typedef struct fl_layout {
  struct fl_layout *next;       /* in its hash chain */
  uint64_t hash;
  int32_t refs;
  int8_t rank;
  uint8_t contiguous;           /* row-major; true for empty and single elements */
  int64_t numel;
  int64_t size[FL_MAX_AXES], stride[FL_MAX_AXES];   /* strides of size-1 axes are 0 */
} fl_layout;

typedef struct fl_layouts {
  fl_mem *mem;
  fl_slab slab;
  fl_layout **bin;
  int64_t nbin, n;
} fl_layouts;
int fl_layouts_init(fl_layouts *t, fl_mem *m);
void fl_layouts_close(fl_layouts *t);

/* The caller has checked rank, sizes >= 0 and fl_numel. NULL: no memory. stride NULL: contiguous.
** Strides of size-1 axes are normalised to 0. */
fl_layout *fl_layout_of(fl_layouts *t, int rank, const int64_t *size, const int64_t *stride);
static inline fl_layout *fl_layout_retain(fl_layout *l) { l->refs++; return l; }
void fl_layout_end(fl_layouts *t, fl_layout *l);       /* of a layout without references */
static inline void fl_layout_release(fl_layouts *t, fl_layout *l) {
  if (l && --l->refs <= 0) fl_layout_end(t, l);
}

/* Row-major strides of 'size' (not normalised for size-1 axes: true strides). */
void fl_row_major(int rank, const int64_t *size, int64_t *stride);
/* The product of the sizes; -1 if it, ignoring zeros, exceeds int64 / 16. */
int64_t fl_numel(int rank, const int64_t *size);
/* "(2, 3)" into buf (at least 192 bytes); returns buf. */
char *fl_shape_text(char *buf, int rank, const int64_t *size);
/* The strides that view the memory of (rank, size, stride) as new_size without a copy; 0 if that is
** impossible. Both sizes have the same product. */
int fl_view_strides(int rank, const int64_t *size, const int64_t *stride,
                    int new_rank, const int64_t *new_size, int64_t *new_stride);
/* Compose index maps. p is a row-major array of sizes (rank, size); an operand q of p's
** expression is indexed by qstride over p's axes. 'view' axes (n, vsize, vstride, voffset)
** address p by linear element index. Writes q's strides over the view's axes and adds to
** *qoffset. Returns 0 when the composition is not a strided map. */
int fl_map_compose(int rank, const int64_t *size, const int64_t *qstride,
                   int n, const int64_t *vsize, const int64_t *vstride, int64_t voffset,
                   int64_t *out_stride, int64_t *qoffset);
#endif
