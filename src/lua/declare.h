/*
** Declarations of public functions: one text says what a function takes and returns, and its
** arguments are read according to it.
**
**   decl    = ["new"] scope name ["_?"] "(" params ")" ["->" results] ["@" class]
**   scope   = none: flame.f and x:f | "." flame.f alone | ":" x:f alone | linalg.f | nn.init.f
**           | Class:f
**   param   = id ["?"] [":" type] ["=" default] | id "..." [":" type] | "..." | "*" | "*factory"
**   type    = atom {"|" atom}; without one the default's
**   atom    = T num int bool str fn any table axis axes dims(n) dtype device Class "word", and
**             those with "[]"
**   default = number | inf | true | false | "word" | "{" numbers "}" | an earlier parameter
**   result  = [id ":"] type ["if" flag] | "..." | "self"
**   class   = half | single | neutral: to which dtype flame.autocast casts tensors at the entry
**
** dims(n) is a list of n integers, or one integer (also in a list) for all n. A line that begins
** with a space continues the one before. Several declarations of a name, one per line, are its
** forms: the first that fits is used. A parameter is given by position, or by name in a table of
** options at the end. A table is options if it has a string key and no metatable with __call or
** __name, and no parameter of type table is in its place; the first parameter is a key of the
** options only where it may be omitted or is of a class, so that the options may come first.
** Parameters after "*" are given by name only; "*factory" stands for dtype, device and
** requires_grad by name. "id..." takes the remaining arguments, or one list. A method (Class:f) and
** a constructor ("new nn.Linear(in_features: int)") get the object before their parameters, as
** "self", which the text does not name. "..." takes the remaining arguments as they are; a function
** that has it has no options. A list whose metatable has __index or __len has the elements that
** these give; the function gets them in a plain list. An empty table is a list where one fits, else
** options, if there are any. nil means not given; so does false for a parameter with "?" if its
** type has no booleans (weight = false for none).
**
** A function written in C has its declaration in its registration row, followed by a line "---
** text" that says what the function does. For a function of the op table the declaration begins
** after the name.
**
** A declaration is parsed at the first call of a function, never before. The result is a userdata
** in an upvalue of the function and held only there: Lua's collector frees it with the function,
** and nothing in it changes after parsing. Its texts point into the declaration, which its first
** user value holds. All coroutines of a state may call the function; a state has one thread, so
** there is no lock.
*/
#ifndef FL_LUA_DECLARE_H
#define FL_LUA_DECLARE_H
#include "lua/binding.h"

enum { FL_DECL_FORMS = 8, FL_DECL_PARAMS = 32, FL_DECL_ATOMS = 96, FL_DECL_RESULTS = 24 };

typedef enum fl_decl_atom_kind {
  FL_ATOM_T, FL_ATOM_NUM, FL_ATOM_INT, FL_ATOM_BOOL, FL_ATOM_STR, FL_ATOM_FN, FL_ATOM_ANY,
  FL_ATOM_AXIS, FL_ATOM_AXES, FL_ATOM_DIMS, FL_ATOM_DTYPE, FL_ATOM_DEVICE, FL_ATOM_CLASS,
  FL_ATOM_WORD, FL_ATOM_TABLE
} fl_decl_atom_kind;

typedef struct fl_decl_span { const char *at; int n; } fl_decl_span;    /* in the text */

typedef struct fl_decl_atom {
  uint8_t kind, list;        /* list: a list of values of 'kind' */
  int n;                     /* dims(n) */
  fl_decl_span text;              /* the class, or the word without its quotes */
} fl_decl_atom;

typedef enum fl_decl_default_kind {
  FL_DEFAULT_NONE, FL_DEFAULT_INT, FL_DEFAULT_NUM, FL_DEFAULT_BOOL, FL_DEFAULT_WORD,
  FL_DEFAULT_PARAM, FL_DEFAULT_LIST          /* a list: each call gets a new one */
} fl_decl_default_kind;

typedef struct fl_decl_param {
  fl_decl_span name, type, given;   /* as written: type, and default (given), both may be empty */
  uint16_t plain;                     /* bit t: a value of Lua type t fits without further checks */
  uint8_t tensor, whole;       /* tensor: one is allowed; whole: numbers become integers */
  uint8_t optional, named;             /* "?"; after "*" */
  uint8_t atom, natoms;                /* in fl_declared.atom */
  uint8_t by_default;                  /* fl_decl_default_kind */
  int64_t i;                    /* the default value, or the index of its user value or parameter */
  double d;
} fl_decl_param;

typedef struct fl_decl_result { fl_decl_span name, type, flag; } fl_decl_result;

/* One form (parameter list). The function finds its parameters on the stack in the order of the
** declaration, then the values of "id..." or "...". */
typedef struct fl_decl_form {
  fl_decl_span scope, text;            /* scope: what stands before the name: "", ".", ":", or as in
                                       ** "linalg.", "Class:"; text: the form, from the scope on */
  uint8_t param, nparams;              /* without "id..." */
  uint8_t npos;                  /* how many can be given by position: the first ones */
  uint8_t rest;                        /* 0: none; 1: "id...", which is the next param; 2: "..." */
  uint8_t options_first;               /* a table of options may be the first argument */
  uint8_t self;                        /* the first parameter is the object */
  uint8_t result, nresults;
} fl_decl_form;

