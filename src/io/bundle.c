/*
** The index of a bundle (bundle.h), read from its mapping. Every number is checked once.
*/
#include "io/bundle.h"
#include <string.h>

static uint64_t number(const unsigned char *p) {
  uint64_t v = 0;
  for (int i = 7; i >= 0; i--) v = v << 8 | p[i];
  return v;
}

static uint64_t padded(uint64_t n) { return (n + 7) / 8 * 8; }

int fl_bundle_open(fl_bundle *b, const void *at, uint64_t size) {
  const unsigned char *p = at;
  if (size < FL_BUNDLE_HEAD || memcmp(p, FL_BUNDLE_MAGIC, sizeof FL_BUNDLE_MAGIC) != 0) return 0;
  *b = (fl_bundle){ p, size, number(p + 24), number(p + 16) };
  if (b->index > size || b->index < FL_BUNDLE_HEAD) return 0;
  uint64_t k = FL_BUNDLE_HEAD;
  for (uint64_t i = 0; i < b->n; i++) {
    if (b->index - k < FL_BUNDLE_ENTRY) return 0;
    const uint64_t offset = number(p + k + 8), bytes = number(p + k + 16),
                   name = number(p + k + 24);
    if (offset > size || bytes > size - offset || name > 4096) return 0;
    k += FL_BUNDLE_ENTRY;
    if (b->index - k < padded(name)) return 0;
    k += padded(name);
  }
  return 1;
}

static fl_bundled entry_at(const fl_bundle *b, uint64_t *k) {
  const unsigned char *p = b->at + *k;
  const fl_bundled e = {
    .kind = number(p), .data = (const char *)b->at + number(p + 8), .bytes = number(p + 16),
    .name = (const char *)p + FL_BUNDLE_ENTRY, .name_bytes = number(p + 24), .digest = p + 32
  };
  *k += FL_BUNDLE_ENTRY + padded(e.name_bytes);
  return e;
}

fl_bundled fl_bundle_entry(const fl_bundle *b, uint64_t i) {
  uint64_t k = FL_BUNDLE_HEAD;
  fl_bundled e = entry_at(b, &k);
  while (i-- > 0) e = entry_at(b, &k);
  return e;
}

int fl_bundle_find(const fl_bundle *b, uint64_t kind, const char *name, fl_bundled *e) {
  uint64_t k = FL_BUNDLE_HEAD;
  if (name[0] == '.' && name[1] == '/') name += 2;
  const size_t n = strlen(name);
  for (uint64_t i = 0; i < b->n; i++) {
    *e = entry_at(b, &k);
    if (e->kind == kind && e->name_bytes == n && !memcmp(e->name, name, n)) return 1;
  }
  return 0;
}
