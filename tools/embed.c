/*
** embed: writes files as C arrays. Built and run by the build itself, so that no other tool is
** needed on the machine.
**
**   embed OUT text   SYMBOL FILE…       const char SYMBOL[] with the C text of the files and a NUL;
**                       files that they include as "tensor/…" must be among them, so these lines
**                       are left out
**   embed OUT table  SYMBOL ROOT FILE…  struct fl_embedded SYMBOL[], names relative to ROOT
**                       both without comments, indentation and empty lines; with zlib the files of
**                       a table are deflated, except those with which many kernels start
**   embed OUT module SYMBOL ROOT FILE…  Lua texts, with module names: a/b.lua is "a.b"; without
**                                       comments (lines keep their numbers), except that those in
**                                       the folder meta which begin with --- stay, for help; with
**                                       zlib deflated, with a dictionary of their common pieces,
**                                       which is the last entry, named ""
**   embed OUT code   SYMBOL ROOT FILE…  like module, but compiled by the Lua that is linked into
**                                       this tool: for programs with the same Lua only
**
** OUT is written under a temporary name and renamed. A FILE that is missing in the form
** "text" gives an empty text.
*/
#include <lauxlib.h>
#include <lua.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef FL_HAVE_ZLIB
#include <zlib.h>
#endif

typedef struct bytes { unsigned char *p; size_t n, room; } bytes;

static void die(const char *what, const char *name) {
  fprintf(stderr, "embed: %s: %s\n", what, name);
  exit(1);
}

static void append(bytes *b, const void *p, size_t n) {
  if (n == 0) return;                            /* p may be NULL, for an empty file */
  if (b->n + n > b->room) {
    b->room = 2 * (b->n + n);
    b->p = realloc(b->p, b->room);
    if (!b->p) die("no memory", "embed");
  }
  if (n) memcpy(b->p + b->n, p, n);
  b->n += n;
}

static bytes read_file(const char *path, int may_miss) {
  bytes b = { 0 };
  char part[4096];
  FILE *in = fopen(path, "rb");
  if (!in && !may_miss) die("cannot read", path);
  append(&b, "", 0);
  for (size_t n; in && (n = fread(part, 1, sizeof part, in)) > 0;) append(&b, part, n);
  if (in && ferror(in)) die("cannot read", path);
  if (in) fclose(in);
  return b;
}

/* The position after the C literal or comment that begins at s; s if none begins there. */
static const char *skipped(const char *s, const char *end, int *is_comment) {
  const char *p = s + 1;
  *is_comment = *s == '/' && p < end && (*p == '*' || *p == '/');
  if (*is_comment) {
    const char *stop = *p == '/' ? "\n" : "*/";
    p = strstr(p + (*p == '*'), stop);
    return !p ? end : *stop == '*' ? p + 2 : p;
  }
  if (*s != '"' && *s != '\'') return s;
  while (p < end && *p != *s) p += *p == '\\' ? 2 : 1;
  return p < end ? p + 1 : end;
}

/* C text without comments, indentation, spaces at ends of lines and empty lines. */
static bytes bare(bytes text) {
  bytes b = { 0 };
  append(&text, "", 1);                          /* strstr stops at it */
  const char *s = (char *)text.p, *end = s + text.n - 1;
  while (s < end) {
    int is_comment;
    const char *next = skipped(s, end, &is_comment);
    const int at_start = b.n == 0 || b.p[b.n - 1] == '\n';
    if (is_comment) append(&b, " ", !at_start);
    else if (next > s) append(&b, s, (size_t)(next - s));
    else if (at_start && !strncmp(s, "#include \"tensor/", 17)) next = s + strcspn(s, "\n");
    else if (*s == '\n') {
      while (b.n && b.p[b.n - 1] == ' ') b.n--;
      append(&b, s, b.n && b.p[b.n - 1] != '\n');
    } else append(&b, s, !at_start || *s != ' ');
    s = next > s ? next : s + 1;
  }
  free(text.p);
  return b;
}

