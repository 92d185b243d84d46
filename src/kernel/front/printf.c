/*
** printf. An argument that is a known string, a literal or a choice of two ("c ? "a" : "b""),
** becomes part of the format, so that the tree's printf has only numbers; for a choice, an IF has
** one printf in each branch.
*/
#include "kernel/front/forms.h"
#include "base/text.h"
#include <assert.h>
#include <string.h>

enum { MOST = 32, MOST_CHOICES = 4 };
typedef struct piece {           /* of a "%s" */
  fl_kexpr *when;                /* NULL: 'yes' always */
  const char *yes, *no;
} piece;
typedef struct printed {
  const char *format;
  fl_kexpr *x[MOST];             /* NULL: a string, in s */
  piece s[MOST];
  int n;
} printed;

/* Takes the string at the tokens: literals, or the name of one. NULL: there is none. */
static const char *text(fl_front *p) {
  const fl_ktok *t = fl_front_tok(p);
  const fl_symbol *s = fl_front_named(p, t);
  if (t->kind != FL_TOK_STRING && !(s && s->kind == FL_SYM_TEXT)) return NULL;
  fl_front_next(p);
  return s ? s->why : fl_karena_str(p->a, t->text, (size_t)t->n);
}

int fl_decl_text(fl_front *p, const fl_ctype *t, const char *name) {
  const int chars = t->kind == FL_C_POINTER && t->const_of && t->of->kind == FL_C_SCALAR &&
                    t->of->scalar == FL_KT_I8;
  if (!chars || !fl_front_is(p, '=') || fl_front_ahead(p, 1)->kind != FL_TOK_STRING) return 0;
  p->at++;
  const char *value = text(p);
  fl_symbol *s = value ? fl_front_add(p, name, FL_SYM_TEXT) : NULL;
  if (s) s->why = value;
  return 1;
}

/* Is the argument at the tokens "c ? "a" : …"? *round: the number of parentheses around it. */
static int is_choice(fl_front *p, int *round) {
  int k = 0, depth = 0, asked = 0;
  for (*round = 0; fl_front_is_at(p, k, '('); k++) (*round)++;
  const int inside = *round;
  for (k = 0; fl_front_ahead(p, k)->kind != FL_TOK_END; k++) {
    depth += fl_front_is_at(p, k, '(') - fl_front_is_at(p, k, ')');
    if (depth < 0 || (!depth && fl_front_is_at(p, k, ','))) break;
    if (!asked && fl_front_is_at(p, k, '?') && fl_front_ahead(p, k + 1)->kind == FL_TOK_STRING) {
      asked = 1;
      *round = depth < inside ? depth : inside;
    }
  }
  return asked;
}

static void argument(fl_front *p, printed *out) {
  piece *s = &out->s[out->n];
  int round;
  if ((s->yes = text(p)) == NULL && is_choice(p, &round)) {
    for (int i = 0; i < round; i++) fl_front_need(p, '(');
    s->when = fl_val_stable(p, fl_parse_before_choice(p));
    fl_front_need(p, '?');
    s->yes = text(p);
    fl_front_need(p, ':');
    s->no = text(p);
    if (!s->yes || !s->no) fl_refuse(p, fl_front_tok(p)->line, "printf of what is no known text");
    for (int i = 0; i < round; i++) fl_front_need(p, ')');
  } else if (!s->yes) {
    out->x[out->n] = fl_parse_scalar(p);
  }
  out->n++;
}

/* The letter of the conversion "%…" at s, or 0 for "%%" or an end without a letter; *length: its
** length. *stars: how many '*' it has, each of which takes an argument. */
static int directive(const char *s, int *length, int *stars) {
  int k = 1;
  for (*stars = 0; s[k] && strchr("-+ #0123456789.hlzjtL*", s[k]); k++) *stars += s[k] == '*';
  *length = s[k] ? k + 1 : k;
  return s[k] == '%' ? 0 : s[k];
}

