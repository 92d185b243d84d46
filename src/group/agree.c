/*
** Agreement: before data moves, ranks compare the collectives that they call. Each sends its header
** to every other, so all see the same headers, and if two differ all raise the same text. A send
** and its receive are compared by their two ranks alone.
*/
#include "group/wait.h"
#include <stdio.h>
#include <string.h>

static const char *reduce_name(int64_t reduce) {
  static const char *const names[FL_REDUCE_COUNT] = { "sum", "mean", "max", "min" };
  return names[reduce];
}

static int has_array(const fl_header *h) {
  return h->p[FL_COLLECT_WHAT] != FL_COLLECT_BARRIER && h->p[FL_COLLECT_WHAT] < FL_COLLECT_END;
}

static size_t put_shape(const fl_header *h, char *out, size_t bytes, size_t at) {
  const int64_t n = h->p[FL_COLLECT_NDIM];
  for (int64_t a = 0; a < n && at < bytes; a++)
    at += (size_t)snprintf(out + at, bytes - at, a ? ", %lld" : "%lld",
                           (long long)h->p[FL_COLLECT_SIZES + a]);
  return at < bytes ? at : bytes;
}

void fl_group_text(const fl_header *h, char *out, size_t bytes) {
  const int64_t what = h->p[FL_COLLECT_WHAT], peer = h->p[FL_COLLECT_PEER] + 1;
  size_t at = (size_t)snprintf(out, bytes, "%s", h->what);
  if (what == FL_COLLECT_ALL_REDUCE || what == FL_COLLECT_REDUCE_SCATTER)
    at += (size_t)snprintf(out + at, bytes - at, " (%s)", reduce_name(h->p[FL_COLLECT_REDUCE]));
  if (what == FL_COLLECT_BROADCAST || what == FL_COLLECT_RECEIVE || what == FL_COLLECT_SEND)
    at += (size_t)snprintf(out + at, bytes - at, " %s %lld",
                           what == FL_COLLECT_SEND ? "to" : "from", (long long)peer);
  if (has_array(h)) {
    at += (size_t)snprintf(out + at, bytes - at, " of %s%s (",
                           h->p[FL_COLLECT_TRACKED] ? "tracked " : "",
                           fl_dtype_name((int)h->dtype));
    at = put_shape(h, out, bytes, at);
    if (at < bytes)
      at += (size_t)snprintf(out + at, bytes - at, h->lane == FL_LANE_HOST ? ")" : ") on a GPU");
  }
  if (at < bytes && h->place[0]) snprintf(out + at, bytes - at, " at %s", h->place);
}

/* Is h a valid header of this version, from which text may be made? */
static int is_sound(const fl_header *h) {
  const int64_t what = h->p[FL_COLLECT_WHAT], n = h->p[FL_COLLECT_NDIM],
                reduce = h->p[FL_COLLECT_REDUCE];
  return what >= 0 && what <= FL_COLLECT_FINE && n >= 0 && n <= FL_MAX_AXES && h->dtype >= 0 &&
         h->dtype < FLAME_DTYPE_COUNT && reduce >= 0 && reduce < FL_REDUCE_COUNT &&
         memchr(h->what, 0, sizeof h->what) && memchr(h->place, 0, sizeof h->place);
}

static int same(const fl_header *a, const fl_header *b) {
  return a->dtype == b->dtype && a->number == b->number && a->lane == b->lane &&
         !memcmp(a->p, b->p, sizeof a->p);
}

static int is_gradient(const fl_header *h) {
  return !strcmp(h->what, "data_parallel") && h->p[FL_COLLECT_WHAT] != FL_COLLECT_BROADCAST;
}

/* What the message advises about two dtypes, or "". data_parallel may send a gradient in the half
** type from which autocast cast it, so ranks whose backwards differ may send different dtypes. */
static const char *remedy(const fl_header *a, const fl_header *b) {
  const int half = fl_dtype_size((int)a->dtype) == 2 || fl_dtype_size((int)b->dtype) == 2;
  return half && a->dtype != b->dtype && is_gradient(a) && is_gradient(b)
         ? "; where their backwards differ, give data_parallel half = false" : "";
}

