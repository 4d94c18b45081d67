// Tiles of [row][headDim] elements in shared memory, and their fragments: what the portable kernels share.
// Needs the device prelude, common.cuh, and the constants headDim, threads.
//
// A row is headDim / 8 chunks of 16 bytes. Chunk c of row r lies at c ^ f(r), so that the eight rows that ldmatrix
// reads at once fall into different banks.
// With g = lane / 4 and t = lane % 4, a thread owns rows g, g + 8 and columns 2t, 2t + 1 of each accumulator tile.

constexpr int chunks = headDim / 8;
constexpr int rowBytes = 2 * headDim;

DEVICE int chunk_offset(int row, int chunk) {
  int flip = chunks % 8 == 0 ? row & 7 : (row >> 1) & 3;
  return row * rowBytes + (chunk ^ flip) * 16;
}

// Starts the copy of rows [first, first + tileRows) of `from`; rows from `rows` on become zeros.
template <int tileRows>
DEVICE void copy_tile(unsigned char *arena, int tile, const Matrix &from, int first, int rows) {
#pragma unroll
  for (int i = 0; i < (tileRows * chunks + threads - 1) / threads; ++i) {
    int index = thread_x() + i * threads;
    int row = index / chunks;
    int chunk = index % chunks;
    bool inside = first + row < rows;
    const Element *source = from.data + (inside ? first + row : 0) * from.rowStride + chunk * 8;
    if (tileRows * chunks % threads == 0 || row < tileRows)
      copy_async_16(arena + tile + chunk_offset(row, chunk), source, inside);
  }
}

// The chunk 2 * step after the one at `offset`, whose own chunk is 0 or 1; a flipped chunk number is additive in its
// bits, so that one exclusive or does it.
DEVICE int step_offset(int offset, int step) {
  return chunks % 8 == 0 ? offset ^ (32 * step) : (offset ^ (32 * (step & 1))) + 64 * (step >> 1);
}

// Where a lane finds its rows for the three kinds of fragments of a tile that begins at byte `tile` of the arena, a
// multiple of rowBytes and 64.
// A: rows firstRow to + 15 of the tile; a step is 16 columns.
DEVICE int a_offset(int tile, int firstRow) {
  int lane = lane_index();
  return tile + chunk_offset(firstRow + (lane & 15), lane >> 4);
}
// B of the transposed tile, for products over headDim: accumulator columns are the first sixteen rows of the tile, two
// registers for each eight of them; a step is 16 columns of the tile.
DEVICE int b_transposed_offset(int tile) {
  int lane = lane_index();
  return tile + chunk_offset((lane & 7) + 8 * (lane >> 4), (lane >> 3) & 1);
}
// B of the tile itself, for products over its rows: depth is the first sixteen rows of the tile; a step is 16 columns,
// two registers for each eight of them.
DEVICE int b_offset(int tile) {
  int lane = lane_index();
  return tile + chunk_offset(lane & 15, lane >> 4);
}

// d = A · Bᵀ over headDim: A is rowTiles * 16 rows of tile `a` from firstRow on, B is columnTiles * 8 rows of tile `b`.
template <int rowTiles, int columnTiles>
DEVICE void product_transposed(float (&d)[rowTiles][columnTiles][4], const unsigned char *arena, int a, int firstRow,
                               int b) {
  int leftOffset = a_offset(a, firstRow);
  int rightOffset = b_transposed_offset(b);
#pragma unroll
  for (int row = 0; row < rowTiles; ++row)
#pragma unroll
    for (int column = 0; column < columnTiles; ++column)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        d[row][column][i] = 0.0f;
#pragma unroll
  for (int step = 0; step < headDim / 16; ++step) {
    u32 left[rowTiles][4];
#pragma unroll
    for (int row = 0; row < rowTiles; ++row)
      ldmatrix_x4(left[row][0], left[row][1], left[row][2], left[row][3],
                  arena + step_offset(leftOffset, step) + 16 * row * rowBytes);
#pragma unroll
    for (int pair = 0; pair < columnTiles / 2; ++pair) {
      u32 right[4];
      ldmatrix_x4(right[0], right[1], right[2], right[3],
                  arena + step_offset(rightOffset, step) + 16 * pair * rowBytes);
#pragma unroll
      for (int row = 0; row < rowTiles; ++row) {
        mma_m16n8k16<Element>(d[row][2 * pair], left[row], right[0], right[1]);
        mma_m16n8k16<Element>(d[row][2 * pair + 1], left[row], right[2], right[3]);
      }
    }
  }
}

