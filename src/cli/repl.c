/*
** The prompt. An entry (what is typed there) is tried as an expression first, then as a statement;
** a statement that ends too early asks for more lines.
**
** Without a terminal it is lua5.4's: lines are read plainly, and results are printed with the
** global 'print'. On a terminal entries are read by the line editor (plainly where the terminal can
** not move its cursor) and run in a separate environment, over the globals; everything else there
** (commands, kept locals, completion, how values are shown) is in lua/flame/prompt.lua, loaded at
** the first entry.
*/
#include "cli/cli.h"
#include "cli/edit.h"
#include <errno.h>
#include <lauxlib.h>
#include <lualib.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct session {
  fl_cli *c;
  int terminal;                                  /* are stdin and stdout terminals? */
  int editing;
  struct sigaction before;                       /* of SIGINT */
  fl_edit edit;
} session;

static const char key_environment, key_prompt;   /* their addresses are keys in the registry */

/* The prompt's text, left on the stack: _PROMPT or _PROMPT2 may be any value. */
static const char *push_prompt(lua_State *L, int first) {
  if (lua_getglobal(L, first ? "_PROMPT" : "_PROMPT2") == LUA_TNIL) {
    return lua_pushstring(L, first ? "> " : ">> ");
  }
  return luaL_tolstring(L, -1, NULL);
}

/* ---- what entries are ------------------------------------------------------------------------ */
static int load(lua_State *L, const char *text) {
  return luaL_loadbuffer(L, text, strlen(text), "=stdin");
}

/* Pushes the chunk of an entry (a text typed at the prompt), or the message of its error. */
static int load_entry(lua_State *L, const char *text) {
  const int status = load(L, lua_pushfstring(L, "return %s", text));
  lua_remove(L, -2);
  if (status == LUA_OK) return status;
  lua_pop(L, 1);
  return load(L, text);
}

/* Did the load fail only because the text ended too early, so that more could complete it? */
static int is_incomplete(lua_State *L, int status) {
  static const char mark[] = "<eof>";
  size_t n;
  if (status != LUA_ERRSYNTAX) return 0;
  const char *message = lua_tolstring(L, -1, &n);
  return n >= sizeof mark - 1 && !strcmp(message + n - (sizeof mark - 1), mark);
}

static int is_command(const char *text) {
  return text[0] == ':' && ((text[1] >= 'a' && text[1] <= 'z') || !text[1]);
}

static int is_entry(lua_State *L, const char *text) {
  const int missing = is_incomplete(L, load_entry(L, text[0] == '=' ? text + 1 : text));
  lua_pop(L, 1);
  return !missing;
}

static int complete(void *arg, const char *text) {
  session *s = (session *)arg;
  return is_command(text) || is_entry(s->c->L, text);
}

/* ---- lua/flame/prompt.lua -------------------------------------------------------------------- */
/* prompt.width(s): its columns. */
static int width(lua_State *L) {
  size_t n;
  const char *s = luaL_checklstring(L, 1, &n);
  lua_pushinteger(L, fl_text_width(s, (int64_t)n));
  return 1;
}

/* prompt.size(): columns and rows. */
static int size(lua_State *L) {
  fl_terminal t;
  fl_terminal_size(&t);
  lua_pushinteger(L, t.cols);
  lua_pushinteger(L, t.rows);
  return 2;
}

static int load_prompt(lua_State *L) {
  static const luaL_Reg native[] = { { "width", width }, { "size", size }, { NULL, NULL } };
  lua_getglobal(L, "require");
  lua_pushliteral(L, "flame.prompt");
  lua_call(L, 1, 1);
  luaL_setfuncs(L, native, 0);
  lua_getfield(L, -1, "start");
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_environment);
  lua_pushboolean(L, fl_terminal_usable());
  lua_call(L, 2, 0);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_prompt);
  return 1;
}

/* Puts prompt[name] below the 'narg' arguments on top and calls it. On failure the message is
** pushed. */
static int call_prompt(session *s, const char *name, int narg, int nres) {
  lua_State *L = s->c->L;
  const int base = lua_gettop(L) - narg + 1;
  luaL_checkstack(L, LUA_MINSTACK, "too many results to print");
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &key_prompt) == LUA_TNIL) {
    lua_pop(L, 1);
    lua_pushcfunction(L, load_prompt);
    const int status = lua_pcall(L, 0, 1, 0);
    if (status != LUA_OK) return status;
  }
  lua_getfield(L, -1, name);
  lua_remove(L, -2);
  lua_insert(L, base);
  return fl_cli_call(L, narg, nres);
}

