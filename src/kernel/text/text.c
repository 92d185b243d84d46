/*
** Tree to CUDA C++: statements and the kernel around them. All variables are declared first, so
** that a goto (which leaves a BLOCK) jumps over no initialisation. Parameters keep their layout:
** structs arrive as bytes and are taken apart.
*/
#include "kernel/text/text_write.h"
#include "kernel/text/text.h"
#include "kernel/text/text_check.h"
#include "kernel/text/text_near.h"
#include "kernel/text/text_stop.h"
#include "kernel/tree/verify.h"
#include "base/hash.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- simple statements ----------------------------------------------------------------------- */

static void put_value(fl_kwriter *w, int var, const fl_kexpr *x) {
  const fl_kvar *v = &w->f->vars[var];
  const int convert = fl_kt_is_half(v->type) && v->kind != FL_KV_ARRAY;
  if (convert) fl_text_printf(w->t, "fl_out_%s(", fl_kput_half(v->type));
  fl_kput_expr(w, x);
  if (convert) fl_text_puts(w->t, ")");
}

void fl_kput_element(fl_kwriter *w, const fl_kstmt *s) {
  fl_kput_var(w, s->var);
  fl_text_puts(w->t, "[");
  if (w->index) fl_text_puts(w->t, w->index);
  else fl_kput_expr(w, s->x[0]);
  fl_text_puts(w->t, "]");
}

/* Writes the value of a store; with 'accumulate' as (element)((type of value)var[i] + value). */
static void put_stored(fl_kwriter *w, const fl_kstmt *s) {
  const fl_kvar *v = &w->f->vars[s->var];
  const int type = s->x[1]->type;
  if (!s->accumulate) { put_value(w, s->var, s->x[1]); return; }
  fl_kexpr load = {
    .kind = FL_KX_LOAD, .type = v->type, .n = 1, .line = s->line, .var = s->var, .x = { s->x[0] }
  };
  fl_kexpr wide = { .kind = FL_KX_CAST, .type = (uint8_t)type, .n = 1, .x = { &load } };
  fl_kexpr sum = { .kind = FL_KX_BINARY, .type = (uint8_t)type, .op = FL_KO_ADD, .n = 2,
                   .x = { v->type == type ? &load : &wide, s->x[1] } };
  fl_kexpr back = { .kind = FL_KX_CAST, .type = v->type, .n = 1, .x = { &sum } };
  put_value(w, s->var, v->type == type ? &sum : &back);
}

static void put_store(fl_kwriter *w, const fl_kstmt *s) {
  const fl_kvar *v = &w->f->vars[s->var];
  if (w->check) { fl_kcheck_store(w, s, put_stored); return; }
  fl_kput_element(w, s);
  if (s->accumulate && v->type == s->x[1]->type && !fl_kt_is_half(v->type)) {
    fl_text_puts(w->t, " += ");
    fl_kput_expr(w, s->x[1]);
    return;
  }
  fl_text_puts(w->t, " = ");
  put_stored(w, s);
}

