/*
** Reports about kernels: signature, text, the cost of their derivatives, where in the script each
** addition to memory comes from, and what is kept of them on disk.
*/
#include "lua/kernel.h"
#include <stdio.h>

/* ---- what it is ---- */

static const char *const role_names[] = { "scalar", "struct", "in", "out", "inout",
                                         "none" };

static void push_param(lua_State *L, const fl_kernel_box *k, int i) {
  const fl_kparam *q = &k->k->f->params[i];
  const int dtype = q->type < FL_KT_COUNT ? fl_kt_held_as(q->type) : -1;
  lua_createtable(L, 0, 13);
  lua_pushstring(L, q->name); lua_setfield(L, -2, "name");
  lua_pushstring(L, q->type_name ? q->type_name : fl_ktypes[q->type].c);
  lua_setfield(L, -2, "type");
  if (dtype >= 0) { lua_pushstring(L, fl_dtype_name(dtype)); lua_setfield(L, -2, "dtype"); }
  lua_pushboolean(L, q->type < FL_KT_COUNT && fl_ktypes[q->type].is_float);
  lua_setfield(L, -2, "float");
  lua_pushstring(L, role_names[k->p->role[i]]); lua_setfield(L, -2, "role");
  lua_pushinteger(L, q->width); lua_setfield(L, -2, "width");
  lua_pushboolean(L, q->is_pointer); lua_setfield(L, -2, "pointer");
  lua_pushboolean(L, k->p->hidden[i]); lua_setfield(L, -2, "hidden");
  lua_pushboolean(L, q->of_file == 2); lua_setfield(L, -2, "zeros");
  lua_pushboolean(L, q->is_null); lua_setfield(L, -2, "null");
  lua_pushboolean(L, q->list_of != NULL); lua_setfield(L, -2, "list");
  lua_pushboolean(L, q->part_of != NULL); lua_setfield(L, -2, "part");
  lua_pushboolean(L, fl_kparam_gave_nil(q)); lua_setfield(L, -2, "gave_nil");
  if (q->of_file) { lua_pushinteger(L, q->count); lua_setfield(L, -2, "count"); }
  if (!q->n_fields) return;
  lua_createtable(L, q->n_fields, 0);
  for (int j = 0; j < q->n_fields; j++) {
    lua_createtable(L, 0, 3);
    lua_pushstring(L, q->fields[j].path); lua_setfield(L, -2, "path");
    lua_pushboolean(L, fl_ktypes[q->fields[j].type].is_float); lua_setfield(L, -2, "float");
    lua_pushinteger(L, q->fields[j].count); lua_setfield(L, -2, "count");
    lua_rawseti(L, -2, j + 1);
  }
  lua_setfield(L, -2, "fields");
}

/* Puts a line of the source, and its place in the script, into the table on top. */
static void put_place(lua_State *L, const fl_kunit *u, int line) {
  if (line <= 0) return;
  lua_pushinteger(L, line); lua_setfield(L, -2, "line");
  if (u->first_line <= 0) return;
  lua_pushfstring(L, "%s:%d", u->label, u->first_line + line - 1);
  lua_setfield(L, -2, "where");
}

/* Pushes the loops for which an adjoint keeps snapshots: {line, where, bytes} each. */
static void push_loops(lua_State *L, const fl_kfunction *k) {
  lua_createtable(L, k->ad->n_kept, 0);
  for (int i = 0; i < k->ad->n_kept; i++) {
    lua_createtable(L, 0, 3);
    put_place(L, k->unit, k->ad->kept[i].line);
    lua_pushinteger(L, k->ad->kept[i].bytes); lua_setfield(L, -2, "bytes");
    lua_rawseti(L, -2, i + 1);
  }
}

