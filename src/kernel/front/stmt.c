/*
** Statements. Conditions with effects move into the loop: while (i++ < n) becomes for (;;) {
** effects; if (!c) break; … }. A switch of at most 64 groups (case labels and the statements after
** them) becomes an if-chain if every group but the last ends with a jump, and none has a break
** before its end; otherwise a block in which group g runs if the switch enters at g or before. */
#include "kernel/front/forms.h"
#include "kernel/front/scope.h"
#include <string.h>

fl_kblock *fl_front_into(fl_front *p, fl_kblock *b) {
  fl_kblock *old = p->b;
  p->b = b;
  return old;
}

void fl_emit_assign(fl_front *p, int32_t var, fl_kexpr *e, int32_t line) {
  fl_kstmt *s = e && !p->failed ? fl_kstmt_assign(p->f, p->b, var, e) : NULL;
  if (s) s->line = line;
}

fl_kstmt *fl_emit(fl_front *p, int kind, int32_t line) {
  if (p->failed) return NULL;
  if (!p->b) {
    fl_refuse(p, line, "a statement inside a constant expression");
    return NULL;
  }
  if (++p->nodes > FL_K_MAX_NODES) {
    fl_refuse_size(p, line, "the kernel is too long after inlining");
    return NULL;
  }
  return fl_kstmt_new(p->a, p->b, kind, line);
}

static void parse_statement(fl_front *p);

static void statement_into(fl_front *p, fl_kblock *b) {
  fl_kblock *out = fl_front_into(p, b);
  const int64_t scope = p->syms.n;
  parse_statement(p);
  p->syms.n = scope;
  fl_front_into(p, out);
}

void fl_parse_compound(fl_front *p) {
  const int64_t scope = p->syms.n, outer = p->scope;
  p->scope = scope;
  fl_front_need(p, '{');
  while (!p->failed && !fl_front_is(p, '}') && fl_front_tok(p)->kind != FL_TOK_END)
    parse_statement(p);
  fl_front_need(p, '}');
  p->syms.n = scope;
  p->scope = outer;
}

static void skip_parts(fl_front *p) {
  while (fl_front_is(p, '[') && fl_front_is_at(p, 1, '[')) fl_front_skip(p);
  if (fl_front_is(p, '{')) { fl_front_skip(p); return; }
  const int is_if = fl_ktok_is(fl_front_tok(p), "if"), is_do = fl_ktok_is(fl_front_tok(p), "do");
  if (is_if || fl_ktok_is(fl_front_tok(p), "for") || fl_ktok_is(fl_front_tok(p), "while") ||
      fl_ktok_is(fl_front_tok(p), "switch")) {
    p->at++;
    fl_front_word(p, "constexpr");
    fl_front_skip(p);
    fl_skip_statement(p);
    if (is_if && fl_front_word(p, "else")) fl_skip_statement(p);
    return;
  }
  if (is_do) { p->at++; fl_skip_statement(p); }
  fl_front_skip_to(p, ';', ';');
  fl_front_take(p, ';');
}

/* Skips a statement that is not read. */
void fl_skip_statement(fl_front *p) {
  if (fl_front_enter(p)) skip_parts(p);
  p->nest--;
}

/* if constexpr: the branch not chosen is not read. */
static void chosen(fl_front *p, const fl_kexpr *c, int32_t line) {
  if (c && c->kind != FL_KX_CONST) fl_refuse(p, line, "if constexpr of what is no constant");
  if (!c || p->failed) return;
  const int yes = c->value.i != 0;
  const int64_t scope = p->syms.n;
  if (yes) parse_statement(p);
  else fl_skip_statement(p);
  if (fl_front_word(p, "else")) {
    if (yes) fl_skip_statement(p);
    else parse_statement(p);
  }
  p->syms.n = scope;
}

/* The parser is just after the '(' of a condition: is there a ';' before its ')', not counting any
** inside inner (…) or {…}? */
static int has_init(fl_front *p) {
  int depth = 1;
  for (int k = 0; depth > 0 && fl_front_ahead(p, k)->kind != FL_TOK_END; k++) {
    if (depth == 1 && fl_front_is_at(p, k, ';')) return 1;
    depth += fl_front_is_at(p, k, '(') + fl_front_is_at(p, k, '{') - fl_front_is_at(p, k, ')') -
             fl_front_is_at(p, k, '}');
  }
  return 0;
}

