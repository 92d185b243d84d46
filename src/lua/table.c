/*
** The table library of a state with limits. A loop over positions costs a step for each position,
** so that a range of 2^60 positions is stopped as a loop of the script would be. Fields are read
** and written with metamethods, as in Lua's library.
**
** sort is a quicksort until it recurses too deeply, then a heap sort, so the number of comparisons
** is at most about n log n for any order of the values and any comparison function. Ranges of a few
** values are arranged on the stack of Lua, which reads and writes the table once for each.
*/
#include "lua/bounded.h"
#include "lua/hook.h"

enum { LOOK_EACH = 256, STRING_BYTES_A_STEP = 64, FEW = 32 };

/* Steps of a loop, charged in batches. */
typedef struct steps {
  long long n;
  uint8_t by_function, watched;     /* of sort: is there a comparison function? is the hook set? */
} steps;

static void pay(lua_State *L, steps *s) {
  if (s->n) fl_hook_charge(L, self_of(L), s->n);
  s->n = 0;
}

static void step_more(lua_State *L, steps *s, size_t n) {
  s->n += (long long)n;
  if (s->n >= LOOK_EACH) pay(L, s);
}

static void step(lua_State *L, steps *s) { step_more(L, s, 1); }

/* Raises unless the value is a table, or has these metamethods. */
static void need_table(lua_State *L, int i, const char *const *needs) {
  if (lua_type(L, i) == LUA_TTABLE) return;
  if (!lua_getmetatable(L, i)) luaL_checktype(L, i, LUA_TTABLE);
  for (; *needs; needs++) {
    lua_pushstring(L, *needs);
    if (lua_rawget(L, -2) == LUA_TNIL) luaL_checktype(L, i, LUA_TTABLE);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

static lua_Integer length(lua_State *L, int i) {
  const int top = lua_gettop(L);
  static const char *const all[] = { "__index", "__newindex", "__len", NULL };
  const int is_plain = lua_type(L, i) == LUA_TTABLE && !lua_getmetatable(L, i);
  if (is_plain) return (lua_Integer)lua_rawlen(L, i);
  lua_settop(L, top);
  need_table(L, i, all);
  return luaL_len(L, i);
}

static int t_insert(lua_State *L) {
  steps s = { 0 };
  const lua_Integer n = length(L, 1);
  const lua_Integer end = (lua_Integer)((lua_Unsigned)n + 1);
  lua_Integer at = end;
  const int args = lua_gettop(L);
  if (args != 2 && args != 3) return luaL_error(L, "wrong number of arguments to 'insert'");
  if (args == 3) {
    at = luaL_checkinteger(L, 2);
    luaL_argcheck(L, (lua_Unsigned)at - 1 < (lua_Unsigned)end, 2, "position out of bounds");
    for (lua_Integer i = end; i > at; i--) {
      step(L, &s);
      lua_geti(L, 1, i - 1);
      lua_seti(L, 1, i);
    }
  }
  lua_seti(L, 1, at);
  pay(L, &s);
  return 0;
}

static int t_remove(lua_State *L) {
  steps s = { 0 };
  const lua_Integer n = length(L, 1);
  lua_Integer at = luaL_optinteger(L, 2, n);
  if (lua_gettop(L) > 1)
    luaL_argcheck(L, (lua_Unsigned)n + 1 == (lua_Unsigned)at ||
                  (lua_Unsigned)at - 1 < (lua_Unsigned)n + (n == 0), 2, "position out of bounds");
  lua_geti(L, 1, at);
  for (; at < n; at++) {
    step(L, &s);
    lua_geti(L, 1, at + 1);
    lua_seti(L, 1, at);
  }
  lua_pushnil(L);
  lua_seti(L, 1, at);
  pay(L, &s);
  return 1;
}

/* (from, first, last, at, to or nil) */
static int t_move(lua_State *L) {
  static const char *const reads[] = { "__index", NULL }, *const writes[] = { "__newindex", NULL };
  steps s = { 0 };
  const lua_Integer first = luaL_checkinteger(L, 2), last = luaL_checkinteger(L, 3),
                    at = luaL_checkinteger(L, 4);
  const int to = lua_isnoneornil(L, 5) ? 1 : 5;
  need_table(L, 1, reads);
  need_table(L, to, writes);
  if (last >= first) {
    luaL_argcheck(L, first > 0 || last < LUA_MAXINTEGER + first, 3, "too many elements to move");
    const lua_Integer n = last - first + 1;
    luaL_argcheck(L, at <= LUA_MAXINTEGER - n + 1, 4, "destination wrap around");
    const int upwards = at > last || at <= first || (to != 1 && !lua_compare(L, 1, to, LUA_OPEQ));
    for (lua_Integer i = 0; i < n; i++) {
      const lua_Integer k = upwards ? i : n - 1 - i;
      step(L, &s);
      lua_geti(L, 1, first + k);
      lua_seti(L, to, at + k);
    }
  }
  pay(L, &s);
  lua_pushvalue(L, to);
  return 1;
}

static void add_field(lua_State *L, luaL_Buffer *out, lua_Integer i) {
  lua_geti(L, 1, i);
  if (!lua_isstring(L, -1))
    luaL_error(L, "invalid value (at index %I) in table for 'concat'", (LUAI_UACINT)i);
  luaL_addvalue(out);
}

static int t_concat(lua_State *L) {
  steps s = { 0 };
  luaL_Buffer out;
  size_t n;
  const lua_Integer last_default = length(L, 1);
  const char *between = luaL_optlstring(L, 2, "", &n);
  const lua_Integer first = luaL_optinteger(L, 3, 1), last = luaL_optinteger(L, 4, last_default);
  luaL_buffinit(L, &out);
  for (lua_Integer i = first; i <= last; i++) {
    step(L, &s);
    add_field(L, &out, i);
    if (i == last) break;                     /* (the largest integer has no successor) */
    luaL_addlstring(&out, between, n);
  }
  pay(L, &s);
  luaL_pushresult(&out);
  return 1;
}

static int t_unpack(lua_State *L) {
  steps s = { 0 };
  const lua_Integer first = luaL_optinteger(L, 2, 1);
  const lua_Integer last = lua_isnoneornil(L, 3) ? luaL_len(L, 1) : luaL_checkinteger(L, 3);
  if (first > last) return 0;
  const lua_Unsigned more = (lua_Unsigned)last - (lua_Unsigned)first;
  if (more >= (lua_Unsigned)INT_MAX || !lua_checkstack(L, (int)more + 1))
    return luaL_error(L, "too many results to unpack");
  for (lua_Unsigned i = 0; i <= more; i++) {
    step(L, &s);
    lua_geti(L, 1, (lua_Integer)((lua_Unsigned)first + i));
  }
  pay(L, &s);
  return (int)more + 1;
}

/* ---- sort ------------------------------------------------------------------------------------ */

/* Are the values at i and j in order, by the function at 2, or by '<', which compares strings byte
** by byte? */
static int less(lua_State *L, steps *s, int i, int j) {
  step(L, s);
  if (!s->by_function) {
    if (s->watched && lua_type(L, i) == LUA_TSTRING)
      step_more(L, s, lua_rawlen(L, i) / STRING_BYTES_A_STEP);
    return lua_compare(L, i, j, LUA_OPLT);
  }
  i = lua_absindex(L, i);
  j = lua_absindex(L, j);
  lua_pushvalue(L, 2);
  lua_pushvalue(L, i);
  lua_pushvalue(L, j);
  lua_call(L, 2, 1);
  const int is = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return is;
}

/* Finds the order of the n values (at most FEW) from stack index 'first' on, by insertion with
** binary search. */
static void arrange(lua_State *L, steps *s, int first, int n, uint8_t order[FEW]) {
  for (int k = 0; k < n; k++) {
    int from = 0, to = k;
    while (from < to) {
      const int half = (from + to) / 2;
      if (less(L, s, first + k, first + order[half])) to = half;
      else from = half + 1;
    }
    memmove(order + from + 1, order + from, (size_t)(k - from));
    order[from] = (uint8_t)k;
  }
}

static void sort_few(lua_State *L, steps *s, lua_Integer from, int n) {
  const int first = lua_gettop(L) + 1;
  uint8_t order[FEW];
  for (int k = 0; k < n; k++) lua_geti(L, 1, from + k);
  arrange(L, s, first, n, order);
  for (int k = 0; k < n; k++) {
    lua_pushvalue(L, first + order[k]);
    lua_seti(L, 1, from + k);
  }
  lua_settop(L, first - 1);
}

/* Pops the value on top and inserts it at 'root' into the heap of the first n values after
** 'before'. The value came from the heap's end, so the larger children are moved up as far as a
** leaf without comparing them with it, and then it moves up from there: half the comparisons. */
static void sink(lua_State *L, steps *s, lua_Integer before, lua_Integer root, lua_Integer n) {
  lua_Integer at = root;
  for (lua_Integer child; (child = 2 * at) <= n; at = child) {
    lua_geti(L, 1, before + child);
    if (child < n) {
      lua_geti(L, 1, before + child + 1);
      if (less(L, s, -2, -1)) {
        lua_replace(L, -2);
        child++;
      } else {
        lua_pop(L, 1);
      }
    }
    lua_seti(L, 1, before + at);
  }
  for (; at > root; at /= 2) {
    lua_geti(L, 1, before + at / 2);
    if (!less(L, s, -1, -2)) {
      lua_pop(L, 1);
      break;
    }
    lua_seti(L, 1, before + at);
  }
  lua_seti(L, 1, before + at);
}

static void sort_heap(lua_State *L, steps *s, lua_Integer before, lua_Integer n) {
  for (lua_Integer i = n / 2; i > 0; i--) {
    lua_geti(L, 1, before + i);
    sink(L, s, before, i, n);
  }
  for (lua_Integer i = n; i > 1; i--) {
    lua_geti(L, 1, before + i);
    lua_geti(L, 1, before + 1);
    lua_seti(L, 1, before + i);
    sink(L, s, before, 1, i - 1);
  }
}

/* Partitions the values from lo to hi by one of them; returns its place, between lo and hi.
** Whatever the comparison function returns, no position outside the range is accessed. */
static lua_Integer part(lua_State *L, steps *s, lua_Integer lo, lua_Integer hi) {
  const int pivot = lua_gettop(L) + 1;
  const lua_Integer middle = lo + (hi - lo) / 2;
  lua_Integer i = lo, j = hi - 1;
  uint8_t order[FEW];
  lua_geti(L, 1, lo);
  lua_geti(L, 1, middle);
  lua_geti(L, 1, hi);
  arrange(L, s, pivot, 3, order);
  lua_pushvalue(L, pivot + order[0]);
  lua_seti(L, 1, lo);
  lua_pushvalue(L, pivot + order[2]);
  lua_seti(L, 1, hi);
  lua_pushvalue(L, pivot + order[1]);
  lua_replace(L, pivot);
  lua_settop(L, pivot);
  lua_geti(L, 1, hi - 1);
  lua_seti(L, 1, middle);
  lua_pushvalue(L, pivot);
  lua_seti(L, 1, hi - 1);
  for (;;) {
    while (lua_geti(L, 1, ++i), i < hi - 1 && less(L, s, -1, pivot)) lua_pop(L, 1);
    while (lua_geti(L, 1, --j), j > lo && less(L, s, pivot, -1)) lua_pop(L, 1);
    if (i >= j) break;
    lua_seti(L, 1, i);
    lua_seti(L, 1, j);
  }
  lua_pop(L, 1);
  lua_seti(L, 1, hi - 1);
  lua_seti(L, 1, i);
  return i;
}

static void sort_range(lua_State *L, steps *s, lua_Integer lo, lua_Integer hi, int depth) {
  while (hi - lo >= FEW) {
    if (depth-- == 0) {
      sort_heap(L, s, lo - 1, hi - lo + 1);
      return;
    }
    const lua_Integer at = part(L, s, lo, hi);
    if (at - lo < hi - at) {
      sort_range(L, s, lo, at - 1, depth);
      lo = at + 1;
    } else {
      sort_range(L, s, at + 1, hi, depth);
      hi = at - 1;
    }
  }
  if (hi > lo) sort_few(L, s, lo, (int)(hi - lo + 1));
}

static int t_sort(lua_State *L) {
  const lua_Integer n = length(L, 1);
  if (n < 2) return 0;
  luaL_argcheck(L, n < INT_MAX, 1, "array too big");
  if (!lua_isnoneornil(L, 2)) luaL_checktype(L, 2, LUA_TFUNCTION);
  lua_settop(L, 2);
  luaL_checkstack(L, FEW + 8, "sort");
  steps s = { .by_function = !lua_isnil(L, 2), .watched = self_of(L)->each > 0 };
  int depth = 0;
  for (lua_Integer k = n; k > 0; k /= 2) depth += 2;
  sort_range(L, &s, 1, n, depth);
  pay(L, &s);
  return 0;
}

void fl_bounded_table(lua_State *L, fl_lua *b, int own, int to) {
  static const luaL_Reg list[] = { { "insert", t_insert }, { "remove", t_remove },
    { "move", t_move }, { "unpack", t_unpack }, { "concat", t_concat }, { "sort", t_sort },
    { NULL, NULL } };
  lua_getfield(L, own, "table");
  lua_newtable(L);
  fl_bounded_poll(L, b, -2, "pack");
  fl_bounded_add(L, b, list);
  lua_setfield(L, to, "table");
  lua_pop(L, 1);
}
