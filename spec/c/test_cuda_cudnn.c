/*
** Attention by cuDNN, on a fake cuDNN that records its calls: for which attention calls it is used,
** which graphs are built, what is executed for large calls, and whether all is released at the end.
*/
#include "fake_device.h"
#include "cuda/call/call.h"
#include "cuda/library/cudnn.h"

enum { ITEMS = 4096, MOST = 16, SPACE = 1000 };
typedef struct item { int kind, live, n; int64_t id[MOST]; void *at[MOST], *space; } item;
typedef struct execution { int n; int64_t id[MOST]; char *at[MOST]; void *space; } execution;
static struct {
  item item[ITEMS];
  int made, live, ops, minor, handles, executions, refuse, point[700];
  execution execution[64];
} dnn;

static fl_dnn_status create(fl_dnn_handle *h) { *h = &dnn; return dnn.handles++, 0; }
static fl_dnn_status destroy(fl_dnn_handle h) { (void)h; return dnn.handles--, 0; }
static fl_dnn_status set_stream(fl_dnn_handle h, fl_dnn_stream s) { return (void)h, (void)s, 0; }
static fl_dnn_status property(fl_dnn_property which, int *value) {
  *value = which == FL_DNN_MAJOR ? 9 : which == FL_DNN_MINOR ? dnn.minor : 0;
  return 0;
}
static fl_dnn_status new_item(fl_dnn_kind kind, fl_dnn_item *d) {
  item *x = &dnn.item[dnn.made++];
  CHECK(dnn.made < ITEMS);
  *x = (item){ .kind = (int)kind, .live = 1 };
  dnn.live++;
  *d = x;
  return 0;
}
static fl_dnn_status drop_item(fl_dnn_item d) {
  item *x = d;
  CHECK(x->live);
  x->live = 0;
  return dnn.live--, 0;
}
static fl_dnn_status set_item(fl_dnn_item d, fl_dnn_name name, fl_dnn_type type, int64_t n,
                              const void *values) {
  item *x = d;
  CHECK(x->live && n > 0);
  if (name == FL_DNN_GRAPH_OPS) dnn.ops = (int)n;
  if (x->kind == FL_DNN_POINT_SPEC && type == FL_DNN_IS_POINT_MODE)
    dnn.point[*(const int *)values]++;
  if (x->kind != FL_DNN_VALUES) return 0;
  if (name == FL_DNN_VALUES_SPACE) x->space = *(void *const *)values;
  else if (name == FL_DNN_VALUES_IDS) memcpy(x->id, values, sizeof *x->id * (size_t)n);
  else memcpy(x->at, values, sizeof *x->at * (size_t)n);
  x->n = (int)n;
  if (name == FL_DNN_VALUES_IDS) x->live = 1 + (int)n;
  if (name == FL_DNN_VALUES_POINTERS) CHECK(x->live == 1 + (int)n);
  return 0;
}
static fl_dnn_status get_item(const fl_dnn_item d, fl_dnn_name name, fl_dnn_type type, int64_t most,
                              int64_t *n, void *values) {
  (void)d, (void)type;
  *n = name == FL_DNN_ENGINE_NOTES ? 0 : most > 0;
  if (name == FL_DNN_PLAN_SPACE) *(int64_t *)values = SPACE;
  return 0;
}
static fl_dnn_status finish_item(fl_dnn_item d) {
  return ((item *)d)->kind == FL_DNN_PLAN && dnn.refuse ? 3000 : 0;
}
static fl_dnn_status execute(fl_dnn_handle h, fl_dnn_item plan, fl_dnn_item values) {
  const item *x = values;
  execution *e = &dnn.execution[dnn.executions++];
  CHECK(h == &dnn && ((item *)plan)->kind == FL_DNN_PLAN && dnn.executions < 64);
  e->n = x->live - 1;
  memcpy(e->id, x->id, sizeof e->id);
  memcpy(e->at, x->at, sizeof e->at);
  e->space = x->space;
  return 0;
}
static const fl_cudnn recording = {
  .cudnnCreate = create, .cudnnDestroy = destroy, .cudnnSetStream = set_stream,
  .cudnnGetProperty = property, .cudnnBackendCreateDescriptor = new_item,
  .cudnnBackendDestroyDescriptor = drop_item, .cudnnBackendSetAttribute = set_item,
  .cudnnBackendGetAttribute = get_item, .cudnnBackendFinalize = finish_item,
  .cudnnBackendExecute = execute
};
static const fl_cudnn *get_recording(const char **reason) { return (void)reason, &recording; }

