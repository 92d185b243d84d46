/*
** Groups: opening and closing, and the collectives (group.h). The data of a collective goes
** directly from each rank to each other: with n ranks an all_reduce of b bytes sends 2 b (n - 1) /
** n per rank.
*/
#include "group/tcp.h"
#include "base/num.h"
#include <stdio.h>
#include <string.h>

enum { LAST_WAIT = 5 };            /* seconds that a broken group waits for its ranks at the end */

/* ---- opening --------------------------------------------------------------------------------- */

static void free_group(flame_context *c) {
  fl_group *g = c->group;
  const size_t n = (size_t)g->launch.size;
  fl_free(&c->mem, g->letter, sizeof *g->letter * 2 * n);
  fl_free(&c->mem, g->header, sizeof *g->header * n);
  fl_free(&c->mem, g->told, sizeof *g->told * n);
  fl_free(&c->mem, g->asker, sizeof *g->asker * n);
  FL_DROP(&c->mem, &g->choices);
  fl_free(&c->mem, g, sizeof *g);
  c->group = NULL;
  c->effect_failed = NULL;
}

/* Called when an effect (a recorded collective) failed before it ran, since an input failed: it
** will never run here, so the other ranks must not wait. */
static void effect_failed(flame_context *c, const char *message, uint32_t site) {
  char word[FL_CALL_FAULT], place[96] = "";
  fl_group *g = c->group;
  if (!g || g->broken[0]) return;
  if (c->up->place) c->up->place(c, site, place);
  snprintf(word, sizeof word, "rank %d failed%s%s: %.180s", g->launch.rank + 1,
           place[0] ? " at " : "", place, message);
  fl_error_plain(word);
  fl_group_break(g, word, word);
}

static flame_status no_memory(flame_context *c) {
  return FL_FAIL(c, FLAME_NO_MEMORY, "init", "out of host memory");
}

static flame_status open_wire(flame_context *c, fl_group *g) {
  char why[400] = "";
  g->wire = g->launch.mpi ? fl_mpi_open(&g->launch, why, sizeof why)
                          : fl_tcp_open(c, &g->launch, g->limit, why, sizeof why);
  if (!g->wire && fl_take_interrupt(c)) return fl_interrupted(c, "init");
  if (!g->wire) return FL_FAIL(c, FLAME_NO_DEVICE, "init", "%s", why);
  g->launch.rank = g->wire->rank;
  return FLAME_OK;
}

flame_status fl_group_open(flame_context *c, double limit) {
  char why[300];
  fl_launch l;
  if (c->group) return FLAME_OK;
  if (!fl_launch_read(&l, why, sizeof why))
    return FL_FAIL(c, FLAME_BAD_ARGUMENT, "init", "%s", why);
  const size_t n = (size_t)l.size;
  fl_group *g = c->group = fl_zalloc(&c->mem, sizeof *g);
  if (!g) return no_memory(c);
  *g = (fl_group){ .c = c, .launch = l, .limit = limit };
  g->letter = fl_zalloc(&c->mem, sizeof *g->letter * 2 * n);
  g->header = fl_zalloc(&c->mem, sizeof *g->header * n);
  g->told = fl_zalloc(&c->mem, sizeof *g->told * n);
  g->asker = fl_zalloc(&c->mem, sizeof *g->asker * n);
  const flame_status e = !g->letter || !g->header || !g->told || !g->asker ? no_memory(c)
                       : n > 1 ? open_wire(c, g) : FLAME_OK;
  if (e != FLAME_OK) free_group(c);
  else c->effect_failed = effect_failed;
  if (e == FLAME_OK && c->scan) {            /* no rank can repeat a collective alone */
    c->scan = 0;
    c->anomaly = FL_ANOMALY_NAN;
  }
  return e;
}

/* ---- breaking and closing -------------------------------------------------------------------- */

/* Sends 'word', which says why the group broke, to all ranks other than 'knows'. */
static void tell_all(fl_group *g, const char *word, int knows) {
  snprintf(g->word, sizeof g->word, "%s", word);
  for (int r = 0; r < g->launch.size; r++) {
    g->told[r] = (fl_letter){ .at = g->word, .left = sizeof g->word, .peer = r,
                              .channel = FL_WIRE_BREAK, .out = 1 };
    if (r != g->launch.rank && r != knows) g->wire->table->post(g->wire, &g->told[r]);
  }
}

void fl_group_break_beside(fl_group *g, const char *why, const char *word, int knows) {
  if (g->broken[0]) return;
  snprintf(g->broken, sizeof g->broken, "%s", why[0] ? why : "interrupted");
  if (g->wire) g->wire->over = 1;
  if (g->wire && word && !g->stuck) tell_all(g, word, knows);
  if (g->gpu.abort) g->gpu.abort(g->gpu.state);
}

void fl_group_break(fl_group *g, const char *why, const char *word) {
  fl_group_break_beside(g, why, word, -1);
}

