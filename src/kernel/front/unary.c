/* Unary, postfix and primary expressions, casts. */
#include "kernel/front/forms.h"
#include "kernel/front/number.h"
#include "kernel/front/scope.h"
#include "kernel/front/template.h"
#include <math.h>
#include <string.h>

/* ---- casts ----------------------------------------------------------------------------------- */

/* Views extern __shared__ memory as another type: one more variable for the same bytes. */
static fl_cvalue view_shared(fl_front *p, fl_cvalue v, int type) {
  const int from = p->f->vars[v.var].type;
  const int var = fl_kvar_add(p->f, FL_KV_SHARED, type, p->f->vars[v.var].source, 0);
  if (var < 0) return v;
  p->f->vars[var].dynamic = 1;
  p->f->vars[var].temporary = 0;
  p->f->vars[var].line = p->f->vars[v.var].line;
  const int a = v.unit ? v.unit : fl_kt_size(from), b = fl_kt_size(type);
  if (v.idx && a > b)
    v.idx = fl_val_with(p, FL_KO_MUL, v.idx, a / b);
  v.unit = (uint8_t)(v.idx && a < b ? a : 0);
  v.var = var;
  return v;
}

/* Casts a pointer into memory of one type to a pointer to another, 'to': the same memory. */
static fl_cvalue cast_memory(fl_front *p, const fl_ctype *to, fl_cvalue v, int32_t line) {
  int64_t n;
  const fl_kvar *var = &p->f->vars[v.var];
  const int want = fl_ctype_element(to, &n);
  while (!v.linear && v.type->kind == FL_C_ARRAY) {
    v.kind = FL_V_PLACE;
    v = fl_val_index(p, v, fl_kexpr_int(p->a, FL_KT_I64, 0), line);
    v.kind = FL_V_POINTER;
  }
  const int own = want > FL_KT_BOOL && var->type > FL_KT_BOOL ? fl_kt_size(want) : 0,
            views = own && own == fl_kt_size(var->type),
            size = views || !fl_turn_of(p, v.var) ? own : 0,
            whole = !var->count || fl_ctype_size(to) <= var->count * fl_kt_size(var->type);
  v.member |= !v.linear && v.type->kind == FL_C_STRUCT && v.type->s->n_leaves > 1;
  if (!v.linear && v.type->kind == FL_C_SCALAR && size && !v.member && whole &&
      (views ? v.idx != NULL : var->kind != FL_KV_LOCAL))
    v.linear = 1;                                         /* the elements are in one array, and are
                                                          ** indexed in the same way */
  if (v.linear && var->type != want && var->dynamic && want != FL_KT_VOID && !v.address) {
    v = view_shared(p, v, want);
  } else if (v.linear && (size || var->type == want || fl_kt_size(var->type) == 1)) {
    fl_view_as(p, &v, to);
  } else if (!views || to->kind != FL_C_SCALAR) {
    if (size) fl_view_note(p, v.var, want, FL_VIEW_CAST);
    fl_refuse(p, line, "a pointer is cast to '%s *': memory keeps its type here",
              fl_ctype_text(p->a, to));
  }
  v.type = to;
  v.address = 0;
  return v;
}

void fl_cast_address(fl_front *p, fl_cvalue *v, int32_t line) {
  *v = fl_val_pointer(p, *v, line);
  if (p->failed || v->null) return;
  v->sym = v->is_const = 0;
  v->address = 1;                               /* so that cast_memory does not call view_shared */
  *v = cast_memory(p, fl_ctype_scalar(FL_KT_U8), *v, line);
  v->address = 1;
}

