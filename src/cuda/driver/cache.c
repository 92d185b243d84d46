/*
** Disk cache of cubins: see cache.h. One file per entry, named by its key in hex: magic (8 bytes),
** payload length (8, this machine's order), SHA-256 of the payload (32), payload. Written to a
** temporary name in the same folder, synced, then renamed, so readers in other processes see whole
** files or none. All paths are relative to the folder's descriptor, whose owner and mode were
** checked once it was open; links are never followed.
*/
#include "cuda/driver/cache.h"
#include "base/hash.h"
#include "base/write.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { NAME = 64 + 7, HEAD = 48 };      /* 64 hex digits, ".cubin" and the terminating zero */
static const char magic[8] = "flcubin1";
static const int64_t FILE_MAX_BYTES = 64 << 20;

/* ---- the folder ---- */

/* Finds the folder: FLAME_CACHE_DIR, XDG_CACHE_HOME/flame-lua or ~/.cache/flame-lua. 0: there is
** none. */
static int folder_path(char *path, size_t size, const char *setting) {
  const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  int n = -1;
  if (setting && *setting) n = snprintf(path, size, "%s", setting);
  else if (base && *base == '/') n = snprintf(path, size, "%s/flame-lua", base);
  else if (home && *home == '/') n = snprintf(path, size, "%s/.cache/flame-lua", home);
  return n > 0 && (size_t)n < size;
}

/* Makes the folder and missing parents, accessible only to this user. */
static void make_folders(char *path) {
  for (char *p = path + 1; *p; p++) {
    if (*p != '/') continue;
    *p = 0;
    mkdir(path, 0700);
    *p = '/';
  }
  mkdir(path, 0700);
}

/* Is fd of this type, does it belong to this user, and can no other user write it? */
static int trusted(int fd, mode_t type, struct stat *st) {
  return fstat(fd,
               st) == 0 && (st->st_mode & S_IFMT) == type && st->st_uid == geteuid() &&
         !(st->st_mode & (S_IWGRP | S_IWOTH));
}

void fl_disk_open(fl_disk *d, fl_mem *m, const char *setting) {
  char path[1024];
  struct stat st;
  *d = (fl_disk){ .mem = m, .folder = -1, .bytes = -1, .limit = 256 << 20 };
  if (setting && strcmp(setting, "off") == 0) return;
  if (!folder_path(path, sizeof path, setting)) return;
  make_folders(path);
  d->folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (d->folder >= 0 && !trusted(d->folder, S_IFDIR, &st)) fl_disk_close(d);
}

void fl_disk_close(fl_disk *d) {
  if (d->folder >= 0) close(d->folder);
  d->folder = -1;
}

static void file_name(char name[NAME], const uint8_t key[32]) {
  for (int i = 0; i < 32; i++) snprintf(name + 2 * i, 3, "%02x", key[i]);
  memcpy(name + 64, ".cubin", 7);
}

/* ---- reading ---- */

static int read_all(int fd, void *p, size_t n) {
  for (size_t done = 0; done < n;) {
    const ssize_t k = read(fd, (char *)p + done, n - done);
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) return 0;
    done += (size_t)k;
  }
  return 1;
}

/* The payload of an open, trusted file of 'bytes' bytes. *bad: the file is damaged. */
static void *read_payload(fl_disk *d, int fd, int64_t bytes, size_t *size, int *bad) {
  uint8_t head[HEAD], digest[32];
  uint64_t n;
  *bad = 1;
  if (bytes <= HEAD || bytes > FILE_MAX_BYTES || !read_all(fd, head, HEAD)) return NULL;
  memcpy(&n, head + 8, 8);
  if (memcmp(head, magic, 8) != 0 || n != (uint64_t)bytes - HEAD) return NULL;
  void *p = fl_alloc(d->mem, n);
  if (!p) {
    *bad = 0;
    return NULL;
  }
  if (read_all(fd, p, n)) {
    fl_sha256(p, n, digest);
    *bad = memcmp(digest, head + 16, 32) != 0;
  }
  *size = n;
  if (!*bad) return p;
  fl_free(d->mem, p, n);
  return NULL;
}

void *fl_disk_get(fl_disk *d, const uint8_t key[32], size_t *size) {
  char name[NAME];
  struct stat st;
  int bad = 1;
  if (d->folder < 0) return NULL;
  file_name(name, key);
  const int fd = openat(d->folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    if (errno == ELOOP) unlinkat(d->folder, name, 0);
    return NULL;
  }
  void *p = trusted(fd, S_IFREG, &st) ? read_payload(d, fd, st.st_size, size,
                                                     &bad) : NULL;
  if (p) futimens(fd, NULL);                /* sets its time to now: the oldest files are removed
                                            ** first */
  else if (bad) unlinkat(d->folder, name, 0);
  close(fd);
  return p;
}

