/*
** Layouts: the hash-consing table and arithmetic on sizes and strides.
** Rules: every layout in the table is in normal form (see normalise), so that a row-major
** layout is the same pointer as the shape, and equal layouts are one pointer.
** Hash chains are short, since the table grows when there are more layouts than bins.
*/
#include "tensor/layout.h"
#include "base/hash.h"
#include <stdio.h>
#include <string.h>

enum { FIRST_BINS = 64 };

int fl_layouts_init(fl_layouts *t, fl_mem *m) {
  t->mem = m;
  t->n = 0;
  fl_slab_init(&t->slab, m, sizeof(fl_layout));
  t->nbin = FIRST_BINS;
  t->bin = fl_zalloc(m, FIRST_BINS * sizeof *t->bin);
  if (!t->bin) t->nbin = 0;
  return t->bin != NULL;
}

void fl_layouts_close(fl_layouts *t) {
  fl_slab_close(&t->slab);
  fl_free(t->mem, t->bin, (size_t)t->nbin * sizeof *t->bin);
  t->bin = NULL;
  t->nbin = t->n = 0;
}

void fl_row_major(int rank, const int64_t *size, int64_t *stride) {
  int64_t step = 1;
  for (int k = rank - 1; k >= 0; k--) {
    stride[k] = step;
    if (size[k] > 1) step *= size[k];
  }
}

/* Sizes beside a 0 are multiplied as well, so that code that computes strides and offsets of an
** empty array need not consider overflow. */
int64_t fl_numel(int rank, const int64_t *size) {
  int64_t n = 1;
  int empty = 0;
  for (int k = 0; k < rank; k++) {
    empty |= size[k] == 0;
    if (size[k] != 0 && (__builtin_mul_overflow(n, size[k], &n) || n > INT64_MAX / 16)) return -1;
  }
  return empty ? 0 : n;
}

/* Writes the strides in normal form; returns the hash. There, strides that no program can observe
** have fixed values: 0 for an axis of size 1; in an empty array those of a row-major array. */
static uint64_t normalise(int rank, const int64_t *size, const int64_t *stride, int64_t *norm) {
  uint64_t h = (uint64_t)rank + 1;
  int64_t row = 1;
  int empty = 0;
  for (int k = rank - 1; k >= 0; k--) {
    norm[k] = size[k] == 1 ? 0 : stride ? stride[k] : row;
    h = fl_mix64(h ^ (uint64_t)size[k], (uint64_t)norm[k] + (uint64_t)k);
    empty |= size[k] == 0;
    if (size[k] > 1) row *= size[k];
  }
  return empty && stride ? normalise(rank, size, NULL, norm) : h;
}

static inline int same(const fl_layout *a, uint64_t hash, int rank, const int64_t *size,
                       const int64_t *stride) {
  if (a->hash != hash || a->rank != rank) return 0;
  for (int k = 0; k < rank; k++)
    if (a->size[k] != size[k] || a->stride[k] != stride[k]) return 0;
  return 1;
}

static void fill(fl_layout *l, uint64_t hash, int rank, const int64_t *size,
                 const int64_t *stride) {
  int64_t row[FL_MAX_AXES];
  *l = (fl_layout){ .hash = hash, .refs = 1, .rank = (int8_t)rank, .contiguous = 1,
                    .numel = fl_numel(rank, size) };
  fl_row_major(rank, size, row);
  for (int k = 0; k < rank; k++) {
    l->size[k] = size[k];
    l->stride[k] = stride[k];
    if (size[k] != 1 && stride[k] != row[k]) l->contiguous = 0;
  }
}

/* Doubles the bins; on failure the chains only get longer. */
static void grow(fl_layouts *t) {
  const int64_t nbin = t->nbin * 2;
  fl_layout **bin = fl_zalloc(t->mem, (size_t)nbin * sizeof *bin);
  if (!bin) return;
  for (int64_t b = 0; b < t->nbin; b++) {
    for (fl_layout *l = t->bin[b], *next; l; l = next) {
      fl_layout **to = &bin[l->hash & (uint64_t)(nbin - 1)];
      next = l->next;
      l->next = *to;
      *to = l;
    }
  }
  fl_free(t->mem, t->bin, (size_t)t->nbin * sizeof *t->bin);
  t->bin = bin;
  t->nbin = nbin;
}

