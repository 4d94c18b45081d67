// Flash attention forward for Hopper (sm_90a): one producer warpgroup loads tiles by TMA, `consumers` warpgroups of 64
// query rows each multiply by wgmma. Scores, probabilities and output stay in the consumers' registers: the layout of
// wgmma's accumulator is that of its A operand, so probabilities are only packed. A warpgroup overlaps with the other
// warpgroups, not with itself; forward_hopper_overlapped.cu does both.
// Grid: query tiles, query heads, batch. Dynamic shared memory: the query tile, then `stages` times a key tile and a
// value tile. Maps: (headDim, rows, heads, batch) in boxes of 64 columns × 64 queries, or × blockKeys keys.
//
// Barriers: a full one each for the query tile and for the keys and the values of a stage (the producer's arrival and
// TMA's bytes), an empty one a stage (one arrival of each consumer warp, after its last read).

constexpr int blockQueries = 64 * consumers;

DEVICE int key_tile(int stage) { return consumers * tile_bytes(64) + 2 * stage * tile_bytes(blockKeys); }
DEVICE int value_tile(int stage) { return key_tile(stage) + tile_bytes(blockKeys); }

KERNEL(@name@, threads, 1)(GRID_CONSTANT const AttentionArguments arguments, GRID_CONSTANT const TensorMap queryMap,
                           GRID_CONSTANT const TensorMap keyMap, GRID_CONSTANT const TensorMap valueMap) {
  DYNAMIC_SHARED(arena, 1024);
  SHARED(Mbarrier, queryFull, 1);
  SHARED(Mbarrier, keyFull, stages);
  SHARED(Mbarrier, valueFull, stages);
  SHARED(Mbarrier, empty, stages);

  // Causal blocks with the most keys start first.
  int tile = causal ? grid_x() - 1 - block_x() : block_x();
  int head = block_y();
  int batch = block_z();
  int firstQuery = tile * blockQueries;
  int queries = arguments.queries;
  int keys = arguments.keys;
  int keyEnd = keys;
  if (causal)
    keyEnd = maximum(0, minimum(keys, minimum(firstQuery + blockQueries, queries) + arguments.diagonal));
  int steps = tiles_of(keyEnd, blockKeys);

  if (thread_x() == 0) {
    mbarrier_init(&queryFull[0], 1);
    for (int stage = 0; stage < stages; ++stage) {
      mbarrier_init(&keyFull[stage], 1);
      mbarrier_init(&valueFull[stage], 1);
      mbarrier_init(&empty[stage], 4 * consumers);
    }
    fence_mbarrier_init();
  }
  block_barrier();

  if (warp_index() < 4) {
    registers_release<producerRegisters>();
    if (warp_index() == 0 && elect_one()) {
      mbarrier_arrive_expect(&queryFull[0], consumers * tile_bytes(64));
      for (int part = 0; part < consumers; ++part)
        load_tile(arena + part * tile_bytes(64), 64, &queryMap, &queryFull[0], firstQuery + part * 64, head, batch);
      int keyHead = head / arguments.group;
      for (int step = 0; step < steps; ++step) {
        int stage = step % stages;
        mbarrier_wait(&empty[stage], (step / stages & 1) ^ 1);
        mbarrier_arrive_expect(&keyFull[stage], tile_bytes(blockKeys));
        load_tile(arena + key_tile(stage), blockKeys, &keyMap, &keyFull[stage], step * blockKeys, keyHead, batch);
        mbarrier_arrive_expect(&valueFull[stage], tile_bytes(blockKeys));
        load_tile(arena + value_tile(stage), blockKeys, &valueMap, &valueFull[stage], step * blockKeys, keyHead, batch);
      }
    }
  } else {
    registers_acquire<consumerRegisters>();
    int consumer = warp_index() / 4 - 1;
    int lane = lane_index();
    int groupQuery = firstQuery + 64 * consumer;
    QueryRows rows = {groupQuery, groupQuery + 16 * (warp_index() & 3) + lane / 4, keys, arguments.diagonal};
    // This warpgroup's last tile; it only keeps the barriers' phases beyond it.
    int ownSteps = steps;
    if (causal)
      ownSteps = tiles_of(maximum(0, minimum(keys, minimum(groupQuery + 64, queries) + arguments.diagonal)), blockKeys);
    DropoutMask mask = {};
    if (dropout)
      mask = dropout_mask(arguments, batch, head);
    float scaleLog2 = arguments.scale * log2OfE;

    float output[headDim / 2];
#pragma unroll
    for (int i = 0; i < headDim / 2; ++i)
      output[i] = 0.0f;
    float rowMax[2] = {-infinity(), -infinity()};
    float rowSum[2] = {0.0f, 0.0f};

    mbarrier_wait(&queryFull[0], 0);
    u64 queryOperand = row_operand(arena + consumer * tile_bytes(64));

#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
      int stage = step % stages;
      u32 parity = step / stages & 1;
      mbarrier_wait(&keyFull[stage], parity);
      if (step < ownSteps) {
        float scores[blockKeys / 2];
        wgmma_fence();
        issue_over_columns<64, blockKeys>(scores, queryOperand, row_operand(arena + key_tile(stage)));
        wgmma_commit();
        wgmma_wait<0>();
        wgmma_hold(scores);

        float shrink[2];
        mask_scores(scores, rows, step * blockKeys);
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
      if (lane == 0)
        mbarrier_arrive(&empty[stage]);
    }

    store_output(arguments, batch, head, rows.ownQuery, output, rowMax, rowSum);
  }
}
