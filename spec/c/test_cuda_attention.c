/*
** Attention on the CUDA device, on the fake driver: which calls run on the device, which kernels
** are launched for them, and whether grids and shared memory are those that the kernels require.
** Where there is a real NVRTC, it compiles the kernel texts.
*/
#include "fake_device.h"
#include "nvrtc.h"
#include "cuda/call/call.h"
#include "tensor/call_attention.h"

static const fl_nvrtc *real_nvrtc(const char **reason) { return fl_cuda_libraries.nvrtc(reason); }

static int compile(void *program, int n, const char *const *option) {
  const char *reason = "";
  return (int)real_nvrtc(&reason)->nvrtcCompileProgram(program, n, option);
}

static fl_rtc_result judge(fl_rtc_program p, int n, const char *const *option) {
  return (fl_rtc_result)nvrtc_judge(compile, p, n, option);
}

/* The real one, without its optimisations. */
static const fl_nvrtc *judging_nvrtc(const char **reason) {
  static fl_nvrtc n;
  const fl_nvrtc *real = real_nvrtc(reason);
  if (!real) return NULL;
  n = *real;
  n.nvrtcCompileProgram = judge;
  return &n;
}

/* A call with q of shape (2, 4, t, d), k (2, 2, s, d) and v (2, 2, s, d2), row-major. */
static fl_call call_of(int kind, int dtype, int64_t t, int64_t s, int64_t d, int64_t d2, int mask,
                       int causal) {
  const int back = kind == FL_CALL_attention_back, first = back ? 2 : 0;
  const fl_attention a = { .b = 2, .h = 4, .hk = 2, .t = t, .s = s, .d = d, .d2 = d2,
                           .causal = causal, .qs = { 4 * t * d, t * d, d },
                           .ks = { 2 * s * d, s * d, d }, .vs = { 2 * s * d2, s * d2, d2 },
                           .gs = { 4 * t * d2, t * d2, d2 },
                           .ms = { 0, 0, s, 1 } };
  const int64_t packed = 8 * t * (d2 + fl_lse_width(dtype));
  fl_call c = { .kind = (uint16_t)kind, .nin = (uint8_t)(first + 3 + (mask != FL_MASK_NONE)),
                .dtype = (uint8_t)dtype,
                .numel = back ? 8 * t * d + 4 * s * (d + d2) : packed, .nscalar = 1,
                .in_numel = { 8 * t * d2, packed } };
  const int64_t numel[] = { 8 * t * d, 4 * s * d, 4 * s * d2, t * s };
  memcpy(c.p, &a, sizeof a);
  memset(c.in_dtype, dtype, sizeof c.in_dtype);
  memcpy(c.in_numel + first, numel, sizeof numel);
  if (mask == FL_MASK_BOOL) c.in_dtype[first + 3] = FLAME_BOOL;
  return c;
}

/* The same call with a dropout. */
static fl_call dropping(fl_call c) {
  c.p[FL_AP_DROPS] = 1;
  c.in_dtype[c.nin] = FLAME_I64;
  c.in_numel[c.nin++] = 2;
  c.nscalar = 2;
  return c;
}

typedef struct bench { flame_context c; fl_device d; } bench;

static fl_cuda *open_bench(bench *b, int real) {
  static const fl_cuda_lib mixed = { fake_get_driver, judging_nvrtc, fake_get_blaslt,
                                     fake_get_fft, fake_get_solver, NULL, NULL, NULL };
  memset(b, 0, sizeof *b);
  fake_reset();
  CHECK(fl_cuda_open_with(&b->c, &b->d, 0, real ? &mixed : &fake_libraries) == FLAME_OK);
  return b->d.state;
}

static int64_t scratch_of(fl_cuda *s, const fl_call *c) {
  int64_t bytes = -2;
  CHECK(fl_calls[c->kind].fits(c));
  CHECK(fl_cuda_call_prepare(s, c, &bytes) == FLAME_OK);
  return bytes;
}

