/*
** User kernels as Lua objects: parsing, configuration. flame.kernel and k:with are Lua
** (lua/flame/kernel/) on top of the internal functions here.
*/
#include "kernel/front/includes.h"
#include "lua/kernel.h"
#include "base/env.h"
#include <assert.h>
#include <stdio.h>

static const char key_kernel = 0;              /* registry: the metatable */

fl_kernel_box *fl_kernel_at(lua_State *L, int i) {
  fl_kernel_box *k = (fl_kernel_box *)lua_touserdata(L, i);
  if (k == NULL || lua_type(L, i) != LUA_TUSERDATA || lua_rawlen(L, i) != sizeof *k ||
      k->magic != FL_KERNEL_MAGIC)
    return NULL;
  return k->k ? k : NULL;
}

fl_kernel_box *fl_arg_kernel(lua_State *L, int i, const char *op) {
  fl_kernel_box *k = fl_kernel_at(L, i);
  if (!k)
    fl_lua_fail(L, op, "need a kernel, got %s" FL_DO " (k:launch, with a colon)",
                luaL_typename(L, i));
  return k;
}

int fl_kernel_raise(lua_State *L, fl_lua *b, const fl_kfunction *k) {
  fl_kunit_retell(k->unit, &b->c->err);
  return fl_lua_raise(L, b);
}

/* ---- objects ---- */

static int kernel_gc(lua_State *L) {
  fl_kernel_box *k = (fl_kernel_box *)lua_touserdata(L, 1);
  if (k == NULL || lua_rawlen(L, 1) != sizeof *k || k->magic != FL_KERNEL_MAGIC) return 0;
  if (k->p) fl_kprogram_release(k->p);
  else fl_kfunction_release(k->k);
  k->p = NULL;
  k->k = NULL;
  return 0;
}

fl_kernel_box *fl_kernel_push(lua_State *L) {
  fl_kernel_box *k = (fl_kernel_box *)lua_newuserdatauv(L, sizeof *k, 1);
  memset(k, 0, sizeof *k);
  k->magic = FL_KERNEL_MAGIC;
  k->unread_output = -1;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_kernel);
  lua_setmetatable(L, -2);
  return k;
}

/* Is the name in the list at 'at' (0: there is none)? */
static int is_listed(lua_State *L, int at, const char *text) {
  int found = 0;
  for (int j = 1; at && lua_istable(L, at) && j <= (int)lua_rawlen(L, at) && !found; j++) {
    lua_rawgeti(L, at, j);
    const char *name = lua_tostring(L, -1);
    found = name && strcmp(name, text) == 0;
    lua_pop(L, 1);
  }
  return found;
}

/* A variable of file scope that other kernels use too is set by the script if f only reads it, and
** is an argument if it is named in inout; otherwise only a GPU can run f. Once for each f. */
static void settle_memory(lua_State *L, fl_ksource *s, fl_kfunc *f, int inout) {
  int own = f->n_params;
  while (own > 0 && f->params[own - 1].of_file) own--;
  for (int k = own; k < f->n_params && f->has_body; k++) {
    fl_kparam *q = &f->params[k];
    if (!q->shared || is_listed(L, inout, q->name)) continue;
    if (q->is_const) { q->of_file = 1; continue; }         /* only read here: the script sets it to
                                                           ** what other kernels have written */
    f->refusal = fl_karena_printf(&s->arena, "'%s' is used by another kernel, too" FL_DO
                                  ": name it in inout, or make it a parameter", q->name);
    f->refusal_line = q->line;
    f->has_body = 0;
  }
  if (!f->has_body) f->n_params = own;
}

