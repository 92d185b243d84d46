/*
** Arena, types, variables and constructors of tree.h. Constructors check their types with assert
** (our bugs); failures that a user can cause (depth, memory) are recorded in the arena.
*/
#include "kernel/tree/tree.h"
#include "base/hash.h"
#include "kernel/tree/fold.h"
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- arena ------------------------------------------------------------------------------- */

struct fl_karena_chunk { struct fl_karena_chunk *next; size_t bytes; };
enum { CHUNK = 1 << 15, ALIGNED = 16, HEAD = 64 };

void fl_karena_init(fl_karena *a, fl_mem *m) {
  memset(a, 0, sizeof *a);
  a->mem = m;
}

void fl_karena_close(fl_karena *a) {
  while (a->chunks) {
    struct fl_karena_chunk *c = a->chunks;
    a->chunks = c->next;
    fl_mem_open(c, c->bytes);
    fl_free(a->mem, c, c->bytes);
  }
  a->at = a->end = NULL;
}

/* May the arena take 'size' bytes more? If not, records why, unless it has failed already: this
** failure may follow from that one. */
static int may_take(fl_karena *a, size_t size) {
  const int large = a->most && (size > a->most || a->bytes > a->most - size);
  const int stopped = a->stop && atomic_load_explicit(a->stop, memory_order_relaxed);
  if (!large && !stopped) return 1;
  if (!a->failed) a->failed = stopped ? FL_KARENA_STOPPED : FL_KARENA_LARGE;
  return 0;
}

void *fl_karena_new(fl_karena *a, size_t asked) {
  if (asked > (size_t)1 << 40) return a->failed = FL_KARENA_MEMORY, NULL;
  const size_t bytes = (asked + ALIGNED - 1) / ALIGNED * ALIGNED + FL_MEM_GAP;
  if ((size_t)(a->end - a->at) < bytes) {
    const size_t size = HEAD + (bytes > CHUNK - HEAD ? bytes : CHUNK - HEAD);
    if (!may_take(a, size)) return NULL;
    struct fl_karena_chunk *c = fl_alloc(a->mem, size);
    if (!c) return a->failed = FL_KARENA_MEMORY, NULL;
    a->bytes += size;
    c->next = a->chunks;
    c->bytes = size;
    a->chunks = c;
    a->at = (char *)c + HEAD;
    a->end = (char *)c + size;
    fl_mem_close(a->at, size - HEAD);
  }
  void *p = a->at;
  a->at += bytes;
  fl_mem_open(p, asked);
  return memset(p, 0, asked);
}

void *fl_karena_room(fl_karena *a, void *at, int n, int32_t *cap, size_t size) {
  if (n < *cap) return at;
  const int32_t more = *cap ? 2 * *cap : 16;
  void *to = fl_karena_new(a, (size_t)more * size);
  if (!to) return NULL;
  assert(!n || at);
  if (n) memcpy(to, at, (size_t)n * size);
  *cap = more;
  return to;
}

char *fl_karena_str(fl_karena *a, const char *s, size_t n) {
  char *p = fl_karena_new(a, n + 1);
  if (p) memcpy(p, s, n);
  return p;
}

char *fl_karena_printf(fl_karena *a, const char *fmt, ...) {
  va_list list, again;
  va_start(list, fmt);
  va_copy(again, list);
  const int n = vsnprintf(NULL, 0, fmt, list);
  char *text = n < 0 ? NULL : fl_karena_new(a, (size_t)n + 1);
  if (text) vsnprintf(text, (size_t)n + 1, fmt, again);
  va_end(again);
  va_end(list);
  return text;
}

/* ---- types ------------------------------------------------------------------------------- */

