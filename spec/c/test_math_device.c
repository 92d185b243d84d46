/*
** tensor/math.h as a part of CUDA texts. NVRTC must compile it with a kernel for every op of
** ops.def and every register type, for sm_90, without a warning. Where there is a GPU, every f32
** op, the casts, the functions of the list PLAIN and every random generator must give the same bits
** there as on the CPU (NaNs count as equal), for a million bit patterns each. Parts for which the
** machine lacks something are skipped with a message.
*/
#include "cuda/text/embedded.h"
#include "nvrtc.h"
#include "tensor/math.h"
#include "tensor/ops.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static int passed, failed;

static void check(int ok, const char *what) {
  if (ok) passed++;
  else { failed++; fprintf(stderr, "FAILED: %s\n", what); }
}

/* ---- the CPU's side: one function per op, from its line in ops.def ---------------------- */

#define ON_FLOAT(...) __VA_ARGS__
#define ON_NUM(...) __VA_ARGS__
#define ON_SAME(...) __VA_ARGS__
#define ON_TEST(...) __VA_ARGS__
#define ON_INT(...)
#define ON_WHERE(...) __VA_ARGS__
#define T float
#define M(f) fl_##f##_f32
#define EACH(name, kind, value) ON_##kind( \
  static float cpu_##name(float x, float x2, float x3) { \
    const float x1 = x; \
    (void)x1, (void)x2, (void)x3; \
    return (float)(value); \
  })
#define UNARY(name, kind, value, grad, domain, doc) EACH(name, kind, value)
#define BINARY(name, kind, value, g1, g2, domain, doc) EACH(name, kind, value)
#define TERNARY(name, kind, value, g1, g2, g3, domain, doc) EACH(name, kind, value)
#define REDUCE(name, kind, init, value, grad, doc)
#define SPECIAL(...)
#include "tensor/ops.def"
#undef EACH

static const struct { const char *name; float (*f)(float, float, float); } cpu[] = {
#define EACH(name, kind, value) ON_##kind({ #name, cpu_##name } COMMA)
#define COMMA ,
#define UNARY(name, kind, value, grad, domain, doc) EACH(name, kind, value)
#define BINARY(name, kind, value, g1, g2, domain, doc) EACH(name, kind, value)
#define TERNARY(name, kind, value, g1, g2, g3, domain, doc) EACH(name, kind, value)
#define REDUCE(name, kind, init, value, grad, doc)
#define SPECIAL(...)
#include "tensor/ops.def"
};
enum { NCPU = sizeof cpu / sizeof *cpu, N = 1 << 20 };
#undef T
#undef M

/* Random draws, casts and f64 functions: expressions that are compiled here and put into the GPU's
** text; results are compared as 64-bit words. */
#define PLAIN \
  word(0, fl_random_uniform_f32(i, 5, 77, -1.0f, 3.0f)) \
  word(1, fl_random_uniform_f16(i, 5, 77, 0.0f, 1.0f)) \
  word(2, fl_random_uniform_bf16(i, 5, 77, 0.0f, 1.0f)) \
  word(3, fl_random_uniform_f64(i, 5, 77, -1.0, 3.0)) \
  word(4, fl_random_normal_f32(i, 5, 77, 0.0f, 1.0f)) \
  word(5, fl_random_normal_f64(i, 5, 77, 1.0, 2.0)) \
  word(6, fl_random_randint_i64(i, 5, 77, -3, 1000000000000)) \
  word(7, fl_random_randint_i32(i, 5, 77, 0, 9)) \
  word(8, fl_round_f16(x)) word(9, fl_round_bf16(x)) \
  word(10, fl_cast_f32_i32(x)) word(11, fl_cast_f32_i64(x)) word(12, fl_cast_f32_u8(x)) \
  word(13, fl_cast_f64_i64((double)x * 3.0)) word(14, fl_cast_f32_i8(x)) \
  word(15, fl_digamma_f64((double)x)) word(16, fl_trigamma_f64((double)x)) \
  word(17, fl_floordiv_i32((int32_t)fl_bits_f32(x), (int32_t)i - 500)) \
  word(18, fl_mod_i64((int64_t)fl_bits_f32(x), i - 500)) \
  word(19, fl_pow_i64((int64_t)fl_bits_f32(x), i % 50 - 2)) \
  WIDE(20, exp) WIDE(21, exp2) WIDE(22, expm1) WIDE(23, log) WIDE(24, log2) WIDE(25, log10) \
  WIDE(26, log1p) \
  WIDE(27, sin_near) WIDE(28, cos_near) WIDE(29, tan_near) WIDE(30, cosh) WIDE(31, sigmoid) \
  WIDE(32, atan) \
  WIDE(33, sinh) WIDE(34, softplus) WIDE(35, tanh) WIDE(36, asinh) WIDE(37, acosh) WIDE(38, atanh) \
  WIDE(39, sqrt)