static void put_atomic(fl_kwriter *w, const fl_kstmt *s) {
  const int type = s->as ? s->as : w->f->vars[s->var].type;
  if (w->slot && fl_kput_is_ordered(w->f, s)) {
    fl_kput_ordered(w, s);
    return;
  }
  if (fl_knear_put(w->near, w->t, s)) return;
  if (w->check) {
    fl_text_puts(w->t, "{ ");
    fl_kcheck_atomic(w, s);
    w->index = "fl_i";
  }
  const int as_bits = type == FL_KT_F64 && s->op == FL_KA_EXCH;
  const int as_u64 = as_bits || (type == FL_KT_I64 && s->op != FL_KA_MAX && s->op != FL_KA_MIN);
  if (s->result >= 0) {
    fl_kput_var(w, s->result);
    fl_text_printf(w->t, " = %s%s", as_bits ? "__longlong_as_double(" : "",
                   as_u64 ? "(long long)" : "");
  }
  if (fl_kt_is_half(type)) fl_text_printf(w->t, "fl_atomic_%s(&", fl_kput_half(type));
  else if (w->saved == 2 && s->mode > FL_KM_WARP)
    fl_text_printf(w->t, "fl_ordered_%sadd(&", s->mode == FL_KM_BLOCK ? "block_" : "");
  else if (s->mode == FL_KM_BLOCK && !w->check) fl_text_puts(w->t, "fl_block_add(&");
  else if (s->mode == FL_KM_WARP && !w->check) fl_text_puts(w->t, "fl_warp_add(&");
  else if (s->as && !as_u64)
    fl_text_printf(w->t, "%s((%s *)&", fl_katomic_text[s->op], fl_ktypes[type].c);
  else
    fl_text_printf(w->t, "%s(%s&", fl_katomic_text[s->op], as_u64 ? "(unsigned long long *)" : "");
  fl_kput_element(w, s);
  for (int i = 2; i > 0; i--) {
    if (!s->x[i]) continue;
    fl_text_printf(w->t, ", %s%s", as_u64 ? "(unsigned long long)" : "",
                   as_bits ? "__double_as_longlong(" : "");
    fl_kput_expr(w, s->x[i]);
    if (as_bits) fl_text_puts(w->t, ")");
  }
  if (as_bits && s->result >= 0) fl_text_puts(w->t, ")");
  fl_text_puts(w->t, w->check ? "); }" : ")");
  w->index = NULL;
}

static void put_string(fl_kwriter *w, const char *s) {
  fl_text_puts(w->t, "\"");
  for (; *s; s++) {
    if (*s == '"' || *s == '\\') fl_text_printf(w->t, "\\%c", *s);
    else if ((unsigned char)*s < 32 || (unsigned char)*s > 126)
      fl_text_printf(w->t, "\\%03o", (unsigned char)*s);
    else fl_text_add(w->t, s, 1);
  }
  fl_text_puts(w->t, "\"");
}

static void put_printf(fl_kwriter *w, const fl_kstmt *s) {
  fl_text_puts(w->t, "printf(");
  put_string(w, s->text);
  if (s->n_args) fl_text_puts(w->t, ", ");
  fl_kput_list(w, s->args, s->n_args);
}