fl_layout *fl_layout_of(fl_layouts *t, int rank, const int64_t *size,
                        const int64_t *stride) {
  int64_t norm[FL_MAX_AXES];
  const uint64_t hash = normalise(rank, size, stride, norm);
  for (fl_layout *l = t->bin[hash & (uint64_t)(t->nbin - 1)]; l; l = l->next)
    if (same(l, hash, rank, size, norm)) return fl_layout_retain(l);
  if (t->n >= t->nbin) grow(t);
  fl_layout *l = fl_slab_new(&t->slab);
  if (!l) return NULL;
  fill(l, hash, rank, size, norm);
  fl_layout **bin = &t->bin[hash & (uint64_t)(t->nbin - 1)];
  l->next = *bin;
  *bin = l;
  t->n++;
  return l;
}

void fl_layout_end(fl_layouts *t, fl_layout *l) {
  fl_layout **at = &t->bin[l->hash & (uint64_t)(t->nbin - 1)];
  while (*at != l) at = &(*at)->next;
  *at = l->next;
  t->n--;
  fl_slab_free(&t->slab, l);
}

char *fl_shape_text(char *buf, int rank, const int64_t *size) {
  char *p = buf, *const end = buf + 192;
  *p++ = '(';
  for (int k = 0; k < rank; k++)
    p += snprintf(p, (size_t)(end - p), k ? ", %lld" : "%lld", (long long)size[k]);
  *p++ = ')';
  *p = '\0';
  return buf;
}

/* Drops size-1 axes and merges neighbours that are contiguous in memory; returns the new rank. */
static int collapse(int rank, const int64_t *size, const int64_t *stride,
                    int64_t *osize, int64_t *ostride) {
  int n = 0;
  for (int k = 0; k < rank; k++) {
    if (size[k] == 1) continue;
    if (n > 0 && ostride[n - 1] == stride[k] * size[k]) {
      osize[n - 1] *= size[k];
      ostride[n - 1] = stride[k];
    } else {
      osize[n] = size[k];
      ostride[n++] = stride[k];
    }
  }
  return n;
}

int fl_view_strides(int rank, const int64_t *size, const int64_t *stride,
                    int new_rank, const int64_t *new_size, int64_t *new_stride) {
  int64_t run[FL_MAX_AXES], step[FL_MAX_AXES];
  if (fl_numel(rank, size) == 0) {
    fl_row_major(new_rank, new_size, new_stride);
    return 1;
  }
  int n = collapse(rank, size, stride, run, step);
  int64_t left = 1, at = 0;         /* remaining size of the current run, and its step */
  for (int k = new_rank - 1; k >= 0; k--) {   /* divides the runs, from the innermost */
    new_stride[k] = 0;
    if (new_size[k] == 1) continue;
    if (left == 1) {
      if (n == 0) return 0;
      left = run[--n];
      at = step[n];
    }
    if (left % new_size[k] != 0) return 0;
    new_stride[k] = at;
    at *= new_size[k];
    left /= new_size[k];
  }
  return 1;
}

/* Coordinates of linear element 'i' of a row-major array. */
static void unravel(int rank, const int64_t *size, int64_t i, int64_t *coord) {
  for (int k = rank - 1; k >= 0; k--) {
    coord[k] = i % size[k];
    i /= size[k];
  }
}

/* p, q and the view are those of layout.h. The map is strided if no coordinate of p ever carries
** into the next: then each view axis moves the coordinates by a constant. This is checked at the
** extremes of every coordinate, after neighbouring axes that are one run in q have been merged. */
int fl_map_compose(int rank, const int64_t *size, const int64_t *qstride,
                   int n, const int64_t *vsize, const int64_t *vstride, int64_t voffset,
                   int64_t *out_stride, int64_t *qoffset) {
  int64_t psize[FL_MAX_AXES], q[FL_MAX_AXES], at[FL_MAX_AXES], to[FL_MAX_AXES];
  int64_t low[FL_MAX_AXES], high[FL_MAX_AXES], offset = 0;
  for (int j = 0; j < n; j++) out_stride[j] = 0;
  if (fl_numel(n, vsize) == 0) return 1;
  const int k = collapse(rank, size, qstride, psize, q);
  unravel(k, psize, voffset, at);
  for (int a = 0; a < k; a++) {
    low[a] = high[a] = at[a];
    offset += at[a] * q[a];
  }
  for (int j = 0; j < n; j++) {
    if (vsize[j] == 1 || vstride[j] == 0) continue;
    unravel(k, psize, voffset + vstride[j], to);
    for (int a = 0; a < k; a++) {
      const int64_t span = (to[a] - at[a]) * (vsize[j] - 1);
      *(span < 0 ? &low[a] : &high[a]) += span;
      out_stride[j] += (to[a] - at[a]) * q[a];
    }
  }
  for (int a = 0; a < k; a++)
    if (low[a] < 0 || high[a] >= psize[a]) return 0;
  *qoffset += offset;
  return 1;
}
