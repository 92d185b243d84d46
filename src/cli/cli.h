/*
** flame-lua, the command: a Lua 5.4 interpreter that behaves as lua5.4 does, with flame loaded.
** Its parts: main.c (options), script.c (running chunks, Ctrl-C), sandbox.c, bundle.c,
** jupyter.c, repl.c (the prompt), edit.h (its line editor). There is no state outside fl_cli, apart
** from what signal handlers need and the bundle in memory.
*/
#ifndef FL_CLI_CLI_H
#define FL_CLI_CLI_H
#include <lua.h>

typedef struct fl_cli {
  lua_State *L;
  const char *name;      /* put before messages; NULL (at the prompt): nothing is */
  int argc;
  char **argv;
  int bare;              /* -E: the environment is ignored */
} fl_cli;

/* ---- script.c ---------------------------------------------------------------------- */
/* Calls the function below 'narg' arguments with a traceback on errors and Ctrl-C armed. */
int fl_cli_call(lua_State *L, int narg, int nres);
/* Prints the error on top, if status is one, and pops it. Returns status. */
int fl_cli_report(const fl_cli *c, int status);
void fl_cli_message(const char *name, const char *text);      /* to stderr, with newline */
/* fl_cli_string, _file, _script, _library and _init run a chunk each, report its error, if any, and
** return the status of the call. */
int fl_cli_string(const fl_cli *c, const char *text, const char *chunk_name);
/* After a script that succeeded: runs collectives that nothing has read yet, and reads the checks
** of the last run on a GPU, so that what went wrong in them is an error of the script. */
int fl_cli_finish(const fl_cli *c);
void fl_cli_tell_at_exit(fl_cli *c);                           /* os.exit reads these checks, too */
int fl_cli_file(const fl_cli *c, const char *path);            /* NULL: stdin */
int fl_cli_script(const fl_cli *c, int at);                    /* argv[at] with its arguments */
int fl_cli_library(const fl_cli *c, const char *spec);         /* "mod" or "g=mod" */
int fl_cli_init(const fl_cli *c);                              /* LUA_INIT_5_4 or LUA_INIT */
void fl_cli_make_arg(const fl_cli *c, int script);             /* the global table 'arg' */

/* ---- sandbox.c ------------------------------------------------------------------------ */
/* Runs the script at argv[script], or standard input, in a state with limits; the policy is the
** text after --sandbox=, NULL: none. Reports errors; returns success. */
int fl_cli_sandbox(const fl_cli *c, const char *policy, int script);

/* ---- bundle.c ------------------------------------------------------------------------- */
int fl_cli_is_bundle(void);
/* Runs the script of the bundle that this executable is, with all of argv. Reports errors; returns
** success. */
int fl_cli_run_bundle(fl_cli *c);
/* Makes a bundle (--bundle) from the words from argv[at] on, or checks one (--bundle-check).
** Reports errors; returns success. */
int fl_cli_bundle(const fl_cli *c, int at, int check);

/* ---- jupyter.c ------------------------------------------------------------------------ */
/* Runs as a kernel of Jupyter, with the connection file argv[at]. Reports errors; returns
** success. */
int fl_cli_jupyter(const fl_cli *c, int at);

/* ---- repl.c --------------------------------------------------------------------------- */
void fl_cli_repl(fl_cli *c);
#endif
