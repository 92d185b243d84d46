/*
** Size classes (blocks.h): eight to a power of two from 64 bytes on, so that a class follows from
** the size asked for and a sized free finds it again. A kept block's first word links to the next
** of its class. All memory comes from base/mem, which counts it and may refuse it. For ASan
** (base/mem.h) a block has the requested length, and a kept one is inaccessible but for its first
** word.
*/
#include "cpu/state/blocks.h"

enum { CLASSES = 8 * 58 };

struct fl_blocks {
  fl_mem *mem;
  int64_t limit, kept;
  void *list[CLASSES];
};

/* Class and its size: smallest (8 + e) << s with s >= 3 that holds 'bytes'. */
static int class_of(int64_t bytes, int64_t *size) {
  int s = 3;
  while (bytes > (int64_t)15 << s) s++;
  int64_t e = (bytes + ((int64_t)1 << s) - 1) >> s;
  if (e < 8) e = 8;
  *size = e << s;
  return (s - 3) * 8 + (int)(e - 8);
}

static void *take_kept(fl_blocks *s, int k, int64_t size) {
  void *p = s->list[k];
  fl_mem_open(p, (size_t)size);
  s->list[k] = *(void **)p;
  s->kept -= size;
  return p;
}

fl_blocks *fl_blocks_open(fl_mem *m, int64_t limit) {
  fl_blocks *s = fl_zalloc(m, sizeof *s);
  if (!s) return NULL;
  s->mem = m;
  s->limit = limit;
  return s;
}

void *fl_blocks_alloc(fl_blocks *s, int64_t bytes) {
  int64_t size;
  if (bytes < 0 || bytes > INT64_MAX / 4) return NULL;
  const int k = class_of(bytes, &size);
  char *p = s->list[k] ? take_kept(s, k, size) : fl_alloc(s->mem, (size_t)size);
  if (p) fl_mem_close(p + bytes, (size_t)(size - bytes));
  return p;
}

void fl_blocks_free(fl_blocks *s, void *p, int64_t bytes) {
  int64_t size;
  if (!p) return;
  const int k = class_of(bytes, &size);
  if (s->kept + size > s->limit) {
    fl_free(s->mem, p, (size_t)size);
    return;
  }
  fl_mem_open(p, sizeof(void *));           /* an empty one is closed */
  *(void **)p = s->list[k];
  s->list[k] = p;
  s->kept += size;
  /* the link in the first word stays readable: LSan does not follow links in poisoned memory */
  fl_mem_close((char *)p + sizeof(void *), (size_t)size - sizeof(void *));
}

void fl_blocks_trim(fl_blocks *s) {
  for (int k = 0; k < CLASSES; k++) {
    const int64_t size = (int64_t)((uint64_t)(8 + k % 8) << (k / 8 + 3));   /* as class_of */
    while (s->list[k]) fl_free(s->mem, take_kept(s, k, size), (size_t)size);
  }
}

int64_t fl_blocks_kept(const fl_blocks *s) { return s->kept; }

void fl_blocks_close(fl_blocks *s) {
  if (!s) return;
  fl_blocks_trim(s);
  fl_free(s->mem, s, sizeof *s);
}
