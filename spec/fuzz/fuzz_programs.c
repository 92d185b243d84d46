/*
** Damaged program files (docs/programs.md): those of spec/golden/programs with damage and a
** corrected length of the header, so that the reader looks at its text. A file is refused with an
** error that is kept, or gives a program that runs or fails with an error; nothing is left behind.
*/
#include "fuzz.h"
#include "engine/engine.h"
#include "tensor/dtype.h"
#include <fcntl.h>
#include <sys/mman.h>

static const char *const names[] = { "mlp", "batch", "cnn", "cache", "kernel", "kernels", "sgd",
                                     "adam", "random" };
enum { NAMES = sizeof names / sizeof *names };

static flame_context *context;
static fuzz_bytes valid[NAMES], work;
static int loads, runs, refusals, file;
static char path[64];

static const char *const words[] = {
  "\\u000a", " ",
  "%0", "%1", "%7", "x0", "x1", "s0", "s1", "c0", "c1", "k0", "=1", "=-1", "#0", "#1",
  "#x7ff0000000000000", "0", "1", "2", "-1", "8", "255", "0+1n", "3-2n", "5+1n/256", "1/2",
  "9223372036854775807", "-9223372036854775807", "f32", "f64", "i64", "bool", "f16", "u8",
  "\\u000aadd %0 %1", "\\u000aview 0 1 4 %0", "\\u000asum 1 %0", "\\u000acopy x0",
  "\\u000agather 0 0 c0 %1", "\\u000aindex 0 4 %0", "\\u000acast i64 x0", "\\u000awrite s0 %1",
  "\\u000aoutput _y %0", "\\u000ainput _x f32 4", "\\u000agraph 0", "\\u000agraph 3",
  "\\u000adraws 4", "\\u000auniform f32 0 #0 #1 4", "\\u000afill f32 #1 4",
  "\\u000aiota i64 =0 =1 4",
  "\\u000acat 0 %0 %1", "\\u000amatmul %0 %1", "\\u000asetslice 1 0 1 2 %0 %1",
  "\\u000ascatter 0 1 1 %0 %1 %2", "\\u000acall argsort _s i64 1 4 3 1 4 0 0 x0",
  "\\u000acall conv _c f32 4 1 1 2 2 0 0 x0 x0", "\\u000aform 0 5 1 0 1 4 0 x0", "{", "}", "n", NULL
};

static void make_valid(void) {
  char name[96];
  for (int i = 0; i < NAMES; i++) {
    snprintf(name, sizeof name, "spec/golden/programs/%s.safetensors", names[i]);
    FILE *f = fopen(name, "rb");
    valid[i].n = f ? fread(valid[i].at, 1, sizeof valid[i].at, f) : 0;
    if (f) fclose(f);
    if (!valid[i].n) fuzz_fault("a golden program is not there");
  }
}

static uint64_t length_of(const fuzz_bytes *b) {
  uint64_t n = 0;
  for (int i = 0; i < 8; i++) n |= (uint64_t)b->at[i] << 8 * i;
  return n;
}

/* Damages the header's text and corrects its length. */
static void damage_text(void) {
  const size_t before = work.n;
  const uint64_t n = length_of(&work);
  static fuzz_bytes data;
  data.n = work.n - 8 - (size_t)n;
  memcpy(data.at, work.at + 8 + n, data.n);
  work.n = 8 + (size_t)n;
  const unsigned many = 1 + fuzz_draw(3);
  for (unsigned i = 0; i < many; i++) fuzz_damage(&work, 8 + fuzz_draw(40), words);
  const uint64_t now = work.n - 8;
  for (int i = 0; i < 8; i++) work.at[i] = (unsigned char)(now >> 8 * i);
  fuzz_replace(&work, work.n, 0, data.at, data.n);
  (void)before;
}

static flame_tensor *input(flame_program *p, int i) {
  flame_dtype t;
  int64_t size[8];
  const int rank = flame_program_input(p, i, NULL, &t, size);
  for (int a = 0; a < rank; a++) if (size[a] < 0) size[a] = fuzz_draw(5);
  return flame_full(context, t, rank, size, fuzz_draw(3));
}

static void run(flame_program *p) {
  enum { MOST = 16 };
  flame_tensor *in[MOST], *out[MOST];
  int nin = 0, nout = 0;
  while (nin < MOST && flame_program_input(p, nin, NULL, NULL, NULL) >= 0) nin++;
  while (nout < MOST && flame_program_output(p, nout, NULL, NULL, NULL) >= 0) nout++;
  for (int i = 0; i < nin; i++) in[i] = input(p, i);
  const flame_status e = flame_program_run(p, nin, in, nout, out);
  if (e == FLAME_OK && flame_eval(context) == FLAME_OK) runs++;
  if (e != FLAME_OK && flame_error_code(context) == FLAME_OK) fuzz_fault("no result and no error");
  for (int i = 0; i < nin; i++) flame_free(in[i]);
  for (int i = 0; i < nout; i++) flame_free(out[i]);
}

static void round_of_programs(void) {
  work = valid[fuzz_draw(NAMES)];
  if (fuzz_draw(8)) damage_text();
  if (fuzz_draw(8) == 0) fuzz_damage(&work, 0, words);
  if (ftruncate(file, 0) || pwrite(file, work.at, work.n, 0) != (ssize_t)work.n) exit(2);
  flame_clear_error(context);
  flame_limit_restart(context);
  flame_program *p = flame_program_load(context, path);
  if (!p) {
    refusals++;
    if (flame_error_code(context) == FLAME_OK) fuzz_fault("no program and no error");
  } else {
    loads++;
    for (unsigned i = 0; i < 2; i++) run(p);
  }
  flame_program_free(p);
  flame_eval(context);
}

int main(int argc, char **argv) {
  context = flame_open(FLAME_OPTIONS(.device = "cpu", .threads = 1,
      .limit = { [FLAME_HOST_BYTES] = 256 << 20, [FLAME_CALL_NS] = 1000000000,
                 [FLAME_KERNEL_STEPS] = 1000000 }));
  file = memfd_create("fuzz", 0);
  if (!context || file < 0) return 2;
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  make_valid();
  fuzz_budget = 4;
  const int result = fuzz_main(argc, argv, &context->mem, round_of_programs, 1);
  printf("%s: %d loads, %d runs, %d refusals\n", fuzz_name, loads, runs, refusals);
  flame_close(context);
  close(file);
  return result;
}
