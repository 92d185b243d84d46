/* Names with a prefix, "a::b::c", of namespaces, structs, enumerations and instances of templates;
** which functions a call may mean (scope.h). */
#include "kernel/front/scope.h"
#include "kernel/front/template.h"
#include <string.h>

int fl_scope_is_template(const fl_symbol *s) {
  if (!s || s->kind != FL_SYM_TYPE) return s && s->kind == FL_SYM_TEMPLATE && !s->structs->is_value;
  return s->type->kind == FL_C_STRUCT && s->type->s->members && s->type->s->members->of;
}

void fl_scope_file(fl_front *p, const fl_symbol **inner, int64_t *n) {
  *inner = p->syms.at;
  *n = p->f ? p->globals : p->syms.n;
}

void fl_scope_rename(fl_front *p) {
  const char *name = fl_front_name(p);
  fl_front_need(p, '=');
  fl_front_seek(p, ';', ';');
  fl_front_need(p, ';');
  fl_front_add(p, name, FL_SYM_SPACE);
}

int fl_scope_is_space(fl_front *p, const fl_ktok *t) {
  const fl_symbol *list,
  *s = p->f ? fl_front_named(p, t) : NULL;
  int64_t n;
  if (s && s->kind == FL_SYM_SPACE) return 1;
  fl_scope_file(p, &list, &n);
  for (int64_t i = 0; i < n; i++)
    if (list[i].kind == FL_SYM_SPACE && fl_ktok_is(t, list[i].name)) return 1;
  return 0;
}

/* Refuses "t::", where t has no members that could be named. type: the type that t is, or NULL. */
static void refuse_prefix(fl_front *p, const fl_ktok *t, const fl_ctype *type) {
  const char *why = fl_front_reserved(t);
  if (why) fl_refuse(p, t->line, "%s outside the language", why);
  else fl_refuse(p, t->line, "names of '%.*s' are outside the language", (int)t->n, t->text);
  p->absent = type != NULL;
}

/* The symbol that t names before "::", where variables and functions do not hide others. */
static const fl_symbol *before_scope(fl_front *p, const fl_ktok *t) {
  const fl_symbol *const s = fl_front_find(p, t->text, t->n);
  for (int64_t i = p->syms.n; s && s->kind != FL_SYM_TYPE && !s->n_inner && i-- > 0;) {
    const fl_symbol *o = &p->syms.at[i];
    if ((o->kind == FL_SYM_TYPE || o->n_inner) && o->n == t->n &&
        !memcmp(o->name, t->text, (size_t)t->n))
      return o;
  }
  return s;
}

int fl_scope_depends(fl_front *p, int64_t from) {
  for (const fl_ktok *t = &p->toks.at[from]; t < &p->toks.at[p->at]; t++) {
    const fl_symbol *s = fl_front_named(p, t);
    if (s && s->late == FL_LATE_ARGUMENT) return 1;
  }
  return 0;
}

void fl_scope_inherit(fl_front *p, const fl_symbol *list, int64_t n, int late) {
  const int64_t first = p->syms.n;
  fl_front_push(p, list, n);
  for (int64_t i = first; i < p->syms.n; i++)
    p->syms.at[i].late = late ? FL_LATE_MEMBER : FL_LATE_NO;
}

/* The base of t, or t itself, that t has the name of; NULL: there is none. */
static const fl_ctype *base_named(const fl_ctype *t, const fl_ktok *name) {
  const fl_ctype *found = fl_ktok_is(name, fl_member_class(t)) ? t : NULL;
  for (int i = 0; i < t->s->n_fields && !found; i++)
    if (t->s->fields[i].base) found = base_named(t->s->fields[i].type, name);
  return found;
}

/* Gives the names in struct 'type', or else those of symbol s, an enumeration; either may be NULL.
** 0: there are none, or s could not be read, which is refused. */
static int enter(fl_front *p, const fl_ctype *type, const fl_symbol *s, const fl_symbol **inner,
                 int64_t *n) {
  const int is_struct = type && type->kind == FL_C_STRUCT && !type->s->width;
  const fl_kmembers *m = is_struct ? type->s->members : NULL;
  if (s && s->kind == FL_SYM_WRONG && !s->n_inner)
    fl_refuse(p, fl_front_tok(p)->line, "'%s': %s", s->name, s->why);
  p->among = is_struct && !fl_ctype_is_open(type) ? type : NULL;
  if (p->failed || (!p->among && !(s && s->n_inner))) return 0;
  *inner = m ? m->inner : s ? s->inner : NULL;
  *n = m ? m->n_inner : s ? s->n_inner : 0;
  return 1;
}

