/*
** flame-lua: options and the order in which things happen. Everything that can raise runs
** inside one protected call. The order is lua5.4's: libraries, flame, LUA_INIT, options
** from left to right, the script, the prompt.
*/
#include "cli/cli.h"
#include "flame.h"
#include "lua/embedded.h"
#include "lua/hook.h"
#include <lauxlib.h>
#include <locale.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BAD = 1, INTERACTIVE = 2, SHOW_VERSION = 4, STRINGS = 8, NO_ENVIRONMENT = 16,
       FLAME_VERSION_ONLY = 32, HELP = 64, INFO = 128, DEBUG_CUDA = 256, DOCTOR = 512,
       SIM = 1024, SANDBOX = 2048, BUNDLE = 4096, BUNDLE_CHECK = 8192,
       WATCH = 16384, JUPYTER = 32768 };

static const char usage_text[] =
  "usage: %s [options] [script [args]]\n"
  "Available options are:\n"
  "  -e stat   execute string 'stat'\n"
  "  -i        enter interactive mode after executing 'script'\n"
  "  -l mod    require library 'mod' into global 'mod'\n"
  "  -l g=mod  require library 'mod' into global 'g'\n"
  "  -v        show version information\n"
  "  -E        ignore environment variables\n"
  "  -W        turn warnings on\n"
  "  --        stop handling options\n"
  "  -         stop handling options and execute stdin\n"
  "  --help        this text\n"
  "  --version     the version of flame-lua\n"
  "  --info        devices, libraries and memory\n"
  "  --doctor      look for what is missing or wrong, and say what to do\n"
  "  --sim         user kernels on the CPU with all checks; cuda means the CPU (as FLAME_SIM=1)\n"
  "  --sandbox     run the script with limits, without rights (--sandbox=memory=64M,time=5,read)\n"
  "  --watch       take over modules whose files change, at the end of an optimiser's step\n"
  "  --bundle      write OUT, one executable with script, modules and files: OUT script [files]\n"
  "  --bundle-check  read all of such a FILE, and say what is damaged\n"
  "  --jupyter     be a kernel of Jupyter, for the connection FILE; 'install' makes it known there\n"
  "  --debug-cuda  synchronous launches and checks (as DEBUG_CUDA=1)\n";

static void print_usage(const char *name, const char *bad) {
  if (bad[1] == 'e' || bad[1] == 'l') {
    fprintf(stderr, "%s: '%s' needs argument\n", name, bad);
  } else {
    fprintf(stderr, "%s: unrecognized option '%s'\n", name, bad);
  }
  fprintf(stderr, usage_text, name);
  fflush(stderr);
}

static int long_option(const char *text) {
  static const struct { const char *text; int flag; } known[] = {
    { "--help", HELP }, { "--version", FLAME_VERSION_ONLY }, { "--info", INFO },
    { "--debug-cuda", DEBUG_CUDA }, { "--sim", SIM }, { "--doctor", DOCTOR },
    { "--watch", WATCH }, { "--bundle", BUNDLE }, { "--bundle-check", BUNDLE_CHECK },
    { "--jupyter", JUPYTER },
  };
  if (!strcmp(text, "--sandbox") || !strncmp(text, "--sandbox=", 10)) return SANDBOX;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (!strcmp(text, known[i].text)) return known[i].flag;
  }
  return BAD;
}

/* Reads the option at argv[*i] and returns its flags; an option that takes an argument advances
** *i. */
static int short_option(char **argv, int *i) {
  const char *text = argv[*i];
  switch (text[1]) {
    case 'E': return text[2] ? BAD : NO_ENVIRONMENT;
    case 'i': return text[2] ? BAD : INTERACTIVE | SHOW_VERSION;
    case 'v': return text[2] ? BAD : SHOW_VERSION;
    case 'W': return text[2] ? BAD : 0;
    case 'e': case 'l':
      if (!text[2]) {
        const char *value = argv[*i + 1];
        if (!value || value[0] == '-') return BAD;
        (*i)++;
      }
      return text[1] == 'e' ? STRINGS : 0;
    default: return BAD;
  }
}

