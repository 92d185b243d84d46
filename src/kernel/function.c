/*
** Kernels that can be launched (function.h): functions of a unit, and the CUDA text of each.
*/
#include "kernel/function.h"
#include "base/hash.h"
#include "base/nvtx.h"
#include "kernel/tree/builtins.h"
#include "kernel/front/includes.h"
#include "kernel/front/lexer.h"
#include "kernel/text/text.h"
#include "kernel/text/text_stop.h"
#include "kernel/text/text_check.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

_Static_assert((int)FL_KTEXT_PARTS == (int)FL_KP_MAX_ARGS, "the parts of a batch");
/* 64: bytes of the parameters that exact sums and checks add */
_Static_assert(FL_KP_MAX_ARGS * 8 + FL_KP_SCALARS * 8 + sizeof(fl_kbatch) + 64 <= 4096,
               "CUDA takes 4 KB of parameters");

/* ---- functions --------------------------------------------------------------------------- */

static void free_function(fl_callee *self) {
  fl_kfunction *k = (fl_kfunction *)(void *)self;
  fl_lane_free(k->lanes);
  fl_kcover_free(k->cover);
  fl_kfunction_release(k->checked);
  fl_kfunction_release(k->batched);
  fl_kfunction_release(k->bounded);
  if (k->text) fl_free(k->mem, k->text, k->text_bytes + 1);
  fl_kunit_release(k->unit);
  fl_free(k->mem, k, sizeof *k);
}

/* As fl_kfunction.reads_files has it. Includes of a kernel that we read are in its text. */
static int reads_files(const fl_kfunction *k) {
  for (int32_t i = 0; k->unit && !(k->f && k->f->has_body) && i < k->unit->noption; i++)
    if (strncmp(k->unit->option[i], "--include-path=", 15) == 0) return 1;
  return 0;
}

/* Computes the digest of all that the compilation for a device depends on: kernels of one text are
** compiled together. If it depends on files, whose contents may change, the digest has the kernel's
** address and the time in it, so that it differs from that of every earlier kernel, also of one at
** the same address. */
static int set_digest(fl_kfunction *k) {
  fl_text t;
  struct timespec now = { 0 };
  fl_text_init(&t, k->mem);
  k->reads_files = (uint8_t)reads_files(k);
  if (k->reads_files && clock_gettime(CLOCK_REALTIME, &now) == 0)
    fl_text_printf(&t, "%p of %lld.%ld\n", (void *)k, (long long)now.tv_sec, now.tv_nsec);
  for (int32_t i = 0; k->unit && i < k->unit->noption; i++)
    fl_text_printf(&t, "%s\n", k->unit->option[i]);
  fl_text_add(&t, k->text, k->text_bytes);
  const char *all = fl_text_str(&t);
  if (all) fl_sha256(all, t.n, k->digest);
  fl_text_free(&t);
  return all != NULL;
}

static fl_kfunction *function_new(fl_mem *m, fl_kunit *u, fl_kfunc *f, const char *text, size_t n) {
  fl_kfunction *k = fl_zalloc(m, sizeof *k);
  if (!k) return NULL;
  *k = (fl_kfunction){ .callee = { .refs = 1, .free = free_function }, .mem = m, .unit = u, .f = f,
                       .text_bytes = n,
                       .registers = -1, .spilled = -1 };
  if (u) u->refs++;
  k->text = fl_alloc(m, n + 1);
  if (k->text) memcpy(k->text, text, n);
  if (k->text) k->text[n] = 0;
  if (f && f->n_params <= FL_KP_MAX_ARGS) k->cover = fl_kcover_new(m, f);
  if (k->text && set_digest(k)) return k;
  fl_kfunction_release(k);
  return NULL;
}

/* function_new with the text t, which is freed. */
static fl_kfunction *of_text(fl_kunit *u, fl_kfunc *f, fl_text *t) {
  const char *s = fl_text_str(t);
  fl_kfunction *k = s ? function_new(t->mem, u, f, s, t->n) : NULL;
  fl_text_free(t);
  return k;
}

/* ---- what a text uses, found in its tokens, so that comments and literals do not count -- */

typedef struct asked { fl_ktoks t; } asked;

