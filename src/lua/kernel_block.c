/*
** block = "auto": facts about a kernel and a device, for kernel/block.lua, which chooses the block.
** The choice is kept in the object of the kernel, for the device of its last launch.
*/
#include "kernel/facts/blocks.h"
#include "lua/kernel.h"

static void find(lua_State *L, const fl_kernel_box *k, fl_kblocks *x) {
  fl_lua *b = self_of(L);
  if (!b->c) fl_lua_raise(L, b);
  if (!fl_kblocks_find(&b->c->mem, k->k->f, x)) fl_lua_fail(L, "kernel", "no host memory");
}

void fl_kernel_need_blocks(lua_State *L, const fl_kernel_box *k) {
  fl_kblocks x;
  const fl_kunit *u = k->k->unit;
  const char *name = k->k->f->name;
  if (!k->k->f->has_body)
    fl_lua_fail(L, name, "block = \"auto\" is for kernels that can be read, and this one is %s"
                FL_DO ": name a block, or give several to k:tune",
                k->k->binary ? "a binary" : "outside the language");
  find(L, k, &x);
  if (x.axis < 0) return;
  const int line = x.line, axis = (unsigned char)"xyz"[x.axis];
  if (u->first_line > 0)
    fl_lua_fail(L, name, "block = \"auto\": line %d (%s:%d) reads threadIdx.%c, and the text never "
                "asks for blockDim.%c, so that its block is fixed" FL_DO ": name it", line,
                u->label, u->first_line + line - 1, axis, axis);
  fl_lua_fail(L, name, "block = \"auto\": line %d reads threadIdx.%c, and the text never asks for "
              "blockDim.%c, so that its block is fixed" FL_DO ": name it", line, axis, axis);
}

static int choose(lua_State *L) { return fl_core_call(L, "kernel_auto"); }

void fl_kernel_choose(lua_State *L, fl_kernel_box *k, int device, int sized) {
  char name[16];
  if (!k->chosen || k->chosen == device + 1) return;
  const int top = lua_gettop(L);
  const fl_kernel_box *own = fl_arg_kernel(L, 1, "kernel");
  luaL_checkstack(L, 8, k->k->f->name);
  lua_pushcfunction(L, choose);
  lua_pushvalue(L, 1);
  fl_device_name(device, name);
  lua_pushstring(L, name);
  lua_pushboolean(L, sized);
  lua_call(L, 3, 0);
  lua_settop(L, top);
  memcpy(k->block, own->block, sizeof k->block);
  k->shared = own->shared;
  k->chosen = own->chosen;
}

/* kernel -> list, by axis, of the threads per block that its arrays are sized for (0: unknown, -1:
** it does not read threadIdx there), the most threads of a block (0: not given) */
int fl_kernel_blocks(lua_State *L) {
  const fl_kernel_box *k = fl_arg_kernel(L, 1, "kernel");
  fl_kblocks x;
  find(L, k, &x);
  lua_createtable(L, 3, 0);
  for (int i = 0; i < 3; i++) {
    lua_pushinteger(L, x.reads[i] ? x.fixed[i] : -1);
    lua_rawseti(L, -2, i + 1);
  }
  lua_pushinteger(L, k->k->f->max_threads);
  return 2;
}

enum { MOST_SIZES = 16 };

static int read_sizes(lua_State *L, int at, int64_t *out) {
  const int n = (int)lua_rawlen(L, at);
  luaL_argcheck(L, n <= MOST_SIZES, at, "too many sizes");
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, at, i + 1);
    out[i] = luaL_checkinteger(L, -1);
    lua_pop(L, 1);
  }
  return n;
}

/* (kernel, device, list of threads per block, list of the blocks' bytes of shared memory) -> list
** of how many threads run at a time in one multiprocessor; nil: the device has none. Compiles the
** kernel. */
int fl_kernel_resident(lua_State *L) {
  fl_lua *b = self_of(L);
  const fl_kernel_box *k = fl_arg_kernel(L, 1, "kernel");
  int64_t threads[MOST_SIZES], shared[MOST_SIZES] = { 0 }, resident[MOST_SIZES] = { 0 };
  const int device = fl_arg_device(L, 2, "kernel"), n = read_sizes(L, 3, threads);
  read_sizes(L, 4, shared);
  const int64_t m = fl_lua_enter(L, b);
  fl_device *d = fl_engine_device(b->c, device);
  flame_status e = d ? FLAME_OK : b->c->err.code;
  const int has = d && d->table->resident;
  if (has) e = fl_kernel_ready(b->c, k->k, device);
  if (has && e == FLAME_OK) e = d->table->resident(d, k->k, n, threads, shared, resident);
  fl_scope_end(b->c, m);
  if (e != FLAME_OK) return fl_lua_raise(L, b);
  if (!has) return 0;
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    lua_pushinteger(L, resident[i]);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* (kernel, device, x, y, z, bytes): stores the block and its shared memory, chosen for the
** device. */
int fl_kernel_settle(lua_State *L) {
  fl_kernel_box *k = fl_arg_kernel(L, 1, "kernel");
  k->chosen = (uint8_t)(1 + fl_arg_device(L, 2, "kernel"));
  for (int i = 0; i < 3; i++) k->block[i] = luaL_checkinteger(L, 3 + i);
  k->shared = luaL_checkinteger(L, 6);
  return 0;
}
