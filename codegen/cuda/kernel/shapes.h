// The texts of the shapes (KernelShape), one function a file.
#pragma once
#include "codegen/cuda/kernel/launch.h"
#include "codegen/kernel_source.h"
#include <string>

namespace tcc::cuda {

std::string elementsText(const FormKernel &source, KernelCalling calling); // elements, segments
std::string rowsText(const FormKernel &source,
                     KernelCalling calling); // warpRows, blockRows, warpColumns, blockColumns
std::string columnsText(const FormKernel &source, KernelCalling calling); // columns
std::string scatterText(const FormKernel &source, KernelCalling calling); // scatter

} // namespace tcc::cuda