const fl_ktype_info fl_ktypes[FL_KT_COUNT] = {
  [FL_KT_VOID] = { "void", "void", 0, 0, 0, -1 },
  [FL_KT_BOOL] = { "bool", "bool", 1, 0, 0, FLAME_BOOL },
  [FL_KT_I8] = { "i8", "signed char", 1, 0, 1, FLAME_I8 },
  [FL_KT_U8] = { "u8", "unsigned char", 1, 0, 0, FLAME_U8 },
  [FL_KT_I16] = { "i16", "short", 2, 0, 1, FLAME_I16 },
  [FL_KT_U16] = { "u16", "unsigned short", 2, 0, 0, -1 },
  [FL_KT_I32] = { "i32", "int", 4, 0, 1, FLAME_I32 },
  [FL_KT_U32] = { "u32", "unsigned", 4, 0, 0, -1 },
  [FL_KT_I64] = { "i64", "long long", 8, 0, 1, FLAME_I64 },
  [FL_KT_U64] = { "u64", "unsigned long long", 8, 0, 0, -1 },
  [FL_KT_F16] = { "f16", "__half", 2, 1, 1, FLAME_F16 },
  [FL_KT_BF16] = { "bf16", "__nv_bfloat16", 2, 1, 1, FLAME_BF16 },
  [FL_KT_F32] = { "f32", "float", 4, 1, 1, FLAME_F32 },
  [FL_KT_F64] = { "f64", "double", 8, 1, 1, FLAME_F64 },
};

/* ---- functions and variables ------------------------------------------------------------- */

fl_kfunc *fl_kfunc_new(fl_karena *a, const char *name) {
  fl_kfunc *f = fl_karena_new(a, sizeof *f);
  if (!f) return NULL;
  f->arena = a;
  f->name = fl_karena_str(a, name, strlen(name));
  f->has_body = 1;
  return f->name ? f : NULL;
}

/* The slot of the name in the hash table of variables, or the free slot for it. */
static int32_t *name_slot(const fl_kfunc *f, const char *name) {
  for (uint64_t h = fl_hash64(name, strlen(name), 7);; h++) {
    int32_t *at = &f->names[h & (uint64_t)(f->cap_names - 1)];
    if (!*at || !strcmp(f->vars[*at - 1].name, name)) return at;
  }
}

/* Makes sure that the table has all variables and is at most half full. It is rebuilt when it
** grows, and when n_names is not n_vars: then variables were renumbered. 0: no memory. */
static int know_names(fl_kfunc *f) {
  if (f->n_names == f->n_vars && 2 * f->n_vars < f->cap_names) return 1;
  const int32_t cap = f->cap_names && 2 * f->n_vars < f->cap_names
                      ? f->cap_names : 4 * (f->cap_vars + 16);
  int32_t size = 64;
  while (size < cap) size *= 2;
  f->names = fl_karena_new(f->arena, (size_t)size * sizeof *f->names);
  f->cap_names = f->names ? size : 0;
  if (!f->names) return 0;
  for (f->n_names = 0; f->n_names < f->n_vars; f->n_names++) {
    int32_t *at = name_slot(f, f->vars[f->n_names].name);
    if (!*at) *at = f->n_names + 1;
  }
  return 1;
}

/* A C identifier from "p.x": its first 64 characters, where all but letters and digits become '_'.
** If it is taken, the number of the new variable is appended, or the next number that gives a free
** name. */
static const char *unique_name(fl_kfunc *f, const char *source) {
  char text[96];
  size_t n = 0;
  for (; source[n] && n < 64; n++) {
    const char c = source[n];
    const int good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    text[n] = good ? c : '_';
  }
  text[n] = 0;
  /* the name that fl_ktemp asks for */
  if (!strcmp(source, "t#")) n = (size_t)snprintf(text, sizeof text, "t%d", f->n_vars);
  if (!know_names(f)) return NULL;
  for (int k = f->n_vars; *name_slot(f, text); k++)
    snprintf(text + n, sizeof text - n, "_%d", k);
  return fl_karena_str(f->arena, text, strlen(text));
}

int fl_kvar_add(fl_kfunc *f, fl_kvkind kind, int type, const char *name, int64_t count) {
  fl_kvar *v = fl_karena_room(f->arena, f->vars, f->n_vars, &f->cap_vars, sizeof *v);
  if (!v) return -1;
  f->vars = v;
  v += f->n_vars;
  memset(v, 0, sizeof *v);
  v->name = unique_name(f, name);
  v->source = fl_karena_str(f->arena, name, strlen(name));
  if (!v->name || !v->source) return -1;
  v->kind = (uint8_t)kind;
  v->type = (uint8_t)type;
  v->param = -1;
  v->temporary = 1;
  v->count = count;
  if (kind != FL_KV_LOCAL && kind != FL_KV_POINTER && count > 0) {
    v->rank = 1;
    v->dims[0] = count;
  }
  if (kind == FL_KV_TABLE) v->is_const = 1;
  *name_slot(f, v->name) = f->n_vars + 1;
  f->n_names++;
  return f->n_vars++;
}

