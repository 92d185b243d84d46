/*
** The front end of the kernel compiler. The tree of an accepted kernel is printed as CUDA text,
** which must compile (with NVRTC; without it that part is skipped with a message) and parse again
** to the same statements. Other kernels are refused with line and reason, and their signature is
** still known. Damaged texts and failing allocations neither crash nor leak.
*/
#include "kernel/ad/partial.h"
#include "kernel/facts/access.h"
#include "kernel/tree/builtins.h"
#include "kernel/front/source.h"
#include "kernel/text/text.h"
#include "kernel_sources.h"
#include "nvrtc.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int passed, failed;
static fl_mem mem;
#define COUNT(a) (int)(sizeof(a) / sizeof *(a))

static void check(int ok, const char *what, const char *detail) {
  if (ok) passed++;
  else failed++, printf("FAILED: %s: %s\n", what, detail ? detail : "");
}

static fl_ksource *parse_n(const char *text, size_t n) {
  fl_error e = { .code = FLAME_OK };
  return fl_ksource_parse(&mem, &e, text, n);
}
static fl_ksource *parse(const char *text) { return parse_n(text, strlen(text)); }

/* ---- NVRTC ---------------------------------------------------------------------------------- */

static nvrtc compiler;
static int has_compiler;

static void find_compiler(void) {
  has_compiler = nvrtc_open(&compiler);
  if (!has_compiler) printf("no NVRTC here: texts are not compiled\n");
}

static void compiles(const char *what, const char *text) {
  static const char *const options[] = { "--gpu-architecture=sm_90" };
  void *program = NULL;
  if (!has_compiler || compiler.create(&program, text, "kernel.cu", 0, NULL, NULL)) return;
  if (!nvrtc_judge(compiler.compile, program, 1, options)) {
    passed++;
  } else {
    size_t n = 0;
    compiler.log_size(program, &n);
    char *log = malloc(n + 1);
    compiler.log(program, log);
    check(0, what, log);
    if (getenv("FLAME_TEXT_DUMP")) puts(text);
    free(log);
  }
  compiler.destroy(&program);
}

/* ---- inside the language --------------------------------------------------------------------- */

static void text_of(fl_ksource *s, fl_text *t, int with_prelude) {
  fl_text_init(t, &mem);
  if (with_prelude) fl_ktext_prelude(t);
  for (int i = 0; i < s->n_kernels; i++) fl_ktext_kernel(t, s->kernels[i]);
}

/* statements() counts the statements of a kernel without declarations and blocks. A printed text
** that is parsed again must have as many. */
static int count_stmt(void *arg, fl_kstmt *s) {
  *(int *)arg += s->kind != FL_KS_DECL && s->kind != FL_KS_BLOCK;
  return 1;
}
static int statements(const fl_kfunc *f) {
  int n = 0;
  fl_kwalk_block(&(fl_kvisitor){ count_stmt, NULL, &n }, f->body);
  return n;
}

static void check_good(const good_source *g, int has_half) {
  fl_ksource *s = parse(g->text);
  const fl_kfunc *f = s ? fl_ksource_kernel(s, g->name) : NULL;
  check(f != NULL, g->name, s ? s->error : "no memory");
  if (f) check(f->has_body, g->name, fl_ksource_refusal(s, f));
  if (f && f->has_body) {
    fl_text t, u;
    text_of(s, &t, 1);
    compiles(g->name, fl_text_str(&t));
    if (!has_half) compiles(g->name, g->text);
    text_of(s, &u, 0);
    fl_karena a;
    fl_karena_init(&a, &mem);
    fl_kfunc *copy = fl_kfunc_clone(&a, f);
    fl_text p, q;
    fl_text_init(&p, &mem);
    fl_text_init(&q, &mem);
    fl_ktree_print(&p, f);
    if (copy) fl_ktree_print(&q, copy);
    check(copy && !strcmp(fl_text_str(&p), fl_text_str(&q)), g->name, "the clone differs");
    check(statements(f) > 0, g->name, "it has no statements");
    fl_text_free(&p);
    fl_text_free(&q);
    fl_karena_close(&a);
    fl_text_free(&t);
    fl_text_free(&u);
  }
  fl_ksource_free(s);
}

