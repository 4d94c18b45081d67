// Flash attention backward, the gradient of the queries: for its own query rows a block recomputes the probabilities P
// from logSumExp, walks over tiles of keys and sums dS · K, dS = P ∘ (dP - delta). It computes delta = Σ output ·
// outputGradient on the way and leaves it, with the padded shift, for the dK/dV kernel, which must follow.
// Grid: padded query tiles, query heads, batch. Dynamic shared memory: query and output-gradient tiles, two key and
// two value tiles.

constexpr int warpQueries = 16 * rowTiles;
constexpr int blockQueries = warps * warpQueries;
constexpr int tileBytes = blockKeys * rowBytes;
constexpr int keyTileCount = blockKeys / 8;

KERNEL(@name@, threads, minBlocks)(GRID_CONSTANT const AttentionArguments arguments) {
  DYNAMIC_SHARED(arena, 128);
  int queryTile = 0;
  int gradientTile = blockQueries * rowBytes;
  int keyTiles = gradientTile + blockQueries * rowBytes;
  int valueTiles = keyTiles + 2 * tileBytes;

  int tile = causal ? grid_x() - 1 - block_x() : block_x();
  int head = block_y();
  int batch = block_z();
  int firstQuery = tile * blockQueries;
  int queries = arguments.queries;
  int keys = arguments.keys;
  int lane = lane_index();
  int firstRow = warp_index() * warpQueries;
  int ownQuery = firstQuery + firstRow + lane / 4;
  Matrix key = matrix_of(arguments.key, batch, head / arguments.group);
  Matrix value = matrix_of(arguments.value, batch, head / arguments.group);
  Matrix gradient = matrix_of(arguments.outputGradient, batch, head);

  Span tiles = key_tiles(arguments, firstQuery, blockQueries, blockKeys);

  copy_tile<blockQueries>(arena, queryTile, matrix_of(arguments.query, batch, head), firstQuery, queries);
  copy_tile<blockQueries>(arena, gradientTile, gradient, firstQuery, queries);
  if (tiles.first < tiles.end) {
    int stage = tiles.first & 1;
    copy_tile<blockKeys>(arena, keyTiles + stage * tileBytes, key, tiles.first * blockKeys, keys);
    copy_tile<blockKeys>(arena, valueTiles + stage * tileBytes, value, tiles.first * blockKeys, keys);
  }
  copy_async_commit();

  Matrix output = matrix_of(arguments.output, batch, head);
  i64 batchHead = static_cast<i64>(batch) * arguments.heads + head;
  float shift[2 * rowTiles];
  float delta[2 * rowTiles];
#pragma unroll
  for (int row = 0; row < 2 * rowTiles; ++row) {
    int query = ownQuery + 8 * row;
    bool inside = query < queries;
    delta[row] = row_delta(output, gradient, query, inside);
    shift[row] = infinity();
    if (inside) {
      float logSumExp = arguments.logSumExp[batchHead * queries + query];
      shift[row] = logSumExp == -infinity() ? infinity() : biased ? logSumExp : logSumExp * log2OfE;
    }
    if ((lane & 3) == 0) {
      i64 padded = batchHead * (tiles_of(queries, 128) * 128) + query;
      arguments.rowShift[padded] = shift[row];
      arguments.rowDelta[padded] = delta[row];
    }
  }

  float queryGradient[rowTiles][headDim / 8][4];
#pragma unroll
  for (int row = 0; row < rowTiles; ++row)
#pragma unroll
    for (int i = 0; i < 4 * (headDim / 8); ++i)
      queryGradient[row][i / 4][i & 3] = 0.0f;
  DropoutMask mask = {};
  if (dropout)
    mask = dropout_mask(arguments, batch, head);
  float scaleLog2 = arguments.scale * log2OfE;
  const float *bias = bias_of(arguments, batch, head);

#pragma unroll 1
  for (int step = tiles.first; step < tiles.end; ++step) {
    copy_async_wait<0>();
    block_barrier();
    if (step + 1 < tiles.end) {
      int stage = (step + 1) & 1;
      copy_tile<blockKeys>(arena, keyTiles + stage * tileBytes, key, (step + 1) * blockKeys, keys);
      copy_tile<blockKeys>(arena, valueTiles + stage * tileBytes, value, (step + 1) * blockKeys, keys);
      copy_async_commit();
    }
    int keyTile = keyTiles + (step & 1) * tileBytes;
    int valueTile = valueTiles + (step & 1) * tileBytes;
    int firstKey = step * blockKeys;

    float scores[rowTiles][keyTileCount][4];
    product_transposed<rowTiles, keyTileCount>(scores, arena, queryTile, firstRow, keyTile);
    if (biased)
      add_bias<false>(scores, arguments, bias, ownQuery, firstKey + 2 * (lane & 3));
    bool whole = all_visible(arguments, firstQuery + firstRow, warpQueries, firstKey, blockKeys);
#pragma unroll
    for (int row = 0; row < 2 * rowTiles; ++row) {
      int query = ownQuery + 8 * row;
#pragma unroll
      for (int i = 0; i < 2 * keyTileCount; ++i) {
        float &score = scores[row / 2][i / 2][2 * (row & 1) + (i & 1)];
        score = shifted_exp(score, scaleLog2, shift[row]);
        int at = firstKey + 8 * (i / 2) + 2 * (lane & 3) + (i & 1);
        if (!whole && (at >= key_end(arguments, query) || at < first_key(arguments, query)))
          score = 0.0f;
      }
    }

    float gradients[rowTiles][keyTileCount][4];
    product_transposed<rowTiles, keyTileCount>(gradients, arena, gradientTile, firstRow, valueTile);
    if (dropout) {
#pragma unroll
      for (int row = 0; row < rowTiles; ++row) {
        u32 kept = kept_bits<keyTileCount, false>(mask, ownQuery + 16 * row, firstKey + 2 * (lane & 3));
#pragma unroll
        for (int i = 0; i < 4 * keyTileCount; ++i) {
          float &element = gradients[row][i / 4][i & 3];
          element = (kept >> i & 1u) != 0 ? element * arguments.keepScale : 0.0f;
        }
      }
    }
#pragma unroll
    for (int row = 0; row < 2 * rowTiles; ++row)
#pragma unroll
      for (int i = 0; i < 2 * keyTileCount; ++i) {
        int slot = 2 * (row & 1) + (i & 1);
        scores[row / 2][i / 2][slot] *= gradients[row / 2][i / 2][slot] - delta[row];
      }
    product_of_registers<rowTiles, keyTileCount>(queryGradient, scores, arena, keyTile);
  }
  copy_async_wait<0>();
  block_barrier();

  float factor[2 * rowTiles];
#pragma unroll
  for (int row = 0; row < 2 * rowTiles; ++row)
    factor[row] = arguments.scale;
  store_rows<rowTiles>(matrix_of(arguments.queryGradient, batch, head), firstQuery, queries, arena, queryTile, firstRow,
                       queryGradient, factor);
}