void fl_kernel_take(fl_kernel_box *k, fl_kprogram *p) {
  k->p = p;
  k->k = p->k;
  for (int i = 0; i < p->nparam; i++) {
    k->nhidden += p->hidden[i];
    if (p->hidden[i]) continue;
    k->nout += fl_kprogram_writes(p, i);
    const fl_kparam *q = &p->k->f->params[i];
    k->forms += fl_kparam_gave_nil(q) || (q->list_of && fl_kprogram_writes(p, i));
    k->formed |= q->asked || q->list_of;
    k->spread |= q->part_of != NULL;
  }
  for (int i = 0, end, taken; i < p->nparam; i = end) {
    end = fl_kernel_argument(k, i, &taken);
    k->taken += taken;
    k->nlisted += end - i - 1;
  }
}

/* Makes the program of the box's function, in which the parameters named in the list at 'inout' (0:
** there is none) are arguments that keep their contents, and puts it into the box. */
static void take_function(lua_State *L, fl_lua *b, fl_kernel_box *k, int inout) {
  uint8_t named[FL_KP_MAX_ARGS] = { 0 };
  fl_kfunction *f = k->k;
  for (int i = 0; i < f->f->n_params && i < FL_KP_MAX_ARGS; i++)
    named[i] = (uint8_t)is_listed(L, inout, fl_kparam_title(&f->f->params[i]));
  const int64_t m = fl_lua_enter(L, b);
  k->k = NULL;
  fl_kprogram *p = fl_kprogram_new(b->c, f, inout ? named : NULL);
  fl_scope_end(b->c, m);
  if (p) fl_kernel_take(k, p);
  else fl_lua_raise(L, b);
}

/* Finds an output that the kernel reads before it writes it, or adds to by a plain +=, although an
** output is a new array without contents. */
static void find_unread(fl_lua *b, fl_kernel_box *k) {
  const fl_kfunc *f = k->k->f;
  if (!f->has_body) return;
  fl_kaccess *access = fl_zalloc(&b->c->mem, sizeof *access * (size_t)(f->n_vars + 1));
  if (access && fl_kaccess_find(&b->c->mem, f, access))
    for (int i = 0; i < f->n_vars && k->unread_output < 0; i++) {
      const fl_kvar *v = &f->vars[i];
      if (v->kind != FL_KV_POINTER || v->param < 0 || k->p->role[v->param] != FL_KROLE_OUT ||
          k->p->hidden[v->param]) continue;
      if (!access[i].reads_first) continue;
      k->unread_output = v->param;
      k->unread_adds = fl_kaccess_class(&access[i]) == 'a';
      k->unread_line = access[i].read_line ? access[i].read_line : access[i].unwritten_line;
    }
  if (access) fl_free(&b->c->mem, access, sizeof *access * (size_t)(f->n_vars + 1));
}

static fl_kfunc *choose(lua_State *L, const fl_ksource *s, const char *entry) {
  fl_kfunc *f = entry ? fl_ksource_kernel(s, entry) : s->n_kernels == 1 ? s->kernels[0] : NULL;
  if (f) return f;
  luaL_Buffer list;
  luaL_buffinit(L, &list);
  for (int i = 0; i < s->n_kernels; i++) {
    if (i) luaL_addstring(&list, ", ");
    assert(s->kernels[i]);
    luaL_addstring(&list, s->kernels[i]->name);
  }
  luaL_pushresult(&list);
  if (s->n_kernels == 0) fl_lua_fail(L, "kernel", "there is no __global__ function in the source");
  if (entry)
    fl_lua_fail(L, "kernel", "there is no entry '%s', the source has: %s", entry,
                lua_tostring(L, -1));
  fl_lua_fail(L, "kernel", "the source has several kernels (%s)" FL_DO ": name one with entry =, "
              "or several in a list", lua_tostring(L, -1));
  return NULL;
}

/* Raises an error about the text as a whole, and frees u, the parsed text. */
static int source_error(lua_State *L, fl_kunit *u, int32_t line, const char *text) {
  char why[300], where[LUA_IDSIZE + 64] = "";
  snprintf(why, sizeof why, "%s", text);
  if (line && u->first_line > 0)
    snprintf(where, sizeof where, "line %d (%s:%d): ", line, u->label, u->first_line + line - 1);
  else if (line) snprintf(where, sizeof where, "line %d: ", line);
  fl_kunit_release(u);
  return fl_lua_fail(L, "kernel", "%s%s", where, why);
}

