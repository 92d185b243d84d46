/*
** Derivatives of kernels. The cases are wrong results that were reported in the issue trackers of
** other systems, and each feature of the language. Reverse mode is compared with forward mode, and
** that with central differences; then the derived kernels are differentiated too. The message of a
** refusal must name the kernel and the line. Arguments of a case are written as in kernel_case.h.
*/
#include "kernel_case.h"
#include "kernel/text/text.h"

enum { TURNED = 16, STAYS = 32, ORDERS = 3 };
static int passed, failed, verbose;

typedef struct test_case {
  const char *name, *args, *source;
  uint32_t grid, block;          /* x | y << 8 | z << 16; y or z 0 means 1 */
  int second;                    /* derived kernels that are derived too: 1 the tangent, 2 both;
                                 ** plus TURNED: sums must become gathers, or STAYS: none may */
  const char *refused;           /* expected text of the refusal */
  int slot_bytes;
  int64_t shared;
} test_case;

static void report(int ok, const char *name, const char *why) {
  if (ok) { passed++; return; }
  failed++;
  printf("test_kernel_ad: %s: %s\n", name, why);
}

static void show(problem *p) {
  uint8_t want[MAX_ARGS];
  const fl_kad_request r = request_of(p, want);
  fl_text t;
  fl_text_init(&t, p->mem);
  fl_kad *k = fl_kad_adjoint(p->arena, p->f, &r);
  fl_ktree_print(&t, p->f);
  if (k && k->func) fl_ktree_print(&t, k->func);
  printf("%s\n", fl_text_str(&t));
  fl_text_free(&t);
  fl_text_init(&t, p->mem);
  const fl_kad_parts parts = k && k->func ? fl_kad_gather(p->arena, p->f, k, &r)
                                          : (fl_kad_parts){NULL, NULL};
  if (k && k->func) fl_ktext_prelude(&t), fl_ktext_kernel(&t, k->func);
  if (parts.gather) fl_ktext_kernel(&t, parts.gather->func);
  if (parts.rest) fl_ktext_kernel(&t, parts.rest->func);
  printf("//@@\n%s\n//@@\n", fl_text_str(&t));
  fl_text_free(&t);
}

/* ---- one case -------------------------------------------------------------------------------- */

static void second_order(problem *p, const test_case *c) {
  for (int reverse = 0; reverse < ((c->second & ORDERS) > 1 ? 2 : 1); reverse++) {
    problem q;
    char name[200];
    snprintf(name, sizeof name, "%s (of its %s)", c->name, reverse ? "adjoint" : "tangent");
    if (!derive_problem(p, reverse, 99, &q)) {
      report(0, name, p->why);
      continue;
    }
    const int ok = check_derivatives(&q, 2, 7);
    report(ok == 1, name, ok == -2 ? "not smooth here" : q.why);
    free_args(q.arg, q.n);
  }
}

static void run_case(const test_case *c, int deterministic) {
  fl_mem m = {0};
  uint64_t seed = 88172645463325252u;
  const char *why;
  fl_ksource *s = read_kernel(&m, c->source, &why);
  if (why) {
    report(0, c->name, why);
    fl_ksource_free(s);
    return;
  }
  problem p = {.f = s->kernels[0], .mem = &m,
               .arena = &s->arena, .races = 1, .slot_bytes = c->slot_bytes, .shared = c->shared,
               .deterministic = deterministic};
  for (int axis = 0; axis < 3; axis++) {
    const uint32_t grid = c->grid >> 8 * axis & 255, block = c->block >> 8 * axis & 255;
    p.grid[axis] = grid ? grid : 1;
    p.block[axis] = block ? block : 1;
  }
  parse_args(&p, c->args, &seed);
  if (verbose) show(&p);
  const int ok = check_derivatives(&p, 3, 5);
  if (c->refused) {
    report(ok == -1 && strstr(p.why, c->refused) && strstr(p.why, "line"), c->name,
           ok == -1 ? p.why : "was not refused");
  } else {
    report(ok == 1, c->name, ok == -2 ? "not smooth here" : p.why);
    if (c->second > ORDERS)
      report((p.gathered > 0) == (c->second >= TURNED && c->second < STAYS), c->name,
             p.gathered ? "was gathered" : "was not gathered");
    if (c->second & ORDERS && ok == 1) second_order(&p, c);
  }
  free_args(p.arg, p.n);
  fl_ksource_free(s);
  report(m.live_bytes == 0, c->name, "memory is left");
}

/* ---- no memory ------------------------------------------------------------------------------- */

