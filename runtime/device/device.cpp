#include "runtime/device/device.h"

namespace tcc::runtime {

Error Program::sendInputs(std::span<const ConstTensorRef>) {
  return Error("inputs are sent to a device that shares the host's memory; they are handed in place");
}

Expected<std::shared_ptr<StepOutputs>> Program::receiveOutputs(size_t) {
  return Error("outputs are received from a device that shares the host's memory; they are written in place");
}

const char *category(const Instruction &instruction) {
  struct Name {
    const char *operator()(const KernelCall &) const { return "kernel"; }
    const char *operator()(const LaunchCall &) const { return "kernel"; }
    const char *operator()(const MatmulCall &) const { return "matmul"; }
    const char *operator()(const CopyCall &) const { return "copy"; }
    const char *operator()(const FillCall &) const { return "fill"; }
    const char *operator()(const CustomCall &) const { return "custom"; }
    const char *operator()(const BranchCall &) const { return "branch"; }
    const char *operator()(const LoopCall &) const { return "loop"; }
  };
  return std::visit(Name(), instruction.call);
}

std::string firstSource(const Instruction &instruction) {
  if (instruction.sources.empty())
    return {};
  return instruction.sources[0].file + ":" + std::to_string(instruction.sources[0].line);
}

Error instructionError(size_t index, const Instruction &instruction, const std::string &problem) {
  return Error("instruction " + std::to_string(index) + " `" + instruction.label + "`: " + problem);
}

} // namespace tcc::runtime
