/*
** Messages in transit, and fl_group_wait, in which collectives wait for them (group.h, "Waiting").
*/
#include "group/wait.h"
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* A waiting rank looks at its messages BUSY_LOOKS times before it sleeps between looks, LONGEST_NAP
** nanoseconds at most; PROBE_EVERY: looks from one probe of the wire to the next. */
enum { BUSY_LOOKS = 2000, PROBE_EVERY = 64, LONGEST_NAP = 500000 };

double fl_group_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void post(fl_group *g, int peer, int channel, char *p, int64_t bytes, int out) {
  if (bytes == 0) return;
  fl_letter *l = &g->letter[g->nletter++];
  *l = (fl_letter){ .at = p, .left = bytes, .peer = peer, .channel = channel, .out = (uint8_t)out };
}

void fl_group_send(fl_group *g, int to, int channel, const void *p, int64_t bytes) {
  post(g, to, channel, (char *)(uintptr_t)p, bytes, 1);
}

void fl_group_receive(fl_group *g, int from, int channel, void *p, int64_t bytes) {
  post(g, from, channel, p, bytes, 0);
}

int fl_letter_look(fl_wire *w, fl_letter *l) {
  int done = 0;
  if (l->done) return 1;
  if (!l->request) return w->table->post(w, l) ? 0 : -1;
  if (!w->table->test(w, l, &done)) return -1;
  if (!done) return 0;
  const int64_t piece = l->left < FL_WIRE_PIECE ? l->left : FL_WIRE_PIECE;
  l->request = NULL;
  l->at += piece;
  l->left -= piece;
  l->done = l->left == 0;
  return l->done;
}

int fl_group_look(fl_group *g) {
  int all = 1;
  for (int i = 0; i < g->nletter; i++) {
    const int r = fl_letter_look(g->wire, &g->letter[i]);
    if (r < 0) return -1;
    all &= r;
  }
  if (all) g->nletter = 0;
  return all;
}

void fl_group_cancel(fl_group *g) {
  for (int i = 0; i < g->nletter; i++) {
    fl_letter *l = &g->letter[i];
    if (l->done || !l->request || (l->out && l->channel < FL_WIRE_PAIRED)) continue;
    if (!g->wire->table->cancel(g->wire, l)) g->stuck = 1;
  }
  g->nletter = 0;
}

/* Writes what this rank waits for. If messages to it are not complete: "rank 2" or "ranks 2 and 3",
** their senders; else, if its own are not, that the others take them; if no message is in transit,
** the others' GPUs. */
static void missing(const fl_group *g, char *out, size_t bytes) {
  int n = 0, last = -1;
  if (!g->nletter) {
    snprintf(out, bytes, "the other ranks' GPUs");
    return;
  }
  size_t at = 0;
  for (int i = 0; i < g->nletter; i++) n += !g->letter[i].out && !g->letter[i].done;
  snprintf(out, bytes, n ? n > 1 ? "ranks" : "rank" : "the other ranks to take what is sent");
  at = strlen(out);
  for (int i = 0; i < g->nletter && at < bytes; i++) {
    const fl_letter *l = &g->letter[i];
    if (l->out || l->done) continue;
    n--;
    snprintf(out + at, bytes - at, last < 0 ? " %d" : n ? ", %d" : " and %d", l->peer + 1);
    last = l->peer;
    at = strlen(out);
  }
}

