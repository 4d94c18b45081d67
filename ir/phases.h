// Phases: each phase states what may still be in the IR. After each pass the pipeline can check the phase that holds.
#pragma once
#include "ir/dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tcc {

enum class Phase : uint8_t { captured, joint, shaped, fused, planned };

/// The name by which -emit= and dumps call the phase: "captured", "joint", …
llvm::StringRef phaseName(Phase phase);
std::optional<Phase> parsePhase(llvm::StringRef name);

/// mlir::verify of a function of one block, in less time where many kernels look alike (KernelForms::verify).
mlir::LogicalResult verifyOps(mlir::func::FuncOp function);

/// Checks that `function` holds only what `phase` allows; emits an error at the first op that does not belong.
mlir::LogicalResult verifyPhase(mlir::func::FuncOp function, Phase phase);

} // namespace tcc
