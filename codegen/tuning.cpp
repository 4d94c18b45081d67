#include "codegen/tuning.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>

namespace tcc {

std::string TuningReport::text() const {
  if (!whyNot.empty())
    return "nothing is tuned: " + whyNot;
  std::string text;
  const auto add = [&](const std::string &part) { text += (text.empty() ? "" : "; ") + part; };
  int64_t faster = 0, keptFaster = 0;
  double least = 0, most = 0;
  for (const TunedKernel &each : tuned) {
    if (each.gain == 0) {
      ++keptFaster;
      continue;
    }
    least = faster++ == 0 ? each.gain : std::min(least, each.gain);
    most = std::max(most, each.gain);
  }
  if (measured > 0)
    add(llvm::formatv("measured {0} kernels in {1:f1} s", measured, seconds).str() +
        (faster == 0 ? ", none is faster than by default"
         : faster == 1
             ? llvm::formatv(", one is {0:f2} times as fast as by default", most).str()
             : llvm::formatv(", {0} are {1:f2} to {2:f2} times as fast as by default", faster, least, most).str()));
  if (kept > 0)
    add(llvm::formatv("choices for {0} kernels were known, {1} of them other than the default", kept, keptFaster)
            .str());
  if (left > 0)
    add(llvm::formatv("no time was left for {0} kernels", left).str());
  if (!notKept.empty())
    add("the choices are not kept: " + notKept);
  return text;
}

} // namespace tcc
