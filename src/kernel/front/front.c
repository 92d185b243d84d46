/* Tokens, names and refusals of the front end. */
#include "kernel/front/scope.h"
#include "kernel/front/template.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- refusals ------------------------------------------------------------------------------- */

__attribute__((format(printf, 4, 0)))
static void refuse(fl_front *p, int32_t line, int sized, const char *fmt, va_list list) {
  char text[400];
  if (p->failed) return;
  vsnprintf(text, sizeof text, fmt, list);
  p->failed = 1;
  p->absent = 0;
  p->line = line;
  p->sized = sized;
  p->why = fl_karena_str(p->a, text, strlen(text));
}

void fl_refuse(fl_front *p, int32_t line, const char *fmt, ...) {
  va_list list;
  va_start(list, fmt);
  refuse(p, line, 0, fmt, list);
  va_end(list);
}

fl_cvalue fl_val_refuse(fl_front *p, int32_t line, const char *fmt, ...) {
  va_list list;
  va_start(list, fmt);
  refuse(p, line, 0, fmt, list);
  va_end(list);
  return fl_val_none();
}

void fl_refuse_size(fl_front *p, int32_t line, const char *fmt, ...) {
  va_list list;
  va_start(list, fmt);
  refuse(p, line, 1, fmt, list);
  va_end(list);
}

int fl_front_room(fl_front *p, int64_t n, int64_t most, const char *what) {
  const char *why = p->failed ? NULL : fl_kfull(p->a, n, most, what);
  if (why) fl_refuse(p, fl_front_tok(p)->line, "%s", why);
  return !p->failed;
}

/* Returns x. An operand that is missing after a refusal is no failure. Too much depth becomes a
** refusal with a message; any other failure of the arena ends the reading without one. */
fl_kexpr *fl_front_check(fl_front *p, fl_kexpr *x) {
  if (p->a->failed == FL_KARENA_MISSING && p->failed) p->a->failed = 0;
  if (p->a->failed == FL_KARENA_DEEP) {
    p->a->failed = 0;
    fl_refuse(p, fl_front_tok(p)->line, "an expression is nested more than %d deep",
              FL_K_MAX_DEPTH);
  }
  if (p->a->failed) p->failed = 1;
  return x;
}

