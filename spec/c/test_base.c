/*
** Tests of src/base: counted memory, allocations that fail on request, slabs, text, hashes, errors,
** environment variables, writing, signals.
*/
#include "base/env.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/philox.h"
#include "base/signals.h"
#include "base/text.h"
#include "base/write.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static int passed, failed;

static void check_at(int ok, const char *what, int line) {
  if (ok) { passed++; return; }
  failed++;
  printf("test_base.c:%d: failed: %s\n", line, what);
}
#define CHECK(x) check_at((x) != 0, #x, __LINE__)

static void counts_and_aligns(void) {
  fl_mem m = { 0 };
  void *a = fl_alloc(&m, 100), *b = fl_zalloc(&m, 1), *c = fl_alloc(&m, 0);
  CHECK(a && b && c && (uintptr_t)a % 64 == 0 && (uintptr_t)b % 64 == 0);
  CHECK(*(char *)b == 0);
  CHECK(m.live_bytes == 101 && m.live_blocks == 3 && m.calls == 3);
  fl_free(&m, b, 1);
  fl_free(&m, NULL, 5);
  CHECK(m.live_bytes == 100 && m.peak_bytes == 101);
  memset(a, 7, 100);
  a = fl_realloc(&m, a, 100, 120);                 /* in place: same rounding */
  CHECK(m.live_bytes == 120);
  a = fl_realloc(&m, a, 120, 5000);
  CHECK(a && ((char *)a)[99] == 7 && m.live_bytes == 5000 && m.live_blocks == 2);
  a = fl_realloc(&m, a, 5000, 10);
  CHECK(a && ((char *)a)[9] == 7 && m.live_bytes == 10);
  fl_free(&m, a, 10);
  fl_free(&m, c, 0);
  char *s = fl_strdup(&m, "text");
  CHECK(s && strcmp(s, "text") == 0);
  fl_free(&m, s, strlen(s) + 1);
  CHECK(m.live_bytes == 0 && m.live_blocks == 0);
  CHECK(fl_alloc(&m, SIZE_MAX) == NULL && fl_alloc(&m, SIZE_MAX - 63) == NULL);
  CHECK(m.live_bytes == 0 && m.live_blocks == 0);
}

/* Large blocks are aligned to 2 MB, so that the system can give them huge pages. */
static void aligns_large_blocks(void) {
  fl_mem m = { 0 };
  const size_t size = ((size_t)4 << 20) + 8;
  char *a = fl_alloc(&m, size);
#if defined(__linux__)
  CHECK((uintptr_t)a % (2 << 20) == 0);
#endif
  a[size - 1] = 1;
  fl_free(&m, a, size);
  CHECK(m.live_bytes == 0);
}

static void fails_on_purpose(void) {
  fl_mem m = { 0 };
  m.fail_at = 2;
  void *a = fl_alloc(&m, 8), *b = fl_alloc(&m, 8), *c = fl_alloc(&m, 8);
  CHECK(a && !b && c);
  m.fail_at = m.calls + 1;
  m.fail_forever = 1;
  CHECK(!fl_realloc(&m, a, 8, 9) && !fl_realloc(&m, a, 8, 9000) && !fl_zalloc(&m, 1));
  CHECK(m.live_bytes == 16);
  m.fail_at = 0;
  void *d = fl_alloc(&m, 8);
  CHECK(d != NULL);
  fl_free(&m, a, 8);
  fl_free(&m, c, 8);
  fl_free(&m, d, 8);
  CHECK(m.live_bytes == 0 && m.live_blocks == 0);
}

static void slabs_recycle(void) {
  enum { N = 5000 };
  fl_mem m = { 0 };
  fl_slab s;
  static char *at[N];
  fl_slab_init(&s, &m, 72);
  for (int i = 0; i < N; i++) {
    at[i] = fl_slab_new(&s);
    memset(at[i], i, 72);
  }
  CHECK(s.live == N && m.live_bytes < N * 96 && m.live_blocks > 1);
  int intact = 1;
  for (int i = 0; i < N; i++) intact &= at[i][0] == (char)i && at[i][71] == (char)i;
  CHECK(intact);
  const int64_t before = m.calls;
  for (int i = 0; i < N; i++) fl_slab_free(&s, at[i]);
  for (int i = 0; i < N; i++) at[i] = fl_slab_new(&s);
  CHECK(m.calls == before && s.live == N);
  fl_slab_close(&s);
  CHECK(m.live_bytes == 0 && m.live_blocks == 0);
  fl_slab_init(&s, &m, 1000000);                   /* larger than a chunk */
  m.fail_at = m.calls + 1;
  CHECK(fl_slab_new(&s) == NULL && s.live == 0);
  CHECK(fl_slab_new(&s) != NULL);
  fl_slab_close(&s);
  CHECK(m.live_bytes == 0);
}

