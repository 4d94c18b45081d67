// Integers by their low bits, floats rounded to nearest even.
#include "ir/reference/bytes.h"
#include "ir/tensor_bytes.h"
#include "llvm/ADT/APFloat.h"
#include <cstring>

using namespace mlir;

namespace tcc {
namespace {

/// The bits of `value` as an element; an integer's low ones.
uint64_t bitsOf(double value, Type element) {
  auto type = dyn_cast<FloatType>(element);
  if (!type)
    return element.isInteger(1) ? value != 0 : static_cast<uint64_t>(static_cast<int64_t>(value));
  llvm::APFloat number(value);
  bool lossy;
  number.convert(type.getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &lossy);
  return number.bitcastToAPInt().getZExtValue();
}

double valueOf(uint64_t bits, Type element) {
  auto type = dyn_cast<FloatType>(element);
  if (!type && element.isInteger(32))
    return static_cast<int32_t>(static_cast<uint32_t>(bits));
  if (!type)
    return static_cast<double>(static_cast<int64_t>(bits));
  llvm::APFloat value(type.getFloatSemantics(), llvm::APInt(type.getWidth(), bits));
  bool lossy;
  value.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &lossy);
  return value.convertToDouble();
}

} // namespace

void writeBytes(const RefTensor &tensor, void *to) {
  int64_t size = elementBytes(tensor.element());
  for (int64_t i = 0; i < tensor.size(); ++i) {
    uint64_t bits = bitsOf(tensor.data[i], tensor.element());
    std::memcpy(static_cast<char *>(to) + i * size, &bits, size);
  }
}

RefTensor readBytes(RankedTensorType type, const void *from) {
  RefTensor tensor{type, std::vector<double>(type.getNumElements())};
  int64_t size = elementBytes(type.getElementType());
  for (int64_t i = 0; i < tensor.size(); ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, static_cast<const char *>(from) + i * size, size);
    tensor.data[i] = valueOf(bits, type.getElementType());
  }
  return tensor;
}

} // namespace tcc
