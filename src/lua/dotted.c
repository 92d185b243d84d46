/*
** A method called with a dot, x.sum() for x:sum(). Lua does not tell what was before the dot, so
** when a call of a field has failed because of its arguments, the script's line is read from its
** text or file: the expression before ".sum(" is looked up as the script would, and the dot is the
** mistake if that is an object with this method, and is not the call's first argument. If the line
** can not be read, nothing is added.
*/
#include "lua/binding.h"
#include "io/io.h"
#include "lua/hook.h"
#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE = 400, PATH = 80 };

/* caller: the script's frame; callee: the function that it calls, under 'name'. */
typedef struct search {
  flame_context *c;
  lua_Debug *caller, *callee;
  char line[LINE], path[PATH];
  int found;                           /* 1: the dot is the mistake; 2: perhaps, since the first
                                       ** argument is an object of the same kind */
  int empty;                           /* no arguments are written */
} search;

/* ---- the line -------------------------------------------------------------------------------- */
static void line_of_text(search *s, const char *p) {
  for (int k = 1; k < s->caller->currentline && p != NULL; k++) {
    p = strchr(p, '\n');
    if (p != NULL) p++;
  }
  if (p != NULL) snprintf(s->line, LINE, "%.*s", (int)strcspn(p, "\n"), p);
}

/* Only a regular file is read: reading another kind may wait, or consume what others should
** read. */
static void line_of_file(search *s, const char *path) {
  char part[4096];
  struct stat facts;
  const int fd = fl_file_open(s->c, path, O_RDONLY, 0);
  int number = 1, n = 0;
  if (fd < 0) return;
  ssize_t got = fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) ? 1 : 0;
  while (got > 0 && number <= s->caller->currentline) {
    got = read(fd, part, sizeof part);
    for (ssize_t i = 0; i < got; i++) {
      if (part[i] == '\n') number++;
      else if (number == s->caller->currentline && n < LINE - 1) s->line[n++] = part[i];
    }
  }
  s->line[n] = 0;
  close(fd);
}

/* The text of -e, which flame-lua has stored in the registry. */
static void line_of_string(lua_State *L, search *s) {
  if (lua_getfield(L, LUA_REGISTRYINDEX, FL_CLI_STRING) == LUA_TSTRING)
    line_of_text(s, lua_tostring(L, -1));
  lua_pop(L, 1);
}

static int is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* Finds the next call 'path.name(', 'path.name{' or 'path.name"' from p on. Its path is in s;
** returns what follows the name, NULL: there is none. */
static const char *next_call(search *s, const char *p) {
  const char *name = s->callee->name;
  const size_t n = strlen(name);
  for (; (p = strstr(p, name)) != NULL; p += n) {
    const char *end = p + n, *from = p - 1;
    if (p == s->line || p[-1] != '.' || is_word(*end)) continue;
    end += strspn(end, " \t");
    if (*end == 0 || strchr("({\"'", *end) == NULL) continue;
    while (from > s->line && (is_word(from[-1]) || strchr(".[]", from[-1]))) from--;
    const size_t room = (size_t)(p - 1 - from);
    if (room == 0 || room >= PATH || isdigit((unsigned char)*from) || !is_word(*from)) continue;
    memcpy(s->path, from, room);
    s->path[room] = 0;
    s->empty = *end == '(' && end[1 + strspn(end + 1, " \t")] == ')';
    return p + n;
  }
  return NULL;
}

/* ---- what the path names, all in a protected call -------------------------------------------- */
/* Pushes the variable of the script's frame, or nothing. */
static int push_variable(lua_State *L, lua_Debug *caller, const char *name) {
  const int top = lua_gettop(L);
  const char *have;
  for (int i = 1; (have = lua_getlocal(L, caller, i)) != NULL; i++) {
    if (strcmp(have, name) != 0) {
      lua_pop(L, 1);
      continue;
    }
    lua_insert(L, top + 1);                      /* the last one found is the innermost */
    lua_settop(L, top + 1);
  }
  if (lua_gettop(L) > top) return 1;
  if (!lua_getinfo(L, "f", caller)) return 0;
  for (int i = 1; (have = lua_getupvalue(L, -1, i)) != NULL; i++) {
    if (strcmp(have, name) == 0) return 1;
    lua_pop(L, 1);
  }
  return 0;
}

