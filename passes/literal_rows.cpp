// Evaluates literal values. Coordinates are pulled through views down to the iota or constant that they index, so
// that nothing larger than a row is ever held.
#include "passes/literal_rows.h"
#include "ir/reference/interpreter.h"
#include "ir/scalar_form.h"
#include <cmath>

using namespace mlir;

namespace tcc {
namespace {

constexpr int64_t mostSteps = 4096; // of an evaluation: values that are shared are computed anew at each use

/// The steps of an op whose every one is exact; null for others.
const ScalarSteps *exactSteps(Operation *op) {
  auto elementwise = dyn_cast_or_null<ElementwiseOpInterface>(op);
  std::string refusal;
  const ScalarSteps *steps = elementwise ? ScalarForms::of(elementwise, refusal) : nullptr;
  return steps && steps->isExact() ? steps : nullptr;
}

/// Rounds to the element type; false where an integer is outside of what is exact or would wrap.
bool roundAll(std::vector<double> &values, Type element) {
  if (element.isInteger(1))
    return true;
  if (element.isInteger()) {
    double most = std::ldexp(1.0, element.isInteger(32) ? 31 : 53);
    return llvm::all_of(values, [&](double value) { return std::abs(value) < most; });
  }
  for (double &value : values)
    value = element.isF32() ? static_cast<float>(value) : roundToElement(value, element);
  return true;
}

double elementOf(ElementsAttr literal, int64_t index) {
  if (isa<FloatType>(literal.getElementType()))
    return literal.getValues<APFloat>()[index].convertToDouble();
  APInt number = literal.getValues<APInt>()[index];
  return number.getBitWidth() == 1 ? number.getZExtValue() : static_cast<double>(number.getSExtValue());
}

/// The row-major index of `coordinates` in `shape`.
RowNumbers linearIndex(ArrayRef<RowNumbers> coordinates, ArrayRef<int64_t> shape) {
  RowNumbers index{{0}, 0};
  for (auto [coordinate, size] : llvm::zip_equal(coordinates, shape)) {
    if (size == 1)
      continue;
    if (index.values.size() < coordinate.values.size())
      index.values.resize(coordinate.values.size(), index.values[0]);
    for (size_t i = 0; i < index.values.size(); ++i)
      index.values[i] = index.values[i] * static_cast<double>(size) + coordinate.at(i);
    index.varies |= coordinate.varies;
  }
  return index;
}

SmallVector<RowNumbers> coordinatesOf(const RowNumbers &index, ArrayRef<int64_t> shape) {
  SmallVector<RowNumbers> coordinates(shape.size());
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    coordinates[d] = index;
    for (double &value : coordinates[d].values)
      value = static_cast<double>(static_cast<int64_t>(value) / stride % shape[d]);
    if (shape[d] == 1)
      coordinates[d] = {{0}, 0};
    stride *= shape[d];
  }
  return coordinates;
}

SmallVector<int64_t> withoutOnes(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> sizes(shape);
  llvm::erase(sizes, 1);
  return sizes;
}

SmallVector<RowNumbers> reshaped(ArrayRef<RowNumbers> coordinates, ArrayRef<int64_t> shape, ArrayRef<int64_t> to) {
  if (withoutOnes(shape) != withoutOnes(to))
    return coordinatesOf(linearIndex(coordinates, shape), to);
  SmallVector<RowNumbers> result;
  size_t next = 0;
  for (int64_t size : to) {
    while (size != 1 && shape[next] == 1)
      ++next;
    result.push_back(size == 1 ? RowNumbers{{0}, 0} : coordinates[next++]);
  }
  return result;
}

} // namespace

bool LiteralRows::isLiteral(Value value) {
  SmallVector<Value> work = {value}; // post-order without recursion: chains can be long
  while (!work.empty()) {
    Value top = work.back();
    Operation *op = top.getDefiningOp();
    if (known.contains(top)) {
      work.pop_back();
      continue;
    }
    if (!isa_and_nonnull<ViewOpInterface, IotaOp, ConstantOp>(op) && !exactSteps(op)) {
      known[top] = false;
      continue;
    }
    size_t before = work.size();
    for (Value operand : op->getOperands())
      if (!known.contains(operand))
        work.push_back(operand);
    if (work.size() == before)
      known[top] = llvm::all_of(op->getOperands(), [&](Value operand) { return known.lookup(operand); });
  }
  return known.lookup(value);
}

