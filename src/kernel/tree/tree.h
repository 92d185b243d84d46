/*
** The tree of a user kernel: typed, normalised and scalar, so that the lane code (kernel/lanes/),
** the derivatives (kernel/ad/) and the CUDA text (kernel/text/) stay small.
**
** - Only scalars and arrays of scalars exist. A vector or struct is one variable per leaf ("v.x" ->
**   v_x), an array of structs one array per leaf (or one array of numbers for all: front/view.c), a
**   float4 access four accesses of the scalar pointer.
** - Expressions are pure. Whatever has effects in the source (++, = inside expressions, atomics,
**   shuffles, calls of __device__ functions) is a statement with a temporary before its use. && ||
**   ?: evaluate their right operands only where the left one requires it, so that they guard loads.
** - Types are explicit: operands of a binary node have one type, conversions are CAST nodes.
** - __device__ functions are inlined. Where one returns early, or a switch is no chain of IFs, its
**   body is in a BLOCK that LEAVE ends. BREAK and CONTINUE refer to the innermost LOOP.
** - Lines count from 1 in the source string (0: generated).
**
** Nodes live in the arena of their source; nothing is freed singly. Constructors return NULL
** when memory is out, an operand is NULL or an expression gets too deep (the arena keeps that in
** 'failed'), so that building code need not check each step: check 'failed' at the end. Once the
** text is read, expressions are not changed any more: they may be shared between statements of one
** function. Each use is evaluated and printed again: put a value that is used twice into a
** variable.
*/
#ifndef FL_KERNEL_TREE_H
#define FL_KERNEL_TREE_H
#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include <stdatomic.h>
#include <stdint.h>

/* ---- arena ------------------------------------------------------------------------------- */

typedef struct fl_karena {
  fl_mem *mem;
  struct fl_karena_chunk *chunks;   /* newest first */
  char *at, *end;                   /* free part of the newest chunk */
  int failed;                       /* the first failure (see below); MEMORY replaces an earlier
                                    ** one. 0: none */
  size_t bytes, most;               /* bytes taken, and the most that may be; 0: no limit */
  const atomic_int *stop;           /* polled when a new chunk is taken: if it is not 0, the arena
                                    ** fails; NULL: nothing can stop it */
} fl_karena;
/* Why an arena has failed. DEEP: an expression deeper than FL_K_MAX_DEPTH; MISSING: an operand was
** NULL; LARGE: more bytes than 'most'; STOPPED: 'stop' was set. */
enum { FL_KARENA_MEMORY = 1, FL_KARENA_DEEP, FL_KARENA_MISSING, FL_KARENA_LARGE,
       FL_KARENA_STOPPED };