static void arrays_grow(void) {
  fl_mem m = { 0 };
  struct { int *at; int64_t n, cap; } v = { 0 };
  for (int i = 0; i < 1000; i++) *FL_PUSH(&m, &v) = i;
  CHECK(v.n == 1000 && v.at[0] == 0 && v.at[999] == 999);
  m.fail_at = m.calls + 1;
  m.fail_forever = 1;
  while (v.n < v.cap) CHECK(FL_PUSH(&m, &v) != NULL);
  CHECK(FL_PUSH(&m, &v) == NULL && v.at[999] == 999);
  CHECK(!FL_RESERVE(&m, &v, INT64_MAX));
  FL_DROP(&m, &v);
  CHECK(m.live_bytes == 0 && m.live_blocks == 0 && v.cap == 0);
  size_t out = 0;
  CHECK(fl_mul_ok(3, 5, &out) && out == 15 && !fl_mul_ok(SIZE_MAX / 2, 3, &out));
}

static void text_formats(void) {
  fl_mem m = { 0 };
  fl_text t;
  fl_text_init(&t, &m);
  CHECK(strcmp(fl_text_str(&t), "") == 0);
  for (int i = 0; i < 300; i++) fl_text_printf(&t, "%d %s;", i, "abc");
  CHECK(t.n == strlen(fl_text_str(&t)) && !strncmp(t.at, "0 abc;1 abc;", 12));
  const size_t n = t.n;
  fl_text_printf(&t, "%*s", 10000, "x");
  CHECK(t.n == n + 10000 && t.at[t.n - 1] == 'x');
  fl_text_add(&t, "a\0b", 3);
  fl_text_puts(&t, "!");
  CHECK(t.n == n + 10004 && fl_text_str(&t)[t.n - 1] == '!');
  fl_text_free(&t);
  m.fail_at = m.calls + 1;
  fl_text_puts(&t, "lost");
  fl_text_puts(&t, "also");
  CHECK(t.failed && fl_text_str(&t) == NULL);
  fl_text_free(&t);
  CHECK(!t.failed && m.live_bytes == 0 && m.live_blocks == 0);
}

static void sha_is(const char *text, const char *hex) {
  uint8_t digest[32];
  char got[65];
  fl_sha256(text, strlen(text), digest);
  for (int i = 0; i < 32; i++) snprintf(got + 2 * i, 3, "%02x", digest[i]);
  CHECK(strcmp(got, hex) == 0);
}

