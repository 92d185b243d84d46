/*
** flame.map: the expression of a map as Lua text over flame's own ops, so that it fuses and
** differentiates like any other. a1, a2, … are the operands, N the table of helpers in
** kernel/map.lua. If a function has no op, kernel/map.lua writes a kernel instead.
*/
#include "kernel/tree/builtins.h"
#include "lua/kernel.h"
#include <math.h>
#include <stdio.h>

typedef struct writer { fl_text *out; } writer;

static void put(const writer *w, const fl_kexpr *x);

static const char *type_name(int type) {
  return fl_ktypes[type].dtype >= 0 ? fl_dtype_name(fl_ktypes[type].dtype)
                                    : type == FL_KT_U32 ? "u32" : "u64";
}

static void put_call(const writer *w, const char *name, const fl_kexpr *x) {
  fl_text_printf(w->out, "N.%s(", name);
  for (int i = 0; i < x->n; i++) {
    if (i) fl_text_puts(w->out, ", ");
    put(w, x->x[i]);
  }
  fl_text_puts(w->out, ")");
}

static void put_infix(const writer *w, const char *sign, const fl_kexpr *x) {
  fl_text_puts(w->out, "(");
  put(w, x->x[0]);
  fl_text_puts(w->out, sign);
  put(w, x->x[1]);
  fl_text_puts(w->out, ")");
}

static void put_binary(const writer *w, const fl_kexpr *x) {
  static const char *const names[FL_KO_COUNT] = {
    [FL_KO_REM] = "rem", [FL_KO_SHL] = "shl", [FL_KO_SHR] = "shr", [FL_KO_AND] = "band",
    [FL_KO_OR] = "bor",
    [FL_KO_XOR] = "bxor", [FL_KO_LT] = "lt", [FL_KO_LE] = "le", [FL_KO_GT] = "gt",
    [FL_KO_GE] = "ge",
    [FL_KO_EQ] = "eq", [FL_KO_NE] = "ne", [FL_KO_LAND] = "land", [FL_KO_LOR] = "lor" };
  switch (x->op) {
    case FL_KO_ADD: put_infix(w, " + ", x); return;
    case FL_KO_SUB: put_infix(w, " - ", x); return;
    case FL_KO_MUL: put_infix(w, " * ", x); return;
    case FL_KO_DIV:
      if (fl_kt_is_float(x->type)) put_infix(w, " / ", x);
      else put_call(w, "idiv", x);
      return;
    default: put_call(w, names[x->op], x);
  }
}

static void put_number(const writer *w, const fl_kexpr *x) {
  if (!fl_kt_is_float(x->type)) fl_text_printf(w->out, "(%lld)", (long long)x->value.i);
  else if (isnan(x->value.d)) fl_text_puts(w->out, "(0/0)");
  else if (isinf(x->value.d)) fl_text_puts(w->out, x->value.d > 0 ? "(1/0)" : "(-1/0)");
  else
    fl_text_printf(w->out, "(%.17g%s)", x->value.d,
                   x->value.d == floor(x->value.d) && fabs(x->value.d) < 1e15 ? ".0" : "");
}

static void put(const writer *w, const fl_kexpr *x) {
  switch (x->kind) {
    case FL_KX_CONST: put_number(w, x); return;
    case FL_KX_VAR: fl_text_printf(w->out, "a%d", (int)x->var + 1); return;
    case FL_KX_UNARY:
      put_call(w, x->op == FL_KO_NEG ? "neg" : x->op == FL_KO_INVERT ? "invert" : "lnot", x);
      return;
    case FL_KX_BINARY: put_binary(w, x); return;
    case FL_KX_SELECT: put_call(w, "select", x); return;
    case FL_KX_CAST:
      fl_text_printf(w->out, "N.cast(\"%s\", ", type_name(x->type));
      put(w, x->x[0]);
      fl_text_puts(w->out, ")");
      return;
    case FL_KX_CALL: put_call(w, fl_kbuiltins[x->op].id, x); return;
    /* loads and thread numbers, which do not occur here */
    default: fl_text_puts(w->out, "N.other()");
  }
}

static int ktype_of(int dtype) {
  for (int t = 0; t < FL_KT_COUNT; t++) if (fl_ktypes[t].dtype == dtype) return t;
  return FL_KT_VOID;
}

/* (text, list of dtypes, result dtype or nil) -> Lua text, or nil and what is wrong. */
int fl_kernel_map(lua_State *L) {
  fl_lua *b = self_of(L);
  size_t n;
  const char *text = luaL_checklstring(L, 1, &n);
  luaL_checktype(L, 2, LUA_TTABLE);
  uint8_t types[FL_KP_MAX_ARGS];
  const int count = (int)lua_rawlen(L, 2);
  const int result = lua_isnoneornil(L, 3) ? FL_KT_VOID : ktype_of(fl_arg_dtype(L, 3, "map"));
  if (count > FL_KP_MAX_ARGS)
    return fl_lua_fail(L, "map", "%d operands, at most %d", count, FL_KP_MAX_ARGS);
  for (int i = 0; i < count; i++) {
    lua_rawgeti(L, 2, i + 1);
    types[i] = (uint8_t)ktype_of(fl_arg_dtype(L, lua_gettop(L), "map"));
    lua_pop(L, 1);
  }
  lua_settop(L, 3);
  fl_error error = { 0 };
  fl_kmap *m = fl_kmap_parse(&b->c->mem, &error, text, n, types, count, result);
  if (!m) return fl_lua_fail(L, "map", "%s", error.message);
  fl_text out;
  fl_text_init(&out, &b->c->mem);
  const int has_value = m->value != NULL;
  if (m->value) put(&(writer){ &out }, m->value);
  char why[300] = "";
  if (m->error) snprintf(why, sizeof why, "%s", m->error);
  fl_kmap_free(m);
  const char *s = fl_text_str(&out);
  const int ok = has_value && s != NULL, pushed = !ok || fl_lua_push_copy(L, s, out.n);
  fl_text_free(&out);
  if (!pushed) return lua_error(L);
  if (ok) return 1;
  lua_pushnil(L);
  lua_pushstring(L, *why ? why : "no host memory");
  return 2;
}

/* (text) -> how many operands it has */
int fl_kernel_map_arity(lua_State *L) {
  size_t n;
  const char *text = luaL_checklstring(L, 1, &n);
  lua_pushinteger(L, fl_kmap_arity(text, n));
  return 1;
}
