/*
** Spans (sequences of steps, replay.h) become CUDA graphs: steps are queued while the stream is
** captured, each after the steps for which it waits (waits.h).
*/
#include "cuda/recording.h"
#include "cuda/waits.h"
#include <assert.h>
#include <string.h>

enum { CAPTURE_RELAXED = 2, SET_DEPENDENCIES = 1 };      /* values of enums in cuda.h */

/* While the graph of a span is captured: the nodes after which each step is done. */
typedef struct ends {
  fl_waits *waits;                /* NULL: the steps run one after the other */
  int32_t from;
  int32_t *first;                 /* per step, and one more: index in 'node' of its first node */
  struct { fl_cu_graph_node *at; int64_t n, cap; } node;
} ends;

void fl_span_free(fl_recording *w, fl_span *x, int driver) {
  if (driver && x->exec) w->s->cu->GraphExecDestroy(x->exec);
  if (driver && x->graph) w->s->cu->GraphDestroy(x->graph);
  x->exec = NULL;
  x->graph = NULL;
}

void fl_kernel_node_free(fl_mem *m, fl_kernel_node *x) {
  fl_free(m, x->word, (size_t)x->words * 8);
  fl_free(m, x->scalar, (size_t)x->nscalar * sizeof *x->scalar);
}

/* ---- launches ---- */

static void *table_of(void *arg, const fl_launch_group *g) {
  const fl_recording *w = arg;
  for (int64_t i = 0; i < w->tables.n; i++)
    if (w->tables.at[i].group == g) return w->tables.at[i].at;
  return NULL;
}

/* The nodes on which the next captured one would depend; their number: *n. */
static const fl_cu_graph_node *last_nodes(fl_cuda *s, size_t *n) {
  const fl_cu_graph_node *last = NULL;
  int state = 0;
  *n = 0;
  const fl_cu_result r = s->cu->StreamCaptureInfo(s->stream, &state, NULL, NULL, &last, NULL, n);
  if (r != FL_CU_OK) *n = 0;
  return last;
}

/* The node captured last; NULL: unknown. */
static fl_cu_graph_node last_node(fl_cuda *s) {
  size_t n;
  const fl_cu_graph_node *last = last_nodes(s, &n);
  return n == 1 ? last[0] : NULL;
}

static flame_status note_launch(void *arg, const fl_kernel *k, const fl_launch_group *g,
                                const int64_t *word) {
  fl_recording *w = arg;
  const fl_cu_graph_node node = last_node(w->s);
  if (!node) return FLAME_INTERNAL;
  fl_kernel_node *x = FL_PUSH(w->s->mem, &w->nodes);
  if (!x) return FLAME_NO_MEMORY;
  *x = (fl_kernel_node){
    .kernel = k, .span = (int32_t)w->spans.n, .words = g->words, .node = node,
    .launch = { .function = g->function, .grid = { (unsigned)g->grid, 1, 1 },
                .block = { g->geometry[0].block, 1, 1 }, .shared = g->geometry[0].shared },
    .nscalar = fl_text_scalars(k, NULL), .word = fl_alloc(w->s->mem, (size_t)g->words * 8)
  };
  x->scalar = fl_alloc(w->s->mem, (size_t)x->nscalar * sizeof *x->scalar);
  if (!x->word || !x->scalar) {
    fl_kernel_node_free(w->s->mem, x);
    w->nodes.n--;
    return FLAME_NO_MEMORY;
  }
  fl_text_scalars(k, x->scalar);
  memcpy(x->word, word, (size_t)g->words * 8);
  return FLAME_OK;
}

/* ---- the order of a graph ---- */

/* Does step i write a buffer of the script without reading the run's checks itself, or trust an
** assertion? Then the host must read the checks before the step is queued. */
static int waits(const fl_plan *p, const fl_replay *r, int32_t i) {
  const fl_step *t = &p->step[i];
  return (t->commits && !fl_step_guarded(r->s, t)) || fl_step_trusts(p, i);
}

static int32_t span_end(const fl_plan *p, const fl_replay *r, int32_t from, int open) {
  int32_t i = from;
  if (r->plain[i] || fl_step_collects(&p->step[i])) return i + 1;
  do {
    open |= p->nfault && fl_step_checks(&p->step[i]);
    if (fl_step_soon(p, i, 0) >= 0 || (fl_step_sends(p, i) && !r->s->cu->EventRecordFlags))
      return i + 1;
    i++;
  } while (i < p->nstep && !r->plain[i] && !(open && waits(p, r, i)) && !p->step[i].joins &&
           !fl_step_collects(&p->step[i]));
  return i;
}

static void drop_nodes(fl_mem *m, fl_recording *w, int64_t keep) {
  while (w->nodes.n > keep) fl_kernel_node_free(m, &w->nodes.at[--w->nodes.n]);
}

static int has_node(const ends *x, int64_t from, fl_cu_graph_node node) {
  for (int64_t i = from; i < x->node.n; i++) if (x->node.at[i] == node) return 1;
  return 0;
}

