/*
** Script lines, and errors that name them.
**
** A site is the innermost Lua frame outside the library's own Lua files (docs/contract.md 7):
** chunks "=flame…", "=[flame…" and files whose path begins with flame/ or has lua/flame/ in it.
** Sites are interned to 32-bit ids that nodes carry. Looking one up costs a lua_getinfo per frame
** and a probe of a small cache keyed by the address of the source and the line; the text at that
** address is compared as well, since a chunk may have been collected and its memory reused.
*/
#include "lua/declare.h"
#include "lua/state.h"
#include "base/hash.h"
#include <stdarg.h>
#include <stdio.h>

enum { MAX_SITES = 1 << 16 };        /* further lines, of scripts that generate code without end,
                                     ** get site 0 */

int fl_is_library(const char *source) {
  if (source[0] == '=') return strncmp(source, "=flame", 6) == 0 || strncmp(source,
      "=[flame", 7) == 0;
  if (source[0] != '@') return 0;
  return strncmp(source, "@flame/", 7) == 0 || strstr(source, "lua/flame/") != NULL;
}

static size_t head_length(size_t n) { return n < 16 ? n : 16; }

static int same_source(const fl_site *s, const lua_Debug *ar) {
  return s->source == ar->source && s->line == ar->currentline && s->length == ar->srclen &&
         memcmp(s->head, ar->source, head_length(ar->srclen)) == 0;
}

static uint64_t site_hash(const char *src, int line) {
  return fl_hash64(src, strlen(src), (uint64_t)line);
}

/* Doubles the bins and enters the ids again. 0: no memory (the table then stays as it is). */
static int grow_bins(fl_lua *b) {
  const int64_t n = b->nbins ? b->nbins * 2 : 256;
  uint32_t *bins = (uint32_t *)fl_zalloc(&b->c->mem, (size_t)n * sizeof *bins);
  if (bins == NULL) return 0;
  for (int64_t i = 0; i < b->sites.n; i++) {
    uint64_t h = site_hash(b->sites.at[i].src, b->sites.at[i].line);
    while (bins[h & (uint64_t)(n - 1)] != 0) h++;
    bins[h & (uint64_t)(n - 1)] = (uint32_t)(i + 1);
  }
  fl_free(&b->c->mem, b->bins, (size_t)b->nbins * sizeof *bins);
  b->bins = bins;
  b->nbins = n;
  return 1;
}

static uint32_t intern(fl_lua *b, const lua_Debug *ar) {
  if (b->sites.n * 2 >= b->nbins && !grow_bins(b)) return 0;
  uint64_t h = site_hash(ar->short_src, ar->currentline);
  fl_site *s = NULL;
  uint32_t id;
  for (;; h++) {
    id = b->bins[h & (uint64_t)(b->nbins - 1)];
    if (id == 0) break;
    s = &b->sites.at[id - 1];
    if (s->line == ar->currentline && strcmp(s->src, ar->short_src) == 0) break;
  }
  if (id == 0) {
    if (b->sites.n >= MAX_SITES || (s = FL_PUSH(&b->c->mem, &b->sites)) == NULL) return 0;
    id = (uint32_t)b->sites.n;
    memcpy(s->src, ar->short_src, sizeof s->src);
    s->line = ar->currentline;
    s->library = (uint8_t)fl_is_library(ar->source);
    b->bins[h & (uint64_t)(b->nbins - 1)] = id;
  }
  s->source = ar->source;
  s->length = ar->srclen;
  memcpy(s->head, ar->source, head_length(ar->srclen));
  return id;
}

/* Site of the frame in ar; 0 for C frames, when memory is out, and after MAX_SITES lines. */
static uint32_t site_of_frame(fl_lua *b, const lua_Debug *ar) {
  if (ar->currentline < 0) return 0;
  const uint64_t h = (uint64_t)(uintptr_t)ar->source * 31 + (uint64_t)ar->currentline * 0x9E3779B1u;
  uint32_t *slot = &b->cache[(h ^ h >> 15) & (FL_SITE_CACHE - 1)];
  if (*slot != 0 && same_source(&b->sites.at[*slot - 1], ar)) return *slot;
  const uint32_t id = intern(b, ar);
  if (id != 0) *slot = id;
  return id;
}