/* Puts before the compiler's message why flame's own parser refuses the kernel, and after it what
** an unknown name may mean. */
static void add_reason(flame_context *c, fl_ksource *s, const fl_kfunc *f) {
  char text[640];
  const char *meant = f->refusal ? strstr(f->refusal, "did you mean ") : NULL;
  snprintf(text, sizeof text, "%.230s\n%.240s", fl_ksource_refusal(s, f), c->err.message);
  fl_error_plain(text);
  size_t n = strlen(text);
  while (meant && n > 0 && text[n - 1] == '\n') n--;
  if (meant) snprintf(text + n, sizeof text - n, FL_DO "\n%s", meant);
  fl_error_change(&c->err, text);
}

/* Has f lists of arrays; open: of a length that is not known yet? */
static int has_lists(const fl_kfunc *f, int open) {
  int n = 0;
  for (int i = 0; i < f->n_params; i++)
    n += f->params[i].list_of && (f->params[i].lists == 0) == open;
  return n > 0;
}

/* In a state with limits, and for a text with lists, only text that is printed from the kernel's
** syntax tree is compiled, not the script's: raises if the kernel has no tree. */
static void need_understood(lua_State *L, const fl_lua *b, const fl_kfunction *k) {
  char text[480];
  if (!k || k->f->has_body || has_lists(k->f, 1)) return;    /* each call is of another kernel */
  const int lists = has_lists(k->f, 0);
  if (!lists && !b->c->limits.any && !b->c->limits.deny) return;
  const char *why = fl_ksource_refusal(k->unit->source, k->f);
  fl_kunit_message(k->unit, why ? why : "not understood", text, sizeof text);
  fl_lua_fail(L, "kernel", "%s runs only what it understands: %s",
              lists ? "a call with a list of tensors" : "a context with limits", text);
}

/* As need_understood. The caller has a reference to the unit u of k, which is released if this
** raises. */
static void need_understood_of(lua_State *L, const fl_lua *b, fl_kunit *u, const fl_kfunction *k) {
  if (!k) return;
  fl_kunit_release(u);                                                 /* k has another reference */
  need_understood(L, b, k);
  u->refs++;
}

enum { MOST_OPTIONS = 16 };

/* Reads the strings of the list at 3, which stay on the stack. Returns how many there are. */
static int read_options(lua_State *L, const char *option[MOST_OPTIONS]) {
  const int given = (int)lua_rawlen(L, 3);
  int n = 0;
  if (given > MOST_OPTIONS)
    return fl_lua_fail(L, "kernel", "options and folders: %d given, at most %d", given,
                       MOST_OPTIONS);
  for (; n < given && lua_rawgeti(L, 3, n + 1) == LUA_TSTRING; n++)
    option[n] = lua_tostring(L, -1);
  return n;
}

static void tell_interrupt(flame_context *c) {
  fl_take_interrupt(c);
  fl_error_clear(&c->err);
  fl_interrupted(c, "kernel");
}

/* Finds the place of the text, for messages: the file at 5, the place of the kernel at 7, which has
** the same text, or a place in the script. Returns the line there, 0 if it is unknown. */
static int place_of(lua_State *L, const char *text, char label[LUA_IDSIZE]) {
  const char *file = luaL_optstring(L, 5, NULL);
  const fl_kernel_box *of = fl_kernel_at(L, 7);
  if (!file && !of) return fl_kernel_place(L, text, label);
  snprintf(label, LUA_IDSIZE, "%s", file ? file : of->k->unit->label);
  return file ? 1 : of->k->unit->first_line;
}

