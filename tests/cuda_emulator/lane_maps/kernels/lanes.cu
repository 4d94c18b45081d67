// Which lane holds what: one warp dumps the maps of ldmatrix and mma.m16n8k16, for comparison with tables/.
// A slot is a 16-bit register half: (lane · registers + register) · 2 + half; a slot of d is lane · 4 + register.

// ldmatrix over four matrices whose element (m, row, column) is 64 m + 8 row + column: out[lane · 4 + register] of x4, from
// word 128 on of x4.trans, from 256 on out[lane · 2 + register] of x2, from 320 on of x2.trans.
KERNEL(ldmatrix_lanes, 32, 1)(u32 *out) {
  SHARED(Vec16, rows, 32);
  int lane = lane_index();
  Vec16 row;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    u32 low = lane * 8 + 2 * i;
    row.word[i] = low | (low + 1) << 16;
  }
  store_16(&rows[lane], row);
  warp_barrier();
  u32 r[4];
  ldmatrix_x4(r[0], r[1], r[2], r[3], &rows[lane]);
#pragma unroll
  for (int i = 0; i < 4; ++i)
    out[lane * 4 + i] = r[i];
  ldmatrix_x4_trans(r[0], r[1], r[2], r[3], &rows[lane]);
#pragma unroll
  for (int i = 0; i < 4; ++i)
    out[128 + lane * 4 + i] = r[i];
  ldmatrix_x2(r[0], r[1], &rows[lane % 16]);
  out[256 + lane * 2] = r[0];
  out[256 + lane * 2 + 1] = r[1];
  ldmatrix_x2_trans(r[0], r[1], &rows[lane % 16]);
  out[320 + lane * 2] = r[0];
  out[320 + lane * 2 + 1] = r[1];
}

// One-hot products: out[a slot · 128 + b slot] is 0 where the two do not meet, else 1 + the slot of d that shows 1.
KERNEL(mma_lanes, 32, 1)(u32 *out, int half) {
  int lane = lane_index();
  u32 one = half ? pack_f16(1.0f, 0.0f) : pack_bf16(1.0f, 0.0f);
  for (int slotA = 0; slotA < 256; ++slotA)
    for (int slotB = 0; slotB < 128; ++slotB) {
      u32 a[4], b[2];
      float d[4] = {};
#pragma unroll
      for (int i = 0; i < 4; ++i)
        a[i] = lane == slotA / 8 && i == slotA / 2 % 4 ? one << 16 * (slotA % 2) : 0;
#pragma unroll
      for (int i = 0; i < 2; ++i)
        b[i] = lane == slotB / 4 && i == slotB / 2 % 2 ? one << 16 * (slotB % 2) : 0;
      if (half)
        mma_m16n8k16_f16(d, a, b[0], b[1]);
      else
        mma_m16n8k16_bf16(d, a, b[0], b[1]);
      int hits = 0;
      u32 slot = 0;
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (d[i] != 0.0f) {
          slot = 1 + lane * 4 + i;
          ++hits;
        }
      u32 lanes = vote_ballot(hits != 0);
      // Two hits would be a slot that no table holds.
      if (popcount(lanes) > 1 || hits > 1)
        slot = 1000;
      if (slot)
        out[slotA * 128 + slotB] = slot;
      else if (lanes == 0 && lane == 0)
        out[slotA * 128 + slotB] = 0;
    }
}
