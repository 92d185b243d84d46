/*
** The list of a model in several files, "….safetensors.index.json": an object whose "weight_map"
** gives for each tensor the file that holds it. The other members (a total size) are not used.
*/
#include "io/io.h"
#include "io/json.h"
#include <stdlib.h>
#include <string.h>

static flame_status read_text(fl_parts *p) {
  enum { PART = 1 << 16 };
  flame_context *c = p->in.c;
  for (size_t got = PART; got > 0;) {
    if (p->text.n > FL_IO_MAX_HEADER)
      return fl_reader_fail(&p->in, "more than %d bytes are no list of safetensors files",
                            FL_IO_MAX_HEADER);
    if (!FL_RESERVE(&c->mem, &p->text, p->text.n + PART))
      return FL_FAIL(c, FLAME_NO_MEMORY, "load", "no host memory for a list of files");
    const flame_status e = fl_reader_some(&p->in, p->text.at + p->text.n, PART, &got);
    if (e != FLAME_OK) return e;
    p->text.n += (int64_t)got;
  }
  return FLAME_OK;
}

static int read_map(fl_json *j, fl_parts *p) {
  int first = 1;
  if (!fl_json_open(j, '{')) return 0;
  while (fl_json_more(j, '{', &first)) {
    fl_pair *f = FL_PUSH(&p->in.c->mem, &p->files);
    if (!f) {
      FL_FAIL(p->in.c, FLAME_NO_MEMORY, "load", "no host memory for a list of files");
      return fl_json_fail(j, "memory");
    }
    *f = (fl_pair){ { NULL, 0 }, { NULL, 0 } };
    if (!fl_json_key(j, &f->key) || !fl_json_string(j, &f->value)) return 0;
  }
  return j->wrong == NULL;
}

static int by_name(const void *p, const void *q) {
  const fl_span a = ((const fl_pair *)p)->key, b = ((const fl_pair *)q)->key;
  const size_t n = a.n < b.n ? a.n : b.n;
  const int k = n ? memcmp(a.at, b.at, n) : 0;
  return k ? k : (a.n > b.n) - (a.n < b.n);
}

static flame_status check(fl_parts *p, int maps) {
  if (maps != 1)
    return fl_reader_fail(&p->in, maps ? "has two weight_maps"
                                       : "is no list of safetensors files: it has no weight_map");
  if (p->files.n > 1) qsort(p->files.at, (size_t)p->files.n, sizeof *p->files.at, by_name);
  for (int64_t i = 1; i < p->files.n; i++) {
    const fl_span s = p->files.at[i].key;
    if (by_name(&p->files.at[i - 1], &p->files.at[i]) == 0)
      return fl_reader_fail(&p->in, "the tensor '%.*s' appears twice in the weight_map",
                            s.n < 60 ? (int)s.n : 60, s.at);
  }
  return FLAME_OK;
}

flame_status fl_parts_open(fl_parts *p, flame_context *c, const char *path) {
  static const char map[] = "weight_map";
  fl_json j;
  fl_span key;
  int first = 1, maps = 0, ok;
  memset(p, 0, sizeof *p);
  flame_status e = fl_reader_open(&p->in, c, "load", path);
  if (e == FLAME_OK) e = read_text(p);
  if (e != FLAME_OK) return e;
  fl_json_init(&j, p->text.at, (size_t)p->text.n);
  ok = fl_json_open(&j, '{');
  while (ok && fl_json_more(&j, '{', &first)) {
    ok = fl_json_key(&j, &key);
    if (!ok) break;
    const int found = key.n == sizeof map - 1 && memcmp(key.at, map, key.n) == 0;
    maps += found;
    ok = found ? read_map(&j, p) : fl_json_skip(&j);
  }
  if (fl_json_end(&j)) return check(p, maps);
  if (c->err.code != FLAME_OK) return c->err.code;
  return fl_reader_fail(&p->in, "is no list of safetensors files: %s, at offset %lld", j.wrong,
                        (long long)j.offset);
}

void fl_parts_close(fl_parts *p) {
  flame_context *c = p->in.c;
  if (!c) return;
  fl_reader_close(&p->in);
  FL_DROP(&c->mem, &p->text);
  FL_DROP(&c->mem, &p->files);
  memset(p, 0, sizeof *p);
  p->in.fd = -1;
}
