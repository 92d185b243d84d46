/* The macros that a compiler's options define. */
#include "kernel/front/lexer.h"
#include <stdio.h>
#include <string.h>

/* The macro that option o defines, "N" or "N=V", or undefines (*forget); NULL: it does neither.
** *used: the number of options read, 2 if the macro is in 'next'. */
static const char *macro_of(const char *o, const char *next, int *used, int *forget) {
  static const struct { const char *word; int undo, joined; } known[] = {
    { "--define-macro", 0, '=' }, { "--undefine-macro", 1, '=' }, { "-D", 0, 0 }, { "-U", 1, 0 } };
  *used = 1;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    const size_t n = strlen(known[i].word);
    if (strncmp(o, known[i].word, n) != 0) continue;
    *forget = known[i].undo;
    if (!o[n]) return *used = 2, next;
    if (known[i].joined && o[n] != known[i].joined) continue;
    for (o += n + (known[i].joined != 0); *o == ' '; o++) continue;
    return o;
  }
  return NULL;
}

const char *fl_kpreprocess_options(fl_karena *a, const char *const *option, int n) {
  const char *text = "";
  for (int i = 0, used, forget = 0; i < n && text; i += used) {
    const char *m = macro_of(option[i], i + 1 < n ? option[i + 1] : NULL, &used, &forget);
    const char *set = m ? strchr(m, '=') : NULL;
    if (!m) continue;
    const size_t size = strlen(text) + strlen(m) + 32;
    char *more = fl_karena_new(a, size);
    if (!more) return NULL;
    const int name = set && !forget ? (int)(set - m) : (int)strlen(m);
    snprintf(more, size, "%s#%s %.*s %s\n", text, forget ? "undef" : "define", name, m,
             forget ? "" : set ? set + 1 : "1");
    text = more;
  }
  return text;
}
