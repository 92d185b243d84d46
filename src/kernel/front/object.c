/* Objects: a variable for each leaf (scalar or array), initialisers, tables of constants. */
#include "kernel/front/forms.h"
#include "kernel/front/template.h"
#include <string.h>

/* ---- variables of an object ------------------------------------------------------------------ */

int fl_decl_leaf(fl_front *p, const fl_kfield *f, fl_kvkind kind, int type, int32_t line) {
  const int var = fl_kvar_add(p->f, kind, type, f->path, kind == FL_KV_POINTER ? 0 : f->count);
  if (var < 0) return -1;
  fl_kvar *v = &p->f->vars[var];
  v->temporary = 0;
  v->line = line;
  v->rank = f->rank;
  memcpy(v->dims, f->dims, sizeof v->dims);
  memcpy(v->stride, f->stride, sizeof v->stride);
  return var;
}

static int make_leaf(fl_front *p, const fl_kfield *f, fl_kvkind kind, int32_t line) {
  if (f->is_pointer && kind != FL_KV_LOCAL) {
    fl_refuse(p, line, "pointers stored in memory are outside the language ('%s')",
              f->path);
    return -1;
  }
  if (f->is_pointer && f->rank)        /* its rows are held (fl_held_copy), no statement names it */
    return fl_kvar_add(p->f, FL_KV_LOCAL, FL_KT_I64, f->path, 1);
  if (kind == FL_KV_LOCAL && f->rank) kind = FL_KV_ARRAY;
  const int var = fl_decl_leaf(p, f, kind, f->is_pointer ? FL_KT_I64 : f->type, line);
  if (var < 0) return -1;
  if (f->is_pointer) fl_held_new(p, var);
  fl_kvar *v = &p->f->vars[var];
  if (kind == FL_KV_SHARED && !f->rank) v->rank = 1, v->dims[0] = 1;
  if (kind != FL_KV_SHARED) {
    fl_kstmt *s = fl_emit(p, FL_KS_DECL, line);
    if (s) s->var = var;
  }
  return var;
}

/* Makes an object whose elements are stored as another type (view.c). */
static fl_cvalue stored_as(fl_front *p, const fl_ctype *t, int type, const char *name,
                           fl_kvkind kind, int32_t line) {
  const int64_t n = fl_ctype_size(t) / fl_kt_size(type);
  const fl_kfield f = { .path = name, .type = (uint8_t)type, .rank = 1, .count = n, .dims = { n },
                        .stride = { fl_kt_size(type) } };
  fl_cvalue v = { .kind = FL_V_PLACE, .linear = 1, .type = t };
  v.var = make_leaf(p, &f, kind, line);
  if (v.var < 0 || p->failed) return fl_val_none();
  fl_view_as(p, &v, t);
  fl_view_settle(p, t, name, v.var, 1);
  return v;
}

/* Declares a variable for each of the n numbers of an object; returns the first, -1: no memory, or
** refused. An object without numbers has a variable that no statement names. */
static int make_leaves(fl_front *p, const char *name, const fl_kfield *fields, int n,
                       fl_kvkind kind, int32_t line) {
  int first = n ? -1 : fl_kvar_add(p->f, FL_KV_LOCAL, FL_KT_BOOL, name, 1);
  for (int i = 0; i < n; i++) {
    const int var = make_leaf(p, &fields[i], kind, line);
    if (var < 0) return -1;
    if (!i) first = var;
  }
  return first;
}

fl_cvalue fl_decl_make(fl_front *p, const fl_ctype *t, const char *name, fl_kvkind kind,
                       int32_t line) {
  if (p->failed) return fl_val_none();
  if (!p->f || !p->b) return fl_val_refuse(p, line, "a declaration in a constant expression");
  if (t->kind == FL_C_VOID || !fl_ctype_size(t))
    return fl_val_refuse(p, line, "'%s' has no size", name);
  const int stored = fl_view_stored(p, name);
  if (stored != FL_KT_VOID) return stored_as(p, t, stored, name, kind, line);
  const int n = fl_ctype_leaves(t);
  fl_kfield *fields = fl_karena_new(p->a, (size_t)n * sizeof *fields);
  if (!fields) return fl_val_none();
  if (!fl_ctype_fields(p->a, t, name, fields)) {
    if (!p->a->failed)
      fl_refuse(p, line, "arrays of more than %d dimensions ('%s')", FL_K_MAX_RANK, name);
    return fl_val_none();
  }
  fl_cvalue v = { .kind = FL_V_PLACE, .type = t };
  v.var = make_leaves(p, name, fields, n, kind, line);
  fl_front_check(p, NULL);
  if (v.var < 0 || p->failed) return fl_val_none();
  fl_view_settle(p, t, name, v.var, n);
  return v;
}

