// The CPU's part of --doctor.
#pragma once
#include "llvm/Support/raw_ostream.h"

namespace tcc::cpu {

/// TargetKind::examine.
bool examineCpu(llvm::raw_ostream &os);

} // namespace tcc::cpu
