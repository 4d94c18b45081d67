// Flash attention forward, Dao 2023 (arXiv 2307.08691): cp.async, ldmatrix, mma.sync. One block has `warps` warps of
// rowTiles * 16 query rows and walks over tiles of blockKeys keys, double-buffered, with an online softmax.
// Grid: query tiles, query heads, batch. Dynamic shared memory: query tile, two key tiles, two value tiles.

constexpr int warpQueries = 16 * rowTiles;
constexpr int blockQueries = warps * warpQueries;
constexpr int tileBytes = blockKeys * rowBytes;
constexpr int keyTileCount = blockKeys / 8;

KERNEL(@name@, threads, minBlocks)(GRID_CONSTANT const AttentionArguments arguments) {
  DYNAMIC_SHARED(arena, 128);
  int queryTile = 0;
  int keyTiles = blockQueries * rowBytes;
  int valueTiles = keyTiles + 2 * tileBytes;

  // Causal blocks with the most keys start first.
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

  Span tiles = key_tiles(arguments, firstQuery, blockQueries, blockKeys);

  copy_tile<blockQueries>(arena, queryTile, matrix_of(arguments.query, batch, head), firstQuery, queries);
  if (tiles.first < tiles.end) {
    int stage = tiles.first & 1;
    copy_tile<blockKeys>(arena, keyTiles + stage * tileBytes, key, tiles.first * blockKeys, keys);
    copy_tile<blockKeys>(arena, valueTiles + stage * tileBytes, value, tiles.first * blockKeys, keys);
  }
  copy_async_commit();

  float output[rowTiles][headDim / 8][4];
  float rowMax[2 * rowTiles];
  float rowSum[2 * rowTiles];
#pragma unroll
  for (int row = 0; row < 2 * rowTiles; ++row) {
    rowMax[row] = -infinity();
    rowSum[row] = 0.0f;
#pragma unroll
    for (int column = 0; column < headDim / 8; ++column)
      output[row / 2][column][2 * (row & 1)] = output[row / 2][column][2 * (row & 1) + 1] = 0.0f;
  }
  DropoutMask mask = {};
  if (dropout)
    mask = dropout_mask(arguments, batch, head);
  float scaleLog2 = arguments.scale * log2OfE;
  const float *bias = bias_of(arguments, batch, head);

#pragma unroll 1
  for (int step = tiles.first; step < tiles.end; ++step) {
    // This step's tiles have landed, and every warp has left the tiles that the next copy overwrites.
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
    if (!all_visible(arguments, firstQuery + firstRow, warpQueries, firstKey, blockKeys)) {
#pragma unroll
      for (int row = 0; row < 2 * rowTiles; ++row) {
        int query = ownQuery + 8 * row;
#pragma unroll
        for (int i = 0; i < 2 * keyTileCount; ++i) {
          int at = firstKey + 8 * (i / 2) + 2 * (lane & 3) + (i & 1);
          if (at >= key_end(arguments, query) || at < first_key(arguments, query))
            scores[row / 2][i / 2][2 * (row & 1) + (i & 1)] = -infinity();
        }
      }
    }

#pragma unroll
    for (int row = 0; row < 2 * rowTiles; ++row) {
      float highest = rowMax[row];
#pragma unroll
      for (int i = 0; i < 2 * keyTileCount; ++i)
        highest = max_f32(highest, scores[row / 2][i / 2][2 * (row & 1) + (i & 1)]);
      highest = quad_reduce_max(highest);
      // A row that has seen no key yet is shifted by 0, so that its exponentials are 0 and not NaN.
      float shift = highest == -infinity() ? 0.0f : biased ? highest : highest * scaleLog2;
      float shrink = shifted_exp(rowMax[row], scaleLog2, shift);
      rowMax[row] = highest;
      float sum = 0.0f;
#pragma unroll
      for (int i = 0; i < 2 * keyTileCount; ++i) {
        float &score = scores[row / 2][i / 2][2 * (row & 1) + (i & 1)];
        score = shifted_exp(score, scaleLog2, shift);
        sum += score;
      }
      rowSum[row] = fma_f32(rowSum[row], shrink, sum);
#pragma unroll
      for (int i = 0; i < 2 * (headDim / 8); ++i)
        output[row / 2][i / 2][2 * (row & 1) + (i & 1)] *= shrink;
    }

    if (dropout) {
#pragma unroll
      for (int row = 0; row < rowTiles; ++row) {
        u32 kept = kept_bits<keyTileCount, false>(mask, ownQuery + 16 * row, firstKey + 2 * (lane & 3));
#pragma unroll
        for (int i = 0; i < 4 * keyTileCount; ++i)
          if ((kept >> i & 1u) == 0)
            scores[row][i / 4][i & 3] = 0.0f;
      }
    }
    product_of_registers<rowTiles, keyTileCount>(output, scores, arena, valueTile);
  }
  // Without any step the query tile is still on its way.
  copy_async_wait<0>();
  block_barrier();

  float factor[2 * rowTiles];
#pragma unroll
  for (int row = 0; row < 2 * rowTiles; ++row) {
    float sum = quad_reduce_sum(rowSum[row]);
    factor[row] = sum > 0.0f ? divide_f32(arguments.keepScale, sum) : sum;
    int query = ownQuery + 8 * row;
    if ((lane & 3) == 0 && query < queries) {
      float scale = biased ? 1.0f : arguments.scale;
      float logSumExp = sum == 0.0f ? -infinity() : fma_f32(rowMax[row], scale, log_f32(sum));
      arguments.logSumExp[(static_cast<i64>(batch) * arguments.heads + head) * queries + query] = logSumExp;
    }
  }
  store_rows<rowTiles>(matrix_of(arguments.output, batch, head), firstQuery, queries, arena, queryTile, firstRow, output,
                       factor);
}
