/*
** flame_apply: functions of the host program on the tape.
**
** The forward function runs at once, outside the tape, on separate handles. Its results become the
** values of custom nodes (tensor/entry.h), whose gradient rule is the backward function. A backward
** walk must call it once, so several results share a *joint*: a node with one axis, whose length is
** the sum of theirs, and whose value is never computed.
**   inputs <- joint <- each result
** The rule of a result adds the result's cotangent to a part of the joint's cotangent. The joint is
** older than the results, so a walk reaches it after them, with the sum. The joint's rule splits
** the sum again for the backward function. A single result of floats needs no joint.
**
** The handles that a callback borrows are made in this file, with two references, so that a
** superfluous flame_free is noticed. The handles that it hands over are freed here, whatever status
** it returns.
*/
#include "autograd/rules.h"
#include "tensor/lost.h"
#include <assert.h>
#include <string.h>

enum { MOST = FL_MOST_INPUTS,        /* inputs, or results, of a function */
       DEEP = 200 };                 /* functions nested in each other */

/* One function that was applied. The records of its results on the tape (entries) share it as the
** argument of their fl_custom, which frees it. */
typedef struct function {
  flame_context *c;
  fl_custom *custom;            /* whose argument this is */
  flame_function f;             /* its name is a copy */
  int nfloat;                   /* number of results that can be tracked */
  fl_node *value[];             /* held: the inputs, then the results, which are untracked */
} function;

/* One run of a callback: the handles that it borrows, then those that it hands over. */
typedef struct call {
  function *k;
  const char *what;             /* what messages call the tensors that are handed over: "result" */
  int nlent, ngiven;
  flame_tensor **lent, **given;
} call;

static fl_node **results_of(function *k) { return k->value + k->f.nin; }

static flame_status no_memory(flame_context *c, const char *op) {
  return FL_FAIL(c, FLAME_NO_MEMORY, op, "host memory is out");
}

/* ---- the function --------------------------------------------------------------------------- */

static size_t size_of(const flame_function *f) {
  return sizeof(function) + (size_t)(f->nin + f->nout) * sizeof(fl_node *);
}

static void function_release(void *arg) {
  function *k = arg;
  fl_mem *m = &k->c->mem;
  for (int i = 0; i < k->f.nin + k->f.nout; i++) if (k->value[i]) fl_node_drop(k->value[i]);
  k->c->callbacks++;
  if (k->f.release) k->f.release(k->f.arg);
  k->c->callbacks--;
  fl_free(m, (char *)(uintptr_t)k->f.name, strlen(k->f.name) + 1);
  fl_free(m, k, size_of(&k->f));
}

static fl_rule_fn function_back;

/* A new function; the caller has the first reference. If memory is out, NULL, and f->release was
** called. */
static function *function_new(flame_context *c, const flame_function *f) {
  char *name = fl_strdup(&c->mem, f->name);
  function *k = name ? fl_zalloc(&c->mem, size_of(f)) : NULL;
  fl_custom *custom = k ? fl_zalloc(&c->mem, sizeof *custom) : NULL;
  if (!custom) {
    no_memory(c, f->name);
    if (k) fl_free(&c->mem, k, size_of(f));
    if (name) fl_free(&c->mem, name, strlen(name) + 1);
    if (f->release) f->release(f->arg);
    return NULL;
  }
  *k = (function){ .c = c, .custom = custom, .f = *f };
  k->f.name = name;
  *custom = (fl_custom){ .refs = 1, .backward = function_back, .release = function_release,
                         .arg = k };
  return k;
}

