// Multiplies panels by AMX and writes the sums to C.
#pragma once
#include "runtime/tiles/panels.h"
#include <optional>

namespace tcc::runtime::tiles {

/// Sets up the thread's tile registers, each with 16 rows of 64 bytes, and releases them when its scope ends.
class Tiles {
public:
  TCC_TILES Tiles();
  TCC_TILES ~Tiles();
  Tiles(const Tiles &) = delete;
  Tiles &operator=(const Tiles &) = delete;
};

/// What the multiplications after this one read: multiply() asks the caches for it, a little at each step, so that
/// loads do not queue.
struct Ahead {
  const char *panel = nullptr; // into the second-level cache
  int64_t panelBytes = 0;
  const float *sums = nullptr; // a block's, dense, into the first-level cache; null: none
};

/// sums[32][32] (+)= left · right over `steps` tiles of depth; rows of sums are `stride` floats apart. If the operands
/// have three parts, the products that reach f32's precision are added: left's part i times right's part j if i + j
/// < 3. The panel of the side `kept` is read again at once, so it shall stay in the first-level cache.
void multiply(const char *left, const char *right, int64_t steps, int parts, Side kept, float *sums, int64_t stride,
              bool accumulate, const Ahead &ahead);

/// The same without tiles, from unpacked f32 operands to dense sums: the first 32 lines (or fewer, if there are fewer),
/// over `depth` elements.
void multiplyPlainly(const ProductOperand &left, const ProductOperand &right, int64_t depth, float *sums,
                     bool accumulate);

/// A bare loop of multiplications of tiles that stay in registers, `turns` times four. Gives the number of operations.
/// The tiles hold numbers from -1 to 1: a CPU that multiplies zeros draws less power, and so runs faster than it can
/// with the numbers of a matmul (by a quarter on Emerald Rapids).
double multiplyInRegisters(int64_t turns);

/// Where the sums of a block go. The pointers are those of the block's first element.
struct Results {
  void *c = nullptr;
  DType dtype = DType::f32;   // or bf16
  int64_t stride = 0;         // elements between rows
  const void *bias = nullptr; // one number for each column, from the block's first column on; null: no bias
  DType biasType = DType::f32;
  bool accumulate = false;
  bool streams =
      false; // whether full blocks are written past the caches; for a C of whole cache lines, larger than they
};

/// Prefetches the cache lines of C that finish() will write, unless it streams. A store that misses the caches would
/// delay all stores after it.
void fetch(const Results &results, int64_t rows, int64_t columns);

/// C = or += the first `rows` rows and `columns` columns of the dense sums[32][32], plus the bias.
void finish(const float *sums, int64_t rows, int64_t columns, const Results &results);

/// The same for two neighbours within rows of a C of 16 bits that streams: each row of the two is written at once, as
/// 128 bytes, which memory takes twice as fast as 64.
void finishPair(const float *first, const float *second, int64_t rows, const Results &results);

} // namespace tcc::runtime::tiles
