/*
** How ranks find each other over TCP. Rank 0 listens on the address that MASTER_ADDR names, on
** MASTER_PORT or one of the next ports (the first is in use if torchrun has its own store there).
** Each other rank opens a port, says hello with it, and is answered; when all are there rank 0
** sends a list of addresses, and each connects to those of lower rank.
**
** There is no secret: any process that reaches the port can say hello. What is checked is
** that all are of one job, of one version and of one size.
*/
#include "base/hash.h"
#include "group/tcp.h"
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PORTS = 16, SLICE_MS = 50 };
static const char magic[8] = "flame 1";
static const double answer_wait = 2;     /* seconds to wait for a hello or an answer; other programs
                                         ** may send none */

typedef struct {
  char magic[8];
  int64_t form;
  uint64_t job;
  int32_t rank, size, port, spare;
  char version[16];
} hello;
enum { REFUSED, WELCOME, OTHER_JOB };
typedef struct { char magic[8]; int32_t ok; char text[180]; } answer;
typedef struct { char host[64]; int32_t port; } address;

typedef struct {
  fl_tcp *t;
  const fl_launch *l;
  const char *host;
  int port;
  uint64_t job;
  double end;
  const atomic_int *stop;
  char *why; size_t bytes;
  address *list;                         /* by rank */
} meeting;

static int fail(meeting *m, const char *what, const char *detail) {
  snprintf(m->why, m->bytes, "%s%s%s", what, *detail ? ": " : "", detail);
  return 0;
}

static int stopped(meeting *m) { return atomic_load(m->stop) != 0; }

/* Waits until fd can be read (or written): 1; 0: not before 'end', or the script was
** interrupted. */
static int ready(meeting *m, int fd, int events, double end) {
  while (!stopped(m) && fl_group_now() < end) {
    struct pollfd p = { .fd = fd, .events = (short)events };
    if (poll(&p, 1, SLICE_MS) > 0) return 1;
  }
  return 0;
}

static int read_all(meeting *m, int fd, void *out, size_t n, double end) {
  char *at = out;
  while (n > 0) {
    if (!ready(m, fd, POLLIN, end)) return 0;
    const ssize_t got = recv(fd, at, n, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return 0;
    if (got > 0) at += got, n -= (size_t)got;
  }
  return 1;
}

static int write_all(int fd, const void *p, size_t n) {
  const char *at = p;
  while (n > 0) {
    const ssize_t sent = send(fd, at, n, MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR) return 0;
    if (sent > 0) at += sent, n -= (size_t)sent;
  }
  return 1;
}

static void tune(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

static struct addrinfo *look_up(const char *host, int port, char *why, size_t bytes) {
  struct addrinfo hint = { .ai_socktype = SOCK_STREAM }, *found = NULL;
  char service[16];
  snprintf(service, sizeof service, "%d", port);
  const int e = getaddrinfo(host, service, &hint, &found);
  if (e) snprintf(why, bytes, "%.80s: %s", host, gai_strerror(e));
  return e ? NULL : found;
}

/* A socket that listens on this address; -1: failed, see errno. */
static int listen_at(const struct sockaddr *at, socklen_t n, int most) {
  const int on = 1, fd = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(fd, at, n) == 0 && listen(fd, most) == 0) return fd;
  const int e = errno;
  close(fd);
  errno = e;
  return -1;
}

/* Connects a socket before 'end', and leaves it blocking. Returns 0, or the reason as errno. */
static int connect_at(meeting *m, int fd, const struct addrinfo *to, double end) {
  int e = 0;
  socklen_t n = sizeof e;
  fcntl(fd, F_SETFL, O_NONBLOCK);
  if (connect(fd, to->ai_addr, to->ai_addrlen) != 0) {
    if (errno != EINPROGRESS && errno != EINTR) return errno;
    if (!ready(m, fd, POLLOUT, end)) return ETIMEDOUT;
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &n);
  }
  fcntl(fd, F_SETFL, 0);
  return e;
}

/* Connects to a host; its name may have several addresses, and the first that works is used. */
static int connect_to(meeting *m, const char *host, int port, double end, char *why, size_t bytes) {
  struct addrinfo *found = look_up(host, port, why, bytes);
  int fd = -1;
  for (struct addrinfo *a = found; a && fd < 0; a = a->ai_next) {
    fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int e = fd < 0 ? errno : connect_at(m, fd, a, end);
    if (!e) break;
    snprintf(why, bytes, "%s", strerror(e));
    if (fd >= 0) close(fd);
    fd = -1;
  }
  if (found) freeaddrinfo(found);
  if (fd >= 0) tune(fd);
  return fd;
}

static int next_client(meeting *m, int listener, double end) {
  const int fd = ready(m, listener, POLLIN, end) ? accept4(listener, NULL, NULL, SOCK_CLOEXEC) : -1;
  if (fd >= 0) tune(fd);
  return fd;
}

