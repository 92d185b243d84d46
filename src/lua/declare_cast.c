/*
** flame.autocast: the declared class of an op ("@half": a product, "@single": an op that needs
** range or precision, "@neutral") decides to which dtype its tensors are cast at its entry,
** wherever the script got the function from. Ops that it calls itself are not cast, and neither are
** those of a backward function: a gradient is computed in the dtypes of its forward code.
** base/autocast.lua makes the blocks in which a script turns it on.
*/
#include "lua/declare.h"

static int is_half(int dtype) { return dtype == FLAME_F16 || dtype == FLAME_BF16; }

/* Replaces the tensor at i by a new one of the dtype. */
static void cast_at(lua_State *L, fl_lua *b, int i, int dtype) {
  fl_box *x = box_at(L, i), *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *n = node_of(b, x);
  fl_lua_leave(L, b, m, out, n ? n_cast(n, dtype) : NULL);
  lua_replace(L, i);
}

void fl_declare_cast(lua_State *L, fl_lua *b, int cast) {
  const int half = b->autocast - 1, top = lua_gettop(L);
  if (cast == FL_CAST_NEUTRAL) return;
  luaL_checkstack(L, 8, "casts");
  for (int i = 1; i <= top; i++) {
    const fl_box *x = box_at(L, i);
    if (x == NULL || x->t == NULL || x->t->node == NULL) continue;
    const int have = x->t->node->dtype;
    if (cast == FL_CAST_SINGLE && is_half(have)) cast_at(L, b, i, FLAME_F32);
    if (cast == FL_CAST_HALF && have != half && (have == FLAME_F32 || is_half(have)))
      cast_at(L, b, i, half);
  }
}

/* ---- blocks ---------------------------------------------------------------------------------- */
/* The state of a block of flame.autocast. It is ended by a C function, which nothing can interrupt
** halfway. depth 0: the block has not begun, or is over; inside: the block began in an op whose own
** ops are not cast. */
typedef struct block { int64_t depth; uint8_t before, inside; } block;
static const char BLOCK[] = "flame.autocast";

/* Ends the block and those opened inside it. */
static int block_close(lua_State *L) {
  fl_lua *b = self_of(L);
  block *g = (block *)luaL_checkudata(L, 1, BLOCK);
  if (g->depth > 0 && b->casts >= g->depth) {
    b->casts = g->depth - 1;
    b->autocast = g->before;
    b->inside = g->inside;
  }
  g->depth = 0;
  return 0;
}

/* () -> a block that has not begun */
static int cast_block(lua_State *L) {
  block *g = (block *)lua_newuserdatauv(L, sizeof *g, 0);
  *g = (block){ 0 };
  if (luaL_newmetatable(L, BLOCK)) {
    for (int i = 0; i < 3; i++) {
      fl_push_closure(L, self_of(L), block_close);
      lua_setfield(L, -2, (const char *const[]){ "__close", "__gc", "close" }[i]);
    }
    lua_pushvalue(L, -1);
    lua_setfield(L, -2, "__index");
  }
  lua_setmetatable(L, -2);
  return 1;
}

/* (block, dtype | false): begins the block; from then on ops are cast to the dtype. */
static int cast_begin(lua_State *L) {
  fl_lua *b = self_of(L);
  block *g = (block *)luaL_checkudata(L, 1, BLOCK);
  *g = (block){ .depth = ++b->casts, .before = b->autocast, .inside = b->inside };
  b->autocast = 0;
  if (lua_type(L, 2) == LUA_TSTRING)
    b->autocast = (uint8_t)(fl_dtype_of_name(lua_tostring(L, 2)) + 1);
  b->inside = 0;
  lua_settop(L, 1);
  return 1;
}

/* () -> the dtype that is set, or nil */
static int cast_dtype(lua_State *L) {
  const fl_lua *b = self_of(L);
  if (b->autocast) lua_pushstring(L, fl_dtype_name(b->autocast - 1));
  else lua_pushnil(L);
  return 1;
}

const fl_lua_reg fl_reg_cast[] = {
  { "cast_block", cast_block, 0 }, { "cast_begin", cast_begin, 0 },
  { "cast_dtype", cast_dtype, 0 }, { NULL, NULL, 0 }
};