std::optional<RowNumbers> LiteralRows::throughView(ViewOpInterface op, ArrayRef<RowNumbers> coordinates) {
  Value x = op->getOperand(0);
  ArrayRef<int64_t> from = tensorType(x).getShape(), to = tensorType(op->getResult(0)).getShape();
  std::optional<SmallVector<ViewedDim>> dims = op.viewedDims();
  if (!dims)
    return compute(x, reshaped(coordinates, to, from));
  SmallVector<RowNumbers> below;
  for (const ViewedDim &viewed : *dims) {
    if (viewed.inner)
      return std::nullopt;
    below.push_back(viewed.dim ? coordinates[*viewed.dim] : RowNumbers{{0}, 0});
    for (double &value : below.back().values)
      value = value * static_cast<double>(viewed.stride) + static_cast<double>(viewed.offset);
  }
  return compute(x, below);
}

std::optional<RowNumbers> LiteralRows::compute(Value value, ArrayRef<RowNumbers> coordinates) {
  if (++steps > mostSteps)
    return std::nullopt;
  Operation *op = value.getDefiningOp();
  RankedTensorType type = tensorType(value);
  RowNumbers result;
  if (auto iota = dyn_cast<IotaOp>(op)) {
    result = coordinates[iota.getDim()];
  } else if (auto literal = dyn_cast<ConstantOp>(op)) {
    bool splat = literal.getValue().isSplat();
    result = splat ? RowNumbers{{0}, 0} : linearIndex(coordinates, type.getShape());
    for (double &number : result.values)
      number = elementOf(literal.getValue(), static_cast<int64_t>(number));
    return result;
  } else if (auto view = dyn_cast<ViewOpInterface>(op)) {
    return throughView(view, coordinates);
  } else {
    SmallVector<RowNumbers, 3> operands;
    SmallVector<ArrayRef<double>, 3> numbers;
    for (Value operand : op->getOperands()) {
      std::optional<RowNumbers> row = compute(operand, coordinates);
      if (!row)
        return std::nullopt;
      result.varies |= row->varies;
      operands.push_back(std::move(*row));
    }
    for (const RowNumbers &row : operands)
      numbers.push_back(row.values);
    std::optional<std::vector<double>> values = exactSteps(op)->exactValues(numbers);
    if (!values)
      return std::nullopt;
    result.values = std::move(*values);
  }
  if (!roundAll(result.values, type.getElementType()))
    return std::nullopt;
  return result;
}

std::optional<RowNumbers> LiteralRows::evaluate(Value value, ArrayRef<RowNumbers> coordinates) {
  steps = 0;
  return compute(value, coordinates);
}

std::optional<double> LiteralRows::uniform(Value value) {
  if (!isLiteral(value))
    return std::nullopt;
  SmallVector<RowNumbers> coordinates;
  for (int64_t size : tensorType(value).getShape())
    coordinates.push_back({{0}, size == 1 ? 0u : static_cast<unsigned>(acrossColumns)});
  std::optional<RowNumbers> numbers = evaluate(value, coordinates);
  if (!numbers || numbers->varies)
    return std::nullopt;
  return numbers->values[0];
}

void LiteralRows::appendKey(Value value, std::vector<uint64_t> &key) {
  llvm::DenseMap<Value, uint64_t> numbers;
  SmallVector<Value> work = {value};
  while (!work.empty()) {
    Value top = work.back();
    Operation *op = top.getDefiningOp();
    size_t before = work.size();
    for (Value operand : op->getOperands())
      if (!numbers.contains(operand))
        work.push_back(operand);
    if (work.size() != before)
      continue;
    work.pop_back();
    if (!numbers.try_emplace(top, numbers.size()).second)
      continue;
    const void *parts[] = {op->getName().getAsOpaquePointer(), op->getAttrDictionary().getAsOpaquePointer(),
                           top.getType().getAsOpaquePointer()};
    for (const void *part : parts)
      key.push_back(reinterpret_cast<uintptr_t>(part));
    for (Value operand : op->getOperands())
      key.push_back(numbers.lookup(operand));
  }
}

//===- ranges: coordinates pulled through views in the same way --------------------------------------------------===//

