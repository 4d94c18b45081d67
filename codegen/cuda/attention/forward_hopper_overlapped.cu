// Flash attention forward for Hopper (sm_90a), as forward_hopper.cu, with overlap inside a warpgroup (Shah 2024, arXiv
// 2407.08608, section 3.2): while the softmax of a tile runs, the product of its predecessor's probabilities with the
// values is in flight, issued after the product that gave the scores.
// Grid: query tiles, query heads, batch. Dynamic shared memory: the query tile, then `stages` times a key tile and a
// value tile. Maps: (headDim, rows, heads, batch) in boxes of 64 columns × 64 queries, or × blockKeys keys.
//
// Barriers: a full one each for the query tile and for the keys and the values of a stage (the producer's arrival and
// TMA's bytes); keys and values are given back apart, since keys are free a softmax earlier: an empty barrier a stage
// for each (one arrival of each consumer warp, after its last read).

constexpr int blockQueries = 64 * consumers;

DEVICE int key_tile(int stage) { return consumers * tile_bytes(64) + 2 * stage * tile_bytes(blockKeys); }
DEVICE int value_tile(int stage) { return key_tile(stage) + tile_bytes(blockKeys); }

KERNEL(@name@, threads, 1)(GRID_CONSTANT const AttentionArguments arguments, GRID_CONSTANT const TensorMap queryMap,
                           GRID_CONSTANT const TensorMap keyMap, GRID_CONSTANT const TensorMap valueMap) {
  DYNAMIC_SHARED(arena, 1024);
  SHARED(Mbarrier, queryFull, 1);
  SHARED(Mbarrier, keyFull, stages);
  SHARED(Mbarrier, keyEmpty, stages);
  SHARED(Mbarrier, valueFull, stages);
  SHARED(Mbarrier, valueEmpty, stages);

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
      mbarrier_init(&keyEmpty[stage], 4 * consumers);
      mbarrier_init(&valueFull[stage], 1);
      mbarrier_init(&valueEmpty[stage], 4 * consumers);
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
      // In the order of use: a step's keys before the values of the step before it.
      for (int step = 0; step <= steps; ++step) {
        if (step < steps) {
          int stage = step % stages;
          mbarrier_wait(&keyEmpty[stage], (step / stages & 1) ^ 1);
          mbarrier_arrive_expect(&keyFull[stage], tile_bytes(blockKeys));
          load_tile(arena + key_tile(stage), blockKeys, &keyMap, &keyFull[stage], step * blockKeys, keyHead, batch);
        }
        if (step > 0) {
          int stage = (step - 1) % stages;
          mbarrier_wait(&valueEmpty[stage], ((step - 1) / stages & 1) ^ 1);
          mbarrier_arrive_expect(&valueFull[stage], tile_bytes(blockKeys));
          load_tile(arena + value_tile(stage), blockKeys, &valueMap, &valueFull[stage], (step - 1) * blockKeys, keyHead,
                    batch);
        }
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

    if (ownSteps > 0) {
      float scores[blockKeys / 2];
      u32 probabilities[blockKeys / 16][4];
      float shrink[2];
      mbarrier_wait(&keyFull[0], 0);
      wgmma_fence();
      issue_over_columns<64, blockKeys>(scores, queryOperand, row_operand(arena + key_tile(0)));
      wgmma_commit();
      wgmma_wait<0>();
      wgmma_hold(scores);
      if (lane == 0)
        mbarrier_arrive(&keyEmpty[0]);
      mask_scores(scores, rows, 0);
      softmax_tile(scores, rowMax, rowSum, shrink, scaleLog2);
      if (dropout)
        drop_scores(scores, mask, rows, 0);
      pack_operand(probabilities, scores);
      if (ownSteps > 1)
        mbarrier_wait(&keyFull[1 % stages], 1 / stages & 1);

      // Each pass multiplies the probabilities of tile `step` and makes those of the next; two products are in flight.
#pragma unroll 1
      for (int step = 0; step + 1 < ownSteps; ++step) {
        int stage = step % stages;
        int next = (step + 1) % stages;
        wgmma_hold(output);
        wgmma_fence();
        issue_over_columns<64, blockKeys>(scores, queryOperand, row_operand(arena + key_tile(next)));
        wgmma_commit();
        mbarrier_wait(&valueFull[stage], step / stages & 1);
        issue_over_rows(output, probabilities, column_operand(arena + value_tile(stage), blockKeys));
        wgmma_commit();
        wgmma_wait<1>();
        wgmma_hold(scores);
        if (lane == 0)
          mbarrier_arrive(&keyEmpty[next]);
        mask_scores(scores, rows, (step + 1) * blockKeys);
        softmax_tile(scores, rowMax, rowSum, shrink, scaleLog2);
        if (dropout)
          drop_scores(scores, mask, rows, (step + 1) * blockKeys);
        // The next keys are waited for here because the assembler moves wgmma_wait up as far as the nearest branch:
        // without one it would wait for the product before the softmax. The hold keeps the softmax before the branch.
        wgmma_hold(scores);
        if (step + 2 < ownSteps)
          mbarrier_wait(&keyFull[(step + 2) % stages], (step + 2) / stages & 1);
        // Only now may the output and the probabilities be touched.
        wgmma_wait<0>();
        wgmma_hold(output);
        wgmma_hold(scores);
        if (lane == 0)
          mbarrier_arrive(&valueEmpty[stage]);
        rescale(output, shrink);
        pack_operand(probabilities, scores);
      }

      int last = (ownSteps - 1) % stages;
      mbarrier_wait(&valueFull[last], (ownSteps - 1) / stages & 1);
      wgmma_hold(output);
      wgmma_fence();
      issue_over_rows(output, probabilities, column_operand(arena + value_tile(last), blockKeys));
      wgmma_commit();
      wgmma_wait<0>();
      wgmma_hold(output);
      if (lane == 0)
        mbarrier_arrive(&valueEmpty[last]);
    }
    for (int step = ownSteps; step < steps; ++step) {
      int stage = step % stages;
      u32 parity = step / stages & 1;
      mbarrier_wait(&keyFull[stage], parity);
      if (lane == 0)
        mbarrier_arrive(&keyEmpty[stage]);
      mbarrier_wait(&valueFull[stage], parity);
      if (lane == 0)
        mbarrier_arrive(&valueEmpty[stage]);
    }
    store_output(arguments, batch, head, rows.ownQuery, output, rowMax, rowSum);
  }
}
