/*
** Templates: their parameters and arguments, functions whose arguments are deduced from a call,
** structs whose arguments are written out. An instance reads the tokens of its template again, with
** the parameters as names of types and constants.
*/
#include "kernel/front/number.h"
#include "kernel/front/scope.h"
#include "kernel/front/template.h"
#include <string.h>

/* ---- < … > ----------------------------------------------------------------------------------- */

/* Is the token k after the current one a '<' that opens a list of arguments? After any name it is
** taken for that; after anything else it is a comparison. */
static int opens(fl_front *p, int k) {
  return fl_front_is_at(p, k, '<') && p->at + k > 0 &&
         p->toks.at[p->at + k - 1].kind == FL_TOK_NAME;
}

static int angle_at(fl_front *p, int k, int *depth_out) {
  int depth = 0, round = 0;
  for (int i = k;; i++) {
    const fl_ktok *t = fl_front_ahead(p, i);
    if (t->kind == FL_TOK_END) return 0;
    if (t->kind != FL_TOK_PUNCT) continue;
    round += fl_ktok_depth(t);
    if (round < 0 || t->punct == ';') return 0;
    if (round) continue;
    depth += (i == k || opens(p, i)) - (t->punct == '>') - 2 * (t->punct == FL_PU_SHR);
    if (depth <= 0) return *depth_out = depth, i - k + 1;
  }
}

int fl_template_angle(fl_front *p, int k) {
  int depth;
  return angle_at(p, k, &depth);
}

int fl_template_behind(fl_front *p, int k) {
  static const char *const casts[] = { "static_cast", "reinterpret_cast", "const_cast" };
  const fl_ktok *t = fl_front_ahead(p, k);
  if (t->kind != FL_TOK_NAME || !fl_front_is_at(p, k + 1, '<')) return 0;
  const fl_symbol *s = fl_front_named(p, t);
  const int is = fl_ktok_among(t, casts, 3) >= 0 || fl_scope_is_template(s) ||
                 (s && (s->kind == FL_SYM_TEMPLATE || s->kind == FL_SYM_FUNCTION));
  return is ? fl_template_angle(p, k + 1) : 0;
}

int fl_template_splits(fl_front *p, int k) {
  int depth = 0;
  return angle_at(p, k, &depth) > 0 && depth < 0;
}

void fl_template_close(fl_front *p) {
  if (fl_front_is(p, FL_PU_SHR)) {
    p->half = !p->half;
    if (!p->half) p->at++;
  } else {
    fl_front_need(p, '>');
  }
}

static int closes(fl_front *p) { return fl_front_is(p, '>') || fl_front_is(p, FL_PU_SHR); }

/* Skips to the ',' or '>' that ends a default; in ">>" after "V<T>" that may be the second '>'. */
static void skip_default(fl_front *p) {
  int depth = 0;
  while (!p->failed && fl_front_tok(p)->kind != FL_TOK_END) {
    if (!depth && (closes(p) || fl_front_is(p, ','))) return;
    if (depth == 1 && fl_front_is(p, FL_PU_SHR)) { p->half = 1; return; }
    depth += opens(p, 0) - fl_front_is(p, '>') - 2 * fl_front_is(p, FL_PU_SHR);
    if (fl_front_is(p, '(') || fl_front_is(p, '{')) fl_front_skip(p);
    else p->at++;
  }
}

/* Takes "(*F)(…)" of a parameter that is a pointer to a function. */
static void function_param(fl_front *p, fl_ktparam *t) {
  t->type = fl_ctype_void();
  p->at += 2;
  t->name = fl_front_is(p, ')') ? "unnamed" : fl_front_name(p);
  fl_front_need(p, ')');
  if (!p->failed && fl_front_is(p, '(')) fl_front_skip(p);
}

