// Flash attention backward for Hopper (sm_90a), the gradient of the queries: as backward_query_portable.cu, with one
// producer warpgroup and `consumers` warpgroups of 64 query rows. S and dP are products over headDim, dS goes from the
// accumulator straight into the A operand of dS · K. Leaves rowShift and rowDelta for the dK/dV kernel.
// Grid: padded query tiles, query heads, batch. Dynamic shared memory: query tiles, output-gradient tiles, then `stages`
// times a key and a value tile. Maps: query and output gradient in boxes of 64 rows, key and value of blockKeys rows.

constexpr int blockQueries = 64 * consumers;
constexpr int keyTileCount = blockKeys / 8;

DEVICE int query_tile(int consumer) { return consumer * tile_bytes(64); }
DEVICE int gradient_tile(int consumer) { return (consumers + consumer) * tile_bytes(64); }
DEVICE int key_tile(int stage) { return 2 * consumers * tile_bytes(64) + 2 * stage * tile_bytes(blockKeys); }
DEVICE int value_tile(int stage) { return key_tile(stage) + tile_bytes(blockKeys); }

KERNEL(@name@, threads, 1)(GRID_CONSTANT const AttentionArguments arguments, GRID_CONSTANT const TensorMap queryMap,
                           GRID_CONSTANT const TensorMap gradientMap, GRID_CONSTANT const TensorMap keyMap,
                           GRID_CONSTANT const TensorMap valueMap) {
  DYNAMIC_SHARED(arena, 1024);
  SHARED(Mbarrier, queryFull, 1);
  SHARED(Mbarrier, full, stages);
  SHARED(Mbarrier, empty, stages);

  int tile = causal ? grid_x() - 1 - block_x() : block_x();
  int head = block_y();
  int batch = block_z();
  int firstQuery = tile * blockQueries;
  int queries = arguments.queries;
  int keys = arguments.keys;
  int keyEnd = keys;
  if (causal)
    keyEnd = maximum(0, minimum(keys, minimum(firstQuery + blockQueries, queries) + arguments.diagonal));
  // Tiles of padding have rows to write but nothing to sum.
  int steps = firstQuery < queries ? tiles_of(keyEnd, blockKeys) : 0;

  if (thread_x() == 0) {
    mbarrier_init(&queryFull[0], 1);
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
      mbarrier_arrive_expect(&queryFull[0], 2 * consumers * tile_bytes(64));
      for (int part = 0; part < consumers; ++part) {
        load_tile(arena + query_tile(part), 64, &queryMap, &queryFull[0], firstQuery + part * 64, head, batch);
        load_tile(arena + gradient_tile(part), 64, &gradientMap, &queryFull[0], firstQuery + part * 64, head, batch);
      }
      int keyHead = head / arguments.group;
      for (int step = 0; step < steps; ++step) {
        int stage = step % stages;
        mbarrier_wait(&empty[stage], (step / stages & 1) ^ 1);
        mbarrier_arrive_expect(&full[stage], 2 * tile_bytes(blockKeys));
        load_tile(arena + key_tile(stage), blockKeys, &keyMap, &full[stage], step * blockKeys, keyHead, batch);
        load_tile(arena + value_tile(stage), blockKeys, &valueMap, &full[stage], step * blockKeys, keyHead, batch);
      }
    }
  } else {
    registers_acquire<consumerRegisters>();
    int consumer = warp_index() / 4 - 1;
    int lane = lane_index();
    int groupQuery = firstQuery + 64 * consumer;
    int ownQuery = groupQuery + 16 * (warp_index() & 3) + lane / 4;
    int ownSteps = steps;
    if (causal)
      ownSteps = minimum(
          steps,
          tiles_of(maximum(0, minimum(keys, minimum(groupQuery + 64, queries) + arguments.diagonal)), blockKeys));
    DropoutMask mask = {};
    if (dropout)
      mask = dropout_mask(arguments, batch, head);
    float scaleLog2 = arguments.scale * log2OfE;

    Matrix output = matrix_of(arguments.output, batch, head);
    Matrix gradient = matrix_of(arguments.outputGradient, batch, head);
    i64 batchHead = static_cast<i64>(batch) * arguments.heads + head;
    float shift[2];
    float delta[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      int query = ownQuery + 8 * row;
      bool inside = query < queries;
      delta[row] = row_delta(output, gradient, query, inside);
      shift[row] = infinity();
      if (inside) {
        float logSumExp = arguments.logSumExp[batchHead * queries + query];
        shift[row] = logSumExp == -infinity() ? infinity() : logSumExp * log2OfE;
      }
      if ((lane & 3) == 0) {
        i64 padded = batchHead * (tiles_of(queries, 128) * 128) + query;
        arguments.rowShift[padded] = shift[row];
        arguments.rowDelta[padded] = delta[row];
      }
    }

    float queryGradient[headDim / 2];
#pragma unroll
    for (int i = 0; i < headDim / 2; ++i)
      queryGradient[i] = 0.0f;
    mbarrier_wait(&queryFull[0], 0);
    u64 queryOperand = row_operand(arena + query_tile(consumer));
    u64 gradientOperand = row_operand(arena + gradient_tile(consumer));

#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
      int stage = step % stages;
      int firstKey = step * blockKeys;
      mbarrier_wait(&full[stage], step / stages & 1);
      if (step < ownSteps) {
        float scores[blockKeys / 2];
        float gradients[blockKeys / 2];
        wgmma_fence();
        issue_over_columns<64, blockKeys>(scores, queryOperand, row_operand(arena + key_tile(stage)));
        wgmma_commit();
        issue_over_columns<64, blockKeys>(gradients, gradientOperand, row_operand(arena + value_tile(stage)));
        wgmma_commit();
        wgmma_wait<0>();
        wgmma_hold(scores);
        wgmma_hold(gradients);

        bool whole = firstKey + blockKeys <= keys;
        if (causal)
          whole = whole && firstKey + blockKeys <= groupQuery + arguments.diagonal + 1;
#pragma unroll
        for (int i = 0; i < blockKeys / 2; ++i) {
          int row = i >> 1 & 1;
          scores[i] = fast_exp2(fma_f32(scores[i], scaleLog2, -shift[row]));
          if (!whole) {
            int limit = keys;
            if (causal)
              limit = minimum(keys, ownQuery + 8 * row + arguments.diagonal + 1);
            if (firstKey + 8 * (i >> 2) + 2 * (lane & 3) + (i & 1) >= limit)
              scores[i] = 0.0f;
          }
        }
        if (dropout) {
#pragma unroll
          for (int half = 0; half < keyTileCount / 8; ++half) {
            u32 kept = kept_bits<8, false>(mask, ownQuery, firstKey + 64 * half + 2 * (lane & 3));
#pragma unroll
            for (int i = 0; i < 32; ++i)
              gradients[32 * half + i] = (kept >> i & 1u) != 0 ? gradients[32 * half + i] * arguments.keepScale : 0.0f;
          }
        }
#pragma unroll
        for (int i = 0; i < blockKeys / 2; ++i)
          scores[i] *= gradients[i] - delta[i >> 1 & 1];

        u32 scoreGradients[blockKeys / 16][4];
        pack_operand(scoreGradients, scores);
        wgmma_hold(queryGradient);
        wgmma_fence();
        issue_over_rows(queryGradient, scoreGradients, column_operand(arena + key_tile(stage), blockKeys));
        wgmma_commit();
        wgmma_wait<0>();
        wgmma_hold(queryGradient);
      }
      if (lane == 0)
        mbarrier_arrive(&empty[stage]);
    }

    float factor[2] = {arguments.scale, arguments.scale};
    store_group_rows(matrix_of(arguments.queryGradient, batch, head), ownQuery, queries, queryGradient, factor);
  }
}