/* Finding a frame's function costs a fraction of finding its line, and inside nested modules most
** frames are the library's, whose lines are not needed. The script's frame is mostly at the same
** level as the last time ('depth'): there both are requested in one call. */
uint32_t fl_lua_site(lua_State *L, fl_lua *b) {
  if (b->pinned > 0) return b->pin;
  lua_Debug ar;
  for (int level = 1; level < 200 && lua_getstack(L, level, &ar); level++) {
    const int both = level == b->depth;
    if (!lua_getinfo(L, both ? "Sl" : "S", &ar)) return 0;
    if (!both && (ar.what[0] == 'C' || fl_is_library(ar.source))) continue;
    if (!both && !lua_getinfo(L, "l", &ar)) return 0;
    const uint32_t id = site_of_frame(b, &ar);
    if (id == 0 || b->sites.at[id - 1].library) continue;
    b->depth = level;
    return id;
  }
  return 0;
}

char *fl_site_text(const fl_lua *b, uint32_t site, char buf[96]) {
  buf[0] = 0;
  if (site == 0 || (int64_t)site > b->sites.n) return buf;
  const fl_site *s = &b->sites.at[site - 1];
  snprintf(buf, 96, "%s:%d", s->src, (int)s->line);
  return buf;
}

void fl_sites_close(fl_lua *b) {
  FL_DROP(&b->c->mem, &b->sites);
  fl_free(&b->c->mem, b->bins, (size_t)b->nbins * sizeof *b->bins);
  b->bins = NULL;
  b->nbins = 0;
}

/* The line that is running, as text. Works even if interning has no memory. */
static void here_text(lua_State *L, char buf[96]) {
  lua_Debug ar;
  buf[0] = 0;
  for (int level = 1; level < 200 && lua_getstack(L, level, &ar); level++) {
    if (!lua_getinfo(L, "Sl", &ar) || ar.currentline < 0 || fl_is_library(ar.source)) continue;
    snprintf(buf, 96, "%s:%d", ar.short_src, ar.currentline);
    return;
  }
}

/* A mistake found inside a function that is written in Lua is reported for the outermost library
** function between here and the script, not counting methods and constructors of classes. An error
** of an op that was recorded earlier keeps that op's name. Also adds the hint about a method called
** with a dot. */
static void name_outermost(lua_State *L, fl_error *e) {
  lua_Debug ar, inner;
  if (e->code != FLAME_BAD_ARGUMENT || !lua_checkstack(L, 8)) return;
  for (int level = 0; level < 200 && lua_getstack(L, level, &ar); level++) {
    if (!lua_getinfo(L, "Slf", &ar)) return;
    const lua_CFunction f = lua_tocfunction(L, -1);
    const int ours = f == fl_lua_declared &&
      !fl_declare_has_self(L, lua_gettop(L)) && lua_getupvalue(L, -1, 4) != NULL;
    if (ours && lua_tostring(L, -1) != NULL)
      snprintf(e->op, sizeof e->op, "%s", lua_tostring(L, -1));
    lua_pop(L, 1 + ours);
    if (ar.currentline >= 0 && !fl_is_library(ar.source)) {
      if (level > 0) fl_lua_dotted(L, e, &ar, &inner);
      return;
    }
    inner = ar;
  }
}

/* Pushes "op: message" without the place. A message that names its op itself is not changed. */
static void push_facts(lua_State *L, const fl_error *e) {
  luaL_Buffer out;
  const size_t n = strlen(e->op);
  const int named = strncmp(e->message, e->op, n) == 0 && strncmp(e->message + n, ": ", 2) == 0;
  luaL_buffinit(L, &out);
  if (n != 0 && !named) {
    luaL_addstring(&out, e->op);
    luaL_addstring(&out, ": ");
  }
  luaL_addstring(&out, e->message);
  luaL_pushresult(&out);
}

