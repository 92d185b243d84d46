/*
** A type as a template writes it, "const V<T *, N> (&)[M]", matched with a type: what the
** parameters in it are. The written type is a base with declarators around it, listed from the
** base outwards: for "T *(&)[4]" these are '*', '[', '&'.
*/
#include "kernel/front/scope.h"
#include "kernel/front/template.h"
#include <string.h>

enum { MOST = 12 };

/* A declarator. kind: '*' (is_const: "* const"), '[' (at: the token of its size; 0: none), '&' or
** FL_PU_LAND. */
typedef struct part { int kind, is_const; int64_t at; } part;
typedef struct written {
  int64_t base, end;           /* the tokens of the base, without its qualifiers */
  int is_const, is_volatile, unread;              /* unread: it is not understood, as "R (A)" */
  int n;
  part parts[MOST];
} written;
/* loose: a formal of a call is matched with an argument, so that constness, a conversion to a base
** and an array for a pointer may differ; else the types must be the same. */
typedef struct matching { fl_front *p; const fl_kdeduction *d; int loose; } matching;

static void add(written *w, int kind, int64_t at) {
  if (w->n == MOST) w->unread = 1;
  else w->parts[w->n++] = (part){ .kind = kind, .at = at };
}

static int is_qualifier(const fl_ktok *t) {
  static const char *const words[] = { "const", "volatile", "typename", "struct", "class",
                                       "__restrict__", "__restrict", "restrict" };
  return fl_ktok_among(t, words, sizeof words / sizeof *words) >= 0;
}

static void qualify(written *w, const fl_ktok *t) {
  w->is_const |= fl_ktok_is(t, "const");
  w->is_volatile |= fl_ktok_is(t, "volatile");
}

/* Does the base, which begins at w->base, go on with token i? It does after "::" and with words as
** in "unsigned long". */
static int goes_on(fl_front *p, const written *w, int64_t i) {
  const fl_ktok *t = &p->toks.at[i];
  if (w->base < 0 || fl_is_punct(t, FL_PU_SCOPE)) return 1;
  return fl_is_punct(&p->toks.at[i - 1], FL_PU_SCOPE) ||
         (fl_decl_is_word(t) && fl_decl_is_word(&p->toks.at[w->base]));
}

/* Reads the qualifiers and the base from token i on; returns the token after them. */
static int64_t read_base(fl_front *p, int64_t i, int64_t end, written *w) {
  for (w->base = -1; i < end; i++) {
    const fl_ktok *t = &p->toks.at[i];
    if (t->kind == FL_TOK_NAME && is_qualifier(t)) {
      qualify(w, t);
    } else if (t->kind == FL_TOK_NAME || fl_is_punct(t, FL_PU_SCOPE)) {
      if (!goes_on(p, w, i)) break;
      if (w->base < 0) w->base = i;
      w->end = i + 1;
    } else if (fl_is_punct(t, '<') && w->base >= 0 && w->end == i) {
      const int n = fl_template_angle(p, (int)(i - p->at));
      w->end = n && i + n < end ? i + n : end;
      i = w->end - 1;
    } else {
      break;
    }
  }
  w->unread |= w->base < 0;
  return i;
}

/* Reads declarators from token i to end - 1 (or to '='), those in "(…)" last. */
static void read_parts(fl_front *p, int64_t i, int64_t end, written *w) {
  int64_t open = 0, close = 0;
  for (; i < end; i++) {
    const fl_ktok *t = &p->toks.at[i];
    const int c = fl_ktok_punct(t);
    if (c == '*' || c == '&' || c == FL_PU_LAND) add(w, c, i);
    else if (fl_ktok_is(t, "const") && w->n) w->parts[w->n - 1].is_const = 1;
    else if (t->kind != FL_TOK_NAME && c != FL_PU_ELLIPSIS) break;
  }
  const int c = i < end ? fl_ktok_punct(&p->toks.at[i + 1]) : 0;
  if (i < end && fl_is_punct(&p->toks.at[i], '(')) {
    open = i + 1;
    i = fl_front_end(p, i);
    close = i - 1;
    w->unread |= c != '*' && c != '&' && c != FL_PU_LAND;
  }
  const int first = w->n;
  for (; i < end && fl_is_punct(&p->toks.at[i], '['); i = fl_front_end(p, i))
    add(w, '[', fl_is_punct(&p->toks.at[i + 1], ']') ? 0 : i + 1);
  for (int k = first, last = w->n - 1; k < last; k++, last--) {   /* the last size is innermost */
    const part x = w->parts[k];
    w->parts[k] = w->parts[last];
    w->parts[last] = x;
  }
  w->unread |= i < end && !fl_is_punct(&p->toks.at[i], '=');
  if (open && !w->unread) read_parts(p, open, close, w);
}

