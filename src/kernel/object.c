/*
** Declarations of objects: variables per leaf, initialisers, tables of constants, shared
** memory, pointers into arrays.
*/
#include "kernel/front.h"
#include <string.h>

/* ---- variables of an object --------------------------------------------------------------------- */

static int make_leaf(fl_front *p, const fl_kfield *f, fl_kvkind kind, int32_t line) {
  if (f->is_pointer) {
    fl_refuse(p, line, "pointers stored in memory are outside the language ('%s')",
              f->path);
    return -1;
  }
  if (kind == FL_KV_LOCAL && f->rank) kind = FL_KV_ARRAY;
  const int var = fl_kvar_add(p->f, kind, f->type, f->path, f->count);
  if (var < 0) return -1;
  fl_kvar *v = &p->f->vars[var];
  v->temporary = 0;
  v->line = line;
  v->rank = f->rank;
  memcpy(v->dims, f->dims, sizeof v->dims);
  memcpy(v->stride, f->stride, sizeof v->stride);
  if (kind == FL_KV_SHARED && !f->rank) v->rank = 1, v->dims[0] = 1;
  if (kind != FL_KV_SHARED) {
    fl_kstmt *s = fl_emit(p, FL_KS_DECL, line);
    if (s) s->var = var;
  }
  return var;
}

static fl_value make_object(fl_front *p, const fl_ctype *t, const char *name,
                            fl_kvkind kind, int32_t line) {
  if (p->failed) return fl_val_none();
  if (!p->f || !p->b) {
    fl_refuse(p, line, "a declaration in a constant expression");
    return fl_val_none();
  }
  if (t->kind == FL_C_VOID || !fl_ctype_size(t)) {
    fl_refuse(p, line, "'%s' has no size", name);
    return fl_val_none();
  }
  const int n = fl_ctype_leaves(t);
  fl_kfield *fields = fl_karena_new(p->a, (size_t)n * sizeof *fields);
  if (!fields) return fl_val_none();
  if (!fl_ctype_fields(p->a, t, name, fields)) {
    if (!p->a->failed)
      fl_refuse(p, line, "arrays of more than %d dimensions ('%s')", FL_K_MAX_RANK, name);
    return fl_val_none();
  }
  fl_value v = { .kind = FL_V_PLACE, .type = t, .var = -1 };
  for (int i = 0; i < n && !p->failed; i++) {
    const int var = make_leaf(p, &fields[i], kind, line);
    if (!i) v.var = var;
  }
  return p->failed ? fl_val_none() : v;
}

fl_value fl_decl_object(fl_front *p, const fl_ctype *t, const char *name, int32_t line) {
  return make_object(p, t, name, FL_KV_LOCAL, line);
}

/* ---- initialisers ---------------------------------------------------------------------------------- */

/* One value to its place: a statement, or into the table being collected. */
static void put(fl_front *p, fl_value place, fl_value v, int32_t line) {
  if (p->failed) return;
  if (!p->table) { fl_val_assign(p, place, v, line); return; }
  if (place.type->kind == FL_C_STRUCT && fl_ctype_same(place.type, v.type)) {
    for (int i = 0; i < place.type->s->n_fields && !p->failed; i++) {
      const fl_cfield *f = &place.type->s->fields[i];
      const int32_t n = (int32_t)strlen(f->name);
      put(p, fl_val_member(p, place, f->name, n, line),
          fl_val_member(p, v, f->name, n, line), line);
    }
    return;
  }
  fl_kexpr *e = fl_val_scalar(p, v, line);
  if (!e || place.type->kind != FL_C_SCALAR) {
    fl_refuse(p, line, "a wrong initialiser");
    return;
  }
  e = fl_val_convert(p, e, place.type->scalar);
  if (e && e->kind == FL_KX_CONST)
    p->table[place.var][place.idx ? place.idx->value.i : 0] = e->value;
  else fl_refuse(p, line, "an initialiser that is not constant");
}

static int64_t parts_of(const fl_ctype *t) {
  return t->kind == FL_C_ARRAY ? t->count : t->s->n_fields;
}

static fl_value part(fl_front *p, fl_value v, int64_t i, int32_t line) {
  if (v.type->kind == FL_C_ARRAY)
    return fl_val_index(p, v, fl_kexpr_int(p->a, FL_KT_I64, i), line);
  const char *name = v.type->s->fields[i].name;
  return fl_val_member(p, v, name, (int32_t)strlen(name), line);
}

