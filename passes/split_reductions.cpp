// split-reductions: gives every reduction a form that a kernel can have.
//   1. a reduction over no element becomes the literal that it is: 0, 1, or the least value for a maximum;
//   2. reduced axes that are not neighbours become two reductions;
//   3. a reduction over leading or middle axes of many rows becomes partial sums [S, …] and a sum of those, S from the
//      shape alone, so that the first part can join the kernel that produces the rows;
//   4. a reduction of very long rows, few of them, becomes two in the same way;
//   5. a sum with no suitable divisor is padded with zeros to parts of equal size.
// An accumulator takes the terms of a part one after the other, and its error grows with their number: parts are short
// whatever divides the sum. It keeps the meaning; the order of additions is a function of the shape, never of the
// thread count.
#include "ir/emit.h"
#include "passes/passes.h"
#include "passes/pipeline.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace tcc {
namespace {

// Set by accuracy, whatever the target.
constexpr int64_t mostRows = 1024;               // rows of a part of a column sum; where they are more,
constexpr int64_t rowsOfPart = 256;              // rows of a part of a very long one, at most
constexpr int64_t endlessRow = int64_t(1) << 18; // elements above which rows are cut, however many there are

int64_t largestDivisor(int64_t number, int64_t limit) {
  for (int64_t divisor = std::min(number, limit); divisor > 1; --divisor)
    if (number % divisor == 0)
      return divisor;
  return 1;
}

/// Elements of a part of the whole tensor: trailing dims and a divisor of the next one, so that parts are runs of rows.
int64_t partSize(ArrayRef<int64_t> shape, int64_t longest) {
  int64_t size = 1;
  for (int64_t dim : llvm::reverse(shape)) {
    int64_t share = largestDivisor(dim, longest / size);
    size *= share;
    if (share != dim)
      break;
  }
  return size;
}

/// Partial sums of a column reduction: leading reduced dims and a divisor of the next one, so that parts are runs of
/// whole rows.
int64_t partCount(ArrayRef<int64_t> shape, ArrayRef<int64_t> axes, int64_t most) {
  int64_t parts = 1;
  for (int64_t axis : axes) {
    int64_t share = largestDivisor(shape[axis], most / parts);
    parts *= share;
    if (share != shape[axis])
      break;
  }
  return parts;
}

/// The reduction as [before, reduced, after], or the axes of the first group where they are not neighbours.
struct Form {
  int64_t before = 1, reduced = 1, after = 1;
  SmallVector<int64_t> laterAxes; // axes after a kept dim; empty when all are neighbours
};

Form formOf(ArrayRef<int64_t> shape, ArrayRef<int64_t> axes) {
  Form form;
  bool seenReduced = false, seenAfter = false;
  for (auto [i, size] : llvm::enumerate(shape)) {
    bool isReduced = llvm::is_contained(axes, static_cast<int64_t>(i));
    if (isReduced && seenAfter && size != 1)
      form.laterAxes.push_back(i);
    if (isReduced) {
      form.reduced *= size;
      seenReduced |= size != 1;
    } else {
      (seenReduced ? form.after : form.before) *= size;
      seenAfter |= seenReduced && size != 1;
    }
  }
  return form;
}

/// Sums over the middle of [before, count, after] in parts of `size`, the last one filled up with zeros:
/// [before, parts, after].
Value partialSums(Emit &b, Value x, const Form &form, int64_t size) {
  int64_t parts = llvm::divideCeil(form.reduced, size), missing = parts * size - form.reduced;
  x = b.pad(b.reshape(x, {form.before, form.reduced, form.after}), {0, 0, 0}, {0, missing, 0});
  x = b.reduceSum(b.reshape(x, {form.before * parts, size, form.after}), {1});
  return b.reshape(x, {form.before, parts, form.after});
}

/// What a reduction over no element gives.
template <typename Op>
double valueOfNone(Type element) {
  if (std::is_same_v<Op, ReduceSumOp>)
    return 0;
  if (std::is_same_v<Op, ReduceProdOp>)
    return 1;
  return isa<FloatType>(element) ? -std::numeric_limits<double>::infinity()
                                 : -std::ldexp(1.0, static_cast<int>(element.getIntOrFloatBitWidth()) - 1);
}

/// The replacement of a reduction in a form that needs no further splitting, or null where it is fine as it is.
template <typename Op>
Value split(Emit &b, Value operand, ArrayRef<int64_t> axes, const TargetModel &target) {
  RankedTensorType type = tensorType(operand);
  Form form = formOf(type.getShape(), axes);
  SmallVector<int64_t> result(type.getShape());
  for (int64_t axis : axes)
    result[axis] = 1;
  auto reduce = [&](Value x, ArrayRef<int64_t> over) -> Value {
    Value better = split<Op>(b, x, over, target);
    return better ? better : b.create<Op>(x, over);
  };
  if (llvm::any_of(axes, [&](int64_t axis) { return type.getDimSize(axis) == 0; }))
    return b.constant(valueOfNone<Op>(type.getElementType()), withShape(type, result));
  if (!form.laterAxes.empty()) {
    SmallVector<int64_t> rest;
    for (int64_t axis : axes)
      if (!llvm::is_contained(form.laterAxes, axis))
        rest.push_back(axis);
    return reduce(reduce(operand, form.laterAxes), rest);
  }
  if (form.after > 1 && form.reduced >= target.fewestRows) {
    int64_t parts = partCount(type.getShape(), axes, target.columnParts);
    if (std::is_same_v<Op, ReduceSumOp> && form.reduced / parts > mostRows) {
      int64_t size = largestDivisor(form.reduced, rowsOfPart);
      if (2 * size < rowsOfPart) // parts of nearly equal size instead
        size = llvm::divideCeil(form.reduced, llvm::divideCeil(form.reduced, rowsOfPart));
      return b.reshape(reduce(partialSums(b, operand, form, size), {1}), result);
    }
    if (parts == 1)
      return {};
    Value x = b.reshape(operand, {form.before * parts, form.reduced / parts, form.after});
    Value partial = b.reshape(b.create<Op>(x, ArrayRef<int64_t>{1}), {form.before, parts, form.after});
    return b.reshape(b.create<Op>(partial, ArrayRef<int64_t>{1}), result);
  }
  if (form.after == 1 && (form.reduced > endlessRow || (form.before < 2 && form.reduced > target.longestRow))) {
    int64_t size = form.before < 2 ? partSize(type.getShape(), target.longestPart)
                                   : largestDivisor(form.reduced, target.longestPart);
    if (size < target.shortestPart && std::is_same_v<Op, ReduceSumOp>)
      return b.reshape(reduce(partialSums(b, operand, form, target.longestPart), {1}), result);
    if (size < target.shortestPart)
      return {};
    Value x = b.reshape(operand, {form.before * (form.reduced / size), size});
    Value partial = b.reshape(b.create<Op>(x, ArrayRef<int64_t>{1}), {form.before, form.reduced / size});
    return b.reshape(reduce(partial, {1}), result);
  }
  return {};
}

template <typename Op>
void splitAll(func::FuncOp function, const TargetModel &target) {
  SmallVector<Op> work;
  function.walk([&](Op op) { work.push_back(op); });
  for (Op op : work) {
    OpBuilder builder(op);
    Emit b(builder, op.getLoc());
    // 16-bit sums and products are rounded once: their parts are f32.
    Type element = tensorType(op.getX()).getElementType();
    bool widened = !std::is_same_v<Op, ReduceMaxOp> && isa<FloatType>(element) && element.getIntOrFloatBitWidth() < 32;
    Value operand = widened ? b.cast(op.getX(), b.f32()) : op.getX();
    if (Value replacement = split<Op>(b, operand, op.getAxes(), target)) {
      op.getResult().replaceAllUsesWith(b.cast(replacement, element));
      op.erase();
    } else if (widened) {
      operand.getDefiningOp()->erase();
    }
  }
}

} // namespace

LogicalResult splitReductions(func::FuncOp function, const PipelineOptions &options) {
  splitAll<ReduceSumOp>(function, options.target);
  splitAll<ReduceMaxOp>(function, options.target);
  splitAll<ReduceProdOp>(function, options.target);
  return success();
}

} // namespace tcc