static void put_text(fl_text *to, const char *s) {
  assert(s);
  for (; *s; s++) fl_text_printf(to, *s == '%' ? "%%%%" : "%c", *s);
}

/* Writes the format with its known strings in it. Bit k of 'way' says which string choice k gives:
** 1 'yes', 0 'no'. */
static void fill(fl_front *p, const printed *f, int way, fl_text *to, int32_t line) {
  int arg = 0, choice = 0, length, stars;
  assert(f->format);
  for (const char *s = f->format, *next; *s && !p->failed; s = next + length) {
    next = strchr(s, '%');
    length = 0;
    if (!next) next = s + strlen(s);
    fl_text_printf(to, "%.*s", (int)(next - s), s);
    if (!*next) break;
    const int c = directive(next, &length, &stars);
    arg += stars;
    const int string = c && arg < f->n && !f->x[arg];
    if (c && arg < f->n && ((c == 's') != string || (string && length != 2)))
      fl_refuse(p, line, "printf: '%.*s' needs %s", length, next,
                c == 's' ? "a text that is known, and no width" : "a number");
    else if (string)
      put_text(to, f->s[arg].when && !(way >> choice++ & 1) ? f->s[arg].no : f->s[arg].yes);
    else
      fl_text_printf(to, "%.*s", length, next);
    arg += c != 0;
  }
  for (; arg < f->n; arg++)
    if (!f->x[arg]) fl_refuse(p, line, "printf: a text for which the format has no %%s");
}

static void emit(fl_front *p, const printed *f, int way, int32_t line) {
  fl_text built;
  fl_text_init(&built, p->a->mem);
  fill(p, f, way, &built, line);
  const char *text = fl_text_str(&built);
  const char *format = text ? fl_karena_str(p->a, text, built.n) : NULL;
  fl_text_free(&built);
  fl_kstmt *s = format && !p->failed ? fl_emit(p, FL_KS_PRINTF, line) : NULL;
  if (!s) return;
  s->text = format;
  s->args = fl_karena_new(p->a, (size_t)f->n * sizeof *s->args);
  for (int i = 0; s->args && i < f->n; i++) {
    fl_kexpr *x = f->x[i];
    if (!x) continue;
    s->args[s->n_args++] = fl_val_convert(p, fl_kexpr_clone(p->f, x),
                                          fl_kt_is_float(x->type) ? FL_KT_F64
                                                                  : fl_promote_type(x->type));
  }
  p->f->uses_printf = 1;
}

/* Emits the printf. 'way' (fill) has the bits of the first k choices, which are those of the first
** 'arg' arguments. */
static void choose(fl_front *p, const printed *f, int arg, int k, int way, int32_t line) {
  while (arg < f->n && !f->s[arg].when) arg++;
  if (p->failed || arg == f->n) { emit(p, f, way, line); return; }
  if (!fl_front_room(p, k, MOST_CHOICES, "texts to choose from in printf")) return;
  fl_kstmt *s = fl_emit(p, FL_KS_IF, line);
  if (!s) return;
  s->x[0] = f->s[arg].when;
  fl_kblock *out = fl_front_into(p, &s->body);
  choose(p, f, arg + 1, k + 1, way | 1 << k, line);
  fl_front_into(p, &s->other);
  choose(p, f, arg + 1, k + 1, way, line);
  fl_front_into(p, out);
}

void fl_call_printf(fl_front *p, const fl_ktok *t) {
  printed f;
  memset(&f, 0, sizeof f);
  fl_front_need(p, '(');
  f.format = p->failed ? NULL : text(p);
  if (!f.format) fl_refuse(p, t->line, "printf needs a literal format");
  while (fl_front_take(p, ',') && !p->failed) {
    if (!fl_front_room(p, f.n, MOST, "values for printf")) return;
    argument(p, &f);
  }
  fl_front_need(p, ')');
  if (!p->failed && (!p->b || !p->f)) fl_refuse(p, t->line, "printf in a constant expression");
  if (!p->failed) choose(p, &f, 0, 0, 0, t->line);
}
