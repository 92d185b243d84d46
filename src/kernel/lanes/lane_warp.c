/*
** Operations of several threads: barriers, shuffles, votes; and output: printf, assert. In lockstep
** a barrier need not wait, but all threads that have not returned must reach a __syncthreads, and
** the lane that a shuffle reads must be active (in CUDA the result is undefined otherwise).
*/
#include "kernel/lanes/lane_state.h"
#include <stdio.h>
#include <string.h>

/* The first lane of this block that has not returned and is not active; -1: none. */
static int64_t somebody_else(const fl_lane_state *s) {
  for (int64_t i = 0; i < s->n; i++)
    if (!s->now.at[i] && !s->gone[i]) return i;
  return -1;
}

int fl_lane_absent(fl_lane_state *s, const fl_lane_ins *p, int kind, int64_t lane,
                   fl_lane_place other) {
  fl_lane_fault(s, p, kind, lane);
  if (kind == FL_LANE_BARRIER) s->report->name = p->op == FL_LI_GRID ? "sync() of the grid"
                                                                     : "__syncthreads()";
  s->report->other = other;
  return 0;
}

static int absent(fl_lane_state *s, const fl_lane_ins *p, int kind, int64_t lane, int64_t other) {
  return fl_lane_absent(s, p, kind, lane, fl_lane_place_of(s, other, 0));
}

/* With FL_LANE_BOUNDS: active lanes must be in the mask that they give, and lanes in it must be
** active or have returned. 0: a fault. */
static int mask_holds(fl_lane_state *s, const fl_lane_ins *p) {
  if (p->a < 0 || !(s->launch->checks & FL_LANE_BOUNDS)) return 1;
  const uint32_t *mask = s->reg[p->a];
  for (int64_t i = 0; i < s->n; i++) {
    if (!s->now.at[i]) continue;
    const int64_t first = i / FL_LANE_WARP * FL_LANE_WARP;
    if (!(mask[i] >> (i - first) & 1)) return absent(s, p, FL_LANE_LANE, i, i);
    for (int64_t j = first; j < first + FL_LANE_WARP && j < s->n; j++)
      if ((mask[i] >> (j - first) & 1) && !s->now.at[j] && !s->gone[j])
        return absent(s, p, FL_LANE_LANE, i, j);
  }
  return 1;
}

int fl_lane_do_barrier(fl_lane_state *s, const fl_lane_ins *p) {
  if (p->sub == FL_KBAR_WARP) {
    if (!mask_holds(s, p)) return 0;
    fl_lane_time_tick(s);
    for (int64_t w = 0; w * FL_LANE_WARP < s->n; w++) {
      int here = 0;
      for (int64_t i = w * FL_LANE_WARP; i < (w + 1) * FL_LANE_WARP && i < s->n; i++)
        here |= s->now.at[i];
      if (here) s->warp_order[w] = s->clock;
    }
    return 1;
  }
  if (s->now.count != s->live)
    return absent(s, p, FL_LANE_BARRIER, fl_lane_first(s), somebody_else(s));
  fl_lane_time_tick(s);
  s->order.epoch = s->clock;
  return 1;
}

/* The lane within the warp that lane 'id' reads. The device uses the low five bits of a distance
** (PTX, shfl). */
static int64_t source(int op, int64_t id, uint32_t x, uint32_t width) {
  const int64_t w = width >= 1 && width <= 32 ? width : 32, begin = id / w * w, end = begin + w;
  int64_t from;
  switch (op) {
    case FL_KSH_IDX: return begin + (int64_t)(x % (uint32_t)w);
    case FL_KSH_UP: from = id - (int64_t)(x & 31); return from < begin ? id : from;
    case FL_KSH_DOWN: from = id + (int64_t)(x & 31); return from >= end ? id : from;
    default: from = id ^ (int64_t)(x & 31); return from >= end ? id : from;
  }
}

