/*
** What FLAME_CHECK compiles into user kernels: each access to memory, each barrier and each shuffle
** of the text that src/kernel/text/text_check.c writes goes through a function here. The rules are
** those of the CPU (src/kernel/lanes/lane_check.c, lane_warp.c);
** src/cuda/call/call_checked.c has the host's view of the structs.
**
** - A cell stands for one element of global or shared memory. It notes the last thread that wrote
**   the element, the last two that changed it atomically, and the last two that read it. Cells are
**   read and changed under their lock, so the second access of a race is always seen, whichever it
**   is; loads and stores of the element are made under it too, atomic operations after it.
** - Which of the two accesses came later is decided by the number of accesses that each thread has
**   made: this is the order that they would have in lockstep. Of all faults the record keeps that
**   of the lowest block, then line, then thread: the same in every run unless threads diverge.
** - An access out of bounds is not made: a load gives 0. The thread goes on, so that it still comes
**   to the barriers.
** - The state of barriers and shuffles is a structure for each block in global memory: which
**   threads have returned, have come to the end, or wait. A barrier that would wait for ever is
**   reported instead. Threads of a warp go on without the lanes that can no longer come.
** - A critical section is inside the loop that waits for its lock, because lanes of one warp may
**   want the same lock: a lane that waited after the loop would keep the others from leaving it.
*/
#define FL_NI static __device__ __noinline__
#define FL_LOCKED(word, ...)                                  \
  for (bool fl_done = false; !fl_done;) {                     \
    if (atomicCAS((unsigned *)&(word), 0u, 1u) == 0u) {       \
      __threadfence();                                        \
      __VA_ARGS__                                             \
      __threadfence();                                        \
      atomicExch((unsigned *)&(word), 0u);                    \
      fl_done = true;                                         \
    }                                                         \
  }

/* fl_lane_kind */
enum { FL_INDEX = 1, FL_RACED, FL_UNSET, FL_BARRIER, FL_DIVISION, FL_ASSERT, FL_LANE, FL_STEPS };
enum { FL_BOUNDS = 1, FL_RACE = 2, FL_UNINIT = 4 };
enum { FL_WRITE = 1, FL_ATOMIC = 2, FL_SAME = 4, FL_GUESS = 8 };  /* src/kernel/facts/guess.h */
enum { FL_RUNS, FL_AT_BARRIER, FL_WAITS, FL_LEFT, FL_ENDED };       /* left: returned early */

/* An access that a cell notes. block: the block's number + 1; 0: no access. */
struct fl_touch { unsigned block, lane, line, epoch, warp_epoch, seq, how; };
struct fl_cell { unsigned lock, set; fl_touch write, change, changer, read, reader; };
struct fl_place { long long block; unsigned thread, line, write, atomic; };
struct fl_record { unsigned lock, kind; int var, pad; long long index, size; fl_place at, other; };
struct fl_block {
  unsigned lock, arrived, left, ended, epoch, broken, pad[2];
  unsigned warp_lock[32], warp_epoch[32], warp_stopped[32];     /* stopped: lanes that do not run */
  unsigned state[1024], site[1024], mask[1024], go[1024], live[1024];
};
struct fl_array { fl_cell *cells; long long n; };
struct fl_check {
  fl_record *record;
  /* one per block of this wave (blocks that run in one launch); NULL: no thread waits or votes */
  fl_block *blocks;
  fl_cell *shared;                      /* 'shared_cells' for each block of the wave, or NULL */
  long long shared_cells, dynamic_bytes, first_block, steps;
  unsigned grid[3], checks, fences, pad;
  fl_array array[1];                    /* as many as the kernel has */
};
struct fl_thread {                       /* of one thread */
  const fl_check *c;
  volatile fl_block *b;
  fl_cell *shared;
  unsigned block, lane, n, seq, bx, by, bz;
  long long steps;
};

FL_NI void fl_begin(fl_thread &t, const fl_check *c) {
  t.c = c;
  t.block = (unsigned)c->first_block + blockIdx.x;
  t.lane = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  t.n = blockDim.x * blockDim.y * blockDim.z;
  t.b = c->blocks ? c->blocks + blockIdx.x : (fl_block *)0;
  t.shared = c->shared ? c->shared + blockIdx.x * c->shared_cells : (fl_cell *)0;
  t.seq = 0;
  t.steps = 0;
  t.bx = t.block % c->grid[0];
  t.by = t.block / c->grid[0] % c->grid[1];
  t.bz = t.block / c->grid[0] / c->grid[1];
}

