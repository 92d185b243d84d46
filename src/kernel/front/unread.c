/* Declarations that could not be read: where they end, and which names they would have declared.
** Also finds the types among the members of a struct that could not be read. */
#include "kernel/front/template.h"
#include <string.h>

/* Moves past the end of a declaration that starts at 'from'. */
void fl_front_skip_declaration(fl_front *p, int64_t from) {
  p->at = from;
  while (fl_front_ahead(p, 0)->kind != FL_TOK_END) {
    if (fl_front_is_at(p, 0, ';')) { p->at++; return; }
    if (fl_front_is_at(p, 0, '{')) {
      fl_front_skip(p);
      if (fl_front_is_at(p, 0, ';')) p->at++;
      return;
    }
    if (fl_front_is_at(p, 0, '(') || fl_front_is_at(p, 0, '[')) fl_front_skip(p);
    else p->at++;
  }
}

/* The number of tokens in the <…> at token i; 0: there is none. */
static int angle_at(fl_front *p, int64_t i) {
  const int64_t at = p->at;
  p->at = i;
  const int n = fl_front_is(p, '<') ? fl_template_angle(p, 0) : 0;
  p->at = at;
  return n;
}

/* The name that a declaration which could not be read, from 'from' to here, would have declared, or
** specialised: the last one before '(', '=', '[', ';', '{' or ':' (in a typedef: before ')', '[',
** ';' or '{'); NULL: there is none. Parameters and arguments of templates are not names of the
** file. */
const fl_ktok *fl_front_unread_name(fl_front *p, int64_t from, int *is_kernel) {
  const fl_ktok *name = NULL;
  *is_kernel = 0;
  if (fl_ktok_is(&p->toks.at[from], "template")) from += 1 + angle_at(p, from + 1);
  const int is_typedef = fl_ktok_is(&p->toks.at[from], "typedef");   /* "… (*name)(…)" */
  for (int64_t i = from; i < p->at; i++) {
    const fl_ktok *t = &p->toks.at[i];
    if (fl_ktok_is(t, "__global__")) *is_kernel = 1;
    if (fl_ktok_is(t, "__launch_bounds__") || fl_ktok_is(t, "__attribute__") ||
        fl_ktok_is(t, "__align__")) {
      i++;
      continue;
    }
    if (t->kind == FL_TOK_NAME) {
      name = t;
      i += angle_at(p, i + 1);
    }
    const int c = t->kind == FL_TOK_PUNCT ? t->punct < 256 ? t->punct : 1 : 1;
    if (name && strchr(is_typedef ? ")[;{" : "(=[;{:", c)) break;
  }
  return name;
}

/* Takes back the refusal of a type among members, and adds its name as a symbol of kind
** FL_SYM_WRONG, with the reason, for messages about code that uses it. Moves past the
** declaration. */
static void leave_unread(fl_front *p, const fl_kattempt *from) {
  const char *why = p->why;
  const int32_t line = p->line;
  int is_kernel;
  if (!fl_front_undo(p, from)) return;
  fl_front_skip_declaration(p, from->at);
  const fl_ktok *name = fl_front_unread_name(p, from->at, &is_kernel);
  const char *text = name ? fl_karena_str(p->a, name->text, (size_t)name->n) : NULL;
  fl_symbol *s = text ? fl_front_add(p, text, FL_SYM_WRONG) : NULL;
  if (s) s->why = fl_karena_printf(p->a, "%s (line %d)", why, (int)line);
}

/* Takes "template <…> struct V …" or "template <…> using V = …" among members. k: the tokens before
** 'struct' or 'using'; mark: the first symbol of the enclosing struct. */
static void member_template(fl_front *p, int64_t mark, int k) {
  const int32_t line = fl_front_tok(p)->line;
  const fl_ktok *name = fl_front_ahead(p, k + 1);
  const fl_symbol *same = fl_front_find(p, name->text, name->n);
  const int64_t n = p->syms.n - mark;
  fl_symbol *outer = fl_karena_new(p->a, (size_t)n * sizeof *outer + 1);
  if (same && same->kind == FL_SYM_TEMPLATE)
    fl_refuse(p, line, "a template of a name that another one has is outside the language");
  if (!outer || p->failed) return;
  memcpy(outer, p->syms.at + mark, (size_t)n * sizeof *outer);
  p->at++;
  fl_template_declare(p);
  fl_symbol *s = p->failed || p->syms.n == mark + n ? NULL : &p->syms.at[p->syms.n - 1];
  if (!s || s->kind != FL_SYM_TEMPLATE) return;
  s->structs->outer = outer;
  s->structs->n_outer = n;
}

int fl_member_type(fl_front *p, int64_t mark) {
  const fl_ktok *t = fl_front_tok(p);
  const fl_kattempt from = fl_front_try(p);
  const int names = fl_ktok_is(t, "using") || fl_ktok_is(t, "typedef");
  int k = fl_ktok_is(t, "template") && fl_front_is_at(p, 1, '<') ? 1 + fl_template_angle(p, 1) : 0;
  const int is_template = k > 0, named = fl_front_ahead(p, k + 1)->kind == FL_TOK_NAME;
  const int is_class = (fl_ktok_is(fl_front_ahead(p, k), "struct") ||
                        fl_ktok_is(fl_front_ahead(p, k), "class") ||
                        (is_template && fl_ktok_is(fl_front_ahead(p, k), "using"))) && named &&
                       (is_template || (fl_front_is_at(p, k + 2, '{') &&
                                        fl_front_is_at(p, fl_front_past(p, k + 2), ';')));
  if (!names && !is_class) return 0;
  if (names) {
    fl_decl_local(p);
  } else if (is_template) {
    member_template(p, mark, k);
  } else {
    fl_decl_specifiers(p);
    fl_front_need(p, ';');
  }
  if (p->failed) leave_unread(p, &from);
  return 1;
}

/* Moves to the first token of the body of the class that is declared from 'from' to here, and
** returns the body's end; 0: what is declared is no class, or a template of one. */
static int64_t enter_class(fl_front *p, int64_t from) {
  const int64_t end = p->at;
  const int is = fl_ktok_is(&p->toks.at[from], "struct") || fl_ktok_is(&p->toks.at[from], "class");
  for (p->at = from; is && p->at < end && !fl_front_is_at(p, 0, ';'); p->at++)
    if (fl_front_is_at(p, 0, '{')) return fl_front_end(p, p->at++);
  return 0;
}

int64_t fl_front_unread_types(fl_front *p, int64_t from, fl_symbol **list) {
  static const char *const access[] = { "public", "private", "protected" };
  const int64_t mark = p->syms.n, back = p->at, end = enter_class(p, from);
  while (end && p->at < end && !p->a->failed && fl_front_ahead(p, 0)->kind != FL_TOK_END) {
    if (fl_ktok_among(fl_front_ahead(p, 0), access, 3) >= 0) p->at += 2;
    else if (!fl_member_type(p, mark)) fl_front_skip_declaration(p, p->at);
  }
  const int64_t n = p->syms.n - mark;
  *list = n ? fl_karena_new(p->a, (size_t)n * sizeof **list) : NULL;
  if (*list) memcpy(*list, p->syms.at + mark, (size_t)n * sizeof **list);
  p->syms.n = mark;
  p->at = back;
  return *list ? n : 0;
}
