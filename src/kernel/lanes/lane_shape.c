/*
** Which values are the same for all lanes, and where lanes diverge.
**
** A statement has a level: the number of constructs around it in which lanes may be masked off
** (divergent IFs, loops and BLOCKs, and "dirty" loop bodies, where some lanes have continued with
** the next iteration). A variable is the same for all lanes if it is assigned uniform values only,
** each at the level of its declaration: then every lane that can read it was active. If an
** assignment is at a higher level, it must also keep the old value of inactive lanes. A variable
** without DECL, or used outside the block of its DECL, begins where lane_scope.c says, or is at
** level 0. Facts are only added, so passes are repeated until there is no new one.
*/
#include "kernel/facts/defs.h"
#include "kernel/facts/form.h"
#include "kernel/lanes/lane_code.h"
#include <string.h>

enum { MOST_DECLS = 128 };    /* the most DECLs of one block that are followed; variables of others
                              ** count as at level 0, the lowest */

typedef struct target {       /* a LOOP or BLOCK around the current statement */
  struct target *outer;
  const fl_kstmt *stmt;
  int32_t id, level;          /* level: inside it, without dirty bodies */
} target;

typedef struct shape {
  const fl_kfunc *f;
  fl_lane_shape *out;
  int32_t *level;             /* by variable: level (masks around) of its current DECL; -1: none */
  uint8_t *outside;           /* by variable: mentioned outside the block of its DECL */
  int32_t *first;             /* by variable: the statement that acts as DECL; -1: none */
  int32_t id;
  int changed;
  target *targets;
} shape;

static void mark(shape *s, int id, int flag) {
  if (s->out->flags[id] & flag) return;
  s->out->flags[id] |= (uint8_t)flag;
  s->changed = 1;
}

static void set_varying(shape *s, int var) {
  if (s->out->varying[var]) return;
  s->out->varying[var] = 1;
  s->changed = 1;
}

int fl_lane_varying(const fl_lane_shape *s, const fl_kfunc *f, const fl_kexpr *x) {
  switch (x->kind) {
    case FL_KX_VAR: return s->varying[x->var];
    case FL_KX_SPECIAL: return x->op <= FL_KSPECIAL_TID_Z;
    case FL_KX_LOAD: if (f->vars[x->var].kind == FL_KV_ARRAY) return 1; break;
    default: break;
  }
  for (int i = 0; i < x->n; i++)
    if (fl_lane_varying(s, f, x->x[i])) return 1;
  return 0;
}

/* The level of the DECL of var, which is mentioned here; 0: it is mentioned outside that DECL's
** block. */
static int var_level(shape *s, int var) {
  if (s->level[var] < 0 && !s->outside[var]) {
    s->outside[var] = 1;
    s->changed = 1;
  }
  return s->outside[var] ? 0 : s->level[var];
}

static int note_vars(void *arg, fl_kexpr *x) {
  if (x->kind == FL_KX_VAR) var_level(arg, x->var);
  return 1;
}

/* Statement id, at this level, assigns to var a value; varying: it may differ between lanes. */
static void assign(shape *s, int id, int var, int level, int varying) {
  const int own = var_level(s, var);
  if (level > own) mark(s, id, FL_SHAPE_BLEND);
  if (varying || level > own) set_varying(s, var);
}

static int flag(const shape *s, int id, int f) { return (s->out->flags[id] & f) != 0; }

/* Marks the innermost loop, which a BREAK or CONTINUE leaves or continues, if only some of its
** lanes reach that statement. */
static void leave_loop(shape *s, const fl_kstmt *st, int level) {
  target *t = s->targets;
  while (t && t->stmt->kind != FL_KS_LOOP) t = t->outer;
  if (!t || level <= t->level) return;
  mark(s, t->id, st->kind == FL_KS_BREAK ? FL_SHAPE_MASKED : FL_SHAPE_CONTINUE);
}

/* Marks the block that a LEAVE leaves, and what is between, if only some lanes reach the LEAVE. */
static void leave_block(shape *s, const fl_kstmt *st, int level) {
  target *t = s->targets;
  while (t && !(t->stmt->kind == FL_KS_BLOCK && t->stmt->label == st->label)) t = t->outer;
  if (!t || level <= t->level) return;
  mark(s, t->id, FL_SHAPE_MASKED);
  for (target *u = s->targets; u != t; u = u->outer) mark(s, u->id, FL_SHAPE_MASKED);
}

