// Matmuls of few rows by one instruction set; included after vector_code.h. B is read once, where it lies, since
// packing it would cost as much as multiplying it.

/// Computes the sums of `rows` rows and `vectors` vectors of columns, where the columns of B lie side by side. `from`
/// is the first of these columns at depth 0.
template <typename T, int64_t rows, int64_t vectors>
TCC_VECTOR_CODE void multiplyAlongColumns(const float *left, const FewRows &few, const T *from, float *sums) {
  constexpr int64_t rowsAhead = 8;
  Vector sum[rows][vectors];
#pragma GCC unroll 8
  for (int64_t i = 0; i < rows; ++i)
#pragma GCC unroll 16
    for (int64_t j = 0; j < vectors; ++j)
      sum[i][j] = Vector{};
  for (int64_t k = 0; k < few.right.depth; ++k, ++left, from += few.right.depthStride) {
#pragma GCC unroll 16
    for (int64_t j = 0; j < vectors; ++j) {
      if (j * lanes * static_cast<int64_t>(sizeof(T)) % 64 == 0)
        __builtin_prefetch(from + rowsAhead * few.right.depthStride + j * lanes);
      const Vector x = load(from + j * lanes);
#pragma GCC unroll 8
      for (int64_t i = 0; i < rows; ++i)
        sum[i][j] = multiplyAdd(broadcast(left + i * few.leftStride), x, sum[i][j]);
    }
  }
#pragma GCC unroll 8
  for (int64_t i = 0; i < rows; ++i)
#pragma GCC unroll 16
    for (int64_t j = 0; j < vectors; ++j)
      store(sums + i * fewColumns + j * lanes, sum[i][j]);
}

/// Computes the sums of `rows` rows and `columns` columns, where each column of B is contiguous in depth. The lanes of
/// a vector hold neighbouring depths.
template <typename T, int64_t rows, int64_t columns>
TCC_VECTOR_CODE void multiplyAlongDepth(const float *left, const FewRows &few, const T *from, float *sums) {
  Vector sum[rows][columns];
#pragma GCC unroll 8
  for (int64_t i = 0; i < rows; ++i)
#pragma GCC unroll 8
    for (int64_t j = 0; j < columns; ++j)
      sum[i][j] = Vector{};
  int64_t k = 0;
  for (; k + lanes <= few.right.depth; k += lanes) {
    Vector x[columns];
#pragma GCC unroll 8
    for (int64_t j = 0; j < columns; ++j)
      x[j] = load(from + j * few.right.lineStride + k);
#pragma GCC unroll 8
    for (int64_t i = 0; i < rows; ++i) {
      const Vector y = load(left + i * few.leftStride + k);
#pragma GCC unroll 8
      for (int64_t j = 0; j < columns; ++j)
        sum[i][j] = multiplyAdd(y, x[j], sum[i][j]);
    }
  }
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      float last = 0;
      for (int64_t rest = k; rest < few.right.depth; ++rest)
        last += left[i * few.leftStride + rest] * widenOne(from[j * few.right.lineStride + rest]);
      for (int64_t lane = 0; lane < lanes; ++lane)
        last += sum[i][j][lane];
      sums[i * fewColumns + j] = last;
    }
}

/// How many vectors of columns are multiplied at once for `rows` rows, so that their sums and operands fit the
/// registers.
constexpr int64_t vectorsOf(int64_t rows) {
  const int64_t of16 = rows == 1 ? 8 : rows == 2 ? 4 : rows <= 4 ? 3 : 2;
  return std::min<int64_t>(8, of16 * registers / 16);
}

/// Rows that are multiplied at once.
constexpr int64_t rowsOfFew = std::min<int64_t>(blockRows, mostFewRows);