static written read_written(fl_front *p, int64_t from, int64_t end) {
  written w = { .n = 0 };
  read_parts(p, read_base(p, from, end, &w), end, &w);
  return w;
}

/* ---- matching -------------------------------------------------------------------------------- */

static int match(const matching *m, int64_t from, int64_t end, const fl_symbol *arg);

int fl_match_pack(fl_front *p, const fl_kdeduction *d, int64_t from, int64_t end,
                  const fl_symbol *args, int n, int formal) {
  const int k = fl_template_pack(d->t, d->n);
  fl_symbol *list = fl_karena_new(p->a, ((size_t)n + 1) * sizeof *list);
  if (k == d->n || !list) return FL_MATCH_UNKNOWN;
  if (d->env[k].name) return FL_MATCH_YES;
  const fl_ktparam one = { .name = d->t[k].name, .type = d->t[k].type };
  for (int i = 0; i < n; i++) {
    const fl_kdeduction each = { &one, 1, &list[i], NULL, 0 };
    const matching m = { p, &each, formal };
    const int is = match(&m, from, end, &args[i]);
    if (is == FL_MATCH_NO || !list[i].name) return is == FL_MATCH_NO ? is : FL_MATCH_UNKNOWN;
  }
  fl_template_give_pack(p, &d->env[k], &d->t[k], list, n);
  return FL_MATCH_YES;
}

/* The *n arguments with the elements of a pack in its place. */
static const fl_symbol *flat(fl_front *p, const fl_symbol *args, int *n) {
  int most = 0, k = 0;
  for (int i = 0; i < *n; i++) most += args[i].kind == FL_SYM_PACK ? (int)args[i].n_inner : 1;
  fl_symbol *list = fl_karena_new(p->a, ((size_t)most + 1) * sizeof *list);
  for (int i = 0; list && i < *n; i++) {
    const int is = args[i].kind == FL_SYM_PACK;
    for (int j = 0; j < (is ? (int)args[i].n_inner : 1); j++)
      list[k++] = is ? args[i].inner[j] : args[i];
  }
  *n = k;
  return list;
}

/* Matches the arguments of a template, after '<' at 'open', with the n arguments 'args' of an
** instance. some 1: an argument without a name is not known, and matches anything; 2: so do
** arguments at 'open' beyond the n. */
static int match_args(const matching *m, int64_t open, const fl_symbol *args, int n, int some) {
  const matching inside = { m->p, m->d, 0 };
  for (int i = 0; i < n; i++)
    if (args[i].kind == FL_SYM_PACK) { args = flat(m->p, args, &n); break; }
  int depth = 1, arg = 0, is = FL_MATCH_YES;
  int64_t from = open + 1;
  for (int64_t i = from; depth > 0 && i < m->p->toks.n; i++) {
    const int c = fl_ktok_punct(&m->p->toks.at[i]);
    if (c == '(') { i = fl_front_end(m->p, i) - 1; continue; }      /* may have '<' in it */
    depth += (c == '<') - (c == '>') - 2 * (c == FL_PU_SHR);
    if (depth > 0 && !(c == ',' && depth == 1)) continue;
    const int64_t end = i + (c == FL_PU_SHR && depth == 0);
    if (end > from && fl_is_punct(&m->p->toks.at[end - 1], FL_PU_ELLIPSIS)) {
      const int all = fl_match_pack(m->p, m->d, from, end - 1, args + arg, n - arg, 0);
      return all == FL_MATCH_YES ? is : all;
    }
    if (arg == n) return some > 1 ? is : FL_MATCH_NO;
    const int skip = end == from || (some && !args[arg].name);
    const int one = skip ? FL_MATCH_YES : match(&inside, from, end, &args[arg]);
    arg += end > from;
    if (one == FL_MATCH_NO) return one;
    if (one == FL_MATCH_UNKNOWN) is = one;
    from = i + 1;
  }
  return is;
}

