/*
** What the fuzz programs share: rounds by the clock, numbers from a seed, damage to bytes, and
** a message with the round's seed when something ends the program.
**
** fuzz_X [SECONDS [SEED]]: rounds with the seeds SEED, SEED + 1, … (default 1) for SECONDS (default
** 10). fuzz_X 0 SEED repeats the one round of this seed. A round is a fault when it breaks a
** rule that the program states (fuzz_fault), when a sanitizer ends it, or when it takes 30 s; with
** fuzz_budget also when it takes more than that many seconds of processor time, as does a reader
** that reads a long run of one byte again and again. FUZZ_PLANT=read, overflow, leak, hang or (with
** fuzz_budget) slow puts such a fault into the first round: a fuzzer that does not see it is broken
** (tools/fuzz asks each time).
*/
#ifndef FL_SPEC_FUZZ_H
#define FL_SPEC_FUZZ_H
#include "base/mem.h"
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FUZZ_MOST = 1 << 16, FUZZ_ROUND_SECONDS = 30 };

typedef struct fuzz_bytes { unsigned char at[FUZZ_MOST]; size_t n; } fuzz_bytes;

static const char *fuzz_name;
static unsigned long long fuzz_seed, fuzz_rounds;
static int fuzz_faults, fuzz_over;
static double fuzz_budget;                    /* 0: none */
static uint64_t fuzz_state;

/* Sanitizers end the program as a failed assert does, so that fuzz_died is called. */
#define FUZZ_OPTIONS(name) __attribute__((visibility("default"), used)) const char *name(void); \
  const char *name(void) { return "abort_on_error=1:print_stacktrace=1:detect_leaks=1"; }
FUZZ_OPTIONS(__asan_default_options)
FUZZ_OPTIONS(__ubsan_default_options)

static inline unsigned fuzz_draw(unsigned n) {                   /* 0 … n - 1 */
  fuzz_state = fuzz_state * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)(fuzz_state >> 33) % n;
}

static inline void fuzz_fault(const char *what) {
  fuzz_faults++;
  printf("%s: round of seed %llu: %s (again: %s 0 %llu)\n", fuzz_name, fuzz_seed, what, fuzz_name,
         fuzz_seed);
  fflush(stdout);
}

/* ---- damage -------------------------------------------------------------------------------- */

/* Replaces 'n' bytes at 'at' by the k bytes of 'with', if there is room. */
static inline void fuzz_replace(fuzz_bytes *b, size_t at, size_t n, const void *with, size_t k) {
  if (at > b->n || n > b->n - at || b->n - n + k > sizeof b->at) return;
  memmove(b->at + at + k, b->at + at + n, b->n - at - n);
  if (k) memcpy(b->at + at, with, k);
  b->n += k - n;
}

/* Writes a number that overflows when a reader adds it to, or multiplies it with, a size or an
** offset. */
static inline void fuzz_number(fuzz_bytes *b, size_t at) {
  static const uint64_t numbers[] = { 0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fffffff,
                                      0x80000000u,
    0xffffffffu, 0x100000000u, INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX, UINT64_MAX / 8 + 1 };
  const uint64_t v = numbers[fuzz_draw(15)] + fuzz_draw(3) - 1;
  const size_t bytes = (size_t)1 << fuzz_draw(4);
  const int swap = (int)fuzz_draw(2);
  for (size_t i = 0; i < bytes && at + i < b->n; i++)
    b->at[at + i] = (unsigned char)(v >> 8 * (swap ? bytes - 1 - i : i));
}

/* A long run of a byte that formats skip, repeat or nest, or of a word. */
static inline void fuzz_run(fuzz_bytes *b, size_t at, const char *word) {
  static const char bytes[] = "  \t\t\r\n\"\"[{(,:;0%\\";
  unsigned char run[1 << 15];
  const size_t n = (size_t)1 << (fuzz_draw(2) ? 15 : fuzz_draw(16)), k = strlen(word);
  memset(run, bytes[fuzz_draw(sizeof bytes - 1)], n);
  if (k && fuzz_draw(2)) for (size_t i = 0; i < n; i++) run[i] = (unsigned char)word[i % k];
  fuzz_replace(b, at, 0, run, n);
}

