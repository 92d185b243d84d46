/*
** Calls: arguments, __device__ functions (inlined: their tokens are read again with the parameters
** bound), builtins. References and pointers are bound to the caller's objects.
*/
#include "kernel/front/forms.h"
#include "kernel/front/number.h"
#include "kernel/front/scope.h"
#include "kernel/front/template.h"
#include <string.h>

int fl_parse_arguments(fl_front *p, fl_cvalue *args, int max) {
  fl_front_need(p, '(');
  return fl_parse_list(p, args, max, ')', "arguments of a call");
}

int fl_parse_list(fl_front *p, fl_cvalue *args, int max, int close, const char *what) {
  const int angle = p->angle;
  int n = 0;
  if (fl_front_take(p, close)) return 0;
  p->angle = 0;
  const fl_kmark m = fl_order_mark(p);
  do {
    if (close == '}' && fl_front_is(p, '}')) break;                         /* "{a, b,}" */
    const int64_t elements = fl_pack_count(p, 0);
    fl_kpacked each = fl_pack_open(p, elements);
    do {
      if (elements == 0) break;
      if (!fl_front_room(p, n, max, what)) break;
      if (fl_front_is(p, '{')) {
        args[n++] = (fl_cvalue){ .kind = FL_V_LIST, .type = fl_ctype_void(), .at = p->at };
        fl_front_skip(p);
      } else {
        const fl_kmark middle = fl_order_mark(p);
        const int32_t line = fl_front_tok(p)->line;
        args[n] = fl_parse_assign(p);
        if (!p->failed && close == '}') fl_order_before(p, args, n, &middle, 0, line);
        else if (!p->failed) fl_order_argument(p, &m, &middle, args, n, line);
        n++;
      }
    } while (!p->failed && fl_pack_next(p, &each));
  } while (!p->failed && fl_front_take(p, ','));
  p->angle = angle;
  fl_front_need(p, close);
  return p->failed ? 0 : n;
}

/* ---- inlining -------------------------------------------------------------------------------- */

/* Puts the index of an lvalue or pointer into a temporary, since the callee may change variables
** that the index reads. */
static fl_cvalue settled(fl_front *p, fl_cvalue v) {
  if (v.idx) v.idx = fl_val_stable(p, v.idx);
  return v;
}

/* Binds a parameter "T *&p", which the body assigns, as another name for the caller's pointer. */
static void bind_other_name(fl_front *p, const fl_kformal *f, fl_cvalue v, int32_t line) {
  const fl_symbol of = v.kind == FL_V_POINTER && v.sym ? p->syms.at[v.sym - 1]
                                                       : (fl_symbol){ .offset = -1 };
  if (of.offset < 0 || !of.v.type) {
    if (!p->turning) p->turn_wanted = 1;
    fl_refuse(p, line, "pointer '%s' is assigned in the function that takes it by reference",
              f->name);
    return;
  }
  fl_symbol *s = fl_front_add(p, f->name, FL_SYM_POINTER);
  if (!s) return;
  s->v = of.v;
  s->type = of.type;
  s->offset = of.offset;
}

static void bind_pointer(fl_front *p, const fl_kformal *f, fl_cvalue v,
                         int64_t body, int32_t line) {
  if (f->by_reference && fl_turn_moves(p, body, 0, f->name, 1)) {
    bind_other_name(p, f, v, line);
    return;
  }
  if (v.kind == FL_V_PLACE) v = fl_val_pointer(p, v, line);
  v = fl_pointer_as(p, f->type, v, line);
  if (p->failed) return;
  const int alone = !v.null && fl_held_alone(p, &v);
  const int moves = fl_turn_moves(p, body, 0, f->name, !alone);
  int offset = -1;
  if (v.null) {                   /* the pointer stays null, so that tests for null are constants */
    fl_front_bind(p, f->name, FL_SYM_POINTER, v);
    return;
  }
  const int fits = p->turning && !alone && fl_turn_fits(p, v.type, &v);
  const int turns = fits && (fl_turn_of(p, v.var) || fl_turn_later(p, body, 0, f->name));
  fl_kexpr *const begin = v.idx;
  if (turns) {
    v = fl_turn_new(p, v.type, v.is_const, f->name, &v, line);
    v.idx = begin;
  }
  if (p->failed) return;
  if (moves || turns) {
    offset = fl_kvar_add(p->f, FL_KV_LOCAL, FL_KT_I64, f->name, 1);
    if (offset < 0) return;
    fl_kstmt_decl(p->f, p->b, offset);
    fl_kstmt_assign(p->f, p->b, offset, fl_val_at(p, &v));
    v.idx = NULL;
  } else {
    v = settled(p, v);
  }
  fl_symbol *s = fl_front_add(p, f->name, FL_SYM_POINTER);
  if (!s) return;
  v.sym = 0;
  s->v = v;
  s->offset = offset;
}

