/*
** The verifier of kernel trees (kernel/tree/verify.h): it finds nothing wrong in a parsed tree, and
** detects each invariant that is broken on purpose. It also runs after each pass while other tests
** run.
*/
#include "kernel/tree/builtins.h"
#include "kernel/front/source.h"
#include "kernel/tree/verify.h"
#include <stdio.h>
#include <string.h>

static int passed, failed;
static fl_mem mem;

static const char text[] =
  "extern \"C\" __global__ void k(const float *x, float *y, int n) {\n"
  "  __shared__ float s[64];\n"
  "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
  "  s[threadIdx.x] = sinf(x[i]);\n"
  "  __syncthreads();\n"
  "  if (i < n) {\n"
  "    float v = 0;\n"
  "    for (int j = 0; j < 4; j++) { if (s[j] > v) continue; v += s[j] * x[i]; }\n"
  "    for (int j = 0; j < 2; j++) v = v > 1 ? v : -v;\n"
  "    atomicAdd(&y[i], v);\n"
  "    y[i] = (float)n + v;\n"
  "  }\n"
  "}\n";

typedef struct search { int kind, nth; fl_kstmt *s; fl_kexpr *x; } search;
static int see_stmt(void *arg, fl_kstmt *s) {
  search *f = arg;
  if (s->kind == f->kind && !f->s && f->nth-- == 0) f->s = s;
  return 1;
}
static int see_expr(void *arg, fl_kexpr *x) {
  search *f = arg;
  if (x->kind == f->kind && !f->x && f->nth-- == 0) f->x = x;
  return 1;
}
static fl_kstmt *stmt(fl_kfunc *f, int kind, int nth) {
  search w = { kind, nth, NULL, NULL };
  const fl_kvisitor v = { see_stmt, NULL, &w };
  fl_kwalk_block(&v, f->body);
  return w.s;
}
static fl_kexpr *expr(fl_kfunc *f, int kind, int nth) {
  search w = { kind, nth, NULL, NULL };
  const fl_kvisitor v = { NULL, see_expr, &w };
  fl_kwalk_block(&v, f->body);
  return w.x;
}

/* Each function breaks one invariant of a tree; 'cases' below has what the verifier must report. */
static void variable(fl_kfunc *f) { expr(f, FL_KX_VAR, 0)->var = f->n_vars; }
static void array_as_value(fl_kfunc *f) {
  expr(f, FL_KX_VAR, 0)->var = expr(f, FL_KX_LOAD, 0)->var;
}
static void read_type(fl_kfunc *f) { expr(f, FL_KX_VAR, 0)->type = FL_KT_F64; }
static void operand(fl_kfunc *f, fl_kexpr *x, fl_kexpr *with) {
  x->x[0] = with;
  fl_kexpr_settle(f->arena, x);
}
static void index_type(fl_kfunc *f) {
  operand(f, expr(f, FL_KX_LOAD, 0), fl_kexpr_int(f->arena, FL_KT_I32, 0));
}
static void load_site(fl_kfunc *f) { expr(f, FL_KX_LOAD, 0)->site = f->n_sites; }
static void load_type(fl_kfunc *f) { expr(f, FL_KX_LOAD, 0)->type = FL_KT_F64; }
static void operand_types(fl_kfunc *f) {
  operand(f, expr(f, FL_KX_BINARY, 0), fl_kexpr_float(f->arena, FL_KT_F64, 1));
}
static void missing_operand(fl_kfunc *f) { expr(f, FL_KX_BINARY, 0)->x[1] = NULL; }
static void many_operands(fl_kfunc *f) { expr(f, FL_KX_BINARY, 0)->n = 1; }
static void depth(fl_kfunc *f) { expr(f, FL_KX_BINARY, 0)->depth++; }
static void choice(fl_kfunc *f) {
  expr(f, FL_KX_SELECT, 0)->x[0] = fl_kexpr_int(f->arena, FL_KT_I32, 1);
}
static void builtin(fl_kfunc *f) { expr(f, FL_KX_CALL, 0)->op = FL_KB_COUNT; }
static void builtin_type(fl_kfunc *f) { expr(f, FL_KX_CALL, 0)->type = FL_KT_I32; }
static void special(fl_kfunc *f) { expr(f, FL_KX_SPECIAL, 0)->type = FL_KT_I32; }
static void assigned_type(fl_kfunc *f) {
  stmt(f, FL_KS_ASSIGN, 0)->x[0] = fl_kexpr_float(f->arena, FL_KT_F64, 1);
}
static void constant_array(fl_kfunc *f) { stmt(f, FL_KS_STORE, 0)->var = f->params[0].first_var; }
static void store_site(fl_kfunc *f) { stmt(f, FL_KS_STORE, 0)->site = -1; }
static void stored_type(fl_kfunc *f) {
  stmt(f, FL_KS_STORE, 0)->x[1] = fl_kexpr_float(f->arena, FL_KT_F64, 1);
}
static void atomic(fl_kfunc *f) { stmt(f, FL_KS_ATOMIC, 0)->op = FL_KA_COUNT; }
static void seen_as(fl_kfunc *f) { stmt(f, FL_KS_ATOMIC, 0)->as = FL_KT_F64; }
static void seen_as_none(fl_kfunc *f) { stmt(f, FL_KS_ATOMIC, 0)->as = FL_KT_COUNT + 60; }
static void added(fl_kfunc *f) { fl_kstmt *s = stmt(f, FL_KS_ATOMIC, 0); s->x[1] = s->x[0]; }
static void condition(fl_kfunc *f) {
  stmt(f, FL_KS_IF, 0)->x[0] = fl_kexpr_int(f->arena, FL_KT_I32, 1);
}
static void loop_twice(fl_kfunc *f) {
  stmt(f, FL_KS_LOOP, 1)->label = stmt(f, FL_KS_LOOP, 0)->label;
}
static void loop_number(fl_kfunc *f) { stmt(f, FL_KS_LOOP, 0)->label = f->n_loops; }
static void no_loop(fl_kfunc *f) { fl_kstmt_new(f->arena, &f->body, FL_KS_CONTINUE, 1); }
static void no_block(fl_kfunc *f) { fl_kstmt_new(f->arena, &f->body, FL_KS_LEAVE, 1)->label = 0; }
static void step_exit(fl_kfunc *f) {
  fl_kstmt_new(f->arena, &stmt(f, FL_KS_LOOP, 0)->other, FL_KS_BREAK, 1);
}
static void last(fl_kfunc *f) { f->body.last = f->body.first; }
static void kind(fl_kfunc *f) { stmt(f, FL_KS_BARRIER, 0)->kind = 200; }
static void scope(fl_kfunc *f) {          /* a variable of an inner block is used after it */
  fl_kblock inner = stmt(f, FL_KS_IF, 0)->body;
  fl_kstmt *s = inner.first;
  while (s->kind != FL_KS_DECL) s = s->next;
  fl_kstmt_assign(f, &f->body, s->var, fl_kexpr_zero(f->arena, f->vars[s->var].type));
}

