/*
** Nodes: recorded values. A node is a value, never changed once made; a handle
** (fl_tensor) names one and a write makes the handle name another (docs/design.md 1.3).
**
** Life. PENDING: in the window, to be computed. STORED: has bytes at buffer + offset,
** seen through 'layout'. FAILED: will never have a value; error says why. A STORED node becomes
** FAILED if a check of its run is read later and has failed (fl_node_spoil).
** NUMBER: a Lua number that is passed to a builder; in no window.
**
** Who holds a node:
**   held   handles, borrowing scopes, and entries whose rule reads the value
**   uses   PENDING consumers in the window (each input position counts)
**   grefs  entries that name it as an input: they keep the struct and its entry, not its value
**   guards PENDING writes that may fail, to a target that had this value
** An effect does something in addition to computing its value. It runs even if its value is not
** wanted, and after the effect before it, which is among its inputs if it was PENDING.
** The value is needed while it is a PENDING effect || held > 0 || uses > 0 || guards > 0 ||
** (entry reads own value && grefs > 0).
** A PENDING node whose value is not needed leaves the window and gives back its inputs'
** uses. The struct dies when all counts are 0. Both happen in fl_node_settle, without
** recursion (a chain of 100,000 nodes must not need C stack).
**
** Roots of an evaluation: PENDING nodes with held > 0, or whose entry reads their own
** value while grefs > 0; effects; and every write with a home (the buffer in which it must end).
*/
#ifndef FL_TENSOR_NODE_H
#define FL_TENSOR_NODE_H
#include "tensor/dtype.h"
#include "tensor/layout.h"
#include "tensor/ops.h"

typedef enum { FL_PENDING, FL_STORED, FL_FAILED, FL_NUMBER, FL_DROPPED } fl_state;
/* FL_DROPPED: the value is no longer needed and freed; only the entry of the tape is left */

/* Bytes on a device, freed through the engine when refs reach 0. The device may still be using
** them: freeing is ordered after queued work. */
typedef struct fl_buffer {
  int32_t refs;            /* STORED nodes in it, pending writes that end in it, and others that
                           ** have retained it */
  uint8_t device;          /* index in the context's devices: 0 is the CPU */
  uint8_t foreign;         /* memory of the host: never written, released by calling release() */
  uint8_t homed;           /* a pending write will end here: there is at most one */
  uint8_t pinned : 1;      /* its address is known outside of the library (DLPack) */
  uint8_t refused : 1;     /* 'refused' may be set in one of its nodes; 0: in none */
  int32_t slot; /* scratch: its number among the last program's homes (fl_program_home) */
  uint32_t site;           /* script line of the first value in it; 0: none yet */
  int64_t bytes;
  void *ptr;               /* device address */
  struct fl_buffer *next, *prev;    /* all counted buffers (c->buffer) */
  struct fl_node *nodes;   /* STORED nodes in this buffer, linked by bnext/bprev */
  void (*release)(void *p, void *arg);
  void *arg;
} fl_buffer;

/* How a view was made, for its gradient (fl_attr.view). */
typedef enum { FL_VIEW_RESHAPE, FL_VIEW_PERMUTE, FL_VIEW_SLICE, FL_VIEW_EXPAND, FL_VIEW_ALIAS,
               FL_VIEW_STRIDED } fl_view_kind;
/* SLICE covers select, narrow, step and flip: start/step per axis of the parent.
** STRIDED: diagonal, unfold: layout over the parent's row-major elements, may overlap. */

typedef struct fl_attr {      /* only for ops that need it; owned by the node */
  int8_t view;                /* fl_view_kind */
  int8_t axis;                /* axis of cat, gather, scatter; of index: 1 + the axis that messages
                              ** name, 0: not set, -1: none */
  int8_t add;                 /* scatter: 1 adds, 2 may do so in any order */
  int8_t naxes;
  uint8_t flags;              /* index: FL_INDEX_*; iota: FL_IOTA_COUNT; gather, scatter: 1: the
                              ** index has the shape of the result or source (build_index.c) */
  int8_t perm[FL_MAX_AXES];   /* PERMUTE: result axis k is the parent's axis perm[k] */
  int64_t start[FL_MAX_AXES], step[FL_MAX_AXES];   /* SLICE and setslice region, 0-based */
  int64_t size[FL_MAX_AXES];  /* sizes of a SLICE or setslice region, or of a STRIDED view */
  int64_t stride[FL_MAX_AXES], offset;   /* STRIDED; custom: offset is the number of the result */
  const char *what;           /* index: the public op's name in messages; static text */
  struct fl_call *call;       /* call: owned (tensor/call.h); else NULL */
  struct fl_form_code *form;       /* form: owned (tensor/form.h); else NULL */
} fl_attr;
enum { FL_INDEX_NEGATIVE = 1 /* -1 is the last */, FL_INDEX_IGNORE = 2 /* -100 passes, as 0 */,
       FL_INDEX_CLASS = 4 /* "class", not "index", in the message */ };