// d += A · B over the rows of tile `b`: A is an accumulator rounded to Element, its columns match b's rows.
template <int rowTiles, int depthTiles>
DEVICE void product_of_registers(float (&d)[rowTiles][headDim / 8][4], const float (&a)[rowTiles][depthTiles][4],
                                 const unsigned char *arena, int b) {
  int rightOffset = b_offset(b);
#pragma unroll
  for (int step = 0; step < depthTiles / 2; ++step) {
    u32 left[rowTiles][4];
#pragma unroll
    for (int row = 0; row < rowTiles; ++row)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        left[row][i] =
            pack<Element>(a[row][2 * step + (i >> 1)][2 * (i & 1)], a[row][2 * step + (i >> 1)][2 * (i & 1) + 1]);
#pragma unroll
    for (int pair = 0; pair < headDim / 16; ++pair) {
      u32 right[4];
      ldmatrix_x4_trans(right[0], right[1], right[2], right[3],
                        arena + step_offset(rightOffset, pair) + 16 * step * rowBytes);
#pragma unroll
      for (int row = 0; row < rowTiles; ++row) {
        mma_m16n8k16<Element>(d[row][2 * pair], left[row], right[0], right[1]);
        mma_m16n8k16<Element>(d[row][2 * pair + 1], left[row], right[2], right[3]);
      }
    }
  }
}

// What becomes of products before their exponentials. Without a bias scores stay products, and the scale is a factor of
// the exponent in base 2. With a bias they are scaled, and a shift is taken off before anything multiplies them: a mask
// of the lowest finite numbers would become infinite by a factor.

// The first of the bias's elements of one head.
DEVICE const float *bias_of(const AttentionArguments &arguments, int batch, int head) {
  return arguments.bias + batch * arguments.biasBatchStride + head * arguments.biasHeadStride;
}

// Scales products and adds the bias of their queries and keys. `row` and `column` are the thread's first ones; rows are
// queries, or keys if `transposed`. Beyond the last query and key nothing is read.
template <bool transposed, int rowTiles, int columnTiles>
DEVICE void add_bias(float (&scores)[rowTiles][columnTiles][4], const AttentionArguments &arguments, const float *bias,
                     int row, int column) {
#pragma unroll
  for (int tile = 0; tile < rowTiles * columnTiles; ++tile)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      int own = row + 16 * (tile / columnTiles) + 8 * (i >> 1);
      int other = column + 8 * (tile % columnTiles) + (i & 1);
      int query = transposed ? other : own;
      int key = transposed ? own : other;
      bool inside = query < arguments.queries && key < arguments.keys;
      float added = inside ? float_from_bits(load_4(bias + query * arguments.biasRowStride + key)) : 0.0f;
      float &score = scores[tile / columnTiles][tile % columnTiles][i];
      score = fma_f32(score, arguments.scale, added);
    }
}

// e to the power of a scaled score less its row's shift, which is one in base 2 where there is no bias.
DEVICE float shifted_exp(float score, float scaleLog2, float shift) {
  return fast_exp2(biased ? (score - shift) * log2OfE : fma_f32(score, scaleLog2, -shift));
}

// Rounds rowTiles * 16 rows of accumulators, scaled by `factor` of each row, and stores those below `rows`. The warp's
// own rows of `tile`, from tileRow on, carry them from fragment order to 16-byte rows; nobody else may be using them.
template <int rowTiles>
DEVICE void store_rows(const Matrix &to, int first, int rows, unsigned char *arena, int tile, int tileRow,
                       const float (&d)[rowTiles][headDim / 8][4], const float (&factor)[2 * rowTiles]) {
  int lane = lane_index();
#pragma unroll
  for (int row = 0; row < 2 * rowTiles; ++row)
#pragma unroll
    for (int column = 0; column < headDim / 8; ++column) {
      const float *pair = &d[row / 2][column][2 * (row & 1)];
      int offset = tile + chunk_offset(tileRow + 8 * row + lane / 4, column) + 4 * (lane & 3);
      store_4(arena + offset, pack<Element>(pair[0] * factor[row], pair[1] * factor[row]));
    }
  warp_barrier();
#pragma unroll
  for (int i = 0; i < rowTiles * 16 * chunks / 32; ++i) {
    int row = (lane + 32 * i) / chunks;
    int chunk = (lane + 32 * i) % chunks;
    if (first + tileRow + row < rows)
      store_16(to.data + (first + tileRow + row) * to.rowStride + chunk * 8,
               load_16(arena + tile + chunk_offset(tileRow + row, chunk)));
  }
}