int fl_scope_prefix(fl_front *p, const fl_symbol **inner, int64_t *n) {
  int found = 0;
  p->among = NULL;
  while (!p->failed) {
    if (found) fl_front_word(p, "template");                  /* "V::template f<…>" */
    const fl_ktok *t = fl_front_tok(p);
    if (fl_front_take(p, FL_PU_SCOPE)) {                /* "::x": a name of the file, or built in */
      t = fl_front_tok(p);
      if (found || t->kind != FL_TOK_NAME) continue;
      fl_scope_file(p, inner, n);
      found = fl_front_among(*inner, *n, t->text, t->n) != NULL;
      continue;
    }
    if (t->kind != FL_TOK_NAME) break;
    const fl_symbol *s = found ? fl_front_in(p, *inner, *n, t)
                         : fl_front_is_at(p, 1, FL_PU_SCOPE) ? before_scope(p, t)
                         : fl_front_find(p, t->text, t->n);
    const int angle = fl_scope_is_template(s) && fl_front_is_at(p, 1, '<')
                      ? fl_template_angle(p, 1) : 0;
    if (!fl_front_is_at(p, 1 + angle, FL_PU_SCOPE) || (angle && fl_template_splits(p, 1))) break;
    p->at++;
    if (fl_ktok_is(t, "std")) { p->at++; continue; }
    if (fl_scope_is_space(p, t)) {
      fl_scope_file(p, inner, n);
      p->among = NULL;
      found = 1;
      p->at++;
      continue;
    }
    const fl_ctype *type = s && s->kind == FL_SYM_TYPE ? s->type : NULL;
    if (!s && found && p->among) type = base_named(p->among, t);
    if (angle) type = type ? fl_template_again(p, type) : fl_template_struct(p, s->structs);
    if (!enter(p, type, s, inner, n)) { refuse_prefix(p, t, type); break; }
    found = 1; p->at++;
  }
  return found;
}

enum { MOST_SPACES = 16 };

static int same_name(const fl_ktok *a, const fl_ktok *b) {
  return a->n == b->n && !memcmp(a->text, b->text, (size_t)a->n);
}

/* From token 'from' on, up to the next span, the namespace is 'of'. */
typedef struct fl_kspan { int64_t from; const fl_kspace *of; } fl_kspan;

/* The namespace that token t names in 'up'. */
static const fl_kspace *inside(fl_front *p, const fl_kspace *up, const fl_ktok *t) {
  for (int64_t i = 0; i < p->n_spans; i++) {
    const fl_kspace *o = p->spans[i].of;
    if (o && o->up == up && same_name(o->name, t)) return o;
  }
  fl_kspace *one = fl_karena_new(p->a, sizeof *one);
  if (one) *one = (fl_kspace){ t, up };
  return one;
}

static void begin_span(fl_front *p, int64_t from, const fl_kspace *of) {
  p->spans[p->n_spans++] = (fl_kspan){ from, of };
}

/* The token after the bracket that closes the one at i; also where no error may hide the tokens. */
static int64_t past(const fl_front *p, int64_t i) {
  for (int depth = 0; i < p->toks.n; i++)
    if ((depth += fl_ktok_depth(&p->toks.at[i])) == 0) return i + 1;
  return i;
}

/* The namespace that t names in 'up', if it was opened before; NULL: there is none. */
static const fl_kspace *opened_in(const fl_front *p, const fl_kspace *up, const fl_ktok *t) {
  for (int64_t k = 0; k < p->n_spans; k++) {
    const fl_kspace *of = p->spans[k].of;
    if (of && of->up == up && same_name(of->name, t)) return of;
  }
  return NULL;
}

