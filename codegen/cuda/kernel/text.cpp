#include "codegen/cuda/kernel/text.h"
#include "codegen/cuda/kernel/shapes.h"

namespace tcc::cuda {

static std::string functionText(const FormKernel &source, KernelCalling calling, bool steady) {
  switch (divide(source.form).shape) {
  case KernelShape::elements:
  case KernelShape::segments:
    return elementsText(source, calling, steady);
  case KernelShape::warpRows:
  case KernelShape::blockRows:
  case KernelShape::warpColumns:
  case KernelShape::blockColumns:
    return rowsText(source, calling, steady);
  case KernelShape::columns:
    return columnsText(source, calling, steady);
  case KernelShape::scatter:
    return scatterText(source, calling, steady);
  }
  llvm_unreachable("a shape without text");
}

std::string kernelText(const FormKernel &source, bool steady) {
  std::string text = source.alone ? functionText(source, KernelCalling::alone, steady) : "";
  if (source.joined)
    text += (text.empty() ? "" : "\n") + functionText(source, KernelCalling::joined, steady);
  return text;
}

} // namespace tcc::cuda