/* v as a pointer to 'to', or to const 'to' (const_of). */
static fl_cvalue cast_pointer(fl_front *p, const fl_ctype *to, int const_of, fl_cvalue v,
                             int32_t line) {
  v = fl_val_pointer(p, v, line);
  if (!p->failed && v.address && to->kind == FL_C_SCALAR && fl_kt_size(to->scalar) == 1) return v;
  if (!p->failed && v.address && (!p->inside || p->inside->line)) {
    fl_shared_wrong(p, line);
    return v;
  }
  v.is_const = (uint8_t)const_of;
  if (!p->failed && to->kind == FL_C_VOID) return v;        /* it keeps its type */
  if (v.null) v.type = to;
  if (p->failed || v.null) return v;
  if (v.type == fl_ctype_texture()->of)
    return fl_val_refuse(p, line, "a texture is read by tex1Dfetch, not through a pointer");
  v.sym = 0;
  if (fl_ctype_same(v.type, to)) {
    v.type = to;
    return v;
  }
  if (fl_member_derives(v.type, to)) {
    v.kind = FL_V_PLACE;
    v = fl_member_as(p, v, to, line);
    v.kind = FL_V_POINTER;
    return v;
  }
  if (fl_member_derives(to, v.type)) v = fl_member_whole(p, v, to, line);
  return p->failed || v.type == to ? v : cast_memory(p, to, v, line);
}

fl_cvalue fl_pointer_as(fl_front *p, const fl_ctype *t, fl_cvalue v, int32_t line) {
  v = fl_val_pointer(p, v, line);
  if (p->failed || !t) return fl_val_none();
  const int views = !v.null && v.type->kind == FL_C_SCALAR &&
                    t->of->kind == FL_C_SCALAR && v.type->scalar != t->of->scalar;
  if (views && v.type->scalar != FL_KT_VOID)
    fl_refuse(p, line, "a '%s *' where a '%s *' is needed" FL_DO ": write a cast",
              fl_ctype_text(p->a, v.type), fl_ctype_text(p->a, t->of));
  const int fixed = v.is_const;
  v = fl_cast_to(p, t, v, line);
  v.is_const |= fixed;
  return v;
}

static fl_cvalue made(fl_front *p, const fl_ctype *t, const fl_cvalue *args, int n, int32_t line);

/* After "(size_t)p": does % or & follow? Then the alignment of p is tested, and its offset in bytes
** can stand for the address, since arrays begin at a multiple of 256. */
static int is_alignment(fl_front *p) {
  int k = 0;
  while (fl_front_is_at(p, k, ')')) k++;
  return fl_front_is_at(p, k, '%') || fl_front_is_at(p, k, '&');
}

/* The object v, or its base t, as a cast to an object's type gives it: a copy if v is an lvalue. */
static fl_cvalue copied(fl_front *p, const fl_ctype *t, fl_cvalue v, int32_t line) {
  const int lvalue = v.kind == FL_V_PLACE && !v.rvalue && p->b;
  const fl_cvalue to = lvalue ? fl_decl_object(p, t, "copy", line) : fl_member_as(p, v, t, line);
  if (lvalue && !p->failed) fl_member_copy(p, to, v, line);
  v = to;
  v.either = NULL;
  v.rvalue = 1;
  return p->failed ? fl_val_none() : v;
}

fl_cvalue fl_cast_to(fl_front *p, const fl_ctype *t, fl_cvalue v, int32_t line) {
  if (p->failed || !t) return fl_val_none();
  if (t->kind == FL_C_VOID) return fl_val_none();
  if (t->kind == FL_C_POINTER) return cast_pointer(p, t->of, t->const_of, v, line);
  if (fl_shared_is(&v, t)) return v;
  if (fl_kt_is_int(t->scalar) && t->kind == FL_C_SCALAR && v.kind == FL_V_POINTER && !v.null &&
      v.linear && is_alignment(p)) {
    const int64_t unit = v.unit ? v.unit : fl_kt_size(p->f->vars[v.var].type);
    return fl_val_expr(fl_val_to(p, fl_val_with(p, FL_KO_MUL, fl_val_at(p, &v), unit), t));
  }
  if (t->kind == FL_C_SCALAR) {
    fl_kexpr *e =
        t->scalar == FL_KT_BOOL ? fl_val_truth(p, v, line) : fl_val_scalar(p, v, line);
    return fl_val_expr(e ? fl_val_to(p, e, t) : NULL);
  }
  if (fl_member_derives(v.type, t)) return copied(p, t, v, line);
  if (!fl_member_has_maker(t)) fl_refuse(p, line, "a cast to '%s'", fl_ctype_text(p->a, t));
  return p->failed ? fl_val_none() : made(p, t, &v, 1, line);
}

