/*
** Temporary files that a killed process left. A writer holds a lock (flock) on its temporary file
** for as long as that has its name; the kernel drops the lock with the process, however it ends.
** So a file of this kind that can be locked belongs to no process and is removed. If a file system
** has no locks, locking fails and nothing is removed.
*/
#include "io/io.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ENTRIES_A_SAVE = 64 };

void fl_temp_name(char name[FL_IO_TEMP], uint64_t number) {
  snprintf(name, FL_IO_TEMP, ".flame-%016llx.tmp", (unsigned long long)number);
}

static int is_temp(const char *name) {
  if (strlen(name) != FL_IO_TEMP - 1 || strncmp(name, ".flame-", 7) != 0) return 0;
  return strspn(name + 7, "0123456789abcdef") == 16 && strcmp(name + 23, ".tmp") == 0;
}

int fl_temp_lock(int fd) {
  struct stat s;
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) return errno != EWOULDBLOCK;
  return fstat(fd, &s) != 0 || s.st_nlink > 0;
}

/* The name is checked again under the lock: a writer renames its file before it releases it. */
static void remove_stale(int folder, const char *name) {
  struct stat by_fd, by_name;
  const int fd = openat(folder, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return;
  if (fstat(fd, &by_fd) == 0 && S_ISREG(by_fd.st_mode) && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
      fstatat(folder, name, &by_name, AT_SYMLINK_NOFOLLOW) == 0 && by_name.st_ino == by_fd.st_ino &&
      by_name.st_dev == by_fd.st_dev)
    unlinkat(folder, name, 0);
  close(fd);
}

/* A folder of n entries is read only once per n / ENTRIES_A_SAVE saves, so that many files of one
** folder take time in proportion to their number. */
void fl_temp_sweep(flame_context *c, const char *folder) {
  struct stat s;
  if (stat(folder, &s) != 0) return;
  const int same = c->swept.device == (uint64_t)s.st_dev && c->swept.inode == (uint64_t)s.st_ino;
  if (same && c->swept.wait > 0) {
    c->swept.wait--;
    return;
  }
  DIR *d = opendir(folder);
  if (!d) return;
  int64_t n = 0;
  for (const struct dirent *e; (e = readdir(d)) != NULL; n++)
    if (is_temp(e->d_name)) remove_stale(dirfd(d), e->d_name);
  closedir(d);
  c->swept.device = (uint64_t)s.st_dev;
  c->swept.inode = (uint64_t)s.st_ino;
  c->swept.wait = n / ENTRIES_A_SAVE;
}
