/*
** Declarations, in functions and at file scope: objects, shared memory, pointers into arrays,
** references, auto.
*/
#include "kernel/front/forms.h"
#include "kernel/front/number.h"
#include "kernel/front/scope.h"
#include "kernel/front/template.h"
#include <string.h>

/* ---- declarators ----------------------------------------------------------------------------- */

static void bind_object(fl_front *p, const char *name, fl_cvalue v, int is_const,
                        int32_t line) {
  v.is_const = (uint8_t)is_const;
  fl_symbol *s = fl_front_bind(p, name, FL_SYM_OBJECT, v);
  if (s) s->line = line;
}

fl_cvalue fl_decl_dynamic(fl_front *p, const fl_ctype *t, const char *name, int32_t line) {
  int64_t n;
  const fl_ctype *of = t->kind == FL_C_ARRAY ? t->of : t;
  const int element = fl_ctype_element(of, &n);
  if (element == FL_KT_VOID)
    return fl_val_refuse(p, line, "dynamic shared memory of a struct with mixed members (give the "
                         "array a size)");
  const int var = fl_kvar_add(p->f, FL_KV_SHARED, element, name, 0);
  if (var < 0) return fl_val_none();
  p->f->uses_shared = 1;
  p->f->vars[var].dynamic = 1;
  p->f->vars[var].temporary = 0;
  p->f->vars[var].line = line;
  return (fl_cvalue){ .kind = FL_V_POINTER, .linear = 1, .type = of, .var = var };
}

fl_cvalue fl_decl_shared(fl_front *p, const fl_ctype *t, const char *name, int32_t line) {
  fl_cvalue v;
  p->f->uses_shared = 1;
  /* a pointer into one of several arrays may point into it */
  const int one = p->turning && fl_decl_numbers(p, t, FL_KV_SHARED, name, &v, line);
  if (!one) v = fl_decl_make(p, t, name, FL_KV_SHARED, line);
  if (p->failed) return fl_val_none();
  const int own = v.linear ? fl_kt_size(p->f->vars[v.var].type) : 1;
  const int64_t align = fl_ctype_align(t) > own ? fl_ctype_align(t) : own,
                at = (p->shared_at + align - 1) / align * align;
  for (int i = 0; i < (v.linear ? 1 : fl_ctype_leaves(t)); i++) p->f->vars[v.var + i].offset = at;
  p->shared_at = at + fl_ctype_size(t);
  return v;
}

static void declare_shared(fl_front *p, const fl_specifiers *s, const fl_ctype *t,
                           const char *name, int32_t line) {
  p->f->uses_shared = 1;
  if (!s->is_extern) {
    const fl_cvalue v = fl_decl_shared(p, t, name, line);
    if (fl_front_is(p, '=') || fl_front_is(p, '{'))
      fl_refuse(p, line, "shared memory cannot be initialised");
    bind_object(p, name, v, 0, line);
    return;
  }
  const fl_cvalue v = fl_decl_dynamic(p, t, name, line);
  fl_front_bind(p, name, FL_SYM_POINTER, v);
}

/* Is the pointer assigned, incremented or (with p->turning) an argument before its block ends? */
static int moves_later(fl_front *p, const char *name) {
  return fl_turn_moves(p, p->at, 1, name, 1);
}

/* Declares a pointer that is null and stays null. */
static void declare_null(fl_front *p, const fl_ctype *of, const char *name, fl_cvalue v,
                         int32_t line) {
  if (moves_later(p, name)) fl_refuse(p, line, "pointer '%s' is set to null", name);
  fl_symbol *s = fl_front_bind(p, name, FL_SYM_POINTER, v);
  if (s) s->type = of, s->line = line;
}

