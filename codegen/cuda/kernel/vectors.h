// Which tensors a thread reads or writes at several columns at once. It takes columns in groups of `width` neighbours
// that start at multiples of `width`. Tensors start at multiples of 16 bytes, so an access is aligned if `width`
// divides the number of its first element.
#pragma once
#include "ir/kernel.h"

namespace tcc::cuda {

/// How many columns a group has: 8, 4 or 1 (no groups), such that an access to the kernel's narrowest tensor has 16
/// bytes. The width divides the number of columns, except that a segment may have any number of them. Where rows are
/// reduced it does not depend on where their elements lie in memory.
int vectorWidth(const KernelInfo &form);

/// Whether, in each group, the elements that the load reads lie side by side and its guards hold for all columns or
/// none.
bool loadsGroups(const KernelInfo &form, const KernelNode &node, int width);
/// The same for a store of elements.
bool storesGroups(const KernelInfo &form, const KernelStore &store, int width);

} // namespace tcc::cuda
