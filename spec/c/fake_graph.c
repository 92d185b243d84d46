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
  for (fake_node *x = g->first, *next; x; x = next) {
    next = x->next;
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
  *last = (const fl_cu_graph_node *)(void *)&fake_capturing->last;
  *n = fake_capturing->last ? 1 : 0;
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
static fl_cu_result fake_GraphLaunch(fl_cu_graph_exec exec, fl_cu_stream s) {
  const fake_graph *g = (const fake_graph *)(void *)*(fl_cu_graph *)(void *)exec;
  if (fake_capturing) return FL_CU_INVALID_VALUE;
  fake.graph_launches++;
  fl_cu_result r = FL_CU_OK;
  for (fake_node *x = g->first; x && r == FL_CU_OK; x = x->next) {
    if (x->kind == FAKE_KERNEL)
      r = fake_LaunchKernel((fl_cu_function)(void *)(uintptr_t)x->f, x->grid[0], x->grid[1],
                            x->grid[2], x->block[0], x->block[1], x->block[2], x->shared, s,
                            x->args ? x->at : NULL, NULL);
    if (x->kind == FAKE_COPY) memmove(x->to, x->from, x->n);
    if (x->kind == FAKE_FILL) memset(x->to, x->value, x->n);
    if (x->kind == FAKE_PRODUCT) fake_do_product(x->product);
  }
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

