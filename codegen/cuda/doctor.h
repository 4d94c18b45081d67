// The GPUs' part of --doctor.
#pragma once
#include "llvm/Support/raw_ostream.h"

namespace tcc::cuda {

/// TargetKind::examine: each library with what it is for, each device with a self-test. What is missing is no fault:
/// the CPU works without it.
bool examineGpus(llvm::raw_ostream &os);

} // namespace tcc::cuda
