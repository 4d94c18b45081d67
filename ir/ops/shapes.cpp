// Shape rules that several op families share.
#include "ir/ops/shapes.h"

using namespace mlir;

namespace tcc {

std::optional<SmallVector<int64_t>> resolveReshape(ArrayRef<int64_t> from, ArrayRef<int64_t> to,
                                                   ArrayRef<int64_t> actual) {
  SmallVector<int64_t> shape(to);
  size_t prefix = 0;
  while (prefix < from.size() && prefix < to.size() && from[prefix] == to[prefix]) {
    shape[prefix] = actual[prefix];
    ++prefix;
  }
  int64_t unknown = -1, known = 1;
  for (size_t i = prefix; i < shape.size(); ++i) {
    if (!ShapedType::isDynamic(shape[i])) {
      known *= shape[i];
      continue;
    }
    if (unknown >= 0)
      return std::nullopt;
    unknown = i;
  }
  if (unknown < 0)
    return shape;
  int64_t elements = 1;
  for (size_t i = prefix; i < actual.size(); ++i) {
    if (ShapedType::isDynamic(actual[i]))
      return shape; // still unknown
    elements *= actual[i];
  }
  if (known == 0 || elements % known != 0)
    return std::nullopt;
  shape[unknown] = elements / known;
  return shape;
}

LogicalResult verifyLike(Operation *op, Value like, RankedTensorType result, StringRef label) {
  if (!like) {
    if (result.hasStaticShape())
      return success();
    return op->emitOpError() << "result " << typeText(result) << " has a '?' size, which needs 'like' (" << label
                             << ")";
  }
  RankedTensorType type = tensorType(like);
  bool fits = type.getRank() == result.getRank();
  for (int64_t i = 0; fits && i < type.getRank(); ++i)
    fits = sameSize(type.getDimSize(i), result.getDimSize(i));
  if (fits)
    return success();
  return op->emitOpError() << "'like' is " << typeText(type) << " and the result " << typeText(result)
                           << "; their sizes must agree (" << label << ")";
}

LogicalResult verifyFirst(Operation *op, Value first, RankedTensorType shape, StringRef label) {
  if (!first || shape.getRank() > 0)
    return success();
  return op->emitOpError() << "has `first` for a scalar; it counts along dim 0, which needs one (" << label << ")";
}

} // namespace tcc
