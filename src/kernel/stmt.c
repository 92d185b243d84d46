/*
** Statements. Conditions with effects move into the loop: while (i++ < n) becomes
** for (;;) { effects; if (!c) break; … }. A switch becomes an if-chain where every group ends
** by leaving, else a block in which group g runs if the entry is at or before it.
*/
#include "kernel/front.h"
#include <string.h>

fl_kstmt *fl_emit(fl_front *p, int kind, int32_t line) {
  if (p->failed) return NULL;
  if (!p->b) {
    fl_refuse(p, line, "a statement inside a constant expression");
    return NULL;
  }
  if (++p->nodes > FL_K_MAX_NODES) {
    fl_refuse(p, line, "the kernel is too long after inlining");
    return NULL;
  }
  return fl_kstmt_new(p->a, p->b, kind, line);
}

static void statement_into(fl_front *p, fl_kblock *b) {
  fl_kblock *out = fl_front_into(p, b);
  const int64_t scope = p->syms.n;
  fl_parse_statement(p);
  p->syms.n = scope;
  fl_front_into(p, out);
}

void fl_parse_compound(fl_front *p) {
  const int64_t scope = p->syms.n;
  fl_front_need(p, '{');
  while (!p->failed && !fl_front_is(p, '}') && fl_front_tok(p)->kind != FL_TOK_END)
    fl_parse_statement(p);
  fl_front_need(p, '}');
  p->syms.n = scope;
}

static void parse_if(fl_front *p, int32_t line) {
  fl_front_word(p, "constexpr");
  fl_front_need(p, '(');
  if (fl_decl_starts(p, 0) && !fl_front_is_at(p, 1, '('))
    fl_refuse(p, line, "a declaration inside if (…)");
  fl_kexpr *c = fl_parse_condition(p);
  fl_front_need(p, ')');
  fl_kstmt *s = fl_emit(p, FL_KS_IF, line);
  if (!s) return;
  s->x[0] = c;
  statement_into(p, &s->body);
  if (fl_front_word(p, "else")) statement_into(p, &s->other);
}

/* ---- loops ------------------------------------------------------------------------------------- */

/* "if (!c) break;" behind the effects of c, in front of the body. */
static void test_first(fl_front *p, fl_kstmt *loop, fl_kblock effects, fl_kexpr *c,
                       int32_t line) {
  fl_kblock *out = fl_front_into(p, &loop->body);
  fl_kblock_append(&loop->body, effects);
  fl_kstmt *s = fl_emit(p, FL_KS_IF, line);
  if (s) {
    s->x[0] = fl_kexpr_unary(p->a, FL_KO_NOT, c);
    fl_kstmt_new(p->a, &s->body, FL_KS_BREAK, line);
  }
  fl_front_into(p, out);
}

static fl_kstmt *new_loop(fl_front *p, int32_t line) {
  fl_kstmt *s = fl_emit(p, FL_KS_LOOP, line);
  if (s) s->label = p->f->n_loops++;
  return s;
}

static void set_condition(fl_front *p, fl_kstmt *loop, fl_kblock effects, fl_kexpr *c,
                          int32_t line) {
  if (!c || p->failed) return;
  if (effects.first) test_first(p, loop, effects, c, line);
  else if (c->kind != FL_KX_CONST || !c->value.i) loop->x[0] = c;
}

static void loop_body(fl_front *p, fl_kstmt *loop) {
  const int breaks = p->breaks, continues = p->continues;
  p->breaks = FL_BREAK_LOOP;
  p->continues = 1;
  statement_into(p, &loop->body);
  p->breaks = breaks;
  p->continues = continues;
}

static void parse_while(fl_front *p, int32_t line) {
  fl_kblock effects = { NULL, NULL };
  fl_kstmt *s = new_loop(p, line);
  fl_kblock *out = fl_front_into(p, &effects);
  fl_front_need(p, '(');
  fl_kexpr *c = fl_parse_condition(p);
  fl_front_need(p, ')');
  fl_front_into(p, out);
  if (!s) return;
  set_condition(p, s, effects, c, line);
  loop_body(p, s);
}