/* ---- the record ---------------------------------------------------------------------- */

FL_NI void fl_tell(const fl_thread &t, int kind, int var, long long index, long long size,
                   fl_place at, fl_place other) {
  volatile fl_record *r = t.c->record;
  FL_LOCKED(r->lock,
    const bool lower = r->at.block != at.block ? at.block < r->at.block
                     : r->at.line != at.line ? at.line < r->at.line
                     : r->at.thread != at.thread ? at.thread < r->at.thread
                     : kind == FL_RACED && r->kind == FL_UNSET;   /* the race is why it is unset */
    if (!r->kind || lower) {
      r->kind = (unsigned)kind; r->var = var; r->index = index; r->size = size;
      r->at.block = at.block; r->at.thread = at.thread; r->at.line = at.line;
      r->at.write = at.write; r->at.atomic = at.atomic;
      r->other.block = other.block; r->other.thread = other.thread; r->other.line = other.line;
      r->other.write = other.write; r->other.atomic = other.atomic;
    })
}

static __device__ fl_place fl_here(const fl_thread &t, unsigned thread, int line) {
  fl_place p;
  p.block = t.block; p.thread = thread; p.line = (unsigned)line; p.write = 0; p.atomic = 0;
  return p;
}

FL_NI void fl_fault(const fl_thread &t, int kind, int var, long long index, long long size,
                    int line) {
  fl_tell(t, kind, var, index, size, fl_here(t, t.lane, line), fl_here(t, t.lane, 0));
}

/* ---- races --------------------------------------------------------------------------- */

static __device__ bool fl_unordered(const fl_thread &t, const volatile fl_touch &o) {
  if (!o.block) return false;
  if (o.block != t.block + 1) return !t.c->fences;
  if (o.lane == t.lane || !t.b) return o.lane != t.lane;
  if (o.epoch != t.b->epoch) return false;
  return o.lane / 32 != t.lane / 32 || o.warp_epoch == t.b->warp_epoch[t.lane / 32];
}

static __device__ fl_place fl_place_of(const volatile fl_touch &o, bool write) {
  fl_place p;
  p.block = (long long)o.block - 1; p.thread = o.lane; p.line = o.line;
  p.write = write; p.atomic = (o.how & FL_ATOMIC) != 0;
  return p;
}

FL_NI void fl_raced(const fl_thread &t, int how, int var, long long index, long long size, int line,
                    const volatile fl_touch &old, bool old_write) {
  fl_place now = fl_here(t, t.lane, line), then = fl_place_of(old, old_write);
  now.write = (how & FL_WRITE) != 0;
  now.atomic = (how & FL_ATOMIC) != 0;
  const bool swap = then.block != now.block ? then.block > now.block
                  : old.seq != t.seq ? old.seq > t.seq
                  : then.line != now.line ? then.line > now.line : then.thread > now.thread;
  fl_tell(t, FL_RACED, var, index, size, swap ? then : now, swap ? now : then);
}

static __device__ void fl_note(volatile fl_touch &o, const fl_thread &t, int how, int line) {
  o.block = t.block + 1;
  o.lane = t.lane;
  o.line = (unsigned)line;
  o.seq = t.seq;
  o.how = (unsigned)how;
  o.epoch = t.b ? t.b->epoch : 0u;
  o.warp_epoch = t.b ? t.b->warp_epoch[t.lane / 32] : 0u;
}

static __device__ void fl_note_both(volatile fl_touch &last, volatile fl_touch &other,
                                    const fl_thread &t, int how, int line) {
  if (last.block != t.block + 1 || last.lane != t.lane) {
    other.block = last.block; other.lane = last.lane; other.line = last.line;
    other.epoch = last.epoch; other.warp_epoch = last.warp_epoch;
    other.seq = last.seq; other.how = last.how;
  }
  fl_note(last, t, how, line);
}

