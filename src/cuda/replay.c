/* Recordings of runs as CUDA graphs: see replay.h. */
#include "cuda/recording.h"
#include "base/env.h"
#include "base/hooks.h"
#include <string.h>
#include <unistd.h>

enum { MOST_MADE = 64 };
enum { REPLAY_NEVER, REPLAY_THIRD, REPLAY_ALWAYS };    /* FLAME_REPLAY */

/* ---- letting go ---- */

/* driver: frees the graphs and device memory too; otherwise only host memory. */
static void free_recording(fl_mem *m, fl_recording *w, int driver) {
  for (int64_t i = 0; i < w->spans.n; i++) fl_span_free(w, &w->spans.at[i], driver);
  for (int64_t i = 0; i < w->nodes.n; i++) fl_kernel_node_free(m, &w->nodes.at[i]);
  for (int64_t i = 0; i < w->tables.n; i++) {
    const fl_table *t = &w->tables.at[i];
    if (driver) fl_cuda_release(w->s, t->at);
    fl_free(m, t->rows, (size_t)t->group->n * (size_t)t->group->words * 8);
  }
  FL_DROP(m, &w->spans);
  FL_DROP(m, &w->nodes);
  FL_DROP(m, &w->tables);
  fl_free(m, w->frozen, (size_t)(w->nfrozen + 1) * sizeof *w->frozen);
  fl_free(m, w->bound, (size_t)(w->nbound + 1) * sizeof *w->bound);
  fl_free(m, w->scalar, (size_t)(w->nscalar + 1) * sizeof *w->scalar);
  fl_free(m, w, sizeof *w);
}

static void drop_recordings(fl_replay *r, int driver) {
  for (int i = 0; i < FL_RECORDINGS; i++) {
    if (r->recording[i]) free_recording(r->mem, r->recording[i], driver);
    r->recording[i] = NULL;
  }
}

int fl_replay_has(const fl_plan *p) {
  const fl_replay *r = p->replay;
  for (int i = 0; r && i < FL_RECORDINGS; i++) if (r->recording[i]) return 1;
  return 0;
}

void fl_replay_free(fl_plan *p) {
  fl_replay *r = p->replay;
  if (!r) return;
  p->replay = NULL;
  if (r->s) {
    const int ours = r->s->pid == getpid();
    const int pushed = ours && r->s->cu->CtxPush(r->s->context) == FL_CU_OK;
    drop_recordings(r, ours);
    fl_stand_ins_free(r, ours);
    if (pushed) fl_cuda_leave(r->s);
    fl_soon_freed(r->s, p);
    if (r->prev) r->prev->next = r->next;
    else r->s->replays = r->next;
    if (r->next) r->next->prev = r->prev;
  }
  fl_free(r->mem, r->plain, (size_t)r->nstep + 1);
  fl_free(r->mem, r->was.address, (size_t)(r->frozen.n + 1) * sizeof *r->was.address);
  if (r->ext) fl_free(r->mem, r->ext, (size_t)p->next * sizeof *r->ext);
  FL_DROP(r->mem, &r->stand_ins);
  FL_DROP(r->mem, &r->frozen);
  fl_free(r->mem, r, sizeof *r);
}

void fl_replay_let_go(fl_cuda *s, int driver) {
  for (fl_replay *r = s->replays, *next; r; r = next) {
    next = r->next;
    drop_recordings(r, driver);
    fl_stand_ins_free(r, driver);
    r->s = NULL;
    r->next = r->prev = NULL;
  }
  s->replays = NULL;
}

/* ---- host memory ---- */

static size_t bytes_of(const fl_recording *w) {
  size_t bytes = sizeof *w + (size_t)(w->nfrozen + 1) * sizeof *w->frozen +
                 (size_t)(w->nbound + 1) * sizeof *w->bound +
                 (size_t)(w->nscalar + 1) * sizeof *w->scalar +
                 (size_t)w->spans.cap * sizeof *w->spans.at +
                 (size_t)w->nodes.cap * sizeof *w->nodes.at +
                 (size_t)w->tables.cap * sizeof *w->tables.at;
  for (int64_t i = 0; i < w->nodes.n; i++)
    bytes += (size_t)w->nodes.at[i].words * 8 +
             (size_t)w->nodes.at[i].nscalar * sizeof *w->nodes.at[i].scalar;
  for (int64_t i = 0; i < w->tables.n; i++)
    bytes += (size_t)w->tables.at[i].group->n * (size_t)w->tables.at[i].group->words * 8;
  return bytes;
}

