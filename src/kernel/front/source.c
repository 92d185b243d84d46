/*
** A source as a whole, in two passes: declarations of file scope with the signatures of its
** kernels, then the bodies. An error in a declaration makes that name unusable, an error in a body
** refuses that kernel; the rest is read as usual (unless the text is too large: source.h).
*/
#include "kernel/front/forms.h"
#include "kernel/front/library.h"
#include "kernel/front/scope.h"
#include "kernel/front/template.h"
#include "kernel/tree/verify.h"
#include <string.h>

typedef struct pending {         /* a kernel whose body is to be read */
  fl_kfunc *f;
  int64_t body;                  /* token '{'; 0: the kernel is refused already */
  fl_kptypes types;              /* types of the parameters */
  struct pending *next;
} pending;

typedef struct reader {
  fl_front p;
  pending *first, *last;
} reader;

void fl_refuse_body(fl_front *p, fl_kfunc *f) {
  fl_front_check(p, NULL);
  fl_front_note_size(p);
  if (!f->refusal) {
    f->refusal = p->why;
    f->refusal_line = p->line;
  }
  f->has_body = 0;
  if (!p->a->failed) p->failed = 0;
}

/* ---- functions ------------------------------------------------------------------------------- */

static void append(reader *r, pending *k) {
  if (r->last) r->last->next = k;
  else r->first = k;
  r->last = k;
  r->p.src->n_kernels++;
}

static void add_kernel(reader *r, const char *name, const fl_specifiers *s,
                       int32_t line) {
  fl_front *p = &r->p;
  pending *k = fl_karena_new(p->a, sizeof *k);
  fl_kfunc *f = fl_kfunc_new(p->a, name);
  if (!k || !f) return;
  f->line = line;
  f->max_threads = s->max_threads;
  fl_front_parameters(p, f, &k->types);
  while (fl_device_skip_attribute(p)) continue;
  if (p->failed) return;
  if (fl_front_take(p, ';')) return;                     /* declared only */
  k->f = f;
  k->body = p->at;
  if (!fl_front_is(p, '{')) {
    fl_refuse(p, fl_front_tok(p)->line, "the body of kernel '%s' is missing", name);
    return;
  }
  fl_front_skip(p);
  const fl_ktok *last = &p->toks.at[p->at - 1];
  if (last->kind != FL_TOK_PUNCT || last->punct != '}') {
    f->has_body = 0;
    const fl_ktok *cut = p->toks.n > 1 ? &p->toks.at[p->toks.n - 2] : last;
    p->failed = 0;
    if (cut->kind == FL_TOK_BAD) fl_refuse_bad(p, cut);
    else fl_refuse(p, line, "the body is not closed");
    fl_refuse_body(p, f);
  }
  append(r, k);
}

/* Declares a function that is not a kernel, after '('. Its body is read when it is called; what is
** outside the language there is reported then. */
static void add_device(fl_front *p, const char *name, int64_t head, const fl_ctype *result,
                       const fl_specifiers *s, int ref, int32_t line) {
  fl_kdevice *d = fl_karena_new(p->a, sizeof *d);
  if (!d) return;
  d->name = name;
  d->line = line;
  d->head = head;
  d->open = p->at - 1;
  d->on_device = s->is_device;
  fl_device_formals(p, d);
  if (p->failed) return;
  fl_device_tail(p, d);
  if (p->failed) return;
  d->is_const = 0;
  fl_device_result(p, d, result, s, ref);
  for (int i = 0; i < d->n_params; i++)
    if (!d->params[i].type && !d->params[i].is_function)
      fl_refuse(p, line, "parameters of type auto are outside the language"
                FL_DO "; write a template");
  if (!p->failed) fl_device_list(p, d, 0);
  p->src->host |= line > 0 && !s->is_device && !s->is_const;
}

/* ---- file scope ------------------------------------------------------------------------------ */

static void add_refused(reader *r, const fl_ktok *name, const char *text, const char *why,
                        int32_t line) {
  fl_front *p = &r->p;
  pending *k = fl_karena_new(p->a, sizeof *k);
  fl_kfunc *f = fl_kfunc_new(p->a, text);
  if (!k || !f) return;
  f->line = name->line;
  f->has_body = 0;
  f->refusal = why;
  f->refusal_line = line;
  k->f = f;
  append(r, k);
}

