/*
** The string library of a state with limits: searching by lpattern.c, rep that computes the size of
** its result first, no dump. The rest is Lua's own with polling: its time is proportional to its
** arguments.
*/
#include "lua/bounded.h"
#include "lua/hook.h"
#include "lua/lpattern.h"

enum { LITERAL_A_STEP = 64, LOOK_EACH = 256 };   /* bytes per step; captures between two looks */
static const int64_t longest = INT64_C(1) << 40;              /* bytes of a result of rep */

/* Converts a 1-based position, negative from the end, to a 0-based one; 0 for one before the
** first. */
static size_t start_at(lua_Integer at, size_t n) {
  if (at > 0) return (size_t)at - 1;
  if (at == 0 || (lua_Unsigned)-(lua_Unsigned)at > n) return 0;
  return n - (size_t)-(lua_Unsigned)at;
}

static int is_literal(const char *p, size_t n) {
  for (size_t i = 0; i < n; i++) if (strchr("^$*+?.([%-", p[i]) && p[i]) return 0;
  return 1;
}

static int find_literal(lua_State *L, fl_lua *b, const char *s, size_t n, size_t from) {
  size_t m;
  const char *p = lua_tolstring(L, 2, &m);
  fl_hook_charge(L, b, (long long)((n - from) / LITERAL_A_STEP));
  const char *at = (const char *)(m ? memmem(s + from, n - from, p, m) : s + from);
  if (at == NULL) return luaL_pushfail(L), 1;
  lua_pushinteger(L, at - s + 1);
  lua_pushinteger(L, at - s + (lua_Integer)m);
  return 2;
}

/* find, and match without the positions */
static int search(lua_State *L, int positions) {
  size_t n, np;
  const char *s = luaL_checklstring(L, 1, &n), *p = luaL_checklstring(L, 2, &np);
  const size_t from = start_at(luaL_optinteger(L, 3, 1), n);
  fl_match m;
  if (from > n) return luaL_pushfail(L), 1;
  if (positions && (lua_toboolean(L, 4) || is_literal(p, np)))
    return find_literal(L, self_of(L), s, n, from);
  const fl_lpattern *pattern = fl_lpattern_push(L, 2, 1);
  if (!fl_lpattern_find(L, self_of(L), pattern, s, n, s + from, &m)) return luaL_pushfail(L), 1;
  if (!positions) return fl_lpattern_push_captures(L, &m, s);
  lua_pushinteger(L, m.from - s + 1);
  lua_pushinteger(L, m.to - s);
  return 2 + (m.captures ? fl_lpattern_push_captures(L, &m, s) : 0);
}

static int s_find(lua_State *L) { return search(L, 1); }
static int s_match(lua_State *L) { return search(L, 0); }

/* Upvalues: the binding, the string, the userdata of the pattern, where to continue, and where the
** last match ended, since an empty match there does not count. */
static int next_match(lua_State *L) {
  size_t n;
  const char *s = lua_tolstring(L, lua_upvalueindex(2), &n);
  const fl_lpattern *p = (const fl_lpattern *)lua_touserdata(L, lua_upvalueindex(3));
  size_t at = (size_t)lua_tointeger(L, lua_upvalueindex(4));
  const lua_Integer last = lua_tointeger(L, lua_upvalueindex(5));
  fl_match m;
  for (; at <= n; at = (size_t)(m.from - s) + 1) {
    if (!fl_lpattern_find(L, self_of(L), p, s, n, s + at, &m)) break;
    if (m.to - s == last) continue;
    lua_pushinteger(L, m.to - s);
    lua_copy(L, -1, lua_upvalueindex(4));
    lua_copy(L, -1, lua_upvalueindex(5));
    return fl_lpattern_push_captures(L, &m, s);
  }
  lua_pushinteger(L, (lua_Integer)n + 1);
  lua_copy(L, -1, lua_upvalueindex(4));
  return 0;
}

static int s_gmatch(lua_State *L) {
  size_t n;
  luaL_checklstring(L, 1, &n);
  luaL_checkstring(L, 2);
  const size_t from = start_at(luaL_optinteger(L, 3, 1), n);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, 1);
  fl_lpattern_push(L, 2, 0);
  lua_pushinteger(L, from > n ? (lua_Integer)n + 1 : (lua_Integer)from);
  lua_pushinteger(L, -1);
  lua_pushcclosure(L, next_match, 5);
  return 1;
}

/* ---- gsub ------------------------------------------------------------------------------------ */

/* Adds the replacement at 3, a string in which %0 is the match, %1 to %9 captures, %% a %. */
static void add_text(lua_State *L, luaL_Buffer *out, const fl_match *m, const char *s) {
  size_t n;
  const char *r = lua_tolstring(L, 3, &n), *end = r + n, *p;
  for (int k = 1; (p = (const char *)memchr(r, '%', (size_t)(end - r))) != NULL; r = p + 2, k++) {
    if (k % LOOK_EACH == 0) fl_hook_charge(L, self_of(L), LOOK_EACH);
    luaL_addlstring(out, r, (size_t)(p - r));
    const char c = p + 1 < end ? p[1] : 0;
    if (c == '%') luaL_addchar(out, c);
    else if (c == '0') luaL_addlstring(out, m->from, (size_t)(m->to - m->from));
    else if (c >= '1' && c <= '9') {
      fl_lpattern_push_capture(L, m, c - '1', s);
      luaL_tolstring(L, -1, NULL);
      lua_remove(L, -2);
      luaL_addvalue(out);
    } else {
      luaL_error(L, "invalid use of '%%' in replacement string");
    }
  }
  luaL_addlstring(out, r, (size_t)(end - r));
}

