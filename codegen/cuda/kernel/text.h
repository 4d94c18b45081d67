// Kernel text from a kernel form: CUDA C++ over the device primitives (codegen/cuda/device), to follow deviceText().
#pragma once
#include "codegen/cuda/kernel/launch.h"
#include "codegen/kernel_source.h"

namespace tcc::cuda {

/// The kernel's functions, one for each way in which it is called (source.alone, source.joined), each with a head
/// comment that says what was fused, from which lines, and how it is divided. Parameters of a call for one set of
/// tensors are pointers to the arguments and then the results, of KernelShape::segments then the number of elements as
/// int. Of a joined call they are the table (launch.h) and, of KernelShape::segments, the number of its entries and the
/// largest power of two below that (at least 1), as int. refusal(source.form) must be empty.
std::string kernelText(const FormKernel &source);

} // namespace tcc::cuda