/* ---- the size limit ---- */

typedef struct entry { char name[NAME]; int64_t bytes; struct timespec time; } entry;
typedef struct entries { entry *at; int64_t n, cap; } entries;

static int older(const void *a, const void *b) {
  const entry *x = a, *y = b;
  if (x->time.tv_sec != y->time.tv_sec) return x->time.tv_sec < y->time.tv_sec ? -1 : 1;
  if (x->time.tv_nsec != y->time.tv_nsec) return x->time.tv_nsec < y->time.tv_nsec ? -1 : 1;
  return strcmp(x->name, y->name);
}

static int is_entry(const char *name) {
  return strlen(name) == NAME - 1 && strcmp(name + 64, ".cubin") == 0;
}

/* Is it a temporary file that no process can still be writing? */
static int is_stale(const char *name, const struct stat *st) {
  return strncmp(name, "tmp-", 4) == 0 && st->st_mtime + 3600 < time(NULL);
}

/* Lists the entries and counts their bytes; removes stale temporary files. */
static int64_t scan(fl_disk *d, entries *list) {
  int64_t total = 0;
  const int fd = openat(d->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
  if (!dir) {
    if (fd >= 0) close(fd);
    return 0;
  }
  for (struct dirent *e; (e = readdir(dir));) {
    struct stat st;
    if (fstatat(d->folder, e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (is_stale(e->d_name, &st)) unlinkat(d->folder, e->d_name, 0);
    if (!is_entry(e->d_name)) continue;
    total += st.st_size;
    entry *x = FL_PUSH(d->mem, list);
    if (!x) break;
    memcpy(x->name, e->d_name, NAME);
    x->bytes = st.st_size;
    x->time = st.st_mtim;
  }
  closedir(dir);
  return total;
}

/* At the first write counts the bytes; above the limit removes the oldest files down to three
** quarters. */
static void keep_limit(fl_disk *d) {
  if (d->bytes >= 0 && d->bytes <= d->limit) return;
  entries list = { 0 };
  d->bytes = scan(d, &list);
  if (d->bytes > d->limit && list.n > 0) {
    qsort(list.at, (size_t)list.n, sizeof *list.at, older);
    for (int64_t i = 0; i < list.n && d->bytes > d->limit / 4 * 3; i++)
      if (unlinkat(d->folder, list.at[i].name, 0) == 0) d->bytes -= list.at[i].bytes;
  }
  FL_DROP(d->mem, &list);
}

void fl_disk_usage(fl_disk *d, int clear, int64_t *count, int64_t *bytes) {
  entries list = { 0 };
  *count = *bytes = 0;
  if (d->folder < 0) return;
  scan(d, &list);
  for (int64_t i = 0; i < list.n; i++) {
    if (clear && unlinkat(d->folder, list.at[i].name, 0) == 0) continue;
    (*count)++;
    *bytes += list.at[i].bytes;
  }
  if (clear) d->bytes = *bytes;
  FL_DROP(d->mem, &list);
}

/* ---- writing ---- */

static int write_all(int fd, const void *p, size_t n) {
  for (size_t done = 0; done < n;) {
    const ssize_t k = fl_write(fd, (const char *)p + done, n - done);
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) return 0;
    done += (size_t)k;
  }
  return 1;
}

/* A new file under a name that is not used; -1: none. */
static int open_temporary(fl_disk *d, char *name, size_t size) {
  for (int i = 0; i < 8; i++) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    snprintf(name, size, "tmp-%ld-%lx-%x", (long)getpid(),
             (unsigned long)t.tv_nsec ^ (unsigned long)(uintptr_t)d, d->serial++);
    const int fd = openat(d->folder, name,
                          O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

void fl_disk_put(fl_disk *d, const uint8_t key[32], const void *data, size_t size) {
  char name[NAME], temporary[64];
  uint8_t head[HEAD];
  const uint64_t n = size;
  if (d->folder < 0 || (int64_t)size > FILE_MAX_BYTES - HEAD) return;
  const int fd = open_temporary(d, temporary, sizeof temporary);
  if (fd < 0) return;
  memcpy(head, magic, 8);
  memcpy(head + 8, &n, 8);
  fl_sha256(data, size, head + 16);
  file_name(name, key);
  int ok = write_all(fd, head, HEAD) && write_all(fd, data, size) && fsync(fd) == 0;
  ok = close(fd) == 0 && ok;
  if (!ok || renameat(d->folder, temporary, d->folder, name) != 0) {
    unlinkat(d->folder, temporary, 0);
    return;
  }
  if (d->bytes >= 0) d->bytes += (int64_t)size + HEAD;
  keep_limit(d);
}
