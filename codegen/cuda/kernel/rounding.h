// roundedWhenStored: which nodes of 16-bit floats need no rounding of their own, since all their users round to the
// same type when they store. Rounding twice to one type is the same as rounding once.
#pragma once
#include "ir/kernel.h"

namespace tcc::cuda {

/// For each node, whether its value may stay unrounded. It may if everything that reads it is a store of its type, or a
/// selection of its type that may stay unrounded itself.
std::vector<bool> roundedWhenStored(const KernelInfo &form);

} // namespace tcc::cuda