/* The latest recorded access that races with this thread: 'last', or else 'other'; 0: none does. */
static __device__ const volatile fl_touch *fl_met(const fl_thread &t, const volatile fl_touch &last,
                                                  const volatile fl_touch &other) {
  return fl_unordered(t, last) ? &last : fl_unordered(t, other) ? &other : (fl_touch *)0;
}

/* Records that this thread does 'how' (FL_WRITE, …) to the element of cell c, and reports a race.
** The caller holds the cell's lock. */
FL_NI void fl_meet(fl_thread &t, volatile fl_cell *c, int how, int var, long long index,
                   long long size, int line) {
  const bool atomic = how & FL_ATOMIC, writes = how & FL_WRITE, guess = how & FL_GUESS,
             same = how & FL_SAME;
  const volatile fl_touch *wrote = fl_unordered(t, c->write) ? &c->write : (fl_touch *)0;
  if (wrote && !writes && (wrote->how & FL_SAME)) wrote = (fl_touch *)0;
  if (!wrote && !atomic && !guess) wrote = fl_met(t, c->change, c->changer);
  if (wrote && !same) fl_raced(t, how, var, index, size, line, *wrote, true);
  if (writes && !same) {
    const volatile fl_touch *read = fl_met(t, c->read, c->reader);
    if (read) fl_raced(t, how, var, index, size, line, *read, false);
  }
  const int keep = wrote ? how : how & ~FL_SAME;
  if (atomic) fl_note_both(c->change, c->changer, t, keep, line);
  else if (writes) fl_note(c->write, t, keep, line);
  else if (!guess) fl_note_both(c->read, c->reader, t, keep, line);
}

/* ---- memory -------------------------------------------------------------------------- */

template <class T> struct fl_is { typedef T type; };
template <class T> static __device__ bool fl_equal(T a, T b) {
  const unsigned char *p = (const unsigned char *)&a, *q = (const unsigned char *)&b;
  for (unsigned i = 0; i < sizeof(T); i++) if (p[i] != q[i]) return false;
  return true;
}

template <class T> FL_NI T fl_read(fl_thread &t, const T *p, long long i, int a, int var,
                                   int line, int how = 0) {
  const long long n = t.c->array[a].n;
  fl_cell *c = t.c->array[a].cells;
  T v = T(0);
  t.seq++;
  if ((unsigned long long)i >= (unsigned long long)n) {
    fl_fault(t, FL_INDEX, var, i, n, line);
    return v;
  }
  if (!c) return p[i];
  c += i;
  FL_LOCKED(c->lock, fl_meet(t, c, how, var, i, n, line); v = *(const volatile T *)(p + i);)
  return v;
}

template <class T> FL_NI void fl_write(fl_thread &t, T *p, long long i, typename fl_is<T>::type v,
                                       int a, int var, int line) {
  const long long n = t.c->array[a].n;
  fl_cell *c = t.c->array[a].cells;
  t.seq++;
  if ((unsigned long long)i >= (unsigned long long)n) {
    fl_fault(t, FL_INDEX, var, i, n, line);
    return;
  }
  if (!c) { p[i] = v; return; }
  c += i;
  FL_LOCKED(c->lock,
    fl_meet(t, c, FL_WRITE | (fl_equal<T>(*(volatile T *)(p + i), v) ? FL_SAME : 0), var,
            i, n, line);
    *(volatile T *)(p + i) = v;)
}

/* May the atomic operation be made? */
FL_NI bool fl_change(fl_thread &t, long long i, int a, int var, int line) {
  const long long n = t.c->array[a].n;
  fl_cell *c = t.c->array[a].cells;
  t.seq++;
  if ((unsigned long long)i >= (unsigned long long)n) {
    fl_fault(t, FL_INDEX, var, i, n, line);
    return false;
  }
  if (!c) return true;
  c += i;
  FL_LOCKED(c->lock, fl_meet(t, c, FL_WRITE | FL_ATOMIC, var, i, n, line);)
  return true;
}

