/*
** Converts a text for NVRTC, already preprocessed, to C++ for g++: asm statements become calls of
** fake_ptx, shared arrays become static ones that are filled when a block begins, "+=" of their
** elements becomes a call in which other threads may run, dynamic shared memory becomes a pointer,
** and for each kernel a function is added that runs it with an array of the addresses of its
** arguments (fake_words.hh).
*/
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* name: the shared arrays, by the names in the text. */
enum { FAKE_ARRAYS = 256 };
typedef struct fake_out {
  char *at;
  size_t n, room;
  int shared;
  const char *name[FAKE_ARRAYS];
} fake_out;

static void fake_add_text(fake_out *o, const char *s, size_t n) {
  if (o->n + n + 1 > o->room) {
    o->room = (o->n + n + 1) * 2;
    o->at = realloc(o->at, o->room);
    if (!o->at) abort();
  }
  memcpy(o->at + o->n, s, n);
  o->n += n;
  o->at[o->n] = 0;
}
static void fake_say(fake_out *o, const char *s) { fake_add_text(o, s, strlen(s)); }

static int fake_word(int c) {
  return (unsigned)(c | 32) - 'a' < 26 || (unsigned)c - '0' < 10 || c == '_';
}

/* The end of the token at s. A token is a word, a string or character literal, or one character. */
static const char *fake_token(const char *s) {
  if (fake_word((unsigned char)*s)) {
    while (fake_word((unsigned char)*s)) s++;
    return s;
  }
  if (*s == '"' || *s == '\'') {
    const char quote = *s++;
    while (*s && *s != quote) s += *s == '\\' && s[1] ? 2 : 1;
    return *s ? s + 1 : s;
  }
  return *s ? s + 1 : s;
}
static const char *fake_blank(const char *s) {
  while (isspace((unsigned char)*s)) s++;
  return s;
}
static int fake_at_word(const char *s, const char *word) {
  if (*s != *word) return 0;                /* as nearly always */
  const size_t n = strlen(word);
  return strncmp(s, word, n) == 0 && !fake_word((unsigned char)s[n]);
}

/* Skips from s to the next of the characters 'ends' outside brackets, or to an unmatched closing
** bracket or the end of the text; returns where it is. */
static const char *fake_until(const char *s, const char *ends) {
  int depth = 0;
  while (*s && (depth || !strchr(ends, *s))) {
    depth += strchr("([{", *s) != NULL;
    depth -= strchr(")]}", *s) != NULL;
    if (depth < 0) return s;
    s = fake_token(s);
  }
  return s;
}

/* Writes the operands of one section of an asm statement: the expressions in parentheses, without
** the constraints before them. Returns the place after the section. */
static const char *fake_operands(fake_out *o, const char *s) {
  for (;;) {
    s = fake_until(s, "(:");
    if (*s != '(') return s;
    const char *end = fake_until(s + 1, ")");
    fake_say(o, ", ");
    fake_add_text(o, s, (size_t)(end + 1 - s));
    s = end + 1;
  }
}

/* Converts "asm volatile ( … )" at s, after the word asm; returns the place after it. */
static const char *fake_asm(fake_out *o, const char *s) {
  s = fake_blank(s);
  while (fake_word((unsigned char)*s)) s = fake_blank(fake_token(s));
  if (*s != '(') return s;
  const char *text = s + 1, *end = fake_until(text, ":");
  fake_say(o, "fake_ptx<fake_form(");
  fake_add_text(o, text, (size_t)(end - text));
  fake_say(o, ")>::run(");
  fake_add_text(o, text, (size_t)(end - text));
  for (int i = 0; i < 2 && *end == ':'; i++) end = fake_operands(o, end + 1);
  while (*end == ':') end = fake_until(end + 1, ":");
  fake_say(o, ")");
  return *end ? end + 1 : end;
}

