/*
** Declarations of templates: of functions, structs, aliases and constants, and their explicit
** specialisations. Their tokens are read when they are used (template.c).
*/
#include "kernel/front/scope.h"
#include "kernel/front/template.h"
#include <string.h>

/* Reads "template <> struct name<…> { … }": an instance with its own tokens. */
static void special_struct(fl_front *p, fl_ktemplate *t) {
  fl_symbol *args = fl_karena_new(p->a, FL_K_MAX_TPARAMS * sizeof *args);
  struct fl_kinstance *one = fl_karena_new(p->a, sizeof *one);
  if (!args || !one) return;
  if (!fl_template_take(p, t, args)) return;
  one->args = args;
  one->at = p->at;
  one->next = t->instances;
  t->instances = one;
  fl_front_seek(p, '{', '{');
  fl_front_skip(p);
  fl_front_need(p, ';');
}

/* Gives those of the parameters 'to' that have no default that of 'from'. */
static void take_defaults(fl_ktparam *to, const fl_ktparam *from, int n) {
  for (int i = 0; i < n; i++)
    if (!to[i].init) to[i].init = from[i].init;
}

/* Takes the rest of a declaration or the definition of template t, which is declared already and
** may have specialisations. */
static void declare_again(fl_front *p, fl_ktemplate *t, fl_ktparam *params, int64_t align) {
  if (fl_front_take(p, ';')) { take_defaults(t->tparams, params, t->n_tparams); return; }
  take_defaults(params, t->tparams, t->n_tparams);
  t->tparams = params;
  t->at = p->at;
  t->align = align;
  fl_front_seek(p, '{', '{');
  fl_front_skip(p);
  fl_front_need(p, ';');
}

static void declare_struct(fl_front *p, fl_ktparam *params, int n) {
  const int32_t line = fl_front_tok(p)->line;
  const int aligned = fl_ktok_is(fl_front_tok(p), "alignas") ||
                      fl_ktok_is(fl_front_tok(p), "__align__");
  const int64_t align = aligned ? p->at : 0;
  p->at += aligned;
  if (aligned) fl_front_skip(p);
  fl_symbol *s = fl_scope_own(p, fl_front_tok(p));
  const char *name = fl_front_name(p);
  fl_ktemplate *t = s && s->kind == FL_SYM_TEMPLATE ? s->structs : NULL;
  if (fl_front_is(p, '<')) {
    if (t && !n) special_struct(p, t);
    else if (t) fl_pattern_add(p, t, params, n);
    else fl_refuse(p, line, "there is no template '%s' to be specialised", name);
    return;
  }
  if (!t) t = fl_karena_new(p->a, sizeof *t);
  if (!t) return;
  if (t->n_tparams == n && p->toks.at[t->at].line) {
    declare_again(p, t, params, align);
    return;
  }
  *t = (fl_ktemplate){ .name = name, .tparams = params, .n_tparams = n, .at = p->at,
                       .align = align };
  if (!s) {
    fl_symbol *sym = fl_front_add(p, name, FL_SYM_TEMPLATE);
    if (sym) sym->structs = t;
  }
  if (fl_front_take(p, ';')) return;                        /* declared only */
  fl_front_seek(p, '{', '{');
  fl_front_skip(p);
  fl_front_need(p, ';');
}

/* Adds the template of an alias or a constant; its declaration is skipped up to ';'. */
static void add_template(fl_front *p, fl_ktemplate of) {
  fl_ktemplate *t = fl_karena_new(p->a, sizeof *t);
  fl_front_seek(p, ';', ';');
  fl_front_need(p, ';');
  fl_symbol *s = p->failed || !t ? NULL : fl_front_add(p, of.name, FL_SYM_TEMPLATE);
  if (!s) return;
  *t = of;
  s->structs = t;
}

/* Takes "template <…> using name = T;" after 'using'. */
static void declare_alias(fl_front *p, fl_ktparam *params, int n) {
  const char *name = fl_front_name(p);
  if (fl_front_need(p, '='))
    add_template(p, (fl_ktemplate){ .name = name, .tparams = params, .n_tparams = n, .at = p->at,
                                    .is_alias = 1 });
}

