// Flash attention backward for Hopper (sm_90a), the gradient of the queries: as backward_query_portable.cu, with one
// producer warpgroup and `consumers` warpgroups of 64 query rows. S and dP are products over headDim, dS goes from the
// accumulator straight into the A operand of dS · K. Leaves rowShift and rowDelta for the dK/dV kernel.
// Grid: padded query tiles, query heads, batch; or the blocks of a persistent launch (work.cuh). Dynamic shared memory:
// query tiles, output-gradient tiles, then `stages` times a key and a value tile. Maps: query and output gradient in
// boxes of 64 rows, key and value of blockKeys rows.
//
// With overlap the exponentials of a tile run beside its product dP, and dS · K of a tile beside the next one's S and dP:
// a tile's stage is given back one tile later.

constexpr int blockQueries = 64 * consumers;

DEVICE int query_tile(int consumer) { return consumer * tile_bytes(64); }
DEVICE int gradient_tile(int consumer) { return (consumers + consumer) * tile_bytes(64); }
DEVICE int key_tile(int stage) { return 2 * consumers * tile_bytes(64) + 2 * stage * tile_bytes(blockKeys); }
DEVICE int value_tile(int stage) { return key_tile(stage) + tile_bytes(blockKeys); }

// What a thread knows of its two rows: the log-sum-exp in base 2 and delta.
struct RowStatistics {
  float shift[2], delta[2];
};

// Reads them, and leaves them for the dK/dV kernel.
DEVICE RowStatistics row_statistics(const AttentionArguments &arguments, const Work &work, int ownQuery) {
  Matrix output = matrix_of(arguments.output, work.batch, work.head);
  Matrix gradient = matrix_of(arguments.outputGradient, work.batch, work.head);
  i64 batchHead = static_cast<i64>(work.batch) * arguments.heads + work.head;
  RowStatistics rows;
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    int query = ownQuery + 8 * row;
    bool inside = query < arguments.queries;
    rows.delta[row] = row_delta(output, gradient, query, inside);
    rows.shift[row] = infinity();
    if (inside) {
      float logSumExp = arguments.logSumExp[batchHead * arguments.queries + query];
      rows.shift[row] = logSumExp == -infinity() ? infinity() : logSumExp * log2OfE;
    }
    if ((lane_index() & 3) == 0) {
      i64 padded = batchHead * (tiles_of(arguments.queries, 128) * 128) + query;
      arguments.rowShift[padded] = rows.shift[row];
      arguments.rowDelta[padded] = rows.delta[row];
    }
  }
  return rows;
}

// Scores become probabilities; those of keys that a row may not see are 0.
DEVICE void probabilities_of(float (&scores)[blockKeys / 2], const AttentionArguments &arguments,
                             const RowStatistics &rows, int groupQuery, int ownQuery, int firstKey) {
  float scaleLog2 = arguments.scale * log2OfE;
  bool whole = all_visible(arguments, groupQuery, 64, firstKey, blockKeys);
#pragma unroll
  for (int i = 0; i < blockKeys / 2; ++i) {
    int row = i >> 1 & 1;
    scores[i] = fast_exp2(fma_f32(scores[i], scaleLog2, -rows.shift[row]));
    if (!whole) {
      int query = ownQuery + 8 * row;
      int key = firstKey + 8 * (i >> 2) + 2 * (lane_index() & 3) + (i & 1);
      if (key >= key_end(arguments, query) || key < first_key(arguments, query))
        scores[i] = 0.0f;
    }
  }
}

