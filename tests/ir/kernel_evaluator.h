// Executes a KernelInfo as it stands: naive loops over the iteration space, node by node. It knows no region and no
// target, so equal results prove that the kernel form holds all that an emitter needs.
#pragma once
#include "ir/kernel.h"
#include "ir/reference/interpreter.h"

namespace tcc::test {

struct KernelRun {
  std::vector<RefTensor> results;
  std::string fault; // what is wrong with the form: an access outside of its tensor, a broken stage, a hole
};

/// The results of the kernel form for these arguments. Elementwise ops are run by the reference interpreter, one op at
/// a time on one vector of all points; everything else (indices, guards, reductions, stores) is done here.
KernelRun runKernelForm(const KernelInfo &info, llvm::ArrayRef<mlir::RankedTensorType> resultTypes,
                        llvm::ArrayRef<RefTensor> arguments, RefMode mode);

} // namespace tcc::test
