/*
** Damaged kernel texts for the parser, the CUDA text generator, derivatives and lanes. What is
** outside the language is refused with a line and a reason; what is still inside gives a text, is
** derived, and runs in lanes on small arrays: a faulty kernel is reported and never accesses memory
** outside its arguments.
*/
#include "fuzz.h"
#include "../c/kernel_sources.h"
#include "kernel/facts/access.h"
#include "kernel/ad/ad.h"
#include "kernel/lanes/lane.h"
#include "kernel/front/source.h"
#include "kernel/text/text.h"

enum { ARRAY = 256, MAX_ARGS = 24, MAX_MEMORY = 64, GOOD = sizeof good / sizeof *good,
       BAD = sizeof bad / sizeof *bad };

static fl_mem memory;
static fuzz_bytes work;
static unsigned long long kernels, refused, derived, ran;

static const char *const words[] = {
  "(", ")", "{", "}", "[", "]", ";", ",", "*", "&", "=", "+=", "++", "--", "->", ".", "?", ":",
  "<<", ">>", "&&", "!",
  "~", "-", "/", "%", "<", "==", "::", "#", "##", "\\\n", "/*", "*/", "//", "\"", "'", "if (",
  "else ", "for (", "while (",
  "do ", "switch (", "case 1:", "default:", "break;", "continue;", "return;", "goto x;",
  "struct S {", "union ", "enum {",
  "template <int N> ", "template <typename T> ", "template <> ", "operator+", "operator[]",
  "[&](float v) { return v; }", "[=]", "V2<float> ",
  "this", "friend ", "static ", "auto ", "typename ", "class ", "namespace m {", "m::",
  "using T = ", "-> ", "constexpr ", "T ", "T(", "V2(", ": a(1)",
  "= 0", "float &", "(&v)[2]", "for (float e : a) ", "if constexpr (", "...", "__VA_ARGS__",
  "decltype(", "V2", "rep<2>(", "__shared__ ", "__device__ ", "__global__ ", "__constant__ ",
  "const ", "unsigned ", "float ",
  "double ", "int ", "long long ", "float4 ", "half ", "bool ", "void ", "char ", "int i[4];", "0",
  "1", "2147483647",
  "-2147483648", "9223372036854775807", "18446744073709551615u", "1e9", "1e400", "0x1p-3f", "0.5f",
  "1.0", "NULL",
  "__syncthreads();", "atomicAdd(x, 1.f);", "__shfl_down_sync(~0u, 1.f, 1)", "threadIdx.x",
  "blockIdx.y", "blockDim.x",
  "sinf(", "fmaf(1.f, 2.f, ", "x[i]", "x[-1]", "#define A A A\n", "#define F(x) x x\n", "#if 1\n",
  "#endif\n",
  "#pragma unroll\n", "printf(\"%d %s\", 1);", "assert(0);", "i", "n", "x", "y", "A", "F(", NULL
};

/* ---- what is made of a kernel ---------------------------------------------------------------- */

static void text_of(const fl_kfunc *f) {
  fl_text t;
  fl_text_init(&t, &memory);
  fl_ktree_print(&t, f);
  fl_ktext_prelude(&t);
  fl_ktext_kernel(&t, f);
  if (!fl_text_str(&t)) fuzz_fault("no text of a kernel");
  fl_text_free(&t);
}

static void access_of(const fl_kfunc *f) {
  fl_kaccess *a = malloc(((size_t)f->n_vars + 1) * sizeof *a);
  if (a && !fl_kaccess_find(&memory, f, a)) fuzz_fault("no access of a kernel");
  free(a);
}

static void derive(fl_karena *a, const fl_kfunc *f) {
  uint8_t want[256] = { 0 };
  if (f->n_params > 256) return;
  for (int i = 0; i < f->n_params; i++) {
    const fl_kparam *p = &f->params[i];
    want[i] = p->is_pointer && !p->is_const ? FL_KAD_INPUT | FL_KAD_OUTPUT : FL_KAD_INPUT;
  }
  const fl_kad_request r = { .want = want, .geometry = FL_KONE_ALL,
                             .deterministic = (int)fuzz_draw(2),
                             .slot_bytes = 64 };
  const fl_kad *d = fuzz_draw(2) ? fl_kad_adjoint(a, f, &r) : fl_kad_tangent(a, f, &r);
  if (!d || (!d->func && !d->refusal)) {
    fuzz_fault("neither a derivative nor a refusal");
    return;
  }
  if (!d->func) return;
  derived++;
  text_of(d->func);
  fl_error e = { .code = FLAME_OK };
  fl_lane_code *c = fl_lane_compile(&memory, d->func, &e);
  if (!c && e.code == FLAME_OK) fuzz_fault("no lanes of a derivative and no error");
  fl_lane_free(c);
}

