/*
** Leaves out the inline functions at file scope that nothing names, templates among them, and the
** types and operators of the fake's own headers. Each text has all functions of tensor/math.h and
** of fake_words.hh, and g++ would parse them for longer than it compiles the kernel. A function
** stays if its name is a word anywhere else in what stays, so that one too many may stay but none
** that is called can be missing; one of the headers only if the class of its first parameter stays
** as well.
*/
typedef struct fake_item {
  const char *at, *end, *name;    /* "inline … name(…) {…}", "struct name {…};" … */
  size_t n;
  const char *of;                 /* a function's first parameter, if that is looked at; or NULL */
  int named, kept, is_type;
  struct fake_item *same;         /* the next one in a chain of 'head' */
} fake_item;

enum { FAKE_CHAINS = 1024 };
typedef struct fake_items {
  fake_item *at, *head[FAKE_CHAINS];
  size_t n, room;
} fake_items;

static unsigned fake_chain(const char *s, size_t n) {
  unsigned h = 2166136261u;
  for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)s[i]) * 16777619u;
  return h % FAKE_CHAINS;
}

/* Names an item at 'at' by the word that ends at 'end', after 'from'; 0 if it is none. */
static int fake_name(fake_item *f, const char *at, const char *from, const char *end) {
  while (end > from && isspace((unsigned char)end[-1])) end--;
  f->name = end;
  while (f->name > from && fake_word((unsigned char)f->name[-1])) f->name--;
  f->n = (size_t)(end - f->name);
  f->at = at;
  return f->n && !fake_at_word(f->name, "__attribute__") && !fake_at_word(f->name, "alignas");
}

/* Skips "template <…>", if it is at s. */
static const char *fake_after_template(const char *s) {
  if (!fake_at_word(s, "template")) return s;
  int depth = 0;
  s = fake_blank(fake_token(s));
  do {
    depth += (*s == '<') - (*s == '>');
    s = fake_token(s);
  } while (*s && depth);
  return fake_blank(s);
}

/* The first word of the first parameter, "const" left out; open: the '(' before it. */
static const char *fake_first_type(const char *open) {
  const char *type = fake_blank(open + 1);
  return fake_at_word(type, "const") ? fake_blank(fake_token(type)) : type;
}

/* An operator is as good as named where the type of its first parameter is. */
static void fake_name_operator(fake_item *f, const char *open) {
  f->name = fake_first_type(open);
  f->n = (size_t)(fake_token(f->name) - f->name);
}

/* The function that is defined at s, where a statement begins; 0 if none is, or not a plain one.
** given: it is of a header of the fake, where operators and first parameters are looked at. */
static int fake_inline_at(const char *s, fake_item *f, int given) {
  const char *word = fake_after_template(s);
  if (fake_at_word(word, "static")) word = fake_blank(fake_token(word));
  if (!fake_at_word(word, "inline") && !fake_at_word(word, "constexpr")) return 0;
  const char *open = fake_until(word, "(;{"), *t = word;
  while (t < open && *t != '=' && !fake_at_word(t, "operator")) t = fake_token(t);
  if (*open != '(' || (t < open && (!given || *t == '='))) return 0;
  if (t >= open && !fake_name(f, s, word, open)) return 0;
  if (t < open) fake_name_operator(f, open);
  else if (given) f->of = fake_first_type(open);
  const char *close = fake_until(open + 1, ")"), *body = *close ? fake_until(close + 1, "{;=") : "";
  if (*body != '{') return 0;
  const char *last = fake_until(body + 1, "}");
  f->at = s;
  f->end = *last ? last + 1 : last;
  return 1;
}

/* The struct, template of a struct, function that is only declared, type's other name or table of
** a header of the fake at s. */
static int fake_type_at(const char *s, fake_item *f) {
  const char *word = fake_after_template(s), *end;
  if (fake_at_word(word, "struct")) {
    word = fake_blank(fake_token(word));
    if (fake_at_word(word, "alignas"))
      word = fake_blank(fake_until(fake_until(word, "(") + 1, ")") + 1);
    end = fake_until(word, "{;");
    if (*end != '{' || !fake_name(f, s, word, fake_token(word))) return 0;
  } else if (fake_at_word(word, "extern") && *fake_blank(fake_token(word)) == '"') {
    end = fake_until(word, "(;{");
    if (*end != '(' || !fake_name(f, s, word, end)) return 0;
  } else if (fake_at_word(word, "typedef")) {
    end = fake_until(word, ";({[");
    if (*end != ';' || !fake_name(f, s, word, end)) return 0;
  } else {
    if (!fake_at_word(word, "static") || !fake_at_word(fake_blank(fake_token(word)), "constexpr"))
      return 0;
    end = fake_until(word, "[;{=(");
    if (*end != '[' || !fake_name(f, s, word, end)) return 0;
  }
  f->is_type = *end == '{';
  end = fake_until(end, ";");
  f->end = *end ? end + 1 : end;
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
  const char *given = strstr(text, "\"<command-line>\" 2\n");       /* our headers' end */
  if (!given) given = text;
  for (const char *s = fake_blank(text); *s; s = fake_blank(s)) {
    fake_item f = { 0 };
    if (*s == '#') {
      s += strcspn(s, "\n");
      continue;
    }
    if (begins && !depth &&
        (fake_inline_at(s, &f, s < given) || (s < given && fake_type_at(s, &f)))) {
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

/* Notes what is named from s to 'end'. */
static void fake_note_names(fake_items *all, const char *s, const char *end) {
  while (s < end) {
    const char *next = fake_token(s);
    if (fake_word((unsigned char)*s))
      for (fake_item *f = all->head[fake_chain(s, (size_t)(next - s))]; f; f = f->same)
        if (f->n == (size_t)(next - s) && memcmp(f->name, s, f->n) == 0) f->named = 1;
    s = next;
  }
}

/* Whether the first parameter of a named function of the fake's own headers is of a class that
** nothing that stays names: no argument can be of it. */
static int fake_foreign(const fake_items *all, const fake_item *f) {
  if (!f->of || !fake_word((unsigned char)*f->of)) return 0;
  const size_t n = (size_t)(fake_token(f->of) - f->of);
  for (const fake_item *t = all->head[fake_chain(f->of, n)]; t; t = t->same)
    if (t->n == n && t->is_type && memcmp(t->name, f->of, n) == 0) return !t->named;
  return 0;
}

/* Keeps what is named, until nothing more is. */
static void fake_keep(fake_items *all) {
  for (int more = 1; more;) {
    more = 0;
    for (size_t i = 0; i < all->n; i++) {
      fake_item *f = &all->at[i];
      if (!f->named || f->kept || fake_foreign(all, f)) continue;
      f->kept = more = 1;
      fake_note_names(all, f->at, f->end);
    }
  }
}

/* Frees the text and returns what stays of it. */
static char *fake_prune(char *text) {
  fake_items *all = calloc(1, sizeof *all);
  fake_out o = { .at = NULL };
  const char *at = text, *end = text + strlen(text);
  if (!all) abort();
  fake_find_items(all, text);
  for (size_t i = 0; i < all->n; at = all->at[i++].end) fake_note_names(all, at, all->at[i].at);
  fake_note_names(all, at, end);
  fake_keep(all);
  at = text;
  for (size_t i = 0; i < all->n; at = all->at[i++].end)
    fake_add_text(&o, at, (size_t)((all->at[i].kept ? all->at[i].end : all->at[i].at) - at));
  fake_add_text(&o, at, (size_t)(end - at));
  free(all->at);
  free(all);
  free(text);
  return o.at;
}