static void count_bytes(fl_plan *p) {
  fl_replay *r = p->replay;
  size_t bytes = sizeof *r + (size_t)r->nstep + 1 + (size_t)r->frozen.cap * sizeof *r->frozen.at;
  if (r->was.address) bytes += (size_t)(r->frozen.n + 1) * sizeof *r->was.address;
  if (r->ext) bytes += (size_t)p->next * sizeof *r->ext;
  for (int i = 0; i < FL_RECORDINGS; i++) if (r->recording[i]) bytes += bytes_of(r->recording[i]);
  p->total_bytes += (int64_t)bytes - r->counted;
  r->counted = (int64_t)bytes;
}

/* ---- frozen addresses: those that graphs hold as constants (replay.h) ---- */

/* The places that a step passes to anything but generated kernels, at most FL_CALL_INPUTS + 1. */
static int frozen_of(const fl_step *t, const fl_place **at) {
  int n = 0;
  if (fl_step_collects(t)) return 0;                    /* it is in no graph */
  if (t->kind == FL_S_COPY) {
    at[n++] = &t->from;
    at[n++] = &t->to;
  } else if (t->kind == FL_S_MATMUL) {
    at[n++] = &t->matmul->at;
    at[n++] = &t->matmul->bt;
    at[n++] = &t->matmul->ct;
    if (t->matmul->biased) at[n++] = &t->matmul->bias;
  } else if (t->kind == FL_S_SCATTER) {
    at[n++] = &t->scatter->dst.place;
    at[n++] = &t->scatter->idx.place;
    at[n++] = &t->scatter->src.place;
  } else if (t->kind == FL_S_CALL) {
    for (int i = 0; i < t->call->call.nin; i++) at[n++] = &t->call->in[i];
    at[n++] = &t->call->out;
  }
  return n;
}

/* The index of an input, ~ that of a result. */
static int32_t which_of(const fl_place *p) { return p->where == FL_AT_EXT ? p->index : ~p->index; }

static int freeze(fl_replay *r, const fl_place *p) {
  if (p->where == FL_AT_ARENA) return 1;
  const int32_t which = which_of(p);
  for (int64_t i = 0; i < r->frozen.n; i++) if (r->frozen.at[i] == which) return 1;
  int32_t *at = FL_PUSH(r->mem, &r->frozen);
  if (at) *at = which;
  return at != NULL;
}

static int freeze_step(fl_replay *r, const fl_step *t) {
  const fl_place *at[FL_CALL_INPUTS + 1];
  const int n = frozen_of(t, at);
  int fine = 1;
  for (int i = 0; i < n; i++) fine &= freeze(r, at[i]);
  return fine;
}

/* Does a graph of the step hold the address of this input or result? */
static int freezes(const fl_step *t, int32_t which) {
  const fl_place *at[FL_CALL_INPUTS + 1];
  const int n = frozen_of(t, at);
  for (int i = 0; i < n; i++)
    if (at[i]->where != FL_AT_ARENA && which_of(at[i]) == which) return 1;
  return 0;
}

int fl_replay_freezes(const fl_plan *p, int32_t which) {
  const fl_replay *r = p->replay;
  if (!r || r->how == REPLAY_NEVER || p->nstep < FL_SPAN_LEAST) return 0;
  for (int64_t i = 0; i < r->frozen.n; i++) if (r->frozen.at[i] == which) return 1;
  return 0;
}

