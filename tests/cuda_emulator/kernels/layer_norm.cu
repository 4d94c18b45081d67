// out[row] = (in[row] − mean) / sqrt(variance + 1e-5), float rows of `columns`; a block a row, 128 threads.
KERNEL(layer_norm, 128, 1)(const float *RESTRICT in, bf16 *RESTRICT out, int columns) {
  SHARED(float, scratch, 32);
  const float *row = in + block_x() * i64(columns);
  float sum = 0.0f, squares = 0.0f;
  for (int i = thread_x(); i < columns; i += 128)
    sum += row[i];
  float mean = divide_f32(block_reduce_sum(sum, scratch), static_cast<float>(columns));
  for (int i = thread_x(); i < columns; i += 128)
    squares += (row[i] - mean) * (row[i] - mean);
  float variance = divide_f32(block_reduce_sum(squares, scratch), static_cast<float>(columns));
  float scale = divide_f32(1.0f, sqrt_f32(variance + 1e-5f));
  for (int i = thread_x(); i < columns; i += 128)
    out[block_x() * i64(columns) + i] = to_bf16((row[i] - mean) * scale);
}