/* Matches "Name<…>", another name of the type that starts at token t->at, with 'arg'. */
static int match_alias(const matching *m, const fl_ktemplate *t, int64_t open,
                       const fl_symbol *arg) {
  fl_symbol *own = fl_karena_new(m->p->a, FL_K_MAX_TPARAMS * sizeof *own);
  const fl_kdeduction d = { t->tparams, t->n_tparams, own, m->d->conflict, 0 };
  const matching alias = { m->p, &d, m->loose };
  int64_t end = t->at;
  while (end < m->p->toks.n && !fl_is_punct(&m->p->toks.at[end], ';')) end++;
  if (!own || !fl_front_enter(m->p)) return FL_MATCH_UNKNOWN;
  const int is = match(&alias, t->at, end, arg), pack = fl_template_pack(t->tparams, t->n_tparams),
            open_end = pack < t->n_tparams && !own[pack].name;
  m->p->nest--;
  if (is != FL_MATCH_YES) return is;
  return match_args(m, open, own, open_end ? pack : t->n_tparams, 1 + open_end);
}

/* Matches "Name<…>" with the struct 'type', or, in a call, with one of its bases. */
static int match_struct(const matching *m, const fl_ktemplate *of, int64_t open,
                        const fl_ctype *type) {
  if (type->kind != FL_C_STRUCT) return FL_MATCH_NO;
  const fl_kmembers *s = type->s->members;
  if (s && s->of == of) return match_args(m, open, s->inner, of->n_tparams, 0);
  for (int i = 0; m->loose && i < type->s->n_fields && type->s->fields[i].base; i++) {
    const int is = match_struct(m, of, open, type->s->fields[i].type);
    if (is != FL_MATCH_NO) return is;
  }
  return FL_MATCH_NO;
}

/* The template that the base of w names, with *open at its '<'; NULL: it names none. */
static const fl_ktemplate *template_of(fl_front *p, const written *w, int64_t *open) {
  int64_t i = w->base;
  while (i + 2 < w->end && fl_is_punct(&p->toks.at[i + 1], FL_PU_SCOPE) &&
         (fl_ktok_is(&p->toks.at[i], "std") || fl_scope_is_space(p, &p->toks.at[i])))
    i += 2;
  *open = i + 1;
  if (*open >= w->end || !fl_is_punct(&p->toks.at[*open], '<')) return NULL;
  const fl_symbol *s = fl_front_named(p, &p->toks.at[i]);
  if (!fl_scope_is_template(s)) return NULL;      /* inside a template its name is the instance */
  return s->kind == FL_SYM_TEMPLATE ? s->structs : s->type->s->members->of;
}

/* Matches the base, with its qualifiers, with 'arg', whose declarators have been matched. */
static int match_base(const matching *m, const written *w, fl_symbol arg) {
  fl_front *p = m->p;
  int64_t open;
  const int which = w->end == w->base + 1 ? fl_deduce_index(m->d, &p->toks.at[w->base]) : -1;
  if (!m->loose && ((w->is_const && !arg.is_const) || (w->is_volatile && !arg.type->is_volatile)))
    return FL_MATCH_NO;
  if (w->is_const) arg.is_const = 0;
  if (w->is_volatile) arg.type = fl_ctype_plain(p->a, arg.type);
  if (!arg.type) return FL_MATCH_UNKNOWN;
  if (which >= 0) return fl_deduce_type(m->d, which, arg.type, arg.is_const, arg.ref);
  if (!m->loose && (arg.is_const || arg.type->is_volatile)) return FL_MATCH_NO;
  const fl_ktemplate *t = template_of(p, w, &open);
  if (!t || open + fl_template_angle(p, (int)(open - p->at)) < w->end)
    return FL_MATCH_YES;                          /* nothing is deduced from it */
  return t->is_alias ? match_alias(m, t, open, &arg) : match_struct(m, t, open, arg.type);
}

