// What --doctor prints about GPUs.
#pragma once
#include "llvm/Support/raw_ostream.h"

namespace tcc::cuda {

/// TargetKind::examine for GPUs: prints each library and what it is for, and tests each device (self_test.h). What is
/// missing is no fault, since the CPU works without it.
bool examineGpus(llvm::raw_ostream &os);

} // namespace tcc::cuda
