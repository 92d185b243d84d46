/*
** What keys do to the entry (the text that is typed). Positions are bytes; the cursor is before a
** character with its combining marks, never inside.
*/
#include "base/utf8.h"
#include "cli/edit.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { CTRL = 0x1f };                             /* CTRL & 'A' is Ctrl-A */

/* Replaces 'out' bytes at 'at' by the n bytes of p, and keeps a NUL after the text. 0: no
** memory. */
static int splice(fl_edit *e, fl_bytes *b, int64_t at, int64_t out, const char *p, int64_t n) {
  if (!FL_RESERVE(&e->mem, b, b->n - out + n + 1)) return 0;
  memmove(b->at + at + n, b->at + at + out, (size_t)(b->n - at - out));
  if (n > 0) memcpy(b->at + at, p, (size_t)n);
  b->n += n - out;
  b->at[b->n] = '\0';
  return 1;
}

static int set(fl_edit *e, fl_bytes *b, const char *p, int64_t n) {
  return splice(e, b, 0, b->n, p, n);
}

int fl_edit_insert(fl_edit *e, const char *p, int64_t n) {
  if (!splice(e, &e->text, e->cursor, 0, p, n)) return 0;
  e->cursor += n;
  return 1;
}

void fl_edit_complete(fl_edit *e, const char *before, int64_t n, const char *list) {
  if (list && *list) {
    fl_draw(e);
    fl_draw_leave(e, "");
    fl_terminal_write(list, (int64_t)strlen(list));
    fl_terminal_write("\n", 1);
  }
  if (splice(e, &e->text, 0, e->cursor, before, n)) e->cursor = n;
}

/* ---- places ---------------------------------------------------------------------------------- */
static int64_t back(const fl_edit *e, int64_t i) {
  int length;
  if (i == 0) return 0;
  do {
    do i--; while (i > 0 && (e->text.at[i] & 0xc0) == 0x80);
  } while (i > 0 && fl_char_width(fl_utf8(e->text.at + i, e->text.n - i, &length)) == 0);
  return i;
}

static int64_t forth(const fl_edit *e, int64_t i) {
  int length;
  if (i >= e->text.n) return e->text.n;
  (void)fl_utf8(e->text.at + i, e->text.n - i, &length);
  i += length;
  while (i < e->text.n && !fl_char_width(fl_utf8(e->text.at + i, e->text.n - i, &length)))
    i += length;
  return i;
}

static int is_word(char c) {
  const char lower = c | 0x20;
  return (c >= '0' && c <= '9') || (lower >= 'a' && lower <= 'z') || c == '_' || (c & 0x80);
}

static int64_t word_back(const fl_edit *e) {
  int64_t i = e->cursor;
  while (i > 0 && !is_word(e->text.at[i - 1])) i--;
  while (i > 0 && is_word(e->text.at[i - 1])) i--;
  return i;
}

static int64_t word_forth(const fl_edit *e) {
  int64_t i = e->cursor;
  while (i < e->text.n && !is_word(e->text.at[i])) i++;
  while (i < e->text.n && is_word(e->text.at[i])) i++;
  return i;
}

static int64_t line_start(const fl_edit *e, int64_t i) {
  while (i > 0 && e->text.at[i - 1] != '\n') i--;
  return i;
}

static int64_t line_end(const fl_edit *e, int64_t i) {
  while (i < e->text.n && e->text.at[i] != '\n') i++;
  return i;
}

/* ---- changes --------------------------------------------------------------------------------- */
static void erase(fl_edit *e, int64_t from, int64_t to, int keep) {
  if (from >= to) return;
  if (keep) set(e, &e->killed, e->text.at + from, to - from);
  if (splice(e, &e->text, from, to - from, "", 0)) e->cursor = from;
}

/* Inserts what is pasted, up to the terminal's end mark. No character in it acts as a key; control
** characters but line breaks and tabs are dropped, and line breaks at its end. */
static int paste(fl_edit *e) {
  char bytes[4];
  int key;
  while ((key = fl_terminal_key()) != KEY_PASTED && key != KEY_GONE) {
    const int c = key == '\r' ? '\n' : key;
    if ((c < 32 && c != '\n' && c != '\t') || c == 0x7f || c >= KEY_META) continue;
    fl_edit_insert(e, bytes, fl_utf8_put(bytes, (uint32_t)c));
  }
  while (e->cursor > 0 && e->text.at[e->cursor - 1] == '\n') erase(e, e->cursor - 1, e->cursor, 0);
  return key;
}

