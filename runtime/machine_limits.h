// MachineLimits: what this machine can do at most, measured once and remembered. Reports give times as shares of these
// limits.
#pragma once
#include "runtime/error.h"
#include "runtime/plan.h"

namespace tcc::runtime {

/// What keeps an instruction from being faster.
struct Bound {
  enum class By : uint8_t { nothing, arithmetic, memory };
  double seconds = 0; ///< the least time; 0 if nothing is known
  By by = By::nothing;
  const char *name() const; ///< "arithmetic"
};

/// The limits of a number of threads of this machine; a figure is 0 where it could not be measured.
struct MachineLimits {
  int threads = 0;
  double productFlops = 0;     ///< operations a second of f32 matmuls; taken for kernels' arithmetic as well
  double bf16ProductFlops = 0; ///< operations a second of bf16 matmuls, however this CPU computes them
  double bytesPerSecond = 0;   ///< bytes read and written a second, of tensors that no cache holds

  /// Operations a second of f32 or bf16 matmuls.
  double product(DType dtype) const { return dtype == DType::f32 ? productFlops : bf16ProductFlops; }
  /// Whether bf16 matmuls are worth their rounding, that is, at least a tenth faster than those of f32.
  bool gainsFromBf16() const { return bf16ProductFlops >= 1.1 * productFlops; }
  /// The least time that the instruction can take: that of its arithmetic or that of its memory traffic, whichever is
  /// longer.
  Bound boundOf(const Instruction &instruction) const {
    return boundOf(instruction.flops, instruction.bytes, multiplied(instruction));
  }
  Bound boundOf(int64_t flops, int64_t bytes, DType type) const;
  bool operator==(const MachineLimits &) const = default;
};

/// "176.2 GFLOP/s".
std::string rateText(double flops);

/// Gemm::implementation() of the matmuls of this type by which limits are measured. Errors: the type has no matmul.
Expected<std::string> productImplementation(DType dtype, int threads);

/// Operations a second of a bare loop of multiply-adds, in registers alone and on all threads at once: what no matmul
/// of `dtype` can exceed on this CPU. Takes about `seconds`.
double measureBareLoop(DType dtype, int threads, double seconds);

/// Measures the limits; each figure takes about `seconds`.
MachineLimits measureMachineLimits(int threads, double seconds);

/// The limits of `threads` threads (0: all) that $XDG_CACHE_HOME/tcc/limits, or ~/.cache/tcc/limits, remembers. If
/// there are none for this processor, they are measured in about 0.5 s, and remembered if the file can be written.
MachineLimits machineLimits(int threads);

/// Measures matmuls of `dtype` for about `seconds` and memory for half as long. For each figure it
/// remembers the better one of the new and the remembered, since a machine that others use is slower than its limit and
/// never faster.
MachineLimits improvedMachineLimits(int threads, DType dtype, double seconds);

/// One measurement of all figures: what it found, and the share of its time that was spent waiting for a CPU, by the
/// threads or by a virtual machine as a whole.
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

/// The result of several rounds of measuring.
Calibration judgeRounds(const std::vector<LimitsRound> &rounds);

/// Measures all figures until they are sure, at most `mostRounds` times and for about `seconds` each time, and
/// remembers them. Figures that are sure replace the remembered ones; others replace only those that are worse.
Calibration calibrateMachineLimits(int threads, double seconds = 1, size_t mostRounds = 10);

} // namespace tcc::runtime