/* Takes "template <…> constexpr T name = e;" after '>'. 0: it is not such a declaration, and
** nothing is taken. */
static int declare_value(fl_front *p, fl_ktparam *params, int n) {
  const int64_t at = p->at;
  int angle = 0, constant = 0;
  while (!p->failed && fl_front_tok(p)->kind != FL_TOK_END && !fl_front_is(p, '(') &&
         !fl_front_is(p, '{') && !fl_front_is(p, ';')) {
    if (fl_front_is(p, '=')) break;
    constant |= fl_ktok_is(fl_front_tok(p), "constexpr") || fl_ktok_is(fl_front_tok(p), "const");
    angle = fl_front_is(p, '<') ? fl_template_angle(p, 0) : 0;
    p->at += angle ? angle : 1;
  }
  const fl_ktok *name = p->at > at ? &p->toks.at[p->at - 1] : NULL;
  const int is = fl_front_is(p, '=') && name && name->kind == FL_TOK_NAME &&
                 !fl_ktok_is(name, "operator");
  if (!is) { p->at = at; return 0; }
  if (!constant)
    fl_refuse(p, name->line,
              "a template of variables that are not constexpr is outside the language");
  const char *text = fl_karena_str(p->a, name->text, (size_t)name->n);
  if (text)
    add_template(p, (fl_ktemplate){ .name = text, .tparams = params, .n_tparams = n, .at = at,
                                    .is_value = 1 });
  return 1;
}

/* ---- function templates that are declared and defined --------------------------------------- */

static int is_same(const fl_ktok *a, const fl_ktok *b) {
  return a->kind == b->kind && a->n == b->n && !memcmp(a->text, b->text, (size_t)a->n);
}

/* A formal: tokens from … to - 1, without its name and default, and the ',' or ')' after it. */
typedef struct clause { int64_t from, to, end; } clause;

static clause read_clause(fl_front *p, int64_t from) {
  static const char *const before_types[] = { "const", "typename", "volatile", "unsigned" };
  clause c = { from, 0, from };
  for (int depth = 0; p->toks.at[c.end].kind != FL_TOK_END; c.end++) {
    const int q = fl_ktok_punct(&p->toks.at[c.end]);
    if (!depth && (q == ',' || q == ')')) break;
    if (!depth && q == '=' && !c.to) c.to = c.end;
    depth += (q == '<' || q == '(' || q == '{') - (q == '>' || q == ')' || q == '}') -
             2 * (q == FL_PU_SHR);
  }
  if (!c.to) c.to = c.end;
  const fl_ktok *last = &p->toks.at[c.to - 1];
  c.to -= c.to - from > 1 && last->kind == FL_TOK_NAME && !fl_decl_is_word(last) &&
          !fl_is_punct(last - 1, FL_PU_SCOPE) &&
          fl_ktok_among(last - 1, before_types, 4) < 0;
  return c;
}

/* Are token x, of template a, and y, of b, the same, or names of a parameter of the same number? */
static int is_same_in(const fl_kdevice *a, const fl_kdevice *b, const fl_ktok *x,
                      const fl_ktok *y) {
  for (int i = 0; i < a->n_tparams; i++)
    if (fl_ktok_is(x, a->tparams[i].name)) return fl_ktok_is(y, b->tparams[i].name);
  return is_same(x, y);
}

static int same_formals(fl_front *p, const fl_kdevice *one, const fl_kdevice *other) {
  for (int64_t i = one->open, k = other->open;;) {
    const clause a = read_clause(p, i + 1), b = read_clause(p, k + 1);
    int is = a.to - a.from == b.to - b.from &&
             is_same(&p->toks.at[a.end], &p->toks.at[b.end]);
    for (int64_t j = 0; is && j < a.to - a.from; j++)
      is = is_same_in(one, other, &p->toks.at[a.from + j], &p->toks.at[b.from + j]);
    if (!is || !fl_is_punct(&p->toks.at[a.end], ',')) return is;
    i = a.end, k = b.end;
  }
}

/* The next token of d before its '(' that tells what it returns, from *i on; NULL: none. */
static const fl_ktok *next_of_head(fl_front *p, const fl_kdevice *d, int64_t *i) {
  static const char *const idle[] = { "__device__", "__host__", "inline", "static", "extern",
                                      "__forceinline__", "__inline__", "__noinline__" };
  while (*i < d->open && fl_ktok_among(&p->toks.at[*i], idle, 8) >= 0) *i += 1;
  return *i < d->open ? &p->toks.at[(*i)++] : NULL;
}