/* Binds a const formal of a library function (line 0) to the constant v itself. 0: the function,
** the formal or v is not of that kind, and nothing is bound. */
static int bind_constant(fl_front *p, const fl_kdevice *d, const fl_kformal *f, fl_cvalue v) {
  const int known = v.kind == FL_V_EXPR && v.e->kind == FL_KX_CONST && f->is_const &&
                    f->type->kind == FL_C_SCALAR && !d->line;
  if (known) fl_choose_name(p, f->name, fl_val_convert(p, v.e, f->type->scalar));
  return known;
}

static void bind_value(fl_front *p, const fl_kformal *f, fl_cvalue v, int64_t body,
                       int32_t line) {
  fl_cvalue to = fl_decl_formal(p, f->type, f->name, body, line);
  if (p->failed) return;
  fl_member_copy(p, to, v, line);
  to.is_const = f->is_const;
  fl_front_bind(p, f->name, FL_SYM_OBJECT, to);
}

/* If the body accesses a parameter such as "const float4 &p" as an array, and v is not one already,
** binds the parameter to a copy of v that is an array, and returns 1; else 0. */
static int wants_array(fl_front *p, const fl_kformal *f, fl_cvalue v, int64_t body, int32_t line) {
  if (!f->is_const || v.linear || !fl_decl_counted(p, f->type, f->name, body)) return 0;
  const fl_cvalue one = fl_decl_formal(p, f->type, f->name, body, line);
  fl_member_copy(p, one, v, line);
  fl_front_bind(p, f->name, FL_SYM_REFERENCE, one);
  return 1;
}

static void bind_reference(fl_front *p, const fl_kdevice *d, const fl_kformal *f, fl_cvalue v,
                           int32_t line) {
  const int pure = !v.torn && fl_call_takes_copies(p, d), is_place = v.kind == FL_V_PLACE,
            turned = pure && is_place && p->turning && f->is_const && fl_turn_of(p, v.var);
  const int64_t body = d->body;
  const int derives = fl_member_derives(v.type, f->type);
  if (!v.rvalue && derives) v.torn = 0;
  if (derives && !v.either && (v.rvalue || !is_place) && !fl_ctype_same(v.type, f->type)) {
    const fl_cvalue whole = fl_decl_object(p, v.type, f->name, line);      /* of v's own type */
    if (!p->failed) fl_val_assign(p, whole, v, line);
    v = whole;
  }
  v = fl_member_as(p, v, f->type, line);
  if (!turned) fl_choose_bound(p, &v, f->is_const, pure, f->name, line);
  if (p->failed) return;
  const int place = v.kind == FL_V_PLACE && !v.rvalue && !turned && fl_ctype_like(f->type, v.type);
  if (!place && (f->is_const || f->by_reference == 2)) { bind_value(p, f, v, body, line); return; }
  const int copies = place && (pure || p->f->vars[v.var].kind == FL_KV_TABLE);
  if (copies && wants_array(p, f, v, body, line)) return;
  if (!place) {
    fl_refuse(p, line, "reference '%s' needs a variable of its type", f->name);
    return;
  }
  v = settled(p, v);
  v.torn = v.moved = 0;
  v.is_const |= f->is_const;
  fl_front_bind(p, f->name, FL_SYM_REFERENCE, v);
}

/* Reads an argument v that is an initialiser list. No parameter of the callee is declared yet, so
** names in it are those of the caller (in a default argument, those of the declaration). */
static fl_cvalue listed(fl_front *p, const fl_kformal *f, fl_cvalue v, int32_t line) {
  const int64_t at = p->at;
  const fl_cvalue to = fl_decl_object(p, f->type, f->name, line);
  p->at = v.at;
  if (!p->failed) fl_decl_fill(p, to);
  p->at = at;
  return to;
}