/* Copies the caller's struct, which may be of another version, to f. If it is refused here (0), its
** 'release' is not called. */
static int read_function(flame_context *c, const flame_function *from, flame_function *f) {
  static const char op[] = "apply";
  if (!from || !from->size)
    FL_FAIL(c, FLAME_BAD_ARGUMENT, op, "%s" FL_DO "; write FLAME_FUNCTION(.name = \"f\", …)",
            from ? "the function has size 0" : "there is no function");
  else if (!fl_copy_known(f, sizeof *f, from, from->size))
    FL_FAIL(c, FLAME_BAD_ARGUMENT, op, "the function is of a later version than %s, "
            "and has settings that it does not know", FLAME_VERSION);
  else if (!f->forward)
    FL_FAIL(c, FLAME_BAD_ARGUMENT, op, "the function has no forward");
  else if (f->nin < 0 || f->nin > MOST || f->nout < 1 || f->nout > MOST)
    FL_FAIL(c, FLAME_BAD_ARGUMENT, op, "%d inputs and %d results, need 0 to %d and 1 to %d",
            f->nin, f->nout, MOST, MOST);
  else if (c->evaluating || c->settling)
    FL_FAIL(c, FLAME_BAD_ARGUMENT, op, "called by a release function, which may only free");
  else if (c->callbacks >= DEEP)
    FL_FAIL(c, FLAME_BAD_ARGUMENT, op, "functions are applied in functions more than %d deep", DEEP);
  else {
    if (!f->name || !f->name[0]) f->name = op;
    return 1;
  }
  return 0;
}

/* ---- calling the host ----------------------------------------------------------------------- */

static int call_begin(call *r, int nlent, int ngiven) {
  flame_context *c = r->k->c;
  r->lent = fl_zalloc(&c->mem, (size_t)(nlent + ngiven) * sizeof *r->lent);
  if (!r->lent) return no_memory(c, r->k->f.name), 0;
  r->given = r->lent + nlent;
  r->nlent = nlent;
  r->ngiven = ngiven;
  return 1;
}

/* Makes a handle on n for the callback, at index 'at' of those that it borrows. */
static int lend(call *r, int at, fl_node *n) {
  flame_context *c = r->k->c;
  if (!n || !(r->lent[at] = fl_tensor_new(c, n))) return 0;
  fl_tensor_retain(r->lent[at]);
  return 1;
}

static int is_lent(const call *r, const flame_tensor *t) {
  for (int i = 0; i < r->nlent; i++) if (r->lent[i] == t) return 1;
  return 0;
}

static int given_before(const call *r, int i) {
  for (int j = 0; j < i; j++) if (r->given[j] == r->given[i]) return 1;
  return 0;
}

static void call_end(call *r) {
  flame_context *c = r->k->c;
  for (int i = 0; i < r->ngiven; i++)
    if (r->given[i] && !given_before(r, i) && !is_lent(r, r->given[i])) flame_free(r->given[i]);
  for (int i = 0; i < r->nlent; i++) {
    if (!r->lent[i]) continue;
    if (r->lent[i]->refs > 1) fl_tensor_release(r->lent[i]);
    fl_tensor_release(r->lent[i]);
  }
  fl_free(&c->mem, r->lent, (size_t)(r->nlent + r->ngiven) * sizeof *r->lent);
}

/* Changes the error that a callback left in the context: it then names the function as its op. */
static flame_status rename_error(flame_context *c, const char *name) {
  char text[sizeof c->err.message + sizeof c->err.op + 8];
  const flame_status code = c->err.code;
  const uint32_t site = c->err.site;
  if (!strncmp(c->err.op, name, sizeof c->err.op - 1)) return code;
  fl_error_text(&c->err, text, sizeof text);
  const size_t skip = c->err.op[0] ? 0 : 2;
  fl_error_clear(&c->err);
  FL_FAIL(c, code, name, "%s", text + skip);
  c->err.site = site;
  return code;
}

/* The status of a callback's run. 'before': the context's error code before it. An error that the
** callback leaves in the context counts, even if it returns FLAME_OK. */
static flame_status outcome(const call *r, flame_status e, flame_status before, const char *which) {
  flame_context *c = r->k->c;
  const char *name = r->k->f.name;
  if (before == FLAME_OK && c->err.code != FLAME_OK) return rename_error(c, name);
  if (e != FLAME_OK)
    return FL_FAIL(c, e < FLAME_OK || e > FLAME_INTERNAL ? FLAME_INTERNAL : e, name,
                   "%s failed with status %d and no message" FL_DO "; give one with flame_fail",
                   which, (int)e);
  for (int i = 0; i < r->nlent; i++)
    if (r->lent[i] && r->lent[i]->refs < 2)
      return FL_FAIL(c, FLAME_BAD_ARGUMENT, name, "%s freed a tensor that it only borrows", which);
  return FLAME_OK;
}

