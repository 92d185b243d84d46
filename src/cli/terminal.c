/*
** The terminal: raw mode, keys, widths of characters. Signals are unblocked only while waiting for
** a key; a resize and an interrupt are returned as keys, and a signal that ends the process does so
** after the terminal is restored.
*/
#include "base/utf8.h"
#include "cli/edit.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { ESCAPE_MS = 50 };                          /* bytes of one key arrive within this time */

static const int caught[] = { SIGWINCH, SIGINT, SIGTERM, SIGHUP, SIGQUIT };
enum { CAUGHT = sizeof caught / sizeof *caught };
static struct sigaction old_action[CAUGHT];
static sigset_t old_mask;
static volatile sig_atomic_t resized, interrupted, ended;

static void on_signal(int number) {
  if (number == SIGWINCH) resized = 1;
  else if (number == SIGINT) interrupted = 1;
  else ended = number;
}

int fl_terminal_usable(void) {
  const char *term = getenv("TERM");
  if (!term || !*term || !strcmp(term, "dumb")) return 0;
  return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
}

void fl_terminal_size(fl_terminal *t) {
  struct winsize size = { 0 };
  ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
  t->cols = size.ws_col > 1 ? size.ws_col : 80;
  t->rows = size.ws_row > 1 ? size.ws_row : 24;
}

void fl_terminal_write(const char *p, int64_t n) {
  while (n > 0) {
    const ssize_t k = write(STDOUT_FILENO, p, (size_t)n);
    if (k < 0 && errno != EINTR && errno != EAGAIN) return;
    if (k > 0) p += k, n -= k;
  }
}

int fl_terminal_raw(fl_terminal *t) {
  struct termios raw;
  struct sigaction action = { 0 };
  sigset_t held;
  fflush(stdout);
  if (tcgetattr(STDIN_FILENO, &t->before) != 0) return 0;
  raw = t->before;
  raw.c_iflag &= ~(tcflag_t)(BRKINT | ICRNL | INLCR | IGNCR | INPCK | ISTRIP | IXON);
  raw.c_lflag &= ~(tcflag_t)(ECHO | ICANON | IEXTEN | ISIG);
  raw.c_cc[VMIN] = 1;
  raw.c_cc[VTIME] = 0;
  if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) != 0) return 0;
  resized = interrupted = ended = 0;
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  sigemptyset(&held);
  for (int i = 0; i < CAUGHT; i++) sigaddset(&held, caught[i]);
  sigprocmask(SIG_BLOCK, &held, &old_mask);
  for (int i = 0; i < CAUGHT; i++) sigaction(caught[i], &action, &old_action[i]);
  fl_terminal_size(t);
  fl_terminal_write("\33[?2004h", 8);
  return 1;
}

void fl_terminal_cooked(fl_terminal *t) {
  fl_terminal_write("\33[?2004l", 8);
  tcsetattr(STDIN_FILENO, TCSADRAIN, &t->before);
  for (int i = 0; i < CAUGHT; i++) sigaction(caught[i], &old_action[i], NULL);
  sigprocmask(SIG_SETMASK, &old_mask, NULL);
  if (ended) raise(ended);
}

int fl_terminal_waiting(void) {
  struct pollfd in = { STDIN_FILENO, POLLIN, 0 };
  return poll(&in, 1, 0) > 0;
}

/* ---- keys ------------------------------------------------------------------------------------ */
/* The next byte, KEY_NONE after 'ms' without one (-1: no limit), or the key for a signal. Read byte
** by byte: input that is typed ahead stays in the terminal, for a script that reads it. */
static int next_byte(int ms) {
  unsigned char c;
  for (;;) {
    struct pollfd in = { STDIN_FILENO, POLLIN, 0 };
    const struct timespec limit = { ms / 1000, ms % 1000 * 1000000L };
    if (ended) return KEY_GONE;
    if (resized) return resized = 0, KEY_RESIZE;
    if (interrupted) return interrupted = 0, KEY_INTERRUPT;
    const int ready = ppoll(&in, 1, ms < 0 ? NULL : &limit, &old_mask);
    if (ready == 0) return KEY_NONE;
    if (ready < 0 && errno == EINTR) continue;
    const ssize_t n = ready < 0 ? 0 : read(STDIN_FILENO, &c, 1);
    if (n == 1) return c;
    if (n == 0 || (errno != EINTR && errno != EAGAIN)) return KEY_GONE;
  }
}