int fl_kparam_add(fl_kfunc *f, const char *name, int type, int is_pointer, int is_const) {
  fl_kparam *all = fl_karena_new(f->arena, (size_t)(f->n_params + 1) * sizeof *all);
  const int var = fl_kvar_add(f, is_pointer ? FL_KV_POINTER : FL_KV_LOCAL, type, name,
                              is_pointer ? 0 : 1);
  if (!all || var < 0) return -1;
  if (f->n_params) memcpy(all, f->params, (size_t)f->n_params * sizeof *all);
  fl_kparam *p = &all[f->n_params];
  const fl_kparam *last = f->n_params ? p - 1 : NULL;
  p->name = f->vars[var].name;
  p->type_name = fl_ktypes[type].c;
  p->is_pointer = (uint8_t)is_pointer;
  p->is_const = f->vars[var].is_const = (uint8_t)is_const;
  p->known = p->width = 1;
  p->type = (uint8_t)type;
  p->size = p->align = is_pointer ? 8 : fl_kt_size(type);
  p->pointee_size = is_pointer ? fl_kt_size(type) : 0;
  p->offset = last ? (last->offset + last->size + p->align - 1) / p->align * p->align : 0;
  p->first_var = var;
  p->n_vars = 1;
  f->vars[var].param = f->n_params++;
  f->vars[var].temporary = 0;
  f->params = all;
  return var;
}

int64_t fl_kvar_offset(const fl_kvar *v, int64_t e) {
  int64_t at = v->offset;
  for (int k = v->rank - 1; k >= 0; k--) {
    at += e % v->dims[k] * v->stride[k];
    e /= v->dims[k];
  }
  return at;
}

/* Notes that an operand is missing, and returns NULL. Either memory ran out, which the arena has
** recorded, or the operand was refused. */
static void *missing(fl_karena *a) {
  if (!a->failed) a->failed = FL_KARENA_MISSING;
  return NULL;
}

/* ---- expressions ------------------------------------------------------------------------- */

/* The depth of a node with these operands; 0: too deep. */
static int depth_over(fl_karena *a, fl_kexpr *const *x, int n) {
  int depth = 0;
  for (int i = 0; i < n; i++)
    if (x[i]->depth > depth) depth = x[i]->depth;
  if (depth < FL_K_MAX_DEPTH) return depth + 1;
  if (!a->failed) a->failed = FL_KARENA_DEEP;
  return 0;
}

/* A node with n operands; NULL if one is missing or it would be too deep. */
static fl_kexpr *node(fl_karena *a, int kind, int type, int op, int n, fl_kexpr *const *x) {
  int line = 0;
  for (int i = 0; i < n; i++) {
    if (!x[i]) return missing(a);
    if (!line) line = x[i]->line;
  }
  const int depth = depth_over(a, x, n);
  if (!depth) return NULL;
  fl_kexpr *e = fl_karena_new(a, sizeof *e);
  if (!e) return NULL;
  e->kind = (uint8_t)kind;
  e->type = (uint8_t)type;
  e->op = (uint8_t)op;
  e->n = (uint8_t)n;
  e->depth = (uint16_t)depth;
  e->line = line;
  e->var = e->site = -1;
  for (int i = 0; i < n; i++) e->x[i] = x[i];
  return e;
}

int fl_kexpr_settle(fl_karena *a, fl_kexpr *x) {
  const int depth = depth_over(a, x->x, x->n);
  if (depth) x->depth = (uint16_t)depth;
  return depth != 0;
}

static void number_loops(fl_kfunc *f, fl_kblock b) {
  for (fl_kstmt *s = b.first; s; s = s->next) {
    if (s->kind == FL_KS_LOOP) s->label = f->n_loops++;
    number_loops(f, s->body);
    number_loops(f, s->other);
  }
}

