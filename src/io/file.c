/*
** Files: a reader that unpacks gzip on the way, a writer that replaces its file only when all
** is on the disk, and the list of a folder.
**
** The writer makes its temporary file beside the target, new and with the mode that the umask
** gives (or the mode of the file it replaces), so that a rename puts it in place in one step:
** if the process is killed, the path names the old file or the complete new one. Links are followed
** (in a context with a folder, refused); anything but a regular file is refused, so that /dev/null
** is not replaced.
*/
#include "io/bundle.h"
#include "io/io.h"
#include "base/write.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef FL_HAVE_ZLIB
#define ZLIB_CONST
#include <zlib.h>
#endif

enum { CHUNK = 64 * 1024, MOST_RATIO = 1040 };     /* deflate packs 1 : 1032 at best */

/* ---- reading ------------------------------------------------------------------------------ */

flame_status fl_reader_fail(fl_reader *f, const char *fmt, ...) {
  char text[320];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  return FL_FAIL(f->c, FLAME_IO, f->op, "%.150s: %s", f->path, text);
}

/* Reads up to n bytes of the file as they are on the disk; fewer only at its end, or that of the
** zip file's member. */
static flame_status read_raw(fl_reader *f, void *p, size_t n, size_t *got) {
  *got = 0;
  if (f->member && (int64_t)n > f->packed_left) n = (size_t)f->packed_left;
  if (f->mapped) {
    *got = f->size - f->raw < (int64_t)n ? (size_t)(f->size - f->raw) : n;
    if (*got) memcpy(p, f->mapped + f->raw, *got);
    f->raw += (int64_t)*got;
  } else while (*got < n) {
    const ssize_t k = read(f->fd, (char *)p + *got, n - *got);
    if (k == 0) break;
    if (k < 0 && errno == EINTR) continue;
    if (k < 0) return fl_reader_fail(f, "%s", strerror(errno));
    *got += (size_t)k;
  }
  f->packed_left -= (int64_t)*got;
  return FLAME_OK;
}

#ifdef FL_HAVE_ZLIB
struct fl_unzip { z_stream z; int ended; size_t have; unsigned char in[CHUNK]; };

/* zlib frees without a size, so the size is stored before each block. */
static void *z_alloc(void *arg, unsigned count, unsigned size) {
  size_t bytes;
  if (!fl_mul_ok(count, size, &bytes)) return NULL;
  size_t *p = fl_alloc(arg, bytes + 64);
  if (!p) return NULL;
  *p = bytes + 64;
  return (char *)p + 64;
}

static void z_free(void *arg, void *p) {
  if (!p) return;
  size_t *block = (size_t *)(void *)((char *)p - 64);
  fl_free(arg, block, *block);
}

/* Begins to unpack f. bits: as for inflateInit2; they select a gzip file or bare deflate data. */
static flame_status unzip_start(fl_reader *f, int bits) {
  struct fl_unzip *u = fl_zalloc(&f->c->mem, sizeof *u);
  if (!u) return FL_FAIL(f->c, FLAME_NO_MEMORY, f->op, "no host memory to unpack gzip");
  u->z.zalloc = z_alloc;
  u->z.zfree = z_free;
  u->z.opaque = &f->c->mem;
  if (inflateInit2(&u->z, bits) != Z_OK) {
    fl_free(&f->c->mem, u, sizeof *u);
    return FL_FAIL(f->c, FLAME_NO_MEMORY, f->op, "no host memory to unpack gzip");
  }
  f->unzip = u;
  return FLAME_OK;
}
static flame_status unzip_open(fl_reader *f) { return unzip_start(f, 16 + MAX_WBITS); }
static flame_status unzip_member(fl_reader *f) { return unzip_start(f, -MAX_WBITS); }

/* A gzip file may be several streams, one after the other. Zeros after the last are padding. */
static flame_status next_stream(fl_reader *f) {
  struct fl_unzip *u = f->unzip;
  if (f->member) {
    u->ended = 1;
    return FLAME_OK;
  }
  if (u->z.avail_in == 0) {
    size_t got;
    const flame_status e = read_raw(f, u->in, CHUNK, &got);
    if (e != FLAME_OK) return e;
    u->z.next_in = u->in;
    u->z.avail_in = (unsigned)got;
  }
  if (u->z.avail_in == 0 || u->z.next_in[0] == 0) u->ended = 1;
  else if (inflateReset(&u->z) != Z_OK) return fl_reader_fail(f, "gzip can not go on");
  return FLAME_OK;
}

