// Flash attention forward for Hopper (sm_90a), as forward_hopper.cu, with overlap inside a warpgroup (Shah 2024, arXiv
// 2407.08608, section 3.2): while the softmax of a tile runs, the product of its predecessor's probabilities with the
// values is in flight, issued after the product that gave the scores.
// Grid, dynamic shared memory and maps: as forward_hopper.cu.
//
// Barriers: a full one each for the query tile and for the keys and the values of a stage (the producer's arrival and
// TMA's bytes); keys and values are given back apart, since keys are free a softmax earlier: an empty barrier a stage
// for each (one arrival of each consumer warp, after its last read), and, persistent, one for the query tile.
//
// With pingPong the warpgroups take turns (section 3.1): one issues its two products and then, while they run, leaves the
// next one its turn, so that the tensor cores have one warpgroup's products beside the others' softmax. Named barrier
// 1 + w is warpgroup w's turn: its own sync and its predecessor's arrival. A turn belongs to each tile of the block but the
// first, tiles that a warpgroup skips too, so that all of them count alike.

constexpr int blockQueries = 64 * consumers;

DEVICE int key_tile(int stage) { return consumers * tile_bytes(64) + 2 * stage * tile_bytes(blockKeys); }
DEVICE int value_tile(int stage) { return key_tile(stage) + tile_bytes(blockKeys); }

DEVICE void await_turn(int consumer) {
  if (pingPong)
    named_barrier_sync(1 + consumer, 256);
}
DEVICE void leave_turn(int consumer) {
  if (pingPong)
    named_barrier_arrive(1 + (consumer + 1) % consumers, 256);
}

