/*
** Directives and macros over the raw tokens. Macros are expanded as in C (not inside their own
** expansion). Growth is bounded, so a macro bomb is an error and not an outage.
*/
#include "kernel/front/front.h"
#include "kernel/front/includes.h"
#include "kernel/tree/fold.h"
#include <stdio.h>
#include <string.h>

enum { MAX_TOKENS = 1000000, MAX_EXPANSION = 32, MAX_PARAMS = 48, MAX_IFS = 64, MAX_DEPTH = 200,
       MAX_INSIDE = 64, CHAINS = 64 };

typedef struct macro {
  const char *name;
  int32_t n_name;
  int n_params;              /* -1: object-like */
  fl_ktok params[MAX_PARAMS];
  const fl_ktok *body;
  int64_t n_body;
  int variadic;              /* its last parameter takes the rest */
  int busy, gone;            /* it is being expanded; it was undefined, or defined again */
  struct macro *next;
} macro;

typedef struct pre {
  fl_karena *a;
  fl_ktoks raw, *out;
  int64_t at;
  macro *macros[CHAINS];     /* the newest first: chain() */
  struct { uint8_t taken, outer, last; int32_t line; } ifs[MAX_IFS];    /* taken: a branch of it was
                             ** live; outer: 'live' around it; last: #else was read */
  int n_ifs, live, depth, stop, expansions;   /* live: no #if skips the text here */
  int asks;                  /* a condition is being expanded */
  const char *why;           /* why the text ended early; NULL: it did not, or memory is out */
  int32_t line;
  fl_kfiles *files;
  struct text *texts, *now;  /* the files that were read; the one that is being read */
  int inside;                /* how many are being read */
} pre;

typedef struct text {        /* a file */
  fl_ktoks toks;
  int32_t file;
  int once;                  /* it has #pragma once */
  struct text *next;
} text;

static const char too_long[] = "the text is too long after macro expansion";

/* Ends the text here and notes the reason; the first reason counts. */
static void stop(pre *p, int32_t line, const char *why) {
  if (!p->why) p->why = why, p->line = line;
  p->stop = 1;
}

static int emit(pre *p, const fl_ktok *t) {
  if (p->out->n >= MAX_TOKENS) stop(p, t->line, too_long);
  fl_ktok *o = p->stop ? NULL : FL_PUSH(p->a->mem, p->out);
  if (o) *o = *t;
  else if (!p->stop) p->a->failed = p->stop = 1;
  return o != NULL;
}

static void emit_bad(pre *p, int32_t line, const char *why) {
  fl_ktok t = { .kind = FL_TOK_BAD, .line = line, .text = why, .n = (int32_t)strlen(why) };
  emit(p, &t);
}

/* Is there room for item n of a list? If not, adds a BAD token with the reason. */
static int room(pre *p, int64_t n, int64_t most, const char *what, int32_t line) {
  const char *why = fl_kfull(p->a, n, most, what);
  if (why) emit_bad(p, line, why);
  return !why;
}

/* The list of the macros that are named as t, a name, among others. */
static unsigned chain(const fl_ktok *t) {
  const unsigned first = (unsigned char)t->text[0], last = (unsigned char)t->text[t->n - 1];
  return (31 * (unsigned)t->n + 7 * last + first) % CHAINS;
}

static macro *find(const pre *p, const fl_ktok *t) {
  for (macro *m = p->macros[chain(t)]; m; m = m->next)
    if (!m->gone && m->n_name == t->n && !memcmp(m->name, t->text, (size_t)t->n))
      return m;
  return NULL;
}

/* The words that the preprocessor replaces itself. */
static const char has_include[] = "__has_include";
static const char *const own_words[] = { has_include, "__has_attribute", "__has_cpp_attribute",
                                        "__LINE__", "__COUNTER__" };

static int is_defined(const pre *p, const fl_ktok *t) {
  return find(p, t) || fl_ktok_among(t, own_words, sizeof own_words / sizeof *own_words) >= 0;
}

static int is_asking(const fl_ktok *t) {
  return fl_ktok_is(t, "defined") || fl_ktok_among(t, own_words, 3) >= 0;
}