static flame_status unzip_some(fl_reader *f, void *p, size_t n, size_t *got) {
  struct fl_unzip *u = f->unzip;
  *got = 0;
  while (*got < n && !u->ended) {
    size_t more;
    if (u->z.avail_in == 0) {
      const flame_status e = read_raw(f, u->in, CHUNK, &more);
      if (e != FLAME_OK) return e;
      if (more == 0)
        return fl_reader_fail(f, "the packed data ends too early, %lld bytes are unpacked",
                              (long long)(f->at + (int64_t)*got));
      u->z.next_in = u->in;
      u->z.avail_in = (unsigned)more;
    }
    const size_t room = n - *got < 1u << 30 ? n - *got : 1u << 30;
    u->z.next_out = (unsigned char *)p + *got;
    u->z.avail_out = (unsigned)room;
    const int k = inflate(&u->z, Z_NO_FLUSH);
    *got += room - u->z.avail_out;
    if (k == Z_MEM_ERROR)
      return FL_FAIL(f->c, FLAME_NO_MEMORY, f->op, "no host memory to unpack gzip");
    if (k != Z_OK && k != Z_STREAM_END && k != Z_BUF_ERROR)
      return fl_reader_fail(f, "damaged packed data after %lld unpacked bytes (%s)",
                            (long long)(f->at + (int64_t)*got),
                        u->z.msg ? u->z.msg : "no message");
    if (k == Z_STREAM_END) {
      const flame_status e = next_stream(f);
      if (e != FLAME_OK) return e;
    }
  }
  return FLAME_OK;
}

/* The output has room for one byte more than expected, which shows whether there are more. */
flame_status fl_reader_inflate(fl_reader *f, const void *packed, size_t n, void *out,
                               size_t bytes) {
  enum { PART = 1 << 30 };
  z_stream z = { .zalloc = z_alloc, .zfree = z_free, .opaque = &f->c->mem, .next_in = packed };
  unsigned char spare;
  size_t given = 0, made = 0;
  int k = inflateInit(&z) == Z_OK ? Z_OK : Z_MEM_ERROR;
  while (k == Z_OK) {
    const size_t in = n - given < PART ? n - given : PART,
                 room = made == bytes ? 1 : bytes - made < PART ? bytes - made : PART;
    z.avail_in = (unsigned)in;
    z.avail_out = (unsigned)room;
    z.next_out = made == bytes ? &spare : (unsigned char *)out + made;
    k = inflate(&z, Z_NO_FLUSH);
    given += in - z.avail_in;
    made += room - z.avail_out;
    if (made > bytes) break;
  }
  inflateEnd(&z);
  if (k == Z_MEM_ERROR)
    return FL_FAIL(f->c, FLAME_NO_MEMORY, f->op, "no host memory to unpack %zu bytes", n);
  if (made > bytes || (k == Z_STREAM_END && made < bytes))
    return fl_reader_fail(f, "the packed data hold %s than %zu bytes",
                          made > bytes ? "more" : "fewer", bytes);
  if (k == Z_STREAM_END) return FLAME_OK;
  return fl_reader_fail(f, "%s after %zu unpacked bytes (%s)",
                        k == Z_BUF_ERROR ? "the packed data ends too early" : "damaged packed data",
                        made, z.msg ? z.msg : "no message");
}

static void unzip_close(fl_reader *f) {
  if (!f->unzip) return;
  inflateEnd(&f->unzip->z);
  fl_free(&f->c->mem, f->unzip, sizeof *f->unzip);
  f->unzip = NULL;
}
#else
static flame_status unzip_open(fl_reader *f) {
  return fl_reader_fail(f, "is packed by zlib, and this flame was built without zlib"
                        FL_DO ": install zlib (Debian: zlib1g-dev) "
                       "and build again, or unpack the file");
}
static flame_status unzip_member(fl_reader *f) { return unzip_open(f); }
static flame_status unzip_some(fl_reader *f, void *p, size_t n, size_t *got) {
  (void)f, (void)p, (void)n;
  *got = 0;
  return FLAME_NOT_SUPPORTED;
}
flame_status fl_reader_inflate(fl_reader *f, const void *packed, size_t n, void *out,
                               size_t bytes) {
  (void)packed, (void)n, (void)out, (void)bytes;
  return unzip_open(f);
}
static void unzip_close(fl_reader *f) { (void)f; }
#endif