/* Does token i, between functions in namespace 'now', begin the prefix of "void a::b::f(…) {"? The
** namespace a::b, if it was opened before, or NULL. *from: the first token of the definition; *end:
** that after it. */
static const fl_kspace *defined_in(const fl_front *p, int64_t i, const fl_kspace *now,
                                   int64_t *from, int64_t *end) {
  const fl_ktok *t = p->toks.at;
  int64_t k = i;
  if (i < 1 || !fl_is_punct(&t[i + 1], FL_PU_SCOPE) || fl_is_punct(&t[i - 1], FL_PU_SCOPE))
    return NULL;
  for (; t[k].kind == FL_TOK_NAME && fl_is_punct(&t[k + 1], FL_PU_SCOPE); k += 2)
    if ((now = opened_in(p, now, &t[k])) == NULL) return NULL;
  if (t[k].kind != FL_TOK_NAME || !fl_is_punct(&t[k + 1], '(')) return NULL;
  const int64_t body = past(p, k + 1);
  if (body >= p->toks.n || !fl_is_punct(&t[body], '{')) return NULL;
  *end = past(p, body);
  for (k = i; k > 0; k--)
    if (fl_is_punct(&t[k - 1], ';') || fl_is_punct(&t[k - 1], '}') || fl_is_punct(&t[k - 1], '{'))
      break;
  *from = k;
  return now;
}

/* Finds where namespaces begin and end. Unnamed and inline ones, and std, count as what is around
** them. */
static void find_spans(fl_front *p) {
  const fl_kspace *outer[MOST_SPACES], *now = NULL;
  int depth = 0, at[MOST_SPACES], n = 0;
  int64_t most = 1, from, end;
  for (int64_t i = 0; i < p->toks.n; i++)
    most += fl_ktok_is(&p->toks.at[i], "namespace") || fl_is_punct(&p->toks.at[i], FL_PU_SCOPE);
  p->spans = fl_karena_new(p->a, (size_t)(6 * most + 2) * sizeof *p->spans);
  if (!p->spans) return;
  begin_span(p, 0, NULL);
  for (int64_t i = 0; i < p->toks.n; i++) {
    const fl_ktok *t = &p->toks.at[i];
    if (fl_is_punct(t, '}') && --depth >= 0 && n && at[n - 1] == depth)
      begin_span(p, i, now = outer[--n]);
    depth += fl_is_punct(t, '{');
    const fl_kspace *of = depth == n ? defined_in(p, i, now, &from, &end) : NULL;
    if (of) {
      begin_span(p, from, of);
      begin_span(p, end, now);
      i = end - 1;
      continue;
    }
    if (!fl_ktok_is(t, "namespace") || (i && fl_ktok_is(t - 1, "using"))) continue;
    const fl_kspace *to = now;
    for (t++; t->kind == FL_TOK_NAME || fl_is_punct(t, FL_PU_SCOPE); t++)
      if (t->kind == FL_TOK_NAME && !fl_ktok_is(t, "std") && !(i && fl_ktok_is(&p->toks.at[i - 1],
                                                                               "inline"))) {
        to = inside(p, to, t);
        if (p->n_spans < 6 * most) begin_span(p, i, to);
      }
    if (!fl_is_punct(t, '{') || n == MOST_SPACES) {
      begin_span(p, i, now);
      continue;
    }
    outer[n] = now;
    at[n++] = depth;
    begin_span(p, i, now = to);
  }
}

const fl_kspace *fl_scope_at(fl_front *p, int64_t at) {
  if (!p->spaces) return NULL;
  if (!p->spans) find_spans(p);
  int64_t low = 0, high = p->spans ? p->n_spans : 0;
  while (high - low > 1) {
    const int64_t mid = (low + high) / 2;
    if (p->spans[mid].from <= at) low = mid;
    else high = mid;
  }
  return high ? p->spans[low].of : NULL;
}

/* The brace of the block of a function or struct that token t is in; NULL: it is in none. */
static const fl_ktok *block_of(const fl_front *p, const fl_ktok *t) {
  int depth = 0;
  while (t > p->toks.at) {
    depth += fl_is_punct(--t, '}');
    if (!fl_is_punct(t, '{') || depth--) continue;
    const fl_ktok *w = t;                             /* "namespace a::b {" and "extern "C" {" */
    while (w > p->toks.at && !fl_ktok_is(w, "namespace") &&
           (w[-1].kind == FL_TOK_NAME || fl_is_punct(w - 1, FL_PU_SCOPE))) w--;
    if (!fl_ktok_is(w, "namespace") && !(t > p->toks.at && t[-1].kind == FL_TOK_STRING)) return t;
    depth = 0;
  }
  return NULL;
}