static fl_ktok number(int64_t value, int32_t line) {
  fl_ktok t = { .kind = FL_TOK_INT, .type = FL_KT_I32, .line = line, .text = "" };
  t.value.i = value;
  return t;
}

/* ---- expansion ------------------------------------------------------------------------------- */

typedef struct span { const fl_ktok *at, *end; } span;

static void expand(pre *p, span s, int32_t line);

/* Splits "(a, b)" at s->at into *n arguments and moves past it; 0: failed, with a BAD token. Within
** argument 'rest' commas do not separate (-1: they always do). */
static int split(pre *p, span *s, span arg[MAX_PARAMS], int *n, int rest, int32_t line) {
  int depth = 1;
  *n = 0;
  arg[0].at = ++s->at;
  for (; s->at < s->end; s->at++) {
    if (s->at->kind != FL_TOK_PUNCT) continue;
    const int c = s->at->punct;
    depth += fl_ktok_depth(s->at);
    if (depth && !(depth == 1 && c == ',' && *n != rest)) continue;
    arg[*n].end = s->at;
    (*n)++;
    if (!depth) { s->at++; return 1; }
    if (!room(p, *n, MAX_PARAMS, "arguments of a macro", line)) return 0;
    arg[*n].at = s->at + 1;
  }
  emit_bad(p, line, "call of a macro that is not closed");
  return 0;
}

static int param_of(const macro *m, const fl_ktok *t) {
  for (int i = 0; t->kind == FL_TOK_NAME && i < m->n_params; i++)
    if (m->params[i].n == t->n && !memcmp(m->params[i].text, t->text, (size_t)t->n))
      return i;
  return -1;
}

/* Writes "#x": the tokens of s as one string. */
static void put_string(pre *p, span s, int32_t line) {
  size_t n = 1;
  for (const fl_ktok *t = s.at; t < s.end; t++) n += (size_t)t->n + 3;
  char *text = fl_karena_new(p->a, n), *to = text;
  if (!text) { p->stop = 1; return; }
  for (const fl_ktok *t = s.at; t < s.end; t++) {
    const int quoted = t->kind == FL_TOK_STRING;
    if (t > s.at && !t->glued) *to++ = ' ';
    if (quoted) *to++ = '"';
    memcpy(to, t->text, (size_t)t->n);
    to += t->n;
    if (quoted) *to++ = '"';
  }
  const fl_ktok t = { .kind = FL_TOK_STRING, .line = line, .text = text,
                      .n = (int32_t)(to - text) };
  emit(p, &t);
}

/* "a##b": joins the token written last and t to one token, which is scanned again. */
static void paste(pre *p, const fl_ktok *t) {
  fl_ktok *last = &p->out->at[p->out->n - 1];
  fl_ktoks one = { NULL, 0, 0 };
  char *text = fl_karena_new(p->a, (size_t)last->n + (size_t)t->n + 1);
  if (!text) { p->stop = 1; return; }
  memcpy(text, last->text, (size_t)last->n);
  memcpy(text + last->n, t->text, (size_t)t->n);
  if (fl_klex(p->a, text, (size_t)last->n + (size_t)t->n, last->line, &one) && one.n == 2)
    *last = one.at[0];
  else emit_bad(p, last->line, "## makes no single token");
  FL_DROP(p->a->mem, &one);
}

/* Writes tokens without expanding them: those of the body, or those of an argument beside ##.
** pasted: the first one is joined to the token written last. */
static void put_plain(pre *p, span s, int pasted) {
  for (; s.at < s.end && !p->stop; s.at++, pasted = 0) {
    if (pasted && p->out->n) paste(p, s.at);
    else emit(p, s.at);
  }
}

