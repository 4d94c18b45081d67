#include "runtime/executable_limits.h"
#include "runtime/device/limits.h"

namespace tcc::runtime {

MachineLimits limitsOf(const Executable &executable) {
  if (executable.device()->sharesHostMemory())
    return machineLimits(executable.threads());
  DType products = DType::f32;
  bool tf32 = false;
  for (const Instruction &instruction : executable.plan().instructions)
    if (wordsOf(instruction).part == StepPart::products) {
      products = multiplied(instruction);
      const auto *matmul = std::get_if<MatmulCall>(&instruction.call);
      tf32 = matmul && matmul->desc.tf32;
      break;
    }
  return measureLimits(executable.device(), products, tf32);
}

} // namespace tcc::runtime