static void what_kernels_do_not_take_goes_over_the_host(void) {
  bench b;
  fl_cuda *s = open_bench(&b, 0);
  static const struct { int dtype, d, d2, there; } of[] = {
    { FLAME_F32, 64, 64, 1 }, { FLAME_F32, 5, 5, 1 }, { FLAME_F32, 256, 256, 1 },
    { FLAME_F32, 257, 257, 0 }, { FLAME_F32, 64, 32, 0 },
    { FLAME_F64, 64, 64, 0 }, { FLAME_F16, 64, 64, 1 }, { FLAME_F16, 60, 60, 0 },
    { FLAME_BF16, 256, 256, 1 }, { FLAME_BF16, 264, 264, 0 },
  };
  for (size_t i = 0; i < sizeof of / sizeof *of; i++)
    for (int back = 0; back < 2; back++) {
      const fl_call c = call_of(back ? FL_CALL_attention_back : FL_CALL_attention, of[i].dtype, 30,
                                50, of[i].d, of[i].d2, FL_MASK_NONE, 0);
      const int64_t bytes = scratch_of(s, &c);
      CHECK(bytes == (!of[i].there ? -1 : back ? 4 * 8 * 30 : 0));
    }
  fl_modules_forget(s);
  close_fake(&b.c, &b.d);
}

typedef struct expected { const char *name; unsigned grid, shared, block; } expected;

/* Runs the call and checks that it makes exactly these n launches. */
static void launches(fl_cuda *s, const fl_call *c, int n, const expected *e) {
  static char memory[64];
  char fault[FL_CALL_FAULT];
  const fl_scalar scalars[] = { { .d = 0.5 }, { .d = 0.25 } };         /* scale, p of a dropout */
  fl_call_step t = { .call = *c, .out = { FL_AT_OUT, 0, 0 } };
  void *at[] = { memory };
  const fl_binding b = { .ext = at, .out = at, .scalar = scalars };
  for (int i = 0; i < c->nin; i++) t.in[i] = (fl_place){ FL_AT_EXT, 0, 0 };
  fake.nlaunch = 0;
  s->scratch_bytes = 1 << 30;              /* says that there is scratch memory: no kernel runs
                                           ** here that would use it */
  CHECK(fl_cuda_call_run(s, &t, &b, fault) == FLAME_OK);
  s->scratch_bytes = 0;
  CHECK(fake.nlaunch == n);
  for (int i = 0; i < n && i < fake.nlaunch; i++) {
    CHECK(strcmp(fake.launch[i].name, e[i].name) == 0);
    CHECK(fake.launch[i].grid == e[i].grid && fake.launch[i].shared == e[i].shared &&
          fake.launch[i].block == e[i].block);
  }
}

