/* Where each statement of a function is (spots.h). */
#include "kernel/facts/spots.h"
#include "kernel/facts/defs.h"

static int32_t count(fl_kblock b) {
  int32_t n = 0;
  for (const fl_kstmt *s = b.first; s; s = s->next) n += 1 + count(s->body) + count(s->other);
  return n;
}

static uint32_t slot_of(const fl_kspots *t, const fl_kstmt *s) {
  uint32_t i = (uint32_t)(((uintptr_t)s >> 4) * 0x9e3779b97f4a7c15u >> 32) & t->mask;
  while (t->slot[i] && t->at[t->slot[i] - 1].s != s) i = (i + 1) & t->mask;
  return i;
}

static void note(fl_kspots *t, fl_kblock b, int32_t around, int other) {
  const int32_t begin = t->n;
  int32_t first = -1, last = -1;
  for (const fl_kstmt *s = b.first; s; s = s->next) {
    const int32_t i = t->n++;
    int32_t *slot = &t->slot[slot_of(t, s)];
    if (!*slot) *slot = i + 1;
    t->at[i] = (fl_kspot){ .s = s, .around = around, .begin = begin,
                           .first = first, .next = -1, .other = (uint8_t)other };
    note(t, s->body, i, 0);
    note(t, s->other, i, 1);
    if (s->kind != FL_KS_IF || !s->body.last || !fl_kis_exit(s->body.last) || s->other.first)
      continue;
    if (first < 0) first = i;
    else t->at[last].next = i;
    last = i;
  }
}

fl_kspots *fl_kspots_new(fl_karena *a, fl_kblock b) {
  const int32_t n = count(b);
  fl_kspots *t = fl_karena_new(a, sizeof *t);
  if (a->failed) return NULL;
  for (t->mask = 1; t->mask < 2 * (uint32_t)n; t->mask = 2 * t->mask + 1) continue;
  t->at = fl_karena_new(a, sizeof *t->at * (size_t)(n + 1));
  t->slot = fl_karena_new(a, sizeof *t->slot * (size_t)(t->mask + 1));
  if (a->failed) return NULL;
  note(t, b, -1, 0);
  return t;
}

int32_t fl_kspots_find(const fl_kspots *t, const fl_kstmt *s) { return t->slot[slot_of(t, s)] - 1; }
