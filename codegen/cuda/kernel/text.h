// kernelText: makes the text of a kernel from its form, as CUDA C++ over the device primitives (codegen/cuda/device).
// The text must stand after deviceText().
#pragma once
#include "codegen/cuda/kernel/launch.h"
#include "codegen/kernel_source.h"

namespace tcc::cuda {

/// The kernel's functions, one for each way in which it is called (source.alone, source.joined). Each has a head
/// comment that says what was fused, from which lines, and how it is divided. The parameters of a call for one set of
/// tensors are pointers to the arguments and then to the results; for KernelShape::segments the number of elements
/// follows, as int. The parameter of a joined call is the table (launch.h); for KernelShape::segments the number of its
/// entries and the largest power of two below that (at least 1) follow, as int. refusal(source.form) must be empty.
///
/// What is approximated (ir/kernel_precision.h) follows what else the kernel computes. If `steady`, nothing is, so that
/// a value has the same bits in every kernel that computes it.
std::string kernelText(const FormKernel &source, bool steady = false);

} // namespace tcc::cuda