static void template_param(fl_front *p, fl_ktparam *list, int n) {
  fl_ktparam *t = &list[n];
  const int32_t line = fl_front_tok(p)->line;
  int ref, known = 0;
  for (int i = 0; i < n; i++) known |= fl_ktok_is(fl_front_tok(p), list[i].name);
  t->check = fl_pattern_condition(p);
  if (t->check) {
    t->type = fl_ctype_void();
  } else if (fl_front_word(p, "typename") || fl_front_word(p, "class")) {
    t->type = NULL;
  } else if (known) {                  /* the type is an earlier parameter, as in <class T, T N> */
    t->typed = p->at++;
    t->type = fl_ctype_void();
  } else if (fl_front_word(p, "template")) {
    p->at += fl_template_angle(p, 0) + 1;          /* of "template <…> class Op" */
    t->type = fl_ctype_void();
    t->is_template = 1;
  } else {
    const fl_specifiers s = fl_decl_specifiers(p);
    const int function = s.type && fl_front_is(p, '(') && fl_front_is_at(p, 1, '*');
    t->type = s.type && s.type != fl_ctype_function() && !function
              ? fl_decl_pointers(p, &s, &ref) : s.type;
    if (function) { function_param(p, t); return; }
    if (s.is_auto) t->type = fl_ctype_void();
    else if (t->type == fl_ctype_function()) t->type = fl_ctype_void();
    else if (t->type && (t->type->kind != FL_C_SCALAR || fl_kt_is_float(t->type->scalar)))
      fl_refuse(p, line, "a template's parameter is a type or an integer here");
  }
  t->is_pack = fl_front_take(p, FL_PU_ELLIPSIS);
  if (t->is_pack && fl_template_pack(list, n) < n)
    fl_refuse(p, line, "a template with two packs is outside the language");
  t->name = fl_front_tok(p)->kind == FL_TOK_NAME ? fl_front_name(p) : "unnamed";
  if (!fl_front_take(p, '=')) return;
  if (t->check && fl_front_word(p, "nullptr")) { t->init = -1; return; }
  t->init = p->at;
  skip_default(p);
}

int fl_template_pack(const fl_ktparam *t, int n) {
  int i = 0;
  while (i < n && !t[i].is_pack) i++;
  return i;
}

int fl_template_params(fl_front *p, fl_ktparam **out) {
  fl_ktparam list[FL_K_MAX_TPARAMS];
  int n = 0;
  memset(list, 0, sizeof list);
  fl_front_need(p, '<');
  while (!p->failed && !closes(p)) {
    if (!fl_front_room(p, n, FL_K_MAX_TPARAMS, "parameters of a template")) break;
    template_param(p, list, n++);
    if (!fl_front_take(p, ',')) break;
  }
  fl_template_close(p);
  *out = fl_karena_new(p->a, sizeof list);
  if (*out) memcpy(*out, list, sizeof list);
  return *out && !p->failed ? n : 0;
}

/* Takes the name of a function or of a template, perhaps as "ns::V", as an argument. 0: it is
** neither. */
static int named_arg(fl_front *p, fl_symbol *out) {
  const int64_t at = p->at;
  const fl_symbol *inner = NULL;
  int64_t n = 0;
  const int among = fl_scope_is_space(p, fl_front_tok(p)) && fl_front_is_at(p, 1, FL_PU_SCOPE) &&
                    fl_scope_prefix(p, &inner, &n);
  const fl_ktok *t = fl_front_tok(p);
  const fl_symbol *s = among && t->kind == FL_TOK_NAME ? fl_front_in(p, inner, n, t)
                                                       : fl_front_named(p, t);
  if (!s || (s->kind != FL_SYM_FUNCTION && s->kind != FL_SYM_TEMPLATE) ||
      !(fl_front_is_at(p, 1, ',') || fl_front_is_at(p, 1, '>') ||
        fl_front_is_at(p, 1, FL_PU_SHR))) {
    if (!p->failed) p->at = at;
    return 0;
  }
  out->kind = s->kind;
  out->device = s->device;
  out->structs = s->structs;
  p->at++;
  return 1;
}

int fl_template_names_type(fl_front *p) {
  const fl_symbol *inner = NULL;
  int64_t n = 0;
  const fl_kattempt from = fl_front_try(p);
  int k = 0;
  while (fl_front_is_at(p, k + 1, FL_PU_SCOPE) && fl_front_ahead(p, k)->kind == FL_TOK_NAME) k += 2;
  const int angle = fl_scope_is_template(fl_front_named(p, fl_front_ahead(p, k))) &&
                    fl_front_is_at(p, k + 1, '<') ? fl_template_angle(p, k + 1) : 0;
  if (!angle || !fl_front_is_at(p, k + 1 + angle, FL_PU_SCOPE)) return 0;
  const int among = fl_scope_prefix(p, &inner, &n);
  const fl_ktok *t = fl_front_tok(p);
  const fl_symbol *s = among && t->kind == FL_TOK_NAME ? fl_front_in(p, inner, n, t)
                                                       : NULL;
  fl_front_undo(p, &from);
  return s && s->kind == FL_SYM_TYPE && !p->failed;
}