/* Puts what AD reports about a derived kernel into the table on top. */
static void put_derived(lua_State *L, const fl_kfunction *k) {
  lua_pushinteger(L, k->ad->n_plain); lua_setfield(L, -2, "plain");
  lua_pushinteger(L, k->ad->n_block); lua_setfield(L, -2, "block_sums");
  lua_pushinteger(L, k->ad->n_atomic); lua_setfield(L, -2, "atomics");
  lua_pushinteger(L, k->ad->n_gather); lua_setfield(L, -2, "gathers");
  push_loops(L, k); lua_setfield(L, -2, "loops");
  if (!k->ad->unordered_line) return;
  lua_pushinteger(L, k->ad->unordered_line);
  lua_setfield(L, -2, "unordered");
}

/* Puts what the kernel needs of a device, and its key in the cache, into the table on top. */
static void put_sizes(lua_State *L, const fl_kernel_box *k) {
  lua_pushlstring(L, (const char *)k->k->digest, sizeof k->k->digest);
  lua_setfield(L, -2, "digest");
  lua_pushinteger(L, fl_launch_block(k->k->f)); lua_setfield(L, -2, "threads");
  lua_pushinteger(L, k->k->f->shared_bytes); lua_setfield(L, -2, "shared_bytes");
  lua_pushinteger(L, k->k->registers); lua_setfield(L, -2, "registers");
  lua_pushinteger(L, k->k->spilled); lua_setfield(L, -2, "spilled");
  if (!k->chosen || k->chosen == FL_KERNEL_OPEN) return;
  lua_createtable(L, 3, 0);
  for (int i = 0; i < 3; i++) { lua_pushinteger(L, k->block[i]); lua_rawseti(L, -2, i + 1); }
  lua_setfield(L, -2, "block");
}

/* kernel -> {name, params, text, omit, refusal, registers, spilled, config, …} */
int fl_kernel_info(lua_State *L) {
  const fl_kernel_box *k = fl_arg_kernel(L, 1, "kernel");
  lua_createtable(L, 0, 12);
  lua_pushstring(L, k->k->f->name); lua_setfield(L, -2, "name");
  if (k->k->ad || k->k->binary) lua_pushlstring(L, k->k->text, k->k->text_bytes);
  else lua_pushstring(L, k->k->unit->source->text);
  lua_setfield(L, -2, "text");
  lua_createtable(L, k->p->nparam, 0);
  for (int i = 0; i < k->p->nparam; i++) {
    push_param(L, k, i);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "params");
  if (k->p->omit >= 0) { lua_pushinteger(L, k->p->omit + 1); lua_setfield(L, -2, "omit"); }
  if (!k->k->f->has_body && !k->k->binary) {
    char text[480];
    fl_kunit_message(k->k->unit, fl_ksource_refusal(k->k->unit->source, k->k->f), text,
                     sizeof text);
    fl_error_plain(text);
    lua_pushstring(L, text); lua_setfield(L, -2, "refusal");
  }
  if (k->k->ad) put_derived(L, k->k);
  put_sizes(L, k);
  lua_getiuservalue(L, 1, 1); lua_setfield(L, -2, "config");
  return 1;
}

/* Pushes what is kept until the backward of this derivation runs: names of arguments and
** results. */
static void push_kept(lua_State *L, const fl_kprogram *p, const fl_kderived *d) {
  uint8_t seen[FL_KP_MAX_ARGS] = { 0 };
  lua_Integer n = 0;
  lua_newtable(L);
  for (int j = 0; j < d->nparts; j++) {
    const fl_kad *ad = d->part[j]->k->ad;
    for (int k = 0; k < ad->n_params; k++) {
      const fl_kad_param *q = &ad->params[k];
      const int of = q->param >= 0 ? p->role[q->param] : FL_KROLE_SCALAR;
      if (of == FL_KROLE_SCALAR || of == FL_KROLE_STRUCT || seen[q->param] ||
          !(q->role == FL_KAD_ORIGINAL || q->role == FL_KAD_FINAL ||
            (q->role == FL_KAD_SCRATCH && of != FL_KROLE_OUT)))
        continue;
      seen[q->param] = 1;
      lua_pushstring(L, p->k->f->params[q->param].name);
      lua_rawseti(L, -2, ++n);
    }
  }
}

