// Sources: NVIDIA's data sheets of A100 SXM 80 GB, H100 SXM and HGX B200, and its architecture papers of GeForce RTX
// 3090, 4090 and 5090. Rates of 16 bits are those without sparsity, with sums in f32.
#include "codegen/cuda/stated_limits.h"

namespace tcc::cuda {
namespace {

struct Stated {
  llvm::StringLiteral number, machine;
  double f32, bf16, bytes; // TFLOP/s, TFLOP/s, TB/s
};
constexpr Stated table[] = {
    {"80", "A100 SXM 80 GB", 19.5, 312, 2.039},     {"86", "GeForce RTX 3090", 35.6, 71, 0.936},
    {"89", "GeForce RTX 4090", 82.6, 165.2, 1.008}, {"90", "H100 SXM", 66.9, 989.4, 3.35},
    {"100", "B200 of an HGX", 75, 2250, 7.7},       {"120", "GeForce RTX 5090", 104.8, 209.5, 1.792},
};

} // namespace

StatedLimits statedLimitsOf(llvm::StringRef architecture) {
  llvm::StringRef number = architecture.rsplit('_').second;
  number.consume_back("a");
  for (const Stated &row : table)
    if (row.number == number)
      return {row.machine.str(), {0, row.f32 * 1e12, row.bf16 * 1e12, row.bytes * 1e12}};
  return {};
}

} // namespace tcc::cuda
