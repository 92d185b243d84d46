/*
** Textures of linear memory. A parameter of type cudaTextureObject_t is a read-only array, whose
** elements have the type T of its fetches, tex1Dfetch<T>(tex, i): the first one in the text sets
** it. No texture object is made: a device runs what is printed of the tree, which reads global
** memory. An index outside of the array is an error as for pointers, since CUDA does not say what
** such a fetch gives (addressing modes do not apply to linear memory).
**
** While the text is read, such a value is a pointer to a separate type, which only a fetch reads.
*/
#include "kernel/front/forms.h"
#include "kernel/front/template.h"
#include <string.h>

int fl_texture_is(const fl_ctype *t) {
  return t && t->kind == FL_C_POINTER && fl_ctype_same(t, fl_ctype_texture());
}

/* Can an element of a texture have this type? As in CUDA: float, an integer of at most 32 bits, or
** a vector of 1, 2 or 4 of these. */
static int is_texel(const fl_ctype *t) {
  const int vector = t->kind == FL_C_STRUCT && t->s->width && t->s->width != 3;
  const int type = t->kind == FL_C_SCALAR ? t->scalar : vector ? t->s->element : FL_KT_VOID;
  return type == FL_KT_F32 || (type >= FL_KT_I8 && type <= FL_KT_U32);
}

/* The elements of v's parameter are of type t from now on. Refuses the text if an earlier fetch set
** another type, or v is no parameter. */
static void set_element(fl_front *p, const fl_cvalue *v, const fl_ctype *t, int32_t line) {
  fl_kvar *of = &p->f->vars[v->var];
  fl_kparam *q = of->param >= 0 ? &p->f->params[of->param] : NULL;
  const char *text = fl_ctype_text(p->a, t);
  if (!q || !q->is_texture) {
    fl_refuse(p, line, "a texture in a struct is outside the language" FL_DO
              ": make it a parameter of the kernel");
  } else if (q->fetched && text && strcmp(q->type_name, text)) {
    fl_refuse(p, line, "texture '%s' is read as '%s' here and as '%s' in line %d: it has elements "
              "of one type", q->name, text, q->type_name, (int)q->fetched);
  } else if (!q->fetched) {
    int64_t n;
    fl_front_describe(p, q, fl_ctype_pointer(p->a, t, 1));
    q->fetched = line;
    of->type = (uint8_t)fl_ctype_element(t, &n);
  }
}

/* Element i of texture v. */
static fl_cvalue fetch(fl_front *p, fl_cvalue v, fl_cvalue i, const fl_ctype *t, int32_t line) {
  v = fl_val_pointer(p, v, line);
  fl_kexpr *at = p->failed ? NULL : fl_val_convert(p, fl_val_scalar(p, i, line), FL_KT_I32);
  if (p->failed || !at) return fl_val_none();
  if (v.null || v.type != fl_ctype_texture()->of)
    return fl_val_refuse(p, line, "tex1Dfetch reads a parameter of type cudaTextureObject_t");
  if (!is_texel(t))
    return fl_val_refuse(p, line, "tex1Dfetch of '%s': elements of a texture are float, int, short "
                         "and char, and vectors of 1, 2 and 4" FL_DO ": make it a const pointer",
                         fl_ctype_text(p->a, t));
  if (!fl_val_is_null(&v)) set_element(p, &v, t, line);
  if (p->failed) return fl_val_none();
  v.type = t;
  v = fl_val_index(p, v, at, line);
  v.rvalue = 1;
  return v;
}

/* Reads tex1Dfetch<T>(tex, i), or tex1Dfetch(&to, tex, i). */
static fl_cvalue parse_fetch(fl_front *p, int32_t line) {
  const fl_ctype *t = NULL;
  fl_cvalue args[3];
  if (fl_front_take(p, '<')) {
    t = fl_decl_type_name(p);
    fl_template_close(p);
  }
  if (!fl_front_is(p, '('))
    return fl_val_refuse(p, line, "tex1Dfetch is called as tex1Dfetch<float>(texture, index)");
  const int n = fl_parse_arguments(p, args, 3);
  if (p->failed) return fl_val_none();
  const fl_cvalue to = n == 3 ? fl_val_deref(p, args[0], line) : fl_val_none();
  if (n == 3 && !p->failed && (!t || fl_ctype_same(t, to.type))) {
    fl_val_assign(p, to, fetch(p, args[1], args[2], to.type, line), line);
    return fl_val_none();
  }
  if (p->failed) return fl_val_none();
  if (!t || n != 2)
    return fl_val_refuse(p, line, "tex1Dfetch is called as tex1Dfetch<float>(texture, index)");
  return fetch(p, args[0], args[1], t, line);
}

int fl_texture_call(fl_front *p, fl_cvalue *out) {
  const fl_ktok *t = fl_front_tok(p);
  static const char *const filtered[] = { "tex1D", "tex2D", "tex3D", "texCubemap" };
  int sampled = 0;
  if (t->kind != FL_TOK_NAME || t->n < 5 || memcmp(t->text, "tex", 3) ||
      fl_front_find(p, t->text, t->n))
    return 0;
  if (fl_ktok_is(t, "tex1Dfetch")) {
    fl_front_next(p);
    *out = parse_fetch(p, t->line);
    return 1;
  }
  for (int i = 0; i < 4; i++) {
    const size_t n = strlen(filtered[i]);
    sampled |= (size_t)t->n >= n && !memcmp(t->text, filtered[i], n);
  }
  if (!sampled) return 0;
  *out = fl_val_refuse(p, t->line, "textures that filter are outside the language (%.*s: the host "
                       "sets how)" FL_DO ": read a const pointer, or by tex1Dfetch", (int)t->n,
                       t->text);
  return 1;
}

int fl_texture_old(fl_front *p) {
  const fl_ktok *t = fl_front_tok(p);
  if (!fl_ktok_is(t, "texture") || !fl_front_is_at(p, 1, '<') || fl_front_find(p, t->text, t->n))
    return 0;
  fl_refuse(p, t->line, "texture references are gone from CUDA 12" FL_DO ": give the kernel a "
            "parameter 'cudaTextureObject_t t', read by tex1Dfetch<float>(t, i)");
  return 1;
}
