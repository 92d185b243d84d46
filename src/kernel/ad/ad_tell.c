/* What FLAME_DEBUG=6 prints about a derivative (tree/verify.h): the strategy for each loop and sum
** as a table, and one line that says whether the kernel was derived or refused. */
#include "kernel/ad/ad_state.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

/* ---- strategies -------------------------------------------------------------------------- */

typedef struct fl_kad_choice {
  struct fl_kad_choice *next;
  int32_t line, var;
  const char *how;
} choice;

void fl_kad_chose(fl_kad_state *d, int line, int var, const char *fmt, ...) {
  char text[300];
  va_list list;
  if (!fl_kpass_is_told() || d->a->failed) return;
  va_start(list, fmt);
  vsnprintf(text, sizeof text, fmt, list);
  va_end(list);
  choice *c = fl_karena_new(d->a, sizeof *c);
  if (!c) return;
  *c = (choice){ NULL, line, var, fl_karena_str(d->a, text, strlen(text)) };
  if (d->last_choice) d->last_choice->next = c;
  else d->first_choice = c;
  d->last_choice = c;
}

void fl_kad_tell_strategy(const fl_kad_state *d) {
  if (!d->first_choice) return;
  fprintf(stderr, "kernel '%s': strategies\n", d->source->name);
  for (const choice *c = d->first_choice; c; c = c->next)
    fprintf(stderr, "  line %d, %s: %s\n", (int)c->line,
            c->var < 0 ? "loop" : d->f->vars[c->var].name, c->how ? c->how : "");
}

/* ---- verdicts ---------------------------------------------------------------------------- */

static void put_request(fl_text *t, const fl_kfunc *f, const fl_kad_request *r) {
  fl_text_puts(t, " of ");
  for (int i = 0; i < f->n_params; i++) fl_text_printf(t, "%d", r->want[i]);
  fl_text_printf(t, ", geometry %d, slots %d%s", r->geometry, (int)r->slot_bytes,
                 r->deterministic ? ", in order" : "");
  if (!r->launched) return;
  fl_text_puts(t, ", launched");
  for (int i = 0; i < FL_KEXTENTS; i++)
    fl_text_printf(t, " %lld", (long long)r->launched->extent[i]);
}

static void put_result(fl_text *t, const fl_kad *x) {
  fl_text_printf(t, "%016" PRIx64 ", %d plain, %d by block, %d atomic, roles",
                 fl_ktree_hash(x->func), (int)x->n_plain, (int)x->n_block, (int)x->n_atomic);
  for (int i = 0; i < x->n_params; i++)
    fl_text_printf(t, " %d%s%s%s", x->params[i].role, x->params[i].seeded ? "s" : "",
                   x->params[i].through ? "t" : "", x->params[i].stores ? "w" : "");
  for (int i = 0; i < x->limits.n; i++)
    fl_text_printf(t, ", extent %d at most %lld of %d", (int)x->limits.at[i].which,
                   (long long)x->limits.at[i].factor, (int)x->limits.at[i].param);
  if (x->taken_line) fl_text_printf(t, ", taken at %d", (int)x->taken_line);
  if (x->unordered_line) fl_text_printf(t, ", in no order at %d", (int)x->unordered_line);
  if (x->any_order) fl_text_puts(t, ", in any order");
}

void fl_kad_tell(const char *what, const fl_kfunc *f, const fl_kad_request *r, const fl_kad *x) {
  fl_text t;
  fl_mem own = { 0 };
  if (!fl_kpass_is_told() || !r->want) return;
  fl_text_init(&t, &own);
  fl_text_puts(&t, what);
  put_request(&t, f, r);
  fl_text_puts(&t, ": ");
  if (!x) fl_text_puts(&t, "none");
  else if (x->func) put_result(&t, x);
  else fl_text_puts(&t, x->refusal ? x->refusal : "no memory");
  fl_kpass_tell(f, fl_text_str(&t));
  fl_text_free(&t);
}