/* An f64 function of a number near x that, unlike the f32 x, needs all bits of an f64. */
#define WIDE(k, f) word(k, fl_##f##_f64((double)x * 1.0000000123456789 + (double)i * 1e-15))
#define TEXT(...) TEXT_(__VA_ARGS__)
#define TEXT_(...) #__VA_ARGS__
enum { NPLAIN = 40 };
#define word(k, value) if (which == k) return (double)(value) + 0.0;
static double plain(int which, int64_t i, float x) { PLAIN return 0; }
#undef word

/* ---- the GPU's text ----------------------------------------------------------------------- */

/* Writes a kernel for each pointwise or reducing op that takes values of the C type t; returns the
** length of the text. 'name': the suffix of the type's functions in math.h; whole: t is an integer
** type. */
static size_t put_ops(char *at, size_t room, const char *t, const char *name, int whole) {
  size_t n = (size_t)snprintf(at, room, "#define T %s\n#define M(f) fl_##f##_%s\n", t, name);
  for (int op = 0; op < FL_OP_COUNT; op++) {
    const fl_op_info *o = &fl_ops[op];
    if (o->form > FL_FORM_REDUCE || o->kind == (whole ? FL_KIND_FLOAT : FL_KIND_INT)) continue;
    const int reduce = o->form == FL_FORM_REDUCE, test = o->kind == FL_KIND_TEST;
    if (reduce && test && !whole) continue;
    n += (size_t)snprintf(at + n, room - n,
      "extern \"C\" __global__ void k_%s_%s(T *y, const T *p, const T *q, const T *r) {\n"
      "  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
      "  const T x = p[i], x1 = x, x2 = q[i], x3 = r[i], a = %s, b = x2;\n"
      "  y[i] = (T)(%s);\n  (void)x1; (void)x2; (void)x3; (void)a; (void)b;\n}\n",
      o->name, name, reduce ? o->init : "x", o->value);
  }
  return n + (size_t)snprintf(at + n, room - n, "#undef T\n#undef M\n");
}

static char *gpu_text(void) {
  const size_t room = 1 << 20;
  char *text = malloc(room);
  if (!text) return NULL;
  size_t n = (size_t)snprintf(text, room, "%s", fl_math_text);
  n += put_ops(text + n, room - n, "double", "f64", 0);
  n += put_ops(text + n, room - n, "float", "f32", 0);
  n += put_ops(text + n, room - n, "int64_t", "i64", 1);
  n += put_ops(text + n, room - n, "int32_t", "i32", 1);
#define word(k, value) if (which == k) return (double)(value) + 0.0;
  static const char words[] = TEXT(PLAIN);
#undef word
  snprintf(text + n, room - n,
    "__device__ double plain(int which, int64_t i, float x) { %s return 0; }\n"
    "extern \"C\" __global__ void plain_words(double *y, const float *x, int which) {\n"
    "  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n  y[i] = plain(which, i, x[i]);\n}\n",
    words);
  return text;
}

static char *compile(const nvrtc *c, const char *text, int arch) {
  char option[64];
  snprintf(option, sizeof option, "--gpu-architecture=sm_%d", arch);
  const char *const options[] = { option, "-fmad=false" };
  void *p = NULL;
  size_t size = 0;
  check(c->create(&p, text, "math.cu", 0, NULL, NULL) == 0, "NVRTC takes the text");
  const int ok = c->compile(p, 2, options) == 0;
  check(ok, "NVRTC compiles math.h and a kernel for each op");
  c->log_size(p, &size);
  char *said = calloc(1, size + 1);
  if (said) c->log(p, said);
  check(said && said[0] == 0, said && said[0] ? said : "NVRTC has nothing to say");
  free(said);
  if (!ok || c->cubin_size(p, &size) != 0) return NULL;
  char *image = malloc(size);
  if (image) c->cubin(p, image);
  return image;
}

/* ---- a GPU, if there is one ------------------------------------------------------------------ */

typedef unsigned long long address;
typedef struct driver {
  int (*init)(unsigned), (*get)(int *, int), (*attribute)(int *, int, int);
  int (*retain)(void **, int), (*current)(void *), (*load)(void **, const void *);
  int (*function)(void **, void *, const char *), (*alloc)(address *, size_t);
  int (*to)(address, const void *, size_t), (*from)(void *, address, size_t);
  int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                void *, void **, void **);
  void *module;
} driver;

