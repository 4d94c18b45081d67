// What --doctor prints about GPUs.
#pragma once
#include "llvm/Support/raw_ostream.h"

namespace tcc::cuda {

/// TargetKind::examine for GPUs: prints each library and its purpose, and tests each device (self_test.h). A library
/// that is missing does not count as wrong, since the CPU works without it.
bool examineGpus(llvm::raw_ostream &os);

} // namespace tcc::cuda