/* The first token with that name at 'from' or later; -1: none. prefix: names that begin with it. */
static int64_t find_name(const asked *a, const char *name, int64_t from, int prefix) {
  const int32_t n = (int32_t)strlen(name);
  for (int64_t i = from; i < a->t.n; i++) {
    const fl_ktok *t = &a->t.at[i];
    if (t->kind == FL_TOK_NAME && (prefix ? t->n >= n : t->n == n) &&
        !memcmp(t->text, name, (size_t)n))
      return i;
  }
  return -1;
}

static int has_name(const asked *a, const char *name) { return find_name(a, name, 0, 0) >= 0; }

/* Does the text have "__launch_bounds__(…) __global__", in this order? Then put_preamble drops the
** attribute, since 'extern "C"', which is put at "__global__", may not follow it. */
static int bounds_first(const asked *a) {
  for (int64_t i = -1; (i = find_name(a, "__launch_bounds__", i + 1, 0)) >= 0;) {
    int64_t k = i + 1;
    for (int depth = 0; k < a->t.n; k++) {
      depth += fl_is_punct(&a->t.at[k], '(') - fl_is_punct(&a->t.at[k], ')');
      if (depth <= 0) break;
    }
    if (k + 1 < a->t.n && fl_ktok_is(&a->t.at[k + 1], "__global__")) return 1;
  }
  return 0;
}

/* Token k follows "template". Is it the '<' of the template of a kernel? (A '{' before the '>'
** belongs to a default argument.) */
static int of_kernel(const asked *a, int64_t k) {
  int angle = 0, round = 0;
  for (; k < a->t.n && !fl_is_punct(&a->t.at[k], ';'); k++) {
    const fl_ktok *t = &a->t.at[k];
    angle += fl_is_punct(t, '<') - fl_is_punct(t, '>') - 2 * fl_is_punct(t, FL_PU_SHR);
    if (fl_is_punct(t, '{') && angle <= 0 && !round) return 0;
    round += fl_is_punct(t, '{') - fl_is_punct(t, '}');
    if (fl_ktok_is(t, "__global__")) return 1;
  }
  return 0;
}

/* Is there a template of a kernel? It can not have C linkage, so the other kernels get C linkage
** one by one. */
static int template_kernel(const asked *a) {
  for (int64_t i = -1; (i = find_name(a, "template", i + 1, 0)) >= 0;)
    if (of_kernel(a, i + 1)) return 1;
  return 0;
}

static int names_space(const asked *a, const char *name) {
  int is = 0;
  for (int64_t i = -1; !is && (i = find_name(a, name, i + 1, 0)) >= 0;)
    is = fl_is_punct(&a->t.at[i + 1], FL_PU_SCOPE) || fl_is_punct(&a->t.at[i + 1], ';');
  return is;
}

/* Does the text use cooperative groups, CUB, GLM, Thrust or types of cuFFT? */
static int names_library(const asked *a) {
  return names_space(a, "cub") || names_space(a, "glm") || names_space(a, "thrust") ||
         has_name(a, "cooperative_groups") || find_name(a, "cufft", 0, 1) >= 0;
}

/* Does the text include a header of the folder cuda/, as <cuda/std/array>? */
static int includes_cuda(const asked *a) {
  for (int64_t i = -1; (i = find_name(a, "cuda", i + 1, 0)) > 0;)
    if (fl_is_punct(&a->t.at[i - 1], '<') && fl_is_punct(&a->t.at[i + 1], '/')) return 1;
  return 0;
}

/* Does the text use std::x (not cuda::std::x), and neither open namespace std nor use a header or
** library that defines such names? */
static int asks_std(const asked *a) {
  int found = 0;
  for (int64_t i = -1; (i = find_name(a, "std", i + 1, 0)) >= 0;) {
    if (i && fl_ktok_is(&a->t.at[i - 1], "namespace")) return 0;
    found |= fl_is_punct(&a->t.at[i + 1], FL_PU_SCOPE) &&
             !(i && fl_is_punct(&a->t.at[i - 1], FL_PU_SCOPE));
  }
  return found && !includes_cuda(a) && !names_library(a);
}

