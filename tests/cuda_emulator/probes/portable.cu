// Calls every primitive of the portable prelude once; a text for the compiler, its results mean nothing.
KERNEL(portable, 128, 1)(const bf16 *RESTRICT in, const f16 *RESTRICT in16, float *RESTRICT out, int n, u64 seed) {
  SHARED(float, scratch, 32);
  DYNAMIC_SHARED(arena, 128);
  int thread = thread_x(), lane = lane_index(), warp = warp_index();
  copy_async_16(arena + 16 * thread, in + 8 * thread, thread < n);
  copy_async_4(arena + 2048 + 4 * thread, in + 2 * thread);
  copy_async_commit();
  copy_async_wait<0>();
  warp_barrier();
  block_barrier();
  if (warp < 2)
    named_barrier_sync(1, 64);
  else
    named_barrier_arrive(2, 128);
  if (warp < 2)
    named_barrier_sync(2, 128);
  u32 a[4], b[4];
  ldmatrix_x4(a[0], a[1], a[2], a[3], arena + 16 * lane);
  ldmatrix_x4_trans(b[0], b[1], b[2], b[3], arena + 512 + 16 * lane);
  ldmatrix_x2(b[0], b[1], arena + 16 * lane);
  ldmatrix_x2_trans(b[2], b[3], arena + 16 * lane);
  float d[4] = {0, 0, 0, 0};
  mma_m16n8k16<bf16>(d, a, b[0], b[1]);
  mma_m16n8k16<f16>(d, a, b[2], b[3]);
  float x = d[0] + d[1] + d[2] + d[3] + to_float(in[thread]) + to_float(in16[thread]);
  x += quad_reduce_sum(x) + quad_reduce_max(x) + warp_reduce_sum(x) + warp_reduce_max(x) + warp_reduce_min(x);
  x += block_reduce_sum(x, scratch) + block_reduce_max(x, scratch);
  x += shuffle_down(x, 1) + shuffle_up(x, 2) + shuffle_from(x, 3);
  u32 random[4];
  philox(random, thread, block_x(), block_y(), block_z(), static_cast<u32>(seed), static_cast<u32>(seed >> 32));
  x += uniform_from_bits(random[0] ^ random[3]) + static_cast<float>(popcount(random[1]));
  x += static_cast<float>(shuffle_xor(random[2], 1) + shuffle_up(thread, 1));
  grid_dependency_wait();
  grid_dependency_launch();
  if (vote_any(x > 1.0f) && vote_all(x > 0.5f))
    x += static_cast<float>(vote_ballot(x > 2.0f));
  x = fast_exp2(x) + fast_log2(x) + fast_tanh(x) + fast_reciprocal(x) + fast_rsqrt(x);
  x = fma_f32(x, max_f32(x, 1.0f), min_f32(x, 2.0f)) + abs_f32(x) + sqrt_f32(x) + divide_f32(x, 3.0f);
  x += exp_f32(x) + exp2_f32(x) + log_f32(x) + tanh_f32(x) + erf_f32(x) + pow_f32(x, 1.5f) + floor_f32(x) + ceil_f32(x);
  x += expm1_f32(x) + log1p_f32(x) + round_f32(x) + trunc_f32(x) + remainder_f32(x, 1.5f);
  u32 p = pack<bf16>(x, d[1]), q = pack<f16>(x, d[2]);
  x += unpack_low<bf16>(p) + unpack_high<bf16>(p) + unpack_low<f16>(q) + unpack_high<f16>(q);
  x += to_float(from_float<bf16>(x)) + to_float(from_float<f16>(x));
  Vec16 v = load_16(out + 4 * thread), w = load_16_streaming(in + 8 * thread);
  Vec8 u = load_8(out + 2 * thread);
  v.word[0] ^= w.word[1] ^ u.word[1] ^ load_4(in + 2 * thread) ^ bits_of(x);
  store_16(out + 4 * (grid_x() * block_size() + thread), v);
  store_16_streaming(out + 8 * (grid_x() * block_size() + thread), w);
  store_8(out + 12 * (grid_y() * block_size() + thread), u);
  store_4(out + 16 * (grid_z() * block_size() + thread), v.word[2]);
}