/* Reads element i of a shared array of n elements. The array's cells begin at number 'cell', and
** each element has 'per' of them. */
template <class T> FL_NI T fl_read_shared(fl_thread &t, const T *p, long long i, long long n,
                                          int cell, int per, int var, int line,
                                          int how = 0) {
  T v = T(0);
  t.seq++;
  if ((unsigned long long)i >= (unsigned long long)n) {
    fl_fault(t, FL_INDEX, var, i, n, line);
    return v;
  }
  if (!t.shared) return p[i];
  fl_cell *c = t.shared + cell + i * per;
  FL_LOCKED(c->lock,
    if ((t.c->checks & FL_UNINIT) && !*(volatile unsigned *)&c->set)
      fl_fault(t, FL_UNSET, var, i, n, line);
    if (t.c->checks & FL_RACE) fl_meet(t, c, how, var, i, n, line);
    v = *(const volatile T *)(p + i);)
  return v;
}

template <class T> FL_NI void fl_write_shared(fl_thread &t, T *p, long long i,
                                              typename fl_is<T>::type v, long long n, int cell,
                                              int per, int var, int line) {
  t.seq++;
  if ((unsigned long long)i >= (unsigned long long)n) {
    fl_fault(t, FL_INDEX, var, i, n, line);
    return;
  }
  if (!t.shared) { p[i] = v; return; }
  fl_cell *c = t.shared + cell + i * per;
  FL_LOCKED(c->lock,
    const bool same = *(volatile unsigned *)&c->set && fl_equal<T>(*(volatile T *)(p + i), v);
    for (int k = 0; k < per; k++) *(volatile unsigned *)&c[k].set = 1u;
    if (t.c->checks & FL_RACE) fl_meet(t, c, FL_WRITE | (same ? FL_SAME : 0), var, i, n, line);
    *(volatile T *)(p + i) = v;)
}

FL_NI bool fl_change_shared(fl_thread &t, long long i, long long n, int cell, int per, int var,
                            int line) {
  t.seq++;
  if ((unsigned long long)i >= (unsigned long long)n) {
    fl_fault(t, FL_INDEX, var, i, n, line);
    return false;
  }
  if (!t.shared) return true;
  fl_cell *c = t.shared + cell + i * per;
  FL_LOCKED(c->lock,
    if ((t.c->checks & FL_UNINIT) && !*(volatile unsigned *)&c->set)
      fl_fault(t, FL_UNSET, var, i, n, line);
    for (int k = 0; k < per; k++) *(volatile unsigned *)&c[k].set = 1u;
    if (t.c->checks & FL_RACE) fl_meet(t, c, FL_WRITE | FL_ATOMIC, var, i, n, line);)
  return true;
}

/* Reads element i of a local array of the thread, or of a constant table. set: NULL, or which
** elements have a value. */
template <class T> FL_FN T fl_read_local(fl_thread &t, const T *p, const bool *set, long long i,
                                         long long n, int var, int line) {
  if ((unsigned long long)i >= (unsigned long long)n) {
    fl_fault(t, FL_INDEX, var, i, n, line);
    return T(0);
  }
  if (set && !set[i]) fl_fault(t, FL_UNSET, var, i, n, line);
  return p[i];
}

template <class T> FL_FN void fl_write_local(fl_thread &t, T *p, bool *set, long long i,
                                             typename fl_is<T>::type v, long long n, int var,
                                             int line) {
  if ((unsigned long long)i >= (unsigned long long)n) {
    fl_fault(t, FL_INDEX, var, i, n, line);
    return;
  }
  if (set) set[i] = true;
  p[i] = v;
}

template <class T> FL_FN T fl_value(fl_thread &t, T v, bool set, int var, int line) {
  if (!set) fl_fault(t, FL_UNSET, var, -1, 0, line);
  return v;
}

template <class T> FL_FN T fl_divisor(fl_thread &t, T v, int line) {
  if (v != T(0)) return v;
  fl_fault(t, FL_DIVISION, -1, 0, 0, line);
  return T(1);
}

/* ---- threads together ---------------------------------------------------------------- */

/* The lanes of the set 'of' that wait at the same place of the kernel's text as lane k, as bits. */
FL_FN unsigned fl_beside(const volatile fl_block *b, unsigned first, unsigned of, unsigned k) {
  unsigned group = 0;
  for (unsigned j = 0; j < 32; j++)
    if ((of >> j & 1) && b->site[first + j] == b->site[first + k]) group |= 1u << j;
  return group;
}