KERNEL(@name@, threads, 1)(GRID_CONSTANT const AttentionArguments arguments, GRID_CONSTANT const TensorMap queryMap,
                           GRID_CONSTANT const TensorMap keyMap, GRID_CONSTANT const TensorMap valueMap) {
  DYNAMIC_SHARED(arena, 1024);
  SHARED(Mbarrier, queryFull, 1);
  SHARED(Mbarrier, queryEmpty, 1);
  SHARED(Mbarrier, keyFull, stages);
  SHARED(Mbarrier, keyEmpty, stages);
  SHARED(Mbarrier, valueFull, stages);
  SHARED(Mbarrier, valueEmpty, stages);

  if (thread_x() == 0) {
    mbarrier_init(&queryFull[0], 1);
    mbarrier_init(&queryEmpty[0], 4 * consumers);
    for (int stage = 0; stage < stages; ++stage) {
      mbarrier_init(&keyFull[stage], 1);
      mbarrier_init(&keyEmpty[stage], 4 * consumers);
      mbarrier_init(&valueFull[stage], 1);
      mbarrier_init(&valueEmpty[stage], 4 * consumers);
    }
    fence_mbarrier_init();
  }
  block_barrier();

  WorkList list = forward_work(arguments, blockQueries);
  // Tiles of keys that this block has walked over in earlier rounds.
  int walked = 0;
  if (warp_index() < 4) {
    registers_release<producerRegisters>();
    if (warp_index() == 0 && elect_one()) {
      for (int round = 0; work_number(round) < list.items; ++round) {
        Work work = work_of(list, work_number(round));
        int keyHead = work.head / arguments.group;
        Span tiles = key_tiles(arguments, work.tile * blockQueries, blockQueries, blockKeys);
        // In the order of use: the first keys, the queries, then a step's keys before the values of the step before it.
        for (int step = tiles.first; step <= tiles.end; ++step) {
          if (step < tiles.end) {
            int pass = walked + step - tiles.first;
            int stage = pass % stages;
            mbarrier_wait(&keyEmpty[stage], (pass / stages & 1) ^ 1);
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
          } else {
            int pass = walked + step - 1 - tiles.first;
            int stage = pass % stages;
            mbarrier_wait(&valueEmpty[stage], (pass / stages & 1) ^ 1);
            mbarrier_arrive_expect(&valueFull[stage], tile_bytes(blockKeys));
            load_tile(arena + value_tile(stage), blockKeys, &valueMap, &valueFull[stage], (step - 1) * blockKeys,
                      keyHead, work.batch);
          }
        }
        walked += tiles.end - tiles.first;
      }
    }
  } else {
    registers_acquire<consumerRegisters>();
    int consumer = warp_index() / 4 - 1;
    float scaleLog2 = arguments.scale * log2OfE;
    u64 queryOperand = row_operand(arena + consumer * tile_bytes(64));
    // The first turn is the first warpgroup's.
    if (consumer == consumers - 1)
      leave_turn(consumer);

#pragma unroll 1
    for (int round = 0; work_number(round) < list.items; ++round) {
      Work work = work_of(list, work_number(round));
      QueryRows rows = query_rows(work.tile * blockQueries + 64 * consumer);
      Span tiles = key_tiles(arguments, work.tile * blockQueries, blockQueries, blockKeys);
      // This warpgroup's tiles; it only keeps the barriers' phases and the turns outside them.
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
      // Tile `step` is the block's pass number walked + step.
      walked -= tiles.first;
      auto skip = [&](int step) {
        int stage = (walked + step) % stages;
        u32 parity = (walked + step) / stages & 1;
        if (step > tiles.first) {
          await_turn(consumer);
          leave_turn(consumer);
        }
        mbarrier_wait(&keyFull[stage], parity);
        give_back(&keyEmpty[stage]);
        mbarrier_wait(&valueFull[stage], parity);
        give_back(&valueEmpty[stage]);
      };

      mbarrier_wait(&queryFull[0], persistent ? round & 1 : 0);
      int step = tiles.first;
      if (windowed)
        for (; step < minimum(own.first, tiles.end); ++step)
          skip(step);

      if (own.first < own.end) {
        float scores[blockKeys / 2];
        u32 probabilities[blockKeys / 16][4];
        float shrink[2];
        mbarrier_wait(&keyFull[(walked + step) % stages], (walked + step) / stages & 1);
        if (windowed && step > tiles.first)
          await_turn(consumer);
        wgmma_fence();
        issue_over_columns<64, blockKeys>(scores, queryOperand,
                                          row_operand(arena + key_tile((walked + step) % stages)));
        wgmma_commit();
        if (windowed && step > tiles.first)
          leave_turn(consumer);
        wgmma_wait<0>();
        wgmma_hold(scores);
        give_back(&keyEmpty[(walked + step) % stages]);
        mask_scores(scores, arguments, rows, step * blockKeys);
        softmax_tile(scores, rowMax, rowSum, shrink, scaleLog2);
        if (dropout)
          drop_scores(scores, mask, rows, step * blockKeys);
        pack_operand(probabilities, scores);
        if (step + 1 < own.end)
          mbarrier_wait(&keyFull[(walked + step + 1) % stages], (walked + step + 1) / stages & 1);

        // Each pass multiplies the probabilities of tile `step` and makes those of the next; two products are in flight.
#pragma unroll 1
        for (; step + 1 < own.end; ++step) {
          int stage = (walked + step) % stages;
          int next = (walked + step + 1) % stages;
          await_turn(consumer);
          wgmma_hold(output);
          wgmma_fence();
          issue_over_columns<64, blockKeys>(scores, queryOperand, row_operand(arena + key_tile(next)));
          wgmma_commit();
          mbarrier_wait(&valueFull[stage], (walked + step) / stages & 1);
          // Behind the wait's branches the assembler would put a fence of its own, or run products one by one.
          wgmma_fence();
          issue_over_rows(output, probabilities, column_operand(arena + value_tile(stage), blockKeys));
          wgmma_commit();
          leave_turn(consumer);
          wgmma_wait<1>();
          wgmma_hold(scores);
          give_back(&keyEmpty[next]);
          mask_scores(scores, arguments, rows, (step + 1) * blockKeys);
          softmax_tile(scores, rowMax, rowSum, shrink, scaleLog2);
          if (dropout)
            drop_scores(scores, mask, rows, (step + 1) * blockKeys);
          // The next keys are waited for here because the assembler moves wgmma_wait up as far as the nearest branch:
          // without one it would wait for the product before the softmax. The hold keeps the softmax before the branch.
          wgmma_hold(scores);
          if (step + 2 < own.end)
            mbarrier_wait(&keyFull[(walked + step + 2) % stages], (walked + step + 2) / stages & 1);
          // Only now may the output and the probabilities be touched.
          wgmma_wait<0>();
          wgmma_hold(output);
          wgmma_hold(scores);
          give_back(&valueEmpty[stage]);
          rescale(output, shrink);
          pack_operand(probabilities, scores);
        }

        if (persistent)
          give_back(&queryEmpty[0]);
        int last = (walked + step) % stages;
        mbarrier_wait(&valueFull[last], (walked + step) / stages & 1);
        wgmma_hold(output);
        wgmma_fence();
        issue_over_rows(output, probabilities, column_operand(arena + value_tile(last), blockKeys));
        wgmma_commit();
        wgmma_wait<0>();
        wgmma_hold(output);
        give_back(&valueEmpty[last]);
        ++step;
      } else if (persistent) {
        give_back(&queryEmpty[0]);
      }
      for (; step < tiles.end; ++step)
        skip(step);
      walked += tiles.end;
      store_output(arguments, work.batch, work.head, rows.ownQuery, output, rowMax, rowSum);
    }
    // The turn that nobody takes any more.
    if (consumer == 0)
      await_turn(consumer);
  }
}