/* Adds the name of a declaration that could not be read, from 'from' to here, as FL_SYM_WRONG. If
** it is a class, types among its members can still be named ('inner'), also after a definition
** "V::V(…)" that could not be read either. */
static void note_class(fl_front *p, int64_t from, const char *name, const char *why) {
  fl_symbol *types;
  const fl_symbol *known = fl_front_find(p, name, (int32_t)strlen(name));
  const int64_t n = fl_front_unread_types(p, from, &types);
  fl_symbol *s = known && known->kind == FL_SYM_WRONG && known->n_inner && !n
                 ? NULL : fl_front_add(p, name, FL_SYM_WRONG);
  if (s) s->why = why, s->inner = types, s->n_inner = n;
}

/* Handles a declaration that could not be read: adds its name as a symbol of kind FL_SYM_WRONG,
** with the reason, for messages about code that uses it. A kernel that is not a template is listed
** as refused. */
static void note_wrong(reader *r, int64_t from) {
  fl_front *p = &r->p;
  const char *why = p->why;
  const int32_t line = p->line;
  int is_kernel;
  fl_front_note_size(p);
  fl_front_check(p, NULL);
  if (p->a->failed) return;
  p->failed = 0;
  fl_front_skip_declaration(p, from);
  const fl_ktok *name = fl_front_unread_name(p, from, &is_kernel);
  if (!name || (is_kernel && fl_ktok_is(&p->toks.at[from], "template"))) return;
  const char *text = fl_karena_str(p->a, name->text, (size_t)name->n);
  if (!text) return;
  const char *reason =
      fl_karena_printf(p->a, "%s (line %d)", why ? why : "not understood", (int)line);
  if (!is_kernel) {
    int device = 0;
    for (int64_t i = from; i < p->at; i++) device |= fl_ktok_is(&p->toks.at[i], "__device__");
    p->src->host |= !device;
    if (fl_ctype_named(p->a, name->text, name->n) || fl_ktok_is(name, "int")) return;
    note_class(p, from, text, reason);
    return;
  }
  add_refused(r, name, text, why, line);
}

static void operator_declaration(fl_front *p, int64_t head, int32_t line) {
  p->at = head;
  fl_kdevice *d = fl_device_scan(p, NULL);
  const int64_t end = p->at;
  if (!d) fl_refuse(p, line, "this operator cannot be defined here");
  else fl_device_signature(p, d);
  p->at = end;
  if (d && !p->failed) fl_device_list(p, d, 0);
}

/* At a name before '(': is it of a const variable with its value in the brackets ("const int
** n(3);"), and not of a function? */
static int is_set_there(fl_front *p, const fl_specifiers *s) {
  const fl_ktok *t = fl_front_ahead(p, 2);
  const fl_symbol *known = t->kind == FL_TOK_NAME ? fl_front_find(p, t->text, t->n) : NULL;
  if (!s->is_const || s->is_global || fl_decl_starts(p, 2)) return 0;
  return t->kind == FL_TOK_INT || t->kind == FL_TOK_FLOAT || fl_is_punct(t, '(') ||
         fl_is_punct(t, '-') || (known && known->kind != FL_SYM_WRONG);
}

/* Takes the namespaces before the name in "void a::b::f(…) {". The next token. */
static const fl_ktok *after_spaces(fl_front *p) {
  int k = 0;
  while (fl_front_is_at(p, k + 1, FL_PU_SCOPE) && fl_scope_is_space(p, fl_front_ahead(p, k)))
    k += 2;
  const fl_kspace *of = k ? fl_scope_at(p, p->at + k) : NULL;
  const fl_ktok *last = fl_front_ahead(p, k - 2);
  if (of && of->name->n == last->n && !memcmp(of->name->text, last->text, (size_t)last->n) &&
      fl_front_is_at(p, k + 1, '('))
    p->at += k;
  return fl_front_tok(p);
}

