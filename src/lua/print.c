/*
** tostring(x): values in aligned rows, then shape, dtype and device. Only what is shown is
** read: of a tensor with more than a thousand elements the first and last three along each
** axis, joined on its device before anything is copied.
*/
#include "lua/binding.h"
#include <assert.h>
#include <math.h>
#include <stdio.h>

enum { FULL = 1000, EDGE = 3, LINE = 80 };

/* n with the middle of each long axis cut out; *cut: axes that were shortened. */
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

/* Room for what edges() leaves. */
static size_t shown_bytes(const fl_node *n) {
  size_t count = 1;
  for (int a = 0; a < n->shape->rank; a++) {
    const int64_t size = n->shape->size[a];
    count *= (size_t)(n->shape->numel > FULL && size > 2 * EDGE ? 2 * EDGE : size);
  }
  return (count + 1) * (size_t)fl_dtype_size(n->dtype);
}

/* How all elements of one tensor are written. */
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
  const char *at;
  style style;
  int rank;
  const int64_t *size;
  const int64_t *whole;
  uint32_t cut;
} printer;

static void add_value(printer *p, int first) {
  char text[40];
  const int n = write_value(text, &p->style, p->at);
  if (!first) luaL_addchar(p->out, ' ');
  for (int i = n; i < p->style.width; i++) luaL_addchar(p->out, ' ');
  luaL_addlstring(p->out, text, (size_t)n);
  p->at += fl_dtype_size(p->style.dtype);
}

/* One line of the last axis; a lone vector is broken into lines. */
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

/* Matrices of the last two axes, each under its positions in the others. */
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

static void add_facts(luaL_Buffer *out, const fl_node *n, int tracked) {
  char text[192], device[16];
  luaL_addstring(out, "shape ");
  luaL_addstring(out, fl_lua_shape_of(text, n));
  luaL_addstring(out, ", ");
  luaL_addstring(out, fl_dtype_name(n->dtype));
  fl_device_name(n->device, device);
  luaL_addstring(out, ", ");
  luaL_addstring(out, device);
  if (tracked) luaL_addstring(out, ", requires grad");
}

static void add_values(printer *p, const char *values) {
  const int64_t count = fl_numel(p->rank, p->size);
  p->at = values;
  choose(&p->style, values, count);
  if (p->rank == 0) {
    add_value(p, 1);
    luaL_addchar(p->out, '\n');
  } else if (count > 0 && p->rank == 1) {
    add_row(p);
  } else if (count > 0 && p->rank == 2) {
    add_matrix(p);
  } else if (count > 0) {
    add_blocks(p);
  }
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
  p.size = size;
  p.whole = whole;
  add_values(&p, values);
  add_facts(&out, x->t->node, fl_tensor_tracked(x->t));
  luaL_pushresult(&out);
  return 1;
}