/* assigned_first: is the first statement after a DECL that mentions its variable an assignment to
** it? The visitor finds any mention. */
typedef struct mention { int var, found; } mention;
static int mention_expr(void *arg, fl_kexpr *x) {
  mention *m = arg;
  if (x->kind == FL_KX_VAR && x->var == m->var) m->found = 1;
  return !m->found;
}
static int mention_stmt(void *arg, fl_kstmt *st) {
  mention *m = arg;
  if (st->kind == FL_KS_ASSIGN && st->var == m->var) m->found = 1;
  if (st->result == m->var) m->found = 1;
  return !m->found;
}
static int assigned_first(const fl_kstmt *decl) {
  for (fl_kstmt *st = decl->next; st; st = st->next) {
    mention m = { decl->var, 0 };
    const int here = st->kind == FL_KS_ASSIGN || st->kind == FL_KS_ATOMIC ||
                     st->kind == FL_KS_SHUFFLE || st->kind == FL_KS_VOTE;
    if (here) {
      fl_kwalk_operands(&(fl_kvisitor){ NULL, mention_expr, &m }, st);
      if (m.found) return 0;
      if ((st->kind == FL_KS_ASSIGN ? st->var : st->result) == decl->var) return 1;
    } else {
      const fl_kvisitor v = { mention_stmt, mention_expr, &m };
      fl_kwalk_stmt(&v, st);
      if (m.found) return 0;
    }
  }
  return 1;                                                /* never read */
}

static void visit_block(shape *s, const fl_kblock *b, int level);

static void visit_if(shape *s, const fl_kstmt *st, int id, int level) {
  if (fl_lane_varying(s->out, s->f, st->x[0])) mark(s, id, FL_SHAPE_MASKED);
  const int inner = level + flag(s, id, FL_SHAPE_MASKED);
  visit_block(s, &st->body, inner);
  visit_block(s, &st->other, inner);
}

static void visit_loop(shape *s, const fl_kstmt *st, int id, int level) {
  if (st->x[0] && fl_lane_varying(s->out, s->f, st->x[0])) mark(s, id, FL_SHAPE_MASKED);
  const int inner = level + flag(s, id, FL_SHAPE_MASKED);
  target t = { s->targets, st, id, inner };
  s->targets = &t;
  visit_block(s, &st->body, inner + flag(s, id, FL_SHAPE_CONTINUE));
  visit_block(s, &st->other, inner);
  s->targets = t.outer;
}

static void visit_labelled(shape *s, const fl_kstmt *st, int id, int level) {
  const int inner = level + flag(s, id, FL_SHAPE_MASKED);
  target t = { s->targets, st, id, inner };
  s->targets = &t;
  visit_block(s, &st->body, inner);
  s->targets = t.outer;
}

static void declare(shape *s, const fl_kstmt *st, int id) {
  if (s->f->vars[st->var].kind != FL_KV_LOCAL) return;
  if (!s->f->vars[st->var].temporary && !assigned_first(st)) mark(s, id, FL_SHAPE_TRACK);
}

/* The variable that is declared by this statement; -1: none. */
static int begins(const shape *s, const fl_kstmt *st, int id) {
  if (st->kind == FL_KS_DECL) return s->f->vars[st->var].kind == FL_KV_LOCAL ? st->var : -1;
  const int var = st->kind == FL_KS_ASSIGN ? st->var : st->result;
  return var >= 0 && s->first[var] == id ? var : -1;
}

static void visit(shape *s, const fl_kstmt *st, int level) {
  const int id = s->id++, fresh = begins(s, st, id);
  if (fresh >= 0 && s->level[fresh] < 0) s->level[fresh] = level;
  fl_kwalk_operands(&(fl_kvisitor){ NULL, note_vars, s }, st);
  switch (st->kind) {
    case FL_KS_DECL: declare(s, st, id); break;
    case FL_KS_ASSIGN:
      assign(s, id, st->var, level, fl_lane_varying(s->out, s->f, st->x[0]));
      break;
    case FL_KS_ATOMIC: case FL_KS_SHUFFLE: case FL_KS_VOTE:
      if (st->result >= 0) assign(s, id, st->result, level, 1);
      break;
    case FL_KS_IF: visit_if(s, st, id, level); break;
    case FL_KS_LOOP: visit_loop(s, st, id, level); break;
    case FL_KS_BLOCK: visit_labelled(s, st, id, level); break;
    case FL_KS_BREAK: case FL_KS_CONTINUE: leave_loop(s, st, level); break;
    case FL_KS_LEAVE: leave_block(s, st, level); break;
    default: break;
  }
}

