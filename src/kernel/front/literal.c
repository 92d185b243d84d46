/*
** Arrays of characters that are initialised by a text, 'char digits[] = "0123"': the text becomes
** the list of its characters and a 0, as C has it, before the parser sees it.
*/
#include "kernel/front/lexer.h"
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

int fl_kliteral_arrays(fl_karena *a, fl_ktoks *toks) {
  int64_t more = 0;
  for (int64_t i = 0; i + 1 < toks->n; i++)
    if (is_array(toks, i)) more += list_length(&toks->at[i]) - 1;
  if (!more || more > MOST) return 1;
  fl_ktoks out = { NULL, 0, 0 };
  if (!FL_RESERVE(a->mem, &out, toks->n + more)) return a->failed = 1, 0;
  fl_ktok *to = out.at;
  for (int64_t i = 0; i < toks->n; i++) {
    if (is_array(toks, i)) to = put_list(to, &toks->at[i]);
    else *to++ = toks->at[i];
  }
  out.n = to - out.at;
  FL_DROP(a->mem, toks);
  *toks = out;
  return 1;
}