/* Takes declarator x off the type of 'arg'. */
static int take_part(const matching *m, const part *x, fl_symbol *arg) {
  const fl_ctype *t = arg->type;
  if (x->kind == '[') {
    if (t->kind != FL_C_ARRAY) return FL_MATCH_NO;
    const int which = x->at ? fl_deduce_index(m->d, &m->p->toks.at[x->at]) : -1;
    if (!m->loose && !x->at != !t->count) return FL_MATCH_NO;
    arg->type = t->of;
    return which < 0 ? FL_MATCH_YES
                     : fl_deduce_value(m->p, m->d, which, fl_ctype_scalar(FL_KT_U64), t->count);
  }
  if (x->kind != '*') {       /* '&' or '&&': the argument is such a reference */
    const int ref = x->kind == '&' ? 1 : 2;
    if (m->loose) return FL_MATCH_YES;                  /* arg->ref: of "T &&" for an lvalue */
    if (arg->ref != ref) return FL_MATCH_NO;
    arg->ref = 0;
    return FL_MATCH_YES;
  }
  if (t->kind != FL_C_POINTER || fl_ctype_same(t, fl_ctype_texture()) || (arg->ref && !m->loose))
    return FL_MATCH_NO;
  if (arg->is_const != x->is_const && (!m->loose || arg->is_const)) return FL_MATCH_NO;
  arg->is_const = t->const_of;
  arg->type = t->of;
  return FL_MATCH_YES;
}

/* Matches tokens 'from' to end - 1 with 'arg'. */
static int match(const matching *m, int64_t from, int64_t end, const fl_symbol *arg) {
  fl_front *p = m->p;
  const int alone = end == from + 1 ? fl_deduce_index(m->d, &p->toks.at[from]) : -1;
  if (arg->kind == FL_SYM_CONSTANT)
    return alone < 0 || !arg->v.e ? FL_MATCH_YES
           : fl_deduce_value(p, m->d, alone, arg->v.type, arg->v.e->value.i);
  if (arg->kind != FL_SYM_TYPE) {
    if (alone >= 0 && !m->d->env[alone].name)
      fl_template_give(&m->d->env[alone], &m->d->t[alone], arg);
    return FL_MATCH_YES;
  }
  written w = read_written(p, from, end);
  fl_symbol now = *arg;
  if (w.unread)
    return now.type == fl_ctype_function() || w.n == MOST ? FL_MATCH_UNKNOWN : FL_MATCH_NO;
  for (int k = w.n; k-- > 0;) {
    if (m->loose && k == w.n - 1 && w.parts[k].kind == '[') w.parts[k].kind = '*';
    const int is = take_part(m, &w.parts[k], &now);
    if (is != FL_MATCH_YES) return is;
  }
  if (now.ref && !m->loose && (w.n || w.is_const || w.is_volatile)) return FL_MATCH_NO;
  if (!fl_front_enter(p)) return FL_MATCH_UNKNOWN;
  const int is = match_base(m, &w, now);
  p->nest--;
  return is;
}

int fl_match_reference(fl_front *p, const fl_kdeduction *d, int64_t from, int64_t end) {
  const written w = read_written(p, from, end);
  const int kind = w.n ? w.parts[w.n - 1].kind : 0,
            plain = w.n == 1 && w.end == w.base + 1 && !w.is_const && !w.is_volatile;
  if (kind == FL_PU_LAND && plain && fl_deduce_index(d, &p->toks.at[w.base]) >= 0) return 2;
  return kind == '&' || kind == FL_PU_LAND;
}

void fl_match_formal(fl_front *p, const fl_kdeduction *d, int64_t from, int64_t end,
                     const fl_symbol *arg) {
  const matching m = { p, d, 1 };
  match(&m, from, end, arg);
}

int fl_match_all(fl_front *p, const fl_kdeduction *d, int64_t open, const fl_symbol *args, int n) {
  const matching m = { p, d, 0 };
  return match_args(&m, open, args, n, 0);
}
