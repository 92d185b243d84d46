/*
** What the builders (build.h), calls and composites share: operand checks, recording and error
** texts, some of which other layers use in their messages. A helper that checks or makes something
** stores an error in the context if it returns NULL or 0.
*/
#ifndef FL_TENSOR_BUILD_UTIL_H
#define FL_TENSOR_BUILD_UTIL_H
#include "tensor/build.h"
#include "tensor/entry.h"

static inline int fl_is_number(const fl_node *x) { return x->state == FL_NUMBER; }
static inline int fl_is_none(const fl_node *x) { return x == &fl_none; }
static inline int fl_is_half(int dtype) {
  return dtype == FLAME_F16 || dtype == FLAME_BF16;
}
/* Axes below 'rank', as a mask. */
static inline uint32_t fl_mask_of(int rank) { return (1u << rank) - 1u; }

/* "cpu", "cuda:0" into buf (16 bytes). */
const char *fl_place_name(int device, char *buf);
/* Can x be read: is it PENDING or STORED? Repeats the error of a FAILED one. */
int fl_usable(fl_node *x, const char *op);
int fl_same_device(const fl_node *x, const fl_node *y, const char *op);
/* The layout of these sizes, with a reference for the caller; checks rank and product. */
fl_layout *fl_shape_of(flame_context *c, int rank, const int64_t *size, const char *op);
/* A new node, with an entry of the tape if an input is tracked. A NULL input stands for a number,
** which the caller stores in scal. */
fl_node *fl_record(flame_context *c, int op, int dtype, int device, fl_layout *shape,
                   int nin, fl_node *const *in);
/* Attaches an entry of the tape to a node of fl_node_new if an input is tracked; NULL: no
** memory. */
fl_node *fl_finish(fl_node *n);
/* x as a tensor: itself, or a 0-d fill if it is a number, in this dtype. */
fl_node *fl_as_tensor(fl_node *x, int dtype, int device, const char *op);
/* The dtype in which x1 .. xn (tensors, numbers, fl_none) compute; -1 on error. */
int fl_operand_dtype(int n, fl_node *const *x, const char *op);
/* Stores the error "out of memory" of 'op' in the context; returns NULL. */
void *fl_no_memory(flame_context *c, const char *op);
/* Broadcasts two size lists into out; returns the rank, or -1 if they are incompatible. */
int fl_broadcast(int ra, const int64_t *a, int rb, const int64_t *b, int64_t *out);
/* Is 'axis' one of x's axes? Returns 0 with an error if it is not. */
int fl_check_axis(fl_node *x, int axis, const char *op);
/* Does the box start/step/count fit x's axes? count must be 1 where 'drop' has a bit. 0: an
** error. */
int fl_box_fits(fl_node *x, const int64_t *start, const int64_t *step,
                const int64_t *count, uint32_t drop, const char *op);
/* The box that is all of x. */
void fl_whole_box(const fl_node *x, int64_t *start, int64_t *step, int64_t *count);
/* Casts f16 and bf16 to f32; for composites that compute in f32, with a cast back at the end. */
static inline fl_node *fl_widen(fl_node *x) {
  return x && !fl_is_number(x) && fl_is_half(x->dtype) ? n_cast(x, FLAME_F32) : x;
}
#define FL_SHAPE(buf, l) fl_shape_text((buf), (l)->rank, (l)->size)
enum { FL_SHAPE_TEXT = 192 };
#endif
