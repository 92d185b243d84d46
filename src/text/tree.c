/* The tree of a JSON text. */
#include "text/tree.h"

enum { MOST = 1 << 29 };

static int64_t add(fl_tree *t, fl_mem *mem, fl_json *j, fl_tree_kind kind, const char *at,
                   size_t n) {
  if (n >= UINT32_MAX || t->nodes.n >= MOST - 1) return fl_json_fail(j, "the text is too long"), -1;
  fl_tree_node *node = FL_PUSH(mem, &t->nodes);
  if (!node) return -1;
  *node = (fl_tree_node){ .at = at, .n = (uint32_t)n, .kind = kind & 7, .next = 1 };
  return t->nodes.n - 1;
}

static int value(fl_tree *t, fl_mem *mem, fl_json *j, int depth);

static int members(fl_tree *t, fl_mem *mem, fl_json *j, char bracket, int depth) {
  fl_span key;
  int first = 1;
  uint32_t count = 0;
  const int64_t at = add(t, mem, j, bracket == '{' ? FL_TREE_OBJECT : FL_TREE_LIST, j->at, 0);
  if (at < 0 || !fl_json_open(j, bracket)) return 0;
  if (depth >= FL_IO_MAX_DEPTH) return fl_json_fail(j, "nested too deep");
  for (; fl_json_more(j, bracket, &first); count++) {
    if (bracket == '{' && (!fl_json_key(j, &key) ||
                           add(t, mem, j, FL_TREE_STRING, key.at, key.n) < 0)) return 0;
    if (!value(t, mem, j, depth + 1)) return 0;
  }
  t->nodes.at[at].n = count;
  t->nodes.at[at].next = (uint32_t)(t->nodes.n - at) & (MOST - 1);
  return j->wrong == NULL;
}

/* Recursion is bounded by FL_IO_MAX_DEPTH. */
static int value(fl_tree *t, fl_mem *mem, fl_json *j, int depth) {
  const char c = fl_json_peek(j);
  if (c == '{' || c == '[') return members(t, mem, j, c, depth);
  fl_span s;
  if (c == '"')
    return fl_json_string(j, &s) && add(t, mem, j, FL_TREE_STRING, s.at, s.n) >= 0;
  const char *from = j->at;
  const fl_tree_kind kind = c == '-' || (c >= '0' && c <= '9') ? FL_TREE_NUMBER : FL_TREE_WORD;
  return fl_json_skip(j) && add(t, mem, j, kind, from, (size_t)(j->at - from)) >= 0;
}

int fl_tree_read(fl_tree *t, fl_mem *mem, fl_json *j, char *text, size_t n) {
  *t = (fl_tree){ 0 };
  fl_json_init(j, text, n);
  return value(t, mem, j, 0) && fl_json_end(j);
}

void fl_tree_drop(fl_tree *t, fl_mem *mem) { FL_DROP(mem, &t->nodes); }

const fl_tree_node *fl_tree_get(const fl_tree_node *object, const char *key) {
  const fl_tree_node *found = NULL;
  if (object == NULL || object->kind != FL_TREE_OBJECT) return NULL;
  const fl_tree_node *k = object + 1;
  for (uint32_t i = 0; i < object->n; i++, k = fl_tree_next(k + 1))
    if (fl_tree_is(k, key)) found = k + 1;
  return found && found->kind == FL_TREE_WORD && fl_tree_is(found, "null") ? NULL : found;
}