/* ---- primary --------------------------------------------------------------------------------- */

static const char *const specials[] = { "threadIdx", "blockIdx", "blockDim", "gridDim" };

static fl_cvalue special(fl_front *p, const fl_ktok *t) {
  const int k = fl_ktok_among(t, specials, 4);
  if (k < 0 || fl_front_find(p, t->text, t->n)) return fl_val_none();     /* a variable hides it */
  const fl_ctype *type = fl_ctype_named(p->a, k < 2 ? "uint3" : "dim3", k < 2 ? 5 : 4);
  const fl_cvalue v = type ? fl_val_in_parts(p, type) : fl_val_none();
  for (int i = 0; v.parts && i < 3; i++) {
    v.parts[i] = fl_kexpr_special(p->a, FL_KSPECIAL_TID_X + 3 * k + i);
    if (v.parts[i]) v.parts[i]->line = t->line;
  }
  return v;
}

/* Makes variables of the kernel being read for s, a constant array or struct of file scope. */
static void bring_table(fl_front *p, fl_symbol *s) {
  const int n = fl_ctype_leaves(s->type);
  fl_kfield *fields = fl_karena_new(p->a, (size_t)n * sizeof *fields);
  if (!fields || !fl_ctype_fields(p->a, s->type, s->name, fields)) return;
  for (int i = 0; i < n; i++) {
    const int var = fl_decl_leaf(p, &fields[i], FL_KV_TABLE, fields[i].type, s->line);
    if (var < 0) return;
    p->f->vars[var].data = s->data[i];
    if (!i)
      s->v = (fl_cvalue){ .kind = FL_V_PLACE, .is_const = 1, .type = s->type, .var = var };
  }
  s->of = p->f;
}

static fl_cvalue named_pointer(fl_front *p, const fl_symbol *s, int32_t line) {
  fl_cvalue v = s->v;
  if (!v.type && fl_front_is(p, '=')) v.type = s->type;
  if (!v.type) return fl_val_refuse(p, line, "pointer '%s' is used before it has a value", s->name);
  v.kind = FL_V_POINTER;
  v.sym = (int32_t)(s - p->syms.at) + 1;
  if (s->offset >= 0) v.idx = fl_kexpr_var(p->f, s->offset);
  return v;
}

/* Uses shared memory that is declared at file scope: each kernel that names it gets its own
** variable. */
static fl_cvalue named_shared(fl_front *p, fl_symbol *s, int32_t line) {
  if (!p->f) return fl_val_refuse(p, line, "shared memory in a constant expression");
  if (s->of != p->f)
    s->v = s->kind == FL_SYM_SHARED ? fl_decl_shared(p, s->type, s->name, s->line)
                                    : fl_decl_dynamic(p, s->type, s->name, s->line);
  s->of = p->f;
  return s->v;
}

