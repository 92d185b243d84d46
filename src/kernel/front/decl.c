/* Reads types as written in the text: structs, specifiers, declarators with '*', '&' and [N]. */
#include "kernel/front/forms.h"
#include "kernel/front/number.h"
#include "kernel/front/scope.h"
#include "kernel/front/template.h"
#include <stddef.h>
#include <string.h>

/* ---- structs -------------------------------------------------------------------------------- */

int64_t fl_decl_alignment(fl_front *p) {
  int64_t n = 0;
  while (fl_ktok_is(fl_front_tok(p), "__align__") ||
         fl_ktok_is(fl_front_tok(p), "alignas")) {
    fl_front_next(p);
    fl_front_need(p, '(');
    n = fl_decl_constant(p, "an alignment");
    if (!p->failed && (n < 1 || n > 128 || (n & (n - 1)))) {
      fl_refuse(p, fl_front_tok(p)->line, "an alignment of %lld", (long long)n);
      p->absent = 1;                         /* a template with other arguments may be meant */
    }
    fl_front_need(p, ')');
  }
  return n;
}

static const fl_ctype *name_struct(fl_front *p, const char *name, const fl_ctype *type,
                                   int32_t line) {
  fl_symbol *s = type ? fl_front_add(p, name, FL_SYM_TYPE) : NULL;
  if (s) s->type = type, s->line = line;
  return type;
}

/* The type that "struct name" without a body means; "struct name;" declares it. */
static const fl_ctype *known_struct(fl_front *p, const char *name, int is_union, int32_t line) {
  const fl_symbol *s = fl_front_find(p, name, (int32_t)strlen(name));
  if (s && s->kind == FL_SYM_TYPE) return s->type;
  if (s && s->kind == FL_SYM_TEMPLATE && fl_front_is(p, '<'))
    return fl_template_struct(p, s->structs);
  if (!s && !is_union && fl_front_is(p, ';')) {
    return name_struct(p, name, fl_ctype_open(p->a, name), line);
  }
  if (s && s->kind == FL_SYM_WRONG) fl_refuse(p, line, "'%s': %s", name, s->why);
  fl_refuse(p, line, "unknown struct '%s'", name);
  return NULL;
}

/* After 'struct', 'class' or 'union'. */
static const fl_ctype *read_struct(fl_front *p, int is_union) {
  const int64_t align = fl_decl_alignment(p);
  const fl_ktok *t = fl_front_tok(p);
  const int32_t line = t->line;
  const char *name = t->kind == FL_TOK_NAME ? fl_front_name(p) : FL_UNNAMED;
  fl_front_word(p, "final");
  if (!fl_front_is(p, '{') && !fl_front_is(p, ':')) return known_struct(p, name, is_union, line);
  const fl_symbol *s = fl_scope_own(p, t);
  const int is_open = s && s->kind == FL_SYM_TYPE && fl_ctype_is_open(s->type);
  const fl_ctype *declared = is_open ? s->type : NULL, *type;
  if (!is_open && t->kind == FL_TOK_NAME && fl_front_is(p, ':'))         /* its bases may name it */
    declared = name_struct(p, name, fl_ctype_open(p->a, name), line);
  type = fl_member_struct(p, name, align, NULL, NULL, 0, &declared);
  if (type && is_union) type = fl_union_of(p, type, line);
  return t->kind == FL_TOK_NAME ? name_struct(p, name, type, line) : type;
}

/* ---- specifiers ------------------------------------------------------------------------------ */

/* Qualifiers of one word, with the offset of the member of fl_specifiers that they set to 1; 0:
** they set none. */
#define SETS(member) offsetof(fl_specifiers, member)
static const struct { const char *word; uint8_t sets; } qualifiers[] = {
  { "const", SETS(is_const) }, { "constexpr", SETS(is_constexpr) },
  { "volatile", SETS(is_volatile) },
  { "static", SETS(is_static) }, { "extern", SETS(is_extern) }, { "__shared__", SETS(is_shared) },
  { "__constant__", SETS(is_constant) }, { "__device__", SETS(is_device) },
  { "__managed__", SETS(is_device) }, { "__global__", SETS(is_global) },
  { "typedef", SETS(is_typedef) }, { "inline", 0 }, { "register", 0 }, { "__restrict__", 0 },
  { "__restrict", 0 }, { "restrict", 0 }, { "__host__", 0 }, { "__forceinline__", 0 },
  { "__noinline__", 0 }, { "__inline__", 0 }, { "__grid_constant__", 0 },
  { "__device_builtin__", 0 }, { "__cudart_builtin__", 0 }, { "mutable", SETS(is_mutable) } };

