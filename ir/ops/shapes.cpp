// Shape rules that several op families share.
#include "ir/ops/shapes.h"

using namespace mlir;

namespace tcc {

std::optional<SmallVector<int64_t>> resolveReshape(ArrayRef<int64_t> from, ArrayRef<int64_t> to,
                                                   ArrayRef<int64_t> actual) {
  SmallVector<int64_t> shape(to);
  size_t prefix = 0;
  while (prefix < from.size() && prefix < to.size() && from[prefix] == to[prefix])
    ++prefix;
  // The last `?` makes up the element count; those before it must stand in the common prefix.
  std::optional<size_t> last;
  for (size_t i = 0; i < to.size(); ++i)
    if (ShapedType::isDynamic(to[i])) {
      if (last && *last >= prefix)
        return std::nullopt;
      if (i < prefix)
        shape[i] = actual[i];
      last = i;
    }
  if (!last || llvm::any_of(actual, ShapedType::isDynamic))
    return shape; // known, or still unknown
  // Sizes that both have are left out: one of them may be 0.
  int64_t elements = 1, known = 1;
  for (size_t i = 0; i < actual.size(); ++i)
    elements *= i >= prefix || i == *last ? actual[i] : 1;
  for (size_t i = prefix; i < shape.size(); ++i)
    known *= i == *last ? 1 : shape[i];
  if (known == 0) // any size would do: the operand's own, if that is it
    return *last < prefix ? std::optional(shape) : std::nullopt;
  if (elements % known != 0)
    return std::nullopt;
  shape[*last] = elements / known;
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