fl_cvalue fl_parse_named(fl_front *p, const fl_ktok *t) {
  fl_symbol *s = fl_front_find(p, t->text, t->n);
  if (!s) return fl_val_none();
  switch (s->kind) {
    case FL_SYM_OBJECT: return s->v;
    case FL_SYM_REFERENCE: {
      fl_cvalue v = s->v;
      if (fl_ktok_is(t, "this")) v.kind = FL_V_POINTER;
      return v;
    }
    case FL_SYM_CONSTANT: return s->v;
    case FL_SYM_POINTER: return named_pointer(p, s, t->line);
    case FL_SYM_TABLE:
      if (!p->f) {
        fl_refuse(p, t->line, "table '%s' in a constant expression", s->name);
        break;
      }
      if (s->of != p->f) bring_table(p, s);
      return s->v;
    case FL_SYM_MEMORY: return fl_memory_use(p, s, t->line);
    case FL_SYM_DYNAMIC: case FL_SYM_SHARED: return named_shared(p, s, t->line);
    case FL_SYM_WRONG: fl_refuse(p, t->line, "'%s': %s", s->name, s->why); break;
    case FL_SYM_TEMPLATE: return fl_template_value(p, s->structs);
    case FL_SYM_FUNCTION:
      if (p->f && p->b) return fl_function_value(p, s);
      fl_refuse(p, t->line, "function pointers are outside the language ('%s')", s->name);
      break;
    case FL_SYM_TEXT: fl_refuse(p, t->line, "'%s' is a text, for printf and [i]", s->name); break;
    case FL_SYM_PACK: fl_refuse(p, t->line, "pack '%s' without ...", s->name); break;
    default: fl_refuse(p, t->line, "'%s' is a type", s->name);
  }
  return fl_val_none();
}

/* Makes a struct from V(…); V() without constructors gives zeros. */
static fl_cvalue made(fl_front *p, const fl_ctype *t, const fl_cvalue *args, int n, int32_t line) {
  fl_cvalue v = fl_decl_object(p, t, "made", line);
  if (p->failed) return fl_val_none();
  if (n || fl_member_has_maker(t)) fl_member_make(p, v, args, n, line);
  else fl_decl_zero(p, v, line);
  v.rvalue = 1;
  return v;
}

/* Reads T(x) or T{…}; the parser is at the token of the type. */
static fl_cvalue constructed(fl_front *p) {
  const int32_t line = fl_front_tok(p)->line;
  const fl_specifiers s = fl_decl_specifiers(p);
  if (!s.type || p->failed) return fl_val_none();
  if (fl_front_is(p, '{')) {
    if (s.type->kind == FL_C_STRUCT) {
      fl_cvalue made = fl_decl_list(p, s.type, line);
      made.rvalue |= made.kind == FL_V_PLACE;
      return made;
    }
    fl_front_take(p, '{');
    fl_cvalue v = fl_front_is(p, '}') ? fl_val_expr(fl_kexpr_int(p->a, FL_KT_I32, 0))
                                     : fl_parse_assign(p);
    fl_front_need(p, '}');
    return fl_cast_to(p, s.type, v, line);
  }
  if (!fl_front_is(p, '(')) return fl_val_refuse(p, line, "expected a value, got a type");
  fl_cvalue args[FL_K_MAX_GIVEN];
  const int n = fl_parse_arguments(p, args, FL_K_MAX_GIVEN);
  if (s.type->kind == FL_C_STRUCT &&
      !(n == 1 && fl_member_derives(args[0].type, s.type))) {
    const int is_dim = s.type->s->width && !strcmp(s.type->s->name, "dim3");
    if (!s.type->s->width && (!n || fl_member_made(s.type))) return made(p, s.type, args, n, line);
    if (!s.type->s->width || (n != s.type->s->width && !is_dim))
      return fl_val_refuse(p, line, "'%s' has no constructor of %d argument%s" FL_DO
                           "; write {…}", fl_ctype_text(p->a, s.type), n, FL_S(n));
    return fl_vector_of(p, s.type, args, n, line);
  }
  if (n > 1) fl_refuse(p, line, "a cast of several values");
  return fl_cast_to(p, s.type,
                    n ? args[0] : fl_val_expr(fl_kexpr_int(p->a, FL_KT_I32, 0)), line);
}

