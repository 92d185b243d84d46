/*
** Arrays of characters that are initialised by a text, 'char digits[] = "0123"': the text becomes
** the list of its characters and a 0, as C has it, before the parser sees it. So does the text of
** 'const char *digits = "0123"' if its block has "digits[": the pointer becomes an array.
*/
#include "kernel/front/lexer.h"
#include <assert.h>
#include <string.h>

enum { MOST = 65536 };       /* tokens of such lists in one source */

/* Is token i a text after "char name[…] ="? */
static int is_array(const fl_ktoks *toks, int64_t i) {
  const fl_ktok *t = &toks->at[i];
  if (t->kind != FL_TOK_STRING || i < 5 || !fl_is_punct(t - 1, '=') || !fl_is_punct(t - 2, ']') ||
      !(fl_is_punct(t + 1, ';') || fl_is_punct(t + 1, ',')))
    return 0;
  int64_t k = i - 3;
  while (k > 2 && !fl_is_punct(&toks->at[k], '[')) k--;
  return k >= 2 && toks->at[k - 1].kind == FL_TOK_NAME && fl_ktok_is(&toks->at[k - 2], "char");
}

/* Does token i, the name of a pointer, occur before '[' in the rest of its block, and nowhere where
** the size of an array is another one than that of a pointer? */
static int is_indexed(const fl_ktoks *toks, int64_t i) {
  const fl_ktok *name = &toks->at[i];
  int is = 0;
  for (int depth = 0; ++i + 1 < toks->n && depth >= 0;) {
    const fl_ktok *t = &toks->at[i];
    depth += fl_is_punct(t, '{') - fl_is_punct(t, '}');
    if (t->kind != FL_TOK_NAME || t->n != name->n || memcmp(t->text, name->text, (size_t)t->n))
      continue;
    const fl_ktok *before = t - 1;
    while (fl_is_punct(before, '(')) before--;
    if (fl_is_punct(t + 1, '[')) is = 1;
    else if (fl_ktok_is(before, "sizeof") || fl_is_punct(before, '&')) return 0;
  }
  return is;
}

/* Is token i a text after "const char *name =" or "const char *const name =", where the name is
** indexed? Returns the token of the '*' then, else 0. */
static int64_t pointer_to(const fl_ktoks *toks, int64_t i) {
  const fl_ktok *t = &toks->at[i];
  if (t->kind != FL_TOK_STRING || i < 5 || !fl_is_punct(t - 1, '=') ||
      (t - 2)->kind != FL_TOK_NAME || !fl_is_punct(t + 1, ';')) return 0;
  const int64_t star = i - 3 - fl_ktok_is(t - 3, "const");
  if (star < 2 || !fl_is_punct(&toks->at[star], '*')) return 0;
  const fl_ktok *a = &toks->at[star - 2], *b = &toks->at[star - 1];
  const int is = (fl_ktok_is(a, "const") && fl_ktok_is(b, "char")) ||
                 (fl_ktok_is(a, "char") && fl_ktok_is(b, "const"));
  return is && is_indexed(toks, i - 2) ? star : 0;
}

static int64_t list_length(const fl_ktok *text) { return 2 * (int64_t)text->n + 3; }

static fl_ktok *put_list(fl_ktok *to, const fl_ktok *text) {
  const int32_t line = text->line;
  *to++ = (fl_ktok){ .kind = FL_TOK_PUNCT, .punct = '{', .line = line, .text = "{", .n = 1 };
  for (int32_t i = 0; i <= text->n; i++) {
    fl_ktok c = { .kind = FL_TOK_CHAR, .type = FL_KT_I8, .line = line, .text = "0", .n = 1 };
    c.value.i = i < text->n ? (int8_t)text->text[i] : 0;
    *to++ = c;
    if (i < text->n)
      *to++ = (fl_ktok){ .kind = FL_TOK_PUNCT, .punct = ',', .line = line, .text = ",", .n = 1 };
  }
  *to++ = (fl_ktok){ .kind = FL_TOK_PUNCT, .punct = '}', .line = line, .text = "}", .n = 1 };
  return to;
}

/* Replaces the n tokens "* name =" or "* const name =" before 'to' with "name [] ="; returns the
** new end. */
static fl_ktok *put_brackets(fl_ktok *to, int64_t n) {
  const fl_ktok name = to[-2], set = to[-1];
  to -= n;
  *to++ = name;
  *to++ = (fl_ktok){ .kind = FL_TOK_PUNCT, .punct = '[', .line = set.line, .text = "[", .n = 1 };
  *to++ = (fl_ktok){ .kind = FL_TOK_PUNCT, .punct = ']', .line = set.line, .text = "]", .n = 1 };
  *to++ = set;
  return to;
}

int fl_kliteral_arrays(fl_karena *a, fl_ktoks *toks) {
  int64_t more = 0;
  for (int64_t i = 0; i + 1 < toks->n; i++)
    if (is_array(toks, i) || pointer_to(toks, i)) more += list_length(&toks->at[i]) + 2;
  if (!more || more > MOST) return 1;
  fl_ktoks out = { NULL, 0, 0 };
  if (!FL_RESERVE(a->mem, &out, toks->n + more)) return a->failed = 1, 0;
  fl_ktok *to = out.at;
  for (int64_t i = 0; i < toks->n; i++) {
    const int64_t star = pointer_to(toks, i);
    if (star) to = put_brackets(to, i - star);
    if (star || is_array(toks, i)) to = put_list(to, &toks->at[i]);
    else *to++ = toks->at[i];
  }
  out.n = to - out.at;
  FL_DROP(a->mem, toks);
  *toks = out;
  return 1;
}

void fl_kliteral_join(fl_karena *a, fl_ktoks *out) {
  int64_t n = 0;
  assert(out->at || out->n == 0);
  for (int64_t i = 0; i < out->n; i++) {
    const fl_ktok *t = &out->at[i];
    fl_ktok *last = n ? &out->at[n - 1] : NULL;
    if (last && last->kind == FL_TOK_STRING && t->kind == FL_TOK_STRING) {
      char *text = fl_karena_new(a, (size_t)(last->n + t->n) + 1);       /* zeroed: it ends in 0 */
      if (text && last->n) memcpy(text, last->text, (size_t)last->n);
      if (text && t->n) memcpy(text + last->n, t->text, (size_t)t->n);
      last->text = text;
      last->n = text ? last->n + t->n : 0;
    } else {
      out->at[n++] = *t;
      const int calls = i + 2 < out->n && fl_is_punct(t + 1, '(') && fl_is_punct(t + 2, ')'),
                indexes = i + 2 < out->n && fl_is_punct(t + 1, '[') && fl_is_punct(t + 2, ']');
      if ((!calls && !indexes) || !fl_ktok_is(t, "operator")) continue;
      out->at[n - 1].text = calls ? "operator()" : "operator[]";
      out->at[n - 1].n = 10;
      i += 2;
    }
  }
  out->n = n;
}
