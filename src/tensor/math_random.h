/* Philox and the random numbers made from it: a part of math.h, which is the file to include. */
#ifndef FL_TENSOR_MATH_RANDOM_H
#define FL_TENSOR_MATH_RANDOM_H

/* ---- Philox4x32-10 ----------------------------------------------------------------- */

typedef struct fl_u32x4 { uint32_t w[4]; } fl_u32x4;

FL_FN fl_u32x4 fl_philox_round(fl_u32x4 c, uint32_t k0, uint32_t k1) {
  const uint64_t p = (uint64_t)0xD2511F53u * c.w[0], q = (uint64_t)0xCD9E8D57u * c.w[2];
  fl_u32x4 r;
  r.w[0] = (uint32_t)(q >> 32) ^ c.w[1] ^ k0;
  r.w[1] = (uint32_t)q;
  r.w[2] = (uint32_t)(p >> 32) ^ c.w[3] ^ k1;
  r.w[3] = (uint32_t)p;
  return r;
}

FL_FN fl_u32x4 fl_philox4(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3,
                          uint32_t k0, uint32_t k1) {
  fl_u32x4 r = { { c0, c1, c2, c3 } };
  for (uint32_t i = 0; i < 10; i++)
    r = fl_philox_round(r, k0 + i * 0x9E3779B9u, k1 + i * 0xBB67AE85u);
  return r;
}

FL_FN fl_u32x4 fl_philox(uint64_t block, uint64_t seed) {
  return fl_philox4((uint32_t)block, (uint32_t)(block >> 32), 0, 0,
                    (uint32_t)seed, (uint32_t)(seed >> 32));
}

/* Element i takes word i % 4 of block base + i / 4. */
FL_FN uint32_t fl_random_u32(int64_t i, uint64_t base, uint64_t seed) {
  const fl_u32x4 r = fl_philox(base + ((uint64_t)i >> 2), seed);
  const uint32_t lo = i & 1 ? r.w[1] : r.w[0], hi = i & 1 ? r.w[3] : r.w[2];
  return i & 2 ? hi : lo;
}

/* Draws of 64 bits (f64, randint): words 2 (i % 2) and the next one of block base + i / 2, the
** first word high. n draws use n / 2 blocks, so their builders take fl_rng_take(2 n). */
FL_FN uint64_t fl_random_u64(int64_t i, uint64_t base, uint64_t seed) {
  const fl_u32x4 r = fl_philox(base + ((uint64_t)i >> 1), seed);
  const uint32_t hi = i & 1 ? r.w[2] : r.w[0], lo = i & 1 ? r.w[3] : r.w[1];
  return (uint64_t)hi << 32 | lo;
}

FL_FN float fl_uniform01_f32(int64_t i, uint64_t base, uint64_t seed) {
  return (float)(int32_t)(fl_random_u32(i, base, seed) >> 8) * 0x1p-24f;
}

FL_FN double fl_uniform01_f64(int64_t i, uint64_t base, uint64_t seed) {
  return (double)(int64_t)(fl_random_u64(i, base, seed) >> 11) * 0x1p-53;
}

/* The next float below x: uniform draws stay below 'hi' after every rounding. */
FL_FN float fl_below_f32(float x) {
  const uint32_t b = fl_bits_f32(x);
  const uint32_t r = x > 0.0f ? b - 1 : b + 1;
  return x == 0.0f ? fl_as_f32(0x80000001u) : fl_as_f32(r);
}

FL_FN double fl_below_f64(double x) {
  const uint64_t b = fl_bits_f64(x);
  const uint64_t r = x > 0.0 ? b - 1 : b + 1;
  return x == 0.0 ? fl_as_f64(0x8000000000000001u) : fl_as_f64(r);
}

/* b is the encoding of h: the encoding of the next number below h, the same for f16 and bf16. */
FL_FN uint16_t fl_half_below(float h, uint16_t b) {
  const uint16_t z = h > 0.0f ? (uint16_t)(b - 1) : (uint16_t)(b + 1);
  return h == 0.0f ? (uint16_t)0x8001u : z;
}

/* The largest half value below hi: the rounded one, or the one below that. */
FL_FN float fl_below_f16(float hi) {
  const float h = fl_round_f16(hi);
  return h < hi ? h : fl_f16_value(fl_half_below(h, fl_f16_bits(hi)));
}

FL_FN float fl_below_bf16(float hi) {
  const float h = fl_round_bf16(hi);
  return h < hi ? h : fl_bf16_value(fl_half_below(h, fl_bf16_bits(hi)));
}

/* Uniform in [lo, hi) for lo < hi; lo if lo == hi. */
FL_FN float fl_random_uniform_f32(int64_t i, uint64_t base, uint64_t seed,
                                  float lo, float hi) {
  const float v = fmaf(fl_uniform01_f32(i, base, seed), hi - lo, lo);
  return ((v >= hi) & (lo < hi)) ? fl_below_f32(hi) : v;
}

