/*
** Draws the entry (the text that is typed at the prompt). It is laid out in rows of the terminal's
** width, broken where a character does not fit, and rewritten as a whole: from its first row, in
** one write. An entry that is longer than the screen shows the part around the cursor. Rows end
** with a line break of ours, never by the terminal's own wrapping, so that the cursor's row is
** known.
*/
#include "base/text.h"
#include "cli/edit.h"
#include <string.h>

enum { TAB = 4 };

typedef struct layout {
  fl_text *out;                /* NULL: only measured */
  int cols, row, col;
  int top, bottom;             /* rows that are written */
  int cursor_row, cursor_col;
} layout;

static void next_row(layout *l) {
  if (l->out && l->row >= l->top && l->row < l->bottom) fl_text_puts(l->out, "\r\n");
  l->row++;
  l->col = 0;
}

static void put(layout *l, const char *p, int n, int width) {
  if (l->col + width > l->cols) next_row(l);
  if (l->out && l->row >= l->top && l->row <= l->bottom) fl_text_add(l->out, p, (size_t)n);
  l->col += width;
}

/* Adds a prompt; sequences in it that set colours have no width. */
static void put_prompt(layout *l, const char *p) {
  int64_t left = (int64_t)strlen(p);
  for (int length; left > 0; p += length, left -= length) {
    const int width = fl_text_step(p, left, &length);
    if (*p == '\n') next_row(l);
    else if ((unsigned char)*p >= 32 || *p == 27) put(l, p, length, width);
  }
}

/* Notes the row and column of the cursor, which is before the byte at i. */
static void mark_cursor(layout *l, const fl_edit *e, int64_t i) {
  const int full = l->col >= l->cols, ends = i < e->text.n && e->text.at[i] == '\n';
  l->cursor_row = full && !ends ? l->row + 1 : l->row;
  l->cursor_col = full ? (ends ? l->cols - 1 : 0) : l->col;
}

static void lay_out(layout *l, const fl_edit *e) {
  int length;
  put_prompt(l, e->prompt);
  for (int64_t i = 0; i < e->text.n; i += length) {
    const char *p = e->text.at + i;
    const int c = fl_utf8(p, e->text.n - i, &length);
    if (i == e->cursor) mark_cursor(l, e, i);
    if (c == '\n') {
      next_row(l);
      put_prompt(l, e->prompt2);
    } else if (c == '\t') {
      for (int k = 0; k < TAB; k++) put(l, " ", 1, 1);
    } else if (c < 32 || c == 0x7f) {
      put(l, "?", 1, 1);
    } else if (length == 1 && c == 0xfffd) {
      put(l, "\xef\xbf\xbd", 3, 1);
    } else {
      put(l, p, length, fl_char_width(c));
    }
  }
  if (e->cursor == e->text.n) mark_cursor(l, e, e->cursor);
  if (l->cursor_row > l->row) next_row(l);
}

static void move(fl_text *out, int n, char how) {
  if (n > 0) fl_text_printf(out, "\33[%d%c", n, how);
}

static void flush(fl_text *out) {
  const char *s = fl_text_str(out);
  if (s) fl_terminal_write(s, (int64_t)out->n);
  fl_text_free(out);
}

/* If the terminal became narrower it has wrapped the rows again: the cursor is further down by the
** rows added. */
static void look_at_size(fl_edit *e) {
  const int was = e->terminal.cols;
  fl_terminal_size(&e->terminal);
  const int cols = e->terminal.cols;
  if (was > cols) e->row = e->row * ((was + cols - 1) / cols) + e->col / cols;
}

void fl_draw(fl_edit *e) {
  fl_text out;
  look_at_size(e);
  layout l = { .cols = e->terminal.cols };
  lay_out(&l, e);
  const int rows = e->terminal.rows, end = l.row;
  const int top = end < rows ? 0 : l.cursor_row - rows / 2 < 0 ? 0
    : l.cursor_row - rows / 2 > end - rows + 1 ? end - rows + 1 : l.cursor_row - rows / 2;
  const int bottom = top + rows - 1 < end ? top + rows - 1 : end;
  fl_text_init(&out, &e->mem);
  move(&out, e->row, 'A');
  fl_text_puts(&out, "\r\33[J");
  l = (layout){ .out = &out, .cols = e->terminal.cols, .top = top, .bottom = bottom };
  lay_out(&l, e);
  move(&out, bottom - l.cursor_row, 'A');
  fl_text_puts(&out, "\r");
  move(&out, l.cursor_col, 'C');
  e->row = l.cursor_row - top;
  e->col = l.cursor_col;
  e->last = bottom - top;
  flush(&out);
}

void fl_draw_leave(fl_edit *e, const char *mark) {
  fl_text out;
  fl_text_init(&out, &e->mem);
  move(&out, e->last - e->row, 'B');
  fl_text_puts(&out, "\r");
  if (*mark) {
    layout l = { .cols = e->terminal.cols };
    lay_out(&l, e);
    move(&out, l.col, 'C');
  }
  fl_text_puts(&out, mark);
  fl_text_puts(&out, "\r\n");
  flush(&out);
  e->row = e->last = 0;
}
