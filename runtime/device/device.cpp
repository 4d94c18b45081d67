#include "runtime/device/device.h"
#include "runtime/profiler.h"

namespace tcc::runtime {

Error Program::sendInputs(std::span<const ConstTensorRef>) {
  return Error("inputs are sent to a device that shares the host's memory; they are handed in place");
}

Expected<std::shared_ptr<StepOutputs>> Program::receiveOutputs(size_t) {
  return Error("outputs are received from a device that shares the host's memory; they are written in place");
}

Error Device::waitFor(void *) {
  return Error(name() + " has no streams");
}

Error Device::holdBack(void *) {
  return Error(name() + " has no streams");
}

std::string firstSource(const Instruction &instruction) {
  if (instruction.sources.empty())
    return {};
  return instruction.sources[0].file + ":" + std::to_string(instruction.sources[0].line);
}

Error instructionError(size_t index, const Instruction &instruction, const std::string &problem) {
  return Error("instruction " + std::to_string(index) + " `" + instruction.label + "`: " + problem);
}

void recordInstruction(Profiler &profiler, const Instruction &instruction, int64_t start, int64_t duration) {
  profiler.record({instruction.label, std::string(wordsOf(instruction).category), start, duration, instruction.flops,
                   instruction.bytes, firstSource(instruction), partOf(instruction), multiplied(instruction)});
}

} // namespace tcc::runtime
