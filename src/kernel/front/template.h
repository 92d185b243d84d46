/* What template.c and pattern.c share: the deduction of template parameters, one by one. */
#ifndef FL_KERNEL_TEMPLATE_H
#define FL_KERNEL_TEMPLATE_H
#include "kernel/front/front.h"

/* env[i].name NULL: not deduced yet */
typedef struct fl_kdeduction { const fl_ktparam *t; int n; fl_symbol *env; } fl_kdeduction;

/* Sets parameter t to 'from'. All elements of a pack are types or constants, as t says. */
void fl_template_give(fl_symbol *to, const fl_ktparam *t, const fl_symbol *from);
void fl_template_give_pack(fl_front *p, fl_symbol *to, const fl_ktparam *t, const fl_symbol *from,
                           int n);
/* Deduces parameters from the arguments of call c, and from the type that f is to return. */
void fl_template_deduce(fl_front *p, const fl_kdeduction *d, const fl_kdevice *f,
                        const fl_kcall *c);
/* The type T if the argument v is passed to a formal "T", "T *" (pointer) or "T (&)[N]", where T is
** the array. NULL: it does not fit. */
const fl_ctype *fl_deduce_meet(fl_front *p, const fl_cvalue *v, int pointer, int array, int ref);
/* index of the parameter of that name, or -1 */
int fl_deduce_index(const fl_kdeduction *d, const fl_ktok *t);
void fl_deduce_type(const fl_kdeduction *d, int i, const fl_ctype *type);
void fl_deduce_value(fl_front *p, const fl_kdeduction *d, int i, int64_t value);
/* Deduces from "Vec<T, N>" at token i and the struct that is the argument's type. */
void fl_deduce_struct(fl_front *p, const fl_kdeduction *d, const fl_ktemplate *of, int64_t i,
                      const fl_ctype *type);
#define FL_K_NAME_TEMPLATE "a kernel that is a template is named with its arguments, " \
                           "as in entry = \"name<float, 16>\""
int fl_template_same(const fl_symbol *a, const fl_symbol *b, int n);

/* Adds the pattern of "struct name<pattern> { … };" to template t, at '<'. */
void fl_pattern_add(fl_front *p, fl_ktemplate *t, fl_ktparam *params, int n);
/* The pattern of t that fits the arguments, with the values of its
** parameters in *env; NULL: none. */
const fl_kpattern *fl_pattern_find(fl_front *p, const fl_ktemplate *t, const fl_symbol *args,
                                   fl_symbol **env, int32_t line);
/* The alignment that "struct alignas(N * sizeof(T)) name" has with these arguments. */
int64_t fl_template_alignment(fl_front *p, const fl_ktemplate *t, const fl_symbol *args);
/* Takes "typename std::enable_if<…>::type" as the type of a constant and returns its first token;
** 0: it is none. */
int64_t fl_pattern_condition(fl_front *p);
/* Forgets a refusal in tokens from … that ask enable_if for a type. 1: it was such a refusal. */
int fl_pattern_drops(fl_front *p, int64_t from);
#endif