static void tab(fl_edit *e) {
  session *s = (session *)e->arg;
  lua_State *L = s->c->L;
  const int top = lua_gettop(L);
  lua_pushlstring(L, e->text.at, (size_t)e->cursor);
  lua_pushboolean(L, e->tabs > 1);
  if (call_prompt(s, "complete", 2, 2) == LUA_OK) {
    size_t n;
    const char *before = lua_tolstring(L, -2, &n);
    if (before) fl_edit_complete(e, before, (int64_t)n, lua_tostring(L, -1));
  }
  lua_settop(L, top);
}

/* ---- reading --------------------------------------------------------------------------------- */
static void on_interrupt(int number) { (void)number; }

static void print_prompt(const char *prompt) {
  fputs(prompt, stdout);
  fflush(stdout);
}

/* Waits for a line at a terminal: 0 if SIGINT came instead, at any time after the first byte of the
** prompt. A line is read as a whole there, so that stdin's buffer holds nothing of the next one. */
static int await_line(const char *prompt) {
  struct pollfd in = { STDIN_FILENO, POLLIN, 0 };
  struct sigaction action = { 0 }, before;
  sigset_t held, mask;
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  sigemptyset(&held);
  sigaddset(&held, SIGINT);
  sigprocmask(SIG_BLOCK, &held, &mask);
  sigaction(SIGINT, &action, &before);
  print_prompt(prompt);
  const int ready = ppoll(&in, 1, NULL, &mask), why = errno;
  sigaction(SIGINT, &before, NULL);
  sigprocmask(SIG_SETMASK, &mask, NULL);
  return ready >= 0 || why != EINTR;
}

/* Reads a line: malloc'd, ended by a NUL. NULL: no more lines, or (*cleared) Ctrl-C at a
** terminal. */
static char *read_plain(const session *s, const char *prompt, int *cleared) {
  char *line = NULL;
  size_t room = 0;
  *cleared = s->terminal && !await_line(prompt);
  if (*cleared) return NULL;
  if (!s->terminal) print_prompt(prompt);
  const ssize_t n = getline(&line, &room, stdin);
  if (n > 0 && line[n - 1] == '\n') line[n - 1] = '\0';
  if (n >= 0) return line;
  free(line);
  return NULL;
}

/* Pushes the next line, read without the editor. Returns its length, or how the reading ended. */
static int push_line(session *s, int first) {
  lua_State *L = s->c->L;
  const int top = lua_gettop(L);
  int cleared;
  char *line = read_plain(s, push_prompt(L, first), &cleared);
  lua_settop(L, top);
  if (!line) {
    if (cleared) fputs("\n", stdout);
    return cleared ? FL_EDIT_CLEARED : FL_EDIT_END;
  }
  lua_pushstring(L, line);
  free(line);
  return FL_EDIT_LINE;
}

static int push_plain(session *s) {
  lua_State *L = s->c->L;
  int how = push_line(s, 1);
  while (how == FL_EDIT_LINE) {
    const char *text = lua_tostring(L, 1);
    if ((s->terminal && is_command(text)) || is_entry(L, text)) return how;
    if ((how = push_line(s, 0)) == FL_EDIT_CLEARED) return how;
    if (how == FL_EDIT_END) return FL_EDIT_LINE;              /* the message says what is missing */
    lua_pushstring(L, "\n");
    lua_insert(L, -2);
    lua_concat(L, 3);
  }
  return how;
}

static int push_edited(session *s) {
  lua_State *L = s->c->L;
  const char *prompt = push_prompt(L, 1), *prompt2 = push_prompt(L, 0);
  const int how = fl_edit_read(&s->edit, prompt, prompt2);
  lua_settop(L, 0);
  if (how != FL_EDIT_LINE) return how;
  lua_pushlstring(L, s->edit.text.at, (size_t)s->edit.text.n);
  fl_history_add(&s->edit.history, s->edit.text.at);
  return how;
}

/* Reads the next entry, and leaves only it on the stack. "=x" is short for "return x". */
static int push_entry(session *s) {
  lua_State *L = s->c->L;
  lua_settop(L, 0);
  const int how = s->editing ? push_edited(s) : push_plain(s);
  if (how != FL_EDIT_LINE) return how;
  const char *text = lua_tostring(L, 1);
  if (text[0] == '=') {
    lua_pushfstring(L, "return %s", text + 1);
    lua_replace(L, 1);
  }
  return how;
}

