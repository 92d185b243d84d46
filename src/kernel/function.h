/*
** A kernel that can be launched: the CUDA text a device compiles, and where there is a tree
** the lane code that runs it on the CPU. What a call of kind 'kernel' holds (tensor/call.h).
**
** A unit is one source and all that AD derived from it; its functions hold it. Everything
** belongs to one context and is used on the thread that has entered it; lane code is read by
** the workers of one run.
*/
#ifndef FL_KERNEL_FUNCTION_H
#define FL_KERNEL_FUNCTION_H
#include "kernel/ad/ad.h"
#include "kernel/facts/cover.h"
#include "kernel/lanes/lane.h"
#include "kernel/front/source.h"
#include "tensor/call.h"
#include "tensor/context.h"

/* How a call's p[] describes a launch: grid, block, dynamic shared bytes, number of arguments,
** FL_LANE_* checks, then two integers for each parameter of the kernel. */
enum { FL_KP_GRID = 0, FL_KP_BLOCK = 3, FL_KP_SHARED = 6, FL_KP_COUNT_ARGS = 7, FL_KP_CHECKS = 8,
       FL_KP_ARGS = 9, FL_KP_MAX_ARGS = (FL_CALL_PARAMS - FL_KP_ARGS) / 2 };
typedef struct fl_kunit {
  int32_t refs;
  fl_mem *mem;
  fl_ksource *source;
  char *label;               /* the script's file in messages, e.g. "train.lua" */
  int32_t first_line;        /* of the text in it; 0: unknown */
  char **option;             /* of NVRTC, in counted memory */
  int32_t noption;
} fl_kunit;

typedef struct fl_kfunction {
  fl_callee callee;      /* first: a call holds us by it */
  fl_mem *mem;
  fl_kunit *unit;        /* a reference; NULL: a binary */
  fl_kfunc *f;           /* signature, maybe a body; in the unit's arena */
  fl_kad *ad;            /* what it was derived as; NULL: as given */
  char *text;            /* complete CUDA source, or the image of a binary */
  size_t text_bytes;     /* without the zero */
  uint8_t binary;        /* PTX or cubin given by the user */
  uint8_t digest[32];    /* of text and options */
  fl_lane_code *lanes;   /* NULL: not compiled yet */
  struct fl_kfunction *checked;  /* the same with its checks compiled in, for CUDA;
                                 ** NULL: not made */
  unsigned checked_for;  /* FL_LANE_*: which */
  uint8_t guarded;       /* it is that: its text wants the prelude and kernels/check.cu before it */
  fl_kcover *cover;      /* which outputs launches write whole; NULL: none */
  uint32_t ready;        /* bit d: device d has compiled it … */
  unsigned ready_for;    /* … with these FL_LANE_* checks */
  uint8_t sums;          /* exact sums (kernel/text/text.h): two parameters more, two launches */
  uint8_t slot[FL_KP_MAX_ARGS];  /* 1 + number of the sum that a parameter is, or 0 */
  int32_t registers, spilled;   /* as the last device reported; -1: unknown */
} fl_kfunction;

/* Takes the source over, also on failure (NULL: no memory). options: copied. */
fl_kunit *fl_kunit_new(fl_mem *m, fl_ksource *source, const char *label, int32_t first_line,
                       const char *const *option, int noption);
/* "kernel 'k', line 3: …" gains the script's line: "line 3 (train.lua:8)". */
void fl_kunit_message(const fl_kunit *u, const char *text, char *out, size_t size);
/* An error of its text gains the line. */
void fl_kunit_retell(const fl_kunit *u, fl_error *e);
void fl_kunit_release(fl_kunit *u);
/* A kernel of the source as given. */
fl_kfunction *fl_kfunction_given(fl_kunit *u, fl_kfunc *f);
/* What AD made; its text is printed here. exact: sums in no order (text.h). */
fl_kfunction *fl_kfunction_derived(fl_kunit *u, fl_kad *ad, int exact);
/* Text and function of a saved program: sums in no order stay what they are. */
void fl_kfunction_save(const fl_kfunction *k, fl_text *t);
fl_kfunction *fl_kfunction_saved(fl_kunit *u, fl_kfunc *f);
/* k->checked for these FL_LANE_* checks. 0: no memory. Kernels without a tree stay without. */
int fl_kfunction_check(fl_kfunction *k, unsigned checks);
/* A binary with this entry: no signature, no CPU. */
fl_kfunction *fl_kfunction_binary(fl_mem *m, const char *image, size_t bytes, fl_kfunc *signature,
                                  fl_kunit *u);
static inline void fl_kfunction_release(fl_kfunction *k) { if (k) fl_callee_release(&k->callee); }

typedef enum {
  FL_KARG_NULL,              /* a pointer not followed */
  FL_KARG_IN,                /* a = input */
  FL_KARG_OUT,               /* b = byte offset in the result: zeros before the launch */
  FL_KARG_COPY,              /* a = input whose bytes are at b in the result before the launch */
  FL_KARG_VALUE,             /* a = first scalar slot, b = bytes of the argument */
  FL_KARG_RAW                /* as OUT, of any contents: the launch is proven to write all of it */
} fl_karg_kind;
/* First integer: kind + 8 * a for IN, COPY, VALUE; kind + 8 * bytes for OUT, RAW. Second: b. */
static inline fl_karg_kind fl_karg_of(const fl_call *c, int i, int64_t *a, int64_t *b) {
  const int64_t w = c->p[FL_KP_ARGS + 2 * i];
  *a = w >> 3;
  *b = c->p[FL_KP_ARGS + 2 * i + 1];
  return (fl_karg_kind)(w & 7);
}
/* FL_LANE_*: what the context's kernels are checked for. Where there are limits or permissions,
** also those set later, what runs is the form that is printed from our tree, whatever was asked. */
static inline unsigned fl_kfunction_checks(const flame_context *c) {
  return c->kernel_checks | (c->limits.any || c->limits.deny ? FL_LANE_BOUNDS : 0u);
}
#endif
