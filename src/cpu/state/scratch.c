/* Working memory of steps and calls: as much as the most demanding one so far has needed. */
#include "cpu/state/blocks.h"
#include "cpu/state/state.h"
#include "base/num.h"

void fl_cpu_count(fl_cpu *s, int64_t bytes) {
  fl_level_add(&s->used, bytes);
  fl_level_add(&s->reserved, s->used.now + fl_blocks_kept(s->blocks) - s->reserved.now);
}

int fl_cpu_reserve(fl_cpu *s, fl_mem *m, int64_t worker, int64_t shared) {
  if (worker > s->worker_bytes) {
    const int64_t size = fl_round_up(worker, 64);
    char *p = fl_alloc(m, (size_t)(size * s->width));
    if (!p) return 0;
    fl_cpu_count(s, size * s->width);
    fl_free(m, s->scratch, (size_t)(s->worker_bytes * s->width));
    fl_cpu_count(s, -s->worker_bytes * s->width);
    s->scratch = p;
    s->worker_bytes = size;
  }
  if (shared > s->shared_bytes) {
    char *p = fl_alloc(m, (size_t)shared);
    if (!p) return 0;
    fl_cpu_count(s, shared);
    fl_free(m, s->shared, (size_t)s->shared_bytes);
    fl_cpu_count(s, -s->shared_bytes);
    s->shared = p;
    s->shared_bytes = shared;
  }
  return 1;
}
