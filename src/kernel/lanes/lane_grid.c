/*
** Kernels whose blocks meet at a barrier of the grid (cooperative groups). Every block has its own
** scratch memory and runs to its next barrier, one after the other; when all are there, they go on.
*/
#include "kernel/lanes/lane_state.h"
#include <string.h>

static int fits(const fl_lane_code *c, const fl_lane_launch *l) {
  return (double)l->grid[0] * l->grid[1] * l->grid[2] * (double)fl_lane_scratch(c, l) <=
         (double)FL_LANE_GRID_MB * (1 << 20);
}

int fl_lane_meets(const fl_lane_code *c) { return c->func->uses_grid; }

int64_t fl_lane_copies(const fl_lane_code *c, const fl_lane_launch *l) {
  return fl_lane_meets(c) && fits(c, l) ? fl_lane_blocks(l) : 1;
}

int fl_lane_grid_ok(const fl_lane_code *c, const fl_lane_launch *l, fl_error *e) {
  if (!fl_lane_meets(c) || fits(c, l)) return 1;
  fl_fail(e, FLAME_NO_MEMORY, "kernel", "'%s': its blocks meet at a barrier of the grid, so the "
          "CPU keeps all of them: a grid of (%u, %u, %u), %zu bytes for each block, at most %d MB; give "
          "it a smaller grid", c->func->name, l->grid[0], l->grid[1], l->grid[2],
          fl_lane_scratch(c, l), FL_LANE_GRID_MB);
  return 0;
}

typedef struct meeting {
  const fl_lane_code *code;
  const fl_lane_launch *l;
  char *scratch;
  size_t stride;
  int64_t blocks;
  int64_t waiting, ended;            /* a block that waits at the barrier in this round; a block
                                     ** that has ended; -1: none */
} meeting;

static fl_lane_state *state_of(const meeting *m, int64_t block) {
  return (fl_lane_state *)(void *)(m->scratch + m->stride * (size_t)block);
}

/* Called when all blocks are at the barrier: for the race check, later accesses come after all
** earlier ones, as in a new launch. */
static void meet(const meeting *m) {
  if (!(m->l->checks & FL_LANE_RACE)) return;
  const int cleared = fl_lane_shadow_again(m->l->shadow, m->code, m->l);
  for (int64_t b = 0; b < m->blocks; b++) {
    fl_lane_state *s = state_of(m, b);
    if (cleared) memset(s->shared_cells, 0, (size_t)s->n_shared_cells * sizeof *s->shared_cells);
    fl_lane_time_begin(s);
  }
}

/* Reports the fault that one block waits at the barrier while another one has ended. */
static int alone(const meeting *m) {
  fl_lane_state *s = state_of(m, m->waiting);
  return fl_lane_absent(s, &m->code->ins.at[s->pc - 1], FL_LANE_BARRIER, fl_lane_first(s),
                        fl_lane_place_of(state_of(m, m->ended), 0, 0));
}

int fl_lane_grid(const fl_lane_code *c, const fl_lane_launch *l, void *scratch,
                 fl_lane_report *report) {
  meeting m = { .code = c, .l = l, .scratch = scratch, .stride = fl_lane_scratch(c, l),
                .blocks = fl_lane_blocks(l), .ended = -1 };
  for (int first = 1; first || m.waiting >= 0; first = 0) {
    m.waiting = -1;
    for (int64_t b = 0; b < m.blocks; b++) {
      fl_lane_state *s = state_of(&m, b);
      if (first) fl_lane_begin(c, l, s);
      const int r = first ? fl_lane_block(c, l, b, s, report) : fl_lane_go_on(s);
      if (!r) return 0;
      *(r == 2 ? &m.waiting : &m.ended) = b;
    }
    if (m.waiting >= 0 && m.ended >= 0) return alone(&m);
    if (m.waiting >= 0) meet(&m);
  }
  return 1;
}