flame_status fl_replay_open(fl_cuda *s, fl_plan *p) {
  fl_replay *r = fl_zalloc(s->mem, sizeof *r);
  if (r) {
    *r = (fl_replay){ .mem = s->mem, .s = s, .nstep = p->nstep, .next = s->replays,
                      .how = fl_env_int(FL_ENV_FLAME_REPLAY) };
    if (r->next) r->next->prev = r;
    s->replays = r;
    p->replay = r;
    r->plain = fl_zalloc(s->mem, (size_t)p->nstep + 1);
  }
  int fine = r && r->plain;
  for (int32_t i = 0; fine && i < p->nstep; i++) fine = freeze_step(r, &p->step[i]);
  if (fine) count_bytes(p);
  return fine ? FLAME_OK
              : FL_FAIL(s->ctx, FLAME_NO_MEMORY, "cuda", "no host memory to prepare a plan");
}

/* ---- which recording ---- */

static void *frozen_address(const fl_binding *b, int32_t which) {
  return which < 0 ? b->out[~which] : b->ext[which];
}

/* Hashes the scalars that calls use, since a graph holds those by value. */
static uint64_t frozen_scalars(const fl_plan *p, const fl_scalar *scalar, uint64_t h) {
  for (int32_t i = 0; i < p->nstep; i++)
    if (p->step[i].kind == FL_S_CALL && p->step[i].call->call.nscalar > 0)
      h = fl_hash64(scalar + p->step[i].call->scalar,
                    (size_t)p->step[i].call->call.nscalar * sizeof *scalar, h);
  return h;
}

static int frozen_scalars_same(const fl_plan *p, const fl_scalar *x, const fl_scalar *y) {
  for (int32_t i = 0; i < p->nstep; i++) {
    const fl_call_step *t = p->step[i].kind == FL_S_CALL ? p->step[i].call : NULL;
    if (t && t->call.nscalar > 0 &&
        memcmp(x + t->scalar, y + t->scalar, (size_t)t->call.nscalar * sizeof *x) != 0) return 0;
  }
  return 1;
}

static uint64_t hash_of(const fl_cuda *s, const fl_replay *r, const fl_plan *p,
                        const fl_binding *b, uint64_t scalars) {
  uint64_t h = fl_mix64(s->epoch, (uint64_t)p->nread * 2 + (s->ctx->group != NULL));
  h = fl_mix64(h, (uint64_t)(uintptr_t)b->arena);
  for (int64_t i = 0; i < r->frozen.n; i++)
    h = fl_mix64(h, (uint64_t)(uintptr_t)frozen_address(b, r->frozen.at[i]));
  return fl_mix64(h, scalars);
}

static int serves(const fl_cuda *s, const fl_replay *r, const fl_recording *w, const fl_plan *p,
                  const fl_binding *b) {
  if (FL_PLANTED(s->ctx, FL_PLANT_GRAPH)) return 1;
  if (w->epoch != s->epoch || w->nread != p->nread || w->arena != b->arena ||
      w->grouped != (s->ctx->group != NULL)) return 0;
  for (int64_t i = 0; i < r->frozen.n; i++)
    if (w->frozen[i] != frozen_address(b, r->frozen.at[i])) return 0;
  return frozen_scalars_same(p, b->scalar, w->scalar);
}

/* ---- why there is none ---- */

/* What keeps every run of the plan from being recorded; NONE: nothing does. */
static int never(const fl_cuda *s, const fl_replay *r, const fl_plan *p) {
  if (r->how == REPLAY_NEVER) return FL_WHY_turned_off;
  if (p->nstep < FL_SPAN_LEAST) return FL_WHY_short;
  if (!s->cu->GraphLaunch) return FL_WHY_no_graphs;
  if (s->ctx->sync_each) return FL_WHY_debug;
  return fl_kfunction_checks(s->ctx) ? FL_WHY_checks : FL_WHY_NONE;
}

static void say(fl_plan *p, int reason, int32_t step) {
  p->why.reason = (uint8_t)reason;
  p->why.step = step;
  p->why.site = 0;               /* the engine, which knows the lines, sets it */
}