FL_FN float fl_random_uniform_f16(int64_t i, uint64_t base, uint64_t seed,
                                  float lo, float hi) {
  const float v = fl_round_f16(fmaf(fl_uniform01_f32(i, base, seed), hi - lo, lo));
  return ((v >= hi) & (lo < hi)) ? fl_below_f16(hi) : v;
}

FL_FN float fl_random_uniform_bf16(int64_t i, uint64_t base, uint64_t seed,
                                   float lo, float hi) {
  const float v = fl_round_bf16(fmaf(fl_uniform01_f32(i, base, seed), hi - lo, lo));
  return ((v >= hi) & (lo < hi)) ? fl_below_bf16(hi) : v;
}

FL_FN double fl_random_uniform_f64(int64_t i, uint64_t base, uint64_t seed,
                                   double lo, double hi) {
  const double v = fma(fl_uniform01_f64(i, base, seed), hi - lo, lo);
  return ((v >= hi) & (lo < hi)) ? fl_below_f64(hi) : v;
}

/* An integer from lo to hi inclusive: the high 64 bits of draw * (hi - lo + 1). */
FL_FN int64_t fl_random_randint_i64(int64_t i, uint64_t base, uint64_t seed,
                                    int64_t lo, int64_t hi) {
  const uint64_t d = fl_random_u64(i, base, seed), n = (uint64_t)hi - (uint64_t)lo + 1;
  const uint64_t dl = (uint32_t)d, dh = d >> 32, nl = (uint32_t)n, nh = n >> 32;
  const uint64_t mid = dh * nl + (dl * nl >> 32);                /* no carry is lost */
  const uint64_t low = dl * nh + (uint32_t)mid;
  const uint64_t high = dh * nh + (mid >> 32) + (low >> 32);
  return (int64_t)((uint64_t)lo + (n == 0 ? d : high));          /* n == 0: all of int64 */
}

FL_FN int32_t fl_random_randint_i32(int64_t i, uint64_t base, uint64_t seed,
                                    int32_t lo, int32_t hi) {
  return (int32_t)fl_random_randint_i64(i, base, seed, lo, hi);
}

/* Normals by Box and Muller: the two elements of a pair share radius and angle, the even one
** takes the cosine. f32: pair (i % 4) / 2 of the block, one word each. The radius comes from
** a number in (0, 1], the angle is an integer that is split into quarters exactly. */
FL_FN float fl_normal_radius_f32(uint32_t a) {
  const float u = fmaf((float)(int32_t)(a >> 8), 0x1p-24f,
                       (float)(int32_t)(a & 0xffu) * 0x1p-32f + 0x1p-33f);
  return sqrtf(-2.0f * fl_log_f32(u));
}

FL_FN float fl_normal_turn_f32(uint32_t b, int odd) {
  const uint32_t q = (b + 0x20000000u) >> 30;
  const float t = (float)(int32_t)(b - (q << 30)) * 1.46291807e-09f;      /* pi/2 2^-30 */
  return fl_turned(t, (int32_t)(odd ? q : q + 1u));
}

FL_FN float fl_normal01_f32(int64_t i, uint64_t base, uint64_t seed) {
  const fl_u32x4 r = fl_philox(base + ((uint64_t)i >> 2), seed);
  const uint32_t a = i & 2 ? r.w[2] : r.w[0], b = i & 2 ? r.w[3] : r.w[1];
  return fl_normal_radius_f32(a) * fl_normal_turn_f32(b, (int)(i & 1));
}

FL_FN float fl_random_normal_f32(int64_t i, uint64_t base, uint64_t seed,
                                 float mean, float std) {
  return fmaf(fl_normal01_f32(i, base, seed), std, mean);
}

/* f64: a pair takes a separate block, words 0 1 for the radius and 2 3 for the angle. */
FL_FN double fl_normal01_f64(int64_t i, uint64_t base, uint64_t seed) {
  const fl_u32x4 r = fl_philox(base + ((uint64_t)i >> 1), seed);
  const uint64_t a = (uint64_t)r.w[0] << 32 | r.w[1], b = (uint64_t)r.w[2] << 32 | r.w[3];
  const double u = (double)(int64_t)((a >> 11) + 1) * 0x1p-53;
  const uint64_t q = ((b >> 11) + 0x4000000000000u) >> 51;
  const double t = (double)(int64_t)((b >> 11) - (q << 51)) * (0x1p-51 * 1.5707963267948966);
  const uint64_t k = i & 1 ? q : q + 1;
  const double s = fl_own_sin(t), c = fl_own_cos(t), v = k & 1 ? c : s;
  return sqrt(-2.0 * fl_own_log(u)) * (k & 2 ? -v : v);
}

FL_FN double fl_random_normal_f64(int64_t i, uint64_t base, uint64_t seed,
                                  double mean, double std) {
  return fma(fl_normal01_f64(i, base, seed), std, mean);
}
#endif
