/*
** Tests of layouts (sizes and strides of tensors): equal layouts are one pointer; sizes near the
** largest int64; reshapes and views of views, checked element by element.
*/
#include "fake_engine.h"

static void equal_layouts_are_one_pointer(flame_context *c) {
  fl_layouts *t = &c->layouts;
  fl_layout *a = shape2(c, 3, 4);
  fl_layout *b = fl_layout_of(t, 2, (int64_t[]){3, 4}, (int64_t[]){4, 1});
  fl_layout *d = fl_layout_of(t, 2, (int64_t[]){3, 4}, (int64_t[]){1, 3});
  CHECK(a == b && a->contiguous && a->numel == 12);
  CHECK(d != a && !d->contiguous);
  fl_layout *e = fl_layout_of(t, 2, (int64_t[]){1, 4}, (int64_t[]){-7, 1});
  fl_layout *f = shape2(c, 1, 4);
  CHECK(e == f);                                        /* a size-1 axis has no stride */
  fl_layout *g = fl_layout_of(t, 2, (int64_t[]){0, 4}, (int64_t[]){9, 9});
  fl_layout *h = shape2(c, 0, 4);
  CHECK(g == h && g->numel == 0);
  fl_layout *all[] = {a, b, d, e, f, g, h};
  for (int i = 0; i < 7; i++) fl_layout_release(t, all[i]);
  CHECK(t->n == 1);                                     /* the 0-d one of the context */
  fl_layout *many[1000];
  for (int i = 0; i < 1000; i++) many[i] = shape2(c, i, 2);
  for (int i = 0; i < 1000; i++) CHECK(many[i]->size[0] == i);
  for (int i = 0; i < 1000; i++) fl_layout_release(t, many[i]);
  CHECK(t->n == 1);
}

static void sizes_are_checked_for_overflow(flame_context *c) {
  char buf[192];
  const int64_t big = INT64_MAX / 2;
  (void)c;
  CHECK(fl_numel(0, NULL) == 1);
  CHECK(fl_numel(2, (int64_t[]){big, 4}) == -1);
  CHECK(fl_numel(3, (int64_t[]){2, big, 0}) == -1);      /* its strides could not be represented */
  CHECK(fl_numel(3, (int64_t[]){2, 0, 3}) == 0);
  CHECK(fl_numel(2, (int64_t[]){1 << 20, 1 << 20}) == (int64_t)1 << 40);
  CHECK(!strcmp(fl_shape_text(buf, 2, (int64_t[]){2, 3}), "(2, 3)"));
  CHECK(!strcmp(fl_shape_text(buf, 0, NULL), "()"));
  int64_t wide[8];
  for (int i = 0; i < 8; i++) wide[i] = INT64_MAX;
  CHECK(strlen(fl_shape_text(buf, 8, wide)) < 192);
}

/* The offset of row-major element i in a layout. It is used to check reshapes between all shapes of
** 24 elements in 'cuts'. */
static int64_t element(int rank, const int64_t *size, const int64_t *stride, int64_t i) {
  int64_t at = 0;
  for (int k = rank - 1; k >= 0; k--) {
    at += i % size[k] * stride[k];
    i /= size[k];
  }
  return at;
}

static const int64_t cuts[][4] = {
  {24, 1, 1, 1}, {2, 12, 1, 1}, {2, 3, 4, 1}, {4, 3, 2, 1},
  {6, 1, 4, 1},  {1, 8, 3, 1},  {2, 2, 2, 3}, {3, 2, 2, 2},
};

static void reshapes_of_strided_arrays_walk_the_same_elements(flame_context *c) {
  static const int64_t strides[][3] = {{12, 4, 1}, {1, 2, 6}, {-12, 4, 1}, {24, 8, 2},
                                       {0, 4, 1},  {4, 0, 1}, {0, 0, 0}, {12, -4, -1}};
  const int64_t size[] = {2, 3, 4};
  int possible = 0;
  (void)c;
  for (int s = 0; s < 8; s++) {
    for (int k = 0; k < 8; k++) {
      int64_t out[4];
      if (!fl_view_strides(3, size, strides[s], 4, cuts[k], out)) continue;
      possible++;
      for (int64_t i = 0; i < 24; i++)
        CHECK(element(4, cuts[k], out, i) == element(3, size, strides[s], i));
    }
  }
  CHECK(possible > 20);
  int64_t out[4];
  const int64_t square[] = {3, 4}, turned[] = {1, 3}, flat[] = {12};
  CHECK(!fl_view_strides(2, square, turned, 1, flat, out));
}

static uint32_t draw(uint32_t *s) { return *s = *s * 1664525u + 1013904223u, *s >> 16; }

/* Makes a random view of a row-major array (sliced, flipped, permuted): its sizes and strides;
** returns its offset. */
static int64_t random_view(uint32_t *s, int rank, const int64_t *size, int64_t *vsize,
                           int64_t *vstride) {
  int64_t row[4], offset = 0;
  fl_row_major(rank, size, row);
  for (int k = 0; k < rank; k++) {
    const int64_t n = 1 + draw(s) % size[k], first = draw(s) % (size[k] - n + 1);
    const int flip = draw(s) % 3 == 0;
    vsize[k] = n;
    vstride[k] = flip ? -row[k] : row[k];
    offset += row[k] * (flip ? first + n - 1 : first);
  }
  const int a = draw(s) % rank, b = draw(s) % rank;
  const int64_t t = vsize[a], u = vstride[a];
  vsize[a] = vsize[b], vstride[a] = vstride[b];
  vsize[b] = t, vstride[b] = u;
  return offset;
}

static void composed_maps_are_right_or_refused(flame_context *c) {
  uint32_t seed = 42;
  int strided = 0, refused = 0;
  (void)c;
  for (int round = 0; round < 4000; round++) {
    int64_t p[3], q[3], vs[3], vt[3], out[3], off = 0, cut[4], ct[4], co[4], coff = 0;
    for (int k = 0; k < 3; k++) p[k] = 1 + draw(&seed) % 4;
    for (int k = 0; k < 3; k++) q[k] = (int64_t)(draw(&seed) % 5) - 1;
    const int64_t vo = random_view(&seed, 3, p, vs, vt), n = fl_numel(3, vs);
    CHECK(fl_map_compose(3, p, q, 3, vs, vt, vo, out, &off));  /* by axes: always */
    for (int64_t i = 0; i < n; i++)
      CHECK(off + element(3, vs, out, i) == element(3, p, q, vo + element(3, vs, vt, i)));
    memcpy(cut, cuts[draw(&seed) % 8], sizeof cut);
    fl_row_major(4, cut, ct);
    const int64_t whole[3] = {2, 3, 4};
    if (!fl_map_compose(3, whole, q, 4, cut, ct, 0, co, &coff)) {
      refused++;
      continue;
    }
    strided++;
    for (int64_t i = 0; i < 24; i++)
      CHECK(coff + element(4, cut, co, i) == element(3, whole, q, i));
  }
  CHECK(strided > 500 && refused > 500);
}

int main(void) {
  static const test tests[] = {
    TEST(equal_layouts_are_one_pointer),
    TEST(sizes_are_checked_for_overflow),
    TEST(reshapes_of_strided_arrays_walk_the_same_elements),
    TEST(composed_maps_are_right_or_refused),
  };
  return run_tests("layouts", tests, (int)(sizeof tests / sizeof *tests));
}
