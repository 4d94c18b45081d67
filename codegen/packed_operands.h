// Matmuls of a plan that multiply by the same B pack it once.
#pragma once
#include "runtime/plan.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <vector>

namespace tcc {

/// Gives matmuls with one description, and with one B that nothing writes in between, memory at the end of the arena
/// that holds B as the device packs it (MatmulCall::packed). `candidates` are numbers of instructions in order, all of
/// them matmuls; those that share run equally often: the first one in each turn of a loop packs. `packedBytes` is what
/// a matmul's packed B takes, 0 if it has none. Nothing is done for fewer than three matmuls, nor beyond a quarter of
/// the plan's bytes; who comes first in the plan is served first.
void keepPackedOperands(runtime::Plan &plan, const std::vector<size_t> &candidates,
                        llvm::function_ref<int64_t(const runtime::MatmulCall &)> packedBytes);

} // namespace tcc
