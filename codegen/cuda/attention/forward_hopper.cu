// Flash attention forward for Hopper (sm_90a): one producer warpgroup loads tiles by TMA, `consumers` warpgroups of 64
// query rows each multiply by wgmma. Scores, probabilities and output stay in the consumers' registers: the layout of
// wgmma's accumulator is that of its A operand, so probabilities are only packed. Plain: a warpgroup overlaps with the
// other warpgroups, not with itself.
// Grid: query tiles, query heads, batch. Dynamic shared memory: the query tile, then `stages` times a key tile and a
// value tile. Maps: (headDim, rows, heads, batch) in boxes of 64 columns × 64 queries, or × blockKeys keys.
//
// Barriers: a full one each for the query tile and for the keys and the values of a stage (the producer's arrival and
// TMA's bytes), an empty one a stage (one arrival of each consumer warp, after its last read).

constexpr int blockQueries = 64 * consumers;
constexpr int keyTileCount = blockKeys / 8;

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
    int ownQuery = groupQuery + 16 * (warp_index() & 3) + lane / 4;
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
      int firstKey = step * blockKeys;
      mbarrier_wait(&keyFull[stage], parity);
      if (step < ownSteps) {
        float scores[blockKeys / 2];
        wgmma_fence();
        issue_over_columns<64, blockKeys>(scores, queryOperand, row_operand(arena + key_tile(stage)));
        wgmma_commit();
        wgmma_wait<0>();
        wgmma_hold(scores);

        bool whole = firstKey + blockKeys <= keys;
        if (causal)
          whole = whole && firstKey + blockKeys <= groupQuery + arguments.diagonal + 1;
        if (!whole) {
#pragma unroll
          for (int i = 0; i < blockKeys / 2; ++i) {
            int limit = keys;
            if (causal)
              limit = minimum(keys, ownQuery + 8 * (i >> 1 & 1) + arguments.diagonal + 1);
            if (firstKey + 8 * (i >> 2) + 2 * (lane & 3) + (i & 1) >= limit)
              scores[i] = -infinity();
          }
        }

#pragma unroll
        for (int row = 0; row < 2; ++row) {
          float highest = rowMax[row];
#pragma unroll
          for (int i = 0; i < blockKeys / 4; ++i)
            highest = max_f32(highest, scores[4 * (i / 2) + 2 * row + (i & 1)]);
          highest = quad_reduce_max(highest);
          // A row that has seen no key yet is shifted by 0, so that its exponentials are 0 and not NaN.
          float shift = highest == -infinity() ? 0.0f : highest * scaleLog2;
          float shrink = fast_exp2(fma_f32(rowMax[row], scaleLog2, -shift));
          rowMax[row] = highest;
          float sum = 0.0f;
#pragma unroll
          for (int i = 0; i < blockKeys / 4; ++i) {
            float &score = scores[4 * (i / 2) + 2 * row + (i & 1)];
            score = fast_exp2(fma_f32(score, scaleLog2, -shift));
            sum += score;
          }
          rowSum[row] = fma_f32(rowSum[row], shrink, sum);
#pragma unroll
          for (int i = 0; i < headDim / 4; ++i)
            output[4 * (i / 2) + 2 * row + (i & 1)] *= shrink;
        }

        if (dropout) {
#pragma unroll
          for (int half = 0; half < keyTileCount / 8; ++half) {
            u32 kept = kept_bits<8, false>(mask, ownQuery, firstKey + 64 * half + 2 * (lane & 3));
#pragma unroll
            for (int i = 0; i < 32; ++i)
              if ((kept >> i & 1u) == 0)
                scores[32 * half + i] = 0.0f;
          }
        }

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

    float factor[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      float sum = quad_reduce_sum(rowSum[row]);
      factor[row] = sum > 0.0f ? divide_f32(arguments.keepScale, sum) : sum;
      int query = ownQuery + 8 * row;
      if ((lane & 3) == 0 && query < queries) {
        float logSumExp = sum == 0.0f ? -infinity() : fma_f32(rowMax[row], arguments.scale, log_f32(sum));
        arguments.logSumExp[(static_cast<i64>(batch) * arguments.heads + head) * queries + query] = logSumExp;
      }
    }
    store_group_rows(matrix_of(arguments.output, batch, head), ownQuery, queries, output, factor);
  }
}
