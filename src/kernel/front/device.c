/*
** Declarations of functions that are inlined: where their parts are in the tokens, the types of
** their formals and result. Bodies are read where they are called (call.c).
*/
#include "kernel/front/scope.h"
#include "kernel/front/template.h"
#include <string.h>

/* ---- where the parts are ------------------------------------------------------------------ */

int fl_device_attribute(const fl_ktok *t) {
  static const char *const words[] = { "__launch_bounds__", "__attribute__", "__align__", "alignas",
                                       "decltype" };
  return fl_ktok_among(t, words, sizeof words / sizeof *words) >= 0;
}

/* The name of the operator in "operator+(" or "operator()(", where 'operator' is at k; *open: where
** its '(' is (k and *open count from the current token). "operator T()" is named FL_CONVERTS. NULL:
** not understood. */
static const char *operator_name(fl_front *p, int k, int *open) {
  char name[24] = "operator";
  if (fl_front_ahead(p, k + 1)->kind == FL_TOK_NAME) {
    for (*open = k + 1; !fl_front_is_at(p, *open, '('); ++*open)
      if (fl_front_ahead(p, *open)->kind == FL_TOK_END) return NULL;
    return FL_CONVERTS;
  }
  for (k++; fl_front_ahead(p, k)->kind == FL_TOK_PUNCT && strlen(name) < 12; k++) {
    const fl_ktok *t = fl_front_ahead(p, k);
    if (t->punct == '(' && !fl_front_is_at(p, k + 1, ')')) break;
    if (t->punct == '(' && strlen(name) > 8) break;
    if (t->n > 3) return NULL;
    strncat(name, t->text, (size_t)t->n);
  }
  *open = k;
  return fl_front_is_at(p, k, '(') && strlen(name) > 8
         ? fl_karena_str(p->a, name, strlen(name)) : NULL;
}

/* The name of the function that is declared at the tokens; NULL: there is none. Counted from the
** current token, *open is where its '(' is, and *special where the <…> of an explicit
** specialisation begins; 0: it is none. */
static const char *find_name(fl_front *p, int *open, int *special) {
  *special = 0;
  for (int k = 0;; k++) {
    const fl_ktok *t = fl_front_ahead(p, k);
    if (t->kind == FL_TOK_END) return NULL;
    if (fl_device_attribute(t)) { k = fl_front_past(p, k + 1) - 1; continue; }
    if (fl_ktok_is(t, "operator")) return operator_name(p, k, open);
    if (fl_is_punct(t, '[')) { k = fl_front_past(p, k) - 1; continue; }
    if (t->kind == FL_TOK_PUNCT && t->punct < 256 && strchr(";{}=:()", t->punct)) return NULL;
    if (t->kind != FL_TOK_NAME) continue;
    const int angle = fl_front_is_at(p, k + 1, '<') ? fl_template_angle(p, k + 1) : 0;
    if (angle && fl_front_is_at(p, k + 1 + angle, '(')) *special = k + 1;
    if (fl_front_is_at(p, k + 1, '(') || *special) {
      *open = k + 1 + angle;
      return fl_karena_str(p->a, t->text, (size_t)t->n);
    }
    k += angle;
  }
}

int fl_device_skip_attribute(fl_front *p) {
  const fl_ktok *t = fl_front_tok(p);
  if (!fl_device_attribute(t) && !fl_ktok_is(t, "noexcept")) return 0;
  p->at++;
  if (fl_front_is(p, '(')) fl_front_skip(p);
  return 1;
}