static void parse_do(fl_front *p, int32_t line) {
  fl_kstmt *s = new_loop(p, line);
  if (!s) return;
  s->post = 1;
  loop_body(p, s);
  fl_kblock *out = fl_front_into(p, &s->other);
  if (!fl_front_word(p, "while"))
    fl_refuse(p, fl_front_tok(p)->line, "'while' expected after do { }");
  fl_front_need(p, '(');
  fl_kexpr *c = fl_parse_condition(p);
  fl_front_need(p, ')');
  fl_front_need(p, ';');
  fl_front_into(p, out);
  if (c && (c->kind != FL_KX_CONST || !c->value.i)) s->x[0] = c;
}

/* What the header declares ends with the loop. */
static void parse_for(fl_front *p, int32_t line) {
  const int64_t scope = p->syms.n;
  fl_kblock effects = { NULL, NULL }, step = { NULL, NULL };
  fl_kexpr *c = NULL;
  fl_front_need(p, '(');
  if (fl_decl_starts(p, 0)) fl_decl_local(p);
  else if (!fl_front_take(p, ';')) {
    p->statement = 1;
    fl_parse_expr(p);
    fl_front_need(p, ';');
  }
  fl_kblock *out = fl_front_into(p, &effects);
  if (!fl_front_is(p, ';')) c = fl_parse_condition(p);
  fl_front_need(p, ';');
  fl_front_into(p, &step);
  if (!fl_front_is(p, ')')) {
    p->statement = 1;
    fl_parse_expr(p);
  }
  fl_front_need(p, ')');
  fl_front_into(p, out);
  fl_kstmt *s = new_loop(p, line);
  if (!s) return;
  set_condition(p, s, effects, c, line);
  loop_body(p, s);
  s->other = step;
  p->syms.n = scope;
}

/* ---- switch --------------------------------------------------------------------------------------- */

typedef struct group {
  fl_kexpr *when;            /* BOOL: enter here; NULL: only by default */
  int is_default;
  fl_kblock body;
  struct group *next;
} group;

static int leaves_to(fl_kblock b, int label) {
  int n = 0;
  for (fl_kstmt *s = b.first; s; s = s->next)
    n += (s->kind == FL_KS_LEAVE && s->label == label) + leaves_to(s->body, label) +
         leaves_to(s->other, label);
  return n;
}

static int is_last(const fl_kstmt *s, int label) {
  return s && s->kind == FL_KS_LEAVE && s->label == label;
}

static int ends(const fl_kstmt *s) {
  return s &&
         (s->kind == FL_KS_RETURN || s->kind == FL_KS_CONTINUE || s->kind == FL_KS_LEAVE);
}

/* No group falls into the next, and none leaves but at its end. */
static int is_chain(const group *g, int label) {
  for (; g; g = g->next) {
    const int n = leaves_to(g->body, label) - is_last(g->body.last, label);
    if (n || (g->next && !ends(g->body.last))) return 0;
  }
  return 1;
}

static void drop_last(fl_kblock *b) {
  fl_kblock kept = { NULL, NULL };
  for (fl_kstmt *s = b->first, *next; s && s != b->last; s = next) {
    next = s->next;
    s->next = NULL;
    fl_kblock_append(&kept, (fl_kblock){ s, s });
  }
  *b = kept;
}

static void emit_chain(fl_front *p, group *groups, int label, int32_t line) {
  const group *other = NULL;
  fl_kblock *out = p->b;
  for (group *g = groups; g && !p->failed; g = g->next) {
    if (is_last(g->body.last, label)) drop_last(&g->body);
    if (g->is_default) { other = g; continue; }
    fl_kstmt *s = fl_emit(p, FL_KS_IF, line);
    if (!s) break;
    s->x[0] = g->when;
    s->body = g->body;
    p->b = &s->other;
  }
  if (other) fl_kblock_append(p->b, other->body);
  p->b = out;
}