static int load_driver(driver *d, int *arch) {
  void *lib = dlopen("libcuda.so.1", RTLD_NOW), *context;
  int device, major, minor;
  if (!lib) return 0;
  *(void **)&d->init = dlsym(lib, "cuInit");
  *(void **)&d->get = dlsym(lib, "cuDeviceGet");
  *(void **)&d->attribute = dlsym(lib, "cuDeviceGetAttribute");
  *(void **)&d->retain = dlsym(lib, "cuDevicePrimaryCtxRetain");
  *(void **)&d->current = dlsym(lib, "cuCtxSetCurrent");
  *(void **)&d->load = dlsym(lib, "cuModuleLoadData");
  *(void **)&d->function = dlsym(lib, "cuModuleGetFunction");
  *(void **)&d->alloc = dlsym(lib, "cuMemAlloc_v2");
  *(void **)&d->to = dlsym(lib, "cuMemcpyHtoD_v2");
  *(void **)&d->from = dlsym(lib, "cuMemcpyDtoH_v2");
  *(void **)&d->launch = dlsym(lib, "cuLaunchKernel");
  if (!d->init || !d->launch || d->init(0) || d->get(&device, 0)) return 0;
  if (d->attribute(&major, 75, device) || d->attribute(&minor, 76, device)) return 0;
  if (d->retain(&context, device) || d->current(context)) return 0;
  *arch = major * 10 + minor;
  return 1;
}

static int run_on_gpu(const driver *d, const char *name, void **args) {
  void *f;
  return d->function(&f, d->module, name) == 0 &&
         d->launch(f, N / 256, 1, 1, 256, 1, 1, 0, NULL, args, NULL) == 0;
}

static void compare_ops(const driver *d, float *in, address *gpu, float *out) {
  char name[80];
  for (int k = 0; k < NCPU; k++) {
    void *args[] = { &gpu[0], &gpu[1], &gpu[2], &gpu[3] };
    snprintf(name, sizeof name, "k_%s_f32", cpu[k].name);
    check(run_on_gpu(d, name, args) && d->from(out, gpu[0], N * sizeof *out) == 0, name);
    int wrong = 0, at = 0;
    for (int i = 0; i < N; i++) {
      const float v = cpu[k].f(in[i], in[N + i], in[2 * N + i]);
      if (fl_bits_f32(v) != fl_bits_f32(out[i]) && !(v != v && out[i] != out[i])) wrong++, at = i;
    }
    char what[160];
    snprintf(what, sizeof what, "%s: %d of %d differ, at %a %a: CPU %a, GPU %a",
             cpu[k].name, wrong, (int)N, (double)in[at], (double)in[N + at],
             (double)cpu[k].f(in[at], in[N + at], in[2 * N + at]), (double)out[at]);
    check(wrong == 0, what);
  }
}

static void compare_plain(const driver *d, const float *in, address *gpu, double *out) {
  for (int which = 0; which < NPLAIN; which++) {
    void *args[] = { &gpu[0], &gpu[1], &which };
    check(run_on_gpu(d, "plain_words", args) && d->from(out, gpu[0], N * sizeof *out) == 0,
          "plain_words runs");
    int wrong = 0, at = 0;
    for (int i = 0; i < N; i++) {
      const double v = plain(which, i, in[i]);
      if (fl_bits_f64(v) != fl_bits_f64(out[i]) && !(v != v && out[i] != out[i])) wrong++, at = i;
    }
    char what[160];
    snprintf(what, sizeof what, "draw or cast %d: %d differ, at %d %a: CPU %a, GPU %a",
             which, wrong, at, (double)in[at], plain(which, at, in[at]), out[at]);
    check(wrong == 0, what);
  }
}

static void compare(driver *d, const char *image) {
  address gpu[4] = { 0 };
  float *in = malloc(3 * N * sizeof *in);
  double *out = malloc(N * sizeof *out);
  int ok = in && out && d->load(&d->module, image) == 0 && d->alloc(&gpu[0], N * sizeof *out) == 0;
  for (int i = 0; ok && i < 3 * N; i++) {              /* every 4093rd pattern; pairs of any bits */
    const uint32_t w = i < N ? (uint32_t)i * 4093u : fl_random_u32(i, 0, 1);
    in[i] = i < N || i & 1 ? fl_as_f32(w) : (float)(int32_t)w * 0x1p-27f;
  }
  for (int k = 0; ok && k < 3; k++)
    ok = d->alloc(&gpu[k + 1], N * sizeof *in) == 0 &&
         d->to(gpu[k + 1], in + k * N, N * sizeof *in) == 0;
  check(ok, "the GPU is ready");
  if (ok) compare_ops(d, in, gpu, (float *)(void *)out);
  if (ok) compare_plain(d, in, gpu, out);
  free(in);
  free(out);
}

int main(void) {
  nvrtc c;
  driver d;
  int arch = 90;
  if (!nvrtc_open(&c)) printf("math_device: no NVRTC here, nothing compiled\n");
  else {
    const int gpu = load_driver(&d, &arch);
    char *text = gpu_text(), *image = text ? compile(&c, text, arch) : NULL;
    check(text != NULL, "math.h is found");
    if (gpu && image) compare(&d, image);
    else printf("math_device: no GPU here, values not compared\n");
    free(image);
    free(text);
  }
  printf("math_device: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
