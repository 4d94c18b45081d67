// MachineLimits: what this machine can do at most, measured once and remembered. Reports give times as shares of these
// limits.
#pragma once
#include "runtime/error.h"
#include "runtime/plan.h"

namespace tcc::runtime {

/// What keeps an instruction from being faster.
struct Bound {
  enum class By : uint8_t { nothing, arithmetic, memory };
  double seconds = 0; ///< at least; 0 where nothing is known
  By by = By::nothing;
  const char *name() const; ///< "arithmetic"
};

/// The limits of a number of threads of this machine; a figure is 0 where it could not be measured.
struct MachineLimits {
  int threads = 0;
  double productFlops = 0;     ///< operations a second of f32 matmuls; taken for kernels' arithmetic as well
  double bf16ProductFlops = 0; ///< operations a second of bf16 matmuls, however this CPU computes them
  double bytesPerSecond = 0;   ///< read and written, for tensors that no cache holds

  /// Operations a second of f32 or bf16 matmuls.
  double product(DType dtype) const { return dtype == DType::f32 ? productFlops : bf16ProductFlops; }
  /// Whether bf16 products are worth their rounding: a tenth faster than f32's at least.
  bool gainsFromBf16() const { return bf16ProductFlops >= 1.1 * productFlops; }
  /// The least time that the instruction can take: the longer of its arithmetic's and its traffic's.
  Bound boundOf(const Instruction &instruction) const {
    return boundOf(instruction.flops, instruction.bytes, multiplied(instruction));
  }
  Bound boundOf(int64_t flops, int64_t bytes, DType type) const;
  bool operator==(const MachineLimits &) const = default;
};

/// "176.2 GFLOP/s".
std::string rateText(double flops);

/// What multiplies the products of a type that limits are measured by: Gemm::implementation(). Errors: the type has
/// none.
Expected<std::string> productImplementation(DType dtype, int threads);

/// Measures the limits; each figure takes about `seconds`.
MachineLimits measureMachineLimits(int threads, double seconds);

/// The remembered limits of `threads` threads (0: all), in $XDG_CACHE_HOME/tcc/limits, or ~/.cache/tcc/limits; measured
/// in about 0.5 s, and remembered where a file can be written, if there are none for this processor.
MachineLimits machineLimits(int threads);

/// Measures matmuls of `dtype` for about `seconds` and memory for half as long, and remembers the better of this and
/// what is remembered already: a machine that others use is slower than its limit, never faster.
MachineLimits improvedMachineLimits(int threads, DType dtype, double seconds);

/// One measurement of all figures: what it found, and the share of the time that the threads, or the machine itself
/// where it is a virtual one, waited for a CPU.
struct LimitsRound {
  MachineLimits limits;
  double waited = 0;
};

struct Calibration {
  MachineLimits limits; ///< the best of each figure
  /// Whether each figure was found twice, within a few percent of the best, while nobody else wanted the CPUs.
  bool isSure = false;
  double waited = 0;     ///< the least of the rounds' shares
  std::string path = {}; ///< where the limits are remembered; empty: nowhere
};

/// What rounds of measuring come to.
Calibration judgeRounds(const std::vector<LimitsRound> &rounds);

/// Measures all figures again and again until they are sure, up to `mostRounds` times and about `seconds` each time,
/// and remembers them: sure ones in place of older ones, others where they are better.
Calibration calibrateMachineLimits(int threads, double seconds = 1, size_t mostRounds = 10);

} // namespace tcc::runtime