/* A printed text, unless it has goto or structs, must be accepted by the parser again. */
static void check_round_trip(const good_source *g) {
  fl_ksource *s = parse(g->text);
  fl_text t, u;
  text_of(s, &t, 0);
  if (!strstr(fl_text_str(&t), "goto") && !strstr(fl_text_str(&t), "unsigned char b[")) {
    fl_ksource *r = parse(fl_text_str(&t));
    const fl_kfunc *f = r ? fl_ksource_kernel(r, g->name) : NULL;
    check(f && f->has_body, g->name, f ? fl_ksource_refusal(r, f) : "lost in the round trip");
    if (f && f->has_body) {
      text_of(r, &u, 1);
      compiles(g->name, fl_text_str(&u));
      fl_text_free(&u);
    }
    fl_ksource_free(r);
  }
  fl_text_free(&t);
  fl_ksource_free(s);
}

/* ---- outside --------------------------------------------------------------------------------- */

static char *deep_source(void) {
  char *text = malloc(5000);
  strcpy(text, "__global__ void k(float *x) {\n  x[0] = ");
  for (int i = 0; i < 1500; i++) strcat(text, "(");
  strcat(text, "1");
  for (int i = 0; i < 1500; i++) strcat(text, ")");
  strcat(text, ";\n}\n");
  return text;
}

/* A message as users see it: without the marks that separate facts and hints (base/error.h). */
static const char *shown(const char *why) {
  static char plain[1024];
  snprintf(plain, sizeof plain, "%s", why ? why : "");
  fl_error_plain(plain);
  return plain;
}

static void check_bad(const bad_source *b) {
  char *deep = b->text ? NULL : deep_source();
  const char *text = b->text ? b->text : deep;
  fl_ksource *s = parse(text);
  const fl_kfunc *f = s ? fl_ksource_kernel(s, "k") : NULL;
  check(f && !f->has_body, text, "it is accepted");
  if (f && !f->has_body) {
    const char *why = shown(fl_ksource_refusal(s, f));
    check(strstr(why, b->why) && f->refusal_line == b->line, text, why);
    check(!f->body.first, text, "a refused body is kept");
  }
  fl_ksource_free(s);
  free(deep);
}

static void check_signatures(void) {
  fl_ksource *s = parse("struct P { char c; double d; float v[2][3]; };\n"
    "extern \"C\" {\n__global__ void one(const float4 *__restrict__ x, P p, int n, unsigned char b, double *y, const void *raw) "
    "{ asm(\"brkpt;\"); }\n}\n__global__ void __launch_bounds__(128, 2) two(Thing t, const Thing *u, int m) { }\n");
  const fl_kfunc *f = fl_ksource_kernel(s, "one"), *g = fl_ksource_kernel(s, "two");
  check(f && g && s->n_kernels == 2, "signatures", "two kernels");
  check(f->n_params == 6 && !f->has_body && f->refusal_line == 3, "signatures",
        "of a refused body");
  const fl_kparam *p = f->params;
  check(p[0].is_pointer && p[0].is_const && p[0].type == FL_KT_F32 && p[0].width == 4 &&
        p[0].pointee_size == 16,
        "signatures", "const float4 *");
  check(p[1].is_struct && p[1].size == 40 && p[1].align == 8 && p[1].offset == 8 &&
        p[1].n_fields == 3 && p[1].fields[2].offset == 16 && p[1].fields[2].count == 6 &&
        p[1].fields[2].stride[0] == 12 && !strcmp(p[1].fields[2].path, "v"), "signatures",
        "struct by value");
  check(p[2].offset == 48 && p[3].offset == 52 && p[3].type == FL_KT_U8 && p[4].offset == 56,
        "signatures", "offsets");
  check(p[4].is_pointer && !p[4].is_const && p[4].type == FL_KT_F64, "signatures", "double *");
  check(p[5].is_pointer && p[5].type == FL_KT_VOID, "signatures", "void *");
  check(g->n_params == 3 && !g->params[0].known && g->params[1].is_pointer &&
        g->params[1].is_const && !strcmp(g->params[0].type_name, "Thing") &&
        !strcmp(g->params[2].name, "m"), "signatures", "unknown types");
  fl_ksource_free(s);
  s = parse("int f(int x) { return x; }\n");
  check(s && !s->n_kernels && s->error, "signatures", "no kernel is an error");
  fl_ksource_free(s);
}

/* ---- analyses -------------------------------------------------------------------------------- */