/* Makes the BOOL variable that is true while the pointer 'name' is not null, for a pointer that is
** null at first and assigned later; it begins as false. -1: no memory. */
static int null_at_first(fl_front *p, const char *name) {
  const int var = fl_kvar_add(p->f, FL_KV_LOCAL, FL_KT_BOOL, name, 1);
  if (var < 0) return -1;
  fl_kstmt_decl(p->f, p->b, var);
  fl_kstmt_assign(p->f, p->b, var, fl_kexpr_int(p->a, FL_KT_BOOL, 0));
  return var;
}

/* Declares the pointer 'name' to type 'of'. from: its first value; NULL: it has none. */
static void declare_pointer(fl_front *p, const fl_ctype *of, int const_of,
                            const char *name, fl_cvalue *from, int32_t line) {
  int offset = -1;
  fl_cvalue v = { .type = NULL, .is_const = (uint8_t)const_of };
  if (from) v = fl_pointer_as(p, fl_ctype_pointer(p->a, of, const_of), *from, line);
  if (p->failed) return;
  const int null = from && v.null && p->b && moves_later(p, name) ? null_at_first(p, name) : -1;
  if (null >= 0) from = NULL;
  if (from && v.null) { declare_null(p, of, name, v, line); return; }
  if (p->failed || !p->b) return;
  if (null >= 0) v.type = NULL;
  const int turned = from && fl_turn_of(p, v.var),
            fits = p->turning && !p->failed && fl_turn_fits(p, of, from ? &v : NULL);
  const int turns = fits && (!from || turned || fl_turn_later(p, p->at, 1, name));
  fl_kexpr *const at = v.idx;
  if (turns) {
    v = fl_turn_new(p, of, const_of, name, from ? &v : NULL, line);
    v.idx = at;
  }
  if (p->failed) return;
  if (!from || turns || moves_later(p, name)) {
    offset = fl_kvar_add(p->f, FL_KV_LOCAL, FL_KT_I64, name, 1);
    if (offset < 0) return;
    fl_kstmt_decl(p->f, p->b, offset);
    if (from) fl_emit_assign(p, offset, fl_val_at(p, &v), line);
    v.idx = NULL;
  } else if (v.idx) v.idx = fl_val_stable(p, v.idx);
  fl_symbol *s = fl_front_add(p, name, FL_SYM_POINTER);
  if (!s) return;
  v.sym = 0;
  s->v = v;
  if (null >= 0) s->v.when = fl_kexpr_var(p->f, null);
  s->may_be_null = null >= 0;
  s->type = of;
  s->offset = offset;
  s->line = line;
}

/* Is v an rvalue that is still in memory, which may change later, as __ldcg(p) gives it? */
static int is_loaded(const fl_front *p, const fl_cvalue *v) {
  const int kind = v->kind == FL_V_PLACE && v->rvalue && v->var >= 0 && p->f
                   ? p->f->vars[v->var].kind : FL_KV_LOCAL;
  return kind == FL_KV_SHARED || kind == FL_KV_POINTER;
}

/* Reads the initialiser "= e", "(e)" or "{e}" of a pointer or reference. 0: there is none. */
static int bound_to(fl_front *p, fl_cvalue *v) {
  const int set = fl_front_take(p, '='), round = !set && fl_front_take(p, '('),
            brace = !set && !round && fl_front_take(p, '{');
  *v = set || round || brace ? fl_parse_assign(p) : fl_val_none();
  if (round) fl_front_need(p, ')');
  if (brace) fl_front_need(p, '}');
  return set || round || brace;
}

