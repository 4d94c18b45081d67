// Which nodes of 16-bit floats need no rounding of their own, since all that becomes of them is rounded to the same
// type when it is stored. Rounding twice to one type is rounding once.
#pragma once
#include "ir/kernel.h"

namespace tcc::cuda {

/// For each node, whether its value may stand unrounded: all that read it are stores of its type, and selections of its
/// type that may stand unrounded themselves.
std::vector<bool> roundedWhenStored(const KernelInfo &form);

} // namespace tcc::cuda