void fl_group_interrupted(fl_group *g) {
  char word[48];
  snprintf(word, sizeof word, "rank %d was interrupted", g->launch.rank + 1);
  fl_group_break(g, "interrupted", word);
}

/* All ranks report that they are done; a rank that calls something else sees this and raises. */
static int all_end(fl_group *g) {
  char fault[FL_CALL_FAULT] = "";
  fl_turn t = { g, fl_group_head(g, "the end of the script", FL_COLLECT_END), fault };
  return fl_group_agree(&t);
}

/* The ranks of a broken group wait briefly for each other, so that each can say why it ended. */
static int all_gone(fl_group *g) {
  static char byte;
  static char sink;
  const double end = fl_group_now() + LAST_WAIT;
  int r = g->stuck || g->terminated ? -1 : 0;
  for (int peer = 0; r == 0 && peer < g->launch.size; peer++) {
    if (peer == g->launch.rank) continue;
    fl_group_send(g, peer, FL_WIRE_BYE, &byte, 1);
    fl_group_receive(g, peer, FL_WIRE_BYE, &sink, 1);
  }
  while (r == 0 && fl_group_now() < end) {
    r = fl_group_look(g);
    if (r == 0) fl_group_rest();
  }
  if (r != 1 && !g->stuck) fl_group_cancel(g);
  return r == 1;
}

void fl_group_begin(flame_context *c, const fl_plan *p) {
  if (c->group) c->group->plan = p;
}

/* If the run failed after it had queued collectives whose inputs a check may still reject, breaks
** the group, so that the other ranks do not wait for this one. */
void fl_group_end(flame_context *c, flame_status e) {
  fl_group *g = c->group;
  if (!g) return;
  g->plan = NULL;
  if (e != FLAME_OK && g->unproven)
    effect_failed(c, e == FLAME_INTERRUPTED ? "interrupted" : c->err.message, c->err.site);
  g->unproven = 0;
}

/* Before the group is closed: collectives that are recorded still run, unless the script was
** interrupted. */
static void run_effects(flame_context *c) {
  const fl_error before = c->err;
  if (c->cut) fl_group_interrupted(c->group);
  else if (c->effect && !c->dead && !c->group->broken[0] && c->up->evaluate_all(c) != FLAME_OK)
    fl_tell_at_end(c);
  c->err = before;
}

void fl_group_close(flame_context *c) {
  fl_group *g = c->group;
  if (!g) return;
  run_effects(c);
  const int ended = g->wire && !g->broken[0] && all_end(g);
  if (g->gpu.close) g->gpu.close(g->gpu.state, ended);
  if (g->wire) g->wire->table->close(g->wire, ended || all_gone(g));
  free_group(c);
}

/* ---- collectives ----------------------------------------------------------------------------- */

/* A running collective. n: number of ranks; me: this rank; size: bytes of an element. */
typedef struct job {
  fl_turn turn;
  const fl_call *k;
  char *out, *in, *scratch;
  int n, me;
  int64_t size;
} job;

/* The start of part j of 'numel' elements; for n = 4, parts of 6: 0, 2, 4, 5, 6. */
static int64_t part(const job *b, int64_t numel, int j) {
  const int64_t more = numel % b->n;
  return numel / b->n * j + (j < more ? j : more);
}

static int64_t part_size(int64_t numel, int64_t n) { return (numel + n - 1) / n; }

int64_t fl_group_room(const fl_call *k) {
  const int64_t n = k->p[FL_COLLECT_RANKS], what = k->p[FL_COLLECT_WHAT];
  if (what != FL_COLLECT_ALL_REDUCE && what != FL_COLLECT_REDUCE_SCATTER) return 0;
  return (n - 1) * fl_dtype_size(k->dtype) *
         (what == FL_COLLECT_ALL_REDUCE ? part_size(k->numel, n) : k->numel);
}

/* Posts bytes of an array to another rank. */
static void give(const job *b, int to, int channel, const char *p, int64_t bytes) {
  b->turn.g->stats.sent += bytes;
  fl_group_send(b->turn.g, to, channel, p, bytes);
}

/* Computes into 'sum' part 'me' of the arrays of all ranks, combined in the order of ranks. */
static int reduce_part(job *b, int64_t numel, char *sum) {
  fl_group *g = b->turn.g;
  const int64_t mine = part(b, numel, b->me), count = part(b, numel, b->me + 1) - mine;
  char *room = b->scratch;
  for (int r = 0; r < b->n; r++) {
    if (r == b->me) continue;
    const int64_t from = part(b, numel, r), to = part(b, numel, r + 1);
    give(b, r, FL_WIRE_DATA, b->in + from * b->size, (to - from) * b->size);
    fl_group_receive(g, r, FL_WIRE_DATA, room, count * b->size);
    room += count * b->size;
  }
  if (!fl_group_wait(&b->turn)) return 0;
  room = b->scratch;
  for (int r = 0; r < b->n; r++) {
    char *x = r == b->me ? b->in + mine * b->size : room;
    if (r != b->me) room += count * b->size;
    if (r == 0 && count) memcpy(sum, x, (size_t)(count * b->size));
    else if (count) fl_group_combine(b->k->dtype, (int)b->k->p[FL_COLLECT_REDUCE], sum, x, count);
  }
  if (b->k->p[FL_COLLECT_REDUCE] == FL_REDUCE_MEAN) fl_group_divide(b->k->dtype, sum, count, b->n);
  return 1;
}