/* Does the text define the name of the token: "typedef … uint;", "using half =", "int half;"? */
static int is_given(const asked *a, const fl_ktok *t) {
  char name[28];
  snprintf(name, sizeof name, "%.*s", (int)t->n, t->text);
  for (int64_t i = 0; (i = find_name(a, name, i + 1, 0)) > 0;) {
    const fl_ktok *o = &a->t.at[i];
    if (fl_is_punct(o + 1, ';') || fl_is_punct(o + 1, '=') || fl_ktok_is(o - 1, "using") ||
        fl_ktok_is(o - 1, "define") || fl_ktok_is(o - 1, "struct"))
      return 1;
  }
  return 0;
}

/* Does the text use a name that it does not define and that NVRTC lacks, but the language has, such
** as types and limits of the C library, or names of CUDA's headers that are not included? */
static int asks_names(const asked *a) {
  static const char always[] = " register uint uchar ushort ulong ssize_t bf16 bfloat16 CHAR_BIT "
    "SHRT_MAX SHRT_MIN USHRT_MAX ULLONG_MAX INT8_MAX UINT8_MAX INT32_MAX INT32_MIN UINT32_MAX "
    "INT64_MAX INT64_MIN UINT64_MAX SIZE_MAX CUDA_VERSION CUDART_VERSION __FLT_MAX__ __FLT_MIN__ "
    "__FLT_EPSILON__ __DBL_MAX__ __DBL_MIN__ __DBL_EPSILON__ __INT_MAX__ INT32_C UINT32_C INT64_C "
    "UINT64_C C10_LAUNCH_BOUNDS_1 C10_LAUNCH_BOUNDS_2 C10_HOST_DEVICE C10_DEVICE CUDA_KERNEL_ASSERT "
    "CUDA_KERNEL_LOOP CUDA_KERNEL_LOOP_TYPE __has_include gpuAtomicAdd gpuAtomicAddNoReturn "
    "C10_WARP_SIZE WARP_SHFL WARP_SHFL_XOR WARP_SHFL_UP WARP_SHFL_DOWN WARP_BALLOT __assert_fail ",
    halves[] = " half half2 ", bfloats[] = " nv_bfloat16 nv_bfloat162 ";
  const int fp16 = has_name(a, "cuda_fp16") || has_name(a, "nvcuda"),
            bf16 = has_name(a, "cuda_bf16");
  int found = find_name(a, "__builtin_", 0, 1) >= 0 ||
              (names_space(a, "cuda") && !includes_cuda(a)) ||
              (!fp16 && find_name(a, "__float2half", 0, 1) >= 0) ||
              (!bf16 && find_name(a, "__float2bfloat", 0, 1) >= 0) ||
              (!has_name(a, "math_constants") && find_name(a, "CUDART_", 0, 1) >= 0) ||
              find_name(a, "cuComplex", 0, 1) >= 0 || find_name(a, "cuFloatC", 0, 1) >= 0 ||
              find_name(a, "cuDoubleC", 0, 1) >= 0;
  for (int64_t i = 0; i < a->t.n && !found; i++) {
    const fl_ktok *t = &a->t.at[i];
    char name[28];
    if (t->kind != FL_TOK_NAME || t->n > 24) continue;
    snprintf(name, sizeof name, " %.*s ", (int)t->n, t->text);
    found = (strstr(always, name) || (!fp16 && strstr(halves, name)) ||
             (!bf16 && strstr(bfloats, name))) && !is_given(a, t);
  }
  return found;
}

/* Does the text have "{ .name" or ", .name", which NVRTC takes in C++20 alone? */
static int has_designators(const asked *a) {
  for (int64_t i = 1; i + 1 < a->t.n; i++) {
    const fl_ktok *t = &a->t.at[i];
    if (fl_is_punct(t, '.') && (fl_is_punct(t - 1, '{') || fl_is_punct(t - 1, ',')) &&
        t[1].kind == FL_TOK_NAME)
      return 1;
  }
  return 0;
}

