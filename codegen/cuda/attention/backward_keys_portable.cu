// Flash attention backward, the gradients of keys and values: for its own key rows a block walks over the query heads
// of its group and their tiles of queries, in a fixed order, and sums dV += Pᵀ · dO and dK += dSᵀ · Q in registers.
// All products are transposed (keys are the rows), so Pᵀ and dSᵀ never leave the registers. Runs after the dQ kernel.
// Grid: key tiles, key heads, batch. Dynamic shared memory: key and value tiles, two query tiles, two output-gradient
// tiles, twice the shifts and deltas of a query tile.

constexpr int warpKeys = 16 * rowTiles;
constexpr int blockKeys = warps * warpKeys;
constexpr int tileBytes = blockQueries * rowBytes;
constexpr int queryTileCount = blockQueries / 8;

KERNEL(@name@, threads, minBlocks)(GRID_CONSTANT const AttentionArguments arguments) {
  DYNAMIC_SHARED(arena, 128);
  int keyTile = 0;
  int valueTile = blockKeys * rowBytes;
  int queryTiles = valueTile + blockKeys * rowBytes;
  int gradientTiles = queryTiles + 2 * tileBytes;
  int shifts = gradientTiles + 2 * tileBytes;
  int deltas = shifts + 2 * blockQueries * 4;

  int keyHead = block_y();
  int batch = block_z();
  int firstKey = block_x() * blockKeys;
  int queries = arguments.queries;
  int keys = arguments.keys;
  int group = arguments.group;
  int lane = lane_index();
  int firstRow = warp_index() * warpKeys;
  int ownKey = firstKey + firstRow + lane / 4;
  int paddedQueries = tiles_of(queries, 128) * 128;

  Span tiles = query_tiles(arguments, firstKey, blockKeys, blockQueries);
  int steps = group * (tiles.end - tiles.first);
  // The head and the queries of the step at hand; the last tile of a head is followed by the first of the next.
  int head = keyHead * group;
  int firstQuery = tiles.first * blockQueries;

  auto copy_step = [&](int stage, int head, int firstQuery) {
    copy_tile<blockQueries>(arena, queryTiles + stage * tileBytes, matrix_of(arguments.query, batch, head), firstQuery,
                            queries);
    copy_tile<blockQueries>(arena, gradientTiles + stage * tileBytes, matrix_of(arguments.outputGradient, batch, head),
                            firstQuery, queries);
    i64 statistics = (static_cast<i64>(batch) * arguments.heads + head) * paddedQueries + firstQuery;
    if (thread_x() < blockQueries) {
      copy_async_4(arena + shifts + (stage * blockQueries + thread_x()) * 4, arguments.rowShift + statistics + thread_x());
      copy_async_4(arena + deltas + (stage * blockQueries + thread_x()) * 4, arguments.rowDelta + statistics + thread_x());
    }
  };

  copy_tile<blockKeys>(arena, keyTile, matrix_of(arguments.key, batch, keyHead), firstKey, keys);
  copy_tile<blockKeys>(arena, valueTile, matrix_of(arguments.value, batch, keyHead), firstKey, keys);
  if (steps > 0)
    copy_step(0, head, firstQuery);
  copy_async_commit();

  float keyGradient[rowTiles][headDim / 8][4];
  float valueGradient[rowTiles][headDim / 8][4];
#pragma unroll
  for (int row = 0; row < rowTiles; ++row)
#pragma unroll
    for (int i = 0; i < 4 * (headDim / 8); ++i)
      keyGradient[row][i / 4][i & 3] = valueGradient[row][i / 4][i & 3] = 0.0f;
  float scaleLog2 = arguments.scale * log2OfE;

#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    copy_async_wait<0>();
    block_barrier();
    bool lastOfHead = firstQuery + blockQueries >= tiles.end * blockQueries;
    int nextHead = lastOfHead ? head + 1 : head;
    int nextQuery = lastOfHead ? tiles.first * blockQueries : firstQuery + blockQueries;
    if (step + 1 < steps) {
      copy_step((step + 1) & 1, nextHead, nextQuery);
      copy_async_commit();
    }
    int stage = step & 1;
    int queryTile = queryTiles + stage * tileBytes;
    int gradientTile = gradientTiles + stage * tileBytes;
    int shift = shifts + stage * blockQueries * 4;
    int delta = deltas + stage * blockQueries * 4;

    float scores[rowTiles][queryTileCount][4];
    product_transposed<rowTiles, queryTileCount>(scores, arena, keyTile, firstRow, queryTile);
    if (biased)
      add_bias<true>(scores, arguments, bias_of(arguments, batch, head), ownKey, firstQuery + 2 * (lane & 3));
    // Rows of keys beyond the last are summed and never stored; queries beyond the last have the shift +inf, P = 0.
    bool whole = all_visible(arguments, firstQuery, blockQueries, firstKey + firstRow, warpKeys, true);
#pragma unroll
    for (int column = 0; column < queryTileCount; ++column) {
      Vec8 shiftPair = load_8(arena + shift + (8 * column + 2 * (lane & 3)) * 4);
#pragma unroll
      for (int row = 0; row < rowTiles; ++row)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float &score = scores[row][column][i];
          score = shifted_exp(score, scaleLog2, float_from_bits(shiftPair.word[i & 1]));
          if (causal && !whole) {
            int diagonal = firstQuery + 8 * column + 2 * (lane & 3) + (i & 1) + arguments.diagonal;
            int at = ownKey + 16 * row + 8 * (i >> 1);
            if (at > diagonal || (windowed && at <= diagonal - arguments.window))
              score = 0.0f;
          }
        }
    }

    float gradients[rowTiles][queryTileCount][4];
    product_transposed<rowTiles, queryTileCount>(gradients, arena, valueTile, firstRow, gradientTile);
    u32 keptBits[rowTiles] = {};
    if (dropout) {
      DropoutMask mask = dropout_mask(arguments, batch, head);
#pragma unroll
      for (int row = 0; row < rowTiles; ++row)
        keptBits[row] = kept_bits<queryTileCount, true>(mask, ownKey + 16 * row, firstQuery + 2 * (lane & 3));
    }
    // dS replaces dP, then the dropped probabilities replace P.
