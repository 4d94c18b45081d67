// The texts of the shapes (KernelShape), one function a file.
#pragma once
#include "codegen/kernel_source.h"
#include <string>

namespace tcc::cuda {

std::string elementsText(const KernelSource &source); // elements, segments
std::string rowsText(const KernelSource &source);     // warpRows, blockRows, blockColumns
std::string columnsText(const KernelSource &source);  // columns

} // namespace tcc::cuda