static void declaration(reader *r) {
  fl_front *p = &r->p;
  const int64_t head = p->at;
  if (fl_outside_declare(p, NULL, 0, 0)) return;
  const fl_specifiers s = fl_decl_specifiers(p);
  if (!s.type) return;
  const int64_t back = p->at;
  int ref;
  const fl_ctype *t = fl_decl_pointers(p, &s, &ref);
  fl_specifiers attributes = s;
  while (!p->failed && fl_ktok_is(fl_front_tok(p), "__launch_bounds__"))
    attributes.max_threads = fl_decl_bounds(p);
  const fl_ktok *name = after_spaces(p);
  const int is_operator = fl_ktok_is(name, "operator");
  if (!is_operator && (name->kind != FL_TOK_NAME || !fl_front_is_at(p, 1, '(') ||
                       is_set_there(p, &s))) {
    p->at = back;
    fl_decl_global(p, s);
    return;
  }
  if (is_operator) { operator_declaration(p, head, name->line); return; }
  const char *text = fl_front_name(p);
  fl_front_need(p, '(');
  if (p->failed) return;
  if (s.is_global) add_kernel(r, text, &attributes, name->line);
  else add_device(p, text, head, t, &s, ref, name->line);
}

static void top_namespace(fl_front *p) {
  p->spaces = 1;
  p->at++;
  if (fl_front_is_at(p, 1, '=')) { fl_scope_rename(p); return; }
  fl_front_take(p, FL_PU_SCOPE);
  while (!p->failed && fl_front_tok(p)->kind == FL_TOK_NAME) {
    const char *name = fl_front_name(p);
    if (!fl_front_find(p, name, (int32_t)strlen(name))) fl_front_add(p, name, FL_SYM_SPACE);
    if (!fl_front_take(p, FL_PU_SCOPE)) break;
  }
  fl_front_need(p, '{');
}

/* Does it declare one of CUDA's own functions, as "__device_builtin__ int __ffs(int);"? */
static int is_builtin(fl_front *p) {
  int k = 0, is = 0;
  for (;; k++) {
    const fl_ktok *t = fl_front_ahead(p, k);
    if (t->kind != FL_TOK_NAME && t->kind != FL_TOK_STRING && !fl_is_punct(t, '*')) break;
    is |= fl_ktok_is(t, "__device_builtin__");
  }
  return is && fl_front_is_at(p, k, '(') && fl_front_is_at(p, fl_front_past(p, k), ';');
}

static void top_level(reader *r) {
  fl_front *p = &r->p;
  const int64_t from = p->at, symbols = p->syms.n;
  p->nest = 0;
  if (fl_front_take(p, ';') || fl_front_take(p, '}')) return;
  const fl_ktok *t = fl_front_tok(p);
  if (fl_ktok_is(t, "extern") && fl_front_ahead(p, 1)->kind == FL_TOK_STRING &&
      fl_front_is_at(p, 2, '{')) {
    p->at += 3;                                            /* its '}' is taken as above */
    return;
  }
  if (fl_ktok_is(t, "namespace") ||
      (fl_ktok_is(t, "inline") && fl_ktok_is(fl_front_ahead(p, 1), "namespace"))) {
    if (fl_ktok_is(t, "inline")) p->at++;
    top_namespace(p);
    if (p->failed) note_wrong(r, from);
    return;
  }
  if (fl_ktok_is(t, "static_assert") || is_builtin(p)) {
    fl_front_skip_declaration(p, from);
    return;
  }
  if (fl_ktok_is(t, "using") || fl_ktok_is(t, "typedef")) { fl_decl_local(p); }
  else if (fl_front_word(p, "template")) fl_template_declare(p);
  else if (!fl_template_guide(p)) declaration(r);
  if (p->failed) note_wrong(r, from);
  fl_scope_tell_apart(p, symbols);
  if (p->at == from) p->at++;
}

/* ---- bodies ---------------------------------------------------------------------------------- */

static int add_leaf(fl_front *p, fl_kfunc *f, int i, const fl_kfield *field) {
  const fl_kvkind kind = field->is_pointer ? FL_KV_POINTER
                         : field->rank     ? FL_KV_ARRAY
                                           : FL_KV_LOCAL;
  const int var = fl_decl_leaf(p, field, kind, field->type, f->params[i].line);
  if (var < 0) return -1;
  f->vars[var].param = i;
  f->vars[var].offset = field->offset;
  f->vars[var].is_const = field->is_const && !f->params[i].part_of;    /* (memory.c sets theirs) */
  return var;
}