static void template_arg(fl_front *p, fl_symbol *out) {
  const int32_t line = fl_front_tok(p)->line;
  memset(out, 0, sizeof *out);
  out->offset = -1;
  fl_front_take(p, '&');
  if (named_arg(p, out)) return;
  const int value = fl_front_is_at(p, 1, '(') && !fl_front_is_at(p, 2, '*') &&
                    !fl_front_is_at(p, 2, '&');                /* "int(x)", not "int (*)[4]" */
  if ((fl_decl_starts(p, 0) && (!value || fl_ktok_is(fl_front_tok(p), "decltype"))) ||
      fl_template_names_type(p)) {
    out->kind = FL_SYM_TYPE;
    out->type = fl_decl_type_name(p);
    out->is_const = p->type_const;
    out->ref = p->type_ref;
    return;
  }
  fl_kblock *into = fl_front_into(p, NULL);
  fl_kexpr *e = fl_parse_constant(p);
  fl_front_into(p, into);
  if (e && e->kind != FL_KX_CONST)
    fl_refuse(p, line, "an argument of a template must be a type or a constant");
  out->kind = FL_SYM_CONSTANT;
  out->v = fl_val_expr(e);
}

/* Adds one argument, or those of a pack expansion, to the n in 'out'; returns how many there are
** then. */
static int template_args(fl_front *p, fl_symbol *out, int n) {
  const int64_t elements = fl_pack_count(p, 1);
  fl_kpacked each = fl_pack_open(p, elements);
  do {
    if (elements == 0) break;
    if (!fl_front_room(p, n, FL_K_MAX_TPARAMS, "arguments of a template")) break;
    template_arg(p, &out[n++]);
  } while (!p->failed && fl_pack_next(p, &each));
  return n;
}

int fl_template_args(fl_front *p, fl_symbol *out) {
  int n = 0;
  fl_front_need(p, '<');
  if (!fl_front_enter(p)) return 0;
  while (!p->failed && !closes(p)) {
    n = template_args(p, out, n);
    if (!fl_front_take(p, ',')) break;
  }
  p->nest--;
  fl_template_close(p);
  return p->failed ? 0 : n;
}

/* Is the condition of the enable_if of parameter t true, so that its type exists? */
static int holds(fl_front *p, const fl_ktparam *t, const fl_symbol *env, int n,
                 const fl_kscope *up) {
  const fl_kbookmark back = fl_front_open(p, t->check, up);
  fl_front_push(p, env, n);
  fl_decl_type_name(p);
  const int drops = fl_pattern_drops(p);
  fl_front_close(p, back);
  return !drops;
}

/* The type of parameter i, a constant: an earlier parameter's argument if 'typed' names one (NULL:
** that is no type). */
static const fl_ctype *type_of(fl_front *p, const fl_ktparam *t, int i, const fl_symbol *env) {
  for (int k = 0; k < i && t[i].typed; k++)
    if (fl_ktok_is(&p->toks.at[t[i].typed], t[k].name))
      return env[k].kind == FL_SYM_TYPE ? env[k].type : NULL;
  return t[i].type;
}

int fl_template_bind(fl_front *p, const fl_ktparam *t, int n, fl_symbol *env,
                     const fl_kscope *up) {
  for (int i = 0; i < n && !p->failed; i++) {
    if (t[i].check && !holds(p, &t[i], env, i, up)) return 0;
    if (!env[i].name && t[i].init < 0) {           /* the default of an enable_if is nullptr: a
                                                   ** constant takes its place */
      const fl_symbol one = { .kind = FL_SYM_CONSTANT, .offset = -1,
                              .v = fl_val_expr(fl_kexpr_int(p->a, FL_KT_I32, 0)) };
      fl_template_give(&env[i], &t[i], &one);
    } else if (!env[i].name && t[i].init) {
      fl_symbol one;
      const fl_kbookmark back = fl_front_open(p, t[i].init, up);
      fl_front_push(p, env, i);
      template_arg(p, &one);
      const int drops = fl_pattern_drops(p);
      fl_front_close(p, back);
      if (drops) return 0;
      fl_template_give(&env[i], &t[i], &one);
    }
    if (t[i].is_pack) {
      if (!env[i].name)
        fl_template_give(&env[i], &t[i], &(fl_symbol){ .kind = FL_SYM_PACK, .offset = -1 });
      continue;
    }
    if (t[i].is_template && !env[i].name)
      fl_refuse(p, fl_front_tok(p)->line, "template '%s', which a call is to find from its "
                "arguments, is outside the language" FL_DO ": name it in <…>", t[i].name);
    if ((env[i].kind == FL_SYM_TEMPLATE) != t[i].is_template) return 0;
    if (!env[i].name || (env[i].kind == FL_SYM_TYPE) != !t[i].type) return 0;
    const fl_ctype *own = type_of(p, t, i, env);
    if (own && own->kind == FL_C_SCALAR && env[i].v.e)
      env[i].v = fl_val_expr(fl_val_to(p, env[i].v.e, own));
  }
  return !p->failed;
}