/* Takes attributes, const, the type after '->' and a constructor's list, then ';', "= default", "=
** delete" or the body, and notes in d where they are. */
void fl_device_tail(fl_front *p, fl_kdevice *d) {
  for (;;) {
    if (fl_front_word(p, "const")) d->is_const = 1;
    else if (!fl_device_skip_attribute(p) && !fl_front_word(p, "override") &&
             !fl_front_word(p, "final") && !fl_front_word(p, "mutable"))
      break;
  }
  if (fl_front_take(p, FL_PU_ARROW)) {
    d->arrow = p->at;
    fl_front_seek(p, '{', ';');
  }
  if (fl_front_is(p, ':')) {
    d->inits = p->at++;
    while (!p->failed && fl_front_tok(p)->kind == FL_TOK_NAME) {
      p->at++;
      if (fl_front_is(p, '<')) p->at += fl_template_angle(p, 0);
      fl_front_skip(p);
      if (!fl_front_take(p, ',')) break;
    }
  }
  if (fl_front_take(p, '=')) {                              /* = default, = delete */
    d->why = fl_ktok_is(fl_front_tok(p), "default") ? NULL : "is deleted";
    if (!fl_front_word(p, "default")) fl_front_word(p, "delete");
    fl_front_need(p, ';');
    return;
  }
  d->body = -1;
  if (fl_front_take(p, ';')) return;
  d->body = p->at;
  if (!fl_front_is(p, '{')) fl_refuse(p, d->line, "function '%s' is not understood", d->name);
  else fl_front_skip(p);
}

fl_kdevice *fl_device_scan(fl_front *p, const char *owner) {
  int open = 0, special = 0;
  const char *name = find_name(p, &open, &special);
  fl_kdevice *d = name ? fl_karena_new(p->a, sizeof *d) : NULL;
  if (!d) return NULL;
  d->name = name;
  d->line = fl_front_tok(p)->line;
  d->head = p->at;
  d->open = p->at + open;
  d->is_maker = owner && !strcmp(name, owner);
  for (int64_t i = d->head; i < d->open; i++) {
    d->is_static |= fl_ktok_is(&p->toks.at[i], "static");
    d->is_explicit |= fl_ktok_is(&p->toks.at[i], "explicit");
    d->on_device |= fl_ktok_is(&p->toks.at[i], "__device__");
  }
  if (d->is_maker) d->name = FL_MAKER;
  if (special) {
    fl_symbol args[FL_K_MAX_TPARAMS];
    p->at += special;
    d->n_special = fl_template_args(p, args);
    d->special = fl_karena_new(p->a, sizeof args);
    if (d->special) memcpy(d->special, args, sizeof args);
  }
  p->at = d->open;
  fl_front_skip(p);
  fl_device_tail(p, d);
  return p->failed ? NULL : d;
}

/* ---- types ----------------------------------------------------------------------------------- */

static void formal(fl_front *p, fl_kformal *f) {
  const int32_t line = fl_front_tok(p)->line;
  fl_specifiers s = fl_decl_specifiers(p);
  f->is_function = (uint8_t)fl_decl_function(p, s.type, &f->name);
  s.is_auto |= f->is_function;
  int ref = 0;
  const fl_ctype *t = s.type && !f->is_function ? fl_decl_parameter(p, &s, &f->name, &ref) : s.type;
  f->by_reference = (uint8_t)ref;
  if (!f->name) f->name = "unnamed";
  if (fl_front_is(p, FL_PU_ELLIPSIS))
    fl_refuse(p, line, "variadic templates are outside the language");
  if (!t) return;
  f->type = s.is_auto ? NULL : t;
  if (s.is_auto && t->kind == FL_C_POINTER) fl_refuse(p, line, FL_DO "write auto without *");
  f->is_const = (uint8_t)(s.is_const && t->kind != FL_C_POINTER);
  if (!fl_front_take(p, '=')) return;
  f->init = p->at;
  fl_front_skip_to(p, ',', ')');
}

enum { MAX_FORMALS = FL_K_MAX_GIVEN };