/* Says what of the frozen addresses and scalars is not as it was in the last run. */
static void say_changed(const fl_cuda *s, const fl_replay *r, fl_plan *p, const fl_binding *b,
                        uint64_t scalars) {
  int32_t i = 0;
  if (!r->was.address) {
    if (p->why.runs || p->why.reason != FL_WHY_other_program) say(p, FL_WHY_first_runs, -1);
    return;
  }
  for (int64_t k = 0; k < r->frozen.n; k++) {
    const int32_t which = r->frozen.at[k];
    if (r->was.address[k] == frozen_address(b, which)) continue;
    while (i < p->nstep - 1 && !freezes(&p->step[i], which)) i++;
    say(p, which < 0 ? FL_WHY_result_moved : FL_WHY_input_moved, i);
    return;
  }
  while (i < p->nstep - 1 &&
         !(p->step[i].kind == FL_S_CALL && p->step[i].call->call.nscalar > 0)) i++;
  if (r->was.scalars != scalars) say(p, FL_WHY_number_changed, i);
  else say(p, r->was.arena != b->arena ? FL_WHY_arena_moved :
           r->was.epoch != s->epoch ? FL_WHY_scratch_moved :
           r->made >= MOST_MADE ? FL_WHY_too_many : FL_WHY_first_runs, -1);
}

static void keep_was(const fl_cuda *s, fl_replay *r, const fl_binding *b, uint64_t scalars) {
  if (!r->was.address)
    r->was.address = fl_alloc(r->mem, (size_t)(r->frozen.n + 1) * sizeof *r->was.address);
  for (int64_t k = 0; r->was.address && k < r->frozen.n; k++)
    r->was.address[k] = frozen_address(b, r->frozen.at[k]);
  r->was.arena = b->arena;
  r->was.epoch = s->epoch;
  r->was.scalars = scalars;
}

/* Says which steps were outside of the graphs, and, if all were, why. */
static void say_outside(fl_plan *p, const fl_replay *r, const fl_recording *w) {
  int32_t first = -1, plain = -1;
  p->why.outside = 0;
  for (int64_t i = 0; i < w->spans.n; i++) {
    const fl_span *x = &w->spans.at[i];
    if (x->exec) continue;
    if (first < 0) first = x->from;
    if (plain < 0 && r->plain[x->from]) plain = x->from;
    p->why.outside += x->to - x->from;
  }
  say(p, p->why.outside < p->nstep ? FL_WHY_NONE : w->failed ? FL_WHY_instantiate :
      plain >= 0 ? FL_WHY_call : FL_WHY_waits, plain >= 0 ? plain : first);
}

/* How often have frozen addresses and scalars (replay.h) with this hash occurred before? */
static int times_seen(fl_replay *r, uint64_t hash) {
  for (int i = 0; i < FL_REPLAY_SEEN; i++)
    if (r->times[i] && r->seen[i] == hash) return r->times[i] < 255 ? r->times[i]++ : 255;
  r->turn = (r->turn + 1) % FL_REPLAY_SEEN;
  r->seen[r->turn] = hash;
  r->times[r->turn] = 1;
  return 0;
}

/* The place for one more recording: an empty one, or that of the least recently used. */
static fl_recording **room_for(fl_replay *r) {
  fl_recording **oldest = &r->recording[0];
  for (int i = 0; i < FL_RECORDINGS; i++) {
    if (!r->recording[i]) return &r->recording[i];
    if (r->recording[i]->used < (*oldest)->used) oldest = &r->recording[i];
  }
  return oldest;
}

/* ---- parameters ---- */

/* Is an operand of the kernel at another address than in the graphs? */
static int has_moved(const fl_recording *w, const fl_plan *p, const fl_kernel *k,
                     const fl_binding *b) {
  const fl_binding was = { w->bound, w->bound + p->next, w->arena, w->scalar, NULL };
  for (int i = 0; i < k->noperand; i++)
    if (fl_place_address(b, &k->operand[i].place) != fl_place_address(&was, &k->operand[i].place))
      return 1;
  return 0;
}

