// Flash attention backward for Hopper (sm_90a), the gradients of keys and values: as backward_keys_portable.cu, with one
// producer warpgroup and `consumers` warpgroups of 64 key rows. Pᵀ and dSᵀ go from accumulators straight into A operands.
// Grid: key tiles, key heads, batch; or the blocks of a persistent launch (work.cuh). Dynamic shared memory: key tiles,
// value tiles, then `stages` times a query and an output-gradient tile, then `stages` times the shifts and deltas of a
// query tile. Maps: query and output gradient in boxes of blockQueries rows, key and value of 64 rows. Runs after the dQ
// kernel.
//
// With overlap and as far as registers go, the exponentials of a tile run beside its product dPᵀ (besideProducts), dSᵀ is
// made beside dV, and dK of a tile runs beside the next one's Sᵀ and dPᵀ: its stage is given back one tile later (runsOn).

constexpr int blockKeys = 64 * consumers;
constexpr bool besideProducts = overlap && !(headDim == 128 && dropout);
constexpr bool runsOn = overlap && headDim == 64 && blockQueries == 64;
// At headDim 128 the loop over a tile has no registers left for the list of work: each round reads it again.
constexpr bool sharesList = persistent && headDim == 128;
constexpr int statisticBytes = 4 * blockQueries;

DEVICE int key_tile(int consumer) { return consumer * tile_bytes(64); }
DEVICE int value_tile(int consumer) { return (consumers + consumer) * tile_bytes(64); }
DEVICE int query_tile(int stage) { return 2 * consumers * tile_bytes(64) + 2 * stage * tile_bytes(blockQueries); }
DEVICE int gradient_tile(int stage) { return query_tile(stage) + tile_bytes(blockQueries); }
DEVICE int shifts(int stage) { return query_tile(stages) + 2 * stage * statisticBytes; }
DEVICE int deltas(int stage) { return shifts(stage) + statisticBytes; }

// A consumer's place: its first key and this thread's first row.
struct KeyRows {
  int groupKey, ownKey;
};

// Scores become probabilities; those of keys that a query may not see are 0. Rows of keys beyond the last are summed and
// never stored; queries beyond the last have the shift +inf and so P = 0.
DEVICE void probabilities_of(float (&scores)[blockQueries / 2], const AttentionArguments &arguments,
                             const KeyRows &rows, int firstQuery, const unsigned char *shiftsOfTile) {
  float scaleLog2 = arguments.scale * log2OfE;
  bool whole = all_visible(arguments, firstQuery, blockQueries, rows.groupKey, 64, true);
#pragma unroll
  for (int column = 0; column < blockQueries / 8; ++column) {
    Vec8 shiftPair = load_8(shiftsOfTile + (8 * column + 2 * (lane_index() & 3)) * 4);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float &score = scores[4 * column + i];
      score = fast_exp2(fma_f32(score, scaleLog2, -float_from_bits(shiftPair.word[i & 1])));
      if (causal && !whole) {
        int diagonal = firstQuery + 8 * column + 2 * (lane_index() & 3) + (i & 1) + arguments.diagonal;
        int key = rows.ownKey + 8 * (i >> 1);
        if (key > diagonal || (windowed && key <= diagonal - arguments.window))
          score = 0.0f;
      }
    }
  }
}

// dS replaces dP; the dropped ones of dP are 0 first, and then P is dropped as well.
DEVICE void score_gradients_of(float (&gradients)[blockQueries / 2], const float (&scores)[blockQueries / 2],
                               const u32 (&kept)[blockQueries / 64], float keepScale,
                               const unsigned char *deltasOfTile) {
#pragma unroll
  for (int column = 0; column < blockQueries / 8; ++column) {
    Vec8 deltaPair = load_8(deltasOfTile + (8 * column + 2 * (lane_index() & 3)) * 4);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float &gradient = gradients[4 * column + i];
      if (dropout)
        gradient = (kept[column / 8] >> (4 * (column & 7) + i) & 1u) != 0 ? gradient * keepScale : 0.0f;
      gradient = scores[4 * column + i] * (gradient - float_from_bits(deltaPair.word[i & 1]));
    }
  }
}

// Probabilities as an A operand, the dropped ones 0.
DEVICE void pack_kept(u32 (&a)[blockQueries / 16][4], const float (&scores)[blockQueries / 2],
                      const u32 (&kept)[blockQueries / 64]) {
#pragma unroll
  for (int i = 0; i < blockQueries / 4; ++i) {
    float low = scores[2 * i], high = scores[2 * i + 1];
    if (dropout) {
      u32 bits = kept[i / 16] >> (2 * (i & 15));
      low = (bits & 1u) != 0 ? low : 0.0f;
      high = (bits & 2u) != 0 ? high : 0.0f;
    }
    a[i / 4][i & 3] = pack<Element>(low, high);
  }
}

