#include "runtime/profiler.h"
#include <chrono>

namespace tcc::runtime {
int64_t Profiler::now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

} // namespace tcc::runtime
