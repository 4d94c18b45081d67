// What the Hopper kernels share: tiles in panels, products of a warpgroup, and the way from accumulators to memory.
// Needs the Wgmma prelude, common.cuh, and the constants Element, headDim.
//
// A tile is headDim / 64 panels of [row][64 columns], 128 bytes a row, 128-byte swizzle, aligned to 1024 bytes.
// A warpgroup owns 64 rows: with g = lane / 4 and t = lane % 4, d[i] of a thread is row 16 · warp + g + 8 · ((i >> 1) & 1),
// column 8 · (i >> 2) + 2t + (i & 1). As an A operand the same registers are packed in pairs, without a shuffle.

constexpr int panels = headDim / 64;

// Bytes of a panel and of a tile of so many rows.
DEVICE constexpr int panel_bytes(int rows) { return rows * 128; }
DEVICE constexpr int tile_bytes(int rows) { return panels * panel_bytes(rows); }

// Loads rows [first, first + rows) of one head; `rows` is the map's box.
DEVICE void load_tile(unsigned char *tile, int rows, const TensorMap *map, Mbarrier *full, int first, int head,
                      int batch) {
  for (int panel = 0; panel < panels; ++panel)
    tma_load_4d(tile + panel * panel_bytes(rows), map, full, panel * 64, first, head, batch);
}

// This warp is done with what `empty` guards. No lane may still be waiting for the tile when the last arrival lets the
// barriers move on, nor reading it, hence the barrier.
DEVICE void give_back(Mbarrier *empty) {
  warp_barrier();
  if (lane_index() == 0)
    mbarrier_arrive(empty);
}

// The operand of a product over headDim: 64 rows of A, or all rows of B.
DEVICE u64 row_operand(const unsigned char *tile) { return wgmma_descriptor(tile, 16, 1024, swizzle_128); }
// The B operand of a product over the tile's rows.
DEVICE u64 column_operand(const unsigned char *tile, int rows) {
  return wgmma_descriptor(tile, panel_bytes(rows), 1024, swizzle_128);
}

// Issues d = A · Bᵀ over headDim; A lies in a tile of rowsA rows, B in one of rowsB.
template <int rowsA, int rowsB, int count>
DEVICE void issue_over_columns(float (&d)[count], u64 a, u64 b) {
#pragma unroll
  for (int step = 0; step < headDim / 16; ++step)
    wgmma_shared<Element>(d, wgmma_advance(a, step / 4 * panel_bytes(rowsA) + step % 4 * 32),
                          wgmma_advance(b, step / 4 * panel_bytes(rowsB) + step % 4 * 32), step > 0);
}
// Issues d += A · B over the rows of B's tile.
template <int steps>
DEVICE void issue_over_rows(float (&d)[headDim / 2], const u32 (&a)[steps][4], u64 b) {
#pragma unroll
  for (int step = 0; step < steps; ++step)
    wgmma_registers<Element, true>(d, a[step], wgmma_advance(b, step * 2048), true);
}

// An accumulator, rounded, as an A operand.
template <int count>
DEVICE void pack_operand(u32 (&a)[count / 8][4], const float (&d)[count]) {
#pragma unroll
  for (int i = 0; i < count / 2; ++i)
    a[i / 4][i & 3] = pack<Element>(d[2 * i], d[2 * i + 1]);
}

// Word j of lane t of a quad becomes word t of lane j.
DEVICE void transpose_quad(u32 (&word)[4]) {
#pragma unroll
  for (int bit = 1; bit <= 2; bit *= 2)
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if ((j & bit) == 0) {
        bool upper = (lane_index() & bit) != 0;
        u32 received = shuffle_xor(upper ? word[j] : word[j | bit], bit);
        word[j] = upper ? received : word[j];
        word[j | bit] = upper ? word[j | bit] : received;
      }
}

// Rounds and stores this thread's rows `own` and own + 8, scaled by factor[0] and factor[1], where below `rows`.
DEVICE void store_group_rows(const Matrix &to, int own, int rows, const float (&d)[headDim / 2],
                             const float (&factor)[2]) {
#pragma unroll
  for (int row = 0; row < 2; ++row)
#pragma unroll
    for (int block = 0; block < headDim / 32; ++block) {
      u32 word[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        int i = 4 * (4 * block + j) + 2 * row;
        word[j] = pack<Element>(d[i] * factor[row], d[i + 1] * factor[row]);
      }
      transpose_quad(word);
      Vec16 chunk = {{word[0], word[1], word[2], word[3]}};
      if (own + 8 * row < rows)
        store_16(to.data + (own + 8 * row) * to.rowStride + 32 * block + 8 * (lane_index() & 3), chunk);
    }
}

// Registers a thread after the hand-over; the sums are what the launch gave: 3 · 168, 4 · 128.
constexpr int producerRegisters = consumers == 2 ? 24 : 32;
constexpr int consumerRegisters = consumers == 2 ? 240 : 160;
