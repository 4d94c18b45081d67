#include "codegen/cuda/kernel/text.h"
#include "codegen/cuda/kernel/shapes.h"

namespace tcc::cuda {

std::string kernelText(const KernelSource &source) {
  switch (divide(source.form).shape) {
  case KernelShape::elements:
  case KernelShape::segments:
    return elementsText(source);
  case KernelShape::warpRows:
  case KernelShape::blockRows:
  case KernelShape::blockColumns:
    return rowsText(source);
  case KernelShape::columns:
    return columnsText(source);
  }
  llvm_unreachable("a shape without text");
}

} // namespace tcc::cuda