/* Expands the parameter pack "T... v" at the tokens into one formal parameter for each element. 0:
** it is not a pack. */
static int packed_formals(fl_front *p, fl_kdevice *d, fl_kformal *list) {
  int dots = 0;
  while (!fl_front_is_at(p, dots, FL_PU_ELLIPSIS) && !fl_front_is_at(p, dots, ',') &&
         !fl_front_is_at(p, dots, ')') && fl_front_ahead(p, dots)->kind != FL_TOK_END)
    dots += 1 + fl_template_behind(p, dots);
  if (!fl_front_is_at(p, dots, FL_PU_ELLIPSIS)) return 0;
  const fl_symbol *s = NULL;
  for (int k = 0; k < dots && !(s && s->kind == FL_SYM_PACK); k++)
    s = fl_front_named(p, fl_front_ahead(p, k));
  const int64_t at = p->at, end = p->at + dots + 1;
  const fl_ktok *name = &p->toks.at[end];
  const int named = name->kind == FL_TOK_NAME;
  if (!s || s->kind != FL_SYM_PACK)
    fl_refuse(p, name->line, "parameters of a pack outside a variadic template");
  else if (!fl_front_is_at(p, dots + 1 + named, ')'))
    fl_refuse(p, name->line, "a pack that is not the last parameter is outside the language");
  const int64_t n = s && !p->failed ? s->n_inner : 0;
  d->pack = named ? fl_karena_str(p->a, name->text, (size_t)name->n) : NULL;
  d->n_pack = (int)n;
  for (int k = 0; k < n && fl_front_room(p, d->n_params, MAX_FORMALS, "parameters of a function");
       k++) {
    p->at = at;
    p->pack = k + 1;
    formal(p, &list[d->n_params++]);
  }
  p->pack = 0;
  p->at = end + named;
  return 1;
}

void fl_device_formals(fl_front *p, fl_kdevice *d) {
  fl_kformal list[MAX_FORMALS];
  memset(list, 0, sizeof list);
  if (fl_ktok_is(fl_front_tok(p), "void") && fl_front_is_at(p, 1, ')')) p->at++;
  while (!p->failed && !fl_front_is(p, ')')) {
    if (packed_formals(p, d, list)) break;
    if (!fl_front_room(p, d->n_params, MAX_FORMALS, "parameters of a function")) break;
    formal(p, &list[d->n_params++]);
    if (!fl_front_take(p, ',')) break;
  }
  fl_front_need(p, ')');
  d->params = fl_karena_new(p->a, sizeof list);
  if (d->params) memcpy(d->params, list, sizeof list);
  else d->n_params = 0;
}

void fl_device_result(fl_front *p, fl_kdevice *d, const fl_ctype *t, const fl_specifiers *s,
                      int ref) {
  /* "-> decltype(…)", which may name the formals, is read as auto: the type of what is returned */
  if (d->arrow && fl_ktok_is(&p->toks.at[d->arrow], "decltype")) {
    d->result = NULL;
    return;
  }
  if (d->arrow) {
    const int64_t at = p->at;
    p->at = d->arrow;
    fl_specifiers own = fl_decl_specifiers(p);
    const fl_ctype *to = own.type ? fl_decl_pointers(p, &own, &ref) : NULL;
    p->at = at;
    d->arrow = 0;
    if (to) fl_device_result(p, d, to, &own, ref);
    return;
  }
  d->result = s->is_auto ? NULL : t;
  d->moves = ref == 2;
  d->of_const = ref && s->is_const && !s->is_constexpr && t->kind != FL_C_POINTER;
  d->returns = ref ? FL_RETURNS_PLACE : t->kind == FL_C_POINTER
               ? FL_RETURNS_POINTER : FL_RETURNS_VALUE;
}

void fl_device_signature(fl_front *p, fl_kdevice *d) {
  int ref = 0;
  p->at = d->head;
  if (d->is_maker) {
    d->result = fl_ctype_void();
  } else if (d->head == d->open) {                          /* a lambda */
    const fl_specifiers s = { .type = fl_ctype_void(), .is_auto = 1 };
    fl_device_result(p, d, s.type, &s, 0);
  } else {
    while (!strcmp(d->name, FL_CONVERTS) && !fl_ktok_is(&p->toks.at[p->at++], "operator")) continue;
    const fl_specifiers s = fl_decl_specifiers(p);
    const fl_ctype *t = s.type ? fl_decl_pointers(p, &s, &ref) : NULL;
    if (t) fl_device_result(p, d, t, &s, ref);
  }
  p->at = d->open;
  if (fl_front_take(p, '(')) fl_device_formals(p, d);      /* a lambda may have no formals: "[&] { …
                                                           ** }" */
}

