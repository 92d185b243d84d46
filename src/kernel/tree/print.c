/* The tree as text for people: one statement per line, indented, after its line in the source;
** constants have their type, except i32. */
#include "kernel/tree/builtins.h"
#include <string.h>

typedef struct printer { fl_text *t; const fl_kfunc *f; int depth; } printer;

const char *const fl_koperator_text[FL_KO_COUNT] = {
  "", "+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^", "<", "<=", ">", ">=", "==", "!=", "&&",
  "||", "-", "~", "!" };
const char *const fl_kspecial_text[FL_KSPECIAL_COUNT] = {
  "threadIdx.x", "threadIdx.y", "threadIdx.z", "blockIdx.x", "blockIdx.y", "blockIdx.z",
  "blockDim.x", "blockDim.y", "blockDim.z", "gridDim.x", "gridDim.y", "gridDim.z", "warpSize" };
const char *const fl_katomic_text[FL_KA_COUNT] = {
  "atomicAdd", "atomicSub", "atomicMax", "atomicMin", "atomicAnd", "atomicOr", "atomicXor",
  "atomicExch", "atomicCAS", "atomicInc", "atomicDec" };
static const char *const atomics[FL_KA_COUNT] = {
  "add", "sub", "max", "min", "and", "or", "xor", "exch", "cas", "inc", "dec" };

static const char *name_of(const printer *p, int var) {
  return var >= 0 && var < p->f->n_vars ? p->f->vars[var].name : "?";
}

static void expr(printer *p, const fl_kexpr *x) {
  if (!x) { fl_text_puts(p->t, "-"); return; }
  switch (x->kind) {
    case FL_KX_CONST:
      if (fl_kt_is_float(x->type))
        fl_text_printf(p->t, "%s(%.17g)", fl_ktypes[x->type].name, x->value.d);
      else if (x->type == FL_KT_I32) fl_text_printf(p->t, "%lld", (long long)x->value.i);
      else
        fl_text_printf(p->t, "%s(%lld)", fl_ktypes[x->type].name, (long long)x->value.i);
      return;
    case FL_KX_VAR: fl_text_puts(p->t, name_of(p, x->var)); return;
    case FL_KX_SPECIAL: fl_text_puts(p->t, fl_kspecial_text[x->op]); return;
    case FL_KX_LOAD:
      fl_text_printf(p->t, "%s[", name_of(p, x->var));
      expr(p, x->x[0]);
      fl_text_puts(p->t, "]");
      return;
    case FL_KX_CALL:
      fl_text_printf(p->t, "%s.%s(", fl_kbuiltins[x->op].id, fl_ktypes[x->type].name);
      break;
    case FL_KX_CAST: fl_text_printf(p->t, "%s(", fl_ktypes[x->type].name); break;
    case FL_KX_UNARY: fl_text_printf(p->t, "(%s", fl_koperator_text[x->op]); break;
    default: fl_text_puts(p->t, "(");
  }
  for (int i = 0; i < x->n; i++) {
    if (i && x->kind == FL_KX_BINARY) fl_text_printf(p->t, " %s ", fl_koperator_text[x->op]);
    else if (i && x->kind == FL_KX_SELECT) fl_text_puts(p->t, i == 1 ? " ? " : " : ");
    else if (i) fl_text_puts(p->t, ", ");
    expr(p, x->x[i]);
  }
  fl_text_puts(p->t, ")");
}

static void line(printer *p, const fl_kstmt *s) {
  fl_text_printf(p->t, "%4d %*s", (int)s->line, 2 * p->depth, "");
}

static void block(printer *p, fl_kblock b);

static void operands(printer *p, const fl_kstmt *s) {
  for (int i = 0; i < 4; i++) {
    if (!s->x[i]) continue;
    fl_text_puts(p->t, " ");
    expr(p, s->x[i]);
  }
  for (int i = 0; i < s->n_args; i++) {
    fl_text_puts(p->t, ", ");
    expr(p, s->args[i]);
  }
}

static void access(printer *p, const fl_kstmt *s) {
  fl_text_printf(p->t, "%s[", name_of(p, s->var));
  expr(p, s->x[0]);
  fl_text_puts(p->t, s->accumulate ? "] += " : "] = ");
  expr(p, s->x[1]);
}

