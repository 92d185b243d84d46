/*
** Earlier entries of the prompt, in $XDG_STATE_HOME/flame-lua/history (default ~/.local/state),
** readable only by its owner. Written after every entry, since a session may end by a signal.
*/
#include "base/write.h"
#include "cli/edit.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ENTRIES = 1000, MOST_READ = 1 << 20 };     /* of a longer file only the end is read */
static const char head[] = "_HiStOrY_V2_\n";

/* Makes the folders of 'path' that are missing; 0 when that fails. */
static int make_folders(char *path) {
  for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    const int failed = mkdir(path, 0700) != 0 && errno != EEXIST;
    *slash = '/';
    if (failed) return 0;
  }
  return 1;
}

/* Sets h->path, and creates the file with its final mode from the start: returns it, or -1. */
static int open_file(fl_history *h) {
  const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
  const int own = state && state[0] == '/';
  const int n = snprintf(h->path, sizeof h->path, "%s%s/flame-lua/history",
                         own ? state : home ? home : "",
                         own ? "" : "/.local/state");
  const int usable = n > 0 && n < (int)sizeof h->path && (own || (home && home[0] == '/'));
  if (usable && make_folders(h->path)) {
    const int fd = open(h->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct stat facts;
    if (fd >= 0 && fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode)) {
      fchmod(fd, 0600);
      return fd;
    }
    if (fd >= 0) close(fd);
  }
  h->path[0] = '\0';
  return -1;
}

static void forget(fl_history *h, int64_t n) {
  if (n == 0) return;
  for (int64_t i = 0; i < n; i++) fl_free(h->mem, h->entries.at[i], strlen(h->entries.at[i]) + 1);
  h->entries.n -= n;
  memmove(h->entries.at, h->entries.at + n, (size_t)h->entries.n * sizeof *h->entries.at);
}

static int push(fl_history *h, const char *entry) {
  if (h->entries.n == ENTRIES) forget(h, 1);
  char *copy = fl_strdup(h->mem, entry);
  char **slot = copy ? FL_PUSH(h->mem, &h->entries) : NULL;
  if (slot) *slot = copy;
  else if (copy) fl_free(h->mem, copy, strlen(copy) + 1);
  return slot != NULL;
}

/* \ooo -> the byte, in place. */
static void decode(char *s) {
  char *to = s;
  for (; *s; s++) {
    if (s[0] == '\\' && strspn(s + 1, "01234567") >= 3 && s[1] <= '3') {
      *to++ = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + s[3] - '0');
      s += 3;
    } else {
      *to++ = *s;
    }
  }
  *to = '\0';
}

/* Reads the entries of the text, which is changed; a file without the header line has plain lines.
** cut: its first line is not complete. Returns whether the file should be rewritten. */
static int read_entries(fl_history *h, char *text, int cut) {
  int64_t count = 0;
  const int ours = strncmp(text, head, sizeof head - 1) == 0;
  char *line = ours ? text + sizeof head - 1 : text;
  if (cut) line = strchr(line, '\n') ? strchr(line, '\n') + 1 : line;
  for (char *end; *line; line = end + 1, count++) {
    end = strchr(line, '\n');
    if (!end) end = line + strlen(line) - 1;
    else *end = '\0';
    if (ours || cut) decode(line);
    if (*line) push(h, line);
  }
  return cut || !ours || count > 2 * ENTRIES;
}

static int write_entry(int fd, const char *s) {
  char part[256];
  size_t n = 0;
  for (;; s++) {
    if (n > sizeof part - 5 || !*s) {
      if (!*s) part[n++] = '\n';
      if (fl_write(fd, part, n) != (ssize_t)n) return 0;
      n = 0;
      if (!*s) return 1;
    }
    const unsigned char c = (unsigned char)*s;
    if (c > ' ' && c != '\\' && c != 0x7f) part[n++] = (char)c;
    else n += (size_t)snprintf(part + n, 5, "\\%03o", c);
  }
}

/* Replaces the file with one that has the known entries. */
static void write_again(const fl_history *h) {
  char name[1100];
  snprintf(name, sizeof name, "%s.%ld", h->path, (long)getpid());
  const int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return;
  int good = fl_write(fd, head, sizeof head - 1) == (ssize_t)sizeof head - 1;
  for (int64_t i = 0; good && i < h->entries.n; i++) good = write_entry(fd, h->entries.at[i]);
  close(fd);
  if (!good || rename(name, h->path) != 0) unlink(name);
}

void fl_history_open(fl_history *h, fl_mem *m) {
  memset(h, 0, sizeof *h);
  h->mem = m;
  const int fd = open_file(h);
  if (fd < 0) return;
  const off_t size = lseek(fd, 0, SEEK_END);
  const off_t from = size > MOST_READ ? size - MOST_READ : 0;
  const size_t room = (size_t)(size - from) + 1;
  char *text = size < 0 ? NULL : fl_alloc(m, room);
  const ssize_t n = text ? pread(fd, text, room - 1, from) : -1;
  close(fd);
  if (n >= 0) {
    for (ssize_t i = 0; i < n; i++) if (!text[i]) text[i] = ' ';
    text[n] = '\0';
    if (read_entries(h, text, from > 0)) write_again(h);
  }
  fl_free(m, text, room);
}

void fl_history_add(fl_history *h, const char *entry) {
  const int again = h->entries.n && !strcmp(h->entries.at[h->entries.n - 1], entry);
  if (!*entry || again || !push(h, entry) || !h->path[0]) return;
  const int fd = open(h->path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return;
  write_entry(fd, entry);
  close(fd);
}

void fl_history_close(fl_history *h) {
  forget(h, h->entries.n);
  FL_DROP(h->mem, &h->entries);
}

int64_t fl_history_find(const fl_history *h, int64_t from, const char *text, int64_t n) {
  for (int64_t i = from - 1; i >= 0; i--) {
    const char *entry = h->entries.at[i];
    const int64_t room = (int64_t)strlen(entry) - n;
    for (int64_t k = 0; k <= room; k++) if (!memcmp(entry + k, text, (size_t)n)) return i;
  }
  return -1;
}
