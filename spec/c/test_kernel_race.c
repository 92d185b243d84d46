/*
** The race check against a model of it. Random kernels over shared and global arrays run once in
** the CPU's interpreter and once, thread by thread, in the model, which notes every access. Whether
** there is a race, its element and lines, and all values must agree. All launches share one table
** of accesses (fl_lane_shadow), whose time stamps also run out and whose allocations fail.
*/
#include "lane_run.h"
#include "kernel/lanes/lane_state.h"

enum { ARRAYS = 6, CELLS = 192, THREADS = 96, STEPS = 12, BARRIER = 3, WARP = 4 };

/* ---- a random kernel ----------------------------------------------------------------- */

/* s0, s1: in static shared memory; d0, d1: views of dynamic shared memory by two types, which
** overlap; g0, g1: in global memory. */
static const char *const array_name[ARRAYS] = { "s0", "s1", "d0", "d1", "g0", "g1" };
typedef struct step {
  int kind, array, guard, level;   /* kind: 0 read, 1 write, 2 atomic, …; guard 0: none */
  int x, y, j, d, e;               /* index: (x tx + y ty + j loop + b block + d ^ e) % size */
  int b, v, w;                     /* value written: (v t + w) % 5 */
  int line;
} step;
typedef struct kernel {
  int bx, by, grid, rounds, n;
  int size[ARRAYS], type[ARRAYS];  /* bytes of an element */
  step step[STEPS];
  char text[4000];
} kernel;

static int draw(int n) { return (int)(random_bits() % (uint32_t)n); }

static const char *type_name(int bytes) {
  return bytes == 1 ? "unsigned char" : bytes == 2 ? "short" : bytes == 4 ? "int" : "long long";
}

static void random_step(kernel *k, int i) {
  step *s = &k->step[i];
  *s = (step){ .kind = draw(10), .array = draw(ARRAYS), .guard = draw(3) ? 0 : 1 + draw(3),
               .level = draw(k->bx * k->by + 1), .v = draw(2), .w = draw(5) };
  s->kind = s->kind < 3 ? 0 : s->kind < 6 ? 1 : s->kind < 7 ? 2 : s->kind < 9 ? BARRIER : WARP;
  if (s->kind == 2 && k->type[s->array] != 4) s->kind = 0;
  if (draw(4)) { s->x = draw(4) > 0; s->y = draw(3) ? k->bx : draw(3); }
  if (s->x && !draw(4)) s->e = 1 << draw(6);
  s->j = draw(2) * draw(3);
  s->b = draw(3) ? k->bx * k->by : draw(2);
  s->d = i * 2 + draw(2);                          /* no two indices are one expression */
}

static const char *index_text(const kernel *k, const step *s) {
  static char t[200];
  snprintf(t, sizeof t, "((%d * tx + %d * ty + %d * j + %d * b + %d) ^ %d) %% %d", s->x, s->y, s->j,
           s->b, s->d, s->e, k->size[s->array]);
  return t;
}

static void write_step(kernel *k, step *s, int line) {
  char *to = k->text + strlen(k->text);
  const size_t room = sizeof k->text - strlen(k->text);
  char guard[40] = "";
  s->line = line;
  if (s->guard == 1) snprintf(guard, sizeof guard, "if (t < %d) ", s->level);
  if (s->guard == 2) snprintf(guard, sizeof guard, "if (t %% 2 == %d) ", s->level & 1);
  if (s->guard == 3) snprintf(guard, sizeof guard, "if (b == %d) ", s->level % k->grid);
  const char *name = array_name[s->array], *at = index_text(k, s);
  switch (s->kind) {
    case 0: snprintf(to, room, "%sa += %s[%s];\n", guard, name, at); break;
    case 1:
      snprintf(to, room, "%s%s[%s] = (%d * t + %d) %% 5;\n", guard, name, at, s->v, s->w);
      break;
    case 2: snprintf(to, room, "%satomicAdd(&%s[%s], 1);\n", guard, name, at); break;
    case BARRIER: snprintf(to, room, "__syncthreads();\n"); break;
    default: snprintf(to, room, "__syncwarp();\n"); break;
  }
}

