/*
** Keys of x[…] and x(…) after they were read: one view (start, step and count of each axis, and
** which axes are dropped), and the index tensors and masks that then address the remaining axes.
** (key.c)
*/
#ifndef FL_LUA_KEY_H
#define FL_LUA_KEY_H
#include "lua/binding.h"

#define FL_INDEXING "x[…]"                     /* the op's name in messages */

/* An index tensor for 'axis', or (mask: 1) a mask for as many axes as it has, 'axis' the first. */
typedef struct fl_key_item { int axis, mask; fl_box *box; } fl_key_item;
typedef struct fl_key {
  int rank;                    /* rank and sizes of x with the new axes of the key */
  int64_t size[FL_MAX_AXES];
  int64_t start[FL_MAX_AXES], step[FL_MAX_AXES], count[FL_MAX_AXES];
  uint32_t drop;               /* axes dropped by a number */
  uint32_t fresh;              /* bit a: axis a is a new axis of one element */
  int whole;                   /* no number or range selects a part */
  int nitem;
  fl_key_item items[FL_MAX_AXES];
} fl_key;

/* Reads the key of x[k] at stack index 2; a table is a list of items. */
void fl_key_read(lua_State *L, fl_key *k, const fl_layout *l);
/* Reads the items of a key at stack indices first … last. */
void fl_key_read_items(lua_State *L, int first, int last, fl_key *k, const fl_layout *l);
/* An axis as messages count it, from 1 and without the new ones. */
int fl_key_named(const fl_key *k, int axis);
/* x with the new axes, of size 1, that the key adds. */
fl_node *fl_key_widen(const fl_key *k, fl_node *x);
#endif