/* Gives n parameters t the arguments 'given', a pack those from its place on. 0: too many. */
static int give_all(fl_front *p, const fl_ktparam *t, int n, const fl_symbol *given, int n_given,
                    fl_symbol *env) {
  const int pack = fl_template_pack(t, n);
  for (int i = 0; i < n_given && i < pack; i++) fl_template_give(&env[i], &t[i], &given[i]);
  if (pack < n && n_given > pack)
    fl_template_give_pack(p, &env[pack], &t[pack], given + pack, n_given - pack);
  return n_given <= n || pack < n;
}

int fl_template_take(fl_front *p, const fl_ktemplate *t, fl_symbol *args) {
  fl_symbol given[FL_K_MAX_TPARAMS];
  const int32_t line = fl_front_tok(p)->line;
  const int n = fl_template_args(p, given);
  memset(args, 0, (size_t)t->n_tparams * sizeof *args);
  if (!p->failed && give_all(p, t->tparams, t->n_tparams, given, n, args) &&
      fl_template_bind(p, t->tparams, t->n_tparams, args, NULL)) return 1;
  if (p->failed) return 0;
  fl_refuse(p, line, "wrong arguments for the template '%s'", t->name);
  p->absent = 1;
  return 0;
}

/* ---- functions ------------------------------------------------------------------------------- */

/* Takes the defaults of the formals from the earlier declaration (one->declared); if they can not
** be read (one->why), each gets some token as default, so that a call finds 'one' and tells why. */
static void take_defaults(fl_front *p, fl_kdevice *one) {
  fl_kdevice there = { .name = one->name };
  p->at = one->declared + 1;
  if (!one->why) fl_device_formals(p, &there);
  for (int i = 0; i < one->n_params && !p->failed; i++)
    if (!one->params[i].init)
      one->params[i].init = one->why ? one->declared
                            : i < there.n_params ? there.params[i].init : 0;
}

/* Reads the types of the formals with the parameters bound; auto takes the argument's type. 0: the
** function does not fit the call, or the text is refused. */
static int read_types(fl_front *p, fl_kdevice *one, const fl_kcall *c) {
  const fl_kbookmark back = fl_front_open(p, one->head, one->scope);
  if (one->owner) fl_front_push(p, one->owner->s->members->inner, one->owner->s->members->n_inner);
  fl_front_push(p, one->env, one->n_env);
  one->n_params = 0;
  fl_device_signature(p, one);
  if (one->declared && !p->failed) take_defaults(p, one);
  const int drops = fl_pattern_drops(p);
  fl_front_close(p, back);
  fl_front_check(p, NULL);                                   /* fails if the arena did (memory,
                                                             ** depth) */
  if (drops) return 0;
  for (int i = 0; i < one->n_params && !p->failed; i++) {
    fl_kformal *f = &one->params[i];
    if (f->type) continue;
    if (i < c->n) f->type = fl_deduce_meet(p, &c->args[i], 0, 0, f->by_reference);
    if (!f->type) return 0;
  }
  return !p->failed;
}

static int same_types(const fl_kdevice *a, const fl_kdevice *b) {
  int same = a->n_params == b->n_params;
  for (int i = 0; i < a->n_params && same; i++)
    same = a->params[i].type && b->params[i].type &&
           fl_ctype_like(a->params[i].type, b->params[i].type);
  return same;
}