flame_status fl_reader_open(fl_reader *f, flame_context *c, const char *op, const char *path) {
  struct stat s;
  unsigned char magic[2];
  fl_bundled e;
  *f = (fl_reader){ .c = c, .op = op, .path = path, .fd = -1 };
  if (c->bundle && fl_bundle_find(c->bundle, FL_BUNDLE_FILE, path, &e)) {
    f->mapped = e.data;
    f->size = (int64_t)e.bytes;
    return e.bytes > 1 && !memcmp(e.data, "\x1f\x8b", 2) ? unzip_open(f) : FLAME_OK;
  }
  f->fd = fl_file_open(c, path, O_RDONLY, 0);
  if (f->fd < 0) return fl_reader_fail(f, "%s", fl_file_error(errno));
  if (fstat(f->fd, &s) != 0) return fl_reader_fail(f, "%s", strerror(errno));
  f->size = s.st_size;
  if (pread(f->fd, magic, 2, 0) == 2 && magic[0] == 0x1f && magic[1] == 0x8b) return unzip_open(f);
  return FLAME_OK;
}

flame_status fl_reader_some(fl_reader *f, void *p, size_t n, size_t *got) {
  const flame_status e = f->unzip ? unzip_some(f, p, n, got) : read_raw(f, p, n, got);
  if (e != FLAME_OK) return e;
  f->at += (int64_t)*got;
  if (f->member) f->crc = fl_io_crc(f->crc, p, *got);
  return FLAME_OK;
}

flame_status fl_reader_read(fl_reader *f, void *p, size_t n) {
  size_t got;
  const int64_t from = f->at;
  const flame_status e = fl_reader_some(f, p, n, &got);
  if (e != FLAME_OK || got == n) return e;
  return fl_reader_fail(f, "ends at offset %lld, %zu bytes were to come at offset %lld",
                        (long long)f->at, n, (long long)from);
}

int64_t fl_reader_most(const fl_reader *f) {
  if (f->member) return f->whole - f->at;
  int64_t most = f->size;
  if (f->unzip && __builtin_mul_overflow(most, (int64_t)MOST_RATIO, &most)) most = INT64_MAX;
  return most > f->at ? most - f->at : 0;
}

flame_status fl_reader_seek(fl_reader *f, int64_t at) {
  if (f->unzip && !f->member) return fl_reader_fail(f, "is gzip" FL_DO ": unpack it first");
  if (f->mapped && at >= 0 && at <= f->size) f->raw = at;
  else if (lseek(f->fd, at, SEEK_SET) != at)
    return fl_reader_fail(f, "offset %lld: %s", (long long)at, strerror(errno));
  f->at = at;
  return FLAME_OK;
}

flame_status fl_reader_member(fl_reader *f, int64_t at, int64_t bytes, int deflated,
                              int64_t whole) {
  unzip_close(f);
  f->member = 0;
  const flame_status e = fl_reader_seek(f, at);
  if (e != FLAME_OK) return e;
  f->member = 1;
  f->packed_left = bytes;
  f->whole = whole;
  f->crc = 0;
  f->at = 0;
  return deflated ? unzip_member(f) : FLAME_OK;
}

flame_status fl_reader_member_end(fl_reader *f, uint32_t crc) {
  char more;
  size_t got;
  flame_status e = fl_reader_some(f, &more, 1, &got);
  if (e == FLAME_OK && (got != 0 || f->at != f->whole))
    e = fl_reader_fail(f, "zip: a member is not as long as the directory says");
  if (e == FLAME_OK && f->crc != crc)
    e = fl_reader_fail(f, "zip: a member's checksum is wrong: the file is damaged");
  unzip_close(f);
  f->member = 0;
  return e;
}

void fl_reader_close(fl_reader *f) {
  unzip_close(f);
  if (f->fd >= 0) close(f->fd);
  f->fd = -1;
}

/* ---- writing --------------------------------------------------------------------------------- */

static flame_status out_fail(fl_writer *o, const char *what) {
  const char *name = o->path ? o->path : "", *last = strrchr(name, '/');
  if (o->parent >= 0 && last) name = last + 1;
  return FL_FAIL(o->c, FLAME_IO, o->op, "%.150s: %s", name, what);
}

static flame_status no_memory(fl_writer *o) {
  return FL_FAIL(o->c, FLAME_NO_MEMORY, o->op, "no host memory to write a file");
}