int fl_lane_do_shuffle(fl_lane_state *s, const fl_lane_ins *p) {
  const size_t slot = p->wide ? 8 : 4;
  const char *value = s->reg[p->b];
  const uint32_t *x = s->reg[p->c], *width = s->reg[p->m];
  char *out = s->reg[p->dst];
  if (!mask_holds(s, p)) return 0;
  for (int64_t i = 0; i < s->n; i++) {
    if (!s->now.at[i]) continue;
    const int64_t first = i / FL_LANE_WARP * FL_LANE_WARP;
    int64_t from = first + source(p->sub, i - first, x[i], width[i]);
    if (from >= s->n || !s->now.at[from]) {
      return absent(s, p, FL_LANE_LANE, i, from);
    }
    memcpy(out + (size_t)i * slot, value + (size_t)from * slot, slot);
  }
  return 1;
}

int fl_lane_do_vote(fl_lane_state *s, const fl_lane_ins *p) {
  const int32_t *value = p->b >= 0 ? s->reg[p->b] : NULL;
  const uint32_t *mask = p->a >= 0 ? s->reg[p->a] : NULL;
  uint32_t *out = s->reg[p->dst];
  if (!mask_holds(s, p)) return 0;
  for (int64_t first = 0; first < s->n; first += FL_LANE_WARP) {
    uint32_t here = 0, yes = 0;
    for (int64_t i = first; i < first + FL_LANE_WARP && i < s->n; i++) {
      if (!s->now.at[i]) continue;
      here |= 1u << (i - first);
      if (value && value[i]) yes |= 1u << (i - first);
    }
    for (int64_t i = first; i < first + FL_LANE_WARP && i < s->n; i++) {
      const uint32_t m = mask ? mask[i] : ~0u;
      switch (p->sub) {
        case FL_KVOTE_BALLOT: out[i] = yes & m; break;
        case FL_KVOTE_ANY: out[i] = (yes & m) != 0; break;
        case FL_KVOTE_ALL: out[i] = (here & m & ~yes) == 0; break;
        default: out[i] = here; break;
      }
    }
  }
  return 1;
}

/* ---- printf -------------------------------------------------------------------------- */

enum { MOST_TEXT = 1024 };           /* the longest text of one value; a longer one is cut */

/* What a thread prints. It is handed over when the buffer is full, and at the end. */
typedef struct line { const fl_lane_launch *to; size_t n; char at[MOST_TEXT]; } line;

static void hand_over(line *t) {
  if (t->n) t->to->print(t->to->print_arg, t->at, t->n);
  t->n = 0;
}

static void put(line *t, const char *s, size_t n) {
  while (n) {
    if (t->n == sizeof t->at) hand_over(t);
    const size_t room = sizeof t->at - t->n, k = n < room ? n : room;
    memcpy(t->at + t->n, s, k);
    t->n += k;
    s += k;
    n -= k;
  }
}

