// analyzeKernel: makes the kernel form of a region of ops. The fuser, the planner, codegen and the phase verifier all
// call this one function; a region is a legal kernel exactly when it succeeds.
#pragma once
#include "ir/dialect.h"
#include "ir/kernel.h"

namespace tcc {

/// What is analysed: `results` are the values that the kernel computes, `arguments` those that it is given. All ops
/// between them belong to its region.
struct KernelView {
  llvm::ArrayRef<mlir::Value> results;
  llvm::ArrayRef<mlir::Value> arguments;
};

/// The kernel's form. If the region has none, gives nothing, and `refusal` says what was expected. If `origins` is
/// given, it gets for each node the op that the node stands for, null for the load of an argument.
std::optional<KernelInfo> analyzeKernel(const KernelView &view, std::string &refusal,
                                        std::vector<mlir::Operation *> *origins = nullptr);
/// The same for a tcc.kernel. If `names` is given, it gets the names of the region's ops.
std::optional<KernelInfo> analyzeKernel(KernelOp kernel, std::string &refusal, KernelNames *names = nullptr);

/// The names of the region's ops. `origins` has for each node the op that it stands for, or null.
KernelNames kernelNames(KernelOp kernel, llvm::ArrayRef<mlir::Operation *> origins);

} // namespace tcc