/* The default value of a parameter, read in the scope of the function's declaration: its struct,
** or the file. Its parameters, which may have other names where it is defined, are not declared
** yet. */
static fl_cvalue by_default(fl_front *p, const fl_kdevice *d, const fl_kformal *f, int64_t frame,
                            int32_t line) {
  const int64_t at = p->at, outer = p->frame;
  const fl_kscope *up = p->up;
  p->frame = frame;
  p->up = d->scope;
  p->at = f->init;
  const fl_cvalue v = fl_front_is(p, '{')
                      ? listed(p, f, (fl_cvalue){ .kind = FL_V_LIST, .at = p->at }, line)
                                         : fl_parse_assign(p);
  p->frame = outer;
  p->up = up;
  p->at = at;
  return v;
}

static void add_defaults(fl_front *p, const fl_kdevice *d, const fl_kcall *c, int64_t frame,
                         fl_cvalue *args) {
  const fl_kmark m = fl_order_mark(p);
  for (int i = c->n; i < d->n_params && !p->failed; i++) {
    const fl_kmark middle = fl_order_mark(p);
    args[i] = by_default(p, d, &d->params[i], frame, c->line);
    if (!p->failed) fl_order_argument(p, &m, &middle, args, i, c->line);
  }
}

static void bind(fl_front *p, const fl_kdevice *d, const fl_kcall *c, int64_t frame) {
  fl_cvalue args[FL_K_MAX_GIVEN];
  for (int i = 0; i < c->n && !p->failed; i++)
    args[i] = c->args[i].kind == FL_V_LIST ? listed(p, &d->params[i], c->args[i], c->line)
                                           : c->args[i];
  if (d->owner) fl_member_open(p, d, c->self);
  fl_front_push(p, d->env, d->n_env);
  add_defaults(p, d, c, frame, args);
  for (int i = 0; i < d->n_params && !p->failed; i++) {
    const fl_kformal *f = &d->params[i];
    const fl_cvalue v = args[i];
    fl_kformal as = *f;
    if (v.kind == FL_V_POINTER && v.address) {     /* an address in shared memory */
      as.by_reference = 0;
      as.type = fl_ctype_pointer(p->a, v.type, 0);
      if (!as.type) break;
    }
    if (as.type->kind == FL_C_POINTER) bind_pointer(p, &as, v, d->body, c->line);
    else if (f->by_reference) bind_reference(p, d, f, v, c->line);
    else if (!bind_constant(p, d, f, v)) bind_value(p, f, v, d->body, c->line);
  }
  fl_symbol *pack = d->pack && !p->failed ? fl_front_add(p, d->pack, FL_SYM_PACK) : NULL;
  if (pack) pack->n_inner = d->n_pack;
  p->frame = frame;
}

/* Appends the body of an inlined function as a block, which a LEAVE (its return) ends. Without a
** LEAVE, or with one as the last statement only, neither block nor LEAVE is needed. */
static void append_body(fl_front *p, fl_kblock body, int label, int32_t line) {
  for (fl_kstmt *s = body.first; s; s = s->next) s->called = 1;
  const int leaves = fl_kleaves(body, label);
  const int last =
      body.last && body.last->kind == FL_KS_LEAVE && body.last->label == label;
  if (last) fl_kblock_drop_last(&body);
  if (leaves - last == 0) { fl_kblock_append(p->b, body); return; }
  fl_kstmt *s = fl_emit(p, FL_KS_BLOCK, line);
  if (!s) return;
  s->label = label;
  s->body = body;
  s->called = 1;
}

/* The object for the result. It is made before the body, unless the result is auto, a reference or
** a pointer: then the first return determines it. */
static fl_cvalue result_object(fl_front *p, const fl_kdevice *d, int32_t line) {
  if (!d->result || d->returns != FL_RETURNS_VALUE) return (fl_cvalue){ .kind = FL_V_NONE };
  if (d->result->kind == FL_C_VOID) return fl_val_none();
  return fl_decl_object(p, d->result, d->name, line);
}

