// NVIDIA GPUs as a kind of target.
#pragma once
#include "codegen/target_kind.h"

namespace tcc::cuda {

const TargetKind &kind();

} // namespace tcc::cuda