/* The explicit specialisation for the arguments and types of instance 'one'; NULL: none. */
static fl_kdevice *special(fl_kdevice *first, const fl_kdevice *one, int n) {
  for (fl_kdevice *s = first; s; s = s->next)
    if (s->n_special == n && fl_template_same(s->special, one->env, n) && same_types(s, one))
      return s;
  return NULL;
}

/* Sets the names that instance 'one' of template d sees: 'env', where the arguments are, with the
** names around d and the parameters' other names (d->names) after them. */
static void complete_env(fl_kdevice *one, const fl_kdevice *d, fl_symbol *env) {
  const int n = d->n_tparams;
  if (d->n_env) memcpy(env + n, d->env, (size_t)d->n_env * sizeof *env);
  one->n_tparams = one->n_special = 0;
  one->env = env;
  one->n_env = n + d->n_env;
  for (int i = 0; d->names && i < n; i++)
    fl_template_give(&env[one->n_env++], &d->names[i], &env[i]);
}

/* Is a number given where the template takes an enumerator, which no number becomes, or one of an
** enum class where it takes a number? */
static int wrong_enum(const fl_ktparam *t, int n, const fl_kcall *c) {
  for (int i = 0; i < n && i < c->n_given && !t[i].is_pack; i++) {
    const fl_ctype *own = t[i].type, *is = c->given[i].v.type;
    if (!own || !is || own->kind != FL_C_SCALAR) continue;
    if (fl_ctype_is_enum(own) ? !fl_ctype_like(own, is) : fl_ctype_is_enum(is) && is->scoped)
      return 1;
  }
  return 0;
}

fl_kdevice *fl_template_instance(fl_front *p, fl_kdevice *first, fl_kdevice *d, const fl_kcall *c) {
  const int n = d->n_tparams;
  fl_kcall as_value = *c;
  if (d->given) as_value.given = d->given, as_value.n_given = d->n_given, c = &as_value;
  fl_symbol *env = fl_karena_new(p->a, (size_t)(2 * n + d->n_env + 1) * sizeof *env);
  fl_kdevice *one = fl_karena_new(p->a, sizeof *one);
  const int pack = fl_template_pack(d->tparams, n);
  const int takes = !n || c->result || fl_template_takes(p, d, c->n);
  if (!takes || wrong_enum(d->tparams, n, c)) return NULL;
  if (!env || !one || !give_all(p, d->tparams, n, c->given, c->n_given, env)) return NULL;
  int conflict = 0;
  const fl_kdeduction found = { d->tparams, n, env, &conflict,
                                c->n_given < pack ? c->n_given : pack };
  if (n) {
    const fl_kbookmark back = fl_front_open(p, p->at, d->scope);
    const int64_t low = p->syms.n;
    if (d->owner) fl_front_push(p, d->owner->s->members->inner, d->owner->s->members->n_inner);
    const fl_kscope around = { low, p->syms.n, d->scope };
    fl_template_deduce(p, &found, d, c);
    const int bound = !conflict && fl_template_bind(p, d->tparams, n, env, &around);
    fl_front_close(p, back);
    if (!bound) return NULL;
  }
  *one = *d;
  complete_env(one, d, env);
  if (!read_types(p, one, c)) return NULL;
  fl_kdevice *s = n ? special(first, one, n) : NULL;
  if (!s) return one;
  const fl_kformal *of = one->params;
  *one = *s;
  complete_env(one, d, env);
  if (!read_types(p, one, c)) return NULL;
  for (int i = 0; i < one->n_params; i++) one->params[i].init = of[i].init;
  return one;
}

/* ---- structs --------------------------------------------------------------------------------- */

/* Adds the n arguments to the name s, which ends in '<' if they are the first ones. */
static const char *add_names(fl_front *p, const char *s, const fl_symbol *args, int64_t n) {
  static const char *const ref[] = { "", " &", " &&" };
  for (int64_t i = 0; i < n && s; i++) {
    const char *sep = s[strlen(s) - 1] == '<' ? "" : ", ";
    if (args[i].kind == FL_SYM_PACK)
      s = add_names(p, s, args[i].inner, args[i].n_inner);
    else if (args[i].kind == FL_SYM_TYPE)
      s = fl_karena_printf(p->a, "%s%s%s%s%s", s, sep, args[i].is_const ? "const " : "",
                           fl_ctype_text(p->a, args[i].type), ref[args[i].ref]);
    else if (args[i].kind == FL_SYM_FUNCTION || args[i].kind == FL_SYM_TEMPLATE)
      s = fl_karena_printf(p->a, "%s%s%s", s, sep,
                           args[i].device ? args[i].device->name : args[i].structs->name);
    else s = fl_karena_printf(p->a, "%s%s%lld", s, sep, (long long)args[i].v.e->value.i);
  }
  return s;
}