/* Reads the list at 8, of tables {from, name, file, text} (lexer.h), whose strings stay in it. The
** caller frees files->n of them. 0: no memory. */
static int read_files(lua_State *L, flame_context *c, fl_kfiles *files, fl_kfile **list) {
  const int n = lua_istable(L, 8) ? (int)lua_rawlen(L, 8) : 0;
  fl_kfile *const at = n ? fl_alloc(&c->mem, (size_t)n * sizeof *at) : NULL;
  for (int i = 0; at && i < n; i++) {
    lua_rawgeti(L, 8, i + 1);
    for (int k = 1; k <= 4; k++) lua_rawgeti(L, -k, k);
    at[i].from = (int32_t)lua_tointeger(L, -4);
    at[i].name = lua_tolstring(L, -3, &at[i].n_name);
    at[i].file = (int32_t)lua_tointeger(L, -2);
    at[i].text = lua_tolstring(L, -1, &at[i].n);
    lua_pop(L, 5);
  }
  *list = at;
  *files = (fl_kfiles){ .at = at, .n = at ? n : 0, .named = lua_istable(L, 8) };
  return !n || at;
}

static fl_ksource *parse(lua_State *L, fl_lua *b, const char *text, size_t n,
                         const char *const *option, int noption, const char *forms) {
  fl_kfiles files;
  fl_kfile *at;
  if (!read_files(L, b->c, &files, &at)) return NULL;
  fl_ksource *s = fl_ksource_parse_until(&b->c->mem, &b->c->err, text, n, option, noption, &files,
                                         forms, &b->c->interrupted);
  fl_free(&b->c->mem, at, (size_t)files.n * sizeof *at);
  return s;
}

/* (name) -> is it a header of the toolkit? */
static int kernel_header(lua_State *L) {
  size_t n;
  const char *name = luaL_checklstring(L, 1, &n);
  lua_pushboolean(L, fl_kincludes_known(name, n));
  return 1;
}

/* The text at 1 as a unit, to which the caller gets a reference: parsed, or that of the kernel at
** 9, which has the same text and options. Raises if the text is refused as a whole. */
static fl_kunit *unit_of(lua_State *L, fl_lua *b, const char *forms) {
  size_t n;
  const char *text = luaL_checklstring(L, 1, &n), *option[MOST_OPTIONS];
  const fl_kernel_box *of = fl_kernel_at(L, 9);
  char label[LUA_IDSIZE];
  if (of) {
    of->k->unit->refs++;
    return of->k->unit;
  }
  const int top = lua_gettop(L), first = place_of(L, text, label),
            noption = read_options(L, option);
  const int64_t m = fl_lua_enter(L, b);
  fl_ksource *s = parse(L, b, text, n, option, noption, forms);
  if (!s && b->c->err.code == FLAME_INTERRUPTED) tell_interrupt(b->c);
  fl_kunit *u = s ? fl_kunit_new(&b->c->mem, s, label, first, option, noption) : NULL;
  if (!u && b->c->err.code == FLAME_OK)
    FL_FAIL(b->c, FLAME_NO_MEMORY, "kernel", "no host memory");
  fl_scope_end(b->c, m);
  lua_settop(L, top);
  if (!u) fl_lua_raise(L, b);
  return u;
}