/* Does a "using" at token t of a block count at token 'at'? It does from t to the block's end. */
static int reaches(const fl_ktok *t, const fl_ktok *at) {
  int depth = 0;
  for (; t < at && depth >= 0; t++) depth += fl_is_punct(t, '{') - fl_is_punct(t, '}');
  return t == at && depth >= 0;
}

typedef struct opening {         /* "using namespace …::space;" or "using …::name;" */
  const fl_ktok *last;           /* the space or the name */
  int whole, of_file;            /* whole: it names a namespace; of_file: "::name", "std::name" */
} opening;

static opening opening_at(const fl_front *p, const fl_ktok *t) {
  const fl_ktok *const end = p->toks.at + p->toks.n;
  opening o = { .whole = fl_ktok_is(t + 1, "namespace") };
  o.last = t + 1 + o.whole;
  while (o.last + 2 < end && (fl_is_punct(o.last, FL_PU_SCOPE) ||
                              fl_is_punct(o.last + 1, FL_PU_SCOPE))) o.last++;
  o.of_file = o.last - 2 == t || fl_ktok_is(o.last - 2, "std");
  return o;
}

/* Does "::name", whose name is token t, follow a namespace other than 'space'? 0 also if the
** namespace there may be another name of 'space': that of an inline namespace in it, or one by
** "namespace a = b;". */
static int is_other_space(const fl_front *p, const fl_ktok *t, const fl_ktok *space) {
  const fl_ktok *q = t - 2;
  if (same_name(q, space)) return 0;
  for (const fl_ktok *u = p->toks.at + 1, *end = p->toks.at + p->toks.n; u + 1 < end; u++)
    if (same_name(u, q) && fl_is_punct(u + 1, '{') &&
        (fl_is_punct(u - 1, FL_PU_SCOPE) ||
         (fl_ktok_is(u - 1, "namespace") && !(u > p->toks.at + 1 && fl_ktok_is(u - 2, "inline")))))
      return 1;
  return 0;
}

/* How deep the namespace 'of' is, if it is around 'at' or is it; else -1. */
static int depth_of(const fl_kspace *of, const fl_kspace *at) {
  int n = 0, is = !of;
  for (; at && !is; at = at->up) is = at == of;
  for (; of; of = of->up) n++;
  return is ? n : -1;
}

/* How many namespaces are around both. */
static int common_depth(const fl_kspace *a, const fl_kspace *b) {
  for (; a; a = a->up)
    if (depth_of(a, b) >= 0) return depth_of(a, b);
  return 0;
}

/* A "using" (o, at token t) brings a name of namespace 'of' into a namespace: how deep is that one,
** as token 'at' sees it? 0 if 'at' is NULL; -1: the "using" has no effect at 'at'. "using
** namespace" brings names into the innermost namespace around both its own place and 'of'. A
** "using" in a namespace has an effect there, and wherever a "using namespace" of that namespace
** has one. */
static int brought(fl_front *p, const fl_ktok *t, const opening *o, const fl_kspace *of,
                   const fl_ktok *at, int left) {
  const fl_kspace *own = fl_scope_at(p, t - p->toks.at);
  const int is_block = at && block_of(p, t) != NULL;
  const int depth = o->whole ? common_depth(own, of) : depth_of(own, own);
  if (!at) return 0;
  if (is_block ? reaches(t, at) : depth_of(own, fl_scope_at(p, at - p->toks.at)) >= 0) return depth;
  int most = -1;
  for (const fl_ktok *u = p->toks.at, *end = u + p->toks.n; !is_block && left && u + 2 < end; u++) {
    if (!fl_ktok_is(u, "using") || u == t) continue;
    const opening next = opening_at(p, u);
    if (!next.whole || !same_name(next.last, own->name)) continue;
    const int is = brought(p, u, &next, of, at, left - 1);
    if (is > most) most = is;
  }
  return most;
}

