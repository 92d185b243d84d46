/*
** Lua's patterns, for a state with limits: read once into items, then matched with counted steps.
** Patterns behave as in the reference manual; a malformed one is reported before anything is
** matched.
*/
#ifndef FL_LUA_LPATTERN_H
#define FL_LUA_LPATTERN_H
#include "lua/binding.h"

enum { FL_CAPTURES = 32, FL_CAPTURE_OPEN = -1, FL_CAPTURE_POSITION = -2 };

typedef struct fl_lpattern fl_lpattern;
typedef struct fl_match {
  const char *from, *to;                      /* what was matched */
  int captures;
  struct { const char *at; ptrdiff_t n; } capture[FL_CAPTURES];   /* n: bytes, or
                                                                     ** FL_CAPTURE_POSITION */
} fl_match;

/* Reads the pattern at i, and pushes the userdata that holds the result. may_anchor: a '^' at its
** start anchors it (for gmatch it does not). */
fl_lpattern *fl_lpattern_push(lua_State *L, int i, int may_anchor);
int fl_lpattern_anchored(const fl_lpattern *p);
/* The first match in the string of n bytes from 'at' on; only at 'at' if p is anchored. 0: none.
** Charges steps, and raises if the work must end. */
int fl_lpattern_find(lua_State *L, fl_lua *b, const fl_lpattern *p, const char *s, size_t n,
                    const char *at, fl_match *m);
/* Pushes the captures, or the whole match if there are none; returns how many. */
int fl_lpattern_push_captures(lua_State *L, const fl_match *m, const char *s);
/* Pushes capture k (from 0); for a pattern without captures 0 is the whole match. */
void fl_lpattern_push_capture(lua_State *L, const fl_match *m, int k, const char *s);
#endif