/* lua_error does not return, which lua.h does not declare. */
static _Noreturn void throw_top(lua_State *L) {
  for (;;) lua_error(L);
}

int fl_lua_raise(lua_State *L, fl_lua *b) {
  char here[96], there[96];
  if (b->has_error) {                           /* a callback's own error, unchanged */
    lua_rawgetp(L, LUA_REGISTRYINDEX, &fl_key_error);
    b->has_error = 0;
    if (b->c != NULL) fl_error_clear(&b->c->err);
    throw_top(L);
  }
  here_text(L, here);
  if (b->c == NULL) {
    lua_pushfstring(L, "%s%sflame: the Lua state is closing", here, here[0] ? ": " : "");
    throw_top(L);
  }
  fl_tell_refused(b->c);
  b->last = b->c->err;
  if (b->last.code == FLAME_OK) {
    b->last.code = FLAME_NO_MEMORY;
    snprintf(b->last.message, sizeof b->last.message, "out of memory");
  }
  fl_error_clear(&b->c->err);
  name_outermost(L, &b->last);
  fl_site_text(b, b->last.site, there);
  if (b->last.code == FLAME_INTERRUPTED) {
    lua_pushfstring(L, "%s%s%s", here, here[0] ? ": " : "", b->last.message);
    throw_top(L);
  }
  const int elsewhere = there[0] != 0 && strcmp(there, here) != 0;
  const char *first = elsewhere ? there : here;
  push_facts(L, &b->last);
  lua_pushfstring(L, "%s%s%s", first, first[0] ? ": " : "", lua_tostring(L, -1));
  if (elsewhere && here[0] != 0) lua_pushfstring(L, "%s (read at %s)", lua_tostring(L, -1), here);
  throw_top(L);
}

__attribute__((format(printf, 4, 0)))
static _Noreturn void fail_with(lua_State *L, fl_lua *b, const char *op, const char *fmt,
                                va_list args) {
  fl_error told;
  if (b->c == NULL) fl_lua_raise(L, b);
  fl_error_clear(&told);
  fl_fail_list(&told, FLAME_BAD_ARGUMENT, op, fmt, args);
  b->c->err = told;                /* not earlier: the arguments may point into the previous
                                   ** error */
  for (;;) fl_lua_raise(L, b);
}

int fl_lua_fail(lua_State *L, const char *op, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);                   /* va_end is never called, since raising does not return */
  fail_with(L, self_of(L), op, fmt, args);
}

int fl_lua_fail_in(lua_State *L, fl_lua *b, const char *op, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  fail_with(L, b, op, fmt, args);
}

flame_status fl_lua_callback(fl_lua *b, lua_CFunction f, void *arg, const char *op) {
  lua_State *L = fl_lua_thread(b);
  int ok = lua_checkstack(L, 8);
  if (ok) {
    lua_pushcfunction(L, f);
    lua_pushlightuserdata(L, arg);
    ok = lua_pcall(L, 1, 0, 0) == LUA_OK;
    fl_lua_on(L, b);
    if (ok) return FLAME_OK;
    lua_rawsetp(L, LUA_REGISTRYINDEX, &fl_key_error);    /* the key exists: no memory is needed */
    b->has_error = 1;
  }
  fl_error_clear(&b->c->err);
  return FL_FAIL(b->c, FLAME_BAD_VALUE, op, "a function of the script failed");
}

/* The key exists, so memory is needed only for a full stack; if that fails L stays unknown to the
** registry. */
void fl_lua_enter_thread(lua_State *L, fl_lua *b) {
  if (lua_checkstack(L, 1)) {
    lua_pushthread(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &fl_key_thread);
  }
  b->L = L;
}

int64_t fl_lua_enter_slow(lua_State *L, fl_lua *b) {
  if (b->c == NULL) fl_lua_raise(L, b);
  fl_error_clear(&b->c->err);
  return fl_lua_enter(L, b);
}
