// Flash attention backward for Hopper (sm_90a), the gradients of keys and values: as backward_keys_portable.cu, with one
// producer warpgroup and `consumers` warpgroups of 64 key rows. Pᵀ and dSᵀ go from accumulators straight into A operands.
// Grid: key tiles, key heads, batch. Dynamic shared memory: key tiles, value tiles, then `stages` times a query and an
// output-gradient tile, then `stages` times the shifts and deltas of a query tile. Maps: query and output gradient in
// boxes of blockQueries rows, key and value of 64 rows. Runs after the dQ kernel.

constexpr int blockKeys = 64 * consumers;
constexpr int queryTileCount = blockQueries / 8;
constexpr int statisticBytes = 4 * blockQueries;

DEVICE int key_tile(int consumer) { return consumer * tile_bytes(64); }
DEVICE int value_tile(int consumer) { return (consumers + consumer) * tile_bytes(64); }
DEVICE int query_tile(int stage) { return 2 * consumers * tile_bytes(64) + 2 * stage * tile_bytes(blockQueries); }
DEVICE int gradient_tile(int stage) { return query_tile(stage) + tile_bytes(blockQueries); }
DEVICE int shifts(int stage) { return query_tile(stages) + 2 * stage * statisticBytes; }
DEVICE int deltas(int stage) { return shifts(stage) + statisticBytes; }

