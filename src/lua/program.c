/*
** Saved programs for scripts: the parts of flame.export, which is written in
** lua/flame/tools/program.lua, and loaded programs. An export and a program are userdata whose
** resource is freed by __gc; a context that closes first has emptied the programs.
*/
#include "graph/graph.h"
#include "lua/binding.h"

static const char export_mark, program_mark;

/* Pushes a userdata that will own one resource; it is made before the resource. */
static void **new_slot(lua_State *L, fl_lua *b, const char *mark, lua_CFunction gc) {
  void **slot = (void **)lua_newuserdatauv(L, sizeof *slot, 0);
  *slot = NULL;
  lua_createtable(L, 0, 2);
  fl_lua_mark(L, mark);
  fl_push_closure(L, b, gc);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  return slot;
}

static int export_gc(lua_State *L) {
  void **slot = (void **)fl_lua_marked(L, 1, &export_mark);
  if (slot && *slot && self_of(L)->c) fl_export_free((fl_export *)*slot);
  if (slot) *slot = NULL;
  return 0;
}

static fl_export *export_at(lua_State *L) {
  void **slot = (void **)fl_lua_marked(L, 1, &export_mark);
  if (!slot || !*slot) fl_lua_fail(L, "export", "need an open export");
  return (fl_export *)*slot;
}

static uint32_t line_of(void *arg) {
  fl_lua *b = (fl_lua *)arg;
  return fl_lua_site(b->L, b);
}

static int export_new(lua_State *L) {
  fl_lua *b = self_of(L);
  if (!b->c) return fl_lua_raise(L, b);
  void **slot = new_slot(L, b, &export_mark, export_gc);
  fl_export *x = fl_export_new(b->c);
  *slot = x;
  if (!x) return fl_lua_raise(L, b);
  x->line = line_of;
  x->arg = b;
  return 1;
}

/* Puts the tensors of the list at i into 'to'; returns their number. */
static int handles(lua_State *L, int i, const char *name, flame_tensor **to) {
  fl_box *box[FL_GRAPH_PORTS];
  const int n = fl_arg_list(L, i, "export", name, FL_GRAPH_PORTS, box);
  for (int k = 0; k < n; k++) to[k] = box[k]->t;
  return n;
}

