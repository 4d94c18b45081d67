// out = bf16(a · bᵀ) · b by two wgmma in flight at a time, as attention does it: a is 64 × 64, b holds `tiles` tiles of
// 64 × 64, both bf16 and row-major; out 64 × 64 float, the sum over the tiles. The score of tile n + 1 is issued before
// the product with tile n. One block of one warpgroup; all tiles lie in shared memory at once.
DEVICE void load_tile(unsigned char *tile, const bf16 *rows) {
  for (int i = thread_x(); i < 512; i += 128)
    store_16(tile + i / 8 * 128 + (i % 8 ^ i / 8 % 8) * 16, load_16(rows + i * 8));
}

DEVICE void issue_scores(float (&s)[32], u64 a, u64 b) {
#pragma unroll
  for (int part = 0; part < 4; ++part)
    wgmma_shared<bf16>(s, wgmma_advance(a, part * 32), wgmma_advance(b, part * 32), part > 0);
  wgmma_commit();
}

DEVICE void pack_scores(u32 (&p)[4][4], const float (&s)[32]) {
#pragma unroll
  for (int part = 0; part < 4; ++part)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      p[part][i] = pack<bf16>(s[8 * part + 2 * i], s[8 * part + 2 * i + 1]);
}

KERNEL(overlap, 128, 1)(const bf16 *RESTRICT a, const bf16 *RESTRICT b, float *RESTRICT out, int tiles) {
  DYNAMIC_SHARED(arena, 1024);
  load_tile(arena, a);
  for (int tile = 0; tile < tiles; ++tile)
    load_tile(arena + (1 + tile) * 8192, b + tile * 4096);
  fence_proxy_async();
  block_barrier();
  float s[32], o[32];
  u32 p[4][4];
  u64 descriptorA = wgmma_descriptor(arena, 16, 1024, swizzle_128);
  wgmma_hold(s);
  wgmma_fence();
  issue_scores(s, descriptorA, wgmma_descriptor(arena + 8192, 16, 1024, swizzle_128));
  wgmma_wait<0>();
  wgmma_hold(s);
  pack_scores(p, s);
  for (int tile = 0; tile < tiles; ++tile) {
    bool more = tile + 1 < tiles;
    wgmma_hold(s);
    wgmma_hold(o);
    wgmma_fence();
    if (more)
      issue_scores(s, descriptorA, wgmma_descriptor(arena + (2 + tile) * 8192, 16, 1024, swizzle_128));
    u64 value = wgmma_descriptor(arena + (1 + tile) * 8192, 8192, 1024, swizzle_128);
#pragma unroll
    for (int part = 0; part < 4; ++part)
      wgmma_registers<bf16, true>(o, p[part], wgmma_advance(value, part * 2048), tile > 0 || part > 0);
    wgmma_commit();
    wgmma_wait<1>(); // the scores
    wgmma_hold(s);
    wgmma_wait<0>(); // the product: now p may change
    wgmma_hold(o);
    if (more)
      pack_scores(p, s);
  }
  int row = thread_x() / 32 * 16 + lane_index() / 4, column = lane_index() % 4 * 2;
#pragma unroll
  for (int i = 0; i < 32; ++i)
    out[(row + 8 * (i / 2 % 2)) * 64 + 8 * (i / 4) + column + i % 2] = o[i];
}
