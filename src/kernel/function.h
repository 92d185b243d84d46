/*
** A kernel that can be launched: the CUDA text that a device compiles, and if there is a tree the
** lane code that runs it on the CPU. It is the callee of a call of kind 'kernel' (tensor/call.h).
**
** A unit is one source and all that AD derived from it; its functions hold references to it. All
** of it belongs to one context and is used on the thread that has entered that; lane code is also
** read by the workers of a run.
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
** FL_LANE_* checks, then two integers for each argument (fl_karg_of). BATCH: 0, or the number of
** launches in a batch, each for one part of the results and of the arrays that are given per
** launch. The grid, and what is known of the kernel, are those of one such launch. */
enum { FL_KP_GRID = 0, FL_KP_BLOCK = 3, FL_KP_SHARED = 6, FL_KP_COUNT_ARGS = 7, FL_KP_CHECKS = 8,
       FL_KP_ARGS = 9, FL_KP_BATCH = FL_CALL_PARAMS - 1,
       FL_KP_MAX_ARGS = (FL_CALL_PARAMS - FL_KP_ARGS) / 2,
       FL_KP_SCALARS = 172 };    /* most 8-byte words of numbers and structs that a launch passes by
                                 ** value */
typedef struct fl_kunit {
  int32_t refs;
  fl_mem *mem;
  fl_ksource *source;
  char *label;               /* the script's file in messages, such as "train.lua" */
  int32_t first_line;        /* line of the script where the text begins; 0: unknown */
  char **option;             /* options for NVRTC, in counted memory */
  int32_t noption;
} fl_kunit;

typedef struct fl_kfunction {
  fl_callee callee;      /* must be first: a call (tensor/call.h) points to it */
  fl_mem *mem;
  fl_kunit *unit;        /* a reference; its source is, for a binary, only the signature */
  fl_kfunc *f;           /* signature, maybe a body; in the unit's arena */
  fl_kad *ad;            /* how AD derived the kernel, in the unit's arena; NULL: it is given */
  char *text;            /* complete CUDA source, or the image of a binary */
  size_t text_bytes;     /* without the zero */
  uint8_t binary;        /* PTX or cubin given by the user */
  uint8_t as_written;    /* text is the source's own, and f has a body */
  uint8_t digest[32];    /* hash of its text and the unit's options */
  uint8_t reads_files;   /* a device's compiler reads files in folders that the user named for it:
                         ** what is in them is not in the digest, so each such kernel has another
                         ** one, and its cubin is not kept on disk */
  fl_lane_code *lanes;   /* NULL: not compiled yet */
  struct fl_kfunction *checked;  /* owned: the same function with checks in its text, for CUDA;
                                 ** NULL: it is not made, or could not be */
  unsigned checked_for;  /* the FL_LANE_* checks of 'checked' */
  uint8_t guarded;       /* it is the 'checked' of another function: its text needs the prelude and
                         ** kernels/check.cu before it */
  struct fl_kfunction *batched;  /* owned: this function for a whole batch in one launch, on CUDA
                                 ** (fl_kbatch); NULL: it is not made, or could not be */
  struct fl_kfunction *bounded;  /* owned: this function with __launch_bounds__(1024) in its text,
                                 ** for blocks whose threads are too many for its registers; NULL:
                                 ** it is not made, or could not be */
  fl_kcover *cover;      /* proofs of which outputs its launches write completely; NULL: none */
  uint32_t ready;        /* bit d: device d has compiled it with 'ready_for' */
  unsigned ready_for;    /* the FL_LANE_* checks with which devices have compiled it */
  uint8_t stops;         /* the text has 2 more parameters, for its assertions
                         ** (kernel/text/text_stop.h) */
  uint8_t sums;          /* how many parameters receive sums that do not depend on their order: if
                         ** there are any, the text has 2 more parameters and is launched twice
                         ** (cuda/call/ordered.c) */
  uint8_t slot[FL_KP_MAX_ARGS];  /* by parameter: 1 + the number of the sum that it receives, or
                                 ** 0 */
  uint8_t sole[FL_KP_MAX_ARGS];  /* by parameter: such sums are all that is done with it */
  int32_t registers, spilled;   /* per thread, as reported by the device that compiled it last; -1:
                                ** unknown */
} fl_kfunction;

/* Takes ownership of the source, also if it fails (NULL: no memory); copies label and options. */
fl_kunit *fl_kunit_new(fl_mem *m, fl_ksource *source, const char *label, int32_t first_line,
                       const char *const *option, int noption);