/* Runs forward, or backward if there are cotangents. */
static flame_status run(call *r, flame_tensor *const *dout) {
  function *k = r->k;
  flame_context *c = k->c;
  flame_tensor *const *in = r->lent, *const *out = in + k->f.nin;
  const flame_status before = c->err.code;
  const uint8_t mode = c->grad_mode;
  const uint32_t site = c->site;
  c->callbacks++;
  const flame_status e = dout ? k->f.backward(c, k->f.arg, in, out, dout, r->given)
                              : k->f.forward(c, k->f.arg, in, r->given);
  c->callbacks--;
  c->grad_mode = mode;
  c->site = site;
  return outcome(r, e, before, dout ? "backward" : "forward");
}

/* Checks that tensor i of those handed over can be taken. */
static flame_status takeable(const call *r, int i) {
  flame_context *c = r->k->c;
  const flame_tensor *t = r->given[i];
  const char *wrong = !t ? "is missing" : is_lent(r, t) ? "is a tensor that it only borrows"
                    : given_before(r, i) ? "is handed over twice"
                    : t->ctx != c ? "belongs to another context"
                    : !t->node ? "was freed"
                    : t->node->state == FL_NUMBER ? "is a number, need a tensor" : NULL;
  if (wrong)
    return FL_FAIL(c, FLAME_BAD_ARGUMENT, r->k->f.name, "%s %d %s%s", r->what, i, wrong,
                   t && t->ctx == c && t->node && t->node->state != FL_NUMBER
                   ? FL_DO "; use flame_clone" : "");
  return t->node->state == FL_FAILED ? fl_node_raise(t->node) : FLAME_OK;
}

/* ---- results -------------------------------------------------------------------------------- */

/* The rule of a result: adds its cotangent to its part of the cotangent of the joint (the node that
** all float results share). 'arg': the offset of that part. */
static flame_status piece_back(flame_context *c, void *arg, fl_node *y, fl_node *g, int nin,
                               fl_node **gin) {
  fl_node *joint = y->in[0];
  const int64_t at = (intptr_t)arg, step = 1, n = g->shape->numel;
  g = n_cast(n_reshape(g, 1, &n), joint->dtype);
  gin[0] = g ? n_setslice(fl_zeros_like(g, joint->shape), &at, &step, &n, g) : NULL;
  (void)nin;
  return gin[0] ? FLAME_OK : c->err.code;
}

/* The joint (see the head of the file): a node with the function's inputs, on which all float
** results depend. Its dtype can hold the values of all of them. */
static fl_node *joint_of(function *k) {
  int64_t all = 0;
  int dtype = -1;
  const fl_node *v = NULL;
  for (int i = 0; i < k->f.nout; i++) {
    if (!fl_is_float(results_of(k)[i]->dtype)) continue;
    v = results_of(k)[i];
    dtype = dtype < 0 ? v->dtype : fl_promote(dtype, v->dtype);
    if (!__builtin_add_overflow(all, v->shape->numel, &all)) continue;
    FL_FAIL(k->c, FLAME_BAD_ARGUMENT, k->f.name, "the results together are too large");
    return NULL;
  }
  assert(v);                                    /* k->nfloat > 1 */
  fl_node *n = n_fill(k->c, dtype, v->device, 1, &all, (fl_scalar){ .d = 0 });
  return n_custom(n, k->f.nin, k->value, k->custom, 0);
}

static fl_node *tracked_input(const function *k) {
  for (int i = 0; i < k->f.nin; i++) {
    assert(k->value[i]);
    if (k->value[i]->entry) return k->value[i];
  }
  return NULL;
}

/* The value of a result that is not tracked; 'x': an input that is tracked, or NULL. */
static fl_node *untracked(function *k, fl_node *value, fl_node *x) {
  fl_node *n = n_detach(value);
  if (n && x)
    n->lost = fl_lost_from(x, FL_OP_custom,
                           k->c->grad_mode ? FL_LOST_OP : fl_lost_untracked(k->c));
  return n;
}

