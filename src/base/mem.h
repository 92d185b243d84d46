/*
** Host memory of a context: counted, and failable on purpose.
** Every byte the library holds for a context comes from here, except structs that may outlive it
** (the context's own, a saved program's, DLPack's), so that a spec can check that closing a context
** leaves nothing and that a failure of the k-th allocation is handled. Frees are sized:
** the caller gives the size that it asked for. One context is entered by one thread at a time;
** worker threads never allocate.
*/
#ifndef FL_BASE_MEM_H
#define FL_BASE_MEM_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct fl_mem {
  int64_t live_bytes, live_blocks, peak_bytes;  /* held now; the most bytes held so far */
  int64_t calls;        /* allocations requested so far; tests choose one of them to fail */
  int64_t fail_at;      /* with test hooks, the call with this number fails (counted by 'calls'); 0:
                        ** none */
  int fail_forever;     /* 1: the calls after number fail_at fail too */
  int64_t limit;        /* most live bytes; 0: no limit */
  int64_t foreign;      /* live bytes of a Lua state and of memories inside this one */
  int64_t refused;      /* bytes of the last request that a limit refused (at least 1), until it is
                        ** reported; 0: none */
  struct fl_mem *outer; /* memory that counts the same bytes too, and may refuse them; NULL: none */
} fl_mem;

/* Bytes in use: now, and the most so far. */
typedef struct fl_level { int64_t now, peak; } fl_level;
static inline void fl_level_add(fl_level *l, int64_t n) {
  l->now += n;
  if (l->now > l->peak) l->peak = l->now;
}

/* Under ASan: marks bytes that may not be accessed until they are unpoisoned. The bytes of a block
** after the requested size are poisoned, so that rounding hides no access past the end. gcc defines
** a macro if ASan is on, clang a feature. */
#if defined(__has_feature)
#define FL_HAS_FEATURE(name) __has_feature(name)
#else
#define FL_HAS_FEATURE(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || FL_HAS_FEATURE(address_sanitizer)
void __asan_poison_memory_region(void const volatile *p, size_t n);
void __asan_unpoison_memory_region(void const volatile *p, size_t n);
#define fl_mem_close(p, n) __asan_poison_memory_region((p), (n))
#define fl_mem_open(p, n) __asan_unpoison_memory_region((p), (n))
enum { FL_MEM_GAP = 16 };      /* closed bytes after what an arena gives */
#else
enum { FL_MEM_GAP = 0 };
#define fl_mem_close(p, n) ((void)0)
#define fl_mem_open(p, n) ((void)0)
#endif

/* 'bytes' uninitialised bytes aligned to 64, or NULL. bytes == 0 gives a valid block. */
void *fl_alloc(fl_mem *m, size_t bytes);
void *fl_zalloc(fl_mem *m, size_t bytes);
/* Grows or shrinks p, which has old_bytes (p NULL: 0); on failure p is unchanged. */
void *fl_realloc(fl_mem *m, void *p, size_t old_bytes, size_t bytes);
void fl_free(fl_mem *m, void *p, size_t bytes);       /* p may be NULL */
/* Counts bytes that another allocator takes (or frees, if negative); 0: a limit refuses them. */
int fl_mem_count(fl_mem *m, int64_t bytes);
/* Puts m inside 'outer', which counts m's bytes too from now on. Called before m's first
** allocation. */
void fl_mem_put_inside(fl_mem *m, fl_mem *outer);
char *fl_strdup(fl_mem *m, const char *s);            /* free with strlen + 1 */
/* Returns free memory of the process to the system, with glibc; elsewhere it does nothing. Without
** this call glibc may keep up to 64 MB for later. Takes about a millisecond. */
void fl_mem_trim(void);

/* Copies a struct of 'size' bytes from the caller into ours of 'known' bytes: fields that a shorter
** struct lacks become 0. Returns 0 if it is longer and its further bytes are not 0. */
int fl_copy_known(void *to, size_t known, const void *from, size_t size);

/* count * size into *out; 0 when that overflows (callers report a size error). */
int fl_mul_ok(size_t count, size_t size, size_t *out);

/* Slab of equal objects: allocation in a few ns, freed as a whole at fl_slab_close.
** 'live' is the number of objects handed out. */
typedef struct fl_slab {
  fl_mem *mem;
  size_t size;          /* of one object */
  void *free_list;      /* linked through the first word */
  void *chunks;         /* list of chunks, newest first */
  int64_t live;
} fl_slab;
void fl_slab_init(fl_slab *s, fl_mem *m, size_t object_size);
int fl_slab_refill(fl_slab *s);                        /* 0: no memory */
static inline void *fl_slab_new(fl_slab *s) {          /* uninitialised, or NULL */
  if (!s->free_list && !fl_slab_refill(s)) return NULL;
  void **p = (void **)s->free_list;
  fl_mem_open(p, s->size);
  s->free_list = *p;
  s->live++;
  return p;
}
/* Like fl_slab_new, but the object is filled with zeros. The size is read from s, so that memset is
** called: for a constant size gcc would store words one by one. */
static inline void *fl_slab_zeroed(fl_slab *s) {
  void *p = fl_slab_new(s);
  return p ? memset(p, 0, s->size) : NULL;
}
static inline void fl_slab_free(fl_slab *s, void *object) {
  if (!object) return;
  *(void **)object = s->free_list;
  s->free_list = object;
  fl_mem_close(object, s->size);
  s->live--;
}
void fl_slab_close(fl_slab *s);                       /* all chunks back to mem */

/* Growable array. Declare a field as  struct { T *at; int64_t n, cap; } name;
** FL_PUSH yields a pointer to the new last element, or NULL when memory is out. */
int fl_grow(fl_mem *m, void **at, int64_t *cap, int64_t need, size_t elem);
#define FL_RESERVE(m, v, need) \
  ((need) <= (v)->cap || fl_grow((m), (void **)&(v)->at, &(v)->cap, (need), sizeof *(v)->at))
#define FL_PUSH(m, v) (FL_RESERVE((m), (v), (v)->n + 1) ? &(v)->at[(v)->n++] : NULL)
#define FL_DROP(m, v) (fl_free((m), (v)->at, (size_t)(v)->cap * sizeof *(v)->at), \
                       (v)->at = NULL, (v)->n = (v)->cap = 0)
#endif
