/*
** tostring(x): the value of a 0-d tensor; a vector that fits on one line, with its facts; others in
** aligned rows, followed by shape, dtype and device. Only what is shown is read: for a tensor with
** more than a thousand elements the first and last three along each axis, joined on its device
** before they are copied.
*/
#include "lua/binding.h"
#include <assert.h>
#include <math.h>
#include <stdio.h>

enum { FULL = 1000, EDGE = 3, LINE = 80 };

/* n without the middle of each long axis; *cut: the set of axes that were shortened. */
static fl_node *edges(fl_node *n, uint32_t *cut) {
  *cut = 0;
  if (n->shape->numel <= FULL) return n;
  for (int a = 0; n != NULL && a < n->shape->rank; a++) {
    const int64_t size = n->shape->size[a];
    if (size <= 2 * EDGE) continue;
    fl_node *ends[2] = { n_slice(n, a, 0, EDGE, 1), n_slice(n, a, size - EDGE, EDGE, 1) };
    n = ends[0] && ends[1] ? n_cat(n->ctx, 2, ends, a) : NULL;
    *cut |= 1u << a;
  }
  return n;
}

/* The number of bytes that edges() leaves to print. */
static size_t shown_bytes(const fl_node *n) {
  size_t count = 1;
  for (int a = 0; a < n->shape->rank; a++) {
    const int64_t size = n->shape->size[a];
    count *= (size_t)(n->shape->numel > FULL && size > 2 * EDGE ? 2 * EDGE : size);
  }
  return (count + 1) * (size_t)fl_dtype_size(n->dtype);
}

/* The format of all elements of a tensor. */
typedef struct style { int dtype, width, decimals, exponent; } style;

static int write_value(char buf[40], const style *s, const char *p) {
  const fl_scalar v = fl_scalar_load(p, s->dtype);
  if (s->dtype == FLAME_BOOL) return snprintf(buf, 40, "%s", v.i ? "true" : "false");
  if (!fl_is_float(s->dtype)) return snprintf(buf, 40, "%lld", (long long)v.i);
  if (isnan(v.d)) return snprintf(buf, 40, "nan");
  if (isinf(v.d)) return snprintf(buf, 40, v.d > 0 ? "inf" : "-inf");
  int n = snprintf(buf, 40, s->exponent ? "%.*e" : "%.*f", s->decimals, v.d);
  for (int i = 0; i < n; i++) if (buf[i] == ',') buf[i] = '.';   /* a decimal comma of the locale */
  return n;
}

/* Whole numbers without a point; four digits after it otherwise; exponents for wide ranges. */
static void choose(style *s, const char *p, int64_t n) {
  double largest = 0, smallest = INFINITY;
  int whole = 1;
  char text[40];
  const int size = fl_dtype_size(s->dtype);
  for (int64_t i = 0; fl_is_float(s->dtype) && i < n; i++) {
    const double v = fabs(fl_scalar_load(p + i * size, s->dtype).d);
    if (!isfinite(v)) continue;
    if (v != floor(v)) whole = 0;
    if (v > largest) largest = v;
    if (v != 0 && v < smallest) smallest = v;
  }
  s->exponent = largest >= 1e8 ||
                (!whole &&
                 (largest >= 1e5 || (smallest < 1e-4 && largest < 1) || largest / smallest > 1e8));
  s->decimals = s->exponent ? 4 : whole ? 0 : 4;
  s->width = 0;
  for (int64_t i = 0; i < n; i++) {
    const int w = write_value(text, s, p + i * size);
    if (w > s->width) s->width = w;
  }
}

typedef struct printer {
  luaL_Buffer *out;
  const char *at;                      /* the next value */
  style style;
  int rank;
  const int64_t *size;                 /* of what is shown */
  const int64_t *whole;                /* of the tensor */
  uint32_t cut;                        /* the set of axes that were shortened */
} printer;

static void add_value(printer *p, int first) {
  char text[40];
  const int n = write_value(text, &p->style, p->at);
  if (!first) luaL_addchar(p->out, ' ');
  for (int i = n; i < p->style.width; i++) luaL_addchar(p->out, ' ');
  luaL_addlstring(p->out, text, (size_t)n);
  p->at += fl_dtype_size(p->style.dtype);
}

/* Adds the last axis as one line; a single vector is broken into several lines. */
static void add_row(printer *p) {
  const int a = p->rank - 1;
  int column = 0;
  for (int64_t i = 0; i < p->size[a]; i++) {
    if (p->cut & 1u << a && i == EDGE) {
      luaL_addstring(p->out, " …");
      column += 2;
    }
    if (p->rank == 1 && column > 0 && column + p->style.width + 1 > LINE) {
      luaL_addchar(p->out, '\n');
      column = 0;
    }
    add_value(p, column == 0 && (i == 0 || p->rank == 1));
    column += p->style.width + 1;
  }
  luaL_addchar(p->out, '\n');
}

