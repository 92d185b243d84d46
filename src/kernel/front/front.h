/*
** The front end's state and functions. It checks types and builds the tree as it reads the tokens.
** A call of a __device__ function is inlined by reading its tokens again in a separate scope. The
** first error is kept (fl_refuse: the text "is refused") and makes every later token END, so that
** all loops of the parser end; functions need to test for it only where they would use a NULL.
** Depth of the C stack is bounded by 'nest'.
*/
#ifndef FL_KERNEL_FRONT_H
#define FL_KERNEL_FRONT_H
#include "kernel/tree/builtins.h"
#include "kernel/front/lexer.h"
#include "kernel/front/source.h"
#include "kernel/front/types.h"

/* ---- values while an expression is read ---------------------------------------------------- */
typedef enum {
  FL_V_NONE,        /* failed, or void */
  FL_V_EXPR,        /* a scalar: e */
  FL_V_PLACE,       /* an object of 'type' (an lvalue unless 'rvalue') */
  FL_V_POINTER,     /* address of an object; 'type' is the type of that object */
  FL_V_PARTS,       /* value of a struct without arrays and pointers: parts[leaf] */
  FL_V_LIST         /* { … } at token 'at', not read yet */
} fl_vkind;

/* Where an object lies. LEAF (linear 0): each leaf (scalar or array) of the declared object is a
** separate variable; those of this object begin at var; idx counts elements along the dimensions
** indexed so far. LINEAR (linear 1): all scalars are in one variable; idx counts them, or smaller
** units ('unit'). idx NULL: 0. */
typedef struct fl_cvalue {
  uint8_t kind, linear, is_const, rvalue;
  uint8_t null, list;   /* POINTER. null: it is null. list: if > 0, it points to the first of so
                        ** many pointers, the arrays 'var' and following: a "T **" */
  uint8_t torn;   /* PLACE or a choice (either): an argument that another argument changes, as x in
                  ** f(x, x++). It may be bound to a reference; a read gives its old value, in 'e'
                  ** or 'parts' (NULL: it is refused) */
  uint8_t unit;           /* LINEAR: the unit of idx in bytes; 0: the size of an element (view.c) */
  uint8_t member;   /* LEAF: one of several leaves of a struct; the next is in another variable */
  uint8_t address;  /* POINTER: the number that __cvta_generic_to_shared gives: bytes (shared.c) */
  uint8_t moved;    /* PLACE: an xvalue (a T && without a name): "T &&" deduces T, not T & */
  uint8_t named;    /* EXPR: it is a const variable with this constant value, so an lvalue */
  int32_t sym;      /* POINTER: 1 + index of the pointer variable's symbol, to assign it; or 0 */
  const fl_ctype *type;
  fl_kexpr *when;   /* POINTER: a BOOL that is false where it is null; NULL: only 'null' tells */
  fl_kexpr *e;
  int32_t var;
  fl_kexpr *idx;
  fl_kexpr **parts;
  union {
    int64_t at;              /* LIST */
    const struct fl_keither *either; /* not LIST: it is the value of "c ? x : y" of two lvalues
                                     ** (choose.c), or of "x = e" (x twice); NULL: of neither */
  };
} fl_cvalue;
/* The lvalues of "c ? x : y". c NULL: it can not be used as an lvalue, since an arm has effects. */
typedef struct fl_keither { fl_kexpr *c; fl_cvalue x, y; } fl_keither;

/* ---- names ----------------------------------------------------------------------------------- */
typedef enum {
  FL_SYM_OBJECT,    /* an object: v is its place */
  FL_SYM_POINTER,   /* pointer variable: v is what it points to; offset: the variable that holds its
                    ** index, or -1 (never assigned again); v.type NULL: no value yet */
  FL_SYM_REFERENCE, /* another name of v */
  FL_SYM_CONSTANT,  /* v is a constant; if v.named, the value of a const variable */
  FL_SYM_TABLE,     /* constant array or struct, values in 'data'; first use makes variables */
  FL_SYM_MEMORY,    /* variable of file scope: a further parameter of kernels that use it */
  FL_SYM_DYNAMIC,   /* extern __shared__ at file scope: elements of 'type' */
  FL_SYM_SHARED,    /* __shared__ at file scope */
  FL_SYM_TYPE, FL_SYM_FUNCTION,
  FL_SYM_TEMPLATE,  /* class, alias or variable template: 'structs' */
  FL_SYM_SPACE,     /* a namespace; the names declared in it are symbols without its prefix */
  FL_SYM_PACK,    /* parameter pack: n_inner symbols in 'inner', or, if NULL, variables (pack.c) */
  FL_SYM_TEXT,      /* a string literal for printf: its characters are in 'why' */
  FL_SYM_WRONG      /* a declared name that is outside the language, for the reason 'why' */
} fl_symkind;

typedef struct fl_symbol fl_symbol;
/* Symbols low … high - 1 are visible in a lambda where its own symbols do not hide them. */
typedef struct fl_kscope { int64_t low, high; const struct fl_kscope *up; } fl_kscope;

