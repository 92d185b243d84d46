/*
** The text of a program as lines of terms. Nothing is trusted: a word that is no term, an unknown
** op, or too many of either is an error with its line. build.c interprets the terms of an op.
*/
#include "graph/graph.h"
#include <stdlib.h>
#include <string.h>

flame_status fl_graph_fail(flame_program *p, int line, const char *fmt, ...) {
  char what[400];
  va_list args;
  va_start(args, fmt);
  fl_print(what, sizeof what, fmt, args);
  va_end(args);
  p->bad = line;
  return FL_FAIL(p->c, FLAME_IO, "program", "line %d: %s", line, what);
}

static int is_digit(char ch) { return ch >= '0' && ch <= '9'; }

/* Reads digits, perhaps with a sign; 0: there are none, or the number is too large. */
static int read_integer(const char **at, int64_t *v) {
  const char *s = *at;
  const int minus = *s == '-';
  uint64_t u = 0;
  if (*s == '-' || *s == '+') s++;
  if (!is_digit(*s)) return 0;
  for (; is_digit(*s); s++)
    if (u > INT64_MAX / 10) return 0;
    else u = 10 * u + (uint64_t)(*s - '0');
  if (u > (uint64_t)INT64_MAX + (uint64_t)minus) return 0;
  *v = (int64_t)(minus ? -u : u);
  *at = s;
  return 1;
}

/* Reads "12" or "12+3n", which are a + b n; "12/256", "12+3n/256" are divided by d. */
static int read_linear(const char *s, fl_term *t) {
  t->b = 0;
  if (!read_integer(&s, &t->a)) return 0;
  if ((*s == '+' || *s == '-') && !(read_integer(&s, &t->b) && *s++ == 'n')) return 0;
  if (*s == '/' && (t->kind != FL_TERM_INT || !(s++, read_integer(&s, &t->d)) || t->d < 1))
    return 0;
  return *s == 0;
}

static int read_bits(const char *s, fl_term *t) {
  uint64_t u = 0;
  int k = 0;
  for (; s[k] && k < 17; k++) {
    const char *digits = "0123456789abcdef", *d = strchr(digits, s[k]);
    if (!d) return 0;
    u = u << 4 | (uint64_t)(d - digits);
  }
  t->a = (int64_t)u;
  return k == 16;
}

static int read_term(char *s, fl_term *t) {
  *t = (fl_term){ .word = s };
  if (is_digit(*s) || *s == '-') {
    t->kind = FL_TERM_INT;
    return read_linear(s, t);
  }
  if (*s == '=') {
    t->kind = FL_TERM_NUMBER;
    return read_linear(s + 1, t);
  }
  if (*s == '#' && s[1] == 'x') {
    t->kind = FL_TERM_BITS;
    return read_bits(s + 2, t);
  }
  if (*s == '#') {
    t->kind = FL_TERM_REAL;
    return read_linear(s + 1, t);
  }
  if (strchr("%xsck", *s) && is_digit(s[1])) {
    const char *at = s + 1;
    t->kind = FL_TERM_VALUE;
    t->space = *s;
    return read_integer(&at, &t->a) && *at == 0;
  }
  const int dtype = fl_dtype_of_name(s);
  t->kind = dtype >= 0 ? FL_TERM_DTYPE : FL_TERM_WORD;
  t->a = dtype;
  return strlen(s) < FL_GRAPH_NAME;
}

static int op_of(const char *s) {
  static const char *const more[] = { "input", "output", "write", "draws" };
  for (int i = 0; i < 4; i++) if (!strcmp(s, more[i])) return FL_LINE_INPUT + i;
  return fl_op_of_name(s);
}

/* Splits the words of s, which ends in a NUL, into the terms of one line. */
static flame_status read_line(flame_program *p, char *s, int number) {
  char *next = s;
  const int64_t first = p->term.n;
  const char *op = strsep(&next, " ");
  fl_line *l = FL_PUSH(&p->c->mem, &p->line);
  if (!l) return FL_FAIL(p->c, FLAME_NO_MEMORY, "program", "no host memory");
  const int k = op_of(op);
  if (*op == '{' || *op == '}')
    return fl_graph_fail(p, number, "nested blocks need a later version of flame");
  if (k < 0) return fl_graph_fail(p, number, "no op '%.40s' in this version of flame", op);
  for (char *word; (word = strsep(&next, " "));) {
    fl_term *t = FL_PUSH(&p->c->mem, &p->term);
    if (!t) return FL_FAIL(p->c, FLAME_NO_MEMORY, "program", "no host memory");
    if (!*word || !read_term(word, t))
      return fl_graph_fail(p, number, "'%.40s' is no term", word);
  }
  *l = (fl_line){ .op = (uint16_t)k, .n = (int32_t)(p->term.n - first), .number = number };
  if (k == FL_OP_call) {
    const fl_term *t = p->term.at + first;
    const int call = l->n > 0 && t->word ? fl_call_of_name(t->word) : -1;
    if (call < 0) return fl_graph_fail(p, number, "no such call in this version of flame");
    l->call = (uint8_t)call;
  }
  return FLAME_OK;
}

/* Reads "graph N": N is the example's value of the size that varies, 0: none varies. */
static flame_status begin_graph(flame_program *p, const char *s, int number) {
  fl_graph *g = FL_PUSH(&p->c->mem, &p->graph);
  if (!g) return FL_FAIL(p->c, FLAME_NO_MEMORY, "program", "no host memory");
  *g = (fl_graph){ .first = (int32_t)p->line.n };
  if (read_integer(&s, &g->example) && *s == 0 && g->example >= 0) return FLAME_OK;
  return fl_graph_fail(p, number, "a graph needs the size that varies, or 0");
}

/* Sets the addresses of each line's terms, after all are read; counts the values of a graph. */
static void settle(flame_program *p) {
  const fl_term *t = p->term.at;
  for (int64_t i = 0; i < p->line.n; i++) {
    p->line.at[i].term = t;
    t += p->line.at[i].n;
  }
  for (int64_t i = 0; i < p->graph.n; i++) {
    fl_graph *g = &p->graph.at[i];
    g->n = (int32_t)(i + 1 < p->graph.n ? p->graph.at[i + 1].first : p->line.n) - g->first;
    for (int32_t k = 0; k < g->n; k++) g->values += p->line.at[g->first + k].op < FL_OP_COUNT;
  }
}

flame_status fl_graph_parse(flame_program *p) {
  char *next = p->text;
  flame_status e = FLAME_OK;
  int number = 0;
  if (memchr(p->text, 0, p->bytes)) return fl_graph_fail(p, 1, "there is a NUL in the text");
  for (char *s; e == FLAME_OK && (s = strsep(&next, "\n"));) {
    number++;
    if (!*s) continue;
    if (p->line.n == FL_GRAPH_LINES)
      return fl_graph_fail(p, number, "more than %d lines", FL_GRAPH_LINES);
    if (!strncmp(s, "graph ", 6)) e = begin_graph(p, s + 6, number);
    else if (!p->graph.n) e = fl_graph_fail(p, number, "no graph begins");
    else e = read_line(p, s, number);
  }
  if (e == FLAME_OK && !p->graph.n) e = fl_graph_fail(p, number, "there is no graph");
  if (e == FLAME_OK) settle(p);
  return e;
}