/* The greatest depth ('brought') at which a "using" makes 'name' of namespace 'of' (NULL: of the
** file, or of std) known to token 'at' (NULL: any token); -1: none does. */
static int is_opened(fl_front *p, const fl_kspace *of, const fl_ktok *name, const fl_ktok *at) {
  int most = -1;
  for (const fl_ktok *t = p->toks.at, *end = t + p->toks.n; t + 2 < end; t++) {
    if (!fl_ktok_is(t, "using")) continue;
    const opening o = opening_at(p, t);
    const int is = o.whole ? of && same_name(o.last, of->name)
      : same_name(o.last, name) && fl_is_punct(o.last - 1, FL_PU_SCOPE) && o.of_file == !of &&
        (!of || !is_other_space(p, o.last, of->name));
    const int depth = is ? brought(p, t, &o, of, at, 3) : -1;
    if (depth > most) most = depth;
  }
  return most;
}

/* is_opened; *none: 1 if that is so for no token at all, 0 as long as it is not known. */
static int is_opened_at(fl_front *p, uint8_t *none, const fl_kspace *of, const fl_ktok *name,
                        const fl_ktok *at) {
  if (!*none) *none = (uint8_t)(is_opened(p, of, name, NULL) < 0 ? 1 : 2);
  return *none == 2 ? is_opened(p, of, name, at) : -1;
}

/* The innermost block around token t that has a "using …::name;" hides the other functions of that
** name. Returns 1 if that "using" means the functions of 'space' (NULL: of the file), 0 if it means
** others, -1 if there is no such block. */
static int of_block(const fl_front *p, const fl_ktok *space, const fl_ktok *name,
                    const fl_ktok *t) {
  const fl_ktok *inner = NULL;
  int is = -1;
  for (const fl_ktok *u = p->toks.at; u + 2 < t; u++) {
    if (!fl_ktok_is(u, "using")) continue;
    const opening o = opening_at(p, u);
    if (o.whole || !same_name(o.last, name) || !fl_is_punct(o.last - 1, FL_PU_SCOPE)) continue;
    const fl_ktok *block = block_of(p, u);
    if (!block || block < inner || !reaches(u, t)) continue;
    const int its = space ? !o.of_file && !is_other_space(p, o.last, space) : o.of_file;
    is = block == inner ? is || its : its;
    inner = block;
  }
  return is;
}

/* Is the name that token t is before "::" a namespace or a type, and no word before "::name"? */
static int is_prefix(const fl_ktok *t) {
  static const char *const words[] = { "return", "else", "do", "case", "throw", "co_return" };
  return t->kind == FL_TOK_NAME && fl_ktok_among(t, words, 6) < 0;
}

static int is_of_text(const fl_front *p, const fl_ktok *t) {
  return t >= p->toks.at + 2 && t < p->toks.at + p->toks.n;
}

int fl_scope_is_of_file(const fl_front *p, const fl_ktok *t) {
  return is_of_text(p, t) && fl_is_punct(t - 1, FL_PU_SCOPE) &&
         (!is_prefix(t - 2) || fl_ktok_is(t - 2, "std"));
}

const fl_symbol *fl_scope_called(fl_front *p, const fl_ktok *name) {
  const fl_symbol *list;
  int64_t n;
  if (!fl_scope_is_of_file(p, name)) {
    const fl_symbol *s = fl_front_named(p, name);
    return s && s->late == FL_LATE_MEMBER && fl_math_known(name) ? NULL : s;
  }
  fl_scope_file(p, &list, &n);
  return fl_front_in(p, list, n, name);
}

/* What is around 'of', if "a::b::" before token t names that namespace; if not, *is becomes 0. */
static const fl_kspace *rest_of(fl_front *p, const fl_kspace *of, const fl_ktok *t, int *is) {
  *is = 1;
  while (is_of_text(p, t) && fl_is_punct(t - 1, FL_PU_SCOPE)) {
    t -= 2;
    if (!is_prefix(t)) { *is = !of; break; }                                            /* "::b" */
    if (fl_ktok_is(t, "std")) continue;
    *is = of && same_name(of->name, t);
    if (!*is) break;
    of = of->up;
  }
  return of;
}

static const fl_kspace *space_of(fl_front *p, const fl_kdevice *d) {
  return d->line ? fl_scope_at(p, d->head) : NULL;
}

int fl_scope_differ(fl_front *p, const fl_kdevice *a, const fl_kdevice *b) {
  return !a->owner && !b->owner && space_of(p, a) != space_of(p, b);
}

/* Does "a::b::" before name token t lead to d? */
static int leads_to(fl_front *p, const fl_kdevice *d, const fl_ktok *t) {
  const fl_kspace *of = space_of(p, d);
  int is;
  if (fl_scope_is_of_file(p, t)) return !of;
  rest_of(p, of, t, &is);
  return is && of;
}