static void random_kernel(kernel *k) {
  static const int sizes[] = { 1, 2, 4, 4, 4, 8 };
  memset(k, 0, sizeof *k);
  k->bx = 1 + draw(4) * draw(8) + (draw(3) ? 7 : 0);
  k->by = 1 + draw(2) * draw(3);
  k->grid = 1 + draw(3);
  k->rounds = 1 + draw(3);
  k->n = 3 + draw(STEPS - 3);
  for (int a = 0; a < ARRAYS; a++) {
    k->type[a] = sizes[draw(6)];
    k->size[a] = draw(3) ? CELLS : 1 + draw(CELLS);
  }
  k->size[2] = CELLS * 8 / k->type[2];
  k->size[3] = CELLS * 8 / k->type[3];
  const int n = snprintf(k->text, sizeof k->text,
    "__global__ void k(%s *g0, %s *g1, int *out) {\nint tx = threadIdx.x, ty = threadIdx.y, b = "
    "blockIdx.x, t = tx + %d * ty, a = 0;\n__shared__ %s s0[%d]; __shared__ %s s1[%d]; extern "
    "__shared__ %s d0[]; extern __shared__ %s d1[];\nfor (int j = 0; j < %d; j++) {\n",
    type_name(k->type[4]), type_name(k->type[5]), k->bx, type_name(k->type[0]), k->size[0],
    type_name(k->type[1]), k->size[1], type_name(k->type[2]), type_name(k->type[3]), k->rounds);
  (void)n;
  for (int i = 0; i < k->n; i++) {
    random_step(k, i);
    write_step(k, &k->step[i], 5 + i);
  }
  const size_t end = strlen(k->text);
  snprintf(k->text + end, sizeof k->text - end, "}\nout[%d * b + t] = a;\n}\n", k->bx * k->by);
}

/* ---- the model ----------------------------------------------------------------------- */

typedef struct touch { int set, block, lane, epoch, warp_epoch, line, atomic, same; } touch;
typedef struct cell { touch write, change, changer, read, reader; } cell;
static cell cells[ARRAYS - 1][CELLS * 8];      /* d0 and d1 share theirs, by byte */
static unsigned char bytes[ARRAYS - 1][CELLS * 8];
static int sums[4 * THREADS * 4];
static struct model { int block, epoch, warp_epoch[THREADS / 32 + 1]; fl_lane_report found; } m;

static int unordered(const touch *old, int lane) {
  if (!old->set) return 0;
  if (old->block != m.block) return 1;
  if (old->lane == lane || old->epoch != m.epoch) return 0;
  return old->lane / 32 != lane / 32 || old->warp_epoch == m.warp_epoch[lane / 32];
}

static const touch *met(const touch *last, const touch *other, int lane) {
  return unordered(last, lane) ? last : unordered(other, lane) ? other : NULL;
}

static void note(touch *last, touch *other, const touch *now) {
  if (!last->set || last->block != now->block || last->lane != now->lane) *other = *last;
  *last = *now;
}

static int found(const step *s, int lane, int64_t index, const touch *old, int old_write) {
  m.found = (fl_lane_report){ .kind = FL_LANE_RACED, .index = index,
    .at = { m.block, lane, s->line, s->kind > 0, s->kind == 2 },
    .other = { old->block, old->lane, old->line, (uint8_t)old_write, (uint8_t)old->atomic } };
  return 0;
}

static int access_cell(const step *s, int lane, int64_t index, cell *c, int same) {
  touch now = { 1, m.block, lane, m.epoch, m.warp_epoch[lane / 32], s->line, s->kind == 2, 0 };
  const touch *wrote = unordered(&c->write, lane) ? &c->write : NULL, *read = NULL;
  if (wrote && !s->kind && wrote->same) wrote = NULL;
  if (!wrote && s->kind != 2) wrote = met(&c->change, &c->changer, lane);
  if (wrote && !same) return found(s, lane, index, wrote, 1);
  now.same = wrote != NULL;
  if (s->kind && !same) read = met(&c->read, &c->reader, lane);
  if (read) return found(s, lane, index, read, 0);
  if (s->kind == 2) note(&c->change, &c->changer, &now);
  else if (s->kind) c->write = now;
  else note(&c->read, &c->reader, &now);
  return 1;
}

static int model_lane(const kernel *k, const step *s, int t, int j) {
  const int a = s->array, place = a > 2 ? a - 1 : a, size = k->type[a];
  const int64_t i = ((s->x * (t % k->bx) + s->y * (t / k->bx) + s->j * j + s->b * m.block + s->d)
                     ^ s->e) % k->size[a];
  const int64_t at = i * size;
  int64_t old = 0, fresh = (s->v * t + s->w) % 5;
  memcpy(&old, bytes[place] + at, (size_t)size);
  const int same = s->kind == 1 && old == fresh;
  if (!access_cell(s, t, i, &cells[place][at], same)) return 0;
  if (s->kind == 2) fresh = old + 1;
  if (s->kind == 0) sums[m.block * k->bx * k->by + t] += (int)old;
  else memcpy(bytes[place] + at, &fresh, (size_t)size);
  return 1;
}

