/* Launches of a kernel (function.h): those of a batch, and the messages of their faults. */
#include "kernel/function.h"
#include "kernel/text/text_stop.h"

/* ---- messages -------------------------------------------------------------------------------- */

void fl_kfunction_say(const fl_kfunction *k, const fl_lane_report *r, char *out) {
  fl_text t;
  fl_text_init(&t, k->mem);
  fl_lane_message(r, &t);
  const char *text = fl_text_str(&t);
  fl_kunit_message(k->unit, text ? text : "a fault of the kernel", out, FL_CALL_FAULT);
  fl_text_free(&t);
}

void fl_kfunction_say_stopped(const fl_call *c, int64_t at, int64_t which, char *out) {
  const fl_kfunction *k = (const fl_kfunction *)(const void *)c->callee;
  const fl_kstmt *s = fl_kassert_of(k->f, which);
  fl_lane_report r = { .kind = FL_LANE_ASSERT, .kernel = k->f->name, .name = s ? s->text : "",
                       .at = { .block = at >> 10, .thread = (int32_t)(at & 1023),
                               .line = s ? s->line : 0 } };
  for (int i = 0; i < 3; i++) {
    r.grid[i] = (uint32_t)c->p[FL_KP_GRID + i];
    r.block[i] = (uint32_t)c->p[FL_KP_BLOCK + i];
  }
  fl_kfunction_say(k, &r, out);
}

/* ---- batches --------------------------------------------------------------------------------- */

static int64_t bytes_of(const fl_call *c, int64_t input) {
  return c->in_numel[input] * fl_dtype_size(c->in_dtype[input]);
}

void fl_kbatch_part(const fl_call_run *r, int64_t part, fl_call *c, fl_call_run *run) {
  const int64_t batch = r->call->p[FL_KP_BATCH];
  *c = *r->call;
  *run = *r;
  run->call = c;
  c->p[FL_KP_BATCH] = 0;
  for (int i = 0; i < c->p[FL_KP_COUNT_ARGS]; i++) {
    int64_t a, b, *w = &c->p[FL_KP_ARGS + 2 * i];
    const fl_karg_kind kind = fl_karg_of(r->call, i, &a, &b);
    if (kind == FL_KARG_OUT || kind == FL_KARG_RAW) {
      w[0] = kind + 8 * (a / batch);
      w[1] = b + part * (a / batch);
    } else if (kind == FL_KARG_COPY || kind == FL_KARG_IN_EACH) {
      const int64_t bytes = bytes_of(r->call, a) / batch;
      if (kind == FL_KARG_COPY) w[1] = b + part * bytes;
      else w[0] = FL_KARG_IN + 8 * a;
      c->in_numel[a] = r->call->in_numel[a] / batch;
      run->in[a] = (char *)r->in[a] + part * bytes;
    }
  }
}