KERNEL(@name@, threads, 1)(GRID_CONSTANT const AttentionArguments arguments, GRID_CONSTANT const TensorMap queryMap,
                           GRID_CONSTANT const TensorMap gradientMap, GRID_CONSTANT const TensorMap keyMap,
                           GRID_CONSTANT const TensorMap valueMap) {
  DYNAMIC_SHARED(arena, 1024);
  SHARED(Mbarrier, queryFull, 1);
  SHARED(Mbarrier, queryEmpty, 1);
  SHARED(Mbarrier, full, stages);
  SHARED(Mbarrier, empty, stages);

  if (thread_x() == 0) {
    mbarrier_init(&queryFull[0], 1);
    mbarrier_init(&queryEmpty[0], 4 * consumers);
    for (int stage = 0; stage < stages; ++stage) {
      mbarrier_init(&full[stage], 1);
      mbarrier_init(&empty[stage], 4 * consumers);
    }
    fence_mbarrier_init();
  }
  block_barrier();

  // Tiles of padding have rows to write but nothing to sum.
  int padded = tiles_of(arguments.queries, 128) * 128;
  WorkList list = work_list(tiles_of(padded, blockQueries), arguments.heads, arguments.batch, arguments.group,
                            static_cast<i64>(4 * headDim) * arguments.keys);
  // Tiles of keys that this block has walked over.
  int walked = 0;
  if (warp_index() < 4) {
    registers_release<producerRegisters>();
    if (warp_index() == 0 && elect_one()) {
      for (int round = 0; work_number(round) < list.items; ++round) {
        Work work = work_of(list, work_number(round));
        int keyHead = work.head / arguments.group;
        int firstQuery = work.tile * blockQueries;
        Span tiles = key_tiles(arguments, firstQuery, blockQueries, blockKeys);
        if (persistent)
          mbarrier_wait(&queryEmpty[0], (round & 1) ^ 1);
        mbarrier_arrive_expect(&queryFull[0], 2 * consumers * tile_bytes(64));
        for (int part = 0; part < consumers; ++part) {
          load_tile(arena + query_tile(part), 64, &queryMap, &queryFull[0], firstQuery + part * 64, work.head,
                    work.batch);
          load_tile(arena + gradient_tile(part), 64, &gradientMap, &queryFull[0], firstQuery + part * 64, work.head,
                    work.batch);
        }
        for (int step = tiles.first; step < tiles.end; ++step, ++walked) {
          int stage = walked % stages;
          mbarrier_wait(&empty[stage], (walked / stages & 1) ^ 1);
          mbarrier_arrive_expect(&full[stage], 2 * tile_bytes(blockKeys));
          load_tile(arena + key_tile(stage), blockKeys, &keyMap, &full[stage], step * blockKeys, keyHead, work.batch);
          load_tile(arena + value_tile(stage), blockKeys, &valueMap, &full[stage], step * blockKeys, keyHead,
                    work.batch);
        }
      }
    }
  } else {
    registers_acquire<consumerRegisters>();
    int consumer = warp_index() / 4 - 1;
    int lane = lane_index();
    u64 queryOperand = row_operand(arena + query_tile(consumer));
    u64 gradientOperand = row_operand(arena + gradient_tile(consumer));

#pragma unroll 1
    for (int round = 0; work_number(round) < list.items; ++round) {
      Work work = work_of(list, work_number(round));
      int firstQuery = work.tile * blockQueries;
      int groupQuery = firstQuery + 64 * consumer;
      int ownQuery = groupQuery + 16 * (warp_index() & 3) + lane / 4;
      Span tiles = key_tiles(arguments, firstQuery, blockQueries, blockKeys);
      // This warpgroup's tiles; it only keeps the barriers' phases outside them.
      Span own = key_tiles(arguments, groupQuery, 64, blockKeys);
      DropoutMask mask = {};
      if (dropout)
        mask = dropout_mask(arguments, work.batch, work.head);
      RowStatistics rows = row_statistics(arguments, work, ownQuery);
      // Tile `step` is the block's pass number walked + step.
      walked -= tiles.first;
      auto skip = [&](int step) {
        int stage = (walked + step) % stages;
        mbarrier_wait(&full[stage], (walked + step) / stages & 1);
        give_back(&empty[stage]);
      };

      float queryGradient[headDim / 2];
      u32 scoreGradients[blockKeys / 16][4];
#pragma unroll
      for (int i = 0; i < headDim / 2; ++i)
        queryGradient[i] = 0.0f;
      mbarrier_wait(&queryFull[0], persistent ? round & 1 : 0);
      int step = tiles.first;
      for (; step < minimum(own.first, tiles.end); ++step)
        skip(step);
      if (overlap && step < own.end)
        mbarrier_wait(&full[(walked + step) % stages], (walked + step) / stages & 1);

#pragma unroll 1
      for (; step < own.end; ++step) {
        int stage = (walked + step) % stages;
        int firstKey = step * blockKeys;
        if (!overlap)
          mbarrier_wait(&full[stage], (walked + step) / stages & 1);
        float scores[blockKeys / 2];
        float gradients[blockKeys / 2];
        wgmma_fence();
        issue_over_columns<64, blockKeys>(scores, queryOperand, row_operand(arena + key_tile(stage)));
        wgmma_commit();
        issue_over_columns<64, blockKeys>(gradients, gradientOperand, row_operand(arena + value_tile(stage)));
        wgmma_commit();
        if (overlap) {
          wgmma_wait<2>();
          wgmma_hold(queryGradient);
          if (step > own.first)
            give_back(&empty[(walked + step - 1) % stages]);
          wgmma_wait<1>();
          wgmma_hold(scores);
        } else {
          wgmma_wait<0>();
          wgmma_hold(scores);
          wgmma_hold(gradients);
        }
        probabilities_of(scores, arguments, rows, groupQuery, ownQuery, firstKey);
        if (overlap) {
          // The next tiles are waited for here because the assembler moves wgmma_wait up as far as the nearest branch.
          wgmma_hold(scores);
          if (step + 1 < own.end)
            mbarrier_wait(&full[(walked + step + 1) % stages], (walked + step + 1) / stages & 1);
          wgmma_wait<0>();
          wgmma_hold(gradients);
        }
        if (dropout) {
#pragma unroll
          for (int half = 0; half < blockKeys / 64; ++half) {
            u32 kept = kept_bits<8, false>(mask, ownQuery, firstKey + 64 * half + 2 * (lane & 3));
#pragma unroll
            for (int i = 0; i < 32; ++i)
              gradients[32 * half + i] = (kept >> i & 1u) != 0 ? gradients[32 * half + i] * arguments.keepScale : 0.0f;
          }
        }
#pragma unroll
        for (int i = 0; i < blockKeys / 2; ++i)
          scores[i] *= gradients[i] - rows.delta[i >> 1 & 1];

        pack_operand(scoreGradients, scores);
        wgmma_hold(queryGradient);
        wgmma_fence();
        issue_over_rows(queryGradient, scoreGradients, column_operand(arena + key_tile(stage), blockKeys));
        wgmma_commit();
        if (!overlap) {
          wgmma_wait<0>();
          wgmma_hold(queryGradient);
          give_back(&empty[stage]);
        }
      }
      if (overlap) {
        wgmma_wait<0>();
        wgmma_hold(queryGradient);
        if (own.first < own.end)
          give_back(&empty[(walked + own.end - 1) % stages]);
      }
      if (persistent)
        give_back(&queryEmpty[0]);
      for (; step < tiles.end; ++step)
        skip(step);
      walked += tiles.end;

      float factor[2] = {arguments.scale, arguments.scale};
      store_group_rows(matrix_of(arguments.queryGradient, work.batch, work.head), ownQuery, arguments.queries,
                       queryGradient, factor);
    }
  }
}