/* The part p of an adjoint as it is launched on the default device or, if that is the CPU, on
** Hopper. */
static fl_kprogram *launched_part(const fl_lua *b, fl_kprogram *p, int64_t shared) {
  const fl_device *d = fl_engine_device(b->c, b->c->default_device);
  return d ? fl_kprogram_fit(b->c, p, shared, d->shared ? d->shared : FL_K_MOST_SHARED) : NULL;
}

/* (kernel, "adjoint" | "tangent") -> list of kernels, list of what backward keeps */
int fl_kernel_show(lua_State *L) {
  fl_lua *b = self_of(L);
  const fl_kernel_box *k = fl_arg_kernel(L, 1, "kernel");
  const int adjoint = *luaL_checkstring(L, 2) == 'a';
  fl_kprogram *p = k->p->replay ? k->p->replay : k->p;
  int64_t geometry[FL_KP_COUNT_ARGS] = { 0, 1, 1 };
  if (b->c == NULL) return fl_lua_raise(L, b);
  if (k->has_grid) memcpy(geometry, k->grid, sizeof k->grid);
  memcpy(geometry + FL_KP_BLOCK, k->block, sizeof k->block);
  lua_getiuservalue(L, 1, 1);
  const int counted = k->has_threads || k->lua_threads;
  const int whole = lua_getfield(L, -1, "block") == LUA_TTABLE && !counted;
  if (lua_getfield(L, -2, "grid") != LUA_TTABLE) geometry[0] = 0;
  if (lua_getfield(L, -3, "shared") == LUA_TNUMBER)
    geometry[FL_KP_SHARED] = lua_tointeger(L, -1);
  const int64_t m = fl_lua_enter(L, b);
  const fl_kderived *d = fl_kprogram_show(b->c, p, adjoint, whole ? geometry : NULL);
  fl_scope_end(b->c, m);
  if (!d) return fl_lua_raise(L, b);
  lua_createtable(L, d->nparts, 0);
  for (int i = 0; i < d->nparts; i++) {
    fl_kernel_box *part = fl_kernel_push(L);
    fl_kprogram *of = adjoint ? launched_part(b, d->part[i], geometry[FL_KP_SHARED]) : d->part[i];
    if (!of) return fl_lua_raise(L, b);
    of->refs++;
    fl_kernel_take(part, of);
    lua_rawseti(L, -2, i + 1);
  }
  push_kept(L, p, d);
  return 2;
}

/* ---- additions by line ---- */

enum { MOST_LINES = 256 };         /* further ones are left out */
/* stores, block sums, atomics, gathered sums */
typedef struct line_count { int32_t line, param; int count[4]; } line_count;
typedef struct counts { const fl_kfunction *k; int n; line_count at[MOST_LINES]; } counts;

/* The parameter of the source to which a variable of the kernel belongs; -2 - var: it is a shared
** array; -1: there is none, or its sums are not reported. */
static int source_param(const fl_kfunction *k, int32_t var) {
  const fl_kvar *v = &k->f->vars[var];
  if (!k->ad) return v->kind == FL_KV_SHARED ? -2 - var : v->param;
  if (v->kind != FL_KV_POINTER || v->param < 0) return -1;
  const fl_kad_param *q = &k->ad->params[v->param];
  return q->role == FL_KAD_GRAD || q->role == FL_KAD_GRAD_SCALAR || q->role == FL_KAD_WORK
         ? q->param : -1;
}

static void count_at(counts *c, int32_t line, int32_t param, int kind) {
  int i = 0;
  while (i < c->n && (c->at[i].line != line || c->at[i].param != param)) i++;
  if (i == MOST_LINES) return;
  if (i == c->n) c->at[c->n++] = (line_count){ .line = line, .param = param };
  c->at[i].count[kind]++;
}

static int count_one(void *arg, fl_kstmt *s) {
  counts *c = arg;
  const int atomic = s->kind == FL_KS_ATOMIC, store = s->kind == FL_KS_STORE && c->k->ad != NULL;
  const int param = atomic || store ? source_param(c->k, s->var) : -1;
  if (param != -1) count_at(c, s->line, param, store ? 0 : s->mode == FL_KM_BLOCK ? 1 : 2);
  return 1;
}