/* If no lane of a warp runs, waiting lanes are released: at each place where all lanes of the mask
** have come but those that returned early, or if there is no such place, where the lowest lane
** waits. The caller holds the warp's lock. */
FL_NI void fl_settle_warp(const fl_thread &t, unsigned w) {
  volatile fl_block *b = t.b;
  const unsigned first = 32 * w, n = t.n - first < 32 ? t.n - first : 32;
  unsigned waits = 0, live = 0, gone = 0;
  if (b->warp_stopped[w] < n) return;
  for (unsigned k = 0; k < n; k++) {
    const unsigned s = b->state[first + k];
    if (s == FL_WAITS) waits |= 1u << k;
    if (s != FL_LEFT) live |= 1u << k;
  }
  if (!waits) return;
  unsigned whole = 0, lowest = 0;
  for (unsigned k = 0; k < n; k++) {
    if (!(waits >> k & 1)) continue;
    const unsigned group = fl_beside(b, first, waits, k);
    if (!(b->mask[first + k] & live & ~group)) whole |= group;
    if (!lowest) lowest = group;
  }
  const unsigned leave = whole ? whole : lowest;
  for (unsigned k = 0; k < n; k++) {
    if (!(leave >> k & 1)) continue;
    const unsigned group = fl_beside(b, first, leave, k), before = (1u << k) - 1;
    if (!(group & before) && (b->site[first + k] & 1)) b->warp_epoch[w]++;      /* __syncwarp */
    b->live[first + k] = live;
    b->mask[first + k] = group;
  }
  for (unsigned k = 0; k < n; k++)
    if (leave >> k & 1) {
      b->state[first + k] = FL_RUNS;
      gone++;
    }
  b->warp_stopped[w] -= gone;
  __threadfence();
  for (unsigned k = 0; k < n; k++) if (leave >> k & 1) b->go[first + k] = 1u;
}

/* If no thread of the block runs, releases those at the barrier, or reports that it can never be
** passed. The caller holds the block's lock. */
FL_NI void fl_settle(const fl_thread &t) {
  volatile fl_block *b = t.b;
  if (b->broken || !b->arrived || b->arrived + b->left + b->ended < t.n) return;
  /* the first barrier of the text that is waited at, and whether there are others */
  unsigned line = ~0u, others = 0;
  for (unsigned k = 0; k < t.n; k++) {
    if (b->state[k] != FL_AT_BARRIER || b->site[k] == line) continue;
    others |= line != ~0u;
    if (b->site[k] < line) line = b->site[k];
  }
  if (!b->ended && !others) {
    for (unsigned k = 0; k < t.n; k++)
      if (b->state[k] == FL_AT_BARRIER) {                     /* no other thread runs */
        b->state[k] = FL_RUNS;
        b->warp_stopped[k / 32]--;
      }
    b->arrived = 0;
    __threadfence();
    b->epoch++;
    return;
  }
  unsigned there = t.n, missing = t.n;
  for (unsigned k = t.n; k-- > 0;) {
    if (b->state[k] == FL_AT_BARRIER && b->site[k] == line) there = k;
    else if (b->state[k] != FL_LEFT) missing = k;
  }
  fl_tell(t, FL_BARRIER, -1, 0, 0, fl_here(t, there, (int)line), fl_here(t, missing, 0));
  b->broken = 1;
}

FL_NI void fl_state(const fl_thread &t, unsigned state) {
  const unsigned w = t.lane / 32;
  FL_LOCKED(t.b->warp_lock[w], t.b->state[t.lane] = state; t.b->warp_stopped[w]++;
            fl_settle_warp(t, w);)
}

FL_NI void fl_barrier(fl_thread &t, int line) {
  volatile fl_block *b = t.b;
  unsigned epoch = 0;
  bool wait = false;
  __threadfence();
  b->site[t.lane] = (unsigned)line;
  fl_state(t, FL_AT_BARRIER);
  FL_LOCKED(b->lock,
    if (!b->broken) {
      epoch = b->epoch;
      wait = true;
      b->arrived++;
      fl_settle(t);
    })
  while (wait && b->epoch == epoch && !b->broken) __nanosleep(100);
  if (b->broken)
    FL_LOCKED(b->warp_lock[t.lane / 32],
      if (b->state[t.lane] == FL_AT_BARRIER) {
        b->state[t.lane] = FL_RUNS;
        b->warp_stopped[t.lane / 32]--;
      })
  __threadfence();
}

