/*
** A plain file that is read at any offset, for files larger than memory. It is read and not mapped,
** so that a file that is truncated while it is open gives an error; with a mapping it would end the
** process.
*/
#include "io/io.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

flame_status fl_reader_at(fl_reader *f, int64_t offset, void *p, size_t n) {
  size_t got = 0;
  if (f->unzip)
    return fl_reader_fail(f, "is packed by gzip and can not be read at an offset"
                             FL_DO ": unpack it");
  if (f->mapped && offset >= 0 && offset <= f->size && (int64_t)n <= f->size - offset) {
    if (n) memcpy(p, f->mapped + offset, n);
    return FLAME_OK;
  }
  while (got < n) {
    const ssize_t k = pread(f->fd, (char *)p + got, n - got, (off_t)(offset + (int64_t)got));
    if (k < 0 && errno == EINTR) continue;
    if (k < 0) return fl_reader_fail(f, "%s", strerror(errno));
    if (k == 0)
      return fl_reader_fail(f, "ends at offset %lld, it had %lld bytes when it was opened",
                            (long long)(offset + (int64_t)got), (long long)f->size);
    got += (size_t)k;
  }
  return FLAME_OK;
}
