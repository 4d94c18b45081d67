// Causal attention forward, head dimension 64, bf16: out = softmax(q · kᵀ · scale) · v and the rows' log-sum-exp in base 2.
// Grid (rows / 64 rounded up, heads), 128 threads; 64 keys a step, two stages of cp.async.
constexpr int headDim = 64, tileBytes = 64 * headDim * 2;

DEVICE int tile_offset(int row, int chunk) { return row * 128 + (chunk ^ (row & 7)) * 16; }

DEVICE void load_tile(unsigned char *tile, const bf16 *rows, int first, int count) {
  for (int i = thread_x(); i < 512; i += 128) {
    int row = i / 8, chunk = i % 8;
    bool valid = first + row < count;
    copy_async_16(tile + tile_offset(row, chunk), rows + (valid ? (first + row) * headDim + chunk * 8 : 0), valid);
  }
}

KERNEL(flash, 128, 1)(const bf16 *RESTRICT q, const bf16 *RESTRICT k, const bf16 *RESTRICT v, bf16 *RESTRICT out,
                      float *RESTRICT logSumExp, int rows, float scale) {
  DYNAMIC_SHARED(arena, 128);
  unsigned char *tileQ = arena, *tilesK = arena + tileBytes, *tilesV = arena + 3 * tileBytes;
  int lane = lane_index(), warp = warp_index(), group = lane / 4, quad = lane % 4;
  int first = block_x() * 64, steps = block_x() + 1;
  i64 head = block_y() * i64(rows) * headDim;
  load_tile(tileQ, q + head, first, rows);
  load_tile(tilesK, k + head, 0, rows);
  load_tile(tilesV, v + head, 0, rows);
  copy_async_commit();
  u32 fragmentQ[4][4];
  float o[8][4] = {}, maximum[2] = {-1e30f, -1e30f}, sum[2] = {};
  float scale2 = scale * 1.4426950408889634f;
  for (int step = 0; step < steps; ++step) {
    if (step + 1 < steps) {
      load_tile(tilesK + (step + 1) % 2 * tileBytes, k + head, (step + 1) * 64, rows);
      load_tile(tilesV + (step + 1) % 2 * tileBytes, v + head, (step + 1) * 64, rows);
    }
    copy_async_commit();
    copy_async_wait<1>();
    block_barrier(); // everybody's copies have landed
    if (step == 0)
#pragma unroll
      for (int part = 0; part < 4; ++part)
        ldmatrix_x4(fragmentQ[part][0], fragmentQ[part][1], fragmentQ[part][2], fragmentQ[part][3],
                    tileQ + tile_offset(warp * 16 + lane % 16, part * 2 + lane / 16));
    const unsigned char *tileK = tilesK + step % 2 * tileBytes, *tileV = tilesV + step % 2 * tileBytes;
    float s[8][4] = {};
#pragma unroll
    for (int part = 0; part < 4; ++part)
#pragma unroll
      for (int pair = 0; pair < 4; ++pair) {
        u32 b00, b01, b10, b11;
        ldmatrix_x4(b00, b01, b10, b11,
                    tileK + tile_offset(pair * 16 + lane / 16 * 8 + lane % 8, part * 2 + lane / 8 % 2));
        mma_m16n8k16<bf16>(s[2 * pair], fragmentQ[part], b00, b01);
        mma_m16n8k16<bf16>(s[2 * pair + 1], fragmentQ[part], b10, b11);
      }
    u32 p[4][4];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      int row = first + warp * 16 + group + half * 8;
      float largest = maximum[half];
#pragma unroll
      for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          float &score = s[i][2 * half + j];
          score = step * 64 + i * 8 + quad * 2 + j <= row ? score * scale2 : -1e30f;
          largest = max_f32(largest, score);
        }
      largest = quad_reduce_max(largest);
      float correction = fast_exp2(maximum[half] - largest), part = 0.0f;
      maximum[half] = largest;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        float low = fast_exp2(s[i][2 * half] - largest), high = fast_exp2(s[i][2 * half + 1] - largest);
        part += low + high;
        p[i / 2][i % 2 * 2 + half] = pack<bf16>(low, high);
        o[i][2 * half] *= correction;
        o[i][2 * half + 1] *= correction;
      }
      sum[half] = sum[half] * correction + part;
    }
#pragma unroll
    for (int part = 0; part < 4; ++part)
#pragma unroll
      for (int pair = 0; pair < 4; ++pair) {
        u32 b00, b01, b10, b11;
        ldmatrix_x4_trans(b00, b01, b10, b11, tileV + tile_offset(part * 16 + lane % 16, pair * 2 + lane / 16));
        mma_m16n8k16<bf16>(o[2 * pair], p[part], b00, b01);
        mma_m16n8k16<bf16>(o[2 * pair + 1], p[part], b10, b11);
      }
    block_barrier(); // the stage may be filled again
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    int row = first + warp * 16 + group + half * 8;
    float total = quad_reduce_sum(sum[half]);
    if (row >= rows)
      continue;
    float inverse = divide_f32(1.0f, total);
    for (int i = 0; i < 8; ++i)
      store_4(out + head + row * headDim + i * 8 + quad * 2,
              pack<bf16>(o[i][2 * half] * inverse, o[i][2 * half + 1] * inverse));
    if (quad == 0)
      logSumExp[block_y() * i64(rows) + row] = maximum[half] + log_f32(total) * 1.4426950408889634f;
  }
}