/* Breaks the group for t->fault. If all ranks compare, all see the fault themselves, and none is
** told. If only this rank and 'peer' compare (peer is not -1), each of the two tells all other
** ranks. Returns 0. */
static int broken(fl_turn *t, int peer) {
  fl_group_break_beside(t->g, t->fault, peer < 0 ? NULL : t->fault, peer);
  return 0;
}

/* Reports a disagreement of the ranks ra and rb, which are a pair if 'peer' is not -1. */
static int disagree(fl_turn *t, const fl_header *a, int ra, const fl_header *b, int rb, int peer) {
  char x[116], y[116];
  const fl_header *h[2] = { a, b };
  const int rank[2] = { ra, rb };
  for (int i = 0; i < 2; i++)
    if (h[i]->p[FL_COLLECT_WHAT] == FL_COLLECT_END) {
      fl_group_text(h[1 - i], x, sizeof x);
      snprintf(t->fault, FL_CALL_FAULT, "rank %d has ended, and rank %d calls %s", rank[i] + 1,
               rank[1 - i] + 1, x);
      return broken(t, peer);
    }
  fl_group_text(a, x, sizeof x);
  fl_group_text(b, y, sizeof y);
  snprintf(t->fault, FL_CALL_FAULT, "the ranks disagree: rank %d calls %s, rank %d %s%s%s", ra + 1,
           x, rb + 1, y, a->p[FL_COLLECT_NOTE] == b->p[FL_COLLECT_NOTE] ? "" :
           ", with other sizes or names", remedy(a, b));
  return broken(t, peer);
}

static int unsound(fl_turn *t, int rank, int peer) {
  snprintf(t->fault, FL_CALL_FAULT, "rank %d runs another version of flame than this, " FLAME_VERSION,
           rank + 1);
  return broken(t, peer);
}

int fl_group_agree(fl_turn *t) {
  fl_group *g = t->g;
  const int n = g->launch.size;
  for (int r = 0; r < n; r++) {
    if (r == g->launch.rank) continue;
    fl_group_send(g, r, FL_WIRE_HEADER, t->mine, sizeof *t->mine);
    fl_group_receive(g, r, FL_WIRE_HEADER, &g->header[r], sizeof *g->header);
  }
  if (!fl_group_wait(t)) return 0;
  for (int r = 0; r < n; r++) if (g->header[r].form != t->mine->form || !is_sound(&g->header[r]))
    return unsound(t, r, -1);
  for (int r = 1; r < n; r++)
    if (!same(&g->header[0], &g->header[r]))
      return disagree(t, &g->header[0], 0, &g->header[r], r, -1);
  return 1;
}

/* Does one rank receive what the other sends? */
static int fit(const fl_header *a, const fl_header *b) {
  return a->p[FL_COLLECT_WHAT] + b->p[FL_COLLECT_WHAT] == FL_COLLECT_SEND + FL_COLLECT_RECEIVE &&
         a->dtype == b->dtype && a->lane == b->lane &&
         !memcmp(a->p + FL_COLLECT_TRACKED, b->p + FL_COLLECT_TRACKED,
                 sizeof *a->p * (FL_COLLECT_SIZES - FL_COLLECT_TRACKED + FL_MAX_AXES));
}

int fl_group_agree_pair(fl_turn *t, int peer) {
  fl_group *g = t->g;
  fl_header *theirs = &g->header[peer];
  const int me = g->launch.rank;
  fl_group_send(g, peer, FL_WIRE_PAIR, t->mine, sizeof *t->mine);
  fl_group_receive(g, peer, FL_WIRE_PAIR, theirs, sizeof *theirs);
  if (!fl_group_wait(t)) return 0;
  if (theirs->form != t->mine->form || !is_sound(theirs)) return unsound(t, peer, peer);
  if (fit(t->mine, theirs)) return 1;
  if (me < peer) return disagree(t, t->mine, me, theirs, peer, peer);
  return disagree(t, theirs, peer, t->mine, me, peer);
}
