// What tcc.random_bits of a shape holds, from a Philox of the tests' own: what interpreter and emitters are held
// against.
#pragma once
#include "tests/ops/philox.h"
#include <vector>

namespace tcc::test {

/// The bits at (outer, row, column), as a signed number.
inline double randomElement(uint64_t seed, uint32_t stream, int64_t outer, int64_t row, int64_t column) {
  auto low = [](int64_t number) { return static_cast<uint32_t>(number); };
  PhiloxCounter words = philox4x32(
      {low(outer), low(row - row % 16 + row % 8), low(column - column % 16 + column % 8), low(int64_t(seed >> 32))},
      {low(int64_t(seed)), stream});
  int64_t word = (row % 16 < 8 ? 0 : 2) + (column % 16 < 8 ? 0 : 1);
  return static_cast<int32_t>(words[static_cast<size_t>(word)]);
}

/// All elements of [outer, rows, columns], row-major; the outer index starts at `first`.
inline std::vector<double> randomElements(uint64_t seed, uint32_t stream, int64_t outer, int64_t rows, int64_t columns,
                                          int64_t first = 0) {
  std::vector<double> bits;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c)
        bits.push_back(randomElement(seed, stream, first + o, r, c));
  return bits;
}

} // namespace tcc::test