/* The position after the long bracket [[ … ]] or [=[ … ]=] that begins at s; s if none does. */
static const char *after_bracket(const char *s, const char *end) {
  const size_t level = *s == '[' ? strspn(s + 1, "=") : 0;
  if (*s != '[' || s[level + 1] != '[') return s;
  for (const char *p = s + level + 2; (p = strchr(p, ']')) != NULL; p++)
    if (strspn(p + 1, "=") == level && p[level + 1] == ']') return p + level + 2;
  return end;
}

/* The position after the Lua comment or string that begins at s; s if none begins there. */
static const char *after_lua(const char *s, const char *end, int *is_comment) {
  *is_comment = s[0] == '-' && s[1] == '-';
  if (*is_comment) {
    const char *stop = after_bracket(s + 2, end);
    return stop > s + 2 ? stop : s + strcspn(s, "\n");
  }
  if (*s != '"' && *s != '\'') return after_bracket(s, end);
  const char *p = s + 1;
  while (p < end && *p != *s) p += *p == '\\' ? 2 : 1;
  return p < end ? p + 1 : end;
}

/* Lua text without its comments, with as many lines. 'documented': those that begin with --- stay,
** with the lines of comment below them. */
static bytes uncommented(bytes text, int documented) {
  bytes b = { 0 };
  int begins = 1, stays = 0, above = 0;    /* begins: no code in this line yet; stays: this line has
                                           ** a comment that is kept; above: the one above had */
  append(&text, "", 1);                          /* a NUL, at which searches stop */
  const char *s = (char *)text.p, *end = s + text.n - 1;
  while (s < end) {
    int is_comment;
    const char *next = after_lua(s, end, &is_comment);
    if (is_comment && !(documented && (s[2] == '-' || (begins && above)))) {
      while (b.n && (b.p[b.n - 1] == ' ' || b.p[b.n - 1] == '\t')) b.n--;
      for (; s < next; s++) append(&b, s, *s == '\n');
      continue;
    }
    if (is_comment) stays = begins;
    else if (*s == '\n') begins = 1, above = stays, stays = 0;
    else if (*s != ' ' && *s != '\t') begins = 0;
    if (next == s) next = s + 1;
    append(&b, s, (size_t)(next - s));
    s = next;
  }
  free(text.p);
  return b;
}

/* Returns text deflated, with *size its bytes before; without zlib the text unchanged, *size 0. */
static bytes deflated(bytes text, bytes dictionary, size_t *size) {
  *size = 0;
#ifdef FL_HAVE_ZLIB
  z_stream z = { 0 };
  int status = deflateInit2(&z, 9, Z_DEFLATED, 15, 9, Z_DEFAULT_STRATEGY);
  if (status == Z_OK && dictionary.n)
    status = deflateSetDictionary(&z, dictionary.p, (uInt)dictionary.n);
  bytes b = { 0 };
  b.room = deflateBound(&z, (uLong)text.n);
  b.p = malloc(b.room);
  z.next_in = text.p, z.avail_in = (uInt)text.n;
  z.next_out = b.p, z.avail_out = (uInt)b.room;
  if (status != Z_OK || !b.p || deflate(&z, Z_FINISH) != Z_STREAM_END) die("deflate", "");
  b.n = z.total_out;
  deflateEnd(&z);
  *size = text.n;
  free(text.p);
  return b;
#else
  (void)dictionary;
  return text;
#endif
}

/* A dictionary for deflate, made of pieces of the texts (PIECE bytes) that occur in many of them. A
** piece's score is the sum, over its grams (GRAM bytes each), of the number of texts that contain
** the gram; a piece more than half of whose score came from grams of better pieces is left out. The
** best come last, where references to them are shortest. */
enum { GRAM = 8, PIECE = 48, DICTIONARY = 32 << 10, GRAMS = 1 << 16 };
typedef struct piece { const unsigned char *p; long score; size_t order; } piece;

