/*
** Copies between host and device through a ring of pinned slots: truly asynchronous, of any
** size, and waited for by polling events, so that interrupts are noticed. A slot is filled again
** only after the event that follows its last copy has passed; an upload's source is copied into
** slots before the call returns.
*/
#include "cuda/driver/state.h"
#include <string.h>

flame_status fl_stage_open(fl_cuda *s) {
  fl_stage *g = &s->stage;
  void *p = NULL;
  flame_status e = fl_cuda_check(
    s, s->cu->HostAlloc(&p, (size_t)FL_STAGE_SLOTS * FL_STAGE_BYTES, FL_CU_HOST_PORTABLE),
    "cuMemHostAlloc");
  if (e == FLAME_OK) g->at = p;
  for (int i = 0; i < FL_STAGE_SLOTS && e == FLAME_OK; i++)
    e = fl_cuda_check(s, s->cu->EventCreate(&g->event[i], FL_CU_EVENT_DISABLE_TIMING),
                      "cuEventCreate");
  return e;
}

void fl_stage_close(fl_cuda *s) {
  fl_stage *g = &s->stage;
  for (int i = 0; i < FL_STAGE_SLOTS; i++)
    if (g->event[i]) s->cu->EventDestroy(g->event[i]);
  if (g->at) s->cu->HostFree(g->at);
  memset(g, 0, sizeof *g);
}

static char *slot_at(const fl_stage *g,
                     int slot) { return g->at + (int64_t)slot * FL_STAGE_BYTES; }

/* Marks the slot as in use until all work queued so far is done. If the event can not be recorded,
** nothing would protect the copy that is under way, so it is waited for. */
static flame_status mark(fl_cuda *s, int slot) {
  const flame_status e =
    fl_cuda_check(s, s->cu->EventRecord(s->stage.event[slot], s->stream),
                  "cuEventRecord");
  if (e == FLAME_OK) s->stage.busy[slot] = 1;
  else if (!s->dead) s->cu->StreamSynchronize(s->stream);
  return e;
}

static flame_status settle(fl_cuda *s, int slot) {
  if (!s->stage.busy[slot]) return FLAME_OK;
  const flame_status e = fl_cuda_wait(s, s->stage.event[slot]);
  if (e == FLAME_OK) s->stage.busy[slot] = 0;
  return e;
}

/* The next slot, free to be filled from its start. */
static flame_status next_slot(fl_cuda *s) {
  fl_stage *g = &s->stage;
  const int next = (g->slot + 1) % FL_STAGE_SLOTS;
  const flame_status e = settle(s, next);
  if (e != FLAME_OK) return e;
  g->slot = next;
  g->used = 0;
  return FLAME_OK;
}

flame_status fl_stage_upload(fl_cuda *s, void *dst, const void *src, int64_t bytes) {
  fl_stage *g = &s->stage;
  if (fl_cuda_spoils(s)) return FLAME_INTERNAL;
  for (int64_t at = 0; at < bytes;) {
    flame_status e = FLAME_OK;
    const int64_t left = bytes - at;
    const int64_t room = FL_STAGE_BYTES - g->used;
    if (room == 0 || (room < left && room < FL_STAGE_BYTES / 4)) {
      e = next_slot(s);
      if (e != FLAME_OK) return e;
      continue;
    }
    const int64_t n = left < room ? left : room;
    char *slot = slot_at(g, g->slot) + g->used;
    memcpy(slot, (const char *)src + at, (size_t)n);
    /* 'used' is raised before the copy is queued: if queuing fails, these bytes are only wasted */
    g->used += (n + 63) / 64 * 64;
    if (g->used > FL_STAGE_BYTES) g->used = FL_STAGE_BYTES;
    e = fl_cuda_check(s, s->cu->CopyIn((fl_cu_ptr)(uintptr_t)dst + (fl_cu_ptr)at, slot,
                                       (size_t)n,
                                       s->stream), "cuMemcpyHtoDAsync");
    if (e == FLAME_OK) e = mark(s, g->slot);
    if (e != FLAME_OK) return e;
    at += n;
  }
  return FLAME_OK;
}

/* Queues a copy of at most one slot's size into the next slot. */
static flame_status fetch(fl_cuda *s, const char *src, int64_t n) {
  fl_stage *g = &s->stage;
  flame_status e = next_slot(s);
  if (e != FLAME_OK) return e;
  g->used = FL_STAGE_BYTES;
  e = fl_cuda_check(s, s->cu->CopyOut(slot_at(g, g->slot), (fl_cu_ptr)(uintptr_t)src,
                                      (size_t)n,
                                      s->stream), "cuMemcpyDtoHAsync");
  return e == FLAME_OK ? mark(s, g->slot) : e;
}

static int64_t piece(int64_t bytes, int64_t at) {
  return bytes - at < FL_STAGE_BYTES ? bytes - at : FL_STAGE_BYTES;
}

/* One part is copied from the device while the part before it is copied from its slot to dst. */
flame_status fl_stage_download(fl_cuda *s, void *dst, const void *src, int64_t bytes) {
  fl_stage *g = &s->stage;
  if (bytes <= 0) return FLAME_OK;
  if (fl_cuda_spoils(s)) return FLAME_INTERNAL;
  flame_status e = fetch(s, src, piece(bytes, 0));
  for (int64_t at = 0; e == FLAME_OK && at < bytes; at += FL_STAGE_BYTES) {
    const int mine = g->slot;
    const int64_t after = at + FL_STAGE_BYTES;
    if (after < bytes) e = fetch(s, (const char *)src + after, piece(bytes, after));
    if (e == FLAME_OK) e = settle(s, mine);
    if (e == FLAME_OK) memcpy((char *)dst + at, slot_at(g, mine), (size_t)piece(bytes, at));
  }
  return e;
}