/* (export, {examples}) -> {placeholders} */
static int export_begin(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_export *x = export_at(L);
  flame_tensor *in[FL_GRAPH_PORTS];
  luaL_checkstack(L, FL_GRAPH_PORTS + 8, "export");
  const int n = handles(L, 2, "inputs", in);
  const int64_t m = fl_lua_enter(L, b);
  const flame_status e = fl_export_begin(x, n, in);
  fl_lua_leave_status(L, b, m, e);
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    fl_box_push(L, b, x->input.at[i]);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static int texts(lua_State *L, int i, const char **to) {
  luaL_checktype(L, i, LUA_TTABLE);
  const int n = (int)lua_rawlen(L, i);
  for (int k = 0; k < n && k < FL_GRAPH_PORTS; k++) {
    lua_rawgeti(L, i, k + 1);
    to[k] = luaL_checkstring(L, -1);
    lua_pop(L, 1);                          /* the list holds it */
  }
  return n;
}

/* (export, {results}, {their names}, {names of the inputs}) -> text; nil: it must be traced
** again */
static int export_end(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_export *x = export_at(L);
  flame_tensor *out[FL_GRAPH_PORTS];
  const char *name[FL_GRAPH_PORTS], *input[FL_GRAPH_PORTS];
  luaL_checkstack(L, FL_GRAPH_PORTS + 8, "export");
  const int n = handles(L, 2, "results", out);
  luaL_argcheck(L, texts(L, 3, name) == n && texts(L, 4, input) == x->input.n, 3, "names");
  fl_text t;
  const int64_t m = fl_lua_enter(L, b);
  fl_text_init(&t, &b->c->mem);
  const flame_status e = fl_export_end(x, n, out, name, input, &t);
  fl_scope_end(b->c, m);
  const int found = x->found;
  if (e != FLAME_OK || found) {
    fl_text_free(&t);
    if (e != FLAME_OK) return fl_lua_raise(L, b);
    lua_pushnil(L);
    return 1;
  }
  const int ok = fl_lua_push_copy(L, t.at ? t.at : "", t.n);
  fl_text_free(&t);
  return ok ? 1 : lua_error(L);
}

static int export_cancel(lua_State *L) {
  fl_export *x = export_at(L);
  if (self_of(L)->c) fl_export_cancel(x);
  return 0;
}

/* (export, number of a line of its text) -> the script's line for it: "train.lua:8" or "" */
static int export_place(lua_State *L) {
  const fl_export *x = export_at(L);
  const lua_Integer i = luaL_checkinteger(L, 2);
  char where[96] = "";
  if (i >= 1 && i <= x->site.n) fl_site_text(self_of(L), x->site.at[i - 1], where);
  lua_pushstring(L, where);
  return 1;
}

static int export_save(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_export *x = export_at(L);
  size_t n;
  const char *path = luaL_checkstring(L, 2), *text = luaL_checklstring(L, 3, &n);
  const int64_t m = fl_lua_enter(L, b);
  const flame_status e = fl_export_save(x, path, text, n);
  return fl_lua_leave_status(L, b, m, e);
}

/* ---- programs -------------------------------------------------------------------------------- */

static int program_gc(lua_State *L) {
  void **slot = (void **)fl_lua_marked(L, 1, &program_mark);
  if (slot && *slot) flame_program_free((flame_program *)*slot);
  if (slot) *slot = NULL;
  return 0;
}

static flame_program *program_at(lua_State *L, int i) {
  void **slot = (void **)fl_lua_marked(L, i, &program_mark);
  if (!slot || !*slot) fl_lua_fail(L, "program", "need a program, got %s", luaL_typename(L, i));
  return (flame_program *)*slot;
}

static int program_load(lua_State *L) {
  fl_lua *b = self_of(L);
  const char *path = luaL_checkstring(L, 1);
  void **slot = new_slot(L, b, &program_mark, program_gc);
  const int64_t m = fl_lua_enter(L, b);
  *slot = flame_program_load(b->c, path);
  fl_scope_end(b->c, m);
  return *slot ? 1 : fl_lua_raise(L, b);
}

/* (export, program): raises unless the program gives the results of the export's last trace */
static int export_same(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_export *x = export_at(L);
  flame_program *p = program_at(L, 2);
  const int64_t m = fl_lua_enter(L, b);
  return fl_lua_leave_status(L, b, m, fl_export_same(x, p));
}

/* (program, …) -> results */
static int program_run(lua_State *L) {
  fl_lua *b = self_of(L);
  flame_program *p = program_at(L, 1);
  flame_tensor *in[FL_GRAPH_PORTS], *out[FL_GRAPH_PORTS];
  fl_box *box[FL_GRAPH_PORTS];
  const int nin = lua_gettop(L) - 1, nout = (int)p->output.n;
  luaL_checkstack(L, nout + 8, "program");
  for (int i = 0; i < nin && i < FL_GRAPH_PORTS; i++) {
    const char *name = NULL;
    flame_program_input(p, i, &name, NULL, NULL);
    in[i] = fl_arg_tensor(L, i + 2, "program", name ? name : "an input")->t;
  }
  for (int i = 0; i < nout; i++) box[i] = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  const flame_status e = flame_program_run(p, nin, in, nout, out);
  for (int i = 0; e == FLAME_OK && i < nout; i++) box[i]->t = out[i];
  fl_lua_leave_status(L, b, m, e);
  return nout;
}

/* (program, outputs) -> {{name =, dtype =, shape = {…}}, …} */
static int program_ports(lua_State *L) {
  const flame_program *p = program_at(L, 1);
  const int outputs = lua_toboolean(L, 2);
  const char *name;
  flame_dtype t;
  int64_t size[FL_MAX_AXES];
  lua_newtable(L);
  for (int i = 0, rank;; i++) {
    rank = outputs ? flame_program_output(p, i, &name, &t, size)
                   : flame_program_input(p, i, &name, &t, size);
    if (rank < 0) return 1;
    lua_createtable(L, 0, 3);
    lua_pushstring(L, name);
    lua_setfield(L, -2, "name");
    lua_pushstring(L, fl_dtype_name((int)t));
    lua_setfield(L, -2, "dtype");
    fl_push_sizes(L, rank, size);
    lua_setfield(L, -2, "shape");
    lua_rawseti(L, -2, i + 1);
  }
}

static int program_seed(lua_State *L) {
  flame_program_seed(program_at(L, 1), (uint64_t)luaL_checkinteger(L, 2));
  return 0;
}

static int program_reset(lua_State *L) {
  flame_program_reset(program_at(L, 1));
  return 0;
}

const fl_lua_reg fl_reg_program[] = {
  { "export_new", export_new, 0 }, { "export_begin", export_begin, 0 },
  { "export_end", export_end, 0 }, { "export_cancel", export_cancel, 0 },
  { "export_close", export_gc, 0 },
  { "export_place", export_place, 0 }, { "export_save", export_save, 0 },
  { "export_same", export_same, 0 }, { "program_load", program_load, 0 },
  { "program_run", program_run, 0 }, { "program_ports", program_ports, 0 },
  { "program_close", program_gc, 0 }, { "program_seed", program_seed, 0 },
  { "program_reset", program_reset, 0 },
  { NULL, NULL, 0 }
};