static void show_past(fl_edit *e, int64_t at) {
  const fl_history *h = &e->history;
  if (at < 0 || at > h->entries.n) return;
  if (e->at == h->entries.n && !set(e, &e->typed, e->text.at, e->text.n)) return;
  const char *text = at == h->entries.n ? e->typed.at : h->entries.at[at];
  if (!set(e, &e->text, text, (int64_t)strlen(text))) return;
  e->at = at;
  e->cursor = e->text.n;
}

/* Moves to the line above or below in the entry; from the first or last line to the previous or
** next entry of the history. */
static void vertical(fl_edit *e, int down) {
  const int64_t start = line_start(e, e->cursor), end = line_end(e, e->cursor);
  if (down ? end == e->text.n : start == 0) {
    show_past(e, e->at + (down ? 1 : -1));
    return;
  }
  int64_t left = fl_text_width(e->text.at + start, e->cursor - start);
  int64_t i = down ? end + 1 : line_start(e, start - 1);
  const int64_t stop = line_end(e, i);
  while (i < stop && left > 0) {
    const int64_t next = forth(e, i);
    left -= fl_text_width(e->text.at + i, next - i);
    i = next;
  }
  e->cursor = i;
}

/* ---- searching (Ctrl-R) ---------------------------------------------------------------------- */
static void search_from(fl_edit *e, int64_t from) {
  const int64_t found = fl_history_find(&e->history, from, e->query.at, e->query.n);
  if (found >= 0) show_past(e, found);
}

/* Handles a key while searching. 1: done. 0: the caller handles the key too; the search has ended,
** unless the key is KEY_RESIZE. Ctrl-G and Ctrl-C end the search and are done (1). */
static int search_key(fl_edit *e, int key) {
  char bytes[4];
  const int64_t n = e->history.entries.n;
  if (key == (CTRL & 'R')) {
    search_from(e, e->at);
  } else if (key == 0x7f || key == (CTRL & 'H')) {
    int64_t k = e->query.n;
    do k--; while (k > 0 && (e->query.at[k] & 0xc0) == 0x80);
    if (k >= 0) splice(e, &e->query, k, e->query.n - k, "", 0);
    search_from(e, n);
  } else if (key >= 32 && key < KEY_META) {
    if (splice(e, &e->query, e->query.n, 0, bytes, fl_utf8_put(bytes, (uint32_t)key)))
      search_from(e, e->at < n ? e->at + 1 : n);
  } else if (key == KEY_RESIZE || key == KEY_NONE) {
    return key == KEY_NONE;
  } else {
    e->searching = 0;
    if (key != (CTRL & 'G') && key != (CTRL & 'C')) return 0;
    show_past(e, n);
  }
  return 1;
}

static void draw(fl_edit *e) {
  const char *prompt = e->prompt;
  char text[128];
  if (e->searching) {
    snprintf(text, sizeof text, "(search) %.100s: ", e->query.at ? e->query.at : "");
    e->prompt = text;
  }
  fl_draw(e);
  e->prompt = prompt;
}

/* ---- keys ------------------------------------------------------------------------------------ */
static void move_key(fl_edit *e, int key) {
  switch (key) {
    case CTRL & 'A': case KEY_HOME: e->cursor = line_start(e, e->cursor); break;
    case CTRL & 'E': case KEY_LAST: e->cursor = line_end(e, e->cursor); break;
    case CTRL & 'B': case KEY_LEFT: e->cursor = back(e, e->cursor); break;
    case CTRL & 'F': case KEY_RIGHT: e->cursor = forth(e, e->cursor); break;
    case KEY_META + 'b': case KEY_WORD_LEFT: e->cursor = word_back(e); break;
    case KEY_META + 'f': case KEY_WORD_RIGHT: e->cursor = word_forth(e); break;
    case CTRL & 'P': case KEY_UP: vertical(e, 0); break;
    case CTRL & 'N': case KEY_DOWN: vertical(e, 1); break;
    default: break;
  }
}