/* parts: words that make a type together, in any order, as "unsigned long". others: more words with
** which a declaration may begin. */
static const char *const parts[] = { "unsigned", "signed", "long", "short", "char", "int" };
enum { UNSIGNED, SIGNED, LONG, SHORT, CHAR, INT, PARTS };
static const char *const others[] = {
  "void", "auto", "struct", "enum", "__launch_bounds__", "__attribute__", "__align__", "alignas",
  "union", "class", "typename", "using", "consteval", "constinit", "decltype" };

/* The index in 'qualifiers' of the word t; -1: it is none. */
static int qualifier_of(const fl_ktok *t) {
  for (size_t i = 0; i < sizeof qualifiers / sizeof *qualifiers; i++)
    if (fl_ktok_is(t, qualifiers[i].word)) return (int)i;
  return -1;
}

int fl_decl_is_word(const fl_ktok *t) { return fl_ktok_among(t, parts, PARTS) >= 0; }

static const fl_ctype *vector_type(fl_front *p, const fl_ktok *t) {
  for (int i = 0; i < p->n_vectors; i++)
    if (fl_ktok_is(t, p->vectors[i]->s->name)) return p->vectors[i];
  const fl_ctype *v = fl_ctype_named(p->a, t->text, t->n);
  if (v && v->kind == FL_C_STRUCT && p->n_vectors < 64) p->vectors[p->n_vectors++] = v;
  return v;
}

/* The type that a name stands for here; NULL: it is not a type. Variables hide types. */
static const fl_ctype *type_of_name(fl_front *p, const fl_ktok *t, fl_specifiers *out) {
  const fl_symbol *s = fl_front_named(p, t);
  if (!s) return vector_type(p, t);
  if (s->kind != FL_SYM_TYPE) return NULL;
  p->enumerators = s->inner;
  p->n_enumerators = s->n_inner;
  out->ref = s->ref;
  out->of_const = s->is_const;
  return s->type;
}

/* Is the name at k, "b", "a::b" or "V<…>::b", a type? "V<…>::b" is not looked up: it counts as one
** if a name follows it. */
static int qualified_type(fl_front *p, int k) {
  const fl_symbol *s = NULL;
  const fl_symbol *inner = NULL;
  int64_t n = 0;
  for (int among = 0;; k++) {
    const fl_ktok *t = fl_front_ahead(p, k);
    if (t->kind != FL_TOK_NAME) return 0;
    const int is_std = fl_ktok_is(t, "std");          /* its types are built in, also if opened */
    if (!among && !is_std && fl_scope_is_space(p, t) && fl_front_is_at(p, k + 1, FL_PU_SCOPE))
      fl_scope_file(p, &inner, &n), among = 1;
    s = among ? fl_front_in(p, inner, n, t) : fl_front_named(p, t);
    const int angle = fl_scope_is_template(s) && fl_front_is_at(p, k + 1, '<')
                      ? fl_template_angle(p, k + 1) : 0;
    if (!fl_front_is_at(p, k + 1 + angle, FL_PU_SCOPE) || (angle && fl_template_splits(p, k + 1)))
      return angle || (s ? s->kind == FL_SYM_TYPE : !among && vector_type(p, t));
    if (angle) return fl_front_ahead(p, k + angle + 3)->kind == FL_TOK_NAME;
    k += 1;
    if (is_std) continue;
    if (s && s->kind == FL_SYM_SPACE) {
      fl_scope_file(p, &inner, &n);
      among = 1;
      continue;
    }
    if (!s || (s->kind != FL_SYM_TYPE && s->kind != FL_SYM_WRONG)) return 0;
    const fl_kmembers *m = s->type && s->type->kind == FL_C_STRUCT ? s->type->s->members : NULL;
    inner = m ? m->inner : s->inner;
    n = m ? m->n_inner : s->n_inner;
    among = 1;
  }
}