/* ---- calls ---- */

/* An attention call whose q, k and v lie side by side in rows of (h + 2 hk) d elements. */
static fl_call call_of(int back, int dtype, fl_attention a) {
  const int64_t wide = (a.h + 2 * a.hk) * a.d, lse = fl_lse_width(dtype), first = back ? 2 : 0;
  const int64_t qs[3] = { a.t * wide, a.d, wide }, ks[3] = { a.s * wide, a.d, wide },
                gs[3] = { a.t * a.h * a.d, a.d, a.h * a.d };
  const int64_t out = a.b * a.h * a.t * a.d, keys = a.b * a.hk * a.s * a.d,
                packed = out + a.b * a.h * a.t * lse;
  a.d2 = a.d;
  memcpy(a.qs, qs, sizeof qs);
  memcpy(a.ks, ks, sizeof ks);
  memcpy(a.vs, ks, sizeof ks);
  memcpy(a.gs, gs, sizeof gs);
  fl_call c = { .kind = back ? FL_CALL_attention_back : FL_CALL_attention, .what = "attention",
                .nscalar = 1, .nin = (uint8_t)(first + 3), .dtype = (uint8_t)dtype,
                .numel = back ? out + 2 * keys : packed, .in_numel = { out, packed } };
  for (int64_t i = first; i < first + 3; i++)
    c.in_numel[i] = (a.b * (i == first ? a.t : a.s) - 1) * wide + a.h * a.d;
  memcpy(c.p, &a, sizeof a);
  memset(c.in_dtype, dtype, sizeof c.in_dtype);
  return c;
}

typedef struct bench { flame_context c; fl_device d; } bench;
static fl_cuda *open_bench(bench *b, int minor, int arch) {
  static const fl_cuda_lib mixed = { fake_get_driver, fake_get_nvrtc, fake_get_blaslt, fake_get_fft,
                                     fake_get_solver, get_recording, NULL, NULL };
  memset(b, 0, sizeof *b);
  memset(&dnn, 0, sizeof dnn);
  dnn.minor = minor;
  fake_reset();
  CHECK(fl_cuda_open_with(&b->c, &b->d, 0, &mixed) == FLAME_OK);
  fl_cuda *s = b->d.state;
  s->arch = arch;
  return s;
}
static void close_bench(bench *b) {
  close_fake(&b->c, &b->d);
  CHECK(dnn.live == 0 && dnn.handles == 0);
}

static const fl_attention usual = { .b = 2, .h = 4, .hk = 2, .t = 512, .s = 576, .d = 64,
                                    .causal = 1 };

static int taken(fl_cuda *s, int back, int dtype, fl_attention a) {
  const fl_call c = call_of(back, dtype, a);
  CHECK(fl_calls[c.kind].fits(&c));
  return fl_dnn_attention(s, &c) != NULL;
}

static void sizes_dtype_and_card_choose_the_kernel(void) {
  static const struct { int64_t t, s, d; int taken; } of[] = {
    { 512, 512, 64, 1 }, { 448, 512, 64, 0 }, { 512, 448, 64, 0 }, { 520, 512, 64, 0 },
    { 512, 520, 64, 0 }, { 1024, 512, 8, 1 }, { 512, 512, 128, 1 }, { 512, 512, 136, 0 },
  };
  bench b;
  for (int back = 0; back < 2; back++) {
    fl_cuda *s = open_bench(&b, 19, 90);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
      fl_attention a = usual;
      a.t = of[i].t, a.s = of[i].s, a.d = of[i].d;
      CHECK(taken(s, back, FLAME_BF16, a) == of[i].taken);
      CHECK(taken(s, back, FLAME_F16, a) == of[i].taken);
      CHECK(!taken(s, back, FLAME_F32, a));
    }
    close_bench(&b);
    s = open_bench(&b, 10, 90);                     /* a version with wrong gradients */
    CHECK(!taken(s, back, FLAME_BF16, usual));
    close_bench(&b);
    s = open_bench(&b, 19, 80);
    CHECK(!taken(s, back, FLAME_BF16, usual) && dnn.made == 0);
    close_bench(&b);
    s = open_bench(&b, 19, 90);
    dnn.refuse = 1;                                 /* no engine can be made */
    CHECK(!taken(s, back, FLAME_BF16, usual) && dnn.live == 0);
    close_bench(&b);
  }
}