/* A value as C's printf expects it for its type. */
static fl_kvalue slot_value(const fl_lane_state *s, int32_t reg, int type, int64_t lane) {
  const fl_lane_reg *r = &s->code->regs.at[reg];
  const char *at = (const char *)s->reg[reg] + (r->uniform ? 0 : lane * (r->wide ? 8 : 4));
  fl_kvalue v = { .i = 0 };
  float f;
  int32_t i;
  switch (fl_lane_class_of(type)) {
    case FL_LC_F32: memcpy(&f, at, 4); v.d = f; break;
    case FL_LC_F64: case FL_LC_I64: case FL_LC_U64: memcpy(&v, at, 8); break;
    default: memcpy(&i, at, 4); v.i = type == FL_KT_U32 ? (int64_t)(uint32_t)i : i; break;
  }
  return v;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"   /* checked by 'format' */
enum { MOST_SPEC = 40 };

/* Writes value v of this type by one conversion: 'fmt' is "%-8.3", n characters, with room for 4
** more, and 'letter' the conversion; the length modifier is chosen here. */
static void convert(line *t, char fmt[MOST_SPEC], size_t n, char letter, fl_kvalue v, int type) {
  char text[MOST_TEXT];
  const int is_float = fl_kt_is_float(type);
  int k = 0;
  if (strchr("aAeEfFgG", letter)) {
    fmt[n] = letter;
    fmt[n + 1] = 0;
    k = snprintf(text, sizeof text, fmt, is_float ? v.d : (double)v.i);
  } else if (letter == 'c') {
    fmt[n] = 'c';
    fmt[n + 1] = 0;
    k = snprintf(text, sizeof text, fmt, (int)v.i);
  } else {
    const int narrow = fl_kt_size(type) <= 4 && strchr("uxXo", letter);
    memcpy(fmt + n, "ll", 2);
    fmt[n + 2] = letter == 'p' ? 'x' : letter;
    fmt[n + 3] = 0;
    const long long i = is_float ? 0 : narrow ? (long long)(uint32_t)v.i : (long long)v.i;
    k = snprintf(text, sizeof text, fmt, i);
  }
  if (k > 0) put(t, text, (size_t)k < sizeof text ? (size_t)k : sizeof text - 1);
}
#pragma GCC diagnostic pop

/* The value of argument 'arg' of a printf. */
static fl_kvalue argument(const fl_lane_state *s, const fl_lane_ins *p, int arg, int64_t lane) {
  const int type = s->code->texts.at[p->x]->args[arg]->type;
  return slot_value(s, s->code->operands.at[p->m + arg], type, lane);
}

/* Copies the flags, width and precision behind the '%' at f to 'spec' (*n characters with the '%'),
** a '*' as the value of argument *arg, after which *arg is one more; returns their length in the
** format, with the '%'. */
static size_t read_spec(const fl_lane_state *s, const fl_lane_ins *p, int64_t lane, const char *f,
                        int *arg, char spec[MOST_SPEC], size_t *n) {
  size_t k = 1;
  spec[0] = '%';
  for (*n = 1; f[k] && strchr("-+ #0123456789.*", f[k]); k++) {
    if (*n > MOST_SPEC - 18) continue;
    if (f[k] != '*') { spec[(*n)++] = f[k]; continue; }
    const int w = *arg < -1 - p->a ? (int)argument(s, p, (*arg)++, lane).i : 0;
    if (w < 0 && spec[*n - 1] == '.') *n -= 1;                 /* as if there were no precision */
    else *n += (size_t)snprintf(spec + *n, 13, "%d", w);
  }
  return k;
}

static void format(const fl_lane_state *s, const fl_lane_ins *p, int64_t lane, line *t) {
  const fl_kstmt *st = s->code->texts.at[p->x];
  const int n_args = -1 - p->a;
  int arg = 0;
  for (const char *f = st->text; *f;) {
    const char *end = strchr(f, '%');
    if (!end) { put(t, f, strlen(f)); return; }
    put(t, f, (size_t)(end - f));
    if (end[1] == '%') { put(t, "%", 1); f = end + 2; continue; }
    char spec[MOST_SPEC];
    size_t k;
    const size_t n = read_spec(s, p, lane, end, &arg, spec, &k),
                 length = strspn(end + n, "hlLjzt");
    const char letter = end[n + length];
    if (!letter || !strchr("diuoxXcaAeEfFgGp", letter) || arg >= n_args) {
      put(t, end, n + length + (letter != 0));           /* as it stands */
    } else {
      convert(t, spec, k, letter, argument(s, p, arg, lane), st->args[arg]->type);
      arg++;
    }
    f = end + n + length + (letter != 0);
  }
}

int fl_lane_do_printf(fl_lane_state *s, const fl_lane_ins *p) {
  if (!s->launch->print) return 1;
  for (int64_t i = 0; i < s->n; i++) {
    if (!s->now.at[i]) continue;
    line t;
    t.to = s->launch;
    t.n = 0;
    format(s, p, i, &t);
    hand_over(&t);
  }
  return 1;
}

int fl_lane_do_assert(fl_lane_state *s, const fl_lane_ins *p) {
  const int32_t *v = s->reg[p->a];
  for (int64_t i = 0; i < s->n; i++) {
    if (!s->now.at[i] || v[i]) continue;
    fl_lane_fault(s, p, p->b < 0 ? FL_LANE_ASSERT : FL_LANE_ALIGN, i);
    if (p->b >= 0) s->report->index = ((const int64_t *)s->reg[p->b])[i];
    s->report->name = s->code->texts.at[p->x]->text;
    return 0;
  }
  return 1;
}