/* Gives the tokens of a library function's body (library.h) the line that calls it, so that
** messages name that line. */
static void blame(fl_front *p, int64_t body, int32_t line) {
  const int64_t end = fl_front_end(p, body);
  for (int64_t i = body; i < end; i++) p->toks.at[i].line = line;
}

/* Evaluates a call with constant arguments: where statements are not allowed, as in the size of an
** array, or where the call is a constant anyway (is_constant). */
static fl_cvalue fold_call(fl_front *p, fl_kdevice *d, const fl_kcall *c) {
  const fl_kbookmark back = fl_front_open(p, d->body, d->scope);
  const int64_t frame = p->frame;
  if (d->owner) fl_member_open(p, d, c->self);
  fl_front_push(p, d->env, d->n_env);
  fl_kexpr *given[FL_K_MAX_GIVEN];
  for (int i = 0; i < d->n_params && !p->failed; i++)
    given[i] = fl_val_scalar(
        p, i < c->n ? c->args[i] : by_default(p, d, &d->params[i], frame, c->line), c->line);
  for (int i = 0; i < d->n_params && !p->failed; i++) {
    const fl_kformal *f = &d->params[i];
    fl_kexpr *e = given[i];
    e = e && f->type->kind == FL_C_SCALAR ? fl_val_to(p, e, f->type) : NULL;
    if (!e || e->kind != FL_KX_CONST)
      fl_refuse(p, c->line, "a call of '%s' in a constant expression", d->name);
    fl_front_bind(p, f->name, FL_SYM_CONSTANT, fl_val_expr(e));
  }
  fl_kexpr *r = NULL;
  const int busy = d->busy, dead = p->dead;
  d->busy = 1;
  p->dead = 0;
  fl_fold_statement(p, &r);
  d->busy = busy;
  p->dead = dead;
  if (!r && !p->failed) fl_refuse(p, c->line, "'%s' returns no constant here", d->name);
  if (r && d->result && d->result->kind == FL_C_SCALAR) r = fl_val_to(p, r, d->result);
  fl_front_close(p, back);
  return fl_val_expr(r);
}

/* Has the body only "return …;" and "if (…) …", which fl_fold_statement reads? */
static int is_plain(fl_front *p, const fl_kdevice *d) {
  static const char *const loops[] = { "for", "while", "do", "switch" };
  const fl_ktok *t = &p->toks.at[d->body + 1], *end = &p->toks.at[fl_front_end(p, d->body)];
  if (fl_ktok_is(t, "return")) return 1;
  int is = fl_ktok_is(t, "if");
  for (; is && t < end; t++) {
    const int c = fl_ktok_punct(t);
    is = c != '=' && c != FL_PU_INC && c != FL_PU_DEC && c < FL_PU_ADD_SET &&
         fl_ktok_among(t, loops, 4) < 0;
  }
  return is;
}

/* Is the call a constant? It is if the function is constexpr and called for no object, each given
** argument is a constant, and the body consists of returns or is being evaluated already (a call of
** itself). */
static int is_constant(fl_front *p, const fl_kdevice *d, const fl_kcall *c) {
  int marked = 0;
  if (c->self && d->owner && !d->is_static) return 0;
  for (int64_t i = d->head; i < d->open; i++) marked |= fl_ktok_is(&p->toks.at[i], "constexpr");
  for (int i = 0; i < c->n; i++)
    marked &= c->args[i].kind == FL_V_EXPR && c->args[i].e->kind == FL_KX_CONST;
  return marked && (d->busy || is_plain(p, d));
}

static int cannot(fl_front *p, const fl_kdevice *d, int folds, int32_t line) {
  if (p->failed) return 1;
  if (d->why) fl_refuse(p, line, "'%s' %s", d->name, d->why);
  else if (d->body <= 0)
    fl_refuse(p, line, "%s '%s' is declared (line %d), and has no body here",
              d->is_maker ? "a constructor of" : "function",
              d->is_maker ? fl_ctype_text(p->a, d->owner) : d->name, (int)d->line);
  else if (d->busy && !folds)
    fl_refuse(p, line, "recursion is outside the language ('%s' calls itself)", d->name);
  else if (p->inlined >= FL_K_MAX_INLINE)
    fl_refuse(p, line, "calls of functions are nested more than %d deep", FL_K_MAX_INLINE);
  else if (++p->nodes > FL_K_MAX_NODES)
    fl_refuse_size(p, line, "the kernel is too long after inlining");
  return p->failed;
}

