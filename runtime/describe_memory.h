// What a step's memory is for, in words: for errors when there is not enough.
#pragma once
#include "runtime/plan.h"
#include <string>

namespace tcc::runtime {

/// "the step `train` plans 1.7 GB: arena 1.2 GB, states 0.5 GB, ...; the largest values: state `wte` 154 MB, ..." with
/// values of the arena under the label of the instruction that writes them first.
std::string describeMemory(const Plan &plan);

/// The buffers that an instruction writes, scratch included.
std::vector<BufferId> writtenBuffers(const Plan &plan, const Instruction &instruction);

} // namespace tcc::runtime