/* Adds the replacement of a match. 1: it differs from the match itself. */
static int add_replacement(lua_State *L, luaL_Buffer *out, const fl_match *m, const char *s) {
  const int kind = lua_type(L, 3);
  if (kind == LUA_TSTRING || kind == LUA_TNUMBER) {
    add_text(L, out, m, s);
    return 1;
  }
  if (kind == LUA_TFUNCTION) {
    lua_pushvalue(L, 3);
    lua_call(L, fl_lpattern_push_captures(L, m, s), 1);
  } else {
    fl_lpattern_push_capture(L, m, 0, s);
    lua_gettable(L, 3);
  }
  if (!lua_toboolean(L, -1)) {
    lua_pop(L, 1);
    luaL_addlstring(out, m->from, (size_t)(m->to - m->from));
    return 0;
  }
  if (!lua_isstring(L, -1))
    luaL_error(L, "invalid replacement value (a %s)", luaL_typename(L, -1));
  luaL_addvalue(out);
  return 1;
}

/* string.gsub. An empty match at the end of the previous match does not count. */
static int s_gsub(lua_State *L) {
  size_t n;
  const char *s = luaL_checklstring(L, 1, &n), *at = s, *last = NULL;
  const int kind = lua_type(L, 3);
  const lua_Integer limit = luaL_optinteger(L, 4, (lua_Integer)n + 1);
  lua_Integer count = 0;
  int changed = 0;
  luaL_Buffer out;
  fl_match m;
  luaL_argexpected(L, kind == LUA_TNUMBER || kind == LUA_TSTRING || kind == LUA_TFUNCTION ||
                   kind == LUA_TTABLE, 3, "string/function/table");
  if (kind == LUA_TNUMBER) lua_tostring(L, 3);
  const fl_lpattern *p = fl_lpattern_push(L, 2, 1);
  luaL_buffinit(L, &out);
  while (count < limit && at <= s + n) {
    if (!fl_lpattern_find(L, self_of(L), p, s, n, at, &m)) break;
    luaL_addlstring(&out, at, (size_t)(m.from - at));
    at = m.from;
    if (m.to != last) {
      count++;
      changed |= add_replacement(L, &out, &m, s);
      at = last = m.to;
    } else if (at < s + n) {
      luaL_addchar(&out, *at++);
    } else {
      break;
    }
    if (fl_lpattern_anchored(p)) break;
  }
  if (at < s + n) luaL_addlstring(&out, at, (size_t)(s + n - at));
  luaL_pushresult(&out);
  if (!changed) lua_pushvalue(L, 1);
  lua_pushinteger(L, count);
  return 2;
}

/* ---- rep ------------------------------------------------------------------------------------- */

static int s_rep(lua_State *L) {
  size_t n, k;
  const char *s = luaL_checklstring(L, 1, &n), *between = luaL_optlstring(L, 3, "", &k);
  const lua_Integer times = luaL_checkinteger(L, 2);
  int64_t bytes;
  fl_lua *b = self_of(L);
  luaL_Buffer out;
  if (times <= 0 || n + k == 0) return lua_pushliteral(L, ""), 1;
  if (__builtin_mul_overflow((int64_t)(n + k), (int64_t)times, &bytes) || bytes > longest)
    return luaL_error(L, "resulting string too large");
  bytes -= (int64_t)k;
  fl_hook_charge(L, b, bytes / LITERAL_A_STEP);
  char *p = luaL_buffinitsize(L, &out, (size_t)bytes);
  for (lua_Integer i = 0; i < times; i++) {
    memcpy(p, s, n);
    p += n;
    if (i + 1 < times && k) memcpy(p, between, k), p += k;
  }
  luaL_pushresultsize(&out, (size_t)bytes);
  return 1;
}

/* ---- the library, and the metatable of strings ----------------------------------------------- */

static void poll_arithmetic(lua_State *L, fl_lua *b, int string) {
  lua_pushliteral(L, "");
  lua_getmetatable(L, -1);
  fl_bounded_poll(L, b, -1, "__add __sub __mul __mod __pow __div __idiv __unm");
  lua_pushvalue(L, string);
  lua_setfield(L, -2, "__index");
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  lua_pop(L, 2);
}

void fl_bounded_string(lua_State *L, fl_lua *b, int own, int to) {
  static const luaL_Reg list[] = { { "find", s_find }, { "match", s_match }, { "gmatch", s_gmatch },
    { "gsub", s_gsub }, { "rep", s_rep }, { NULL, NULL } };
  lua_getfield(L, own, "string");
  lua_newtable(L);
  fl_bounded_poll(L, b, -2, "char format lower pack packsize reverse unpack upper");
  fl_bounded_poll_after(L, b, -2, "byte len sub");
  fl_bounded_add(L, b, list);
  poll_arithmetic(L, b, lua_gettop(L));
  lua_setfield(L, to, "string");
  lua_pop(L, 1);
}