enum { FL_BACK_CUSTOM = 255 /* recorded by a function with its own rule */ };
enum { FL_IOTA_COUNT = 1 /* integers 0, 1, 2, …: no arithmetic is needed */ };

typedef struct fl_entry fl_entry;
struct flame_context;

enum { FL_MOST_INPUTS = 255 };   /* of a node, since nin has 8 bits */
typedef struct fl_node {
  struct flame_context *ctx;
  int32_t held, uses, grefs, guards;
  uint16_t op;
  uint8_t dtype, state, device, nin, mark, axes;  /* axes: bit a set: axis a is reduced (result
                                                  ** keeps it as size 1) */
  uint8_t isint;              /* NUMBER: scal[0].i holds an integer of the script */
  uint8_t refused;            /* a write that did not happen: its value is what the target had */
  uint8_t checks;             /* it, or a value that it is computed from, may still fail: an index
                              ** out of range, a call that reports a fault. STORED: such a check
                              ** has not been read yet (engine/flight.h) */
  uint8_t named;              /* a handle has named it: a write of another handle copies it */
  uint8_t rests;              /* engine scratch: does it depend on the check that failed? */
  uint8_t effect;             /* needed while it is PENDING, see above */
  uint8_t queued;             /* on the work list of fl_node_settle, through snext */
  uint8_t back;               /* recorded by the backward of an op: 1 + its number, FL_BACK_CUSTOM;
                              ** 0: not by a backward */
  uint32_t site;              /* script line that recorded it */
  union {
    uint32_t failed_site;     /* FAILED: the site of the original failure */
    uint32_t lost;            /* not FAILED and untracked: what ended its tracking (tensor/lost.h);
                              ** 0: no input was tracked */
  };
  int32_t index;              /* index in the window; -1: not in it */
  int32_t slot;               /* scratch of plan/: its slot in the program being made */
  fl_layout *shape;           /* contiguous layout of its sizes */
  fl_layout *layout;          /* layout of its elements: the shape itself except for views */
  int64_t offset;             /* first element, counted from the first of base (PENDING view) or of
                              ** the buffer (STORED) */
  struct fl_node **in;       /* nin inputs; NULL where scal[i] is used instead; = in0 if nin <= 3 */
  struct fl_node *in0[3];     /* valid while PENDING or with an entry; afterwards nin = 0 */
  struct fl_node *base;       /* PENDING view: the non-view node that it refers to, which counts
                              ** it in 'uses'; else NULL */
  fl_scalar scal[4];          /* scalar operands, .d for float operands of the op, else .i; [0] of a
                              ** cast: the source dtype; of a view of all of a cast: the same
                              ** (n_narrowed) */
  fl_attr *attr;
  fl_entry *entry;            /* not NULL: tracked */
  fl_buffer *buffer;          /* STORED (a reference) */
  struct fl_node *bnext, *bprev, *snext;
  fl_buffer *home;            /* PENDING write: the buffer it must end in (a reference) */
  struct fl_node *before;     /* PENDING write whose value may fail (with c->scan every one): the
                              ** previous value of the target, guarded; if the write fails, the
                              ** target has it again (fl_node_refuse) */
  struct fl_node *grad;       /* backward walk: cotangent so far, borrowed; else NULL */
  char *error;                /* FAILED: message, in counted memory; NULL: there was none for it */
} fl_node;

/* Window: PENDING nodes in recorded order; holes are NULL. Borrowed pointers. */
typedef struct fl_window {
  struct { fl_node **at; int64_t n, cap; } nodes; int64_t live; int64_t bytes;
} fl_window;

