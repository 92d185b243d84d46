/*
** The text of a kernel: helpers, entry, and the body of its class (text_map.c, text_row.c,
** text_col.c). See text.h.
*/
#include "base/hash.h"
#include "cuda/text/text_form.h"
#include "cuda/text/embedded.h"
#include <stdio.h>
#include <string.h>

void fl_text_prelude(fl_text *out) {
  fl_text_puts(out, fl_math_text);
  fl_embedded_put(out, "prelude.cu");
}

void fl_text_steps(fl_text *out) {
  fl_text_prelude(out);
  fl_embedded_put(out, "steps.cu");
}

static void put_entry(text_writer *w, const char *name) {
  const text_form *f = w->f;
  const int threads = f->threads > 0 ? f->threads : 256;
  char bounds[32];
  snprintf(bounds, sizeof bounds, f->blocks ? "%d, " FL_TEXT_BLOCKS : "%d", threads);
  if (f->blocks)
    fl_text_printf(w->out, "#ifndef " FL_TEXT_BLOCKS "\n#define " FL_TEXT_BLOCKS " %d\n#endif\n",
                   f->blocks);
  if (!f->multi) fl_text_printf(w->out, "struct params_%s { long long w[%d]; };\n", name, f->words);
  fl_text_printf(w->out, "extern \"C\" __global__ void __launch_bounds__(%s) %s(", bounds, name);
  if (f->multi) {
    fl_text_printf(w->out, "const batch b) {\n"
                   "const long long *const scalars = b.scalars;\n"
                   "const int2 at_chunk = b.chunk[blockIdx.x];\n"
                   "__shared__ long long w[%d];\n"       /* in separate memory, which no store can
                                                         ** change */
                   "#pragma unroll 1\n"
                   "for (int i = threadIdx.x; i < %d; i += %d) "
                   "w[i] = b.table[at_chunk.x * %dll + i];\n"
                   "__syncthreads();\n"
                   "const long long block = at_chunk.y;\n", f->words, f->words, threads, f->words);
  } else {
    fl_text_printf(w->out, "const __grid_constant__ params_%s params) {\n"
                   "const long long *const w = params.w;\nconst long long block = blockIdx.x;\n",
                   name);
  }
  if (f->k->guard)
    fl_text_printf(w->out, "if (*(const volatile unsigned long long *)w[%d] != ~0ull) return;\n",
                   W_FAULT);
}

/* Can the kernel be written? Not if it has more words than a parameter can hold, or more
** instructions, operands or dims than there is room for. */
static int supported(const text_form *f) {
  return f->words <= FL_TEXT_MAX_WORDS && f->k->ninstr <= FL_MAX_INSTR &&
         f->k->noperand <= FL_MAX_OPERANDS && f->ndim <= FL_MAX_AXES;
}

/* Appends lines of 'body' to 'out', indented by two blanks for each open brace. */
static void put_indented(const char *body, fl_text *out) {
  int depth = 0;
  while (body && *body) {
    const char *end = strchr(body, '\n');
    const size_t n = end ? (size_t)(end - body) : strlen(body);
    const int pull = *body == '}', label = *body == '#' || *body == ' ';
    for (int i = 0; i < depth - pull && !label; i++) fl_text_puts(out, "  ");
    fl_text_add(out, body, n);
    fl_text_puts(out, "\n");
    for (size_t i = 0; i < n; i++) depth += body[i] == '{' ? 1 : body[i] == '}' ? -1 : 0;
    body += n + (end != NULL);
  }
}

static void put_body(text_writer *w, const char *name) {
  const text_form *f = w->f;
  const int rows = f->cls != C_MAP && f->cls != C_COL;
  if (rows) fl_text_row_plan(w);
  else if (f->cls == C_COL) fl_text_col_plan(w);
  fl_text_plan_calls(w->f);
  fl_text_helpers(w);
  put_entry(w, name);
  if (rows) fl_text_row(w);
  else if (f->cls == C_COL) fl_text_col(w);
  else fl_text_map(w);
  fl_text_puts(w->out, "}\n");
  if (w->f->blocks) fl_text_puts(w->out, "#undef " FL_TEXT_BLOCKS "\n");
}

flame_status fl_text_kernel(const fl_kernel *k, const char *name, int multi, fl_text *out) {
  text_form f;
  fl_text body;
  text_writer w = { .f = &f, .out = &body };
  if (k->ninstr > FL_MAX_INSTR || k->noperand > FL_MAX_OPERANDS) return FLAME_NOT_SUPPORTED;
  fl_text_form(k, multi, &f);
  if (!supported(&f)) return FLAME_NOT_SUPPORTED;
  fl_text_init(&body, out->mem);
  put_body(&w, name);
  put_indented(fl_text_str(&body), out);
  if (body.failed) out->failed = 1;
  fl_text_free(&body);
  return out->failed ? FLAME_NO_MEMORY : FLAME_OK;
}

/* The text calls its entry fl_kernel; a macro before the text defines that as the generated
** name. */
flame_status fl_text_named(const fl_kernel *k, int multi, char name[FL_TEXT_NAME], fl_text *out) {
  char ops[FL_TEXT_NAME - sizeof "fl__12345678" + 1];
  fl_text t;
  fl_text_init(&t, out->mem);
  const flame_status e = fl_text_kernel(k, "fl_kernel", multi, &t);
  const char *text = e == FLAME_OK ? fl_text_str(&t) : NULL;
  if (text) {
    fl_kernel_name(k, ops, sizeof ops);
    for (char *c = ops; (c = strpbrk(c, "+.")) != NULL;) *c = '_';
    snprintf(name, FL_TEXT_NAME, "fl_%s_%08x", ops, (unsigned)fl_hash64(text, t.n, 1));
    fl_text_printf(out, "#undef fl_kernel\n#define fl_kernel %s\n", name);
    fl_text_add(out, text, t.n);
  }
  if (t.failed) out->failed = 1;
  fl_text_free(&t);
  return e == FLAME_OK && out->failed ? FLAME_NO_MEMORY : e;
}
