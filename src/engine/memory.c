/*
** Which values hold memory, and the message when memory is out: one wording for tensors,
** intermediate values and scratch, with the op and the line that recorded it, the requested and the
** available bytes, and the lines of the script whose values hold the most.
*/
#include "engine/memory.h"
#include "engine/evaluate.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINES = 512, TOLD = 3 };

int64_t fl_engine_live_bytes(const flame_context *c) {
  int64_t b = 0;
  for (int i = 0; i < FL_MAX_DEVICES; i++) b += c->tensors_of[i].now;
  return b;
}

void fl_engine_usage(flame_context *c, int device, fl_usage *u) {
  fl_engine *e = c->engine;
  fl_device *d = &e->device[device];
  *u = (fl_usage){ .used = c->tensors_of[device], .reserved = c->tensors_of[device] };
  if (e->open[device]) d->table->memory(d, u);
}

/* ---- owners ---- */

static int by_bytes(const void *a, const void *b) {
  const fl_owner *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
  return x->site < y->site ? -1 : x->site > y->site;
}

/* The site's place in an open-addressed table of LINES. When that is full, further lines count as
** unknown. */
static fl_owner *owner_of(fl_owner *table, int *n, uint32_t site) {
  uint32_t at = site * 2654435761u % LINES;
  for (int i = 0; i < LINES; i++, at = (at + 1) % LINES) {
    if (table[at].values && table[at].site == site) return &table[at];
    if (table[at].values) continue;
    if (site != 0 && *n >= LINES - 1) break;       /* one place is kept for values without a line */
    (*n)++;
    table[at].site = site;
    return &table[at];
  }
  return site != 0 ? owner_of(table, n, 0) : &table[0];
}

int fl_engine_owners(const flame_context *c, int device, fl_owner *out, int most) {
  fl_owner table[LINES] = { 0 };
  int n = 0, k = 0;
  for (const fl_buffer *b = c->buffer; b; b = b->next) {
    if (b->device != device) continue;
    fl_owner *o = owner_of(table, &n, b->site);
    o->bytes += b->bytes;
    o->values++;
  }
  qsort(table, LINES, sizeof *table, by_bytes);
  for (int i = 0; i < LINES && k < most; i++) if (table[i].values) out[k++] = table[i];
  return k;
}

/* ---- no memory ---- */

const char *fl_node_op(const fl_node *n) {
  if (n->attr && n->attr->call && n->attr->call->what[0]) return n->attr->call->what;
  if (n->attr && n->attr->call) return fl_calls[n->attr->call->kind].name;
  return n->attr && n->attr->what ? n->attr->what : fl_ops[n->op].name;
}

/* Writes "; most is held by a.lua:3 (16.0 MiB), a.lua:9 (1.5 MiB)". */
static void tell_owners(flame_context *c, int device, char *out, size_t size) {
  fl_owner o[TOLD];
  char place[96];
  const int n = fl_engine_owners(c, device, o, TOLD);
  size_t at = 0;
  out[0] = 0;
  for (int i = 0; i < n && at < size; i++) {
    const char *line = o[i].site && c->up->place ? c->up->place(c, o[i].site, place) : "";
    const double mib = (double)o[i].bytes / 1048576;
    at += (size_t)snprintf(out + at, size - at, "%s%s (%.1f MiB)", i ? ", " : "; most is held by ",
                           line[0] ? line : "no line", mib);
  }
}

flame_status fl_engine_no_memory(flame_context *c, int device, int64_t bytes, const char *what) {
  const fl_engine *e = c->engine;
  char name[16], owners[360], limit[48] = "";
  fl_usage u;
  if (c->err.code != FLAME_OK) return c->err.code;
  fl_device_name(device, name);
  fl_engine_usage(c, device, &u);
  tell_owners(c, device, owners, sizeof owners);
  if (device == 0 && c->mem.limit > 0)
    snprintf(limit, sizeof limit, ", %lld the limit", (long long)c->mem.limit);
  if (e->making) c->err.site = e->making->site;
  return FL_FAIL(c, FLAME_NO_MEMORY, e->making ? fl_node_op(e->making) : "memory",
                 "out of memory on %s: asked for %lld bytes for %s, %lld free, %lld reserved, %lld "
                 "live in tensors%s%s", name, (long long)bytes, what, (long long)u.free,
                 (long long)u.reserved.now, (long long)c->tensors_of[device].now, limit, owners);
}