static void visit_block(shape *s, const fl_kblock *b, int level) {
  int32_t declared[MOST_DECLS];
  int n = 0;
  for (const fl_kstmt *st = b->first; st; st = st->next) {
    /* a DECL inside the block of another DECL of the same variable keeps the lower level */
    const int var = begins(s, st, s->id), fresh = var >= 0 && s->level[var] < 0;
    visit(s, st, level);
    if (!fresh) continue;
    if (n < MOST_DECLS) declared[n++] = var;
    else { s->outside[var] = 1; s->level[var] = -1; }
  }
  while (n > 0) s->level[declared[--n]] = -1;
}

int fl_lane_shape_make(fl_mem *m, const fl_kfunc *f, fl_lane_shape *out) {
  memset(out, 0, sizeof *out);
  out->n_stmts = fl_kblock_length(f->body);
  out->n_vars = f->n_vars;
  const size_t vars = (size_t)f->n_vars;
  out->flags = fl_zalloc(m, (size_t)out->n_stmts);
  out->varying = fl_zalloc(m, vars);
  shape s = { .f = f, .out = out, .level = fl_alloc(m, vars * sizeof *s.level),
              .outside = fl_zalloc(m, vars), .first = fl_alloc(m, vars * sizeof *s.first) };
  const int ok = out->flags && out->varying && s.level && s.outside && s.first &&
                 fl_lane_scopes(m, f, out->n_stmts, s.first);
  if (ok) {
    for (size_t k = 0; k < vars; k++) s.level[k] = -1;
    do {
      s.changed = s.id = 0;
      visit_block(&s, &f->body, 0);
    } while (s.changed);
  }
  fl_free(m, s.level, vars * sizeof *s.level);
  fl_free(m, s.outside, vars);
  fl_free(m, s.first, vars * sizeof *s.first);
  if (!ok) fl_lane_shape_free(m, out);
  return ok;
}

void fl_lane_shape_free(fl_mem *m, fl_lane_shape *s) {
  fl_free(m, s->flags, (size_t)s->n_stmts);
  fl_free(m, s->varying, (size_t)s->n_vars);
  s->flags = s->varying = NULL;
}

/* ---- does the order of blocks show? -------------------------------------------------- */

typedef struct uses {
  const fl_kfunc *f;
  const fl_kdefs *defs;
  uint8_t *touched;           /* by variable: fl_lane_array.touched */
  int atomic;                 /* an atomic in global memory */
} uses;

/* A variable with only one value is replaced by it; other variables have no polynomial. */
static fl_kpoly of_variable(const fl_kreader *r, int32_t var, int depth) {
  const uses *u = r->arg;
  const fl_kexpr *value = fl_kdef_only(u->defs, var);
  return value ? fl_kform_read(r, value, depth + 1) : (fl_kpoly){ .bad = 1 };
}

/* Is x equal to blockIdx.x * blockDim.x + threadIdx.x? */
static int is_thread_id(const uses *u, const fl_kexpr *x) {
  const fl_kreader r = { .var = of_variable, .arg = u };
  fl_kpoly p = fl_kform_read(&r, x, 0);
  if (!p.bad) fl_kpoly_join(&p);
  return fl_kpoly_is(&p, FL_KSYM_GLOBAL);
}

static void touch(uses *u, int var, const fl_kexpr *index, int how) {
  if (u->f->vars[var].kind != FL_KV_POINTER) return;
  u->touched[var] |= (uint8_t)(how | (is_thread_id(u, index) ? 0 : 4));
}

static int touch_stmt(void *arg, fl_kstmt *s) {
  uses *u = arg;
  if (s->kind == FL_KS_ATOMIC && u->f->vars[s->var].kind == FL_KV_POINTER) u->atomic = 1;
  if (s->kind == FL_KS_STORE) touch(u, s->var, s->x[0], 2 | s->accumulate);
  return 1;
}
static int touch_expr(void *arg, fl_kexpr *x) {
  if (x->kind == FL_KX_LOAD) touch(arg, x->var, x->x[0], 1);
  return 1;
}

int fl_lane_is_serial(fl_mem *m, const fl_kfunc *f, fl_lane_array *arrays) {
  const size_t n = (size_t)f->n_vars;
  fl_karena a;
  int serial = -1;
  fl_karena_init(&a, m);
  uses u = { .f = f, .defs = fl_kdefs_new(&a, f, f->body), .touched = fl_karena_new(&a, n + 1) };
  if (!a.failed) {
    const fl_kvisitor look = { touch_stmt, touch_expr, &u };
    fl_kwalk_block(&look, f->body);
    serial = u.atomic || f->uses_printf;
    for (size_t v = 0; v < n; v++) {
      serial |= u.touched[v] == 7;
      arrays[v].touched = u.touched[v];
    }
  }
  fl_karena_close(&a);
  return serial;
}