/* Writes m's body to 'body' with the arguments substituted, expanded except beside # and ##. */
static int substitute(pre *p, const macro *m, const span *arg, fl_ktoks *body,
                      int32_t line) {
  fl_ktoks *out = p->out;
  const fl_ktok *end = m->body + m->n_body;
  p->out = body;
  for (const fl_ktok *t = m->body; t < end && !p->stop; t++) {
    const int before = t > m->body && fl_is_punct(t - 1, FL_PU_PASTE),
              after = t + 1 < end && fl_is_punct(t + 1, FL_PU_PASTE);
    const int next = fl_is_punct(t, '#') && t + 1 < end ? param_of(m, t + 1) : -1,
              k = param_of(m, t);
    /* "f(a, ##__VA_ARGS__)": without further arguments the comma is dropped too */
    const int dropped = before && m->variadic && k == m->n_params - 1 && body->n &&
                        fl_is_punct(&body->at[body->n - 1], ',');
    if (next >= 0 && m->n_params >= 0) put_string(p, arg[next], line), t++;
    else if (dropped && arg[k].at == arg[k].end) body->n--;
    else if (fl_is_punct(t, FL_PU_PASTE) && t > m->body && t + 1 < end) continue;
    else if (k >= 0 && !dropped && (before || after)) put_plain(p, arg[k], before);
    else if (k >= 0) expand(p, arg[k], line);
    else put_plain(p, (span){ t, t + 1 }, before);
  }
  p->out = out;
  return !p->stop;
}

/* Expands macro m, whose name was at s->at - 1, with its arguments at s->at if it takes any. */
static void expand_macro(pre *p, macro *m, span *s, int32_t line) {
  span arg[MAX_PARAMS];
  int n = 0;
  if (++p->expansions > MAX_TOKENS) { stop(p, line, too_long); return; }
  if (m->n_params >= 0 && !split(p, s, arg, &n, m->variadic ? m->n_params - 1 : -1, line)) {
    s->at = s->end;
    return;
  }
  if (n == 1 && !m->n_params && arg[0].at == arg[0].end) n = 0;
  if (m->variadic && n == m->n_params - 1) arg[n++] = (span){ s->at, s->at };
  if (m->n_params >= 0 && n != m->n_params) {
    emit_bad(p, line, "wrong number of arguments for a macro");
    return;
  }
  fl_ktoks body = { NULL, 0, 0 };
  if (substitute(p, m, arg, &body, line)) {
    m->busy = 1;
    expand(p, (span){ body.at, body.at + body.n }, line);
    m->busy = 0;
  }
  FL_DROP(p->a->mem, &body);
}

/* The macro that t names, if it is to be expanded before the tokens of s; NULL: there is none. A
** name that occurs in the expansion of its macro is marked ('bare'): it is never expanded. */
static macro *called(const pre *p, fl_ktok *t, span s) {
  macro *m = t->kind == FL_TOK_NAME && !t->bare ? find(p, t) : NULL;
  if (m && m->busy) t->bare = 1, m = NULL;
  return m && m->n_params >= 0 && !(s.at < s.end && fl_is_punct(s.at, '(')) ? NULL : m;
}

/* Expands macro m at s->at. Where this ends with the name of a macro whose "(" follows in s, that
** one is expanded too: of '#define TWICE BOTH', TWICE(x) is BOTH(x). */
static void expand_call(pre *p, macro *m, span *s, int32_t line) {
  while (m && !p->stop) {
    const int64_t before = p->out->n;
    expand_macro(p, m, s, line);
    fl_ktok *last = p->out->n > before ? &p->out->at[p->out->n - 1] : NULL;
    m = last && s->at < s->end && fl_is_punct(s->at, '(') ? called(p, last, *s) : NULL;
    if (m) p->out->n--;
  }
}

/* Copies from s what follows a word that asks in a condition, and is not expanded: the name after
** "defined", or the file that "__has_include" names itself. */
static void put_asked(pre *p, int is_file, span *s) {
  if (s->at < s->end && fl_is_punct(s->at, '(')) emit(p, s->at++);
  const int plain = s->at < s->end && (fl_is_punct(s->at, '<') || s->at->kind == FL_TOK_STRING);
  if (is_file && !plain) return;
  do
    if (s->at < s->end) emit(p, s->at++);
  while (is_file && s->at < s->end && !fl_is_punct(s->at, ')'));
}

