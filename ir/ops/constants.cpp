// Folding of splat literals.
#include "ir/ops/constants.h"
#include "ir/emit.h"

using namespace mlir;

namespace tcc {
namespace {

std::optional<APFloat> splatFloat(Attribute attr) {
  auto splat = dyn_cast_or_null<SplatElementsAttr>(attr);
  if (!splat || !isa<FloatType>(splat.getElementType()))
    return std::nullopt;
  return splat.getSplatValue<APFloat>();
}

SplatElementsAttr makeSplat(RankedTensorType type, double value) {
  auto element = cast<FloatType>(type.getElementType());
  APFloat number(value);
  bool lossy = false;
  number.convert(element.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lossy);
  return cast<SplatElementsAttr>(DenseElementsAttr::get(type, number));
}

} // namespace

bool isSplat(Attribute attr, double value) {
  std::optional<APFloat> number = splatFloat(attr);
  if (!number)
    return false;
  APFloat expected(value);
  bool lossy = false;
  expected.convert(number->getSemantics(), APFloat::rmNearestTiesToEven, &lossy);
  return number->bitwiseIsEqual(expected);
}

bool isSplatInteger(Attribute attr, int64_t value) {
  auto splat = dyn_cast_or_null<SplatElementsAttr>(attr);
  if (!splat || !isa<IntegerType>(splat.getElementType()))
    return false;
  APInt number = splat.getSplatValue<APInt>();
  return number.getBitWidth() == 1 ? number.getZExtValue() == static_cast<uint64_t>(value)
                                   : number.getSExtValue() == value;
}

OpFoldResult foldBinary(Attribute lhs, Attribute rhs, llvm::function_ref<double(double, double)> apply) {
  std::optional<APFloat> a = splatFloat(lhs), b = splatFloat(rhs);
  if (!a || !b)
    return {};
  return makeSplat(cast<RankedTensorType>(cast<ElementsAttr>(lhs).getType()),
                   apply(a->convertToDouble(), b->convertToDouble()));
}

OpFoldResult foldCast(Attribute x, RankedTensorType type) {
  std::optional<APFloat> number = splatFloat(x);
  if (!number || !isa<FloatType>(type.getElementType()) || !type.hasStaticShape())
    return {};
  return makeSplat(type, number->convertToDouble());
}

OpFoldResult foldSplatView(Attribute x, RankedTensorType type) {
  auto splat = dyn_cast_or_null<SplatElementsAttr>(x);
  if (!splat || !type.hasStaticShape())
    return {};
  return DenseElementsAttr::get(type, splat.getSplatValue<Attribute>());
}

} // namespace tcc