static void access_is(const char *text, const char *classes, const char *first) {
  fl_ksource *s = parse(text);
  const fl_kfunc *f = s->n_kernels ? s->kernels[0] : NULL;
  fl_kaccess *a = f ? calloc((size_t)f->n_vars + 1, sizeof *a) : NULL;
  check(f && f->has_body && fl_kaccess_find(&mem, f, a), text,
        f ? fl_ksource_refusal(s, f) : s->error);
  for (int i = 0, k = 0; f && f->has_body && i < f->n_vars; i++) {
    if (f->vars[i].kind != FL_KV_POINTER) continue;
    char now[3] = { fl_kaccess_class(&a[i]), 0, 0 };
    check(now[0] == classes[k], text, now);
    check((first[k] == '1') == a[i].reads_unwritten, text, "reads_unwritten");
    k++;
  }
  free(a);
  fl_ksource_free(s);
}

static void check_access(void) {
  access_is("__global__ void k(const float *x, float *y) { y[threadIdx.x] = x[threadIdx.x]; }",
            "rw", "10");
  access_is("__global__ void k(float *y) { y[threadIdx.x] += 1; }", "a", "1");
  access_is("__global__ void k(float *y) { atomicAdd(y, 1.f); }", "a", "0");
  access_is("__global__ void k(float *y) { y[0] = 1; y[0] = y[0] * 2; }", "b", "0");
  access_is("__global__ void k(float *y, int n) { int i = 0; y[i] = 1; i = n; y[0] = y[i] * 2; }",
            "b", "1");
  access_is("__global__ void k(float *y, int n) { if (n) y[0] = 1; y[1] = y[0]; }", "b", "1");
  access_is(
      "__global__ void k(float *y, int n) { for (int i = 0; i < n; i++) { y[i] = i; y[i] *= 2; } }",
    "b", "0");
  access_is(
      "__global__ void k(float *y, int n, float *z) { int i = n; y[i] = 1; while (i > 0) { z[0] = y[i]; i--; } }", "bw", "10");
}

/* For index_is, which checks the class (fl_kindex_class) of the first store's index. */
typedef struct first_store { const fl_kstmt *s; } first_store;
static int see_store(void *arg, fl_kstmt *s) {
  first_store *f = arg;
  if (s->kind == FL_KS_STORE && !f->s) f->s = s;
  return 1;
}

static void index_is(const char *body, int geometry, int want) {
  char text[1024];
  snprintf(text, sizeof text,
           "__global__ void k(float *y, const float *x, int n, int m, int w, int h) {\n"
           "  int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y; %s }\n", body);
  fl_ksource *s = parse(text);
  fl_kfunc *f = s->n_kernels ? s->kernels[0] : NULL;
  check(f && f->has_body, body, f ? fl_ksource_refusal(s, f) : s->error);
  if (f && f->has_body) {
    first_store v = { NULL };
    char got[16];
    fl_kindices *k = fl_kindices_new(&mem, f, geometry);
    fl_kwalk_block(&(fl_kvisitor){ see_store, NULL, &v }, f->body);
    const int c = fl_kindex_class(k, v.s, v.s->x[0]);
    snprintf(got, sizeof got, "class %d", c);
    check(c == want, body, got);
    fl_kindices_free(k);
  }
  fl_ksource_free(s);
}

