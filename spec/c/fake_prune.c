/*
** Leaves out the inline functions at file scope that nothing names. Each text has all functions of
** tensor/math.h and of fake_words.hh, and g++ would parse them for longer than it compiles the
** kernel. A function stays if its name is a word anywhere else in what stays, so that one too many
** may stay but none that is called can be missing.
*/
typedef struct fake_item {
  const char *at, *end, *name;    /* "inline … name(…) {…}" */
  size_t n;
  int kept;
  struct fake_item *same, *next;  /* in one chain of 'head'; to be read */
} fake_item;

enum { FAKE_CHAINS = 1024 };
typedef struct fake_items {
  fake_item *at, *head[FAKE_CHAINS], *read;
  size_t n, room;
} fake_items;

static unsigned fake_chain(const char *s, size_t n) {
  unsigned h = 2166136261u;
  for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)s[i]) * 16777619u;
  return h % FAKE_CHAINS;
}

/* The function that is defined at s, where a statement begins; 0 if none is, or not a plain one. */
static int fake_inline_at(const char *s, fake_item *f) {
  const char *word = fake_at_word(s, "static") ? fake_blank(fake_token(s)) : s;
  if (!fake_at_word(word, "inline")) return 0;
  const char *open = fake_until(word, "(;{"), *e = open;
  if (*open != '(') return 0;
  while (e > word && isspace((unsigned char)e[-1])) e--;
  f->name = e;
  while (f->name > word && fake_word((unsigned char)f->name[-1])) f->name--;
  f->n = (size_t)(e - f->name);
  if (!f->n || fake_at_word(f->name, "__attribute__") || fake_at_word(f->name, "alignas")) return 0;
  for (const char *t = word; t < e; t = fake_token(t))
    if (fake_at_word(t, "operator")) return 0;
  const char *close = fake_until(open + 1, ")"), *body = *close ? fake_until(close + 1, "{;=") : "";
  if (*body != '{') return 0;
  const char *last = fake_until(body + 1, "}");
  f->at = s;
  f->end = *last ? last + 1 : last;
  return 1;
}

static void fake_add_item(fake_items *all, const fake_item *f) {
  if (all->n == all->room) {
    all->room = all->room * 2 + 256;
    all->at = realloc(all->at, all->room * sizeof *all->at);
    if (!all->at) abort();
  }
  all->at[all->n++] = *f;
}

static void fake_find_items(fake_items *all, const char *text) {
  int depth = 0, begins = 1;        /* a statement may begin at s */
  for (const char *s = fake_blank(text); *s; s = fake_blank(s)) {
    fake_item f = { 0 };
    if (*s == '#') {
      s += strcspn(s, "\n");
      continue;
    }
    if (begins && !depth && fake_inline_at(s, &f)) {
      fake_add_item(all, &f);
      s = f.end;
      continue;
    }
    depth += (*s == '{') - (*s == '}');
    begins = *s == ';' || *s == '}';
    s = fake_token(s);
  }
  for (size_t i = 0; i < all->n; i++) {
    fake_item *f = &all->at[i], **head = &all->head[fake_chain(f->name, f->n)];
    f->same = *head;
    *head = f;
  }
}

/* Keeps the functions that are named from s to 'end'. */
static void fake_keep_named(fake_items *all, const char *s, const char *end) {
  while (s < end) {
    const char *next = fake_token(s);
    if (fake_word((unsigned char)*s))
      for (fake_item *f = all->head[fake_chain(s, (size_t)(next - s))]; f; f = f->same)
        if (!f->kept && f->n == (size_t)(next - s) && memcmp(f->name, s, f->n) == 0) {
          f->kept = 1;
          f->next = all->read;
          all->read = f;
        }
    s = next;
  }
}

/* Frees the text and returns what stays of it. */
static char *fake_prune(char *text) {
  fake_items *all = calloc(1, sizeof *all);
  fake_out o = { NULL, 0, 0, 0 };
  const char *at = text, *end = text + strlen(text);
  if (!all) abort();
  fake_find_items(all, text);
  for (size_t i = 0; i < all->n; at = all->at[i++].end) fake_keep_named(all, at, all->at[i].at);
  fake_keep_named(all, at, end);
  for (fake_item *f; (f = all->read) != NULL;) {
    all->read = f->next;
    fake_keep_named(all, f->at, f->end);
  }
  at = text;
  for (size_t i = 0; i < all->n; at = all->at[i++].end)
    fake_add_text(&o, at, (size_t)((all->at[i].kept ? all->at[i].end : all->at[i].at) - at));
  fake_add_text(&o, at, (size_t)(end - at));
  free(all->at);
  free(all);
  free(text);
  return o.at;
}
