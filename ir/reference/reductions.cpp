// Reductions over axes, which stay as size 1, and running sums and products.
#include "ir/reference/registry.h"
#include <algorithm>

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

double minimumOf(ArrayRef<double> values, Type element) {
  double least = isa<FloatType>(element) ? std::numeric_limits<double>::infinity()
                 : element.isInteger(32) ? std::ldexp(1.0, 31) - 1
                                         : std::ldexp(1.0, 63);
  for (double value : values)
    least = -largerOf(-least, -value);
  return least;
}

/// A sum or product of numbers of one type, which grows.
class Running {
public:
  Running(double start, Type element, RefMode mode)
      : value(start), element(element), narrow(mode == RefMode::rounding) {}
  void add(double x) { isFloat() ? set(value + x) : wrap(bits(value) + bits(x)); }
  void multiply(double x) { isFloat() ? set(value * x) : wrap(bits(value) * bits(x)); }
  double get() const { return value; }

private:
  double value;
  Type element;
  bool narrow;

  bool isFloat() const { return isa<FloatType>(element); }
  static uint64_t bits(double integer) { return static_cast<uint64_t>(static_cast<int64_t>(integer)); }
  void set(double next) { value = narrow ? static_cast<float>(next) : next; }
  void wrap(uint64_t next) { value = wrapInteger(next, element); }
};

/// For each line along `axis` the place of the element that `beats` all others, the first of several.
void placesOf(Call &call, int64_t axis, bool (*beats)(double x, double best)) {
  Shape shape;
  auto lines = groupsOf(call.in(0), {axis}, shape);
  RefTensor &result = call.addResult(shape);
  for (auto [place, line] : llvm::zip_equal(result.data, lines))
    for (size_t i = 1; i < line.size(); ++i)
      if (beats(line[i], line[static_cast<size_t>(place)]))
        place = static_cast<double>(i);
}

/// Each line along an axis by a stable sort of its places.
void sort(Call &call, SortOp op) {
  const RefTensor &x = call.in(0);
  const auto axis = static_cast<size_t>(op.getAxis());
  Shape lines(x.shape());
  const int64_t size = lines[axis];
  lines[axis] = 1;
  auto isBefore = [&](double one, double other) {
    return op.getDescending() ? one > other || (std::isnan(one) && !std::isnan(other))
                              : one < other || (std::isnan(other) && !std::isnan(one));
  };
  call.addResult(x.shape());
  call.addResult(x.shape());
  forEachIndex(lines, [&](ArrayRef<int64_t> line) {
    std::vector<int64_t> order(size), from(size);
    Shape at(line);
    for (int64_t i = 0; i < size; ++i) {
      at[axis] = order[i] = i;
      from[i] = offsetOf(x.shape(), at);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t one, int64_t other) { return isBefore(x.data[from[one]], x.data[from[other]]); });
    for (int64_t i = 0; i < size; ++i) {
      call.results[0].data[from[i]] = x.data[from[order[i]]];
      call.results[1].data[from[i]] = static_cast<double>(order[i]);
    }
  });
}

/// The running value of each line along `axis`, after each of its elements.
void running(Call &call, int64_t axis, double start, void (*step)(Running &, double)) {
  const RefTensor &x = call.in(0);
  RefTensor &result = call.addResult(x.shape());
  Shape shape(x.shape());
  shape[axis] = 1;
  std::vector<Running> lines(elementCount(shape), Running(start, x.element(), call.mode));
  int64_t next = 0;
  forEachIndex(x.shape(), [&](ArrayRef<int64_t> index) {
    Shape at(index);
    at[axis] = 0;
    Running &line = lines[offsetOf(shape, at)];
    step(line, x.data[next]);
    result.data[next++] = line.get();
  });
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
  add<ReduceMinOp>(registry, [](Call &call, ReduceMinOp op) {
    Shape shape;
    auto groups = groupsOf(call.in(0), op.getAxes(), shape);
    RefTensor &result = call.addResult(shape);
    for (auto [value, group] : llvm::zip_equal(result.data, groups))
      value = minimumOf(group, result.element());
  });
  add<ReduceProdOp>(registry, [](Call &call, ReduceProdOp op) {
    Shape shape;
    auto groups = groupsOf(call.in(0), op.getAxes(), shape);
    RefTensor &result = call.addResult(shape);
    for (auto [value, group] : llvm::zip_equal(result.data, groups)) {
      Running product(1, result.element(), call.mode);
      for (double factor : group)
        product.multiply(factor);
      value = product.get();
    }
  });
  add<ArgmaxOp>(registry, [](Call &call, ArgmaxOp op) {
    placesOf(call, op.getAxis(),
             [](double x, double best) { return x > best || (std::isnan(x) && !std::isnan(best)); });
  });
  add<ArgminOp>(registry, [](Call &call, ArgminOp op) {
    placesOf(call, op.getAxis(),
             [](double x, double best) { return x < best || (std::isnan(x) && !std::isnan(best)); });
  });
  add<CumsumOp>(registry, [](Call &call, CumsumOp op) {
    running(call, op.getAxis(), 0, [](Running &sum, double x) { sum.add(x); });
  });
  add<CumprodOp>(registry, [](Call &call, CumprodOp op) {
    running(call, op.getAxis(), 1, [](Running &product, double x) { product.multiply(x); });
  });
  add<SortOp>(registry, sort);
  add<ReduceMeanOp>(registry, [](Call &call, ReduceMeanOp op) {
    Shape shape;
    auto groups = groupsOf(call.in(0), op.getAxes(), shape);
    RefTensor &result = call.addResult(shape);
    for (auto [value, group] : llvm::zip_equal(result.data, groups))
      value = sumOf(group, call.mode) / static_cast<double>(group.size());
  });
}

} // namespace tcc::reference