/* Writes t, which is no macro. */
static void put_word(pre *p, const fl_ktok *t, span *s) {
  const char *why = NULL;
  fl_ktok one = *t;
  if (fl_is_punct(t, '#') || fl_is_punct(t, FL_PU_PASTE))
    why = "# or ## where no macro makes something of it";
  else if (fl_ktok_is(t, "__COUNTER__") || (fl_ktok_is(t, "__LINE__") && p->now && p->now->file))
    why = p->asks ? "a number that is not known here" : NULL;            /* else it stays a name */
  else if (fl_ktok_is(t, "__LINE__")) {
    one = number(t->line, t->line);
    one.text = fl_karena_printf(p->a, "%d", (int)t->line);
    one.n = one.text ? (int32_t)strlen(one.text) : 0;
  }
  if (why) emit_bad(p, t->line, why);
  else emit(p, &one);
  if (p->asks && is_asking(t)) put_asked(p, fl_ktok_is(t, has_include), s);
}

/* Writes the tokens of s with macros expanded. line: the line where the outermost macro is used; 0:
** the tokens' own lines. */
static void expand(pre *p, span s, int32_t line) {
  if (++p->depth > MAX_EXPANSION) stop(p, line, "macros nested too deeply");
  while (s.at < s.end && !p->stop) {
    fl_ktok t = *s.at++;
    if (line) t.line = line;
    macro *m = called(p, &t, s);
    if (m) expand_call(p, m, &s, t.line);
    else put_word(p, &t, &s);
  }
  p->depth--;
}

/* ---- directives ------------------------------------------------------------------------------ */

/* Reads a parameter of macro m at s->at, "a", "..." or "a..."; 0: there is none; -1: too
** many. */
static int parameter(pre *p, macro *m, span *s) {
  static const char rest[] = "__VA_ARGS__";
  const fl_ktok *t = s->at;
  const int named = t < s->end && t->kind == FL_TOK_NAME;
  s->at += named;
  m->variadic = s->at < s->end && fl_is_punct(s->at, FL_PU_ELLIPSIS);
  s->at += m->variadic;
  if (s->at == t) return 0;
  if (!room(p, m->n_params, MAX_PARAMS, "parameters of a macro", t->line)) return -1;
  m->params[m->n_params++] = named ? *t : (fl_ktok){ .kind = FL_TOK_NAME, .text = rest,
                                                     .n = sizeof rest - 1 };
  return 1;
}

/* Reads "(a, b, ...)" of macro m at s->at; 0: it is something else; -1: there are too many. */
static int parameters(pre *p, macro *m, span *s) {
  int read;
  m->n_params = 0;
  if (++s->at < s->end && fl_is_punct(s->at, ')')) return s->at++, 1;
  while ((read = parameter(p, m, s)) > 0 && s->at < s->end) {
    const int more = fl_is_punct(s->at, ',') && !m->variadic;
    if (!more && !fl_is_punct(s->at, ')')) return 0;
    s->at++;
    if (!more) return 1;
  }
  return read < 0 ? read : 0;
}

static int is_named(pre *p, int32_t line, span s) {
  const int is = s.at < s.end && s.at->kind == FL_TOK_NAME;
  if (!is) stop(p, line, "a directive without the name of a macro");
  return is;
}

static void define(pre *p, int32_t line, span s) {
  if (!is_named(p, line, s)) return;
  macro *m = fl_karena_new(p->a, sizeof *m);
  if (!m) { p->stop = 1; return; }
  macro *old = find(p, s.at), **head = &p->macros[chain(s.at)];
  if (old) old->gone = 1;
  m->name = s.at->text;
  m->n_name = s.at++->n;
  m->n_params = -1;
  const int listed = s.at < s.end && fl_is_punct(s.at, '(') && s.at->glued;
  const int read = listed ? parameters(p, m, &s) : 1;
  if (!read) stop(p, line, "#define of a macro whose parameters are not names between ( and )");
  if (read <= 0) return;
  m->body = s.at;
  m->n_body = s.end - s.at;
  m->next = *head;
  *head = m;
}

/* The name in the words "name" or <name> of 'rest'; at NULL: they are something else. */
typedef struct named { const char *at; size_t n; int quoted; } named;