KERNEL(@name@, threads, 1)(GRID_CONSTANT const AttentionArguments arguments, GRID_CONSTANT const TensorMap queryMap,
                           GRID_CONSTANT const TensorMap gradientMap, GRID_CONSTANT const TensorMap keyMap,
                           GRID_CONSTANT const TensorMap valueMap) {
  DYNAMIC_SHARED(arena, 1024);
  SHARED(Mbarrier, keyFull, 1);
  SHARED(Mbarrier, keyEmpty, 1);
  SHARED(Mbarrier, full, stages);
  SHARED(Mbarrier, empty, stages);
  SHARED(WorkList, sharedList, 1);

  int group = arguments.group;
  int keyHeads = arguments.heads / group;
  WorkList ownList = work_list(tiles_of(arguments.keys, blockKeys), keyHeads, arguments.batch, 1,
                               static_cast<i64>(4 * headDim) * arguments.queries * group);
  if (thread_x() == 0) {
    mbarrier_init(&keyFull[0], 1);
    mbarrier_init(&keyEmpty[0], 4 * consumers);
    for (int stage = 0; stage < stages; ++stage) {
      mbarrier_init(&full[stage], 1);
      mbarrier_init(&empty[stage], 4 * consumers);
    }
    fence_mbarrier_init();
    if (sharesList)
      sharedList[0] = ownList;
  }
  block_barrier();

  const WorkList &list = sharesList ? sharedList[0] : ownList;
  // Tiles of queries that this block has walked over.
  int walked = 0;
  if (warp_index() < 4) {
    registers_release<producerRegisters>();
    if (warp_index() == 0 && elect_one()) {
      i64 paddedQueries = tiles_of(arguments.queries, 128) * 128;
      for (int round = 0; work_number(round) < list.items; ++round) {
        Work work = work_of(list, work_number(round));
        int firstKey = work.tile * blockKeys;
        if (persistent)
          mbarrier_wait(&keyEmpty[0], (round & 1) ^ 1);
        mbarrier_arrive_expect(&keyFull[0], 2 * consumers * tile_bytes(64));
        for (int part = 0; part < consumers; ++part) {
          load_tile(arena + key_tile(part), 64, &keyMap, &keyFull[0], firstKey + part * 64, work.head, work.batch);
          load_tile(arena + value_tile(part), 64, &valueMap, &keyFull[0], firstKey + part * 64, work.head, work.batch);
        }
        Span tiles = query_tiles(arguments, firstKey, blockKeys, blockQueries);
        for (int head = work.head * group; head < (work.head + 1) * group; ++head)
          for (int step = tiles.first; step < tiles.end; ++step, ++walked) {
            int stage = walked % stages;
            int firstQuery = step * blockQueries;
            mbarrier_wait(&empty[stage], (walked / stages & 1) ^ 1);
            mbarrier_arrive_expect(&full[stage], 2 * tile_bytes(blockQueries) + 2 * statisticBytes);
            load_tile(arena + query_tile(stage), blockQueries, &queryMap, &full[stage], firstQuery, head, work.batch);
            load_tile(arena + gradient_tile(stage), blockQueries, &gradientMap, &full[stage], firstQuery, head,
                      work.batch);
            i64 statistics = (static_cast<i64>(work.batch) * arguments.heads + head) * paddedQueries + firstQuery;
            bulk_load(arena + shifts(stage), arguments.rowShift + statistics, statisticBytes, &full[stage]);
            bulk_load(arena + deltas(stage), arguments.rowDelta + statistics, statisticBytes, &full[stage]);
          }
      }
    }
  } else {
    registers_acquire<consumerRegisters>();
    int consumer = warp_index() / 4 - 1;
    int lane = lane_index();
    u64 keyOperand = row_operand(arena + key_tile(consumer));
    u64 valueOperand = row_operand(arena + value_tile(consumer));

#pragma unroll 1
    for (int round = 0; work_number(round) < list.items; ++round) {
      Work work = work_of(list, work_number(round));
      int groupKey = work.tile * blockKeys + 64 * consumer;
      KeyRows rows = {groupKey, groupKey + 16 * (warp_index() & 3) + lane / 4};
      Span tiles = query_tiles(arguments, work.tile * blockKeys, blockKeys, blockQueries);
      // This warpgroup's tiles; it only keeps the barriers' phases outside them.
      Span own = query_tiles(arguments, groupKey, 64, blockQueries);

      float keyGradient[headDim / 2];
      float valueGradient[headDim / 2];
      u32 probabilities[blockQueries / 16][4];
      u32 scoreGradients[blockQueries / 16][4];
#pragma unroll
      for (int i = 0; i < headDim / 2; ++i)
        keyGradient[i] = valueGradient[i] = 0.0f;
      mbarrier_wait(&keyFull[0], persistent ? round & 1 : 0);

#pragma unroll 1
      for (int head = work.head * group; head < (work.head + 1) * group; ++head) {
        // Tile `step` is the block's pass number walked + step.
        walked -= tiles.first;
        auto skip = [&](int step) {
          int stage = (walked + step) % stages;
          mbarrier_wait(&full[stage], (walked + step) / stages & 1);
          give_back(&empty[stage]);
        };
        int step = tiles.first;
        for (; step < minimum(own.first, tiles.end); ++step)
          skip(step);
        if (besideProducts && step < own.end)
          mbarrier_wait(&full[(walked + step) % stages], (walked + step) / stages & 1);

#pragma unroll 1
        for (; step < own.end; ++step) {
          int stage = (walked + step) % stages;
          int firstQuery = step * blockQueries;
          if (!besideProducts)
            mbarrier_wait(&full[stage], (walked + step) / stages & 1);
          float scores[blockQueries / 2];
          float gradients[blockQueries / 2];
          wgmma_fence();
          issue_over_columns<64, blockQueries>(scores, keyOperand, row_operand(arena + query_tile(stage)));
          wgmma_commit();
          issue_over_columns<64, blockQueries>(gradients, valueOperand, row_operand(arena + gradient_tile(stage)));
          wgmma_commit();
          if (runsOn) {
            wgmma_wait<2>();
            wgmma_hold(valueGradient);
            wgmma_hold(keyGradient);
            if (step > own.first)
              give_back(&empty[(walked + step - 1) % stages]);
          }
          if (besideProducts) {
            wgmma_wait<1>();
            wgmma_hold(scores);
          } else {
            wgmma_wait<0>();
            wgmma_hold(scores);
            wgmma_hold(gradients);
          }

          u32 kept[blockQueries / 64] = {};
          if (dropout)
#pragma unroll
            for (int half = 0; half < blockQueries / 64; ++half)
              kept[half] = kept_bits<8, true>(dropout_mask(arguments, work.batch, head), rows.ownKey,
                                              firstQuery + 64 * half + 2 * (lane & 3));
          probabilities_of(scores, arguments, rows, firstQuery, arena + shifts(stage));
          if (besideProducts) {
            // Without a branch behind the exponentials the assembler would wait for both products before them.
            wgmma_hold(scores);
            if (step + 1 < own.end)
              mbarrier_wait(&full[(walked + step + 1) % stages], (walked + step + 1) / stages & 1);
          }
          if (besideProducts && !runsOn) {
            wgmma_wait<0>();
            wgmma_hold(gradients);
          }
          pack_kept(probabilities, scores, kept);
          if (runsOn) {
            wgmma_hold(valueGradient);
            wgmma_fence();
            issue_over_rows(valueGradient, probabilities, column_operand(arena + gradient_tile(stage), blockQueries));
            wgmma_commit();
            wgmma_wait<1>();
            wgmma_hold(gradients);
          }
          score_gradients_of(gradients, scores, kept, arguments.keepScale, arena + deltas(stage));
          pack_operand(scoreGradients, gradients);
          wgmma_hold(keyGradient);
          if (!runsOn)
            wgmma_hold(valueGradient);
          wgmma_fence();
          if (!runsOn)
            issue_over_rows(valueGradient, probabilities, column_operand(arena + gradient_tile(stage), blockQueries));
          issue_over_rows(keyGradient, scoreGradients, column_operand(arena + query_tile(stage), blockQueries));
          wgmma_commit();
          if (!runsOn) {
            wgmma_wait<0>();
            wgmma_hold(valueGradient);
            wgmma_hold(keyGradient);
            give_back(&empty[stage]);
          }
        }
        if (runsOn) {
          wgmma_wait<0>();
          wgmma_hold(valueGradient);
          wgmma_hold(keyGradient);
          if (own.first < own.end)
            give_back(&empty[(walked + own.end - 1) % stages]);
        }
        for (; step < tiles.end; ++step)
          skip(step);
        walked += tiles.end;
      }
      if (persistent)
        give_back(&keyEmpty[0]);

      float keyFactor[2] = {arguments.scale, arguments.scale};
      float keep = dropout ? arguments.keepScale : 1.0f;
      float valueFactor[2] = {keep, keep};
      store_group_rows(matrix_of(arguments.keyGradient, work.batch, work.head), rows.ownKey, arguments.keys,
                       keyGradient, keyFactor);
      store_group_rows(matrix_of(arguments.valueGradient, work.batch, work.head), rows.ownKey, arguments.keys,
                       valueGradient, valueFactor);
    }
  }
}
