/*
** The loops over panels of scores (attention.h), included once per dtype with
**   T (of sums), S (of elements in memory), I (integer as wide as T), FROM(s): T of an S, OUT(x):
**   S of a T, EXP(x), LOG(x), LEAST (e^x is taken as 0 below it), TURN (of vm_turn.h), NAME(x)
** NR lanes are computed side by side and steps one after the other, so that the order of sums does
** not depend on NR.
*/
enum { NAME(NR) = 2 * FL_ISA_BYTES / (int)sizeof(T) };
#define LANES _Pragma("GCC ivdep") _Pragma("GCC unroll 1") for (int l = 0; l < NAME(NR); l++)

/* The weight e^x. A weight below the smallest normal number becomes 0: hidden keys give many such
** weights, and processors are slow with subnormal numbers. */
static inline T NAME(weight)(T x) {
  const T e = EXP(x < LEAST ? (T)0 : x);
  return x < LEAST ? (T)0 : e;
}

static void NAME(masked)(const fl_scores *s) {
  T *c = s->c;
  for (int64_t u = 0; u < s->n; u++, c += NAME(NR)) {
    const char *m = s->at + u * s->step_u;
    if (s->mask == FL_MASK_BOOL)
      for (int64_t l = 0; l < s->lanes; l++) c[l] = m[l * s->step_lane] ? c[l] : (T)-INFINITY;
    else
      for (int64_t l = 0; l < s->lanes; l++) {
        S v;
        memcpy(&v, m + l * s->step_lane, sizeof v);
        c[l] += FROM(v);
      }
  }
}

static void NAME(score)(const fl_scores *s) {
  T *c = s->c;
  const T scale = (T)s->scale;
  const I sign = (I)s->sign, gap = (I)s->gap;
  if (s->causal)
    for (int64_t u = 0; u < s->n; u++, c += NAME(NR))
      LANES c[l] = sign * ((I)u - (I)l) > gap ? (T)-INFINITY : c[l] * scale;
  else
    for (int64_t u = 0; u < s->n; u++, c += NAME(NR)) LANES c[l] *= scale;
  if (s->mask != FL_MASK_NONE) NAME(masked)(s);
}

static void NAME(weigh)(void *c_, int64_t n, void *top_, void *sum_, void *fade_) {
  T *c = c_, *top = top_, *sum = sum_, *fade = fade_, m[NAME(NR)], all[NAME(NR)];
  LANES m[l] = top[l];
  for (int64_t u = 0; u < n; u++)
    LANES m[l] = c[u * NAME(NR) + l] > m[l] ? c[u * NAME(NR) + l] : m[l];
  LANES {
    const T before = top[l];
    top[l] = m[l];
    m[l] = m[l] == (T)-INFINITY ? (T)0 : m[l];          /* no key seen yet: weights of 0 */
    fade[l] = NAME(weight)(before - m[l]);
    all[l] = 0;
  }
  for (int64_t u = 0; u < n; u++, c += NAME(NR)) LANES {
    const T e = NAME(weight)(c[l] - m[l]);
    all[l] += e;
    c[l] = FROM(OUT(e));
  }
  LANES sum[l] = sum[l] * fade[l] + all[l];
}

static void NAME(drop)(void *c_, int64_t n, const char *keep, int64_t step, double by_) {
  T *c = c_;
  const T by = (T)by_;
  for (int64_t u = 0; u < n; u++, c += NAME(NR), keep += step)
    LANES c[l] = keep[l] ? c[l] * by : (T)0;
}

static void NAME(fade)(void *acc_, int64_t n, const void *factor_) {
  T *acc = acc_;
  const T *factor = factor_;
  for (int64_t u = 0; u < n; u++, acc += NAME(NR)) LANES acc[l] *= factor[l];
}

static void NAME(put)(const void *acc_, int64_t n, int64_t lanes, const void *factor_, int64_t step,
                      void *out_) {
  const T *acc = acc_, *factor = factor_;
  S *out = out_;
  for (int64_t l = 0; l < lanes; l++, out += step)
    for (int64_t u = 0; u < n; u++) out[u] = OUT(acc[u * NAME(NR) + l] * factor[l]);
}

static void NAME(finish)(const void *top_, const void *sum_, int64_t lanes, double by_,
                         void *factor_, void *lse_) {
  const T *top = top_, *sum = sum_, by = (T)by_;
  T *factor = factor_;
  char *lse = lse_;
  LANES factor[l] = by / sum[l];
  for (int64_t l = 0; l < lanes; l++) {
    const T v = sum[l] == 0 ? (T)NAN : top[l] + LOG(sum[l]);      /* of no key: NaN */
    memcpy(lse + l * (int64_t)sizeof v, &v, sizeof v);
  }
}

static void NAME(dot)(const void *g_, int64_t step, const void *o_, int64_t o_step, int64_t rows,
                      int64_t n, void *delta_) {
  enum { SUMS = 16 };
  const S *g = g_, *o = o_;
  T *delta = delta_;
  for (int64_t i = 0; i < rows; i++, g += step, o += o_step) {
    T s[SUMS] = { 0 };
    int64_t u = 0;
    for (; u + SUMS <= n; u += SUMS)
      _Pragma("GCC unroll 1") for (int l = 0; l < SUMS;
                                   l++) s[l] += FROM(g[u + l]) * FROM(o[u + l]);
    for (int l = 0; u + l < n; l++) s[l] += FROM(g[u + l]) * FROM(o[u + l]);
    for (int half = SUMS / 2; half > 0; half /= 2)
      for (int l = 0; l < half; l++) s[l] += s[l + half];
    delta[i] = s[0];
  }
}

static void NAME(slope)(void *p_, void *dp_, int64_t n, const void *lse_, const void *delta_,
                        int hides) {
  T *p = p_, *dp = dp_;
  const T *lse = lse_, *delta = delta_, none = hides ? (T)-INFINITY : (T)NAN;
  for (int64_t u = 0; u < n; u++, p += NAME(NR), dp += NAME(NR)) {
    const T low = lse[u], mean = delta[u];
    LANES {
      const T e = NAME(weight)(p[l] - low), d = e * (dp[l] - mean);
      dp[l] = FROM(OUT(p[l] == none ? (T)0 : d));
      p[l] = FROM(OUT(e));
    }
  }
}

static void NAME(turn)(const void *panel_, int64_t rows, int64_t n, int mr, int64_t k,
                       int64_t first, void *packed_) {
  const T *panel = panel_;
  T *packed = packed_;
  for (int64_t i = 0; i < rows; i += mr, panel += mr * NAME(NR), packed += k * mr) {
    const int64_t m = fl_min(mr, rows - i);
    TURN(packed + first * mr, mr, panel, NAME(NR), n, m, 1);
    for (int64_t l = first; m < mr && l < first + n; l++)
      for (int64_t r = m; r < mr; r++) packed[l * mr + r] = 0;
  }
}

static void NAME(rows)(const void *acc_, int64_t step, int64_t rows, int64_t n, double factor_,
                       int64_t out_step, void *out_) {
  const T *acc = acc_, factor = (T)factor_;
  S *out = out_;
  for (int64_t i = 0; i < rows; i++, acc += step, out += out_step)
    for (int64_t u = 0; u < n; u++) out[u] = OUT(acc[u] * factor);
}

#undef LANES
#undef T
#undef S
#undef I
#undef FROM
#undef OUT
#undef EXP
#undef LOG
#undef LEAST
#undef TURN
#undef NAME