static named name_in(span rest) {
  const fl_ktok *t = rest.at, *last = t;
  while (last < rest.end && fl_is_punct(t, '<') && !fl_is_punct(last, '>')) last++;
  if (last == rest.end || (t == last && t->kind != FL_TOK_STRING)) return (named){ NULL, 0, 0 };
  const char *at = t == last ? t->text : t->text + 1;
  return (named){ at, t == last ? (size_t)t->n : (size_t)(last->text - at), t == last };
}

/* The file that the text calls so; NULL: there is none. */
static const fl_kfile *file_of(const pre *p, named name) {
  for (int32_t i = 0; p->files && i < p->files->n; i++) {
    const fl_kfile *f = &p->files->at[i];
    if (f->from == (p->now ? p->now->file : 0) && f->n_name == name.n &&
        !memcmp(f->name, name.at, name.n))
      return f;
  }
  return NULL;
}

/* Takes "defined X", "defined(X)", "__has_include(X)" or "__has_attribute(X)" at s->at. Returns its
** value; -1: it is something else. */
static int take_asked(const pre *p, span *s) {
  const int is_file = fl_ktok_is(s->at, has_include), is_own = fl_ktok_is(s->at, "defined");
  const fl_ktok *t = s->at + 1, *end = s->at + 2;
  const int paren = t < s->end && fl_is_punct(t, '(');
  t += paren, end += paren;
  while (is_file && end < s->end && !fl_is_punct(end, ')')) end++;
  const int closed = !paren || (end < s->end && fl_is_punct(end, ')'));
  if (!closed || end > s->end || (!is_own && !paren)) return -1;
  s->at = end + paren;
  const named name = is_file ? name_in((span){ t, end }) : (named){ NULL, 0, 0 };
  if (name.at) return file_of(p, name) || fl_kincludes_known(name.at, name.n);
  if (is_file || t->kind != FL_TOK_NAME) return -1;
  return is_own ? is_defined(p, t) : fl_kcondition_attribute(t);
}

/* Decides a condition: expands macros, replaces "defined X" and evaluates the rest. */
static int decide(pre *p, int32_t at, span s) {
  fl_ktoks line = { NULL, 0, 0 }, *const out = p->out;
  p->out = &line;
  p->asks = 1;
  expand(p, s, 0);
  p->asks = 0;
  p->out = out;
  int64_t n = 0;
  int truth = line.n ? 0 : -1;
  for (span t = { line.at, line.at + line.n }; truth >= 0 && t.at < t.end;) {
    fl_ktok one = *t.at;
    if (is_asking(t.at)) truth = take_asked(p, &t), one = number(truth, at);
    else t.at++;
    line.at[n++] = one;
  }
  truth = truth < 0 ? truth : fl_kcondition(line.at, line.at + n);
  if (truth < 0) emit_bad(p, at, "a condition of #if that is not understood");
  FL_DROP(p->a->mem, &line);
  return truth > 0;
}

static void open_if(pre *p, int32_t line, int truth) {
  const char *why = fl_kfull(p->a, p->n_ifs, MAX_IFS, "#if inside each other");
  if (why) { stop(p, line, why); return; }
  p->ifs[p->n_ifs].outer = (uint8_t)p->live;
  p->ifs[p->n_ifs].last = 0;
  p->ifs[p->n_ifs].line = line;
  p->ifs[p->n_ifs++].taken = (uint8_t)truth;
  p->live = p->live && truth;
}

static void open_ifdef(pre *p, int32_t line, span rest, int wanted) {
  const int known = p->live && is_named(p, line, rest) && is_defined(p, rest.at);
  open_if(p, line, known == wanted);
}

/* Handles #elif with its condition 'asked', #elifdef and #elifndef (wanted: 1, 0; else -1), and
** #else, for which 'asked' is NULL. */
static void other_if(pre *p, int32_t line, const span *asked, int wanted) {
  const int k = p->n_ifs - 1;
  if (k < 0 || p->ifs[k].last) {
    stop(p, line, k < 0 ? "#else or #elif without #if" : "#else or #elif after #else");
    return;
  }
  const int open = p->ifs[k].outer && !p->ifs[k].taken;
  p->ifs[k].last = !asked;
  p->live = open && (!asked || (wanted < 0 ? decide(p, line, *asked)
                                           : is_named(p, line, *asked) &&
                                             is_defined(p, asked->at) == wanted));
  p->ifs[k].taken |= (uint8_t)p->live;
}