/* Does the text define integer types of <stdint.h> itself, or include a header that may? */
static int has_integers(const asked *a) {
  for (int64_t i = -1; (i = find_name(a, "include", i + 1, 0)) > 0;)
    if (fl_is_punct(&a->t.at[i - 1], '#')) return 1;
  for (int64_t i = -1; (i = find_name(a, "typedef", i + 1, 0)) >= 0;)
    for (int64_t k = i + 1; k + 1 < a->t.n && !fl_is_punct(&a->t.at[k], ';'); k++) {
      const fl_ktok *t = &a->t.at[k];
      if (fl_is_punct(&t[1], ';') && t->kind == FL_TOK_NAME && t->n > 2 &&
          !memcmp(t->text + t->n - 2, "_t", 2))
        return 1;
    }
  return 0;
}

/* Writes what NVRTC needs before the text: #includes of headers whose names the text uses without
** including them (the device has <stdint.h> and <fl_std>: cuda/compile/headers.c); and C linkage of
** all kernels, so that they keep their names, unless one is a template. */
static void put_preamble(const asked *a, fl_text *t) {
  static const char *const known[] = { "int8_t", "int16_t", "int32_t", "int64_t", "uint8_t",
                                       "uint16_t", "uint32_t", "uint64_t",
    "uintptr_t", "intptr_t", "INFINITY", "NAN", "HUGE_VAL", "M_", "FLT_", "DBL_", "INT_M", "UINT_M",
    "LONG_M", "LLONG_M" };
  int wanted = 0;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    wanted |= find_name(a, known[i], 0, 1) >= 0;
  if (wanted && !has_integers(a)) fl_text_puts(t, "#include <stdint.h>\n");
  if (asks_std(a)) fl_text_puts(t, "#include <fl_std>\n");
  if (find_name(a, "__half", 0, 1) >= 0 && !has_name(a, "cuda_fp16"))
    fl_text_puts(t, "#include <cuda_fp16.h>\n");
  if (find_name(a, "__nv_bfloat", 0, 1) >= 0 && !has_name(a, "cuda_bf16"))
    fl_text_puts(t, "#include <cuda_bf16.h>\n");
  if (has_name(a, "nvcuda") && !has_name(a, "mma")) fl_text_puts(t, "#include <mma.h>\n");
  if (find_name(a, "__pipeline_", 0, 1) >= 0 && find_name(a, "cuda_pipeline", 0, 1) < 0)
    fl_text_puts(t, "#include <cuda_pipeline_primitives.h>\n");
  if (!template_kernel(a))
    fl_text_puts(t, "#undef __global__\n#define __global__ extern \"C\" __attribute__((global))\n");
  if (bounds_first(a))
    fl_text_puts(t, "#undef __launch_bounds__\n#define __launch_bounds__(...)\n");
}

/* ---- the text, changed where a compiler needs it ---- */

/* Is token i on the line of a directive, like the '>' of "#include <x>"? */
static int of_directive(const asked *a, int64_t i) {
  while (i > 0 && !a->t.at[i].first) i--;
  return fl_is_punct(&a->t.at[i], '#');
}

/* Does the declaration of token i, "__global__", state its linkage, or is it a template's? Before
** it there are words, attributes and, in these cases, "template <…>", "template" alone (an explicit
** instantiation) or a literal. */
static int is_linked(const asked *a, int64_t i) {
  int round = 0;
  while (i > 0) {
    const fl_ktok *t = &a->t.at[--i];
    round += fl_is_punct(t, ')') - fl_is_punct(t, '(');
    if (round < 0) return 0;
    if (!round && fl_ktok_is(t, "template")) return 1;
    if (round || t->kind == FL_TOK_NAME || fl_is_punct(t, '(')) continue;
    return t->kind == FL_TOK_STRING ||
           ((fl_is_punct(t, '>') || fl_is_punct(t, FL_PU_SHR)) && !of_directive(a, i));
  }
  return 0;
}

/* Is token i a "__device__" that follows the captures of a lambda, perhaps after "__host__"? NVRTC
** does not accept it there. *first: the first of these words. */
static int is_of_lambda(const asked *a, int64_t i, int64_t *first) {
  if (!fl_ktok_is(&a->t.at[i], "__device__")) return 0;
  *first = i && fl_ktok_is(&a->t.at[i - 1], "__host__") ? i - 1 : i;
  return *first > 1 && fl_is_punct(&a->t.at[*first - 1], ']') &&
         !fl_is_punct(&a->t.at[*first - 2], ']');
}