typedef enum fl_decl_cast { FL_CAST_NONE, FL_CAST_HALF, FL_CAST_SINGLE,
    FL_CAST_NEUTRAL } fl_decl_cast;

typedef struct fl_declared {
  char parsed;                         /* 0, with which no text begins */
  uint8_t cast;                        /* fl_decl_cast */
  fl_decl_span name, doc;
  int nforms, in_place;                /* in_place: there is a function name_ too */
  const fl_decl_form *form;
  const fl_decl_param *param;
  const fl_decl_atom *atom;
  const fl_decl_result *result;
} fl_declared;

/* The declaration of the running function, which is parsed if necessary. (declare.c) */
const fl_declared *fl_declared_here(lua_State *L);
/* The declaration of the function at i, parsed and pushed; NULL: it has none, and nothing is
** pushed. */
const fl_declared *fl_declared_of(lua_State *L, fl_lua *b, int i);
/* Casts the tensors among the arguments as flame.autocast says. (declare_cast.c) */
void fl_declare_cast(lua_State *L, fl_lua *b, int cast);

/* Parses the string at 'text' and pushes the userdata. Raises if the text is malformed, with the
** place: that is a bug of the library. (declare_parse.c) */
const fl_declared *fl_declare_parse(lua_State *L, int text);

/* Reads the arguments, which are all of the stack, by the declaration in upvalue 'holder', which is
** followed by the function's name: leaves the parameters of the form (parameter list) that fits,
** with room for one more value, and returns the form's number. Raises in the function's name.
** (declare_read.c) */
enum { FL_DECL_NAME = -1 };   /* holder + FL_DECL_NAME: the pseudo-index of the next upvalue, the
                              ** name (pseudo-indices of upvalues decrease) */
int fl_declare_read(lua_State *L, const fl_declared *d, int holder);

/* Why a form (parameter list) does not accept the arguments; 'at' is a stack index.
** (declare_read.c) */
typedef enum fl_decl_misfit_kind {
  FL_FITS, FL_MISFIT_MANY,           /* more arguments than parameters: 'element' is their number */
  FL_MISFIT_TYPE,                      /* the value at 'at' */
  FL_MISFIT_ELEMENT,                   /* element 'element', at 'at', of a list or of "id..." */
  FL_MISFIT_LENGTH,            /* the list at 'at' does not have the length that dims(n) requires */
  FL_MISFIT_COUNT,             /* the value at 'at', a list's length, is too large or no count */
  FL_MISFIT_MISSING, FL_MISFIT_TWICE,
  FL_MISFIT_OPTION,                    /* the key at 'at' is not a parameter */
  FL_MISFIT_KEY,                       /* the key at 'at' is not a string */
  FL_MISFIT_MIXED                      /* numbers and a list in "id..." */
} fl_decl_misfit_kind;
typedef struct fl_decl_misfit {
  fl_decl_misfit_kind kind;
  const fl_decl_param *p;
  int at;
  int64_t element;
} fl_decl_misfit;

/* Is the table at i a table of options: not an object, and with a string key? */
int fl_declare_is_options(lua_State *L, int i);
/* Is the value at i an object of the class with this name, or of one derived from it? */
int fl_declare_is_of_class(lua_State *L, fl_decl_span name, int i);
/* Is the function at i, written in Lua, declared as a method or a constructor? 0 also if it was
** never called, since its declaration is then not parsed. */
int fl_declare_has_self(lua_State *L, int i);
/* Pushes all forms (parameter lists) in one line, each after the name 'op'. (declare_say.c) */
const char *fl_declare_forms(lua_State *L, const fl_declared *d, const char *op);
/* Raises: the n arguments fit no form. why: for each form what does not fit. (declare_say.c) */
int fl_declare_refuse(lua_State *L, const fl_declared *d, const fl_decl_misfit *why, int n,
    const char *op) __attribute__((noreturn));
/* Must a number of this kind be an integer? */
static inline int fl_declare_is_whole(fl_decl_atom_kind kind) {
  return kind == FL_ATOM_INT || kind == FL_ATOM_AXIS || kind == FL_ATOM_AXES ||
    kind == FL_ATOM_DIMS;
}
static inline int fl_declare_takes_list(const fl_decl_atom *a) {
  return a->list || a->kind == FL_ATOM_AXES || a->kind == FL_ATOM_DIMS;
}
static inline int fl_decl_same(fl_decl_span a, const char *b, size_t n) {
  return (size_t)a.n == n && memcmp(a.at, b, n) == 0;
}
/* The text of a form after the name, since the function may have another name, such as name_. */
static inline fl_decl_span fl_declare_takes(const fl_decl_form *f) {
  const int head = (int)strcspn(f->text.at, "(");
  return (fl_decl_span){ f->text.at + head, f->text.n - head };
}
static inline const fl_decl_param *fl_declare_rest(const fl_declared *d,
    const fl_decl_form *f) {
  return f->rest == 1 ? &d->param[f->param + f->nparams] : NULL;
}

#endif
