/*
** Finds where variables without DECL begin, of which derivatives have many. If the first mention of
** a variable is an assignment, in the block around all its mentions, no earlier value can be read:
** it counts as declared there (each iteration of a loop begins with that assignment, or never
** mentions it).
*/
#include "kernel/lanes/lane_code.h"

typedef struct scope {
  const fl_kfunc *f;
  int32_t *outer, *depth;     /* by block, numbered in pre-order: the block around it (-1: none);
                              ** its depth */
  int32_t *common;      /* by variable: the innermost block around all its mentions; -1: none yet */
  int32_t *home;              /* by variable: block of the first mention */
  int32_t *first;             /* by variable: the assignment that is its first mention, or -1 */
  int32_t block, n_blocks, stmt;
} scope;

static void mention(scope *s, int var, int assigned) {
  int a = s->common[var], b = s->block;
  if (a < 0) {
    s->common[var] = s->home[var] = b;
    s->first[var] = assigned ? s->stmt : -1;
    return;
  }
  while (a != b) {
    if (s->depth[a] >= s->depth[b]) a = s->outer[a];
    else b = s->outer[b];
  }
  s->common[var] = a;
}

static int mention_expr(void *arg, fl_kexpr *x) {
  if (x->kind == FL_KX_VAR) mention(arg, x->var, 0);
  return 1;
}

static void visit_block(scope *s, const fl_kblock *b);

static void visit(scope *s, const fl_kstmt *st) {
  const fl_kvisitor v = { NULL, mention_expr, s };
  s->stmt++;
  fl_kwalk_operands(&v, st);
  if (st->kind == FL_KS_ASSIGN) mention(s, st->var, 1);
  if (st->kind == FL_KS_DECL && s->f->vars[st->var].kind == FL_KV_LOCAL) mention(s, st->var, 0);
  if (st->result >= 0) mention(s, st->result, 1);
  visit_block(s, &st->body);
  visit_block(s, &st->other);
}

static void visit_block(scope *s, const fl_kblock *b) {
  const int outer = s->block;
  s->block = s->n_blocks++;
  s->outer[s->block] = outer;
  s->depth[s->block] = outer < 0 ? 0 : s->depth[outer] + 1;
  for (const fl_kstmt *st = b->first; st; st = st->next) visit(s, st);
  s->block = outer;
}

int fl_lane_scopes(fl_mem *m, const fl_kfunc *f, int32_t n_stmts, int32_t *first) {
  const size_t n = (size_t)f->n_vars, blocks = 2 * (size_t)n_stmts + 1, all = 2 * (n + blocks);
  int32_t *space = fl_alloc(m, all * sizeof *space);
  if (!space) return 0;
  scope s = { .f = f, .outer = space, .depth = space + blocks, .common = space + 2 * blocks,
              .home = space + 2 * blocks + n, .first = first, .block = -1, .stmt = -1 };
  for (size_t k = 0; k < n; k++) s.common[k] = s.home[k] = first[k] = -1;
  visit_block(&s, &f->body);
  for (size_t k = 0; k < n; k++)
    if (s.common[k] != s.home[k] || f->vars[k].param >= 0) first[k] = -1;
  fl_free(m, space, all * sizeof *space);
  return 1;
}