/* Sends part 'me' of the result to all ranks and receives theirs. */
static int gather_parts(job *b, int64_t numel) {
  fl_group *g = b->turn.g;
  const int64_t mine = part(b, numel, b->me), end = part(b, numel, b->me + 1);
  for (int r = 0; r < b->n; r++) {
    if (r == b->me) continue;
    const int64_t from = part(b, numel, r), to = part(b, numel, r + 1);
    give(b, r, FL_WIRE_DATA, b->out + mine * b->size, (end - mine) * b->size);
    fl_group_receive(g, r, FL_WIRE_DATA, b->out + from * b->size, (to - from) * b->size);
  }
  return fl_group_wait(&b->turn);
}

static int all_reduce(job *b) {
  const int64_t n = b->k->numel;
  return reduce_part(b, n, b->out + part(b, n, b->me) * b->size) && gather_parts(b, n);
}

static int all_gather(job *b) {
  const int64_t bytes = b->k->in_numel[0] * b->size;
  if (bytes) memcpy(b->out + b->me * bytes, b->in, (size_t)bytes);
  return gather_parts(b, b->k->numel);
}

static int broadcast(job *b) {
  fl_group *g = b->turn.g;
  const int from = (int)b->k->p[FL_COLLECT_PEER];
  const int64_t bytes = b->k->numel * b->size;
  for (int r = 0; r < b->n && from == b->me; r++)
    if (r != b->me) give(b, r, FL_WIRE_DATA, b->in, bytes);
  if (from != b->me) fl_group_receive(g, from, FL_WIRE_DATA, b->out, bytes);
  else if (bytes) memcpy(b->out, b->in, (size_t)bytes);
  return fl_group_wait(&b->turn);
}

static int all_to_all(job *b) {
  fl_group *g = b->turn.g;
  const int64_t bytes = b->k->numel / b->n * b->size;
  for (int r = 0; r < b->n; r++) {
    if (r == b->me) continue;
    give(b, r, FL_WIRE_DATA, b->in + r * bytes, bytes);
    fl_group_receive(g, r, FL_WIRE_DATA, b->out + r * bytes, bytes);
  }
  if (bytes) memcpy(b->out + b->me * bytes, b->in + b->me * bytes, (size_t)bytes);
  return fl_group_wait(&b->turn);
}

static int pair(job *b) {
  fl_group *g = b->turn.g;
  const int peer = (int)b->k->p[FL_COLLECT_PEER];
  if (b->k->p[FL_COLLECT_WHAT] == FL_COLLECT_SEND)
    give(b, peer, FL_WIRE_PAIRED, b->in, b->k->in_numel[0] * b->size);
  else fl_group_receive(g, peer, FL_WIRE_PAIRED, b->out, b->k->numel * b->size);
  return fl_group_wait(&b->turn);
}

static int move(job *b) {
  switch (b->k->p[FL_COLLECT_WHAT]) {
    case FL_COLLECT_ALL_REDUCE: return all_reduce(b);
    case FL_COLLECT_ALL_GATHER: return all_gather(b);
    case FL_COLLECT_REDUCE_SCATTER: return reduce_part(b, b->k->in_numel[0], b->out);
    case FL_COLLECT_BROADCAST: return broadcast(b);
    case FL_COLLECT_ALL_TO_ALL: return all_to_all(b);
    case FL_COLLECT_SEND: case FL_COLLECT_RECEIVE: return pair(b);
    default: return 1;
  }
}

flame_status fl_group_run(flame_context *c, const fl_call_run *r) {
  fl_group *g = c->group;
  const fl_call *k = r->call;
  if (!g || g->launch.size != k->p[FL_COLLECT_RANKS]) {
    snprintf(r->fault, FL_CALL_FAULT, "the group that it was recorded for has ended");
    return FLAME_OK;
  }
  if (g->broken[0]) {
    snprintf(r->fault, FL_CALL_FAULT, "the group has ended: %.280s", g->broken);
    return FLAME_OK;
  }
  job b = { { g, &g->header[g->launch.rank], r->fault }, k, r->out, r->in[0], r->scratch,
            g->launch.size, g->launch.rank, fl_dtype_size(k->dtype) };
  const double start = fl_group_now();
  fl_group_describe(&b.turn, k, r->scalar, FL_LANE_HOST);
  const int ok = fl_group_come(&b.turn, k) && move(&b);
  g->stats.calls++;
  g->stats.bytes += (k->p[FL_COLLECT_ARRAYS] ? k->in_numel[0] : k->numel) * b.size;
  g->stats.busy += fl_group_now() - start;
  if (ok || r->fault[0]) return FLAME_OK;
  return fl_interrupted(c, "eval");
}