static int takes_part(const kernel *k, const step *s, int t) {
  switch (s->guard) {
    case 1: return t < s->level;
    case 2: return t % 2 == (s->level & 1);
    case 3: return m.block == s->level % k->grid;
    default: return 1;
  }
}

static int model_step(const kernel *k, const step *s, int j) {
  const int n = k->bx * k->by;
  if (s->kind == BARRIER) m.epoch++;
  for (int w = 0; s->kind == WARP && w * 32 < n; w++) m.warp_epoch[w]++;
  for (int t = 0; s->kind < BARRIER && t < n; t++)
    if (takes_part(k, s, t) && !model_lane(k, s, t, j)) return 0;
  return 1;
}

static int model(const kernel *k) {
  memset(&m, 0, sizeof m);
  memset(cells, 0, sizeof cells);
  memset(bytes, 0, sizeof bytes);
  memset(sums, 0, sizeof sums);
  for (m.block = 0; m.block < k->grid; m.block++) {
    memset(cells, 0, 3 * sizeof *cells);                      /* shared memory */
    memset(bytes, 0, 3 * sizeof *bytes);
    m.epoch = 0;
    memset(m.warp_epoch, 0, sizeof m.warp_epoch);
    for (int j = 0; j < k->rounds; j++)
      for (int i = 0; i < k->n; i++) if (!model_step(k, &k->step[i], j)) return 0;
  }
  return 1;
}

/* ---- both ---------------------------------------------------------------------------- */

static fl_mem kept;
static fl_lane_shadow *shadow;
static int races, quiet;

static int agree(const fl_lane_place *a, const fl_lane_place *b) {
  return a->block == b->block && a->thread == b->thread && a->line == b->line &&
         a->write == b->write && a->atomic == b->atomic;
}

static int one(const kernel *k, unsigned checks) {
  static int out[4 * THREADS * 4];
  static unsigned char g0[CELLS * 8], g1[CELLS * 8];
  memset(g0, 0, sizeof g0);
  memset(g1, 0, sizeof g1);
  const job j = { .text = k->text, .grid = { (uint32_t)k->grid },
                  .block = { (uint32_t)k->bx, (uint32_t)k->by }, .shared = CELLS * 8,
                  .checks = checks, .shadow = shadow,
                  .memory = { { g0, k->size[4] * k->type[4] }, { g1, k->size[5] * k->type[5] },
                              { out, sizeof out } } };
  const int ok = execute(&j), expected = model(k);
  races += !expected;
  quiet += expected;
  if (ok != expected) return 0;
  if (!ok) return report.kind == FL_LANE_RACED && report.index == m.found.index &&
                  agree(&report.at, &m.found.at) && agree(&report.other, &m.found.other);
  return !memcmp(out, sums, sizeof(int) * (size_t)(k->grid * k->bx * k->by)) &&
         !memcmp(g0, bytes[3], (size_t)j.memory[0].bytes) &&
         !memcmp(g1, bytes[4], (size_t)j.memory[1].bytes);
}

static void test_random(int n) {
  static kernel k;
  for (int i = 0; i < n; i++) {
    random_kernel(&k);
    const int64_t late = INT64_MAX - (int64_t)random_bits() * 4096;
    if (i % 5 == 4 && late > shadow->next) shadow->next = late;
    if (i % 64 == 63) fl_lane_shadow_end(shadow, 0);
    const int ok = one(&k, FL_LANE_RACE);
    if (!ok) {
      fprintf(stderr, "kernel %d, (%d, %d) threads, %d blocks: %s\n%s", i, k.bx, k.by, k.grid,
              message, k.text);
      if (m.found.kind)
        fprintf(stderr, "index %d, block %d thread %d line %d, other block %d thread %d line %d\n",
                (int)m.found.index, (int)m.found.at.block, m.found.at.thread, m.found.at.line,
                (int)m.found.other.block, m.found.other.thread, m.found.other.line);
    }
    CHECK(ok);
    if (!ok) return;
  }
  CHECK(races > n / 5 && quiet > n / 5);
}

/* ---- what random kernels do not reach ------------------------------------------------ */