static void push_line(lua_State *L, const fl_kfunction *k, const fl_kernel_box *of,
                      const line_count *x) {
  static const char *const names[4] = { "plain", "block_sums", "atomics", "gathers" };
  const fl_kparam *q = x->param >= 0 ? &of->k->f->params[x->param] : NULL;
  const int line = x->line ? x->line : q ? q->line : 0;
  lua_createtable(L, 0, 7);
  put_place(L, k->unit, line);
  lua_pushstring(L, q ? q->name : k->f->vars[-2 - x->param].source);
  lua_setfield(L, -2, "array");
  for (int i = 0; i < 4; i++) { lua_pushinteger(L, x->count[i]); lua_setfield(L, -2, names[i]); }
}

/* (kernel, the kernel it was derived from) -> list of {line, where, array,
** plain, block_sums, atomics, gathers} */
int fl_kernel_lines(lua_State *L) {
  const fl_kernel_box *k = fl_arg_kernel(L, 1, "kernel"), *of = fl_arg_kernel(L, 2, "kernel");
  counts *c = (counts *)lua_newuserdatauv(L, sizeof *c, 0);
  const fl_kvisitor v = { count_one, NULL, c };
  c->k = k->k;
  c->n = 0;
  const fl_kad *ad = k->k->ad;
  for (int i = 0; ad && i < ad->n_gather; i++)
    count_at(c, ad->gathered[i].line, ad->gathered[i].param, 3);
  if (k->k->f->has_body && !(ad && ad->n_gather)) fl_kwalk_block(&v, k->k->f->body);
  lua_createtable(L, c->n, 0);
  for (int i = 0; i < c->n; i++) {
    push_line(L, k->k, of, &c->at[i]);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* (kernel) -> its cubin for sm_90, made without a device; nil: the kernel was given in binary form,
** or NVRTC is missing or does not compile it. */
int fl_kernel_image(lua_State *L) {
  fl_lua *b = self_of(L);
  const fl_kernel_box *k = fl_arg_kernel(L, 1, "kernel");
  size_t bytes = 0;
  if (k->k->binary || b->c == NULL) return 0;
  const int64_t m = fl_lua_enter(L, b);
  char *image = fl_cuda_image(b->c, k->k, &bytes);
  fl_scope_end(b->c, m);
  if (!image) return 0;
  const int pushed = fl_lua_push_copy(L, image, bytes);
  fl_free(&b->c->mem, image, bytes);
  return pushed ? 1 : lua_error(L);
}

/* (key, value or nil) -> the integer that is kept on disk under the key, 0: none. A value is kept
** from now on. In a state with limits nothing is kept. */
int fl_kernel_choice(lua_State *L) {
  fl_lua *b = self_of(L);
  size_t n;
  const char *key = luaL_checklstring(L, 1, &n);
  const int64_t value = luaL_optinteger(L, 2, 0);
  if (b->c == NULL) return fl_lua_raise(L, b);
  lua_pushinteger(L, b->bounded ? 0 : fl_cuda_kept_choice(b->c, key, n, value));
  return 1;
}

/* (clear) -> entries, bytes, hits, misses of the cubin cache. clear: empties it, and drops plans of
** kernels that no longer exist. */
int fl_kernel_cache(lua_State *L) {
  fl_lua *b = self_of(L);
  int64_t entries, bytes;
  if (b->c == NULL) return fl_lua_raise(L, b);
  fl_cuda_cache_usage(b->c, lua_toboolean(L, 1), &entries, &bytes);
  if (lua_toboolean(L, 1)) fl_plans_sweep(&((fl_engine *)b->c->engine)->plans);
  lua_pushinteger(L, entries);
  lua_pushinteger(L, bytes);
  lua_pushinteger(L, b->c->stats.cache_hits);
  lua_pushinteger(L, b->c->stats.cache_misses);
  return 4;
}