static void zero(fl_front *p, fl_value place, int32_t line);

/* Elements from..count of an array: a loop where they are many. */
static void zero_array(fl_front *p, fl_value place, int64_t from, int32_t line) {
  const int64_t n = place.type->count;
  if (n - from <= 8) {
    for (int64_t i = from; i < n && !p->failed; i++)
      zero(p, part(p, place, i, line), line);
    return;
  }
  const int t = p->failed ? -1 : fl_front_temp(p, FL_KT_I64, line);
  if (t < 0) return;
  fl_kstmt_assign(p->f, p->b, t, fl_kexpr_int(p->a, FL_KT_I64, from));
  fl_kexpr *i = fl_kexpr_var(p->f, t);
  fl_kstmt *loop = fl_kstmt_loop(
      p->f, p->b, fl_kexpr_binary(p->a, FL_KO_LT, i, fl_kexpr_int(p->a, FL_KT_I64, n)));
  if (!loop) return;
  loop->line = line;
  fl_kblock *out = fl_front_into(p, &loop->body);
  zero(p, fl_val_index(p, place, i, line), line);
  fl_front_into(p, out);
  fl_kstmt_assign(p->f, &loop->other, t,
                  fl_kexpr_binary(p->a, FL_KO_ADD, i, fl_kexpr_int(p->a, FL_KT_I64, 1)));
}

static void zero(fl_front *p, fl_value place, int32_t line) {
  if (p->failed || p->table || !place.type) return;
  if (place.type->kind == FL_C_SCALAR) {
    fl_val_store(p, place, fl_kexpr_zero(p->a, place.type->scalar), 0, line);
  } else if (place.type->kind == FL_C_ARRAY) {
    zero_array(p, place, 0, line);
  } else if (place.type->kind == FL_C_STRUCT) {
    for (int i = 0; i < place.type->s->n_fields && !p->failed; i++)
      zero(p, part(p, place, i, line), line);
  }
}

static int more(fl_front *p) {
  if (!fl_front_is(p, ',')) return 0;
  if (fl_front_is_at(p, 1, '}')) return 0;
  fl_front_next(p);
  return !p->failed;
}

/* Parts of 'place' without braces of their own; 'first' is the clause already read. */
static void fill_bare(fl_front *p, fl_value place, fl_value *first, int32_t line) {
  const int64_t n = parts_of(place.type);
  int64_t i = 0;
  if (!fl_front_enter(p)) return;
  for (; i < n && !p->failed; i++) {
    if (i && !first->type && !more(p)) break;
    const fl_value sub = part(p, place, i, line);
    if (p->failed) break;
    if (!first->type) *first = fl_parse_assign(p);
    if (p->failed || !first->type) break;
    if (sub.type->kind == FL_C_SCALAR || fl_ctype_same(sub.type, first->type)) {
      put(p, sub, *first, line);
      first->type = NULL;
    } else {
      fill_bare(p, sub, first, line);
    }
  }
  if (place.type->kind == FL_C_ARRAY && i < n && !p->table) zero_array(p, place, i, line);
  else for (; i < n && !p->failed; i++) zero(p, part(p, place, i, line), line);
  p->nest--;
}

static void fill_clause(fl_front *p, fl_value place, int32_t line) {
  if (fl_front_is(p, '{')) { fl_decl_fill(p, place, 1); return; }
  if (fl_front_is(p, '.')) {
    fl_refuse(p, line, "designated initialisers are outside the language");
    return;
  }
  fl_value v = fl_parse_assign(p);
  if (p->failed) return;
  if (place.type->kind == FL_C_SCALAR || fl_ctype_same(place.type, v.type))
    put(p, place, v, line);
  else if (place.type->kind == FL_C_ARRAY || place.type->kind == FL_C_STRUCT)
    fill_bare(p, place, &v, line);
}