/* Sets a kernel's parameters in the graph. They follow from addresses and numbers of the script; if
** only the numbers have changed (!moved), only these are replaced. */
static flame_status set_node(fl_cuda *s, const fl_recording *w, fl_kernel_node *n,
                             const fl_binding *b, int moved) {
  int64_t word[FL_TEXT_MAX_WORDS];
  void *params[1] = { word };
  if (moved) fl_step_words(s, n->kernel, b, word);
  else if (n->nscalar == 0) return FLAME_OK;
  else {
    memcpy(word, n->word, (size_t)n->words * 8);
    for (int32_t i = 0; i < n->nscalar; i++)
      word[n->scalar[i].word] = b->scalar[n->scalar[i].scalar].i;
  }
  if (memcmp(word, n->word, (size_t)n->words * 8) == 0) return FLAME_OK;
  n->launch.params = params;
  const flame_status e = fl_cuda_check(
      s, s->cu->GraphExecKernelNodeSetParams(w->spans.at[n->span].exec, n->node, &n->launch),
      "cuGraphExecKernelNodeSetParams");
  if (e == FLAME_OK) memcpy(n->word, word, (size_t)n->words * 8);
  return e;
}

static flame_status set_table(fl_cuda *s, const fl_table *t, const fl_binding *b) {
  if (!fl_step_table(s, t->step, t->group, b, t->rows)) return FLAME_OK;
  return fl_stage_upload(s, t->at, t->rows, (int64_t)t->group->n * t->group->words * 8);
}

static void keep_binding(fl_recording *w, const fl_plan *p, const fl_binding *b) {
  if (p->next) memcpy(w->bound, b->ext, (size_t)p->next * sizeof *w->bound);
  if (p->nout) memcpy(w->bound + p->next, b->out, (size_t)p->nout * sizeof *w->bound);
  if (p->nscalar) memcpy(w->scalar, b->scalar, (size_t)p->nscalar * sizeof *w->scalar);
}

static int in_place(const fl_recording *w, const fl_plan *p, const fl_binding *b) {
  return memcmp(w->bound, b->ext, (size_t)p->next * sizeof *w->bound) == 0 &&
         memcmp(w->bound + p->next, b->out, (size_t)p->nout * sizeof *w->bound) == 0;
}

/* Sets the bindings of this run (addresses and scalars) in the generated kernels of the graphs. If
** that fails, the graphs hold parts of two runs, and the recording is not used again. */
static flame_status bind(fl_cuda *s, fl_recording *w, const fl_plan *p, const fl_binding *b) {
  const int moved = !in_place(w, p, b);
  flame_status e = FLAME_OK;
  if (FL_PLANTED(s->ctx, FL_PLANT_BOUND)) return e;
  if (!moved && (p->nscalar == 0 ||
                 memcmp(w->scalar, b->scalar, (size_t)p->nscalar * sizeof *w->scalar) == 0))
    return e;
  for (int64_t i = 0; i < w->nodes.n && e == FLAME_OK; i++) {
    fl_kernel_node *n = &w->nodes.at[i];
    if (w->spans.at[n->span].exec)
      e = set_node(s, w, n, b, moved && has_moved(w, p, n->kernel, b));
  }
  for (int64_t i = 0; moved && i < w->tables.n && e == FLAME_OK; i++)
    e = set_table(s, &w->tables.at[i], b);
  if (e == FLAME_OK) keep_binding(w, p, b);
  else w->epoch = UINT64_MAX;
  return e;
}

/* ---- making one ---- */

static int make_table(fl_cuda *s, fl_recording *w, const fl_step *step, const fl_launch_group *g) {
  const int64_t bytes = (int64_t)g->n * g->words * 8;
  fl_table *t = FL_PUSH(s->mem, &w->tables);
  if (!t) return 0;
  *t = (fl_table){ step, g, NULL, fl_zalloc(s->mem, (size_t)bytes) };
  if (!t->rows) {
    w->tables.n--;
    return 0;
  }
  fl_step_table(s, step, g, w->b, t->rows);
  return fl_cuda_reserve(s, &t->at, bytes, "a launch table") == FLAME_OK &&
         fl_stage_upload(s, t->at, t->rows, bytes) == FLAME_OK;
}

