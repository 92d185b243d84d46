/* Suggests which existing name is meant by one that does not exist. */
#include "base/word.h"
#include "kernel/front/front.h"
#include <stdio.h>
#include <string.h>

typedef struct meant { char word[40]; const char *best; int limit; } meant;

static void consider(meant *m, const char *name) {
  if (!*name || strchr(name, ' ') || strchr(name, '(') || !strncmp(name, "fl_", 3)) return;
  const int d = fl_word_distance(m->word, name, m->limit);
  if (d >= m->limit || !d) return;
  m->limit = d;
  m->best = name;
}

static meant begin(const fl_ktok *t) {
  meant m = { .best = NULL };
  snprintf(m.word, sizeof m.word, "%.*s", (int)t->n, t->text);
  m.limit = t->n > 2 && t->n < (int)sizeof m.word ? fl_word_limit(m.word) : 0;
  return m;
}

static const char *said(fl_front *p, const meant *m) {
  return m->best ? fl_karena_printf(p->a, FL_DO "; did you mean '%s'?", m->best) : "";
}

const char *fl_front_meant(fl_front *p, const fl_ktok *t) {
  static const char *const words[] = {
    "threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize", "float", "double", "int",
    "unsigned", "long", "bool", "const", "return", "__syncthreads", "__syncwarp", "__shfl_sync",
    "__shfl_down_sync", "__shfl_up_sync", "__shfl_xor_sync", "__ballot_sync", "__any_sync",
    "__all_sync", "__threadfence", "atomicAdd", "atomicSub", "atomicMax", "atomicMin", "atomicCAS",
    "atomicExch", "make_float2", "make_float3", "make_float4", "__ldg", "sincosf", "printf",
    "assert", "static_cast", "reinterpret_cast", "__shared__", "__device__", "float2", "float3",
    "float4", "__half", "__nv_bfloat16" };
  meant m = begin(t);
  for (int64_t i = p->syms.n; i-- > 0;) consider(&m, p->syms.at[i].name);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) consider(&m, words[i]);
  for (int i = 0; i < 2 * FL_KB_COUNT; i++) {
    const fl_kbuiltin_info *b = &fl_kbuiltins[i / 2];
    consider(&m, i % 2 ? b->name64 : b->name32);
  }
  return said(p, &m);
}

const char *fl_field_meant(fl_front *p, const fl_ctype *type, const char *name, int32_t n) {
  const fl_ktok t = { .kind = FL_TOK_NAME, .text = name, .n = n };
  meant m = begin(&t);
  const fl_cstruct *s = type && type->kind == FL_C_STRUCT ? type->s : NULL;
  for (int i = 0; s && i < s->n_fields; i++) consider(&m, s->fields[i].name);
  for (int64_t i = 0; s && s->members && i < s->members->n_inner; i++)
    consider(&m, s->members->inner[i].name);
  return said(p, &m);
}

static const char *type_list(fl_front *p, const char *list, const fl_ctype *t) {
  return fl_karena_printf(p->a, "%s%s%s", list ? list : "", *list ? ", " : "",
                          t ? fl_ctype_text(p->a, t) : "?");
}

void fl_refuse_call(fl_front *p, const fl_ktok *name, const fl_kdevice *first, const fl_kcall *c) {
  if (name->n > 7 && !memcmp(name->text, "fl_ptx_", 7)) {
    fl_refuse(p, name->line, "inline asm with other operands than '%.*s' has", (int)name->n - 7,
              name->text + 7);
    return;
  }
  const char *given = "", *takes = "";
  for (int i = 0; i < c->n && given; i++) {
    const fl_cvalue *v = &c->args[i];
    const fl_ctype *t = v->kind == FL_V_POINTER ? fl_ctype_pointer(p->a, v->type, v->is_const)
                                                : v->type;
    given = type_list(p, given, v->kind == FL_V_LIST ? NULL : t);
  }
  const int one = first && !first->next && !first->n_tparams;
  for (int i = 0; one && i < first->n_params && takes; i++)
    takes = type_list(p, takes, first->params[i].type);
  if (one && c->self && c->self->is_const && !first->is_const)
    fl_refuse(p, name->line, "'%.*s' may change its object, which is const", (int)name->n,
              name->text);
  else if (one)
    fl_refuse(p, name->line, "'%.*s' takes (%s), given (%s)", (int)name->n, name->text,
              takes ? takes : "", given ? given : "");
  else
    fl_refuse(p, name->line, "no function '%.*s' can be called with (%s)", (int)name->n, name->text,
              given ? given : "");
}
