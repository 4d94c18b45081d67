// Writers of kernel text: each function, in the file of its name, writes the text of the shapes (KernelShape) that its
// comment lists. `steady` is kernelText()'s.
#pragma once
#include "codegen/cuda/kernel/launch.h"
#include "codegen/kernel_source.h"
#include <string>

namespace tcc::cuda {

/// elements, segments
std::string elementsText(const FormKernel &source, KernelCalling calling, bool steady);
/// warpRows, blockRows, warpColumns, blockColumns
std::string rowsText(const FormKernel &source, KernelCalling calling, bool steady);
/// columns
std::string columnsText(const FormKernel &source, KernelCalling calling, bool steady);
/// scatter
std::string scatterText(const FormKernel &source, KernelCalling calling, bool steady);

} // namespace tcc::cuda
