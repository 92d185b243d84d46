/*
** Finds where the text of a user kernel is in the script, so that messages name its lines.
*/
#include "lua/kernel.h"
#include "io/io.h"
#include "lua/hook.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static int count_lines(const char *from, const char *to) {
  int n = 0;
  for (; from < to; from++) n += *from == '\n';
  return n;
}

/* The line at which 'text' begins in the script's own text: its first occurrence from 'line' on or,
** if there is none, the first of all; 0: none. */
static int find_text(const char *script, const char *text, int line) {
  const char *from = script;
  for (int i = 1; i < line && from; i++) from = (from = strchr(from, '\n')) ? from + 1 : NULL;
  const char *at = from ? strstr(from, text) : NULL;
  if (!at) at = strstr(script, text);
  return at ? 1 + count_lines(script, at) : 0;
}

/* As find_text, in the script's file; 0 also if that can not be read, or is larger than MOST. */
static int find_in_file(lua_State *L, const char *name, const char *text, int line) {
  enum { MOST = 1 << 20 };
  struct stat st;
  const int fd = fl_file_open(fl_hook_of(L)->c, name, O_RDONLY, 0);
  if (fd < 0) return 0;
  int at = 0;
  if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 && st.st_size <= MOST) {
    char *all = (char *)lua_newuserdatauv(L, (size_t)st.st_size + 1, 0);
    ssize_t n = 0, more = 1;
    while (n < st.st_size && (more = read(fd, all + n, (size_t)(st.st_size - n))) > 0) n += more;
    all[n] = 0;
    at = find_text(all, text, line);
    lua_pop(L, 1);
  }
  close(fd);
  return at;
}

int fl_kernel_place(lua_State *L, const char *text, char label[LUA_IDSIZE]) {
  lua_Debug ar;
  label[0] = 0;
  for (int level = 0; lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "Sl", &ar);
    if (ar.currentline < 0 || strncmp(ar.source, "=flame", 6) == 0 ||
        strncmp(ar.source, "=[flame", 7) == 0 || strstr(ar.source, "lua/flame/")) continue;
    snprintf(label, LUA_IDSIZE, "%s", ar.short_src);
    int line = 0;
    if (*ar.source == '@') line = find_in_file(L, ar.source + 1, text, ar.currentline);
    else if (*ar.source != '=') line = find_text(ar.source, text, ar.currentline);
    return line > 0 ? line : ar.currentline;
  }
  return 0;
}