/* The namespace whose names token 'at' sees: that around it, or, in a function that is defined
** outside of its struct, that around the struct. */
static const fl_kspace *seen_at(fl_front *p, int64_t at) {
  const fl_ctype *owner = p->inside ? p->inside->owner : NULL;
  const fl_kmembers *m = owner && owner->s ? owner->s->members : NULL;
  const fl_kspace *of = fl_scope_at(p, at);
  return of || !m ? of : fl_scope_at(p, m->at);
}

/* How deep the namespace of d is, if it is the file or around the call by name token t; else -1. */
static int depth_for(fl_front *p, const fl_kdevice *d, const fl_ktok *t) {
  return depth_of(space_of(p, d), seen_at(p, t - p->toks.at));
}

/* How deep d is for the call by name token t: the depth of its namespace, or of one into which a
** "using" brings it; -1: the call does not see d. */
static int appears(fl_front *p, fl_kdevice *d, const fl_ktok *t) {
  const fl_kspace *const at = seen_at(p, t - p->toks.at);
  const int own = depth_for(p, d, t);
  if (d->owner || (own >= 0 && own == depth_of(at, at))) return own;      /* none is nearer */
  const int other = is_opened_at(p, &d->opened, space_of(p, d), t, t);
  return own > other ? own : other;
}

int fl_scope_nearest(fl_front *p, fl_kdevice *first, const fl_ktok *t) {
  int most = -1;
  if (!is_of_text(p, t)) return -1;
  for (fl_kdevice *d = first; d; d = d->next) {
    const int n = fl_is_punct(t - 1, FL_PU_SCOPE) ? leads_to(p, d, t) - 1 : appears(p, d, t);
    if (n > most) most = n;
  }
  return most;
}

int fl_scope_means(fl_front *p, const fl_kcall *c, fl_kdevice *d) {
  const fl_ktok *t = c->name;
  if (d->owner || !is_of_text(p, t)) return 1;
  const fl_kspace *of = space_of(p, d);
  if (fl_is_punct(t - 1, FL_PU_SCOPE))
    return c->depth >= 0 ? leads_to(p, d, t) : (of != NULL) != fl_scope_is_of_file(p, t);
  for (int i = 0; i < c->n; i++)                   /* names of a struct's namespace are found */
    if (c->args[i].type && c->args[i].type->kind == FL_C_STRUCT && !c->args[i].type->s->width)
      return 1;
  const fl_ktok *space = of ? of->name : NULL;
  const int declared = of_block(p, space, t, t);
  if (declared >= 0) return declared;
  return c->depth >= 0 && appears(p, d, t) == c->depth;
}

int fl_scope_hides(fl_front *p, const fl_kcall *c, const fl_kdevice *d) {
  const fl_ktok *t = c->name;
  if (d->owner || !is_of_text(p, t) || !space_of(p, d) || fl_scope_is_of_file(p, t)) return 0;
  return fl_is_punct(t - 1, FL_PU_SCOPE) ||
         (depth_for(p, d, t) >= 0 && is_opened(p, NULL, t, t) < 0);
}

/* ---- names of several namespaces ------------------------------------------------------------- */

typedef struct fl_kchoice {      /* the first is none of them, and is shared by the symbols */
  fl_symbol s;
  uint8_t opened;                /* as of fl_kdevice */
  struct fl_kchoice *next;
} fl_kchoice;

static int is_open(fl_front *p, fl_kchoice *c, const fl_ktok *at) {
  const fl_ktok name = { .kind = FL_TOK_NAME, .text = c->s.name, .n = c->s.n };
  return c->s.space && is_opened_at(p, &c->opened, c->s.space, &name, at) >= 0;
}

