/*
** Tokens of a CUDA source after preprocessing: comments, line splices and directives are
** gone, macros expanded. #pragma is ignored, #if is decided.
*/
#ifndef FL_KERNEL_LEXER_H
#define FL_KERNEL_LEXER_H
#include "kernel/tree/tree.h"

typedef enum {
  FL_TOK_END, FL_TOK_NAME, FL_TOK_INT, FL_TOK_FLOAT, FL_TOK_CHAR, FL_TOK_STRING, FL_TOK_PUNCT,
  FL_TOK_BAD     /* 'text' says what is wrong; 'type' 1: the source is given to no compiler;
                 ** FL_BAD_NUMBER: 'text' is that of a number that is none, as "4x4" */
} fl_ktokkind;
enum { FL_BAD_NUMBER = 2 };

/* Punctuators: a character stands for itself, these are the longer ones. */
enum {
  FL_PU_SHL = 256, FL_PU_SHR, FL_PU_LE, FL_PU_GE, FL_PU_EQ, FL_PU_NE, FL_PU_LAND, FL_PU_LOR,
  FL_PU_INC, FL_PU_DEC, FL_PU_ARROW, FL_PU_SCOPE, FL_PU_ELLIPSIS, FL_PU_LAUNCH, FL_PU_PASTE,
  FL_PU_ADD_SET, FL_PU_SUB_SET, FL_PU_MUL_SET, FL_PU_DIV_SET, FL_PU_REM_SET,
  FL_PU_SHL_SET, FL_PU_SHR_SET, FL_PU_AND_SET, FL_PU_OR_SET, FL_PU_XOR_SET
};

typedef struct fl_ktok {
  uint8_t kind, type;        /* fl_ktokkind; fl_ktype if kind is INT, FLOAT or CHAR */
  uint8_t first;             /* it is the first token of its line (for directives) */
  uint8_t bare;              /* FLOAT without suffix; NAME that is no macro any more */
  uint8_t is_long;           /* INT of 64 bits: a long (or unsigned long), not a long long */
  uint8_t glued;             /* no space precedes it ("f(" of a macro definition) */
  int16_t punct;             /* PUNCT */
  int32_t line;
  int32_t n;                 /* bytes of text */
  const char *text;          /* in the source, or in the arena. STRING: without quotes and escapes.
                             ** BAD: see there; a message is 0-terminated */
  fl_kvalue value;           /* INT, FLOAT, CHAR */
} fl_ktok;

typedef struct fl_ktoks { fl_ktok *at; int64_t n, cap; } fl_ktoks;    /* ends with END */

/* The tokens of 'text' without preprocessing; its first line has number 'line'. 0: no memory. Free
** with FL_DROP(a->mem, out). */
int fl_klex(fl_karena *a, const char *text, size_t n, int32_t line, fl_ktoks *out);
/* A file that a text includes: '#include "name"' in file 'from' (0: the text itself) means file
** 'file', which holds 'text'. Name and text are copied if they are needed after the call. */
typedef struct fl_kfile {
  const char *name, *text;
  size_t n_name, n;
  int32_t from, file;
} fl_kfile;
typedef struct fl_kfiles {
  const fl_kfile *at;
  int32_t n;
  int named;                 /* the caller named folders, in which these files lie */
  int read;                  /* set if one was read */
  const char *missing;       /* set to the first name of '#include "name"' that is none of them */
  int32_t line;              /* set to the line of that #include */
} fl_kfiles;

/* The tokens of 'text' after preprocessing. given: directives that are read before it ("" or the
** #defines of options). files: what it may include (NULL: nothing); other #includes are left out.
** Tokens of a file have the line of the #include. A wrong expansion, or a condition of #if that is
** not understood, becomes a BAD token at its place. Any other wrong directive, or too long a text,
** becomes a BAD token of type 1, and the text ends there. 0: no memory. */
int fl_kpreprocess(fl_karena *a, const char *text, size_t n, const char *given, fl_kfiles *files,
                   fl_ktoks *out);
/* preprocess_if.c: is the condition of #if true, of which macros and "defined" are replaced? -1: it
** has no value. */
int fl_kcondition(const fl_ktok *at, const fl_ktok *end);
/* The value of __has_attribute and __has_cpp_attribute for attribute t, as of C++17; -1: it is not
** known. */
int fl_kcondition_attribute(const fl_ktok *t);
/* literal.c. Joins adjacent string literals, and "operator ( )" and "operator [ ]" to names. */
void fl_kliteral_join(fl_karena *a, fl_ktoks *out);
/* Replaces texts that initialise arrays of characters by lists of these. 0: no memory. */
int fl_kliteral_arrays(fl_karena *a, fl_ktoks *toks);
extern const char fl_kpredefined[];    /* directives that are read before each text */
extern const char fl_kversions[];

/* The directives that a compiler's options ("-DN=4") stand for. NULL: no memory. */
const char *fl_kpreprocess_options(fl_karena *a, const char *const *option, int n);

/* Called before item n (from 0) is added to a list of 'most' items. NULL: there is room; else a
** message such as "at most 16 arguments of a call". fl_front_room is this for a parser. */
const char *fl_kfull(fl_karena *a, int64_t n, int64_t most, const char *what);

static inline int fl_ktok_is(const fl_ktok *t, const char *name) {
  int32_t i = 0;
  if (t->kind != FL_TOK_NAME) return 0;
  while (i < t->n && name[i] == t->text[i]) i++;
  return i == t->n && !name[i];
}

/* The punctuator that t is; 0: none. */
static inline int fl_ktok_punct(const fl_ktok *t) {
  return t->kind == FL_TOK_PUNCT ? t->punct : 0;
}
static inline int fl_is_punct(const fl_ktok *t, int c) { return fl_ktok_punct(t) == c; }
/* By how much t changes the depth in (…), […] and {…}: 1, -1 or 0. */
static inline int fl_ktok_depth(const fl_ktok *t) {
  const int c = fl_ktok_punct(t);
  return (c == '(' || c == '[' || c == '{') - (c == ')' || c == ']' || c == '}');
}
/* The index of t among n names; -1: it is not one of them. */
int fl_ktok_among(const fl_ktok *t, const char *const *names, int n);

#endif
