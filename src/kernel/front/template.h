/* Templates (template.c, pattern.c, prefer.c), and how their parameters are deduced from the
** arguments of a call (template_deduce.c). */
#ifndef FL_KERNEL_TEMPLATE_H
#define FL_KERNEL_TEMPLATE_H
#include "kernel/front/front.h"

/* fl_template_params takes the parameters <…> after 'template', fl_template_args the arguments <…>
** after a name; both at most FL_K_MAX_TPARAMS. They return how many there are (0 also if the text
** is refused). *out is in the arena; 'out' has room for all. */
int fl_template_params(fl_front *p, fl_ktparam **out);
int fl_template_args(fl_front *p, fl_symbol *out);
/* Takes the arguments <…> of t, and sets args[i] to what parameter i is. 0: the text is refused. */
int fl_template_take(fl_front *p, const fl_ktemplate *t, fl_symbol *args);
int fl_template_pack(const fl_ktparam *t, int n);  /* the index of that which is a pack, or n */
void fl_template_close(fl_front *p);                         /* takes '>', or half of '>>' */
void fl_template_declare(fl_front *p);     /* after 'template', at file scope or among members */
/* Skips a deduction guide, "V(T) -> V<T>;": a template is never named without its arguments. 0: it
** is something else. */
int fl_template_guide(fl_front *p);
/* The instance of function d, a template or one with formals of type auto, that call c means.
** first: the list of functions of that name, in which d is. NULL: d does not fit the call, or the
** text is refused. */
fl_kdevice *fl_template_instance(fl_front *p, fl_kdevice *first, fl_kdevice *d, const fl_kcall *c);
/* d: an explicit specialisation of a function. Finds the template arguments that it is for. */
void fl_template_special(fl_front *p, fl_kdevice *d, int32_t line);
const fl_ctype *fl_template_struct(fl_front *p, fl_ktemplate *t);    /* takes <…>: the instance */
fl_cvalue fl_template_value(fl_front *p, const fl_ktemplate *t);     /* takes <…>: the constant */
/* Reads "V<…>" from '<' on, where V names the instance 'type' inside its own template: the result
** is that instance, or another one. */
const fl_ctype *fl_template_again(fl_front *p, const fl_ctype *type);
int fl_template_angle(fl_front *p, int k);     /* number of tokens of <…> at + k; 0: not closed */
/* Number of tokens of the <…> after the name at + k, if that is a template's, a function's or a
** cast; 0: it is not. */
int fl_template_behind(fl_front *p, int k);
int fl_template_names_type(fl_front *p);               /* is "V<…>::type", a type, at the tokens? */
int fl_template_splits(fl_front *p, int k);        /* does the <…> end in the first half of '>>'? */

/* prefer.c: which of two functions that fit a call is preferred. 1: a; -1: b; 0: neither. count:
** how many formals of the templates are compared. */
int fl_template_prefers(fl_front *p, const fl_kdevice *a, const fl_kdevice *b, int count);
int fl_reference_prefers(const fl_kdevice *a, const fl_kdevice *b, const fl_kcall *c);

typedef struct fl_kdeduction {
  const fl_ktparam *t;       /* n parameters of a template */
  int n;
  fl_symbol *env;            /* by parameter: what it stands for; name NULL: not deduced yet */
  int *conflict;             /* set to 1 if two arguments say different things of one parameter; or
                             ** NULL */
  int given;                 /* so many of the first parameters the call itself gives in <…> */
} fl_kdeduction;

/* fl_template_give: makes 'to' the symbol of parameter t, which stands for what 'from' does.
** fl_template_give_pack: the same for a pack t and the n elements 'from', which are types or
** constants as t says. */
void fl_template_give(fl_symbol *to, const fl_ktparam *t, const fl_symbol *from);
void fl_template_give_pack(fl_front *p, fl_symbol *to, const fl_ktparam *t, const fl_symbol *from,
                           int n);
/* Adds the defaults, which see the names of 'up', to the arguments 'env' of n parameters t, and
** converts constants to the types of their parameters. 0: the text is refused, or the arguments do
** not fit: one is missing or of another kind than its parameter, or an enable_if has no type. */
int fl_template_bind(fl_front *p, const fl_ktparam *t, int n, fl_symbol *env,
                     const fl_kscope *up);
/* Deduces parameters from the arguments of call c, and from the type that f is to return. */
void fl_template_deduce(fl_front *p, const fl_kdeduction *d, const fl_kdevice *f,
                        const fl_kcall *c);
/* May template f be called with n arguments? 1 too if that can not be told from its tokens. */
int fl_template_takes(const fl_front *p, const fl_kdevice *f, int n);
/* The type T if the argument v is passed to a formal "T", "T *" (pointer) or "T (&)[N]", where T is
** the array. ref: the formal is a reference, for which an array stays one. NULL: it does not
** fit. */
const fl_ctype *fl_deduce_meet(fl_front *p, const fl_cvalue *v, int pointer, int array, int ref);
/* index of the parameter of that name, or -1 */
int fl_deduce_index(const fl_kdeduction *d, const fl_ktok *t);

/* ---- match.c, template_deduce.c, pattern.c: types as templates write them. UNKNOWN: whether two
** types fit can not be told here. ---- */

enum { FL_MATCH_NO, FL_MATCH_YES, FL_MATCH_UNKNOWN };
/* Sets parameter i to a type, or to a constant 'value' of a type. YES too if it stays as the call
** gives it. NO: it is set to something else already, or is of another kind. */
int fl_deduce_type(const fl_kdeduction *d, int i, const fl_ctype *type, int is_const, int ref);
int fl_deduce_value(fl_front *p, const fl_kdeduction *d, int i, const fl_ctype *type,
                    int64_t value);