static void declare_reference(fl_front *p, const fl_ctype *t, int is_auto, int is_const, int ref,
                              const char *name, int32_t line) {
  fl_cvalue v;
  if (!bound_to(p, &v)) fl_refuse(p, line, "reference '%s' without an object", name);
  if (p->failed) return;
  if (!is_auto && t->kind == FL_C_STRUCT) v = fl_member_as(p, v, t, line);
  fl_choose_bound(p, &v, is_const, 0, name, line);
  if (p->failed) return;
  const int value = v.kind == FL_V_EXPR || v.kind == FL_V_PARTS || is_loaded(p, &v),
            place = v.kind == FL_V_PLACE && !value && (is_auto || fl_ctype_like(t, v.type));
  if (!place && (is_const || ref == 2) && (is_auto ? value : t->kind != FL_C_POINTER)) {
    const fl_cvalue to = fl_decl_object(p, is_auto ? v.type : t, name, line);
    fl_val_assign(p, to, v, line);
    bind_object(p, name, to, is_const, line);
    return;
  }
  if (!place) {
    fl_refuse(p, line, "reference '%s' needs a variable of its type", name);
    return;
  }
  if (v.idx) v.idx = fl_val_stable(p, v.idx);
  v.is_const |= (uint8_t)is_const;
  v.moved = 0;
  if (ref == 2 || is_const) v.rvalue = 0;                   /* the new object has a name now */
  fl_front_bind(p, name, FL_SYM_REFERENCE, v);
}

/* const_of: it is "const auto *". */
static void declare_auto(fl_front *p, const fl_specifiers *s, int const_of, const char *name,
                         int32_t line) {
  fl_front_need(p, '=');
  fl_cvalue v = fl_parse_assign(p);
  if (p->failed) return;
  if (v.kind == FL_V_POINTER || (v.kind == FL_V_PLACE && v.type->kind == FL_C_ARRAY)) {
    v = fl_val_pointer(p, v, line);
    declare_pointer(p, v.type, v.is_const | const_of, name, &v, line);
    return;
  }
  if (v.kind == FL_V_NONE || v.kind == FL_V_LIST) {
    fl_refuse(p, line, "auto '%s' of nothing", name);
    return;
  }
  if (s->is_const && v.kind == FL_V_EXPR && v.e->kind == FL_KX_CONST) {
    fl_choose_name(p, name, v.e);
    return;
  }
  const fl_cvalue to = fl_decl_object(p, v.type, name, line);
  fl_member_copy(p, to, v, line);
  bind_object(p, name, to, s->is_const, line);
}

static int punct_at(fl_front *p, int64_t i) {
  return i >= 0 && i < p->toks.n && p->toks.at[i].kind == FL_TOK_PUNCT ? p->toks.at[i].punct : 0;
}

/* Is a vector, or an array of vectors, accessed as scalars before its block ends: "(float *)&v",
** "(&v.x)[k]"? */
static int seen_as_scalars(fl_front *p, int64_t from, const char *name) {
  int depth = 1;
  for (int64_t i = from; i + 4 < p->toks.n && depth > 0; i++) {
    const int c = punct_at(p, i);
    depth += (c == '{') - (c == '}');
    if (!fl_ktok_is(&p->toks.at[i], name)) continue;
    const int address = punct_at(p, i - 1) == '&', before = punct_at(p, i - 1 - address);
    const int closes = punct_at(p, i - 2 - address);
    if (before == ')' && closes == '*') return 1;
    if (before == '(' && (closes == '>' || closes == FL_PU_SHR)) return 1;
    if (!address || punct_at(p, i + 1) != '.') continue;
    if (before == '=' || (before == '(' && punct_at(p, i + 3) == ')' && punct_at(p, i + 4) == '['))
      return 1;
  }
  return 0;
}

int fl_decl_counted(fl_front *p, const fl_ctype *t, const char *name, int64_t body) {
  return t->kind == FL_C_STRUCT && t->s->width && seen_as_scalars(p, body + 1, name);
}

fl_cvalue fl_decl_formal(fl_front *p, const fl_ctype *t, const char *name, int64_t body,
                         int32_t line) {
  fl_cvalue v;
  return fl_decl_counted(p, t, name, body) && fl_decl_numbers(p, t, FL_KV_LOCAL, name, &v, line)
         ? v : fl_decl_object(p, t, name, line);
}