/* A cast to "T &", or "T &&" (ref 2), is another view of the same memory, not a conversion. */
static fl_cvalue cast_reference(fl_front *p, const fl_ctype *t, fl_cvalue v, int ref, int is_const,
                                int32_t line) {
  if (v.is_const != is_const) fl_choose_place(p, &v, line);
  v.moved = ref == 2;
  if (p->failed || !t || !v.type) return v;
  v.is_const = (uint8_t)is_const;
  if (fl_ctype_same(v.type, t)) {
    if (!fl_ctype_like(v.type, t)) v.type = t;
    return v;
  }
  if (fl_member_derives(v.type, t)) return fl_member_as(p, v, t, line);
  const fl_cvalue at = fl_val_address(p, v, line);
  return p->failed ? at : fl_val_deref(p, cast_pointer(p, t, at.is_const, at, line), line);
}

static fl_cvalue cast_word(fl_front *p) {
  const int32_t line = fl_front_next(p)->line;
  fl_front_need(p, '<');
  const fl_ctype *t = fl_decl_type_name(p);
  const int ref = p->type_ref, is_const = p->type_const;
  fl_template_close(p);
  fl_front_need(p, '(');
  fl_cvalue v = fl_parse_expr(p);
  fl_front_need(p, ')');
  return ref ? cast_reference(p, t, v, ref, is_const, line) : fl_cast_to(p, t, v, line);
}

static int is_template_call(fl_front *p, const fl_ktok *t) {
  const fl_symbol *s = fl_front_is(p, '<') ? fl_front_find(p, t->text, t->n) : NULL;
  if (!s || s->kind != FL_SYM_FUNCTION) return 0;
  const int angle = fl_template_angle(p, 0);
  return angle && fl_front_is_at(p, angle, '(');
}

static fl_cvalue name(fl_front *p) {
  const fl_symbol *inner = NULL;
  int64_t n = 0;
  if (fl_decl_starts(p, 0) && !fl_front_is(p, FL_PU_SCOPE)) return constructed(p);
  if (fl_scope_prefix(p, &inner, &n)) return fl_qualified(p, inner, n);
  const fl_ktok *t = fl_front_tok(p);
  fl_cvalue texel;
  if (fl_texture_call(p, &texel)) return texel;
  const char *why = fl_front_reserved(t);
  if (why && !fl_front_find(p, t->text, t->n))
    return fl_val_refuse(p, t->line, "%s outside the language", why);
  if (fl_ktok_is(t, "static_cast") || fl_ktok_is(t, "reinterpret_cast") ||
      fl_ktok_is(t, "const_cast"))
    return cast_word(p);
  if (fl_decl_starts(p, 0)) return constructed(p);
  fl_front_next(p);
  if (t->kind != FL_TOK_NAME) return fl_val_none();
  if (fl_ktok_is(t, "true") || fl_ktok_is(t, "false"))
    return fl_val_expr(fl_kexpr_int(p->a, FL_KT_BOOL, t->n == 4));
  if (fl_ktok_is(t, "nullptr"))
    return (fl_cvalue){ .kind = FL_V_POINTER, .null = 1, .type = fl_ctype_void() };
  if (fl_ktok_is(t, "__LINE__")) return fl_val_expr(fl_kexpr_int(p->a, FL_KT_I32, t->line));
  if (fl_ktok_is(t, "warpSize") && !fl_front_find(p, t->text, t->n))
    return fl_val_expr(fl_kexpr_special(p->a, FL_KSPECIAL_WARP_SIZE));
  if (fl_front_is(p, FL_PU_LAUNCH))
    return fl_val_refuse(p, t->line, "kernels that launch kernels are outside the language");
  if (fl_front_is(p, '(') || is_template_call(p, t)) return fl_parse_call(p, t);
  fl_cvalue v = special(p, t);
  if (v.kind == FL_V_NONE) v = fl_parse_named(p, t);
  if (v.kind == FL_V_NONE && !p->failed)
    fl_refuse(p, t->line, "unknown name '%.*s'%s", (int)t->n, t->text, fl_front_meant(p, t));
  return v;
}