static void bind_pointer(fl_front *p, fl_kfunc *f, const fl_kparam *q, const fl_ctype *t) {
  int offset = -1;
  if (fl_turn_moves(p, p->at, 0, q->name, 1)) {                  /* it gets an index variable */
    offset = fl_kvar_add(f, FL_KV_LOCAL, FL_KT_I64, q->name, 1);
    if (offset < 0) return;
    fl_kstmt_decl(f, p->b, offset);
    fl_kstmt_assign(f, p->b, offset, fl_kexpr_int(p->a, FL_KT_I64, 0));
  }
  fl_cvalue v = { .kind = FL_V_POINTER, .linear = 1, .is_const = q->is_const, .type = t->of,
                  .var = q->first_var };
  if (q->is_null) v.when = fl_kexpr_int(p->a, FL_KT_BOOL, 0);
  if (offset >= 0 && fl_turn_fits(p, t->of, &v) && fl_turn_later(p, p->at, 0, q->name))
    v = fl_turn_new(p, t->of, q->is_const, q->name, &v, q->line);
  fl_symbol *s = fl_front_bind(p, q->name, FL_SYM_POINTER, v);
  if (s) s->type = t->of, s->offset = offset;
}

/* Binds a parameter that is a number or struct to its variables, or to a copy if its elements are
** stored as another type than declared (view.c). */
static void bind_number(fl_front *p, const fl_kparam *q, const fl_ctype *t) {
  fl_cvalue v = { .kind = FL_V_PLACE, .type = t, .var = q->first_var };
  const char *name = q->name;
  const int32_t line = q->line;
  if (fl_view_stored(p, name) != FL_KT_VOID) {
    const fl_cvalue given = v;
    v = fl_decl_object(p, t, name, line);
    if (!p->failed) fl_val_assign(p, v, given, line);
  } else {
    fl_view_settle(p, t, name, v.var, q->n_vars);
  }
  fl_front_bind(p, name, FL_SYM_OBJECT, v);
}

int fl_front_variables(fl_front *p, fl_kfunc *f, int i, const fl_ctype *t) {
  fl_kparam *q = &f->params[i];
  const int n = fl_ctype_leaves(t);
  fl_kfield *fields = fl_karena_new(p->a, (size_t)n * sizeof *fields);
  if (!fields) return 0;
  if (!fl_ctype_fields(p->a, q->list_of ? t->of : t, q->name, fields)) {
    if (!p->a->failed)
      fl_refuse(p, q->line, "arrays of more than %d dimensions ('%s')", FL_K_MAX_RANK,
                q->name);
    return 0;
  }
  q->first_var = f->n_vars;
  q->n_vars = n;
  for (int k = 0; k < n; k++)
    if (add_leaf(p, f, i, &fields[k]) < 0) return 0;
  if (q->is_texture) f->vars[q->first_var].type = q->type;
  return 1;
}

static void bind_parameter(fl_front *p, fl_kfunc *f, int i, const fl_ctype *t) {
  const fl_kparam *q = &f->params[i];
  if (!fl_front_variables(p, f, i, t)) return;
  if (t->kind != FL_C_POINTER) { bind_number(p, q, t); return; }
  if (q->list > 1) return;
  if (q->list_of) {
    fl_front_bind(p, q->list_of, FL_SYM_POINTER,
                  (fl_cvalue){ .kind = FL_V_POINTER, .linear = 1, .type = t->of,
                               .list = (uint8_t)q->lists, .var = q->first_var });
    return;
  }
  bind_pointer(p, f, q, t);
}

/* Makes the names of the parameters known. */
static void bind_all(fl_front *p, fl_kfunc *f, const fl_kptypes *types) {
  for (int i = 0, n; i < f->n_params && !p->failed; i += n) {
    n = types->whole[i] ? fl_spread_bind(p, f, i, types) : 1;
    if (!types->whole[i] && types->at[i]) bind_parameter(p, f, i, types->at[i]);
  }
}

/* Which variables are read. drop_result removes results of atomics that are not read. */
typedef struct used { uint8_t *at; } used;
static int see_var(void *arg, fl_kexpr *x) {
  if (x->kind == FL_KX_VAR) ((used *)arg)->at[x->var] = 1;
  return 1;
}
static int drop_result(void *arg, fl_kstmt *s) {
  if (s->kind == FL_KS_ATOMIC && s->result >= 0 && !((used *)arg)->at[s->result])
    s->result = -1;
  return 1;
}