static unsigned gram(const unsigned char *p) {
  unsigned long long h = 0;
  for (int i = 0; i < GRAM; i++) h = (h ^ p[i]) * 0x100000001b3u;
  return (unsigned)(h >> 24) % GRAMS;
}

static long score(const unsigned char *p, const int *texts) {
  long sum = 0;
  for (int i = 0; i + GRAM <= PIECE; i++) sum += texts[gram(p + i)];
  return sum;
}

static int by_score(const void *a, const void *b) {
  const piece *x = a, *y = b;
  if (x->score != y->score) return x->score < y->score ? 1 : -1;
  return x->order < y->order ? -1 : x->order > y->order;
}

/* Counts in texts[] how many of the texts contain each gram (by hash); returns how many pieces
** there are at most. */
static size_t count_grams(const bytes *text, int count, int *texts) {
  size_t pieces = 0;
  int *last = calloc(GRAMS, sizeof *last);
  if (!last) die("no memory", "grams");
  for (int t = 0; t < count; t++) {
    for (size_t i = 0; i + GRAM <= text[t].n; i++) {
      const unsigned g = gram(text[t].p + i);
      if (last[g] != t + 1) texts[g]++;
      last[g] = t + 1;
    }
    pieces += 2 * text[t].n / PIECE + 1;
  }
  free(last);
  return pieces;
}

static bytes dictionary_of(const bytes *text, int count) {
  bytes d = { malloc(DICTIONARY), 0, DICTIONARY };
  int *texts = calloc(GRAMS, sizeof *texts);
  piece *list = texts ? calloc(count_grams(text, count, texts), sizeof *list) : NULL;
  if (!d.p || !list) die("no memory", "dictionary");
  size_t n = 0, at = DICTIONARY;
  for (int t = 0; t < count; t++)
    for (size_t i = 0; i + PIECE <= text[t].n; i += PIECE / 2, n++)
      list[n] = (piece){ text[t].p + i, score(text[t].p + i, texts), n };
  qsort(list, n, sizeof *list, by_score);
  for (size_t i = 0; i < n && at >= PIECE; i++) {
    if (2 * score(list[i].p, texts) < list[i].score) continue;
    memcpy(d.p + (at -= PIECE), list[i].p, PIECE);
    for (int k = 0; k + GRAM <= PIECE; k++) texts[gram(list[i].p + k)] = 0;
  }
  d.n = DICTIONARY - at;
  memmove(d.p, d.p + at, d.n);
  free(texts);
  free(list);
  return d;
}

static int writer(lua_State *L, const void *p, size_t n, void *b) {
  (void)L;
  append(b, p, n);
  return 0;
}

/* The bytecode of a Lua text, with debug information; the chunk's name is "=" and 'name'. */
static bytes compiled(bytes text, const char *name) {
  char chunk[256];
  bytes b = { 0 };
  lua_State *L = luaL_newstate();
  snprintf(chunk, sizeof chunk, "=%s", name);
  if (!L || luaL_loadbufferx(L, (char *)text.p, text.n, chunk, "t") != LUA_OK)
    die("cannot compile", L ? lua_tostring(L, -1) : name);
  lua_dump(L, writer, &b, 0);
  lua_close(L);
  free(text.p);
  return b;
}

/* Writes bytes as decimal numbers, since ISO C limits the length of string literals. */
static void put_bytes(FILE *out, bytes b) {
  int column = 0;
  for (size_t i = 0; i < b.n; i++) {
    column += fprintf(out, "%d,", b.p[i] > 127 ? b.p[i] - 256 : b.p[i]);
    if (column > 84) column = (fputc('\n', out), 0);
  }
  fputs("0\n};\n", out);
  free(b.p);
}

static const char *relative(const char *root, const char *path) {
  const size_t n = strlen(root);
  if (strncmp(root, path, n) != 0 || path[n] != '/') die("not under the root", path);
  return path + n + 1;
}

