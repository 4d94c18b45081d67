#include "ir/ops/dropout.h"
#include "mlir/IR/Matchers.h"
#include <cmath>

using namespace mlir;

namespace tcc {
namespace {

constexpr double two31 = 2147483648.0, two32 = 4294967296.0;

/// The number that every element of a literal is.
std::optional<double> splatOf(Value value) {
  DenseElementsAttr literal;
  if (!matchPattern(value, m_Constant(&literal)) || !literal.isSplat())
    return std::nullopt;
  Attribute element = literal.getSplatValue<Attribute>();
  if (auto number = dyn_cast<FloatAttr>(element))
    return number.getValueAsDouble();
  return static_cast<double>(cast<IntegerAttr>(element).getInt());
}

} // namespace

uint32_t dropThreshold(double rate) {
  return static_cast<uint32_t>(rate * two32);
}

double keepScale(double rate) {
  return 1 / (1 - dropThreshold(rate) / two32);
}

// Less 2^31, which turns the highest bit over, the bits are in unsigned order as signed numbers.
Value dropOut(Emit &b, Value x, const Dropout &dropout) {
  RankedTensorType type = tensorType(x);
  Value bits = b.create<RandomBitsOp>(withElement(type, b.i32()), dropout.seed, dropout.stream, dropout.first, Value());
  Value threshold = b.constant(dropThreshold(dropout.rate) - two31, tensorType(bits));
  Value kept = b.compare(Predicate::ge, b.add(bits, -two31), threshold);
  return b.select(kept, b.mul(x, keepScale(dropout.rate)), b.zeros(type));
}

std::optional<DroppedOut> matchDropOut(Value value) {
  auto select = value.getDefiningOp<SelectOp>();
  auto compare = select ? select.getCondition().getDefiningOp<CompareOp>() : CompareOp();
  auto scaled = select ? select.getOnTrue().getDefiningOp<MulOp>() : MulOp();
  if (!compare || !scaled || compare.getPredicate() != Predicate::ge || splatOf(select.getOnFalse()) != 0.0)
    return std::nullopt;
  auto turned = compare.getLhs().getDefiningOp<AddOp>();
  auto bits = turned ? turned.getLhs().getDefiningOp<RandomBitsOp>() : RandomBitsOp();
  std::optional<double> threshold = splatOf(compare.getRhs()), scale = splatOf(scaled.getRhs());
  if (!bits || !threshold || !scale || splatOf(turned.getRhs()) != -two31)
    return std::nullopt;
  double rate = (*threshold + two31) / two32;
  if (static_cast<float>(*scale) != static_cast<float>(keepScale(rate)))
    return std::nullopt;
  return DroppedOut{scaled.getLhs(), {rate, bits.getSeed(), bits.getStream(), bits.getFirst()}};
}

} // namespace tcc