/* Writes the source; "__device__" of lambdas is left out. each: adds C linkage to each kernel. */
static void put_source(fl_text *t, const char *text, const asked *a, int each) {
  const char *s = text;
  for (int64_t i = 0, first; i < a->t.n; i++) {
    const fl_ktok *k = &a->t.at[i];
    if (each && fl_ktok_is(k, "__global__")) {
      fl_text_add(t, s, (size_t)(k->text - s));
      if (!is_linked(a, i)) fl_text_puts(t, "extern \"C\" ");
      fl_text_puts(t, "__attribute__((global))");
    } else if (is_of_lambda(a, i, &first)) {
      fl_text_add(t, s, (size_t)(a->t.at[first].text - s));
    } else {
      continue;
    }
    s = k->text + k->n;
  }
  fl_text_puts(t, s);
}

/* Writes a #line directive, so that the device's compiler reports lines of the script. */
static void put_line(const fl_kunit *u, fl_text *t) {
  if (u->first_line > 0) fl_ktext_line(t, u->label, u->first_line);
}

extern const char fl_polygamma_text[];      /* kernel/lanes/polygamma.h, embedded */

static int see_polygamma(void *arg, fl_kexpr *x) {
  if (x->kind == FL_KX_CALL && x->op == FL_KB_POLYGAMMA) *(int *)arg = 1;
  return 1;
}

static int is_warp_sum(const void *none, const fl_kstmt *s) {
  (void)none;
  return s->kind == FL_KS_ATOMIC && s->mode == FL_KM_WARP;
}

/* saved: for a text that is read again, in which sums are known by name. */
static void put_prelude(fl_text *t, const fl_kfunc *f, int saved) {
  int asked = 0;
  const fl_kvisitor see = { NULL, see_polygamma, &asked };
  fl_ktext_prelude(t);
  fl_kwalk_block(&see, f->body);
  if (asked) fl_text_puts(t, fl_polygamma_text);
  if (!saved && fl_kblock_any(f->body, is_warp_sum, NULL)) fl_ktext_warp(t);
  if (f->uses_grid) fl_ktext_grid(t);
}

/* Writes the kernel as it is printed from its tree. Under a profiler of NVIDIA each statement has
** the line of the script that it comes from; otherwise the text, and what is compiled from it,
** stays the same when lines of the script move. */
static void put_tree(const fl_kunit *u, fl_text *t, const fl_kfunc *f, fl_ktext_form form) {
  const int mapped = u && u->first_line > 0 && fl_nvtx_on();
  form.file = mapped ? u->label : NULL;
  form.line = mapped ? u->first_line : 0;
  put_prelude(t, f, 0);
  fl_ktext_as(t, f, &form);
}

static fl_ktext_form form_of(const fl_kfunction *k) {
  return (fl_ktext_form){ .slot = k->sums ? k->slot : NULL, .stops = k->stops };
}

/* Writes the source with its includes rewritten (includes.h). __LINE__ and __FILE__ are what they
** are on the CPU, the line of the kernel's text and "kernel". */
static void put_given(const fl_kunit *u, fl_text *t) {
  fl_text own;
  fl_karena arena;
  asked a = { { NULL, 0, 0 } };
  int folders = 0;
  for (int32_t i = 0; i < u->noption; i++) folders |= !strncmp(u->option[i], "--include-path=", 15);
  fl_text_init(&own, u->mem);
  fl_karena_init(&arena, u->mem);
  fl_kincludes_put(&own, u->source->text, folders);
  const char *text = fl_text_str(&own);
  if (text && fl_kincludes_pasted(text, (const char *const *)u->option, u->noption)) {
    put_line(u, t);
    fl_text_puts(t,
        "#error a kernel may not ask for files, and its words can be pasted to a name that does: "
                    "rename '_', '__' or what begins like '__has'\n");
  } else if (text && fl_klex(&arena, text, own.n, 1, &a.t)) {
    put_preamble(&a, t);
    if (has_name(&a, "__LINE__") || has_name(&a, "__FILE__")) fl_ktext_line(t, "kernel", 1);
    else put_line(u, t);
    put_source(t, text, &a, template_kernel(&a));
  } else {
    t->failed = 1;
  }
  FL_DROP(u->mem, &a.t);
  fl_karena_close(&arena);
  fl_text_free(&own);
}