/* The file to which 'path' leads, in o->path; *mode: mode of the file there, 0 if there is none. */
static flame_status settle_path(fl_writer *o, const char *path, mode_t *mode) {
  struct stat s;
  char *real = NULL;
  *mode = 0;
  if (lstat(path, &s) == 0 && S_ISLNK(s.st_mode)) {
    real = realpath(path, NULL);
    if (!real)
      return FL_FAIL(o->c, FLAME_IO, o->op, "%.150s: a link to nowhere: %s", path, strerror(errno));
  }
  o->path = fl_strdup(&o->c->mem, real ? real : path);
  free(real);
  if (!o->path) return no_memory(o);
  if (stat(o->path, &s) != 0) return FLAME_OK;
  if (S_ISDIR(s.st_mode)) return out_fail(o, "is a folder");
  if (!S_ISREG(s.st_mode)) return out_fail(o, "is not a regular file");
  if (access(o->path, W_OK) != 0) return out_fail(o, strerror(errno));
  *mode = s.st_mode & 0777;
  return FLAME_OK;
}

static size_t folder_length(const fl_writer *o) {
  const char *slash = strrchr(o->path, '/');
  return slash ? (size_t)(slash + 1 - o->path) : 0;
}
static size_t temp_size(const fl_writer *o) { return folder_length(o) + FL_IO_TEMP; }

/* Opens a file under an unused name, in the folder of the target. From the start it can be opened
** only by users who can open the file that it replaces. */
static flame_status open_temp(fl_writer *o, mode_t mode) {
  const size_t folder = folder_length(o);
  char *temp = fl_zalloc(&o->c->mem, temp_size(o));
  if (!temp) return no_memory(o);
  memcpy(temp, o->path, folder);
  fl_temp_sweep(o->c, folder ? temp : ".");
  for (int tries = 0; tries < 100 && o->fd < 0; tries++) {
    uint64_t r = 0;
    if (getrandom(&r, sizeof r, 0) != (ssize_t)sizeof r)
      r = (uint64_t)getpid() * 1000 + (uint64_t)tries;
    fl_temp_name(temp + folder, r);
    o->fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode ? mode : 0666);
    if (o->fd < 0 && errno != EEXIST) break;
    if (o->fd >= 0 && !fl_temp_lock(o->fd)) {
      close(o->fd);
      unlink(temp);
      o->fd = -1;
      errno = EBUSY;
    }
  }
  if (o->fd >= 0) {
    o->temp = temp;
    return FLAME_OK;
  }
  const int why = errno;
  fl_free(&o->c->mem, temp, temp_size(o));
  return out_fail(o, strerror(why));
}

