/*
** Finds local arrays and expressions that are too large for any compiler, in the tokens of the
** whole text. The parser reads a function only where it is called, but a compiler reads those that
** are never called too. Only names of file scope are known here, so a size that depends on other
** names, such as parameters of templates, is not checked.
*/
#include "kernel/front/front.h"

/* most tokens of an expression, since the time of a compiler grows with the square of the number of
** terms */
enum { MOST_TOKENS = 20000 };

/* most "[…]" in a row, since the time of a compiler grows with a high power of the number of
** dimensions */
enum { MOST_DIMS = 64 };

static int ends_statement(const fl_ktok *t) {
  return fl_is_punct(t, ';') || fl_is_punct(t, '{') || fl_is_punct(t, '}');
}

static void check_expressions(fl_front *p) {
  int64_t run = 0, round = 0, dims = 0;
  for (int64_t i = 0; i < p->toks.n && !p->failed; i++) {
    const fl_ktok *t = &p->toks.at[i];
    if (i && fl_is_punct(t - 1, ']')) dims = fl_is_punct(t, '[') ? dims + 1 : 0;
    if (dims >= MOST_DIMS)
      fl_refuse_size(p, t->line, "at most %d dimensions of an array, %d at once", FL_K_MAX_RANK,
                     MOST_DIMS);
    if (ends_statement(t)) round = 0;
    round += fl_is_punct(t, '(') - (round && fl_is_punct(t, ')'));
    run = ends_statement(t) || (!round && fl_is_punct(t, ',')) ? 0 : run + 1;
    if (run > MOST_TOKENS)
      fl_refuse_size(p, t->line, "an expression is too long: at most %d tokens", MOST_TOKENS);
  }
}

/* Are the tokens from index 'from' up to the next ']' a size of integers, names and operators, with
** no call but sizeof? If they are, *end is the index of that ']'. */
static int is_plain(const fl_front *p, int64_t from, int64_t *end) {
  int64_t i = from;
  for (; i + 1 < p->toks.n && !fl_is_punct(&p->toks.at[i], ']'); i++) {
    const fl_ktok *t = &p->toks.at[i];
    const int operand = t->kind == FL_TOK_INT || t->kind == FL_TOK_NAME;
    const int c = fl_ktok_punct(t);
    if (!operand && (!c || ends_statement(t) || c == '[' || c == '=')) return 0;
    if (t->kind == FL_TOK_NAME && fl_is_punct(t + 1, '(') && !fl_ktok_is(t, "sizeof")) return 0;
  }
  *end = i;
  return i > from && i + 1 < p->toks.n;
}

/* The value of the expression in tokens 'from' to end - 1; 0: it is not known, or not positive. */
static int64_t number_at(fl_front *p, int64_t from, int64_t end) {
  const fl_kbookmark back = fl_front_open(p, from, NULL);
  int64_t n = fl_decl_constant(p, "a size");
  if (p->failed || p->at != end || n < 0) n = 0;
  p->failed = p->sized = 0;
  if (p->a->failed > FL_KARENA_MEMORY) p->a->failed = 0;
  fl_front_close(p, back);
  return n;
}

/* Checks the dimensions "[2][3]" from token i on, up to the first that is not known, of an array
** whose elements have 'bytes' bytes. */
static void check_array(fl_front *p, int64_t i, int64_t bytes) {
  int rank = 0;
  for (int64_t end; fl_is_punct(&p->toks.at[i], '[') && is_plain(p, i + 1, &end);
       i = end + 1, rank++) {
    const int64_t n = number_at(p, i + 1, end);
    if (!n) return;
    bytes = bytes > FL_K_MAX_ARRAY || n > FL_K_MAX_ARRAY ? (int64_t)FL_K_MAX_ARRAY + 1 : bytes * n;
    if (bytes <= FL_K_MAX_ARRAY) continue;
    const char *why = fl_kfull(p->a, rank, FL_K_MAX_RANK, "dimensions of an array");
    if (why) fl_refuse_size(p, p->toks.at[i].line, "%s", why);
    else fl_refuse_size(p, p->toks.at[i].line, "an array of more than %d bytes", FL_K_MAX_ARRAY);
    return;
  }
}

/* If token i begins a declaration with two names or more in a row, as "float a[4]", the token of
** the last of these (a), the first that is declared; else 0, also for "float *a". *bytes: the size
** of the smallest type among the names that fl_ctype_named knows (float, not int); 0: there is
** none. */
static int64_t declared_name(fl_front *p, int64_t i, int64_t *bytes) {
  int names = 0;
  *bytes = 0;
  for (;; i++) {
    const fl_ktok *t = &p->toks.at[i];
    if (fl_ktok_is(t, "return") || fl_ktok_is(t, "else") || fl_ktok_is(t, "case") ||
        fl_ktok_is(t, "do"))
      return 0;
    const fl_ctype *type = t->kind == FL_TOK_NAME ? fl_ctype_named(p->a, t->text, t->n) : NULL;
    if (type && (!*bytes || fl_ctype_size(type) < *bytes)) *bytes = fl_ctype_size(type);
    if (t->kind == FL_TOK_NAME) names++;
    else if (fl_is_punct(t, FL_PU_SCOPE)) names--;
    else return names > 1 && p->toks.at[i - 1].kind == FL_TOK_NAME ? i - 1 : 0;
  }
}

/* Checks the arrays of a declaration whose first declared name is token i. bytes: the size of an
** element, or 1 if it is not known. */
static void check_declaration(fl_front *p, int64_t i, int64_t bytes) {
  int depth = 0;
  for (int first = 1; i + 1 < p->toks.n && !p->failed; i++) {
    const fl_ktok *t = &p->toks.at[i];
    if (first && t->kind == FL_TOK_NAME && fl_is_punct(t + 1, '[')) check_array(p, i + 1, bytes);
    depth += fl_is_punct(t, '(') + fl_is_punct(t, '[') - fl_is_punct(t, ')') - fl_is_punct(t, ']');
    if (ends_statement(t) || depth < 0) return;
    first = !depth && fl_is_punct(t, ',');
  }
}

/* Does the '{' at i open the body of a function? It does after ')', or after names that follow a
** ')', such as const. */
static int opens_function(const fl_front *p, int64_t i) {
  while (i > 1 && p->toks.at[i - 1].kind == FL_TOK_NAME) i--;
  return i > 0 && fl_is_punct(&p->toks.at[i - 1], ')');
}

static void check_arrays(fl_front *p) {
  int64_t bytes, depth = 0;
  for (int64_t i = 0; i + 1 < p->toks.n && !p->failed; i++) {
    const fl_ktok *t = &p->toks.at[i];
    if (fl_is_punct(t, '{') && (depth || opens_function(p, i))) depth++;
    if (fl_is_punct(t, '}') && depth) depth--;
    const int64_t name = depth && ends_statement(t) ? declared_name(p, i + 1, &bytes) : 0;
    if (name) check_declaration(p, name, bytes ? bytes : 1);
  }
}

void fl_front_note_size(fl_front *p) {
  if (!p->failed || !p->sized || p->src->too_large) return;
  p->src->too_large = p->why;
  p->src->too_large_line = p->line;
}

void fl_front_bounds(fl_front *p) {
  p->failed = p->sized = 0;
  check_expressions(p);
  if (!p->failed) check_arrays(p);
  fl_front_note_size(p);
  p->failed = 0;
}
