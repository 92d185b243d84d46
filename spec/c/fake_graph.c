/* CUDA graphs of the fake driver, included by fake_driver.c. An instantiated graph (exec) is a
** pointer to the graph it was made of. */
/* ---- graphs ---- */

static fl_cu_result fake_StreamBeginCapture(fl_cu_stream s, unsigned mode) {
  (void)s; (void)mode;
  if (fake_capturing) return FL_CU_INVALID_VALUE;
  fake_capturing = fake_new(&fake.graphs, sizeof *fake_capturing);
  if (!fake_capturing) return FL_CU_OUT_OF_MEMORY;
  fake_capturing->end = &fake_capturing->first;
  fake.captures++;
  return FL_CU_OK;
}
static fl_cu_result fake_GraphDestroy(fl_cu_graph graph) {
  fake_graph *g = (fake_graph *)(void *)graph;
  free(g->on);
  for (fake_node *x = g->first, *next; x; x = next) {
    next = x->next;
    free(x->on);
    free(x->product);
    free(x->args);
    free(x);
  }
  fake_delete(&fake.graphs, g);
  return FL_CU_OK;
}
static fl_cu_result fake_StreamEndCapture(fl_cu_stream s, fl_cu_graph *g) {
  (void)s;
  *g = (fl_cu_graph)(void *)fake_capturing;
  fake_capturing = NULL;
  return *g ? FL_CU_OK : FL_CU_INVALID_VALUE;
}
static fl_cu_result fake_StreamCaptureInfo(fl_cu_stream s, int *state, unsigned long long *id,
                                           fl_cu_graph *g, const fl_cu_graph_node **last,
                                           const void **edges, size_t *n) {
  (void)s; (void)id; (void)g; (void)edges;
  *state = fake_capturing != NULL;
  if (!fake_capturing) return FL_CU_OK;
  *last = (const fl_cu_graph_node *)(void *)fake_capturing->on;
  *n = fake_capturing->non;
  return FL_CU_OK;
}
static fl_cu_result fake_StreamCaptureDepend(fl_cu_stream s, fl_cu_graph_node *on,
                                             const void *edges, size_t n, unsigned flags) {
  (void)s;
  if (!fake_capturing || edges || flags != 1) return FL_CU_INVALID_VALUE;
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j < i; j++) if (on[i] == on[j]) return FL_CU_INVALID_VALUE;
  fake_node **own = malloc((n + 1) * sizeof *own);
  if (!own) abort();
  for (size_t i = 0; i < n; i++) own[i] = (fake_node *)(void *)(uintptr_t)on[i];
  free(fake_capturing->on);
  fake_capturing->on = own;
  fake_capturing->non = n;
  return FL_CU_OK;
}
static fl_cu_result fake_GraphInstantiate(fl_cu_graph_exec *x, fl_cu_graph g,
                                          unsigned long long flags) {
  (void)flags;
  fl_cu_graph *own = fake_new(&fake.execs, sizeof *own);
  if (!own) return FL_CU_OUT_OF_MEMORY;
  *own = g;
  *x = (fl_cu_graph_exec)(void *)own;
  return FL_CU_OK;
}
static fl_cu_result fake_do_node(const fake_node *x, fl_cu_stream s) {
  if (x->kind == FAKE_COPY) memmove(x->to, x->from, x->n);
  if (x->kind == FAKE_FILL) memset(x->to, x->value, x->n);
  if (x->kind == FAKE_PRODUCT) fake_do_product(x->product);
  return x->kind != FAKE_KERNEL ? FL_CU_OK
    : fake_LaunchKernel((fl_cu_function)(void *)(uintptr_t)x->f, x->grid[0], x->grid[1], x->grid[2],
                        x->block[0], x->block[1], x->block[2], x->shared, s,
                        x->args ? (void **)(void *)(uintptr_t)x->at : NULL, NULL);
}
/* 1 if the node has not run yet in this launch, and all nodes that it depends on have. */
static int fake_ready(const fake_node *x) {
  size_t i = 0;
  while (i < x->non && x->on[i]->done) i++;
  return !x->done && i == x->non;
}
/* The node that runs next, of those that are ready: the last captured one ('last', which is set in
** every other launch), so that a node which does not wait for what it reads runs too early; else a
** random one. NULL: none is left. */
static fake_node *fake_next(const fake_graph *g, uint64_t *random, int last) {
  fake_node *best = NULL;
  int64_t n = 0;
  for (fake_node *x = g->first; x; x = x->next) {
    if (!fake_ready(x)) continue;
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    n++;
    if (last || (int64_t)(*random >> 33) % n == 0) best = x;
  }
  return best;
}
static fl_cu_result fake_GraphLaunch(fl_cu_graph_exec exec, fl_cu_stream s) {
  const fake_graph *g = (const fake_graph *)(void *)*(fl_cu_graph *)(void *)exec;
  if (fake_capturing) return FL_CU_INVALID_VALUE;
  uint64_t random = (uint64_t)++fake.graph_launches;
  const int last = fake.graph_launches % 2;
  fl_cu_result r = FL_CU_OK;
  for (fake_node *x = g->first; x; x = x->next) x->done = 0;
  for (fake_node *x = g->first; fake.idle && x && r == FL_CU_OK; x = x->next)
    r = fake_do_node(x, s);
  for (fake_node *x; !fake.idle && r == FL_CU_OK && (x = fake_next(g, &random, last)); x->done = 1)
    r = fake_do_node(x, s);
  return r;
}
static fl_cu_result fake_GraphExecKernelNodeSetParams(fl_cu_graph_exec x, fl_cu_graph_node n,
                                                      const fl_cu_kernel_node *p) {
  (void)x;
  fake_node *k = (fake_node *)(void *)(uintptr_t)n;
  const fake_function *f = (fake_function *)(void *)p->function;
  if (k->kind != FAKE_KERNEL || k->f != f || k->grid[0] != p->grid[0] ||
      k->block[0] != p->block[0] || !p->params) return FL_CU_INVALID_VALUE;
  fake_set_node(k, f, p->grid, p->block, p->shared, p->params);
  fake.node_sets++;
  return FL_CU_OK;
}
static fl_cu_result fake_GraphExecDestroy(fl_cu_graph_exec x) {
  fake_delete(&fake.execs, x);
  return FL_CU_OK;
}