/* New PENDING node with held = 1, owned by the innermost borrowing scope and appended to
** the window; takes one use of each input. The shape's reference is consumed, also on
** failure. NULL with the error in the context: an input FAILED (its message is repeated), memory
** or the limit of nodes is used up, the device is lost, or an interrupt came. The caller fills
** axes, scal and attr, then calls fl_entry_attach. Not for views. */
fl_node *fl_node_new(struct flame_context *c, int op, int dtype, int device, fl_layout *shape,
                     int nin, fl_node *const *in);
/* A view of 'parent'. layout and offset are already composed with parent's own, so they
** count from parent's base (PENDING) or buffer (STORED; the view is then STORED at once and
** shares the buffer). shape and layout are consumed, *how is copied. track: attach an entry
** of the tape if builders would (do not call fl_entry_attach on a view); 0: never (detach). Without
** an entry in[0] is the base. */
fl_node *fl_node_view(fl_node *parent, fl_layout *shape, fl_layout *layout, int64_t offset,
                      const fl_attr *how, int track);
/* A number of the script, owned by the scope: state NUMBER, 0-d, nominal dtype f32 or i64. */
fl_node *fl_node_number(struct flame_context *c, int isint, fl_scalar v);
/* The node's attr, zeroed if it is made here. NULL: out of memory. */
fl_attr *fl_node_attr(fl_node *n);
/* A STORED node over buf (reference consumed), owned by the scope. layout consumed; both
** also on failure. Its op is FL_OP_copy without inputs. */
fl_node *fl_node_stored(struct flame_context *c, int dtype, fl_buffer *buf, fl_layout *layout,
                        int64_t offset);
void fl_node_hold(fl_node *n);                 /* held++ */
void fl_node_drop(fl_node *n);                 /* held--, settle */
void fl_node_gref(fl_node *n);
void fl_node_ungref(fl_node *n);
int fl_node_needed(const fl_node *n);          /* is the value needed: see above */
void fl_node_settle(fl_node *n);           /* after a count was lowered: frees what is not needed */
/* PENDING -> STORED: gives back the inputs, leaves the window. buf reference consumed. */
void fl_node_store(fl_node *n, fl_buffer *buf, int64_t offset);
/* message: "op: what", site: the line that recorded the failing op (0: n's own). */
void fl_node_fail(fl_node *n, const char *message, uint32_t site);
/* STORED to FAILED: a check of the run that computed n has failed, as is known only now. */
void fl_node_spoil(fl_node *n, const char *message, uint32_t site);
flame_status fl_node_raise(const fl_node *n);      /* of a FAILED node */
/* fl_node_guard marks n as a PENDING write to a target that had the value 'before'; fl_node_refuse
** ends such a write: n becomes a copy of 'before', with which ops recorded later continue. */
void fl_node_guard(fl_node *n, fl_node *before);
void fl_node_refuse(fl_node *n);
/* Moves a STORED node to another buffer of the same layout (copy on write of a snapshot); the
** offset stays; the node takes a separate reference. */
void fl_node_move(fl_node *n, fl_buffer *buf);
/* Makes n, which is new, an effect (see above): the context's newest. */
void fl_node_effect(fl_node *n);
/* For a context that is closed: effects that have not run are dropped. */
void fl_effects_drop(struct flame_context *c);
void fl_window_compact(struct flame_context *c);

/* through the engine; refs = 1 */
fl_buffer *fl_buffer_new(struct flame_context *c, int device, int64_t bytes);
/* Memory of the host on the CPU. NULL: out of memory, release was not called. */
fl_buffer *fl_buffer_foreign(struct flame_context *c, void *p, int64_t bytes,
                             void (*release)(void *p, void *arg), void *arg);
fl_buffer *fl_buffer_retain(fl_buffer *b);
void fl_buffer_release(struct flame_context *c, fl_buffer *b);

/* Borrowing scope: nodes made since fl_scope_begin are dropped at fl_scope_end. */
int64_t fl_scope_begin(struct flame_context *c);
void fl_scope_end(struct flame_context *c, int64_t mark);
/* Makes the scope hold n as well: the caller read it from a handle, and later code may run scripts
** that free the handle. Returns n; NULL: no memory, or n was NULL. */
fl_node *fl_scope_hold(struct flame_context *c, fl_node *n);
#endif