/* Makes the device tables of parameters, with the addresses of this run, for all groups of several
** instances. */
static int make_tables(fl_cuda *s, fl_recording *w, const fl_plan *p) {
  for (int32_t i = 0; i < p->nstep; i++) {
    const fl_prepared *r = p->step[i].kind == FL_S_KERNEL ? p->step[i].prepared : NULL;
    for (int32_t j = 0; r && j < r->ngroup; j++)
      if (r->group[j].n > 1 && !make_table(s, w, &p->step[i], &r->group[j])) return 0;
  }
  return 1;
}

static int fill_in(fl_cuda *s, const fl_replay *r, fl_recording *w, const fl_plan *p) {
  w->frozen = fl_alloc(s->mem, (size_t)(w->nfrozen + 1) * sizeof *w->frozen);
  w->bound = fl_alloc(s->mem, (size_t)(w->nbound + 1) * sizeof *w->bound);
  w->scalar = fl_alloc(s->mem, (size_t)(w->nscalar + 1) * sizeof *w->scalar);
  if (!w->frozen || !w->bound || !w->scalar) return 0;
  for (int64_t i = 0; i < r->frozen.n; i++) w->frozen[i] = frozen_address(w->b, r->frozen.at[i]);
  keep_binding(w, p, w->b);
  return make_tables(s, w, p);
}

/* Makes an empty recording. NULL if that fails: then the run is done step by step. */
static fl_recording *new_recording(fl_cuda *s, const fl_replay *r, const fl_plan *p,
                                   const fl_binding *b, uint64_t hash) {
  const fl_error before = s->ctx->err;
  fl_recording *w = fl_zalloc(s->mem, sizeof *w);
  if (!w) return NULL;
  *w = (fl_recording){ .s = s, .hash = hash, .epoch = s->epoch, .arena = b->arena,
                       .nread = p->nread, .grouped = s->ctx->group != NULL,
                       .nfrozen = (int32_t)r->frozen.n,
                       .nbound = p->next + p->nout, .nscalar = p->nscalar, .making = 1, .b = b };
  if (fill_in(s, r, w, p)) return w;
  free_recording(s->mem, w, 1);
  if (!s->dead) s->ctx->err = before;
  return NULL;
}

/* Called when a run begins that makes (a part of) the recording. */
static void go_on_making(const fl_replay *r, fl_recording *w, const fl_binding *b) {
  w->b = b;
  w->left = r->how == REPLAY_ALWAYS ? INT32_MAX : FL_MADE_STEPS;
}

/* Instantiates the graph of span k, and sets the bindings of this run in it: it may have been
** captured in an earlier one. */
static flame_status make_ready(fl_cuda *s, fl_recording *w, int64_t k) {
  flame_status e = FLAME_OK;
  fl_span *x = &w->spans.at[k];
  w->left -= x->to - x->from;
  fl_span_ready(w, x);
  for (int64_t i = 0; x->exec && i < w->nodes.n && e == FLAME_OK; i++)
    if (w->nodes.at[i].span == k) e = set_node(s, w, &w->nodes.at[i], w->b, 1);
  if (e != FLAME_OK) w->epoch = UINT64_MAX;
  return e;
}

/* Has every step a span, and every graph been instantiated? */
static int is_made(const fl_recording *w, const fl_plan *p) {
  for (int64_t i = 0; i < w->spans.n; i++)
    if (w->spans.at[i].graph && !w->spans.at[i].exec) return 0;
  return w->spans.n > 0 && w->spans.at[w->spans.n - 1].to == p->nstep;
}

static fl_recording *find(fl_cuda *s, fl_replay *r, const fl_plan *p, const fl_binding *b,
                          uint64_t hash) {
  for (int i = 0; i < FL_RECORDINGS; i++) {
    fl_recording *w = r->recording[i];
    if (!w || (w->hash != hash && !FL_PLANTED(s->ctx, FL_PLANT_GRAPH)) ||
        !serves(s, r, w, p, b)) continue;
    w->used = ++r->clock;
    w->next = 0;
    return w;
  }
  return NULL;
}