static int give_up(fl_turn *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Breaks the group for a failure of this rank, and tells the others. Returns 0. */
static int give_up(fl_turn *t, const char *fmt, ...) {
  char word[FL_CALL_FAULT], place[160];
  va_list args;
  va_start(args, fmt);
  vsnprintf(t->fault, FL_CALL_FAULT, fmt, args);
  va_end(args);
  fl_group_text(t->mine, place, sizeof place);
  snprintf(word, sizeof word, "rank %d gave up in %.130s: %.140s", t->g->launch.rank + 1, place,
           t->fault);
  fl_group_break(t->g, t->fault, word);
  fl_group_cancel(t->g);
  return 0;
}

/* A rank gave up: its message, which it posts whole, becomes the fault. */
static int hear(fl_turn *t, int from) {
  fl_group *g = t->g;
  fl_letter l = { .at = g->word, .left = sizeof g->word, .peer = from, .channel = FL_WIRE_BREAK };
  const double end = fl_group_now() + 1;
  int r = 0;
  while (r == 0 && fl_group_now() < end) r = fl_letter_look(g->wire, &l);
  if (r != 1) {
    if (l.request && !g->wire->table->cancel(g->wire, &l)) g->stuck = 1;
    snprintf(g->word, sizeof g->word, "rank %d gave up", from + 1);
  }
  g->word[sizeof g->word - 1] = 0;
  snprintf(t->fault, FL_CALL_FAULT, "%s", g->word);
  fl_group_cancel(g);
  fl_group_break(g, t->fault, NULL);
  return 0;
}

/* May waiting continue? 0: something ended it. */
static int may_wait(fl_turn *t, double start, double now) {
  fl_group *g = t->g;
  char who[120];
  missing(g, who, sizeof who);
  fl_group_answer(g, 1);
  for (int r = 0; r < g->launch.size; r++) {
    if (r == g->launch.rank) continue;
    const int there = g->wire->table->probe(g->wire, r, FL_WIRE_BREAK);
    if (there < 0) return give_up(t, "%s", g->wire->error);
    if (there) return hear(t, r);
  }
  if (g->terminated)
    return give_up(t, "ended by SIGTERM while it waited for %s (a launcher ends all ranks when one"
                   " has ended)", who);
  if (now - start > g->limit)
    return give_up(t, "waited %.6g s for %s: the time limit of init", g->limit, who);
  return 1;
}

int fl_group_watch(fl_turn *t, double since) {
  const double now = fl_group_now();
  fl_wire *w = t->g->wire;
  for (int r = 0; r < t->g->launch.size; r++)
    if (r != t->g->launch.rank && w->table->probe(w, r, FL_WIRE_ALIVE) < 0)
      return give_up(t, "%s", w->error);
  return may_wait(t, since > 0 ? since : now, now);
}

static void nap(int64_t looks) {
  const int64_t ns = (looks - BUSY_LOOKS) * 100;
  if (looks < BUSY_LOOKS) sched_yield();
  else nanosleep(&(struct timespec){ .tv_nsec = ns < LONGEST_NAP ? ns : LONGEST_NAP }, NULL);
}

void fl_group_rest(void) { nap(BUSY_LOOKS + 1000); }

int fl_group_wait(fl_turn *t) {
  fl_group *g = t->g;
  const double start = fl_group_now();
  int ok = 1;
  g->waiting = 1;
  for (int64_t looks = 0; ok; looks++) {
    const int r = fl_group_look(g);
    if (r == 1) break;
    if (r < 0) {
      ok = give_up(t, "%s", g->wire->error);
    } else if (fl_take_interrupt(g->c) && !g->terminated) {
      ok = give_up(t, "interrupted");
      t->fault[0] = 0;
    } else if (g->terminated || looks % PROBE_EVERY == PROBE_EVERY - 1 || looks >= BUSY_LOOKS) {
      ok = may_wait(t, start, fl_group_now());
      nap(looks);
    } else {
      sched_yield();
    }
  }
  g->waiting = 0;
  g->stats.wait += fl_group_now() - start;
  return ok;
}

int fl_group_gather_records(fl_turn *t, void *all, int64_t bytes) {
  fl_group *g = t->g;
  char *at = all;
  for (int r = 0; r < g->launch.size; r++) {
    if (r == g->launch.rank) continue;
    fl_group_send(g, r, FL_WIRE_DATA, at + g->launch.rank * bytes, bytes);
    fl_group_receive(g, r, FL_WIRE_DATA, at + r * bytes, bytes);
  }
  return fl_group_wait(t);
}

int fl_group_first_record(fl_turn *t, void *p, int64_t bytes) {
  fl_group *g = t->g;
  for (int r = 1; r < g->launch.size && g->launch.rank == 0; r++)
    fl_group_send(g, r, FL_WIRE_DATA, p, bytes);
  if (g->launch.rank) fl_group_receive(g, 0, FL_WIRE_DATA, p, bytes);
  return fl_group_wait(t);
}

int fl_group_terminate(flame_context *c) {
  fl_group *g = c->group;
  if (!g || !g->waiting) return 0;
  g->terminated = 1;
  return 1;
}