/* Before step i is captured: it shall depend on the nodes of the steps that it waits for. */
static int set_waits(fl_cuda *s, ends *x, int32_t i) {
  const int64_t before = x->node.n;
  const int32_t *on, n = fl_waits_of(x->waits, i, &on);
  for (int32_t j = 0; j < n; j++)
    for (int32_t k = x->first[on[j] - x->from]; k < x->first[on[j] - x->from + 1]; k++) {
      assert(x->node.at);
      if (has_node(x, before, x->node.at[k])) continue;
      fl_cu_graph_node *at = FL_PUSH(s->mem, &x->node);
      if (!at) return 0;
      *at = x->node.at[k];
    }
  const fl_cu_result r = s->cu->StreamCaptureDepend(
      s->stream, x->node.at ? x->node.at + before : NULL, NULL, (size_t)(x->node.n - before),
      SET_DEPENDENCIES);
  x->node.n = before;
  return r == FL_CU_OK;
}

/* After step i was captured: keeps the nodes after which it is done. */
static int keep_ends(fl_cuda *s, ends *x, int32_t i) {
  size_t n;
  const fl_cu_graph_node *last = last_nodes(s, &n);
  x->first[i - x->from] = (int32_t)x->node.n;
  for (size_t k = 0; k < n; k++) {
    fl_cu_graph_node *at = FL_PUSH(s->mem, &x->node);
    if (!at) return 0;
    *at = last[k];
  }
  x->first[i - x->from + 1] = (int32_t)x->node.n;
  return 1;
}

/* Captures a step and, if the report of checks is sent after it, this sending; 0: it cannot be
** captured. */
static int capture_step(fl_cuda *s, fl_recording *w, const fl_plan *p, int32_t i, fl_span *x,
                        ends *y) {
  const fl_step_notes notes = { w, table_of, note_launch };
  char text[FL_CALL_FAULT] = "";
  if (y->waits && !set_waits(s, y, i)) return 0;
  if (i == 0 && p->nfault && fl_step_clear(s) != FLAME_OK) return 0;
  if (fl_step_run(s, &p->step[i], w->b, &notes, text) != FLAME_OK || text[0]) return 0;
  if (fl_step_sends(p, i) && s->cu->EventRecordFlags) {
    if (fl_step_send(s) != FLAME_OK) return 0;
    x->sends = 1;
  }
  return s->capturing == FL_CAPTURE_ON && (!y->waits || keep_ends(s, y, i));
}

static void open_ends(fl_cuda *s, const fl_plan *p, int32_t from, int32_t to, ends *y) {
  *y = (ends){ .from = from, .waits = fl_waits_open(s, p, from, to) };
  if (!y->waits) return;
  y->first = fl_zalloc(s->mem, sizeof *y->first * (size_t)(to - from + 1));
  if (y->first) return;
  fl_waits_free(y->waits);
  y->waits = NULL;
}

static void close_ends(fl_cuda *s, int32_t to, ends *y) {
  if (y->first) fl_free(s->mem, y->first, sizeof *y->first * (size_t)(to - y->from + 1));
  FL_DROP(s->mem, &y->node);
  fl_waits_free(y->waits);
}

/* Captures the steps. Returns the step that cannot be captured ('from' if no graph can be made of
** all), or 'to' if all could. */
static int32_t capture(fl_cuda *s, fl_recording *w, const fl_plan *p, int32_t from, int32_t to,
                       fl_span *x) {
  int32_t i = from;
  ends y;
  x->sends = 0;
  if (s->cu->StreamBeginCapture(s->stream, CAPTURE_RELAXED) != FL_CU_OK) return from;
  open_ends(s, p, from, to, &y);
  s->capturing = FL_CAPTURE_ON;
  while (i < to && capture_step(s, w, p, i, x, &y)) i++;
  s->capturing = FL_CAPTURE_NONE;
  close_ends(s, to, &y);
  const fl_cu_result ended = s->cu->StreamEndCapture(s->stream, &x->graph);
  if (i == to && (ended != FL_CU_OK || !x->graph)) i = from;
  if (i < to) fl_span_free(w, x, 1);
  return i;
}

void fl_span_ready(fl_recording *w, fl_span *x) {
  if (w->s->cu->GraphInstantiate(&x->exec, x->graph, 0) == FL_CU_OK) return;
  x->exec = NULL;
  w->failed = 1;
  fl_span_free(w, x, 1);
}

flame_status fl_span_make(fl_cuda *s, fl_recording *w, const fl_plan *p, int32_t from, int open) {
  fl_replay *r = p->replay;
  const fl_error before = s->ctx->err;
  fl_span x = { .from = from };
  for (;;) {
    const int64_t nodes = w->nodes.n;
    x.to = span_end(p, r, from, open);
    if (r->plain[from] || x.to - from < FL_SPAN_LEAST) break;
    const int32_t bad = capture(s, w, p, from, x.to, &x);
    if (bad == x.to) break;
    drop_nodes(s->mem, w, nodes);
    if (s->dead) return fl_cuda_lost(s);
    s->ctx->err = before;
    r->plain[bad] = 1;
  }
  fl_span *kept = FL_PUSH(s->mem, &w->spans);
  if (kept) {
    *kept = x;
    return FLAME_OK;
  }
  fl_span_free(w, &x, 1);
  w->epoch = UINT64_MAX;                     /* there are nodes of a span that does not exist */
  return FL_FAIL(s->ctx, FLAME_NO_MEMORY, "cuda", "no host memory to record a run");
}