int fl_decl_starts(fl_front *p, int k) {
  const fl_ktok *t = fl_front_ahead(p, k);
  while (fl_is_punct(t, FL_PU_SCOPE)) t = fl_front_ahead(p, ++k);
  if (t->kind != FL_TOK_NAME) return 0;
  return qualifier_of(t) >= 0 || fl_ktok_among(t, parts, PARTS) >= 0 ||
         fl_ktok_among(t, others, sizeof others / sizeof *others) >= 0 || qualified_type(p, k);
}

/* The type of the words in 'has', bits by their index in 'parts', of which n are "long". */
static const fl_ctype *word_type(unsigned has, int n) {
  const int is_unsigned = has >> UNSIGNED & 1;
  if (has >> CHAR & 1 && !(has >> SIGNED & 1) && !is_unsigned) return fl_ctype_char();
  if (has >> LONG & 1 && n == 1) return fl_ctype_long(is_unsigned);
  if (has >> CHAR & 1) return fl_ctype_scalar(is_unsigned ? FL_KT_U8 : FL_KT_I8);
  if (has >> SHORT & 1) return fl_ctype_scalar(is_unsigned ? FL_KT_U16 : FL_KT_I16);
  if (has >> LONG & 1) return fl_ctype_scalar(is_unsigned ? FL_KT_U64 : FL_KT_I64);
  return fl_ctype_scalar(is_unsigned ? FL_KT_U32 : FL_KT_I32);
}

int32_t fl_decl_bounds(fl_front *p) {
  if (p->failed) return 0;
  p->at++;
  const int64_t open = p->at;
  int64_t most = 0;
  if (fl_front_take(p, '(')) most = fl_decl_constant(p, "a launch bound");
  if (!p->a->failed && !p->sized) p->failed = 0;         /* (only the value is unknown then) */
  if (p->failed || most < 1 || most > INT32_MAX) most = 0;
  p->at = open;
  fl_front_skip(p);
  return (int32_t)most;
}

/* Takes a qualifier, which may stand anywhere among the specifiers; 0: there is none here. */
static int qualifier(fl_front *p, fl_specifiers *s) {
  const int k = qualifier_of(fl_front_tok(p));
  if (k >= 0) {
    const int is_extern = fl_ktok_is(fl_front_next(p), "extern");
    if (qualifiers[k].sets) ((uint8_t *)s)[qualifiers[k].sets] = 1;
    if (is_extern && fl_front_tok(p)->kind == FL_TOK_STRING) fl_front_next(p);     /* extern "C" */
  } else if (fl_ktok_is(fl_front_tok(p), "__launch_bounds__")) s->max_threads = fl_decl_bounds(p);
  else if (fl_front_word(p, "__attribute__") || fl_front_word(p, "__align__") ||
           fl_front_word(p, "alignas") || (fl_front_is(p, '[') && fl_front_is_at(p, 1, '['))) {
    fl_front_skip(p);
  } else {
    return 0;
  }
  return 1;
}

/* The type that symbol s, named at the current token, stands for; NULL: it is not a type. */
static const fl_ctype *inner_type(fl_front *p, const fl_symbol *s, fl_specifiers *out) {
  if (!s || (s->kind != FL_SYM_TYPE && s->kind != FL_SYM_TEMPLATE)) return NULL;
  fl_front_next(p);
  p->enumerators = s->inner;
  p->n_enumerators = s->n_inner;
  p->type_ref = s->ref;
  p->type_const = s->is_const;
  const fl_ctype *t = s->kind == FL_SYM_TYPE ? s->type : fl_template_struct(p, s->structs);
  out->ref = p->type_ref;
  out->of_const = p->type_const;
  return t;
}

