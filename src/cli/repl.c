/*
** The prompt. A line is tried as an expression first, then as a statement; a statement
** that ends too early asks for more lines. Results are printed with the global 'print'.
*/
#include "cli/cli.h"
#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The prompt's text, left on the stack: _PROMPT or _PROMPT2 may be any value. */
static const char *push_prompt(lua_State *L, int first) {
  if (lua_getglobal(L, first ? "_PROMPT" : "_PROMPT2") == LUA_TNIL) {
    return lua_pushstring(L, first ? "> " : ">> ");
  }
  return luaL_tolstring(L, -1, NULL);
}

/* Push the next line; 0 at the end of input. "=x" is short for "return x". */
static int push_line(lua_State *L, fl_line *in, int first) {
  const int top = lua_gettop(L);
  char *line = fl_line_read(in, push_prompt(L, first));
  lua_settop(L, top);
  if (!line) return 0;
  if (first && line[0] == '=') {
    lua_pushfstring(L, "return %s", line + 1);
  } else {
    lua_pushstring(L, line);
  }
  free(line);
  return 1;
}

/* Compile the line at 1 as "return line"; on failure nothing is left on the stack. */
static int load_expression(lua_State *L, fl_line *in) {
  const char *line = lua_tostring(L, 1);
  const char *text = lua_pushfstring(L, "return %s", line);
  const int status = luaL_loadbuffer(L, text, strlen(text), "=stdin");
  if (status != LUA_OK) {
    lua_pop(L, 2);
    return status;
  }
  lua_remove(L, -2);
  if (line[0] != '\0') fl_line_save(in, line);
  return status;
}

/* The parser ran out of text, rather than into a mistake. */
static int is_incomplete(lua_State *L, int status) {
  static const char mark[] = "<eof>";
  size_t n;
  if (status != LUA_ERRSYNTAX) return 0;
  const char *message = lua_tolstring(L, -1, &n);
  return n >= sizeof mark - 1 && !strcmp(message + n - (sizeof mark - 1), mark);
}

/* Compile the statement that starts at 1, reading more lines while it is incomplete. */
static int load_statement(lua_State *L, fl_line *in) {
  for (;;) {
    size_t n;
    const char *text = lua_tolstring(L, 1, &n);
    const int status = luaL_loadbuffer(L, text, n, "=stdin");
    if (!is_incomplete(L, status) || !push_line(L, in, 0)) {
      fl_line_save(in, text);
      return status;
    }
    lua_remove(L, -2);                           /* the message */
    lua_pushstring(L, "\n");
    lua_insert(L, -2);
    lua_concat(L, 3);
  }
}

/* Read and compile one command: a status, or -1 at the end of input. */
static int load_command(lua_State *L, fl_line *in) {
  lua_settop(L, 0);
  if (!push_line(L, in, 1)) return -1;
  int status = load_expression(L, in);
  if (status != LUA_OK) status = load_statement(L, in);
  lua_remove(L, 1);                              /* the text */
  return status;
}

static void print_results(const fl_cli *c) {
  lua_State *L = c->L;
  const int n = lua_gettop(L);
  if (n == 0) return;
  luaL_checkstack(L, LUA_MINSTACK, "too many results to print");
  lua_getglobal(L, "print");
  lua_insert(L, 1);
  if (fl_cli_call(L, n, 0) == LUA_OK) return;
  const char *why = lua_tostring(L, -1);
  fl_cli_message(c->name, lua_pushfstring(L, "error calling 'print' (%s)", why ? why : "?"));
}

/* help is a global of the prompt alone, and only where the name is free. flame is loaded by its
** first use, not by the prompt. */
static void set_help(lua_State *L) {
  static const char text[] =
    "if rawget(_G, 'help') == nil then\n"
    "  rawset(_G, 'help', function(...) require('flame').help(...) end)\n"
    "end\n";
  if (luaL_loadbuffer(L, text, sizeof text - 1, "=flame/prompt") == LUA_OK) lua_pcall(L, 0, 0, 0);
  lua_settop(L, 0);
}

void fl_cli_repl(fl_cli *c) {
  lua_State *L = c->L;
  const char *name = c->name;
  fl_line in;
  int status;
  c->name = NULL;
  set_help(L);
  fl_line_open(&in);
  while ((status = load_command(L, &in)) != -1) {
    if (status == LUA_OK) status = fl_cli_call(L, 0, LUA_MULTRET);
    if (status == LUA_OK) print_results(c);
    else fl_cli_report(c, status);
  }
  fl_line_close(&in);
  lua_settop(L, 0);
  fputs("\n", stdout);
  fflush(stdout);
  c->name = name;
}