void fl_decl_fill(fl_front *p, fl_value place, int zero_rest) {
  const int32_t line = fl_front_tok(p)->line;
  int64_t i = 0;
  fl_front_need(p, '{');
  if (p->failed || !fl_front_enter(p) || !place.type) return;
  if (place.type->kind == FL_C_SCALAR) {
    if (fl_front_is(p, '}')) zero(p, place, line);
    else fill_clause(p, place, line);
  } else {
    const int64_t n = parts_of(place.type);
    while (!p->failed && !fl_front_is(p, '}')) {
      if (i == n) { fl_refuse(p, fl_front_tok(p)->line, "too many initialisers"); break; }
      fill_clause(p, part(p, place, i++, line), fl_front_tok(p)->line);
      if (!fl_front_take(p, ',')) break;
    }
    if (zero_rest && place.type->kind == FL_C_ARRAY && !p->table)
      zero_array(p, place, i, line);
    else
      for (; zero_rest && i < n && !p->failed; i++)
        zero(p, part(p, place, i, line), line);
  }
  fl_front_need(p, '}');
  p->nest--;
}

/* ---- tables ------------------------------------------------------------------------------------------ */

/* Number of clauses of the list at the tokens, for int a[] = {…}. */
static int64_t count_clauses(fl_front *p) {
  int64_t n = 0;
  int depth = 0;
  for (int k = 0; fl_front_ahead(p, k)->kind != FL_TOK_END; k++) {
    const fl_ktok *t = fl_front_ahead(p, k);
    const int c = t->kind == FL_TOK_PUNCT ? t->punct : 0;
    if (depth == 1 && n == 0 && c != '}') n = 1;
    if (c == '{' || c == '(' || c == '[') depth++;
    if (c == '}' || c == ')' || c == ']') depth--;
    if (c == ',' && depth == 1 && !fl_front_is_at(p, k + 1, '}')) n++;
    if (!depth) break;
  }
  return n;
}

static const fl_ctype *sized(fl_front *p, const fl_ctype *t, int32_t line) {
  if (t->kind != FL_C_ARRAY || t->count) return t;
  if (!fl_front_is(p, '{')) { fl_refuse(p, line, "an array without a size"); return t; }
  return fl_ctype_array(p->a, t->of, count_clauses(p));
}

/* The constants of an initialiser at the tokens, one array per leaf; NULL: not all constant
** (refused then). */
static fl_kvalue **collect(fl_front *p, const fl_ctype *t, const char *name) {
  const int n = fl_ctype_leaves(t);
  fl_kfield *fields = fl_karena_new(p->a, (size_t)n * sizeof *fields);
  fl_kvalue **data = fl_karena_new(p->a, (size_t)n * sizeof *data);
  if (!data || !fields || !fl_ctype_fields(p->a, t, name, fields)) return NULL;
  for (int i = 0; i < n; i++)
    data[i] = fl_karena_new(p->a, (size_t)fields[i].count * sizeof **data);
  fl_kblock *out = fl_front_into(p, NULL);
  const fl_value place = { .kind = FL_V_PLACE, .type = t, .var = 0 };
  if (!p->a->failed) {
    p->table = data;
    fl_decl_fill(p, place, 1);
    p->table = NULL;
  }
  fl_front_into(p, out);
  return p->failed || p->a->failed ? NULL : data;
}

static int add_table(fl_front *p, const fl_ctype *t, const char *name, int32_t line) {
  fl_kvalue **data = collect(p, t, name);
  fl_symbol *s = data ? fl_front_add(p, name, FL_SYM_TABLE) : NULL;
  if (!s) return 0;
  s->type = t;
  s->data = (const fl_kvalue *const *)data;
  s->line = line;
  return 1;
}

/* Tries to read a const array or struct as a table; undone where it is not constant. */
static int try_table(fl_front *p, const fl_ctype *t, const char *name, int32_t line) {
  const int64_t at = p->at, syms = p->syms.n;
  const int nest = p->nest;
  if (add_table(p, t, name, line)) return 1;
  if (p->a->failed) return 0;
  p->failed = 0;
  p->at = at;
  p->nest = nest;
  p->syms.n = syms;
  return 0;
}

/* ---- declarators ----------------------------------------------------------------------------------------- */

static void bind_object(fl_front *p, const char *name, fl_value v, int is_const,
                        int32_t line) {
  fl_symbol *s = p->failed ? NULL : fl_front_add(p, name, FL_SYM_OBJECT);
  if (!s) return;
  v.is_const = (uint8_t)is_const;
  s->v = v;
  s->line = line;
}

