/* Checks the invariants of tree.h (verify.h). */
#include "kernel/tree/verify.h"
#include "kernel/tree/builtins.h"
#include "base/env.h"
#include "base/hash.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct verifier {
  const fl_kfunc *f;
  const char *fault;             /* the first one */
  uint8_t *declared;         /* by variable: 1: it has a DECL somewhere; 2: that DECL is in scope */
  uint8_t *label, *loop;         /* taken numbers */
  int32_t line;
} verifier;

typedef struct scope {           /* the constructs around a statement, innermost first */
  const struct scope *up;
  const fl_kstmt *s;
  int step;                      /* s is a LOOP, and the statement is in its step ('other') */
} scope;

__attribute__((format(printf, 2, 3)))
static int fail(verifier *v, const char *fmt, ...) {
  if (v->fault) return 0;
  char text[160];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  v->fault = fl_karena_printf(v->f->arena, "line %d: %s", v->line, text);
  if (!v->fault) v->fault = "out of memory";
  return 0;
}

#define NEED(cond, ...) \
  do { \
    if (!(cond)) return fail(v, __VA_ARGS__); \
  } while (0)

static int is_arithmetic(int t) { return t >= FL_KT_I32 && t < FL_KT_COUNT; }
static int is_integer(int t) { return t >= FL_KT_I32 && t <= FL_KT_U64; }

/* ---- expressions ---- */

static int usable(verifier *v, int32_t var) {
  NEED(var >= 0 && var < v->f->n_vars, "variable %d of %d", var, v->f->n_vars);
  NEED(v->declared[var] != 1 || v->f->vars[var].temporary,
       "variable %d is used outside the scope of its DECL", var);
  return 1;
}

static int check_load(verifier *v, const fl_kexpr *x) {
  if (!usable(v, x->var)) return 0;
  const fl_kvar *w = &v->f->vars[x->var];
  NEED(w->kind != FL_KV_LOCAL, "load of the scalar %d", x->var);
  NEED(x->type == w->type, "load of type %d from an array of type %d", x->type, w->type);
  NEED(x->x[0]->type == FL_KT_I64, "index of type %d", x->x[0]->type);
  NEED(x->site >= 0 && x->site < v->f->n_sites, "site %d of %d", x->site, v->f->n_sites);
  return 1;
}

static int check_unary(verifier *v, const fl_kexpr *x) {
  const int t = x->x[0]->type;
  NEED(x->type == t, "unary of type %d over type %d", x->type, t);
  switch (x->op) {
    case FL_KO_NEG: NEED(is_arithmetic(t), "negation of type %d", t); return 1;
    case FL_KO_INVERT: NEED(is_integer(t), "~ of type %d", t); return 1;
    default:
      NEED(x->op == FL_KO_NOT && t == FL_KT_BOOL, "unary operator %d of type %d", x->op, t);
      return 1;
  }
}

static int check_binary(verifier *v, const fl_kexpr *x) {
  const int a = x->x[0]->type, b = x->x[1]->type;
  if (x->op == FL_KO_SHL || x->op == FL_KO_SHR) {
    NEED(x->type == a && is_integer(a) && is_integer(b), "shift of type %d by type %d", a, b);
    return 1;
  }
  NEED(a == b, "operands of types %d and %d", a, b);
  if (x->op >= FL_KO_LT && x->op <= FL_KO_NE) {
    NEED(x->type == FL_KT_BOOL && (is_arithmetic(a) || a == FL_KT_BOOL),
         "comparison of type %d gives type %d", a, x->type);
  } else if (x->op == FL_KO_LAND || x->op == FL_KO_LOR) {
    NEED(x->type == FL_KT_BOOL && a == FL_KT_BOOL, "logic of type %d gives type %d", a, x->type);
  } else if (x->op >= FL_KO_AND && x->op <= FL_KO_XOR) {
    NEED(x->type == a && is_integer(a), "bits of type %d give type %d", a, x->type);
  } else {
    NEED(x->op >= FL_KO_ADD && x->op <= FL_KO_REM, "binary operator %d", x->op);
    NEED(x->type == a && is_arithmetic(a), "arithmetic of type %d gives type %d", a, x->type);
    NEED(x->op != FL_KO_REM || is_integer(a), "remainder of type %d", a);
  }
  return 1;
}

