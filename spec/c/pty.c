/*
** pty: a program on a terminal, for specs of the prompt.
**
**   pty COLS ROWS PROGRAM ARGUMENT… < STEPS
**
** starts the program on a terminal of that size and does the steps, a line each:
**
**   send TEXT      types it; \n \r \t \e \\ and \xHH are bytes
**   wait TEXT      goes on when the screen shows it (20 s at most; else says so, status 1)
**   ready          waits for an empty prompt in the cursor's row, "> " or ">> "
**   size COLS ROWS another size (SIGWINCH)
**   signal N       a signal to the program
**   screen         writes what the screen shows, rows that are empty at the end left out
**   cursor         writes "row column", from 1
**   colours        writes how many sequences set colours so far
**   mode           writes "raw" or "cooked"
**   end            waits for the program's end and writes "status N" or "signal N"
**
** The steps that look at the current screen (ready, size, screen, cursor, colours) first wait until
** the program has read everything that was typed and waits for more input. Output is read in small
** pieces, so that a sequence of steps that lacks a wait also fails on an idle machine.
**
** The screen is emulated here: wrapping, wide and combining characters as in wcwidth(3), and the
** escape sequences that a line editor needs. Other sequences appear on the screen as "?SEQUENCE".
*/
#include <fcntl.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

enum { MOST_COLS = 300, MOST_ROWS = 100, CELL = 32, LIMIT = 20, TAKEN = 7 };

/* the screen: a character in UTF-8 per cell; "": blank; "\1": right half of a wide character */
static char cell[MOST_ROWS][MOST_COLS][CELL];
static int cols, rows, row, col, pending;    /* pending: the next character wraps to the next row */
static char sequence[64];
static int in_sequence;
static long colours;
static int terminal, other_end;
static pid_t child;

static void scroll(void) {
  if (++row < rows) return;
  memmove(cell[0], cell[1], sizeof cell[0] * (size_t)(rows - 1));
  memset(cell[rows - 1], 0, sizeof cell[0]);
  row = rows - 1;
}

static void put_char(const char *bytes, wchar_t c) {
  const int width = wcwidth(c);
  if (width == 0) {
    const int at = pending ? col : col > 0 ? col - 1 : 0;
    const int base = cell[row][at][0] == 1 && at > 0 ? at - 1 : at;
    if (strlen(cell[row][base]) + strlen(bytes) < CELL) strcat(cell[row][base], bytes);
    return;
  }
  if (pending || col + (width > 1 ? width : 1) > cols) {
    col = pending = 0;
    scroll();
  }
  strcpy(cell[row][col], bytes);
  if (width == 2) strcpy(cell[row][col + 1], "\1");
  col += width > 0 ? width : 1;
  if (col >= cols) pending = 1, col = cols - 1;
}

static void erase(int from_row, int from_col) {
  for (int r = from_row; r < rows; r++)
    for (int c = r == from_row ? from_col : 0; c < MOST_COLS; c++) cell[r][c][0] = 0;
}

static void do_sequence(void) {
  const size_t n = strlen(sequence);
  const char final = sequence[n - 1];
  const int number = atoi(sequence + 1), count = number > 0 ? number : 1;
  if (sequence[0] != '[') return;
  if (final == 'm') colours++;
  if (final == 'm' || final == 'h' || final == 'l') return;
  pending = 0;
  if (final == 'A') row = row - count < 0 ? 0 : row - count;
  else if (final == 'B') row = row + count >= rows ? rows - 1 : row + count;
  else if (final == 'C') col = col + count >= cols ? cols - 1 : col + count;
  else if (final == 'D') col = col - count < 0 ? 0 : col - count;
  else if (final == 'H' && n == 2) row = col = 0;
  else if (final == 'J' && number == 0) erase(row, col);
  else if (final == 'J' && number == 2) erase(0, 0);
  else if (final == 'K' && number == 0) for (int c = col; c < MOST_COLS; c++) cell[row][c][0] = 0;
  else printf("?%s\n", sequence);
}

static void take(unsigned char byte) {
  static char bytes[8];
  static int n, need;
  const size_t k = strlen(sequence);
  if (in_sequence) {
    if (k < sizeof sequence - 1) sequence[k] = (char)byte, sequence[k + 1] = 0;
    if (k == 0 ? byte == '[' : byte < 0x40) return;
    in_sequence = 0;
    do_sequence();
    return;
  }
  if (byte == 27) { in_sequence = 1; sequence[0] = 0; return; }
  if (byte == '\r') { col = pending = 0; return; }
  if (byte == '\n') { pending = 0; scroll(); return; }
  if (byte == '\t') {
    pending = 0;
    col = col / 8 * 8 + 8 < cols ? col / 8 * 8 + 8 : cols - 1;
    return;
  }
  if (byte == '\b') { pending = 0; if (col > 0) col--; return; }
  if (byte < 32) return;
  if (byte < 0x80 || byte >= 0xc0) {
    n = 0;
    need = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
  }
  bytes[n++] = (char)byte;
  bytes[n] = 0;
  if (n < need) return;
  wchar_t c = '?';
  mbtowc(&c, bytes, 8);
  n = 0;
  put_char(bytes, c);
}