/* Derives the kernel while memory runs out at many places: there must be no crash, and no kernel
** may be missing unless a refusal or a failed allocation says why. */
static void run_dry(const test_case *c) {
  fl_mem m = {0}, dry = {0};
  uint64_t seed = 1;
  const char *why;
  fl_ksource *s = read_kernel(&m, c->source, &why);
  if (why) {
    fl_ksource_free(s);
    return;
  }
  problem p = {.f = s->kernels[0], .grid = {c->grid, 1, 1}, .block = {c->block, 1, 1}, .mem = &m};
  parse_args(&p, c->args, &seed);
  uint8_t want[MAX_ARGS];
  const fl_kad_request r = request_of(&p, want);
  int wrong = 0;
  for (int chunk = 1; chunk < 5; chunk++)
    for (size_t shift = 0; shift < 32000; shift += 1936) {
      fl_karena a;
      fl_karena_init(&a, &dry);
      fl_karena_new(&a, shift + 16);
      dry.fail_at = dry.calls + chunk;
      dry.fail_forever = 1;
      const fl_kad *k = shift % 3 ? fl_kad_adjoint(&a, p.f, &r) : fl_kad_tangent(&a, p.f, &r);
      wrong += k && !k->func && !k->refusal && !a.failed;
      if (shift % 3 && k && k->func) {
        dry.fail_at = shift % 2 ? dry.calls + chunk : 0;
        const fl_kad_parts parts = fl_kad_gather(&a, p.f, k, &r);
        wrong += parts.gather && a.failed;
      }
      dry.fail_at = 0;
      fl_karena_close(&a);
    }
  report(!wrong && dry.live_bytes == 0, c->name, "memory runs out, badly");
  free_args(p.arg, p.n);
  fl_ksource_free(s);
}

/* Is s marked as a loop that lanes go through at one k, though it has another form? */
static int is_mismarked(const void *none, const fl_kstmt *s) {
  (void)none;
  return s->kind == FL_KS_LOOP && s->op == FL_KLOOP_DOWN &&
         (s->x[0]->kind != FL_KX_BINARY || s->x[0]->op != FL_KO_GE || !s->other.first);
}

/* Makes gathers of the kernel in an arena that has room for few chunks more. Returns how many are
** not finished; *made: how many there are. */
static int gathers_in_few_chunks(const char *text, int *made) {
  fl_mem m = {0};
  uint64_t seed = 1;
  const char *why;
  fl_ksource *s = read_kernel(&m, text, &why);
  problem p = {.f = s->kernels[0], .grid = {10, 1, 1}, .block = {4, 1, 1}, .mem = &m};
  parse_args(&p, "d40i d40oz I=40", &seed);
  uint8_t want[MAX_ARGS];
  const fl_kad_request r = request_of(&p, want);
  fl_karena a;
  fl_karena_init(&a, &m);
  const fl_kad *k = fl_kad_adjoint(&a, p.f, &r);
  int wrong = 0;
  for (size_t chunks = 0; chunks < 6; chunks++) {
    a.most = a.bytes + chunks * 32768;
    const fl_kad_parts parts = fl_kad_gather(&a, p.f, k, &r);
    *made += parts.gather != NULL;
    wrong += parts.gather && fl_kblock_any(parts.gather->func->body, is_mismarked, NULL);
  }
  fl_karena_close(&a);
  free_args(p.arg, p.n);
  fl_ksource_free(s);
  return wrong;
}

/* A gather for which the arena is too small is not made at all. The length of a name decides where
** the room ends. */
static void run_short(void) {
  enum { LENGTH = 6000 };
  static char name[LENGTH + 1], text[2 * LENGTH + 200];
  int wrong = 0, made = 0, tried = 0;
  for (size_t length = 1; length < LENGTH; length += 7, tried += 6) {
    memset(name, 'n', length);
    snprintf(text, sizeof text, "__global__ void k(const double *u, double *v, int %s) {\n"
             "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
             "  if (i >= 5 && i < %s) v[i] = u[i - 5] * (1 + i %% 13) + u[i];\n}", name, name);
    wrong += gathers_in_few_chunks(text, &made);
  }
  report(!wrong && made > 0 && made < tried, "little room", "a gather is not finished");
}

#define K(args) "__global__ void k(" args ") {\n" \
  "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"

static const test_case cases[] = {
#include "kernel_ad_cases.h"
#include "kernel_stencil_cases.h"
};

int main(int argc, char **argv) {
  verbose = argc > 2;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (argc < 2 || strstr(cases[i].name, argv[1])) {
      run_case(&cases[i], 0);
      if (cases[i].second > ORDERS) run_case(&cases[i], 1);
    }
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (argc < 2 || strstr(cases[i].name, argv[1])) run_dry(&cases[i]);
  if (argc < 2) run_short();
  printf("test_kernel_ad: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
