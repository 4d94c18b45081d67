// The least time that work can take within a machine's limits. This is a file of its own because measuring the limits
// needs the CPU's matmuls, and this does not.
#include "runtime/machine_limits.h"
#include <algorithm>

namespace tcc::runtime {

const char *Bound::name() const {
  static constexpr const char *names[] = {"nothing known", "arithmetic", "memory"};
  return names[static_cast<size_t>(by)];
}

Bound MachineLimits::boundOf(int64_t flops, int64_t bytes, DType type) const {
  const double peak = product(type);
  const double arithmetic = peak > 0 ? static_cast<double>(flops) / peak : 0;
  const double memory = bytesPerSecond > 0 ? static_cast<double>(bytes) / bytesPerSecond : 0;
  if (arithmetic == 0 && memory == 0)
    return {};
  return {std::max(arithmetic, memory), arithmetic > memory ? Bound::By::arithmetic : Bound::By::memory};
}

} // namespace tcc::runtime