static void finish_body(fl_front *p, fl_kfunc *f) {
  used u = { fl_karena_new(p->a, (size_t)f->n_vars + 1) };
  if (!u.at) return;
  fl_kwalk_block(&(fl_kvisitor){ NULL, see_var, &u }, f->body);
  fl_kwalk_block(&(fl_kvisitor){ drop_result, NULL, &u }, f->body);
  fl_memory_settle(f);
  f->shared_bytes = (p->shared_at + 15) / 16 * 16;
  if (f->shared_bytes > FL_K_MAX_SHARED)
    fl_refuse(p, f->line, "%lld bytes of static shared memory, a block has %d; more is to be had "
              "as extern __shared__", (long long)f->shared_bytes, FL_K_MAX_SHARED);
}

static void read_once(fl_front *p, pending *k) {
  fl_kfunc *f = k->f;
  const int64_t scope = p->syms.n;
  p->turns = NULL;
  p->held = NULL;
  p->f = f;
  p->b = &f->body;
  p->at = k->body;
  p->globals = p->frame = scope;
  p->nest = p->inlined = p->failed = p->continues = p->statement = p->outer = 0;
  p->breaks = FL_BREAK_NONE;
  p->nodes = p->shared_at = 0;
  p->statement_call = -1;
  p->inside = NULL;
  p->outside = NULL;
  p->up = NULL;
  p->half = 0;
  p->table = NULL;
  if (f->n_params) bind_all(p, f, &k->types);
  if (!p->failed) fl_parse_compound(p);
  if (!p->failed && !p->a->failed) fl_turn_lower(p);
  if (!p->failed && !p->a->failed) finish_body(p, f);
  fl_front_check(p, NULL);
  if (p->failed) fl_refuse_body(p, f);
  for (int32_t i = 0; i < f->n_vars; i++) f->vars[i].note = NULL;
  if (!f->has_body) f->body = (fl_kblock){ NULL, NULL };
  for (int64_t i = 0; i < scope; i++)
    for (fl_kdevice *d = p->syms.at[i].device; d; d = d->next) d->busy = 0;
  p->syms.n = scope;
  p->f = NULL;
  p->b = NULL;
  p->globals = p->frame = 0;
}

static void read_again(fl_front *p, pending *k, const fl_kfunc *before) {
  for (int64_t i = 0; i < p->syms.n; i++)
    if (p->syms.at[i].of == k->f) p->syms.at[i].of = NULL;
  *k->f = *before;
  k->f->names = NULL;
  k->f->n_names = k->f->cap_names = 0;
  for (int i = 0; i < k->f->n_params; i++) k->f->params[i].first_var = k->f->params[i].n_vars = 0;
  p->restored = 0;
  read_once(p, k);
}

enum { MOST_READINGS = 16 };

/* Reads the body, and reads it again if needed: with other element types of objects (view.c), or as
** declared if that fails; with pointers into one of several arrays (turn.c), if it fails without
** them. */
static void read_body(fl_front *p, pending *k) {
  const fl_kfunc before = *k->f;
  int left = MOST_READINGS, good = 0;
  p->turning = p->turn_wanted = p->restored = p->as_declared = 0;
  p->stored = NULL;
  read_once(p, k);
  while (!p->a->failed) {
    const int other = p->restored && left-- > 0,
              turns = p->turn_wanted > p->turning && !k->f->has_body,
              back = !other && !turns && good && !k->f->has_body && !p->as_declared;
    if (!other && !turns && !back) break;
    good |= k->f->has_body;
    if (turns && !other) p->turning = p->turn_wanted;
    if (back) {
      p->as_declared = 1;
      p->stored = NULL;
      p->turning = p->turn_wanted = 0;
    }
    read_again(p, k, &before);
  }
  p->turning = 0;
}

/* ---- the source ------------------------------------------------------------------------------ */

/* Refuses kernel f, which was not read, since its text is too large. */
static void refuse_unread(const fl_ksource *s, fl_kfunc *f) {
  f->has_body = 0;
  f->refusal = s->too_large;
  f->refusal_line = s->too_large_line;
}

