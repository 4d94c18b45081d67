// Calls every primitive of hopper.cuh; a text for the compiler, its results mean nothing.
KERNEL(tma, 256, 1)(GRID_CONSTANT const TensorMap map, GRID_CONSTANT const TensorMap outMap, const float *in, float *out) {
  DYNAMIC_SHARED(arena, 1024);
  SHARED(Mbarrier, full, 2);
  SHARED(Mbarrier, empty, 2);
  grid_dependency_wait();
  if (thread_x() == 0) {
    mbarrier_init(&full[0], 1);
    mbarrier_init(&empty[0], 4);
    fence_mbarrier_init();
    tma_prefetch_map(&map);
  }
  block_barrier();
  if (warp_index() < 4) {
    registers_release<40>();
    if (warp_index() == 0 && elect_one()) {
      mbarrier_expect(&full[0], 4096);
      mbarrier_arrive_expect(&full[0], 3 * 8192);
      tma_load_2d(arena, &map, &full[0], 0, 1);
      tma_load_3d(arena + 8192, &map, &full[0], 0, 1, 2);
      tma_load_4d(arena + 16384, &map, &full[0], 0, 1, 2, 3);
      bulk_load(arena + 24576, in, 4096, &full[0]);
    }
  } else {
    registers_acquire<232>();
    mbarrier_wait(&full[0], 0);
    float x = load_16(arena + 16 * thread_x()).word[0];
    if (lane_index() == 0)
      mbarrier_arrive(&empty[0]);
    store_4(arena + 4 * thread_x(), bits_of(x));
    fence_proxy_async();
    named_barrier_sync(1, 128);
    if (thread_x() == 128) {
      tma_store_2d(&outMap, arena, 0, 0);
      tma_store_3d(&outMap, arena, 0, 0, 1);
      tma_store_4d(&outMap, arena, 0, 0, 1, 2);
      tma_store_commit();
      tma_store_wait_read<0>();
      tma_store_wait<0>();
    }
    out[thread_x()] = x;
  }
  grid_dependency_launch();
}