/* Reads the body, with its parameters bound, into *body, and restores the parser's state for the
** caller. Returns the result; *label: the label that its returns leave. */
static fl_cvalue read_body(fl_front *p, fl_kdevice *d, const fl_kcall *c, fl_kblock *body,
                           int *label) {
  const fl_front saved = *p;
  const int64_t frame = p->syms.n;
  const fl_cvalue r = result_object(p, d, c->line);
  bind(p, d, c, frame);
  p->up = d->scope;
  p->half = p->pack = 0;
  p->outside = p->b;
  p->b = body;
  p->inside = d;
  p->returned = r;
  p->return_label = *label = p->f->n_labels++;
  p->breaks = FL_BREAK_NONE;
  p->continues = p->statement = p->outer = 0;
  p->inlined++;
  d->busy = 1;
  if (d->is_maker && c->self && !p->failed) fl_member_inits(p, d, *c->self);
  p->at = d->body;
  if (!p->failed) fl_parse_compound(p);
  d->busy = 0;
  const fl_cvalue given = p->returned;
  p->syms.n = frame;
  p->b = saved.b;
  p->at = saved.at;
  p->half = saved.half;
  p->pack = saved.pack;
  p->frame = saved.frame;
  p->up = saved.up;
  p->inside = saved.inside;
  p->outside = saved.outside;
  p->returned = saved.returned;
  p->return_label = saved.return_label;
  p->breaks = saved.breaks;
  p->continues = saved.continues;
  p->inlined--;
  return given;
}

fl_cvalue fl_inline(fl_front *p, fl_kdevice *d, const fl_kcall *c) {
  fl_kblock body = { NULL, NULL };
  int label = 0;
  fl_outside_complete(p, d);
  const int folds = d->body > 0 && (!p->b || !p->f || is_constant(p, d, c));
  if (d->busy && p->dead && d->result && d->result->kind == FL_C_SCALAR)
    return fl_val_expr(fl_val_as(p, fl_kexpr_int(p->a, FL_KT_I32, 0), d->result));
  if (cannot(p, d, folds, c->line)) return fl_val_none();
  if (folds) return fold_call(p, d, c);
  if (!d->line) blame(p, d->body, c->line);
  fl_cvalue r = read_body(p, d, c, &body, &label);
  if (p->failed) return fl_val_none();
  const int value = d->returns == FL_RETURNS_VALUE && d->result && d->result->kind != FL_C_VOID;
  if (value && !fl_kleaves(body, label))
    return fl_val_refuse(p, d->line ? d->line : c->line, "function '%s' returns no %s", d->name,
                         fl_ctype_text(p->a, d->result));
  append_body(p, body, label, c->line);
  if (r.kind == FL_V_NONE) return fl_val_none();
  if (d->returns == FL_RETURNS_VALUE) r.rvalue = r.kind != FL_V_POINTER;
  r.moved = d->moves;
  r.is_const |= d->of_const;
  return r;
}

/* ---- all calls ------------------------------------------------------------------------------- */

static fl_cvalue make_vector(fl_front *p, const fl_ktok *name, const fl_cvalue *args,
                            int n) {
  const fl_ctype *t = fl_ctype_named(p->a, name->text + 5, name->n - 5);
  if (!t || t->kind != FL_C_STRUCT) return fl_val_none();
  if (n != t->s->width) return fl_refuse_count(p, name, t->s->width, n);
  return fl_vector_of(p, t, args, n, name->line);
}

static const char *const loads[] = { "__ldg", "__ldca", "__ldcg", "__ldcs", "__ldlu", "__ldcv" };

/* Reads __ldg and similar functions, accesses with cache hints, as plain accesses. 0: t names no
** such function of n arguments. */
static int hinted(fl_front *p, const fl_ktok *t, const fl_cvalue *args, int n,
                  fl_cvalue *out) {
  static const char *const stores[] = { "__stcg", "__stcs", "__stwb", "__stwt" };
  const int load = n == 1 && fl_ktok_among(t, loads, 6) >= 0;
  if (!load && (n != 2 || fl_ktok_among(t, stores, 4) < 0)) return 0;
  const fl_cvalue at = fl_val_deref(p, args[0], t->line);
  *out = load ? at : fl_val_none();
  if (load) out->rvalue = 1;
  else fl_val_assign(p, at, args[1], t->line);
  return 1;
}