static void change_key(fl_edit *e, int key) {
  const int64_t start = line_start(e, e->cursor), end = line_end(e, e->cursor);
  switch (key) {
    case 0x7f: case CTRL & 'H': erase(e, back(e, e->cursor), e->cursor, 0); break;
    case CTRL & 'D': case KEY_DELETE: erase(e, e->cursor, forth(e, e->cursor), 0); break;
    case CTRL & 'K': erase(e, e->cursor, end > e->cursor ? end : forth(e, end), 1); break;
    case CTRL & 'U': erase(e, start, e->cursor, 1); break;
    case CTRL & 'W': case KEY_META + 0x7f: erase(e, word_back(e), e->cursor, 1); break;
    case KEY_META + 'd': erase(e, e->cursor, word_forth(e), 1); break;
    case CTRL & 'Y': if (e->killed.n > 0) fl_edit_insert(e, e->killed.at, e->killed.n); break;
    case KEY_META + '\r': case KEY_META + '\n': fl_edit_insert(e, "\n", 1); break;
    default: move_key(e, key);
  }
}

/* Tab at the start of a line indents; elsewhere, and in an empty entry, it completes. */
static void tab_key(fl_edit *e) {
  int64_t i = line_start(e, e->cursor);
  while (i < e->cursor && (e->text.at[i] == ' ' || e->text.at[i] == '\t')) i++;
  if (e->text.n > 0 && i == e->cursor) fl_edit_insert(e, "  ", 2);
  else e->tab(e);
}

/* The result of a key: GO_ON to continue, else FL_EDIT_*: how the reading ends. */
enum { GO_ON = 2 };
static int take_key(fl_edit *e, int key) {
  char bytes[4];
  if (e->searching && search_key(e, key)) return GO_ON;
  e->tabs = key == '\t' ? e->tabs + 1 : 0;
  if (key == KEY_GONE || (key == (CTRL & 'D') && e->text.n == 0)) return FL_EDIT_END;
  if (key == KEY_INTERRUPT || key == (CTRL & 'C')) return FL_EDIT_CLEARED;
  if (key == '\r' || key == '\n') {
    if (e->complete(e->arg, e->text.at)) return FL_EDIT_LINE;
    fl_edit_insert(e, "\n", 1);
  } else if (key == '\t') {
    tab_key(e);
  } else if (key == KEY_PASTE) {
    if (paste(e) == KEY_GONE) return FL_EDIT_END;
  } else if (key == (CTRL & 'R')) {
    e->searching = 1;
    set(e, &e->query, "", 0);
  } else if (key == (CTRL & 'Z')) {
    fl_draw_leave(e, "");
    fl_terminal_cooked(&e->terminal);
    raise(SIGTSTP);
    fl_terminal_raw(&e->terminal);
  } else if (key == (CTRL & 'L')) {
    fl_terminal_write("\33[H\33[2J", 7);
    e->row = 0;
  } else if (key >= 32 && key < KEY_META && key != 0x7f) {
    fl_edit_insert(e, bytes, fl_utf8_put(bytes, (uint32_t)key));
  } else {
    change_key(e, key);
  }
  return GO_ON;
}

int fl_edit_read(fl_edit *e, const char *prompt, const char *prompt2) {
  int how = GO_ON;
  e->prompt = prompt;
  e->prompt2 = prompt2;
  e->cursor = 0;
  e->row = e->col = e->last = e->tabs = e->searching = 0;
  e->at = e->history.entries.n;
  if (!set(e, &e->text, "", 0) || !fl_terminal_raw(&e->terminal)) return FL_EDIT_END;
  do {
    if (!fl_terminal_waiting()) draw(e);
    how = take_key(e, fl_terminal_key());
  } while (how == GO_ON);
  e->cursor = e->text.n;
  e->searching = 0;
  draw(e);
  fl_draw_leave(e, how == FL_EDIT_CLEARED ? "^C" : "");
  fl_terminal_cooked(&e->terminal);
  return how;
}

void fl_edit_open(fl_edit *e) {
  memset(e, 0, sizeof *e);
  fl_history_open(&e->history, &e->mem);
}

void fl_edit_close(fl_edit *e) {
  fl_history_close(&e->history);
  FL_DROP(&e->mem, &e->text);
  FL_DROP(&e->mem, &e->killed);
  FL_DROP(&e->mem, &e->typed);
  FL_DROP(&e->mem, &e->query);
}