/* ---- running --------------------------------------------------------------------------------- */

typedef struct launch {
  fl_lane_arg args[MAX_ARGS];
  fl_lane_memory memory[MAX_MEMORY];
  void *made[MAX_ARGS + MAX_MEMORY];
  int n_memory, n_made;
} launch;

/* A separate block of malloc, so that the sanitizer detects an access beyond its end. */
static void *bytes_of(launch *l, size_t n) {
  unsigned char *p = malloc(n);
  if (!p) exit(2);
  for (size_t i = 0; i < n; i++) p[i] = (unsigned char)(i % 4 ? 0 : fuzz_draw(8));
  return l->made[l->n_made++] = p;
}

static int array_of(launch *l) {
  if (l->n_memory == MAX_MEMORY) return 0;
  l->memory[l->n_memory++] = (fl_lane_memory){ bytes_of(l, ARRAY), ARRAY };
  return 1;
}

static int arguments(launch *l, const fl_kfunc *f) {
  if (f->n_params > MAX_ARGS) return 0;
  for (int i = 0; i < f->n_params; i++) {
    const fl_kparam *p = &f->params[i];
    if (p->size > 4096) return 0;
    l->args[i].memory = &l->memory[l->n_memory];
    if (p->is_pointer && !array_of(l)) return 0;
    for (int k = 0; !p->is_pointer && k < p->n_fields; k++)
      if (p->fields[k].is_pointer && !array_of(l)) return 0;
    if (!p->is_pointer) l->args[i].value = bytes_of(l, (size_t)p->size);
  }
  return 1;
}

static void report_text(const fl_lane_report *r) {
  fl_text t;
  fl_text_init(&t, &memory);
  fl_lane_message(r, &t);
  if (!fl_text_str(&t)) fuzz_fault("a fault without a message");
  fl_text_free(&t);
}

static fl_mem race_memory;
static fl_lane_shadow *races;          /* kept from kernel to kernel */

static void run(const fl_kfunc *f) {
  static launch l;
  fl_error e = { .code = FLAME_OK };
  memset(&l, 0, sizeof l);
  fl_lane_code *c = fl_lane_compile(&memory, f, &e);
  if (!c && e.code == FLAME_OK) fuzz_fault("no lanes of a kernel and no error");
  if (c && arguments(&l, f)) {
    fl_lane_report r = { 0 };
    fl_lane_launch g = { .grid = { 2, 1 + fuzz_draw(2), 1 }, .block = { 1 + fuzz_draw(40), 1, 1 },
                         .shared_bytes = 256,
                         .args = l.args, .n_args = f->n_params, .checks = fuzz_draw(8),
                         .max_steps = 3000 };
    if (fuzz_draw(2) && !(g.shadow = races)) g.shadow = races = fl_lane_shadow_new(&race_memory);
    if (e.code == FLAME_OK && !fl_lane_run(&memory, c, &g, &r, &e)) {
      if (!r.kind && e.code == FLAME_OK) fuzz_fault("it did not run, without a reason");
      report_text(&r);
    }
    ran++;
  }
  fl_lane_free(c);
  for (int i = 0; i < l.n_made; i++) free(l.made[i]);
}

/* ---- a round --------------------------------------------------------------------------------- */

static void kernel(fl_ksource *s, const fl_kfunc *f) {
  kernels++;
  if (!f->has_body) {
    refused++;
    if (!*fl_ksource_refusal(s, f)) fuzz_fault("a refusal without a reason");
    return;
  }
  text_of(f);
  access_of(f);
  run(f);
  derive(&s->arena, f);
}