/* Makes a local object. Its scalars are one array if it is accessed as scalars, or if it is an
** array into which a pointer into one of several arrays may point. */
static fl_cvalue local_object(fl_front *p, const fl_ctype *t, const char *name, int32_t line) {
  fl_cvalue v;
  const int counted = (p->turning && t->kind == FL_C_ARRAY) || seen_as_scalars(p, p->at, name);
  return counted && fl_decl_numbers(p, t, FL_KV_LOCAL, name, &v, line)
         ? v : fl_decl_object(p, t, name, line);
}

/* Reads the initialiser of "T v = e" or "T v(…)". */
static void initialised(fl_front *p, fl_cvalue v, int set, int32_t line) {
  fl_cvalue args[FL_K_MAX_GIVEN];
  const int n = set ? 1 : fl_parse_arguments(p, args, FL_K_MAX_GIVEN);
  if (set) args[0] = fl_parse_assign(p);
  if (p->failed) return;
  const int same = n == 1 && args[0].type &&
                   (v.type->kind == FL_C_SCALAR || fl_ctype_same(v.type, args[0].type));
  if (same) fl_member_copy(p, v, args[0], line);
  else if (set && !fl_member_has_maker(v.type)) fl_val_assign(p, v, args[0], line);
  else if (v.type->kind == FL_C_STRUCT && v.type->s->width == n && n)
    fl_vector_set(p, v, args, line);
  else fl_member_make(p, v, args, n, line);
}

/* Declares a local scalar, struct or array with its initialiser. */
static void declare_object(fl_front *p, const fl_specifiers *s, const fl_ctype *t,
                           const char *name, int32_t line) {
  const int set = fl_front_take(p, '=');
  t = fl_decl_sized(p, t, line);
  if (p->failed || !t) return;
  const int list = fl_front_is(p, '{');
  const int fixed = s->is_const || s->is_constant;
  if (list && fixed && t->kind != FL_C_SCALAR && fl_decl_try_table(p, t, name, line)) return;
  if (s->is_static && !fixed)
    fl_refuse(p, line, "static variables are outside the language");
  if (t->kind == FL_C_SCALAR && set && !list) {
    fl_cvalue given = fl_cast_to(p, t, fl_parse_assign(p), line);
    fl_kexpr *e = given.e;
    if (!p->failed && given.address) declare_pointer(p, given.type, 0, name, &given, line);
    if (p->failed || !e) return;
    if (fixed && e->kind == FL_KX_CONST) {
      fl_choose_name(p, name, e);
      return;
    }
    const fl_cvalue v = fl_decl_object(p, t, name, line);
    fl_val_store(p, v, e, 0, line);
    bind_object(p, name, v, fixed, line);
    return;
  }
  const fl_cvalue v = local_object(p, t, name, line);
  if (p->failed) return;
  if (list) fl_decl_fill(p, v);
  else if (set || fl_front_is(p, '(')) initialised(p, v, set, line);
  else if (fl_member_made(t)) fl_member_make(p, v, NULL, 0, line);
  bind_object(p, name, v, fixed, line);
}

/* Reads "T (*name)[N]" or "T (&name)[N]", a pointer or reference to an array. 0: it is neither. */
static int of_array(fl_front *p, const fl_specifiers *s) {
  const int32_t line = fl_front_tok(p)->line;
  const char *name;
  int ref;
  const fl_ctype *t = s->is_auto || s->is_shared ? NULL : fl_decl_of_array(p, s->type, &ref, &name);
  if (!t) return p->failed;
  if (!name) fl_refuse(p, line, "a name expected");
  if (p->failed) return 1;
  if (s->is_typedef) {
    fl_symbol *sym = fl_front_add(p, name, FL_SYM_TYPE);
    if (sym) sym->type = fl_ctype_pointer(p->a, t, s->is_const);
    return 1;
  }
  if (ref) { declare_reference(p, t, 0, s->is_const, 1, name, line); return 1; }
  const int set = fl_front_take(p, '=');
  fl_cvalue v = set ? fl_parse_assign(p) : fl_val_none();
  if (!p->failed) declare_pointer(p, t, s->is_const, name, set ? &v : NULL, line);
  return 1;
}