static void rows_that_overlap_or_are_not_aligned_are_left_to_our_kernel(void) {
  bench b;
  fl_cuda *s = open_bench(&b, 19, 90);
  fl_call c = call_of(0, FLAME_BF16, usual);
  CHECK(fl_dnn_attention(s, &c) != NULL);
  c.p[FL_AP_SIZES + 4] = 0;                         /* one head of k for all */
  CHECK(fl_dnn_attention(s, &c) == NULL);
  c = call_of(0, FLAME_BF16, usual);
  c.p[FL_AP_SIZES + 1] -= 4;
  CHECK(fl_dnn_attention(s, &c) == NULL);
  c = call_of(1, FLAME_BF16, usual);
  CHECK(fl_dnn_attention(s, &c) != NULL);
  c.p[FL_AP_SIZES + 9] = 0;                         /* a cotangent that is constant */
  CHECK(fl_dnn_attention(s, &c) == NULL);
  c = call_of(0, FLAME_BF16, usual);
  c.nin = 4;
  c.in_dtype[3] = FLAME_BOOL;
  c.in_numel[3] = 1;
  CHECK(fl_dnn_attention(s, &c) == NULL);
  close_bench(&b);
}

static void graphs_have_the_operations_that_the_engines_know(void) {
  static const struct { int back, causal, free, heads, ops; } of[] = {
    { 0, 1, 0, 4, 14 }, { 0, 0, 0, 4, 10 }, { 1, 1, 0, 4, 21 }, { 1, 0, 0, 4, 17 },
    { 1, 1, 1, 4, 22 }, { 1, 1, 0, 2, 23 }, { 1, 0, 1, 2, 20 },
  };
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    bench b;
    fl_cuda *s = open_bench(&b, 19, 90);
    fl_attention a = usual;
    a.causal = of[i].causal, a.free = of[i].free, a.hk = of[i].heads;
    CHECK(taken(s, of[i].back, FLAME_BF16, a));
    CHECK(dnn.ops == of[i].ops);
    CHECK(dnn.point[FL_DNN_INDEX] == 2 * of[i].causal && dnn.point[FL_DNN_SELECT] == of[i].causal);
    CHECK(dnn.point[FL_DNN_IDENTITY] == of[i].free && dnn.point[FL_DNN_EXP] == 1);
    close_bench(&b);
  }
}

/* The address that execution e of cuDNN was given for the tensor 'id' (Q, K, … ONE), or NULL. */
static char *at(int e, int id) {
  for (int i = 0; i < dnn.execution[e].n; i++)
    if (dnn.execution[e].id[i] == id) return dnn.execution[e].at[i];
  return NULL;
}
enum { Q, K, V, OUT, LSE, DOUT, DQ, DK, DV, SUMS, WIDE, SCALE, LEAST, ONE };

static int64_t run(fl_cuda *s, const fl_call *c, char *base) {
  const fl_scalar scale = { .d = 0.5 };
  const fl_dnn_plan *p = fl_dnn_attention(s, c);
  fl_call_run r = { .call = c, .out = base, .scalar = &scale, .scratch = base + (1ll << 40) };
  for (int i = 0; i < c->nin; i++) r.in[i] = base + ((i + 2ll) << 36);
  dnn.executions = 0;
  CHECK(p && fl_dnn_attention_run(s, p, &r) == FLAME_OK);
  return p ? fl_dnn_attention_space(p, c) : -1;
}