static void map(void) {
  static const char *const maps[] = { "x, y -> sqrtf(x*x + y*y)", "x -> x > 0 ? x : expf(x) - 1",
                                      "a,b -> fmaf(a, b, 2*a) % 3" };
  static const uint8_t types[] = { FL_KT_F32, FL_KT_F64, FL_KT_I32 };
  fl_error e = { .code = FLAME_OK };
  const char *from = maps[fuzz_draw(3)];
  work.n = 0;
  fuzz_replace(&work, 0, 0, from, strlen(from));
  fuzz_damage(&work, 0, words);
  const int n = fl_kmap_arity((const char *)work.at, work.n);
  if (n < 0 || n > 3) return;
  fl_kmap *m = fl_kmap_parse(&memory, &e, (const char *)work.at, work.n, types, n, 0);
  if (m && !m->value && !m->error) fuzz_fault("neither a map nor an error");
  if (m && m->value) {
    fl_text t;
    fl_text_init(&t, &memory);
    fl_ktext_expr(&t, m->f, m->value);
    fl_text_free(&t);
  }
  fl_kmap_free(m);
}

/* Finds the name or number at or after a random place: *begin and the length; 0: there is none. */
static size_t word_at(size_t *begin) {
  static const char in[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
  size_t at = fuzz_draw((unsigned)work.n + 1), end;
  while (at > 0 && strchr(in, work.at[at - 1]) && work.at[at - 1]) at--;
  while (at < work.n && (!work.at[at] || !strchr(in, work.at[at]))) at++;
  for (end = at; end < work.n && work.at[end] && strchr(in, work.at[end]); end++) {}
  *begin = at;
  return end - at;
}

static int is_digit(size_t at) { return work.at[at] >= '0' && work.at[at] <= '9'; }

/* Replaces a number, or a name, by another one of the text, so that the result is often still a
** kernel. */
static void swap_words(int numbers) {
  size_t from, to;
  unsigned char word[64];
  for (int tries = 0; tries < 40; tries++) {
    const size_t old = word_at(&to), n = word_at(&from);
    const int same = n && old && is_digit(from) == is_digit(to) && (n < 3) == (old < 3);
    if (!same || is_digit(to) != numbers || n > sizeof word ||
        (n == old && !memcmp(work.at + from, work.at + to, n)))
      continue;
    memcpy(word, work.at + from, n);
    fuzz_replace(&work, to, old, word, n);
    return;
  }
}

static const char *source(void) {
  const char *text = fuzz_draw(8) ? good[fuzz_draw(GOOD)].text : bad[fuzz_draw(BAD)].text;
  return text ? text : good[0].text;
}

/* Lists and nesting near and beyond a limit: head, n times item (# is replaced by the item's
** number), then 'between' and n times 'back'. */
static const struct { const char *head, *item, *between, *back, *tail; unsigned most; } limits[] = {
#define K "__global__ void k(float *x, int n) { "
  { K "x[0] = sinf(", "1.f, ", "1.f);", "", " }", 16 },
  { K "n = max(", "n, ", "n);", "", " }", 16 },
  { "__device__ int f(", "int a#, ", "int z) { return z; }\n" K "n = f(", "1, ", "2); }", 16 },
  { "#define F(", "a#, ", "...) __VA_ARGS__\n" K "n = F(", "1, ", "2); }", 16 },
  { "#define F(", "a#, ", "z) z\n" K "n = F(", "1, ", "2); }", 16 },
  { "#define F(...) n\n" K "n = F(", "(1, 2), ", "3);", "", " }", 16 },
  { "template <", "int A#, ", "int Z> __device__ int f() { return Z; }\n" K "n = f<", "1, ",
    "2>(); }", 8 },
  { "template <", "class A#, ", "class Z> struct S { Z z; };\n" K "S<", "int, ", "float> s; }", 8 },
  { "struct S { ", "float m#; ", "};\n" K "S s = { ", "1.f, ", "2.f }; x[0] = s.m1; }", 64 },
  { "struct S { float a; __device__ S(", "float a#, ", "float z) : a(z) {} };\n" K "S s{", "1.f, ",
    "2.f}; }", 16 },
  { K "int a", "[1]", " = ", "{", " 1 }; a[0] = 1; }", 4 },
  { K "int a[8]; auto [", "b#, ", "c] = a;", "", " }", 16 },
  { K "printf(\"%d\"", ", n", ");", "", " }", 32 }, { K "float ", "a# = 0, ", "z = 1; auto f = [",
                                                      "a#, ", "z] { return z; }; f(); }", 32 },
  { "__global__ void k(", "float *p#, ", "int n) { p1[0] = 1;", "", " }", 256 },
  { K "switch (n) { ", "case #: x[0] = 1; break; ", "}", "", " }", 64 },
  { K "switch (n) { ", "case #: ", "x[0] = 1; }", "", " }", 64 },
  { "#if 1\n", "#if 1\n", "", "#endif\n", "#endif\n" K "x[0] = 1; }", 64 },
  { K "n = ", "(", "1", ")", "; }", 100 },
  { K, "{ ", "x[0] = 1; ", "} ", "}", 200 }, { K, "if (n) ", ";", "", " }", 200 },
  { K "n = ", "n ? ", "1", " : 2", "; }", 66 },
  { "template <class T> struct V { T x; };\n" K, "V<", "int", ">", " v; }", 100 },
  { "#define F(x) x\n" K "n = ", "F(", "1", ")", "; }", 16 },
  { "template <class... T> __device__ int f(T... v) { return (v + ...); }\n" K "n = f(", "1, ",
    "2);", "", " }", 16 },
  { K "goto z; ", "l#: ; ", "z: ;", "", " }", 64 },
  { "namespace a = cooperative_groups;\n", "namespace g# = a;\n", K "g1::sync(); }", "", "", 4 },
#undef K
};

static void put_times(const char *item, unsigned n) {
  char number[16];
  for (unsigned i = 1; i <= n; i++)
    for (const char *s = item; *s; s++) {
      const int length = *s == '#' && s[1] != 'i' && s[1] != 'e'
                         ? snprintf(number, sizeof number, "%u", i) : 0;
      fuzz_replace(&work, work.n, 0, length ? number : s, length ? (size_t)length : 1);
    }
}

static void at_a_limit(void) {
  const unsigned which = fuzz_draw(sizeof limits / sizeof *limits), most = limits[which].most;
  const unsigned n = fuzz_draw(4) ? most - 2 + fuzz_draw(5) : fuzz_draw(4 * most);
  work.n = 0;
  fuzz_replace(&work, 0, 0, limits[which].head, strlen(limits[which].head));
  put_times(limits[which].item, n);
  fuzz_replace(&work, work.n, 0, limits[which].between, strlen(limits[which].between));
  put_times(limits[which].back, fuzz_draw(4) ? n : most - 2 + fuzz_draw(5));
  fuzz_replace(&work, work.n, 0, limits[which].tail, strlen(limits[which].tail));
}

static void from_a_source(void) {
  const char *from = source();
  work.n = 0;
  fuzz_replace(&work, 0, 0, from, strlen(from));
  /* continues with the end of another text */
  if (fuzz_draw(8) == 0) {
    const char *other = source();
    const size_t at = fuzz_draw((unsigned)work.n), skip = fuzz_draw((unsigned)strlen(other));
    fuzz_replace(&work, at, work.n - at, other + skip, strlen(other + skip));
  }
  switch (fuzz_draw(4)) {
    case 0: fuzz_damage(&work, 0, words); break;
    case 1: fuzz_damage_once(&work, 0, words); break;
    case 2: swap_words(0); break;
    default: for (unsigned k = 1 + fuzz_draw(4); k > 0; k--) swap_words(1);
  }
}

static void round_of_kernels(void) {
  fl_error e = { .code = FLAME_OK };
  if (fuzz_draw(8) == 0) {
    map();
    return;
  }
  if (fuzz_draw(8)) from_a_source();
  else at_a_limit();
  /* of exactly this size, so that a read beyond the end is detected */
  char *text = malloc(work.n + 1);
  if (!text) exit(2);
  memcpy(text, work.at, work.n);
  fl_ksource *s = fl_ksource_parse(&memory, &e, text, work.n);
  if (!s) fuzz_fault("a text is not parsed");
  for (int i = 0; s && i < s->n_kernels; i++) kernel(s, s->kernels[i]);
  fl_ksource_free(s);
  free(text);
}

int main(int argc, char **argv) {
  const int result = fuzz_main(argc, argv, &memory, round_of_kernels, 0);
  printf("%s: %llu kernels: %llu refused, %llu ran, %llu derived\n",
         fuzz_name, kernels, refused, ran, derived);
  return result;
}
