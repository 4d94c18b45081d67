// Flash attention forward for Hopper (sm_90a): one producer warpgroup loads tiles by TMA, `consumers` warpgroups of 64
// query rows each multiply by wgmma. Scores, probabilities and output stay in the consumers' registers: the layout of
// wgmma's accumulator is that of its A operand, so probabilities are only packed. A warpgroup overlaps with the other
// warpgroups, not with itself; forward_hopper_overlapped.cu does both.
// Grid: query tiles, query heads, batch; or the blocks of a persistent launch (work.cuh). Dynamic shared memory: the
// query tile, then `stages` times a key tile and a value tile. Maps: (headDim, rows, heads, batch) in boxes of 64 columns
// × 64 queries, or × blockKeys keys.
//
// Barriers: a full one each for the query tile and for the keys and the values of a stage (the producer's arrival and
// TMA's bytes), an empty one a stage and, persistent, one for the query tile (one arrival of each consumer warp, after
// its last read).

constexpr int blockQueries = 64 * consumers;

DEVICE int key_tile(int stage) { return consumers * tile_bytes(64) + 2 * stage * tile_bytes(blockKeys); }
DEVICE int value_tile(int stage) { return key_tile(stage) + tile_bytes(blockKeys); }

KERNEL(@name@, threads, 1)(GRID_CONSTANT const AttentionArguments arguments, GRID_CONSTANT const TensorMap queryMap,
                           GRID_CONSTANT const TensorMap keyMap, GRID_CONSTANT const TensorMap valueMap) {
  DYNAMIC_SHARED(arena, 1024);
  SHARED(Mbarrier, queryFull, 1);
  SHARED(Mbarrier, queryEmpty, 1);
  SHARED(Mbarrier, keyFull, stages);
  SHARED(Mbarrier, valueFull, stages);
  SHARED(Mbarrier, empty, stages);

  if (thread_x() == 0) {
    mbarrier_init(&queryFull[0], 1);
    mbarrier_init(&queryEmpty[0], 4 * consumers);
    for (int stage = 0; stage < stages; ++stage) {
      mbarrier_init(&keyFull[stage], 1);
      mbarrier_init(&valueFull[stage], 1);
      mbarrier_init(&empty[stage], 4 * consumers);
    }
    fence_mbarrier_init();
  }
  block_barrier();

  WorkList list = forward_work(arguments, blockQueries);
  // Tiles of keys that this block has walked over.
  int walked = 0;
  if (warp_index() < 4) {
    registers_release<producerRegisters>();
    if (warp_index() == 0 && elect_one()) {
      for (int round = 0; work_number(round) < list.items; ++round) {
        Work work = work_of(list, work_number(round));
        int keyHead = work.head / arguments.group;
        Span tiles = key_tiles(arguments, work.tile * blockQueries, blockQueries, blockKeys);
        // The first keys come before the queries: their stage is free sooner.
        for (int step = tiles.first; step < maximum(tiles.end, tiles.first + 1); ++step) {
          int stage = walked % stages;
          if (step < tiles.end) {
            mbarrier_wait(&empty[stage], (walked / stages & 1) ^ 1);
            mbarrier_arrive_expect(&keyFull[stage], tile_bytes(blockKeys));
            load_tile(arena + key_tile(stage), blockKeys, &keyMap, &keyFull[stage], step * blockKeys, keyHead,
                      work.batch);
          }
          if (step == tiles.first) {
            if (persistent)
              mbarrier_wait(&queryEmpty[0], (round & 1) ^ 1);
            mbarrier_arrive_expect(&queryFull[0], consumers * tile_bytes(64));
            for (int part = 0; part < consumers; ++part)
              load_tile(arena + part * tile_bytes(64), 64, &queryMap, &queryFull[0],
                        work.tile * blockQueries + part * 64, work.head, work.batch);
          }
          if (step < tiles.end) {
            mbarrier_arrive_expect(&valueFull[stage], tile_bytes(blockKeys));
            load_tile(arena + value_tile(stage), blockKeys, &valueMap, &valueFull[stage], step * blockKeys, keyHead,
                      work.batch);
            ++walked;
          }
        }
      }
    }
  } else {
    registers_acquire<consumerRegisters>();
    int consumer = warp_index() / 4 - 1;
    int lane = lane_index();
    float scaleLog2 = arguments.scale * log2OfE;
    u64 queryOperand = row_operand(arena + consumer * tile_bytes(64));

#pragma unroll 1
    for (int round = 0; work_number(round) < list.items; ++round) {
      Work work = work_of(list, work_number(round));
      QueryRows rows = query_rows(work.tile * blockQueries + 64 * consumer);
      Span tiles = key_tiles(arguments, work.tile * blockQueries, blockQueries, blockKeys);
      // This warpgroup's tiles; it only keeps the barriers' phases outside them.
      Span own = key_tiles(arguments, rows.groupQuery, 64, blockKeys);
      DropoutMask mask = {};
      if (dropout)
        mask = dropout_mask(arguments, work.batch, work.head);

      float output[headDim / 2];
#pragma unroll
      for (int i = 0; i < headDim / 2; ++i)
        output[i] = 0.0f;
      float rowMax[2] = {-infinity(), -infinity()};
      float rowSum[2] = {0.0f, 0.0f};
      mbarrier_wait(&queryFull[0], persistent ? round & 1 : 0);

#pragma unroll 1
      for (int step = tiles.first; step < tiles.end; ++step, ++walked) {
        int stage = walked % stages;
        u32 parity = walked / stages & 1;
        mbarrier_wait(&keyFull[stage], parity);
        if (own.first <= step && step < own.end) {
          float scores[blockKeys / 2];
          wgmma_fence();
          issue_over_columns<64, blockKeys>(scores, queryOperand, row_operand(arena + key_tile(stage)));
          wgmma_commit();
          wgmma_wait<0>();
          wgmma_hold(scores);

          float shrink[2];
          mask_scores(scores, arguments, rows, step * blockKeys);
          softmax_tile(scores, rowMax, rowSum, shrink, scaleLog2);
          rescale(output, shrink);
          if (dropout)
            drop_scores(scores, mask, rows, step * blockKeys);

          u32 probabilities[blockKeys / 16][4];
          pack_operand(probabilities, scores);
          mbarrier_wait(&valueFull[stage], parity);
          wgmma_hold(output);
          wgmma_fence();
          issue_over_rows(output, probabilities, column_operand(arena + value_tile(stage), blockKeys));
          wgmma_commit();
          wgmma_wait<0>();
          wgmma_hold(output);
        } else {
          mbarrier_wait(&valueFull[stage], parity);
        }
        give_back(&empty[stage]);
      }
      if (persistent)
        give_back(&queryEmpty[0]);
      store_output(arguments, work.batch, work.head, rows.ownQuery, output, rowMax, rowSum);
    }
  }
}
