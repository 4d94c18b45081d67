// What all attention kernels share: small functions, one head's matrix, and the dropout mask. Needs the device prelude,
// arguments.cuh, and the constants Element, headDim, causal, windowed, biased.

constexpr float log2OfE = 1.44269504088896340736f;

DEVICE float infinity() { return float_from_bits(0x7f800000u); }

DEVICE int minimum(int a, int b) { return a < b ? a : b; }
DEVICE int maximum(int a, int b) { return a > b ? a : b; }
DEVICE int tiles_of(int count, int size) { return (count + size - 1) / size; }

// The keys that a query may see are [first_key, key_end); outside a causal kernel that is all of them.
DEVICE int first_key(const AttentionArguments &arguments, int query) {
  return windowed ? maximum(0, query + arguments.diagonal - arguments.window + 1) : 0;
}
DEVICE int key_end(const AttentionArguments &arguments, int query) {
  return causal ? maximum(0, minimum(arguments.keys, query + arguments.diagonal + 1)) : arguments.keys;
}

// Whether each of the queries [query, query + count) sees each of the keys [key, key + size); `inside` where the keys are
// known to exist.
DEVICE bool all_visible(const AttentionArguments &arguments, int query, int count, int key, int size,
                        bool inside = false) {
  bool all = inside || key + size <= arguments.keys;
  if (causal)
    all = all && key + size <= query + arguments.diagonal + 1;
  if (windowed)
    all = all && query + count - 1 + arguments.diagonal - arguments.window < key;
  return all;
}

// Tiles [first, end) of a walk.
struct Span {
  int first, end;
};
// Tiles of keys that some of the queries [query, query + count) sees; queries beyond the last see none.
DEVICE Span key_tiles(const AttentionArguments &arguments, int query, int count, int tileRows) {
  int last = minimum(query + count, arguments.queries) - 1;
  int first = first_key(arguments, query) / tileRows;
  int end = last < query ? 0 : tiles_of(key_end(arguments, last), tileRows);
  return {minimum(first, end), end};
}
// Tiles of queries that see some of the keys [key, key + count).
DEVICE Span query_tiles(const AttentionArguments &arguments, int key, int count, int tileRows) {
  int end = arguments.queries;
  if (windowed)
    end = minimum(end, maximum(0, key + count - 1 - arguments.diagonal + arguments.window));
  end = tiles_of(end, tileRows);
  int first = causal ? maximum(0, key - arguments.diagonal) / tileRows : 0;
  return {minimum(first, end), end};
}

// One head's matrix in global memory.
struct Matrix {
  Element *data;
  i64 rowStride;
};
DEVICE Matrix matrix_of(const AttentionView &view, int batch, int head) {
  return {static_cast<Element *>(view.data) + batch * view.batchStride + head * view.headStride, view.rowStride};
}

// Σ output · outputGradient of one row; the four lanes of a quad share it and all get it.
DEVICE float row_delta(const Matrix &output, const Matrix &gradient, int query, bool inside) {
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < headDim / 32; ++i) {
    int column = 8 * ((lane_index() & 3) + 4 * i);
    if (inside) {
      Vec16 left = load_16(output.data + query * output.rowStride + column);
      Vec16 right = load_16(gradient.data + query * gradient.rowStride + column);
#pragma unroll
      for (int word = 0; word < 4; ++word) {
        sum = fma_f32(unpack_low<Element>(left.word[word]), unpack_low<Element>(right.word[word]), sum);
        sum = fma_f32(unpack_high<Element>(left.word[word]), unpack_high<Element>(right.word[word]), sum);
      }
    }
  }
  return quad_reduce_sum(sum);
}

// --- Dropout: one Philox call serves queries {q, q + 8} × keys {k, k + 8}, q and k with bit 3 clear ----------------
struct DropoutMask {
  u32 batchHead, seedLow, seedHigh, stream, dropBelow;
};
DEVICE DropoutMask dropout_mask(const AttentionArguments &arguments, int batch, int head) {
  return {static_cast<u32>((arguments.first[0] + batch) * arguments.heads + head), arguments.seedLow[0],
          arguments.seedHigh[0], arguments.stream, arguments.dropBelow};
}
// Which elements of a row tile stay: bit 4 * tile + i for accumulator i of column tile `tile`. `row` and `column` are
// the thread's first ones; rows are queries, or keys if `transposed`. The loop stays a loop: unrolled, its calls would
// take the registers that the accumulators need.
template <int columnTiles, bool transposed>
DEVICE u32 kept_bits(const DropoutMask &mask, int row, int column) {
  static_assert(columnTiles <= 8, "a word has bits for eight column tiles");
  u32 bits = 0;
#pragma unroll 2
  for (int call = 0; call < columnTiles; ++call) {
    int pair = call >> 1;
    int odd = call & 1;
    int other = column + 16 * pair + odd;
    u32 words[4];
    philox(words, mask.batchHead, static_cast<u32>(transposed ? other : row), static_cast<u32>(transposed ? row : other),
           mask.seedHigh, mask.seedLow, mask.stream);
    u32 four = 0;
#pragma unroll
    for (int word = 0; word < 4; ++word) {
      // Word 2 * a + b is that of query + 8a, key + 8b: one of them is the next row, the other the next tile.
      int nextRow = transposed ? word & 1 : word >> 1;
      int nextTile = transposed ? word >> 1 : word & 1;
      four |= words[word] >= mask.dropBelow ? 1u << (4 * nextTile + 2 * nextRow) : 0u;
    }
    bits |= four << (8 * pair + odd);
  }
  return bits;
}
