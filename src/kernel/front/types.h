/*
** The types of the source language while it is read; the tree has only scalars (fl_ktype). A leaf
** of a type is a scalar or pointer in it, with the arrays around it as dimensions: "struct { float
** x; int n[3]; } a[2]" has two leaves, x with dimension 2 and n with dimensions 2 and 3. The layout
** is CUDA's.
*/
#ifndef FL_KERNEL_TYPES_H
#define FL_KERNEL_TYPES_H
#include "kernel/tree/tree.h"

typedef enum { FL_C_VOID, FL_C_SCALAR, FL_C_POINTER, FL_C_ARRAY, FL_C_STRUCT } fl_ckind;

typedef struct fl_ctype {
  uint8_t kind, scalar;          /* fl_ckind; SCALAR: fl_ktype */
  uint8_t const_of;              /* POINTER: the pointee is const */
  uint8_t is_volatile;           /* SCALAR, STRUCT */
  uint16_t depth;                /* 1 + depth of the deepest part; bounded by fl_decl_depth */
  const struct fl_ctype *of;     /* POINTER: the pointee; ARRAY: an element, which may be an array;
                                 ** of an enumeration: its underlying type */
  const char *other;             /* SCALAR: the name of a type that is not the usual one with these
                                 ** numbers: char (the usual one is signed char), long (long long),
                                 ** unsigned long, an enumeration; compared by address. NULL: it is
                                 ** the usual one */
  uint8_t scoped;                /* an enum class */
  int64_t count;                 /* ARRAY: elements; 0: not given ([]) */
  struct fl_cstruct *s;          /* STRUCT; of an enumeration: the struct around it, or NULL */
} fl_ctype;

typedef struct fl_cfield {
  const char *name;
  const fl_ctype *type;
  int64_t offset;                /* bytes */
  int32_t leaf;                  /* its first leaf, as an index among the leaves of the struct */
  int64_t scalar;                /* its first scalar, as an index among those of the struct, if
                                 ** all have one type */
  uint8_t is_mutable;            /* not const in a const object */
  uint8_t base;                  /* a base struct, which comes before other fields, or an unnamed
                                 ** member: its members are named as the struct's own. 2: a base
                                 ** that depends on an argument of the template */
} fl_cfield;

typedef struct fl_cstruct {      /* vectors too */
  const char *name;
  fl_cfield *fields;
  int32_t n_fields, n_leaves;
  int64_t size, align;           /* size 0: it is not defined yet */
  int64_t used;                  /* size without the unused bytes at the end */
  uint8_t packing;   /* 1: a POD for the layout: as a base it takes all its bytes; 2: it is none:
                     ** members of the derived struct follow after 'used'; 0: not known */
  uint8_t width;                 /* number of components of a vector type; 0: a struct */
  uint8_t element;               /* fl_ktype of all scalars if they have one type and are packed;
                                 ** else VOID */
  int64_t n_scalars;             /* number of scalars; 0: 'element' is VOID */
  const struct fl_ctype *parts;  /* for a union: a struct with its members; its only field is its
                                 ** bytes */
  struct fl_kmembers *members;   /* functions and constants of the struct (front.h); NULL: none */
} fl_cstruct;

const fl_ctype *fl_ctype_scalar(int type);                     /* type: fl_ktype, VOID too */
const fl_ctype *fl_ctype_char(void);
const fl_ctype *fl_ctype_long(int is_unsigned);      /* size_t, uint64_t: unsigned long */
int fl_ctype_is_long(const fl_ctype *t);
int fl_ctype_is_enum(const fl_ctype *t);
int fl_ctype_is_open(const fl_ctype *t);         /* a struct that is declared and not defined yet */
/* An enumeration with underlying type 'of', which the caller may still change. 'name' is copied. */
fl_ctype *fl_ctype_enum(fl_karena *a, const char *name, const fl_ctype *of);
const fl_ctype *fl_ctype_void(void);
const fl_ctype *fl_ctype_texture(void);        /* cudaTextureObject_t: a pointer (texture.c) */
const fl_ctype *fl_ctype_function(void);       /* all pointers to functions have this type */
fl_ctype *fl_ctype_pointer(fl_karena *a, const fl_ctype *of, int const_of);
fl_ctype *fl_ctype_array(fl_karena *a, const fl_ctype *of, int64_t count);
/* t as volatile, if it is a number or a struct; else t */
const fl_ctype *fl_ctype_volatile(fl_karena *a, const fl_ctype *t);
const fl_ctype *fl_ctype_plain(fl_karena *a, const fl_ctype *t);        /* not volatile */
/* A struct, whose alignment is at least 'align'. The caller gives the name, type and 'base' of the
** fields; the rest is filled in. NULL: no memory, or too large. */
fl_ctype *fl_ctype_struct(fl_karena *a, const char *name, fl_cfield *fields, int n, int64_t align);
fl_ctype *fl_ctype_open(fl_karena *a, const char *name);     /* a struct that is not defined yet */
/* Built-in scalar or vector type of one word ("float4", "uint", "__half"); NULL: none. */
const fl_ctype *fl_ctype_named(fl_karena *a, const char *name, int32_t n);

const fl_ctype *fl_ctype_innermost(const fl_ctype *t);     /* t without the arrays around it */
int64_t fl_ctype_size(const fl_ctype *t);
int64_t fl_ctype_align(const fl_ctype *t);
int fl_ctype_leaves(const fl_ctype *t);
/* The type of all scalars of t, and their number, if t is only those (no padding, no pointers);
** VOID: it is not. */
int fl_ctype_element(const fl_ctype *t, int64_t *n);
/* Are a and b one type but for const, volatile, 'other' and names of vectors? */
int fl_ctype_same(const fl_ctype *a, const fl_ctype *b);
/* fl_ctype_same, and of one name: are they one type but for const and volatile? */
int fl_ctype_like(const fl_ctype *a, const fl_ctype *b);
/* fl_ctype_like, and what they point to or consist of is const and volatile alike: are a and b one
** type for templates? */
int fl_ctype_equal(const fl_ctype *a, const fl_ctype *b);
/* is t an array or a pointer, or does it hold one? */
/* The 'packing' of a struct with these fields, if its functions do not change that. */
int fl_ctype_packing(const fl_cfield *fields, int n);
int64_t fl_ctype_used(const fl_ctype *t);        /* the bytes that t takes as a base */
int fl_ctype_has_array(const fl_ctype *t);
int fl_ctype_has_mutable(const fl_ctype *t);     /* is a member of t, or of a member, mutable? */
const fl_cfield *fl_cstruct_field(const fl_cstruct *s, const char *name, int32_t n);
/* Writes all leaves in order to out[fl_ctype_leaves(t)]; 'prefix' begins their paths. The type of a
** pointer is that of the scalars it points to, or U8 if these are of several types. 0: no memory,
** or arrays deeper than FL_K_MAX_RANK (then a->failed is not set). */
int fl_ctype_fields(fl_karena *a, const fl_ctype *t, const char *prefix, fl_kfield *out);
const char *fl_ctype_text(fl_karena *a, const fl_ctype *t);    /* for messages */
#endif