/* The key of an escape sequence, such as "ESC [ 1 ; 5 C", by its final byte and its first and last
** number. */
static int sequence_key(int final, int first, int last) {
  static const struct { char final; int first, key; } keys[] = {
    { 'A', 0, KEY_UP }, { 'B', 0, KEY_DOWN }, { 'C', 0, KEY_RIGHT }, { 'D', 0, KEY_LEFT },
    { 'H', 0, KEY_HOME }, { 'F', 0, KEY_LAST }, { '~', 1, KEY_HOME }, { '~', 7, KEY_HOME },
    { '~', 4, KEY_LAST }, { '~', 8, KEY_LAST }, { '~', 3, KEY_DELETE },
    { '~', 200, KEY_PASTE }, { '~', 201, KEY_PASTED },
  };
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    if (keys[i].final != final || (final == '~' && keys[i].first != first)) continue;
    if (final == 'C' && last > 1) return KEY_WORD_RIGHT;
    if (final == 'D' && last > 1) return KEY_WORD_LEFT;
    return keys[i].key;
  }
  return KEY_NONE;
}

static int escape_key(void) {
  const int c = next_byte(ESCAPE_MS);
  if (c != '[' && c != 'O') return c < 0x80 ? KEY_META + c : KEY_NONE;
  int number = 0, first = -1, b;
  while ((b = next_byte(ESCAPE_MS)) >= 0x20 && b < 0x40) {
    if (b >= '0' && b <= '9') number = number < 10000 ? 10 * number + b - '0' : number;
    else if (first < 0) first = number, number = 0;
    else number = 0;
  }
  if (b >= KEY_NONE) return KEY_META + c;
  return sequence_key(b, first < 0 ? number : first, first < 0 ? 0 : number);
}

int fl_terminal_key(void) {
  char bytes[4];
  int c = next_byte(-1), n = 1, length;
  if (c == 27) return escape_key();
  if (c < 0x80 || c > 0xff) return c;
  const int more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : c >= 0xc0 ? 1 : 0;
  bytes[0] = (char)c;
  while (n <= more && (c = next_byte(ESCAPE_MS)) >= 0x80 && c < 0xc0) bytes[n++] = (char)c;
  c = fl_utf8(bytes, n, &length);
  return length == n ? c : 0xfffd;
}

/* ---- characters ------------------------------------------------------------------------------ */
int fl_utf8(const char *p, int64_t n, int *length) {
  *length = fl_utf8_length(p, p + n);
  if (*length > 0) return (int)fl_utf8_get(p, length);
  *length = 1;
  return 0xfffd;
}