static const struct { const char *name; void (*broken)(fl_kfunc *f); const char *said; } cases[] = {
  { "a variable out of range", variable, "variable" },
  { "an array as a value", array_as_value, "value of the array" },
  { "a variable's type", read_type, "variable read as type" },
  { "an index's type", index_type, "index of type" },
  { "a load's site", load_site, "site" }, { "a load's type", load_type, "load of type" },
  { "operands of two types", operand_types, "operands of types" },
  { "a missing operand", missing_operand, "missing" },
  { "the number of operands", many_operands, "operands of an expression" },
  { "the depth", depth, "depth" },
  { "a choice by a number", choice, "choice by type" },
  { "a builtin out of range", builtin, "builtin" },
  { "a builtin's type", builtin_type, "a function over type" },
  { "a special's type", special, "special" },
  { "an assignment's type", assigned_type, "a value of type" },
  { "a write to a constant array", constant_array, "constant array" },
  { "a store's site", store_site, "site" }, { "a store's type", stored_type, "a value of type" },
  { "an atomic operation", atomic, "atomic operation" },
  { "an atomic on other bits", seen_as, "sees type" },
  { "an atomic on no type", seen_as_none, "sees type" },
  { "a value for an atomic", added, "a value of type" },
  { "a condition's type", condition, "a value of type" },
  { "a loop's number twice", loop_twice, "appears twice" },
  { "a loop's number out of range", loop_number, "loop" },
  { "CONTINUE outside a loop", no_loop, "without a loop" },
  { "LEAVE outside its block", no_block, "not around it" },
  { "BREAK in a step", step_exit, "without a loop" },
  { "the last statement", last, "whose last statement" },
  { "a kind of statement", kind, "statement of kind" },
  { "a variable outside its scope", scope, "outside the scope" },
};

static void check(int ok, const char *name, const char *detail) {
  if (ok) passed++;
  else failed++, printf("FAILED: %s: %s\n", name, detail ? detail : "nothing is said");
}

static void run_case(const fl_kfunc *f, size_t i) {
  fl_karena a;
  fl_karena_init(&a, &mem);
  fl_kfunc *g = fl_kfunc_clone(&a, f);
  check(g && !fl_kverify(g, g->body), cases[i].name, "the copy is not well formed");
  if (g) {
    cases[i].broken(g);
    const char *said = fl_kverify(g, g->body);
    check(said && strstr(said, cases[i].said), cases[i].name, said);
  }
  fl_karena_close(&a);
}

int main(void) {
  fl_error e = { 0 };
  fl_ksource *s = fl_ksource_parse(&mem, &e, text, strlen(text));
  const fl_kfunc *f = s ? fl_ksource_kernel(s, "k") : NULL;
  check(f && f->has_body, "the kernel is read", s && f ? f->refusal : "no memory");
  for (size_t i = 0; f && f->has_body && i < sizeof cases / sizeof *cases; i++) run_case(f, i);
  fl_ksource_free(s);
  check(mem.live_blocks == 0, "memory", "something is left");
  printf("kernel_verify: %d passed, %d failed\n", passed, failed);
  return failed > 0;
}