/* Handles d if it is a directive of conditional text (1); 0: it is another one. */
static int conditional(pre *p, const fl_ktok *d, span rest) {
  if (fl_ktok_is(d, "if")) open_if(p, d->line, p->live && decide(p, d->line, rest));
  else if (fl_ktok_is(d, "ifdef")) open_ifdef(p, d->line, rest, 1);
  else if (fl_ktok_is(d, "ifndef")) open_ifdef(p, d->line, rest, 0);
  else if (fl_ktok_is(d, "elif")) other_if(p, d->line, &rest, -1);
  else if (fl_ktok_is(d, "elifdef")) other_if(p, d->line, &rest, 1);
  else if (fl_ktok_is(d, "elifndef")) other_if(p, d->line, &rest, 0);
  else if (fl_ktok_is(d, "else")) other_if(p, d->line, NULL, -1);
  else if (!fl_ktok_is(d, "endif")) return 0;
  else if (p->n_ifs) p->live = p->ifs[--p->n_ifs].outer;
  else stop(p, d->line, "#endif without #if");
  return 1;
}

/* Ends the text with what the #error says. */
static void error(pre *p, int32_t line, span rest) {
  fl_ktoks said = { NULL, 0, 0 }, *out = p->out;
  p->out = &said;
  put_string(p, rest, line);
  p->out = out;
  const char *text = said.n ? fl_karena_printf(p->a, "#error %.*s", (int)said.at[0].n,
                                               said.at[0].text) : NULL;
  stop(p, line, text);
  FL_DROP(p->a->mem, &said);
}

static void run(pre *p, const fl_ktok *t);

/* The file of an #include with the words 'rest', "name" or <name>; NULL: there is none, which is
** noted in p->files if it is the first such "name". */
static const fl_kfile *included(const pre *p, int32_t line, span rest) {
  const named name = name_in(rest);
  if (!p->files || !name.at) return NULL;
  const fl_kfile *f = file_of(p, name);
  const int lost = !f && name.quoted && fl_kincludes_plain(name.at, name.n) &&
                   !fl_kincludes_known(name.at, name.n);
  if (lost && !p->files->missing) {
    p->files->missing = fl_karena_str(p->a, name.at, name.n);
    p->files->line = line;
  }
  return f;
}

/* Reads file f (NULL: nothing) at the directive of that line. Its tokens stay until the end, since
** macros refer to them. */
static void include(pre *p, int32_t line, const fl_kfile *f) {
  for (const text *o = p->texts; f && o; o = o->next)
    if (o->once && o->file == f->file) return;
  text *one = f ? fl_karena_new(p->a, sizeof *one) : NULL, *const outer = p->now;
  if (!one) return;
  one->file = f->file;
  one->next = p->texts;
  p->texts = p->now = one;
  p->files->read = 1;
  const char *own = fl_karena_str(p->a, f->text, f->n);
  if (!own || !fl_klex(p->a, own, f->n, line, &one->toks)) return;
  for (int64_t i = 0; i < one->toks.n; i++) one->toks.at[i].line = line;
  const int ifs = p->n_ifs;
  if (++p->inside > MAX_INSIDE) stop(p, line, "files that include each other without an end");
  run(p, one->toks.at);
  if (p->n_ifs != ifs) stop(p, line, "#if without #endif in the included file");
  p->inside--;
  p->now = outer;
}

/* Defines what an #include of a header of Thrust or CUB does: the versions in CUDA 13.0. */
static void include_versions(pre *p, const fl_ktok *t, int64_t n) {
  static const fl_ktok first = { .kind = FL_TOK_NAME, .text = "THRUST_VERSION", .n = 14 };
  const int is = n > 3 && fl_is_punct(t, '<') && fl_is_punct(t + 2, '/') &&
                 (fl_ktok_is(t + 1, "thrust") || fl_ktok_is(t + 1, "cub"));
  text *one = is && !find(p, &first) ? fl_karena_new(p->a, sizeof *one) : NULL;
  if (!one || !fl_klex(p->a, fl_kversions, strlen(fl_kversions), 0, &one->toks)) return;
  one->next = p->texts;
  run(p, (p->texts = one)->toks.at);
}