/* The condition of if (…): "e", "init; e", "T v = e" or "init; T v = e". */
static fl_kexpr *if_condition(fl_front *p, int32_t line) {
  if (has_init(p)) {
    if (fl_decl_starts(p, 0)) fl_decl_local(p);
    else { p->statement = 1; fl_parse_expr(p); fl_front_need(p, ';'); }
  }
  if (!fl_decl_starts(p, 0) || fl_front_is_at(p, 1, '(') || fl_front_is_at(p, 1, '{'))
    return fl_parse_condition(p);
  const int64_t from = p->at;
  fl_front_seek(p, '=', ')');
  const fl_ktok name = p->toks.at[p->at - 1];
  const int declares = fl_front_is(p, '=') && name.kind == FL_TOK_NAME;
  p->at = from;
  if (!declares) return fl_parse_condition(p);
  fl_decl_one(p);
  const fl_symbol *s = p->failed ? NULL : fl_front_find(p, name.text, name.n);
  if (!s) return NULL;
  return fl_val_truth(p, s->kind == FL_SYM_CONSTANT ? fl_val_expr(s->v.e) : s->v, line);
}

/* Reads a statement into 'block'. 'dead': it is never reached, so it is left out if it is outside
** the language; but not if a switch may jump into it, or if it asserts something. */
static void branch(fl_front *p, fl_kblock *block, int dead) {
  static const char *const kept[] = { "case", "default", "static_assert" };
  const fl_kattempt from = fl_front_try(p);
  const fl_kblock before = *block;
  statement_into(p, block);
  if (!dead || !p->failed || !fl_front_undo(p, &from)) return;
  const fl_ktok was = { .line = p->line, .text = p->why };
  fl_skip_statement(p);
  for (int64_t i = from.at; i < p->at; i++)
    if (fl_ktok_among(&p->toks.at[i], kept, 3) >= 0) fl_refuse(p, was.line, "%s", was.text);
  *block = before;
}

static void parse_if(fl_front *p, int32_t line) {
  const int fixed = fl_front_word(p, "constexpr");
  const int64_t scope = p->syms.n;
  fl_front_need(p, '(');
  fl_kblock *out = p->b;
  if (fixed) p->b = NULL;
  fl_kexpr *c = if_condition(p, line);
  p->b = out;
  fl_front_need(p, ')');
  if (fixed) { chosen(p, c, line); p->syms.n = scope; return; }
  fl_kstmt *s = fl_emit(p, FL_KS_IF, line);
  if (!s) return;
  s->x[0] = c;
  const int known = c && c->kind == FL_KX_CONST, is = known && c->value.i != 0;
  branch(p, &s->body, known && !is);
  if (fl_front_word(p, "else")) branch(p, &s->other, is);
  p->syms.n = scope;
}

/* ---- loops ----------------------------------------------------------------------------------- */

/* Begins the loop's body with the effects of c and "if (!c) break;". */
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

/* The condition c of the do-while loop s in 'out', after statements in the loop's step, which keeps
** it in a variable that is declared before the loop. */
static fl_kexpr *kept_condition(fl_front *p, fl_kblock *out, fl_kstmt *s, fl_kexpr *c) {
  fl_kblock before = { NULL, NULL };
  fl_front_into(p, &before);
  const int again = fl_front_temp(p, c->type, s->line);
  fl_front_into(p, out);
  fl_kblock_before(out, s, before);
  return again >= 0 && fl_kstmt_assign(p->f, &s->other, again, c) ? fl_kexpr_var(p->f, again) : c;
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
  if (!c || p->failed) return;
  const int fixed = c->kind == FL_KX_CONST;
  if (!fixed || !c->value.i) s->x[0] = fixed || !s->other.first ? c : kept_condition(p, out, s, c);
}

/* Declares the loop variable of a range-based for: another name of the element, or a copy. */
static void bind_element(fl_front *p, const fl_specifiers *s, const fl_ctype *t, int ref,
                         const char *name, fl_cvalue e, int32_t line) {
  fl_cvalue v = e;
  if (!ref) {
    v = fl_decl_object(p, s->is_auto ? e.type : t, name, line);
    if (!p->failed) fl_member_copy(p, v, e, line);
  } else if (!s->is_auto && !fl_ctype_same(t, e.type)) {
    fl_refuse(p, line, "reference '%s' needs a variable of its type", name);
  }
  v.is_const |= s->is_const;
  fl_front_bind(p, name, ref ? FL_SYM_REFERENCE : FL_SYM_OBJECT, v);
}

/* Reads the loop over the first n elements of 'over', an array or what a pointer points to. */
static void range_of_array(fl_front *p, const fl_specifiers *s, const fl_ctype *t, int ref,
                           const char *name, fl_cvalue over, fl_kexpr *n, int32_t line) {
  fl_kexpr *at;
  fl_kstmt *loop = n ? fl_emit_count(p, 0, n, &at, line) : NULL;
  if (!loop) return;
  fl_kblock *out = fl_front_into(p, &loop->body);
  bind_element(p, s, t, ref, name, fl_val_index(p, over, at, line), line);
  fl_front_into(p, out);
  loop_body(p, loop);
}

