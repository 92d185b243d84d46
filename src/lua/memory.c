/*
** Memory: how much there is, and who holds it. A census counts living values by the line that
** recorded them, including values kept only for a gradient; flame.leakcheck compares two.
*/
#include "lua/binding.h"
#include "engine/evaluate.h"
#include "engine/memory.h"

enum { OWNERS = 10, COUNTED = 8 /* a bit of node->mark; plan/ and backward use lower ones */ };

static void reset_peaks(flame_context *c) {
  fl_engine *e = (fl_engine *)c->engine;
  for (int i = 0; i < FL_MAX_DEVICES; i++) {
    c->tensors_of[i].peak = c->tensors_of[i].now;
    if (e->open[i]) e->device[i].table->reset_peak(&e->device[i]);
  }
  c->mem.peak_bytes = c->mem.live_bytes;
}

/* Pushes the lines whose values hold the most memory: a list of {site =, bytes =, values =}. */
static void push_owners(lua_State *L, const flame_context *c, int device) {
  fl_owner o[OWNERS];
  char text[96];
  const int n = fl_engine_owners(c, device, o, OWNERS);
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    lua_createtable(L, 0, 3);
    lua_pushstring(L, fl_site_text(self_of(L), o[i].site, text));
    lua_setfield(L, -2, "site");
    set_int(L, "bytes", o[i].bytes);
    set_int(L, "values", o[i].values);
    lua_rawseti(L, -2, i + 1);
  }
}

/* flame.memory([device]): for the default device if none is given; ("reset_peak") restarts the
** peaks. */
static int x_memory(lua_State *L) {
  flame_context *c = context_of(L);
  const fl_engine *e = (fl_engine *)c->engine;
  int d = c->default_device;
  fl_usage u;
  fl_args(L);
  if (!lua_isnil(L, 1) && strcmp(lua_tostring(L, 1), "reset_peak") == 0) return reset_peaks(c), 0;
  if (!lua_isnil(L, 1)) d = fl_arg_device(L, 1, "memory");
  fl_engine_usage(c, d, &u);
  luaL_checkstack(L, 8, "memory");
  lua_createtable(L, 0, 18);
  set_int(L, "allocated", c->tensors_of[d].now);
  set_int(L, "allocated_peak", c->tensors_of[d].peak);
  set_int(L, "arena", e->arena_bytes[d]);
  set_int(L, "workspace", u.used.now - c->tensors_of[d].now - e->arena_bytes[d]);
  set_int(L, "products", u.products);
  set_int(L, "scratch", u.scratch);
  set_int(L, "peak", u.used.peak);
  set_int(L, "reserved", u.reserved.now);
  set_int(L, "reserved_peak", u.reserved.peak);
  set_int(L, "free", u.free);
  set_int(L, "live_tensors", c->tensors.live);
  set_int(L, "host", c->mem.live_bytes);
  set_int(L, "host_peak", c->mem.peak_bytes);
  set_int(L, "plans", e->plans.bytes);
  push_owners(L, c, d);
  lua_setfield(L, -2, "owners");
  return 1;
}

static int x_empty_cache(lua_State *L) {
  flame_context *c = context_of(L);
  fl_engine *g = (fl_engine *)c->engine;
  fl_args(L);
  for (int i = 0; i < FL_MAX_DEVICES; i++) {
    fl_engine_drop_arena(c, i);
    if (g->open[i]) g->device[i].table->trim(&g->device[i]);
  }
  return 0;
}

/* ---- the census ---- */

typedef struct census {
  flame_context *c;
  struct { fl_node **at; int64_t n, cap; } node;     /* marked nodes, in the order in which they
                                                     ** were found */
  struct { int64_t values, bytes; } *site;           /* by number, 0: no line */
  int64_t sites;
} census;

static int meet(census *s, fl_node *n) {
  if (n == NULL || n->mark & COUNTED) return 1;
  fl_node **slot = FL_PUSH(&s->c->mem, &s->node);
  if (slot == NULL) return 0;
  *slot = n;
  n->mark |= COUNTED;
  return 1;
}

/* Visits handles, recorded nodes and stored values, then the nodes from which these were made. 0:
** no memory. */
static int meet_all(census *s) {
  const flame_context *c = s->c;
  int ok = 1;
  for (const flame_tensor *t = c->handles; ok && t; t = t->next) ok = meet(s, t->node);
  for (int64_t i = 0; ok && i < c->win.nodes.n; i++) ok = meet(s, c->win.nodes.at[i]);
  for (const fl_buffer *b = c->buffer; ok && b; b = b->next)
    for (fl_node *n = b->nodes; ok && n; n = n->bnext) ok = meet(s, n);
  for (int64_t k = 0; ok && k < s->node.n; k++) {
    const fl_node *n = s->node.at[k];
    for (int i = 0; ok && (n->state == FL_PENDING || n->entry) && i < n->nin; i++)
      ok = meet(s, n->in[i]);
  }
  return ok;
}

static int take_census(census *s) {
  const int met = meet_all(s);
  for (int64_t k = 0; k < s->node.n; k++) {
    fl_node *n = s->node.at[k];
    n->mark &= (uint8_t)~COUNTED;
    s->site[n->site < s->sites ? n->site : 0].values++;
  }
  FL_DROP(&s->c->mem, &s->node);
  for (const fl_buffer *b = s->c->buffer; b; b = b->next)
    s->site[b->site < s->sites ? b->site : 0].bytes += b->bytes;
  return met;
}

/* internal.census(): {[line] = {values =, bytes =}}, "" for values without a line. */
static int census_of(lua_State *L) {
  fl_lua *b = self_of(L);
  char text[96];
  luaL_checkstack(L, 8, "census");
  census s = { .c = context_of(L), .sites = b->sites.n + 1 };
  const size_t bytes = sizeof *s.site * (size_t)s.sites;
  s.site = lua_newuserdatauv(L, bytes, 0);
  memset(s.site, 0, bytes);
  if (!take_census(&s)) return luaL_error(L, "leakcheck: no host memory");
  lua_newtable(L);
  for (int64_t i = 0; i < s.sites; i++) {
    if (s.site[i].values == 0 && s.site[i].bytes == 0) continue;
    lua_createtable(L, 0, 2);
    set_int(L, "values", s.site[i].values);
    set_int(L, "bytes", s.site[i].bytes);
    lua_setfield(L, -2, fl_site_text(b, (uint32_t)i, text));
  }
  return 1;
}

const fl_lua_reg fl_reg_memory[] = {
  { ".memory(device?: \"reset_peak\"|device) -> table\n"
    "--- of a device, in bytes: allocated (in tensors), arena (kept for intermediate values), "
    "workspace (of libraries and launches: of it products, cuBLASLt's, and scratch, which calls of "
    "cuDNN, cuFFT, cuSOLVER and our kernels share), peak (the most of these at once), reserved, "
    "free; owners, a list of {site, bytes, values}, the lines whose values hold the most; "
    "\"reset_peak\" starts the peaks again",
    x_memory, 0 },
  { ".empty_cache()\n"
    "--- gives cached memory back, and that of intermediate values",
    x_empty_cache, 0 },
  { "census", census_of, 0 }, { NULL, NULL, 0 }
};