/* Sets in *out whether decltype of expression v, tokens 'from' to end - 1, is const or a reference.
** The name of a variable gives the type of its declaration; the name of a member, a type that is
** not const; any other lvalue, a reference. */
static void qualify(fl_front *p, int64_t from, int64_t end, const fl_cvalue *v,
                    fl_specifiers *out) {
  int is_name = 1;
  for (int64_t i = from; i < end; i++) {
    const int c = fl_ktok_punct(&p->toks.at[i]);
    is_name &= p->toks.at[i].kind == FL_TOK_NAME || c == '.' || c == FL_PU_ARROW ||
               c == FL_PU_SCOPE;
  }
  const fl_symbol *s = end == from + 1 ? fl_front_named(p, &p->toks.at[from]) : NULL;
  const int lvalue = v->kind == FL_V_PLACE && !v->rvalue && v->type->kind != FL_C_ARRAY &&
                     v->type->kind != FL_C_POINTER;
  if (is_name) out->ref = s && s->kind == FL_SYM_REFERENCE && lvalue;
  else out->ref = lvalue;
  out->of_const = v->is_const && v->kind != FL_V_POINTER && (s || out->ref);
}

/* The type of decltype(e); the word "decltype" has been read. */
static const fl_ctype *type_of_expression(fl_front *p, fl_specifiers *s) {
  fl_kblock side = { NULL, NULL };
  fl_kblock *out = fl_front_into(p, p->b ? &side : NULL);           /* not evaluated */
  const int32_t line = fl_front_tok(p)->line;
  fl_front_need(p, '(');
  const int64_t from = p->at;
  const fl_cvalue v = fl_parse_expr(p);
  const int64_t end = p->at;
  fl_front_need(p, ')');
  fl_front_into(p, out);
  if (!p->failed && (v.kind == FL_V_NONE || v.kind == FL_V_LIST))
    fl_refuse(p, line, "decltype of nothing");
  if (p->failed) return NULL;
  qualify(p, from, end, &v, s);
  return v.kind == FL_V_POINTER ? fl_ctype_pointer(p->a, v.type, v.is_const) : v.type;
}

/* Refuses the token that stands where a type should. */
static void refuse_type(fl_front *p) {
  const fl_ktok *t = fl_front_tok(p);
  const char *why = fl_front_reserved(t);
  const fl_symbol *wrong = fl_front_named(p, t);
  if (why) fl_refuse(p, t->line, "%s outside the language", why);
  else if (wrong && wrong->kind == FL_SYM_WRONG)
    fl_refuse(p, t->line, "'%s': %s", wrong->name, wrong->why);
  else if (t->kind == FL_TOK_NAME)
    fl_refuse(p, t->line, "unknown type '%.*s'%s", (int)t->n, t->text, fl_front_meant(p, t));
  else fl_refuse(p, t->line, "a type is needed");
}

static const fl_ctype *base_type(fl_front *p, fl_specifiers *s) {
  const fl_symbol *inner = NULL;
  int64_t n = 0;
  fl_front_word(p, "typename");
  const int among = fl_scope_prefix(p, &inner, &n);
  const fl_ktok *t = fl_front_tok(p);
  const fl_symbol *member = among ? fl_front_in(p, inner, n, t) : NULL;
  if (member && member->kind == FL_SYM_WRONG)
    fl_refuse(p, t->line, "'%s': %s", member->name, member->why);
  if (among && !member && !p->failed) {
    const int absent = p->among != NULL;
    refuse_type(p);
    p->absent = absent;
  }
  if (among) return inner_type(p, member, s);
  if (fl_front_word(p, "void")) return fl_ctype_void();
  if (fl_front_word(p, "struct") || fl_front_word(p, "class")) return read_struct(p, 0);
  if (fl_front_word(p, "union")) return read_struct(p, 1);
  if (fl_front_word(p, "decltype")) return type_of_expression(p, s);
  if (fl_front_word(p, "enum")) return fl_decl_enum(p);
  if (fl_front_word(p, "auto")) { s->is_auto = 1; return fl_ctype_void(); }
  const char *why = fl_front_reserved(t);
  if (why && !fl_front_find(p, t->text, t->n)) {
    fl_refuse(p, t->line, "%s outside the language", why);
    return NULL;
  }
  if (fl_texture_old(p)) return NULL;
  const fl_symbol *known = fl_front_named(p, t);
  if (known && known->kind == FL_SYM_TEMPLATE && fl_front_is_at(p, 1, '<'))
    return inner_type(p, known, s);
  const fl_ctype *type = t->kind == FL_TOK_NAME ? type_of_name(p, t, s) : NULL;
  if (type) fl_front_next(p);
  if (type && fl_front_is(p, '<') && type->kind == FL_C_STRUCT && type->s->members &&
      type->s->members->of)
    return fl_template_again(p, type);
  return type;
}

