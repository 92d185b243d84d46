/*
** The file of a program: safetensors, whose metadata are the program's text under "flame.program"
** and the kernels' under "flame.kernel.0" and so on; states are the tensors "s0" …, constants
** "c0" ….
*/
#include "graph/graph.h"
#include <stdio.h>
#include <string.h>

static fl_span span_of(const char *s) { return (fl_span){ s, strlen(s) }; }

static flame_status put(fl_export *x, const char *path, const char *text, size_t n,
                        char (*name)[40], fl_to_save *tensor, fl_text *kernel, fl_pair *meta) {
  const int64_t ns = x->state.n, nc = x->constant.n, nk = x->kernel.n;
  meta[0] = (fl_pair){ span_of("flame.program"), { text, n } };
  for (int64_t i = 0; i < ns + nc; i++) {
    const int state = i < ns;
    snprintf(name[i], sizeof *name, "%c%lld", state ? 's' : 'c', (long long)(state ? i : i - ns));
    tensor[i] = (fl_to_save){ span_of(name[i]),
                              state ? x->state.at[i]->node : x->constant.at[i - ns].node };
  }
  for (int64_t i = 0; i < nk; i++) {
    char (*key)[40] = &name[ns + nc + i];
    fl_text_init(&kernel[i], &x->c->mem);
    fl_graph_put_kernel(&kernel[i], x->kernel.at[i]);
    const char *s = fl_text_str(&kernel[i]);
    if (!s) return FL_FAIL(x->c, FLAME_NO_MEMORY, "export", "no host memory");
    snprintf(key[0], sizeof *name, "flame.kernel.%lld", (long long)i);
    meta[1 + i] = (fl_pair){ span_of(key[0]), { s, kernel[i].n } };
  }
  return fl_safetensors_save(x->c, path, ns + nc, tensor, 1 + nk, meta);
}

flame_status fl_export_save(fl_export *x, const char *path, const char *text, size_t n) {
  flame_context *c = x->c;
  const size_t nt = (size_t)(x->state.n + x->constant.n), nk = (size_t)x->kernel.n;
  for (int64_t i = 0; i < x->state.n; i++)
    if (!fl_tensor_open(x->state.at[i], "export")) return FLAME_BAD_ARGUMENT;
  char (*name)[40] = fl_zalloc(&c->mem, (nt + nk) * sizeof *name);
  fl_to_save *tensor = fl_zalloc(&c->mem, nt * sizeof *tensor);
  fl_text *kernel = fl_zalloc(&c->mem, nk * sizeof *kernel);
  fl_pair *meta = fl_zalloc(&c->mem, (nk + 1) * sizeof *meta);
  const int64_t mark = fl_scope_begin(c);
  flame_status e = name && tensor && kernel && meta
                   ? put(x, path, text, n, name, tensor, kernel, meta)
                   : FL_FAIL(c, FLAME_NO_MEMORY, "export", "no host memory");
  fl_scope_end(c, mark);
  for (size_t i = 0; kernel && i < nk; i++) if (kernel[i].mem) fl_text_free(&kernel[i]);
  fl_free(&c->mem, name, (nt + nk) * sizeof *name);
  fl_free(&c->mem, tensor, nt * sizeof *tensor);
  fl_free(&c->mem, kernel, nk * sizeof *kernel);
  fl_free(&c->mem, meta, (nk + 1) * sizeof *meta);
  return e;
}
