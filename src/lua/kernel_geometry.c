/*
** The geometry of a launch: what the script said, what follows from the number of elements, and
** whether a device takes it.
*/
#include "lua/kernel.h"

enum { MOST_SHARED = 227 * 1024 };

int fl_kplan_check(lua_State *L, const fl_kplan *p, const fl_kfunc *f) {
  static const int64_t most_block[3] = { 1024, 1024, 64 },
                       most_grid[3] = { 2147483647, 65535, 65535 };
  const int64_t *grid = p->p + FL_KP_GRID, *block = p->p + FL_KP_BLOCK;
  for (int i = 0; i < 3; i++) {
    if (grid[i] < 1 || grid[i] > most_grid[i]) return fl_lua_fail(L, p->name,
        "grid.%c = %lld, need 1 to %lld", "xyz"[i], (long long)grid[i], (long long)most_grid[i]);
    if (block[i] < 1 || block[i] > most_block[i]) return fl_lua_fail(L, p->name,
        "block.%c = %lld, need 1 to %lld", "xyz"[i], (long long)block[i], (long long)most_block[i]);
  }
  const int64_t threads = block[0] * block[1] * block[2];
  if (threads > 1024) return fl_lua_fail(L, p->name,
      "a block of (%lld, %lld, %lld) has %lld threads, at most 1024",
      (long long)block[0], (long long)block[1], (long long)block[2], (long long)threads);
  if (f->max_threads && threads > f->max_threads) return fl_lua_fail(L, p->name,
      "a block of (%lld, %lld, %lld) has %lld threads, __launch_bounds__ allows %d"
      FL_DO ": give a smaller block", (long long)block[0], (long long)block[1], (long long)block[2],
      (long long)threads, (int)f->max_threads);
  if (p->p[FL_KP_SHARED] < 0 || p->p[FL_KP_SHARED] > MOST_SHARED) return fl_lua_fail(L, p->name,
      "shared = %lld bytes, need 0 to %d", (long long)p->p[FL_KP_SHARED], MOST_SHARED);
  return 0;
}

int64_t fl_kplan_block(const fl_kfunc *f) {
  return f->max_threads > 0 && f->max_threads < 256 ? f->max_threads : 256;
}

void fl_kplan_geometry(lua_State *L, fl_kplan *p, const fl_kernel_box *k, int64_t n) {
  for (int i = 0; i < 3; i++) {
    p->p[FL_KP_BLOCK + i] = k->has_block ? k->block[i] : i == 0 ? fl_kplan_block(k->k->f) : 1;
    p->p[FL_KP_GRID + i] = k->has_grid ? k->grid[i] : 1;
  }
  const int64_t threads = p->p[FL_KP_BLOCK];
  if (!k->has_grid && threads > 0) {
    const int64_t blocks = (n + threads - 1) / threads;
    p->p[FL_KP_GRID] = blocks > 0 ? blocks : 1;
  }
  p->p[FL_KP_SHARED] = k->shared;
  p->p[FL_KP_COUNT_ARGS] = k->nparam;
  fl_kplan_check(L, p, k->k->f);
}