/* Reads a range-based for over an object with begin() and end(), whose results are pointers or have
** !=, * and ++. */
static void range_of_object(fl_front *p, const fl_specifiers *s, const fl_ctype *t, int ref,
                            const char *name, fl_cvalue over, int32_t line) {
  fl_cvalue v, it[2] = { fl_member_bound(p, &over, "begin", line),
                         fl_member_bound(p, &over, "end", line) };
  if (!p->failed && it[0].kind == FL_V_POINTER) {
    fl_kexpr *n = fl_val_scalar(p, fl_binary(p, FL_KO_SUB, it[1], it[0], line), line);
    range_of_array(p, s, t, ref, name, it[0], n ? fl_val_stable(p, n) : NULL, line);
    return;
  }
  fl_kblock effects = { NULL, NULL };
  fl_kblock *out = fl_front_into(p, &effects);
  if (!p->failed && !fl_operator(p, "operator!=", it, 2, &v, line))
    fl_refuse(p, line, "what begin() and end() give has no operator !=");
  fl_kexpr *more = p->failed ? NULL : fl_val_truth(p, v, line);
  fl_front_into(p, out);
  fl_kstmt *loop = p->failed ? NULL : new_loop(p, line);
  if (!loop) return;
  set_condition(p, loop, effects, more, line);
  fl_front_into(p, &loop->body);
  if (!fl_operator(p, "operator*", it, 1, &v, line) && !p->failed)
    fl_refuse(p, line, "what begin() gives has no operator *");
  if (!p->failed) bind_element(p, s, t, ref && v.kind == FL_V_PLACE, name, v, line);
  fl_front_into(p, out);
  loop_body(p, loop);
  fl_front_into(p, &loop->other);
  if (!p->failed && !fl_operator(p, "operator++", it, 1, &v, line))
    fl_refuse(p, line, "what begin() gives has no operator ++");
  fl_front_into(p, out);
}

static void parse_range(fl_front *p, int32_t line) {
  int ref;
  const fl_specifiers s = fl_decl_specifiers(p);
  const fl_ctype *t = s.type ? fl_decl_pointers(p, &s, &ref) : NULL;
  const char *name = fl_front_name(p);
  fl_front_need(p, ':');
  const fl_cvalue over = fl_front_is(p, '{') ? fl_decl_listed(p, s.is_auto ? NULL : t, line)
                                             : fl_parse_expr(p);
  fl_front_need(p, ')');
  if (!p->failed && t && over.kind == FL_V_PLACE && over.type->kind == FL_C_STRUCT) {
    range_of_object(p, &s, t, ref, name, over, line);
    return;
  }
  if (!p->failed && !(over.kind == FL_V_PLACE && over.type->kind == FL_C_ARRAY))
    fl_refuse(p, line, "a range that is no array");
  if (t && !p->failed)
    range_of_array(p, &s, t, ref, name, over, fl_kexpr_int(p->a, FL_KT_I64, over.type->count),
                   line);
}