static int port_of(int fd) {
  struct sockaddr_storage a;
  socklen_t n = sizeof a;
  char port[16] = "0";
  if (getsockname(fd, (struct sockaddr *)&a, &n) == 0)
    getnameinfo((struct sockaddr *)&a, n, NULL, 0, port, sizeof port, NI_NUMERICSERV);
  return atoi(port);
}

static hello my_hello(const meeting *m, int port) {
  hello h = { .form = fl_group_form(), .job = m->job, .rank = m->l->rank, .size = m->l->size,
              .port = port, .version = FLAME_VERSION };
  memcpy(h.magic, magic, sizeof magic);
  return h;
}

/* NULL: the sender of this hello belongs to the job; else the text with which it is refused. */
static const char *refusal(const meeting *m, const hello *h) {
  const hello mine = my_hello(m, 0);
  if (h->job != mine.job) return "another job is at this address and port";
  if (h->form != mine.form) return "rank 1 runs flame " FLAME_VERSION;
  if (h->size != mine.size) return "rank 1 was started with another number of ranks";
  if (h->rank < 0 || h->rank >= h->size || h->rank == mine.rank) return "this rank is taken";
  return NULL;
}

/* ---- rank 0 ---------------------------------------------------------------------------------- */

static void welcome(meeting *m, int fd) {
  hello h;
  answer a = { .ok = WELCOME };
  struct sockaddr_storage from;
  socklen_t n = sizeof from;
  memcpy(a.magic, magic, sizeof magic);
  if (!read_all(m, fd, &h, sizeof h, fl_group_now() + answer_wait) ||
      memcmp(h.magic, magic, sizeof magic)) {
    close(fd);
    return;
  }
  const char *no = refusal(m, &h);
  if (no) {
    a.ok = h.job != m->job ? OTHER_JOB : REFUSED;
    const int other = h.job == m->job && h.form != fl_group_form();
    snprintf(a.text, sizeof a.text, "%s%s%.15s", no, other ? ", and this rank " : "",
             other ? h.version : "");
  }
  if (!write_all(fd, &a, sizeof a) || no || getpeername(fd, (struct sockaddr *)&from, &n)) {
    close(fd);
    return;
  }
  fl_tcp_peer *p = &m->t->peer[h.rank];
  if (p->fd >= 0) close(p->fd);                          /* it came again */
  p->fd = fd;
  m->list[h.rank].port = h.port;
  getnameinfo((struct sockaddr *)&from, n, m->list[h.rank].host, sizeof m->list->host, NULL, 0,
              NI_NUMERICHOST);
}

static int lacking(const meeting *m, char *out, size_t bytes) {
  int n = 0;
  for (int r = 1; r < m->l->size; r++) {
    if (m->t->peer[r].fd >= 0) continue;
    const size_t at = strlen(out);
    snprintf(out + at, bytes - at, n ? ", %d" : " %d", r + 1);
    n++;
  }
  return n;
}

static int receive_all(meeting *m, int listener) {
  char who[100] = "rank";
  while (lacking(m, (char[100]){ "" }, 100) > 0) {
    const int fd = next_client(m, listener, m->end);
    if (fd >= 0) welcome(m, fd);
    else if (stopped(m) || fl_group_now() >= m->end) {
      lacking(m, who, sizeof who);
      return fail(m, stopped(m) ? "interrupted" : "did not come within the time limit", who);
    }
  }
  for (int r = 1; r < m->l->size; r++)
    if (!write_all(m->t->peer[r].fd, m->list, sizeof *m->list * (size_t)m->l->size))
      return fail(m, "a rank ended while the others came", strerror(errno));
  return 1;
}

static int lead(meeting *m) {
  char why[160] = "";
  int listener = -1;
  for (int k = 0; k < PORTS && listener < 0; k++) {
    struct addrinfo *found = look_up(m->host, m->port + k, why, sizeof why);
    for (struct addrinfo *a = found; a && listener < 0; a = a->ai_next) {
      listener = listen_at(a->ai_addr, a->ai_addrlen, m->l->size);
      if (listener < 0) snprintf(why, sizeof why, "%s", strerror(errno));
    }
    if (!found) break;
    freeaddrinfo(found);
  }
  if (listener < 0) return fail(m, "can not listen at MASTER_ADDR and MASTER_PORT", why);
  const int ok = receive_all(m, listener);
  close(listener);
  return ok;
}

/* ---- the others ------------------------------------------------------------------------------ */