static void check_indices(void) {
  const int d1 = FL_KONE_ALL, d2 = FL_KONE_BLOCK_Z | FL_KONE_GRID_Z;
  index_is("y[i] = 1;", d1, FL_KI_INJECTIVE);
  index_is("y[i] = 1;", d2, FL_KI_OTHER);
  index_is("if (i < n) y[3 * i + 2] = 1;", d1, FL_KI_INJECTIVE);
  index_is("y[n - i] = 1;", d1, FL_KI_INJECTIVE);
  index_is("y[i * n] = 1;", d1, FL_KI_OTHER);
  index_is("y[i / 2] = 1;", d1, FL_KI_OTHER);
  index_is("for (int k = 0; k < 4; k++) y[i * 4 + k] = 1;", d1, FL_KI_INJECTIVE);
  index_is("for (int k = 0; k < 5; k++) y[i * 4 + k] = 1;", d1, FL_KI_OTHER);
  index_is("for (int k = 0; k <= 3; k++) y[i * 4 + k] = 1;", d1, FL_KI_INJECTIVE);
  index_is("float *row = y + i * n; for (int k = 0; k < n; k++) row[k] = 1;", d1, FL_KI_INJECTIVE);
  index_is("float *row = y + i * n; for (int k = 0; k < m; k++) row[k] = 1;", d1, FL_KI_OTHER);
  index_is("for (int k = 0; k < n; k++) y[i] = k;", d1, FL_KI_OWN);
  index_is("int k = 0; int q = k; for (; k < n; k++) y[i * n + q] = k;", d1, FL_KI_OTHER);
  index_is("for (int k = i; k < n; k += blockDim.x * gridDim.x) y[k] = 1;", d1, FL_KI_INJECTIVE);
  index_is("for (int k = i; k < n; k++) y[k] = 1;", d1, FL_KI_OTHER);
  index_is("if (i >= w || j >= h) return; y[j * w + i] = 1;", d2, FL_KI_INJECTIVE);
  index_is("if (i < w && j < h) y[(j * w + i) * 3 + 1] = 1;", d2, FL_KI_INJECTIVE);
  index_is("y[j * w + i] = 1;", d2, FL_KI_OTHER);
  index_is("y[blockIdx.x] = 1;", d1, FL_KI_UNIFORM_BLOCK);
  index_is("y[n + m] = 1;", d1, FL_KI_UNIFORM_GRID);
  index_is("int k = 0; if (x[i] > 0) k = 1; y[k] = 1;", d1, FL_KI_OTHER);
  index_is("int k = 0; if (n > 0) k = 1; y[k] = 1;", d1, FL_KI_UNIFORM_GRID);
  index_is("y[threadIdx.x] = 1;", d1, FL_KI_THREAD_IN_BLOCK);
  index_is("y[(int)x[i]] = 1;", d1, FL_KI_OTHER);
  index_is("y[i & 7] = 1;", d1, FL_KI_OTHER);
  index_is("i = n; y[i] = 1;", d1, FL_KI_OTHER);
  index_is("for (int k = 0; k < n; k++) for (int q = 0; q < m; q++) y[(i * n + k) * m + q] = 1;",
           d1, FL_KI_INJECTIVE);
  index_is("for (int k = 0; k < n; k++) for (int q = 0; q < m; q++) y[i * m + q] = 1;",
           d1, FL_KI_OWN);
}

/* ---- map and derivatives --------------------------------------------------------------------- */

static void map_is(const char *text, int n, const char *printed) {
  const uint8_t types[] = { FL_KT_F32, FL_KT_F32, FL_KT_F64, FL_KT_I32 };
  fl_error e = { .code = FLAME_OK };
  fl_kmap *m = fl_kmap_parse(&mem, &e, text, strlen(text), types, n, 0);
  fl_text t;
  fl_text_init(&t, &mem);
  if (m && m->value) fl_ktext_expr(&t, m->f, m->value);
  else fl_text_puts(&t, m && m->error ? shown(m->error) : "?");
  check(!strcmp(fl_text_str(&t), printed), text, fl_text_str(&t));
  fl_text_free(&t);
  fl_kmap_free(m);
}

static void check_map(void) {
  map_is("x, y -> sqrtf(x*x + y*y)", 2, "sqrtf(((x * x) + (y * y)))");
  map_is("x -> 2*x + 0.5", 1, "(((double)(2.0f * x)) + 0.5)");
  map_is("x, y -> x > y && x < 3 ? x : -y", 2, "(((x > y) && (x < 3.0f)) ? x : (-y))");
  map_is("x -> z", 1, "unknown name 'z'");
  map_is("x -> x = 1", 1, "'x' is const");
  map_is("x, x -> x", 2, "the name 'x' appears twice");
  map_is("x -> x x", 1, "'x' behind the expression");
  map_is("sinf(x)", 1, "write names, ->, and an expression: \"x, y -> x*y + 1\"");
  map_is("x, y -> x", 1, "2 names for 1 argument");
  check(fl_kmap_arity("a, b,c -> 1", 11) == 3 && fl_kmap_arity("a b -> 1", 8) == -1 &&
        fl_kmap_arity("", 0) == -1,
        "map", "arity");
}