/* The thread ends: early by 'return', or after the last statement. */
FL_NI void fl_leave(fl_thread &t, bool early) {
  volatile fl_block *b = t.b;
  if (!b) return;
  fl_state(t, early ? FL_LEFT : FL_ENDED);
  FL_LOCKED(b->lock, if (early) b->left++; else b->ended++; fl_settle(t);)
}

/* Waits for the lanes of 'mask', and returns those that have come. site: number of the place in the
** text, odd for __syncwarp. named: the kernel itself gives the mask, so a lane that is missing is a
** fault. */
FL_NI unsigned fl_together(fl_thread &t, unsigned mask, unsigned site, int line, bool named) {
  volatile fl_block *b = t.b;
  const unsigned w = t.lane / 32, first = 32 * w, me = t.lane - first;
  FL_LOCKED(b->warp_lock[w],
    b->site[t.lane] = site; b->mask[t.lane] = mask; b->go[t.lane] = 0; b->state[t.lane] = FL_WAITS;
    b->warp_stopped[w]++;
    fl_settle_warp(t, w);)
  while (!b->go[t.lane]) __nanosleep(40);
  __threadfence();
  const unsigned here = b->mask[t.lane], missing = mask & b->live[t.lane] & ~here;
  if (named && (t.c->checks & FL_BOUNDS)) {
    if (!(mask >> me & 1))
      fl_tell(t, FL_LANE, -1, 0, 0, fl_here(t, t.lane, line), fl_here(t, t.lane, 0));
    else if (missing && first + __ffs((int)missing) - 1 < t.n)
      fl_tell(t, FL_LANE, -1, 0, 0, fl_here(t, t.lane, line),
              fl_here(t, first + (unsigned)__ffs((int)missing) - 1, 0));
  }
  __syncwarp(here);
  return here;
}

/* The lane whose value lane 'me' gets from a shuffle: op 0 by index, 1 up, 2 down, 3 xor. */
static __device__ unsigned fl_source(int op, unsigned me, unsigned x, unsigned width) {
  const unsigned w = width >= 1 && width <= 32 ? width : 32, begin = me / w * w, end = begin + w;
  if (op == 0) return begin + x % w;
  x &= 31;
  if (op == 1) return x > me - begin ? me : me - x;
  if (op == 2) return x >= end - me ? me : me + x;
  const unsigned from = me ^ x;
  return from >= end ? me : from;
}

template <class T> FL_NI T fl_shuffle(fl_thread &t, int op, unsigned mask, T v, unsigned x,
                                      unsigned width, unsigned site, int line) {
  const unsigned here = fl_together(t, mask, site, line, true), first = t.lane / 32 * 32,
                 me = t.lane - first;
  unsigned from = fl_source(op, me, x, width);
  if (first + from >= t.n || !(here >> from & 1)) {
    fl_tell(t, FL_LANE, -1, 0, 0, fl_here(t, t.lane, line), fl_here(t, first + from, 0));
    from = me;
  }
  return __shfl_sync(here, v, (int)from);
}

/* op 0 ballot, 1 any, 2 all, 3 active. */
FL_NI unsigned fl_vote(fl_thread &t, int op, unsigned mask, bool v, unsigned site, int line) {
  const unsigned here = fl_together(t, mask, site, line, op != 3), yes = __ballot_sync(here, v);
  if (op == 0) return yes & mask;
  if (op == 1) return (yes & mask) != 0;
  if (op == 2) return (here & mask & ~yes) == 0;
  return here;
}

/* Called in each iteration of a loop: ends a thread that runs for too long. */
FL_FN void fl_step(fl_thread &t, int line) {
  if (!t.c->steps || ++t.steps <= t.c->steps) return;
  fl_fault(t, FL_STEPS, -1, 0, 0, line);
  if (t.b) t.b->broken = 1;
  fl_leave(t, false);
  asm volatile("exit;");
}