/* ---- overloads ------------------------------------------------------------------------------- */

static int same_formal(const fl_kformal *a, const fl_kformal *b) {
  if (!a->type || !b->type || !fl_ctype_like(a->type, b->type)) return 0;
  if (a->type->kind == FL_C_POINTER || a->by_reference) {
    if (!fl_ctype_equal(a->type, b->type)) return 0;
  }
  return a->by_reference == b->by_reference && (!a->by_reference || a->is_const == b->is_const);
}

int fl_device_same(const fl_kdevice *a, const fl_kdevice *b) {
  if (a->n_params != b->n_params || a->n_tparams != b->n_tparams || a->is_const != b->is_const)
    return 0;
  if (a->n_special || b->n_special || !strcmp(a->name, FL_CONVERTS)) return 0;
  for (int i = 0; i < a->n_params; i++)
    if (!same_formal(&a->params[i], &b->params[i])) return 0;
  return !a->n_tparams;
}

/* Was a declaration of 'name' refused, or among members (whose names begin at symbol 'from', above
** 0) a using declaration? Then it is unknown which overload a call means. 0 for operators that are
** no members. */
static int has_wrong(const fl_front *p, const char *name, int64_t from) {
  const int operates = !strncmp(name, "operator", 8);
  if (!from && operates) return 0;
  for (int64_t i = from; i < p->syms.n; i++) {
    const fl_symbol *s = &p->syms.at[i];
    if (s->kind != FL_SYM_WRONG || s->of_base) continue;
    if (!strcmp(s->name, name) || (operates && !strcmp(s->name, "operator"))) return 1;
  }
  return 0;
}

void fl_device_list(fl_front *p, fl_kdevice *d, int64_t from) {
  fl_symbol *s = NULL;
  const int wrong = has_wrong(p, d->name, from);
  if (wrong && !from) return;
  if (wrong) d->why = "has overloads by a using declaration, which is outside the language";
  for (int64_t i = p->syms.n - 1; i >= from && !s; i--)
    if (p->syms.at[i].kind == FL_SYM_FUNCTION && !strcmp(p->syms.at[i].name, d->name))
      s = &p->syms.at[i];
  for (fl_kdevice *o = s ? s->device : NULL; o; o = o->next) {
    if (o->why || d->why || !fl_device_same(o, d) || fl_scope_differ(p, o, d)) continue;
    if (o->body >= 0 && d->body >= 0 && o->line && o->on_device != d->on_device) {
      d->next = o->next;                                  /* one of the two is for the host */
      if (d->on_device) *o = *d;
      return;
    }
    if (o->body >= 0 && d->body >= 0 && o->line)
      o->why = p->spaces ? "is defined in two namespaces, which are not told apart"
                         : "is defined twice";
    for (int i = 0; o->body >= 0 && d->body < 0 && i < d->n_params; i++)
      if (!o->params[i].init && d->params[i].init) {          /* it is declared once more */
        o->params[i].init = d->params[i].init;
        o->params[i].late = 1;
      }
    if (o->body < 0) {                               /* it was a prototype, perhaps with defaults */
      for (int i = 0; i < d->n_params; i++)
        if (!d->params[i].init) d->params[i].init = o->params[i].init;
      o->body = d->body;
      o->params = d->params;
    }
    return;
  }
  if (!s) s = fl_front_add(p, d->name, FL_SYM_FUNCTION);
  if (!s) return;
  d->next = s->device;
  s->device = d;
}
