/* Declarations of the file that could not be read: where they end, and what
** they would have declared. */
#include "kernel/front/front.h"
#include <string.h>

/* To behind the end of a declaration that starts at 'from'. */
void fl_front_skip_declaration(fl_front *p, int64_t from) {
  p->at = from;
  while (fl_front_ahead(p, 0)->kind != FL_TOK_END) {
    if (fl_front_is_at(p, 0, ';')) { p->at++; return; }
    if (fl_front_is_at(p, 0, '{')) {
      fl_front_skip(p);
      if (fl_front_is_at(p, 0, ';')) p->at++;
      return;
    }
    if (fl_front_is_at(p, 0, '(') || fl_front_is_at(p, 0, '[')) fl_front_skip(p);
    else p->at++;
  }
}

/* Behind "template <…>", whose parameters are no names of the file. */
static int64_t behind_parameters(fl_front *p, int64_t from) {
  const int64_t at = p->at;
  p->at = from + 1;
  if (fl_ktok_is(&p->toks.at[from], "template") && fl_front_is(p, '<'))
    from += 1 + fl_template_angle(p, 0);
  p->at = at;
  return from;
}

/* The name that a declaration we could not read, from 'from' to here, would have had: the one
** before '(', '=', '[' or ';', or behind struct. */
const fl_ktok *fl_front_unread_name(fl_front *p, int64_t from, int *is_kernel) {
  const fl_ktok *name = NULL;
  *is_kernel = 0;
  from = behind_parameters(p, from);
  for (int64_t i = from; i < p->at; i++) {
    const fl_ktok *t = &p->toks.at[i];
    if (fl_ktok_is(t, "__global__")) *is_kernel = 1;
    if (fl_ktok_is(t, "__launch_bounds__") || fl_ktok_is(t, "__attribute__") ||
        fl_ktok_is(t, "__align__")) {
      i++;
      continue;
    }
    if (t->kind == FL_TOK_NAME) name = t;
    if (name && t->kind == FL_TOK_PUNCT && strchr("(=[;{:", t->punct < 256 ? t->punct : 1))
      break;
  }
  return name;
}
