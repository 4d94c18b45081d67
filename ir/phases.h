// Phases: stated sets of what may still be in the IR. The pipeline checks the phase it has reached after each pass.
#pragma once
#include "ir/dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tcc {

enum class Phase : uint8_t { captured, joint, shaped, fused, planned };

/// "captured", "joint", … as -emit= and dumps spell them.
llvm::StringRef phaseName(Phase phase);
std::optional<Phase> parsePhase(llvm::StringRef name);

/// Checks that `function` holds only what `phase` allows; emits an error at the first op that does not belong.
mlir::LogicalResult verifyPhase(mlir::func::FuncOp function, Phase phase);

} // namespace tcc