static void check_partials(void) {
  fl_karena a;
  fl_karena_init(&a, &mem);
  fl_kfunc *f = fl_kfunc_new(&a, "f");
  for (int type = FL_KT_F32; type <= FL_KT_F64; type++) {
    fl_kexpr *x[3];
    for (int i = 0; i < 3; i++) x[i] = fl_kexpr_var(f, fl_ktemp(f, type));
    for (int b = 0; b < FL_KB_COUNT; b++) {
      if (fl_kbuiltins[b].rule != FL_KBR_FLOAT) continue;
      if (type == FL_KT_F64 && !*fl_kbuiltins[b].name64) continue;
      fl_kexpr *c = fl_kexpr_call(&a, b, type, fl_kbuiltins[b].n, x);
      for (int i = 0; i < fl_kbuiltins[b].n; i++) {
        fl_kexpr *d = fl_kbuiltin_partial(&a, c, i, NULL);
        check(!a.failed && (d ? d->type == type : !fl_kbuiltins[b].d[i]), fl_kbuiltins[b].id,
              fl_kbuiltins[b].d[i]);
      }
    }
  }
  fl_karena_close(&a);
}

/* ---- sums combined in the warp --------------------------------------------------------------- */

#define I_OF "int i = blockIdx.x * blockDim.x + threadIdx.x;"
#define XY_OF \
  "int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;"
#define ARGS "(float *p, const float *g, int n, int w)"
static const struct { const char *text; int groups, atomics; } near_sums[] = {
  { "__global__ void k" ARGS " {"
    I_OF "if (i < n) { atomicAdd(p + i, g[i]); atomicAdd(&p[i + 1], 2 * g[i]);"
    " if (i > 0) atomicAdd(&p[i - 1], 3.f); atomicAdd(&p[i + w], 1.f); atomicAdd(&p[i - w], 1.f); } }", 1, 2 },
  { "__global__ void k" ARGS " {"
    XY_OF "if (x > 0 && y > 0 && x < w && y < n) for (int k = 0; k < 3; k++) {"
    " int at = y * w + x; atomicAdd(&p[at], g[at]); atomicAdd(&p[at - 1], g[k]); atomicAdd(&p[x + 1 + y * w], 1.f);"
    " atomicAdd(&p[(y - 1) * w + x], 1.f); atomicAdd(&p[(y - 1) * w + x + 1], 2.f); } }", 2, 0 },
  { "__global__ void k(double *p, const double *g, unsigned n) { unsigned i = threadIdx.x, l = i - 1;"
    " if (i < n) { if (i) atomicAdd(&p[l], g[i]); atomicAdd(&p[i], -g[i]); } }", 1, 0 },
  { "__global__ void k(float *p, float *q, long long n) { long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;"
    " if (i < n) { atomicAdd(&p[i], 1.f); atomicAdd(&p[i + 1], q[i]); q[i] = 0; } }", 1, 0 },
  { "__global__ void k(float *fl_at_0, float *delete_, int n) {"
    I_OF " float fl_here_0 = n; if (i < n) {"
    " atomicAdd(fl_at_0 + i, fl_here_0); atomicAdd(fl_at_0 + i + 1, 1.f);"
    " atomicAdd(delete_ + i, 1.f); atomicAdd(delete_ + i - 1, 1.f); } }", 2, 0 },
  { "__global__ void k" ARGS " {"                       /* one base, by variables of two names */
    XY_OF "if (x > 0 && x < w && y < n) { int a = y, b = y, l = x - 1;"
    " atomicAdd(&p[a * w + x], g[x]); atomicAdd(&p[b * w + l], g[y]); } }", 1, 0 },
  /* sums that are left as atomics: after a return; where p is also read or written, or a sum's
  ** result is used; a single offset; offsets that are not next to each other */
  { "__global__ void k" ARGS " {"
    I_OF "if (i >= n) return; atomicAdd(p + i, g[i]); atomicAdd(&p[i + 1], 1.f); }", 0, 2 },
  { "__global__ void k" ARGS " {"
    I_OF "if (i < n) { atomicAdd(p + i, p[w]); atomicAdd(&p[i + 1], 1.f); } }", 0, 2 },
  { "__global__ void k" ARGS " {"
    I_OF "if (i < n) { atomicAdd(p + i, 1.f); atomicAdd(&p[i + 1], 1.f); p[w] += 1; } }", 0, 2 },
  { "__global__ void k" ARGS " {"
    I_OF "if (i < n) { float f = atomicAdd(p + i, 1.f); atomicAdd(&p[i], f);"
    " atomicAdd(&p[i + 1], f); } }", 0, 3 },
  { "__global__ void k" ARGS " {"
    I_OF "if (i < n) { atomicAdd(p + i, 1.f); atomicAdd(&p[i + 2], 1.f); atomicAdd(&p[i], 1.f); } }", 0, 3 },
  { "__global__ void k" ARGS " {"
    I_OF "if (i < n) { atomicAdd(p + 2 * i, 1.f); atomicAdd(&p[2 * i + 1], 1.f); } }", 0, 2 },
  { "__global__ void k" ARGS " {"
    I_OF "if (i < n) { atomicAdd(p + n - i, 1.f); atomicAdd(&p[n - i + 1], 1.f); } }", 0, 2 },
  { "__global__ void k" ARGS " {"
    I_OF "for (; i < n; i += w) { atomicAdd(p + i, 1.f); atomicAdd(&p[i + 1], 1.f); } }", 0, 2 },
  { "__global__ void k" ARGS " {"
    I_OF "for (int j = 0; j < n; j++) { int c = i + j; atomicAdd(p + c, 1.f);"
    " atomicAdd(&p[c + 1], 1.f); } }", 0, 2 },
  { "__global__ void k"
    ARGS " { for (int j = 0; j < n; j++) { atomicAdd(p + j, 1.f); atomicAdd(&p[j + 1], 1.f); } }",
    0, 2 },
  { "__global__ void k"
    ARGS " { int j = (int)g[threadIdx.x]; if (j < n) { atomicAdd(p + j, 1.f); atomicAdd(&p[j + 1], 1.f); } }", 0, 2 },
  { "__global__ void k(int *p, int n) {"
    I_OF "if (i < n) { atomicAdd(p + i, 1); atomicAdd(&p[i + 1], 1); } }", 0, 2 }
};

