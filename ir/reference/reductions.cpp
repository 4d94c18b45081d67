// Sums and maxima over axes, which stay as size 1.
#include "ir/reference/registry.h"

using namespace mlir;

namespace tcc::reference {
namespace {

/// For each result element the operand's elements that belong to it, in row-major order.
std::vector<std::vector<double>> groupsOf(const RefTensor &x, ArrayRef<int64_t> axes, Shape &shape) {
  shape.assign(x.shape().begin(), x.shape().end());
  for (int64_t axis : axes)
    shape[axis] = 1;
  std::vector<std::vector<double>> groups(elementCount(shape));
  int64_t next = 0;
  forEachIndex(x.shape(), [&](ArrayRef<int64_t> index) {
    Shape to(index);
    for (int64_t axis : axes)
      to[axis] = 0;
    groups[offsetOf(shape, to)].push_back(x.data[next++]);
  });
  return groups;
}

double sumOf(ArrayRef<double> values, RefMode mode) {
  Sum sum(mode, values.empty() ? 0.0 : -0.0); // -0 is what adding changes nothing to
  for (double value : values)
    sum.add(value);
  return sum.get();
}

double wrappedSumOf(ArrayRef<double> integers, Type element) {
  uint64_t sum = 0;
  for (double value : integers)
    sum += static_cast<uint64_t>(static_cast<int64_t>(value));
  return wrapInteger(sum, element);
}

double maximumOf(ArrayRef<double> values, Type element) {
  double largest = isa<FloatType>(element) ? -std::numeric_limits<double>::infinity()
                                           : -std::ldexp(1.0, element.getIntOrFloatBitWidth() - 1);
  for (double value : values)
    largest = largerOf(largest, value);
  return largest;
}

} // namespace

void addReductions(Registry &registry) {
  add<ReduceSumOp>(registry, [](Call &call, ReduceSumOp op) {
    Shape shape;
    auto groups = groupsOf(call.in(0), op.getAxes(), shape);
    RefTensor &result = call.addResult(shape);
    bool isInteger = isa<IntegerType>(result.element());
    for (auto [value, group] : llvm::zip_equal(result.data, groups))
      value = isInteger ? wrappedSumOf(group, result.element()) : sumOf(group, call.mode);
  });
  add<ReduceMaxOp>(registry, [](Call &call, ReduceMaxOp op) {
    Shape shape;
    auto groups = groupsOf(call.in(0), op.getAxes(), shape);
    RefTensor &result = call.addResult(shape);
    for (auto [value, group] : llvm::zip_equal(result.data, groups))
      value = maximumOf(group, result.element());
  });
  add<ReduceMeanOp>(registry, [](Call &call, ReduceMeanOp op) {
    Shape shape;
    auto groups = groupsOf(call.in(0), op.getAxes(), shape);
    RefTensor &result = call.addResult(shape);
    for (auto [value, group] : llvm::zip_equal(result.data, groups))
      value = sumOf(group, call.mode) / static_cast<double>(group.size());
  });
}

} // namespace tcc::reference