/* The name that the declarator at s declares, and its length *n: the last word before '[' or '='
** outside brackets. *end: the ',' or ';' after the declarator. */
static const char *fake_declared(const char *s, size_t *n, const char **end) {
  const char *name = s;
  int depth = 0, named = 0;
  *n = 0;
  while (*s && (depth || !strchr(",;", *s))) {
    const char *next = fake_token(s);
    named |= !depth && strchr("[=", *s) != NULL;
    depth += strchr("([{<", *s) != NULL;
    depth -= strchr(")]}>", *s) != NULL;
    if (!depth && !named && fake_word((unsigned char)*s)) name = s, *n = (size_t)(next - s);
    s = next;
  }
  *end = s;
  return name;
}

/* Skips "alignas(n)" and other attributes at s; returns the place after them. */
static const char *fake_attributes(const char *s) {
  s = fake_blank(s);
  while (fake_at_word(s, "alignas") || fake_at_word(s, "__attribute__")) {
    s = fake_until(fake_until(s, "(") + 1, ")");
    s = fake_blank(*s ? s + 1 : s);
  }
  return s;
}

/* Converts a declaration of static shared memory; s is after the word __shared__. */
static const char *fake_put_shared(fake_out *o, const char *s, int depth) {
  const char *end = fake_until(s, ";"), *type = fake_attributes(s), *part = type;
  fake_add_text(o, s, (size_t)(type - s));
  fake_say(o, " static ");
  fake_add_text(o, type, (size_t)(end - type));
  fake_say(o, ";");
  if (*end != ';') return end;
  while (depth && part < end) {
    const char *next;
    char line[240];
    size_t n;
    const char *name = fake_declared(part, &n, &next);
    snprintf(line, sizeof line, " static unsigned fake_seen%d; fake_shared(&fake_seen%d, "
             "(void *)&%.*s, sizeof %.*s);", o->shared, o->shared, (int)n, name, (int)n, name);
    fake_say(o, line);
    o->name[o->shared++ % FAKE_ARRAYS] = name;
    part = next + 1;
  }
  return end + 1;
}

/* Converts "extern __shared__ T name[];"; s is after the word __shared__. */
static const char *fake_dynamic(fake_out *o, const char *s, int depth) {
  const char *type = fake_attributes(s), *end;
  size_t n;
  const char *name = fake_declared(type, &n, &end);
  const int of = (int)(name - type);
  char *line = NULL;
  const int put = depth ? asprintf(&line, "%.*s*const %.*s = (%.*s*)fake_m->dynamic;", of, type,
                                   (int)n, name, of, type)
                        : asprintf(&line, "\n#define %.*s ((%.*s*)fake_m->dynamic)\n", (int)n, name,
                                   of, type);
  if (put < 0) abort();
  fake_say(o, line);
  free(line);
  return *end ? end + 1 : end;
}

typedef struct fake_names { char name[256][80]; int n; } fake_names;

/* Adds the name of the kernel defined at s, after "__global__", to the list: the word before its
** parameters. A declaration without a body is not added. */
static void fake_note_kernel(fake_names *k, const char *s) {
  const char *open = fake_until(s, "(;{");
  while (*open == '(') {
    const char *e = open, *b;
    while (e > s && isspace((unsigned char)e[-1])) e--;
    for (b = e; b > s && fake_word((unsigned char)b[-1]);) b--;
    const char *close = fake_until(open + 1, ")");
    if (fake_at_word(b, "__attribute__") || fake_at_word(b, "alignas")) {
      open = fake_until(close + 1, "(;{");
      continue;
    }
    if (*close && *fake_blank(close + 1) == '{' && k->n < 256)
      snprintf(k->name[k->n++], 80, "%.*s", (int)(e - b), b);
    return;
  }
}

static int fake_of_template(const char *start, const char *s) {
  while (s > start && isspace((unsigned char)s[-1])) s--;
  return s > start && s[-1] == '>';
}

