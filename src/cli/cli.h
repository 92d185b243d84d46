/*
** flame-lua, the command: a Lua 5.4 interpreter that behaves as lua5.4 does, with flame
** loaded. Its parts: main.c (options), script.c (running chunks, Ctrl-C), coroutine.c
** (which coroutine Ctrl-C is for), repl.c (the prompt), line.c (line editing). Apart from the two
** pointers that the signal handler needs there is no state outside fl_cli.
*/
#ifndef FL_CLI_CLI_H
#define FL_CLI_CLI_H
#include <lua.h>

typedef struct fl_cli {
  lua_State *L;
  const char *name;      /* put before messages; NULL at the prompt: none */
  int argc;
  char **argv;
} fl_cli;

/* ---- script.c ---------------------------------------------------------------------- */
/* Call the function below 'narg' arguments with a traceback on errors and Ctrl-C armed. */
int fl_cli_call(lua_State *L, int narg, int nres);
/* Print the error on top, if status is one, and pop it. Returns status. */
int fl_cli_report(const fl_cli *c, int status);
void fl_cli_message(const char *name, const char *text);      /* to stderr, with newline */
/* Each runs what it names, reports what goes wrong, and returns the status. */
int fl_cli_string(const fl_cli *c, const char *text, const char *chunk_name);
int fl_cli_file(const fl_cli *c, const char *path);            /* NULL: stdin */
int fl_cli_script(const fl_cli *c, int at);                    /* argv[at] with its arguments */
int fl_cli_library(const fl_cli *c, const char *spec);         /* "mod" or "g=mod" */
int fl_cli_init(const fl_cli *c);                              /* LUA_INIT_5_4 or LUA_INIT */
void fl_cli_make_arg(const fl_cli *c, int script);             /* the global table 'arg' */

/* Ctrl-C is for 'co', which is about to run; gives the one that it was for.
** Leave is told that again. */
lua_State *fl_cli_enter(lua_State *co);
void fl_cli_leave(lua_State *co, lua_State *outer);

/* ---- coroutine.c ------------------------------------------------------------------------ */
void fl_cli_coroutines(lua_State *L);                    /* puts its functions into Lua's library */

/* ---- repl.c --------------------------------------------------------------------------- */
void fl_cli_repl(fl_cli *c);

/* ---- line.c: libedit where it can be opened, plain reading otherwise ------------------------ */
typedef struct fl_line {
  void *library;                           /* NULL: plain */
  char *(*readline)(const char *prompt);
  int (*add_history)(const char *line);
  int (*write_history)(const char *path);
  char path[1024];                         /* of the history; "": not kept */
} fl_line;
void fl_line_open(fl_line *in);
char *fl_line_read(fl_line *in, const char *prompt);   /* malloc'd, no newline; NULL: end */
void fl_line_save(fl_line *in, const char *line);
void fl_line_close(fl_line *in);
#endif