/* Writes an entry's name: the relative path; for a module, without ".lua" and with dots for '/'. */
static void put_name(FILE *out, const char *name, int module) {
  const size_t n = strlen(name);
  const size_t end = module && n > 4 && !strcmp(name + n - 4, ".lua") ? n - 4 : n;
  for (size_t i = 0; i < end; i++) fputc(module && name[i] == '/' ? '.' : name[i], out);
}

static int starts_many(const char *name) {
  return !strcmp(name, "prelude.cu") || !strcmp(name, "steps.cu");
}

/* Writes b as the array text_<i>, deflated if 'smaller' is set. Then b->n is the array's size,
** b->room the size before deflation (0: it was not deflated). */
static void put_text(FILE *out, int i, bytes *b, int smaller, bytes dictionary) {
  size_t size = 0;
  if (smaller) *b = deflated(*b, dictionary, &size);
  fprintf(out, "static const char text_%d[] = {\n", i);
  put_bytes(out, *b);
  *b = (bytes){ NULL, b->n, size };
}

static void put_table(FILE *out, const char *symbol, const char *root, const char *form,
                      int count, char **file) {
  const int module = strcmp(form, "table") != 0;
  bytes *text = calloc((size_t)count + 1, sizeof *text), dictionary = { 0 };
  if (!text) die("no memory", symbol);
  for (int i = 0; i < count; i++) {
    text[i] = read_file(file[i], 0);
    if (!strcmp(form, "code")) text[i] = compiled(text[i], relative(root, file[i]));
    if (!strcmp(form, "module"))
      text[i] = uncommented(text[i], strncmp(relative(root, file[i]), "meta/", 5) == 0);
    if (!module) text[i] = bare(text[i]);
  }
  if (module) dictionary = dictionary_of(text, count);
  for (int i = 0; i < count; i++)
    put_text(out, i, &text[i], module || !starts_many(relative(root, file[i])), dictionary);
  if (module) put_text(out, count, &dictionary, 1, (bytes){ 0 });
  fprintf(out, "const struct fl_embedded %s[] = {\n", symbol);
  for (int i = 0; i < count; i++) {
    fputs("  { \"", out);
    put_name(out, relative(root, file[i]), module);
    fprintf(out, "\", text_%d, %zuu, %zuu },\n", i, text[i].n, text[i].room);
  }
  if (module)
    fprintf(out, "  { \"\", text_%d, %zuu, %zuu },\n", count, dictionary.n, dictionary.room);
  fputs("  { 0, 0, 0, 0 }\n};\n", out);
  free(text);
}

int main(int argc, char **argv) {
  if (argc < 5) die("usage", "embed OUT text|table|module|code SYMBOL PATH…");
  const char *path = argv[1], *form = argv[2], *symbol = argv[3];
  char temporary[4096];
  if (snprintf(temporary, sizeof temporary, "%s.new", path) >= (int)sizeof temporary) {
    die("name too long", path);
  }
  FILE *out = fopen(temporary, "wb");
  if (!out) die("cannot write", temporary);
  fputs("/* Generated by tools/embed.c: do not edit. */\n", out);
  if (!strcmp(form, "text")) {
    bytes all = { 0 };
    for (int i = 4; i < argc; i++) {
      const bytes part = read_file(argv[i], 1);
      append(&all, part.p, part.n);
      free(part.p);
    }
    fprintf(out, "extern const char %s[];\nconst char %s[] = {\n", symbol, symbol);
    put_bytes(out, bare(all));
  } else {
    fprintf(out, "#include \"cuda/text/embedded.h\"\nextern const struct fl_embedded %s[];\n",
            symbol);
    put_table(out, symbol, argv[4], form, argc - 5, argv + 5);
  }
  if (ferror(out) || fclose(out) != 0) die("cannot write", temporary);
  if (rename(temporary, path) != 0) die("cannot rename to", path);
  return 0;
}