/* Flags of all options; *script: the index in argv of the script, or of the bad option. */
static int read_options(char **argv, int *script) {
  int flags = 0, i = 1;
  for (; argv[i]; i++) {
    const char *text = argv[i];
    *script = i;
    if (text[0] != '-' || text[1] == '\0') return flags;
    if (!strcmp(text, "--")) {
      *script = i + 1;
      return flags;
    }
    const int flag = text[1] == '-' ? long_option(text) : short_option(argv, &i);
    if (flag & BAD) return BAD;
    flags |= flag;
    if (flag & (BUNDLE | BUNDLE_CHECK | JUPYTER)) {    /* all that follows belongs to that option */
      *script = i + 1;
      return flags;
    }
  }
  *script = i;
  return flags;
}

/* Executes -e, -l and -W in order. 0: one of them failed. */
static int run_options(const fl_cli *c, int script) {
  for (int i = 1; i < script; i++) {
    const char *text = c->argv[i];
    const char kind = text[1];
    if (kind == 'W') lua_warning(c->L, "@on", 0);
    if (kind != 'e' && kind != 'l') continue;
    const char *value = text[2] ? text + 2 : c->argv[++i];
    if (kind == 'e') {
      lua_pushstring(c->L, value);
      lua_setfield(c->L, LUA_REGISTRYINDEX, FL_CLI_STRING);
    }
    const int status = kind == 'e' ? fl_cli_string(c, value, FL_CLI_STRING)
                                   : fl_cli_library(c, value);
    if (status != LUA_OK) return 0;
  }
  return 1;
}

static void print_banner(int interactive) {
  if (interactive) printf("flame-lua %s  ", flame_version());
  puts(LUA_COPYRIGHT);
  fflush(stdout);
}

/* Prints what flame.info() returns: text, or a table of facts. */
static const char info_chunk[] =
  "local info = require('flame').info()\n"
  "if type(info) ~= 'table' then if info ~= nil then print(info) end return end\n"
  "local names = {}\n"
  "for name in pairs(info) do names[#names + 1] = tostring(name) end\n"
  "table.sort(names)\n"
  "for _, name in ipairs(names) do print(name .. ': ' .. tostring(info[name])) end\n";

static const char doctor_chunk[] = "os.exit(require('flame').internal.doctor(print), true)\n";

static void print_warning(void *arg, const char *text) {
  (void)arg;
  fflush(stdout);
  fprintf(stderr, "flame: warning: %s\n", text);
}

static void open_libraries(lua_State *L, int flags) {
  if (flags & NO_ENVIRONMENT) {                  /* read by the package library */
    lua_pushboolean(L, 1);
    lua_setfield(L, LUA_REGISTRYINDEX, "LUA_NOENV");
  }
  luaL_openlibs(L);
  lua_pushlightuserdata(L, (void *)fl_embedded_code);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &fl_key_code);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, luaopen_flame);           /* for scripts that clear package.loaded */
  lua_setfield(L, -2, "flame");
  if (flame_lua_open(L, FLAME_OPTIONS(.warn = print_warning)) != FLAME_OK) lua_error(L);
  lua_setglobal(L, "flame");
  luaL_requiref(L, "flame", luaopen_flame, 0);
  lua_getglobal(L, "coroutine");
  fl_lua_coroutines(L, fl_hook_of(L));
  lua_pop(L, 3);
}

/* Does what is left after the options are executed. Returns success. */
static int run_rest(fl_cli *c, int flags, int script) {
  if (flags & INFO && fl_cli_string(c, info_chunk, "=info") != LUA_OK) return 0;
  if (flags & DOCTOR && fl_cli_string(c, doctor_chunk, "=doctor") != LUA_OK) return 0;
  if (script < c->argc && fl_cli_script(c, script) != LUA_OK) return 0;
  if (flags & INTERACTIVE) {
    fl_cli_repl(c);
  } else if (script >= c->argc && !(flags & (STRINGS | SHOW_VERSION | INFO))) {
    if (!isatty(STDIN_FILENO)) {
      fl_cli_file(c, NULL);                      /* an error of a piped chunk is reported, but the
                                                 ** status is 0 */
      return 1;
    }
    print_banner(1);
    fl_cli_repl(c);
  }
  return 1;
}