int fl_front_enter(fl_front *p) {
  if (++p->nest > FL_K_MAX_NEST)
    fl_refuse_size(p, fl_front_tok(p)->line, "nested more than %d deep", FL_K_MAX_NEST);
  return !p->failed;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

const fl_ktok *fl_front_ahead(fl_front *p, int k) {
  if (p->a->failed > FL_KARENA_MEMORY) fl_front_check(p, NULL);
  if (p->failed || p->a->failed) return &p->end;
  const int64_t i = p->at + k;
  return &p->toks.at[i < p->toks.n ? i : p->toks.n - 1];
}

void fl_refuse_bad(fl_front *p, const fl_ktok *t) {
  if (t->type == FL_BAD_NUMBER) fl_refuse(p, t->line, "malformed number");
  else if (t->type) fl_refuse_size(p, t->line, "%s", t->text);
  else fl_refuse(p, t->line, "%s", t->text);
}

const fl_ktok *fl_front_tok(fl_front *p) {
  const fl_ktok *t = fl_front_ahead(p, 0);
  if (t->kind == FL_TOK_BAD) {
    fl_refuse_bad(p, t);
    return &p->end;
  }
  return t;
}

const fl_ktok *fl_front_next(fl_front *p) {
  const fl_ktok *t = fl_front_tok(p);
  if (t->kind != FL_TOK_END) p->at++;
  return t;
}

int fl_front_is_at(fl_front *p, int k, int punct) {
  return fl_is_punct(fl_front_ahead(p, k), punct);
}

int fl_front_is(fl_front *p, int punct) { return fl_is_punct(fl_front_tok(p), punct); }

int fl_front_take(fl_front *p, int punct) {
  if (!fl_front_is(p, punct)) return 0;
  p->at++;
  return 1;
}

int fl_front_need(fl_front *p, int punct) {
  if (fl_front_take(p, punct)) return 1;
  const fl_ktok *t = fl_front_tok(p);
  const char *reason = fl_front_reserved(t);
  if (reason) fl_refuse(p, t->line, "%s outside the language", reason);
  else if (t->kind == FL_TOK_END) fl_refuse(p, t->line, "'%c' expected, the text ends", punct);
  else fl_refuse(p, t->line, "'%c' expected before '%.*s'", punct, (int)t->n, t->text);
  return 0;
}

int fl_front_word(fl_front *p, const char *word) {
  if (!fl_ktok_is(fl_front_tok(p), word)) return 0;
  p->at++;
  return 1;
}

const char *fl_front_name(fl_front *p) {
  const fl_ktok *t = fl_front_tok(p);
  if (t->kind != FL_TOK_NAME) {
    fl_refuse(p, t->line, "a name expected before '%.*s'", t->kind == FL_TOK_END ? 3 : (int)t->n,
              t->kind == FL_TOK_END ? "end" : t->text);
    return "?";
  }
  p->at++;
  const char *s = fl_karena_str(p->a, t->text, (size_t)t->n);
  return s ? s : "?";
}

int fl_front_past(fl_front *p, int k) {
  int depth = 0;
  for (; fl_front_ahead(p, k)->kind != FL_TOK_END; k++) {
    const fl_ktok *t = fl_front_ahead(p, k);
    depth += fl_ktok_depth(t);
    if (t->kind == FL_TOK_PUNCT && depth <= 0) return k + 1;
  }
  return k;
}

int64_t fl_front_end(fl_front *p, int64_t from) {
  return p->at + fl_front_past(p, (int)(from - p->at));
}

void fl_front_skip(fl_front *p) { p->at += fl_front_past(p, 0); }

void fl_front_skip_to(fl_front *p, int a, int b) {
  while (!p->failed && !fl_front_is(p, a) && !fl_front_is(p, b) &&
         fl_front_tok(p)->kind != FL_TOK_END) {
    if (fl_front_is(p, '{') || fl_front_is(p, '(') || fl_front_is(p, '[')) fl_front_skip(p);
    else p->at++;
  }
}

void fl_front_seek(fl_front *p, int a, int b) {
  while (!p->failed && !fl_front_is(p, a) && !fl_front_is(p, b) &&
         fl_front_tok(p)->kind != FL_TOK_END)
    p->at++;
}

/* ---- names ----------------------------------------------------------------------------------- */

const fl_symbol *fl_front_among(const fl_symbol *list, int64_t n, const char *name,
                                int32_t length) {
  for (int64_t i = n - 1; i >= 0; i--)
    if (list[i].n == length && !memcmp(list[i].name, name, (size_t)length)) return &list[i];
  return NULL;
}

/* The newest of the symbols low to high - 1 with that name. Members that hide no name around them
** (FL_LATE_MEMBER) are passed over; the newest becomes *late, if that is NULL. */
static fl_symbol *find_between(fl_front *p, int64_t low, int64_t high, const char *name,
                               int32_t n, fl_symbol **late) {
  while (low < high) {
    fl_symbol *s = (fl_symbol *)(uintptr_t)fl_front_among(p->syms.at + low, high - low, name, n);
    if (!s || s->late != FL_LATE_MEMBER) return s;
    if (!*late) *late = s;
    high = s - p->syms.at;
  }
  return NULL;
}

const fl_symbol *fl_front_in(fl_front *p, const fl_symbol *list, int64_t n, const fl_ktok *t) {
  return fl_scope_pick(p, fl_front_among(list, n, t->text, t->n), t);
}

/* t: the token that names it, or NULL */
static fl_symbol *find(fl_front *p, const char *name, int32_t n, const fl_ktok *t) {
  const int64_t first = p->frame > p->globals ? p->frame : p->globals;
  fl_symbol *late = NULL, *s = find_between(p, first, p->syms.n, name, n, &late);
  for (const fl_kscope *up = p->up; up && !s; up = up->up)
    s = find_between(p, up->low, up->high, name, n, &late);
  if (!s) s = find_between(p, 0, p->globals, name, n, &late);
  if (!s) s = late;
  if (s && s->kind == FL_SYM_WRONG) return (fl_symbol *)(uintptr_t)fl_scope_pick(p, s, t);
  return s && s->kind == FL_SYM_PACK ? fl_pack_element(p, s) : s;
}

fl_symbol *fl_front_find(fl_front *p, const char *name, int32_t n) {
  return find(p, name, n, NULL);
}

fl_symbol *fl_front_named(fl_front *p, const fl_ktok *t) {
  return t->kind == FL_TOK_NAME ? find(p, t->text, t->n, t) : NULL;
}

fl_kbookmark fl_front_open(fl_front *p, int64_t at, const fl_kscope *up) {
  const fl_kbookmark back = { p->at, p->frame, p->syms.n, p->up, p->half, p->angle, p->pack,
                              p->nest };
  p->at = at;
  p->up = up;
  p->half = p->angle = p->pack = 0;
  if (p->f) p->frame = p->syms.n;
  return back;
}

void fl_front_close(fl_front *p, fl_kbookmark back) {
  p->at = back.at;
  p->frame = back.frame;
  p->syms.n = back.syms;
  p->up = back.up;
  p->half = back.half;
  p->angle = back.angle;
  p->pack = back.pack;
  p->nest = back.nest;
}

fl_kattempt fl_front_try(const fl_front *p) {
  return (fl_kattempt){ p->at, p->syms.n, p->nest, p->half, p->angle };
}

int fl_front_undo(fl_front *p, const fl_kattempt *from) {
  fl_front_check(p, NULL);
  if (p->a->failed || p->sized) return 0;
  p->failed = 0;
  p->at = from->at;
  p->syms.n = from->syms;
  p->nest = from->nest;
  p->half = from->half;
  p->angle = from->angle;
  return 1;
}

void fl_front_push(fl_front *p, const fl_symbol *list, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    fl_symbol *s = fl_front_add(p, list[i].name, list[i].kind);
    if (s) *s = list[i];
  }
}

