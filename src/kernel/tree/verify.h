/*
** The invariants of tree.h, checked: types agree; numbers of variables, accesses, BLOCKs and LOOPs
** are in range, the last two appear once; exits have a block or loop to leave; a variable of the
** source is used in the scope of its DECL. The check runs after every pass in debug builds and in
** builds with test hooks; a tree that fails is a bug of the pass before, never of the user.
*/
#ifndef FL_KERNEL_VERIFY_H
#define FL_KERNEL_VERIFY_H
#include "kernel/tree/tree.h"

/* What is wrong with 'body' as the body of f, with the line (in f's arena); NULL: nothing, or f has
** no body, or its arena has failed. */
const char *fl_kverify(const fl_kfunc *f, fl_kblock body);

/* Called after each pass: prints the tree if FLAME_DEBUG is at least 6, and in debug builds and
** those with test hooks stops the program with a message if the pass made a tree that breaks an
** invariant. */
void fl_kpass_done(const char *pass, const fl_kfunc *f, fl_kblock body);

/* Is FLAME_DEBUG at least 6? Then fl_kpass_tell prints a line about what became of a kernel, 'what'
** (NULL: it prints nothing): "kernel 'k' 0123456789abcdef: …". The number is the hash of its tree;
** tools/verdicts collects these lines. */
int fl_kpass_is_told(void);
uint64_t fl_ktree_hash(const fl_kfunc *f);           /* hash of the printed tree; 0: no memory */
void fl_kpass_tell(const fl_kfunc *f, const char *what);
#endif