void fl_kfunc_number_loops(fl_kfunc *f) {
  f->n_loops = 0;
  number_loops(f, f->body);
}

fl_kexpr *fl_kexpr_over(fl_karena *a, const fl_kexpr *x, fl_kexpr *const *operands) {
  fl_kexpr *e = node(a, x->kind, x->type, x->op, x->n, operands);
  if (!e) return NULL;
  e->line = x->line;
  e->var = x->var;
  e->site = x->site;
  e->value = x->value;
  return e;
}

fl_kexpr *fl_kexpr_mapped(fl_karena *a, fl_kexpr *x, fl_kexpr *(*to)(void *arg, fl_kexpr *x),
                          void *arg) {
  fl_kexpr *k[FL_K_MAX_ARGS];
  int same = 1;
  for (int i = 0; i < x->n; i++) {
    if (!(k[i] = to(arg, x->x[i]))) return NULL;
    same &= k[i] == x->x[i];
  }
  return same ? x : fl_kexpr_over(a, x, k);
}

static fl_kexpr *constant(fl_karena *a, int type, fl_kvalue v, int32_t line) {
  fl_kexpr *e = node(a, FL_KX_CONST, type, 0, 0, NULL);
  if (!e) return NULL;
  e->value = v;
  e->line = line;
  return e;
}

fl_kexpr *fl_kexpr_int(fl_karena *a, int type, int64_t value) {
  assert(fl_kt_is_int(type));
  return constant(a, type, fl_kfold_cast((fl_kvalue){ .i = value }, FL_KT_I64, type), 0);
}

fl_kexpr *fl_kexpr_float(fl_karena *a, int type, double value) {
  assert(fl_kt_is_float(type));
  return constant(a, type, fl_kfold_cast((fl_kvalue){ .d = value }, FL_KT_F64, type), 0);
}

fl_kexpr *fl_kexpr_zero(fl_karena *a, int type) {
  return fl_kt_is_float(type) ? fl_kexpr_float(a, type, 0) : fl_kexpr_int(a, type, 0);
}

fl_kexpr *fl_kexpr_var(fl_kfunc *f, int var) {
  if (var < 0) return missing(f->arena);
  assert(var < f->n_vars && f->vars[var].kind == FL_KV_LOCAL);
  fl_kexpr *e = node(f->arena, FL_KX_VAR, f->vars[var].type, 0, 0, NULL);
  if (e) e->var = var;
  return e;
}

fl_kexpr *fl_kexpr_load(fl_kfunc *f, int var, fl_kexpr *index) {
  if (var < 0 || !index) return missing(f->arena);
  assert(var < f->n_vars && f->vars[var].kind != FL_KV_LOCAL);
  fl_kexpr *i = fl_kexpr_cast(f->arena, FL_KT_I64, index);
  fl_kexpr *e = node(f->arena, FL_KX_LOAD, f->vars[var].type, 0, 1, &i);
  if (!e) return NULL;
  e->var = var;
  e->site = f->n_sites++;
  return e;
}

fl_kexpr *fl_kexpr_special(fl_karena *a, int special) {
  return node(a, FL_KX_SPECIAL, special == FL_KSPECIAL_WARP_SIZE ? FL_KT_I32 : FL_KT_U32,
              special, 0, NULL);
}

fl_kexpr *fl_kexpr_unary(fl_karena *a, int op, fl_kexpr *x) {
  if (!x) return missing(a);
  assert(op != FL_KO_NOT || x->type == FL_KT_BOOL);
  fl_kvalue v;
  if (x->kind == FL_KX_CONST && fl_kfold_unary(op, x->type, x->value, &v))
    return constant(a, x->type, v, x->line);
  return node(a, FL_KX_UNARY, x->type, op, 1, &x);
}

static int is_shift(int op) { return op == FL_KO_SHL || op == FL_KO_SHR; }

