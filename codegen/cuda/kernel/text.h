// Kernel text from a kernel form: CUDA C++ over the device primitives (codegen/cuda/device), to follow deviceText().
#pragma once
#include "codegen/cuda/kernel/launch.h"
#include "codegen/kernel_source.h"

namespace tcc::cuda {

/// The kernel called source.symbol, with a head comment that says what was fused, from which lines, and how it is
/// divided. Parameters are pointers to the arguments and then the results; of KernelShape::segments the table (entries
/// of segmentEntryBytes) and, as int, the number of its entries. refusal(source.form) must be empty.
std::string kernelText(const KernelSource &source);

} // namespace tcc::cuda
