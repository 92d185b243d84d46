/*
** Frames over TCP (tcp.h). Nothing here waits.
*/
#include "group/tcp.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FORM = 0x666c3031 };              /* "fl01" */
enum { OTHER_FILES = 32 };               /* files that a process may have open beside its sockets */

static fl_tcp *of(fl_wire *w) { return (fl_tcp *)w; }

/* Marks a stream as lost: it has ended, or its data is not ours. Returns 0. */
static int lose(fl_wire *w, int peer, const char *why) {
  fl_tcp_peer *p = &of(w)->peer[peer];
  if (p->fd >= 0) close(p->fd);
  else if (w->error[0]) return 0;
  p->fd = -1;
  snprintf(w->error, sizeof w->error, "the connection to rank %d has ended%s%.80s", peer + 1,
           *why ? ": " : "", why);
  return 0;
}

static int again(void) { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

/* ---- sending ------------------------------------------------------------------------------ */

/* The number of bytes sent; -1: the stream is lost. */
static int64_t give(fl_wire *w, int peer, const char *p, int64_t n) {
  const ssize_t sent = send(of(w)->peer[peer].fd, p, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent >= 0) return sent;
  if (again()) return 0;
  lose(w, peer, strerror(errno));
  return -1;
}

/* Notes that 'sent' bytes of the array or its head were sent. */
static void gave(fl_tcp_peer *p, int64_t sent) {
  p->from += sent;
  p->to_send -= sent;
  if (p->to_send > 0) return;
  if (p->gives && p->from == (const char *)(&p->give_head + 1)) {
    p->from = p->gives->at;
    p->to_send = p->give_head.bytes;
  } else {
    p->from = NULL;
    p->gives = NULL;
  }
}

/* Sends what waits for a peer, as much as the socket takes. 0: the stream is lost. */
static int push(fl_wire *w, int peer) {
  fl_tcp_peer *p = &of(w)->peer[peer];
  while (p->fd >= 0 && (p->gives || p->out_n > 0)) {
    const int short_one = !p->from && p->out_n > 0;
    if (!short_one && !p->from) {
      p->from = (const char *)&p->give_head;
      p->to_send = sizeof p->give_head;
    }
    const int64_t sent = short_one ? give(w, peer, p->out, (int64_t)p->out_n)
                                   : give(w, peer, p->from, p->to_send);
    if (sent < 0) return 0;
    if (sent == 0) return 1;
    if (!short_one) {
      gave(p, sent);
      continue;
    }
    p->out_n -= (size_t)sent;
    memmove(p->out, p->out + sent, p->out_n);
  }
  return 1;
}

/* Adds bytes to the outbox. 0: it is full, and the stream counts as lost. */
static int put_out(fl_wire *w, int peer, const void *bytes, size_t n) {
  fl_tcp_peer *p = &of(w)->peer[peer];
  if (p->out_n + n > sizeof p->out) return lose(w, peer, "too much waits to be sent");
  memcpy(p->out + p->out_n, bytes, n);
  p->out_n += n;
  return 1;
}

static int64_t piece(const fl_letter *l) {
  return l->left < FL_WIRE_PIECE ? l->left : FL_WIRE_PIECE;
}

/* ---- receiving ---------------------------------------------------------------------------- */

/* The head of a frame has arrived: finds where the frame's bytes go. 0: the stream is lost; -1: no
** call has asked for them yet. */
static int place(fl_wire *w, int peer) {
  fl_tcp_peer *p = &of(w)->peer[peer];
  const fl_tcp_frame *f = &p->head;
  if (f->form != FORM || f->channel < 0 || f->channel > FL_WIRE_DATA || f->bytes < 1)
    return lose(w, peer, "what came is not flame's");
  if (f->channel < FL_WIRE_PAIRED) {
    if (f->bytes > FL_TCP_BOX) return lose(w, peer, "what came is not flame's");
    if (p->full[f->channel] >= 0) return -1;          /* the box has a message that is not read */
    p->to = p->box[f->channel];
  } else {
    if (!p->wants || p->wants->channel != f->channel) {
      p->left = w->over ? f->bytes : 0;          /* over: the frame is dropped; else it waits */
      return w->over ? 1 : -1;
    }
    if (piece(p->wants) != f->bytes) return lose(w, peer, "an array of another size came");
    p->takes = p->wants;
    p->wants = NULL;
    p->to = p->takes->at;
  }
  p->left = f->bytes;
  return 1;
}

static void arrived(fl_tcp_peer *p) {
  if (p->head.channel < FL_WIRE_PAIRED) p->full[p->head.channel] = (int32_t)p->head.bytes;
  p->takes = NULL;
  p->to = NULL;
  p->head_n = 0;
}

static int64_t take(fl_wire *w, int peer, char *at, size_t n) {
  const ssize_t got = recv(of(w)->peer[peer].fd, at, n, MSG_DONTWAIT);
  if (got > 0) return got;
  if (got < 0 && again()) return 0;
  lose(w, peer, got < 0 ? strerror(errno) : "");
  return -1;
}

/* Reads what has come from a peer, up to an array for which no call waits. 0: the stream is
** lost. */
static int pull(fl_wire *w, int peer) {
  fl_tcp_peer *p = &of(w)->peer[peer];
  char sink[4096];
  while (p->fd >= 0) {
    const int heading = p->left == 0, whole = p->head_n == sizeof p->head;
    if (heading && whole) {
      const int r = place(w, peer);
      if (r < 1) return r < 0;
      continue;
    }
    const size_t room = heading ? sizeof p->head - p->head_n
                      : p->to || p->left < (int64_t)sizeof sink ? (size_t)p->left : sizeof sink;
    char *at = heading ? (char *)&p->head + p->head_n : p->to ? p->to : sink;
    const int64_t got = take(w, peer, at, room);
    if (got <= 0) return got == 0;
    if (heading) {
      p->head_n += (size_t)got;
      continue;
    }
    if (p->to) p->to += got;
    p->left -= got;
    if (p->left == 0) arrived(p);
  }
  return 1;
}

/* ---- the table ------------------------------------------------------------------------------- */

static int post(fl_wire *w, fl_letter *l) {
  fl_tcp_peer *p = &of(w)->peer[l->peer];
  const fl_tcp_frame f = { FORM, l->channel, piece(l) };
  l->request = l;
  if (!l->out) {
    if (l->channel >= FL_WIRE_PAIRED) p->wants = l;
    return 1;
  }
  if (p->fd < 0) return lose(w, l->peer, "");
  if (l->channel >= FL_WIRE_PAIRED) {
    p->gives = l;
    p->give_head = f;
  } else if (!put_out(w, l->peer, &f, sizeof f) ||
             !put_out(w, l->peer, l->at, (size_t)f.bytes)) return 0;
  return push(w, l->peer);
}

static int test_out(fl_wire *w, fl_letter *l, int *done) {
  *done = l->channel < FL_WIRE_PAIRED || of(w)->peer[l->peer].gives != l;
  return 1;
}

static int test_in(fl_wire *w, fl_letter *l, int *done) {
  fl_tcp_peer *p = &of(w)->peer[l->peer];
  if (l->channel >= FL_WIRE_PAIRED) {
    *done = p->wants != l && p->takes != l;
    return 1;
  }
  if (p->full[l->channel] < 0) return 1;
  if (p->full[l->channel] != l->left) return lose(w, l->peer, "another version of flame");
  memcpy(l->at, p->box[l->channel], (size_t)l->left);
  p->full[l->channel] = -1;
  return *done = 1;
}

/* The end of a stream counts only after its data was read, and not if its rank said why it
** ended. */
static int test(fl_wire *w, fl_letter *l, int *done) {
  fl_tcp_peer *p = &of(w)->peer[l->peer];
  if (p->fd >= 0) push(w, l->peer);
  if (p->fd >= 0) pull(w, l->peer);
  if (!(l->out ? test_out(w, l, done) : test_in(w, l, done))) return 0;
  if (!*done && p->fd < 0 && p->full[FL_WIRE_BREAK] < 0) return lose(w, l->peer, "");
  return 1;
}

static int probe(fl_wire *w, int from, int channel) {
  fl_tcp_peer *p = &of(w)->peer[from];
  if (p->fd >= 0) push(w, from);
  if (p->fd >= 0) pull(w, from);
  if (channel == FL_WIRE_ALIVE) return p->fd >= 0 || p->full[FL_WIRE_BREAK] >= 0 ? 0 : -1;
  return p->full[channel] >= 0;
}

/* An array that is arriving is read and dropped. If one is being sent, this rank can send nothing
** more on the connection. */
static int cancel(fl_wire *w, fl_letter *l) {
  fl_tcp_peer *p = &of(w)->peer[l->peer];
  if (p->wants == l) p->wants = NULL;
  if (p->takes == l) p->to = NULL, p->takes = NULL;
  if (p->gives == l) {
    if (p->fd >= 0) shutdown(p->fd, SHUT_WR);
    p->gives = NULL;
    p->from = NULL;
    p->to_send = 0;
    p->out_n = 0;
  }
  return 1;
}

static void close_wire(fl_wire *w, int orderly) {
  fl_tcp *t = of(w);
  (void)orderly;
  for (int r = 0; r < w->size; r++) if (t->peer[r].fd >= 0) close(t->peer[r].fd);
  fl_free(t->mem, t->peer, sizeof *t->peer * (size_t)w->size);
  fl_free(t->mem, t, sizeof *t);
}

static const fl_wire_table table = {
  .name = "tcp", .post = post, .test = test, .probe = probe, .cancel = cancel, .close = close_wire,
};

/* How many ranks there can be: a process has a socket to each, and some other files. */
static int64_t most_ranks(void) {
  struct rlimit r;
  const int known = getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < FL_TCP_RANKS + OTHER_FILES;
  return known ? (int64_t)r.rlim_cur - OTHER_FILES : FL_TCP_RANKS;
}

fl_wire *fl_tcp_open(flame_context *c, const fl_launch *l, double limit, char *why,
                     size_t bytes) {
  const int64_t most = most_ranks();
  if (l->size > most) {
    snprintf(why, bytes, "WORLD_SIZE is %d, and there can be %lld ranks: each has a socket to each"
             " other (see ulimit -n)%s", l->size, (long long)most,
             most == FL_TCP_RANKS ? "; start more with mpirun" : "");
    return NULL;
  }
  fl_tcp *t = fl_zalloc(&c->mem, sizeof *t);
  const size_t n = sizeof *t->peer * (size_t)l->size;
  if (t) *t = (fl_tcp){ { &table, l->rank, l->size, 0, "" }, &c->mem, fl_zalloc(&c->mem, n) };
  if (!t || !t->peer) {
    if (t) fl_free(&c->mem, t, sizeof *t);
    snprintf(why, bytes, "out of host memory");
    return NULL;
  }
  for (int r = 0; r < l->size; r++) {
    t->peer[r].fd = -1;
    for (int k = 0; k < FL_WIRE_PAIRED; k++) t->peer[r].full[k] = -1;
  }
  if (fl_tcp_meet(t, l, limit, &c->interrupted, why, bytes)) return &t->wire;
  close_wire(&t->wire, 0);
  return NULL;
}