fl_value fl_decl_dynamic(fl_front *p, const fl_ctype *t, const char *name, int32_t line) {
  int64_t n;
  const fl_ctype *of = t->kind == FL_C_ARRAY ? t->of : t;
  const int element = fl_ctype_element(of, &n);
  if (element == FL_KT_VOID) {
    fl_refuse(p, line, "dynamic shared memory of a struct with mixed members");
    return fl_val_none();
  }
  const int var = fl_kvar_add(p->f, FL_KV_SHARED, element, name, 0);
  if (var < 0) return fl_val_none();
  p->f->uses_shared = 1;
  p->f->vars[var].dynamic = 1;
  p->f->vars[var].temporary = 0;
  p->f->vars[var].line = line;
  return (fl_value){ .kind = FL_V_POINTER, .linear = 1, .type = of, .var = var };
}

static void declare_shared(fl_front *p, const fl_specifiers *s, const fl_ctype *t,
                           const char *name, int32_t line) {
  p->f->uses_shared = 1;
  if (!s->is_extern) {
    const int64_t align = fl_ctype_align(t),
                  at = (p->shared_at + align - 1) / align * align;
    const fl_value v = make_object(p, t, name, FL_KV_SHARED, line);
    for (int i = 0; !p->failed && i < fl_ctype_leaves(t); i++)
      p->f->vars[v.var + i].offset = at;
    p->shared_at = at + fl_ctype_size(t);
    if (fl_front_is(p, '=') || fl_front_is(p, '{'))
      fl_refuse(p, line, "shared memory cannot be initialised");
    bind_object(p, name, v, 0, line);
    return;
  }
  const fl_value v = fl_decl_dynamic(p, t, name, line);
  fl_symbol *sym = p->failed ? NULL : fl_front_add(p, name, FL_SYM_POINTER);
  if (sym) sym->v = v;
}

/* Is the pointer assigned again before its block ends? */
static int moves_later(fl_front *p, const char *name) {
  int depth = 1;
  for (int64_t i = p->at; i + 1 < p->toks.n && depth > 0; i++) {
    const fl_ktok *t = &p->toks.at[i], *next = t + 1, *last = i ? t - 1 : t;
    const int c = t->kind == FL_TOK_PUNCT ? t->punct : 0;
    depth += (c == '{') - (c == '}');
    if (!fl_ktok_is(t, name)) continue;
    const int p1 = next->kind == FL_TOK_PUNCT ? next->punct : 0,
              p0 = last->kind == FL_TOK_PUNCT ? last->punct : 0;
    if (p1 == '=' || p1 == FL_PU_INC || p1 == FL_PU_DEC ||
        (p1 >= FL_PU_ADD_SET && p1 <= FL_PU_XOR_SET) || p0 == FL_PU_INC ||
        p0 == FL_PU_DEC)
      return 1;
  }
  return 0;
}

/* from: NULL, or what it points to at first. */
static void declare_pointer(fl_front *p, const fl_ctype *of, int const_of,
                            const char *name, fl_value *from, int32_t line) {
  int offset = -1;
  fl_value v = { .type = NULL };
  if (from) v = fl_cast_to(p, fl_ctype_pointer(p->a, of, const_of), *from, line);
  if (from && !p->failed && v.null)
    fl_refuse(p, line, "pointer '%s' is set to null", name);
  if (p->failed || !p->b) return;
  if (!from || moves_later(p, name)) {
    offset = fl_kvar_add(p->f, FL_KV_LOCAL, FL_KT_I64, name, 1);
    if (offset < 0) return;
    fl_kstmt_decl(p->f, p->b, offset);
    fl_kstmt *s = from ? fl_kstmt_assign(p->f, p->b, offset,
                                         v.idx ? v.idx : fl_kexpr_int(p->a, FL_KT_I64, 0))
                       : NULL;
    if (s) s->line = line;
    v.idx = NULL;
  } else if (v.idx) {
    v.idx = fl_val_stable(p, v.idx);
  }
  fl_symbol *s = fl_front_add(p, name, FL_SYM_POINTER);
  if (!s) return;
  v.sym = 0;
  s->v = v;
  s->type = of;
  s->offset = offset;
  s->line = line;
}

