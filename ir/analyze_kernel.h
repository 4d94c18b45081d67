// analyzeKernel: from a region of ops to its kernel form. The fuser, the planner, codegen and the phase verifier call
// this one function; a region is a legal kernel exactly when it succeeds.
#pragma once
#include "ir/dialect.h"
#include "ir/kernel.h"

namespace tcc {

/// What is analysed: the values that the kernel computes, and the values that it is given. All ops between them belong
/// to its region.
struct KernelView {
  llvm::ArrayRef<mlir::Value> results;
  llvm::ArrayRef<mlir::Value> arguments;
};

/// The kernel's form; or nothing, and `refusal` says what was expected. `origins` (where given) takes for each node the
/// op that it stands for, null for an argument's load.
std::optional<KernelInfo> analyzeKernel(const KernelView &view, std::string &refusal,
                                        std::vector<mlir::Operation *> *origins = nullptr);
/// The same for a tcc.kernel. If `names` is given, it gets the names of the region's ops.
std::optional<KernelInfo> analyzeKernel(KernelOp kernel, std::string &refusal, KernelNames *names = nullptr);

/// The names of the region's ops. `origins` has for each node the op that it stands for, or null.
KernelNames kernelNames(KernelOp kernel, llvm::ArrayRef<mlir::Operation *> origins);

} // namespace tcc