#pragma unroll
    for (int column = 0; column < queryTileCount; ++column) {
      Vec8 deltaPair = load_8(arena + delta + (8 * column + 2 * (lane & 3)) * 4);
#pragma unroll
      for (int row = 0; row < rowTiles; ++row)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          bool kept = !dropout || ((keptBits[row] >> (4 * column + i)) & 1u) != 0;
          float &gradient = gradients[row][column][i];
          if (dropout)
            gradient = kept ? gradient * arguments.keepScale : 0.0f;
          gradient = scores[row][column][i] * (gradient - float_from_bits(deltaPair.word[i & 1]));
          if (!kept)
            scores[row][column][i] = 0.0f;
        }
    }
    product_of_registers<rowTiles, queryTileCount>(valueGradient, scores, arena, gradientTile);
    product_of_registers<rowTiles, queryTileCount>(keyGradient, gradients, arena, queryTile);
    head = nextHead;
    firstQuery = nextQuery;
  }
  copy_async_wait<0>();
  block_barrier();

  float keyFactor[2 * rowTiles];
  float valueFactor[2 * rowTiles];
#pragma unroll
  for (int row = 0; row < 2 * rowTiles; ++row) {
    keyFactor[row] = arguments.scale;
    valueFactor[row] = dropout ? arguments.keepScale : 1.0f;
  }
  store_rows<rowTiles>(matrix_of(arguments.keyGradient, batch, keyHead), firstKey, keys, arena, keyTile, firstRow, keyGradient,
                       keyFactor);
  store_rows<rowTiles>(matrix_of(arguments.valueGradient, batch, keyHead), firstKey, keys, arena, valueTile, firstRow,
                       valueGradient, valueFactor);
}