typedef struct fl_ktparam {      /* parameter of a template: a type, or a constant of 'type' */
  const char *name;
  const fl_ctype *type;          /* NULL: it is a type. VOID: any type (auto, or see below) */
  int64_t init;                  /* token of its default; 0: none; -1: nullptr, if 'check' is set */
  int is_pack;
  int is_template;               /* it is a template of structs ('type' is VOID) */
  int64_t typed;                 /* token that names an earlier parameter as its type; 0: none */
  int64_t check;                 /* token of an enable_if that must have a type; 0: none */
} fl_ktparam;
typedef enum { FL_RETURNS_VALUE, FL_RETURNS_PLACE, FL_RETURNS_POINTER } fl_kreturns;
typedef struct fl_kformal {
  const char *name;
  const fl_ctype *type;          /* NULL: auto, or a function */
  uint8_t by_reference, is_const;         /* by_reference: 1: T &, 2: T && */
  uint8_t is_function;         /* a pointer to a function: its value is an object, as for lambdas */
  uint8_t late;      /* a later declaration gives its default: only calls after that may use it */
  int64_t init;                  /* token of its default; 0: none */
} fl_kformal;

/* A function that is inlined where it is called: a free function, a member, a constructor (result
** void), a lambda, or a template of one of these. Its tokens are read again at each call. */
typedef struct fl_kdevice {
  const char *name;
  int32_t line, n_params;
  const fl_ctype *result;        /* NULL: auto */
  fl_kformal *params;
  int64_t head, open;            /* its first token, its '(' */
  int64_t inits, body;           /* ':' of a constructor (0: none), '{' (-1: none; 0: "= …") */
  int64_t arrow;                 /* token of the type after '->'; 0: none */
  int busy;                      /* it is being inlined: a call of it is recursion */
  const char *why;               /* why it cannot be called; NULL: it can */
  uint8_t returns, moves, of_const;  /* the result: fl_kreturns; a T &&? a reference to const? */
  uint8_t is_static, is_const, is_maker, is_explicit;     /* for members; is_static 2: a friend;
                                 ** is_maker: a constructor */
  uint8_t on_device;             /* it says __device__ */
  uint8_t opened;                /* may a 'using' bring it elsewhere? 1: no; 0: not known */
  const fl_ctype *owner;         /* the struct it is a member of; NULL: none */
  fl_ktparam *tparams;           /* of a template: its parameters */
  int32_t n_tparams, n_special, n_given;
  fl_symbol *special;            /* arguments of an explicit specialisation */
  const fl_symbol *given;        /* the first arguments of a template that is a value, "f<…>" */
  fl_symbol *env;         /* names visible inside: template arguments, captures of a lambda */
  int64_t n_env;
  const fl_kscope *scope;        /* of a lambda */
  const char *pack;         /* name of the pack (NULL: it has none) of the last n_pack parameters */
  int n_pack;
  int64_t declared;    /* of a template that is declared before it is defined (in its struct, in the
                       ** file): the '(' there, for defaults of the formals; 0: it is none */
  const fl_ktparam *names;       /* the parameters of the template as named there; NULL: as here */
  struct fl_kdevice *next;       /* overload of the same name */
} fl_kdevice;

/* What a struct has in addition to its fields. */
typedef struct fl_kmembers {
  fl_symbol *inner;   /* functions (constructors: FL_MAKER), constants, types, template arguments */
  int64_t n_inner, *inits;       /* tokens '=' or '{' of the fields' defaults; 0: none */
  const struct fl_kuse *uses;    /* inherit.h */
  int has_inits, plain;  /* plain: there is "V() = default", or no constructor but inherited ones */
  int64_t at;                    /* its first token after the name */
  const struct fl_kmembers *around;  /* members of the enclosing struct, visible here; or NULL */
  const struct fl_ktemplate *of; /* the template that it is an instance of; NULL: none */
  int n_args;  /* how many symbols at the start of 'inner' are no members: arguments of the template
               ** and of its partial specialisation, and names around a member template */
} fl_kmembers;
#define FL_MAKER "()"
#define FL_CONVERTS "operator T"      /* name of conversion operators, to their results */

typedef struct fl_kpattern {     /* a partial specialisation */
  fl_ktparam *tparams;
  int32_t n_tparams;
  int64_t pattern, at;           /* token of its '<', and the token after '>' */
  struct fl_kpattern *next;
} fl_kpattern;

typedef struct fl_ktemplate {    /* a class, alias or variable template */
  int is_alias;                  /* it is another name of a type: 'at' is the token of that type */
  int is_value;                  /* it is a constant: 'at' is the first token of the declaration */
  int64_t align;                 /* token of alignas(…), 0: none */
  fl_kpattern *patterns;
  const char *name;
  fl_ktparam *tparams;
  int32_t n_tparams;
  int64_t at;                    /* of a struct: the token after its name */
  const fl_symbol *outer;       /* of a member template: the names of the enclosing struct so far */
  int64_t n_outer;
  struct fl_koutside *outside;   /* definitions of its functions (outside.c) */
  struct fl_kinstance {
    fl_symbol *args;
    const fl_ctype *type;  /* as *type of fl_member_struct; NULL: not read yet, or not readable */
    int64_t at;                  /* of a specialisation: as 'at' of the template; 0: it is none */
    uint8_t is_const, ref;       /* of an alias, as in fl_symbol */
    int busy;                    /* being read */
    struct fl_kinstance *next;
  } *instances;
} fl_ktemplate;

typedef struct fl_kcall {        /* a call to be resolved */
  const fl_cvalue *self;          /* NULL: of no object */
  const fl_cvalue *args; int n;
  const fl_symbol *given;        /* explicit template arguments */
  int n_given, in_angles, depth;  /* in_angles: there is a <…>, perhaps empty. depth: scope.h */
  const fl_cvalue *result;       /* for a specialisation: a value of the type that it returns */
  int32_t line;
  const fl_ktok *name;    /* as written, if functions of other namespaces are not meant; or NULL */
} fl_kcall;