/* Matches the n arguments exactly with "<…>" at token 'open'. */
int fl_match_all(fl_front *p, const fl_kdeduction *d, int64_t open, const fl_symbol *args, int n);
/* Deduces from a formal, tokens 'from' to end - 1, and the type of an argument; whether the two fit
** is not told. */
void fl_match_formal(fl_front *p, const fl_kdeduction *d, int64_t from, int64_t end,
                     const fl_symbol *arg);
/* Matches tokens 'from' to end - 1, which stand before "...", with each of the n arguments: the
** elements of the template's pack. formal: as in fl_match_formal. */
int fl_match_pack(fl_front *p, const fl_kdeduction *d, int64_t from, int64_t end,
                  const fl_symbol *args, int n, int formal);
/* Is the formal a reference? 2: "T &&" of a parameter T, which is T & for an lvalue. */
int fl_match_reference(fl_front *p, const fl_kdeduction *d, int64_t from, int64_t end);
#define FL_K_NAME_TEMPLATE "a kernel that is a template is named with its arguments, " \
                           "as in entry = \"name<float, 16>\""
int fl_template_same(const fl_symbol *a, const fl_symbol *b, int n);    /* the same arguments? */
/* outside.c. Has one of the m parameters b the name of one of the n parameters a? With 'other',
** two of the same number do not count. If so, a default, which is read with the names of both, may
** mean the wrong one. */
int fl_template_confused(const fl_ktparam *a, int n, const fl_ktparam *b, int m, int other);

/* Adds the partial specialisation "struct name<pattern> { … };" to template t; the parser is at
** '<'. */
void fl_pattern_add(fl_front *p, fl_ktemplate *t, fl_ktparam *params, int n);
/* The partial specialisation of t that fits the arguments, with what its parameters stand for in
** *env; NULL: none, or the text is refused. */
const fl_kpattern *fl_pattern_find(fl_front *p, const fl_ktemplate *t, const fl_symbol *args,
                                   fl_symbol **env, int32_t line);
/* The alignment of template "struct alignas(N * sizeof(T)) name" with these arguments. */
int64_t fl_template_alignment(fl_front *p, const fl_ktemplate *t, const fl_symbol *args);
/* Takes "typename std::enable_if<…>::type" as the type of a template's parameter, and returns the
** index of its first token; 0: it is something else. */
int64_t fl_pattern_condition(fl_front *p);
/* Substitution failure: if the text is refused because a struct lacks a type or constant, forgets
** that and returns 1; what was read does not fit the template's arguments. Else 0. */
int fl_pattern_drops(fl_front *p);

/* ---- outside.c: functions of structs that are defined outside of them ---- */

/* Takes a definition "R V::f(…) { … }" at the tokens, after "template <…>" (is_template) with the
** n parameters 'params'. 1: it was one, or is refused. 0: it is something else, nothing is
** taken. */
int fl_outside_declare(fl_front *p, fl_ktparam *params, int n, int is_template);
/* d: a function of a template's instance. If it has no body, it gets the one that was defined
** outside of the template, if there is one. */
void fl_outside_complete(fl_front *p, fl_kdevice *d);
/* front.c. The index of the token after the one at 'from', or after its closing bracket. */
int64_t fl_front_end(fl_front *p, int64_t from);

/* unread.c. The types among the members of a class that could not be read, whose declaration goes
** from 'from' to here: they can be named after "class::". *list is in the arena; returns how
** many. */
int64_t fl_front_unread_types(fl_front *p, int64_t from, fl_symbol **list);
int fl_decl_is_word(const fl_ktok *t);   /* decl.c: "unsigned", "long" …, several of which are one
                                         ** type? */
int fl_device_attribute(const fl_ktok *t);       /* device.c: "alignas" and others with (…) */
int fl_device_skip_attribute(fl_front *p);     /* takes one, or "noexcept"; 0: there is none */
int fl_member_copies(fl_front *p, const fl_ctype *t);    /* copies.c: has t other copies? */
const char *fl_member_class(const fl_ctype *t);    /* member.c: its name, without arguments */
int fl_device_same(const fl_kdevice *a, const fl_kdevice *b);     /* device.c: the same formals */

/* ---- pack.c ---- */

typedef struct fl_kpacked {      /* an expansion that is being read */
  int64_t at, n;                 /* its first token; its number of elements, or -1 */
  int k, outer;                  /* element that is read; p->pack before it */
} fl_kpacked;
/* The element of pack s that its name means now; s itself outside of an expansion. */
fl_symbol *fl_pack_element(fl_front *p, fl_symbol *s);
/* Number of elements of the pack expansion at the tokens, in a list with commas (angle: in <…>):
** "f(v)..." (0: it has been skipped); -1: it is not an expansion. */
int64_t fl_pack_count(fl_front *p, int angle);
/* Called before the item of the list is read for the first time; n: from fl_pack_count. After each
** reading fl_pack_next returns 1 if the item is to be read again, for the next element. */
fl_kpacked fl_pack_open(fl_front *p, int64_t n);
int fl_pack_next(fl_front *p, fl_kpacked *x);
/* After '(': if it is a fold, takes it and the ')', and returns 1 with its value in *out. */
int fl_pack_fold(fl_front *p, fl_cvalue *out);
fl_kexpr *fl_pack_size(fl_front *p);                         /* after "sizeof..." */
#endif
