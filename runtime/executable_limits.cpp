#include "runtime/executable_limits.h"
#include "runtime/device/limits.h"

namespace tcc::runtime {

MachineLimits limitsOf(const Executable &executable) {
  if (executable.device()->sharesHostMemory())
    return machineLimits(executable.threads());
  DType products = DType::f32;
  for (const Instruction &instruction : executable.plan().instructions)
    if (wordsOf(instruction).part == StepPart::products) {
      products = multiplied(instruction);
      break;
    }
  return measureLimits(executable.device(), products);
}

} // namespace tcc::runtime