fl_specifiers fl_decl_specifiers(fl_front *p) {
  fl_specifiers s = { 0 };
  unsigned has = 0;
  int longs = 0;
  const fl_ktok *t = fl_front_tok(p);
  p->n_enumerators = 0;
  while (!p->failed) {
    if (qualifier(p, &s)) { s.any = 1; continue; }
    if (s.type && !has) break;
    const int k = fl_ktok_among(fl_front_tok(p), parts, PARTS);
    if (k >= 0) {
      has |= 1u << k;
      longs += k == LONG;
      s.type = word_type(has, longs);
      p->at++;
      continue;
    }
    if (fl_ktok_is(fl_front_tok(p), "double") && has >> LONG & 1) {
      fl_refuse(p, t->line, "long double is outside the language");
      break;
    }
    if (s.type || has) break;
    s.type = base_type(p, &s);
    if (!s.type) break;
  }
  if (!s.type && !p->failed) refuse_type(p);
  if (p->failed) s.type = NULL;
  if (!s.ref) s.is_const |= s.of_const;
  else s.is_const = s.of_const;                        /* "const R" is R if R is a T & */
  s.is_constexpr &= !s.is_const;
  s.is_const |= s.is_constexpr;
  if (s.type && s.is_volatile) s.type = fl_ctype_volatile(p->a, s.type);
  return s;
}

/* ---- declarators ----------------------------------------------------------------------------- */

int fl_decl_depth(fl_front *p, const fl_ctype *t) {
  if (t && t->depth > FL_K_MAX_NEST)
    fl_refuse_size(p, fl_front_tok(p)->line, "a type that is nested more than %d deep",
                   FL_K_MAX_NEST);
  return !p->failed;
}

/* Does a "(*" or "(&" at the tokens begin a declarator, other than "(*name)[N]"? */
static int is_function_pointer(fl_front *p) {
  int k = 2;
  if (!fl_front_is(p, '(') || !(fl_front_is_at(p, 1, '*') || fl_front_is_at(p, 1, '&'))) return 0;
  while (fl_front_ahead(p, k)->kind == FL_TOK_NAME) k++;
  return !(fl_front_is_at(p, k, ')') && fl_front_is_at(p, k + 1, '['));
}

int fl_decl_function(fl_front *p, const fl_ctype *t, const char **name) {
  const int named = t == fl_ctype_function();
  *name = NULL;
  if (!t || (!named && !is_function_pointer(p))) return 0;
  if (!named) p->at += 2;
  while (!named && (fl_front_word(p, "const") || fl_front_word(p, "__restrict__"))) continue;
  if (fl_front_tok(p)->kind == FL_TOK_NAME) *name = fl_front_name(p);
  if (named) return 1;
  fl_front_need(p, ')');
  if (fl_front_is(p, '(')) fl_front_skip(p);
  else fl_front_need(p, '(');
  return 1;
}

static int pointer_qualifier(fl_front *p) {
  return fl_front_word(p, "const") || fl_front_word(p, "__restrict__") ||
         fl_front_word(p, "__restrict") || fl_front_word(p, "restrict") ||
         fl_front_word(p, "volatile");
}