/* (source, name of the __global__ function or nil, options, inout, file or nil[, forms, kernel of
** the same text, files that it may include, kernel of the same text that need not be parsed again])
** -> a kernel. forms: "bias=0," if the argument bias will be nil (kernel_form.c). If the text is
** not parsed again, each call must name another __global__ function of it. */
static int kernel_new(lua_State *L) {
  fl_lua *b = self_of(L);
  const char *entry = luaL_optstring(L, 2, NULL), *forms = luaL_optstring(L, 6, NULL);
  luaL_checktype(L, 3, LUA_TTABLE);
  if (b->c == NULL || !fl_may(b->c, FLAME_KERNELS, "kernel")) return fl_lua_raise(L, b);
  lua_settop(L, 9);
  fl_kernel_box *k = fl_kernel_push(L);
  fl_kunit *u = unit_of(L, b, forms);
  fl_ksource *const s = u->source;
  const int64_t m = fl_lua_enter(L, b);
  /* functions own the unit (parsed text): makes one even if there is no such entry */
  fl_kfunc *f = entry ? fl_ksource_kernel(s, entry) : NULL;
  if (!f && s->n_kernels > 0) f = s->kernels[0];
  if (f) settle_memory(L, s, f, 4);
  if (f) k->k = fl_kfunction_given(u, f);
  const int made = k->k || !f;
  if (!made && b->c->err.code == FLAME_OK)
    FL_FAIL(b->c, FLAME_NO_MEMORY, "kernel", "no host memory");
  fl_scope_end(b->c, m);
  if (!made) { fl_kunit_release(u); return fl_lua_raise(L, b); }
  need_understood_of(L, b, u, k->k);
  if (s->too_large) return source_error(L, u, s->too_large_line, s->too_large);
  if (s->error) return source_error(L, u, s->error_line, s->error);
  if (!f) return source_error(L, u, 0, "there is no __global__ function in the source");
  fl_kunit_release(u);                        /* the function holds it */
  choose(L, s, entry);
  take_function(L, b, k, 4);
  find_unread(b, k);
  if (forms) k->formed = 0;
  if (f->has_body || has_lists(f, 1)) return 1;
  need_understood(L, b, k->k);
  if (fl_cuda_check_source(b->c, k->k) == FLAME_OK) return 1;
  add_reason(b->c, s, f);
  return fl_kernel_raise(L, b, k->k);
}

static void read_size3(lua_State *L, const char *name, int64_t out[3]) {
  out[0] = out[1] = out[2] = 1;
  if (lua_istable(L, -1)) {
    for (int i = 0; i < 3; i++) {
      if (lua_geti(L, -1, i + 1) != LUA_TNIL) out[i] = fl_arg_int(L, lua_gettop(L), "kernel", name);
      lua_pop(L, 1);
    }
  } else out[0] = fl_arg_int(L, lua_gettop(L), "kernel", name);
}

/* Reads a field of the configuration at 2: numbers, or a function that is called at each launch
** (*asked). */
static uint8_t read_extent(lua_State *L, const char *name, int64_t out[3], uint8_t *asked) {
  lua_getfield(L, 2, name);
  *asked = (uint8_t)fl_is_callable(L, -1);
  const int given = !*asked && !lua_isnil(L, -1);
  if (given) read_size3(L, name, out);
  lua_pop(L, 1);
  return (uint8_t)given;
}

static void read_block(lua_State *L, fl_kernel_box *k) {
  const int type = lua_getfield(L, 2, "block");
  k->chosen = 0;
  if (type == LUA_TSTRING && strcmp(lua_tostring(L, -1), "auto") == 0) {
    fl_kernel_need_blocks(L, k);
    k->chosen = FL_KERNEL_OPEN;
    k->has_block = 1;
  } else if (type != LUA_TNIL) {
    read_size3(L, "block", k->block);
    k->has_block = 1;
  }
  lua_pop(L, 1);
}

/* (kernel, config) -> the same kernel, configured by shape, grid, threads, block, shared; functions
** and other contents of config stay in the table, which the new object holds. */
static int kernel_with(lua_State *L) {
  const fl_kernel_box *old = fl_arg_kernel(L, 1, "with");
  luaL_checktype(L, 2, LUA_TTABLE);
  fl_kernel_box *k = fl_kernel_push(L);
  *k = *old;
  k->p->refs++;
  const int me = lua_gettop(L);
  lua_pushvalue(L, 2);
  lua_setiuservalue(L, me, 1);
  k->has_grid = read_extent(L, "grid", k->grid, &k->lua_grid);
  k->has_threads = read_extent(L, "threads", k->threads, &k->lua_threads);
  read_block(L, k);
  if (lua_getfield(L, 2, "bytes") != LUA_TNIL)            /* of 'shared' (kernel/block.lua) */
    k->shared = fl_arg_int(L, me + 1, "kernel", "shared");
  lua_settop(L, me);
  if (lua_getfield(L, 2, "shape"), fl_is_callable(L, -1)) {
    k->lua_shape = 1;
    k->has_shape = FL_KERNEL_SHAPE_FIRST;
  } else if (!lua_isnil(L, -1)) {
    fl_kernel_read_shapes(L, k, "kernel");
    k->lua_shape = 0;
  }
  lua_settop(L, me);
  return 1;
}