/* A kernel with more barriers than a time stamp can count: accesses before the last barrier must
** still be distinguished from those after it, in shared and in global memory. */
static void test_many_barriers(void) {
  const char *text =
    "__global__ void k(int *g, int n, int first) {\n__shared__ int s[64]; int t = threadIdx.x;\n"
    "for (int j = 0; j < first; j++) __syncwarp();\n"
    "for (int j = 0; j < n; j++) {\ns[t] = g[t] + 1;\n__syncthreads();\ng[t] = s[t ^ 33];\n"
    "__syncwarp();\ng[t] += s[t ^ 34];\n__syncthreads();\n}\ng[t ^ 1] = 9 + t;\n}";
  static int g[64];
  const int n = 22000;
  for (int first = 0; first < 3; first++)
    CHECK(execute(&(job){ .text = text, .block = { 64 }, .checks = FL_LANE_RACE, .shadow = shadow,
                          .value = { 0, &n, &first }, .memory = { MEM(g) } }));
  const char *late =
    "__global__ void k(int *g, int n) {\n__shared__ int s[64]; int t = threadIdx.x;\n"
    "for (int j = 0; j < n; j++) __syncwarp();\ns[t] = t;\n"
    "for (int j = 0; j < n; j++) if (t >= 32) __syncwarp();\ng[t] = s[t ^ 1];\n}";
  const int most = 70000;
  CHECK(!execute(&(job){ .text = late, .block = { 64 }, .checks = FL_LANE_RACE, .shadow = shadow,
                         .value = { 0, &most }, .memory = { MEM(g) } }));
  CHECK(report.kind == FL_LANE_RACED && report.at.thread == 0 && report.other.thread == 1 &&
        report.at.line == 6 && report.other.line == 4);
}

/* When many threads read an element, the race check remembers the last two readers, since one of
** them may be the thread that writes the element, which is no race. */
static void test_last_readers(void) {
  static const char *const index[] = { "0", "threadIdx.x" };
  static int g[64];
  for (int k = 0; k < 4; k++) {
    const char *at = index[k & 1];
    const int writer = 31 - k / 2, other = k & 1 ? writer - 8 : writer ^ 1;
    char text[300];
    snprintf(text, sizeof text, "__global__ void k(int *g) {\n__shared__ int s[8]; if (g[0]) return;"
             "\nint t = threadIdx.x + 8 * threadIdx.y, a = s[%s];\nif (t == %d) s[%s] = 1;\n"
             "g[t] = a;\n}", at, writer, at);
    CHECK(!execute(&(job){ .text = text, .block = { 8, 4 }, .checks = FL_LANE_RACE,
                           .shadow = shadow, .memory = { MEM(g) } }));
    CHECK(report.kind == FL_LANE_RACED && report.at.thread == writer && report.at.line == 4 &&
          report.other.thread == other && report.other.line == 3 && !report.other.write);
  }
}

/* After a launch that was stopped, or had no memory for its tables, the race check must still
** work. */
static void test_interrupted(void) {
  static kernel k;
  static int big[100000];
  atomic_int stop = 1;
  const char *text = "__global__ void k(int *g, int n) { for (int j = 0; j < n; j++) g[j] += 1; }";
  const int n = 100000;
  const job j = { .text = text, .block = { 1 }, .checks = FL_LANE_RACE, .shadow = shadow,
                  .stop = &stop, .value = { 0, &n }, .memory = { MEM(big) } };
  CHECK(!execute(&j) && report.kind == FL_LANE_STOPPED);
  fl_lane_shadow_end(shadow, 0);
  CHECK(kept.live_bytes == (int64_t)sizeof *shadow || kept.live_blocks == 1);
  for (int i = 0; i < 3; i++) {
    kept.fail_at = i < 2 ? kept.calls + 1 + i : 0;
    const int ok = execute(&(job){ .text = text, .block = { 1 }, .checks = FL_LANE_RACE,
                                   .shadow = shadow, .value = { 0, &n }, .memory = { MEM(big) } });
    CHECK(ok == (i == 2));
    if (i < 2) CHECK(!strcmp(message, "no memory for the race check of 'k'"));
    random_kernel(&k);
    kept.fail_at = 0;
    CHECK(one(&k, FL_LANE_RACE));
  }
}

/* Two shadows are independent. */
static void test_two(void) {
  static kernel k;
  fl_lane_shadow *other = fl_lane_shadow_new(&kept), *first = shadow;
  for (int i = 0; i < 100; i++) {
    random_kernel(&k);
    shadow = i % 3 ? first : other;
    CHECK(one(&k, FL_LANE_RACE | FL_LANE_BOUNDS));
  }
  shadow = first;
  fl_lane_shadow_free(other);
}

int main(int argc, char **argv) {
  shadow = fl_lane_shadow_new(&kept);
  test_random(argc > 1 ? atoi(argv[1]) : 3000);
  test_many_barriers();
  test_last_readers();
  test_interrupted();
  test_two();
  fl_lane_shadow_free(shadow);
  CHECK(memory.live_bytes == 0 && kept.live_bytes == 0);
  printf("kernel_race: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