static void put_simple(fl_kwriter *w, const fl_kstmt *s) {
  switch (s->kind) {
    case FL_KS_ASSIGN:
      fl_kput_var(w, s->var);
      fl_text_puts(w->t, " = ");
      fl_kput_expr(w, s->x[0]);
      break;
    case FL_KS_STORE: put_store(w, s); break;
    case FL_KS_ATOMIC: put_atomic(w, s); break;
    case FL_KS_BREAK: fl_text_puts(w->t, "break"); break;
    case FL_KS_LEAVE: fl_text_printf(w->t, "goto leave_%d", (int)s->label); break;
    case FL_KS_RETURN:
      if (w->slot) {
        fl_text_puts(w->t, "{\n");
        fl_kput_sums_end(w);
        fl_text_puts(w->t, "  return; }");
        break;
      }
      fl_text_puts(w->t, w->check ? "{ fl_leave(fl_t, true); return; }" : "return");
      break;
    case FL_KS_BARRIER:
      fl_kput_barrier(w, s);
      if (s->op != FL_KBAR_FENCE) fl_kstop_met(w);
      break;
    case FL_KS_SHUFFLE: case FL_KS_VOTE:
      fl_kput_warp(w, s);
      fl_kstop_met(w);
      break;
    case FL_KS_PRINTF: put_printf(w, s); break;
    case FL_KS_ASSERT: fl_kput_assert(w, s); break;
    default: break;
  }
  if (w->check) fl_kcheck_given(w, s->kind == FL_KS_ASSIGN ? s->var : s->result);
  fl_text_puts(w->t, ";\n");
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static void put_block(fl_kwriter *w, fl_kblock b, const fl_kstmt *loop);

static void indent(fl_kwriter *w) { fl_text_printf(w->t, "%*s", 2 * w->depth, ""); }

/* Does the body of a loop have a CONTINUE of that loop? */
static int has_continue(fl_kblock b) {
  for (const fl_kstmt *s = b.first; s; s = s->next)
    if (s->kind == FL_KS_CONTINUE ||
        (s->kind != FL_KS_LOOP && (has_continue(s->body) || has_continue(s->other))))
      return 1;
  return 0;
}

/* Has the loop a step that a C for can hold: one assignment? Any other step is written after the
** body, so a CONTINUE jumps to it (jumps_to_step). */
static int is_for(const fl_kstmt *s) {
  return !s->post && s->other.first && s->other.first == s->other.last &&
         s->other.first->kind == FL_KS_ASSIGN;
}
static int jumps_to_step(const fl_kstmt *s) {
  return s->other.first && !is_for(s) && has_continue(s->body);
}

/* Writes a loop that is DOWN (fl_kloop_form) so that the lanes of a warp are at the same k in each
** round (from compute capability 8.0 on; before, fl_warp_most gives each lane its own k). */
static void put_loop_down(fl_kwriter *w, const fl_kstmt *s) {
  const fl_kstmt *step = s->other.first;
  const int n = (int)s->label;
  indent(w);
  fl_text_printf(w->t, "for (%s fl_k%d = fl_warp_most(", fl_ktypes[step->x[0]->type].c, n);
  fl_kput_var(w, step->var);
  fl_text_printf(w->t, "); fl_k%d >= 0; fl_k%d--) {\n", n, n);
  w->depth++;
  indent(w);
  fl_kput_held(w, s, FL_KPUT_BEGIN);
  fl_text_puts(w->t, "if (");
  fl_kput_var(w, step->var);
  fl_text_printf(w->t, " >= fl_k%d) {\n", n);
  put_block(w, s->body, s);
  put_block(w, s->other, s);
  fl_text_puts(w->t, "}\n");
  fl_kput_held(w, s, FL_KPUT_END);
  w->depth--;
  indent(w);
  fl_text_puts(w->t, "}\n");
}

static void put_loop_head(fl_kwriter *w, const fl_kstmt *s) {
  indent(w);
  if (s->post) { fl_text_puts(w->t, "do {\n"); return; }
  fl_text_puts(w->t, "for (; ");
  if (s->x[0]) fl_kput_expr(w, s->x[0]);
  fl_text_puts(w->t, "; ");
  if (is_for(s)) {
    fl_kput_var(w, s->other.first->var);
    fl_text_puts(w->t, " = ");
    fl_kput_expr(w, s->other.first->x[0]);
  }
  fl_text_puts(w->t, ") {\n");
}

static void put_loop(fl_kwriter *w, const fl_kstmt *s) {
  if (s->op == FL_KLOOP_DOWN && !w->check && !w->saved) {
    put_loop_down(w, s);
    return;
  }
  put_loop_head(w, s);
  w->depth++;
  if (w->check) {
    indent(w);
    fl_text_printf(w->t, "fl_step(fl_t, %d);\n", w->line);
  }
  fl_kput_held(w, s, FL_KPUT_BEGIN);
  put_block(w, s->body, s);
  fl_kput_held(w, s, FL_KPUT_END);
  if (jumps_to_step(s)) {
    indent(w);
    fl_text_printf(w->t, "step_%d:;\n", (int)s->label);
  }
  if (!is_for(s)) put_block(w, s->other, s);
  w->depth--;
  indent(w);
  fl_text_puts(w->t, "}");
  if (s->post) {
    fl_text_puts(w->t, " while (");
    if (s->x[0]) fl_kput_expr(w, s->x[0]);
    else fl_text_puts(w->t, "true");
    fl_text_puts(w->t, ");");
  }
  fl_text_puts(w->t, "\n");
}

static void put_if(fl_kwriter *w, const fl_kstmt *s, const fl_kstmt *loop) {
  indent(w);
  fl_text_puts(w->t, "if (");
  fl_kput_expr(w, s->x[0]);
  fl_text_puts(w->t, ") {\n");
  w->depth++;
  put_block(w, s->body, loop);
  if (s->other.first) {
    w->depth--;
    indent(w);
    fl_text_puts(w->t, "} else {\n");
    w->depth++;
    put_block(w, s->other, loop);
  }
  w->depth--;
  indent(w);
  fl_text_puts(w->t, "}\n");
}

/* file: the name of a Lua chunk, which may contain quotes if that was loaded from a string. */
void fl_ktext_line(fl_text *t, const char *file, int line) {
  fl_text_printf(t, "#line %d \"", line);
  for (const char *s = file; *s; s++) {
    if (*s == '"' || *s == '\\') fl_text_puts(t, "\\");
    fl_text_add(t, s, 1);
  }
  fl_text_puts(t, "\"\n");
}

static void put_line(fl_kwriter *w, const fl_kstmt *s) {
  if (s->line) w->line = s->line;
  if (w->file && w->line && s->kind != FL_KS_DECL && s->kind != FL_KS_BLOCK)
    fl_ktext_line(w->t, w->file, w->first + w->line - 1);
}

/* Writes the sum s and those that are made with it; returns the last one. */
static const fl_kstmt *put_joined(fl_kwriter *w, const fl_kstmt *s) {
  put_line(w, s);
  indent(w);
  return fl_kput_joined(w, s);
}

static void put_held_loop(fl_kwriter *w, const fl_kstmt *s) {
  fl_kput_held(w, s, FL_KPUT_BEFORE);
  put_loop(w, s);
  fl_kput_held(w, s, FL_KPUT_AFTER);
}

static void put_stmt(fl_kwriter *w, const fl_kstmt *s, const fl_kstmt *loop) {
  put_line(w, s);
  if (s->kind == FL_KS_DECL) {
    if (w->check) fl_kcheck_begin(w, s->var);
    return;
  }
  if (s->kind == FL_KS_IF) { put_if(w, s, loop); return; }
  if (s->kind == FL_KS_LOOP) {
    if (!fl_kput_twice(w, s, put_held_loop)) put_held_loop(w, s);
    return;
  }
  if (s->kind == FL_KS_BLOCK) {
    put_block(w, s->body, loop);
    if (!fl_kleaves(s->body, s->label)) return;
    indent(w);
    fl_text_printf(w->t, "leave_%d:;\n", (int)s->label);
    return;
  }
  indent(w);
  if (s->kind != FL_KS_CONTINUE) put_simple(w, s);
  else if (loop && jumps_to_step(loop))
    fl_text_printf(w->t, "goto step_%d;\n", (int)loop->label);
  else fl_text_puts(w->t, "continue;\n");
}

static void put_block(fl_kwriter *w, fl_kblock b, const fl_kstmt *loop) {
  for (const fl_kstmt *s = b.first; s; s = s->next)
    if (fl_kput_is_joint(s) && !w->check && !w->saved) s = put_joined(w, s);
    else put_stmt(w, s, loop);
}

/* ---- the kernel ------------------------------------------------------------------------------ */

static void put_tables(fl_kwriter *w) {
  for (int i = 0; i < w->f->n_vars; i++) {
    const fl_kvar *v = &w->f->vars[i];
    if (v->kind != FL_KV_TABLE) continue;
    fl_text_printf(w->t, "static __device__ const %s ", fl_kput_value_type(v->type));
    fl_kput_var(w, i);
    fl_text_printf(w->t, "[%lld] = {", (long long)v->count);
    for (int64_t k = 0; k < v->count; k++) {
      const fl_kexpr c = { .kind = FL_KX_CONST, .type = v->type, .value = v->data[k] };
      fl_text_puts(w->t, k ? ", " : " ");
      fl_kput_constant(w, &c);
    }
    fl_text_puts(w->t, " };\n");
  }
}

static int by_bytes(const fl_kparam *p) {
  return !p->is_pointer && (p->is_struct || p->width > 1 || p->n_fields);
}

/* Writes the name of a parameter that arrives as bytes; a member's ("p.box") is p__box. */
static void put_bytes_name(fl_kwriter *w, const fl_kparam *p) {
  for (const char *s = p->name; *s; s++) fl_text_add(w->t, *s == '.' ? "__" : s, *s == '.' ? 2 : 1);
}

static void put_bytes_type(fl_kwriter *w, const fl_kparam *p) {
  fl_text_printf(w->t, "%s__", w->f->name);
  put_bytes_name(w, p);
  fl_text_puts(w->t, "__t");
}

static void put_param_name(fl_kwriter *w, const fl_kparam *p) {
  if (by_bytes(p)) put_bytes_name(w, p);
  else fl_kput_name(w, p->n_vars == 1 ? w->f->vars[p->first_var].name : p->name);
  if (!p->is_pointer && (by_bytes(p) || fl_kt_is_half(p->type))) fl_text_puts(w->t, "__in");
}

static int is_meeting(const void *none, const fl_kstmt *s) {
  (void)none;
  return s->kind == FL_KS_BARRIER || (s->kind == FL_KS_ATOMIC && s->result >= 0);
}

/* The arrays of a launch that a kernel writes do not overlap each other, nor what it reads, so its
** pointers may be __restrict__. For an array that is written this also promises that no other
** thread writes its elements, so where threads may wait for each other (is_meeting) only pointers
** to const are. A text that is checked or saved has no __restrict__. */
static void put_params(fl_kwriter *w) {
  const int plain = w->check || w->saved, meets = fl_kblock_any(w->f->body, is_meeting, NULL);
  for (int i = 0; i < w->f->n_params; i++) {
    const fl_kparam *p = &w->f->params[i];
    if (i) fl_text_puts(w->t, ", ");
    if (p->is_pointer)
      fl_text_printf(w->t, "%s%s *%s", p->is_const ? "const " : "", fl_kput_memory_type(p->type),
                     plain || (meets && !p->is_const) ? "" : "__restrict__ ");
    else if (by_bytes(p)) { put_bytes_type(w, p); fl_text_puts(w->t, " "); }
    else fl_text_printf(w->t, "%s ", fl_kput_memory_type(p->type));
    put_param_name(w, p);
  }
}

/* The parameters that the text has besides the kernel's own. */
static void put_hidden(fl_kwriter *w) {
  const char *comma = w->f->n_params ? ", " : "";
  if (w->slot) fl_text_printf(w->t, "%sint fl_pass, const fl_fixed *fl_fix", comma);
  if (w->check) fl_text_printf(w->t, "%sconst fl_check *fl_c", comma);
  if (w->slot) comma = ", ";
  if (w->stops)
    fl_text_printf(w->t, "%sunsigned long long *fl_record, unsigned long long fl_site", comma);
  if (w->stops) comma = ", ";
  if (w->batch) fl_text_printf(w->t, "%sconst fl_batch fl_b", comma);
}

static void put_structs(fl_kwriter *w) {
  for (int i = 0; i < w->f->n_params; i++) {
    const fl_kparam *p = &w->f->params[i];
    if (!by_bytes(p)) continue;
    fl_text_printf(w->t, "struct __align__(%lld) ", (long long)p->align);
    put_bytes_type(w, p);
    fl_text_printf(w->t, " { unsigned char b[%lld]; };\n", (long long)p->size);
  }
}

/* Writes the assignment of a struct's member, or of a half parameter, to its variable. index: "",
** or "[e]" for element e of an array. */
static void put_leaf(fl_kwriter *w, int var, const char *index, int64_t offset) {
  const fl_kvar *v = &w->f->vars[var];
  const fl_kparam *p = &w->f->params[v->param];
  fl_text_puts(w->t, "  ");
  fl_kput_name(w, v->name);
  fl_text_printf(w->t, "%s = ", index);
  if (fl_kt_is_half(v->type) && v->kind != FL_KV_POINTER)
    fl_text_printf(w->t, "fl_in_%s(", fl_kput_half(v->type));
  if (!by_bytes(p)) {
    put_param_name(w, p);
  } else {
    const char *star = v->kind == FL_KV_POINTER ? "*const " : "";
    fl_text_printf(w->t, "*(%s%s %s*)(",
                   v->kind == FL_KV_POINTER && !v->is_const ? "" : "const ",
                   fl_kput_memory_type(v->type), star);
    put_param_name(w, p);
    fl_text_printf(w->t, ".b + %lld)", (long long)offset);
  }
  fl_text_puts(w->t, fl_kt_is_half(v->type) && v->kind != FL_KV_POINTER ? ");\n" : ";\n");
}

static void put_leaves(fl_kwriter *w) {
  for (int i = 0; i < w->f->n_vars; i++) {
    const fl_kvar *v = &w->f->vars[i];
    if (v->param < 0) continue;
    const fl_kparam *p = &w->f->params[v->param];
    if (!by_bytes(p) && (p->is_pointer || !fl_kt_is_half(v->type))) continue;
    if (v->kind != FL_KV_ARRAY) { put_leaf(w, i, "", v->offset); continue; }
    for (int64_t e = 0; e < v->count; e++) {
      char index[32];
      snprintf(index, sizeof index, "[%lld]", (long long)e);
      put_leaf(w, i, index, fl_kvar_offset(v, e));
    }
  }
}

/* Where shared array i begins, in bytes, if all static ones are next to each other, aligned to
** 16. */
static int64_t shared_place(const fl_kfunc *f, int i) {
  int64_t at = 0;
  for (int j = 0; j < i; j++)
    if (f->vars[j].kind == FL_KV_SHARED && !f->vars[j].dynamic)
      at += (f->vars[j].count * fl_kt_size(f->vars[j].type) + 15) / 16 * 16;
  return at;
}

static void put_variable(fl_kwriter *w, int i) {
  const fl_kvar *v = &w->f->vars[i];
  if (v->kind == FL_KV_TABLE) return;
  if (v->param >= 0) {
    const fl_kparam *p = &w->f->params[v->param];
    if (p->is_pointer || (!by_bytes(p) && !fl_kt_is_half(v->type))) return;
  }
  fl_text_puts(w->t, "  ");
  if (v->kind == FL_KV_SHARED && (v->dynamic || w->f->moves_shared)) {
    const int64_t at = v->dynamic ? fl_kfunc_moved(w->f) : shared_place(w->f, i);
    fl_text_printf(w->t, "%s *const ", fl_kput_memory_type(v->type));
    fl_kput_name(w, v->name);
    fl_text_printf(w->t, " = (%s *)fl_dynamic", fl_kput_memory_type(v->type));
    if (at) fl_text_printf(w->t, " + %lld", (long long)(at / fl_kt_size(v->type)));
    fl_text_puts(w->t, ";\n");
    return;
  }
  if (v->kind == FL_KV_SHARED)
    fl_text_printf(w->t, "__shared__ %s ", fl_kput_memory_type(v->type));
  else if (v->kind == FL_KV_POINTER)
    fl_text_printf(w->t, "%s%s *", v->is_const ? "const " : "", fl_kput_memory_type(v->type));
  else fl_text_printf(w->t, "%s ", fl_kput_value_type(v->type));
  fl_kput_name(w, v->name);
  if (v->kind == FL_KV_ARRAY || v->kind == FL_KV_SHARED)
    fl_text_printf(w->t, "[%lld]", (long long)v->count);
  fl_text_puts(w->t, ";\n");
}

/* Writes code that moves each pointer to the part of the batch that the block works on. */
static void put_parts(fl_kwriter *w) {
  for (int i = 0; i < w->f->n_params; i++) {
    const fl_kparam *p = &w->f->params[i];
    const char *constant = p->is_const ? "const " : "";
    if (!p->is_pointer) continue;
    fl_text_puts(w->t, "  ");
    put_param_name(w, p);
    fl_text_printf(w->t, " = (%s%s *)((%schar *)", constant, fl_kput_memory_type(p->type),
                   constant);
    put_param_name(w, p);
    fl_text_printf(w->t, " + blockIdx.z / fl_b.blocks * fl_b.step[%d]);\n", i);
  }
}

static int uses_dynamic(const fl_kfunc *f) {
  if (f->moves_shared) return 1;
  for (int i = 0; i < f->n_vars; i++)
    if (f->vars[i].kind == FL_KV_SHARED && f->vars[i].dynamic) return 1;
  return 0;
}

/* Writes one kernel. w: the options of its text (slot, batch, check, file, first, saved); the other
** fields are set here. */
static void put_kernel(fl_text *t, const fl_kfunc *f, fl_kwriter w) {
  const uint8_t *slot = w.slot;
  fl_kcheck *check = w.check;
  fl_knear *near = slot || check || w.saved ? NULL : fl_knear_new(t->mem, f);
  w.t = t;
  w.f = f;
  w.depth = 1;
  w.near = near;
  fl_kstop_open(&w);
  if (near) fl_knear_prelude(t);
  put_tables(&w);
  put_structs(&w);
  if (!w.saved) fl_kput_apart(&w);
  if (uses_dynamic(f))
    fl_text_puts(t, "extern __shared__ __align__(16) unsigned char fl_dynamic[];\n");
  fl_text_puts(t, "extern \"C\" __global__ void ");
  if (check || w.bounded) fl_text_puts(t, "__launch_bounds__(1024) ");
  else if (f->max_threads) fl_text_printf(t, "__launch_bounds__(%d) ", (int)f->max_threads);
  fl_text_printf(t, "%s(", f->name);
  put_params(&w);
  put_hidden(&w);
  fl_text_puts(t, ") {\n");
  for (int i = 0; i < f->n_vars; i++) put_variable(&w, i);
  for (int i = 0; i < f->n_vars && check; i++) fl_kcheck_flag(&w, i);
  put_leaves(&w);
  if (w.batch) put_parts(&w);
  if (check) fl_text_puts(t, "  fl_thread fl_t;\n  fl_begin(fl_t, fl_c);\n");
  fl_kstop_begin(&w);
  if (near) fl_knear_begin(near, t);
  if (slot) fl_kput_sums_begin(&w);
  put_block(&w, f->body, NULL);
  if (slot) fl_kput_sums_end(&w);
  if (near) fl_knear_end(near, t);
  if (check) fl_text_puts(t, "  fl_leave(fl_t, false);\n");
  fl_text_puts(t, "}\n");
  fl_knear_free(near);
}

void fl_ktext_as(fl_text *t, const fl_kfunc *f, const fl_ktext_form *form) {
  if (form->batch)
    fl_text_printf(t, "struct fl_batch { unsigned blocks, first; long long step[%d]; };\n",
                   FL_KTEXT_PARTS);
  if (form->slot) fl_ktext_ordered(t);
  if (form->stops) fl_ktext_stop(t);
  const size_t from = t->n;
  put_kernel(t, f, (fl_kwriter){ .slot = form->slot, .batch = form->batch, .file = form->file,
                                 .first = form->line, .stops = form->stops,
                                 .bounded = form->bounded });
  if (t->failed || form->slot || form->batch || !fl_kpass_is_told()) return;
  char what[40];
  snprintf(what, sizeof what, "text %016" PRIx64, fl_hash64(t->at + from, t->n - from, 0));
  fl_kpass_tell(f, what);
}

void fl_ktext_kernel(fl_text *t, const fl_kfunc *f) { fl_ktext_as(t, f, &(fl_ktext_form){ 0 }); }

void fl_ktext_checked(fl_text *t, const fl_kfunc *f, unsigned checks) {
  fl_kcheck c;
  if (!fl_kcheck_open(&c, t->mem, f, checks)) { t->failed = 1; return; }
  put_kernel(t, f, (fl_kwriter){ .check = &c });
  fl_kcheck_close(&c, t->mem);
}

void fl_ktext_saved(fl_text *t, const fl_kfunc *f, int exact) {
  put_kernel(t, f, (fl_kwriter){ .saved = exact ? 2 : 1 });
}