/* Declares an object of type t, a struct or an array of structs whose numbers have one type, as one
** array of these numbers. 0: t is another type, and nothing is declared. */
int fl_decl_numbers(fl_front *p, const fl_ctype *t, fl_kvkind kind, const char *name,
                    fl_cvalue *out, int32_t line) {
  int64_t n;
  const fl_ctype *of = fl_ctype_innermost(t);
  const int element = fl_ctype_element(t, &n);
  if (of->kind != FL_C_STRUCT || element == FL_KT_VOID) return 0;
  *out = fl_decl_make(p, fl_ctype_array(p->a, fl_ctype_scalar(element), n), name, kind, line);
  out->linear = 1;
  out->type = t;
  if (!p->failed) fl_view_settle(p, t, name, out->var, 1);
  return 1;
}

/* Does operator[] of the struct count from the address of a member: "(&x)[i]", "((float
** *)this)[i]"? */
static int counts_itself(fl_front *p, const fl_ctype *t) {
  t = fl_ctype_innermost(t);
  const int own = t->kind == FL_C_STRUCT && t->s->members;
  for (const fl_kdevice *d = own ? fl_member_functions(t, "operator[]") : NULL; d; d = d->next)
    for (int64_t i = d->body, end = i > 0 ? fl_front_end(p, i) : i; i < end; i++) {
      const fl_ktok *k = &p->toks.at[i];
      if ((fl_is_punct(k, '&') && k[1].kind == FL_TOK_NAME) ||
          (fl_ktok_is(k, "this") && k[1].punct != FL_PU_ARROW))
        return 1;
    }
  return 0;
}

fl_cvalue fl_decl_object(fl_front *p, const fl_ctype *t, const char *name, int32_t line) {
  fl_cvalue v;
  if (!p->failed && (p->turning > 1 || counts_itself(p, t)) &&
      fl_decl_numbers(p, t, FL_KV_LOCAL, name, &v, line))
    return v;
  return fl_decl_make(p, t, name, FL_KV_LOCAL, line);
}

/* ---- initialisers ---------------------------------------------------------------------------- */