static fl_cvalue primary(fl_front *p) {
  const fl_ktok *t = fl_front_tok(p);
  fl_kexpr *e = NULL;
  switch (t->kind) {
    case FL_TOK_INT: case FL_TOK_CHAR:
      e = fl_val_as(p, fl_kexpr_int(p->a, t->type, t->value.i),
                    t->kind == FL_TOK_CHAR ? fl_ctype_char()
                    : t->is_long ? fl_ctype_long(t->type == FL_KT_U64) : fl_ctype_scalar(t->type));
      break;
    case FL_TOK_FLOAT:
      e = fl_kexpr_float(p->a, t->bare && p->bare ? p->bare : t->type, t->value.d);
      break;
    case FL_TOK_NAME: return name(p);
    case FL_TOK_PUNCT:
      if (t->punct == FL_PU_SCOPE) return name(p);
      if (t->punct == '(') {
        fl_cvalue v;
        if (fl_qualified_call(p, &v)) return v;
        fl_front_next(p);
        if (fl_pack_fold(p, &v)) return v;
        v = fl_parse_inside(p);
        fl_front_need(p, ')');
        return v;
      }
      if (t->punct == '[') return fl_parse_lambda(p);
      /* fall through */
    default:
      if (t->kind == FL_TOK_END)
        fl_refuse(p, t->line, "the text ends inside an expression");
      else
        fl_refuse(p, t->line, "an expression expected before '%.*s'", (int)t->n, t->text);
      return fl_val_none();
  }
  fl_front_next(p);
  if (e) e->line = t->line;
  return fl_val_expr(e);
}

/* ---- postfix and unary ----------------------------------------------------------------------- */

/* Reads the index and ']' after '[': element v[i], or what v's operator [] returns. */
static fl_cvalue element(fl_front *p, fl_cvalue v, int32_t line) {
  const int32_t at = fl_front_tok(p)->line;
  const fl_kmark m = fl_order_mark(p);
  const fl_cvalue i = fl_parse_inside(p);
  fl_front_need(p, ']');
  fl_order_before(p, &v, 1, &m, 1, line);
  if (p->failed) return v;
  if (!fl_val_is_object(v)) return fl_val_index(p, v, fl_val_scalar(p, i, at), line);
  const fl_cvalue args[2] = { v, i };
  if (fl_operator(p, "operator[]", args, 2, &v, line)) return v;
  const fl_cvalue at_first = fl_member_pointer(p, fl_order_value(p, v, line), line);
  if (!fl_val_is_object(at_first)) return fl_val_index(p, at_first, fl_val_scalar(p, i, at), line);
  return fl_val_refuse(p, line, "there is no operator '[]' for '%s'", fl_ctype_text(p->a, v.type));
}

/* Reads '.' or '->' and the member's name: the member of v, or the result if it is called. */
static fl_cvalue member(fl_front *p, fl_cvalue v, int32_t line) {
  const int arrow = fl_front_next(p)->punct == FL_PU_ARROW;
  fl_front_word(p, "template");
  const fl_ktok *t = fl_front_tok(p);
  while (arrow && fl_val_is_object(v) && fl_operator(p, "operator->", &v, 1, &v, line)) continue;
  if (arrow) v = fl_val_deref(p, v, line);
  if (fl_qualified_part(p, &v, line)) return v;
  fl_front_next(p);
  if (v.kind == FL_V_EXPR || v.kind == FL_V_NONE || v.kind == FL_V_POINTER ||
      t->kind != FL_TOK_NAME)
    return fl_val_refuse(p, line, "'%.*s' of something that is no struct",
                         t->kind == FL_TOK_NAME ? (int)t->n : 1,
                         t->kind == FL_TOK_NAME ? t->text : "?");
  const fl_symbol *s = fl_member_find(v.type, t->text, t->n);
  if (s && s->kind == FL_SYM_FUNCTION && (fl_front_is(p, '(') || fl_front_is(p, '<')))
    return fl_member_call(p, v, s->name, s->n, line);
  if (s && s->kind == FL_SYM_CONSTANT && !fl_cstruct_field(v.type->s, t->text, t->n)) return s->v;
  return fl_member_part(p, v, t->text, t->n, line);
}

