// Says in words what a step's memory is for, in errors when there is not enough of it.
#pragma once
#include "runtime/plan.h"
#include <string>

namespace tcc::runtime {

/// "the step `train` plans 1.7 GB: arena 1.2 GB, states 0.5 GB, ...; the largest values: state `wte` 154 MB, ...". A
/// value of the arena has the label of the instruction that writes it first.
std::string describeMemory(const Plan &plan);

/// The buffers that an instruction writes, scratch included.
std::vector<BufferId> writtenBuffers(const Plan &plan, const Instruction &instruction);

} // namespace tcc::runtime