const fl_symbol *fl_scope_pick(fl_front *p, const fl_symbol *s, const fl_ktok *t) {
  if (!s || s->kind != FL_SYM_WRONG || !s->choice) return s;
  const int in_text = t && is_of_text(p, t), scoped = in_text && fl_is_punct(t - 1, FL_PU_SCOPE);
  const fl_kspace *at = seen_at(p, in_text ? t - p->toks.at : p->at);
  fl_kchoice *best = NULL, *open = NULL;
  int depth = -1, fit = 0, opened = 0, is = 1;
  for (fl_kchoice *c = s->choice->next; c; c = c->next) {
    const fl_kspace *rest = scoped ? rest_of(p, c->s.space, t, &is) : c->s.space;
    const int own = is ? depth_of(rest, at) : -1;
    fit += is;
    if (is && (own > depth || (scoped && fit == 1))) best = c, depth = own;
    if (!scoped && is_open(p, c, in_text ? t : &p->toks.at[p->at])) open = c, opened++;
  }
  if (scoped) return best && (fit == 1 || depth >= 0) ? &best->s : s;
  if (depth < 0) best = opened == 1 ? open : NULL;
  else if (opened > (open == best)) best = NULL;
  return best ? &best->s : s;
}

fl_symbol *fl_scope_own(fl_front *p, const fl_ktok *t) {
  const fl_kspace *at = fl_scope_at(p, t - p->toks.at);
  fl_symbol *s = fl_front_named(p, t);
  const fl_symbol *list, *raw;
  int64_t n;
  fl_scope_file(p, &list, &n);
  raw = fl_front_among(list, n, t->text, t->n);
  if (!raw || !raw->choice || !raw->choice->next) return s && s == raw && s->space != at ? NULL : s;
  fl_kchoice *c = raw->choice->next;
  int file = s->kind == FL_SYM_WRONG;
  for (; c && c->s.space != at; c = c->next) file |= s == &c->s;
  return c ? &c->s : file ? NULL : s;
}

/* Adds s to the symbols among which 'holder' is a choice. Returns 1 also if one of the same
** namespace is the same type. 0: one of the same namespace is something else, or no memory. */
static int choose_among(fl_front *p, fl_kchoice *holder, const fl_symbol *s) {
  fl_kchoice *c = holder->next;
  while (c && c->s.space != s->space) c = c->next;
  if (c && c->s.kind == FL_SYM_TYPE && s->kind == FL_SYM_TYPE && fl_ctype_like(c->s.type, s->type))
    return 1;
  fl_kchoice *one = c ? NULL : fl_karena_new(p->a, sizeof *one);
  if (!one) return 0;
  *one = (fl_kchoice){ .s = *s, .next = holder->next };
  holder->next = one;
  return 1;
}

/* o and s are symbols of one name in different namespaces. If both are types, templates or
** constants, makes them a choice, from which the namespace of a use picks; else unusable. */
static void set_apart(fl_front *p, fl_symbol *o, fl_symbol *s) {
  const int chosen = 1 << FL_SYM_CONSTANT | 1 << FL_SYM_TYPE | 1 << FL_SYM_TEMPLATE;
  fl_kchoice *h = o->choice ? o->choice : fl_karena_new(p->a, sizeof *h);
  if (!h) return;
  const int good = (chosen >> s->kind & 1) && (o->choice ? h->next != NULL
                   : (chosen >> o->kind & 1) && choose_among(p, h, o)) && choose_among(p, h, s);
  if (!good) h->next = NULL;
  o->kind = s->kind = FL_SYM_WRONG;
  o->choice = s->choice = h;
  o->why = s->why = "is defined in two namespaces, which are not told apart";
}

void fl_scope_tell_apart(fl_front *p, int64_t from) {
  const int kinds = 1 << FL_SYM_CONSTANT | 1 << FL_SYM_TABLE | 1 << FL_SYM_TYPE |
                    1 << FL_SYM_TEMPLATE, held = 1 << FL_SYM_MEMORY | 1 << FL_SYM_SHARED;
  for (int64_t i = from; i < p->syms.n && p->spaces; i++) {
    fl_symbol *s = &p->syms.at[i];
    s->space = fl_scope_at(p, p->at - 1);
    for (int64_t k = 0; k < from; k++) {
      fl_symbol *o = &p->syms.at[k];
      const int apart = o->space != s->space, of = kinds | (apart ? held : 0);
      if (!(of >> s->kind & 1) || o->n != s->n || strcmp(o->name, s->name)) continue;
      if (!(of >> o->kind & 1) && !o->choice) continue;
      if (s->kind == FL_SYM_TYPE && o->kind == FL_SYM_TYPE && fl_ctype_like(s->type, o->type))
        continue;
      set_apart(p, o, s);
    }
  }
}