/* Puts nodes of the results into to[]. A float result is tracked if an input is, the grad mode is
** on and the function has a backward. */
static flame_status track(function *k, fl_node **to) {
  flame_context *c = k->c;
  fl_node *x = tracked_input(k), *joint = NULL;
  const int tracks = x && c->grad_mode && k->f.backward && k->nfloat;
  int64_t at = 0;
  if (tracks && k->nfloat > 1 && !(joint = joint_of(k))) return c->err.code;
  for (int i = 0; i < k->f.nout; i++) {
    fl_node *v = results_of(k)[i];
    assert(v);
    if (!tracks || !fl_is_float(v->dtype)) to[i] = untracked(k, v, x);
    else if (!joint) to[i] = n_custom(v, k->f.nin, k->value, k->custom, 0);
    else {
      to[i] = n_ruled(v, 1, &joint, piece_back, NULL, (void *)(intptr_t)at);
      at += v->shape->numel;
    }
    if (!to[i]) return c->err.code;
  }
  return FLAME_OK;
}

/* ---- forward -------------------------------------------------------------------------------- */

/* Makes new handles on the inputs for the callback: what it writes to these does not change the
** caller's handles. */
static flame_status lend_inputs(call *r) {
  function *k = r->k;
  for (int i = 0; i < k->f.nin; i++)
    if (!lend(r, i, k->value[i])) return k->c->err.code;
  return FLAME_OK;
}

static flame_status keep_results(call *r) {
  function *k = r->k;
  for (int i = 0; i < r->ngiven; i++) {
    const flame_status e = takeable(r, i);
    if (e != FLAME_OK) return e;
    fl_node *n = r->given[i]->node;
    if (n->device != r->given[0]->node->device)
      return FL_FAIL(k->c, FLAME_BAD_ARGUMENT, k->f.name,
                     "results 0 and %d are on different devices" FL_DO "; use flame_to_device", i);
    if (n->entry) n = n_detach(n);
    if (!n) return k->c->err.code;
    fl_node_hold(results_of(k)[i] = n);
    k->nfloat += fl_is_float(n->dtype);
  }
  return FLAME_OK;
}

static flame_status run_forward(function *k) {
  flame_context *c = k->c;
  call r = { .k = k, .what = "result" };
  if (!call_begin(&r, k->f.nin, k->f.nout)) return c->err.code;
  const uint8_t mode = c->grad_mode;
  c->grad_mode = 0;
  flame_status e = lend_inputs(&r);
  if (e == FLAME_OK) e = run(&r, NULL);
  if (e == FLAME_OK) e = keep_results(&r);
  c->grad_mode = mode;
  call_end(&r);
  return e;
}

/* ---- backward ------------------------------------------------------------------------------- */

/* The cotangent of result i, a part of the joint's cotangent g. *at: where the part begins; it is
** moved to the next part. */
static fl_node *part_of(function *k, fl_node *g, int i, int64_t *at) {
  const fl_node *v = results_of(k)[i];
  if (k->nfloat == 1) return g;
  fl_node *part = n_slice(g, 0, *at, v->shape->numel, 1);
  *at += v->shape->numel;
  return n_cast(part ? n_reshape(part, v->shape->rank, v->shape->size) : NULL, v->dtype);
}

/* Makes handles on the inputs, the results and the results' cotangents for the backward function;
** they are tracked if the walk is recorded (create_graph). */
static flame_status lend_all(call *r, fl_node *g) {
  function *k = r->k;
  fl_node *out[MOST];
  flame_status e = lend_inputs(r);
  if (e == FLAME_OK) e = track(k, out);
  int64_t at = 0;
  for (int i = 0; e == FLAME_OK && i < k->f.nout; i++) {
    const int is_float = fl_is_float(out[i]->dtype);
    if (!lend(r, k->f.nin + i, out[i]) ||
        (is_float && !lend(r, k->f.nin + k->f.nout + i, part_of(k, g, i, &at))))
      e = k->c->err.code;
  }
  return e;
}