/* The text after --sandbox=; NULL: none. */
static const char *policy_of(const fl_cli *c, int script) {
  const char *policy = NULL;
  for (int i = 1; i < script; i++)
    if (!strncmp(c->argv[i], "--sandbox=", 10)) policy = c->argv[i] + 10;
  return policy;
}

/* A bundle takes no options and no LUA_INIT: all words are its script's. */
static int start_bundle(fl_cli *c) {
  luaL_checkversion(c->L);
  c->bare = 1;
  open_libraries(c->L, NO_ENVIRONMENT);
  fl_cli_tell_at_exit(c);
  fl_cli_make_arg(c, 0);
  lua_gc(c->L, LUA_GCRESTART);
  lua_gc(c->L, LUA_GCGEN, 0, 0);
  lua_pushboolean(c->L, fl_cli_run_bundle(c) && fl_cli_finish(c) == LUA_OK);
  return 1;
}

/* Does what the options request, with the libraries open; returns success. */
static int run(fl_cli *c, int flags, int script) {
  if (flags & (BUNDLE | BUNDLE_CHECK)) return fl_cli_bundle(c, script, (flags & BUNDLE_CHECK) != 0);
  if (!(flags & NO_ENVIRONMENT) && fl_cli_init(c) != LUA_OK) return 0;
  if (flags & JUPYTER) return fl_cli_jupyter(c, script);
  if (flags & WATCH && fl_cli_string(c, "require('flame').internal.watch()", "=watch") != LUA_OK)
    return 0;
  return run_options(c, script) && run_rest(c, flags, script);
}

/* The protected part: (fl_cli *) -> success. */
static int protected_main(lua_State *L) {
  fl_cli *c = lua_touserdata(L, 1);
  int script = c->argc;
  if (fl_cli_is_bundle()) return start_bundle(c);
  const int flags = read_options(c->argv, &script);
  luaL_checkversion(L);
  if (flags & BAD) {
    print_usage(c->name, c->argv[script]);
    return 0;
  }
  lua_pushboolean(L, 1);
  if (flags & HELP) return printf(usage_text, c->name), 1;
  if (flags & FLAME_VERSION_ONLY) {
    return printf("flame-lua %s (%s)\n", flame_version(), LUA_RELEASE), 1;
  }
  if (flags & DEBUG_CUDA) setenv("DEBUG_CUDA", "1", 1);
  if (flags & SIM) setenv("FLAME_SIM", "1", 1);
  if (flags & SANDBOX) {
    if (!(flags & (INTERACTIVE | STRINGS | INFO | DOCTOR)))
      return fl_cli_sandbox(c, policy_of(c, script), script);
    fl_cli_message(c->name, "--sandbox runs a script: it goes with no other option that runs something");
    return 0;
  }
  if (flags & SHOW_VERSION) print_banner(flags & INTERACTIVE);
  c->bare = (flags & NO_ENVIRONMENT) != 0;
  open_libraries(L, flags);
  fl_cli_tell_at_exit(c);
  fl_cli_make_arg(c, script);
  lua_gc(L, LUA_GCRESTART);
  lua_gc(L, LUA_GCGEN, 0, 0);
  lua_pushboolean(L, run(c, flags, script) && fl_cli_finish(c) == LUA_OK);
  return 1;
}

int main(int argc, char **argv) {
  setlocale(LC_CTYPE, "");                       /* for line editing; numbers stay in C */
  lua_State *L = luaL_newstate();
  fl_cli c = { L, argc > 0 && argv[0][0] ? argv[0] : "flame-lua", argc, argv, 0 };
  if (!L) {
    fl_cli_message(c.name, "cannot create state: not enough memory");
    return EXIT_FAILURE;
  }
  lua_gc(L, LUA_GCSTOP);                         /* nothing to collect while libraries load */
  lua_pushcfunction(L, protected_main);
  lua_pushlightuserdata(L, &c);
  const int status = fl_cli_report(&c, lua_pcall(L, 1, 1, 0));
  const int good = status == LUA_OK && lua_toboolean(L, -1);
  lua_close(L);
  return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