/* 1: rank 0 is at this port and accepts us; 0: it is not, but may be at another port; -1: it
** refused. */
static int try_port(meeting *m, int port, int *listener) {
  char why[160];
  struct sockaddr_storage own = { .ss_family = AF_INET };
  socklen_t n = sizeof own;
  answer a;
  const double soon = fl_group_now() + answer_wait;
  const int fd = connect_to(m, m->host, port, soon < m->end ? soon : m->end, why, sizeof why);
  if (fd < 0) return m->why[0] ? 0 : fail(m, why, "");
  int ok = getsockname(fd, (struct sockaddr *)&own, &n) == 0;
  if (own.ss_family == AF_INET) ((struct sockaddr_in *)&own)->sin_port = 0;
  else ((struct sockaddr_in6 *)&own)->sin6_port = 0;
  if (*listener < 0) *listener = listen_at((struct sockaddr *)&own, n, m->l->size);
  const hello h = my_hello(m, *listener >= 0 ? port_of(*listener) : 0);
  ok = ok && *listener >= 0 && write_all(fd, &h, sizeof h) &&
       read_all(m, fd, &a, sizeof a, fl_group_now() + answer_wait) &&
       !memcmp(a.magic, magic, sizeof magic);
  if (ok && a.ok == WELCOME) {
    m->t->peer[0].fd = fd;
    return 1;
  }
  close(fd);
  if (!ok) return fail(m, "who is there is not flame", "");
  a.text[sizeof a.text - 1] = 0;
  return fail(m, a.text, "") - (a.ok != OTHER_JOB);
}

static int find_master(meeting *m, int *listener) {
  while (!stopped(m) && fl_group_now() < m->end) {
    for (int k = 0; k < PORTS && !stopped(m); k++) {
      const int r = try_port(m, m->port + k, listener);
      if (r) return r > 0;
    }
    nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
  }
  char last[160];
  snprintf(last, sizeof last, "%.159s", m->why);
  return fail(m, stopped(m) ? "interrupted" : "rank 1 is not at MASTER_ADDR and MASTER_PORT", last);
}

static int join(meeting *m) {
  int listener = -1;
  int ok = find_master(m, &listener);
  const int me = m->l->rank, n = m->l->size;
  if (ok && !read_all(m, m->t->peer[0].fd, m->list, sizeof *m->list * (size_t)n, m->end))
    ok = fail(m, "rank 1 did not see all ranks come, or has ended", "");
  for (int r = 1; ok && r < me; r++) {
    const hello h = my_hello(m, 0);
    m->list[r].host[sizeof m->list->host - 1] = 0;
    const int fd = connect_to(m, m->list[r].host, m->list[r].port, m->end, m->why, m->bytes);
    m->t->peer[r].fd = fd;
    ok = fd >= 0 && write_all(fd, &h, sizeof h);
  }
  for (int left = n - 1 - me; ok && left > 0; ) {
    hello h;
    const int fd = next_client(m, listener, m->end);
    if (fd < 0 && (stopped(m) || fl_group_now() >= m->end))
      ok = fail(m, "a rank did not connect within the time limit", "");
    if (fd < 0) continue;
    const int good = read_all(m, fd, &h, sizeof h, fl_group_now() + answer_wait) &&
                     !memcmp(h.magic, magic, sizeof magic) && !refusal(m, &h) && h.rank > me &&
                     m->t->peer[h.rank].fd < 0;
    if (good) m->t->peer[h.rank].fd = fd, left--;
    else close(fd);
  }
  if (listener >= 0) close(listener);
  return ok;
}

/* Identifies the job: runs of torchrun have an id, and a count of restarts. */
static uint64_t job_of(void) {
  const char *id = getenv("TORCHELASTIC_RUN_ID"), *count = getenv("TORCHELASTIC_RESTART_COUNT");
  char text[160];
  snprintf(text, sizeof text, "%.100s %.20s", id ? id : "", count ? count : "");
  return fl_hash64(text, strlen(text), 1);
}

int fl_tcp_meet(fl_tcp *t, const fl_launch *l, double limit, const atomic_int *stop, char *why,
                size_t bytes) {
  const char *host = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT"),
             *store = getenv("TORCHELASTIC_USE_AGENT_STORE");
  char *rest = "";
  const long first = port ? strtol(port, &rest, 10) : 0;
  if (!host || !*host || *rest || first < 1 || first > 65535 - PORTS) {
    snprintf(why, bytes, "MASTER_ADDR='%.60s' MASTER_PORT='%.20s': need where rank 1 is met, a port"
             " from 1 to %d", host ? host : "", port ? port : "", 65535 - PORTS);
    return 0;
  }
  const size_t n = sizeof(address) * (size_t)l->size;
  meeting m = { t, l, host, (int)first + (store && !strcmp(store, "True")), job_of(),
                fl_group_now() + limit, stop, why, bytes, fl_zalloc(t->mem, n) };
  const int ok = !m.list ? fail(&m, "out of host memory", "") : l->rank == 0 ? lead(&m) : join(&m);
  fl_free(t->mem, m.list, n);
  return ok;
}