fl_kexpr *fl_kexpr_binary(fl_karena *a, int op, fl_kexpr *x, fl_kexpr *y) {
  if (!x || !y) return missing(a);
  assert(x->type == y->type || is_shift(op));
  const int type = op >= FL_KO_LT && op <= FL_KO_LOR ? FL_KT_BOOL : x->type;
  fl_kvalue v;
  if (x->kind == FL_KX_CONST && y->kind == FL_KX_CONST) {
    const fl_kvalue count = is_shift(op) ? fl_kfold_cast(y->value, y->type, FL_KT_I64) : y->value;
    if (fl_kfold_binary(op, x->type, x->value, count, &v)) return constant(a, type, v, x->line);
  }
  return node(a, FL_KX_BINARY, type, op, 2, (fl_kexpr *[]){ x, y });
}

fl_kexpr *fl_kexpr_select(fl_karena *a, fl_kexpr *c, fl_kexpr *x, fl_kexpr *y) {
  if (!c || !x || !y) return missing(a);
  assert(c->type == FL_KT_BOOL && x->type == y->type);
  if (c->kind == FL_KX_CONST) return c->value.i ? x : y;
  return node(a, FL_KX_SELECT, x->type, 0, 3, (fl_kexpr *[]){ c, x, y });
}

fl_kexpr *fl_kexpr_cast(fl_karena *a, int type, fl_kexpr *x) {
  if (!x) return missing(a);
  if (x->type == type) return x;
  if (x->kind == FL_KX_CONST)
    return constant(a, type, fl_kfold_cast(x->value, x->type, type), x->line);
  return node(a, FL_KX_CAST, type, 0, 1, &x);
}

static fl_kexpr *special_as(fl_karena *a, int type, int special) {
  return fl_kexpr_cast(a, type, fl_kexpr_special(a, special));
}

fl_kexpr *fl_kexpr_number(fl_karena *a, int type, int at, int size) {
  fl_kexpr *x = special_as(a, type, at + 2);
  for (int k = 1; k >= 0; k--) {
    fl_kexpr *below = fl_kexpr_binary(a, FL_KO_MUL, special_as(a, type, size + k), x);
    x = fl_kexpr_binary(a, FL_KO_ADD, special_as(a, type, at + k), below);
  }
  return x;
}

fl_kexpr *fl_kexpr_volume(fl_karena *a, int type, int size) {
  fl_kexpr *x = fl_kexpr_binary(a, FL_KO_MUL, special_as(a, type, size + 1),
                                special_as(a, type, size + 2));
  return fl_kexpr_binary(a, FL_KO_MUL, special_as(a, type, size), x);
}

fl_kexpr *fl_kexpr_call(fl_karena *a, int builtin, int type, int n, fl_kexpr *const *x) {
  assert(n <= FL_K_MAX_ARGS);
  return node(a, FL_KX_CALL, type, builtin, n, x);
}

fl_kexpr *fl_kexpr_truth(fl_karena *a, fl_kexpr *x) {
  if (!x || x->type == FL_KT_BOOL) return x;
  if (x->type < FL_KT_I32) x = fl_kexpr_cast(a, FL_KT_I32, x);
  return !x ? NULL : fl_kexpr_binary(a, FL_KO_NE, x, fl_kexpr_zero(a, x->type));
}

/* ---- statements -------------------------------------------------------------------------- */

fl_kstmt *fl_kstmt_new(fl_karena *a, fl_kblock *b, int kind, int line) {
  fl_kstmt *s = fl_karena_new(a, sizeof *s);
  if (!s) return NULL;
  s->kind = (uint8_t)kind;
  s->line = line;
  s->var = s->result = s->site = s->label = -1;
  fl_kblock_put(b, s);
  return s;
}

void fl_kblock_append(fl_kblock *b, fl_kblock more) {
  if (!more.first) return;
  if (b->last) b->last->next = more.first;
  else b->first = more.first;
  b->last = more.last;
}

void fl_kblock_put(fl_kblock *b, fl_kstmt *s) { fl_kblock_append(b, (fl_kblock){ s, s }); }

fl_kstmt *fl_kblock_take(fl_kblock *b) {
  fl_kstmt *s = b->first;
  if (!s) return NULL;
  b->first = s->next;
  s->next = NULL;
  return s;
}

