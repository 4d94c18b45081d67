// `count` tiles of 8 rows × 32 floats go through one shared tile by TMA stores; then the block adds up the columns of
// what has arrived. tiles[8 i + r][c] = 256 i + 32 r + c. Map: tiles (32, 8 · count) in boxes 32 × 8 without swizzle.
// One block.
KERNEL(stores, 64, 1)(GRID_CONSTANT const TensorMap map, const float *tiles, float *sums, int count) {
  DYNAMIC_SHARED(arena, 128);
  float *tile = reinterpret_cast<float *>(arena);
  for (int i = 0; i < count; ++i) {
    for (int k = thread_x(); k < 256; k += 64)
      tile[k] = static_cast<float>(256 * i + k);
    fence_proxy_async();
    block_barrier();
    if (thread_x() == 0) {
      tma_store_2d(&map, arena, 0, 8 * i);
      tma_store_commit();
      tma_store_wait_read<0>(); // the tile may be filled again
    }
    block_barrier();
  }
  if (thread_x() == 0)
    tma_store_wait<0>(); // what was stored may be read
  block_barrier();
  if (thread_x() < 32) {
    float sum = 0.0f;
    for (int row = 0; row < 8 * count; ++row)
      sum += tiles[32 * row + thread_x()];
    sums[thread_x()] = sum;
  }
}