static void hashes(void) {
  sha_is("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  sha_is("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  sha_is("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  char buffer[80];
  uint64_t seen[81];
  memset(buffer, 0, sizeof buffer);
  int distinct = 1;
  for (size_t n = 0; n <= 80; n++) {               /* zeros of every length differ */
    seen[n] = fl_hash64(buffer, n, 1);
    for (size_t k = 0; k < n; k++) distinct &= seen[k] != seen[n];
  }
  for (int bit = 0; bit < 640; bit++) {            /* and every single bit matters */
    buffer[bit / 8] ^= (char)(1 << bit % 8);
    distinct &= fl_hash64(buffer, 80, 1) != seen[80];
    buffer[bit / 8] ^= (char)(1 << bit % 8);
  }
  CHECK(distinct && fl_hash64(buffer, 80, 2) != seen[80]);
  CHECK(fl_hash64(buffer, 80, 1) == seen[80] && fl_hash64(NULL, 0, 1) == seen[0]);
}

static void first_error_stays(void) {
  fl_error e;
  fl_error_clear(&e);
  CHECK(e.code == FLAME_OK && e.hint[0] == '\0');
  CHECK(fl_fail(&e, FLAME_BAD_ARGUMENT, "add", "%d and %s" FL_DO "; cast with %s", 3, "x",
                "x:to") == FLAME_BAD_ARGUMENT);
  CHECK(fl_fail(&e, FLAME_IO, "load", "later" FL_DO ": later") == FLAME_IO);
  CHECK(e.code == FLAME_BAD_ARGUMENT && !strcmp(e.op, "add"));
  CHECK(!strcmp(e.message, "3 and x; cast with x:to") && !strcmp(e.hint, "cast with x:to"));
  fl_error_clear(&e);
  char big[2000];
  memset(big, 'y', sizeof big - 1);
  big[sizeof big - 1] = '\0';
  fl_fail(&e, FLAME_INTERNAL, big, "%s", big);
  CHECK(strlen(e.op) == 39 && strlen(e.message) == sizeof e.message - 1 && e.hint[0] == '\0');
  fl_error_clear(&e);
  fl_fail(&e, FLAME_INTERNAL, "", FL_DO "%s", big);
  CHECK(strlen(e.hint) == 159 && strstr(e.message, e.hint));
}

static const char *hint_of(fl_error *e, const char *text) {
  fl_error_clear(e);
  fl_fail(e, FLAME_BAD_ARGUMENT, "op", "%s", text);
  CHECK(strstr(e->message, e->hint) && !strstr(e->message, FL_DO) && !strstr(e->hint, FL_DO));
  return e->hint;
}

static void remedies_are_told_apart(void) {
  fl_error e, again;
  char text[1000], late[1000];
  CHECK(!strcmp(hint_of(&e, "x; need 3"), ""));
  CHECK(!strcmp(hint_of(&e, "x" FL_DO ": use y"), "use y") && !strcmp(e.message, "x: use y"));
  CHECK(!strcmp(hint_of(&e, "x" FL_DO " (use y:to())"), "use y:to()") &&
        !strcmp(e.message, "x (use y:to())"));
  CHECK(!strcmp(hint_of(&e, "x (no y" FL_DO ": install one)"), "install one"));
  CHECK(!strcmp(hint_of(&e, FL_DO "use f(x)"), "use f(x)") && !strcmp(hint_of(&e, FL_DO), "") &&
        !strcmp(hint_of(&e, ""), ""));
  CHECK(!strcmp(hint_of(&e, "a" FL_DO "b" FL_DO "; c"), "c") && !strcmp(e.message, "ab; c"));
  for (size_t n = 760; n < 990; n++) {         /* a long message is cut before its hint */
    memset(text, 'y', n);
    strcpy(text + n, FL_DO "; use z");
    CHECK(!strcmp(hint_of(&e, text), "use z") &&
          strlen(e.message) == (n + 7 < sizeof e.message ? n + 7 : sizeof e.message - 1));
    CHECK(!strcmp(e.message + strlen(e.message) - 7, "; use z"));
    fl_error_text(&e, late, sizeof late);
    CHECK(!strncmp(late, "op: y", 5) && !strcmp(hint_of(&again, late + 4), e.hint) &&
          !strcmp(again.message, e.message));
  }
  for (int k = 0; k < 4; k++) {                        /* no character is cut in half */
    memset(text, 'y', 4);
    for (int i = k; i < 900; i += 2) memcpy(text + i, "\xc3\xa4", 3);
    hint_of(&e, text);
    const size_t n = strlen(e.message);
    CHECK(n + 3 >= sizeof e.message && (e.message[n - 1] == '\xa4' || e.message[n - 1] == 'y'));
  }
}

static void switches_are_read(void) {
  unsetenv("FLAME_THREADS");
  unsetenv("FLAME_DEVICE");
  CHECK(!strcmp(fl_env(FL_ENV_FLAME_DEVICE), "cpu") && fl_env_int(FL_ENV_FLAME_REPLAY) == 1);
  CHECK(fl_env_int(FL_ENV_FLAME_THREADS) == 0);
  setenv("FLAME_THREADS", "12 or so", 1);
  CHECK(fl_env_int(FL_ENV_FLAME_THREADS) == 12);
  setenv("FLAME_THREADS", "99999999999999", 1);
  CHECK(fl_env_int(FL_ENV_FLAME_THREADS) == 0x7fffffff);
  setenv("FLAME_THREADS", "many", 1);
  CHECK(fl_env_int(FL_ENV_FLAME_THREADS) == 0);
  unsetenv("FLAME_THREADS");
}

static volatile sig_atomic_t signals;
static void on_limit(int number) { signals += number == SIGXFSZ; }

/* A write beyond RLIMIT_FSIZE fails with EFBIG. The host's handler for SIGXFSZ is not called for
** it, but still for signals that the host raises. */
static void a_limit_of_sizes_is_an_error(void) {
  struct rlimit before = { 0 }, small;
  struct sigaction own = { 0 }, host = { .sa_handler = on_limit };
  sigset_t one, pending;
  FILE *f = tmpfile();
  sigemptyset(&one);
  sigaddset(&one, SIGXFSZ);
  CHECK(f && getrlimit(RLIMIT_FSIZE, &before) == 0 && sigaction(SIGXFSZ, &host, &own) == 0);
  small = before;
  small.rlim_cur = 4;
  CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
  const ssize_t fits = fl_write(fileno(f), "123456", 6), more = fl_write(fileno(f), "x", 1);
  const int why = errno;
  pthread_sigmask(SIG_BLOCK, &one, NULL);
  raise(SIGXFSZ);
  const ssize_t again = fl_write(fileno(f), "x", 1);
  sigpending(&pending);
  const int kept = sigismember(&pending, SIGXFSZ), quiet = signals == 0;
  pthread_sigmask(SIG_UNBLOCK, &one, NULL);
  setrlimit(RLIMIT_FSIZE, &before);
  sigaction(SIGXFSZ, &own, NULL);
  CHECK(fits == 4 && more == -1 && why == EFBIG && again == -1);
  CHECK(quiet && kept && signals == 1);
  if (f) fclose(f);
}

static volatile sig_atomic_t ours, theirs;
static void on_ours(int number) { (void)number; ours++; }
static void on_theirs(int number) { (void)number; theirs++; }

/* A second thread that holds signals back while the first does, and acts like a library that
** installs its own handler for SIGINT meanwhile. */
static void *another_holds(void *arg) {
  sigset_t mask, none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, NULL);         /* threads inherit the signal mask of their
                                                     ** creator, which blocks all signals */
  fl_signals_hold(&mask);
  signal(SIGINT, on_theirs);
  kill(getpid(), SIGINT);
  CHECK(fl_signals_pending(&mask) == 1 && ours == 0);
  pthread_sigmask(SIG_BLOCK, arg, &none);            /* the first thread handles it */
  fl_signals_release(arg);
  return NULL;
}

static void signals_are_held(void) {
  struct sigaction action = { .sa_handler = on_ours, .sa_flags = SA_NODEFER }, before, after;
  sigset_t mask, all;
  pthread_t thread;
  sigaction(SIGINT, &action, &before);
  fl_signals_hold(&mask);
  signal(SIGINT, on_theirs);
  CHECK(fl_signals_pending(&mask) == 0);
  sigset_t blocked;
  sigfillset(&blocked);
  pthread_create(&thread, NULL, another_holds, &blocked);
  pthread_join(thread, NULL);           /* SIGINT was sent to the process: it is still pending */
  CHECK(fl_signals_pending(&mask) == 1 && ours == 0 && theirs == 0);
  fl_signals_release(&mask);
  sigaction(SIGINT, &before, &after);
  CHECK(ours == 1 && theirs == 0);
  CHECK(after.sa_handler == on_ours && (after.sa_flags & SA_NODEFER));
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &mask);         /* a signal that the host itself has blocked
                                                   ** is not reported as pending */
  fl_signals_hold(&blocked);
  raise(SIGTERM);
  CHECK(fl_signals_pending(&blocked) == 0);
  fl_signals_release(&blocked);
  const struct timespec now = { 0 };
  CHECK(sigtimedwait(&all, NULL, &now) == SIGTERM);
  pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

int main(void) {
  signals_are_held();
  counts_and_aligns();
  aligns_large_blocks();
  fails_on_purpose();
  slabs_recycle();
  arrays_grow();
  text_formats();
  hashes();
  first_error_stays();
  remedies_are_told_apart();
  switches_are_read();
  a_limit_of_sizes_is_an_error();
  fl_rng r = { 1, 0 };
  CHECK(fl_rng_take(&r, 5) == 0 && fl_rng_take(&r, 4) == 2 && fl_rng_take(&r, 0) == 3);
  CHECK(r.counter == 3);
  printf("test_base: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