/* ---- running --------------------------------------------------------------------------------- */
/* Runs the entry at 1 and prints its results, as lua5.4 does. */
static void run_plain(session *s) {
  lua_State *L = s->c->L;
  int status = load_entry(L, lua_tostring(L, 1));
  lua_remove(L, 1);
  if (status == LUA_OK) status = fl_cli_call(L, 0, LUA_MULTRET);
  if (fl_cli_report(s->c, status) != LUA_OK || lua_gettop(L) == 0) return;
  luaL_checkstack(L, LUA_MINSTACK, "too many results to print");
  lua_getglobal(L, "print");
  lua_insert(L, 1);
  if (fl_cli_call(L, lua_gettop(L) - 1, 0) == LUA_OK) return;
  const char *why = lua_tostring(L, -1);
  fl_cli_message(s->c->name, lua_pushfstring(L, "error calling 'print' (%s)", why ? why : "?"));
}

/* Prints the error of an entry, which is on top, as prompt.failed formats it. */
static void report(session *s, int status) {
  lua_State *L = s->c->L;
  if (status != LUA_OK && lua_type(L, -1) == LUA_TSTRING) {
    lua_pushvalue(L, -1);
    if (call_prompt(s, "failed", 1, 1) == LUA_OK) lua_replace(L, -2);
    else lua_pop(L, 1);
  }
  fl_cli_report(s->c, status);
}

/* Runs the entry on a terminal: prompt.load gives the chunk (or nil and a message),
** prompt.show the results. */
static void run_entry(session *s) {
  lua_State *L = s->c->L;
  int status = call_prompt(s, "load", 1, 2);
  if (status == LUA_OK && lua_isnil(L, 1)) {
    fl_cli_report(s->c, LUA_ERRSYNTAX);
    return;
  }
  if (status == LUA_OK) {
    lua_settop(L, 1);
    status = fl_cli_call(L, 0, LUA_MULTRET);
    if (status == LUA_OK) status = call_prompt(s, "show", lua_gettop(L), 0);
  }
  report(s, status);
}

/* ---- the session ----------------------------------------------------------------------------- */
/* help is a global only of the prompt, and only if the name is free. flame is loaded by its first
** use, not by the prompt. */
static void set_help(lua_State *L) {
  static const char text[] =
    "if rawget(_G, 'help') == nil then\n"
    "  rawset(_G, 'help', function(...) require('flame').help(...) end)\n"
    "end\n";
  if (luaL_loadbuffer(L, text, sizeof text - 1, "=flame/prompt") == LUA_OK) lua_pcall(L, 0, 0, 0);
  lua_settop(L, 0);
}

/* Makes the environment of entries: the locals that are kept and '_' are in it, the rest is
** global. */
static void make_environment(lua_State *L) {
  lua_newtable(L);
  lua_createtable(L, 0, 2);
  lua_pushglobaltable(L);
  lua_pushvalue(L, -1);
  lua_setfield(L, -3, "__index");
  lua_setfield(L, -2, "__newindex");
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_environment);
}

/* $XDG_CONFIG_HOME/flame-lua/init.lua (default ~/.config) runs before the first entry. */
static void run_start_file(session *s) {
  lua_State *L = s->c->L;
  const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
  const int own = config && config[0] == '/';
  if (!own && !(home && home[0] == '/')) return;
  const char *path = lua_pushfstring(L, "%s%s/flame-lua/init.lua", own ? config : home,
                                     own ? "" : "/.config");
  if (access(path, F_OK) == 0) {
    int status = luaL_loadfile(L, path);
    if (status == LUA_OK) {
      lua_rawgetp(L, LUA_REGISTRYINDEX, &key_environment);
      lua_setupvalue(L, -2, 1);
      status = fl_cli_call(L, 0, 0);
    }
    fl_cli_report(s->c, status);
  }
  lua_settop(L, 0);
}

/* Ctrl-C ends what runs or is being typed. At other times it does nothing. */
static void open_terminal(session *s) {
  struct sigaction action = { 0 };
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &s->before);
  make_environment(s->c->L);
  puts(":help lists what the prompt can do; help(flame.topk) tells what a function does");
  fflush(stdout);
  if (!s->c->bare) run_start_file(s);
  s->editing = fl_terminal_usable();
  fl_edit_open(&s->edit);
  s->edit.arg = s;
  s->edit.complete = complete;
  s->edit.tab = tab;
}

void fl_cli_repl(fl_cli *c) {
  lua_State *L = c->L;
  const char *name = c->name;
  session s = { .c = c, .terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) };
  int how;
  c->name = NULL;
  set_help(L);
  if (s.terminal) open_terminal(&s);
  while ((how = push_entry(&s)) != FL_EDIT_END) {
    if (how == FL_EDIT_CLEARED) continue;
    if (s.terminal) run_entry(&s);
    else run_plain(&s);
    fflush(stdout);
  }
  if (s.terminal) {
    fl_edit_close(&s.edit);
    sigaction(SIGINT, &s.before, NULL);
  }
  lua_settop(L, 0);
  fputs("\n", stdout);
  fflush(stdout);
  c->name = name;
}