/* (kernel, nodiff (the parameters without gradient) or nil, does the script give the gradient?):
** sets what its gradients need in addition to the text. Called once, before the kernel is
** configured. */
static int kernel_rule(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_kernel_box *k = fl_arg_kernel(L, 1, "kernel");
  for (int i = 0; i < k->p->nparam; i++)
    k->p->nodiff[i] = (uint8_t)is_listed(L, 2, fl_kparam_title(&k->k->f->params[i]));
  k->given = (uint8_t)lua_toboolean(L, 3);
  const int64_t m = fl_lua_enter(L, b);
  const flame_status e = k->given ? FLAME_OK : fl_kprogram_record(b->c, k->p);
  fl_scope_end(b->c, m);
  return e == FLAME_OK ? 0 : fl_lua_raise(L, b);
}

/* (list of kernels, device name): compiles them together. */
static int kernel_ready(lua_State *L) {
  fl_lua *b = self_of(L);
  luaL_checktype(L, 1, LUA_TTABLE);
  const int n = (int)lua_rawlen(L, 1), device = fl_arg_device(L, 2, "warmup");
  fl_kfunction **all = (fl_kfunction **)lua_newuserdatauv(L, (size_t)(n + 1) * sizeof *all, 0);
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, 1, i + 1);
    all[i] = fl_arg_kernel(L, -1, "warmup")->k;
    lua_pop(L, 1);
  }
  const int64_t m = fl_lua_enter(L, b);
  fl_device *d = fl_engine_device(b->c, device);
  const flame_status e = d ? d->table->ready(d, all, n) : b->c->err.code;
  fl_scope_end(b->c, m);
  if (e != FLAME_OK) return n ? fl_kernel_raise(L, b, all[0]) : fl_lua_raise(L, b);
  return 0;
}

/* (image, source of its signature: one kernel without a body) -> kernel of a binary */
static int kernel_load(lua_State *L) {
  fl_lua *b = self_of(L);
  size_t n, m;
  const char *image = luaL_checklstring(L, 1, &n), *text = luaL_checklstring(L, 2, &m);
  if (b->bounded) return fl_lua_fail(L, "kernel", "a state with limits runs no binaries");
  fl_kernel_box *k = fl_kernel_push(L);
  const int64_t mark = fl_lua_enter(L, b);
  fl_ksource *s = fl_ksource_parse(&b->c->mem, &b->c->err, text, m);
  fl_kunit *u = s ? fl_kunit_new(&b->c->mem, s, "binary", 0, NULL, 0) : NULL;
  if (u && s->n_kernels > 0) k->k = fl_kfunction_binary(&b->c->mem, image, n, s->kernels[0], u);
  fl_scope_end(b->c, mark);
  fl_kunit_release(u);
  if (!k->k) return fl_lua_fail(L, "cuda.load", "no memory, or parameters that can not be read");
  take_function(L, b, k, 0);
  return 1;
}

static int kernel_tostring(lua_State *L) {
  const fl_kernel_box *k = fl_kernel_at(L, 1);
  lua_pushfstring(L, "flame.kernel %s", k ? k->k->f->name : "(closed)");
  return 1;
}

/* () -> are gradients to be proven (FLAME_CHECK=grad)? */
static int checks_gradients(lua_State *L) {
  lua_pushboolean(L, fl_env_lists(FL_ENV_FLAME_CHECK, "grad"));
  return 1;
}