static void a_large_gradient_is_made_in_parts(void) {
  bench b;
  fl_cuda *s = open_bench(&b, 19, 90);
  char *const base = (char *)(1ull << 42);          /* not allocated: nothing reads there */
  fl_attention a = { .b = 8, .h = 16, .hk = 16, .t = 2048, .s = 2048, .d = 64, .causal = 1 };
  fl_call c = call_of(1, FLAME_BF16, a);
  CHECK(run(s, &c, base) == 1024 + 4 * 4 * 16 * 2048);
  CHECK(dnn.executions == 2);                       /* four of the batches each */
  CHECK(at(1, Q) - at(0, Q) == 2 * 4 * 2048 * 48 * 64);
  CHECK(at(1, V) - at(0, V) == 2 * 4 * 2048 * 48 * 64);
  CHECK(at(1, DOUT) - at(0, DOUT) == 2 * 4 * 2048 * 16 * 64);
  CHECK(at(1, OUT) - at(0, OUT) == 2 * 4 * 2048 * 16 * 64);
  CHECK(at(1, DQ) - at(0, DQ) == 2 * 4 * 2048 * 16 * 64);
  CHECK(at(1, DV) - at(0, DV) == 2 * 4 * 2048 * 16 * 64);
  CHECK(at(1, LSE) - at(0, LSE) == 4 * 4 * 2048 * 16);
  CHECK(at(1, SUMS) == at(0, SUMS) && at(0, WIDE) == NULL);
  CHECK(at(0, DK) - at(0, DQ) == 2 * 8 * 16 * 2048 * 64 && at(0, LEAST) && at(0, SCALE));
  a = (fl_attention){ .b = 2, .h = 32, .hk = 16, .t = 4096, .s = 4096, .d = 128 };
  c = call_of(1, FLAME_BF16, a);
  CHECK(run(s, &c, base) == 1024 + 4 * 16 * 4096);
  CHECK(dnn.executions == 4);                       /* each on 16 heads of q, 8 of k and v */
  CHECK(at(1, Q) - at(0, Q) == 2 * 16 * 128 && at(1, K) - at(0, K) == 2 * 8 * 128);
  CHECK(at(1, DK) - at(0, DK) == 2 * 8 * 4096 * 128 && at(1, LSE) - at(0, LSE) == 4 * 16 * 4096);
  CHECK(at(2, Q) - at(0, Q) == 2 * 4096 * 64 * 128 && at(0, LEAST) == NULL);
  a.free = 1;
  c = call_of(1, FLAME_BF16, a);
  CHECK(run(s, &c, base) == 1024 + 4 * 2 * 32 * 4096 * 129 && dnn.executions == 1);
  CHECK(at(0, WIDE) - at(0, SUMS) == 4 * 2 * 32 * 4096);
  c = call_of(0, FLAME_BF16, a);
  CHECK(run(s, &c, base) == 1024 && dnn.executions == 1 && at(0, SUMS) == NULL);
  a = (fl_attention){ .b = 23, .h = 12, .hk = 12, .t = 1024, .s = 1024, .d = 64 };
  CHECK(!taken(s, 1, FLAME_BF16, a) && taken(s, 0, FLAME_BF16, a));   /* parts are too small */
  close_bench(&b);
}

static void an_input_between_two_lines_is_copied(void) {
  enum { ROOM = 1 << 22 };
  bench b;
  fl_cuda *s = open_bench(&b, 19, 90);
  const fl_scalar scale = { .d = 0.5 };
  fl_attention a = usual;
  a.b = 1, a.h = a.hk = 1, a.s = 512;
  const fl_call c = call_of(0, FLAME_BF16, a);
  char *const memory = calloc(1, ROOM);
  fl_call_run r = { .call = &c, .out = memory, .scratch = memory, .scalar = &scale,
                    .in = { memory + 64, memory + 66, memory + 128 } };
  const fl_dnn_plan *p = fl_dnn_attention(s, &c);
  CHECK(p && fl_dnn_attention_run(s, p, &r) == FLAME_OK && dnn.executions == 1);
  CHECK(at(0, Q) == memory + 64 && at(0, V) == memory + 128);
  CHECK(at(0, K) != memory + 66 && (uintptr_t)at(0, K) % 16 == 0);
  free(memory);
  close_bench(&b);
}

int main(void) {
  setenv("FLAME_CACHE_DIR", "off", 1);
  sizes_dtype_and_card_choose_the_kernel();
  rows_that_overlap_or_are_not_aligned_are_left_to_our_kernel();
  graphs_have_the_operations_that_the_engines_know();
  a_large_gradient_is_made_in_parts();
  an_input_between_two_lines_is_copied();
  printf("cuda_cudnn: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
