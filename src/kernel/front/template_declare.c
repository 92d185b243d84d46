/*
** Declarations of templates: of functions, structs, aliases and constants, and their explicit
** specialisations. Their tokens are read when they are used (template.c).
*/
#include "kernel/front/template.h"
#include <string.h>

/* Reads "template <> struct name<…> { … }": an instance with its own tokens. */
static void special_struct(fl_front *p, fl_ktemplate *t) {
  fl_symbol *args = fl_karena_new(p->a, FL_K_MAX_TPARAMS * sizeof *args);
  struct fl_kinstance *one = fl_karena_new(p->a, sizeof *one);
  if (!args || !one) return;
  const int n = fl_template_args(p, args);
  for (int i = 0; i < n && i < t->n_tparams; i++)
    fl_template_give(&args[i], &t->tparams[i], &args[i]);
  if (!p->failed && (n > t->n_tparams || !fl_template_bind(p, t->tparams, t->n_tparams, args)))
    fl_refuse(p, fl_front_tok(p)->line, "wrong arguments for the template '%s'", t->name);
  one->args = args;
  one->at = p->at;
  one->next = t->instances;
  t->instances = one;
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
  const char *name = fl_front_name(p);
  fl_symbol *s = fl_front_find(p, name, (int32_t)strlen(name));
  fl_ktemplate *t = s && s->kind == FL_SYM_TEMPLATE ? s->structs : NULL;
  if (fl_front_is(p, '<')) {
    if (t && !n) special_struct(p, t);
    else if (t) fl_pattern_add(p, t, params, n);
    else fl_refuse(p, line, "there is no template '%s' to be specialised", name);
    return;
  }
  if (!t) t = fl_karena_new(p->a, sizeof *t);
  if (!t) return;
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
  const int of_types = fl_ktok_is(kind, "struct") || fl_ktok_is(kind, "class") ||
                       fl_ktok_is(kind, "using");
  if (n && params[n - 1].is_pack && of_types)
    fl_refuse(p, line,
              "variadic templates of structs are outside the language; of functions they are not");
  if (fl_front_word(p, "struct") || fl_front_word(p, "class")) {
    declare_struct(p, params, n);
    return;
  }
  if (fl_front_word(p, "using")) { declare_alias(p, params, n); return; }
  if (fl_outside_declare(p, params, n, 1) || declare_value(p, params, n)) return;
  for (int k = 0; fl_front_ahead(p, k)->kind == FL_TOK_NAME; k++)
    if (fl_ktok_is(fl_front_ahead(p, k), "__global__")) {
      if (!p->template_line) p->template_line = line;
      fl_refuse(p, line, FL_K_NAME_TEMPLATE);
    }
  fl_kdevice *d = p->failed ? NULL : fl_device_scan(p, NULL);
  if (!d && !p->failed) fl_refuse(p, line, "this template is outside the language");
  if (d && !p->failed && !n) fl_template_special(p, d, line);
  if (!d || p->failed) return;
  d->tparams = params;
  d->n_tparams = n;
  p->src->host |= line > 0 && !d->on_device && !fl_ktok_is(kind, "constexpr");
  fl_device_list(p, d, 0);
}
