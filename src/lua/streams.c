/*
** The standard streams of the Lua inside libflame-full. Lua's archive is compiled for programs,
** where "stderr" may be addressed directly; in a library it may not, so the build renames the
** three names in its copy of the archive (CMakeLists.txt) to these.
*/
#include <stdio.h>

FILE *fl_lua_stdin, *fl_lua_stdout, *fl_lua_stderr;

__attribute__((constructor)) static void take_streams(void) {
  fl_lua_stdin = stdin;
  fl_lua_stdout = stdout;
  fl_lua_stderr = stderr;
}