flame_status fl_replay_begin(fl_cuda *s, fl_plan *p, fl_binding *b, fl_recording **w) {
  fl_replay *r = p->replay;
  *w = NULL;
  const int never_is = never(s, r, p);
  if (never_is) {
    say(p, never_is, -1);
    return FLAME_OK;
  }
  const flame_status e = fl_stand_ins_use(s, r, p, b);
  if (e != FLAME_OK) return e;
  const uint64_t scalars = frozen_scalars(p, b->scalar, 0), hash = hash_of(s, r, p, b, scalars);
  *w = find(s, r, p, b, hash);
  if (*w && (*w)->making) go_on_making(r, *w, b);
  if (!*w) say_changed(s, r, p, b, scalars);
  const int times = *w || r->how == REPLAY_ALWAYS ? 2 : times_seen(r, hash);
  fl_stand_ins_learn(s, r, p, b, times > 0);
  keep_was(s, r, b, scalars);
  if (*w) return bind(s, *w, p, b);
  if (times < 2 || (r->how != REPLAY_ALWAYS && r->made >= MOST_MADE)) return FLAME_OK;
  r->made++;
  fl_recording **room = room_for(r);
  const int instead = *room != NULL;
  if (instead) free_recording(r->mem, *room, 1);
  *w = *room = new_recording(s, r, p, b, hash);
  if (*w) {
    (*w)->instead = (uint8_t)instead;
    (*w)->used = ++r->clock;
    go_on_making(r, *w, b);
  } else say(p, FL_WHY_no_memory, -1);
  return s->dead ? fl_cuda_lost(s) : FLAME_OK;
}

static int has_graph(const fl_recording *w) {
  for (int64_t i = 0; i < w->spans.n; i++) if (w->spans.at[i].exec) return 1;
  return 0;
}

int fl_replay_repeats(const fl_recording *w) { return w && !w->making && has_graph(w); }

/* Counts the run, with what keeps it from being one of graphs. */
static void count_run(fl_cuda *s, fl_plan *p, const fl_recording *w, int whole) {
  p->why.runs++;
  if (w && w->making) say(p, w->instead ? FL_WHY_more_than_four : FL_WHY_being_made, -1);
  else if (w) say_outside(p, p->replay, w);
  if (w && !w->making && whole && has_graph(w)) {
    s->ctx->stats.replays++;
    p->why.replays++;
  } else s->ctx->stats.not_replayed[p->why.reason]++;
}

void fl_replay_end(fl_cuda *s, fl_plan *p, fl_recording *w, int whole) {
  fl_replay *r = p->replay;
  const int made = w && w->making;
  count_run(s, p, w, whole);
  if (!made) return;
  w->making = !is_made(w, p);
  w->b = NULL;
  if (w->epoch == UINT64_MAX) {
    for (int i = 0; i < FL_RECORDINGS; i++)
      if (r->recording[i] == w) r->recording[i] = NULL;
    free_recording(r->mem, w, 1);
  }
  count_bytes(p);
}

/* ---- spans ---- */

flame_status fl_replay_span(fl_cuda *s, fl_recording *w, const fl_plan *p, int32_t from, int open,
                            int32_t *to, int *ran, int *sent) {
  flame_status e = FLAME_OK;
  *to = from + 1;
  *ran = *sent = 0;
  if (w->next == w->spans.n) {                       /* then it is being made */
    if (w->left <= 0) return e;
    e = fl_span_make(s, w, p, from, open);
    if (e != FLAME_OK) return e;
    if (w->spans.at[w->next].graph) w->left -= w->spans.at[w->next].to - from;
  }
  const fl_span *x = &w->spans.at[w->next++];
  if (x->graph && !x->exec && w->left > 0) e = make_ready(s, w, w->next - 1);
  if (e != FLAME_OK) return e;
  *to = x->to;
  *ran = x->exec != NULL;
  *sent = *ran && x->sends;
  return x->exec ? fl_cuda_check(s, s->cu->GraphLaunch(x->exec, s->stream), "cuGraphLaunch")
                 : FLAME_OK;
}