/* ([most]): sets how many elements a gather (an adjoint kernel that collects the sum of each
** element without atomics) may have; returns the previous number. Tests disable gathers with -1. */
static int kernel_gather(lua_State *L) {
  flame_context *c = self_of(L)->c;
  if (!c) return fl_lua_raise(L, self_of(L));
  const int64_t before = c->gather_most;
  c->gather_most = luaL_optinteger(L, 1, before);
  lua_pushinteger(L, before);
  return 1;
}

static int is_kernel(lua_State *L) {
  lua_pushboolean(L, fl_kernel_at(L, 1) != NULL);
  return 1;
}

/* internal.kernel_call([f]): returns the function that runs for a call of a kernel, or sets it to
** f. */
static int kernel_call_by(lua_State *L) {
  lua_settop(L, 1);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_kernel);
  if (lua_isnil(L, -1)) return 1;
  lua_pushvalue(L, 1);
  if (lua_isnil(L, 1)) lua_getfield(L, 2, "__call");
  else lua_setfield(L, 2, "__call");
  return 1;
}

/* (methods): sets the table of k:with and other methods; called once by kernel/methods.lua. */
static int kernel_methods(lua_State *L) {
  fl_lua *b = self_of(L);
  luaL_checktype(L, 1, LUA_TTABLE);
  fl_kernel_prove(b);
  fl_push_closure(L, b, fl_kernel_launch);
  lua_setfield(L, 1, "launch");
  lua_createtable(L, 0, 8);
  lua_pushliteral(L, "flame.kernel");
  lua_setfield(L, -2, "__name");
  lua_pushvalue(L, 1);
  lua_setfield(L, -2, "__index");
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  fl_push_closure(L, b, fl_kernel_call);
  lua_setfield(L, -2, "__call");
  fl_push_closure(L, b, kernel_gc);
  lua_setfield(L, -2, "__gc");
  fl_push_closure(L, b, kernel_tostring);
  lua_setfield(L, -2, "__tostring");
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_kernel);
  return 0;
}

const fl_lua_reg fl_reg_kernel[] = {
  { "kernel_new", kernel_new, 0 }, { "kernel_header", kernel_header, 0 },
  { "kernel_with", kernel_with, 0 },
  { "kernel_info", fl_kernel_info, 0 }, { "kernel_arguments", fl_kernel_arguments, 0 },
  { "checks_gradients", checks_gradients, 0 },
  { "kernel_call", kernel_call_by, 0 }, { "kernel_lines", fl_kernel_lines, 0 },
  { "kernel_image", fl_kernel_image, 0 },
  { "kernel_rule", kernel_rule, 0 }, { "kernel_gather", kernel_gather, 0 },
  { "kernel_show", fl_kernel_show, 0 }, { "kernel_again", fl_kernel_again, 0 },
  { "kernel_tangent", fl_kernel_tangent, 0 }, { "kernel_adjoint", fl_kernel_adjoint, 0 },
  { "kernel_facts", fl_kernel_facts, 0 },
  { "kernel_ready", kernel_ready, 0 }, { "kernel_each", fl_kernel_each, 0 },
  { "kernel_blocks", fl_kernel_blocks, 0 }, { "kernel_resident", fl_kernel_resident, 0 },
  { "kernel_settle", fl_kernel_settle, 0 },
  { "kernel_run", fl_kernel_run, 0 },
  { "kernel_methods", kernel_methods, 0 }, { "is_kernel", is_kernel, 0 },
  { "map_text", fl_kernel_map, 0 }, { "map_arity", fl_kernel_map_arity, 0 },
  { "kernel_cache", fl_kernel_cache, 0 },
  { "kernel_choice", fl_kernel_choice, 0 }, { "kernel_load", kernel_load, 0 },
  { NULL, NULL, 0 }
};