static int check_call(verifier *v, const fl_kexpr *x) {
  NEED(x->op < FL_KB_COUNT, "builtin %d of %d", x->op, FL_KB_COUNT);
  const fl_kbuiltin_info *b = &fl_kbuiltins[x->op];
  NEED(x->n == b->n, "%d operands where %d belong", x->n, b->n);
  const int first = x->x[0]->type;
  if (b->rule == FL_KBR_BITS) {
    NEED(x->type == b->result, "a function of bits of type %d, not %d", x->type, b->result);
    for (int i = 0; i < x->n; i++)
      NEED(x->x[i]->type == b->arg, "operand of type %d, not %d", x->x[i]->type, b->arg);
    return 1;
  }
  NEED(x->type == (b->rule == FL_KBR_TEST ? FL_KT_BOOL : first),
       "a function over type %d gives type %d", first, x->type);
  NEED(b->rule == FL_KBR_INT ? is_integer(first) : first == FL_KT_F32 || first == FL_KT_F64,
       "a function of rule %d over type %d", b->rule, first);
  for (int i = 1; i < x->n; i++) {
    const int want = b->rule == FL_KBR_FLOATI && i == x->n - 1 ? FL_KT_I32 : first;
    NEED(x->x[i]->type == want, "operand of type %d, not %d", x->x[i]->type, want);
  }
  return 1;
}

static int operands_of(const fl_kexpr *x) {
  switch (x->kind) {
    case FL_KX_CONST: case FL_KX_VAR: case FL_KX_SPECIAL: return 0;
    case FL_KX_LOAD: case FL_KX_UNARY: case FL_KX_CAST: return 1;
    case FL_KX_BINARY: return 2;
    case FL_KX_SELECT: return 3;
    default: return x->n;
  }
}

static int check_kind(verifier *v, const fl_kexpr *x) {
  switch (x->kind) {
    case FL_KX_CONST:
      NEED(x->type > FL_KT_VOID && x->type < FL_KT_COUNT, "constant of type %d", x->type);
      return 1;
    case FL_KX_VAR:
      if (!usable(v, x->var)) return 0;
      NEED(v->f->vars[x->var].kind == FL_KV_LOCAL, "value of the array %d", x->var);
      NEED(x->type == v->f->vars[x->var].type, "variable read as type %d, not %d", x->type,
           v->f->vars[x->var].type);
      return 1;
    case FL_KX_LOAD: return check_load(v, x);
    case FL_KX_SPECIAL:
      NEED(x->op < FL_KSPECIAL_COUNT, "special %d of %d", x->op, FL_KSPECIAL_COUNT);
      NEED(x->type == (x->op == FL_KSPECIAL_WARP_SIZE ? FL_KT_I32 : FL_KT_U32),
           "special %d of type %d", x->op, x->type);
      return 1;
    case FL_KX_UNARY: return check_unary(v, x);
    case FL_KX_BINARY: return check_binary(v, x);
    case FL_KX_SELECT:
      NEED(x->x[0]->type == FL_KT_BOOL, "choice by type %d", x->x[0]->type);
      NEED(x->type == x->x[1]->type && x->type == x->x[2]->type, "choice of types %d and %d",
           x->x[1]->type, x->x[2]->type);
      return 1;
    case FL_KX_CAST:
      NEED(x->type > FL_KT_VOID && x->type < FL_KT_COUNT, "cast to type %d", x->type);
      return 1;
    case FL_KX_CALL: return check_call(v, x);
    default: return fail(v, "expression of kind %d", x->kind);
  }
}

/* Checks an expression and its operands. Their depth is bounded by FL_K_MAX_DEPTH. */
static int check_expr(verifier *v, const fl_kexpr *x) {
  int depth = 0;
  if (v->fault) return 0;
  NEED(x != NULL, "an expression is missing");
  NEED(x->n <= FL_K_MAX_ARGS && x->n == operands_of(x), "%d operands of an expression of kind %d",
       x->n, x->kind);
  for (int i = 0; i < x->n; i++) {
    NEED(x->x[i] != NULL, "operand %d is missing", i);
    NEED(x->x[i]->depth < x->depth, "depth %d over depth %d", x->depth, x->x[i]->depth);
    if (!check_expr(v, x->x[i])) return 0;
    if (x->x[i]->depth > depth) depth = x->x[i]->depth;
  }
  NEED(x->depth == depth + 1 && x->depth <= FL_K_MAX_DEPTH, "depth %d over depth %d",
       x->depth, depth);
  return check_kind(v, x);
}

static int check_typed(verifier *v, const fl_kexpr *x, int type) {
  if (!check_expr(v, x)) return 0;
  NEED(x->type == type, "a value of type %d where %d belongs", x->type, type);
  return 1;
}