namespace {

/// Rounded to the element type, which keeps order; nothing for NaN and for integers that LiteralRows refuses.
std::optional<NumberRange> rounded(const NumberRange &range, Type element) {
  std::vector<double> ends = {range.low, range.high};
  if (!roundAll(ends, element) || std::isnan(ends[0]) || std::isnan(ends[1]))
    return std::nullopt;
  return NumberRange{ends[0], ends[1]};
}

std::optional<NumberRange> splatOf(ElementsAttr literal) {
  if (!literal.isSplat())
    return std::nullopt;
  const double number = elementOf(literal, 0);
  return std::isnan(number) ? std::nullopt : std::optional(NumberRange::of(number));
}

/// The row-major index of `coordinates` in `shape`.
NumberRange linearRange(ArrayRef<NumberRange> coordinates, ArrayRef<int64_t> shape) {
  NumberRange index;
  for (auto [coordinate, size] : llvm::zip_equal(coordinates, shape))
    index = {index.low * double(size) + coordinate.low, index.high * double(size) + coordinate.high};
  return index;
}

SmallVector<NumberRange> coordinateRanges(const NumberRange &index, ArrayRef<int64_t> shape) {
  SmallVector<NumberRange> coordinates(shape.size());
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    coordinates[d] = digitOf(index, stride, shape[d]);
    stride *= shape[d];
  }
  return coordinates;
}

/// Each coordinate of a reshape's operand that differs from the result's by dims of size 1 alone; empty for others.
SmallVector<NumberRange> besideOnes(ArrayRef<NumberRange> coordinates, ArrayRef<int64_t> shape, ArrayRef<int64_t> to) {
  SmallVector<NumberRange> result;
  size_t next = 0;
  for (int64_t size : to) {
    while (size != 1 && next < shape.size() && shape[next] == 1)
      ++next;
    if (size != 1 && (next == shape.size() || shape[next] != size))
      return {};
    result.push_back(size == 1 ? NumberRange() : coordinates[next++]);
  }
  return result;
}

} // namespace

NumberRange digitOf(const NumberRange &index, int64_t divisor, int64_t size) {
  const int64_t low = static_cast<int64_t>(index.low) / divisor, high = static_cast<int64_t>(index.high) / divisor;
  if (low / size != high / size)
    return {0, static_cast<double>(size - 1)};
  return {static_cast<double>(low % size), static_cast<double>(high % size)};
}

std::optional<NumberRange> LiteralBounds::throughView(ViewOpInterface op, ArrayRef<NumberRange> coordinates) {
  Value x = op->getOperand(0);
  ArrayRef<int64_t> from = tensorType(x).getShape(), to = tensorType(op->getResult(0)).getShape();
  SmallVector<NumberRange> below;
  if (std::optional<SmallVector<ViewedDim>> dims = op.viewedDims()) {
    for (const ViewedDim &viewed : *dims) {
      if (viewed.inner)
        return std::nullopt;
      const NumberRange range = viewed.dim ? coordinates[*viewed.dim] : NumberRange();
      const double a = range.low * double(viewed.stride) + double(viewed.offset),
                   b = range.high * double(viewed.stride) + double(viewed.offset);
      below.push_back({std::min(a, b), std::max(a, b)});
    }
  } else {
    below = besideOnes(coordinates, to, from);
    if (below.size() != from.size())
      below = coordinateRanges(linearRange(coordinates, to), from);
  }
  return compute(x, below);
}

std::optional<NumberRange> LiteralBounds::compute(Value value, ArrayRef<NumberRange> coordinates) {
  if (++steps > mostSteps)
    return std::nullopt;
  Operation *op = value.getDefiningOp();
  if (auto literal = dyn_cast<ConstantOp>(op))
    return splatOf(literal.getValue());
  std::optional<NumberRange> result;
  if (auto iota = dyn_cast<IotaOp>(op)) {
    result = coordinates[iota.getDim()];
  } else if (auto view = dyn_cast<ViewOpInterface>(op)) {
    return throughView(view, coordinates);
  } else {
    std::string refusal;
    const ScalarSteps *scalar = ScalarForms::of(cast<ElementwiseOpInterface>(op), refusal);
    SmallVector<std::optional<NumberRange>, 3> operands;
    for (Value operand : op->getOperands())
      operands.push_back(compute(operand, coordinates));
    result = boundsOf(*scalar, operands);
  }
  return result ? rounded(*result, tensorType(value).getElementType()) : std::nullopt;
}

std::optional<NumberRange> LiteralBounds::evaluate(Value value, ArrayRef<NumberRange> coordinates) {
  steps = 0;
  return compute(value, coordinates);
}

} // namespace tcc
