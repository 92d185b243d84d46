/*
** Packs: "template <class... T> f(T... v)". The tokens before the "..." of an expansion are read
** once for each element; meanwhile a pack's name stands for its element number p->pack - 1.
** Element k of a pack v of function parameters is a variable that is named "v k".
*/
#include "kernel/front/number.h"
#include "kernel/front/forms.h"
#include "kernel/front/template.h"
#include <string.h>

enum { MOST = FL_K_MAX_GIVEN };

static const fl_symbol *pack_of(fl_front *p, const fl_ktok *t) {
  const int now = p->pack;
  p->pack = 0;
  const fl_symbol *s = fl_front_named(p, t);
  p->pack = now;
  return s && s->kind == FL_SYM_PACK ? s : NULL;
}

fl_symbol *fl_pack_element(fl_front *p, fl_symbol *s) {
  const int k = p->pack - 1;
  if (k < 0 || k >= s->n_inner) return s;
  if (s->inner) return (fl_symbol *)(uintptr_t)&s->inner[k];
  const char *name = fl_karena_printf(p->a, "%s %d", s->name, k);
  return name ? fl_front_find(p, name, (int32_t)strlen(name)) : NULL;
}

/* The number of elements of the packs that tokens 'from' to end - 1 name; -1: they name no pack.
** Packs of different numbers of elements are refused. */
static int64_t count(fl_front *p, int64_t from, int64_t end) {
  int64_t n = -1;
  for (int64_t i = from; i < end && !p->failed; i++) {
    const fl_symbol *s = pack_of(p, &p->toks.at[i]);
    if (!s) continue;
    if (n >= 0 && s->n_inner != n)
      fl_refuse(p, p->toks.at[i].line, "packs of %d and %d elements beside each other", (int)n,
                (int)s->n_inner);
    n = s->n_inner;
  }
  return n;
}

/* The index of the token that ends the clause (argument or initialiser) at the tokens, in (…), {…}
** or (angle) <…>: its ',' or closing bracket; p->at: there is none. */
static int64_t clause_end(fl_front *p, int angle) {
  int depth = 0;
  for (int64_t i = p->at; i < p->toks.n; i++) {
    const int c = fl_ktok_punct(&p->toks.at[i]);
    if (!depth && (c == ',' || c == ')' || c == '}' || (angle && (c == '>' || c == FL_PU_SHR))))
      return i;
    const int k = (int)(i - p->at), opens = angle && p->toks.at[i].kind == FL_TOK_NAME &&
                                            fl_is_punct(&p->toks.at[i + 1], '<');
    i += opens ? fl_template_angle(p, k + 1) : fl_template_behind(p, k);
    depth += fl_ktok_depth(&p->toks.at[i]);
  }
  return p->at;
}

int64_t fl_pack_count(fl_front *p, int angle) {
  if (p->failed || fl_front_tok(p)->kind == FL_TOK_END) return -1;
  const int64_t end = clause_end(p, angle);
  if (end <= p->at + 1 || fl_ktok_punct(&p->toks.at[end - 1]) != FL_PU_ELLIPSIS) return -1;
  const int64_t n = count(p, p->at, end - 1);
  if (n == 0) p->at = end;
  return n;
}

fl_kpacked fl_pack_open(fl_front *p, int64_t n) {
  const fl_kpacked x = { p->at, n, 0, p->pack };
  if (n > 0) p->pack = 1;
  return x;
}

int fl_pack_next(fl_front *p, fl_kpacked *x) {
  if (x->n >= 0 && !fl_front_need(p, FL_PU_ELLIPSIS)) return 0;
  p->pack = x->outer;
  if (++x->k >= x->n) return 0;
  p->at = x->at;
  p->pack = x->k + 1;
  return 1;
}

/* ---- folds ---- */

/* The number of tokens from 'from' to the ')' that closes the bracket around them; -1: there is
** none. *dots: set to the last "..." that is in no inner bracket, if there is one. */
static int level_one(fl_front *p, int64_t from, int64_t *dots) {
  int depth = 0;
  for (int64_t i = from; i < p->toks.n; i++) {
    const int c = fl_ktok_punct(&p->toks.at[i]);
    if (!depth && c == ')') return (int)(i - from);
    if (!depth && c == FL_PU_ELLIPSIS) *dots = i;
    if (c == ';' || p->toks.at[i].kind == FL_TOK_END) return -1;
    depth += fl_ktok_depth(&p->toks.at[i]);
  }
  return -1;
}

/* A fold expression, "(v + ...)": its n operands so far, whose statements begin at m. If it is
** lazy, they are combined as they are read, in v[0]. */
typedef struct fold {
  fl_cvalue v[2 * MOST];
  int n, op, kind, lazy;         /* op: the operator's token; kind: its FL_KO_*; lazy: && or || of
                                 ** several operands */
  fl_kmark m;
  int32_t line;
} fold;

static fl_cvalue combine(fl_front *p, const fold *f, fl_cvalue x, fl_cvalue y) {
  return f->op == ',' ? y : fl_binary(p, f->kind, x, y, f->line);
}