static void simple(printer *p, const fl_kstmt *s) {
  static const char *const names[] = {
    [FL_KS_BREAK] = "break", [FL_KS_CONTINUE] = "continue", [FL_KS_RETURN] = "return",
    [FL_KS_BARRIER] = "barrier", [FL_KS_SHUFFLE] = "shuffle", [FL_KS_VOTE] = "vote",
    [FL_KS_PRINTF] = "printf", [FL_KS_ASSERT] = "assert" };
  switch (s->kind) {
    case FL_KS_DECL: {
      const fl_kvar *v = &p->f->vars[s->var];
      fl_text_printf(p->t, "%s %s", fl_ktypes[v->type].name, v->name);
      if (v->kind == FL_KV_ARRAY) fl_text_printf(p->t, "[%lld]", (long long)v->count);
      return;
    }
    case FL_KS_ASSIGN:
      fl_text_printf(p->t, "%s = ", name_of(p, s->var));
      expr(p, s->x[0]);
      return;
    case FL_KS_STORE: access(p, s); return;
    case FL_KS_ATOMIC:
      if (s->result >= 0) fl_text_printf(p->t, "%s = ", name_of(p, s->result));
      fl_text_printf(p->t, "atomic %s%s ", atomics[s->op],
                     s->mode == FL_KM_FREE    ? ""
                     : s->mode == FL_KM_WARP  ? " warp"
                     : s->mode == FL_KM_BLOCK ? " block"
                                              : " ordered");
      access(p, s);
      if (s->x[2]) { fl_text_puts(p->t, " if "); expr(p, s->x[2]); }
      return;
    case FL_KS_LEAVE: fl_text_printf(p->t, "leave %d", (int)s->label); return;
    default:
      if (s->result >= 0) fl_text_printf(p->t, "%s = ", name_of(p, s->result));
      fl_text_puts(p->t, names[s->kind] ? names[s->kind] : "?");
      if (s->kind == FL_KS_SHUFFLE || s->kind == FL_KS_VOTE || s->kind == FL_KS_BARRIER)
        fl_text_printf(p->t, " %d", s->op);
      if (s->kind == FL_KS_BARRIER && s->mode) fl_text_puts(p->t, " of the grid");
      operands(p, s);
  }
}

static void stmt(printer *p, const fl_kstmt *s) {
  line(p, s);
  if (s->kind == FL_KS_IF) {
    fl_text_puts(p->t, "if ");
    expr(p, s->x[0]);
  } else if (s->kind == FL_KS_LOOP) {
    fl_text_printf(p->t, "loop %d %s ", (int)s->label, s->post ? "until not" : "while");
    if (s->x[0]) expr(p, s->x[0]);
    else fl_text_puts(p->t, "true");
  } else if (s->kind == FL_KS_BLOCK) {
    fl_text_printf(p->t, "block %d", (int)s->label);
  } else {
    simple(p, s);
  }
  fl_text_puts(p->t, "\n");
  block(p, s->body);
  if (!s->other.first) return;
  line(p, s);
  fl_text_puts(p->t, s->kind == FL_KS_LOOP ? "step\n" : "else\n");
  block(p, s->other);
}

static void block(printer *p, fl_kblock b) {
  p->depth++;
  for (const fl_kstmt *s = b.first; s; s = s->next) stmt(p, s);
  p->depth--;
}

void fl_ktree_print(fl_text *t, const fl_kfunc *f) {
  static const char *const kinds[] = { "local", "array", "shared", "table", "pointer" };
  printer p = { t, f, 0 };
  fl_text_printf(t, "kernel %s\n", f->name);
  for (int i = 0; i < f->n_vars; i++) {
    const fl_kvar *v = &f->vars[i];
    if (v->kind == FL_KV_LOCAL && v->param < 0) continue;
    fl_text_printf(t, "  %s %s%s %s", kinds[v->kind], v->is_const ? "const " : "",
                   fl_ktypes[v->type].name, v->name);
    if (v->kind != FL_KV_LOCAL && v->kind != FL_KV_POINTER)
      fl_text_printf(t, "[%lld]", (long long)v->count);
    if (v->param >= 0)
      fl_text_printf(t, " param %d+%lld", (int)v->param, (long long)v->offset);
    fl_text_puts(t, "\n");
  }
  if (!f->has_body)
    fl_text_printf(t, "  refused, line %d: %s\n", (int)f->refusal_line,
                   f->refusal ? f->refusal : "no body");
  block(&p, f->body);
}