/* Handles a directive. d: the token after '#'; rest: those after d in its line. */
static void directive(pre *p, const fl_ktok *d, span rest) {
  static const char *const ignored[] = { "pragma", "line", "warning", "ident" };
  if (conditional(p, d, rest) || !p->live) return;
  if (p->now && fl_ktok_is(d, "pragma") && rest.at < rest.end && fl_ktok_is(rest.at, "once"))
    p->now->once = 1;
  if (fl_ktok_is(d, "include")) include_versions(p, rest.at, rest.end - rest.at);
  if (fl_ktok_is(d, "include")) include(p, d->line, included(p, d->line, rest));
  else if (fl_ktok_is(d, "define")) define(p, d->line, rest);
  else if (fl_ktok_is(d, "undef")) {
    macro *m = is_named(p, d->line, rest) ? find(p, rest.at) : NULL;
    if (m) m->gone = 1;
  } else if (fl_ktok_is(d, "error")) error(p, d->line, rest);
  else if (d->kind != FL_TOK_INT &&
           fl_ktok_among(d, ignored, sizeof ignored / sizeof *ignored) < 0)
    stop(p, d->line, "a directive that there is not");
}

/* ---- all of it ------------------------------------------------------------------------------- */

static const fl_ktok *line_end(const fl_ktok *t) {
  for (t++; t->kind != FL_TOK_END && !t->first; t++) continue;
  return t;
}

/* Reads tokens to END. Text between directives is expanded whole: macro calls may span lines. */
static void run(pre *p, const fl_ktok *t) {
  while (t->kind != FL_TOK_END && !p->stop) {
    if (t->first && fl_is_punct(t, '#')) {
      const fl_ktok *end = line_end(t);
      if (t + 1 < end) directive(p, t + 1, (span){ t + 2, end });
      t = end;
      continue;
    }
    const fl_ktok *end = t;
    while (end->kind != FL_TOK_END && !(end->first && fl_is_punct(end, '#')))
      end = line_end(end);
    if (p->live) expand(p, (span){ t, end }, 0);
    t = end;
  }
}

int fl_kpreprocess(fl_karena *a, const char *source, size_t n, const char *given, fl_kfiles *files,
                   fl_ktoks *out) {
  fl_ktoks own = { NULL, 0, 0 }, macros = { NULL, 0, 0 };
  pre p = { .a = a, .out = out, .live = 1, .files = files };
  if (fl_klex(a, fl_kpredefined, strlen(fl_kpredefined), 0, &own) &&
      fl_klex(a, given, strlen(given), 1, &macros) && fl_klex(a, source, n, 1, &p.raw)) {
    run(&p, own.at);
    run(&p, macros.at);
    run(&p, p.raw.at);
    if (p.n_ifs) stop(&p, p.ifs[p.n_ifs - 1].line, "#if without #endif");
    fl_ktok end = { .kind = FL_TOK_END };
    const fl_ktok cut = { .kind = FL_TOK_BAD, .type = 1, .line = p.line, .text = p.why,
                          .n = p.why ? (int32_t)strlen(p.why) : 0 };
    fl_ktok *last = p.why ? FL_PUSH(a->mem, out) : NULL;
    if (last) *last = cut;
    fl_kliteral_join(a, out);
    if (p.raw.n) end.line = p.raw.at[p.raw.n - 1].line;
    fl_ktok *t = FL_PUSH(a->mem, out);
    if (t) *t = end;
    else a->failed = 1;
  }
  FL_DROP(a->mem, &own);
  FL_DROP(a->mem, &macros);
  FL_DROP(a->mem, &p.raw);
  for (text *f = p.texts; f; f = f->next) FL_DROP(a->mem, &f->toks);
  return !a->failed;
}