/* Does the source use names, outside of comments and literals, that NVRTC may not find? */
static int needs_tree(const fl_kunit *u) {
  fl_karena arena;
  asked a = { { NULL, 0, 0 } };
  fl_karena_init(&arena, u->mem);
  const int named = fl_klex(&arena, u->source->text, strlen(u->source->text), 1, &a.t) &&
                    (names_library(&a) || asks_names(&a) || has_designators(&a));
  FL_DROP(u->mem, &a.t);
  fl_karena_close(&arena);
  return named;
}

/* Is q a parameter that the text declares otherwise? */
static int is_other(const fl_kparam *q) { return q->list_of || q->part_of || q->is_texture; }

/* How many parameters the text declares otherwise or, as variables of file scope, not at all. */
static int other_parameters(const fl_kfunc *f) {
  int n = 0;
  for (int i = 0; i < f->n_params; i++) n += f->params[i].of_file || is_other(&f->params[i]);
  return n;
}

/* Makes a function of f with its text as written. If f has a tree, the text is printed from that
** instead where NVRTC would refuse the text as written, or compile something else: it uses
** cooperative groups or a similar library (NVRTC rarely finds their headers) or names of headers
** that are not included, has included files or host code; a parameter is a variable of file scope,
** a list of arrays, a texture or part of a struct that is spread; it has assertions that a device
** shall survive (fl_ktext_stops); or NVRTC would evaluate the text in another order
** (fl_kfunc.reordered). If NVRTC refuses a text for another reason, it is printed then
** (fl_kfunction_reprint). */
fl_kfunction *fl_kfunction_given(fl_kunit *u, fl_kfunc *f) {
  fl_text t;
  const int stops = f && fl_ktext_stops(f, 0);
  const int printed = f && f->has_body &&
    (other_parameters(f) || f->reordered || stops || u->source->host || u->source->included ||
     needs_tree(u));
  fl_text_init(&t, u->mem);
  if (printed) put_tree(u, &t, f, (fl_ktext_form){ .stops = (uint8_t)stops });
  else put_given(u, &t);
  fl_kfunction *k = of_text(u, f, &t);
  if (k) k->stops = (uint8_t)stops;
  if (k) k->as_written = f && f->has_body && !printed;
  return k;
}

/* Does the source leave something to NVRTC that the tree does not have? That is a static_assert,
** and words that may be pasted to the name of a file. */
static int leaves_more(const fl_kunit *u) {
  fl_karena arena;
  asked a = { { NULL, 0, 0 } };
  fl_karena_init(&arena, u->mem);
  const int lexed = fl_klex(&arena, u->source->text, strlen(u->source->text), 1, &a.t);
  const int more = !lexed || has_name(&a, "static_assert") || has_name(&a, "_Static_assert") ||
    fl_kincludes_pasted(u->source->text, (const char *const *)u->option, u->noption);
  FL_DROP(u->mem, &a.t);
  fl_karena_close(&arena);
  return more;
}

int fl_kfunction_reprint(fl_kfunction *k) {
  fl_text t;
  if (!k->as_written || leaves_more(k->unit)) return 0;
  fl_text_init(&t, k->mem);
  put_tree(k->unit, &t, k->f, (fl_ktext_form){ 0 });
  const char *printed = fl_text_str(&t);
  const size_t n = t.n;
  char *text = printed ? fl_alloc(k->mem, n + 1) : NULL;
  if (text) memcpy(text, printed, n + 1);
  fl_text_free(&t);
  if (!text) return 0;
  fl_free(k->mem, k->text, k->text_bytes + 1);
  k->text = text;
  k->text_bytes = n;
  k->as_written = 0;
  return set_digest(k);
}