struct fl_symbol {
  const char *name;
  int32_t n, line;           /* n: length of the name */
  uint8_t kind, late, of_base;   /* late: fl_klate (scope.h); of_base: a member of a base */
  fl_cvalue v;
  int32_t offset, may_be_null;  /* POINTER: variable of its index; does assigning it set v.when? */
  uint8_t is_const, ref;     /* TYPE: the name is for "const T", for T & (1) or T && (2), where
                             ** 'type' is T; "const T &" has both */
  const fl_ctype *type;      /* TYPE, TABLE … SHARED: its type; POINTER: that of what it points to;
                             ** FUNCTION: its type as a value, or NULL */
  const fl_kvalue *const *data;          /* TABLE: by leaf */
  const fl_kfunc *of;        /* TABLE … SHARED: v has been made in this kernel */
  fl_kdevice *device;        /* FUNCTION: the first overload */
  fl_ktemplate *structs;     /* TEMPLATE */
  const fl_symbol *inner;    /* TYPE: enumerators; PACK: elements; WRONG: types in it */
  int64_t n_inner;
  const char *why;
  const struct fl_kspace *space;       /* the namespace of a name of the file (scope.h) */
  struct fl_kchoice *choice;           /* WRONG: the names of several namespaces that it may be */
};

/* ---- the parser ------------------------------------------------------------------------------ */

enum { FL_BREAK_NONE, FL_BREAK_LOOP, FL_BREAK_SWITCH };
enum { FL_K_MAX_GIVEN = 48, FL_K_MAX_TPARAMS = 24 };   /* arguments of a call, of a template */
enum { FL_K_MAX_NODES = 100000, FL_K_MAX_ARRAY = 1 << 24, FL_K_MAX_INLINE = 64 };

typedef struct fl_kstored fl_kstored; typedef struct fl_kheld fl_kheld;
typedef struct fl_front {
  fl_karena *a;
  fl_ksource *src;
  fl_ktoks toks;
  int64_t at;
  fl_ktok end;               /* the token that is read after a refusal */
  struct { fl_symbol *at; int64_t n; int32_t cap; } syms;    /* readable while more are added */
  int64_t globals, frame;    /* number of symbols of the file; first symbol of this function */
  const fl_kscope *up;       /* symbols of the scopes around a lambda, searched after its own */
  fl_kfunc *f;               /* kernel being read; NULL: file scope */
  fl_kblock *b;              /* statements are added here; NULL: nothing with effects is allowed */
  const fl_symbol *enumerators; int64_t n_enumerators;    /* of the type that was read last */
  uint8_t type_const, type_ref;   /* is_const and ref (fl_symbol) of the type that was read last */
  int32_t template_line;     /* line of the first kernel that is a template; 0: none */
  int failed; int32_t line; const char *why;      /* refused; the line and reason of the refusal */
  int sized;                 /* fl_refuse_size refused it */
  int absent;    /* refused since a struct lacks the type or constant that is named, or a template
                 ** can not have these arguments: a candidate is dropped then (fl_pattern_drops) */
  const fl_ctype *among;     /* the struct whose names fl_scope_prefix gave last; NULL: of none */
  int64_t qualified;         /* token after a name with a prefix that was a field of *this */
  int nest, inlined;         /* depth of nesting (fl_front_enter); of calls that are inlined */
  int dead;                  /* > 0: an arm of ?: is read that a constant condition drops */
  int breaks, continues;     /* FL_BREAK_*: what break means here; whether continue is allowed */
  int32_t break_label, return_label;    /* of the BLOCKs that break and return leave */
  const fl_kdevice *inside;  /* the function being inlined; NULL: in the kernel */
  fl_cvalue returned;  /* result of 'inside'; its type may be set by the first return (auto, T &) */
  fl_kblock *outside;        /* the block before its body */
  int statement;             /* the next assignment is a whole statement: its value is unused */
  int64_t statement_call;    /* token of a name whose call is a whole statement; -1: none */
  int outer;                 /* the next unary expression begins a whole statement */
  int64_t nodes;             /* statements and inlined calls so far */
  int64_t shared_at;         /* bytes of static shared memory so far */
  fl_kvalue **table;   /* initialisers are collected here (by leaf); NULL: they become statements */
  int half;                  /* the first '>' of a '>>' at the tokens has been taken */
  int64_t scope;             /* first symbol of the block being read */
  int pack;                  /* 1 + the element of packs (T... v) that is being expanded; 0: none */
  fl_kstored *stored;        /* objects whose elements have another type than declared (view.c) */
  int restored, as_declared; /* must the body be read again with 'stored'? is it read without? */
  int angle;            /* inside <…>, outside of brackets there: '>' and '>>' end the expression */
  int spaces;                /* there are namespaces, so a name may stand for two things */
  struct fl_kspan *spans; int64_t n_spans;       /* where they begin and end (scope.c) */
  int bare;                  /* fl_ktype of floating literals without suffix; VOID: f64 */
  struct fl_kturn *turns;    /* pointers into one of several arrays (turn.c) */
  fl_kheld *held;            /* pointers that are members (held.c) */
  const char *forms;         /* what is known of arguments (fl_ksource_parse_until) */
  int turning, turn_wanted;  /* pointers into several arrays: allowed? needed? 2: structs too */
  const fl_ctype *vectors[64]; int n_vectors;
} fl_front;

