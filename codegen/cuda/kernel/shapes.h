// Writers of kernel text: each function, in the file of its name, writes the text of the shapes (KernelShape) that its
// comment lists.
#pragma once
#include "codegen/cuda/kernel/launch.h"
#include "codegen/kernel_source.h"
#include <string>

namespace tcc::cuda {

/// elements, segments
std::string elementsText(const FormKernel &source, KernelCalling calling);
/// warpRows, blockRows, warpColumns, blockColumns
std::string rowsText(const FormKernel &source, KernelCalling calling);
/// columns
std::string columnsText(const FormKernel &source, KernelCalling calling);
/// scatter
std::string scatterText(const FormKernel &source, KernelCalling calling);

} // namespace tcc::cuda