fl_kfunction *fl_kfunction_derived(fl_kunit *u, fl_kad *ad, int exact) {
  fl_text t;
  uint8_t slot[FL_KP_MAX_ARGS] = { 0 }, sole[FL_KP_MAX_ARGS] = { 0 };
  const int sums = exact && ad->func->n_params <= FL_KP_MAX_ARGS
                   ? fl_ktext_sums(ad->func, slot, sole) : 0;
  const int stops = fl_ktext_stops(ad->func, 1);
  fl_text_init(&t, u->mem);
  put_tree(u, &t, ad->func, (fl_ktext_form){ .slot = sums ? slot : NULL,
                                              .stops = (uint8_t)stops });
  fl_kfunction *k = of_text(u, ad->func, &t);
  if (!k) return NULL;
  k->ad = ad;
  k->sums = (uint8_t)sums;
  k->stops = (uint8_t)stops;
  memcpy(k->slot, slot, sizeof slot);
  memcpy(k->sole, sole, sizeof sole);
  return k;
}

/* Was the tree read with facts of a call (null pointers, lengths of lists), or with other
** parameters than the text has, so that reading the text alone would give another kernel? */
static int is_formed(const fl_kfunc *f) {
  int n = 0;
  for (int i = 0; i < f->n_params && f->has_body; i++)
    n += f->params[i].is_null || is_other(&f->params[i]);
  return n;
}

void fl_kfunction_save(const fl_kfunction *k, fl_text *t) {
  if (k->ad && (k->sums || k->stops || fl_kblock_any(k->f->body, is_warp_sum, NULL))) {
    put_prelude(t, k->f, 1);
    fl_ktext_saved(t, k->f, k->sums > 0);
  } else if (k->ad) {
    fl_text_add(t, k->text, k->text_bytes);
  } else if (is_formed(k->f) || (k->f->has_body && k->unit->source->included)) {
    put_tree(k->unit, t, k->f, (fl_ktext_form){ 0 });
  } else {
    fl_text_puts(t, k->unit->source->text);
  }
}

/* Is s a sum of a derived kernel, with a mode (fl_kmode)? */
static int is_sum(const void *none, const fl_kstmt *s) {
  (void)none;
  return s->kind == FL_KS_ATOMIC && s->mode != FL_KM_FREE;
}

fl_kfunction *fl_kfunction_saved(fl_kunit *u, fl_kfunc *f) {
  if (!f->has_body || !fl_kblock_any(f->body, is_sum, NULL)) return fl_kfunction_given(u, f);
  fl_kad *ad = fl_karena_new(&u->source->arena, sizeof *ad);
  if (!ad) return NULL;
  ad->func = f;
  ad->n_params = f->n_params;
  fl_kad_sum_lanes(&u->source->arena, f, -1);
  return fl_kfunction_derived(u, ad, 1);
}

int fl_kfunction_check(fl_kfunction *k, unsigned checks) {
  fl_text t;
  if ((k->checked && k->checked_for == checks) || k->binary || !k->f->has_body) return 1;
  if (k->f->uses_grid) return 1;
  fl_kfunction_release(k->checked);
  k->checked_for = checks;
  fl_text_init(&t, k->mem);
  fl_ktext_checked(&t, k->f, checks);
  k->checked = of_text(k->unit, k->f, &t);
  if (k->checked) k->checked->guarded = 1;
  return k->checked != NULL;
}

/* ---- batches --------------------------------------------------------------------------------- */

int fl_kfunction_batch(fl_kfunction *k) {
  fl_text t;
  if (k->batched || k->binary || !k->f->has_body || k->f->uses_grid) return 1;
  fl_text_init(&t, k->mem);
  fl_ktext_form form = form_of(k);
  form.batch = 1;
  put_tree(k->unit, &t, k->f, form);
  k->batched = of_text(k->unit, k->f, &t);
  return k->batched != NULL;
}

int fl_kfunction_bound(fl_kfunction *k) {
  fl_text t;
  if (k->bounded || k->binary || !k->f->has_body || k->f->max_threads) return 1;
  fl_ktext_form form = form_of(k);
  form.bounded = 1;
  fl_text_init(&t, k->mem);
  put_tree(k->unit, &t, k->f, form);
  k->bounded = of_text(k->unit, k->f, &t);
  return k->bounded != NULL;
}

fl_kfunction *fl_kfunction_binary(fl_mem *m, const char *image, size_t bytes, fl_kfunc *signature,
                                  fl_kunit *u) {
  fl_kfunction *k = function_new(m, u, signature, image, bytes);
  if (k) k->binary = 1;
  return k;
}