static fl_cvalue postfix(fl_front *p, int outer) {
  fl_cvalue v = primary(p);
  while (!p->failed) {
    const int32_t line = fl_front_tok(p)->line;
    if (fl_front_take(p, '[')) v = element(p, v, line);
    else if (fl_front_is(p, '.') || fl_front_is(p, FL_PU_ARROW)) {
      v = member(p, v, line);
    } else if (fl_front_is(p, FL_PU_INC) || fl_front_is(p, FL_PU_DEC)) {
      const int op = fl_front_next(p)->punct == FL_PU_INC ? FL_KO_ADD : FL_KO_SUB;
      v = fl_step(p, v, op, 1, outer, line);
    } else if (fl_front_is(p, '(') && fl_val_is_object(v)) {
      v = fl_member_call(p, v, "operator()", 10, line);
    } else if (fl_front_is(p, '(')) {
      fl_refuse(p, line, "function pointers are outside the language");
    } else {
      break;
    }
  }
  return v;
}

static fl_cvalue size_of(fl_front *p) {
  int64_t size = 0;
  const int32_t line = fl_front_next(p)->line;
  if (fl_front_take(p, FL_PU_ELLIPSIS)) return fl_val_expr(fl_pack_size(p));
  const int round = fl_front_take(p, '('),
            named = round && (fl_decl_starts(p, 0) || fl_template_names_type(p));
  p->at -= round && !named && !p->failed;
  if (named) {
    const fl_ctype *t = fl_decl_type_name(p);
    fl_front_need(p, ')');
    if (t) size = fl_ctype_size(t);
  } else {
    fl_kblock side = { NULL, NULL };
    fl_kblock *out = fl_front_into(p, p->b ? &side : NULL);          /* not evaluated */
    const fl_cvalue v = fl_parse_unary(p);
    fl_front_into(p, out);
    if (v.kind == FL_V_POINTER) size = 8;
    else if (v.type) size = fl_ctype_size(v.type);
    if (v.kind == FL_V_NONE) fl_refuse(p, line, "sizeof of nothing");
  }
  return fl_val_expr(fl_val_size(p, size));
}

static fl_cvalue align_of(fl_front *p) {
  p->at += 2;
  const fl_ctype *t = fl_decl_type_name(p);
  fl_front_need(p, ')');
  return fl_val_expr(t ? fl_val_size(p, fl_ctype_align(t)) : NULL);
}

/* 1: *v becomes the result of operator 'op', which the text defines for it, or the text is refused.
** 0: there is none; an object with an operator to a number becomes that number (not for '*'). */
static int is_defined(fl_front *p, fl_cvalue *v, int op, int32_t line) {
  const fl_ctype *const t = v->type;
  if (p->failed || fl_operator_found(p, (char[2]){ (char)op }, "", v, 1, v, line)) return 1;
  if (op != '*') *v = fl_member_plain(p, *v, line);
  if (fl_val_is_object(*v) || (t->scoped && v->kind != FL_V_POINTER))
    fl_refuse(p, line, "there is no operator '%c' for '%s'", op, fl_ctype_text(p->a, t));
  return p->failed;
}

static fl_cvalue unary_op(fl_front *p, int op, int32_t line) {
  fl_cvalue v = fl_parse_unary(p);
  if (is_defined(p, &v, op, line)) return v;
  if (op == '!')
    return fl_val_expr(
        fl_front_check(p, fl_kexpr_unary(p->a, FL_KO_NOT, fl_val_truth(p, v, line))));
  fl_kexpr *e = fl_val_scalar(p, v, line);
  if (!e) return fl_val_none();
  if (op == '~' && fl_kt_is_float(e->type))
    return fl_val_refuse(p, line, "'~' of a floating-point number");
  const fl_kexpr *const x = e;
  e = fl_val_convert(p, e, fl_promote_type(e->type));
  if (op != '+')
    e = fl_front_check(p, fl_kexpr_unary(p->a, op == '-' ? FL_KO_NEG : FL_KO_INVERT, e));
  return fl_val_expr(fl_val_mixed(p, e, x, NULL));
}