/* Reports a forbidden path, or one outside the folder, before anything is created. */
static int may_write(fl_writer *o, const char *path) {
  const char *name = "";
  struct stat s;
  if (!o->c->limits.folder && !(o->c->limits.deny & FLAME_WRITE)) return 1;
  o->parent = fl_file_parent(o->c, path, &name);
  if (o->parent >= 0 && strlen(name) > 255) errno = ENAMETOOLONG;
  else if (o->parent >= 0 && fstatat(o->parent, name, &s, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISLNK(s.st_mode)) errno = EXDEV;
  else if (o->parent >= 0) return 1;
  FL_FAIL(o->c, FLAME_IO, o->op, "%.150s: %s", path, fl_file_error(errno));
  if (o->parent >= 0) close(o->parent);
  o->parent = -1;
  return 0;
}

/* A path that leads to the file through its open folder, even if the folder is moved meanwhile. */
static const char *name_inside(const fl_writer *o, const char *path, char out[300]) {
  const char *slash = strrchr(path, '/');
  snprintf(out, 300, "/proc/self/fd/%d/%s", o->parent, slash ? slash + 1 : path);
  return out;
}

flame_status fl_writer_open(fl_writer *o, flame_context *c, const char *op, const char *path) {
  mode_t mode;
  char inside[300];
  *o = (fl_writer){ .c = c, .op = op, .fd = -1, .parent = -1 };
  if (!may_write(o, path)) return c->err.code;
  flame_status e = settle_path(o, c->limits.folder ? name_inside(o, path, inside) : path, &mode);
  if (e != FLAME_OK) return e;
  o->buffer = fl_alloc(&c->mem, CHUNK);
  if (!o->buffer) return no_memory(o);
  e = open_temp(o, mode);
  if (e == FLAME_OK && mode && fchmod(o->fd, mode) != 0) e = out_fail(o, strerror(errno));
  return e;
}

flame_status fl_writer_poll(fl_writer *o) {
  return fl_take_interrupt(o->c) ? fl_interrupted(o->c, o->op) : FLAME_OK;
}

/* Writes in parts, so that an interrupt ends a long write; the temporary file is then removed. */
static flame_status write_raw(fl_writer *o, const char *p, size_t n) {
  enum { PART = 8 << 20 };
  if (!fl_use(o->c, FLAME_OUTPUT_BYTES, (int64_t)n)) return fl_interrupted(o->c, o->op);
  while (n > 0) {
    if (n > PART && fl_writer_poll(o) != FLAME_OK) return o->c->err.code;
    const ssize_t k = fl_write(o->fd, p, n < PART ? n : PART);
    if (k < 0 && errno == EINTR) continue;
    if (k < 0 && errno == EFBIG)
      return out_fail(o,
          "the file is larger than the process (ulimit -f) or the file system may write");
    if (k <= 0) return out_fail(o, k < 0 ? strerror(errno) : "nothing more can be written");
    p += k;
    n -= (size_t)k;
  }
  return FLAME_OK;
}

flame_status fl_writer_write(fl_writer *o, const void *p, size_t n) {
  o->at += (int64_t)n;
  if (o->fill + n <= CHUNK) {
    if (n) memcpy(o->buffer + o->fill, p, n);
    o->fill += n;
    return FLAME_OK;
  }
  flame_status e = write_raw(o, o->buffer, o->fill);
  o->fill = 0;
  if (e == FLAME_OK && n >= CHUNK) return write_raw(o, p, n);
  if (e == FLAME_OK) {
    memcpy(o->buffer, p, n);
    o->fill = n;
  }
  return e;
}

/* The rename is on the disk only when its folder is. Folders that can not be synced are ignored. */
static void sync_folder(const fl_writer *o) {
  const char *slash = strrchr(o->path, '/');
  const size_t n = slash ? (size_t)(slash - o->path) : 0;
  char *folder = fl_zalloc(&o->c->mem, n + 2);
  if (!folder) return;
  if (slash) memcpy(folder, o->path, n ? n : 1);
  else folder[0] = '.';
  const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) {
    fsync(fd);
    close(fd);
  }
  fl_free(&o->c->mem, folder, n + 2);
}

/* The file is renamed while it is open, because closing it ends its lock. fsync has reported all
** errors that closing it could report. */
flame_status fl_writer_commit(fl_writer *o) {
  const flame_status e = write_raw(o, o->buffer, o->fill);
  o->fill = 0;
  if (e != FLAME_OK) return e;
  if (fsync(o->fd) != 0) return out_fail(o, strerror(errno));
  if (rename(o->temp, o->path) != 0) return out_fail(o, strerror(errno));
  close(o->fd);
  o->fd = -1;
  fl_free(&o->c->mem, o->temp, temp_size(o));
  o->temp = NULL;
  sync_folder(o);
  return FLAME_OK;
}

void fl_writer_close(fl_writer *o) {
  fl_mem *m = &o->c->mem;
  if (o->temp) {
    unlink(o->temp);
    fl_free(m, o->temp, temp_size(o));
  }
  if (o->fd >= 0) close(o->fd);
  if (o->parent >= 0) close(o->parent);
  o->fd = o->parent = -1;
  fl_free(m, o->buffer, CHUNK);
  if (o->path) fl_free(m, o->path, strlen(o->path) + 1);
  o->temp = o->buffer = o->path = NULL;
}

/* ---- folders --------------------------------------------------------------------------------- */

static char kind_of(int folder, const char *name) {
  struct stat s;
  if (fstatat(folder, name, &s, AT_SYMLINK_NOFOLLOW) != 0) return 'o';
  return S_ISLNK(s.st_mode) ? 'l' : S_ISDIR(s.st_mode) ? 'd' : S_ISREG(s.st_mode) ? 'f' : 'o';
}

void *fl_folder_open(flame_context *c, const char *path) {
  const int fd = fl_file_open(c, path, O_RDONLY | O_DIRECTORY, 0);
  DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
  if (fd >= 0 && !d) close(fd);
  return d;
}

const char *fl_folder_next(void *folder, char *kind) {
  const struct dirent *e;
  do {
    errno = 0;
    e = readdir(folder);
  } while (e && (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0));
  if (!e) return NULL;
  *kind = kind_of(dirfd(folder), e->d_name);
  return e->d_name;
}

void fl_folder_close(void *folder) {
  if (folder) closedir(folder);
}