static const char *instance_name(fl_front *p, const fl_ktemplate *t, const fl_symbol *args) {
  const char *s = fl_karena_printf(p->a, "%s<", t->name);
  s = s ? add_names(p, s, args, t->n_tparams) : NULL;
  return s ? fl_karena_printf(p->a, "%s>", s) : "?";
}

/* The instance with these arguments: an existing one, or a new one that is not read yet. */
static struct fl_kinstance *instance_of(fl_front *p, fl_ktemplate *t, fl_symbol *args) {
  struct fl_kinstance *one = t->instances;
  while (one && !fl_template_same(one->args, args, t->n_tparams)) one = one->next;
  if (one) return one;
  one = fl_karena_new(p->a, sizeof *one);
  if (!one) return NULL;
  *one = (struct fl_kinstance){ .args = args, .next = t->instances };
  return t->instances = one;
}

/* Adds the names that enclose a member template and are not hidden by its n arguments; returns how
** many these are. */
static int outer_names(const fl_ktemplate *t, fl_symbol *args, int n) {
  int more = 0;
  for (int64_t i = 0; i < t->n_outer; i++)
    if (!fl_front_among(args, n, t->outer[i].name, t->outer[i].n)) args[n + more++] = t->outer[i];
  return more;
}

/* Reads the tokens of the template, or of the specialisation that fits, with the arguments as
** names, and sets one->type. */
static void read_instance(fl_front *p, fl_ktemplate *t, struct fl_kinstance *one, fl_symbol *args,
                          int32_t line) {
  const fl_kbookmark back = fl_front_open(p, one->at ? one->at : t->at, NULL);
  const fl_ctype *type = NULL;
  fl_symbol *env = NULL;
  const int64_t align = t->align && !one->at ? fl_template_alignment(p, t, args) : 0;
  const fl_kpattern *pattern = one->at || t->is_alias ? NULL
                                                      : fl_pattern_find(p, t, args, &env, line);
  int n_env = pattern ? pattern->n_tparams : 0;
  if (pattern) p->at = pattern->at;
  for (int i = 0; i < n_env; i++) args[t->n_tparams + i] = env[i];
  for (int i = 0; i < t->n_tparams + n_env; i++) args[i].late = FL_LATE_ARGUMENT;
  n_env += outer_names(t, args, t->n_tparams + n_env);
  fl_front_word(p, "final");
  if (t->is_alias) {
    fl_front_push(p, args, t->n_tparams + n_env);
    type = fl_decl_type_name(p);
    one->is_const = p->type_const;
    one->ref = p->type_ref;
  } else if (fl_front_is(p, ';')) {             /* it is declared, and defined later */
    type = one->type ? one->type : fl_ctype_open(p->a, t->name);
  } else if (!fl_front_is(p, '{') && !fl_front_is(p, ':')) {
    fl_refuse(p, line, "template '%s' is not understood", t->name);
  } else {
    if (fl_front_is(p, ':') && !one->type) one->type = fl_ctype_open(p->a, t->name);
    type = fl_member_struct(p, t->name, align, t, args, t->n_tparams + n_env, &one->type);
  }
  fl_front_close(p, back);
  one->type = p->failed ? NULL : type;
  const char *name = one->type && !t->is_alias ? instance_name(p, t, args) : NULL;
  if (name) type->s->name = name;
}

const fl_ctype *fl_template_struct(fl_front *p, fl_ktemplate *t) {
  const int32_t line = fl_front_tok(p)->line;
  fl_symbol *args = fl_karena_new(p->a, (2 * FL_K_MAX_TPARAMS + (size_t)t->n_outer) *
                                          sizeof *args);
  if (!args || !fl_front_enter(p)) return NULL;
  struct fl_kinstance *one = fl_template_take(p, t, args) ? instance_of(p, t, args) : NULL;
  if (one && !one->type && one->busy)
    fl_refuse(p, line, "'%s' is a part of itself", instance_name(p, t, args));
  if (one && (!one->type || fl_ctype_is_open(one->type)) && !one->busy && !p->failed) {
    one->busy = 1;
    read_instance(p, t, one, args, line);
    one->busy = 0;
  }
  p->nest--;
  p->type_const = one ? one->is_const : 0;
  p->type_ref = one ? one->ref : 0;
  return one && !p->failed ? one->type : NULL;
}