/* Adds an operand of a lazy fold: after the first it is evaluated only if the result depends on
** it. */
static void add_lazily(fl_front *p, fold *f) {
  fl_kblock side = { NULL, NULL };
  fl_kblock *out = fl_front_into(p, p->b && f->n ? &side : p->b);
  fl_kexpr *e = fl_val_truth(p, fl_parse_unary(p), f->line);
  fl_front_into(p, out);
  f->v[0] = f->n ? fl_logic(p, f->kind, f->v[0].e, e, side, f->line) : fl_val_expr(e);
  f->n = 1;
}

static void add(fl_front *p, fold *f) {
  const fl_kmark middle = fl_order_mark(p);
  fl_cvalue v = fl_parse_unary(p);
  if (v.kind == FL_V_PLACE && v.type->kind == FL_C_SCALAR && p->f)
    v = fl_val_expr(fl_val_scalar(p, v, f->line));
  if (f->kind == FL_KO_SHL || f->kind == FL_KO_SHR)
    fl_order_before(p, f->v, f->n, &middle, 0, f->line);
  else if (f->op != ',') fl_order_open(p, &f->m, &middle, f->v, f->n, &v, f->line);
  f->v[f->n++] = v;
}

/* Adds the operand at token 'at' to the fold: n values if it names a pack of n elements, or one
** value if it names none (n < 0). */
static void operands(fl_front *p, int64_t at, int64_t n, fold *f) {
  const int outer = p->pack;
  for (int k = 0; k < (n < 0 ? 1 : n) && !p->failed; k++) {
    p->at = at;
    p->pack = n < 0 ? outer : k + 1;
    if (f->lazy) add_lazily(p, f);
    else add(p, f);
  }
  p->pack = outer;
}

/* Has a fold more than one operand? One alone is the result as it is. left, right: the tokens at
** which the operands on that side begin; -1: there is none. n_left, n_right: elements of the pack
** there; < 0: it is one expression. */
static int several(int64_t left, int64_t n_left, int64_t right, int64_t n_right) {
  const int64_t a = left < 0 ? 0 : n_left < 0 ? 1 : n_left,
                b = right < 0 ? 0 : n_right < 0 ? 1 : n_right;
  return a + b > 1;
}

int fl_pack_fold(fl_front *p, fl_cvalue *out) {
  int64_t dots = 0;
  const int64_t from = p->at;
  const int length = level_one(p, from, &dots);
  if (length < 2 || !dots) return 0;
  const int64_t end = from + length;
  const int32_t line = p->toks.at[dots].line;
  const int op = fl_ktok_punct(&p->toks.at[dots == from ? dots + 1 : dots - 1]);
  const int64_t left = dots == from ? -1 : from, right = dots == end - 1 ? -1 : dots + 2;
  const int64_t n_left = left < 0 ? -1 : count(p, left, dots - 1),
                n_right = right < 0 ? -1 : count(p, right, end);
  int level;
  fold f = { .op = op, .kind = fl_operator_of(op, &level), .m = fl_order_mark(p), .line = line };
  if (!fl_front_room(p, n_left - 1, MOST, "elements of a fold") ||
      !fl_front_room(p, n_right - 1, MOST, "elements of a fold"))
    return 1;
  if ((n_left < 0) == (n_right < 0)) {
    fl_refuse(p, line, "a fold that is not understood");
    return 1;
  }
  if (f.kind == FL_KO_NONE && op != ',') {
    fl_refuse(p, line, "a fold over this operator" FL_DO ": write a list or recursion");
    return 1;
  }
  f.lazy = (op == FL_PU_LAND || op == FL_PU_LOR) && several(left, n_left, right, n_right);
  if (left >= 0) operands(p, left, n_left, &f);
  if (right >= 0) operands(p, right, n_right, &f);
  const int n = f.n;
  p->at = end;
  fl_front_need(p, ')');
  if (!n && !p->failed && op != FL_PU_LAND && op != FL_PU_LOR)
    fl_refuse(p, line, "a fold of no elements");
  *out = p->failed ? fl_val_none()
         : n       ? f.v[n_left >= 0 ? n - 1 : 0]
                   : fl_val_expr(fl_kexpr_int(p->a, FL_KT_BOOL, op == FL_PU_LAND));
  for (int k = 1; k < n && !p->failed; k++)
    *out = n_left >= 0 && op != ',' ? combine(p, &f, f.v[n - 1 - k], *out)
                                    : combine(p, &f, *out, f.v[k]);
  return 1;
}

fl_kexpr *fl_pack_size(fl_front *p) {
  fl_front_need(p, '(');
  const fl_ktok *t = fl_front_next(p);
  const fl_symbol *s = pack_of(p, t);
  if (!s) fl_refuse(p, t->line, "sizeof... of what is no pack");
  fl_front_need(p, ')');
  return s ? fl_val_size(p, s->n_inner) : NULL;
}
