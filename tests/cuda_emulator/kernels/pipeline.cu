// out[m, n] = sum over k of a[m, k] · b[k, n]; 128 × 128 tiles, bf16, k a multiple of 64: TMA into a ring of two stages,
// warpgroup 0 produces, warpgroups 1 and 2 multiply 64 rows each by wgmma. Maps: a (k, m) in boxes 64 × 128, b (n, k) in
// boxes 64 × 64, out float (n, m) in boxes 32 × 64 without swizzle. Grid (n / 128, m / 128) rounded up, 384 threads.
constexpr int stageA = 16384, stageB = 16384, stageBytes = stageA + stageB;

KERNEL(pipeline, 384, 1)(GRID_CONSTANT const TensorMap mapA, GRID_CONSTANT const TensorMap mapB,
                         GRID_CONSTANT const TensorMap mapOut, int k) {
  DYNAMIC_SHARED(arena, 1024);
  SHARED(Mbarrier, full, 2);
  SHARED(Mbarrier, empty, 2);
  int steps = k / 64;
  if (thread_x() == 0) {
    for (int stage = 0; stage < 2; ++stage) {
      mbarrier_init(&full[stage], 1);
      mbarrier_init(&empty[stage], 8);
    }
    fence_mbarrier_init();
  }
  block_barrier();
  if (warp_index() < 4) {
    registers_release<24>();
    if (warp_index() == 0 && elect_one())
      for (int step = 0; step < steps; ++step) {
        int stage = step % 2;
        unsigned char *tile = arena + stage * stageBytes;
        mbarrier_wait(&empty[stage], (step / 2 & 1) ^ 1);
        mbarrier_arrive_expect(&full[stage], stageBytes);
        tma_load_2d(tile, &mapA, &full[stage], step * 64, block_y() * 128);
        tma_load_2d(tile + stageA, &mapB, &full[stage], block_x() * 128, step * 64);
        tma_load_2d(tile + stageA + 8192, &mapB, &full[stage], block_x() * 128 + 64, step * 64);
      }
  } else {
    registers_acquire<240>();
    int group = warp_index() / 4 - 1;
    float d[64];
    for (int step = 0; step < steps; ++step) {
      int stage = step % 2;
      const unsigned char *tile = arena + stage * stageBytes;
      mbarrier_wait(&full[stage], step / 2 & 1);
      u64 a = wgmma_descriptor(tile + group * 8192, 16, 1024, swizzle_128);
      u64 b = wgmma_descriptor(tile + stageA, 8192, 1024, swizzle_128);
      wgmma_hold(d);
      wgmma_fence();
#pragma unroll
      for (int part = 0; part < 4; ++part)
        wgmma_shared<bf16, false, true>(d, wgmma_advance(a, part * 32), wgmma_advance(b, part * 2048),
                                        step > 0 || part > 0);
      wgmma_commit();
      wgmma_wait<0>();
      wgmma_hold(d);
      if (lane_index() == 0)
        mbarrier_arrive(&empty[stage]);
    }
    // Both stages are free once every consumer is here; each warpgroup stages its rows in its own half.
    named_barrier_sync(1, 256);
    float *rows = reinterpret_cast<float *>(arena + group * stageBytes);
    int row = warp_index() % 4 * 16 + lane_index() / 4, column = lane_index() % 4 * 2;
#pragma unroll
    for (int i = 0; i < 64; ++i) {
      int x = 8 * (i / 4) + column + i % 2, y = row + 8 * (i / 2 % 2);
      rows[(x / 32 * 64 + y) * 32 + x % 32] = d[i];
    }
    fence_proxy_async();
    named_barrier_sync(2 + group, 128);
    if (warp_index() % 4 == 0 && elect_one()) {
      for (int part = 0; part < 4; ++part)
        tma_store_2d(&mapOut, arena + group * stageBytes + part * 8192, block_x() * 128 + part * 32,
                     block_y() * 128 + group * 64);
      tma_store_commit();
      tma_store_wait<0>();
    }
  }
}