const fl_ctype *fl_decl_pointers(fl_front *p, const fl_specifiers *s, int *ref) {
  const fl_ctype *t = s->type;
  int is_const = s->is_const;
  *ref = s->ref;
  while (t && !p->failed) {
    if (fl_front_take(p, '*')) {
      t = fl_ctype_pointer(p->a, t, is_const);
      is_const = 0;
      fl_decl_depth(p, t);
    } else if (fl_front_take(p, '&')) {
      *ref = 1;
    } else if (fl_front_take(p, FL_PU_LAND)) {             /* T && binds to a variable, or to a copy
                                                           ** of a value */
      if (!*ref) *ref = 2;
    } else {
      const int fixed = fl_ktok_is(fl_front_tok(p), "const");
      if (!pointer_qualifier(p)) break;
      is_const |= fixed && t != s->type;
    }
  }
  if (is_function_pointer(p))
    fl_refuse(p, fl_front_tok(p)->line, "function pointers are outside the language");
  return p->failed ? NULL : t;
}

int64_t fl_decl_constant(fl_front *p, const char *what) {
  const int32_t line = fl_front_tok(p)->line;
  fl_kblock *out = fl_front_into(p, NULL);
  fl_kexpr *e = fl_parse_scalar(p);
  fl_front_into(p, out);
  if (e && (e->kind != FL_KX_CONST || !fl_kt_is_int(e->type)))
    fl_refuse(p, line, "%s must be a constant integer", what);
  return e && !p->failed ? e->value.i : 0;
}

/* Reads a static_assert. One that cannot be evaluated here is left to NVRTC. */
void fl_decl_assert(fl_front *p) {
  const int32_t line = fl_front_tok(p)->line;
  const fl_kattempt from = fl_front_try(p);
  fl_front_next(p);
  fl_front_need(p, '(');
  const int64_t holds = fl_decl_constant(p, "a static_assert");
  fl_front_check(p, NULL);
  const int known = !p->failed;
  const fl_ktok *why = known && fl_front_take(p, ',') ? fl_front_tok(p) : NULL;
  if (known && !holds && why && why->kind == FL_TOK_STRING)
    fl_refuse(p, line, "static_assert: %.*s", (int)why->n, why->text);
  else if (known && !holds) fl_refuse(p, line, "a static_assert does not hold");
  if (known && !holds) return;
  if (!fl_front_undo(p, &from)) return;
  fl_front_next(p);
  fl_front_skip(p);
  fl_front_take(p, ';');
}

/* Refuses an array that is too large. If it is local or has an initialiser it is too large for any
** compiler, so the whole text is refused (fl_refuse_size); else only its declaration. */
static void refuse_array(fl_front *p, int32_t line) {
  const int written_out = p->f || fl_front_is(p, '=') || fl_front_is(p, '{');
  void (*const refuse)(fl_front *, int32_t, const char *, ...) =
    written_out ? fl_refuse_size : fl_refuse;
  refuse(p, line, "an array of more than %d bytes", FL_K_MAX_ARRAY);
}

const fl_ctype *fl_decl_member_arrays(fl_front *p, const fl_ctype *t) {
  int64_t dims[FL_K_MAX_RANK];
  int rank = 0, large = 0;
  const int32_t line = fl_front_tok(p)->line;
  while (!p->failed && fl_front_is(p, '[')) {
    if (!fl_front_room(p, rank, FL_K_MAX_RANK, "dimensions of an array")) break;
    fl_front_next(p);
    const int open = fl_front_is(p, ']');
    dims[rank] = open ? 0 : fl_decl_constant(p, "the size of an array");
    if (!open && dims[rank] < 1)
      fl_refuse(p, line, "an array of %lld elements", (long long)dims[rank]);
    if (open && rank)
      fl_refuse(p, line, "only the first size of an array may be left out");
    large |= dims[rank++] > FL_K_MAX_ARRAY;
    fl_front_need(p, ']');
  }
  while (t && !large && rank-- > 0 && !p->failed) {
    t = fl_ctype_array(p->a, t, dims[rank]);
    large = t && fl_ctype_size(t) > FL_K_MAX_ARRAY;
    fl_decl_depth(p, t);
  }
  if (large && !p->failed) refuse_array(p, line);
  return p->failed ? NULL : t;
}

const fl_ctype *fl_decl_arrays(fl_front *p, const fl_ctype *t) {
  if (t && t->kind == FL_C_POINTER && fl_front_is(p, '['))
    fl_refuse(p, fl_front_tok(p)->line, "arrays of pointers are outside the language" FL_DO
              "; write an array of indices");
  return fl_decl_member_arrays(p, t);
}