static int occurrences(const char *text, const char *what) {
  int n = 0;
  for (; (text = strstr(text, what)); text++) n++;
  return n;
}

/* If memory for the analysis of sums into neighbours runs out, nothing may leak. */
static void check_near_memory(const fl_kfunc *f) {
  for (int64_t k = 1; k < 20; k++) {
    fl_mem m = { .fail_at = k };
    fl_text t;
    fl_text_init(&t, &m);
    fl_ktext_kernel(&t, f);
    fl_text_free(&t);
    if (m.live_bytes) check(0, "near sums", "a failed allocation leaks");
  }
}

static void check_near(void) {
  for (int i = 0; i < COUNT(near_sums); i++) {
    fl_ksource *s = parse(near_sums[i].text);
    const fl_kfunc *f = s && s->n_kernels ? s->kernels[0] : NULL;
    check(f && f->has_body, "near sums", near_sums[i].text);
    if (f && f->has_body) {
      fl_text t;
      text_of(s, &t, 1);
      const char *text = fl_text_str(&t), *body = strstr(text, "void k(");
      check(occurrences(body, "fl_add_near(") == near_sums[i].groups, "near sums, groups",
            near_sums[i].text);
      check(occurrences(body, "atomicAdd(") == near_sums[i].atomics, "near sums, atomics",
            near_sums[i].text);
      check(!near_sums[i].groups == !strstr(text, "FL_NEAR"), "near sums, prelude",
            near_sums[i].text);
      compiles("near sums", text);
      fl_text_free(&t);
      check_near_memory(f);
    }
    fl_ksource_free(s);
  }
}

/* ---- broken texts and memory ----------------------------------------------------------------- */

static uint64_t seed = 1;
static unsigned draw(unsigned n) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)(seed >> 33) % n;
}

static void try_text(const char *text, size_t n) {
  const int64_t before = mem.live_bytes;
  fl_ksource *s = parse_n(text, n);
  for (int i = 0; s && i < s->n_kernels; i++) {
    fl_text t;
    const fl_kfunc *f = s->kernels[i];
    fl_text_init(&t, &mem);
    fl_ktree_print(&t, f);
    if (f->has_body) fl_ktext_kernel(&t, f);
    fl_text_free(&t);
    if (!f->has_body) continue;
    fl_kaccess *a = malloc(((size_t)f->n_vars + 1) * sizeof *a);
    fl_kaccess_find(&mem, f, a);
    free(a);
    first_store v = { NULL };
    fl_kindices *k = fl_kindices_new(&mem, f, FL_KONE_ALL);
    fl_kwalk_block(&(fl_kvisitor){ see_store, NULL, &v }, f->body);
    if (v.s) fl_kindex_class(k, v.s, v.s->x[0]);
    fl_kindices_free(k);
  }
  fl_ksource_free(s);
  if (mem.live_bytes != before) check(0, "leak", text);
}