static flame_status check_gradient(const call *r, int i) {
  flame_context *c = r->k->c;
  const fl_node *x = r->k->value[i], *g = r->given[i]->node;
  char a[192], b[192];
  if (g->shape != x->shape)
    return FL_FAIL(c, FLAME_BAD_ARGUMENT, r->k->f.name, "gradient %d has shape %s and its input %s",
                   i, fl_shape_text(a, g->shape->rank, g->shape->size),
                   fl_shape_text(b, x->shape->rank, x->shape->size));
  if (!fl_is_float(g->dtype))
    return FL_FAIL(c, FLAME_BAD_ARGUMENT, r->k->f.name, "gradient %d is %s, need a float", i,
                   fl_dtype_name(g->dtype));
  if (g->device != x->device)
    return FL_FAIL(c, FLAME_BAD_ARGUMENT, r->k->f.name, "gradient %d is on another device than "
                   "its input" FL_DO "; use flame_to_device", i);
  return FLAME_OK;
}

/* Checks the gradients that the backward function handed over, and puts those of the inputs into
** gin, held by the caller's scope. An input that is a number has no gradient. */
static flame_status take_gradients(const call *r, fl_node **gin) {
  for (int i = 0; i < r->ngiven; i++) {
    if (!r->given[i] || r->k->value[i]->state == FL_NUMBER) continue;
    flame_status e = takeable(r, i);
    if (e == FLAME_OK) e = check_gradient(r, i);
    if (e != FLAME_OK) return e;
    gin[i] = fl_scope_hold(r->k->c, r->given[i]->node);
    if (!gin[i]) return r->k->c->err.code;
  }
  return FLAME_OK;
}

static flame_status function_back(flame_context *c, void *arg, fl_node *y, fl_node *g, int nin,
                                  fl_node **gin) {
  function *k = arg;
  const int nout = k->f.nout;
  call r = { .k = k, .what = "gradient" };
  (void)y;
  if (!call_begin(&r, nin + 2 * nout, nin)) return c->err.code;
  flame_status e = lend_all(&r, g);
  if (e == FLAME_OK) e = run(&r, r.lent + nin + nout);
  if (e == FLAME_OK) e = take_gradients(&r, gin);
  call_end(&r);
  return e;
}

/* ---- the call ------------------------------------------------------------------------------- */

static flame_status hold_inputs(function *k, flame_tensor *const *in) {
  flame_context *c = k->c;
  if (!fl_given(c, in, k->f.nin, k->f.name, "inputs")) return c->err.code;
  for (int i = 0; i < k->f.nin; i++)
    if (!in[i]) return c->err.code ? c->err.code : FLAME_BAD_ARGUMENT;
  for (int i = 0; i < k->f.nin; i++) {
    if (in[i]->ctx != c)
      return FL_FAIL(c, FLAME_BAD_ARGUMENT, k->f.name, "input %d belongs to another context", i);
    if (!fl_tensor_open(in[i], k->f.name)) return FLAME_BAD_ARGUMENT;
    fl_node_hold(k->value[i] = in[i]->node);
  }
  return FLAME_OK;
}

static flame_status make_results(function *k, flame_tensor **out) {
  fl_node *to[MOST] = { NULL };
  assert(out || k->f.nout == 0);
  flame_status e = track(k, to);
  for (int i = 0; e == FLAME_OK && i < k->f.nout; i++)
    if (!(out[i] = fl_tensor_new(k->c, to[i]))) e = k->c->err.code;
  for (int i = 0; e != FLAME_OK && i < k->f.nout; i++) {
    fl_tensor_release(out[i]);
    out[i] = NULL;
  }
  return e;
}

flame_status flame_apply(flame_context *c, const flame_function *given, flame_tensor *const *in,
                         flame_tensor **out) {
  FL_HOLD(c, FLAME_BAD_ARGUMENT);
  flame_function f;
  if (!read_function(c, given, &f)) return FLAME_BAD_ARGUMENT;
  for (int i = 0; out && i < f.nout; i++) out[i] = NULL;
  function *k = function_new(c, &f);
  if (!k) return FLAME_NO_MEMORY;
  FL_ENTER(c);
  flame_status e = fl_given(c, out, f.nout, k->f.name, "results") ? hold_inputs(k, in)
                                                                  : c->err.code;
  if (e == FLAME_OK) e = run_forward(k);
  if (e == FLAME_OK) e = make_results(k, out);
  FL_LEAVE(c);
  fl_custom_drop(c, k->custom);
  return e;
}
