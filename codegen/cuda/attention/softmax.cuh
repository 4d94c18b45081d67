// What the Hopper forward kernels do between the two products: masking, the online softmax, dropout, and the rows' end.
// Needs warpgroup.cuh, work.cuh and the constants causal, windowed, dropout, blockKeys.

// The items of a launch over blocks of so many queries.
DEVICE WorkList forward_work(const AttentionArguments &arguments, int blockQueries) {
  return work_list(tiles_of(arguments.queries, blockQueries), arguments.heads, arguments.batch, arguments.group,
                   static_cast<i64>(4 * headDim) * arguments.keys);
}

// A consumer's place: its first query and this thread's first row.
struct QueryRows {
  int groupQuery, ownQuery;
};
DEVICE QueryRows query_rows(int groupQuery) {
  return {groupQuery, groupQuery + 16 * (warp_index() & 3) + lane_index() / 4};
}

// Scores of keys that a row may not see become -inf; `firstKey` is the tile's first.
DEVICE void mask_scores(float (&scores)[blockKeys / 2], const AttentionArguments &arguments, const QueryRows &rows,
                        int firstKey) {
  if (!all_visible(arguments, rows.groupQuery, 64, firstKey, blockKeys)) {
#pragma unroll
    for (int i = 0; i < blockKeys / 2; ++i) {
      int query = rows.ownQuery + 8 * (i >> 1 & 1);
      int key = firstKey + 8 * (i >> 2) + 2 * (lane_index() & 3) + (i & 1);
      if (key >= key_end(arguments, query) || key < first_key(arguments, query))
        scores[i] = -infinity();
    }
  }
}

// Scores become exponentials relative to each row's maximum so far; what was summed before must be multiplied by
// `shrink`.
DEVICE void softmax_tile(float (&scores)[blockKeys / 2], float (&rowMax)[2], float (&rowSum)[2], float (&shrink)[2],
                         float scaleLog2) {
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    float highest = rowMax[row];
#pragma unroll
    for (int i = 0; i < blockKeys / 4; ++i)
      highest = max_f32(highest, scores[4 * (i / 2) + 2 * row + (i & 1)]);
    highest = quad_reduce_max(highest);
    // A row that has seen no key yet is shifted by 0, so that its exponentials are 0 and not NaN.
    float shift = highest == -infinity() ? 0.0f : highest * scaleLog2;
    shrink[row] = fast_exp2(fma_f32(rowMax[row], scaleLog2, -shift));
    rowMax[row] = highest;
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < blockKeys / 4; ++i) {
      float &score = scores[4 * (i / 2) + 2 * row + (i & 1)];
      score = fast_exp2(fma_f32(score, scaleLog2, -shift));
      sum += score;
    }
    rowSum[row] = fma_f32(rowSum[row], shrink[row], sum);
  }
}

// The row sums keep what is dropped: dropout comes after the softmax.
DEVICE void drop_scores(float (&scores)[blockKeys / 2], const DropoutMask &mask, const QueryRows &rows, int firstKey) {
#pragma unroll
  for (int half = 0; half < blockKeys / 64; ++half) {
    u32 kept = kept_bits<8, false>(mask, rows.ownQuery, firstKey + 64 * half + 2 * (lane_index() & 3));
#pragma unroll
    for (int i = 0; i < 32; ++i)
      if ((kept >> i & 1u) == 0)
        scores[32 * half + i] = 0.0f;
  }
}

DEVICE void rescale(float (&output)[headDim / 2], const float (&shrink)[2]) {
#pragma unroll
  for (int i = 0; i < headDim / 2; ++i)
    output[i] *= shrink[i >> 1 & 1];
}

// Divides by the row sums and stores the rows and their log-sum-exp.
DEVICE void store_output(const AttentionArguments &arguments, int batch, int head, int ownQuery,
                         const float (&output)[headDim / 2], const float (&rowMax)[2], const float (&rowSum)[2]) {
  float factor[2];
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    float sum = quad_reduce_sum(rowSum[row]);
    factor[row] = sum > 0.0f ? divide_f32(arguments.keepScale, sum) : sum;
    int query = ownQuery + 8 * row;
    if ((lane_index() & 3) == 0 && query < arguments.queries) {
      float logSumExp = sum == 0.0f ? -infinity() : fma_f32(rowMax[row], arguments.scale, log_f32(sum));
      arguments.logSumExp[(static_cast<i64>(batch) * arguments.heads + head) * arguments.queries + query] = logSumExp;
    }
  }
  store_group_rows(matrix_of(arguments.output, batch, head), ownQuery, arguments.queries, output, factor);
}