/* Reads sincosf(x, &s, &c), sincos and sincospi as two assignments. 0: t is none of them. */
static int by_address(fl_front *p, const fl_ktok *t, const fl_cvalue *args, int n,
                      fl_cvalue *out) {
  const int pi = fl_ktok_is(t, "sincospif") || fl_ktok_is(t, "sincospi");
  const int f32 = fl_ktok_is(t, "sincosf") || fl_ktok_is(t, "__sincosf") ||
                  fl_ktok_is(t, "sincospif");
  if (!f32 && !pi && !fl_ktok_is(t, "sincos")) return 0;
  *out = fl_val_none();
  if (n != 3) {
    fl_refuse(p, t->line, "%.*s takes 3 arguments", (int)t->n, t->text);
    return 1;
  }
  fl_kexpr *x = fl_val_scalar(p, args[0], t->line);
  if (!x) return 1;
  const fl_cvalue s = fl_val_deref(p, args[1], t->line),
                 c = fl_val_deref(p, args[2], t->line);
  const int type = f32 || x->type == FL_KT_F32 ? FL_KT_F32 : FL_KT_F64;
  const int fast = t->text[0] == '_';
  x = fl_val_stable(p, fl_val_convert(p, x, type));
  if (!x || p->failed) return 1;
  const int ids[2] = { pi ? FL_KB_SINPI : fast ? FL_KB_FAST_SIN : FL_KB_SIN,
                       pi ? FL_KB_COSPI : fast ? FL_KB_FAST_COS : FL_KB_COS };
  fl_val_assign(p, s, fl_val_expr(fl_kexpr_call(p->a, ids[0], type, 1, &x)), t->line);
  fl_val_assign(p, c, fl_val_expr(fl_kexpr_call(p->a, ids[1], type, 1, &x)), t->line);
  return 1;
}

static fl_cvalue call_math(fl_front *p, const fl_ktok *name, const fl_cvalue *args, int n) {
  fl_kexpr *x[FL_K_MAX_ARGS] = { NULL };
  for (int i = 0; i < n && i < FL_K_MAX_ARGS; i++)
    x[i] = fl_val_scalar(p, args[i], name->line);
  return p->failed ? fl_val_none() : fl_call_math(p, name, x, n);
}

/* Is there a built-in function with the name t? Then a user's function for other types is an
** overload of it. */
static int is_built_in(fl_front *p, const fl_ktok *t) {
  return fl_math_known(t) || (t->n > 6 && !memcmp(t->text, "make_", 5) &&
                              fl_ctype_named(p->a, t->text + 5, t->n - 5)) ||
         fl_atomic_known(t) >= 0 || fl_ktok_among(t, loads, 6) >= 0 ||
         (t->n > 6 && !memcmp(t->text, "__shfl", 6));
}

/* May the name mean a function of CUDA or of the library, beside functions of namespaces? */
static int is_shared_name(fl_front *p, const fl_kdevice *first, const fl_ktok *name) {
  int is = p->spaces && is_built_in(p, name);
  for (const fl_kdevice *d = first; d && p->spaces && !is; d = d->next) is = !d->line;
  return is;
}

/* Calls the function that overload resolution chooses for the call at the tokens, from the list
** 'first'. If a built-in function has the name and none of those that the call may mean fits
** exactly, sets *other to 1 instead, takes no tokens and leaves no statements. */
static fl_cvalue resolve(fl_front *p, fl_kdevice *first, const fl_cvalue *self, const fl_ktok *name,
                         int *other) {
  fl_symbol given[FL_K_MAX_TPARAMS];
  fl_cvalue args[FL_K_MAX_GIVEN];
  const int64_t at = p->at;
  const fl_kblock mark = p->b ? *p->b : (fl_kblock){ NULL, NULL };
  fl_kcall c = { .self = self, .args = args, .given = given, .line = name->line };
  int fit = 0;
  if (!self && p->spaces) c.name = name, c.depth = fl_scope_nearest(p, first, name);
  c.in_angles = fl_front_is(p, '<');
  if (c.in_angles) c.n_given = fl_template_args(p, given);
  c.n = fl_parse_arguments(p, args, FL_K_MAX_GIVEN);
  if (p->failed) return fl_val_none();
  fl_kdevice *d = fl_overload(p, first, &c, &fit);
  if (!d && c.name && !p->failed && !is_shared_name(p, first, name))
    c.name = NULL, d = fl_overload(p, first, &c, &fit);
  *other = !self && !c.in_angles && fit != FL_FITS && is_built_in(p, name) &&
           !(d && c.name && fl_scope_hides(p, &c, d));
  if (*other && !p->failed) {
    p->at = at;
    if (p->b) *p->b = mark;
    if (mark.last) mark.last->next = NULL;
    return fl_val_none();
  }
  if (d) return fl_inline(p, d, &c);
  fl_refuse_call(p, name, first, &c);
  return fl_val_none();
}