/* ---- statements ---- */

static int check_block(verifier *v, fl_kblock b, const scope *up);

static int check_result(verifier *v, int32_t var) {
  if (var < 0) return 1;
  if (!usable(v, var)) return 0;
  NEED(v->f->vars[var].kind == FL_KV_LOCAL, "a result in the array %d", var);
  return 1;
}

static int check_atomic(verifier *v, const fl_kstmt *s, const fl_kvar *w) {
  NEED(w->kind == FL_KV_SHARED || w->kind == FL_KV_POINTER, "an atomic on variable %d of kind %d",
       s->var, w->kind);
  NEED(s->op < FL_KA_COUNT, "atomic operation %d of %d", s->op, FL_KA_COUNT);
  NEED(s->as < FL_KT_COUNT && (!s->as || fl_kt_size(s->as) == fl_kt_size(w->type)),
       "an atomic that sees type %d as type %d", w->type, s->as);
  const int type = s->as ? s->as : w->type;
  return check_typed(v, s->x[1], type) && (s->op != FL_KA_CAS || check_typed(v, s->x[2], type)) &&
         check_result(v, s->result);
}

static int check_memory(verifier *v, const fl_kstmt *s) {
  if (!usable(v, s->var) || !check_typed(v, s->x[0], FL_KT_I64)) return 0;
  const fl_kvar *w = &v->f->vars[s->var];
  NEED(w->kind != FL_KV_LOCAL && w->kind != FL_KV_TABLE, "a write to variable %d of kind %d",
       s->var, w->kind);
  NEED(!w->is_const, "a write to the constant array %d", s->var);
  NEED(s->site >= 0 && s->site < v->f->n_sites, "site %d of %d", s->site, v->f->n_sites);
  if (s->kind == FL_KS_ATOMIC) return check_atomic(v, s, w);
  return s->accumulate ? check_expr(v, s->x[1]) : check_typed(v, s->x[1], w->type);
}

static int check_loop(verifier *v, const fl_kstmt *s, const scope *up) {
  NEED(s->label >= 0 && s->label < v->f->n_loops, "loop %d of %d", s->label, v->f->n_loops);
  NEED(!v->loop[s->label], "loop %d appears twice", s->label);
  v->loop[s->label] = 1;
  const scope in = { up, s, 0 }, step = { up, s, 1 };
  if (s->x[0] && !check_typed(v, s->x[0], FL_KT_BOOL)) return 0;
  return check_block(v, s->body, &in) && check_block(v, s->other, &step);
}

static int check_exit(verifier *v, const fl_kstmt *s, const scope *up) {
  if (s->kind == FL_KS_LEAVE) {
    while (up && !(up->s->kind == FL_KS_BLOCK && up->s->label == s->label)) up = up->up;
    NEED(up != NULL, "LEAVE of block %d, which is not around it", s->label);
    return 1;
  }
  while (up && up->s->kind != FL_KS_LOOP) up = up->up;
  NEED(up != NULL && !up->step, "exit of kind %d without a loop to leave", s->kind);
  return 1;
}

static int check_choice(verifier *v, const fl_kstmt *s, const scope *up) {
  const scope in = { up, s, 0 };
  if (s->kind == FL_KS_IF)
    return check_typed(v, s->x[0], FL_KT_BOOL) && check_block(v, s->body, &in) &&
           check_block(v, s->other, &in);
  NEED(s->label >= 0 && s->label < v->f->n_labels, "block %d of %d", s->label, v->f->n_labels);
  NEED(!v->label[s->label], "block %d appears twice", s->label);
  v->label[s->label] = 1;
  return check_block(v, s->body, &in);
}

/* Checks SHUFFLE, VOTE, ASSERT, RETURN, BARRIER and PRINTF. */
static int check_rest(verifier *v, const fl_kstmt *s) {
  for (int i = 0; i < 4; i++)
    if (s->x[i] && !check_expr(v, s->x[i])) return 0;
  for (int i = 0; i < s->n_args; i++)
    if (!check_expr(v, s->args[i])) return 0;
  if (s->kind == FL_KS_SHUFFLE || s->kind == FL_KS_VOTE) return check_result(v, s->result);
  if (s->kind == FL_KS_ASSERT) return check_typed(v, s->x[0], FL_KT_BOOL);
  NEED(s->kind == FL_KS_RETURN || s->kind == FL_KS_BARRIER || s->kind == FL_KS_PRINTF,
       "statement of kind %d", s->kind);
  return 1;
}

