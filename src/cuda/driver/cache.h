/*
** Compiled kernels on disk, and choices that were measured (of algorithms). A cubin is native code,
** so the folder must be ours alone; a file is used only if it is ours, complete and has the right
** checksum. Every failure here means "not cached": nothing is reported and the kernel is compiled,
** or the choice made again.
*/
#ifndef FL_CUDA_CACHE_H
#define FL_CUDA_CACHE_H
#include "base/mem.h"

typedef struct fl_disk {
  fl_mem *mem;
  int folder;               /* descriptor, -1: no cache */
  int64_t bytes;            /* total size of the files; -1: not counted yet */
  int64_t limit;            /* above this the oldest are removed */
  unsigned serial;          /* for temporary names */
} fl_disk;

/* setting: FLAME_CACHE_DIR's value ("" the default place, "off" none). */
void fl_disk_open(fl_disk *d, fl_mem *m, const char *setting);
void fl_disk_close(fl_disk *d);
/* The payload kept under the key, in memory of d->mem (fl_free with *size), or NULL. */
void *fl_disk_get(fl_disk *d, const uint8_t key[32], size_t *size);
/* Counts the entries and their bytes; clear: removes the entries first. */
void fl_disk_usage(fl_disk *d, int clear, int64_t *entries, int64_t *bytes);
void fl_disk_put(fl_disk *d, const uint8_t key[32], const void *data, size_t size);
#endif