static void add_matrix(printer *p) {
  const int a = p->rank - 2;
  assert(a >= 0);
  for (int64_t i = 0; i < p->size[a]; i++) {
    if (p->cut & 1u << a && i == EDGE) luaL_addstring(p->out, "…\n");
    add_row(p);
  }
}

/* Adds the matrices of the last two axes, each below its positions in the other axes. */
static void add_blocks(printer *p) {
  int64_t at[FL_MAX_AXES] = { 0 };
  assert(p->rank <= FL_MAX_AXES);
  for (;;) {
    char text[24];
    luaL_addstring(p->out, "(");
    for (int a = 0; a < p->rank - 2; a++) {
      const int64_t i = p->cut & 1u << a && at[a] >= EDGE
                        ? at[a] + p->whole[a] - p->size[a] : at[a];
      snprintf(text, sizeof text, "%lld, ", (long long)i + 1);
      luaL_addstring(p->out, text);
    }
    luaL_addstring(p->out, "…, …)\n");
    add_matrix(p);
    int a = p->rank - 3;
    while (a >= 0 && ++at[a] == p->size[a]) at[a--] = 0;
    if (a < 0) return;
    if (p->cut & 1u << a && at[a] == EDGE) luaL_addstring(p->out, "…\n");
  }
}

/* "shape (2, 3), f32, cpu, requires grad". */
static const char *facts_of(char buf[256], const fl_node *n, int tracked) {
  char shape[192], device[16];
  fl_device_name(n->device, device);
  snprintf(buf, 256, "shape %s, %s, %s%s", fl_lua_shape_of(shape, n), fl_dtype_name(n->dtype),
           device, tracked ? ", requires grad" : "");
  return buf;
}

/* Adds a vector on one line with its facts; values are not padded. 0: it does not fit. */
static int add_line(printer *p, const char *facts) {
  char text[40], line[LINE + 1];
  size_t n = 0;
  int columns = (int)strlen(facts) + 2;
  const int size = fl_dtype_size(p->style.dtype);
  if (p->rank != 1) return 0;
  for (int64_t i = 0; i < p->size[0]; i++) {
    const int wide = write_value(text, &p->style, p->at + i * size);
    const char *gap = i == 0 ? "" : p->cut && i == EDGE ? " … " : " ";
    columns += wide + (i == 0 ? 0 : p->cut && i == EDGE ? 3 : 1);
    if (columns > LINE) return 0;
    n += (size_t)snprintf(line + n, sizeof line - n, "%s%s", gap, text);
  }
  luaL_addlstring(p->out, line, n);
  luaL_addstring(p->out, p->size[0] > 0 ? "  " : "");
  luaL_addstring(p->out, facts);
  return 1;
}

static void add_values(printer *p, const char *values, const char *facts) {
  const int64_t count = fl_numel(p->rank, p->size);
  p->at = values;
  choose(&p->style, values, count);
  if (p->rank == 0) {
    add_value(p, 1);
    return;
  }
  if (add_line(p, facts)) return;
  if (count > 0 && p->rank == 1) {
    add_row(p);
  } else if (count > 0 && p->rank == 2) {
    add_matrix(p);
  } else if (count > 0) {
    add_blocks(p);
  }
  luaL_addstring(p->out, facts);
}

int fl_print_tostring(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_box *x = box_at(L, 1);
  if (x == NULL || x->t == NULL || x->t->node == NULL || b->c == NULL) {
    lua_pushliteral(L, "tensor (closed)");
    return 1;
  }
  const fl_node *n = x->t->node;
  printer p = { NULL, NULL, { 0, 0, 0, 0 }, 0, NULL, NULL, 0 };
  char facts[256];
  int64_t size[FL_MAX_AXES], whole[FL_MAX_AXES];
  char *values = (char *)lua_newuserdatauv(L, shown_bytes(n), 0);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *now = node_of(b, x);
  fl_node *shown = now ? edges(now, &p.cut) : NULL;
  flame_status e = shown ? FLAME_OK : b->c->err.code;
  if (shown != NULL) {
    p.rank = shown->shape->rank;
    p.style.dtype = shown->dtype;
    memcpy(size, shown->shape->size, sizeof size);
    memcpy(whole, now->shape->size, sizeof whole);
    e = fl_read_node(b->c, shown, values,
        (size_t)(shown->shape->numel * fl_dtype_size(shown->dtype)));
  }
  fl_lua_leave_status(L, b, m, e);
  luaL_Buffer out;
  luaL_buffinit(L, &out);
  p.out = &out;
  b->tracked_reads += p.rank == 0 && fl_tensor_tracked(x->t);
  p.size = size;
  p.whole = whole;
  add_values(&p, values, facts_of(facts, x->t->node, fl_tensor_tracked(x->t)));
  luaL_pushresult(&out);
  return 1;
}
