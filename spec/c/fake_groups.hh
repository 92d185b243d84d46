/*
** The part of cooperative groups that the specs' kernels use, for the fake GPU. A group is a mask
** of lanes, or the whole block; reductions and scans combine values from the lowest rank up.
*/
#pragma once
namespace cooperative_groups {
FAKE unsigned fake_lane_of() { return fake_m->linear & 31; }
struct thread_block {
  static void sync() { __syncthreads(); }
  static unsigned thread_rank() { return fake_m->linear; }
  static unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
  static unsigned num_threads() { return size(); }
  static dim3 group_index() { return dim3(blockIdx); }
  static dim3 thread_index() { return dim3(threadIdx); }
  static dim3 group_dim() { return dim3(blockDim); }
  static dim3 dim_threads() { return dim3(blockDim); }
};
struct grid_group {
  static unsigned long long block_rank() {
    return blockIdx.x + (unsigned long long)gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  }
  static unsigned long long num_blocks() {
    return (unsigned long long)gridDim.x * gridDim.y * gridDim.z;
  }
  static unsigned long long thread_rank() {
    return block_rank() * thread_block::size() + fake_m->linear;
  }
  static unsigned long long size() { return num_blocks() * thread_block::size(); }
  static unsigned long long num_threads() { return size(); }
};
struct coalesced_group {
  unsigned fake_mask, fake_rank_of, fake_count_of;
  coalesced_group(unsigned mask, unsigned rank = 0, unsigned count = 1)
    : fake_mask(mask), fake_rank_of(rank), fake_count_of(count) {}
  void sync() const { __syncwarp(fake_mask); }
  unsigned thread_rank() const { return __popc(fake_mask & ((1u << fake_lane_of()) - 1)); }
  unsigned size() const { return __popc(fake_mask); }
  unsigned num_threads() const { return size(); }
  unsigned meta_group_rank() const { return fake_rank_of; }
  unsigned meta_group_size() const { return fake_count_of; }
  unsigned fake_at(unsigned rank) const {
    unsigned m = fake_mask;
    while (rank-- && m) m &= m - 1;
    return m ? __ffs((int)m) - 1 : fake_lane_of();
  }
  unsigned fake_ranks(unsigned lanes) const {
    unsigned r = 0;
    for (unsigned i = 0; i < size(); i++) r |= (lanes >> fake_at(i) & 1) << i;
    return r;
  }
  template <class T> T shfl(T v, unsigned rank) const {
    return fake_shfl(fake_mask, v, fake_at(rank % size()));
  }
  template <class T> T shfl_up(T v, unsigned d) const {
    const unsigned me = thread_rank();
    return fake_shfl(fake_mask, v, fake_at(me < d ? me : me - d));
  }
  template <class T> T shfl_down(T v, unsigned d) const {
    const unsigned me = thread_rank();
    return fake_shfl(fake_mask, v, fake_at(me + d < size() ? me + d : me));
  }
  template <class T> T shfl_xor(T v, unsigned d) const {
    const unsigned to = thread_rank() ^ d;
    return fake_shfl(fake_mask, v, fake_at(to < size() ? to : thread_rank()));
  }
  int any(int p) const { return __any_sync(fake_mask, p); }
  int all(int p) const { return __all_sync(fake_mask, p); }
  unsigned ballot(int p) const { return fake_ranks(__ballot_sync(fake_mask, p)); }
  template <class T> unsigned match_any(T v) const {
    return fake_ranks(__match_any_sync(fake_mask, v));
  }
};
template <unsigned N, class P = void> struct thread_block_tile : coalesced_group {
  thread_block_tile()
    : coalesced_group(fake_first(), fake_m->linear / N, (thread_block::size() + N - 1) / N) {}
  static unsigned fake_first() {
    return (~0u >> (32 - N)) << (fake_lane_of() & (32 - N));
  }
  static constexpr unsigned size() { return N; }
  static constexpr unsigned num_threads() { return N; }
};
FAKE thread_block this_thread_block() { return thread_block(); }
FAKE grid_group this_grid() { return grid_group(); }
FAKE coalesced_group coalesced_threads() { return coalesced_group(__activemask()); }
template <unsigned N, class P> FAKE thread_block_tile<N, P> tiled_partition(const P &) {
  return thread_block_tile<N, P>();
}
template <class T> FAKE coalesced_group labeled_partition(const coalesced_group &g, T label) {
  return coalesced_group(__match_any_sync(g.fake_mask, label));
}
FAKE coalesced_group binary_partition(const coalesced_group &g, bool p) {
  const unsigned set = __ballot_sync(g.fake_mask, p);
  return coalesced_group(p ? set : g.fake_mask & ~set);
}
template <class G> FAKE void sync(const G &g) { g.sync(); }
template <class G> FAKE void wait(const G &g) { g.sync(); }
template <class G, class T>
FAKE void memcpy_async(const G &g, T *to, const T *from, size_t bytes) {
  for (unsigned i = g.thread_rank(); i < bytes / sizeof(T); i += g.size()) to[i] = from[i];
}
#define FAKE_CHOICE(NAME, E) \
  template <class T> struct NAME { T operator()(T a, T b) const { return E; } };
FAKE_CHOICE(plus, a + b) FAKE_CHOICE(less, b < a ? b : a) FAKE_CHOICE(greater, a < b ? b : a)
FAKE_CHOICE(bit_and, a & b) FAKE_CHOICE(bit_or, a | b) FAKE_CHOICE(bit_xor, a ^ b)
template <class T, class F>
FAKE T fake_fold(const coalesced_group &g, T v, F f, unsigned first, unsigned end) {
  T r = v;
  for (unsigned i = 0; i < g.size(); i++) {
    const T x = g.shfl(v, i);
    if (i >= first && i < end) r = i == first ? x : f(r, x);
  }
  return r;
}
template <class T, class F> FAKE T reduce(const coalesced_group &g, T v, F f) {
  return fake_fold(g, v, f, 0, 32);
}
template <class T, class F> FAKE T inclusive_scan(const coalesced_group &g, T v, F f) {
  return fake_fold(g, v, f, 0, g.thread_rank() + 1);
}
template <class T> FAKE T inclusive_scan(const coalesced_group &g, T v) {
  return inclusive_scan(g, v, plus<T>());
}
template <class T, class F> FAKE T exclusive_scan(const coalesced_group &g, T v, F f) {
  const T r = fake_fold(g, v, f, 0, g.thread_rank());
  return g.thread_rank() ? r : T(0);
}
template <class T> FAKE T exclusive_scan(const coalesced_group &g, T v) {
  return exclusive_scan(g, v, plus<T>());
}
}