void fl_karena_init(fl_karena *a, fl_mem *m);
void fl_karena_close(fl_karena *a);
void *fl_karena_new(fl_karena *a, size_t bytes);            /* zeroed, aligned to 16, or NULL */
/* Makes room for one more item in a list of n items of 'size' bytes at 'at' (NULL: none yet) with
** capacity *cap. Returns the list, which may have moved; NULL: no memory. */
void *fl_karena_room(fl_karena *a, void *at, int n, int32_t *cap, size_t size);
char *fl_karena_str(fl_karena *a, const char *s, size_t n); /* NUL-terminated copy */
char *fl_karena_printf(fl_karena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- types ------------------------------------------------------------------------------- */

/* Arithmetic is done in I32 U32 I64 U64 F16 BF16 F32 F64 only. The narrower integers and BOOL are
** types of variables, memory, constants, casts and SELECT (values are kept wrapped; BOOL is 0 or
** 1); comparisons and logic give BOOL. F16 and BF16 are rounded after each operation. */
typedef enum {
  FL_KT_VOID, FL_KT_BOOL, FL_KT_I8, FL_KT_U8, FL_KT_I16, FL_KT_U16, FL_KT_I32, FL_KT_U32,
  FL_KT_I64, FL_KT_U64, FL_KT_F16, FL_KT_BF16, FL_KT_F32, FL_KT_F64, FL_KT_COUNT
} fl_ktype;

typedef struct fl_ktype_info {
  const char *name;       /* "f32" */
  const char *c;          /* as CUDA C writes it: "float" */
  uint8_t size, is_float, is_signed;
  int8_t dtype;           /* flame_dtype of its elements; -1: a tensor cannot hold them */
} fl_ktype_info;
extern const fl_ktype_info fl_ktypes[FL_KT_COUNT];
static inline int fl_kt_is_float(int t) { return fl_ktypes[t].is_float; }
static inline int fl_kt_is_half(int t) { return t == FL_KT_F16 || t == FL_KT_BF16; }
static inline int fl_kt_is_int(int t) { return t >= FL_KT_BOOL && t <= FL_KT_U64; }
static inline int fl_kt_size(int t) { return fl_ktypes[t].size; }
static inline int fl_kt_unsigned(int size) {         /* the unsigned type of that many bytes */
  return size == 8 ? FL_KT_U64 : size == 4 ? FL_KT_U32 : size == 2 ? FL_KT_U16 : FL_KT_U8;
}
/* The dtype of tensors that hold elements of type t: for U16, U32 and U64 the signed one of the
** same width. */
static inline int fl_kt_held_as(int t) {
  return fl_ktypes[t == FL_KT_U16 || t == FL_KT_U32 || t == FL_KT_U64 ? t - 1 : t].dtype;
}

/* A number. Integers and BOOL use i (U64: the same bits), floats d (F32, F16, BF16: already
** rounded to the type). */
typedef union fl_kvalue { int64_t i; double d; } fl_kvalue;

/* ---- variables --------------------------------------------------------------------------- */

typedef enum {
  FL_KV_LOCAL,    /* scalar of one thread, also a scalar parameter or member: param >= 0. Mutable */
  FL_KV_ARRAY,      /* array of one thread, 'count' elements; also an array member of a struct
                    ** parameter: param >= 0 */
  FL_KV_SHARED,     /* array of the block. 'dynamic' 1: extern __shared__, count = 0; such arrays
                    ** all begin at the start of the dynamic memory (after fl_kfunc_moved), so they
                    ** overlap. 2, 3: the f32 shadow of such an array of f16, of bf16, in bytes
                    ** after those of the arrays (fl_kad_at) */
  FL_KV_TABLE,      /* read-only array with known contents 'data' (__constant__, const tables) */
  FL_KV_POINTER  /* global memory: a pointer parameter, or a pointer member of a struct parameter */
} fl_kvkind;

enum { FL_K_MAX_RANK = 4 };
typedef struct fl_kvar {
  const char *name;          /* unique in the function, an identifier of C */
  const char *source;        /* as the source names it: "p.x", "row" */
  uint8_t kind, type;        /* fl_kvkind; type of the scalar, or of one element */
  uint8_t is_const;          /* POINTER: pointee is const. TABLE: always */
  uint8_t dynamic;           /* SHARED: see above */
  uint8_t temporary;         /* it is generated, not a variable of the source */
  uint8_t rank;              /* ARRAY, SHARED, TABLE: dims as declared (for messages; the index
                             ** of an access is flat, in elements of 'type') */
  int64_t dims[FL_K_MAX_RANK];
  int64_t count;             /* elements; 0: unknown (POINTER, dynamic); 1 for LOCAL */
  int32_t line;
  int32_t param;             /* index of the parameter it comes from; -1: none */
  int64_t offset;            /* bytes from the start of the parameter (leaves of structs and
                             ** vectors) */
  int64_t stride[FL_K_MAX_RANK];   /* of a member that is an array: bytes between
                                    ** its elements along each of dims */
  const fl_kvalue *data;     /* TABLE: count values */
  void *note;                /* for the current pass (activity, registers); NULL after parsing */
} fl_kvar;

/* ---- expressions ------------------------------------------------------------------------- */

typedef enum {
  FL_KX_CONST,      /* value */
  FL_KX_VAR,        /* var: a LOCAL */
  FL_KX_LOAD,       /* var[x0]: ARRAY, SHARED, TABLE or POINTER; x0 has type I64, in elements */
  FL_KX_SPECIAL,    /* op: fl_kspecial. U32 (warpSize I32) */
  FL_KX_UNARY,      /* op x0: FL_KO_NEG, FL_KO_INVERT (integers), FL_KO_NOT (BOOL) */
  FL_KX_BINARY,     /* x0 op x1, both of one type (shifts: x1 any arithmetic integer type) */
  FL_KX_SELECT,     /* x0 (BOOL) ? x1 : x2, where only the chosen operand is evaluated */
  FL_KX_CAST,       /* (type)x0. To BOOL: x0 != 0. Float to integer truncates, saturates, and gives
                    ** 0 for NaN, as on a GPU */
  FL_KX_CALL        /* op: fl_kbuiltin of x0..x[n-1]; types as kernel/tree/builtins.def says */
} fl_kxkind;

typedef enum {
  FL_KO_NONE,
  FL_KO_ADD, FL_KO_SUB, FL_KO_MUL, FL_KO_DIV, FL_KO_REM,   /* result: type of x0. Integers wrap,
            ** and DIV truncates them; REM is of integers only. An integer divided by 0 is undefined
            ** in CUDA (the lane code may report it) */
  FL_KO_SHL, FL_KO_SHR,                                    /* result: type of x0; counts < 0 or >=
            ** width: 0 (SHR of a negative number: -1); SHR is arithmetic for signed types */
  FL_KO_AND, FL_KO_OR, FL_KO_XOR,                          /* integers, type of the operands */
  FL_KO_LT, FL_KO_LE, FL_KO_GT, FL_KO_GE, FL_KO_EQ, FL_KO_NE,   /* BOOL */
  FL_KO_LAND, FL_KO_LOR,                                   /* BOOL of BOOLs, x1 lazy */
  FL_KO_NEG, FL_KO_INVERT, FL_KO_NOT,                      /* unary */
  FL_KO_COUNT
} fl_kop;

typedef enum {
  FL_KSPECIAL_TID_X, FL_KSPECIAL_TID_Y, FL_KSPECIAL_TID_Z, FL_KSPECIAL_BID_X, FL_KSPECIAL_BID_Y,
  FL_KSPECIAL_BID_Z, FL_KSPECIAL_BDIM_X, FL_KSPECIAL_BDIM_Y, FL_KSPECIAL_BDIM_Z, FL_KSPECIAL_GDIM_X,
  FL_KSPECIAL_GDIM_Y, FL_KSPECIAL_GDIM_Z, FL_KSPECIAL_WARP_SIZE, FL_KSPECIAL_COUNT
} fl_kspecial;
/* As CUDA writes them. */
extern const char *const fl_koperator_text[], *const fl_kspecial_text[FL_KSPECIAL_COUNT],
                  *const fl_katomic_text[];

enum { FL_K_MAX_ARGS = 4, FL_K_MAX_DEPTH = 1000, FL_K_MAX_NEST = 200,
       FL_K_MAX_SHARED = 48 << 10,        /* bytes of static shared memory of a block */
       FL_K_MOST_SHARED = 227 << 10 };    /* with dynamic memory (Hopper) */
typedef struct fl_kexpr {
  uint8_t kind, type, op;    /* fl_kxkind, fl_ktype, fl_kop or fl_kspecial or fl_kbuiltin */
  uint8_t n;                 /* operands */
  uint16_t depth;            /* 1 + that of the deepest operand, at most FL_K_MAX_DEPTH */
  int32_t line;
  int32_t var;               /* VAR, LOAD */
  int32_t site;              /* LOAD: number of this access in the function, from 0; else -1 */
  fl_kvalue value;           /* CONST */
  const struct fl_ctype *as; /* while the source is read: its type there, if that is not the usual
                             ** one with the numbers of 'type' (fl_ctype.other); else NULL */
  struct fl_kexpr *x[FL_K_MAX_ARGS];
} fl_kexpr;

/* ---- statements -------------------------------------------------------------------------- */

typedef enum {
  FL_KS_DECL,      /* declares var (LOCAL or ARRAY), with undefined contents. A variable without
                   ** DECL (parameters, temporaries of AD) lives in the whole function */
  FL_KS_ASSIGN,    /* var = x[0], which has var's type */
  FL_KS_STORE,     /* var[x[0]] = x[1] (of the element type). With 'accumulate':
                   ** var[i] = (element type)((type of x[1])var[i] + x[1]); -= is + of the
                   ** negated value. Not atomic. ARRAY, SHARED, POINTER */
  /* old = var[x[0]]; var[x[0]] = op(old, x[1]); result = old. SHARED, POINTER. CAS compares with
  ** x[2]: x[1] is stored where old == x[2]. With 'as' the bits of the element are a number of that
  ** type */
  FL_KS_ATOMIC,
  FL_KS_IF,        /* x[0] BOOL: body, else other */
  FL_KS_LOOP,      /* see fl_kstmt.post */
  FL_KS_BREAK, FL_KS_CONTINUE,   /* leaves or continues the innermost LOOP (BLOCKs in between are
                                 ** left) */
  FL_KS_BLOCK,     /* body; label */
  FL_KS_LEAVE,     /* jumps to the end of the enclosing BLOCK 'label', also out of loops inside
                   ** it */
  FL_KS_RETURN,    /* of the kernel */
  FL_KS_BARRIER,   /* op: fl_kbarrier; x[0]: the mask of __syncwarp or NULL */
  FL_KS_SHUFFLE,   /* result = value of x[1] in another lane; op: fl_kshuffle; x[0] mask (U32),
                   ** x[1] value (of any arithmetic type), x[2] lane, delta or lane mask (I32 or
                   ** U32), x[3] width (I32). x[1] is evaluated by every active lane */
  FL_KS_VOTE,      /* result (U32 or I32) of op: fl_kvote; x[0] mask (NULL for ACTIVE), x[1] BOOL */
  FL_KS_PRINTF,    /* text: format, args */
  FL_KS_ASSERT     /* x[0] BOOL: the thread stops if it is false; text: what must hold, for
                   ** messages. If x[1] (I64) is not NULL, x[0] tells whether byte x[1] is aligned
                   ** for a wide type: not printed for a GPU without checks, which faults there
                   ** itself */
} fl_kskind;

/* BLOCK: __syncthreads; WARP: __syncwarp; FENCE: __threadfence and similar; HERE: a barrier of
** those lanes of a warp that reach it together */
typedef enum { FL_KBAR_BLOCK, FL_KBAR_WARP, FL_KBAR_FENCE, FL_KBAR_HERE } fl_kbarrier;
typedef enum { FL_KSH_IDX, FL_KSH_UP, FL_KSH_DOWN, FL_KSH_XOR } fl_kshuffle;
typedef enum { FL_KVOTE_BALLOT, FL_KVOTE_ANY, FL_KVOTE_ALL, FL_KVOTE_ACTIVE } fl_kvote;
typedef enum {
  FL_KA_ADD, FL_KA_SUB, FL_KA_MAX, FL_KA_MIN, FL_KA_AND, FL_KA_OR, FL_KA_XOR, FL_KA_EXCH,
  FL_KA_CAS, FL_KA_INC, FL_KA_DEC, FL_KA_COUNT
} fl_katomic;

/* How an ATOMIC ADD made by AD may be done. (Those of a source are FREE; the text of a derivative
** in a saved program has the others as calls, such as fl_ordered_add.) All give the same sum up to
** rounding; for all but FREE the result is unused. */
typedef enum {
  FL_KM_FREE,       /* in any order */
  FL_KM_WARP,       /* in any order; lanes of a warp often reach it together and with one index */
  FL_KM_ORDERED,    /* reproducible: the sum does not depend on the order of threads */
  FL_KM_BLOCK       /* the index is the same in the whole block: reduce, then one atomic. All
                    ** threads of the block reach it, or none */
} fl_kmode;
/* A LOOP is DOWN if x[0] is k >= 0, 'other' is k = k - 1, nothing else in it assigns to k or jumps,
** and lanes with a smaller k should wait for those with a greater one. */
typedef enum { FL_KLOOP_ANY, FL_KLOOP_DOWN } fl_kloop_form;

typedef struct fl_kstmt fl_kstmt;
typedef struct fl_kblock { fl_kstmt *first, *last; } fl_kblock;     /* linked by 'next' */
struct fl_kstmt {
  uint8_t kind, op, mode;    /* fl_kskind; fl_katomic, fl_kloop_form …; fl_kmode. BARRIER of the
                             ** block with mode 1: a barrier of all blocks of the launch */
  uint8_t accumulate;        /* STORE */
  uint8_t as;           /* ATOMIC: fl_ktype with the element's size; VOID: the element's own type */
  uint8_t called;            /* while parsing: it is in the body of a function that was called */
  uint8_t joined;            /* ATOMIC of mode WARP: so many of the statements right after it are
                             ** sums that may be made together with it: lanes that have one element
                             ** in common in one of these sums have so in all */
  uint8_t held;              /* ATOMIC of mode WARP, the first of those made together: > 0, and
                             ** unique in the function, if lanes may hold these sums until the end
                             ** of the innermost loop; 0: they may not */
  uint8_t in_step;           /* ATOMIC of mode WARP: all threads of a block make it together, at
                             ** one element. LOOP: they reach it together and make as many rounds.
                             ** 0: not known */
  uint8_t post;              /* LOOP: 1 = do-while: the condition is evaluated after 'other' */
  int32_t apart;             /* ATOMIC of mode WARP: its index minus that of the first of those that
                             ** are joined */
  int32_t line;
  int32_t var;               /* DECL, ASSIGN, STORE, ATOMIC; else -1 */
  int32_t result;            /* ATOMIC, SHUFFLE, VOTE: LOCAL that receives the result; -1: unused */
  int32_t site;              /* STORE, ATOMIC: number of the access; else -1 */
  int32_t label;   /* BLOCK, LEAVE: number of the block; LOOP: number of the loop in the function */
  fl_kexpr *x[4];
  fl_kblock body, other;     /* IF: then, else. LOOP: body, step. BLOCK: body */
  const char *text;          /* PRINTF, ASSERT */
  fl_kexpr **args;           /* PRINTF: n_args arguments (with C's default promotions) */
  int32_t n_args;
  void *note;                /* for the current pass; NULL after parsing */
  fl_kstmt *next;
};
/* LOOP, post == 0:  while (x[0]) { body; other; }   post == 1:  do { body; other; } while (x[0]);
** CONTINUE continues with 'other'. x[0] NULL: no condition (left by BREAK, LEAVE, RETURN). 'other'
** holds neither BREAK nor CONTINUE of this loop. */

/* ---- functions --------------------------------------------------------------------------- */

/* One parameter of the signature, laid out as CUDA passes it. */
typedef struct fl_kparam {
  const char *name, *type_name;  /* type_name as written, without const and *: "float4", "Params" */
  int32_t line;
  uint8_t is_pointer, is_const, is_struct;   /* is_const: a pointer to const. is_struct: it is, or
                             ** points to, a struct that is no vector, or an array (of a spread
                             ** struct) */
  uint8_t asked;             /* a pointer that the text tests for null */
  uint8_t is_null;           /* a pointer that is null in every launch: no statement names its
                             ** variable, and its argument is NULL */
  uint8_t known;             /* 0: a type that could not be read (then the body is refused too) */
  uint8_t type;              /* fl_ktype of the scalars in it, or in an element behind a pointer. If
                             ** these are of several types: VOID, behind a pointer U8. VOID for a
                             ** void * */
  int32_t width;             /* how many numbers of 'type' it, or an element, has; 1 for VOID */
  uint8_t wide;              /* alignment in bytes that its memory needs for the widest type that is
                             ** read or written through it; 0: no more than that of an element */
  int64_t size, align;       /* bytes of the argument (pointers 8) */
  int64_t offset;            /* in the parameter buffer, by CUDA's rules */
  int64_t pointee_size;      /* bytes of one element behind a pointer; 0: void or unknown */
  uint8_t of_file;           /* it is a variable of file scope that the kernel uses, and not in the
                             ** text's list of parameters. 1: the script sets it; 2: it begins as
                             ** zeros */
  uint8_t shared;            /* of_file: another kernel uses it too, and one of the two writes it */
  int64_t count;             /* of_file: its elements */
  uint8_t is_texture;        /* a cudaTextureObject_t, here an array that is read (texture.c) */
  int32_t fetched;           /* is_texture: line of the fetch that sets its type; 0: there is none,
                             ** so it is float */
  const char *list_of;       /* one array of a list of arrays, "T *const *xs": the name of the list;
                             ** NULL: it is none. 'name' is "xs[2]" */
  int32_t list, lists;       /* list_of: number of this array in the list, from 1, and the list's
                             ** length. lists 0: it is not known yet, and this parameter stands for
                             ** the whole list */
  const char *part_of;       /* the text's parameter of that name, a struct, is spread over several
                             ** (front/spread.c), and this is one of them; 'name' is "p.x". NULL: it
                             ** is none */
  uint8_t axes;              /* part_of: it is a part of an accessor of a tensor with so many axes;
                             ** 0: it is not */
  int8_t axis;               /* axes > 0: the length along that axis, from 0, of the array that is
                             ** axis + 1 parameters before; -1: that array */
  int32_t same;              /* such a length: 1 + the parameter, before this one, that is the same
                             ** length in each call of this kernel; 0: none is known */
  const struct fl_kfield *fields;  /* leaves of a struct or vector (by value or behind a pointer) */
  int32_t n_fields;
  int32_t first_var, n_vars; /* its variables in fl_kfunc.vars, one per leaf (if there is a body) */
} fl_kparam;

/* A leaf of a struct or vector. */
typedef struct fl_kfield {
  const char *path;          /* as Lua names it: "center.x" */
  uint8_t type, is_pointer, is_const, rank;   /* of a pointer, type and const are the pointee's */
  int64_t offset, count;     /* bytes from the start; elements (1: not an array) */
  int64_t dims[FL_K_MAX_RANK], stride[FL_K_MAX_RANK];   /* elements; bytes */
} fl_kfield;

typedef struct fl_kfunc {
  fl_karena *arena;
  const char *name;
  int32_t line;
  fl_kparam *params;
  int32_t n_params;
  fl_kvar *vars;             /* grows: keep indices, not addresses, across fl_kvar_add */
  int32_t n_vars, cap_vars;
  int32_t *names;            /* hash table of the names of the first n_names variables: 1 + index,
                             ** 0: free (tree.c) */
  int32_t n_names, cap_names;
  int32_t n_sites, n_labels, n_loops;   /* numbers given so far: to accesses, BLOCKs and LOOPs */
  fl_kblock body;
  uint8_t has_body;          /* 0: outside the language, see refusal */
  uint8_t uses_shared, uses_barrier, uses_warp, uses_atomics, uses_printf;
  uint8_t uses_grid;         /* a barrier of all blocks */
  uint8_t reordered;         /* NVRTC would evaluate the text in another order than C++: it gets the
                             ** printed tree */
  uint8_t moves_shared;      /* a derivative whose shared arrays are too large for static memory: on
                             ** a GPU they are at the start of dynamic memory */
  uint8_t replays;  /* it reads the results of atomics that another launch recorded (ad/record.h) */
  int32_t refusal_line;
  const char *refusal;       /* the reason, without "kernel 'k', line N: "; NULL: none */
  int64_t shared_bytes;      /* static shared memory, aligned */
  int32_t max_threads;       /* the value of __launch_bounds__; 0: none */
} fl_kfunc;

/* An empty function, to which body, parameters and variables are added. */
fl_kfunc *fl_kfunc_new(fl_karena *a, const char *name);
/* Copy into 'a', without notes: variables, sites, labels and loops keep their numbers. It still
** points to f's arena by fl_kparam.list_of and part_of. */
fl_kfunc *fl_kfunc_clone(fl_karena *a, const fl_kfunc *f);
/* Appends a parameter, a scalar or pointer, with its variable. Returns the variable; -1: no
** memory. */
int fl_kparam_add(fl_kfunc *f, const char *name, int type, int is_pointer, int is_const);
/* Adds a variable that is marked as temporary. Its name is 'name' made an identifier, with a suffix
** if that is taken. Returns its index; -1: no memory. */
int fl_kvar_add(fl_kfunc *f, fl_kvkind kind, int type, const char *name, int64_t count);
/* Numbers the loops again, from 0, after a body was assembled from copies. */
void fl_kfunc_number_loops(fl_kfunc *f);
/* Adds a scalar with a generated name. */
static inline int fl_ktemp(fl_kfunc *f, int type) {
  return fl_kvar_add(f, FL_KV_LOCAL, type, "t#", 1);
}
/* Byte offset of element e of an ARRAY member within its parameter. */
int64_t fl_kvar_offset(const fl_kvar *v, int64_t e);

/* The bytes at the start of dynamic shared memory that the function's own arrays take on a GPU. */
static inline int64_t fl_kfunc_moved(const fl_kfunc *f) {
  return f->moves_shared ? f->shared_bytes : 0;
}

/* ---- constructors ------------------------------------------------------------------------
** The line of a node is that of its first operand that has one (constants, variables and specials:
** 0); set ->line on the result if it matters. Constants are folded here where that is simple. */

fl_kexpr *fl_kexpr_int(fl_karena *a, int type, int64_t value);
fl_kexpr *fl_kexpr_float(fl_karena *a, int type, double value);     /* rounded to type */
fl_kexpr *fl_kexpr_zero(fl_karena *a, int type);                    /* of any type but VOID */
fl_kexpr *fl_kexpr_var(fl_kfunc *f, int var);                       /* LOCAL */
fl_kexpr *fl_kexpr_load(fl_kfunc *f, int var, fl_kexpr *index);     /* index of any integer type */
fl_kexpr *fl_kexpr_special(fl_karena *a, int special);
/* x + size_x * (y + size_y * z), where x, y, z are the specials from 'at' on (threadIdx.x …) and
** the sizes those from 'size' on (blockDim.x …); fl_kexpr_volume: size_x * (size_y * size_z). */
fl_kexpr *fl_kexpr_number(fl_karena *a, int type, int at, int size);
fl_kexpr *fl_kexpr_volume(fl_karena *a, int type, int size);
fl_kexpr *fl_kexpr_unary(fl_karena *a, int op, fl_kexpr *x);
/* x and y must have one type, except for shifts. */
fl_kexpr *fl_kexpr_binary(fl_karena *a, int op, fl_kexpr *x, fl_kexpr *y);
fl_kexpr *fl_kexpr_select(fl_karena *a, fl_kexpr *c, fl_kexpr *x, fl_kexpr *y);
/* x converted to 'type'; x itself if it already has the type */
fl_kexpr *fl_kexpr_cast(fl_karena *a, int type, fl_kexpr *x);
fl_kexpr *fl_kexpr_call(fl_karena *a, int builtin, int type, int n, fl_kexpr *const *x);
/* Recomputes the depth of x after its operands were replaced. 0: too deep. */
int fl_kexpr_settle(fl_karena *a, fl_kexpr *x);
/* fl_kexpr_over copies x, site included, with other operands. fl_kexpr_mapped calls 'to' for each
** operand and copies x with the results; if none has changed it returns x itself, and NULL if one
** is NULL. */
fl_kexpr *fl_kexpr_over(fl_karena *a, const fl_kexpr *x, fl_kexpr *const *operands);
fl_kexpr *fl_kexpr_mapped(fl_karena *a, fl_kexpr *x, fl_kexpr *(*to)(void *arg, fl_kexpr *x),
                          void *arg);
fl_kexpr *fl_kexpr_truth(fl_karena *a, fl_kexpr *x);                /* x != 0 as BOOL */

/* Statements are appended to *b; returns the new node (NULL: no memory, or an operand is NULL; then
** *b is unchanged). */
fl_kstmt *fl_kstmt_new(fl_karena *a, fl_kblock *b, int kind, int line);
fl_kstmt *fl_kstmt_decl(fl_kfunc *f, fl_kblock *b, int var);
fl_kstmt *fl_kstmt_assign(fl_kfunc *f, fl_kblock *b, int var, fl_kexpr *value);
fl_kstmt *fl_kstmt_store(fl_kfunc *f, fl_kblock *b, int var, fl_kexpr *index, fl_kexpr *value);
fl_kstmt *fl_kstmt_accumulate(fl_kfunc *f, fl_kblock *b, int var, fl_kexpr *index, fl_kexpr *value);
fl_kstmt *fl_kstmt_atomic(fl_kfunc *f, fl_kblock *b, int op, int mode, int var, fl_kexpr *index,
                          fl_kexpr *value, int result);
fl_kstmt *fl_kstmt_if(fl_kfunc *f, fl_kblock *b, fl_kexpr *cond);   /* fill ->body and ->other */
fl_kstmt *fl_kstmt_loop(fl_kfunc *f, fl_kblock *b, fl_kexpr *cond); /* cond may be NULL */
fl_kstmt *fl_kstmt_block(fl_kfunc *f, fl_kblock *b);                /* with a new label */
void fl_kblock_append(fl_kblock *b, fl_kblock more);     /* moves the statements of 'more' to b */
void fl_kblock_before(fl_kblock *b, const fl_kstmt *s, fl_kblock more);     /* and here before s */
void fl_kblock_put(fl_kblock *b, fl_kstmt *s);                      /* appends one statement */
/* Takes the first statement off a block, for walks that build another one; NULL: it is empty. */
fl_kstmt *fl_kblock_take(fl_kblock *b);
void fl_kblock_drop_last(fl_kblock *b);
/* If s is an IF whose body is empty and whose 'other' is not, negates the condition and makes
** 'other' the body. */
void fl_kstmt_set_upright(fl_karena *a, fl_kstmt *s);

/* Copies for use in the same function: sites, and labels of blocks and loops inside, are new.
** Variables are renumbered by map[old]; NULL: they stay. */
fl_kexpr *fl_kexpr_clone(fl_kfunc *f, const fl_kexpr *x);            /* variables stay */
fl_kblock fl_kblock_clone(fl_kfunc *f, const fl_kblock *b, const int32_t *map);

/* ---- walks -------------------------------------------------------------------------------- */

/* Pre-order. stmt(arg, s) is called before s's expressions and blocks, expr(arg, x) before x's
** operands. Either may be NULL (expr NULL: no expressions are visited). Returning 0 skips what is
** inside. */
typedef struct fl_kvisitor {
  int (*stmt)(void *arg, fl_kstmt *s);
  int (*expr)(void *arg, fl_kexpr *x);
  void *arg;
} fl_kvisitor;
void fl_kwalk_expr(const fl_kvisitor *v, fl_kexpr *x);
void fl_kwalk_block(const fl_kvisitor *v, fl_kblock b);
void fl_kwalk_stmt(const fl_kvisitor *v, fl_kstmt *s);
void fl_kwalk_operands(const fl_kvisitor *v, const fl_kstmt *s);   /* the expressions of s itself */
/* Does the statement write to an array? To an element of var? */
static inline int fl_kwrites(const fl_kstmt *s) {
  return s->kind == FL_KS_STORE || s->kind == FL_KS_ATOMIC;
}
static inline int fl_kwrites_to(const fl_kstmt *s, int32_t var) {
  return fl_kwrites(s) && s->var == var;
}
/* Marks, by variable, the arrays that b reads by LOAD, and those that it writes by STORE or ATOMIC,
** which are not marked as read. NULL: not asked. */
void fl_kaccessed(fl_kblock b, uint8_t *read, uint8_t *written);
int fl_kblock_length(fl_kblock b);        /* statements, those inside others too */
/* Is 'is' true for a statement of b, or for one inside it? */
int fl_kblock_any(fl_kblock b, int (*is)(const void *arg, const fl_kstmt *s), const void *arg);
int fl_kblock_holds(fl_kblock b, const fl_kstmt *s);       /* is s in b, at any depth? */
/* Structural equality (same variables, operators and constants; sites and lines are ignored). Equal
** expressions have equal values only if nothing in between assigned to what they read. */
int fl_kexpr_same(const fl_kexpr *a, const fl_kexpr *b);
int fl_kleaves(fl_kblock b, int32_t label);     /* how many LEAVEs of that BLOCK there are in b */
/* Is 'is' true for x or a part of x? 0 if x is NULL. */
int fl_kexpr_any(const fl_kexpr *x, int (*is)(const void *arg, const fl_kexpr *x), const void *arg);

/* Prints the tree for people and golden tests: one statement per line, and constants with their
** types, except i32. */
void fl_ktree_print(fl_text *t, const fl_kfunc *f);
#endif
