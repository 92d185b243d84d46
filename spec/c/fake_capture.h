/* Nodes that a captured stream records for a graph; included by fake_driver.c. */
/* A captured node: work of a stream, which each launch of its graph does. */
typedef struct fake_node {
  struct fake_node *next;
  struct fake_node **on;                /* the nodes that it depends on */
  size_t non;
  int done;                             /* in this launch of the graph */
  enum { FAKE_KERNEL, FAKE_COPY, FAKE_FILL, FAKE_PRODUCT } kind;
  const struct fake_function *f;
  unsigned grid[3], block[3], shared;
  void *args, *at[FAKE_ARGS];           /* of the kernel */
  void *to;                             /* of a copy or fill, of n bytes */
  const void *from;
  unsigned char value;
  size_t n;
  struct fake_product *product;         /* of a matrix product */
} fake_node;
/* A captured graph of n nodes. on: the nodes on which the next captured one will depend. */
typedef struct fake_graph {
  fake_node *first, **end;
  fake_node **on;
  size_t non;
  int64_t n;
} fake_graph;
static fake_graph *fake_capturing;      /* of the stream that is captured; NULL: none */

/* Appends a node to the capture and returns it; NULL: no stream is captured. */
static fake_node *fake_capture(int kind) {
  if (!fake_capturing) return NULL;
  fake_node *x = calloc(1, sizeof *x);
  if (!x) abort();
  x->kind = kind;
  *fake_capturing->end = x;
  fake_capturing->end = &x->next;
  x->on = fake_capturing->on;
  x->non = fake_capturing->non;
  fake_capturing->on = malloc(sizeof x);
  if (!fake_capturing->on) abort();
  fake_capturing->on[0] = x;
  fake_capturing->non = 1;
  fake_capturing->n++;
  return x;
}