static void declare_reference(fl_front *p, const fl_ctype *t, int is_auto, int is_const,
                              const char *name, int32_t line) {
  if (!fl_front_take(p, '='))
    fl_refuse(p, line, "reference '%s' without an object", name);
  fl_value v = fl_parse_assign(p);
  if (p->failed) return;
  if (v.kind != FL_V_PLACE || (!is_auto && !fl_ctype_same(t, v.type))) {
    fl_refuse(p, line, "reference '%s' needs a variable of its type", name);
    return;
  }
  if (v.idx) v.idx = fl_val_stable(p, v.idx);
  v.is_const |= (uint8_t)is_const;
  fl_symbol *s = fl_front_add(p, name, FL_SYM_REFERENCE);
  if (s) s->v = v;
}

static void declare_auto(fl_front *p, const fl_specifiers *s, const char *name,
                         int32_t line) {
  fl_front_need(p, '=');
  fl_value v = fl_parse_assign(p);
  if (p->failed) return;
  if (v.kind == FL_V_POINTER || (v.kind == FL_V_PLACE && v.type->kind == FL_C_ARRAY)) {
    v = fl_val_pointer(p, v, line);
    declare_pointer(p, v.type, v.is_const, name, &v, line);
    return;
  }
  if (v.kind == FL_V_NONE || v.kind == FL_V_LIST) {
    fl_refuse(p, line, "auto '%s' of nothing", name);
    return;
  }
  const fl_value to = fl_decl_object(p, v.type, name, line);
  fl_val_assign(p, to, v, line);
  bind_object(p, name, to, s->is_const, line);
}

/* A scalar, struct or array of a thread with its initialiser. */
static void declare_object(fl_front *p, const fl_specifiers *s, const fl_ctype *t,
                           const char *name, int32_t line) {
  const int set = fl_front_take(p, '=');
  t = sized(p, t, line);
  if (p->failed || !t) return;
  const int list = fl_front_is(p, '{');
  const int fixed = s->is_const || s->is_constant;
  if (list && fixed && t->kind != FL_C_SCALAR && try_table(p, t, name, line)) return;
  if (s->is_static && !fixed)
    fl_refuse(p, line, "static variables are outside the language");
  if (t->kind == FL_C_SCALAR && set && !list) {
    fl_kexpr *e = fl_val_convert(p, fl_parse_scalar(p), t->scalar);
    if (p->failed || !e) return;
    if (fixed && e->kind == FL_KX_CONST) {
      fl_symbol *c = fl_front_add(p, name, FL_SYM_CONSTANT);
      if (c) c->v = fl_val_expr(e);
      return;
    }
    const fl_value v = fl_decl_object(p, t, name, line);
    fl_val_store(p, v, e, 0, line);
    bind_object(p, name, v, fixed, line);
    return;
  }
  const fl_value v = fl_decl_object(p, t, name, line);
  if (p->failed) return;
  if (list) fl_decl_fill(p, v, 1);
  else if (set) fl_val_assign(p, v, fl_parse_assign(p), line);
  else if (fl_front_take(p, '(')) {
    fl_value args[4];
    int n = 0;
    do args[n++] = fl_parse_assign(p); while (n < 4 && fl_front_take(p, ','));
    fl_front_need(p, ')');
    if (n == 1) fl_val_assign(p, v, args[0], line);
    else fl_refuse(p, line, "constructors are outside the language; write {…}");
  }
  bind_object(p, name, v, fixed, line);
}

static void declarator(fl_front *p, const fl_specifiers *s) {
  int ref;
  const fl_ctype *t = fl_decl_pointers(p, s, &ref);
  const int32_t line = fl_front_tok(p)->line;
  const char *name = fl_front_name(p);
  t = fl_decl_arrays(p, t);
  if (p->failed || !t) return;
  if (s->is_typedef) {
    fl_symbol *sym = fl_front_add(p, name, FL_SYM_TYPE);
    if (sym) sym->type = t;
  } else if (s->is_shared) {
    declare_shared(p, s, t, name, line);
  } else if (ref) {
    declare_reference(p, t, s->is_auto, s->is_const, name, line);
  } else if (t->kind == FL_C_POINTER && t->of->kind != FL_C_POINTER) {
    if (s->is_auto) { declare_auto(p, s, name, line); return; }
    if (fl_front_take(p, '=')) {
      fl_value v = fl_parse_assign(p);
      if (!p->failed) declare_pointer(p, t->of, t->const_of, name, &v, line);
    } else {
      declare_pointer(p, t->of, t->const_of, name, NULL, line);
    }
  } else if (t->kind == FL_C_POINTER) {
    fl_refuse(p, line, "pointers to pointers are outside the language");
  } else if (s->is_auto) {
    declare_auto(p, s, name, line);
  } else {
    declare_object(p, s, t, name, line);
  }
}

