/*
** Tables of Fourier transforms kept from call to call, for a device (fft_job.h): making them takes
** longer than a single transform of their length. They are found by what they depend on; the least
** recently used are dropped when there are too many, or too many bytes. Without memory for them a
** call's scratch is used. One thread at a time is in a context, and workers only read, so nothing
** is locked.
*/
#include "cpu/fft/fft_job.h"
#include <string.h>

enum { KEPT = 64 };
static const int64_t bytes_max = (int64_t)64 << 20;

typedef struct entry {
  int64_t key[4], used, bytes;
  char *at;                              /* NULL: empty */
} entry;
struct fl_fft_cache { entry of[KEPT]; int64_t clock, bytes; };

static void forget(struct fl_fft_cache *q, fl_mem *m, entry *e) {
  fl_free(m, e->at, (size_t)e->bytes);
  q->bytes -= e->bytes;
  memset(e, 0, sizeof *e);
}

static void key_of(const fl_fft_job *j, int64_t key[4]) {
  key[0] = j->f.n;
  key[1] = j->packed;
  key[2] = j->wide;
  key[3] = j->is64;
}

static entry *find(struct fl_fft_cache *q, const fl_fft_job *j) {
  int64_t key[4];
  key_of(j, key);
  for (int i = 0; q && i < KEPT; i++)
    if (q->of[i].at && memcmp(q->of[i].key, key, sizeof key) == 0) return &q->of[i];
  return NULL;
}

/* Drops entries until 'bytes' more are within the limits; returns an empty entry. NULL: 'bytes' are
** beyond the limit alone. */
static entry *room_for(struct fl_fft_cache *q, fl_mem *m, int64_t bytes) {
  for (;;) {
    entry *empty = NULL, *oldest = NULL;
    for (int i = 0; i < KEPT; i++) {
      entry *e = &q->of[i];
      if (!e->at) empty = e;
      else if (!oldest || e->used < oldest->used) oldest = e;
    }
    if (empty && q->bytes + bytes <= bytes_max) return empty;
    if (!oldest) return NULL;
    forget(q, m, oldest);
  }
}

/* Makes an entry for the job's tables. NULL: they are too large, or there is no memory. */
static entry *make(fl_cpu *cpu, fl_mem *m, const fl_fft_job *j) {
  fl_fft_job counted = *j;
  const int64_t bytes = fl_fft_place_tables(&counted, NULL);
  if (bytes > bytes_max) return NULL;
  if (!cpu->fft) cpu->fft = fl_zalloc(m, sizeof *cpu->fft);
  entry *e = cpu->fft ? room_for(cpu->fft, m, bytes) : NULL;
  if (!e) return NULL;
  e->at = fl_alloc(m, (size_t)bytes);
  if (!e->at) return NULL;
  e->bytes = bytes;
  cpu->fft->bytes += bytes;
  key_of(j, e->key);
  return e;
}

void fl_fft_take_tables(fl_cpu *cpu, fl_mem *m, fl_fft_job *j) {
  entry *e = find(cpu->fft, j);
  j->fresh = !e;
  if (!e) e = make(cpu, m, j);
  if (e) {
    e->used = ++cpu->fft->clock;
    fl_fft_place_tables(j, e->at);
  }
  if (j->fresh) fl_fft_tables(j);
}

void fl_fft_settle(fl_cpu *cpu, fl_mem *m, const fl_fft_job *j, int whole) {
  entry *e = whole ? NULL : find(cpu->fft, j);
  if (e) forget(cpu->fft, m, e);
}

void fl_fft_close(fl_cpu *cpu, fl_mem *m) {
  for (int i = 0; cpu->fft && i < KEPT; i++)
    if (cpu->fft->of[i].at) forget(cpu->fft, m, &cpu->fft->of[i]);
  fl_free(m, cpu->fft, sizeof *cpu->fft);
  cpu->fft = NULL;
}