/* Grids and shared memory must be those that the comments at the heads of the kernel files give. */
static void a_call_is_launched_as_its_text_says(void) {
  static const expected half[] = { { "attention_forward", 8 * 3, 55296, 128 },
                                   { "attention_delta", 300 * 8 / 16, 0, 128 },
                                   { "attention_keys", 4 * 4, 55808, 128 },
                                   { "attention_queries", 8 * 3, 55296, 128 } };
  static const expected large[] = { { "attention_forward", 8 * 5, 101376, 128 },
                                    { "attention_delta", 300 * 8 / 4, 0, 128 },
                                    { "attention_keys", 4 * 8 * 2, 84608, 128 },
                                    { "attention_queries", 8 * 5, 101376, 128 } };
  static const expected single[] = { { "attention_forward", 8 * 10, 30336, 128 },
                                     { "attention_delta", 300 * 8 / 32, 0, 128 },
                                     { "attention_keys", 4 * 16, 43264, 128 },
                                     { "attention_queries", 8 * 10, 43264, 128 } };
  static const expected hopper[] = { { "attention_forward", 8 * 3, 55296, 128 },
                                     { "attention_delta", 300 * 8 / 16, 0, 128 },
                                     { "hopper_keys", 4 * 4, 153216, 384 },
                                     { "hopper_queries", 8 * 2, 170096, 512 } };
  static const expected wide[] = { { "attention_forward", 8 * 5, 87040, 128 },
                                   { "attention_delta", 300 * 8 / 8, 0, 128 },
                                   { "hopper_keys", 4 * 4, 200800, 384 },
                                   { "hopper_queries", 8 * 3, 200800, 384 } };
  static const struct { int dtype, d, arch; const expected *e; int drops; } of[] =
      { { FLAME_F16, 64, 80, half, 0 }, { FLAME_BF16, 200, 90, large, 0 },
        { FLAME_F32, 64, 90, single, 0 }, { FLAME_F16, 64, 90, hopper, 0 },
        { FLAME_BF16, 40, 90, hopper, 0 }, { FLAME_BF16, 128, 90, wide, 0 },
        { FLAME_F16, 64, 90, half, 1 }, { FLAME_F32, 64, 90, single, 1 } };
  for (size_t i = 0; i < sizeof of / sizeof *of; i++)
    for (int back = 0; back < 2; back++) {
      bench b;
      fl_cuda *s = open_bench(&b, 0);
      s->arch = of[i].arch;
      fl_call c = call_of(back ? FL_CALL_attention_back : FL_CALL_attention, of[i].dtype, 300,
                          500, of[i].d, of[i].d, FL_MASK_NONE, 1);
      if (of[i].drops) c = dropping(c);
      CHECK(scratch_of(s, &c) >= 0);
      CHECK(fl_modules_build(s) == FLAME_OK);
      launches(s, &c, back ? 3 : 1, of[i].e + back);
      close_fake(&b.c, &b.d);
    }
}

/* Compiles the kernels with the real NVRTC: forward and backward for each head size, in f16 or
** bf16, for heads of 64 and 128 without a mask also the gradients on Hopper; in f32 only backward,
** for one head size with each kind of mask; and all but Hopper's with a dropout. */
static void real_nvrtc_takes_the_texts(void) {
  static const int heads[] = { 32, 64, 96, 128, 192, 256 }, dtypes[] = { FLAME_F16, FLAME_BF16 };
  bench b;
  const char *reason = "";
#ifdef __SANITIZE_THREAD__
  return;
#endif
  if (!real_nvrtc(&reason)) {
    printf("skipped: compiling with NVRTC (%s)\n", reason);
    return;
  }
  fl_cuda *s = open_bench(&b, 1);
  for (int i = 0; i < 6; i++)
    for (int back = 0; back < 2; back++) {
      const fl_call c = call_of(back ? FL_CALL_attention_back : FL_CALL_attention, dtypes[i % 2],
                                40, 50, heads[i], heads[i], (i + back) % 3, i / 2 % 2),
                    drops = dropping(c);
      CHECK(scratch_of(s, &c) >= 0 && scratch_of(s, &drops) >= 0);
    }
  for (int mask = FL_MASK_NONE; mask <= FL_MASK_FLOAT; mask++) {
    const fl_call c = call_of(FL_CALL_attention_back, FLAME_F32, 40, 50, heads[2 * mask],
                              heads[2 * mask], mask, mask % 2), drops = dropping(c);
    CHECK(scratch_of(s, &c) >= 0 && scratch_of(s, &drops) >= 0);
  }
  for (int i = 0; i < 4; i++) {
    const int64_t d = i < 2 ? 64 : 128;
    const fl_call c = call_of(FL_CALL_attention_back, dtypes[i % 2], 40, 50, d, d, FL_MASK_NONE,
                              i % 2);
    CHECK(scratch_of(s, &c) >= 0);
  }
  const flame_status e = fl_modules_build(s);
  if (e != FLAME_OK) printf("%s\n", b.c.err.message);
  CHECK(e == FLAME_OK && b.c.stats.compiles == 34);
  close_fake(&b.c, &b.d);
}

int main(void) {
  setenv("FLAME_CACHE_DIR", "off", 1);
  what_kernels_do_not_take_goes_over_the_host();
  a_call_is_launched_as_its_text_says();
  real_nvrtc_takes_the_texts();
  printf("cuda_attention: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