/* ---- front.c: tokens, names, refusals -------------------------------------------------------- */

const fl_ktok *fl_front_tok(fl_front *p);                     /* the current one */
const fl_ktok *fl_front_ahead(fl_front *p, int k);            /* the k-th after the current one */
const fl_ktok *fl_front_next(fl_front *p);                    /* takes the current one */
int fl_front_is(fl_front *p, int punct);
int fl_front_is_at(fl_front *p, int k, int punct);
int fl_front_take(fl_front *p, int punct);                    /* 1: was there, taken */
int fl_front_need(fl_front *p, int punct);                /* refuses if the punctuator is missing */
int fl_front_word(fl_front *p, const char *word);             /* 1: was there, taken */
const char *fl_front_name(fl_front *p);                       /* takes a name, or refuses */
int fl_front_enter(fl_front *p);    /* adds 1 to p->nest; 0: too deep, or the text was refused */
void fl_front_skip(fl_front *p);                              /* skips a balanced (…), […] or {…} */
int fl_front_past(fl_front *p, int k);       /* the k after the (…), […] or {…} at token at + k */
/* Skips to the punctuator a or b, or to the end; what is in brackets does not count. */
void fl_front_skip_to(fl_front *p, int a, int b);
void fl_front_seek(fl_front *p, int a, int b);    /* skips to a or b, also within brackets */
void fl_refuse(fl_front *p, int32_t line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Refuses a text that no compiler accepts, being too large or wrong; none gets it (bounds.c). */
void fl_refuse_size(fl_front *p, int32_t line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void fl_refuse_bad(fl_front *p, const fl_ktok *t);           /* for a token of kind BAD */
/* Is there room for item n of a fixed list? 0: refused ("at most 'most' 'what'"), now or before. */
int fl_front_room(fl_front *p, int64_t n, int64_t most, const char *what);
/* Called after building x: if the arena has failed, the text is refused. Returns x. */
fl_kexpr *fl_front_check(fl_front *p, fl_kexpr *x);
fl_symbol *fl_front_find(fl_front *p, const char *name, int32_t n);    /* NULL: not visible here */
fl_symbol *fl_front_named(fl_front *p, const fl_ktok *t);   /* NULL too if t is no name */
/* The parser's state, saved while it reads tokens elsewhere, in a separate scope that sees the
** file's names and those of 'up' (NULL: none). */
typedef struct fl_kbookmark {
  int64_t at, frame, syms; const fl_kscope *up; int half, angle, pack, nest;
} fl_kbookmark;
fl_kbookmark fl_front_open(fl_front *p, int64_t at, const fl_kscope *up);
void fl_front_close(fl_front *p, fl_kbookmark back);
/* An attempt to read. fl_front_undo goes back to it and forgets a refusal since; 0: it can not, as
** fl_refuse_size was called or memory is out. */
typedef struct fl_kattempt { int64_t at, syms; int nest, half, angle; } fl_kattempt;
fl_kattempt fl_front_try(const fl_front *p);
int fl_front_undo(fl_front *p, const fl_kattempt *from);
void fl_front_push(fl_front *p, const fl_symbol *list, int64_t n);
const fl_symbol *fl_front_among(const fl_symbol *list, int64_t n, const char *name, int32_t length);
/* The symbol of the list that the token t names, which may stand behind "a::"; NULL: none. */
const fl_symbol *fl_front_in(fl_front *p, const fl_symbol *list, int64_t n, const fl_ktok *t);
fl_symbol fl_front_symbol(const char *name, int kind);
fl_symbol *fl_front_add(fl_front *p, const char *name, int kind);    /* valid until the next add */
/* fl_front_add for a name that stands for v; NULL if the text was refused, or memory is out. */
fl_symbol *fl_front_bind(fl_front *p, const char *name, int kind, fl_cvalue v);
/* The description of a word that is outside the language where the parser has found no use for it,
** with its verb ("goto is", "volatile is"); NULL: t is no such word. */
const char *fl_front_reserved(const fl_ktok *t);

/* ---- meant.c ---- */

/* "; did you mean 'x'?", or "". */
const char *fl_front_meant(fl_front *p, const fl_ktok *t);
const char *fl_field_meant(fl_front *p, const fl_ctype *type, const char *name, int32_t n);
void fl_refuse_call(fl_front *p, const fl_ktok *name, const fl_kdevice *first, const fl_kcall *c);
fl_cvalue fl_refuse_count(fl_front *p, const fl_ktok *t, int want, int n);    /* (warp.c) */

/* ---- decl.c, declare.c, object.c: types and declarations ------------------------------------- */

typedef struct fl_specifiers {
  const fl_ctype *type;      /* NULL: refused */
  uint8_t is_const, is_static, is_extern, is_shared, is_constant, is_global, is_device, is_typedef,
          is_auto, is_volatile, any,      /* is_const: const or constexpr; any: any qualifier */
          is_constexpr, is_mutable;       /* is_constexpr: and not const */
  uint8_t ref, of_const;     /* of the name of a type, as ref and is_const of fl_symbol */
  int32_t max_threads;       /* of __launch_bounds__; 0: none */
} fl_specifiers;
int fl_decl_starts(fl_front *p, int k);             /* does a type begin at token p->at + k? */
fl_specifiers fl_decl_specifiers(fl_front *p);
/* Takes '*', '&' and qualifiers after the specifiers; *ref: 1 after &, 2 after &&, else s->ref. */
const fl_ctype *fl_decl_pointers(fl_front *p, const fl_specifiers *s, int *ref);
const fl_ctype *fl_decl_arrays(fl_front *p, const fl_ctype *t);      /* [N][M]… after the name */
/* Takes "(*name)(…)" after type t, or a name after a function type. 0: neither. */
int fl_decl_function(fl_front *p, const fl_ctype *t, const char **name);
/* Takes what follows a parameter's specifiers; an array becomes a pointer. *name NULL: no name. */
const fl_ctype *fl_decl_parameter(fl_front *p, const fl_specifiers *s, const char **name, int *ref);
/* Takes "(*name)[N]" or "(&name)[N]" with elements of type t at the tokens and returns the array;
** *ref: 1 for the second. *name NULL: it has no name. NULL: it is neither (nothing is taken), or it
** was refused. */
const fl_ctype *fl_decl_of_array(fl_front *p, const fl_ctype *t, int *ref, const char **name);
/* Refuses a t whose types are nested too deep; 0: refused, now or before. */
int fl_decl_depth(fl_front *p, const fl_ctype *t);
const fl_ctype *fl_decl_type_name(fl_front *p);              /* without a name, as in casts */
void fl_decl_local(fl_front *p);                             /* a declaration statement */
void fl_decl_one(fl_front *p);                               /* "T v = e", without ';' */
void fl_decl_global(fl_front *p, fl_specifiers s);           /* after the specifiers, to ';' */
int64_t fl_decl_alignment(fl_front *p);      /* takes __align__(…), alignas(…); 0: there are none */
/* fl_decl_dynamic: declares extern __shared__ T name[] and returns a pointer to its start. */
fl_cvalue fl_decl_shared(fl_front *p, const fl_ctype *t, const char *name, int32_t line);
fl_cvalue fl_decl_dynamic(fl_front *p, const fl_ctype *t, const char *name, int32_t line);
fl_cvalue fl_decl_object(fl_front *p, const fl_ctype *t, const char *name, int32_t line);
/* fl_decl_formal: declares a formal parameter of the function with its body at token 'body'. It
** becomes an array if fl_decl_counted: it is a vector that the body accesses as an array. */
int fl_decl_counted(fl_front *p, const fl_ctype *t, const char *name, int64_t body);
fl_cvalue fl_decl_formal(fl_front *p, const fl_ctype *t, const char *name, int64_t body,
                         int32_t line);
int fl_decl_numbers(fl_front *p, const fl_ctype *t, fl_kvkind kind, const char *name,
                    fl_cvalue *out, int32_t line);
fl_cvalue fl_decl_make(fl_front *p, const fl_ctype *t, const char *name, fl_kvkind kind,
                       int32_t line);
/* t, with the elements of "a[] = {…}" counted */
const fl_ctype *fl_decl_sized(fl_front *p, const fl_ctype *t, int32_t line);
/* Declares a constant array or struct from the list at the tokens. 0: the list is not constant:
** refused, but by fl_decl_try_table, which takes no token then. */
int fl_decl_table(fl_front *p, const fl_ctype *t, const char *name, int32_t line);
int fl_decl_try_table(fl_front *p, const fl_ctype *t, const char *name, int32_t line);
void fl_decl_zero(fl_front *p, fl_cvalue place, int32_t line);
void fl_vector_set(fl_front *p, fl_cvalue to, const fl_cvalue *args, int32_t line); /* v(a, b) */
/* A vector of n values; those that are missing are 1, as in dim3(a). */
fl_cvalue fl_vector_of(fl_front *p, const fl_ctype *t, const fl_cvalue *args, int n, int32_t line);
void fl_decl_fill(fl_front *p, fl_cvalue place);     /* initialises it from {…} at the tokens */
fl_cvalue fl_decl_list(fl_front *p, const fl_ctype *t, int32_t line);   /* a new object from it */
int64_t fl_decl_constant(fl_front *p, const char *what);     /* a constant integer expression */
/* Takes "__launch_bounds__(…)": the threads per block; 0: they are not known. */
int32_t fl_decl_bounds(fl_front *p);
void fl_decl_assert(fl_front *p);                            /* takes a static_assert in a body */

/* ---- device.c, overload.c, call.c: functions; scope.c; member.c, convert.c: structs; lambda.c */

/* Scans a function that begins at the tokens: its name, its parameters as tokens
** (fl_device_signature reads their types) and where its body is. owner: the name of its struct, or
** NULL. Returns NULL if it is not a function (nothing is taken) or was refused. */
fl_kdevice *fl_device_scan(fl_front *p, const char *owner);
void fl_device_formals(fl_front *p, fl_kdevice *d);     /* after '(', takes ')' */
void fl_device_tail(fl_front *p, fl_kdevice *d);   /* reads from after ')' to the end of the body */
void fl_device_signature(fl_front *p, fl_kdevice *d);   /* reads result and formals */
void fl_device_result(fl_front *p, fl_kdevice *d, const fl_ctype *t,
                      const fl_specifiers *s, int ref);
/* Adds d under its name to the symbols from 'from' on. */
void fl_device_list(fl_front *p, fl_kdevice *d, int64_t from);
/* The function or instance to call; NULL: none, or refused. *fit (fit may be NULL): how the
** arguments fit it. FITS_NOT: one at least is converted, or there is none. */
enum { FL_FITS_NOT, FL_FITS_PROMOTED, FL_FITS };
fl_kdevice *fl_overload(fl_front *p, fl_kdevice *first, const fl_kcall *c, int *fit);
fl_cvalue fl_inline(fl_front *p, fl_kdevice *d, const fl_kcall *c);

/* Reads a struct from '{' or the ':' of its bases to '}'. of, args: the template it is an instance
** of, or NULL. *type is set before the signatures of its functions are read, since they may name
** it; it may be the struct as it was declared before. */
const fl_ctype *fl_member_struct(fl_front *p, const char *name, int64_t align,
                                 const fl_ktemplate *of, const fl_symbol *args, int n_args,
                                 const fl_ctype **type);
/* A new variable with the result of over->name(): begin() or end() of a range-based for. */
fl_cvalue fl_member_bound(fl_front *p, const fl_cvalue *over, const char *name, int32_t line);
const fl_symbol *fl_member_find(const fl_ctype *t, const char *name, int32_t n);
fl_kdevice *fl_member_functions(const fl_ctype *t, const char *name);     /* NULL: none */
int fl_member_made(const fl_ctype *t);           /* does an object of type t need fl_member_make? */
int fl_member_has_maker(const fl_ctype *t);
void fl_member_make(fl_front *p, fl_cvalue place, const fl_cvalue *args, int n, int32_t line);
void fl_member_default(fl_front *p, fl_cvalue place, int64_t i, int32_t line);   /* inits field i */
/* Adds the names that member function d sees of its object to the scope; self NULL: of no object */
void fl_member_open(fl_front *p, const fl_kdevice *d, const fl_cvalue *self);
int fl_member_derives(const fl_ctype *t, const fl_ctype *from);   /* from: a base of t, or t? */
/* fl_member_as: the base of v of that type; v itself if it has none. fl_member_whole: for v, which
** points to a base of an object of type t, a pointer to that object. */
fl_cvalue fl_member_as(fl_front *p, fl_cvalue v, const fl_ctype *base, int32_t line);
fl_cvalue fl_member_whole(fl_front *p, fl_cvalue v, const fl_ctype *t, int32_t line);
/* The member of that name of v or of one of its bases. */
fl_cvalue fl_member_part(fl_front *p, fl_cvalue v, const char *name, int32_t n, int32_t line);
void fl_member_copy(fl_front *p, fl_cvalue to, fl_cvalue from, int32_t line);   /* to: new */
/* fl_member_makes: the constructor that converts 'from' to t. fl_member_converts: the conversion
** operator of t, if it has only one and that gives a number. NULL: none. */
fl_kdevice *fl_member_makes(fl_front *p, const fl_ctype *t, const fl_cvalue *from);
const fl_kdevice *fl_member_converts(const fl_ctype *t);
/* v converted by its "operator T *()"; v itself if it has none */
fl_cvalue fl_member_pointer(fl_front *p, fl_cvalue v, int32_t line);
/* v converted by fl_member_converts; v itself if that gives none */
fl_cvalue fl_member_plain(fl_front *p, fl_cvalue v, int32_t line);
void fl_member_inits(fl_front *p, const fl_kdevice *d, fl_cvalue self);       /* of a constructor */
fl_cvalue fl_member_call(fl_front *p, fl_cvalue self, const char *name, int32_t n,
                         int32_t line);                                     /* at '(' or '<' */
fl_cvalue fl_parse_lambda(fl_front *p);                       /* at '[' */

/* ---- bounds.c ---- */

void fl_front_bounds(fl_front *p);  /* before bodies are read: finds what is too large to compile */
void fl_front_note_size(fl_front *p);   /* if fl_refuse_size was called: sets too_large of p->src */

/* ---- unread.c ---- */

void fl_front_skip_declaration(fl_front *p, int64_t from);
const fl_ktok *fl_front_unread_name(fl_front *p, int64_t from, int *is_kernel);
/* Takes "using", "typedef", "struct V { … };" or "template <…> struct V …" among members: 1: read,
** or noted as outside the language. The struct's names begin at symbol 'mark'. */
int fl_member_type(fl_front *p, int64_t mark);

/* ---- value.c: places and conversions --------------------------------------------------------- */

fl_cvalue fl_val_expr(fl_kexpr *e);
fl_cvalue fl_val_none(void);
/* A value of the struct t, whose parts the caller sets; kind NONE: no memory. */
fl_cvalue fl_val_in_parts(fl_front *p, const fl_ctype *t);
/* Refuses the text; returns fl_val_none(). */
fl_cvalue fl_val_refuse(fl_front *p, int32_t line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static inline int fl_val_is_object(fl_cvalue v) {             /* of a struct */
  return (v.kind == FL_V_PLACE || v.kind == FL_V_PARTS) && v.type->kind == FL_C_STRUCT;
}
static inline int fl_val_is_address(fl_cvalue v) {                /* a pointer or an array */
  return v.kind == FL_V_POINTER ||
         (v.kind == FL_V_PLACE && (v.type->kind == FL_C_POINTER || v.type->kind == FL_C_ARRAY));
}
fl_kexpr *fl_val_at(fl_front *p, const fl_cvalue *v);         /* idx, or 0 */
fl_kexpr *fl_val_with(fl_front *p, int op, fl_kexpr *x, int64_t y);     /* x op y, of x's type */
fl_cvalue fl_val_field(fl_front *p, fl_cvalue v, int64_t i, int32_t line);    /* of a struct */
/* v as an object: v itself if it is a PLACE, else a new object with its value. */
fl_cvalue fl_val_stored(fl_front *p, fl_cvalue v, int32_t line);
/* the value of v, which is loaded if v is an lvalue */
fl_kexpr *fl_val_scalar(fl_front *p, fl_cvalue v, int32_t line);
fl_kexpr *fl_val_truth(fl_front *p, fl_cvalue v, int32_t line);     /* as a condition: BOOL */
int fl_val_is_null(const fl_cvalue *v);                             /* is it known to be null? */
void fl_val_asked(fl_front *p, const fl_cvalue *v, int32_t line);   /* notes a test for null */
fl_kexpr **fl_val_parts(fl_front *p, fl_cvalue v, int32_t line);    /* leaves of a struct */
fl_kexpr *fl_val_convert(fl_front *p, fl_kexpr *e, int type);
fl_cvalue fl_val_member(fl_front *p, fl_cvalue v, const char *name, int32_t n, int32_t line);
fl_cvalue fl_val_index(fl_front *p, fl_cvalue v, fl_kexpr *i, int32_t line);
fl_cvalue fl_val_pointer(fl_front *p, fl_cvalue v, int32_t line);      /* arrays decay */
fl_cvalue fl_val_deref(fl_front *p, fl_cvalue v, int32_t line);
fl_cvalue fl_val_address(fl_front *p, fl_cvalue v, int32_t line);
fl_cvalue fl_val_advance(fl_front *p, fl_cvalue v, fl_kexpr *by, int negative, int32_t line);
/* Puts the index of v in a temporary if it reads what an assignment to the object 'to', member by
** member, writes. */
void fl_val_settle(fl_front *p, fl_cvalue *v, const fl_cvalue *to);
void fl_val_assign(fl_front *p, fl_cvalue to, fl_cvalue from, int32_t line);
void fl_val_store(fl_front *p, fl_cvalue to, fl_kexpr *e, int accumulate, int32_t line);
/* The variable that an atomic through pointer v changes, with the element's index; *type: the type
** that v points to. -1: refused. */
int32_t fl_val_target(fl_front *p, fl_cvalue v, fl_kexpr **index, int *type, int32_t line);
int fl_front_temp(fl_front *p, int type, int32_t line);   /* a LOCAL with its DECL; -1: no memory */
fl_kexpr *fl_val_stable(fl_front *p, fl_kexpr *e);  /* e in a temporary; constants stay */
/* for (i = from; i < n; i++): the loop, whose body is to be filled, and i; NULL: no memory. */
fl_kstmt *fl_emit_count(fl_front *p, int64_t from, fl_kexpr *n, fl_kexpr **i, int32_t line);
int fl_arith_type(int a, int b);                          /* usual arithmetic conversions */
int fl_promote_type(int a);

/* ---- memory.c: variables of file scope ------------------------------------------------------- */

/* Declares a variable of type t; constant: the script sets it before launches. */
void fl_memory_declare(fl_front *p, const fl_ctype *t, const char *name, int constant,
                       int32_t line);
fl_cvalue fl_memory_use(fl_front *p, fl_symbol *s, int32_t line);
void fl_memory_settle(fl_kfunc *f);  /* after the body: sets is_const of these and of spread.c's */
void fl_memory_compare(fl_ksource *s);                       /* sets fl_kparam.shared */

/* ---- view.c: memory seen as numbers of another type ------------------------------------------ */

/* The element type that view.c gives to the object declared at the tokens; VOID: that of its
** declaration. */
int fl_view_stored(const fl_front *p, const char *name);
/* Notes that the variables from 'var' on are the object of type t declared at the tokens. */
void fl_view_settle(fl_front *p, const fl_ctype *t, const char *name, int32_t var, int32_t n);
fl_cvalue fl_view_chosen(fl_front *p, int type, int32_t line);       /* a number that an IF sets */
/* Requests elements of type 'want' for the object of variable 'var'. leaf: LEAF if each scalar or
** array in the object has a variable; CAST if in addition a pointer to it is cast. Returns 1 if the
** object gets such elements, for which the body is then read again. */
enum { FL_VIEW_LEAF = 1, FL_VIEW_CAST };
int fl_view_note(fl_front *p, int32_t var, int want, int leaf);
/* The size of a value of type t, or of 'bytes' bytes, in the units of v.idx. */
int64_t fl_view_units(fl_front *p, const fl_cvalue *v, const fl_ctype *t, int32_t line);
int64_t fl_view_units_in(const fl_front *p, const fl_cvalue *v, int64_t bytes);
void fl_view_meet(fl_front *p, fl_cvalue *x, fl_cvalue *y);   /* gives x and y the same unit */
void fl_view_as(fl_front *p, fl_cvalue *v, const fl_ctype *to);   /* v counts scalars of type to */
fl_kexpr *fl_view_element(fl_front *p, const fl_cvalue *v);       /* of the variable */
fl_kexpr *fl_view_read(fl_front *p, const fl_cvalue *v, int32_t line);
void fl_view_write(fl_front *p, const fl_cvalue *to, fl_kexpr *e, int32_t line);
/* Copies element by element. 0: nothing is copied, since neither is a view (memory of elements of
** another type), their elements differ, or they are too many. */
int fl_view_copy(fl_front *p, const fl_cvalue *to, const fl_cvalue *from, int32_t line);
fl_kexpr *fl_view_bits(fl_front *p, fl_kexpr *e, int to);    /* e's bits as a 'to' of that size */
/* The real number of type 'to' that the bits e are, if they were made from one and at most its sign
** was changed: "__int_as_float(__float_as_int(x) ^ s << 31)" is x * (s & 1 ? -1 : 1). Else NULL. */
fl_kexpr *fl_view_real(fl_front *p, fl_kexpr *e, int to);
void fl_align_check(fl_front *p, const fl_cvalue *v, int32_t line);   /* align.c: v is accessed */
void fl_align_forget(fl_front *p, const fl_kstmt *before);    /* only its address is taken */

/* ---- order.c: what is evaluated before what -------------------------------------------------- */

/* The place in a block at which the statements of an operand begin; vars: fl_kfunc.n_vars there. */
typedef struct fl_kmark { fl_kblock *b; fl_kstmt *last; int32_t vars; } fl_kmark;
fl_kmark fl_order_mark(const fl_front *p);
fl_kblock fl_order_cut(const fl_kmark *m);      /* the statements since m, taken out of the block */
/* Makes the n values v independent of the statements added since m: a value that they change is
** saved in a variable before them; if 'address', only the address of an lvalue. */
void fl_order_before(fl_front *p, fl_cvalue *v, int n, const fl_kmark *m, int address,
                     int32_t line);
/* Makes operands that C evaluates in unspecified order independent of each other's statements, or
** refuses them: the n values x, whose statements begin at m, and y, whose begin at 'middle'. */
void fl_order_open(fl_front *p, const fl_kmark *m, const fl_kmark *middle, fl_cvalue *x, int n,
                   fl_cvalue *y, int32_t line);
/* fl_order_open for argument args[n] and the n arguments before it, in unspecified order. */
void fl_order_argument(fl_front *p, const fl_kmark *m, const fl_kmark *middle, fl_cvalue *args,
                       int n, int32_t line);
typedef struct fl_kturn fl_kturn;                          /* forms.h */

/* ---- expr.c, unary.c, call.c, warp.c, math.c, stmt.c, return.c ------------------------------- */

/* lambda.c: an object whose operator() calls the function (or overloads) that s names */
fl_cvalue fl_function_value(fl_front *p, fl_symbol *s);
fl_cvalue fl_parse_expr(fl_front *p);                         /* with commas */
fl_cvalue fl_parse_assign(fl_front *p);                       /* without */
fl_cvalue fl_parse_inside(fl_front *p);                       /* fl_parse_expr inside brackets */
fl_kexpr *fl_parse_scalar(fl_front *p);                 /* fl_parse_assign, converted to a scalar */
fl_kexpr *fl_parse_before_choice(fl_front *p);               /* the "c" of "c ? x : y", as BOOL */
fl_kexpr *fl_parse_condition(fl_front *p);                   /* fl_parse_expr, as BOOL */
fl_cvalue fl_parse_unary(fl_front *p);
/* an implicit conversion of v to the pointer type t */
fl_cvalue fl_pointer_as(fl_front *p, const fl_ctype *t, fl_cvalue v, int32_t line);
fl_cvalue fl_cast_to(fl_front *p, const fl_ctype *t, fl_cvalue v, int32_t line);
fl_cvalue fl_binary(fl_front *p, int op, fl_cvalue x, fl_cvalue y, int32_t line);
/* a && b or a || b. side: statements that b needs */
fl_cvalue fl_logic(fl_front *p, int op, fl_kexpr *a, fl_kexpr *b, fl_kblock side, int32_t line);
fl_cvalue fl_step(fl_front *p, fl_cvalue v, int op, int postfix, int unused, int32_t line); /* ++ */
fl_kexpr *fl_arith(fl_front *p, int op, fl_kexpr *x, fl_kexpr *y, int32_t line);
fl_cvalue fl_parse_call(fl_front *p, const fl_ktok *name);    /* at '(' or '<' after a name */
fl_cvalue fl_call_function(fl_front *p, fl_kdevice *first, const fl_cvalue *self,
                           const fl_ktok *name);
fl_kexpr *fl_parse_constant(fl_front *p);            /* does not take '>', for template arguments */
int fl_parse_arguments(fl_front *p, fl_cvalue *args, int max);     /* at '('; returns how many */
/* fl_call_warp, _bytes, _atomic, _half: 1: 'name' is a function of that kind; *out: its value */
int fl_call_warp(fl_front *p, const fl_ktok *name, fl_cvalue *out);
/* bytes.c: memcpy, memset */
int fl_call_bytes(fl_front *p, const fl_ktok *t, const fl_cvalue *args, int n, fl_cvalue *out);
int fl_atomic_known(const fl_ktok *t);                        /* the fl_katomic; -1: it is none */
int fl_call_atomic(fl_front *p, const fl_ktok *name, fl_cvalue *out);
int fl_call_half(fl_front *p, const fl_ktok *name, const fl_cvalue *args, int n, fl_cvalue *out);
fl_cvalue fl_call_math(fl_front *p, const fl_ktok *name, fl_kexpr *const *x, int n);
int fl_math_known(const fl_ktok *name);
void fl_parse_return(fl_front *p, int32_t line);             /* after the word */
void fl_skip_statement(fl_front *p);                         /* one that is not read */
void fl_parse_compound(fl_front *p);                         /* at '{', with a scope */
fl_kstmt *fl_emit(fl_front *p, int kind, int32_t line);
void fl_emit_here(fl_front *p, int32_t line);    /* a barrier of the lanes that reach it */
fl_kblock *fl_front_into(fl_front *p, fl_kblock *b);    /* emits into b; returns the previous one */
#endif