void fl_kblock_before(fl_kblock *b, const fl_kstmt *s, fl_kblock more) {
  fl_kblock all = { NULL, NULL };
  while (b->first && b->first != s) fl_kblock_put(&all, fl_kblock_take(b));
  fl_kblock_append(&all, more);
  fl_kblock_append(&all, *b);
  *b = all;
}

void fl_kblock_drop_last(fl_kblock *b) {
  fl_kblock kept = { NULL, NULL };
  for (fl_kstmt *s; b->first != b->last && (s = fl_kblock_take(b));) fl_kblock_put(&kept, s);
  *b = kept;
}

void fl_kstmt_set_upright(fl_karena *a, fl_kstmt *s) {
  if (s->body.first || !s->other.first) return;
  s->body = s->other;
  s->other = (fl_kblock){ NULL, NULL };
  s->x[0] = fl_kexpr_unary(a, FL_KO_NOT, s->x[0]);
}

/* Adds a statement with the operands x and y, which may be NULL; NULL: no memory. */
static fl_kstmt *with(fl_kfunc *f, fl_kblock *b, int kind, int var, fl_kexpr *x, fl_kexpr *y) {
  fl_kstmt *s = fl_kstmt_new(f->arena, b, kind, x ? x->line : 0);
  if (!s) return NULL;
  s->var = var;
  s->x[0] = x;
  s->x[1] = y;
  return s;
}

fl_kstmt *fl_kstmt_decl(fl_kfunc *f, fl_kblock *b, int var) {
  return with(f, b, FL_KS_DECL, var, NULL, NULL);
}

fl_kstmt *fl_kstmt_assign(fl_kfunc *f, fl_kblock *b, int var, fl_kexpr *value) {
  if (!value || var < 0) return missing(f->arena);
  assert(f->vars[var].kind == FL_KV_LOCAL && f->vars[var].type == value->type);
  return with(f, b, FL_KS_ASSIGN, var, value, NULL);
}

fl_kstmt *fl_kstmt_store(fl_kfunc *f, fl_kblock *b, int var, fl_kexpr *index, fl_kexpr *value) {
  fl_kexpr *i = fl_kexpr_cast(f->arena, FL_KT_I64, index);
  if (!i || !value || var < 0) return missing(f->arena);
  assert(f->vars[var].kind != FL_KV_LOCAL);
  fl_kstmt *s = with(f, b, FL_KS_STORE, var, i, value);
  if (s) s->site = f->n_sites++;
  return s;
}

fl_kstmt *fl_kstmt_accumulate(fl_kfunc *f, fl_kblock *b, int var, fl_kexpr *index,
                              fl_kexpr *value) {
  fl_kstmt *s = fl_kstmt_store(f, b, var, index, value);
  if (s) s->accumulate = 1;
  return s;
}

fl_kstmt *fl_kstmt_atomic(fl_kfunc *f, fl_kblock *b, int op, int mode, int var, fl_kexpr *index,
                          fl_kexpr *value, int result) {
  fl_kstmt *s = fl_kstmt_store(f, b, var, index, value);
  if (!s) return NULL;
  s->kind = FL_KS_ATOMIC;
  s->op = (uint8_t)op;
  s->mode = (uint8_t)mode;
  s->result = result;
  f->uses_atomics = 1;
  return s;
}

fl_kstmt *fl_kstmt_if(fl_kfunc *f, fl_kblock *b, fl_kexpr *cond) {
  if (!cond) return missing(f->arena);
  assert(cond->type == FL_KT_BOOL);
  return with(f, b, FL_KS_IF, -1, cond, NULL);
}

fl_kstmt *fl_kstmt_loop(fl_kfunc *f, fl_kblock *b, fl_kexpr *cond) {
  fl_kstmt *s = with(f, b, FL_KS_LOOP, -1, cond, NULL);
  if (s) s->label = f->n_loops++;
  return s;
}

fl_kstmt *fl_kstmt_block(fl_kfunc *f, fl_kblock *b) {
  fl_kstmt *s = with(f, b, FL_KS_BLOCK, -1, NULL, NULL);
  if (s) s->label = f->n_labels++;
  return s;
}