const fl_ctype *fl_template_again(fl_front *p, const fl_ctype *type) {
  const fl_ktemplate *t = type->s->members->of;
  fl_symbol args[FL_K_MAX_TPARAMS];
  const int64_t at = p->at;
  if (!fl_template_take(p, t, args) ||
      fl_template_same(args, type->s->members->inner, t->n_tparams)) return type;
  p->at = at;
  for (int64_t i = p->syms.n; i-- > 0;)
    if (p->syms.at[i].kind == FL_SYM_TEMPLATE && p->syms.at[i].structs == t)
      return fl_template_struct(p, p->syms.at[i].structs);
  fl_refuse(p, fl_front_tok(p)->line, "another '%s<…>' inside '%s' is outside the language",
            t->name, t->name);
  return NULL;
}

fl_cvalue fl_template_value(fl_front *p, const fl_ktemplate *t) {
  const int32_t line = fl_front_tok(p)->line;
  if (!t->is_value || !fl_front_is(p, '<'))
    fl_refuse(p, line, "template '%s' without its arguments", t->name);
  fl_symbol args[FL_K_MAX_TPARAMS];
  if (!fl_template_take(p, t, args) || !fl_front_enter(p)) return fl_val_none();
  int ref;
  const fl_kbookmark back = fl_front_open(p, t->at, NULL);
  fl_kblock *into = fl_front_into(p, NULL);
  fl_front_push(p, args, t->n_tparams);
  const fl_specifiers s = fl_decl_specifiers(p);
  const fl_ctype *type = s.type ? fl_decl_pointers(p, &s, &ref) : NULL;
  fl_front_name(p);
  fl_front_need(p, '=');
  fl_kexpr *e = fl_parse_scalar(p);
  if (e && type && !s.is_auto && type->kind == FL_C_SCALAR) e = fl_val_to(p, e, type);
  if (e && e->kind != FL_KX_CONST) fl_refuse(p, line, "'%s<…>' is no constant number", t->name);
  fl_front_into(p, into);
  fl_front_close(p, back);
  p->nest--;
  return p->failed ? fl_val_none() : fl_val_expr(e);
}

/* A value of type t to deduce from: an argument for formal f, or a result (f NULL). */
static fl_cvalue value_of(const fl_ctype *t, const fl_kformal *f) {
  const int pointer = t && t->kind == FL_C_POINTER;
  return (fl_cvalue){ .kind = pointer ? FL_V_POINTER : FL_V_PLACE, .type = pointer ? t->of : t,
                      .is_const = pointer ? t->const_of : f && f->is_const,
                      .rvalue = f && f->by_reference == 2 };
}

/* Finds the template arguments of "template <> R f(types)", or of "f<…>(types)" that omits some:
** those with which a template f has these types. */
void fl_template_special(fl_front *p, fl_kdevice *d, int32_t line) {
  fl_cvalue args[FL_K_MAX_GIVEN], result;
  const int64_t end = p->at;
  fl_device_signature(p, d);
  p->at = end;
  const fl_kcall c = { .args = args, .n = d->n_params, .line = line, .given = d->special,
                       .n_given = d->n_special, .result = d->result ? &result : NULL };
  if (d->result) result = value_of(d->result, NULL);
  for (int i = 0; i < c.n && !p->failed; i++)
    args[i] = value_of(d->params[i].type, &d->params[i]);
  const fl_symbol *s = p->failed ? NULL : fl_front_find(p, d->name, (int32_t)strlen(d->name));
  for (fl_kdevice *o = s ? s->device : NULL; o && !p->failed; o = o->next) {
    const int like = o->n_tparams && fl_template_pack(o->tparams, o->n_tparams) == o->n_tparams;
    fl_kdevice *one = like ? fl_template_instance(p, s->device, o, &c) : NULL;
    const int returns = one && one->result && d->result && fl_ctype_like(one->result, d->result);
    if (!returns || !same_types(one, d)) continue;
    d->special = one->env;
    d->n_special = o->n_tparams;
    return;
  }
  if (d->n_special) return;
  fl_refuse(p, line, "a specialisation of no template: write its arguments, '%s<…>'", d->name);
}
