/*
** User kernels of programs: text in a file, compiled when it is loaded. The arguments of a call are
** checked against the kernel's signature, since a file may hold anything; results that a launch is
** proven to write completely are not zeroed first, as for a script's call.
*/
#include "graph/graph.h"
#include "engine/launch.h"
#include <stdlib.h>
#include <string.h>

/* Writes "entry number-of-options", a line for each option, and the kernel's text. */
void fl_graph_put_kernel(fl_text *t, const fl_kfunction *k) {
  const fl_kunit *u = k->unit;
  fl_text_printf(t, "%s %d\n", k->f->name, (int)u->noption);
  for (int32_t i = 0; i < u->noption; i++) fl_text_printf(t, "%s\n", u->option[i]);
  fl_kfunction_save(k, t);
}

static void *refuse(flame_context *c, const char *why) {
  FL_FAIL(c, FLAME_IO, "program", "a kernel: %s", why);
  return NULL;
}

static fl_kfunction *function_of(flame_context *c, const char *text, size_t n, const char *entry,
                                 const char *const *option, int noption) {
  fl_ksource *s = fl_ksource_parse_until(&c->mem, &c->err, text, n, option, noption, NULL, NULL,
                                         &c->interrupted);
  fl_kunit *u = s ? fl_kunit_new(&c->mem, s, "program", 0, option, noption) : NULL;
  if (!u) return c->err.code ? NULL : refuse(c, "no host memory");
  fl_kfunc *f = s->too_large || s->error ? NULL : fl_ksource_kernel(s, entry);
  fl_kfunction *k = f ? fl_kfunction_saved(u, f) : NULL;
  if (!k) refuse(c, s->too_large ? s->too_large : s->error ? s->error : "there is no such entry");
  if (k && (c->limits.any || c->limits.deny) && !f->has_body) {
    fl_kfunction_release(k);
    k = refuse(c, "a context with limits runs only what it understands");
  }
  fl_kunit_release(u);
  return k;
}

/* Makes the kernel from a copy of its text. The copy is changed: lines then end in NULs. */
static fl_kfunction *read_copy(flame_context *c, char *s, char *end) {
  const char *option[16];
  char *next = s, *line = strsep(&next, "\n");
  char *count = line ? strchr(line, ' ') : NULL;
  if (!count || !next) return refuse(c, "its text does not begin with the entry");
  *count++ = 0;
  const int n = atoi(count);
  if (n < 0 || n > 16) return refuse(c, "it has more than 16 options");
  for (int i = 0; i < n; i++)
    if (!(option[i] = strsep(&next, "\n")) || !next) return refuse(c, "options are missing");
    else if (option[i][0] != '-' || option[i][1] == 'I')
      return refuse(c, "it includes files of another machine");
  return function_of(c, next, (size_t)(end - next), line, option, n);
}

fl_kfunction *fl_graph_read_kernel(flame_context *c, fl_span text) {
  if (!fl_may(c, FLAME_KERNELS, "kernel")) return NULL;
  char *copy = fl_alloc(&c->mem, text.n + 1);
  if (!copy) return refuse(c, "no host memory");
  memcpy(copy, text.at, text.n);
  copy[text.n] = 0;
  fl_kfunction *k = read_copy(c, copy, copy + text.n);
  fl_free(&c->mem, copy, text.n + 1);
  return k;
}

/* ---- launches -------------------------------------------------------------------------------- */

/* Does the argument that the words w and b describe (FL_KARG_*) fit parameter q? ns: number of
** scalars of the call. Pointers that are written point into the result. */
static int fits(const fl_kparam *q, int64_t w, int64_t b, int64_t ns) {
  const int kind = (int)(w & 7);
  if (!q->is_pointer)
    return kind == FL_KARG_VALUE && b == q->size && w >= 0 && (b + 7) / 8 <= ns - (w >> 3);
  if (kind == FL_KARG_NULL) return 1;
  return kind == FL_KARG_OUT || kind == FL_KARG_COPY || kind == FL_KARG_RAW ||
         (kind == FL_KARG_IN && q->is_const);
}

/* Can an argument of this kind receive the sums of atomic adds, which are made in a fixed order
** (k->slot)? They need the number of its elements. */
static int is_summed(int64_t kind) { return kind == FL_KARG_OUT || kind == FL_KARG_COPY; }

/* Marks the results that need not be zeroed first (FL_KARG_RAW), since the launch is proven to
** write all their elements. */
static void find_whole(const fl_kfunction *k, int64_t *p, const fl_scalar *scalar) {
  for (int i = 0; i < p[FL_KP_COUNT_ARGS]; i++) {
    int64_t *w = &p[FL_KP_ARGS + 2 * i];
    const int64_t bytes = *w >> 3;
    if ((*w & 7) == FL_KARG_RAW) *w = FL_KARG_OUT + 8 * bytes;
    if ((*w & 7) == FL_KARG_OUT && !k->slot[i] && fl_kernel_covers(k, p, scalar, i, bytes))
      *w = FL_KARG_RAW + 8 * bytes;
  }
}

fl_node *fl_graph_launch(flame_context *c, fl_kfunction *k, int device, int dtype, int rank,
                         const int64_t *size, int nin, fl_node *const *in, int np, int64_t *p,
                         int ns, const fl_scalar *scalar) {
  const int n = k->f->n_params;
  if (n > FL_KP_MAX_ARGS || np != FL_KP_ARGS + 2 * n || p[FL_KP_COUNT_ARGS] != n)
    return refuse(c, "a call has another number of arguments");
  for (int i = 0; i < 6; i++)
    if (p[i] < 1 || p[i] > INT32_MAX) return refuse(c, "a grid or block is out of range");
  for (int i = 0; i < n; i++)
    if (!fits(&k->f->params[i], p[FL_KP_ARGS + 2 * i], p[FL_KP_ARGS + 2 * i + 1], ns) ||
        (k->slot[i] && !is_summed(p[FL_KP_ARGS + 2 * i] & 7)))
      return refuse(c, "an argument does not fit its parameter");
  if (fl_kernel_ready(c, k, device) != FLAME_OK) return NULL;
  const unsigned checks = fl_kfunction_checks(c);
  p[FL_KP_CHECKS] = k->ad ? checks & ~(unsigned)FL_LANE_UNINIT : checks;
  find_whole(k, p, scalar);
  return n_call(c, FL_CALL_kernel, k->f->name, nin, in, device, dtype, rank, size, np, p,
                &k->callee, ns, scalar);
}