fl_symbol fl_front_symbol(const char *name, int kind) {
  return (fl_symbol){ .name = name, .n = (int32_t)strlen(name), .kind = (uint8_t)kind,
                      .offset = -1 };
}

fl_symbol *fl_front_add(fl_front *p, const char *name, int kind) {
  fl_symbol *at = fl_karena_room(p->a, p->syms.at, (int)p->syms.n, &p->syms.cap, sizeof *at);
  if (!at) return p->failed = 1, NULL;
  p->syms.at = at;
  at[p->syms.n] = fl_front_symbol(name, kind);
  return &at[p->syms.n++];
}

fl_symbol *fl_front_bind(fl_front *p, const char *name, int kind, fl_cvalue v) {
  fl_symbol *s = p->failed ? NULL : fl_front_add(p, name, kind);
  if (s) s->v = v;
  return s;
}

/* what: subject and verb, which come before "outside the language" */
static const struct { const char *word, *what; } reserved[] = {
  { "asm", "inline asm is" }, { "__asm__", "inline asm is" }, { "__asm", "inline asm is" },
  { "goto", "goto is" }, { "volatile", "volatile is" }, { "new", "new is" },
  { "delete", "delete is" }, { "try", "exceptions are" }, { "throw", "exceptions are" },
  { "malloc", "malloc is" }, { "free", "free is" }, { "clock", "clock() is" },
  { "clock64", "clock64() is" }, { "globaltimer", "timers are" },
  { "cudaSurfaceObject_t", "surfaces are" }, { "surf2Dread", "surfaces are" },
  { "surf2Dwrite", "surfaces are" }, { "cooperative_groups", "cooperative groups are" },
  { "cg", "cooperative groups are" }, { "curandState", "curand is" },
  { "curand_uniform", "curand is" }, { "curandState_t", "curand is" },
  { "curand_init", "curand is" }, { "alloca", "alloca is" }, { "wmma", "matrix fragments are" },
  { "nvcuda", "matrix fragments are" }, { "__nanosleep", "__nanosleep is" },
  { "__syncthreads_count", "__syncthreads_count is" },
  { "__syncthreads_and", "__syncthreads_and is" }, { "__syncthreads_or", "__syncthreads_or is" },
  { "thread_local", "thread_local is" },
};

const char *fl_front_reserved(const fl_ktok *t) {
  for (size_t i = 0; t->kind == FL_TOK_NAME && i < sizeof reserved / sizeof *reserved; i++)
    if (fl_ktok_is(t, reserved[i].word)) return reserved[i].what;
  return NULL;
}

/* ---- what was read --------------------------------------------------------------------------- */

void fl_ksource_free(fl_ksource *s) {
  if (!s) return;
  fl_mem *m = s->mem;
  fl_karena_close(&s->arena);
  fl_free(m, s, sizeof *s);
}

fl_kfunc *fl_ksource_kernel(const fl_ksource *s, const char *name) {
  for (int i = 0; i < s->n_kernels; i++)
    if (!strcmp(s->kernels[i]->name, name)) return s->kernels[i];
  return NULL;
}

const char *fl_ksource_refusal(fl_ksource *s, const fl_kfunc *f) {
  if (f->has_body) return "";
  const char *t =
      fl_karena_printf(&s->arena, "kernel '%s', line %d: %s", f->name,
                       (int)f->refusal_line, f->refusal ? f->refusal : "it has no body");
  return t ? t : "";
}