/* The place after "__global__", or the attribute it expands to, if that is at s; else NULL. */
static const char *fake_kernel_word(const char *s) {
  static const char *const parts[] = { "__attribute__", "(", "(", "global", ")", ")" };
  if (*s != '_') return NULL;
  if (fake_at_word(s, "__global__")) return fake_token(s);
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    if (strncmp(s, parts[i], strlen(parts[i])) != 0) return NULL;
    s = fake_token(s);
    if (i + 1 < sizeof parts / sizeof *parts) s = fake_blank(s);
  }
  return s;
}

/* Converts "name[i] += x" at s, where 'name' is a shared array, to "fake_plus(name[i], x)", and
** returns the place after it; NULL: it is something else. */
static const char *fake_sum(fake_out *o, const char *s) {
  const char *to = fake_token(s), *at = fake_blank(to);
  int known = 0;
  for (int i = 0; i < o->shared && i < FAKE_ARRAYS && *at == '['; i++) {
    const size_t n = (size_t)(to - s);
    known |= strncmp(s, o->name[i], n) == 0 && !fake_word((unsigned char)o->name[i][n]);
  }
  for (to = at; known && *to == '[';) {
    to = fake_until(to + 1, "]");
    if (*to) to++;
  }
  const char *plus = fake_blank(to), *x = plus + 2;
  if (!known || strncmp(plus, "+=", 2) != 0) return NULL;
  const char *end = fake_until(x, ";,");
  if (*end == ',') return NULL;
  fake_say(o, "fake_plus(");
  fake_add_text(o, s, (size_t)(to - s));
  fake_say(o, ", ");
  fake_add_text(o, x, (size_t)(end - x));
  fake_say(o, ")");
  return end;
}

static const char *fake_one(fake_out *o, fake_names *k, const char *start, const char *s,
                            int depth) {
  const char *next = fake_token(s);
  if (fake_at_word(s, "asm") || fake_at_word(s, "__asm__") || fake_at_word(s, "__asm"))
    return fake_asm(o, next);
  if (fake_at_word(s, "extern") && fake_at_word(fake_blank(next), "__shared__"))
    return fake_dynamic(o, fake_token(fake_blank(next)), depth);
  if (fake_at_word(s, "static") && fake_at_word(fake_blank(next), "__shared__")) return next;
  if (fake_at_word(s, "__shared__")) {
    const char *t = fake_blank(next);
    if (!fake_at_word(t, "extern")) return fake_put_shared(o, next, depth);
    return fake_dynamic(o, fake_token(t), depth);
  }
  const char *const kernel = fake_kernel_word(s);
  if (kernel) {
    if (!fake_of_template(start, s)) fake_note_kernel(k, kernel);
    return kernel;
  }
  const char *const after = fake_word((unsigned char)*s) ? fake_sum(o, s) : NULL;
  if (after) return after;
  fake_add_text(o, s, (size_t)(next - s));
  return next;
}

/* Converts a preprocessed text of NVRTC to C++; the caller frees the result. */
static char *fake_rewrite(const char *text) {
  fake_names kernels;
  fake_out o = { .at = NULL };
  int depth = 0, outer = 0;        /* open braces; those of namespaces and extern "C" */
  kernels.n = 0;
  for (const char *s = text; *s;) {
    const int place = fake_at_word(s, "namespace") ||
                      (fake_at_word(s, "extern") && *fake_blank(s + 6) == '"');
    const char *body = place ? fake_until(s, "{;(=") : s;
    if (place && *body == '{') outer++;
    depth += (*s == '{') - (*s == '}');
    if (*s == '}' && depth < outer) outer = depth;
    s = fake_one(&o, &kernels, text, s, depth > outer);
  }
  fake_say(&o, "\n");
  for (int i = 0; i < kernels.n; i++) {
    char line[600];
    const char *name = kernels.name[i];
    snprintf(line, sizeof line, "extern \"C\" { __attribute__((visibility(\"default\"))) "
             "void fake_run_%s(void **p) { fake_start(%s, p); } "
             "__attribute__((visibility(\"default\"))) int fake_args_%s(unsigned *size) "
             "{ return fake_sizes(%s, size); } }\n", name, name, name, name);
    fake_say(&o, line);
  }
  return o.at;
}