/* Makes one change within [from, b->n). words: words of the format, NULL-terminated. */
static inline void fuzz_damage_once(fuzz_bytes *b, size_t from, const char *const *words) {
  if (b->n <= from) return;
  const size_t left = b->n - from, at = from + fuzz_draw((unsigned)left);
  const size_t some = 1 + fuzz_draw(left > 16 ? 16 : (unsigned)left);
  unsigned count = 0;
  while (words[count]) count++;
  if (fuzz_draw(16) == 0) {
    fuzz_run(b, at, words[fuzz_draw(count)]);
    return;
  }
  switch (fuzz_draw(9)) {
    case 0: b->at[at] = (unsigned char)(b->at[at] ^ 1 << fuzz_draw(8)); return;
    case 1: b->at[at] = (unsigned char)fuzz_draw(256); return;
    case 2: fuzz_number(b, at); return;
    case 3: fuzz_replace(b, at, some, NULL, 0); return;
    case 4: {                                            /* repeats a piece of the text */
      unsigned char piece[16];
      const size_t k = some < b->n - at ? some : b->n - at;
      memcpy(piece, b->at + at, k);
      fuzz_replace(b, from + fuzz_draw((unsigned)left), 0, piece, k);
      return;
    }
    case 5: if (fuzz_draw(4) == 0) b->n = at; return;
    default: {
      const char *w = words[fuzz_draw(count)];
      fuzz_replace(b, at, fuzz_draw(2) ? strlen(w) : 0, w, strlen(w));
    }
  }
}

/* One to eight changes, mostly few; sometimes none. */
static inline void fuzz_damage(fuzz_bytes *b, size_t from, const char *const *words) {
  for (unsigned k = fuzz_draw(1 + fuzz_draw(9)); k > 0; k--) fuzz_damage_once(b, from, words);
}

/* ---- rounds -------------------------------------------------------------------------------- */

/* The handler of SIGABRT and of the alarm clock. */
static inline void fuzz_died(int signal) {
  if (fuzz_over) fprintf(stderr, "%s: bytes of malloc are left from some round\n", fuzz_name);
  else fprintf(stderr, "%s: %s in the round of seed %llu (again: %s 0 %llu)\n", fuzz_name,
               signal == SIGALRM ? "too long" : "ended", fuzz_seed, fuzz_name, fuzz_seed);
  _exit(2);
}

/* The faults that the sanitizers, the count of bytes and the clock must see. */
static inline void fuzz_plant(fl_mem *m) {
  const char *what = getenv("FUZZ_PLANT");
  if (!what) return;
  volatile int most = INT_MAX;
  volatile unsigned char *p = fl_alloc(m, 64);
  if (!p) return;
  if (!strcmp(what, "read")) most = p[most == INT_MAX ? 64 : 0];
  if (!strcmp(what, "overflow")) most = most + 1;
  if (!strcmp(what, "hang")) alarm(1), pause();
  if (strcmp(what, "leak") != 0) fl_free(m, (void *)p, 64);
}

static inline void fuzz_plant_slow(clock_t begin) {
  const char *what = getenv("FUZZ_PLANT");
  while (what && !strcmp(what, "slow") &&
         (double)(clock() - begin) <= fuzz_budget * CLOCKS_PER_SEC) {
  }
}

/* One round by its seed; m->live_bytes must be afterwards what it was before. */
static inline void fuzz_round(fl_mem *m, void (*round)(void), int cached) {
  for (; cached >= 0; cached--) {
    fuzz_state = fuzz_seed * 0x9e3779b97f4a7c15u;
    fuzz_draw(1);
    const int64_t before = m->live_bytes;
    if (fuzz_rounds == 1 && !cached) fuzz_plant(m);
    const clock_t begin = clock();
    if (fuzz_rounds == 1 && !cached) fuzz_plant_slow(begin);
    round();
    if (fuzz_budget > 0 && (double)(clock() - begin) > fuzz_budget * CLOCKS_PER_SEC)
      fuzz_fault("more time than its bytes can ask for");
    if (m->live_bytes != before && !cached) fuzz_fault("memory is left");
  }
}

/* cached: objects in m keep some memory for later rounds; each round is then run twice, and the
** second run must leave nothing behind. */
static inline int fuzz_main(int argc, char **argv, fl_mem *m, void (*round)(void), int cached) {
  const double seconds = argc > 1 ? atof(argv[1]) : 10;
  const time_t begin = time(NULL);
  fuzz_name = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
  const unsigned long long first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  printf("%s: seed %llu\n", fuzz_name, first);
  fflush(stdout);
  signal(SIGABRT, fuzz_died);
  signal(SIGALRM, fuzz_died);
  do {
    fuzz_seed = first + fuzz_rounds++;
    alarm(FUZZ_ROUND_SECONDS);
    fuzz_round(m, round, cached);
  } while (difftime(time(NULL), begin) < seconds && fuzz_faults < 10);
  alarm(0);
  fuzz_over = 1;
  printf("%s: %llu rounds, %d faults\n", fuzz_name, fuzz_rounds, fuzz_faults);
  return fuzz_faults != 0;
}
#endif
