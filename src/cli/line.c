/*
** Lines from the user. libedit is opened when it is there and stdin is a terminal; its
** header is not needed. The history lies in $XDG_STATE_HOME/flame-lua/history (default
** ~/.local/state), readable by its owner alone, and is written after every command, since
** a session may end by a signal.
*/
#include "cli/cli.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HISTORY_LINES = 1000 };

/* Make the folders of 'path' that are missing; 0 when that fails. */
static int make_folders(char *path) {
  for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    const int failed = mkdir(path, 0700) != 0 && errno != EEXIST;
    *slash = '/';
    if (failed) return 0;
  }
  return 1;
}

/* Sets in->path, and creates the file so that its mode is ours from the start. */
static void find_history(fl_line *in) {
  const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
  const int n = state && state[0] == '/'
    ? snprintf(in->path, sizeof in->path, "%s/flame-lua/history", state)
    : snprintf(in->path, sizeof in->path, "%s/.local/state/flame-lua/history",
               home ? home : "");
  const int usable = n > 0 && n < (int)sizeof in->path && in->path[0] == '/' &&
                     ((state && state[0] == '/') || (home && home[0] == '/'));
  if (usable && make_folders(in->path)) {
    const int fd = open(in->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0) {
      fchmod(fd, 0600);
      close(fd);
      return;
    }
  }
  in->path[0] = '\0';
}

/* A function pointer from dlsym: ISO C has no cast for it, a copy of the bits is fine. */
static int find(void *library, const char *name, void *function) {
  void *address = dlsym(library, name);
  memcpy(function, &address, sizeof address);
  return address != NULL;
}

void fl_line_open(fl_line *in) {
  int (*read_history)(const char *);
  int (*stifle_history)(int);
  void (*using_history)(void);
  memset(in, 0, sizeof *in);
  if (!isatty(STDIN_FILENO)) return;
  void *library = dlopen("libedit.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!library) return;
  if (!find(library, "readline", &in->readline) ||
      !find(library, "add_history", &in->add_history) ||
      !find(library, "write_history", &in->write_history) ||
      !find(library, "read_history", &read_history) ||
      !find(library, "stifle_history", &stifle_history) ||
      !find(library, "using_history", &using_history)) {
    dlclose(library);
    return;
  }
  in->library = library;
  using_history();
  stifle_history(HISTORY_LINES);
  find_history(in);
  if (in->path[0]) read_history(in->path);
}

char *fl_line_read(fl_line *in, const char *prompt) {
  if (in->library) return in->readline(prompt);
  char *line = NULL;
  size_t room = 0;
  fputs(prompt, stdout);
  fflush(stdout);
  ssize_t n = getline(&line, &room, stdin);
  if (n < 0) {
    free(line);
    return NULL;
  }
  if (n > 0 && line[n - 1] == '\n') line[n - 1] = '\0';
  return line;
}

void fl_line_save(fl_line *in, const char *line) {
  if (!in->library) return;
  in->add_history(line);
  if (in->path[0]) in->write_history(in->path);
}

/* The library stays open: it has put handlers and buffers into the process. */
void fl_line_close(fl_line *in) {
  if (in->library && in->path[0]) in->write_history(in->path);
}