/* Initialises 'place' with v: by a statement, or in the table of constants (p->table) that is being
** collected. */
static void put(fl_front *p, fl_cvalue place, fl_cvalue v, int32_t line) {
  if (p->failed) return;
  if (!p->table) { fl_val_assign(p, place, v, line); return; }
  if (place.type->kind == FL_C_STRUCT && fl_ctype_same(place.type, v.type)) {
    for (int i = 0; i < place.type->s->n_fields && !p->failed; i++)
      put(p, fl_val_field(p, place, i, line), fl_val_field(p, v, i, line), line);
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

static int is_one(const fl_ctype *t) { return t->kind == FL_C_SCALAR || t->kind == FL_C_POINTER; }

static int64_t parts_of(const fl_ctype *t) {
  return t->kind == FL_C_ARRAY ? t->count : t->s->n_fields;
}

static fl_cvalue part(fl_front *p, fl_cvalue v, int64_t i, int32_t line) {
  if (v.type->kind == FL_C_ARRAY)
    return fl_val_index(p, v, fl_kexpr_int(p->a, FL_KT_I64, i), line);
  return fl_val_field(p, v, i, line);
}

/* Initialises part i of 'place' (a field or an element), for which the list has no initialiser,
** with the default of the member, or zero. */
static void rest(fl_front *p, fl_cvalue place, int64_t i, int32_t line) {
  const fl_kmembers *m = place.type->kind == FL_C_STRUCT ? place.type->s->members : NULL;
  if (m && m->inits[i] && !p->table) fl_member_default(p, place, i, line);
  else if (m && m->inits[i]) fl_refuse(p, line, "defaults of members in a table of constants");
  else fl_decl_zero(p, part(p, place, i, line), line);
}

/* Emits the default initialisation (fl_decl_zero) of an array's elements from index 'from' on: one
** by one if there are at most 8, else as a loop of the kernel. */
static void zero_array(fl_front *p, fl_cvalue place, int64_t from, int32_t line) {
  const int64_t n = place.type->count;
  if (n - from <= 8) {
    for (int64_t i = from; i < n && !p->failed; i++)
      fl_decl_zero(p, part(p, place, i, line), line);
    return;
  }
  fl_kexpr *i;
  fl_kstmt *loop = fl_emit_count(p, from, fl_kexpr_int(p->a, FL_KT_I64, n), &i, line);
  if (!loop) return;
  fl_kblock *out = fl_front_into(p, &loop->body);
  fl_decl_zero(p, fl_val_index(p, place, i, line), line);
  fl_front_into(p, out);
}

/* Initialises the parts from number i on, for which there are no initialisers, with defaults or
** zero. */
static void rest_from(fl_front *p, fl_cvalue place, int64_t i, int32_t line) {
  if (place.type->kind == FL_C_ARRAY && !p->table) zero_array(p, place, i, line);
  else for (; i < parts_of(place.type) && !p->failed; i++) rest(p, place, i, line);
}

void fl_decl_zero(fl_front *p, fl_cvalue place, int32_t line) {
  if (p->failed || p->table || !place.type) return;
  if (place.type->kind == FL_C_SCALAR) {
    fl_val_store(p, place, fl_kexpr_zero(p->a, place.type->scalar), 0, line);
  } else if (place.type->kind == FL_C_STRUCT && fl_member_has_maker(place.type)) {
    fl_member_make(p, place, NULL, 0, line);
  } else if (place.type->kind == FL_C_STRUCT || place.type->kind == FL_C_ARRAY) {
    rest_from(p, place, 0, line);
  }
}

static int more(fl_front *p) {
  if (!fl_front_is(p, ',')) return 0;
  if (fl_front_is_at(p, 1, '}')) return 0;
  fl_front_next(p);
  return !p->failed;
}

/* Initialises 'place', an object with constructors, from one value of another type. */
static void make_of(fl_front *p, fl_cvalue place, const fl_cvalue *v, int32_t line) {
  if (p->table) fl_refuse(p, line, "constructors in a table of constants");
  else fl_member_make(p, place, v, 1, line);
}

/* Initialises the parts of 'place' (fields or elements) from initialisers that have no separate
** braces around them, as in {1, 2, 3} for a struct of an int[2] and an int. first: an initialiser
** that has been read and is not used yet. */
static void fill_bare(fl_front *p, fl_cvalue place, fl_cvalue *first, int32_t line) {
  const int64_t n = parts_of(place.type);
  int64_t i = 0;
  if (!fl_front_enter(p)) return;
  for (; i < n && !p->failed; i++) {
    if (i && !first->type && !more(p)) break;
    const fl_cvalue sub = part(p, place, i, line);
    if (p->failed) break;
    if (!first->type) *first = fl_parse_assign(p);
    if (p->failed || !first->type) break;
    if (is_one(sub.type) || fl_ctype_same(sub.type, first->type)) {
      put(p, sub, *first, line);
      first->type = NULL;
    } else if (fl_member_has_maker(sub.type)) {
      make_of(p, sub, first, line);
      first->type = NULL;
    } else {
      fill_bare(p, sub, first, line);
    }
  }
  rest_from(p, place, i, line);
  p->nest--;
}

/* Initialises 'place', the part of an object that the clause at the tokens is for. whole: for the
** first clause the object, else NULL. In "{ v }" with a v of the object's type, or of a derived
** type, v is copied to the whole object, and 1 is returned. */
static int fill_clause(fl_front *p, fl_cvalue place, const fl_cvalue *whole, int32_t line) {
  if (fl_front_is(p, '{')) { fl_decl_fill(p, place); return 0; }
  fl_cvalue v = fl_parse_assign(p);
  if (p->failed) return 0;
  if (whole && fl_member_derives(v.type, whole->type)) {
    put(p, *whole, v, line);
    return 1;
  }
  if (is_one(place.type) || fl_ctype_same(place.type, v.type))
    put(p, place, v, line);
  else if (place.type->kind == FL_C_STRUCT && fl_member_has_maker(place.type))
    make_of(p, place, &v, line);
  else if (place.type->kind == FL_C_ARRAY || place.type->kind == FL_C_STRUCT)
    fill_bare(p, place, &v, line);
  return 0;
}

/* Takes ".name =" if it is at the tokens, for a member of 'place' from number i on, and initialises
** those before it. The number of the part that is initialised next. */
static int64_t designated(fl_front *p, fl_cvalue place, int64_t i) {
  const fl_ktok *t = fl_front_ahead(p, 1);
  if (!fl_front_take(p, '.')) return i;
  int64_t k = 0;
  const int64_t n = place.type->kind == FL_C_STRUCT ? place.type->s->n_fields : 0;
  while (k < n && !fl_ktok_is(t, place.type->s->fields[k].name)) k++;
  if (k == n || k < i) {
    fl_refuse(p, t->line, "'.%.*s' is no member that follows", (int)t->n, t->text);
    return i;
  }
  p->at++;
  if (!fl_front_is(p, '{')) fl_front_need(p, '=');
  for (; i < k && !p->failed; i++) rest(p, place, i, t->line);
  return k;
}

/* Initialises an object with constructors, after '{'; takes '}'. */
static void make_from_list(fl_front *p, fl_cvalue place, int32_t line) {
  fl_cvalue args[FL_K_MAX_GIVEN];
  if (p->table) fl_refuse(p, line, "constructors in a table of constants");
  const int n = fl_parse_list(p, args, FL_K_MAX_GIVEN, '}', "arguments of a constructor");
  if (p->failed) return;
  if (n == 1 && args[0].type && fl_ctype_same(place.type, args[0].type))
    fl_member_copy(p, place, args[0], line);
  else fl_member_make(p, place, args, n, line);
}

fl_cvalue fl_decl_list(fl_front *p, const fl_ctype *t, int32_t line) {
  const fl_cvalue v = fl_decl_object(p, t, "list", line);
  if (!p->failed) fl_decl_fill(p, v);
  return v;
}

void fl_decl_fill(fl_front *p, fl_cvalue place) {
  const int32_t line = fl_front_tok(p)->line;
  int64_t i = 0;
  int copied = 0;
  fl_front_need(p, '{');
  if (p->failed || !fl_front_enter(p) || !place.type) return;
  const int makes = place.type->kind == FL_C_STRUCT && fl_member_has_maker(place.type);
  if (makes) {
    make_from_list(p, place, line);
  } else if (is_one(place.type)) {
    if (fl_front_is(p, '}')) fl_decl_zero(p, place, line);
    else fill_clause(p, place, NULL, line);
  } else {
    const int64_t n = parts_of(place.type);
    while (!p->failed && !fl_front_is(p, '}')) {
      const int64_t elements = fl_pack_count(p, 0);
      fl_kpacked each = fl_pack_open(p, elements);
      do {
        if (elements == 0) break;
        i = designated(p, place, i);
        if (i == n) { fl_refuse(p, fl_front_tok(p)->line, "too many initialisers"); break; }
        const fl_cvalue one = part(p, place, i, line);
        copied = fill_clause(p, one, i ? NULL : &place, fl_front_tok(p)->line);
        i++;
      } while (!p->failed && fl_pack_next(p, &each));
      if (!fl_front_take(p, ',')) break;
    }
    if (!copied) rest_from(p, place, i, line);
  }
  if (!makes) fl_front_need(p, '}');
  p->nest--;
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* The clause k tokens ahead may be a pack expansion "f(v)...": how many initialisers it then gives
** in addition to one (-1 for an empty pack); 0: it is no expansion. */
static int64_t more_of_pack(fl_front *p, int k) {
  const int64_t at = p->at;
  p->at += k;
  const int64_t n = fl_pack_count(p, 0);
  p->at = at;
  return n < 0 ? 0 : n - 1;
}

/* Number of initialisers in the list {…} at the tokens, for "int a[] = {…}". */
static int64_t count_clauses(fl_front *p) {
  int64_t n = 0;
  int depth = 0, begun = 0;
  for (int k = 0; fl_front_ahead(p, k)->kind != FL_TOK_END; k++) {
    const fl_ktok *t = fl_front_ahead(p, k);
    const int c = fl_ktok_punct(t);
    if (depth == 1 && !begun && c != '}') begun = 1, n = 1 + more_of_pack(p, k);
    depth += fl_ktok_depth(t);
    k += fl_template_behind(p, k);
    if (c == ',' && depth == 1 && !fl_front_is_at(p, k + 1, '}')) n += 1 + more_of_pack(p, k + 1);
    if (!depth) break;
  }
  return n;
}

const fl_ctype *fl_decl_sized(fl_front *p, const fl_ctype *t, int32_t line) {
  if (t->kind != FL_C_ARRAY || t->count) return t;
  if (!fl_front_is(p, '{')) { fl_refuse(p, line, "an array without a size"); return t; }
  return fl_ctype_array(p->a, t->of, count_clauses(p));
}

/* The constants of an initialiser at the tokens, one array per leaf; NULL: not all are constant
** (then it is refused). */
static fl_kvalue **collect(fl_front *p, const fl_ctype *t, const char *name) {
  const int n = fl_ctype_leaves(t);
  fl_kfield *fields = fl_karena_new(p->a, (size_t)n * sizeof *fields);
  fl_kvalue **data = fl_karena_new(p->a, (size_t)n * sizeof *data);
  if (!data || !fields || !fl_ctype_fields(p->a, t, name, fields)) return NULL;
  for (int i = 0; i < n; i++)
    data[i] = fl_karena_new(p->a, (size_t)fields[i].count * sizeof **data);
  fl_kblock *out = fl_front_into(p, NULL);
  const fl_cvalue place = { .kind = FL_V_PLACE, .type = t, .var = 0 };
  if (!p->a->failed) {
    p->table = data;
    fl_decl_fill(p, place);
    p->table = NULL;
  }
  fl_front_into(p, out);
  return p->failed || p->a->failed ? NULL : data;
}

int fl_decl_table(fl_front *p, const fl_ctype *t, const char *name, int32_t line) {
  if (fl_ctype_has_mutable(t)) fl_refuse(p, line, "a constant with mutable members");
  fl_kvalue **data = collect(p, t, name);
  fl_symbol *s = data ? fl_front_add(p, name, FL_SYM_TABLE) : NULL;
  if (!s) return 0;
  s->type = t;
  s->data = (const fl_kvalue *const *)data;
  s->line = line;
  return 1;
}

/* Tries to read a const array or struct as a table; if it is not constant, nothing is taken. */
int fl_decl_try_table(fl_front *p, const fl_ctype *t, const char *name, int32_t line) {
  const fl_kattempt from = fl_front_try(p);
  if (fl_decl_table(p, t, name, line)) return 1;
  fl_front_undo(p, &from);
  return 0;
}

/* ---- ranges ---------------------------------------------------------------------------------- */

/* After '(' of a for: is it "for (T v : a)"? */
int fl_decl_is_range(fl_front *p) {
  for (int k = 0; fl_decl_starts(p, 0); k++) {
    const fl_ktok *t = fl_front_ahead(p, k);
    if (t->kind == FL_TOK_END || fl_front_is_at(p, k, ';') || fl_front_is_at(p, k, '?')) return 0;
    if (fl_front_is_at(p, k, '(') || fl_front_is_at(p, k, '=')) return 0;
    if (fl_front_is_at(p, k, ':')) return 1;
  }
  return 0;
}

/* Reads the list of "for (int v : {1, 2, 3})" as an array of type 'of'. */
fl_cvalue fl_decl_listed(fl_front *p, const fl_ctype *of, int32_t line) {
  const fl_ctype *t = of ? fl_decl_sized(p, fl_ctype_array(p->a, of, 0), line) : NULL;
  if (!of) fl_refuse(p, line, "auto of a list" FL_DO ": write the type");
  return t && !p->failed ? fl_decl_list(p, t, line) : fl_val_none();
}

/* The value of v.name(). */
static fl_cvalue ask(fl_front *p, const fl_cvalue *v, const char *name, int32_t line) {
  const fl_kcall c = { .self = v, .line = line };
  fl_kdevice *all = fl_member_functions(v->type, name),
             *d = all ? fl_overload(p, all, &c, NULL) : NULL;
  if (!d && !p->failed)
    fl_refuse(p, line, "a range of type '%s' has no %s()", fl_ctype_text(p->a, v->type), name);
  return p->failed ? fl_val_none() : fl_inline(p, d, &c);
}

/* The bound of a range-based for, over.begin() or over.end(), in a variable; or a pointer. */
fl_cvalue fl_member_bound(fl_front *p, const fl_cvalue *over, const char *name, int32_t line) {
  fl_cvalue from = ask(p, over, name, line);
  if (p->failed || from.kind == FL_V_POINTER) {
    if (from.idx) from.idx = fl_val_stable(p, from.idx);
    from.sym = 0;
    return from;
  }
  const fl_cvalue v = p->failed ? fl_val_none() : fl_decl_object(p, from.type, name, line);
  if (!p->failed) fl_member_copy(p, v, from, line);
  return v;
}
