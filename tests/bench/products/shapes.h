// The matmuls that products_bench measures.
#pragma once
#include "runtime/gemm.h"
#include <string>
#include <vector>

namespace tcc::bench {

struct Shape {
  std::string group;
  int64_t m, n, k;
  bool transposeA = false, transposeB = false;
  int count = 0; // in a step
  int64_t batch = 1;

  /// "4096 x 1152 x 384 nn"
  std::string text() const;
};

/// Those of the training steps of `char` (B16 T256) and `gpt2` (1024 tokens), odd and batched ones, and small ones for
/// a trial of the program.
std::vector<Shape> allShapes();

/// The matmul in which all operands are of this type and lie in memory one after another.
runtime::GemmDesc descOf(const Shape &shape, runtime::DType dtype);

} // namespace tcc::bench