/* entry = the group to begin with; then  { if (entry <= 0) {…} if (entry <= 1) {…} … }. */
static void emit_fallthrough(fl_front *p, group *groups, int label, int32_t line) {
  int n = 0, k = 0;
  fl_kexpr *none = NULL;
  for (group *g = groups; g; g = g->next, n++)
    if (g->is_default) none = fl_kexpr_int(p->a, FL_KT_I32, n);
  fl_kexpr *entry = none ? none : fl_kexpr_int(p->a, FL_KT_I32, n);
  for (group *g = groups; g; g = g->next, k++)
    if (g->when)
      entry = fl_front_check(
          p, fl_kexpr_select(p->a, g->when, fl_kexpr_int(p->a, FL_KT_I32, k), entry));
  entry = fl_val_stable(p, entry);
  fl_kstmt *block = fl_emit(p, FL_KS_BLOCK, line);
  if (!block || !entry) return;
  block->label = label;
  fl_kblock *out = fl_front_into(p, &block->body);
  k = 0;
  for (group *g = groups; g && !p->failed; g = g->next, k++) {
    fl_kstmt *s = fl_emit(p, FL_KS_IF, line);
    if (!s) break;
    s->x[0] = fl_kexpr_binary(p->a, FL_KO_LE, entry, fl_kexpr_int(p->a, FL_KT_I32, k));
    s->body = g->body;
  }
  fl_front_into(p, out);
}

/* case and default labels in front of a group; 0: there are none here. */
static int parse_labels(fl_front *p, group *g, fl_kexpr *v) {
  int n = 0;
  for (;; n++) {
    const int32_t line = fl_front_tok(p)->line;
    if (fl_front_word(p, "default")) {
      g->is_default = 1;
    } else if (fl_front_word(p, "case")) {
      fl_kexpr *k = fl_kexpr_int(p->a, FL_KT_I64, fl_decl_constant(p, "a case label"));
      fl_kexpr *hit =
          p->failed ? NULL
                    : fl_kexpr_binary(p->a, FL_KO_EQ, v, fl_kexpr_cast(p->a, v->type, k));
      g->when = g->when && hit ? fl_kexpr_binary(p->a, FL_KO_LOR, g->when, hit) : hit;
      fl_front_check(p, g->when);
    } else {
      return n;
    }
    if (!fl_front_need(p, ':')) fl_refuse(p, line, "':' expected after a label");
  }
}

static group *parse_groups(fl_front *p, fl_kexpr *v) {
  group *first = NULL, *last = NULL;
  while (!p->failed && !fl_front_is(p, '}')) {
    group *g = fl_karena_new(p->a, sizeof *g);
    if (!g) return NULL;
    if (!parse_labels(p, g, v)) {
      fl_refuse(p, fl_front_tok(p)->line,
                "a statement before the first case of a switch");
      return NULL;
    }
    p->b = &g->body;
    while (!p->failed && !fl_front_is(p, '}') && !fl_ktok_is(fl_front_tok(p), "case") &&
           !fl_ktok_is(fl_front_tok(p), "default") && fl_front_tok(p)->kind != FL_TOK_END)
      fl_parse_statement(p);
    if (last) last->next = g;
    else first = g;
    last = g;
    if (fl_front_tok(p)->kind == FL_TOK_END) break;
  }
  return first;
}

static void parse_switch(fl_front *p, int32_t line) {
  fl_front_need(p, '(');
  fl_kexpr *v = fl_parse_scalar(p);
  fl_front_need(p, ')');
  fl_front_need(p, '{');
  if (p->failed || !v) return;
  if (!fl_kt_is_int(v->type)) { fl_refuse(p, line, "switch needs an integer"); return; }
  v = fl_val_stable(p, fl_val_convert(p, v, fl_promote_type(v->type)));
  const int breaks = p->breaks, label = p->break_label, own = p->f->n_labels++;
  const int64_t scope = p->syms.n;
  fl_kblock *out = p->b;
  p->breaks = FL_BREAK_SWITCH;
  p->break_label = own;
  group *g = v ? parse_groups(p, v) : NULL;
  fl_front_need(p, '}');
  p->b = out;
  p->breaks = breaks;
  p->break_label = label;
  p->syms.n = scope;
  if (p->failed || !g) return;
  if (is_chain(g, own)) emit_chain(p, g, own, line);
  else emit_fallthrough(p, g, own, line);
}

/* ---- jumps -------------------------------------------------------------------------------------------- */

