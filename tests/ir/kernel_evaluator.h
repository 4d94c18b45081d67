// Executes a KernelInfo as it stands: naive loops over the iteration space, node by node. It knows no region and no
// target, so equal results prove that the kernel form holds all that an emitter needs.
#pragma once
#include "ir/analyze_kernel.h"
#include "ir/reference/interpreter.h"

namespace tcc::test {

struct KernelRun {
  std::vector<RefTensor> results;
  std::string fault; // what is wrong with the form: an access outside of its tensor, a broken stage, a hole
};

/// The results of the kernel form for these arguments, whose types must be the form's.
KernelRun runKernelForm(const KernelInfo &info, llvm::ArrayRef<mlir::RankedTensorType> resultTypes,
                        llvm::ArrayRef<RefTensor> arguments, RefMode mode);

} // namespace tcc::test
