/*
** The text of sorting and selecting by radix, for one kind of elements. Included twice by
** sort_radix.c with: E the element type, KEY(e), AT(e), MAKE(key, at), NAME(f), and C the type
** of counters, which holds the length of a row.
**
** The highest bits that differ are sorted by two digits (short rows: up to four), the lowest digit
** first: one reading counts all digits, and the last pass writes positions instead of elements.
** Runs of elements that share these bits are short, and are sorted next. Rows of few elements are
** sorted by insertion.
*/

#define X(ENUM, T, key) \
  case FLAME_##ENUM: { \
    const T *v = (const T *)x + first; \
    for (int64_t i = 0; i < n; i++) { \
      const uint64_t k = key(v[i]) ^ mask; \
      u |= k; \
      s &= k; \
      e[i] = MAKE(k, (uint64_t)(first + i)); \
    } \
    break; \
  }
void NAME(make)(int dtype, const void *x, int64_t first, int64_t n, int flip, E *e,
                uint64_t *any, uint64_t *all) {
  const uint64_t mask = flip ? ~(uint64_t)0 >> (64 - fl_key_bits(dtype)) : 0;
  uint64_t u = 0, s = ~(uint64_t)0;
  switch (dtype) { FL_KEY_TYPES(X) default: break; }
  if (any) *any = u;
  if (all) *all = s;
}
#undef X

static void NAME(insertion)(E *a, int64_t n) {
  for (int64_t i = 1; i < n; i++) {
    const E e = a[i];
    int64_t j = i;
    for (; j > 0 && KEY(a[j - 1]) > KEY(e); j--) a[j] = a[j - 1];
    a[j] = e;
  }
}

static void NAME(positions)(const E *a, int64_t n, int64_t *out) {
  for (int64_t i = 0; i < n; i++) out[i] = (int64_t)AT(a[i]) + 1;
}

/* Counts the values of 'passes' digits of 'digit' bits each, the first of which begins at bit
** 'low'; the counts of digit p are at count[p << digit]. */
static void NAME(count)(const E *a, int64_t n, int low, int digit, int passes, C *count) {
  const uint64_t mask = ((uint64_t)1 << digit) - 1;
  memset(count, 0, sizeof *count * ((size_t)passes << digit));
  for (int64_t i = 0; i < n; i++) {
    uint64_t k = KEY(a[i]) >> low;
    for (int p = 0; p < passes; p++, k >>= digit) count[((size_t)p << digit) + (k & mask)]++;
  }
}

static void NAME(starts)(C *count, int64_t buckets) {
  C sum = 0;
  for (int64_t i = 0; i < buckets; i++) {
    const C c = count[i];
    count[i] = sum;
    sum += c;
  }
}

/* The number of bits up to the highest one in which keys differ. */
static int NAME(differing)(const E *a, int64_t n) {
  uint64_t any = 0, all = ~(uint64_t)0;
  for (int64_t i = 0; i < n; i++) {
    any |= KEY(a[i]);
    all &= KEY(a[i]);
  }
  return any == all ? 0 : 64 - __builtin_clzll(any ^ all);
}

/* a is sorted except for the lowest 'rest' bits: sorts the runs that share the others. */
static void NAME(finish)(E *a, E *b, int64_t n, int rest, int64_t *out, int64_t *room) {
  for (int64_t i = 0, end; i < n; i = end) {
    for (end = i + 1; end < n && KEY(a[end]) >> rest == KEY(a[i]) >> rest; end++) { }
    if (end == i + 1) out[i] = (int64_t)AT(a[i]) + 1;
    else NAME(sort)(a + i, b + i, end - i, rest, out + i, room);
  }
}

/* Calls itself for runs of elements that two digits do not separate: at most four levels deep. */
void NAME(sort)(E *a, E *b, int64_t n, int bits, int64_t *out, int64_t *room) {
  if (n <= INSERTION) {
    if (bits) NAME(insertion)(a, n);
    NAME(positions)(a, n, out);
    return;
  }
  bits = NAME(differing)(a, n);
  C *count = (C *)(void *)room;
  int digit = n < 3000 ? 8 : FL_RADIX_BITS;
  int passes = (bits + digit - 1) / digit;
  if (passes > (n < 3000 ? 4 : 2)) passes = 2;
  const int rest = bits > passes * digit ? bits - passes * digit : 0;
  if (passes) digit = (bits - rest + passes - 1) / passes;
  const uint64_t mask = ((uint64_t)1 << digit) - 1;
  if (bits) NAME(count)(a, n, rest, digit, passes, count);
  unsigned need = 0;                           /* digits that differ */
  for (int p = 0; bits && p < passes; p++)
    if ((int64_t)count[((size_t)p << digit) + (KEY(a[0]) >> (rest + p * digit) & mask)] != n)
      need |= 1u << p;
  for (int p = 0; need; p++) {
    if (!(need & 1u << p)) continue;
    need &= ~(1u << p);
    C *at = count + ((size_t)p << digit);
    const int shift = rest + p * digit;
    NAME(starts)(at, (int64_t)1 << digit);
    if (!need && !rest) {
      for (int64_t i = 0; i < n; i++) out[at[KEY(a[i]) >> shift & mask]++] = (int64_t)AT(a[i]) + 1;
      return;
    }
    for (int64_t i = 0; i < n; i++) b[at[KEY(a[i]) >> shift & mask]++] = a[i];
    E *t = a;
    a = b;
    b = t;
  }
  if (rest) NAME(finish)(a, b, n, rest, out, room);
  else NAME(positions)(a, n, out);
}

/* One digit at a time, from the top: elements below the k-th's bucket are chosen, those in it stay,
** in order, for the next digit. */
int64_t NAME(select)(E *a, int64_t n, int bits, int64_t k, E *sel, int64_t *room) {
  C *count = (C *)(void *)room;
  while (bits > 0 && n > 1) {
    const int digit = bits < FL_RADIX_BITS ? bits : n < 3000 && bits > 8 ? 8 : FL_RADIX_BITS;
    const uint64_t mask = ((uint64_t)1 << digit) - 1;
    const int shift = bits - digit;
    memset(count, 0, sizeof *count << digit);
    for (int64_t i = 0; i < n; i++) count[KEY(a[i]) >> shift & mask]++;
    uint64_t d = 0;
    int64_t below = 0;
    while (below + (int64_t)count[d] < k) below += (int64_t)count[d++];
    int64_t left = 0;
    if ((int64_t)count[d] != n) {
      for (int64_t i = 0; i < n; i++) {
        const E e = a[i];
        const uint64_t g = KEY(e) >> shift & mask;
        if (g == d) a[left++] = e;
        else if (sel && g < d) *sel++ = e;
      }
      n = left;
    }
    k -= below;
    bits = shift;
  }
  for (int64_t i = 0; sel && i < k; i++) sel[i] = a[i];
  return (int64_t)AT(a[0]);
}
#undef E
#undef KEY
#undef AT
#undef MAKE
#undef NAME
#undef C
