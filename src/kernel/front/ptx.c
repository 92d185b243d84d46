/*
** Inline assembler. The instructions of an asm statement become calls of library functions with
** their names: "ld.global.cs.v2.u32 {%0, %1}, [%2];" becomes "fl_ptx_ld_v2_u32(a, b, p);".
** Registers that the text declares become variables, "@p" becomes "if (p)". A statement with any
** other instruction is left as it is and refused later.
*/
#include "kernel/front/library.h"
#include "base/text.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { MOST_OPERANDS = 30 };

typedef struct operand { int64_t from, to; } operand;     /* tokens inside its ( ) */
typedef struct statement {
  fl_karena *a;
  const fl_ktok *toks;
  operand operands[MOST_OPERANDS];
  int n, known;                  /* operands; known: all that was read so far is understood */
  fl_text text;                  /* the statement as C; operand k is named fl_op_k */
} statement;

/* ---- instructions ---- */

extern const char fl_kptx_text[];            /* kernel/front/ptx.cu, embedded */

static int is_letter(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* Does ptx.cu define the function fl_ptx_NAME? It does if NAME is an argument of a macro like PTX1,
** or the name is written out or, for "ld_u32", pasted by a macro like MEMORY(T, TYPE) that is used
** with the type u32. */
static int is_defined(const char *name) {
  const char *type = strrchr(name, '_');
  const size_t n = strlen(name);
  for (const char *s = fl_kptx_text; (s = strstr(s, name)) != NULL; s += n)
    if (!is_letter(s[n]) && (!is_letter(s[-1]) || !strncmp(s - 7, "fl_ptx_", 7))) return 1;
  if (!type || type == name) return 0;
  char stem[40], rows[24];
  const int k = snprintf(stem, sizeof stem, "%.*s_##", (int)(type - name), name);
  snprintf(rows, sizeof rows, ", %s)\n", type + 1);
  return k < (int)sizeof stem && strstr(fl_kptx_text, stem) && strstr(fl_kptx_text, rows);
}

static const char *type_of(const char *s, size_t n) {
  static const char *const types[][2] = {
    { ".pred", "bool" }, { ".b16", "unsigned short" }, { ".u16", "unsigned short" },
    { ".s16", "short" }, { ".b32", "unsigned" }, { ".u32", "unsigned" }, { ".s32", "int" },
    { ".b64", "unsigned long long" }, { ".u64", "unsigned long long" }, { ".s64", "long long" },
    { ".f32", "float" }, { ".f64", "double" }, { ".f16", "unsigned short" } };
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (strlen(types[i][0]) == n && !memcmp(types[i][0], s, n)) return types[i][1];
  return NULL;
}

static const char *skip_space(const char *s, const char *end) {
  while (s < end && (isspace((unsigned char)*s) || *s == '{' || *s == '}')) s++;
  return s;
}

static size_t word(const char *s, const char *end) {
  size_t n = 0;
  while (s + n < end && (isalnum((unsigned char)s[n]) || strchr("_.:$", s[n]))) n++;
  return n;
}

static int is_among(const char *s, size_t n, const char *const *words, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (strlen(words[i]) == n && !memcmp(words[i], s, n)) return 1;
  return 0;
}

/* Is s a part of an instruction's name that its function's name lacks? Such parts say how and in
** which memory it accesses, how exact a function is, or that the low half of a product is meant. */
static int is_idle(const char *s, size_t n) {
  static const char *const idle[] = {
    "ca", "cg", "cs", "cv", "lu", "nc", "wb", "wt", "volatile", "relaxed", "gpu", "global",
    "shared", "shared::cta", "L1::no_allocate", "L1::evict_last", "L2::64B", "L2::128B", "L2::256B",
    "approx", "ftz", "lo" };
  return is_among(s, n, idle, sizeof idle / sizeof *idle);
}

/* Does this part, of k characters, of the instruction's name s belong to the name of its function?
** Those that is_idle names do not, except .ca and .cg of cp.async, which copy other sizes. Of
** ldmatrix only the fixed parts do not; its .shared does, so that one of other memory is
** unknown. */
static int in_name(const char *s, size_t n, const char *part, size_t k) {
  if (n > 9 && !memcmp(s, "cp.async.", 9) && k == 2) return 1;
  if (n < 9 || memcmp(s, "ldmatrix.", 9)) return !is_idle(part, k);
  static const char *const fixed[] = { "sync", "aligned", "m8n8", "b16" };
  return !is_among(part, k, fixed, sizeof fixed / sizeof *fixed);
}

static void put_name(statement *x, const char *s, size_t n) {
  const char *dot = NULL;
  fl_text name;
  fl_text_init(&name, x->a->mem);
  fl_text_puts(&name, "fl_ptx");
  for (size_t i = 0; i <= n; i++) {
    if (i < n && s[i] != '.') continue;
    const char *part = dot ? dot + 1 : s;
    const size_t k = (size_t)(s + i - part);
    if (in_name(s, n, part, k)) fl_text_printf(&name, "_%.*s", (int)k, part);
    dot = s + i;
    if (n > 4 && !memcmp(s, "mov.", 4)) break;             /* one function for all types */
  }
  const char *text = fl_text_str(&name);
  x->known &= text && (is_defined(text + 7) || !strcmp(text, "fl_ptx_cp_async_ca") ||
                       !strcmp(text, "fl_ptx_cp_async_cg"));
  if (text) fl_text_puts(&x->text, text);
  fl_text_free(&name);
}

/* Writes the offset of "+ 16"; s is after the sign. Returns what follows it. */
static const char *put_offset(statement *x, const char *s, const char *end) {
  s = skip_space(s, end);
  const size_t n = word(s, end);
  x->known &= n > 0 && isdigit((unsigned char)*s);
  fl_text_printf(&x->text, " + %.*s", (int)n, s);
  return skip_space(s + n, end);
}

/* Writes the operand at s: an operand of the asm statement ("%0"), a register, a special register
** ("%%laneid"), a number, or an address, perhaps with an offset. Returns what follows it. */
static const char *put_operand(statement *x, const char *s, const char *end) {
  s = skip_space(s, end);
  const int address = s < end && *s == '[';
  if (address) s = skip_space(s + 1, end);
  const char *plus = address ? memchr(s, '+', (size_t)(end - s)) : NULL;
  if (plus) fl_text_puts(&x->text, "(const char *)");
  const int minus = s < end && *s == '-';
  if (minus) s++;
  if (s < end && *s == '%' && s + 1 < end && isdigit((unsigned char)s[1])) {
    int k = 0;
    for (s++; s < end && isdigit((unsigned char)*s) && k < 100; s++) k = 10 * k + (*s - '0');
    x->known &= k < x->n && !minus;
    fl_text_printf(&x->text, "fl_op_%d", k);
  } else {
    const int special = s < end && *s == '%';
    while (s < end && *s == '%') s++;
    const size_t n = word(s, end);
    x->known &= n > 0;
    if (special) {
      const char *name = fl_karena_str(x->a, s, n);
      x->known &= name && is_defined(name);
      fl_text_printf(&x->text, "fl_ptx_%.*s()", (int)n, s);
    } else if (n > 2 && s[0] == '0' && (s[1] == 'f' || s[1] == 'F')) {
      fl_text_printf(&x->text, "__uint_as_float(0x%.*su)", (int)n - 2, s + 2);
    } else {
      fl_text_printf(&x->text, "%s%s%.*s", minus ? "-" : "",
                     n && isdigit((unsigned char)*s) ? "" : "fl_r_", (int)n, s);
    }
    s += n;
  }
  s = skip_space(s, end);
  if (plus) {
    x->known &= s == plus;
    s = put_offset(x, plus + 1, end);
  }
  if (address) x->known &= s < end && *s == ']';
  return skip_space(s + address, end);
}

static void put_registers(statement *x, const char *s, const char *end) {
  s = skip_space(s + 4, end);
  const size_t n = word(s, end);
  const char *type = type_of(s, n);
  x->known &= type != NULL;
  if (type) fl_text_printf(&x->text, "%s ", type);
  for (s = skip_space(s + n, end); s < end; s++) {
    const size_t k = word(s, end);
    fl_text_printf(&x->text, "fl_r_%.*s", (int)k, s);
    s = skip_space(s + k, end);
    x->known &= k > 0 && (s == end || *s == ',');
    if (s < end) fl_text_puts(&x->text, ", ");
  }
  fl_text_puts(&x->text, "; ");
}

static void put_instruction(statement *x, const char *s, const char *end) {
  s = skip_space(s, end);
  if (s == end) return;
  if (end - s > 5 && !memcmp(s, ".reg", 4)) { put_registers(x, s, end); return; }
  if (*s == '@') {
    const int other = s + 1 < end && s[1] == '!';
    s += 1 + other;
    s += s < end && *s == '%';
    const size_t n = word(s, end);
    fl_text_printf(&x->text, "if (%sfl_r_%.*s) ", other ? "!" : "", (int)n, s);
    s = skip_space(s + n, end);
  }
  const size_t n = word(s, end);
  x->known &= n > 0;
  put_name(x, s, n);
  fl_text_puts(&x->text, "(");
  s = skip_space(s + n, end);
  while (s < end && x->known) {
    s = put_operand(x, s, end);
    if (s == end) break;
    x->known &= *s == ',';
    fl_text_puts(&x->text, ", ");
    s++;
  }
  fl_text_puts(&x->text, "); ");
}

/* ---- statements ---- */

/* Reads "asm volatile ( "…" : "=r"(x) … );" at token i: its text and operands. Returns the index of
** the token after its ';'; 0: it is not such a statement, or has too many operands. */
static int64_t read_statement(statement *x, int64_t i, int64_t end, const fl_ktok **text) {
  const fl_ktok *t = x->toks;
  if (!fl_ktok_is(&t[i], "asm") && !fl_ktok_is(&t[i], "__asm__") && !fl_ktok_is(&t[i], "__asm"))
    return 0;
  i++;
  while (i < end && (fl_ktok_is(&t[i], "volatile") || fl_ktok_is(&t[i], "__volatile__"))) i++;
  if (i + 1 >= end || !fl_is_punct(&t[i], '(') || t[i + 1].kind != FL_TOK_STRING) return 0;
  *text = &t[i + 1];
  int colons = 0;
  for (i += 2; i + 1 < end && !fl_is_punct(&t[i], ')');) {
    const int two = fl_is_punct(&t[i], FL_PU_SCOPE);
    colons += fl_is_punct(&t[i], ':') + 2 * two;
    if (two || fl_is_punct(&t[i], ':') || fl_is_punct(&t[i], ',')) { i++; continue; }
    if (t[i].kind != FL_TOK_STRING) return 0;
    i++;
    if (colons > 2) continue;                              /* what it clobbers */
    if (!fl_is_punct(&t[i], '(') || x->n == MOST_OPERANDS) return 0;
    int depth = 0;
    x->operands[x->n].from = i + 1;
    for (; i < end; i++) {
      depth += fl_is_punct(&t[i], '(') - fl_is_punct(&t[i], ')');
      if (!depth) break;
    }
    x->operands[x->n++].to = i++;
  }
  return i + 1 < end && fl_is_punct(&t[i + 1], ';') ? i + 2 : 0;
}

static int push(fl_ktoks *out, fl_mem *m, const fl_ktok *from, int64_t n, int32_t line) {
  for (int64_t k = 0; k < n; k++) {
    fl_ktok *t = FL_PUSH(m, out);
    if (!t) return 0;
    *t = from[k];
    if (line) t->line = line;
  }
  return 1;
}

/* Appends to 'out' the tokens of x->text, with the operands in place of fl_op_k. 0: no memory. */
static int put_statement(statement *x, fl_ktoks *out, int32_t line) {
  static const fl_ktok open = { .kind = FL_TOK_PUNCT, .punct = '(', .n = 1, .text = "(" },
                       close = { .kind = FL_TOK_PUNCT, .punct = ')', .n = 1, .text = ")" };
  fl_ktoks own = { NULL, 0, 0 };
  fl_mem *m = x->a->mem;
  const char *text = fl_text_str(&x->text);
  const char *kept = text ? fl_karena_str(x->a, text, x->text.n) : NULL;
  int ok = kept && fl_klex(x->a, kept, x->text.n, line, &own);
  for (int64_t i = 0; ok && i + 1 < own.n; i++) {
    const fl_ktok *t = &own.at[i];
    int k = -1;
    if (t->kind == FL_TOK_NAME && t->n > 6 && t->n < 9 && !memcmp(t->text, "fl_op_", 6))
      k = t->n == 7 ? t->text[6] - '0' : 10 * (t->text[6] - '0') + t->text[7] - '0';
    if (k < 0 || k >= x->n) { ok = push(out, m, t, 1, line); continue; }
    const operand *o = &x->operands[k];
    ok = push(out, m, &open, 1, line) && push(out, m, x->toks + o->from, o->to - o->from, 0) &&
         push(out, m, &close, 1, line);
  }
  FL_DROP(m, &own);
  return ok;
}

static void translate(statement *x, const fl_ktok *text) {
  const char *s = text->text, *end = s + text->n;
  x->known = 1;
  fl_text_puts(&x->text, "{ ");
  while (s < end && x->known) {
    const char *stop = memchr(s, ';', (size_t)(end - s));
    put_instruction(x, s, stop ? stop : end);
    s = stop ? stop + 1 : end;
  }
  fl_text_puts(&x->text, "}");
}

int fl_kptx_replace(fl_karena *a, fl_ktoks *toks) {
  fl_ktoks out = { NULL, 0, 0 };
  int found = 0, ok = 1;
  int64_t from = 0;
  for (int64_t i = 0; i < toks->n && ok; i++) {
    if (toks->at[i].kind != FL_TOK_NAME) continue;
    statement x = { .a = a, .toks = toks->at };
    const fl_ktok *text = NULL;
    const int64_t after = read_statement(&x, i, toks->n, &text);
    if (!after) continue;
    fl_text_init(&x.text, a->mem);
    translate(&x, text);
    if (x.known) {
      ok = push(&out, a->mem, toks->at + from, i - from, 0) &&
           put_statement(&x, &out, toks->at[i].line);
      from = after;
      found = 1;
    }
    fl_text_free(&x.text);
    i = after - 1;
  }
  if (found && ok && push(&out, a->mem, toks->at + from, toks->n - from, 0)) {
    FL_DROP(a->mem, toks);
    *toks = out;
    return 1;
  }
  FL_DROP(a->mem, &out);
  if (!ok) a->failed = 1;
  return 0;
}