static void parse_return(fl_front *p, int32_t line) {
  if (!p->result) {
    if (!fl_front_is(p, ';')) fl_refuse(p, line, "a kernel returns nothing");
    fl_emit(p, FL_KS_RETURN, line);
    return;
  }
  if (!fl_front_is(p, ';')) {
    if (p->result->kind == FL_C_VOID) {
      p->statement = 1;
      fl_parse_expr(p);
    } else if (fl_front_is(p, '{') && p->result->kind == FL_C_STRUCT) {
      fl_decl_fill(p, p->returned, 1);
    } else {
      fl_val_assign(p, p->returned, fl_parse_expr(p), line);
    }
  } else if (p->result->kind != FL_C_VOID) {
    fl_refuse(p, line, "return without a value");
  }
  fl_kstmt *s = fl_emit(p, FL_KS_LEAVE, line);
  if (s) s->label = p->return_label;
}

static void parse_break(fl_front *p, int32_t line) {
  if (p->breaks == FL_BREAK_NONE) fl_refuse(p, line, "break outside a loop");
  fl_kstmt *s =
      fl_emit(p, p->breaks == FL_BREAK_SWITCH ? FL_KS_LEAVE : FL_KS_BREAK, line);
  if (s && p->breaks == FL_BREAK_SWITCH) s->label = p->break_label;
}

/* ---- all statements ------------------------------------------------------------------------------------- */

static void expression_statement(fl_front *p) {
  const fl_ktok *t = fl_front_tok(p);
  if (t->kind == FL_TOK_NAME && fl_front_is_at(p, 1, ':') && !fl_front_reserved(t)) {
    fl_refuse(p, t->line, "labels are outside the language");
    return;
  }
  p->statement = 1;
  p->statement_call = p->at;
  fl_parse_expr(p);
  p->statement = 0;
  p->statement_call = -1;
  fl_front_need(p, ';');
}

static void jump(fl_front *p, int32_t line) {
  if (fl_front_word(p, "break")) {
    parse_break(p, line);
  } else if (fl_front_word(p, "continue")) {
    if (!p->continues) fl_refuse(p, line, "continue outside a loop");
    fl_emit(p, FL_KS_CONTINUE, line);
  } else {
    fl_front_next(p);
    parse_return(p, line);
  }
  fl_front_need(p, ';');
}

/* Hints without meaning here: [[…]], _Pragma(…), __builtin_assume(…), static_assert(…). */
static int skip_hint(fl_front *p) {
  if (fl_front_is(p, '[') && fl_front_is_at(p, 1, '[')) { fl_front_skip(p); return 1; }
  const fl_ktok *t = fl_front_tok(p);
  const int call = fl_ktok_is(t, "_Pragma") || fl_ktok_is(t, "__builtin_assume") ||
                   fl_ktok_is(t, "__assume") || fl_ktok_is(t, "static_assert") ||
                   fl_ktok_is(t, "__builtin_unreachable");
  if (!call) return 0;
  fl_front_next(p);
  fl_front_skip(p);
  fl_front_take(p, ';');
  return 1;
}

static void statement(fl_front *p) {
  const fl_ktok *t = fl_front_tok(p);
  const int32_t line = t->line;
  if (skip_hint(p)) return;
  if (fl_front_is(p, '{')) fl_parse_compound(p);
  else if (fl_front_take(p, ';')) return;
  else if (fl_front_word(p, "if")) parse_if(p, line);
  else if (fl_front_word(p, "for")) parse_for(p, line);
  else if (fl_front_word(p, "while")) parse_while(p, line);
  else if (fl_front_word(p, "do")) parse_do(p, line);
  else if (fl_front_word(p, "switch")) parse_switch(p, line);
  else if (fl_ktok_is(t, "break") || fl_ktok_is(t, "continue") || fl_ktok_is(t, "return"))
    jump(p, line);
  else if (fl_ktok_is(t, "case") || fl_ktok_is(t, "default"))
    fl_refuse(p, line, "a case label inside another statement");
  else if (fl_decl_starts(p, 0) && fl_front_is_at(p, 1, '(') &&
           fl_front_is_at(p, 2, '*') && fl_front_is_at(p, 4, ')') &&
           fl_front_is_at(p, 5, '('))
    fl_refuse(p, line, "function pointers are outside the language");
  else if (fl_decl_starts(p, 0) && !fl_front_is_at(p, 1, '(')) fl_decl_local(p);
  else expression_statement(p);
}

void fl_parse_statement(fl_front *p) {
  if (fl_front_enter(p)) statement(p);
  p->nest--;
}
