// out[i] = 2 · in[63 − i] + 1 within each of `tiles` tiles of 64 floats: warps 0 and 1 load, warps 2 and 3 use; named barriers 1 and 2 say
// full, 3 and 4 say empty. One block, 128 threads.
KERNEL(ring, 128, 1)(const float *RESTRICT in, float *RESTRICT out, int tiles) {
  SHARED(float, stage, 128);
  int slot = thread_x() % 64;
  if (warp_index() < 2) {
    for (int tile = 0; tile < tiles; ++tile) {
      if (tile >= 2)
        named_barrier_sync(3 + tile % 2, 128);
      stage[tile % 2 * 64 + slot] = in[tile * 64 + slot];
      named_barrier_arrive(1 + tile % 2, 128);
    }
  } else {
    for (int tile = 0; tile < tiles; ++tile) {
      named_barrier_sync(1 + tile % 2, 128);
      out[tile * 64 + slot] = 2.0f * stage[tile % 2 * 64 + 63 - slot] + 1.0f;
      if (tile + 2 < tiles)
        named_barrier_arrive(3 + tile % 2, 128);
    }
  }
}
