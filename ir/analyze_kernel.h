// analyzeKernel: from a region of ops to its kernel form. The fuser, the planner, codegen and the phase verifier call
// this one function; a region is a legal kernel exactly when it succeeds.
#pragma once
#include "ir/dialect.h"
#include "ir/kernel.h"

namespace tcc {

/// What is analysed: the values to be computed, and those that are given; everything between belongs to the region.
struct KernelView {
  llvm::ArrayRef<mlir::Value> results;
  llvm::ArrayRef<mlir::Value> arguments;
};

/// The kernel's form, or nothing and in `refusal` what was expected.
std::optional<KernelInfo> analyzeKernel(const KernelView &view, std::string &refusal);
/// Likewise; `names` (where given) takes what the region's ops are called.
std::optional<KernelInfo> analyzeKernel(KernelOp kernel, std::string &refusal, KernelNames *names = nullptr);

/// What the region's ops are called; `origins` has for each node the op that it stands for, or null.
KernelNames kernelNames(KernelOp kernel, llvm::ArrayRef<mlir::Operation *> origins);

} // namespace tcc
