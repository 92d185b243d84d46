/* Nodes that a captured stream records for a graph; included by fake_driver.c. */
/* A captured node: work of a stream, which each launch of its graph does. */
typedef struct fake_node {
  struct fake_node *next;
  enum { FAKE_KERNEL, FAKE_COPY, FAKE_FILL, FAKE_PRODUCT } kind;
  const struct fake_function *f;
  unsigned grid[3], block[3], shared;
  void *args, *at[FAKE_ARGS];           /* of the kernel */
  void *to;
  const void *from;
  unsigned char value;
  size_t n;
  struct fake_product *product;
} fake_node;
typedef struct fake_graph { fake_node *first, **end; fake_node *last; int64_t n; } fake_graph;
static fake_graph *fake_capturing;      /* of the stream */

/* Appends a node to the capture and returns it; NULL if no stream is being captured. */
static fake_node *fake_capture(int kind) {
  if (!fake_capturing) return NULL;
  fake_node *x = calloc(1, sizeof *x);
  if (!x) abort();
  x->kind = kind;
  *fake_capturing->end = x;
  fake_capturing->end = &x->next;
  fake_capturing->last = x;
  fake_capturing->n++;
  return x;
}