/* Refuses a second variable of that name in the block. */
static void refuse_second(fl_front *p, const char *name, int32_t line) {
  const int32_t n = (int32_t)strlen(name);
  const int64_t from = p->scope > p->frame ? p->scope : p->frame;
  const fl_symbol *s = p->f && p->b && from < p->syms.n
                       ? fl_front_among(p->syms.at + from, p->syms.n - from, name, n) : NULL;
  if (s && s->kind <= FL_SYM_CONSTANT)
    fl_refuse(p, line, "'%s' is declared twice in one block", name);
}

/* Makes s a name of type t, which was just read; for an enumeration s gets its enumerators too. */
static void name_type(fl_front *p, fl_symbol *s, const fl_ctype *t, int is_const, int ref) {
  s->type = t;
  s->is_const = (uint8_t)is_const;
  s->ref = (uint8_t)ref;
  if (t->kind != FL_C_SCALAR || !p->n_enumerators) return;
  s->inner = p->enumerators;
  s->n_inner = p->n_enumerators;
}

/* Declares "auto *q = …", "const char *text = "…"", "float *q" or "float *q = …". */
static void pointer_variable(fl_front *p, const fl_specifiers *s, const fl_ctype *t,
                             const char *name, int32_t line) {
  if (s->is_auto) { declare_auto(p, s, t->const_of, name, line); return; }
  if (fl_decl_text(p, t, name)) return;
  fl_cvalue v;
  const int set = bound_to(p, &v);
  if (!p->failed) declare_pointer(p, t->of, t->const_of, name, set ? &v : NULL, line);
}

static void declarator(fl_front *p, const fl_specifiers *s) {
  const char *function;
  if (s->is_typedef && fl_decl_function(p, s->type, &function)) {
    fl_symbol *sym = function && !p->failed ? fl_front_add(p, function, FL_SYM_TYPE) : NULL;
    if (sym) sym->type = fl_ctype_function();
    return;
  }
  if (s->type == fl_ctype_function())
    fl_refuse(p, fl_front_tok(p)->line, "variables for functions are outside the language");
  if (p->failed || of_array(p, s)) return;
  int ref;
  const fl_ctype *t = fl_decl_pointers(p, s, &ref);
  const int32_t line = fl_front_tok(p)->line;
  const char *name = fl_front_name(p);
  if (s->is_shared && s->is_extern && t && t->kind == FL_C_POINTER)
    t = fl_ctype_scalar(FL_KT_U64);                         /* (of a pointer's size) */
  t = fl_decl_arrays(p, t);
  if (!s->is_typedef && !s->is_extern) refuse_second(p, name, line);
  if (p->failed || !t) return;
  if (s->is_typedef) {
    fl_symbol *sym = fl_front_add(p, name, FL_SYM_TYPE);
    if (sym) name_type(p, sym, t, s->is_const && t->kind != FL_C_POINTER, ref);
  } else if (s->is_shared) {
    declare_shared(p, s, t, name, line);
  } else if (ref) {
    declare_reference(p, t, s->is_auto, s->is_const, ref, name, line);
  } else if (t->kind == FL_C_POINTER && t->of->kind != FL_C_POINTER) {
    pointer_variable(p, s, t, name, line);
  } else if (t->kind == FL_C_POINTER) {
    fl_refuse(p, line, "pointers to pointers are outside the language");
  } else if (s->is_auto) {
    declare_auto(p, s, 0, name, line);
  } else {
    declare_object(p, s, t, name, line);
  }
}

void fl_decl_one(fl_front *p) {
  const fl_specifiers s = fl_decl_specifiers(p);
  if (s.type) declarator(p, &s);
}