/* Takes the sizes after a parameter's name and returns its type: an array becomes a pointer. */
static const fl_ctype *decayed(fl_front *p, const fl_ctype *t, int is_const) {
  const int32_t line = fl_front_tok(p)->line;
  if (!t || p->failed) return NULL;
  if (fl_front_is(p, '[')) {                         /* the first size does not matter */
    fl_front_skip(p);
    t = fl_decl_arrays(p, t);
    if (t && t->kind == FL_C_ARRAY && !t->count)
      fl_refuse(p, line, "only the first size of an array may be left out");
  } else if (t->kind != FL_C_ARRAY) {
    return t;
  } else {
    t = t->of;
  }
  t = p->failed ? NULL : fl_ctype_pointer(p->a, t, is_const);
  fl_decl_depth(p, t);
  return t;
}

const fl_ctype *fl_decl_of_array(fl_front *p, const fl_ctype *t, int *ref, const char **name) {
  *ref = fl_front_is_at(p, 1, '&');
  *name = NULL;
  if (!t || p->failed || !fl_front_is(p, '(') || !(*ref || fl_front_is_at(p, 1, '*'))) return NULL;
  p->at += 2;
  while (pointer_qualifier(p)) continue;
  if (fl_front_tok(p)->kind == FL_TOK_NAME) *name = fl_front_name(p);
  fl_front_need(p, ')');
  if (!fl_front_is(p, '['))
    fl_refuse(p, fl_front_tok(p)->line, "function pointers are outside the language");
  return fl_decl_arrays(p, t);
}

const fl_ctype *fl_decl_parameter(fl_front *p, const fl_specifiers *s, const char **name,
                                  int *ref) {
  int of_ref;
  const fl_ctype *t = fl_decl_pointers(p, s, ref), *of = fl_decl_of_array(p, t, &of_ref, name);
  if (of) return (*ref = of_ref) ? of : fl_ctype_pointer(p->a, of, s->is_const);
  if (p->failed) return NULL;
  const int packed = p->pack && fl_front_take(p, FL_PU_ELLIPSIS);
  *name = fl_front_tok(p)->kind == FL_TOK_NAME ? fl_front_name(p) : NULL;
  if (packed) *name = fl_karena_printf(p->a, "%s %d", *name ? *name : "unnamed", p->pack - 1);
  return *ref || s->is_auto ? t : decayed(p, t, s->is_const);
}

/* Does the pointer type that was just read end in "const", or in "const" and & or &&? */
static int ends_const(const fl_front *p) {
  int64_t i = p->at - 1;
  while (i > 0 && (fl_is_punct(&p->toks.at[i], '&') || fl_is_punct(&p->toks.at[i], FL_PU_LAND)))
    i--;
  return i >= 0 && fl_ktok_is(&p->toks.at[i], "const");
}

const fl_ctype *fl_decl_type_name(fl_front *p) {
  int ref;
  const char *name;
  const fl_specifiers s = fl_decl_specifiers(p);
  p->type_const = p->type_ref = 0;
  if (!s.type) return NULL;
  if (s.is_auto) fl_refuse(p, fl_front_tok(p)->line, "auto is no type here");
  if (s.type != fl_ctype_function() && fl_decl_function(p, s.type, &name))
    return p->failed ? NULL : fl_ctype_function();
  const fl_ctype *t = fl_decl_pointers(p, &s, &ref);
  const int itself = ref;
  int is_const = t == s.type ? s.is_const : ends_const(p);
  if (t && fl_front_is(p, '[')) {
    t = fl_decl_arrays(p, t);
    is_const = s.is_const;
  }
  const fl_ctype *of = fl_decl_of_array(p, t, &ref, &name);
  p->type_const = (uint8_t)is_const;
  p->type_ref = (uint8_t)(of ? ref : itself);
  return p->failed ? NULL : of && !ref ? fl_ctype_pointer(p->a, of, s.is_const) : of ? of : t;
}
