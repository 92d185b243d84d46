/*
** Bundles: a program that contains what it needs (flame-lua --bundle). The payload follows the
** executable at a multiple of 64 KiB, is mapped as a whole and never copied:
**
**   0   "flame-bundle 1\n\0"                      16 bytes
**       entries, 8; bytes of the index, 8
**       for each entry: kind, offset, size, bytes of the name, 8 each; SHA-256, 32; the name, and
**       zeros to a multiple of 8
**       data; that of files at multiples of 4096
**
** Numbers are little-endian, offsets count from the payload's first byte. The executable holds a
** stamp (src/cli/bundle.c) with place, length and SHA-256 of the index, which is checked at the
** start. Scripts and modules are checked when they are loaded; files, which may be large, only by
** flame-lua --bundle-check.
*/
#ifndef FL_IO_BUNDLE_H
#define FL_IO_BUNDLE_H
#include <stddef.h>
#include <stdint.h>

enum { FL_BUNDLE_SCRIPT, FL_BUNDLE_MODULE, FL_BUNDLE_FILE };
enum { FL_BUNDLE_HEAD = 32, FL_BUNDLE_ENTRY = 64, FL_BUNDLE_PLACE = 65536, FL_BUNDLE_PAGE = 4096 };
#define FL_BUNDLE_MAGIC "flame-bundle 1\n"

typedef struct fl_bundle { const unsigned char *at; uint64_t size, index, n; } fl_bundle;
typedef struct fl_bundled {
  uint64_t kind;
  const char *name, *data;
  size_t name_bytes, bytes;
  const uint8_t *digest;
} fl_bundled;

/* Opens the payload of 'size' bytes; 0: it is damaged. Checks the index, but no data. */
int fl_bundle_open(fl_bundle *b, const void *at, uint64_t size);
/* Entry i from 0 to b->n - 1, in the order in which they were put in. */
fl_bundled fl_bundle_entry(const fl_bundle *b, uint64_t i);
/* Finds the entry of this kind and name ("./x" is the same as "x"): 1, and it is in *e. */
int fl_bundle_find(const fl_bundle *b, uint64_t kind, const char *name, fl_bundled *e);
#endif