/* Do a and b, of one name, declare one template? 0 also if a name is of one parameter in a and of
** another one in b (fl_template_confused), or a parameter has an enable_if. */
static int same_template(fl_front *p, const fl_kdevice *a, const fl_kdevice *b) {
  const int n = a->n_tparams;
  int is = n && n == b->n_tparams && !a->n_special && !b->n_special &&
           !fl_template_confused(a->tparams, n, b->tparams, n, 1);
  for (int i = 0; is && i < n; i++)
    is = !a->tparams[i].check && !b->tparams[i].check &&
         !a->tparams[i].type == !b->tparams[i].type &&
         a->tparams[i].is_pack == b->tparams[i].is_pack;
  for (int64_t i = a->head, k = b->head; is;) {
    const fl_ktok *x = next_of_head(p, a, &i), *y = next_of_head(p, b, &k);
    is = !x == !y && (!x || is_same_in(a, b, x, y));
    if (!x) break;
  }
  return is && same_formals(p, a, b);
}

/* Joins d with an earlier declaration of it: the one with a body (if none has, the earlier one)
** gets the defaults of both. 1: that is the earlier one, so d is not needed. */
static int join(fl_front *p, fl_kdevice *d) {
  fl_symbol *s = fl_front_find(p, d->name, (int32_t)strlen(d->name));
  if (!s || s->kind != FL_SYM_FUNCTION) return 0;
  for (fl_kdevice **at = &s->device; *at; at = &(*at)->next) {
    fl_kdevice *o = *at;
    if ((o->body >= 0 && d->body >= 0) || !o->line || fl_scope_differ(p, o, d) ||
        !same_template(p, o, d)) continue;
    fl_kdevice *const to = d->body >= 0 ? d : o, *const from = d->body >= 0 ? o : d;
    take_defaults(to->tparams, from->tparams, d->n_tparams);
    if (!to->declared) {
      to->declared = from->declared ? from->declared : from->open;
      to->names = from->declared ? from->names : from->tparams;
    }
    if (to == o) return 1;
    *at = o->next;
    return 0;
  }
  return 0;
}

int fl_template_guide(fl_front *p) {
  const int k = fl_ktok_is(fl_front_tok(p), "explicit");
  const fl_ktok *t = fl_front_ahead(p, k);
  const fl_symbol *s = t->kind == FL_TOK_NAME && fl_front_is_at(p, k + 1, '(')
                       ? fl_front_find(p, t->text, t->n) : NULL;
  if (!s || !s->structs || !fl_front_is_at(p, fl_front_past(p, k + 1), FL_PU_ARROW)) return 0;
  fl_front_skip_declaration(p, p->at);
  return 1;
}

void fl_template_declare(fl_front *p) {
  fl_ktparam *params = NULL;
  const int32_t line = fl_front_tok(p)->line;
  if (!fl_front_is(p, '<')) {                  /* an explicit instantiation is ignored: calls make
                                               ** their own instances */
    fl_front_skip_declaration(p, p->at);
    return;
  }
  const int n = fl_template_params(p, &params);
  if (p->failed) return;
  const fl_ktok *kind = fl_front_tok(p);
  if (fl_front_word(p, "struct") || fl_front_word(p, "class")) {
    declare_struct(p, params, n);
    return;
  }
  if (fl_front_word(p, "using")) { declare_alias(p, params, n); return; }
  if (fl_template_guide(p)) return;
  if (fl_outside_declare(p, params, n, 1) || declare_value(p, params, n)) return;
  for (int k = 0; fl_front_ahead(p, k)->kind == FL_TOK_NAME; k++) {
    if (fl_ktok_is(fl_front_ahead(p, k), "__global__")) {
      if (!p->template_line) p->template_line = line;
      fl_refuse(p, line, FL_K_NAME_TEMPLATE);
    }
    if (fl_device_attribute(fl_front_ahead(p, k))) k = fl_front_past(p, k + 1) - 1;
  }
  fl_kdevice *d = p->failed ? NULL : fl_device_scan(p, NULL);
  if (!d && !p->failed) fl_refuse(p, line, "this template is outside the language");
  if (d && !p->failed && !n) fl_template_special(p, d, line);
  if (!d || p->failed) return;
  d->tparams = params;
  d->n_tparams = n;
  if (join(p, d)) return;
  p->src->host |= line > 0 && !d->on_device && !fl_ktok_is(kind, "constexpr");
  fl_device_list(p, d, 0);
}
