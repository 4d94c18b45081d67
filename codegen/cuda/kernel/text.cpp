#include "codegen/cuda/kernel/text.h"
#include "codegen/cuda/kernel/shapes.h"

namespace tcc::cuda {

static std::string functionText(const FormKernel &source, KernelCalling calling) {
  switch (divide(source.form).shape) {
  case KernelShape::elements:
  case KernelShape::segments:
    return elementsText(source, calling);
  case KernelShape::warpRows:
  case KernelShape::blockRows:
  case KernelShape::warpColumns:
  case KernelShape::blockColumns:
    return rowsText(source, calling);
  case KernelShape::columns:
    return columnsText(source, calling);
  case KernelShape::scatter:
    return scatterText(source, calling);
  }
  llvm_unreachable("a shape without text");
}

std::string kernelText(const FormKernel &source) {
  std::string text = source.alone ? functionText(source, KernelCalling::alone) : "";
  if (source.joined)
    text += (text.empty() ? "" : "\n") + functionText(source, KernelCalling::joined);
  return text;
}

} // namespace tcc::cuda