/* Pushes the field ".name" or "[2]" of the table on top; returns the text after it, or NULL. */
static const char *push_field(lua_State *L, const char *p) {
  char part[PATH], *end = NULL;
  if (!lua_istable(L, -1)) return NULL;
  if (*p == '[') {
    lua_geti(L, -1, strtoll(p + 1, &end, 10));
    return *end == ']' && end > p + 1 ? end + 1 : NULL;
  }
  const size_t n = strcspn(++p, ".[]");
  snprintf(part, sizeof part, "%.*s", (int)n, p);
  lua_getfield(L, -1, part);
  return p[n] == ']' ? NULL : p + n;
}

static int push_path(lua_State *L, search *s) {
  char part[PATH];
  const char *p = s->path;
  const size_t n = strcspn(p, ".[]");
  snprintf(part, sizeof part, "%.*s", (int)n, p);
  if (!push_variable(L, s->caller, part)) {
    if (!push_variable(L, s->caller, "_ENV")) return 0;
    lua_getfield(L, -1, part);
  }
  for (p += n; p != NULL && *p != 0;) p = *p == ']' ? NULL : push_field(L, p);
  return p != NULL;
}

/* Is the value on top a tensor, or an object whose method the field is: a table with a metatable
** that lacks the field and is no class? (A table of functions has the field itself.) */
static int is_object(lua_State *L, const char *name) {
  if (box_at(L, -1) != NULL) return 1;
  if (!lua_istable(L, -1) || !lua_getmetatable(L, -1)) return 0;
  lua_pop(L, 1);
  lua_pushstring(L, name);
  const int own = lua_rawget(L, -2) != LUA_TNIL;
  lua_pushliteral(L, "__index");
  const int class = lua_rawget(L, -3) != LUA_TNIL;
  lua_pop(L, 2);
  return !own && !class;
}

static int alike(lua_State *L, int i, int j) {
  if (box_at(L, i) != NULL || box_at(L, j) != NULL) return box_at(L, i) && box_at(L, j);
  if (!lua_getmetatable(L, i)) return 0;
  const int same = lua_getmetatable(L, j) && lua_rawequal(L, -1, -2);
  lua_settop(L, j);
  return same;
}

static int examine(lua_State *L) {
  search *s = (search *)lua_touserdata(L, 1);
  luaL_checkstack(L, 20, "frames");
  if (!push_path(L, s) || !is_object(L, s->callee->name)) return 0;
  const int object = lua_gettop(L);
  lua_getfield(L, object, s->callee->name);
  lua_getinfo(L, "fu", s->callee);
  if (!lua_rawequal(L, -1, -2)) return 0;
  const int vararg = s->callee->isvararg && s->callee->nparams == 0 &&
    !lua_iscfunction(L, -1);
  if (lua_getlocal(L, s->callee, vararg ? -1 : 1) == NULL) lua_pushnil(L);
  if (lua_rawequal(L, -1, object)) return 0;
  lua_insert(L, object + 1);
  lua_settop(L, object + 1);
  s->found = alike(L, object, object + 1) ? 2 : 1;
  return 0;
}

/* ---- the message ----------------------------------------------------------------------------- */
static void tell(fl_error *e, const search *s) {
  char write[120];
  snprintf(write, sizeof write, "write %s:%s(%s)", s->path, s->callee->name, s->empty ? "" : "…");
  if (s->found == 1) {
    snprintf(e->op, sizeof e->op, "%s", s->callee->name);
    snprintf(e->message, sizeof e->message, "called with a dot: %s", write);
  } else {
    const size_t n = strlen(e->message);
    snprintf(e->message + n, sizeof e->message - n, "; called with a dot: %s", write);
  }
  snprintf(e->hint, sizeof e->hint, "%s", write);
}

void fl_lua_dotted(lua_State *L, fl_error *e, lua_Debug *caller, lua_Debug *callee) {
  search s = { .c = fl_hook_of(L)->c, .caller = caller, .callee = callee };
  if (!lua_getinfo(L, "n", callee) || callee->name == NULL ||
      strcmp(callee->namewhat, "method") == 0 || !lua_getinfo(L, "Sl", caller)) return;
  if (s.c != NULL && caller->source[0] == '@') line_of_file(&s, caller->source + 1);
  else if (strcmp(caller->source, FL_CLI_STRING) == 0) line_of_string(L, &s);
  else if (caller->source[0] != '=' && caller->source[0] != '@') line_of_text(&s, caller->source);
  const char *p = s.line;
  while (!s.found && (p = next_call(&s, p)) != NULL) {
    lua_pushcfunction(L, examine);
    lua_pushlightuserdata(L, &s);
    if (lua_pcall(L, 1, 0, 0) != LUA_OK) lua_pop(L, 1);
  }
  if (s.found) tell(e, &s);
}
