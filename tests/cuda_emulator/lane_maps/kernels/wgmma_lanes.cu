// Which element of wgmma's operands lies where: one-hot products of 64 × 64 × 16 over shared memory whose element offsets
// the host gives, for comparison with tables/.

// out[row · 16 + k] = 1 + thread · 32 + register of the accumulator that becomes 1 when a(row, k) = 1 and
// b(k, (row + 5k + shift) % 64) = 1; the shifts 0, 16, 32 and 48 meet every accumulator once. placeA[row · 16 + k] and
// placeB[n · 16 + k] are byte offsets from the tiles' starts. b is K-major or, transposed, MN-major.
DEVICE void clear(unsigned char *arena) {
  Vec16 zero = {};
  for (int i = thread_x(); i < 2048; i += 128)
    store_16(arena + 16 * i, zero);
  fence_proxy_async();
  block_barrier();
}

template <bool transposed>
DEVICE void one_hot_products(unsigned char *arena, const u16 *placeA, const u16 *placeB, u32 *out, int leadingA,
                             int strideA, int leadingB, int strideB, int swizzle, int shift) {
  unsigned char *tileA = arena, *tileB = arena + 16384;
  u64 a = wgmma_descriptor(tileA, leadingA, strideA, swizzle), b = wgmma_descriptor(tileB, leadingB, strideB, swizzle);
  clear(arena);
  for (int hot = 0; hot < 1024; ++hot) {
    int row = hot / 16, k = hot % 16, n = (row + 5 * k + shift) % 64;
    bf16 *hotA = reinterpret_cast<bf16 *>(tileA + placeA[row * 16 + k]);
    bf16 *hotB = reinterpret_cast<bf16 *>(tileB + placeB[n * 16 + k]);
    if (thread_x() == 0) {
      *hotA = to_bf16(1.0f);
      *hotB = to_bf16(1.0f);
      fence_proxy_async();
    }
    block_barrier();
    float d[32];
    wgmma_hold(d);
    wgmma_fence();
    wgmma_shared<bf16, false, transposed>(d, a, b, false);
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_hold(d);
#pragma unroll
    for (int i = 0; i < 32; ++i)
      if (d[i] != 0.0f)
        out[hot] = 1 + thread_x() * 32 + i;
    block_barrier();
    if (thread_x() == 0) {
      *hotA = to_bf16(0.0f);
      *hotB = to_bf16(0.0f);
    }
  }
}

KERNEL(wgmma_lanes, 128, 1)(const u16 *placeA, const u16 *placeB, u32 *out, int leadingA, int strideA, int leadingB,
                            int strideB, int swizzle, int shift) {
  DYNAMIC_SHARED(arena, 1024);
  one_hot_products<false>(arena, placeA, placeB, out, leadingA, strideA, leadingB, strideB, swizzle, shift);
}
KERNEL(wgmma_lanes_transposed, 128, 1)(const u16 *placeA, const u16 *placeB, u32 *out, int leadingA, int strideA,
                                       int leadingB, int strideB, int swizzle, int shift) {
  DYNAMIC_SHARED(arena, 1024);
  one_hot_products<true>(arena, placeA, placeB, out, leadingA, strideA, leadingB, strideB, swizzle, shift);
}

// A from registers: out[slot] = (1 + thread · 32 + register) · 16 + k of the hit when the slot's half register is 1 and
// b(k, n) = 1 + k for n = 0, else 0; slot = (thread · 4 + register) · 2 + half.
KERNEL(wgmma_register_lanes, 128, 1)(const u16 *placeB, u32 *out, int leadingB, int strideB, int swizzle) {
  DYNAMIC_SHARED(arena, 1024);
  u64 b = wgmma_descriptor(arena, leadingB, strideB, swizzle);
  clear(arena);
  if (thread_x() < 16)
    *reinterpret_cast<bf16 *>(arena + placeB[thread_x()]) = to_bf16(1.0f + static_cast<float>(thread_x()));
  fence_proxy_async();
  block_barrier();
  for (int slot = 0; slot < 1024; ++slot) {
    u32 a[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      a[i] = thread_x() == slot / 8 && i == slot / 2 % 4 ? pack_bf16(1.0f, 0.0f) << 16 * (slot % 2) : 0;
    float d[32];
    wgmma_hold(a);
    wgmma_hold(d);
    wgmma_fence();
    wgmma_registers<bf16>(d, a, b, false);
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_hold(a);
    wgmma_hold(d);
#pragma unroll
    for (int i = 0; i < 32; ++i)
      if (d[i] != 0.0f)
        out[slot] = (1 + thread_x() * 32 + i) * 16 + static_cast<u32>(d[i]) - 1;
  }
}

// A box of a 4-D map as it lies in shared memory: out[i] is the i-th 16-bit element.
KERNEL(box_lanes, 128, 1)(GRID_CONSTANT const TensorMap map, u16 *out, int bytes, int c0, int c1, int c2, int c3) {
  DYNAMIC_SHARED(arena, 1024);
  SHARED(Mbarrier, full, 1);
  if (thread_x() == 0) {
    mbarrier_init(&full[0], 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect(&full[0], bytes);
    tma_load_4d(arena, &map, &full[0], c0, c1, c2, c3);
  }
  block_barrier();
  mbarrier_wait(&full[0], 0);
  for (int i = thread_x(); i < bytes / 2; i += 128)
    out[i] = reinterpret_cast<u16 *>(arena)[i];
}