static fl_cvalue c_cast(fl_front *p) {
  const int32_t line = fl_front_next(p)->line;
  const fl_ctype *t = fl_decl_type_name(p);
  const int ref = p->type_ref, is_const = p->type_const;
  fl_front_need(p, ')');
  if (fl_front_is(p, '{'))
    fl_refuse(p, line, "(%s){…} is no C++" FL_DO ": write %s{…}", fl_ctype_text(p->a, t),
              fl_ctype_text(p->a, t));
  const fl_cvalue v = fl_parse_unary(p);
  return ref ? cast_reference(p, t, v, ref, is_const, line) : fl_cast_to(p, t, v, line);
}

/* Is it "(type)", and not "(type(x) + 1)"? */
static int cast_starts(fl_front *p) {
  int k = 1, angle;
  if (!fl_decl_starts(p, k)) return 0;
  while (fl_front_ahead(p, k)->kind == FL_TOK_NAME || fl_front_is_at(p, k, '*') ||
         fl_front_is_at(p, k, FL_PU_SCOPE) ||
         (fl_front_is_at(p, k, '&') && fl_front_is_at(p, k + 1, ')'))) {
    k++;
    if (fl_front_is_at(p, k, '<') && (angle = fl_template_angle(p, k)) > 0) k += angle;
  }
  if (fl_front_is_at(p, k, '(') && fl_front_is_at(p, k + 1, '*')) {      /* "T (*)[N]" */
    for (k += 2; fl_front_ahead(p, k)->kind == FL_TOK_NAME; k++) continue;
    return fl_front_is_at(p, k, ')') && fl_front_is_at(p, k + 1, '[');
  }
  return fl_front_is_at(p, k, ')');
}

static fl_cvalue unary(fl_front *p, int outer) {
  const fl_ktok *t = fl_front_tok(p);
  if (fl_ktok_is(t, "sizeof")) return size_of(p);
  if (fl_ktok_is(t, "alignof") && fl_front_is_at(p, 1, '(')) return align_of(p);
  if (t->kind != FL_TOK_PUNCT) return postfix(p, outer);
  switch (t->punct) {
    case '+': case '-': case '!': case '~':
      fl_front_next(p);
      return unary_op(p, t->punct, t->line);
    case '*': {
      fl_front_next(p);
      fl_cvalue v = fl_parse_unary(p);
      if (fl_function_is(&v)) return v;
      if (!fl_val_is_address(v) && is_defined(p, &v, '*', t->line)) return v;
      return fl_val_deref(p, v, t->line);
    }
    case '&': {
      const fl_kstmt *before = p->b ? p->b->last : NULL;
      fl_front_next(p);
      const int64_t first = p->at;
      const fl_cvalue v = fl_parse_unary(p);
      if (fl_function_is(&v)) return v;
      fl_qualified_address(p, first);
      fl_align_forget(p, before);
      return fl_val_address(p, v, t->line);
    }
    case FL_PU_INC: case FL_PU_DEC: {
      fl_front_next(p);
      const fl_cvalue v = fl_parse_unary(p);
      return fl_step(p, v, t->punct == FL_PU_INC ? FL_KO_ADD : FL_KO_SUB, 0, outer,
                     t->line);
    }
    case '(':
      if (cast_starts(p)) return c_cast(p);
      return postfix(p, outer);
    default: return postfix(p, outer);
  }
}

fl_cvalue fl_parse_unary(fl_front *p) {
  const int outer = p->outer;
  p->outer = 0;
  if (!fl_front_enter(p)) return fl_val_none();
  const fl_cvalue v = unary(p, outer);
  p->nest--;
  return p->failed ? fl_val_none() : v;
}

fl_kexpr *fl_parse_scalar(fl_front *p) {
  const int32_t line = fl_front_tok(p)->line;
  return fl_val_scalar(p, fl_parse_assign(p), line);
}