/// Computes rows [firstRow, firstRow + rows) and `columns` columns from `column` on, at most fewColumns.
template <typename T, int64_t rows>
TCC_VECTOR_CODE void sumFew(const FewRows &few, int64_t firstRow, int64_t column, int64_t columns, float *sums) {
  const float *left = few.left + firstRow * few.leftStride;
  const T *right = static_cast<const T *>(few.right.data) + column * few.right.lineStride;
  int64_t j = 0;
  if (few.right.depthStride == 1) {
    constexpr int64_t most = rows <= 2 ? 4 : 2;
    for (; j + most <= columns; j += most)
      multiplyAlongDepth<T, rows, most>(left, few, right + j * few.right.lineStride, sums + j);
    for (; j < columns; ++j)
      multiplyAlongDepth<T, rows, 1>(left, few, right + j * few.right.lineStride, sums + j);
    return;
  }
  constexpr int64_t most = vectorsOf(rows);
  for (; j + most * lanes <= columns; j += most * lanes)
    multiplyAlongColumns<T, rows, most>(left, few, right + j, sums + j);
  for (; j + lanes <= columns; j += lanes)
    multiplyAlongColumns<T, rows, 1>(left, few, right + j, sums + j);
  if (j < columns && column + columns >= lanes) { // the last columns, in one vector with some of the columns before
    float last[rowsOfFew * fewColumns];
    multiplyAlongColumns<T, rows, 1>(left, few, right + columns - lanes, last);
    for (int64_t i = 0; i < rows; ++i)
      std::copy_n(last + i * fewColumns + lanes - (columns - j), columns - j, sums + i * fewColumns + j);
    return;
  }
  for (; j < columns; ++j)
    for (int64_t i = 0; i < rows; ++i) {
      float sum = 0;
      for (int64_t k = 0; k < few.right.depth; ++k)
        sum += left[i * few.leftStride + k] * widenOne(right[k * few.right.depthStride + j]);
      sums[i * fewColumns + j] = sum;
    }
}

template <typename T>
void sumFewOf(const FewRows &few, int64_t firstRow, int64_t rows, int64_t column, int64_t columns, float *sums) {
  static constexpr auto ofRows = []<int64_t... i>(std::integer_sequence<int64_t, i...>) {
    return std::array{sumFew<T, i + 1>...};
  }(std::make_integer_sequence<int64_t, rowsOfFew>());
  ofRows[static_cast<size_t>(rows - 1)](few, firstRow, column, columns, sums);
}

void multiplyFew(const FewRows &few) {
  alignas(64) float sums[rowsOfFew * fewColumns];
  const Results &results = few.results;
  for (int64_t column = 0; column < few.right.lines; column += fewColumns) {
    const int64_t columns = std::min(fewColumns, few.right.lines - column);
    for (int64_t row = 0; row < few.rows; row += rowsOfFew) {
      const int64_t rows = std::min(rowsOfFew, few.rows - row);
      byType(few.right.dtype, [&](auto number) { sumFewOf<decltype(number)>(few, row, rows, column, columns, sums); });
      for (int64_t i = 0; results.bias && i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j)
          sums[i * fewColumns + j] += results.bias[column + j];
      byType(results.dtype, [&](auto number) {
        auto *c = static_cast<decltype(number) *>(results.c) + row * results.stride + column;
        finish(sums, fewColumns, rows, columns, c, results);
      });
    }
  }
}

template <typename T>
TCC_VECTOR_CODE void widenLines(const ProductOperand &operand, float *to) {
  for (int64_t line = 0; line < operand.lines; ++line) {
    const T *from = static_cast<const T *>(operand.data) + line * operand.lineStride;
    int64_t k = 0;
    for (; operand.depthStride == 1 && k + lanes <= operand.depth; k += lanes, to += lanes)
      store(to, load(from + k));
    for (; k < operand.depth; ++k)
      *to++ = widenOne(from[k * operand.depthStride]);
  }
}

void widen(const ProductOperand &operand, float *to) {
  byType(operand.dtype, [&](auto number) { widenLines<decltype(number)>(operand, to); });
}
