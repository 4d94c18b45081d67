// How many bytes tensors take in memory.
#pragma once
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/Support/MathExtras.h"

namespace tcc {

/// Bytes of an element in memory; an i1 takes one.
inline int64_t elementBytes(mlir::Type element) {
  return std::max<int64_t>(1, element.getIntOrFloatBitWidth() / 8);
}
/// Bytes of a dense tensor of static shape.
inline int64_t byteSize(mlir::RankedTensorType type) {
  return type.getNumElements() * elementBytes(type.getElementType());
}

/// Tensors that are packed into one value (tcc.all_to_all, tcc.unpack) begin at multiples of so many elements. So each
/// of f32 has the alignment that a tensor in memory of its own has, on any device.
inline constexpr int64_t packedElements = 64;

/// Where each of the tensors begins in such a value, in elements, and last where the last of them ends.
template <typename Types>
llvm::SmallVector<int64_t> packedPlaces(Types &&types) {
  llvm::SmallVector<int64_t> places;
  int64_t end = 0;
  for (mlir::Type type : types) {
    places.push_back(llvm::alignTo(end, packedElements));
    end = places.back() + mlir::cast<mlir::RankedTensorType>(type).getNumElements();
  }
  places.push_back(end);
  return places;
}

} // namespace tcc
