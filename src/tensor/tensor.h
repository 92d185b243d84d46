/*
** Handles: what a Lua box or a C caller holds. A write changes 'node' of this handle only. A
** handle owns one 'held' count of its node and one reference of its gradient handle.
*/
#ifndef FL_TENSOR_TENSOR_H
#define FL_TENSOR_TENSOR_H
#include "tensor/context.h"

enum { FL_GRAD_ADDED = 1 };   /* flag in flame_tensor.used: backward() has added since the step */

struct flame_tensor {
  int32_t refs;
  uint8_t view;               /* made by a view function: writes raise */
  uint8_t retain;             /* retain_grad: a non-leaf that keeps .grad */
  uint8_t closed;
  uint8_t used;               /* for a gradient: twice the number of the optimiser whose step has
                              ** read it, plus a flag; 0 after a write by the script */
  flame_context *ctx;
  fl_node *node;              /* NULL once closed */
  struct flame_tensor *grad;  /* .grad, NULL: none */
  void *hooks;                /* list kept by autograd/ */
  const char *made_by;        /* view handles: "x[…]", "reshape": static text for the message */
  struct flame_tensor *next, *prev;   /* of the context's handles */
};

/* A new handle on a node, refs = 1, within a scope. NULL gives NULL. If another handle has named
** the node before, the new handle names an alias of it. */
flame_tensor *fl_tensor_new(flame_context *c, fl_node *n);
flame_tensor *fl_tensor_new_view(flame_context *c, fl_node *n, const char *made_by);
flame_tensor *fl_tensor_retain(flame_tensor *t);       /* refs + 1; undone by release */
void fl_tensor_release(flame_tensor *t);        /* flame_free for callers that are inside already */
/* Frees value, gradient and hooks now; the struct remains for its owners (x:free(), scopes). */
void fl_tensor_shut(flame_tensor *t);
/* Sets .grad to 'grad' (taking a reference); NULL: none. */
void fl_tensor_set_grad(flame_tensor *t, flame_tensor *grad);
/* Does t name a value? If not, stores the error "the tensor was freed". */
int fl_tensor_open(const flame_tensor *t, const char *op);
/* Makes the handle name n (checks: not a view, not a tracked leaf outside no_grad, same shape,
** dtype, device). n is computed into the old value's memory, its home, if the handle owned that;
** unless n is a new PENDING node of this call it is copied first. A leaf stays a leaf. */
flame_status fl_tensor_write(flame_tensor *t, fl_node *n, const char *op);
/* Sets the handle's value to n, of any dtype and device but the same shape (x:to_); n is made
** outside the tape. A leaf stays the same leaf; views and tracked values are refused. */
flame_status fl_tensor_convert(flame_tensor *t, fl_node *n, const char *op);
/* Makes the handle name n, which it has named before or which is a copy of its value; this does not
** count as a write. */
void fl_tensor_rename(flame_tensor *t, fl_node *n);
int fl_tensor_is_leaf(const flame_tensor *t);
int fl_tensor_tracked(const flame_tensor *t);
#endif