static int parse_using(fl_front *p) {
  if (!fl_front_word(p, "using")) return 0;
  const int32_t line = fl_front_tok(p)->line;
  if (fl_front_word(p, "namespace")) {
    while (!p->failed && !fl_front_is(p, ';') && fl_front_tok(p)->kind != FL_TOK_END)
      fl_front_next(p);
    fl_front_need(p, ';');
    return 1;
  }
  const char *name = fl_front_name(p);
  if (!fl_front_take(p, '='))
    fl_refuse(p, line, "using declarations are outside the language");
  const fl_ctype *t = fl_decl_type_name(p);
  fl_symbol *s = t ? fl_front_add(p, name, FL_SYM_TYPE) : NULL;
  if (s) s->type = t;
  fl_front_need(p, ';');
  return 1;
}

void fl_decl_local(fl_front *p) {
  if (parse_using(p)) return;
  const fl_specifiers s = fl_decl_specifiers(p);
  if (!s.type || fl_front_take(p, ';')) return;
  do declarator(p, &s); while (!p->failed && fl_front_take(p, ','));
  if (fl_front_is(p, ':'))
    fl_refuse(p, fl_front_tok(p)->line, "range-based for is outside the language");
  fl_front_need(p, ';');
}

/* ---- file scope --------------------------------------------------------------------------------------------- */

static void wrong(fl_front *p, const char *name, const char *why) {
  fl_symbol *s = fl_front_add(p, name, FL_SYM_WRONG);
  if (s) s->why = why;
}

static void global(fl_front *p, const fl_specifiers *s) {
  int ref;
  const fl_ctype *t = fl_decl_pointers(p, s, &ref);
  const int32_t line = fl_front_tok(p)->line;
  const char *name = fl_front_name(p);
  t = fl_decl_arrays(p, t);
  if (p->failed || !t) return;
  const int set = fl_front_take(p, '='), list = fl_front_is(p, '{');
  if (s->is_typedef) {
    fl_symbol *sym = fl_front_add(p, name, FL_SYM_TYPE);
    if (sym) sym->type = t;
  } else if (s->is_shared && s->is_extern) {
    fl_symbol *sym = fl_front_add(p, name, FL_SYM_DYNAMIC);
    if (sym) sym->type = t, sym->line = line;
  } else if (s->is_shared) {
    wrong(p, name, "declare shared memory inside the kernel");
  } else if (!s->is_const && !s->is_constant) {
    wrong(p, name, "variables of file scope that are not const are outside the language");
  } else if (!set && !list) {
    wrong(p, name, "has no initialiser, and nobody could set it");
  } else if (t->kind == FL_C_POINTER || ref) {
    wrong(p, name, "pointers at file scope are outside the language");
  } else if (list && t->kind != FL_C_SCALAR) {
    t = sized(p, t, line);
    if (t && !p->failed) add_table(p, t, name, line);
    return;
  } else if (t->kind == FL_C_SCALAR) {
    const int brace = fl_front_take(p, '{');
    fl_kexpr *e = fl_val_convert(p, fl_parse_scalar(p), t->scalar);
    if (brace) fl_front_need(p, '}');
    if (e && e->kind != FL_KX_CONST)
      fl_refuse(p, line, "'%s' is initialised by what is not constant", name);
    fl_symbol *c = p->failed || !e ? NULL : fl_front_add(p, name, FL_SYM_CONSTANT);
    if (c) c->v = fl_val_expr(e);
    return;
  } else {
    wrong(p, name, "its initialiser is not read here; write {…}");
  }
  while (!p->failed && !fl_front_is(p, ';') && !fl_front_is(p, ',') &&
         fl_front_tok(p)->kind != FL_TOK_END) {
    if (fl_front_is(p, '{') || fl_front_is(p, '(') || fl_front_is(p, '['))
      fl_front_skip(p);
    else fl_front_next(p);
  }
}

void fl_decl_global(fl_front *p, fl_specifiers s) {
  if (fl_front_take(p, ';')) return;
  do global(p, &s); while (!p->failed && fl_front_take(p, ','));
  fl_front_need(p, ';');
}