static int parse_using(fl_front *p) {
  if (!fl_front_word(p, "using")) return 0;
  const int32_t line = fl_front_tok(p)->line;
  if (fl_front_word(p, "namespace")) {
    fl_front_seek(p, ';', ';');
    fl_front_need(p, ';');
    return 1;
  }
  const int file = fl_front_take(p, FL_PU_SCOPE),
            space = fl_scope_is_space(p, fl_front_tok(p)) || fl_ktok_is(fl_front_tok(p), "std");
  const char *name = fl_front_name(p);
  if ((space && fl_front_is(p, FL_PU_SCOPE)) || file) {     /* names are found without it */
    fl_front_seek(p, ';', ';');
    fl_front_take(p, ';');
    return 1;
  }
  if (!fl_front_take(p, '='))
    fl_refuse(p, line, "using declarations are outside the language");
  const fl_ctype *t = fl_decl_type_name(p);
  const int is_const = p->type_const, ref = p->type_ref;
  if (t) t = fl_decl_arrays(p, t);
  fl_symbol *s = t ? fl_front_add(p, name, FL_SYM_TYPE) : NULL;
  if (s) name_type(p, s, t, is_const, ref);
  fl_front_need(p, ';');
  return 1;
}

/* Declares "auto [a, b] = v": names for the members or elements of a copy of v. With & (ref 1) or
** && (2) they are those of v itself if it is an lvalue. The parser is at '[', after & or &&. */
static void bindings(fl_front *p, const fl_specifiers *s, int ref) {
  const char *name[16];
  const int32_t line = fl_front_tok(p)->line;
  int n = 0;
  fl_front_take(p, '[');
  do {
    if (!fl_front_room(p, n, 16, "names of parts")) return;
    name[n++] = fl_front_name(p);
  } while (!p->failed && fl_front_take(p, ','));
  fl_front_need(p, ']');
  fl_front_need(p, '=');
  fl_cvalue v = fl_parse_assign(p);
  if (p->failed) return;
  const fl_ctype *t = v.type;
  const int place = v.kind == FL_V_PLACE && !v.rvalue,
            fields = t && t->kind == FL_C_STRUCT && v.kind != FL_V_POINTER;
  const int64_t count = fields ? t->s->n_fields : place && t && t->kind == FL_C_ARRAY
                        ? t->count : 0;
  if (count != n)
    fl_refuse(p, line, "%d name%s for what has %lld part%s", n, FL_S(n), (long long)count,
              FL_S(count));
  else if (ref == 1 && !place && !s->is_const)
    fl_refuse(p, line, "references to parts of a value that is not stored");
  else if (ref && place && p->turning && fl_turn_of(p, v.var))
    fl_refuse(p, line, "references into one or another array");
  if (p->failed) return;
  if (!ref || !place) {
    const fl_cvalue to = fl_decl_object(p, t, "binding", line);
    fl_val_assign(p, to, v, line);
    v = to;
  } else if (v.idx) v.idx = fl_val_stable(p, v.idx);
  v.is_const |= s->is_const;
  for (int i = 0; i < n && !p->failed; i++) {
    fl_front_bind(p, name[i], FL_SYM_REFERENCE,
                  fields ? fl_val_field(p, v, i, line)
                         : fl_val_index(p, v, fl_kexpr_int(p->a, FL_KT_I64, i), line));
  }
}

