/*
** The line editor of the prompt. An entry is a text of one or more lines that is edited as one.
** terminal.c: raw mode, signals, keys, widths; draw.c: the entry on the screen; history.c: earlier
** entries; edit.c: what keys do. Memory is counted by fl_edit.mem; if there is none left, a key has
** no effect. The terminal is raw only while an entry is read: running code finds it in its normal
** state.
*/
#ifndef FL_CLI_EDIT_H
#define FL_CLI_EDIT_H
#include "base/mem.h"
#include <stdint.h>
#include <termios.h>

/* A key is a code point, or one of these numbers above all code points. KEY_META + c: Alt and c. */
enum { KEY_META = 0x200000, KEY_NONE = 0x400000, KEY_UP, KEY_DOWN, KEY_LEFT, KEY_RIGHT, KEY_HOME,
       KEY_LAST, KEY_DELETE, KEY_WORD_LEFT, KEY_WORD_RIGHT, KEY_PASTE, KEY_PASTED, KEY_RESIZE,
       KEY_INTERRUPT, KEY_GONE };

typedef struct fl_bytes { char *at; int64_t n, cap; } fl_bytes;

/* ---- terminal.c ------------------------------------------------------------------------------ */
typedef struct fl_terminal {
  struct termios before;
  int cols, rows;
} fl_terminal;
/* Is the terminal one that can move its cursor? Otherwise lines are read plainly. */
int fl_terminal_usable(void);
void fl_terminal_size(fl_terminal *t);
int fl_terminal_raw(fl_terminal *t);             /* 0: the terminal has no raw mode */
void fl_terminal_cooked(fl_terminal *t);         /* ends raw mode; if a signal that ends the process
                                                 ** came meanwhile, raises it */
int fl_terminal_waiting(void);                   /* is there input? */
int fl_terminal_key(void);                       /* KEY_GONE: the end of input */
void fl_terminal_write(const char *p, int64_t n);
/* The code point at p and its length (1 where the bytes are invalid). */
int fl_utf8(const char *p, int64_t n, int *length);
int fl_char_width(int c);                         /* columns: 0, 1 or 2 */
int fl_text_step(const char *p, int64_t n, int *length);  /* columns; an escape sequence has 0 */
int64_t fl_text_width(const char *p, int64_t n);

/* ---- history.c ------------------------------------------------------------------------------- */
/* The file has one entry per line: bytes up to blank, '\' and DEL as \ooo. New entries are
** appended, so that simultaneous sessions do not lose each other's entries. */
typedef struct fl_history {
  fl_mem *mem;
  struct { char **at; int64_t n, cap; } entries;  /* the oldest first */
  char path[1024];                                /* "": not kept */
} fl_history;
void fl_history_open(fl_history *h, fl_mem *m);
void fl_history_add(fl_history *h, const char *entry);
void fl_history_close(fl_history *h);
/* The index of the newest entry before 'from' that contains the text; -1: none. */
int64_t fl_history_find(const fl_history *h, int64_t from, const char *text, int64_t n);

/* ---- edit.c, draw.c -------------------------------------------------------------------------- */
typedef struct fl_edit {
  fl_mem mem;
  fl_terminal terminal;
  fl_history history;
  fl_bytes text, killed, typed, query;         /* typed: the new entry while older ones are shown */
  int64_t cursor;                                 /* in bytes, 0 to text.n */
  int64_t at;                     /* index of the history's entry shown; its count: a new entry */
  const char *prompt, *prompt2;
  int searching, tabs;                            /* tabs: number of Tabs in a row */
  /* of the entry as drawn: row and column of the cursor, last row */
  int row, col, last;
  void *arg;
  int (*complete)(void *arg, const char *text);   /* is the text a complete entry, or are lines
                                                  ** missing? */
  void (*tab)(struct fl_edit *e);                 /* calls fl_edit_complete */
} fl_edit;
void fl_edit_open(fl_edit *e);
void fl_edit_close(fl_edit *e);
/* END: the input ended, or the terminal has no raw mode; CLEARED: the user gave the entry up
** (Ctrl-C); LINE: it is entered. */
enum { FL_EDIT_END = -1, FL_EDIT_CLEARED, FL_EDIT_LINE };
/* Reads an entry into e->text, with a NUL after it; returns how that ended: FL_EDIT_*. */
int fl_edit_read(fl_edit *e, const char *prompt, const char *prompt2);
/* The text before the cursor becomes 'before'; 'list', if any, is shown above the entry. */
void fl_edit_complete(fl_edit *e, const char *before, int64_t n, const char *list);
int fl_edit_insert(fl_edit *e, const char *p, int64_t n);
void fl_draw(fl_edit *e);
void fl_draw_leave(fl_edit *e, const char *mark);  /* the cursor goes below the entry */
#endif
