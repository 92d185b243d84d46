/*
** A JSON text as a tree, for files whose keys come in any order. Nodes lie in one array; text
** points into the buffer, which the reader has decoded in place.
*/
#ifndef FL_TEXT_TREE_H
#define FL_TEXT_TREE_H
#include "io/json.h"
#include <string.h>

typedef enum fl_tree_kind { FL_TREE_WORD, FL_TREE_NUMBER, FL_TREE_STRING, FL_TREE_LIST,
                            FL_TREE_OBJECT } fl_tree_kind;
typedef struct fl_tree_node {
  const char *at;          /* bytes of a string (decoded), of a number, or of null, true or false */
  uint32_t n;                   /* number of bytes; or of members */
  uint32_t kind : 3, next : 29; /* next: number of nodes up to the next member; an object's
                                ** members are its keys, each followed by its value */
} fl_tree_node;
typedef struct fl_tree { struct { fl_tree_node *at; int64_t n, cap; } nodes; } fl_tree;

/* text may be changed and must remain valid. 0: no memory, or j->wrong. */
int fl_tree_read(fl_tree *t, fl_mem *mem, fl_json *j, char *text, size_t n);
void fl_tree_drop(fl_tree *t, fl_mem *mem);
/* The value of a key; NULL: there is none, or it is null. If there are several the last counts. */
const fl_tree_node *fl_tree_get(const fl_tree_node *object, const char *key);
/* The first member of a list or an object; NULL: n is not of that kind. */
static inline const fl_tree_node *fl_tree_first(const fl_tree_node *n, fl_tree_kind kind) {
  return n != NULL && n->kind == kind ? n + 1 : NULL;
}
static inline const fl_tree_node *fl_tree_next(const fl_tree_node *n) { return n + n->next; }
static inline int fl_tree_is(const fl_tree_node *n, const char *text) {
  return n != NULL && n->n == strlen(text) && memcmp(n->at, text, n->n) == 0;
}
#endif
