/*
** Opens all files that a script names (tools/check refuses other ways). A context may forbid
** reading or writing, and may have a folder: then paths are relative to it, and nothing outside can
** be reached, by "..", by a link or by an absolute path. Only regular files and folders are opened,
** and without a folder character devices to write (/dev/null): opening never waits for a pipe or
** reads a device.
*/
#include "io/io.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* linux/openat2.h, which older systems lack */
typedef struct open_how { uint64_t flags, mode, resolve; } open_how;
enum { NO_MAGICLINKS = 0x02, BENEATH = 0x08, SYS_OPENAT2 = 437 };

const char *fl_file_error(int e) {
  switch (e) {
    case EPERM: return "not permitted here";
    case EXDEV: return "outside the folder in which files may be opened";
    case EISDIR: return "is a folder";
    case ENOTSUP: return "is not a regular file";
    default: return strerror(e);
  }
}

static int is_write(int flags) { return (flags & O_ACCMODE) != O_RDONLY || flags & O_CREAT; }

static int may(const flame_context *c, uint32_t permission) {
  if (!(c->limits.deny & permission)) return 1;
  errno = EPERM;
  return 0;
}

static int folder_of(const flame_context *c) {
  return open(c->limits.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Opens the path part by part, without following links: for kernels without openat2. */
static int walk(int folder, const char *path, int flags, unsigned mode) {
  char part[256];
  int at = dup(folder);
  while (at >= 0) {
    path += strspn(path, "/");
    const size_t n = strcspn(path, "/");
    const int last = path[n + strspn(path + n, "/")] == 0, before = at;
    if (n >= sizeof part || (n == 2 && path[0] == '.' && path[1] == '.')) {
      close(at);
      errno = EXDEV;
      return -1;
    }
    memcpy(part, n ? path : ".", n ? n : 1);
    part[n ? n : 1] = 0;
    at = last ? openat(at, part, flags | O_NOFOLLOW, mode)
              : openat(at, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    const int why = errno;
    close(before);
    errno = why == ELOOP ? EXDEV : why;
    if (last) break;
    path += n;
  }
  return at;
}

static int open_beneath(const flame_context *c, const char *path, int flags, unsigned mode) {
  if (path[0] == '/') {
    errno = EXDEV;
    return -1;
  }
  const int folder = folder_of(c);
  if (folder < 0) return -1;
  const open_how how = { (uint64_t)(unsigned)flags, flags & O_CREAT ? mode : 0,
                         BENEATH | NO_MAGICLINKS };
  int fd = (int)syscall(SYS_OPENAT2, folder, path, &how, sizeof how);
  if (fd < 0 && (errno == ENOSYS || errno == EPERM)) fd = walk(folder, path, flags, mode);
  const int why = errno;
  close(folder);
  errno = why == ELOOP ? EXDEV : why;
  return fd;
}

/* Opens without waiting; then the kind of file decides whether it stays open. */
int fl_file_open(flame_context *c, const char *path, int flags, unsigned mode) {
  struct stat s;
  if (!may(c, is_write(flags) ? FLAME_WRITE : FLAME_READ)) return -1;
  const int all = flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  const int fd = c->limits.folder ? open_beneath(c, path, all, mode) : open(path, all, mode);
  if (fd < 0) return -1;
  const int known = fstat(fd, &s) == 0, folder = known && S_ISDIR(s.st_mode);
  const int stream = known && !c->limits.folder && is_write(flags) && S_ISCHR(s.st_mode);
  if (known && (S_ISREG(s.st_mode) || stream || (folder && flags & O_DIRECTORY))) {
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    return fd;
  }
  close(fd);
  errno = folder ? EISDIR : ENOTSUP;
  return -1;
}

int fl_file_parent(flame_context *c, const char *path, const char **name) {
  char parent[4096];
  const char *slash = strrchr(path, '/');
  const size_t n = slash ? (size_t)(slash - path) : 0;
  if (!may(c, FLAME_WRITE)) return -1;
  *name = slash ? slash + 1 : path;
  if (n >= sizeof parent || strcmp(*name, "..") == 0 || strcmp(*name, ".") == 0 || **name == 0) {
    errno = EXDEV;
    return -1;
  }
  memcpy(parent, path, n);
  parent[n] = 0;
  const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  if (!c->limits.folder) return open(n ? parent : slash ? "/" : ".", flags);
  return open_beneath(c, slash && n == 0 ? "/" : n ? parent : ".", flags, 0);
}

int fl_file_remove(flame_context *c, const char *path) {
  const char *name;
  const int folder = fl_file_parent(c, path, &name);
  if (folder < 0) return 0;
  const int done = unlinkat(folder, name, 0) == 0, why = errno;
  close(folder);
  errno = why;
  return done;
}

int fl_file_make_folder(flame_context *c, const char *path) {
  const char *name;
  const int folder = fl_file_parent(c, path, &name);
  if (folder < 0) return 0;
  const int done = mkdirat(folder, name, 0777) == 0, why = errno;
  close(folder);
  errno = why;
  return done;
}