/* Reads a for loop. Names declared in its header end with the loop. */
static void parse_for(fl_front *p, int32_t line) {
  const int64_t scope = p->syms.n;
  fl_kblock effects = { NULL, NULL }, step = { NULL, NULL };
  fl_kexpr *c = NULL;
  fl_front_need(p, '(');
  if (fl_decl_is_range(p)) {
    parse_range(p, line);
    p->syms.n = scope;
    return;
  }
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

/* ---- switch ---------------------------------------------------------------------------------- */

typedef struct group {
  fl_kexpr *when;            /* BOOL: the switch enters at this group; NULL: only by default */
  int is_default;
  fl_kblock body;
  struct group *next;
} group;

static int is_last(const fl_kstmt *s, int label) {
  return s && s->kind == FL_KS_LEAVE && s->label == label;
}

static int ends(const fl_kstmt *s) {
  return s &&
         (s->kind == FL_KS_RETURN || s->kind == FL_KS_CONTINUE || s->kind == FL_KS_LEAVE);
}

enum { MOST_CHAINED = 64 };            /* most groups that become an if-chain (nested IFs) */

/* Can the switch be an if-chain? It can if no group falls through into the next, and each has a
** break (a LEAVE of the switch) only at its end. */
static int is_chain(const group *g, int label) {
  for (int count = 0; g; g = g->next) {
    if (++count > MOST_CHAINED) return 0;
    const int n = fl_kleaves(g->body, label) - is_last(g->body.last, label);
    if (n || (g->next && !ends(g->body.last))) return 0;
  }
  return 1;
}

static void emit_chain(fl_front *p, group *groups, int label, int32_t line) {
  const group *other = NULL;
  fl_kblock *out = p->b;
  for (group *g = groups; g && !p->failed; g = g->next) {
    if (is_last(g->body.last, label)) fl_kblock_drop_last(&g->body);
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

/* Emits the switch as: entry = the group to begin with (n: none of the n groups); then { if (entry
** <= 0) {…} if (entry <= 1) {…} … }. */
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

/* Takes the case and default labels before group g of a switch over v. 0: there are none here. */
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

/* Reads the groups. The first 64 may become nested ifs (emit_chain), so each of them is read one
** level deeper than the previous one. */
static group *parse_groups(fl_front *p, fl_kexpr *v) {
  group *first = NULL, *last = NULL;
  int n = 0;
  while (!p->failed && !fl_front_is(p, '}')) {
    group *g = fl_karena_new(p->a, sizeof *g);
    if (!g) return NULL;
    if (n++ < MOST_CHAINED) p->nest++;
    if (!parse_labels(p, g, v)) {
      fl_refuse(p, fl_front_tok(p)->line,
                "a statement before the first case of a switch");
      return NULL;
    }
    p->b = &g->body;
    while (!p->failed && !fl_front_is(p, '}') && !fl_ktok_is(fl_front_tok(p), "case") &&
           !fl_ktok_is(fl_front_tok(p), "default") && fl_front_tok(p)->kind != FL_TOK_END)
      parse_statement(p);
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
  const int nest = p->nest;
  fl_kblock *out = p->b;
  p->breaks = FL_BREAK_SWITCH;
  p->break_label = own;
  group *g = v ? parse_groups(p, v) : NULL;
  p->nest = nest;
  fl_front_need(p, '}');
  p->b = out;
  p->breaks = breaks;
  p->break_label = label;
  p->syms.n = scope;
  if (p->failed || !g) return;
  if (is_chain(g, own)) emit_chain(p, g, own, line);
  else emit_fallthrough(p, g, own, line);
}

/* ---- jumps ----------------------------------------------------------------------------------- */

static void parse_break(fl_front *p, int32_t line) {
  if (p->breaks == FL_BREAK_NONE) fl_refuse(p, line, "break outside a loop");
  fl_kstmt *s =
      fl_emit(p, p->breaks == FL_BREAK_SWITCH ? FL_KS_LEAVE : FL_KS_BREAK, line);
  if (s && p->breaks == FL_BREAK_SWITCH) s->label = p->break_label;
}

/* ---- all statements -------------------------------------------------------------------------- */

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
    fl_parse_return(p, line);
  }
  fl_front_need(p, ';');
}

/* Skips [[…]] and _Pragma(…) before a statement, which have no meaning here. */
static void skip_attributes(fl_front *p) {
  for (;;) {
    const int brackets = fl_front_is(p, '[') && fl_front_is_at(p, 1, '[');
    if (!brackets && !fl_front_word(p, "_Pragma")) return;
    fl_front_skip(p);
  }
}

/* Takes a statement that emits nothing: a namespace alias, a static_assert (which is checked),
** __builtin_assume(…) and similar calls. 0: there is none. */
static int skip_hint(fl_front *p) {
  if (fl_front_word(p, "namespace")) { fl_scope_rename(p); return 1; }
  const fl_ktok *t = fl_front_tok(p);
  if (fl_ktok_is(t, "static_assert")) { fl_decl_assert(p); return 1; }
  const int call = fl_ktok_is(t, "__builtin_assume") || fl_ktok_is(t, "__assume") ||
                   fl_ktok_is(t, "__builtin_unreachable");
  if (!call) return 0;
  fl_front_next(p);
  fl_front_skip(p);
  fl_front_take(p, ';');
  return 1;
}

static void statement(fl_front *p) {
  skip_attributes(p);
  if (fl_front_is(p, '}')) return;       /* [[…]] or _Pragma(…) may be the last thing in a block */
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
  else if (fl_decl_begins(p, t)) fl_decl_local(p);
  else expression_statement(p);
}

static void parse_statement(fl_front *p) {
  /* statements whose headers may declare names, which are in a separate scope */
  static const char *const heads[] = { "if", "for", "while", "switch" };
  const int64_t outer = p->scope;
  if (fl_ktok_among(fl_front_tok(p), heads, 4) >= 0) p->scope = p->syms.n;
  if (fl_front_enter(p)) statement(p);
  p->scope = outer;
  p->nest--;
}