void fl_decl_local(fl_front *p) {
  if (parse_using(p)) return;
  const int32_t line = fl_front_tok(p)->line;
  const fl_specifiers s = fl_decl_specifiers(p);
  if (s.type && fl_front_is(p, ';') && s.type->kind == FL_C_STRUCT && s.type->s->parts &&
      !strcmp(s.type->s->name, FL_UNNAMED))
    fl_union_open(p, s.type, fl_decl_object(p, s.type, "union", line), line);
  if (!s.type || fl_front_take(p, ';')) return;
  const int ref = fl_front_is(p, '&') ? 1 : fl_front_is(p, FL_PU_LAND) ? 2 : 0;
  if (s.is_auto && fl_front_is_at(p, ref != 0, '[')) {
    p->at += ref != 0;
    bindings(p, &s, ref);
    fl_front_need(p, ';');
    return;
  }
  do declarator(p, &s); while (!p->failed && fl_front_take(p, ','));
  if (fl_front_is(p, ':'))
    fl_refuse(p, fl_front_tok(p)->line, "range-based for is outside the language");
  fl_front_need(p, ';');
}

/* ---- file scope ------------------------------------------------------------------------------ */

static void wrong(fl_front *p, const char *name, const char *why) {
  fl_symbol *s = fl_front_add(p, name, FL_SYM_WRONG);
  if (s) s->why = why;
}

static void global_constant(fl_front *p, const fl_ctype *t, const char *name, int round,
                            int32_t line) {
  const int brace = fl_front_take(p, '{');
  if (round) fl_front_need(p, '(');
  fl_kexpr *e = fl_parse_scalar(p);
  if (t->kind == FL_C_SCALAR) e = fl_val_to(p, e, t);                   /* else auto */
  if (brace) fl_front_need(p, '}');
  if (round) fl_front_need(p, ')');
  if (e && e->kind != FL_KX_CONST)
    fl_refuse(p, line, "'%s' is initialised by what is not constant", name);
  if (e) fl_choose_name(p, name, e);
}

/* Is the variable of file scope in device memory (memory.c)? It is if it is __constant__ without a
** value (the script sets it), or __device__, not const, with no value or zeros. Any other is a
** constant, or unusable. set, list: it has a value, and the parser is after '=', at '{'. */
static int is_memory(fl_front *p, const fl_specifiers *s, int set, int list) {
  if (s->is_constant ? set || list : !s->is_device || s->is_const) return 0;
  for (int k = 0; set || list; k++) {
    const fl_ktok *t = fl_front_ahead(p, k);
    if (t->kind == FL_TOK_END || fl_front_is_at(p, k, ';')) break;
    const int zero = (t->kind == FL_TOK_INT && !t->value.i) ||
                     (t->kind == FL_TOK_FLOAT && t->value.d == 0) || fl_ktok_is(t, "false");
    if (!zero && !fl_front_is_at(p, k, '{') && !fl_front_is_at(p, k, '}') &&
        !fl_front_is_at(p, k, ',')) return 0;
    if (!list && fl_front_is_at(p, k, ',')) break;
  }
  return 1;
}

static void global_name(fl_front *p, int kind, const fl_ctype *t, const char *name, int32_t line) {
  fl_symbol *sym = fl_front_add(p, name, kind);
  if (sym) sym->type = t, sym->line = line;
}