static int has_ended(void) {
  siginfo_t how = { 0 };
  return waitid(P_PID, (id_t)child, &how, WEXITED | WNOHANG | WNOWAIT) == 0 && how.si_pid == child;
}

/* Reads output of the program that arrives within 'ms' milliseconds; 0 if no more will come. */
static int pump(int ms) {
  unsigned char part[TAKEN];
  struct pollfd in = { terminal, POLLIN, 0 };
  if (poll(&in, 1, ms) <= 0) return !has_ended() || poll(&in, 1, 0) > 0;
  const ssize_t n = read(terminal, part, sizeof part);
  for (ssize_t i = 0; i < n; i++) take(part[i]);
  return n > 0;
}

static char *screen_text(void) {
  static char text[sizeof cell];
  char *p = text;
  for (int r = 0; r < rows; r++) {
    int last = cols;
    while (last > 0 && !cell[r][last - 1][0]) last--;
    for (int c = 0; c < last; c++)
      if (cell[r][c][0] != 1) p = stpcpy(p, cell[r][c][0] ? cell[r][c] : " ");
    while (p > text && p[-1] == ' ') p--;
    *p++ = '\n';
  }
  while (p > text && p[-1] == '\n') p--;
  *p++ = '\n';
  *p = 0;
  return text;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void never(const char *what) {
  printf("never came: %s\n%s", what, screen_text());
  kill(child, SIGKILL);
  exit(1);
}

static void await(const char *text) {
  const double till = now() + LIMIT;
  int open = 1;
  while (!strstr(screen_text(), text) && open && now() < till) open = pump(50);
  if (!strstr(screen_text(), text)) never(text);
}

/* 1 if the program has not read all its input. poll(2) also sees input that is still on its way. */
static int has_unread(void) {
  return poll(&(struct pollfd){ other_end, POLLIN, 0 }, 1, 0) > 0;
}

/* 1 if the program sleeps in a system call that waits for input. On systems without /proc the
** answer is always 1. */
static int is_asleep(void) {
  char path[64], text[128] = "";
  snprintf(path, sizeof path, "/proc/%d/syscall", (int)child);
  FILE *f = fopen(path, "r");
  if (!f) return 1;
  const int known = fgets(text, sizeof text, f) != NULL;
  fclose(f);
  long call = -1;
  unsigned long first = 1;
  if (!known || sscanf(text, "%ld 0x%lx", &call, &first) < 1) return !known;
  return call == SYS_ppoll || call == SYS_pselect6 ||
#ifdef SYS_poll
         call == SYS_poll || call == SYS_select ||
#endif
         (call == SYS_read && first == 0);
}

/* 1 if the program has read all input and waits for more; then its output is on the screen. */
static int is_settled(void) {
  if (has_unread() || !is_asleep()) return 0;
  while (poll(&(struct pollfd){ terminal, POLLIN, 0 }, 1, 0) > 0 && pump(0)) {}
  return 1;
}

static void settle(void) {
  const double till = now() + LIMIT;
  int open = 1;
  while (!is_settled() && open && now() < till) open = pump(2);
  if (open && !is_settled()) never("the end of what the program does");
}

static int at_prompt(void) {
  char text[8] = "";
  for (int c = 0; c < 5; c++) strcat(text, strlen(cell[row][c]) == 1 ? cell[row][c] : " ");
  return (!strcmp(text, ">    ") || !strcmp(text, ">>   ")) && col <= 3;
}

static void await_prompt(void) {
  const double till = now() + LIMIT;
  int there;
  while (!(there = is_settled() && at_prompt()) && now() < till && pump(2)) {}
  if (!there) never("a prompt");
}

static size_t unescape(char *s) {
  char *to = s, *from = s;
  while (*from) {
    if (*from != '\\') { *to++ = *from++; continue; }
    const char k = from[1];
    from += 2;
    if (k == 'x') {
      unsigned byte = 0;
      sscanf(from, "%2x", &byte);
      *to++ = (char)byte;
      from += 2;
    } else {
      *to++ = k == 'n' ? '\n' : k == 'r' ? '\r' : k == 't' ? '\t' : k == 'e' ? 27 : k;
    }
  }
  *to = 0;
  return (size_t)(to - s);
}

/* Types n bytes. The program's output is read meanwhile: the terminal's buffer is small, and a
** program that cannot write would not read. */
static void type(const char *p, size_t n) {
  while (n > 0) {
    const ssize_t k = write(terminal, p, n < 256 ? n : 256);
    if (k > 0) p += k, n -= (size_t)k;
    while (poll(&(struct pollfd){ terminal, POLLIN, 0 }, 1, k > 0 ? 0 : 10) > 0 && pump(0)) {}
  }
}

/* Makes the screen c columns wide: long rows are wrapped again, and the cursor moves with them. */
static void narrow(int c) {
  static char old[MOST_ROWS][MOST_COLS][CELL];
  const int old_row = row, old_col = col, count = rows;
  memcpy(old, cell, sizeof cell);
  memset(cell, 0, sizeof cell);
  int to = 0, at_row = 0, at_col = 0;
  for (int r = 0; r < count; r++) {
    int length = MOST_COLS;
    while (length > 0 && !old[r][length - 1][0]) length--;
    if (r > old_row && length == 0) break;
    if (r == old_row && length <= old_col) length = old_col + 1;
    for (int from = 0; from == 0 || from < length; from += c, to++) {
      if (to == count) {
        memmove(cell[0], cell[1], sizeof cell[0] * (size_t)(count - 1));
        memset(cell[--to], 0, sizeof cell[0]);
        at_row--;
      }
      const int n = from + c < MOST_COLS ? c : MOST_COLS - from;
      memcpy(cell[to], old[r][from], sizeof **cell * (size_t)n);
      if (r != old_row || old_col < from || old_col >= from + c) continue;
      at_row = to;
      at_col = old_col - from;
    }
  }
  row = at_row < 0 ? 0 : at_row;
  col = at_col;
}

static void resize(int c, int r) {
  struct winsize size = { .ws_col = (unsigned short)c, .ws_row = (unsigned short)r };
  if (c < cols) narrow(c);
  while (row >= r) { memmove(cell[0], cell[1], sizeof cell[0] * (MOST_ROWS - 1)); row--; }
  cols = c < MOST_COLS ? c : MOST_COLS;
  rows = r < MOST_ROWS ? r : MOST_ROWS;
  pending = 0;
  ioctl(terminal, TIOCSWINSZ, &size);
}

static void finish(void) {
  int status = 0;
  const double till = now() + LIMIT;
  while (pump(100) && now() < till) {}
  pid_t ended;
  while ((ended = waitpid(child, &status, WNOHANG)) == 0 && now() < till) usleep(10000);
  if (ended == 0) printf("never ended\n%s", screen_text());
  else if (WIFSIGNALED(status)) printf("signal %d\n", WTERMSIG(status));
  else printf("status %d\n", WEXITSTATUS(status));
}

static void tell_mode(void) {
  struct termios mode;
  tcgetattr(terminal, &mode);
  puts(mode.c_lflag & ICANON ? "cooked" : "raw");
}

static void step(char *line) {
  int a, b;
  char *text = strchr(line, ' ');
  text = text ? text + 1 : line + strlen(line);
  if (!strncmp(line, "send ", 5)) type(text, unescape(text));
  else if (!strncmp(line, "wait ", 5)) unescape(text), await(text);
  else if (!strcmp(line, "ready")) await_prompt();
  else if (sscanf(line, "size %d %d", &a, &b) == 2) settle(), resize(a, b);
  else if (sscanf(line, "signal %d", &a) == 1) kill(child, a);
  else if (!strcmp(line, "screen")) settle(), fputs(screen_text(), stdout);
  else if (!strcmp(line, "cursor")) settle(), printf("%d %d\n", row + 1, col + 1);
  else if (!strcmp(line, "colours")) settle(), printf("%ld\n", colours);
  else if (!strcmp(line, "mode")) tell_mode();
  else if (!strcmp(line, "end")) finish();
  else printf("unknown step: %s\n", line);
}

int main(int argc, char **argv) {
  static char line[1 << 20];
  if (argc < 4) return 2;
  setlocale(LC_ALL, "C.UTF-8");
  cols = atoi(argv[1]);
  rows = atoi(argv[2]);
  terminal = posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) return 2;
  resize(cols, rows);
  other_end = open(ptsname(terminal), O_RDWR | O_NOCTTY);
  if (other_end < 0) return 2;
  child = fork();
  if (child == 0) {
    setsid();
    close(other_end);
    const int end = open(ptsname(terminal), O_RDWR);      /* becomes the controlling terminal */
    for (int i = 0; i < 3; i++) dup2(end, i);
    close(terminal);
    if (end > 2) close(end);
    execvp(argv[3], argv + 3);
    _exit(127);
  }
  while (fgets(line, sizeof line, stdin)) {
    line[strcspn(line, "\n")] = 0;
    if (*line) step(line);
  }
  kill(child, SIGKILL);
  return 0;
}