static void read_all(reader *r) {
  fl_front *p = &r->p;
  fl_ksource *s = p->src;
  while (!p->a->failed && !s->too_large && fl_front_ahead(p, 0)->kind != FL_TOK_END) top_level(r);
  s->kernels = fl_karena_new(p->a, (size_t)(s->n_kernels + 1) * sizeof *s->kernels);
  if (!p->a->failed && !s->too_large && s->n_kernels) fl_front_bounds(p);
  int n = 0;
  for (pending *k = r->first; k && s->kernels; k = k->next) {
    if (k->f->has_body && k->body && !s->too_large) read_body(p, k);
    else if (s->too_large && k->f->has_body) refuse_unread(s, k->f);
    if (!p->a->failed) fl_kpass_done("reading", k->f, k->f->body);
    if (!p->a->failed && !k->f->has_body) fl_kpass_tell(k->f, k->f->refusal);
    s->kernels[n++] = k->f;
  }
  if (s->kernels && !p->a->failed) fl_memory_compare(s);
  if (!n && !p->a->failed) {
    const char *why = p->template_line && !p->sized ? FL_K_NAME_TEMPLATE : p->why;
    s->error = why ? why : "there is no __global__ function";
    s->error_line = why == p->why && why ? p->line : p->template_line ? p->template_line : 1;
  }
}

fl_ksource *fl_ksource_parse(fl_mem *m, fl_error *e, const char *text, size_t n) {
  return fl_ksource_parse_until(m, e, text, n, NULL, 0, NULL, NULL, NULL);
}

/* If the caller named folders and none of them has a file that the text includes: adds a BAD token
** that refuses the text, since a device's compiler would not find the file either. Not if another
** file was read: then the compiler gets what was read, without directives. */
static void refuse_missing(fl_karena *a, const fl_kfiles *files, fl_ktoks *toks) {
  if (!files || !files->named || files->read || !files->missing) return;
  const char *why = fl_karena_printf(a, "#include \"%s\": no folder of 'include' has that file"
                                     FL_DO ": name its folder too, or leave the line out",
                                     files->missing);
  fl_ktok *last = why ? FL_PUSH(a->mem, toks) : NULL;
  if (!last) { a->failed = 1; return; }
  *last = last[-1];                                                                      /* END */
  last[-1] = (fl_ktok){ .kind = FL_TOK_BAD, .type = 1, .line = files->line, .text = why,
                        .n = (int32_t)strlen(why) };
}

fl_ksource *fl_ksource_parse_until(fl_mem *m, fl_error *e, const char *text, size_t n,
                                   const char *const *option, int n_options, fl_kfiles *files,
                                   const char *forms, const atomic_int *stop) {
  fl_ksource *s = fl_zalloc(m, sizeof *s);
  reader r;
  memset(&r, 0, sizeof r);
  if (!s) {
    fl_fail(e, FLAME_NO_MEMORY, "kernel", "no memory for the source");
    return NULL;
  }
  fl_karena_init(&s->arena, m);
  s->mem = m;
  s->arena.stop = stop;
  s->text = fl_karena_str(&s->arena, text, n);
  r.p.a = &s->arena;
  r.p.src = s;
  r.p.forms = forms;
  r.p.end.kind = FL_TOK_END;
  r.p.statement_call = -1;
  const char *given = fl_kpreprocess_options(&s->arena, option, n_options);
  int is = s->text && given && fl_kpreprocess(&s->arena, s->text, n, given, files, &r.p.toks);
  if (is) refuse_missing(&s->arena, files, &r.p.toks);
  is = is && !s->arena.failed && fl_klibrary_add(&s->arena, &r.p.toks);
  if (is) read_all(&r);
  s->included = files && files->read;
  FL_DROP(m, &r.p.toks);
  const int failed = s->arena.failed;
  s->arena.stop = NULL;
  if (!failed) return s;
  fl_ksource_free(s);
  if (failed == FL_KARENA_STOPPED) {
    fl_fail(e, FLAME_INTERRUPTED, "kernel", "interrupted!");
    return NULL;
  }
  fl_fail(e, FLAME_NO_MEMORY, "kernel", "no memory for the source");
  return NULL;
}