static void global(fl_front *p, const fl_specifiers *s) {
  int ref;
  const fl_ctype *t = fl_decl_pointers(p, s, &ref);
  const int32_t line = fl_front_tok(p)->line;
  const char *name = fl_front_name(p);
  t = fl_decl_arrays(p, t);
  if (p->failed || !t) return;
  const int round = fl_front_is(p, '('), set = fl_front_take(p, '=') || round,
            list = fl_front_is(p, '{');
  if (t->kind == FL_C_VOID && !s->is_typedef && !(s->is_auto && set && !list))
    fl_refuse(p, line, "'%s' has no type of a variable", name);
  else if (!set && !list && !fl_front_is(p, ';') && !fl_front_is(p, ','))
    fl_refuse(p, line, "a declaration of '%s' that is not understood", name);
  else if (s->is_typedef) {
    global_name(p, FL_SYM_TYPE, t, name, line);
  } else if (s->is_shared && s->is_extern) {
    global_name(p, FL_SYM_DYNAMIC, t, name, line);
  } else if (s->is_shared && !set && !list) {
    global_name(p, FL_SYM_SHARED, t, name, line);
  } else if (t->kind != FL_C_POINTER && !ref && is_memory(p, s, set, list)) {
    fl_memory_declare(p, t, name, s->is_constant, line);
  } else if (!s->is_const && !s->is_constant && !s->is_device) {
    wrong(p, name, "variables of the host that are not const are outside the language");
  } else if (t->kind == FL_C_POINTER || ref) {
    wrong(p, name, "pointers at file scope are outside the language" FL_DO "; make it a parameter");
  } else if (!set && !list) {
    wrong(p, name, "has no initialiser, and nothing could set it");
  } else if (list && t->kind != FL_C_SCALAR) {
    t = fl_decl_sized(p, t, line);
    if (t && !p->failed) fl_decl_table(p, t, name, line);
    return;
  } else if (t->kind == FL_C_SCALAR || s->is_auto) {
    global_constant(p, t, name, round, line);
    return;
  } else {
    wrong(p, name, "its initialiser is not read here" FL_DO "; write {…}");
  }
  fl_front_skip_to(p, ';', ',');
}

void fl_decl_global(fl_front *p, fl_specifiers s) {
  if (fl_front_take(p, ';')) return;
  do global(p, &s); while (!p->failed && fl_front_take(p, ','));
  fl_front_need(p, ';');
}

/* ---- is a statement a declaration? ----------------------------------------------------------- */

/* "T (*name)[N] = …", "T (&name)[N] = …" */
static int declares_of_array(fl_front *p) {
  return fl_decl_starts(p, 0) && fl_front_is_at(p, 1, '(') &&
         (fl_front_is_at(p, 2, '*') || fl_front_is_at(p, 2, '&')) && fl_front_is_at(p, 4, ')') &&
         fl_front_is_at(p, 5, '[');
}

/* The number of tokens of the type at the tokens, "T", "a::T" or "V<…>" and so on; 1: another. */
static int type_length(fl_front *p) {
  int k = 0;
  for (;;) {
    k++;
    if (fl_front_is_at(p, k, '<')) k += fl_template_angle(p, k);
    if (!fl_front_is_at(p, k, FL_PU_SCOPE) || fl_front_ahead(p, k + 1)->kind != FL_TOK_NAME)
      return k;
    k++;
  }
}

/* Is there a declarator in the parentheses at k, as in "T(name)" or "T(*name[3])", and after them
** what makes a declaration of it? */
static int is_wrapped(fl_front *p, int k) {
  static const char after[] = ";=,[({";
  if (!fl_front_is_at(p, k++, '(')) return 0;
  while (fl_front_is_at(p, k, '*') || fl_front_is_at(p, k, '&') ||
         fl_ktok_is(fl_front_ahead(p, k), "const"))
    k++;
  if (fl_front_ahead(p, k++)->kind != FL_TOK_NAME) return 0;
  while (fl_front_is_at(p, k, '[')) k = fl_front_past(p, k);
  const int c = fl_ktok_punct(fl_front_ahead(p, k + 1));
  return fl_front_is_at(p, k, ')') && c > 0 && c < 128 && strchr(after, c);
}

int fl_decl_begins(fl_front *p, const fl_ktok *t) {
  if (fl_ktok_is(t, "decltype") || fl_ktok_is(t, "alignas") || fl_ktok_is(t, "__align__")) return 1;
  if (declares_of_array(p)) return 1;
  if (!fl_decl_starts(p, 0)) return 0;
  const int k = t->kind == FL_TOK_NAME && !fl_decl_is_word(t) ? type_length(p) : 1;
  if (is_wrapped(p, k))
    fl_refuse(p, t->line, "a name in parentheses is declared" FL_DO "; leave them out");
  return !fl_front_is_at(p, k, '(') && !(fl_front_is_at(p, k, '{') && fl_front_named(p, t));
}
