// What AMX does with panels, and what becomes of the sums.
#pragma once
#include "runtime/tiles/panels.h"
#include <optional>

namespace tcc::runtime::tiles {

/// The thread's tiles, all of 16 rows of 64 bytes, for a scope.
class Tiles {
public:
  TCC_TILES Tiles();
  TCC_TILES ~Tiles();
  Tiles(const Tiles &) = delete;
  Tiles &operator=(const Tiles &) = delete;
};

/// sums[32][32] (+)= left · right over `steps` tiles of depth; rows of sums are `stride` floats apart. Of operands of
/// three parts those products are added that reach f32's precision: left's i with right's j where i + j < 3.
void multiply(const char *left, const char *right, int64_t steps, int parts, float *sums, int64_t stride,
              bool accumulate);

/// The same, sums dense, of f32 operands as they are: of the first 32 lines, or as many as there are, `depth` elements.
void multiplyPlainly(const ProductOperand &left, const ProductOperand &right, int64_t depth, float *sums,
                     bool accumulate);

/// Where sums of a block go: from C's element of the first of them on.
struct Results {
  void *c = nullptr;
  DType dtype = DType::f32;   // or bf16
  int64_t stride = 0;         // elements between rows
  const void *bias = nullptr; // of the first column on
  DType biasType = DType::f32;
  bool accumulate = false;
  bool streams = false; // past the caches, where a block has whole lines: C is larger than they are and starts with one
};

/// Asks for the lines of C that finish() writes, where it does not stream: a store that misses holds up those behind
/// it.
void fetch(const Results &results, int64_t rows, int64_t columns);

/// C = or += sums[32][32], dense, of which rows and columns are there, plus the bias.
void finish(const float *sums, int64_t rows, int64_t columns, const Results &results);

} // namespace tcc::runtime::tiles