typedef struct range { int first, last; } range;
/* Combining marks, which are drawn over the character before them, and format characters. */
static const range zero[] = {
  { 0x300, 0x36f }, { 0x483, 0x489 }, { 0x591, 0x5bd }, { 0x5bf, 0x5bf }, { 0x5c1, 0x5c5 },
  { 0x610, 0x61a }, { 0x64b, 0x65f }, { 0x670, 0x670 }, { 0x6d6, 0x6dc }, { 0x6df, 0x6e4 },
  { 0x6e7, 0x6ed }, { 0x711, 0x711 }, { 0x730, 0x74a }, { 0x7eb, 0x7f3 }, { 0x816, 0x82d },
  { 0x859, 0x85b }, { 0x8d3, 0x902 }, { 0x93a, 0x93a }, { 0x93c, 0x93c }, { 0x941, 0x948 },
  { 0x94d, 0x94d }, { 0x951, 0x957 }, { 0x9bc, 0x9bc }, { 0x9c1, 0x9c4 }, { 0xa3c, 0xa51 },
  { 0xb3c, 0xb3c }, { 0xe31, 0xe31 }, { 0xe34, 0xe3a }, { 0xe47, 0xe4e }, { 0xeb1, 0xeb1 },
  { 0xeb4, 0xebc }, { 0xec8, 0xecd }, { 0xf71, 0xf84 }, { 0x1160, 0x11ff }, { 0x135d, 0x135f },
  { 0x1ab0, 0x1aff }, { 0x1dc0, 0x1dff }, { 0x200b, 0x200f }, { 0x202a, 0x202e },
  { 0x2060, 0x2064 }, { 0x20d0, 0x20f0 }, { 0x302a, 0x302d }, { 0x3099, 0x309a },
  { 0xa66f, 0xa67d }, { 0xfe00, 0xfe0f }, { 0xfe20, 0xfe2f }, { 0xfeff, 0xfeff },
  { 0x1d167, 0x1d169 }, { 0xe0100, 0xe01ef },
};
static const range wide[] = {
  { 0x1100, 0x115f }, { 0x231a, 0x231b }, { 0x2329, 0x232a }, { 0x23e9, 0x23ec },
  { 0x25fd, 0x25fe }, { 0x2614, 0x2615 }, { 0x2648, 0x2653 }, { 0x26a1, 0x26a1 },
  { 0x26bd, 0x26be }, { 0x2705, 0x2705 }, { 0x270a, 0x270b }, { 0x274c, 0x274c },
  { 0x2753, 0x2755 }, { 0x2795, 0x2797 }, { 0x2b1b, 0x2b1c }, { 0x2e80, 0x303e },
  { 0x3041, 0xa4cf }, { 0xa960, 0xa97c }, { 0xac00, 0xd7a3 }, { 0xf900, 0xfaff },
  { 0xfe10, 0xfe19 }, { 0xfe30, 0xfe6f }, { 0xff01, 0xff60 }, { 0xffe0, 0xffe6 },
  { 0x16fe0, 0x18cd5 }, { 0x1b000, 0x1b2fb }, { 0x1f300, 0x1f320 }, { 0x1f32d, 0x1f335 },
  { 0x1f337, 0x1f37c }, { 0x1f37e, 0x1f393 }, { 0x1f3a0, 0x1f3ca }, { 0x1f3e0, 0x1f3f0 },
  { 0x1f400, 0x1f43e }, { 0x1f440, 0x1f440 }, { 0x1f442, 0x1f4fc }, { 0x1f4ff, 0x1f53d },
  { 0x1f550, 0x1f567 }, { 0x1f595, 0x1f596 }, { 0x1f5fb, 0x1f64f }, { 0x1f680, 0x1f6c5 },
  { 0x1f6cc, 0x1f6cc }, { 0x1f6d0, 0x1f6d2 }, { 0x1f6eb, 0x1f6ec }, { 0x1f6f4, 0x1f6fc },
  { 0x1f7e0, 0x1f7eb }, { 0x1f90c, 0x1f93a }, { 0x1f93c, 0x1f945 }, { 0x1f947, 0x1f9ff },
  { 0x1fa70, 0x1faff }, { 0x20000, 0x3fffd },
};

static int in_ranges(const range *r, int n, int c) {
  int low = 0;
  while (low < n) {
    const int middle = (low + n) / 2;
    if (c > r[middle].last) low = middle + 1;
    else if (c < r[middle].first) n = middle;
    else return 1;
  }
  return 0;
}

int fl_char_width(int c) {
  if (c < 0x300) return 1;
  if (in_ranges(zero, sizeof zero / sizeof *zero, c)) return 0;
  return 1 + in_ranges(wide, sizeof wide / sizeof *wide, c);
}

int fl_text_step(const char *p, int64_t n, int *length) {
  const int c = fl_utf8(p, n, length);
  if (c != 27 || n < 2 || p[1] != '[') return c < 32 ? 0 : fl_char_width(c);
  int64_t k = 2;
  while (k < n && (p[k] < 0x40 || p[k] > 0x7e)) k++;
  *length = (int)(k < n ? k + 1 : n);
  return 0;
}

int64_t fl_text_width(const char *p, int64_t n) {
  int64_t width = 0;
  int length;
  for (int64_t i = 0; i < n; i += length) width += fl_text_step(p + i, n - i, &length);
  return width;
}