static void fuzz(int rounds) {
  static const char *const bits[] = { "(", ")", "{", "}", "[", "]", ";", ",", "*", "&", "=", "++",
                                      "if", "for", "float",
    "int", "0", "1e9", "\"", "'", "#define X X\n", "?", ":", "struct", "x", "->", ".", "<<",
    "return", "\\\n", "/*", "&&", "-" };
  for (int r = 0; r < rounds; r++) {
    const char *from = good[draw(COUNT(good))].text;
    size_t n = strlen(from);
    char *text = malloc(n + 4096);
    memcpy(text, from, n + 1);
    if (r % 4 == 0) n = draw((unsigned)n);
    for (unsigned k = r % 4 ? 1 + draw(4) : 0; k > 0 && n; k--) {
      const size_t at = draw((unsigned)n);
      if (draw(3) == 0) text[at] = (char)draw(256);
      else if (draw(2)) memmove(text + at, text + at + 1, n - at), n--;
      else {
        const char *b = bits[draw(COUNT(bits))];
        memmove(text + at + strlen(b), text + at, n - at);
        memcpy(text + at, b, strlen(b));
        n += strlen(b);
      }
    }
    text[n] = 0;
    try_text(text, n);
    free(text);
  }
  passed++;
}

static void check_bombs(void) {
  char *text = malloc(200000);
  strcpy(text, "#define A0 x\n");
  for (int i = 1; i < 30; i++)
    sprintf(text + strlen(text), "#define A%d A%d A%d\n", i, i - 1, i - 1);
  strcat(text, "__global__ void k(float *x) { A29 }\n");
  try_text(text, strlen(text));
  strcpy(text, "__device__ void f0() {}\n");
  for (int i = 1; i < 40; i++)
    sprintf(text + strlen(text), "__device__ void f%d() { f%d(); f%d(); }\n", i, i - 1, i - 1);
  strcat(text, "__global__ void k(float *x) { f39(); }\n");
  try_text(text, strlen(text));
  strcpy(text, "__global__ void k(float *x) { x[0] = 1");
  for (int i = 0; i < 3000; i++) strcat(text, "+x[1]");
  strcat(text, "; }\n");
  try_text(text, strlen(text));
  strcpy(text, "__global__ void k(float *x) { ");
  for (int i = 0; i < 5000; i++) strcat(text, "if (x[0]) {} else ");
  strcat(text, "; }\n");
  try_text(text, strlen(text));
  free(text);
  passed++;
}

static void check_memory(void) {
  for (int g = 0; g < COUNT(good); g++) {
    for (int64_t k = 1; k < 2000; k++) {
      fl_mem m = { .fail_at = k };
      fl_error e = { .code = FLAME_OK };
      fl_ksource *s = fl_ksource_parse(&m, &e, good[g].text, strlen(good[g].text));
      const int done = m.calls < k;
      if (!s && e.code != FLAME_NO_MEMORY) check(0, good[g].name, "no memory, but no error");
      if (done && !s) check(0, good[g].name, "memory was there");
      fl_ksource_free(s);
      if (m.live_bytes) check(0, good[g].name, "a failed allocation leaks");
      if (done) break;
    }
  }
  passed++;
}

int main(int argc, char **argv) {
  find_compiler();
  for (int i = 0; i < COUNT(good); i++) check_good(&good[i], 0), check_round_trip(&good[i]);
  for (int i = 0; i < COUNT(with_half); i++) check_good(&with_half[i], 1);
  for (int i = 0; i < COUNT(bad); i++) check_bad(&bad[i]);
  check_signatures();
  check_access();
  check_indices();
  check_map();
  check_partials();
  check_near();
  check_bombs();
  check_memory();
  fuzz(argc > 1 ? atoi(argv[1]) : 3000);
  check(!mem.live_bytes && !mem.live_blocks, "memory", "something is left");
  printf("test_kernel_parse: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