/* Writes "kernel 'k', line 3: …" with the script's line: "line 3 (train.lua:8)". The text stays as
** it is if it names no line or the unit's first line is unknown. */
void fl_kunit_message(const fl_kunit *u, const char *text, char *out, size_t size);
/* Adds the script's line to an error about the unit's text. */
void fl_kunit_retell(const fl_kunit *u, fl_error *e);
void fl_kunit_release(fl_kunit *u);
/* A kernel of the source. Its text is the source's own, or is printed from the tree if a device
** could not compile that. NULL: no memory. */
fl_kfunction *fl_kfunction_given(fl_kunit *u, fl_kfunc *f);
/* Replaces the text of a kernel that is as written by one printed from its tree: for a device whose
** compiler refuses what the front end reads. 0: it stays; there is no memory, the text is printed
** already, or printing would leave out what the compiler may have refused (a static_assert). */
int fl_kfunction_reprint(fl_kfunction *k);
/* Makes a function of the kernel that AD derived, and prints its text. exact: those sums that
** fl_ktext_sums finds do not depend on their order. NULL: no memory. */
fl_kfunction *fl_kfunction_derived(fl_kunit *u, fl_kad *ad, int exact);
/* fl_kfunction_save writes the text of k for a saved program. fl_kfunction_saved makes a function
** of f, which was read from such a text (NULL: no memory). Sums that do not depend on their order
** stay so. */
void fl_kfunction_save(const fl_kfunction *k, fl_text *t);
fl_kfunction *fl_kfunction_saved(fl_kunit *u, fl_kfunc *f);
/* Makes k->checked for these FL_LANE_* checks. 0: no memory. A kernel without a tree and a binary
** get none, nor does one with a barrier of the grid: checked kernels run in waves of blocks. */
int fl_kfunction_check(fl_kfunction *k, unsigned checks);
/* The last argument of k->batched, whose grid is that of one launch times the batch along z.
** blocks: of one launch along z; first: which launch of the batch is the first of this grid; step:
** by pointer parameter, the bytes between the data of two launches. */
typedef struct fl_kbatch { uint32_t blocks, first; int64_t step[FL_KP_MAX_ARGS]; } fl_kbatch;
/* Makes k->batched if k has a tree and no barrier of the grid. 0: no memory. */
int fl_kfunction_batch(fl_kfunction *k);
/* Makes k->bounded if k has a tree and no bounds. 0: no memory. */
int fl_kfunction_bound(fl_kfunction *k);
/* Does a block of c have more registers than a GPU gives it, by those that k was compiled with? */
static inline int fl_kfunction_is_wide(const fl_kfunction *k, const fl_call *c) {
  enum { REGISTERS = 65536 };
  const int64_t *block = &c->p[FL_KP_BLOCK];
  return block[0] * block[1] * block[2] * ((k->registers + 7) / 8 * 8) > REGISTERS;
}
/* Is this call of k one launch of k->batched on a GPU? Else k is launched once for each launch of
** the batch. */
static inline int fl_kfunction_is_batched(const fl_kfunction *k, const fl_call *c) {
  return c->p[FL_KP_BATCH] > 0 && k->batched && !c->p[FL_KP_CHECKS];
}
/* Writes the message of a fault to 'out' (FL_CALL_FAULT bytes). */
void fl_kfunction_say(const fl_kfunction *k, const fl_lane_report *r, char *out);
/* Is k, as c launches it on a GPU, the text that notes its failed assertions in the record of the
** run's checks? */
static inline int fl_kfunction_tells(const fl_kfunction *k, const fl_call *c) {
  return k->stops && !(c->p[FL_KP_CHECKS] && k->checked);
}
/* Writes the message of a failed assertion that a thread noted in the record of the run's checks.
** at: 2^10 times the number of the thread's block, plus its number in the block; which: the number
** of the assertion. */
void fl_kfunction_say_stopped(const fl_call *c, int64_t at, int64_t which, char *out);
/* Fills *c and *run with launch number 'part' of r's batch, as a call without a batch. */
void fl_kbatch_part(const fl_call_run *r, int64_t part, fl_call *c, fl_call_run *run);
/* A function of a binary (PTX or cubin) with this signature. It does not run on the CPU. */
fl_kfunction *fl_kfunction_binary(fl_mem *m, const char *image, size_t bytes, fl_kfunc *signature,
                                  fl_kunit *u);
static inline void fl_kfunction_release(fl_kfunction *k) { if (k) fl_callee_release(&k->callee); }

typedef enum {
  FL_KARG_NULL,              /* NULL is passed for a pointer, which the kernel does not follow */
  FL_KARG_IN,                /* a = input */
  FL_KARG_OUT,               /* b = byte offset of a part of the result, zeroed before the launch */
  FL_KARG_COPY,           /* a = input, which is copied to byte b of the result before the launch */
  FL_KARG_VALUE,             /* a = first of its words in 'scalar' of the call, b = bytes of the
                             ** argument */
  FL_KARG_RAW,         /* like OUT (b = byte offset in the result), but not zeroed: it is proven
                       ** that the launch writes all of it */
  FL_KARG_IN_EACH            /* like IN (a = input), with a part of the input for each launch of the
                             ** batch */
} fl_karg_kind;
/* Argument i of a launch, two integers of the call. The first one is kind + 8 * a, where a is, for
** OUT and RAW, the bytes of that part of the result; the second one is b. In OUT, COPY and RAW of a
** batch the bytes are those of all its launches. */
static inline fl_karg_kind fl_karg_of(const fl_call *c, int i, int64_t *a, int64_t *b) {
  const int64_t w = c->p[FL_KP_ARGS + 2 * i];
  *a = w >> 3;
  *b = c->p[FL_KP_ARGS + 2 * i + 1];
  return (fl_karg_kind)(w & 7);
}
/* FL_LANE_*: the checks that the context's kernels run with. In a context with limits or
** permissions, even if these were set later, FL_LANE_BOUNDS is always among them, so a GPU runs the
** text printed from the tree. */
static inline unsigned fl_kfunction_checks(const flame_context *c) {
  return c->kernel_checks | (c->limits.any || c->limits.deny ? FL_LANE_BOUNDS : 0u);
}
#endif