KERNEL(@name@, threads, 1)(GRID_CONSTANT const AttentionArguments arguments, GRID_CONSTANT const TensorMap queryMap,
                           GRID_CONSTANT const TensorMap gradientMap, GRID_CONSTANT const TensorMap keyMap,
                           GRID_CONSTANT const TensorMap valueMap) {
  DYNAMIC_SHARED(arena, 1024);
  SHARED(Mbarrier, keyFull, 1);
  SHARED(Mbarrier, full, stages);
  SHARED(Mbarrier, empty, stages);

  int keyHead = block_y();
  int batch = block_z();
  int firstKey = block_x() * blockKeys;
  int queries = arguments.queries;
  int keys = arguments.keys;
  int queryTileEnd = tiles_of(queries, blockQueries);
  int firstTile = 0;
  if (causal)
    firstTile = minimum(maximum(0, firstKey - arguments.diagonal) / blockQueries, queryTileEnd);
  int steps = arguments.group * (queryTileEnd - firstTile);
  // The head and the queries of the step at hand; the last tile of a head is followed by the first of the next.
  int head = keyHead * arguments.group;
  int firstQuery = firstTile * blockQueries;

  if (thread_x() == 0) {
    mbarrier_init(&keyFull[0], 1);
    for (int stage = 0; stage < stages; ++stage) {
      mbarrier_init(&full[stage], 1);
      mbarrier_init(&empty[stage], 4 * consumers);
    }
    fence_mbarrier_init();
  }
  block_barrier();

  if (warp_index() < 4) {
    registers_release<producerRegisters>();
    if (warp_index() == 0 && elect_one()) {
      mbarrier_arrive_expect(&keyFull[0], 2 * consumers * tile_bytes(64));
      for (int part = 0; part < consumers; ++part) {
        load_tile(arena + key_tile(part), 64, &keyMap, &keyFull[0], firstKey + part * 64, keyHead, batch);
        load_tile(arena + value_tile(part), 64, &valueMap, &keyFull[0], firstKey + part * 64, keyHead, batch);
      }
      int paddedQueries = tiles_of(queries, 128) * 128;
      for (int step = 0; step < steps; ++step) {
        int stage = step % stages;
        mbarrier_wait(&empty[stage], (step / stages & 1) ^ 1);
        mbarrier_arrive_expect(&full[stage], 2 * tile_bytes(blockQueries) + 2 * statisticBytes);
        load_tile(arena + query_tile(stage), blockQueries, &queryMap, &full[stage], firstQuery, head, batch);
        load_tile(arena + gradient_tile(stage), blockQueries, &gradientMap, &full[stage], firstQuery, head, batch);
        i64 statistics = (static_cast<i64>(batch) * arguments.heads + head) * paddedQueries + firstQuery;
        bulk_load(arena + shifts(stage), arguments.rowShift + statistics, statisticBytes, &full[stage]);
        bulk_load(arena + deltas(stage), arguments.rowDelta + statistics, statisticBytes, &full[stage]);
        bool lastOfHead = firstQuery + blockQueries >= queries;
        head = lastOfHead ? head + 1 : head;
        firstQuery = lastOfHead ? firstTile * blockQueries : firstQuery + blockQueries;
      }
    }
  } else {
    registers_acquire<consumerRegisters>();
    int consumer = warp_index() / 4 - 1;
    int lane = lane_index();
    int groupKey = firstKey + 64 * consumer;
    int ownKey = groupKey + 16 * (warp_index() & 3) + lane / 4;
    float scaleLog2 = arguments.scale * log2OfE;

    float keyGradient[headDim / 2];
    float valueGradient[headDim / 2];
#pragma unroll
    for (int i = 0; i < headDim / 2; ++i)
      keyGradient[i] = valueGradient[i] = 0.0f;
    mbarrier_wait(&keyFull[0], 0);
    u64 keyOperand = row_operand(arena + key_tile(consumer));
    u64 valueOperand = row_operand(arena + value_tile(consumer));

#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
      int stage = step % stages;
      mbarrier_wait(&full[stage], step / stages & 1);
      // A warpgroup whose keys no query of the tile sees only keeps the barriers' phases.
      bool seen = true;
      if (causal)
        seen = groupKey <= firstQuery + blockQueries - 1 + arguments.diagonal;
      if (seen) {
        float scores[blockQueries / 2];
        float gradients[blockQueries / 2];
        wgmma_fence();
        issue_over_columns<64, blockQueries>(scores, keyOperand, row_operand(arena + query_tile(stage)));
        wgmma_commit();
        issue_over_columns<64, blockQueries>(gradients, valueOperand, row_operand(arena + gradient_tile(stage)));
        wgmma_commit();
        wgmma_wait<0>();
        wgmma_hold(scores);
        wgmma_hold(gradients);

        // Rows of keys beyond the last are summed and never stored; queries beyond the last have the shift +inf, P = 0.
        bool whole = true;
        if (causal)
          whole = groupKey + 63 <= firstQuery + arguments.diagonal;
        u32 kept = 0xffffffffu;
        if (dropout)
          kept = kept_bits<queryTileCount, true>(dropout_mask(arguments, batch, head), ownKey, firstQuery + 2 * (lane & 3));
#pragma unroll
        for (int column = 0; column < queryTileCount; ++column) {
          int offset = (8 * column + 2 * (lane & 3)) * 4;
          Vec8 shiftPair = load_8(arena + shifts(stage) + offset);
          Vec8 deltaPair = load_8(arena + deltas(stage) + offset);
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            float &score = scores[4 * column + i];
            float &gradient = gradients[4 * column + i];
            score = fast_exp2(fma_f32(score, scaleLog2, -float_from_bits(shiftPair.word[i & 1])));
            if (causal) {
              int query = firstQuery + 8 * column + 2 * (lane & 3) + (i & 1);
              if (!whole && ownKey + 8 * (i >> 1) > query + arguments.diagonal)
                score = 0.0f;
            }
            // dS replaces dP, then the dropped probability replaces P.
            bool stays = !dropout || (kept >> (4 * column + i) & 1u) != 0;
            if (dropout)
              gradient = stays ? gradient * arguments.keepScale : 0.0f;
            gradient = score * (gradient - float_from_bits(deltaPair.word[i & 1]));
            if (!stays)
              score = 0.0f;
          }
        }
        u32 probabilities[blockQueries / 16][4];
        u32 scoreGradients[blockQueries / 16][4];
        pack_operand(probabilities, scores);
        pack_operand(scoreGradients, gradients);
        wgmma_hold(valueGradient);
        wgmma_hold(keyGradient);
        wgmma_fence();
        issue_over_rows(valueGradient, probabilities, column_operand(arena + gradient_tile(stage), blockQueries));
        issue_over_rows(keyGradient, scoreGradients, column_operand(arena + query_tile(stage), blockQueries));
        wgmma_commit();
        wgmma_wait<0>();
        wgmma_hold(valueGradient);
        wgmma_hold(keyGradient);
      }
      // Every lane has read its shifts and deltas before lane 0 gives the stage back.
      warp_barrier();
      if (lane == 0)
        mbarrier_arrive(&empty[stage]);
      bool lastOfHead = firstQuery + blockQueries >= queries;
      head = lastOfHead ? head + 1 : head;
      firstQuery = lastOfHead ? firstTile * blockQueries : firstQuery + blockQueries;
    }

    float keyFactor[2] = {arguments.scale, arguments.scale};
    float keep = dropout ? arguments.keepScale : 1.0f;
    float valueFactor[2] = {keep, keep};
    store_group_rows(matrix_of(arguments.keyGradient, batch, keyHead), ownKey, keys, keyGradient, keyFactor);
    store_group_rows(matrix_of(arguments.valueGradient, batch, keyHead), ownKey, keys, valueGradient, valueFactor);
  }
}