static int check_stmt(verifier *v, const fl_kstmt *s, const scope *up) {
  v->line = s->line;
  switch (s->kind) {
    case FL_KS_DECL:
      NEED(s->var >= 0 && s->var < v->f->n_vars, "variable %d of %d", s->var, v->f->n_vars);
      NEED(v->f->vars[s->var].kind == FL_KV_LOCAL || v->f->vars[s->var].kind == FL_KV_ARRAY,
           "DECL of variable %d of kind %d", s->var, v->f->vars[s->var].kind);
      v->declared[s->var] = 2;
      return 1;
    case FL_KS_ASSIGN:
      if (!usable(v, s->var)) return 0;
      NEED(v->f->vars[s->var].kind == FL_KV_LOCAL, "assignment to the array %d", s->var);
      return check_typed(v, s->x[0], v->f->vars[s->var].type);
    case FL_KS_STORE: case FL_KS_ATOMIC: return check_memory(v, s);
    case FL_KS_IF: case FL_KS_BLOCK: return check_choice(v, s, up);
    case FL_KS_LOOP: return check_loop(v, s, up);
    case FL_KS_BREAK: case FL_KS_CONTINUE: case FL_KS_LEAVE: return check_exit(v, s, up);
    default: return check_rest(v, s);
  }
}

/* Checks a block. Variables that it declares are out of scope after it. */
static int check_block(verifier *v, fl_kblock b, const scope *up) {
  const fl_kstmt *last = NULL;
  for (const fl_kstmt *s = b.first; s; last = s, s = s->next)
    if (!check_stmt(v, s, up)) return 0;
  NEED(last == b.last, "a block whose last statement is not its last");
  for (const fl_kstmt *s = b.first; s; s = s->next)
    if (s->kind == FL_KS_DECL) v->declared[s->var] = 1;
  return 1;
}

static int note_decl(void *arg, fl_kstmt *s) {
  verifier *v = arg;
  if (s->kind == FL_KS_DECL && s->var >= 0 && s->var < v->f->n_vars) v->declared[s->var] = 1;
  return 1;
}

const char *fl_kverify(const fl_kfunc *f, fl_kblock body) {
  fl_karena *a = f->arena;
  verifier v = { .f = f, .declared = fl_karena_new(a, (size_t)f->n_vars + 1),
                 .label = fl_karena_new(a, (size_t)f->n_labels + 1),
                 .loop = fl_karena_new(a, (size_t)f->n_loops + 1) };
  const fl_kvisitor see = { note_decl, NULL, &v };
  if (!f->has_body || a->failed) return NULL;
  fl_kwalk_block(&see, body);
  check_block(&v, body, NULL);
  return v.fault;
}

#if !defined(NDEBUG) || defined(FLAME_TEST_HOOKS)
static const char *fault_of(const fl_kfunc *f, fl_kblock body) { return fl_kverify(f, body); }
#else
static const char *fault_of(const fl_kfunc *f, fl_kblock body) {
  (void)f;
  (void)body;
  return NULL;
}
#endif

int fl_kpass_is_told(void) { return fl_env_int(FL_ENV_FLAME_DEBUG) >= 6; }

uint64_t fl_ktree_hash(const fl_kfunc *f) {
  fl_text t;
  fl_mem own = { 0 };                /* the report uses its own memory, so that it cannot make the
                                     ** kernel's allocations fail */
  fl_text_init(&t, &own);
  fl_ktree_print(&t, f);
  const char *tree = fl_text_str(&t);
  const uint64_t hash = tree ? fl_hash64(tree, t.n, 0) : 0;
  fl_text_free(&t);
  return hash;
}

void fl_kpass_tell(const fl_kfunc *f, const char *what) {
  if (what && fl_kpass_is_told())
    fprintf(stderr, "kernel '%s' %016" PRIx64 ": %s\n", f->name, fl_ktree_hash(f), what);
}

void fl_kpass_done(const char *pass, const fl_kfunc *f, fl_kblock body) {
  const char *fault = fault_of(f, body);
  if (!fault && (!fl_kpass_is_told() || f->arena->failed)) return;
  fl_kfunc shown = *f;
  shown.body = body;
  fl_text t;
  fl_mem own = { 0 };
  fl_text_init(&t, &own);
  fl_ktree_print(&t, &shown);
  const char *tree = fl_text_str(&t);
  fprintf(stderr, "kernel '%s' after %s%s%s\n%s\n", f->name, pass, fault ? ": " : "",
          fault ? fault : "", tree ? tree : "");
  fl_text_free(&t);
  if (fault) abort();
}
