// Which tensors a thread reads and writes several columns at once. Columns are taken in groups of `width` side by side
// that start at multiples of it; tensors start at multiples of 16 bytes, so an access whose first element has a number
// that `width` divides is aligned.
#pragma once
#include "ir/kernel.h"

namespace tcc::cuda {

/// The columns of a group: 8, 4 or 1 (no groups), so that an access to the kernel's narrowest tensor has 16 bytes. A
/// segment may have any number of columns; in other kernels the width divides that number.
int vectorWidth(const KernelInfo &form);

/// Whether the load's elements lie side by side for the columns of each group, all of them there or none.
bool loadsGroups(const KernelInfo &form, const KernelNode &node, int width);
/// Likewise for a store of elements.
bool storesGroups(const KernelInfo &form, const KernelStore &store, int width);

} // namespace tcc::cuda
