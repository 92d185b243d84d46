/*
** Entries of the tape: how a tracked node was computed. An entry belongs to the node that it
** describes, and is freed with it, or in backward without retain_graph. The node keeps its in[]
** pointers for it (one gref each, a reference from the graph); 'saved' tells which inputs' values
** the rule reads (one held each). A leaf's entry names its handle and is shared by all values the
** handle had (writes under no_grad keep leafhood), hence the count.
*/
#ifndef FL_TENSOR_ENTRY_H
#define FL_TENSOR_ENTRY_H
#include "tensor/context.h"

struct fl_entry {
  int32_t refs;                 /* number of nodes that it belongs to: 1 except for leaves */
  uint32_t walk;                /* leaf, retain_grad: twice the number of the last backward that
                                ** reached it, + 1 if it brought a gradient; spent: twice the number
                                ** of the one that freed it */
  int64_t sequence;             /* order of recording */
  uint8_t leaf;
  uint8_t spent;                /* freed by a backward: walking it again is an error */
  uint8_t reads_out;            /* the rule reads the node's own value */
  uint8_t saved;                /* bit i: the rule reads the value of input i */
  uint32_t tracked;             /* bit i: input i is tracked (inputs >= 31: bit 31) */
  uint32_t site;
  uint32_t lost;                /* why a value computed from it is not tracked (tensor/lost.h): the
                                ** last reason, but no_grad does not replace one such as detach */
  struct flame_tensor *handle;  /* leaf: weak, NULL when the handle died. retain_grad: the handle */
  struct fl_custom *custom;     /* host function: see below */
  void *hooks;
};

/* Computes the cotangents gin of y's inputs from y's cotangent g. */
typedef flame_status fl_rule_fn(struct flame_context *c, void *arg, fl_node *y, fl_node *g, int nin,
                                fl_node **gin);

/* A function with its own gradient rule: the script's (flame.func) or the library's. backward gets
** the node y to which it belongs, whose value may be gone, and its cotangent. release(arg) is
** called once, when the last reference is dropped. */
typedef struct fl_custom {
  int32_t refs;
  fl_rule_fn *backward;
  void (*release)(void *arg);
  void *arg;
} fl_custom;
void fl_custom_drop(struct flame_context *c, fl_custom *f);   /* drops one reference; NULL is
                                                              ** allowed */

/* Which values the rule of an op reads, derived from the text of ops.def: bit i input i,
** bit 7 the result. An entry saves only what the gradients with respect to its *tracked* inputs
** read (c->rules), so a rule must not compute other gradients. */
uint8_t fl_rule_reads(int op);
void fl_rules_fill(fl_rule_needs *rules);      /* FL_OP_COUNT of them */
/* Attaches an entry to a new node if the grad mode is on, its dtype is a float, the op has a
** gradient and an input is tracked. Returns 0 when memory is out. */
int fl_entry_attach(fl_node *n);
/* Detaches and frees the entry (grefs and saved values of the inputs are released). */
void fl_entry_drop(fl_node *n);
void fl_entry_detach(fl_node *n);              /* does not free n if it is unused: for node.c */
void fl_node_forget_inputs(fl_node *n);        /* nin = 0, attr freed: for entry.c */
/* Called when n is about to become a mere copy of b: its entry, if it has one, becomes the entry of
** a copy, with b as its only input. */
void fl_entry_restart(fl_node *n, fl_node *b);
/* Releases grefs, saved values, custom and hooks but keeps the entry, marked as spent, for a
** backward without retain_graph, so that a second walk can report it. Leaves are unchanged. */
void fl_entry_spend(fl_node *n);
/* Makes the values of handles, and recorded nodes, untracked, except leaves. Does nothing when
** memory is out. */
flame_status fl_entries_forget(struct flame_context *c);
int fl_entry_leaf(fl_node *n, struct flame_tensor *handle);      /* make n a leaf */
/* n becomes a value of the same leaf as 'old' (write under no_grad). */
void fl_entry_share_leaf(fl_node *n, fl_node *old);
static inline int fl_tracked(const fl_node *n) { return n->entry != NULL; }
#endif