static fl_cvalue call_built_in(fl_front *p, const fl_ktok *name) {
  fl_cvalue args[FL_K_MAX_GIVEN], out = fl_val_none();
  if (fl_call_atomic(p, name, &out) || fl_call_warp(p, name, &out)) return out;
  if (fl_ktok_is(name, "__builtin_nanf")) {
    fl_front_skip(p);
    return fl_call_math(p, name, NULL, 0);
  }
  const int n = fl_parse_arguments(p, args, FL_K_MAX_GIVEN);
  if (p->failed) return out;
  for (int i = 0; i < n; i++) {                             /* a friend of an argument's struct */
    const fl_symbol *s = fl_member_find(args[i].type, name->text, name->n);
    const fl_kcall c = { .args = args, .n = n, .line = name->line };
    fl_kdevice *d = s && s->kind == FL_SYM_FUNCTION ? fl_overload(p, s->device, &c, NULL) : NULL;
    if (d) return fl_inline(p, d, &c);
  }
  if (name->n > 6 && !memcmp(name->text, "make_", 5)) {
    out = make_vector(p, name, args, n);
    if (out.kind != FL_V_NONE || p->failed) return out;
  }
  if (hinted(p, name, args, n, &out) || by_address(p, name, args, n, &out) ||
      fl_call_bytes(p, name, args, n, &out) || fl_call_half(p, name, args, n, &out) ||
      fl_call_shared(p, name, args, n, &out))
    return out;
  if ((fl_ktok_is(name, "__builtin_expect") || fl_ktok_is(name, "__builtin_assume_aligned")) &&
      n == 2)
    return args[0];
  if (fl_math_known(name)) return call_math(p, name, args, n);
  fl_refuse(p, name->line, "unknown function '%.*s'%s", (int)name->n, name->text,
            fl_front_meant(p, name));
  return out;
}

fl_cvalue fl_call_function(fl_front *p, fl_kdevice *first, const fl_cvalue *self,
                           const fl_ktok *name) {
  int other = 0;
  const fl_cvalue v = resolve(p, first, self, name, &other);
  if (other && !p->failed && fl_scope_is_of_file(p, name)) return call_built_in(p, name);
  if (other)
    fl_refuse(p, name->line, "'%.*s' cannot be called with these arguments", (int)name->n,
              name->text);
  return v;
}

fl_cvalue fl_parse_call(fl_front *p, const fl_ktok *name) {
  const fl_symbol *s = fl_scope_called(p, name), *self = NULL;
  fl_kdevice *device = s && s->kind == FL_SYM_FUNCTION ? s->device : NULL;
  int other = 0;
  if (s && s->kind == FL_SYM_WRONG)
    return fl_val_refuse(p, name->line, "'%s': %s", s->name, s->why);
  if (s && (s->kind == FL_SYM_OBJECT || s->kind == FL_SYM_REFERENCE) &&
      s->v.type->kind == FL_C_STRUCT)
    return fl_member_call(p, s->v, "operator()", 10, name->line);
  if (s && !device)
    return fl_val_refuse(p, name->line, "function pointers are outside the language ('%s')",
                         s->name);
  if (!device) return call_built_in(p, name);
  if (device->owner) self = fl_front_find(p, "this", 4);
  fl_cvalue object = self ? self->v : fl_val_none();
  const fl_cvalue v = resolve(p, device, self ? &object : NULL, name, &other);
  return other && !p->failed ? call_built_in(p, name) : v;
}
