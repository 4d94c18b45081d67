// out[m, n] = sum over k of a[m, k] · b[n, k]; a and b bf16 with rows of k elements, out float. m and n any, k a multiple
// of 32. Grid (n / 64, m / 64) rounded up, 128 threads; each warp owns 16 rows; two stages of cp.async.
DEVICE int tile_offset(int row, int chunk) { return row * 64 + (chunk ^ (row >> 1 & 3)) * 16; }

DEVICE void load_stage(unsigned char *stage, const bf16 *a, const bf16 *b, int m, int n, int k, int step) {
  for (int i = thread_x(); i < 256; i += 128) {
    int row = i / 4, chunk = i % 4;
    int rowA = block_y() * 64 + row, rowB = block_x() * 64 + row;
    i64 column = step * 32 + chunk * 8;
    bool inA = rowA < m;
    bool inB = rowB < n;
    copy_async_16(stage + tile_offset(row, chunk), a + (inA ? rowA * i64(k) + column : 0), inA);
    copy_async_16(stage + 4096 + tile_offset(row, chunk), b + (inB ? rowB * i64(k) + column : 0), inB);
  }
}

KERNEL(product, 128, 1)(const bf16 *RESTRICT a, const bf16 *RESTRICT b, float *RESTRICT out, int m, int n, int k) {
  DYNAMIC_SHARED(arena, 128);
  int lane = lane_index(), warp = warp_index(), steps = k / 32;
  float d[8][4] = {};
  load_stage(arena, a, b, m, n, k, 0);
  copy_async_commit();
  for (int step = 0; step < steps; ++step) {
    if (step + 1 < steps)
      load_stage(arena + (step + 1) % 2 * 8192, a, b, m, n, k, step + 1);
    copy_async_commit();
    copy_async_wait<1>();
    block_barrier(); // everybody's copies have landed
    const unsigned char *stage = arena + step % 2 * 8192;
    for (int half = 0; half < 2; ++half) {
      u32 fragmentA[4];
      ldmatrix_x4(fragmentA[0], fragmentA[1], fragmentA[2], fragmentA[3],
                  stage + tile_offset(warp * 16 + lane % 16, half * 2 + lane / 16));
      for (int pair = 0; pair < 4; ++pair) {
        u32 b00, b01, b10, b11;
        ldmatrix_x4(b00, b01, b10, b11,
                    stage + 4096 + tile_offset(pair * 16 + lane / 16 * 8 + lane % 8, half * 2 + lane / 8 % 2));
        mma_m16n8k16<bf16>(d[2 * pair], fragmentA, b00, b01);
        mma_m16n8k16<bf16>(d[2 * pair + 1], fragmentA, b10, b11);
      }
    }
    block_barrier(); // the stage may be filled again
  }
  for (int tile = 0; tile < 8; ++tile)
    for (int i = 0; i < 4; ++i) {
      int row = block_y() * 64 + warp * 16 + lane / 4 + i / 2 * 8, column = block_x() * 64 + tile * 8 + lane % 4 * 2 + i % 2;
      if (row < m && column < n)
        out[row * i64(n) + column] = d[tile][i];
    }
}
